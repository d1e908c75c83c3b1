"""A method of a model whose class only the run knows: it runs the model, or only changes it."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG301"

GROWING = """
        import copy

        class Generator(nn.Module):
            def __init__(self):
                super().__init__()
                self.size, self.blocks = 4, nn.Sequential(nn.Linear(1, 1))

            def grow_network(self, *given):
                {does}

            def forward(self, x):
                return self.blocks(x)

        class Runner:
            def __init__(self, G, D):
                self.G, self.D = G, D
                self.ema = copy.deepcopy(G.module).cpu()
                self.ema.eval()
                self.load(){mark}

            def load(self):
                size = 4
                while size < self.size:
                    {call}
                    self.G.to(self.device)
                    size *= 2
"""

CALLS = ["self.ema.grow_network()", "self.ema.grow_network(size)", "self.ema.grow_network(size, 'fade')"]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "does",
    [
        "self.size *= 2; self.blocks = nn.Sequential(*self.blocks, nn.Linear(3, 3))",
        "self.blocks.append(nn.Linear(3, 3)); return self",
        "self.blocks = nn.ModuleList([nn.Linear(self.size, 3), *self.blocks])",
        "return sum(p.numel() for p in self.parameters())",
    ],
)
def test_a_method_that_runs_nothing(call: str, does: str) -> None:
    assert_clean(GROWING.format(call=call, does=does, mark=""), CODE)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "does", ["return self.blocks(torch.randn(3, self.size))", "return self(torch.randn(3, self.size))"]
)
def test_a_method_that_runs_the_model(call: str, does: str) -> None:
    assert_flagged(GROWING.format(call=call, does=does, mark="  # !"), CODE)


@pytest.mark.parametrize("call", ["self.ema.decode_network()", "self.ema.grow_network(torch.randn(3, 1))"])
def test_what_no_class_here_has_or_what_is_given_a_tensor(call: str) -> None:
    assert_flagged(GROWING.format(call=call, does="pass", mark="  # !"), CODE)

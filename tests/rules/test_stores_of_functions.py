"""What the ``forward`` of an ``autograd.Function`` puts into a collection of its class, or of its module."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

QUANT = """
        SEEN = []

        class Quant(torch.autograd.Function):
            observed = []

            @staticmethod
            def forward(ctx, x, scale):
                inside = x.abs() <= scale
                ctx.save_for_backward(inside)
                Quant.observed.append(x)
                return (x / scale).round() * scale

            @staticmethod
            def backward(ctx, g):
                (inside,) = ctx.saved_tensors
                return g * inside, None

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 2)

            def forward(self, x):
                h = Quant.apply(self.one(x).relu(), 4.0)  # !
                return self.two(h)

        def train(loader):
            net = Net()
            optimizer = torch.optim.Adam(net.parameters())
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(len(SEEN))
"""
KEPT = "Quant.observed.append(x)"


@pytest.mark.parametrize("kept", [KEPT, "SEEN.append(x)", "SEEN.append((x, scale))"])
def test_what_it_is_given_is_kept_with_its_graph(kept: str) -> None:
    assert_flagged(QUANT.replace(KEPT, kept), "GG107")


@pytest.mark.parametrize(
    "edit",
    [
        (KEPT, "Quant.observed.append(x.detach())"),
        (KEPT, "Quant.observed.append(x * 2)"),  # nothing is recorded there
        (KEPT, "Quant.observed.append(x.abs().max().item())"),
        (KEPT, "Quant.observed = [x.detach()]"),
        (KEPT, "rows = []; rows.append(x)"),
        (KEPT, f"{KEPT}; del Quant.observed[:-8]"),
        (KEPT, f"{KEPT}\n                Quant.observed = Quant.observed[-8:]"),
        ("observed = []", "observed = deque(maxlen=8)"),
        ("print(len(SEEN))", "Quant.observed.clear()"),
        ("Quant.apply(self.one(x).relu(), 4.0)", "Quant.apply(self.one(x).detach(), 4.0)"),
    ],
)
def test_what_it_does_not_keep(edit: tuple[str, str]) -> None:
    assert_clean(twin(QUANT, edit), "GG107")

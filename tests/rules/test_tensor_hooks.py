"""Hooks on tensors: those on a parameter stay, those on a tensor of this iteration go with it."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG401"

TRAIN = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 3)
                self.gain = nn.Parameter(torch.ones(3))

            def forward(self, x):
                return self.fc(x) * self.gain

        def train(loader, clip):
            net = Net()
            offset = torch.zeros(3, requires_grad=True)
            opt = torch.optim.SGD([*net.parameters(), offset], lr=0.1)
            handles = []
            for step, (x, y) in enumerate(loader):
                out = net(x) + offset
                loss = F.mse_loss(out, y)
                opt.zero_grad()
                {registers}
                loss.backward()
                opt.step()
                {after}
"""


@pytest.mark.parametrize(
    "registers",
    [
        "net.fc.weight.register_hook(lambda g: g * 2)",
        "net.fc.weight.register_hook(lambda g, out=out.detach(): g * out.mean())",
        "handle = net.fc.bias.register_hook(clip)",
        "net.gain.register_hook(clip)",
        "offset.register_hook(lambda g: g.clamp(-1, 1))",
        "handles.append(offset.register_hook(clip))",
        "net.fc.weight.register_post_accumulate_grad_hook(clip)",
    ],
)
def test_on_what_stays(registers: str) -> None:
    assert_flagged(TRAIN.format(registers=registers + "  # !", after="pass"), CODE)


@pytest.mark.parametrize(
    ("registers", "after"),
    [
        ("out.register_hook(clip)", "pass"),
        ("loss.register_hook(lambda g: g * 2)", "pass"),
        ("h = x.requires_grad_(); h.register_hook(clip)", "pass"),
        ("x.requires_grad_(); x.register_hook(clip)", "pass"),
        ("x = x.clone().requires_grad_(); x.register_hook(clip)", "pass"),
        ("point = torch.zeros(3, requires_grad=True); point.register_hook(clip)", "pass"),
        ("head = nn.Linear(3, 3); head.weight.register_hook(clip)", "pass"),
        ("handle = net.fc.weight.register_hook(clip)", "handle.remove()"),
        ("handles.append(offset.register_hook(clip))", "while handles: handles.pop().remove()"),
        ("net.fc.weight.register_hook(clip)", "net.fc.weight._backward_hooks.clear()"),
        ("net.fc.weight.register_hook(clip)", "net.fc.weight._backward_hooks = None"),
        ("if step == 0: net.fc.weight.register_hook(clip)", "pass"),
        ("if not handles: handles.append(net.gain.register_hook(clip))", "pass"),
        ("(net.fc.weight * 2).register_hook(clip)", "pass"),
    ],
)
def test_on_what_goes_or_is_removed(registers: str, after: str) -> None:
    assert_clean(TRAIN.format(registers=registers, after=after), CODE)


def test_once_before_the_loop() -> None:
    once = ("handles = []", "handles = [p.register_hook(clip) for p in net.parameters()]")
    assert_clean(twin(TRAIN.format(registers="pass", after="pass"), once), CODE)


def test_on_each_attack_in_its_own_loop() -> None:
    assert_clean(
        """
        def attack(net, loader, clip):
            for x, y in loader:
                delta = torch.zeros_like(x, requires_grad=True)
                for _ in range(9):
                    delta.register_hook(clip)
                    F.cross_entropy(net(x + delta), y).backward()
        """,
        CODE,
    )


def test_on_a_module_that_is_cleared() -> None:
    assert_clean(
        """
        def run(net, loader, save):
            with torch.no_grad():
                for x in loader:
                    net.fc.register_forward_hook(save)
                    net(x)
                    net.fc._forward_hooks.clear()
        """,
        CODE,
    )


REPORTED = """
        class Report:
            def __init__(self, model):
                self.norms = dict()
                for name, p in model.named_parameters():
                    {registers}

            def write(self, grad):
                self.norms["last"] = grad.norm()

            def close(self):
                for handle in self.handles:
                    handle.remove()

        def train_step(net, opt, x):
            {here}
            loss = net(x).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            {after}
            return loss.item()

        def main(net, loader):
            opt = torch.optim.Adam(net.parameters())
            {before}
            for x in loader:
                train_step(net, opt, x)
"""


def reported(
    registers: str, *, here: str = "report = Report(net)", after: str = "pass", before: str = "print(len(loader))"
) -> str:
    return REPORTED.format(registers=registers, here=here, after=after, before=before)


@pytest.mark.parametrize(
    "registers",
    [
        "p.register_hook(self.write)  # !",
        "p.register_hook(lambda g: print(g.norm()))  # !",
        "p.register_post_accumulate_grad_hook(self.write)  # !",
    ],
)
def test_an_object_of_each_step_registers_on_parameters(registers: str) -> None:
    assert_flagged(reported(registers), CODE)


def test_a_step_that_registers_on_parameters() -> None:
    here = "for p in net.parameters(): p.register_hook(print)  # !"
    assert_flagged(reported("print(p)", here=here), CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        reported("p.register_hook(self.write)", here="pass", before="Report(net)"),
        reported("p.register_hook(self.write).remove()"),
        reported("self.handles.append(p.register_hook(self.write))", after="report.close()"),
        reported("print(p.shape)"),
        reported("p.view(-1).register_hook(self.write)"),
        reported("print(p)", here="for p in [x * 1.0]: p.register_hook(print)"),
    ],
)
def test_hooks_on_parameters_that_do_not_pile_up(snippet: str) -> None:
    assert_clean(snippet, CODE)

"""Parameters that an optimizer has and that get no gradient; and trainings that look alike and are right."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gradguard.report.run_words import headline  # noqa: E402
from gradguard.runtime.unreached import LOOKS  # noqa: E402
from gradguard.runtime.watch import Watch  # noqa: E402

STEPS = LOOKS[-1] + 16


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.head = nn.Linear(16, 4)
        self.spare = nn.Linear(1, 2)

    def encode(self, x: Any) -> Any:
        return self.encoder(x)

    def forward(self, x: Any) -> Any:
        return self.head(self.encode(x))


class Blind(Net):
    def encode(self, x: Any) -> Any:
        with torch.no_grad():
            return self.encoder(x)


class Late(Net):
    calls = 0

    def encode(self, x: Any) -> Any:
        self.calls += 1
        return self.encoder(x) if self.calls > LOOKS[1] else self.encoder(x).detach()


def said(training: Callable[[], object]) -> list[str]:
    """What is said of parameters without gradients, in a run of ``training``."""
    with Watch() as guard:
        training()
    assert guard.report is not None
    notes = [note for note in guard.report.notes if "has had a gradient" in note or "have had no gradient" in note]
    assert not [note for note in guard.report.notes if "failed" in note]
    assert ("gradients are not" in headline(guard.report)) is any("(GG209)" in note for note in notes)
    return notes


def train(net: Any, parameters: Any, loss: Callable[[Any], Any] = lambda out: out.square().mean()) -> None:
    optimizer = torch.optim.Adam(parameters, 1e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(net(torch.randn(8, 8))).backward()
        optimizer.step()


def test_an_encoder_under_no_grad() -> None:
    def training() -> None:
        net = Blind()
        train(net, net.parameters())

    (note,) = said(training)
    assert note.startswith(
        "`train.optimizer` (Adam) steps, and 4 of its 6 parameters have had no gradient in its first"
    )
    assert "`train.net.encoder.0.weight`" in note
    assert "head" not in note
    assert "(GG209)" not in note


def test_what_an_optimizer_has_is_copied_into_what_is_used() -> None:
    def training() -> None:
        maker, net = nn.Linear(4, 8 * 4), nn.Linear(8, 4, bias=False)

        def loss(out: Any) -> Any:
            net.weight.data.copy_(maker(torch.ones(4)).view(4, 8))
            return out.square().mean()

        train(net, maker.parameters(), loss)

    (note,) = said(training)
    assert "none of its parameters has had a gradient" in note
    assert note.endswith("(GG209)?")


def test_a_leaf_that_is_made_of_the_loss() -> None:
    def training() -> None:
        net = Net()
        train(net, net.parameters(), lambda out: torch.tensor(out.square().mean().item(), requires_grad=True))

    (note,) = said(training)
    assert "none of its parameters" in note


def _all_of_it() -> None:
    net = Net()
    train(net, net.parameters())  # without its spare part, which is small


def _frozen() -> None:
    net = Blind()
    net.encoder.requires_grad_(False)
    train(net, net.parameters())


def _its_own_part() -> None:
    net = Blind()
    train(net, net.head.parameters())


def _thawed() -> None:
    net = Late()
    train(net, net.parameters())


def _a_teacher() -> None:
    student = Net()
    teacher = copy.deepcopy(student).requires_grad_(False)
    train(student, student.parameters(), lambda out: (out - teacher(torch.ones(8, 8))).square().mean())


def _gradients_that_the_step_drops() -> None:
    class Drops(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            super().step(closure)
            self.zero_grad()

    net = Net()
    optimizer = Drops(net.parameters(), 1e-3)
    for _ in range(STEPS):
        net(torch.randn(8, 8)).square().mean().backward()
        optimizer.step()


def _a_heads_turn() -> None:
    nets = [nn.Linear(8, 4) for _ in range(3)]
    optimizer = torch.optim.SGD([p for net in nets for p in net.parameters()], 1e-3)
    for step in range(STEPS):
        optimizer.zero_grad()
        nets[step % 3](torch.randn(8, 8)).square().mean().backward()
        optimizer.step()


def _moved_besides() -> None:
    """What one optimizer passes over is moved by hand."""
    net = Blind()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(torch.randn(8, 8)).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for parameter in net.encoder.parameters():
                parameter.mul_(0.999)


@pytest.mark.parametrize(
    "training",
    [
        _all_of_it,
        _frozen,
        _its_own_part,
        _thawed,
        _a_teacher,
        _gradients_that_the_step_drops,
        _a_heads_turn,
        _moved_besides,
    ],
)
def test_nothing_is_said(training: Callable[[], None]) -> None:
    assert said(training) == []

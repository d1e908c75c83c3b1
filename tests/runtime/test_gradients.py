"""Gradients that nothing clears between two steps of their optimizer; and many ways to clear them that are right."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gradguard.runtime import gradients  # noqa: E402
from gradguard.runtime.torch_internals import TorchInternals  # noqa: E402
from gradguard.runtime.watch import Watch  # noqa: E402

STEPS = 40


class Trainer:
    """Has its optimizers in a dict."""

    def __init__(self) -> None:
        self.nets = {name: nn.Linear(4, 1) for name in ("generator", "critic")}
        self.optimizers = {name: torch.optim.SGD(net.parameters(), lr=1e-3) for name, net in self.nets.items()}

    def turn(self, trained: str, cleared: str) -> None:
        self.optimizers[cleared].zero_grad()
        sum(net(torch.randn(8, 4)).square().mean() for net in self.nets.values()).backward()
        self.optimizers[trained].step()


def said(loop: Callable[[nn.Module, Any], object]) -> list[str]:
    """What is said of gradients in a run of ``loop``."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with Watch() as guard:
        loop(model, optimizer)
    assert guard.report is not None
    assert not [note for note in guard.report.notes if "failed" in note]
    return [note for note in guard.report.notes if "GG201" in note]


def loss_of(model: nn.Module) -> Any:
    return model(torch.randn(8, 4)).square().mean()


def never(model: nn.Module, optimizer: Any) -> None:
    for _ in range(STEPS):
        loss_of(model).backward()
        optimizer.step()


def once_before_the_loop(model: nn.Module, optimizer: Any) -> None:
    optimizer.zero_grad()
    never(model, optimizer)


def after_each_epoch(model: nn.Module, optimizer: Any) -> None:
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(STEPS):
            loss_of(model).backward()
            optimizer.step()


def of_another_optimizer(model: nn.Module, optimizer: Any) -> None:
    trainer = Trainer()
    for _ in range(STEPS):
        trainer.turn("critic", "critic")
        trainer.turn("generator", "critic")


def in_a_closure_that_forgets(model: nn.Module, optimizer: Any) -> None:
    second_order = torch.optim.LBFGS(model.parameters(), lr=1e-3, max_iter=4)

    def closure() -> Any:
        loss = loss_of(model)
        loss.backward()
        return loss

    for _ in range(STEPS):
        second_order.step(closure)


def every_other_step(model: nn.Module, optimizer: Any) -> None:
    for step in range(STEPS):
        if step % 2:
            optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


def for_each_task(model: nn.Module, optimizer: Any) -> None:
    for _ in range(STEPS):
        model.zero_grad()
        for _task in range(3):
            loss_of(model).backward()
            optimizer.step()


def for_each_short_epoch(model: nn.Module, optimizer: Any) -> None:
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        for _ in range(5):
            loss_of(model).backward()
            optimizer.step()


def _heads_in_turn(clear: Callable[[Any, int], object]) -> None:
    """Each step goes through one of two heads of a model."""
    trunk, heads = nn.Linear(4, 8), nn.ModuleList(nn.Linear(8, 1) for _ in range(2))
    optimizer = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=1e-3)
    for step in range(STEPS):
        clear(optimizer, step)
        heads[step % 2](trunk(torch.randn(8, 4))).square().mean().backward()
        optimizer.step()


def never_of_two_heads(model: nn.Module, optimizer: Any) -> None:
    _heads_in_turn(lambda _, step: None)


def once_for_two_heads(model: nn.Module, optimizer: Any) -> None:
    _heads_in_turn(lambda optimizer, step: step % 2 or optimizer.zero_grad())


@pytest.mark.parametrize("loop", [every_other_step, for_each_task, for_each_short_epoch, once_for_two_heads])
def test_gradients_that_are_cleared_once_in_some_steps_are_told(loop: Callable[[nn.Module, Any], object]) -> None:
    (note,) = said(loop)
    assert "once in some steps only" in note


@pytest.mark.parametrize(
    "loop",
    [
        never,
        once_before_the_loop,
        after_each_epoch,
        of_another_optimizer,
        in_a_closure_that_forgets,
        never_of_two_heads,
    ],
)
def test_gradients_that_add_up_are_told_once(loop: Callable[[nn.Module, Any], object]) -> None:
    assert len(said(loop)) == 1


def test_it_says_which_optimizer_and_where_it_steps() -> None:
    (note,) = said(of_another_optimizer)
    assert '`Trainer.optimizers["generator"]` (SGD)' in note
    assert "test_gradients.py:" in note


def before_backward(model: nn.Module, optimizer: Any) -> None:
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


def to_zeros(model: nn.Module, optimizer: Any) -> None:
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        loss_of(model).backward()
        optimizer.step()


def after_the_step(model: nn.Module, optimizer: Any) -> None:
    for _ in range(STEPS):
        loss_of(model).backward()
        optimizer.step()
        model.zero_grad()


def by_hand(model: nn.Module, optimizer: Any) -> None:
    for _ in range(STEPS):
        for parameter in model.parameters():
            parameter.grad = None
        loss_of(model).backward()
        optimizer.step()


def in_place_by_hand(model: nn.Module, optimizer: Any) -> None:
    for _ in range(STEPS):
        loss_of(model).backward()
        optimizer.step()
        for parameter in model.parameters():
            parameter.grad.detach_().zero_()


def accumulated(model: nn.Module, optimizer: Any) -> None:
    for step in range(4 * STEPS):
        (loss_of(model) / 4).backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def in_turns(model: nn.Module, optimizer: Any) -> None:
    trainer = Trainer()
    for _ in range(STEPS):
        trainer.turn("critic", "critic")
        trainer.turn("generator", "generator")


def in_a_closure(model: nn.Module, optimizer: Any) -> None:
    second_order = torch.optim.LBFGS(model.parameters(), lr=1e-3, max_iter=4)

    def closure() -> Any:
        second_order.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    for _ in range(STEPS):
        second_order.step(closure)


def set_from_elsewhere(model: nn.Module, optimizer: Any) -> None:
    """A shared model takes the gradients of a worker's (A3C); nothing is added to them."""
    local = nn.Linear(4, 1)
    shared = nn.Linear(4, 1)
    stepping = torch.optim.SGD(shared.parameters(), lr=1e-3)
    for _ in range(STEPS):
        local.zero_grad()
        loss_of(local).backward()
        for mine, theirs in zip(shared.parameters(), local.parameters()):
            mine.grad = theirs.grad
        stepping.step()


def written_over(model: nn.Module, optimizer: Any) -> None:
    """Gradients of two tasks in turn: each is copied over the last one, while another network learns."""
    another = nn.Linear(4, 1)
    parameters = list(model.parameters())
    loss_of(model).backward()
    for _ in range(STEPS):
        new = torch.autograd.grad(loss_of(model), parameters)
        another.zero_grad()
        loss_of(another).backward()
        for parameter, gradient in zip(parameters, new):
            parameter.grad.copy_(gradient)
        optimizer.step()


def without_backward(model: nn.Module, optimizer: Any) -> None:
    parameters = list(model.parameters())
    for _ in range(STEPS):
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss_of(model), parameters)):
            parameter.grad = gradient
        optimizer.step()


def a_new_model_each_time(model: nn.Module, optimizer: Any) -> None:
    for _ in range(STEPS):
        fresh = nn.Linear(4, 1)
        torch.optim.SGD(fresh.parameters(), lr=1e-3)
        loss_of(fresh).backward()


def frozen_later(model: nn.Module, optimizer: Any) -> None:
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        if step == 5:
            model[0].requires_grad_(False)


def once_skipped(model: nn.Module, optimizer: Any) -> None:
    """One batch in the warm-up is used twice: a step or two say nothing of the others."""
    for step in range(STEPS):
        if step not in (4, 9):
            optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


def twice_for_one_backward(model: nn.Module, optimizer: Any) -> None:
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        optimizer.step()


def another_network_uses_it(model: nn.Module, optimizer: Any) -> None:
    """A critic is cleared before its own backward; that of the actor, which goes through it, adds to it too."""
    actor = nn.Linear(4, 4)
    acting = torch.optim.SGD(actor.parameters(), lr=1e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        if _ % 2:
            acting.zero_grad()
            model(actor(torch.randn(8, 4))).mean().backward()
            acting.step()


def seldom_reached(model: nn.Module, optimizer: Any) -> None:
    """Another network learns in between: a step whose gradients no backward has reached need not be cleared before."""
    another = nn.Linear(4, 1)
    for step in range(STEPS):
        if step % 3 == 0:
            optimizer.zero_grad()
            loss_of(model).backward()
        else:
            another.zero_grad()
            loss_of(another).backward()
        optimizer.step()


def before_each_head(model: nn.Module, optimizer: Any) -> None:
    _heads_in_turn(lambda optimizer, step: optimizer.zero_grad())


def to_zeros_before_each_head(model: nn.Module, optimizer: Any) -> None:
    _heads_in_turn(lambda optimizer, step: optimizer.zero_grad(set_to_none=False))


def another_head_on_a_cleared_trunk(model: nn.Module, optimizer: Any) -> None:
    """What clears the trunk clears all that the next backward reaches; a head that waits keeps its gradient."""
    heads = [nn.Linear(1, 1) for _ in range(2)]
    stepping = torch.optim.SGD([*model.parameters(), *heads[0].parameters(), *heads[1].parameters()], lr=1e-3)
    for step in range(STEPS):
        head = heads[step % 2]
        model.zero_grad()
        head.zero_grad()
        head(model(torch.randn(8, 4))).square().mean().backward()
        stepping.step()


@pytest.mark.parametrize(
    "loop",
    [
        before_each_head,
        to_zeros_before_each_head,
        another_head_on_a_cleared_trunk,
        seldom_reached,
        once_skipped,
        twice_for_one_backward,
        another_network_uses_it,
        before_backward,
        to_zeros,
        after_the_step,
        by_hand,
        in_place_by_hand,
        accumulated,
        in_turns,
        in_a_closure,
        set_from_elsewhere,
        written_over,
        without_backward,
        a_new_model_each_time,
        frozen_later,
    ],
)
def test_of_gradients_that_are_cleared_nothing_is_said(loop: Callable[[nn.Module, Any], object]) -> None:
    assert said(loop) == []


def test_it_looks_at_a_few_steps_only_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "CALLS", 10)
    hooks = import_module("torch.optim.optimizer")._global_optimizer_post_hooks
    before = len(hooks)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with Watch():
        import_module("torch.optim.optimizer").register_optimizer_step_post_hook(lambda *_: None)
        before_backward(model, optimizer)
    assert len(hooks) == before + 1
    hooks.popitem()


class Twice(torch.optim.SGD):
    """Steps within its own step, as whoever wraps an optimizer does."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


def test_a_step_within_a_step_is_one() -> None:
    def loop(model: nn.Module, optimizer: Any) -> None:
        twice = Twice(model.parameters(), lr=1e-3)
        for _ in range(gradients.WARM_UP + 1 + gradients.WINDOWS):
            loss_of(model).backward()
            twice.step()

    assert len(said(loop)) == 1


def test_while_a_cuda_graph_is_captured_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TorchInternals, "is_capturing", lambda self: True)
    monkeypatch.setattr(gradients, "_is_clear", lambda parameter: pytest.fail("a value was read"))
    assert said(never) == []

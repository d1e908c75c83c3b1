"""Parameters that get gradients and are in no optimizer; and many trainings that look alike and are right."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gradguard.runtime import leaves  # noqa: E402
from gradguard.runtime.watch import Watch  # noqa: E402

STEPS = 80


class Net(nn.Module):
    """A backbone, a head, and a weight of the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 1)
        self.log_scale = nn.Parameter(torch.zeros(()))

    def loss(self) -> Any:
        return self.head(self.backbone(torch.randn(8, 4))).square().mean() * self.log_scale.exp() - self.log_scale

    def all_but_the_scale(self) -> list[Any]:
        return [*self.backbone.parameters(), *self.head.parameters()]


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=1e-3)


def said(training: Callable[[Net], object]) -> list[str]:
    """What is said of parameters in no optimizer, in a run of ``training``."""
    net = Net()
    with Watch() as guard:
        training(net)
    assert guard.report is not None
    assert not [note for note in guard.report.notes if "failed" in note]
    return [note for note in guard.report.notes if "no optimizer" in note]


def train(net: Net, optimizer: Any, after: Callable[[int], object] = lambda step: None) -> None:
    for step in range(STEPS):
        optimizer.zero_grad()
        net.loss().backward()
        optimizer.step()
        after(step)


def test_a_weight_of_the_loss_that_no_optimizer_has() -> None:
    (note,) = said(lambda net: train(net, sgd(net.all_but_the_scale())))
    assert note.startswith("`train.net.log_scale` gets a gradient")


def test_a_backbone_that_is_not_frozen() -> None:
    (note,) = said(lambda net: train(net, sgd([*net.head.parameters(), net.log_scale])))
    who, _ = note.split(" get gradients")
    assert sorted(who.split(" and ")) == ["`train.net.backbone.0.bias`", "`train.net.backbone.0.weight`"]
    assert "(160 bytes)" in note


def test_an_input_that_is_kept_by_an_object() -> None:
    class Game:
        def __init__(self) -> None:
            self.temperature = torch.ones((), requires_grad=True)

        def play(self, net: Net) -> None:
            optimizer = sgd(net.parameters())
            for _ in range(STEPS):
                optimizer.zero_grad()
                (net.loss() * self.temperature).backward()
                optimizer.step()

    (note,) = said(Game().play)
    assert "`Game.temperature` gets" in note


def frozen(net: Net) -> None:
    net.log_scale.requires_grad_(False)
    train(net, sgd(net.all_but_the_scale()))


def whole_model_is_cleared(net: Net) -> None:
    optimizer = sgd(net.all_but_the_scale())
    for _ in range(STEPS):
        net.zero_grad()
        net.loss().backward()
        optimizer.step()


def cleared_in_place(net: Net) -> None:
    train(net, sgd(net.all_but_the_scale()), lambda step: net.log_scale.grad.zero_())


def cleared_now_and_then(net: Net) -> None:
    train(
        net, sgd(net.all_but_the_scale()), lambda step: setattr(net.log_scale, "grad", None) if step % 7 == 0 else None
    )


def stepped_by_hand(net: Net) -> None:
    def step(_: int) -> None:
        net.log_scale.data -= 1e-3 * net.log_scale.grad

    train(net, sgd(net.all_but_the_scale()), step)


def stepped_under_no_grad(net: Net) -> None:
    @torch.no_grad()
    def step(_: int) -> None:
        net.log_scale -= 1e-3 * net.log_scale.grad

    train(net, sgd(net.all_but_the_scale()), step)


def a_second_optimizer_that_steps_rarely(net: Net) -> None:
    slow = sgd([net.log_scale])
    train(net, sgd(net.all_but_the_scale()), lambda step: slow.step() if step % 60 == 59 else None)


def given_to_an_optimizer_later(net: Net) -> None:
    optimizers = [sgd(net.all_but_the_scale())]

    def step(number: int) -> None:
        if number == 30:
            optimizers.append(sgd([net.log_scale]))

    train(net, optimizers[0], step)


def given_to_the_optimizer_later(net: Net) -> None:
    optimizer = sgd(net.all_but_the_scale())
    train(net, optimizer, lambda step: optimizer.add_param_group({"params": [net.log_scale]}) if step == 30 else None)


def an_optimizer_for_each_round(net: Net) -> None:
    for _ in range(STEPS // 8):
        optimizer = sgd(net.parameters())
        for _ in range(8):
            optimizer.zero_grad()
            net.loss().backward()
            optimizer.step()


def a_leaf_made_anew_in_each_step(net: Net) -> None:
    optimizer = sgd(net.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        noise = torch.zeros((), requires_grad=True)
        (net.loss() + noise.square()).backward()
        optimizer.step()


def gradients_asked_for_by_hand(net: Net) -> None:
    optimizer = sgd(net.all_but_the_scale())
    for _ in range(STEPS):
        for parameter, gradient in zip(
            net.all_but_the_scale(), torch.autograd.grad(net.loss(), net.all_but_the_scale()), strict=True
        ):
            parameter.grad = gradient
        optimizer.step()


def no_optimizer_yet(net: Net) -> None:
    for _ in range(STEPS):
        net.loss().backward()


def a_short_run(net: Net) -> None:
    optimizer = sgd(net.all_but_the_scale())
    for _ in range(20):
        optimizer.zero_grad()
        net.loss().backward()
        optimizer.step()


@pytest.mark.parametrize(
    "training",
    [
        frozen,
        whole_model_is_cleared,
        cleared_in_place,
        cleared_now_and_then,
        stepped_by_hand,
        stepped_under_no_grad,
        a_second_optimizer_that_steps_rarely,
        given_to_an_optimizer_later,
        given_to_the_optimizer_later,
        an_optimizer_for_each_round,
        a_leaf_made_anew_in_each_step,
        gradients_asked_for_by_hand,
        no_optimizer_yet,
        a_short_run,
    ],
)
def test_nothing_is_said_of(training: Callable[[Net], object]) -> None:
    assert said(training) == []


def moved(training: Callable[[Net], object]) -> list[str]:
    """What is said of parameters that the program moves itself."""
    net = Net()
    with Watch() as guard:
        training(net)
    assert guard.report is not None
    assert not [note for note in guard.report.notes if "failed" in note]
    return [note for note in guard.report.notes if "without an optimizer" in note]


def by_hand(net: Net, after: Callable[[Any], object] = lambda parameter: None, every: int = 1) -> None:
    for step in range(STEPS):
        net.loss().backward()
        for parameter in net.parameters() if step % every == 0 else ():
            with torch.no_grad():
                parameter -= 1e-4 * parameter.grad
            after(parameter)


def by_hand_through_data(net: Net) -> None:
    for _ in range(STEPS):
        net.loss().backward()
        for parameter in net.parameters():
            parameter.data.add_(parameter.grad.data, alpha=-1e-4)


def test_parameters_that_the_program_moves_along_sums_of_gradients() -> None:
    (note,) = moved(by_hand)
    assert "`by_hand.net." in note
    assert "change between the backwards" in note
    assert "(GG201)" in note


@pytest.mark.parametrize("training", [by_hand_through_data, lambda net: by_hand(net, every=4)])
def test_however_and_how_often_it_moves_them(training: Callable[[Net], object]) -> None:
    assert len(moved(training)) == 1


def a_tensor_of_a_loop(_: Net) -> None:
    weight = torch.zeros(3, requires_grad=True)
    for _ in range(STEPS):
        (torch.randn(3) @ weight - 1).square().backward()
        weight.data = weight.data - 1e-3 * weight.grad


def test_one_tensor_has_its_name() -> None:
    (note,) = moved(a_tensor_of_a_loop)
    assert note.startswith("`a_tensor_of_a_loop.weight` changes")


def replaced_by_another(net: Net) -> None:
    for _ in range(STEPS):
        net.zero_grad()
        net.loss().backward()
        for parameter in net.parameters():
            parameter.data -= 1e-4 * parameter.grad


def an_optimizer_that_comes_later(net: Net) -> None:
    for _ in range(10):
        net.loss().backward()
    train(net, sgd(net.parameters()))


@pytest.mark.parametrize(
    "training",
    [
        lambda net: by_hand(net, lambda parameter: parameter.grad.zero_()),
        lambda net: by_hand(net, lambda parameter: parameter.grad.data.zero_()),
        lambda net: by_hand(net, lambda parameter: parameter.grad.data.zero_(), every=4),
        lambda net: by_hand(net, lambda parameter: setattr(parameter, "grad", None)),
        lambda net: by_hand(net, lambda parameter: parameter.grad.mul_(0.9)),  # momentum
        replaced_by_another,
        an_optimizer_that_comes_later,
        no_optimizer_yet,
        lambda net: train(net, sgd(net.parameters())),
    ],
)
def test_nothing_is_said_of_moves_with_gradients_of_their_own(training: Callable[[Net], object]) -> None:
    assert moved(training) == []


def test_what_another_thread_backpropagates_is_not_counted() -> None:
    def in_between(_: Net) -> None:
        weight = torch.zeros(3, requires_grad=True)
        for step in range(STEPS):
            (torch.randn(3) @ weight - 1).square().backward()
            weight.data -= 1e-3 * weight.grad
            if step == 20:
                other = threading.Thread(target=lambda: by_hand(Net(), lambda each: each.grad.zero_()))
                other.start()
                other.join()

    (note,) = moved(in_between)
    assert note.startswith("`in_between.weight` changes")


# --- what comes later ---------------------------------------------------------------------------------------------


def _grown(at: int, steps: int, after: Callable[[Net, Any], object] = lambda net, optimizer: None) -> list[str]:
    """What is said where a head is replaced by a new one after some steps, and the optimizer is not told."""

    def training(net: Net) -> None:
        optimizer = sgd(net.parameters())
        for step in range(steps):
            if step == at:
                net.head = nn.Linear(8, 1)
                after(net, optimizer)
            optimizer.zero_grad()
            net.loss().backward()
            optimizer.step()

    return said(training)


@pytest.mark.parametrize("at", [60, 90, 140])
def test_a_head_that_is_replaced_when_the_optimizer_has_the_old_one(at: int) -> None:
    (note,) = _grown(at, 300)
    assert "`said.net.head.weight`" in note or "`training.net.head.weight`" in note
    assert "are in no optimizer" in note


def _given(net: Net, optimizer: Any) -> None:
    optimizer.add_param_group({"params": list(net.head.parameters())})


def _frozen_then(net: Net, optimizer: Any) -> None:
    net.head.requires_grad_(False)


def _with_one_of_its_own(net: Net, optimizer: Any) -> None:
    optimizer.register_step_post_hook(lambda *_: own.step())
    optimizer.register_step_post_hook(lambda *_: own.zero_grad())
    own = sgd(net.head.parameters())


def _whole_model_is_cleared(net: Net, optimizer: Any) -> None:
    optimizer.register_step_pre_hook(lambda *_: net.head.zero_grad())


def _cleared_through_data(net: Net, optimizer: Any) -> None:
    def clear(*_: Any) -> None:
        for parameter in net.head.parameters():
            parameter.grad.data.zero_()

    optimizer.register_step_post_hook(clear)


@pytest.mark.parametrize(
    "after", [_given, _frozen_then, _with_one_of_its_own, _whole_model_is_cleared, _cleared_through_data]
)
@pytest.mark.parametrize("at", [60, 140])
def test_a_head_that_is_replaced_and_looked_after(at: int, after: Callable[[Net, Any], object]) -> None:
    assert _grown(at, 300, after) == []


@pytest.mark.parametrize("to_none", [True, False])
def test_a_steady_training_is_not_searched_for_optimizers(to_none: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is a walk over all objects: once early in a run, and not again, where each leaf is stepped."""
    searched = []
    optimized = leaves.optimized
    monkeypatch.setattr(leaves, "optimized", lambda internals: searched.append(1) or optimized(internals))

    def training(net: Net) -> None:
        optimizer = sgd(net.parameters())
        for _ in range(600):
            optimizer.zero_grad(set_to_none=to_none)
            net.loss().backward()
            optimizer.step()

    assert said(training) == []
    assert len(searched) <= 2

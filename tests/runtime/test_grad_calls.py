"""Steps of programs that ask ``torch.autograd.grad`` and update their parameters by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import grad as asked_before  # noqa: E402

import gradguard  # noqa: E402
from gradguard.findings import RunReport  # noqa: E402
from gradguard.runtime.grad_calls import ENGINE  # noqa: E402

ENGINE_OF_TORCH = getattr(torch.autograd, ENGINE)


def by_hand(
    steps: int, keep: Callable[[torch.Tensor], object], grad: Callable[..., object] = torch.autograd.grad
) -> None:
    weights = [torch.randn(8, 16, requires_grad=True), torch.randn(16, 1, requires_grad=True)]
    for _ in range(steps):
        loss = (torch.tanh(torch.randn(32, 8) @ weights[0]) @ weights[1]).square().mean()
        gradients = grad(loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients):  # type: ignore[call-overload]
                weight.sub_(0.01 * gradient)
        keep(loss)


def watched(body: Callable[[], object]) -> RunReport:
    with gradguard.watch(report=False) as guard:
        body()
    assert guard.report is not None
    return guard.report


@pytest.mark.parametrize("grad", [torch.autograd.grad, asked_before])
def test_a_program_without_optimizer_and_module(grad: Callable[..., object]) -> None:
    kept: list[torch.Tensor] = []
    report = watched(lambda: by_hand(120, kept.append, grad))
    assert (report.verdict, report.step_source) == ("leak", "backward")
    assert [leak.holder.name for leak in report.leaks if leak.holder] == ["kept"]
    assert abs(report.steps - 120) <= 1


def test_such_a_program_that_keeps_numbers() -> None:
    kept: list[float] = []
    report = watched(lambda: by_hand(120, lambda loss: kept.append(loss.item())))
    assert (report.verdict, report.steps > 110) == ("clean", True)


def test_a_step_that_asks_in_several_places_is_one() -> None:
    """By way of a setup that asks once: a penalty on the gradient, and its gradient."""
    kept: list[torch.Tensor] = []
    weights = [torch.randn(8, 4, requires_grad=True), torch.zeros(4, requires_grad=True)]

    def objective() -> torch.Tensor:
        return torch.sigmoid(torch.randn(16, 8) @ weights[0] + weights[1]).square().mean()

    def body() -> None:
        scale = torch.autograd.grad(objective(), weights)[0].norm().item()
        for _ in range(100):
            gradients = torch.autograd.grad(objective(), weights, create_graph=True)
            penalty = sum(gradient.square().sum() for gradient in gradients)
            changes = torch.autograd.grad(penalty, weights)
            with torch.no_grad():
                for weight, change in zip(weights, changes):
                    weight.sub_(change / (1 + scale))
            kept.append(penalty)

    report = watched(body)
    assert report.verdict == "leak"
    assert abs(report.steps - 100) <= 1


def test_an_optimizer_ends_the_steps_though_gradients_are_asked_for() -> None:
    """A penalty on the gradient, twice in each step."""
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.01)
    in_steps: list[bool] = []

    def body() -> None:
        for _ in range(40):
            optimizer.zero_grad()
            for _ in range(2):
                (gradient,) = torch.autograd.grad(weight.pow(3).sum(), weight, create_graph=True)
            gradient.square().sum().backward()
            optimizer.step()
            in_steps.append(getattr(torch.autograd, ENGINE) is ENGINE_OF_TORCH)

    report = watched(body)
    assert (report.steps, report.step_source) == (40, "optimizer")
    assert all(in_steps[1:])


def test_backward_ends_the_steps_though_gradients_are_asked_for_later() -> None:
    weight = torch.ones(4, requires_grad=True)

    def body() -> None:
        for _ in range(40):
            weight.pow(3).sum().backward()
            torch.autograd.grad(weight.square().sum(), weight)

    report = watched(body)
    assert report.step_source == "backward"
    assert abs(report.steps - 40) <= 1


def test_torch_has_its_own_function_back() -> None:
    def fails() -> None:
        with gradguard.watch(report=False):
            replaced.append(getattr(torch.autograd, ENGINE) is not ENGINE_OF_TORCH)
            torch.autograd.grad(torch.ones(1), torch.ones(1))

    replaced: list[bool] = []
    with pytest.raises(RuntimeError, match="does not require grad"):
        fails()
    assert replaced == [True]
    assert getattr(torch.autograd, ENGINE) is ENGINE_OF_TORCH


def test_watches_within_each_other_put_it_back() -> None:
    weight = torch.ones(4, requires_grad=True)
    with gradguard.watch(report=False):
        with gradguard.watch(report=False):
            weight.sum().backward()
        torch.autograd.grad(weight.sum(), weight)
    assert getattr(torch.autograd, ENGINE) is ENGINE_OF_TORCH

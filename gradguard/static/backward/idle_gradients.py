"""Backwards that compute the gradients of networks which nothing trains: a teacher, a target, pretrained features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.filled import goes_through
from gradguard.static.backward.idle_networks import idle_network
from gradguard.static.backward.taken_layers import idle_layers
from gradguard.static.mistakes.backward import IdleGradients
from gradguard.static.model import Backward, Forward, Mode, Step
from gradguard.static.optimizers.optimized import overlap
from gradguard.static.program.paths import is_part
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def idle_gradients(flow: Flow) -> Iterator[IdleGradients]:
    """The networks that a backward of a training goes through with their graph, and that no optimizer has."""
    if flow.facts.is_test:
        return
    asked: set[str] = set()
    told: list[str] = []
    for run in flow.facts.forwards:
        layers = idle_layers(flow, run) if _is_recorded(run) and not _is_stepped(flow, run.given_as or "") else None
        if layers is not None and layers.network not in told:
            told.append(layers.network)
            yield layers
    for backward in flow.facts.backwards:
        for run in flow.facts.forwards if _fills_all(backward) else ():
            path = run.given_as or run.module
            if path is None or path in asked or any(is_part(path, each) for each in told):
                continue
            if not _is_recorded(run) or not goes_through(backward, run) or _is_stepped(flow, path):
                continue
            asked.add(path)
            network = idle_network(flow, path)
            if network is not None:
                told.append(path)
                made = Site(network.ref.chunk, network.made)
                yield IdleGradients(run.source.site, path, network.kind, made, backward.source.site)


def _fills_all(backward: Backward) -> bool:
    """Whether it computes the gradients of all that it reaches."""
    call = backward.source.site.node
    return not isinstance(call, t.Call) or call.argument("inputs") is None


def _is_recorded(run: Forward) -> bool:
    return run.mode in (Mode.INHERITED, Mode.ON) and not run.is_frozen and not run.is_foreign


def _is_stepped(flow: Flow, path: str) -> bool:
    """Whether an optimizer that the function steps is known to have parameters of it."""
    return any(overlap(frozenset((path,)), modules) for step in flow.facts.steps if (modules := _had(flow, step)))


def _had(flow: Flow, step: Step) -> frozenset[str] | None:
    """The modules that an optimizer has; one that a module has itself, ``net.optimizer``, has those of that module."""
    owner = flow.ref.owner
    holder = (step.target or "").rpartition(".")[0]
    is_of_module = step.modules == frozenset(("self",)) and holder.startswith("self.")
    return frozenset((holder,)) if is_of_module and (owner is None or not owner.is_module) else step.modules

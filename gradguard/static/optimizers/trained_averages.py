"""Networks that follow another one, as the target of BYOL, and are trained by the gradients of the loss as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static.backward.filled import goes_through
from gradguard.static.mistakes.optimizers import TrainedAverage
from gradguard.static.model import Backward, Forward, Mode
from gradguard.static.optimizers.averages import Average, averages_within
from gradguard.static.program.classes import Class
from gradguard.static.program.own_methods import methods_of
from gradguard.static.program.paths import is_part

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def trained_averages(flow: Flow) -> Iterator[TrainedAverage]:
    """The averages that a loss has gradients for, and that the optimizer has which moves what they follow."""
    facts = flow.facts
    if not facts.steps or not facts.backwards:
        return
    told: set[str] = set()
    for average in _around(flow):
        for backward in facts.backwards if average.slow not in told else ():
            run = _trained(flow, backward, average.slow)
            if run is None or _trained(flow, backward, average.fast) is None or not _moves_both(flow, average):
                continue
            told.add(average.slow)
            yield TrainedAverage(run.source.site, average.slow, average.site, backward.source.site)
            break


def _trained(flow: Flow, backward: Backward, module: str) -> Forward | None:
    """The call of a network, with its graph, that a backward surely goes through."""
    runs = (each for each in flow.facts.forwards if each.mode is not Mode.OFF and not each.is_frozen)
    own = (each for each in runs if each.module is not None and is_part(each.module, module))
    return next((each for each in own if goes_through(backward, each)), None)


def _moves_both(flow: Flow, average: Average) -> bool:
    """Whether one optimizer has the parameters of both."""
    had = (step.modules or frozenset() for step in flow.facts.steps)
    return any(_has(modules, average.slow) and _has(modules, average.fast) for modules in had)


def _has(modules: frozenset[str], path: str) -> bool:
    return any(is_part(path, each) for each in modules)


def _around(flow: Flow) -> Iterator[Average]:
    """The averages that a function makes itself, and those of the objects whose networks it runs."""
    yield from averages_within(flow.ref)
    paths = {path for each in flow.facts.forwards if each.module is not None for path in _holders(each.module)}
    for path in sorted(paths):
        cls = flow.ref.owner if path == "self" else flow.read(path, flow.final).ref
        for ref in methods_of(cls) if isinstance(cls, Class) else ():
            yield from (_within(each, path) for each in averages_within(ref) if _is_own(each))


def _holders(path: str) -> Iterator[str]:
    """The objects that a module is in: ``model`` and ``model.online`` of ``model.online.encoder``."""
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def _is_own(average: Average) -> bool:
    return average.slow.startswith("self.") and average.fast.startswith("self.")


def _within(average: Average, holder: str) -> Average:
    """An average of an object by the paths of the function that has the object."""
    return Average(holder + average.slow[len("self") :], holder + average.fast[len("self") :], average.site)

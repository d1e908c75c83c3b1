"""Optimizers of which a loop steps each one, while only some are reset: ``for opt in optims.values(): opt.step()``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.filled import filled
from gradguard.static.mistakes.backward import PartlyReset
from gradguard.static.model import Function, Loop
from gradguard.static.optimizers.optimized import overlap
from gradguard.static.values import Kind, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_Modules = frozenset[str]


def partly_reset(flow: Flow) -> Iterator[PartlyReset]:
    """The resets of a function that steps several optimizers, where one of these has none, nor anywhere else."""
    facts = flow.facts
    resets = [reset.modules for reset in facts.zero_grads]
    if facts.is_test or facts.opaque_calls or not resets or not facts.backwards:
        return
    known = [modules for modules in resets if modules is not None]
    for loop in facts.loops if len(known) == len(resets) else ():
        several = dict(_stepped_in(flow, loop))
        left = [path for path, modules in several.items() if not any(overlap(modules, each) for each in known)]
        is_partial = 0 < len(left) < len(several) and any(_is_filled(facts, several[path]) for path in left)
        if is_partial and not _is_reset_by_callers(facts):
            yield PartlyReset(facts.zero_grads[0].source.site, loop.site, tuple(left))
            return


def _stepped_in(flow: Flow, loop: Loop) -> Iterator[tuple[str, _Modules]]:
    """The optimizers that a loop goes over to step each, by their paths, with the modules of each; all or none."""
    stmt = loop.site.node
    if not isinstance(stmt, t.Repeat) or stmt.iterable is None or stmt.target is None or loop.leaves_early:
        return
    names = {t.path_of(each) for each in t.names_in(stmt.target)}
    calls = (each.value.func for each in stmt.body if isinstance(each, t.Evaluate) and isinstance(each.value, t.Call))
    if not any(isinstance(f, t.Attribute) and f.name == "step" and t.path_of(f.value) in names for f in calls):
        return
    found = [(path, _modules(value)) for path, value in _elements(flow, stmt.iterable)]
    yield from ((path, modules) for path, modules in found if all(of for _, of in found))


def _elements(flow: Flow, iterable: t.Expr) -> Iterator[tuple[str, Value | None]]:
    """What a loop goes over, by the paths of its elements, where that is written out."""
    func = iterable.func if isinstance(iterable, t.Call) else None
    of_dict = isinstance(func, t.Attribute) and func.name in ("values", "items")
    whole = func.value if of_dict and isinstance(func, t.Attribute) else iterable
    written, path = _written(flow, whole), t.path_of(whole)
    if isinstance(written, t.DictDisplay) and of_dict and path is not None:
        held = flow.read(flow.canonical(path), flow.final)
        keys = [key.value if isinstance(key, t.Constant) else None for key, _ in written.entries]
        yield from ((f'{path}["{key}"]', held.part(key)) for key in keys)
    elif isinstance(written, t.Display) and not of_dict:
        for each in (t.path_of(item) or "" for item in written.items):
            yield each, flow.read(flow.canonical(each), flow.final) if each else None


def _written(flow: Flow, value: t.Expr) -> t.Expr | None:
    """A collection as it is written out: here, or where its variable, or attribute, gets its only value."""
    path = t.path_of(value)
    if path is None:
        return value
    if path.startswith("self.") and flow.ref.owner is not None:
        bound = [each for _, each in flow.ref.owner.assigned(path[5:])]
    else:
        bound = list(flow.ref.assigned.get(path, []))
    return bound[0] if len(bound) == 1 else None


def _modules(optimizer: Value | None) -> _Modules:
    """The modules whose parameters an optimizer has; none where that is not known."""
    if optimizer is None or optimizer.kind is not Kind.OPTIMIZER or not isinstance(optimizer.ref, frozenset):
        return frozenset()
    return optimizer.ref


def _is_filled(function: Function, modules: _Modules) -> bool:
    """Whether a backward surely goes through what an optimizer has."""
    return any(overlap(modules, filled(function, backward)) for backward in function.backwards)


def _is_reset_by_callers(function: Function) -> bool:
    """Whether who calls the function resets something besides what it resets itself."""
    own = {reset.source.site.node for reset in function.zero_grads}
    callers = (caller for caller in function.calling() if caller is not function)
    return any(reset.source.site.node not in own for caller in callers for reset in caller.zero_grads)

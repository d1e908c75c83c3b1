"""Averages of weights that are kept in the memory of the weights themselves: each is mixed with itself.

``shadow = {n: p.detach() for n, p in net.named_parameters()}``, and ``shadow[n].lerp_(p, 0.01)`` after each step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import LiveState
from gradguard.static.optimizers.live_anchors import elements_of, is_one_model, kept_live, may_move, puts
from gradguard.static.program.made_objects import Place, callers
from gradguard.static.program.own_methods import methods_of
from gradguard.static.program.parameter_names import loops_of, named
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef

_LOADS = re.compile(r"load|resume", re.I)
_MIXING = frozenset("lerp_ add_ sub_".split())
_CHAINED = frozenset("lerp_ add_ sub_ mul_ div_ detach".split())
_OTHERWISE = frozenset("grad shape device dtype".split())


def live_averages(flow: Flow) -> Iterator[LiveState]:
    """Where a function keeps the weights of a model as they are, and they are averaged with themselves later."""
    if flow.facts.is_test:
        return
    kept_by = [(stmt, each) for stmt in flow.ref.define.statements for each in kept_live(flow.ref, stmt)]
    if not kept_by or may_move(flow.module):
        return
    for stmt, (kept, value, model) in kept_by:
        scope = methods_of(flow.ref.owner) if flow.ref.owner is not None and kept.startswith("self.") else [flow.ref]
        if any(_rebinds(ref, stmt, kept) for ref in scope for stmt in ref.define.statements):
            continue
        mixed = ((ref, site) for ref in scope for site in _mixed(flow.ref, ref, kept, model))
        used = next((site for ref, site in mixed), None)
        if used is not None:
            yield LiveState(flow.site(stmt), kept, model, "", used, value=flow.site(value), is_averaged=True)


def _rebinds(ref: FunctionRef, stmt: t.Stmt, kept: str) -> bool:
    """Whether something else is put into a collection than weights as they are; not by what a state is loaded with."""
    if _LOADS.search(ref.define.name) is not None or any(path == kept for path, _, _ in kept_live(ref, stmt)):
        return False
    changed: t.Expr | None = stmt.target if isinstance(stmt, t.Augment) else None
    if isinstance(stmt, t.Evaluate) and isinstance(stmt.value, t.Call) and isinstance(stmt.value.func, t.Attribute):
        changed = stmt.value.func.value
    if changed is not None and t.path_of(changed) != kept:  # an entry is changed in place
        return False
    return puts(stmt, kept)


def _mixed(start: FunctionRef, ref: FunctionRef, kept: str, model: str) -> Iterator[Site]:
    """Where a function mixes what is kept with the parameters of the model that it is of (asks callers last)."""
    entries = {t.path_of(name) for target, over in loops_of(ref) for name in elements_of(target, over, kept)}
    weights = [(path, of) for name, of in named(ref) if (path := t.path_of(name)) is not None and path not in entries]
    for stmt in ref.define.statements if weights else ():
        target, given = _mix(stmt)
        path = t.path_of(target) if target is not None else None
        if path is None or not (path in entries or path.startswith(f"{kept}[")):
            continue
        mentioned = {name for each in given for name in _read(each)}
        models = [of for name, of in weights if name in mentioned]
        if any(_is_same_model(start, model, ref, of, kept) for of in models):
            yield Site(ref.chunk, stmt)


def _mix(stmt: t.Stmt) -> tuple[t.Expr | None, list[t.Expr]]:
    """What a statement changes in place, and what it mixes it with."""
    if isinstance(stmt, t.Augment) and stmt.operator in ("+", "-", "+=", "-="):
        return _plain(stmt.target), [stmt.value]
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    given = list[t.Expr]()
    while isinstance(call, t.Call) and isinstance(call.func, t.Attribute) and call.func.name in _CHAINED:
        given += [arg.value for arg in call.args] if call.func.name in _MIXING else []
        call = call.func.value
    return (_plain(call) if call is not None else None), given


def _plain(expr: t.Expr) -> t.Expr:
    return _plain(expr.value) if isinstance(expr, t.Attribute) and expr.name == "data" else expr


def _read(expr: t.Expr) -> Iterator[str]:
    """The names whose values are in what is mixed; not ``p.grad``, ``p.device``."""
    told = [each for each in t.walk(expr) if isinstance(each, t.Attribute) and each.name in _OTHERWISE]
    beside = {id(node) for each in told for node in t.walk(each)}
    yield from (node.id for node in t.walk(expr) if isinstance(node, t.Name) and id(node) not in beside)


def _is_same_model(start: FunctionRef, model: str, ref: FunctionRef, other: str, kept: str) -> bool:
    if model == other and is_one_model(start, kept, model):
        return True
    if start.define is ref.define or start.define.name != "__init__":
        return False
    given = [*_given(start, model), *_given(ref, other)]  # two calls at least: one makes the object, one has it mix
    places = {(path, id(of)) for path, of in given}
    return len(given) > 1 and len(places) == 1 and given[0][0] != ""


def _given(ref: FunctionRef, name: str) -> Sequence[tuple[str, object]]:
    """What callers give for a parameter: the path, and whose it is; an empty path for what may be another each time."""
    params = [param.name for param in ref.define.params]
    found = [_path_at(place, ref.given_by(call).get(name)) for place, call in callers(ref)] if name in params else []
    return found or [("", None)]


def _path_at(place: Place, value: t.Expr | None) -> tuple[str, object]:
    """A variable that is bound once, or an attribute that is."""
    path, ref = t.path_of(value) if value is not None else None, place.ref
    if path is None or ref is None or "[" in path:
        return "", None
    if path.startswith("self."):
        owner = ref.owner
        bound = sum(len(each.assigned(path.removeprefix("self."))) for each in owner.lineage()) if owner else 0
        return (path, owner.define) if owner is not None and bound == 1 else ("", None)
    return (path, ref.define) if len(ref.assigned.get(path, ())) == 1 else ("", None)

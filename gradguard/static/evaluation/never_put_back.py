"""Averaged weights that are put into a network for an evaluation in the midst of its training, and never taken out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.evaluation import NeverPutBack
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_ALL = ("parameters", "named_parameters")
_DEPTH = 3
# What puts weights back in another way, or works on a copy.
_OTHERWISE = frozenset("load_state_dict deepcopy copy_ clone_model swap store".split())


def never_put_back(flow: Flow) -> Iterator[NeverPutBack]:
    """The calls of a method that puts weights aside, where nothing calls the one that brings them back.

    The method itself is asked (reads other files).
    """
    ref, owner = flow.ref, flow.ref.owner
    if owner is None or flow.facts.is_test or ref.define.name.startswith("__"):
        return
    kept = _puts_aside(ref)
    back = [each for each in owner.methods.values() if kept is not None and each.define is not ref.define]
    back = [each for each in back if kept in _written_from(each)]
    if kept is None or len(back) != 1 or kept in _written_from(ref) or back[0].define.name.startswith("__"):
        return
    name = back[0].define.name
    named = re.compile(rf"\.{name}\b|[\"']{name}[\"']")
    survey = flow.project.survey
    if named.search(flow.module.source.text) or survey.mentions_anywhere(name, named, flow.module):
        return
    for loop, call, caller in _in_training(flow, _DEPTH):
        yield NeverPutBack(caller.site(call), ref.define.name, name, loop.site(_repeat_of(loop)), flow.site(ref.define))
        return


def _puts_aside(ref: FunctionRef) -> str | None:
    """``self.backup`` of a loop that keeps each weight there, and then writes another one into it."""
    listed = [path for stmt in ref.define.statements if (path := _listed(stmt)) is not None]
    for loop in _loops_of_weights(ref):
        names = _names_of(loop)
        kept = [path for stmt in loop.body if (path := _kept_in(stmt, names)) is not None] or listed
        if len(kept) == 1 and any(_source(stmt, names) is not None for stmt in t.walk_statements(loop.body)):
            return kept[0]
    return None


def _listed(stmt: t.Stmt) -> str | None:
    """``self.backup`` of ``self.backup = [weight.clone() for weight in model.parameters()]``."""
    made = stmt.value if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
    path = t.path_of(stmt.targets[0]) if isinstance(stmt, t.Assign) and made is not None else None
    if path is None or not path.startswith("self.") or not isinstance(made, t.Comprehension):
        return None
    return path if any(_gives_all(clause.iterable) for clause in made.clauses) else None


def _gives_all(over: t.Expr) -> bool:
    return any(isinstance(node, t.Call) and node.name in _ALL for node in t.walk(over))


def _loops_of_weights(ref: FunctionRef) -> Iterator[t.Repeat]:
    for stmt in ref.define.statements:
        if isinstance(stmt, t.Repeat) and stmt.iterable is not None and _gives_all(stmt.iterable):
            yield stmt


def _names_of(loop: t.Repeat) -> set[str | None]:
    """What a loop calls the weights, which may go over something else besides: ``zip(self.slow, net.parameters())``."""
    over, target = loop.iterable, loop.target
    if target is None:
        return set()
    names = list(t.names_in(target))
    if isinstance(over, t.Call) and over.name == "zip" and len(over.args) == len(names):
        names = [name for name, arg in zip(names, over.args) if _gives_all(arg.value)]
    return {t.path_of(each) for each in names}


def _kept_in(stmt: t.Stmt, names: set[str | None]) -> str | None:
    """``self.backup`` of ``self.backup[name] = weight.detach().clone()``, of ``self.backup.append(...)``."""
    place: t.Expr | None = None
    value: t.Expr | None = None
    if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], t.Subscript):
        place, value = stmt.targets[0].value, stmt.value
    elif isinstance(stmt, t.Evaluate) and isinstance(stmt.value, t.Call) and stmt.value.name == "append":
        func = stmt.value.func
        place = func.value if isinstance(func, t.Attribute) else None
        value = stmt.value.args[0].value if stmt.value.args else None
    path = t.path_of(place) if place is not None else None
    if path is None or value is None or not path.startswith("self."):
        return None
    return path if any(t.path_of(node) in names for node in t.walk(value) if isinstance(node, t.Name)) else None


def _source(stmt: t.Stmt, names: set[str | None]) -> t.Expr | None:
    """What is written into a weight: ``weight.data = x``, ``weight.copy_(x)``, ``weight.data.copy_(x)``."""
    if isinstance(stmt, t.Assign) and len(stmt.targets) == 1:
        path = t.path_of(stmt.targets[0]) or ""
        return stmt.value if path.endswith(".data") and path.removesuffix(".data") in names else None
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if isinstance(call, t.Call) and call.name == "copy_" and isinstance(call.func, t.Attribute) and call.args:
        path = (t.path_of(call.func.value) or "").removesuffix(".data")
        return call.args[0].value if path in names else None
    return None


def _written_from(ref: FunctionRef) -> set[str]:
    """The attributes of its object from which a method writes into all weights of a network."""
    found: set[str] = set()
    for loop in _loops_of_weights(ref):
        names = _names_of(loop)
        sources = [each for stmt in t.walk_statements(loop.body) if (each := _source(stmt, names)) is not None]
        sources += [loop.iterable] if sources and loop.iterable is not None else []
        nodes = [node for each in sources for node in t.walk(each) if isinstance(node, t.Attribute)]
        found |= {path for node in nodes if (path := t.path_of(node)) is not None and path.startswith("self.")}
    return found


# --- where it is called -------------------------------------------------------------------------------------------


def _in_training(flow: Flow, depth: int) -> Iterator[tuple[Flow, t.Call, Flow]]:
    """The calls, each with the function whose training loop comes to it."""
    for caller, call in calls_of(flow):
        if caller.facts.is_test or any(each.name in _OTHERWISE for each in caller.ref.calls):
            continue
        if _repeats(caller, call):
            yield caller, call, caller
        elif depth and _is_on_every_way(caller.ref.define.body, call):
            yield from ((loop, call, caller) for loop, _, _ in _in_training(caller, depth - 1))


def _repeats(flow: Flow, call: t.Call) -> bool:
    """Whether a loop that trains runs a call again and again, and goes on after it."""
    loops = [loop for loop in flow.facts.loops if loop.steps and isinstance(loop.site.node, t.Repeat)]
    bodies = [loop.site.node.body for loop in loops if isinstance(loop.site.node, t.Repeat)]
    return any(_is_on_every_way(body, call) for body in bodies)


def _is_on_every_way(body: list[t.Stmt], call: t.Call) -> bool:
    """Whether a block comes to a call each time, or each few times: ``if step % 100 == 0``; and goes on."""
    for stmt in body:
        if not any(node is call for node in t.walk(stmt)):
            continue
        if isinstance(stmt, t.If):
            is_counted = any(isinstance(node, t.Operation) and node.operator == "%" for node in t.walk(stmt.test))
            return is_counted and not t.leaves(stmt.body) and _is_on_every_way(stmt.body, call)
        if isinstance(stmt, t.With):
            return _is_on_every_way(stmt.body, call)
        return isinstance(stmt, t.Assign | t.Evaluate | t.Augment | t.Return)
    return False


def _repeat_of(flow: Flow) -> t.Node:
    return next(loop.site.node for loop in flow.facts.loops if loop.steps)

"""Whether a loop that trains comes to an expression again and again for one and the same object, also by calls."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Loop
from gradguard.static.program.bound_paths import binds
from gradguard.static.program.clearing import AT_START
from gradguard.static.program.functions_called import calls_of
from gradguard.static.reading.guards import guards

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

ALWAYS = "<always>"
"""Stands for what is the same one whoever calls: what a function has by itself."""
_LEVELS = 4
"""Functions between the loop and the expression."""
_DRAWING = frozenset(("sample", "choices", "random.sample", "random.choices"))
_BY_KIND = frozenset(("isinstance", "type", "len", "next"))


def loop_of_same(flow: Flow, node: t.Node, of: Iterable[str], levels: int = _LEVELS) -> Loop | None:
    """The loop that comes to an expression in each iteration, or every so many, where its objects are the same ones.

    Args:
        of: the variables that it is about; where these are a loop's, as each layer is, what that goes over.
    """
    names = _within_function(flow, frozenset(of))
    if not holds_again(flow, node):
        return None
    for loop in _around(flow, node):
        repeat = loop.site.node
        if not isinstance(repeat, t.Repeat) or not names:
            return None
        if names & loop.targets:
            if is_rebound(flow, repeat.iterable):
                return None
            names = _within_function(flow, (names - loop.targets) | _names(repeat.iterable))
        elif any(binds_anew(loop, name) for name in names):
            return None
        elif loop.trains and loop.is_long:
            return loop
    return _in_callers(flow, names, levels - 1) if levels else None


def _in_callers(flow: Flow, names: frozenset[str], levels: int) -> Loop | None:
    """The same of a call of the function: of what it is given for these variables, and of its object."""
    if not names or not names <= {ALWAYS, *flow.params, *flow.module.outline.variables}:
        return None
    ref = flow.ref
    for caller, call in calls_of(flow):
        given = ref.given_by(call)
        owner = call.func.value if isinstance(call.func, t.Attribute) and ref.owner is not None else None
        theirs = [owner if name == "self" else given.get(name) for name in names if name in flow.params]
        of = frozenset(name for expr in theirs for name in _names(expr)) | (names - set(flow.params))
        is_known = all(expr is not None and not is_rebound(caller, expr) for expr in theirs)
        loop = loop_of_same(caller, call, of, levels) if is_known and of else None
        if loop is not None:
            return loop
    return None


def _around(flow: Flow, node: t.Node) -> list[Loop]:
    """The loops around an expression, innermost first."""
    around = [loop for loop in flow.facts.loops if node in loop.nodes and loop.site.node is not node]
    return sorted(around, key=lambda loop: len(loop.nodes))


def _within_function(flow: Flow, names: frozenset[str]) -> frozenset[str]:
    """Variables as what they were taken of: ``net`` for ``layers`` of ``layers = list(net.modules())``."""
    found, known, waiting = set[str](), set[str](), set(names)
    while waiting:
        name = waiting.pop()
        known.add(name)
        bound = flow.ref.assigned.get(name, []) if name not in flow.params else []
        of = _drawn_of(bound[0]) if len(bound) == 1 else None
        if of is not None and not is_rebound(flow, of):  # others in each iteration, but of the same ones
            waiting |= _names(of) - known
            continue
        is_taken = len(bound) == 1 and _is_taken(bound[0]) and not is_rebound(flow, bound[0])
        if is_taken and not any(binds_anew(loop, name) for loop in flow.facts.loops):
            waiting |= _names(bound[0]) - known
        else:
            found.add(name)
    return frozenset(found)


def is_rebound(flow: Flow, expr: t.Expr | None) -> bool:
    """Whether anything but a constructor binds an attribute in it to another thing, not to what it makes of it."""
    nodes = list(t.walk(expr))
    called = {node.func for node in nodes if isinstance(node, t.Call)}
    names = {node.name for node in nodes if isinstance(node, t.Attribute) and node not in called}
    return any(
        flow.project.survey.acts(
            name, re.compile(rf"\.{name}\s*=(?!=)(?![^\n]*\.{name}\b)"), flow.module, besides=AT_START
        )
        for name in names
    )


def binds_anew(loop: Loop, name: str) -> bool:
    """Whether a loop binds a variable anew in its iterations."""
    repeat = loop.site.node
    return isinstance(repeat, t.Repeat) and any(binds(stmt, name) for stmt in t.walk_statements([repeat]))


def _is_taken(value: t.Expr) -> bool:
    """``net.layers``, ``list(net.modules())``, ``[m for m in net.modules()]``, no ``Net()``."""
    if isinstance(value, t.Comprehension):
        return True
    if isinstance(value, t.Call) and isinstance(value.func, t.Name):
        return value.func.id in ("list", "tuple", "dict", "enumerate", "zip", "sorted", "reversed")
    return isinstance(value, t.Attribute) or (isinstance(value, t.Call) and isinstance(value.func, t.Attribute))


def _drawn_of(value: t.Expr) -> t.Expr | None:
    """What some are chosen of: ``clients`` of ``random.sample(clients, k)``."""
    if not isinstance(value, t.Call) or t.path_of(value.func) not in _DRAWING or not value.args or value.args[0].star:
        return None
    of = value.args[0].value
    return of if isinstance(of, t.Name | t.Attribute) else None


def _names(expr: t.Expr | None) -> frozenset[str]:
    """The variables in an expression, without the functions that it calls and the variables of comprehensions."""
    nodes = list(t.walk(expr))
    called = {node.func for node in nodes if isinstance(node, t.Call)}
    own = {n.id for node in nodes if isinstance(node, t.Comprehension) for c in node.clauses for n in _all(c.target)}
    return frozenset(n.id for n in nodes if isinstance(n, t.Name) and n not in called and n.id not in own)


def _all(target: t.Expr) -> list[t.Name]:
    return [node for node in t.walk(target) if isinstance(node, t.Name)]


def holds_again(flow: Flow, node: t.Node) -> bool:
    """Whether each condition on the way to an expression holds every so many times, or for the layers of a kind."""
    return all(_is_met_again(guard.test) for guard in guards(flow.ref.define.body, node))


def _is_met_again(test: t.Expr) -> bool:
    nodes = list(t.walk(test))
    called = {node.name for node in nodes if isinstance(node, t.Call)}
    counts = any(isinstance(node, t.Operation) and node.operator == "%" for node in nodes)
    return called <= _BY_KIND and (counts or "isinstance" in called)

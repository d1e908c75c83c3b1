"""Loops that make the weights of one network an average of those of another: ``slow.lerp_(fast, 0.01)`` for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef
from gradguard.static.source import Site

_WHOLE = frozenset(("parameters", "named_parameters"))
_MIXING = frozenset("lerp_ mul_ add_ sub_".split())


class Average(NamedTuple):
    """A network follows another one.

    Args:
        slow: the path of the one whose weights are set.
        fast: the path of the one that it follows.
        site: the loop.
    """

    slow: str
    fast: str
    site: Site


def averages(ref: FunctionRef) -> Iterator[Average]:
    """Those that a function makes, by its own paths."""
    for stmt in ref.define.statements:
        pair = _both(stmt) if isinstance(stmt, t.Repeat) else None
        if pair is None or not isinstance(stmt, t.Repeat):
            continue
        for (slow, one), (fast, other) in (pair, pair[::-1]):
            if _mixes(stmt.body, one, other):
                yield Average(slow, fast, Site(ref.chunk, stmt))


def averages_within(ref: FunctionRef) -> Iterator[Average]:
    """The averages that a function makes, or lets another one make of networks that it gives it."""
    for each in averages(ref):
        yield each
        yield from _of_pairs(ref, each)
    for call in ref.calls:
        helper = ref.callee(call) if len(call.args) > 1 else None
        if helper is not None:
            yield from _given(helper, call)


def _of_pairs(ref: FunctionRef, each: Average) -> Iterator[Average]:
    """The networks of ``for net, target in ((actor, slow_actor), (critic, slow_critic)):``, by paths of their own."""
    for loop in ref.define.statements:
        target, over = (loop.target, loop.iterable) if isinstance(loop, t.Repeat) else (None, None)
        bound = ref.assigned.get(t.path_of(over) or "", []) if over is not None else []
        rows = bound[0] if len(bound) == 1 else over
        if not isinstance(target, t.Display) or not isinstance(rows, t.Display):
            continue
        names = [t.path_of(item) for item in target.items]
        if each.slow not in names or each.fast not in names:
            continue
        for row in rows.items:
            paths = [t.path_of(item) for item in row.items] if isinstance(row, t.Display) else []
            if len(paths) == len(names):
                slow, fast = paths[names.index(each.slow)], paths[names.index(each.fast)]
                if slow is not None and fast is not None:
                    yield Average(slow, fast, each.site)


def _given(helper: FunctionRef, call: t.Call) -> Iterator[Average]:
    """The averages that a function makes of networks that it is given."""
    paths = {name: t.path_of(value) for name, value in helper.given_by(call).items()}
    for each in averages(helper):
        slow, fast = paths.get(each.slow), paths.get(each.fast)
        if slow is not None and fast is not None:
            yield Average(slow, fast, each.site)


def _both(loop: t.Repeat) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """The two networks of ``for p, q in zip(a.parameters(), b.parameters())``, each with the name of its weights."""
    each, over = loop.target, loop.iterable
    if not isinstance(over, t.Call) or over.name != "zip" or len(over.args) != 2 or not isinstance(each, t.Display):
        return None
    found = [(_owner(arg.value), _weight(name)) for arg, name in zip(over.args, each.items)]
    known = [(owner, name) for owner, name in found if owner is not None and name is not None]
    return (known[0], known[1]) if len(known) == 2 and known[0][0] != known[1][0] else None


def _owner(given: t.Expr) -> str | None:
    """``self.target`` of ``self.target.parameters()``."""
    func = given.func if isinstance(given, t.Call) and not given.args else None
    return t.path_of(func.value) if isinstance(func, t.Attribute) and func.name in _WHOLE else None


def _weight(target: t.Expr) -> str | None:
    """``p`` of ``p``, and of ``(name, p)``."""
    names = [name.id for name in t.names_in(target) if isinstance(name, t.Name)]
    return names[-1] if names else None


def _mixes(body: Sequence[t.Stmt], slow: str, fast: str) -> bool:
    """Whether a weight becomes something between what it was and another one; a copy of that is no average."""
    set_by = [value for stmt in t.walk_statements(body) for value in _set_by(stmt, slow)]
    names = {name for value in set_by for name in _names(value)}
    return slow in names and fast in names


def _set_by(stmt: t.Stmt, slow: str) -> Iterator[t.Expr]:
    """What a statement sets a weight, or its data, by."""
    if isinstance(stmt, t.Assign) and any(_is_of(target, slow) for target in stmt.targets):
        yield stmt.value
    elif isinstance(stmt, t.Augment) and _is_of(stmt.target, slow):
        yield from (stmt.target, stmt.value)
    elif isinstance(stmt, t.Evaluate):
        yield from _set_in_place(stmt.value, slow)


def _set_in_place(value: t.Expr, slow: str) -> Iterator[t.Expr]:
    """``q`` and ``p`` of ``q.data.mul_(0.99).add_(p.data, alpha=0.01)``; ``p`` alone of ``q.copy_(p)``."""
    given: list[t.Expr] = []
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name.endswith("_"):
        given += [arg.value for arg in value.args]
        given += [value.func.value] if value.func.name in _MIXING else []
        value = value.func.value
    yield from given if _is_of(value, slow) else ()


def _is_of(target: t.Expr, name: str) -> bool:
    return t.path_of(target) in (name, f"{name}.data")


def _names(value: t.Expr) -> set[str]:
    return {node.id for node in t.walk(value) if isinstance(node, t.Name)}

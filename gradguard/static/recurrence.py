"""Whether a state goes into a call and comes out of it, by whatever names: told from a function's statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gradguard.static import tree as t


class Binding(NamedTuple):
    """One assignment of a function.

    Args:
        names: that it binds.
        value: what they are bound to.
        given: the arguments of the calls in that.
    """

    names: tuple[str, ...]
    value: t.Expr
    given: tuple[t.Expr, ...]


def bindings(body: Sequence[t.Stmt]) -> list[Binding]:
    """All assignments of a function, in no order that counts."""
    pairs = (pair for s in t.walk_statements(body) if isinstance(s, t.Assign) for pair in t.pairs(s.targets, s.value))
    return [Binding(_bound(target), value, _given(value)) for target, value in pairs]


def goes_round(made: Sequence[Binding], path: str, source: t.Expr) -> bool:
    """Whether a call was given what is at a path, and gave what is stored there.

    ``h = self.h``, ``y, h = cell(x, h)``, ``self.h = h``.

    Args:
        made: the assignments of the function.
        path: what is stored into.
        source: what is stored.
    """
    old, size = {path}, 0
    while size < len(old):  # the order of the statements is not that of the source
        size = len(old)
        old.update(name for each in made if _may_be(each.value, old) for name in each.names)
    new, size = set[str](), -1
    while size < len(new):
        size = len(new)
        known = old | new
        new.update(name for each in made if _is_among(each.given, known) for name in each.names)
    return _is_among(_given(source), old | new) or _may_be(source, new)


def _bound(target: t.Expr) -> tuple[str, ...]:
    """The names that an assignment binds."""
    return tuple(node.id for node in t.names_in(target) if isinstance(node, t.Name))


def _given(value: t.Expr) -> tuple[t.Expr, ...]:
    """The arguments of all calls in an expression."""
    return tuple(arg.value for node in t.walk(value) if isinstance(node, t.Call) for arg in node.args)


def _may_be(value: t.Expr, names: set[str]) -> bool:
    """Whether an expression may be what has one of the names: ``self.h or start``, ``self.h if x else start``."""
    if isinstance(value, t.Conditional):
        return _may_be(value.body, names) or _may_be(value.orelse, names)
    if isinstance(value, t.Operation) and value.operator in ("or", "and"):
        return any(_may_be(operand, names) for operand in value.operands)
    if isinstance(value, t.Display):
        return any(_may_be(item, names) for item in value.items)
    return t.path_of(value) in names


def _is_among(given: Iterable[t.Expr], names: set[str]) -> bool:
    return any(_may_be(argument, names) for argument in given)

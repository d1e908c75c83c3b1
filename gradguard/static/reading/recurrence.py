"""Whether a state goes into a call and comes out of it, by whatever names: told from a function's statements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gradguard.static import tree as t


class Binding(NamedTuple):
    """One assignment of a function.

    Args:
        names: that it binds.
        value: what they are bound to.
        paths: those that it may be.
        given: those that the arguments of the calls in it may be.
    """

    names: tuple[str, ...]
    value: t.Expr
    paths: tuple[str, ...]
    given: tuple[str, ...]


def bindings(body: Sequence[t.Stmt]) -> list[Binding]:
    """All assignments of a function, in no order that counts."""
    pairs = (pair for s in t.walk_statements(body) if isinstance(s, t.Assign) for pair in t.pairs(s.targets, s.value))
    return [Binding(_bound(target), value, tuple(_paths(value)), tuple(_given(value))) for target, value in pairs]


def goes_round(made: Sequence[Binding], path: str, source: t.Expr) -> bool:
    """Whether a call was given what is at a path, and gave what is stored there.

    ``h = self.h``, ``y, h = cell(x, h)``, ``self.h = h``; ``out = cell(x, h)``, ``h = out.state``.

    Args:
        made: the assignments of the function.
        path: what is stored into.
        source: what is stored.
    """
    old, size = {path}, 0
    while size < len(old):  # the order of the statements is not that of the source
        size = len(old)
        old.update(name for each in made if not old.isdisjoint(each.paths) for name in each.names)
    new, size = set[str](), -1
    while size < len(new):
        size = len(new)
        known = old | new
        new.update(name for each in made if not known.isdisjoint(each.given) for name in each.names)
        new.update(name for each in made if not new.isdisjoint(_with_wholes(each.paths)) for name in each.names)
    return not (old | new).isdisjoint(_given(source)) or not new.isdisjoint(_with_wholes(_paths(source)))


def _with_wholes(paths: Iterable[str]) -> Iterator[str]:
    """Paths, and what they are parts of: ``out`` of ``out.state``, of ``out[1]``."""
    return (whole for path in paths for whole in (path, re.split(r"[.\[]", path, maxsplit=1)[0]))


def _bound(target: t.Expr) -> tuple[str, ...]:
    """The names that an assignment binds."""
    return tuple(node.id for node in t.names_in(target) if isinstance(node, t.Name))


def _given(value: t.Expr) -> Iterator[str]:
    """What the arguments of all calls in an expression may be; of an element its whole: ``mix(means[k], x)``."""
    calls = (node for node in t.walk(value) if isinstance(node, t.Call))
    return (path.removesuffix("[*]") for call in calls for arg in call.args for path in _paths(arg.value))


def _paths(value: t.Expr) -> Iterator[str]:
    """What an expression may be: ``self.h or start``, ``self.h if x else start``."""
    if isinstance(value, t.Conditional):
        yield from _paths(value.body)
        yield from _paths(value.orelse)
    elif isinstance(value, t.Operation) and value.operator in ("or", "and"):
        for operand in value.operands:
            yield from _paths(operand)
    elif isinstance(value, t.Display):
        for item in value.items:
            yield from _paths(item)
    elif (path := t.path_of(value)) is not None:
        yield path

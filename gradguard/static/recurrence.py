"""Whether a state goes into a call and comes out of it, by whatever names: told from a function's statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradguard.static import tree as t


def goes_round(body: Sequence[t.Stmt], path: str, source: t.Expr) -> bool:
    """Whether a call was given what is at a path, and gave what is stored there.

    ``h = self.h``, ``y, h = cell(x, h)``, ``self.h = h``.

    Args:
        body: the statements of the function.
        path: what is stored into.
        source: what is stored.
    """
    pairs = [pair for s in t.walk_statements(body) if isinstance(s, t.Assign) for pair in t.pairs(s.targets, s.value)]
    old, size = {path}, 0
    while size < len(old):  # the order of the statements is not that of the source
        size = len(old)
        old |= {name for target, value in pairs if _may_be(value, old) for name in _bound(target)}
    new, size = set[str](), -1
    while size < len(new):
        size = len(new)
        new |= {name for target, value in pairs if _is_given(value, old | new) for name in _bound(target)}
    return _is_given(source, old | new) or _may_be(source, new)


def _bound(target: t.Expr) -> Iterator[str]:
    """The names that an assignment binds."""
    return (node.id for node in t.names_in(target) if isinstance(node, t.Name))


def _may_be(value: t.Expr, names: set[str]) -> bool:
    """Whether an expression may be what has one of the names: ``self.h or start``, ``self.h if x else start``."""
    if isinstance(value, t.Conditional):
        return _may_be(value.body, names) or _may_be(value.orelse, names)
    if isinstance(value, t.Operation) and value.operator in ("or", "and"):
        return any(_may_be(operand, names) for operand in value.operands)
    if isinstance(value, t.Display):
        return any(_may_be(item, names) for item in value.items)
    return t.path_of(value) in names


def _is_given(value: t.Expr, names: set[str]) -> bool:
    """Whether a call in an expression is given one of the names, alone or in a tuple."""
    calls = (node for node in t.walk(value) if isinstance(node, t.Call))
    return any(_may_be(arg.value, names) for call in calls for arg in call.args)

"""Whether a variable goes on from what it was in the iteration before, or is merely left as it was now and then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Form, Loop, Store
from gradguard.static.program.paths import is_part
from gradguard.static.values import Root, Roots, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def goes_on(flow: Flow, store: Store, loop: Loop) -> bool:
    """Whether a variable is bound to what was computed from what it was before, perhaps by way of others.

    Else it has one graph at a time: ``while True: try: loss = step(); break``, ``best = best or loss``.
    """
    if store.form is not Form.REBIND or store.inner is not None:
        return True
    came = through_iterations(flow, _bound(flow, store), loop)
    paths = map(_path_of, came)
    return any(is_part(path, store.path) or is_part(store.path, path) for path in paths)


def through_iterations(flow: Flow, roots: Roots, loop: Loop) -> Roots:
    """All that values of these roots may have come from, in earlier iterations, too."""
    seen, found = set[Root](), set(roots)
    while found:
        root = found.pop()
        seen.add(root)
        carry = flow.carries.get((_path_of(root), loop)) if root.source is Source.CARRIED else None
        found |= (carry.end.reach if carry is not None else frozenset()) - seen
    return frozenset(seen)


def _path_of(root: Root) -> str:
    """The variable, the parameter or the place that a root stands for."""
    is_carried = root.source is Source.CARRIED and isinstance(root.key, tuple)
    return str(root.key[0]) if is_carried and isinstance(root.key, tuple) else root.base


def _bound(flow: Flow, store: Store) -> Roots:
    """What a variable is bound to where that is not the variable itself."""
    node = store.value_site.node if store.value_site is not None else None
    paths = [t.path_of(choice) for choice in _choices(node)] if isinstance(node, t.Expr) else []
    others = [path for path in paths if path is not None and flow.canonical(path) != store.path]
    if None in paths or len(others) == len(paths):
        return store.value.reach
    return frozenset().union(*(flow.read(flow.canonical(path), flow.final).reach for path in others))


def _choices(expr: t.Expr) -> Iterator[t.Expr]:
    """What an expression may be: ``a`` and ``b`` of ``a if c else b`` and of ``a or b``."""
    if isinstance(expr, t.Conditional):
        yield from (*_choices(expr.body), *_choices(expr.orelse))
    elif isinstance(expr, t.Operation) and expr.operator == "or":
        for operand in expr.operands:
            yield from _choices(operand)
    else:
        yield expr

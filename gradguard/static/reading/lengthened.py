"""Tensors that get longer: ``bank = torch.cat([bank, features])``, ``banks[c] = torch.cat([banks[c], features])``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Form, Scope
from gradguard.static.program.paths import is_part
from gradguard.static.reading.forms import rebind_form
from gradguard.static.reading.guards import guards
from gradguard.static.reading.state import State
from gradguard.static.reading.steady import set_test
from gradguard.static.values import Held, Holding, Kind, Root, Roots, Source, Value, union, whole

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.reading.called import Called

JOINING = frozenset("cat concat concatenate vstack hstack".split())
"""What puts tensors one behind the other."""


def note_joined(c: Called) -> None:
    """Note what the tensors hold that a call puts one behind the other."""
    joined = union(c.arguments)
    c.flow.joined[c.node] = whole(joined._replace(kind=Kind.UNKNOWN))


def lengthened(flow: Flow, path: str, value: Value, state: State, source: t.Expr | None) -> Value:
    """What is bound to a path; where that is what was there, made longer, with what both hold."""
    joining = joining_call(flow, path, source)
    if joining is None or _is_kept_short(flow, path, joining, source):
        return value
    before = frozenset(Holding(Held.GROWN, root) for root in content(flow.read(path, state)))
    parts = (flow.joined[call] for call in _joined_before(flow, joining))
    return value._replace(holds=value.holds.union(flow.joined[joining], before, *parts))


def _joined_before(flow: Flow, joining: t.Call) -> Iterator[t.Call]:
    """The calls that put together what is added: ``new = torch.cat([x, y], 1)``, ``bank = torch.cat([bank, new])``."""
    for node in t.walk([arg.value for arg in joining.args]):
        bound = flow.ref.assigned.get(node.id, []) if isinstance(node, t.Name) else [node]
        yield from (each for each in bound if isinstance(each, t.Call) and each in flow.joined)


def joining_call(flow: Flow, path: str, source: t.Expr | None) -> t.Call | None:
    """The call that makes what is at a path longer, where that, or a pair of such, is bound to the path again.

    ``self.past = torch.cat([self.past, x])``; ``x = torch.cat([self.past, x])``, then ``self.past = x.detach()``.
    """
    if isinstance(source, t.Display):
        each = (joining_call(flow, f"{path}[*]", item) for item in source.items)
        return next((found for found in each if found is not None), None)
    source = _itself(_untrimmed(source)) if source is not None else None
    if isinstance(source, t.Name):
        bound = [made.value for made in flow.ref.bindings_made if source.id in made.names]
        source = max(bound, key=lambda value: flow.site(value).line, default=None)  # what comes behind it may cut it
    is_joining = isinstance(source, t.Call) and source in flow.joined and _has_whole(source, path)
    return source if is_joining else None  # type: ignore[return-value]


def lengthened_item(
    flow: Flow, target: t.Subscript, base: str, value: Value, state: State, source: t.Expr | None
) -> Value | None:
    """What is put under a key, where that is what was under this key, made longer; else None.

    Args:
        base: the path of the collection.
    """
    if not isinstance(source, t.Call) or source not in flow.joined or _is_kept_short(flow, base, source, source):
        return None
    joined = source.args[0].value if source.args else None
    before = map(_itself, joined.items) if isinstance(joined, t.Display) else ()
    if not any(isinstance(item, t.Subscript) and _is_same_item(flow, item, target, base) for item in before):
        return None
    grown = frozenset(Holding(Held.GROWN, root) for root in content(flow.read(base, state)))
    return value._replace(holds=value.holds | flow.joined[source] | grown)


def _is_same_item(flow: Flow, item: t.Subscript, target: t.Subscript, base: str) -> bool:
    collection, key, wanted = t.path_of(item.value), item.index, target.index
    if isinstance(wanted, t.Constant):
        same = isinstance(key, t.Constant) and key.value == wanted.value
    else:
        same = t.path_of(wanted) is not None and t.path_of(key) == t.path_of(wanted)
    return same and collection is not None and flow.canonical(collection) == base


def _has_whole(call: t.Call, path: str) -> bool:
    """Whether all of what is at a path is among what is joined: not ``bank[n:]``."""
    joined = call.args[0].value if call.args and rebind_form(path, call)[0] is Form.CONCATENATE else None
    return isinstance(joined, t.Display) and any(t.path_of(_itself(item)) == path for item in joined.items)


def _itself(expr: t.Expr) -> t.Expr:
    while isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name in _SAME:
        expr = expr.func.value
    return expr


def _untrimmed(expr: t.Expr) -> t.Expr:
    """What a slice is taken of that leaves the dimension alone along which it gets longer: ``cat(..., dim=1)[-n:]``."""
    inner = _itself(expr)
    if not isinstance(inner, t.Subscript) or not isinstance(inner.index, t.Slice):
        return expr
    joining, trimmed = _itself(inner.value), inner.index.bounds
    dim = _joined_along(joining) if isinstance(joining, t.Call) else None
    is_known = bool(trimmed) and all(isinstance(each, tuple) for each in trimmed)  # a slice for each dimension
    if not is_known or dim is None:
        return expr
    return joining if dim >= len(trimmed) or trimmed[dim] == ("", "") else expr


def _joined_along(call: t.Call) -> int | None:
    """The dimension along which it joins, where that is written, and not counted from the end."""
    if call.name == "hstack":
        return None
    along = call.argument("dim", 1) or call.argument("axis", 1)
    value = along.value if isinstance(along, t.Constant) else 0 if along is None else None
    return value if isinstance(value, int) and value >= 0 else None


_SAME = frozenset("detach clone to cpu cuda float".split())


def content(value: Value) -> Roots:
    """What was there that a value still has, be it without its graph."""
    grown = frozenset(held.key for held in value.holding(Held.GROWN) if isinstance(held.key, Root))
    return frozenset(r for r in value.must if r.source in (Source.CARRIED, Source.PLACE, Source.PARAM)) | grown


def _is_kept_short(flow: Flow, path: str, joining: t.Call, source: t.Expr | None) -> bool:
    """Whether something else in the function binds the path, or a condition is in the way of making it longer.

    What is there at first, ``if self.past is None: self.past = x``, does neither.

    Args:
        source: what is bound to the path: the call, or what is made of it.
    """
    body = flow.ref.define.body
    binding = t.walk_statements(body)
    if flow.scope(path) is Scope.LOCAL:  # it is begun before the loop
        loops = [loop for loop in t.walk_statements(body) if isinstance(loop, t.Repeat)]
        binding = (stmt for loop in loops for stmt in t.walk_statements(loop.body))
    asking = [stmt for stmt in t.walk_statements(body) if isinstance(stmt, t.If) and _asks_for(flow, stmt.test, path)]
    first = {id(inner) for stmt in asking for inner in t.walk_statements(_taken_at_first(stmt))}
    others = (s for s in binding if isinstance(s, t.Assign | t.Augment | t.Delete) and not _assigns(s, source))
    tests = {id(stmt.test) for stmt in asking}
    on_way = (guard for node in (joining, source) if node is not None for guard in guards(body, node))
    is_conditional = any(id(guard.test) not in tests for guard in on_way)
    return is_conditional or any(_binds(flow, stmt, path) for stmt in others if id(stmt) not in first)


def _asks_for(flow: Flow, test: t.Expr, path: str) -> bool:
    """Whether all that a condition asks is whether something is at a path yet."""
    asked = [flow.canonical(found) for found in set_test(test)[0]]
    return bool(asked) and all(found == path or is_part(found, path) or is_part(path, found) for found in asked)


def _taken_at_first(stmt: t.If) -> list[t.Stmt]:
    _, is_set = set_test(stmt.test)
    return stmt.orelse if is_set else stmt.body


def _assigns(stmt: t.Stmt, source: t.Expr | None) -> bool:
    return isinstance(stmt, t.Assign) and stmt.value is source


def _binds(flow: Flow, stmt: t.Assign | t.Augment | t.Delete, path: str) -> bool:
    """Whether a statement binds a path, an item of it, or, where it is an item, what that is in."""
    targets = [stmt.target] if isinstance(stmt, t.Augment) else stmt.targets
    paths = (t.path_of(single) for target in targets for single in t.names_in(target))
    bound = {flow.canonical(found) for found in paths if found is not None}
    base, _, key = path.partition("[")
    return bool(bound & {path, base, f"{base}[*]"}) or (not key and any(b.split("[", 1)[0] == path for b in bound))

"""Objects that are filled after they were put into a collection: ``rows.append(row)``, then ``row["loss"] = loss``.

What such an object holds is known when the iteration that made it ends, or the function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.model import Loop, Store
from gradguard.static.reading.state import State
from gradguard.static.values import UNKNOWN, Kind, Roots, Value, is_record, with_content

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class Member(NamedTuple):
    """An object that has a name, and is in a collection.

    Args:
        store: what put it there.
        loop: the loop in whose iterations that is done; None outside of loops.
    """

    store: Store
    loop: Loop | None


def may_be_filled(flow: Flow, item: t.Expr | None, value: Value) -> bool:
    """Whether what is put into a collection is an object that this function has under a name of its own."""
    is_object = value.kind in (Kind.CONTAINER, Kind.INSTANCE) or (value.kind is Kind.OUTPUT and is_record(value))
    return is_object and isinstance(item, t.Name) and item.id in flow.locals and item.id not in flow.elements


def note(flow: Flow, item: t.Expr | None, store: Store) -> None:
    """Note that an object is in a collection from now on."""
    if isinstance(item, t.Name) and may_be_filled(flow, item, store.value):
        flow.members[item.id] = Member(store, flow.loop)


def note_given(flow: Flow, call: t.Call, store: Store, known: int) -> None:
    """Note that a call gives an object that the function called has put into a collection: ``trial = study.ask()``.

    Args:
        store: what put it there, as that function has it.
        known: how many stores there were before the call.
    """
    found = [each for each in flow.facts.stores[known:] if each.inner is store]
    if found:
        flow.given_members[call] = found[0]


def note_named(flow: Flow, name: str, call: t.Call) -> None:
    """Note the name of an object that a call gives."""
    if (store := flow.given_members.get(call)) is not None:
        flow.members[name] = Member(store, flow.loop)


def settle(flow: Flow, state: State, loop: Loop | None) -> None:
    """At the end of an iteration, or of the function: let the stores of objects know what these hold by now."""
    for name in [name for name, member in flow.members.items() if member.loop is loop]:
        store = flow.members.pop(name).store
        if loop is None and isinstance(flow.handing_back, t.Name) and flow.handing_back.id == name:
            flow.gives_member = store
        item = t.Name(None, name)
        value = flow.with_fields(state.env.get(name, UNKNOWN), item, state)
        new = value.roots - store.value.roots - value.must
        body = loop.site.node.body if loop is not None and isinstance(loop.site.node, t.Repeat) else None
        statements = list(t.walk_statements(body or flow.ref.define.body))
        if new and not value.bounded and may_be_filled(flow, item, value) and _is_made(flow, statements, name, store):
            store.value = value
            _name_filling(flow, statements, name, store, new, state)
            state.env[store.path] = with_content(flow.read(store.path, state), value)


def _is_made(flow: Flow, statements: Iterable[t.Stmt], name: str, store: Store) -> bool:
    """Whether these statements make the object that is stored under a name, each time another one."""
    bound = [(stmt, value) for stmt, target, value in _assigned(statements) if t.path_of(target) == name]
    return bool(bound) and all(
        value in flow.given_members or (_makes(flow, value) and flow.site(stmt).span < store.site.span)
        for stmt, value in bound
    )


def _assigned(statements: Iterable[t.Stmt]) -> Iterator[tuple[t.Stmt, t.Expr, t.Expr]]:
    """Each statement that assigns, with a target and what that is given."""
    for stmt in statements:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            yield stmt, target, value


def _makes(flow: Flow, value: t.Expr) -> bool:
    if isinstance(value, t.Call):
        made = flow.module.value_of(value.func)
        return made.kind is Kind.CLASS or t.path_of(value.func) in k.CONTAINER_BUILTINS
    return isinstance(value, t.Display | t.DictDisplay | t.Comprehension)


def _name_filling(flow: Flow, statements: Iterable[t.Stmt], name: str, store: Store, new: Roots, state: State) -> None:
    """Where a statement is seen that puts a graph into the object, that is the one to tell of."""
    for stmt, target, source in _assigned(statements):
        path = t.path_of(target) or ""
        held = state.env.get(path)
        if path.startswith((f"{name}.", f"{name}[")) and held is not None and held.roots & new:
            store.site, store.value_site, store.value = flow.site(stmt), flow.site(source), held

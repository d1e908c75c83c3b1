"""Gradients that are collected as they are, ``grads.append([p.grad for p in shared])``, and then reset in place.

A gradient that is zeroed in place stays the same tensor: the next backward fills it again, and with it all entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.backward import AliasedGradient
from gradguard.static.model import Form, Loop, Store, ZeroGrad
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called
from gradguard.static.values import Held

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 3
# What shares the storage of a gradient, which is contiguous.
_VIEWS = frozenset("detach view view_as reshape flatten ravel squeeze unsqueeze contiguous".split())
_EMPTYING = frozenset("clear pop popleft".split())


def aliased_gradients(flow: Flow) -> Iterator[AliasedGradient]:
    """The stores of gradients as they are, in a loop whose every backward writes into the same tensors."""
    for store in flow.facts.stores:
        loop = _backpropagating(store)
        if loop is None or flow.facts.is_test or not store.value.holding(Held.GRADIENT):
            continue
        reset = _reset_in_place(loop)
        value = store.value_site.node if store.value_site is not None else None
        if reset is None or not _is_another_each_time(store, loop) or not _outlives(flow, store.path, loop):
            continue
        if not isinstance(value, t.Expr) or not _is_gradient(flow, flow.ref, value, _DEPTH):
            continue
        if _are_the_same(flow, value, loop):
            yield AliasedGradient(store.site, store.path, reset.site)


def _backpropagating(store: Store) -> Loop | None:
    """The innermost loop around a store that runs a backward."""
    around = store.loop.around() if store.loop is not None and store.inner is None else ()
    return next((loop for loop in around if loop.backwards), None)


def _reset_in_place(loop: Loop) -> ZeroGrad | None:
    """A reset that keeps the tensors, where none drops them, and no backward makes new ones."""
    if any(reset.to_none for reset in loop.zero_grads) or any(each.create_graph for each in loop.backwards):
        return None
    return loop.zero_grads[0] if loop.zero_grads else None


def _is_another_each_time(store: Store, loop: Loop) -> bool:
    """Whether each iteration adds an entry: what is put under the same key each time is the newest one, as it says."""
    if store.form is Form.APPEND:
        return True
    stmt = store.site.node
    targets = stmt.targets if isinstance(stmt, t.Assign) and store.form is Form.ITEM else []
    keys = [node for target in targets if isinstance(target, t.Subscript) for node in t.walk(target.index)]
    if any(isinstance(node, t.Attribute | t.Call) for node in keys):
        return False  # of a shape or a kind, of which there are few
    return any(isinstance(node, t.Name) and node.id in loop.targets for node in keys)


def _outlives(flow: Flow, path: str, loop: Loop) -> bool:
    """Whether a collection of this function is neither made anew nor emptied in each iteration."""
    name, node = path.partition("[")[0], loop.site.node
    if not name.isidentifier() or name not in flow.ref.assigned or not isinstance(node, t.Repeat):
        return False
    empties = (each for each in t.walk(node.body) if isinstance(each, t.Call) and each.name in _EMPTYING)
    owners = (call.func.value for call in empties if isinstance(call.func, t.Attribute))
    is_emptied = any((t.path_of(owner) or "").partition("[")[0] == name for owner in owners)
    is_cut = any(isinstance(stmt, t.Delete) for stmt in t.walk_statements(node.body))
    return not is_emptied and not is_cut and not any(_binds(stmt, name) for stmt in _assignments(node))


def _assignments(loop: t.Repeat) -> Iterator[t.Assign]:
    yield from (stmt for stmt in t.walk_statements(loop.body) if isinstance(stmt, t.Assign))


def _are_the_same(flow: Flow, value: t.Expr, loop: Loop) -> bool:
    """Whether the parameters are those of one model: it is neither what the loop goes over nor made anew in it."""
    node = loop.site.node
    assert isinstance(node, t.Repeat)
    seen: set[str] = set()
    waiting: list[t.Expr] = [value]
    while waiting:
        part = waiting.pop()
        for name in {each.id for each in t.walk(part) if isinstance(each, t.Name)} - seen:
            seen.add(name)
            made = [stmt.value for stmt in _assignments(node) if _binds(stmt, name)]
            if name in loop.targets or not all(_hands_on(flow, each) for each in made):
                return False
            waiting += made
            inner = (each for each in t.walk_statements(node.body) if isinstance(each, t.Repeat))
            waiting += [each.iterable for each in inner if each.iterable is not None and _goes_over(each, name)]
    return True


def _binds(stmt: t.Assign, name: str) -> bool:
    return any(t.path_of(target) == name for each in stmt.targets for target in t.names_in(each))


def _goes_over(loop: t.Repeat, name: str) -> bool:
    return loop.target is not None and any(t.path_of(target) == name for target in t.names_in(loop.target))


def _hands_on(flow: Flow, value: t.Expr) -> bool:
    """Whether an expression only gives gradients or parameters that there are: ``list(model.parameters())``."""
    while isinstance(value, t.Call) and value.name in ("list", "tuple") and value.args:
        value = value.args[0].value
    is_asked = isinstance(value, t.Call) and value.name in ("parameters", "named_parameters")
    return is_asked or _is_gradient(flow, flow.ref, value, _DEPTH)


def _is_gradient(flow: Flow, ref: FunctionRef, value: t.Expr, depth: int) -> bool:
    """Whether something is a gradient, or has gradients in it, as they are: ``[p.grad.view(-1) for p in shared]``."""
    if isinstance(value, t.Comprehension):
        return _is_gradient(flow, ref, value.element, depth)
    if isinstance(value, t.Conditional):
        return any(_is_gradient(flow, ref, each, depth) for each in (value.body, value.orelse))
    if isinstance(value, t.Display):
        return any(_is_gradient(flow, ref, each, depth) for each in value.items)
    if isinstance(value, t.Attribute):
        return value.name == "grad" or (value.name == "data" and _is_gradient(flow, ref, value.value, depth))
    if isinstance(value, t.Name) and depth:
        bound = ref.assigned.get(value.id, [])
        return len(bound) == 1 and _is_gradient(flow, ref, bound[0], depth - 1)
    return isinstance(value, t.Call) and _gives_gradient(flow, ref, value, depth)


def _gives_gradient(flow: Flow, ref: FunctionRef, call: t.Call, depth: int) -> bool:
    if isinstance(call.func, t.Attribute) and call.func.name in _VIEWS:
        return _is_gradient(flow, ref, call.func.value, depth)
    if call.name in ("list", "tuple") and len(call.args) == 1 and t.path_of(call.func) == call.name:
        return _is_gradient(flow, ref, call.args[0].value, depth)
    given = [(each, expr) for each in functions_called(flow, call) for expr in each.given_back()] if depth else []
    return len(given) == 1 and all(_is_gradient(flow, of, expr, depth - 1) for of, expr in given)

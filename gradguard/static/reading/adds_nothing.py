"""What adds nothing from one iteration of a loop to the next, though it is stored there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Form, Loop, Store
from gradguard.static.program.names import bound_by
from gradguard.static.reading.learners import goes_over_learners, is_taken, names_of_each
from gradguard.static.reading.roots import graphs, node_of
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def is_over_few(loop: Loop) -> bool:
    """Whether a loop goes over parts of a module, or over what learns, each once: ``agent.update(batch)``.

    Or it runs once, as it is written.
    """
    updates = [backward.site.node for backward in loop.backwards if backward.inner is not None]
    owners = [call.func.value for call in updates if isinstance(call, t.Call) and isinstance(call.func, t.Attribute)]
    learners = [owner for owner in owners if isinstance(owner, t.Name) and owner.id in loop.targets]
    runs_once = loop.count is not None and loop.count <= 1
    return (
        runs_once
        or loop.over_parts
        or goes_over_learners(loop)
        or (bool(learners) and len(learners) == len(loop.backwards) and not loop.over_loader)
    )


def was_there(store: Store, loop: Loop) -> bool:
    """Whether the loop only goes through graphs that were there: ``for name in losses: total += losses[name]``."""
    if store.form not in (Form.SUM, Form.APPEND, Form.ITEM, Form.CONCATENATE) or store.inner is not None:
        return False
    if store.taken_from is None or store.taken_from in loop.assigned:
        return False  # an operation adds to the graph, whatever it is about
    starts = [node_of(root.key) for root in graphs(store.value.roots)]
    return bool(starts) and all(node is not None and not loop.has(node) for node in starts)


def is_forward_pass(store: Store, loop: Loop) -> bool:
    """Whether each iteration runs its own module on the state: ``for layer in layers: x = layer(x)``.

    That is one forward pass, as long as the net is deep; it goes on where a loop around runs the same net again. What
    else is done to the state there, as by an activation that all layers have, is part of it.
    """
    stmt, value = loop.site.node, store.value_site.node if store.value_site is not None else None
    if store.form not in (Form.REBIND, Form.SUM) or not isinstance(stmt, t.Repeat) or stmt.iterable is None:
        return False
    if loop.over_loader or loop.needs_gradients:
        return False
    own = names_of_each(stmt, loop.targets) | _made_in(stmt)
    if _runs_own(value, {store.path}, own):
        return True
    if not any(isinstance(node, t.Call) and is_taken(node.func, own) for node in loop.nodes):
        return False
    bound = _bound_in(stmt)
    names = _goes_through(bound, store.path)
    return any(_runs_own(each, names, own) for name in names for each in bound.get(name, ()))


def _runs_own(value: t.Node | None, names: set[str], own: set[str] | frozenset[str]) -> bool:
    """Whether all that is run on a state, to give the next one, is of the iteration alone."""
    calls = (node for node in t.walk(value) if isinstance(node, t.Call)) if value is not None else ()
    runs = [call for call in calls if any(t.path_of(arg.value) in names for arg in call.args)]
    return bool(runs) and all(is_taken(call.func, own) for call in runs)


def _bound_in(stmt: t.Repeat) -> dict[str, list[t.Expr]]:
    """What the body of a loop binds to each path, on whatever way."""
    bound: dict[str, list[t.Expr]] = {}
    for each in t.walk_statements(stmt.body):
        for target, value in t.pairs(each.targets, each.value) if isinstance(each, t.Assign) else ():
            path = t.path_of(target)
            if path is not None:
                bound.setdefault(path, []).append(value)
    return bound


def _goes_through(bound: dict[str, list[t.Expr]], path: str) -> set[str]:
    """The names that a state has on its way through an iteration: ``h = layer(x); x = F.relu(h)``."""
    reads = {name: {r for value in values for r in _read(value)} & bound.keys() for name, values in bound.items()}
    behind, ahead = {path}, {path}
    for _ in bound:
        behind |= {each for name in behind & reads.keys() for each in reads[name]}
        ahead |= {name for name, read in reads.items() if read & ahead}
    return behind & ahead


def _read(value: t.Expr) -> set[str]:
    paths = (t.path_of(node) for node in t.walk(value) if isinstance(node, t.Name | t.Attribute | t.Subscript))
    return {path for path in paths if path is not None}


def _made_in(stmt: t.Repeat) -> set[str]:
    """What each iteration makes of a class: ``block = Block(size)``."""
    made: dict[str, bool] = {}
    for each in t.walk_statements(stmt.body):
        for target, value in t.pairs(each.targets, each.value) if isinstance(each, t.Assign) else ():
            if isinstance(target, t.Name):
                is_made = isinstance(value, t.Call) and value.name[:1].isupper()
                made[target.id] = made.get(target.id, True) and is_made
    return {name for name, is_made in made.items() if is_made}


def each_in_its_slot(store: Store, loop: Loop) -> bool:
    """Whether each iteration adds to another entry: ``target[i] = reward[i] + discount * target[i]``."""
    adds = store.form in (Form.SUM, Form.AVERAGE, Form.CONCATENATE)
    is_own = store.is_item and adds and store.key in loop.targets and not loop.over_loader
    return is_own and not _has_key_of_callee(store)


def _has_key_of_callee(store: Store) -> bool:
    """Whether a loop of the function that is called gives the key: that of the caller only has the same name."""
    inner = store.inner
    around = inner.loop.around() if isinstance(inner, Store) and inner.loop is not None else ()
    return isinstance(inner, Store) and any(inner.key in loop.targets for loop in around)


def is_one_object(flow: Flow, store: Store, loop: Loop) -> bool:
    """Whether each iteration adds the same object, which was there before the loop: ``rows.append(row)``."""
    added = store.value_site.node if store.value_site is not None and store.inner is None else None
    if store.form is not Form.APPEND or not isinstance(added, t.Name) or store.value.kind is Kind.TENSOR:
        return False
    if added.id not in flow.locals - flow.declared:
        return False  # somebody else may bind it
    node = loop.site.node
    walrus = (each.target for each in t.walk(node) if isinstance(each, t.Walrus))
    names = {target.id for target in walrus if isinstance(target, t.Name)}
    return isinstance(node, t.Repeat) and added.id not in names | bound_by([node])

"""Loops over what learns: each iteration steps another optimizer, ``optimizers[agent].step()``, so there are few."""

from __future__ import annotations

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.events import Event
from gradguard.static.model import Function, Loop, Step, ZeroGrad
from gradguard.static.program.names import collections_of
from gradguard.static.source import Site


def goes_over_learners(loop: Loop) -> bool:
    """Whether each optimizer that a loop steps is another one in each iteration: that of one agent, of one model."""
    stmt = loop.site.node
    events = loop.steps or loop.zero_grads
    if not isinstance(stmt, t.Repeat) or not loop.targets or loop.over_loader or not events:
        return False
    each = names_of_each(stmt, loop.targets)
    return all(_is_of_each(event, each) for event in events)


def runs_trainings(loop: Loop) -> bool:
    """Whether each iteration runs a whole training, as far as names tell: ``trainer.fit(net, loader)``, ``train(net)``.

    ``net.train()`` and ``net.train(was_training)`` only set the mode.
    """
    called = (node for node in loop.nodes if isinstance(node, t.Call) and node.args)
    return any(k.TRAINING_FUNCTION.search(call.name) and not _sets_mode(call) for call in called)


def _sets_mode(call: t.Call) -> bool:
    is_alone = isinstance(call.func, t.Attribute) and call.func.name == "train" and len(call.args) == 1
    return is_alone and k.LOADER_NAME.search(t.path_of(call.args[0].value) or "") is None


def resets_beside(function: Function, loop: Loop, step: Step) -> bool:
    """Whether a loop beside this one resets the optimizers that it steps: ``for k in nets: optimizers[k].zero_grad()``.

    Both go over the same learners, which are different ones in each iteration.
    """
    if not goes_over_learners(loop):
        return False
    return any(
        reset.loop is not None and reset.target == step.target and _is_over_the_same(reset.loop, loop, step.target)
        for reset in function.zero_grads
    )


def _is_over_the_same(other: Loop, loop: Loop, optimizer: str | None) -> bool:
    """Whether another loop, at the same place, goes over all that a loop goes over."""
    beside, stmt = other.site.node, loop.site.node
    if other is loop or other.parent is not loop.parent or other.leaves_early or not goes_over_learners(other):
        return False
    if not isinstance(beside, t.Repeat) or not isinstance(stmt, t.Repeat) or beside.iterable is None:
        return False
    if any(isinstance(part, t.Slice | t.Display | t.Comprehension) for part in t.walk(beside.iterable)):
        return stmt.iterable is not None and _code(other, beside.iterable) == _code(loop, stmt.iterable)
    name = (optimizer or "").split(".")[0]
    return _collections(beside).get(name) == _collections(stmt).get(name)


def _code(loop: Loop, part: t.Node) -> str:
    return Site(loop.site.chunk, part).code


def _collections(stmt: t.Repeat) -> dict[str, list[str]]:
    """The names that a loop binds, each with the collection that it is taken from."""
    if stmt.target is None or stmt.iterable is None:
        return {}
    return dict(collections_of(stmt.target, stmt.iterable))


def names_of_each(stmt: t.Repeat, targets: frozenset[str]) -> frozenset[str]:
    """What the loop binds, and what its body binds to a part of that: ``optimizer = self.optimizers[agent]``."""
    each = set(targets)
    for inner in stmt.body:
        if isinstance(inner, t.Assign):
            for target, value in t.pairs(inner.targets, inner.value):
                if isinstance(target, t.Name) and is_taken(value, each):
                    each.add(target.id)
    return frozenset(each)


def _is_of_each(event: Step | ZeroGrad, each: frozenset[str]) -> bool:
    call = event.site.node
    if not isinstance(call, t.Call):
        return False
    owner = call.func.value if isinstance(call.func, t.Attribute) else None
    if event.inner is None:
        return owner is not None and is_taken(owner, each)
    given = [arg.value for arg in call.args] + ([owner] if owner is not None else [])
    return any(is_taken(value, each) for value in given if _may_hold(value, event.target))


def _may_hold(value: t.Expr, optimizer: str | None) -> bool:
    """Whether an argument may be an optimizer that a callee steps, or the object that has it."""
    name = (optimizer or "").split("[", 1)[0]
    path = (t.path_of(value) or "").split("[", 1)[0]
    return bool(path) and f"{name}.".startswith(f"{path}.")


def is_taken(value: t.Expr, each: set[str] | frozenset[str]) -> bool:
    """Whether it is what a loop binds, a part of it, or what a collection has under that: ``optimizers[agent]``."""
    while isinstance(value, t.Attribute | t.Subscript):
        if isinstance(value, t.Subscript) and isinstance(value.index, t.Name) and value.index.id in each:
            return True
        value = value.value
    return isinstance(value, t.Name) and value.id in each


def loop_it_follows(function: Function, reset: ZeroGrad) -> Loop | None:
    """The loop that steps several optimizers, of which a reset after it concerns the last, by what the loop bound.

    ``for opt in optimizers: opt.step()``, then ``opt.zero_grad()``, where nothing else resets.
    """
    call = reset.site.node
    name = t.path_of(call.func.value) if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) else None
    if reset.inner is not None or name is None or any(_is_another(each, reset) for each in function.zero_grads):
        return None
    siblings = (loop for loop in function.loops if loop.parent is reset.loop and call not in loop.nodes)
    before = (loop for loop in siblings if loop.site.line < reset.site.line)
    found = next((loop for loop in before if _binds_last(loop, name) and _steps_each(loop, name)), None)
    if found is None:
        return None  # to ask who calls it takes reading other files
    resets = (z for caller in function.calling() if caller is not function for z in caller.zero_grads)
    return None if any(_is_another(each.source, reset) for each in resets) else found


def _is_another(each: Event, reset: ZeroGrad) -> bool:
    """Whether an event is another reset than this one, or the same in a caller."""
    return each.site.node is not reset.site.node


def _binds_last(loop: Loop, name: str) -> bool:
    """Whether a loop goes over something else than batches and leaves its variable at the last one."""
    stmt = loop.site.node
    several = isinstance(stmt, t.Repeat) and not (isinstance(stmt.iterable, t.Display) and len(stmt.iterable.items) < 2)
    return several and name in loop.targets and not loop.leaves_early and not loop.over_loader


def _steps_each(loop: Loop, name: str) -> bool:
    """Whether each iteration steps the optimizer that the loop binds: ``opt.step()``, ``scaler.step(opt)``."""
    body = loop.site.node.body if isinstance(loop.site.node, t.Repeat) else []
    for stmt in body:
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        func = call.func if isinstance(call, t.Call) else None
        if not isinstance(call, t.Call) or not isinstance(func, t.Attribute) or func.name != "step":
            continue
        if any(t.path_of(each) == name for each in (func.value, *(arg.value for arg in call.args))):
            return True
    return False

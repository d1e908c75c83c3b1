"""Schedulers that are laid out for the updates of an optimizer, and step with every batch that is accumulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeGuard

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import ScheduleLength
from gradguard.static.optimizers.replaced import steps
from gradguard.static.optimizers.schedule_lengths import length_of
from gradguard.static.optimizers.stale_schedulers import schedulers_made
from gradguard.static.program.bound_paths import names_of
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import blocks_of
from gradguard.static.program.own_methods import methods_of
from gradguard.static.program.paths import last
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 3
_COMPARING = frozenset(("<", "<=", ">", ">=", "=="))


def micro_steps(flow: Flow) -> Iterator[ScheduleLength]:
    """The steps of schedulers beside an ``if i % every == 0:`` that steps the optimizer whose updates they count."""
    ref = flow.ref
    for block in blocks_of(ref.define.body) if not flow.facts.is_test else ():
        for stmt in block:
            every = every_of(stmt)
            if every is None or not isinstance(stmt, t.If):
                continue
            for call, scheduler in stepped_beside(block):
                yield from _counting_updates(flow, stmt.body, every, call, scheduler)


def every_of(stmt: t.Stmt) -> str | None:
    """The path of how many batches there are to an update: ``args.accumulate`` of ``if i % args.accumulate == 0:``."""
    test = stmt.test if isinstance(stmt, t.If) and not stmt.orelse else None
    found = [node for node in t.walk(test) if isinstance(node, t.Operation) and node.operator == "%"]
    return t.path_of(found[0].operands[1]) if len(found) == 1 else None


def stepped_beside(block: Sequence[t.Stmt]) -> Iterator[tuple[t.Call, str]]:
    """The calls ``scheduler.step()`` among the statements of a block, each with what steps."""
    for stmt in block:
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) and call.name == "step" and not call.args:
            path = t.path_of(call.func.value)
            if path is not None:
                yield call, path


def _counting_updates(
    flow: Flow, body: Sequence[t.Stmt], every: str, call: t.Call, scheduler: str
) -> Iterator[ScheduleLength]:
    ref = flow.ref
    methods = methods_of(ref.owner) if ref.owner is not None and scheduler.startswith("self.") else []
    for maker in [ref, *(each for each in methods if each.define is not ref.define)]:
        for made, path, optimizer in schedulers_made(maker):
            is_other = path != scheduler or len(maker.assigned.get(path, [])) > 1  # wrapped by what may count itself
            if is_other or not any(steps(node, optimizer) for node in t.walk(list(body))):
                continue
            length = _in_updates(maker, made.value, last(every)) or _of_limit(ref, maker, made.value, body, every)
            if length is not None:
                sites = (flow.site(call), Site(maker.chunk, made), length)
                yield ScheduleLength(*sites, scheduler, is_in_epochs=False, in_updates=True)
                return


def _in_updates(maker: FunctionRef, made: t.Expr, every: str) -> Site | None:
    """Where a scheduler is told of a number of batches that is divided by how many there are to an update."""
    length = length_of(maker, made)
    if length is not None:
        return _divided(maker, length, every, ("/", "//"), _DEPTH)
    if not isinstance(made, t.Call) or made.name != "LambdaLR":
        return None
    given = made.argument("lr_lambda", 1)
    return _divided(maker, given, every, ("//",), _DEPTH) if given is not None else None


def _of_limit(ref: FunctionRef, maker: FunctionRef, made: t.Expr, body: Sequence[t.Stmt], every: str) -> Site | None:
    """Where a scheduler is told of as many steps as there are updates, by how long the function goes on."""
    length = length_of(maker, made)
    path = _meant(maker, length) if length is not None else None
    if path is not None and maker is not ref:
        head, dot, rest = path.partition(".")
        path = path if head == "self" else f"{maker.kept_as(head)}{dot}{rest}"
    if length is None or path is None:
        return None
    updates = {*_counted_up_to(ref, body), *_multiplied(ref, every)}
    return Site(maker.chunk, length) if path in updates else None


def _counted_up_to(ref: FunctionRef, body: Sequence[t.Stmt]) -> Iterator[str]:
    """What a count of the updates is compared with: ``if updates >= args.max_steps: break``."""
    counted = {t.path_of(stmt.target) for stmt in t.walk_statements(list(body)) if _counts_one(stmt)}
    inside = set(map(id, t.walk_statements(list(body))))
    others = [stmt for stmt in ref.define.statements if isinstance(stmt, t.Augment) and id(stmt) not in inside]
    counted -= {t.path_of(stmt.target) for stmt in others}
    for node in ref.define.nodes if counted else ():
        if isinstance(node, t.Operation) and node.operator in _COMPARING and len(node.operands) == 2:
            one, other = node.operands
            path = _meant(ref, other) if t.path_of(one) in counted else None
            path = _meant(ref, one) if t.path_of(other) in counted else path
            yield from (path,) if path is not None else ()


def _counts_one(stmt: t.Stmt) -> TypeGuard[t.Augment]:
    return isinstance(stmt, t.Augment) and isinstance(stmt.value, t.Constant) and stmt.value.value == 1


def _multiplied(ref: FunctionRef, every: str) -> Iterator[str]:
    """The number of updates by which a loop goes over the batches: ``range(steps * accumulate)``."""
    for loop in ref.define.statements:
        for node in t.walk(loop.iterable) if isinstance(loop, t.Repeat) and loop.iterable is not None else ():
            if isinstance(node, t.Operation) and node.operator == "*" and len(node.operands) == 2:
                paths = [_meant(ref, each) for each in node.operands]
                yield from (path for path in paths if path is not None and _meant_by(ref, every) in paths)


def _meant_by(ref: FunctionRef, path: str) -> str:
    """What a variable was bound to that is only another path: ``args.steps`` after ``steps = args.steps``."""
    bound = ref.assigned.get(path, [])
    return (t.path_of(bound[0]) or path) if len(bound) == 1 else path


def _meant(ref: FunctionRef, expr: t.Expr) -> str | None:
    path = t.path_of(expr)
    return _meant_by(ref, path) if path is not None and len(ref.assigned.get(path, [])) < 2 else None


def _divided(ref: FunctionRef, expr: t.Expr, every: str, signs: Sequence[str], depth: int) -> Site | None:
    """A division by what has a name, in an expression, or in what its names stand for."""
    counters = [param.name for node in t.walk(expr) if isinstance(node, t.Lambda) for param in node.params]
    return _divided_among(ref, list(t.walk(expr)), counters, every, signs, depth)


def _divided_among(
    ref: FunctionRef, nodes: Sequence[t.Node], counters: Sequence[str], every: str, signs: Sequence[str], depth: int
) -> Site | None:
    for node in nodes:
        if not isinstance(node, t.Operation) or node.operator not in signs:
            continue
        by = t.path_of(node.operands[-1])
        if by is not None and last(by) == every:
            counts = _has_bare(node.operands[0], counters)
            return None if counts else Site(ref.chunk, node)  # ``step // every``: it is told of each batch
    for node in nodes if depth else ():
        if isinstance(node, t.Name | t.Attribute):
            found = _behind(ref, node, every, signs, depth)
            if found is not None:
                return found
    return None


def _has_bare(expr: t.Expr, names: Sequence[str]) -> bool:
    """Whether a variable of some names is in an expression, and not only an attribute of it."""
    nodes = list(t.walk(expr))
    bases = {id(node.value) for node in nodes if isinstance(node, t.Attribute)}
    return any(isinstance(node, t.Name) and node.id in names and id(node) not in bases for node in nodes)


def _behind(ref: FunctionRef, name: t.Name | t.Attribute, every: str, signs: Sequence[str], depth: int) -> Site | None:
    """The same in what a variable is bound to, or in the function, the method or the property that a name means."""
    path = t.path_of(name) or ""
    for callee in _functions(ref, name, path):
        counters = [param.name for param in callee.define.params if param.name != "self"]
        return _divided_among(callee, callee.define.nodes, counters, every, signs, depth - 1)
    values = [value for each in names_of(ref, path) for value in ref.assigned.get(each, []) if t.path_of(value) is None]
    return _divided(ref, values[0], every, signs, depth - 1) if len(values) == 1 else None


def _functions(ref: FunctionRef, name: t.Name | t.Attribute, path: str) -> Iterator[FunctionRef]:
    own = ref.owner.method(path.removeprefix("self.")) if ref.owner is not None and path.startswith("self.") else None
    meant = ref.module.value_of(name).ref if isinstance(name, t.Name) else None
    if own is not None:
        yield own
    elif isinstance(meant, FunctionRef):
        yield meant
    elif isinstance(name, t.Attribute):  # of an object whose class is not known: the one property of that name
        classes = (ref.module.klass(each) for each in ref.module.outline.classes)
        found = [cls.methods[name.name] for cls in classes if cls is not None and name.name in cls.methods]
        yield from found if len(found) == 1 and found[0].is_property else ()

"""Expressions that give the tensors of a model as they are: ``net.state_dict()``, and other dicts of the same ones."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import named_kind
from gradguard.static.values import Kind

_SHALLOW = frozenset("dict OrderedDict copy".split())
_SCHEDULE = "sched"
_WRITING = frozenset("save save_file".split())


def taken(stmt: t.Stmt) -> Iterator[tuple[str, str]]:
    """``kept = model.state_dict()``, ``kept = {"model": model.state_dict()}``: the paths of both."""
    for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
        kept = t.path_of(target)
        if kept is None or "[*]" in kept or _SCHEDULE in kept:
            continue
        for model in _models_in(value):
            yield kept, model


def collected(stmt: t.Stmt) -> Iterator[tuple[str, str]]:
    """``kept.append(model.state_dict())``, ``kept[epoch] = model.state_dict()``: the paths of both."""
    for collection, value in _put(stmt):
        kept = t.path_of(collection)
        for model in _models_in(value):
            if kept is not None and "[" not in model:
                yield kept, model


def is_written_by(ref: FunctionRef, call: t.Call, kept: str) -> bool:
    """Whether a function of the program is given a state, which writes it to a file and does nothing else with it."""
    helper = ref.module.value_of(call.func).ref if isinstance(call.func, t.Name) else None
    if not isinstance(helper, FunctionRef):
        return False
    names = [param.name for param in helper.define.params if not param.star]
    taking = [name for place, name in enumerate(names) if _is_at(call.argument(name, place), kept)]
    as_often = len(taking) == sum(_is_at(arg.value, kept) for arg in call.args)
    return bool(taking) and as_often and all(_is_only_written(helper, name) for name in taking)


def _is_at(expr: t.Expr | None, path: str) -> bool:
    return expr is not None and t.path_of(expr) == path


def _is_only_written(helper: FunctionRef, param: str) -> bool:
    written = {
        node for call in helper.calls if call.name in _WRITING for arg in call.args for node in t.walk(arg.value)
    }
    uses = [node for node in helper.define.all(t.Name) if node.id == param]
    return bool(uses) and all(node in written for node in uses)


def _put(stmt: t.Stmt) -> Iterator[tuple[t.Expr, t.Expr]]:
    """The collections into which a statement puts something beside what is there, each with what it puts there."""
    for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
        if isinstance(target, t.Subscript) and not isinstance(target.index, t.Constant | t.Slice):
            yield target.value, value
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) and len(call.args) == 1 else None
    if isinstance(call, t.Call) and isinstance(func, t.Attribute) and func.name == "append":
        yield func.value, call.args[0].value


def _models_in(value: t.Expr) -> Iterator[str]:
    """The paths of the models whose states a value is, or has in it; optimizers and schedulers have such, too."""
    for of in states_in(value):
        path = t.path_of(of)
        if path is not None and named_kind(path) is not Kind.OPTIMIZER and _SCHEDULE not in path:
            yield path


def states_in(value: t.Expr) -> Iterator[t.Expr]:
    """What it is that a value is the state of, or has the state of under a key or beside something else."""
    items = value.items if isinstance(value, t.Display) else [value]
    if isinstance(value, t.DictDisplay):
        items = [
            item for key, item in value.entries if not (isinstance(key, t.Constant) and _SCHEDULE in str(key.value))
        ]
    for each in items:
        of = _state_of(each)
        if of is not None:
            yield of


def _state_of(value: t.Expr) -> t.Expr | None:
    """What an expression gives the state of, or another dict of the same tensors: ``dict(net.state_dict())``."""
    if isinstance(value, t.Comprehension):
        state = _gone_through(value)
        return None if state is None else _state_of(state)
    func = value.func if isinstance(value, t.Call) else None
    if not isinstance(value, t.Call) or func is None:
        return None
    name = func.name if isinstance(func, t.Attribute) else t.path_of(func)
    if name == "state_dict" and isinstance(func, t.Attribute) and not value.args:
        return func.value
    if name not in _SHALLOW:
        return None
    if len(value.args) == 1:
        return _state_of(value.args[0].value)
    return _state_of(func.value) if isinstance(func, t.Attribute) and not value.args else None


def _gone_through(made: t.Comprehension) -> t.Expr | None:
    """``state`` of ``{name: value for name, value in state.items()}``, whose values are the same tensors."""
    clause, element = made.clauses[0], t.detached(made.element) or made.element  # which has the memory of the tensor
    call, target = clause.iterable, clause.target
    func = call.func if isinstance(call, t.Call) else None
    if not isinstance(func, t.Attribute) or func.name != "items" or made.key is None:
        return None
    is_pair = isinstance(target, t.Display) and len(target.items) == 2
    value = target.items[1] if isinstance(target, t.Display) and is_pair else None
    return func.value if value is not None and t.path_of(element) == t.path_of(value) else None

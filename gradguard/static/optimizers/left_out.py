"""Parameters that no group of an optimizer has: a loop sorts them by their names, and some meet none of its conditions.

Only those that the model surely has: its constructor makes them, and the conditions are asked with their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.evaluation.sure_layers import always_run, constructors
from gradguard.static.mistakes.optimizers import LeftOut
from gradguard.static.program.classes import Class
from gradguard.static.program.functions_called import calls_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Module

_LAYERS = {"Linear": 2, "Embedding": 2, "Conv1d": 3, "Conv2d": 4, "Conv3d": 5}
_NORMS = ("LayerNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm")
_PLAIN = re.compile(r"torch\.nn\.(?:modules\.\w+\.|parameter\.)?(\w+)$")
_OTHERWISE = re.compile(
    r"add_param_group\(|requires_grad\s*=\s*False|requires_grad_\(|[Ff]reeze|frozen|\blora\b|\bLoRA\b|\badapters?\b"
)
_DEEPEST = 6


class _Parameter(NamedTuple):
    """A parameter of a model: its name, and how many dimensions it has, as far as that is known."""

    name: str
    dimensions: int | None


class _Sorting(NamedTuple):
    """A loop that puts each parameter into one of some lists.

    Args:
        model: the path of what has the parameters.
        names: the variables of the loop: the name, and the parameter.
        conditions: those of its branches.
        last: the branch that nothing comes after.
        lists: the paths of the lists.
    """

    model: str
    names: tuple[str, str]
    conditions: list[t.Expr]
    last: t.If
    lists: list[str]


def left_out(flow: Flow) -> Iterator[LeftOut]:
    """The last branches of such loops, with a parameter that goes past them (reads other files)."""
    for loop in flow.ref.define.statements if not flow.facts.is_test else ():
        sorting = _sorting(loop) if isinstance(loop, t.Repeat) else None
        cls = _class_of(flow, sorting.model) if sorting is not None else None
        if sorting is None or cls is None or _goes_over_again(flow, sorting):
            continue
        found = [each.name for each in _parameters(cls, "", 0) if _meets_none(flow, sorting, each)]
        if found and _are_groups(flow, sorting) and not flow.project.survey.mentions(_OTHERWISE, flow.module):
            yield LeftOut(flow.site(sorting.last), sorting.model, tuple(dict.fromkeys(found)))


# --- the loop -----------------------------------------------------------------------------------------------------


def _sorting(loop: t.Repeat) -> _Sorting | None:
    func = loop.iterable.func if isinstance(loop.iterable, t.Call) else None
    model = t.path_of(func.value) if isinstance(func, t.Attribute) and func.name == "named_parameters" else None
    targets = [t.path_of(each) for each in t.names_in(loop.target)] if loop.target is not None else []
    if model is None or len(targets) != 2 or targets[0] is None or targets[1] is None:
        return None
    names = (targets[0], targets[1])
    branch = _only_branch(loop.body, names[1])
    conditions, lists = list[t.Expr](), list[str]()
    while branch is not None:
        into = _put_into(branch.body, names)
        if into is None:
            return None
        conditions.append(branch.test)
        lists.append(into)
        if not branch.orelse:
            is_choice = len(set(lists)) > 1
            return _Sorting(model, names, conditions, branch, lists) if is_choice else None
        following = branch.orelse[0] if len(branch.orelse) == 1 else None
        branch = following if isinstance(following, t.If) else None
    return None


def _only_branch(body: Sequence[t.Stmt], param: str) -> t.If | None:
    """The one ``if`` of a loop, besides what passes over what wants no gradient."""
    rest = [stmt for stmt in body if not _passes_over(stmt, param)]
    only = rest[0] if len(rest) == 1 else None
    if not isinstance(only, t.If):
        return None
    is_asking = t.path_of(only.test) == f"{param}.requires_grad" and not only.orelse
    return _only_branch(only.body, param) if is_asking else only


def _passes_over(stmt: t.Stmt, param: str) -> bool:
    """``if not param.requires_grad: continue``."""
    test = stmt.test if isinstance(stmt, t.If) and not stmt.orelse else None
    is_negation = isinstance(test, t.Operation) and test.operator == "not"
    asked = t.path_of(test.operands[0]) if is_negation and isinstance(test, t.Operation) else None
    body = stmt.body if isinstance(stmt, t.If) else []
    return asked == f"{param}.requires_grad" and len(body) == 1 and isinstance(body[0], t.Leave)


def _put_into(body: Sequence[t.Stmt], names: tuple[str, str]) -> str | None:
    """The list to which a branch appends the parameter, and does nothing else."""
    call = body[0].value if len(body) == 1 and isinstance(body[0], t.Evaluate) else None
    if not isinstance(call, t.Call) or call.name != "append" or len(call.args) != 1:
        return None
    if t.path_of(call.args[0].value) != names[1] or not isinstance(call.func, t.Attribute):
        return None
    return t.path_of(call.func.value)


def _class_of(flow: Flow, path: str) -> Class | None:
    if path == "self":
        return flow.ref.owner
    ref = flow.read(flow.canonical(path), flow.final).ref
    if ref is None and path in flow.params:
        ref = flow.project.passed.argument_class(flow.ref, path)
    return ref if isinstance(ref, Class) else None


def _goes_over_again(flow: Flow, sorting: _Sorting) -> bool:
    """Whether the function asks for all the parameters once more: to compare, or for those that are left."""
    funcs = [call.func for call in flow.ref.calls if not call.name.startswith("clip_grad")]
    over = [func for func in funcs if isinstance(func, t.Attribute) and func.name in ("parameters", "named_parameters")]
    return len([func for func in over if t.path_of(func.value) == sorting.model]) > 1 + _clipped(flow, sorting.model)


def _clipped(flow: Flow, model: str) -> int:
    given = (arg.value for call in flow.ref.calls if call.name.startswith("clip_grad") for arg in call.args)
    funcs = [each.func for each in given if isinstance(each, t.Call)]
    return len([func for func in funcs if isinstance(func, t.Attribute) and t.path_of(func.value) == model])


# --- the groups ---------------------------------------------------------------------------------------------------


def _are_groups(flow: Flow, sorting: _Sorting) -> bool:
    """Whether the lists are all that an optimizer is given, as groups with a weight decay and without one."""
    if _has_groups(flow, sorting.lists):
        return True
    returned = [stmt.value for stmt in flow.ref.define.statements if isinstance(stmt, t.Return)]
    given = returned[0] if len(returned) == 1 else None
    paths = [t.path_of(item) for item in given.items] if isinstance(given, t.Display) else []
    if set(paths) != set(sorting.lists):
        return False
    callers = list(calls_of(flow))
    return bool(callers) and all(_has_groups(caller, _named(caller, call)) for caller, call in callers)


def _named(caller: Flow, call: t.Call) -> list[str]:
    """The variables that a caller binds what it gets to: ``decay, no_decay = split(model)``."""
    for stmt in caller.ref.define.statements:
        if isinstance(stmt, t.Assign) and stmt.value is call:
            return [path for each in t.names_in(stmt.targets[0]) if (path := t.path_of(each)) is not None]
    return []


def _has_groups(flow: Flow, lists: Sequence[str]) -> bool:
    for node in flow.ref.define.nodes:
        groups = [each for each in node.items if isinstance(each, t.DictDisplay)] if isinstance(node, t.Display) else []
        if not isinstance(node, t.Display) or len(groups) < 2 or len(groups) != len(node.items):
            continue
        params = [_entry(group, "params") for group in groups]
        decays = [_entry(group, "weight_decay") for group in groups]
        paths = {t.path_of(each) for each in params if each is not None}
        is_zero = [each is not None and t.is_zero(each) for each in decays]
        if paths == set(lists) and len(paths) == len(groups) and any(is_zero) and not all(is_zero):
            return True
    return False


def _entry(group: t.DictDisplay, name: str) -> t.Expr | None:
    found = (value for key, value in group.entries if isinstance(key, t.Constant) and key.value == name)
    return next(found, None)


# --- the parameters of a model ------------------------------------------------------------------------------------


def _parameters(cls: Class, prefix: str, depth: int) -> Iterator[_Parameter]:
    """Those that its constructors surely make."""
    for constructor in constructors(cls) if depth < _DEEPEST else ():
        for stmt in always_run(constructor.define.body):
            for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
                if isinstance(target, t.Attribute) and t.path_of(target.value) == "self":
                    yield from _of_value(constructor.module, value, prefix + target.name, depth)


def _of_value(module: Module, value: t.Expr, name: str, depth: int) -> Iterator[_Parameter]:
    if not isinstance(value, t.Call):
        return
    ref = module.value_of(value.func).ref
    if isinstance(ref, Class):
        yield from _parameters(ref, f"{name}.", depth + 1)
    known = _PLAIN.match(ref) if isinstance(ref, str) else None
    kind = known.group(1) if known is not None else ""
    if kind == "Parameter" and value.argument("requires_grad", 1) is None:
        yield _Parameter(name, None)
    elif kind in _LAYERS or kind in _NORMS:
        yield from _of_layer(value, kind, name)
    elif kind in ("Sequential", "ModuleList"):
        for place, item in enumerate(_items(value)):
            yield from _of_value(module, item, f"{name}.{place}", depth)


def _of_layer(call: t.Call, kind: str, name: str) -> Iterator[_Parameter]:
    """What a layer has that is told of nothing else."""
    flags = {"bias", "affine", "elementwise_affine"}
    if not any(arg.star or arg.keyword in flags for arg in call.args):
        yield _Parameter(f"{name}.weight", _LAYERS.get(kind, 1))
        if kind != "Embedding" and len(call.args) <= 2:
            yield _Parameter(f"{name}.bias", 1)


def _items(call: t.Call) -> list[t.Expr]:
    """The modules of a sequence or a list; of a comprehension the first."""
    given = [arg.value for arg in call.args if not arg.star]
    first = given[0] if len(given) == 1 else None
    if isinstance(first, t.Comprehension):
        return [first.element]
    return first.items if isinstance(first, t.Display) else given


# --- the conditions -----------------------------------------------------------------------------------------------


def _meets_none(flow: Flow, sorting: _Sorting, parameter: _Parameter) -> bool:
    asked = _Asked(flow, sorting.names, parameter)
    return all(_answer(asked, condition) is False for condition in sorting.conditions)


class _Asked(NamedTuple):
    flow: Flow
    names: tuple[str, str]
    parameter: _Parameter


def _answer(asked: _Asked, test: t.Expr) -> bool | None:
    """What a condition gives for a parameter; None where that is not known."""
    if isinstance(test, t.Operation):
        return _of_operation(asked, test)
    if isinstance(test, t.Call):
        return _of_call(asked, test)
    return True if t.path_of(test) == f"{asked.names[1]}.requires_grad" else None


def _of_operation(asked: _Asked, test: t.Operation) -> bool | None:
    if test.operator == "not":
        answer = _answer(asked, test.operands[0])
        return None if answer is None else not answer
    if test.operator in ("and", "or"):
        answers = [_answer(asked, each) for each in test.operands]
        decisive = test.operator == "or"
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive
    return _of_comparison(asked, test) if len(test.operands) == 2 else None


def _of_comparison(asked: _Asked, test: t.Operation) -> bool | None:
    left, right = test.operands
    if test.operator in ("in", "not in"):
        word = left.value if isinstance(left, t.Constant) else None
        if not isinstance(word, str) or t.path_of(right) != asked.names[0]:
            return None
        return (word in asked.parameter.name) is (test.operator == "in")
    number = right.value if isinstance(right, t.Constant) else None
    dimensions = asked.parameter.dimensions if _is_of_dimensions(left, asked.names[1]) else None
    if dimensions is None or not isinstance(number, int):
        return None
    answers = {
        "==": dimensions == number, "!=": dimensions != number, "<": dimensions < number, ">": dimensions > number,
        "<=": dimensions <= number, ">=": dimensions >= number,
    }  # fmt: skip
    return answers.get(test.operator)


def _is_of_dimensions(expr: t.Expr, param: str) -> bool:
    """``p.ndim``, ``p.dim()``, ``len(p.shape)``."""
    if isinstance(expr, t.Call) and expr.name == "len" and len(expr.args) == 1:
        return t.path_of(expr.args[0].value) == f"{param}.shape"
    return t.path_of(expr.func if isinstance(expr, t.Call) else expr) in (f"{param}.ndim", f"{param}.dim")


def _of_call(asked: _Asked, test: t.Call) -> bool | None:
    """``name.endswith(".bias")``, ``any(word in name for word in words)``."""
    func, first = test.func, test.args[0].value if len(test.args) == 1 else None
    if isinstance(func, t.Attribute) and t.path_of(func.value) == asked.names[0] and first is not None:
        words = _words(asked.flow, first)
        if words is None or func.name not in ("endswith", "startswith"):
            return None
        name = asked.parameter.name
        return name.endswith(words) if func.name == "endswith" else name.startswith(words)
    if test.name != "any" or not isinstance(first, t.Comprehension) or len(first.clauses) != 1:
        return None
    clause, element = first.clauses[0], first.element
    words = _words(asked.flow, clause.iterable) if not clause.conditions else None
    is_in = isinstance(element, t.Operation) and element.operator == "in" and len(element.operands) == 2
    if words is None or not is_in or not isinstance(element, t.Operation):
        return None
    word, within = element.operands
    if not isinstance(word, t.Name) or word.id != t.path_of(clause.target) or t.path_of(within) != asked.names[0]:
        return None
    return any(each in asked.parameter.name for each in words)


def _words(flow: Flow, expr: t.Expr) -> tuple[str, ...] | None:
    """The words of a list, also by its name; a word alone."""
    bound = flow.ref.assigned.get(expr.id, []) if isinstance(expr, t.Name) else []
    whole = bound[0] if len(bound) == 1 else expr
    items = whole.items if isinstance(whole, t.Display) else [whole]
    words = [item.value for item in items if isinstance(item, t.Constant) and isinstance(item.value, str)]
    return tuple(words) if len(words) == len(items) else None

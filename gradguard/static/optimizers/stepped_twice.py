"""Parameters that two optimizers have, which both step after one backward: each step moves them again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.events import Event
from gradguard.static.mistakes.optimizers import SteppedTwice
from gradguard.static.model import Backward, GradCall, Step, ZeroGrad
from gradguard.static.optimizers.replaced_by_methods import is_optimizer
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of
from gradguard.static.program.order import blocks_of
from gradguard.static.program.own_methods import methods_of
from gradguard.static.program.paths import is_or_is_in
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_PARAMETERS = ("parameters", "named_parameters")
_GOING_OVER = (*_PARAMETERS, "modules", "named_modules", "children", "named_children")
_LISTS = ("list", "tuple", "iter")
_PUTS = ("append", "extend", "add", "update")
_DEEPEST = 3


class _Optimizer(NamedTuple):
    """An optimizer of torch, by its path, with what makes it, and the one module whose parameters it is given."""

    path: str
    call: t.Call
    module: str
    is_whole: bool


def stepped_twice(flow: Flow) -> Iterator[SteppedTwice]:
    """The optimizers that are given all of a model of which another one has a part (reads other files)."""
    made = list(_optimizers(flow.ref)) if not flow.facts.is_test else []
    if len(made) < 2:
        return
    made.sort(key=lambda each: flow.site(each.call).line)
    for place, whole in enumerate(made):
        if not whole.is_whole or not _is_plain(flow, whole.module):
            continue
        for at, part in enumerate(made):
            is_told = part.is_whole and part.module == whole.module and at >= place  # by the other one of the two
            step = None
            if not is_told and is_or_is_in(part.module, whole.module):
                step = _stepped_together(flow, whole.path, part.path)
            if step is not None:
                site, other = flow.site(whole.call), flow.site(part.call)
                yield SteppedTwice(site, whole.path, part.path, whole.module, other, step)
                break


# --- what they are given ------------------------------------------------------------------------------------------


def _optimizers(ref: FunctionRef) -> Iterator[_Optimizer]:
    """Those that a function binds once, to a variable or an attribute."""
    for path, values in ref.assigned.items():
        call = values[0] if len(values) == 1 else None
        if "[" in path or not isinstance(call, t.Call) or not is_optimizer(ref, call):
            continue
        given = call.argument("params", 0)
        source = _source(ref, given, 0) if given is not None else None
        if source is not None:
            yield _Optimizer(path, call, *source)


def _source(ref: FunctionRef, expr: t.Expr, depth: int) -> tuple[str, bool] | None:
    """The module whose parameters something is, and whether it is surely all of them."""
    if depth > _DEEPEST:
        return None
    if isinstance(expr, t.Call) and isinstance(expr.func, t.Name) and expr.func.id in _LISTS and len(expr.args) == 1:
        return _source(ref, expr.args[0].value, depth + 1)
    if isinstance(expr, t.Call):
        path = _asked(expr, _PARAMETERS)
        return (path, expr.name == "parameters" and not expr.args) if path is not None else None
    if isinstance(expr, t.Comprehension):
        path = _asked(expr.clauses[0].iterable, _PARAMETERS) if len(expr.clauses) == 1 else None
        return (path, False) if path is not None else None
    if isinstance(expr, t.Name):
        return _of_variable(ref, expr.id, depth)
    return None


def _asked(expr: t.Expr, methods: tuple[str, ...]) -> str | None:
    """``net`` of ``net.parameters()``."""
    func = expr.func if isinstance(expr, t.Call) else None
    return t.path_of(func.value) if isinstance(func, t.Attribute) and func.name in methods else None


def _of_variable(ref: FunctionRef, name: str, depth: int) -> tuple[str, bool] | None:
    """The same of a variable: bound once, filled in a loop, or one of what a function gives: ``a, b = split(net)``."""
    bound = ref.assigned.get(name, [])
    value = bound[0] if len(bound) == 1 else None
    if value is None:
        return None
    modules = set(_filled_from(ref, name))
    if modules:
        only = modules.pop() if len(modules) == 1 else None
        return (only, False) if only is not None else None
    if isinstance(value, t.Call) and (place := _place(ref, name, value)) is not None:
        return _given_by_helper(ref, value, place, depth)
    return _source(ref, value, depth + 1)


def _place(ref: FunctionRef, name: str, value: t.Expr) -> int | None:
    """Which of several results of a call a variable gets."""
    for stmt in ref.define.statements:
        target = stmt.targets[0] if isinstance(stmt, t.Assign) and stmt.value is value else None
        if isinstance(target, t.Display):
            return next((place for place, item in enumerate(target.items) if t.path_of(item) == name), None)
    return None


def _given_by_helper(ref: FunctionRef, call: t.Call, place: int, depth: int) -> tuple[str, bool] | None:
    helper = ref.module.value_of(call.func).ref
    returned = (
        [s.value for s in helper.define.statements if isinstance(s, t.Return)]
        if isinstance(helper, FunctionRef)
        else []
    )
    items = returned[0].items if len(returned) == 1 and isinstance(returned[0], t.Display) else []
    if not isinstance(helper, FunctionRef) or place >= len(items):
        return None
    source = _source(helper, items[place], depth + 1)
    given = helper.given_by(call).get(source[0].partition(".")[0]) if source is not None else None
    path = t.path_of(given) if given is not None else None
    if source is None or path is None:
        return None
    _, dot, rest = source[0].partition(".")
    return path + dot + rest, source[1]


def _returned(ref: FunctionRef) -> list[t.Expr]:
    """The several results of a function with one ``return``."""
    returned = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return)]
    return returned[0].items if len(returned) == 1 and isinstance(returned[0], t.Display) else []


def _filled_from(ref: FunctionRef, name: str) -> Iterator[str | None]:
    """The modules that the loops go over that fill a list; None for whatever else is put into it."""
    for stmt in ref.define.statements:
        put = _put_into(stmt, name)
        if put is None:
            continue
        loops = [each for each in ref.define.statements if isinstance(each, t.Repeat) and t.is_in(stmt, each.body)]
        sources = (_asked(loop.iterable, _GOING_OVER) for loop in loops if loop.iterable is not None)
        targets = {n.id for loop in loops for n in t.walk(loop.target) if isinstance(n, t.Name)}
        used = {node.id for node in t.walk(put) if isinstance(node, t.Name)}
        yield next((source for source in sources if source is not None), None) if used & targets else None


def _put_into(stmt: t.Stmt, name: str) -> t.Expr | None:
    if isinstance(stmt, t.Augment) and t.path_of(stmt.target) == name:
        return stmt.value
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) else None
    is_put = isinstance(func, t.Attribute) and func.name in _PUTS and t.path_of(func.value) == name
    return call.args[0].value if isinstance(call, t.Call) and is_put and call.args else None


def _is_plain(flow: Flow, module: str) -> bool:
    """Whether ``parameters()`` of a module gives those of all its parts, as far as its class is known."""
    cls = flow.ref.owner if module == "self" else flow.read(flow.canonical(module), flow.final).ref
    return not isinstance(cls, Class) or (cls.is_module and cls.method("parameters") is None)


# --- whether both step --------------------------------------------------------------------------------------------


def _stepped_together(flow: Flow, one: str, other: str) -> Site | None:
    """A step of the second of two optimizers, after that of the first and with the same gradients."""
    if one.startswith("self.") and other.startswith("self.") and flow.ref.owner is not None:
        for method in methods_of(flow.ref.owner):
            inner = flow.project.flow(method)
            found = _in_turn(inner, {one}, {other}) if inner is not None else None
            if found is not None:
                return found
        return None
    names = {one: _names(flow.ref, one), other: _names(flow.ref, other)}
    found = _in_turn(flow, names[one], names[other])
    return found or _by_callers(flow, one, other)


def _names(ref: FunctionRef, path: str) -> set[str]:
    """By what a step may name an optimizer: itself, or as one of a list, ``optimizers[*]`` of ``[first, second]``."""
    found = {path}
    for name, values in ref.assigned.items():
        items = values[0].items if len(values) == 1 and isinstance(values[0], t.Display) else []
        found |= {f"{name}[*]"} if any(t.path_of(item) == path for item in items) else set()
    return found


def _by_callers(flow: Flow, one: str, other: str) -> Site | None:
    """The same where a function returns both: ``first, second = build(model)``, ``optimizers = build(model)``."""
    paths = [t.path_of(item) for item in _returned(flow.ref)]
    if one not in paths or other not in paths:
        return None
    for caller, call in calls_of(flow):
        for stmt in caller.ref.define.statements:
            target = stmt.targets[0] if isinstance(stmt, t.Assign) and stmt.value is call else None
            if isinstance(target, t.Display) and len(target.items) == len(paths):
                names = [t.path_of(item) for item in target.items]
                first, second = names[paths.index(one)], names[paths.index(other)]
            else:
                first = second = f"{t.path_of(target)}[*]" if target is not None else None
            found = _in_turn(caller, {first}, {second}) if first is not None and second is not None else None
            if found is not None:
                return found
    return None


def _in_turn(flow: Flow, one: set[str], other: set[str]) -> Site | None:
    """The second step of two that nothing comes between, behind a backward; or that of a loop over both."""
    before: Step | None = None
    for event in flow.facts.events:
        if isinstance(event, Backward | GradCall | ZeroGrad):
            before = None
        if not isinstance(event, Step) or event.runs_closure or event.zeroes:
            continue
        name = event.target or ""
        if name.endswith("[*]") and name in one and name in other and _is_over_both(event):
            return event.site
        if before is not None and _are_both(before.target or "", name, one, other):
            return event.site if _are_side_by_side(flow, before, event) and _has_backward(flow, event) else None
        before = event if name in one or name in other else before
    return None


def _are_side_by_side(flow: Flow, first: Event, second: Event) -> bool:
    """Whether two things are done in one block, so that both are, or neither."""
    for block in blocks_of(flow.ref.define.body):
        single = [stmt for stmt in block if not t.blocks(stmt)]
        if first.is_in(single) and second.is_in(single):
            return first.loop is second.loop
    return False


def _are_both(first: str, second: str, one: set[str], other: set[str]) -> bool:
    return (first in one and second in other) or (first in other and second in one)


def _is_over_both(event: Event) -> bool:
    """Whether a loop over optimizers does nothing but step them, in a loop that has the backward."""
    loop = event.loop
    around = loop.parent if loop is not None else None
    if loop is None or around is None or event.conditional:
        return False
    return not (loop.backwards or loop.grad_calls or loop.zero_grads) and bool(around.backwards)


def _has_backward(flow: Flow, event: Event) -> bool:
    return bool(event.loop.backwards if event.loop is not None else flow.facts.backwards)

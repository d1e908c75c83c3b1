"""Networks that each step freezes, and nothing makes trainable again: their own optimizer has nothing to do then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.files.outline import SCRIPT
from gradguard.static.mistakes.optimizers import NeverUnfrozen
from gradguard.static.model import Loop, Step
from gradguard.static.optimizers.thawed import Thaw, is_switch, may_thaw, thawed
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of, reached
from gradguard.static.program.parameters import chosen, flags_given, frozen_by
from gradguard.static.program.paths import is_part

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class _Freeze(NamedTuple):
    """A statement that freezes a module.

    Args:
        told: the function that does, as it is told.
    """

    stmt: t.Stmt
    module: str
    told: str | None = None


def never_unfrozen(flow: Flow) -> list[NeverUnfrozen]:
    """The networks that a function freezes in each step of a training that is to train them (reads other files)."""
    found = [each for loop in (None, *flow.facts.loops) for each in _in_steps(flow, loop)]
    return list({each.site: each for each in found}.values())


def _in_steps(flow: Flow, loop: Loop | None) -> Iterator[NeverUnfrozen]:
    if not _is_repeated(flow, loop):
        return
    steps = [s for s in flow.facts.steps if loop is None or (s.loop is not None and s.loop.within(loop))]
    freezes = list(freezes_in(flow, _body(flow, loop)))
    frozen = {freeze.module for freeze in freezes}
    for freeze in freezes:
        is_of_object = loop is None and freeze.module.startswith("self.")
        others = list(_steps_of_object(flow)) if is_of_object else []
        concerned = (step for step in (*steps, *others) if _has(step, freeze.module))
        step = next((each for each in concerned if _is_kept(flow, loop, each, freeze.module)), None)
        if step is None or step.target is None:
            continue
        besides = _thawed_besides(flow, [*steps, *others], freeze) if may_thaw(flow, freeze.told) else []
        if besides is not None:
            is_whole = all(is_part(module, freeze.module) for module in step.modules or ())
            left_out_by = [thaw.site for thaw in besides if any(_has(step, each) for each in thaw.paths & frozen)]
            yield NeverUnfrozen(
                flow.site(freeze.stmt), freeze.module, step.target, step.source.site, is_whole or bool(left_out_by),
                left_out_by[0] if left_out_by else None,
            )  # fmt: skip


def _is_repeated(flow: Flow, loop: Loop | None) -> bool:
    """Whether a loop runs several times, or a function that is itself one step is called so often."""
    if loop is not None:
        return not loop.is_once_by_default and loop.count != 1 and not _is_left(_body(flow, loop))
    is_step = any(step.loop is None for step in flow.facts.steps) and flow.facts.name not in (SCRIPT, "main")
    return is_step and not any(each.steps for each in flow.facts.loops)


def _is_left(body: Sequence[t.Stmt]) -> bool:
    """Whether an iteration ends its loop."""
    last = body[-1] if t.leaves(body) else None
    return last is not None and not (isinstance(last, t.Leave) and last.kind == "continue")


def _body(flow: Flow, loop: Loop | None) -> Sequence[t.Stmt]:
    if loop is None:
        return flow.ref.define.body
    return loop.site.node.body if isinstance(loop.site.node, t.Repeat) else ()


def freezes_in(flow: Flow, body: Sequence[t.Stmt]) -> Iterator[_Freeze]:
    """The statements of a block that freeze, on each way through it, or every so many times."""
    for stmt in body:
        yield from (_Freeze(stmt, path) for path in frozen_by(stmt))
        if isinstance(stmt, t.Evaluate) and isinstance(stmt.value, t.Call):
            yield from _by_helper(flow, stmt, stmt.value)
        if isinstance(stmt, t.Repeat) and isinstance(stmt.iterable, t.Display):  # for net in (self.first, self.second):
            frozen = {freeze.module for freeze in freezes_in(flow, stmt.body)}
            paths = map(t.path_of, stmt.iterable.items)
            if isinstance(stmt.target, t.Name) and stmt.target.id in frozen:
                yield from (_Freeze(stmt, path) for path in paths if path is not None)
        if isinstance(stmt, t.With) or (isinstance(stmt, t.If) and _is_periodic(stmt.test)):
            yield from freezes_in(flow, stmt.body)


def _is_periodic(test: t.Expr) -> bool:
    """``i % critic_steps == 0``."""
    return any(isinstance(node, t.Operation) and node.operator == "%" for node in t.walk(test))


def _by_helper(flow: Flow, stmt: t.Stmt, call: t.Call) -> Iterator[_Freeze]:
    """What a function of the program freezes of what it is given: ``set_requires_grad(critic, False)``."""
    owner = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
    helper = _helper(flow, call, owner)
    if helper is not None and owner == "self" and _steps_itself(flow, helper):
        return  # told where it is written
    if helper is None:
        flag = call.argument("requires_grad", 1)
        is_off = isinstance(flag, t.Constant) and flag.value is False and len(call.args) == 2
        if is_off and is_switch(call.name):
            yield from (_Freeze(stmt, path, call.name) for path in _paths(call.args[0].value))
        return
    is_bound = helper.owner is not None and [p.name for p in helper.define.params[:1]] == ["self"]
    params = helper.define.params[1:] if is_bound else helper.define.params
    flags = flags_given(params, call)
    told = helper.define.name if any(param.name in flags for param in params) else None
    for path in _frozen_below(list(chosen(helper.define.body, flags)), flags):
        head, dot, rest = path.partition(".")
        if is_bound and head == "self" and owner is not None:
            yield _Freeze(stmt, owner + dot + rest, told)
        for position, param in enumerate(params):
            given = call.argument(param.name, position) if param.name == head and _keeps(helper, head) else None
            yield from (_Freeze(stmt, own + dot + rest, told) for own in _paths(given))


def _helper(flow: Flow, call: t.Call, owner: str | None) -> FunctionRef | None:
    """The function of the program that is called: a plain one, or a method of the object or of a module."""
    found: object = flow.module.value_of(call.func).ref
    if isinstance(call.func, t.Attribute) and owner == "self" and flow.ref.owner is not None:
        found = flow.ref.owner.method(call.func.name)
    elif isinstance(call.func, t.Attribute) and owner is not None and not isinstance(found, FunctionRef):
        cls = flow.read(flow.canonical(owner), flow.final).ref
        found = cls.method(call.func.name) if isinstance(cls, Class) else None
    return found if isinstance(found, FunctionRef) and not found.define.is_generator else None


def _steps_itself(flow: Flow, helper: FunctionRef) -> bool:
    inner = flow.project.flow(helper)
    return inner is None or bool(inner.facts.steps)


def _keeps(helper: FunctionRef, param: str) -> bool:
    """Whether a parameter stays what it is given, or becomes a list of it: ``nets = [nets]``."""
    bound = helper.assigned.get(param, [])
    return all(isinstance(value, t.Display) and param in [t.path_of(item) for item in value.items] for value in bound)


def _frozen_below(body: Sequence[t.Stmt], flags: dict[str, bool]) -> Iterator[str]:
    """What a block freezes, also each element of a collection: ``for net in nets: ...``."""
    for stmt in body:
        yield from frozen_by(stmt, flags)
        if not isinstance(stmt, t.Repeat) or not isinstance(stmt.target, t.Name) or stmt.iterable is None:
            continue
        inner = [s for each in stmt.body for s in (each.body if isinstance(each, t.If) else [each])]
        path, frozen = t.path_of(stmt.iterable), set(_frozen_below(inner, flags))
        if path is not None and stmt.target.id in frozen:
            yield path


def _paths(given: t.Expr | None) -> Iterator[str]:
    """The path of an argument, or those of a list."""
    for item in given.items if isinstance(given, t.Display) else [given]:
        path = t.path_of(item) if item is not None else None
        if path is not None and path != "self":
            yield path


def _steps_of_object(flow: Flow) -> Iterator[Step]:
    """The steps in other methods of the object."""
    owner = flow.ref.owner
    for method in methods_of(owner) if owner is not None else ():
        other = flow.project.flow(method) if method.define is not flow.ref.define else None
        yield from (step for step in (other.facts.steps if other is not None else ()) if step.inner is None)


def _has(step: Step, module: str) -> bool:
    """Whether an optimizer has the parameters of a module, all of them."""
    return any(is_part(each, module) for each in step.modules or ())


def _thawed_besides(flow: Flow, steps: Sequence[Step], freeze: _Freeze) -> list[Thaw] | None:
    """What makes other networks trainable again, where it is known that this one is not among them; else None.

    They are such as an optimizer has: a list of networks may have this one in it.
    """
    thaws = thawed(flow, freeze.told)
    others = [path for thaw in thaws for path in thaw.paths]
    if not others or any(is_part(each, freeze.module) or is_part(freeze.module, each) for each in others):
        return None
    return thaws if all(any(_has(step, each) for step in steps) for each in others) else None


def _is_kept(flow: Flow, loop: Loop | None, step: Step, module: str) -> bool:
    """Whether the next step is one of the same optimizer, of the same module."""
    paths = (step.target or "", module)
    if any(is_part(path, each) for each in _bound(_body(flow, loop)) for path in paths):
        return False
    owner = flow.ref.owner
    if owner is None or not module.startswith("self."):
        return True
    methods = methods_of(owner)
    building = reached(methods, {"__init__"})
    later = (method for method in methods if method.define.name not in building)
    return not any(is_part(path, each) for method in later for each in method.assigned for path in paths)


def _bound(body: Sequence[t.Stmt]) -> Iterator[str]:
    """The paths that a block binds anew."""
    for stmt in t.walk_statements(body):
        targets = stmt.targets if isinstance(stmt, t.Assign) else [stmt.target] if isinstance(stmt, t.Repeat) else []
        for target in targets:
            yield from filter(None, map(t.path_of, t.names_in(target) if target is not None else ()))

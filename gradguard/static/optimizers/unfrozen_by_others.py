"""Modules that an object unfreezes which was given them beside the optimizer that left them out: a callback.

``Trainer(model, [FreezeUntil(model.encoder, 80)])``, where the trainer makes an optimizer of what wants gradients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import Replacement
from gradguard.static.optimizers.replaced import is_used
from gradguard.static.optimizers.replaced_by_methods import is_optimizer, is_renewed_outside
from gradguard.static.optimizers.replacing import is_below
from gradguard.static.optimizers.stale_by_methods import own_calls, receiver_of
from gradguard.static.optimizers.unfrozen_later import chosen_from, switched
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.local_objects import given_for
from gradguard.static.program.order import comes_before, following
from gradguard.static.program.own_methods import methods_of, reached
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_FREEZES = re.compile(
    r"requires_grad(?:_\(\s*(?:\w+\s*=\s*)?(?:False|not\b)|\s*=\s*(?:False|not\b))|(?<!un)freez", re.I
)
_SEES_TO_OPTIMIZERS = re.compile(r"optim|add_param_group|param_groups|[\"']params[\"']")
_GIVES_MORE = re.compile(r"add_param_group|param_groups\.(?:append|extend|insert)|[\"']params[\"']\s*\]")


class _Place(NamedTuple):
    """Where a model is given to what makes an optimizer of it: by the statement itself, or by a call.

    Args:
        model: its path there.
    """

    ref: FunctionRef
    stmt: t.Stmt
    model: str


class _Thaw(NamedTuple):
    """What an object unfreezes that holds a module of the model.

    Args:
        made: the call that makes it.
        part: the path of what is unfrozen, where the object is made.
    """

    cls: Class
    made: t.Call
    method: FunctionRef
    stmt: t.Stmt
    part: str


def unfrozen_by_others(flow: Flow) -> Iterator[Replacement]:
    """Where a function makes an optimizer of what wants gradients, of a model that another object unfreezes later."""
    ref = flow.ref
    for stmt in ref.define.statements if not flow.facts.is_test else ():
        call = stmt.value if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
        if not isinstance(call, t.Call) or not isinstance(stmt, t.Assign) or not is_optimizer(ref, call):
            continue
        path, modules = t.path_of(stmt.targets[0]), frozenset(chosen_from(flow, call))
        if path is None or not modules or not _goes_on(flow, stmt, path, modules):
            continue
        for module in sorted(modules):
            for thaw in _thaws(flow, stmt, module):
                chosen, unfrozen = flow.site(_choosing(call)), Site(thaw.method.chunk, thaw.stmt)
                yield Replacement(path, flow.site(stmt), chosen, unfrozen, is_unfrozen=True, is_left_out=True)
                return


def _choosing(call: t.Call) -> t.Expr:
    """The argument that leaves out what wants no gradients; the call, where a variable holds it."""
    written = (arg.value for arg in call.args)
    asks = (
        each for each in written if any(isinstance(n, t.Attribute) and n.name == "requires_grad" for n in t.walk(each))
    )
    return next(asks, call)


def _goes_on(flow: Flow, stmt: t.Assign, path: str, modules: frozenset[str]) -> bool:
    """Whether an optimizer steps, and the function and its object neither make another one nor give it more."""
    if len(flow.ref.assigned.get(path, [])) != 1:
        return False
    after = list(following(flow.ref.define.body, stmt))
    return is_used(flow, path, stmt.value, after, modules) and not (
        path.startswith("self.") and is_renewed_outside(flow, path)
    )


def _thaws(flow: Flow, stmt: t.Stmt, module: str) -> Iterator[_Thaw]:
    """What is unfrozen of a module that the optimizer left out as it was frozen (reads other files)."""
    inner = _Place(flow.ref, stmt, module)
    for place in (inner, *_callers(flow, module)):
        for thaw in _thaws_beside(flow, place):
            part_inside = module + thaw.part[len(place.model) :]
            is_frozen = _is_frozen_before(place, thaw) or _freezes_before(inner, part_inside)
            if is_frozen and _is_run(flow, thaw) and not flow.project.survey.mentions(_GIVES_MORE, flow.module):
                yield thaw


def _callers(flow: Flow, module: str) -> Iterator[_Place]:
    """The calls that give a function, or the object that it constructs, the module as a parameter."""
    ref = flow.ref
    names = [param.name for param in ref.define.params]
    param = next((name for name in names if name == module or ref.kept_as(name) == module), None)
    owner = ref.owner if ref.define.name == "__init__" else None
    if param is None or (ref.owner is not None and owner is None):
        return
    name = owner.name if owner is not None else ref.define.name
    for caller in flow.project.written_calling(ref, name=name):
        for stmt in caller.define.statements:
            for call in own_calls(stmt):
                given = ref.given_by(call).get(param) if call.name == name else None
                path = t.path_of(given) if given is not None else None
                if path is not None and _means(caller, call, ref, owner):
                    yield _Place(caller, stmt, path)


def _means(caller: FunctionRef, call: t.Call, ref: FunctionRef, owner: Class | None) -> bool:
    meant = caller.module.value_of(call.func).ref
    return meant is owner if isinstance(meant, Class) else isinstance(meant, FunctionRef) and meant.define is ref.define


# --- what the object does -----------------------------------------------------------------------------------------


def _thaws_beside(flow: Flow, place: _Place) -> Iterator[_Thaw]:
    """What the objects unfreeze that a function makes, and gives the model or a part of it."""
    for call in place.ref.calls:
        cls = place.ref.module.value_of(call.func).ref
        if (
            not isinstance(cls, Class)
            or cls.is_module
            or not _is_handed_on(place.ref, call)
            or not _is_apart(flow, cls)
        ):
            continue
        for name in cls.assigned_names:
            given = given_for(cls, name, call)
            path = (t.path_of(given) or "") if given is not None else ""
            if is_below(path, place.model):
                for method, stmt, owner in _unfreezing(cls, f"self.{name}"):
                    yield _Thaw(cls, call, method, stmt, path + owner[len(f"self.{name}") :])


def _is_apart(flow: Flow, cls: Class) -> bool:
    """Whether a class is no part of what trains, and neither sees to optimizers nor freezes when there is one."""
    if flow.ref.owner is not None and any(each is flow.ref.owner for each in cls.lineage()):
        return False
    if any(each.chunk.shows(_SEES_TO_OPTIMIZERS) for each in cls.lineage()):
        return False
    methods = methods_of(cls)
    building = reached(methods, {"__init__"})
    later = [method for method in methods if method.define.name not in building]
    return not any(_FREEZES.search(Site(m.chunk, m.define).code) or any(map(_is_told_off, m.calls)) for m in later)


def _is_told_off(call: t.Call) -> bool:
    """``self._set(False)``: it may freeze."""
    return any(isinstance(arg.value, t.Constant) and arg.value.value is False for arg in call.args)


def _is_handed_on(ref: FunctionRef, made: t.Call) -> bool:
    """Whether somebody else gets an object, and nothing of it is asked here: ``Trainer(net, [Thaw(net.body, 80)])``.

    What the function itself asks of it is seen there.
    """
    bound = [each for each in ref.define.statements if isinstance(each, t.Assign) and each.value is made]
    names = {t.path_of(target) for each in bound for target in each.targets}
    if any(receiver_of(call) in names or _is_receiver(call, made) for call in ref.calls):
        return False
    holders = [node for node in ref.define.nodes if isinstance(node, t.Call | t.Display) and node is not made]
    held = (each for node in holders for each in _held_by(node))
    return any(each is made or (names and t.path_of(each) in names) for each in held)


def _is_receiver(call: t.Call, made: t.Call) -> bool:
    return isinstance(call.func, t.Attribute) and call.func.value is made


def _held_by(node: t.Call | t.Display) -> list[t.Expr]:
    return [arg.value for arg in node.args] if isinstance(node, t.Call) else node.items


def _unfreezing(cls: Class, module: str) -> Iterator[tuple[FunctionRef, t.Stmt, str]]:
    """The statements of later methods by which an object has a module want gradients, each with the path of that."""
    methods = methods_of(cls)
    building = reached(methods, {"__init__"})
    for method in (each for each in methods if each.define.name not in building):
        for stmt in method.define.statements:
            owner = switched(stmt, frozenset((module,)), on=True) or _switched_by_call(method, stmt, module)
            if owner is not None:
                yield method, stmt, owner


def _switched_by_call(method: FunctionRef, stmt: t.Stmt, module: str) -> str | None:
    """The module that a helper switches on: ``self._set(True)``, ``set_requires_grad(self.module, True)``."""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    callee = method.callee(call) if isinstance(call, t.Call) else None
    if callee is None or not isinstance(call, t.Call):
        return None
    given = callee.given_by(call)
    told = frozenset(name for name, value in given.items() if isinstance(value, t.Constant) and value.value is True)
    own = {name: t.path_of(value) or "" for name, value in given.items()} | (
        {"self": "self"} if callee.owner is not None else {}
    )
    for name, path in own.items() if told else ():
        inside = frozenset((module if name == "self" else name,)) if name == "self" or path else frozenset()
        for each in callee.define.statements:
            owner = switched(each, inside, on=True, told=told)
            if owner is not None:
                whole = owner if name == "self" else path + owner[len(name) :]
                return whole if is_below(whole, module) else None
    return None


def _is_run(flow: Flow, thaw: _Thaw) -> bool:
    """Whether something calls the method, or names it for ``getattr``."""
    name = thaw.method.define.name
    return flow.project.survey.mentions(re.compile(rf"\.{name}\(|['\"]{name}['\"]"), flow.module, name)


# --- what was frozen ----------------------------------------------------------------------------------------------


def _is_frozen_before(place: _Place, thaw: _Thaw) -> bool:
    """Whether the object freezes what it is given when it is made, or the function does so before."""
    building = reached(methods_of(thaw.cls), {"__init__"})
    return _shows_freezing(thaw.cls, building) or _freezes_before(place, thaw.part)


def _freezes_before(place: _Place, part: str) -> bool:
    """Whether a function freezes a part of a model before a statement, or has something do so, or makes it frozen."""
    ref = place.ref
    made = ref.assigned.get(place.model, [])
    cls = ref.module.value_of(made[0].func).ref if len(made) == 1 and isinstance(made[0], t.Call) else None
    if isinstance(cls, Class) and _shows_freezing(cls, reached(methods_of(cls), {"__init__"})):
        return True
    for stmt in ref.define.statements:
        if not comes_before(ref.define.body, stmt, place.stmt):
            continue
        frozen = switched(stmt, frozenset((place.model,)), on=False)
        if frozen is not None and _overlap(frozen, part):
            return True
        if any(_has_frozen(ref, cls, place.model, call, part) for call in own_calls(stmt)):
            return True
    return False


def _has_frozen(ref: FunctionRef, cls: object, model: str, call: t.Call, part: str) -> bool:
    """Whether a call freezes what it is given, or its own object: ``net.load(path, freeze=True)``."""
    concerned = [receiver_of(call), *(t.path_of(arg.value) for arg in call.args)]
    if not any(path is not None and is_below(path, model) and _overlap(path, part) for path in concerned):
        return False
    method = cls.method(call.name) if isinstance(cls, Class) and receiver_of(call) == model else ref.callee(call)
    return _freezes_by_name(call.name) or (method is not None and _shows(method))


def _freezes_by_name(name: str) -> bool:
    return re.search(r"(?<!un)freeze", name, re.I) is not None


def _overlap(one: str, other: str) -> bool:
    return is_below(one, other) or is_below(other, one)


def _shows_freezing(cls: Class, names: set[str]) -> bool:
    return any(_shows(method) for method in methods_of(cls) if method.define.name in names)


def _shows(method: FunctionRef) -> bool:
    return _FREEZES.search(Site(method.chunk, method.define).code) is not None

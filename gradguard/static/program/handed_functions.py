"""Functions that are handed to those who run them: ``Recipe(net, test_fun)``, ``after=[lambda: ema.follow(net)]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Mode
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.screen import Selection, calling

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Project

_MAX_HANDS = 3

_TRAINS = re.compile(r"\.backward\(")


def is_run_by_others(flow: Flow) -> bool:
    """Whether a program that trains hands a method to somebody: in a lambda, or by its name, as an argument."""
    name, survey = flow.ref.define.name, flow.project.survey
    if flow.ref.owner is None or flow.facts.is_test:
        return False
    in_lambda = rf"\blambda\b[^:\n]*:[^\n]*\.{name}\("
    by_name = rf"[(,\[]\s*(?:\w+\s*=\s*)?[a-z_][\w.]*\.{name}\s*[,)\]]"
    is_given = survey.acts(f".{name}", re.compile(f"{in_lambda}|{by_name}"), flow.module)
    return is_given and survey.mentions(_TRAINS, flow.module)


def is_handed_over(project: Project, ref: FunctionRef) -> bool:
    """Whether a program names a function without calling it, or registers it: then some of its callers are not known.

    ``partial(many_losses, n=50)`` in a configuration, ``LOSSES = {"many": many_losses}``.
    """
    name, survey = ref.define.name, project.survey
    if not name.isidentifier():
        return False
    if survey.is_registered(name, ref.module):
        return True
    return any(
        _names(flow, ref)
        for module in survey.naming(name, ref.module)
        for flow in project.flows(module, calling(module.source, name))
    )


def _names(flow: Flow, ref: FunctionRef) -> bool:
    called = {id(call.func) for call in flow.ref.calls}
    nodes = (node for node in flow.ref.define.nodes if isinstance(node, t.Name | t.Attribute))
    return any(id(node) not in called and _is(flow, node, ref) for node in nodes)


def runs(project: Project, ref: FunctionRef) -> Iterator[tuple[Flow, Mode]]:
    """Where a function is run by the functions and objects of the program that it is handed to, and in which mode."""
    name = ref.define.name
    handed = re.compile(rf"[(,=]\s*(?:\w+\.)*{re.escape(name)}\s*[,)]")
    for module in project.survey.naming(name, ref.module):
        if handed.search(module.source.text) is None:
            continue
        for flow in project.flows(module, calling(module.source, name)):
            for call in flow.ref.calls:
                for position, arg in enumerate(call.args):
                    if not arg.star and _is(flow, arg.value, ref):
                        yield from _runs_argument(flow, call, position, 0)


def _is(flow: Flow, expr: t.Expr, ref: FunctionRef) -> bool:
    path = t.path_of(expr)
    if path is None or path.rpartition(".")[2] != ref.define.name:
        return False
    found = flow.read(flow.canonical(path), flow.final).ref
    return isinstance(found, FunctionRef) and found.define is ref.define


def _runs_argument(flow: Flow, call: t.Call, position: int, hands: int) -> Iterator[tuple[Flow, Mode]]:
    """Where what a call gives at a position is run by whom it is given to."""
    callee, made = _called(flow, call)
    if callee is None or hands > _MAX_HANDS:
        return
    decorators = (t.path_of(decorator) for decorator in callee.define.decorators)
    params = callee.define.params[callee.owner is not None and "staticmethod" not in decorators :]
    keyword = call.args[position].keyword
    plain = [param.name for param in params if not param.star]
    name = keyword if keyword in plain else plain[position] if keyword is None and position < len(plain) else None
    if name is None:
        return
    own = callee.owner.name if callee.owner is not None else ""
    yield from _runs_named(callee.module.project, callee, own, name, hands)
    owner = made or callee.owner
    places = {place for cls in owner.lineage() for place in _kept(cls, callee, name)} if owner is not None else set()
    for cls in owner.lineage() if owner is not None and places else ():
        for method in cls.methods.values():
            for place in places:
                yield from _runs_named(cls.module.project, method, cls.name, f"self.{place}", hands)


def _kept(cls: Class, callee: FunctionRef, name: str) -> Iterator[str]:
    """The attributes into which a method of a class puts one of its parameters."""
    return (place for place, method, kept in cls.kept_names if method.define is callee.define and kept == name)


def _called(flow: Flow, call: t.Call) -> tuple[FunctionRef | None, Class | None]:
    """The function of the program that is called; of a class its constructor, with the class."""
    func, owner = call.func, flow.ref.owner
    path = t.path_of(func)
    if isinstance(func, t.Attribute) and isinstance(func.value, t.Call) and t.path_of(func.value.func) == "super":
        bases = list(owner.lineage())[1:] if owner is not None else []
        return next((cls.methods[func.name] for cls in bases if func.name in cls.methods), None), owner
    if path is None:
        return None, None
    found = flow.read(flow.canonical(path), flow.final).ref
    if found is None and (known := flow.module.dotted(path)) is not None:
        found = known.ref
    if isinstance(found, Class):
        return found.method("__init__"), found
    return found if isinstance(found, FunctionRef) else None, None


def _runs_named(project: Project, ref: FunctionRef, owner: str, path: str, hands: int) -> Iterator[tuple[Flow, Mode]]:
    """Where a function, or one that is defined in it, calls what it has at a path, or hands it on."""
    for flow in project.flows(ref.module, Selection(frozenset(((owner, ref.define.name),)))):
        if flow.ref.define is not ref.define and path in flow.locals | set(flow.params):
            continue  # another one
        yield from ((flow, mode) for called, mode in flow.unknown_calls if called == path)
        for call in flow.ref.calls if flow.ref.define is ref.define else ():
            given = (i for i, arg in enumerate(call.args) if not arg.star and t.path_of(arg.value) == path)
            for position in given:
                yield from _runs_argument(flow, call, position, hands + 1)

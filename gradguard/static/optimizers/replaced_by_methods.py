"""Modules that a method makes anew, while the object goes on with the optimizer that it made of the first one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Replacement
from gradguard.static.optimizers.replaced import is_given_more, is_made_by_name, steps
from gradguard.static.optimizers.replacing import adds, is_below, is_copy, replaces, replacing
from gradguard.static.optimizers.unfrozen_later import chosen_from, freezes_some, unfreezes
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import following
from gradguard.static.program.own_methods import leading_to, methods_of, reached
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_ORDER = frozenset(("<", ">", "<=", ">="))


def replaced_by_methods(flow: Flow) -> Iterator[Replacement]:
    """Where an object makes an optimizer once, of a module that another method makes anew: ``self.net = Net()``."""
    owner, ref = flow.ref.owner, flow.ref
    if owner is None:
        return
    for path, making, call in made_once(ref, owner):
        given = frozenset(modules_given(owner, making, call))
        methods = methods_of(owner)
        if not given or not _goes_on(flow, owner, methods, path):
            continue
        training = leading_to(methods, {m.define.name for m in methods if any(steps(n, path) for n in m.define.nodes)})
        for method in _called_later(owner, ref):
            if any(makes_optimizer(method, node) for node in method.define.nodes):
                continue  # one of its own, for the new one
            for stmt in _unfreezing(flow, method, call) if making is ref else ():
                if trains_afterwards(flow, method, training, path, again=ref.define.name != "__init__"):
                    site = Site(method.chunk, stmt)
                    yield Replacement(path, Site(making.chunk, call), site, site, is_unfrozen=True)
            for stmt, replaced in replacing_in(flow, method, given):
                if _trains_with(flow, method, stmt, training, path, again=ref.define.name != "__init__"):
                    yield Replacement(path, Site(making.chunk, call), Site(method.chunk, stmt), replaced)


def _unfreezing(flow: Flow, method: FunctionRef, made: t.Call) -> list[t.Stmt]:
    """The statements of a method that unfreeze what an optimizer was not given, as it was frozen."""
    modules = frozenset(chosen_from(flow, made))
    found = [stmt for stmt in _reached(method.define.body) if modules and unfreezes(stmt, modules)]
    return found if found and freezes_some(flow) else []


def replacing_in(flow: Flow, method: FunctionRef, given: frozenset[str]) -> Iterator[tuple[t.Stmt, Site]]:
    """The statements of a method that make a network anew, or have a part of it do so, each with where that is."""
    for stmt in _reached(method.define.body):
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        func = call.func if isinstance(call, t.Call) else None
        if (isinstance(stmt, t.Assign) and replaces(method, stmt, given)) or adds(method, stmt, given):
            yield stmt, Site(method.chunk, stmt)
        elif isinstance(func, t.Attribute) and any(is_below(t.path_of(func.value) or "", path) for path in given):
            found = [replacing(own, frozenset(("self",))) for own in _methods_meant(flow, func)]
            if found and found[0] is not None and all(found):
                yield stmt, found[0]


def _methods_meant(flow: Flow, func: t.Attribute) -> list[FunctionRef]:
    """The method that is called of a part of the network; where its class is not known, all that modules have so."""
    cls = flow.read(t.path_of(func.value) or "", flow.final).ref
    own = cls.method(func.name) if isinstance(cls, Class) else None
    return [own] if own is not None else list(flow.project.survey.methods_of_modules(func.name, flow.module))


def _reached(body: list[t.Stmt]) -> Iterator[t.Stmt]:
    """The statements of a block, and what is done from a number on: ``if task > 0: self.net.grow(10)``.

    In a loop, too, and at some numbers: ``if step and step % phase == 0:``.
    """
    for stmt in body:
        yield stmt
        if isinstance(stmt, t.Repeat) or (isinstance(stmt, t.If) and _counts(stmt.test)):
            yield from _reached(stmt.body)


def _counts(test: t.Expr) -> bool:
    """Whether a condition compares numbers: ``task > 0``, ``step % 100 == 0 and net.size < 16``."""
    if isinstance(test, t.Operation) and test.operator == "and":
        return any(map(_counts, test.operands))
    is_period = isinstance(test, t.Operation) and test.operator == "==" and _is_remainder(test.operands[0])
    return is_period or (isinstance(test, t.Operation) and test.operator in _ORDER)


def _is_remainder(expr: t.Expr) -> bool:
    return isinstance(expr, t.Operation) and expr.operator == "%"


def made_once(ref: FunctionRef, owner: Class) -> Iterator[tuple[str, FunctionRef, t.Call]]:
    """The optimizers that a constructor makes, or a property that is computed once, each with its path, and where.

    Args:
        ref: the constructor, or the property.
        owner: the class of the object, which may be derived from that of the constructor.
    """
    is_cached = any(_last(decorator) == "cached_property" for decorator in ref.define.decorators)
    is_constructor = ref.define.name == "__init__"
    for stmt in ref.define.body if is_cached or is_constructor else ():
        if is_constructor and (made := made_by(ref, owner, stmt)) is not None:
            yield made
        elif is_cached and isinstance(stmt, t.Return) and isinstance(stmt.value, t.Call):
            making, call = _making(ref, owner, stmt.value)
            if call is not None:
                yield f"self.{ref.define.name}", making, call


def made_by(ref: FunctionRef, owner: Class, stmt: t.Stmt) -> tuple[str, FunctionRef, t.Call] | None:
    """The optimizer that a statement of a method makes for its object."""
    if not isinstance(stmt, t.Assign) or len(stmt.targets) != 1 or not isinstance(stmt.value, t.Call):
        return None
    making, call = _making(ref, owner, stmt.value)
    call = stmt.value if call is None and is_made_by_name(stmt) else call
    path = t.path_of(stmt.targets[0]) or ""
    is_own = path.startswith("self.") and path.count(".") == 1 and "[" not in path
    return (path, making, call) if call is not None and is_own else None


def _making(ref: FunctionRef, owner: Class, call: t.Call) -> tuple[FunctionRef, t.Call | None]:
    """The call that makes an optimizer: this one, or that of a method which gives it, ``self.make_optimizer()``."""
    if is_optimizer(ref, call):
        return ref, call
    name = (t.path_of(call.func) or "").removeprefix("self.")
    method = owner.method(name) if t.path_of(call.func) == f"self.{name}" else None
    given = [s.value for s in method.define.statements if isinstance(s, t.Return)] if method is not None else []
    made = given[0] if len(given) == 1 else None
    if method is not None and isinstance(made, t.Call) and is_optimizer(method, made):
        return method, made
    return ref, None


def makes_optimizer(ref: FunctionRef, node: t.Node) -> bool:
    is_named = isinstance(node, t.Assign) and is_made_by_name(node)
    return is_named or (isinstance(node, t.Call) and is_optimizer(ref, node))


def is_optimizer(ref: FunctionRef, call: t.Call) -> bool:
    """Whether a call makes an optimizer of torch."""
    maker = ref.module.value_of(call.func)
    name = str(maker.ref) if maker.kind is Kind.EXTERNAL else ""
    return name.startswith("torch.optim.") and name.count(".") == 2 and call.name[:1].isupper()


def modules_given(owner: Class, making: FunctionRef, call: t.Call) -> Iterator[str]:
    """The modules whose parameters a call is given: ``self.net`` of ``Adam(self.net.parameters())``.

    Also those that a method of the object parts into groups for it: ``Adam(self.param_groups())``.
    """
    nodes = list(t.walk(call))
    for name in [node.name for node in nodes if isinstance(node, t.Call) and _is_own_method(node)]:
        method = owner.method(name)
        nodes += method.define.nodes if method is not None else ()
    for node in nodes:
        func = node.func if isinstance(node, t.Call) else None
        if isinstance(func, t.Attribute) and func.name in ("parameters", "named_parameters"):
            path = t.path_of(func.value)
            if path is not None:
                kept = making.kept_as(path) if making.define.name == "__init__" and "." not in path else None
                yield kept or path


def _is_own_method(call: t.Call) -> bool:
    return isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "self"


def _goes_on(flow: Flow, owner: Class, methods: list[FunctionRef], path: str) -> bool:
    """Whether an optimizer steps, and nobody makes another one, or gives it more parameters."""
    name = path.partition(".")[2]
    bound = [value for _, value in owner.assigned(name) if not isinstance(value, t.Constant)]
    if len(bound) > 1 or any(cls is not owner and cls.assigned(name) for cls in owner.lineage()):
        return False
    nodes = [node for method in methods for node in method.define.nodes if method.define is not flow.ref.define]
    if any(is_given_more(node, path) for node in nodes) or not any(steps(node, path) for node in nodes):
        return False
    return not is_renewed_outside(flow, path)


def is_renewed_outside(flow: Flow, path: str) -> bool:
    """Whether code of another object makes its optimizer anew, gives it more, or may (reads other files)."""
    name = path.partition(".")[2]
    anew = rf"(?<!self)\.{name}(?:\s*=[^=]|\.add_param_group)|\bdel \w+\.{name}\b|['\"]{name}['\"]"
    return flow.project.survey.mentions(re.compile(anew), flow.module, name)


def _called_later(owner: Class, ref: FunctionRef) -> Iterator[FunctionRef]:
    """The methods that neither make the object nor the optimizer, nor are called by what does."""
    building = reached(methods_of(owner), {"__init__", ref.define.name})
    return (method for name, method in owner.methods.items() if name not in building)


def _trains_with(flow: Flow, method: FunctionRef, stmt: t.Stmt, training: set[str], path: str, *, again: bool) -> bool:
    """Whether what a statement of a method makes is trained then; a copy may be that of the best, when all is done."""
    if not isinstance(stmt, t.Assign) or not is_copy(stmt.value):
        return trains_afterwards(flow, method, training, path, again=again)
    after = list(t.walk(list(following(method.define.body, stmt)))) if not again else []
    if any(steps(node, path) for node in after):
        return True
    if any(isinstance(node, t.Call) and _is_own_method(node) and node.name in training for node in after):
        return True
    return trains_afterwards(flow, method, training - {method.define.name}, path, again=again, by_itself=False)


def trains_afterwards(
    flow: Flow, method: FunctionRef, training: set[str], path: str, *, again: bool, by_itself: bool = True
) -> bool:
    """Whether somebody is seen who has the network made anew, and then has it trained.

    Args:
        method: makes it anew.
        training: the methods that train it.
        path: the optimizer's, in these.
        again: the optimizer is made when it is asked for first: then it must have been trained before, in a loop.
        by_itself: a method that calls one which trains has it trained.
    """
    name = method.define.name
    if by_itself and not again and not training.isdisjoint(method.own_calls):
        return True
    return any(
        _in_order(caller.ref, body, name, training, path)
        for caller in flow.project.calling(method)
        for body in _blocks(caller.ref, loops_only=again)
    )


def _blocks(ref: FunctionRef, *, loops_only: bool) -> Iterator[list[t.Stmt]]:
    """The bodies of the loops of a function, and its own."""
    yield from (stmt.body for stmt in ref.define.statements if isinstance(stmt, t.Repeat))
    if not loops_only and ref.define.name != "__init__":
        yield ref.define.body


def _in_order(ref: FunctionRef, body: list[t.Stmt], name: str, training: set[str], path: str) -> bool:
    """Whether a method of a name is called, and a step, or a method that trains, comes after it."""
    calls = [n for n in t.walk(body) if isinstance(n, t.Call) and isinstance(n.func, t.Attribute)]
    anew = [Site(ref.chunk, call).line for call in calls if call.name == name]
    trained = [Site(ref.chunk, call).line for call in calls if call.name in training or steps(call, path)]
    return bool(anew) and bool(trained) and min(anew) <= max(trained)


def _last(expr: t.Expr) -> str:
    return (t.path_of(expr) or "").rpartition(".")[2]

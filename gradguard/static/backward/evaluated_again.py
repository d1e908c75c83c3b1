"""Closures that an optimizer evaluates several times in one step, and that add up what each backward gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.backward import EvaluatedAgain
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def evaluated_again(flow: Flow) -> Iterator[EvaluatedAgain]:
    """Where an ``LBFGS`` is given a closure that computes gradients, and does not reset them."""
    for call in flow.ref.calls:
        given = call.argument("closure", 0)
        optimizer = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) and call.name == "step" else None
        if given is None or optimizer is None or not _evaluates_again(flow, optimizer):
            continue
        for ref, closure in closures(flow, given):
            backward = backward_of(closure)
            if backward is not None and not any(may_reset(ref, node) for node in closure.nodes):
                yield EvaluatedAgain(Site(ref.chunk, backward), optimizer, flow.site(call))


def _evaluates_again(flow: Flow, optimizer: str) -> bool:
    """Whether an optimizer is surely one that calls its closure more than once: ``LBFGS``, of many iterations."""
    owner, name = flow.ref.owner, optimizer.removeprefix("self.")
    made = list(flow.ref.assigned.get(optimizer, []))
    if not made and owner is not None and name != optimizer:
        made = [value for cls in owner.lineage() for _, value in cls.assigned(name) if not _is_none(value)]
    return bool(made) and all(isinstance(value, t.Call) and _is_lbfgs(flow, value) for value in made)


def _is_none(value: t.Expr) -> bool:
    return isinstance(value, t.Constant) and value.value is None


def _is_lbfgs(flow: Flow, call: t.Call) -> bool:
    maker, limit = flow.module.value_of(call.func), call.argument("max_iter", 2)
    is_one = isinstance(limit, t.Constant) and limit.value == 1
    is_known = maker.kind is not Kind.EXTERNAL or str(maker.ref).startswith("torch.optim.")
    return call.name == "LBFGS" and is_known and not is_one and all(not arg.star for arg in call.args)


def closures(flow: Flow, given: t.Expr) -> Iterator[tuple[FunctionRef, t.Define]]:
    """The functions that an expression may be, each with that in which it is written."""
    ref = flow.ref
    if isinstance(given, t.Name):
        own = _named(ref, given.id)
        bound = ref.assigned.get(given.id, [])
        if own is not None and not bound:
            yield ref, own
        elif own is None and len(bound) == 1 and isinstance(bound[0], t.Call):
            yield from _given_by(flow, bound[0])
        elif own is None and not bound:
            function = ref.module.value_of(given).ref
            yield from ((each, each.define) for each in (function,) if isinstance(each, FunctionRef))
    elif isinstance(given, t.Call):
        yield from _given_by(flow, given)
    elif isinstance(given, t.Attribute):
        method = _method(flow, given)
        yield from ((each, each.define) for each in (method,) if each is not None)


def _given_by(flow: Flow, call: t.Call) -> Iterator[tuple[FunctionRef, t.Define]]:
    """The function that another one makes and gives: ``return closure``."""
    function = flow.module.value_of(call.func).ref
    maker = function if isinstance(function, FunctionRef) else None
    if maker is None and isinstance(call.func, t.Attribute):
        maker = _method(flow, call.func)
    given = [s.value for s in maker.define.statements if isinstance(s, t.Return)] if maker is not None else []
    name = given[0].id if len(given) == 1 and isinstance(given[0], t.Name) else None
    made = _named(maker, name) if maker is not None and name is not None else None
    if maker is not None and made is not None:
        yield maker, made


def _method(flow: Flow, called: t.Attribute) -> FunctionRef | None:
    """The method of an object: ``problem.closure``."""
    owner = t.path_of(called.value)
    if owner is None:
        return None
    cls = flow.ref.owner if owner == "self" else flow.read(flow.canonical(owner), flow.final).ref
    return cls.method(called.name) if isinstance(cls, Class) else None


def _named(ref: FunctionRef, name: str) -> t.Define | None:
    """The function of a name that is written in another one, if only one is."""
    found = [s for s in ref.define.statements if isinstance(s, t.Define) and s.name == name]
    return found[0] if len(found) == 1 and not found[0].decorators else None


def backward_of(closure: t.Define) -> t.Call | None:
    calls = (node for node in closure.nodes if isinstance(node, t.Call) and isinstance(node.func, t.Attribute))
    return next((call for call in calls if call.name == "backward"), None)


def may_reset(ref: FunctionRef, node: t.Node) -> bool:
    """Whether a part of a closure resets gradients, by itself or by what it calls, as far as names and texts tell."""
    if isinstance(node, t.Attribute) and node.name == "grad":
        return True
    if not isinstance(node, t.Call):
        return False
    if any(word in node.name.lower() for word in ("zero", "reset", "clear", "closure")):
        return True
    called = ref.module.value_of(node.func).ref
    is_own = isinstance(node.func, t.Attribute) and t.path_of(node.func.value) == "self"
    if is_own and ref.owner is not None:
        called = ref.owner.method(node.name)
    return isinstance(called, FunctionRef) and "zero_grad" in Site(called.chunk, called.define).code

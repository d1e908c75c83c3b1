"""Optimizers of two passes, as SAM, whose second pass adds to the gradients that the weights were moved along.

The first gradients only say where the weights go to, for a moment: the step is to be taken with the second ones alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.evaluated_again import backward_of, closures, may_reset
from gradguard.static.mistakes.backward import PerturbedBetween
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import has, onwards
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_MOVES = re.compile(r"(?:add|sub)_$|^addc\w+_$")
_RESETS = re.compile(r"zero|reset|clear", re.I)


def perturbed_between(flow: Flow) -> Iterator[PerturbedBetween]:
    """The second backwards of a step, before which nothing resets what the first one left."""
    if flow.facts.is_test:
        return
    for stmt in flow.ref.define.statements:
        for call in _own_calls(stmt):
            cls = _optimizer_of(flow, call)
            method = cls.method(call.name) if cls is not None else None
            if method is None:
                continue
            if call.name == "step":
                yield from _in_step(flow, method, call)
            elif _perturbs(method) and not _resets_by(method, call):
                yield from _in_loop(flow, method, stmt, call)


def _optimizer_of(flow: Flow, call: t.Call) -> Class | None:
    """The class of the program, derived from an optimizer of torch, whose method is called."""
    path = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
    owner = flow.ref.owner
    if path is None:
        return None
    made = list(flow.ref.assigned.get(path, []))
    if not made and owner is not None and path.startswith("self."):
        made = [value for cls in owner.lineage() for _, value in cls.assigned(path.removeprefix("self."))]
    found = [flow.module.value_of(value.func).ref for value in made if isinstance(value, t.Call)]
    cls = found[0] if len(found) == 1 == len(made) else None
    return cls if isinstance(cls, Class) and cls.is_optimizer else None


def _in_step(flow: Flow, step: FunctionRef, call: t.Call) -> Iterator[PerturbedBetween]:
    """``closure()``, then away along its gradients, then ``closure()`` again: of a closure that resets nothing."""
    given = call.argument("closure", 0)
    again = _second_run(step)
    for ref, closure in closures(flow, given) if given is not None and again is not None else ():
        backward = backward_of(closure)
        if again is not None and backward is not None and not any(may_reset(ref, node) for node in closure.nodes):
            moved, run = again
            yield PerturbedBetween(Site(step.chunk, run), Site(step.chunk, moved), Site(ref.chunk, backward))


def _second_run(step: FunctionRef) -> tuple[t.Stmt, t.Call] | None:
    """What moves the weights away in a step, and where the closure then runs once more with the gradients left."""
    names = [param.name for param in step.define.params[1:2]]
    runs = [(s, c) for s in step.define.statements for c in _own_calls(s) if t.path_of(c.func) in names]
    for first, _ in runs:
        after = onwards(step.define.body, first)
        if not any(has(after, stmt) for stmt, _ in runs):
            continue
        moved: t.Stmt | None = None
        for stmt in after:
            run = next((call for each, call in runs if each is stmt), None)
            if run is not None:
                return (moved, run) if moved is not None else None
            if _resets(step, stmt):
                return None
            moved = stmt if moved is None and _moves_away(step, stmt) else moved
    return None


def _in_loop(flow: Flow, method: FunctionRef, stmt: t.Stmt, call: t.Call) -> Iterator[PerturbedBetween]:
    """``loss.backward()``, ``optimizer.first_step()``, and the next ``backward()`` of the same iteration."""
    body = flow.ref.define.body
    before = (each for each in flow.ref.define.statements if _runs_backward(each))
    if not any(stmt in onwards(body, each) for each in before):
        return
    for each in onwards(body, stmt):
        if _resets(flow.ref, each) or any(t.path_of(c.func) == t.path_of(call.func) for c in _own_calls(each)):
            return
        if _runs_backward(each):
            backward = next(c for c in _own_calls(each) if c.name == "backward")
            yield PerturbedBetween(flow.site(backward), flow.site(call), None)
            return


def _runs_backward(stmt: t.Stmt) -> bool:
    return any(call.name == "backward" and isinstance(call.func, t.Attribute) for call in _own_calls(stmt))


def _moves_away(ref: FunctionRef, stmt: t.Stmt) -> bool:
    """Whether a statement of a step moves the weights along their gradients, or calls the method that does."""
    methods = (method for call in _own_calls(stmt) if (method := _own_method(ref, call)) is not None)
    return any(map(_perturbs, methods)) or (isinstance(stmt, t.Repeat) and _moves_and_notes([stmt]))


def _perturbs(method: FunctionRef) -> bool:
    return method.define.name != "step" and _moves_and_notes(method.define.body)


def _moves_and_notes(body: Sequence[t.Stmt]) -> bool:
    """Whether some statements move parameters in place by their gradients, and note where these were, or the way back.

    Not if they keep the gradients themselves: then they may be taken out of the sum again.
    """
    nodes = list(t.walk(list(body)))
    grads = [node for node in nodes if isinstance(node, t.Attribute) and node.name == "grad"]
    moves = any(isinstance(node, t.Call) and _MOVES.search(node.name) is not None for node in nodes)
    targets = [
        (t.path_of(target) or "", node.value) for node in nodes if isinstance(node, t.Assign) for target in node.targets
    ]
    notes = any(path.startswith("self.state") for path, _ in targets)
    kept = any(isinstance(value, t.Attribute) and value.name == "grad" and "[" in path for path, value in targets)
    copied = any(isinstance(n, t.Call) and n.name in ("clone", "deepcopy") and _is_of_gradient(n) for n in nodes)
    written = any(path.endswith(".grad") for path, _ in targets)
    return bool(grads) and moves and notes and not (kept or copied or written)


def _is_of_gradient(call: t.Call) -> bool:
    return any(isinstance(node, t.Attribute) and node.name == "grad" for node in t.walk(call))


def _resets(ref: FunctionRef, stmt: t.Stmt) -> bool:
    """Whether a statement resets gradients, or may, by itself or by a method of its object."""
    if isinstance(stmt, t.Assign) and any(isinstance(x, t.Attribute) and x.name == "grad" for x in stmt.targets):
        return True
    for call in _own_calls(stmt):
        method = _own_method(ref, call)
        if method is not None:
            if _resets_by(method, call):
                return True
        elif _RESETS.search(call.name) is not None:
            return True
    return False


def _resets_by(method: FunctionRef, call: t.Call) -> bool:
    """Whether a method resets gradients as it is called: not where it is told not to, ``zero_grad=False``."""
    for stmt in method.define.statements:
        if _resets_itself(stmt) and not any(_is_off(method, call, test) for test in _asked_around(method, stmt)):
            return True
    return False


def _resets_itself(stmt: t.Stmt) -> bool:
    is_unset = isinstance(stmt, t.Assign) and any(isinstance(x, t.Attribute) and x.name == "grad" for x in stmt.targets)
    return is_unset or any(_RESETS.search(call.name) is not None for call in _own_calls(stmt))


def _asked_around(method: FunctionRef, stmt: t.Stmt) -> Iterator[t.Expr]:
    return (each.test for each in method.define.statements if isinstance(each, t.If) and has(each.body, stmt))


def _is_off(method: FunctionRef, call: t.Call, test: t.Expr) -> bool:
    """Whether a condition is a parameter that a call leaves, or sets, to False."""
    param = next((p for p in method.define.params if isinstance(test, t.Name) and p.name == test.id), None)
    if param is None or any(arg.star for arg in call.args):
        return False
    given = method.given_by(call).get(param.name, param.default)
    return isinstance(given, t.Constant) and given.value is False


def _own_method(ref: FunctionRef, call: t.Call) -> FunctionRef | None:
    is_own = isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "self"
    return ref.owner.method(call.name) if ref.owner is not None and is_own else None


def _own_calls(stmt: t.Stmt) -> list[t.Call]:
    """The calls in a statement itself, not those in its blocks."""
    value = stmt.value if isinstance(stmt, t.Assign | t.Evaluate | t.Return | t.Augment) else None
    return [node for node in t.walk(value) if isinstance(node, t.Call)]

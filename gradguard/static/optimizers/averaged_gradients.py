"""Optimizers of a program's own whose states average gradients that have a graph themselves.

After ``loss.backward(create_graph=True)`` a parameter's ``grad`` has a graph, and what is computed of it and of the
state that was there, ``0.9 * state["mean"] + 0.1 * p.grad``, goes on from the graphs of all steps before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.kept.tensor_keys import bound_pairs
from gradguard.static.mistakes.optimizers import AveragedGradient
from gradguard.static.model import Mode
from gradguard.static.reading.modes import gradient_context
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_WITH_GRAPH = re.compile(r"^[^#\n]*\.backward\([^\n]*\bcreate_graph\s*=\s*True", re.M)
_MIXING = frozenset("add_ sub_ lerp_ addcmul_ addcdiv_".split())
_CHAINED = _MIXING | {"mul_", "div_"}
_ROUNDS = 4


def averaged_gradients(flow: Flow) -> Iterator[AveragedGradient]:
    """Where the method of an optimizer does so, if a backward of its program makes such gradients for it."""
    owner = flow.ref.owner
    if owner is None or not owner.is_optimizer or flow.facts.entry_mode is Mode.OFF or _switches(flow):
        return
    found = list(_Averages(flow).found())
    if found and _gets_graphs(flow, owner.name) and not flow.facts.called_without_grad():
        yield from found


def _switches(flow: Flow) -> bool:
    return any(call.name == "set_grad_enabled" for call in flow.ref.calls)


def _gets_graphs(flow: Flow, name: str) -> bool:
    """Whether a file that makes the optimizer, and no other one, has a backward with ``create_graph=True``."""
    made = re.compile(rf"(?<!class )\b{re.escape(name)}\(")
    others = re.compile(rf"\boptim\.(?!{re.escape(name)}\b)[A-Z]\w+\(|\b(?:SGD|Adam|AdamW|RMSprop)\(")
    texts = flow.project.survey.texts_used(name, flow.module, _WITH_GRAPH)
    return any(made.search(text) and _WITH_GRAPH.search(text) and not others.search(text) for text in texts)


class _Averages:
    """What a function knows of gradients and of states, each by its names."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.define = flow.ref.define
        self.gradients: set[str] = set()
        self.states: dict[str, str] = {}
        self.without = {n for n in self.define.all(t.With) if self._is_without(n)}
        for _ in range(_ROUNDS):
            known = len(self.gradients) + len(self.states)
            self._learn()
            if len(self.gradients) + len(self.states) == known:
                break

    def found(self) -> Iterator[AveragedGradient]:
        unrecorded = {id(node) for each in self.without for node in t.walk(each.body)}
        told = set[str]()
        for stmt in self.define.statements:
            place, given = self._mixed(stmt)
            if place is None or place in told or id(stmt) in unrecorded or self._is_cut(place):
                continue
            value = next((each for each in given if self._has_graph(each)), None)
            if value is not None:
                told.add(place)
                yield AveragedGradient(self.flow.site(stmt), place, self.flow.site(value))

    def _is_without(self, stmt: t.With) -> bool:
        modes = [gradient_context(self.flow, item) for item, _ in stmt.items]
        return Mode.OFF in modes or Mode.UNKNOWN in modes

    def _learn(self) -> None:
        """``g = p.grad``, ``grads.append(p.grad)``, ``for p, g in zip(params, grads)``, ``mean = state["mean"]``."""
        for stmt in self.define.statements:
            if isinstance(stmt, t.Assign):
                for target, value in t.pairs(stmt.targets, stmt.value):
                    self._bind(target, value)
            elif isinstance(stmt, t.Repeat) and stmt.target is not None and stmt.iterable is not None:
                for target, value in bound_pairs(stmt.target, stmt.iterable):
                    self._bind(target, value)
            call = stmt.value if isinstance(stmt, t.Evaluate) else None
            func = call.func if isinstance(call, t.Call) else None
            if isinstance(call, t.Call) and isinstance(func, t.Attribute) and func.name == "append" and call.args:
                self._bind(func.value, call.args[0].value)

    def _bind(self, target: t.Expr, value: t.Expr) -> None:
        name = target.id if isinstance(target, t.Name) else None
        if name is None:
            return
        place = self._place(value)
        if place is not None:
            self.states.setdefault(name, place)
        elif name not in self.gradients and self._has_graph(value):
            self.gradients.add(name)  # `g = g + decay * p` has one if it has
            bound = self.flow.ref.assigned.get(name, [])
            if not all(self._has_graph(each) or _is_empty(each) for each in bound):
                self.gradients.discard(name)

    def _place(self, expr: t.Expr) -> str | None:
        """What is kept of a parameter: ``self.state[p]``, ``state["mean"]``, or a variable for it."""
        if isinstance(expr, t.Name):
            return self.states.get(expr.id)
        if not isinstance(expr, t.Subscript):
            return None
        if t.path_of(expr.value) == "self.state":
            return "self.state[*]"
        base = self._place(expr.value)
        return f"{base}[{expr.index.value!r}]" if base is not None and isinstance(expr.index, t.Constant) else None

    def _mixed(self, stmt: t.Stmt) -> tuple[str | None, list[t.Expr]]:
        """The place that a statement computes from what was there, and what goes into it."""
        if isinstance(stmt, t.Assign) and len(stmt.targets) == 1:
            place = self._of_entry(stmt.targets[0])
            parts = [node for node in t.walk(stmt.value) if isinstance(node, t.Expr)]
            is_own = place is not None and any(self._place(part) == place for part in parts)
            return (place, [stmt.value]) if is_own else (None, [])
        if isinstance(stmt, t.Augment):
            return self._of_entry(stmt.target), [stmt.value]
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        given = list[t.Expr]()
        while isinstance(call, t.Call) and isinstance(call.func, t.Attribute) and call.func.name in _CHAINED:
            given += [arg.value for arg in call.args] if call.func.name in _MIXING else []
            call = call.func.value
        return (self._of_entry(call) if call is not None and given else None), given

    def _of_entry(self, expr: t.Expr) -> str | None:
        place = self._place(expr)
        return place if place is not None and place != "self.state[*]" else None

    def _is_cut(self, place: str) -> bool:
        """Whether anything detaches what is kept there."""
        called = (call.func for call in self.flow.ref.calls if call.name in ("detach", "detach_"))
        return any(isinstance(func, t.Attribute) and self._place(func.value) == place for func in called)

    def _has_graph(self, expr: t.Expr) -> bool:
        """Whether an expression surely has the graph of a gradient."""
        if isinstance(expr, t.Name):
            return expr.id in self.gradients
        if isinstance(expr, t.Attribute):
            return expr.name == "grad"
        if isinstance(expr, t.Subscript):
            return self._has_graph(expr.value)
        if isinstance(expr, t.Operation):
            return expr.operator in k.ARITHMETIC and any(map(self._has_graph, expr.operands))
        if isinstance(expr, t.Comprehension):
            return expr.kind == "list" and self._has_graph(expr.element)
        if not isinstance(expr, t.Call) or expr.name not in k.DIFFERENTIABLE_METHODS:
            return False
        called = self.flow.module.value_of(expr.func)
        of_torch = called.kind is Kind.EXTERNAL and str(called.ref).startswith("torch.")
        of = [arg.value for arg in expr.args] if of_torch else []
        of += [expr.func.value] if isinstance(expr.func, t.Attribute) and not of_torch else []
        return any(map(self._has_graph, of))


def _is_empty(value: t.Expr) -> bool:
    """``[]``, or several of them: ``params, grads = [], []``."""
    return isinstance(value, t.Display) and all(_is_empty(item) for item in value.items)

"""Whether a tensor goes into what is backpropagated, or what a module returns, as it is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.order import onwards

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">=", "in", "not in", "is", "is not", "not"))


class WayToLoss:
    """The ways in one function.

    Args:
        hidden: what it computes without a graph.
    """

    def __init__(self, flow: Flow, hidden: Collection[t.Node]) -> None:
        self.flow, self.define, self.hidden = flow, flow.ref.define, hidden
        self.backwards = {each.site.node for each in flow.facts.backwards}

    def leads(self, stmt: t.Stmt, node: t.Node, name: str | None, made_of: tuple[t.Expr, ...]) -> bool:
        """Whether a tensor goes into what is backpropagated, or returned by a module.

        Args:
            stmt: from this statement on.
            node: what it is there.
            name: the variable that is changed.
            made_of: what it was computed of: where that is returned beside it, the loss may be one of that.
        """
        names = {name} if name is not None else set[str]()
        for each in [stmt, *onwards(self.define.body, stmt)]:
            if isinstance(each, t.Return):
                if each.value is not None and self._is_for_loss(each.value, node, names, made_of):
                    return True
            elif isinstance(each, t.Evaluate):
                if self._is_backward(each.value, node, names):
                    return True
                names.update(self._filled(each.value, node, names))
            elif isinstance(each, t.Augment):
                if each is node or self._carries(each.value, node, names):
                    names.update(_base(each.target))
            elif isinstance(each, t.Assign):
                carries = each is node or self._carries(each.value, node, names)
                for target in (one for whole in each.targets for one in t.names_in(whole)):
                    if carries:
                        names.update(_base(target))
                    elif isinstance(target, t.Name):
                        names.discard(target.id)
            elif isinstance(each, t.Repeat) and each.target is not None and each.iterable is not None:
                carries = self._carries(each.iterable, node, names)
                names.update(found for one in t.names_in(each.target) for found in _base(one) if carries)
        return False

    def _is_for_loss(self, value: t.Expr, node: t.Node, names: set[str], made_of: tuple[t.Expr, ...]) -> bool:
        if not self.flow.facts.is_module_method or isinstance(value, t.DictDisplay):
            return False
        if not isinstance(value, t.Display):
            return self._carries(value, node, names)
        if not value.items or not self._carries(value.items[0], node, names):
            return False
        known = {each.id for expr in made_of for each in t.walk(expr) if isinstance(each, t.Name)}
        return not any(isinstance(each, t.Name) and each.id in known for each in value.items[1:])

    def _is_backward(self, value: t.Expr, node: t.Node, names: set[str]) -> bool:
        if not isinstance(value, t.Call) or value not in self.backwards:
            return False
        parts = [arg.value for arg in value.args]
        parts += [value.func.value] if isinstance(value.func, t.Attribute) else []
        return any(self._carries(part, node, names) for part in parts)

    def _filled(self, value: t.Expr, node: t.Node, names: set[str]) -> Iterator[str]:
        """The collection, or the tensor, that a call puts it into: ``outs.append(y)``, ``z.add_(y)``."""
        func = value.func if isinstance(value, t.Call) else None
        if not isinstance(value, t.Call) or not isinstance(func, t.Attribute):
            return
        fills = func.name in ("append", "extend", "insert") or func.name.endswith("_")
        if fills and any(self._carries(arg.value, node, names) for arg in value.args):
            yield from _base(func.value)

    def _carries(self, expr: t.Expr, node: t.Node, names: set[str]) -> bool:
        """Whether the graph of a tensor is in what an expression gives."""
        if expr is node:
            return True
        if expr in self.hidden:
            return False
        parts: list[t.Expr] = []
        if isinstance(expr, t.Name):
            return expr.id in names
        if isinstance(expr, t.Attribute):
            parts += [expr.value] if expr.name not in k.BREAKING_ATTRIBUTES else []
        elif isinstance(expr, t.Call):
            is_method = isinstance(expr.func, t.Attribute)
            if expr.name not in (k.BREAKING_METHODS if is_method else k.BREAKING_FUNCTIONS):
                parts += [arg.value for arg in expr.args]
                parts += [expr.func.value] if isinstance(expr.func, t.Attribute) else []
        elif isinstance(expr, t.Operation):
            parts += expr.operands if expr.operator not in _COMPARISONS else []
        elif isinstance(expr, t.Subscript | t.Starred):
            parts.append(expr.value)
        elif isinstance(expr, t.Conditional):
            parts += [expr.body, expr.orelse]
        elif isinstance(expr, t.Display):
            parts += expr.items
        elif isinstance(expr, t.DictDisplay):
            parts += [value for _, value in expr.entries]
        elif isinstance(expr, t.Comprehension):
            parts += [expr.element, *(clause.iterable for clause in expr.clauses)]
        return any(self._carries(part, node, names) for part in parts)


def _base(target: t.Expr) -> list[str]:
    """The variable that a target is, or is a part of."""
    while isinstance(target, t.Subscript | t.Attribute):
        target = target.value
    return [target.id] if isinstance(target, t.Name) and target.id != "self" else []

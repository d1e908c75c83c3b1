"""Which names of a function hold whole numbers or truth values: no tensor of these takes part in a gradient."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradguard.static import knowledge as k
from gradguard.static import tree as t


def whole_names(define: t.Define) -> frozenset[str]:
    """The names that are only ever given whole numbers or truth values, or by which parts of a tensor are picked."""
    given = _given(define)
    found = _Names({p.name for p in define.params}, given)
    return frozenset(_indices(define)) | {name for name in given if found.are_whole(name)}


def _given(define: t.Define) -> dict[str, list[t.Expr | None]]:
    """What each name is bound to; None for what is not written there."""
    given: dict[str, list[t.Expr | None]] = defaultdict(list)
    for stmt in define.statements:
        if isinstance(stmt, t.Assign):
            for target, value in t.pairs(stmt.targets, stmt.value):
                items = target.items if isinstance(target, t.Display) else []
                for i, item in enumerate(items):  # values, indices = x.topk(5)
                    for name in t.names_in(item):
                        part = t.Subscript(None, value, t.Constant(None, i)) if name is item else None
                        given[t.path_of(name) or ""].append(part)
                if not items:
                    given[t.path_of(target) or ""].append(value)
        elif isinstance(stmt, t.Augment):
            path = t.path_of(stmt.target) or ""
            given[path].append(t.Operation(None, stmt.operator, [stmt.target, stmt.value]))
        elif isinstance(stmt, t.Repeat) and stmt.target is not None:
            for item in t.names_in(stmt.target):
                given[t.path_of(item) or ""].append(None)
    return given


def _indices(define: t.Define) -> Iterator[str]:
    """The names of what picks parts of tensors: ``rows`` of ``x[:, rows]`` and of ``x.index_select(1, rows)``."""
    for node in define.nodes:
        if isinstance(node, t.Subscript):
            index = node.index
            if isinstance(index, t.Slice):
                yield from (bound for bound in index.bounds if isinstance(bound, str) and bound.isidentifier())
            for item in index.items if isinstance(index, t.Display) else [index]:
                if isinstance(item, t.Name):
                    yield item.id
        elif isinstance(node, t.Call) and node.name in k.TAKING_INDICES:
            index_of = node.argument("index", 2 if _is_function(node) else 1)
            if isinstance(index_of, t.Name):
                yield index_of.id


class _Names:
    """The question, asked of one name after the other.

    Args:
        params: of the function: what they are is not known.
        given: what each name is bound to.
    """

    def __init__(self, params: set[str], given: dict[str, list[t.Expr | None]]) -> None:
        self.params = params
        self.given = given
        self.asked: set[str] = set()

    def are_whole(self, name: str) -> bool:
        """Whether all that is bound to a name is whole."""
        if name in self.asked:
            return name not in self.params  # it goes on from what it was
        self.asked.add(name)
        values = self.given.get(name, [])
        whole = bool(values) and all(value is not None and self.is_whole(value) for value in values)
        self.asked.discard(name)
        return whole

    def is_whole(self, expr: t.Expr) -> bool:
        """Whether an expression surely gives whole numbers or truth values."""
        if isinstance(expr, t.Constant):
            return isinstance(expr.value, int)
        if isinstance(expr, t.Name):
            return (expr.id not in self.params or expr.id in self.given) and self.are_whole(expr.id)
        if isinstance(expr, t.Attribute):
            return expr.name in ("indices", "shape") or (expr.name in ("T", "data") and self.is_whole(expr.value))
        if isinstance(expr, t.Subscript):
            return self._is_part_whole(expr)
        if isinstance(expr, t.Operation):
            compares = expr.operator in k.COMPARING
            return compares or (expr.operator not in ("/", "@", "**") and all(map(self.is_whole, expr.operands)))
        if isinstance(expr, t.Display):
            return bool(expr.items) and all(map(self.is_whole, expr.items))
        return isinstance(expr, t.Call) and self._is_result_whole(expr)

    def _is_part_whole(self, expr: t.Subscript) -> bool:
        of, index = expr.value, expr.index.value if isinstance(expr.index, t.Constant) else None
        if isinstance(of, t.Call) and type(index) is int and index > 0:
            several = of.name in k.INDEXED_RESULTS or any(map(of.is_true, k.SEVERAL_IF_ASKED))
            if several:
                return True
        return self.is_whole(of)

    def _is_result_whole(self, call: t.Call) -> bool:
        name = call.name
        given = [arg.value for arg in call.args if not arg.keyword and not arg.star]
        named = call.argument("dtype") or next((a for a in given if _dtype(a)), None)
        if named is not None:
            return _dtype(named) == "whole"
        if name in k.WHOLE_RESULTS or (name == "where" and len(call.args) == 1):
            return True
        if name == "arange":
            return not any(isinstance(a, t.Constant) and isinstance(a.value, float) for a in given)
        of = (
            given[0]
            if _is_function(call) and given
            else call.func.value
            if isinstance(call.func, t.Attribute)
            else None
        )
        if name in ("tensor", "as_tensor", "cat", "stack"):
            return bool(given) and self.is_whole(given[0])
        if name == "to":
            return of is not None and all(map(_is_device, given)) and self.is_whole(of)
        rounds = name in ("div", "divide") and call.argument("rounding_mode") is not None
        return of is not None and (rounds or name in k.SAME_DTYPE) and self.is_whole(of)


def _is_function(call: t.Call) -> bool:
    """Whether it is a function of torch, not a tensor's method."""
    return isinstance(call.func, t.Attribute) and t.path_of(call.func.value) in ("torch", "th")


def _dtype(expr: t.Expr) -> str | None:
    """Whether a dtype is one of whole numbers (or truth values), ``whole``, or another one; None for what is none."""
    path = t.path_of(expr) or ""
    name = path.rsplit(".", 1)[-1]
    if path.startswith(("torch.", "np.", "numpy.")) or path == name:
        return "whole" if name in k.WHOLE_DTYPES else "other" if name in k.OTHER_DTYPES else None
    return None


def _is_device(expr: t.Expr) -> bool:
    """Whether it says where a tensor is to be, and not of which dtype."""
    return isinstance(expr, t.Constant) or (t.path_of(expr) or "").rsplit(".", 1)[-1] in ("device", "dev")

"""Of which calls a function only takes the numbers: ``net(x).detach()``, or ``out = net(x)`` and ``out.data``.

By syntax alone, and by names: each use counts, in whatever order.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from gradguard.static import knowledge as k
from gradguard.static import tree as t

_NUMBERS = frozenset("detach item tolist argmax argmin".split())
"""What takes them so that it tells; whatever else has no graph besides may stand beside it."""
_LOOKING = frozenset(("print", "len", "isinstance", "type", "range", "hasattr", "id", "float", "int"))
_COMPARING = frozenset(("==", "!=", "<", ">", "<=", ">=", "is", "is not", "in", "not in", "not"))


class Use(IntEnum):
    """What is taken of a value."""

    ALL = 0  # with its graph, if it has one
    LOOKED_AT = 1  # its shape, its type, how it compares
    NUMBERS = 2  # without their graph
    KEPT = (
        3  # by a `backward`; or by NumPy, which refuses a tensor with a graph: there is none, whatever this reads like
    )


def calls_without_graph(define: t.Define) -> set[t.Call]:
    """The calls whose results are only used for their numbers, without the graph, as far as a function shows."""
    reading = _Reading()
    for stmt in define.statements:
        reading.statement(stmt)
    named = set(define.all(t.Name))
    reading.leaking |= {name.id for name in named - reading.seen}  # in nested functions, and whatever else
    return set(reading.without_graph())


class _Reading:
    """The uses of names and calls in a function.

    Args:
        seen: the names that were accounted for, as they stand in the source.
        leaking: the names that are used with their graph.
        taken: those of which numbers are taken.
        bound: the names that get what comes of a name or a call.
        found: the calls of which numbers are taken where they stand.
    """

    def __init__(self) -> None:
        self.seen: set[t.Name] = set()
        self.leaking: set[str] = set()
        self.taken: set[str] = set()
        self.bound: dict[str, set[str]] = {}
        self.called: dict[t.Call, set[str]] = {}
        self.kept: set[t.Call] = set()
        self.found: set[t.Call] = set()

    def statement(self, stmt: t.Stmt) -> None:
        if isinstance(stmt, t.Assign):
            self._assign(stmt.targets, stmt.value)
        elif isinstance(stmt, t.Augment):
            self._assign([stmt.target], stmt.value)
        elif isinstance(stmt, t.Repeat) and stmt.target is not None and stmt.iterable is not None:
            self._assign([stmt.target], stmt.iterable)
        elif isinstance(stmt, t.Repeat | t.If) and stmt.test is not None:
            self._use(stmt.test, Use.LOOKED_AT)
        elif isinstance(stmt, t.Evaluate | t.Return) and stmt.value is not None:
            self._end(stmt.value)
        elif isinstance(stmt, t.Delete):
            self.seen.update(target for target in stmt.targets if isinstance(target, t.Name))

    def without_graph(self) -> Iterator[t.Call]:
        """The calls of which numbers are taken, and nothing else."""
        leaking = self._closed(self.leaking)
        taken = self._closed(self.taken)
        for call, names in self.called.items():
            if call not in self.kept and names.isdisjoint(leaking) and not names.isdisjoint(taken):
                yield call
        yield from self.found - self.kept - self.called.keys()

    def _closed(self, names: set[str]) -> set[str]:
        """Some names, and all that they get something of."""
        found = set(names)
        while more := {name for name, others in self.bound.items() if name not in found and others & found}:
            found |= more
        return found

    def _assign(self, targets: list[t.Expr], value: t.Expr) -> None:
        self._nested_in_targets(targets)
        names = [name for target in targets for name in t.names_in(target)]
        plain = {name.id for name in names if isinstance(name, t.Name)}
        if isinstance(value, t.Call) and value.name in k.INDEXED_RESULTS and len(names) == 2:
            plain -= {name.id for name in names[1:] if isinstance(name, t.Name)}  # indices
        is_kept = any(not isinstance(name, t.Name) for name in names)
        for node in self._use(value, Use.ALL):
            if isinstance(node, t.Name):
                self.bound.setdefault(node.id, set()).update(plain - {node.id})
                self.leaking.update({node.id} if is_kept else ())
            else:
                self.called.setdefault(node, set()).update(plain)
                self.kept.update({node} if is_kept else ())

    def _nested_in_targets(self, targets: list[t.Expr]) -> None:
        """The names in targets are no uses: ``out = ...``, ``scores[i] = ...``."""
        for target in targets:
            self.seen.update(node for node in t.walk(target) if isinstance(node, t.Name))

    def _end(self, value: t.Expr) -> None:
        """What is handed to somebody, or returned, with its graph where nothing cuts that."""
        for node in self._use(value, Use.ALL):
            if isinstance(node, t.Name):
                self.leaking.add(node.id)
            else:
                self.kept.add(node)

    def _use(self, expr: t.Expr, use: Use) -> list[t.Name | t.Call]:
        """Note the uses in an expression; the names and calls that its value may have a graph of."""
        found: list[t.Name | t.Call] = []
        for inner, way in _reached(expr, use):
            if isinstance(inner, t.Name):
                self.seen.add(inner)
            if way is Use.ALL:
                found.append(inner)
            elif way is not Use.LOOKED_AT:
                self._note(inner, way)
        return found

    def _note(self, node: t.Name | t.Call, way: Use) -> None:
        if isinstance(node, t.Name):
            (self.taken if way is Use.NUMBERS else self.leaking).add(node.id)
        else:
            (self.found if way is Use.NUMBERS else self.kept).add(node)


def _reached(expr: t.Expr, use: Use) -> Iterator[tuple[t.Name | t.Call, Use]]:
    """The names and calls in an expression, each with what is taken of it: what comes first decides."""
    if isinstance(expr, t.Name | t.Call):
        yield expr, use
    for inner, way in _parts(expr):
        yield from _reached(inner, use if way is Use.ALL else way)


def _parts(expr: t.Expr) -> Iterator[tuple[t.Expr, Use]]:
    """The parts of an expression, each with what it takes of them."""
    if isinstance(expr, t.Attribute):
        shape = Use.LOOKED_AT if expr.name in k.BREAKING_ATTRIBUTES else Use.ALL
        yield expr.value, Use.NUMBERS if expr.name == "data" else shape
    elif isinstance(expr, t.Subscript):
        yield expr.value, Use.ALL
        yield expr.index, Use.ALL
    elif isinstance(expr, t.Call):
        yield from _parts_of_call(expr)
    elif isinstance(expr, t.Operation):
        yield from ((each, Use.LOOKED_AT if expr.operator in _COMPARING else Use.ALL) for each in expr.operands)
    elif isinstance(expr, t.Display):
        yield from ((each, Use.ALL) for each in expr.items)
    elif isinstance(expr, t.DictDisplay):
        yield from ((value, Use.ALL) for _, value in expr.entries)
    elif isinstance(expr, t.Conditional):
        yield expr.test, Use.LOOKED_AT
        yield from ((each, Use.ALL) for each in (expr.body, expr.orelse))
    elif isinstance(expr, t.Text):
        yield from ((each, Use.LOOKED_AT) for each in expr.parts)
    elif isinstance(expr, t.Starred):
        yield expr.value, Use.ALL


def _parts_of_call(call: t.Call) -> Iterator[tuple[t.Expr, Use]]:
    func, path = call.func, t.path_of(call.func) or ""
    cut = Use.NUMBERS if call.name in _NUMBERS else Use.LOOKED_AT
    if isinstance(func, t.Attribute):
        other = cut if func.name in k.BREAKING_METHODS else Use.ALL
        yield func.value, Use.KEPT if func.name in ("numpy", "backward") else other
    elif not isinstance(func, t.Name):
        yield func, Use.ALL
    is_cut = path in _LOOKING or (path.startswith("torch.") and call.name in k.BREAKING_FUNCTIONS)
    is_keeping = call.name == "backward" or path.startswith(("np.", "numpy."))
    way = cut if is_cut else Use.KEPT if is_keeping else Use.ALL
    yield from ((arg.value, way) for arg in call.args)

"""The part of Python's syntax that the flow reads, in plain nodes.

``build`` makes these from ``ast``, ``flow`` interprets them. Punctuation, whitespace, comments and annotations that
say nothing about values are gone. ``origin`` is a number that tells apart the places in a chunk (see ``concrete``), and
None for what is written nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TypeVar


@dataclass(slots=True, eq=False, repr=False)
class Node:
    origin: object | None


class Expr(Node):
    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class Stmt(Node):
    """A statement.

    Args:
        end: the number of the last node in it, as those of all in it follow its own; None where it is written nowhere.
    """

    end: int | None = field(default=None, init=False)


# --- expressions ------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class Name(Expr):
    id: str


@dataclass(slots=True, eq=False, repr=False)
class Attribute(Expr):
    value: Expr
    name: str


@dataclass(slots=True, eq=False, repr=False)
class Subscript(Expr):
    value: Expr
    index: Expr


@dataclass(slots=True, eq=False, repr=False)
class Slice(Expr):
    """One or more slices; their bounds never carry a graph.

    Args:
        narrows: they pick a small part: a constant index, the first few, every other one.
        dimensions: how many dimensions they are about.
        bounds: of each dimension, the two bounds as written, the number, or the text of the index.
    """

    narrows: bool = False
    dimensions: int = 1
    bounds: tuple[object, ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class Arg:
    value: Expr
    keyword: str | None = None
    star: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Call(Expr):
    func: Expr
    args: list[Arg]

    @property
    def name(self) -> str:
        """The last name of what is called: ``step`` of ``self.optim.step()``; empty where it has none."""
        func = self.func
        return func.name if isinstance(func, Attribute) else func.id if isinstance(func, Name) else ""

    def argument(self, keyword: str, position: int | None = None) -> Expr | None:
        """The expression passed as ``keyword``, or at ``position`` among the plain positional arguments."""
        for arg in self.args:
            if arg.keyword == keyword:
                return arg.value
        if position is not None:
            plain = [a for a in self.args if a.keyword is None]
            if position < len(plain) and not any(a.star for a in plain[: position + 1]):
                return plain[position].value
        return None

    def is_true(self, keyword: str) -> bool:
        value = self.argument(keyword)
        return isinstance(value, Constant) and value.value is True


@dataclass(slots=True, eq=False, repr=False)
class Constant(Expr):
    value: object | None


@dataclass(slots=True, eq=False, repr=False)
class Operation(Expr):
    """A unary, binary, boolean or comparing operation. ``operator`` is its text: ``+``, ``and``, ``is not`` ..."""

    operator: str
    operands: list[Expr]


@dataclass(slots=True, eq=False, repr=False)
class Conditional(Expr):
    test: Expr
    body: Expr
    orelse: Expr


@dataclass(slots=True, eq=False, repr=False)
class Display(Expr):
    """A tuple, list or set written out."""

    kind: str
    items: list[Expr]


@dataclass(slots=True, eq=False, repr=False)
class DictDisplay(Expr):
    entries: list[tuple[Expr | None, Expr]]


@dataclass(slots=True, eq=False, repr=False)
class Clause:
    target: Expr
    iterable: Expr
    conditions: list[Expr]


@dataclass(slots=True, eq=False, repr=False)
class Comprehension(Expr):
    kind: str
    key: Expr | None
    element: Expr
    clauses: list[Clause]


@dataclass(slots=True, eq=False, repr=False)
class Lambda(Expr):
    params: list[Param]
    body: Expr


@dataclass(slots=True, eq=False, repr=False)
class Walrus(Expr):
    target: Expr
    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class Starred(Expr):
    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class Suspend(Expr):
    """``await``, ``yield`` and ``yield from``."""

    kind: str
    value: Expr | None


@dataclass(slots=True, eq=False, repr=False)
class Text(Expr):
    """An f-string or a concatenation of strings."""

    parts: list[Expr]


# --- statements -------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class Param:
    name: str
    default: Expr | None = None
    annotation: Expr | None = None
    star: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Assign(Stmt):
    targets: list[Expr]
    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class Augment(Stmt):
    target: Expr
    operator: str
    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class Evaluate(Stmt):
    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class Return(Stmt):
    value: Expr | None


@dataclass(slots=True, eq=False, repr=False)
class Raise(Stmt):
    value: Expr | None


@dataclass(slots=True, eq=False, repr=False)
class Leave(Stmt):
    """``break`` or ``continue``."""

    kind: str


@dataclass(slots=True, eq=False, repr=False)
class Delete(Stmt):
    targets: list[Expr]


@dataclass(slots=True, eq=False, repr=False)
class Declare(Stmt):
    """``global`` or ``nonlocal``, or an annotation without a value."""

    kind: str
    names: list[str]


@dataclass(slots=True, eq=False, repr=False)
class Import(Stmt):
    """Names bound by one import statement: local name -> dotted name (relative ones start with dots)."""

    names: dict[str, str]


@dataclass(slots=True, eq=False, repr=False)
class If(Stmt):
    test: Expr
    body: list[Stmt]
    orelse: list[Stmt]


@dataclass(slots=True, eq=False, repr=False)
class Repeat(Stmt):
    """A ``for`` loop (``target`` and ``iterable``) or a ``while`` loop (``test``)."""

    target: Expr | None
    iterable: Expr | None
    test: Expr | None
    body: list[Stmt]
    orelse: list[Stmt]
    assigned: frozenset[str] | None = field(default=None)


@dataclass(slots=True, eq=False, repr=False)
class Handler:
    type: Expr | None
    name: str | None
    body: list[Stmt]


@dataclass(slots=True, eq=False, repr=False)
class Try(Stmt):
    body: list[Stmt]
    handlers: list[Handler]
    orelse: list[Stmt]
    final: list[Stmt]


@dataclass(slots=True, eq=False, repr=False)
class With(Stmt):
    items: list[tuple[Expr, Expr | None]]
    body: list[Stmt]


@dataclass(slots=True, eq=False, repr=False)
class Case:
    names: list[str]
    guard: Expr | None
    body: list[Stmt]


@dataclass(slots=True, eq=False, repr=False)
class Match(Stmt):
    subject: Expr
    cases: list[Case]


_Sort = TypeVar("_Sort", bound=Node)
_NONE: list[Node] = []


@dataclass(slots=True, eq=False, repr=False)
class Define(Stmt):
    """A function definition; ``name`` is ``<module>`` for a module's own statements."""

    name: str
    params: list[Param]
    body: list[Stmt]
    decorators: list[Expr]
    is_generator: bool = False
    is_async: bool = False
    _nodes: tuple[Node, ...] | None = field(default=None, init=False)
    _sorts: dict[type, list[Node]] | None = field(default=None, init=False)
    _statements: tuple[Stmt, ...] | None = field(default=None, init=False)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every node of its body: many ask for one sort of them or another."""
        if self._nodes is None:
            self._nodes = tuple(walk(self.body))
        return self._nodes

    def all(self, sort: type[_Sort]) -> Sequence[_Sort]:
        """Those of its nodes that are of one sort, in their order."""
        if self._sorts is None:
            self._sorts = {}
            for node in self.nodes:
                self._sorts.setdefault(type(node), []).append(node)
        return self._sorts.get(sort, _NONE)  # type: ignore[return-value]

    @property
    def statements(self) -> tuple[Stmt, ...]:
        """Every statement of its body, not those of functions and classes in it."""
        if self._statements is None:
            self._statements = tuple(walk_statements(self.body))
        return self._statements


@dataclass(slots=True, eq=False, repr=False)
class DefineClass(Stmt):
    name: str
    bases: list[Expr]
    body: list[Stmt]

    def methods(self) -> Iterator[Define]:
        for stmt in flatten(self.body):
            if isinstance(stmt, Define):
                yield stmt


def flatten(body: list[Stmt]) -> Iterator[Stmt]:
    """The statements of a body and of its ``if`` and ``try`` blocks, but not of functions or loops."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, If):
            yield from flatten(stmt.body)
            yield from flatten(stmt.orelse)
        elif isinstance(stmt, Try):
            yield from flatten(stmt.body)
            for handler in stmt.handlers:
                yield from flatten(handler.body)
            yield from flatten(stmt.orelse)
            yield from flatten(stmt.final)
        elif isinstance(stmt, With):
            yield from flatten(stmt.body)


_SIMPLE = frozenset((
    Assign, Augment, Evaluate, Return, Raise, Leave, Delete, Declare, Import,
))  # fmt: skip
"""Statements without blocks."""


def blocks(stmt: Stmt) -> list[list[Stmt]]:
    """The blocks of a statement; not those of functions and classes."""
    if type(stmt) in _SIMPLE:
        return []
    if isinstance(stmt, If | Repeat):
        return [stmt.body, stmt.orelse]
    if isinstance(stmt, Try):
        return [stmt.body, *(handler.body for handler in stmt.handlers), stmt.orelse, stmt.final]
    if isinstance(stmt, Match):
        return [case.body for case in stmt.cases]
    return [stmt.body] if isinstance(stmt, With) else []


def leaves(block: Sequence[Stmt]) -> bool:
    """Whether what comes after a block is not reached from its end: it ends with a ``return``, a ``continue``, ..."""
    return bool(block) and isinstance(block[-1], Leave | Return | Raise)  # empty: `pass` is no node


def walk_statements(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Every statement below ``body``, not entering functions or classes."""
    stack = list(body)
    while stack:
        stmt = stack.pop()
        yield stmt
        if type(stmt) in _SIMPLE:
            continue
        if isinstance(stmt, If | Repeat):
            stack += stmt.body
            stack += stmt.orelse
        elif isinstance(stmt, With):
            stack += stmt.body
        elif isinstance(stmt, Try):
            stack += [*stmt.body, *stmt.orelse, *stmt.final]
            for handler in stmt.handlers:
                stack += handler.body
        elif isinstance(stmt, Match):
            for case in stmt.cases:
                stack += case.body


def path_of(expr: Expr) -> str | None:
    """The dotted path an expression names: ``history``, ``self.stats["loss"]``, ``bank[*]``; else None.

    ``d.setdefault(k, ...)`` and ``d.get(k)`` name an item of ``d``.
    """
    if type(expr) is Name:
        return expr.id
    if type(expr) is Attribute:
        base = path_of(expr.value)
        return None if base is None else f"{base}.{expr.name}"
    if type(expr) is Subscript:
        return _item(expr.value, expr.index)
    if type(expr) is Call and isinstance(expr.func, Attribute) and expr.func.name in ("setdefault", "get"):
        return _item(expr.func.value, expr.args[0].value if expr.args else None)
    return None


def called(origin: object, func: Expr, args: list[Arg]) -> Call:
    """A call; what ``list`` or ``sum`` makes of a generator lives together, as what a list is made of does."""
    if isinstance(func, Name) and func.id in _COLLECTING and len(args) == 1:
        made = args[0].value
        if isinstance(made, Comprehension) and made.kind == "generator":
            made.kind = "list"
    return Call(origin, func, args)


_COLLECTING = ("list", "tuple", "set", "sorted", "sum")


def is_zero(expr: Expr) -> bool:
    """Whether an expression is the number 0."""
    return isinstance(expr, Constant) and type(expr.value) in (int, float) and not expr.value


def _item(collection: Expr, index: Expr | None) -> str | None:
    base = path_of(collection)
    key = index.value if isinstance(index, Constant) else None
    return None if base is None else f'{base}["{key}"]' if isinstance(key, str) else f"{base}[*]"


def signed(expr: Operation) -> Iterator[tuple[int, Expr]]:
    """What is added up in a sum, or a difference, each with its sign: ``1, a`` and ``-1, b`` of ``a - b``."""
    for place, operand in enumerate(expr.operands):
        is_away = expr.operator == "-" and (place > 0 or len(expr.operands) == 1)
        yield -1 if is_away else 1, operand


def detached(expr: Expr) -> Expr | None:
    """``x`` of ``x.detach()``."""
    func = expr.func if isinstance(expr, Call) and not expr.args else None
    return func.value if isinstance(func, Attribute) and func.name == "detach" else None


def names_in(target: Expr) -> Iterator[Expr]:
    """The single targets of an assignment target: ``(a, *b), c.d`` gives ``a``, ``b`` and ``c.d``."""
    if isinstance(target, Display):
        for item in target.items:
            yield from names_in(item)
    elif isinstance(target, Starred):
        yield from names_in(target.value)
    else:
        yield target


def as_function(expr: Lambda) -> Define:
    """The function that a lambda is."""
    return Define(expr.origin, "<lambda>", expr.params, [Return(expr.origin, expr.body)], [])


def made_by(factory: Expr, origin: object) -> Expr:
    """What a call of a factory gives: ``deque(maxlen=9)`` of a lambda, or of ``partial(deque, maxlen=9)``."""
    if isinstance(factory, Lambda):
        return factory.body
    is_partial = isinstance(factory, Call) and (path_of(factory.func) or "").rsplit(".", 1)[-1] == "partial"
    if isinstance(factory, Call) and is_partial and factory.args:
        return Call(origin, factory.args[0].value, factory.args[1:])
    return Call(origin, factory, [])


def pairs(targets: list[Expr], value: Expr) -> Iterator[tuple[Expr, Expr]]:
    """The single assignments of a statement: ``a, b = x, y`` gives ``a, x`` and ``b, y``."""
    for target in targets:
        if isinstance(target, Display) and isinstance(value, Display) and len(target.items) == len(value.items):
            for one, other in zip(target.items, value.items):
                yield from pairs([one], other)
        else:
            yield target, value


def walk(node: object) -> Iterator[Node]:
    """Every node at or below ``node``."""
    stack = [node]
    while stack:
        current = stack.pop()
        cls = type(current)
        if cls is list or cls is tuple:
            stack.extend(current)  # type: ignore[arg-type]
        elif (names := _parts(cls)) is not None:  # type: ignore[arg-type]
            if isinstance(current, Node):
                yield current
            for name in names:
                if part := getattr(current, name):  # neither None, nor an empty list
                    stack.append(part)


def parts(node: object) -> Iterator[Node]:
    """The nodes right below a node, or in a list of nodes; what is in an argument is below what has that."""
    stack = _below(node)
    while stack:
        current = stack.pop()
        if isinstance(current, Node):
            yield current
        else:
            stack += _below(current)


def _below(part: object) -> list[object]:
    cls: type = type(part)
    if cls is list or cls is tuple:
        return list(part)  # type: ignore[call-overload, no-any-return]
    return [getattr(part, name) for name in _parts(cls) or ()]


def is_in(node: Node, block: Sequence[Stmt]) -> bool:
    """Whether a node stands in a block of statements: it itself, not one that is made to be read in its place.

    Nodes are numbered from the outermost one on, in the order of the text: only the last statement that does not
    begin after it may hold it.
    """
    number = node.origin
    if not isinstance(number, int):
        return any(each is node for each in walk(block))
    inner: Sequence[Stmt] | None = block
    while inner is not None:
        stmt = _begun_before(number, inner)
        if stmt is node:
            return True
        if stmt is None or stmt.end is None or number > stmt.end:
            return stmt is not None and stmt.end is None and any(each is node for each in walk(stmt))
        within = [stmt.body] if isinstance(stmt, Define | DefineClass) else blocks(stmt)
        inner = next((each for each in within if _begun_before(number, each) and number <= (each[-1].end or -1)), None)
    return stmt is not None and any(each is node for each in _without_blocks(stmt))


def _begun_before(number: int, block: Sequence[Stmt]) -> Stmt | None:
    """The last statement of a block that does not begin after a node."""
    for stmt in reversed(block):
        if not isinstance(stmt.origin, int) or stmt.origin <= number:
            return stmt
    return None


def _without_blocks(stmt: Stmt) -> Iterator[Node]:
    """The nodes of a statement that are in none of its statements."""
    stack = list(parts(stmt))
    while stack:
        node = stack.pop()
        if not isinstance(node, Stmt):
            yield node
            stack += parts(node)


@cache
def _parts(cls: type) -> tuple[str, ...] | None:
    """The fields of a node's class that may hold nodes; None for what is no part of a tree."""
    if not issubclass(cls, Node | Arg | Clause | Handler | Case | Param):
        return None
    return tuple(each.name for each in fields(cls) if each.name not in _NO_NODES)


_NO_NODES = frozenset((
    *"origin id name keyword star operator kind names narrows dimensions bounds assigned is_generator is_async".split(),
    *("end", "_nodes", "_sorts", "_statements"),
))  # fmt: skip

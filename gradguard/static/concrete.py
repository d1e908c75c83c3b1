"""LibCST -> tree: the same tree that ``build`` makes from ``ast``, with LibCST's nodes as origins.

The flow reads the tree of ``build``; where something is found, this one tells its place, its text and its white space,
as LibCST keeps them for edits.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, cast

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from gradguard.findings import Span
from gradguard.static import tree as t
from gradguard.static.files.gate import SourceError
from gradguard.static.memo import Remembers, cached_property

if TYPE_CHECKING:
    from gradguard.static.build import Piece


class Concrete(Remembers):
    """What LibCST knows of some statements of a chunk.

    Args:
        text: the chunk's.
        piece: the statements.

    Raises:
        SourceError: LibCST cannot read them, or not as Python does; with the line in the chunk.
    """

    def __init__(self, text: str, piece: Piece) -> None:
        lines = list(io.StringIO(text, newline=""))[piece.first - 1 : piece.last]
        self._before = piece.first - 1 - piece.nested
        self._module = self._parsed("".join(["class _:\n"] * piece.nested + lines))
        statements = build(self._module)
        if piece.nested:
            (around,) = statements
            assert isinstance(around, t.DefineClass)
            statements = around.body
        self._nodes: dict[object, cst.CSTNode] = {}
        for node, concrete in zip_longest(t.walk(piece.statements), t.walk(statements)):
            if type(node) is not type(concrete):
                raise SourceError("LibCST reads this in another way than Python; please report it", piece.first)
            self._nodes[node.origin] = cast(cst.CSTNode, concrete.origin)

    def _parsed(self, text: str) -> cst.Module:
        try:
            return cst.parse_module(text)
        except cst.ParserSyntaxError as error:
            message = f"LibCST cannot parse this: {error.message}"
            raise SourceError(message, error.raw_line + self._before) from None

    @cached_property
    def _positions(self) -> Mapping[cst.CSTNode, CodeRange]:
        return MetadataWrapper(self._module, unsafe_skip_copy=True).resolve(PositionProvider)

    def span(self, number: object) -> Span:
        """Where the node with this ``origin`` stands in the chunk."""
        place = self._positions[self._nodes[number]]
        start, end = place.start, place.end
        return Span(start.line + self._before, start.column + 1, end.line + self._before, end.column + 1)

    def code(self, number: object) -> str:
        """The text of the node with this ``origin``."""
        return self._module.code_for_node(self._nodes[number]).strip()


_OPERATORS: dict[type, str] = {
    cst.Add: "+", cst.Subtract: "-", cst.Multiply: "*", cst.Divide: "/", cst.FloorDivide: "//",
    cst.Modulo: "%", cst.Power: "**", cst.MatrixMultiply: "@", cst.LeftShift: "<<", cst.RightShift: ">>",
    cst.BitOr: "|", cst.BitAnd: "&", cst.BitXor: "^", cst.And: "and", cst.Or: "or", cst.Not: "not",
    cst.Minus: "-", cst.Plus: "+", cst.BitInvert: "~", cst.Equal: "==", cst.NotEqual: "!=",
    cst.LessThan: "<", cst.GreaterThan: ">", cst.LessThanEqual: "<=", cst.GreaterThanEqual: ">=",
    cst.In: "in", cst.NotIn: "not in", cst.Is: "is", cst.IsNot: "is not",
    cst.AddAssign: "+", cst.SubtractAssign: "-", cst.MultiplyAssign: "*", cst.DivideAssign: "/",
    cst.FloorDivideAssign: "//", cst.ModuloAssign: "%", cst.PowerAssign: "**", cst.MatrixMultiplyAssign: "@",
    cst.LeftShiftAssign: "<<", cst.RightShiftAssign: ">>", cst.BitOrAssign: "|", cst.BitAndAssign: "&",
    cst.BitXorAssign: "^",
}  # fmt: skip

_CONSTANTS: dict[str, object] = {"None": None, "True": True, "False": False}


def build(module: cst.Module) -> list[t.Stmt]:
    """The statements of a parsed module or chunk."""
    return _block(module.body)


# --- statements -------------------------------------------------------------------------------------------------


def _block(body: Iterable[cst.CSTNode] | cst.BaseSuite) -> list[t.Stmt]:
    statements: list[t.Stmt] = []
    for node in body.body if isinstance(body, cst.BaseSuite) else body:
        if isinstance(node, cst.SimpleStatementLine | cst.SimpleStatementSuite):
            for small in node.body:
                _append(statements, small)
        else:
            _append(statements, node)
    return statements


def _append(statements: list[t.Stmt], node: cst.CSTNode) -> None:
    make = _STATEMENTS.get(type(node))
    if make is not None:
        statements.append(make(node))


def _orelse(node: cst.If | cst.Else | None) -> list[t.Stmt]:
    if node is None:
        return []
    return [_if(node)] if isinstance(node, cst.If) else _block(node.body)


def _if(n: cst.If) -> t.If:
    return t.If(n, expr(n.test), _block(n.body), _orelse(n.orelse))


def _for(n: cst.For) -> t.Repeat:
    return t.Repeat(n, expr(n.target), expr(n.iter), None, _block(n.body), _orelse(n.orelse))


def _while(n: cst.While) -> t.Repeat:
    return t.Repeat(n, None, None, expr(n.test), _block(n.body), _orelse(n.orelse))


def _try(n: cst.Try | cst.TryStar) -> t.Try:
    handlers = []
    for h in n.handlers:
        bound = h.name.name if h.name is not None else None
        name = bound.value if isinstance(bound, cst.Name) else None
        handlers.append(t.Handler(expr(h.type) if h.type is not None else None, name, _block(h.body)))
    final = _block(n.finalbody.body) if n.finalbody is not None else []
    return t.Try(n, _block(n.body), handlers, _orelse(n.orelse), final)


def _with(n: cst.With) -> t.With:
    items = [(expr(i.item), expr(i.asname.name) if i.asname is not None else None) for i in n.items]
    return t.With(n, items, _block(n.body))


def _match(n: cst.Match) -> t.Match:
    cases = [
        t.Case(_pattern_names(c.pattern), expr(c.guard) if c.guard is not None else None, _block(c.body))
        for c in n.cases
    ]
    return t.Match(n, expr(n.subject), cases)


def _pattern_names(pattern: cst.CSTNode) -> list[str]:
    if isinstance(pattern, cst.MatchAs | cst.MatchStar) and pattern.name is not None:
        inner = getattr(pattern, "pattern", None)
        return [pattern.name.value, *(_pattern_names(inner) if inner is not None else [])]
    return [name for child in pattern.children for name in _pattern_names(child)]


def _define(n: cst.FunctionDef) -> t.Define:
    body = _block(n.body)
    decorators = [expr(d.decorator) for d in n.decorators]
    asynchronous = n.asynchronous is not None
    return t.Define(n, n.name.value, _params(n.params), body, decorators, _yields(body), asynchronous)


def _params(params: cst.Parameters) -> list[t.Param]:
    made = [_param(p) for p in (*params.posonly_params, *params.params)]
    if isinstance(params.star_arg, cst.Param):
        made.append(_param(params.star_arg, "*"))
    made += [_param(p) for p in params.kwonly_params]
    if params.star_kwarg is not None:
        made.append(_param(params.star_kwarg, "**"))
    return made


def _param(p: cst.Param, star: str = "") -> t.Param:
    annotation = expr(p.annotation.annotation) if p.annotation is not None else None
    return t.Param(p.name.value, expr(p.default) if p.default is not None else None, annotation, star)


def _yields(body: Sequence[t.Stmt]) -> bool:
    return any(
        isinstance(s, t.Evaluate | t.Assign) and isinstance(s.value, t.Suspend) and s.value.kind != "await"
        for s in t.walk_statements(body)
    )


def _class(n: cst.ClassDef) -> t.DefineClass:
    return t.DefineClass(n, n.name.value, [expr(b.value) for b in n.bases], _block(n.body))


def _annotated(n: cst.AnnAssign) -> t.Stmt:
    if n.value is None:
        return t.Declare(n, "annotation", [p for e in t.names_in(expr(n.target)) if (p := t.path_of(e)) is not None])
    return t.Assign(n, [expr(n.target)], expr(n.value))


def _delete(n: cst.Del) -> t.Delete:
    target = expr(n.target)
    return t.Delete(n, list(t.names_in(target)))


def dotted(node: cst.CSTNode | None) -> str:
    """``a.b.c`` of a Name or Attribute node."""
    if isinstance(node, cst.Attribute):
        return f"{dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def _import(n: cst.Import) -> t.Import:
    names: dict[str, str] = {}
    for alias in n.names:
        full = dotted(alias.name)
        if alias.asname is not None:
            names[dotted(alias.asname.name)] = full
        else:
            names[full.split(".", 1)[0]] = full.split(".", 1)[0]
    return t.Import(n, names)


def _import_from(n: cst.ImportFrom) -> t.Import:
    base = "." * len(n.relative) + dotted(n.module)
    if isinstance(n.names, cst.ImportStar):
        return t.Import(n, {"*": base})
    names: dict[str, str] = {}
    for alias in n.names:
        name = dotted(alias.name)
        joined = f"{base}{name}" if base.endswith(".") or not base else f"{base}.{name}"
        names[dotted(alias.asname.name) if alias.asname is not None else name] = joined
    return t.Import(n, names)


_STATEMENTS: dict[type, Callable[[Any], t.Stmt]] = {
    cst.Assign: lambda n: t.Assign(n, [expr(x.target) for x in n.targets], expr(n.value)),
    cst.AnnAssign: _annotated,
    cst.AugAssign: lambda n: t.Augment(n, expr(n.target), _OPERATORS[type(n.operator)], expr(n.value)),
    cst.Expr: lambda n: t.Evaluate(n, expr(n.value)),
    cst.Assert: lambda n: t.Evaluate(n, expr(n.test)),
    cst.Return: lambda n: t.Return(n, expr(n.value) if n.value is not None else None),
    cst.Raise: lambda n: t.Raise(n, expr(n.exc) if n.exc is not None else None),
    cst.Break: lambda n: t.Leave(n, "break"),
    cst.Continue: lambda n: t.Leave(n, "continue"),
    cst.Del: _delete,
    cst.Global: lambda n: t.Declare(n, "global", [i.name.value for i in n.names]),
    cst.Nonlocal: lambda n: t.Declare(n, "nonlocal", [i.name.value for i in n.names]),
    cst.Import: _import,
    cst.ImportFrom: _import_from,
    cst.If: _if,
    cst.For: _for,
    cst.While: _while,
    cst.Try: _try,
    cst.TryStar: _try,
    cst.With: _with,
    cst.Match: _match,
    cst.FunctionDef: _define,
    cst.ClassDef: _class,
}


# --- expressions ------------------------------------------------------------------------------------------------


def expr(n: cst.CSTNode) -> t.Expr:
    """One expression."""
    make = _EXPRESSIONS.get(type(n))
    return make(n) if make is not None else t.Constant(n, None)


def _subscript(n: cst.Subscript) -> t.Expr:
    parts = [s.slice for s in n.slice]
    indices = [_index(p) for p in parts if isinstance(p, cst.Index)]
    if len(indices) < len(parts):
        index: t.Expr = t.Slice(n, any(_narrows(p) for p in parts), len(parts))
    elif len(parts) > 1 or isinstance(n.slice[0].comma, cst.Comma) or isinstance(indices[0], t.Starred):
        index = t.Display(n, "tuple", indices)
    else:
        index = indices[0]
    return t.Subscript(n, expr(n.value), index)


def _index(part: cst.Index) -> t.Expr:
    return t.Starred(part, expr(part.value)) if part.star else expr(part.value)


def _narrows(part: cst.BaseSlice) -> bool:
    """Whether one index or slice picks a small part of its dimension, as far as constants tell."""
    if isinstance(part, cst.Index):
        value = part.value
        return isinstance(value.expression if isinstance(value, cst.UnaryOperation) else value, cst.Integer)
    assert isinstance(part, cst.Slice)
    first_few = part.lower is None and isinstance(part.upper, cst.Integer)
    return first_few or isinstance(part.step, cst.Integer)


def _call(n: cst.Call) -> t.Call:
    args = [t.Arg(expr(a.value), a.keyword.value if a.keyword is not None else None, a.star) for a in n.args]
    return t.called(n, expr(n.func), args)


def _integer(n: cst.Integer) -> t.Constant:
    try:
        return t.Constant(n, int(n.value.replace("_", ""), 0))
    except ValueError:  # longer than int() accepts
        return t.Constant(n, 0)


def _other_number(n: cst.Float | cst.Imaginary) -> t.Constant:
    return t.Constant(n, n.evaluated_value)


def _string(n: cst.SimpleString) -> t.Constant:
    return t.Constant(n, n.raw_value)


def _concatenated(n: cst.ConcatenatedString) -> t.Expr:
    parts = list(_adjacent(n))
    if not any(isinstance(part, cst.FormattedString) for part in parts):
        return t.Constant(n, n.evaluated_value)
    return t.Text(n, [e for part in parts if isinstance(part, cst.FormattedString) for e in _formatted(part).parts])


def _adjacent(n: cst.BaseString) -> Iterator[cst.BaseString]:
    while isinstance(n, cst.ConcatenatedString):
        yield n.left
        n = n.right
    yield n


def _formatted(n: cst.FormattedString) -> t.Text:
    return t.Text(n, [expr(p.expression) for p in n.parts if isinstance(p, cst.FormattedStringExpression)])


def _comparison(n: cst.Comparison) -> t.Operation:
    operator = _OPERATORS.get(type(n.comparisons[0].operator), "==") if n.comparisons else "=="
    return t.Operation(n, operator, [expr(n.left), *(expr(c.comparator) for c in n.comparisons)])


def _display(kind: str) -> Callable[[Any], t.Expr]:
    def make(n: cst.Tuple | cst.List | cst.Set) -> t.Expr:
        return t.Display(n, kind, [expr(e if isinstance(e, cst.StarredElement) else e.value) for e in n.elements])

    return make


def _dict(n: cst.Dict) -> t.Expr:
    return t.DictDisplay(
        n, [(expr(e.key) if isinstance(e, cst.DictElement) else None, expr(e.value)) for e in n.elements]
    )


def _comprehension(kind: str) -> Callable[[Any], t.Expr]:
    def make(n: Any) -> t.Expr:
        clauses, clause = [], n.for_in
        while clause is not None:
            clauses.append(t.Clause(expr(clause.target), expr(clause.iter), [expr(i.test) for i in clause.ifs]))
            clause = clause.inner_for_in
        key = expr(n.key) if isinstance(n, cst.DictComp) else None
        return t.Comprehension(n, kind, key, expr(n.value if isinstance(n, cst.DictComp) else n.elt), clauses)

    return make


def _yield(n: cst.Yield) -> t.Suspend:
    if isinstance(n.value, cst.From):
        return t.Suspend(n, "yield from", expr(n.value.item))
    return t.Suspend(n, "yield", expr(n.value) if n.value is not None else None)


_EXPRESSIONS: dict[type, Callable[[Any], t.Expr]] = {
    cst.Name: lambda n: t.Constant(n, _CONSTANTS[n.value]) if n.value in _CONSTANTS else t.Name(n, n.value),
    cst.Attribute: lambda n: t.Attribute(n, expr(n.value), n.attr.value),
    cst.Subscript: _subscript,
    cst.Call: _call,
    cst.Integer: _integer,
    cst.Float: _other_number,
    cst.Imaginary: _other_number,
    cst.SimpleString: _string,
    cst.ConcatenatedString: _concatenated,
    cst.FormattedString: _formatted,
    cst.BinaryOperation: lambda n: t.Operation(n, _OPERATORS[type(n.operator)], [expr(n.left), expr(n.right)]),
    cst.BooleanOperation: lambda n: t.Operation(n, _OPERATORS[type(n.operator)], [expr(n.left), expr(n.right)]),
    cst.UnaryOperation: lambda n: t.Operation(n, _OPERATORS[type(n.operator)], [expr(n.expression)]),
    cst.Comparison: _comparison,
    cst.IfExp: lambda n: t.Conditional(n, expr(n.test), expr(n.body), expr(n.orelse)),
    cst.StarredElement: lambda n: t.Starred(n, expr(n.value)),
    cst.Tuple: _display("tuple"),
    cst.List: _display("list"),
    cst.Set: _display("set"),
    cst.Dict: _dict,
    cst.ListComp: _comprehension("list"),
    cst.SetComp: _comprehension("set"),
    cst.GeneratorExp: _comprehension("generator"),
    cst.DictComp: _comprehension("dict"),
    cst.Lambda: lambda n: t.Lambda(n, _params(n.params), expr(n.body)),
    cst.NamedExpr: lambda n: t.Walrus(n, expr(n.target), expr(n.value)),
    cst.Await: lambda n: t.Suspend(n, "await", expr(n.expression)),
    cst.Yield: _yield,
}

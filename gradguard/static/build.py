"""ast -> tree: one pass that keeps what the flow reads.

LibCST reads only what is reported (see ``concrete``): it is ten times as slow, and its trees ten times as large.
"""

from __future__ import annotations

import ast
import io
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from gradguard.static import tree as t
from gradguard.static.files.outline import extent_of

_OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitAnd: "&", ast.BitXor: "^",
    ast.And: "and", ast.Or: "or", ast.Not: "not", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.Gt: ">", ast.LtE: "<=", ast.GtE: ">=", ast.In: "in",
    ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip

_numbers = count()
_lines = array("I")
_last = 0  # the number of the node that was made last


class Tree(NamedTuple):
    """What was parsed, as a tree.

    Args:
        statements: of the module or chunk; each node's ``origin`` is a number of its own.
        number: what the first of these numbers comes after.
        lines: the line of what was parsed that each node begins in, in the order of the numbers.
    """

    statements: list[t.Stmt]
    number: int
    lines: array[int]


def build(module: ast.Module) -> Tree:
    """The tree of a parsed module or chunk."""
    global _lines
    _lines = array("I")
    number = next(_numbers)
    return Tree(_block(module.body), number, _lines)


def _number(node: ast.stmt | ast.expr) -> int:
    """The next number, for a node; the line that it begins in is noted."""
    global _last
    _lines.append(_first_line(node))
    _last = next(_numbers)
    return _last


def _first_line(node: ast.stmt | ast.expr) -> int:
    """Where a node begins, as LibCST tells it.

    A tuple and a generator begin without their brackets, which may stand in a line of their own.
    """
    if isinstance(node, ast.GeneratorExp):
        return node.elt.lineno
    return node.elts[0].lineno if isinstance(node, ast.Tuple) and node.elts else node.lineno


class Piece(NamedTuple):
    """Statements of a chunk, or of a class in it, that begin and end with a line: what LibCST reads at a time.

    Args:
        number: the ``origin`` of the first; those of all nodes in it follow.
        first, last: its lines in the chunk, from 1.
        nested: they are of a class.
    """

    number: int
    first: int
    last: int
    nested: bool
    statements: list[t.Stmt]


def pieces(module: ast.Module, statements: list[t.Stmt], text: str, before: int) -> list[Piece]:
    """The pieces of a chunk, in the order of their numbers: a class, then each statement of it.

    Args:
        module: what ``statements`` were made from.
        text: the chunk's.
        before: the lines before it in what was parsed.
    """
    lines = list(io.StringIO(text, newline=""))
    found: list[Piece] = []
    for node, statement in zip(_kept(module.body), statements):
        _add(found, node, statement, before, nested=False)
        if isinstance(node, ast.ClassDef) and isinstance(statement, t.DefineClass):
            first = node.body[0]
            if not lines[extent_of(first).start - before - 1][: first.col_offset].strip():  # else: class A: x = 1
                for inner, part in zip(_kept(node.body), statement.body):
                    _add(found, inner, part, before, nested=True)
    return found


def _add(found: list[Piece], node: ast.stmt, statement: t.Stmt, before: int, nested: bool) -> None:
    first, last = extent_of(node).start - before, (node.end_lineno or node.lineno) - before
    if found and first <= found[-1].last and found[-1].nested is nested:  # a = 1; b = 2
        found[-1] = found[-1]._replace(last=last, statements=[*found[-1].statements, statement])
    else:
        assert isinstance(statement.origin, int)
        found.append(Piece(statement.origin, first, last, nested, [statement]))


# --- statements -------------------------------------------------------------------------------------------------


def _block(body: Sequence[ast.stmt]) -> list[t.Stmt]:
    return [_statement(stmt) for stmt in _kept(body)]


def _statement(stmt: ast.stmt) -> t.Stmt:
    made = _STATEMENTS[type(stmt)](_number(stmt), stmt)
    made.end = _last
    return made


def _kept(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    return [stmt for stmt in body if type(stmt) in _STATEMENTS]


def _for(i: int, n: ast.For | ast.AsyncFor) -> t.Repeat:
    return t.Repeat(i, expr(n.target), expr(n.iter), None, _block(n.body), _block(n.orelse))


def _try(i: int, n: Any) -> t.Try:
    handlers = [t.Handler(expr(h.type) if h.type is not None else None, h.name, _block(h.body)) for h in n.handlers]
    return t.Try(i, _block(n.body), handlers, _block(n.orelse), _block(n.finalbody))


def _with(i: int, n: ast.With | ast.AsyncWith) -> t.With:
    items = [(expr(w.context_expr), expr(w.optional_vars) if w.optional_vars is not None else None) for w in n.items]
    return t.With(i, items, _block(n.body))


def _match(i: int, n: ast.Match) -> t.Match:
    cases = [
        t.Case(list(_pattern_names(c.pattern)), expr(c.guard) if c.guard is not None else None, _block(c.body))
        for c in n.cases
    ]
    return t.Match(i, expr(n.subject), cases)


def _pattern_names(pattern: ast.pattern) -> Iterator[str]:
    for node in ast.walk(pattern):
        if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name is not None:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest is not None:
            yield node.rest


def _define(i: int, n: ast.FunctionDef | ast.AsyncFunctionDef) -> t.Define:
    body = _block(n.body)
    decorators = [expr(d) for d in n.decorator_list]
    return t.Define(i, n.name, _params(n.args), body, decorators, _yields(body), isinstance(n, ast.AsyncFunctionDef))


def _params(a: ast.arguments) -> list[t.Param]:
    plain = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(plain) - len(a.defaults)) + list(a.defaults)
    made = [_param(p, default) for p, default in zip(plain, defaults)]
    if a.vararg is not None:
        made.append(_param(a.vararg, None, "*"))
    made += [_param(p, default) for p, default in zip(a.kwonlyargs, a.kw_defaults)]
    if a.kwarg is not None:
        made.append(_param(a.kwarg, None, "**"))
    return made


def _param(p: ast.arg, default: ast.expr | None, star: str = "") -> t.Param:
    annotation = expr(p.annotation) if p.annotation is not None else None
    return t.Param(p.arg, expr(default) if default is not None else None, annotation, star)


def _yields(body: Sequence[t.Stmt]) -> bool:
    return any(
        isinstance(s, t.Evaluate | t.Assign) and isinstance(s.value, t.Suspend) and s.value.kind != "await"
        for s in t.walk_statements(body)
    )


def _is_text(n: ast.expr) -> bool:
    """Whether an expression is a string: as a statement of its own a docstring, in which nothing is asked for."""
    return isinstance(n, ast.Constant) and isinstance(n.value, str)


def _class(i: int, n: ast.ClassDef) -> t.DefineClass:
    bases = [expr(b.value if isinstance(b, ast.Starred) else b) for b in n.bases]
    return t.DefineClass(i, n.name, bases, _block(n.body))


def _annotated(i: int, n: ast.AnnAssign) -> t.Stmt:
    if n.value is None:
        return t.Declare(i, "annotation", [p for e in t.names_in(expr(n.target)) if (p := t.path_of(e)) is not None])
    return t.Assign(i, [expr(n.target)], expr(n.value))


def _import(i: int, n: ast.Import) -> t.Import:
    names: dict[str, str] = {}
    for alias in n.names:
        root = alias.name.split(".", 1)[0]
        names[alias.asname or root] = alias.name if alias.asname else root
    return t.Import(i, names)


def _import_from(i: int, n: ast.ImportFrom) -> t.Import:
    base = "." * n.level + (n.module or "")
    if any(alias.name == "*" for alias in n.names):
        return t.Import(i, {"*": base})
    prefix = base if base.endswith(".") else f"{base}."
    return t.Import(i, {alias.asname or alias.name: prefix + alias.name for alias in n.names})


_STATEMENTS: dict[type, Callable[[int, Any], t.Stmt]] = {
    ast.Assign: lambda i, n: t.Assign(i, [expr(x) for x in n.targets], expr(n.value)),
    ast.AnnAssign: _annotated,
    ast.AugAssign: lambda i, n: t.Augment(i, expr(n.target), _OPERATORS[type(n.op)], expr(n.value)),
    ast.Expr: lambda i, n: t.Evaluate(i, expr(n.value) if not _is_text(n.value) else t.Constant(_number(n.value), "")),
    ast.Assert: lambda i, n: t.Evaluate(i, expr(n.test)),
    ast.Return: lambda i, n: t.Return(i, expr(n.value) if n.value is not None else None),
    ast.Raise: lambda i, n: t.Raise(i, expr(n.exc) if n.exc is not None else None),
    ast.Break: lambda i, n: t.Leave(i, "break"),
    ast.Continue: lambda i, n: t.Leave(i, "continue"),
    ast.Delete: lambda i, n: t.Delete(i, [name for target in n.targets for name in t.names_in(expr(target))]),
    ast.Global: lambda i, n: t.Declare(i, "global", list(n.names)),
    ast.Nonlocal: lambda i, n: t.Declare(i, "nonlocal", list(n.names)),
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.If: lambda i, n: t.If(i, expr(n.test), _block(n.body), _block(n.orelse)),
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: lambda i, n: t.Repeat(i, None, None, expr(n.test), _block(n.body), _block(n.orelse)),
    ast.Try: _try,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Match: _match,
    ast.FunctionDef: _define,
    ast.AsyncFunctionDef: _define,
    ast.ClassDef: _class,
}
if hasattr(ast, "TryStar"):  # since Python 3.11
    _STATEMENTS[ast.TryStar] = _try


# --- expressions ------------------------------------------------------------------------------------------------


def expr(n: ast.expr) -> t.Expr:
    """One expression."""
    make = _EXPRESSIONS.get(type(n))
    return make(_number(n), n) if make is not None else t.Constant(_number(n), None)


def _constant(i: int, n: ast.Constant) -> t.Constant:
    value = n.value
    if isinstance(value, bytes):
        return t.Constant(i, value.decode("latin-1"))
    return t.Constant(i, None if value is ... else value)


def _subscript(i: int, n: ast.Subscript) -> t.Expr:
    value, index = expr(n.value), n.slice
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    if any(isinstance(p, ast.Slice) for p in parts):
        return t.Subscript(
            i, value, t.Slice(_number(index), any(map(_narrows, parts)), len(parts), tuple(map(_bounds, parts)))
        )
    return t.Subscript(i, value, expr(index))


def _narrows(part: ast.expr) -> bool:
    """Whether one index or slice picks a small part of its dimension, as far as constants tell."""
    if isinstance(part, ast.Slice):
        return (part.lower is None and _is_integer(part.upper)) or _is_integer(part.step)
    return _is_integer(part.operand if isinstance(part, ast.UnaryOp) else part)


def _bounds(part: ast.expr) -> object:
    """What picks a part of a dimension: its two bounds, where it is a slice of all between them."""
    if isinstance(part, ast.Slice) and part.step is None:
        return tuple("" if bound is None else ast.unparse(bound) for bound in (part.lower, part.upper))
    return part.value if isinstance(part, ast.Constant) else ast.unparse(part)


def _is_integer(n: ast.expr | None) -> bool:
    return isinstance(n, ast.Constant) and type(n.value) is int


def _call(i: int, n: ast.Call) -> t.Call:
    func = expr(n.func)
    given: Iterable[ast.expr | ast.keyword] = n.args
    if n.keywords:
        given = [*n.args, *n.keywords]
        if any(isinstance(a, ast.Starred) for a in n.args):
            given = sorted(given, key=lambda a: (a.lineno, a.col_offset))  # f(key=1, *rest)
    return t.called(i, func, [_arg(a) for a in given])


def _arg(a: ast.expr | ast.keyword) -> t.Arg:
    if isinstance(a, ast.keyword):
        return t.Arg(expr(a.value), a.arg, "" if a.arg is not None else "**")
    if isinstance(a, ast.Starred):
        return t.Arg(expr(a.value), None, "*")
    return t.Arg(expr(a))


def _formatted(i: int, n: ast.JoinedStr) -> t.Text:
    return t.Text(i, [expr(part.value) for part in n.values if isinstance(part, ast.FormattedValue)])


def _boolean(i: int, n: ast.BoolOp) -> t.Operation:
    operator = _OPERATORS[type(n.op)]
    first, *others, last = n.values
    left = expr(first)
    for value in others:
        left = t.Operation(_number(n), operator, [left, expr(value)])
    return t.Operation(i, operator, [left, expr(last)])


def _comparison(i: int, n: ast.Compare) -> t.Operation:
    return t.Operation(i, _OPERATORS[type(n.ops[0])], [expr(n.left), *map(expr, n.comparators)])


def _display(kind: str) -> Callable[[int, Any], t.Expr]:
    return lambda i, n: t.Display(i, kind, [expr(e) for e in n.elts])


def _dict(i: int, n: ast.Dict) -> t.Expr:
    entries = zip(n.keys, n.values)
    return t.DictDisplay(i, [(expr(key) if key is not None else None, expr(value)) for key, value in entries])


def _comprehension(kind: str) -> Callable[[int, Any], t.Expr]:
    def make(i: int, n: Any) -> t.Expr:
        key, element = (n.key, n.value) if isinstance(n, ast.DictComp) else (None, n.elt)
        clauses = [t.Clause(expr(g.target), expr(g.iter), [expr(test) for test in g.ifs]) for g in n.generators]
        return t.Comprehension(i, kind, expr(key) if key is not None else None, expr(element), clauses)

    return make


_EXPRESSIONS: dict[type, Callable[[int, Any], t.Expr]] = {
    ast.Name: lambda i, n: t.Name(i, n.id),
    ast.Constant: _constant,
    ast.Attribute: lambda i, n: t.Attribute(i, expr(n.value), n.attr),
    ast.Subscript: _subscript,
    ast.Call: _call,
    ast.JoinedStr: _formatted,
    ast.BinOp: lambda i, n: t.Operation(i, _OPERATORS[type(n.op)], [expr(n.left), expr(n.right)]),
    ast.BoolOp: _boolean,
    ast.UnaryOp: lambda i, n: t.Operation(i, _OPERATORS[type(n.op)], [expr(n.operand)]),
    ast.Compare: _comparison,
    ast.IfExp: lambda i, n: t.Conditional(i, expr(n.test), expr(n.body), expr(n.orelse)),
    ast.Tuple: _display("tuple"),
    ast.List: _display("list"),
    ast.Set: _display("set"),
    ast.Starred: lambda i, n: t.Starred(i, expr(n.value)),
    ast.Dict: _dict,
    ast.ListComp: _comprehension("list"),
    ast.SetComp: _comprehension("set"),
    ast.GeneratorExp: _comprehension("generator"),
    ast.DictComp: _comprehension("dict"),
    ast.Lambda: lambda i, n: t.Lambda(i, _params(n.args), expr(n.body)),
    ast.NamedExpr: lambda i, n: t.Walrus(i, expr(n.target), expr(n.value)),
    ast.Await: lambda i, n: t.Suspend(i, "await", expr(n.value)),
    ast.Yield: lambda i, n: t.Suspend(i, "yield", expr(n.value) if n.value is not None else None),
    ast.YieldFrom: lambda i, n: t.Suspend(i, "yield from", expr(n.value)),
}

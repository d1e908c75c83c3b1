"""What is put back at a place that is there already: a wrapper that is read off it after it was put there.

``module.forward = measured``, then ``inner = module.__dict__.pop("forward")``, ``module.forward = inner``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.program.bound_paths import binds
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_BY_NAME = frozenset("setattr delattr pop".split())
_DICT = "__dict__"


class PutBack(NamedTuple):
    """A function that puts back what is there, and the statement with which it does."""

    function: str
    site: Site


def put_back_same(flow: Flow, node: t.Node, path: str) -> list[PutBack]:
    """What a function that wraps something, what it calls and the methods of its object put back there in vain.

    Args:
        node: the statement that puts the wrapper there.
        path: where.
    """
    called = [ref for call in flow.ref.calls for ref in functions_called(flow, call)]
    methods = methods_of(flow.ref.owner) if flow.ref.owner is not None else []
    others = [ref for ref in (*called, *methods) if ref.define is not flow.ref.define]
    found = ((ref, _putting_same(ref, path, flow.ref, node)) for ref in (flow.ref, *others))
    return [PutBack(ref.define.name, Site(ref.chunk, stmt)) for ref, stmt in found if stmt is not None]


def puts_back(ref: FunctionRef, node: t.Node, path: str) -> bool:
    """Whether a function that wraps something binds its place again, or takes off what is there, also by its name."""
    name, own = path.rpartition(".")[2], node.value if isinstance(node, t.Evaluate) else None
    is_bound = any(stmt is not node and binds(stmt, path) for stmt in ref.define.statements)
    return is_bound or any(call is not own and _is_by_name(call, name) for call in ref.calls)


def _putting_same(ref: FunctionRef, path: str, wrapping: FunctionRef, node: t.Node) -> t.Stmt | None:
    """The statement of a function that binds an attribute, if all that do only put back what is there by then."""
    name = path.rpartition(".")[2]
    bound = [each for each in _bound(ref, name, node) if ref is not wrapping or t.path_of(each[1]) == path]
    reads = [_reads(ref, target, value, wrapping, node) for _, target, value in bound]
    read = [node for made in reads for node in t.walk(made)]
    is_otherwise = any(_is_by_name(call, name) and call not in read for call in ref.calls)
    return bound[0][0] if bound and all(reads) and not is_otherwise else None


def _bound(ref: FunctionRef, name: str, besides: t.Node) -> Iterator[tuple[t.Stmt, t.Expr, t.Expr | None]]:
    """The statements that bind an attribute of a name, or delete it, each with its target and what it binds that to."""
    for stmt in ref.define.statements:
        pairs = t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ()
        deleted = stmt.targets if isinstance(stmt, t.Delete) else []
        for target, value in (*pairs, *((each, None) for each in deleted)):
            if stmt is not besides and isinstance(target, t.Attribute) and target.name == name:
                yield stmt, target, value


def _reads(ref: FunctionRef, target: t.Expr, value: t.Expr | None, wrapping: FunctionRef, node: t.Node) -> list[t.Expr]:
    """What reads a value off the place to which it is put back, if that surely is after the wrapper was put there."""
    place, path = t.path_of(target), t.path_of(value) if value is not None else None
    if place is None or path is None:
        return []
    if isinstance(value, t.Name):
        is_given = any(param.name == path for param in ref.define.params)
        made, is_after = [] if is_given else ref.assigned.get(path, []), ref is not wrapping
    else:
        made, is_after = _kept_by(ref, path, wrapping), False
    is_same = all(_is_read(each, place) and (is_after or _is_behind(each, node)) for each in made)
    return made if is_same else []


def _kept_by(ref: FunctionRef, path: str, wrapping: FunctionRef) -> list[t.Expr]:
    """What an attribute is bound to, if only by the function that wraps, and to None by others."""
    base, _, name = path.partition(".")
    assigned = ref.owner.assigned(name) if ref.owner is not None and base == "self" and name.isidentifier() else []
    kept = [
        (define, value) for define, value in assigned if not (isinstance(value, t.Constant) and value.value is None)
    ]
    return [value for _, value in kept] if all(define is wrapping.define for define, _ in kept) else []


def _is_read(expr: t.Expr, path: str) -> bool:
    """``module.forward``, ``module.__dict__["forward"]``, ``getattr(module, "forward")`` of ``module.forward``."""
    owner, _, name = path.rpartition(".")
    if t.path_of(expr) == path:
        return True
    if isinstance(expr, t.Subscript):
        return t.path_of(expr.value) == f"{owner}.{_DICT}" and _is_word(expr.index, name)
    if not isinstance(expr, t.Call) or not expr.args:
        return False
    if isinstance(expr.func, t.Attribute):
        of_dict = t.path_of(expr.func.value) == f"{owner}.{_DICT}"
        return of_dict and expr.name in ("pop", "get") and _is_word(expr.args[0].value, name)
    is_named = expr.name == "getattr" and len(expr.args) > 1 and t.path_of(expr.args[0].value) == owner
    return is_named and _is_word(expr.args[1].value, name)


def _is_by_name(call: t.Call, name: str) -> bool:
    """``setattr(module, "forward", f)``, ``module.__dict__.pop("forward")``."""
    return call.name in _BY_NAME and any(_is_word(arg.value, name) for arg in call.args[:2])


def _is_word(expr: t.Expr, word: str) -> bool:
    return isinstance(expr, t.Constant) and expr.value == word


def _is_behind(expr: t.Expr, node: t.Node) -> bool:
    """Whether an expression stands behind a statement: places are numbered in the order of the text."""
    return isinstance(expr.origin, int) and isinstance(node.origin, int) and expr.origin > node.origin

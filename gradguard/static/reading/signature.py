"""What a function's definition says before its body is read: decorators that cache, parameters that are tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import used_as_tensors
from gradguard.static.reading.memoized import keeps_arguments, keeps_arguments_in_object
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Module


def describe(flow: Flow) -> None:
    """Fill in what rules ask about the definition."""
    define, facts = flow.ref.define, flow.facts
    facts.takes_self = flow.ref.owner is not None and flow.params[:1] == ["self"]
    facts.takes_arguments = len(flow.params) > (flow.params[:1] in (["self"], ["cls"]))
    facts.is_among_tests = flow.module.holds_tests
    facts.is_test = facts.is_among_tests or define.name.startswith("test_")
    facts.uses_device = flow.module.uses_device
    for decorator in define.decorators:
        value = flow.module.value_of(decorator.func if isinstance(decorator, t.Call) else decorator)
        if value.kind is Kind.EXTERNAL and value.ref in k.CACHES:
            facts.cached = flow.site(decorator)
            facts.cache_is_bounded = is_bounded(decorator, str(value.ref))
            facts.cache_is_emptied = is_emptied(flow)
            facts.tensor_params = tuple(_tensors(define, flow.module))
        elif (kept := _kept_by(value.ref)) is not None:
            facts.cached, facts.cached_by = flow.site(decorator), kept
            facts.tensor_params = tuple(_tensors(define, flow.module))


def _kept_by(decorator: object) -> Site | None:
    """The statement by which a decorator of the program, a function or a class, keeps what it was called with."""
    if isinstance(decorator, FunctionRef):
        store = keeps_arguments(decorator.define)
        return Site(decorator.chunk, store) if store is not None else None
    if not isinstance(decorator, Class):
        return None
    constructor, call = decorator.method("__init__"), decorator.method("__call__")
    store = keeps_arguments_in_object(constructor.define, call.define) if constructor and call else None
    return Site(decorator.chunk, store) if store is not None else None


def is_emptied(flow: Flow) -> bool:
    """Whether something in its program empties a cache of ``functools``."""
    return flow.project.survey.mentions(_EMPTIES, flow.module, "cache_clear")


_EMPTIES = re.compile(r"\.cache_clear\b")


def is_bounded(decorator: t.Expr, name: str) -> bool:
    """Whether a cache drops old entries: ``lru_cache`` keeps 128, where ``maxsize`` does not say otherwise."""
    size = decorator.argument("maxsize", 0) if isinstance(decorator, t.Call) else None
    unlimited = isinstance(size, t.Constant) and size.value is None
    return name.endswith("lru_cache") and not unlimited


def _tensors(define: t.Define, module: Module) -> list[str]:
    """The parameters that are tensors, by their annotations or by what is done with them."""
    used = used_as_tensors(define.body) | frozenset(_used_as_arrays(define.body, module))
    used = (used | k.TENSOR_NAMES) - frozenset(_made_anew(define.body, module))
    annotated = ((p.name, p.annotation) for p in define.params)
    return [name for name, hint in annotated if name in used or (hint is not None and _is_tensor(hint, module))]


def _made_anew(body: Sequence[t.Stmt], module: Module) -> Iterator[str]:
    """The names that become something else than what they were: ``size = torch.arange(size)``."""
    for stmt in t.walk_statements(body):
        if isinstance(stmt, t.Assign):
            names = (target.id for target in stmt.targets if isinstance(target, t.Name))
            yield from (n for n in names if _begins_with(stmt.value) != n and not _joins(stmt.value, n, module))


def _joins(expr: t.Expr, name: str, module: Module) -> bool:
    """Whether it is a tensor made of a tensor of that name: ``torch.cat([edges, loops], 1)``, ``torch.sqrt(x)``."""
    if not isinstance(expr, t.Call) or not expr.args:
        return False
    first = expr.args[0].value
    items = first.items if isinstance(first, t.Display) else (first,)
    is_torch = _is_of_tensors(expr.func, module) or module.value_of(expr.func).ref in _OF_SEVERAL
    return is_torch and any(isinstance(item, t.Name) and item.id == name for item in items)


_OF_SEVERAL = ("torch.cat", "torch.concat", "torch.stack", "torch.hstack", "torch.vstack")


def _begins_with(expr: t.Expr) -> str | None:
    """The variable whose methods are called: ``x`` of ``x.float().view(-1)``."""
    while isinstance(expr, t.Attribute | t.Call | t.Subscript):
        expr = expr.func if isinstance(expr, t.Call) else expr.value
    return expr.id if isinstance(expr, t.Name) else None


def _used_as_arrays(body: Sequence[t.Stmt], module: Module) -> Iterator[str]:
    """The names that have several dimensions, or are given to torch's functions.

    What a cache is keyed by can be hashed, so that no array of NumPy is among them.
    """
    for node in t.walk(body):
        array: t.Expr | None = None
        if isinstance(node, t.Subscript) and _is_by_dimensions(node.index):
            array = node.value
        elif isinstance(node, t.Call) and _is_of_tensors(node.func, module):
            yield from _given_as_tensors(node)
        elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name in _OF_ARRAYS:
            array = node.func.value
        elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name in _BY_DIMENSION:
            told = [arg for arg in node.args if arg.keyword != "keepdim"]
            by_number = [arg for arg in told if arg.keyword in (None, "dim") and _is_number(arg.value)]
            array = node.func.value if len(by_number) == len(told) == 1 else None  # x.size(0)
        elif isinstance(node, t.Operation) and node.operator == "@":
            yield from (operand.id for operand in node.operands if isinstance(operand, t.Name))
        if isinstance(array, t.Name):
            yield array.id


def _is_by_dimensions(index: t.Expr) -> bool:
    """Whether a subscript is about several dimensions, or or has `...` or `None`: ``x[:, 0]``, ``x[..., None]``."""
    if isinstance(index, t.Slice):
        return index.dimensions > 1
    parts = index.items if isinstance(index, t.Display) else [index]
    return any(isinstance(part, t.Constant) and part.value is None for part in parts)


_OF_ARRAYS = frozenset(
    "repeat repeat_interleave reshape view permute squeeze flatten cumsum argmax argmin argsort nonzero matmul clamp "
    "expand_as gather pow t mm bmm index_select masked_fill detach".split()
)
"""What arrays and tensors do, and nothing else that can be hashed."""
_BY_DIMENSION = frozenset("size sum mean std var max min norm".split())
"""What they do along one dimension: ``x.sum(1)``, while ``law.mean()`` may be that of a distribution."""


def _is_of_tensors(func: t.Expr, module: Module) -> bool:
    """Whether it takes no numbers: a function of torch, ``torch.sqrt``; a layer that the file has."""
    if isinstance(func, t.Name):
        layer = module.value_of(func)
        return layer.kind is Kind.MODULE and isinstance(layer.ref, str) and layer.ref.startswith("torch.nn.")
    if not isinstance(func, t.Attribute) or func.name not in k.GIVEN_TENSORS:
        return False
    ref = module.value_of(func).ref
    return isinstance(ref, str) and ref.endswith(f".{func.name}") and ref[: -len(func.name) - 1] in k.TENSOR_NAMESPACES


def _given_as_tensors(call: t.Call) -> Iterator[str]:
    """The variables that a function of tensors is given where it takes them: the first argument, of some the second."""
    takes_two = isinstance(call.func, t.Attribute) and call.func.name in k.GIVEN_TWO_TENSORS
    for arg in call.args[: 2 if takes_two else 1]:
        if arg.keyword is None and not arg.star and isinstance(arg.value, t.Name):
            yield arg.value.id


def _is_number(expr: t.Expr) -> bool:
    if isinstance(expr, t.Operation) and expr.operator == "-" and len(expr.operands) == 1:
        expr = expr.operands[0]
    return isinstance(expr, t.Constant) and isinstance(expr.value, int)


def _is_tensor(annotation: t.Expr, module: Module) -> bool:
    if isinstance(annotation, t.Operation):  # Tensor | None
        return any(_is_tensor(operand, module) for operand in annotation.operands)
    if isinstance(annotation, t.Subscript) and (t.path_of(annotation.value) or "").endswith("Optional"):
        return _is_tensor(annotation.index, module)
    if isinstance(annotation, t.Constant) and isinstance(annotation.value, str):
        return k.TENSOR_IN_TEXT.search(annotation.value) is not None
    value = module.value_of(annotation)
    return value.kind is Kind.EXTERNAL and value.ref in k.TENSOR_TYPES

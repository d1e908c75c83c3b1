"""Expressions that are tensors whatever happens: never None, never the number that a sum begins with."""

from __future__ import annotations

import re

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.reading.scalars import bound_to
from gradguard.static.source import Site

_DEPTH = 4
_PLAIN = frozenset("sum max min abs round float int len bool getattr next".split())


def surely_tensor(site: Site) -> bool:
    """Whether an expression that may be a tensor is nothing else on any way.

    ``pen`` of ``pen = loss * w if w else None`` may be None, ``extra`` of ``extra = 0`` and ``extra += ...`` a number.
    """
    return isinstance(site.node, t.Expr) and _is_sure(site, site.node, _DEPTH)


def _is_sure(site: Site, expr: t.Expr, depth: int) -> bool:
    path = t.path_of(expr)
    if path is not None and _indexes(site, path):
        return False
    if path is not None and _is_backpropagated(site, path):
        return True
    if isinstance(expr, t.Name) and depth:
        values = bound_to(expr.id, site.chunk.statements)
        return bool(values) and all(_is_sure(site, value, depth - 1) for value in values)
    if isinstance(expr, t.Operation):
        operands = [operand for operand in expr.operands if not isinstance(operand, t.Constant)]
        sure = any(_is_sure(site, operand, depth) for operand in operands)
        return expr.operator in k.ARITHMETIC and sure
    return isinstance(expr, t.Call) and _gives_tensor(site, expr)


def _is_backpropagated(site: Site, path: str) -> bool:
    """Whether backward is called on it somewhere: it is no None then."""
    name = re.escape(path)
    return re.search(rf"(?<![\w.]){name}\.backward\(|\({name}\)\.backward\(", site.chunk.program) is not None


def is_used_as_dict(site: Site) -> bool:
    """Whether what an expression names surely is a dict: its entries are asked for."""
    path = t.path_of(site.node) if isinstance(site.node, t.Expr) else None
    return path is not None and _indexes(site, path)


def _indexes(site: Site, path: str) -> bool:
    """Whether its entries are asked for by a name, or gone over: ``a["kl"]``, ``a.values()``, ``f(**a)``."""
    name = re.escape(path)
    as_dict = rf"(?<![\w.]){name}(?:\.(?:items|values|keys|get)\(|\[f?['\"])|\*\*{name}\b(?!\.)"
    return re.search(as_dict, site.chunk.program) is not None


def _gives_tensor(site: Site, call: t.Call) -> bool:
    """Whether a call is none of a function of this file, which may have a way without a result, nor of Python's own."""
    name = call.func.name if isinstance(call.func, t.Attribute) else t.path_of(call.func)
    if name is None or name in _PLAIN:
        return False
    return re.search(rf"\bdef {re.escape(name)}\(", site.chunk.source.text) is None

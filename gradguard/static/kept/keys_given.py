"""Tensors that a function is given as keys: ``self.table(lengths.max())``, which keeps what it makes under each.

What is computed in the call is a new object each time, so that what is kept under it is never found again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.kept.kept_under import KeptUnder, kept_under, parts_of
from gradguard.static.mistakes.kept import TensorKey
from gradguard.static.program.functions_called import calls_of
from gradguard.static.program.names import used_as_tensors
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_COMPUTING = k.DIFFERENTIABLE_METHODS | k.CHOOSING
_ANEW = frozenset("max min sum mean prod amax amin argmax argmin median norm count_nonzero unique cumsum".split())
"""What these give is never the tensor itself, as that of ``x.to(device)`` may be."""


def keys_given(flow: Flow) -> Iterator[TensorKey]:
    """Where a function keeps what it makes under an argument, which a caller computes for the call."""
    names = {param.name for param in flow.ref.define.params[flow.ref.owner is not None :]} - flow.ref.names[0]
    for kept in kept_under(flow):
        parts = (part.id for part in parts_of(flow.ref, kept.key) if isinstance(part, t.Name))
        given = (_given(flow, kept, name) for name in parts if name in names)
        yield from filter(None, given)


def _given(flow: Flow, kept: KeptUnder, name: str) -> TensorKey | None:
    for caller, call in calls_of(flow):
        key = flow.ref.given_by(call).get(name)
        if key is not None and _runs_often(caller, call) and _is_made(caller, key):
            return TensorKey(flow.site(kept.stmt), kept.collection, caller.site(key), None, True, caller.site(call))
    return None


def _runs_often(caller: Flow, call: t.Call) -> bool:
    """Whether it is a module's ``forward``, or a loop, that calls."""
    loops = (stmt for stmt in caller.ref.define.statements if isinstance(stmt, t.Repeat))
    in_loop = any(node is call for loop in loops for node in t.walk(loop.body))
    return in_loop or (caller.facts.is_module_method and caller.facts.name == "forward")


def _is_made(flow: Flow, key: t.Expr, asked: frozenset[str] = frozenset()) -> bool:
    """Whether an expression surely is a tensor that is computed here: ``lengths.max() + 1``, ``y[i]``.

    Args:
        asked: the variables that are asked about already: what is made of itself is not told.
    """
    if isinstance(key, t.Name):
        bound = flow.ref.assigned.get(key.id, []) if key.id not in asked and key.id not in flow.params else []
        return bool(bound) and all(_is_made(flow, value, asked | {key.id}) for value in bound)
    if isinstance(key, t.Operation):
        return key.operator in k.ARITHMETIC and any(_is_made(flow, operand, asked) for operand in key.operands)
    if isinstance(key, t.Subscript):
        is_word = isinstance(key.index, t.Constant) and not isinstance(key.index.value, int)
        return not is_word and (_is_tensor(flow, key.value) or _is_made(flow, key.value, asked))
    if not isinstance(key, t.Call) or key.name not in _COMPUTING:
        return False
    of_torch = _is_of_torch(flow, key)
    receivers = [arg.value for arg in key.args[:1]] if of_torch else []
    of = receivers[0] if receivers else key.func.value if isinstance(key.func, t.Attribute) and not of_torch else None
    return of is not None and (_is_made(flow, of, asked) or (key.name in _ANEW and _is_tensor(flow, of)))


def _is_tensor(flow: Flow, expr: t.Expr) -> bool:
    """Whether a variable surely is a tensor of torch: an array of NumPy has elements that are numbers."""
    if not isinstance(expr, t.Name):
        return False
    bound = flow.ref.assigned.get(expr.id, [])
    if bound:
        return all(isinstance(value, t.Call) and _is_computed_by_torch(flow, value) for value in bound)
    hints = (param.annotation for param in flow.ref.define.params if param.name == expr.id)
    is_declared = any(hint is not None and flow.module.value_of(hint).ref in k.TENSOR_TYPES for hint in hints)
    is_used = expr.id in used_as_tensors(flow.ref.define.body)
    return is_declared or is_used or any(_shows_it(flow, node, expr.id) for node in flow.ref.define.nodes)


def _shows_it(flow: Flow, node: t.Node, name: str) -> bool:
    """``x.device``, ``torch.cumsum(x, 0)``, ``torch.arange(n) < x[:, None]``."""
    if isinstance(node, t.Attribute):
        return node.name == "device" and t.path_of(node.value) == name
    if isinstance(node, t.Call):
        given = [arg.value for arg in node.args if isinstance(arg.value, t.Name)]
        return any(value.id == name for value in given) and node.name in _COMPUTING and _is_of_torch(flow, node)
    operands = node.operands if isinstance(node, t.Operation) else []
    bare = [each.value if isinstance(each, t.Subscript) else each for each in operands]
    is_it = any(isinstance(each, t.Name) and each.id == name for each in bare)
    return is_it and any(isinstance(each, t.Call) and _is_of_torch(flow, each) for each in bare)


def _is_computed_by_torch(flow: Flow, call: t.Call) -> bool:
    """Whether a function of torch gives a tensor: ``torch.arange(n)``, no ``torch.device("cuda")``."""
    return call.name in _COMPUTING | _MAKING and _is_of_torch(flow, call)


_MAKING = frozenset("tensor as_tensor arange zeros ones full rand randn randint randperm linspace bincount".split())


def _is_of_torch(flow: Flow, call: t.Call) -> bool:
    called = flow.module.value_of(call.func)
    return called.kind is Kind.EXTERNAL and str(called.ref).startswith("torch.")

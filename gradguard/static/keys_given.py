"""Tensors that a function is given as keys: ``self.table(lengths.max())``, which keeps what it makes under each.

What is computed in the call is a new object each time, so that what is kept under it is never found again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.functions import FunctionRef
from gradguard.static.functions_called import calls_of
from gradguard.static.mistakes import TensorKey
from gradguard.static.model import Scope
from gradguard.static.names import used_as_tensors
from gradguard.static.never_emptied import is_never_emptied
from gradguard.static.places import assigned_anywhere
from gradguard.static.tensor_keys import makes_dict
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_COMPUTING = k.DIFFERENTIABLE_METHODS | k.CHOOSING
_ANEW = frozenset("max min sum mean prod amax amin argmax argmin median norm count_nonzero unique cumsum".split())
"""What these give is never the tensor itself, as that of ``x.to(device)`` may be."""


def keys_given(flow: Flow) -> Iterator[TensorKey]:
    """Where a function keeps what it makes under an argument, which a caller computes for the call."""
    for stmt, path, name in _kept_under(flow.ref):
        if flow.scope(path) in (Scope.LOCAL, Scope.PARAMETER) or not _lasts(flow, path):
            continue
        for caller, call in calls_of(flow):
            key = flow.ref.given_by(call).get(name)
            if key is not None and _runs_often(caller, call) and _is_made(caller, key):
                yield TensorKey(flow.site(stmt), path, caller.site(key), None, True, caller.site(call))
                return


def _kept_under(ref: FunctionRef) -> Iterator[tuple[t.Stmt, str, str]]:
    """The statements that put something into a dict under a parameter, where it was looked for before."""
    names = {param.name for param in ref.define.params[ref.owner is not None :]} - ref.names[0]
    for stmt in ref.define.statements:
        for target in stmt.targets if isinstance(stmt, t.Assign) else ():
            path = t.path_of(target.value) if isinstance(target, t.Subscript) else None
            key = target.index if isinstance(target, t.Subscript) else None
            parts = _parts(ref, key)
            if path is not None and any(_looks_up(node, path) for node in ref.define.nodes):
                yield from ((stmt, path, name) for name in parts if name in names)


def _parts(ref: FunctionRef, key: t.Expr | None) -> list[str]:
    """The variables that a key is, or consists of: ``key = (length, device)``."""
    bound = ref.assigned.get(key.id, []) if isinstance(key, t.Name) else []
    whole = bound[0] if len(bound) == 1 else key
    items = whole.items if isinstance(whole, t.Display) else [whole]
    return [item.id for item in items if isinstance(item, t.Name)]


def _looks_up(node: t.Node, path: str) -> bool:
    """``known.get(key)``, ``key in known``, ``known[key]`` in a ``try``."""
    if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name == "get":
        return t.path_of(node.func.value) == path
    if isinstance(node, t.Operation) and node.operator in ("in", "not in"):
        return t.path_of(node.operands[-1]) == path
    tried = t.walk(node.body) if isinstance(node, t.Try) else ()
    return any(isinstance(each, t.Subscript) and t.path_of(each.value) == path for each in tried)


def _lasts(flow: Flow, path: str) -> bool:
    """Whether a dict is never begun anew, nor anything taken out of it."""
    made = assigned_anywhere(flow, path)
    return bool(made) and all(map(makes_dict, made)) and is_never_emptied(flow, path)


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

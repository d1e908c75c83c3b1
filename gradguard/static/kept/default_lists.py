"""Lists that are the default of a parameter, and that each call without it makes longer: ``def play(env, frames=[])``.

A default is made once, when the function is defined.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.kept.handed_modules import handed_without
from gradguard.static.kept.same_again import ALWAYS, loop_of_same
from gradguard.static.mistakes.kept import DefaultList
from gradguard.static.model import Form
from gradguard.static.program.bound_paths import binds
from gradguard.static.program.functions_called import calls_of
from gradguard.static.source import Site
from gradguard.static.values import Kind, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def default_lists(flow: Flow) -> Iterator[DefaultList]:
    """The statements that put a tensor into such a list, in a function that a loop which trains calls without it."""
    defaults = {param.name: param.default for param in flow.ref.define.params if makes_list(param.default)}
    for name, default in defaults.items() if flow.ref.define.name != "__init__" else ():
        stores = [s for s in flow.facts.stores if s.path == name and s.form is Form.APPEND and s.inner is None]
        tensors = [s for s in stores if s.carries_graph or has_tensor(s.value)] if _is_kept(flow, name) else []
        store = next((s for s in tensors if not s.carries_graph), None)
        call = _call_without(flow, name) if store is not None else None
        if call is None and tensors:  # of a graph, where a loop calls the module itself, another rule tells
            store, call = tensors[0], handed_without(flow, name)
        if store is not None and call is not None and default is not None:
            yield DefaultList(store.site, name, flow.site(default), call)


def has_tensor(value: Value) -> bool:
    """Whether it is a tensor, or a tuple or a dict that has one."""
    return value.kind in (Kind.TENSOR, Kind.OUTPUT) or any(has_tensor(part) for _, part in value.parts)


def makes_list(default: t.Expr | None) -> bool:
    """Whether an expression is an empty list: ``[]``, ``list()``."""
    if isinstance(default, t.Call):
        return t.path_of(default.func) == "list" and not default.args
    return isinstance(default, t.Display) and default.kind == "list" and not default.items


def _is_kept(flow: Flow, name: str) -> bool:
    """Whether a function neither binds the name anew, nor takes anything out of the list, nor hands it to another."""
    if any(binds(stmt, name) for stmt in flow.ref.define.statements):
        return False
    for node in flow.ref.define.nodes:
        if (
            isinstance(node, t.Attribute)
            and node.name in k.CLEARING_METHODS | {"remove"}
            and t.path_of(node.value) == name
        ):
            return False
        targets = node.targets if isinstance(node, t.Assign | t.Delete) else []
        if any(isinstance(target, t.Subscript) and t.path_of(target.value) == name for target in targets):
            return False
    return True


def _call_without(flow: Flow, name: str) -> Site | None:
    """A call of the function that gives nothing for the list, and that a loop which trains comes to again and again."""
    for caller, call in calls_of(flow):
        is_without = name not in flow.ref.given_by(call) and not any(arg.star for arg in call.args)
        if is_without and loop_of_same(caller, call, (ALWAYS,)) is not None:
            return caller.site(call)
    return None

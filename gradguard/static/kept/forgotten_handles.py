"""Handles of hooks that an object drops without ``remove()``: ``self.handles.clear()``. The hooks stay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.kept.callback_hooks import FREES_HOOKS
from gradguard.static.kept.one_handle import is_known_outside
from gradguard.static.mistakes.kept import ForgottenHandles
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_OF_MODULES = re.compile(r"register_(?:module_)?(?:full_)?(?:forward|backward|state_dict|load_state_dict)\w*hook$")
_MAKING = ("list", "dict", "set", "deque", "OrderedDict", "defaultdict")


def forgotten_handles(flow: Flow) -> Iterator[ForgottenHandles]:
    """The statements of a method that drop the handles of an attribute, where nothing ever removes their hooks."""
    owner, define = flow.ref.owner, flow.ref.define
    if owner is None or define.name == "__init__" or any(map(_registers, flow.ref.calls)):
        return
    methods = methods_of(owner)
    dropped = [(stmt, path) for stmt in define.statements for path in _dropped(stmt)]
    of_file = [method for method in methods if method.module is flow.module]
    put = {path: [call for method in of_file for call in _put_into(method, path)] for _, path in dropped}
    forgotten = [(stmt, path) for stmt, path in dropped if put[path]]
    if not forgotten or any(_lets_go(each) for each in define.statements if each not in [s for s, _ in forgotten]):
        return
    for stmt, path in forgotten:
        if not all(_is_only_kept(method, path) for method in methods) or _frees(flow):
            continue
        if not is_known_outside(flow, owner, path.removeprefix("self.")):
            yield ForgottenHandles(flow.site(stmt), path, put[path][0].name)


def _frees(flow: Flow) -> bool:
    """Whether the program drops hooks where torch has them: ``net._forward_hooks.clear()``."""
    return flow.project.survey.mentions(FREES_HOOKS, flow.module, "_hooks")


def _registers(call: t.Call) -> bool:
    return _OF_MODULES.match(call.name) is not None


def _dropped(stmt: t.Stmt) -> Iterator[str]:
    """The attributes of the object that a statement empties: ``self.handles.clear()``, ``self.handles = []``."""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) and not call.args else None
    if isinstance(func, t.Attribute) and func.name == "clear":
        yield from _own(func.value)
    if isinstance(stmt, t.Assign) and _is_empty(stmt.value):
        yield from (path for target in stmt.targets for path in _own(target))


def _own(expr: t.Expr) -> Iterator[str]:
    path = t.path_of(expr) or ""
    if path.startswith("self.") and path.removeprefix("self.").isidentifier():
        yield path


def _is_empty(value: t.Expr) -> bool:
    if isinstance(value, t.Call):
        return value.name in _MAKING and not value.args
    is_none = isinstance(value, t.Constant) and value.value is None
    return (
        is_none
        or (isinstance(value, t.Display) and not value.items)
        or (isinstance(value, t.DictDisplay) and not value.entries)
    )


def _lets_go(stmt: t.Stmt) -> bool:
    """Whether a method lets something go: the modules may be gone with their hooks."""
    is_none = isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Constant) and stmt.value.value is None
    return is_none or isinstance(stmt, t.Delete)


def _put_into(method: FunctionRef, path: str) -> Iterator[t.Call]:
    """The registrations whose handles a method puts into an attribute, on modules that it does not make itself."""
    for node in method.define.nodes:
        if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name in k.ADDING_METHODS:
            given = [arg.value for arg in node.args] if t.path_of(node.func.value) == path else []
        elif isinstance(node, t.Assign) and any(_is_entry(target, path) for target in node.targets):
            given = [node.value]
        else:
            continue
        made = [each for value in given for each in _made_in(value)]
        yield from (
            each for each in made if isinstance(each, t.Call) and _registers(each) and not _is_new(method, each)
        )


def _is_new(method: FunctionRef, registration: t.Call) -> bool:
    """Whether a hook is registered on what the method makes: that may be gone with it."""
    names = (node.id for node in t.walk(registration.func) if isinstance(node, t.Name))
    return any(isinstance(value, t.Call) for name in names for value in method.assigned.get(name, []))


def _made_in(value: t.Expr) -> list[t.Expr]:
    if isinstance(value, t.Comprehension):
        return [value.element]
    return value.items if isinstance(value, t.Display) else [value]


def _is_entry(target: t.Expr, path: str) -> bool:
    """``self.handle``, ``self.handles[name]``."""
    return t.path_of(target.value if isinstance(target, t.Subscript) else target) == path


def _is_only_kept(method: FunctionRef, path: str) -> bool:
    """Whether a method does no more with an attribute than to put handles into it, to count them and to drop them."""
    known: set[t.Node] = set()
    for node in method.define.nodes:
        if isinstance(node, t.Assign):
            handles = [value for value in _made_in(node.value) if not (isinstance(value, t.Call) and _registers(value))]
            if not handles or _is_empty(node.value):
                known |= {each.value if isinstance(each, t.Subscript) else each for each in node.targets}
        elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute):
            adds = node.func.name in k.ADDING_METHODS and all(
                isinstance(made, t.Call) and _registers(made) for arg in node.args for made in _made_in(arg.value)
            )
            if adds or node.func.name == "clear":
                known.add(node.func.value)
        elif isinstance(node, t.Call) and node.name == "len":
            known |= {arg.value for arg in node.args}
        elif isinstance(node, t.If):
            known |= {node.test, *(node.test.operands if isinstance(node.test, t.Operation) else ())}
    return all(node in known for node in method.define.all(t.Attribute) if t.path_of(node) == path)

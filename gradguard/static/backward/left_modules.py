"""Modules that each call, or each object, makes for itself: what a backward leaves in their gradients, nobody resets.

A head that is adapted to one task, of a model that an optimizer has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.backward.copies import LEVELS, is_called_in_loop, modules_run, resets_after, stays_here
from gradguard.static.model import Backward
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.program.classes import Class
from gradguard.static.program.paths import is_part

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef

_LEVELS = 2


def leaves_a_module(flow: Flow, backward: Backward) -> bool:
    """Whether the graph goes through a module that lives no longer than the call or its object, and keeps its gradient.

    Each is another one, so a reset before the backward is of no use, nor is one of the modules that live on.
    """
    if backward.inner is not None or any(flow.facts.calls_of(k.SETTING_GRADIENTS)):
        return False
    paths = sorted(path for path in modules_run(flow, backward) if path is not None and _is_asked(flow, backward, path))
    fresh = (path for path in paths if _is_of_call(flow, path) or _is_of_object(flow, path))
    return any(not resets_after(flow, backward, {path}) for path in fresh)


def _is_asked(flow: Flow, backward: Backward, module: str) -> bool:
    """Whether a backward puts gradients there: ``inputs=list(head.parameters())``, or nothing is said of that."""
    node = backward.source.site.node
    inputs = node.argument("inputs", 3) if isinstance(node, t.Call) else None
    if inputs is None:
        return True
    return any(is_part(path, module) for path in _paths_in(flow, inputs))


def _paths_in(flow: Flow, expr: t.Expr, levels: int = _LEVELS) -> Iterator[str]:
    """The paths that an expression mentions, and what its variables are bound to."""
    for node in t.walk(expr):
        path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) else None
        if path is not None:
            yield path
            for value in flow.ref.assigned.get(path, []) if levels else ():
                yield from _paths_in(flow, value, levels - 1)


def _is_of_call(flow: Flow, name: str) -> bool:
    """Whether a function makes it, only runs it, and is called in a loop."""
    made = flow.ref.assigned.get(name, [])
    is_own = name in flow.locals and name not in flow.params and name not in flow.declared
    if not is_own or len(made) != 1 or not is_made(flow.ref, made[0]):
        return False
    returned = (stmt.value for stmt in flow.ref.define.statements if isinstance(stmt, t.Return) and stmt.value)
    is_given_back = any(t.path_of(single) == name for value in returned for single in t.names_in(value))
    return not is_given_back and stays_here(flow.ref.define, name) and is_called_in_loop(flow.ref, LEVELS)


def _is_of_object(flow: Flow, path: str) -> bool:
    """Whether an object makes it in its constructor, shows it to nobody, and is made anew in each iteration."""
    owner, name = flow.ref.owner, path.removeprefix("self.")
    if owner is None or path != f"self.{name}" or "." in name or owner.is_module:
        return False
    made = owner.assigned(name)
    constructor = owner.method("__init__")
    if len(made) != 1 or constructor is None or made[0][0] is not constructor.define:
        return False
    if not is_made(constructor, made[0][1]) or any(_may_reset(ref, path) for ref in owner.methods.values()):
        return False
    shown = re.compile(rf"(?<!\bself)\.{re.escape(name)}\b(?!\s*\()")
    return not flow.project.survey.acts(name, shown, flow.module) and _is_made_in_loop(flow, owner)


def _may_reset(ref: FunctionRef, path: str) -> bool:
    """Whether a method resets gradients, gives the module to an optimizer, or hands out its parameters."""
    for node in ref.define.nodes:
        if isinstance(node, t.Attribute) and node.name == "zero_grad":
            return True
        if isinstance(node, t.Assign) and any(isinstance(to, t.Attribute) and to.name == "grad" for to in node.targets):
            return True
        if isinstance(node, t.Call) and str(ref.module.value_of(node.func).ref).startswith("torch.optim"):
            return True
        if isinstance(node, t.Return) and node.value is not None and _hands_out(node.value, path):
            return True
    return False


def _hands_out(value: t.Expr, path: str) -> bool:
    """Whether a function returns a module, or its parameters: ``return list(self.head.parameters())``."""
    calls = [node for node in t.walk(value) if isinstance(node, t.Call)]
    run = {call.func for call in calls}
    run |= {call.args[0].value for call in calls if call.name == "functional_call" and call.args}
    mentioned = (node for node in t.walk(value) if isinstance(node, t.Attribute) and t.path_of(node) == path)
    return any(node not in run for node in mentioned)


def _is_made_in_loop(flow: Flow, owner: Class) -> bool:
    """Whether one that calls the method makes the object for it in a loop."""
    for caller in flow.project.written_calling(flow.ref):
        for loop in (node for node in caller.define.nodes if isinstance(node, t.Repeat | t.Comprehension)):
            calls = [node for node in t.walk(loop) if isinstance(node, t.Call)]
            is_run = any(call.name == flow.facts.name for call in calls)
            if is_run and any(_makes(caller, call, owner) for call in calls):
                return True
    return False


def _makes(caller: FunctionRef, call: t.Call, owner: Class) -> bool:
    made = caller.module.value_of(call.func).ref
    return isinstance(made, Class) and made.define is owner.define

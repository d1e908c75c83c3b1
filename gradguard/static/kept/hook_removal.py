"""Who removes hooks, and when: in time, at the end of a context, or after a loop only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.files.lines import lines_with
from gradguard.static.kept.callback_hooks import FREES_HOOKS, REMOVES, kept_in
from gradguard.static.kept.one_handle import is_known_outside
from gradguard.static.model import HookRegistration
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import leading_to, methods_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Project

_CALLS = 2
"""Methods between one that removes hooks and the function with the loop."""


def is_removed(flow: Flow, hook: HookRegistration, at_exit: bool = True) -> bool:
    """Whether anything may remove a hook; of one whose handle only its object knows, a method that somebody calls.

    Args:
        at_exit: what a context does at its end counts, where some object of its class is used as one.
    """
    text, survey = flow.module.source.text, flow.project.survey
    if REMOVES.search(text) is None:
        return False
    if last_removal(flow) != float("inf"):
        return True
    if hook.inner is None and flow.facts.name != "__init__" and not _only_object_knows(flow, hook):
        return True
    removers = _removers(flow)
    if removers & {"<module>", "__del__", flow.facts.name}:
        return True
    at_exit = at_exit and any(survey.is_entered(name, flow.module) for name in _contexts(flow))
    return any(survey.runs(name, flow.module, at_exit) for name in removers)


def _only_object_knows(flow: Flow, hook: HookRegistration) -> bool:
    """Whether a method puts the handle into an attribute that only its class uses: ``self.handles.append(...)``."""
    owner, kept = flow.ref.owner, kept_in(flow, hook.site.node)
    if owner is None or kept is None or is_known_outside(flow, owner, kept):
        return False
    methods = {name for cls in owner.lineage() for name in cls.methods}
    return _removers(flow) <= methods


def frees_hooks(flow: Flow) -> bool:
    """Whether something in the file drops all hooks: ``net._forward_hooks.clear()``."""
    return flow.module.source.shows(FREES_HOOKS)


def is_left_open(flow: Flow, made: t.Call, cls: Class | None) -> bool:
    """Whether an object that a function makes is surely not used as a context: ``tap = Tap(net)``, ``tap.features``.

    One that is handed on, returned or kept may be, and so may its methods and its handles.

    Args:
        made: the call that makes it.
        cls: its class.
    """
    define = flow.ref.define
    bound = [s for s in define.statements if isinstance(s, t.Assign) and s.value is made and len(s.targets) == 1]
    target = bound[0].targets[0] if bound else None
    if cls is None or not isinstance(target, t.Name) or last_removal(flow) != float("inf"):
        return False
    attributes = define.all(t.Attribute)
    read = {node.value for node in attributes if not _may_close(cls, node.name)}
    uses = (node for node in define.all(t.Name) if node.id == target.id)
    return all(node is target or node in read for node in uses)


def _may_close(cls: Class, name: str) -> bool:
    """Whether what an object has under a name is a method, or has handles of its hooks."""
    registers = re.compile(rf"self\.{name}\b[^\n]*\.register_\w*hook")
    return cls.method(name) is not None or registers.search(cls.chunk.program) is not None


def _contexts(flow: Flow) -> set[str]:
    """The classes of the file whose objects are contexts."""
    return {unit.owner for unit in flow.module.source.outline.units if unit.owner and unit.name == "__exit__"}


def _removers(flow: Flow) -> set[str]:
    """The functions of the file that remove hooks."""
    return {line.function for line in lines_with("remove", flow.module.source.text) if REMOVES.search(line.text)}


def may_be_removed_in_time(flow: Flow, at_exit: bool) -> bool:
    """Whether a hook may be removed before much was collected: not where that is done once, after a loop, or never.

    Args:
        at_exit: what a context does at its end counts.
    """
    removers = _removers(flow) - (set() if at_exit else {"__exit__"})
    return any(runs_late(flow, name) is False for name in removers)


def is_removed_late(flow: Flow) -> bool:
    """Whether all methods that remove hooks are called after a loop only: each of its steps leaves its own there."""
    removers = _removers(flow)
    return bool(removers) and all(runs_late(flow, name) for name in removers)


def runs_late(flow: Flow, name: str) -> bool | None:
    """Whether a method of the object is called after a loop only, by whoever calls it; None if nobody does."""
    owner = flow.ref.owner
    method = owner.methods.get(name) if owner is not None else None
    if method is None or name.startswith("__") or name == flow.facts.name:
        return False
    registering = leading_to(methods_of(owner), [flow.facts.name]) if owner is not None else set()
    return _is_called_late(flow.project, method, frozenset(registering), _CALLS)


def _is_called_late(project: Project, method: FunctionRef, registering: frozenset[str], levels: int) -> bool | None:
    """Whether all that call a method do so after a loop of theirs, or are called so themselves; None if nobody does.

    Args:
        registering: the methods that register hooks, or call one that does: what calls one of these before any loop,
            and the remover after it, leaves nothing.
        levels: calls that are followed.
    """
    name, is_called = method.define.name, None
    for function in project.written_calling(method):
        body = function.define.body
        calls = [n for n in t.walk(body) if isinstance(n, t.Call) and (t.path_of(n.func) or "").endswith(f".{name}")]
        if not calls or function.define is method.define:
            continue
        if function.owner is not None and function.owner.is_module and function.define.name == "forward":
            return False  # whatever it goes over, it runs in each step
        is_called = True
        loops = [loop for loop in t.walk_statements(body) if isinstance(loop, t.Repeat)]
        inside = {id(node) for loop in loops for node in t.walk(loop)}
        if any(id(call) in inside for call in calls):
            return False
        outside = [call for call in function.calls if id(call) not in inside]
        if any(_is_own(call) and call.name in registering for call in outside):
            return False
        if any(map(_backpropagates, outside)):
            loops = []  # it is one step, and they go over parts of it
        if not loops and not (
            levels and function.owner and _is_called_late(project, function, registering, levels - 1)
        ):
            return False
    return is_called


def _is_own(call: t.Call) -> bool:
    return isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "self"


def _backpropagates(call: t.Call) -> bool:
    return isinstance(call.func, t.Attribute) and call.func.name in ("backward", "manual_backward")


def last_removal(flow: Flow) -> float:
    """The line of the last ``handle.remove()``; none at all: the hooks stay."""
    lines = [flow.site(call).line for call in flow.ref.calls if removes(call)]
    return max(lines, default=float("inf"))


def removes(call: t.Call) -> bool:
    """``handle.remove()``, or what is to call it later: ``stack.callback(handle.remove)``."""
    given = (arg.value for arg in call.args) if call.args else (call.func,)
    return any(isinstance(func, t.Attribute) and func.name == "remove" for func in given)

"""Hooks that a callback registers again and again: a method that a trainer calls before each epoch or batch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.files.lines import lines_with
from gradguard.static.model import HookRegistration

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

REMOVES = re.compile(r"\.remove(?:\(\)|\b(?!\s*\())")  # called, or handed over to be called
# What torch keeps them in: `_hooks` is what a class calls the list of its handles.
FREES_HOOKS = re.compile(r"(?:forward|backward|pre)_hooks(?:_with_kwargs)?(?:\.(?:clear|pop|popitem)\(|\s*=(?!=))")


def is_called_again(flow: Flow, hook: HookRegistration) -> bool:
    """Whether a trainer calls the method for each epoch or batch, and nothing removes the hooks before the end."""
    owner, define, call = flow.ref.owner, flow.ref.define, hook.site.node
    if owner is None or k.REPEATED_METHOD.match(define.name) is None or hook.method == "register_hook":
        return False  # that of a tensor goes with the tensor
    if any(isinstance(s, t.Return) for s in define.statements) or _is_of_new_module(flow, hook):
        return False
    text = "\n".join(cls.chunk.program for cls in owner.lineage())
    ends = {name for name in re.findall(r"\bdef\s+(\w+)", text) if k.FINAL_METHOD.match(name)}
    if any(re.search(rf"\.{name}\(", text) for name in ends) or FREES_HOOKS.search(text) is not None:
        return False
    kept = kept_in(flow, call)
    if kept is None:
        return call in flow.ref.calls_for_effect and not any(lines_with(".remove()", text))
    allowed = {"__init__", define.name, *ends}
    texts = flow.project.survey.texts_used(f".{kept}", flow.module)
    lines = [line for each in texts for line in lines_with(f".{kept}", each)]
    within = (line.text for line in lines if line.function == define.name)
    return all(line.function in allowed for line in lines) and not any(REMOVES.search(each) for each in within)


def kept_in(flow: Flow, call: object) -> str | None:
    """The attribute of ``self`` that gets the handle: ``self.handles[name] = ...``, ``self.handles.append(...)``."""
    for node in flow.ref.define.nodes:
        place: t.Expr | None = None
        if isinstance(node, t.Assign) and (call is node.value or call in _made_in(node.value)):
            place = node.targets[0]
        elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name in k.ADDING_METHODS:
            place = node.func.value if any(arg.value is call for arg in node.args) else None
        path = re.split(r"[.\[]", (t.path_of(place) or "") if place is not None else "")
        if path[0] == "self" and len(path) > 1:
            return path[1]
    return None


def _made_in(value: t.Expr) -> tuple[t.Expr, ...]:
    return (value.element,) if isinstance(value, t.Comprehension) else ()


def _is_of_new_module(flow: Flow, hook: HookRegistration) -> bool:
    """Whether the method makes or takes anew what it registers the hook on: that dies with it, and its hooks, too."""
    receiver = hook.receiver_site.node if hook.receiver_site is not None else hook.site.node
    nodes = list(t.walk(receiver)) if isinstance(receiver, t.Node) else []
    loops = (s for s in flow.ref.define.statements if isinstance(s, t.Repeat) and s.iterable is not None)
    nodes += [node for loop in loops for node in t.walk(loop.iterable)]
    used = {path for node in nodes if isinstance(node, t.Name | t.Attribute) and (path := t.path_of(node)) is not None}
    return not used.isdisjoint(flow.ref.assigned)

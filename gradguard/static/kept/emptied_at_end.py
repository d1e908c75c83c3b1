"""Collections of an object that only what stands behind the training empties: `writer.flush()` after its last step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Loop, Scope, Store

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def is_emptied_at_end(flow: Flow, store: Store, loop: Loop) -> bool:
    """Whether an object of the function is emptied by its own methods alone, and these are called after a loop alone.

    Args:
        store: puts something into a collection of the object.
        loop: each iteration does.
    """
    head, _, rest = store.path.partition(".")
    if loop.parent is not None or not rest.isidentifier() or not _is_made_here(flow, head, loop):
        return False
    survey = flow.project.survey
    names = survey.emptying(rest, flow.module, store.through | {flow.defined})
    if not names or "<module>" in names or not all(_is_called_after(flow, head, name, loop) for name in names):
        return False
    called = re.compile(rf"[.\"'](?:{'|'.join(sorted(names))})\b")
    return not any(survey.acts(name, called, flow.module, besides=names | {flow.facts.name}) for name in names)


def _is_made_here(flow: Flow, head: str, loop: Loop) -> bool:
    """Whether a variable of the function is bound once, to what a call makes before the loop."""
    if flow.scope(head) is not Scope.LOCAL and flow.facts.name != "<module>":
        return False
    made = flow.ref.assigned.get(head, [])
    return len(made) == 1 and isinstance(made[0], t.Call | t.Display) and all(n is not made[0] for n in loop.nodes)


def _is_called_after(flow: Flow, head: str, name: str, loop: Loop) -> bool:
    """Whether all that mentions a method in the function are calls of the object's behind the loop, in no other one."""
    line = flow.site(loop.site.node).line
    within = [node for stmt in flow.ref.define.statements if isinstance(stmt, t.Repeat) for node in t.walk(stmt)]
    for node in flow.ref.define.nodes:
        if isinstance(node, t.Constant) and node.value == name:
            return False  # getattr(writer, "flush")
        if not isinstance(node, t.Attribute) or node.name != name:
            continue
        if t.path_of(node.value) != head or flow.site(node).line < line or any(node is each for each in within):
            return False
    return True

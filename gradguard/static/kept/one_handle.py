"""Handles that a method puts in each other's place: ``self.handle = layer.register_forward_hook(look)``.

Whatever removes the hook removes the last one only. Where the method runs again before that, the hook of before stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.files.lines import lines_with
from gradguard.static.model import HookRegistration
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_AT_END = ("__exit__", "__del__")


def knowing_handle(flow: Flow, hook: HookRegistration) -> tuple[FunctionRef, ...] | None:
    """The other methods of its class that know the one attribute to which a method binds a handle, and may remove it.

    None where it is kept otherwise, where somebody else may know it, or where nobody does.
    """
    owner, define = flow.ref.owner, flow.ref.define
    made = next((s for s in define.statements if isinstance(s, t.Assign) and s.value is hook.site.node), None)
    path = (t.path_of(made.targets[0]) or "") if made is not None and len(made.targets) == 1 else ""
    name = path.removeprefix("self.")
    if owner is None or path == name or not name.isidentifier() or define.name == "__init__":
        return None
    if _uses(flow.ref, path) != 1 or any(owner.method(end) for end in _AT_END):
        return None
    methods = (method for cls in owner.lineage() for method in cls.methods.values())
    others = (method for method in methods if method.define is not define and method.define.name != "__init__")
    knowing = tuple(method for method in others if _uses(method, path))
    return knowing if knowing and not is_known_outside(flow, owner, name) else None


def is_removed_in_time(flow: Flow, hook: HookRegistration, knowing: tuple[object, ...]) -> bool:
    """Whether one of those methods may run before the next handle takes the place of this one.

    It does not where nothing calls them but the function with the loop, behind it, and what calls that function.

    Args:
        knowing: the methods that may remove the hook of the one handle that there is.
    """
    methods = [method for method in knowing if isinstance(method, FunctionRef)]
    names = {method.define.name for method in methods}
    loop = hook.repeats
    if loop is None:
        return _uses_any(flow.ref.define.nodes, names)
    assert loop.site.node is not None
    if _uses_any(t.walk(loop.site.node), names):
        return True
    survey, above = flow.project.survey, {flow.facts.name}
    if any(survey.is_called_by_many(name, flow.module) for name in names):
        return True
    callers = [
        f for method in methods for f in flow.project.written_calling(method) if _uses_any(f.define.nodes, names)
    ]
    if not callers:
        return any(survey.runs(name, flow.module) for name in names)
    return not all(f.define is flow.ref.define or _uses_any(f.define.nodes, above) for f in callers)


def _uses(ref: FunctionRef, path: str) -> int:
    if path.removeprefix("self.") not in ref.chunk.text:
        return 0
    return sum(isinstance(node, t.Attribute) and t.path_of(node) == path for node in ref.define.nodes)


def is_known_outside(flow: Flow, owner: Class, name: str) -> bool:
    """Whether code besides the methods of the class may remove what it has under a name."""
    survey, of_another = flow.project.survey, re.compile(rf"(?<!\bself)\.{name}\b|['\"]{name}['\"]")
    texts = survey.texts_used(name, flow.module, of_another)
    lines = (line.text for text in texts for line in lines_with(name, text))
    return survey.is_base(owner.name, flow.module) or any(of_another.search(line) is not None for line in lines)


def _uses_any(nodes: Iterable[t.Node], names: set[str]) -> bool:
    """Whether something uses one of some names: it calls them, or hands them over."""
    used = (n.name if isinstance(n, t.Attribute) else n.id for n in nodes if isinstance(n, t.Attribute | t.Name))
    return not names.isdisjoint(used)

"""Contexts that an ``ExitStack`` leaves: what a loop enters on one from outside of it stays till the stack ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import HookRegistration

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_STACKS = ("ExitStack", "AsyncExitStack")
_ENTERING = ("enter_context", "enter_async_context")
_ADDING = (*_ENTERING, "callback", "push")


def entered_on(flow: Flow, context: t.Expr) -> str | None:
    """The variable with the stack of this function that leaves a context: ``stack.enter_context(capture(layer))``."""
    for call in flow.ref.calls:
        if call.name in _ENTERING and call.args and call.args[0].value is context:
            return _stack(flow, call)
    return None


def removing(flow: Flow, removals: list[t.Call]) -> str | None:
    """The one with the stack that does all that removes hooks here: ``stack.callback(handle.remove)``."""
    stacks = {_stack(flow, call) if call.name == "callback" else None for call in removals}
    return stacks.pop() if len(stacks) == 1 else None


def is_left_in_time(hook: HookRegistration) -> bool:
    """Whether the stack that removes a hook may do so in the iteration: it is made there, or used for more."""
    loop = hook.repeats.site.node if hook.repeats is not None else None
    if loop is None:
        return True
    nodes = list(t.walk(loop))
    adding = {
        c.func.value for c in nodes if isinstance(c, t.Call) and isinstance(c.func, t.Attribute) and c.name in _ADDING
    }
    return any(isinstance(node, t.Name) and node.id == hook.stack and node not in adding for node in nodes)


def _stack(flow: Flow, call: t.Call) -> str | None:
    """The variable on whose stack a call puts something, if this function makes that."""
    name = call.func.value if isinstance(call.func, t.Attribute) else None
    if not isinstance(name, t.Name):
        return None
    made: list[tuple[t.Expr, t.Expr]] = []
    for stmt in flow.ref.define.statements:
        if isinstance(stmt, t.With):
            made += [(target, context) for context, target in stmt.items if target is not None]
        elif isinstance(stmt, t.Assign):
            made += [(target, stmt.value) for target in stmt.targets]
    bound = [value for target, value in made if isinstance(target, t.Name) and target.id == name.id]
    is_stack = all(isinstance(value, t.Call) and value.name in _STACKS for value in bound)
    return name.id if bound and is_stack else None

"""Contexts that an ``ExitStack`` leaves: what a loop enters on one from outside of it stays till the stack ends.

So does what a call is given that the stack is to make then: ``stack.callback(write, output)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.one_handle import is_known_outside
from gradguard.static.kept.same_again import binds_anew, loop_of_same
from gradguard.static.mistakes.kept import LeftOnStack
from gradguard.static.model import HookRegistration, Loop
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of
from gradguard.static.program.own_methods import methods_of
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_STACKS = ("ExitStack", "AsyncExitStack")
_ENTERING = ("enter_context", "enter_async_context")
_CLOSING = ("close", "aclose", "pop_all", "__exit__")
_LEVELS = 3
"""Functions that a stack is handed through."""
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


def is_never_left(flow: Flow, call: t.Call) -> bool:
    """Whether a call puts something on a stack of the object that nothing closes: ``self.stack.callback(undo)``."""
    owner, func = flow.ref.owner, call.func
    path = t.path_of(func.value) if isinstance(func, t.Attribute) and func.name in _ADDING else None
    name = (path or "").removeprefix("self.")
    if owner is None or path == name or not name.isidentifier():
        return False
    made = owner.assigned(name)
    if not made or not all(isinstance(value, t.Call) and value.name in _STACKS for _, value in made):
        return False
    if any(_uses_otherwise(method, f"self.{name}") for method in methods_of(owner)):
        return False
    return not is_known_outside(flow, owner, name)


def _uses_otherwise(ref: FunctionRef, path: str) -> bool:
    """Whether a method does anything with a stack but to make it, and to put something on it."""
    known = {call.func.value for call in ref.calls if isinstance(call.func, t.Attribute) and call.name in _ADDING}
    known |= {target for stmt in ref.define.statements if isinstance(stmt, t.Assign) for target in stmt.targets}
    return any(isinstance(n, t.Attribute) and n not in known and t.path_of(n) == path for n in ref.define.nodes)


def is_left_in_time(hook: HookRegistration) -> bool:
    """Whether the stack that removes a hook may do so in the iteration: it is made there, or used for more."""
    loop = hook.repeats.site.node if hook.repeats is not None else None
    return loop is None or (hook.stack is not None and _is_used_for_more(loop, hook.stack))


def _is_used_for_more(body: object, stack: str) -> bool:
    """Whether some statements make a stack, leave it, or hand it on."""
    nodes = list(t.walk(body))
    adding = {
        c.func.value for c in nodes if isinstance(c, t.Call) and isinstance(c.func, t.Attribute) and c.name in _ADDING
    }
    return any(isinstance(node, t.Name) and node.id == stack and node not in adding for node in nodes)


def _stack(flow: Flow, call: t.Call) -> str | None:
    """The variable on whose stack a call puts something, if this function makes that."""
    name = _receiver(call)
    return name.id if isinstance(name, t.Name) and _makes_stack(flow, name) else None


def _receiver(call: t.Call) -> t.Expr | None:
    return call.func.value if isinstance(call.func, t.Attribute) else None


def _makes_stack(flow: Flow, name: t.Name) -> bool:
    made: list[tuple[t.Expr, t.Expr]] = []
    for stmt in flow.ref.define.statements:
        if isinstance(stmt, t.With):
            made += [(target, context) for context, target in stmt.items if target is not None]
        elif isinstance(stmt, t.Assign):
            made += [(target, stmt.value) for target in stmt.targets]
    bound = [value for target, value in made if isinstance(target, t.Name) and target.id == name.id]
    return bool(bound) and all(isinstance(value, t.Call) and value.name in _STACKS for value in bound)


def left_on_stacks(flow: Flow) -> Iterator[LeftOnStack]:
    """The calls that leave a tensor with a stack in each iteration of a loop within its block."""
    for call in flow.ref.calls:
        if call.name not in _ADDING or not call.args:
            continue
        tensor = next((arg for arg in _kept(flow, call) if _is_tensor(flow, arg)), None)
        stack = (_stack(flow, call) or _given_stack(flow, _receiver(call))) if tensor is not None else None
        loop = loop_of_same(flow, call, (stack,)) if stack is not None else None
        if loop is None or tensor is None or not _is_of_all_steps(loop, stack or ""):
            continue
        if not _is_used_for_more(_round(flow, loop), stack or "") and not _closes(loop):
            yield LeftOnStack(flow.site(call), stack or "", flow.site(tensor))


def _closes(loop: Loop) -> bool:
    """Whether a loop in a caller empties some stack, by whatever name: ``scope.close()``."""
    return any(isinstance(node, t.Attribute) and node.name in _CLOSING for node in loop.nodes)


def _is_of_all_steps(loop: Loop, stack: str) -> bool:
    """Whether a stack lasts for more than the batches of one epoch."""
    around = list(loop.around())
    return not any(binds_anew(each, stack) for each in around) and (len(around) > 1 or not loop.over_loader)


def _given_stack(flow: Flow, expr: t.Expr | None, levels: int = _LEVELS) -> str | None:
    """A parameter that is declared as a stack, or for which every call gives one (reads other files)."""
    name = expr.id if isinstance(expr, t.Name) else None
    params = {param.name: param.annotation for param in flow.ref.define.params if not param.star}
    if name is None or name not in params or name in flow.ref.assigned:
        return None
    hint = params[name]
    if hint is not None:
        return name if (t.path_of(hint) or "").endswith(_STACKS) else None
    given = [(caller, flow.ref.given_by(each).get(name)) for caller, each in calls_of(flow)] if levels else []
    return name if given and all(_is_stack(caller, value, levels - 1) for caller, value in given) else None


def _is_stack(flow: Flow, value: t.Expr | None, levels: int) -> bool:
    """Whether a variable has a stack that the function makes, or is given."""
    return isinstance(value, t.Name) and (_makes_stack(flow, value) or _given_stack(flow, value, levels) is not None)


def _round(flow: Flow, loop: Loop) -> object:
    """What runs in each iteration: of the loop itself, or of the function that a loop elsewhere calls."""
    return loop.site.node if any(loop is each for each in flow.facts.loops) else flow.ref.define.body


def _kept(flow: Flow, call: t.Call) -> Iterator[t.Expr]:
    """What a stack keeps of what it is given; a lambda sees its variables as they are when it runs."""
    args = [arg.value for arg in call.args]
    if call.name == "callback":
        yield from args
    made = args[0]
    if not isinstance(made, t.Call):
        return
    if flow.module.value_of(made.func).ref == "functools.partial":
        yield from (arg.value for arg in made.args[1:])
    elif call.name in _ENTERING:
        yield from _kept_by_context(flow, made)


def _kept_by_context(flow: Flow, made: t.Call) -> Iterator[t.Expr]:
    """What a context is given, and has until it is left: in an attribute of its object, or its generator's frame."""
    called = flow.module.value_of(made.func).ref
    if isinstance(called, FunctionRef) and called.define.is_generator:
        names = {param.name for param in called.define.params}
        yield from (value for name, value in called.given_by(made).items() if name in names - called.names[0])
    init = called.method("__init__") if isinstance(called, Class) else None
    if init is None or not isinstance(called, Class) or called.method("__exit__") is None:
        return
    for name, value in init.given_by(made).items():
        kept = init.kept_as(name)
        if kept is not None and len(called.assigned(kept.removeprefix("self."))) == 1:
            yield value


def _is_tensor(flow: Flow, value: t.Expr) -> bool:
    """Whether a variable has a tensor, or what a module gave; what is computed of one in the call is one too."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in _KEEPING:
        value = value.func.value
    path = t.path_of(value) if isinstance(value, t.Name | t.Attribute) else None
    return path is not None and flow.read(flow.canonical(path), flow.final).kind in (Kind.TENSOR, Kind.OUTPUT)


_KEEPING = frozenset("detach clone cpu cuda to float half contiguous".split())

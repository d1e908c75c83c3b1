"""Copies of a model that one task needs: what a backward leaves in their gradients goes with them, or never does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.model import Backward, Loop, ZeroGrad
from gradguard.static.program.functions_called import functions_called
from gradguard.static.reading.roots import node_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef

LEVELS = 3
"""Functions that are followed, one called by the other, to the loop that calls the last."""


def is_of_a_copy(flow: Flow, backward: Backward) -> bool:
    """Whether the graph is that of a model that is copied for it, ``probe = copy.deepcopy(net).eval()``.

    By this call, or where it runs in a loop, by an iteration of that or of one around it.
    """
    ran = modules_run(flow, backward)
    copied = {path for stmt in _copies(flow, backward.loop) for path in map(t.path_of, stmt.targets)}
    if ran and not ran <= copied:
        copied |= set(_copied_by_others(flow, backward.loop, ran - copied))
    return bool(ran) and ran <= copied and not _is_reset_by_callers(flow, ran)


def _is_reset_by_callers(flow: Flow, names: set[str | None]) -> bool:
    """Whether a function returns a copy, by itself or among others, to one that resets the gradients of that."""
    given = {t.path_of(single) for value in _returned(flow.ref.define) for single in t.names_in(value)}
    if names.isdisjoint(given):
        return False
    return any(_resets_what(caller.define, flow.facts.name) for caller in flow.project.written_calling(flow.ref))


def _resets_what(define: t.Define, function: str) -> bool:
    """Whether a function resets the gradients of what another one gives it: ``fast, loss = adapt(net, x)``."""
    got = (s for s in define.statements if isinstance(s, t.Assign) and _calls(s.value, function))
    names = {t.path_of(name) for stmt in got for target in stmt.targets for name in t.names_in(target)}
    reset = {node.value for node in define.nodes if isinstance(node, t.Attribute) and node.name == "zero_grad"}
    return any(map(_drops_gradients, define.statements)) or not names.isdisjoint(map(t.path_of, reset))


def left_on(flow: Flow, backward: Backward) -> str | None:
    """The parameter, a model, whose gradients have their graphs when the call ends: resets come before the last one.

    Or a function that computes the loss: ``closure().backward(create_graph=True)``.
    """
    ran = modules_run(flow, backward) or _asked(backward) or {path for path in flow.params if path in flow.modules}
    path = ran.pop() if len(ran) == 1 else None
    if path is None or path not in flow.params or path == "self" or resets_after(flow, backward, {path}):
        return None
    return path if not any(flow.facts.calls_of(k.SETTING_GRADIENTS)) else None


def is_made_for(flow: Flow, given: t.Expr | None) -> bool:
    """Whether what a call is given is a copy for it alone, or runs one: ``adapt(copy.deepcopy(net))``."""
    copied = {t.path_of(target) for stmt in _copies(flow, flow.loop) for target in stmt.targets}
    if given is None or (isinstance(given, t.Name) and given.id in copied):
        return given is not None
    inside = _inside(flow, given)
    return any(name in copied for name in _run_in(inside)) if inside else _copies_a_model(given)


def _inside(flow: Flow, given: t.Expr) -> list[t.Node]:
    """What is written in a function that is handed over: a lambda, or one that is defined here."""
    if isinstance(given, t.Lambda):
        return list(t.walk(given.body))
    defined = [ref.define for ref in flow.nested if isinstance(given, t.Name) and ref.define.name == given.id]
    return [node for define in defined for node in define.nodes]


def _run_in(nodes: list[t.Node]) -> Iterator[str]:
    """The names of the modules that some code calls: ``net(x)``, ``net.loss(x)``."""
    paths = (t.path_of(node.func) for node in nodes if isinstance(node, t.Call))
    return (path.split(".", 1)[0] for path in paths if path is not None)


def leaves_a_copy(flow: Flow, backward: Backward) -> bool:
    """Whether this call, again and again, leaves a copy of a model behind that its own gradients keep alive."""
    again = backward.loop is not None or flow.facts.name not in ("main", "<module>", "__init__")
    return backward.of_copy and again and not resets_after(flow, backward, _names_of_copy(flow, backward))


def keeps_copy_here(flow: Flow, backward: Backward) -> bool:
    """Whether a call is given a copy that is made here and not returned: no caller can reset its gradients."""
    returned = {t.path_of(single) for value in _returned(flow.ref.define) for single in t.names_in(value)}
    return backward.of_copy and _names_of_copy(flow, backward).isdisjoint(returned)


def leaves_a_model(flow: Flow, backward: Backward) -> bool:
    """Whether a function makes a model of its own, and leaves it with its last gradients, once for each of many folds.

    The model goes nowhere else, but to callers that run it and neither reset it nor hand it on.
    """
    ran = modules_run(flow, backward)
    name = ran.pop() if len(ran) == 1 else None
    if backward.inner is not None or name is None or not _is_made_here(flow, name, backward):
        return False
    if resets_after(flow, backward, {name}) or any(flow.facts.calls_of(k.SETTING_GRADIENTS)):
        return False
    return stays_here(flow.ref.define, name) and is_called_in_loop(flow.ref, LEVELS) and _is_left_by_callers(flow, name)


def _is_made_here(flow: Flow, name: str, backward: Backward) -> bool:
    """Whether a function binds a local name to what a call makes, once, and before the loop that trains it."""
    around = set(backward.loop.around()) if backward.loop is not None else set()
    bound = [s for s in flow.ref.define.statements if isinstance(s, t.Assign) and name in map(t.path_of, s.targets)]
    is_before = all(stmt not in loop.nodes for stmt in bound for loop in around)
    is_own = name in flow.locals and name not in flow.params and name not in flow.declared
    return bool(around) and is_own and is_before and len(bound) == 1 and isinstance(bound[0].value, t.Call)


def stays_here(define: t.Define, name: str) -> bool:
    """Whether a function only calls what it has by a name, and its methods, or returns it: it does not hand it on."""
    calls = list(define.all(t.Call))
    called = {call.func for call in calls}
    called |= {call.args[0].value for call in calls if call.name == "functional_call" and call.args}
    read = {node.value for node in define.all(t.Attribute)}
    bound = {to for stmt in define.statements if isinstance(stmt, t.Assign) for to in stmt.targets}
    given_back = set(_returned(define))
    uses = (node for node in define.all(t.Name) if node.id == name)
    return all(node in called or node in read or node in bound or node in given_back for node in uses)


def _returned(define: t.Define) -> Iterator[t.Expr]:
    return (stmt.value for stmt in define.statements if isinstance(stmt, t.Return) and stmt.value is not None)


def _is_left_by_callers(flow: Flow, name: str) -> bool:
    """Whether nobody resets the gradients of a model that a function returns, or hands it on."""
    if name not in map(t.path_of, _returned(flow.ref.define)):
        return True
    return all(_leaves(caller.define, flow.facts.name) for caller in flow.project.written_calling(flow.ref))


def _leaves(define: t.Define, function: str) -> bool:
    """Whether a function has by a name what another one returns, and only runs it."""
    got = [s for s in define.statements if isinstance(s, t.Assign) and _calls(s.value, function)]
    names = [t.path_of(target) for stmt in got for target in stmt.targets]
    calls = sum(_calls(node, function) for node in define.nodes)
    resets = (f"{name}.zero_grad" for name in names)
    reset = {t.path_of(node) for node in define.all(t.Attribute)}.intersection(resets)
    dropped = any(map(_drops_gradients, define.statements))
    left = (name is not None and name.isidentifier() and stays_here(define, name) for name in names)
    returned = set(map(t.path_of, _returned(define)))
    return calls == len(names) and not reset and not dropped and all(left) and returned.isdisjoint(names)


def _drops_gradients(stmt: t.Stmt) -> bool:
    """``p.grad = None``."""
    targets = stmt.targets if isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Constant) else []
    return any(isinstance(target, t.Attribute) and target.name == "grad" for target in targets)


def _calls(node: object, function: str) -> bool:
    return isinstance(node, t.Call) and node.name == function


def is_called_in_loop(ref: FunctionRef, levels: int = 1) -> bool:
    """Whether a function of the program calls this one in a loop; of more levels, or one that a loop calls does."""
    callers = [caller for caller in ref.module.project.written_calling(ref) if caller.define is not ref.define]
    if any(_calls_in_loop(caller.define, ref.define.name) for caller in callers):
        return True
    inner = (caller for caller in callers if caller.define.name not in ("__init__", "<module>"))
    return levels > 1 and any(is_called_in_loop(caller, levels - 1) for caller in inner)


def _calls_in_loop(define: t.Define, function: str) -> bool:
    loops = (node for node in define.nodes if isinstance(node, t.Repeat | t.Comprehension))
    return any(_calls(node, function) for loop in loops for node in t.walk(loop))


def _names_of_copy(flow: Flow, backward: Backward) -> set[str]:
    """What the function calls the model that it gives to a call, or gets back from it."""
    call = backward.site.node
    args = [arg.value for arg in call.args] if isinstance(call, t.Call) else []
    given = {arg.id for arg in args if isinstance(arg, t.Name)}
    given |= {name for arg in args for name in _run_in(_inside(flow, arg))}
    bound = (s for s in flow.ref.define.statements if isinstance(s, t.Assign) and s.value is call)
    names = (t.path_of(name) for stmt in bound for target in stmt.targets for name in t.names_in(target))
    return given | {name for name in names if name is not None}


def resets_after(flow: Flow, backward: Backward, names: set[str]) -> bool:
    """Whether the gradients of a model are reset after a backward, as far as can be seen."""
    order = flow.facts.events.index(backward)
    later = (reset for reset in flow.facts.zero_grads if flow.facts.events.index(reset) > order)
    return any(reset.site.node is not backward.site.node and _may_concern(reset, names) for reset in later)


def _may_concern(reset: ZeroGrad, names: set[str]) -> bool:
    if reset.target is not None:
        return reset.target in names or not (reset.of_module or (reset.of and reset.of.isdisjoint(names)))
    around = reset.loop.site.node if reset.loop is not None and reset.inner is None else None
    over = list(t.walk(around.iterable)) if isinstance(around, t.Repeat) and around.iterable is not None else []
    funcs = [node.func for node in over if isinstance(node, t.Call) and isinstance(node.func, t.Attribute)]
    owners = {t.path_of(func.value) for func in funcs if func.name in ("parameters", "named_parameters")}
    return not owners or not owners.isdisjoint(names)  # for p in net.parameters(): p.grad = None


def modules_run(flow: Flow, backward: Backward) -> set[str | None]:
    """The modules that the graph goes through, by the calls in this function that it began at; not their parts."""
    nodes = {node_of(root.key) for root in backward.value.roots}
    ran = {forward.module for forward in flow.facts.forwards if forward.site.node in nodes}
    return {path for path in ran if not any(path and whole and path.startswith(f"{whole}.") for whole in ran)}


def _asked(backward: Backward) -> set[str | None]:
    """The functions that gave the loss, each by a name."""
    calls = [node_of(root.key) for root in backward.value.reach]
    return {call.func.id for call in calls if isinstance(call, t.Call) and isinstance(call.func, t.Name)}


def _copies(flow: Flow, loop: Loop | None) -> Iterator[t.Assign]:
    """The statements that bind a copy of something, in this loop or one around it; in the function outside of loops."""
    return (stmt for stmt in _assigned_near(flow, loop) if _copies_a_model(stmt.value))


def _assigned_near(flow: Flow, loop: Loop | None) -> Iterator[t.Assign]:
    around = list(loop.around()) if loop is not None else []
    for stmt in flow.ref.define.statements:
        is_near = not around or any(stmt in each.nodes for each in around)
        if is_near and isinstance(stmt, t.Assign):
            yield stmt


def _copied_by_others(flow: Flow, loop: Loop | None, names: set[str | None]) -> Iterator[str]:
    """Those of some names that are bound to the copy that another function makes: ``fast = self.clone()``."""
    for stmt in _assigned_near(flow, loop):
        bound = names.intersection(map(t.path_of, stmt.targets))
        if bound and isinstance(stmt.value, t.Call) and any(map(_gives_copy, functions_called(flow, stmt.value))):
            yield from (name for name in bound if name is not None)


def _gives_copy(ref: FunctionRef) -> bool:
    """Whether a function returns a copy that each call of it makes, and nothing else."""
    given = list(ref.given_back())
    return bool(given) and not ref.define.decorators and all(map(_is_copy, given))


def _is_copy(value: t.Expr) -> bool:
    """``copy.deepcopy(net)``, ``copy.deepcopy(net).to(device).train()``."""
    while isinstance(value, t.Call):
        if value.name == "deepcopy":
            return True
        value = value.func.value if isinstance(value.func, t.Attribute) else value.func
    return False


def _copies_a_model(value: t.Expr) -> bool:
    calls = (node for node in t.walk(value) if isinstance(node, t.Call))
    return any((t.path_of(call.func) or "").endswith("deepcopy") for call in calls)

"""Hooks: which pile up, and what they keep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.callback_hooks import FREES_HOOKS, REMOVES, is_called_again
from gradguard.static.classes import Class
from gradguard.static.exit_stacks import is_left_in_time, removing
from gradguard.static.functions import FunctionRef
from gradguard.static.gate import SourceError
from gradguard.static.guards import guards, loop_names
from gradguard.static.lines import lines_with
from gradguard.static.memory import makes_optimizer
from gradguard.static.model import Form, HookRegistration, Mode, Scope, Store
from gradguard.static.one_handle import is_removed_in_time, knowing_handle
from gradguard.static.paths import is_part
from gradguard.static.probes import last_removal, removes, runs_in_training
from gradguard.static.read_again import is_read_again
from gradguard.static.roots import graphs
from gradguard.static.values import Held, Kind, Root, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Project


_ASKS = re.compile(r"\bbackward\(|\bgrad\(|LightningModule|\bTrainer\b")
_SWITCHES_OFF = re.compile(r"\bno_grad\b|\binference_mode\b|set_grad_enabled\(\s*(?:mode\s*=\s*)?False")
_CALLS = 2
"""Methods between one that removes hooks and the function with the loop."""

_EMPTYING = ("clear", "pop", "popleft", "popitem")


def judge_hook(flow: Flow, hook: HookRegistration) -> None:
    source = hook.source
    hook.overwritten = hook.inner is None and (_is_overwritten(flow, hook) or _is_lost(flow, hook))
    hook.discarded = hook.discarded or hook.overwritten
    if hook.inner is None and not hook.discarded:
        hook.knowing = knowing_handle(flow, hook)
    if hook.inner is None and not hook.removed:
        hook.stack = removing(flow, [call for call in flow.ref.calls if removes(call)])
    if isinstance(source, HookRegistration):
        _judge_removal(flow, hook, source)
    _judge_guards(flow, hook)
    if hook.callback is not None and hook.inner is None:
        for store in _kept(flow, hook):
            (hook.kept if _has_graph(hook, store) else hook.kept_plain).append(store)
            _note_readers(flow, store)
        hook.kept_by_probe = lambda: _kept_by_probe(flow, hook)
        closes_over = _closes_over(flow, hook)
        hook.closes_over = closes_over if _has_history(hook.of) else None
        hook.closes_over_given = closes_over if closes_over in flow.params and hook.receiver in flow.params else None
        hook.gives_back = hook.discarded and flow.ref.gives_back == hook.receiver
    elif isinstance(source, HookRegistration) and _has_history(hook.of):
        hook.closes_over = source.closes_over_given
    if not hook.fresh and hook.receiver is not None:
        _judge_repetition(flow, hook)
    if isinstance(source, HookRegistration) and source.knowing is not None:
        hook.removed = hook.removed or is_removed_in_time(flow, hook, source.knowing)
    if hook.stack is not None:
        hook.removed = is_left_in_time(hook) or _frees(flow)


def _frees(flow: Flow) -> bool:
    """Whether something in the file drops all hooks: ``net._forward_hooks.clear()``."""
    return FREES_HOOKS.search(flow.module.source.text) is not None


def _judge_removal(flow: Flow, hook: HookRegistration, source: HookRegistration) -> None:
    """Whether anything may remove it in time."""
    may_be = not source.discarded and not hook.is_left_open and source.knowing is None
    hook.removed_late = hook.removed_late or (hook.inner is None and _is_removed_late(flow))
    is_open = hook.removed_late and last_removal(flow) == float("inf")
    if is_open and hook.inner is not None and hook.loop is not None:
        is_open = makes_optimizer(flow)  # else the loop may be that of an epoch, or a task, and is over soon
    hook.removed = hook.removed or (may_be and not is_open and _is_removed(flow, hook))
    hook.removed_at_exit = hook.removed_at_exit or (hook.removed and not _is_removed(flow, hook, at_exit=False))
    hook.removed |= _frees(flow)


def _judge_repetition(flow: Flow, hook: HookRegistration) -> None:
    """The loop in which one receiver gets one more hook each time."""
    hook.by_call = hook.inner is None and is_called_again(flow, hook)
    call = hook.site.node
    receiver = call.func.value if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) else None
    names = (
        {n.id for n in t.walk(receiver) if isinstance(n, t.Name)}
        if receiver is not None and hook.inner is None
        else set()
    )
    names.add((hook.receiver or "").split(".", 1)[0].split("[", 1)[0])
    loop = hook.loop
    while loop is not None:
        node = loop.site.node
        assert isinstance(node, t.Repeat)
        if names & loop.targets:
            names = {n.id for n in t.walk(node.iterable) if isinstance(n, t.Name)}
        elif any(is_part(hook.receiver or "", path) for path in node.assigned or ()):
            return
        elif (loop.forwards and flow.facts.name != "__init__") or loop.backwards or loop.over_loader:
            hook.repeats = loop
            return
        loop = loop.parent


def _judge_guards(flow: Flow, hook: HookRegistration) -> None:
    """Whether the conditions on the way to a registration hold once, or only choose among modules."""
    body = flow.ref.define.body
    conditions = list(guards(body, hook.site.node))
    hook.first_time = hook.first_time or any(guard.holds_once(hook.changes) for guard in conditions)
    if hook.inner is None:
        targets = loop_names(body, hook.site.node)
        hook.chooses = bool(conditions) and all(guard.asks_for(targets) for guard in conditions)


def _has_history(value: Value) -> bool:
    """Whether a tensor was computed from what has a graph, here or in what was called; a leaf was not."""
    is_leaf = any(root.source is Source.LEAF for root in value.roots)
    is_computed = any(root.source is Source.GRAPH for root in value.roots) and value.kind in (Kind.TENSOR, Kind.OUTPUT)
    return value.is_operation_result or (is_computed and not is_leaf)


def _is_overwritten(flow: Flow, hook: HookRegistration) -> bool:
    """Whether the next handle takes the place of this one: two lines that assign to ``self.handles[name]``."""
    define = flow.ref.define
    blocks = [define.body, *(s.body for s in define.statements if isinstance(s, t.Repeat | t.If | t.With))]
    for block in blocks:
        for (first, one), (second, other) in pairwise(_registrations(block)):
            if one.value is hook.site.node:
                codes = {flow.site(target).code for target in other.targets}
                places = [target for target in one.targets if flow.site(target).code in codes]
                return bool(places) and not _is_used(flow, places, other.targets, block[first : second + 1])
    return False


def _registrations(block: list[t.Stmt]) -> Iterator[tuple[int, t.Assign]]:
    """The statements of a block that bind handles, also those that a flag switches on, each with its place there."""
    for index, stmt in enumerate(block):
        is_flag = isinstance(stmt, t.If) and isinstance(stmt.test, t.Name | t.Attribute) and not t.leaves(stmt.body)
        for each in stmt.body if isinstance(stmt, t.If) and is_flag else [stmt]:
            if isinstance(each, t.Assign) and _registers(each.value):
                yield index, each


def _is_used(flow: Flow, places: list[t.Expr], bound_next: list[t.Expr], block: list[t.Stmt]) -> bool:
    """Whether statements use what is at one of some places: it may be kept elsewhere, ``handles.append(handle)``."""
    codes, types = {flow.site(place).code for place in places}, tuple({type(place) for place in places})
    bound = (*places, *bound_next)
    nodes = (node for node in t.walk(block) if isinstance(node, types) and node not in bound)
    return any(flow.site(node).code in codes for node in nodes)


def _is_lost(flow: Flow, hook: HookRegistration) -> bool:
    """Whether only the last of several handles is left: a loop over layers binds each to the same name, and no more.

    Or to the same attribute: ``self.handle = layer.register_forward_hook(save)``.
    """
    for loop in flow.ref.define.statements:
        body = loop.body if isinstance(loop, t.Repeat) else []
        made = next((s for s in body if isinstance(s, t.Assign) and s.value is hook.site.node), None)
        name = made.targets[0] if made is not None and len(made.targets) == 1 else None
        path = t.path_of(name) if isinstance(name, t.Name | t.Attribute) else None
        if path is not None and not any(isinstance(s, t.Leave | t.Return) for s in t.walk_statements(body)):
            uses = [n for n in t.walk(body) if isinstance(n, t.Name | t.Attribute) and t.path_of(n) == path]
            return len(uses) == 1
    return False


def _registers(value: t.Expr) -> bool:
    func = value.func if isinstance(value, t.Call) else None
    return isinstance(func, t.Attribute) and func.name in k.HOOK_METHODS


def _is_removed(flow: Flow, hook: HookRegistration, at_exit: bool = True) -> bool:
    """Whether anything may remove a hook; of one that a constructor registers, a method that somebody calls.

    Args:
        at_exit: what a context does at its end counts, where some object of its class is used as one.
    """
    text, survey = flow.module.source.text, flow.project.survey
    removes = REMOVES.search(text) is not None
    if not removes or last_removal(flow) != float("inf"):
        return removes
    if hook.inner is None and flow.facts.name != "__init__":
        return True
    removers = _removers(flow)
    if removers & {"<module>", "__del__", flow.facts.name}:
        return True
    at_exit = at_exit and any(survey.is_entered(name, flow.module) for name in _contexts(flow))
    return any(survey.runs(name, flow.module, at_exit) for name in removers)


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
    attributes = (node for node in define.nodes if isinstance(node, t.Attribute))
    read = {node.value for node in attributes if not _may_close(cls, node.name)}
    uses = (node for node in define.nodes if isinstance(node, t.Name) and node.id == target.id)
    return all(node is target or node in read for node in uses)


def _may_close(cls: Class, name: str) -> bool:
    """Whether what an object has under a name is a method, or has handles of its hooks."""
    registers = re.compile(rf"self\.{name}\b[^\n]*\.register_\w*hook")
    return cls.method(name) is not None or registers.search(cls.chunk.program) is not None


def _contexts(flow: Flow) -> set[str]:
    """The classes of the file whose objects are contexts."""
    return {unit.owner for unit in flow.module.source.outline.units if unit.owner and unit.name == "__exit__"}


# --- what a hook keeps ------------------------------------------------------------------------------------------


def _is_made_for(flow: Flow, hook: HookRegistration, callback: FunctionRef) -> bool:
    """``x.register_hook(make_hook(x))``, where the hook refers to what its maker was given."""
    call = hook.site.node
    made = call.args[0].value if isinstance(call, t.Call) and call.args else None
    if not isinstance(made, t.Call) or callback.outer is None or callback.outer is flow:
        return False
    params = [name for name in callback.outer.params if name not in ("self", "cls")]
    given = [name for name, arg in zip(params, made.args) if t.path_of(arg.value) == hook.receiver and not arg.keyword]
    given += [str(arg.keyword) for arg in made.args if arg.keyword and t.path_of(arg.value) == hook.receiver]
    used = {n.id for n in callback.define.nodes if isinstance(n, t.Name)} - callback.names[0]
    return not used.isdisjoint(given)


def _note_readers(flow: Flow, store: Store) -> None:
    """Tell where a backward of the program may need what a hook keeps: a loss is computed of it."""
    store.is_read_again = lambda: flow.project.survey.mentions(_ASKS, flow.module) and is_read_again(flow, store)


def _kept(flow: Flow, hook: HookRegistration, probes: bool = False) -> Iterator[Store]:
    """The stores by which a hook collects what it is given, from one forward or backward to the next."""
    callback = _flow_of(flow, hook)
    if callback is None or callback.facts.entry_mode is Mode.OFF:
        return
    given = _tensors_given(hook, callback)
    for store in callback.facts.stores:
        path = _path_here(hook, callback, store)
        if store.form is not Form.APPEND or path is None:
            continue
        keeps_graph = _has_graph(hook, store) and store.mode is not Mode.OFF and _is_given(store.value, given)
        trains = not keeps_graph and _is_kept_whole(hook, store.value, given)
        if (keeps_graph or trains) and _collects(flow, hook, callback, store, path, trains=trains, probes=probes):
            yield store


def _kept_by_probe(flow: Flow, hook: HookRegistration) -> tuple[list[Store], list[Store]]:
    """The stores by which it does so while somebody else trains what it is registered on: with a graph, and without."""
    known = (*hook.kept, *hook.kept_plain)
    found = [store for store in _kept(flow, hook, probes=True) if store not in known]
    found = found if found and runs_in_training(flow, hook) else []
    with_graph = [store for store in found if _has_graph(hook, store)]
    return with_graph, [store for store in found if store not in with_graph]


def _has_graph(hook: HookRegistration, store: Store) -> bool:
    """Whether a hook keeps a graph: what a backward hook is given has none."""
    return "forward" in hook.method and bool(graphs(store.value.roots))


def _is_given(value: Value, given: set[str]) -> bool:
    return any(root.source is Source.PARAM and root.base in given for root in graphs(value.roots))


def _is_kept_whole(hook: HookRegistration, value: Value, given: set[str]) -> bool:
    """Whether the memory of what a hook is given is kept: a gradient, or a detached output."""
    if "forward" not in hook.method:
        return value.kind is Kind.UNKNOWN and _is_given(value, given)
    roots = (held.key for held in value.holding(Held.GIVEN))
    return any(isinstance(root, Root) and root.base in given for root in roots)


def _tensors_given(hook: HookRegistration, callback: Flow) -> set[str]:
    """The parameters of a hook that are given tensors: not the module, which comes before them."""
    call = hook.site.node
    with_keywords = isinstance(call, t.Call) and call.is_true("with_kwargs")
    count = (1 if "pre_hook" in hook.method or hook.method == "register_hook" else 2) + with_keywords
    own = {param.name for param in callback.ref.define.params if param.default is not None}  # lambda g, name=name: ...
    return set([name for name in callback.params if name not in own][-count:])


def _flow_of(flow: Flow, hook: HookRegistration) -> Flow | None:
    try:
        return flow.project.flow(hook.callback) if isinstance(hook.callback, FunctionRef) else None
    except SourceError:
        return None


def _path_here(hook: HookRegistration, callback: Flow, store: Store) -> str | None:
    """What a hook stores into, as the function that registers it calls it."""
    head = store.path.split(".", 1)[0].split("[", 1)[0]
    if callback.scope(store.path) is Scope.LOCAL:
        return None
    if head not in callback.params or head == "self":
        return _place_of(callback, head) or store.path
    position = callback.params.index(head)
    bound = hook.bound[position] if position < len(hook.bound) else None
    return bound + store.path[len(head) :] if bound is not None else None


def _place_of(callback: Flow, name: str) -> str | None:
    """Where the object keeps a collection that a hook's maker has by a name of its own.

    ``rows = self.seen.setdefault(layer, [])``, ``rows = self.seen[layer]``, ``self.seen[layer] = rows = []``.
    """
    maker = callback.ref.outer
    if maker is None or name in maker.params or name not in maker.locals:
        return None
    aliased = maker.canonical(name)
    if aliased.startswith("self."):
        return aliased
    for stmt in maker.ref.define.statements:
        if isinstance(stmt, t.Assign):
            paths = [t.path_of(target) or "" for target in stmt.targets]
            kept = [path for path in paths if path.startswith("self.")]
            value = t.path_of(stmt.value) or ""
            if kept and (name == value or name in paths):
                return kept[0]
            if name in paths and value.startswith("self."):
                return value
    return None


def _collects(
    flow: Flow, hook: HookRegistration, callback: Flow, store: Store, path: str, *, trains: bool, probes: bool
) -> bool:
    """Whether nothing empties what a hook adds to, while the module runs again and again.

    Args:
        trains: only a loop that trains counts; what runs over a data set once may collect what it wants.
        probes: it is known that some loop that trains runs what the hook is registered on.
    """
    holder = callback.final.env.get(store.path)
    if (holder is not None and holder.bounded) or store.path in callback.emptied:
        return False
    if path.startswith("self."):
        if trains and "forward" in hook.method and not probes:
            return False
        attribute = path.split("[", 1)[0].rsplit(".", 1)[-1]
        is_context = flow.ref.owner is not None and flow.ref.owner.method("__exit__") is not None
        if hook.removed and is_context and not probes:
            return False
        if REMOVES.search(flow.module.source.text) and _is_removed_in_time(flow, at_exit=not (probes and is_context)):
            return False
        if _frees(flow) or not (trains or _may_record(flow)):
            return False
        functions = {callback.defined}
        if (hook.receiver or "").split(".", 1)[0] == "self":  # it stays, and what is made anew beside it is so once
            functions |= {flow.defined, (callback.ref.outer or flow).defined}
        return all(_runs_late(flow, name) for name in flow.project.survey.emptying(attribute, flow.module, functions))
    if flow.scope(path) not in (Scope.LOCAL, Scope.GLOBAL):
        return False
    outer = flow.final.env.get(path)
    if (outer is not None and outer.bounded) or path in flow.emptied:
        return False
    if hook.discarded and not flow.facts.forwards and flow.scope(path) is Scope.LOCAL and not trains:
        return not _emptied_inside(flow, path)  # set up here, and run by others for as long as the module lives
    removed = last_removal(flow)
    loops = (loop for loop in flow.facts.loops if path not in loop.assigned and loop.site.line <= removed)
    if any(loop.backwards if trains else f.mode is not Mode.OFF for loop in loops for f in loop.forwards):
        return True
    if not probes or flow.scope(path) is not Scope.GLOBAL:
        return False
    name = path.split(".", 1)[0].split("[", 1)[0]
    return not flow.project.survey.empties(name, flow.module, {callback.defined}, bare=True)


def _may_record(flow: Flow) -> bool:
    """Whether forwards may record graphs: a program that asks for no gradient, and has ``no_grad``, runs under it."""
    survey = flow.project.survey
    return survey.mentions(_ASKS, flow.module) or not survey.mentions(_SWITCHES_OFF, flow.module)


def _removers(flow: Flow) -> set[str]:
    """The functions of the file that remove hooks."""
    return {line.function for line in lines_with("remove", flow.module.source.text) if REMOVES.search(line.text)}


def _is_removed_in_time(flow: Flow, at_exit: bool) -> bool:
    """Whether a hook may be removed before much was collected: not where that is done once, after a loop, or never.

    Args:
        at_exit: what a context does at its end counts.
    """
    removers = _removers(flow) - (set() if at_exit else {"__exit__"})
    return any(_runs_late(flow, name) is False for name in removers)


def _is_removed_late(flow: Flow) -> bool:
    """Whether all methods that remove hooks are called after a loop only: each of its steps leaves its own there."""
    removers = _removers(flow)
    return bool(removers) and all(_runs_late(flow, name) for name in removers)


def _runs_late(flow: Flow, name: str) -> bool | None:
    """Whether a method of the object is called after a loop only, by whoever calls it; None if nobody does."""
    owner = flow.ref.owner
    method = owner.methods.get(name) if owner is not None else None
    if method is None or name.startswith("__") or name == flow.facts.name:
        return False
    return _is_called_late(flow.project, method, _CALLS)


def _is_called_late(project: Project, method: FunctionRef, levels: int) -> bool | None:
    """Whether all that call a method do so after a loop of theirs, or are called so themselves; None if nobody does."""
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
        if any(_backpropagates(call) and id(call) not in inside for call in function.calls):
            loops = []  # it is one step, and they go over parts of it
        if not loops and not (levels and function.owner and _is_called_late(project, function, levels - 1)):
            return False
    return is_called


def _backpropagates(call: t.Call) -> bool:
    return isinstance(call.func, t.Attribute) and call.func.name in ("backward", "manual_backward")


def _emptied_inside(flow: Flow, path: str) -> bool:
    """Whether the function, or one that is defined in it, empties a local collection, or gives it to its caller."""
    for node in flow.ref.define.nodes:
        if isinstance(node, t.Return) and node.value is not None:
            given = node.value.items if isinstance(node.value, t.Display) else [node.value]
            if any(t.path_of(each) == path for each in given):
                return True
        if isinstance(node, t.Delete | t.Assign) and any(_holds(target, path) for target in node.targets):
            return True
        called = node.func if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) else None
        if called is not None and t.path_of(called.value) == path and called.name in _EMPTYING:
            return True
    return False


def _holds(target: t.Expr, path: str) -> bool:
    """Whether a target is an item or a slice of what is at a path."""
    return isinstance(target, t.Subscript) and t.path_of(target.value) == path


def _closes_over(flow: Flow, hook: HookRegistration) -> str | None:
    """The tensor that a hook is registered on and refers to for ever: it holds itself through C++.

    A closure refers to a variable: in a loop, the next iteration puts another tensor there, and the old one is free.
    """
    path, callback = hook.receiver, hook.callback
    if hook.method != "register_hook" or path is None or not path.isidentifier():
        return None
    if not isinstance(callback, FunctionRef) or last_removal(flow) != float("inf"):
        return None
    if path in hook.bound:
        return path  # partial(hook, out): the tensor itself, not the variable
    own = next((p for p in callback.define.params if p.name == path), None)
    if own is not None:  # lambda g, out=out: ...
        return path if own.default is not None and t.path_of(own.default) == path else None
    if _is_made_for(flow, hook, callback):
        return path
    used = any(isinstance(n, t.Name) and n.id == path for n in callback.define.nodes)
    if not used or callback.outer is not flow or path in callback.names[0] or hook.loop is not None:
        return None
    is_script = flow.facts.name == "<module>"
    return None if is_script or flow.final.env.get(path, hook.of).kind is Kind.NOTHING else path

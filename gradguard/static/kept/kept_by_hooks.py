"""What hooks keep of what they are given, and which hold the very tensor that they are registered on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.files.gate import SourceError
from gradguard.static.kept.callback_hooks import REMOVES
from gradguard.static.kept.hook_removal import frees_hooks, last_removal, may_be_removed_in_time, runs_late
from gradguard.static.kept.probes import runs_in_training
from gradguard.static.kept.read_again import is_read_again
from gradguard.static.model import Form, HookRegistration, Mode, Scope, Store
from gradguard.static.program.functions import FunctionRef
from gradguard.static.reading.roots import graphs
from gradguard.static.values import Held, Kind, Root, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_ASKS = re.compile(r"\bbackward\(|\bgrad\(|LightningModule|\bTrainer\b")
_SWITCHES_OFF = re.compile(r"\bno_grad\b|\binference_mode\b|set_grad_enabled\(\s*(?:mode\s*=\s*)?False")
_EMPTYING = ("clear", "pop", "popleft", "popitem")


def kept_by(flow: Flow, hook: HookRegistration, probes: bool = False) -> Iterator[Store]:
    """The stores by which a hook collects what it is given, from one forward or backward to the next."""
    callback = _flow_of(flow, hook)
    if callback is None or callback.facts.entry_mode is Mode.OFF:
        return
    given = _tensors_given(hook, callback)
    for store in callback.facts.stores:
        path = _path_here(hook, callback, store)
        if store.form is not Form.APPEND or path is None:
            continue
        keeps_graph = has_graph(hook, store) and store.mode is not Mode.OFF and _is_given(store.value, given)
        trains = not keeps_graph and _is_kept_whole(hook, store.value, given)
        if (keeps_graph or trains) and _collects(flow, hook, callback, store, path, trains=trains, probes=probes):
            yield store


def kept_by_probe(flow: Flow, hook: HookRegistration) -> tuple[list[Store], list[Store]]:
    """The stores by which it does so while somebody else trains what it is registered on: with a graph, and without."""
    known = (*hook.kept, *hook.kept_plain)
    found = [store for store in kept_by(flow, hook, probes=True) if store not in known]
    found = found if found and runs_in_training(flow, hook) else []
    with_graph = [store for store in found if has_graph(hook, store)]
    return with_graph, [store for store in found if store not in with_graph]


def has_graph(hook: HookRegistration, store: Store) -> bool:
    """Whether a hook keeps a graph: what a backward hook is given has none."""
    return "forward" in hook.method and bool(graphs(store.value.roots))


def note_readers(flow: Flow, store: Store) -> None:
    """Tell where a backward of the program may need what a hook keeps: a loss is computed of it."""
    store.is_read_again = lambda: flow.project.survey.mentions(_ASKS, flow.module) and is_read_again(flow, store)


def closed_over(flow: Flow, hook: HookRegistration) -> str | None:
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
    used = {n.id for n in callback.define.all(t.Name)} - callback.names[0]
    if used.isdisjoint(_names_of(flow, path)) or callback.outer is not flow or hook.loop is not None:
        return None
    is_script = flow.facts.name == "<module>"
    return None if is_script or flow.final.env.get(path, hook.of).kind is Kind.NOTHING else path


def _names_of(flow: Flow, path: str) -> set[str]:
    """The variables that are a tensor all along: it, and ``pixels`` after ``pixels = img``."""
    bound = flow.ref.assigned.items() if path not in flow.locals else ()
    others = {name for name, values in bound if len(values) == 1 and t.path_of(values[0]) == path}
    return {path} | others


def _is_made_for(flow: Flow, hook: HookRegistration, callback: FunctionRef) -> bool:
    """``x.register_hook(make_hook(x))``, where the hook refers to what its maker was given."""
    call = hook.site.node
    made = call.args[0].value if isinstance(call, t.Call) and call.args else None
    if not isinstance(made, t.Call) or callback.outer is None or callback.outer is flow:
        return False
    params = [name for name in callback.outer.params if name not in ("self", "cls")]
    given = [name for name, arg in zip(params, made.args) if t.path_of(arg.value) == hook.receiver and not arg.keyword]
    given += [str(arg.keyword) for arg in made.args if arg.keyword and t.path_of(arg.value) == hook.receiver]
    used = {n.id for n in callback.define.all(t.Name)} - callback.names[0]
    return not used.isdisjoint(given)


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
    holder, is_short = callback.final.env.get(store.path), store.capped or store.fills
    if is_short or (holder is not None and holder.bounded) or store.path in callback.emptied:
        return False
    if _has_enough(callback.ref.define):
        return False
    if path.startswith("self."):
        if trains and "forward" in hook.method and not probes:
            return False
        attribute = path.split("[", 1)[0].rsplit(".", 1)[-1]
        is_context = flow.ref.owner is not None and flow.ref.owner.method("__exit__") is not None
        if hook.removed and is_context and not probes:
            return False
        if flow.module.source.shows(REMOVES) and may_be_removed_in_time(flow, at_exit=not (probes and is_context)):
            return False
        if frees_hooks(flow) or not (trains or _may_record(flow)):
            return False
        functions = {callback.defined}
        if (hook.receiver or "").split(".", 1)[0] == "self":  # it stays, and what is made anew beside it is so once
            functions |= {flow.defined, (callback.ref.outer or flow).defined}
        return all(runs_late(flow, name) for name in flow.project.survey.emptying(attribute, flow.module, functions))
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


def _has_enough(hook: t.Define) -> bool:
    """Whether a hook leaves once it has counted that it has kept enough: ``if self.left == 0: return``."""
    counts = (stmt.target for stmt in hook.statements if isinstance(stmt, t.Augment))
    counted = {path for target in counts if (path := t.path_of(target)) is not None}
    leaving = (stmt.test for stmt in hook.body if isinstance(stmt, t.If) and t.leaves(stmt.body))
    tests = (test for test in leaving if isinstance(test, t.Operation) and test.operator in (">", ">=", "=="))
    return any(t.path_of(test.operands[0]) in counted for test in tests)


def _may_record(flow: Flow) -> bool:
    """Whether forwards may record graphs: a program that asks for no gradient, and has ``no_grad``, runs under it."""
    survey = flow.project.survey
    return survey.mentions(_ASKS, flow.module) or not survey.mentions(_SWITCHES_OFF, flow.module)


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

"""Hooks: which pile up, and whether they are removed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.kept.callback_hooks import is_called_again
from gradguard.static.kept.exit_stacks import is_left_in_time, is_never_left, removing
from gradguard.static.kept.hook_removal import frees_hooks, is_removed, is_removed_late, last_removal, removes
from gradguard.static.kept.kept_by_hooks import closed_over, has_graph, kept_by, kept_by_probe, note_readers
from gradguard.static.kept.memory import makes_optimizer
from gradguard.static.kept.one_handle import is_removed_in_time, knowing_handle
from gradguard.static.model import HookRegistration
from gradguard.static.program.paths import is_part
from gradguard.static.reading.guards import guards, loop_names
from gradguard.static.values import Kind, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def judge_hook(flow: Flow, hook: HookRegistration) -> None:
    source = hook.source
    hook.overwritten = hook.inner is None and (_is_overwritten(flow, hook) or _is_lost(flow, hook))
    hook.discarded = hook.discarded or hook.overwritten or (hook.inner is None and _is_left_on_stack(flow, hook))
    if hook.inner is None and not hook.discarded:
        hook.knowing = knowing_handle(flow, hook)
    if hook.inner is None and not hook.removed:
        hook.stack = removing(flow, [call for call in flow.ref.calls if removes(call)])
    if isinstance(source, HookRegistration):
        _judge_removal(flow, hook, source)
    _judge_guards(flow, hook)
    if hook.callback is not None and hook.inner is None:
        for store in kept_by(flow, hook):
            (hook.kept if has_graph(hook, store) else hook.kept_plain).append(store)
            note_readers(flow, store)
        hook.kept_by_probe = lambda: kept_by_probe(flow, hook)
        closes_over = closed_over(flow, hook)
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
        hook.removed = is_left_in_time(hook) or frees_hooks(flow)


def _is_left_on_stack(flow: Flow, hook: HookRegistration) -> bool:
    """Whether the handle is given to nobody but a stack that nothing closes: ``self.stack.callback(handle.remove)``."""
    own = [call for call in flow.ref.calls if removes(call)]
    if not own or not all(is_never_left(flow, call) for call in own):
        return False
    made = (s for s in flow.ref.define.statements if isinstance(s, t.Assign) and s.value is hook.site.node)
    names = {t.path_of(target) for stmt in made for target in stmt.targets}
    uses = [node for node in flow.ref.define.all(t.Name) if node.id in names]
    given = [node for call in own for node in t.walk(call) if isinstance(node, t.Name) and node.id in names]
    return bool(given) and len(uses) == len(given) + 1


def _judge_removal(flow: Flow, hook: HookRegistration, source: HookRegistration) -> None:
    """Whether anything may remove it in time."""
    may_be = not source.discarded and not hook.is_left_open and source.knowing is None
    hook.removed_late = hook.removed_late or (hook.inner is None and is_removed_late(flow))
    is_open = hook.removed_late and last_removal(flow) == float("inf")
    if is_open and hook.inner is not None and hook.loop is not None:
        is_open = makes_optimizer(flow)  # else the loop may be that of an epoch, or a task, and is over soon
    hook.removed = hook.removed or (may_be and not is_open and is_removed(flow, hook))
    hook.removed_at_exit = hook.removed_at_exit or (hook.removed and not is_removed(flow, hook, at_exit=False))
    hook.removed |= frees_hooks(flow)


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
    names |= {path.split(".", 1)[0].split("[", 1)[0] for path in (hook.receiver or "", hook.given_as or "")}
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

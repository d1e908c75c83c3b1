"""Hooks: which pile up, and what they keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.definitions import FunctionRef
from gradguard.static.memory import cleared
from gradguard.static.model import Form, HookRegistration, Mode, Scope, Store
from gradguard.static.names import bound_names
from gradguard.static.roots import graphs
from gradguard.static.source import SourceError
from gradguard.static.values import Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def _is_part(path: str, whole: str) -> bool:
    return path == whole or path.startswith((f"{whole}.", f"{whole}["))


def judge_hook(flow: Flow, hook: HookRegistration) -> None:
    source = hook.source
    if isinstance(source, HookRegistration):
        hook.removed = hook.removed or (not source.discarded and ".remove()" in flow.module.source.text)
    if hook.callback is not None and hook.inner is None:
        hook.kept = list(_kept(flow, hook))
        hook.closes_over = _closes_over(flow, hook)
    if hook.fresh or hook.receiver is None:
        return
    call = hook.site.node
    receiver = call.func.value if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) else None
    names = (
        {n.id for n in t.walk(receiver) if isinstance(n, t.Name)}
        if receiver is not None and hook.inner is None
        else set()
    )
    names.add(hook.receiver.split(".", 1)[0].split("[", 1)[0])
    loop = hook.loop
    while loop is not None:
        node = loop.site.node
        assert isinstance(node, t.Repeat)
        if names & loop.targets:
            names = {n.id for n in t.walk(node.iterable) if isinstance(n, t.Name)}
        elif any(_is_part(hook.receiver, path) for path in node.assigned or ()):
            return
        elif loop.forwards or loop.backwards or loop.over_loader:
            hook.repeats = loop
            return
        loop = loop.parent


# --- what a hook keeps ------------------------------------------------------------------------------------------


def _kept(flow: Flow, hook: HookRegistration) -> Iterator[Store]:
    """The stores by which a hook collects what it is given, from one forward to the next."""
    callback = _flow_of(flow, hook)
    if callback is None or callback.facts.entry_mode is Mode.OFF:
        return
    given = set(callback.params[-3:])  # module, input, output; or the gradient
    for store in callback.facts.stores:
        roots = graphs(store.value.roots)
        is_given = any(r.source is Source.PARAM and r.base in given for r in roots)
        if store.form is Form.APPEND and is_given and store.mode is not Mode.OFF and _collects(flow, callback, store):
            yield store


def _flow_of(flow: Flow, hook: HookRegistration) -> Flow | None:
    try:
        return flow.project.flow(hook.callback) if isinstance(hook.callback, FunctionRef) else None
    except SourceError:
        return None


def _collects(flow: Flow, callback: Flow, store: Store) -> bool:
    """Whether nothing empties what a hook adds to, while the module runs again and again."""
    if callback.scope(store.path) is Scope.LOCAL:
        return False
    holder = callback.final.env.get(store.path)
    if holder is not None and holder.bounded:
        return False
    if store.path.startswith("self."):
        return not cleared(flow, store)
    if flow.scope(store.path) not in (Scope.LOCAL, Scope.GLOBAL):
        return False
    outer = flow.final.env.get(store.path)
    if (outer is not None and outer.bounded) or store.path in flow.emptied:
        return False
    loops = (loop for loop in flow.facts.loops if store.path not in loop.assigned)
    return any(f.mode is not Mode.OFF for loop in loops for f in loop.forwards)


def _closes_over(flow: Flow, hook: HookRegistration) -> str | None:
    """The tensor of this call that a hook is registered on and refers to: it holds itself through C++."""
    path = hook.receiver
    if hook.method != "register_hook" or path is None or not path.isidentifier() or not hook.fresh:
        return None
    callback = hook.callback
    if not isinstance(callback, FunctionRef) or path in [p.name for p in callback.define.params]:
        return None
    used = any(isinstance(n, t.Name) and n.id == path for n in t.walk(callback.define.body))
    return path if used and path not in bound_names(callback.define)[0] else None

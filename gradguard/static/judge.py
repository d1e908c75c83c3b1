"""What can only be said when the whole function was read: which stores leak, which graphs are needed again.

Everything here is a question about roots; see ``values``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.model import (
    Backward,
    Event,
    Form,
    GradCall,
    HookRegistration,
    Loop,
    Mode,
    Scope,
    Site,
    Store,
    ZeroGrad,
)  # fmt: skip
from gradguard.static.values import Kind, Root, Roots, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_GRAPHS = (Source.GRAPH, Source.CALL, Source.LOSS, Source.PARAM, Source.PLACE)


def judge(flow: Flow) -> None:
    """Fill in what the rules ask of stores, backwards and hooks."""
    for store in flow.facts.stores:
        _judge_store(flow, store)
    for backward in flow.facts.backwards:
        _judge_backward(flow, backward)
    for hook in flow.facts.hooks:
        _judge_hook(flow, hook)
    if len({step.target for step in flow.facts.steps}) > 1:
        for step in flow.facts.steps:  # whose parameters the module's reset concerns cannot be told
            step.lost = None if step.lost is not None and step.lost.of_module else step.lost


# --- stores -----------------------------------------------------------------------------------------------------


def graphs(roots: Roots) -> Roots:
    """The roots that stand for a graph, not for a variable's old value."""
    return frozenset(r for r in roots if r.source in _GRAPHS)


def shared(a: Value, b: Value) -> bool:
    """Whether two values may share a graph. What came in from outside counts only where it surely went in."""
    outside = (Source.PARAM, Source.PLACE)
    inner = frozenset(r for r in graphs(a.reach) & graphs(b.reach) if r.source not in outside)
    return bool(inner or graphs(a.roots) & graphs(b.roots))


def attaching_roots(flow: Flow, value: Value) -> list[Root]:
    """The roots that certainly give the value a graph; none when nothing shows that it has one."""
    certain = [r for r in value.roots if r.source is Source.GRAPH or r in flow.proven]
    if not certain and value.roots and any(known <= value.roots for known in flow.proven_values):
        certain = [r for r in value.roots if r.source is not Source.CARRIED]  # backward was called on this very value
    return certain


def _judge_store(flow: Flow, store: Store) -> None:
    if store.waits and store.evaluating:
        _judge_evaluated(flow, store)
        return
    roots = attaching_roots(flow, store.value) or _buffer_statistics(flow, store)
    if not roots or store.mode in (Mode.OFF, Mode.UNKNOWN) or store.value.kind in (Kind.MODULE, Kind.HANDLE):
        return
    store.carries_graph = True
    _judge_lifetime(flow, store)
    if store.leaks:
        store.made_at = _nearest(flow, roots)


def _judge_lifetime(flow: Flow, store: Store) -> None:
    loop: Loop | None = store.loop
    while loop is not None:
        carry = flow.carries.get((store.path, loop))
        if carry is not None and carry.grows and not (store.form is Form.ITEM and store.bounded_key):
            _judge_in_loop(flow, store, loop, carry.fresh)
            if not store.used:
                return
        loop = loop.parent
    _judge_call(flow, store)


def _judge_in_loop(flow: Flow, store: Store, loop: Loop, fresh: bool) -> None:
    """The store grows in ``loop``: does anything need the graphs, and what do they keep?"""
    own = graphs(store.value.roots)
    carried = Root(Source.CARRIED, (store.path, loop))
    inside: list[Backward | GradCall] = [b for b in loop.backwards if graphs(b.value.reach) & own]
    inside += [g for g in loop.grad_calls if graphs(g.value.reach) & own or carried in g.value.reach]
    again = [b for b in loop.backwards if carried in b.value.reach]
    freeing = [b for b in inside if not b.keeps]
    store.outlives = loop
    store.freed = bool(freeing)
    store.retained = bool(inside) and not freeing
    if store.form in _COLLECTING:
        store.freed = any(b not in again for b in freeing)
    elif any(not b.keeps for b in again):
        store.used = True  # torch itself raises in the second iteration, or something resets it out of our sight
        return
    consumers: list[Backward | GradCall] = [*flow.facts.backwards, *flow.facts.grad_calls]
    outside = [b for b in consumers if _outside(b, loop)]
    if any(carried in b.value.reach or (not inside and graphs(b.value.reach) & own) for b in outside):
        store.used = True
        return
    if loop.needs_gradients:
        freed = freeing or any(isinstance(b, Backward) for b in inside)
        store.used = not freed and _escapes(flow, store, carried)
    elif loop.evaluates or store.evaluating:
        store.used = flow.facts.gradients_wanted
    else:
        store.used = (
            flow.facts.is_module_method
            or flow.ref.define.is_generator
            or flow.facts.name == "forward"
            or _escapes(flow, store, carried)
        )
        store.waits = store.used
    if not fresh and not store.used and store.form in _COLLECTING:
        store.used = _cleared(flow, store)


def _judge_evaluated(flow: Flow, store: Store) -> None:
    """A callee's store that leaks if nobody uses the graph, called in evaluation: does this function use it?"""
    own = graphs(store.value.roots)
    consumers: list[Backward | GradCall] = [*flow.facts.backwards, *flow.facts.grad_calls]
    store.used = any(graphs(b.value.reach) & own for b in consumers)
    store.waits = store.used


_COLLECTING = (Form.APPEND, Form.ITEM, Form.CONCATENATE)


def _outside(event: Event, loop: Loop) -> bool:
    return event.loop is None or not event.loop.within(loop)


def _escapes(flow: Flow, store: Store, carried: Root) -> bool:
    """Whether code that was not read may get the graph: a caller, a callee, another object."""
    wanted = {carried, *(r for r in graphs(store.value.roots) if r.source not in (Source.PARAM, Source.PLACE))}
    if wanted & flow.escaped or wanted & flow.facts.returns.reach:
        return True
    for path, value in flow.final.env.items():
        outer = flow.scope(path) not in (Scope.LOCAL, Scope.PARAMETER)
        if path != store.path and outer and wanted & value.reach:
            return True
    return store.scope not in (Scope.LOCAL,)


def _cleared(flow: Flow, store: Store) -> bool:
    return flow.project.survey.clears(store.holder, flow.module)


def _judge_call(flow: Flow, store: Store) -> None:
    """The store is into something that lives longer than the call; the function is itself one step of a loop."""
    if store.scope in (Scope.LOCAL, Scope.PARAMETER) or (store.inner is not None and not store.parameter):
        return
    if store.scope is Scope.CLOSURE and flow.ref.outer is not None and flow.ref.define in flow.ref.outer.applied:
        return  # judged where the closure is called
    final = flow.final.env.get(store.path)
    place = Root(Source.PLACE, store.path)
    if final is None or final.bounded or place not in final.must:
        return
    if store.form is Form.ITEM and (store.bounded_key or store.key is None):
        return
    own = graphs(store.value.roots)
    inside = [b for b in flow.facts.backwards if graphs(b.value.reach) & own]
    stepping = flow.facts.name in k.PER_STEP_METHODS and bool(flow.ref.owner and flow.ref.owner.framework_methods)
    forward = flow.facts.is_module_method and flow.facts.name == "forward"
    if any(r.source is Source.PLACE and r.base == store.path for b in inside for r in b.value.reach):
        return
    if not (inside or stepping or forward):
        return
    if store.form is Form.REBIND and not inside and not _buffer_statistics(flow, store):
        return
    if (store.form in _COLLECTING or forward) and _cleared(flow, store):
        return
    store.outlives = None
    store.outlives_call = True
    store.used = False
    store.freed = any(not b.keeps for b in inside) or (stepping and not inside)
    store.retained = bool(inside) and not store.freed


def _buffer_statistics(flow: Flow, store: Store) -> list[Root]:
    """A registered buffer that ``forward`` updates from its input: the input carries the graph of what came before."""
    owner = flow.ref.owner
    if owner is None or not owner.is_module or flow.facts.name != "forward" or store.mode is not Mode.INHERITED:
        return []
    if not store.path.startswith("self.") or store.holder not in owner.buffers or store.form is Form.ITEM:
        return []
    if not owner.trains:
        return []  # a preprocessing step: what it is given is data
    return [r for r in store.value.roots if r.source in (Source.PARAM, Source.GRAPH)]


def _nearest(flow: Flow, roots: list[Root]) -> Site | None:
    """The last expression in the source that starts the graph; of several in one line the outermost."""
    sites = [site for root in roots if (site := _site_of(flow, root)) is not None]
    return max(sites, key=lambda s: (s.span.line, -s.span.column, s.span.end_column), default=None)


def _site_of(flow: Flow, root: Root) -> Site | None:
    key: object = root.key
    while isinstance(key, tuple):
        key = key[0]
    return flow.site(key) if isinstance(key, t.Node) and key.origin is not None else None


# --- backwards --------------------------------------------------------------------------------------------------


def _judge_backward(flow: Flow, backward: Backward) -> None:
    backward.resets = _resets(flow, backward)
    if backward.retain_graph is None:
        return
    loop = backward.loop
    own = graphs(backward.value.reach)
    order = flow.facts.events.index(backward)
    for other in flow.facts.events[order + 1 :]:
        if not isinstance(other, Backward | GradCall):
            continue
        if not own or not other.value.reach or shared(backward.value, other.value):
            backward.needed_again = True
            return
    if loop is None:
        return
    backward.carries = next(
        (
            path for (path, where), carry in flow.carries.items()
            if where is loop and carry.grows and Root(Source.CARRIED, (path, loop)) in backward.value.reach
        ),
        None,
    )  # fmt: skip
    if backward.carries is None:
        unclear = any(r.source is Source.CARRIED and _of_loop(r, loop) for r in backward.value.maybe)
        backward.needed_again = unclear or not _made_in(loop, backward.value)


def _of_loop(root: Root, loop: Loop) -> bool:
    return isinstance(root.key, tuple) and root.key[1] is loop


def _made_in(loop: Loop, value: Value) -> bool:
    """Whether the whole graph of a value is made inside one iteration, as far as it was seen."""
    inside = set(t.walk(loop.site.node))
    fresh = False
    for root in value.reach:
        if root.source in (Source.GRAPH, Source.CALL, Source.LOSS):
            key: object = root.key
            while isinstance(key, tuple):
                key = key[0]
            if key not in inside:
                return False
            fresh = fresh or root.source in (Source.GRAPH, Source.LOSS)
        elif root.source is Source.PLACE:
            return False
    return fresh


def _resets(flow: Flow, backward: Backward) -> list[ZeroGrad]:
    zero_grads = flow.facts.zero_grads
    if backward.create_graph is not None:
        # Zeroing in place keeps the gradient's graph, and the next backward adds to it.
        zero_grads = [z for z in zero_grads if z.to_none or z.target is not None]
    if backward.create_graph is not None and backward.loop is not None:
        inside = set(t.walk(backward.loop.site.node))
        if any(r.source is Source.LEAF and _is_input(r.key) and r.key in inside for r in backward.value.roots):
            zero_grads = [z for z in zero_grads if z.target is None]  # an optimizer does not know this leaf
    if backward.loop is None:
        return list(zero_grads)
    return [z for z in zero_grads if z.loop is None or z.loop.within(backward.loop) or backward.loop.within(z.loop)]


def _is_input(leaf: object) -> bool:
    """Whether a leaf is made by ``requires_grad_()``: an input, not a parameter."""
    return isinstance(leaf, t.Call) and isinstance(leaf.func, t.Attribute) and leaf.func.name == "requires_grad_"


# --- hooks ------------------------------------------------------------------------------------------------------


def _is_part(path: str, whole: str) -> bool:
    return path == whole or path.startswith((f"{whole}.", f"{whole}["))


def _judge_hook(flow: Flow, hook: HookRegistration) -> None:
    source = hook.source
    if isinstance(source, HookRegistration):
        hook.removed = hook.removed or (not source.discarded and ".remove()" in flow.module.source.text)
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

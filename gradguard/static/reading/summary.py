"""What a function of the project does at a call: its facts, with the caller's values in place of its parameters."""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING

from gradguard.static.files.gate import SourceError
from gradguard.static.fixes.edits import one_line
from gradguard.static.mistakes.kept import CachedCall
from gradguard.static.model import Form, Mode, Scope, Store
from gradguard.static.program.arguments import Given, bound, takes, with_flags
from gradguard.static.program.made_with import as_made
from gradguard.static.program.translation import Translation, as_given
from gradguard.static.reading import filled_later, unrecorded
from gradguard.static.reading.expressions import recorded
from gradguard.static.reading.modes import leave
from gradguard.static.reading.replay import replay
from gradguard.static.reading.state import merge
from gradguard.static.reading.suspended import left_for_exit
from gradguard.static.values import DETACHED, UNKNOWN, Held, Kind, Root, Source, Value, join, union

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef
    from gradguard.static.reading.called import Called

MANY = 6
"""Of more functions than these it is not worth asking which one is called."""

_MUTATING = (Form.APPEND, Form.ITEM, Form.IN_PLACE)
_MAX_EVENTS = 200
_HOLDING = (Kind.TENSOR, Kind.OUTPUT, Kind.UNKNOWN, Kind.CONTAINER)


def apply_facts(c: Called, ref: FunctionRef, given: Given, receiver: str | None) -> Value:
    """Do at call ``c`` what ``ref`` does, and return what it returns.

    Args:
        c: the call, in its caller.
        ref: the function called.
        given: its arguments.
        receiver: the path of the object, where the call itself does not name it; empty for a constructor, whose
            object has no path yet.
    """
    flow = c.flow
    flow.applied.add(ref.define)
    runs_later = ref.define.is_generator and c.node is flow.handing_back  # with no_grad(): return generator()
    if ref.owner is not None or takes(ref, [arg for arg, _ in (*ref.given, *given)]):  # else it raises
        flow.calls.append((ref.define, Mode.INHERITED if runs_later else c.state.mode))
    try:
        runs = as_made(c, flow.project.wrapper(ref) or ref, receiver)
        callee = flow.project.flow(with_flags(runs, given))
    except SourceError:
        callee = None
    if callee is None:
        return UNKNOWN
    if flow.dry:
        return _as_kind(callee.facts.returns)
    _note_keys(c, callee, given)
    arguments = bound(c, callee.ref, [*ref.given, *given], receiver)
    return _apply(Translation(c, callee, arguments), constructs=receiver == "")


def _as_kind(returned: Value) -> Value:
    """What sort of object a function gives: of what class, frozen or not, and which of it are leaves."""
    parts = tuple((key, _as_kind(part)) for key, part in returned.parts)
    leaves = frozenset(root for root in returned.roots if root.source is Source.LEAF)
    has_leaves = any(part.roots for _, part in parts)
    return Value(
        leaves, kind=returned.kind, parts=parts if has_leaves else (), ref=returned.ref,
        holds=returned.holding(Held.FROZEN),
    )  # fmt: skip


def _note_keys(c: Called, callee: Flow, given: Given) -> None:
    """A tensor that becomes a key of a cache: in a ``forward``, or one with a graph (else it may be NumPy's)."""
    facts, caller = callee.facts, c.flow.facts
    if facts.cached is None or facts.cache_is_bounded or facts.tensor_params:
        return
    in_forward = caller.is_module_method and caller.name == "forward"
    for arg, value in given:
        seen = any(root.source in (Source.GRAPH, Source.LOSS, Source.LEAF) for root in value.roots)
        if value.kind is Kind.TENSOR and ((in_forward and value.keeps) or seen):
            written = one_line(c.flow.site(arg.value).code)
            caller.cached_calls.append(CachedCall(c.flow.site(c.node), facts.name, written, facts.cached_by))


def apply_one_of(c: Called, refs: list[FunctionRef], receiver: str | None) -> Value | None:
    """Do at call ``c`` what one of some functions does; None where there is none, or too many to ask which.

    One that does not take these arguments is not the one that is called, nor one that returns more or fewer values than
    are taken of them: ``path, info = env.simulate(policy)``.
    """
    refs = [ref for ref in refs if takes(ref, [arg for arg, _ in (*ref.given, *c.values)])]
    if len(refs) > 1 and (taken := c.flow.ref.taken_apart.get(c.node)) is not None:
        refs = [ref for ref in refs if taken in (ref.lengths_returned or (taken,))]
    if not 0 < len(refs) <= MANY:
        return None
    before, after = c.state.copy(), None
    results = []
    c.flow.branches += len(refs) > 1
    for ref in refs:
        c.state.become(before.copy())
        results.append(apply_facts(c, ref, c.values, receiver))
        after = merge(after, c.state.copy())
    c.flow.branches -= len(refs) > 1
    if len(refs) > 1:
        c.flow.given_back.pop(c.node, None)
        c.flow.unchanged.pop(c.node, None)
    if after is not None:
        c.state.become(after)
    return reduce(join, results)


def _returned(here: Translation, value: Value) -> Value:
    """What the callee returns, recorded as the caller says."""
    result = recorded(here.returned(value), here.state)
    if result.parts or value.kind is not Kind.TENSOR:
        return result
    given = [here.outer(root) for root in value.roots if root.source is Source.PARAM]
    site, is_off = lambda: here.flow.site(here.c.node), here.state.mode is Mode.OFF
    result = unrecorded.of_operation(given, unrecorded.of_callee(given, result), site, is_off=is_off)
    return unrecorded.of_call(here.c.node, result, gives_number=here.callee.ref.gives_number)


def _apply(here: Translation, *, constructs: bool) -> Value:
    """Do in the caller what the callee does."""
    flow, callee, state = here.flow, here.callee, here.state
    flow.facts.gradients_wanted |= callee.facts.gradients_wanted
    writes, known = _writes(here), len(flow.facts.stores)
    made_once = {here.path(path) for path in callee.made_once}
    later = left_for_exit(here)
    for event in callee.facts.events[:_MAX_EVENTS]:
        if event not in later:
            replay(here, event)
    result = _made(here) if constructs else _returned(here, callee.facts.returns)
    if result.kind not in (Kind.NUMBER, Kind.NOTHING):
        flow.given_graphs[here.c.node] = frozenset(root for root in result.reach if root.source is Source.GRAPH)
    for path, value in writes:
        flow.touch(path, state)
        if path in made_once:
            flow.at_start.add(path)
        elif _is_written_whole(path, writes) and all(store.path != path for store in flow.facts.stores[known:]):
            _note_carried(here, path, value)
        state.assign(path, value)
    if callee.marked:
        flow.marked.update(path for path in map(here.path, callee.marked) if path is not None)
    _reset(here)
    _note_given_back(here)
    if callee.gives_member is not None:
        filled_later.note_given(flow, here.c.node, callee.gives_member, known)
    for store in callee.facts.stores:
        if store.scope is Scope.PARAMETER and (store.is_item or store.form in _MUTATING):
            _mutate(here, store)
    flow.generators += callee.ref.define.is_generator
    evaluating = (here.path(p) for p in callee.final.evaluating | callee.evaluating_at_yield)
    state.evaluating |= {p for p in evaluating if p is not None}
    _leave_mode(here)
    return result


def _is_written_whole(path: str, writes: list[tuple[str, Value]]) -> bool:
    """Whether no entry of it is told apart: where some are, ``state["mean"] = x``, each tells of itself."""
    return not any(other.startswith(f'{path}["') for other, _ in writes)


def _leave_mode(here: Translation) -> None:
    """``set_grad_enabled`` holds beyond the function that calls it, unless a decorator puts things back."""
    left = here.callee.final.left
    if left is Mode.INHERITED or here.callee.facts.entry_mode is not Mode.INHERITED:
        return
    if not here.callee.ref.define.is_generator:
        leave(here.flow, here.state, left)


def _note_given_back(here: Translation) -> None:
    """``log = note(log, loss)``: what comes back is what was given, and perhaps with the graph that it had."""
    flow, node = here.flow, here.c.node
    name = here.callee.ref.gives_back
    path = here.path(name) if name is not None else None
    if path is None:
        flow.given_back.pop(node, None)
    else:
        flow.given_back[node] = path
    returned = here.callee.facts.returns
    same = {key: as_given(value) for key, value in [(None, returned), *returned.parts]}
    parts = {re.split(r"[.\[]", path)[0] for path in here.callee.final.env if "." in path or "[" in path}
    paths = {key: here.path(name) for key, name in same.items() if name is not None and name not in parts}
    flow.unchanged[node] = {key: path for key, path in paths.items() if path is not None}


def _made(here: Translation) -> Value:
    """What an object holds when it is made: the graphs that its constructor puts into it."""
    env = here.callee.final.env.items()
    fields = [here.value(value) for path, value in env if path.startswith("self.") and value.kind in _HOLDING]
    held = union(fields)
    roots = frozenset(root for root in held.roots if root.source is not Source.LEAF)
    must = frozenset(root for value in fields for root in value.must)  # node = Node(loss, before=node)
    return recorded(Value(roots, held.maybe, must, kind=Kind.CONTAINER, holds=held.holds), here.state)


def _writes(here: Translation) -> list[tuple[str, Value]]:
    """What the callee leaves in attributes, outer variables and globals."""
    if here.state.mode is Mode.OFF and not here.callee.final.env:
        return []
    writes = []
    for path, value in sorted(here.callee.final.env.items(), key=lambda item: item[0]):  # wholes before parts
        visible = here.callee.scope(path) in (Scope.ATTRIBUTE, Scope.CLOSURE, Scope.GLOBAL)
        mapped = here.path(path) if visible else None
        if mapped is None or _is_as_it_was(path, value):
            continue
        if value.kind not in (Kind.FUNCTION, Kind.CLASS, Kind.EXTERNAL):
            writes.append((mapped, _left(here, mapped, here.value(value))))
    return writes


def _is_as_it_was(path: str, value: Value) -> bool:
    """Whether nothing was put there: an object that is made on first use, or what a loop of the callee left alone.

    ``if _log is None: _log = Log()``; a loop that fires one event has the paths of what it does for the others.
    """
    before = Root(Source.PLACE, path)
    if value.kind is Kind.UNKNOWN and not value.holds:
        return before in value.must and all(root == before or root.source is Source.CARRIED for root in value.reach)
    return value.kind is Kind.INSTANCE and before in value.must


def _left(here: Translation, path: str, value: Value) -> Value:
    """What the callee leaves at a path; a container that gets more under ``no_grad`` keeps what is in it."""
    if here.state.mode is not Mode.OFF or value.kind is not Kind.CONTAINER:
        return recorded(value, here.state)
    before = here.flow.read(path, here.state)
    return value._replace(roots=value.roots & before.roots, maybe=value.maybe & before.maybe, parts=())


def _is_computed_anew(here: Translation, path: str) -> bool:
    """Whether the callee puts a collection there of what a call gave that was given the one before."""
    rebinds = (
        store for store in here.callee.facts.stores if store.form is Form.REBIND and here.path(store.path) == path
    )
    return any(store.is_recurrent for store in rebinds)


def _is_only_marked(here: Translation, path: str) -> bool:
    """Whether the callee leaves the tensor at a path that was there, a leaf: ``self.mask.requires_grad = True``."""
    stores = here.callee.facts.stores
    return path in map(here.path, here.callee.marked) and all(here.path(store.path) != path for store in stores)


def _note_carried(here: Translation, path: str, value: Value) -> None:
    """``slots.advance(memory)``: the callee does not see that what it is given came from what it replaces."""
    if path.endswith("[*]") and len(here.callee.words_put) > 1:
        return  # of a dict in a dict: which of its entries came from which is not told
    if _is_only_marked(here, path):
        return
    carried = any(r.source is Source.CARRIED and r.key[0] == path for r in value.roots if isinstance(r.key, tuple))
    is_collection = value.kind is Kind.CONTAINER and _is_computed_anew(here, path)
    if carried and (is_collection or value.kind in (Kind.TENSOR, Kind.OUTPUT, Kind.UNKNOWN)):
        store = here.flow.store(path, value, here.state, here.c.node, here.c.node, Form.REBIND)
        store.recurs = True


def _reset(here: Translation) -> None:
    """What the callee empties, or detaches in place, among the objects that it is given."""
    callee, flow, state = here.callee, here.flow, here.state
    drained = {path for path, value in callee.final.env.items() if value.bounded and path not in callee.locals}
    for path in sorted(callee.emptied | callee.detached | drained):
        mapped = here.path(path) if callee.scope(path) is Scope.PARAMETER else None
        if mapped is None:
            continue
        flow.touch(mapped, state)
        holder = flow.read(mapped, state)
        emptied = path in callee.emptied or path in drained
        state.assign(mapped, holder._replace(must=frozenset(), bounded=True) if emptied else DETACHED)


def _mutate(here: Translation, store: Store) -> None:
    """What the callee puts into an object that it is given."""
    path = here.path(store.path)
    if path is None:
        return
    here.flow.touch(path, here.state)
    holder = here.flow.read(path, here.state)
    added = recorded(here.value(store.value), here.state)
    here.state.env[path] = holder._replace(roots=holder.roots | added.roots, maybe=holder.maybe | added.maybe, parts=())

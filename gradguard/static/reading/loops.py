"""Loops: what the body assigns is carried, and what is never reset outlives the iteration."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.evaluation.evaluation_loops import (
    begins_with_eval,
    evaluates_by_name,
    is_evaluation,
    plays_to_evaluate,
    reads_files,
    takes_evaluation_batch,
)
from gradguard.static.model import Backward, Event, Form, Forward, Loop, Scope
from gradguard.static.program.names import PARAMETERS, assigned_paths, collections_of, iterable_path, replaced_element
from gradguard.static.program.paths import collections_around
from gradguard.static.reading import counts, filled_later, iterators, volatile
from gradguard.static.reading.binding import bind_element
from gradguard.static.reading.state import Carry, LoopFrame, State, merge
from gradguard.static.values import (
    NOTHING_HELD,
    Held,
    Kind,
    Root,
    Roots,
    Source,
    Value,
    is_empty,
    is_record,
    iterated,
    join,
    with_content,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def repeat(flow: Flow, stmt: t.Repeat, state: State) -> State | None:
    generators = flow.generators
    iterable = flow.value(stmt.iterable, state) if stmt.iterable is not None else None
    generates = flow.generators > generators
    iterators.begin(stmt, state, iterable)
    assigned = set(stmt.assigned if stmt.assigned is not None else assigned_paths(stmt))
    left = Left()
    for is_last in (False, False, True):
        known = marks(flow)
        end, late, found = _iterate(flow, stmt, state.copy(), iterable, assigned, generates, left)
        if is_last or (late <= assigned and left.covers(found)):
            break
        assigned |= late  # a callee stores into what the loop carries: read it again, knowing that
        left = left.with_all(found)  # or an iteration leaves a leaf or a record to the next one
        forget(flow, known)
    stmt.assigned = frozenset(assigned)
    return flow.block(stmt.orelse, end) if stmt.orelse else end


def marks(flow: Flow) -> dict[str, int]:
    """How many events of each kind are known."""
    return {name: len(getattr(flow.facts, name)) for name in _EVENT_LISTS}


def forget(flow: Flow, known: Mapping[str, int]) -> None:
    """Drop the events since ``marks``: what made them is read again."""
    for name, length in known.items():
        _forget(flow, name, length)


def _forget(flow: Flow, name: str, length: int) -> None:
    events = getattr(flow.facts, name)
    dropped = set(events[length:])
    del events[length:]
    frames = [frame.loop for frame in flow.frames]
    for loop in frames:
        if hasattr(loop, name):
            setattr(loop, name, [e for e in getattr(loop, name) if e not in dropped])


def _iterate(
    flow: Flow,
    stmt: t.Repeat,
    state: State,
    iterable: Value | None,
    assigned: set[str],
    generates: bool,
    left: Left,
) -> tuple[State | None, set[str], Left]:
    loop = _new_loop(flow, stmt, state, iterable)
    frame = LoopFrame(loop, {}, replaces=replaced_element(stmt, lambda: flow.ref.keyed_by))
    entry = state.copy()
    for path in sorted(map(flow.canonical, assigned)):
        if is_live(flow, path, state):
            before = flow.read(path, state)
            kept = before.parts if before.kind is Kind.CONTAINER else ()
            state.env[path] = _carried(frame, path, before, left)._replace(parts=kept)
            if path in left.records:
                state.env[path] = _carried_fields(frame, path, before, state.env[path], left)
    flow.frames.append(frame)
    flow.facts.loops.append(loop)
    branches, flow.branches = flow.branches, 0
    periods, flow.periods = flow.periods, list(flow.periods) if _goes_over_objects(stmt, loop) else []
    once, flow.once = flow.once, 0
    if stmt.test is not None:
        flow.value(stmt.test, state)
    if generates and stmt.iterable is not None:
        iterable = flow.value(stmt.iterable, state)  # a generator of the project runs in step with the loop
    for call in iterators.advancing(flow, stmt, state, iterable):
        flow.value(call, state)
    if stmt.target is not None and stmt.iterable is not None and iterable is not None:
        bind_element(flow, stmt.target, iterated(iterable), state, stmt, stmt.iterable)
    end = flow.block(stmt.body, state)
    for other in frame.continues:
        end = merge(end, other)
    for other in frame.early:
        end = merge(end, other, "first")
    if end is not None:
        filled_later.settle(flow, end, loop)
    flow.branches, flow.periods, flow.once = branches, periods, once
    flow.frames.pop()
    if end is not None and frame.late <= assigned:
        _carry(flow, frame, end)
    endless = isinstance(stmt.test, t.Constant) and bool(stmt.test.value)
    after = None if endless else _after(frame, entry, end)
    if endless and not frame.breaks:
        flow.unended = end.copy() if end is not None else None
    for other in frame.breaks:
        _as_left(flow, frame, other)
        after = merge(after, other)
    if after is not None and end is not None:
        after.frozen |= end.frozen  # a loop over parameters runs, and one over models
        after.evaluating |= {path for path in end.evaluating if path.endswith("[*]")}
        _mark_elements(stmt, end, after)
    if after is not None and frame.replaces is not None and frame.replacement is not None:
        _replace_elements(flow, frame.replaces, frame.replacement, after)
    return after, frame.late, Left(_left_as_leaves(flow, frame, end), _left_as_records(flow, frame, end))


def _after(frame: LoopFrame, entry: State, end: State | None) -> State | None:
    """What holds after a loop: one over something has run, in the steady state, and filled what it began with empty."""
    after, stmt = merge(entry, end), frame.loop.site.node
    if after is None or end is None or not isinstance(stmt, t.Repeat) or stmt.iterable is None:
        return after
    for path, before in frame.phis.items():
        if is_empty(before) and path in end.env:
            filled = end.env[path]
            carried = {Root(Source.CARRIED, (each, frame.loop)) for each in frame.phis}
            after.env[path] = join(before, filled._replace(must=filled.must.difference(carried)), trusted="second")
    return after


@dataclass(frozen=True)
class Left:
    """What an iteration leaves to the next one.

    Args:
        leaves: by path, the leaves that something was marked as.
        records: by path, the names of the fields of what is bound to it.
    """

    leaves: Mapping[str, Roots] = field(default_factory=dict)
    records: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def covers(self, other: Left) -> bool:
        """Whether nothing new is left."""
        return other.leaves.keys() <= self.leaves.keys() and other.records.keys() <= self.records.keys()

    def with_all(self, other: Left) -> Left:
        """What either leaves."""
        return Left({**self.leaves, **other.leaves}, {**self.records, **other.records})


def _carried(frame: LoopFrame, path: str, before: Value, left: Left) -> Value:
    """What is at a path when an iteration begins: what was there before the loop, or what the last one left there."""
    root = Root(Source.CARRIED, (path, frame.loop))
    frame.phis[path] = before
    return before._replace(roots=before.roots | left.leaves.get(path, frozenset()) | {root}, must=before.must | {root})


def _carried_fields(frame: LoopFrame, path: str, before: Value, whole: Value, left: Left) -> Value:
    """A record when an iteration begins: each field carries what it carries, whatever another one does."""
    fields = [(name, before.part(name) or before._replace(parts=())) for name in left.records[path]]
    parts = tuple((name, _carried(frame, f"{path}.{name}", part, left)) for name, part in fields)
    return whole._replace(kind=Kind.OUTPUT, parts=parts)


def _left_as_records(flow: Flow, frame: LoopFrame, end: State | None) -> dict[str, tuple[str, ...]]:
    """The records that each iteration binds anew: ``state = State(h, step + 1)``."""
    ends = {path: flow.read(path, end) for path in frame.phis} if end is not None else {}
    records = {path: value for path, value in ends.items() if value.kind is Kind.OUTPUT and is_record(value)}
    return {path: tuple(str(name) for name, _ in value.parts) for path, value in records.items()}


def _replace_elements(flow: Flow, target: t.Subscript, value: Value, state: State) -> None:
    """Nothing of what a collection held is in it any more: ``for k in logs: logs[k] = logs[k].item()``."""
    path = flow.canonical(t.path_of(target.value) or "")
    holder = flow.read(path, state)
    goes_on = bool(value.reach & holder.must)  # means[k] = 0.9 * means[k] + 0.1 * x
    if holder.kind is not Kind.TENSOR and not goes_on:
        kind = Kind.CONTAINER if holder.kind is Kind.UNKNOWN else holder.kind
        state.assign(path, with_content(Value(kind=kind, ref=holder.ref), value))


def _mark_elements(stmt: t.Repeat, end: State, after: State) -> None:
    """``for p in params: p.requires_grad_()`` marks each tensor of a list that is bound here."""
    path = t.path_of(stmt.iterable) if stmt.iterable is not None else None
    holder = after.env.get(path or "")
    name = stmt.target.id if isinstance(stmt.target, t.Name) else None
    if name is None or path is None or holder is None or holder.kind is not Kind.CONTAINER:
        return
    assigns = (each for each in t.walk_statements(stmt.body) if isinstance(each, t.Assign))
    if any(t.path_of(part) == name for each in assigns for target in each.targets for part in t.names_in(target)):
        return  # it is another tensor that is marked
    elements = (value for each in (name, f"{path}[*]") if (value := end.env.get(each)) is not None)
    marked = (root for value in elements for root in value.roots - holder.roots)
    leaves = frozenset(root for root in marked if root.source is Source.LEAF)
    if leaves:
        parts = tuple((key, part.with_roots(*leaves)) for key, part in holder.parts)
        after.env[path] = holder.with_roots(*leaves)._replace(parts=parts)


def _left_as_leaves(flow: Flow, frame: LoopFrame, end: State | None) -> dict[str, Roots]:
    """What goes on from one iteration to the next and was marked: ``pos = pos + v; pos.requires_grad_()``."""
    found: dict[str, Roots] = {}
    if end is None:
        return found
    for path, before in frame.phis.items():
        if path.endswith(PARAMETERS):
            continue  # these are leaves anyway
        value = flow.read(path, end)
        leaves = frozenset(root for root in value.roots - before.roots if root.source is Source.LEAF)
        if leaves and Root(Source.CARRIED, (path, frame.loop)) in value.must:
            found[path] = leaves
    return found


def _as_left(flow: Flow, frame: LoopFrame, state: State) -> None:
    """Where a loop is left at its head, a path that each iteration sets has what the last one left there."""
    for path in frame.phis:
        carry, root = flow.carries.get((path, frame.loop)), Root(Source.CARRIED, (path, frame.loop))
        value = state.env.get(path)
        if carry is not None and not carry.grows and value is not None and root in value.must:
            state.env[path] = join(value, carry.end)


def _new_loop(flow: Flow, stmt: t.Repeat, state: State, iterable: Value | None) -> Loop:
    path = None
    if stmt.iterable is not None:
        path = iterable_path(stmt.iterable)
    named = path or ""
    by_name = k.LOADER_NAME.search(named) and not re.search(r"loaders$", named, re.I)  # one loader after the other
    is_loader = iterable is not None and iterable.kind is Kind.LOADER
    over_loader = (is_loader and not named.endswith("oaders")) or bool(by_name)
    # What a network does with a list, `aug_test` of a detector, its caller runs as it wants.
    goes_over_data = over_loader or (named != "" and not flow.facts.is_module_method)
    evaluation = bool(k.EVALUATION_LOADER.search(named)) or (goes_over_data and is_evaluation(flow))
    evaluation = evaluation or begins_with_eval(stmt) or takes_evaluation_batch(stmt) or plays_to_evaluate(stmt)
    targets = frozenset(
        p for target in ([stmt.target] if stmt.target is not None else []) for e in t.names_in(target)
        if (p := t.path_of(e)) is not None
    )  # fmt: skip
    return Loop(
        flow.site(stmt), flow.loop, over_loader, bool(state.evaluating) or evaluation, targets,
        stmt.assigned or assigned_paths(stmt), count=counts.written(stmt.iterable),
        over_parts=_goes_over_parts(flow, stmt.iterable), over_pairs=_takes_apart(stmt),
        over_samples=_goes_over_samples(flow, stmt, iterable), over_files=lambda: reads_files(flow, stmt),
        evaluates_by_name=evaluates_by_name(flow, stmt),
        parameters=NOTHING_HELD.union(*(v.holding(Held.PARAMETER) for v in state.env.values() if v.holds)),
        may_be_volatile=lambda: volatile.may_be(flow), times=lambda: counts.times(flow, stmt.iterable),
    )  # fmt: skip


def _goes_over_samples(flow: Flow, stmt: t.Repeat, iterable: Value | None) -> bool:
    """Whether it takes one sample after the other of a batch: ``for video in videos``."""
    has_name = stmt.iterable is not None and t.path_of(stmt.iterable) is not None
    is_tensor = has_name and iterable is not None and iterable.kind is Kind.TENSOR
    return is_tensor and flow.loop is not None and flow.loop.over_loader


def _goes_over_objects(stmt: t.Repeat, loop: Loop) -> bool:
    """Whether a loop is over the items of a named collection: ``for callback in self.callbacks``."""
    if stmt.target is None or stmt.iterable is None or loop.over_loader:
        return False
    return any(path.endswith("[*]") for _, paths in collections_of(stmt.target, stmt.iterable) for path in paths)


def _takes_apart(stmt: t.Repeat) -> bool:
    """Whether it goes over one collection that has a name, and takes each element apart: ``for x, y in data``."""
    target, iterable = stmt.target, stmt.iterable
    while isinstance(iterable, t.Call) and iterable.args and t.path_of(iterable.func) in ("enumerate", "tqdm"):
        numbered = t.path_of(iterable.func) == "enumerate" and isinstance(target, t.Display) and len(target.items) == 2
        target = target.items[1] if numbered and isinstance(target, t.Display) else target
        iterable = iterable.args[0].value
    return isinstance(target, t.Display) and iterable is not None and t.path_of(iterable) is not None


def _goes_over_parts(flow: Flow, iterable: t.Expr | None) -> bool:
    """Whether a loop is over what a module consists of: ``enumerate(model.parameters())``, or a list of that."""
    made = flow.ref.assigned.get(iterable.id, ()) if isinstance(iterable, t.Name) else (iterable,)
    return bool(made) and all(map(_are_parts, made))


def _are_parts(made: t.Expr | None) -> bool:
    while isinstance(made, t.Call) and isinstance(made.func, t.Name) and made.args:
        made = made.args[0].value
    return isinstance(made, t.Call) and isinstance(made.func, t.Attribute) and made.func.name in k.PARTS


COLLECTED = "[...]"


@contextmanager
def collecting(
    flow: Flow, expr: t.Comprehension, iterable: Value | None, state: State, *, is_loop: bool
) -> Iterator[list[Value]]:
    """Read a list's comprehension over batches as the loop that it is: all that it makes lives together.

    The caller puts the value of the element into the list that it is given.

    Args:
        is_loop: what it calls trains or evaluates a model, whatever it goes over.
    """
    clause = expr.clauses[0]
    stmt = t.Repeat(expr.origin, clause.target, clause.iterable, None, [], [], assigned=frozenset())
    loop = _new_loop(flow, stmt, state, iterable)
    if not is_loop and (expr.kind not in ("list", "set", "dict") or not loop.over_loader):
        yield []
        return
    loop.site = flow.site(expr)
    frame = LoopFrame(loop, {})
    flow.frames.append(frame)
    flow.facts.loops.append(loop)
    branches, flow.branches = flow.branches, 0
    made: list[Value] = []
    yield made
    if made and made[0].keeps:
        flow.store(COLLECTED, made[0], state, expr, expr.element, Form.APPEND)
        flow.carries[(COLLECTED, loop)] = Carry(True, made[0], True)
    flow.branches = branches
    flow.frames.pop()


def evaluates_each(flow: Flow, expr: t.Comprehension, ran: Iterable[Forward]) -> bool:
    """Whether a model in evaluation is run on each item of a collection of data: ``[net(x) for x in graphs]``.

    Args:
        ran: the module calls in it.
    """
    iterable = expr.clauses[0].iterable
    of_dict = isinstance(iterable, t.Call) and isinstance(iterable.func, t.Attribute) and not iterable.args
    data = t.path_of(iterable.func) if of_dict and isinstance(iterable, t.Call) else iterable_path(iterable)
    around = any(frame.loop.over_loader or frame.loop.evaluates for frame in flow.frames)  # views of one batch
    if data is None or around or flow.facts.is_module_method:
        return False
    evaluates = is_evaluation(flow)
    items = {name.id for c in expr.clauses for name in t.names_in(c.target) if isinstance(name, t.Name)}
    return any((forward.is_evaluated or evaluates) and _is_run_on(forward.site.node, items) for forward in ran)


def _is_run_on(call: t.Node, items: Collection[str]) -> bool:
    """Whether a call is given one of some variables, and is not one of its methods, nor of it itself."""
    if not isinstance(call, t.Call) or (t.path_of(call.func) or "").split(".", 1)[0] in items:
        return False
    return any(isinstance(node, t.Name) and node.id in items for arg in call.args for node in t.walk(arg.value))


def loops_called(events: Iterable[Event]) -> list[Loop]:
    """The loops of called functions in which a model runs or is trained."""
    found: dict[Loop, None] = {}
    for event in events:
        inner = event.inner if isinstance(event, Backward | Forward) else None
        while inner is not None:
            if inner.loop is not None:
                found[inner.loop] = None
            inner = inner.inner
    return list(found)


def is_live(flow: Flow, path: str, state: State) -> bool:
    """Whether a path means something before the loop begins."""
    head = path.split(".", 1)[0].split("[", 1)[0]
    if path != head and _is_of_torch(flow.read(head, state)):
        return False  # nn.utils.clip_grad_norm_(...) changes no `nn.utils`
    if head in state.env or path in state.env:
        return True
    return flow.scope(path) is not Scope.LOCAL


def _is_of_torch(value: Value) -> bool:
    return value.kind is Kind.EXTERNAL and str(value.ref).split(".", 1)[0] == "torch"


def _carry(flow: Flow, frame: LoopFrame, end: State) -> None:
    """Which paths keep their old content through every iteration, directly or through one another."""
    loop = frame.loop
    ends = {path: flow.read(path, end) for path in frame.phis}

    def reaches(path: str, seen: set[str]) -> Roots:
        found = ends[path].must
        for root in found:
            if root.source is Source.CARRIED and isinstance(root.key, tuple) and root.key[1] is loop:
                other = root.key[0]
                if other in ends and other not in seen:
                    seen.add(other)
                    found = found | reaches(other, seen)
        return found

    for path, value in ends.items():
        # What a collection carries on, its entry carries on with it.
        own = {Root(Source.CARRIED, (whole, loop)) for whole in collections_around(path)}
        grows = not value.bounded and not own.isdisjoint(reaches(path, {path}))
        flow.carries[(path, loop)] = Carry(grows, value, _is_fresh(path, frame.phis[path]))


_EVENT_LISTS = (
    "backwards", "grad_calls", "zero_grads", "steps", "forwards", "stores", "hooks", "opaque_calls", "loops",
    "calls", "constructions", "grad_reads", "gradient_sums", "events", "caches", "cached_calls",
)  # fmt: skip


def _is_fresh(path: str, before: Value) -> bool:
    """Whether a function bound a path itself before its loop: it is nothing that was there, nor a tensor made of it."""
    places = {root.base for root in before.must if root.source is Source.PLACE}
    return not places or (before.kind is Kind.TENSOR and path not in places)

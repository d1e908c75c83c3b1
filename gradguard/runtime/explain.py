"""A place that grows, explained: what it keeps, stored by which statement, and whether that is a leak at all."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gradguard.findings import Holder, Leak, Place
from gradguard.runtime import advice, bounds, caches, entries, lifetime, origin
from gradguard.runtime.holders import LEAST_BYTES, SAVED, Suspect
from gradguard.runtime.references import ANY_ITEM
from gradguard.runtime.source import place_of
from gradguard.runtime.stores import adds_to_itself, form_of, stored_value, value_code
from gradguard.runtime.tracer import Line, step_into

if TYPE_CHECKING:
    from gradguard.runtime.sensors.graphs import Held
    from gradguard.runtime.source import Sources

LARGE_BUFFER = 512 << 20
"""A bounded buffer that will hold more than this many bytes when it is full is as good as unbounded."""

LONG_BUFFER = 1_000
"""Entries: a bounded buffer of so many graphs is nobody's intention, whatever they weigh."""

SELDOM = 0.5
"""Entries a step: a key that is new in each step is none that comes again."""

CARRIED = ("sum", "average", "carried")
"""The forms of one value that contains those of all steps before, not a collection of them."""


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """A place that grows, explained.

    Args:
        leak: without its bytes per step, which the signals tell.
        storage_per_step: bytes of tensors that Python sees, in a step.
        nodes_per_step: autograd nodes, in a step.
        freed: the graphs were backpropagated: nodes are left, and no saved tensors.
        is_bare: that was looked at, as are the leaves: what its graphs keep is bounded by the number of nodes.
        excuse: why it is no leak after all: emptied, consumed, filling, inputs, items; None when it is one.
        excuse_at: the statement that says so.
        step: when it was found.
        rate: bytes that the program's memory grew in a step, when growth was established.
        held: the graph that was stored last, when it was found.
        is_made_from_others: a variable that the loop binds before it reads it; what it holds comes from another one.
        asked: what the cache is asked for, if it is one of ``functools``.
        entries: of the dict that it stores into under keys.
        comes_back: the cyclic collector runs and frees it: memory is taken for longer than needed, and is not lost.
    """

    leak: Leak
    storage_per_step: float
    nodes_per_step: float
    freed: bool
    excuse: str | None
    excuse_at: Place | None
    step: int
    rate: float = 0.0
    is_bare: bool = False
    held: Held | None = None
    is_made_from_others: bool = False
    asked: caches.Asked | None = None
    entries: entries.Entries | None = None
    comes_back: bool = False

    @property
    def path(self) -> str:
        """The holder's path."""
        return self.leak.holder.path if self.leak.holder is not None else "?"

    @property
    def is_certain(self) -> bool:
        """Whether it is a leak before the run is over: what holds no graph may be a cache that is being filled.

        So may be a dict that gains an entry now and then: one for each class, or each client.
        """
        return (
            self.excuse is None
            and self.leak.kind in ("graph", "hook", "cycle", "exception")
            and not (self.is_keyed and (self.leak.per_step or 1.0) < SELDOM)
        )

    @property
    def is_keyed(self) -> bool:
        """Whether it stores under a key, which may come again and again."""
        return self.leak.form == "index"

    @property
    def is_leak(self) -> bool:
        """Whether it is one of any kind but results collected on purpose; not growth that nobody can name."""
        named = self.leak.holder is not None and self.leak.holder.scope == "internal"
        return self.leak.kind != "collected" and (self.leak.kind != "heap" or named) and not self.is_garbage

    @property
    def is_garbage(self) -> bool:
        """Whether it waits for a collector that runs, and is nothing that a class or an autograd function keeps."""
        path = self.leak.holder
        return self.comes_back and path is not None and path.scope != "attribute" and not path.path.startswith("ctx.")

    @property
    def is_retracted(self) -> bool:
        """Whether it was needed after all: backpropagated since, and freed with that."""
        return self.held is not None and self.held.was_needed

    @property
    def is_carried(self) -> bool:
        """Whether it is one value that contains those of all steps before."""
        return self.leak.form in CARRIED


@dataclass(frozen=True, slots=True)
class Traced:
    """What following the lines has told of one suspect.

    Args:
        stores: the lines that were seen to store into it.
        gained: how many items that put into a collection.
        steps: for how many steps lines were followed.
        outlived: file and line of what ran before a store into it, and did not make it shorter.
    """

    stores: Counter[Line]
    gained: int
    steps: int
    outlived: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What is known of a suspect when it is explained.

    Args:
        lines: where it is stored into, the most frequent first.
        statement: the first of them.
        form: how that stores.
        outlived: file and line of what does not empty it.
    """

    suspect: Suspect
    sources: Sources
    rate: float
    lines: Sequence[Line]
    statement: ast.stmt | None
    form: str | None
    outlived: frozenset[tuple[str, int]]

    @property
    def name(self) -> str:
        return self.suspect.holder.name


def explain(suspect: Suspect, traced: Traced, sources: Sources, step: int, rate: float) -> Diagnosed:
    """What is to be said of a place that grew.

    Args:
        suspect: the place.
        traced: what following the lines has told of it.
        sources: the user's files.
        step: the step that has just ended.
        rate: bytes that the program's memory grew in a step, when growth was established.
    """
    seen = _evidence(suspect, traced, sources, rate)
    name, gain = seen.name, suspect.gain
    places = list(dict.fromkeys(sources.place(line.filename, line.number, name) for line in seen.lines))
    made = None if suspect.kind == "hook" or not seen.lines else origin.made_at(sources, seen.lines[0], name)
    kind = _kind(seen, places[0] if places else None, made)
    if kind == "heap" and made is not None and (made.code or "").startswith("for "):
        made = None  # the number of the step, in a row of numbers
    excuse, at = _excuse(seen, kind)
    value = _value(seen)
    leak = Leak(
        kind=kind,
        holder=_without_open_keys(suspect.holder, seen.statement),
        bytes_per_step=None,
        per_step=round(_stores_per_step(suspect, traced), 3),
        explained=None,
        stored_at=places[0] if places else None,
        also_stored_at=tuple(places[1:4]),
        made_at=made,
        form=seen.form,
        operation=suspect.operation if suspect.kind != "hook" else None,
        devices=suspect.devices,
        freed_by_gc=False if kind == "graph" else None,
        advice=advice.for_leak(_advised(suspect, kind), seen.form, name, value, trains=suspect.freed),
    )
    nodes = gain.nodes or gain.attached * max(suspect.graph_nodes, 1.0)
    return Diagnosed(
        leak=leak,
        storage_per_step=(gain.storage + gain.other) / suspect.steps,
        nodes_per_step=nodes / suspect.steps,
        freed=suspect.freed,
        excuse=excuse,
        excuse_at=at,
        step=step,
        rate=rate,
        is_bare=suspect.is_bare,
        held=suspect.held,
        is_made_from_others=_is_made_from_others(seen),
        asked=suspect.asked,
        entries=entries.of(suspect.chain, suspect.root, step) if seen.form == "index" else None,
    )


def _advised(suspect: Suspect, kind: str) -> str:
    """The kind, for the advice: how what it holds came there."""
    if suspect.holder.path == SAVED:
        return "saved"
    if kind == "cache" and suspect.holder.scope != "cache":
        return "iterator"
    return "memo" if kind == "cache" and not suspect.gain.cached else kind


def _value(seen: _Evidence) -> str | None:
    """The variable that is stored, or an item of it, if it is a tensor: a row of tensors has no ``detach()``."""
    if seen.statement is None:
        return None
    is_object = seen.suspect.wraps_tensors and isinstance(stored_value(seen.statement, seen.name), ast.Name)
    return None if is_object else value_code(seen.statement, seen.name)


def _without_open_keys(holder: Holder, statement: ast.stmt | None) -> Holder:
    """The collection, where the statement stores under a key that it computes: ``totals[name] += loss``."""
    path = holder.path.removesuffix("[*]")  # an entry that is bound anew: the collection is what the user knows
    while statement is not None and (key := _LAST_KEY.search(path)) is not None:
        written = {n.value for n in ast.walk(statement) if isinstance(n, ast.Constant)}
        if key[1] in written or not any(isinstance(n, ast.Subscript | ast.Call) for n in ast.walk(statement)):
            break
        path = path[: key.start()]
    return replace(holder, path=path) if path != holder.path else holder


_LAST_KEY = re.compile(r'\["([^"]*)"\]$')


def profiler_events(sources: Sources, step: int, rate: float) -> Diagnosed:
    """What is to be said of growth while a profiler records every step: no variable of the program holds its events."""
    places = [
        sources.place(line.filename, line.number, "profile")
        for line in _calls(sources, r"(?<!\w)(?:profile|emit_nvtx)\(")
    ]
    leak = Leak(
        kind="heap",
        holder=Holder("profile", "events of torch.profiler", "torch.profiler.profile", "internal"),
        bytes_per_step=None,
        per_step=None,
        explained=None,
        stored_at=places[0] if places else None,
        also_stored_at=tuple(places[1:4]),
        devices=("cpu",),
        advice=advice.for_leak("profiler", None, "profile", None, trains=True),
    )
    return Diagnosed(leak, rate, 0.0, False, None, None, step, rate)


def distinct(found: Sequence[Diagnosed]) -> list[Diagnosed]:
    """Each holder once; of variables made from each other, only those that are carried from step to step."""
    own = [each for each in found if not each.is_made_from_others] or found
    return [_together([d for d in own if d.path == path]) for path in dict.fromkeys(each.path for each in own)]


def _together(found: Sequence[Diagnosed]) -> Diagnosed:
    """Several entries of one collection."""
    first = found[0]
    return replace(
        first,
        leak=replace(first.leak, per_step=round(sum(d.leak.per_step or 0.0 for d in found), 3)),
        storage_per_step=sum(d.storage_per_step for d in found),
        nodes_per_step=sum(d.nodes_per_step for d in found),
    )


def _evidence(suspect: Suspect, traced: Traced, sources: Sources, rate: float) -> _Evidence:
    name = suspect.holder.name
    lines = _where_it_begins(suspect, sources)
    if suspect.holder.path != SAVED:  # only a pack hook that returns what it is given makes one
        lines = lines or [line for line, _ in traced.stores.most_common()] or _from_source(suspect, sources)
    statement = sources.statement(lines[0].filename, lines[0].number, name) if lines else None
    form = form_of(statement, name) if statement is not None else None
    if form == "sum" and suspect.entries:
        form = "append"  # `history += [loss]`
    elif form == "index" and statement and _is_by_key(suspect) and adds_to_itself(statement, name):
        form = "sum"  # `sums[key] += loss`
    elif form == "assign" and statement and lifetime.is_joined_to_itself(sources, lines[0].filename, statement, name):
        form = "carried"
    return _Evidence(suspect, sources, rate, lines, statement, form, traced.outlived)


def _is_by_key(suspect: Suspect) -> bool:
    """Whether it is a dict, or an entry of one: what is added to an entry of a tensor becomes a slice of it."""
    return not suspect.entries and any(isinstance(spot.thing, dict) for spot in suspect.chain[-2:])


def _where_it_begins(suspect: Suspect, sources: Sources) -> list[Line]:
    """The statement that makes it a leak, where that is not the one that is seen to store."""
    if suspect.kind == "gradient" or (suspect.kind == "tensor" and suspect.holder.name == "grad"):
        return _calls(sources, r"\.requires_grad_\((?!False)")  # backward stores, but only where it was asked to
    if suspect.kind == "cache" and suspect.holder.scope == "cache":
        code = caches.code_of(spot.thing for spot in suspect.chain)
        return [Line(*place) for place in origin.cached_functions(sources, suspect.holder.name, code)]
    if suspect.kind == "cache":
        return _calls(sources, r"\b(cycle|tee)\(")
    if suspect.holder.path == SAVED:
        return [Line(*place) for place in origin.packed_as_given(sources)]
    if suspect.kind == "optimizer" and suspect.holder.name == "param_groups":
        return _calls(sources, r"\.add_param_group\(")
    return []


def _calls(sources: Sources, pattern: str) -> list[Line]:
    return [Line(filename, statement.lineno) for filename, statement in origin.calls_with(sources, pattern)[:2]]


def _from_source(suspect: Suspect, sources: Sources) -> list[Line]:
    """The statement by reading alone: for what no line of the user's was seen to do."""
    holder = suspect.holder
    if holder.path.startswith("param.grad"):
        found = origin.calls_with(sources, r"\.backward\(.*create_graph=(?!False)")
    elif holder.path == "tensor hook":
        found = origin.calls_with(sources, r"\.register_hook\(")
    elif suspect.kind == "hook":
        found = origin.calls_with(sources, r"\.register_\w*hook\(")
    elif suspect.kind == "cache":
        by_name = origin.calls_with(sources, rf"^{holder.name}\(")  # x.norm() may be anybody's method
        found = by_name or origin.calls_with(sources, rf"\.{holder.name}\(")
    else:
        function = suspect.root.name if holder.scope == "local" and suspect.root else None
        found = origin.storing_statements(sources, holder.name, function, suspect.home)
    return [Line(filename, statement.lineno) for filename, statement in found[:2]]


def _stores_per_step(suspect: Suspect, traced: Traced) -> float:
    gain = suspect.gain
    if suspect.entries and traced.gained:  # seen for longer: what is stored every tenth step is seen a few times only
        return _rate_at_a_store(suspect.entries + traced.gained, suspect.steps + traced.steps)
    counted = suspect.entries or gain.hooks or gain.tensors or gain.attached
    if counted > 0:
        return counted / suspect.steps
    return sum(traced.stores.values()) / max(traced.steps, 1) if traced.stores else 1.0


def _rate_at_a_store(stored: int, steps: int) -> float:
    """Items a step, where the last of ``steps`` has stored one: the first may have come at once, or late."""
    if stored < 2:
        return stored / steps
    return 2 / (steps / stored + (steps - 1) / (stored - 1))


def _is_made_from_others(seen: _Evidence) -> bool:
    if seen.suspect.entries or seen.suspect.root is None or seen.statement is None:
        return False
    return not lifetime.is_carried(seen.sources, seen.lines[0].filename, seen.statement, seen.name)


# --- judgement ----------------------------------------------------------------------------------------------------


def _kind(seen: _Evidence, stored: Place | None, made: Place | None) -> str:
    """What is kept, seen from the statement that keeps it."""
    kind = seen.suspect.kind
    if kind == "tensor" and seen.suspect.holder.name == "grad":
        return "gradient"
    if kind in ("tensor", "view"):
        code = " ".join(place.code or "" for place in (stored, made) if place is not None)
        if "state_dict" in code or "deepcopy" in code:
            return "snapshot"
        if ".grad" in code:
            return "gradient"
        if seen.form in CARRIED:
            return "tensor"
    if kind in ("tensor", "heap") and _is_collected(seen):
        return "collected"
    return kind


def _is_collected(seen: _Evidence) -> bool:
    """Results collected on purpose: without a graph, in a variable of the loop's own function that is used later."""
    suspect = seen.suspect
    if suspect.entries == 0 or seen.statement is None or suspect.gain.storage + suspect.gain.other < LEAST_BYTES:
        return suspect.kind == "heap"
    return suspect.holder.scope in ("local", "global") and lifetime.read_after_loop(
        seen.sources, seen.lines[0].filename, seen.statement, seen.name
    )


def _excuse(seen: _Evidence, kind: str) -> tuple[str | None, Place | None]:
    """Why growth is none: what only a look at the place and at the source can tell."""
    suspect = seen.suspect
    is_carried = seen.form in (*CARRIED, "index") and not (seen.statement and bounds.keeps_the_last(seen.statement))
    if suspect.inputs and (suspect.gain.attached > 0 or not is_carried):
        return "items" if any(each.label == ANY_ITEM for each in suspect.chain) else "inputs", None
    suspect.maxlen = suspect.maxlen or _written_bound(seen)
    if _is_filling(suspect, kind, seen.rate) or _is_cache_of_items(seen):
        return "filling", None
    if suspect.root is None or kind in ("hook", "cache", "cycle"):
        return None, None
    trimmed = _trimmed(seen)
    if trimmed is not None:
        return "emptied", place_of(seen.lines[0].filename, trimmed[0])
    # A sum that starts anew with each epoch is the classic leak all the same, and so is a list that is local to it.
    if suspect.entries > 0 and suspect.holder.scope != "local":
        key = _LAST_KEY.search(suspect.holder.path)
        stored = (seen.lines[0].filename, seen.statement) if seen.statement is not None else None
        emptied = lifetime.emptied_in_a_loop(
            seen.sources, seen.name, suspect.holder.scope, suspect.home, seen.outlived, key[1] if key else None, stored
        )
        if emptied is not None:
            return "emptied", emptied
    if seen.statement is not None:
        consumed = lifetime.backpropagated_after_loop(seen.sources, seen.lines[0].filename, seen.statement, seen.name)
        if consumed is not None:
            return "consumed", consumed
    return None, None


def _written_bound(seen: _Evidence) -> int | None:
    """How many items the statements let the collection have; 1 where it has a bound whose value is not known.

    Of graphs only a number that is written there counts: what a setting says may be anything.
    """
    source = seen.sources.get(seen.lines[0].filename) if seen.lines else None
    if source is None or seen.statement is None:
        return None
    bound = bounds.index_of_ring(seen.statement, seen.name)
    if bound is None and _items_gained(seen.suspect):
        bound = bounds.bound_of(source, seen.statement, seen.name) if not seen.suspect.gain.attached else None
        trimmed = _trimmed(seen)
        bound = bound or (trimmed[1] if trimmed is not None else None)
    if isinstance(bound, ast.Constant):
        return bound.value if type(bound.value) is int else None
    if seen.suspect.gain.attached:
        return None
    if isinstance(bound, ast.Attribute) and len(seen.suspect.chain) > 1:
        value = step_into(seen.suspect.chain[-2].thing, f".{bound.attr}")
        return value if type(value) is int and value > 1 else 1
    return 1 if bound is not None else None


def _items_gained(suspect: Suspect) -> int:
    """How many items a collection gained; of a list that is bound anew, ``rows = rows[-100:]``, the tensors in it."""
    is_list = suspect.holder.type in ("list", "collections.deque")
    return suspect.entries or (suspect.gain.tensors if is_list else 0)


def _trimmed(seen: _Evidence) -> tuple[ast.stmt, ast.expr] | None:
    """The statement that keeps the collection short, with the length, where one does."""
    source = seen.sources.get(seen.lines[0].filename) if seen.lines else None
    if source is None or seen.statement is None or not _items_gained(seen.suspect):
        return None
    return bounds.trimmed_at(source, seen.statement, seen.name)


def _is_cache_of_items(seen: _Evidence) -> bool:
    """Whether a data set keeps each item that it was asked for: ``self.cache[index] = ...`` in ``__getitem__``."""
    if seen.statement is None or seen.form != "index" or seen.suspect.gain.attached > 0:
        return False
    source = seen.sources.get(seen.lines[0].filename)
    function = source.function_of(seen.statement) if source is not None else None
    if not isinstance(function, ast.FunctionDef) or function.name != "__getitem__":
        return False
    index = function.args.args[1].arg if len(function.args.args) > 1 else ""
    keys = [t.slice for t in ast.walk(seen.statement) if isinstance(t, ast.Subscript) and isinstance(t.ctx, ast.Store)]
    return any(isinstance(key, ast.Name) and key.id == index for key in keys)


def _is_filling(suspect: Suspect, kind: str, rate: float) -> bool:
    """Whether it is a bounded buffer that may well become full."""
    if kind == "optimizer" and any(spot.label == ".state" for spot in suspect.chain[:-1]):
        return True  # the history of LBFGS, up to its history_size
    if suspect.is_in_block:
        return True
    entries = _items_gained(suspect) or suspect.gain.attached or (suspect.gain.tensors if kind == "cache" else 0)
    if suspect.maxlen is None or entries <= 0:
        return False
    if suspect.gain.attached and suspect.maxlen >= LONG_BUFFER:
        return False
    visible = suspect.gain.storage / suspect.steps
    per_step = max(rate, visible) if suspect.gain.attached else visible
    return per_step * suspect.steps / entries * suspect.maxlen < LARGE_BUFFER

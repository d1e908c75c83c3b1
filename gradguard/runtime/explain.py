"""From a place that grew to what is said of it: what it keeps, stored by which statement, and by what edit it ends."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType

from gradguard.findings import Holder, Leak, Place
from gradguard.runtime import advice, entries, excuses, lifetime, origin
from gradguard.runtime.contexts import OF_CONTEXT
from gradguard.runtime.diagnosed import CARRIED, Diagnosed
from gradguard.runtime.evidence import LAST_KEY, Evidence, Traced, calls, evidence
from gradguard.runtime.holders import LEAST_BYTES, SAVED, Suspect
from gradguard.runtime.source import Sources
from gradguard.runtime.stores import changed_in_place, form_of, stored_value, target_code, value_code


def explain(
    suspect: Suspect,
    traced: Traced,
    sources: Sources,
    step: int,
    rate: float,
    frames: Sequence[FrameType] = (),
) -> Diagnosed:
    """What is to be said of a place that grew.

    Args:
        suspect: the place.
        traced: what following the lines has told of it.
        sources: the user's files.
        step: the step that has just ended.
        rate: bytes that the program's memory grew in a step, when growth was established.
        frames: the user's that are live.
    """
    seen = evidence(suspect, traced, sources, rate, frames)
    name, gain = seen.name, suspect.gain
    places = list(dict.fromkeys(sources.place(line.filename, line.number, name) for line in seen.lines))
    made = None if suspect.kind == "hook" or not seen.lines else origin.made_at(sources, seen.lines[0], name)
    kind = _kind(seen, places[0] if places else None, made)
    if kind == "heap" and made is not None and (made.code or "").startswith("for "):
        made = None  # the number of the step, in a row of numbers
    excuse, at = excuses.excuse(seen, kind)
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
        advice=_advice(seen, kind),
    )
    nodes = gain.nodes or gain.natives or gain.attached * max(suspect.graph_nodes, 1.0)
    return Diagnosed(
        leak=leak,
        storage_per_step=gain.data / suspect.steps,
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
        # An entry whose graph contains that which it had before grows, however many entries there are.
        entries=entries.of(suspect.chain, suspect.root, step)
        if kind == "hook" or (seen.form == "index" and not gain.nodes)
        else None,
    )


def _advice(seen: Evidence, kind: str) -> str:
    form, suspect, statement = _advised_form(seen), seen.suspect, seen.statement
    return advice.for_leak(
        _advised(suspect, kind),
        form,
        target_code(statement, seen.name) if statement is not None and form == "carried" else seen.name,
        _value(seen),
        trains=suspect.freed,
        holds=suspect.holder.type,
    )


def _advised(suspect: Suspect, kind: str) -> str:
    """The kind, for the advice: how what it holds came there."""
    if suspect.holder.path == SAVED:
        return "saved"
    if suspect.holder.path.startswith(OF_CONTEXT):
        return "context"
    if kind == "cache" and suspect.holder.scope != "cache":
        return "iterator"
    if kind == "optimizer" and suspect.holder.name == "state":
        keys = list(suspect.spot.thing)[-1:] if isinstance(suspect.spot.thing, dict) else []
        return "left" if all(getattr(key, "requires_grad", True) for key in keys) else "keyed"
    return "memo" if kind == "cache" and not suspect.gain.cached else kind


def _advised_form(seen: Evidence) -> str | None:
    """The form, for the advice: of an entry, that which is stored there is cut, and not the whole collection."""
    is_entry = seen.statement is not None and form_of(seen.statement, seen.name) == "index"
    return "index" if seen.form == "carried" and is_entry else seen.form


def _value(seen: Evidence) -> str | None:
    """The variable that is stored, or an item of it, if it is a tensor: a row of tensors has no ``detach()``."""
    if seen.statement is None:
        return None
    is_object = seen.suspect.wraps_tensors and isinstance(stored_value(seen.statement, seen.name), ast.Name)
    return None if is_object else value_code(seen.statement, seen.name)


def _without_open_keys(holder: Holder, statement: ast.stmt | None) -> Holder:
    """The collection, where the statement stores under a key that it computes: ``totals[name] += loss``."""
    path = holder.path.removesuffix("[*]")  # an entry that is bound anew: the collection is what the user knows
    while statement is not None and (key := LAST_KEY.search(path)) is not None:
        written = {n.value for n in ast.walk(statement) if isinstance(n, ast.Constant)}
        if key[1] in written or isinstance(changed_in_place(statement), ast.Name):
            break
        if not any(isinstance(n, ast.Subscript | ast.Call) for n in ast.walk(statement)):
            break
        path = path[: key.start()]
    return replace(holder, path=path) if path != holder.path else holder


def profiler_events(sources: Sources, step: int, rate: float) -> Diagnosed:
    """What is to be said of growth while a profiler records every step: no variable of the program holds its events."""
    places = [
        sources.place(line.filename, line.number, "profile")
        for line in calls(sources, r"(?<!\w)(?:profile|emit_nvtx)\(")
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


def _is_made_from_others(seen: Evidence) -> bool:
    if seen.suspect.entries or seen.suspect.root is None or seen.statement is None:
        return False
    return not lifetime.is_carried(seen.sources, seen.lines[0].filename, seen.statement, seen.name)


def _kind(seen: Evidence, stored: Place | None, made: Place | None) -> str:
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


def _is_collected(seen: Evidence) -> bool:
    """Results collected on purpose: without a graph, in a variable of the loop's own function that is used later."""
    suspect, gain = seen.suspect, seen.suspect.gain
    is_light = gain.storage + gain.other < LEAST_BYTES and not gain.natives
    if suspect.entries == 0 or seen.statement is None or is_light:
        return suspect.kind == "heap"
    return suspect.holder.scope in ("local", "global") and lifetime.read_after_loop(
        seen.sources, seen.lines[0].filename, seen.statement, seen.name
    )

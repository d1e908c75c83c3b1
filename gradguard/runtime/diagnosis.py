"""From "it grows" to "this variable, by this statement": a few dear looks, taken once growth is established.

Baseline census, second census some steps later, then the lines of a few steps. What is found is explained with the
source. Nothing of the user's is kept when it is over.
"""

from __future__ import annotations

import ast
import gc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING

from gradguard.findings import Leak, Place
from gradguard.runtime import advice, census, origin
from gradguard.runtime.holders import LEAST_BYTES, Suspect, compare, describe
from gradguard.runtime.roots import Root
from gradguard.runtime.tracer import Line, Tracer

if TYPE_CHECKING:
    from gradguard.runtime.sensors.graphs import Held
    from gradguard.runtime.torch_internals import TorchInternals

BETWEEN = 12
"""Steps between the two censuses; more each time nothing is found."""

MAX_LOOKS = 3
MAX_SUSPECTS = 4
LARGE_BUFFER = 512 << 20
"""A bounded buffer that will hold more than this many bytes when it is full is as good as unbounded."""


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """A place that grows, explained.

    Args:
        leak: without its bytes per step, which the signals tell.
        storage_per_step: bytes of tensors that Python sees, in a step.
        nodes_per_step: autograd nodes, in a step.
        freed: the graphs were backpropagated: nodes are left, and no saved tensors.
        excuse: why it is no leak after all: emptied, consumed, filling, inputs; None when it is one.
        excuse_at: the statement that says so.
        step: when it was found.
        rate: bytes that the program's memory grew in a step, then.
        held: the graph that was stored last, when it was found.
    """

    leak: Leak
    storage_per_step: float
    nodes_per_step: float
    freed: bool
    excuse: str | None
    excuse_at: Place | None
    step: int
    rate: float = 0.0
    held: Held | None = None

    @property
    def is_certain(self) -> bool:
        """Whether it is a leak before the run is over: what holds no graph may be a cache that is being filled."""
        return self.excuse is None and self.leak.kind in ("graph", "hook", "cycle", "exception")

    @property
    def is_retracted(self) -> bool:
        """Whether it was needed after all: backpropagated since, and then freed."""
        return self.held is not None and self.held.consumed and self.held.released

    @property
    def is_carried(self) -> bool:
        """One value that contains those of all steps before, not a collection of them."""
        return self.leak.form in ("sum", "average", "carried")


class Diagnosis:
    """One escalation.

    Args:
        internals: of torch.
        handles: counts hook handles.
        rate: how many bytes the program's memory grows in a step, now.
    """

    def __init__(self, internals: TorchInternals, handles: Callable[[], int] | None, rate: Callable[[], float]) -> None:
        self.seconds = 0.0
        self.found: list[Diagnosed] = []
        self.notes: list[str] = []
        self.is_over = False
        self._torch = internals
        self._handles = handles
        self._rate = rate
        self._rate_at_first = 0.0
        self._before: census.Census | None = None
        self._due = 0
        self._looks = 0
        self._suspects: list[Suspect] = []
        self._tracer: Tracer | None = None

    @property
    def is_tracing(self) -> bool:
        """Whether the lines are being followed now."""
        return self._tracer is not None

    def begin(self, step: int, frame: FrameType | None) -> None:
        """Take the baseline."""
        self._rate_at_first = self._rate()
        self._before = self._census(step, frame, mark=True)
        self._before.forget()
        self._due = step + BETWEEN

    def on_step(self, step: int, frame: FrameType | None) -> None:
        """Go on, at the end of a step."""
        start = perf_counter()
        if self._tracer is not None:
            if self._tracer.is_done():
                self._explain(step)
        elif self._before is not None and step >= self._due:
            self._look(step, frame)
        self.seconds += perf_counter() - start

    def end(self, step: int) -> None:
        """Stop at once, with what is known."""
        if self._tracer is not None:
            self._explain(step)
        self._close()

    def _census(self, step: int, frame: FrameType | None, *, mark: bool) -> census.Census:
        enabled = gc.isenabled()
        gc.disable()  # a collection in the midst would be ours, and would free what only cycles hold
        try:
            taken = census.take(step, frame, self._torch, mark=mark)
        finally:
            if enabled:
                gc.enable()
        if not taken.complete:
            self._note("the program holds too many objects to look at all of them; some were left out")
        return taken

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _look(self, step: int, frame: FrameType | None) -> None:
        assert self._before is not None
        after = self._census(step, frame, mark=False)
        self._suspects = compare(self._before, after)[:MAX_SUSPECTS]
        self._looks += 1
        for suspect in self._suspects:
            _detach(suspect, self._torch.tensor_type)
        kept = {id(spot) for suspect in self._suspects for spot in suspect.chain}
        for spot in list(after.top.walk()):
            spot.slots = []
            spot.below = {}
            if id(spot) not in kept:
                spot.thing = spot.parent = None
        after.roots = {}
        if self._suspects:
            self._trace(step, frame)
        elif self._looks < MAX_LOOKS:
            self._due = step + BETWEEN * 2**self._looks
        else:
            self._close()

    def _trace(self, step: int, frame: FrameType | None) -> None:
        tracer = Tracer(self._suspects, self._handles)
        for suspect in self._suspects:
            if suspect.root is not None:  # the probe has the frame, for as long as it runs
                suspect.root = Root(suspect.root.name, suspect.root.scope, {}, None)
        if self._torch.has_compiled():
            self._note("torch.compile is in use: statements were found by reading the source, not by following the run")
        elif tracer.start(frame):
            self._tracer = tracer
            return
        else:
            self._note(
                "another tracer is active: statements were found by reading the source, not by following the run"
            )
        self._tracer = tracer
        self._explain(step)

    def _explain(self, step: int) -> None:
        tracer = self._tracer
        assert tracer is not None
        tracer.stop()
        if tracer.broken:
            self._note(f"following the lines failed: {tracer.broken}")
        self.seconds += tracer.seconds
        sources = origin.Sources()
        found = []
        for suspect, stores, levels in zip(self._suspects, tracer.stores, tracer.rebound):
            _outermost(suspect, levels)
            found.append(_explained(suspect, stores, max(tracer.steps, 1), sources, step, self._rate_at_first))
        self.found = [each for each in _distinct(found, sources) if each is not None]
        self._close()

    def _close(self) -> None:
        if self._tracer is not None:
            self._tracer.stop()
            self._tracer = None
        if self._before is not None:
            self._before.dissolve()
            self._before = None
        for suspect in self._suspects:
            for spot in suspect.chain:
                spot.thing = spot.parent = None
        self._suspects = []
        self.is_over = True


def _detach(suspect: Suspect, tensor_type: type) -> None:
    """Keep no tensor of the user's alive while the lines are followed."""
    for spot in suspect.chain:
        if isinstance(spot.thing, tensor_type):
            spot.thing = None


def _outermost(suspect: Suspect, levels: Counter[int]) -> None:
    """Name the variable that is bound anew, when what was taken for the holder is only a part of its value."""
    if not levels or not suspect.chain or suspect.root is None:
        return
    level, _ = levels.most_common(1)[0]
    if level < len(suspect.chain) - 1 and suspect.entries == 0:
        suspect.chain = suspect.chain[: level + 1]
        type_name = suspect.holder.type if suspect.spot.thing is None else None
        described = describe(suspect.chain, suspect.root, suspect.kind)
        suspect.holder = replace(described, type=type_name) if type_name else described


def _distinct(found: list[_Explained], sources: origin.Sources) -> list[Diagnosed]:
    """Of values made from each other, only the one that is carried from step to step."""
    carried = [each for each in found if each.is_carried]
    slots = [each for each in found if each.is_slot]
    kept = [each for each in found if not each.is_slot or each.is_carried or not any(c.is_slot for c in carried)]
    names = set()
    result = []
    for each in kept if slots else found:
        holder = each.diagnosed.leak.holder
        if holder is not None and holder.path not in names:
            names.add(holder.path)
            result.append(each.diagnosed)
    return result


@dataclass(frozen=True, slots=True)
class _Explained:
    diagnosed: Diagnosed
    is_slot: bool
    is_carried: bool


def _explained(
    suspect: Suspect, stores: Counter[Line], traced: int, sources: origin.Sources, step: int, rate: float
) -> _Explained:
    name = suspect.holder.name
    lines = [line for line, _ in stores.most_common()] or _from_source(suspect, sources)
    statement = sources.statement(lines[0].filename, lines[0].number, name) if lines else None
    places = list(dict.fromkeys(sources.place(line.filename, line.number, name) for line in lines))
    form = origin.form_of(statement, name) if statement is not None else None
    if form == "sum" and suspect.entries:
        form = "append"  # `history += [loss]`
    made = origin.made_at(sources, lines[0].filename, lines[0].number, name, lines[0].caller) if lines else None
    kind = _kind(suspect, places[0] if places else None, made, form)
    excuse, at = _excuse(suspect, kind, form, statement, lines, sources, rate)
    if kind in ("tensor", "heap") and _is_collected(suspect, statement, lines, sources):
        kind = "collected"
    gain = suspect.gain
    counted = suspect.entries or gain.hooks or gain.tensors or gain.attached
    per_step = counted / suspect.steps if counted > 0 else (sum(stores.values()) / traced if stores else 1.0)
    leak = Leak(
        kind=kind,
        holder=suspect.holder,
        bytes_per_step=None,
        per_step=round(per_step, 3),
        explained=None,
        stored_at=places[0] if places else None,
        also_stored_at=tuple(places[1:4]),
        made_at=None if kind == "hook" else made,
        form=form,
        operation=None if kind == "hook" else suspect.operation,
        devices=suspect.devices,
        freed_by_gc=False if kind == "graph" else None,
        advice=advice.for_leak(kind, form, name, _value_code(statement, name), trains=suspect.freed),
    )
    storage = (gain.storage + gain.other) / suspect.steps
    nodes = gain.nodes or gain.attached * max(suspect.graph_nodes, 1.0)
    diagnosed = Diagnosed(leak, storage, nodes / suspect.steps, suspect.freed, excuse, at, step, rate, suspect.held)
    is_slot = suspect.entries == 0 and suspect.root is not None
    is_carried = is_slot and (statement is None or origin.is_carried(sources, lines[0].filename, statement, name))
    return _Explained(diagnosed, is_slot, is_carried)


def _value_code(statement: ast.stmt | None, name: str) -> str | None:
    if statement is None:
        return None
    value = origin.value_name(statement, name)
    return value or None


def _from_source(suspect: Suspect, sources: origin.Sources) -> list[Line]:
    """The statement by reading alone: for what no line of the user's was seen to do."""
    holder = suspect.holder
    if holder.path.startswith("param.grad"):
        found = origin.calls_with(sources, r"\.backward\(.*create_graph=(?!False)")
    elif holder.path == "tensor hook":
        found = origin.calls_with(sources, r"\.register_hook\(")
    elif suspect.kind == "hook":
        found = origin.calls_with(sources, r"\.register_\w*hook\(")
    elif suspect.kind == "cache":
        found = origin.calls_with(sources, rf"(^|\.){holder.name}\(")
    else:
        function = suspect.root.name if holder.scope == "local" and suspect.root else None
        found = origin.storing_statements(sources, holder.name, function, suspect.home)
    return [Line(filename, statement.lineno) for filename, statement in found[:2]]


# --- judgement ----------------------------------------------------------------------------------------------------


def _kind(suspect: Suspect, stored: Place | None, made: Place | None, form: str | None) -> str:
    """What is kept, seen from the statement that keeps it."""
    code = " ".join(place.code or "" for place in (stored, made) if place is not None)
    if suspect.kind in ("tensor", "view"):
        if "state_dict" in code or "deepcopy" in code:
            return "snapshot"
        if ".grad" in code:
            return "gradient"
        if form in ("sum", "average", "carried"):
            return "tensor"
    return suspect.kind


def _excuse(
    suspect: Suspect,
    kind: str,
    form: str | None,
    statement: ast.stmt | None,
    lines: list[Line],
    sources: origin.Sources,
    rate: float,
) -> tuple[str | None, Place | None]:
    """Why growth is none: what only a look at the place and at the source can tell."""
    if suspect.inputs and (suspect.gain.attached > 0 or form not in ("sum", "average", "carried", "index")):
        return "inputs", None
    if kind == "optimizer" and any(spot.label == ".state" for spot in suspect.chain):
        return "filling", None  # the history of LBFGS, up to its history_size
    if suspect.maxlen is not None and suspect.entries:
        visible = suspect.gain.storage / suspect.steps
        entries = suspect.entries / suspect.steps
        if (max(rate, visible) if suspect.gain.attached else visible) / entries * suspect.maxlen < LARGE_BUFFER:
            return "filling", None
    if suspect.root is None or kind in ("hook", "cache", "cycle"):
        return None, None
    # A sum that starts anew with each epoch is the classic leak all the same, and so is a list that is local to it.
    bounded = suspect.entries > 0 and suspect.holder.scope != "local"
    emptied = bounded and origin.emptied_in_a_loop(sources, suspect.holder.name, suspect.holder.scope, suspect.home)
    if emptied:
        return "emptied", emptied
    if statement is not None:
        consumed = origin.backpropagated_after_loop(sources, lines[0].filename, statement, suspect.holder.name)
        if consumed is not None:
            return "consumed", consumed
    return None, None


def _is_collected(suspect: Suspect, statement: ast.stmt | None, lines: list[Line], sources: origin.Sources) -> bool:
    """Results collected on purpose: without a graph, in a local that is used when the loop is over."""
    if suspect.entries == 0 or statement is None or suspect.gain.storage + suspect.gain.other < LEAST_BYTES:
        return suspect.kind == "heap"
    return suspect.holder.scope == "local" and origin.read_after_loop(
        sources, lines[0].filename, statement, suspect.holder.name
    )

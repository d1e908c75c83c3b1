"""What waits for the cyclic collector, over a run: how much at once, and whether more comes.

If the collector frees some objects in every step, or if memory grows and no variable explains it, a look at what is
garbage now tells what refers to itself (:mod:`gradguard.runtime.garbage`). What such a look has found is freed, unless
the program has switched the collector off. Only what is there again in a later look is worth a word: what a program
throws away once is not.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradguard.findings import Leak
from gradguard.runtime import advice
from gradguard.runtime.bases import Bases
from gradguard.runtime.collector import BETWEEN, Collector
from gradguard.runtime.diagnosed import Diagnosed
from gradguard.runtime.garbage import Circle, Waiting, sorted_out, statements_of, unreachable
from gradguard.runtime.source import Sources

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals

LOOKS = 4
"""After so many looks the next is at twice the step: what begins to grow late must be told from a saw-tooth, too."""

NOW_AND_THEN = 2
"""Collections by a program that has switched the collector off: the cycles are meant to wait for the next."""

LARGE = 1 << 20
"""Bytes: less garbage than this, of a class that is no module, is not worth a word."""


@dataclass(slots=True)
class _Kind:
    """One sort of garbage.

    Args:
        circle: what closes the circle.
        is_model: as in :class:`Waiting`.
        with_model: as there.
        count: objects at the last look.
        size: the most bytes of tensors at one look.
        rate: bytes a step that came, at least: what waited at one look, since the look before.
        is_again: more was there at a later look.
        freed_before: bytes that the collector had freed when it was seen first, that look included.
        devices: where the tensors are.
    """

    circle: Circle
    is_model: bool
    with_model: bool = False
    count: int = 0
    size: int = 0
    rate: float = 0.0
    is_again: bool = False
    freed_before: int = 0
    devices: set[str] = field(default_factory=set)


class Cycles:
    """Looks at what is garbage, a few times.

    Args:
        collector: says what its collections free.
        note: called with what the reader of the report should know.
        memory: bytes in use now, by signal.
    """

    def __init__(
        self, collector: Collector, note: Callable[[str], None], memory: Callable[[], Mapping[str, float]] = dict
    ) -> None:
        self.looks = 0
        self.bases = Bases()
        """What is in use when nothing waits."""
        self._collector = collector
        self._note = note
        self._memory = memory
        self._kinds: dict[object, _Kind] = {}
        self._last = self._next = 0
        self._began = 0
        self._freed_at_first = 0
        self._waits = not gc.isenabled()

    def is_due(self, step: int) -> bool:
        """Whether a look now may tell more than those before."""
        return step >= self._next

    @property
    def has_suspects(self) -> bool:
        """Whether something was seen that may come again."""
        return bool(self._kinds)

    def look(self, step: int, internals: TorchInternals, *, is_last: bool = False) -> None:
        """See what is garbage at the end of ``step``, and free it if the program lets the collector run.

        Args:
            step: the step that has just ended.
            internals: of torch.
            is_last: the program may be over: what it has used all the time is garbage now.
        """
        self.looks += 1
        self._next = step + BETWEEN * self.looks if self.looks < LOOKS else 2 * step
        self._waits = not gc.isenabled()
        with self._collector.own():
            garbage = unreachable()
            for key, waiting in sorted_out(garbage, internals).items():
                kind = self._kinds.setdefault(key, _Kind(waiting.circle, waiting.is_model))
                _add(kind, waiting, step - self._last, waits=self._waits, fewest=2 if is_last else 1)
            self._collector.measures = bool(self._kinds)
            del garbage
            if not self._waits:
                gc.collect()
                self._last = step
        if not self._waits and not is_last:
            self.bases.add(step, self._memory())
        for kind in self._kinds.values():
            kind.freed_before = kind.freed_before or self._collector.freed
        if self.looks == 1:
            self._began, self._freed_at_first = step, self._collector.freed

    def coming_back(self, step: int) -> float:
        """Bytes a step that the collector frees; 0 where the program has switched it off.

        What was freed on the host since the first look, or what was seen to wait on all devices, if that is more.
        """
        if self._waits:
            return 0.0
        freed = max(self._collector.freed - self._freed_at_first, 0) / max(step - self._began, 1)
        return max(freed, sum(kind.rate for kind in self._kinds.values() if kind.is_again))

    def found(self, step: int) -> list[Diagnosed]:
        """The leaks, at the end; none where the program runs the collector itself, now and then."""
        if self._collector.by_hand >= NOW_AND_THEN:
            return []
        sources = Sources()
        everything = sum(kind.size for kind in self._kinds.values())
        found = []
        for kind in self._kinds.values():
            share = kind.size / everything if everything else 1.0
            peak = max(int(self._collector.peak * share), kind.size)
            if self._goes_on(kind, share) and (kind.is_model or peak >= LARGE):
                found.append(self._diagnosed(kind, sources, step, share))
                self._note(_waited(kind, peak, is_off=self._waits))
        return found

    def _goes_on(self, kind: _Kind, share: float) -> bool:
        """Whether more of it came: a look may have come just after a collection, and seen nothing."""
        freed = self._collector.freed - kind.freed_before
        return kind.is_again or (share > 0.5 and not self._waits and freed >= max(2 * kind.size, LARGE))

    def _diagnosed(self, kind: _Kind, sources: Sources, step: int, share: float) -> Diagnosed:
        rate = max(self.coming_back(step) * share, kind.rate)
        places = statements_of(kind.circle, sources)
        leak = Leak(
            kind="cycle",
            holder=kind.circle.holder,
            bytes_per_step=None,
            per_step=None,
            explained=None,
            stored_at=places[0] if places else None,
            also_stored_at=tuple(places[1:4]),
            freed_by_gc=True,
            devices=tuple(sorted(kind.devices)) or ("cpu",),
            advice=advice.for_garbage(kind.circle.sort, kind.circle.holder.name),
        )
        return Diagnosed(
            leak, rate, 0.0, False, None, None, step, rate, comes_back=not self._waits, with_model=kind.with_model
        )


def _add(kind: _Kind, waiting: Waiting, steps: int, *, waits: bool, fewest: int) -> None:
    # What was seen before is still there only where nobody has freed it.
    fresh = waiting.count - (kind.count if waits else 0)
    kind.is_again |= kind.count > 0 and fresh >= fewest
    kind.count = waiting.count
    kind.with_model |= waiting.with_model
    kind.devices |= waiting.devices
    kind.size = max(kind.size, waiting.size)
    kind.rate = max(kind.rate, waiting.size / max(steps, 1))


def _waited(kind: _Kind, peak: int, *, is_off: bool) -> str:
    path = kind.circle.holder.path
    if is_off:
        return f"{peak / 1e6:.1f} MB wait behind `{path}`: the cyclic collector is off; `gc.collect()` frees them"
    return f"up to {peak / 1e6:.1f} MB waited behind `{path}` at once, until the cyclic collector freed them"

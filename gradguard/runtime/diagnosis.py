"""From "it grows" to "this variable, by this statement": a few dear looks, taken once growth is established.

Baseline census, second census some steps later, then the lines of a few steps. What is found is explained with the
source. Nothing of the user's is kept when it is over.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from time import thread_time
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from gradguard.runtime import caches, census, left_threads
from gradguard.runtime.collector import paused
from gradguard.runtime.diagnosed import Diagnosed, distinct
from gradguard.runtime.evidence import Traced
from gradguard.runtime.explain import explain, profiler_events
from gradguard.runtime.holders import SAVED, Suspect, compare
from gradguard.runtime.naming import describe
from gradguard.runtime.roots import Root
from gradguard.runtime.source import Sources
from gradguard.runtime.tracer import Tracer
from gradguard.runtime.usercode import user_frames
from gradguard.runtime.verdict import bytes_per_step

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals
    from gradguard.runtime.trend import Trend

BETWEEN = 12
"""Steps between the two censuses; more each time nothing is found."""

MAX_LOOKS = 3
"""After these, looks go on for as many steps again as the run had had: what is stored rarely is stored again."""

MAX_SECONDS = 1.0
"""Of own work, after which no look is waited for: one beside a million objects takes a third of that."""

MAX_SUSPECTS = 4

FEW_HOOKS = 4
"""Of one module: fewer may only be there at the moment. One that gets no more afterwards has settled."""


class Diagnosis:
    """One escalation.

    Args:
        internals: of torch.
        handles: counts hook handles.
        growing: the signals that grow steadily, now.
    """

    def __init__(
        self, internals: TorchInternals, handles: Callable[[], int] | None, growing: Callable[[], dict[str, Trend]]
    ) -> None:
        self.seconds = 0.0
        self.found: list[Diagnosed] = []
        self.notes: list[str] = []
        self.is_over = False
        self._torch = internals
        self._handles = handles
        self._growing = growing
        self._rate_at_first = 0.0
        self._hooks_grow = self._heap_grows = False
        self._before: census.Census | None = None
        self._threads: Counter[CodeType] = Counter()
        self._began = self._due = 0
        self.in_vain = 0
        self._looks = 0
        self._suspects: list[Suspect] = []
        self._tracer: Tracer | None = None

    def begin(self, step: int, frame: FrameType | None) -> None:
        """Take the baseline."""
        start = thread_time()
        growing = self._growing()
        self._rate_at_first = bytes_per_step(growing)
        self._hooks_grow, self._heap_grows = "hooks" in growing, "heap" in growing
        self._before = self._census(step, frame, mark=True)
        self._before.forget()
        self._began, self._due = step, step + BETWEEN
        self._threads = left_threads.counted()
        self.seconds += thread_time() - start

    def next_step(self, step: int) -> int:
        """The step after ``step`` at which there is something to do."""
        return step + 1 if self._tracer is not None else max(self._due, step + 1)

    def on_step(self, step: int, frame: FrameType | None) -> None:
        """Go on, at the end of a step."""
        start = thread_time()
        if self._tracer is not None:
            if self._tracer.is_done():
                self._explain(step, frame)
        elif self._before is not None and step >= self._due:
            self._look(step, frame)
        self.seconds += thread_time() - start

    def end(self, step: int) -> None:
        """Stop at once, with what is known."""
        if self._tracer is None:
            self._drop_light_ones()
        if self._tracer is None and self._suspects:
            self._tracer = Tracer(self._suspects, self._handles)  # it has seen nothing: the source will tell
        if self._tracer is not None:
            self._explain(step, sys._getframe())
        self._close()

    def abandon(self) -> None:
        """Stop at once, and say nothing."""
        self._close()

    def _census(self, step: int, frame: FrameType | None, *, mark: bool) -> census.Census:
        with paused():  # a collection in the midst would be ours, and would free what only cycles hold
            taken = census.take(step, frame, self._torch, mark=mark)
        if not taken.complete:
            self._note("the program holds too many objects to look at all of them; some were left out")
        return taken

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _are_left(self, suspect: Suspect) -> bool:
        """Whether hooks of a module are left there, again and again: a few may only be there at the moment.

        Those of each validation are too rare for the count of all hooks to show a trend.
        """
        hooks = suspect.gain.hooks
        return self._hooks_grow or hooks >= suspect.steps // 4 or (self._heap_grows and hooks >= FEW_HOOKS)

    def _look(self, step: int, frame: FrameType | None) -> None:
        assert self._before is not None
        after = self._census(step, frame, mark=False)
        found = compare(self._before, after, heap_grows=self._heap_grows)
        self._suspects = [s for s in found if s.kind != "hook" or self._are_left(s)][:MAX_SUSPECTS]
        self._looks += 1
        for suspect in self._suspects:
            _detach(suspect, self._torch.tensor_type)
            things = (spot.thing for spot in suspect.chain)
            suspect.asked = caches.asked(self._before.step, self._before.missed, things)
        kept = {id(spot) for suspect in self._suspects for spot in suspect.chain}
        for spot in list(after.top.walk()):
            spot.slots = []
            spot.below = {}
            if id(spot) not in kept:
                spot.thing = spot.parent = None
        after.roots = {}
        if self._suspects and all(s.is_rare for s in self._suspects):
            if self._wait(step):
                self._let_go()
                return
            self._drop_light_ones()
        if self._suspects:
            self._trace(step, frame)
            return
        self.in_vain += 1
        self.found = self._in_no_variable(step)
        if self.found or not self._wait(step):
            self._close()

    def _in_no_variable(self, step: int) -> list[Diagnosed]:
        """What grows where no variable of the program leads."""
        if self._torch.is_profiling():
            return [profiler_events(Sources(), step, self._rate_at_first)]
        left = left_threads.grown(self._threads, step - self._began)
        return [left_threads.explained(left, Sources(), step, self._rate_at_first)] if left is not None else []

    def _drop_light_ones(self) -> None:
        """One graph more in a collection may be the growth: only more of them tell."""
        self._suspects = [s for s in self._suspects if not (s.is_rare and s.is_light)]

    def _let_go(self) -> None:
        """Keep of the suspects what can be told of them, and nothing of the user's."""
        for suspect in self._suspects:
            if suspect.root is not None:
                suspect.root = Root(suspect.root.name, suspect.root.scope, {}, None)
            for spot in suspect.chain:
                spot.thing = spot.parent = None

    def _wait(self, step: int) -> bool:
        """Look again later; False when that was done often enough."""
        self._due = step + BETWEEN * 2**self._looks
        return self._looks < MAX_LOOKS or (self._due <= 2 * self._began and self.seconds < MAX_SECONDS)

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
        self._explain(step, frame)

    def _explain(self, step: int, frame: FrameType | None) -> None:
        tracer = self._tracer
        assert tracer is not None
        tracer.stop()
        if tracer.broken:
            self._note(f"following the lines failed: {tracer.broken}")
        self.seconds += tracer.seconds
        sources, frames = Sources(), user_frames(frame)
        found = []
        seen = zip(
            self._suspects, tracer.stores, tracer.gained, tracer.rebound, tracer.outlived, tracer.aliases, strict=True
        )
        for suspect, stores, gained, levels, outlived, aliases in seen:
            _outermost(suspect, levels)
            harmless = frozenset(outlived) if suspect.entries else frozenset()
            traced = Traced(stores, gained, tracer.steps, harmless, tracer.beside, aliases)
            found.append(explain(suspect, traced, sources, step, self._rate_at_first, frames))
        hidden = [s.holder.path for s in self._suspects if s.holder.path == SAVED or (s.root is None and s.entries)]
        self.found = distinct([d for d in found if d.path not in hidden or d.leak.stored_at is not None])
        self.in_vain += not self.found
        self._close()

    def _close(self) -> None:
        if self._tracer is not None:
            self._tracer.stop()
            self._tracer = None
        if self._before is not None:
            self._before.dissolve()
            self._before = None
        self._let_go()
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

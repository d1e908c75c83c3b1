"""Where one step ends.

In this order of preference: an explicit call, the optimizer that steps last in a cycle, an item asked of a DataLoader,
a call of the top-level module, a backward. All sources are listened to; the clock lets the best one that is ticking
decide.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from time import monotonic, perf_counter_ns
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from gradguard.runtime.gradients import Gradients
    from gradguard.runtime.torch_internals import TorchInternals
    from gradguard.runtime.watch import Watch

T = TypeVar("T")

PREFERENCE = ("explicit", "optimizer", "loader", "module", "backward")
_RANK = {source: rank for rank, source in enumerate(PREFERENCE)}

PATIENCE = 64
"""A source that has been silent for this many ticks of a lesser one (eight times its usual number) hands over."""

FEW = 4
"""After a pause it takes this many ticks more than usual: one is no evaluation, it is the next step's forward."""

PLAIN = 2
"""After so many steps of an optimizer of which none was within another, none ever is."""

EARLY = 64
"""Steps within which it may turn out that some were counted in another unit."""

active: list[Watch] = []
"""The watches that are on, the innermost last."""


class Clock:
    """Decides which ticks end a step.

    Most steps of a long run have nothing at their end but to be counted: so many as :meth:`let_pass` was told of pass
    without ``on_step``, and what ends no step is not heard meanwhile.

    Args:
        on_step: called at the end of each other step, with the source and the frame in which the step ended.
    """

    __slots__ = (
        "__weakref__",
        "_allowed",
        "_counted_by",
        "_is_after_pause",
        "_is_stopped",
        "_least_patience",
        "_newest",
        "_on_step",
        "_rank",
        "_silence",
        "_usual_silence",
        "counted",
        "deciding",
        "heard_at",
        "key",
        "last",
        "left",
        "listening",
        "optimizer_has_stepped",
        "source",
        "unheard",
    )

    def __init__(self, on_step: Callable[[str, FrameType | None], None]) -> None:
        self.left = 0
        """Steps that may still pass."""
        self.unheard = 0
        """Ticks of lesser sources that may still go unheard, before the last of these steps ends."""
        self.heard_at = 0
        """So many are left in the step whose backward is heard; 0 where none is."""
        self.deciding = 0
        """The address of the optimizer that ends steps, if none of its steps is within another; it may be gone."""
        self._allowed = 0
        self.last = monotonic()
        """When the last step ended."""
        self.source: str | None = None
        self._rank = len(PREFERENCE)
        self.counted = 0
        """Steps that were ended in the unit of the present source; fewer than all while a better one was not known."""
        self.optimizer_has_stepped = False
        self.listening = 0
        """Nanoseconds that listeners took before they ticked."""
        self._is_stopped = False
        self._on_step = on_step
        self.key: int | None = None
        self._newest = 0
        self._counted_by: dict[int, int] = {}
        self._silence = 0
        self._usual_silence = 0
        self._least_patience = PATIENCE
        self._is_after_pause = False

    def tick(self, source: str, key: int, frame: FrameType | None) -> None:
        """Something happened that may end a step.

        Args:
            source: one of ``PREFERENCE``.
            key: which loader or module it was; which optimizer, numbered in the order of their first steps.
            frame: where in the user's program.
        """
        if self._is_stopped:
            return
        if self.left:
            if source == self.source and key == self.key:
                self.step_passes(perf_counter_ns())
                return
            if self.unheard and _RANK[source] >= self._rank:
                self.unheard -= 1
                return
            self._let_none_pass()  # who ends the steps has been silent for long, or somebody better ticks
        self.optimizer_has_stepped |= source == "optimizer"
        if self._silence < self._least_patience and _RANK[source] > self._rank and not self._is_after_pause:
            self._silence += 1  # one of the many that end nothing
            return
        if self._decides(source, key):
            if self._silence > self._usual_silence:
                self._usual_silence = self._silence
                self._least_patience = max(PATIENCE, 8 * self._silence)
            self._silence = 0
            self._is_after_pause = False
            self.counted += 1 + self.passed
            if self.counted <= EARLY:
                self._counted_by[key] = self._counted_by.get(key, 0) + 1
            self.last = monotonic()
            self._on_step(source, frame)
        else:
            self._silence += 1
            if source == "optimizer" == self.source:
                # One that ended steps before steps again: they take turns, and only the last one ends a cycle.
                self.counted -= self._counted_by.pop(key, 0)

    def let_pass(self, steps: int, heard: int = 0) -> None:
        """There is nothing to do at the end of so many steps from now on.

        Args:
            steps: how many.
            heard: which of them has its backward heard all the same, from 1; 0 for none.
        """
        is_known = self.deciding or self.source != "optimizer"
        self.left = self._allowed = max(steps, 0) if is_known else 0
        self.heard_at = self.left - heard + 1 if 0 < heard <= self.left else 0
        self.unheard = 0 if self.source == "backward" else self._least_patience + self._usual_silence * self.left

    def step_passes(self, start: int) -> None:
        """A step ends at whose end there is nothing to do.

        Args:
            start: when our own work began, in nanoseconds; that of the last of these steps stands for all of them.
        """
        self.left -= 1
        self.last = monotonic()
        if not self.left:
            self.listening += (perf_counter_ns() - start) * self.passed

    @property
    def passed(self) -> int:
        """Steps that passed since they were last taken note of."""
        return self._allowed - self.left

    def take_passed(self) -> int:
        """Take note of the steps that passed."""
        passed, self._allowed = self._allowed - self.left, self.left
        return passed

    def _let_none_pass(self) -> None:
        self._allowed, self.left = self._allowed - self.left, 0

    def decided_by(self, optimizer: int) -> None:
        """Which optimizer ends steps.

        Args:
            optimizer: its address; 0 for one of which each step must be looked at.
        """
        self.deciding = optimizer
        if not optimizer:
            self._let_none_pass()

    def stop(self) -> None:
        """End no more steps. The listeners may stay: torch may be going over its hooks now, and must find all."""
        self._is_stopped = True
        self._let_none_pass()

    def hand_over(self) -> None:
        """The deciding source has been silent for too long a time: a few ticks of others now, and they decide."""
        self._is_after_pause = True
        self._let_none_pass()

    def _patience(self) -> int:
        return self._usual_silence + FEW if self._is_after_pause else self._least_patience

    def _decides(self, source: str, key: int) -> bool:
        if source == self.source and key == self.key:
            return True
        if self.source == "explicit":
            return False
        if self._is_better(source, key) or self._silence >= self._patience():
            if source != self.source:
                self._silence = self._usual_silence = 0
                self._least_patience = PATIENCE
                self.counted = 0
                self._counted_by.clear()
            self.source, self.key, self._rank = source, key, _RANK[source]
            if source == "optimizer":
                self._newest = max(self._newest, key)
            return True
        return False

    def _is_better(self, source: str, key: int) -> bool:
        if self.source is None:
            return True
        rank, present = _RANK[source], self._rank
        # Of several optimizers (a GAN's), the one that came last ends the cycle.
        return rank < present or (rank == present and source == "optimizer" and key > self._newest)


# --- the sources --------------------------------------------------------------------------------------------------


class Attribute:
    """Takes note when a method is looked up on an instance, and gives the original: no frame is added to a traceback.

    Args:
        owner: the class.
        name: the method's name.
        note: called with the instance before each call.
    """

    __slots__ = ("_inherited", "_name", "_note", "_original", "_owner")

    def __init__(self, owner: type, name: str, note: Callable[[Any], None]) -> None:
        self._owner = owner
        self._name = name
        self._inherited = name not in owner.__dict__
        self._original: Any = getattr(owner, name) if self._inherited else owner.__dict__[name]
        self._note = note

    def install(self) -> None:
        """Put this in the method's place."""
        setattr(self._owner, self._name, self)

    def remove(self) -> None:
        """Put the method back."""
        if self._owner.__dict__.get(self._name) is not self:
            return  # somebody has put their own in our place
        if self._inherited:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._original)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._original
        self._note(instance)
        return self._original.__get__(instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """For whoever takes it from the class's ``__dict__`` and calls it."""
        return self._original(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


class Numbers:
    """Numbers things in the order in which they come, and keeps none of them alive.

    An address will not do: that of an optimizer that is gone is soon the next one's.
    """

    def __init__(self) -> None:
        self._count = 0
        self._known: dict[int, tuple[int, weakref.ref[Any]]] = {}

    def of(self, thing: Any) -> int:
        """The number of ``thing``, from 1."""
        key = id(thing)
        if key not in self._known:
            self._count += 1
            self._known[key] = self._count, weakref.ref(thing, lambda gone: self._known.pop(key, None))
        return self._known[key][0]


def optimizer_hook(clock: Clock, gradients: Gradients, is_compiling: Callable[[], bool]) -> Callable[..., None]:
    """A global post hook for optimizers; a step that calls ``super().step()`` is one step, not two.

    torch.compile traces through hooks. It knows ``is_compiling`` to be true, so what it compiles has nothing of ours.
    """

    numbers = Numbers()
    plain: dict[int, int] = {}
    """Steps of an optimizer, by its number, as long as none of them was within another."""

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        if clock.left > 1 and id(optimizer) == clock.deciding:  # nearly all steps: as little as can be
            clock.left -= 1
            clock.last = monotonic()
            return
        hear(optimizer, sys._getframe(1), perf_counter_ns())

    def hear(optimizer: Any, wrapper: FrameType, start: int) -> None:
        if clock.left and id(optimizer) == clock.deciding:
            clock.step_passes(start)
            return
        number = numbers.of(optimizer)
        if clock.left and clock.unheard:
            clock.tick("optimizer", number, wrapper)
            return
        if plain.get(number, 0) < PLAIN:
            if _is_nested(wrapper, optimizer):
                plain[number] = -sys.maxsize
                return
            plain[number] = plain.get(number, 0) + 1
        if gradients.is_on:
            gradients.stepped(optimizer, wrapper)
        clock.listening += perf_counter_ns() - start
        clock.tick("optimizer", number, wrapper)
        if clock.source == "optimizer" and clock.key == number:
            clock.decided_by(id(optimizer) if plain[number] >= PLAIN else 0)

    return stepped


def _is_nested(wrapper: FrameType, optimizer: Any) -> bool:
    outer = wrapper.f_back
    for _ in range(6):
        if outer is None:
            return False
        if outer.f_code is wrapper.f_code:
            arguments = outer.f_locals.get("args") or (None,)
            return arguments[0] is optimizer
        outer = outer.f_back
    return False


def _is_within(call: FrameType) -> bool:
    """Whether a module's call is part of another module's call."""
    outer = call.f_back
    while outer is not None:
        if outer.f_code is call.f_code:
            return True
        outer = outer.f_back
    return False


def module_hook(clock: Clock, is_compiling: Callable[[], bool]) -> Callable[..., None]:
    """A global forward pre-hook; the module that was called first is taken for the top-level one."""

    def called(module: Any, inputs: Any) -> None:
        if is_compiling():
            return
        caller = sys._getframe(1)
        if clock.key == id(module) or not _is_within(caller):
            clock.tick("module", id(module), caller)

    return called


def loader_note(clock: Clock) -> Callable[[Any], None]:
    """What to note when an item is asked of a DataLoader."""

    def asked(iterator: Any) -> None:
        # Iterators come and go with the epochs: the loader's address is not known to them, their dataset's is.
        if iterator.__dict__.get("_num_yielded"):
            clock.tick("loader", id(iterator.__dict__.get("_dataset")), sys._getframe(2))

    return asked


def steps(iterable: Iterable[T]) -> Iterator[T]:
    """Go through ``iterable``; each item is one step of the watch that is on.

    A step ends when the next item is asked for. Without a watch this is a plain iteration.

    Args:
        iterable: usually a DataLoader, or ``range(n)``.
    """
    iterator = iter(iterable)
    while True:
        try:
            # Nothing here keeps the item: a loop that drops its batch must find it gone.
            yield next(iterator)
        except StopIteration:
            return
        if active:
            active[-1].step()


def install(clock: Clock, gradients: Gradients, internals: TorchInternals) -> list[Callable[[], None]]:
    """Listen to every source of ``internals``' torch; returns what removes the listeners.

    Args:
        clock: ticks.
        gradients: is told of the steps of optimizers, too.
        internals: of torch.
    """
    removers: list[Callable[[], None]] = []
    if internals.register_step_post_hook is not None:
        stepped = optimizer_hook(clock, gradients, internals.is_compiling)
        removers.append(internals.register_step_post_hook(stepped).remove)
    if internals.loader_iterator is not None:
        note = Attribute(internals.loader_iterator, "__next__", loader_note(clock))
        note.install()
        removers.append(note.remove)
    return removers

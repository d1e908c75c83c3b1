"""Where one step ends: what is listened to, and tells the clock (see :mod:`gradguard.runtime.clock`)."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from gradguard.runtime.step_hook import step_hook

if TYPE_CHECKING:
    from gradguard.runtime.clock import Clock
    from gradguard.runtime.gradients import Gradients
    from gradguard.runtime.torch_internals import TorchInternals
    from gradguard.runtime.watch import Watch

T = TypeVar("T")

PLAIN = 2
"""After so many steps of an optimizer of which none was within another, none ever is."""

active: list[Watch] = []
"""The watches that are on, the innermost last."""


class Attribute:
    """Takes note when a method is looked up on an instance, and gives the original: no frame is added to a traceback.

    Args:
        owner: the class.
        name: the method's name.
        note: called with the instance before each call.
    """

    __slots__ = ("_inherited", "_is_removed", "_name", "_note", "_original", "_owner")

    def __init__(self, owner: type, name: str, note: Callable[[Any], None]) -> None:
        self._owner = owner
        self._name = name
        self._inherited = name not in owner.__dict__
        self._original: Any = getattr(owner, name) if self._inherited else owner.__dict__[name]
        self._note = note
        self._is_removed = False

    def install(self) -> None:
        """Put this in the method's place."""
        setattr(self._owner, self._name, self)

    def remove(self) -> None:
        """Put the method back; where somebody has put their own in our place, note nothing any more."""
        self._is_removed = True
        if self._owner.__dict__.get(self._name) is not self:
            return
        first = self
        while isinstance(first._original, Attribute) and first._original._is_removed:
            first = first._original  # of a watch that began before this one, and ended before it
        if first._inherited:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, first._original)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._original
        if not self._is_removed:
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


def optimizer_hook(clock: Clock, gradients: Gradients) -> Callable[[Any, Any, Any], None]:
    """Listens to the steps of optimizers; a step that calls ``super().step()`` is one step, not two."""

    numbers = Numbers()
    plain: dict[int, int] = {}
    """Steps of an optimizer, by its number, as long as none of them was within another."""

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        start = perf_counter_ns() if clock.left < 2 else 0
        if clock.left and id(optimizer) == clock.deciding:  # nearly all steps: as little as can be
            clock.left -= 1
            if start:
                clock.listening += (perf_counter_ns() - start) * clock.passed
            return
        hear(optimizer, sys._getframe(2), start or perf_counter_ns())

    def hear(optimizer: Any, wrapper: FrameType, start: int) -> None:
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


def module_hook(clock: Clock, is_compiling: Callable[[], bool], note: Callable[[Any], None]) -> Callable[..., None]:
    """A global forward pre-hook; the module that was called first is taken for the top-level one.

    Args:
        clock: ticks.
        is_compiling: whether torch.compile is tracing.
        note: called with each module that the program calls by itself, not as a part of another one.
    """

    def called(module: Any, inputs: Any) -> None:
        if is_compiling():
            return
        caller = sys._getframe(1)
        if clock.key == id(module) or not _is_within(caller):
            note(module)
            clock.tick("module", id(module), caller)

    return called


def loader_note(clock: Clock) -> Callable[[Any], None]:
    """What to note when an item is asked of a DataLoader."""

    def asked(iterator: Any) -> None:
        # Iterators come and go with the epochs: the loader's address is not known to them, their dataset's is.
        if iterator.__dict__.get("_num_yielded"):
            clock.tick("loader", id(iterator.__dict__.get("_dataset")), sys._getframe(2))

    return asked


def replay_note(clock: Clock) -> Callable[[Any], None]:
    """What to note when a CUDA graph is replayed: it stands for the calls of the modules that were captured in it."""

    def replayed(graph: Any) -> None:
        clock.tick("module", id(graph), sys._getframe(2))

    return replayed


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
        stepped = optimizer_hook(clock, gradients)
        removers.append(step_hook.add(stepped, internals.register_step_post_hook, internals.is_compiling))
    for owner, name, note in (
        (internals.loader_iterator, "__next__", loader_note(clock)),
        (internals.cuda_graph, "replay", replay_note(clock)),
    ):
        if owner is not None and hasattr(owner, name):
            attribute = Attribute(owner, name, note)
            attribute.install()
            removers.append(attribute.remove)
    return removers

"""Whether anything clears the gradients between two steps of their optimizer.

Backward adds to ``.grad``. Where nothing sets that to zero or None, each step is made from the sum over all steps
before: no memory grows, and the loss goes wrong; where it is cleared once in some steps, from the sum since then. Of
each optimizer a few early steps are looked at, and some more where one was made without a clearing. Before every
backward in between, its gradients are seen to be cleared or not: in a GAN another network's backward fills them too, so
one that finds them cleared is enough. A backward that does not reach them adds nothing to them: who writes them then
(gradients of a worker, of several tasks in turn) need not clear them. A look costs a read of three gradients.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

from gradguard.runtime.graph_size import leaves_below
from gradguard.runtime.unreached import Unreached
from gradguard.runtime.variables import optimizer_in_words

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals

WARM_UP = 2
"""Steps of an optimizer that are not looked at."""

WINDOWS = 4
"""Steps in a row without a clearing, after which there is none."""

MOST_WINDOWS = 12
"""Steps after which it is told whether clearings are rarer than steps."""

CALLS = 256
"""Steps of all optimizers, after which no more are looked at."""

SAMPLED = 3
"""Parameters of one optimizer that are looked at."""


@dataclass(slots=True)
class _Sampled:
    """One gradient, at the end of a step.

    Args:
        parameter: whose it is.
        gradient: the object (not kept alive).
        version: how often it has been written to.
        is_reached: whether a backward in this window reaches it; of a model with several heads, one head's does not
            reach the others.
    """

    parameter: weakref.ref[Any]
    gradient: int
    version: int
    is_reached: bool = False


@dataclass(slots=True, eq=False)
class _Seen:
    """What is known of one optimizer.

    Args:
        steps: that it has made.
        stale: windows in a row in which nothing was cleared.
        all_stale: all of these.
        cleared: windows in which they were cleared.
        windows: that have been looked at.
        is_cleared: whether a backward in this window found them cleared.
        sampled: its gradients at the beginning of this window.
        thread: the one that steps it. No other may read its gradients: they are freed while that one runs.
    """

    steps: int = 0
    stale: int = 0
    all_stale: int = 0
    cleared: int = 0
    windows: int = 0
    is_cleared: bool = False
    sampled: list[_Sampled] = field(default_factory=list)
    thread: int = 0

    def close(self) -> None:
        """A window ends: backward has added to every gradient that it reached and none was cleared before, or not."""
        is_stale = self.is_added_to and not self.is_cleared and all(map(_was_added_to, self._reached))
        self.stale = self.stale + 1 if is_stale else 0
        self.all_stale += is_stale
        self.cleared += self.is_cleared
        self.windows += 1

    @property
    def is_added_to(self) -> bool:
        """Whether a backward in this window reaches some of these gradients."""
        return bool(self._reached)

    @property
    def _reached(self) -> list[_Sampled]:
        return [each for each in self.sampled if each.is_reached]

    @property
    def is_clean(self) -> bool:
        """Whether it need not be looked at any more: each step is made from its own gradients."""
        is_fresh = self.windows > 1 and not self.all_stale
        return is_fresh or (self.windows >= MOST_WINDOWS and not self.adds_up)

    @property
    def adds_up(self) -> bool:
        """Whether steps are made from sums: nothing clears the gradients, or it does so once in some steps."""
        is_rare = self.windows >= MOST_WINDOWS and self.all_stale * 3 >= MOST_WINDOWS
        return self.stale >= WINDOWS or (is_rare and self.cleared > 1)


class Gradients:
    """Looks at the gradients of each optimizer between its first steps.

    Args:
        internals: of torch.
        note: called with what the reader of the report should know.
    """

    def __init__(self, internals: TorchInternals, note: Callable[[str], None]) -> None:
        self._torch = internals
        self._note = note
        self._seen: weakref.WeakKeyDictionary[Any, _Seen | None] = weakref.WeakKeyDictionary()
        self._unreached = Unreached()
        self.open: list[_Seen] = []
        """Those that are looked at now; empty for most of a run, so that a backward need not even ask."""
        self._calls = 0
        self.is_on = True

    def stop(self) -> None:
        """Look no more."""
        self.is_on = False
        self._seen.clear()
        self.open = []

    def before_backward(self, tensor: Any) -> None:
        """A backward begins: see whose gradients are cleared now, and whose it reaches.

        Args:
            tensor: whose ``backward`` it is.
        """
        try:
            if self._torch.is_capturing():
                self.stop()
            here = threading.get_ident()
            own = [seen for seen in self.open if seen.thread == here]
            for seen in own:
                seen.is_cleared = seen.is_cleared or any(_is_clear(each.parameter()) for each in seen.sampled)
            waiting = [seen for seen in own if not seen.is_cleared and not seen.is_added_to]
            reached = self._leaves_of(tensor) if waiting else set()
            for each in itertools.chain.from_iterable(seen.sampled for seen in waiting):
                each.is_reached = id(each.parameter()) in reached
        except Exception:  # gradients without values: nothing can be told
            self.stop()

    def _leaves_of(self, tensor: Any) -> set[int]:
        with self._torch.without_overrides():
            return {id(leaf) for leaf in leaves_below(tensor.grad_fn)} if tensor.grad_fn is not None else set()

    def stepped(self, optimizer: Any, frame: FrameType) -> None:
        """An optimizer has stepped.

        Args:
            optimizer: any object that torch takes for one.
            frame: in which its step has ended.
        """
        self._calls += 1
        if self._calls > CALLS or self._torch.has_compiled():
            self.stop()
            return
        try:
            self._look(optimizer, frame)
            if (said := self._unreached.stepped(optimizer, frame)) is not None:
                self._note(said)
        except Exception:  # gradients of somebody's own making: nothing can be told
            self.stop()

    def _look(self, optimizer: Any, frame: FrameType) -> None:
        seen = self._seen.setdefault(optimizer, _Seen())
        if seen is None:
            return
        seen.steps += 1
        if seen.steps <= WARM_UP:
            return
        if seen in self.open:
            self.open.remove(seen)
            seen.close()
            if seen.is_clean or seen.adds_up:
                self._seen[optimizer] = None
                if seen.adds_up:
                    self._note(_said(optimizer, seen, frame))
                return
        seen.is_cleared, seen.thread = False, threading.get_ident()
        seen.sampled = _sample(optimizer)
        if seen.sampled:
            self.open.append(seen)


def _sample(optimizer: Any) -> list[_Sampled]:
    """A few gradients of an optimizer: the first, one in the middle, the last."""
    every = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    chosen = {id(p): p for p in (every[0], every[len(every) // 2], every[-1])} if every else {}
    return [_Sampled(weakref.ref(p), id(p.grad), p.grad._version) for p in list(chosen.values())[:SAMPLED]]


def _is_clear(parameter: Any) -> bool:
    if parameter is None or parameter.grad is None:
        return True
    return not bool(parameter.grad.detach().any())


def _was_added_to(sampled: _Sampled) -> bool:
    parameter = sampled.parameter()
    gradient = parameter.grad if parameter is not None else None
    return gradient is not None and id(gradient) == sampled.gradient and gradient._version > sampled.version


def _said(optimizer: Any, seen: _Seen, frame: FrameType) -> str:
    who, at = optimizer_in_words(optimizer, frame)
    what = (
        "that something clears once in some steps only, so that they add up in between"
        if seen.cleared
        else "that nothing clears, so that they add up over all steps"
    )
    return f"{who} steps with gradients {what}{at}: call its `zero_grad()` once in each step (GG201)"

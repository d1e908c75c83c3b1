"""What is done when a backward begins: its graph is marked, gradients and leaves are looked at, and the clock ticks.

Of a steady run nearly all backwards go unheard: code of ours that runs in each of them is most of what watching costs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from gradguard.runtime import training_threads
from gradguard.runtime.sensors.graphs import Graphs
from gradguard.runtime.steps import Attribute
from gradguard.runtime.unstepped import SteppedNoMore, Unstepped

if TYPE_CHECKING:
    from gradguard.runtime.clock import Clock
    from gradguard.runtime.escalation import Escalation
    from gradguard.runtime.gradients import Gradients
    from gradguard.runtime.torch_internals import TorchInternals

DENSE_STEPS = 256
"""The backwards of the first steps are all heard; then those of some steps are."""


KEY = 0
"""Tells the clock a ``Tensor.backward`` from the places that ask ``torch.autograd.grad``."""


class Listener(Attribute):
    """In the place of ``Tensor.backward``: of nearly all that begin in a steady run it does as little as can be.

    Args:
        tensor_type: ``torch.Tensor``.
        clock: says whether this one may go unheard.
        begins: is called with the tensor otherwise.
    """

    __slots__ = ("_clock",)

    def __init__(self, tensor_type: type, clock: Clock, begins: Callable[[Any], None]) -> None:
        super().__init__(tensor_type, "backward", begins)
        self._clock = clock

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._original
        clock = self._clock
        start = perf_counter_ns() if clock.left < 2 else 0
        if clock.left and clock.unheard and clock.left != clock.heard_at:
            clock.unheard -= 1
            if start:  # as for steps: that of the last one is timed, and stands for those before
                clock.listening += (perf_counter_ns() - start) * (clock.passed + 1)
        else:
            self._note(instance)
        return self._original.__get__(instance, owner)


class Backwards:
    """Listens to the backwards of one watch.

    Args:
        internals: of torch.
        clock: ticks with each backward that is heard, and says which ones need not be.
        gradients: looks at those of the optimizers' first steps.
        escalation: looks at what is backpropagated after something was found.
        steps: how many have ended.
        note: called with what the reader of the report should know.
        on_fault: called with an error of ours.
    """

    def __init__(
        self,
        internals: TorchInternals,
        clock: Clock,
        gradients: Gradients,
        escalation: Escalation,
        steps: Callable[[], int],
        note: Callable[[str], None],
        on_fault: Callable[[Exception], None],
    ) -> None:
        self.graphs = Graphs(steps) if internals.has_node_metadata else None
        self._unstepped = Unstepped(internals, lambda: clock.optimizer_has_stepped, note)
        self._stepped_no_more = SteppedNoMore(internals, note)
        self._internals = internals
        self._clock = clock
        self._gradients = gradients
        self._escalation = escalation
        self._steps = steps
        self._on_fault = on_fault
        self._is_stopped = False

    def install(self) -> Callable[[], None]:
        """Listen; returns what removes the listener."""
        listener = Listener(self._internals.tensor_type, self._clock, self.begins)
        listener.install()
        return listener.remove

    def are_all_needed(self, step: int) -> bool:
        """Whether anything depends on each of them after ``step``: the run is young, or something is looked at."""
        return step < DENSE_STEPS or self._escalation.listens_to_backward or bool(self._gradients.open)

    def choose(self, step: int, *, each: bool) -> int:
        """The step after ``step`` whose backward is heard, to mark its graphs; the very next one, or by chance."""
        if self.graphs is None:
            return step + 1
        self.graphs.choose(step, each=each)
        return self.graphs.next_step

    def stop(self) -> None:
        """Look at nothing any more. The listener may stay where it is."""
        self._is_stopped = True
        self._gradients.stop()

    def begins(self, tensor: Any) -> None:
        """A backward begins, and is heard.

        Args:
            tensor: whose ``backward`` the user's program asks for, two frames from here.
        """
        if self._is_stopped:
            return
        start = perf_counter_ns()
        training_threads.note()
        try:
            if self._gradients.open:
                self._gradients.before_backward(tensor)
            if self._unstepped.is_on:
                self._unstepped.before_backward(tensor, sys._getframe(2))
            elif self._stepped_no_more.next_step <= self._steps():
                self._stepped_no_more.before_backward(tensor, self._steps(), sys._getframe(2))
            node = tensor.grad_fn if type(tensor) is self._internals.tensor_type else None
            if node is not None and self.graphs is not None:
                step = self._steps() + 1
                if self.graphs.next_step <= step:
                    self.graphs.mark(node, step)
                if self._escalation.listens_to_backward:
                    self._escalation.is_consumed(node)
        except Exception as error:
            self._on_fault(error)
            return
        self._clock.listening += perf_counter_ns() - start
        self._clock.tick("backward", KEY, sys._getframe(2))

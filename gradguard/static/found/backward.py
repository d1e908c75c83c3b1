"""Backwards, gradients and graphs: one question for each mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static.backward.aliased_gradients import aliased_gradients
from gradguard.static.backward.changed_between import changed_between
from gradguard.static.backward.changed_gradients import changed_gradients
from gradguard.static.backward.changed_in_place import changed_in_place
from gradguard.static.backward.chosen_attacks import chosen_attacks
from gradguard.static.backward.clipped_by_hooks import clipped_by_hooks
from gradguard.static.backward.counted_twice import counted_twice
from gradguard.static.backward.discarded import discarded, dropped_gradients
from gradguard.static.backward.evaluated_again import evaluated_again
from gradguard.static.backward.frozen_inputs import frozen_inputs
from gradguard.static.backward.idle_gradients import idle_gradients
from gradguard.static.backward.missing_gradients import missing_gradients, without_gradient
from gradguard.static.backward.partly_reset import partly_reset
from gradguard.static.backward.passed_over import passed_over
from gradguard.static.backward.perturbed_between import perturbed_between
from gradguard.static.backward.replayed_draws import replayed_draws
from gradguard.static.backward.stepped_between import stepped_between
from gradguard.static.backward.tied_leaves import tied_leaves
from gradguard.static.backward.uncalled import uncalled
from gradguard.static.backward.unguarded import unguarded
from gradguard.static.backward.unscaled import unscaled
from gradguard.static.backward.unused_graphs import unused_graphs
from gradguard.static.backward.wasted_backwards import wasted_backwards
from gradguard.static.backward.written_behind import written_behind
from gradguard.static.events import Backward, GradCall, Step
from gradguard.static.mistakes.backward import (
    AliasedGradient,
    ChangedBetween,
    ChangedGradient,
    ChangedInPlace,
    ChosenAttack,
    ClippedByHook,
    CountedTwice,
    EvaluatedAgain,
    FrozenInput,
    IdleGradients,
    NoGradient,
    PartlyReset,
    PassedOver,
    PerturbedBetween,
    ReplayedDraw,
    SteppedBetween,
    Unguarded,
    Unscaled,
    UnusedGraph,
    WastedBackward,
    WrittenBehind,
)
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class BackwardMistakes:
    """What may be wrong with the backwards, the gradients and the graphs of one function.

    Args:
        flow: what the function does, read to its end.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def changed_between(self) -> list[ChangedBetween]:
        """What changes weights in place between a forward and its backward, and autograd does not see."""
        return list(changed_between(self._flow)) if self._flow.facts.backwards else []

    def aliased_gradients(self) -> list[AliasedGradient]:
        """The gradients that a loop collects as they are, and resets in place."""
        return list(aliased_gradients(self._flow)) if self._flow.facts.backwards and self._flow.facts.zero_grads else []

    def changed_gradients(self) -> list[ChangedGradient]:
        """Of the ``backward`` of an ``autograd.Function``: what changes a gradient in place that it is given."""
        return list(changed_gradients(self._flow))

    def changed_in_place(self) -> list[ChangedInPlace]:
        """What changes a tensor in place that a backward needs (reads other files)."""
        return list(changed_in_place(self._flow))

    def chosen_attacks(self) -> list[ChosenAttack]:
        """The attacks of a table between its reset and its backward, which leave gradients (reads other files)."""
        return list(chosen_attacks(self._flow)) if self._flow.facts.steps else []

    def clipped_by_hooks(self) -> list[ClippedByHook]:
        """The clippings of scaled gradients by the hooks that it calls (reads other files)."""
        return list(clipped_by_hooks(self._flow)) if self._flow.facts.steps else []

    def counted_twice(self) -> list[CountedTwice]:
        """The losses that are backpropagated by themselves and again within a sum, for one step (reads other files)."""
        return list(counted_twice(self._flow)) if len(self._flow.facts.backwards) > 1 else []

    def discarded(self) -> list[Site]:
        """The statements that call what only gives a new tensor: ``hidden.detach()``."""
        return list(discarded(self._flow))

    def dropped_gradients(self) -> list[tuple[GradCall, Step]]:
        """The calls of ``autograd.grad`` whose result nothing takes, and the step that would need it."""
        return list(dropped_gradients(self._flow))

    def evaluated_again(self) -> list[EvaluatedAgain]:
        """The closures without a reset that it gives to an optimizer which runs them several times."""
        return list(evaluated_again(self._flow)) if self._flow.facts.steps else []

    def frozen_inputs(self) -> list[FrozenInput]:
        """The checkpoints that cut the graph, as they are given what wants no gradient."""
        return list(frozen_inputs(self._flow))

    def idle_gradients(self) -> list[IdleGradients]:
        """The networks that a backward goes through, and that nothing trains (reads other files)."""
        return list(idle_gradients(self._flow)) if self._flow.facts.backwards and self._flow.facts.steps else []

    def missing_gradients(self) -> list[NoGradient]:
        """Of the ``backward`` of an ``autograd.Function``: the parameters that get None of it (reads other files)."""
        without = without_gradient(self._flow)
        return missing_gradients(self._flow, without) if without else []

    def partly_reset(self) -> list[PartlyReset]:
        """The resets of some of the optimizers that a loop steps, where nothing resets the others."""
        return list(partly_reset(self._flow)) if self._flow.facts.zero_grads else []

    def passed_over(self) -> list[PassedOver]:
        """What passes a batch over after its backward, so that its gradients stay."""
        return list(passed_over(self._flow)) if self._flow.facts.steps else []

    def perturbed_between(self) -> list[PerturbedBetween]:
        """The second backwards of steps of two passes, that add to the gradients of the first (reads other files)."""
        return list(perturbed_between(self._flow))

    def replayed_draws(self) -> list[ReplayedDraw]:
        """The checkpoints that draw other random numbers in the backward (reads other files)."""
        return list(replayed_draws(self._flow))

    def stepped_between(self) -> list[SteppedBetween]:
        """The backwards that need weights which an optimizer has changed since the forward (reads other files)."""
        return list(stepped_between(self._flow)) if self._flow.facts.backwards else []

    def tied_leaves(self) -> list[tuple[str, Backward]]:
        """The inputs whose gradient holds the graph that it was computed in, and the backward that does it."""
        return list(tied_leaves(self._flow))

    def uncalled(self) -> list[Site]:
        """Where methods that train are named, and not called: ``optimizer.step``."""
        return list(uncalled(self._flow))

    def unguarded(self) -> list[Unguarded]:
        """The backwards that also run where the optimizer of the step is None."""
        return list(unguarded(self._flow)) if self._flow.facts.steps else []

    def unscaled(self) -> list[Unscaled]:
        """The losses that no scaler has multiplied, while one takes the step."""
        return list(unscaled(self._flow)) if self._flow.facts.steps else []

    def unused_graphs(self) -> list[UnusedGraph]:
        """The networks that run with a graph which nothing asks for (reads other files)."""
        return list(unused_graphs(self._flow)) if self._flow.facts.forwards else []

    def wasted_backwards(self) -> list[WastedBackward]:
        """Where a module is run with the graph of another one, whose gradients are thrown away (reads other files)."""
        return list(wasted_backwards(self._flow)) if self._flow.facts.steps else []

    def written_behind(self) -> list[WrittenBehind]:
        """The statements that change a value through ``.data`` on its way to the loss."""
        return list(written_behind(self._flow)) if self._flow.written else []

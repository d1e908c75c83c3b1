"""What may be wrong in a function: one question for each mistake, worked out where a rule asks it.

Most is never asked: of a function that is only called by one that is checked, no rule asks anything.
"""

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
from gradguard.static.evaluation.awaited_words import awaited_words
from gradguard.static.evaluation.evaluated_once import evaluated_once
from gradguard.static.evaluation.frozen_in_training import frozen_in_training
from gradguard.static.evaluation.given_seekers import calls_seeker
from gradguard.static.evaluation.never_in_evaluation import never_in_evaluation
from gradguard.static.evaluation.never_put_back import never_put_back
from gradguard.static.evaluation.not_entered import not_entered
from gradguard.static.evaluation.put_off import put_off
from gradguard.static.evaluation.thrown_away import thrown_away
from gradguard.static.events import Backward, Call, Forward, GradCall, Step
from gradguard.static.kept.class_lists import class_lists
from gradguard.static.kept.closed_figures import close_all_figures
from gradguard.static.kept.counted_keys import counted_keys
from gradguard.static.kept.cut_when_read import cut_when_read
from gradguard.static.kept.default_lists import default_lists
from gradguard.static.kept.exit_stacks import left_on_stacks
from gradguard.static.kept.finalizers import kept_by_finalizers
from gradguard.static.kept.forgotten_handles import forgotten_handles
from gradguard.static.kept.jobs_in_turn import jobs_in_turn
from gradguard.static.kept.kept_contexts import kept_contexts
from gradguard.static.kept.kept_when_done import kept_when_done
from gradguard.static.kept.keys_given import keys_given
from gradguard.static.kept.keys_kept import is_given_kept
from gradguard.static.kept.left_by_errors import left_by_errors
from gradguard.static.kept.left_running import left_running
from gradguard.static.kept.made_by_properties import made_by_properties
from gradguard.static.kept.never_reset import never_reset
from gradguard.static.kept.over_limit import over_limit
from gradguard.static.kept.packed import put_away
from gradguard.static.kept.random_keys import random_keys
from gradguard.static.kept.recorded_runs import recorded_runs
from gradguard.static.kept.renewed_keys import renewed_keys
from gradguard.static.kept.replaced_states import replaced_states
from gradguard.static.kept.scheduled_keys import scheduled_keys
from gradguard.static.kept.tensor_keys import tensor_keys
from gradguard.static.kept.trimmed_aside import trimmed_aside
from gradguard.static.kept.trimmed_never import trimmed_never
from gradguard.static.kept.uncleared_outputs import uncleared_outputs
from gradguard.static.kept.varied_keys import varied_keys
from gradguard.static.kept.weak_keys import kept_keys
from gradguard.static.kept.wrapped_again import wrapped_again
from gradguard.static.losses.cancelled_ratios import cancelled_ratios
from gradguard.static.losses.cut_each_step import cut_each_step
from gradguard.static.losses.cut_terms import cut_terms
from gradguard.static.losses.detached_starts import detached_starts
from gradguard.static.losses.drawn import drawn
from gradguard.static.losses.estimated_early import estimated_early
from gradguard.static.losses.exchanged_estimators import exchanged
from gradguard.static.losses.given_unrecorded import given_unrecorded
from gradguard.static.losses.hard_losses import hard_losses
from gradguard.static.losses.inverted_orders import inverted_orders
from gradguard.static.losses.live_advantages import live_advantages
from gradguard.static.losses.live_multipliers import live_multipliers
from gradguard.static.losses.lost_derivatives import lost_derivatives
from gradguard.static.losses.moving_targets import moving_targets
from gradguard.static.losses.never_recorded import never_recorded
from gradguard.static.losses.normalised_twice import normalised_twice
from gradguard.static.losses.only_chosen import only_chosen
from gradguard.static.losses.only_detached import only_detached
from gradguard.static.losses.optimized_detached import optimized_detached
from gradguard.static.losses.overwritten_terms import overwritten_terms
from gradguard.static.losses.renewed_anchors import renewed_anchors
from gradguard.static.losses.straight_through import cancelled
from gradguard.static.losses.taken_as_numbers import taken_as_numbers
from gradguard.static.losses.uneven_cuts import uneven_cuts
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
from gradguard.static.mistakes.evaluation import AwaitedWord, FrozenInTraining, NeverInEvaluation, NeverPutBack
from gradguard.static.mistakes.kept import (
    ClassList,
    CutWhenRead,
    DefaultList,
    ForgottenHandles,
    KeptByFinalizer,
    KeptContext,
    KeptKey,
    KeptWhenDone,
    LeftByError,
    LeftOnStack,
    LeftRunning,
    MadeByProperty,
    NeverReset,
    OverLimit,
    PutAway,
    RandomKey,
    RecordedRun,
    RenewedKey,
    ReplacedState,
    TensorKey,
    TrimmedAside,
    TrimmedNever,
    WrappedAgain,
)
from gradguard.static.mistakes.losses import (
    Cancelled,
    CancelledRatio,
    CutEachStep,
    CutTerm,
    DetachedStart,
    Drawn,
    EstimatedEarly,
    Exchanged,
    HardLoss,
    LiveAdvantage,
    LiveMultiplied,
    LostDerivative,
    MovingTarget,
    NeverRecorded,
    NormalisedTwice,
    OnlyChosen,
    OnlyDetached,
    OverwrittenTerm,
    RenewedAnchor,
    UnevenCut,
)
from gradguard.static.mistakes.optimizers import (
    AveragedGradient,
    BrokenTie,
    IdleOptimizer,
    IdleScheduler,
    LeftOut,
    LiveState,
    MovedFrozen,
    NeverUnfrozen,
    PlateauDirection,
    RenewedScaler,
    Replacement,
    ScheduleLength,
    SchedulerFirst,
    SetOnOptimizer,
    SpentIterator,
    StaleScheduler,
    SteppedTwice,
    TiedByData,
    TrainedAverage,
    TrainedTeacher,
    UnappliedRate,
    Unreached,
    Unregistered,
    WithoutOptimizer,
    ZeroFactors,
)
from gradguard.static.optimizers.averaged_gradients import averaged_gradients
from gradguard.static.optimizers.broken_ties import broken_ties
from gradguard.static.optimizers.computed_parameters import computed_of_parameters, never_registered
from gradguard.static.optimizers.idle_optimizers import idle_optimizers
from gradguard.static.optimizers.idle_schedulers import idle_schedulers
from gradguard.static.optimizers.leaf_attributes import leaves_made, never_trained
from gradguard.static.optimizers.left_out import left_out
from gradguard.static.optimizers.live_states import live_states
from gradguard.static.optimizers.made_when_run import made_when_run
from gradguard.static.optimizers.micro_steps import micro_steps
from gradguard.static.optimizers.micro_steps_of_callbacks import micro_steps_of_callbacks
from gradguard.static.optimizers.moved_frozen import moved_frozen
from gradguard.static.optimizers.never_unfrozen import never_unfrozen
from gradguard.static.optimizers.plateau_directions import plateau_directions
from gradguard.static.optimizers.rebound_updates import rebound_updates
from gradguard.static.optimizers.renewed_scalers import renewed_scalers
from gradguard.static.optimizers.replaced import replacements
from gradguard.static.optimizers.replaced_by_heirs import replaced_by_heirs
from gradguard.static.optimizers.replaced_by_methods import replaced_by_methods
from gradguard.static.optimizers.schedule_lengths import schedule_lengths
from gradguard.static.optimizers.schedulers_first import schedulers_first
from gradguard.static.optimizers.set_on_modules import set_on_modules
from gradguard.static.optimizers.set_on_optimizers import set_on_optimizers
from gradguard.static.optimizers.spent_iterators import spent_iterators
from gradguard.static.optimizers.stale_by_methods import stale_by_methods
from gradguard.static.optimizers.stale_from_outside import stale_from_outside
from gradguard.static.optimizers.stale_schedulers import stale_schedulers
from gradguard.static.optimizers.stepped_twice import stepped_twice
from gradguard.static.optimizers.tied_by_data import tied_by_data
from gradguard.static.optimizers.trained_averages import trained_averages
from gradguard.static.optimizers.trained_copies import trained_copies
from gradguard.static.optimizers.trained_teachers import trained_teachers
from gradguard.static.optimizers.unapplied_rates import unapplied_rates
from gradguard.static.optimizers.unfrozen_by_others import unfrozen_by_others
from gradguard.static.optimizers.unfrozen_later import unfrozen_later
from gradguard.static.optimizers.unreached import unreached
from gradguard.static.optimizers.unregistered import kept_in_collections, unregistered
from gradguard.static.optimizers.without_optimizer import made_with_parameters, without_optimizer
from gradguard.static.optimizers.zero_factors import zero_factors
from gradguard.static.reading.autograd_functions import kept_outputs
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class Mistakes:
    """The mistakes of one function.

    Args:
        flow: what the function does, read to its end.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    # --- backwards, gradients and graphs ---

    def changed_between(self) -> list[ChangedBetween]:
        """What changes weights in place between a forward and its backward, and autograd does not see."""
        return list(changed_between(self.flow)) if self.flow.facts.backwards else []

    def aliased_gradients(self) -> list[AliasedGradient]:
        """The gradients that a loop collects as they are, and resets in place."""
        return list(aliased_gradients(self.flow)) if self.flow.facts.backwards and self.flow.facts.zero_grads else []

    def changed_gradients(self) -> list[ChangedGradient]:
        """Of the ``backward`` of an ``autograd.Function``: what changes a gradient in place that it is given."""
        return list(changed_gradients(self.flow))

    def changed_in_place(self) -> list[ChangedInPlace]:
        """What changes a tensor in place that a backward needs (reads other files)."""
        return list(changed_in_place(self.flow))

    def chosen_attacks(self) -> list[ChosenAttack]:
        """The attacks of a table between its reset and its backward, which leave gradients (reads other files)."""
        return list(chosen_attacks(self.flow)) if self.flow.facts.steps else []

    def clipped_by_hooks(self) -> list[ClippedByHook]:
        """The clippings of scaled gradients by the hooks that it calls (reads other files)."""
        return list(clipped_by_hooks(self.flow)) if self.flow.facts.steps else []

    def counted_twice(self) -> list[CountedTwice]:
        """The losses that are backpropagated by themselves and again within a sum, for one step (reads other files)."""
        return list(counted_twice(self.flow)) if len(self.flow.facts.backwards) > 1 else []

    def discarded(self) -> list[Site]:
        """The statements that call what only gives a new tensor: ``hidden.detach()``."""
        return list(discarded(self.flow))

    def dropped_gradients(self) -> list[tuple[GradCall, Step]]:
        """The calls of ``autograd.grad`` whose result nothing takes, and the step that would need it."""
        return list(dropped_gradients(self.flow))

    def evaluated_again(self) -> list[EvaluatedAgain]:
        """The closures without a reset that it gives to an optimizer which runs them several times."""
        return list(evaluated_again(self.flow)) if self.flow.facts.steps else []

    def frozen_inputs(self) -> list[FrozenInput]:
        """The checkpoints that cut the graph, as they are given what wants no gradient."""
        return list(frozen_inputs(self.flow))

    def idle_gradients(self) -> list[IdleGradients]:
        """The networks that a backward goes through, and that nothing trains (reads other files)."""
        return list(idle_gradients(self.flow)) if self.flow.facts.backwards and self.flow.facts.steps else []

    def missing_gradients(self) -> list[NoGradient]:
        """Of the ``backward`` of an ``autograd.Function``: the parameters that get None of it (reads other files)."""
        without = without_gradient(self.flow)
        return missing_gradients(self.flow, without) if without else []

    def partly_reset(self) -> list[PartlyReset]:
        """The resets of some of the optimizers that a loop steps, where nothing resets the others."""
        return list(partly_reset(self.flow)) if self.flow.facts.zero_grads else []

    def passed_over(self) -> list[PassedOver]:
        """What passes a batch over after its backward, so that its gradients stay."""
        return list(passed_over(self.flow)) if self.flow.facts.steps else []

    def perturbed_between(self) -> list[PerturbedBetween]:
        """The second backwards of steps of two passes, that add to the gradients of the first (reads other files)."""
        return list(perturbed_between(self.flow))

    def replayed_draws(self) -> list[ReplayedDraw]:
        """The checkpoints that draw other random numbers in the backward (reads other files)."""
        return list(replayed_draws(self.flow))

    def stepped_between(self) -> list[SteppedBetween]:
        """The backwards that need weights which an optimizer has changed since the forward (reads other files)."""
        return list(stepped_between(self.flow)) if self.flow.facts.backwards else []

    def tied_leaves(self) -> list[tuple[str, Backward]]:
        """The inputs whose gradient holds the graph that it was computed in, and the backward that does it."""
        return list(tied_leaves(self.flow))

    def uncalled(self) -> list[Site]:
        """Where methods that train are named, and not called: ``optimizer.step``."""
        return list(uncalled(self.flow))

    def unguarded(self) -> list[Unguarded]:
        """The backwards that also run where the optimizer of the step is None."""
        return list(unguarded(self.flow)) if self.flow.facts.steps else []

    def unscaled(self) -> list[Unscaled]:
        """The losses that no scaler has multiplied, while one takes the step."""
        return list(unscaled(self.flow)) if self.flow.facts.steps else []

    def unused_graphs(self) -> list[UnusedGraph]:
        """The networks that run with a graph which nothing asks for (reads other files)."""
        return list(unused_graphs(self.flow)) if self.flow.facts.forwards else []

    def wasted_backwards(self) -> list[WastedBackward]:
        """Where a module is run with the graph of another one, whose gradients are thrown away (reads other files)."""
        return list(wasted_backwards(self.flow)) if self.flow.facts.steps else []

    def written_behind(self) -> list[WrittenBehind]:
        """The statements that change a value through ``.data`` on its way to the loss."""
        return list(written_behind(self.flow)) if self.flow.written else []

    # --- evaluation and training mode ---

    def awaited_words(self) -> list[AwaitedWord]:
        """The modes that are to be off for an evaluation, by a word that none has (reads other files)."""
        return list(awaited_words(self.flow))

    def evaluated_once(self) -> Forward | None:
        """A module call of a function that evaluates, and that a loop of another one calls."""
        return evaluated_once(self.flow)

    def calls_seeker(self) -> bool:
        """Whether it calls a loss that computes gradients itself, or may be one (reads other files)."""
        return calls_seeker(self.flow)

    def frozen_in_training(self) -> list[FrozenInTraining]:
        """What takes a part out of evaluation mode that was frozen in it (reads other files)."""
        return list(frozen_in_training(self.flow))

    def never_in_evaluation(self) -> list[NeverInEvaluation]:
        """The evaluations of models that nothing puts into evaluation mode (reads other files)."""
        return list(never_in_evaluation(self.flow)) if self.flow.facts.forwards else []

    def never_put_back(self) -> list[NeverPutBack]:
        """Where averaged weights are put into a network that it never gets out again (reads other files)."""
        return list(never_put_back(self.flow))

    def not_entered(self) -> list[Site]:
        """The statements that only make a gradient mode: ``torch.no_grad()``."""
        return list(not_entered(self.flow))

    def put_off(self) -> list[Forward]:
        """The module calls of a generator that it returns out of a `no_grad` of its own."""
        return list(put_off(self.flow))

    def thrown_away(self) -> list[Forward]:
        """The module calls that only ask a model for numbers, with a graph (reads other files)."""
        return list(thrown_away(self.flow))

    # --- what is kept ---

    def close_all_figures(self, figure: Call) -> bool:
        """Whether those who call it close all figures, that which it makes now and then too (reads other files)."""
        return close_all_figures(self.flow, figure)

    def class_lists(self) -> list[ClassList]:
        """The lists that its class has for all objects, and that it makes longer (reads other files)."""
        return list(class_lists(self.flow))

    def counted_keys(self) -> list[RandomKey]:
        """Those under a count of its object that only goes up (reads other files)."""
        return list(counted_keys(self.flow))

    def cut_when_read(self) -> list[CutWhenRead]:
        """The histories that it makes longer, and of which only the end is read (reads other files)."""
        return list(cut_when_read(self.flow))

    def default_lists(self) -> list[DefaultList]:
        """The lists that are defaults of its parameters, and that it makes longer (reads other files)."""
        return list(default_lists(self.flow))

    def forgotten_handles(self) -> list[ForgottenHandles]:
        """The handles of hooks that it drops, and nothing removes (reads other files)."""
        return list(forgotten_handles(self.flow))

    def is_given_kept(self) -> bool:
        """Whether each call gives its cache tensors that a list keeps (reads other files)."""
        return self.flow.facts.cached is not None and is_given_kept(self.flow)

    def kept_by_finalizers(self) -> list[KeptByFinalizer]:
        """The finalizers that it gives their own object (reads other files)."""
        return list(kept_by_finalizers(self.flow))

    def kept_contexts(self) -> list[KeptContext]:
        """Of an ``autograd.Function``: where the context of every call is kept (reads other files)."""
        return list(kept_contexts(self.flow))

    def kept_keys(self) -> list[KeptKey]:
        """The entries under weak keys whose values have their keys (reads other files)."""
        return list(kept_keys(self.flow))

    def kept_outputs(self) -> list[Site]:
        """Of the ``forward`` of an ``autograd.Function``: the statements that put an output on ``ctx``."""
        return kept_outputs(self.flow)

    def left_by_errors(self) -> list[LeftByError]:
        """What a context manager leaves in a collection where its block raises (reads other files)."""
        return (
            list(left_by_errors(self.flow))
            if self.flow.ref.define.is_generator and self.flow.ref.define.decorators
            else []
        )

    def left_on_stacks(self) -> list[LeftOnStack]:
        """The tensors that it leaves with an ``ExitStack`` in each iteration (reads other files)."""
        return list(left_on_stacks(self.flow))

    def kept_when_done(self) -> list[KeptWhenDone]:
        """The lists that it goes over, and out of which it takes nothing that is done (reads other files)."""
        return [*kept_when_done(self.flow), *jobs_in_turn(self.flow)]

    def left_running(self) -> list[LeftRunning]:
        """The objects with a thread that it makes in each iteration, and does not end (reads other files)."""
        return list(left_running(self.flow))

    def made_by_properties(self) -> list[MadeByProperty]:
        """What a property makes at each access, which registers hooks."""
        return list(made_by_properties(self.flow))

    def never_reset(self) -> list[NeverReset]:
        """The lists of a metric that it fills, and that nothing empties (reads other files)."""
        return [*never_reset(self.flow), *uncleared_outputs(self.flow)]

    def over_limit(self) -> list[OverLimit]:
        """The lists that it adds to where they are full (reads other files)."""
        return list(over_limit(self.flow))

    def put_away(self) -> list[PutAway]:
        """Where the pack hooks that it installs keep every tensor (reads other files)."""
        return list(put_away(self.flow))

    def random_keys(self) -> list[RandomKey]:
        """The dicts in which it keeps things under what is drawn (reads other files)."""
        return list(random_keys(self.flow))

    def recorded_runs(self) -> list[RecordedRun]:
        """The schedules of profilers that it makes whose window is a whole training (reads other files)."""
        return list(recorded_runs(self.flow))

    def renewed_keys(self) -> list[RenewedKey]:
        """The keys that it makes of tensors for the moment, `p.data` (reads other files)."""
        return list(renewed_keys(self.flow))

    def replaced_states(self) -> list[ReplacedState]:
        """The parameters that it replaces in the groups of an optimizer, which keeps the states of those that were
        there (reads other files).
        """
        return list(replaced_states(self.flow))

    def scheduled_keys(self) -> list[RandomKey]:
        """Those under a number that a training computes of its step (reads other files)."""
        return list(scheduled_keys(self.flow))

    def tensor_keys(self) -> list[TensorKey]:
        """The dicts and sets of which it uses elements of tensors as keys."""
        return [*tensor_keys(self.flow), *keys_given(self.flow)]

    def trimmed_aside(self) -> list[TrimmedAside]:
        """The slices of what a collection holds that nothing reads, and nobody puts back (reads other files)."""
        return list(trimmed_aside(self.flow))

    def trimmed_never(self) -> list[TrimmedNever]:
        """The histories that it trims, and drops nothing of (reads other files)."""
        return list(trimmed_never(self.flow))

    def varied_keys(self) -> list[Site]:
        """Where keys of its cache are made that are new with nearly each batch (reads other files)."""
        return list(varied_keys(self.flow)) if self.flow.facts.cached is not None else []

    def wrapped_again(self) -> list[WrappedAgain]:
        """What it puts around itself in each iteration of a loop that trains (reads other files)."""
        return list(wrapped_again(self.flow))

    # --- losses ---

    def cancelled(self) -> list[Cancelled]:
        """The sums in which a tensor cancels out that is to have their gradient: ``x + (x.round() - x)``."""
        return list(cancelled(self.flow))

    def cancelled_ratios(self) -> list[CancelledRatio]:
        """The ratios of a probability to itself."""
        return list(cancelled_ratios(self.flow))

    def cut_each_step(self) -> list[CutEachStep]:
        """The states that each step of a sequence detaches, before a loss over all of it (reads other files)."""
        return list(cut_each_step(self.flow))

    def hard_losses(self) -> list[HardLoss]:
        """Of a ``forward``: where a loss of the program loses the graph of what is predicted (reads other files)."""
        return list(hard_losses(self.flow))

    def cut_terms(self) -> list[CutTerm]:
        """Where a term of a loss is cut from all that is trained by it (reads other files)."""
        return list(cut_terms(self.flow)) if self.flow.facts.steps else []

    def detached_starts(self) -> list[DetachedStart]:
        """The copies that fast weights begin with, which end the graph of an outer loss (reads other files)."""
        return (
            list(detached_starts(self.flow))
            if self.flow.facts.backwards and self.flow.facts.grad_calls and self.flow.facts.steps
            else []
        )

    def drawn(self) -> list[Drawn]:
        """What is drawn without a graph, and given to a network with which its distribution is trained (reads other
        files).
        """
        return list(drawn(self.flow))

    def estimated_early(self) -> list[EstimatedEarly]:
        """The straight-through estimators that come before the loss of their codebook."""
        return list(estimated_early(self.flow))

    def exchanged(self) -> list[Exchanged]:
        """The straight-through estimators whose value is not rounded: ``q + (z - q).detach()``."""
        return list(exchanged(self.flow))

    def live_advantages(self) -> list[LiveAdvantage]:
        """The factors of a policy's loss that have the graph of a value."""
        return list(live_advantages(self.flow))

    def live_multipliers(self) -> list[LiveMultiplied]:
        """The factors in the loss of a multiplier that the same backward trains against it."""
        return list(live_multipliers(self.flow)) if self.flow.facts.backwards else []

    def inverted_orders(self) -> list[Site]:
        """The inner gradients that get a graph where a flag asks for the first order."""
        return list(inverted_orders(self.flow))

    def lost_derivatives(self) -> list[LostDerivative]:
        """The derivatives without a graph in an equation that is trained."""
        return list(lost_derivatives(self.flow)) if self.flow.facts.backwards else []

    def moving_targets(self) -> list[MovingTarget]:
        """The targets that the network which is trained computes itself, with their graph."""
        return list(moving_targets(self.flow))

    def never_recorded(self) -> list[NeverRecorded]:
        """The calls of methods under ``no_grad`` that alone run what is to be trained (reads other files)."""
        return [*never_recorded(self.flow), *given_unrecorded(self.flow)]

    def normalised_twice(self) -> list[NormalisedTwice]:
        """The losses that are given what is normalised already, or is not and should be (reads other files)."""
        return list(normalised_twice(self.flow))

    def only_chosen(self) -> list[OnlyChosen]:
        """The layers whose scores only choose, while others learn (reads other files)."""
        return list(only_chosen(self.flow))

    def only_detached(self) -> list[OnlyDetached]:
        """The parameters of which a module, or an object, uses detached numbers alone (reads other files)."""
        return [*only_detached(self.flow), *taken_as_numbers(self.flow), *optimized_detached(self.flow)]

    def overwritten_terms(self) -> list[OverwrittenTerm]:
        """The entries of a dict of losses that take the place of one which nothing has read."""
        return list(overwritten_terms(self.flow))

    def renewed_anchors(self) -> list[RenewedAnchor]:
        """The old values of a ratio that each pass over the same data computes anew."""
        return list(renewed_anchors(self.flow)) if self.flow.facts.steps else []

    def uneven_cuts(self) -> list[UnevenCut]:
        """The arguments of a term whose twins are detached in the other term of a symmetric loss."""
        return list(uneven_cuts(self.flow))

    # --- optimizers, schedulers and parameters ---

    def averaged_gradients(self) -> list[AveragedGradient]:
        """The states of its optimizer that it blends with gradients which have a graph (reads other files)."""
        return list(averaged_gradients(self.flow))

    def broken_ties(self) -> list[BrokenTie]:
        """What replaces one of two modules that it has given one weight (reads other files)."""
        return broken_ties(self.flow)

    def idle_optimizers(self) -> list[IdleOptimizer]:
        """The optimizers that something resets, and nothing steps (reads other files)."""
        return list(idle_optimizers(self.flow))

    def idle_schedulers(self) -> list[IdleScheduler]:
        """The schedulers that nothing steps (reads other files)."""
        return list(idle_schedulers(self.flow))

    def left_out(self) -> list[LeftOut]:
        """The loops that sort parameters into groups, and leave some out (reads other files)."""
        return list(left_out(self.flow))

    def live_states(self) -> list[LiveState]:
        """The states of models that it keeps without a copy until they are loaded."""
        return list(live_states(self.flow))

    def moved_frozen(self) -> list[MovedFrozen]:
        """The parts that it freezes in the midst of a training, and that keep gradients of zero (reads other files)."""
        return list(moved_frozen(self.flow)) if self.flow.facts.zero_grads else []

    def never_unfrozen(self) -> list[NeverUnfrozen]:
        """The networks that it freezes in each step, which nothing makes trainable again (reads other files)."""
        return never_unfrozen(self.flow) if self.flow.facts.steps else []

    def plateau_directions(self) -> list[PlateauDirection]:
        """The schedulers that wait for the highest loss, or for the lowest accuracy (reads other files)."""
        return list(plateau_directions(self.flow))

    def rebound_updates(self) -> list[Site]:
        """The statements that bind a loop's name for a parameter anew, which nothing reads then."""
        return list(rebound_updates(self.flow))

    def renewed_scalers(self) -> list[RenewedScaler]:
        """The gradient scalers that are made anew in each epoch (reads other files)."""
        return list(renewed_scalers(self.flow))

    def replacements(self) -> list[Replacement]:
        """Modules that are replaced after an optimizer was made that has their parameters (reads other files)."""
        return [
            *replacements(self.flow),
            *replaced_by_methods(self.flow),
            *replaced_by_heirs(self.flow),
            *unfrozen_later(self.flow),
            *unfrozen_by_others(self.flow),
            *made_when_run(self.flow),
        ]

    def schedule_lengths(self) -> list[ScheduleLength]:
        """The steps of schedulers that are counted otherwise than they are taken (reads other files)."""
        return [*schedule_lengths(self.flow), *micro_steps(self.flow), *micro_steps_of_callbacks(self.flow)]

    def schedulers_first(self) -> list[SchedulerFirst]:
        """The schedulers that step before the optimizer does (reads other files)."""
        return list(schedulers_first(self.flow))

    def set_on_modules(self) -> list[Site]:
        """The statements that give a module a ``requires_grad`` (reads other files)."""
        return list(set_on_modules(self.flow))

    def set_on_optimizers(self) -> list[SetOnOptimizer]:
        """Options that are set on an optimizer as attributes (reads other files)."""
        return list(set_on_optimizers(self.flow))

    def spent_iterators(self) -> list[SpentIterator]:
        """The uses of iterators of parameters that have nothing left."""
        return spent_iterators(self.flow)

    def stale_schedulers(self) -> list[StaleScheduler]:
        """The schedulers of optimizers that are replaced, while both go on (reads other files)."""
        return [*stale_schedulers(self.flow), *stale_by_methods(self.flow), *stale_from_outside(self.flow)]

    def stepped_twice(self) -> list[SteppedTwice]:
        """Optimizers that have some parameters in common, and step in turn (reads other files)."""
        return list(stepped_twice(self.flow))

    def tied_by_data(self) -> list[TiedByData]:
        """The statements that give a parameter the storage of another one."""
        return list(tied_by_data(self.flow))

    def trained_averages(self) -> list[TrainedAverage]:
        """The networks that follow another one, and are trained as well (reads other files)."""
        return list(trained_averages(self.flow))

    def trained_teachers(self) -> list[TrainedTeacher]:
        """The teachers that it trains with their students (reads other files)."""
        return list(trained_teachers(self.flow))

    def unapplied_rates(self) -> list[UnappliedRate]:
        """The changes of a learning rate that no optimizer is told."""
        return list(unapplied_rates(self.flow))

    def unreached(self) -> list[Unreached]:
        """The backwards after which an optimizer steps whose parameters they do not reach (reads other files)."""
        return [*unreached(self.flow), *trained_copies(self.flow)] if self.flow.facts.steps else []

    def unregistered(self) -> list[Unregistered]:
        """The plain lists and dicts in which a module puts what has parameters (reads other files)."""
        kept = kept_in_collections(self.flow)
        return unregistered(self.flow, kept) if kept else []

    def unregistered_leaves(self) -> list[tuple[str, Site]]:
        """The tensors of a module that want a gradient and are no parameters, each with where it is made (reads other
        files).
        """
        leaves = leaves_made(self.flow)
        return never_trained(self.flow, leaves) if leaves else []

    def unregistered_results(self) -> list[tuple[str, Site]]:
        """Those that are computed of a parameter which nothing else holds (reads other files)."""
        computed = computed_of_parameters(self.flow)
        return never_registered(self.flow, computed) if computed else []

    def without_optimizer(self) -> list[WithoutOptimizer]:
        """The objects with parameters that it makes, and no optimizer is given (reads other files)."""
        candidates = made_with_parameters(self.flow)
        return without_optimizer(self.flow, candidates) if candidates else []

    def zero_factors(self) -> list[ZeroFactors]:
        """The pairs of parameters that begin at zero, and are only multiplied with each other (reads other files)."""
        return list(zero_factors(self.flow))

"""Optimizers, schedulers and parameters: one question for each mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class OptimizerMistakes:
    """What may be wrong with what trains, or is trained, in one function.

    Args:
        flow: what the function does, read to its end.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def averaged_gradients(self) -> list[AveragedGradient]:
        """The states of its optimizer that it blends with gradients which have a graph (reads other files)."""
        return list(averaged_gradients(self._flow))

    def broken_ties(self) -> list[BrokenTie]:
        """What replaces one of two modules that it has given one weight (reads other files)."""
        return broken_ties(self._flow)

    def idle_optimizers(self) -> list[IdleOptimizer]:
        """The optimizers that something resets, and nothing steps (reads other files)."""
        return list(idle_optimizers(self._flow))

    def idle_schedulers(self) -> list[IdleScheduler]:
        """The schedulers that nothing steps (reads other files)."""
        return list(idle_schedulers(self._flow))

    def left_out(self) -> list[LeftOut]:
        """The loops that sort parameters into groups, and leave some out (reads other files)."""
        return list(left_out(self._flow))

    def live_states(self) -> list[LiveState]:
        """The states of models that it keeps without a copy until they are loaded."""
        return list(live_states(self._flow))

    def moved_frozen(self) -> list[MovedFrozen]:
        """The parts that it freezes in the midst of a training, and that keep gradients of zero (reads other files)."""
        return list(moved_frozen(self._flow)) if self._flow.facts.zero_grads else []

    def never_unfrozen(self) -> list[NeverUnfrozen]:
        """The networks that it freezes in each step, which nothing makes trainable again (reads other files)."""
        return never_unfrozen(self._flow) if self._flow.facts.steps else []

    def plateau_directions(self) -> list[PlateauDirection]:
        """The schedulers that wait for the highest loss, or for the lowest accuracy (reads other files)."""
        return list(plateau_directions(self._flow))

    def rebound_updates(self) -> list[Site]:
        """The statements that bind a loop's name for a parameter anew, which nothing reads then."""
        return list(rebound_updates(self._flow))

    def renewed_scalers(self) -> list[RenewedScaler]:
        """The gradient scalers that are made anew in each epoch (reads other files)."""
        return list(renewed_scalers(self._flow))

    def replacements(self) -> list[Replacement]:
        """Modules that are replaced after an optimizer was made that has their parameters (reads other files)."""
        return [
            *replacements(self._flow),
            *replaced_by_methods(self._flow),
            *replaced_by_heirs(self._flow),
            *unfrozen_later(self._flow),
            *unfrozen_by_others(self._flow),
            *made_when_run(self._flow),
        ]

    def schedule_lengths(self) -> list[ScheduleLength]:
        """The steps of schedulers that are counted otherwise than they are taken (reads other files)."""
        return [*schedule_lengths(self._flow), *micro_steps(self._flow), *micro_steps_of_callbacks(self._flow)]

    def schedulers_first(self) -> list[SchedulerFirst]:
        """The schedulers that step before the optimizer does (reads other files)."""
        return list(schedulers_first(self._flow))

    def set_on_modules(self) -> list[Site]:
        """The statements that give a module a ``requires_grad`` (reads other files)."""
        return list(set_on_modules(self._flow))

    def set_on_optimizers(self) -> list[SetOnOptimizer]:
        """Options that are set on an optimizer as attributes (reads other files)."""
        return list(set_on_optimizers(self._flow))

    def spent_iterators(self) -> list[SpentIterator]:
        """The uses of iterators of parameters that have nothing left."""
        return spent_iterators(self._flow)

    def stale_schedulers(self) -> list[StaleScheduler]:
        """The schedulers of optimizers that are replaced, while both go on (reads other files)."""
        return [*stale_schedulers(self._flow), *stale_by_methods(self._flow), *stale_from_outside(self._flow)]

    def stepped_twice(self) -> list[SteppedTwice]:
        """Optimizers that have some parameters in common, and step in turn (reads other files)."""
        return list(stepped_twice(self._flow))

    def tied_by_data(self) -> list[TiedByData]:
        """The statements that give a parameter the storage of another one."""
        return list(tied_by_data(self._flow))

    def trained_averages(self) -> list[TrainedAverage]:
        """The networks that follow another one, and are trained as well (reads other files)."""
        return list(trained_averages(self._flow))

    def trained_teachers(self) -> list[TrainedTeacher]:
        """The teachers that it trains with their students (reads other files)."""
        return list(trained_teachers(self._flow))

    def unapplied_rates(self) -> list[UnappliedRate]:
        """The changes of a learning rate that no optimizer is told."""
        return list(unapplied_rates(self._flow))

    def unreached(self) -> list[Unreached]:
        """The backwards after which an optimizer steps whose parameters they do not reach (reads other files)."""
        return [*unreached(self._flow), *trained_copies(self._flow)] if self._flow.facts.steps else []

    def unregistered(self) -> list[Unregistered]:
        """The plain lists and dicts in which a module puts what has parameters (reads other files)."""
        kept = kept_in_collections(self._flow)
        return unregistered(self._flow, kept) if kept else []

    def unregistered_leaves(self) -> list[tuple[str, Site]]:
        """The tensors of a module that want a gradient and are no parameters, each with where it is made (reads other
        files).
        """
        leaves = leaves_made(self._flow)
        return never_trained(self._flow, leaves) if leaves else []

    def unregistered_results(self) -> list[tuple[str, Site]]:
        """Those that are computed of a parameter which nothing else holds (reads other files)."""
        computed = computed_of_parameters(self._flow)
        return never_registered(self._flow, computed) if computed else []

    def without_optimizer(self) -> list[WithoutOptimizer]:
        """The objects with parameters that it makes, and no optimizer is given (reads other files)."""
        candidates = made_with_parameters(self._flow)
        return without_optimizer(self._flow, candidates) if candidates else []

    def zero_factors(self) -> list[ZeroFactors]:
        """The pairs of parameters that begin at zero, and are only multiplied with each other (reads other files)."""
        return list(zero_factors(self._flow))

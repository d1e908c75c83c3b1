"""Losses: one question for each mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class LossMistakes:
    """What may be wrong with the losses of one function.

    Args:
        flow: what the function does, read to its end.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def cancelled(self) -> list[Cancelled]:
        """The sums in which a tensor cancels out that is to have their gradient: ``x + (x.round() - x)``."""
        return list(cancelled(self._flow))

    def cancelled_ratios(self) -> list[CancelledRatio]:
        """The ratios of a probability to itself."""
        return list(cancelled_ratios(self._flow))

    def cut_each_step(self) -> list[CutEachStep]:
        """The states that each step of a sequence detaches, before a loss over all of it (reads other files)."""
        return list(cut_each_step(self._flow))

    def hard_losses(self) -> list[HardLoss]:
        """Of a ``forward``: where a loss of the program loses the graph of what is predicted (reads other files)."""
        return list(hard_losses(self._flow))

    def cut_terms(self) -> list[CutTerm]:
        """Where a term of a loss is cut from all that is trained by it (reads other files)."""
        return list(cut_terms(self._flow)) if self._flow.facts.steps else []

    def detached_starts(self) -> list[DetachedStart]:
        """The copies that fast weights begin with, which end the graph of an outer loss (reads other files)."""
        return (
            list(detached_starts(self._flow))
            if self._flow.facts.backwards and self._flow.facts.grad_calls and self._flow.facts.steps
            else []
        )

    def drawn(self) -> list[Drawn]:
        """What is drawn without a graph, and given to a network with which its distribution is trained (reads other
        files).
        """
        return list(drawn(self._flow))

    def estimated_early(self) -> list[EstimatedEarly]:
        """The straight-through estimators that come before the loss of their codebook."""
        return list(estimated_early(self._flow))

    def exchanged(self) -> list[Exchanged]:
        """The straight-through estimators whose value is not rounded: ``q + (z - q).detach()``."""
        return list(exchanged(self._flow))

    def live_advantages(self) -> list[LiveAdvantage]:
        """The factors of a policy's loss that have the graph of a value."""
        return list(live_advantages(self._flow))

    def live_multipliers(self) -> list[LiveMultiplied]:
        """The factors in the loss of a multiplier that the same backward trains against it."""
        return list(live_multipliers(self._flow)) if self._flow.facts.backwards else []

    def inverted_orders(self) -> list[Site]:
        """The inner gradients that get a graph where a flag asks for the first order."""
        return list(inverted_orders(self._flow))

    def lost_derivatives(self) -> list[LostDerivative]:
        """The derivatives without a graph in an equation that is trained."""
        return list(lost_derivatives(self._flow)) if self._flow.facts.backwards else []

    def moving_targets(self) -> list[MovingTarget]:
        """The targets that the network which is trained computes itself, with their graph."""
        return list(moving_targets(self._flow))

    def never_recorded(self) -> list[NeverRecorded]:
        """The calls of methods under ``no_grad`` that alone run what is to be trained (reads other files)."""
        return [*never_recorded(self._flow), *given_unrecorded(self._flow)]

    def normalised_twice(self) -> list[NormalisedTwice]:
        """The losses that are given what is normalised already, or is not and should be (reads other files)."""
        return list(normalised_twice(self._flow))

    def only_chosen(self) -> list[OnlyChosen]:
        """The layers whose scores only choose, while others learn (reads other files)."""
        return list(only_chosen(self._flow))

    def only_detached(self) -> list[OnlyDetached]:
        """The parameters of which a module, or an object, uses detached numbers alone (reads other files)."""
        return [*only_detached(self._flow), *taken_as_numbers(self._flow), *optimized_detached(self._flow)]

    def overwritten_terms(self) -> list[OverwrittenTerm]:
        """The entries of a dict of losses that take the place of one which nothing has read."""
        return list(overwritten_terms(self._flow))

    def renewed_anchors(self) -> list[RenewedAnchor]:
        """The old values of a ratio that each pass over the same data computes anew."""
        return list(renewed_anchors(self._flow)) if self._flow.facts.steps else []

    def uneven_cuts(self) -> list[UnevenCut]:
        """The arguments of a term whose twins are detached in the other term of a symmetric loss."""
        return list(uneven_cuts(self._flow))

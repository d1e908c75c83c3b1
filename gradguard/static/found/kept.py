"""What is kept from step to step: one question for each mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static.events import Call
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
from gradguard.static.reading.autograd_functions import kept_outputs
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class KeptMistakes:
    """What one function keeps, and is not to.

    Args:
        flow: what the function does, read to its end.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def close_all_figures(self, figure: Call) -> bool:
        """Whether those who call it close all figures, that which it makes now and then too (reads other files)."""
        return close_all_figures(self._flow, figure)

    def class_lists(self) -> list[ClassList]:
        """The lists that its class has for all objects, and that it makes longer (reads other files)."""
        return list(class_lists(self._flow))

    def counted_keys(self) -> list[RandomKey]:
        """Those under a count of its object that only goes up (reads other files)."""
        return list(counted_keys(self._flow))

    def cut_when_read(self) -> list[CutWhenRead]:
        """The histories that it makes longer, and of which only the end is read (reads other files)."""
        return list(cut_when_read(self._flow))

    def default_lists(self) -> list[DefaultList]:
        """The lists that are defaults of its parameters, and that it makes longer (reads other files)."""
        return list(default_lists(self._flow))

    def forgotten_handles(self) -> list[ForgottenHandles]:
        """The handles of hooks that it drops, and nothing removes (reads other files)."""
        return list(forgotten_handles(self._flow))

    def is_given_kept(self) -> bool:
        """Whether each call gives its cache tensors that a list keeps (reads other files)."""
        return self._flow.facts.cached is not None and is_given_kept(self._flow)

    def kept_by_finalizers(self) -> list[KeptByFinalizer]:
        """The finalizers that it gives their own object (reads other files)."""
        return list(kept_by_finalizers(self._flow))

    def kept_contexts(self) -> list[KeptContext]:
        """Of an ``autograd.Function``: where the context of every call is kept (reads other files)."""
        return list(kept_contexts(self._flow))

    def kept_keys(self) -> list[KeptKey]:
        """The entries under weak keys whose values have their keys (reads other files)."""
        return list(kept_keys(self._flow))

    def kept_outputs(self) -> list[Site]:
        """Of the ``forward`` of an ``autograd.Function``: the statements that put an output on ``ctx``."""
        return kept_outputs(self._flow)

    def left_by_errors(self) -> list[LeftByError]:
        """What a context manager leaves in a collection where its block raises (reads other files)."""
        return (
            list(left_by_errors(self._flow))
            if self._flow.ref.define.is_generator and self._flow.ref.define.decorators
            else []
        )

    def left_on_stacks(self) -> list[LeftOnStack]:
        """The tensors that it leaves with an ``ExitStack`` in each iteration (reads other files)."""
        return list(left_on_stacks(self._flow))

    def kept_when_done(self) -> list[KeptWhenDone]:
        """The lists that it goes over, and out of which it takes nothing that is done (reads other files)."""
        return [*kept_when_done(self._flow), *jobs_in_turn(self._flow)]

    def left_running(self) -> list[LeftRunning]:
        """The objects with a thread that it makes in each iteration, and does not end (reads other files)."""
        return list(left_running(self._flow))

    def made_by_properties(self) -> list[MadeByProperty]:
        """What a property makes at each access, which registers hooks."""
        return list(made_by_properties(self._flow))

    def never_reset(self) -> list[NeverReset]:
        """The lists of a metric that it fills, and that nothing empties (reads other files)."""
        return [*never_reset(self._flow), *uncleared_outputs(self._flow)]

    def over_limit(self) -> list[OverLimit]:
        """The lists that it adds to where they are full (reads other files)."""
        return list(over_limit(self._flow))

    def put_away(self) -> list[PutAway]:
        """Where the pack hooks that it installs keep every tensor (reads other files)."""
        return list(put_away(self._flow))

    def random_keys(self) -> list[RandomKey]:
        """The dicts in which it keeps things under what is drawn (reads other files)."""
        return list(random_keys(self._flow))

    def recorded_runs(self) -> list[RecordedRun]:
        """The schedules of profilers that it makes whose window is a whole training (reads other files)."""
        return list(recorded_runs(self._flow))

    def renewed_keys(self) -> list[RenewedKey]:
        """The keys that it makes of tensors for the moment, `p.data` (reads other files)."""
        return list(renewed_keys(self._flow))

    def replaced_states(self) -> list[ReplacedState]:
        """The parameters that it replaces in the groups of an optimizer, which keeps the states of those that were
        there (reads other files).
        """
        return list(replaced_states(self._flow))

    def scheduled_keys(self) -> list[RandomKey]:
        """Those under a number that a training computes of its step (reads other files)."""
        return list(scheduled_keys(self._flow))

    def tensor_keys(self) -> list[TensorKey]:
        """The dicts and sets of which it uses elements of tensors as keys."""
        return [*tensor_keys(self._flow), *keys_given(self._flow)]

    def trimmed_aside(self) -> list[TrimmedAside]:
        """The slices of what a collection holds that nothing reads, and nobody puts back (reads other files)."""
        return list(trimmed_aside(self._flow))

    def trimmed_never(self) -> list[TrimmedNever]:
        """The histories that it trims, and drops nothing of (reads other files)."""
        return list(trimmed_never(self._flow))

    def varied_keys(self) -> list[Site]:
        """Where keys of its cache are made that are new with nearly each batch (reads other files)."""
        return list(varied_keys(self._flow)) if self._flow.facts.cached is not None else []

    def wrapped_again(self) -> list[WrappedAgain]:
        """What it puts around itself in each iteration of a loop that trains (reads other files)."""
        return list(wrapped_again(self._flow))

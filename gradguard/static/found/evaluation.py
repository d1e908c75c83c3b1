"""Evaluation, and training mode: one question for each mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static.evaluation.awaited_words import awaited_words
from gradguard.static.evaluation.evaluated_once import evaluated_once
from gradguard.static.evaluation.frozen_in_training import frozen_in_training
from gradguard.static.evaluation.given_seekers import calls_seeker
from gradguard.static.evaluation.never_in_evaluation import never_in_evaluation
from gradguard.static.evaluation.never_put_back import never_put_back
from gradguard.static.evaluation.not_entered import not_entered
from gradguard.static.evaluation.put_off import put_off
from gradguard.static.evaluation.thrown_away import thrown_away
from gradguard.static.events import Forward
from gradguard.static.mistakes.evaluation import AwaitedWord, FrozenInTraining, NeverInEvaluation, NeverPutBack
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class EvaluationMistakes:
    """What may be wrong with how one function evaluates, and goes back to training.

    Args:
        flow: what the function does, read to its end.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def awaited_words(self) -> list[AwaitedWord]:
        """The modes that are to be off for an evaluation, by a word that none has (reads other files)."""
        return list(awaited_words(self._flow))

    def evaluated_once(self) -> Forward | None:
        """A module call of a function that evaluates, and that a loop of another one calls."""
        return evaluated_once(self._flow)

    def calls_seeker(self) -> bool:
        """Whether it calls a loss that computes gradients itself, or may be one (reads other files)."""
        return calls_seeker(self._flow)

    def frozen_in_training(self) -> list[FrozenInTraining]:
        """What takes a part out of evaluation mode that was frozen in it (reads other files)."""
        return list(frozen_in_training(self._flow))

    def never_in_evaluation(self) -> list[NeverInEvaluation]:
        """The evaluations of models that nothing puts into evaluation mode (reads other files)."""
        return list(never_in_evaluation(self._flow)) if self._flow.facts.forwards else []

    def never_put_back(self) -> list[NeverPutBack]:
        """Where averaged weights are put into a network that it never gets out again (reads other files)."""
        return list(never_put_back(self._flow))

    def not_entered(self) -> list[Site]:
        """The statements that only make a gradient mode: ``torch.no_grad()``."""
        return list(not_entered(self._flow))

    def put_off(self) -> list[Forward]:
        """The module calls of a generator that it returns out of a `no_grad` of its own."""
        return list(put_off(self._flow))

    def thrown_away(self) -> list[Forward]:
        """The module calls that only ask a model for numbers, with a graph (reads other files)."""
        return list(thrown_away(self._flow))

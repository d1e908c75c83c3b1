"""What may be wrong in a function: one question for each mistake, worked out where a rule asks it.

Most is never asked: of a function that is only called by one that is checked, no rule asks anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static.found.backward import BackwardMistakes
from gradguard.static.found.evaluation import EvaluationMistakes
from gradguard.static.found.kept import KeptMistakes
from gradguard.static.found.losses import LossMistakes
from gradguard.static.found.optimizers import OptimizerMistakes

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class Mistakes:
    """The mistakes of one function.

    Args:
        flow: what the function does, read to its end.
    """

    def __init__(self, flow: Flow) -> None:
        self.backward = BackwardMistakes(flow)
        self.evaluation = EvaluationMistakes(flow)
        self.kept = KeptMistakes(flow)
        self.losses = LossMistakes(flow)
        self.optimizers = OptimizerMistakes(flow)

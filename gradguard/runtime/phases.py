"""What is said of a run whose steps are not of one kind: training, and then an evaluation without an optimizer."""

from __future__ import annotations

from collections.abc import Mapping

UNITS = {
    "explicit": "were ended by the program",
    "optimizer": "are those of an optimizer",
    "loader": "are batches of a DataLoader",
    "module": "are calls of a module",
    "backward": "are backwards",
}

WORTH_A_WORD = 30
"""Calls of a model below which it says nothing that they were not watched: so few are judged nowhere."""

PART = 0.1
"""Of all steps: what is less is not told as a kind of its own."""


def evaluates(sources: Mapping[str, int]) -> bool:
    """Whether others came after the steps of an optimizer: what comes before the first one is its warm-up.

    Args:
        sources: how many steps each source has ended, in the order in which they came.
    """
    kinds = list(_kinds(sources))
    return "optimizer" in kinds[:-1]


def said_of_phases(sources: Mapping[str, int], unwatched: int) -> list[str]:
    """What is counted as a step, where that changes, and what was not watched at the end.

    Args:
        sources: how many steps each source has ended, in the order in which they came.
        unwatched: calls of the program's modules after the last step.
    """
    said = []
    kinds = _kinds(sources)
    if len(kinds) > 1:
        parts = (f"{count:,} {UNITS[source]}" for source, count in kinds.items())
        said.append(f"not all steps are of one kind: {', '.join(parts)}")
    if kinds and unwatched >= WORTH_A_WORD:
        said.append(
            f"after the last step the model was called at least {unwatched:,} times more, which was not watched"
        )
    return said


def _kinds(sources: Mapping[str, int]) -> dict[str, int]:
    least = PART * sum(sources.values())
    return {source: count for source, count in sources.items() if count > least}

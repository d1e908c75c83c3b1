"""Mistakes about evaluations, and the modes of models."""

from __future__ import annotations

from dataclasses import dataclass

from gradguard.static.source import Site


@dataclass(frozen=True, slots=True)
class NeverInEvaluation:
    """A model is evaluated in training mode.

    Args:
        site: what runs it in each iteration of the evaluation.
        module: the path of the model.
        trained: what trains it before, in the function that evaluates it, or has it evaluated; None where that is
            another one, and nothing in the whole program puts anything into evaluation mode.
    """

    site: Site
    module: str
    trained: Site | None = None


@dataclass(frozen=True, slots=True)
class FrozenInTraining:
    """A module is put into training mode, with a part that its constructor froze in evaluation mode.

    Args:
        site: the call of ``train``.
        module: its path.
        part: the path of the part.
        put: what put the part into evaluation mode.
    """

    site: Site
    module: str
    part: str
    put: Site


@dataclass(frozen=True, slots=True)
class AwaitedWord:
    """A gradient mode is to be off for an evaluation, by a word that no evaluation has.

    Args:
        site: what makes the mode.
        name: the variable.
        words: those that it is.
        awaited: those that it is compared with.
        trained: those of its words that are of no evaluation.
    """

    site: Site
    name: str
    words: tuple[str, ...]
    awaited: tuple[str, ...]
    trained: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NeverPutBack:
    """Averaged weights are put into a network while it is trained, and its own are never put back.

    Args:
        site: the call that does.
        name: the method.
        back: the one that would bring them back, which nothing calls.
        loop: the loop that trains.
        method: what puts the weights aside.
    """

    site: Site
    name: str
    back: str
    loop: Site
    method: Site

"""What the tree of a function has, where its text shows the signs of a rule that asks for more than words can tell.

A tree costs a hundredth of what following its values does, so a function that only such a rule chose is looked at
first. As with signs (:mod:`gradguard.signs`), a shape may be wider than its rule, never narrower.
"""

from __future__ import annotations

from collections.abc import Callable

from gradguard.static import tree as t
from gradguard.static.evaluation.numbers_taken import calls_without_graph
from gradguard.static.kept.trimmed_aside import trims_variable
from gradguard.static.kept.trimmed_never import trims_by_keys
from gradguard.static.losses.only_chosen import uses_indices_alone

SHAPES: dict[str, Callable[[t.Define], bool]] = {
    "only indices are used": uses_indices_alone,
    "only numbers are used": lambda define: bool(calls_without_graph(define)),
    "is trimmed": lambda define: trims_by_keys(define) or trims_variable(define),
}
"""By the names that rules give them."""


def has_one(define: t.Define, names: frozenset[str]) -> bool:
    """Whether a function has one of some shapes."""
    return any(SHAPES[name](define) for name in names)

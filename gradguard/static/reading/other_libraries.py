"""Models of another library than torch, in a file that imports both: no mode of torch's concerns them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static.reading.called import Called
from gradguard.static.reading.roots import node_of
from gradguard.static.values import Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def note_foreign(c: Called) -> None:
    """Note the models whose outputs are handed to another library as they are: ``dy.pickneglogsoftmax(logit, y)``.

    A tensor with a graph would have to be detached and made an array of.
    """
    if c.external.split(".", 1)[0] not in k.OTHER_LIBRARIES:
        return
    given = {node_of(r.key) for value in c.arguments for r in value.roots if r.source is Source.GRAPH}
    ran = (forward for forward in c.flow.facts.forwards if forward.module and forward.site.node in given)
    c.flow.foreign.update(forward.module for forward in ran if forward.module)


def judge_foreign(flow: Flow) -> None:
    """Tell the module calls that are of another library."""
    for forward in flow.facts.forwards if flow.foreign else ():
        forward.is_foreign = forward.module in flow.foreign

"""Whether what a module is given may carry a graph: one that has nothing to train may be a step of preprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradguard.static.definitions import FunctionRef
    from gradguard.static.flow import Flow
    from gradguard.static.model import Store


def may_get_graphs(flow: Flow, store: Store) -> bool:
    """Whether a module that stores what its ``forward`` is given has layers, or is run behind what has some.

    By the ``forward`` of a module that has it, or in ``nn.Sequential``.
    """
    owner, project = flow.ref.owner, flow.project
    if owner is None or owner.trains:
        return owner is not None
    every = project.survey.methods_of_modules("forward", flow.module)
    having = (ref for ref in every if ref.owner not in (None, owner) and owner.name in ref.owner.chunk.text)
    return any(_hands_it_graphs(flow, store, ref) for ref in having) or project.passed.is_behind_layers(owner)


def _hands_it_graphs(flow: Flow, store: Store, forward: FunctionRef) -> bool:
    """Whether another module's ``forward`` makes it store what certainly has a graph."""
    other = flow.project.flow(forward)
    stores = other.facts.stores if other is not None else []
    return any(each.carries_graph and each.source.site.node is store.source.site.node for each in stores)

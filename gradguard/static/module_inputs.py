"""Whether what a module is given may carry a graph: one that has nothing to train may be a step of preprocessing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradguard.static.definitions import FunctionRef
    from gradguard.static.flow import Flow
    from gradguard.static.model import Store


def may_get_graphs(flow: Flow, store: Store) -> bool:
    """Whether a module that stores what its ``forward`` is given is run behind what has layers.

    By the ``forward`` of a module that has it, or in ``nn.Sequential``. One that learns itself is likely to be, but for
    a whole model, which is given data.
    """
    owner, project = flow.ref.owner, flow.project
    if owner is None:
        return False
    every = project.survey.methods_of_modules("forward", flow.module)
    having = [ref for ref in every if ref.owner not in (None, owner) and owner.name in ref.owner.chunk.text]
    if owner.trains and (having or not _is_whole(flow, owner.name)):
        return True
    return any(_hands_it_graphs(flow, store, ref) for ref in having) or project.passed.is_behind_layers(owner)


def _is_whole(flow: Flow, name: str) -> bool:
    """Whether each object of a class gets a name of its own where it is made: ``net = Net()``."""
    by_name = re.compile(rf"=\s*(?:\w+\.)*{re.escape(name)}\(")
    otherwise = re.compile(rf"(?<!\bclass )(?<!= )(?<!\.)\b{re.escape(name)}\(")
    survey, word = flow.project.survey, f"{name}("
    return survey.mentions(by_name, flow.module, word) and not survey.mentions(otherwise, flow.module, word)


def _hands_it_graphs(flow: Flow, store: Store, forward: FunctionRef) -> bool:
    """Whether another module's ``forward`` makes it store what certainly has a graph."""
    other = flow.project.flow(forward)
    stores = other.facts.stores if other is not None else []
    return any(each.carries_graph and each.source.site.node is store.source.site.node for each in stores)

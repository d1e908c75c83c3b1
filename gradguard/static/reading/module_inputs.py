"""Whether what a module is given may carry a graph: one that has nothing to train may be a step of preprocessing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static.files.lines import class_around, lines_with

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Store
    from gradguard.static.program.functions import FunctionRef


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
    """Whether each object of a class gets a name where it is made, ``net = Net()``, and is part of no module."""
    made = re.compile(rf"^\s*(self\.)?\w+\s*(?::[^=]+)?=\s*(?:\w+\.)*{re.escape(name)}\(")
    otherwise = re.compile(rf"\bclass\s+{re.escape(name)}\b")
    found = [
        match is not None and (match[1] is None or _is_no_module(class_around(line, text)))
        for text in flow.project.survey.texts_used(f"{name}(", flow.module)
        for line in lines_with(f"{name}(", text)
        for match in [made.match(line.text)]
        if not otherwise.search(line.text)
    ]
    return bool(found) and all(found)


def _is_no_module(header: str) -> bool:
    """Whether the header of a class says that it is derived from none: ``class Agent:``, ``class Agent(object):``."""
    return re.fullmatch(r"\s*class\s+\w+\s*(?:\(\s*(?:object|ABC|abc\.ABC)?\s*\))?\s*:.*", header, re.S) is not None


def _hands_it_graphs(flow: Flow, store: Store, forward: FunctionRef) -> bool:
    """Whether another module's ``forward`` makes it store what certainly has a graph."""
    other = flow.project.flow(forward)
    stores = other.facts.stores if other is not None else []
    return any(each.carries_graph and each.source.site.node is store.source.site.node for each in stores)

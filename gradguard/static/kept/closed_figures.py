"""Figures that a function makes now and then, which those who call it close, with all others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static.knowledge import PYPLOT
from gradguard.static.model import Call, Function
from gradguard.static.program.made_objects import callers

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_CLOSES_ALL = re.compile(r"""\bclose\(\s*(?:fig\s*=\s*)?["']all["']""")


def close_all_figures(flow: Flow, figure: Call) -> bool:
    """Whether each that calls the function closes all figures (reads other files).

    Where nobody is seen to call it: whether a helper beside the one that makes the figure does.
    """
    calling = {place.ref.define: place.ref for place, _ in callers(flow.ref) if place.ref is not None}
    flows = [flow.project.flow(ref) for ref in calling.values()]
    if not flows:
        return figure.inner is not None and _CLOSES_ALL.search(figure.source.site.chunk.source.text) is not None
    return all(caller is not None and _closes_all(caller.facts) for caller in flows)


def _closes_all(function: Function) -> bool:
    return any(call.literal("fig", 0) == "all" for call in function.calls_of(f"{PYPLOT}close"))

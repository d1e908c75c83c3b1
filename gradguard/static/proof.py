"""What a backward proves: the value that it is called on carries a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static.called import last
from gradguard.static.roots import wholes_of
from gradguard.static.values import Root, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def prove(flow: Flow, value: Value) -> None:
    """Backward is called on ``value``, so its graph exists: which of its roots start one."""
    own = frozenset(r for r in value.roots if r.source is not Source.CARRIED)
    if own:
        flow.proven_values.add(own)
    settled = (Source.GRAPH, Source.LEAF, Source.CARRIED)
    open_roots = [r for r in value.roots if r.source not in settled and not _is_setting(flow, r)]
    if len(open_roots) == 1 and not any(r.source is Source.GRAPH for r in value.roots):
        flow.proven.update(open_roots)
        flow.proven.update(wholes_of(open_roots[0]))
        return
    for root in open_roots:
        if root.source is Source.LOSS or k.LOSS_NAME.search(_name(flow, root)):
            flow.proven.add(root)


def _is_setting(flow: Flow, root: Root) -> bool:
    """Whether it is a part of what a command line says: ``args.accumulation_steps``."""
    return any(k.SETTINGS_NAME.search(_name(flow, whole)) for whole in (root, *wholes_of(root)))


def _name(flow: Flow, root: Root) -> str:
    """The last part of the path that was bound to what the root stands for."""
    return last(flow.hints.get(root, ""))

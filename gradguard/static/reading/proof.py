"""What a backward proves: the value that it is called on carries a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.names import named_kind
from gradguard.static.program.paths import last
from gradguard.static.reading.roots import node_of, wholes_of
from gradguard.static.reading.terms import terms
from gradguard.static.values import Kind, Root, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.reading.state import State


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
        if root.source is Source.LOSS or k.LOSS_NAME.search(_name(flow, root)) or _is_of_model(root):
            flow.proven.add(root)


def prove_terms(flow: Flow, loss: t.Expr, state: State) -> None:
    """Backward is called on a sum: nobody adds what has no graph to a loss, so each of its terms has one."""
    found = terms(flow, loss, state)
    for term in found if len(found) > 1 else ():
        if term.roots and all(root.source in _MADE_HERE for root in term.roots):
            prove(flow, term)


_MADE_HERE = (Source.CALL, Source.LOSS, Source.GRAPH)


def _is_of_model(root: Root) -> bool:
    """Whether it is what a method of a model returned, which computes: ``vae.encode(x)``."""
    call = node_of(root.key)
    func = call.func if isinstance(call, t.Call) else None
    if not isinstance(func, t.Attribute) or k.PREPARES_NAME.search(func.name):
        return False
    path = t.path_of(func.value)
    return path is not None and named_kind(path) is Kind.MODULE


def _is_setting(flow: Flow, root: Root) -> bool:
    """Whether it is a part of what a command line says: ``args.accumulation_steps``."""
    return any(k.SETTINGS_NAME.search(_name(flow, whole)) for whole in (root, *wholes_of(root)))


def _name(flow: Flow, root: Root) -> str:
    """The last part of the path that was bound to what the root stands for."""
    return last(flow.hints.get(root, ""))

"""Inputs that are made anew for each graph, and whose gradient holds it.

``u.sum().backward(create_graph=True)``, and then ``x.grad``: what resets the gradients of the parameters
does not reach it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.files.outline import SCRIPT
from gradguard.static.model import Backward
from gradguard.static.program.functions import FunctionRef
from gradguard.static.reading.roots import node_of
from gradguard.static.source import Site
from gradguard.static.values import Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_WANTS = "requires_grad"


def tied_leaves(flow: Flow) -> Iterator[tuple[str, Backward]]:
    """The leaves of a function whose gradient is read after such a backward, and is dropped nowhere; with that."""
    for backward in flow.facts.backwards:
        if backward.create_graph is None or backward.inner is not None:
            continue
        if backward.loop is None and flow.ref.define.name == SCRIPT:
            continue  # it happens once
        names = dict.fromkeys((*_asked_after(flow.ref, backward.site.line), *_gone_through(flow.ref, backward)))
        name = next((n for n in names if _is_made_anew(flow, n, backward) and not _is_dropped(flow, n)), None)
        if name is not None:
            yield name, backward


def _asked_after(ref: FunctionRef, line: int) -> Iterator[str]:
    """The variables whose gradient is asked for behind a line."""
    for node in ref.define.nodes:
        of = node.value if isinstance(node, t.Attribute) and node.name == "grad" else None
        if isinstance(of, t.Name) and Site(ref.chunk, node).line > line:
            yield of.id


def _gone_through(ref: FunctionRef, backward: Backward) -> Iterator[str]:
    """The variables that are leaves of the graph of a backward."""
    leaves = [node_of(root.key) for root in backward.value.roots if root.source is Source.LEAF]
    for name, bound in ref.assigned.items():
        if any(node is leaf for value in bound for node in t.walk(value) for leaf in leaves):
            yield name


def _is_made_anew(flow: Flow, name: str, backward: Backward) -> bool:
    """Whether a variable is a leaf that the iteration of a backward has made, or its function or that one's caller."""
    bound = flow.ref.assigned.get(name, [])
    if bound:
        is_within = backward.loop is None or all(value in backward.loop.nodes for value in bound)
        return is_within and _is_leaf(flow.ref, name)
    if name not in flow.params or backward.loop is not None:
        return False
    callers = flow.project.written_calling(flow.ref)
    given = [_is_leaf(caller, each) for caller in callers for each in _given(flow.ref, caller, name)]
    return bool(given) and all(given)


def _given(ref: FunctionRef, caller: FunctionRef, name: str) -> Iterator[str]:
    """The variables of a caller that a function is given for a parameter."""
    for call in caller.calls:
        value = ref.given_by(call).get(name) if call.name == ref.define.name else None
        if isinstance(value, t.Name):
            yield value.id


def _is_leaf(ref: FunctionRef, name: str) -> bool:
    """Whether a function makes a variable, and has it want a gradient."""
    bound = ref.assigned.get(name, [])
    if not bound or not all(isinstance(value, t.Call | t.Operation) for value in bound):
        return False
    made = (node for value in bound for node in t.walk(value) if isinstance(node, t.Call))
    if any(call.is_true(_WANTS) or call.name == f"{_WANTS}_" for call in made):
        return True
    marks = (stmt for stmt in ref.define.statements if isinstance(stmt, t.Evaluate | t.Assign))
    return any(_marks(stmt, name) for stmt in marks)


def _marks(stmt: t.Evaluate | t.Assign, name: str) -> bool:
    """``x.requires_grad_()``, ``x.requires_grad = True``."""
    if isinstance(stmt, t.Assign):
        return any(t.path_of(target) == f"{name}.{_WANTS}" for target in stmt.targets)
    return isinstance(stmt.value, t.Call) and t.path_of(stmt.value.func) == f"{name}.{_WANTS}_"


def _is_dropped(flow: Flow, name: str) -> bool:
    """Whether a gradient is set to None or detached somewhere in the program, or an optimizer has the variable."""
    dropped = re.compile(
        rf"\.grad\s*=\s*None\b|\.grad\.detach_\(|\bdel\s+[\w.]+\.grad\b|optim\w*(?:\.\w+)*\(\s*\[[^\]]*\b{re.escape(name)}\b"
    )
    return flow.project.survey.mentions(dropped, flow.module)

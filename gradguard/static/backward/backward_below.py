"""Whether some statements run a backward, by themselves or by the functions of the program that they call."""

from __future__ import annotations

from collections.abc import Sequence

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef

DEPTH = 2
"""Functions that are followed, one called by the other."""


def runs_backward(ref: FunctionRef, body: t.Node | Sequence[t.Stmt], depth: int = DEPTH) -> bool:
    """Whether some statements, or an expression, of a function have a backward, or call a function that has one."""
    calls = [node for node in t.walk(body) if isinstance(node, t.Call)]
    callees = (ref.callee(call) for call in calls) if depth else ()
    return any(call.name == "backward" for call in calls) or any(
        callee is not None and runs_backward(callee, callee.define.body, depth - 1) for callee in callees
    )

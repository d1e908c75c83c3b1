"""Models that a function of the program gives as it has put them into evaluation mode: ``net, data = load(path)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.functions_called import functions_called
from gradguard.static.program.names import put_into_evaluation

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef


def gives_evaluated(flow: Flow, source: t.Expr | None, place: int | None) -> bool:
    """Whether what a call gives is a model in evaluation mode, whichever way its function takes.

    Args:
        flow: has the call.
        source: may be one.
        place: of the element, where the result is taken apart; None for the whole.
    """
    refs = list(functions_called(flow, source)) if isinstance(source, t.Call) else []
    return bool(refs) and all(_may_evaluate(ref) and _gives_evaluated(flow, ref, place) for ref in refs)


def _may_evaluate(ref: FunctionRef) -> bool:
    return any(call.name in ("eval", "train") for call in ref.calls)


def _gives_evaluated(flow: Flow, ref: FunctionRef, place: int | None) -> bool:
    returned = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return)]
    callee = flow.project.flow(ref) if returned and not ref.define.is_generator else None
    if callee is None:
        return False
    evaluating = callee.final.evaluating - callee.final.frozen
    given = [_at(value, place) for value in returned]
    return all(put_into_evaluation(each) or (each is not None and t.path_of(each) in evaluating) for each in given)


def _at(value: t.Expr | None, place: int | None) -> t.Expr | None:
    """An element of what is returned, or the whole."""
    if place is None:
        return value
    is_there = isinstance(value, t.Display) and place < len(value.items)
    return value.items[place] if isinstance(value, t.Display) and is_there else None

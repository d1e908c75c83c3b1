"""States of a recurrent cell that are cut from their past in each step of a sequence, before a loss over all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.filled import began_at, goes_through, may_be_stepped
from gradguard.static.mistakes.losses import CutEachStep
from gradguard.static.model import Forward, Loop, Mode
from gradguard.static.program.classes import Class
from gradguard.static.program.functions_called import functions_called
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_CELL = re.compile(r"\b(?:LSTM|GRU|RNN)Cell\(")
_SEQUENCE = re.compile(r"\b(?:LSTM|GRU|RNN)\(")
# What a function is called that takes the past from a state.
_CUTS = re.compile(r"repackage|detach|truncat", re.I)


def cut_each_step(flow: Flow) -> Iterator[CutEachStep]:
    """The loops over time whose every step detaches the state that the last one gave."""
    if flow.facts.is_test or flow.facts.entry_mode is Mode.OFF:
        return
    for loop in flow.facts.loops:
        body = loop.site.node.body if isinstance(loop.site.node, t.Repeat) else []
        if loop.backwards or loop.steps or loop.over_loader or loop.evaluates or loop.grad_calls:
            continue
        for stmt in body:
            found = _carries(flow, loop, body, stmt)
            if found is not None and _is_trained(flow, found[0]):
                run, state, cut = found
                yield CutEachStep(flow.site(cut), run.site, loop.site, state)


def _carries(flow: Flow, loop: Loop, body: list[t.Stmt], stmt: t.Stmt) -> tuple[Forward, str, t.Node] | None:
    """The run of a cell whose state goes round, by its path, and what detaches it: ``h = cell(x[t], h.detach())``."""
    call = stmt.value if isinstance(stmt, t.Assign) else None
    if not isinstance(stmt, t.Assign) or not isinstance(call, t.Call) or len(call.args) < 2:
        return None
    run = next((each for each in loop.forwards if each.site.node is call and each.mode is not Mode.OFF), None)
    if (
        run is None
        or not (call in flow.recurrent or _steps_cell(flow, call))
        or not _takes_element(loop, call.args[0].value)
    ):
        return None
    bound = {t.path_of(name) for target in stmt.targets for name in t.names_in(target)}
    for given in t.names_in(call.args[1].value):
        state = _detached(flow, given)
        cut = given if state is not None else _cut_in(flow, body, t.path_of(given))
        path = t.path_of(state if state is not None else given)
        if path is not None and path in bound and cut is not None:
            return run, path, cut
    return None


def _steps_cell(flow: Flow, call: t.Call) -> bool:
    """Whether a method of a module runs its cells once: ``model.step(token, state)``."""
    owners = [ref.owner for ref in functions_called(flow, call) if ref.owner is not None and ref.owner.is_module]
    codes = [constructor for owner in owners for constructor in _constructors(owner)]
    return bool(codes) and all(_CELL.search(code) and not _SEQUENCE.search(code) for code in codes)


def _constructors(owner: Class) -> Iterator[str]:
    methods = (method for method in methods_of(owner) if method.define.name == "__init__")
    yield from (Site(method.chunk, method.define).code for method in methods)


def _takes_element(loop: Loop, given: t.Expr) -> bool:
    """Whether each step is given something else of the sequence: ``x[t]``, ``x[:, t]``, an element."""
    return any(
        isinstance(node, t.Slice) or (isinstance(node, t.Name) and node.id in loop.targets) for node in t.walk(given)
    )


def _detached(flow: Flow, expr: t.Expr) -> t.Expr | None:
    """``h`` of ``h.detach()``, and of ``repackage_hidden(h)``, where that is what such a function does."""
    direct = t.detached(expr)
    if direct is not None or not isinstance(expr, t.Call) or len(expr.args) != 1 or not _CUTS.search(expr.name):
        return direct
    codes = [Site(ref.chunk, ref.define).code for ref in functions_called(flow, expr)]
    return expr.args[0].value if codes and all(".detach()" in code for code in codes) else None


def _cut_in(flow: Flow, body: list[t.Stmt], path: str | None) -> t.Node | None:
    """The statement of each iteration that detaches what is at a path: ``h = h.detach()``."""
    for stmt in body:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            cut = _detached(flow, value)
            if path is not None and t.path_of(target) == path and cut is not None and t.path_of(cut) == path:
                return stmt
    return None


def _is_trained(flow: Flow, run: Forward) -> bool:
    """Whether what a cell gives is backpropagated after the loop, or the caller gets it, and it is trained by that."""
    if not may_be_stepped(flow.facts, run):
        return False  # a reservoir
    if any(goes_through(backward, run) for backward in flow.facts.backwards):
        return True
    is_returned = any(began_at(root.key, run) for root in flow.facts.returns.reach)
    return is_returned and not flow.facts.called_without_grad()

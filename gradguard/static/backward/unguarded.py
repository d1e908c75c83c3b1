"""Backwards that also run where there is no optimizer, as in an evaluation: only the step asks whether there is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.backward import Unguarded
from gradguard.static.model import Backward, Step, ZeroGrad
from gradguard.static.program.order import blocks_of
from gradguard.static.program.paths import is_part

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def unguarded(flow: Flow) -> Iterator[Unguarded]:
    """The backwards of a function before ``if optimizer is not None: optimizer.step(); optimizer.zero_grad()``.

    What they leave without an optimizer comes to the next step that there is one for. Not so where the gradients are
    reset before a backward.
    """
    events = [event for event in flow.facts.events if isinstance(event, Backward | Step | ZeroGrad)]
    for stmt in flow.ref.define.statements:
        path = _asked_for(stmt.test) if isinstance(stmt, t.If) and not stmt.orelse else None
        if path is None or not isinstance(stmt, t.If) or not _may_be_none(flow, path):
            continue
        inside = [event for event in events if event.is_in(stmt.body)]
        step = next((e for e in inside if isinstance(e, Step) and is_part(e.target or "", path)), None)
        if step is None or not any(isinstance(e, ZeroGrad) for e in inside[inside.index(step) :]):
            continue
        before = events[: events.index(inside[0])]
        block = next((b for b in blocks_of(flow.ref.define.body) if any(each is stmt for each in b)), [])
        backward = before[-1] if before else None
        resets = any(isinstance(each, ZeroGrad) for each in before)
        if isinstance(backward, Backward) and not resets and _stands_before(block, stmt, backward):
            yield Unguarded(backward.site, step.site, path)


def _asked_for(test: t.Expr) -> str | None:
    """What is there, or is None: ``self.opt`` of ``if self.opt is not None:``, and of ``if self.opt:``."""
    if isinstance(test, t.Operation) and test.operator == "is not" and len(test.operands) == 2:
        asked, none = test.operands
        return t.path_of(asked) if isinstance(none, t.Constant) and none.value is None else None
    return t.path_of(test) if isinstance(test, t.Name | t.Attribute) else None


def _may_be_none(flow: Flow, path: str) -> bool:
    """Whether nobody need give it: a parameter of the function, or of the constructor, that is None by itself."""
    owner, name = flow.ref.owner, path.removeprefix("self.")
    if path == name or owner is None:
        return _is_none_by_itself(flow.ref.define, path)
    bound = owner.assigned(name)
    return any(isinstance(value, t.Name) and _is_none_by_itself(define, value.id) for define, value in bound)


def _is_none_by_itself(define: t.Define, name: str) -> bool:
    defaults = [param.default for param in define.params if param.name == name]
    return any(isinstance(default, t.Constant) and default.value is None for default in defaults)


def _stands_before(block: list[t.Stmt], stmt: t.If, backward: Backward) -> bool:
    """Whether it always runs before an ``if``: it is a statement of the same block."""
    place = next(number for number, each in enumerate(block) if each is stmt)
    return any(isinstance(each, t.Evaluate) and each.value is backward.site.node for each in block[:place])

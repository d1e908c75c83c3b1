"""Modes that are remembered too late: ``net.eval()``, ``was = net.training``, and in the end ``net.train(was)``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import has
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def asked_too_late(flow: Flow, module: t.Expr, setting: t.Expr) -> Site | None:
    """Where the mode was asked that is put back, if the module is in evaluation mode by then, wherever that is done.

    Args:
        module: the module whose mode is put back.
        setting: what it is put back to: a name, or an attribute of the object.
    """
    owner, kept = t.path_of(module), t.path_of(setting)
    if owner is None or kept is None or not isinstance(setting, t.Name | t.Attribute):
        return None
    asked = [(ref, stmt, value) for ref in _around(flow, kept) for stmt, value in _bound(ref, kept)]
    late = [Site(ref.chunk, stmt) for ref, stmt, value in asked if _is_late(ref.define.body, stmt, value, owner)]
    return late[0] if late and len(late) == len(asked) else None


def _around(flow: Flow, kept: str) -> list[FunctionRef]:
    """The functions that may bind what is kept: those of the class, where the object has it."""
    cls = flow.ref.owner
    if cls is None or not kept.startswith("self."):
        return [] if "." in kept else [flow.ref]
    return [ref for each in cls.lineage() for ref in each.methods.values()]


def _bound(ref: FunctionRef, kept: str) -> Iterator[tuple[t.Stmt, t.Expr]]:
    for stmt in ref.define.statements:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            if t.path_of(target) == kept:
                yield stmt, value


def _is_late(body: Sequence[t.Stmt], stmt: t.Stmt, value: t.Expr, module: str) -> bool:
    """Whether a statement that asks for the mode of a module comes after one that puts it into evaluation mode."""
    if not isinstance(value, t.Attribute) or value.name != "training" or t.path_of(value.value) != module:
        return False
    blocks = [body, *(block for each in t.walk_statements(body) for block in t.blocks(each))]
    befores = (_before(block, stmt) for block in blocks if has(block, stmt))
    return any(_ends_in_evaluation(before, module) for before in befores)


def _before(block: Sequence[t.Stmt], stmt: t.Stmt) -> Sequence[t.Stmt]:
    """What comes in a block before a statement that is in it, or in a statement of it."""
    return block[: next(place for place, each in enumerate(block) if has([each], stmt))]


def _ends_in_evaluation(before: Sequence[t.Stmt], module: str) -> bool:
    """Whether the last statement that has to do with a module puts it into evaluation mode."""
    last = next((each for each in reversed(before) if _speaks_of(each, module)), None)
    call = last.value if isinstance(last, t.Evaluate | t.Assign) else None
    return isinstance(call, t.Call) and not call.args and t.path_of(call.func) == f"{module}.eval"


def _speaks_of(stmt: t.Stmt, module: str) -> bool:
    return any(t.path_of(node) == module for node in t.walk([stmt]) if isinstance(node, t.Name | t.Attribute))

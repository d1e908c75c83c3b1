"""A sum in an object that whoever calls the method begins anew each time: ``agent.act(x)``, then ``agent.learn()``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.clearing import AT_START

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef


def is_reset_by_callers(flow: Flow, path: str) -> bool:
    """Whether who calls this method also calls, each time, one of the object that begins anew what it adds to.

    Of several loops of a function one says how it is meant: another one may run where the method adds nothing, as in an
    evaluation. So may a function that calls none of those.

    Args:
        path: an attribute of the object, to which the method adds.
    """
    owner, method = flow.ref.owner, flow.ref.define
    if owner is None:
        return False
    methods = (ref for cls in owner.lineage() for ref in cls.methods.values() if ref.define is not method)
    resetting = {ref.define.name for ref in methods if _resets(ref.define, path)} - {*AT_START, method.name}
    if not resetting:
        return False
    anywhere = flow.project.written_calling(flow.ref, anywhere=True)
    callers = (ref for ref in anywhere if ref.define.name != method.name)
    told = [found for ref in callers if (found := list(_resets_beside(ref, method.name, resetting)))]
    return bool(told) and all(map(any, told))


def _resets(method: t.Define, path: str) -> bool:
    """Whether a method surely gives an attribute a value that is not made of the one it had."""
    for stmt in _in_order(method.body):
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            if t.path_of(target) == path:
                return all(t.path_of(part) != path for part in t.walk(value) if isinstance(part, t.Expr))
        if any(isinstance(inner, t.Return) for inner in t.walk_statements([stmt])):
            return False
    return False


def _resets_beside(caller: FunctionRef, method: str, resetting: set[str]) -> Iterator[bool]:
    """Whether what calls a method of an object calls one of some others of that object too, for each such call."""
    loops = [stmt for stmt in caller.define.statements if isinstance(stmt, t.Repeat)]
    for block in (caller.define.body, *(loop.body for loop in loops)):
        inner = {node for each in t.walk_statements(block) if isinstance(each, t.Repeat) for node in t.walk(each.body)}
        own = [node for node in t.walk(block) if node not in inner]
        objects = {owner for owner, name in _called(own) if name == method}
        plain = (stmt for stmt in _in_order(block) if not isinstance(stmt, _BRANCHING))
        sure = {owner for stmt in plain for owner, name in _called(t.walk(stmt)) if name in resetting}
        everywhere = {owner for owner, name in _called(caller.define.nodes) if name in resetting}
        skips = any(isinstance(node, t.Leave) and node.kind == "continue" for node in own)
        yield from (owner in sure and not skips for owner in sorted(objects & everywhere))


_BRANCHING = (t.If, t.Repeat, t.Try, t.Match, t.Define, t.DefineClass)


def _in_order(body: list[t.Stmt]) -> Iterator[t.Stmt]:
    """The statements of a block, and of those that always run with it: ``with autocast():``."""
    for stmt in body:
        if isinstance(stmt, t.With):
            yield from _in_order(stmt.body)
        else:
            yield stmt


def _called(nodes: Iterable[t.Node]) -> Iterator[tuple[str, str]]:
    """The methods that are called, each after its object."""
    for node in nodes:
        func = node.func if isinstance(node, t.Call) else None
        owner = t.path_of(func.value) if isinstance(func, t.Attribute) else None
        if isinstance(func, t.Attribute) and owner is not None:
            yield owner, func.name

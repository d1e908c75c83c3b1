"""Old probabilities that are computed again, in the same place, by the very expression of the new ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.program.order import blocks_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 4
# What gives something else each time, and what may change what a policy gives in between.
_DRAWS = re.compile(r"sample|rand|dropout|bernoulli|multinomial|^next$|^pop|noise", re.I)
_CHANGES = re.compile(r"step|backward|load|swap|restore|update|sync|copy_|train$|eval$", re.I)


class _Bound(NamedTuple):
    """What a statement binds a path to; of a tuple, an item."""

    stmt: t.Assign
    value: t.Expr
    place: int | None = None


def computed_again(flow: Flow, new: str, old: str) -> t.Expr | None:
    """What the old one is bound to, where the new one is made in the same way, and nothing changes in between."""
    one, other = _bound(flow, new), _bound(flow, old)
    if one is None or other is None or one.place != other.place or one.stmt is other.stmt:
        return None
    if not any(isinstance(node, t.Call) for node in t.walk(other.value)):
        return None
    pairs = _Pairs(flow, [one.stmt, other.stmt])
    if not pairs.are_same(one.value, other.value, _DEPTH):
        return None
    block = next((each for each in blocks_of(flow.ref.define.body) if _are_in(each, pairs.stmts)), None)
    return other.value if block is not None and _is_still(block, pairs) else None


def _bound(flow: Flow, path: str) -> _Bound | None:
    """What a path is bound to, if one statement does."""
    found: list[_Bound] = []
    for stmt in flow.ref.define.statements:
        if isinstance(stmt, t.Assign) and len(stmt.targets) == 1:
            names = list(t.names_in(stmt.targets[0]))
            places = [place for place, each in enumerate(names) if t.path_of(each) == path]
            is_tuple = isinstance(stmt.targets[0], t.Display)
            found += [_Bound(stmt, stmt.value, place if is_tuple else None) for place in places]
        elif path in _bound_by(stmt):
            return None
    return found[0] if len(found) == 1 else None


def _bound_by(stmt: t.Stmt) -> set[str | None]:
    targets = stmt.targets if isinstance(stmt, t.Assign) else []
    if isinstance(stmt, t.Augment | t.Repeat) and stmt.target is not None:
        targets = [stmt.target]
    return {t.path_of(each) for target in targets for each in t.names_in(target)}


def _are_in(block: Sequence[t.Stmt], stmts: Sequence[t.Stmt]) -> bool:
    return all(any(each is stmt for each in block) for stmt in stmts)


def _is_still(block: Sequence[t.Stmt], pairs: _Pairs) -> bool:
    """Whether the statements of a block, from the first of some to the last, only compute something else."""
    places = [place for place, each in enumerate(block) if any(each is stmt for stmt in pairs.stmts)]
    for stmt in block[places[0] : places[-1] + 1]:
        if not isinstance(stmt, t.Assign) or (pairs.leaves & _bound_by(stmt)):
            return False
        if any(isinstance(node, t.Call) and _CHANGES.search(node.name) for node in t.walk(stmt.value)):
            return False
    return True


class _Pairs:
    """The comparison of two expressions, through the variables that they are made of.

    Args:
        stmts: the statements that bind these, and those of the two.
    """

    def __init__(self, flow: Flow, stmts: list[t.Assign]) -> None:
        self.flow = flow
        self.stmts = stmts
        self.leaves: set[str | None] = set()

    def are_same(self, one: t.Expr, other: t.Expr, depth: int) -> bool:
        path = t.path_of(one) if isinstance(one, t.Name | t.Attribute) else None
        if path is not None and path == t.path_of(other):
            self.leaves.add(path)
            return True
        made, remade = self._made(one, depth), self._made(other, depth)
        if made is not None or remade is not None:
            return self.are_same(made or one, remade or other, depth - 1)
        if isinstance(one, t.Call) and isinstance(other, t.Call):
            return self._are_same_calls(one, other, depth)
        if isinstance(one, t.Attribute) and isinstance(other, t.Attribute):
            return one.name == other.name and self.are_same(one.value, other.value, depth)
        if isinstance(one, t.Subscript) and isinstance(other, t.Subscript):
            is_same = self.are_same(one.index, other.index, depth)
            return is_same and self.are_same(one.value, other.value, depth)
        if isinstance(one, t.Constant) and isinstance(other, t.Constant):
            return one.value == other.value
        if isinstance(one, t.Operation) and isinstance(other, t.Operation):
            return one.operator == other.operator and self._are_all_same(one.operands, other.operands, depth)
        return False

    def _made(self, expr: t.Expr, depth: int) -> t.Expr | None:
        """What a variable is made of, if that is one expression."""
        bound = _bound(self.flow, expr.id) if isinstance(expr, t.Name) and depth else None
        if bound is None or bound.place is not None:
            return None
        self.stmts.append(bound.stmt)
        return bound.value

    def _are_same_calls(self, one: t.Call, other: t.Call, depth: int) -> bool:
        if one.name != other.name or _DRAWS.search(one.name) or _CHANGES.search(one.name):
            return False
        words = [(arg.keyword, arg.star) for arg in one.args]
        if words != [(arg.keyword, arg.star) for arg in other.args]:
            return False
        values = [arg.value for arg in one.args], [arg.value for arg in other.args]
        return self.are_same(one.func, other.func, depth) and self._are_all_same(*values, depth)

    def _are_all_same(self, some: Sequence[t.Expr], others: Sequence[t.Expr], depth: int) -> bool:
        pairs = list(zip(some, others))
        return len(some) == len(others) and all(self.are_same(a, b, depth) for a, b in pairs)

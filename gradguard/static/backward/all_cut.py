"""Whether all that is made of what a call gives is cut off the graph, as it is written: each use of it is followed.

The walk over a function tells which graphs reach a backward, as far as it knows them. Here every use must be known: one
that is not, may want the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.model import Scope

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_MOST = 200
"""Uses that are followed."""
_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">=", "in", "not in", "is", "is not", "not"))
_COUNTING = frozenset("float int bool len print str repr isinstance type".split())
_FILLING = frozenset("append extend".split())
_SIZES = frozenset("shape size dim ndim numel device dtype".split())
_LIKE = frozenset(f"{name}_like" for name in "zeros ones empty full rand randn randint".split())
_MOVES = k.MOVING_METHODS | k.SHAPING_METHODS
_SAMPLING = frozenset("sample sample_n".split())


class AllCut:
    """The uses of what calls give in one function.

    Args:
        flow: its walk.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._sizes = self._others = 0
        self.around = dict(_around(flow.ref.define.body, ()))
        nodes = (node for stmt in self.around for node in own_nodes(stmt))
        inner = [node for node in flow.ref.define.nodes if isinstance(node, t.Define | t.DefineClass | t.Lambda)]
        self.in_closures = {node.id for each in inner for node in t.walk(each) if isinstance(node, t.Name)}
        self.bound = {id(name) for stmt in self.around for name in _names_bound(stmt)}
        self.is_boundless = any(isinstance(node, t.Walrus) for node in nodes)
        self.samples_itself = flow.project.survey.has_method("sample", flow.module)

    def holds_for(self, stmt: t.Stmt, node: t.Node) -> bool:
        """Whether all that is made of a node of a statement is cut off, and more than its size is used."""
        waiting, seen = [(stmt, node)], set[int]()
        self._sizes = self._others = 0
        while waiting and len(seen) < _MOST:
            stmt, node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if self._is_silent(stmt) and len(seen) > 1:
                continue
            names = self._goes_on_as(stmt, node)
            if names is None:
                return False
            for name in names:
                if name in self.in_closures or self.flow.scope(name) is not Scope.LOCAL or self.is_boundless:
                    return False
                waiting += self._reads(name, stmt)
        return not waiting and (self._others > 0 or not self._sizes)

    @property
    def is_used(self) -> bool:
        """Whether there is any use of what was asked about last."""
        return self._others > 0

    def contexts(self, stmt: t.Stmt) -> Iterator[t.Expr]:
        """The contexts that a statement runs in, as is written around it."""
        for owner, _, _ in self.around.get(stmt, ()):
            if isinstance(owner, t.With):
                yield from (context for context, _ in owner.items)

    def _is_silent(self, stmt: t.Stmt) -> bool:
        """Whether a statement runs under ``no_grad``."""
        names = (each.name for each in self.contexts(stmt) if isinstance(each, t.Call))
        return any(name in ("no_grad", "inference_mode") for name in names)

    def _goes_on_as(self, stmt: t.Stmt, node: t.Node) -> list[str] | None:
        """The variables that have it with its graph after a statement; None where it goes elsewhere, or may."""
        way = way_to(own_parts(stmt), node)
        if not way:
            return None
        end = next((each for each, below in pairwise(way) if self._ends(each, below)), None)
        if end is not None:
            is_size = any(isinstance(each, t.Attribute) and each.name in _SIZES for each in way) or _is_new(end)
            self._sizes, self._others = self._sizes + is_size, self._others + (not is_size)
            return []
        if any(isinstance(each, t.Lambda | t.Suspend | t.Walrus | t.Define) for each in way):
            return None
        if isinstance(stmt, t.Delete):
            return []
        if isinstance(stmt, t.Assign):
            self._others += any(_is_indexed(*pair) for pair in _pairs_of(stmt, node))  # the indices are a use
            return _bound_to(stmt, node)
        if isinstance(stmt, t.Augment):
            return _names([stmt.target])
        if isinstance(stmt, t.Repeat) and stmt.target is not None:
            return _names([stmt.target])
        if isinstance(stmt, t.Evaluate):
            return [] if _is_dropped(stmt.value, node) else _filled(stmt.value, node)
        return None

    def _ends(self, node: t.Node, below: t.Node) -> bool:
        """Whether an expression has no graph of a part of it."""
        if isinstance(node, t.Attribute):
            return node.name in k.BREAKING_ATTRIBUTES or node.name == "indices"
        if isinstance(node, t.Operation):
            return node.operator in _COMPARISONS
        if isinstance(node, t.Subscript):
            return node.index is below or _takes_indices(node)
        if not isinstance(node, t.Call):
            return False
        func = node.func
        if isinstance(func, t.Name):
            return func.id in _COUNTING and func is not below
        if not isinstance(func, t.Attribute):
            return False
        if _is_new(node):
            return True
        if func.name in _SAMPLING:
            return func is below and not self.samples_itself and not any(arg.keyword for arg in node.args)
        if func.name in k.CUTS or func.name in k.CHOOSING or func.name in k.BREAKING_METHODS:
            return True
        return _is_logging(func) and func is not below

    def _reads(self, name: str, stmt: t.Stmt) -> list[tuple[t.Stmt, t.Node]]:
        """Where a variable is read that a statement binds, as far as it may still have that."""
        ours = self.around.get(stmt, ())
        following = _until_bound(name, ours)
        around = {id(block) for _, block, _ in ours}
        found: list[tuple[t.Stmt, t.Node]] = []
        for other in following if following is not None else self.around:
            if following is None and other is not stmt and self._is_bound_before(other, name, around):
                continue
            found += [(other, node) for node in own_nodes(other) if self._is_read(node, name)]
        return found

    def _is_read(self, node: t.Node, name: str) -> bool:
        return isinstance(node, t.Name) and node.id == name and id(node) not in self.bound

    def _is_bound_before(self, stmt: t.Stmt, name: str, ours: set[int]) -> bool:
        """Whether a statement surely finds in a variable what was bound to it beside, away from some blocks."""
        for _, block, place in self.around.get(stmt, ()):
            if id(block) not in ours and any(_binds(each, name) for each in block[:place]):
                return True
        return False


def _is_new(node: t.Node) -> bool:
    """Whether it is a new tensor of the shape of another one: ``torch.zeros_like(out)``."""
    return isinstance(node, t.Call) and node.name in _LIKE


def _takes_indices(node: t.Subscript) -> bool:
    """The places of the largest: ``out.max(1)[1]``."""
    is_second = isinstance(node.index, t.Constant) and node.index.value == 1
    return is_second and isinstance(node.value, t.Call) and node.value.name in k.INDEXED_RESULTS


def way_to(nodes: Iterator[t.Node] | Sequence[t.Node], node: t.Node) -> list[t.Node]:
    """The nodes around a node, from one of some to itself."""
    for each in nodes:
        if each is node:
            return [each]
        if way := way_to(list(t.parts(each)), node):
            return [each, *way]
    return []


def own_parts(stmt: t.Stmt) -> list[t.Node]:
    """The expressions of a statement: not what is in its blocks."""
    if isinstance(stmt, t.If):
        return [stmt.test]
    if isinstance(stmt, t.Repeat):
        return [each for each in (stmt.target, stmt.iterable, stmt.test) if each is not None]
    if isinstance(stmt, t.With):
        return [each for item in stmt.items for each in item if each is not None]
    if isinstance(stmt, t.Match):
        return [stmt.subject]
    return [] if isinstance(stmt, t.Try | t.Define | t.DefineClass) else list(t.parts(stmt))


def own_nodes(stmt: t.Stmt) -> Iterator[t.Node]:
    for part in own_parts(stmt):
        yield from t.walk(part)


_Around = tuple[tuple[t.Stmt | None, list[t.Stmt], int], ...]
"""The blocks around a statement, outermost first: what has each, the block, and the place in it."""


def _around(body: list[t.Stmt], outer: _Around, owner: t.Stmt | None = None) -> Iterator[tuple[t.Stmt, _Around]]:
    for place, stmt in enumerate(body):
        here = (*outer, (owner, body, place))
        yield stmt, here
        for block in t.blocks(stmt):
            yield from _around(block, here, stmt)


def _names_bound(stmt: t.Stmt) -> Iterator[t.Expr]:
    targets: list[t.Expr] = []
    if isinstance(stmt, t.Assign):
        targets = stmt.targets
    elif isinstance(stmt, t.Repeat) and stmt.target is not None:
        targets = [stmt.target]
    elif isinstance(stmt, t.With):
        targets = [target for _, target in stmt.items if target is not None]
    return (name for target in targets for name in t.names_in(target) if isinstance(name, t.Name))


def _binds(stmt: t.Stmt, name: str) -> bool:
    return isinstance(stmt, t.Assign) and any(isinstance(n, t.Name) and n.id == name for n in _names_bound(stmt))


def _until_bound(name: str, around: _Around) -> list[t.Stmt] | None:
    """The statements after one in its block, up to one that binds a variable anew; None where none does."""
    _, block, place = around[-1]
    found: list[t.Stmt] = []
    for each in block[place + 1 :]:
        found += [each, *t.walk_statements([stmt for inner in t.blocks(each) for stmt in inner])]
        if _binds(each, name):
            return found
    return None


def _names(targets: Sequence[t.Expr]) -> list[str] | None:
    """The variables that some targets are; None where one is no variable."""
    single = [each for target in targets for each in t.names_in(target)]
    names = [each.id for each in single if isinstance(each, t.Name)]
    return names if len(names) == len(single) else None


def _bound_to(stmt: t.Assign, node: t.Node) -> list[str] | None:
    found: list[str] = []
    for target, value in _pairs_of(stmt, node):
        has_indices = isinstance(target, t.Display) and _is_indexed(target, value)
        names = _names(target.items[:1] if has_indices and isinstance(target, t.Display) else [target])
        if names is None:
            return None
        found += names
    return found


def _pairs_of(stmt: t.Assign, node: t.Node) -> list[tuple[t.Expr, t.Expr]]:
    """The targets that get what a node is in, each with that."""
    pairs = t.pairs(stmt.targets, stmt.value)
    return [(target, value) for target, value in pairs if any(each is node for each in t.walk(value))]


def _is_indexed(target: t.Expr, value: t.Expr) -> bool:
    """``values, indices = scores.max(1)``: the second one has no graph."""
    return isinstance(value, t.Call) and value.name in k.INDEXED_RESULTS and isinstance(target, t.Display)


def _is_dropped(value: t.Expr, node: t.Node) -> bool:
    """Whether a tensor is moved, or shaped, and nothing gets the result: ``target.to(device)``."""
    tensor = value
    while isinstance(tensor, t.Call) and isinstance(tensor.func, t.Attribute) and tensor.func.name in _MOVES:
        tensor = tensor.func.value
    return tensor is node is not value


def _filled(value: t.Expr, node: t.Node) -> list[str] | None:
    """The list that gets it: ``outputs.append(out)``; that list itself, as it gets more, is read elsewhere."""
    func = value.func if isinstance(value, t.Call) else None
    if not isinstance(func, t.Attribute) or func.name not in _FILLING or not isinstance(func.value, t.Name):
        return None
    return [] if func.value is node else [func.value.id]


def _is_logging(func: t.Attribute) -> bool:
    receiver = t.path_of(func.value)
    is_known = receiver is not None and k.LOGGING_RECEIVERS.search(receiver) is not None
    return is_known and func.name in k.LOGGING_METHODS

"""The conditions on the way to an expression: which hold only once, and which choose among parts of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.names import assigned_paths
from gradguard.static.program.paths import is_part
from gradguard.static.reading.conditions import length_test
from gradguard.static.reading.steady import set_test

_JOINING = ("and", "or")


@dataclass(frozen=True)
class Guard:
    """A condition on the way to an expression.

    Args:
        test: the condition.
        block: what runs where it lets the expression run.
        after: what follows in any case.
    """

    test: t.Expr
    block: Sequence[t.Stmt]
    after: Sequence[t.Stmt] = ()

    def holds_once(self, changed: frozenset[str]) -> bool:
        """Whether what it guards is done once: what it asks for is set then, or it asks for the first count.

        Args:
            changed: the paths that are known to change besides, in the function that is called there.
        """
        asked = {path for part in _parts(self.test) for path in _asked(part)}
        changes = changed | _changed(self.block) | _set_to_constants(self.after)
        return any(is_part(path, other) or is_part(other, path) for path in asked for other in changes) or any(
            map(_is_of_first_count, _parts(self.test))
        )

    def asks_for(self, names: frozenset[str]) -> bool:
        """Whether it asks for one of some names: ``isinstance(module, nn.Conv2d)``."""
        return any(isinstance(node, t.Name) and node.id in names for node in t.walk(self.test))


def guards(body: Sequence[t.Stmt], node: t.Node) -> Iterator[Guard]:
    """The conditions on the way from the start of a block to an expression in it, outermost first."""
    for number, stmt in enumerate(body):
        rest = body[number + 1 :]
        if not t.is_in(node, [stmt]):
            if isinstance(stmt, t.If) and not stmt.orelse and t.leaves(stmt.body):
                yield Guard(stmt.test, rest)
            continue
        for block in t.blocks(stmt):
            if t.is_in(node, block):
                if isinstance(stmt, t.If):
                    yield Guard(stmt.test, block, rest)
                yield from guards(block, node)
        return


def loop_names(body: Sequence[t.Stmt], node: t.Node) -> frozenset[str]:
    """The variables of the loops of a function that an expression is in."""
    loops = (loop for loop in t.walk_statements(body) if isinstance(loop, t.Repeat) and loop.target is not None)
    around = [loop for loop in loops if t.is_in(node, loop.body)]
    return frozenset(n.id for loop in around for n in t.walk(loop.target) if isinstance(n, t.Name))


def _parts(test: t.Expr) -> Iterator[t.Expr]:
    """The conditions that one is joined of."""
    if isinstance(test, t.Operation) and test.operator in _JOINING:
        for operand in test.operands:
            yield from _parts(operand)
    elif isinstance(test, t.Operation) and test.operator == "not":
        yield from _parts(test.operands[0])
    else:
        yield test


def _asked(test: t.Expr) -> Iterator[str]:
    """The paths of which a single condition asks whether they are set, or how long they are."""
    yield from set_test(test)[0]
    if (length := length_test(test)) is not None and length.is_below:
        yield length.path
    for call in t.walk(test):
        if isinstance(call, t.Call) and t.path_of(call.func) in ("hasattr", "getattr") and len(call.args) > 1:
            owner, name = t.path_of(call.args[0].value), call.args[1].value
            if owner is not None and isinstance(name, t.Constant):
                yield f"{owner}.{name.value}"


def _is_of_first_count(test: t.Expr) -> bool:
    """Whether a condition holds for one count: ``step == 0``, ``self.calls < 1``."""
    if not isinstance(test, t.Operation) or test.operator not in ("==", "<", "<=") or len(test.operands) != 2:
        return False
    left, right = test.operands
    return t.path_of(left) is not None and isinstance(right, t.Constant) and type(right.value) is int


def _changed(block: Sequence[t.Stmt]) -> set[str]:
    """The paths that some statements bind, change in place or put something into."""
    found = set(assigned_paths(t.Repeat(None, None, None, None, list(block), [])))
    for call in t.walk(list(block)):
        func = call.func if isinstance(call, t.Call) else None
        if isinstance(func, t.Attribute) and func.name in k.ADDING_METHODS and (path := t.path_of(func.value)):
            found.add(path)
        if isinstance(call, t.Call) and t.path_of(call.func) == "setattr" and len(call.args) > 1:
            owner, name = t.path_of(call.args[0].value), call.args[1].value
            if owner is not None and isinstance(name, t.Constant):
                found.add(f"{owner}.{name.value}")
    return found


def _set_to_constants(block: Sequence[t.Stmt]) -> set[str]:
    """The paths that some statements set to a constant: ``first = False``."""
    constants = [stmt for stmt in block if isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Constant)]
    return {path for stmt in constants for target in stmt.targets if (path := t.path_of(target)) is not None}

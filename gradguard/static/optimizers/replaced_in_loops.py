"""Modules that an iteration of a training loop replaces, of which the next one trains: ``model = Net.load(best)``."""

from __future__ import annotations

import re

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import has, later
from gradguard.static.reading.guards import guards, loop_names

# Conditions of the last iteration, or of an evaluation behind the training; counts that reach their last number.
_AT_END = re.compile(
    r"(?:^|_)(?:is_)?(?:last|final|done|end|ended|stop\w*|finish\w*|test\w*|eval\w*|infer\w*|exit)(?:$|_)", re.I
)
_COUNT = re.compile(
    r"(?:^|_)(?:epoch|iter|iteration|step|round|fold|phase|mode|task|stage|split|i|t|idx|index|count)s?(?:$|_|\d)", re.I
)
_EXITS = frozenset("exit quit _exit abort".split())


def in_next_iteration(ref: FunctionRef, made: t.Stmt, stmt: t.Stmt, given: frozenset[str]) -> list[t.Stmt]:
    """What runs after a statement that puts another module in the place of one, where a loop is gone round.

    Empty where the loop may end with it, or does not run what was put there.

    Args:
        made: the statement that makes the optimizer; a loop around it makes it anew.
        given: the modules whose parameters that has.
    """
    target = t.path_of(stmt.targets[0]) if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
    loops = [each for each in ref.define.statements if isinstance(each, t.Repeat) and has(each.body, stmt)]
    inside = [loop for loop in loops if not has(loop.body, made)]
    if target not in given or not inside or any(_may_end(loop, stmt) for loop in inside):
        return []
    gone_round = later(ref.define.body, stmt, without=made)
    others = (each for each in gone_round if isinstance(each, t.Assign) and each is not stmt)
    if stmt not in gone_round or any(t.path_of(name) == target for each in others for name in each.targets):
        return []
    return gone_round if any(_runs(node, target) for node in t.walk(gone_round)) else []


def _may_end(loop: t.Repeat, stmt: t.Stmt) -> bool:
    """Whether a loop ends once a statement in it has run, or is about to: its block says so, or a condition on it."""
    beside = next(block for block in _blocks(loop.body) if any(each is stmt for each in block))
    counts = loop_names([loop], stmt)
    tests = [guard.test for guard in guards(loop.body, stmt)]
    return any(_says_end(test, counts) for test in tests) or any(map(_ends, beside))


def _blocks(body: list[t.Stmt]) -> list[list[t.Stmt]]:
    return [body, *(block for each in t.walk_statements(body) for block in t.blocks(each))]


def _says_end(test: t.Expr, counts: frozenset[str]) -> bool:
    """``epoch == epochs - 1``, ``is_last``; a count that comes again is none: ``step % 100 == 0``."""
    nodes = list(t.walk(test))
    asked = [
        node.id if isinstance(node, t.Name) else node.name for node in nodes if isinstance(node, t.Name | t.Attribute)
    ]
    operators = [node.operator for node in nodes if isinstance(node, t.Operation)]
    if "%" in operators:
        return False
    is_one = "==" in operators and any(name in counts or _COUNT.search(name) is not None for name in asked)
    return is_one or any(_AT_END.search(name) is not None for name in asked)


def _ends(stmt: t.Stmt) -> bool:
    """``done = True``, ``sys.exit()``, ``break``."""
    if isinstance(stmt, t.Return | t.Raise) or (isinstance(stmt, t.Leave) and stmt.kind == "break"):
        return True
    if isinstance(stmt, t.Assign):
        return isinstance(stmt.value, t.Constant) and isinstance(stmt.value.value, bool)
    return isinstance(stmt, t.Evaluate) and isinstance(stmt.value, t.Call) and stmt.value.name in _EXITS


def _runs(node: t.Node, path: str) -> bool:
    """Whether a module is called, ``model(x)``, or handed to what may: ``train(model, loader)``."""
    if not isinstance(node, t.Call):
        return False
    return t.path_of(node.func) == path or any(t.path_of(arg.value) == path for arg in node.args)

"""Learning rates that are only changed in a variable, which no optimizer is told: ``lr = lr * decay``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import UnappliedRate
from gradguard.static.optimizers.replaced import steps
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import named_kind
from gradguard.static.program.order import has, later
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_RATE = re.compile(r"^(?:cur(?:rent)?_)?(?:lr|learning_?rate)$", re.I)
# What only shows a number.
_SHOWS = re.compile(
    r"^(?:print|print_\w+|log|log_\w+|info|debug|warning|write|format|str|append|add_scalars?|set_\w+|report)$"
)
_COMPARISONS = frozenset(("<", ">", "<=", ">=", "==", "!="))
# What may set the rate of an optimizer by itself. A plateau is no rule that a variable could follow.
_SETS_RATE = re.compile(r"lr|rate|sched|adjust|decay|warm|anneal|param_groups|Restarts", re.I)
_GROUPS = re.compile(r"param_groups")
_PLATEAU = re.compile(r"plateau", re.I)


def unapplied_rates(flow: Flow) -> Iterator[UnappliedRate]:
    """The changes of a rate in a training loop that at most a message or a condition ever sees."""
    ref, body = flow.ref, flow.ref.define.body
    if flow.facts.is_test or not flow.module.names_torch:
        return
    for stmt in ref.define.statements:
        name = _changed(stmt)
        if name is None or name in ref.names[1]:
            continue
        loops = [each for each in ref.define.statements if isinstance(each, t.Repeat) and has(each.body, stmt)]
        optimizer = next((path for loop in loops for path in _stepped(ref, loop)), None)
        if optimizer is None or any(_is_read(each, stmt, name) for each in later(body, stmt)):
            continue
        if not any(_holds(each, name) for each in ref.define.nodes) and not _is_set(flow, optimizer):
            made = next(each for each in ref.define.statements if _binds(each, optimizer))
            yield UnappliedRate(flow.site(stmt), name, optimizer, flow.site(made))


def _changed(stmt: t.Stmt) -> str | None:
    """The rate that a statement changes: ``lr *= 0.5``, ``lr = lr * decay``, ``lr = max(lr / 2, 1e-5)``."""
    if isinstance(stmt, t.Augment):
        name = t.path_of(stmt.target) or ""
    elif isinstance(stmt, t.Assign) and len(stmt.targets) == 1 and _computes(stmt.value):
        name = t.path_of(stmt.targets[0]) or ""
        name = name if any(_is_name(node, name) for node in t.walk(stmt.value)) else ""
    else:
        return None
    return name if _RATE.match(name) is not None else None


def _computes(value: t.Expr) -> bool:
    nodes = list(t.walk(value))
    calls = [node.name for node in nodes if isinstance(node, t.Call)]
    operators = {node.operator for node in nodes if isinstance(node, t.Operation)}
    return all(name in ("max", "min", "float", "int", "pow") for name in calls) and not operators.isdisjoint("*/-")


def _stepped(ref: FunctionRef, loop: t.Repeat) -> Iterator[str]:
    """The optimizers that a loop steps, and that its function makes."""
    calls = [node for node in t.walk(loop.body) if isinstance(node, t.Call)]
    paths = {t.path_of(part) or "" for call in calls for part in _parts(call)}
    for path in sorted(paths):
        if named_kind(path) is Kind.OPTIMIZER and any(steps(call, path) for call in calls):
            made = ref.assigned.get(path, [])
            yield from (path,) if len(made) == 1 and isinstance(made[0], t.Call) else ()


def _parts(call: t.Call) -> Iterator[t.Expr]:
    if isinstance(call.func, t.Attribute):
        yield call.func.value
    yield from (arg.value for arg in call.args)


def _binds(stmt: t.Stmt, path: str) -> bool:
    return isinstance(stmt, t.Assign) and any(t.path_of(target) == path for target in stmt.targets)


def _is_read(stmt: t.Stmt, change: t.Stmt, name: str) -> bool:
    """Whether a statement does something with the rate, but show or compare it, or change it once more."""
    if stmt is change or _changed(stmt) == name:
        return False
    if isinstance(stmt, t.Define | t.DefineClass):
        return False  # asked for besides
    shown = {id(part) for node in _own(stmt) if _only_sees(node) for part in t.walk(node)}
    return any(_is_name(node, name) and id(node) not in shown for node in _own(stmt, with_targets=False))


def _own(stmt: t.Stmt, *, with_targets: bool = True) -> Iterator[t.Node]:
    """The nodes of a statement, without those of the statements in it."""
    if isinstance(stmt, t.If):
        yield from t.walk(stmt.test)
    elif isinstance(stmt, t.Repeat):
        yield from t.walk([each for each in (stmt.iterable, stmt.test) if each is not None])
    elif isinstance(stmt, t.With):
        yield from t.walk([item for item, _ in stmt.items])
    elif isinstance(stmt, t.Assign) and not with_targets:
        yield from t.walk(stmt.value)
    elif not t.blocks(stmt):
        yield from t.walk(stmt)


def _only_sees(node: t.Node) -> bool:
    if isinstance(node, t.Call):
        return _SHOWS.match(node.name) is not None
    if isinstance(node, t.Operation):
        is_text = any(isinstance(each, t.Constant) and isinstance(each.value, str) for each in node.operands)
        return node.operator in _COMPARISONS or (node.operator in "%+" and is_text)
    return isinstance(node, t.Text)


def _holds(node: t.Node, name: str) -> bool:
    """Whether a function inside of it, or a lambda, knows the rate."""
    return isinstance(node, t.Define | t.DefineClass | t.Lambda) and any(_is_name(each, name) for each in t.walk(node))


def _is_name(node: t.Node, name: str) -> bool:
    return isinstance(node, t.Name) and node.id == name


def _is_set(flow: Flow, optimizer: str) -> bool:
    """Whether something may set the rate of the optimizer in another way: a scheduler, a helper, its groups."""
    is_known = False
    for node in flow.ref.define.nodes:
        if isinstance(node, t.Attribute) and node.name == "param_groups":
            return True
        if not isinstance(node, t.Call):
            continue
        owner = t.path_of(node.func.value) if isinstance(node.func, t.Attribute) else None
        words = f"{owner or ''}.{node.name}"
        is_given = any(t.path_of(arg.value) == optimizer for arg in node.args)
        is_known |= is_given and _PLATEAU.search(words) is None
        if is_given and _SETS_RATE.search(words) is not None and _PLATEAU.search(words) is None:
            return True
        if owner == optimizer and _SETS_RATE.search(node.name) is not None:
            return True
    return is_known and flow.project.survey.mentions(_GROUPS, flow.module, "param_groups")

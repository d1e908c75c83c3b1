"""Parts that are frozen in the midst of a training, and whose gradients stay as zeros: the optimizer moves them on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import MovedFrozen
from gradguard.static.model import Loop, Step
from gradguard.static.optimizers.never_unfrozen import freezes_in
from gradguard.static.program.paths import is_part
from gradguard.static.reading.places import assigned_anywhere
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What an average of former gradients moves on, where the gradient is zero.
_OF_AVERAGES = frozenset("Adam AdamW Adamax NAdam RAdam SparseAdam".split())
_FROM_THEN_ON = ("==", ">=", ">")
_DROPS_GRADIENTS = re.compile(r"\.grad\s*=\s*None\b|set_to_none\s*=\s*True|\bdel\s+[\w.]+\.grad\b|\bparam_groups\b")


class _Freeze(NamedTuple):
    stmt: t.Stmt
    module: str


def moved_frozen(flow: Flow) -> Iterator[MovedFrozen]:
    """What a condition of a training loop freezes, while the loop's resets leave zeros (reads other files)."""
    if flow.facts.is_test:
        return
    for loop in flow.facts.loops:
        resets = [reset for reset in loop.zero_grads if reset.inner is None]
        if not resets or any(reset.to_none for reset in loop.zero_grads):
            continue
        for freeze in _freezes(flow, loop):
            step = next((each for each in loop.steps if _has(each, freeze.module)), None)
            reset = next((each for each in resets if step is not None and each.target == step.target), None)
            if step is None or step.target is None or reset is None or not _moves_on(flow, step.target):
                continue
            if not flow.project.survey.mentions(_DROPS_GRADIENTS, flow.module):
                yield MovedFrozen(reset.site, freeze.module, step.target, flow.site(freeze.stmt), step.source.site)


def _freezes(flow: Flow, loop: Loop) -> Iterator[_Freeze]:
    """What is frozen from some iteration of a loop on: ``if epoch == 10: net.features.requires_grad_(False)``."""
    node = loop.site.node
    body = node.body if isinstance(node, t.Repeat) else []
    counters = {path for path in _counters(node, body) if path.isidentifier()} if isinstance(node, t.Repeat) else set()
    for stmt in t.walk_statements(body):
        if isinstance(stmt, t.If) and _comes_later(stmt.test, counters):
            yield from (_Freeze(each.stmt, each.module) for each in freezes_in(flow, stmt.body))


def _counters(loop: t.Repeat, body: Sequence[t.Stmt]) -> Iterator[str]:
    """What counts the iterations: the variable of a loop, or what each of them adds to."""
    targets = list(t.names_in(loop.target)) if loop.target is not None else []
    targets += [stmt.target for stmt in t.walk_statements(body) if isinstance(stmt, t.Augment) and stmt.operator == "+"]
    yield from filter(None, map(t.path_of, targets))


def _comes_later(test: t.Expr, counters: set[str]) -> bool:
    """Whether a condition holds from some iteration on that is not the first: ``step == boundary``."""
    if not isinstance(test, t.Operation) or test.operator not in _FROM_THEN_ON or len(test.operands) != 2:
        return False
    count, limit = test.operands
    if t.path_of(count) not in counters:
        return False
    return not isinstance(limit, t.Constant) or (type(limit.value) in (int, float) and limit.value != 0)


def _has(step: Step, module: str) -> bool:
    return any(is_part(module, each) for each in step.modules or ())


def _moves_on(flow: Flow, optimizer: str) -> bool:
    """Whether an optimizer of torch moves what has a gradient of zero: by its averages, or by weight decay."""
    made = assigned_anywhere(flow, optimizer)
    call = made[0] if len(made) == 1 else None
    return isinstance(call, t.Call) and _is_moving(flow, call) and not _picks_some(flow, call)


def _picks_some(flow: Flow, call: t.Call) -> bool:
    """Whether an optimizer may be given some parameters only: by a condition on their names."""
    given = call.argument("params", 0)
    nodes = [node for value in (flow.ref.bound_to(given) if given is not None else ()) for node in t.walk(value)]
    clauses = [clause for node in nodes if isinstance(node, t.Comprehension) for clause in node.clauses]
    asked = [condition for clause in clauses for condition in clause.conditions]
    return not nodes or any(not (isinstance(each, t.Attribute) and each.name == "requires_grad") for each in asked)


def _is_moving(flow: Flow, call: t.Call) -> bool:
    maker = flow.module.value_of(call.func)
    name = str(maker.ref) if maker.kind is Kind.EXTERNAL else ""
    if not name.startswith("torch.optim.") or name.count(".") != 2 or any(arg.star for arg in call.args):
        return False
    if call.name in _OF_AVERAGES:
        return True
    given = [call.argument(keyword) for keyword in ("momentum", "weight_decay")]
    return any(value is not None and not t.is_zero(value) for value in given)

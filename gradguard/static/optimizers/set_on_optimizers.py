"""Options that are set on an optimizer as attributes, where it does not look for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import SetOnOptimizer
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of
from gradguard.static.program.paths import last
from gradguard.static.reading.places import assigned_anywhere
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_OPTIONS = {"lr": "lr", "learning_rate": "lr", "momentum": "momentum", "weight_decay": "weight_decay", "betas": "betas"}


def set_on_optimizers(flow: Flow) -> Iterator[SetOnOptimizer]:
    """The statements ``optimizer.lr = rate``, of what surely is an optimizer of torch (reads other files)."""
    if flow.facts.is_test:
        return
    for stmt in flow.ref.define.statements:
        target = stmt.targets[0] if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
        option = _OPTIONS.get(target.name) if isinstance(target, t.Attribute) else None
        path = t.path_of(target.value) if isinstance(target, t.Attribute) else None
        if option is None or path is None or not isinstance(target, t.Attribute) or not _is_optimizer(flow, path):
            continue
        if not _is_carried_on(flow, path, target.name, option):
            yield SetOnOptimizer(flow.site(stmt), path, option)


def _is_optimizer(flow: Flow, path: str) -> bool:
    """Whether all that is bound to a path is one of torch; what a function is given, where all its callers show it."""
    ref = flow.ref
    bound = [value for value in assigned_anywhere(flow, path) if not _is_none(value)]
    if bound or path not in flow.params:
        return bool(bound) and all(_makes_one(ref, value) for value in bound)
    given = [(caller.ref, ref.given_by(call).get(path)) for caller, call in calls_of(flow)]
    names = [(caller, t.path_of(value)) for caller, value in given if value is not None]
    values = [(caller, value) for caller, name in names for value in caller.assigned.get(name or "", [])]
    return bool(values) and len(values) == len(given) and all(_makes_one(caller, value) for caller, value in values)


def _is_none(value: t.Expr) -> bool:
    return isinstance(value, t.Constant) and value.value is None


def _makes_one(ref: FunctionRef, value: t.Expr) -> bool:
    made = ref.module.value_of(value.func) if isinstance(value, t.Call) else None
    if made is None or made.kind is not Kind.EXTERNAL:
        return False
    name = str(made.ref)
    return name.startswith("torch.optim.") and name.count(".") == 2 and last(name)[:1].isupper()


def _is_carried_on(flow: Flow, path: str, attribute: str, option: str) -> bool:
    """Whether something in the program may give it to the groups: it sets theirs, or reads this."""
    survey, name = flow.project.survey, last(path)
    sets = re.compile(rf"\[\s*['\"]{option}['\"]\s*\]\s*[-*/+]?=(?!=)")
    reads = re.compile(
        rf"(?m)^(?![^\n]*(?:print|log|write|format))[^\n]*\b{re.escape(name)}\.{attribute}\b(?!\s*=(?!=))"
    )
    return survey.mentions(sets, flow.module, option) or survey.mentions(reads, flow.module, attribute)

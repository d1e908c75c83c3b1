"""Conditions that end a loop late: it ran as often as it is to, or as long as it was of use."""

from __future__ import annotations

import re

from gradguard.static import tree as t
from gradguard.static.events import LONG_LOOP
from gradguard.static.reading.periods import period

_LIMIT_NAME = re.compile(
    r"max|total|limit|budget|until|last|(?:^|_)(?:n|num|stop)_|steps|iter|epochs|batches|updates|patience", re.I
)
_MEASURE_NAME = re.compile(r"(?:^|_)(?:loss|acc|accuracy|score|metrics?|error|val|perplexity|ppl|f1|auc)$", re.I)
_STOP_NAME = re.compile(
    r"(?:^|_)stop(?:p(?:ed|er|ing))?(?:_early|_training)?$|early_?stop|(?:^|_)converged$|^patience$", re.I
)
_EVALUATION_NAME = re.compile(r"^_?(?:eval(?:uate)?|valid(?:ate|ation)?|score)(?:_|$)", re.I)


def at_limit(test: t.Expr) -> bool:
    """Whether a condition says that a loop ran as often as it is to: ``step >= args.max_steps``, no small number.

    Or as long as it was of use: ``if stopper.should_stop(score)``.
    """
    if isinstance(test, t.Operation) and test.operator == "or":
        return all(map(at_limit, test.operands))
    if isinstance(test, t.Operation) and test.operator == "and":  # `epoch % 5 == 0 and stopper(loss)`
        own = [operand for operand in test.operands if period(operand) is None]
        return bool(own) and all(map(at_limit, own))
    if _is_stop(test) or _judges_a_loss(test):
        return True
    if not isinstance(test, t.Operation) or test.operator not in ("==", ">=", ">") or len(test.operands) != 2:
        return False
    limit = test.operands[1]
    if isinstance(limit, t.Operation):  # `i == len(loader) - 1`
        limit = limit.operands[0]
    if isinstance(limit, t.Constant):
        return isinstance(limit.value, int) and limit.value >= LONG_LOOP
    path = t.path_of(limit)
    return path is not None and _LIMIT_NAME.search(path.rsplit(".", 1)[-1]) is not None


def _is_stop(test: t.Expr) -> bool:
    """Whether training ends early, when it has learned what it can: ``early_stopping(loss)``, ``stop``."""
    path = t.path_of(test.func if isinstance(test, t.Call) else test)
    return path is not None and any(_STOP_NAME.search(name) for name in path.split("."))


def _judges_a_loss(test: t.Expr) -> bool:
    """Whether an object is told how well the training goes, and says whether it ends: ``patience(loss.item())``.

    Or ``judge(validate(net))``.
    """
    given = [arg.value for arg in test.args] if isinstance(test, t.Call) else []
    calls = [value for value in given if isinstance(value, t.Call)]
    if any(isinstance(call.func, t.Attribute) and call.name == "item" for call in calls):
        return True
    if any(_EVALUATION_NAME.search(call.name) for call in calls):
        return True
    names = (path.rsplit(".", 1)[-1] for value in given if (path := t.path_of(value)) is not None)
    return any(_MEASURE_NAME.search(name) for name in names)

"""Which schedulers are made and never stepped, by anything in the program: the rate stays what it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import IdleScheduler
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.known_by import places
from gradguard.static.program.own_methods import methods_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_SCHEDULERS = "torch.optim.lr_scheduler."
_READING = frozenset("get_last_lr get_lr load_state_dict print_lr".split())


def idle_schedulers(flow: Flow) -> Iterator[IdleScheduler]:
    """The schedulers that a function makes, where those who know them only read their rates (reads other files)."""
    ref = flow.ref
    if flow.facts.is_test:
        return
    for stmt in ref.define.statements:
        path = t.path_of(stmt.targets[0]) if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
        if path is None or "[" in path or not isinstance(stmt, t.Assign) or not _makes_scheduler(ref, stmt.value):
            continue
        if not _trains(ref, path) or places(flow.project, ref, path, _READING, in_modules=True) is None:
            continue
        if not _may_be_stepped_elsewhere(flow, path):
            yield IdleScheduler(flow.site(stmt), path)


def _may_be_stepped_elsewhere(flow: Flow, path: str) -> bool:
    """Whether some file steps what has the attribute's name: ``agent.scheduler.step()``, as in a notebook."""
    if not path.startswith("self."):
        return False
    stepped = re.compile(rf"\.{re.escape(path[5:])}\.step\(")
    return flow.project.survey.mentions_anywhere(path[5:], stepped, flow.module)


def _makes_scheduler(ref: FunctionRef, value: t.Expr) -> bool:
    if not isinstance(value, t.Call) or not value.name[:1].isupper():
        return False
    name = str(ref.module.value_of(value.func).ref)
    return name.startswith(_SCHEDULERS) and name.count(".") == 3


def _trains(ref: FunctionRef, path: str) -> bool:
    """Whether who makes it does the training as well: what is only made here may be stepped by those who import it."""
    own = methods_of(ref.owner) if path.startswith("self.") and ref.owner is not None else [ref]
    calls = [call for each in own for call in each.calls]
    steps = any(call.name == "step" and isinstance(call.func, t.Attribute) for call in calls)
    return steps and any(call.name == "backward" for call in calls)

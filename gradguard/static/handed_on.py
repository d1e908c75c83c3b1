"""Methods that nobody is seen to call, but that somebody is given to call: ``after=[lambda: ema.follow(net)]``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_TRAINS = re.compile(r"\.backward\(")


def is_run_by_others(flow: Flow) -> bool:
    """Whether a program that trains hands a method to somebody: in a lambda, or by its name, as an argument."""
    name, survey = flow.ref.define.name, flow.project.survey
    if flow.ref.owner is None or flow.facts.is_test:
        return False
    in_lambda = rf"\blambda\b[^:\n]*:[^\n]*\.{name}\("
    by_name = rf"[(,\[]\s*(?:\w+\s*=\s*)?[a-z_][\w.]*\.{name}\s*[,)\]]"
    is_given = survey.acts(f".{name}", re.compile(f"{in_lambda}|{by_name}"), flow.module)
    return is_given and survey.mentions(_TRAINS, flow.module)

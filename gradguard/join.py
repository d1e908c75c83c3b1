"""After a run: its leaks beside the static findings of the same lines, with the rule and its fix.

The only place that knows both halves. Without libcst the rules' own view of a run has to do.
"""

from __future__ import annotations

from dataclasses import replace

from gradguard import catalogue
from gradguard.findings import Leak, RunReport


def with_rules(report: RunReport) -> RunReport:
    """``report`` with the matching rule on each leak."""
    rules = catalogue.load()
    return replace(report, leaks=tuple(_matched(leak, rules) for leak in report.leaks))


def _matched(leak: Leak, rules: catalogue.Catalogue) -> Leak:
    for rule in rules:
        if rule.run_check is not None and rule.run_check(leak):
            return replace(leak, rule=rule.code)
    return leak

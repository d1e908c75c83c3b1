"""`backward(retain_variables=True)`: the argument was renamed to `retain_graph`, and the old name is gone.

**What happens.** `retain_variables` was renamed in torch 0.2 and later removed: the call raises
*"TypeError: Tensor.backward() got an unexpected keyword argument 'retain_variables'"*.

**Instead**, write `retain_graph=True`, if a second backward over the same graph follows; most often it does not, and
the argument can go.

**Not flagged.** `retain_graph=True` (see GG101).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import ACTS, sign
from gradguard.static.fixes.edits import argument_removed
from gradguard.static.model import Backward, Function

rule = Rule("GG207", "retain-variables", Severity.ERROR, ((sign("retain_variables"), ACTS),))


@rule.in_source
def removed_argument(function: Function) -> Iterator[Finding]:
    for backward in function.backwards:
        if backward.retain_variables is not None and backward.inner is None:
            yield rule.finding(
                backward.site,
                "`retain_variables` was renamed to `retain_graph` and removed: this call raises TypeError",
                help="write `retain_graph=True` if the graph is used again, or remove the argument",
                fix=_fix(backward),
            )


def _fix(backward: Backward) -> Fix | None:
    edit = argument_removed(backward, "retain_variables")
    return Fix("remove `retain_variables`", (edit,), safe=False) if edit else None

"""Anomaly detection is left on.

**What happens.** With `set_detect_anomaly(True)` autograd records a traceback for every operation in the forward pass
and looks for NaN after every operation in the backward pass. It is made for finding one bug; every step pays for it:
measured on torch 2.13, 1.6 times as long for wide layers, 5.5 times for narrow ones. As a statement it stays on for
the whole process.

```python
torch.autograd.set_detect_anomaly(True)
for x, y in loader: ...
```

**Instead**, switch it on by an option, or around the step that fails: `with torch.autograd.detect_anomaly():`.

**Severity.** Information. Old versions of torch also leaked with it (pytorch#51349); on torch 2.13 it does not grow.

**Not flagged.** Behind a condition (`if args.debug:`), `set_detect_anomaly(False)` or of a variable, in unit tests, in
a function that is itself the option (`def enable_debug_mode()`), in a script that only runs models under `no_grad` and
uses nothing that trains: no operation is recorded there, and no backward looks for NaN.

**References.** <https://pytorch.org/docs/stable/autograd.html#anomaly-detection>.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.fixes.line_edits import removed
from gradguard.static.model import Call, Function

rule = Rule("GG501", "detect-anomaly-left-on", Severity.INFO, ((sign("detect_anomaly", own=True, reaches=True),),))

_SETTERS = ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")
_IS_OPTION = re.compile(r"debug|anomal", re.IGNORECASE)
_CONTEXTS = ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")


@rule.in_source
def left_on(function: Function) -> Iterator[Finding]:
    switched_off = any(call.literal("mode", 0) is False for call in function.calls_of(*_SETTERS))
    if function.is_test or switched_off or _IS_OPTION.search(function.name):
        return
    for call in function.calls_of(*_SETTERS, *_CONTEXTS):
        if call.inner is None and not call.conditional and not call.is_harmless and _is_on(call):
            yield rule.finding(
                call.site,
                "anomaly detection is on for every step: operations record tracebacks, backward looks for NaN",
                help="switch it on by an option, for the run that looks for a NaN",
                fix=removed(call.site) if call.name in _SETTERS else None,
            )


def _is_on(call: Call) -> bool:
    if call.name in _SETTERS:
        return call.literal("mode", 0) is True
    return any(loop.trains for loop in call.loops) or (call.loop is not None and call.loop.trains)

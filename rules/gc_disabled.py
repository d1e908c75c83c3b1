"""The cyclic collector is switched off, and never runs.

**What happens.** `gc.disable()` makes training a little more even, and a plain loop of torch makes no cycles at all.
But whatever does make one leaks from then on: frames of caught exceptions, an output on `ctx`, a model that holds
itself, a library. Memory grows, slowly or fast, and nothing in the loop is to blame (measured: 76 KB a step with a
model that holds itself).

```python
gc.disable()
for x, y in loader: ...
```

**Instead**, collect at a moment of your choosing: `if step % 500 == 0: gc.collect()`.

**Not flagged.** A program that calls `gc.collect()` or `gc.enable()` anywhere; what a helper that switches it off
collects just before is done once, and does not count (where nothing calls it in a loop).

**References.** facebookresearch/dinov3#150, allenai/OLMo#509 (with periodic collection).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import DISABLE
from gradguard.static.fixes.line_edits import removed
from gradguard.static.model import Function

rule = Rule("GG504", "gc-disabled", Severity.WARNING, ((DISABLE,),))


@rule.in_source
def never_collects(function: Function) -> Iterator[Finding]:
    for call in function.calls_of("gc.disable"):
        if not call.is_harmless:
            yield rule.finding(
                call.source.site,
                "the cyclic collector is off, and nothing calls it: every cycle stays, with the tensors in it",
                help="call `gc.collect()` every few hundred steps",
                fix=removed(call.site) if call.inner is None else None,
            )

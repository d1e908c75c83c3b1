"""`zero_grad()` between `backward()` and `step()`: the gradients are wiped before they are used.

**What happens.** backward computes the gradients, `zero_grad()` throws them away, and `step()` finds none: the
optimizer skips every parameter whose gradient is None. With `set_to_none=False` it finds zeros, and moves the
parameters by momentum and weight decay alone. Either way the model does not learn, and nothing raises.

```python
loss.backward()
optimizer.zero_grad()
optimizer.step()
```

**Instead**, reset before the backward, or after the step:

```python
optimizer.zero_grad()
loss.backward()
optimizer.step()
```

**Not flagged.** A reset that ends the iteration (a guard against NaN: `optimizer.zero_grad(); continue`), the reset of
another optimizer, a reset in one branch only, a second backward after the reset.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Related, Severity
from gradguard.static.model import Function

rule = Rule("GG202", "zero-grad-misplaced", Severity.ERROR, frozenset({"zero_grad", "grad"}))


@rule.in_source
def wipes(function: Function) -> Iterator[Finding]:
    for step in function.steps:
        if step.lost is None or step.inner is not None:
            continue
        site = step.site
        yield rule.finding(
            step.lost.site,
            "the gradients are reset after `backward()` and before `step()`: the optimizer never sees them",
            help="move the reset before `backward()`",
            related=(Related(site.path, site.cell, site.line, "this step finds no gradients, or zeros"),),
        )

"""A learning-rate scheduler is made, and nothing steps it: the rate stays what it was in the beginning.

**What happens.** A scheduler changes the rate in its own `step()`, and nobody else calls that: neither the optimizer
nor the backward. One that is only made, or asked for its rate, leaves the rate at its first value for the whole
training; a warm-up, which begins low, leaves it low. Nothing raises, and `get_last_lr()` shows the same number always.

```python
optimizer = optim.Adam(model.parameters(), lr=1e-3)
scheduler = StepLR(optimizer, step_size=10)
for epoch in range(epochs):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
```

**Instead**, step it where it counts, here once an epoch, or take it out:

```python
    for x, y in loader:
        ...
        optimizer.step()
    scheduler.step()
```

**Not flagged.** A scheduler that is returned, handed to anything, put into a list or a dict, or an attribute of what
another file reaches: a trainer, an `accelerator`, a `SequentialLR` may step it; one that a function makes which does
not train itself; schedulers that are no classes of torch.

**References.** <https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import BACKWARD, sign
from gradguard.static.model import Function

_MAKES = sign("LR(", "Restarts(", "ReduceLROnPlateau(", own=True)

rule = Rule("GG256", "idle-scheduler", Severity.WARNING, ((BACKWARD, _MAKES),))


@rule.in_source
def is_never_stepped(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.idle_schedulers():
        yield rule.finding(
            each.site,
            f"nothing steps `{each.scheduler}`: the rate stays what it is in the beginning",
            help=f"call `{each.scheduler}.step()` once an epoch, or as it counts; or take it out",
        )

"""A learning-rate scheduler steps before the optimizer does: nothing is trained with its first rate.

**What happens.** A scheduler sets the first rate when it is made. Its `step()` sets the next one; at the beginning of
an epoch that is one too early, and so it goes on: each epoch is trained with the rate of the one after it, milestones
come an epoch early, and a schedule that has an end gets there before the training does. Before PyTorch 1.1 the first
`step()` set the first rate, and many examples of that time begin their epochs with it. Since then torch warns:
"Detected call of `lr_scheduler.step()` before `optimizer.step()`".

```python
scheduler = MultiStepLR(optimizer, milestones=[30, 60])
for epoch in range(epochs):
    scheduler.step()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
```

**Instead**, step it when the epoch has been trained:

```python
for epoch in range(epochs):
    for x, y in loader:
        ...
        optimizer.step()
    scheduler.step()
```

**Not flagged.** `scheduler.step(epoch)`, which says which rate is meant; a step under a condition (`if epoch > 0`); a
scheduler that goes on where another run stopped (`last_epoch=...`), that steps in several places, or is no class of
torch: its `step` may set the rate of the step that comes; an optimizer that steps before, if only once; files that ask
for the version of torch.

**References.** <https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate> (the warning there),
pytorch/pytorch#20124.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import TRAINS, sign
from gradguard.static.model import Function

_STEPS = sign(".step()", own=True)
_SCHEDULER = sign("sched", "LR(", "Restarts(")

rule = Rule(
    "GG261",
    "scheduler-first",
    Severity.WARNING,
    tuple((*signs, _STEPS, _SCHEDULER) for signs in TRAINS),
)


@rule.in_source
def steps_first(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.schedulers_first():
        yield rule.finding(
            each.site,
            f"`{each.scheduler}` steps before the optimizer does: nothing is trained with its first rate",
            help=f"call `{each.scheduler}.step()` after the steps of the optimizer",
        )

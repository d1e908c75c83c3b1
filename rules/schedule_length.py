"""A learning-rate scheduler counts epochs and is stepped in each batch, or counts batches and is stepped once an epoch.

**What happens.** A scheduler knows nothing of epochs or batches: it counts its own `step()` calls. `T_max=epochs` with
a step in each batch is over within the first epochs, and a cosine goes up again after that, and down, and up;
`T_max=len(loader) * epochs` with a step at the end of an epoch hardly leaves the first rate, or the warm-up. Nothing
raises, and the loss goes down either way, only not as it could.

```python
scheduler = CosineAnnealingLR(optimizer, T_max=epochs)
for epoch in range(epochs):
    for x, y in loader:
        ...
        optimizer.step()
        scheduler.step()                # epochs * len(loader) steps
```

**Instead**, step where it counts, or count where it steps:

```python
    for x, y in loader:
        ...
        optimizer.step()
    scheduler.step()                    # or T_max=epochs * len(loader) above
```

So it is with batches that are accumulated: a schedule that is laid out for the updates, `len(loader) * epochs //
args.accumulate`, belongs into the `if i % args.accumulate == 0:` that steps the optimizer. Beside it, the schedule is
over when a part of the training is. What counts the updates may also be seen by the loop, which ends with
`if updates >= args.steps`, or goes over `args.steps * args.accumulate` batches; the step may be that of a callback.

**Not flagged.** A step under a condition (`if step % accumulation == 0`), or one that is given something
(`scheduler.step(epoch + i / len(loader))`); a length that is neither the number of epochs of the loop nor made of
`len(loader)`; schedulers of periods (`StepLR`, `CosineAnnealingWarmRestarts`).

**References.** <https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate>,
<https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.OneCycleLR.html> (to be stepped in each batch).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import TRAINS, sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

_SCHEDULES = sign(
    "LR(", "get_",
    pattern=r"\b(?:CosineAnnealing|Linear|Polynomial|OneCycle|MultiStep)LR\(|\bget_\w*schedule\w*\(",
)  # fmt: skip

# `LambdaLR(optimizer, factor)`, of a number of batches that is divided by how many there are to an update
_FACTORS = sign("LambdaLR(")
_DIVIDES = sign("//")
_ACCUMULATES = sign("%", pattern=r"\bif\b[^\n]*%", own=True)
# A trainer whose callbacks have the scheduler
_CALLS_BACK = sign("getattr(", "callback", "hook")

rule = Rule(
    "GG231",
    "schedule-length",
    Severity.WARNING,
    (
        *((*signs, _SCHEDULES) for signs in TRAINS),
        *((*signs, _FACTORS, _DIVIDES, _ACCUMULATES) for signs in TRAINS),
        *((*signs, _CALLS_BACK, _ACCUMULATES) for signs in TRAINS),
    ),
)


@rule.in_source
def counts_otherwise(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.schedule_lengths():
        length = one_line(each.length.code)
        if each.in_updates:
            message = f"`{each.scheduler}` is made for the updates, `{length}`, and steps with each batch here"
            instead = "step it where the optimizer steps"
        elif each.is_in_epochs:
            message = f"`{each.scheduler}` is made for the epochs, `{length}`, and steps in each batch here"
            instead = "step it once an epoch, or make it for as many steps as there are batches in all epochs"
        else:
            message = f"`{each.scheduler}` is made for the batches, `{length}`, and steps once an epoch here"
            instead = "step it after each `optimizer.step()`, or make it for the number of epochs"
        yield rule.finding(each.site, message, help=instead, related=(each.made.related("the scheduler is made here"),))

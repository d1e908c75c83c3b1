"""A learning-rate scheduler is made of an optimizer that is then replaced: the rate of the new one never changes.

**What happens.** A scheduler keeps the optimizer that it was made of, and sets the rates in its groups. If another
optimizer takes its place, under the same name, `scheduler.step()` goes on with the old one: its rate falls, and nothing
is trained with it. The new optimizer keeps the rate that it began with until the end. Nothing raises, and
`scheduler.get_last_lr()`, which most programs log, shows the rate of the old one.

```python
scheduler = CosineAnnealingLR(optimizer, T_max=100)
for epoch in range(100):
    if epoch == 10:
        optimizer = optim.SGD(model.parameters(), lr=0.1)       # stays at 0.1
    train(model, loader, optimizer)
    scheduler.step()
```

So it is with an object that makes its scheduler once, in its constructor or under `if self.scheduler is None`, and
gets another optimizer with each phase, also from outside: `trainer.optimizer = trainer.make_optimizer(lr)` in a
callback.

**Instead**, make the scheduler anew, right after its optimizer:

```python
    if epoch == 10:
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        scheduler = CosineAnnealingLR(optimizer, T_max=90)
```

**Not flagged.** A scheduler that is made anew too, by whatever method; two optimizers under two names; a scheduler that
steps no more after that; `scheduler.optimizer = optimizer`; rates that are set by hand; what is made of the old
optimizer and has its groups (`hvd.DistributedOptimizer(optimizer)`, `accelerator.prepare(optimizer)`); a state that is
loaded into it.

**References.** <https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate>,
<https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LRScheduler.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

# `StepLR(optimizer)`, `getattr(lr_scheduler, name)(optimizer)`, `sched = build(optimizer)`
_MAKES = sign(
    "LR", "Restarts", "sched", "Sched", "warm", "Warm",
    pattern=r"(?:LR|Restarts|[Ss]ched|[Ww]arm)\w*\)*\s*[(=:]",
    own=True,
)  # fmt: skip

rule = Rule("GG227", "stale-scheduler", Severity.ERROR, ((_MAKES,),))


@rule.in_source
def schedules_the_old_one(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.stale_schedulers():
        notes = []
        if each.once is not None:
            notes.append(each.once.related(f"it is made once, by this condition: `{one_line(each.once.code)}`"))
        if each.site == each.made:
            message = f"is made for the first `{each.optimizer}` only: the rate of the next one never changes"
            notes.append(each.replaced.related(f"the next one takes its place here: `{one_line(each.replaced.code)}`"))
        else:
            message = f"still sets the rate of the old `{each.optimizer}`: that of the new one never changes"
            notes.append(each.made.related(f"the scheduler is made here: `{one_line(each.made.code)}`"))
        yield rule.finding(
            each.site,
            f"`{each.scheduler}` {message}",
            help=f"make `{each.scheduler}` anew whenever `{each.optimizer}` is",
            related=tuple(notes),
        )

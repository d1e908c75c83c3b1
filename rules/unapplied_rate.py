"""A learning rate is only changed in a variable: the optimizer goes on with the one that it was made with.

**What happens.** An optimizer takes its rate once, when it is made, and keeps a number in each of its
`param_groups`. What becomes of the variable later is nothing to it: the rate stays what it was for the whole training,
while the log shows one that falls, and nothing raises.

```python
optimizer = optim.Adam(model.parameters(), lr=lr)
for epoch in range(epochs):
    train_epoch(model, optimizer)
    if score < best:
        lr = lr * 0.5
        print(f"decay learning rate to {lr}")
```

**Instead**, write it to the groups of the optimizer, or let a scheduler do it:

```python
        lr = lr * 0.5
        for group in optimizer.param_groups:
            group["lr"] = lr
```

**Not flagged.** A rate that anything but a message or a comparison reads later: another optimizer, an update by hand,
a function that is given it, what the function returns; an optimizer whose groups are written to, or that is given to a
scheduler, or to a function which speaks of rates.

**References.** <https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_CHANGES = sign(
    "lr", "rate", "Lr", "LR",
    pattern=r"(?m)^[ \t]*(\w*(?:[lL][rR]|rate))\s*(?:[-*/]=|=[^=\n]*\b\1\b)",
    own=True,
    across=True,
)  # fmt: skip
_STEPS = sign("ptim", "opt", pattern=r"[oO]pt\w*\s*=", own=True)
_TORCH = sign("torch", pattern=r"\btorch\b")

rule = Rule("GG259", "unapplied-rate", Severity.WARNING, ((_CHANGES, _STEPS, _TORCH),))


@rule.in_source
def is_told_to_nobody(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.unapplied_rates():
        yield rule.finding(
            each.site,
            f"`{each.optimizer}` does not learn of it: its rate stays what it was when it was made",
            help=f'set it: `for group in {each.optimizer}.param_groups: group["lr"] = {each.rate}`',
            related=(each.made.related("the optimizer takes its rate here"),),
        )

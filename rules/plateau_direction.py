"""A scheduler waits for the highest loss, or for the lowest accuracy: it lowers the rate while the model gets better.

**What happens.** `ReduceLROnPlateau` keeps the best value that it was told, and lowers the rate when `patience` steps
have brought no better one. Which one is better it is told by `mode`: `"min"`, the default, is for what is to get low,
`"max"` for what is to get high. With `mode="max"` and a loss, the best one is that of the first epoch: each lower one
is a bad epoch, and the rate falls every `patience + 1` epochs until `min_lr`, however well it goes. So it is with an
accuracy and `mode="min"`. Nothing raises; with `patience=3` and `factor=0.5` the rate is a sixteenth after 20 epochs of
a loss that falls in each.

```python
scheduler = ReduceLROnPlateau(optimizer, mode="max", patience=3)
for epoch in range(epochs):
    train_loss = train_epoch(model, loader, optimizer)
    scheduler.step(train_loss)              # each improvement is a bad epoch
```

**Instead**, let the mode say what the value is:

```python
scheduler = ReduceLROnPlateau(optimizer, mode="min", patience=3)
```

**Not flagged.** A mode that is not written out, or that differs from one scheduler to the next; a value whose name does
not say what it is (`score`, `metric`, `results[0]`), whose name says both, or that is made of another one
(`val_loss = -accuracy`, `1 - dice`, `neg_loss`); a scheduler that is told one value here and another one there.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ReduceLROnPlateau.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import sign
from gradguard.static import tree as t
from gradguard.static.fixes.edits import instead, one_line
from gradguard.static.mistakes.optimizers import PlateauDirection
from gradguard.static.model import Function
from gradguard.static.source import Site

# A function may make it for the one that steps it.
_MAKES = sign("ReduceLROnPlateau(", own=True, reaches=True)

rule = Rule("GG255", "plateau-direction", Severity.ERROR, ((_MAKES,),))


@rule.in_source
def waits_for_the_worst(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.plateau_directions():
        metric, wanted = one_line(each.metric.code), "highest" if each.mode == "max" else "lowest"
        yield rule.finding(
            each.site,
            f'with `mode="{each.mode}"` the scheduler waits for the {wanted} `{metric}`: the rate falls while '
            "that improves",
            help=f'make the scheduler with `mode="{each.way}"`',
            fix=_fix(each),
            related=(each.made.related("the scheduler is made here"),),
        )


def _fix(each: PlateauDirection) -> Fix | None:
    """The other mode, where one is written in the same file."""
    call = each.made.node
    mode = call.argument("mode", 1) if isinstance(call, t.Call) else None
    if mode is None or (each.made.path, each.made.cell) != (each.site.path, each.site.cell):
        return None
    return instead(Site(each.made.chunk, mode), f'"{each.way}"', f'`mode="{each.way}"`')

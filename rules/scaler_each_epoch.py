"""A gradient scaler is made anew in each epoch, and forgets the scale that it had come to.

**What happens.** A `GradScaler` multiplies the loss by its scale, so that small gradients are no zeros in float16. It
begins with 65536; where that is too much, gradients are infinite, the step is skipped, and the scale is halved. After
2000 steps without that it is doubled. So it finds a scale within the first steps, and goes on from there. One that is
made in each epoch begins with 65536 each time: where the loss wants less, the first steps of every epoch are skipped
(three of them, with a sum over 32 samples of a small classifier, whose scale comes down to 8192); where an epoch has
less than 2000 batches, it never goes up. Nothing raises, and the batches of these steps are lost.

```python
def train_epoch(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")       # 65536, in each epoch
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

for epoch in range(epochs):
    train_epoch(model, loader, optimizer)
```

**Instead**, make it once, as the optimizer, and hand it on:

```python
scaler = torch.amp.GradScaler("cuda")
for epoch in range(epochs):
    train_epoch(model, loader, optimizer, scaler)
```

**Not flagged.** A function that has all epochs in it, and one that is called for each fold, task or model; a scaler
that is made under a condition (`if scaler is None`), returned, saved or loaded; one that is given a scale of its own
(`init_scale=1024`), or is not enabled; a file that trains in bfloat16, which needs no scale.

**References.** <https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling>,
<https://docs.pytorch.org/docs/stable/notes/amp_examples.html> ("Creates a GradScaler once at the beginning of
training.").
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_MAKES = sign("GradScaler(", own=True)

rule = Rule("GG254", "scaler-each-epoch", Severity.WARNING, ((_MAKES,),))


@rule.in_source
def forgets_its_scale(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.renewed_scalers():
        called = (each.call.related("the function is called here, in each epoch"),) if each.call is not None else ()
        where = "before this loop" if each.call is None else "before that loop, and hand it to this function"
        yield rule.finding(
            each.site,
            f"`{each.scaler}` is made anew in each epoch: its scale begins with 65536 again, and the steps for "
            "which this is too much are skipped once more",
            help=f"make it once, {where}",
            related=(*called, each.loop.related("this loop is over epochs")),
        )

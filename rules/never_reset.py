"""A metric is read once an epoch, and nothing calls its `reset`: it keeps the outputs of all epochs.

**What happens.** A metric that needs all scores at once, as an average precision or an area under a curve, puts those
of each batch into a list, and goes over the whole of it when it is asked. There is a method to empty the list; without
a call of it, the second epoch's figure is one over two epochs, the tenth's one over ten, and the list has all of them.
It takes more memory and more time from epoch to epoch, and its figure gets better ever more slowly, or hides that the
model has got worse. Nothing raises. So it is with a metric that is read every so many steps
(`if step % log_every == 0: print(metric.compute())`), and with a module of Lightning, which keeps the outputs of its
steps itself (`self.outputs.append(scores)` in `validation_step`), joins them in `on_validation_epoch_end`, and does not
clear the list there.

```python
for epoch in range(epochs):
    for x, y in loader:
        ...
        metric.update(scores.detach(), y)           # self.scores.append(scores)
    print(metric.compute())                         # torch.cat(self.scores): of all epochs so far
```

**Instead**, begin each epoch anew:

```python
    print(metric.compute())
    metric.reset()
```

**Not flagged.** A metric that is made anew for each epoch, or of which it is not seen where it is made; one that
something resets, also in another file; what is read in each step, or once after the training; lists of numbers, or of
what may be numbers; a library without a training loop, as its users call what they need. Of tensors with graphs GG104
tells, and of what stays on a device GG409.

**References.** <https://lightning.ai/docs/torchmetrics/stable/pages/overview.html#metrics-and-memory-management>,
Lightning-AI/torchmetrics#1949.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_FILLS = sign(".append(", pattern=r"\bself\.\w+\.append\(", own=True)
_EMPTIES = sign(
    "def ", pattern=r"\bdef _?(?:\w+_)?(?:reset|clear|flush|empty|restart|start|begin|zero)\w*\(\s*self\s*\)"
)
_GOES_OVER = sign(
    "(self.", pattern=r"\b(?:cat|stack|concat\w*|[vh]stack|mean|sum|array|\w*tensor)\(\s*self\.\w+\s*[,)]"
)

_ENDS_EPOCH = sign("_epoch_end", pattern=r"\bdef on_(?:train|validation)_epoch_end\(")

rule = Rule("GG419", "never-reset", Severity.WARNING, ((_FILLS, _EMPTIES, _GOES_OVER), (_FILLS, _ENDS_EPOCH)))


@rule.in_source
def keeps_all_epochs(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.never_reset():
        kept, when = ("steps", "when it was read") if each.in_steps else ("epochs", "before each epoch")
        read = "every so many steps" if each.in_steps else "once an epoch"
        yield rule.finding(
            each.site,
            f"`{each.collection}` keeps the tensors of all {kept}, as nothing calls `{each.reset}`",
            help=f"call `{each.reset}()` {when}",
            related=(each.read.related(f"it is read here, {read}"),),
        )

"""A model is trained in evaluation mode: nothing takes it out of it after an evaluation.

**What happens.** `model.eval()` stays until `model.train()` is called. An evaluation inside of the training loop that
does not take it back leaves all that comes after it in evaluation mode: dropout drops nothing, batch norm takes the
averages that it has, and no longer learns them. The first epoch is trained as it was meant, all others are not. Nothing
raises; the model overfits, or its loss makes a step after the first evaluation.

```python
model.train()                       # once, before the loop
for epoch in range(epochs):
    for x, y in loader:
        ...
        loss.backward()
        optimizer.step()
    model.eval()                    # from here on, for good
    with torch.no_grad():
        print(epoch, accuracy(model, val_loader))
```

It is the same where the mode is remembered too late: `model.eval()`, then `was_training = model.training`, which is
False by then, and `model.train(was_training)` in the end.

**Instead**, say so in each epoch:

```python
for epoch in range(epochs):
    model.train()
    for x, y in loader:
        ...
```

**Not flagged.** A model that is in evaluation mode from the start, as one whose statistics are to stay; a part of one
that is put into it (`model.backbone.eval()`); a mode that is put back as it was (`model.train(was_training)`); an
evaluation after the training, or before a `break`; a model that is made anew in each iteration; a call in between that
cannot be read; models that have no layer for which it matters.

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval>,
<https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval>,
<https://github.com/pytorch/tutorials/issues/1624>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import TRAINS
from gradguard.static.evaluation.left_in_evaluation import LeftInEvaluation, left_in_evaluation
from gradguard.static.fixes.line_edits import first_in_loop
from gradguard.static.model import Function

rule = Rule("GG303", "left-in-evaluation", Severity.WARNING, TRAINS)


@rule.in_source
def trains_as_it_was_left(function: Function) -> Iterator[Finding]:
    for left in left_in_evaluation(function):
        if not function.needs_training_mode(left.module):
            continue
        put, where = left.put.asked or left.put.source.site, left.loop.site
        is_beside = (
            left.put.asked is None and where.path == put.path and where.cell == put.cell and "[" not in left.module
        )
        yield rule.finding(
            put,
            f"{_why(left)}: from then on it is trained without dropout, "
            "and with batch statistics that stay as they are",
            help=_help(left),
            fix=first_in_loop(left.loop, f"{left.module}.train()") if is_beside else None,
            related=(
                *(() if left.put.asked is None else (left.put.source.site.related("this puts that mode back"),)),
                left.backward.source.site.related("this trains it in the next iteration"),
            ),
        )


def _why(left: LeftInEvaluation) -> str:
    if left.put.asked is None:
        return f"nothing takes `{left.module}` out of evaluation mode again"
    return f"`{left.module}` is in evaluation mode already when its mode is remembered, and it is left in it"


def _help(left: LeftInEvaluation) -> str:
    if left.put.asked is None:
        line = left.loop.site.line
        return f"call `{left.module}.train()` at the start of each iteration of the loop in line {line}"
    return "remember the mode before `eval()` is called"

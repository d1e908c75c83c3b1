"""A model is evaluated in training mode: nothing puts it into evaluation mode.

**What happens.** A module is made in training mode, and stays in it until `eval()` is called; `torch.no_grad()`
changes nothing of that. So dropout drops in the evaluation, too: the same sample is classified otherwise each time.
Batch norm normalises with the statistics of the batch: what is said of one sample depends on those beside it, and on
the size of the batch. And it learns them, also under `no_grad()`: each validation moves `running_mean` and
`running_var` of the model that is trained and saved towards the data that were to be held out (measured with torch
2.13). Nothing raises.

```python
for epoch in range(epochs):
    train_one_epoch(model, train_loader)
    with torch.no_grad():                   # no graph, but training mode
        for x, y in val_loader:
            hits += (model(x).argmax(1) == y).sum().item()
```

**Instead**, say which of the two it is:

```python
for epoch in range(epochs):
    model.train()
    train_one_epoch(model, train_loader)
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            hits += (model(x).argmax(1) == y).sum().item()
```

**Told** of models that surely have batch norm or a dropout that drops something, where the function that trains the
model evaluates it as it left it; and where nothing in the whole program puts anything into evaluation mode.

**Not flagged.** Models without such layers (`LayerNorm`, `GroupNorm`, `track_running_stats=False`), and those of
which it is not known; programs in which `eval()`, `train(False)`, a helper or a framework may do it; dropout that is
drawn in an evaluation on purpose (Monte Carlo dropout); generators, which some draw from as in training; models that
answer otherwise in training mode (`if self.training: return losses`).

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval>,
<https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval>,
<https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import EVALUATION, EVALUATION_LOOP, LOADER, LOOP, TRAINING
from gradguard.static.model import Function

rule = Rule(
    "GG306",
    "never-in-evaluation",
    Severity.WARNING,
    ((TRAINING, LOOP), (EVALUATION_LOOP, LOOP), (EVALUATION, LOADER, LOOP)),
)


@rule.in_source
def evaluates_as_it_trains(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.evaluation.never_in_evaluation():
        yield rule.finding(
            each.site,
            f"`{each.module}` is evaluated in training mode: dropout drops, and batch norm takes the statistics of "
            "each batch, and learns them",
            help=f"call `{each.module}.eval()` before it, and `{each.module}.train()` before the next training",
            related=() if each.trained is None else (each.trained.related("this trains it, in the same mode"),),
        )

"""A frozen part is put into evaluation mode once, and `model.train()` takes it out of it again.

**What happens.** `requires_grad_(False)` keeps the weights; the averages of batch norm are no parameters, and move
whenever the layer runs in training mode. So a constructor puts a pretrained part into evaluation mode as well. But
`model.train()` sets the mode of all parts, and most loops call it at the start of each epoch: from then on the frozen
layers normalize with the statistics of the batch, and their averages drift away from those that they were trained with.
Dropout drops, too. The weights stay, nothing raises, and what is evaluated then is not what was trained.

```python
class Tuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = resnet18(weights="DEFAULT").requires_grad_(False)
        self.backbone.eval()                    # until `train()` is called
        self.head = nn.Linear(1000, 5)

for epoch in range(epochs):
    model.train()                               # the backbone, too
    ...
```

So it is with the teacher of a distillation, that a wrapper is given, `self.teacher = teacher.eval()`, and runs
under `no_grad`.

**Instead**, say it in the method that all calls come through:

```python
def train(self, mode=True):
    super().train(mode)
    self.backbone.eval()
    return self
```

**Not flagged.** A class that has a `train` of its own; a part that anything puts into evaluation mode again, or a
method that does so and is called again; layers whose modes are set one by one; a part without a layer for which the
mode matters; one that is only frozen; a constructor that does so only when it is asked to.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.train>,
<https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import TRAINING, sign
from gradguard.static.model import Function

_PUTS = sign(".train(", pattern=r"\.train\(\s*(?:(?:mode\s*=\s*)?True\s*)?\)", own=True)

rule = Rule("GG304", "frozen-in-training", Severity.WARNING, ((_PUTS, TRAINING),))


@rule.in_source
def takes_it_out(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.evaluation.frozen_in_training():
        yield rule.finding(
            each.site,
            f"this takes `{each.part}`, which is not trained, out of evaluation mode as well: "
            "its dropout and its batch norm work as in training",
            help=f"call `{each.part}.eval()` after it, or let `train` of its class do so",
            related=(each.put.related("this was to keep it in evaluation mode"),),
        )

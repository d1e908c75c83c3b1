"""A part of the loss has parameters, and no optimizer has them: they stay as they were made.

**What happens.** An optimizer trains what it is given, and nothing else. A loss may have parameters of its own, as the
weights of several tasks, the centers of classes, the proxies of a metric: `criterion.parameters()`. backward computes
their gradients, which add up from step to step, `step()` never moves them, and nothing raises.

```python
class Uncertainty(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(tasks))

    def forward(self, losses):
        return (torch.exp(-self.log_vars) * losses + self.log_vars).sum()

criterion = Uncertainty(2)
optimizer = optim.Adam(model.parameters())      # `log_vars` stays 0
```

So it is where a name picks the loss, `LOSSES[args.loss](512)`, `build_loss(cfg)`, and some that it may pick have
parameters.

**Instead**, give them to the optimizer, too:

```python
optimizer = optim.Adam([*model.parameters(), *criterion.parameters()])
```

**Not flagged.** An object that is given to anything which may take its parameters: another module, a list, a factory, a
function that cannot be read; one that is frozen, loaded, or trains itself; parameters that are no free numbers (a
filter, a window, a table), or that nothing computes with; what is random or fixed by its name. A whole network that is
run on the way to the loss, and that no optimizer has, is reported with low confidence: it may be meant to stay. Not so
where the one optimizer is given others of the same function, network by network: then this one was forgotten.

**References.** <https://docs.pytorch.org/docs/stable/optim.html#constructing-it>,
<https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import BOUND, CHOOSES_LOSS, sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

# `Loss(3)`, `LOSSES[cfg["loss"]](3)`, `LOSSES.get(name)(3)`, `loss_cls(3)`, `make_loss(name)`
_MAKES = sign(
    "(",
    pattern=rf"(?:=|{BOUND})\s*(?:\w+\.)*(?:[A-Z]\w*\(|\w+(?:\[[^\]\n]+\]+|\.get\([^\n)]*\)|_cls|_class)\(|{CHOOSES_LOSS}\()",
    own=True,
)
_OPTIMIZED = sign(
    "optim", "Optim", ".step(", pattern=r"\boptim\.\w|[oO]ptimizers?\b\s*[=.\[(,]|\.step\(|\bimport optim"
)
_TORCH = sign("torch", pattern=r"\btorch\b")

rule = Rule("GG225", "without-optimizer", Severity.ERROR, ((_MAKES, _OPTIMIZED, _TORCH),))


@rule.in_source
def is_never_trained(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.without_optimizer():
        notes = [] if each.site == each.made else [each.made.related(f"`{each.path}` is made here")]
        if each.declared is not None:
            notes.append(each.declared.related("its class declares a parameter here"))
        notes.append(each.run.related(f"it is run here: `{one_line(each.run.code)}`"))
        names = ", ".join(f"`{name}`" for name in each.parameters)
        yield rule.finding(
            each.site,
            f"`{each.path}` is never trained: no optimizer has its parameters" + (f", {names}" if names else ""),
            help=f"give `{each.path}.parameters()` to the optimizer, beside those of the model",
            confidence=Confidence.HIGH if each.is_sure else Confidence.LOW,
            related=tuple(notes),
        )

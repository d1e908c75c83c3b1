"""Averaged weights are put into a network for an evaluation, and never taken out: the training goes on with them.

**What happens.** An evaluation with an average of the weights (EMA) puts these into the network, and its own weights
aside. Where nothing brings them back, the next step is taken from the average: all that was learned since, but for a
small part, is lost at each evaluation, while the optimizer's state is that of the weights which are gone. Nothing
raises, and the evaluations look as they should.

```python
class EMA:
    def apply_shadow(self, model):
        for name, p in model.named_parameters():
            self.backup[name] = p.detach().clone()
            p.data.copy_(self.shadow[name])

    def restore(self, model):
        for name, p in model.named_parameters():
            p.data.copy_(self.backup[name])

def validate(model, ema, loader):
    ema.apply_shadow(model)
    return mean(loss_of(model, batch) for batch in loader)      # and `restore` is never called
```

**Instead**, bring them back, also where the evaluation raises:

```python
    ema.apply_shadow(model)
    try:
        return mean(loss_of(model, batch) for batch in loader)
    finally:
        ema.restore(model)
```

**Not flagged.** An evaluation once the training is over; a program that names the method which brings them back
anywhere, or loads a state instead; a copy of the network; calls that depend on something else than a count of steps.

**References.** Tarvainen and Valpola, "Mean teachers are better role models" (2017);
<https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_PUTS_ASIDE = sign("self.", pattern=r"\bself\.\w+(?:\[[^\n\]]*\]\s*=(?!=)|\.append\(|\s*=\s*[\[{]\s*\w)", own=True)
_WEIGHTS = sign("parameters()", pattern=r"\bfor\b[^\n]*parameters\(\)", own=True)
_WRITES = sign("copy_(", ".data = ", own=True)

rule = Rule("GG309", "never-put-back", Severity.ERROR, ((_PUTS_ASIDE, _WEIGHTS, _WRITES),))


@rule.in_source
def trains_the_average(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.evaluation.never_put_back():
        yield rule.finding(
            each.site,
            f"`{each.name}` puts other weights into the network, and nothing calls `{each.back}`: the training goes on "
            "with them",
            help=f"call `{each.back}` when the evaluation is over",
            related=(
                each.method.related("it puts the weights of the network aside"),
                each.loop.related("this loop goes on training"),
            ),
        )

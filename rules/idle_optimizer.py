"""An optimizer is made, its gradients are reset in each step, and nothing steps it: what it has is not trained.

**What happens.** An optimizer moves its parameters in its own `step()`. Where several networks train, each with an
optimizer of its own, the step of one is easily left out: backward fills its gradients, `zero_grad()` empties them
again, and its parameters stay what they were in the beginning. Nothing raises, and the loss falls by what the others
learn.

```python
optimizer = optim.Adam(model.parameters(), lr=1e-3)
weights_optimizer = optim.Adam(weights.parameters(), lr=1e-2)
for x, y in loader:
    optimizer.zero_grad()
    weights_optimizer.zero_grad()
    weights(losses(model(x), y)).backward()
    optimizer.step()                        # and weights_optimizer.step()?
```

**Instead**, step it as well. If its parameters are to stay as they are, freeze them with `requires_grad_(False)`, and
make no optimizer: then backward computes no gradients for them.

**Not flagged.** An optimizer that is handed to anything that is not of the program (a scheduler, a scaler, an
`accelerator`), returned, or put into a list or a dict; one whose parameters another optimizer beside it has, too, or
whose parameters are not known; one that nothing resets in a function that trains, or where that reads gradients, and
may move the weights by hand; attributes that another file reaches.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.step.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import BACKWARD, sign
from gradguard.static.model import Function

_MAKES = sign(
    "Adam", "SGD(", "RMSprop(", "Adagrad(", "Adadelta(", "NAdam(", "RAdam(",
    pattern=r"\b(?:Adam\w*|SGD|RMSprop|Adagrad|Adadelta|NAdam|RAdam)\(",
    own=True,
)  # fmt: skip
_RESETS = sign("zero_grad")

rule = Rule("GG257", "idle-optimizer", Severity.WARNING, ((BACKWARD, _RESETS, _MAKES),))


@rule.in_source
def is_never_stepped(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.idle_optimizers():
        yield rule.finding(
            each.site,
            f"nothing steps `{each.optimizer}`: {each.modules} is not trained by it",
            help=f"call `{each.optimizer}.step()` after the backward; or freeze what it has, and take it out",
            related=(each.reset.related("this resets its gradients, which no step has used"),),
        )

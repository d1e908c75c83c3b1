"""A part is frozen in the midst of its training, and keeps gradients of zero: the optimizer goes on moving it.

**What happens.** `requires_grad_(False)` keeps backward from computing a gradient; the optimizer asks only whether a
parameter has one. `zero_grad(set_to_none=False)` leaves zeros where a gradient was, and to a step with a gradient of
zero the weights move on: by the momentum, by the averages of Adam, by weight decay (measured with torch 2.13). What was
to stay as it is drifts, or shrinks, and nothing raises.

```python
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
for epoch in range(epochs):
    if epoch == 10:
        model.backbone.requires_grad_(False)
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)      # the gradients of the backbone are zeros from then on
        criterion(model(x), y).backward()
        optimizer.step()                            # moves the backbone
```

**Instead**, drop the gradients, always or where it is frozen:

```python
        optimizer.zero_grad()                       # None: the step passes by what has no gradient
```

**Not flagged.** A part that is frozen before its training begins, or by a flag; one that the optimizer does not have,
or whose optimizer moves nothing by a gradient of zero (`SGD(lr=0.1)`, `RMSprop`); a program that sets a gradient to
None, or changes the groups of an optimizer.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html>,
<https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_LEAVES_ZEROS = sign("zero_grad(", pattern=r"zero_grad\(\s*(?:set_to_none\s*=\s*)?False\b", own=True)
_STEPS = sign("step", "optim", pattern=r"\bstep\b|optim")
_FREEZES = sign("requires_grad", "reeze", pattern=r"requires_grad|[Ff]reeze")

rule = Rule("GG267", "moved-frozen", Severity.ERROR, ((_LEAVES_ZEROS, _STEPS, _FREEZES),))


@rule.in_source
def moves_what_is_frozen(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.moved_frozen():
        yield rule.finding(
            each.site,
            f"this leaves gradients of zero in `{each.module}` when it is frozen: `{each.optimizer}` goes on moving it",
            help="leave out `set_to_none=False`, or set `p.grad = None` where it is frozen",
            related=(
                each.frozen.related(f"`{each.module}` is frozen here"),
                each.step.related("this step moves it, by its momentum or weight decay"),
            ),
        )

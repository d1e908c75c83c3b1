"""backward on a tensor that was made anew: no parameter is behind it, and nothing is trained.

**What happens.** `torch.tensor(..., requires_grad=True)`, `Variable(loss, requires_grad=True)` and
`loss.requires_grad = True` make a leaf: a tensor without a history. backward ends where it begins, in the `.grad` of
that very leaf, which is 1. The parameters get no gradients, `step()` finds none and moves nothing, and nothing raises.
It is written to silence *"element 0 of tensors does not require grad and does not have a grad_fn"*; that error tells of
a graph that was cut before, and stays true.

```python
loss = torch.tensor(criterion(model(x), y).item(), requires_grad=True)
loss.backward()                 # the model learns nothing
optimizer.step()
```

**Instead**, backpropagate what the criterion gives, and look for what cut it: `.item()`, `.detach()`, `.data`,
numpy, `torch.tensor(...)` around tensors (`torch.stack` joins them with their graphs), `argmax`, `torch.no_grad()`.

```python
loss = criterion(model(x), y)
loss.backward()
```

**Not flagged.** A leaf that an optimizer was given, or whose `.grad` is read; one that is there before, as the
multiplier of a constraint, `self.price`; a leaf that is only the beginning of a sum; one that is made on some ways only
(a batch without a target); `loss.requires_grad_()` of what may have a graph, which changes nothing there; functions
without a step of an optimizer.

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad>,
<https://docs.pytorch.org/docs/stable/generated/torch.Tensor.is_leaf.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import BACKWARD, sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

_MAKES = sign("requires_grad", pattern=r"\brequires_grad(?:_\(|\s*=)", own=True, reaches=True)

rule = Rule("GG209", "backward-on-leaf", Severity.ERROR, ((BACKWARD, _MAKES),))


@rule.in_source
def trains_nothing(function: Function) -> Iterator[Finding]:
    for backward in function.backwards if function.steps else ():
        made = backward.leaf_at
        if made is None:
            continue
        where = made.related(f"the leaf is made at `{one_line(made.code)}`")
        yield rule.finding(
            backward.site,
            "this trains nothing: the value is a leaf that was made anew, and no parameter is behind it",
            help="backpropagate what the model's output gives, and mend what cuts its graph",
            related=(where,),
        )

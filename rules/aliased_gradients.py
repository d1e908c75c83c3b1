"""Gradients are collected as they are and reset in place: every entry is the gradient of the last backward.

**What happens.** `p.grad` is one tensor, which `p.grad.zero_()` and `zero_grad(set_to_none=False)` clear and the next
backward fills again. A list that gets `p.grad` for each task, each client or each sample has that tensor many times:
after the loop all entries are equal, the last gradient. Nothing raises. What is computed of them, as the projection of
one task's gradient on another's, sees no conflict, and the shared layers are trained for the last task alone.

```python
for loss in losses:
    for p in shared:
        if p.grad is not None:
            p.grad.zero_()
    loss.backward(retain_graph=True)
    per_task.append([p.grad for p in shared])
```

`.detach()`, `.data`, and `.view(-1)` change nothing, they share the storage.

**Instead**, keep a copy, or let each backward make new tensors:

```python
    per_task.append([p.grad.clone() for p in shared])
```

**Not flagged.** Copies, and what is computed of a gradient (`torch.cat`, a norm, a sum); resets to None, as
`optimizer.zero_grad()` does since torch 2.0; a collection that is made anew in each iteration, or has one entry for
each parameter, which is the newest; the gradients of another model each time; `torch.autograd.grad`, which gives new
tensors.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html>; Yu et al.,
"Gradient Surgery for Multi-Task Learning" (2020).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import BACKWARD, sign
from gradguard.static.model import Function

_COLLECTS = sign(
    ".append(", "] =", "]=", "+=", ".insert(", ".extend(",
    pattern=r"\.(?:append|insert|extend)\(|\][ \t]*=(?!=)|\+=",
    own=True,
)  # fmt: skip
_GRADIENT = sign(".grad", pattern=r"\.grad\b")
_LOOP = sign("for", "while", pattern=r"\bfor\b|\bwhile\b", own=True, usual=True)

rule = Rule("GG272", "aliased-gradients", Severity.ERROR, ((_GRADIENT, _COLLECTS, _LOOP, BACKWARD),))


@rule.in_source
def collects_one_tensor(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.aliased_gradients():
        yield rule.finding(
            each.site,
            f"`{each.path}` gets the same tensors each time: the gradients are zeroed in place, and the next backward "
            "fills them again, in all entries",
            help="keep a copy, `.grad.clone()`",
            related=(each.reset.related("they are reset in place here"),),
        )

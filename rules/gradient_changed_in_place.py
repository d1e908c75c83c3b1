"""The `backward` of an `autograd.Function` changes the gradient that it is given in place: others have it, too.

**What happens.** Autograd does not copy a gradient for each who needs it. Where an output is also added to something,
in a residual block or in a sum of losses, both ways are handed one and the same tensor. What `backward` does to it in
place, `grad_output.mul_(mask)`, `grad_output[mask] = 0`, is then done to the gradient of the other way as well. Nothing
raises, and which way runs first decides what goes wrong.

```python
class DropReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, keep):
        mask = (x > 0) & keep
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad_output):
        (mask,) = ctx.saved_tensors
        return grad_output.mul_(mask), None     # of `h + DropReLU.apply(f(h), keep)` the way through `h` is masked, too
```

**Instead**, compute a new tensor, or change a copy:

```python
        return grad_output * mask, None
```

**Not flagged.** A copy, `grad_output.clone()`, and whatever else the name is bound to before; saved tensors and
buffers; `if ctx.inplace:`, where somebody says that it may be done; other methods of the name `backward`.

**References.** <https://docs.pytorch.org/docs/stable/notes/extending.html>: what `backward` is given is never to be
modified in place.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_BACKWARD = sign("def backward", pattern=r"\bdef backward\(\s*\w+\s*,", own=True)
_IN_PLACE = sign(
    "_(", "=", "inplace",
    pattern=r"\w_\(|[\w\]][ \t]*(?:[-+*/]|//|\*\*)=(?!=)|\][ \t]*=(?!=)|inplace",
    own=True,
)  # fmt: skip

rule = Rule("GG269", "gradient-changed-in-place", Severity.WARNING, ((sign("Function"), _BACKWARD, _IN_PLACE),))


@rule.in_source
def changes_a_gradient(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.changed_gradients():
        yield rule.finding(
            each.site,
            f"`{each.function}.backward` changes `{each.name}` in place: where its output is added to something else, "
            "as in a residual block, the gradient of that is the same tensor",
            help=f"compute a new tensor, or begin with `{each.name}.clone()`",
        )

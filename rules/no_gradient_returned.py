"""The `backward` of an `autograd.Function` returns None for a parameter: it is never trained.

**What happens.** `backward` gives one gradient for each input of `forward`. None says that there is none, which is
right for a flag or a shape. Where a parameter is given, torch believes it: nothing raises, `beta.grad` stays None, and
optimizers leave out what has no gradient, weight decay included. The parameter is what it was at the start.

```python
class SwishFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x, beta)
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx, grad):
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x)
        return grad * (s + beta * x * s * (1 - s)), None        # nothing for beta


class Swish(nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return SwishFunction.apply(x, self.beta)
```

**Instead**, compute its gradient, in the shape of the parameter; `torch.autograd.gradcheck` compares it with the
difference quotient:

```python
        return grad * (s + beta * x * s * (1 - s)), (grad * x * x * s * (1 - s)).sum().view_as(beta)
```

What is not to be trained is no parameter: use `register_buffer`, or `nn.Parameter(..., requires_grad=False)`.

**Not flagged.** Buffers and numbers; `grad if ctx.needs_input_grad[1] else None`, and a variable that is None only at
first; a `backward` that returns None for all inputs; one that fills in gradients itself; a parameter that the module
uses for something else too, as that trains it; one that is frozen, or that other code asks for, also by its name,
unless that only sorts it into a group of the optimizer.

**References.** <https://docs.pytorch.org/docs/stable/notes/extending.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.autograd.Function.backward.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_GIVES_NONE = sign("def backward", own=True), sign("None", own=True)

rule = Rule("GG221", "no-gradient-returned", Severity.ERROR, ((sign("Function"), *_GIVES_NONE),))


@rule.in_source
def gives_none_for_a_parameter(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.missing_gradients():
        yield rule.finding(
            each.site,
            f"`{each.function}.backward` returns None for `{each.name}`, for which `{each.parameter}` is given: the "
            "parameter gets no gradient, and is never trained",
            help="return its gradient; what is not to be trained is a buffer, or has `requires_grad=False`",
            related=(each.applied.related("it is given here"), each.made.related("the parameter is made here")),
        )

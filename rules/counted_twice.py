"""A term of the loss is backpropagated by itself, and again within the sum: its gradient counts twice.

**What happens.** `backward()` adds to `.grad`. Where a term is backpropagated to look at its gradient, and then the
loss that it is a term of, with no reset between the two, the step has the gradient of that term twice. Nothing raises,
as the first backward keeps the graph; the weights of the terms are other ones than those that are written.

```python
recon.backward(retain_graph=True)      # to log the norm of its gradient
loss = recon + beta * kl
loss.backward()                        # adds the gradient of recon once more
optimizer.step()
```

**Instead**, backpropagate the sum alone. `torch.autograd.grad` gives the gradient of one term and adds nothing:

```python
grads = torch.autograd.grad(recon, list(model.parameters()), retain_graph=True)
(recon + beta * kl).backward()
optimizer.step()
```

or reset the gradients between the two.

**Not flagged.** Terms that share a part of the graph, each backpropagated once; a sum that is only printed; a term that
is detached in the sum; a reset or a step between the two; backwards of which one runs; `gradient=` and `inputs=`;
functions that put gradients together by hand (`p.grad.clone()`, `p.grad = ...`) or freeze parameters; several
optimizers, each with a loss of its own; tests.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import ACTS, BACKWARD
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

rule = Rule("GG222", "counted-twice", Severity.ERROR, ((BACKWARD, ACTS),))


@rule.in_source
def counts_twice(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.counted_twice():
        term, whole = one_line(each.of_term), one_line(each.of_sum)
        again = "and once more" if each.is_same else f"and again within `{whole}`"
        yield rule.finding(
            each.term,
            f"the gradient of `{term}` counts twice in the step: it is backpropagated here, {again}, and nothing "
            "resets the gradients between the two",
            help="backpropagate it once; to look at the gradient of one term use `torch.autograd.grad(...)`, which "
            "adds nothing to `.grad`",
            related=(each.whole.related("the other backward"),),
        )

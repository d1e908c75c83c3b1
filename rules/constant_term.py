"""A term of the loss is a number: nothing is trained by it.

**What happens.** `aux.item()`, `float(aux)` and `torch.tensor([aux])` copy the number of a tensor, without its graph.
Added to a loss, it moves the value that is printed, and no gradient: the derivative of a number is zero. backward runs,
since the other terms have a graph, nothing raises, and the model never learns what that term asks for.

```python
losses = []
for real, fake in zip(vgg(target), vgg(output)):
    losses.append(F.mse_loss(fake, real))
loss = l1 + torch.tensor(losses).sum()      # the l1 alone is trained
loss.backward()
```

**Instead**, add the tensors; `torch.stack` joins a list of them with their graphs:

```python
loss = l1 + torch.stack(losses).sum()
loss.backward()
print(f"{l1.item():.3f} {torch.stack(losses).sum().item():.3f}")      # for what is printed, a number is right
```

**Not flagged.** `detach()`, which says that it is meant; a number that multiplies (a weight), or that is a target:
in a square, an absolute value, a loss function, a `clamp`, a `max`, a divisor; one that trains a multiplier of its
own, `lam * (kl.item() - limit)`, `log_alpha.exp() * entropy.item()`; what is shown in the place of a value,
`loss - loss.item() + measure`; a number of what another backward has gone through; sums that are not backpropagated.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.tensor.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.Tensor.item.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import ACTS, BACKWARD
from gradguard.static.edits import one_line
from gradguard.static.model import Function
from gradguard.static.rewrites import without_item

rule = Rule("GG215", "constant-term", Severity.WARNING, ((BACKWARD, ACTS),))


@rule.in_source
def adds_a_number(function: Function) -> Iterator[Finding]:
    for backward in function.backwards:
        for term, copied in backward.numbers:
            spread = backward.source.site.related("what it is added to is backpropagated here")
            yield rule.finding(
                term,
                f"nothing is trained by `{one_line(term.code)}`: it is a number, copied out of its graph, and has no "
                "gradient",
                help="add the tensor itself (`torch.stack` joins a list of them with their graphs)",
                fix=without_item(term),
                related=(*(() if copied.line == term.line else (copied.related("it is copied here"),)), spread),
            )

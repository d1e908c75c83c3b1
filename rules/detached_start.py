"""The fast weights of a meta-learner begin as detached copies: its parameters get no gradient of the outer loss.

**What happens.** In MAML, the weights for a task begin as the parameters of the model and take a few inner steps, which
are recorded (`create_graph=True`). The loss of the adapted weights is backpropagated through these steps into the
parameters. Where the weights begin with `p.detach().clone().requires_grad_()`, that backward ends at the copies: all
graphs are made, nothing raises, the parameters get no gradient, and the outer optimizer skips what has none. What
`model.state_dict()` gives is detached already.

```python
fast = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
for _ in range(steps):
    loss = criterion(functional_call(model, fast, (x,)), y)
    grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
    fast = {name: w - lr * g for (name, w), g in zip(fast.items(), grads)}
criterion(functional_call(model, fast, (x_query,)), y_query).backward()
meta_optimizer.step()               # does nothing
```

**Instead**, begin with the parameters themselves, or with copies that have their graph:

```python
fast = dict(model.named_parameters())               # or {name: p.clone() for ...}
```

**Not flagged.** Inner steps whose graph is not made, or is where an option says so, as in first-order methods; a
program that gives the parameters their gradients by hand, or moves them towards the adapted ones (Reptile); an outer
loss that goes through something else as well; an optimizer of something else, as of what the data is distilled to.

**References.** <https://arxiv.org/abs/1703.03400>,
<https://docs.pytorch.org/docs/stable/generated/torch.func.functional_call.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import TRAINS
from gradguard.static.model import Function

rule = Rule("GG234", "detached-start", Severity.ERROR, TRAINS)


@rule.in_source
def ends_at_the_copies(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.losses.detached_starts():
        yield rule.finding(
            each.site,
            f"these copies of the parameters of `{each.module}` have no graph: the outer loss does not reach what "
            f"`{each.optimizer}` is to train",
            help="begin with the parameters themselves, or with `p.clone()`",
            related=(
                each.inner.related("the graph of this inner step is made"),
                each.backward.related("this backward ends at the copies"),
                each.step.related(f"`{each.optimizer}` steps here without a gradient of `{each.module}`"),
            ),
        )

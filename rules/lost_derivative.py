"""The derivative in the residual of an equation has no graph: what the equation asks of it is never trained.

**What happens.** `torch.autograd.grad` gives a number, without a graph, unless it is asked for one by
`create_graph=True`. A physics-informed network is trained on the residual of an equation, `u' - r u (1 - u)`; where the
derivative is such a number, its share of the gradient is missing. Where nothing else of the loss has a graph, backward
raises. Beside `u` itself, whose graph the other terms have, it runs, and nothing says that the network is pulled
towards another function, as if `u'` were a target that it cannot change.

```python
u = net(t)
(du,) = torch.autograd.grad(u, t, torch.ones_like(u), retain_graph=True)
residual = du - rate * u * (1 - u)
loss = residual.pow(2).mean() + fit
loss.backward()
```

**Instead**, have the graph made:

```python
(du,) = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)
```

`retain_graph=True` keeps the graph of `u`, and makes none of the derivative. It is the same where a function is given
`u` and returns the residual, and another one differentiates.

So it is with the inner gradients of what learns to learn, where a flag is asked the wrong way round: the first order is
what needs no graph, and the meta gradient of both orders lacks the second one.

```python
grads = torch.autograd.grad(loss, weights, create_graph=self.first_order)  # not self.first_order
weights = [w - lr * g for w, g in zip(weights, grads)]
```

**Not flagged.** A derivative that is a weight, a factor of what has a graph (`u * u_x`), or named as a target; one by
which another tensor is moved, as in an attack; one whose factor is trained; that of a network which no optimizer has.
A derivative that is all there is of a term, as in a gradient penalty, is told of by GG215. A flag that the function
gives another value, or of code that does not speak of inner loops.

**References.** Raissi, Perdikaris and Karniadakis, "Physics-informed neural networks" (2019);
Finn, Abbeel and Levine, "Model-agnostic meta-learning" (2017), section 5.2;
<https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import ACTS, BACKWARD, sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

_ASKS_A_FLAG = sign("create_graph", pattern=r"create_graph\s*=\s*(?:not\s+)?[\w.]*(?i:order|fo_?maml)", own=True)

rule = Rule("GG266", "lost-derivative", Severity.ERROR, ((BACKWARD, ACTS), (_ASKS_A_FLAG,)))


@rule.in_source
def is_a_number(function: Function) -> Iterator[Finding]:
    for site in function.mistakes.losses.inverted_orders():
        yield rule.finding(
            site,
            "the flag is asked the wrong way round: these gradients have a graph where only the first order is wanted, "
            "and none where the second one is",
            help="the first order needs no graph: turn `create_graph` round",
        )
    for each in function.mistakes.losses.lost_derivatives():
        yield rule.finding(
            each.site,
            f"this derivative has no graph: `{one_line(each.term.code)}` is a number in an equation that is trained",
            help="let `torch.autograd.grad` make its graph: `create_graph=True`",
            related=(
                each.term.related("it stands here, beside what it is the derivative of"),
                each.backward.related("the equation is backpropagated here: its gradient leaves the derivative out"),
            ),
        )

"""An optimizer steps after the backward of a loss that has none of its parameters in it: nothing is trained.

**What happens.** The loss of one network often goes through another one: a generator's through the discriminator, an
actor's through the critic. Where what the first one gives is detached before, or computed under `no_grad`, backward
still works, as the second one has a graph; it fills the gradients of the second one alone. The step of the first one's
optimizer then has nothing to do: parameters without a gradient are skipped, and nothing raises.

```python
fake = generator(z).detach()        # for the discriminator
d_loss = criterion(discriminator(real), ones) + criterion(discriminator(fake), zeros)
...
g_loss = criterion(discriminator(fake), ones)
g_optimizer.zero_grad()
g_loss.backward()                   # reaches the discriminator only
g_optimizer.step()                  # does nothing
```

**Instead**, detach where it is meant, and keep the graph for the own loss:

```python
fake = generator(z)
d_loss = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
...
g_loss = criterion(discriminator(fake), ones)
```

So it is where the loss is that of a copy, as of the learner of a task in first-order MAML: `deepcopy(net)` gets the
gradients, and whoever steps the optimizer of `net` has to hand them over, `p.grad = q.grad`.

**Not flagged.** An optimizer of several networks, of which one may be left out on purpose; a loss in which some
parameter of the optimizer may be; networks that may share parts; a network that is not run in the same function;
gradients that are not reset before, as they may be those of another loss; a call in between that cannot be read; a
program that freezes parameters by a flag or sets gradients itself.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.step.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import TRAINS
from gradguard.static.model import Function

rule = Rule("GG229", "unreached-parameters", Severity.ERROR, TRAINS)


@rule.in_source
def steps_without_gradients(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.unreached():
        related = (
            each.run.related(f"`{each.module}` runs here"),
            each.backward.related("this backward reaches none of its parameters"),
            each.step.related(f"`{each.optimizer}` steps here without a gradient of it"),
        )
        if each.is_copied:
            yield rule.finding(
                each.run,
                f"the loss is that of copies of `{each.module}`, which get the gradients: the step of "
                f"`{each.optimizer}` does not train it",
                help=f"give the gradients of the copy to `{each.module}`: `p.grad = q.grad` for each of its parameters",
                related=related[1:],
            )
            continue
        yield rule.finding(
            each.cut or each.backward,
            f"the loss of `{each.optimizer}` has no graph that leads to `{each.module}`: its step does not train it",
            help=f"compute the loss of what `{each.module}` gives with its graph, and detach that elsewhere",
            related=related if each.cut is not each.run else related[1:],
        )

"""An optimizer steps between a forward and its backward: the weights that the backward needs are not those any more.

**What happens.** A step changes the parameters in place. The backward of a layer computes the gradient of its input
with its weight, and torch counts how often that was changed: a backward through a forward that ran before the step
raises "one of the variables needed for gradient computation has been modified by an inplace operation". Up to torch
1.4 a step was not counted, and the gradients were silently wrong; code of that time is full of it: all losses are
computed first, and then each has its reset, its backward and its step.

```python
q_loss = F.mse_loss(critic(s, a), target)
policy_loss = -critic(s, actor(s)).mean()   # goes through the critic as it is now
critic_optimizer.zero_grad()
q_loss.backward()
critic_optimizer.step()                     # changes its weights
actor_optimizer.zero_grad()
policy_loss.backward()                      # raises
actor_optimizer.step()
```

So does a loop that goes through one forward again and again, in its second iteration: `retain_graph=True` keeps the
graph, and not the weights.

**Instead**, compute the second loss when the step is done:

```python
q_loss = F.mse_loss(critic(s, a), target)
critic_optimizer.zero_grad()
q_loss.backward()
critic_optimizer.step()
policy_loss = -critic(s, actor(s)).mean()
actor_optimizer.zero_grad()
policy_loss.backward()
actor_optimizer.step()
```

or do both backwards before both steps. Where the second loss is not meant for the parameters of the first one, leave
them out of it: `policy_loss.backward(inputs=list(actor.parameters()))`.

**Not flagged.** A forward that runs again after the step; a loss whose way to the module is detached, or under
`no_grad`; a module of one layer that is given data, as nobody asks for the gradient of that; optimizers of other
modules, as of those beside a target network; a step before which no gradient is computed, or that only comes under a
condition; modules and optimizers that cannot be told; a program with `autocast`, checkpoints, `fused=True` or
`DataParallel`, where the backward computes with copies, or the step is not counted.

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks>,
<https://github.com/pytorch/pytorch/releases/tag/v1.5.0> (which tells of such programs).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import TRAINS
from gradguard.static.mistakes.backward import SteppedBetween
from gradguard.static.model import Function

rule = Rule("GG250", "stepped-between", Severity.ERROR, TRAINS)


@rule.in_source
def needs_weights_of_before(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.stepped_between():
        when = "this raises in the second iteration" if each.again else "this raises"
        yield rule.finding(
            each.site,
            f"{when}: the loss goes through `{each.module}` as it was before the step of `{each.optimizer}`, which "
            "changes its weights in place",
            help=_help(each),
            related=(
                each.run.related(f"`{each.module}` runs here, before the step"),
                each.step.related("this step changes its weights"),
            ),
        )


def _help(each: SteppedBetween) -> str:
    if each.again:
        return f"run `{each.module}` in each iteration, or add up the losses and step once"
    if each.for_other is None:
        return "compute this loss after the step, or do both backwards before the first step"
    return (
        f"compute this loss after the step; or do both backwards before the steps, this one with `inputs=` the "
        f"parameters of `{each.for_other}`, so that it leaves no gradients in `{each.module}`"
    )

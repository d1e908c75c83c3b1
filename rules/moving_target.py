"""The target of a value network has a graph: it is trained to come towards its prediction.

**What happens.** In Q-learning, and wherever a value is learned from the next one, `reward + gamma * net(following)` is
what `net(state)` should become. With its graph, backward goes through both calls of the network: besides moving the
prediction to the target it moves the target to the prediction, which is another method (the residual gradient), slower
and often to another solution. Nothing raises, and the loss goes down. The activations of the second call are kept for
the backward as well.

```python
target = reward + gamma * net(following).max(1).values
loss = F.mse_loss(net(state).gather(1, action), target)
```

It is the same where the difference is squared by hand, `(target - value).pow(2)`, and where a target is written element
by element: `target[i, action] = reward[i] + gamma * net(following[i]).max()` gives it that graph.

A target network that follows the trained one by an average of the weights, as that of BYOL or of a mean teacher, is not
to learn by itself: where it is run with its graph, and the optimizer has its parameters as well
(`Adam(model.parameters())`), each step moves it by the gradients, too.

**Instead**, compute the target without a graph:

```python
with torch.no_grad():
    target = reward + gamma * net(following).max(1).values
```

**Not flagged.** A target under `no_grad`, or that is detached, a number or an array; one of another network (its
gradients go to parameters that no optimizer has); a distance of two outputs that is wanted (a consistency, a contrast):
only a sum of something without a graph and a discounted output (`gamma`, a number just below 1) is taken for a target,
and what a network gives that follows another one. Of that it is not told where it is frozen, where its parameters are
in no optimizer, or in another one than those that it follows.

**References.** <https://docs.pytorch.org/tutorials/intermediate/reinforcement_q_learning.html>; Baird, "Residual
Algorithms" (1995), on the difference of the two; Grill et al., "Bootstrap Your Own Latent" (2020), where the
target is an average, and has no gradient.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import ACTS, BACKWARD, sign
from gradguard.static.fixes.edits import with_call
from gradguard.static.model import Function

# A function that only computes the loss, which another one backpropagates.
_DISCOUNTS = sign(
    "gamma", "Gamma", "GAMMA", "discount", "Discount", "DISCOUNT", "0.9", "0.8",
    pattern=r"(?i:gamma|discount)\w*[\])\"']*\s*\*|\*\s*[\w.(\[\"']*(?i:gamma|discount)|\b0\.[89]\d*\s*\*|\*\s*0\.[89]",
    own=True,
)  # fmt: skip

rule = Rule("GG218", "moving-target", Severity.WARNING, ((BACKWARD, ACTS), (BACKWARD, _DISCOUNTS)))


@rule.in_source
def moves_the_target(function: Function) -> Iterator[Finding]:
    yield from _follows_its_prediction(function)
    yield from _trains_an_average(function)


def _trains_an_average(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.trained_averages():
        if function.switches_gradients():
            return
        yield rule.finding(
            each.site,
            f"`{each.module}` is run with its graph: the gradients move it, besides the average that it is to be",
            help="run it under `torch.no_grad()`, or detach what it gives; its parameters belong in no optimizer",
            related=(
                each.average.related("its weights follow those of the other network here"),
                each.backward.related("this has gradients for both"),
            ),
        )


def _follows_its_prediction(function: Function) -> Iterator[Finding]:
    for target in function.mistakes.losses.moving_targets():
        if function.switches_gradients():
            return
        name = "the target" if target.target is None else f"`{target.target}`"
        yield rule.finding(
            target.site,
            f"{name} is computed by `{target.module}` with its graph: the gradients move the target, too",
            help="compute the target under `torch.no_grad()`, or detach it",
            fix=with_call(target.site, "detach()"),
            related=(
                target.run.related("this records the graph"),
                target.loss.related("this compares it with what the same network predicts"),
            ),
        )

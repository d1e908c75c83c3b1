"""A network runs with a graph, and all that is made of it is cut off, or never used.

**What happens.** The target network of a value learner, the pretrained features below a new head, the policy that only
chooses an action: no backward ever goes through them. Without `torch.no_grad()` each such forward records its graph all
the same, and saves the activations of every layer. `detach()` behind it comes too late: they have been saved by then,
all at the same time, beside the graph that the step really needs. Where the result stays in a variable and is detached
in the loss, they stay until the step is over.

```python
q = net(state).gather(1, action)
best = target(following).max(1)[0]                      # its graph lives as long as `best`
loss = F.mse_loss(q, (reward + 0.99 * best).detach())
loss.backward()
```

With eight linear layers and a batch of 1024 the peak of such a step was 33 MB, and 20 MB under `no_grad`; that of a
step which trains a linear head on `backbone(x).detach()`, five layers of convolutions, 128 MB and 48 MB. A policy that
is asked for one action at a time takes no memory to speak of, but a fifth to a half more time; that is only an info.

**Instead**, run it where no graph is recorded:

```python
q = net(state).gather(1, action)
with torch.no_grad():
    expected = reward + 0.99 * target(following).max(1)[0]
loss = F.mse_loss(q, expected)
loss.backward()
```

and a function that acts as a whole:

```python
@torch.no_grad()
def act(self, state):
    return self.policy(state).argmax(1).item()
```

A forward whose result nothing uses can go.

**Not flagged.** `discriminator(generator(z).detach())` in a step that runs the generator again, with its graph, for
the generator's own loss: the first graph is gone at once, and the peak comes later (measured: the same 26 MB; 41 MB
where `fake = generator(z)` keeps it until the discriminator's backward). A network that is frozen, or may be, or that
is not known to have parameters at all; what is returned, kept, or given to code that cannot be read, with its graph;
what has a use that does not surely end the graph; a function that somebody calls under `no_grad`, or nobody at all; a
context that may switch gradients off (`with self.mode:`); what runs once in a program, or to find out a size; programs
with hooks on layers, which may use what they see. Evaluations: GG301 tells of them, and GG308 of a model that is only
asked for something. A network that is trained for nothing (GG253), or that a backward goes through for nothing (GG252).

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation>;
<https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html>;
<https://docs.pytorch.org/tutorials/intermediate/reinforcement_q_learning.html>, which computes the values of the next
state under it.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import TRAINING, TRAINS, sign
from gradguard.static.mistakes.backward import UnusedGraph
from gradguard.static.model import Function

# What ends a graph, in a function that is named as one that acts: what trains may be in another file.
_CUTS = sign(
    ".detach(", ".item(", ".numpy(", ".tolist(", "argmax(", ".data",
    pattern=r"\.(?:detach|item|numpy|tolist|argmax)\(|\bargmax\(|\.data\b", own=True,
)  # fmt: skip
_CHOOSES = sign(
    "def ", pattern=r"\bdef\s+_*(?:\w+_)?(?:act|actions?|choose|select|policy|rewards?)(?:_\w+)?\s*\(", own=True
)

rule = Rule("GG305", "unused-graph", Severity.WARNING, (*TRAINS, (TRAINING, _CUTS), (_CHOOSES, _CUTS)))

_WHY = {
    "cut": "its result is cut off the graph at once, when the activations of all layers have been saved",
    "later": "all that is made of its result is cut off the graph, and until then its activations are kept",
    "unread": "nothing uses its result",
}


@rule.in_source
def asks_for_nothing(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.unused_graphs():
        network = f"`{each.module}`" if each.module else "a network"
        yield rule.finding(
            each.site,
            f"{network} runs with a graph that no backward goes through: {_WHY[each.use]}",
            help=_help(each),
            fix=_fix(function, each),
            severity=Severity.WARNING if each.in_training else Severity.INFO,
        )


def _help(each: UnusedGraph) -> str:
    if each.is_given_graph:
        return "if the gradient is to go through it, do not cut it off; otherwise run it under `torch.no_grad()`"
    return (
        "leave it away, or run it under `torch.no_grad()`" if each.use == "unread" else "run it under `torch.no_grad()`"
    )


def _fix(function: Function, each: UnusedGraph) -> Fix | None:
    """Nothing that is computed changes by it: only what has no graph afterwards lost it."""
    if not each.is_alone or each.is_given_graph:
        return None
    return function.run_without_grad(each.site)

"""A backward goes through a network that nothing trains: its activations are kept, and gradients of all its weights.

**What happens.** The teacher of a distillation, the target network of a value learner, the pretrained features of a
perceptual loss are to stay as they are, and no optimizer has them. Their parameters want gradients all the same, as
those of every new module. So each forward keeps the activations of the whole network, backward computes the gradients
of all its weights, and `.grad` takes as much memory as the weights themselves. No step uses it and no reset empties it.
`eval()` changes none of that.

```python
class Agent:
    def __init__(self):
        self.critic = Critic()
        self.target = copy.deepcopy(self.critic)
        self.optimizer = optim.Adam(self.critic.parameters())

    def update(self, state, action, reward, following):
        expected = reward + 0.99 * self.target(following)       # with its graph
        loss = F.mse_loss(self.critic(state, action), expected)
        loss.backward()
```

**Instead**, freeze it where it is made. Gradients still go through it, as a perceptual loss needs them to. Where no
gradient has to, `torch.no_grad()` does the same:

```python
self.target = copy.deepcopy(self.critic).requires_grad_(False)
...
with torch.no_grad():
    expected = reward + 0.99 * self.target(following)
```

Of eight linear layers with a batch of 1024, the teacher's share of what a distillation keeps for its backward was 15
of 36 MB, its `.grad` 8 MB, and its part of the backward nearly half of the time; frozen or under `no_grad` all three
are gone, and the student's gradients are the same.

**Not flagged.** A network that is frozen, or whose output is detached; one whose parameters may be given to an
optimizer, to anything that cannot be read, or to a loop that trains by hand; one that is run outside of training, as to
explain what it sees. It must be known as one that is not to be trained: a copy, one that follows another one, one with
the weights of a library, or one that is loaded and put into evaluation mode.

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation>;
<https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.requires_grad_>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import TRAINS
from gradguard.static.model import Function

rule = Rule("GG253", "idle-gradients", Severity.WARNING, TRAINS)

_MADE = {
    "copy": "it is made here, to follow another network: no optimizer moves its parameters",
    "pretrained": "its pretrained weights come from here: no optimizer moves its parameters",
    "loaded": "it is made here, and its weights are loaded: no optimizer moves its parameters",
}


@rule.in_source
def computes_them(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.idle_gradients():
        yield rule.finding(
            each.site,
            f"`{each.network}` runs with a graph, and nothing trains it: its activations are kept, and backward "
            "computes the gradients of all its weights",
            help=f"freeze it where it is made: `{each.network}.requires_grad_(False)`; where no gradient has to go "
            "through it, `torch.no_grad()` around this does the same",
            related=(
                each.backward.related("this backward leaves `.grad`, as large as its weights"),
                each.made.related(_MADE[each.kind]),
            ),
        )

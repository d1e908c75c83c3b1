"""A parameter is replaced in its optimizer, which keeps the state of the old one.

**What happens.** `optimizer.state` is a dict whose keys are the parameters themselves. A new parameter in a group has
no state yet; the old one, with its gradient, its `exp_avg` and its `exp_avg_sq`, stays where it is: nothing steps it,
and nothing lets go of it. Where points are added and pruned every hundred steps, as in Gaussian splatting, each time
costs the memory of the whole model three or four times over. Nothing raises, and the training is right.

```python
for group in optimizer.param_groups:
    old = group["params"][0]
    new = nn.Parameter(old[mask])
    state = optimizer.state.get(old)                  # `old` is still a key
    if state is not None:
        optimizer.state[new] = {k: v[mask] if v.dim() else v for k, v in state.items()}
    group["params"] = [new]
```

So it does in a function that is given the group (`self.swap(group, mask)`), and where no state is copied: after
`self.log_var = nn.Parameter(new)`, `self.optimizer.param_groups[0]["params"] = [self.mu, self.log_var]` leaves that of
the old one.

**Instead**, take the state out as it is read:

```python
    state = optimizer.state.pop(old, None)
```

or `del optimizer.state[old]` before the parameter is replaced.

**Not flagged.** Functions that take something out of a state, or make it anew (`pop`, `del`, `clear()`,
`optimizer.state = ...`, `load_state_dict`), also in a function that they call, or in one that calls them; a new
optimizer; a part of the parameters that is left in a group (`[p for p in group["params"] if p.requires_grad]`); another
optimizer whose states are copied; optimizers that keep nothing, as `SGD`; replacements before the first step, by what
is called `setup`, `load`, `restore` and the like, or of which nothing shows that there is a state.

**References.** <https://docs.pytorch.org/docs/stable/optim.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.state_dict.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import LOOP, sign
from gradguard.static.model import Function

_REPLACES = sign(
    '"params"]', "'params']",
    pattern=r"(?m:^)[^#\n]*\[[\"']params[\"']\](?:\[[^\]\n]*\])?\s*=(?!=)",
    own=True,
)  # fmt: skip
_STATE = sign(".state", pattern=r"\.state\b(?!_)", own=True)
_STEPS = sign(".step(", own=True)
_MAKES = sign("Parameter(", "requires_grad", own=True)
_WITH_AVERAGES = sign("Ada", "Adam", "RMSprop", "Rprop", pattern=r"\b\w*(?:Ada\w+|RMSprop|Rprop)\(")

rule = Rule(
    "GG418",
    "replaced-state",
    Severity.ERROR,
    ((_REPLACES, _STATE), (_REPLACES, LOOP, _STEPS), (_REPLACES, _MAKES, _WITH_AVERAGES)),
)


@rule.in_source
def keeps_the_old_one(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.replaced_states():
        state = f"{each.optimizer}.state"
        yield rule.finding(
            each.site,
            f"`{state}` keeps the parameter that is replaced, its gradient and its averages: nothing takes it out",
            help=f"take it out before it is replaced: `{state}.pop(old, None)`",
            related=(each.replaced.related("it is replaced here"),) if each.replaced != each.site else (),
        )

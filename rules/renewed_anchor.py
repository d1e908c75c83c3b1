"""Each epoch over one batch computes the old log probabilities anew: the ratio begins at 1 again, and is not clipped.

**What happens.** PPO takes several epochs of steps with the actions of one policy, and weights each action with
`exp(new - old)`, the ratio of its probabilities now and when it was taken. The clip keeps the policy near the one that
acted. Where the old log probabilities are computed within the loop over the epochs, they are those of the policy that
the epoch before has trained: the ratio begins at 1 in each, the clip hardly ever binds, and the weights are not those
of the actions. Nothing raises; the policy goes as far as the epochs carry it.

```python
for epoch in range(epochs):
    with torch.no_grad():
        old = policy(obs).log_prob(actions)         # of another policy in each epoch
    for batch in torch.randperm(len(obs)).split(64):
        ratio = (policy(obs[batch]).log_prob(actions[batch]) - old[batch]).exp()
        loss = -torch.min(ratio * adv[batch], ratio.clamp(0.8, 1.2) * adv[batch]).mean()
        ...
```

**Instead**, compute them once, before the loop, or keep those that the policy gave when it acted.

**Not flagged.** A loop that draws its data as well, or fills it; old values of another network, or of a copy; what is
computed right before the new value, of the same input (`exp(logp - logp.detach())`); a loop that runs once; old values
that are computed in some of the epochs only.

**References.** Schulman et al., "Proximal Policy Optimization Algorithms" (2017), <https://arxiv.org/abs/1707.06347>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_STEPS = sign(".step(", own=True)
_CUT = sign("no_grad", "inference_mode", ".detach(", own=True)
_RATIO = sign("exp(", pattern=r"\bexp\(")

rule = Rule("GG244", "renewed-anchor", Severity.WARNING, ((_STEPS, _CUT, _RATIO),))


@rule.in_source
def begins_at_one_again(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.losses.renewed_anchors():
        yield rule.finding(
            each.site,
            "this is computed anew in each pass over the same data, of what the pass before has trained: the ratio to "
            "it begins at 1 again",
            help="compute it once, before the loop over the passes",
            related=(
                each.loop.related("each iteration of this loop computes it"),
                each.new.related("this is compared with it"),
                each.step.related("this step changes what it is computed of"),
            ),
        )

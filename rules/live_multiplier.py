"""The loss of a multiplier trains what it multiplies, and takes back what the loss with the fixed one has asked for.

**What happens.** A multiplier that is trained, as the temperature of an actor-critic or the weight of a constraint, is
in two losses: in one it is a number, `alpha.detach() * log_prob`, and trains the policy; in its own,
`-(alpha * (log_prob + target))`, the log probability is to be the number. Where that keeps its graph, and both go
through one backward, the policy gets the gradient of both. They are of the same size and have opposite signs: what
asked for entropy is gone, nothing raises, and the policy becomes certain of itself.

```python
policy_loss = (alpha.detach() * log_prob - q).mean()
alpha_loss = -(alpha * (log_prob + target_entropy)).mean()
(policy_loss + alpha_loss).backward()
```

Nor is the multiplier to keep its graph in the loss of the policy, `alpha * log_prob - q`, where one backward goes
through that and its own: the policy's loss trains it as well, the other way, and what the two ask of it cancels out.

**Instead**, cut the graph in the loss of the multiplier, and the multiplier's in the other one:

```python
policy_loss = (alpha.detach() * log_prob - q).mean()
alpha_loss = -(alpha * (log_prob.detach() + target_entropy)).mean()
```

**Not flagged.** What is detached in it, whole or alone; losses that are backpropagated each by itself, with a reset or
a step in between; a multiplier that keeps its graph in both; what no loss has beside the fixed multiplier.

**References.** Haarnoja et al., "Soft Actor-Critic Algorithms and Applications" (2018), on the temperature;
<https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import one_line, with_call
from gradguard.static.model import Function

_BACKWARD = sign("backward", pattern=r"\bbackward\(", own=True)
_FIXED = sign(
    ".detach()", ".item()", ".data",
    pattern=r"\.(?:detach\(\)|item\(\)|data\b)\)*\s*\*|\*\s*[\w.()]+\.(?:detach\(|item\(|data\b)|"
    r"=\s*[\w.()]+\.(?:detach|item)\(\)|\*\s*\(.*\.detach\(\)|=\s*\(.*\)\.detach\(\)",
)  # fmt: skip

rule = Rule("GG236", "live-multiplier", Severity.WARNING, ((_BACKWARD, _FIXED),))


@rule.in_source
def trains_what_it_multiplies(function: Function) -> Iterator[Finding]:
    for live in function.mistakes.losses.live_multipliers():
        code = one_line(live.site.code)
        what = (
            f"`{code}` has its graph here: this loss trains `{live.multiplier}` as well, against the loss of its own"
            if live.is_multiplier
            else f"the loss of `{live.multiplier}` trains `{code}`, against the loss in which the multiplier is fixed"
        )
        related = "this is the loss that is to train it" if live.is_multiplier else "this is to train it"
        yield rule.finding(
            live.site,
            what,
            help=f"cut it here: `{code}.detach()`",
            fix=with_call(live.site, "detach()"),
            related=(live.fixed.related(related),),
        )

"""The ratio of a policy to the old one is that of a tensor to itself: its gradient is zero.

**What happens.** PPO and GRPO weight the advantage with `exp(new - old)`, the ratio of what the policy gives to what it
gave when it acted. In the first step on new samples the two are the same numbers, the ratio is one, and its gradient is
that of `new`, as long as `old` is a number. Where `old` is the same tensor with its graph, the gradient is
`exp(0) * (new' - new') = 0`: nothing is learnt from the advantage, and nothing raises. The loss looks as it should, as
its value is right, and what else is in it, a KL term or an entropy bonus, is trained alone.

```python
logps = per_token_logps(model, ids)
old_logps = logps if inputs["old_logps"] is None else inputs["old_logps"]
ratio = torch.exp(logps - old_logps)
```

**Instead**, cut the graph of the old one:

```python
old_logps = logps.detach() if inputs["old_logps"] is None else inputs["old_logps"]
```

So it is where the old one is computed again beside the new one, by the same policy: `old = pi.dist(obs).log_prob(act)`.
It is to be kept from when the policy acted.

**Not flagged.** What is detached, or made under `no_grad`; an old one that is kept from an iteration before, while the
loop makes the new one again; a reference that is the policy itself where there is no other, for a KL of zero.

**References.** <https://arxiv.org/abs/1707.06347>,
<https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import detached, one_line
from gradguard.static.model import Function

_OLD = sign(
    "old", "prev", "Old", "behav", "rollout", "sampl", "acted",
    pattern=r"\b\w*(?:[oO]ld|prev|behav|rollout|sampl|acted)\w*(?:\s*,\s*\w+)*\s*=[^=]*[A-Za-z]",
    own=True,
)  # fmt: skip
_DIVIDES = sign(
    "exp(",
    "/",
    pattern=r"exp\(\s*\)|\bexp\(|/\s*[\w.]*(?:[oO]ld|prev|behav|rollout|sampl|acted)",
    own=True,
)
_TORCH = sign("torch", pattern=r"\btorch\b")

rule = Rule("GG258", "ratio-to-itself", Severity.ERROR, ((_OLD, _DIVIDES, _TORCH),))


@rule.in_source
def has_no_gradient(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.losses.cancelled_ratios():
        edit = detached(each.site) if not each.is_made_again else None
        how = f"computed again as `{each.new}` is" if each.is_made_again else f"`{each.new}` with its graph"
        yield rule.finding(
            each.site,
            f"`{each.old}` is {how}: their ratio is one, and its gradient is zero",
            help="keep what the policy gave when it acted"
            if each.is_made_again
            else f"`{one_line(each.site.code)}.detach()` makes it a number",
            related=(each.ratio.related("this is the ratio"),),
            fix=Fix("detach the old one", (edit,), safe=False) if edit is not None else None,
        )

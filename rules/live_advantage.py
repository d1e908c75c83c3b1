"""The loss of a policy is weighted with an advantage that still has the graph of the value: it trains the value, too.

**What happens.** In an actor-critic the advantage, `returns - values`, says how much better an action was than the
critic thought. It weights the log probability of that action, and it is a number there. With the graph of `values` in
it, backward goes on into the critic: what raises the product lowers the value of actions that have become likely,
whatever their return was. That gradient adds to the one of the value's own loss. Nothing raises, and the loss goes
down; the critic is wrong, and with it every advantage.

```python
advantages = returns - critic(states)
policy_loss = -(dist.log_prob(actions) * advantages).mean()
value_loss = advantages.pow(2).mean()
(policy_loss + 0.5 * value_loss).backward()
```

The log probability may have any name (`lp`), where what it is bound to says what it is, also in the function that gives
it: `returns, values, lp = memory.finish(last)`.

**Instead**, cut the graph in the loss of the policy alone:

```python
policy_loss = -(dist.log_prob(actions) * advantages.detach()).mean()
```

**Not flagged.** An advantage that is detached, a number, or computed under `no_grad`; a value that comes from a buffer;
losses that are backpropagated each by itself, for optimizers of their own: the critic's gradients are reset then.

**References.** <https://docs.pytorch.org/docs/stable/distributions.html#score-function>; Mnih et al., "Asynchronous
Methods for Deep Reinforcement Learning" (2016), on the two gradients.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import one_line, with_call
from gradguard.static.model import Function

_PROBABLE = sign(
    "log_p", "logp", "logP", "ratio",
    pattern=r"\blog_?[pP]|_log_?[pP]|\.log_prob\(|ratios?\s*\*|\*\s*(?:\w+\.)?\w*ratios?\b",
    own=True,
)  # fmt: skip
_DIFFERENCE = sign(
    "-", pattern=r"-\s*(?:\w+\.)*(?i:\w*_)?(?i:v|vs|vf|values?|vals?|statevalues?|baselines?|critic\w*)\b", own=True
)  # fmt: skip
_COMPARED = sign("mse_loss", "smooth_l1_loss", own=True)

# By another name, that is bound to what another function of the file gives.
_PROBABLE_ELSEWHERE = sign("log_p", "logp", "logP", pattern=r"\blog_?[pP]|_log_?[pP]|\.log_prob\(")
_PRODUCT = sign("*", pattern=r"\w\s*\*\s*\w", own=True)

rule = Rule(
    "GG226",
    "live-advantage",
    Severity.WARNING,
    (
        (_PROBABLE, _DIFFERENCE),
        (_PROBABLE, _COMPARED),
        (_PROBABLE_ELSEWHERE, _DIFFERENCE, _COMPARED, _PRODUCT),
    ),
)


@rule.in_source
def trains_the_value(function: Function) -> Iterator[Finding]:
    for live in function.mistakes.losses.live_advantages():
        yield rule.finding(
            live.site,
            f"the loss of the policy trains the value: `{one_line(live.site.code)}` has the graph of "
            f"`{one_line(live.value.code)}`",
            help=f"cut it here: `{one_line(live.site.code)}.detach()`",
            fix=with_call(live.site, "detach()"),
            related=(live.value.related("the graph is that of this value"),),
        )

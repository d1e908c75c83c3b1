"""An option is set on an optimizer as an attribute, or in its defaults: that changes nothing.

**What happens.** The optimizers of torch keep their options in `param_groups`, one dict for each group of parameters.
`optimizer.lr = 0.001` makes an attribute that nothing reads: the rate stays what it was, nothing raises, and a log that
prints `optimizer.lr` shows the one that was wanted.

```python
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(epochs):
    optimizer.lr = 0.1 * 0.5 ** (epoch // 20)
    train_epoch(model, optimizer)
```

So it is with `optimizer.defaults["lr"] = 0.001`: the groups take from this dict what they are not given, when they are
made, and do not look there again.

**Instead**, set it in the groups, or let a scheduler do it:

```python
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * 0.5 ** (epoch // 20)
```

**Not flagged.** Optimizers that are not surely of torch: classes of one's own may have such an attribute; a program in
which something reads it, other than to show it, or sets the option of the groups as well; defaults where groups are
added later, which take them.

**References.** <https://docs.pytorch.org/docs/stable/optim.html#per-parameter-options>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_SETS = sign(
    ".lr", ".learning_rate", ".momentum", ".weight_decay", ".betas", ".defaults",
    pattern=r"(?<!self)(?<!args)\.(?:lr|learning_rate|momentum|weight_decay|betas)\s*=(?!=)|\.defaults(?:\[|\.update\()",
    own=True,
)  # fmt: skip
_OPTIMIZERS = sign("optim")

rule = Rule("GG262", "rate-on-optimizer", Severity.ERROR, ((_SETS, _OPTIMIZERS),))


@rule.in_source
def sets_an_attribute(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.set_on_optimizers():
        where = "the defaults" if each.in_defaults else "this attribute"
        yield rule.finding(
            each.site,
            f"nothing reads {where} of `{each.optimizer}`: its groups keep the `{each.option}` that they have",
            help=f'set it in the groups: `for group in {each.optimizer}.param_groups: group["{each.option}"] = ...`',
        )

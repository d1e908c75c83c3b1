"""Some parameters are in no group of the optimizer: the conditions that sort them do not cover all.

**What happens.** A loop over `named_parameters()` puts those with a weight decay into one list and those without into
another. Where the last of its conditions is not what the others leave, some parameters meet none: what is neither a
weight of a layer nor a bias, as the token of a transformer, its positions, a scale. They get gradients, and no
optimizer has them: they stay as they began. Nothing raises, and the loss goes down all the same.

```python
for name, param in model.named_parameters():
    if name.endswith(".weight") and "norm" not in name:
        decay.append(param)
    elif name.endswith(".bias"):            # and `norm.weight`, `cls_token`?
        no_decay.append(param)
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}])
```

**Instead**, end with `else:`.

**Not flagged.** Conditions that leave nothing of what the model surely has; a model whose class is not known; groups
that are not told apart by a weight decay of 0; an optimizer that is given something besides; a program that freezes
parameters, or that goes over all of them again, as to compare.

**References.** <https://docs.pytorch.org/docs/stable/optim.html#per-parameter-options>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_SORTS = sign("named_parameters", pattern=r"\bfor\b[^\n]*\bin\b[^\n]*\.named_parameters\(", own=True)
_ELSE_IF = sign("elif", "else:", own=True)
_DECAY = sign("append", pattern=r"\.append\(\w+\)", own=True)

rule = Rule("GG246", "left-out-of-groups", Severity.ERROR, ((_SORTS, _ELSE_IF, _DECAY),))


@rule.in_source
def has_no_group(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.left_out():
        some = ", ".join(f"`{name}`" for name in each.names[:3]) + (", ..." if len(each.names) > 3 else "")
        meet, them = ("meets", "it") if len(each.names) == 1 else ("meet", "them")
        yield rule.finding(
            each.site,
            f"{some} of `{each.model}` {meet} none of these conditions: no group has {them}, and no step moves {them}",
            help="end with `else:`",
        )

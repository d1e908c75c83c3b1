"""A value on its way to the loss is changed through `.data` or `.detach()`: the backward is that of another function.

**What happens.** Autograd records what is done to a tensor. What is done to its `.data`, or to what `.detach()` gives
of it, changes the numbers and is not recorded: the forward goes on with the new values, and the backward with the
derivative of what was there before. A mask that is multiplied in so does not mask the gradient. Where the operation
before keeps its result for the backward, as softmax, tanh, sigmoid and exp do, that takes the changed numbers for its
own result, and its gradient is wrong as well. Nothing raises through `.data`, whose changes are not counted.

```python
weights = scores.softmax(dim=-1)
weights.data.mul_(alive)            # the backward knows of no mask, and takes masked numbers for those of a softmax
return weights @ values
```

**Instead**, compute with the tensor itself:

```python
weights = scores.softmax(dim=-1)
return (weights * alive) @ values
```

**Not flagged.** Parameters, inputs and other leaves, as of an adversarial attack; what runs under `no_grad`, or in
evaluation only; what is not used for a loss afterwards; numbers that are added to the result of an operation which does
not keep it, and scores that are set to -inf before a softmax: the gradient is right there; `h.data.zero_()`, as states
are reset; `x.data = ...`, `copy_`, and what rounds, clamps or takes signs: a straight-through estimator is to have
another gradient. What raises: the result of a softmax that is changed through `.detach()`.

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_BRACKETS = r"(?:\[[^\n=]*\])?"
# A loop over parameters has them by these names; of an attribute nothing is told.
_NAME = r"(?<![\w.])(?!(?:p|param|params|parameter|self)\b)[A-Za-z_]\w*" + _BRACKETS
_WRITES = sign(
    ".data", ".detach()",
    pattern=_NAME + r"\.(?:data|detach\(\))" + _BRACKETS + r"(?:\.(?:mul|div|add|sub|multiply|divide|subtract|"
    r"true_divide|masked_fill|index_fill)_\(|\s*[-+*/]=|\]?\s*=\s*[01]\b)|"
    r"\bout\s*=\s*" + _NAME + r"\.(?:data|detach\(\))",
    own=True,
)  # fmt: skip

rule = Rule("GG240", "written-behind", Severity.ERROR, ((_WRITES,),))


@rule.in_source
def changes_what_is_recorded(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.written_behind():
        way = "`.detach()`" if each.is_watched else "`.data`"
        yield rule.finding(
            each.site,
            f"this changes `{each.name}` through {way}, which autograd does not see: the backward is that of the value "
            "before",
            help=f"compute with `{each.name}` itself, and give the result a name",
            related=(
                each.made.related(f"`{each.name}` is computed here"),
                each.used.related("the changed value is used here"),
            ),
        )

"""A checkpoint runs a block again with other random numbers: the gradients are those of another function.

**What happens.** Activation checkpointing keeps the input of a block only, and runs the block again in the backward.
For that to be the same block, `torch.utils.checkpoint` restores the state of the random numbers, unless it is told not
to. With `preserve_rng_state=False` a dropout draws another mask when it is run again: the loss is that of the first
mask, and the gradients of what comes before it are those of the second. Nothing raises, and the training is much
noisier than the loss.

```python
x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)     # block has nn.Dropout(0.1)
```

**Instead**, leave `preserve_rng_state` as it is. It costs next to nothing beside the block.

**Not flagged.** A block without dropout, or with one of 0, be it in a setting; one that is not known; a program that
keeps the states of the random numbers by itself, or gives `context_fn`.

**References.** <https://docs.pytorch.org/docs/stable/checkpoint.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_NOT_PRESERVED = sign("preserve_rng_state", pattern=r"preserve_rng_state\s*=\s*False", own=True)

rule = Rule("GG245", "redrawn-on-replay", Severity.ERROR, ((_NOT_PRESERVED,),))


@rule.in_source
def draws_other_numbers(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.replayed_draws():
        yield rule.finding(
            each.site,
            "what is checkpointed here draws random numbers, and draws others when it is run again: the gradients are "
            "not those of the loss",
            help="leave `preserve_rng_state` at its default, True",
            related=(each.drawing.related("this draws them"),),
        )

"""A reentrant checkpoint is given what wants no gradient: nothing that it runs is trained.

**What happens.** The reentrant checkpoint runs its function under `no_grad`, and records itself as one node, which
wants a gradient only if one of its tensor arguments does. Where all that comes before is frozen, none does: the result
has no graph, the parameters of the block have no gradient, and the next block is given what wants none again. All of
the blocks keep their first values, while the head that follows is trained. torch only warns: "None of the inputs have
requires_grad=True. Gradients will be None".

```python
model.patch_embed.requires_grad_(False)

def forward(self, x):
    x = self.patch_embed(x)
    for block in self.blocks:
        x = checkpoint(block, x, use_reentrant=True)
    return self.head(x.mean(1))
```

So it is with a model that is frozen as a whole, `model.requires_grad_(False)`, before adapters are put into its blocks,
or the last of these are made trainable again: the embeddings stay frozen, and no adapter gets a gradient.

So it is with the first layers of a model, which are given the batch itself: `x = checkpoint(self.stem, images)`.

The same goes for what is computed under `no_grad`, or detached, and for a checkpoint by another name:
`run = partial(checkpoint, use_reentrant=True)`, a function that hands on what it is given.

**Instead**, use the other implementation, which records what wants a gradient:

```python
        x = checkpoint(block, x, use_reentrant=False)
```

**Not flagged.** `use_reentrant=False`; what is also computed of something that is not frozen, a position or a token; a
tensor that is asked for a gradient before, `x.requires_grad_()`, as `enable_input_require_grads` does; layers that are
made trainable again; modules whose freezing is not seen, and whose input, where they are parts of others.

**References.** <https://docs.pytorch.org/docs/stable/checkpoint.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import FORWARD, sign
from gradguard.static.model import Function

_CHECKPOINTS = sign("checkpoint(", "checkpoint_sequential(", pattern=r"\bcheckpoint(?:_sequential)?\(", own=True)
_IMPORTS = sign("checkpoint", pattern=r"torch\.utils(?:\.| import )checkpoint")

# Another name for it, or a function around it.
_HANDS_ON = sign("checkpoint", pattern=r"(?:\bpartial\(|\breturn\b|=)\s*(?:\w+\.)*checkpoint", across=True)

rule = Rule("GG260", "frozen-input", Severity.ERROR, ((_CHECKPOINTS, _IMPORTS), (FORWARD, _HANDS_ON, _IMPORTS)))


@rule.in_source
def cuts_the_graph(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.frozen_inputs():
        names = ", ".join(f"`self.{name}`" for name in each.layers)
        given = f"comes of {names} alone" if names else "is the batch"
        yield rule.finding(
            each.site,
            f"what is checkpointed here gets no gradient: its input {given}, which wants none",
            help="give it `use_reentrant=False`",
        )

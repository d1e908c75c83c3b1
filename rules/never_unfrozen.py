"""A network is frozen in each step, and nothing makes it trainable again: its optimizer has nothing to do.

**What happens.** `requires_grad = False` stays until somebody says otherwise. A step that freezes one network while it
trains another one must make it trainable again before its own turn comes. Where nothing does, the first iteration may
train it, and no later one: backward computes no gradient for it, `step()` passes by what has none, and nothing raises,
since the graph still has the parameters of the other network. With `zero_grad(set_to_none=False)` the gradients are
zeros, and what moves the weights then is the momentum of the first step, and the weight decay.

```python
for real in loader:
    generator.requires_grad_(False)             # from here on, for good
    d_loss(discriminator, real, generator(noise())).backward()
    d_optimizer.step()
    g_loss(discriminator(generator(noise()))).backward()
    g_optimizer.step()                          # moves nothing
```

**Instead**, say so in each turn, or cut the graph, which needs no switch:

```python
for real in loader:
    d_loss(discriminator, real, generator(noise()).detach()).backward()
    d_optimizer.step()
    ...
```

**Not flagged.** What is frozen once: before the loop, in a constructor, under a condition such as
`if epoch == freeze_epoch`; a network that no optimizer has which steps there (a teacher, a target, the features of a
loss); a program in which anything is made trainable again, or as a variable says, but for networks that surely are not
this one: of two critics that are frozen for the generator's turn, one is forgotten afterwards. A network, or an
optimizer, that is made anew in each round; some layers only, such as batch norm; tensors that are no parameters. Where
the optimizer has other parameters besides, it may be meant: that is reported with low confidence, unless those are
frozen beside it, and made trainable again.

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad>,
<https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.requires_grad_>,
<https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_FREEZES = sign(
    "requires_grad", "reeze", "toggle",
    pattern=r"requires_grad(?:_\(|\s*=(?!=))|(?:requires_grad|[Ff]reeze|toggle)\w*\(",
    own=True,
    reaches=True,
)  # fmt: skip
_STEPS = sign("step", "optim", pattern=r"\bstep\b|optim")

rule = Rule("GG224", "never-unfrozen", Severity.ERROR, ((_FREEZES, _STEPS),))


@rule.in_source
def stays_frozen(function: Function) -> Iterator[Finding]:
    for frozen in function.mistakes.optimizers.never_unfrozen():
        yield rule.finding(
            frozen.site,
            f"nothing makes `{frozen.module}` trainable again: from the next iteration on, "
            f"`{frozen.optimizer}` does not train it",
            help=f"call `{frozen.module}.requires_grad_(True)` before its own turn, or `detach` what it gives here",
            confidence=Confidence.HIGH if frozen.is_whole else Confidence.LOW,
            related=(
                *((left.related("this leaves it out"),) if (left := frozen.left_out_by) is not None else ()),
                frozen.step.related(f"the optimizer of `{frozen.module}` steps here"),
            ),
        )

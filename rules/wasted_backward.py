"""A backward goes on through a network whose gradients are thrown away.

**What happens.** The loss of a GAN's discriminator is for the discriminator alone. Where the sample has its graph, the
backward goes on through the generator and fills its gradients, too. They are reset before the generator's own backward,
so that nothing is trained wrongly (where they are not, that is GG214); but each step of the discriminator pays for a
backward through the generator, and keeps the activations of the generator until then. For a DCGAN on a CPU that is 1.4
times the time of the step, for the same weights to the bit.

```python
fake = generator(z)
d_loss = discriminator(fake).mean() - discriminator(real).mean()    # fake.detach() is meant
d_optimizer.zero_grad()
d_loss.backward()                       # goes through the generator as well
d_optimizer.step()

g_optimizer.zero_grad()                 # throws away what that left
(-discriminator(generator(z)).mean()).backward()
g_optimizer.step()
```

So it is wherever one network is trained on what another one makes, and the other one has an optimizer and a loss of its
own: a probe on an encoder, a classifier on the features of a network that another loss trains.

**Instead**, detach what is given to the network that is trained:

```python
d_loss = discriminator(fake.detach()).mean() - discriminator(real).mean()
```

Where nothing else needs its graph, run the other network under `torch.no_grad()`: then it keeps no activations at all.

**Not flagged.** The other way round: a generator's loss goes through the discriminator, and has to (what saves the
gradients of the discriminator there is `requires_grad_(False)`). One sample for both losses, whose graph is kept for
the second (`backward(retain_graph=True)`). Gradients that a step uses, or that something looks at before they are reset
(`p.grad`, a clipping, a hook); a network that is frozen for the step, by a helper as well; an input of a penalty, of
which `autograd.grad` is asked; networks that may share parameters; a network in the optimizer that steps next, in none,
or in one of which it is not known what it has.

**References.** <https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html>, whose discriminator is given
`fake.detach()`; <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html>.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import ACTS, BACKWARD, sign
from gradguard.static.fixes.edits import one_line, with_call
from gradguard.static.mistakes.backward import WastedBackward
from gradguard.static.model import Function
from gradguard.static.reading.certain import surely_tensor

# One that both steps and resets stand for: that of the second optimizer may be in another function.
_RESETS = sign("zero_grad", reaches=True)

rule = Rule("GG252", "wasted-backward", Severity.WARNING, ((BACKWARD, _RESETS, ACTS),))


@rule.in_source
def goes_on(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.wasted_backwards():
        given = f"`{one_line(each.given.code)}`" if each.given is not None else f"what `{each.module}` makes"
        yield rule.finding(
            each.site,
            f"`{each.trained}` is given what `{each.module}` makes with its graph: the backward goes on through "
            f"`{each.module}`, and the gradients there are thrown away",
            help=f"detach {given} here: no step uses gradients of `{each.module}` from this loss",
            fix=_fix(each),
            related=(
                each.made.related("this has its graph, and keeps its activations"),
                each.backward.related("this computes the gradients"),
                each.reset.related("this throws them away before the next step"),
            ),
        )


def _fix(each: WastedBackward) -> Fix | None:
    """The gradients that are used stay what they are, to the bit; only a tensor can be detached so."""
    if each.given is None:
        return None
    return replace(with_call(each.given, "detach()"), safe=surely_tensor(each.given))

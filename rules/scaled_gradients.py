"""An optimizer steps with scaled gradients.

**What happens.** A `GradScaler` multiplies the loss, by 65,536 at the start, so that small gradients are not lost in
float16. The gradients are as much too large until `scaler.step(optimizer)`, or `scaler.unscale_(optimizer)` before it,
divides them. `optimizer.step()` does not know of that. Nothing raises: plain SGD moves the weights 65,536 times too
far, Adam, which divides by the size of its gradients, nearly as it should, so that only weight decay, `eps` and
clipping are off. Gradients that overflowed are not skipped: the first infinity makes weights infinite (SGD) or
NaN (Adam).

```python
scaler.scale(loss).backward()
optimizer.step()                # with gradients that are 65,536 times too large
scaler.update()
```

The other way round it is as wrong. `scaler.step(optimizer)` divides whatever gradients there are: those of a loss that
was not multiplied (a second phase, the generator's half of a GAN) become 65,536 times too small.

```python
scaler.scale(d_loss).backward()
scaler.step(d_optimizer)
g_loss.backward()               # not multiplied
scaler.step(g_optimizer)        # and divided
```

**Instead**, scale each loss, and let the scaler take each step; it leaves it out where gradients overflowed:

```python
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

**Not flagged.** A program in which a scaler takes a step anywhere, or in which something unscales: `unscale_`,
arithmetic with `get_scale()`, hooks that divide. A backward whose gradients are looked at, and reset before the step. A
scaler that is switched off (`enabled=False`), one of a class of the program's own, one that an optimizer, or something
else that is made here, is given. A step on another way than the backward; a call in between that cannot be read.

**References.** <https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling>,
<https://docs.pytorch.org/docs/stable/notes/amp_examples.html#typical-mixed-precision-training>,
nerfstudio-project/nerfacc#307 (on purpose, there).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import ACTS, sign
from gradguard.static import tree as t
from gradguard.static.fixes.edits import given_to, instead, one_line
from gradguard.static.model import Backward, Function, OpaqueCall, Site, Step
from gradguard.static.reading.rounds import round_of

_SCALES = sign(".scale(")

rule = Rule("GG211", "scaled-gradients", Severity.ERROR, ((_SCALES, ACTS),))


@rule.in_source
def steps_with_what_is_not_of_its_scale(function: Function) -> Iterator[Finding]:
    yield from _still_scaled(function)
    yield from _never_scaled(function)


def _never_scaled(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.unscaled():
        loss = one_line(each.loss.code)
        edit = given_to(each.loss, f"{each.scaler}.scale")
        yield rule.finding(
            each.site,
            f"`{loss}` was not multiplied by the scale, and `{each.scaler}` divides its gradients by that, at first by "
            "65,536: next to nothing of it arrives",
            help=f"write `{each.scaler}.scale({loss}).backward()`",
            fix=Fix(f"scale `{loss}`", (edit,), safe=False),
            related=(each.step.related("this step divides the gradients"),),
        )


def _still_scaled(function: Function) -> Iterator[Finding]:
    for backward in function.backwards:
        around = round_of(function, backward) if backward.is_scaled else None
        if around is None:
            continue
        known = takewhile(lambda event: not isinstance(event, OpaqueCall), around.after(backward))
        step = next((event for event in known if isinstance(event, Step)), None)
        if step is None or step.by_scaler or step.zeroes or step.site.node is backward.site.node:
            continue
        if function.unscales() or function.steps_by_scaler():
            continue
        yield rule.finding(
            step.site,
            "the gradients are still scaled here, at first by 65,536: the scaler divides them only where it takes the "
            "step itself",
            help=f"write `scaler.step({step.target or 'optimizer'})`",
            fix=_fix(backward, step),
            related=(backward.source.site.related("this computes the gradients of the scaled loss"),),
        )


def _fix(backward: Backward, step: Step) -> Fix | None:
    """Let the scaler step, and update its scale where nothing here does."""
    site, node = step.site, step.site.node
    scaled = backward.site.node.func if isinstance(backward.site.node, t.Call) else None
    call = scaled.value if isinstance(scaled, t.Attribute) else None
    func = call.func if isinstance(call, t.Call) else None
    if not isinstance(func, t.Attribute) or func.name != "scale" or not isinstance(node, t.Call) or node.args:
        return None
    if step.inner is not None or backward.inner is not None or not isinstance(node.func, t.Attribute):
        return None
    scaler = Site(backward.site.chunk, func.value).text
    taken = f"{scaler}.step({Site(site.chunk, node.func.value).text})"
    update = "" if f"{scaler}.update(" in site.chunk.program else f"\n{site.indent}{scaler}.update()"
    return instead(site, taken + update, f"write `{taken}`")

"""`zero_grad()` between `backward()` and `step()`: the gradients are wiped before they are used.

**What happens.** backward computes the gradients, `zero_grad()` throws them away, and `step()` finds none: the
optimizer skips every parameter whose gradient is None. With `set_to_none=False` it finds zeros, and moves the
parameters by momentum and weight decay alone. Either way the model does not learn, and nothing raises.

```python
loss.backward()
optimizer.zero_grad()
optimizer.step()
```

**Instead**, reset before the backward, or after the step:

```python
optimizer.zero_grad()
loss.backward()
optimizer.step()
```

The same loss without a trace: gradients are to be accumulated over some batches, but the reset is in each iteration
and the step in every fourth; or both are in a function that an engine calls for each batch.

```python
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()                 # belongs to the step
    criterion(model(x), y).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
```

And the same by the order of an iteration, or by an indentation that is one too few: the step comes before the backward,
whose gradients the next iteration throws away; or it stands behind the loop, and sees the last batch alone.

```python
for x, y in loader:
    optimizer.zero_grad()
    optimizer.step()                      # finds nothing
    criterion(model(x), y).backward()

for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
optimizer.step()                          # of all batches the last one counts
```

**Not flagged.** A reset that ends the iteration (a guard against NaN: `optimizer.zero_grad(); continue`), the reset
of another optimizer, a reset in a branch that the step is not in, a second backward after the reset, gradients that are
set by hand after it (`p.grad.copy_(g)`: A-GEM, PCGrad), or by a function that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Fix, Severity
from gradguard.signs import TRAINS
from gradguard.static.backward.lost_gradients import (
    lost_between_backwards,
    lost_but_of_last_iteration,
    lost_in_next_iteration,
    puts_back,
)
from gradguard.static.fixes.line_edits import moved
from gradguard.static.model import Function, Step, ZeroGrad

rule = Rule("GG202", "zero-grad-misplaced", Severity.ERROR, TRAINS)


@rule.in_source
def wipes(function: Function) -> Iterator[Finding]:
    yield from _before_the_step(function)
    yield from _while_accumulating(function)
    for step in function.steps:
        if step.lost is None and not step.conditional and step.inner is None:
            yield from _of_the_iteration_before(function, step)
            yield from _in_the_loop_before(function, step)
            yield from _of_another_module(function, step)


def _before_the_step(function: Function) -> Iterator[Finding]:
    for step in function.steps:
        told_there = isinstance(step.inner, Step) and step.inner.lost is not None
        if step.lost is None or told_there or not _concerns(function, step.lost):
            continue
        in_one_call = step.inner is not None and step.lost.site.node is step.site.node
        reset, site = (step.lost.source.site, step.source.site) if in_one_call else (step.lost.site, step.site)
        yield rule.finding(
            reset,
            "the gradients are reset after `backward()` and before `step()`: the optimizer never sees them",
            help="move the reset before `backward()`",
            fix=_fix(function, step, step.lost),
            related=(site.related("this step finds no gradients, or zeros"),),
        )


def _fix(function: Function, step: Step, reset: ZeroGrad) -> Fix | None:
    """Move the reset before the first backward of its iteration, if all of that is written here."""
    backwards = [b for b in function.backwards if b.loop is reset.loop and b.site.line < reset.site.line]
    if not backwards or any(event.inner is not None for event in (step, reset, backwards[0])):
        return None
    return moved(reset.site, backwards[0].site)


def _concerns(function: Function, reset: ZeroGrad) -> bool:
    """Whether a module's reset is that of the model that was run: one of its parts may be reset on purpose."""
    if not reset.of_module or reset.target is None:
        return True
    whole, _, _ = reset.target.removeprefix("self.").rpartition(".")
    if whole and any(not z.of_module and z.loop is reset.loop for z in function.zero_grads):
        return False  # the optimizer's own reset is elsewhere: this one is to spare a part
    return reset.target in {forward.module for forward in function.forwards}


def _while_accumulating(function: Function) -> Iterator[Finding]:
    """Of each loop that trains, and of a function that is called for each batch."""
    by_hand = puts_back(function)
    for loop in (None, *function.loops):
        steps = [s for s in function.steps if s.loop is loop]
        backwards = [b for b in function.backwards if b.loop is loop or (loop is not None and b in loop.backwards)]
        if any(s.is_periodic for s in steps) and not all(s.is_periodic for s in steps):
            continue  # a generator and a critic: which backward is whose cannot be told
        if all(b.is_periodic for b in backwards):
            continue  # the loss is summed, and its backward comes with the step
        if not any(b.loop is loop and not b.is_in_loop_of_callee for b in backwards):
            continue
        resets = [z for z in function.zero_grads if z.loop is loop and z.target is not None]
        for reset in resets:
            own = [s for s in steps if s.target == reset.target or _is_of_model(function, reset, steps)]
            if not reset.conditional and own and not by_hand and all(s.is_periodic and not s.zeroes for s in own):
                yield rule.finding(
                    reset.source.site,
                    f"`{reset.target}` steps every few iterations, but its gradients are reset in each: what was to be "
                    "accumulated is lost",
                    help="reset them where the step is, after it",
                    # A number from a configuration is often one, and then nothing is accumulated.
                    confidence=Confidence.HIGH if all(s.period and s.period > 1 for s in own) else Confidence.LOW,
                )


def _is_of_model(function: Function, reset: ZeroGrad, steps: list[Step]) -> bool:
    """Whether the model itself is reset that the only optimizer steps: ``model.zero_grad()``."""
    return reset.of_module and _concerns(function, reset) and len({step.target for step in steps}) == 1


def _of_another_module(function: Function, step: Step) -> Iterator[Finding]:
    """``loss_a.backward(); zero_grad(); loss_b.backward(); step()``, where one optimizer has both modules."""
    lost = lost_between_backwards(function, step)
    if lost is not None:
        yield rule.finding(
            lost.reset.site,
            f"this throws away the gradients of `{lost.module}`, which the step after the next backward was to use: it "
            "is never trained",
            help="reset once, before the first of the two backwards",
            related=(
                lost.backward.site.related("this computes them"),
                step.site.related("this step has those of the second loss only"),
            ),
        )


def _of_the_iteration_before(function: Function, step: Step) -> Iterator[Finding]:
    """``zero_grad(); step(); backward()``, in each iteration."""
    lost = lost_in_next_iteration(function, step)
    if lost is not None:
        yield rule.finding(
            lost.reset.site,
            "the gradients of the iteration before are thrown away here: the optimizer never sees them",
            help="step after `backward()`, and reset after the step or before `backward()`",
            related=(
                step.site.related("this step finds no gradients, or zeros"),
                lost.backward.site.related("this computes them"),
            ),
        )


def _in_the_loop_before(function: Function, step: Step) -> Iterator[Finding]:
    """A loop that resets the gradients in each iteration, and a step behind it."""
    lost = lost_but_of_last_iteration(function, step)
    if lost is not None:
        called = () if lost.reset.inner is None else (lost.reset.site.related("the loop calls it here"),)
        yield rule.finding(
            lost.reset.source.site,
            f"the gradients are reset in each iteration, and `{step.target}` steps after the loop: the last iteration "
            "alone counts",
            help="step in the loop, after `backward()`; or reset before the loop, to use the sum of all",
            related=(*called, step.site.related("this step sees the gradients of the last iteration")),
        )

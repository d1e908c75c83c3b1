"""Gradients are clipped where that changes nothing, or where they are still scaled.

**What happens.** Clipping changes the gradients that are there when it is called, once. After `optimizer.step()` it is
too late for that step, and the reset throws away what it did; before `backward()`, behind the reset, there are no
gradients yet. Nothing raises, and the training goes on as if nobody had asked for it: with exploding gradients.

```python
loss.backward()
optimizer.step()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   # too late
optimizer.zero_grad()
```

With a `GradScaler` the gradients are those of the scaled loss, 65,536 times as large at the start, until
`scaler.unscale_(optimizer)` or `scaler.step(optimizer)` divides them. A norm that is clipped to 1 before is one of
0.00002 at the step, and since every batch is above the threshold then, all of them are clipped.

```python
scaler.scale(loss).backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   # compared with scaled gradients
scaler.step(optimizer)
```

So it is where the trainer calls hooks between these two, `for hook in self.hooks: hook.after_backward(self)`, of which
one clips.

What is clipped are the gradients of what the call is given. A loss has none of its own:
`clip_grad_norm_(loss, 1.0)` finds nothing to clip, and returns a norm of zero.

**Instead**, clip those of the parameters between `backward()` and `step()`, where they are what they should be:

```python
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
```

**Not flagged.** Two optimizers in one loop, a step with a closure or one that resets by itself, a reset under another
condition than the clipping, a call in between that cannot be read; `unscale_`, or arithmetic with `get_scale()`,
anywhere in the program (a scale that is only logged does not count); hooks that ask for the scale, or that a trainer
without a scaler calls as well; `accelerator.clip_grad_norm_`, which unscales by itself.

**Waits at low confidence.** A clipping whose result is used: it may be there to measure the norm.

**References.** <https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping>.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Fix, Severity
from gradguard.signs import TRAINS
from gradguard.static import tree as t
from gradguard.static.backward.clipped_by_hooks import only_measures
from gradguard.static.fixes.line_edits import moved
from gradguard.static.knowledge import CLIPS
from gradguard.static.model import Backward, Call, Event, Function, Step
from gradguard.static.reading.rounds import Round, round_of
from gradguard.static.values import Source

rule = Rule("GG208", "clip-misplaced", Severity.WARNING, TRAINS)


_SCALED = (
    "the gradients are still scaled here: the threshold is compared with a norm that is larger by the scaler's scale, "
    "at first 65,536 unless `init_scale` says otherwise"
)


@rule.in_source
def clips_in_vain(function: Function) -> Iterator[Finding]:
    yield from _by_hooks(function)
    told = {each.site.node for each in function.mistakes.backward.clipped_by_hooks()}
    for clip in function.calls:
        is_clip = clip.name.rpartition(".")[2] in CLIPS
        if is_clip and clip.inner is None and _is_of_a_loss(function, clip):
            yield rule.finding(
                clip.site,
                "this clips the gradients of the loss, which has none of its own: those of the parameters stay as they "
                "are",
                help="pass `model.parameters()`",
            )
            continue
        around = round_of(function, clip) if is_clip else None
        if around is None or _does_nothing(clip):
            continue
        before, after = next(around.before(clip), None), next(around.after(clip), None)
        if before is None or after is None or before.site.node is clip.site.node is after.site.node:
            continue  # what one call does alone is said where it is written
        yield from _of_no_use(around, clip, before, after)
        if clip.source.site.node not in told:
            yield from _while_scaled(function, around, clip)


def _by_hooks(function: Function) -> Iterator[Finding]:
    """``scaler.scale(loss).backward()``, hooks of which one clips, ``scaler.step(optimizer)``, and no ``unscale_``."""
    for each in function.mistakes.backward.clipped_by_hooks():
        yield rule.finding(
            each.site,
            _SCALED,
            help="call `scaler.unscale_(optimizer)` before the hooks",
            related=(
                each.backward.related("this computes the gradients of the scaled loss"),
                each.called.related("the hooks are called here"),
            ),
        )


def _is_of_a_loss(function: Function, clip: Call) -> bool:
    """Whether it is given what a backward of the function begins at."""
    call = clip.site.node
    given = t.path_of(call.args[0].value) if isinstance(call, t.Call) and call.args and not call.args[0].star else None
    computed = (
        b for b in function.backwards if b.inner is None and any(r.source is Source.GRAPH for r in b.value.reach)
    )
    begun = (b.site.node for b in computed)
    receivers = (node.func.value for node in begun if isinstance(node, t.Call) and isinstance(node.func, t.Attribute))
    return given is not None and any(t.path_of(each) == given for each in receivers)


def _of_no_use(around: Round, clip: Call, before: Event, after: Event) -> Iterator[Finding]:
    confidence = Confidence.LOW if clip.written.is_used else Confidence.HIGH
    if isinstance(before, Step) and around.resets(after, clip):
        yield rule.finding(
            clip.site,
            f"the gradients are clipped after `{around.optimizer}.step()`, and reset before the next one: it changes "
            "nothing",
            help="clip them between `backward()` and `step()`",
            fix=_fix(clip, before),
            confidence=confidence,
            related=(before.site.related("this step has used them"), after.site.related("this throws them away")),
        )
    elif around.resets(before, clip) and isinstance(after, Backward):
        yield rule.finding(
            clip.site,
            f"the gradients of `{around.optimizer}` are clipped after their reset and before `backward()`: there are "
            "none yet",
            help="clip them between `backward()` and `step()`",
            fix=_fix(clip, next((event for event in around.after(clip) if isinstance(event, Step)), None)),
            confidence=confidence,
            related=(before.site.related("this resets them"), after.site.related("this computes them")),
        )


def _fix(clip: Call, step: Event | None) -> Fix | None:
    """Move the clipping before the step, if both are written here."""
    return moved(clip.site, step.site) if step is not None and step.inner is clip.inner is None else None


def _while_scaled(function: Function, around: Round, clip: Call) -> Iterator[Finding]:
    """``scaler.scale(loss).backward()``, a clip, ``scaler.step(optimizer)``, and no ``unscale_``."""
    backwards = takewhile(lambda event: isinstance(event, Backward), around.before(clip))
    steps = takewhile(lambda event: isinstance(event, Step), around.after(clip))
    backward = next((b for b in backwards if isinstance(b, Backward) and b.is_scaled), None)
    step = next((s for s in steps if isinstance(s, Step) and s.by_scaler), None)
    if "." not in clip.name or backward is None or step is None:
        return
    late = _unscaled_afterwards(function, clip)
    if late is None and function.unscales():
        return
    where = [late.source.site.related("this unscales them, too late")] if late is not None else []
    if clip.inner is not None:
        where.append(clip.site.related("it is called here"))
    yield rule.finding(
        clip.source.site,
        _SCALED,
        help=f"call `scaler.unscale_({step.target or 'optimizer'})` before it",
        related=(backward.site.related("this computes the gradients of the scaled loss"), *where),
    )


def _unscaled_afterwards(function: Function, clip: Call) -> Call | None:
    """The ``unscale_`` that comes after a clip, where none comes before: a second one would raise."""
    calls = [call for call in function.calls if call is clip or call.name == "unscale_"]
    place = calls.index(clip)
    after = calls[place + 1 :]
    return after[0] if after and not any(call.name == "unscale_" for call in calls[:place]) else None


def _does_nothing(clip: Call) -> bool:
    """Whether it only measures the norm: ``clip_grad_norm_(parameters, float("inf"))``."""
    call = clip.source.site.node
    return isinstance(call, t.Call) and only_measures(call)

"""The gradients are never reset: each step is taken with the sum of all gradients so far.

**What happens.** `backward()` *adds* to `.grad`. A loop that calls `backward()` and `optimizer.step()` but never
`zero_grad()` steps along the sum of the gradients of all earlier batches. It is not a memory leak (one gradient per
parameter, however many steps), and torch says nothing: the loss curve is subtly, or wildly, wrong.

```python
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
```

A `zero_grad()` before the loop, or once per epoch, is no help: it has to happen once for every step. `LBFGS` runs its
closure many times in each step, so the reset has to be in the closure. So has a step of two passes, as that of SAM,
which moves the weights along the gradients of the first one: between the two (`first_step(zero_grad=True)`).

**Instead**, call `optimizer.zero_grad()` once per step, before `backward()`.

Of two optimizers each needs its own reset, unless they have the same parameters: what they were made of, here or by the
caller that hands them over. A `zero_grad` of the program's own may forget one of them. A reset of another module
(`self.critic_target.zero_grad()` before the critic's step) is none, where it is seen that the two share no parameters:
a deep copy, or made by its own class. An `opt.zero_grad()` that stands
after `for opt in optimizers: opt.step()`, not in it, is that of the last one; one of `optimizers["dense"]` is that of
one, where `for opt in optimizers.values()` steps all that are in it.

Without an optimizer, too: a loop that moves its parameters itself (`w -= rate * w.grad` after each backward) has to
reset the gradient of each of them itself (`w.grad.zero_()`). And who adds up squares of gradients, as for a Fisher
matrix (`fisher[n] += p.grad ** 2` after each backward), needs a reset before each backward, or squares what all batches
so far have added up to.

**In a run** nothing has to be recognised: `gradguard run` looks at the gradients before each backward, between a few
steps of each optimizer, and says which optimizer steps with gradients that nothing has cleared. Where there is no
optimizer, it says which parameters change all the same, with gradients that only add up.

**Not flagged.** `model.zero_grad()`, `p.grad = None`, `p.grad.zero_()`; a reset in a helper, in a closure, in the
caller, or in a loop beside this one over the same models; gradient accumulation, where the reset happens with the step;
engines that reset by themselves (DeepSpeed); loops without an optimizer; a loop over parts of which the configuration
makes one (`for i in range(args.parts)`, with a default of 1), where the reset stands before it.

**Waits at low confidence.** A step for each sample of a batch, with a reset for each batch: there may be one in it.

**References.** <https://pytorch.org/tutorials/recipes/recipes/zeroing_out_gradients.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Fix, Related, Severity
from gradguard.signs import TRAINS
from gradguard.static import tree as t
from gradguard.static.backward.steps_by_hand import site_of, steps_never_reset
from gradguard.static.fixes.line_edits import last_in_loop, statement_after, statement_before
from gradguard.static.model import Backward, Function, Loop, Step, ZeroGrad
from gradguard.static.optimizers.optimized import overlap
from gradguard.static.program.names import in_method
from gradguard.static.reading.learners import goes_over_learners, loop_it_follows, resets_beside

rule = Rule("GG201", "missing-zero-grad", Severity.ERROR, TRAINS)


@rule.in_source
def never_resets(function: Function) -> Iterator[Finding]:
    found = list(_in_no_iteration(function))
    yield from found
    yield from _in_no_evaluation(function, {each.span.line for each in found})
    yield from _between_two_passes(function)
    yield from _but_the_last(function)
    yield from _but_some(function)
    yield from _before_they_are_squared(function)
    yield from _where_no_optimizer_steps(function)


def _in_no_iteration(function: Function) -> Iterator[Finding]:
    for loop in function.loops:
        steps = [s for s in loop.steps if s.loop is loop or _is_one_of_each(s, loop)]
        if loop.opaque_calls or any(s.zeroes or s.target in loop.assigned or s.is_local_of_callee for s in steps):
            continue  # an engine resets by itself; a new optimizer in each iteration is for a new model
        step = next((s for s in steps if not _is_reset(s, loop) and not resets_beside(function, loop, s)), None)
        backward = loop.backward_before(step) if step is not None else None
        if step is None or backward is None:
            continue
        outer = _reset_around(function, loop, step)
        if outer is not None and outer.loop is not None and loop.is_once_by_default:
            continue  # for part in range(args.parts), of which there is one
        where = _in_words(outer, loop) if outer is not None else ""
        target = _optimizer(step)
        alone = backward.inner is not None and backward.site.node is step.site.node
        yield rule.finding(
            backward.source.site if alone else backward.site,
            f"backward adds to the gradients, and nothing in this loop resets them: `{target}.step()` uses the sum of "
            f"the gradients of all iterations{where}",
            help=f"call `{target}.zero_grad()` "
            + ("before it, in every iteration" if _is_each(step, loop) else f"after each `{target}.step()`"),
            fix=_fix(backward, step, loop, alone=alone),
            confidence=Confidence.LOW if outer is not None and loop.over_samples else Confidence.HIGH,
            related=(
                *_where_it_steps(step, loop),
                *((outer.site.related("this is the reset"),) if outer is not None else ()),
            ),
        )


def _in_no_evaluation(function: Function, told: set[int]) -> Iterator[Finding]:
    """``optimizer.step(closure)`` of an L-BFGS, which runs the closure many times in each step."""
    for each in function.mistakes.backward.evaluated_again():
        if each.backward.line not in told:
            yield rule.finding(
                each.backward,
                f"backward adds to the gradients, and this closure does not reset them: `{each.optimizer}.step()` runs "
                "it several times, each time with the sum of all so far",
                help=f"call `{each.optimizer}.zero_grad()` in the closure, before the backward",
                related=(each.step.related("this is its step"),),
            )


def _between_two_passes(function: Function) -> Iterator[Finding]:
    """The second pass of SAM, which adds to the gradients that only said where to go for it."""
    for each in function.mistakes.backward.perturbed_between():
        notes = [each.backward.related("the closure resets nothing before this")] if each.backward is not None else []
        what = "backward" if each.backward is None else "run of the closure"
        yield rule.finding(
            each.site,
            f"this {what} adds to the gradients along which the weights were moved away: the step uses the sum of both",
            help="reset the gradients between the two passes, where the weights are moved",
            related=(each.moved.related("the weights are moved here"), *notes),
        )


def _is_each(step: Step, loop: Loop) -> bool:
    """Whether every iteration has its step: else gradients are accumulated, on purpose, until it comes."""
    return step.loop is loop and not step.is_periodic


def _fix(backward: Backward, step: Step, loop: Loop, *, alone: bool) -> Fix | None:
    """Reset right before the backward, by the optimizer's own name; in the function that does both, if one does.

    Where several backwards come before a step, after that. None where only the step of another optimizer is for sure.
    """
    each = _is_each(step, loop)
    if alone and isinstance(backward.source, Backward) and isinstance(step.source, Step):
        backward, step = backward.source, step.source
    target = in_method(_optimizer(step))
    reset = f"{target}.zero_grad()"
    is_named = step.target is not None and target == in_method(step.target)
    is_there_for_sure = not step.conditional or backward.conditional or not loop.zero_grads
    if not is_named or not is_there_for_sure:
        return None
    return statement_before(backward, reset) if each else statement_after(step, reset)


def _but_the_last(function: Function) -> Iterator[Finding]:
    """``for opt in optimizers: opt.step()``, and ``opt.zero_grad()`` after the loop: of the last one only."""
    for reset in function.zero_grads:
        loop = loop_it_follows(function, reset)
        if loop is not None:
            yield rule.finding(
                reset.site,
                "after the loop, this is the last of its optimizers: nothing resets the gradients of the others",
                help="move it into the loop",
                related=(loop.site.related("this loop steps each of them"),),
            )


def _but_some(function: Function) -> Iterator[Finding]:
    """``for opt in optims.values(): opt.step()``, and only ``optims["dense"].zero_grad()``."""
    for each in function.mistakes.backward.partly_reset():
        others = " and ".join(f"`{path}`" for path in each.left)
        yield rule.finding(
            each.site,
            f"the loop steps {others} as well, and nothing resets the gradients of that: each step uses the sum of all "
            "iterations",
            help="reset each of them: call `zero_grad()` in a loop over all that are stepped",
            related=(each.stepped.related("this loop steps each of them"),),
        )


def _before_they_are_squared(function: Function) -> Iterator[Finding]:
    """``fisher += p.grad ** 2`` after each backward: the square of what all batches so far have added up to."""
    for added in function.gradient_sums:
        around = added.loop.around() if added.loop is not None else ()
        loop = next((loop for loop in around if loop.backwards), None)
        if loop is None or loop not in added.begun_before or loop.zero_grads or loop.steps or loop.opaque_calls:
            continue
        if any(b.loop is loop and not b.conditional and b.site.line < added.site.line for b in loop.backwards):
            yield rule.finding(
                added.site,
                f"backward adds to the gradients, and nothing in this loop resets them: what `{added.into}` gets is a "
                "function of the sum over all batches so far, not of each batch",
                help="reset the gradients before each backward: `model.zero_grad()`",
            )


def _where_no_optimizer_steps(function: Function) -> Iterator[Finding]:
    """``w -= rate * w.grad``: the program moves its parameters itself, and has to reset them itself."""
    for loop in function.loops:
        backward = next((b for b in loop.backwards if b.loop is loop and b.inner is None), None)
        if backward is None or loop.steps or loop.opaque_calls:
            continue
        steps = steps_never_reset(loop, backward)
        if steps:
            names = dict.fromkeys(f"`{s.parameter}`" for s in steps)
            resets = list(dict.fromkeys(s.reset for s in steps))
            yield rule.finding(
                site_of(loop, steps[0]),
                f"backward adds to the gradients, and nothing in this loop resets "
                f"{'that' if len(names) == 1 else 'those'} of {' and '.join(names)}: each "
                "step is taken with the sum of the gradients of all iterations",
                help=f"call {' and '.join(f'`{reset}`' for reset in resets)} in every iteration, after the step",
                fix=last_in_loop(loop, resets[0]) if len(resets) == 1 else None,
                related=(backward.site.related("this backward adds to it"),),
            )


def _optimizer(step: Step) -> str:
    """The optimizer as the step names it; of one of several, as it is written there."""
    if step.target is not None and "[*]" not in step.target:
        return step.target
    call = step.source.site.node
    owner = call.func.value if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) else None
    is_named = isinstance(owner, t.Name) and isinstance(call, t.Call) and not call.args
    return owner.id if is_named and isinstance(owner, t.Name) else step.target or "optimizer"


def _where_it_steps(step: Step, loop: Loop) -> tuple[Related, ...]:
    """The step, where the loop runs it by a call, that does not name the optimizer, or resets another one."""
    site = step.source.site
    return (site.related("this is its step"),) if step.inner is not None or loop.zero_grads else ()


def _is_reset(step: Step, loop: Loop) -> bool:
    """Whether a reset in the loop may concern this step's optimizer: by its name, or by parameters that they share."""
    for reset in loop.zero_grads:
        if reset.target is None or step.target is None or reset.target == step.target:
            return True
        from_elsewhere = reset.of_module or reset.inner is not None or step.inner is not None
        if overlap(reset.of, step.of) or (from_elsewhere and not _is_of_same_scope(reset, step)):
            return True
    return False


def _is_of_same_scope(reset: ZeroGrad, step: Step) -> bool:
    """Whether the modules are known by paths that can be compared: attributes of one object, or variables."""
    paths = [path.split(".") for path in (*(reset.of or ()), *(step.of or ()))]
    of_object = {path[0] == "self" for path in paths}
    return len(of_object) == 1 and all(path != ["self"] for path in paths)


def _is_one_of_each(step: Step, loop: Loop) -> bool:
    """Whether each iteration of a loop steps several optimizers: ``for opt in opts: opt.step()``."""
    inner = step.loop
    return inner is not None and inner.parent is loop and not inner.backwards and goes_over_learners(inner)


def _reset_around(function: Function, loop: Loop, step: Step) -> ZeroGrad | None:
    """A reset in the function, but outside of the loop."""
    outside = (z for z in function.zero_grads if z.loop is None or not z.loop.within(loop))
    return next((z for z in outside if z.target == step.target or _may_concern(z, step)), None)


def _may_concern(reset: ZeroGrad, step: Step) -> bool:
    """Whether what it resets, a module or all there is, may have the parameters of a step's optimizer."""
    if not reset.of_module:
        return reset.target is None
    named = frozenset((reset.target,)) if reset.target is not None else None
    return overlap(reset.of or named, step.of)


def _in_words(outside: ZeroGrad, loop: Loop) -> str:
    comes = "runs once, before the loop" if outside.site.line < loop.site.line else "comes after the loop"
    return f"; the reset in line {outside.site.line} {comes}"

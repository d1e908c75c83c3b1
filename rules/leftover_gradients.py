"""An optimizer steps with what the loss of another one has left in its parameters.

**What happens.** A loss may go through two networks and be for one of them: a generator's goes through the
discriminator, an actor's through the critic. backward fills the gradients of both, the optimizer of one takes its step,
and what is in the other one stays there. Where that is not reset before its own backward, its next step takes the sum:
the discriminator is moved towards what the generator wants. Nothing raises, and the losses look like those of any GAN
that does not converge.

```python
d_loss.backward()
d_optimizer.step()
d_optimizer.zero_grad()             # too early: the generator's loss comes after it
g_loss = -D(G(z)).mean()
g_loss.backward()                   # fills the gradients of D, too
g_optimizer.step()
g_optimizer.zero_grad()
```

So it is the other way round: a discriminator that is given the sample with its graph leaves gradients in the generator,
which the generator's step takes along where both are reset at the top of the iteration only.

```python
g_optimizer.zero_grad(), d_optimizer.zero_grad()
d_loss = D(fake).mean() - D(real).mean()    # fake.detach() is meant
d_loss.backward()                           # fills the gradients of G, too
d_optimizer.step()
(-D(G(z)).mean()).backward()
g_optimizer.step()
```

An evaluation leaves gradients, too, where the code for both runs its backward in any case, and asks for an optimizer
only for the step:

```python
loss.backward()
if self.opt is not None:            # None for the validation set
    self.opt.step()
    self.opt.zero_grad()            # the gradients of the validation are still there in the next epoch
```

So does a batch that is passed over because of its gradients, where the reset comes at the end: what is not finite stays
so in the sum, and all later batches are passed over, too.

```python
loss.backward()
norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
if not torch.isfinite(norm):
    continue                        # the gradients are still there in the next iteration
optimizer.step()
optimizer.zero_grad()
```

Nor does it help where the step and the only reset are both in `if torch.isfinite(norm):`.

So does an attack: `loss.backward()` for `delta.grad`, where an adversarial example is made, fills those of the model,
and a step that comes without a reset in between takes them along; also where a table has the attacks, and an argument
says which one it is.

And an optimizer may leave them to itself: with one reset for two losses that each have their own step, the second step
takes what the first one has used once more.

```python
optimizer.zero_grad()
reconstruction.backward()
optimizer.step()
adversarial.backward()              # adds to what was used
optimizer.step()
```

**Instead**, reset right before the backward whose gradients are meant; or leave the other network out,
`D.requires_grad_(False)` around the generator's loss:

```python
d_optimizer.zero_grad()
d_loss.backward()
d_optimizer.step()
```

**Not flagged.** Several losses for one step (`loss_a.backward()`, `loss_b.backward()`, `optimizer.step()`); one
backward for two optimizers; losses that take turns in an `if` and its `else`, where each iteration resets everything
first; a network that is frozen for the other one's loss, or given what is detached; networks or optimizers that are not
known by name; a call in between that cannot be read; a program that freezes parameters by a flag
(`p.requires_grad = on`).

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html>,
<https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html> (which resets first).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import TRAINS
from gradguard.static.backward.applied_twice import applied_twice
from gradguard.static.backward.attacks import attacks
from gradguard.static.backward.leftovers import leftovers
from gradguard.static.fixes.line_edits import statement_before
from gradguard.static.model import Backward, Event, Function, Step
from gradguard.static.program.names import in_method
from gradguard.static.source import Site

rule = Rule("GG214", "leftover-gradients", Severity.ERROR, TRAINS)


@rule.in_source
def steps_with_them(function: Function) -> Iterator[Finding]:
    yield from _of_others(function)
    yield from _of_attacks(function)
    yield from _of_chosen_attacks(function)
    yield from _of_evaluations(function)
    yield from _of_passed_over(function)
    yield from _of_itself(function)


def _of_evaluations(function: Function) -> Iterator[Finding]:
    """``loss.backward()``, and then ``if optimizer is not None:`` with the step and the reset."""
    for each in function.mistakes.backward.unguarded():
        yield rule.finding(
            each.site,
            f"this backward also runs where `{each.optimizer}` is None: what it leaves then, nothing resets before the "
            "next step",
            help="move it into the `if` with the step, and evaluate under `torch.no_grad()`",
            related=(each.step.related("this step uses the sum"),),
        )


def _of_passed_over(function: Function) -> Iterator[Finding]:
    """``if not torch.isfinite(norm): continue``, where the reset comes at the end; ``if isfinite(norm):`` around it."""
    for each in function.mistakes.backward.passed_over():
        yield rule.finding(
            each.site,
            "the gradients of a batch that is passed over here are not reset: the next backward adds to them",
            help="reset before the backward, or also where a batch is passed over",
            related=(
                each.backward.related("this backward leaves them"),
                each.reset.related("this reset is not reached then"),
            ),
        )


def _of_itself(function: Function) -> Iterator[Finding]:
    """``first.backward()``, ``optimizer.step()``, ``second.backward()``, ``optimizer.step()``, and one reset."""
    for each in applied_twice(function):
        if function.switches_gradients():
            return
        target = each.again.target
        yield rule.finding(
            _site(each.added_to),
            f"this backward adds to gradients that `{target}` has stepped with already: its next step takes them a "
            "second time",
            help=f"call `{target}.zero_grad()` right before it",
            fix=_fix(each.added_to, each.again),
            related=(
                _site(each.first).related("this step has used them"),
                _site(each.again).related("this step uses the sum"),
            ),
        )


def _of_attacks(function: Function) -> Iterator[Finding]:
    """``loss.backward()`` for ``delta.grad``, then that of the loss which is trained, without a reset in between."""
    for each in attacks(function):
        yield rule.finding(
            each.backward.source.site,
            f"this backward, which is for `{each.tensor}.grad`, also fills gradients of `{each.module}`, and nothing "
            f"resets them before the next step",
            help=f"use `torch.autograd.grad(loss, {each.tensor})`, or reset the gradients after it",
            related=(
                *([each.reset.source.site.related("this reset comes before it")] if each.reset is not None else []),
                each.added_to.source.site.related("this backward adds to them"),
                each.used_by.source.site.related("this step uses the sum"),
            ),
        )


def _of_chosen_attacks(function: Function) -> Iterator[Finding]:
    """``optimizer.zero_grad()``, and then an attack that a table has, which calls ``backward``."""
    for each in function.mistakes.backward.chosen_attacks():
        yield rule.finding(
            each.site,
            "this reset comes before the attack, whose backward fills the gradients of the model, too: the step takes "
            "them along",
            help="reset after the attack, or let it ask `torch.autograd.grad`",
            related=(
                each.attack.related("the attack is called here"),
                each.backward.related("this backward of one of the attacks leaves gradients"),
                each.added_to.related("this backward adds to them"),
                each.used_by.related("this step uses the sum"),
            ),
        )


def _of_others(function: Function) -> Iterator[Finding]:
    for each in leftovers(function):
        if function.switches_gradients():
            return
        left_by, added_to, used_by = map(_site, (each.left_by, each.added_to, each.used_by))
        if left_by == added_to:  # one method, of two objects: what tells them apart is where it is called
            left_by, added_to, used_by = each.left_by.site, each.added_to.site, each.used_by.site
        yield rule.finding(
            left_by,
            f"this backward, which is for `{each.own.target}`, also fills gradients of `{each.used_by.target}`, and "
            f"nothing resets them before its next step",
            help=f"call `{each.used_by.target}.zero_grad()` right before its own backward"
            + (", or detach what is judged there" if each.judged is not None else ""),
            fix=_fix(each.added_to, each.used_by),
            related=(
                added_to.related("this backward adds to them"),
                used_by.related("this step uses the sum"),
                *([] if each.reset is None else [_site(each.reset).related("this reset comes before that")]),
                *([] if each.judged is None else [each.judged.source.site.related("what runs here has a graph")]),
            ),
        )


def _fix(added_to: Backward, used_by: Step) -> Fix | None:
    """Reset right before the backward that adds to them, where that is written in this function."""
    target = in_method(used_by.target) if used_by.target is not None else ""
    is_named = all(part.isidentifier() for part in target.split("."))
    return statement_before(added_to, f"{target}.zero_grad()") if is_named else None


def _site(event: Event) -> Site:
    return event.source.site

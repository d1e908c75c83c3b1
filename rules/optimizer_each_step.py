"""An optimizer is made anew for each step: it never has the state that it is for.

**What happens.** Adam averages the gradients and their squares over its steps, SGD with momentum goes on in the
direction of the steps before. They keep that in `optimizer.state`, which begins empty. An optimizer that is made in the
loop takes one step and is thrown away: Adam's first step is `lr` times the sign of each gradient, whatever its size,
momentum has nothing to go on with, and a scheduler that is made beside it never comes to its second step. Nothing
raises, the loss goes down, and worse than it should. Each iteration also pays for the new state.

```python
for x, y in loader:
    optimizer = optim.Adam(model.parameters(), lr=lr)       # an empty state, each time
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
```

**Instead**, make it once, before the loop; a rate that changes is a setting of the one that is there:

```python
optimizer = optim.Adam(model.parameters(), lr=lr)
for x, y in loader:
    optimizer.param_groups[0]["lr"] = rate(step)
    ...
```

**Not flagged.** Plain SGD, which keeps nothing; L-BFGS, which takes many steps in one; a model or a tensor that is
made, copied, loaded or reset in the same loop, or in what makes the optimizer; an optimizer that takes several steps
before the next one is made (one for each epoch, task or fold); one that is made under a condition.

**References.** <https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step>,
<https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html>.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import ACTS, BACKWARD, sign
from gradguard.static import tree as t
from gradguard.static.backward.put_back import BACK
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Call, Function, Loop, Step
from gradguard.static.program.paths import is_part
from gradguard.static.reading.scalars import bound_to

_MAKES = sign("opt", "Opt")  # another file may make it: `build_optimizer(net)`
_WITHOUT_STATE = frozenset(("LBFGS", "SGD"))
_BEGINS_ANEW_THERE = re.compile(rf"(?:{BACK})\w*\(")

rule = Rule("GG216", "optimizer-each-step", Severity.WARNING, ((BACKWARD, ACTS, _MAKES),))


@rule.in_source
def has_no_state(function: Function) -> Iterator[Finding]:
    for made in function.calls_of("torch.optim"):
        loop = made.loop
        if loop is None or made.conditional or made.is_in_loop_of_callee or not _keeps_state(made):
            continue
        steps = [step for step in function.steps if _is_of(step, made)]
        if not steps or not loop.is_step or not loop.is_long or not all(_is_next(step, made) for step in steps):
            continue
        if made.is_harmless or _is_another(loop, steps) or (made.inner is not None and _is_begun_anew(made)):
            continue
        first = steps[0].source
        name = (first.target if isinstance(first, Step) else None) or "the optimizer"
        is_here = name == _name(made)
        site = made.source.site if is_here else made.site
        there = () if is_here else (made.source.site.related("it is made here"),)
        yield rule.finding(
            site,
            f"`{name}` is made anew for each step, with an empty state: `{one_line(site.code)}`",
            help="make it once, before the loop; a new rate goes into `param_groups`",
            related=(*there, first.site.related("this is the one step that it takes")),
        )


def _keeps_state(made: Call) -> bool:
    """Whether an optimizer goes on, in a step, from what it kept of the steps before."""
    call = made.source.site.node
    if not isinstance(call, t.Call):
        return False
    name = call.func.name if isinstance(call.func, t.Attribute) else t.path_of(call.func)
    momentum = call.argument("momentum", 2) if name == "SGD" else None
    return name not in _WITHOUT_STATE or (momentum is not None and not t.is_zero(momentum))


def _name(made: Call) -> str | None:
    return made.source.bound_to if isinstance(made.source, Call) else None


def _is_of(step: Step, made: Call) -> bool:
    """Whether an optimizer that is made takes a step: by its name, where it is made, or what makes it is called."""
    of = step.source
    if not isinstance(of, Step) or of.target is None:
        return False
    if of.target == _name(made) and of.site.chunk is made.source.site.chunk:
        return True
    given = bound_to(of.target, step.site.chunk.statements) if step.inner is None else []
    return any(value is made.site.node for value in given)


def _is_next(step: Step, made: Call) -> bool:
    return step.loop is made.loop and not step.is_in_loop_of_callee and not step.runs_closure


def _is_begun_anew(made: Call) -> bool:
    """Whether the function that makes it, or the class that this is of, brings anything back to where it was."""
    return _BEGINS_ANEW_THERE.search(made.source.site.chunk.program) is not None


def _is_another(loop: Loop, steps: list[Step]) -> bool:
    """Whether what is optimized is another one in each iteration: ``nets[i]``, ``self.delta = zeros_like(x)``."""
    bound = loop.targets | loop.assigned
    paths = [path for step in steps for path in step.modules or ()]
    is_bound = any("[" in path or any(is_part(path, each) for each in bound) for path in paths)
    return is_bound or any(step.modules is None for step in steps)

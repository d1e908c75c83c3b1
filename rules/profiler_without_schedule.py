"""A profiler around a whole training run.

**What happens.** `torch.profiler.profile` keeps every event until it stops: each operation of each step, in host
memory: measured on torch 2.13, 49 KB a step for a small MLP, 91 KB with shapes and stacks, and 1.5 GB more when
`key_averages()` is asked for after 3,000 steps. With a schedule it records a few steps and drops the rest (flat).

```python
with torch.profiler.profile() as prof:
    for x, y in loader:
        train_step(x, y)
```

**Instead**:

```python
with torch.profiler.profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=3), on_trace_ready=...) as prof:
    for x, y in loader:
        train_step(x, y)
        prof.step()
```

A schedule whose window is as long as the training (`active=steps`, `for step in range(steps)`) records all of it as
well.

**Not flagged.** A schedule of a few steps, a number that is named as one of the window (`profile_steps`), a profiler
around a single step or a loop of a few steps, a loop that is left with `break`.

**References.** Lightning-AI/pytorch-lightning#10717, <https://pytorch.org/docs/stable/profiler.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Leak, Severity
from gradguard.signs import sign
from gradguard.static.knowledge import PROFILERS
from gradguard.static.model import Function

rule = Rule("GG503", "profiler-without-schedule", Severity.WARNING, ((sign("profile", own=True, reaches=True),),))


@rule.in_source
def records_everything(function: Function) -> Iterator[Finding]:
    for call in function.calls_of(*PROFILERS):
        if call.written.has("schedule"):
            continue
        if call.written.has("enabled") and call.written.literal("enabled") is not True:
            continue
        long = [loop for loop in call.loops if loop.is_long and (loop.over_loader or loop.trains)]
        if long:
            yield rule.finding(
                call.site,
                f"the profiler keeps the events of every step of the loop in line {long[0].site.line}: host memory "
                "grows until it stops",
                help="pass `schedule=torch.profiler.schedule(wait=1, warmup=1, active=3)` and call `prof.step()`",
            )
    for run in function.mistakes.kept.recorded_runs():
        yield rule.finding(
            run.site,
            f"the window of the schedule is the whole training: the profiler keeps the events of all "
            f"`{run.site.code}` steps",
            help="record a few steps: `active=3`",
            related=(run.loop.related("the training is here"),),
        )


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.holder is not None and leak.holder.type == "torch.profiler.profile"

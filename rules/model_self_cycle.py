"""A model that holds itself, made again and again.

**What happens.** `self.act = lambda x: self.scale * x` is a cycle: the model owns the function, the function owns the
model. When the last reference goes, the model stays until Python's cyclic collector runs. The collector counts Python
objects, not bytes: it may run late. Measured with a small model per trial: some 35 of them in memory at once; of
models of a gigabyte, the second may be one too many.

```python
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = lambda x: self.scale * x

for lr in grid:
    train(Net(), lr)
```

**Instead**, make it a method, or call `gc.collect()` after each trial.

What holds a model and itself (a trainer with `self.filters = [self.clip]`) keeps the model waiting as well.

**In a run** the collector itself is asked what it would free: models and other objects that refer to themselves, nested
functions that call themselves, exceptions kept in a variable of the function that they were raised in, dicts and lists
that are in themselves; how much waits at once, and that the collector frees it.

**Severity.** Information: memory that comes back late.

**Not flagged.** A model that is made once (a cycle is then harmless), functions that do not use `self`, static
methods, a loop that calls `gc.collect()`.

**References.** pytorch#128211, <https://pytorch.org/blog/understanding-gpu-memory-2/> (reference cycles).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Leak, Severity
from gradguard.signs import LOOP, TRAINS, TRIALS
from gradguard.static.model import Function

rule = Rule("GG408", "model-self-cycle", Severity.INFO, (*TRAINS, (TRIALS, LOOP)))


@rule.in_source
def lives_on(function: Function) -> Iterator[Finding]:
    for made in function.constructions:
        if not made.repeats or not made.cycles or made.is_kept or any(function.calls_of("gc.collect")):
            continue
        where = made.site.related(f"a `{made.name}` is made here in each iteration")
        for site in made.cycles:
            yield rule.finding(
                site,
                f"each `{made.name}` holds itself by this: its memory comes back when the cyclic collector runs",
                help="use a method, or call `gc.collect()` in the loop that makes the models",
                related=(where,),
            )


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "cycle" and leak.holder is not None and leak.holder.scope == "attribute"

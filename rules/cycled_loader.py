"""`itertools.cycle` over a loader.

**What happens.** `cycle` keeps a copy of everything that it was given in the first round, to give it again: every
batch of the first epoch stays in memory. After that the same batches come again, in the same order and with the same
augmentation: the loader does not shuffle again. `itertools.tee` keeps what one of its iterators has not yet given.

```python
for source, target in zip(source_loader, itertools.cycle(target_loader)):
```

**Instead**, start a new round of the loader:

```python
def forever(loader):
    while True:
        yield from loader
```

**Not flagged.** `cycle` over names, colours or optimizers; a function of the project that is named `cycle`; several
loaders in turn; `tee` where nothing is trained, or where one of its ends is deleted (`del head`).

**References.** pytorch#23900, <https://docs.python.org/3/library/itertools.html#itertools.cycle>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Leak, Severity
from gradguard.signs import CYCLE
from gradguard.static.model import Function
from gradguard.static.values import Kind

rule = Rule("GG405", "cycled-loader", Severity.ERROR, ((CYCLE,),))


@rule.in_source
def keeps_every_batch(function: Function) -> Iterator[Finding]:
    for call in function.calls_of("itertools.cycle", "itertools.tee"):
        if call.first.kind is not Kind.LOADER or call.inner is not None or str(call.bound_to).endswith("loaders"):
            continue  # several loaders in turn: each goes over its batches itself
        if call.name.endswith("tee") and (call.is_harmless or not (function.backwards or function.forwards)):
            continue  # iterators are teed for many ends, and what is read from both is dropped
        again = ", and gives them again without shuffling" if call.name.endswith("cycle") else ""
        yield rule.finding(
            call.site,
            f"`{call.name}` keeps every batch of the first epoch in memory{again}",
            help="use a generator: `while True: yield from loader`",
        )


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "cache" and leak.holder is not None and str(leak.holder.type).startswith("itertools.")

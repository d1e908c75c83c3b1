"""`torch.cuda.empty_cache()` in every iteration.

**What happens.** `empty_cache` returns unused cached blocks to the driver. It frees no tensor: what a leak holds
stays. In a loop each call waits for the GPU, and the next allocations go to the driver again (`cudaMalloc`), which is
slow and synchronises as well. The peak does not get lower, unless another process needs the memory.

```python
for x, y in loader:
    train_step(x, y)
    torch.cuda.empty_cache()
```

**Instead**, remove it, and look for what holds the memory. Against fragmentation set
`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.

**Severity.** Information.

**Not flagged.** Once per epoch, after the loop, every so many steps, after an out-of-memory error, between models,
or between trainings (`trainer.fit(model, loader)` in a loop over tasks).

**References.** <https://pytorch.org/docs/stable/notes/cuda.html#cuda-memory-management>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import LOOP, sign
from gradguard.static.fixes.line_edits import removed
from gradguard.static.model import Function, Loop
from gradguard.static.reading.learners import runs_trainings

rule = Rule("GG502", "empty-cache-in-loop", Severity.INFO, ((sign("empty_cache"), LOOP),))


@rule.in_source
def waits_for_nothing(function: Function) -> Iterator[Finding]:
    for call in function.calls_of("torch.cuda.empty_cache"):
        if call.loop is None or call.conditional or function.is_test or not call.loop.is_long:
            continue
        if _is_step(function, call.loop):
            yield rule.finding(
                call.source.site,
                "empty_cache() in every iteration frees no tensor, waits for the GPU, and slows the next allocations",
                help="remove it; if memory grows, something holds tensors",
                fix=removed(call.site) if call.inner is None else None,
            )


def _is_step(function: Function, loop: Loop) -> bool:
    """Whether an iteration is one step on one batch: no loop over batches lies in it, and no whole training."""
    inner = [other for other in function.loops if other is not loop and other.within(loop)]
    if any(other.over_loader or other.trains for other in inner):
        return False
    return loop.is_step or (loop.over_loader and not loop.backwards and not runs_trainings(loop))

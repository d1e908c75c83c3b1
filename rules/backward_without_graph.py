"""backward on a value whose graph was cut.

**What happens.** A value that was detached, or computed under `torch.no_grad()`, or made with `torch.tensor(...)`,
has no `grad_fn`. backward raises *"element 0 of tensors does not require grad and does not have a grad_fn"*. This
rule says before the run what torch says during it.

```python
output = model(x).detach()
loss = F.mse_loss(output, y)
loss.backward()                 # raises
```

**Instead**, detach only what must not be trained (a target, a teacher's output), and compute the loss outside of
`no_grad`.

**Not flagged.** A loss of which one term has a graph, `requires_grad_()` afterwards, a loss function with parameters
of its own, `set_grad_enabled(flag)`.

**Low confidence.** Reported with `--min-confidence low` only: on public code nearly all that it named had a graph, by
ways that reading did not see.

**References.** <https://pytorch.org/docs/stable/generated/torch.Tensor.detach.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import ACTS, BACKWARD, GRAD_CALL
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Backward, Function, GradCall

rule = Rule("GG204", "backward-without-graph", Severity.ERROR, ((BACKWARD, ACTS), (GRAD_CALL, ACTS)), Confidence.LOW)


@rule.in_source
def raises(function: Function) -> Iterator[Finding]:
    events: tuple[Backward | GradCall, ...] = (*function.backwards, *function.grad_calls)
    for backward in events:
        cut = backward.cut_at
        if cut is None:
            continue
        where = cut.related(f"the graph ends at `{one_line(cut.code)}`")
        yield rule.finding(
            backward.site,
            f"this raises: the value has no graph since `{one_line(cut.code)}`",
            help="compute the loss from what the model returns, with its graph",
            related=(where,),
        )

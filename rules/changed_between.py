"""Weights are changed through `.data` between the forward and its backward: the gradients are those of neither.

**What happens.** The backward of a layer computes with its weights, as they are then. Where they are changed in place
under `torch.no_grad()` after the forward, torch counts that as a new version, and the backward raises "one of the
variables needed for gradient computation has been modified by an inplace operation". `.data` is not counted: the
backward takes the weights after the change for those that the forward had. Nothing raises, and the gradients are a
little wrong.

```python
loss = criterion(net(x), y)
for p in net.parameters():
    p.data.clamp_(min=0.0)          # the backward takes these weights for those of the forward
loss.backward()
optimizer.step()                    # and what is left of the projection after the step is another thing, too
```

**Instead**, change them when the step is done, under `no_grad`, so that torch tells where that is too early:

```python
loss = criterion(net(x), y)
loss.backward()
optimizer.step()
with torch.no_grad():
    for p in net.parameters():
        p.clamp_(min=0.0)
```

**Not flagged.** What comes after the backward, or before the forward; another network, or one that this backward does
not go through; `p.data = ...`, which leaves the old weights to the backward; a change under `no_grad` without `.data`,
which raises; weights that are changed before the forward as well, and put back; biases, tables and the statistics of a
normalization, which no backward computes with; a network of one layer.

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import TRAINS
from gradguard.static.model import Function

rule = Rule("GG235", "changed-between", Severity.ERROR, TRAINS)


@rule.in_source
def computes_with_others(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.changed_between():
        is_here = each.changed.chunk is each.site.chunk and each.changed.line == each.site.line
        yield rule.finding(
            each.site,
            f"this changes the weights of `{each.module}` between a forward and its backward, which takes them for "
            "those that the forward had: nothing raises, as `.data` is not watched",
            help="move it after the step",
            related=(
                each.run.related(f"`{each.module}` runs here"),
                *(() if is_here else (each.changed.related("this is where they are changed"),)),
                each.backward.related("this backward computes with the changed weights"),
            ),
        )

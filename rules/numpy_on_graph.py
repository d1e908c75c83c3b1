"""`.numpy()` on a tensor with a graph.

**What happens.** torch raises *"Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy()
instead."* On a GPU the tensor has to be moved too. This rule says before the run what torch says during it.

```python
output = model(x)
criterion(output, y).backward()
predictions.append(output.numpy())
```

**Instead**: `output.detach().cpu().numpy()`. The array shares the tensor's memory on a CPU.

**Not flagged.** Values under `no_grad`, detached ones, indices and comparisons (`output.argmax(1).numpy()`), a batch;
`.numpy(force=True)`; a function that is only called under `no_grad`.

**Waits at low confidence.** All of it: in code that runs, what raises has been mended, so what is found there is mostly
code that never runs, or a model that was frozen where it cannot be seen.

**References.** <https://pytorch.org/docs/stable/generated/torch.Tensor.numpy.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Fix, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import inserted_call
from gradguard.static.model import Call, Function

rule = Rule("GG302", "numpy-on-graph", Severity.ERROR, ((sign(".numpy(", own=True),),), Confidence.LOW)


@rule.in_source
def raises(function: Function) -> Iterator[Finding]:
    for call in function.calls_of("numpy"):
        if not call.carries_graph or call.given or call.guarded or call.inner is not None:
            continue
        if function.called_without_grad():
            continue
        name = call.receiver or "the tensor"
        yield rule.finding(
            call.site,
            f"this raises: `{name}` carries a graph, and numpy() refuses tensors that require grad",
            help=f"write `{name}.detach().cpu().numpy()`",
            fix=_fix(call),
        )


def _fix(call: Call) -> Fix | None:
    edit = inserted_call(call, "detach().cpu()")
    return Fix("insert `.detach().cpu()`", (edit,), safe=True) if edit else None

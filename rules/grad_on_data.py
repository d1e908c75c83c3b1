"""Gradients stay on the samples of a data set.

**What happens.** `sample.requires_grad_()` changes the sample itself. If the data set holds it, every backward leaves
a gradient in its `.grad`, of the size of the sample, and nothing removes it: the optimizer does not know the sample,
so `zero_grad()` does not reset it. The next epoch adds to it, which makes the gradient wrong as well.

```python
for x in samples:                    # a list of tensors
    x.requires_grad_()
    energy(x).sum().backward()
```

**Instead**, take a new tensor: `x = x.detach().requires_grad_()` shares the data and not the gradient; or use
`torch.autograd.grad(energy(x).sum(), x)`, which stores nothing.

**Not flagged.** A batch that the loader collated (it is new in each iteration), `clone()` or `detach()` first,
parameters.

**References.** basiclab/GNGAN-PyTorch#2, TorchSim/torch-sim#540.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Leak, Severity
from gradguard.signs import LOOP, TRAINING, sign
from gradguard.static.fixes.rewrites import marked_anew
from gradguard.static.model import Call, Function
from gradguard.static.values import Kind

rule = Rule("GG407", "grad-on-data", Severity.WARNING, ((sign("requires_grad"), TRAINING, LOOP),))


@rule.in_source
def marks_the_sample(function: Function) -> Iterator[Finding]:
    for call in function.calls_of("requires_grad_"):
        loop, name = call.loop, call.written.receiver
        if loop is None or not loop.trains or loop.resets_by_hand or not call.is_of_member:
            continue
        if call.written.literal("requires_grad", 0) is False or call.of.kind is Kind.MODULE:
            continue
        yield rule.finding(
            call.source.site,
            f"`{name}` is an element of a collection and lives on, and so does the gradient that backward leaves in it",
            help=f"take a new tensor first: `{name}.detach().requires_grad_()`",
            fix=marked_anew(call.source),
            confidence=Confidence.HIGH if _is_data(call) else Confidence.LOW,
        )


def _is_data(call: Call) -> bool:
    """Whether the collection is a local one, or named as data: an object's own may be what it trains."""
    receiver = call.written.receiver or ""
    return not receiver.startswith("self.") or re.search(r"data|sample|image|input|batch", receiver) is not None


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "gradient" and leak.holder is not None and leak.holder.name == "grad"

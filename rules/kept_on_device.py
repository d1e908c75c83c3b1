"""The outputs of a whole evaluation are kept on the device.

**What happens.** Under `no_grad` an output has no graph, but it lies where it was computed. A list of all outputs of
an evaluation takes its memory from the model: logits over a vocabulary, or masks of full size, are gigabytes after
some hundred batches.

```python
with torch.no_grad():
    for x, _ in loader:
        outputs.append(model(x.cuda()))
```

**Instead**, move them to the host (`.cpu()`), or reduce each batch to what is wanted: `.argmax(1)`, a sum, a metric.

**Severity.** Information, and shown with `--min-confidence low` only: it may be meant, and small.

**Not flagged.** Outputs that are moved, reduced or turned into numbers; code that puts nothing on a device.

**References.** huggingface/transformers#7232, #25313 (`eval_accumulation_steps`).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import LOADER, LOOP, NO_GRAD
from gradguard.static.model import Function, Mode
from gradguard.static.values import Held

rule = Rule("GG409", "kept-on-device", Severity.INFO, ((NO_GRAD, LOADER, LOOP),))


@rule.in_source
def collects(function: Function) -> Iterator[Finding]:
    for store in function.stores:
        loop = store.grows
        if loop is None or not function.uses_device or store.mode is not Mode.OFF or store.inner is not None:
            continue
        if store.piles_up(Held.OUTPUT) and store.loop is not None and any(x.over_loader for x in store.loop.around()):
            yield rule.finding(
                store.site,
                f"{store.place} keeps `{store.value_code}` of every batch on the device",
                help=f"move it to the host: `{store.value_code}.cpu()`, or reduce it first",
                confidence=Confidence.LOW,
            )

"""The outputs of a whole evaluation, or of all steps of a training, are kept on the device.

**What happens.** Under `no_grad`, or detached, an output has no graph, but it lies where it was computed. A list of all
outputs of an evaluation takes its memory from the model: logits over a vocabulary, or masks of full size, are
gigabytes after some hundred batches. A list that gets the output of every training step, and that nothing empties,
grows until the memory is full.

```python
for x, y in loader:
    logits = model(x)
    ...
    self.seen.append(logits.detach())
```

A tensor that each step makes longer, `bank = torch.cat([bank, features])`, is the same, on a CPU as well: it is copied
each time besides.

**Instead**, move them to the host (`.cpu()`), or reduce each batch to what is wanted: `.argmax(1)`, a sum, a metric;
empty the list after each epoch; of a bank keep the last few, `[-size:]`.

**Severity.** A warning for the outputs of all steps of a training. Information for those of an evaluation, and shown
with `--min-confidence low` only: it may be meant, and small.

**Not flagged.** Outputs that are moved, reduced or turned into numbers; lists that something empties, or that are made
in each epoch anew, that are cut to a length, or get longer only while they are short; lists in code that puts nothing
on a device.

**References.** huggingface/transformers#7232, #25313 (`eval_accumulation_steps`).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import LOADER, LOOP, NO_GRAD, TRAINS
from gradguard.static.model import Form, Function, Mode, Store
from gradguard.static.values import Held

rule = Rule("GG409", "kept-on-device", Severity.INFO, ((NO_GRAD, LOADER, LOOP), *TRAINS))


@rule.in_source
def collects(function: Function) -> Iterator[Finding]:
    for store in function.stores:
        trains = _is_of_training(store)
        if trains and store.form is Form.CONCATENATE:
            yield _gets_longer(store)
        if not function.uses_device or store.form is Form.CONCATENATE:
            continue
        if not trains and not _is_of_evaluation(store):
            continue
        yield rule.finding(
            store.site,
            f"{store.place} keeps `{store.value_code}` of every {'step' if trains else 'batch'} on the device",
            help=("empty it now and then, " if trains else "")
            + f"move it to the host: `{store.value_code}.cpu()`, or reduce it first",
            severity=Severity.WARNING if trains else Severity.INFO,
            confidence=Confidence.HIGH if trains else Confidence.LOW,
            related=store.where_stored(),
        )


def _gets_longer(store: Store) -> Finding:
    """A tensor that is copied in each step, to be longer by an output: on a CPU it costs no less."""
    return rule.finding(
        store.site,
        f"{store.place} gets longer by `{store.value_code}` in every step, and is copied each time",
        help="keep the last few, `[-size:]`, or write into a buffer of a fixed size",
        severity=Severity.WARNING,
        confidence=Confidence.LOW if store.conditional else Confidence.HIGH,
        related=store.where_stored(),
    )


def _is_of_evaluation(store: Store) -> bool:
    if store.mode is not Mode.OFF or store.inner is not None or store.loop is None:
        return False
    is_collected = store.piles_up(Held.OUTPUT) and store.grows is not None
    return is_collected and any(loop.over_loader for loop in store.loop.around())


def _is_of_training(store: Store) -> bool:
    adds = store.form in (Form.APPEND, Form.CONCATENATE)  # under an index it may replace what a full buffer has there
    return adds and not store.carries_graph and store.piles_up_each_step(Held.OUTPUT) and store.for_all_training

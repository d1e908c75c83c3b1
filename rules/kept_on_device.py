"""The outputs of a whole evaluation, or whole batches of all steps of a training, are kept on the device.

**What happens.** Under `no_grad`, or detached, an output has no graph, but it lies where it was computed. A list of all
outputs of an evaluation takes its memory from the model: logits over a vocabulary, or masks of full size, are
gigabytes after some hundred batches. A list that gets the output, or the input, of every training step, and that
nothing empties, grows until the memory is full. So does one of an evaluation that a training runs again and again.

```python
for x, y in loader:
    x = x.to(device)
    logits = model(x)
    ...
    self.seen.append(logits.detach())
    self.hardest.append((loss.item(), x))
```

A tensor that each step makes longer, `bank = torch.cat([bank, features])`, is the same, on a CPU as well: it is copied
each time besides.

So is, on a CPU as well, a collection of a metric that has a method to empty it (`reset`) which nothing calls: each
evaluation adds to those before, and the score is one of all of them.

So is a list that gets an output in each step and of which only the last few are read, `stack(self.seen[-window:])`, on
a CPU as well: the older ones wait for nobody. (`deque(maxlen=window)` drops them.)

**Instead**, move them to the host (`.cpu()`), or reduce each batch to what is wanted: `.argmax(1)`, a sum, a metric;
empty the list after each epoch or evaluation; of a bank keep the last few, `[-size:]`.

**Severity.** A warning for what all steps of a training add, or all of its evaluations. Information for a single
evaluation, and shown with `--min-confidence low` only: it may be meant, and small.

**Not flagged.** Outputs that are moved, reduced or turned into numbers, and losses; lists that something empties, or
that are made in each epoch anew, that are cut to a length (`random.sample(rows, 64)`), or get longer only while they
are short; lists in code that puts nothing on a device, if more
than their end is read.

**References.** huggingface/transformers#7232, #25313 (`eval_accumulation_steps`).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Leak, Severity
from gradguard.signs import LOADER, LOOP, NO_GRAD, TRAINS
from gradguard.static.model import Form, Function, Mode, Store
from gradguard.static.values import ON_DEVICE, Held

rule = Rule("GG409", "kept-on-device", Severity.INFO, ((NO_GRAD, LOADER, LOOP), *TRAINS))


@rule.in_source
def collects(function: Function) -> Iterator[Finding]:
    for store in function.stores:
        trains = _is_of_training(function, store)
        if trains and store.form is Form.CONCATENATE:
            yield _gets_longer(store)
        if trains and not function.uses_device and store.form is Form.APPEND and store.only_last_is_read():
            yield _reads_the_last(store)
        if store.form is Form.CONCATENATE:
            continue
        again = not trains and _is_of_evaluations(store)
        if trains or again:
            yield from _piles_up(function, store, "evaluation" if again else "step")
        elif function.uses_device and _is_of_evaluation(store):
            yield rule.finding(
                store.site,
                f"{store.place} keeps `{store.value_code}` of every batch on the device",
                help=f"{_to_host(store)}, or reduce it first",
                confidence=Confidence.LOW,
                related=store.where_stored(),
            )


def _reads_the_last(store: Store) -> Finding:
    """What is added in each step, on a CPU too, to a list of which only the end is ever read."""
    written = store.source if isinstance(store.source, Store) else store
    is_here = written.site.node is store.site.node
    return rule.finding(
        written.site,
        f"{written.place} keeps `{store.written_code}` of every step, and only the last of them are read",
        help="use `collections.deque(maxlen=...)`, or drop the oldest when there are enough",
        severity=Severity.WARNING,
        related=() if is_here else (store.site.related("it is called here"),),
    )


def _piles_up(function: Function, store: Store, each: str) -> Iterator[Finding]:
    """What is added where nothing empties it, at the statement that does so, whoever calls for it.

    On a CPU only where an evaluation adds to what it is meant to empty: there is a method for it.
    """
    written = store.source if isinstance(store.source, Store) else store
    reset = store.never_reset() if store.mode is Mode.OFF and store.inner is not None else None
    if reset is None and not function.uses_device:
        return
    is_here = written.site.node is store.site.node
    where = " on the device" if function.uses_device else f", as nothing calls `{reset}`"
    then = f"empty it now and then, {_to_host(store)}, or reduce it first"
    yield rule.finding(
        written.site,
        f"{written.place} keeps `{store.written_code}` of every {each if reset is None else 'evaluation'}{where}",
        help=then
        if reset is None
        else f"call `{reset}()` before each {'evaluation' if each == 'evaluation' else 'epoch'}",
        severity=Severity.WARNING,
        related=() if is_here else (store.site.related("it is called here"),),
    )


def _to_host(store: Store) -> str:
    code = store.written_code
    return f"move it to the host: `{code}.cpu()`" if store.is_tensor is not False else "move the tensors to the host"


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


def _is_of_evaluations(store: Store) -> bool:
    """Whether it keeps what an evaluation collects that a training runs again and again."""
    if store.mode is not Mode.OFF or store.inner is None or store.form is not Form.APPEND or store.carries_graph:
        return False
    if not store.piles_up(*ON_DEVICE) or store.grows is None or not store.for_all_training:
        return False
    return store.grows.trains and store.grows.is_outermost and store.grows.is_long


def _adds(store: Store) -> bool:
    """Whether it makes a collection longer; under an index it may replace what a full buffer has there."""
    repeats = store.loop is not None and any(
        store.key in loop.targets and loop.over_loader for loop in store.loop.around()
    )
    return store.form in (Form.APPEND, Form.CONCATENATE) or (store.counts_up and not repeats)


def _is_of_training(function: Function, store: Store) -> bool:
    if (
        not _adds(store)
        or store.carries_graph
        or not store.piles_up_each_step(*ON_DEVICE)
        or not store.for_all_training
    ):
        return False
    losses = {held for backward in function.backwards for held in backward.value.holding(*ON_DEVICE)}
    return not store.value.holding(*ON_DEVICE) <= losses  # what a model gives that backward is called on is a number


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "tensor" and any(not device.startswith("cpu") for device in leak.devices)

"""Copies of the model are collected.

**What happens.** `snapshots.append(copy.deepcopy(model.state_dict()))` keeps one more copy of all parameters each
time: the size of the model, on the model's device.

```python
for x, y in loader:
    train_step(model, x, y)
    history.append(copy.deepcopy(model.state_dict()))
```

**Instead**, keep the best one (`best = copy.deepcopy(...)` replaces the last), write them to disk, or bound the list:
`deque(maxlen=5)`.

**Not flagged.** The best model so far, a bounded or trimmed list, copies for the clients of one round, members of an
ensemble that are made before training, or taken now and then and each run later on (cyclic or Langevin ensembles), what
elastic weight consolidation keeps of each task; one copy for each epoch, of which a training has few, unless only the
best of them is read, by its number (`model.load_state_dict(history[best_epoch])`).
`model.state_dict()` without a copy is no snapshot at all: its tensors are the model's own.

**References.** choderalab/pinot#23.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Leak, Severity
from gradguard.signs import ACTS, CALLBACK, SNAPSHOT, TRAINS
from gradguard.static.model import Function, Store
from gradguard.static.values import Held

rule = Rule("GG406", "unbounded-snapshots", Severity.WARNING, (*TRAINS, (SNAPSHOT, CALLBACK, ACTS)))


@rule.in_source
def collects(function: Function) -> Iterator[Finding]:
    for store in function.stores:
        is_each_step = store.piles_up_each_step(Held.SNAPSHOT)
        if _is_of_a_task(function, store) or not (is_each_step or _is_for_best(store)):
            continue
        yield rule.finding(
            store.site,
            f"{store.place} keeps one more copy of the model each time"
            + ("" if is_each_step else ", and only the best one is read"),
            help="keep the best one, write them to disk, or use a `deque(maxlen=...)`",
            confidence=Confidence.LOW if store.conditional and store.period is None else Confidence.HIGH,
            related=store.where_stored(),
        )


def _is_for_best(store: Store) -> bool:
    """Whether copies of all epochs are kept for the best, which is read by its number: ``history[best_epoch]``."""
    trains = store.grows is not None and store.grows.trains
    return trains and store.piles_up(Held.SNAPSHOT) and store.inner is None and store.only_best_is_read()


def _is_of_a_task(function: Function, store: Store) -> bool:
    """Whether it follows a backward that no step uses: what mattered for a task is measured once, after it (EWC)."""
    return store.grows is None and bool(function.backwards) and not function.steps


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "snapshot"

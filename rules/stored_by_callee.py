"""A value is handed, with its graph, to a function or an object that keeps it.

**What happens.** `meter.update(loss)` looks harmless, but `AverageMeter.update` does `self.sum += value * n`: the sum
keeps the graph of every loss. The line that stores is in a helper that is right for numbers; the line to change is the
call.

```python
class AverageMeter:
    def update(self, value, n=1):
        self.sum += value * n

for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    losses.update(loss, x.size(0))
```

**Instead**: `losses.update(loss.item(), x.size(0))`.

A cell of a table is followed by its name, too: `cell = self.cells[key]`, `cell[0] += value`. So is a method that an
optimizer is given to run: `optimizer.step(self.closure)`.

A table with an entry for each sample gets a part of the batch in each: `for i, error in zip(indices, errors):
self.priorities[i] = error`. The part has the graph of all of it.

So is what is put off, `self.jobs.append(partial(fn, *args))`, until all is trained: `writer.flush()` behind the loop
empties the list when it has everything in it.

A method of an object whose class only the run knows (a callback, a meter from a registry) is read by its name, where
few classes of the program have one that takes these arguments; a handler of an event, a step that a trainer is given,
by what the calls in all files hand over. What the callee itself backpropagates is reported where it stores it (GG104).

**Severity.** An error where activations stay, a warning where backward freed them and only the nodes stay.

**Not flagged.** A helper that calls `.item()` or `.detach()` itself, one that only looks at the value (logging, `tqdm`,
`add_scalar`), a container that is cleared in the same iteration.

**Waits at low confidence.** A value of which no graph was seen to begin: the state of an environment. What takes the
place of the one before for each of some objects: `self.latest[update.client] = update`. A part of a part of an output,
`for out in outputs: recall.update(out[1])`: a model may give numbers beside its loss.

**References.** visionml/pytracking#313, Lightning-AI/pytorch-lightning#6925.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import STORING
from gradguard.static.fixes import store_advice
from gradguard.static.model import Function, Store

rule = Rule("GG107", "stored-by-callee", Severity.ERROR, STORING)


@rule.in_source
def hands_over(function: Function) -> Iterator[Finding]:
    seen: set[object] = set()
    for store in function.leaking_stores():
        if store.parameter and store.site.node not in seen:
            seen.add(store.site.node)
            yield rule.finding(
                store.site,
                f"`{store.value_code}` is kept in {store.place} by this call, with its graph ({store.keeps})",
                help=_help(store),
                fix=store_advice.detach(store),
                severity=Severity.WARNING if store.freed else Severity.ERROR,
                confidence=store.confidence if _is_sure(function, store) else Confidence.LOW,
                related=(*store.where_stored(), *store.origin()),
            )


def _help(store: Store) -> str:
    if store.is_of_object:
        return "detach it where it is stored: the object has the graph from an earlier call"
    if store.goes_on:  # a layer whose statistics are kept, say: the caller goes on with what it gives back
        return "detach it where it is stored: what the call computes of it needs the graph"
    if store.path.endswith(".*"):  # which of its collections: one that backward uses needs the graph until then
        return f"empty each of its collections when it was used, or pass {store_advice.without_graph(store)}"
    return store_advice.instead(store, "pass", number=True) + store_advice.grows_all_the_same(store)


def _is_sure(function: Function, store: Store) -> bool:
    """Whether it surely piles up, and the graph was seen to be made here: a state of an environment has none.

    What a layer is given has one: that of the layers before it.
    """
    in_forward = function.is_module_method and function.name == "forward"
    piles_up = store.outlives is not None or (store.outlives_call and (store.freed or in_forward))
    return _is_statistic(store) or (piles_up and store.is_seen_to_record and not store.is_part_of_part)


def _is_statistic(store: Store) -> bool:
    """Whether the callee updates a buffer of a module with it."""
    return store.is_buffer or (isinstance(store.source, Store) and store.source.is_buffer)

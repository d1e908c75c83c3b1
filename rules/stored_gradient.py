"""A parameter's gradient is stored, step after step.

**What happens.** Since torch 2.0 `zero_grad()` sets the gradients to None, and the next backward makes new tensors. A
list that the old ones were put into keeps them all: the size of the model in each step. With `set_to_none=False` the
list holds the same tensor many times: no memory, but every entry shows the last gradient. `.detach()` and `.data`
change nothing, they share the storage.

```python
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    history.append(model.fc.weight.grad)
```

An optimizer that appends a copy of each gradient to its state (`self.state[p]["recent"].append(p.grad.clone())`) and
looks only at the last few keeps all of them as well. So does whoever copies them to compare the last few:
`self.seen[name].append(p.grad.clone())`, of which only `seen[-window:]` is read.

**Instead**, store what is wanted of it: `model.fc.weight.grad.norm().item()`.

**Not flagged.** A copy (`.grad.clone()`) of which more than the end is read: it is kept on purpose; a norm or a
mean; a list that is made or emptied in each step; a dict by parameter that is overwritten.

**References.** pytorch#92731 (the default of `set_to_none`).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Leak, Severity
from gradguard.signs import TRAINS, sign
from gradguard.static.model import Form, Function, Store
from gradguard.static.values import Held

_COPIES = sign(".grad", pattern=r"\.grad\b", own=True)
_ADDS = sign(".append(", own=True)
_READS_END = sign("[-")
rule = Rule("GG402", "stored-gradient", Severity.WARNING, (*TRAINS, (_COPIES, _ADDS, _READS_END)))


@rule.in_source
def stores(function: Function) -> Iterator[Finding]:
    for store in function.stores:
        if store.piles_up_each_step(Held.GRADIENT) and function.frees_gradients:
            yield rule.finding(
                store.site,
                f"{store.place} gets a gradient in every iteration, and keeps its memory (or, with "
                "`set_to_none=False`, the same tensor many times)",
                help="store a number, `.norm().item()`, or a copy where the values are wanted: `.clone()`",
                related=store.where_stored(),
            )
        elif function.is_optimizer_method and _is_in_its_state(store):
            yield rule.finding(
                store.site,
                f"{store.place} gets one more gradient of each parameter in every step, and drops none",
                help="keep the last few, `deque(maxlen=...)`, or delete the old ones: `del ...[:-n]`",
            )
        elif _is_for_last_few(store):
            yield rule.finding(
                store.site,
                f"{store.place} keeps a copy of every gradient of every step, and only the last of them are read",
                help="use `collections.deque(maxlen=...)`, or drop the oldest when there are enough: `del ...[:-n]`",
            )


def _is_for_last_few(store: Store) -> bool:
    """Whether it is a copy, in a list of which only the end is ever read: the older ones wait for nobody."""
    is_added = store.inner is None and store.form is Form.APPEND and store.is_copied_gradient
    return is_added and store.only_last_is_read() and store.is_of_training()


def _is_in_its_state(store: Store) -> bool:
    """Whether an optimizer puts it into a list that it keeps for a parameter: ``self.state[p]["recent"].append(...)``.

    Elsewhere a copy is kept on purpose, for as long as somebody wants to look at it.
    """
    is_added = store.inner is None and store.form is Form.APPEND and store.path.startswith("self.state[")
    return is_added and store.is_copied_gradient and store.grows is not None and not store.is_trimmed_by_class


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "gradient" and (leak.holder is None or leak.holder.name != "grad")

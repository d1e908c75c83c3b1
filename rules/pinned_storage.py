"""A small part of a tensor is kept, and with it the storage of the whole.

**What happens.** `x[0]`, `out[:, 0]` and `h[-1]` are views: they own no memory of their own but share the storage of
the tensor they were taken from. A list of them keeps every whole batch alive (measured on torch 2.13: 1 MB for each
`b[0]` of 4 KB). `.detach()`, `.contiguous()` of a slice that is contiguous already, `.numpy()`, and even
`copy.deepcopy` do not help; `.cpu()` does on a GPU, and does nothing on a CPU.

```python
with torch.no_grad():
    for x, _ in loader:
        tokens = encoder(x)                  # [batch, length, dim]
        summaries.append(tokens[:, 0])       # keeps all tokens
```

**Instead**, copy the part: `tokens[:, 0].clone()`, or `.cpu()` from a GPU.

**Not flagged.** Copies (`.clone()`, `.cpu()`, `.item()`, `.tolist()`), an index that is a tensor, a mask or a list
(they copy), rows taken one by one in a loop, the whole tensor, arithmetic with the part, parts that lie side by side
and are all kept (`mu = h[:, 0]`, `logvar = h[:, 1]`); a few slots that are filled again and again. Of a ring of many,
each keeps a whole batch: that is flagged.

**Waits at low confidence.** One item (`x[0]`) of what is no batch of a training: there may be no other.

**References.** pytorch#33101, <https://pytorch.org/docs/stable/tensor_view.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Fix, Leak, Severity
from gradguard.signs import ACTS, EVALUATES, LOADER, NO_GRAD, TRAINS
from gradguard.static.fixes.edits import with_call
from gradguard.static.fixes.store_advice import written_parts
from gradguard.static.model import Function, Store
from gradguard.static.values import Held

rule = Rule("GG403", "pinned-storage", Severity.WARNING, (*TRAINS, *EVALUATES, (NO_GRAD, LOADER, ACTS)))


@rule.in_source
def pins(function: Function) -> Iterator[Finding]:
    for store in function.stores:
        if store.piles_up(Held.VIEW) and not store.leaks and not store.whole_is_kept and _goes_over_batches(store):
            taken = store.where_taken
            yield rule.finding(
                taken.site,
                f"{_view(taken)} of a larger tensor: {store.place} keeps the whole storage of each",
                help=_help(taken),
                fix=_fix(taken),
                confidence=Confidence.LOW if _is_one_sample(store) else Confidence.HIGH,
            )


def _view(taken: Store) -> str:
    return f"`{taken.view_code}` {'holds' if taken.has_view_within else 'is'} a view"


def _fix(taken: Store) -> Fix | None:
    """Store a copy, where what is stored is the view, or the only one in a tuple that is written out."""
    site = taken.value_site if taken.inner is None else None
    if site is None or taken.is_tensor:
        return with_call(site, "clone()") if site is not None else None
    parts = written_parts(site, taken.value)
    views = [part_site for part_site, part in parts if part.holding(Held.VIEW, Held.PART)]
    return with_call(views[0], "clone()") if len(views) == 1 else None


def _help(taken: Store) -> str:
    if taken.has_view_within:
        return f"store a copy of that part of `{taken.view_code}`: call `.clone()` on it"
    return f"store a copy: `{taken.view_code}.clone()`"


def _is_one_sample(store: Store) -> bool:
    """Whether it is one item of what may well have no other: a batch of an evaluation, an action of an agent."""
    around = list(store.loop.around()) if store.loop is not None else []
    trains = store.in_step or store.where_taken.is_picked_from_input
    trains |= any(x.trains for x in around) and any(x.over_loader for x in around)
    return store.where_taken.takes_one_item and not trains


def _goes_over_batches(store: Store) -> bool:
    return store.in_step or (
        store.grows is not None
        and store.loop is not None
        and any(x.over_loader or x.is_step for x in store.loop.around())
    )


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "view"

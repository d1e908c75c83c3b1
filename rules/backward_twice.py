"""A second backward over a graph that the first one has freed.

**What happens.** backward frees what the graph saved, as it goes. A second backward over a part that needs those
saved tensors raises *"Trying to backward through the graph a second time (or directly access saved tensors after they
have already been freed)"*. Nearly every operation saves something, even `x * 2`; sums, means, `cat`, views and slices
do not, and can be repeated. `zero_grad()` or a step in between change nothing. This rule says before the run what
torch says during it.

```python
features = encoder(x)
head_a(features).sum().backward()
head_b(features).sum().backward()      # raises: the encoder's graph is gone
```

**Instead**, add the losses and call backward once, which is also the cheapest:

```python
(head_a(features).sum() + head_b(features).sum()).backward()
```

or pass `retain_graph=True` to the first of the two (not to the last), or detach what the second must not reach.

**Not flagged.** A graph that is made anew in between, losses that share only data, branches of which one runs, what
a model returns in a tuple (an actor and a critic may share nothing), code in `try` or under `pytest.raises`.

**References.** <https://pytorch.org/docs/stable/generated/torch.Tensor.backward.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import ACTS, BACKWARD
from gradguard.static.fixes.edits import argument_added
from gradguard.static.model import Backward, Function, GradCall, Store

rule = Rule("GG203", "backward-twice", Severity.ERROR, ((BACKWARD, ACTS),))


@rule.in_source
def raises(function: Function) -> Iterator[Finding]:
    for backward in function.backwards:
        if backward.carried_by is not None:
            yield _carried(backward, backward.carried_by)
            continue
        first = backward.freed_by
        if first is None:
            continue
        yield rule.finding(
            backward.site,
            _message(backward, first),
            help="add the losses and call backward once, or pass `retain_graph=True` to the first backward",
            fix=_fix(backward, first),
            related=(first.site.related("this frees the graph"),) if first is not backward else (),
        )


def _fix(backward: Backward, first: Backward | GradCall) -> Fix | None:
    """Keep the graph of the first backward, in the same file."""
    if first is backward or not isinstance(first, Backward) or first.site.cell != backward.site.cell:
        return None
    edit = argument_added(first, "retain_graph=True") if first.site.path == backward.site.path else None
    return Fix("pass `retain_graph=True` to the first backward", (edit,), safe=False) if edit else None


def _carried(backward: Backward, store: Store) -> Finding:
    return rule.finding(
        backward.site,
        f"this raises in the second iteration: {store.place} brings the graph of the iteration before, "
        "which this backward has freed",
        help=f"detach {store.place} between iterations: `.detach()`, on each tensor where it is a tuple",
        related=(store.site.related("this keeps it for the next iteration"),),
    )


def _message(backward: Backward, first: Backward | GradCall) -> str:
    if first is backward:
        return "this raises in the second iteration: the graph is made before the loop, and the first backward freed it"
    what = "backward" if isinstance(first, Backward) else "autograd.grad"
    return f"this raises: the {what} in line {first.site.line} has freed a part of the graph"

"""Loss accumulated together with its graph.

**What happens.** `running += loss` makes `running` the result of an addition, and its graph has the graph of every
`loss` that was ever added. None of them can be freed as long as `running` lives.

What that costs depends on whether backward ran over the same loss:

- **after `loss.backward()`** the saved tensors are gone, the nodes stay: about 0.8 KB of host memory for each node and
  step, almost nothing on the GPU. This is the most reported leak of all, and `torch.cuda.memory_allocated()` does not
  show it.
- **where no backward ran** (evaluation), or with `retain_graph=True`, every activation of every batch stays:
  megabytes a step, on the device.

```python
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    running += loss              # running = running + loss, the mean of it, self.total_loss += loss: the same
```

**Instead**, add the number or the value without its graph:

```python
    running += loss.item()       # a Python number; waits for the GPU
    running += loss.detach()     # a tensor; does not wait
```

A moving average, `mean = 0.9 * mean + 0.1 * loss`, chains the steps in the same way (GG106).

**Severity.** An error where activations stay, a warning where backward freed them and only the nodes stay.

**Not flagged.** A sum that is backpropagated: gradient accumulation (`total += loss; ... total.backward(); total = 0`),
a sum over a batch with one backward after the loop, several losses of one step, a sum that is returned where somebody
else says whether backward retains the graph (`retain_graph=self.keeps`). A descent, `z = z - rate * z.grad`, that
retains the graph and is returned: its caller goes through all of it. A sum in an object that its caller begins anew
after each call (`agent.act(x)`, then `agent.learn()`). A sum that a function returns which is handed to others by its
name (`LOSSES = {"mean": mean_of_draws}`), and is not named as an evaluation. A sum of numbers, or of values made under
`no_grad`.

**Waits at low confidence.** A loop that runs once unless somebody asks for more; a local sum over a few backwards, as
many as a setting says that is small by default (`for _ in range(self.n_critic)`). An evaluation for torch 0.3, whose
batches may be `volatile`.

**References.** <https://pytorch.org/docs/stable/notes/faq.html> ("My model reports cuda runtime error(2): out of
memory"), pytorch#17568.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Leak, Severity
from gradguard.signs import STORING
from gradguard.static.fixes import store_advice
from gradguard.static.model import Form, Function, Store

rule = Rule("GG103", "loss-accumulation", Severity.ERROR, STORING)


@rule.in_source
def accumulates(function: Function) -> Iterator[Finding]:
    for store in function.leaking_stores():
        if store.form is Form.SUM and not store.parameter:
            yield rule.finding(
                store.site,
                _message(store),
                help=f"add {store_advice.without_graph(store)}{store_advice.or_a_number(store)}",
                fix=store_advice.detach(store),
                severity=Severity.WARNING if store.freed else Severity.ERROR,
                confidence=store.confidence,
                related=store.origin(),
            )


def _message(store: Store) -> str:
    return f"{store.place} keeps the graph of every `{store.value_code}` added to it ({store.keeps})"


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "graph" and leak.form == "sum"

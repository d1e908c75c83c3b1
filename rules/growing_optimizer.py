"""An optimizer gets more parameters, or there are more optimizers, in every iteration.

**What happens.** `add_param_group` in the training loop adds to the optimizer for good: the parameters, their
gradients and their state (Adam: twice their size) stay, and each step takes longer. The same holds for a list that
gets a new optimizer, or a new parameter, in every iteration.

```python
for x, y in loader:
    prompt = nn.Parameter(torch.zeros(16))
    optimizer.add_param_group({"params": [prompt]})
```

`optimizer.param_groups.pop()` takes the group out, and leaves the parameter and its state in `optimizer.state`:
`optimizer.state.pop(prompt)` ends that. Only a run tells of it.

**Instead**, make parameters and optimizers once, before the loop.

So does a new parameter every so many iterations (`if step % 100 == 0:`), and an optimizer that is made the first time
and gets one more group from then on (`if self.inner is None: self.inner = SGD(...)`, `else:
self.inner.add_param_group(...)`).

**Not flagged.** Set-up loops that do not train, a group that is added once (`if epoch == 5:`), layers that thaw every
few epochs, the layers of a task or a stage that is trained as a whole in each iteration, groups that the program takes
out again (`optimizer.param_groups.pop()`), an optimizer that replaces the last one, or the one under the same key; an
optimizer that is made beside its own model, one for each user or task.

**References.** metaopt/torchopt#113 (related),
<https://pytorch.org/docs/stable/generated/torch.optim.Optimizer.add_param_group.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Leak, Severity
from gradguard.signs import TRAINS
from gradguard.static.knowledge import GROWING_KEY
from gradguard.static.model import Call, Form, Function, Store
from gradguard.static.optimizers.new_models import is_of_new_model
from gradguard.static.values import Held

rule = Rule("GG411", "growing-optimizer", Severity.WARNING, TRAINS)


@rule.in_source
def grows(function: Function) -> Iterator[Finding]:
    for call in function.calls_of("add_param_group"):
        if call.loop is None or not call.loop.trains or not call.loop.is_long:
            continue
        if call.is_replaced or call.is_harmless:
            continue
        if not call.conditional and (not call.loop.is_of_stages or _adds_new_parameter(call)):
            yield _gets_more(call, "in every iteration", "add the group once, before the loop")
        elif call.is_periodic and _adds_new_parameter(call):
            yield _gets_more(call, "again and again", "take out the groups that are done, with their `optimizer.state`")
    for store in function.stores:
        replaces = store.form is Form.ITEM and not GROWING_KEY.search(store.key or "")
        if store.conditional or replaces:
            continue
        if store.piles_up_each_step(Held.PARAMETER) or _makes_optimizers(function, store):
            yield rule.finding(
                store.site,
                f"{store.place} gets one more `{store.value_code}` in every iteration",
                help="make it once, before the loop",
            )


def _gets_more(call: Call, often: str, help: str) -> Finding:
    for_stage = not call.conditional and call.loop is not None and call.loop.is_of_stages
    return rule.finding(
        call.source.site,
        f"`{call.receiver}` gets one more group of parameters {often}",
        help=help,
        confidence=Confidence.LOW if for_stage else Confidence.HIGH,
    )


def _adds_new_parameter(call: Call) -> bool:
    """Whether the group has a parameter that was just made; layers that thaw one after the other are few."""
    source = call.source
    given = source.given if isinstance(source, Call) else ()
    return any(value.holding(Held.PARAMETER) for _, value in given)


def _makes_optimizers(function: Function, store: Store) -> bool:
    """Whether it keeps one more optimizer in each iteration, or each epoch, of the training.

    Where a model is made beside it, an iteration is for one of many that are trained: of an ensemble, of the users.
    """
    if store.piles_up_each_step(Held.OPTIMIZER):
        return True
    loop = store.grows
    if loop is None or not store.piles_up(Held.OPTIMIZER) or not (loop.trains and loop.is_outermost and loop.is_long):
        return False
    if any(made.loop is not None and made.loop.within(loop) for made in function.constructions):
        return False
    return not is_of_new_model(store, loop)


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "optimizer"

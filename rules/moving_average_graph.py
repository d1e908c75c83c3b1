"""A moving average that carries the graphs of all earlier steps.

**What happens.** `mean = 0.9 * mean + 0.1 * loss` makes the new mean the result of operations on the old one: a chain
through every step, one link longer each time. None of it can be freed while `mean` lives. The same happens to the
running statistics that a module keeps in a buffer, to a baseline, and to a shadow copy of the parameters that is
updated outside of `no_grad`, where every parameter is a leaf that requires grad: also in place, where the copy itself
asks for no gradient (`slow.mul_(0.99).add_(fast, alpha=0.01)`; if it did, torch would raise).

After `loss.backward()` only the chain's nodes stay: measured on torch 2.13, 13 nodes and 10 KB of host memory a step
for a small MLP, almost nothing on the GPU. Where no backward ran over the value, all that the graph saved stays as
well (48 KB).

Writing in place does not end it: `avg.copy_(...)`, `avg[:] = ...` and `avg.zero_()` leave the old graph behind the
new value. A new tensor (`avg = torch.zeros(())`) or `avg.detach_()` does, and so does detaching the old side alone,
`0.9 * avg.detach() + 0.1 * loss`.

```python
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    mean = 0.9 * mean + 0.1 * loss

def forward(self, x):
    self.running_mean = self.m * self.running_mean + (1 - self.m) * x.mean(0)     # a registered buffer
```

**Instead**, average what has no graph: `0.1 * loss.item()`, `x.mean(0).detach()`; update parameters and buffers under
`torch.no_grad()`.

An optimizer of your own that adds weight decay to the gradient, `g = g + decay * p`, and blends that into its state
chains the parameters' graphs, unless its `step` is under `torch.no_grad()`. After `backward(create_graph=True)` the
gradients have graphs themselves: `state["mean"] = 0.9 * state["mean"] + 0.1 * p.grad` goes on from all of them, and so
does `state["mean"].mul_(0.9).add_(p.grad, alpha=0.1)`. `p.grad.detach()`, or `p.grad.data`, has none.

The buffer may be that of a module which has nothing to train, if it is run on what others compute that have: by
another module's `forward`, or behind a layer in `nn.Sequential`.

A method that averages parameters is flagged where it is called, or handed to somebody who calls it
(`after=[lambda: slow.follow(net)]`), unless every call that is seen is under `no_grad`.

**Severity.** An error where activations stay, a warning where backward freed them and only the nodes stay.

**Not flagged.** Averages of numbers or of detached values, updates under `no_grad` or through `.data`, averages over
`state_dict()` (its tensors are detached), a combination that is backpropagated and made anew in each iteration;
statistics of what a whole model (`policy = Policy()`) is given: that is data.

**References.** alexhernandezgarcia/gflownet#133, pytorch#20275, <https://pytorch.org/docs/stable/notes/faq.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Leak, Severity
from gradguard.signs import STORING, sign
from gradguard.static.fixes import store_advice
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function, Store

_OWN_OPTIMIZER = sign("Optimizer", pattern=r"(?m:^)[ \t]*class\s+\w+\([^)\n]*Optimizer\b")
_STATE = sign("self.state[", own=True)
_GRADIENT = sign(".grad", pattern=r"\.grad\b(?!\.data|\.detach)", own=True)

rule = Rule("GG106", "moving-average-graph", Severity.ERROR, (*STORING, (_OWN_OPTIMIZER, _STATE, _GRADIENT)))


@rule.in_source
def averages(function: Function) -> Iterator[Finding]:
    for store in function.leaking_stores():
        if store.is_average and not store.parameter:
            yield rule.finding(
                store.site,
                _message(store),
                help=_help(store),
                fix=None if _is_leaf_itself(store) else store_advice.detach(store),
                severity=Severity.WARNING if store.freed else Severity.ERROR,
                confidence=store.confidence if _is_of_training(store) else Confidence.LOW,
                related=store.origin(),
            )
    for each in function.mistakes.optimizers.averaged_gradients():
        value = one_line(each.value.code)
        yield rule.finding(
            each.site,
            f"`{one_line(each.site.code)}` chains the graph of every gradient that went into it: those of "
            "`backward(create_graph=True)` have one",
            help=f"average `{value}` without its graph: detach the gradients, or compute under `torch.no_grad()`",
        )


def _is_of_training(store: Store) -> bool:
    """Whether a backward goes over what is averaged, or it is parameters, or a buffer of a model that is run here.

    Of five others that were read in public code, none was a leak (docs/accuracy.md).
    """
    return store.freed or store.retained or store.is_buffer or store.is_of_leaves


def _message(store: Store) -> str:
    if store.place.startswith("parameters"):
        return f"the {store.place} chain the graph of every `{store.value_code}` that goes into them ({store.keeps})"
    if (store.is_of_itself or store.is_sum) and not store.is_buffer:
        return f"{store.place} is computed from what it was, and chains the graphs of all that ({store.keeps})"
    what = "buffer" if store.is_buffer else "moving average"
    return f"the {what} {store.place} chains the graph of every `{store.value_code}` that went into it ({store.keeps})"


def _is_leaf_itself(store: Store) -> bool:
    """Whether it is a tensor whose gradient is asked for, computed from itself: without its graph it is no leaf yet."""
    return store.is_of_itself and store.is_of_leaves


def _help(store: Store) -> str:
    if _is_leaf_itself(store):
        return f"begin each iteration with a leaf: `({store.value_code}).detach().requires_grad_()`"
    without = store_advice.without_graph(store) + store_advice.or_a_number(store)
    if (store.is_of_itself or store.is_sum) and not store.is_buffer:
        return f"go on with {without}"
    return f"average {without}, or update it under `torch.no_grad()`"


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "graph" and leak.form == "average"

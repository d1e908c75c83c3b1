"""`retain_graph=True` in a loop, where no later backward needs the graph.

**What happens.** `loss.backward()` frees the tensors that the graph saved for the backward pass. With
`retain_graph=True` they stay until the last reference to the graph is gone. In a loop that rebinds `loss` this is not
a growing leak: the graph of step N-1 dies when step N assigns `loss` and `out` again. But it dies *after* the next
forward pass, so two sets of activations exist at once: measured on torch 2.13, the peak of the activations about
doubles, and stays flat.

It turns into a true leak when something else keeps the graph: a loss appended to a list, or a hidden state that is
carried from one iteration to the next. There `retain_graph=True` is what silences *"Trying to backward through the
graph a second time"*: the error was right, and the message of GG105 names the state that has to be detached.

```python
for x, y in loader:
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)   # nothing uses the graph again
    optimizer.step()
```

**Instead**, call `loss.backward()`. If two losses share a part of the graph, add them and call backward once:

```python
(loss_a + loss_b).backward()
```

**Severity.** A warning; an error where a carried state makes the graphs pile up.

**Not flagged.** The first of two backwards over one graph (a shared encoder with two heads, a GAN's shared fake
batch), a graph that was made before the loop, also by a caller, and is used in every iteration, `autograd.grad`
afterwards, a graph that is then handed to an object whose class runs a backward, or of which an attribute keeps a part
that another method goes through (`self.values.append(value)`). There `retain_graph=True` is right, and costs nothing
extra. On the *last* backward it is waste. A graph that only the variables of a called function hold
is gone when that returns, retained or not.

**References.** <https://pytorch.org/docs/stable/generated/torch.Tensor.backward.html>, pytorch#40005.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Fix, Severity
from gradguard.signs import ACTS, sign
from gradguard.static.fixes.edits import argument_removed
from gradguard.static.model import Backward, Function
from gradguard.static.program.callers import give_graph

rule = Rule("GG101", "retain-graph-in-loop", Severity.WARNING, ((sign("retain_graph"), ACTS),))


@rule.in_source
def needless(function: Function) -> Iterator[Finding]:
    for backward in function.backwards:
        if backward.retain_graph is None or backward.needed_again or backward.loop is None:
            continue
        if not backward.carries and give_graph(function, backward):
            continue  # made before the loop, by who calls this
        yield rule.finding(
            backward.retain_graph_argument,
            _message(backward),
            help=_help(backward),
            fix=_fix(backward),
            severity=Severity.ERROR if backward.carries else None,
            confidence=Confidence.HIGH,
        )


def _message(backward: Backward) -> str:
    if backward.carries:
        return (
            f"`retain_graph=True` keeps the graphs of all earlier iterations, which `{backward.carries}` carries on: "
            "every activation of every iteration stays"
        )
    return (
        "`retain_graph=True` in a loop, but no later backward uses this graph: "
        "its activations stay during the next forward pass (up to twice the peak, not growing)"
    )


def _help(backward: Backward) -> str:
    if backward.carries:
        return f"detach `{backward.carries}` at the start of each iteration, then remove `retain_graph=True`"
    return "remove `retain_graph=True`; if two losses share a graph, add them and call backward once"


def _fix(backward: Backward) -> Fix | None:
    edit = argument_removed(backward, "retain_graph") if not backward.carries else None
    return Fix("remove `retain_graph=True`", (edit,), safe=False) if edit else None

"""A state is carried from one iteration into the next together with its graph.

**What happens.** `hidden` goes into the step and comes out of it: `out, hidden = rnn(x, hidden)`. Its graph then
reaches back to the first iteration, and grows by one step each time. The same holds for the state of a simulation, for
points that a step without a graph is added to (`x = x - rate * gradient`), and for an adversarial perturbation that is
updated in place of a leaf. (Running statistics: GG106.)

With a backward in each iteration torch raises at the second one (*"Trying to backward through the graph a second
time"*). Users then add `retain_graph=True`, and the program runs, slower each step, until the memory is full (with an
in-place optimizer in fp32 it raises another error instead). Without a backward (evaluation, a rollout) nothing raises,
and every activation of every iteration stays.

```python
hidden = None
for x, y in loader:
    out, hidden = rnn(x, hidden)
    criterion(out, y).backward(retain_graph=True)
```

**Instead**, cut the graph between iterations (truncated backpropagation):

```python
    out, hidden = rnn(x, hidden)
    criterion(out, y).backward()
    hidden = hidden.detach()         # of an LSTM: tuple(h.detach() for h in hidden)
```

In an evaluation or a rollout use `torch.no_grad()`.

A state may come out as a field, `out = net(x, state)`, `state = out.state`, or be entries of a dict:
`out, (h, c) = net(x, (state["h"], state["c"]))`, `state.update(h=h, c=c)`. A reset that takes out other words,
`state.pop("hx", None)`, leaves them there. A state that begins anew only where a pass over the data ends
(`if at + size >= len(text): at, hidden = 0, start`) is carried on through the whole pass.

**Not flagged.** A variable that each iteration binds anew or leaves as it was (a step that is tried again, the best
loss); a state that is detached, rebound or re-initialised in the loop, also only every k steps; a state that is
unrolled over time and then backpropagated once; a state under `no_grad`; a module bound to its own name
(`net = net.to(device)`); a dimension that is added where it is missing; a record of which the fields with a graph are
made anew each time; what a call gives back as it was given, whatever it puts into it under `no_grad`; the state of a
sampler that gives its log-probabilities to its caller; what a generator in evaluation mode gives to a caller who
backpropagates it; a tensor that is marked for a gradient and unmarked again (`x.requires_grad_(False)`); one forward
pass, layer by layer (`for layer in net.stages: x = layer(x)`), whatever else is done to its state (`x = F.relu(x)`).

**Waits at low confidence.** A state in a loop without a backward that no call takes and gives again; one that is only
put in another order. One that goes through a module whose class only the run knows, where a class of the program that
it may be detaches something. A loop that runs once unless somebody asks for more (`--restarts`, 1 by default). A
sampler of a few steps (nine at most, by default or where it is made), each of which adds to a point what has no graph.

**References.** <https://pytorch.org/docs/stable/notes/faq.html> ("Don't use RNNs on sequences that are too large"),
pytorch#2769, OpenNMT/OpenNMT-py#403.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Fix, Leak, Severity
from gradguard.signs import LOOP, STORING, sign
from gradguard.static import tree as t
from gradguard.static.fixes.line_edits import last_in_loop
from gradguard.static.model import Form, Function, Store
from gradguard.static.program.names import in_method

# An object whose network is given its state, and gives the next one: who runs it in a loop need speak of no training.
_CARRIES = sign(
    "self.", pattern=r"\bself\.(\w+)\b[^\n=()]*=(?!=)\s*self\.[\w.]+\([^\n]*\bself\.\1\b(?!\()", reaches=True
)

rule = Rule("GG105", "carried-state", Severity.ERROR, (*STORING, (_CARRIES, LOOP)))


@rule.in_source
def carries(function: Function) -> Iterator[Finding]:
    for store in function.leaking_stores():
        if store.form is Form.REBIND and not store.is_average and not store.parameter:
            yield rule.finding(
                store.site,
                _message(store),
                help=f"detach {store.place} between iterations: `.detach()`, on each tensor where it is a tuple"
                + ("" if store.freed or store.retained else ", or run the loop under `torch.no_grad()`"),
                fix=_fix(function, store),
                confidence=store.confidence if _is_sure(store) else Confidence.LOW,
                related=store.origin(),
            )


def _fix(function: Function, store: Store) -> Fix | None:
    """Record nothing where nothing is trained; else cut the graph of what surely are tensors as an iteration ends."""
    loop = store.outlives
    if loop is None or store.inner is not None:
        return None
    if not (store.freed or store.retained):
        needed = function.needs_gradients_around(loop)
        return None if needed else function.without_grad() or function.run_without_grad(loop.site)
    names = _tensors(store)
    is_plain = bool(names) and all(name.removeprefix("self.").isidentifier() for name in names)
    if function.grad_calls or function.gradients_wanted or not is_plain:
        return None  # the next gradient may be asked of it
    return last_in_loop(loop, f"{', '.join(names)} = {', '.join(f'{name}.detach()' for name in names)}")


def _tensors(store: Store) -> list[str]:
    """What is bound, with what goes into the same call beside it, as a LSTM has it: ``lstm(x, (h, c))``."""
    name = in_method(store.path)
    value = store.site.node.value if isinstance(store.site.node, t.Assign) else None
    given = [arg.value for arg in value.args] if isinstance(value, t.Call) else []
    for arg in given:
        names = [t.path_of(item) or "" for item in arg.items] if isinstance(arg, t.Display) else []
        if name in names:
            return names
    return [name] if store.is_tensor is True else []


def _is_sure(store: Store) -> bool:
    """Whether a backward in the loop shows the graph, or a call takes the state and gives the next one.

    Of fourteen others that were read in public code, nine were no leak (docs/accuracy.md). What is only put in another
    order in each iteration grows by little, if it has a graph at all.
    """
    trains = store.freed or store.retained or store.outlives_call
    return (trains or (store.is_recurrent and not store.may_be_cut())) and not store.is_rearranged


def _message(store: Store) -> str:
    each = "call" if store.outlives is None else "iteration"
    return (
        f"{store.place} is input and output of each {each}, and carries the graph of all earlier ones ({store.keeps})"
    )


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "graph" and leak.form == "carried"

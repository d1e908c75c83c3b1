"""A value is stored together with its graph, where it outlives the iteration.

**What happens.** A list, dict, attribute or global that lives longer than the iteration keeps whatever is put into it,
and a tensor that carries a graph keeps the whole graph: `losses.append(loss)`, `history["loss"].append(loss)`,
`outputs[step] = model(x)`, `self.losses.append(...)`, `bank = torch.cat([bank, features])`, `weights[i] = loss`.

After `loss.backward()` only the graph's nodes stay (kilobytes a step, on the host). Where no backward ran over the
graph, or with `retain_graph=True`, all its activations stay (megabytes a step, on the device).

So it is with the keys of a dict: a tensor is told apart by its identity, so `counts[cell] += 1` makes a new entry for
each tensor, and keeps it. Key it by numbers: `counts[tuple(cell.tolist())]`.

`torch.no_grad()` around the store changes nothing: no new graph is recorded there, and none that is there is cut.

An object that is filled after it was put into a list is in the list all the same: `rows.append(row)`, then
`row["loss"] = loss`.

What is taken out under another key than it was stored under stays, too: `kept[f"epoch-{n}"].append(loss)` and
`kept.pop(state.epoch, None)`.
So does what only seems to be emptied: `self.terms = []` in a model binds its own attribute, not that of its layers, and
`self.valid_metrics.reset()` resets another tracker than `self.train_metrics`.

So does what a context manager takes out after its `yield`, where the block raises an error that a loop lets pass:
`SCOPES.append(scope)`, `yield scope`, `SCOPES.pop()`. Put the `yield` into a `try`, the last into its `finally`.

So does what a decorator keeps of what its function gives, in a global, or in an object that is one:
`@prof.stage("loss")`, whose inner function has `self.spans.append((name, seconds, out))`.

So does the `ctx` of an `autograd.Function`: `Quantize.calls.append(ctx)`. It is the node of the graph itself, which has
the nodes below it, what was put on it, and before a backward what it has saved. Keep a number of it.

```python
history = []
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    history.append(loss)
```

**Instead**, store the value without the graph: `loss.detach()`, or `loss.item()` for a number. In an evaluation put
the loop under `torch.no_grad()`.

**Severity.** An error where activations stay, a warning where backward freed them and only the nodes stay.

**Not flagged.** A list that is backpropagated later (log-probabilities of an episode, losses of several heads), that is
cleared or rebound in the same iteration, that is made in the iteration, that is a `deque(maxlen=...)`, or that another
method clears. The list of layer outputs that a `forward` returns. Parts of a module, gone through once; agents or
models, each of which has its optimizer step in its own iteration. What a flag has a function keep (`run(loader,
keep_outputs=True)`), where every call that sets it so is under `torch.no_grad()`.

**Waits at low confidence.** What a loop collects that neither trains nor goes over batches, nor reads a file for each
item of an evaluation: rollouts, samplers. Unit tests. A loop that runs once unless somebody asks for more. What takes
the place of the one before for each of some objects: `latest[update.client] = loss`, or `self.losses[i] = loss` where
`self.graphs[i]` is used. An evaluation for torch 0.3, whose batches may be `volatile`.

**References.** <https://pytorch.org/docs/stable/notes/faq.html>, facebookresearch/fairseq#2255,
Lightning-AI/pytorch-lightning#15514.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Leak, Severity
from gradguard.signs import STORING, sign
from gradguard.static.fixes import store_advice
from gradguard.static.model import Form, Function, Store

_MANAGER = sign("contextmanager", pattern=r"@[^\n]*contextmanager\b", own=True)
_OF_FUNCTION = sign("Function)", "autograd.Function", own=True)
_ADDING = sign(".append", ".add(", ".insert(")
rule = Rule("GG104", "stored-graph", Severity.ERROR, (*STORING, (_MANAGER,), (_OF_FUNCTION, _ADDING)))

_FORMS = (Form.APPEND, Form.ITEM, Form.CONCATENATE, Form.IN_PLACE)


@rule.in_source
def stores(function: Function) -> Iterator[Finding]:
    yield from _left_by_errors(function)
    yield from _contexts(function)
    for store in function.leaking_stores():
        if store.form in _FORMS and not store.is_average and not store.parameter:
            yield rule.finding(
                store.site,
                _message(store),
                help=_help(store),
                fix=store_advice.detach(store),
                severity=Severity.WARNING if store.freed else Severity.ERROR,
                confidence=store.confidence if _is_sure(function, store) else Confidence.LOW,
                related=(*store.only_named_anew(), *store.origin()),
            )


def _left_by_errors(function: Function) -> Iterator[Finding]:
    for left in function.mistakes.kept.left_by_errors():
        yield rule.finding(
            left.site,
            f"`{left.path}` keeps this, and what is put into it, where the block raises: no line behind `yield` runs",
            help="put the `yield` into a `try`, and take it out in its `finally`",
            severity=Severity.WARNING,
            related=(left.raising.related("this error leaves the block, and a loop goes on after it"),),
        )


def _contexts(function: Function) -> Iterator[Finding]:
    for kept in function.mistakes.kept.kept_contexts():
        yield rule.finding(
            kept.site,
            f"`{kept.path}` keeps every `{kept.context}`, which is the node of the graph, and has those below it",
            help=f"keep what is needed of `{kept.context}`, as a number, or only the last few",
            severity=Severity.WARNING,
        )


def _is_sure(function: Function, store: Store) -> bool:
    """Whether it is collected where something is trained, or over batches; in an evaluation, over pairs or files.

    Elsewhere, in rollouts and samplers, 7 of 41 that were read in public code were wrong (docs/accuracy.md).
    """
    loop = store.outlives
    around = list(loop.around()) if loop is not None else []
    over_batches = any(each.over_loader or (each.evaluates and each.over_pairs) for each in around)
    over_batches = over_batches or (loop is not None and loop.evaluates and loop.over_files())
    return loop is None or loop.trains or (over_batches and not function.is_among_tests)


def _help(store: Store) -> str:
    without = "" if store.freed or store.is_kept_as_key else ", or run the loop under `torch.no_grad()`"
    return store_advice.instead(store, "store") + without + store_advice.grows_all_the_same(store)


def _message(store: Store) -> str:
    longer = "the call" if store.outlives is None else "the iteration"
    kept = f"keeps the graph of every `{store.value_code}` put into it ({store.keeps})"
    return f"{store.place} outlives {longer} and {kept}"


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "graph" and leak.form in ("append", "assign", "index")

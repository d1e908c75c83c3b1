"""An evaluation loop that records graphs which nobody uses.

**What happens.** `model.eval()` changes dropout and batch normalisation; it does not stop autograd. Without
`torch.no_grad()` each forward pass records a graph and saves its activations. By itself this is not a growing leak: the
graph of a batch dies when the next one replaces it, so the peak is about twice as high, and flat. It becomes one as
soon as an output or a loss is kept: then *every activation of every batch* stays (see GG103 and GG104), which is the
largest of all these leaks.

```python
model.eval()
for x, y in loader:
    output = model(x)
    correct += (output.argmax(1) == y).sum().item()
```

**Instead**, put the loop under `torch.no_grad()` (or `torch.inference_mode()`), or decorate the function:

```python
@torch.no_grad()
def evaluate(model, loader): ...
```

Where one function trains or evaluates as it is told (`run_epoch(loader, train=False)`, an optimizer that is None), the
call that evaluates is flagged: make it under `torch.no_grad()`, or begin the loop's body with
`with torch.set_grad_enabled(train):`.

So is the model in a loop over phases (`for phase in ("train", "val")`) of which only the training's goes on to
`backward()`.

So is a mode that is to be off for the evaluation, and asks for a word that never comes:
`torch.set_grad_enabled(phase != "val")`, where the phases are "train" and "valid".

So is the loop that takes its batches from the data to evaluate on (`x, y = data.next_valid_batch()`), or plays in the
environment to evaluate in (`eval_env.step(action)`), and what runs, in whatever function, a model that the file's own
statements put into evaluation mode, or that a helper gives so (`net, data = load(path)`).

A function that is named as an evaluation (`predict`, `test`) is one too where it goes over slices of its data or takes
its samples by number (`image = dataset.pull_item(i)`), or plays in an environment, and the graph stays in it, or
in the method that runs the model: only numbers leave it.

A function that puts a model into evaluation mode and runs it once, on all nodes of a graph or on one sample, is told
where a loop calls it and only numbers leave it.

A `no_grad` holds for its own thread: what a pool of threads runs under it (`pool.submit(self.encode, x)`) records its
graphs all the same. Put it into the function. And it holds while its block runs: a generator that is returned out of
it, `with torch.no_grad(): return (model(x) for x in xs)`, runs the model later, when somebody goes through it, with
graphs; so it does out of a function that is decorated. Return a list, or `yield` in a function that is decorated.

**Not flagged.** A loop that needs gradients (training under `model.eval()` with frozen batch norm, adversarial attacks,
MAML, energy models); a model whose parameters were all frozen, or whose `forward` runs everything without gradients, or
that is told so (`net(x, no_grad=True)`); inputs that are `volatile` (torch 0.3, where that was `no_grad`; since 0.4 it
does nothing, which counts where the program shows that it is of that time, as by `loss.item()`); a function that is
only called under `no_grad`, or by one that runs a backward over what it returns (a trainer's `_predict`); Lightning's
`validation_step` and the like, which the framework runs without gradients; a model of another library, in a file that
imports torch too; an output that NumPy gets as it is (`net(x).numpy()` raises where there is a graph: all is frozen
somewhere); a loss that weighs its terms by their gradients, or is given a weight of the model for that.

**Waits at low confidence.** A call beside a part of the loop that is under `no_grad`, or that a flag picks over the
same call under `no_grad` (`predict(x, eval=False)`); what a function returns with its graph, unless it is named as an
evaluation: an objective with dropout switched off. What is named as a model, and may be an object of the program that
runs one without gradients (`policy.forward(x)`), or none: `evaluate(Baseline(word_vectors))`. A method that nobody
calls, of a class whose base comes from a package that cannot be read: that may call it under `no_grad`. Unit tests,
which run a model a few times.

**References.** <https://pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Fix, Related, Severity
from gradguard.signs import (
    EVALUATION,
    EVALUATION_LOOP,
    LOADER,
    LOOP,
    MAY_TRAIN,
    PUTS_INTO_EVALUATION,
    TRAINING,
    sign,
)
from gradguard.static.knowledge import EVALUATION_FUNCTION
from gradguard.static.model import Forward, Function, Loop, Mode, Site

_TURNS_OFF = sign("no_grad", "inference_mode", own=True)
_GIVES_GENERATOR = sign("return (", "return(", pattern=r"\breturn ?\((?s:.{1,400}?)\bfor\s", own=True, across=True)
_BY_WORD = sign(
    "set_grad_enabled(", "inference_mode(", pattern=r"\b(?:set_grad_enabled|inference_mode)\(\s*\w", own=True
)
rule = Rule(
    "GG301",
    "eval-without-no-grad",
    Severity.WARNING,
    (
        (TRAINING, LOOP),
        (MAY_TRAIN, LOOP),
        (EVALUATION_LOOP, LOOP),
        (EVALUATION, LOADER, LOOP),
        (PUTS_INTO_EVALUATION,),
        (_TURNS_OFF, _GIVES_GENERATOR),
        (_BY_WORD,),
    ),
)


@rule.in_source
def records_for_nothing(function: Function) -> Iterator[Finding]:
    yield from _in_loops(function)
    yield from _in_calls(function)
    yield from _in_phases(function)
    yield from _once(function)
    yield from _put_off(function)
    yield from _by_word(function)


def _put_off(function: Function) -> Iterator[Finding]:
    """A generator out of a block without graphs, of which nothing runs before the block is left."""
    for forward in function.mistakes.evaluation.put_off():
        if not function.called_without_grad():
            yield rule.finding(
                forward.site,
                "this runs when somebody goes through the generator, outside of the `no_grad` around it: with graphs",
                help="return a list, or write a function with `yield` and decorate it with `torch.no_grad()`",
                confidence=Confidence.LOW if _is_run_by_others(function) else Confidence.HIGH,
            )


def _by_word(function: Function) -> Iterator[Finding]:
    """A mode that is to be off for the evaluation, by a word that never comes: ``set_grad_enabled(phase != "val")``."""
    for each in function.mistakes.evaluation.awaited_words():
        words, awaited = (" or ".join(f'"{word}"' for word in some) for some in (each.words, each.awaited))
        yield rule.finding(
            each.site,
            f"`{each.name}` is {words} here, and never {awaited}: the evaluation records its graphs as well",
            help=f'ask for the word of the training: `torch.set_grad_enabled({each.name} == "{each.trained[0]}")`',
        )


def _in_loops(function: Function) -> Iterator[Finding]:
    for loop in function.loops:
        forward = _recording(function, loop)
        if forward is None or (loop.parent is not None and _recording(function, loop.parent) is forward):
            continue
        if function.needs_gradients_around(loop) or function.backpropagates(forward) or function.called_without_grad():
            continue
        if function.returns_graph_of(forward) and function.callers_backpropagate(function):
            continue  # a trainer's `_predict`, named so by the template that calls it and trains
        if function.mistakes.evaluation.calls_seeker():
            continue  # a loss that weighs its terms by their gradients
        trains = function.returns_graphs_besides(loop)
        yield rule.finding(
            forward.site,
            "evaluation records a graph: each forward pass saves its activations for a backward that never comes",
            help=_in_thread(forward)
            or "run the loop under `torch.no_grad()`" + (", or decorate the function with it" if not trains else ""),
            fix=_fix(function, loop.site, forward, whole=not trains),
            confidence=Confidence.HIGH if _is_sure(function, forward, loop) else Confidence.LOW,
            related=_inside(forward),
        )


def _in_calls(function: Function) -> Iterator[Finding]:
    """A function that trains or evaluates, as it is told, and evaluates: ``run_epoch(val_loader, train=False)``."""
    seen: set[object] = set()
    modules = {forward.site.node for forward in function.forwards if forward.inner is None}
    for forward in function.forwards:
        if forward.site.node in modules:
            continue  # its loops are over layers
        if not _records_in_callee(forward) or forward.source.site.node in seen:
            continue
        if function.gradients_wanted or function.backpropagates(forward) or function.called_without_grad():
            continue
        seen.add(forward.source.site.node)
        yield rule.finding(
            forward.site,
            "this call evaluates and records a graph: each forward pass in it saves its activations for a backward "
            "that never comes",
            help=_in_thread(forward) or "make the call under `torch.no_grad()`",
            fix=_fix(function, forward.site, forward, whole=False),
            confidence=Confidence.LOW
            if function.returns_graph_of(forward) or _is_run_by_others(function) or _may_be_volatile(forward)
            else Confidence.HIGH,
            related=_inside(forward),
        )


def _in_phases(function: Function) -> Iterator[Finding]:
    """``for phase in ("train", "val")`` around a loop of which only the training's batches are backpropagated."""
    for loop in function.loops:
        forward = loop.recorded_in_vain
        if forward is None or function.called_without_grad():
            continue
        yield rule.finding(
            forward.site,
            "an evaluation has its turn in this loop, and records a graph: each forward pass saves its activations for "
            "a backward that never comes",
            help='run it under `with torch.set_grad_enabled(phase == "train"):`, with the condition of the backward',
            confidence=Confidence.LOW
            if forward.leaves or _is_run_by_others(function) or loop.may_be_volatile()
            else Confidence.HIGH,
        )


def _once(function: Function) -> Iterator[Finding]:
    """What puts a model into evaluation mode and runs it once, in each iteration of a loop that calls it."""
    forward = function.mistakes.evaluation.evaluated_once()
    if forward is None or function.called_without_grad():
        return
    yield rule.finding(
        forward.site,
        "this evaluation records a graph, each time it is called: its activations are saved for a backward that never "
        "comes",
        help="run it under `torch.no_grad()`, or decorate the function with it",
        fix=_fix(function, forward.site, forward, whole=True),
        confidence=Confidence.LOW if _is_run_by_others(function) or forward.may_record_nothing() else Confidence.HIGH,
    )


def _fix(function: Function, part: Site, forward: Forward, *, whole: bool) -> Fix | None:
    """Decorate the function, or else put a part of it under ``no_grad``."""
    if forward.run_by_thread is not None:
        return None
    return (function.without_grad() if whole else None) or function.run_without_grad(part)


def _in_thread(forward: Forward) -> str | None:
    """What to do where another thread runs it: a ``no_grad`` here does not reach that."""
    function = forward.run_by_thread
    return f"switch gradients off in `{function}`: another thread runs it, in a mode of its own" if function else None


def _may_be_volatile(forward: Forward) -> bool:
    """Whether it is run on what torch 0.3 may record nothing of, as far as the loop that it is in tells."""
    loop = forward.source.loop
    return loop is not None and loop.may_be_volatile()


def _is_run_by_others(function: Function) -> bool:
    """Whether a test runs it, or a framework may, which is to say in what mode."""
    return function.is_among_tests or function.is_left_to_others()


def _inside(forward: Forward) -> tuple[Related, ...]:
    """Where the module is called, if that is in a function that is called here."""
    site = forward.source.site
    return (site.related("the forward pass"),) if forward.inner is not None else ()


def _records_in_callee(forward: Forward) -> bool:
    """Whether a loop of the function that is called runs a model with a graph, which was put into evaluation mode."""
    inner = _below(forward)
    if inner is None or inner.loop is None or inner.is_in_loop_of_callee:
        return False
    if not forward.is_evaluated or forward.is_foreign or forward.is_frozen:
        return False
    loop, records = inner.loop, forward.mode in (Mode.INHERITED, Mode.ON) and not _is_left_alone(inner)
    reported_there = loop.evaluates and not loop.trains_otherwise
    return records and not (reported_there or loop.needs_gradients or loop.steps)


def _below(forward: Forward) -> Forward | None:
    """What the function that is called runs; where it only hands on what it is told, what that one runs."""
    inner = forward.inner
    while isinstance(inner, Forward) and inner.is_as_told and inner.loop is None:
        inner = inner.inner
    return inner if isinstance(inner, Forward) else None


def _is_left_alone(forward: Forward) -> bool:
    """Whether a module call needs no ``no_grad`` (it is frozen, or none of torch's), or may not bear it (it adapts)."""
    return forward.is_frozen or forward.is_foreign or forward.may_learn_itself


def _is_sure(function: Function, forward: Forward, loop: Loop) -> bool:
    """Whether it is an evaluation, whose graph nobody asks for.

    Where another part of the loop is under ``no_grad``, this one may not need it, and where a flag picks between the
    two, it is wanted so; and what a function returns that is not named as an evaluation, its caller may hand to
    backward: an ELBO, with dropout switched off.
    """
    if forward.is_picked or _is_run_by_others(function) or loop.may_be_volatile() or _may_be_volatile(forward):
        return False
    if not forward.is_shown and forward.inner is None and forward.may_record_nothing():
        return False
    returned = function.returns_graph_of(forward) and EVALUATION_FUNCTION.search(function.name) is None
    return not returned and (forward.is_shown or not loop.turns_grad_off)


def _recording(function: Function, loop: Loop) -> Forward | None:
    """The first module call that records a graph in an evaluation loop."""
    if loop.needs_gradients or loop.steps or not (loop.evaluates or loop.evaluates_by_name):
        return None
    records = (f for f in loop.forwards if f.mode in (Mode.INHERITED, Mode.ON) and not _is_left_alone(f))
    recorded = (f for f in records if not function.gives_to_numpy(f))
    if not loop.evaluates:  # what leaves the function may be trained elsewhere
        return next((f for f in recorded if not f.leaves and not f.is_in_loop_of_callee), None)
    shown = (f for f in recorded if f.inner is None or ((f.is_evaluated or f.of_method) and not f.is_in_loop_of_callee))
    return next(shown, None)

"""A model's state is kept without a copy: the training goes on in it.

**What happens.** `model.state_dict()` has the very tensors of the model, not copies of them. The steps that come change
them in place, so that the "best" state of epoch 3 is the last one by the time that it is loaded or saved: to load it
into its own model does nothing at all. Nothing raises, and early stopping, or a search for a learning rate that begins
each trial from the same weights, does not do what it is there for.

```python
if val_loss < best:
    best, best_state = val_loss, model.state_dict()         # no copy
...
model.load_state_dict(best_state)                           # the weights of the last step
```

So it is with a dict that has it, `best = {"epoch": epoch, "model": model.state_dict()}`, and with the model itself,
`best_model = model`: that is another name for it. A list of such states has the same one each time, also where it is
one worker that each client begins anew, `worker.load_state_dict(start)`, and trains.

A shallow copy of a model, `target = copy.copy(net)`, has its parameters as well: to load the state of the one into the
other changes nothing, and a target network that is made so never lags behind.

The weights that a penalty compares with are to be copied as well: `anchor[name] = p.detach()` has the memory of the
weight, so that `(p - anchor[name]) ** 2` is always 0 (in EWC, in FedProx). So are those of an average of the weights:
`shadow[name].lerp_(p, 0.01)` of `shadow[name] = p.detach()` mixes the weights with themselves, and the average is
always the model.

**Instead**, copy it, `copy.deepcopy(model.state_dict())` (a `.copy()` of the dict has the same tensors), or save it
right away, `torch.save(model.state_dict(), path)`:

```python
best_state = {name: value.clone() for name, value in model.state_dict().items()}
```

**Not flagged.** A copy; a state that is loaded into another model; one that is filled from other weights before it is
loaded; one that is taken of the last epoch, whatever that was; the best, or a list, of several models, each of which is
made, or taken from somewhere, in the loop; a loop that ends right there; one that is saved at once, where another one
is at its place by the next use; a model that no optimizer has; the state of an optimizer, or of a scheduler; a shallow
copy of which some part is then replaced, or that nothing brings to what the model is.

**References.** <https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html>, where it says that
`best_model_state = model.state_dict()` is a reference to the state and not its copy.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import ACTS, BACKWARD, sign
from gradguard.static.fixes.edits import one_line, with_call
from gradguard.static.fixes.rewrites import copied
from gradguard.static.mistakes.optimizers import LiveState
from gradguard.static.model import Function
from gradguard.static.source import Site

_KEEPS = sign("state_dict", pattern=r"(?:[=:]|append\()[^\n=]*\.state_dict\(\s*\)", own=True)

_BEST = sign(
    "best", "Best", "BEST", "better", "Better", "improve", "Improve",
    pattern=r"(?i:best|better|improve)[^\n=]*=[^=]",
    own=True,
)  # fmt: skip

_COPIES = sign("copy(", pattern=r"(?<![\w.])(?:copy\.)?copy\(\s*[\w.]+\s*\)", own=True)
_SETS = sign("load_state_dict", ".parameters(", ".named_parameters(")

_ANCHORS = sign(
    ".detach(", ".data", " for ",
    pattern=r"(?:\]\s*=|\w:|append\(|\[)\s*\w+(?:(?:\.detach\(\)|\.data\b)+|\s+for\b)",
    own=True, across=True,
)  # fmt: skip
_OF_MODEL = sign("parameters(")

_SHOWN = ((_KEEPS,), (BACKWARD, ACTS, _BEST), (_COPIES, _SETS), (_ANCHORS, _OF_MODEL))

rule = Rule("GG217", "live-state", Severity.WARNING, _SHOWN)


@rule.in_source
def goes_on(function: Function) -> Iterator[Finding]:
    for state in function.mistakes.optimizers.live_states():
        if state.value is not None and state.used is not None:
            yield _anchor(state, state.value, state.used)
            continue
        used = () if state.used is None else (state.used.related(_USED[state.is_shallow]),)
        what = f"`{state.kept}` is no copy: the steps that come change it with `{state.model}`"
        if state.is_one_of_several:
            what = f"`{state.kept}` has no copies: all that is in it is `{state.model}` as the last step leaves it"
        if state.is_shallow:
            what = f"`{state.kept}` has the very parameters of `{state.model}`: each step changes both"
        yield rule.finding(
            state.site,
            what,
            help=f"keep `copy.deepcopy({state.taken})`",
            fix=copied(state),
            related=used,
        )


def _anchor(state: LiveState, value: Site, used: Site) -> Finding:
    """``anchor[name] = p.detach()``, and ``(p - anchor[name]) ** 2``, or ``anchor[name].lerp_(p, 0.01)``, later."""
    call = "clone()" if value.code.endswith((".detach()", ".data")) else "detach().clone()"
    return rule.finding(
        value,
        f"`{state.kept}` has no copies: each step changes what is in it with the weights of `{state.model}`",
        help=f"keep `{one_line(value.code)}.{call}`",
        fix=with_call(value, call),
        related=(used.related(_SAME[state.is_averaged]),),
    )


_USED = {False: "by then it is as the last step has left it", True: "this changes nothing: they are the same tensors"}
_SAME = {False: "this is always 0: both are the same memory", True: "this mixes the weights with themselves"}

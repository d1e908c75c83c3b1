"""A loss is computed with a method that is decorated with `no_grad`, and nothing else runs what that runs.

**What happens.** A method for an evaluation, or for the index of a search, is decorated with `@torch.no_grad()`. The
training loss calls it as well, since it computes just what is needed there. What it gives has no graph: the loss has
one through the other parts of the model, so backward works, and the optimizer, which has all parameters, passes by
those that get no gradient. They stay as they were drawn, and nothing raises.

```python
@torch.no_grad()
def encode_items(self, ids):            # for the index
    return self.items(ids)

def loss(self, users, items):
    u = self.users(users)
    v = self.encode_items(items)        # trains `users` alone
    return F.cross_entropy(u @ v.T, torch.arange(len(u)))
```

So it is with an object that has been given a network, `conditioner.encode(ids)` of `Conditioner(encoder)`, where the
optimizer is given `encoder.parameters()` and the method is decorated.

**Instead**, run the module itself where it is to be trained, and let the evaluation turn gradients off:

```python
v = self.items(items)
```

**Not flagged.** A part that something else runs with its graph, or that anybody besides its module knows; one that is
fixed by its name (a target, a teacher, features); a program that moves weights otherwise (`copy_`, `.data`, averages),
freezes some, or gives its optimizer the other parts only; a block under `with torch.no_grad()`, which stands where it
is meant; what no loss is computed of. Where the program loads weights, they may be those of this part: that is reported
with low confidence.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

# A method, which is none to begin with weights, or to generate, and is called by its name.
_DECORATED = sign(
    "no_grad", "inference_mode",
    pattern=r"@(?:\w+\.)*(?:no_grad|inference_mode)\b[^\n]*\n(?:[ \t]*@[^\n]*\n)*"
    r"[ \t]*def (?!_*init|generate|reset|forward\b)\w+\(\s*self\b",
    across=True,
)  # fmt: skip
_MODULE = sign("Module")
_CALLS = sign("self.", ".", pattern=r"=[^\n=]*\b\w+\.\w+\(", own=True)
_MEASURES = sign("loss", "Loss", "entropy", "criterion", "backward", "mse", "nll", own=True)

# A training that calls a method of an object, whose file may be another one.
_ASKS = sign("parameters()", pattern=r"\b(?:named_)?parameters\(\)")
_BACKWARD = sign("backward", pattern=r"\.backward\(|\bbackward\(", own=True)

rule = Rule(
    "GG237",
    "never-recorded",
    Severity.ERROR,
    ((_DECORATED, _MODULE, _CALLS, _MEASURES), (_ASKS, _CALLS, _BACKWARD)),
)


@rule.in_source
def is_run_without_gradients(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.losses.never_recorded():
        yield rule.finding(
            each.site,
            f"`{each.method}` runs `{each.part}` without gradients, and nothing else does: the loss does not train it",
            help=f"run `{each.part}` itself here, and turn gradients off where `{each.method}` is called to evaluate",
            confidence=Confidence.HIGH if each.is_sure else Confidence.LOW,
            related=(
                each.decorated.related("this method is under `no_grad` as a whole"),
                each.made.related(f"`{each.part}` is made here, with parameters to be trained"),
            ),
        )

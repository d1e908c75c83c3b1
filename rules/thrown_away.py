"""A model is run with a graph, and all that is used of it is numbers without one.

**What happens.** A model that is asked for something, an action, a sample, a prediction, records the whole graph of the
call, with all activations that a backward would need; then `.data`, `.detach()`, `.item()` or `argmax()` takes the
numbers and throws it away. What is computed is right. But the activations of all layers are in memory at once until the
call is over (measured with torch 2.13: twenty linear layers of width 1024 on a batch of 4096 take 336 MB at their peak,
and 34 MB under `no_grad`), and recording takes its time.

```python
def select_action(self, state):
    return self.net(state).argmax(1).item()
```

**Instead**, record nothing:

```python
@torch.no_grad()
def select_action(self, state):
    return self.net(state).argmax(1).item()
```

**Told** of models in evaluation mode, in functions that are named so (`predict`, `sample`, `select_action`), on data
that are held out (`test_x`) and in scripts that load weights, where each use of what the call gives is seen in its
function, under whatever local names, and each one takes numbers, or looks at its shape.

**Not flagged.** What GG305 tells of: a network that runs in a training for nothing; a `detach()` beside a training
otherwise, which may stand there to be seen; what is returned, kept, or given to something with its graph, or a backward
goes through; a function that some caller runs under `no_grad`, or may (a method of a name that many call); a `forward`,
and whatever runs in a loop that evaluates (see GG301); a model that is given what has a graph: the graph is that one's;
what is made an array of without a `detach()`: NumPy refuses what has a graph (see GG302); programs that freeze
parameters anywhere, switch gradients off for good, or have a `forward` that computes gradients itself; what is named as
a loss, a metric or a fixed network; what a script runs once, outside of a loop, without weights that it loads: to try
it; unit tests.

**Waits at low confidence.** A method that nobody calls, of a class whose base comes from a package that cannot be read.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html>,
<https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_TAKES_NUMBERS = sign(
    ".data", ".detach", ".item(", ".tolist(", "argmax", "argmin",
    pattern=r"\.(?:(?<!utils\.)data\b|detach_?\(|item\(|tolist\(|argmax\(|argmin\()",
    own=True,
)  # fmt: skip
_HAS_MODEL = sign("nn.Module", "nn.Sequential", "optim", "load_state_dict", ".eval(")
_ASKS = sign(
    "def ",
    pattern=r"\bdef\s+\w*(?i:eval|valid|test|infer|predict|sampl|generat|translat|reconstruct|interpol|visuali|plot|show|"
    r"demo|draw|act|select_|choose|greedy)\w*\s*\(",
    own=True,
)
_HELD_OUT = sign(
    "test", "val", "dev", "fixed", "view_",
    pattern=r"[(,=]\s*(?:\w+\.)*(?i:(?:x_|y_)?(?:test|val|valid|eval|dev|fixed|view)(?:_\w*)?|\w+_(?:test|val|valid))\s*[,)]",
    own=True,
)  # fmt: skip
_EVALUATED = sign(".eval(", pattern=r"\.eval\(\)")
_LOADS = sign("load_state_dict(")

rule = Rule(
    "GG308",
    "thrown-away-graph",
    Severity.INFO,
    (
        (_TAKES_NUMBERS, _ASKS, _HAS_MODEL),
        (_TAKES_NUMBERS, _HELD_OUT, _HAS_MODEL),
        (_TAKES_NUMBERS, _EVALUATED),
        (_TAKES_NUMBERS, _LOADS),
    ),
    shape="only numbers are used",
)


@rule.in_source
def throws_it_away(function: Function) -> Iterator[Finding]:
    thrown = function.mistakes.evaluation.thrown_away()
    if not thrown or function.may_be_called_without_grad():
        return
    once = function.mistakes.evaluation.evaluated_once()  # which GG301 tells
    told = {
        each.site.node for each in (*function.mistakes.backward.unused_graphs(), *((once,) if once is not None else ()))
    }
    is_run_by_others = function.is_among_tests or function.is_left_to_others()
    for forward in (each for each in thrown if each.site.node not in told):
        yield rule.finding(
            forward.site,
            f"`{forward.module}` records a graph here that is thrown away: only numbers without it are used",
            help="run it under `torch.no_grad()`",
            confidence=Confidence.LOW if is_run_by_others else Confidence.HIGH,
        )

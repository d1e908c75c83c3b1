"""An update by hand binds the variable of its loop anew: no parameter is changed.

**What happens.** `p = p - lr * p.grad` makes a new tensor and gives it the name `p`. In a loop over parameters that
name is bound to the next parameter right after, and the new tensor is gone: the model keeps the weights that it had.
Nothing raises, and the loss stays where it is, or moves by what else is trained.

```python
with torch.no_grad():
    for p in model.parameters():
        p = p - lr * p.grad                             # the weights stay as they are

for p in critic.parameters():
    p = p.clamp(-0.01, 0.01)                            # they are not clipped

for slow, fast in zip(target.parameters(), net.parameters()):
    slow = tau * fast + (1 - tau) * slow                # the target network never moves
```

**Instead**, change the tensor itself:

```python
with torch.no_grad():
    for p in model.parameters():
        p -= lr * p.grad
    for p in critic.parameters():
        p.clamp_(-0.01, 0.01)
    for slow, fast in zip(target.parameters(), net.parameters()):
        slow.lerp_(fast, tau)
```

**Not flagged.** What is done in place (`p -= ...`, `p.data = ...`, `p.mul_(0.9)`); a new tensor that something takes:
it is appended, stored, given away or read in any other way; loops over what may be no parameters.

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-operations-with-autograd>,
<https://docs.pytorch.org/tutorials/beginner/pytorch_with_examples.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static import tree as t
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function
from gradguard.static.source import Site

# A name of a loop, over parameters or beside a gradient, that is bound anew in the lines below.
_BINDS_ANEW = sign(
    "param", "Param", ".grad",
    pattern=r"\bfor[ \t]+\(?(?:\w+,[ \t]*)*(\w+)(?:,[ \t]*\w+)*\)?[ \t]+in\b[^\n]*:[ \t]*(?:#[^\n]*)?\n"
    r"(?:[^\n]*\n){0,12}?[ \t]+\1[ \t]*=[ \t]*[^=\s]",
    own=True,
    across=True,
)  # fmt: skip
_MOVING = frozenset("to cuda cpu float half double bfloat16 type".split())

rule = Rule("GG249", "rebound-update", Severity.ERROR, ((_BINDS_ANEW,),))


@rule.in_source
def changes_no_parameter(function: Function) -> Iterator[Finding]:
    for site in function.mistakes.optimizers.rebound_updates():
        stmt = site.node
        assert isinstance(stmt, t.Assign)
        name, value = t.path_of(stmt.targets[0]) or "", one_line(Site(site.chunk, stmt.value).code)
        yield rule.finding(
            site,
            f"this gives the name `{name}` to a new tensor, which nothing reads: no parameter is changed",
            help=_how(stmt.value, name, value),
        )


def _how(made: t.Expr, name: str, value: str) -> str:
    if isinstance(made, t.Call) and made.name in _MOVING:
        return f"call `{made.name}` of the module: it moves its parameters themselves"
    first = made.operands[0] if isinstance(made, t.Operation) else None
    if isinstance(made, t.Operation) and isinstance(first, t.Name) and first.id == name and len(made.operands) == 2:
        return f"`{name} {made.operator}= ...` under `torch.no_grad()` changes the parameter itself"
    return f"`{name}.copy_({value})` under `torch.no_grad()` changes the parameter itself"

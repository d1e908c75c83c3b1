"""`loss.backward` without its parentheses: the method is named, and not called.

**What happens.** A statement that only names a method looks it up and throws it away. Nothing raises. Without
`backward` the gradients are those of the last time, or none, and `optimizer.step()` passes over what has none; without
`optimizer.step` nothing is trained; without `zero_grad` every step takes the sum of all gradients so far; without
`model.eval` the evaluation runs with dropout.

```python
optimizer.zero_grad()
criterion(model(x), y).backward     # nothing is computed
optimizer.step()
```

**Instead**, call it: `criterion(model(x), y).backward()`.

**Not flagged.** A method that is given to something (`register(optimizer.step)`, `step = optimizer.step`), an attribute
of the same name of what is no optimizer, scaler, scheduler or model (`record.step`); a property, or a field, of a class
of the program; names in a `try` that waits for an `AttributeError`.

**References.** <https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

_NAMED = sign(
    "backward", "zero_grad", "detach_", "retain_grad", "requires_grad_", "empty_cache", "step", "update", "eval",
    "train",
    pattern=r"\.(?:backward|zero_grad|detach_|retain_grad|requires_grad_|empty_cache|step|update|eval|train)"
    r"[ \t]*(?:$|[#;\r])",
    own=True,
)  # fmt: skip

rule = Rule("GG212", "not-called", Severity.ERROR, ((_NAMED,),))


@rule.in_source
def only_names_it(function: Function) -> Iterator[Finding]:
    for site in function.mistakes.backward.uncalled():
        code = one_line(site.code)
        yield rule.finding(
            site,
            f"`{code}` is named here and not called: this statement does nothing",
            help=f"write `{code}()`",
            fix=Fix(f"call `{code}`", (site.replace(f"{site.code}()"),), safe=False),
        )

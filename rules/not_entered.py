"""`torch.no_grad()` as a statement: the mode is made, and not entered.

**What happens.** `torch.no_grad()` makes an object; gradients are off from when `with` enters it until its block ends.
A statement that only makes one throws it away: all that comes after it records its graphs as before, and an evaluation
that was to save that memory takes twice as much. Nothing raises (measured with torch 2.13: `torch.is_grad_enabled()`
stays True). So it is with `torch.inference_mode()` and `torch.enable_grad()`.

```python
model.eval()
torch.no_grad()                     # changes nothing
for x, y in loader:
    hits += (model(x).argmax(1) == y).sum().item()
```

**Instead**, enter it:

```python
model.eval()
with torch.no_grad():
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
```

**Not flagged.** `torch.set_grad_enabled(False)`, which works as a statement; a mode that is entered by `with`, or by
`stack.enter_context(...)`, that decorates, or is given to something; one in a `try`, which may only ask whether this
version of torch has it; a function of the program by that name.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.set_grad_enabled.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

_ALONE = sign(
    "no_grad", "inference_mode", "enable_grad",
    pattern=r"(?:(?m:^)[ \t]*|[:;][ \t]*)(?:\w+\.)*(?:no_grad|inference_mode|enable_grad)\b"
    r"[ \t]*(?:\([^()\n]*\)[ \t]*)?(?:$|[#;\r])",
    own=True,
)  # fmt: skip

rule = Rule("GG307", "not-entered", Severity.ERROR, ((_ALONE,),))


@rule.in_source
def only_makes_it(function: Function) -> Iterator[Finding]:
    for site in function.mistakes.evaluation.not_entered():
        code = one_line(site.code)
        yield rule.finding(
            site,
            f"`{code}` is a statement here and enters nothing: what comes after it runs as before",
            help=f"put what it is for into a block: `with {code if code.endswith(')') else code + '()'}:`",
        )

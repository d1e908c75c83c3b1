"""`retain_grad()` after the backward that it was meant for.

**What happens.** `h.retain_grad()` asks the *next* backward to leave the gradient of `h` in `h.grad`. After the only
backward it changes nothing: `h.grad` is None, with a warning or without one. What blog posts say of calling it "too
late", after later computation, is wrong: before backward is early enough (measured on torch 2.13).

```python
h = encoder(x)
head(h).sum().backward()
h.retain_grad()
print(h.grad)                   # None
```

**Instead**, call it before `backward()`. On a leaf it does nothing and is not needed.

**Not flagged.** `retain_grad()` before backward, also after later computation; a further backward that follows.

**References.** <https://pytorch.org/docs/stable/generated/torch.Tensor.retain_grad.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import ACTS, sign
from gradguard.static.fixes.line_edits import moved
from gradguard.static.model import Call, Function

rule = Rule("GG205", "retain-grad-after-backward", Severity.ERROR, ((sign("retain_grad"), ACTS),))


@rule.in_source
def comes_too_late(function: Function) -> Iterator[Finding]:
    for call in function.calls_of("retain_grad"):
        if call.too_late:
            yield rule.finding(
                call.site,
                f"`{call.receiver or 'the tensor'}.grad` stays None: every backward over it was before this line",
                help="call `retain_grad()` before `backward()`",
                fix=_fix(function, call),
            )


def _fix(function: Function, call: Call) -> Fix | None:
    """Move it before the backward, where there is one only."""
    earlier = [b for b in function.backwards if b.loop is call.loop and b.site.line < call.site.line]
    is_here = len(earlier) == 1 and earlier[0].inner is None and call.inner is None
    return moved(call.site, earlier[0].site) if is_here else None

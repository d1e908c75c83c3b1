"""One of the two terms of a symmetric loss detaches its target, and the other one does not.

**What happens.** Where each of two views is compared with the other one, the second side of each term is a target:
without `detach()` it is pulled towards the prediction as well, and all representations may become the same one (which
is what the stop-gradient of SimSiam is for). Where only one of the two terms has it, half of that happens. Nothing
raises, and the loss even falls faster.

```python
loss = distance(p1, z2.detach()) + distance(p2, z1)
```

**Instead**, treat both in the same way:

```python
loss = distance(p1, z2.detach()) + distance(p2, z1.detach())
```

**Not flagged.** Terms that are not the same but for the two views; two targets that are both detached, or neither;
a target that was detached before, or computed under `no_grad`; a function that detaches what it is given.

**References.** Chen and He, "Exploring Simple Siamese Representation Learning" (2020);
<https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import detached, one_line
from gradguard.static.model import Function

_CUTS = sign(
    ".detach()", pattern=r"\(\s*[\w.]+,\s*[\w.]+\.detach\(\)\s*\)|\(\s*[\w.]+\.detach\(\),\s*[\w.]+\s*\)", own=True
)

rule = Rule("GG233", "uneven-cut", Severity.WARNING, ((_CUTS,),))


@rule.in_source
def pulls_one_target(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.losses.uneven_cuts():
        live, cut = one_line(each.site.code), one_line(each.cut.code)
        edit = detached(each.site)
        yield rule.finding(
            each.site,
            f"`{live}` keeps its graph, and the other term has `{cut}`: only one of the two targets stays where it is",
            help=f"detach both, or neither: `{live}.detach()`",
            fix=Fix("detach it, too", (edit,), safe=False) if edit is not None else None,
            related=(each.cut.related("its twin is detached here"),),
        )

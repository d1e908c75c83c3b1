"""A custom `autograd.Function` keeps its output on `ctx`.

**What happens.** The output refers to its `grad_fn`, the `grad_fn` is the `ctx`, and `ctx.y = y` refers back to the
output: a cycle. Python's cyclic collector frees it, some time later: measured on torch 2.13, a saw-tooth of some 230
outputs, whether backward ran or not. A *view* of the output (`ctx.y = y.view(-1)`) is worse: `gc.collect()` does not
free it at all. Tensors on `ctx` also miss torch's check for values that were changed in place: the gradient is
silently wrong. `save_for_backward` knows both cases.

```python
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.y = y
        return y
```

**Instead**: `ctx.save_for_backward(y)`, and `y, = ctx.saved_tensors` in `backward`.

**Severity.** A warning: after a backward it is memory that comes back late, a saw-tooth.

**Not flagged.** Inputs, masks, shapes and flags on `ctx` (no cycle, though `save_for_backward` is the better place
for tensors), intermediate results that are not returned, attributes of an `nn.Module`.

**References.** <https://pytorch.org/docs/stable/notes/extending.html> ("save_for_backward"), pytorch#25340,
dmlc/dgl#1060.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Leak, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

rule = Rule("GG108", "output-on-ctx", Severity.WARNING, ((sign("Function)", "autograd.Function", own=True),),))


@rule.in_source
def keeps_its_output(function: Function) -> Iterator[Finding]:
    for site in function.mistakes.kept.kept_outputs():
        yield rule.finding(
            site,
            f"`{one_line(site.code)}` ties the output to its own graph: each call leaves a cycle, whose memory "
            "comes back only when the cyclic collector runs, and for a view of the output never",
            help="use `ctx.save_for_backward(...)`, and `ctx.saved_tensors` in backward",
        )


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "cycle" and leak.holder is not None and leak.holder.path.startswith("ctx.")

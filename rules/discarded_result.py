"""A method that gives a new tensor is called as a statement: it changes nothing.

**What happens.** `detach()`, `clamp()` and the like leave the tensor as it is, and give a new one. As a statement of
its own such a call does nothing: the state keeps its graph, the gradients are not clipped, the weights leave their
bounds. Nothing raises. What changes a tensor in place has an underscore at its end.

```python
for state in states:
    state.detach()                  # the graph stays
for p in model.parameters():
    p.grad.clamp(-1, 1)             # clips a copy, and drops it
    p.data.clamp(-0.01, 0.01)       # so does this
```

So does `torch.autograd.grad(loss, model.parameters())` in the place of a backward: it gives the gradients back, leaves
`.grad` as it was, and the `optimizer.step()` behind it has nothing to step with.

**Instead**, in place, or take what it gives:

```python
states = [state.detach() for state in states]
for p in model.parameters():
    p.grad.clamp_(-1, 1)
```

**Not flagged.** `detach()` of what is no tensor (a stream, a hook), or has no graph, as it was computed under
`no_grad`; arithmetic on what is neither a gradient nor the
data of a parameter, which may stand there to be timed; tests; what a notebook shows; a call with `out=`.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.Tensor.clamp_.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import TRAINING, sign
from gradguard.static import tree as t
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function
from gradguard.static.source import Site

_CALLED = sign(
    ".detach(", ".grad.", ".data.",
    pattern=r"(?m:^)[ \t]*(?:\w[^#\n=]*:[ \t]*)?[\w.\[\]'\"*-]*"
    r"\.(?:detach\(\)|(?:grad|data)\.(?:clamp|clip|clamp_min|clamp_max|mul|div|add|sub|nan_to_num)\()",
    own=True,
)  # fmt: skip

_GRADIENTS = sign("grad(", pattern=r"(?m:^)[ \t]*(?:\w+\.)*grad\(", own=True)

rule = Rule("GG219", "discarded-result", Severity.ERROR, ((_CALLED,), (_GRADIENTS, TRAINING)))


@rule.in_source
def drops_what_it_gives(function: Function) -> Iterator[Finding]:
    yield from _new_tensors(function)
    yield from _gradients(function)


def _gradients(function: Function) -> Iterator[Finding]:
    for call, step in function.mistakes.backward.dropped_gradients():
        yield rule.finding(
            call.site,
            "`autograd.grad` gives the gradients back, and nothing takes them: `.grad` stays as it is, and the step "
            "behind it has none to step with",
            help="call `backward()` on the loss: that fills `.grad`",
            related=(step.site.related("this step does nothing by it"),),
        )


def _new_tensors(function: Function) -> Iterator[Finding]:
    for site in function.mistakes.backward.discarded():
        call = site.node
        assert isinstance(call, t.Call)
        assert isinstance(call.func, t.Attribute)
        method, tensor = call.func.name, one_line(Site(site.chunk, call.func.value).code)
        kept = f"`{tensor}` keeps its graph" if method == "detach" else f"`{tensor}` stays as it is"
        in_place = f"{Site(site.chunk, call.func).code}_"
        yield rule.finding(
            site,
            f"`{method}` gives a new tensor, which nothing takes: {kept}",
            help=f"`{method}_` does it in place; or take what it gives, where the old one would be used",
            fix=Fix(f"call `{method}_`", (Site(site.chunk, call.func).replace(in_place),), safe=False),
        )

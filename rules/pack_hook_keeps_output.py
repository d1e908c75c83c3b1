"""A pack hook of `saved_tensors_hooks` returns the very tensor that it is given.

**What happens.** Some operations save their own output for the backward pass (`exp`, `sigmoid`, `tanh`, `softmax`).
torch saves such an output in a special way, so that the graph does not hold itself. A pack hook that returns its
argument undoes that: the output refers to its graph, the graph keeps what the hook returned, and that is the output.
The cycle runs through C++, where Python's cyclic collector does not see it. `backward()` ends it, since it frees what
was saved; a graph that is never handed to backward, or with `retain_graph=True`, stays for ever, with all behind it.

```python
def pack(tensor):
    sizes.append(tensor.numel())
    return tensor

with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
    loss = model(x).mean()
```

**Instead**: return something else that the tensor can be made from: `tensor.detach()`, a copy on the CPU, a file name.

**Severity.** A warning: it leaks where the graph is not backpropagated.

**Not flagged.** A pack hook that returns `tensor.detach()`, `tensor.cpu()`, a path or an index.

**Waits at low confidence.** A pack hook that returns only some tensors as they are: small ones, or parameters; one in a
function that calls backward, which may free all that was saved.

**References.** pytorch#189025, pytorch#115255,
<https://pytorch.org/docs/stable/autograd.html#torch.autograd.graph.saved_tensors_hooks>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Fix, Leak, Severity
from gradguard.signs import sign
from gradguard.static import tree as t
from gradguard.static.fixes.edits import with_call
from gradguard.static.model import Function, Site

rule = Rule(
    "GG111", "pack-hook-keeps-output", Severity.WARNING, ((sign("saved_tensors_hooks", own=True, reaches=True),),)
)


@rule.in_source
def returns_its_argument(function: Function) -> Iterator[Finding]:
    frees = any(not backward.keeps for backward in function.backwards)
    for call in function.calls_of("torch.autograd.graph.saved_tensors_hooks"):
        for site in call.packs_as_given if call.inner is None else ():
            here = call.site
            yield rule.finding(
                site,
                "the pack hook returns the tensor that it is given: an output that is saved holds its own graph, and "
                "without a backward nothing frees it",
                help="return `.detach()` of it, or what it can be made from again",
                fix=_fix(site),
                confidence=Confidence.LOW if call.packs_otherwise or frees else Confidence.HIGH,
                related=(here.related("the hooks are installed here"),),
            )


def _fix(site: Site) -> Fix | None:
    """Give back what has no graph."""
    node = site.node.value if isinstance(site.node, t.Return) else site.node
    return with_call(Site(site.chunk, node), "detach()") if isinstance(node, t.Name) else None


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "cycle" and leak.holder is not None and leak.holder.name == "saved_tensors_hooks"

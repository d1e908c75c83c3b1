"""What a pack hook puts away for the backward is never taken out again.

**What happens.** A pack hook of `saved_tensors_hooks` may put a tensor elsewhere (in host memory, on a disk) and return
a key by which the unpack hook finds it. The graph is freed after the backward, and the key with it; the dict is not.
With a new key for each tensor it has the activations of all steps.

```python
def pack(self, tensor):
    key = next(self.keys)
    self.kept[key] = tensor.to("cpu")
    return key

def unpack(self, key):
    return self.kept[key].to("cuda")            # and stays there
```

**Instead**, return the copy itself, which then lives as long as the graph, as `torch.autograd.graph.save_on_cpu` does;
or take it out: `self.kept.pop(key)`, where no graph is used twice; or empty the dict after each step:
`self.kept.clear()`.

**Not flagged.** Collections that something empties or begins anew, objects that each iteration makes, keys that come
again.

**References.** <https://docs.pytorch.org/tutorials/intermediate/autograd_saved_tensors_hooks_tutorial.html>,
<https://pytorch.org/docs/stable/autograd.html#torch.autograd.graph.save_on_cpu>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Related, Severity
from gradguard.signs import sign
from gradguard.static.mistakes.kept import PutAway
from gradguard.static.model import Function

rule = Rule(
    "GG415",
    "packed-and-kept",
    Severity.WARNING,
    (
        (sign("saved_tensors_hooks", own=True),),
        (sign("saved_tensors_hooks"), sign("__init__", own=True)),
    ),
)  # fmt: skip


def _read(each: PutAway) -> tuple[Related, ...]:
    return (each.read.related("it is read here, and stays"),) if each.read is not None else ()


@rule.in_source
def is_never_taken_out(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.put_away():
        yield rule.finding(
            each.site,
            f"`{each.path}` keeps what this pack hook puts away, of every step: nothing takes it out after the "
            "backward",
            help=f"return the copy itself, or take it out when it is unpacked: `{each.path}.pop(...)`",
            related=(*_read(each), each.installed.related("the hooks are installed here")),
        )

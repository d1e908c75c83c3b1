"""A data set of many Python objects, read by worker processes.

**What happens.** Workers are forked and share the parent's memory until somebody writes to it. Reading a Python
object writes to it: its reference count. Page after page is copied into every worker. It ends when all is copied,
within the first epoch (measured with 200,000 dicts: 27 to 99 MB in two workers): a cost that is multiplied by the
workers, not a leak without an end.

```python
class Images(Dataset):
    def __init__(self, path):
        self.samples = [json.loads(line) for line in open(path)]

DataLoader(Images(path), num_workers=8)
```

**Instead**, keep the data in one object without reference counts for its items: a NumPy array, a tensor, an Arrow
table, a memory map.

**Severity.** Information, and shown with `--min-confidence low` only: a short list costs nothing.

**Not flagged.** Arrays and tensors, `num_workers=0`, lists written out in the source.

**References.** pytorch#13246, <https://ppwwyyxx.com/blog/2022/Demystify-RAM-Usage-in-Multiprocess-DataLoader/>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Leak, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

rule = Rule("GG410", "dataset-of-objects", Severity.INFO, ((sign("num_workers", own=True),),), Confidence.LOW)


@rule.in_source
def is_copied(function: Function) -> Iterator[Finding]:
    for call in function.calls_of("torch.utils.data.DataLoader"):
        if not call.has("num_workers") or call.literal("num_workers") == 0:
            continue
        where = call.site.related("its workers are started here")
        for site in call.object_lists:
            yield rule.finding(
                site,
                "each worker ends up with a copy of this list: reading a Python object writes its reference count",
                help="keep the data in a NumPy array, a tensor, an Arrow table or a memory map",
                related=(where,),
            )


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "worker"

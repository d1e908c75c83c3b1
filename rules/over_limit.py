"""A buffer has a limit, and goes on to get longer where it is full.

**What happens.** A buffer that shuffles a stream, or a pool of images, is filled up to its size; then each new sample
is to take the place of one that is given away. Where the new one is appended, and the old one is only read
(`yield buf[k]`), the buffer keeps all samples so far: the limit is in the test, and nowhere else. So it does in each
worker of a loader, for itself, until the host's memory is full. What comes out seems right, so nothing tells.

```python
for item in source:
    if len(buf) < self.size:
        buf.append(item)
        continue
    k = random.randrange(len(buf))
    buf.append(item)
    yield buf[k]                                      # still in it
```

**Instead**, put the new one in its place: `yield buf[k]` and then `buf[k] = item`; or take it out, `yield buf.pop(k)`.

**Not flagged.** Buffers that anything is taken out of, or replaced in, in any function of the program; that are made
anew in each iteration, or handed to what may change them; a second `append` that another test guards; memories that
batches are sampled from, and of which the test asks for a number to begin with (`len(memory) < batch_size`).

**References.** <https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading>,
<https://docs.python.org/3/library/collections.html#collections.deque>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

_LIMITED = sign(
    "len(",
    pattern=r"\bif\s+(?:not\s+)?len\(([\w.]+)\)\s*<=?(?s:.*?)\b\1\.append\((?s:.*?)\b\1\.append\(",
    own=True,
    across=True,
)

rule = Rule("GG421", "over-limit", Severity.WARNING, ((_LIMITED,),))


@rule.in_source
def goes_over(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.over_limit():
        yield rule.finding(
            each.site,
            f"`{each.collection}` gets one more each time it is full, and nothing is ever taken out of it",
            help=f"put it in the place of another one: `{each.collection}[k] = ...`, or take one out: `.pop(k)`",
            related=(each.test.related(f"`{one_line(each.test.code)}` says that it has a limit"),),
        )

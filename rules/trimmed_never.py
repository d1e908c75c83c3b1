"""A history is trimmed by a condition that holds for all of it: nothing is ever dropped.

**What happens.** States, batches or records are put away under a count that only goes up, and are to be dropped when
they are done with. The comparison is the wrong way round: `p <= self.position` holds for whatever was put in at or
before the position of now, which is all of it. The history gets longer by an entry in each step, and nothing tells, as
what is asked for is there.

```python
def commit(self, position):
    self.states = {p: s for p, s in self.states.items() if p <= position}     # all of them

sampler.commit(sampler.position)
```

**Instead**, keep what comes after, or the last few: `if p >= position`, `if p > position - 100`.

**Not flagged.** A bound that is another number than the count (a window, what the caller gives); collections that
something else empties, or that get entries under other keys; histories that are trimmed outside of a training, as where
it goes back to an earlier step.

**References.** <https://docs.python.org/3/library/collections.html#collections.deque> (a `maxlen` keeps the last ones).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

_GOES_OVER = sign("self.", pattern=r"\bin\s+(?:\w+\()?self\.\w", own=True)
_COMPARES = sign("if ", pattern=r"\bif\s[^\n]{0,80}?[<>]", own=True)
_TRIMS = sign(
    "self.", pattern=r"\bdel\s+self\.|\bself\.\w+\.pop\(|\bself\.\w+\s*=\s*(?:[\w.]+\(|[\[{])", own=True
)  # fmt: skip

rule = Rule("GG428", "trimmed-never", Severity.WARNING, ((_GOES_OVER, _COMPARES, _TRIMS),))


@rule.in_source
def drops_nothing(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.trimmed_never():
        yield rule.finding(
            each.site,
            f"`{each.collection}` is trimmed here, and keeps all: `{one_line(each.site.code)}` tells nothing apart, as "
            f"its keys are what `{each.count}` was before",
            help="turn the comparison round, or keep the last few",
        )

"""A history is cut where it is read, and not where it is kept.

**What happens.** An optimizer that remembers the last steps, or an attention that sees the frames before its chunk,
keeps more in every step, and looks at the last few of them only. What is older waits for nobody: the list, or the
tensor, gets longer as long as the training goes on, and a tensor is copied each time besides.

```python
def forward(self, x):
    past = x.new_zeros(len(x), 0, x.size(-1)) if self.past is None else self.past
    seen = torch.cat([past[:, -self.left :], x], dim=1)
    self.past = torch.cat([past, x.detach()], dim=1)              # all frames so far
```

```python
def step(self, closure):
    for s, y in reversed(self.pairs[-self.size :]):
        ...
    self.pairs.append((s, y))                                     # those of all steps
```

**Instead**, cut it as it is kept: `self.past = seen[:, -self.left :].detach()`; `del self.pairs[: -self.size]`, or a
`collections.deque(maxlen=size)`.

**Not flagged.** Histories of which more than the end is read, also by another class; those that something takes out
of, cuts, or begins anew (`self.past = None`) in a loop or in a step; numbers. Of lists that a training loop adds to
GG409 and GG402 tell.

**References.** <https://docs.python.org/3/library/collections.html#collections.deque>,
<https://docs.pytorch.org/docs/stable/generated/torch.cat.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import FORWARD, sign
from gradguard.static.model import Function

_READS_END = sign("[", pattern=r"\[(?:[^\]\n]*,)?[ \t]*-[ \t]*[\w.]+[ \t]*:[ \t]*(?:,[^\]\n]*)?\]")
_OWN_OPTIMIZER = sign("Optimizer", pattern=r"(?m:^)[ \t]*class\s+\w+\([^)\n]*Optimizer\b")
_APPENDS = sign(".append(", pattern=r"\bself\.\w+\.append\(", own=True)
_JOINS = sign(
    "cat(", "stack(", "concatenate(", pattern=r"\bself\.\w+[ \t]*=[ \t]*[\w.]*(?:cat|stack|concatenate)\(", own=True
)

rule = Rule(
    "GG420",
    "cut-when-read",
    Severity.WARNING,
    ((_OWN_OPTIMIZER, _APPENDS, _READS_END), (_OWN_OPTIMIZER, _JOINS, _READS_END), (FORWARD, _JOINS, _READS_END)),
)


@rule.in_source
def gets_longer(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.cut_when_read():
        yield rule.finding(
            each.site,
            f"`{each.path}` gets longer in every step, and nothing but its end is ever read",
            help="cut it where it is kept: to the last few, `[-n:]`, or `collections.deque(maxlen=n)`",
        )

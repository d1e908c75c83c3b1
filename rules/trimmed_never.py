"""A history is trimmed, and nothing is dropped: by a condition that holds for all of it, or in a copy.

**What happens.** States, batches or records are put away under a count that only goes up, and are to be dropped when
they are done with. The comparison is the wrong way round: `p <= self.position` holds for whatever was put in at or
before the position of now, which is all of it. The history gets longer by an entry in each step, and nothing tells, as
what is asked for is there.

```python
def commit(self, position):
    self.states = {p: s for p, s in self.states.items() if p <= position}     # all of them

sampler.commit(sampler.position)
```

So it is where a slice is bound to the name that a loop, or a variable, has for the list: that name has a new list then,
and the collection still has the whole one.

```python
for label, kept in self.exemplars.items():
    if len(kept) > quota:
        kept = kept[:quota]                             # `self.exemplars[label]` is as long as before
```

The same with an empty list: `queue = self.queue`, all of it is run, and `queue = []` is to empty it.

**Instead**, keep what comes after, or the last few: `if p >= position`, `if p > position - 100`; and put the slice
back, `self.exemplars[label] = kept[:quota]`, or delete the rest in place, `del kept[quota:]`, `queue.clear()`.

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

# kept = kept[-n:], kept = sorted(kept)[:n], kept = [x for x in kept if x.new], kept = nlargest(n, kept), kept = []
_CUTS = sign(
    "]",
    "est(",
    pattern=r"(?m:^)[ \t]+(\w+)[ \t]*=[ \t]*(?:(?:(?:list|sorted)\()?\1\b[^\n]*\[[^\]\n]*:|"
    r"\[[^\n]*\bin[ \t]+\1\b|[\w.]*n(?:larg|small)est\([^\n]*\b\1\b|\[\][ \t]*(?:#|$))",
    own=True,
)
# for kept in self.kept.values(): ... kept = kept[-n:], and kept = self.kept[key], before that
_KEPT = r"self\.\w+(?:\.(?:values|items|get|setdefault)\([^\n]*\)|\[[^\n]*\])?\)?[ \t]*(?:[:;#][^\n]*)?\n"
_TAKES = sign(
    "self.",
    pattern=rf"(?:\bfor\b[^\n]*?\b(\w+)\)?[ \t]+in[ \t]+(?:list\()?{_KEPT}(?s:.{{0,1500}}?)\n?[ \t]+\1[ \t]*=(?!=)|"
    rf"\n[ \t]+(\w+)[ \t]*(?::[^\n=]*)?=[ \t]*{_KEPT}(?s:.{{0,1500}}?)\n?[ \t]+\2[ \t]*=(?!=))",
    own=True,
    across=True,
)

rule = Rule(
    "GG428", "trimmed-never", Severity.WARNING, ((_GOES_OVER, _COMPARES, _TRIMS), (_TAKES, _CUTS)), shape="is trimmed"
)


@rule.in_source
def drops_nothing(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.trimmed_never():
        yield rule.finding(
            each.site,
            f"`{each.collection}` is trimmed here, and keeps all: `{one_line(each.site.code)}` tells nothing apart, as "
            f"its keys are what `{each.count}` was before",
            help="turn the comparison round, or keep the last few",
        )
    for aside in function.mistakes.kept.trimmed_aside():
        yield rule.finding(
            aside.site,
            f"`{aside.collection}` keeps all: this binds `{aside.name}` to another list, which nothing reads",
            help=f"empty the list itself: `{aside.name}.clear()`"
            if aside.is_new
            else f"put it back into `{aside.collection}`, or delete the rest in place: `del {aside.name}[n:]`",
        )

"""A finalizer is given its own object: it is never freed, and the finalizer never runs.

**What happens.** `weakref.finalize(x, gone, x)` is to run `gone` when nothing holds `x` any more. Until then a registry
of `weakref` keeps the function and its arguments, for the whole program; one of them is `x`. So it stays, with its
graph if it has one, and the finalizer waits until Python exits. A bound method holds its object, too, and so does a
lambda or an inner function that uses the variable.

```python
def watch(self, activation):
    self.live += 1
    weakref.finalize(activation, self.gone, activation)      # every activation of all steps stays
```

**Instead**, give it what is needed of the object, `weakref.finalize(activation, self.gone, activation.numel())`, and a
function that does not hold it: a static method, `weakref.finalize(self, self.close, self.path)`.

**Not flagged.** Numbers, names and parts that are computed of the object, its class, a static method or a class method;
functions that get another object under the same name later on; finalizers that the program keeps and runs itself
(`self.end()`), or takes back (`.detach()`).

**References.** <https://docs.python.org/3/library/weakref.html#weakref.finalize> ("it is important to ensure that func,
args and kwargs do not own any references to obj").
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

_WEAKREF = sign("weakref")
_FINALIZE = sign("finalize(", pattern=r"\bfinalize\(", own=True)

rule = Rule("GG423", "kept-by-finalizer", Severity.ERROR, ((_WEAKREF, _FINALIZE),))


@rule.in_source
def is_kept_for_ever(function: Function) -> Iterator[Finding]:
    for kept in function.mistakes.kept.kept_by_finalizers():
        holding = one_line(kept.holding.code)
        keeps = "it as an argument" if holding == kept.watched else f"`{holding}`, which holds it"
        yield rule.finding(
            kept.site,
            f"`{kept.watched}` is never freed: its finalizer keeps {keeps}",
            help=f"give it what it needs of `{kept.watched}`, and a function that does not hold it",
        )

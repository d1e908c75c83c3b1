"""`itertools.cycle` over a loader.

**What happens.** `cycle` keeps a copy of everything that it was given in the first round, to give it again: every
batch of the first epoch stays in memory. After that the same batches come again, in the same order and with the same
augmentation: the loader does not shuffle again. `itertools.tee` keeps what one of its iterators has not yet given: with
`train, probe = tee(stream)`, and `probe` read every hundred steps, the batches in between wait in memory; with
`self._batches, self._first = tee(stream)`, and `next(self._first)` once, before the training, all of them do, as with
`head, stream = tee(stream)` and `next(head)` in the function that runs the training.

Of a generator that never ends (`while True: yield sample()`) no round is the last: nothing comes again, and all of it
stays.

```python
for source, target in zip(source_loader, itertools.cycle(target_loader)):
```

**Instead**, start a new round of the loader:

```python
def forever(loader):
    while True:
        yield from loader
```

**Not flagged.** `cycle` over names, colours or optimizers; a function of the project that is named `cycle`; several
loaders in turn; `tee` where nothing is trained, or where one of its ends is deleted (`del head`).

**References.** pytorch#23900, <https://docs.python.org/3/library/itertools.html#itertools.cycle>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Leak, Severity
from gradguard.signs import CYCLE
from gradguard.static import tree as t
from gradguard.static.fixes.edits import instead, one_line
from gradguard.static.model import Call, Function, Site
from gradguard.static.values import Kind

rule = Rule("GG405", "cycled-loader", Severity.ERROR, ((CYCLE,),))


@rule.in_source
def keeps_every_batch(function: Function) -> Iterator[Finding]:
    for call in function.calls_of("itertools.cycle", "itertools.tee"):
        if call.inner is None and call.is_endless:
            yield _keeps_without_end(call)
            continue
        if call.inner is not None or not (_is_cycle(call) or _keeps_what_was_given(function, call)):
            continue
        again = ", and gives them again without shuffling" if call.name.endswith("cycle") else ""
        lagging = call.lags_in_object or call.lags
        lags = f"each batch until `{lagging}` gave it as well, which is not read in every iteration"
        kept = lags if lagging is not None else f"every batch of the first epoch in memory{again}"
        yield rule.finding(
            call.site,
            f"`{call.name}` keeps {kept}",
            help="use a generator for each: `while True: yield from loader`",
            fix=_fix(call),
        )


def _keeps_without_end(call: Call) -> Finding:
    node = call.site.node
    given = node.args[0].value if isinstance(node, t.Call) else node
    fix = instead(call.site, Site(call.site.chunk, given).text, "take it as it is: it never ends")
    message = "`itertools.cycle` keeps all that this generator gives, and that never ends: nothing is given again"
    return rule.finding(call.site, message, help="go over the generator itself", fix=fix)


def _fix(call: Call) -> Fix | None:
    """Go over the loader anew each time, in a generator."""
    node = call.site.node
    if not call.name.endswith("cycle") or not isinstance(node, t.Call) or len(node.args) != 1:
        return None
    if t.path_of(node.args[0].value) is None:
        return None  # a loader that is made there would be made anew each time
    loader = Site(call.site.chunk, node.args[0].value).text
    again = f"(batch for _ in iter(int, 1) for batch in {loader})"  # `int()` is 0 for ever, and never 1
    return instead(call.site, again, f"go over `{one_line(loader)}` anew each time")


def _is_cycle(call: Call) -> bool:
    """Whether it goes over a loader again; several loaders in turn go over their batches themselves."""
    in_turn = str(call.bound_to).endswith("loaders")
    return call.name.endswith("cycle") and call.first.kind is Kind.LOADER and not in_turn


def _keeps_what_was_given(function: Function, call: Call) -> bool:
    """Whether batches wait for an end that is not read as often as the other; what is read from both is dropped."""
    if call.lags_in_object is not None and not call.is_harmless:
        return True
    if not call.name.endswith("tee") or call.is_harmless or not (function.backwards or function.forwards):
        return False
    return call.first.kind is Kind.LOADER or call.lags is not None


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "cache" and leak.holder is not None and str(leak.holder.type).startswith("itertools.")

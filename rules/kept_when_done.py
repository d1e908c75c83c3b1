"""Jobs that are done, or actions that have been run, stay in their list, with the tensors that they have.

**What happens.** A future has what its function gave, and a function that is made in a step has what it refers to. A
list of them is gone over now and then: to see whether one has failed, or to run what was put off until the end of an
epoch. If nothing is taken out, it gets one more in each step. All results stay, or all the tensors that the actions
refer to; each time takes longer than the one before, and what was run is run again.

```python
class Renderer:
    def __call__(self, images):
        self.jobs.append(self.pool.submit(render, images))     # `render` gives a tensor

    def raise_errors(self):
        for job in self.jobs:                                  # all that there ever were
            if job.done() and job.exception() is not None:
                raise job.exception()

class Bus:
    def emit(self, event):
        for run in self.deferred[event]:                       # bus.defer("epoch", lambda: tally(pred, y))
            run()
```

So it is with a loader that works ahead: the next batch is asked for by its number, and stays with its job.

```python
        for i in range(len(self)):
            batch = self.jobs[i].result()                          # `self.jobs.pop(0).result()`
            self.submit(i + self.depth)                            # puts one more into `self.jobs`
            yield batch
```

**Instead**, keep what is not done, or take out what is run:

```python
        self.jobs = [job for job in self.jobs if not job.done()]

        for run in self.deferred.pop(event, []):
            run()
```

**Not flagged.** A list out of which anything is taken, anywhere in the program, or that is begun anew; jobs that give
no tensor, or whose results are gathered (`[job.result() for job in self.jobs]`), or asked for in more than one place;
actions that are registered once, or refer to no tensor of the step; in a loop, a function that refers to its variables:
all that are made there have the last values.

**References.** <https://docs.python.org/3/library/concurrent.futures.html#future-objects>,
<https://docs.python.org/3/faq/programming.html#why-do-lambdas-defined-in-a-loop-with-different-values-all-return-the-same-result>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.mistakes.kept import KeptWhenDone
from gradguard.static.model import Function

_ASKS = sign(
    "for ",
    pattern=r"\bfor\s+(\w+)\s+in\b[^\n]*\bself\.\w+(?s:.*?)\b\1\.(?:done|ready)\(",
    own=True,
    across=True,
)
_RUNS = sign("for ", pattern=r"\bfor\s+(\w+)\s+in\b[^\n]*\bself\.\w+[^\n]*\s+\1\(", own=True, across=True)
_SUBMITS = sign(".submit(", ".apply_async(")
_ADDS = sign(".append(", ".add(")
_IN_TURN = sign(
    ".result(", ".get(",
    pattern=r"\bself\.\w+\[[^\n]*\]\.(?:result|get)\(|"
    r"\b(\w+)\s*=\s*self\.\w+\[[^\n]*\](?s:.*?)\b\1\.(?:result|get)\(",
    own=True,
    across=True,
)  # fmt: skip

rule = Rule("GG425", "kept-when-done", Severity.WARNING, ((_ASKS, _SUBMITS), (_RUNS, _ADDS), (_IN_TURN, _SUBMITS)))


@rule.in_source
def keeps_what_is_done(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.kept_when_done():
        path = each.collection
        kept = (
            "job that is done, with the tensor that it gave" if each.of_jobs else "action of each step that it has run"
        )
        yield rule.finding(
            each.site,
            f"`{path}` keeps every {kept}: nothing is ever taken out of it",
            help=_help(each),
            related=(each.added.related("one more is put there here"),),
        )


def _help(each: KeptWhenDone) -> str:
    path = each.collection
    if each.in_turn:
        return f"take the job out as it is asked for its result: `{path}.pop(0).result()`"
    if each.of_jobs:
        return f"keep those that are not done: `{path} = [job for job in {path} if not job.done()]`"
    return f"take them out as they are run, and empty `{path}`"

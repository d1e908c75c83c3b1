"""Each iteration starts a thread that fills a queue, and leaves it waiting.

**What happens.** A prefetcher runs an iterator in a thread, and keeps a few batches ready in a queue. The thread ends
with the iterator, or when it is told. Where the loop over it is left before, after so many batches, the thread waits at
the full queue for ever: it holds the batches in it, the one that it would put there next, and all that the iterator
holds. Nobody else holds the object any more, but the thread does, so that no collector frees it. A prefetcher for each
episode, or each epoch, is one more thread each time.

```python
for episode in range(episodes):
    feed = Prefetcher(sampler.stream(episode))                 # starts a thread
    for k, (x, y) in enumerate(feed):
        train_step(x, y)
        if k + 1 == queries:
            break                                              # it goes on to wait
```

**Instead**, end it behind the loop, `feed.close()`, or make one for the whole training.

**Not flagged.** An object that is closed, entered (`with Prefetcher(...) as feed`), given back, stored or handed to
something else; a loop that takes all of an iterator that ends; queues without a limit; threads that end themselves, by
what takes the last batch; one that is made before the training.

**References.** <https://docs.python.org/3/library/queue.html#queue.Queue.put>,
<https://docs.python.org/3/library/threading.html#thread-objects>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Leak, Severity
from gradguard.signs import TRAINS, loop_over, sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

_OF_THREADS = sign(
    "hread", "refetch", "ackground", "sync", "uffered", "eeder", "roducer",
    pattern=r"[Tt]hread|[Pp]refetch|[Bb]ackground|[Aa]sync|[Bb]uffered|[Ff]eeder|[Pp]roducer",
)  # fmt: skip
# An object is made, and is gone through, or gives the next one.
_MAKES = sign(
    "(",
    pattern=r"(?m:^)[ \t]*(\w+)\s*=\s*[\w.]+\((?s:.*?)(?:\bin\s[^\n]{0,120}?\b\1\b|\bnext\(\1\b|\b\1\.(?:next|get)\()|"
    + loop_over(r"[A-Z]\w*\("),
    own=True,
    across=True,
)

rule = Rule("GG427", "left-running", Severity.WARNING, tuple((*signs, _OF_THREADS, _MAKES) for signs in TRAINS))


@rule.in_source
def leaves_a_thread(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.left_running():
        name = each.name or "it"
        end = f"`{name}.{each.closing}()`" if each.closing is not None and each.name is not None else "tell it to end"
        yield rule.finding(
            each.site,
            f"`{one_line(each.site.code)}` starts a thread in each iteration, and nothing ends it: it waits with a "
            "full queue of batches",
            help=f"end it behind the loop: {end}; or make one for the whole training",
            related=(each.start.related("the thread is started here"),) if each.start is not None else (),
        )


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "heap" and leak.holder is not None and leak.holder.type == "threading.Thread"

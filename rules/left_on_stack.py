"""An `ExitStack` around a loop is given a tensor in every iteration, for when its block ends.

**What happens.** `stack.callback(write, output)` keeps `write` and `output` until the stack is left. Where its `with`
is around the loop, that is after the last iteration: until then it has the outputs of all of them, with their graphs
if they have some.

```python
with ExitStack() as stack:
    for step in range(steps):
        output = train_step(model, *next(batches))
        stack.callback(writer.write, output)          # one more in each step
```

A context that has a tensor keeps it till it is left, which is then, too: `stack.enter_context(Frozen(critic, fake))`.

**Instead**, open the stack in each iteration (`for ...: with ExitStack() as stack:`), call the function at once, or
give it numbers.

**Not flagged.** A stack that is opened, closed or emptied (`close()`, `pop_all()`) in the iteration, or in each epoch;
callbacks of numbers; contexts that keep none of what they are given; a lambda, which sees a variable as it is in the
end; loops that do not train.

**References.** <https://docs.python.org/3/library/contextlib.html#contextlib.ExitStack.callback>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_STACK = sign("ExitStack")
_ADDS = sign(".callback(", ".push(", own=True)
_ENTERS = sign(
    ".enter_context(", ".enter_async_context(", pattern=r"\.enter_(?:async_)?context\(\s*[\w.]+\(\s*[^\s)]", own=True
)

rule = Rule("GG414", "left-on-stack", Severity.WARNING, ((_STACK, _ADDS), (_ENTERS,)))


@rule.in_source
def until_it_ends(function: Function) -> Iterator[Finding]:
    for left in function.mistakes.kept.left_on_stacks():
        yield rule.finding(
            left.site,
            f"`{left.stack}` keeps `{left.tensor.code}` of every iteration until its block ends, which is around the "
            "loop",
            help="open the stack in each iteration, or call the function at once",
        )

"""A list that is the default of a parameter gets a tensor in every call.

**What happens.** A default is made once, when the function is defined. `frames.append(obs)` makes that one list longer,
in each call that gives none, and the next call goes on with it: it has the tensors of all calls, with their graphs if
they have some, and nobody else has it to empty it.

```python
def play(policy, env, frames=[]):
    for _ in range(horizon):
        frames.append(env.observe())                  # of all games so far
    return torch.stack(frames[-horizon:])
```

So has a class the list that its body makes, `scores = []`: one for all its objects. Where each evaluation makes an
object anew, `self.scores.append(score)` goes on with the scores of all before it, and a mean of them is one over all.

```python
class Metric:
    scores = []                                       # of all metrics

    def update(self, score):
        self.scores.append(score.detach())
```

**Instead**, `frames=None`, and in the function `frames = [] if frames is None else frames`. For each object a list of
its own: `self.scores = []` in `__init__`.

**Not flagged.** Functions that bind the name anew or empty the list; those that every call gives a list, or that no
loop which trains calls; lists of numbers. A list of a class that something empties, or that is read as
`Metric.scores`, or whose objects no such loop makes. Of tensors with graphs GG104 tells,
but for those of a module which is run by a function that is given it.

**References.** <https://docs.python.org/3/faq/programming.html#why-are-default-values-shared-between-objects>,
<https://docs.astral.sh/ruff/rules/mutable-argument-default/>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_DEFAULT = sign(
    "[]", "list()", pattern=r"\bdef\s+\w+\((?s:(?:[^()]|\(\))*?)=\s*(?:\[\]|list\(\))(?s:[^:]*)", own=True, across=True
)
_LONGER = sign(".append(", ".extend(", "+=", own=True)
# What stands in the body of a class before its first method.
_IN_CLASS = sign(
    "[]",
    "list()",
    pattern=r"(?m:^)class\b[^\n]*\n(?:(?![ \t]*(?:def\b|async\b|@))(?:[ \t)][^\n]*)?\n)*?"
    r"[ \t]+\w+[ \t]*(?::[^=\n]*)?=[ \t]*(?:\[\]|list\(\))",
    across=True,
)
_OWN_LONGER = sign("self.", pattern=r"\bself\.\w+(?:\.(?:append|extend)\(|[ \t]*\+=)", own=True)

rule = Rule("GG416", "default-list", Severity.WARNING, ((_DEFAULT, _LONGER), (_IN_CLASS, _OWN_LONGER)))


@rule.in_source
def gets_longer(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.default_lists():
        yield rule.finding(
            each.site,
            f"`{each.name}` is one list for all calls that give none, and gets longer in each of them",
            help=f"`{each.name}=None`, and `{each.name} = [] if {each.name} is None else {each.name}`",
            related=(each.made.related("it is made here, once"), each.call.related("it is called here without one")),
        )
    for shared in function.mistakes.kept.class_lists():
        yield rule.finding(
            shared.site,
            f"`{shared.name}` is one list for all objects of the class, and has the tensors of those before this one",
            help=f"`self.{shared.name} = []` in `__init__`: each object gets a list of its own",
            related=(
                shared.made.related("it is made here, once"),
                shared.call.related("an object is made here again and again"),
            ),
        )

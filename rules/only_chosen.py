"""The scores of a layer only choose: no value of them is used, and the layer is never trained.

**What happens.** A router scores the experts, and the one with the highest score is run. Which one that is has no
gradient: an index is a whole number. Where the score itself is used nowhere, the router is in the optimizer and has
`grad` None for good; it sends its inputs to whatever experts its first weights say. The experts learn, and nothing
raises.

```python
probs = self.router(x).softmax(-1)
gate, choice = probs.max(-1)                    # `gate` is not used below
for i, expert in enumerate(self.experts):
    rows = (choice == i).nonzero()[:, 0]
    out = out.index_copy(0, rows, expert(x[rows]))
```

**Instead**, weigh what is chosen with its score, which has the gradient:

```python
    out = out.index_copy(0, rows, gate[rows, None] * expert(x[rows]))
```

**Not flagged.** Scores of which a value is used as well, in a weight, a loss that balances the load, or a
straight-through estimator; those that are returned, kept, or given to something else; a layer that another method, a
subclass or the program uses besides; one that is called fixed or random, or of a class that moves weights otherwise; a
`forward` that gives indices alone.

**References.** <https://arxiv.org/abs/2101.03961> (the router of a switch layer, and its gate).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import FORWARD, sign
from gradguard.static.model import Function

# The indices of the best, without their scores; a comparison of scores is too common to be a sign by itself.
_CHOOSES = sign(
    "argm", "argsort(", "max(", "min(", "topk(", "sort(", "multinomial(", "kthvalue(", "nonzero(", "bincount(",
    pattern=r"argm(?:ax|in)\b|argsort\(|multinomial\(|nonzero\(|bincount\(|"
    r"\b(\w+)[ \t]*,[ \t]*\w+[ \t]*=[^\n]*\b(?:topk|max|min|sort|kthvalue)\((?!(?s:.*)\b\1\b)|"
    r"\b(?:topk|max|min|sort|kthvalue)\([^\n]*\)(?:\[1\]|\[-1\]|\.indices)|"
    r"\b(\w+)[ \t]*=[^\n]*\b(?:topk|max|min|sort|kthvalue)\((?s:.*)\b\2(?:\[1\]|\[-1\]|\.indices)",
    own=True,
    across=True,
)  # fmt: skip
_RUNS = sign("self.", pattern=r"\bself\.\w+\(", own=True)

rule = Rule("GG264", "only-chosen", Severity.ERROR, ((FORWARD, _RUNS, _CHOOSES),), shape="only indices are used")


@rule.in_source
def only_chooses(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.losses.only_chosen():
        yield rule.finding(
            each.site,
            f"of what `self.{each.name}` computes only indices are used: it never gets a gradient",
            help="weigh what is chosen with its score, as by `gate * expert(x)`",
            related=(each.made.related(f"`self.{each.name}` is made here, to be trained"),),
        )

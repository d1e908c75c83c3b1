"""A weight is given the storage of another one through `.data`: they are not tied, and the optimizer steps it twice.

**What happens.** `self.head.weight.data = self.embed.weight.data` makes two parameters look at one memory. Their values
are the same, and they stay two parameters: each gets only the part of the gradient that comes from its own use. The
optimizer has both, and moves the one memory twice, each time with its own momentum and its own second moments; weight
decay is taken twice, and clipping counts two gradients. And they come apart unnoticed: `.double()`, `.half()` or
`.to("cuda")`, and `copy.deepcopy`, give each of the two a memory of its own. `nn.Parameter(self.embed.weight)` does the
same: it is a new parameter of the old memory.

```python
self.embed = nn.Embedding(words, size)
self.head = nn.Linear(size, words)
self.head.weight.data = self.embed.weight.data      # two parameters of one memory
```

**Instead**, let both layers have one parameter:

```python
self.head.weight = self.embed.weight
```

or, where only the first values are to be the same, copy them: `self.head.weight.data.copy_(self.embed.weight.data)`.

**Not flagged.** `.data.clone()` and `.data.copy_(...)`; parameters of another object; layers that are frozen, a network
that follows another one; methods that are called later, as to put other weights in for an evaluation; what is tied
besides.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import instead
from gradguard.static.model import Function

_SHARES = sign(
    ".data", "Parameter(",
    pattern=r"\.data\s*=(?!=)\s*[\w.\[\]]+\.(?:data|weight|[tT])\b(?!\.(?:clone|new|copy))|"
    r"\.\w+\s*=(?!=)\s*(?:\w+\.)*Parameter\(\s*[\w.\[\]]+\.(?:weight|data|[tT])\b(?!\.(?:clone|new))",
    own=True,
)  # fmt: skip
_MODULE = sign("nn.", "Module")

rule = Rule("GG241", "tied-by-data", Severity.ERROR, ((_SHARES, _MODULE),))


@rule.in_source
def are_two_parameters(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.tied_by_data():
        edit = f"{each.one} = {each.other}"
        tie = f"`{edit}` lets both have one parameter"
        turned = f"compute with `{each.other}.t()` itself, as by `F.linear`"
        yield rule.finding(
            each.site,
            f"`{each.one}` and `{each.other}` stay two parameters, with one storage: each gets a part of the gradient, "
            "the optimizer moves it twice, and a move to another device or type makes two of it",
            help=turned if each.is_turned else tie,
            fix=None if each.is_turned or "[" in edit else instead(each.site, edit, "tie the parameters"),
        )

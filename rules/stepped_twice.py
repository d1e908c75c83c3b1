"""Two optimizers have the same parameters, and both step after one backward: these are moved twice.

**What happens.** An embedding, a backbone or a head gets an optimizer of its own, with a rate of its own, and the other
one is still given `model.parameters()`, which has it as well. Both step with the same gradients: the part moves by the
sum of both updates, the rate that was chosen for it is not the one that it has, and weight decay works on it too.
Nothing raises.

```python
table_opt = torch.optim.Adagrad(model.embedding.parameters(), lr=0.05)
dense_opt = torch.optim.AdamW(model.parameters(), lr=1e-3)      # the embedding, too
for x, y in loader:
    table_opt.zero_grad()
    dense_opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    table_opt.step()
    dense_opt.step()
```

**Instead**, give each one its own, or have one optimizer with groups:

```python
rest = [p for name, p in model.named_parameters() if not name.startswith("embedding.")]
dense_opt = torch.optim.AdamW(rest, lr=1e-3)
```

**Not flagged.** Optimizers that step in different phases, or each after a backward or a reset of its own, as two losses
have that share a part; one that is given a choice of the parameters; steps under a condition, or with a closure.

**References.** <https://docs.pytorch.org/docs/stable/optim.html#per-parameter-options>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_NAMES = r"\b(?:(?:Sparse|[NR])?Adam(?:W|ax)?|SGD|Adagrad|RMSprop|Rprop|ASGD|Adadelta|Adafactor|LBFGS|Muon)\("
_TWO = sign(
    "Adam", "SGD", "Adagrad", "prop(", "Adadelta", "Adafactor", "LBFGS", "Muon",
    pattern=_NAMES + r"(?s:.*?)" + _NAMES,
    own=True,
    across=True,
)  # fmt: skip
_ALL = sign(".parameters()", own=True)

rule = Rule("GG263", "stepped-twice", Severity.ERROR, ((_TWO, _ALL),))


@rule.in_source
def have_the_same(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.stepped_twice():
        yield rule.finding(
            each.site,
            f"`{each.whole}` is given all of `{each.module}`, of which `{each.part}` has some, too: each step of both "
            "moves these twice",
            help=f"give `{each.whole}` the other parameters only, or make one optimizer with two groups",
            related=(each.made.related(f"`{each.part}` is made here"), each.step.related("both have stepped here")),
        )

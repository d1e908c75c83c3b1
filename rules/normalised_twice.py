"""A loss that normalises its input itself is given what is normalised already; or one that does not is given scores.

**What happens.** `cross_entropy` applies `log_softmax` to what it is given, `binary_cross_entropy_with_logits` a
sigmoid. Of what a softmax gives, between 0 and 1, they make a distribution that is nearly flat, however sure the model
is: with ten classes, a model that is right each time still has a loss of 1.46. The gradient goes through both, and is
about a tenth of what it should be; where the model is sure and wrong, nearly none is left. Nothing raises, the loss
falls a little, and stays there. `nll_loss`, `ctc_loss` and `kl_div` are the other way round: they take logarithms of
probabilities. Given the probabilities themselves, their gradients are as small; given the scores of a layer, `nll_loss`
falls without end, and never learns to tell classes apart.

```python
def forward(self, x):
    return F.softmax(self.fc(x), dim=1)

loss = nn.CrossEntropyLoss()(model(x), y)               # a softmax of a softmax
loss = F.nll_loss(F.softmax(scores, dim=1), y)          # no logarithm
```

**Instead**, give each loss what it takes, and normalise where probabilities are asked for:

```python
def forward(self, x):
    return self.fc(x)

loss = nn.CrossEntropyLoss()(model(x), y)
loss = F.nll_loss(F.log_softmax(scores, dim=1), y)
```

So it is with one of the losses, or one of the models, that an option chooses from.

**Not flagged.** `log_softmax` before `cross_entropy`, which changes nothing; the logarithm of probabilities; a model
that gives probabilities only in evaluation, or on some of its ways; probabilities as the target; a softmax with more
behind it, as attention has it; probabilities that are multiplied or added to; `kl_div(p, q, reduction="none")`, entry
by entry, which is meant as a scalar product of both (neighbours that are to agree); a loss of which no backward is run.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import FORWARD, TRAINING, sign
from gradguard.static.model import Function

_LOSS = sign(
    "cross_entropy", "nll_loss", "kl_div", "ctc_loss",
    pattern=r"\b(?:cross_entropy|binary_cross_entropy_with_logits|nll_loss|kl_div|ctc_loss)\(",
    own=True,
)  # fmt: skip
_MADE = sign("CrossEntropyLoss", "NLLLoss", "BCEWithLogitsLoss", "KLDivLoss", "CTCLoss")
_CALLS = sign("criterion", "loss", "Loss", "entropy", "crit", pattern=r"\b\w*(?:[Ll]oss|crit|entropy)\w*\(", own=True)
_BACKWARD = sign("backward(", pattern=r"(?<!def )\b(?!save_for_)\w*backward\(", own=True)
# A loss of one's own, which others train with.
_LOSS_CLASS = sign("Loss", "Criterion", pattern=r"(?m:^)[ \t]*class\s+\w*(?:Loss|Criterion)\w*\s*\(")
_NORMALISES = sign("softmax(", "sigmoid(", pattern=r"\b(?:softmax|sigmoid)\(", own=True)

rule = Rule(
    "GG247",
    "normalised-twice",
    Severity.WARNING,
    (
        (_BACKWARD,),
        (_LOSS, TRAINING),
        (_MADE, _CALLS, TRAINING),
        (_LOSS_CLASS, FORWARD, _NORMALISES, _LOSS),
        (_LOSS_CLASS, FORWARD, _NORMALISES, _MADE),
    ),
)

_NAMES = {
    "cross_entropy": "cross entropy", "bce": "binary cross entropy with logits",
    "nll": "the negative log likelihood", "ctc": "the CTC loss", "kl": "the KL divergence",
}  # fmt: skip
_GIVEN = {"softmax": "what a softmax gives", "sigmoid": "what a sigmoid gives", "raw": "the scores of a layer"}


@rule.in_source
def is_given_something_else(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.losses.normalised_twice():
        name, given = _NAMES[each.loss], _GIVEN[each.kind]
        if each.loss in ("cross_entropy", "bce"):
            says = f"{name} takes logits, and is given {given}: normalised twice, little is left of the gradients"
            help = f"give it what the {each.kind} is computed of"
        else:
            says = f"{name} takes logarithms of probabilities, and is given {given}: its gradients are wrong"
            help = "give it what `log_softmax` makes of the scores"
        here = "this is what it is given"
        yield rule.finding(each.site, says, help=help, related=tuple(made.related(here) for made in each.made))

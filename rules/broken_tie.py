"""One of two layers that share a weight is replaced: they are no longer tied, and nothing says so.

**What happens.** `self.head.weight = self.embed.weight` puts one parameter into two modules, and a tie is no more than
that: whoever puts another module, or another parameter, in the place of one of the two leaves the old one in the other.
From then on there are two weights. The model still runs and learns, with more parameters than it was meant to have: the
output layer compares with other vectors than those that were loaded, and each weight gets the gradients of its own use
only. Nothing raises.

```python
class LanguageModel(nn.Module):
    def __init__(self, words, size):
        super().__init__()
        self.embed = nn.Embedding(words, size)
        self.head = nn.Linear(size, words, bias=False)
        self.head.weight = self.embed.weight

    def load_vectors(self, vectors):
        self.embed = nn.Embedding.from_pretrained(vectors, freeze=False)    # the head keeps the old weight
```

**Instead**, change the weight in place, or tie again:

```python
    def load_vectors(self, vectors):
        with torch.no_grad():
            self.embed.weight.copy_(vectors)
```

**Not flagged.** What keeps the parameter: `copy_`, `weight.data = ...`, `nn.init`, `load_state_dict` without `assign`,
`.to(...)`, a copy of the whole model. What ties again, there or in its caller; what is replaced before it is tied; a
method that nobody calls; two layers that are both replaced; a copy of the weight that is to be apart from now on; a
model whose base is of a package that ties by itself. Another output layer, for another task, may be meant: that is
reported with low confidence.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html#torch.nn.Embedding.from_pretrained>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

_TIES = sign(".weight", pattern=r"\.weight\b[^\n]*=(?!=)[^\n]*\.weight\b", own=True)

rule = Rule("GG228", "broken-tie", Severity.WARNING, ((_TIES,),))


@rule.in_source
def comes_apart(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.broken_ties():
        yield rule.finding(
            each.site,
            f"`{each.kept}` keeps the weight that it shared with what is replaced here: the two are no longer tied",
            help="change the weight in place, under `torch.no_grad()`, or tie the two again after this",
            confidence=Confidence.HIGH if each.is_sure else Confidence.LOW,
            related=(each.tied.related(f"they are tied at `{one_line(each.tied.code)}`"),),
        )

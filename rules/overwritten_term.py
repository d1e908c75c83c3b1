"""A term of the loss is overwritten in its dict before anything reads it: it trains nothing.

**What happens.** A function collects the terms of a loss in a dict, and two of them have the same key, as one line was
copied from the other. The second takes the place of the first, which is in no sum: what only the first one would train
gets no gradient, and keeps the weights that it began with. The sum is a fine loss besides, and goes down; nothing
raises.

```python
losses = {"loss_cls": F.cross_entropy(logits, labels)}
losses["loss_box"] = F.l1_loss(offset, target_offset)
losses["loss_box"] = F.smooth_l1_loss(size, target_size)     # the loss of the offsets is gone
return losses
```

**Instead**, give each a key of its own, here `"loss_size"`, and the weight that goes with it; or add the two up, if
they are to have one.

**Not flagged.** Entries that something reads in between, or is handed with their dict; a value that is computed of the
entry before; what starts with a number; other branches of a condition; another loss of the same values, which is
there in place of the first one; what is only measured, in an evaluation or under `no_grad`.

**References.** <https://docs.python.org/3/reference/expressions.html#dictionary-displays>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_KEYS = r"([\"'])(\w+)\1(?:\]\s*=(?!=)|\s*:)(?s:.{1,2000}?)"
# The same word puts two things into a dict.
_TWICE = sign(
    "loss", "Loss",
    pattern=_KEYS + r"(?:[\"']\2[\"'](?:\]\s*=(?!=)|\s*:)|\bupdate\([^)\n]*\b\2\s*=)",
    own=True,
    across=True,
)  # fmt: skip

rule = Rule("GG242", "overwritten-term", Severity.ERROR, ((_TWICE,),))


@rule.in_source
def is_never_read(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.losses.overwritten_terms():
        name = f'`{each.base}["{each.key}"]`' if each.base else f'`"{each.key}"`'
        yield rule.finding(
            each.site,
            f"{name} gets another value before anything has read the first one: that term is in no loss, and what it "
            "alone was to train gets no gradient",
            help="give each term a key of its own, or add them up",
            related=(each.lost.related("this is the value that is lost"),),
        )

"""An iterator of parameters is used again: nothing is left in it.

**What happens.** `model.parameters()`, `filter`, `map`, `zip`, `itertools.chain` and a generator expression give each
parameter once. What goes through all of them, an optimizer first of all, leaves an iterator that gives none. Seen with
torch 2.13: `clip_grad_norm_` of it clips nothing and returns 0 (with a warning, if it is a generator; of a `filter`
without one), a sum or a loop over it does nothing, an optimizer takes a group of it, `{"params": params}`, that trains
nothing. An optimizer that is given it alone raises ("optimizer got an empty parameter list"), `clip_grad_value_` too.

```python
params = filter(lambda p: p.requires_grad, model.parameters())
optimizer = torch.optim.Adam(params, lr=1e-3)               # takes all of them
for x, y in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    torch.nn.utils.clip_grad_norm_(params, 1.0)             # sees none: nothing is clipped
    optimizer.step()
```

**Instead**, make a list, which can be gone through any number of times; or write `model.parameters()` at each use:

```python
params = [p for p in model.parameters() if p.requires_grad]
```

**Not flagged.** Lists, `list(...)` around it, a `ParameterList`; a name that is bound anew between the uses; uses of
which only one happens; the ends of `itertools.tee`; a function that makes a new iterator at each call; a loop that may
end before the last one; tests.

**References.** <https://docs.python.org/3/glossary.html#term-iterator>,
<https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.parameters>,
<https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import given_to, one_line
from gradguard.static.model import Function, SpentIterator

# An iterator gets a name: `params = filter(`, `p = net.parameters()`, `(p for ...)`, `params = trainable(net)`.
_OF_PARAMETERS = r"(?:param|modules\(|buffers\()"
_MAKES = (
    r"(?<![=!<>])=\s*(?:(?:filter|map|zip|iter|[\w.]*chain[\w.]*)\(|\(\s*[\w.\[\]]+\s+for\b)"
    rf"[^;]{{0,200}}?{_OF_PARAMETERS}|=\s*[\w.]*chain[\w.]*\(|=[^\n=]*(?:parameters|modules|buffers)\(|params?\b\s*=\s*[\w.]+\("
)
_MADE = sign("=", pattern=_MAKES, across=True)
_MADE_HERE = sign("=", pattern=_MAKES, across=True, own=True)
_OF_A_MODEL = sign("ptim", "clip_grad", "Adam", "SGD", "parameters(")
_USED = sign(
    "for", "list(", "tuple(", "set(", "dict(", "sum(", "max(", "min(", "ptim", "Adam", "SGD", "clip_grad", "param",
    "ema", "weight",
    pattern=r"\b(?:in|list|tuple|set|dict|sum|max|min|\w*[oO]ptim\w*|Adam\w*|SGD|clip_grad\w*|\w*(?:ema|weight)\w*)"
    r"\b[ \t(]*(?:self\.)?\w*(?:param|net|train|weight|var|iter|group|decay|layer|modul|buffer|\bps?\b|\b[a-z]\b)|"
    r"\w*(?:param|weight)\w*\b[ \t]*[,)\]]",
    own=True,
)  # fmt: skip

rule = Rule("GG220", "spent-iterator", Severity.ERROR, ((_OF_A_MODEL, _MADE_HERE), (_OF_A_MODEL, _MADE, _USED)))


@rule.in_source
def is_used_again(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.spent_iterators():
        name, made = one_line(each.site.code), each.made
        is_same = each.spent == each.site
        when = "is used up by the first iteration" if is_same else "is an iterator that was used up"
        spent = () if is_same else (each.spent.related("this takes all that it has"),)
        yield rule.finding(
            each.site,
            f"`{name}` {when}: {_CONSEQUENCES.get(each.use, 'there is nothing left in it')}",
            help="make a list of it, which can be gone through again",
            fix=_as_list(each),
            related=(made.related("the iterator is made here"), *spent),
        )


_CONSEQUENCES = {
    "clip": "no gradient is left to be clipped",
    "group": "the optimizer gets a group without parameters, which trains nothing",
    "optimizer": "the optimizer gets no parameters, and raises",
}


def _as_list(each: SpentIterator) -> Fix | None:
    made = each.made
    if made.path != each.site.path or made.cell != each.site.cell:
        return None
    return Fix("make a list of it", (given_to(made, "list"),), safe=False)

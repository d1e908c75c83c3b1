"""An element of a tensor is used as a key: it is a new key each time.

**What happens.** A tensor's hash is its identity. What a loop over a tensor gives, and `y[i]`, are tensors, each a new
object: two labels that are both 3 are two keys. A dict that counts them gets one more entry for each, with the value 1,
and keeps the storage of the whole batch with each key; `if label in seen` is never true, `seen.get(label)` finds
nothing, and `open.pop(label, None)` takes nothing out. Nothing raises.

```python
counts = {}
for x, y in loader:
    for label in y:
        counts[label] = counts.get(label, 0) + 1      # one entry for each sample
```

A function that keeps what it makes under its argument, and is given what a tensor of numbers computes, does the same:

```python
def table(self, width):
    if width not in self.tables:
        self.tables[width] = make(width)
    return self.tables[width]

self.table(lengths.max())                             # never found again: `lengths.max().item()`
```

What `.data` and `.detach()` give is a new object each time, too, of whatever tensor: an optimizer that looks up
`self.state[p.data]` begins anew in each step, and keeps what it has made for all the steps before.

```python
for p in group["params"]:
    state = self.state[p.data]                        # never has what the last step has left there: `self.state[p]`
```

**Instead**, use the numbers:

```python
    for label in y.tolist():                          # or `label.item()`
        counts[label] = counts.get(label, 0) + 1
```

**Not flagged.** Lists and tensors that are indexed so (`correct[label] += 1`): those take the number. Parameters as
keys, of which each is one object; parts that a tuple holds (`parts = x.chunk(4)`), which gives the same objects each
time; a key that may be no tensor; whole tensors, where nothing tells that they are computed for the call; dicts that
something is taken out of; what is looked up in a plain dict, which raises a `KeyError` (`groups[label].append(x)`).

**References.** pytorch#7733, pytorch#10625 (to take the hash away from tensors, which code relied on),
<https://docs.pytorch.org/docs/stable/generated/torch.Tensor.tolist.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import EVALUATES, KEPT_UNDER, LOOP, TRAINS, sign
from gradguard.static.fixes.edits import one_line, with_call
from gradguard.static.mistakes.kept import TensorKey
from gradguard.static.model import Function
from gradguard.static.source import Site

_KEYS = sign(
    "[", ".pop(", ".setdefault(", ".add(", ".get(",
    pattern=r"\w\[[^\]\n]+\]+\s*(?:[-+*/]?=(?!=)|\.(?:append|add|extend)\()|\.(?:pop|setdefault|add|get)\(\s*\w",
    own=True,
)  # fmt: skip
# An entry that is read: a collection that fills itself has one more by that.
_FILLS_ITSELF = sign("defaultdict", "Counter")
_READS = sign("[", pattern=r"=[ \t]*[\w.]+\[[a-z_]\w*\][ \t]*(?:#|\n|$)", own=True)
# A meter, in a file of its own: `for guess, label in zip(guesses, labels): self.seen[label] += 1`.
_ZIPS = sign("zip(", pattern=r"\bfor\s+\w+(?:\s*,\s*\w+)+\s+in\s+zip\(\w+(?:\s*,\s*\w+)+\):", own=True)
_OWN_KEYS = sign("self.", pattern=r"\bself\.\w+\[[a-z]\w*\]\s*(?:\+=|\.append\()", own=True)
_ASKED = sign(".pop(", ".setdefault(", ".add(", pattern=r"\.(?:pop|setdefault|add)\(\s*[a-z]\w*\s*[,)]", own=True)
_TENSOR = sign("Tensor", own=True)

# What is kept is made of tensors.
_MAKES = sign("torch.", "F.", "nn.", own=True, pattern=r"\b(?:torch|F|nn)\.\w+")

# `state[p.data]`, `self._state_of(p.data)`, `d = p.data` with `state[d]` behind it.
_DATA = r"[\w.]+\.(?:data|detach\(\))"
_OF_DATA = sign(
    ".data", ".detach()",
    pattern=rf"\w\[\s*{_DATA}\s*\]|\bself\.\w+\((?:[^()]*[,=])?\s*{_DATA}\s*[,)]|\.(?:setdefault|add)\(\s*{_DATA}\s*[,)]|"
    rf"\b(\w+)\s*=\s*{_DATA}\s(?s:.*?)(?:\w\[\1\]|\bself\.\w+\((?:[^()]*[,=])?\s*\1\s*[,)]|\.(?:setdefault|add)\(\s*\1\b)",
    own=True,
    across=True,
)  # fmt: skip

rule = Rule(
    "GG412",
    "tensor-key",
    Severity.ERROR,
    (
        *((*group, LOOP, _KEYS) for group in (*TRAINS, *EVALUATES)),
        *((*group, LOOP, _FILLS_ITSELF, _READS) for group in TRAINS),
        (_FILLS_ITSELF, _ZIPS, _OWN_KEYS),
        (_TENSOR, LOOP, _ASKED),
        (_MAKES, KEPT_UNDER),
        (_OF_DATA,),
    ),
)


@rule.in_source
def is_new_each_time(function: Function) -> Iterator[Finding]:
    yield from _made_for_the_moment(function)
    for each in function.mistakes.kept.tensor_keys():
        if each.given is not None:
            yield _as_argument(each, each.given)
            continue
        consequence = "gets one more entry each time" if each.adds else "never has it"
        key = each.key.code
        yield rule.finding(
            each.site,
            f"`{key}` is a tensor, and each element of a tensor is a new key: `{each.collection}` {consequence}",
            help=f"go over `{each.of}.tolist()`" if each.of else f"use the number: `{key}.item()`",
            fix=_fix(each),
            related=(each.over.related("a loop goes over it here"),) if each.over is not None else (),
        )


def _made_for_the_moment(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.renewed_keys():
        yield rule.finding(
            each.site,
            f"`{each.site.code}` is a new object each time, and a tensor is found by its identity: `{each.collection}` "
            "gets one more entry, and nothing is ever found in it",
            help=f"use `{each.of}`, which is one object",
            related=(each.used.related("it is the key here"),) if each.used is not None else (),
        )


def _as_argument(each: TensorKey, given: Site) -> Finding:
    key = one_line(each.key.code)
    return rule.finding(
        each.site,
        f"a caller gives the tensor `{key}` for this key, which is a new one each time: `{each.collection}` gets one "
        "more entry, and nothing is ever found in it",
        help=f"give it a number: `{key}.item()` where it has one element",
        related=(given.related("it is given here"),),
    )


def _fix(each: TensorKey) -> Fix | None:
    """Use the number, where the element is written in this place only: elsewhere it may be looked up."""
    is_only = each.key.chunk.program.count(each.key.code) == 1
    return with_call(each.key, "item()") if is_only and not each.of else None

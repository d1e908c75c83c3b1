"""In each iteration something is put around what the last one has put there: a chain of all of them.

**What happens.** A wrapper keeps what it wraps. `op.forward = timed(op.forward)` in a function that runs before every
evaluation wraps the wrapper of the last time: after a hundred of them each call goes through a hundred functions, and
what each of these keeps (a buffer, a batch that its closure has) is never freed. In the end Python says
`maximum recursion depth exceeded`.

```python
for epoch in range(epochs):
    for layer in model.layers:
        layer.forward = timed(layer.forward)                     # one more, around the last one
    train(model, loader)
```

An object that keeps the one it comes after does the same: `student = student.successor()` with `Student(teacher=self)`
keeps all generations, with their parameters.

So do some functions of torch, which add to what they did before: `parametrize.register_parametrization` (and
`parametrizations.weight_norm`, `spectral_norm`) computes one parametrization of the other, and
`prune.custom_from_mask` and `prune.global_unstructured` keep the mask of each call in a `PruningContainer`.

What puts back the wrapper puts back nothing: `inner = layer.forward`, read after the wrapper was put there, and
`layer.forward = inner`.

**Instead**, do it once, before the loop; or put back what was there: `layer.forward = original`,
`parametrize.remove_parametrizations(layer, "weight")`, `prune.remove(layer, "weight")`. Of the one before, keep what is
needed (its outputs, its number), or let it go when its successor is trained: `student.teacher = None`.

**Not flagged.** What is done once: before the loop, for each layer, under a condition (`if not hasattr(...)`); what is
put around something that the iteration has made; functions that give back what they were given, or a wrapper that the
program takes off again. Chains that are the model, as each object computes what it gives with the one before it
(boosting, progressive networks, flows), and objects that a list has as well, all of them. Pruning by `l1_unstructured`
and the like, which keeps no mask, and one mask for each epoch or round. The old `weight_norm` and `spectral_norm` raise
when they are called twice.

**References.** <https://docs.pytorch.org/tutorials/intermediate/parametrizations.html> (parametrizations are
concatenated), <https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.PruningContainer.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Related, Severity
from gradguard.signs import LOOP, TRAINS, sign
from gradguard.static.mistakes.kept import WrappedAgain
from gradguard.static.model import Function

_COMPOSED = sign(
    "parametriz", "custom_from_mask", "global_unstructured",
    pattern=r"\bregister_parametrization\(|\bparametrizations\.\w+\(|\bcustom_from_mask\(|\bglobal_unstructured\(",
    own=True,
)  # fmt: skip
# Not what makes a value of another kind, or reads a setting.
_CONVERTS = r"(?!(?:str|int|float|bool|list|tuple|dict|set|max|min|len|sorted|Path|(?:\w+\.)*(?:pop|get|to|join))\()"
_AGAIN = rf"(\b\w[\w.]*\.\w+)\s*=\s*{_CONVERTS}[\w.]+\((?:[^\n]*[\s,=(])?\1\s*[,)]"
_WRAPPED = sign("(", pattern=_AGAIN, own=True)
# Where nothing in the file trains, what is named as a function, or what wraps one.
_FUNCTION = r"(?i:forward|step|fn|func|method|call|hook|loss|criterion|encode|decode|sample|predict|run|apply|__)"
_WRAPPER = r"(?i:wrap|partial|tim(?:e|ing)|watch|log|count|trac|profil|record|patch|check|guard|monitor|spy|observ)"
_NAMED_AS_ONE = rf"(?m:^)(?=[^\n=]*\.\w*{_FUNCTION}\w*\s*=|[^\n=]*=\s*[\w.]*{_WRAPPER})[^\n=]*?"
_WRAPPED_FUNCTION = sign("(", pattern=_NAMED_AS_ONE + _AGAIN, own=True)
_PUT_INTO_OBJECT = sign(
    "(",
    pattern=r"(\b\w[\w.]*\.(?!\w*config)\w+)\s*=\s*(?:(?!nn\.|torch\.)\w+\.)?[A-Z]\w*[a-z]\w*"
    r"\((?:[^\n]*[\s,=(])?\1\s*[,)]",
    own=True,
)
_SET = sign("setattr(", pattern=r"\bsetattr\([^,\n]*,\s*['\"](\w+)['\"][^\n]*\.\1\b", own=True)
# Not a setting that is put back, or switched off for a while.
_PATCHED = sign(
    " = ",
    pattern=r"\b(\w+)\s*=\s*([\w.]+\.\w+)[ \t]*\n(?s:.*?)"
    r"\b\2\s*=\s*(?:lambda\b|(?!\1\b|True\b|False\b|None\b|\d)\w+[ \t]*(?:[#\n]|$))",
    own=True,
    across=True,
)
_PUTS_FUNCTION = sign(" = ", pattern=r"\.\w+\s*=\s*(?:lambda\b|(?!True\b|False\b|None\b|\d)\w+[ \t]*(?:#|$))", own=True)
_HAS_FUNCTION = sign("def ", "lambda", pattern=r"\bdef\b(?s:.*?)\b(?:def|lambda)\b", own=True, across=True)
# Not what is computed of a tensor in each iteration: `x = x.view(-1)`, `h = self.cell(h)`, `x = F.relu(x)`.
_OF_TENSORS = (
    r"view|reshape|transpose|permute|(?:un)?squeeze|to|contiguous|float|half|long|bool|cuda|cpu|detach|clone|expand|"
    r"flatten|repeat|masked_fill|mean|sum|softmax|size|shape|type|split|strip|replace|lower|format|get|pop|copy"
)
_COMPUTES = r"(?!(?:self|F|torch|nn|np|tf|jnp|ops|math|(?:\w+_)?(?:layer|block|conv|norm))\w*[.(])"
_BOUND_AGAIN = sign(
    "(",
    pattern=rf"\b(\w+)\b[^=\n]*=(?!=)(?:[^\n]*,)?\s*(?:{_COMPUTES}[\w.]+\((?:[^\n]*[\s,=(])?\1\s*[,)]|"
    rf"\1\.(?!(?:{_OF_TENSORS})\w*\()\w+\()",
    own=True,
)

rule = Rule(
    "GG413",
    "wrapped-again",
    Severity.WARNING,
    (
        (_COMPOSED,), (_WRAPPED, _WRAPPED_FUNCTION), (_WRAPPED, _PUT_INTO_OBJECT), (_SET,),
        (_PUTS_FUNCTION, _HAS_FUNCTION, _PATCHED),
        *((*group, _WRAPPED) for group in TRAINS),
        *((*group, LOOP, _BOUND_AGAIN) for group in TRAINS),
    ),
)  # fmt: skip


@rule.in_source
def piles_up(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.wrapped_again():
        message, help = _SAID[each.kind]
        yield rule.finding(
            each.kept or each.site,
            message.format(each.path),
            help=help,
            related=_related(each),
        )


def _related(each: WrappedAgain) -> tuple[Related, ...]:
    if each.kept is not None:
        return (each.site.related("the next one is made of it here"),)
    return (each.put_back.related("what is put back is the wrapper"),) if each.put_back is not None else ()


_SAID = {
    "wrapper": (
        "`{}` is wrapped once more in every iteration, around the wrapper of the last one: each call goes through all "
        "of them, and none is freed",
        "wrap it once, before the loop, or put back what was there",
    ),
    "object": (
        "each `{}` keeps the one before it: none of them is ever freed, with all that they hold",
        "keep what is needed of it, or set it to None when the next one is made",
    ),
    "parametrization": (
        "`{}` gets one more parametrization in every iteration, on top of the last one: all of them are computed each "
        "time",
        "register it once, before the loop, or take it off with `parametrize.remove_parametrizations`",
    ),
    "mask": (
        "`{}` keeps one more mask in every iteration: pruning adds to what it did before",
        "call `prune.remove(module, name)` before the next mask",
    ),
}

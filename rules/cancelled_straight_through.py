"""A straight-through estimator without its `detach()`: the tensor cancels out, and gets no gradient.

**What happens.** `x + (q - x).detach()` has the value of `q` and the gradient of `x`: what stands in `detach()` is a
number to backward. Without it, `x` is added and taken away: the gradient of `x + (q - x)` with respect to `x` is
1 - 1 = 0. What is left is that of `q`, which was rounded, compared or looked up, and hands none on. Nothing raises
where something else is trained as well: what comes before the rounding just never learns.

```python
x_q = torch.round(x / scale) * scale
x = x + (x_q - x)                      # the same as x_q
y = hard - soft + soft                 # the same as hard
```

**Instead**, detach the difference:

```python
x = x + (x_q - x).detach()
y = (hard - soft).detach() + soft
```

Where the wrong one of the two is detached, `hard - soft + soft.detach()`, the value is right as well, and the gradient
is that of `-soft`: backward trains it the other way round.

The other way round, `x_q + (x - x_q).detach()`, the value is that of `x`, which nothing rounds then, and `x` gets no
gradient.

An estimator also takes the graph of the codes away: what is computed of its result trains the encoder alone. A loss
that is to bring the codes to what the encoder gives has to come before it.

```python
q = self.codebook(index)
q = z + (q - z).detach()
loss = F.mse_loss(q, z.detach())       # trains no code, and moves z away from it
```

Where the result has a name of its own, `q_st = z + (q - z).detach()`, the loss is that of `q`.

**Not flagged.** `hard - soft.detach() + soft`; a difference under `no_grad`; `x + (f(x) - x)` where nothing is
rounded, which is a long way to write `f(x)` and has its gradient; an interpolation, `a + (b - a) * w`; the zero
`x - x` of a shape; numbers and arrays of NumPy; tests.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gumbel_softmax.html> (whose `hard=True` does it).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import detached, instead, one_line
from gradguard.static.mistakes.losses import Cancelled
from gradguard.static.model import Function


def _name(group: int) -> str:
    """A regular expression for the name of a tensor, which is taken whole or not: nothing in it is tried again."""
    return rf"(?<![\w.])(?=([A-Za-z_]\w*(?:\.(?!(?:add|sub)\()\w+)*(?:\[[^\]\n]*\])*))\{group}"


_TAKEN = r"(?:-[\s(]*|\bsub\((?:[^=;]{0,120}?,)?\s*)"
_STEPS = sign(
    *"round floor ceil trunc fix( sign( sgn heaviside argm hot bernoulli multinomial scatter quant Quant".split(),
    *"inari ernari iscreti odebook hard Hard z_q x_q w_q q_x q_z q_w q_hat ste STE traight where( .float( .to(".split(),
    pattern=r"\bround|_round|floor\(|ceil\(|trunc\(|\bfix\(|\bsign\(|sgn|heaviside|argm|hot\b|hot_|hot\(|bernoulli|"
    r"multinomial|scatter|quant|inari|ernari|iscreti|odebook|\b\w*hard|[zxw]_q|q_(?:x|z|w|hat)|(?<![a-z])ste(?![a-z])|"
    r"STE|traight|where\(|[<>=].*\)\s*(?:\*|\.(?:float|to|type|type_as|double|half|int|long)\b)|\*\s*\(.*[<>=]",
)  # fmt: skip
# A name is taken away, and no product or call.
_SUBTRACTS = sign(
    "-", "sub(",
    pattern=r"-[\s(]*[A-Za-z_][\w.]*(?:\[[^\]\n]*\])*(?![\w.(\[]|[ \t]*[*/@%])|sub\(",
    own=True,
    across=True,
    usual=True,
)  # fmt: skip
_CANCELS = sign(
    "-", "sub(",
    pattern=r"(?m)"
    rf"{_name(1)}(?:"
    rf"(?:\s*(?:#[^\n]*\s+)?\+|\.add\(|\.sub\()\s*[^=;\n]{{0,160}}?{_TAKEN}\1(?![\w.])"  # x + (q - x)
    r"|\s*(?:-|\.sub\()[\s(]*\1(?![\w.]))"  # x - (x - q)
    rf"|\b(?:add|sub)\(\s*{_name(2)}\s*,[^=;]{{0,160}}?{_TAKEN}\2(?![\w.])"  # torch.add(x, q - x)
    rf"|{_TAKEN}{_name(3)}[\s)]*(?:\+|\.add\()(?:[^=;\n*]{{0,80}}\+)?[\s(]*\3(?![\w.])"  # q - x + x, -x + q + x
    rf"|\badd\([^=;\n]*{_TAKEN}{_name(4)}[\s)]*,[\s(]*\4(?![\w.])"  # torch.add(q - x, x)
    # step = q - x; x + step
    rf"|^[ \t]*(\w+)[ \t]*=[^=\n]*{_TAKEN}{_name(6)}[\s)]*$(?s:.{{1,600}}?)"
    r"(?<![\w.])(?:\5\s*\+[\s(]*\6|\6\s*\+[\s(]*\5)(?!\w)",
    own=True,
    across=True,
    usual=True,
)  # fmt: skip

# hard - soft + soft.detach(), soft.detach() - soft + hard
_TURNS = sign(
    ".detach()",
    pattern=r"-[\s(]*([A-Za-z_][\w.]*)[^\n=]*\+[\s(]*\1\.detach\(\)|"
    r"([A-Za-z_][\w.]*)\.detach\(\)[^\n=]*-[\s(]*\2(?![\w.(\[])|"
    r"-\s*\(\s*([A-Za-z_][\w.]*)\s*-\s*\3\.detach\(\)",
    own=True,
)
# An estimator as it should be, and something that is detached besides.
_GOES_THROUGH = sign(
    ".detach()",
    pattern=r"\+\s*\([^\n]*-[^\n]*\)\.detach\(\)|\)\.detach\(\)\s*\+",
    own=True,
)
# q + (z - q).detach(), q - (q - z).data, q + z.detach() - q.detach(), and a difference with a name.
_IS_CUT = sign(
    ".detach()", ".data",
    pattern=r"[+-]\s*\([^\n]*-[^\n]*\)\.(?:detach\(\)|data\b)|\)\.(?:detach\(\)|data)\s*\+|"
    r"[+-]\s*\(?[\w.]+\.detach\(\)\s*[+-]|=\s*\([^\n]*-[^\n]*\)\.detach\(\)",
    own=True,
)  # fmt: skip
# Which code is the nearest.
_NEAREST = sign(".min(", "topk(", "searchsorted", "bucketize")
_COMPARES = sign(".detach()", pattern=r"\w\.detach\(\)", own=True)

rule = Rule(
    "GG223",
    "cancelled-straight-through",
    Severity.ERROR,
    (
        (_STEPS, _SUBTRACTS, _CANCELS),
        (_STEPS, _TURNS),
        (_STEPS, _IS_CUT),
        (_NEAREST, _IS_CUT),
        (_GOES_THROUGH, _COMPARES),
    ),
)


@rule.in_source
def estimates_nothing(function: Function) -> Iterator[Finding]:
    yield from _cancels_out(function)
    yield from _other_way_round(function)
    yield from _before_the_loss(function)


def _cancels_out(function: Function) -> Iterator[Finding]:
    found = function.mistakes.losses.cancelled()
    if not found or function.called_without_grad():
        return
    for each in found:
        yield _reversed(each) if each.is_reversed else _cancelled(each)


def _reversed(each: Cancelled) -> Finding:
    gone, kept = one_line(each.gone.code), one_line(each.kept.code)
    return rule.finding(
        each.site,
        f"`{gone}` is taken away with its graph, and its number is added: its gradient has the wrong sign",
        help=f"take the number away, and add the tensor: `{kept} - {gone}.detach() + {gone}`",
    )


def _cancelled(each: Cancelled) -> Finding:
    gone, kept = one_line(each.gone.code), one_line(each.kept.code)
    return rule.finding(
        each.site,
        f"`{gone}` is added and taken away: it cancels out, and gets no gradient; what is left is `{kept}` and its "
        "own gradient",
        help=f"detach the difference, for the gradient to go straight through: `{gone} + ({kept} - {gone}).detach()`",
        fix=_fix(each),
    )


def _other_way_round(function: Function) -> Iterator[Finding]:
    """``q + (z - q).detach()``."""
    found = function.mistakes.losses.exchanged()
    for each in found if found and not function.called_without_grad() else ():
        right = f"{each.encoded} + ({each.chosen} - {each.encoded}).detach()"
        yield rule.finding(
            each.site,
            f"this has the value of `{each.encoded}`, and the gradient of `{each.chosen}`: nothing is rounded, and "
            f"`{each.encoded}` gets no gradient",
            help=f"the other way round it goes straight through: `{right}`",
            fix=instead(each.site, right, "exchange the two"),
        )


def _before_the_loss(function: Function) -> Iterator[Finding]:
    """``q = z + (q - z).detach()``, and then ``F.mse_loss(q, z.detach())``."""
    for each in function.mistakes.losses.estimated_early():
        if each.result != each.chosen:
            yield rule.finding(
                each.loss,
                f"`{each.result}` has the graph of `{each.encoded}` alone: its loss trains no code",
                help=f"compute it of `{each.chosen}`",
                related=(each.site.related(f"`{each.chosen}` is detached here"),),
            )
            continue
        yield rule.finding(
            each.site,
            f"from here on `{each.chosen}` has the graph of `{each.encoded}` alone: its loss trains no code",
            help=f"compute the loss of `{each.chosen}` before this statement",
            related=(each.loss.related("this loss is to train it"),),
        )


def _fix(each: Cancelled) -> Fix | None:
    edit = detached(each.difference) if each.difference is not None else None
    return Fix("detach the difference", (edit,), safe=False) if edit is not None else None

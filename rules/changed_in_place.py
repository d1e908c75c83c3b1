"""A tensor is changed in place that an operation has kept for its backward: the backward raises.

**What happens.** For its backward, an operation keeps what its derivative is computed with. Sigmoid, tanh, softmax,
exp, relu, sqrt and norm keep their result; linear layers, convolutions, products and powers what they are given.
Autograd counts how often a tensor is changed in place, also through a view of it. When the backward finds that a tensor
is not what was kept, it raises a RuntimeError: "one of the variables needed for gradient computation has been modified
by an inplace operation". It names a shape and a version, and not the line that changed it.

```python
weights = scores.softmax(dim=-1)
weights *= mask                     # softmax needs its result as it was
out = F.relu(self.conv(x))
out += x                            # so does relu
nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.5, inplace=True))
x += self.fc(x)                     # and `fc` needs what it was given
for t in range(1, n):
    h[t] = self.cell(x[t], h[t - 1])        # `cell` keeps a view of `h`, and each iteration changes that
```

**Instead**, compute a new tensor:

```python
weights = weights * mask
out = out + x
x = x + self.fc(x)
```

States go into a list, which `torch.stack` makes a tensor of.

Entries are set by `torch.where(mask, y, 0)` or `y.masked_fill(mask, 0)`, or before the operation.

**Not flagged.** What operations give that do not keep it: sums, products, views, layers such as `nn.Linear`,
`nn.Conv2d` and `nn.BatchNorm2d`, dropout, and activations that keep their input (gelu, silu, leaky_relu, elu); what has
no graph, as no layer with parameters is surely behind it, or it was computed under `no_grad`, or detached; what an
evaluation alone does; a result that does not go into the loss; copies; changes through `.data` (GG240); changes of a
variable that is another name of what was kept; results of layers whose attribute is not named after an activation, as
`self.act` and `self.relu` are, and of an `nn.Sequential` in a variable; an `nn.Sequential` that nothing calls, and
whose layers a loop looks at, to compute with functions (`if "relu" in name: x = F.relu(x)`). Under mixed precision,
what is given to an operation: it may have kept a copy of another type.

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import CHANGED, Sign, Signs, sign
from gradguard.static.fixes.rewrites import out_of_place
from gradguard.static.model import Function

_HELP = "compute a new tensor, as `y * m` and `torch.where` do, and operations without `inplace`"

# One name stands in what keeps its tensor and in what changes that, in one line or in a later one; and it is not bound
# anew between them.
_NAME = r"(?m:^)[ \t]*([A-Za-z_]\w*)"
_AUGMENTS = rf"(?:[-+*/]=|=(?=[^\n]*{CHANGED}))"
_HOME = r"(?:\b(?:torch|F|nn|functional|special|linalg)\.)"
_RESULT = (
    r"(?:softmax|softmin|log_softmax|logsumexp|sigmoid|tanh|relu_?|exp[12m]{0,2}|expit|r?sqrt|reciprocal|norm|std|amax|"
    r"amin)\("
)
_ACTIVATION = r"self\.\w*(?:relu|act|sig|tanh|soft|gate|nonlin)\w*\("
_METHOD = r"\.(?!detach_|requires_grad_)[a-z]\w*[a-z]_\("
# A layer that may change what it is given, and what says that it does.
_LAYER = r"self\.\w*(?:relu|act|elu|drop|leaky|nonlin|silu|mish|swish)\w*\("
_LAYERS = r"(?:ReLU6?|SELU|SiLU|Mish|Hard\w+|LeakyReLU|C?ELU|Dropout[123]?d?|Threshold)\("


def _then(group: int, changes: str) -> str:
    """A regular expression for the rest of a line, and one of the next fifty that changes the name of a group.

    Args:
        changes: how it does, with ``NAME`` for that one.
    """
    name = rf"\{group}\b"
    return rf"[^\n]*(?:\n(?![ \t]*{name}[ \t]*=)[^\n]*){{0,50}}?\n[ \t]*(?![ \t]){changes.replace('NAME', name)}"


# Lines begin with what they change, or bind or return it, so that few of them are looked at as a whole.
_BINDS = r"(?:return[ ]|\w+[ ]*=[ ]*)?"
_CHANGES = (
    rf"(?:NAME[ \t]*{_AUGMENTS}|NAME\[[^\n\"']*\][ \t]*[-+*/]?=(?!=)|"
    rf"{_BINDS}(?:NAME(?:\[[^\n\]]*\]|\.\w+\([^()\n]*\))?{_METHOD}|"
    rf"{_HOME}+(?:\w+_\(NAME|\w+\(NAME,[^()\n]*\binplace=True)))"
)
_CHANGED_BY_LAYER = rf"{_BINDS}(?:self\.\w+\()?{_LAYER}NAME\)"
# `out = F.relu(y)`, `out = self.act(y)`, `out = y.softmax(-1)`.
_KEPT = (
    rf"{_NAME}[ \t]*=(?![^\n]*{CHANGED})[ \t]*"
    rf"(?:{_HOME}+{_RESULT}|{_ACTIVATION}|[^\n]*(?<!math)(?<!np)\.{_RESULT}[^()\n]*\)[ \t]*(?=\n))"
)
# `out = self.fc(x)`, `out = F.gelu(x)`; not `x = self.fc(x)`.
_GIVEN = (
    r"(?m:^)[ \t]*(\w+)\b[^\n]*?"
    r"(?:self\.(?!_|\w*drop)\w+\(|\b(?:torch|F|functional)\.(?:\w*elu|silu|mish|sin|cos|square)\()"
    r"(?!\1\b)([A-Za-z_]\w*)\)"
)
# `out = x ** 2`, `out = x * y`, `out = y / x`.
_MULTIPLIED = (
    r"(?m:^)[ \t]*(\w+)\b[ \t]*=[^\n]*?([ ][*/][ ])?\b(?!\1\b)([A-Za-z_]\w*)\b"
    r"(?(2)(?![.(\[])|(?:[ ]?\*\*[ ]?\d|\.pow\(|[ ][*/][ ]))"
)
_KEEPING = (
    "softm", "sigmoid", "tanh", "relu", "exp", "sqrt", "reciprocal", "norm(", "std(", "amax", "amin", "act", "gate",
    "nonlin",
)  # fmt: skip


def _of_lines(*literals: str, pattern: str) -> Sign:
    return sign(*literals, pattern=pattern, own=True, across=True)


_SHOWN = (
    _of_lines(*_KEEPING, pattern=_KEPT + _then(1, _CHANGES)),
    _of_lines("self.", "elu(", "silu(", "mish(", "sin(", "cos(", "square(", pattern=_GIVEN + _then(2, _CHANGES)),
    _of_lines("**", ".pow(", " * ", " / ", pattern=_MULTIPLIED + _then(3, _CHANGES)),
    # `x += self.fc(x)`, `x.add_(self.fc(x))`
    _of_lines(
        "self.", "elu(",
        pattern=rf"{_NAME}[ \t]*{_AUGMENTS}[^\n]*(?:self\.(?!_|\w*drop)\w+|F\.\w*elu)\(\1\)|"
        rf"\b([A-Za-z_]\w*){_METHOD}self\.\w+\(\2\)",
    ),
    # `torch.exp(y).clamp_(max=5)`
    _of_lines("_(", pattern=rf"{_HOME}{_RESULT}[^\n]*\){_METHOD}"),
    # `h[t] = self.cell(x, h[t - 1])`
    _of_lines(
        "1]", "1,",
        pattern=rf"{_NAME}\[(?=[^\n]*\w ?[-+] ?1 ?[\],])[^\]\n\"']*\][ \t]*=(?!=)(?=[^\n]*(?:self\.|\*))"
        r"[^\n]*\b\1\[(?![\"'])",
    ),
)  # fmt: skip
_BY_LAYER = (
    _of_lines(
        *_KEEPING,
        pattern=_KEPT + _then(1, _CHANGED_BY_LAYER) + rf"|{_LAYER}(?:{_ACTIVATION}|{_HOME}{_RESULT})",
    ),
    _of_lines("self.", pattern=_GIVEN + _then(2, _CHANGED_BY_LAYER)),
)
# Something that changes what there is: most functions compute new tensors throughout.
_CHANGES_ONE = sign(
    "=", "_(",
    pattern=rf"[-+*/]=|\][ \t]*=(?!=)|_\(|\binplace=True|{CHANGED}",
    own=True,
    across=True,
    usual=True,
)  # fmt: skip
_MODULE = sign("Module", pattern=r"(?m:^)[ \t]*class\s[^\n]*Module\b")
_BACKWARD = sign(".backward(", own=True)
_MADE_IN_PLACE = sign("True", pattern=rf"{_LAYERS}(?:[^()\n]*inplace=True|True\)|[^()\n=]*, True\))")
# `("relu", nn.ReLU(True))`, of an OrderedDict.
_WORD = r"(?:\(?\s*[\"'][^\"'\n]*[\"']\s*[,:]\s*)"
_SEQUENCE = _of_lines(
    "Sequential(",
    pattern=rf"\b(?:ReLU|Sigmoid|Tanh|Softmax)\([^()\n]*\)\s*\)?\s*,\s*{_WORD}?(?:\w+\.)*{_LAYERS}[^()\n]*\bTrue\s*\)",
)

_SIGNS: tuple[Signs, ...] = (
    *((_CHANGES_ONE, shown, where) for shown in _SHOWN for where in (_MODULE, _BACKWARD)),
    *((shown, _MADE_IN_PLACE, _MODULE) for shown in _BY_LAYER),
    (_SEQUENCE, _MODULE),
)

rule = Rule("GG251", "changed-in-place", Severity.ERROR, _SIGNS)


@rule.in_source
def changes_what_a_backward_needs(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.backward.changed_in_place():
        changed = f"`{each.name}` is" if each.name is not None else "a tensor is"
        needed = "its result" if each.is_result else "what it was given"
        fix = out_of_place(each.site)
        yield rule.finding(
            each.site,
            f"{changed} changed in place, and the backward of `{each.operation}` needs {needed} as it was: it raises",
            help=f"compute a new tensor: {fix.description}" if fix is not None else _HELP,
            fix=fix if each.is_alone else None,
            related=(each.kept.related(f"the backward of this needs {needed}"),),
        )

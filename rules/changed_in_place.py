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
evaluation alone does; a result that does not go into the loss; copies; changes through `.data` (GG240). Under mixed
precision, what is given to an operation: it may have kept a copy of another type.

**References.** <https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import CHANGED, sign
from gradguard.static.model import Function
from gradguard.static.rewrites import out_of_place

_HELP = "compute a new tensor, as `y * m` and `torch.where` do, and operations without `inplace`"

# Sums and counts of numbers have these names, and nothing has kept them.
_NUMBERS = r"(?!(?:\w*(?:loss|count|total|correct|num|idx|index|step|acc|offset|epoch)|[ijkn])\b)"
# Slices, the first one, what a comparison gives; not what a key of a dict looks like.
_PARTS = r"(?:\d+|[^\]\n\"']*(?:[:<>~&|]|==|\.\.\.)[^\]\n\"']*)"
_CHANGES = sign(
    "=", "_(",
    pattern=rf"{CHANGED}{_NUMBERS}|"
    rf"(?m:^)[ \t]*{_NUMBERS}[A-Za-z_]\w*(?:\[[^\]\n\"']*\])?[ \t]*[-+*/]=[ \t]*(?!\d+[ \t]*\n|[\"'\[])|"
    rf"(?m:^)[ \t]*{_NUMBERS}[A-Za-z_]\w*\[(?:{_PARTS}\][ \t]*=(?!=)|[^\]\n\"']*\][ \t]*=[ \t]*(?:-?\d|float\())|"
    rf"(?m:^)[ \t]*(\w+)\[[^\]\n\"']*\][ \t]*=(?!=)[^\n]*\b\1\[|"
    r"[\w\])]\.(?:mul|add|sub|div|pow|clamp\w*|clip|masked_fill|masked_scatter|zero|fill|copy|index_\w+|scatter\w*|"
    r"addc\w+|lerp|relu|sigmoid|tanh|exp|log|sqrt|rsqrt|neg|abs|square|tril|triu|unsqueeze|squeeze|transpose|t)_\(|"
    r"\brelu_\(|inplace=True",
    own=True,
    across=True,
    usual=True,
)  # fmt: skip
_KEEPS = sign(
    "self.", "sigmoid", "tanh", "softmax", "relu", "exp", "sqrt", "norm", "reciprocal", "**", "matmul",
    pattern=r"\b(?:sigmoid|tanh|softmax|relu_?|exp|r?sqrt|norm|reciprocal)\(|self\.\w+\(|\*\*",
    own=True,
)  # fmt: skip
_MODULE = sign("Module", pattern=r"(?m:^)[ \t]*class\s[^\n]*Module\b|\bnn\.[A-Z]\w+\(")
_BACKWARD = sign(".backward(", own=True)

# A layer that changes what it is given, behind another one, or behind an operation that keeps that.
_LAYER = r"self\.\w*(?:relu|act|elu|drop|leaky|nonlin|silu|mish|swish)\w*\("
_LAYERS = sign(
    "self.",
    pattern=rf"{_LAYER}(?:self\.\w+|(?:F|torch)\.\w+)\(|"
    rf"\b(\w+) = [^\n]*(?:relu|sigmoid|tanh|softmax|act\w*)\([^\n]*\n[ \t]*\w+ = [^\n]*{_LAYER}\1\)|"
    rf"self\.\w+\((\w+)\)[^\n]*\n(?s:.{{0,400}}?){_LAYER}\2\)",
    own=True,
    across=True,
)  # fmt: skip
_MADE_IN_PLACE = sign("inplace=True", "(True)", ", True)")
_SEQUENCE = sign(
    "Sequential(",
    pattern=r"\b(?:ReLU|Sigmoid|Tanh|Softmax)\([^()\n]*\)\s*,\s*(?:\w+\.)*\w+\([^()\n]*\bTrue\s*\)",
    own=True,
    across=True,
)  # fmt: skip

_SIGNS = ((_CHANGES, _KEEPS, _MODULE), (_CHANGES, _KEEPS, _BACKWARD), (_LAYERS, _MADE_IN_PLACE, _MODULE))

rule = Rule("GG251", "changed-in-place", Severity.ERROR, (*_SIGNS, (_SEQUENCE, _MODULE)))


@rule.in_source
def changes_what_a_backward_needs(function: Function) -> Iterator[Finding]:
    for each in function.changed_in_place():
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

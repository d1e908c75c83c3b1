"""All that a `forward` computes of a parameter is detached: it never gets a gradient, and keeps its first values.

**What happens.** A parameter of a module is in the optimizer, and what the module computes with it goes through NumPy,
or `.detach()`, in every use. The result still depends on its numbers, so the model runs and the rest of it learns; the
parameter itself has `grad` None for good, and not even weight decay moves it. What was before it loses that way of the
gradient as well.

```python
score = x @ self.proj / self.proj.norm()
order = np.argsort(-score.detach().numpy())             # an index needs no gradient
gate = torch.tanh(torch.from_numpy(np.take_along_axis(score.detach().numpy(), order, axis=1)))    # a value does
return x[order] * gate
```

So it is with a codebook, where each term of the loss has the detached code: the encoder is brought to the codes, and no
code ever moves.

```python
with torch.no_grad():                                   # or with a graph: an index has none
    index = torch.cdist(z, self.codebook.weight).argmin(1)
q = self.codebook(index)
loss = F.mse_loss(q.detach(), z)                        # needs `F.mse_loss(q, z.detach())` besides
q = z + (q - z).detach()
```

So it is with a parameter of which only plain numbers are used, `x * self.scale.item()`, `math.exp(self.log_rate)`
(`torch.exp` is what is meant), or the step sizes of a meta-learner as `self.log_rates.exp().tolist()`: `unbind()` gives
them with their graph.

So it is with a temperature that an optimizer is given by its name, where a property detaches it for every loss:

```python
self.alpha_optimizer = torch.optim.Adam([self.log_alpha])

@property
def alpha(self):
    return self.log_alpha.exp().detach()                # right in the loss of the policy

alpha_loss = -(self.alpha * (log_prob.detach() + self.target_entropy)).mean()      # its own needs `self.log_alpha`
```

**Instead**, take the values from the tensor:

```python
index = torch.from_numpy(order)
gate = torch.tanh(score.gather(1, index))
```

**Not flagged.** Buffers, and parameters that want no gradient; a parameter that is itself detached, as a codebook
that is moved by hand; one of which only indices are taken, or numbers that are shown or compared; one that another
method, a subclass or the program uses besides, or that a penalty on all parameters has in it.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import FORWARD, sign
from gradguard.static.model import Function

_PARAMETER = sign("Parameter(", pattern=r"\bself\.\w+\s*(?::[^=\n]*)?=\s*(?:\w+\.)*Parameter\(")
# What is computed of an attribute, and detached later.
_DETACHED = sign(
    ".detach()", ".data",
    pattern=r"\b(\w+)\s*=(?!=)[^\n]*\bself\.\w+(?!\w*\()(?s:.{1,2000}?)\b\1(?:\.\w+\([^()\n]*\))*\.(?:detach\(\)|data\b)",
    own=True,
    across=True,
)  # fmt: skip

# A codebook, in which the nearest code is looked for.
_CODES = sign("Embedding(", "Parameter(", pattern=r"\bself\.\w+\s*(?::[^=\n]*)?=\s*(?:\w+\.)*(?:Parameter|Embedding)\(")
_NEAREST = sign("argmin", "min(", "argmax", "topk(", own=True)
_CUT = sign(".detach()", ".data", own=True)
_CUT_IN_FILE = sign(".detach()")

# A parameter of which a method takes numbers.
_TAKES = sign(
    ".item()",
    ".tolist()",
    "float(",
    "math.",
    pattern=r"\bself\.\w+[^\n]*\.(?:item|tolist)\(\)|\bfloat\([^\n]*\bself\.|"
    # of a parameter, and of no size
    r"\bmath\.\w+\([^\n]*\bself\.(?!\w*(?:dim|size|head|width|chan|feat|num|len|max|min|base|layer|dist|d_))\w+",
    own=True,
)

# An attribute that an optimizer is given by its name.
_OPTIMIZES = sign("optim", "Adam", "SGD", "RMSprop", "Lion", "LBFGS", own=True)
_BY_NAME = sign("self.", pattern=r"[\[(,]\s*self\.\w+\s*[\],]", own=True)

rule = Rule(
    "GG243",
    "only-detached",
    Severity.ERROR,
    (
        (FORWARD, _PARAMETER, _DETACHED),
        (FORWARD, _CODES, _NEAREST, _CUT),
        (_PARAMETER, _TAKES),
        (_OPTIMIZES, _BY_NAME, _CUT_IN_FILE),
    ),
)


@rule.in_source
def never_gets_a_gradient(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.losses.only_detached():
        yield rule.finding(
            each.site,
            f"all that is computed of `self.{each.name}` is detached: this parameter never gets a gradient",
            help="take values from the tensor itself, as by `gather`; only indices may be detached",
            related=(each.made.related(f"`self.{each.name}` is made here, to be trained"),),
        )

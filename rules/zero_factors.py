"""Two parameters that are multiplied with each other both begin at zero: neither is ever trained.

**What happens.** The gradient of each factor of a product is a multiple of the other one. Where both are zero, both
gradients are: after the step they are zero still, and they stay so for ever. Of a low-rank adapter (LoRA), nothing is
learned; where something else is trained beside it, the loss falls all the same. Nothing raises.

```python
def reset_parameters(self):
    nn.init.zeros_(self.lora_A)
    nn.init.zeros_(self.lora_B)

def forward(self, x):
    return self.base(x) + x @ self.lora_A @ self.lora_B
```

**Instead**, begin with one of them at random. The product is zero at first, as it is meant to be, and the other factor
has a gradient at once:

```python
    nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
    nn.init.zeros_(self.lora_B)
```

**Not flagged.** One factor at zero alone (the last layer of a residual block, a gate); parameters that are added, or of
which one is used elsewhere, too; layers with a bias; what something sets afterwards, be it by the name of the
parameter, for all parameters, or for all layers of a kind. Where both are made of zeros (`torch.zeros`), and the
program loads weights, these may be placeholders: that is reported with low confidence.

**References.** Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021);
<https://docs.pytorch.org/docs/stable/nn.init.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_ZERO = (
    r"(?:Parameter\([^\n]*\bzeros\w*\(|zeros_\(\s*self\.|constant_\(\s*self\.[\w.]+,\s*0|"
    r"self\.[\w.]+\.(?:zero_|fill_)\()"
)
_ZERO_OF_EACH = r"\bin\s*[\[(]\s*self\.[^\n]*\n[^\n]*(?:zeros_|constant_|zero_|fill_)\("
_TWO_ZEROS = sign(
    "zeros", "zero_", "constant_", "fill_", pattern=rf"{_ZERO}(?s:.*?){_ZERO}|{_ZERO_OF_EACH}", own=True, across=True
)  # fmt: skip
_MODULE = sign("Module", "nn.Linear")

rule = Rule("GG248", "zero-factors", Severity.ERROR, ((_TWO_ZEROS, _MODULE),))


@rule.in_source
def begin_at_zero(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.zero_factors():
        yield rule.finding(
            each.site,
            f"`{each.first}` and `{each.second}` both begin at zero, and are only multiplied: neither gets a gradient",
            help=f"begin with one of them at random: `nn.init.kaiming_uniform_({each.first})`",
            confidence=Confidence.HIGH if each.is_sure else Confidence.LOW,
            related=(
                each.other.related(f"`{each.second}` is set to zero here"),
                each.product.related("the gradient of each of them is a multiple of the other one"),
            ),
        )

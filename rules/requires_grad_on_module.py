"""`requires_grad` is set on a module: it freezes, and unfreezes, nothing.

**What happens.** `requires_grad` is a property of tensors. Set on a module it is one more attribute of that object,
which nothing reads: its parameters stay as they were. What was to be frozen is trained, what was to be unfrozen is not,
and nothing raises.

```python
model.backbone.requires_grad = False        # the backbone is trained all the same
for stage in model.stages[-2:]:
    stage.requires_grad = True              # these stay frozen
```

**Instead**, call the method, which sets it for each parameter:

```python
model.backbone.requires_grad_(False)
for stage in model.stages[-2:]:
    stage.requires_grad_(True)
```

**Not flagged.** Tensors and parameters, `layer.weight.requires_grad = False`; what may be one of these; a module of a
program that reads such an attribute of it, or has a property of this name; a module of which the same function freezes
the parameters as well.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.requires_grad_>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static import tree as t
from gradguard.static.fixes.edits import instead, one_line
from gradguard.static.model import Function
from gradguard.static.source import Site

# A loop over parameters has them by these names.
_SETS = sign(
    ".requires_grad",
    pattern=r"(?<![\w.])(?!(?:p|param|params|parameter)\.)[A-Za-z_][\w.]*(?:\[[^=\n]*\][\w.]*)?"
    r"(?<!weight)(?<!bias)\.requires_grad\s*=[^=]",
    own=True,
)

rule = Rule("GG239", "requires-grad-on-module", Severity.ERROR, ((_SETS,),))


@rule.in_source
def sets_an_attribute(function: Function) -> Iterator[Finding]:
    for site in function.mistakes.optimizers.set_on_modules():
        stmt = site.node
        assert isinstance(stmt, t.Assign)
        assert isinstance(stmt.targets[0], t.Attribute)
        module = Site(site.chunk, stmt.targets[0].value).code
        told = Site(site.chunk, stmt.value).code
        is_off = isinstance(stmt.value, t.Constant) and not stmt.value.value
        name = one_line(module)
        yield rule.finding(
            site,
            f"`{name}` is a module: this sets an attribute of it that nothing reads, and {_does(stmt.value, is_off)}",
            help=f"`{name}.requires_grad_({one_line(told)})` sets it for each of its parameters",
            fix=instead(site, f"{module}.requires_grad_({told})", "call `requires_grad_`"),
        )


def _does(value: t.Expr, is_off: bool) -> str:
    if not isinstance(value, t.Constant):
        return "freezes or unfreezes none of its parameters"
    return "freezes none of its parameters" if is_off else "unfreezes none of its parameters"

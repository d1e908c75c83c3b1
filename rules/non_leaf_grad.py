"""The gradient of a tensor that is no leaf.

**What happens.** backward leaves gradients in leaves only: parameters, and tensors made with `requires_grad=True`.
The result of an operation is no leaf, not even of `torch.randn(3, requires_grad=True) * 0.1`. Its `.grad` is None,
and torch warns (it does not raise, as is often said). An optimizer that is given one raises *"can't optimize a
non-leaf Tensor"*.

```python
x = torch.randn(3, requires_grad=True) * 0.1
(x ** 2).sum().backward()
print(x.grad)                   # None
```

**Instead**, make it a leaf last (`(torch.randn(3) * 0.1).requires_grad_()`), or ask for the gradient with
`x.retain_grad()` before backward.

**Not flagged.** Leaves, tensors with `retain_grad()`, code that asks `x.is_leaf` or `x.grad is None`, or sets
`x.grad` itself; `.to(device)` of a leaf, which is the leaf itself where it is there already.

**Low confidence.** A `.grad` that is read is reported with `--min-confidence low` only: on public code most were
lessons that show that it is None. An optimizer that is given a non-leaf is reported by default.

**References.** <https://pytorch.org/docs/stable/generated/torch.Tensor.is_leaf.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function
from gradguard.static.values import Value

_READS = sign(".grad", pattern=r"\.grad\b", own=True)
_MAKES = sign("[", pattern=r"\b[A-Z]\w*\(", own=True)  # an optimizer, of tensors that are listed

rule = Rule("GG206", "non-leaf-grad", Severity.ERROR, ((_READS,), (sign("optim."), _MAKES)))


@rule.in_source
def is_none(function: Function) -> Iterator[Finding]:
    retained = {call.receiver for call in function.calls_of("retain_grad")}
    unclear = retained - {read.path for read in function.grad_reads}  # for t in (h, out): t.retain_grad()
    for read in function.grad_reads if not function.assigns_gradients else ():
        if read.path and read.path not in retained and not unclear:
            yield rule.finding(
                read.site,
                f"`{read.path}.grad` is None: `{read.path}` is the result of an operation, not a leaf",
                help=f"call `{read.path}.retain_grad()` before `backward()`, or make it a leaf last, with "
                "`.requires_grad_()`",
                confidence=Confidence.LOW,  # on public code it is read on purpose, to show that it is None
            )
    for call in function.calls_of("torch.optim"):
        if any(part.is_operation_result for part in _parts(call.first)):
            yield rule.finding(
                call.site,
                'the optimizer is given the result of an operation: it raises "can\'t optimize a non-leaf Tensor"',
                help="make the tensor a leaf last, with `.requires_grad_()`",
            )


def _parts(value: Value) -> Iterator[Value]:
    """The elements of a list of tensors, or of a list of groups of them."""
    for _, part in value.parts:
        yield part
        yield from _parts(part)

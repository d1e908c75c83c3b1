"""Layers in a plain list of a module, or tensors that are no parameters: its optimizer never gets them.

**What happens.** `nn.Module` knows the modules and parameters that are its attributes, and looks into no list, tuple or
dict. What stands there is missing in `parameters()`, so no optimizer trains it; in `state_dict()`, so no checkpoint has
it; and `.to(device)`, `.train()` and `.eval()` pass it by. On a CPU nothing raises: backward computes its gradients,
which add up from step to step, and the layers stay as they were made.

```python
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(8, 8) for _ in range(3)]     # never trained
```

So it is with those that a registry makes, `self.heads = {task: HEADS[task](8) for task in tasks}`, where all that
is in it are layers.

So it is with a tensor that is no `nn.Parameter`, whatever it wants: `self.scale = torch.ones(8, requires_grad=True)`.
What is computed of a parameter is none, either: of `self.gate = nn.Parameter(torch.zeros(8)).view(-1, 1)`, or with
`.to("cuda")` or `* 0.1` behind it, the module has only the result, and nobody the parameter.

**Instead**, use `nn.Parameter` for tensors, and the containers of torch, `nn.ModuleList`, `nn.ModuleDict`,
`nn.ParameterList`, `nn.ParameterDict`:

```python
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
```

**Not flagged.** A list that is given to one of these, or to any other call; a class that registers its parts in another
way (`setattr`, `add_module`, a `parameters` of its own) or says that some are frozen; layers that have an optimizer of
their own, or whose `parameters()` the class asks for itself; layers that only run under `no_grad`, or whose outputs are
detached; layers that are given to something else, too; a list that code outside of the class knows, which may train
what is in it; modules without parameters; modules that were made elsewhere and are only put into a list, as is done to
hide a teacher; a class that others are derived from.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html>,
pytorch#715, pytorch#38639, pytorch#59925, meta-pytorch/torchfix#31.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import BOUND, sign
from gradguard.static.fixes.rewrites import as_parameter, registered
from gradguard.static.model import Function

_CONSTRUCTOR = sign("__init__", pattern=r"\bdef __init__", own=True)
_OF_MODULE = sign("super", "__init__(self", pattern=r"\bsuper\(|\.__init__\(self", own=True)
_REGISTERED = r"\w+\[[^\]\n]+\]+\("  # of a registry: `HEADS[name](8)`
_MADE = rf"(?:\w+\.)*(?:[A-Z]\w*\(|{_REGISTERED})"
_EMPTY = r"\[\s*\]|\{\s*\}|(?:list|dict|OrderedDict|defaultdict)\("
# What is appended stands alone then: `self.layers.append(` is left out of the text, too.
_PUT_IN = rf"\bnn\.[A-Z]\w*\(|\bParameter\(|(?:\n|=)[ \t]*(?:[A-Z]\w*\(|{_REGISTERED})"
_COLLECTS = sign(
    "[", "(", "{",
    pattern=rf"{BOUND}\s*(?:[\[(]+\s*{_MADE}|\{{\s*[^\s}}]+\s*:\s*{_MADE}|(?:{_EMPTY})(?s:.*?)(?:{_PUT_IN}))"
    rf"|(?:{_EMPTY})(?s:.*?)(?:{_PUT_IN})(?s:.*?){BOUND}[ \t]*[a-z_]\w*[ \t]*(?:[#;]|\n|$)",
    own=True,
    across=True,
    usual=True,
)  # fmt: skip
_TORCH = sign("torch", pattern=r"\btorch\b")

_LEAF = sign("requires_grad", pattern=r"requires_grad\s*=\s*True|requires_grad_\(", own=True)
_NESTED = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
# What is done to a parameter in the expression that makes it, or to one that has a name.
_COMPUTED = sign(
    "Parameter(",
    pattern=rf"\bParameter\({_NESTED}\)\s*(?:[*/@+\[]|-|\.[a-zA-Z])|(?:[-*/@+]\s*|\b[a-z_]+\()(?:\w+\.)*Parameter\(|"
    r"(?:\n|;)[ \t]*\w+[ \t]*=[ \t]*(?:\w+\.)*Parameter\(",
    own=True,
    across=True,
)

rule = Rule(
    "GG213",
    "unregistered-parameters",
    Severity.ERROR,
    (
        (_CONSTRUCTOR, _COLLECTS, _OF_MODULE, _TORCH),
        (_CONSTRUCTOR, _LEAF, _OF_MODULE, _TORCH),
        (_CONSTRUCTOR, _COMPUTED, _OF_MODULE, _TORCH),
    ),
)


@rule.in_source
def are_never_trained(function: Function) -> Iterator[Finding]:
    for found in function.mistakes.optimizers.unregistered():
        yield rule.finding(
            found.site,
            f"what is in `{found.path}` is no part of the module: `parameters()` does not have it, and no optimizer "
            "trains it",
            help="use `nn.ModuleList`, `nn.ModuleDict`, `nn.ParameterList` or `nn.ParameterDict`",
            fix=registered(found, function.torch),
        )
    for tensor, site in function.mistakes.optimizers.unregistered_leaves():
        yield rule.finding(
            site,
            f"`{tensor}` is no parameter of the module: `parameters()` does not have it, and no optimizer trains it",
            help="make it an `nn.Parameter`",
            fix=as_parameter(site, function.torch),
        )
    for tensor, site in function.mistakes.optimizers.unregistered_results():
        yield rule.finding(
            site,
            f"`{tensor}` is computed of an `nn.Parameter`, and is none: `parameters()` does not have it, and no "
            "optimizer trains it",
            help=f"make the parameter of the result, `{tensor} = nn.Parameter(...)`, or compute this in `forward`",
        )

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

So it is with a tensor that is no `nn.Parameter`, whatever it wants: `self.scale = torch.ones(8, requires_grad=True)`.

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

import re
from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Fix, Severity
from gradguard.signs import BOUND, sign
from gradguard.static import tree as t
from gradguard.static.edits import instead
from gradguard.static.model import Function, Site

_CONSTRUCTOR = sign("__init__", pattern=r"\bdef __init__", own=True)
_OF_MODULE = sign("super", "__init__(self", pattern=r"\bsuper\(|\.__init__\(self", own=True)
_MADE = r"(?:\w+\.)*[A-Z]\w*\("
_EMPTY = r"\[\s*\]|\{\s*\}|(?:list|dict|OrderedDict|defaultdict)\("
# What is appended stands alone then: `self.layers.append(` is left out of the text, too.
_PUT_IN = r"\bnn\.[A-Z]\w*\(|\bParameter\(|(?:\n|=)[ \t]*[A-Z]\w*\("
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

rule = Rule(
    "GG213",
    "unregistered-parameters",
    Severity.ERROR,
    ((_CONSTRUCTOR, _COLLECTS, _OF_MODULE, _TORCH), (_CONSTRUCTOR, _LEAF, _OF_MODULE, _TORCH)),
)


@rule.in_source
def are_never_trained(function: Function) -> Iterator[Finding]:
    for collection, site in function.unregistered():
        yield rule.finding(
            site,
            f"what is in `{collection}` is no part of the module: `parameters()` does not have it, and no optimizer "
            "trains it",
            help="use `nn.ModuleList`, `nn.ModuleDict`, `nn.ParameterList` or `nn.ParameterDict`",
            fix=_registered(function, collection, site),
        )
    for tensor, site in function.unregistered_leaves():
        yield rule.finding(
            site,
            f"`{tensor}` is no parameter of the module: `parameters()` does not have it, and no optimizer trains it",
            help="make it an `nn.Parameter`",
            fix=_as_parameter(function, site),
        )


def _registered(function: Function, collection: str, site: Site) -> Fix | None:
    """Make a list or a dict that is written out, once in its class, one of torch's own."""
    assigned = [node for node in t.walk(site.chunk.statements) if isinstance(node, t.Assign)]
    bound = [node for node in assigned if collection in map(t.path_of, node.targets)]
    value = bound[0].value if len(bound) == 1 else None
    is_list = isinstance(value, t.Display | t.Comprehension) and value.kind == "list"
    is_dict = isinstance(value, t.DictDisplay) or (isinstance(value, t.Comprehension) and value.kind == "dict")
    if value is None or not (is_list or (is_dict and all(map(_may_name_module, _keys(value))))):
        return None
    of = "Parameter" if "Parameter(" in site.chunk.program else "Module"
    return _wrapped(function, Site(site.chunk, value), f"{of}{'List' if is_list else 'Dict'}")


def _keys(value: t.Expr) -> list[t.Expr | None]:
    """The keys of a dict that is written out."""
    if isinstance(value, t.DictDisplay):
        return [key for key, _ in value.entries]
    return [value.key] if isinstance(value, t.Comprehension) else []


def _may_name_module(key: t.Expr | None) -> bool:
    """Whether `ModuleDict` takes a key: a text without a dot."""
    if isinstance(key, t.Constant):
        return isinstance(key.value, str) and "." not in key.value
    return isinstance(key, t.Text) or (isinstance(key, t.Call) and t.path_of(key.func) == "str")


def _as_parameter(function: Function, site: Site) -> Fix | None:
    value = site.node.value if isinstance(site.node, t.Assign) else None
    return _wrapped(function, Site(site.chunk, value), "Parameter") if value is not None else None


def _wrapped(function: Function, value: Site, name: str) -> Fix | None:
    """Hand it to something of ``torch.nn``, by the name that this has in the file."""
    has_nn = re.search(r"^(?:import torch\.nn as nn|from torch import (?:.*\b)?nn)\b", value.chunk.source.text, re.M)
    if not has_nn and function.torch is None:
        return None
    made = f"{'nn' if has_nn else f'{function.torch}.nn'}.{name}"
    return instead(value, f"{made}({value.text})", f"make it an `{made}`")

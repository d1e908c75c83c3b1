"""Modules that surely have parameters which want gradients: what they are made of, or what is asked of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.parameters import making
from gradguard.static.reading.places import assigned_anywhere

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 4
_LIBRARIES = ("torchvision.models.", "timm.", "segmentation_models_pytorch.")
# Bases that bring weights of their own.
_OF_LIBRARY = re.compile(r"PreTrainedModel$|^transformers\.\w+Model$|^torchvision\.models\.|^timm\.models\.")


def has_parameters(flow: Flow, path: str) -> bool:
    """Whether what is at a path surely is a module that has parameters, none of them frozen by itself.

    Where its class can be read, that says it; else what makes it, or that somebody asks for its parameters by its name
    (reads other files).
    """
    known = flow.read(flow.canonical(path), flow.final).ref
    if isinstance(known, Class):
        return class_has_parameters(known)
    made = [value for value in assigned_anywhere(flow, flow.canonical(path)) if not _is_nothing(value)]
    if path in flow.params and not made:
        given = flow.project.passed.argument_class(flow.ref, path)
        if given is not None:
            return class_has_parameters(given)
    classes = [flow.module.value_of(call.func).ref for value in made if (call := making(value)) is not None]
    for cls in classes:
        if isinstance(cls, Class):
            return class_has_parameters(cls)
    if made and all(_is_network(flow.ref, value) for value in made):
        return True
    return _is_asked_for(flow, path.rpartition(".")[2])


def class_has_parameters(cls: Class, depth: int = _DEPTH) -> bool:
    """Whether the constructors of a module make layers that have parameters, and nothing in it freezes any."""
    if not cls.is_module or cls.freezes_some or not depth:
        return False
    if any(_is_layer(name) or _OF_LIBRARY.search(name) is not None for name in cls.external_bases):
        return True
    return any(_makes(ref, call, depth) for ref in _making(cls) for call in ref.calls)


def _is_nothing(value: t.Expr) -> bool:
    return isinstance(value, t.Constant) and value.value is None


def _is_network(ref: FunctionRef, value: t.Expr) -> bool:
    call = making(value)
    if call is None:
        return False
    name = str(ref.module.value_of(call.func).ref)
    return name.startswith(_LIBRARIES) or (name != "torch.load" and is_made(ref, call))


def _is_layer(name: str) -> bool:
    own = name.rpartition(".")[2]
    plain = ("Module", "Sequential", "ModuleList", "ModuleDict", "DataParallel", "DistributedDataParallel")
    if not name.startswith("torch.nn.") or name.startswith(k.NOT_MODULES) or own in plain:
        return False
    return own[:1].isupper() and own not in k.WITHOUT_PARAMETERS and re.search(r"Loss|Pool|Pad|Drop", own) is None


def _making(cls: Class) -> Iterator[FunctionRef]:
    """The constructors of a class and of its bases, and the methods that these call."""
    for each in cls.lineage():
        ref = each.methods.get("__init__")
        if ref is None:
            continue
        yield ref
        own = {call.name for call in ref.calls if (t.path_of(call.func) or "").startswith("self.")}
        yield from (other for name in sorted(own) if (other := cls.method(name)) is not None and other is not ref)


def _makes(ref: FunctionRef, call: t.Call, depth: int) -> bool:
    maker = ref.module.value_of(call.func).ref
    if isinstance(maker, Class):
        return maker.is_module and class_has_parameters(maker, depth - 1)
    if isinstance(maker, FunctionRef):
        given = [each for each in maker.given_back() if isinstance(each, t.Call)]
        return depth > 1 and any(_makes(maker, each, depth - 1) for each in given)
    name = str(maker)
    if name.endswith("nn.Sequential"):
        return False  # what is in it is asked as well
    return _is_layer(name) or name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter")


def _is_asked_for(flow: Flow, name: str) -> bool:
    """Whether somebody asks what has this name for its parameters, or loads some into it."""
    asked = re.compile(rf"\b{re.escape(name)}(?:\.module)?\.(?:named_parameters|parameters|load_state_dict)\(")
    if not name.isidentifier():
        return False
    return any(True for _ in flow.project.survey.texts_used(name, flow.module, asked))

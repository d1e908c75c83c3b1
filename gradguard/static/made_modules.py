"""Expressions that make a module with parameters: ``nn.Linear(512, 2).to(device)``."""

from __future__ import annotations

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.classes import Class
from gradguard.static.functions import FunctionRef
from gradguard.static.values import Kind


def is_made(ref: FunctionRef, value: t.Expr) -> bool:
    """Whether an expression makes a module that has parameters: ``nn.Linear(512, 2).to(device)``."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in k.FLUENT_METHODS:
        value = value.func.value
    if not isinstance(value, t.Call):
        return False
    maker = ref.module.value_of(value.func)
    if isinstance(maker.ref, FunctionRef):
        return maker.kind is Kind.FUNCTION and _gives_made(maker.ref)
    if isinstance(maker.ref, Class):
        return maker.kind is Kind.CLASS and maker.ref.is_module and maker.ref.may_learn
    name = str(maker.ref) if maker.kind is Kind.EXTERNAL else ""
    if name == "torch.nn.Sequential":
        return any(is_made(ref, arg.value) for arg in value.args)
    if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        return True
    if name.startswith("torch.nn.") and not name.startswith(k.NOT_MODULES):
        return value.name not in k.WITHOUT_PARAMETERS and "Loss" not in value.name
    return name.startswith("torchvision.models.") or name == "torch.load"


def _gives_made(ref: FunctionRef) -> bool:
    """Whether a function does nothing but make a module: ``return nn.Sequential(...)``."""
    body = ref.define.body
    given = body[0].value if len(body) == 1 and isinstance(body[0], t.Return) else None
    return isinstance(given, t.Call) and given.name != ref.define.name and is_made(ref, given)

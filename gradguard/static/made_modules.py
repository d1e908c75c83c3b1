"""Expressions that make a module with parameters: ``nn.Linear(512, 2).to(device)``."""

from __future__ import annotations

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.classes import Class
from gradguard.static.functions import FunctionRef
from gradguard.static.trained_apart import is_handed_on
from gradguard.static.values import Kind


def is_made(ref: FunctionRef, value: t.Expr) -> bool:
    """Whether an expression makes a module that has parameters: ``nn.Linear(512, 2).to(device)``."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in k.FLUENT_METHODS:
        value = value.func.value
    if not isinstance(value, t.Call):
        return False
    own = _own_method(ref, value)
    if own is not None:
        return _gives_made(own)
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


def _own_method(ref: FunctionRef, call: t.Call) -> FunctionRef | None:
    """The method of its own object that a call runs: ``self.make_head()``."""
    path = t.path_of(call.func) or ""
    is_own = path.startswith("self.") and path.count(".") == 1
    return ref.owner.method(call.name) if ref.owner is not None and is_own else None


def _gives_made(ref: FunctionRef) -> bool:
    """Whether a function does nothing but make a module, and set its values: ``return nn.Sequential(...)``."""
    if not ref.define.body:
        return False
    *begun, last = ref.define.body
    given = last.value if isinstance(last, t.Return) else None
    bound = ref.assigned.get(given.id, []) if isinstance(given, t.Name) else []
    if given is not None and len(bound) == 1:
        making = [stmt for stmt in begun if isinstance(stmt, t.Assign) and stmt.value is bound[0]]
        if len(making) != 1 or any(isinstance(s, t.Return) for s in t.walk_statements(begun)):
            return False
        if is_handed_on(ref, making[0], given):
            return False
        given, begun = bound[0], []
    if begun or not isinstance(given, t.Call) or given.name == ref.define.name:
        return False
    return _own_method(ref, given) is None and is_made(ref, given)

"""Expressions that make a module with parameters: ``nn.Linear(512, 2).to(device)``."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.optimizers.trained_apart import is_handed_on
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.handed import makers_in
from gradguard.static.values import Kind, Value


def is_made(ref: FunctionRef, value: t.Expr) -> bool:
    """Whether an expression makes a module that has parameters: ``nn.Linear(512, 2).to(device)``."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in k.FLUENT_METHODS:
        value = value.func.value
    if not isinstance(value, t.Call):
        return False
    own = _own_method(ref, value)
    if own is not None:
        return _gives_made(own)
    if isinstance(value.func, t.Subscript):
        makers = list(_registered(ref, value.func.value))
        return bool(makers) and all(makers)
    maker = ref.module.value_of(value.func)
    if isinstance(value.func, t.Name) and value.func.id == "cls" and ref.owner is not None and _is_of_class(ref):
        maker = Value(kind=Kind.CLASS, ref=ref.owner)
    return _makes(ref, value, maker)


def _is_of_class(ref: FunctionRef) -> bool:
    return [param.name for param in ref.define.params][:1] == ["cls"]


def _registered(ref: FunctionRef, registry: t.Expr) -> Iterator[bool]:
    """Whether each of what a global dict of the program has in it makes a module: ``HEADS[name](512)``."""
    for script, maker in makers_of(ref, registry):
        if isinstance(maker, FunctionRef):
            yield _gives_made(maker)
        elif isinstance(maker, Class):
            yield maker.is_module and maker.may_have_parameters
        elif isinstance(maker, t.Lambda):
            yield is_made(script, maker.body)
        else:
            yield _makes(script, None, script.module.value_of(maker))


def makers_of(ref: FunctionRef, registry: t.Expr) -> Iterator[tuple[FunctionRef, t.Expr | FunctionRef | Class]]:
    """What a global dict of the program has in it, each with the function in whose terms it is written."""
    if not isinstance(registry, t.Name) or (ref.define.name != "<module>" and registry.id in ref.names[0]):
        return
    module, name = ref.module, registry.id
    found = module.project.find(module.outline.imports[name], module) if name in module.outline.imports else None
    if found is not None and len(found[1]) == 1:
        module, name = found[0], found[1][0]
    yield from makers_in(module, name)


def _makes(ref: FunctionRef, call: t.Call | None, maker: Value) -> bool:
    """Whether a function or a class makes a module that has parameters.

    Args:
        call: the call of it, where there is one.
    """
    if isinstance(maker.ref, FunctionRef):
        return maker.kind is Kind.FUNCTION and _gives_made(maker.ref)
    if isinstance(maker.ref, Class):
        return maker.kind is Kind.CLASS and maker.ref.is_module and maker.ref.may_have_parameters
    name = str(maker.ref) if maker.kind is Kind.EXTERNAL else ""
    if name == "torch.nn.Sequential":
        return call is not None and any(is_made(ref, arg.value) for arg in call.args)
    if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        return True
    if name.startswith("torch.nn.") and not name.startswith(k.NOT_MODULES):
        own = name.rpartition(".")[2]
        return own not in k.WITHOUT_PARAMETERS and "Loss" not in own
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
    if begun or not isinstance(given, t.Call):
        return False
    if given.name == ref.define.name and ref.module.value_of(given.func).kind is not Kind.EXTERNAL:
        return False
    return _own_method(ref, given) is None and is_made(ref, given)

"""What makes an optimizer, or a scheduler of one; and what has one of them step, whoever is called for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.values import Kind

_SCHEDULERS = "torch.optim.lr_scheduler"
_SCHEDULING = (f"{_SCHEDULERS}.", "torch.optim.swa_utils.SWALR")
_WARMING_UP = "transformers.get_"
_DEPTH = 3


def scheduled(ref: FunctionRef, value: t.Expr, depth: int = _DEPTH) -> str | None:
    """The path of the optimizer that an expression makes a scheduler of; None where it makes none.

    Also by a function of the program, or a method of the object: ``self.make_scheduler(optimizer)``.
    """
    if not isinstance(value, t.Call):
        return None
    if _is_scheduler(ref, value.func):
        given = value.argument("optimizer", 0)
        return t.path_of(given) if given is not None else None
    callee = ref.callee(value) if depth else None
    if callee is None:
        return None
    found = {scheduled(callee, each, depth - 1) for each in callee.given_back()}
    path = found.pop() if len(found) == 1 else None
    if path is None or (path.startswith("self.") and _is_own(value)):
        return path
    given = callee.given_by(value).get(path)
    return t.path_of(given) if given is not None else None


def _is_scheduler(ref: FunctionRef, func: t.Expr) -> bool:
    maker = ref.module.value_of(func)
    if isinstance(maker.ref, Class):
        return any(name.startswith(_SCHEDULING) for name in maker.ref.external_bases)
    name = str(maker.ref) if maker.kind is Kind.EXTERNAL else ""
    is_warm_up = name.startswith(_WARMING_UP) and "schedule" in name
    return name.startswith(_SCHEDULING) or is_warm_up or _chosen_of(ref, func) == _SCHEDULERS


def makes_optimizer(ref: FunctionRef, value: t.Expr, depth: int = _DEPTH) -> bool:
    """Whether an expression makes an optimizer anew: of torch, of the program, or by a function that gives one."""
    if isinstance(value, t.Conditional):
        return makes_optimizer(ref, value.body, depth) and makes_optimizer(ref, value.orelse, depth)
    if not isinstance(value, t.Call):
        return False
    maker = ref.module.value_of(value.func)
    if isinstance(maker.ref, Class):
        return maker.ref.is_optimizer and not _is_scheduler(ref, value.func)
    name = str(maker.ref) if maker.kind is Kind.EXTERNAL else ""
    if name.startswith("torch.optim.") and name.count(".") == 2 and value.name[:1].isupper():
        return True
    if _chosen_of(ref, value.func) == "torch.optim":
        return True
    callee = ref.callee(value) if depth else None
    made = list(callee.given_back()) if callee is not None else []
    return callee is not None and bool(made) and all(makes_optimizer(callee, each, depth - 1) for each in made)


def _chosen_of(ref: FunctionRef, func: t.Expr) -> str:
    """The package of which a class is chosen by its name: ``getattr(torch.optim, name)(...)``."""
    if not isinstance(func, t.Call) or func.name != "getattr" or not func.args:
        return ""
    package = ref.module.value_of(func.args[0].value)
    return str(package.ref) if package.kind is Kind.EXTERNAL else ""


def _is_own(call: t.Call) -> bool:
    return isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "self"


def is_stepped(ref: FunctionRef, nodes: Iterable[t.Node], path: str, depth: int = _DEPTH) -> bool:
    """Whether some nodes have what is at a path step, or call a function of the program that does."""
    return any(isinstance(node, t.Call) and _steps(ref, node, path, depth) for node in nodes)


def _steps(ref: FunctionRef, call: t.Call, path: str, depth: int) -> bool:
    func = call.func
    if isinstance(func, t.Attribute) and func.name == "step":  # also by a scaler: ``scaler.step(optimizer)``
        return path == t.path_of(func.value) or any(path == t.path_of(arg.value) for arg in call.args[:1])
    callee = ref.callee(call) if depth else None
    if callee is None or callee.define is ref.define:
        return False
    return any(is_stepped(callee, callee.define.nodes, name, depth - 1) for name in known_as(ref, callee, call, path))


def known_as(ref: FunctionRef, callee: FunctionRef, call: t.Call, path: str) -> Iterator[str]:
    """The names by which a function that is called has what is at a path."""
    yield from (name for name, given in callee.given_by(call).items() if t.path_of(given) == path)
    is_own = path.startswith("self.") and _is_own(call)
    bound = (*callee.names[0], *(param.name for param in callee.define.params))
    is_global = ref.define.name == "<module>" and callee.module is ref.module and path.isidentifier()
    if is_own or (is_global and path not in bound):
        yield path

"""Modules that are given a ``requires_grad``: a mere attribute, which freezes and unfreezes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.optimizers.replacing import is_below
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 5
_WANTS = "requires_grad"
_LISTS = frozenset("torch.nn.ModuleList torch.nn.Sequential torch.nn.ModuleDict".split())
"""Modules of which each item is a module."""
_SEQUENCES = frozenset("features classifier layer1 layer2 layer3 layer4".split())
_OF_TORCHVISION = frozenset("fc conv1 bn1 heads head avgpool encoder backbone roi_heads rpn".split()) | _SEQUENCES
"""Attributes of torchvision's models that are modules."""
_GOING_OVER = frozenset("children modules".split())
_GOING_OVER_NAMED = frozenset("named_children named_modules".split())
_SAME_ITEMS = frozenset("list tuple reversed set".split())
_MADE_HERE = re.compile(
    r"(?:torch\.)?nn\.(?!Parameter|Buffer|functional|init|utils|Module\b)(?P<name>[A-Z]\w*)\(|(?P<none>None)\b"
)
_OWN = re.compile(r"\bself\.requires_grad\b|\bdef requires_grad\b")


class Module(NamedTuple):
    """What is known of a module.

    Args:
        has_modules: each of its items is one.
    """

    has_modules: bool = False


def set_on_modules(flow: Flow) -> Iterator[Site]:
    """The statements ``net.encoder.requires_grad = False``, of what is no tensor (reads other files)."""
    if flow.facts.is_test:
        return
    for stmt in flow.ref.define.statements:
        target = stmt.targets[0] if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
        if not isinstance(target, t.Attribute) or target.name != _WANTS or not isinstance(stmt, t.Assign):
            continue
        path = t.path_of(target.value)
        if path in ("self", "cls") or _module(flow, target.value, _DEPTH) is None:
            continue
        if not _is_done_besides(flow, target.value, stmt) and not _is_read(flow, target.value):
            yield flow.site(stmt)


# --- what reads it, or does what it was to do -------------------------------------------------------------------


def _is_read(flow: Flow, module: t.Expr) -> bool:
    """Whether something in its program reads such an attribute of a module: it has a meaning there."""
    survey, near = flow.project.survey, flow.module
    if survey.mentions(_OWN, near, _WANTS):
        return True
    name = _last(module)
    reads = re.compile(rf"\b{re.escape(name)}(?:\[[^\]\n]*\])?\.requires_grad\b(?!\s*=[^=])") if name else None
    return reads is not None and survey.mentions(reads, near, _WANTS)


def _last(expr: t.Expr) -> str:
    while isinstance(expr, t.Subscript):
        expr = expr.value
    return expr.id if isinstance(expr, t.Name) else expr.name if isinstance(expr, t.Attribute) else ""


def _is_done_besides(flow: Flow, module: t.Expr, stmt: t.Assign) -> bool:
    """Whether the function sets it for the parameters of the module as well, to the same."""
    paths = {t.path_of(module) or ""}
    for loop in flow.ref.define.statements:
        if isinstance(loop, t.Repeat) and loop.target is not None and _last(module) in _names(loop.target):
            nodes = t.walk(loop.iterable) if loop.iterable is not None else ()
            paths |= {path for node in nodes if isinstance(node, t.Name | t.Attribute) and (path := t.path_of(node))}
    return any(_sets_all(each, path, stmt.value) for each in flow.ref.define.statements for path in paths if path)


def _names(target: t.Expr) -> set[str]:
    return {each.id for each in t.names_in(target) if isinstance(each, t.Name)}


def _sets_all(stmt: t.Stmt, path: str, value: t.Expr) -> bool:
    """``net.requires_grad_(False)``, ``for p in net.parameters(): p.requires_grad = False``."""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if isinstance(call, t.Call) and call.name == "requires_grad_":
        given = call.argument(_WANTS, 0) or t.Constant(call.origin, True)
        return _is_whole(call, path) and _is_same(given, value)
    if not isinstance(stmt, t.Repeat) or stmt.iterable is None:
        return False
    calls = [node for node in t.walk(stmt.iterable) if isinstance(node, t.Call)]
    over = any(call.name in ("parameters", "named_parameters") and _is_whole(call, path) for call in calls)
    return over and any(_sets(each, value) for each in t.walk_statements(stmt.body))


def _is_whole(call: t.Call, path: str) -> bool:
    """Whether it is a method of the module, or of one that has it as a part."""
    owner = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
    return owner is not None and is_below(path, owner)


def _sets(stmt: t.Stmt, value: t.Expr) -> bool:
    target = stmt.targets[0] if isinstance(stmt, t.Assign) else None
    if isinstance(stmt, t.Assign):
        return isinstance(target, t.Attribute) and target.name == _WANTS and _is_same(stmt.value, value)
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    return isinstance(call, t.Call) and call.name == "requires_grad_"


def _is_same(one: t.Expr, other: t.Expr) -> bool:
    """Whether two values may be the same one."""
    if isinstance(one, t.Constant) and isinstance(other, t.Constant):
        return bool(one.value) == bool(other.value)
    return True


# --- what surely is a module ------------------------------------------------------------------------------------


def _module(flow: Flow, expr: t.Expr, depth: int) -> Module | None:
    """What is known of an expression that surely is a module; None of all others."""
    expr = _unmoved(expr)
    if depth <= 0:
        return None
    if isinstance(expr, t.Call):
        return _made(flow, expr, depth)
    if isinstance(expr, t.Subscript):
        held = _module(flow, expr.value, depth - 1)
        is_part = held is not None and held.has_modules
        return Module(isinstance(expr.index, t.Slice)) if is_part else None
    path = t.path_of(expr)
    if path is None or path == "self":
        return None
    cls = flow.read(flow.canonical(path), flow.final).ref
    if isinstance(cls, Class) and not cls.is_module:
        return None
    if isinstance(expr, t.Name):
        return _variable(flow, expr, depth)
    return _attribute(flow, expr, depth) if isinstance(expr, t.Attribute) else None


def _unmoved(expr: t.Expr) -> t.Expr:
    while isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name in k.FLUENT_METHODS:
        expr = expr.func.value
    return expr


def _made(flow: Flow, call: t.Call, depth: int) -> Module | None:
    """A module that a call makes, or looks up: ``nn.Linear(8, 2)``, ``net.get_submodule("encoder")``."""
    if call.name == "get_submodule":
        return Module()
    if call.name == "deepcopy" and call.args:
        return _module(flow, call.args[0].value, depth - 1)
    return _made_by(flow, call.func)


def _made_by(flow: Flow, maker: t.Expr) -> Module | None:
    found = flow.module.value_of(maker)
    if found.kind is Kind.CLASS and isinstance(found.ref, Class):
        is_list = any(name in _LISTS for name in found.ref.external_bases)
        return Module(is_list) if found.ref.is_module else None
    name = str(found.ref) if found.kind is Kind.EXTERNAL else ""
    own = name.rpartition(".")[2]
    is_layer = name.startswith("torch.nn.") and not name.startswith(k.NOT_MODULES) and own[:1].isupper()
    if is_layer and own != "Buffer":
        return Module(name in _LISTS)
    is_known = name.startswith("torchvision.models.") or name == "timm.create_model"
    is_loaded = own == "from_pretrained" and name.startswith("transformers.") and "Model" in name
    return Module() if is_known or is_loaded else None


def _variable(flow: Flow, name: t.Name, depth: int) -> Module | None:
    bound = flow.ref.assigned.get(name.id, [])
    loops = [s for s in flow.ref.define.statements if isinstance(s, t.Repeat) and s.target is not None]
    taking = [loop for loop in loops if loop.target is not None and name.id in _names(loop.target)]
    if taking:
        return Module() if all(_takes_module(flow, loop, name.id, depth) for loop in taking) else None
    found = [_module(flow, value, depth - 1) for value in bound if value is not name]
    known = [each for each in found if each is not None]
    if found and len(known) == len(found):
        return Module(all(each.has_modules for each in known))
    hints = [param.annotation for param in flow.ref.define.params if param.name == name.id]
    if hints and not bound and hints[0] is not None:
        hinted = flow.module.value_of(hints[0])
        is_any = hinted.kind is Kind.EXTERNAL and str(hinted.ref) == "torch.nn.Module"
        return Module() if is_any else _made_by(flow, hints[0])
    return _as_used(flow, name.id, bound)


def _as_used(flow: Flow, path: str, bound: list[t.Expr]) -> Module | None:
    """A module by its use: ``net.parameters()``, ``net(x)``; what another library makes may be called as well."""
    makers = [flow.module.value_of(value.func) for value in bound if isinstance(value, t.Call)]
    is_own = len(bound) < 2 and all(maker.kind is not Kind.EXTERNAL for maker in makers)
    is_known = path in flow.ref.modules or (is_own and _is_called(flow.ref, path))
    cls = flow.read(flow.canonical(path), flow.final).ref
    return Module() if is_known or (isinstance(cls, Class) and cls.is_module and not bound) else None


def _is_called(ref: FunctionRef, path: str) -> bool:
    """Whether a function calls what is at a path, as no tensor is: ``critic(x)``."""
    return any(t.path_of(call.func) == path for call in ref.calls)


def _attribute(flow: Flow, expr: t.Attribute, depth: int) -> Module | None:
    path, owner = t.path_of(expr) or "", t.path_of(expr.value) or ""
    cls = flow.ref.owner if owner == "self" else flow.read(flow.canonical(owner), flow.final).ref
    if isinstance(cls, Class):
        return _part_of(flow, cls, expr.name)
    if path in flow.ref.modules or (owner != "self" and _is_called(flow.ref, path)):
        return Module()
    if _is_of_torchvision(flow, owner):
        return Module(expr.name in _SEQUENCES) if expr.name in _OF_TORCHVISION else None
    return _by_name(flow, expr.name)


def _part_of(flow: Flow, owner: Class, name: str) -> Module | None:
    """What the methods of a class bind to an attribute, or do with it."""
    made: list[Module | None] = []
    is_given = True  # `self.encoder = encoder`: it is as it is used
    for cls in owner.lineage():
        for _, value in cls.assigned(name):
            call = _unmoved(value)
            if isinstance(call, t.Call):
                inner = _flow_of(flow, cls)
                made.append(_made_by(inner, call.func) if inner is not None else None)
                is_given = False
            elif not (isinstance(value, t.Constant) and value.value is None):
                made.append(None)
                is_given &= isinstance(value, t.Name)
    known = [each for each in made if each is not None]
    if made and len(known) == len(made):
        return Module(all(each.has_modules for each in known))
    methods = methods_of(owner)
    path = f"self.{name}"
    is_used = any(path in method.modules or (is_given and _is_called(method, path)) for method in methods)
    return Module() if is_used and owner.is_module else None


def _flow_of(flow: Flow, cls: Class) -> Flow | None:
    """A function of the file in which a class stands: names mean there what they mean to its methods."""
    if cls.module is flow.module:
        return flow
    method = next(iter(cls.methods.values()), None)
    return flow.project.flow(method) if method is not None else None


def _is_of_torchvision(flow: Flow, path: str) -> bool:
    made = flow.read(flow.canonical(path), flow.final).ref
    return isinstance(made, str) and made.startswith("torchvision.models.")


def _by_name(flow: Flow, name: str) -> Module | None:
    """What all classes of the program that have an attribute of a name bind to it, where only the run knows which.

    ``self.stages = nn.ModuleList(...)``.
    """
    bound = rf"\.{re.escape(name)}[ \t]*(?::[^=\n]+)?=[ \t]*"
    # Which files lead to which is asked last: that takes seconds in a large library.
    if not flow.project.survey.mentions(re.compile(bound + _MADE_HERE.pattern), flow.module, name):
        return None
    binds = re.compile(bound + r"(?!=)([^\n]*)")
    found: list[re.Match[str] | None] = []
    for text in flow.project.survey.texts_used(name, flow.module, binds):
        found += [_MADE_HERE.match(value) for value in binds.findall(text)]
    made = [each["name"] for each in found if each is not None and each["name"]]
    if not made or any(each is None for each in found):
        return None
    return Module(all(f"torch.nn.{each}" in _LISTS for each in made))


# --- what loops take --------------------------------------------------------------------------------------------


def _takes_module(flow: Flow, loop: t.Repeat, name: str, depth: int) -> bool:
    """Whether a loop binds a name to one module after the other."""
    target, over = loop.target, loop.iterable
    if target is None or over is None:
        return False
    while isinstance(over, t.Call) and isinstance(target, t.Display) and len(target.items) == 2:
        second = target.items[1]
        if over.name == "enumerate" and isinstance(over.func, t.Name) and over.args:
            target, over = second, over.args[0].value
        elif over.name in _GOING_OVER_NAMED or over.name == "items":
            is_items = over.name != "items" or _has_modules(flow, _receiver(over), depth)
            return is_items and isinstance(second, t.Name) and second.id == name
        else:
            break
    return isinstance(target, t.Name) and target.id == name and _has_modules(flow, over, depth)


def _receiver(call: t.Call) -> t.Expr:
    return call.func.value if isinstance(call.func, t.Attribute) else call.func


def _has_modules(flow: Flow, over: t.Expr, depth: int) -> bool:
    """Whether all that an expression has one after the other are modules."""
    if depth <= 0:
        return False
    if isinstance(over, t.Display):
        return bool(over.items) and all(_module(flow, item, depth - 1) is not None for item in over.items)
    if isinstance(over, t.Call) and isinstance(over.func, t.Attribute):
        is_values = over.name == "values" and _has_modules(flow, over.func.value, depth - 1)
        return over.name in _GOING_OVER or is_values
    if isinstance(over, t.Call):
        return over.name in _SAME_ITEMS and len(over.args) == 1 and _has_modules(flow, over.args[0].value, depth - 1)
    if isinstance(over, t.Subscript) and isinstance(over.index, t.Slice):
        return _has_modules(flow, over.value, depth - 1)
    if isinstance(over, t.Comprehension):
        return len(over.clauses) == 1 and _picks_modules(flow, over, depth)
    path = t.path_of(over)
    bound = flow.ref.assigned.get(path, []) if path is not None else []
    if bound and all(_has_modules(flow, value, depth - 1) for value in bound):
        return True
    held = _module(flow, over, depth)
    return held is not None and held.has_modules


def _picks_modules(flow: Flow, made: t.Comprehension, depth: int) -> bool:
    """``[child for child in net.children() if ...]``, ``{pair[0]: pair[1] for pair in net.named_modules()}``."""
    clause, element = made.clauses[0], made.element
    loop = t.Repeat(made.origin, clause.target, clause.iterable, None, [], [])
    if isinstance(element, t.Name):
        return _takes_module(flow, loop, element.id, depth - 1)
    index = element.index if isinstance(element, t.Subscript) else None
    is_second = isinstance(index, t.Constant) and index.value == 1 and isinstance(element, t.Subscript)
    if not is_second or not isinstance(element, t.Subscript) or not isinstance(clause.iterable, t.Call):
        return False
    is_pair = t.path_of(element.value) == t.path_of(clause.target) is not None
    return is_pair and clause.iterable.name in _GOING_OVER_NAMED

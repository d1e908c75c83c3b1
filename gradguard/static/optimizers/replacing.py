"""Statements that put a new module, or a new parameter, in the place of one that an optimizer was given."""

from __future__ import annotations

import re
from typing import TypeGuard

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.optimizers.separate_modules import is_setting
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import has
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site
from gradguard.static.values import Kind

_ADDING = frozenset("add_module register_module register_parameter append insert".split())
_COPYING = frozenset("cat concat concatenate stack vstack hstack clone pad".split())
_WEIGHTS = frozenset("weight bias data".split())
_LOADS = re.compile(r"^(?:load|restore|from_)(?!.*(?:state|weights))")
_PARTS = frozenset("get_submodule _modules".split())


def replacing(method: FunctionRef, given: frozenset[str]) -> Site | None:
    """The statement of a method that makes anew, or adds, each time, a part of what an optimizer was given."""
    always = (s for s in method.define.body if isinstance(s, t.Assign) and replaces(method, s, given))
    in_each = (s for s in method.define.statements if splits(method, s, given) or adapts(method, s, given))
    added = (s for s in method.define.body if adds(method, s, given))
    found = (Site(method.chunk, stmt) for stmt in (*always, *in_each, *added))
    return min(found, key=lambda site: site.line, default=None)


def replaces(ref: FunctionRef, stmt: t.Assign, given: frozenset[str]) -> bool:
    """Whether a module is made anew, of nothing that the old one had but its settings: ``net.fc.in_features``."""
    target = t.path_of(_held(stmt.targets[0])) if len(stmt.targets) == 1 else None
    if target is None or not any(is_below(target, path) for path in given):
        return False
    value = _bound_once(ref, _unmoved(stmt.value))  # wider = nn.Linear(...); self.head = wider.to(device)
    if is_copy(value):
        return target in given and not _is_put_back(ref, target)  # of a part it may be that of a setting
    is_new = _copies(value) or not any(_is_of_the_old(name, target, given) for name in _longest(value))
    return is_new and (is_made(ref, value) or _is_loaded(ref, target, value))


def _is_loaded(ref: FunctionRef, target: str, value: t.Expr) -> bool:
    """Whether the class that has made what was there loads another one: ``net = Net(8)``, ``net = Net.load(path)``."""
    loader = value.func if isinstance(value, t.Call) else None
    if not isinstance(loader, t.Attribute) or _LOADS.match(loader.name) is None:
        return False
    made = [_unmoved(each) for each in ref.assigned.get(target, []) if each is not value]
    cls = t.path_of(loader.value) or ""
    return cls.rpartition(".")[2][:1].isupper() and any(
        isinstance(each, t.Call) and (t.path_of(each.func) or "") in (cls, f"{cls}.{loader.name}") for each in made
    )


def is_copy(value: t.Expr) -> bool:
    """Whether an expression makes a module of another one, with parameters of its own.

    ``copy.deepcopy(server.net)``.
    """
    value = _unmoved(value)
    return isinstance(value, t.Call) and value.name == "deepcopy"


def _is_put_back(ref: FunctionRef, target: str) -> bool:
    """Whether what was there comes back: ``net = self.net; self.net = deepcopy(average); ...; self.net = net``."""
    values = list(ref.assigned.get(target, []))
    name = target.removeprefix("self.")
    if ref.owner is not None and name != target:
        bound = (each for cls in ref.owner.lineage() for each in cls.assigned(name))
        values += (value for method, value in bound if method.name != "__init__")
    return any(isinstance(value, t.Name | t.Attribute | t.Subscript) for value in values)


def _copies(value: t.Expr) -> bool:
    """Whether a parameter is made of what was put together anew: ``nn.Parameter(torch.cat([self.weight, more]))``."""
    given = value.args[0].value if isinstance(value, t.Call) and value.name == "Parameter" and value.args else None
    return isinstance(given, t.Call) and given.name in _COPYING


def splits(ref: FunctionRef, stmt: t.Stmt, given: frozenset[str]) -> bool:
    """Whether a weight is taken apart into its norm and its direction, two new parameters: ``weight_norm(layer)``.

    ``spectral_norm``, ``orthogonal`` and ``prune`` keep the parameter that there is (tried with torch 2.13).
    """
    call = stmt.value if isinstance(stmt, t.Evaluate | t.Assign) else None
    if not isinstance(call, t.Call) or call.name != "weight_norm" or not call.args:
        return False
    maker, name = ref.module.value_of(call.func), t.path_of(_held(call.args[0].value))
    if maker.kind is not Kind.EXTERNAL or not str(maker.ref).startswith("torch.nn.utils.") or name is None:
        return False
    return any(is_below(name, path) for path in given) or is_of_each(ref, stmt, name, given)


def adds(ref: FunctionRef, stmt: t.Stmt, given: frozenset[str]) -> bool:
    """Whether a module gets one more part: ``net.add_module("head", nn.Linear(8, 2))``, ``net.blocks.append(...)``."""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) else None
    if not isinstance(call, t.Call) or not isinstance(func, t.Attribute) or func.name not in _ADDING:
        return False
    owner = t.path_of(_held(func.value)) or ""
    made = next((arg.value for arg in reversed(call.args)), None)
    if made is None or not any(is_below(owner, path) for path in given):
        return False
    named = _unmoved(made)
    if isinstance(named, t.Name) and not _is_only_put(ref, stmt, owner, named.id):
        return False
    made = _bound_once(ref, named)
    return is_made(ref, made) and not any(_is_of_the_old(name, owner, given) for name in _longest(made))


def _is_only_put(ref: FunctionRef, put: t.Stmt, owner: str, name: str) -> bool:
    """Whether a new part is put into a module, moved, run or given back, and neither frozen nor handed on."""
    uses = [node for node in ref.define.nodes if isinstance(node, t.Name) and node.id == name]
    taken = [node for node in ref.define.nodes if isinstance(node, t.Attribute) and t.path_of(node.value) == name]
    bound = [each for stmt in ref.define.statements if isinstance(stmt, t.Assign) for each in stmt.targets]
    given_back = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return)]
    run = [node.func for node in ref.define.nodes if isinstance(node, t.Call)]
    known = {id(node) for node in (*bound, *given_back, *run, *t.walk(put))}
    known |= {id(each.value) for each in taken if each.name in k.MOVING_METHODS}
    return all(id(use) in known for use in uses) and not _is_listed(ref, owner)


def _is_listed(ref: FunctionRef, owner: str) -> bool:
    """Whether an attribute is a plain list, whose parts are nobody's."""
    name = owner.removeprefix("self.")
    values = [value for cls in ref.owner.lineage() for _, value in cls.assigned(name)] if ref.owner is not None else []
    return any(isinstance(value, t.Display) or (isinstance(value, t.Call) and value.name == "list") for value in values)


def _bound_once(ref: FunctionRef, value: t.Expr) -> t.Expr:
    """What a variable is bound to, where that is one thing: ``wider = nn.Linear(...); self.head = wider``."""
    bound = ref.assigned.get(value.id, []) if isinstance(value, t.Name) else []
    return bound[0] if len(bound) == 1 else value


def adapts(ref: FunctionRef, stmt: t.Stmt, given: frozenset[str]) -> bool:
    """Whether a part gets one around it with more parameters: ``setattr(parent, name, LoRALinear(child))``.

    ``for block in net.blocks: block.attn.q = LoRALinear(block.attn.q)``.
    """
    holder, made = _set_part(stmt)
    path = t.path_of(holder) if holder is not None else None
    if path is None or made is None:
        return False
    if not _is_part(ref, path, given) and not is_of_each(ref, stmt, path.partition(".")[0], given):
        return False
    return is_made(ref, made) and _has_own_parameters(ref, made)


def _has_own_parameters(ref: FunctionRef, made: t.Call) -> bool:
    """Whether what is made has parameters besides those of the module that it is given: it may only wrap that."""
    if all(is_setting(name) for arg in made.args for name in _longest(arg.value)):
        return True
    cls = ref.module.value_of(made.func).ref
    if not isinstance(cls, Class):
        return made.name == "Sequential"
    constructors = [method for method in methods_of(cls) if method.define.name == "__init__"]
    bound = ((method, stmt.value) for method in constructors for stmt in method.define.statements if _binds_own(stmt))
    return any(is_made(method, value) and not _takes_weights(value) for method, value in bound)


def _binds_own(stmt: t.Stmt) -> TypeGuard[t.Assign]:
    return isinstance(stmt, t.Assign) and any((t.path_of(each) or "").startswith("self.") for each in stmt.targets)


def _takes_weights(value: t.Expr) -> bool:
    """Whether a parameter is made of another one: ``nn.Parameter(base.weight)``."""
    return any(isinstance(node, t.Attribute) and node.name in _WEIGHTS for node in t.walk(value))


def _set_part(stmt: t.Stmt) -> tuple[t.Expr | None, t.Call | None]:
    """The module of which a part is set, by its name or one that is looked up, and what is made for it."""
    call = stmt.value if isinstance(stmt, t.Evaluate | t.Assign) else None
    if not isinstance(call, t.Call):
        return None, None
    if isinstance(stmt, t.Evaluate) and t.path_of(call.func) == "setattr" and len(call.args) == 3:
        made = call.args[2].value
        return call.args[0].value, made if isinstance(made, t.Call) else None
    target = stmt.targets[0] if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
    if not isinstance(target, t.Attribute | t.Subscript):
        return None, None
    holder = target.value
    if isinstance(holder, t.Attribute) and holder.name == "_modules":
        return holder.value, call
    path = t.path_of(target)
    wraps = path is not None and any(isinstance(n, t.Expr) and t.path_of(n) == path for n in t.walk(call))
    return (holder, call) if wraps else (None, None)  # else it may be made where there is none


def _is_part(ref: FunctionRef, path: str, given: frozenset[str]) -> bool:
    """Whether it is a module that an optimizer was given, or a part of one: ``parent = model.get_submodule(name)``."""
    bound = ref.assigned.get(path, [])
    called = [value.func for value in bound if isinstance(value, t.Call) and value.name in _PARTS]
    owners = [t.path_of(func.value) or "" for func in called if isinstance(func, t.Attribute)]
    names = owners if bound and len(owners) == len(bound) else [path]
    return all(any(is_below(name, each) for each in given) for name in names)


def is_of_each(ref: FunctionRef, stmt: t.Stmt, name: str | None, given: frozenset[str]) -> bool:
    """Whether a loop around a statement takes ``name`` from what an optimizer was given."""
    taking = (s for s in ref.define.statements if isinstance(s, t.Repeat) and _takes(s, name))
    loop = next((s for s in taking if has(s.body, stmt)), None)
    names = [t.path_of(each) or "" for each in _longest(loop.iterable)] if loop and loop.iterable is not None else []
    return any(is_below(each, path) for each in names for path in given)


def _takes(loop: t.Repeat, name: str | None) -> bool:
    return loop.target is not None and name in map(t.path_of, t.names_in(loop.target))


def _held(target: t.Expr) -> t.Expr:
    """The module of which an item is bound: ``model.classifier`` of ``model.classifier[6]``."""
    return target.value if isinstance(target, t.Subscript) else target


def _unmoved(value: t.Expr) -> t.Expr:
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in k.MOVING_METHODS:
        value = value.func.value
    return value


def _longest(value: t.Expr) -> list[t.Name | t.Attribute]:
    """The names in an expression, each whole: ``net.fc.in_features``, and neither ``net.fc`` nor ``net``."""
    names = [node for node in t.walk(value) if isinstance(node, t.Name | t.Attribute)]
    within = {id(node.value) for node in names if isinstance(node, t.Attribute)}
    return [node for node in names if id(node) not in within]


def _is_of_the_old(name: t.Name | t.Attribute, target: str, given: frozenset[str]) -> bool:
    """Whether a name is of the module that is replaced, or of what the optimizer has; ``self`` has more than that."""
    path = t.path_of(name) or ""
    is_part = any(is_below(path, each) for each in given if each != "self" or path == each)
    return (is_part or is_below(path, target)) and not (isinstance(name, t.Attribute) and is_setting(name))


def is_below(path: str, owner: str) -> bool:
    return f"{path}.".startswith(f"{owner}.")

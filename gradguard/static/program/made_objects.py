"""The calls that make an object, on each way: of a variable, an attribute, a parameter; and who calls a function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.project import Module

_DEEPEST = 8
_AROUND = frozenset(
    "DataParallel DistributedDataParallel DDP compile deepcopy script convert_sync_batchnorm prepare initialize".split()
)
_ADDS = frozenset("add_module append extend insert register_module pop".split())


class Place(NamedTuple):
    """Where an expression stands: a file, and the function; None among the file's own statements."""

    module: Module
    ref: FunctionRef | None

    def is_local(self, name: str) -> bool:
        return self.ref is not None and name in self.ref.names[0] and self.ref.define.name != "<module>"


class Made(NamedTuple):
    """A call that makes an object, where it stands, and of what: a class of the program, or a dotted name."""

    place: Place
    call: t.Call
    of: Class | str


def makers(place: Place, expr: t.Expr, depth: int = 0) -> list[Made]:
    """The calls that make an object, on each way; none if one of them is not known (reads other files)."""
    if depth > _DEEPEST:
        return []
    if isinstance(expr, t.Conditional):
        return _each(place, [expr.body, expr.orelse], depth)
    if isinstance(expr, t.Call):
        return _called(place, expr, depth)
    if isinstance(expr, t.Name):
        return _named(place, expr, depth)
    if isinstance(expr, t.Attribute) and expr.name == "module":
        return makers(place, expr.value, depth + 1)
    return _of_object(place, expr, depth) if isinstance(expr, t.Attribute) else []


def named_in(place: Place, func: t.Expr) -> Class | FunctionRef | str | None:
    """What a dotted name means, unless the function binds it."""
    head = (t.path_of(func) or ".").partition(".")[0]
    if not head or place.is_local(head):
        return None
    found = place.module.value_of(func).ref
    return found if isinstance(found, Class | FunctionRef | str) else None


def functions_of(place: Place, call: t.Call, depth: int = 0) -> list[FunctionRef]:
    """The functions of the program that a call runs: by name, or of an object; none if one is not known."""
    named = named_in(place, call.func)
    if isinstance(named, FunctionRef):
        return [named]
    func, owner = call.func, place.ref.owner if place.ref is not None else None
    if isinstance(func, t.Name) and func.id == "self" and owner is not None:
        found = [owner.method("forward")]
    elif not isinstance(func, t.Attribute) or named is not None:
        return []
    elif t.path_of(func.value) == "self":
        found = [owner.method(func.name)] if owner is not None else []
    else:
        made = makers(place, func.value, depth + 1)
        found = [each.of.method(func.name) if isinstance(each.of, Class) else None for each in made]
    sure = [each for each in found if each is not None]
    return sure if len(sure) == len(found) else []


def callers(ref: FunctionRef, depth: int = 0) -> Iterator[tuple[Place, t.Call]]:
    """The calls of a function, or of the class that it constructs (reads other files)."""
    cls = ref.owner if ref.owner is not None and ref.define.name == "__init__" else None
    name = cls.name if cls is not None else ref.define.name
    for caller in ref.module.project.written_calling(ref, name=name) if depth <= _DEEPEST else ():
        place = Place(caller.module, caller)
        for call in caller.calls if caller.define is not ref.define else ():
            if call.name == name and _runs(place, call, ref, cls, depth):
                yield place, call


def _runs(place: Place, call: t.Call, ref: FunctionRef, cls: Class | None, depth: int) -> bool:
    if cls is not None:
        named = named_in(place, call.func)
        return isinstance(named, Class) and named.define is cls.define
    return any(each.define is ref.define for each in functions_of(place, call, depth + 2))


def _each(place: Place, values: list[t.Expr], depth: int) -> list[Made]:
    found = [makers(place, value, depth + 1) for value in values]
    return [made for each in found for made in each] if all(found) else []


def _called(place: Place, call: t.Call, depth: int) -> list[Made]:
    func = call.func
    if isinstance(func, t.Attribute) and func.name in k.FLUENT_METHODS and named_in(place, func) is None:
        return makers(place, func.value, depth + 1)
    named = named_in(place, func)
    if call.name in _AROUND and call.args and not isinstance(named, Class | FunctionRef):
        return makers(place, call.args[0].value, depth + 1)
    if isinstance(named, Class | str):
        return [Made(place, call, named)]
    found = list[Made]()
    for ref in functions_of(place, call, depth):
        returned = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return)]
        values = [value for value in returned if value is not None]
        made = _each(Place(ref.module, ref), values, depth) if len(values) == len(returned) else []
        if not made:
            return []
        found += made
    return found


def _named(place: Place, name: t.Name, depth: int) -> list[Made]:
    ref = place.ref
    params = {param.name: param.default for param in ref.define.params} if ref is not None else {}
    if ref is None or not (name.id in params or name.id in ref.names[0] or name.id in ref.assigned):
        if ref is not None and ref.outer is not None:
            return _named(Place(ref.module, ref.outer.ref), name, depth + 1)
        return _global(place, name, depth)
    values = list(_values(ref, name.id))
    if not all(isinstance(value, t.Expr) for value in values) or _gets_more(ref, name.id):
        return []
    bound = _each(place, [value for value in values if value is not None], depth)
    if name.id not in params:
        return bound
    given = _passed(ref, name.id, params[name.id], depth)
    return given if not values else bound + given if bound and given else []


def _values(ref: FunctionRef, path: str) -> Iterator[t.Expr | None]:
    """What is bound to a path; None for what cannot be told; not the object itself again: ``net = wrap(net)``."""
    for stmt in ref.define.statements:
        if isinstance(stmt, t.Repeat) and stmt.target is not None:
            if any(t.path_of(name) == path for name in t.names_in(stmt.target)):
                yield None
        elif isinstance(stmt, t.With):
            bound = (name for _, each in stmt.items if each is not None for name in t.names_in(each))
            if any(t.path_of(name) == path for name in bound):
                yield None
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            if not any(t.path_of(name) == path for name in t.names_in(target)) or _is_same(value, path):
                continue
            yield value if t.path_of(target) == path else None


def _is_same(value: t.Expr, path: str) -> bool:
    """``net = nn.DataParallel(net)``, ``net, optimizer = accelerator.prepare(net, optimizer)``."""
    func = value.func if isinstance(value, t.Call) else None
    if isinstance(func, t.Attribute) and func.name in k.FLUENT_METHODS and t.path_of(func.value) == path:
        return True
    given = [t.path_of(arg.value) for arg in value.args] if isinstance(value, t.Call) else []
    return isinstance(value, t.Call) and value.name in _AROUND and path in given


def _gets_more(ref: FunctionRef, path: str) -> bool:
    """Whether something is added to what is at a path, or put into it: ``net.add_module("out", nn.Softmax())``."""
    funcs = (call.func for call in ref.define.all(t.Call))
    if any(isinstance(func, t.Attribute) and func.name in _ADDS and t.path_of(func.value) == path for func in funcs):
        return True
    targets = [target for stmt in ref.define.all(t.Assign) for target in stmt.targets]
    targets += [target for stmt in ref.define.all(t.Delete) for target in stmt.targets]
    parts = (each.value for each in targets if isinstance(each, t.Subscript | t.Attribute))
    return path != "self" and any(t.path_of(part) == path for part in parts)


def _passed(ref: FunctionRef, name: str, default: t.Expr | None, depth: int) -> list[Made]:
    """What the callers give for a parameter; its default, where they give nothing (reads other files)."""
    found, is_default = list[Made](), False
    for place, call in callers(ref, depth):
        value = ref.given_by(call).get(name)
        if value is None and any(arg.star for arg in call.args):
            return []
        is_default = is_default or value is None
        made = makers(place, value, depth + 1) if value is not None else []
        if value is not None and not made:
            return []
        found += made
    if is_default:
        made = makers(Place(ref.module, None), default, depth + 1) if default is not None else []
        return found + made if made else []
    return found


def _global(place: Place, name: t.Name, depth: int) -> list[Made]:
    module = place.module
    imported = module.outline.imports.get(name.id)
    found = module.project.find(imported, module) if imported is not None else None
    if found is not None and len(found[1]) == 1:
        return _global(Place(found[0], None), t.Name(None, found[1][0]), depth + 1) if depth < _DEEPEST else []
    values = [value for value in module.bound_to(name.id) if not _is_same(value, name.id)]
    return _each(Place(module, None), values, depth) if values else []


def _of_object(place: Place, expr: t.Attribute, depth: int) -> list[Made]:
    """What the methods of an object assign to an attribute."""
    owner = place.ref.owner if place.ref is not None else None
    if t.path_of(expr.value) == "self":
        owners = [owner] if owner is not None else []
    else:
        made = makers(place, expr.value, depth + 1)
        owners = [each.of for each in made if isinstance(each.of, Class)]
        owners = owners if len(owners) == len(made) else []
    found = list[Made]()
    for cls in owners:
        here = _assigned(cls, expr.name, depth)
        if not here:
            return []
        found += here
    return found


def _assigned(owner: Class, name: str, depth: int) -> list[Made]:
    found, path = list[Made](), f"self.{name}"
    for cls in owner.lineage():
        for ref in cls.methods.values():
            values = list(_values(ref, path)) if path in ref.assigned else []
            if not all(isinstance(value, t.Expr) for value in values) or _gets_more(ref, path):
                return []
            for value in values:
                made = makers(Place(ref.module, ref), value, depth + 1) if value is not None else []
                if not made:
                    return []
                found += made
    return found

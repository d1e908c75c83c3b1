"""What is known of a path that the function did not bind itself: parameters, attributes, outer names."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.memo import memo_of
from gradguard.static.model import Scope
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import makes_anew, named_kind
from gradguard.static.reading.state import State
from gradguard.static.values import (
    NUMBER,
    UNKNOWN,
    Held,
    Kind,
    Root,
    Source,
    Value,
    each_of,
    element,
    holding,
    is_record,
    join,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def parameter(flow: Flow, param: t.Param) -> Value:
    root = frozenset((Root(Source.PARAM, param.name),))
    owner = flow.ref.owner
    if owner is not None and flow.params and param.name == flow.params[0] and param.name in ("self", "cls"):
        return Value(kind=Kind.MODULE if owner.is_module else Kind.INSTANCE, ref=owner)
    if flow.facts.name in ("__exit__", "__aexit__") and flow.params.index(param.name) == 2:
        return holding(Value(root, must=root), Held.EXCEPTION, param.name)
    if param.star:
        return Value(root, must=root, kind=Kind.CONTAINER)
    if param.annotation is not None:
        declared = flow.module.value_of(param.annotation)
        if isinstance(declared.ref, Class):
            if declared.ref.is_record:
                return Value(root, must=root)  # its fields are places of their own
            return Value(kind=Kind.MODULE if declared.ref.is_module else Kind.INSTANCE, ref=declared.ref)
        name = str(declared.ref) if declared.kind is Kind.EXTERNAL else ""
        if name.startswith(k.MODULE_PREFIXES) and not name.startswith(k.NOT_MODULES):
            return Value(kind=Kind.MODULE)
        if name.endswith("DataLoader"):
            return Value(kind=Kind.LOADER)
        if name.startswith("torch.optim."):
            return Value(kind=Kind.OPTIMIZER)
        if name in k.TENSOR_TYPES:
            return Value(root, must=root, kind=Kind.TENSOR)
        if isinstance(param.annotation, t.Name) and param.annotation.id in ("int", "float", "str", "bool"):
            return NUMBER
    if param.name in flow.receivers and (cls := flow.project.passed.argument_class(flow.ref, param.name)):
        return Value(kind=Kind.MODULE if cls.is_module else Kind.INSTANCE, ref=cls)
    asks_items = param.name in flow.receivers_in
    if asks_items and (cls := flow.project.passed.argument_class(flow.ref, param.name, of_items=True)):
        item = Value(kind=Kind.MODULE if cls.is_module else Kind.INSTANCE, ref=cls)
        return each_of(item)._replace(roots=root, must=root)
    if param.name in flow.modules:
        return Value(kind=Kind.MODULE)
    if k.LOADER_NAME.search(param.name):
        return Value(kind=Kind.LOADER)
    if k.MODULE_NAME.search(param.name) and not flow.module.is_numeric and param.name not in flow.computed_with:
        return Value(kind=Kind.MODULE)
    if kind_by_name(flow, param.name) is Kind.OPTIMIZER:
        return Value(kind=Kind.OPTIMIZER)
    if param.name in flow.called_names and (cls := flow.project.passed.argument_class(flow.ref, param.name)):
        return Value(kind=Kind.MODULE if cls.is_module else Kind.INSTANCE, ref=cls)
    if _is_module_elsewhere(flow, param.name):
        parts = (("each", Value(kind=Kind.MODULE)),) if param.name not in flow.called_names else ()
        return Value(kind=Kind.MODULE, parts=parts)
    return Value(root, must=root)


def _is_module_elsewhere(flow: Flow, name: str) -> bool:
    """Whether the function calls, or an item of it, what another one of its file uses as a module under that name."""
    return name in flow.module.names_of_modules and name in flow.run_names and not flow.module.is_numeric


def read(flow: Flow, path: str, state: State) -> Value:
    """The value at a path, as far as this function and its surroundings tell."""
    known = state.env.get(path)
    if known is not None:
        return known
    head = path.split(".", 1)[0].split("[", 1)[0]
    if head == path:
        return _outer_name(flow, path)
    root = Root(Source.PLACE, path)
    must = frozenset((root,))
    base = path[: max(path.rfind("."), path.rfind("["))]
    if path[len(base)] == "." and (field := field_of(state.env.get(base), path[len(base) + 1 :])) is not None:
        return field
    owner = owner_of(flow, base, state) or _class_at(flow, base, state)
    kind = Kind.UNKNOWN
    if owner is not None and path[len(base)] == ".":
        name = path[len(base) + 1 :]
        found = owner.attribute(name)
        if found is not None:
            if found.kind is Kind.OPTIMIZER and base != "self" and isinstance(found.ref, frozenset):
                return found._replace(ref=_seen_from(base, found.ref))
            if found.kind in (Kind.MODULE, Kind.OPTIMIZER, Kind.SCALER, Kind.LOADER, Kind.INSTANCE):
                return found
            return found._replace(roots=must | found.roots, must=must, parts=_placed(path, found))
        method = owner.method(name)
        if method is not None and method.is_property and method.read_attribute is not None:
            return read(flow, f"{base}.{method.read_attribute}", state)
        if method is not None:
            return Value(kind=Kind.FUNCTION, ref=method)
    elif path[len(base)] == "[":
        container = state.env.get(base)
        if container is not None:
            key = path[len(base) + 2 : -2] if path.endswith('"]') else None
            if isinstance(container.ref, Class) and container.ref.element is not None:
                return container.ref.element
            if key is not None and container.part(key) is None and Root(Source.PLACE, base) in container.roots:
                return Value(must, must=must)
            part = element(container, key)
            return part._replace(must=container.must, kind=Kind.UNKNOWN) if part.kind is Kind.CONTAINER else part
        if element(read(flow, base, state), path[len(base) + 2 : -2] if path.endswith('"]') else None).bounded:
            return Value(must, must=must, kind=Kind.CONTAINER, bounded=True)
    if is_used_as_module(flow, path, owner):
        kind = Kind.MODULE
    if kind is Kind.UNKNOWN:
        kind = kind_by_name(flow, path)
    if kind is not Kind.UNKNOWN:
        return Value(kind=kind)
    return Value(must, must=must)


def _seen_from(base: str, modules: frozenset[str]) -> frozenset[str] | None:
    """The modules of an optimizer that an object has, by the paths of whoever has the object: ``net.optimizer``."""
    of_object = {path for path in modules if path.partition(".")[0] == "self"}
    return frozenset(base + path[4:] for path in of_object) if len(of_object) == len(modules) else None


def kind_by_name(flow: Flow, path: str) -> Kind:
    """What a name says that something is.

    A `model` in a file that only knows NumPy is no network, and a `solver` that has a model is no optimizer.
    """
    kind = named_kind(path)
    if kind is Kind.OPTIMIZER and path.rpartition(".")[2] in flow.module.owners_of_models:
        return Kind.UNKNOWN
    return Kind.UNKNOWN if kind is Kind.MODULE and flow.module.is_numeric else kind


def _placed(path: str, value: Value) -> tuple[tuple[object, Value], ...]:
    """The parts of an attribute; the fields of a record are places of their own."""
    if value.kind is not Kind.OUTPUT or not is_record(value):
        return value.parts
    places = [(name, part, frozenset((Root(Source.PLACE, f"{path}.{name}"),))) for name, part in value.parts]
    return tuple((name, part._replace(roots=part.roots | place, must=place)) for name, part, place in places)


def field_of(record: Value | None, name: str) -> Value | None:
    """What is known of a field of a record; where its fields are not told apart, the whole."""
    from gradguard.static.reading.expressions import cut

    if record is None or record.kind not in (Kind.TENSOR, Kind.OUTPUT) or isinstance(record.ref, Class):
        return None
    if name == "data" and record.kind is Kind.TENSOR:
        return cut(record, None)
    return record.part(name) or record._replace(parts=(), kind=Kind.OUTPUT)


def is_used_as_module(flow: Flow, path: str, holder: Class | None) -> bool:
    """Whether the function, a method of its class, or one of the holder's class, uses a path as only modules are used.

    Args:
        holder: the class of the object that it is an attribute of.
    """
    own = flow.ref.owner
    if path in flow.modules or (own is not None and path in own.modules):
        return True
    return holder is not None and f"self.{path.rpartition('.')[2]}" in holder.modules and not holder.freezes_some


def is_module_of_unknown(flow: Flow, path: str, holder: Value) -> bool:
    """Whether an attribute of an object of a class that cannot be read is a module, which the function runs."""
    if holder.kind is not Kind.OUTPUT or not may_have_modules(holder):
        return False
    is_run = any(t.path_of(call.func) == path for call in flow.ref.calls)
    return is_run and kind_by_name(flow, path) is Kind.MODULE


def may_have_modules(holder: Value) -> bool:
    """Whether an object is none of torch's: of the program, or of a class that cannot be read, ``Trainer(config)``."""
    if holder.kind is Kind.OUTPUT:
        return all(root.source is not Source.GRAPH for root in holder.reach)
    return holder.kind in (Kind.UNKNOWN, Kind.INSTANCE, Kind.MODULE)


def assigned_at(flow: Flow, path: str) -> list[t.Expr]:
    """What is assigned to a path: an attribute of the object, or a variable of the function."""
    name, owner = path.removeprefix("self."), flow.ref.owner
    if path != f"self.{name}":
        return flow.ref.assigned.get(path, [])
    return [value for _, value in owner.assigned(name)] if owner is not None else []


def assigned_anywhere(flow: Flow, path: str) -> list[t.Expr]:
    """The same, and to a variable of the file: in its own statements, and in the function."""
    assigned = assigned_at(flow, path)
    is_global = path.isidentifier() and flow.scope(path) is Scope.GLOBAL
    return [*flow.module.bound_to(path), *assigned] if is_global else assigned


def owner_of(flow: Flow, path: str, state: State) -> Class | None:
    """The project class of the object at a path."""
    value = state.env.get(path)
    if value is None and "." not in path:
        value = _outer_name(flow, path)
    elif value is None and "[" not in path:
        base, _, name = path.rpartition(".")
        owner = owner_of(flow, base, state)
        value = owner.attribute(name) if owner is not None else None
    return value.ref if value is not None and isinstance(value.ref, Class) and value.kind is not Kind.CLASS else None


def _class_at(flow: Flow, path: str, state: State) -> Class | None:
    """The project class that a name means."""
    value = (state.env.get(path) or _outer_name(flow, path)) if path.isidentifier() else None
    return value.ref if value is not None and value.kind is Kind.CLASS and isinstance(value.ref, Class) else None


def returned(flow: Flow, call: t.Call, value: Value, state: State) -> str | None:
    """The attribute or global that a function gives to its caller: ``self.rows().append(x)``, ``log().add(x)``."""
    if value.kind not in (Kind.CONTAINER, Kind.UNKNOWN, Kind.INSTANCE) or makes_anew(call):
        return None
    callee = flow.value(call.func, state).ref if isinstance(call.func, t.Name | t.Attribute) else None
    if isinstance(callee, Class) or (isinstance(callee, FunctionRef) and callee.makes_anew):
        return None  # an object is made of what it is given, and is none of that
    found = [root.key for root in value.must if root.source is Source.PLACE and isinstance(root.key, str)]
    return found[0] if len(found) == 1 else None


def _outer_name(flow: Flow, name: str) -> Value:
    outer = flow.ref.outer
    while outer is not None:
        known = outer.final.env.get(name) or outer.current_env.get(name)
        if known is not None:
            root = frozenset((Root(Source.PLACE, name),))
            plain = (Kind.TENSOR, Kind.OUTPUT, Kind.UNKNOWN, Kind.CONTAINER, Kind.NUMBER, Kind.NOTHING)
            return known._replace(roots=root, maybe=frozenset(), must=root, parts=()) if known.kind in plain else known
        outer = outer.ref.outer
    value = flow.module.resolve(name)
    is_module = name in flow.modules or _is_module_elsewhere(flow, name)
    if is_module and (value is None or value.kind in (Kind.UNKNOWN, Kind.TENSOR)):
        return Value(kind=Kind.MODULE)  # torch.load(path), in another place
    if value is None or value.kind in (Kind.UNKNOWN, Kind.CONTAINER, Kind.TENSOR, Kind.NUMBER, Kind.NOTHING):
        kind = value.kind if value is not None and value.kind is not Kind.NOTHING else Kind.UNKNOWN  # set later
        if kind is Kind.UNKNOWN and (named := kind_by_name(flow, name)) is not Kind.UNKNOWN:
            return Value(kind=named)
        root = frozenset((Root(Source.PLACE, name),))
        bounded = value.bounded if value is not None else False
        if value is None and hasattr(builtins, name) and name not in flow.module.outline.variables:
            return Value(kind=Kind.EXTERNAL, ref=f"builtins.{name}")
        parts = value.parts if value is not None else ()
        return Value(root, must=root, kind=kind, bounded=bounded, parts=parts)
    return value


def _bare(value: Value) -> Value:
    """A value without its graph: what it is, and whether it is a leaf."""
    leaves = frozenset(r for r in value.roots if r.source is Source.LEAF)
    members = value.holding(Held.MEMBER, Held.FROZEN)
    return Value(leaves, kind=value.kind, ref=value.ref, bounded=value.bounded, holds=members)


def _is_kept(part: Value) -> bool:
    """Whether a part of an attribute's value says more than its name does."""
    objects = (Kind.INSTANCE, Kind.MODULE, Kind.OPTIMIZER, Kind.CLASS, Kind.FUNCTION)
    return part.kind in objects or part.bounded or bool(_bare(part).roots or _bare(part).holds)


def _chosen_class(ref: FunctionRef, name: str) -> Value:
    """The classes of which a variable is one, ``Net = Small if fast else Large``; any other is bound elsewhere."""
    bound = ref.assigned.get(name, ())
    either = bound[0] if len(bound) == 1 else None
    if not isinstance(either, t.Conditional):
        return UNKNOWN
    chosen = join(ref.module.value_of(either.body), ref.module.value_of(either.orelse))
    return chosen if chosen.kind is Kind.CLASS else UNKNOWN


def kind_of(ref: FunctionRef, expr: t.Expr) -> Value:
    """What sort of object an expression makes, read by itself inside a function."""
    from gradguard.static.flow import Flow

    flow = Flow(ref.module.project, ref)
    flow.dry = True
    memo_of(flow).update(
        receivers=frozenset((expr.id,)) if isinstance(expr, t.Name) else frozenset(),
        called_names=frozenset(),
        run_names=frozenset(),
        receivers_in=frozenset(),
    )
    state = State({})
    names = {node.id for node in t.walk(expr) if isinstance(node, t.Name)}
    state.env.update((name, _chosen_class(ref, name)) for name in flow.locals & names)
    state.env.update((param.name, parameter(flow, param)) for param in ref.define.params if param.name in names)
    value = flow.value(expr, state)
    whole = value.kind is Kind.OUTPUT and is_record(value)
    parts = tuple((key, _bare(part)) for key, part in value.parts if whole or _is_kept(part))
    return _bare(value)._replace(parts=parts)

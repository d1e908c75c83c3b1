"""Functions that somebody hands over and somebody else calls: handlers of an event, a step that a trainer is given.

Which ones an unknown callable may be is told by where it was taken from, and by what the calls in all files pass there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.model import Scope
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import OF_METHOD, paths_of_elements
from gradguard.static.program.written_calls import ITEMS
from gradguard.static.reading.called import Called
from gradguard.static.reading.summary import apply_one_of
from gradguard.static.values import UNKNOWN, Kind, Value, each_of, join

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Module


def call_of_handed(c: Called) -> Value | None:
    """A call of something that a caller, or whoever made the object, handed over.

    It matters where a graph goes in, where a loop is given the step that it is to run, and where what is named as a
    module or a loss is a function that resets gradients.
    """
    is_unknown = c.func.kind is Kind.UNKNOWN
    takes_a_graph = any(v.keeps or v.kind is Kind.INSTANCE for v in c.arguments)
    may_matter = is_unknown and (takes_a_graph or c.flow.loop is not None)
    may_reset = c.flow.ref.trains and _is_named_as_loss(c)
    found = _place(c) if may_matter or may_reset else None
    if found is None:
        return None
    path, functions = found
    resets = may_reset and all("zero_grad(" in function.chunk.program for function in functions)
    if not resets and not may_matter:
        return None
    if not resets and not takes_a_graph:
        # Which one a loop runs is settled before it: of a step of a training and one of a test, one.
        functions = [function for function in functions if function.trains]
    are_methods = all(function.owner is not None and function.define.name != "__call__" for function in functions)
    return apply_one_of(c, functions, f"{path}{OF_METHOD}" if are_methods else path)


def _is_named_as_loss(c: Called) -> bool:
    """Whether what is called is taken for a module or a loss, and nothing of the program is known to be it."""
    return c.func.ref is None and (c.func.kind is Kind.MODULE or k.LOSS_CALLABLE.search(c.path) is not None)


def _place(c: Called) -> tuple[str, list[FunctionRef]] | None:
    """Where an unknown callable was taken from, and what was put there."""
    flow, func = c.flow, c.node.func
    written = t.path_of(func)
    if written is None:
        return None
    (path, *others) = flow.element_paths(written)
    if others:
        return None
    path = _behind_variable(flow, path)
    head, _, rest = path.partition(".")
    owner = flow.ref.owner
    if head == "self" and owner is not None and rest:
        name = rest.split(".", 1)[0].split("[", 1)[0]
        if "." in rest or (owner.method(name) is not None and name == rest):
            return None
        return path, list(dict.fromkeys([*_put_into(flow, owner, name), *_chosen(owner, name)]))
    if path in flow.params and path == written:
        return path, _given(flow, flow.ref, path)
    name = path.split("[", 1)[0]
    taker = _taker_around(flow, name) if path == f"{name}{ITEMS}" else None
    if taker is not None:
        return path, flow.project.passed.functions(taker, name, flow.module, of_items=True)
    if name != path and name in flow.module.outline.variables and flow.scope(name) is Scope.GLOBAL:
        return path, list(dict.fromkeys(_registered(flow, name)))
    return None


def _behind_variable(flow: Flow, path: str) -> str:
    """The path by the collection that a variable names: ``handlers[*]`` after ``handlers = self.handlers[event]``."""
    name = path.removesuffix(ITEMS)
    bound = flow.ref.assigned.get(name, []) if name != path and name not in flow.params else []
    paths = paths_of_elements(bound[0]) if len(bound) == 1 else []
    return paths[0] if len(paths) == 1 else path


def _taker_around(flow: Flow, param: str) -> FunctionRef | None:
    """The function whose parameter a name is: this one, or one around it."""
    around: Flow | None = flow
    while around is not None and param not in around.locals:
        if param in around.params:
            return around.ref
        around = around.ref.outer
    return None


def _given(flow: Flow, ref: FunctionRef, param: str) -> list[FunctionRef]:
    """What the calls of a function pass for a parameter."""
    return flow.project.passed.functions(ref, param, flow.module)


def _put_into(flow: Flow, owner: Class, attribute: str) -> Iterator[FunctionRef]:
    """The functions that are put into an attribute, or into the collection there, by those who use the class."""
    for ref, param in _takers(owner, attribute):
        if any(p.name == param for p in ref.define.params):
            yield from _given(flow, ref, param)
            if ref.gives_back == param:  # @engine.on_iteration
                yield from flow.project.passed.decorated(ref, flow.module)
        elif any(param == p.name for inner in _inner_functions(ref) for p in inner.params):  # it returns a decorator
            yield from flow.project.passed.decorated(ref, flow.module)


def _chosen(owner: Class, attribute: str) -> Iterator[FunctionRef]:
    """The functions of a global collection that an attribute is one of: ``self.norm = partial(NORMS[name], eps=e)``."""
    for cls in owner.lineage():
        for _, value in cls.assigned(attribute):
            name = _collection_of(value)
            if name is None or name not in cls.module.outline.variables:
                continue
            for ref, maker in makers_in(cls.module, name):
                made = ref.module.value_of(maker).ref if isinstance(maker, t.Expr) else maker
                if isinstance(made, FunctionRef):
                    yield made


def _collection_of(value: t.Expr) -> str | None:
    """``NORMS`` of ``NORMS[name]``, also where some of the arguments are given at once, by their names."""
    if isinstance(value, t.Call) and value.name == "partial" and value.args:
        first, *others = value.args
        return _collection_of(first.value) if all(arg.keyword is not None for arg in others) else None
    return value.value.id if isinstance(value, t.Subscript) and isinstance(value.value, t.Name) else None


def _registered(flow: Flow, name: str) -> Iterator[FunctionRef]:
    """The functions that the functions of a file put into a global collection: ``HANDLERS[event].append(function)``."""
    for ref, param, is_own in _registering(flow.module, name):
        if is_own:
            yield from _given(flow, ref, param)
        yield from flow.project.passed.decorated(ref, flow.module)


def registered(module: Module, name: str) -> Value | None:
    """A global collection of the classes that a decorator of its file puts into it: ``@register("adam")``.

    Each element is one of them; None where there are none, or where they have nothing in common.
    """
    passed = module.project.passed
    found = (cls for ref, _, _ in _registering(module, name) for cls in passed.decorated_classes(ref, module))
    made = [Value(kind=Kind.CLASS, ref=cls) for cls in dict.fromkeys(found)]
    one = reduce(join, made) if made else UNKNOWN
    return each_of(one) if isinstance(one.ref, Class) else None


def makers_in(module: Module, name: str) -> Iterator[tuple[FunctionRef, t.Expr | FunctionRef | Class]]:
    """What a global dict has in it: as it is written out there, or as the functions of its file put it in.

    Each with the function in whose terms it is written.
    """
    passed = module.project.passed
    for extent in module.outline.variables.get(name, [])[:3]:
        chunk = module.source.chunk(extent)
        if chunk is None:
            continue
        script = FunctionRef(module, t.Define(None, "<module>", [], [], []), chunk)
        for stmt in chunk.statements:
            written = stmt.value if isinstance(stmt, t.Assign) and t.path_of(stmt.targets[0]) == name else None
            entries = written.entries if isinstance(written, t.DictDisplay) else []
            yield from ((script, item) for _, item in entries)
    for ref, param, is_own in _registering(module, name):
        given = passed.functions(ref, param, module) if is_own else passed.decorated(ref, module)
        yield from ((ref, function) for function in given)
        yield from ((ref, cls) for cls in passed.decorated_classes(ref, module))


def _registering(module: Module, name: str) -> Iterator[tuple[FunctionRef, str, bool]]:
    """The functions of a file that put a parameter into a global collection, or return a decorator that does.

    Each with the parameter, and whether that is its own.
    """
    for ref in map(module.function, module.outline.functions):
        if ref is None or name not in ref.chunk.text:
            continue
        inner = {param.name for define in _inner_functions(ref) for param in define.params}
        own = {param.name for param in ref.define.params}
        yield from ((ref, param, param in own) for param in _put_into_global(ref, name) if param in own | inner)


def _put_into_global(ref: FunctionRef, name: str) -> Iterator[str]:
    """The variables of a function that it puts into a global collection."""
    for node in ref.define.nodes:
        if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name in k.ADDING_METHODS:
            owner, values = node.func.value, [arg.value for arg in node.args]
        elif isinstance(node, t.Assign) and isinstance(node.targets[0], t.Subscript):
            owner, values = node.targets[0], [node.value]
        else:
            continue
        if any(isinstance(part, t.Name) and part.id == name for part in t.walk(owner)):
            yield from (item.id for value in values for item in _items(value) if isinstance(item, t.Name))


def _inner_functions(ref: FunctionRef) -> list[t.Define]:
    return list(ref.define.all(t.Define))


def _takers(owner: Class, attribute: str) -> list[tuple[FunctionRef, str]]:
    """The methods that put a parameter there, each with it; and those that hand theirs on to one of these."""
    found = [(ref, name) for cls in owner.lineage() for place, ref, name in cls.kept_names if place == attribute]
    methods = [ref for cls in owner.lineage() for ref in cls.methods.values()] if found else []
    for ref, param in list(found):
        positions = [p.name for p in ref.define.params if p.name != "self"]
        if param in positions:
            found += [
                (other, name)
                for other in methods
                for name in _handed_on(other, ref.define.name, param, positions.index(param))
            ]
    return found


def kept_names(cls: Class) -> Iterator[tuple[str, FunctionRef, str]]:
    """The attributes into which the methods of a class put names, as parameters have them: each with both."""
    for ref in cls.methods.values():
        for node in ref.define.nodes:
            for place, value in _stored(node):
                yield from ((place, ref, item.id) for item in _items(value) if isinstance(item, t.Name))


def bound_object(owner: Class, path: str, method: str) -> str | None:
    """The object whose method a class puts where it takes it from: ``self.mean`` of ``self.hooks = [self.mean.add]``.

    Args:
        path: where it takes it from: ``self.hooks[*]``.
        method: its own name.
    """
    head, _, rest = path.partition(".")
    nodes = (node for cls in owner.lineage() for ref in cls.methods.values() for node in ref.define.nodes)
    kept = (value for node in nodes for place, value in _stored(node) if head == "self" and place == rest.split("[")[0])
    items = (item for value in kept for item in _items(value) if isinstance(item, t.Attribute) and item.name == method)
    found = {t.path_of(item.value) for item in items}
    return found.pop() if len(found) == 1 else None


def _stored(node: t.Node) -> Iterator[tuple[str, t.Expr]]:
    """The attributes of ``self`` that a statement or a call stores into, with what it stores."""
    if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name in k.ADDING_METHODS:
        parts = [t.path_of(part) or "" for part in t.walk(node.func.value) if isinstance(part, t.Attribute)]
        places = {part[5:] for part in parts if part.startswith("self.") and "." not in part[5:]}
        yield from ((place, arg.value) for place in sorted(places) for arg in node.args)
    elif isinstance(node, t.Assign):
        for target, value in t.pairs(node.targets, node.value):
            path = (t.path_of(target) or "").split("[", 1)[0]
            if path.startswith("self.") and "." not in path[5:]:
                yield path[5:], value


def _items(value: t.Expr) -> list[t.Expr]:
    """What is stored, or what a tuple, a list or a dict of it consists of: ``(every, function)``."""
    if isinstance(value, t.Call) and t.path_of(value.func) in ("list", "tuple") and value.args:
        return [value.args[0].value]
    if isinstance(value, t.DictDisplay):
        return [item for _, item in value.entries]
    return list(value.items) if isinstance(value, t.Display) else [value]


def _handed_on(ref: FunctionRef, method: str, param: str, position: int) -> Iterator[str]:
    """The names that a method passes on to another one of its object."""
    for call in ref.calls:
        if t.path_of(call.func) == f"self.{method}":
            given = call.argument(param, position)
            if isinstance(given, t.Name):
                yield given.id

"""Weights that are kept without a copy, to be compared with later: ``p - anchor[name]`` is always 0."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes import LiveState
from gradguard.static.order import has
from gradguard.static.own_methods import methods_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.functions import FunctionRef

_OF_MODEL = {"parameters": False, "named_parameters": True}
_SAME = frozenset("list tuple iter sorted reversed dict OrderedDict filter".split())
_SHAPING = frozenset("detach view flatten reshape ravel squeeze unsqueeze".split())
_DISTANCES = frozenset("mse_loss l1_loss smooth_l1_loss dist sub".split())
_MOVED = re.compile(r"\.data\s*=[^=]|vector_to_parameters|\bswap_tensors|\.set_\(")
_DEEP = 4

_Named = tuple[t.Expr, str]
"""A name that stands for each parameter of a model, and the path of the model."""


def live_anchors(flow: Flow) -> Iterator[LiveState]:
    """Where a function keeps the weights of a model as they are, and takes them away from themselves later."""
    if flow.facts.is_test or not any(isinstance(node, t.Repeat | t.Comprehension) for node in flow.ref.define.nodes):
        return
    kept_by = [(stmt, each) for stmt in flow.ref.define.statements for each in _kept(flow.ref, stmt)]
    if kept_by and _MOVED.search(flow.module.source.text) is not None:
        return  # a parameter may get another memory
    for stmt, (kept, value, model) in kept_by:
        scope = methods_of(flow.ref.owner) if flow.ref.owner is not None and kept.startswith("self.") else []
        scope = scope or [flow.ref]
        if not _is_one_model(flow.ref, kept, model) or not _is_only_live(scope, kept):
            continue
        used = next((site for ref in scope for site in _differences(ref, kept, model)), None)
        if used is not None:
            yield LiveState(flow.site(stmt), kept, model, "", used, value=flow.site(value))


def _kept(ref: FunctionRef, stmt: t.Stmt) -> Iterator[tuple[str, t.Expr, str]]:
    """The collections into which a statement puts weights as they are: its path, what is put there, the model."""
    for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
        if isinstance(target, t.Subscript):
            yield from _put(ref, target.value, value)
        elif (path := t.path_of(target)) is not None and isinstance(value, t.Comprehension):
            for name, model in _parameters_in(ref, value.clauses[0].target, value.clauses[0].iterable):
                if _is_live(value.element, name):
                    yield path, value.element, model
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) and call.func.name == "append":
        yield from _put(ref, call.func.value, call.args[0].value) if len(call.args) == 1 else ()


def _put(ref: FunctionRef, collection: t.Expr, value: t.Expr) -> Iterator[tuple[str, t.Expr, str]]:
    path = t.path_of(collection)
    for name, model in _named(ref) if path is not None and "[" not in path else ():
        if path is not None and _is_live(value, name) and not isinstance(value, t.Name):
            yield path, value, model


def _is_live(value: t.Expr, name: t.Expr) -> bool:
    """``p``, ``p.detach()``, ``p.data``: the memory is that of the parameter."""
    while True:
        if isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name == "detach":
            value = value.func.value
        elif isinstance(value, t.Attribute) and value.name == "data":
            value = value.value
        else:
            return isinstance(value, t.Name) and t.path_of(value) == t.path_of(name)


def _named(ref: FunctionRef) -> list[_Named]:
    """The names that loops of a function give the parameters of one model; none that has two meanings."""
    found: list[_Named] = []
    for target, iterable in _loops(ref):
        found += _parameters_in(ref, target, iterable)
    models: dict[str | None, set[str]] = {}
    for name, model in found:
        models.setdefault(t.path_of(name), set()).add(model)
    return [(name, model) for name, model in found if len(models[t.path_of(name)]) == 1]


def _loops(ref: FunctionRef) -> Iterator[tuple[t.Expr, t.Expr]]:
    """What the loops and the comprehensions of a function bind, and what they go over."""
    for node in ref.define.nodes:
        if isinstance(node, t.Repeat) and node.target is not None and node.iterable is not None:
            yield node.target, node.iterable
        elif isinstance(node, t.Comprehension):
            yield from ((clause.target, clause.iterable) for clause in node.clauses)


def _parameters_in(ref: FunctionRef, target: t.Expr, over: t.Expr, deep: int = 0) -> list[_Named]:
    """The names in the target of a loop that stand for the parameters of a model."""
    items = target.items if isinstance(target, t.Display) else []
    if deep > _DEEP:
        return []
    if isinstance(over, t.Name | t.Attribute):
        path = t.path_of(over)
        bound = _bound(ref, path) if path is not None else []
        return _parameters_in(bound[0][0], target, bound[0][1], deep + 1) if len(bound) == 1 else []
    if isinstance(over, t.Comprehension):
        return _of_comprehension(ref, target, over, deep)
    if not isinstance(over, t.Call):
        return []
    given = [arg.value for arg in over.args]
    if isinstance(over.func, t.Attribute):
        owner, name = over.func.value, over.func.name
        if name in _OF_MODEL:
            path, element = t.path_of(owner), _last_of(target) if _OF_MODEL[name] else target
            return [(element, path)] if path is not None and isinstance(element, t.Name) else []
        if name in ("items", "values") and not given:
            element = target if name == "values" else _last_of(target)
            return _of_dict(ref, element, owner, deep) if isinstance(element, t.Name) else []
        method = ref.owner.method(name) if ref.owner is not None and t.path_of(owner) == "self" else None
        returned = [s.value for s in method.define.statements if isinstance(s, t.Return)] if method is not None else []
        if method is None or given or len(returned) != 1 or returned[0] is None:
            return []
        return _parameters_in(method, target, returned[0], deep + 1)
    if over.name == "zip" and len(items) == len(given):
        return [found for item, each in zip(items, given) for found in _parameters_in(ref, item, each, deep + 1)]
    if over.name == "enumerate" and len(items) == 2 and given:
        return _parameters_in(ref, items[1], given[0], deep + 1)
    return _parameters_in(ref, target, given[-1], deep + 1) if over.name in _SAME and given else []


def _last_of(target: t.Expr) -> t.Expr | None:
    """``p`` of ``name, p``."""
    is_pair = isinstance(target, t.Display) and len(target.items) == 2
    return target.items[1] if isinstance(target, t.Display) and is_pair else None


def _of_comprehension(ref: FunctionRef, target: t.Expr, made: t.Comprehension, deep: int) -> list[_Named]:
    """``[(n, p) for n, p in net.named_parameters() if p.requires_grad]``: the names of those that it gives."""
    elements = made.element.items if isinstance(made.element, t.Display) else [made.element]
    targets = target.items if isinstance(made.element, t.Display) and isinstance(target, t.Display) else [target]
    inner = _parameters_in(ref, made.clauses[0].target, made.clauses[0].iterable, deep + 1)
    if made.key is not None or len(elements) != len(targets):
        return []
    pairs = list(zip(targets, elements))
    return [(each, model) for name, model in inner for each, element in pairs if _is_live(element, name)]


def _of_dict(ref: FunctionRef, element: t.Expr, owner: t.Expr, deep: int) -> list[_Named]:
    """The names of what a dict of parameters gives, where that is all that it is."""
    if isinstance(owner, t.Call) and isinstance(owner.func, t.Attribute) and owner.func.name == "state_dict":
        path = t.path_of(owner.func.value)
        return [(element, path)] if path is not None else []
    path = t.path_of(owner)
    bound = _bound(ref, path) if path is not None else []
    made = bound[0][1] if len(bound) == 1 else None
    if not isinstance(made, t.Comprehension) or made.key is None:
        return []
    inner = _parameters_in(bound[0][0], made.clauses[0].target, made.clauses[0].iterable, deep + 1)
    return [(element, model) for name, model in inner if t.path_of(made.element) == t.path_of(name)]


def _bound(ref: FunctionRef, path: str) -> list[tuple[FunctionRef, t.Expr]]:
    """What is bound to a path, by the function or by the methods of its object."""
    scope = methods_of(ref.owner) if ref.owner is not None and path.startswith("self.") else [ref]
    return [(each, value) for each in scope for value in each.assigned.get(path, ())]


def _is_one_model(ref: FunctionRef, kept: str, model: str) -> bool:
    """Whether the model is the same one wherever the collection is known."""
    if model.startswith("self.") and ref.owner is not None:
        methods = (method for method in methods_of(ref.owner) if method.define.name != "__init__")
        return not any(_is_in(model, path) for method in methods for path in method.assigned)
    if kept.startswith("self."):
        return False  # whatever the methods are given
    head = model.split(".")[0]
    loops = [stmt for stmt in ref.define.statements if isinstance(stmt, t.Repeat)]
    if any(loop.target is not None and head in _names(loop.target) for loop in loops):
        return False
    assigns = [s for s in ref.define.statements if isinstance(s, t.Assign) and _binds(s, head)]
    is_given = any(param.name == head for param in ref.define.params)
    return len(assigns) <= (0 if is_given else 1) and not any(has(loop.body, s) for loop in loops for s in assigns)


def _binds(stmt: t.Assign, name: str) -> bool:
    return any(name in _names(target) for target in stmt.targets)


def _names(target: t.Expr) -> list[str | None]:
    return [t.path_of(each) for each in t.names_in(target)]


def _is_only_live(scope: Sequence[FunctionRef], kept: str) -> bool:
    """Whether nothing else is put into a collection than what is empty, and weights as they are."""
    for ref in scope:
        for stmt in ref.define.statements:
            live = [value for path, value, _ in _kept(ref, stmt) if path == kept]
            if not live and _changes(stmt, kept):
                return False
    return True


def _changes(stmt: t.Stmt, kept: str) -> bool:
    """Whether a statement binds a collection to something, puts something into it, or changes what is in it."""
    if isinstance(stmt, t.Assign):
        pairs = ((t.path_of(target), value) for target, value in t.pairs(stmt.targets, stmt.value))
        return any(_is_in(path, kept) and not _is_empty(value) for path, value in pairs)
    if isinstance(stmt, t.Augment):
        return _is_in(t.path_of(stmt.target), kept)
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) else None
    return isinstance(func, t.Attribute) and _is_in(t.path_of(func.value), kept) and func.name != "clear"


def _is_in(path: str | None, kept: str) -> bool:
    return path is not None and (path == kept or path.startswith((f"{kept}[", f"{kept}.")))


def _is_empty(value: t.Expr) -> bool:
    if isinstance(value, t.DictDisplay):
        return not value.entries
    if isinstance(value, t.Call):
        return value.name in ("dict", "list", "OrderedDict", "defaultdict") and not value.args
    return not value.items if isinstance(value, t.Display) else isinstance(value, t.Constant)


def _differences(ref: FunctionRef, kept: str, model: str) -> Iterator[Site]:
    """Where a function takes what is kept away from the parameters that it is."""
    own = {t.path_of(name) for name, of in _named(ref) if of == model}
    others = {t.path_of(name) for target, over in _loops(ref) for name in _elements(target, over, kept)}
    for node in ref.define.nodes if own else ():
        sides: Sequence[t.Expr] = ()
        if isinstance(node, t.Operation) and node.operator == "-":
            sides = node.operands
        elif isinstance(node, t.Call) and node.name in _DISTANCES:
            sides = [arg.value for arg in node.args[:2]]
        paths = [t.path_of(_plain(side)) for side in sides]
        for one, other in (paths, paths[::-1]) if len(paths) == 2 else ():
            is_kept = other is not None and (other in others or other.startswith(f"{kept}["))
            if one is not None and one in own and is_kept and one not in others:
                yield Site(ref.chunk, node)
                break


def _elements(target: t.Expr, over: t.Expr, kept: str) -> Iterator[t.Expr]:
    """The names in the target of a loop that stand for what is kept: ``for p, old in zip(net.parameters(), kept)``."""
    if isinstance(over, t.Call) and over.name == "zip" and isinstance(target, t.Display):
        for item, arg in zip(target.items, over.args):
            yield from _elements(item, arg.value, kept)
        return
    owner = over.func.value if isinstance(over, t.Call) and isinstance(over.func, t.Attribute) else over
    if t.path_of(owner) == kept and isinstance(target, t.Name):
        yield target
    elif t.path_of(owner) == kept and (last := _last_of(target)) is not None:
        yield last


def _plain(expr: t.Expr) -> t.Expr:
    """``p`` of ``p.view(-1)``, ``p.data``."""
    while True:
        if isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name in _SHAPING:
            expr = expr.func.value
        elif isinstance(expr, t.Attribute) and expr.name == "data":
            expr = expr.value
        else:
            return expr

"""The names by which loops and comprehensions have the parameters of a model: ``for p in net.parameters()``."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of

_OF_MODEL = {"parameters": False, "named_parameters": True}
_SAME = frozenset("list tuple iter sorted reversed dict OrderedDict filter".split())
_DEEP = 4

Named = tuple[t.Expr, str]
"""A name that stands for each parameter of a model, and the path of the model."""


def named(ref: FunctionRef) -> list[Named]:
    """The names that loops of a function give the parameters of one model; none that has two meanings."""
    found: list[Named] = []
    for target, iterable in loops_of(ref):
        found += parameters_in(ref, target, iterable)
    models: dict[str | None, set[str]] = {}
    for name, model in found:
        models.setdefault(t.path_of(name), set()).add(model)
    return [(name, model) for name, model in found if len(models[t.path_of(name)]) == 1]


def loops_of(ref: FunctionRef) -> Iterator[tuple[t.Expr, t.Expr]]:
    """What the loops and the comprehensions of a function bind, and what they go over."""
    for loop in ref.define.all(t.Repeat):
        if loop.target is not None and loop.iterable is not None:
            yield loop.target, loop.iterable
    for each in ref.define.all(t.Comprehension):
        yield from ((clause.target, clause.iterable) for clause in each.clauses)


def parameters_in(ref: FunctionRef, target: t.Expr, over: t.Expr, deep: int = 0) -> list[Named]:
    """The names in the target of a loop that stand for the parameters of a model."""
    if deep > _DEEP:
        return []
    if isinstance(over, t.Name | t.Attribute):
        path = t.path_of(over)
        bound = _bound(ref, path) if path is not None else []
        return parameters_in(bound[0][0], target, bound[0][1], deep + 1) if len(bound) == 1 else []
    if isinstance(over, t.Comprehension):
        return _of_comprehension(ref, target, over, deep)
    return _of_call(ref, target, over, deep) if isinstance(over, t.Call) else []


def _of_call(ref: FunctionRef, target: t.Expr, over: t.Call, deep: int) -> list[Named]:
    """The names in what goes over a call: of a module, of a dict, of what combines or only hands on others."""
    given, items = [arg.value for arg in over.args], target.items if isinstance(target, t.Display) else []
    if isinstance(over.func, t.Attribute):
        owner, name = over.func.value, over.func.name
        if name in _OF_MODEL:
            path, element = t.path_of(owner), last_of(target) if _OF_MODEL[name] else target
            return [(element, path)] if path is not None and isinstance(element, t.Name) else []
        if name in ("items", "values") and not given:
            element = target if name == "values" else last_of(target)
            return _of_dict(ref, element, owner, deep) if isinstance(element, t.Name) else []
        return [] if given else _of_own_method(ref, target, over.func, deep)
    if over.name == "zip" and len(items) == len(given):
        return [found for item, each in zip(items, given) for found in parameters_in(ref, item, each, deep + 1)]
    if over.name == "enumerate" and len(items) == 2 and given:
        return parameters_in(ref, items[1], given[0], deep + 1)
    return parameters_in(ref, target, given[-1], deep + 1) if over.name in _SAME and given else []


def _of_own_method(ref: FunctionRef, target: t.Expr, called: t.Attribute, deep: int) -> list[Named]:
    """``for p in self.trainable():``, where that returns parameters."""
    is_own = t.path_of(called.value) == "self" and ref.owner is not None
    method = ref.owner.method(called.name) if ref.owner is not None and is_own else None
    returned = [s.value for s in method.define.statements if isinstance(s, t.Return)] if method is not None else []
    if method is None or len(returned) != 1 or returned[0] is None:
        return []
    return parameters_in(method, target, returned[0], deep + 1)


def last_of(target: t.Expr) -> t.Expr | None:
    """``p`` of ``name, p``."""
    is_pair = isinstance(target, t.Display) and len(target.items) == 2
    return target.items[1] if isinstance(target, t.Display) and is_pair else None


def _of_comprehension(ref: FunctionRef, target: t.Expr, made: t.Comprehension, deep: int) -> list[Named]:
    """``[(n, p) for n, p in net.named_parameters() if p.requires_grad]``: the names of those that it gives."""
    elements = made.element.items if isinstance(made.element, t.Display) else [made.element]
    targets = target.items if isinstance(made.element, t.Display) and isinstance(target, t.Display) else [target]
    inner = parameters_in(ref, made.clauses[0].target, made.clauses[0].iterable, deep + 1)
    if made.key is not None or len(elements) != len(targets):
        return []
    pairs = list(zip(targets, elements))
    return [(each, model) for name, model in inner for each, element in pairs if is_live(element, name)]


def _of_dict(ref: FunctionRef, element: t.Expr, owner: t.Expr, deep: int) -> list[Named]:
    """The names of what a dict of parameters gives, where that is all that it is."""
    if isinstance(owner, t.Call) and isinstance(owner.func, t.Attribute) and owner.func.name == "state_dict":
        path = t.path_of(owner.func.value)
        return [(element, path)] if path is not None else []
    path = t.path_of(owner)
    bound = _bound(ref, path) if path is not None else []
    made = bound[0][1] if len(bound) == 1 else None
    if not isinstance(made, t.Comprehension) or made.key is None:
        return []
    inner = parameters_in(bound[0][0], made.clauses[0].target, made.clauses[0].iterable, deep + 1)
    return [(element, model) for name, model in inner if t.path_of(made.element) == t.path_of(name)]


def _bound(ref: FunctionRef, path: str) -> list[tuple[FunctionRef, t.Expr]]:
    """What is bound to a path, by the function or by the methods of its object."""
    scope = methods_of(ref.owner) if ref.owner is not None and path.startswith("self.") else [ref]
    return [(each, value) for each in scope for value in each.assigned.get(path, ())]


def is_live(value: t.Expr, name: t.Expr) -> bool:
    """``p``, ``p.detach()``, ``p.data``: the memory is that of the parameter."""
    of = same_memory(value)
    return isinstance(of, t.Name) and t.path_of(of) == t.path_of(name)


def same_memory(value: t.Expr) -> t.Expr:
    """``p`` of ``p.detach()``, ``p.data``."""
    if (whole := t.detached(value)) is not None:
        return same_memory(whole)
    return same_memory(value.value) if isinstance(value, t.Attribute) and value.name == "data" else value

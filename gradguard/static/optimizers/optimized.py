"""Whose parameters an optimizer is given, by the paths that these have where it is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.optimizers.parameter_groups import modules_behind, modules_given_by
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.made_objects import callers
from gradguard.static.program.paths import is_part

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.reading.called import Called

_PARAMETERS = ("parameters", "named_parameters")
_GOING_OVER = ("list", "tuple", "iter")


def optimized(c: Called) -> frozenset[str] | None:
    """The modules whose parameters an optimizer is given, and the leaves; None when not seen.

    Args:
        c: the call that makes it.
    """
    parameters = given = c.node.argument("params", 0)
    bound = t.path_of(parameters) if isinstance(parameters, t.Name | t.Attribute) else None
    if bound is not None:  # tuned = list(net.head.parameters()); self.params = chain(...)
        parameters = _only_value(c, bound) or parameters
    while isinstance(parameters, t.Call) and parameters.name in _GOING_OVER and len(parameters.args) == 1:
        parameters = parameters.args[0].value
    calls = [n for n in t.walk(parameters) if isinstance(n, t.Call) and isinstance(n.func, t.Attribute)]
    named = [_owner(call) for call in calls if _is_of_module(call)]
    if named:
        return _all_known([_as_kept(c, path) for path in named])
    if (groups := _in_groups(c, given)) is not None:
        return groups
    if isinstance(parameters, t.Display) and not calls:
        leaves = _all_known([t.path_of(item) if _is_made_leaf(c, item) else None for item in parameters.items])
        if leaves is not None:
            return leaves
    call = parameters if isinstance(parameters, t.Call) else None
    ref = c.flow.value(call.func, c.state).ref if call is not None else None
    if call is not None and isinstance(ref, FunctionRef):
        inside = _given_by(ref, call)
    else:
        inside = modules_behind(c.flow.ref, given) if given is not None else []
    return _all_known([_as_kept(c, path) for path in inside])


def _given_by(ref: FunctionRef, call: t.Call) -> list[str | None]:
    """What a method gives, or a function of what it is given: ``net.table_parameters()``, ``trainable(net)``.

    In the words of its caller; None for whatever is no module, and no parameter, that the caller has a path for.
    """
    heads = {name: t.path_of(given) for name, given in ref.given_by(call).items() if name not in ref.assigned}
    if ref.owner is not None:
        heads["self"] = _owner(call)
    found = list(_given_back(ref))
    if not found or None in found:
        return modules_given_by(ref, call)
    inside = (path.partition(".") if path is not None else ("", "", "") for path in found)
    return [of + dot + rest if (of := heads.get(head)) is not None else None for head, dot, rest in inside]


def _only_value(c: Called, name: str) -> t.Expr | None:
    """What a variable of the function is bound to, where one statement binds it."""
    statements = (s for s in c.flow.ref.define.statements if isinstance(s, t.Assign))
    given = [s.value for s in statements if any(t.path_of(target) == name for target in s.targets)]
    return given[0] if len(given) == 1 else None


def _in_groups(c: Called, parameters: t.Expr | None) -> frozenset[str] | None:
    """The modules whose parameters are parted first: ``decay = [p for p in net.parameters() if p.ndim > 1]``."""
    names = _grouped(parameters)
    sources = [_source(c, name) for name in names]
    return frozenset().union(*(source for source in sources if source)) if sources and all(sources) else None


def _grouped(parameters: t.Expr | None) -> list[str]:
    """The names of the groups: of ``[{"params": decay}, {"params": rest, "lr": 1e-3}]``, ``decay + rest``."""
    if isinstance(parameters, t.Name):
        return [parameters.id]
    if isinstance(parameters, t.Operation) and parameters.operator == "+":
        return [name for operand in parameters.operands for name in _grouped(operand)]
    items = parameters.items if isinstance(parameters, t.Display) else []
    entries = (entry for item in items if isinstance(item, t.DictDisplay) for entry in item.entries)
    groups = (value for key, value in entries if isinstance(key, t.Constant) and key.value == "params")
    return [name for group in groups for name in _grouped(group)]


def _source(c: Called, name: str, depth: int = 3) -> frozenset[str] | None:
    """The modules whose parameters a list has, that a comprehension makes or a loop fills."""
    value = _only_value(c, name)
    loops = (s for s in c.flow.ref.define.statements if isinstance(s, t.Repeat) and _fills(s, name))
    is_empty = isinstance(value, t.Display) and not value.items
    made = [s.iterable for s in loops] if is_empty else [clause.iterable for clause in _clauses(value)]
    found: set[str] = set()
    for each in made:
        if isinstance(each, t.Name) and depth:
            of = _source(c, each.id, depth - 1)
        else:
            owner = _owner(each) if isinstance(each, t.Call) and _is_of_module(each) else None
            of = frozenset((owner,)) if owner is not None else None
        if of is None:
            return None
        found |= of
    return frozenset(found) or None


def _clauses(value: t.Expr | None) -> list[t.Clause]:
    return value.clauses if isinstance(value, t.Comprehension) else []


def _fills(loop: t.Repeat, name: str) -> bool:
    """Whether a loop appends to a list."""
    calls = (node.func for node in t.walk(loop.body) if isinstance(node, t.Call))
    return any(isinstance(f, t.Attribute) and f.name == "append" and t.path_of(f.value) == name for f in calls)


def _is_made_leaf(c: Called, item: t.Expr) -> bool:
    """Whether it is a tensor that its function makes to be trained, and no parameter of a module under another name."""
    made = c.flow.ref.assigned.get(t.path_of(item) or "", [])
    return bool(made) and all(isinstance(value, t.Call) and _makes_leaf(value) for value in made)


def _makes_leaf(call: t.Call) -> bool:
    name = call.func.name if isinstance(call.func, t.Attribute) else t.path_of(call.func)
    return name in ("Parameter", "requires_grad_") or call.is_true("requires_grad")


def _as_kept(c: Called, path: str | None) -> str | None:
    """The path by which the object's methods have what its constructor was given: ``self.model.head``.

    What a comprehension takes from a dict whose keys are known has its path there: ``nets["g"]``.
    """
    path = entry if path is not None and (entry := c.flow.element_path(path)).endswith('"]') else path
    head, dot, rest = (path or "").partition(".")
    kept = c.flow.ref.kept_as(head) if head in c.flow.params else None
    return path if kept is None else kept + dot + rest


def overlap(some: frozenset[str] | None, others: frozenset[str] | None) -> bool:
    """Whether two optimizers may have parameters in common: ``net`` has those of ``net.head``."""
    if some is None or others is None:
        return True
    return any(is_part(a, b) or is_part(b, a) for a in some for b in others)


def _is_of_module(call: t.Call) -> bool:
    return isinstance(call.func, t.Attribute) and call.func.name in _PARAMETERS


def _owner(call: t.Call) -> str | None:
    return t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None


def _all_known(paths: list[str | None]) -> frozenset[str] | None:
    known = frozenset(path for path in paths if path is not None)
    return known if known and len(known) == len(set(paths)) else None


def _given_back(method: FunctionRef) -> Iterator[str | None]:
    """The modules and parameters that a function gives, by its own paths; None for whatever else it gives."""
    for node in method.define.nodes:
        given = node.value if isinstance(node, t.Return | t.Suspend) else None
        if given is not None:
            yield from _modules_in(_written(method, given))


def _written(method: FunctionRef, given: t.Expr) -> t.Expr:
    """What is given, or what its variable is bound to where nothing else happens to that."""
    bound = method.assigned.get(given.id, []) if isinstance(given, t.Name) else []
    path = t.path_of(given)
    changed = {_owner(call) for call in method.calls if isinstance(call.func, t.Attribute)}
    changed.update(t.path_of(stmt.target) for stmt in method.define.statements if isinstance(stmt, t.Augment))
    return given if len(bound) != 1 or path in changed else bound[0]


def _modules_in(expr: t.Expr, ref: FunctionRef | None = None) -> Iterator[str | None]:
    """The modules and parameters in an expression; None for whatever else is.

    Args:
        ref: the function that it stands in, if its variables are to be followed that get one value.
    """
    path = t.path_of(expr)
    bound = (_bound_alone(ref, expr.id) or []) if ref is not None and isinstance(expr, t.Name) else []
    if isinstance(expr, t.Call) and _is_of_module(expr):
        yield _owner(expr)
    elif len(bound) == 1 and not isinstance(bound[0], t.Name):
        yield from _modules_in(bound[0], ref)
    elif path is not None:
        yield path if "." in path else None
    elif isinstance(expr, t.Call) and (t.path_of(expr.func) or "").rsplit(".", 1)[-1] in _JOINING:
        for arg in expr.args:
            yield from _modules_in(arg.value, ref)
    elif isinstance(expr, t.Call) and expr.name == "filter" and len(expr.args) == 2:
        yield from _modules_in(expr.args[1].value, ref)
    elif isinstance(expr, t.Comprehension) and len(expr.clauses) == 1:  # of those parameters that want gradients
        yield from _modules_in(expr.clauses[0].iterable, ref)
    elif isinstance(expr, t.Display | t.Operation):
        for part in expr.items if isinstance(expr, t.Display) else expr.operands:
            yield from _modules_in(part, ref)
    elif isinstance(expr, t.Starred):
        yield from _modules_in(expr.value, ref)
    else:
        yield None


_JOINING = ("chain", "list", "tuple", "iter")


def held_by(flow: Flow, path: str) -> frozenset[str] | None:
    """The modules whose parameters an optimizer is given by whatever makes it: ``of_name(name)(net.parameters())``.

    None where it is not written at each of the calls that make what is at its path. Of what callers give a function,
    those that they give it as well (reads other files).
    """
    if path in flow.params and path not in flow.ref.assigned:
        return _as_given(flow.ref, path)
    return _held(flow.ref, path)


def _held(ref: FunctionRef, path: str) -> frozenset[str] | None:
    found: set[str] = set()
    for assigning in _assigning(ref, path):
        values = _bound_alone(assigning, path)
        if values is None:
            return None
        for made in values:
            modules = modules_given(assigning, made) if isinstance(made, t.Call) else None
            kept = [_kept(assigning, module) for module in modules or ()]
            if not kept or None in kept:
                return None
            found.update(filter(None, kept))
    return frozenset(found) or None


def modules_given(ref: FunctionRef, call: t.Call) -> frozenset[str] | None:
    """The modules whose parameters a call is given, by the names of the function that it stands in."""
    given = call.argument("params", 0)
    return _all_known(list(_modules_in(given, ref))) if given is not None else None


def _as_given(ref: FunctionRef, path: str) -> frozenset[str] | None:
    """What an optimizer has that a function is given, ``train(G, D, opt_g)``, where it is ``Adam(G.parameters())``."""
    found: set[frozenset[str] | None] = set()
    for place, call in callers(ref):
        given = ref.given_by(call)
        optimizer = t.path_of(given[path]) if path in given else None
        held = _held(place.ref, optimizer) if place.ref is not None and optimizer is not None else None
        names = {module: name for name, value in given.items() if (module := t.path_of(value)) is not None}
        found.add(_all_known([_renamed(names, module) for module in held]) if held is not None else None)
    return found.pop() if len(found) == 1 else None


def _renamed(names: Mapping[str, str], module: str) -> str | None:
    """A path of a caller by the name that it is given as, or the whole that it is in."""
    return next((name + module[len(given) :] for given, name in names.items() if is_part(module, given)), None)


def _bound_alone(ref: FunctionRef, path: str) -> list[t.Expr] | None:
    """What a function binds a path to; None where that is one of several things which a call gives."""
    statements = (s for s in ref.define.statements if isinstance(s, t.Assign))
    pairs = (pair for s in statements for pair in t.pairs(s.targets, s.value))
    values = [value for target, value in pairs if t.path_of(target) == path]
    return values if len(values) == len(ref.assigned.get(path, [])) else None


def _assigning(ref: FunctionRef, path: str) -> Iterator[FunctionRef]:
    """The function that has a variable, or the methods of its object, that have an attribute."""
    owner = ref.owner
    if path.isidentifier():
        yield ref
    elif path.startswith("self.") and path[5:].isidentifier() and owner is not None:
        yield from (method for cls in owner.lineage() for method in cls.methods.values())


def _kept(ref: FunctionRef, path: str) -> str | None:
    """A path of a constructor by the attribute that its object has it as; None for another variable of a method."""
    head, dot, rest = path.partition(".")
    if head == "self" or ref.owner is None:
        return path
    kept = ref.kept_as(head)
    return kept + dot + rest if kept is not None else None

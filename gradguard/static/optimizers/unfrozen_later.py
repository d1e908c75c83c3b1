"""Modules that are unfrozen after an optimizer was given what wanted gradients then: it never gets the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.knowledge import OF_EVERY_MODULE
from gradguard.static.mistakes.optimizers import Replacement
from gradguard.static.optimizers.parameter_iterators import resolved, use_of
from gradguard.static.optimizers.replaced import is_used
from gradguard.static.optimizers.replacing import is_below
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.local_objects import given_for
from gradguard.static.program.order import comes_before, following, has
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_FREEZES = re.compile(r"\.requires_grad(?:_\(\s*(?:requires_grad\s*=\s*)?False|\s*=\s*False)")
_GIVES_MORE = re.compile(r"add_param_group|param_groups\.(?:append|extend|insert)|[\"']params[\"']")
_SEES_TO_OPTIMIZERS = re.compile(rf"optim|{_GIVES_MORE.pattern}")
_PARAMETERS = ("parameters", "named_parameters")
_DEPTH = 2


class _Known(NamedTuple):
    """A function, and the paths by which it knows the modules whose parameters an optimizer chose from.

    Args:
        begun: the methods that were called before that.
    """

    ref: FunctionRef
    modules: frozenset[str]
    begun: frozenset[str] = frozenset()


def unfrozen_later(flow: Flow) -> Iterator[Replacement]:
    """Where a function has modules unfrozen, behind an optimizer that it made, or had made, of what was not frozen."""
    for stmt in flow.ref.define.statements:
        path = t.path_of(stmt.targets[0]) if isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Call) else None
        made = flow.final.env.get(flow.canonical(path)) if path is not None else None
        if path is None or made is None or made.kind is not Kind.OPTIMIZER or not isinstance(stmt, t.Assign):
            continue
        modules = frozenset(chosen_from(flow, stmt.value))
        after = list(following(flow.ref.define.body, stmt)) if modules else []
        known = _Known(flow.ref, modules, frozenset(_methods_before(flow, stmt)))
        for place, later in enumerate(after):
            found = _unfreezing(flow, known, later, _DEPTH)
            if found is not None and is_used(flow, path, found.node, _still_to_come(after, place), modules):
                if freezes_some(flow):
                    chosen = _chosen_at(flow, stmt.value)
                    yield Replacement(path, flow.site(stmt), flow.site(later), found, is_unfrozen=True, chosen=chosen)
                break


def freezes_some(flow: Flow) -> bool:
    """Whether something in its program is frozen at all."""
    return flow.project.survey.mentions(_FREEZES, flow.module, "requires_grad")


def _methods_before(flow: Flow, stmt: t.Stmt) -> Iterator[str]:
    """The methods that a function calls before a statement."""
    for each in flow.ref.define.statements:
        call = each.value if isinstance(each, t.Evaluate) else None
        if isinstance(call, t.Call) and comes_before(flow.ref.define.body, each, stmt):
            yield call.name


def _still_to_come(after: list[t.Stmt], place: int) -> list[t.Stmt]:
    """What runs behind a statement: what comes next, and the loops around it once more."""
    around = [stmt for stmt in after[:place] if isinstance(stmt, t.Repeat) and has([stmt], after[place])]
    return [*around, *after[place + 1 :]]


def chosen_from(flow: Flow, made: t.Expr) -> Iterator[str]:
    """The modules of whose parameters an optimizer gets those that want a gradient; none where it gets all of them."""
    if not isinstance(made, t.Call):
        return
    helper = flow.module.value_of(made.func).ref
    if isinstance(helper, FunctionRef):
        nodes, given = helper.define.nodes, helper.given_by(made)
    else:
        names = [arg.value.id for arg in made.args if isinstance(arg.value, t.Name)]
        bound = [value for name in names for value in flow.ref.assigned.get(name, [])]
        nodes, given = tuple(t.walk([made, *bound])), {}
    if not any(isinstance(node, t.Attribute) and node.name == "requires_grad" for node in nodes):
        return
    calls = (node.func for node in nodes if isinstance(node, t.Call))
    for func in calls:
        path = t.path_of(func.value) if isinstance(func, t.Attribute) and func.name in _PARAMETERS else None
        head, dot, rest = (path or "").partition(".")
        own = given.get(head)
        of = t.path_of(own) if own is not None else None
        if path is not None and (of is not None or not given):
            yield path if of is None else of + dot + rest


def _chosen_at(flow: Flow, made: t.Expr) -> Site | None:
    """Where a variable that the optimizer is given gets those that want a gradient."""
    given = [arg.value for arg in made.args] if isinstance(made, t.Call) else []
    bound = (value for each in given if isinstance(each, t.Name) for value in flow.ref.assigned.get(each.id, []))
    return next((flow.site(value) for value in bound if not isinstance(value, t.Constant)), None)


def _unfreezing(flow: Flow, known: _Known, stmt: t.Stmt, depth: int) -> Site | None:
    """The statement that makes such a module want gradients: this one, or one of what it calls."""
    if unfreezes(stmt, known.modules):
        return Site(known.ref.chunk, stmt)
    call = stmt.value if isinstance(stmt, t.Evaluate | t.Assign) else None
    callees = _in_callees(flow, known, call) if isinstance(call, t.Call) and depth else ()
    for inside in callees:
        is_concerned = bool(inside.modules) and not _gives_more(flow, inside.ref, _DEPTH)
        for each in inside.ref.define.statements if is_concerned else ():
            if (found := _unfreezing(flow, inside, each, depth - 1)) is not None:
                return found
    return None


def unfreezes(stmt: t.Stmt, modules: frozenset[str]) -> bool:
    """``net.encoder.requires_grad_(True)``, ``for p in net.encoder.parameters(): p.requires_grad = True``."""
    return switched(stmt, modules, on=True) is not None


def switched(stmt: t.Stmt, modules: frozenset[str], *, on: bool, told: frozenset[str] = frozenset()) -> str | None:
    """The module, below one of some, whose parameters a statement has want gradients from there on, or not.

    Args:
        on: whether they are to want some.
        told: the parameters of the function that are known to say so.
    """
    if isinstance(stmt, t.Repeat):
        owners = [_owner(node, _PARAMETERS) for node in t.walk(stmt.iterable)] if stmt.iterable is not None else []
        names = {t.path_of(each) or "" for each in t.names_in(stmt.target)} if stmt.target is not None else set()
        is_set = any(_wants(each, names, on, told) for each in t.walk_statements(stmt.body))
        return _first_below(modules, owners) if is_set else None
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    is_set = isinstance(call, t.Call) and _says(call, on, told)
    return _first_below(modules, [_owner(call, ("requires_grad_",))]) if is_set and call is not None else None


def _owner(node: t.Node, methods: Sequence[str]) -> str | None:
    func = node.func if isinstance(node, t.Call) else None
    return t.path_of(func.value) if isinstance(func, t.Attribute) and func.name in methods else None


def _first_below(modules: frozenset[str], owners: Sequence[str | None]) -> str | None:
    below = (owner for owner in owners if owner is not None and any(is_below(owner, module) for module in modules))
    return next(below, None)


def _wants(stmt: t.Stmt, names: set[str], on: bool, told: frozenset[str]) -> bool:
    if isinstance(stmt, t.Assign):
        paths = {t.path_of(target) for target in stmt.targets}
        return _is_told(stmt.value, on, told) and any(f"{name}.requires_grad" in paths for name in names)
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    return isinstance(call, t.Call) and _says(call, on, told) and _owner(call, ("requires_grad_",)) in names


def _says(call: t.Call, on: bool, told: frozenset[str]) -> bool:
    """Whether ``requires_grad_`` is told so; nothing means ``True``."""
    value = call.argument("requires_grad", 0)
    return on if value is None else _is_told(value, on, told)


def _is_told(value: t.Expr, on: bool, told: frozenset[str]) -> bool:
    return (isinstance(value, t.Constant) and value.value is on) or (isinstance(value, t.Name) and value.id in told)


def _in_callees(flow: Flow, known: _Known, call: t.Call) -> Iterator[_Known]:
    """The functions of the program that a call may run, with what each knows of the modules."""
    named = known.ref.module.value_of(call.func).ref
    if isinstance(named, FunctionRef) and named.owner is None:
        yield _given(named, call, known)
        return
    owner = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
    if owner is None or known.ref is not flow.ref:
        return
    cls = flow.ref.owner if owner == "self" else flow.read(flow.canonical(owner), flow.final).ref
    if not isinstance(cls, Class):
        yield from (_given(method, call, known) for method in _of_callbacks(flow, known, call))
        return
    method = cls.method(call.name)
    if method is not None:
        heads = {"self": owner} | ({} if owner == "self" else dict(_held(flow, cls, owner)))
        yield _Known(method, frozenset(_renamed(heads, known.modules)))


def _given(ref: FunctionRef, call: t.Call, known: _Known) -> _Known:
    paths = {name: t.path_of(value) for name, value in ref.given_by(call).items()}
    return _Known(ref, frozenset(_renamed(paths, known.modules)))


def _of_callbacks(flow: Flow, known: _Known, call: t.Call) -> Iterator[FunctionRef]:
    """What the classes of the program have under the name of a method, where only the run knows the object.

    Not of one that sees to the optimizer as well, or that may freeze what it unfreezes when there was an optimizer.
    """
    for method in flow.project.survey.methods_named(call.name, flow.module):
        owner = method.owner
        if owner is None or any(cls.chunk.shows(_SEES_TO_OPTIMIZERS) for cls in owner.lineage()):
            continue
        sites = ((name, Site(each.chunk, each.define)) for name, each in owner.methods.items())
        freezing = {name for name, site in sites if _FREEZES.search(site.text)}
        if freezing <= known.begun | {"__init__"}:
            yield method


def _gives_more(flow: Flow, ref: FunctionRef, depth: int) -> bool:
    """Whether a function, or what it calls, gives an optimizer parameters, or makes one, whatever that is called."""
    calls = list(ref.define.all(t.Call))
    if _GIVES_MORE.search(Site(ref.chunk, ref.define).code) or any(_makes_optimizer(ref, call) for call in calls):
        return True
    callees = (each for call in calls if depth for each in _callees(flow, ref, call))
    return any(_gives_more(flow, each, depth - 1) for each in callees)


def _makes_optimizer(ref: FunctionRef, call: t.Call) -> bool:
    return use_of(resolved(ref, call.func), call) == "optimizer"


def _callees(flow: Flow, ref: FunctionRef, call: t.Call) -> Sequence[FunctionRef]:
    """What a call may run of the program: of a method of an object, all that are called so."""
    named = ref.module.value_of(call.func).ref
    if isinstance(named, FunctionRef):
        return (named,)
    if not isinstance(call.func, t.Attribute) or call.name in OF_EVERY_MODULE:
        return ()
    own = ref.owner.method(call.name) if ref.owner is not None and t.path_of(call.func.value) == "self" else None
    return (own,) if own is not None else flow.project.survey.methods_named(call.name, flow.module)


def _renamed(heads: dict[str, str | None], modules: frozenset[str]) -> Iterator[str]:
    """The paths of modules where they are called otherwise: ``net.body`` is ``self.model.body``."""
    for head, path in heads.items():
        for module in modules if path is not None else ():
            if is_below(module, path or ""):
                yield head + module[len(path or "") :]
            elif is_below(path or "", module):
                yield head


def _held(flow: Flow, cls: Class, owner: str) -> Iterator[tuple[str, str | None]]:
    """What an object of the function was given for its attributes: ``self.model`` of ``Freezer(net, 100)``."""
    made = flow.ref.assigned.get(owner, [])
    call = made[0] if len(made) == 1 else None
    for name in cls.assigned_names if isinstance(call, t.Call) else ():
        given = given_for(cls, name, call) if isinstance(call, t.Call) else None
        if given is not None:
            yield f"self.{name}", t.path_of(given)

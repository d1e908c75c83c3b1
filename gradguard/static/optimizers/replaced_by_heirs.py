"""Modules that a derived class replaces, when the constructor of its base has made the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.model import Replacement
from gradguard.static.optimizers.replaced import has_its_own, is_given_more, is_given_more_by, steps
from gradguard.static.optimizers.replaced_by_methods import (
    is_renewed_outside,
    made_by,
    makes_optimizer,
    modules_given,
    replacing_in,
    trains_afterwards,
)
from gradguard.static.optimizers.replacing import is_copy, replaces
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import leading_to, methods_of, reached
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


_DEPTH = 4


class _Step(NamedTuple):
    """A statement that runs when an object is made, and the constructor or the method that has it."""

    ref: FunctionRef
    stmt: t.Stmt


class _Made(NamedTuple):
    """An optimizer that an object makes when it is made itself.

    Args:
        path: where the object keeps it.
        ref: the constructor, or a method that this calls.
        site: where it is made.
        given: the modules whose parameters it has.
        after: what runs when it is made, until the object is made as well.
    """

    path: str
    ref: FunctionRef
    site: Site
    given: frozenset[str]
    after: list[_Step]


def replaced_by_heirs(flow: Flow) -> Iterator[Replacement]:
    """Where a derived class replaces a part of the model that got an optimizer in the constructor of its base.

    ``super().__init__(cfg); self.model.head = nn.Linear(8, 2)``, or in a method which that constructor calls when it
    has made the optimizer, or which somebody calls before the training.
    """
    owner, ref = flow.ref.owner, flow.ref
    method = owner.method(ref.define.name) if owner is not None else None
    if owner is None or method is None or method.define is not ref.define:
        return
    for made in _made_by_bases(owner):
        for stmt, replaced in _replacing(flow, owner, made):
            if _goes_on(flow, owner, made, replaced):
                yield Replacement(made.path, made.site, flow.site(stmt), replaced)


def _made_by_bases(owner: Class) -> Iterator[_Made]:
    steps_taken = list(_construction(owner))
    for place, step in enumerate(steps_taken):
        made = made_by(step.ref, owner, step.stmt)
        if made is None or (step.ref.owner is owner and step.ref.define.name == "__init__"):
            continue
        path, making, call = made
        given = frozenset(modules_given(owner, making, call))
        if given:
            yield _Made(path, step.ref, Site(making.chunk, call), given, steps_taken[place + 1 :])


def _construction(owner: Class) -> Iterator[_Step]:
    """What runs, whatever comes, when an object of a class is made."""
    classes = list(owner.lineage())
    yield from _run(owner, classes, _constructor(classes), ())


def _constructor(classes: list[Class]) -> FunctionRef | None:
    return next((cls.methods["__init__"] for cls in classes if "__init__" in cls.methods), None)


def _run(owner: Class, classes: list[Class], ref: FunctionRef | None, around: tuple[t.Define, ...]) -> Iterator[_Step]:
    """The statements of a method of the object, and of the methods and the constructors that these call for it.

    Args:
        classes: the lineage from the class of the constructor on.
        around: the methods that are running.
    """
    if ref is None or any(each is ref.define for each in around) or len(around) > _DEPTH:
        return
    for stmt in ref.define.body:
        yield _Step(ref, stmt)
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        if _is_base_run(stmt):
            own = [place for place, cls in enumerate(classes) if cls is ref.owner]
            rest = classes[own[0] + 1 :] if own else []
            yield from _run(owner, rest, _constructor(rest), (*around, ref.define))
        elif isinstance(call, t.Call) and _is_own(call):
            yield from _run(owner, classes, owner.method(call.name), (*around, ref.define))


def _after_the_base(body: list[t.Stmt]) -> list[t.Stmt]:
    """The statements of a constructor after that of its base has run."""
    runs = [place for place, stmt in enumerate(body) if _is_base_run(stmt)]
    return body[runs[0] + 1 :] if runs else []


def _is_base_run(stmt: t.Stmt) -> bool:
    """``super().__init__(cfg)``, ``Trainer.__init__(self, cfg)``."""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) else None
    if not isinstance(call, t.Call) or not isinstance(func, t.Attribute) or func.name != "__init__":
        return False
    of_super = isinstance(func.value, t.Call) and func.value.name == "super"
    return of_super or (bool(call.args) and t.path_of(call.args[0].value) == "self")


def _replacing(flow: Flow, owner: Class, made: _Made) -> Iterator[tuple[t.Stmt, Site]]:
    """The statements of a method that replace a part of what an optimizer has, each with where that is."""
    ref = flow.ref
    if ref.define.name == "__init__":
        for stmt in _after_the_base(ref.define.body):
            if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 and replaces(ref, stmt, made.given):
                yield stmt, flow.site(stmt)
        return
    found = list(replacing_in(flow, ref, made.given))
    if not found or any(makes_optimizer(ref, node) for node in ref.define.nodes):
        return
    if any(step.ref.define is ref.define for step in made.after) or _trains_afterwards(flow, owner, made.path):
        yield from (each for each in found if not isinstance(each[0], t.Assign) or not is_copy(each[0].value))


def _is_own(call: t.Call) -> bool:
    """``self.set_up()``."""
    of = call.func.value if isinstance(call.func, t.Attribute) else None
    return of is not None and t.path_of(of) == "self"


def _trains_afterwards(flow: Flow, owner: Class, path: str) -> bool:
    """Whether somebody calls a method when the object is made, and has it trained then."""
    methods = methods_of(owner)
    if flow.ref.define.name in reached(methods, {"__init__"}):
        return False
    training = leading_to(methods, {m.define.name for m in methods if any(steps(n, path) for n in m.define.nodes)})
    return trains_afterwards(flow, flow.ref, training, path, again=False)


def _goes_on(flow: Flow, owner: Class, made: _Made, replaced: Site) -> bool:
    """Whether an optimizer steps, and neither another one is made, nor it or another one gets what is new."""
    path, stmt = made.path, replaced.node
    methods = [method for method in methods_of(owner) if method.define is not made.ref.define]
    nodes = [node for method in methods for node in method.define.nodes]
    also = [*nodes, *t.walk([step.stmt for step in made.after])]
    if made.ref.define.name != "__init__" and _is_made_again(flow, owner, made.ref):
        return False
    part = (t.path_of(stmt.targets[0]) or "") if isinstance(stmt, t.Assign) else ""
    if any(is_given_more(node, path) or is_given_more_by(flow, node, path) for node in also):
        return False
    if part and any(has_its_own(node, part) for node in also):
        return False
    return any(steps(node, path) for node in nodes) and not is_renewed_outside(flow, path)


def _is_made_again(flow: Flow, owner: Class, making: FunctionRef) -> bool:
    """Whether somebody else calls the method that makes an optimizer, than what makes the object."""
    if [method.define.name for method in methods_of(owner) if making.define.name in method.own_calls] != ["__init__"]:
        return True
    outside = (caller.ref.owner for caller in flow.project.calling(making))
    return any(cls is None or all(cls is not each for each in owner.lineage()) for cls in outside)

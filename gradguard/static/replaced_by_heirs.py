"""Modules that a derived class replaces, when the constructor of its base has made the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.classes import Class
from gradguard.static.functions import FunctionRef
from gradguard.static.model import Replacement
from gradguard.static.own_methods import leading_to, methods_of, reached
from gradguard.static.replaced import has_its_own, is_given_more, is_given_more_by, steps
from gradguard.static.replaced_by_methods import (
    is_renewed_outside,
    made_once,
    makes_optimizer,
    modules_given,
    replacing_in,
    trains_afterwards,
)
from gradguard.static.replacing import is_copy, replaces
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class _Made(NamedTuple):
    """An optimizer that the constructor of a base makes.

    Args:
        path: where the object keeps it.
        base: the constructor.
        site: where it is made.
        given: the modules whose parameters it has.
        after: what runs when it is made, until the object is made as well.
    """

    path: str
    base: FunctionRef
    site: Site
    given: frozenset[str]
    after: list[t.Stmt]


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
    after: list[t.Stmt] = []
    for constructor in _constructors(owner):
        own = constructor.define.body
        for path, making, call in made_once(constructor, owner) if constructor.owner is not owner else ():
            given = frozenset(modules_given(owner, making, call))
            if given:
                yield _Made(path, constructor, Site(making.chunk, call), given, [*_after(own, path), *after])
        after = [*_after_the_base(own), *after]


def _constructors(owner: Class) -> Iterator[FunctionRef]:
    """The constructor that makes an object of a class, and those of its bases that this one calls."""
    for cls in owner.lineage():
        constructor = cls.methods.get("__init__")
        if constructor is not None:
            yield constructor
            if not any(_is_base_run(stmt) for stmt in constructor.define.body):
                return


def _after(body: list[t.Stmt], path: str) -> list[t.Stmt]:
    """The statements of a constructor after it has bound a path."""
    binds = [place for place, stmt in enumerate(body) if isinstance(stmt, t.Assign) and is_given_more(stmt, path)]
    return body[binds[-1] + 1 :] if binds else []


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
    if ref.define.name in _run_by(owner, made.after) or _trains_afterwards(flow, owner, made.path):
        yield from (each for each in found if not isinstance(each[0], t.Assign) or not is_copy(each[0].value))


def _run_by(owner: Class, body: list[t.Stmt]) -> set[str]:
    """The methods that the statements of a block call on their own object, whatever comes, and what these call so."""
    found: set[str] = set()
    waiting = list(body)
    while waiting:
        stmt = waiting.pop()
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        method = owner.method(call.name) if isinstance(call, t.Call) and _is_own(call) else None
        if method is not None and method.define.name not in found:
            found.add(method.define.name)
            waiting += method.define.body
    return found


def _is_own(call: t.Call) -> bool:
    """``self.set_up()``, ``super().set_up()``."""
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
    methods = [method for method in methods_of(owner) if method.define is not made.base.define]
    nodes = [node for method in methods for node in method.define.nodes]
    also = [*nodes, *t.walk(made.after)]
    part = (t.path_of(stmt.targets[0]) or "") if isinstance(stmt, t.Assign) else ""
    if any(is_given_more(node, path) or is_given_more_by(flow, node, path) for node in also):
        return False
    if part and any(has_its_own(node, part) for node in also):
        return False
    return any(steps(node, path) for node in nodes) and not is_renewed_outside(flow, path)

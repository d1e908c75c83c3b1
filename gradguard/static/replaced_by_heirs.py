"""Modules that a derived class replaces in its constructor, when that of its base has made the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.classes import Class
from gradguard.static.functions import FunctionRef
from gradguard.static.model import Replacement
from gradguard.static.own_methods import methods_of
from gradguard.static.replaced import has_its_own, is_given_more, steps
from gradguard.static.replaced_by_methods import is_renewed_outside, made_once, modules_given
from gradguard.static.replacing import replaces
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def replaced_by_heirs(flow: Flow) -> Iterator[Replacement]:
    """Where a constructor calls that of its base, and then replaces a part of the model that got an optimizer there.

    ``super().__init__(cfg); self.model.head = nn.Linear(8, 2)``.
    """
    owner, ref = flow.ref.owner, flow.ref
    if owner is None or ref.define.name != "__init__":
        return
    after = _after_the_base(ref.define.body)
    new = [stmt for stmt in after if isinstance(stmt, t.Assign) and len(stmt.targets) == 1]
    base = _constructor_of_base(owner) if new else None
    for path, making, call in made_once(base, owner) if base is not None else ():
        given = frozenset(modules_given(owner, making, call))
        for stmt in new:
            if replaces(ref, stmt, given) and _goes_on(flow, owner, base, path, stmt):
                yield Replacement(path, Site(making.chunk, call), flow.site(stmt), flow.site(stmt))


def _after_the_base(body: list[t.Stmt]) -> list[t.Stmt]:
    """The statements of a constructor after that of its base has run."""
    runs = [place for place, stmt in enumerate(body) if isinstance(stmt, t.Evaluate) and _is_base_run(stmt.value)]
    return body[runs[0] + 1 :] if runs else []


def _is_base_run(call: t.Expr) -> bool:
    """``super().__init__(cfg)``, ``Trainer.__init__(self, cfg)``."""
    func = call.func if isinstance(call, t.Call) else None
    if not isinstance(call, t.Call) or not isinstance(func, t.Attribute) or func.name != "__init__":
        return False
    of_super = isinstance(func.value, t.Call) and func.value.name == "super"
    return of_super or (bool(call.args) and t.path_of(call.args[0].value) == "self")


def _constructor_of_base(owner: Class) -> FunctionRef | None:
    """The constructor that runs then: the nearest one of a base."""
    bases = (cls for cls in owner.lineage() if cls is not owner)
    return next((cls.methods["__init__"] for cls in bases if "__init__" in cls.methods), None)


def _goes_on(flow: Flow, owner: Class, base: FunctionRef | None, path: str, stmt: t.Assign) -> bool:
    """Whether an optimizer steps, and neither another one is made, nor it or another one gets what is new."""
    methods = [method for method in methods_of(owner) if base is None or method.define is not base.define]
    nodes = [node for method in methods for node in method.define.nodes]
    part = t.path_of(stmt.targets[0]) or ""
    if any(is_given_more(node, path) or has_its_own(node, part) for node in nodes):
        return False
    return any(steps(node, path) for node in nodes) and not is_renewed_outside(flow, path)

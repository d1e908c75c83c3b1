"""Modules that a method makes anew, while the object goes on with the optimizer that it made of the first one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.classes import Class
from gradguard.static.functions import FunctionRef
from gradguard.static.model import Replacement
from gradguard.static.replaced import is_given_more, replaces, steps
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def replaced_by_methods(flow: Flow) -> Iterator[Replacement]:
    """Where an object makes an optimizer once, of a module that another method makes anew: ``self.net = Net()``."""
    owner, ref = flow.ref.owner, flow.ref
    if owner is None:
        return
    for path, call in _made_once(ref):
        given = frozenset(_given(call))
        methods = [method for cls in owner.lineage() for method in cls.methods.values()]
        if not given or not _goes_on(flow, owner, methods, path):
            continue
        for method in _called_later(owner, ref):
            for stmt in method.define.body:
                if isinstance(stmt, t.Assign) and replaces(method, stmt, given):
                    site = Site(method.chunk, stmt)
                    yield Replacement(path, flow.site(call), site, site)


def _made_once(ref: FunctionRef) -> Iterator[tuple[str, t.Call]]:
    """The optimizers that a constructor makes, or a property that is computed once, each with its path."""
    is_cached = any(_last(decorator) == "cached_property" for decorator in ref.define.decorators)
    is_constructor = ref.define.name == "__init__"
    for stmt in ref.define.body if is_cached or is_constructor else ():
        value = stmt.value if isinstance(stmt, t.Assign | t.Return) else None
        if not isinstance(value, t.Call) or not _is_optimizer(ref, value):
            continue
        if isinstance(stmt, t.Return) and is_cached:
            yield f"self.{ref.define.name}", value
        elif isinstance(stmt, t.Assign) and is_constructor and len(stmt.targets) == 1:
            path = t.path_of(stmt.targets[0]) or ""
            if path.startswith("self.") and path.count(".") == 1 and "[" not in path:
                yield path, value


def _is_optimizer(ref: FunctionRef, call: t.Call) -> bool:
    maker = ref.module.value_of(call.func)
    name = str(maker.ref) if maker.kind is Kind.EXTERNAL else ""
    return name.startswith("torch.optim.") and name.count(".") == 2 and call.name[:1].isupper()


def _given(call: t.Call) -> Iterator[str]:
    """The modules whose parameters a call is given: ``self.net`` of ``Adam(self.net.parameters())``."""
    for node in t.walk(call):
        func = node.func if isinstance(node, t.Call) else None
        if isinstance(func, t.Attribute) and func.name in ("parameters", "named_parameters"):
            path = t.path_of(func.value)
            if path is not None:
                yield path


def _goes_on(flow: Flow, owner: Class, methods: list[FunctionRef], path: str) -> bool:
    """Whether an optimizer steps, and nobody makes another one, or gives it more parameters."""
    name = path.partition(".")[2]
    bound = [value for _, value in owner.assigned(name) if not isinstance(value, t.Constant)]
    if len(bound) > 1 or any(cls is not owner and cls.assigned(name) for cls in owner.lineage()):
        return False
    nodes = [node for method in methods for node in method.define.nodes if method.define is not flow.ref.define]
    if any(is_given_more(node, path) for node in nodes) or not any(steps(node, path) for node in nodes):
        return False
    anew = rf"(?<!self)\.{name}(?:\s*=[^=]|\.add_param_group)|\bdel \w+\.{name}\b|['\"]{name}['\"]"
    return not flow.project.survey.mentions(re.compile(anew), flow.module, name)


def _called_later(owner: Class, ref: FunctionRef) -> Iterator[FunctionRef]:
    """The methods that neither make the object nor the optimizer."""
    first = owner.method("__init__")
    building = {"__init__", ref.define.name} | ref.own_calls | (first.own_calls if first is not None else frozenset())
    return (method for name, method in owner.methods.items() if name not in building)


def _last(expr: t.Expr) -> str:
    return (t.path_of(expr) or "").rpartition(".")[2]

"""What a hook is registered on: of a module that is taken out of another one, that other one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def registered_on(flow: Flow, path: str | None) -> str | None:
    """The path of the receiver; of one that is taken out of ``net`` (in a loop, by its name), that of ``net``."""
    head = (path or "").split(".", 1)[0].split("[", 1)[0]
    for frame in reversed(flow.frames):
        loop = frame.loop.site.node
        if head in frame.loop.targets and isinstance(loop, t.Repeat) and loop.iterable is not None:
            path = object_in(flow, loop.iterable)
    for stmt in flow.ref.define.statements:
        targets = [t.path_of(target) for target in stmt.targets] if isinstance(stmt, t.Assign) else []
        if isinstance(stmt, t.Assign) and {path, (path or "").split("[", 1)[0]} & set(targets):
            path = object_in(flow, stmt.value) if looks_up(stmt.value) else path
    return path


def looks_up(expr: t.Expr) -> bool:
    """Whether modules are taken out of an object: ``getattr(net, name)``, ``dict(net.named_modules())``."""
    names = ((t.path_of(node.func) or "").rpartition(".")[2] for node in t.walk(expr) if isinstance(node, t.Call))
    return any(name in k.LOOKUPS for name in names)


def object_in(flow: Flow, expr: t.Expr) -> str | None:
    """The object that modules are taken out of."""
    for node in t.walk(expr):
        if not isinstance(node, t.Call):
            continue
        by_name = t.path_of(node.func) == "getattr"
        holder = node.func.value if isinstance(node.func, t.Attribute) else node.argument("", 0) if by_name else None
        if holder is not None and (path := t.path_of(holder)) is not None:
            return flow.canonical(path)
    return None

"""How long it lasts: where a collection is emptied, read again, or backpropagated after all."""

from __future__ import annotations

import ast

from gradguard.findings import Place
from gradguard.runtime.source import FunctionNode, LoopNode, Sources, own_nodes, place_of
from gradguard.runtime.stores import bound_names, called_name, names, only_begins, reads, stores

EMPTYING = frozenset({"clear", "pop", "popleft", "popitem", "reset"})


def emptied_in_a_loop(sources: Sources, name: str, scope: str, home: str | None) -> Place | None:
    """A statement that empties ``name`` again and again, outside the loop that fills it: once an epoch.

    Args:
        sources: the user's files.
        name: the holder's last name.
        scope: the holder's scope.
        home: the file in which the variable lives; another one can empty it as an attribute only.
    """
    for source in sources.all():
        as_attribute = scope in ("attribute", "class") or source.filename != home
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.stmt) or not _empties_or_begins(node, name):
                continue
            if as_attribute and not any(isinstance(n, ast.Attribute) and n.attr == name for n in ast.walk(node)):
                continue
            function = source.function_of(node)
            if getattr(function, "name", "") in ("__init__", "__new__"):
                continue
            if source.loop_of(node) is not None or _called_in_a_loop(sources, function, set()):
                return place_of(source.filename, node)
    return None


def _empties_or_begins(statement: ast.stmt, name: str) -> bool:
    return _empties(statement, name) or (stores(statement, name) and only_begins(statement))


def _empties(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.Delete):
        return any(names(target, name) for target in statement.targets)
    for call in ast.walk(statement) if isinstance(statement, ast.Expr | ast.Assign) else ():
        called = call.func if isinstance(call, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in EMPTYING and names(called.value, name):
            return True
    return False


def _called_in_a_loop(sources: Sources, function: ast.AST, seen: set[str]) -> bool:
    name = getattr(function, "name", None)
    if name is None or name in seen or len(seen) > 4:
        return False
    seen.add(name)
    for source in sources.all():
        for call in ast.walk(source.tree):
            if not isinstance(call, ast.Call) or called_name(call) != name:
                continue
            if source.loop_of(call) is not None or _called_in_a_loop(sources, source.function_of(call), seen):
                return True
    return False


def read_after_loop(sources: Sources, filename: str, stored: ast.stmt, name: str) -> bool:
    """Whether what a loop collects in a local is used in its function once the loop is over: collected on purpose."""
    source = sources.get(filename)
    loop = source.loop_of(stored) if source else None
    if source is None or loop is None:
        return False
    inside = set(ast.walk(loop))
    end = loop.end_lineno or 0 if isinstance(loop, ast.stmt) else 0
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and n not in inside and n.lineno > end
        for n in ast.walk(source.function_of(loop))
    )


def is_carried(sources: Sources, filename: str, stored: ast.stmt, name: str) -> bool:
    """Whether the loop reads ``name`` before it binds it: then its value comes from the iteration before."""
    source = sources.get(filename)
    loop = source.loop_of(stored) if source else None
    if loop is None:
        return True  # carried by whoever calls the function
    uses = [
        n
        for n in ast.walk(loop)
        if (isinstance(n, ast.Name) and n.id == name) or (isinstance(n, ast.Attribute) and n.attr == name)
    ]
    uses.sort(key=_evaluated)
    first = next(
        (
            statement
            for statement in ast.walk(loop)
            if isinstance(statement, ast.AugAssign) and statement.target in uses[:1]
        ),
        None,
    )
    return first is not None or not uses or isinstance(uses[0].ctx, ast.Load)


def _evaluated(node: ast.Name | ast.Attribute) -> tuple[int, bool, int]:
    """The order in which a line is evaluated: what is read, then what is bound."""
    return (node.lineno, isinstance(node.ctx, ast.Store), node.col_offset)


def backpropagated_after_loop(sources: Sources, filename: str, stored: ast.stmt, name: str) -> Place | None:
    """A backward over what was collected in ``name``, after the loop that collects: then the graph is needed."""
    source = sources.get(filename)
    loop = source.loop_of(stored) if source else None
    if source is None or loop is None:
        return None
    inside = set(ast.walk(loop))
    derived = {name}
    for node in own_nodes(source.function_of(loop)):
        if (
            node in inside
            or not isinstance(node, ast.stmt)
            or isinstance(node, LoopNode | FunctionNode | ast.If | ast.With)
        ):
            continue
        if isinstance(node, ast.Assign) and any(reads(node.value, n) for n in derived):
            derived |= bound_names(node)
        for call in ast.walk(node):
            backward = isinstance(call, ast.Call) and called_name(call) in ("backward", "manual_backward")
            if backward and any(reads(call, n) for n in derived):
                return place_of(filename, node)
    return None

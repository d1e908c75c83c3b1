"""Whose attribute or variable a statement is about: two objects may have one of the same name."""

from __future__ import annotations

import ast

from gradguard.runtime.source import FunctionNode, Source, Sources, own_nodes
from gradguard.runtime.stores import stores

KINDS_OF_TORCH = frozenset({"Module", "Optimizer"})
"""Classes of torch by which an annotation tells what an object is; what derives from one has nothing else in common."""


def is_of_another_function(sources: Sources, source: Source, node: ast.stmt, filename: str, stored: ast.stmt) -> bool:
    """Whether a statement is about a variable of that name that another function closes over."""
    home = sources.get(filename)
    return home is not None and (source is not home or _outermost(source, node) is not _outermost(home, stored))


def is_of_another_class(
    sources: Sources,
    source: Source,
    node: ast.stmt,
    name: str,
    stored: tuple[str, ast.stmt] | None,
    kinds: frozenset[str],
) -> bool:
    """Whether a statement is about the attribute of an object that is of an unrelated class."""
    ours = kinds_of_owner(source, node, name)
    home = sources.get(stored[0]) if stored is not None else None
    known = kinds or (kinds_of_owner(home, stored[1], name) if home is not None and stored is not None else kinds)
    return bool(ours and known) and ours.isdisjoint(known)


def _outermost(source: Source, node: ast.AST) -> ast.AST | None:
    return next((n for n in reversed([*source.around(node)]) if isinstance(n, FunctionNode)), None)


def kinds_of_owner(source: Source, statement: ast.stmt, name: str) -> frozenset[str]:
    """The classes of the object whose attribute a statement has, ``self.rows``, ``memory.rows``; none if not known."""
    owners = {first_name(n.value) for n in ast.walk(statement) if isinstance(n, ast.Attribute) and n.attr == name}
    if "self" in owners:
        cls = next((n for n in source.around(statement) if isinstance(n, ast.ClassDef)), None)
        return _kinds(cls) if cls is not None else frozenset()
    told = [_kinds_of_local(source, statement, owner) for owner in owners]
    return told[0] if len(told) == 1 else frozenset()


def _kinds_of_local(source: Source, statement: ast.stmt, owner: str) -> frozenset[str]:
    """The classes that a function says a name is of: by an annotation, or where it makes the object."""
    function = source.function_of(statement)
    arguments = function.args if isinstance(function, FunctionNode) else None
    given = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if arguments is not None else ()
    told = [argument.annotation for argument in given if argument.arg == owner]
    for made in own_nodes(function):
        if isinstance(made, ast.stmt) and stores(made, owner):
            told.append(made.value.func if isinstance(made, ast.Assign) and isinstance(made.value, ast.Call) else None)
    known = {ast.unparse(each).rpartition(".")[2] if each is not None else "" for each in told}
    called = known.pop() if len(known) == 1 else ""
    classes = {n.name: n for n in ast.walk(source.tree) if isinstance(n, ast.ClassDef)}
    return _kinds(classes[called]) if called in classes else KINDS_OF_TORCH & {called}


def _kinds(cls: ast.ClassDef) -> frozenset[str]:
    """The names of a class and of those that it derives from, as far as they tell it from others."""
    bases = {ast.unparse(base).rpartition(".")[2] for base in cls.bases}
    return frozenset({cls.name, *bases} - {"object", *KINDS_OF_TORCH})


def are_related(cls: ast.ClassDef, other: ast.ClassDef) -> bool:
    """Whether two classes are one, or one derives from the other, or both from a third."""
    return not _kinds(cls).isdisjoint(_kinds(other))


def first_name(expression: ast.expr) -> str:
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""

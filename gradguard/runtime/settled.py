"""Which names keep the value that they have: bound once, where that is not done again, and by nobody from outside."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gradguard.runtime.source import FunctionNode, Source, Sources, own_nodes
from gradguard.runtime.stores import called_name

_MAKING = frozenset({"__init__", "__new__", "__post_init__", "__setstate__"})
_READING = frozenset({"copy", "get", "items", "keys", "values"})
_SETTING = frozenset({"setattr", "delattr"})
_SETTINGS = re.compile(r"arg|conf|cfg|opt|param|setting|namespace", re.IGNORECASE)
"""Names of what a command line or a file says; what is put into that by a computed name is put into nothing else."""

NO_KINDS: frozenset[str] = frozenset()
MOST_CALLERS = 6
"""Functions that call one another of which it is asked how often they run."""


def bindings(scope: ast.AST, name: str) -> list[ast.AST]:
    """What binds ``name`` in a function or a module itself: an argument, an assignment, an import, a definition."""
    return [node for node in own_nodes(scope) if _binds(node, name)]


def _binds(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.arg):
        return node.arg == name
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0]) == name
    if isinstance(node, FunctionNode | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return node.name == name
    return isinstance(node, ast.Global | ast.Nonlocal) and name in node.names


def is_settled_global(sources: Sources, home: Source, name: str) -> bool:
    """Whether a variable of a module is bound once, by the module itself."""
    found = bindings(home.tree, name)
    if len(found) != 1 or home.loop_of(found[0]) is not None:
        return False
    if any(isinstance(n, ast.Global) and name in n.names for n in ast.walk(home.tree)):
        return False
    if any(isinstance(n, ast.Call) and called_name(n) in ("globals", "exec") for n in ast.walk(home.tree)):
        return False
    return not any(_is_set_from_outside(source, name) for source in sources.all())


def _is_set_from_outside(source: Source, name: str) -> bool:
    """Whether something is put into an attribute of that name, of anything but ``self``: it may be the module's."""
    nodes = list(ast.walk(source.tree))
    stores = (n for n in nodes if isinstance(n, ast.Attribute) and n.attr == name and not isinstance(n.ctx, ast.Load))
    is_stored = any(ast.unparse(each.value) != "self" for each in stores)
    return is_stored or any(_sets(source, each, name, NO_KINDS) for each in nodes)


def _sets(source: Source, node: ast.AST, name: str, kinds: frozenset[str]) -> bool:
    """Whether an attribute is set by its name, which may be ``name``, of what may be of one of some classes."""
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and isinstance(func, ast.Name) and func.id in _SETTING:
        of, names = (node.args[0] if node.args else None), node.args[1:2]
    elif isinstance(node, ast.Call) and isinstance(func, ast.Attribute) and func.attr == "__setattr__":
        of, names = None, node.args
    else:
        return False
    given = [each.value for each in names if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return name in given if given else _may_be(source, node, of, kinds)


def _may_be(source: Source, node: ast.AST, of: ast.expr | None, kinds: frozenset[str]) -> bool:
    """Whether what a statement writes to by a computed name may be an object of these classes; none: a module."""
    if not isinstance(of, ast.Name):
        return True
    if of.id == "self":
        cls = next((each for each in source.around(node) if isinstance(each, ast.ClassDef)), None)
        return cls is not None and cls.name in kinds
    return not _SETTINGS.search(of.id) or any(map(_SETTINGS.search, kinds))


def is_settled_attribute(
    sources: Sources, name: str, kinds: frozenset[str] = NO_KINDS, *, is_given: bool = False
) -> bool:
    """Whether an attribute of that name is set where an object is made, or in the body of a class, and nowhere else.

    One that the user's code does not set at all belongs to a library, which may change it: ``module.training``.

    Args:
        sources: the user's files.
        name: of the attribute.
        kinds: the names of the classes that the object is of.
        is_given: the object has what it was given, once: a namespace of arguments.
    """
    is_set = is_given
    for source in sources.all():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and node.attr == name:
                if not (_is_in_the_making(source, node) and ast.unparse(node.value) == "self"):
                    return False
                is_set = True
            elif isinstance(node, ast.Name) and node.id == name and isinstance(source.parents.get(node), ast.stmt):
                is_set = is_set or (not isinstance(node.ctx, ast.Load) and _is_of_a_class(source, node))
            elif _may_set(source, node, name, kinds) and not _is_in_the_making(source, node):
                return False
    return is_set and name != "training"


def _may_set(source: Source, node: ast.AST, name: str, kinds: frozenset[str]) -> bool:
    """Whether it may set an attribute without naming it as one, or lets others do so."""
    return _sets(source, node, name, kinds) or _gives_out_all(source, node, kinds)


def _gives_out_all(source: Source, node: ast.AST, kinds: frozenset[str]) -> bool:
    """Whether it is the dict of an object's attributes where it may be written to, not only read."""
    if not isinstance(node, ast.Attribute) or node.attr != "__dict__" or not _may_be(source, node, node.value, kinds):
        return False
    user = source.parents.get(node)
    is_read = isinstance(user, ast.Compare | ast.Dict) or (isinstance(user, ast.keyword) and user.arg is None)
    is_looked_up = isinstance(user, ast.Subscript) and isinstance(user.ctx, ast.Load)
    return not (is_read or is_looked_up or (isinstance(user, ast.Attribute) and user.attr in _READING))


def _is_in_the_making(source: Source, node: ast.AST) -> bool:
    return getattr(source.function_of(node), "name", "") in _MAKING


def _is_of_a_class(source: Source, node: ast.AST) -> bool:
    statement = source.parents.get(node)
    return statement is not None and isinstance(source.parents.get(statement), ast.ClassDef)


def is_settled_local(sources: Sources, home: Source, function: FunctionNode, name: str) -> bool:
    """Whether a variable of a function that runs once is bound once, outside loops, and no inner function binds it."""
    found = bindings(function, name)
    if len(found) != 1 or home.loop_of(found[0]) is not None:
        return False
    if any(isinstance(n, ast.Nonlocal) and name in n.names for n in ast.walk(function)):
        return False
    return _runs_once(sources, home, function, MOST_CALLERS)


def _runs_once(sources: Sources, home: Source, function: FunctionNode, most: int) -> bool:
    """Whether a function is mentioned once, where it is called outside loops, by what runs once itself."""
    if most == 0 or home.loop_of(function) is not None:
        return False
    mentioned = [(source, node) for source in sources.all() for node in _mentions(source, function.name)]
    if len(mentioned) != 1:
        return False
    source, node = mentioned[0]
    call = source.parents.get(node)
    if not isinstance(call, ast.Call) or call.func is not node or source.loop_of(call) is not None:
        return False
    caller = source.function_of(call)
    return not isinstance(caller, FunctionNode) or _runs_once(sources, source, caller, most - 1)


def _mentions(source: Source, name: str) -> Iterator[ast.AST]:
    for node in ast.walk(source.tree):
        said = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
        if said == name and isinstance(getattr(node, "ctx", None), ast.Load):
            yield node

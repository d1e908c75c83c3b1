"""What another thread stores, told from the source: its lines are not followed.

A queue is emptied by a thread that was there before, a pool calls back where it pleases, the hooks of a backward run in
a thread of the device. The line at which this thread was when something got longer has nothing to do with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gradguard.runtime.beside import Alias
from gradguard.runtime.origin import storing_statements
from gradguard.runtime.owners import kinds_of_owner
from gradguard.runtime.source import FunctionNode, Source, Sources
from gradguard.runtime.stores import STORING, bound_names, called_name, names, only_begins, stores

BACKWARD = frozenset({"backward", "grad"})
PUTS = STORING - {"put"}
"""What a collection has; a queue is put into by others than those who keep what was in it."""

Written = tuple[str, ast.stmt]
"""A file, and a statement in it."""


def may_run_others(statement: ast.stmt | None) -> bool:
    """Whether a statement lets another thread call functions of the program's: autograd has one for each device."""
    return any(isinstance(n, ast.Call) and called_name(n) in BACKWARD for n in _own_parts(statement))


def names_it(source: Source, statement: ast.stmt, name: str) -> bool:
    """Whether a statement mentions a holder, or stores into a variable that its function has bound to it."""
    if _mentions(statement, name):
        return True
    receivers = {put.value.id for put in _puts(statement) if isinstance(put.value, ast.Name)}
    bindings = (n for n in ast.walk(source.function_of(statement)) if receivers & bound_names(n))
    return any(isinstance(n, ast.stmt) and _mentions(n, name) for n in bindings)


def puts(statement: ast.stmt) -> bool:
    """Whether a statement puts something into a collection, whatever that is called there."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    is_entry = any(isinstance(target, ast.Subscript) for target in targets)
    return is_entry or isinstance(statement, ast.AugAssign) or bool(_puts(statement))


def statements(
    sources: Sources, name: str, function: str | None, home: str | None, known: Sequence[Alias], kinds: frozenset[str]
) -> list[Written]:
    """The statements that may be those by which another thread stores, the likeliest first.

    Args:
        sources: the user's files.
        name: the holder's last name.
        function: the function whose local it is, if it is one.
        home: the file in which the variable lives.
        known: the names that other threads' functions have for it.
        kinds: the classes of the object whose attribute it is.
    """
    found = [each for alias in known for each in _by_alias(sources, alias)]
    lengthening = [each for each in storing_statements(sources, name, function, home) if _may_lengthen(each[1], name)]
    written = [
        (filename, statement)
        for filename, statement in lengthening
        if (source := sources.get(filename)) is not None and _is_of(source, statement, name, kinds, home)
    ]
    handed = _handed_over(sources, name, function)
    # Names are short, and programs have many files: that of the variable is asked first, whatever others say.
    return found + _within(home, written) or _within(home, handed) or written or handed


def _within(home: str | None, found: list[Written]) -> list[Written]:
    return [each for each in found if each[0] == home]


def _by_alias(sources: Sources, alias: Alias) -> list[Written]:
    found = storing_statements(sources, alias.variable, alias.function, alias.filename)
    return [each for each in found if each[0] == alias.filename and _may_lengthen(each[1], alias.variable)]


def _may_lengthen(statement: ast.stmt, name: str) -> bool:
    """Whether it may put something into what is there: not ``self.rows = rows``, which only gives it a name."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return True
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    is_entry = any(isinstance(n, ast.Subscript) and names(n, name) for target in targets for n in ast.walk(target))
    is_another_name = isinstance(statement.value, ast.Name | ast.Attribute | None)
    return is_entry or (not is_another_name and _reads(statement.value, name))


def _is_of(source: Source, statement: ast.stmt, name: str, kinds: frozenset[str], home: str | None) -> bool:
    """Whether it is about an object of these classes, if the holder is an attribute; not known, it counts at home."""
    if not kinds:
        return True
    ours = kinds_of_owner(source, statement, name)
    is_attribute = any(isinstance(n, ast.Attribute) and n.attr == name for n in ast.walk(statement))
    return not ours.isdisjoint(kinds) if ours else is_attribute and source.filename == home


def _handed_over(sources: Sources, name: str, function: str | None) -> list[Written]:
    """Where it is given to somebody: ``callback=rows.append``, ``submit(keep, rows, x)`` and what ``keep`` does."""
    found = []
    for source in sources.all():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.stmt) and _is_within(source, node, function):
                if any(names(put.value, name) for put in _puts(node)):
                    found.append((source.filename, node))
                found += handed_to(sources, source, node, name)
    return found


def handed_to(sources: Sources, source: Source, statement: ast.stmt, name: str) -> list[Written]:
    """What the functions store that a statement hands over together with a holder: ``submit(keep, rows, x)``.

    Of several functions of one name those in its own file, ``source``.
    """
    calls = [n for n in _own_parts(statement) if isinstance(n, ast.Call)]
    given = [call for call in calls if any(_is_name(arg, name) for arg in _given(call))]
    found = [each for call in given for each in _in_parameters(sources, call)]
    return _within(source.filename, found) or found


def _in_parameters(sources: Sources, call: ast.Call) -> list[Written]:
    """What the user's functions that a call is given store into one of their parameters."""
    given = {n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", None) for n in _given(call)}
    found = []
    for source in sources.all():
        for node in ast.walk(source.tree):
            if isinstance(node, FunctionNode) and node.name in given:
                inside = [n for n in ast.walk(node) if isinstance(n, ast.stmt)]
                parameters = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                stored = [n for n in inside for p in parameters if stores(n, p) and _may_lengthen(n, p)]
                found += [(source.filename, n) for n in stored if not only_begins(n)]
    return found


def _given(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call, and the items of those that are tuples or lists: ``args=(queue, rows)``."""
    for value in (*call.args, *(keyword.value for keyword in call.keywords)):
        yield from value.elts if isinstance(value, ast.Tuple | ast.List) else [value]


def _is_within(source: Source, node: ast.AST, function: str | None) -> bool:
    return function is None or any(isinstance(n, FunctionNode) and n.name == function for n in source.around(node))


def _own_parts(statement: ast.stmt | None) -> Iterator[ast.AST]:
    """The expressions of a statement, without the statements in it."""
    waiting: list[ast.AST] = [statement] if statement is not None else []
    while waiting:
        node = waiting.pop(0)
        yield node
        below = ast.iter_child_nodes(node)
        waiting += [n for n in below if not isinstance(n, ast.stmt | ast.ExceptHandler | ast.match_case)]


def _puts(statement: ast.stmt) -> list[ast.Attribute]:
    """The methods of collections in a statement by which these get longer, called there or not."""
    return [n for n in _own_parts(statement) if isinstance(n, ast.Attribute) and n.attr in PUTS]


def _mentions(statement: ast.stmt, name: str) -> bool:
    return any(_is_name(n, name) for n in _own_parts(statement))


def _reads(value: ast.expr | None, name: str) -> bool:
    return value is not None and any(_is_name(n, name) for n in ast.walk(value))


def _is_name(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)

"""Where it comes from: the statement that made what is stored, and the storing one where no line could be followed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from types import CodeType

from gradguard.findings import Place
from gradguard.runtime.source import FunctionNode, LoopNode, Source, Sources, own_nodes, place_of
from gradguard.runtime.stores import (
    bound_names,
    called_name,
    changed_in_place,
    handed_on,
    only_begins,
    only_names,
    stores,
    taken_from,
    value_names,
)
from gradguard.runtime.tracer import Line


def made_at(sources: Sources, line: Line, name: str) -> Place | None:
    """The statement that made what the statement at ``line`` stores.

    Args:
        sources: the user's files.
        line: of the storing statement; a value that came as an argument was made where that was called.
        name: the holder's last name.
    """
    statement = sources.statement(line.filename, line.number, name)
    source = sources.get(line.filename)
    if statement is None or source is None:
        return None
    function = source.function_of(statement)
    stored = value_names(statement, name)
    variable = stored[0] if len(stored) == 1 else _one_made(function, stored, statement.lineno)
    if variable is None:
        return place_of(line.filename, statement)
    binding = _last_binding(function, variable, statement.lineno)
    given = _gone_through(function, binding)
    if given is not None and line.caller is not None and isinstance(function, FunctionNode):
        return _made_by_caller(sources, function, given, line.caller)
    if binding is not None:
        return place_of(line.filename, binding)
    if line.caller is not None and isinstance(function, FunctionNode):
        return _made_by_caller(sources, function, variable, line.caller)
    return place_of(line.filename, statement)


def _one_made(function: ast.AST, names: list[str], before: int) -> str | None:
    """Of several variables that are kept together the one that is made of something, no counter of a loop."""
    made = [n for n in names if isinstance(_last_binding(function, n, before), ast.Assign | ast.AugAssign)]
    return made[0] if len(made) == 1 else None


def _gone_through(function: ast.AST, binding: ast.stmt | None) -> str | None:
    """The parameter that a loop goes through: ``for name, value in values.items()`` makes no value."""
    if not isinstance(binding, ast.For) or not isinstance(function, FunctionNode):
        return None
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    used = {n.id for n in ast.walk(binding.iter) if isinstance(n, ast.Name)}
    return next((a.arg for a in every if a is not None and a.arg in used and a.arg not in ("self", "cls")), None)


def _made_by_caller(sources: Sources, function: FunctionNode, variable: str, caller: tuple[str, int]) -> Place | None:
    statement = sources.statement(*caller)
    source = sources.get(caller[0])
    if statement is None or source is None:
        return None
    argument = _argument(statement, function, variable)
    within = source.function_of(statement)
    if isinstance(argument, ast.Name):
        handed: str | None = argument.id
    else:
        handed = _one_made(within, _handed_on(sources, argument), statement.lineno)
    if handed is not None:
        binding = _last_binding(within, handed, statement.lineno)
        if _gone_through(within, binding) is not None:
            return None  # who called that function made it
        if binding is not None:
            return place_of(caller[0], binding)
    if isinstance(argument, ast.Starred | None) and _hands_all_on(statement):
        return None  # so did whoever called that function
    return sources.place(*caller)


def _handed_on(sources: Sources, argument: ast.expr | None) -> list[str]:
    """The variables that an argument hands on as they are, also as fields of a new object: ``Record(step, loss)``."""
    name = called_name(argument) if isinstance(argument, ast.Call) else None
    if not isinstance(argument, ast.Call) or name is None or not _is_class(sources, name):
        return handed_on(argument)
    given = [*argument.args, *(keyword.value for keyword in argument.keywords)]
    return list(dict.fromkeys(name for part in given for name in handed_on(part)))


def _is_class(sources: Sources, name: str) -> bool:
    """Whether the user's files define a class of this name."""
    nodes = (node for source in sources.all() for node in ast.walk(source.tree))
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in nodes)


def _hands_all_on(statement: ast.stmt) -> bool:
    """``handler(*args, **kwargs)``: whatever is handed on was made elsewhere."""
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
    given = [value for call in calls for value in (*call.args, *call.keywords)]
    return any(isinstance(each, ast.Starred) or (isinstance(each, ast.keyword) and each.arg is None) for each in given)


def _argument(statement: ast.stmt, function: FunctionNode, variable: str) -> ast.expr | None:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    for call in ast.walk(statement):
        if isinstance(call, ast.Call) and called_name(call) in (function.name, None):
            for keyword in call.keywords:
                if keyword.arg == variable:
                    return keyword.value
            offset = 1 if names[:1] in (["self"], ["cls"]) else 0
            if variable in names and 0 <= names.index(variable) - offset < len(call.args):
                return call.args[names.index(variable) - offset]
    return None


def _last_binding(function: ast.AST, variable: str, before: int) -> ast.stmt | None:
    bindings = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | LoopNode)
        and variable in bound_names(node)
        and not (isinstance(node, ast.Assign | ast.AnnAssign) and only_begins(node))  # nothing was made there
    ]
    earlier = [node for node in bindings if node.lineno <= before]
    return max(earlier or bindings, key=lambda n: n.lineno, default=None)


def storing_statements(
    sources: Sources, name: str, function: str | None, home: str | None, scope: str | None = None
) -> list[tuple[str, ast.stmt]]:
    """Every statement of the user's files that stores into ``name`` and is not its first assignment.

    Args:
        sources: the user's files.
        name: the holder's last name.
        function: the function whose local it is, if it is one.
        home: the file in which the variable lives; what other files store into that name counts if this one does not.
        scope: the holder's, where it is known: what a function binds by itself is no global.
    """
    found = []
    for source in sources.all():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.stmt) and stores(node, name) and not only_begins(node):
                if scope == "global" and _is_own_name(source, node, name):
                    continue
                within = source.function_of(node)
                if (
                    function is None
                    or getattr(within, "name", None) == function
                    or _is_nested_in(source, node, function)
                ):
                    found.append((source.filename, node))
    at_home = [each for each in found if each[0] == home]
    # `self.shadow = {...}` is how it begins; what adds to it, or puts an entry in the place of another, mentions it.
    return sorted(at_home or found, key=lambda each: (only_names(each[1], name), not _loads(each[1], name)))


def storing_by_key(sources: Sources, key: str, home: str | None) -> list[tuple[str, ast.stmt]]:
    """Every statement that stores under a word, whatever it calls the dict: ``state["slow"] = slow``.

    What is cut from its graph right there is left out. What adds to the entry, ``state["mean"].mul_(0.9).add_(x)``,
    comes first: the entry begins elsewhere.

    Args:
        sources: the user's files.
        key: the word.
        home: the file in which the variable lives; that of other files counts if there is none in this one.
    """
    found: list[tuple[str, ast.stmt]] = []
    for source in sources.all():
        statements = [node for node in ast.walk(source.tree) if isinstance(node, ast.stmt)]
        assigning = [node for node in statements if isinstance(node, ast.Assign)]
        named = {name for node in assigning for name in _names_of(node, key)}
        adding = [node for node in statements if _adds_in_place(node, key, named)]
        binding = [node for node in assigning if _binds_entry(node, key)]
        found += [(source.filename, node) for node in (*adding, *binding)]
    return [each for each in found if each[0] == home] or found


def _names_of(statement: ast.Assign, key: str) -> Iterator[str]:
    """The variables that get an entry: ``mean, square = state["mean"], state["square"]``."""
    for target in statement.targets:
        pairs: Iterable[tuple[ast.expr, ast.expr]] = [(target, statement.value)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = zip(target.elts, statement.value.elts)
        yield from (name.id for name, value in pairs if isinstance(name, ast.Name) and _reads_entry(value, key))


def _binds_entry(statement: ast.Assign, key: str) -> bool:
    is_store = any(_is_entry(target, key) for target in statement.targets)
    return is_store and not (only_begins(statement) or _cuts(statement))


def _adds_in_place(statement: ast.stmt, key: str, named: set[str]) -> bool:
    """Whether a statement adds to an entry, or to what a variable has of it, in place."""
    if isinstance(statement, ast.AugAssign):
        return _is_entry(statement.target, key)
    changed = changed_in_place(statement)
    is_name = isinstance(changed, ast.Name) and changed.id in named
    return changed is not None and (is_name or _is_entry(changed, key))


def _reads_entry(value: ast.expr, key: str) -> bool:
    """``state["mean"]``, ``state.setdefault("mean", torch.zeros(8))``."""
    if not isinstance(value, ast.Call):
        return _is_entry(value, key)
    given = value.args[0] if value.args and taken_from(value) is not None else None
    return isinstance(given, ast.Constant) and given.value == key


def _is_entry(target: ast.expr, key: str) -> bool:
    return isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value == key


def _cuts(statement: ast.Assign) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in ("detach", "item", "data") for n in ast.walk(statement.value))


def _is_own_name(source: Source, statement: ast.stmt, name: str) -> bool:
    """Whether a statement is about a variable of its function, not a global of that name."""
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    stored_into = (n for part in ast.iter_child_nodes(statement) if part is not value for n in ast.walk(part))
    if any(isinstance(n, ast.Attribute) and n.attr == name for n in stored_into):
        return False
    inside = list(own_nodes(source.function_of(statement))) if source.function_of(statement) is not source.tree else []
    declared = any(isinstance(n, ast.Global | ast.Nonlocal) and name in n.names for n in inside)
    return not declared and any(name in bound_names(n) for n in inside)


def _loads(statement: ast.stmt, name: str) -> bool:
    """Whether a statement uses what ``name`` held before it."""
    found = (n for n in ast.walk(statement) if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Load))
    return any((n.id if isinstance(n, ast.Name) else n.attr) == name for n in found)


def _is_nested_in(source: Source, node: ast.AST, function: str) -> bool:
    return any(isinstance(n, FunctionNode) and n.name == function for n in source.around(node))


_TEXTS = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
"""What stands in quotes: a text that speaks of a call calls nothing."""


def calls_with(sources: Sources, pattern: str, function: str | None = None) -> list[tuple[str, ast.stmt]]:
    """The statements of the user's files that call something whose source matches ``pattern``.

    Args:
        function: where some of them are in a function of this name, only those.
    """
    found, inside = [], []
    for source in sources.all():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and re.search(pattern, _TEXTS.sub("''", ast.unparse(node))):
                statement = next((n for n in source.around(node) if isinstance(n, ast.stmt)), None)
                if statement is not None and not isinstance(statement, FunctionNode | ast.ClassDef):
                    found.append((source.filename, statement))
                    if function is not None and _is_nested_in(source, statement, function):
                        inside.append(found[-1])
    return inside or found


def cached_functions(sources: Sources, name: str, code: CodeType | None = None) -> list[tuple[str, int]]:
    """What gives the user's functions of this name a cache, a decorator or a call of them: file and line.

    Args:
        code: of the function that is meant, where it is known: others may have its name.
    """
    found, given = [], []
    for source in sources.all():
        for node in ast.walk(source.tree):
            if isinstance(node, FunctionNode) and node.name == name and _may_be(node, source.filename, code):
                found += [(source.filename, d.lineno) for d in node.decorator_list if "cache" in ast.unparse(d)]
            elif isinstance(node, ast.Call) and _gives_cache(node, name):
                given.append((source.filename, node.lineno))
    return found or given


def _gives_cache(call: ast.Call, name: str) -> bool:
    """Whether a call gives a function a cache: ``lru_cache(maxsize=None)(self.encode)``."""
    functions = {arg.attr if isinstance(arg, ast.Attribute) else getattr(arg, "id", None) for arg in call.args}
    return name in functions and _CACHING.search(ast.unparse(call.func)) is not None


_CACHING = re.compile(r"\b(?:lru_)?cache(?:\(.*\))?$")


def _may_be(node: ast.FunctionDef | ast.AsyncFunctionDef, filename: str, code: CodeType | None) -> bool:
    """Whether a function may be the one that a code is of; that begins with its first decorator."""
    if code is None or code.co_name != node.name:
        return True
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return (filename, first) == (code.co_filename, code.co_firstlineno)


def packed_as_given(sources: Sources) -> list[tuple[str, int]]:
    """The statements by which a pack hook of ``saved_tensors_hooks`` returns its own argument: file and line."""
    found = []
    for source in sources.all():
        packs = _pack_hooks(source)
        for node in ast.walk(source.tree):
            if isinstance(node, FunctionNode) and node.name in packs:
                given = {a.arg for a in node.args.args} - {"self"}
                returns = (n for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None)
                for each in returns:
                    if given & {n.id for n in _parts(each.value) if isinstance(n, ast.Name)}:
                        found.append((source.filename, each.lineno))
            elif isinstance(node, ast.Lambda) and _is_pack_lambda(source, node):
                found.append((source.filename, node.lineno))
    return found


def _pack_hooks(source: Source) -> set[str]:
    """The names of the functions that a file gives to ``saved_tensors_hooks`` first."""
    found = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and node.args and _takes_hooks(source, node):
            pack = node.args[0]
            found.add(pack.attr if isinstance(pack, ast.Attribute) else getattr(pack, "id", ""))
    return found


def _takes_hooks(source: Source, call: ast.Call) -> bool:
    if called_name(call) == "saved_tensors_hooks":
        return True
    around = next((n for n in source.around(call) if isinstance(n, ast.ClassDef)), None)
    bases = [ast.unparse(base) for base in around.bases] if around is not None else []
    return called_name(call) == "__init__" and any(base.endswith("saved_tensors_hooks") for base in bases)


def _is_pack_lambda(source: Source, node: ast.Lambda) -> bool:
    call = source.parents.get(node)
    takes = isinstance(call, ast.Call) and call.args[:1] == [node] and _takes_hooks(source, call)
    return takes and {a.arg for a in node.args.args} >= {getattr(node.body, "id", None)}


def _parts(value: ast.expr | None) -> list[ast.expr]:
    if isinstance(value, ast.Tuple | ast.List):
        return value.elts
    if isinstance(value, ast.Dict):
        return value.values
    return [value] if value is not None else []

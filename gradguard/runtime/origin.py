"""What the source says about a holder: which statement, in which form, made where, emptied where.

The standard library's ``ast``, on the user's own files, and only in a diagnosis.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gradguard.findings import Place
from gradguard.runtime.usercode import shown, user_modules

STORING = frozenset({"append", "extend", "add", "insert", "appendleft", "update", "setdefault", "push", "put"})
EMPTYING = frozenset({"clear", "pop", "popleft", "popitem", "reset"})

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Loop = ast.For | ast.While | ast.AsyncFor


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed file.

    Args:
        filename: as code objects have it.
        tree: its module.
        lines: its lines.
        parents: the syntax node around each one.
    """

    filename: str
    tree: ast.Module
    lines: list[str]
    parents: dict[ast.AST, ast.AST]

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around ``node``, the nearest first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def function_of(self, node: ast.AST) -> ast.AST:
        """The function that ``node`` is in, or the module."""
        return next((n for n in self.around(node) if isinstance(n, _Function)), self.tree)

    def loop_of(self, node: ast.AST) -> ast.AST | None:
        """The innermost loop around ``node`` in its function."""
        for each in self.around(node):
            if isinstance(each, _Loop):
                return each
            if isinstance(each, _Function | ast.Lambda):
                return None
        return None


class Sources:
    """The user's files, each parsed once."""

    def __init__(self) -> None:
        self._known: dict[str, Source | None] = {}

    def get(self, filename: str) -> Source | None:
        """A file, or None when it cannot be read or parsed."""
        if filename not in self._known:
            self._known[filename] = _parse(filename)
        return self._known[filename]

    def all(self) -> Iterator[Source]:
        """Every loaded file of the user."""
        for module in user_modules():
            filename = getattr(module, "__file__", None)
            if isinstance(filename, str) and (source := self.get(filename)) is not None:
                yield source

    def statement(self, filename: str, line: int, name: str | None = None) -> ast.stmt | None:
        """The innermost statement that covers ``line``; of several on it, the one that stores into ``name``."""
        source = self.get(filename)
        covering = [
            node
            for node in (ast.walk(source.tree) if source else ())
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        innermost = [node for node in covering if node.lineno == max(n.lineno for n in covering)]
        storing = [node for node in innermost if name is not None and _stores(node, name)]
        found = storing or innermost
        return found[-1] if found else None

    def place(self, filename: str, line: int, name: str | None = None) -> Place:
        """The statement at ``line``, for the report."""
        statement = self.statement(filename, line, name)
        if statement is not None:
            return place_of(filename, statement)
        text = linecache.getline(filename, line).strip()
        return Place(shown(filename), line, text or None)


def place_of(filename: str, statement: ast.stmt) -> Place:
    """A statement, for the report."""
    return Place(shown(filename), statement.lineno, code_of(statement))


def _parse(filename: str) -> Source | None:
    lines = linecache.getlines(filename)
    try:
        tree = ast.parse("".join(lines), filename)
    except (SyntaxError, ValueError, RecursionError):
        return None
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return Source(filename, tree, lines, parents) if lines else None


def code_of(statement: ast.stmt) -> str:
    """A statement on one line: a compound one without its body."""
    if isinstance(statement, _Loop | ast.If | ast.With | ast.AsyncWith | _Function | ast.ClassDef | ast.Try):
        return ast.unparse(statement).split("\n", 1)[0]
    return ast.unparse(statement)


# --- how a statement stores ---------------------------------------------------------------------------------------


def form_of(statement: ast.stmt, name: str) -> str | None:
    """How ``statement`` stores into ``name``: sum, average, append, assign, index, carried, hook or call."""
    if not isinstance(statement, ast.Expr) and any(_is_storing_call(node, name) for node in ast.walk(statement)):
        return "append"  # in a lambda, or under a condition
    if isinstance(statement, ast.AugAssign):
        return "index" if isinstance(statement.target, ast.Subscript) and not _is_key(statement.target) else "sum"
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        method = called.attr if isinstance(called, ast.Attribute) else ""
        if method.startswith("register_"):
            return "hook"
        return "append" if method in STORING else "call"
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if any(isinstance(t, ast.Subscript) for t in targets):
            return "index"
        if not reads(statement.value, name):
            return "assign"
        if isinstance(statement.value, ast.BinOp):
            return "average" if any(isinstance(n, ast.Mult) for n in ast.walk(statement.value)) else "sum"
        return "carried"
    return None


def _is_storing_call(node: ast.AST, name: str) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in STORING and _names(called.value, name)


def _is_key(target: ast.Subscript) -> bool:
    return isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)


def reads(expression: ast.AST, name: str) -> bool:
    """Whether ``name`` occurs, as a variable or as an attribute; a method of that name does not count."""
    nodes = list(ast.walk(expression))
    methods = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    return any(
        (isinstance(n, ast.Name) and n.id == name)
        or (isinstance(n, ast.Attribute) and n.attr == name and id(n) not in methods)
        for n in nodes
    )


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, or of a module, without those of the functions in it."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, _Function | ast.ClassDef):
            waiting[:0] = ast.iter_child_nodes(node)


def stored_value(statement: ast.stmt, name: str) -> ast.expr | None:
    """The expression whose value is stored."""
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return statement.value
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
        return statement.value.args[-1]
    return None


def value_name(statement: ast.stmt, name: str) -> str | None:
    """The variable that is stored, when it is one: the ``loss`` of ``total += loss``, not the ``x`` of ``model(x)``."""
    value = stored_value(statement, name)
    names = _plain_names(value) if value is not None else []
    return next((n for n in names if n not in (name, "self", "cls", "torch")), None)


def _plain_names(expression: ast.AST) -> list[str]:
    """The variables of an expression, without those that are only arguments of a call."""
    if isinstance(expression, ast.Call | ast.Lambda):
        return []
    if isinstance(expression, ast.Name):
        return [expression.id]
    return [n for child in ast.iter_child_nodes(expression) for n in _plain_names(child)]


def made_at(sources: Sources, filename: str, line: int, name: str, caller: tuple[str, int] | None) -> Place | None:
    """The statement that made what the statement at ``line`` stores.

    Args:
        sources: the user's files.
        filename: of the storing statement.
        line: of the storing statement.
        name: the holder's last name.
        caller: the line that called the function, for a value that came as an argument.
    """
    statement = sources.statement(filename, line, name)
    source = sources.get(filename)
    if statement is None or source is None:
        return None
    variable = value_name(statement, name)
    if variable is None:
        return place_of(filename, statement)
    function = source.function_of(statement)
    binding = _last_binding(function, variable, statement.lineno)
    if binding is not None:
        return place_of(filename, binding)
    if caller is not None and isinstance(function, _Function):
        return _made_by_caller(sources, function, variable, caller)
    return place_of(filename, statement)


def _made_by_caller(sources: Sources, function: ast.AST, variable: str, caller: tuple[str, int]) -> Place | None:
    statement = sources.statement(*caller)
    source = sources.get(caller[0])
    if statement is None or source is None or not isinstance(function, _Function):
        return None
    argument = _argument(statement, function, variable)
    if isinstance(argument, ast.Name):
        binding = _last_binding(source.function_of(statement), argument.id, statement.lineno)
        if binding is not None:
            return place_of(caller[0], binding)
    return sources.place(*caller)


def _argument(statement: ast.stmt, function: _Function, variable: str) -> ast.expr | None:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    for call in ast.walk(statement):
        if isinstance(call, ast.Call) and _called_name(call) in (function.name, None):
            for keyword in call.keywords:
                if keyword.arg == variable:
                    return keyword.value
            offset = 1 if names[:1] in (["self"], ["cls"]) else 0
            if variable in names and 0 <= names.index(variable) - offset < len(call.args):
                return call.args[names.index(variable) - offset]
    return None


def _called_name(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)


def _last_binding(function: ast.AST, variable: str, before: int) -> ast.stmt | None:
    bindings = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | _Loop) and variable in _bound_names(node)
    ]
    earlier = [node for node in bindings if node.lineno <= before]
    return max(earlier or bindings, key=lambda n: n.lineno, default=None)


def _bound_names(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
        targets = [node.target]
    else:
        return set()
    return {
        n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


# --- searching without a trace ------------------------------------------------------------------------------------


def storing_statements(
    sources: Sources, name: str, function: str | None, home: str | None
) -> list[tuple[str, ast.stmt]]:
    """Every statement of the user's files that stores into ``name`` and is not its first assignment.

    Args:
        sources: the user's files.
        name: the holder's last name.
        function: the function whose local it is, if it is one.
        home: the file in which the variable lives; what other files store into that name counts if this one does not.
    """
    found = []
    for source in sources.all():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.stmt) and _stores(node, name) and not _only_begins(node):
                within = source.function_of(node)
                if (
                    function is None
                    or getattr(within, "name", None) == function
                    or _is_nested_in(source, node, function)
                ):
                    found.append((source.filename, node))
    at_home = [each for each in found if each[0] == home]
    return at_home or found


def _is_nested_in(source: Source, node: ast.AST, function: str) -> bool:
    return any(isinstance(n, _Function) and n.name == function for n in source.around(node))


def _stores(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.Assign):
        return any(_names(target, name) for target in statement.targets)
    if isinstance(statement, ast.AugAssign | ast.AnnAssign):
        return _names(statement.target, name)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _is_storing_call(statement.value, name)
    return False


def _names(target: ast.expr, name: str) -> bool:
    """Whether a target is ``name``, an attribute of that name, an item of it, or a tuple with it."""
    if isinstance(target, ast.Tuple | ast.List):
        return any(_names(item, name) for item in target.elts)
    if isinstance(target, ast.Subscript | ast.Starred):
        return _names(target.value, name)
    return (isinstance(target, ast.Name) and target.id == name) or (
        isinstance(target, ast.Attribute) and target.attr == name
    )


def _only_begins(statement: ast.stmt) -> bool:
    """Whether what is assigned is empty or a constant."""
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else ast.Name("x")
    if value is None or isinstance(value, ast.Constant):
        return True
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return not value.elts
    if isinstance(value, ast.Dict):
        return not value.keys
    return (
        isinstance(value, ast.Call)
        and re.fullmatch(
            r"(torch\.)?(list|dict|set|deque|collections\.\w+|defaultdict|zeros|ones|zeros_like|empty)",
            ast.unparse(value.func),
        )
        is not None
    )


def calls_with(sources: Sources, pattern: str) -> list[tuple[str, ast.stmt]]:
    """The statements of the user's files that call something whose source matches ``pattern``."""
    found = []
    for source in sources.all():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and re.search(pattern, ast.unparse(node)):
                statement = next((n for n in source.around(node) if isinstance(n, ast.stmt)), None)
                if statement is not None and not isinstance(statement, _Function | ast.ClassDef):
                    found.append((source.filename, statement))
    return found


# --- what ends it -------------------------------------------------------------------------------------------------


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
    return _empties(statement, name) or (_stores(statement, name) and _only_begins(statement))


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


def _empties(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.Delete):
        return any(_names(target, name) for target in statement.targets)
    for call in ast.walk(statement) if isinstance(statement, ast.Expr | ast.Assign) else ():
        called = call.func if isinstance(call, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in EMPTYING and _names(called.value, name):
            return True
    return False


def _called_in_a_loop(sources: Sources, function: ast.AST, seen: set[str]) -> bool:
    name = getattr(function, "name", None)
    if name is None or name in seen or len(seen) > 4:
        return False
    seen.add(name)
    for source in sources.all():
        for call in ast.walk(source.tree):
            if not isinstance(call, ast.Call) or _called_name(call) != name:
                continue
            if source.loop_of(call) is not None or _called_in_a_loop(sources, source.function_of(call), seen):
                return True
    return False


def backpropagated_after_loop(sources: Sources, filename: str, stored: ast.stmt, name: str) -> Place | None:
    """A backward over what was collected in ``name``, after the loop that collects: then the graph is needed."""
    source = sources.get(filename)
    loop = source.loop_of(stored) if source else None
    if source is None or loop is None:
        return None
    inside = set(ast.walk(loop))
    derived = {name}
    for node in own_nodes(source.function_of(loop)):
        if node in inside or not isinstance(node, ast.stmt) or isinstance(node, _Loop | _Function | ast.If | ast.With):
            continue
        if isinstance(node, ast.Assign) and any(reads(node.value, n) for n in derived):
            derived |= _bound_names(node)
        for call in ast.walk(node):
            backward = isinstance(call, ast.Call) and _called_name(call) in ("backward", "manual_backward")
            if backward and any(reads(call, n) for n in derived):
                return place_of(filename, node)
    return None

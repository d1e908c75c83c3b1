"""How long it lasts: where a collection is emptied, read again, or backpropagated after all."""

from __future__ import annotations

import ast
import os
from itertools import takewhile

from gradguard.findings import Place
from gradguard.runtime.owners import are_related, first_name, is_of_another_class, is_of_another_function
from gradguard.runtime.source import FunctionNode, IsOff, LoopNode, Source, Sources, may_run, own_nodes, place_of
from gradguard.runtime.stores import bound_names, called_name, is_of_another_key, names, only_begins, reads, stores

JOINING = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack", "append"})
EMPTYING = frozenset({"clear", "pop", "popleft", "popitem", "reset"})


def emptied_in_a_loop(
    sources: Sources,
    name: str,
    scope: str,
    home: str | None,
    outlived: frozenset[tuple[str, int]] = frozenset(),
    key: str | None = None,
    stored: tuple[str, ast.stmt] | None = None,
    kinds: frozenset[str] = frozenset(),
    is_off: IsOff = may_run,
) -> Place | None:
    """A statement that empties ``name`` again and again, outside the loop that fills it: once an epoch.

    Args:
        sources: the user's files.
        name: the holder's last name.
        scope: the holder's scope.
        home: the file in which the variable lives; another one can empty it as an attribute only.
        outlived: file and line of what ran while the lines were followed, and emptied something else or nothing.
        key: under which the collection is in a dict of that name, where it is: ``train`` of ``seen["train"]``.
        stored: file and statement that fills it.
        kinds: the names of the classes that the object is of whose attribute it is, if they are known.
        is_off: tells what is never run.
    """
    for source in sources.all():
        as_attribute = scope in ("attribute", "class") or source.filename != home
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.stmt) or not _empties_or_begins(source, node, name):
                continue
            if _has_run(source, node) & outlived or is_of_another_key(node, name, key) or is_off(source, node):
                continue
            if as_attribute and not any(isinstance(n, ast.Attribute) and n.attr == name for n in ast.walk(node)):
                continue
            if stored is not None and scope == "closure" and is_of_another_function(sources, source, node, *stored):
                continue
            if (scope == "attribute" or kinds) and is_of_another_class(sources, source, node, name, stored, kinds):
                continue
            function = source.function_of(node)
            if getattr(function, "name", "") in ("__init__", "__new__"):
                continue
            begins = _at_first(source, node) or node
            if _is_in_a_loop(source, begins, name) or _called_in_a_loop(sources, source, function, set(), is_off):
                return place_of(source.filename, node)
    return None


def emptied_in_its_loop(
    source: Source,
    stored: ast.stmt,
    name: str,
    outlived: frozenset[tuple[str, int]] = frozenset(),
    key: str | None = None,
    is_off: IsOff = may_run,
) -> Place | None:
    """A statement that empties ``name`` now and then, in the very loop that fills it: ``if step % 50 == 0: rows = []``.

    Args:
        source: the file of the statement.
        stored: fills the collection.
        name: the collection's last name.
        outlived: as for :func:`emptied_in_a_loop`, and so what follows.
        key: under which the collection is in a dict of that name.
        is_off: tells what is never run.
    """
    loop = source.loop_of(stored)
    for node in own_nodes(source.function_of(stored)) if loop is not None else ():
        if not isinstance(node, ast.stmt) or source.loop_of(node) is not loop or _has_run(source, node) & outlived:
            continue
        if is_of_another_key(node, name, key) or is_off(source, node):
            continue
        if _empties_or_begins(source, node, name) and _at_first(source, node) is not loop:
            return place_of(source.filename, node)
    return None


def _at_first(source: Source, statement: ast.stmt) -> ast.For | None:
    """The loop in whose first iteration alone a statement runs: ``if step == 0: rows = []``."""
    loop = source.loop_of(statement)
    if not isinstance(loop, ast.For):
        return None
    counters = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    inside = takewhile(lambda each: each is not loop, source.around(statement))
    tests = (around.test for around in inside if isinstance(around, ast.If))
    return loop if any(_is_first(test, counters) for test in tests) else None


def _is_first(test: ast.expr, counters: set[str]) -> bool:
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    left, right = test.left, test.comparators[0]
    return isinstance(left, ast.Name) and left.id in counters and isinstance(right, ast.Constant) and right.value == 0


def _is_in_a_loop(source: Source, statement: ast.stmt, name: str) -> bool:
    """Whether a loop runs the statement again, not only for another object: ``for each in all: each.rows = []``.

    Nor only for another key: ``for part in parts: self.rows[part] = []``.
    """
    owners = {first_name(n.value) for n in ast.walk(statement) if isinstance(n, ast.Attribute) and n.attr == name}
    for around in source.around(statement):
        if isinstance(around, FunctionNode):
            return False
        is_other = _is_about_each(around, owners) or _begins_each(source, around, statement, name)
        if isinstance(around, LoopNode) and not is_other:
            return True
    return False


def _begins_each(source: Source, loop: ast.AST, statement: ast.stmt, name: str) -> bool:
    """Whether each iteration of a loop begins what is under another key, which the loop binds.

    Not where that is asked for first: ``if step in self.rows: self.rows[step] = []``.
    """
    inside = takewhile(lambda each: each is not loop, source.around(statement))
    if any(isinstance(around, ast.If) and reads(around.test, name) for around in inside):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    keys = [each.slice for each in targets if isinstance(each, ast.Subscript) and names(each.value, name)]
    bound = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)} if isinstance(loop, ast.For) else set()
    return any(isinstance(n, ast.Name) and n.id in bound for key in keys for n in ast.walk(key))


def _is_about_each(loop: ast.AST, owners: set[str]) -> bool:
    """Whether all that a loop does is done to what it binds, to which these names belong."""
    if not isinstance(loop, ast.For) or not owners:
        return False
    bound = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    calls = [n for statement in loop.body for n in ast.walk(statement) if isinstance(n, ast.Call)]
    others = (call.func for call in calls if called_name(call) not in ("isinstance", "hasattr", "getattr", "len"))
    return owners <= bound and all(first_name(func) in bound for func in others)


def _has_run(source: Source, statement: ast.stmt) -> set[tuple[str, int]]:
    """The lines that tell, when they run, that the statement ran: none where it shares its line with a condition."""
    above = source.parents.get(statement)
    shared = isinstance(above, ast.stmt) and above.lineno == statement.lineno
    conditional = any(isinstance(n, ast.IfExp | ast.BoolOp | ast.Lambda) for n in ast.walk(statement))
    return set() if shared or conditional else {(source.filename, statement.lineno)}


def _empties_or_begins(source: Source, statement: ast.stmt, name: str) -> bool:
    if _empties(source, statement, name):
        return True
    return stores(statement, name) and only_begins(statement) and not _begins_what_is_missing(source, statement, name)


def _begins_what_is_missing(source: Source, statement: ast.stmt, name: str) -> bool:
    """Whether there is nothing yet where a statement begins it: ``if key not in self.seen: self.seen[key] = []``."""
    inside: ast.AST = statement
    for around in source.around(statement):
        if isinstance(around, FunctionNode | LoopNode):
            return False
        if isinstance(around, ast.If) and _is_missing(around.test, name, holds=inside in around.body):
            return True
        inside = around
    return False


def _is_missing(test: ast.expr, name: str, holds: bool) -> bool:
    """Whether a condition, which holds or does not, says that ``name``, or an entry of it, is not there or empty."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_missing(test.operand, name, not holds)
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) is holds and any(_is_missing(each, name, holds) for each in test.values)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        operator, left, right = test.ops[0], test.left, test.comparators[0]
        if isinstance(operator, ast.In | ast.NotIn):
            asked = right.func.value if isinstance(right, ast.Call) and isinstance(right.func, ast.Attribute) else right
            about = names(asked, name) or (isinstance(left, ast.Constant) and left.value == name)
            return about and isinstance(operator, ast.NotIn) is holds
        is_none = isinstance(right, ast.Constant) and right.value is None and _is_about(left, name)
        return is_none and isinstance(operator, ast.Is | ast.Eq) is holds
    return not holds and _is_about(test, name)


def _is_about(asked: ast.expr, name: str) -> bool:
    """``self.rows``, ``getattr(self, "rows", None)``, ``hasattr(self, "rows")``, ``self.rows.get(key)``."""
    if not isinstance(asked, ast.Call):
        return names(asked, name)
    if called_name(asked) in ("getattr", "hasattr"):
        return any(isinstance(each, ast.Constant) and each.value == name for each in asked.args[1:2])
    return called_name(asked) == "get" and isinstance(asked.func, ast.Attribute) and names(asked.func.value, name)


def _empties(source: Source, statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.Delete):
        return any(
            names(target, name) and (not _is_one_key(target) or _makes_room(source, statement, name))
            for target in statement.targets
        )
    if isinstance(statement, ast.For):
        return _empties_each(source, statement, name)
    calls = ast.walk(statement) if isinstance(statement, ast.Expr | ast.Assign) else ()
    return any(isinstance(call, ast.Call) and _is_emptying(source, statement, call, name) for call in calls)


def _empties_each(source: Source, loop: ast.For, name: str) -> bool:
    """Whether a loop empties one collection after the other: ``for rows in (self.losses, self.lags): rows.clear()``."""
    if not isinstance(loop.target, ast.Name) or not any(names(each, name) for each in _among(loop.iter)):
        return False
    inside = (node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.stmt))
    each = loop.target.id
    return any(_empties(source, statement, each) for statement in inside)


def _among(iterable: ast.expr) -> list[ast.expr]:
    """The collections that a loop goes over, as far as they are written there; of ``self.seen.values()`` that dict."""
    if isinstance(iterable, ast.Tuple | ast.List):
        return iterable.elts
    is_view = isinstance(iterable, ast.Call) and called_name(iterable) == "values"
    func = iterable.func if isinstance(iterable, ast.Call) and is_view else None
    return [func.value] if isinstance(func, ast.Attribute) else []


def _is_emptying(source: Source, statement: ast.stmt, call: ast.Call, name: str) -> bool:
    called = call.func
    if not (isinstance(called, ast.Attribute) and called.attr in EMPTYING and names(called.value, name)):
        return False
    keyed = called.attr == "pop" and any(not _is_index(each) for each in call.args[:1])
    return not keyed or _makes_room(source, statement, name)


def _is_one_key(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice) and not _is_index(target.slice)


def _is_index(key: ast.expr) -> bool:
    """Whether it is an end of a list (``0``, ``-1``), not one key of many."""
    value = key.operand if isinstance(key, ast.UnaryOp) else key
    return isinstance(value, ast.Constant) and isinstance(value.value, int)


def _makes_room(source: Source, statement: ast.stmt, name: str) -> bool:
    """Whether one key is removed after the other, or when there are too many."""
    for around in source.around(statement):
        if isinstance(around, FunctionNode):
            return False
        if isinstance(around, ast.For) and reads(around.iter, name):
            return True
        if isinstance(around, ast.While | ast.If) and (
            any(isinstance(n, ast.Call) and called_name(n) == "len" for n in ast.walk(around.test))
            or (isinstance(around, ast.While) and reads(around.test, name))
        ):
            return True
    return False


def _called_in_a_loop(sources: Sources, home: Source, function: ast.AST, seen: set[ast.AST], is_off: IsOff) -> bool:
    """Whether a loop calls ``function``, or another function that does.

    Args:
        sources: the user's files.
        home: the one that has the function.
        function: which.
        seen: functions that were asked for before.
        is_off: tells what is never run.
    """
    if not isinstance(function, FunctionNode) or function in seen or len(seen) > 4:
        return False
    seen.add(function)
    for source in sources.all():
        for call in ast.walk(source.tree):
            if not isinstance(call, ast.Call) or not _calls(source, call, home, function) or is_off(source, call):
                continue
            caller = source.function_of(call)
            # One of the same name hands the call on: its loop is over the parts of a whole.
            hands_on = isinstance(caller, FunctionNode) and caller.name == function.name
            if source.loop_of(call) is not None and not hands_on:
                return True
            if _called_in_a_loop(sources, source, caller, seen, is_off):
                return True
    return False


def _calls(source: Source, call: ast.Call, home: Source, function: FunctionNode) -> bool:
    """Whether a call may be one of ``function``, which is in the file ``home``: as far as names can tell."""
    if called_name(call) != function.name:
        return False
    owner = home.parents.get(function)
    if isinstance(owner, ast.ClassDef):
        return isinstance(call.func, ast.Attribute) and _may_be_a(source, call, owner)
    if isinstance(call.func, ast.Name) and source.filename == home.filename:
        return True
    name = call.func.id if isinstance(call.func, ast.Name) else first_name(call.func)
    return _imports(source, name, home.filename)


def _may_be_a(source: Source, call: ast.Call, owner: ast.ClassDef) -> bool:
    """Whether what a method is called on may be of class ``owner``: only of ``self`` the class is known."""
    if first_name(call.func) != "self" or not _is_own_attribute(call.func):
        return True
    cls = next((n for n in source.around(call) if isinstance(n, ast.ClassDef)), None)
    return cls is None or are_related(cls, owner)


def _is_own_attribute(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name)


def _imports(source: Source, name: str, filename: str) -> bool:
    """Whether ``name`` is imported from the module in ``filename`` or a package around it, or is that module."""
    around = set(os.path.splitext(filename)[0].split(os.sep))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            given = {(node.module or "").rpartition(".")[2], *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Import):
            given = {alias.name.rpartition(".")[2] for alias in node.names}
        else:
            continue
        bound = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if name in bound and (given & around or (isinstance(node, ast.ImportFrom) and node.level)):
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


def is_joined_to_itself(sources: Sources, filename: str, stored: ast.stmt, name: str) -> bool:
    """Whether what is assigned was put together from ``name``: ``both = cat([self.bank, x]); self.bank = both[1:]``.

    Also by another name of it: ``past = self.bank; self.bank = cat([past, x])``.
    """
    source = sources.get(filename)
    if source is None or not isinstance(stored, ast.Assign):
        return False
    same, joined = {name}, set[str]()
    nodes = (n for n in own_nodes(source.function_of(stored)) if isinstance(n, ast.Assign) and n.lineno < stored.lineno)
    for node in sorted(nodes, key=lambda node: node.lineno):
        joins = any(isinstance(n, ast.Call) and called_name(n) in JOINING for n in ast.walk(node.value))
        if (joins and reads(node.value, name)) or any(reads(node.value, known) for known in joined):
            joined |= bound_names(node)
        elif any(_is_whole(node.value, known) for known in same):
            same |= bound_names(node)
    return any(reads(stored.value, known) for known in joined) or any(_joins(stored.value, known) for known in same)


def _is_whole(value: ast.expr, name: str) -> bool:
    """Whether an expression may be what a name stands for: ``x[:0] if self.bank is None else self.bank``."""
    if isinstance(value, ast.IfExp):
        return _is_whole(value.body, name) or _is_whole(value.orelse, name)
    if isinstance(value, ast.BoolOp):
        return any(_is_whole(each, name) for each in value.values)
    return isinstance(value, ast.Name | ast.Attribute) and names(value, name)


def _joins(value: ast.expr, name: str) -> bool:
    """Whether all of it is put together with something else."""
    calls = (n for n in ast.walk(value) if isinstance(n, ast.Call) and called_name(n) in JOINING)
    rows = (arg for call in calls for arg in call.args if isinstance(arg, ast.List | ast.Tuple))
    return any(_is_whole(each, name) for row in rows for each in row.elts)


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

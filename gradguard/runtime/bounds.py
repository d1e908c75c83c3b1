"""Up to which length a collection grows, by reading the statement that lengthens it and what it stands under."""

from __future__ import annotations

import ast

from gradguard.runtime.source import FunctionNode, IsOff, Source, may_run, own_nodes
from gradguard.runtime.stores import called_name, is_of_another_key, names

LEAVING = ast.Return | ast.Continue | ast.Break | ast.Raise
_REMOVING = frozenset({"pop", "popleft", "popitem", "remove", "discard"})
_ADDING_ONE = frozenset({"append", "appendleft", "add", "insert"})
_LENGTHS = frozenset({"len", "size", "qsize", "__len__"})


def bound_of(source: Source, statement: ast.stmt, name: str, is_off: IsOff = may_run) -> ast.expr | None:
    """What ``name`` is kept shorter than, or the index that is overwritten instead; None where nothing says so.

    ``if len(self.items) < self.capacity: self.items.append(x)``, the other branch of the opposite, a return before
    it, and the ring that is written by index once it is long enough.

    Args:
        source: the file of the statement.
        statement: lengthens the collection.
        name: the collection's last name.
        is_off: tells what is never run.
    """
    inside: ast.AST = statement
    for around in source.around(statement):
        found = _bound_before(around, inside, name)
        if found is None and isinstance(around, ast.If):
            found = _is_shorter_than(around.test, name, holds=inside in around.body)
            other = around.orelse if inside in around.body else around.body
            written = (_overwritten(each, name) for each in other if not is_off(source, each))
            found = found or next(filter(None, written), None)
        if found is None and inside is statement:
            found = _bound_of_beside(source, around, statement, name)
        if found is not None:
            return found if _stays(source, found) else None
        if isinstance(around, FunctionNode):
            return None
        inside = around
    return None


def _bound_of_beside(source: Source, block: ast.AST, statement: ast.stmt, name: str) -> ast.expr | None:
    """The bound of a collection that gets one item wherever ``name`` does: one guard for inputs, labels and outputs.

    Args:
        source: the file of the statement.
        block: what the statement stands in.
        statement: lengthens the collection.
        name: the collection's last name.
    """
    for beside in _lengthened_beside(block, statement) - {name}:
        if len(_shortened(source, beside)) > len(_shortened(source, name)):
            continue  # it makes room for itself alone
        found = _bound_before(block, statement, beside)
        if found is None and isinstance(block, ast.If):
            found = _is_shorter_than(block.test, beside, holds=statement in block.body)
        if found is not None:
            return found
    return None


def _lengthened_beside(block: ast.AST, statement: ast.stmt) -> set[str]:
    """The last names of what gets one item in the same statements as ``statement``, one after the other."""
    branches: list[list[ast.stmt]] = [getattr(block, part, None) or [] for part in ("body", "orelse")]
    branch = next((each for each in branches if isinstance(each, list) and statement in each), [])
    calls = [each.value for each in branch if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)]
    lists = [
        call.func.value for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in _ADDING_ONE
    ]
    return {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in lists} - {""}


def _shortened(source: Source, name: str) -> list[ast.stmt]:
    """The statements that make ``name`` shorter, or bind it anew, without those of a constructor."""
    found = (n for n in ast.walk(source.tree) if isinstance(n, ast.stmt) and (_removes(n, name) or _binds(n, name)))
    return [each for each in found if getattr(source.function_of(each), "name", "") != "__init__"]


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether it empties a collection, or puts another one in its place."""
    if isinstance(statement, ast.Assign):
        parts = [p for t in statement.targets for p in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])]
        return any(not isinstance(part, ast.Subscript) and names(part, name) for part in parts)
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "clear" and names(func.value, name)


def trimmed_at(
    source: Source, statement: ast.stmt, name: str, key: str | None = None, is_off: IsOff = may_run
) -> tuple[ast.stmt, ast.expr] | None:
    """The statement that keeps ``name`` short wherever it was lengthened, with the length; None where there is none.

    ``if len(rows) > most: rows.pop(0)``, ``rows = rows[-most:]``, ``del rows[most:]``, ``rows = sorted(rows)[:most]``.

    Args:
        source: the file of the statement.
        statement: lengthens the collection.
        name: the collection's last name.
        key: under which the collection is in a dict of that name, where it is.
        is_off: tells what is never run.
    """
    loop = source.loop_of(statement)
    for node in own_nodes(source.function_of(statement)):
        if isinstance(node, ast.stmt) and source.loop_of(node) is loop:
            length = _length_after(node, name)
            if length is None or not _stays(source, length) or is_of_another_key(node, name, key):
                continue
            if not all(is_off(source, each) for each in _shortening(node, name)):
                return node, length
    return None


def _shortening(statement: ast.stmt, name: str) -> list[ast.stmt]:
    """The simple statements that make a collection shorter: of a condition those under it, else the one itself."""
    if not isinstance(statement, ast.If | ast.While):
        return [statement]
    inside = [n for n in ast.walk(statement) if isinstance(n, ast.stmt) and not hasattr(n, "body")]
    return [each for each in inside if _removes(each, name)] or [statement]


def _length_after(statement: ast.stmt, name: str) -> ast.expr | None:
    """How long a collection may be once a statement has run, where that makes it as short as that."""
    if isinstance(statement, ast.If | ast.While):
        bound = _is_shorter_than(statement.test, name, holds=False)
        return bound if any(_removes(each, name) for each in statement.body) else None
    if isinstance(statement, ast.Delete):
        slices = (t.slice for t in statement.targets if isinstance(t, ast.Subscript) and names(t.value, name))
        return next(filter(None, (_length_without(each) for each in slices)), None)
    if not isinstance(statement, ast.Assign):
        return None
    targets = (t.value if isinstance(t, ast.Subscript) and _is_all(t.slice) else t for t in statement.targets)
    return _length_of(statement.value, name) if any(names(each, name) for each in targets) else None


def _removes(statement: ast.stmt, name: str) -> bool:
    """Whether a statement takes something out of a collection."""
    if isinstance(statement, ast.Delete):
        return any(isinstance(t, ast.Subscript) and names(t.value, name) for t in statement.targets)
    if isinstance(statement, ast.Assign) and any(names(t, name) for t in statement.targets):
        value = statement.value
        return isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) and names(value.value, name)
    calls = (n for n in ast.walk(statement) if isinstance(n, ast.Call))
    return any(
        (isinstance(c.func, ast.Attribute) and c.func.attr in _REMOVING and names(c.func.value, name))
        or (called_name(c) == "heappop" and any(names(each, name) for each in c.args))
        for c in calls
    )


def _length_of(value: ast.expr, name: str) -> ast.expr | None:
    """The length of what is made of a collection by a slice, or by taking the largest of it."""
    if isinstance(value, ast.Call) and called_name(value) in ("nlargest", "nsmallest"):
        return value.args[0] if value.args and any(names(each, name) for each in value.args[1:]) else None
    if not isinstance(value, ast.Subscript) or not isinstance(value.slice, ast.Slice) or value.slice.step is not None:
        return None
    if not any(names(n, name) for n in ast.walk(value.value) if isinstance(n, ast.expr)):
        return None
    low, high = value.slice.lower, value.slice.upper
    if low is None or high is None:
        return _negated(low) if high is None else high if _negated(high) is None else None
    return None


def _length_without(key: ast.expr) -> ast.expr | None:
    """The length that is left where a slice is deleted: ``del rows[most:]``, ``del rows[:-most]``."""
    if not isinstance(key, ast.Slice) or key.step is not None:
        return None
    if key.upper is None:
        return key.lower if key.lower is not None and _negated(key.lower) is None else None
    return _negated(key.upper) if key.lower is None else None


def _negated(bound: ast.expr | None) -> ast.expr | None:
    is_negative = isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub)
    return bound.operand if isinstance(bound, ast.UnaryOp) and is_negative else None


def _is_all(key: ast.expr) -> bool:
    return isinstance(key, ast.Slice) and key.lower is None and key.upper is None


def index_of_ring(statement: ast.stmt, name: str) -> ast.expr | None:
    """How many places a ring has: ``ring[step % 100] = x``."""
    key = _overwritten(statement, name)
    return key.right if isinstance(key, ast.BinOp) and isinstance(key.op, ast.Mod) else None


def keeps_the_last(statement: ast.stmt) -> bool:
    """Whether a list with its last few is stored: ``rows = [*rows[-3:], row]``; a slice of a tensor may be any."""
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if isinstance(value, ast.List | ast.Tuple):
        return any(isinstance(each, ast.Starred) and _is_last_few(each.value) for each in value.elts)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _is_last_few(value.left) and isinstance(value.right, ast.List | ast.Tuple)
    is_of_list = isinstance(value, ast.Subscript) and isinstance(value.value, ast.List | ast.Tuple)
    return is_of_list and value is not None and _is_last_few(value)


def _is_last_few(expression: ast.expr) -> bool:
    key = expression.slice if isinstance(expression, ast.Subscript) else None
    low = key.lower if isinstance(key, ast.Slice) else None
    return isinstance(low, ast.UnaryOp) and isinstance(low.op, ast.USub)


def _bound_before(block: ast.AST, statement: ast.AST, name: str) -> ast.expr | None:
    """The bound behind which a statement before this one leaves: ``if len(rows) >= self.most: return``."""
    body = getattr(block, "body", None)
    for each in body[: body.index(statement)] if isinstance(body, list) and statement in body else ():
        if isinstance(each, ast.If) and isinstance(each.body[-1], LEAVING):
            found = _is_shorter_than(each.test, name, holds=False)
            if found is not None:
                return found
    return None


def _overwritten(statement: ast.stmt, name: str) -> ast.expr | None:
    """The index under which a statement stores into ``name``."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    items = (each for each in targets if isinstance(each, ast.Subscript) and names(each.value, name))
    return next((item.slice for item in items), None)


def _is_shorter_than(test: ast.expr, name: str, *, holds: bool) -> ast.expr | None:
    """What a collection is shorter than when ``test`` holds, or does not; a first item is no bound."""
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is not holds:
            return None
        return next(filter(None, (_is_shorter_than(each, name, holds=holds) for each in test.values)), None)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_shorter_than(test.operand, name, holds=not holds)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    (op,), left, (right,) = test.ops, test.left, test.comparators
    if _is_length(left, name):
        bound, less = right, isinstance(op, ast.Lt | ast.LtE | ast.NotEq)
    elif _is_length(right, name):
        bound, less = left, isinstance(op, ast.Gt | ast.GtE | ast.NotEq)
    else:
        return None
    if less is not holds or (isinstance(bound, ast.Constant) and bound.value in (0, 1)):
        return None
    return bound


def is_by_key(statement: ast.stmt, name: str) -> bool:
    """Whether a statement is about an entry of a collection under a key that it computes: ``seen[word].pop()``."""
    written = (n.slice for n in ast.walk(statement) if isinstance(n, ast.Subscript) and names(n.value, name))
    return any(not isinstance(each, ast.Constant | ast.UnaryOp | ast.Slice) for each in written)


def _is_length(expression: ast.expr, name: str) -> bool:
    is_len = isinstance(expression, ast.Call) and called_name(expression) in _LENGTHS
    return is_len and any(names(n, name) for n in ast.walk(expression) if isinstance(n, ast.expr))


def _stays(source: Source, bound: ast.expr) -> bool:
    """Whether a bound is none that goes up itself: a step that is counted; an index modulo something does not."""
    if isinstance(bound, ast.Constant) or any(isinstance(n, ast.Mod | ast.Call) for n in ast.walk(bound)):
        return True
    last = bound.attr if isinstance(bound, ast.Attribute) else getattr(bound, "id", None)
    if last is None:
        return False
    changes = [n for n in ast.walk(source.tree) if isinstance(n, ast.AugAssign | ast.For) and names(n.target, last)]
    wraps = any(
        isinstance(n, ast.Assign | ast.AugAssign)
        and any(names(each, last) for each in (n.targets if isinstance(n, ast.Assign) else [n.target]))
        and any(isinstance(part, ast.Mod) for part in ast.walk(n))
        for n in ast.walk(source.tree)
    )
    return wraps or not changes

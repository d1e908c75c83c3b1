"""How a statement stores into a name: which statements do, in which form, what they store."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

STORING = frozenset({"append", "extend", "add", "insert", "appendleft", "update", "setdefault", "push", "put"})


def stores(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.Assign):
        return any(names(target, name) for target in statement.targets)
    if isinstance(statement, ast.AugAssign | ast.AnnAssign):
        return names(statement.target, name)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _is_storing_call(statement.value, name)
    return False


def _is_storing_call(node: ast.AST, name: str) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    is_added = isinstance(called, ast.Attribute) and called.attr in STORING and names(called.value, name)
    return is_added or sets_by_word(node, name)


def sets_by_word(node: ast.AST, name: str) -> bool:
    """Whether it is ``setattr(owner, "name", value)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "setattr":
        return False
    return len(node.args) == 3 and isinstance(node.args[1], ast.Constant) and node.args[1].value == name


def names(target: ast.expr, name: str) -> bool:
    """Whether a target is ``name``, an attribute of that name, an item of it, or a tuple with it."""
    if isinstance(target, ast.Tuple | ast.List):
        return any(names(item, name) for item in target.elts)
    if isinstance(target, ast.Subscript | ast.Starred):
        return names(target.value, name)
    return (isinstance(target, ast.Name) and target.id == name) or (
        isinstance(target, ast.Attribute) and target.attr == name
    )


def is_of_another_key(statement: ast.stmt, name: str, key: str | None) -> bool:
    """Whether a statement is about ``seen["dev"]``, where ``seen["train"]`` is meant.

    Args:
        statement: any.
        name: of the dict.
        key: the one that is meant; None where the collection is not in a dict.
    """
    written = [n.slice for n in ast.walk(statement) if isinstance(n, ast.Subscript) and names(n.value, name)]
    keys = [each.value for each in written if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    is_open = any(not isinstance(each, ast.Constant | ast.UnaryOp | ast.Slice) for each in written)  # `seen[part]`
    return key is not None and bool(keys) and not is_open and key not in keys


def only_begins(statement: ast.stmt) -> bool:
    """Whether what is assigned is empty or a constant; where several are, ``count, mean = 0, torch.zeros(8)``, each."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    value = statement.value
    if isinstance(value, ast.Tuple) and all(isinstance(target, ast.Tuple | ast.List) for target in targets):
        return all(map(_is_empty, value.elts))
    return _is_empty(value)


def only_names(statement: ast.stmt, name: str) -> bool:
    """Whether a variable only gets what an attribute of its name has, or a part: ``state = self.state[p]``."""
    if not isinstance(statement, ast.Assign) or not all(isinstance(each, ast.Name) for each in statement.targets):
        return False
    value: ast.expr | None = statement.value
    while (inner := taken_from(value)) is not None:
        value = inner
    return isinstance(value, ast.Attribute) and value.attr == name


def taken_from(value: ast.expr | None) -> ast.expr | None:
    """The collection of which an expression is an item: of ``rows[0]``, ``rows.get(key)``; None where it is none."""
    if isinstance(value, ast.Subscript):
        return value.value
    func = value.func if isinstance(value, ast.Call) else None
    return func.value if isinstance(func, ast.Attribute) and func.attr in ("get", "setdefault") else None


def changed_in_place(statement: ast.stmt) -> ast.expr | None:
    """The tensor that a statement changes: ``mean`` of ``mean.mul_(0.9).add_(x)``."""
    value: ast.expr | None = statement.value if isinstance(statement, ast.Expr) else None
    changes = False
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        changes |= value.func.attr.endswith("_") and not value.func.attr.startswith(("_", "zero_", "requires_grad"))
        value = value.func.value
    return value if changes else None


def makes_a_place(statement: ast.stmt) -> bool:
    """Whether a constant is added, for what comes to be put in its place: ``rows.append(None)``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in STORING:
        return False
    return bool(call.args) and all(isinstance(arg, ast.Constant) for arg in call.args)


def only_binds_others(statement: ast.stmt, name: str) -> bool:
    """Whether it only gives variables a value, or the caller, and neither mentions ``name`` nor puts anything anywhere.

    What such a line was seen to store was stored while it ran: by another thread.
    """
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    binds = bool(parts) and all(isinstance(part, ast.Name) for part in parts)
    if not binds and not isinstance(statement, ast.Return):
        return False
    nodes = list(ast.walk(statement))
    mentioned = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return name not in mentioned | attributes and attributes.isdisjoint(STORING)


def keeps_no_graph(statement: ast.stmt, name: str) -> bool:
    """Whether what is stored is a number, or cut from its graph: ``losses.append(loss.item())``."""
    value = stored_value(statement, name)
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.Constant)
    if isinstance(value.func, ast.Name):
        return value.func.id in ("float", "int", "bool", "str", "len")
    return isinstance(value.func, ast.Attribute) and value.func.attr in ("item", "tolist", "detach", "numpy")


def _is_empty(value: ast.expr | None) -> bool:
    if value is None or isinstance(value, ast.Constant):
        return True
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return not value.elts
    if isinstance(value, ast.Dict):
        return not value.keys
    if not isinstance(value, ast.Call):
        return False
    called = ast.unparse(value.func)
    if re.fullmatch(r"(torch\.)?(zeros|ones|zeros_like|empty)|(collections\.)?defaultdict", called):
        return True
    if not re.fullmatch(r"list|dict|set|deque|collections\.\w+", called):
        return False
    given = [*value.args[:1], *(k.value for k in value.keywords if k.arg != "maxlen")]
    return all(map(_is_empty, given))


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
        return form_of_carried(statement, name)
    return None


def form_of_carried(statement: ast.stmt, name: str) -> str:
    """How ``statement`` makes a value from that which was there: sum, average or carried."""
    if isinstance(statement, ast.AugAssign):
        return "sum" if isinstance(statement.op, ast.Add | ast.Sub) else "carried"
    value = stored_value(statement, name)
    if isinstance(value, ast.BinOp) and reads(value, _as_written(statement, name)):
        return "average" if any(isinstance(n, ast.Mult) for n in ast.walk(value)) else "sum"
    return "carried"


def adds_to_itself(statement: ast.stmt, name: str) -> bool:
    """Whether what is stored is what was there and something else: ``sums[key] = sums[key] + loss``."""
    if isinstance(statement, ast.AugAssign):
        return True
    value = stored_value(statement, name)
    return isinstance(value, ast.BinOp) and reads(value, _as_written(statement, name))


def _as_written(statement: ast.stmt, name: str) -> str:
    """The name by which a statement means the holder: ``row`` of ``row["sum"] = row["sum"] + loss``."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    inner = targets[0]
    if not isinstance(inner, ast.Subscript | ast.Attribute) or reads(inner, name):
        return name
    while isinstance(inner, ast.Subscript | ast.Attribute):
        inner = inner.value
    return inner.id if isinstance(inner, ast.Name) and inner.id not in ("self", "cls") else name


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


def stored_value(statement: ast.stmt, name: str) -> ast.expr | None:
    """The expression whose value is stored."""
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return statement.value
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
        return statement.value.args[-1]
    return None


def value_name(statement: ast.stmt, name: str) -> str | None:
    """The variable that is stored, when it is one: the ``loss`` of ``total += loss``, not the ``x`` of ``model(x)``."""
    names = value_names(statement, name)
    return names[0] if len(names) == 1 else None  # which of several carries a graph is not written there


def value_names(statement: ast.stmt, name: str) -> list[str]:
    """The variables that may be what is stored: ``step`` and ``loss`` of ``rows.append((step, loss))``."""
    value, name = stored_value(statement, name), _as_written(statement, name)
    added, factors = _added(value, name) if value is not None else (None, [])
    names = _plain_names(added) if added is not None else []
    names = [n for n in dict.fromkeys(names) if n not in (name, "self", "cls", "torch", *factors)]
    return names if isinstance(added, ast.Dict | ast.Tuple | ast.List) else names[:1]


def handed_on(argument: ast.expr | None) -> list[str]:
    """The variables that an argument hands on as they are: ``step`` and ``loss`` of ``{"at": step, "loss": loss}``."""
    if isinstance(argument, ast.Name | ast.Dict | ast.Tuple | ast.List):
        return list(dict.fromkeys(_plain_names(argument)))
    return []


def value_code(statement: ast.stmt, name: str) -> str | None:
    """What is stored as it is written there, where it is a variable or an item of one: ``losses[key]``."""
    variable, value = value_name(statement, name), stored_value(statement, name)
    items = (each for each in _outside_calls(value) if isinstance(each, ast.Subscript)) if value is not None else ()
    item = next((each for each in items if _plain_names(each)[:1] == [variable]), None)
    return ast.unparse(item) if item is not None else variable


def _outside_calls(expression: ast.AST) -> Iterator[ast.AST]:
    """An expression and its parts, without those of calls and of items."""
    yield expression
    if not isinstance(expression, ast.Call | ast.Lambda | ast.Subscript):
        for child in ast.iter_child_nodes(expression):
            yield from _outside_calls(child)


def _added(value: ast.expr, name: str) -> tuple[ast.expr, list[str]]:
    """What is added to what was there, and the variables that this is weighed by: ``d * mean + (1 - d) * x``."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add | ast.Sub):
        return value, []
    before, added = (value.left, value.right) if reads(value.left, name) else (value.right, value.left)
    if not reads(before, name) or reads(added, name):
        return value, []
    return added, _plain_names(before)


def _plain_names(expression: ast.AST) -> list[str]:
    """The variables of an expression, without those that are only arguments of a call, or keys."""
    if isinstance(expression, ast.Call | ast.Lambda):
        return []
    if isinstance(expression, ast.Name):
        return [expression.id]
    if isinstance(expression, ast.Subscript):
        return _plain_names(expression.value)  # its key is no value
    if isinstance(expression, ast.IfExp):  # nor is what decides
        return [*_plain_names(expression.body), *_plain_names(expression.orelse)]
    return [n for child in ast.iter_child_nodes(expression) for n in _plain_names(child)]


def called_name(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)


def bound_names(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
        targets = [node.target]
    else:
        return set()
    return {
        n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def target_code(statement: ast.stmt, name: str) -> str:
    """The variable or attribute that a statement binds to what is kept, as it is written there: ``self.state``."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    parts = (part for target in targets if target is not None for part in ast.walk(target))
    bound = (part for part in parts if isinstance(part, ast.Name | ast.Attribute) and names(part, name))
    return next(map(ast.unparse, bound), name)

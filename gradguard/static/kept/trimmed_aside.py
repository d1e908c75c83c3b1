"""Collections that are trimmed by the name of a loop, or of a variable, and stay as they are: ``kept = kept[-n:]``.

The slice is a list of its own, that nothing reads and nobody puts back; and so is an empty one, ``kept = []``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.kept import TrimmedAside
from gradguard.static.program.classes import Class
from gradguard.static.program.own_methods import methods_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_GROWS = frozenset("append extend insert appendleft add".split())
_SHRINKS = frozenset("pop popleft popitem clear remove".split())
_READS = frozenset("get setdefault".split())
_LOOKS = frozenset("len list tuple enumerate zip reversed sorted sum map min max mean cat stack".split())
_KEEPS_LARGEST = frozenset("nlargest nsmallest".split())


def trimmed_aside(flow: Flow) -> Iterator[TrimmedAside]:
    """Where a method cuts what a collection of its object holds, and leaves that alone (reads other files)."""
    owner, define = flow.ref.owner, flow.ref.define
    for stmt in define.statements if owner is not None and not flow.facts.is_test else ():
        emptied = _begins_anew(stmt)
        name = emptied or _cuts(stmt)
        if owner is None or name is None or name in flow.declared:
            continue
        if emptied is not None and not (_is_taken_before(flow, stmt, name) and _is_only_looked_at(flow, name)):
            continue
        path = _trimmed(flow, stmt, name)
        if (
            path is None
            or (emptied is not None and _is_bound_here(flow, path))
            or not _gets_longer(owner, path)
            or _is_shortened(owner, path)
        ):
            continue
        if not flow.project.survey.empties(path.removeprefix("self."), flow.module, (flow.defined,)):
            yield TrimmedAside(flow.site(stmt), name, path, emptied is not None)


def _begins_anew(stmt: t.Stmt) -> str | None:
    """The variable that a statement binds to an empty list: ``queue = []``."""
    if not isinstance(stmt, t.Assign) or len(stmt.targets) != 1 or not _is_new(stmt.value):
        return None
    return t.path_of(stmt.targets[0]) if isinstance(stmt.targets[0], t.Name) else None


def _is_bound_here(flow: Flow, path: str) -> bool:
    """Whether a function puts another collection in the place of one: ``queue, self.queue = self.queue, []``."""
    targets = [each for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign) for each in stmt.targets]
    attributes = (node for each in targets for node in t.walk(each) if isinstance(node, t.Attribute))
    return any(t.path_of(node) == path for node in attributes)


def _is_taken_before(flow: Flow, stmt: t.Stmt, name: str) -> bool:
    """Whether a variable has its list wherever a statement is reached, and no other branch gave it that."""
    block = flow.ref.define.body
    while True:
        inner = next((each for each in block if each is stmt or t.is_in(stmt, [each])), None)
        if inner is None:
            return False
        before = block[: block.index(inner)]
        if any(isinstance(each, t.Assign) and _binds(each, name) for each in before):
            return True
        if isinstance(inner, t.Repeat) and inner.target is not None and _is_named(inner.target, name):
            return True
        if inner is stmt:
            return False
        block = next((part for part in _blocks(inner) if any(t.is_in(stmt, [each]) for each in part)), [])


def _blocks(stmt: t.Stmt) -> list[list[t.Stmt]]:
    if isinstance(stmt, t.If):
        return [stmt.body, stmt.orelse]
    return [stmt.body] if isinstance(stmt, t.Repeat | t.With) else []


def _binds(stmt: t.Assign, name: str) -> bool:
    return len(stmt.targets) == 1 and t.path_of(stmt.targets[0]) == name and not _is_new(stmt.value)


def _is_named(target: t.Expr, name: str) -> bool:
    return any(isinstance(node, t.Name) and node.id == name for node in t.walk(target))


def _is_only_looked_at(flow: Flow, name: str) -> bool:
    """Whether a function does nothing with a list but go over it: what it hands on may be emptied, or kept, there."""
    nodes = flow.ref.define.nodes
    changes = (each for node in nodes if isinstance(node, t.Assign | t.Delete) for each in node.targets)
    if any(t.path_of(each) != name and _is_named(each, name) for each in changes):
        return False
    looked_at = {id(part) for node in nodes for each in _looked_at(node) for part in _names_of(each)}
    return all(id(node) in looked_at for node in nodes if isinstance(node, t.Name) and node.id == name)


def _looked_at(node: t.Node) -> list[t.Expr]:
    if isinstance(node, t.Repeat):
        return [each for each in (node.iterable, node.target) if each is not None]
    if isinstance(node, t.Comprehension):
        return [clause.iterable for clause in node.clauses]
    if isinstance(node, t.Call):
        return [arg.value for arg in node.args] if node.name in _LOOKS else []
    if isinstance(node, t.If):
        return node.test.operands if isinstance(node.test, t.Operation) else [node.test]
    if isinstance(node, t.Assign):
        return node.targets
    return [node.value] if isinstance(node, t.Subscript) else []


def _names_of(value: t.Expr) -> list[t.Expr]:
    """The names of ``a``, and of ``a, b``."""
    return list(value.items) if isinstance(value, t.Display) else [value]


def trims_variable(define: t.Define) -> bool:
    """Whether a function binds a variable to a part of itself, or to an empty list in place of what it was."""
    return any(_cuts(stmt) is not None or _is_emptied_aside(define, stmt) for stmt in define.statements)


def _is_emptied_aside(define: t.Define, stmt: t.Stmt) -> bool:
    """Whether a statement binds a variable to an empty list that is taken from an object elsewhere."""
    name = _begins_anew(stmt)
    return name is not None and (
        any(_entry_of(each.value) is not None for each in define.all(t.Assign) if name in map(t.path_of, each.targets))
        or any(_gone_over(loop, name) is not None for loop in define.all(t.Repeat))
    )


def _cuts(stmt: t.Stmt) -> str | None:
    """The variable that a statement binds to a part of itself: ``kept = kept[:n]``, ``[x for x in kept if x.new]``."""
    target = stmt.targets[0] if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
    if not isinstance(stmt, t.Assign) or not isinstance(target, t.Name):
        return None
    value = stmt.value
    if isinstance(value, t.Call) and value.name in _KEEPS_LARGEST and len(value.args) > 1:
        return target.id if t.path_of(value.args[1].value) == target.id else None
    if isinstance(value, t.Comprehension) and len(value.clauses) == 1:
        is_filter = value.kind == "list" and t.path_of(value.clauses[0].iterable) == target.id
        return target.id if is_filter and value.clauses[0].conditions else None
    if not isinstance(value, t.Subscript) or not isinstance(value.index, t.Slice):
        return None
    whole = value.value
    if isinstance(whole, t.Call) and whole.name in ("list", "sorted") and whole.args:
        whole = whole.args[0].value
    return target.id if t.path_of(whole) == target.id else None


def _trimmed(flow: Flow, stmt: t.Stmt, name: str) -> str | None:
    """The collection of the object that a variable is taken from, if nothing reads that after a statement."""
    body, given = flow.ref.define.body, stmt.value if isinstance(stmt, t.Assign) else None
    loops = [each for each in t.walk_statements(body) if isinstance(each, t.Repeat) and t.is_in(stmt, each.body)]
    binding = [loop for loop in loops if loop.target is not None and name in map(t.path_of, t.names_in(loop.target))]
    if _is_read_after(flow, stmt, name):
        return None
    if not binding:
        values = [
            value for value in flow.ref.assigned.get(name, []) if value is not given and not _is_named(value, name)
        ]
        return _entry_of(values[0]) if len(values) == 1 and not loops and name not in flow.params else None
    loop = binding[0]
    is_innermost = loops[-1] is loop
    others = [value for value in flow.ref.assigned.get(name, []) if value is not given and not _is_named(value, name)]
    return _gone_over(loop, name) if is_innermost and not others and loop.iterable is not None else None


def _is_read_after(flow: Flow, stmt: t.Stmt, name: str) -> bool:
    """Whether a variable is named in the text behind a statement: nodes are numbered in its order."""
    last = max(node.origin for node in t.walk(stmt) if isinstance(node.origin, int))
    named = (node.origin for node in flow.ref.define.all(t.Name) if node.id == name)
    return any(not isinstance(number, int) or number > last for number in named)


def _gone_over(loop: t.Repeat, name: str) -> str | None:
    """``self.kept`` of ``for key, rows in self.kept.items()``, and of ``for rows in self.kept.values()``."""
    iterable, target = loop.iterable, loop.target
    if isinstance(iterable, t.Call) and t.path_of(iterable.func) == "list" and len(iterable.args) == 1:
        iterable = iterable.args[0].value
    func = iterable.func if isinstance(iterable, t.Call) else None
    if isinstance(func, t.Attribute) and func.name == "items":
        is_value = isinstance(target, t.Display) and len(target.items) == 2 and t.path_of(target.items[1]) == name
        return _own(func.value) if is_value else None
    is_name = t.path_of(target) == name if target is not None else False
    if isinstance(func, t.Attribute) and func.name == "values":
        return _own(func.value) if is_name else None
    return _own(iterable) if is_name and iterable is not None else None


def _entry_of(value: t.Expr) -> str | None:
    """``self.kept`` of ``self.kept[key]``, ``self.kept.get(key)`` and of itself."""
    if isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.name in _READS:
        return _own(value.func.value)
    if isinstance(value, t.Subscript):
        return None if isinstance(value.index, t.Slice) else _own(value.value)
    return _own(value)


def _own(value: t.Expr) -> str | None:
    path = t.path_of(value) or ""
    return path if path.startswith("self.") and path.removeprefix("self.").isidentifier() else None


def _gets_longer(owner: Class, path: str) -> bool:
    """Whether a method adds to what is in a collection, or to itself: ``self.kept[c] = new + self.kept.get(c, [])``."""
    return any(_adds(stmt, path) for each in methods_of(owner) for stmt in each.define.statements)


def _adds(stmt: t.Stmt, path: str) -> bool:
    if isinstance(stmt, t.Augment):
        return _entry_of(stmt.target) == path
    if isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Operation) and stmt.value.operator == "+":
        is_entry = any(_entry_of(target) == path for target in stmt.targets)
        return is_entry and any(_entry_of(operand) == path for operand in stmt.value.operands)
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) and call.name in _GROWS else None
    return isinstance(func, t.Attribute) and _entry_of(func.value) == path


def _is_shortened(owner: Class, path: str) -> bool:
    """Whether a method takes something out of a collection, or puts another one, or another entry, in its place."""
    return any(
        _takes_out(node, path)
        for each in methods_of(owner)
        if each.define.name != "__init__"
        for node in each.define.nodes
    )


def _takes_out(node: t.Node, path: str) -> bool:
    if isinstance(node, t.Delete):
        return any(_entry_of(_whole(target)) == path for target in node.targets)
    if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.name in _SHRINKS:
        return _entry_of(node.func.value) == path
    if not isinstance(node, t.Assign):
        return False
    puts = any(_entry_of(_whole(target)) == path for target in node.targets)
    return puts and not _adds(node, path) and not _is_new(node.value)


def _whole(target: t.Expr) -> t.Expr:
    """``self.kept[key]`` of ``self.kept[key][:n]``."""
    return target.value if isinstance(target, t.Subscript) and isinstance(target.index, t.Slice) else target


def _is_new(value: t.Expr) -> bool:
    """Whether an entry is begun: an empty list."""
    return isinstance(value, t.Display) and not value.items

"""Dicts of lists of which only the newest are read: ``for name, seen in self.seen.items(): stack(seen[-window:])``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.screen import calling

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Store
    from gradguard.static.program.functions import FunctionRef


def only_last_of_each_is_read(flow: Flow, store: Store) -> bool:
    """Whether all that a file does with the lists of a dict, an attribute, is to add to them and to read their ends.

    Where another file names an attribute of the same name, it is not told.
    """
    name, module = store.holder, flow.module
    keys = store.loop.targets if store.loop is not None else frozenset[str]()
    if store.path != f"self.{name}" or not name.isidentifier() or _key(store.site.node) not in keys:
        return False  # under other keys it may be one more list each time
    named = re.compile(rf"\.\s*{name}\b|[\"']{name}[\"']")
    if flow.project.survey.acts_elsewhere(name, named, module):
        return False
    reads = False
    for ref in module.functions(calling(module.source, name)):
        uses = _Uses(ref, name)
        if not uses.are_known():
            return False
        reads |= uses.reads_end
    return reads


def _key(stored: t.Node) -> str | None:
    """The variable under which a list is added to: ``self.seen[name].append(...)``, or of ``setdefault(name, [])``."""
    for node in t.walk(stored):
        if not isinstance(node, t.Call) or not isinstance(node.func, t.Attribute) or node.func.name != "append":
            continue
        to = node.func.value
        if isinstance(to, t.Call) and to.name == "setdefault" and to.args:
            return t.path_of(to.args[0].value)
        return t.path_of(to.index) if isinstance(to, t.Subscript) else None
    return None


class _Uses:
    """What a function does with a dict of lists.

    Args:
        ref: the function.
        name: the attribute.
    """

    def __init__(self, ref: FunctionRef, name: str) -> None:
        self.nodes = list(t.walk(ref.define))
        self.name = name
        self.known: set[t.Node] = set()
        self.names: set[str] = set()
        self.reads_end = False
        self.is_other = False
        for stmt in ref.define.statements:
            if isinstance(stmt, t.Repeat) and stmt.target is not None and stmt.iterable is not None:
                self._loop(stmt.target, stmt.iterable)
            elif isinstance(stmt, t.Assign):
                self._assign(stmt)
        for node in self.nodes:
            for clause in node.clauses if isinstance(node, t.Comprehension) else ():
                self._loop(clause.target, clause.iterable)
        for node in self.nodes:
            self._use(node)

    def are_known(self) -> bool:
        """Whether each use of it, and of its lists, is one of those that leave all but the ends unread."""
        return not self.is_other and not any(node not in self.known for node in self._mentions())

    def _mentions(self) -> Iterator[t.Node]:
        for node in self.nodes:
            is_named = isinstance(node, t.Constant) and node.value == self.name  # getattr(history, "seen")
            if is_named or self._is_dict(node) or (isinstance(node, t.Name) and node.id in self.names):
                yield node

    def _is_dict(self, node: t.Node) -> bool:
        return isinstance(node, t.Attribute) and node.name == self.name

    def _loop(self, target: t.Expr, iterable: t.Expr) -> None:
        """``for name, seen in self.seen.items()``, ``for seen in self.seen.values()``, ``for name in self.seen``."""
        over = iterable.func if isinstance(iterable, t.Call) and not iterable.args else None
        if self._is_dict(iterable):
            self.known.add(iterable)
        if not isinstance(over, t.Attribute) or not self._is_dict(over.value):
            return
        names = list(t.names_in(target))
        if over.name == "keys":
            self.known.add(over.value)
        elif over.name in ("items", "values") and len(names) == (2 if over.name == "items" else 1):
            self.known.add(over.value)
            self._call_it(names[-1])

    def _assign(self, stmt: t.Assign) -> None:
        """``seen = self.seen[name]``, ``self.seen = defaultdict(list)``."""
        for target, value in t.pairs(stmt.targets, stmt.value):
            if self._is_dict(target):
                self.known.add(target)
                is_made = isinstance(value, t.Call | t.DictDisplay | t.Comprehension) and _has_no_graph(value)
                self.is_other |= not is_made
            elif self._is_list(value):
                self.known.update(self._dicts_in(value))
                self._call_it(target)

    def _call_it(self, target: t.Node) -> None:
        """Take a variable for a list of the dict: all that the function does with one of its name is looked at."""
        if isinstance(target, t.Name):
            self.names.add(target.id)
            self.known.add(target)
        else:
            self.is_other = True

    def _is_list(self, node: t.Node) -> bool:
        """Whether it is one of the lists: by its name, ``self.seen[name]``, ``self.seen.setdefault(name, [])``."""
        if isinstance(node, t.Name):
            return node.id in self.names
        if isinstance(node, t.Call):
            func = node.func
            return isinstance(func, t.Attribute) and func.name in ("setdefault", "get") and self._is_dict(func.value)
        return isinstance(node, t.Subscript) and self._is_dict(node.value) and not isinstance(node.index, t.Slice)

    def _dicts_in(self, node: t.Node) -> list[t.Node]:
        if isinstance(node, t.Call) and isinstance(node.func, t.Attribute):
            return [node.func.value]
        return [node.value] if isinstance(node, t.Subscript) else [node]

    def _use(self, node: t.Node) -> None:
        """Note the list, or the dict, that a node uses in a way that reads no more than the end."""
        if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name == "append":
            self._know(node.func.value)
        elif isinstance(node, t.Call) and t.path_of(node.func) == "len" and len(node.args) == 1:
            self._know(node.args[0].value)
            self.known.update(arg.value for arg in node.args if self._is_dict(arg.value))
        elif isinstance(node, t.Subscript) and self._is_list(node.value) and _is_end(node.index):
            self._know(node.value)
            self.reads_end = True
        elif isinstance(node, t.Operation) and node.operator in ("in", "not in"):
            self.known.update(operand for operand in node.operands[1:] if self._is_dict(operand))
        elif isinstance(node, t.Operation) and node.operator == "not":
            self.known.update(operand for operand in node.operands if self._is_dict(operand))

    def _know(self, node: t.Node) -> None:
        if self._is_list(node):
            self.known.update(self._dicts_in(node))


def _has_no_graph(made: t.Expr) -> bool:
    """Whether a dict is made empty, or of empty lists: ``{}``, ``defaultdict(list)``, ``{name: [] for name in it}``."""
    if isinstance(made, t.DictDisplay):
        return all(_is_empty_list(value) for _, value in made.entries)
    if isinstance(made, t.Comprehension):
        return _is_empty_list(made.element)
    given = [t.path_of(arg.value) for arg in made.args] if isinstance(made, t.Call) else [None]
    name = (t.path_of(made.func) or "").rpartition(".")[2] if isinstance(made, t.Call) else ""
    return (name == "defaultdict" and given == ["list"]) or (name in ("dict", "OrderedDict") and not given)


def _is_empty_list(value: t.Expr) -> bool:
    return isinstance(value, t.Display) and value.kind == "list" and not value.items


def _is_end(index: t.Expr) -> bool:
    """``[-1]``, ``[-window:]``."""
    if isinstance(index, t.Slice):
        bounds = index.bounds[0] if len(index.bounds) == 1 else None
        return isinstance(bounds, tuple) and str(bounds[0]).startswith("-") and bounds[1] == ""
    return isinstance(index, t.Operation) and index.operator == "-" and len(index.operands) == 1

"""Whether a statement can run at all: what the conditions around it come to, with the values that names have now.

No code of the user's is run: values come from the dicts of modules and objects and from frames that are live. What is
no number, no string and no truth value, or may get another value, is not known, and nothing follows from it.
"""

from __future__ import annotations

import ast
import operator
import os
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

from gradguard.runtime.bounds import LEAVING
from gradguard.runtime.roots import is_function_frame, may_read, read_locals
from gradguard.runtime.settled import bindings, is_settled_attribute, is_settled_global, is_settled_local
from gradguard.runtime.source import FunctionNode, Source, Sources
from gradguard.runtime.usercode import is_user_module, user_modules

UNKNOWN = object()
PLAIN = (bool, int, float, str, type(None))
"""Types of values that can be compared, and asked for their truth, without running anybody's code."""

_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Switches:
    """What names stand for where a collection is kept.

    Args:
        sources: the user's files.
        things: what leads to the collection, from the user's variable on: the objects that may be ``self``.
        frames: the user's that are live.
    """

    sources: Sources
    things: Sequence[Any] = ()
    frames: Sequence[FrameType] = ()

    def is_off(self, source: Source, node: ast.AST) -> bool:
        """Whether conditions keep a statement or a call from being run, in its function, for good."""
        inside = node
        for around in source.around(node):
            if self._is_left_before(source, around, inside) or self._is_other_branch(source, around, inside):
                return True
            if isinstance(around, FunctionNode):
                return False
            inside = around
        return False

    def value(self, source: Source, expression: ast.expr) -> Any:
        """What an expression comes to, wherever it is run: ``UNKNOWN`` where that may change, or cannot be told."""
        if isinstance(expression, ast.Constant):
            return expression.value
        if isinstance(expression, ast.Name):
            return self._variable(source, expression)
        return self._attribute(source, expression) if isinstance(expression, ast.Attribute) else UNKNOWN

    def holds(self, source: Source, test: ast.expr) -> bool | None:
        """Whether a condition does, whenever it is asked; None where that is not known."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            holds = self.holds(source, test.operand)
            return None if holds is None else not holds
        if isinstance(test, ast.BoolOp):
            parts = [self.holds(source, each) for each in test.values]
            decides = isinstance(test.op, ast.Or)
            return decides if decides in parts else None if None in parts else not decides
        if isinstance(test, ast.Compare):
            return self._compared(source, test)
        value = self.value(source, test)
        return bool(value) if type(value) in PLAIN else None

    def _compared(self, source: Source, test: ast.Compare) -> bool | None:
        if len(test.ops) != 1:
            return None
        left, right = self.value(source, test.left), self.value(source, test.comparators[0])
        if left is UNKNOWN or right is UNKNOWN:
            return None
        if isinstance(test.ops[0], ast.Is | ast.IsNot) and right is None:
            return (left is None) is isinstance(test.ops[0], ast.Is)
        compare = _COMPARED.get(type(test.ops[0]))
        if compare is None or type(left) not in PLAIN or type(right) not in PLAIN:
            return None
        try:
            return compare(left, right)
        except TypeError:
            return None

    def _is_other_branch(self, source: Source, around: ast.AST, inside: ast.AST) -> bool:
        if not isinstance(around, ast.If | ast.While):
            return False
        if inside in around.body:
            return self.holds(source, around.test) is False
        return isinstance(around, ast.If) and inside in around.orelse and self.holds(source, around.test) is True

    def _is_left_before(self, source: Source, block: ast.AST, inside: ast.AST) -> bool:
        """Whether its block is always left before it: ``if not self.trims: return``."""
        for part in ("body", "orelse", "finalbody"):
            branch = getattr(block, part, None)
            for each in branch[: branch.index(inside)] if isinstance(branch, list) and inside in branch else ():
                leaves = isinstance(each, ast.If) and isinstance(each.body[-1], LEAVING)
                if leaves and self.holds(source, each.test) is True:
                    return True
        return False

    def _variable(self, source: Source, name: ast.Name) -> Any:
        for around in source.around(name):
            if isinstance(around, ast.Lambda):
                return UNKNOWN
            if isinstance(around, FunctionNode) and bindings(around, name.id):
                return self._local(source, around, name.id)
        module = next((m for m in user_modules() if _is_file_of(m, source)), None)
        return self._global(source, module, name.id) if module is not None else UNKNOWN

    def _local(self, source: Source, function: FunctionNode, name: str) -> Any:
        owner = source.parents.get(function)
        first = function.args.args[0].arg if function.args.args else None
        if isinstance(owner, ast.ClassDef) and name == first == "self":
            return self._object_of(owner) if len(bindings(function, name)) == 1 else UNKNOWN
        value = next((v[name] for v in self._locals_of(source, function) if name in v), UNKNOWN)
        if value is UNKNOWN or not is_settled_local(self.sources, source, function, name):
            return UNKNOWN
        return value

    def _object_of(self, cls: ast.ClassDef) -> Any:
        """The object of a class that leads to the collection, if there is one."""
        found = {id(each): each for each in self.things if any(c.__name__ == cls.name for c in type(each).__mro__)}
        return next(iter(found.values())) if len(found) == 1 else UNKNOWN

    def _locals_of(self, source: Source, function: FunctionNode) -> Iterator[dict[str, Any]]:
        first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
        for frame in self.frames:
            code = frame.f_code
            is_its = code.co_filename == source.filename and code.co_name == function.name
            if is_its and code.co_firstlineno == first and is_function_frame(frame) and may_read(frame):
                yield read_locals(frame)

    def _global(self, home: Source, module: ModuleType, name: str) -> Any:
        value = vars(module).get(name, UNKNOWN)
        return value if value is not UNKNOWN and is_settled_global(self.sources, home, name) else UNKNOWN

    def _attribute(self, source: Source, expression: ast.Attribute) -> Any:
        owner = self.value(source, expression.value)
        if isinstance(owner, ModuleType):
            home = self.sources.get(getattr(owner, "__file__", None) or "") if is_user_module(owner) else None
            return self._global(home, owner, expression.attr) if home is not None else UNKNOWN
        value = UNKNOWN if owner is UNKNOWN else attribute_of(owner, expression.attr)
        is_given = type(owner) in (Namespace, SimpleNamespace)
        kinds = frozenset(cls.__name__ for cls in type(owner).__mro__ if cls is not object)
        if value is UNKNOWN or not is_settled_attribute(self.sources, expression.attr, kinds, is_given=is_given):
            return UNKNOWN
        return value


def _is_file_of(module: ModuleType, source: Source) -> bool:
    filename = getattr(module, "__file__", None)
    return isinstance(filename, str) and os.path.realpath(filename) == os.path.realpath(source.filename)


def attribute_of(thing: Any, name: str) -> Any:
    """An attribute as it is written down in the object or in its class; ``UNKNOWN`` for what code would compute."""
    cls = type(thing)
    if isinstance(thing, type) or any("__getattribute__" in vars(each) for each in cls.__mro__[:-1]):
        return UNKNOWN
    shared: Any = next((vars(each)[name] for each in cls.__mro__ if name in vars(each)), UNKNOWN)
    if type(shared).__name__ == "member_descriptor":
        try:
            return shared.__get__(thing)
        except AttributeError:
            return UNKNOWN  # the slot is empty
    if hasattr(type(shared), "__set__"):
        return UNKNOWN
    try:
        own = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        own = {}
    if type(own) is dict and name in own:
        return own[name]
    return shared if type(shared) in PLAIN else UNKNOWN


def is_unconditional(source: Source, statement: ast.stmt, beside: ast.stmt) -> bool:
    """Whether a statement runs whenever another one of its function has: in the block of that, or around it."""
    block = source.parents[statement]
    while isinstance(block, ast.With | ast.AsyncWith):
        statement, block = block, source.parents[block]
    within = {beside, *source.around(beside)}
    branches = (getattr(block, part, None) or [] for part in ("body", "orelse"))
    is_beside = any(statement in branch and not within.isdisjoint(branch) for branch in branches)
    between = range(beside.lineno + 1, statement.lineno)
    leaving = (n for n in ast.walk(source.function_of(beside)) if isinstance(n, LEAVING))
    return is_beside and not any(each.lineno in between for each in leaving)

"""What one statement says of calls: what is called with what, what variables are made with, and what is decorated."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from gradguard.static.files.gate import inner, parsed
from gradguard.static.knowledge import FLUENT_METHODS

Scope = tuple[str, str, list[str]]
"""The function, the class around it, and the function's parameters."""

AT_TOP = ("<module>", "")
ITEMS = "[*]"


class Given(NamedTuple):
    """An argument: by its path, or by that of the function or class that is called to make it.

    Args:
        items: those of a list or tuple that is written out.
        options: the names of what ``partial(function, scale=2)`` gives to the function already; empty by position.
    """

    path: str
    is_made: bool
    items: tuple[Given, ...] = ()
    options: tuple[str, ...] = ()


class Call(NamedTuple):
    """A call, as far as it matters here: a file's trees would be a hundred times as large.

    Args:
        is_own: of a method of ``self``.
    """

    positional: tuple[Given, ...]
    by_keyword: dict[str, Given]
    scope: Scope
    is_own: bool


class Written(NamedTuple):
    """What a part of a file calls, by the name of what is called; what variables are made with; what is decorated.

    Args:
        named: what variables are other names of: ``loss = hinge_loss``.
    """

    calls: dict[str, list[Call]]
    made: dict[str, list[str]]
    decorated: dict[str, list[tuple[str, Scope]]]
    named: dict[str, list[Given]]


# What may stand between two words of an expression; a comment with its end, or a search would try each of its spaces.
_BETWEEN = r"(?:[\s\\]|#[^\n]*(?:\n|\Z))*"


@lru_cache(maxsize=256)
def call_of(name: str) -> re.Pattern[bytes]:
    """What every call of a name has: an opening bracket behind it, or behind those that close around it."""
    return re.compile(rf"{re.escape(name)}(?:[\s\\)]|#[^\n]*(?:\n|\Z))*(?:\(|\Z)".encode())


@lru_cache(maxsize=256)
def mention_of(path: str) -> re.Pattern[bytes]:
    """What every mention of a path has: its names one after another, and nothing that they are of before them."""
    dotted = rf"{_BETWEEN}\.{_BETWEEN}".join(map(re.escape, path.split(".")))
    return re.compile((dotted if path.startswith(".") else rf"(?<![\w.]){dotted}(?!\w)").encode())


def written_in(statement: bytes) -> Written:
    calls: defaultdict[str, list[Call]] = defaultdict(list)
    made: defaultdict[str, list[str]] = defaultdict(list)
    decorated: defaultdict[str, list[tuple[str, Scope]]] = defaultdict(list)
    named: defaultdict[str, list[Given]] = defaultdict(list)
    stack: list[tuple[ast.AST, Scope]] = [(parsed(statement.decode()), ("<module>", "", []))]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, ast.Call):
            receiver, _, method = _dotted(node.func).rpartition(".")
            by_keyword = {k.arg: _given(k.value) for k in node.keywords if k.arg}
            call = Call(tuple(map(_given, node.args)), by_keyword, scope, receiver == "self")
            if any(given.path or given.items for given in (*call.positional, *by_keyword.values())):
                calls[method].append(call)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in _pairs(target, node.value):
                    is_name = isinstance(name, ast.Name) and isinstance(value, ast.Name | ast.Call)
                    if is_name and (other := _given(value)).path and not other.is_made:
                        named[_dotted(name)].append(other)
                    if isinstance(value, ast.Call):
                        made[_dotted(name)].append(_called(value))
                    if maker := _maker_of_items(value):
                        made[_dotted(name) + ITEMS].append(maker)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is not None and isinstance(item.context_expr, ast.Call):
                    made[_dotted(item.optional_vars)].append(_called(item.context_expr))
        elif isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list if scope[:2] == AT_TOP else ():
                decorated[_decorating(decorator)].append((node.name, scope))
            scope = (scope[0], node.name, scope[2])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            for decorator in node.decorator_list if scope[0] != "<module>" or not scope[1] else ():
                decorated[_decorating(decorator)].append((node.name, scope))  # what decorates a method is another thing
            scope = (node.name, scope[1], names)
        stack += [(child, scope) for child in inner(node)]
    return Written(calls, made, decorated, named)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """``a, b = X(), Y()`` gives ``a, X()`` and ``b, Y()``."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts):
            yield from _pairs(one, other)
    else:
        yield target, value


def _maker_of_items(value: ast.expr) -> str:
    """What makes each item of a collection: ``Meter`` of ``defaultdict(Meter)``, ``{k: Meter() for k in names}``."""
    if isinstance(value, ast.Call) and value.args and _dotted(value.func).rsplit(".", 1)[-1] == "defaultdict":
        factory = value.args[0]
        return _called(factory.body) if isinstance(factory, ast.Lambda) else _dotted(factory)
    if isinstance(value, ast.DictComp):
        return _called(value.value)
    if isinstance(value, ast.ListComp):
        return _called(value.elt)
    items = value.values if isinstance(value, ast.Dict) else value.elts if isinstance(value, ast.List) else []
    makers = {_called(item) for item in items}
    return makers.pop() if len(makers) == 1 else ""


def _called(value: ast.expr) -> str:
    """What is called to make a value: ``Loss`` of ``Loss().to(device)``, as those methods return their own object."""
    if not isinstance(value, ast.Call):
        return ""
    func = value.func
    is_fluent = isinstance(func, ast.Attribute) and func.attr in FLUENT_METHODS and isinstance(func.value, ast.Call)
    return _called(func.value) if is_fluent else _dotted(func)  # type: ignore[attr-defined]


def _given(argument: ast.expr) -> Given:
    argument = _moved(argument)
    if isinstance(argument, ast.List | ast.Tuple):
        return Given("", False, tuple(map(_given, argument.elts)))
    if isinstance(argument, ast.Call) and argument.args and _called(argument).endswith("partial"):
        by_position = [""] * (len(argument.args) - 1)
        by_keyword = [keyword.arg for keyword in argument.keywords if keyword.arg]
        return Given(_dotted(argument.args[0]), False, options=(*by_position, *by_keyword))
    is_made = isinstance(argument, ast.Call)
    return Given(_called(argument) if is_made else _dotted(argument), is_made)


def _moved(value: ast.expr) -> ast.expr:
    """What an object is known by whose own methods return it: ``net`` of ``net.eval().cuda()``."""
    object_ = value
    while isinstance(object_, ast.Call) and isinstance(object_.func, ast.Attribute):
        if object_.func.attr not in FLUENT_METHODS:
            return value
        object_ = object_.func.value
    return object_ if isinstance(object_, ast.Name | ast.Attribute) else value


def _decorating(decorator: ast.expr) -> str:
    """The name of what decorates: ``register`` of ``@hooks.register("step")``."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return _dotted(called).rsplit(".", 1)[-1]


def _dotted(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""

"""The class of what callers pass as an argument, told from ``ast``: no type of a parameter need be written down."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.gate import inner, parsed
from gradguard.static.parameters import is_plain

if TYPE_CHECKING:
    from gradguard.static.asked import Asked
    from gradguard.static.definitions import Class, FunctionRef
    from gradguard.static.project import Module
    from gradguard.static.survey import Survey

_MAX_PASSES = 4


class Passed:
    """What the calls in all files pass."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._calls: dict[Path, _Calls] = {}
        self._arguments: dict[tuple[Module, str, str], set[Class]] = {}

    def argument_class(self, ref: FunctionRef, param: str) -> Class | None:
        """The class of the project that every call seen passes as ``param``, if it is one (or copies of it)."""
        params = [p.name for p in ref.define.params]
        if is_plain(ref.define.params[params.index(param)]):
            return None
        found = self._classes_of(ref.module, ref.define.name, ref.owner.name if ref.owner else "", params, param, 0)
        return min(found, key=lambda cls: cls.module.source.path) if len({cls.name for cls in found}) == 1 else None

    def _classes_of(
        self, module: Module, name: str, owner: str, params: list[str], param: str, depth: int
    ) -> set[Class]:
        position = params.index(param)
        if params[0] in ("self", "cls"):
            position -= 1
            name = owner if name == "__init__" else name
        key = (module, name, param)
        if key not in self._arguments:
            self._arguments[key] = set()
            if self._survey.is_called_by_many(name, module):
                return set()
            found = self._arguments[key]
            for caller in self._survey.callers(name, module):
                calls = self._calls_of(caller)
                found |= set(calls.classes(name, param, position, self._survey.asked(module)))
                for passing in calls.passing(name, param, position) if depth < _MAX_PASSES else ():
                    found |= self._classes_of(
                        caller, passing.function, passing.owner, passing.params, passing.param, depth + 1
                    )
        return set(self._arguments[key])

    def functions(self, ref: FunctionRef, param: str, near: Module) -> list[FunctionRef]:
        """The functions of the project that the calls seen pass as ``param``, bound methods too, or its default.

        Args:
            near: the module that asks.
        """
        params = [p.name for p in ref.define.params]
        position = params.index(param) - (params[0] in ("self", "cls"))
        name = ref.owner.name if ref.owner is not None and ref.define.name == "__init__" else ref.define.name
        if self._survey.is_called_by_many(name, near):
            return []
        found: dict[tuple[object, object], FunctionRef] = {}
        is_given = False
        for caller in self._survey.callers(name, near):
            calls = self._calls_of(caller)
            for given, scope in calls.given(name, param, position, ref):
                is_given = True
                for function in self._resolved(caller, calls, given, scope):
                    found[function.define, function.owner] = function
        return self._noted(found.values() if is_given else _by_default(ref, param), near)

    def decorated(self, ref: FunctionRef, near: Module) -> list[FunctionRef]:
        """The functions of the top level that a method decorates: ``@engine.on("step")``."""
        found: list[FunctionRef] = []
        for caller in self._survey.callers(ref.define.name, near):
            names = self._calls_of(caller).decorated(ref.define.name)
            found += [function for name in names if (function := caller.function(name)) is not None]
        return self._noted(found, near)

    def decorated_classes(self, ref: FunctionRef, near: Module) -> list[Class]:
        """The classes that a function decorates: ``@register("adam")``."""
        found: list[Class] = []
        for caller in self._survey.callers(ref.define.name, near):
            names = self._calls_of(caller).decorated(ref.define.name)
            found += [cls for name in names if (cls := caller.klass(name)) is not None]
        self._survey.asked(near).files.update(path for cls in found if (path := cls.module.path) is not None)
        return found

    def _noted(self, found: Iterable[FunctionRef], near: Module) -> list[FunctionRef]:
        functions = list(found)
        paths = (function.module.path for function in functions)
        self._survey.asked(near).files.update(path for path in paths if path is not None)
        return functions

    def _resolved(self, module: Module, calls: _Calls, given: _Given, scope: _Scope) -> Iterator[FunctionRef]:
        """The functions that an argument may be: one by its name, a method, what a function returns."""
        from gradguard.static.definitions import Class, FunctionRef

        *holder, name = given.path.split(".")
        if not holder:
            value = module.resolve(name) if name else None
            ref = value.ref if value is not None else None
            if given.is_made and isinstance(ref, FunctionRef):
                flow = module.project.flow(ref)
                ref = flow.facts.returns.ref if flow is not None else None
            made = [ref] if given.is_made and isinstance(ref, Class) else calls.made(name)
            methods = [cls.method("__call__") for cls in made if not cls.is_module]
            yield from (found for found in (ref, *methods) if isinstance(found, FunctionRef))
        elif given.is_made:
            return
        elif holder == ["self"]:
            owner = module.klass(scope[1]) if scope[1] else None
            method = owner.method(name) if owner is not None else None
            is_written = method is not None and not method.is_abstract
            yield from [method] if is_written and method else self._survey.methods_named(name, module, owner)
        else:
            value = module.dotted(given.path)
            of_class = value.ref if value is not None else None
            methods = [cls.method(name) for cls in calls.made(".".join(holder))]
            yield from (found for found in (of_class, *methods) if isinstance(found, FunctionRef))

    def _calls_of(self, module: Module) -> _Calls:
        key = module.path or Path(module.source.path)
        if key not in self._calls:
            self._calls[key] = _Calls(module)
        return self._calls[key]


def _by_default(ref: FunctionRef, param: str) -> Iterator[FunctionRef]:
    """The lambda that a parameter is unless a call says otherwise."""
    from gradguard.static.definitions import FunctionRef

    default = next((p.default for p in ref.define.params if p.name == param), None)
    if isinstance(default, t.Lambda):
        yield FunctionRef(ref.module, t.as_function(default), ref.chunk)


class _Passing(NamedTuple):
    """A function that hands one of its own parameters on."""

    function: str
    owner: str
    params: list[str]
    param: str


class _Given(NamedTuple):
    """An argument: by its path, or by that of the function or class that is called to make it."""

    path: str
    is_made: bool


class _Call(NamedTuple):
    """A call, as far as it matters here: a file's trees would be a hundred times as large.

    Args:
        is_own: of a method of ``self``.
    """

    positional: tuple[_Given, ...]
    by_keyword: dict[str, _Given]
    scope: _Scope
    is_own: bool


class _Calls:
    """The calls in one file, and what its variables are made with."""

    def __init__(self, module: Module) -> None:
        self.module = module

    @cached_property
    def _written(self) -> tuple[dict[str, list[_Call]], dict[str, list[str]], dict[str, list[str]]]:
        calls: defaultdict[str, list[_Call]] = defaultdict(list)
        made: defaultdict[str, list[str]] = defaultdict(list)
        decorated: defaultdict[str, list[str]] = defaultdict(list)
        stack: list[tuple[ast.AST, _Scope]] = [(parsed(self.module.source.text), ("<module>", "", []))]
        while stack:
            node, scope = stack.pop()
            if isinstance(node, ast.Call):
                receiver, _, method = _dotted(node.func).rpartition(".")
                by_keyword = {k.arg: _given(k.value) for k in node.keywords if k.arg}
                call = _Call(tuple(map(_given, node.args)), by_keyword, scope, receiver == "self")
                if any(given.path for given in (*call.positional, *by_keyword.values())):
                    calls[method].append(call)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    for name, value in _pairs(target, node.value):
                        if isinstance(value, ast.Call):
                            made[_dotted(name)].append(_dotted(value.func))
            elif isinstance(node, ast.With | ast.AsyncWith):
                for item in node.items:
                    if item.optional_vars is not None and isinstance(item.context_expr, ast.Call):
                        made[_dotted(item.optional_vars)].append(_dotted(item.context_expr.func))
            elif isinstance(node, ast.ClassDef):
                for decorator in node.decorator_list if scope[:2] == ("<module>", "") else ():
                    decorated[_decorating(decorator)].append(node.name)
                scope = (scope[0], node.name, scope[2])
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = node.args
                names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
                for decorator in node.decorator_list if scope[:2] == ("<module>", "") else ():
                    decorated[_decorating(decorator)].append(node.name)
                scope = (node.name, scope[1], names)
            stack += [(child, scope) for child in inner(node)]
        return calls, made, decorated

    def decorated(self, name: str) -> list[str]:
        """The functions and classes of the top level that something of this name decorates."""
        return self._written[2].get(name, [])

    def made(self, path: str) -> list[Class]:
        """The classes that a variable's objects are made of."""
        from gradguard.static.definitions import Class

        values = (self.module.dotted(maker) for maker in dict.fromkeys(self._written[1].get(path, [])))
        return [value.ref for value in values if value is not None and isinstance(value.ref, Class)]

    def given(
        self, name: str, param: str, position: int, ref: FunctionRef | None = None
    ) -> Iterator[tuple[_Given, _Scope]]:
        """What the calls of a name pass as ``param``, each with where; not those of another class's own method."""
        for call in self._written[0].get(name, ()):
            if ref is not None and call.is_own and self._is_of_another(call.scope[1], ref):
                continue
            given = call.by_keyword.get(param)
            if given is None and 0 <= position < len(call.positional):
                given = call.positional[position]
            if given is not None:
                yield given, call.scope

    def _is_of_another(self, owner: str, ref: FunctionRef) -> bool:
        """Whether a class calls a method of its own by this name, which is not the one that is meant."""
        cls = self.module.klass(owner) if owner else None
        own = cls.method(ref.define.name) if cls is not None else None
        return own is not None and own.define is not ref.define

    def classes(self, name: str, param: str, position: int, asked: Asked) -> Iterator[Class]:
        """The classes of what is passed as ``param`` where ``name`` is called.

        Args:
            asked: receives what the file that wants to know asks with this.
        """
        from gradguard.static.definitions import Class

        for given, _ in self.given(name, param, position):
            for maker in [given.path] if given.is_made else self._written[1].get(given.path, []):
                value = self.module.dotted(maker)
                if value is None or isinstance(value.ref, str):
                    head = maker.split(".")[0]
                    dotted = f"{self.module.outline.imports.get(head, head)}.{maker}"
                    asked.names.update(name for name in dotted.split(".") if name)
                elif self.module.path is not None:
                    asked.files.add(self.module.path)
                if value is not None and isinstance(value.ref, Class):
                    yield value.ref

    def passing(self, name: str, param: str, position: int) -> Iterator[_Passing]:
        """The functions that pass a parameter of their own on as ``param``."""
        for given, (function, owner, params) in self.given(name, param, position):
            if not given.is_made and given.path in params:
                yield _Passing(function, owner, params, given.path)


_Scope = tuple[str, str, list[str]]


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """``a, b = X(), Y()`` gives ``a, X()`` and ``b, Y()``."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts):
            yield from _pairs(one, other)
    else:
        yield target, value


def _given(argument: ast.expr) -> _Given:
    is_made = isinstance(argument, ast.Call)
    return _Given(_dotted(argument.func if isinstance(argument, ast.Call) else argument), is_made)


def _decorating(decorator: ast.expr) -> str:
    """The name of what decorates: ``register`` of ``@hooks.register("step")``."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return _dotted(called).rsplit(".", 1)[-1]


def _dotted(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""

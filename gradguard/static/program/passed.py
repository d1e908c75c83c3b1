"""The class of what callers pass as an argument, told from ``ast``: no type of a parameter need be written down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.files.gate import SourceError
from gradguard.static.files.layout import statements
from gradguard.static.files.prose import without_prose
from gradguard.static.memo import Remembers, cached_property, memo_of
from gradguard.static.program.parameters import is_plain
from gradguard.static.program.written_calls import (
    AT_TOP,
    ITEMS,
    Call,
    Given,
    Scope,
    Written,
    call_of,
    mention_of,
    written_in,
)
from gradguard.static.values import UNKNOWN

if TYPE_CHECKING:
    from gradguard.static.asked import Asked
    from gradguard.static.program.classes import Class
    from gradguard.static.program.functions import FunctionRef
    from gradguard.static.program.survey import Survey
    from gradguard.static.project import Module, Project

_MAX_PASSES = 4


class Passed:
    """What the calls in all files pass."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._calls: dict[Path | Module, _Calls] = {}
        self._arguments: dict[tuple[_Calls, str, str], set[Class | str]] = {}

    def argument_class(self, ref: FunctionRef, param: str, *, of_items: bool = False) -> Class | None:
        """The class of the project that every call seen passes as ``param``, if it is one (or copies of it).

        Args:
            of_items: asks for the class of what is in the collection that is passed: ``defaultdict(Meter)``.
        """
        params = [p.name for p in ref.define.params]
        if is_plain(ref.define.params[params.index(param)]):
            return None
        owner = ref.owner.name if ref.owner else ""
        part = ITEMS if of_items else ""
        every = self._classes_of(self._calls_of(ref.module), ref.define.name, owner, params, param, part, 0)
        found = [cls for cls in every if not isinstance(cls, str)]
        is_one = len(found) == len(every) and len({cls.name for cls in found}) == 1
        return min(found, key=lambda cls: cls.module.source.path) if is_one else None

    def _classes_of(
        self, near: _Calls, name: str, owner: str, params: list[str], param: str, part: str, depth: int
    ) -> set[Class | str]:
        position = params.index(param)
        if params[0] in ("self", "cls"):
            position -= 1
            name = owner if name == "__init__" else name
        key = (near, name, param + part)
        if key not in self._arguments:
            self._arguments[key] = set()
            if self._survey.is_called_by_many(name, near):
                return set()
            found = self._arguments[key]
            is_imported = not owner or name == owner  # a method is called by its name, whatever else has it
            for calls in self._callers(name, near, of_class=bool(owner)):
                if is_imported and calls is not near and calls.means_another(name, near, self._survey.asked(near)):
                    continue
                found |= set(calls.classes(name, param, position, part, self._survey.asked(near)))
                for passing in calls.passing(name, param, position) if depth < _MAX_PASSES else ():
                    found |= self._classes_of(
                        calls, passing.function, passing.owner, passing.params, passing.param, part, depth + 1
                    )
        return set(self._arguments[key])

    def functions(self, ref: FunctionRef, param: str, near: Module, *, of_items: bool = False) -> list[FunctionRef]:
        """The functions of the project that the calls seen pass as ``param``, bound methods too, or its default.

        Args:
            near: the module that asks.
            of_items: asks for those in the list that is passed.
        """
        params = [p.name for p in ref.define.params]
        position = params.index(param) - (params[0] in ("self", "cls"))
        name = ref.owner.name if ref.owner is not None and ref.define.name == "__init__" else ref.define.name
        if self._survey.is_called_by_many(name, near):
            return []
        found: dict[tuple[object, object], FunctionRef] = {}
        is_given = False
        for calls in self._callers(name, self._calls_of(near), of_class=ref.owner is not None):
            for given, scope in calls.given(name, param, position, ref):
                is_given = True
                for each in calls.items(given) if of_items else (given,):
                    for function in self._resolved(calls, each, scope):
                        found[function.define, function.owner] = function
        return self._noted(found.values() if is_given else _by_default(ref, param), near)

    def decorated(self, ref: FunctionRef, near: Module) -> list[FunctionRef]:
        """The functions that a method decorates: ``@engine.on("step")``; also those within another function."""
        found: list[FunctionRef] = []
        for calls in self._decorating(ref.define.name, near):
            for name, scope in calls.decorated(ref.define.name):
                function = calls.function(name, scope)
                found += [function] if function is not None else []
        return self._noted(found, near)

    def decorated_classes(self, ref: FunctionRef, near: Module) -> list[Class]:
        """The classes that a function decorates: ``@register("adam")``."""
        found: list[Class] = []
        for calls in self._decorating(ref.define.name, near):
            for name, scope in calls.decorated(ref.define.name):
                cls = calls.module.klass(name) if calls.module is not None and scope[:2] == AT_TOP else None
                found += [cls] if cls is not None else []
        self._survey.asked(near).files.update(path for cls in found if (path := cls.module.path) is not None)
        return found

    def is_behind_layers(self, cls: Class) -> bool:
        """Whether an object of a class stands behind something that may learn: ``nn.Sequential(Filters(), Norm())``."""
        asked = self._survey.asked(cls.module)
        return any(
            calls.is_behind_layers(cls, asked)
            for calls in self._callers("Sequential", self._calls_of(cls.module), of_class=True)
        )

    def _noted(self, found: Iterable[FunctionRef], near: Module) -> list[FunctionRef]:
        functions = list(found)
        paths = (function.module.path for function in functions)
        self._survey.asked(near).files.update(path for path in paths if path is not None)
        return functions

    def _resolved(self, calls: _Calls, given: Given, scope: Scope) -> Iterator[FunctionRef]:
        """The functions that an argument may be: one by its name, a method, what a function returns."""
        from gradguard.static.program.classes import Class
        from gradguard.static.program.functions import FunctionRef

        *holder, name = given.path.split(".")
        module = calls.module
        if module is None:
            return
        if not holder:
            value = module.resolve(name) if name else None
            ref = value.ref if value is not None else calls.function(name, scope) if name else None
            if given.is_made and isinstance(ref, FunctionRef):
                flow = module.project.flow(ref)
                ref = flow.facts.returns.ref if flow is not None else None
            made = [ref] if given.is_made and isinstance(ref, Class) else calls.made(name)
            methods = [cls.method("__call__") for cls in made if not cls.is_module]
            yield from (_with(given, found) for found in (ref, *methods) if isinstance(found, FunctionRef))
            for other in calls.named(name) if ref is None and not given.is_made else ():
                value = module.dotted(other.path)
                if value is not None and isinstance(value.ref, FunctionRef):
                    yield _with(other, value.ref)
        elif given.is_made:
            yield from (_with(given, made) for made in self._made_by(module, holder, name, scope))
        elif holder == ["self"]:
            owner = module.klass(scope[1]) if scope[1] else None
            method = owner.method(name) if owner is not None else None
            is_written = method is not None and not method.is_abstract
            found = [method] if is_written and method else self._survey.methods_named(name, module, owner)
            yield from (_with(given, each) for each in found)
        else:
            value = module.dotted(given.path)
            of_class = value.ref if value is not None else None
            methods = [cls.method(name) for cls in calls.made(".".join(holder))]
            yield from (_with(given, found) for found in (of_class, *methods) if isinstance(found, FunctionRef))

    def _made_by(self, module: Module, holder: list[str], name: str, scope: Scope) -> Iterator[FunctionRef]:
        """The function that a method of the same object makes: ``self.at_end(bus)``."""
        from gradguard.static.program.functions import FunctionRef

        owner = module.klass(scope[1]) if holder == ["self"] and scope[1] else None
        method = owner.method(name) if owner is not None else None
        flow = module.project.flow(method) if method is not None else None
        made = flow.facts.returns.ref if flow is not None else None
        if isinstance(made, FunctionRef):
            yield made

    def _callers(self, name: str, near: _Calls, *, of_class: bool) -> Iterator[_Calls]:
        """The files of its program that may call a function of this name.

        Args:
            of_class: it is a method, or a class; a function of its own is what another file calls by that name.
        """
        yield near
        for path in self._survey.calling(name, near):
            if of_class or f"\ndef {name}(" not in self._survey.texts.of(path):
                yield self._calls_at(path)

    def _decorating(self, name: str, near: Module) -> Iterator[_Calls]:
        """The files of its program in which something of this name may decorate."""
        yield self._calls_of(near)
        yield from map(self._calls_at, self._survey.decorating(name, near))

    def _calls_at(self, path: Path) -> _Calls:
        if path not in self._calls:
            self._calls[path] = _Calls(path, self._survey.project)
        return self._calls[path]

    def _calls_of(self, module: Module) -> _Calls:
        if module.path is not None:
            return self._calls_at(module.path)
        if module not in self._calls:
            self._calls[module] = _Calls(None, self._survey.project, module)
        return self._calls[module]


def _by_default(ref: FunctionRef, param: str) -> Iterator[FunctionRef]:
    """The lambda that a parameter is unless a call says otherwise."""
    from gradguard.static.program.functions import FunctionRef

    default = next((p.default for p in ref.define.params if p.name == param), None)
    if isinstance(default, t.Lambda):
        yield FunctionRef(ref.module, t.as_function(default), ref.chunk)


def _with(given: Given, function: FunctionRef) -> FunctionRef:
    """The function with what ``partial(function, scale=2)`` gives it already."""
    options = tuple((t.Arg(t.Constant(None, None), name or None), UNKNOWN) for name in given.options)
    return function.given_first(options) if options else function


class _Passing(NamedTuple):
    """A function that hands one of its own parameters on."""

    function: str
    owner: str
    params: list[str]
    param: str


class _Calls(Remembers):
    """The calls in one file, and what its variables are made with; only the statements that name it are parsed.

    Args:
        path: of the file; None where it has none, and is ``module``.
    """

    def __init__(self, path: Path | None, project: Project, module: Module | None = None) -> None:
        self.path = path
        self._project = project
        self._module = module
        self._parsed: dict[bytes, Written] = {}
        self._calls: dict[str, list[Call]] = {}
        self._made: dict[str, list[str]] = {}

    @property
    def module(self) -> Module | None:
        """The file as a module; None when it cannot be read."""
        return self._project.module(self.path) if self.path is not None else self._module

    def _where(self, stands: re.Pattern[bytes], word: str) -> list[Written]:
        """What the statements say in which a word stands so.

        Args:
            stands: what looks for it; a statement that is cut off at its end, as none is that was told apart rightly,
                may go on with anything.
        """
        sought = word.encode()
        if not sought:
            return []  # of what is no variable, `f(x)[0]`
        try:
            return [self._written(part) for part in self._statements if sought in part and stands.search(part)]
        except SourceError:  # they were not told apart rightly
            self._begin_again([self._code])
        try:
            return list(map(self._written, self._statements))
        except SourceError:
            self._begin_again([])
            return []

    def _begin_again(self, statements: list[bytes]) -> None:
        memo_of(self)["_statements"] = statements
        self._calls.clear()
        self._made.clear()

    def _calling(self, name: str) -> list[Call]:
        """The calls of what has a name."""
        if name not in self._calls:
            written = self._where(call_of(name), name)
            self._calls[name] = [call for each in written for call in each.calls.get(name, ())]
        return self._calls[name]

    @cached_property
    def _statements(self) -> list[bytes]:
        return statements(self._code)

    @property
    def _code(self) -> bytes:
        of_module = self.module if self.path is None or self.path.suffix == ".ipynb" else None
        text = of_module.source.text if of_module is not None else self._project.texts.of(self.path or Path())
        return without_prose(text.encode(errors="replace"))

    def _written(self, statement: bytes) -> Written:
        if statement not in self._parsed:
            self._parsed[statement] = written_in(statement)
        return self._parsed[statement]

    def decorated(self, name: str) -> list[tuple[str, Scope]]:
        """The functions and classes that something of this name decorates, each with where."""
        written = self._where(re.compile(re.escape(name).encode()), name)
        return [found for each in written for found in each.decorated.get(name, ())]

    def function(self, name: str, scope: Scope) -> FunctionRef | None:
        """The function of this name of the top level, or within a function or method of the top level."""
        outer, owner, _ = scope
        if self.module is None or scope[:2] == AT_TOP:
            return self.module.function(name) if self.module is not None else None
        cls = self.module.klass(owner) if owner else None
        around = cls.methods.get(outer) if cls is not None else self.module.function(outer) if not owner else None
        if around is None or not any(isinstance(s, t.Define) and s.name == name for s in around.define.nodes):
            return None
        return next((ref for ref in self._project.within(around) if ref.define.name == name), None)

    def made(self, path: str) -> list[Class]:
        """The classes that a variable's objects are made of."""
        from gradguard.static.program.classes import Class

        values = (self.module.dotted(maker) for maker in self._makers(path) if self.module is not None)
        return [value.ref for value in values if value is not None and isinstance(value.ref, Class)]

    def named(self, variable: str) -> list[Given]:
        """What a variable is another name of."""
        written = self._where(mention_of(variable), variable)
        return list(dict.fromkeys(name for each in written for name in each.named.get(variable, ())))

    def _makers(self, path: str) -> list[str]:
        """What is called to make a variable's objects."""
        if path not in self._made:
            variable = path.removesuffix(ITEMS)
            written = self._where(mention_of(variable), variable.rpartition(".")[2])
            self._made[path] = list(dict.fromkeys(maker for each in written for maker in each.made.get(path, ())))
        return self._made[path]

    def given(
        self, name: str, param: str, position: int, ref: FunctionRef | None = None
    ) -> Iterator[tuple[Given, Scope]]:
        """What the calls of a name pass as ``param``, each with where; not those of another class's own method."""
        for call in self._calling(name):
            if ref is not None and call.is_own and self._is_of_another(call.scope[1], ref):
                continue
            given = call.by_keyword.get(param)
            if given is None and 0 <= position < len(call.positional):
                given = call.positional[position]
            if given is not None:
                yield given, call.scope

    def _is_of_another(self, owner: str, ref: FunctionRef) -> bool:
        """Whether a class calls a method of its own by this name, which is not the one that is meant."""
        cls = self.module.klass(owner) if owner and self.module is not None else None
        own = cls.method(ref.define.name) if cls is not None else None
        return own is not None and own.define is not ref.define

    def means_another(self, name: str, near: _Calls, asked: Asked) -> bool:
        """Whether what is called by a name here is imported from elsewhere: each program of several has an ``Agent``.

        Args:
            near: the file whose class or function is asked about.
            asked: receives what that file asks with this.
        """
        from gradguard.static.program.classes import Class
        from gradguard.static.program.functions import FunctionRef

        module = self.module if self._calling(name) else None
        value = module.resolve(name) if module is not None else None
        ref = value.ref if value is not None else None
        if not isinstance(ref, Class | FunctionRef) or ref.module.path in (near.path, None):
            return False
        asked.files.update(path for path in (self.path, ref.module.path) if path is not None)
        return True

    def classes(self, name: str, param: str, position: int, part: str, asked: Asked) -> Iterator[Class | str]:
        """The classes of what is passed as ``param`` where ``name`` is called; of modules of torch, their names.

        Args:
            part: what of it is asked for: itself, or its items.
            asked: receives what the file that wants to know asks with this.
        """
        from gradguard.static.program.classes import Class

        for given, _ in self.given(name, param, position):
            for maker in self._made_by(given, part):
                module = self.module
                value = module.dotted(maker) if module is not None else None
                if module is not None and (value is None or isinstance(value.ref, str)):
                    head = maker.split(".")[0]
                    dotted = f"{module.outline.imports.get(head, head)}.{maker}"
                    asked.names.update(name for name in dotted.split(".") if name)
                elif self.path is not None:
                    asked.files.add(self.path)
                if value is not None and (isinstance(value.ref, Class) or str(value.ref).startswith("torch.nn.")):
                    yield value.ref  # type: ignore[misc]

    def _made_by(self, given: Given, part: str) -> list[str]:
        """The functions and classes whose calls make what is given, or what is in it."""
        if given.is_made:
            return [given.path] if not part else []
        return self._makers(given.path + part)

    def items(self, given: Given) -> Iterator[Given]:
        """What is in a list that is passed: as it is written out, or what a variable's are made by."""
        yield from given.items
        if given.path and not given.is_made:
            yield from (Given(maker, True) for maker in self._makers(given.path + ITEMS))

    def passing(self, name: str, param: str, position: int) -> Iterator[_Passing]:
        """The functions that pass a parameter of their own on as ``param``."""
        for given, (function, owner, params) in self.given(name, param, position):
            if not given.is_made and given.path in params:
                yield _Passing(function, owner, params, given.path)

    def is_behind_layers(self, cls: Class, asked: Asked) -> bool:
        """Whether an object of a class is made behind something that may learn, in a call of ``nn.Sequential``.

        Args:
            asked: receives what the file that wants to know asks with this.
        """
        rows = [[given.path for given in call.positional if given.is_made] for call in self._calling("Sequential")]
        before = [row[:place] for row in rows for place, maker in enumerate(row) if self._makes(maker, cls)]
        if before and self.path is not None:
            asked.files.add(self.path)
        return any(self._may_learn(maker) for row in before for maker in row)

    def _makes(self, maker: str, cls: Class) -> bool:
        value = self.module.dotted(maker) if self.module is not None else None
        return value is not None and value.ref is cls

    def _may_learn(self, maker: str) -> bool:
        """Whether what is made may have parameters, as far as it is known."""
        from gradguard.static.program.classes import Class

        value = self.module.dotted(maker) if self.module is not None else None
        if value is not None and isinstance(value.ref, Class):
            return value.ref.is_module and value.ref.may_learn
        is_layer = value is not None and str(value.ref).startswith("torch.nn.")
        return is_layer and maker.rpartition(".")[2] not in k.WITHOUT_PARAMETERS

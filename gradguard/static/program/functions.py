"""A function of the project, with what is needed to read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.memo import Remembers, cached_property, memo_of
from gradguard.static.program.computed import Computed, computed_in
from gradguard.static.program.names import bound_names, makes_anew, put_under_words, used_as_modules
from gradguard.static.reading.conditions import keeping_names, tested_names
from gradguard.static.reading.recurrence import Binding, bindings
from gradguard.static.reading.same_keys import keyed_by
from gradguard.static.reading.scalars import is_scalar
from gradguard.static.source import Chunk
from gradguard.static.values import Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.classes import Class
    from gradguard.static.project import Module


class FunctionRef(Remembers):
    """A function of the project, with what is needed to read it.

    Args:
        given: what ``functools.partial`` gives it first.
        bindings: parameters whose values are known, for a reading of its own: the function that a decorator is given.
        variant: tells such readings of one definition apart.
        is_bare: its decorators do not count: it is called by one of them.
    """

    def __init__(
        self,
        module: Module,
        define: t.Define,
        chunk: Chunk,
        owner: Class | None = None,
        outer: Flow | None = None,
        given: tuple[tuple[t.Arg, Value], ...] = (),
        bindings: tuple[tuple[str, Value], ...] = (),
        variant: object = None,
        is_bare: bool = False,
    ) -> None:
        self.module, self.define, self.chunk = module, define, chunk
        self.owner, self.outer = owner, outer
        self.given, self.bindings, self.variant, self.is_bare = given, bindings, variant, is_bare

    def bare(self) -> FunctionRef:
        """Without its decorators."""
        return self._read_as(self.given, self.bindings, self.variant, is_bare=True)

    def given_first(self, given: tuple[tuple[t.Arg, Value], ...]) -> FunctionRef:
        """With more that ``functools.partial`` gives it."""
        return self._read_as((*self.given, *given), self.bindings, self.variant, self.is_bare)

    def bound(self, bindings: tuple[tuple[str, Value], ...], variant: object) -> FunctionRef:
        """With parameters whose values are known."""
        return self._read_as(self.given, bindings, variant, self.is_bare)

    def _read_as(
        self,
        given: tuple[tuple[t.Arg, Value], ...],
        bindings: tuple[tuple[str, Value], ...],
        variant: object,
        is_bare: bool,
    ) -> FunctionRef:
        return FunctionRef(
            self.module, self.define, self.chunk, self.owner, self.outer, given, bindings, variant, is_bare
        )

    @cached_property
    def names(self) -> tuple[set[str], set[str]]:
        """The names that it binds, and those it declares global or nonlocal."""
        return bound_names(self.define)

    @cached_property
    def gives_number(self) -> bool:
        """Whether all that it returns is one number as a tensor, as far as that is written."""
        returned = [stmt.value for stmt in self.define.statements if isinstance(stmt, t.Return)]
        return bool(returned) and all(is_scalar(value, self.define.body) for value in returned)

    @cached_property
    def bindings_made(self) -> list[Binding]:
        """Its assignments."""
        return bindings(self.define.body)

    @cached_property
    def computed(self) -> tuple[Computed, ...]:
        """Its statements that keep what they compute."""
        return tuple(computed_in(self.define))

    @cached_property
    def put_under_words(self) -> list[tuple[t.Expr, str]]:
        """The dicts into which it puts something under a word that is written there, each with it."""
        return list(put_under_words(self.define.statements))

    @property
    def words_put(self) -> frozenset[str]:
        """These words."""
        return frozenset(word for _, word in self.put_under_words)

    def given_by(self, call: t.Call) -> dict[str, t.Expr]:
        """What a call gives for its parameters, by their names; a method is given its object otherwise."""
        names = [param.name for param in self.define.params if not param.star]
        names = names[1:] if self.owner is not None and names[:1] in (["self"], ["cls"]) else names
        given = ((name, call.argument(name, place)) for place, name in enumerate(names))
        return {name: value for name, value in given if value is not None}

    def callee(self, call: t.Call) -> FunctionRef | None:
        """The plain function of the program that a call in this one runs, or the method of its own object."""
        if isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "self":
            return self.owner.method(call.func.name) if self.owner is not None else None
        found = self.module.value_of(call.func).ref
        return found if isinstance(found, FunctionRef) and found.owner is None else None

    def kept_as(self, name: str) -> str | None:
        """The first attribute of its object that a variable becomes: ``self.net`` after ``self.net = net``."""
        bound = (stmt for stmt in self.define.statements if isinstance(stmt, t.Assign))
        pairs = (pair for stmt in bound for pair in t.pairs(stmt.targets, stmt.value))
        kept = (t.path_of(target) or "" for target, value in pairs if t.path_of(value) == name)
        return next((path for path in kept if path.startswith("self.")), None)

    @cached_property
    def assigned(self) -> Mapping[str, list[t.Expr]]:
        """What its assignments bind each path to; of what is taken apart, ``a, b = pair``, the whole value."""
        found: dict[str, list[t.Expr]] = {}
        for stmt in self.define.statements:
            for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
                for path in filter(None, map(t.path_of, t.names_in(target))):
                    found.setdefault(path, []).append(value)
        return found

    def bound_to(self, expr: t.Expr) -> list[t.Expr]:
        """What its assignments bind a path to; an expression that they bind to nothing is itself."""
        path = t.path_of(expr)
        return self.assigned.get(path, [expr]) if path is not None else [expr]

    def given_back(self) -> Iterator[t.Expr]:
        """What it returns; for a variable, all that this is bound to."""
        for stmt in self.define.statements:
            value = stmt.value if isinstance(stmt, t.Return) else None
            if value is not None:
                yield from self.bound_to(value) if isinstance(value, t.Name) else [value]

    @cached_property
    def lengths_returned(self) -> frozenset[int]:
        """How many values it returns at once, on each way; empty where that is not written in each ``return``."""
        returned = [stmt.value for stmt in self.define.statements if isinstance(stmt, t.Return)]
        lengths = frozenset(map(_length, returned))
        is_plain = not self.define.decorators and not self.define.is_generator and not self.define.is_async
        return lengths if is_plain and 0 not in lengths else frozenset()

    @cached_property
    def taken_apart(self) -> Mapping[t.Call, int]:
        """How many values it takes of what a call returns: ``path, info = env.simulate(policy)``."""
        found: dict[t.Call, int] = {}
        for stmt in self.define.statements:
            call = stmt.value if isinstance(stmt, t.Assign) else None
            taken = max(map(_length, stmt.targets)) if isinstance(stmt, t.Assign) else 0
            if taken and isinstance(call, t.Call):
                found[call] = taken
        return found

    @cached_property
    def keyed_by(self) -> Mapping[str, str]:
        """The collections that it fills under the elements of one other collection."""
        return keyed_by(self.define)

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The names that it uses or binds in expressions, those of what is defined within it too."""
        return frozenset(node.id for node in t.walk(self.define) if isinstance(node, t.Name))

    @cached_property
    def modules(self) -> frozenset[str]:
        """The paths that it uses as only modules are used: ``m.parameters()``, ``m.eval()``."""
        return used_as_modules(self.calls)

    @cached_property
    def calls(self) -> tuple[t.Call, ...]:
        """The calls in its body, those of what is defined within it too."""
        return tuple(self.define.all(t.Call))

    @cached_property
    def own_calls(self) -> frozenset[str]:
        """The methods that it calls on ``self``; ``self(x)`` runs ``forward``, of a module."""
        called = frozenset(
            call.func.name
            for call in self.calls
            if isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "self"
        )
        runs_itself = any(isinstance(call.func, t.Name) and call.func.id == "self" for call in self.calls)
        return called | {"forward", "__call__"} if runs_itself else called

    @cached_property
    def own_objects(self) -> frozenset[str]:
        """The attributes of ``self`` whose methods it calls."""
        methods = (call.func for call in self.calls if isinstance(call.func, t.Attribute))
        paths = ((t.path_of(func.value) or "").split(".") for func in methods)
        return frozenset(path[1] for path in paths if len(path) == 2 and path[0] == "self")

    @cached_property
    def calls_for_effect(self) -> frozenset[t.Expr]:
        """The calls of whose results nothing becomes: statements of their own."""
        alone = (stmt.value for stmt in self.define.statements if isinstance(stmt, t.Evaluate))
        return frozenset(value for value in alone if isinstance(value, t.Call))

    @cached_property
    def is_property(self) -> bool:
        """Whether reading it runs it."""
        names = ((t.path_of(decorator) or "").rsplit(".", 1)[-1] for decorator in self.define.decorators)
        return any(name == "property" or name.endswith("cached_property") for name in names)

    @cached_property
    def is_setter(self) -> bool:
        """Whether setting a property runs it."""
        name = f"{self.define.name}.setter"
        return any(t.path_of(decorator) == name for decorator in self.define.decorators)

    @cached_property
    def read_attribute(self) -> str | None:
        """The attribute of ``self`` that it gives, as most properties do: ``_loss`` of ``return self._loss``."""
        last = self.define.body[-1] if self.define.body else None
        path = t.path_of(last.value) if isinstance(last, t.Return) and last.value is not None else None
        head, _, name = (path or "").partition(".")
        return name if head == "self" and name.isidentifier() else None

    @cached_property
    def is_abstract(self) -> bool:
        """Whether it says only that a subclass is to write it."""
        return all(_says_nothing(statement) for statement in self.define.body)

    @cached_property
    def trains(self) -> bool:
        """Whether it does a backward itself: a step of a training."""
        return any(isinstance(call.func, t.Attribute) and call.func.name == "backward" for call in self.calls)

    @cached_property
    def retains(self) -> bool:
        """Whether it may retain a graph that it calls backward on, or asks gradients of."""
        return any(arg.keyword == "retain_graph" for call in self.calls for arg in call.args)

    @cached_property
    def gives_back(self) -> str | None:
        """The parameter that it returns, the same object that it was given."""
        returned = [s.value for s in self.define.statements if isinstance(s, t.Return)]
        names = {value.id if isinstance(value, t.Name) else None for value in returned}
        name = names.pop() if len(names) == 1 else None
        given = {param.name for param in self.define.params} - self.names[0]
        return name if name in given and not self.define.is_generator else None

    @cached_property
    def makes_anew(self) -> bool:
        """Whether it may return a collection that it makes: a copy, a part, what a comprehension gives."""
        returned = (s.value for s in self.define.statements if isinstance(s, t.Return))
        return any(value is not None and makes_anew(value) for value in returned)

    @cached_property
    def tested(self) -> frozenset[str]:
        """The parameters that decide which way it takes, or a function of its class or file that it hands them on to.

        ``def epoch(self, loader, train): return self.run(loader, train)``.
        """
        params = frozenset(param.name for param in self.define.params)
        memo_of(self)["tested"] = own = tested_names(self.define) & params  # as far as one that calls itself asks
        return own.union(*(self._handed_on(call, params - own) for call in self.calls))

    def _handed_on(self, call: t.Call, params: frozenset[str]) -> Iterator[str]:
        """Those of some parameters that a call hands on to what decides by them."""
        given = [arg for arg in call.args if isinstance(arg.value, t.Name) and arg.value.id in params]
        called = self._of_program(call.func) if given else None
        if called is None:
            return
        names = [param.name for param in called.define.params if not param.star]
        positional = names[1:] if called.owner is not None and names[:1] in (["self"], ["cls"]) else names
        for position, name in enumerate(positional):
            value = call.argument(name, position)
            if isinstance(value, t.Name) and value.id in params and name in called.tested:
                yield value.id

    def _of_program(self, func: t.Expr) -> FunctionRef | None:
        """The method of its own object, or the function of its file, that is called."""
        if isinstance(func, t.Attribute):
            is_own = self.owner is not None and t.path_of(func.value) == "self"
            return self.owner.method(func.name) if self.owner is not None and is_own else None
        is_global = isinstance(func, t.Name) and func.id not in self.names[0]
        return self.module.function(func.id) if is_global and isinstance(func, t.Name) else None

    @cached_property
    def keeping(self) -> frozenset[str]:
        """The parameters that decide what it keeps."""
        return keeping_names(self.define) & self.tested

    @property
    def qualified(self) -> str:
        return f"{self.owner.name}.{self.define.name}" if self.owner else self.define.name


def _length(values: t.Expr | None) -> int:
    """How many values are written out, one by one; 0 where they are not."""
    is_written = isinstance(values, t.Display) and not any(isinstance(item, t.Starred) for item in values.items)
    return len(values.items) if isinstance(values, t.Display) and is_written else 0


def _says_nothing(statement: t.Stmt) -> bool:
    if isinstance(statement, t.Raise):
        return True
    value = statement.value if isinstance(statement, t.Evaluate | t.Return) else statement
    return value is None or isinstance(value, t.Constant)

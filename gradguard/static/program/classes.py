"""A class of the project, with what is needed to read it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.memo import Remembers, cached_property, memo_of
from gradguard.static.program import objects, parameters, same_object
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import named_kind
from gradguard.static.program.selves import with_self
from gradguard.static.reading.conditions import tested_flag, word_asked
from gradguard.static.source import Chunk, Site
from gradguard.static.values import Held, Kind, Root, Source, Value, each_of, learning

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Module

MAX_LINEAGE = 6
_INIT_VAR = re.compile(r"^[ \t]+(\w+)\s*:\s*(?:dataclasses\.)?InitVar\b", re.M)
_NUMBERS = frozenset({"int", "float", "bool", "str"})
_TRAINERS = k.LIGHTNING_BASES | {"Trainer"}
_MODEL = re.compile(r"^[ \t]+self\.\w+\s*=[^\n]*(?:\boptim\.\w+\(|\bnn\.\w+\(|deepcopy\()", re.M)


class Class(Remembers):
    """A class of the project."""

    def __init__(self, module: Module, define: t.DefineClass, chunk: Chunk, outer: Flow | None = None) -> None:
        self.module, self.define, self.chunk, self.outer = module, define, chunk, outer
        self._attributes: dict[str, Value | None] = {}
        self._found: dict[str, FunctionRef | None] = {}
        for method in self.define.methods():
            with_self(method)

    @property
    def name(self) -> str:
        return self.define.name

    @cached_property
    def methods(self) -> dict[str, FunctionRef]:
        made = (FunctionRef(self.module, d, self.chunk, self, self.outer) for d in self.define.methods())
        return {ref.define.name: ref for ref in made if not ref.is_setter}

    @cached_property
    def kept_names(self) -> tuple[tuple[str, FunctionRef, str], ...]:
        """The attributes into which its methods put names, each with the method and the name."""
        from gradguard.static.program.handed import kept_names

        return tuple(kept_names(self))

    @cached_property
    def setters(self) -> dict[str, FunctionRef]:
        """What runs when a property is set."""
        made = (FunctionRef(self.module, d, self.chunk, self, self.outer) for d in self.define.methods())
        return {ref.define.name: ref for ref in made if ref.is_setter}

    @cached_property
    def has_setters(self) -> bool:
        """Whether setting a field of it may run something: it is more than a record of what it was given."""
        return any(cls.setters for cls in self.lineage())

    @cached_property
    def bases(self) -> list[Value]:
        return [self.module.value_of(base) for base in self.define.bases]

    def lineage(self, depth: int = 0) -> Iterator[Class]:
        """The class and its base classes in the project, nearest first."""
        yield self
        if depth < MAX_LINEAGE:
            for base in self.bases:
                if isinstance(base.ref, Class) and base.ref is not self:
                    yield from base.ref.lineage(depth + 1)

    def method(self, name: str) -> FunctionRef | None:
        """What runs when its object's method is called; a base's template runs with what this class fills in."""
        if name not in self._found:
            base = next((cls for cls in self.lineage() if name in cls.methods), None)
            ref = base.methods[name] if base is not None else None
            if ref is not None and base is not None and base is not self and self._fills_in(base, ref):
                ref = FunctionRef(ref.module, ref.define, ref.chunk, self, ref.outer)
            self._found[name] = ref
        return self._found[name]

    def _fills_in(self, base: Class, template: FunctionRef) -> bool:
        """Whether a base's method comes to use what only this class has, or one between.

        That is a method that the base at most declares, or an object whose methods it calls: a mixin's
        ``self.ema.update()``, where the class that is mixed binds ``self.ema``; or what only a module has: its
        ``self.named_parameters()``, where that class is one.
        """
        only_modules: frozenset[str] = k.MODULE_METHODS if self.is_module and not base.is_module else frozenset()
        written = {name: ref for cls in reversed(list(base.lineage())) for name, ref in cls.methods.items()}
        bound = {name for cls in base.lineage() for name in cls._assignments}
        between = list(takewhile(lambda cls: cls is not base, self.lineage()))
        waiting, seen = set(template.own_calls), set()
        objects = set(template.own_objects)
        while waiting:
            name = waiting.pop()
            seen.add(name)
            ref = written.get(name)
            if ref is not None and not ref.is_abstract:
                waiting |= ref.own_calls - seen
                objects |= ref.own_objects
            elif name in only_modules or any(name in cls.methods for cls in between):
                return True
        return any(name in cls._assignments for name in objects - bound for cls in between)

    def inherited_methods(self) -> Iterator[tuple[Class, FunctionRef]]:
        """The methods of its bases that call one which it overrides, each with its base: ``fit`` of a base trainer."""
        own = set(self.methods)
        for base in list(self.lineage())[1:]:
            for name, ref in base.methods.items():
                if name not in own and not ref.own_calls.isdisjoint(self.methods):
                    own.add(name)
                    yield base, FunctionRef(ref.module, ref.define, ref.chunk, self, ref.outer)

    def templates_of(self, name: str) -> Iterator[FunctionRef]:
        """The methods of its bases that call one of this name, as they run on its object; also through ``super()``."""
        for base in list(self.lineage())[1:]:
            for ref in base.methods.values():
                if name in ref.own_calls:
                    yield FunctionRef(ref.module, ref.define, ref.chunk, self, ref.outer)

    @cached_property
    def external_bases(self) -> frozenset[str]:
        """The dotted names of the base classes that lie outside of the project."""
        return frozenset(str(base.ref) for cls in self.lineage() for base in cls.bases if base.kind is Kind.EXTERNAL)

    @cached_property
    def is_module(self) -> bool:
        """Whether it is an ``nn.Module``."""
        for name in self.external_bases:
            tail = name.rsplit(".", 1)[-1]
            if name in k.MODULE_BASES or tail in ("Module", "LightningModule", "ScriptModule"):
                return True
            if name.startswith(k.MODULE_PREFIXES) and not name.startswith(k.NOT_MODULES):
                return True
            if tail.endswith(("PreTrainedModel", "ForCausalLM", "ForSequenceClassification")):
                return True
        return False

    @cached_property
    def is_optimizer(self) -> bool:
        """Whether it is derived from an optimizer of torch."""
        return any(name.startswith("torch.optim.") for name in self.external_bases)

    @cached_property
    def has_foreign_base(self) -> bool:
        """Whether a base comes from a package that cannot be read, and may run its methods, in whatever mode."""
        known = (*k.NUMERIC_PACKAGES, *sys.stdlib_module_names, "torch")
        foreign = (name for name in self.external_bases if name.split(".", 1)[0] not in known)
        return not self.is_module and any(name.rsplit(".", 1)[-1] not in k.LIGHTNING_BASES for name in foreign)

    @cached_property
    def element(self) -> Value | None:
        """What an item of it is: of a ``dict`` subclass whose methods, or whose factory, make them all."""
        return objects.made_by_factory(self) or (self._member("") if objects.is_dict(self) else None)

    @cached_property
    def is_list(self) -> bool:
        """Whether it is a list with methods of its own, made as lists are."""
        return self.method("__init__") is None and objects.is_list(self)

    @cached_property
    def is_record(self) -> bool:
        """Whether it only holds what it is made of: a dataclass, a named tuple."""
        made_plainly = self.method("__init__") is None and not self.methods.keys() & {"__call__"}
        return made_plainly and not self.is_module and not self.is_list

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The names that its body annotates or binds, in order: what a record is made of."""
        found: list[str] = []
        for stmt in self.define.body:
            if isinstance(stmt, t.Declare) and stmt.kind == "annotation":
                found += stmt.names
            elif isinstance(stmt, t.Assign):
                found += [target.id for target in stmt.targets if isinstance(target, t.Name)]
        return tuple(found)

    @cached_property
    def replaced_fields(self) -> frozenset[str]:
        """The fields of a dataclass that do not keep what they are given: ``InitVar``, or a number of it."""
        method = self.method("__post_init__")
        statements = method.define.statements if method is not None else ()
        assigned = (s for s in statements if isinstance(s, t.Assign) and _is_number(s.value))
        bound = (t.path_of(target) or "" for stmt in assigned for target in stmt.targets)
        passed_on = _INIT_VAR.findall(self.chunk.text)
        return frozenset((*passed_on, *(path[5:] for path in bound if path.startswith("self."))))

    @cached_property
    def framework_methods(self) -> bool:
        """Whether a framework calls its ``validation_step`` and the like."""
        return any(n.rsplit(".", 1)[-1] in _TRAINERS for n in self.external_bases)

    def attribute(self, name: str) -> Value | None:
        """What kind of object ``self.name`` is, from the assignments to it; None when nothing is known."""
        if name not in self._attributes:
            self._attributes[name] = None  # a recursive question has no answer
            self._attributes[name] = self._find_attribute(name)
        return self._attributes[name]

    def _find_attribute(self, name: str) -> Value | None:
        from gradguard.static.reading.places import kind_of

        for cls in self.lineage():
            for ref, value in cls._assignments.get(name, ()):
                found = kind_of(ref, value)
                if found.kind in (Kind.UNKNOWN, Kind.OUTPUT) and cls._runs(name):
                    return Value(kind=Kind.MODULE)
                if found.kind is Kind.UNKNOWN and cls._is_part(name, ref, value):
                    return Value(kind=Kind.MODULE)
                if found.kind in (Kind.UNKNOWN, Kind.OUTPUT, Kind.TENSOR) and self._is_model(name, value):
                    return Value(kind=Kind.MODULE)
                if found.kind is Kind.LOADER and f"self.{name}" in self.modules:
                    return Value(kind=Kind.MODULE)  # `self.net = generator.cuda()`: by that name it may be either
                if found.holding(Held.FROZEN) and parameters.may_learn_again(self, name):
                    found = learning(found)
                if found.kind is Kind.CONTAINER and not found.parts and cls._holds_bounded(name):
                    return each_of(found._replace(bounded=True))
                if found.kind is Kind.CONTAINER and not found.parts and (made := cls._member(name)) is not None:
                    return each_of(made)._replace(bounded=found.bounded)
                if found.kind not in (Kind.UNKNOWN, Kind.NOTHING) or found.roots or found.parts:
                    return found.with_roots(Root(Source.LEAF, value)) if name in cls._leaves else found
        return None

    def _is_model(self, name: str, value: t.Expr) -> bool:
        """Whether what some call gives is named, and used, as only a module is: ``self.model = torch.load(path)``."""
        path = f"self.{name}"
        return isinstance(value, t.Call) and path in self.modules and named_kind(path) is Kind.MODULE

    def _is_part(self, name: str, ref: FunctionRef, value: t.Expr) -> bool:
        """Whether a module keeps, and runs, a part of a module of unknown class: ``self.features = self.net.base``.

        What is called so is a method where some module of the program has one of that name.
        """
        from gradguard.static.reading.places import kind_of

        if not self.is_module or self.freezes_some or not isinstance(value, t.Attribute):
            return False
        calls = (call for other in self.methods.values() for call in other.calls)
        if not any(call.args and t.path_of(call.func) == f"self.{name}" for call in calls):
            return False
        whole = kind_of(ref, value.value)
        survey = self.module.project.survey
        is_of_module = whole.kind is Kind.MODULE and whole.ref is None
        return is_of_module and not survey.methods_of_modules(value.name, self.module)

    def _member(self, name: str) -> Value | None:
        """What its methods put into the collection ``self.name``, or itself: objects of one class of the project."""
        made = [ref.module.value_of(v.func) if isinstance(v, t.Call) else None for ref, v in self._items.get(name, ())]
        cls = made[0].ref if made and made[0] is not None else None
        alike = all(v is not None and v.kind is Kind.CLASS and v.ref is cls for v in made)
        is_object = isinstance(cls, Class) and not cls.is_module
        return Value(kind=Kind.INSTANCE, ref=cls) if is_object and alike else None

    def _holds_bounded(self, name: str) -> bool:
        """Whether what its methods store in ``self.name`` by key drops old elements: ``x[k] = deque(maxlen=9)``."""
        from gradguard.static.reading.places import kind_of

        stored = self._items.get(name, ())
        return bool(stored) and all(kind_of(ref, value).bounded for ref, value in stored)

    @cached_property
    def _items(self) -> dict[str, list[tuple[FunctionRef, t.Expr]]]:
        """What its methods put into ``self.name``, by key or at the end; what they put into itself under no name."""
        return objects.items_stored(self)

    @cached_property
    def words_put(self) -> frozenset[str]:
        """The words under which its methods put something, in whatever dict."""
        return frozenset(w for cls in self.lineage() for ref in cls.methods.values() for w in ref.words_put)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The attributes that are modules: what an ``nn.Module`` is made of."""
        names = self.assigned_names
        return tuple(n for n in names if (part := self.attribute(n)) is not None and part.kind is Kind.MODULE)

    @cached_property
    def assigned_names(self) -> tuple[str, ...]:
        """The attributes that its methods, or its bases', assign."""
        return tuple(dict.fromkeys(name for cls in self.lineage() for name in cls._assignments))

    @cached_property
    def other_paths(self) -> dict[str, str]:
        """The paths by which its parts have what it has itself: ``self.head.memory``, which is ``self.memory``."""
        return same_object.other_paths(self)

    def assigned(self, name: str) -> list[tuple[t.Define, t.Expr]]:
        """What its methods assign to ``self.name``, each with the method."""
        return [(ref.define, value) for ref, value in self._assignments.get(name, ())]

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The attributes that its constructor declares as numbers: ``self.n = n``, given ``n: float = 0``."""
        method = self.methods.get("__init__")
        params = method.define.params if method is not None else []
        declared = {p.name for p in params if p.annotation is not None and t.path_of(p.annotation) in _NUMBERS}
        return frozenset(
            name for name, values in self._assignments.items()
            if all(isinstance(value, t.Name) and ref is method and value.id in declared for ref, value in values)
        )  # fmt: skip

    @cached_property
    def _leaves(self) -> frozenset[str]:
        """The attributes whose gradients its methods ask for: ``self.log_alpha.requires_grad = True``."""
        return frozenset(re.findall(r"\bself\.(\w+)\.requires_grad(?:_\(|\s*=\s*True)", self.chunk.program))

    @cached_property
    def _assignments(self) -> dict[str, list[tuple[FunctionRef, t.Expr]]]:
        """``self.name = value`` statements by name, those of ``__init__`` first, and last what goes on from itself.

        ``self.net = self.net.cuda()`` is what ``self.net = Net()`` made it.
        """
        found: dict[str, list[tuple[FunctionRef, t.Expr]]] = {}
        written = (*self.methods.values(), *self.setters.values())
        for ref in sorted(written, key=lambda r: r.define.name != "__init__"):
            for stmt in ref.define.statements:
                if isinstance(stmt, t.Assign):
                    for target, value in t.pairs(stmt.targets, stmt.value):
                        if isinstance(target, t.Attribute) and t.path_of(target.value) == "self":
                            found.setdefault(target.name, []).append((ref, value))
        self._add_fields(found)
        return {name: sorted(values, key=lambda made: _goes_on(name, made[1])) for name, values in found.items()}

    def _add_fields(self, found: dict[str, list[tuple[FunctionRef, t.Expr]]]) -> None:
        """What the class's own body assigns: ``history: list = field(default_factory=list)``."""
        script = FunctionRef(self.module, t.Define(None, "<class>", [], [], []), self.chunk)
        for stmt in self.define.body:
            if not isinstance(stmt, t.Assign) or not isinstance(stmt.targets[0], t.Name):
                continue
            value = stmt.value
            factory = value.argument("default_factory") if isinstance(value, t.Call) else None
            made = t.made_by(factory, value.origin) if factory is not None else value
            found.setdefault(stmt.targets[0].id, []).append((script, made))

    @cached_property
    def is_dataset(self) -> bool:
        """Whether it is a map-style ``torch.utils.data.Dataset``, of this name in whatever package."""
        return any(n.rsplit(".", 1)[-1].endswith("Dataset") for n in self.external_bases)

    @cached_property
    def is_autograd_function(self) -> bool:
        """Whether it is a ``torch.autograd.Function``."""
        return any(n.startswith("torch.") and n.endswith("autograd.Function") for n in self.external_bases)

    @cached_property
    def object_lists(self) -> tuple[Site, ...]:
        """The statements of the constructor that make lists or dicts of Python objects, as long as their input."""
        return objects.object_lists(self)

    @cached_property
    def gives_members(self) -> bool:
        """Whether it is a data set whose items are the objects that it keeps."""
        return self.is_dataset and objects.gives_members(self)

    @cached_property
    def self_cycles(self) -> tuple[Site, ...]:
        """The statements by which an object holds itself: ``self.act = lambda x: self.scale * x``."""
        return objects.self_cycles(self)

    @cached_property
    def holds_model(self) -> bool:
        """Whether an object of it has a module or an optimizer, each of its own."""
        constructor = self.method("__init__")
        return constructor is not None and constructor.chunk.shows(_MODEL)

    @cached_property
    def may_learn(self) -> bool:
        """Whether it may have parameters; where not, what it returns has a graph only if what it is given has."""
        return parameters.may_learn(self)

    @cached_property
    def may_have_parameters(self) -> bool:
        """Whether an object of just this class may have parameters, whatever its heirs do."""
        return parameters.may_have_parameters(self)

    @cached_property
    def is_frozen(self) -> bool:
        """Whether none of its parameters asks for gradients, unless somebody wants it otherwise."""
        return parameters.is_frozen(self)

    def is_frozen_as(self, made: t.Call) -> bool:
        """Whether none asks for gradients of the object that a call makes, which may choose."""
        return parameters.is_frozen(self, made)

    @cached_property
    def frozen_parts(self) -> frozenset[str]:
        """The paths of what it freezes when it is made: ``self.teacher``."""
        return parameters.frozen_parts(self)

    @cached_property
    def freezes_some(self) -> bool:
        """Whether something in it, or its bases, says which parameters want gradients."""
        return any("requires_grad" in cls.chunk.text for cls in self.lineage())

    @cached_property
    def wraps_frozen(self) -> bool:
        """Whether all modules in it are frozen by themselves."""
        memo_of(self)["wraps_frozen"] = False  # one that holds its own kind
        return parameters.wraps_frozen(self)

    @cached_property
    def modules(self) -> frozenset[str]:
        """The attributes (``self.net``) that its methods, or its bases', use as only modules are used."""
        methods = (ref for cls in self.lineage() for ref in cls.methods.values())
        return frozenset(path for ref in methods for path in ref.modules if path.startswith("self."))

    def _runs(self, name: str) -> bool:
        """Whether its ``forward`` runs what is made by a class that it is given: ``self.net = base(dim)``."""
        if not self.is_module:
            return False
        start, forward = self.methods.get("__init__"), self.methods.get("forward")
        if start is None or forward is None:
            return False
        given = {param.name for param in start.define.params}
        made = (value for ref, value in self._assignments.get(name, ()) if ref is start)
        is_made = any(isinstance(v, t.Call) and isinstance(v.func, t.Name) and v.func.id in given for v in made)
        calls = (node.func for node in forward.define.all(t.Call) if node.args)
        return is_made and any(t.path_of(func) == f"self.{name}" for func in calls)

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The attributes by which its methods choose between two values: ``self.total += a if self.whole else b``."""
        tests = (
            node.test
            for cls in self.lineage()
            for ref in cls.methods.values()
            for node in ref.define.nodes
            if isinstance(node, t.Conditional)
        )
        paths = (tested_flag(test)[0] or word_asked(test) or "" for test in tests)
        return tuple(sorted({path[5:] for path in paths if path.startswith("self.") and path[5:].isidentifier()}))

    @cached_property
    def trains(self) -> bool:
        """Whether it has something to train, so that what it computes, and what comes into it, carries graphs."""
        if any("Norm" in n for n in self.external_bases):
            return True
        if re.search(r"\bParameter\(|\b(?:nn|torch\.nn)\.(?!Module\b)[A-Z]\w*\(", self.chunk.program) is not None:
            return True
        return any(map(self._runs, self._assignments))

    @cached_property
    def registers_buffers(self) -> bool:
        """Whether it, or a base of it, has buffers, by whatever names."""
        return any("register_buffer(" in cls.chunk.program for cls in self.lineage())

    @cached_property
    def buffers(self) -> frozenset[str]:
        """Names given to ``register_buffer``."""
        own = frozenset(re.findall(r"register_buffer\(\s*['\"](\w+)['\"]", self.chunk.program))
        normalizes = any("BatchNorm" in n or "_NormBase" in n for n in self.external_bases)
        return own | {"running_mean", "running_var"} if normalizes else own


def _is_number(value: t.Expr) -> bool:
    """Whether an expression has no graph by what is written last: ``float(x.norm())``, ``self.loss.detach()``."""
    if not isinstance(value, t.Call):
        return False
    if isinstance(value.func, t.Attribute):
        return value.func.name in k.BREAKING_METHODS
    return t.path_of(value.func) in ("float", "int", "str", "bool")


def _goes_on(name: str, value: t.Expr) -> bool:
    """Whether what an attribute is bound to is made of what it was."""
    return any(isinstance(node, t.Attribute) and t.path_of(node) == f"self.{name}" for node in t.walk(value))

"""Names across files: which file an import means, what a class inherits, what a called function does.

Other files are read on demand, when a name leads there; nothing is imported or run.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gradguard.findings import FileError
from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.asked import Questions
from gradguard.static.faults import fault
from gradguard.static.files.gate import SourceError
from gradguard.static.files.outline import SCRIPT, Outline
from gradguard.static.files.texts import Texts
from gradguard.static.memo import Remembers, cached_property
from gradguard.static.program import names_told
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.imports import Imports
from gradguard.static.program.passed import Passed
from gradguard.static.program.paths import is_part
from gradguard.static.program.survey import Survey
from gradguard.static.program.without_grad import Site, WithoutGrad
from gradguard.static.screen import Selection, calling
from gradguard.static.source import Chunk, Source, from_bytes, read
from gradguard.static.values import Kind, Value, is_blank

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_Asked: TypeAlias = set[tuple["Module", str]]

_MAX_REEXPORTS = 6
_TEST_LIBRARY = re.compile(r"^\s*(?:import|from)\s+(?:unittest|pytest)\b", re.M)
_TEST_CASE = re.compile(r"^class\s+\w+\([^)\n]*\bTestCase\b", re.M)
_UNIT_TESTS = re.compile(r"^\s*class\s+Test|^\s*def\s+test_\w*\((?:self\b|\))", re.M)
_COLLECTED = re.compile(r"^\s*class\s+Test|^\s*def\s+test_\w*\(", re.M)


@dataclass(eq=False, repr=False)
class Module(Remembers):
    """One file of the project."""

    project: Project
    source: Source
    path: Path | None
    outline: Outline
    _functions: dict[str, FunctionRef] = field(default_factory=dict)
    _classes: dict[str, Class] = field(default_factory=dict)
    _values: dict[str, Value | None] = field(default_factory=dict)

    @cached_property
    def holds_tests(self) -> bool:
        """Whether it holds unit tests, whose `test_...` functions do not evaluate models; `test_net.py` may do that."""
        path = self.path if self.path is not None else Path(self.source.path)
        named = path.name.startswith("test_") or path.name.endswith("_test.py") or "tests" in path.parts
        if not named:
            return _TEST_CASE.search(self.source.text) is not None
        if _TEST_LIBRARY.search(self.source.text) is not None:
            return True
        # A script that evaluates takes arguments; `def test_transform():` is what it does to its images.
        # What pytest collects in a folder of tests is given its fixtures.
        tests = _COLLECTED if path.name.startswith("test_") and "tests" in path.parts else _UNIT_TESTS
        return "argparse" not in self.outline.imported_roots and tests.search(self.source.text) is not None

    @cached_property
    def is_numeric(self) -> bool:
        """Whether it computes with NumPy, and imports nothing that knows tensors: a `model` is no network there."""
        others = self.outline.imported_roots - sys.stdlib_module_names
        return "numpy" in others and others <= k.NUMERIC_PACKAGES and "from ." not in self.source.text

    @cached_property
    def owners_of_models(self) -> frozenset[str]:
        """The names of objects whose models it takes, as no optimizer has any: ``solver`` of ``solver.model(x)``."""
        return names_told.owners(self.source.text)

    @cached_property
    def names_of_modules(self) -> frozenset[str]:
        """The variables that it uses somewhere as only modules are used, ``enc.parameters()``, and freezes nowhere."""
        return names_told.modules(self.source.text) - self.names_of_frozen

    @cached_property
    def evaluated_by_script(self) -> frozenset[str]:
        """The globals that its own statements put into evaluation mode, and nothing in it into the other one."""
        return names_told.evaluated(self.source.text)

    @cached_property
    def names_of_frozen(self) -> frozenset[str]:
        """The variables that it uses somewhere as modules whose parameters want no gradients."""
        return names_told.frozen(self.source.text)

    @cached_property
    def uses_device(self) -> bool:
        """Whether it puts something on a GPU."""
        text = self.source.text
        on_cpu = re.search(r"torch\.device\(\s*['\"]cpu", text) and "cuda" not in text
        return (
            not on_cpu and re.search(r"\.cuda\(|\.to\([^)\n]*(?i:\bdev\b|device|cuda|gpu)|\bdevice=", text) is not None
        )

    @cached_property
    def torch(self) -> str | None:
        """The name that the module gives to torch at its top level."""
        return next((name for name, dotted in self.outline.imports.items() if dotted == "torch"), None)

    @cached_property
    def uses_torch(self) -> bool:
        """Whether it imports torch, or everything of a file that does, or is imported by one."""
        return self.names_torch or any(map(self.project.survey.serves_torch, self._with_star_imports()))

    @cached_property
    def names_torch(self) -> bool:
        """Whether it imports torch itself, or everything of a file that does."""
        return any(module._imports(k.TORCH_LIBRARIES) for module in self._with_star_imports())

    def _imports(self, libraries: frozenset[str]) -> bool:
        return not self.outline.imported_roots.isdisjoint(libraries)

    def _with_star_imports(self) -> list[Module]:
        """It, and each file of which it imports everything, in any number of steps; none that uses another library.

        Of one that imports torch, nothing more is asked. Files may import everything of each other.
        """
        found: list[Module] = []
        waiting = [self]
        while waiting:
            module = waiting.pop()
            if module in found:
                continue
            if module._imports(k.TORCH_LIBRARIES):
                return [module]
            if not module._imports(k.OTHER_LIBRARIES):
                found.append(module)
                places = (self.project.find(base, module) for base in module.outline.star_imports)
                waiting += [place[0] for place in places if place is not None]
        return found

    def function(self, name: str) -> FunctionRef | None:
        if name not in self._functions and name in self.outline.functions:
            chunk = self.source.chunk(self.outline.functions[name])
            define = next((s for s in _statements(chunk) if isinstance(s, t.Define)), None)
            if chunk is None or define is None:
                return None
            self._functions[name] = FunctionRef(self, define, chunk)
        return self._functions.get(name)

    def klass(self, name: str) -> Class | None:
        if name not in self._classes and name in self.outline.classes:
            chunk = self.source.chunk(self.outline.classes[name])
            define = next((s for s in _statements(chunk) if isinstance(s, t.DefineClass)), None)
            if chunk is None or define is None:
                return None
            self._classes[name] = Class(self, define, chunk)
        return self._classes.get(name)

    def script(self) -> FunctionRef | None:
        """The module's own statements, as a function."""
        chunk = self.source.script_chunk()
        if chunk is None:
            return None
        define = t.Define(None, SCRIPT, [], chunk.statements, [])
        return FunctionRef(self, define, chunk)

    def functions(self, selection: Selection, errors: list[FileError] | None = None) -> Iterator[FunctionRef]:
        """The chosen functions and methods of the module, and its own statements if they are chosen too."""

        def attempt(read: Callable[[], Iterable[FunctionRef]]) -> Iterable[FunctionRef]:
            try:
                return read()
            except SourceError as error:
                if errors is not None:
                    errors.append(FileError(self.source.path, error.line, str(error)))
                return ()

        for name in self.outline.functions:
            if selection.has_function("", name):
                yield from attempt(lambda name=name: [f] if (f := self.function(name)) else [])  # type: ignore[misc]
        for name in self.outline.classes:
            if selection.has_class(name):
                yield from attempt(lambda name=name: self._methods(name, selection))  # type: ignore[misc]
        if selection.has_function("", SCRIPT):
            yield from attempt(lambda: [s] if (s := self.script()) else [])

    def _methods(self, name: str, selection: Selection) -> list[FunctionRef]:
        """The chosen methods of a class, with what it inherits if it is chosen as an heir."""
        cls = self.klass(name)
        if cls is None:
            return []
        written = (*cls.methods.items(), *cls.setters.items())
        own = [ref for method, ref in written if selection.has_function(name, method)]
        inherited = cls.inherited_methods() if name in selection.heirs else ()
        return own + [r for c, r in inherited if selection.has_inherited(c.module.source, c.name, r.define.name)]

    # --- names ---

    def resolve(self, name: str) -> Value | None:
        """What a module-level name refers to; None when the module does not bind it."""
        if name not in self._values:
            self._values[name] = None
            self._values[name] = self._resolve(name, set())
        return self._values[name]

    def _resolve(self, name: str, asked: _Asked) -> Value | None:
        """The same, on the way from another file.

        What a file on the way answers is not kept: in a cycle of imports it is not asked for all that it knows.

        Args:
            asked: the names that were asked of files on the way here, which this one joins.
        """
        known = self._values.get(name)
        if known is not None or (self, name) in asked:
            return known
        asked.add((self, name))
        if name in self.outline.functions:
            function = self.function(name)
            return Value(kind=Kind.FUNCTION, ref=function) if function else Value()
        if name in self.outline.classes:
            cls = self.klass(name)
            return Value(kind=Kind.CLASS, ref=cls) if cls else Value()
        if name in self.outline.imports:
            return self._imported(self.outline.imports[name], asked)
        if name in self.outline.variables:
            return self._variable(name)
        if name.startswith("__") or hasattr(builtins, name):
            return None  # nobody means what a star import may hide
        for base, path in self._stars:
            found = self.project.binding(name, path) if path is not None else None
            if found is not None and found is not self:
                value = found._resolve(name, asked)
                if value is not None:
                    return value
            elif base.startswith(("torch", "math", "numpy")) and found is None and not name.startswith("_"):
                return None
        return self._as_usual(name)

    @cached_property
    def _stars(self) -> tuple[tuple[str, Path | None], ...]:
        """What star imports name, each with the file that it leads to."""
        return tuple((base, self.project.file_of(base, self)) for base in self.outline.star_imports)

    def _as_usual(self, name: str) -> Value | None:
        """What ``nn`` and the like mean where they can only come from a star import of a file that is not found."""
        dotted, known = k.USUAL_NAMES.get(name), (*k.OTHER_LIBRARIES, *sys.stdlib_module_names)
        if dotted is None or self.path is None:
            return None
        others = (path for base, path in self._stars if base.lstrip(".").split(".", 1)[0] not in known)
        lost = any(path is None for path in others)
        return Value(kind=Kind.EXTERNAL, ref=dotted) if lost else None

    def bound_to(self, name: str) -> list[t.Expr]:
        """What its own statements bind a global to, one by one."""
        extents = self.outline.variables.get(name, ())
        try:
            statements = [stmt for extent in extents for stmt in _statements(self.source.chunk(extent))]
        except SourceError:
            return []
        assigned = (stmt for stmt in statements if isinstance(stmt, t.Assign))
        pairs = (pair for stmt in assigned for pair in t.pairs(stmt.targets, stmt.value))
        return [value for target, value in pairs if t.path_of(target) == name]

    def _variable(self, name: str) -> Value:
        from gradguard.static.program.handed import registered
        from gradguard.static.reading.places import kind_of

        for extent in self.outline.variables[name][:3]:
            chunk = self.source.chunk(extent)
            try:
                statements = _statements(chunk)
            except SourceError:
                continue
            for stmt in statements:
                if isinstance(stmt, t.Assign):
                    script = FunctionRef(self, t.Define(None, "<module>", [], [], []), chunk)  # type: ignore[arg-type]
                    value = kind_of(script, stmt.value)
                    if value.kind not in (Kind.UNKNOWN, Kind.NOTHING) and t.path_of(stmt.targets[0]) == name:
                        return registered(self, name) or value if is_blank(value) else value
        return Value()

    def imported(self, dotted: str) -> Value:
        """What an imported dotted name (with leading dots when relative) refers to."""
        return self._imported(dotted, set())

    def _imported(self, dotted: str, asked: _Asked) -> Value:
        found = self.project.find(dotted, self)
        if found is None:
            return Value(kind=Kind.EXTERNAL, ref=_known_as(dotted.lstrip(".")))
        module, rest = found
        if not rest:
            return self._of_package(dotted, module, asked) or Value(kind=Kind.EXTERNAL, ref=module)
        value: Value | None = module._resolve(rest[0], asked)
        for name in rest[1:]:
            value = member(value, name) if value else None
        return value or Value()

    def _of_package(self, dotted: str, module: Module, asked: _Asked) -> Value | None:
        """What a package binds to the name of a file of its own: ``from .Net import Net`` in its ``__init__.py``."""
        package, _, name = dotted.rpartition(".")
        found = self.project.find(package, self) if package.strip(".") else None
        if found is None or found[1] or found[0] in (self, module):
            return None
        value: Value | None = found[0]._resolve(name, asked)
        return value if value is not None and value.kind in (Kind.CLASS, Kind.FUNCTION) else None

    def dotted(self, name: str) -> Value | None:
        """What ``package.module.name`` written in this module refers to."""
        head, *rest = name.split(".")
        value = self.resolve(head) if head else None
        for part in rest:
            value = member(value, part) if value is not None else None
        return value

    def value_of(self, expr: t.Expr) -> Value:
        """What a dotted expression at module level refers to (base classes, decorators)."""
        if isinstance(expr, t.Name):
            return self.resolve(expr.id) or Value()
        if isinstance(expr, t.Attribute):
            return member(self.value_of(expr.value), expr.name) or Value()
        if isinstance(expr, t.Subscript):
            return self.value_of(expr.value)
        return Value()


def member(value: Value, name: str) -> Value | None:
    """``value.name`` for packages, modules and classes."""
    if value.kind is Kind.EXTERNAL:
        if isinstance(value.ref, Module):
            return value.ref.resolve(name) or value.ref.imported(f".{name}")
        return Value(kind=Kind.EXTERNAL, ref=f"{value.ref}.{name}")
    if isinstance(value.ref, Class) and value.kind is Kind.CLASS:
        method = value.ref.method(name)
        return Value(kind=Kind.FUNCTION, ref=method) if method else None
    return None


def _statements(chunk: Chunk | None) -> list[t.Stmt]:
    return chunk.statements if chunk is not None else []


class Project:
    """The files that a run may read.

    Args:
        files: the files being checked, for questions about all of them (see ``survey``).
        shown: how a path is written in findings.
        relevant: those of the files that are about torch; all of them when not given.
        texts: what they hold.
        noted: what each file asks about the others is noted, for a run that comes later.
    """

    def __init__(
        self,
        files: Iterable[Path] = (),
        shown: Callable[[Path], str] = str,
        relevant: Iterable[Path] | None = None,
        texts: Texts | None = None,
        noted: bool = True,
    ) -> None:
        self.files = tuple(files)
        self.relevant = self.files if relevant is None else tuple(relevant)
        self.shown = shown
        self.texts = texts or Texts()
        self._flows: dict[tuple[Module, Selection], list[Flow]] = {}
        self._modules: dict[Path, Module | None] = {}
        self._facts: dict[tuple[t.Define, Class | None, object], Flow | None] = {}
        self._reading: dict[tuple[t.Define, Class | None, object], Flow] = {}
        self._wrappers: dict[t.Define, FunctionRef | None] = {}
        self._origins: dict[tuple[str, Path, int], tuple[Path, ...]] = {}
        self._without_grad = WithoutGrad(self)
        self.imports = Imports(self.files)
        self.questions = Questions(noted)
        self.survey = Survey(self)
        self.passed = Passed(self.survey)

    def add(self, source: Source, path: Path | None) -> Module:
        """Read a file's outline; a file that was read on demand before stays the module that others know.

        Raises:
            SourceError: it is not Python.
        """
        known = self._modules.get(path) if path is not None else None
        if known is not None and known.source.data == source.data:
            return known
        module = Module(self, source, path, source.outline)
        if path is not None:
            self._modules[path] = module
        return module

    @property
    def others(self) -> set[Path]:
        """The files that were read because a name led there, and are none of those checked."""
        return self._modules.keys() - set(self.files)

    def source(self, path: Path) -> Source:
        """The text of a file.

        Raises:
            SourceError: it cannot be opened, decoded, or is not a notebook.
        """
        data = self.texts.data.get(path)
        if data is None:
            return read(path, self.shown(path))
        return from_bytes(data, self.shown(path), notebook=path.suffix == ".ipynb")

    def module(self, path: Path) -> Module | None:
        """The file as a module, read on demand; None when it cannot be read."""
        if path not in self._modules:
            self._modules[path] = None
            try:
                module = self.add(self.source(path), path)
                module.source.forget()  # little of it will be read
                return module
            except SourceError:
                return None
        return self._modules[path]

    def flow(self, ref: FunctionRef) -> Flow | None:
        """What a function does; None while it is being read (recursion)."""
        from gradguard.static.flow import Flow

        key = (ref.define, ref.owner, ref.variant)
        if key not in self._facts:
            self._facts[key] = None
            flow = self._reading[key] = Flow(self, ref)
            try:
                flow.run()
            except RecursionError:
                raise SourceError("nested too deeply to be analysed", ref.chunk.first_line) from None
            finally:
                del self._reading[key]
            self._facts[key] = flow
        return self._facts[key]

    def within(self, ref: FunctionRef) -> list[FunctionRef]:
        """The functions that are defined within one; while it is being read, those that were met so far."""
        flow = self.flow(ref) or self._reading.get((ref.define, ref.owner, ref.variant))
        return flow.nested if flow is not None else []

    def wrapper(self, ref: FunctionRef) -> FunctionRef | None:
        """What runs in place of a function because of its decorators, where that matters."""
        from gradguard.static.program.decorated import wrapper_of

        if ref.define not in self._wrappers:
            self._wrappers[ref.define] = None
            self._wrappers[ref.define] = wrapper_of(self, ref)
        return None if ref.is_bare else self._wrappers[ref.define]

    def flows(self, module: Module, selection: Selection, errors: list[FileError] | None = None) -> list[Flow]:
        """What each chosen function of a module does, and each that is defined within one.

        Args:
            errors: receives what could not be analysed.
        """
        key = (module, selection)
        if key not in self._flows:
            self._flows[key] = []
            queue = [ref for ref in module.functions(selection, errors) if _has_shape(selection, ref)]
            while queue:
                ref = queue.pop(0)
                try:
                    flow = self.flow(ref)
                except SourceError as error:
                    if errors is not None:
                        errors.append(FileError(module.source.path, error.line, str(error)))
                    continue
                except Exception as wrong:
                    if errors is None:
                        raise
                    errors.append(fault(module.source.path, wrong, f" in `{ref.qualified}`"))
                    continue
                if flow is not None:
                    self._flows[key].append(flow)
                    queue += flow.nested
        return self._flows[key]

    def called_without_grad(self, ref: FunctionRef) -> bool:
        """Whether every call of a function that can be seen happens where no graph is recorded."""
        return self._without_grad.holds_for(ref)

    def calls_with_modes(self, ref: FunctionRef) -> list[Site]:
        """The functions that call one, each with the gradient mode in which it does (reads other files)."""
        return self._without_grad.calls(ref)

    def may_be_called_without_grad(self, ref: FunctionRef) -> bool:
        """Whether some call of a function may happen where no graph is recorded."""
        return self._without_grad.may_hold_for(ref)

    def is_left_to_others(self, ref: FunctionRef) -> bool:
        """Whether nobody is seen to call a function but, perhaps, the base class of another package."""
        return self._without_grad.is_left_to_others(ref)

    def calling(self, ref: FunctionRef, name: str = "") -> Iterator[Flow]:
        """What the functions do that mention one of this name, in its program, where few do; not while one is read.

        A template of a base comes twice, also as it runs with what the class of this one fills in.

        Args:
            name: the name that they mention, where it is another: a constructor is called by that of its class.
        """
        for module, selection in self._mentioning(ref, name):
            yield from self.flows(module, selection)
        templates = ref.owner.templates_of(ref.define.name) if ref.owner is not None else ()
        yield from (flow for template in templates if (flow := self.flow(template)) is not None)

    def written_calling(self, ref: FunctionRef, *, name: str = "", anywhere: bool = False) -> Iterator[FunctionRef]:
        """The same functions as they are written.

        Args:
            name: as above.
            anywhere: also those of files that name nothing of this one: an object may be handed to them.
        """
        for module, selection in self._mentioning(ref, name, anywhere=anywhere):
            yield from module.functions(selection)

    def _mentioning(
        self, ref: FunctionRef, name: str = "", *, anywhere: bool = False
    ) -> Iterator[tuple[Module, Selection]]:
        name = name or ref.define.name
        if not self.survey.is_called_by_many(name, ref.module):
            found = self.survey.callers_anywhere if anywhere else self.survey.callers
            callers = tuple(found(name, ref.module))
            self.uses(ref.module, callers)
            yield from ((module, calling(module.source, name)) for module in callers)

    def uses(self, module: Module, others: Iterable[Module]) -> None:
        """Note that what is said of a module depends on others."""
        self.questions.of(module.path).files.update(other.path for other in others if other.path is not None)

    # --- files ---

    def find(self, dotted: str, importer: Module) -> tuple[Module, list[str]] | None:
        """The project file that a dotted name leads to, and what remains of the name inside it."""
        place = self._place(dotted, importer)
        module = self.module(place[0]) if place is not None else None
        return (module, place[1]) if place is not None and module is not None else None

    def file_of(self, dotted: str, importer: Module) -> Path | None:
        """The file that a dotted name leads to; it is not read."""
        place = self._place(dotted, importer)
        return place[0] if place is not None else None

    def _place(self, dotted: str, importer: Module) -> tuple[Path, list[str]] | None:
        asked = self.questions.of(importer.path)
        asked.names.update(name for name in dotted.split(".") if name)
        place = self.imports.place(dotted, importer.path) if importer.path is not None else None
        if place is not None:
            asked.files.add(place[0])
        return place

    def binding(self, name: str, path: Path) -> Module | None:
        """A file that may bind a name, also to what a star import brings; one whose text does not is not read."""
        return self.module(path) if self._may_bind(path, name) else None

    def origins(self, dotted: str, importer: Path | None, depth: int = 0) -> tuple[Path, ...]:
        """The files that a dotted name leads through: a package, and what it imports the name from; none is read."""
        if importer is None:
            return ()
        key = (dotted, importer, depth)
        if key not in self._origins:
            self.questions.of(importer).names.update(name for name in dotted.split(".") if name)
            self._origins[key] = tuple(dict.fromkeys(self._led_through(dotted, importer, depth)))
        return self._origins[key]

    def _led_through(self, dotted: str, importer: Path, depth: int) -> Iterator[Path]:
        place = self.imports.place(dotted, importer)
        if place is None:
            return
        yield place[0]
        package = self.module(place[0]) if place[1] and place[0].stem == "__init__" and depth < _MAX_REEXPORTS else None
        if package is not None:
            name = package.outline.imports.get(place[1][0])
            bases = (name,) if name else (f"{base}.{place[1][0]}" for base in package.outline.star_imports)
            for base in bases:
                yield from self.origins(base, package.path, depth + 1)

    def _may_bind(self, path: Path, name: str) -> bool:
        if self.texts.holds("import *", path) or name in self.texts.imported(path):
            return True
        if not self.texts.holds(name, path):
            return False
        bound = rf"^\s*(?:(?:async\s+)?def|class)\s+{name}\b|\b{name}\b[^=\n]*="
        return re.search(bound, self.texts.of(path), re.M) is not None


def _has_shape(selection: Selection, ref: FunctionRef) -> bool:
    return selection.has_shape(ref.owner.name if ref.owner is not None else "", ref.define)


def _known_as(dotted: str) -> str:
    """The name that something of another package is known by here: pylab has all that pyplot has."""
    known = (own + dotted[len(other) :] for other, own in k.OTHER_NAMES.items() if is_part(dotted, other))
    return next(known, dotted)

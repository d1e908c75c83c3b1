"""All the code that knows an object, where it does nothing to it but run it, move it, and save it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gradguard.static import tree as t
from gradguard.static.files.lines import lines_with
from gradguard.static.files.outline import SCRIPT
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.made_objects import Place as Caller
from gradguard.static.program.made_objects import callers
from gradguard.static.program.own_methods import methods_of
from gradguard.static.project import Module, Project
from gradguard.static.screen import everything

_HARMLESS = frozenset("to cuda cpu float half double bfloat16 train eval type forward state_dict zero_grad".split())
_READING = frozenset("item tolist detach size dim".split())
_SHOWING = frozenset("print type isinstance add_scalar add_scalars info debug warning format".split())
_WRAPPING = ("DataParallel", "DistributedDataParallel", "DDP", "compile")
# What makes one, `models.vgg16(pretrained=True).features`, and what one is told of its name reach none that is there.
_OF_OTHERS = re.compile(r"\bmodels\.\w+\([^()\n]*\)(?:\.\w+)?|\bname\s*=\s*(?:\"\w*\"|'\w*')")
_MAX_PLACES = 40
_MAX_DEPTH = 5


class Place(NamedTuple):
    """A function that knows the object, and the path by which it does."""

    ref: FunctionRef
    path: str


def places(
    project: Project,
    ref: FunctionRef,
    path: str,
    methods: frozenset[str] = frozenset(),
    *,
    in_modules: bool = False,
    is_done: bool = False,
) -> list[Place] | None:
    """Where an object is known that a function makes; None where something else may become of it (reads other files).

    Args:
        path: of the variable, or the attribute, that it is bound to.
        methods: what may be called of it, besides what any module has.
        in_modules: it may be a part of a module: what becomes of that is for the caller to ask.
        is_done: the function may return it, where its callers do nothing else to it either.
    """
    search = _Search(project, methods, in_modules, is_done)
    return search.found if search.follow(ref, path) else None


class _Search:
    def __init__(self, project: Project, methods: frozenset[str], in_modules: bool, is_done: bool) -> None:
        self.project, self.methods = project, methods | _HARMLESS
        self.in_modules, self.is_done = in_modules, is_done
        self.found: list[Place] = []

    def follow(self, ref: FunctionRef, path: str, depth: int = 0) -> bool:
        """Whether nothing else becomes of what a function knows by a path."""
        if any(place.ref.define is ref.define and place.path == path for place in self.found):
            return True
        if depth > _MAX_DEPTH or len(self.found) > _MAX_PLACES:
            return False
        if path.startswith("self."):
            return self._in_object(ref, path, depth)
        if ref.define.name == SCRIPT:
            return self._in_script(ref, path, depth)
        return self._in_function(ref, path, depth)

    def _in_object(self, ref: FunctionRef, path: str, depth: int) -> bool:
        owner = ref.owner
        if owner is None or (owner.is_module and not self.in_modules) or owner.has_foreign_base:
            return False
        if self._is_known_outside(owner, path.removeprefix("self.")):
            return False
        methods = methods_of(owner)
        if any(_gives_itself(node) for method in methods for node in method.define.nodes):
            return False
        return all(self._in_function(method, path, depth) for method in methods)

    def _in_script(self, ref: FunctionRef, path: str, depth: int) -> bool:
        if self._is_imported(ref.module, path):
            return False
        others = (each for each in ref.module.functions(everything(ref.module.source)) if each.define is not ref.define)
        using = [each for each in others if path in each.mentioned and path not in each.names[0]]
        if any(path in each.names[1] for each in using):
            return False
        return self._in_function(ref, path, depth) and all(self._in_function(e, path, depth) for e in using)

    def _in_function(self, ref: FunctionRef, path: str, depth: int) -> bool:
        self.found.append(Place(ref, path))
        seen: set[int] = set()
        for node in ref.define.nodes:
            if not self._handed_on(ref, node, path, depth):
                return False
            seen.update(id(each) for each in _harmless(node, path, self.methods))
            seen.update(id(each) for each in _given(node, path))
            seen.update(id(each) for each in _in_turn(node, path))
            if isinstance(node, t.Return) and self.is_done and not depth and not path.startswith("self."):
                returned = list(_returned(node, path))
                if not all(self._into_callers(ref, place, depth) for _, place in returned):
                    return False
                seen.update(id(item) for item, _ in returned)
        return all(id(node) in seen for node in ref.define.nodes if _is_at(node, path))

    def _handed_on(self, ref: FunctionRef, node: t.Node, path: str, depth: int) -> bool:
        """Whether nothing else becomes of it where a node hands it on."""
        if isinstance(node, t.Assign):
            kept = [target for target, value in t.pairs(node.targets, node.value) if _is_at(value, path)]
            return all(self._kept(ref, target, path, depth) for target in kept)
        if not isinstance(node, t.Call) or node.name in _SHOWING:
            return True
        if node.name == "locals":
            return False
        positions = [n for n, arg in enumerate(node.args) if _is_at(arg.value, path)]
        if positions and any(is_wrapped(value, path) and value is node for value in ref.assigned.get(path, [])):
            return True
        called = _called(ref, node) if positions else None
        return all(self._into(called, node, position, depth) for position in positions)

    def _kept(self, ref: FunctionRef, target: t.Expr, path: str, depth: int) -> bool:
        """Whether nothing else becomes of it under another name: ``self.criterion = criterion``."""
        kept = t.path_of(target) or ""
        is_attribute = kept.startswith("self.") and kept.count(".") == 1 and "[" not in kept
        return is_attribute and path != kept and self.follow(ref, kept, depth + 1)

    def _into(self, called: FunctionRef | None, call: t.Call, position: int, depth: int) -> bool:
        """Whether nothing else becomes of it in the function that is given it."""
        arg = call.args[position]
        if called is None or arg.star or any(each.star for each in call.args[:position]):
            return False
        names = [param.name for param in called.define.params if not param.star]
        names = names[1:] if called.owner is not None and names[:1] == ["self"] else names
        name = arg.keyword or (names[position] if position < len(names) else None)
        return name in names and name is not None and self.follow(called, name, depth + 1)

    def _into_callers(self, ref: FunctionRef, place: int | None, depth: int) -> bool:
        """Whether nothing else becomes of it where a function is called that returns it.

        Args:
            place: which part of what is returned it is; None where it is the whole.
        """
        inside, self.found = self.found, list(self.found)  # what becomes of it then is no part of what is asked
        is_harmless = all(self._into_caller(caller, call, place, depth) for caller, call in callers(ref))
        self.found = inside
        return is_harmless

    def _into_caller(self, caller: Caller, call: t.Call, place: int | None, depth: int) -> bool:
        if caller.ref is None or call in caller.ref.calls_for_effect:
            return caller.ref is not None
        bound = (stmt for stmt in caller.ref.define.statements if isinstance(stmt, t.Assign) and stmt.value is call)
        target = next((stmt.targets[0] for stmt in bound if len(stmt.targets) == 1), None)
        if place is not None:
            items = target.items if isinstance(target, t.Display) else []
            target = items[place] if place < len(items) else None
        return isinstance(target, t.Name) and self.follow(caller.ref, target.id, depth + 1)

    def _is_known_outside(self, owner: Class, name: str) -> bool:
        """Whether other code may reach the attribute, or the class has heirs."""
        survey, outside = self.project.survey, re.compile(rf"(?<!\bself)\.{name}\b|['\"]{name}['\"]")
        texts = survey.texts_used(name, owner.module, outside)
        lines = (_OF_OTHERS.sub("", line.text) for text in texts for line in lines_with(name, text))
        return any(outside.search(line) is not None for line in lines) or survey.is_base(owner.name, owner.module)

    def _is_imported(self, module: Module, name: str) -> bool:
        """Whether another file may use a variable of a script."""
        stem = module.path.stem if module.path is not None else ""
        imports = re.compile(rf"\bimport\b[^#\n]*\b{name}\b|\b{re.escape(stem)}\.{name}\b|\b(?:globals|vars)\(\)")
        return self.project.survey.mentions(imports, module)


def is_wrapped(value: t.Expr, path: str) -> bool:
    """Whether an object is put into what runs it otherwise: ``nn.DataParallel(criterion)``."""
    if not isinstance(value, t.Call) or value.name not in _WRAPPING or not value.args:
        return False
    return _is_at(value.args[0].value, path)


def _called(ref: FunctionRef, call: t.Call) -> FunctionRef | None:
    """The function of the program that a call runs: also a constructor, or a method of an object that is made there."""
    func = call.func
    found: object = ref.module.value_of(func).ref
    if isinstance(func, t.Attribute):
        owner = t.path_of(func.value)
        made = ref.assigned.get(owner or "", [])
        maker = made[0] if len(made) == 1 else None
        cls = (
            ref.owner if owner == "self" else ref.module.value_of(maker.func).ref if isinstance(maker, t.Call) else None
        )
        found = cls.method(func.name) if isinstance(cls, Class) else found
    if isinstance(found, Class):
        found = None if found.is_module or found.is_optimizer else found.method("__init__")
    return found if isinstance(found, FunctionRef) else None


def _is_at(node: t.Node, path: str) -> bool:
    if isinstance(node, t.Name):
        return node.id == path
    return isinstance(node, t.Attribute) and t.path_of(node) == path


def _given(node: t.Node, path: str) -> Iterator[t.Node]:
    """Where it is handed on: an argument, or what an attribute is bound to."""
    given = [arg.value for arg in node.args] if isinstance(node, t.Call) else []
    given += [value for _, value in t.pairs(node.targets, node.value)] if isinstance(node, t.Assign) else []
    yield from (each for each in given if _is_at(each, path))


def _harmless(node: t.Node, path: str, methods: frozenset[str]) -> Iterator[t.Node]:
    """Where it is run, moved, saved, or shown."""
    if isinstance(node, t.Assign):
        yield from (name for target in node.targets for name in t.names_in(target) if _is_at(name, path))
    elif isinstance(node, t.Text) or (isinstance(node, t.Call) and node.name in _SHOWING):
        yield from (
            each for each in t.walk(node.parts if isinstance(node, t.Text) else list(node.args)) if _is_at(each, path)
        )
    elif isinstance(node, t.Operation) and node.operator in ("is", "is not"):  # None, where there may be none
        yield from (each for each in node.operands if _is_at(each, path))
    elif isinstance(node, t.Call) and _is_at(node.func, path):
        yield node.func
    elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute):
        of = node.func.value
        if _is_at(of, path) and node.func.name in methods:
            yield of
        elif isinstance(of, t.Attribute) and _is_at(of.value, path) and node.func.name in _READING:
            yield of.value


def _returned(stmt: t.Return, path: str) -> Iterator[tuple[t.Node, int | None]]:
    """Where a function gives it back, each with which part of what it returns that is."""
    if stmt.value is not None and _is_at(stmt.value, path):
        yield stmt.value, None
    items = stmt.value.items if isinstance(stmt.value, t.Display) else []
    yield from ((item, place) for place, item in enumerate(items) if _is_at(item, path))


def _in_turn(node: t.Node, path: str) -> Iterator[t.Node]:
    """Where it is one of several that a loop puts into a mode, or moves: ``for net in (a, b): net.train()``."""
    if (
        not isinstance(node, t.Repeat)
        or not isinstance(node.iterable, t.Display)
        or not isinstance(node.target, t.Name)
    ):
        return
    name, inside = node.target.id, list(t.walk(node.body))
    harmless = {id(each) for part in inside for each in _harmless(part, name, _HARMLESS)}
    if all(id(part) in harmless for part in inside if _is_at(part, name)):
        yield from (item for item in node.iterable.items if _is_at(item, path))


def _gives_itself(node: t.Node) -> bool:
    """Whether a method hands its object to somebody, who may take all parameters out of it."""
    if isinstance(node, t.Call):
        is_super = isinstance(node.func, t.Name) and node.func.id == "super"
        return not is_super and any(_is_at(arg.value, "self") for arg in node.args)
    if isinstance(node, t.Assign | t.Return):
        return node.value is not None and _is_at(node.value, "self")
    return isinstance(node, t.Attribute) and node.name == "__dict__"

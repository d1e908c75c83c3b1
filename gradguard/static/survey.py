"""Questions about all files of a project: who clears this attribute, who calls this function, and with what.

They are answered from text and ``ast``, and asked only where a finding depends on the answer.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gradguard.static.definitions import Class, FunctionRef
    from gradguard.static.project import Module, Project

# Methods that somebody outside of the project calls.
_CALLED_BY_OTHERS = re.compile(r"^(?:on_\w+|__\w+__|forward|training_step|\w+_epoch_end|setup|teardown|main|<module>)$")
_CALL = re.compile(r"(?<!def )\b([A-Za-z_]\w*)\(")
_IMPORTS = re.compile(r"^[ \t]*(?:from|import)[ \t]+(?:[^\n(]*\([^)]*\)|[^\n]*)", re.M)
_WORD = re.compile(r"[A-Za-z_]\w*")
_TORCH = re.compile(r"^\s*(?:from|import)\s+(?:torch|pytorch_lightning|lightning)\b", re.M)
_DEFINITION = re.compile(r"\s*(?:async\s+)?def\s+(\w+)")
_GRADIENTS = re.compile(r"^[^#\n]*(?:backward\(|(?<![\w.])grad\(|autograd\.grad\()", re.M)
_MAX_PASSES = 4
MANY_CALLERS = 50
_AT_START = ("__init__", "__post_init__", "__new__")


class Survey:
    """What is known of all files together."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._texts: dict[Path, str] = {}
        self._calls: dict[Path, _Calls] = {}
        self._called: dict[tuple[str, Path | None], bool] = {}
        self._programs: dict[Path, set[Path]] = {}
        self._mentioned: dict[tuple[re.Pattern[str], Path | None], bool] = {}
        self._import_words: dict[Path, set[str]] = {}
        self._backwards: dict[str, set[tuple[str, int]]] = {}
        self._arguments: dict[tuple[Module, str, str], set[Class]] = {}

    @cached_property
    def _callers(self) -> dict[str, list[Path]]:
        """The relevant files by the names that are called in them."""
        found: defaultdict[str, list[Path]] = defaultdict(list)
        for path in self.project.relevant:
            for name in set(_CALL.findall(self.text(path))):
                found[name].append(path)
        return found

    def text(self, path: Path) -> str:
        if path not in self._texts:
            try:
                self._texts[path] = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                self._texts[path] = ""
        return self._texts[path]

    def _related_texts(self, near: Module) -> Iterator[str]:
        """The texts of the files that share a program with ``near``: what imports it, and all that those import."""
        yield near.source.text
        for path in self._related(near):
            if path != near.path:
                yield self.text(path)

    def _related(self, near: Module) -> set[Path]:
        if near.path is None:
            return set()
        if near.path not in self._programs:
            users = _closure({near.path}, lambda p: self._importers.get(module_name(p), set()))
            self._programs[near.path] = _closure(
                users, lambda p: set().union(*(self._files_named.get(w, set()) for w in self._imported(p)))
            )
        return self._programs[near.path]

    def _imported(self, path: Path) -> set[str]:
        """Every name in a file's import statements."""
        if path not in self._import_words:
            self._import_words[path] = imported_names(self.text(path))
        return self._import_words[path]

    @cached_property
    def _files_named(self) -> dict[str, set[Path]]:
        found: defaultdict[str, set[Path]] = defaultdict(set)
        for path in self.project.files:
            found[module_name(path)].add(path)
        return found

    @cached_property
    def _importers(self) -> dict[str, set[Path]]:
        found: defaultdict[str, set[Path]] = defaultdict(set)
        for path in self.project.files:
            for word in self._imported(path):
                found[word].add(path)
        return found

    def serves_torch(self, module: Module) -> bool:
        """Whether a file that imports torch imports this one: callbacks, meters, buffers need no torch themselves."""
        if module.path is None:
            return False
        users = self._importers.get(module_name(module.path), ())
        return any(_TORCH.search(self.text(user)) for user in users if user != module.path)

    def mentions(self, pattern: re.Pattern[str], near: Module) -> bool:
        """Whether a file of the program that ``near`` belongs to matches."""
        key = (pattern, near.path)
        if key not in self._mentioned:
            self._mentioned[key] = any(pattern.search(text) for text in self._related_texts(near))
        return self._mentioned[key]

    def clears(self, attribute: str, near: Module, function: str, *, anew: bool = False) -> bool:
        """Whether something empties or rebinds an attribute of this name after its object was made.

        Args:
            near: the module that stores into it.
            function: the one that does; what it does itself was read more closely.
            anew: only what binds it anew counts: what `clear()` of a class of the project clears was read.
        """
        return any(self._is_called(method, near) for method in self._clearing(attribute, near, function, anew=anew))

    def empties(self, attribute: str, near: Module, function: str, bare: bool = False) -> bool:
        """Whether any function does so, also one that nothing here calls.

        Args:
            bare: it is a global, written without an object before it.
        """
        return any(True for _ in self._clearing(attribute, near, function, bare))

    def _clearing(
        self, attribute: str, near: Module, function: str, bare: bool = False, anew: bool = False
    ) -> Iterator[str]:
        for text in self._related_texts(near):
            if attribute in text:
                own = function if text is near.source.text else ""
                yield from _clearing_methods(attribute, text, anew) - {own}
                if bare:
                    yield from _clearing_methods(attribute, _with_object(attribute, text)) - {own, "<module>"}

    def _is_called(self, method: str, near: Module) -> bool:
        """Whether a function runs at all: something calls it that runs, or that a user of the project may call."""
        if not self._trains:
            return True  # a library without a training loop: its users call what they need
        return self._runs(method, near, frozenset())

    def _runs(self, method: str, near: Module, seen: frozenset[str]) -> bool:
        if _CALLED_BY_OTHERS.match(method):
            return True
        key = (method, near.path)
        if key not in self._called:
            users = {user for text in self._related_texts(near) if method in text for user in _users(method, text)}
            users -= {method, *_AT_START}  # what a constructor calls, it does once
            self._called[key] = any(u not in seen and self._runs(u, near, seen | {method}) for u in users)
        return self._called[key]

    @cached_property
    def _trains(self) -> bool:
        return any(".backward(" in self.text(path) for path in self.project.relevant) or not self.project.relevant

    def backwards(self, near: Module) -> set[tuple[str, int]]:
        """Path and line of each place in the program of ``near`` where a graph is handed to backward, as text tells."""
        if near.source.path not in self._backwards:
            found = {(near.source.path, line) for line in _lines_matching(_GRADIENTS, near.source.text)}
            for path in self._related(near) - {near.path}:
                found |= {(self.project.shown(path), line) for line in _lines_matching(_GRADIENTS, self.text(path))}
            self._backwards[near.source.path] = found
        return self._backwards[near.source.path]

    def is_called_by_many(self, name: str) -> bool:
        """Whether so many files call functions of this name that it does not tell which one is called."""
        return len(self._callers.get(name, ())) > MANY_CALLERS

    def callers(self, name: str, near: Module) -> Iterator[Module]:
        """The modules that may call a function of this name."""
        yield near
        others = [path for path in self._callers.get(name, ()) if path != near.path]
        related = self._related(near) if others else set()
        for path in others:
            if path in related:
                module = self.project.module(path)
                if module is not None:
                    yield module

    def callers_anywhere(self, name: str, near: Module) -> Iterator[Module]:
        """The modules of all files in which a function of this name is called."""
        yield near
        for path in self._callers.get(name, ()):
            module = self.project.module(path) if path != near.path else None
            if module is not None:
                yield module

    def argument_class(self, ref: FunctionRef, param: str) -> Class | None:
        """The class of the project that every call seen passes as ``param``, if it is one (or copies of it)."""
        params = [p.name for p in ref.define.params]
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
            if self.is_called_by_many(name):
                return set()
            found = self._arguments[key]
            for caller in self.callers(name, module):
                calls = self._calls_of(caller)
                found |= set(calls.classes(name, param, position))
                for passing in calls.passing(name, param, position) if depth < _MAX_PASSES else ():
                    found |= self._classes_of(
                        caller, passing.function, passing.owner, passing.params, passing.param, depth + 1
                    )
        return set(self._arguments[key])

    def _calls_of(self, module: Module) -> _Calls:
        key = module.path or Path(module.source.path)
        if key not in self._calls:
            self._calls[key] = _Calls(module)
        return self._calls[key]


def _lines_matching(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    """The lines, from 1, on which a match of one line ends."""
    return (text.count("\n", 0, match.end()) + 1 for match in pattern.finditer(text))


class _Passing(NamedTuple):
    """A function that hands one of its own parameters on."""

    function: str
    owner: str
    params: list[str]
    param: str


class _Calls:
    """The calls in one file, and what its variables are made with."""

    def __init__(self, module: Module) -> None:
        self.module = module

    @cached_property
    def _tree(self) -> tuple[dict[str, list[tuple[ast.Call, _Scope]]], dict[str, list[ast.expr]]]:
        calls: defaultdict[str, list[tuple[ast.Call, _Scope]]] = defaultdict(list)
        made: defaultdict[str, list[ast.expr]] = defaultdict(list)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(self.module.source.text)
        stack: list[tuple[ast.AST, _Scope]] = [(tree, ("<module>", "", []))]
        while stack:
            node, scope = stack.pop()
            if isinstance(node, ast.ClassDef):
                scope = (scope[0], node.name, scope[2])
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = node.args
                scope = (
                    node.name,
                    scope[1],
                    [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)],
                )
            elif isinstance(node, ast.Call):
                calls[_dotted(node.func).rsplit(".", 1)[-1]].append((node, scope))
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    for name, value in _pairs(target, node.value):
                        if isinstance(value, ast.Call):
                            made[_dotted(name)].append(value.func)
            stack.extend((child, scope) for child in ast.iter_child_nodes(node))
        return calls, made

    def _given(self, name: str, param: str, position: int) -> Iterator[tuple[ast.expr, _Scope]]:
        for call, scope in self._tree[0].get(name, ()):
            given = next((k.value for k in call.keywords if k.arg == param), None)
            if given is None and 0 <= position < len(call.args):
                given = call.args[position]
            if given is not None:
                yield given, scope

    def classes(self, name: str, param: str, position: int) -> Iterator[Class]:
        """The classes of what is passed as ``param`` where ``name`` is called."""
        from gradguard.static.definitions import Class

        for given, _ in self._given(name, param, position):
            makers = [given.func] if isinstance(given, ast.Call) else self._tree[1].get(_dotted(given), [])
            for maker in makers:
                value = self.module.dotted(_dotted(maker))
                if value is not None and isinstance(value.ref, Class):
                    yield value.ref

    def passing(self, name: str, param: str, position: int) -> Iterator[_Passing]:
        """The functions that pass a parameter of their own on as ``param``."""
        for given, (function, owner, params) in self._given(name, param, position):
            if isinstance(given, ast.Name) and given.id in params:
                yield _Passing(function, owner, params, given.id)


_Scope = tuple[str, str, list[str]]


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """``a, b = X(), Y()`` gives ``a, X()`` and ``b, Y()``."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts):
            yield from _pairs(one, other)
    else:
        yield target, value


def _closure(start: set[Path], step: Callable[[Path], set[Path]]) -> set[Path]:
    """What can be reached in any number of steps."""
    found, frontier = set(start), set(start)
    while frontier:
        frontier = set().union(*(step(p) for p in frontier)) - found
        found |= frontier
    return found


def imported_names(text: str) -> set[str]:
    """Every name in a file's import statements."""
    return {word for line in _IMPORTS.findall(text) for word in _WORD.findall(line)}


def module_name(path: Path) -> str:
    """The name that a file is imported by: a package's is its folder's."""
    return path.parent.name if path.stem == "__init__" else path.stem


def _dotted(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _functions(text: str) -> Iterator[tuple[str, str]]:
    """Each line with the function that it stands in, as far as the layout tells."""
    function = "<module>"
    for line in text.splitlines():
        match = _DEFINITION.match(line)
        if match is not None:
            function = match[1]
        elif line[:1].strip() and not line.startswith(("@", "class", ")", "]", "}", "#")):
            function = "<module>"
        if match is None or _DEFINITION.sub("", line, count=1).count(":") > 1:
            yield function, _without_comment(line)


def _without_comment(line: str) -> str:
    """A line without its comment, as far as the quotes before it tell."""
    start = line.find("#")
    while start >= 0:
        if line.count('"', 0, start) % 2 == 0 and line.count("'", 0, start) % 2 == 0:
            return line[:start]
        start = line.find("#", start + 1)
    return line


def _users(name: str, text: str) -> set[str]:
    """The functions of a file that mention another one."""
    pattern = re.compile(rf"\b{re.escape(name)}\b")
    return {function for function, line in _functions(text) if name in line and pattern.search(line)}


def _with_object(name: str, text: str) -> str:
    """The text with each use of a global written like that of an attribute."""
    return re.sub(rf"(?<![\w.]){re.escape(name)}\b", f"module.{name}", text)


def _clearing_methods(attribute: str, text: str, anew: bool = False) -> set[str]:
    """The functions of a file that empty or rebind ``x.attribute`` (or only rebind it), other than constructors."""
    name = re.escape(attribute)
    emptied = re.compile(
        rf"\.{name}\.(?:clear|pop|popleft|popitem)\(|\bdel\s[^\n]*\.{name}\b"
        rf"|\.{name}\[[^\]]*\]\s*=(?!=)\s*(?:\[|None|0)|setattr\([^,]+,\s*['\"]{name}['\"]"
    )
    rebound = re.compile(
        rf"\.{name}\s*(?::[^=]+)?=(?!=)|^[^=(]*,\s*[\w.]+\.{name}\s*=(?!=)|^\s*[\w.]+\.{name}\s*,[^=(]*=(?!=)"
    )
    from_itself = re.compile(rf"\.{name}\s*(?::[^=]+)?=(?!=).*\.{name}\b")
    each = re.compile(rf"\bfor\s+(?:\w+\s*,\s*)*(\w+)\s+in\s+[\w.]*\.{name}\b")
    found: set[str] = set()
    elements: set[tuple[str, str]] = set()
    for function, line in _functions(text):
        cleared = _CLEARED.search(line)
        if cleared is not None and (function, cleared[1]) in elements:
            found.add(function)  # for outputs in self.kept.values(): outputs.clear()
        if attribute not in line:
            continue
        if (loop := each.search(line)) is not None:
            elements.add((function, loop[1]))
        again = function not in _AT_START and rebound.search(line)
        if (not anew and emptied.search(line)) or (again and (_FRESH.search(line) or not from_itself.search(line))):
            found.add(function)
    return found


_CLEARED = re.compile(r"\b(\w+)\.(?:clear|pop|popleft|popitem)\(")
_FRESH = re.compile(r"=.*(?:\[\]|\{\}|\bNone\b|\blist\(\)|\bdict\(\)|\bdeque\()")

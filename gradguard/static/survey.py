"""Questions about all files of a project: who clears this attribute, who calls this function, and with what.

They are answered from text and ``ast``, and asked only where a finding depends on the answer.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradguard.static.project import Class, FunctionRef, Module, Project

# Methods that somebody outside of the project calls.
_CALLED_BY_OTHERS = re.compile(r"^(?:on_\w+|__\w+__|forward|training_step|\w+_epoch_end|setup|teardown|main|<module>)$")
_CALL = re.compile(r"(?<!def )\b([A-Za-z_]\w*)\(")
_AT_START = ("__init__", "__post_init__", "__new__")


class Survey:
    """What is known of all files together."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._texts: dict[Path, str] = {}
        self._calls: dict[Path, _Calls] = {}
        self._called: dict[str, bool] = {}

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

    def _all_texts(self, near: Module) -> Iterator[str]:
        yield near.source.text
        for path in self.project.files:
            if path != near.path:
                yield self.text(path)

    def clears(self, attribute: str, near: Module) -> bool:
        """Whether something empties or rebinds an attribute of this name after its object was made."""
        return any(
            self._is_called(method, near)
            for text in self._all_texts(near)
            if attribute in text
            for method in _clearing_methods(attribute, text)
        )

    def _is_called(self, method: str, near: Module) -> bool:
        if _CALLED_BY_OTHERS.match(method):
            return True
        if method not in self._called:
            pattern = re.compile(rf"(?<!def )\b{re.escape(method)}\b")
            self._called[method] = any(method in text and pattern.search(text) for text in self._all_texts(near))
        return self._called[method]

    def callers(self, name: str, near: Module) -> Iterator[Module]:
        """The modules that may call a function of this name."""
        yield near
        words = (near.path.parent.name if near.path.stem == "__init__" else near.path.stem) if near.path else ""
        for path in self._callers.get(name, ()):
            if path != near.path and self._imports(path, words, name):
                module = self.project.module(path)
                if module is not None:
                    yield module

    def _imports(self, path: Path, module: str, name: str) -> bool:
        """Whether a file may have imported ``name`` from ``module`` (or from a package that passes it on)."""
        text = self.text(path)
        return module in text or re.search(rf"import[^\n]*\b{re.escape(name)}\b", text) is not None

    def argument_class(self, ref: FunctionRef, param: str) -> Class | None:
        """The class of the project that every call seen passes as ``param``, if it is one."""
        params = [p.name for p in ref.define.params]
        name, position = ref.define.name, params.index(param)
        if ref.owner is not None and params[0] in ("self", "cls"):
            position -= 1
            name = ref.owner.name if name == "__init__" else name
        found: set[Class] = set()
        for module in self.callers(name, ref.module):
            for cls in self._calls_of(module).classes(name, param, position):
                found.add(cls)
        return found.pop() if len(found) == 1 else None

    def _calls_of(self, module: Module) -> _Calls:
        key = module.path or Path(module.source.path)
        if key not in self._calls:
            self._calls[key] = _Calls(module)
        return self._calls[key]


class _Calls:
    """The calls in one file, and what its variables are made with."""

    def __init__(self, module: Module) -> None:
        self.module = module

    @cached_property
    def _tree(self) -> tuple[dict[str, list[ast.Call]], dict[str, list[ast.expr]]]:
        calls: defaultdict[str, list[ast.Call]] = defaultdict(list)
        made: defaultdict[str, list[ast.expr]] = defaultdict(list)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(self.module.source.text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                calls[_dotted(node.func).rsplit(".", 1)[-1]].append(node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                for target in node.targets:
                    made[_dotted(target)].append(node.value.func)
        return calls, made

    def classes(self, name: str, param: str, position: int) -> Iterator[Class]:
        from gradguard.static.project import Class

        calls, made = self._tree
        for call in calls.get(name, ()):
            given = next((k.value for k in call.keywords if k.arg == param), None)
            if given is None and position < len(call.args):
                given = call.args[position]
            makers = [given.func] if isinstance(given, ast.Call) else made.get(_dotted(given), []) if given else []
            for maker in makers:
                value = self.module.dotted(_dotted(maker))
                if value is not None and isinstance(value.ref, Class):
                    yield value.ref


def _dotted(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _clearing_methods(attribute: str, text: str) -> set[str]:
    """The functions of a file that empty or rebind ``x.attribute``, other than constructors."""
    name = re.escape(attribute)
    emptied = re.compile(
        rf"\.{name}\.(?:clear|pop|popleft|popitem)\(|\bdel\s[^\n]*\.{name}\b"
        rf"|\.{name}\[[^\]]*\]\s*=(?!=)\s*(?:\[|None|0)|setattr\([^,]+,\s*['\"]{name}['\"]"
    )
    rebound = re.compile(rf"\.{name}\s*(?::[^=]+)?=(?!=)")
    from_itself = re.compile(rf"\.{name}\s*(?::[^=]+)?=(?!=).*\.{name}\b")
    found: set[str] = set()
    method = "<module>"
    for line in text.splitlines():
        match = re.match(r"\s*(?:async\s+)?def\s+(\w+)", line)
        if match is not None:
            method = match[1]
        elif line[:1].strip() and not line.startswith(("@", "class", ")")):
            method = "<module>"
        if emptied.search(line) or (method not in _AT_START and rebound.search(line) and not from_itself.search(line)):
            found.add(method)
    return found

"""Modules and parameters in a plain list or dict of a module: ``self.layers = [nn.Linear(8, 8) for _ in range(3)]``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.files.lines import lines_with
from gradguard.static.mistakes.optimizers import Unregistered
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.optimizers.trained_apart import is_handed_on, is_only_begun, is_trained_or_frozen, trains_itself
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.parameters import makes_its_own

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What registers parts under names that are not written there, hands out parameters otherwise, or freezes them.
_BY_OTHER_WAYS = re.compile(
    r"\b(?:setattr|add_module|register_module|register_parameter|__setattr__|__dict__|_modules|_parameters|"
    r"requires_grad\w*)\b|\bdef\s+(?:\w*parameters|add_module|modules|children|_apply|train|eval|to|cuda)\b"
)
_IMPORTS = re.compile(r"\s*(?:from|import)\b")
_REGISTERS = re.compile(r"(?:ModuleList|ModuleDict|Sequential|ParameterList|ParameterDict)$")
# What only goes through a collection.
_GOES_THROUGH = frozenset("enumerate zip len reversed range iter sum next sorted list tuple print isinstance".split())


def kept_in_collections(flow: Flow) -> dict[str, Unregistered]:
    """The attributes that are lists or dicts in which the constructor of a module puts what has parameters."""
    owner, ref = flow.ref.owner, flow.ref
    found: dict[str, Unregistered] = {}
    if owner is not None and ref.define.name == "__init__" and is_of_torch(owner):
        for name, stmt, made in _kept(ref):
            if name not in found and _is_plain(ref, name) and _is_used(owner, name):
                is_parameter = isinstance(made, t.Call) and made.name == "Parameter"
                found[name] = Unregistered(f"self.{name}", flow.site(stmt), "Parameter" if is_parameter else "Module")
    return found


def unregistered(flow: Flow, kept: dict[str, Unregistered]) -> list[Unregistered]:
    """Those of which the module does not learn in another way, and nobody else (reads other files)."""
    owner = flow.ref.owner
    if owner is None or any(cls.chunk.shows(_BY_OTHER_WAYS) for cls in owner.lineage()):
        return []
    unknown = [name for name in kept if not is_trained_or_frozen(owner, name)]
    return [kept[name] for name in unknown if not is_known_outside(flow, owner, name)]


def is_of_torch(owner: Class) -> bool:
    """Whether it is a module of torch: those of other libraries look into lists."""
    others = (name for name in owner.external_bases if not name.startswith("torch."))
    return owner.is_module and all(name.rpartition(".")[2] != "Module" for name in others)


def _kept(ref: FunctionRef) -> Iterator[tuple[str, t.Stmt, t.Expr]]:
    """The attributes into which something with parameters is put, the statements that do, and what makes it."""
    for stmt in ref.define.statements:
        for collection, value in _put(stmt):
            made = _bound_once(ref, value)
            if not is_made(ref, made) or _is_of_numbers(ref, made):
                continue
            if not trains_itself(ref, made) and not is_handed_on(ref, stmt, value):
                yield _attribute(_kept_as(ref, collection)), stmt, made


def _is_of_numbers(ref: FunctionRef, made: t.Expr) -> bool:
    """Whether an object of a class that only keeps what it is given is given nothing that has parameters."""
    cls = ref.module.value_of(made.func).ref if isinstance(made, t.Call) else None
    if not isinstance(made, t.Call) or not isinstance(cls, Class) or makes_its_own(cls):
        return False
    return not any(is_made(ref, _bound_once(ref, part)) for arg in made.args for part in _parts(arg.value))


def _parts(value: t.Expr) -> Iterator[t.Expr]:
    return (part for part in t.walk(value) if isinstance(part, t.Expr))


def _kept_as(ref: FunctionRef, collection: t.Expr) -> t.Expr:
    """The attribute that a local list becomes, and nothing else: ``self.layers = layers``."""
    if not isinstance(collection, t.Name):
        return collection
    name = collection.id
    given = [arg.value for node in ref.define.nodes if isinstance(node, t.Call) for arg in node.args]
    inner = [each.value if isinstance(each, t.Starred) else each for each in given]
    if any(isinstance(each, t.Name) and each.id == name for each in inner) or _is_registered(ref, name):
        return collection  # nn.Sequential(*layers)
    assigned = (stmt for stmt in ref.define.statements if isinstance(stmt, t.Assign) and len(stmt.targets) == 1)
    kept = [stmt.targets[0] for stmt in assigned if isinstance(stmt.value, t.Name) and stmt.value.id == name]
    return kept[0] if len(kept) == 1 else collection


def _put(stmt: t.Stmt) -> Iterator[tuple[t.Expr, t.Expr]]:
    """What a statement puts into which collections: ``a = [x, y]``, ``a["k"] = x``, ``a.append(x)``."""
    if isinstance(stmt, t.Assign) and len(stmt.targets) == 1:
        target = stmt.targets[0]
        if isinstance(target, t.Subscript):
            yield from ((target.value, each) for each in (stmt.value, *_elements(stmt.value)))
        else:
            yield from ((target, element) for element in _elements(stmt.value))
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) else None
    if isinstance(call, t.Call) and call.args and isinstance(func, t.Attribute) and func.name in ("append", "insert"):
        given = call.args[-1].value
        yield from ((func.value, each) for each in (given, *_elements(given)))


def _elements(value: t.Expr) -> Iterator[t.Expr]:
    """What a list, tuple or dict that is written out has in it; also one in another."""
    if isinstance(value, t.Display):
        items: list[t.Expr] = value.items
    elif isinstance(value, t.DictDisplay):
        items = [item for _, item in value.entries]
    elif isinstance(value, t.Comprehension) and value.kind != "generator":
        items = [value.element]
    else:
        items = []
    for item in items:
        yield item
        yield from _elements(item)


def _bound_once(ref: FunctionRef, value: t.Expr) -> t.Expr:
    """What a variable is bound to, if once: ``layer = nn.Linear(8, 8)``, ``self.layers.append(layer)``."""
    bound = ref.assigned.get(value.id, []) if isinstance(value, t.Name) else []
    return bound[0] if len(bound) == 1 else value


def _attribute(target: t.Expr) -> str:
    path = t.path_of(target) or ""
    return path.removeprefix("self.") if path.startswith("self.") else ""


def _is_plain(ref: FunctionRef, name: str) -> bool:
    """Whether an attribute is a list or a dict, and nothing else anywhere in the constructor."""
    bound = ref.assigned.get(f"self.{name}", []) if name.isidentifier() else []
    return bool(bound) and all(_is_collection(_bound_once(ref, value)) for value in bound)


def _is_collection(value: t.Expr) -> bool:
    if isinstance(value, t.Call) and isinstance(value.func, t.Name):
        return value.func.id in ("list", "dict", "tuple", "OrderedDict", "defaultdict")
    return isinstance(value, t.Display | t.DictDisplay | t.Comprehension)


def _is_used(owner: Class, name: str) -> bool:
    """Whether a method goes through the collection, or takes something out, and none hands it to somebody else."""
    path, used = f"self.{name}", False
    for method in (method for cls in owner.lineage() for method in cls.methods.values()):
        nodes, is_constructor = method.define.nodes, method.define.name == "__init__"
        if any(_hands_on(node, path) for node in nodes) or _is_registered(method, path):
            return False
        if is_constructor and any(_goes_through(node, path) for node in nodes) and not is_only_begun(nodes, path):
            return False  # what is taken out there may become an attribute
        used |= not is_constructor and any(_is_at(node, path) for node in nodes)
    return used


def _hands_on(node: t.Node, path: str) -> bool:
    """Whether a call is given the collection or a part, ``nn.ModuleList(self.layers)``; or it gets another name."""
    if isinstance(node, t.Call):
        given = [arg.value for arg in node.args]
        inner = [each.value if isinstance(each, t.Starred) else each for each in given]
        return any(_is_of(each, path) for each in inner) and node.name not in _GOES_THROUGH
    if isinstance(node, t.Return):
        return node.value is not None and _is_at(node.value, path)
    return isinstance(node, t.Assign) and _is_of(node.value, path)


def _is_registered(ref: FunctionRef, path: str) -> bool:
    """Whether a module is made of the collection, however: ``nn.ModuleList(sorted(self.layers, key=len))``.

    Also by way of variables: ``parts = list(self.parts.values())``, ``nn.Sequential(*parts)``.
    """
    registered = [arg.value for call in ref.calls if _REGISTERS.search(call.name) is not None for arg in call.args]
    waiting, seen = [path] if registered else [], {path}
    while waiting:
        asked = waiting.pop()
        if any(_has_parts_of(each, asked) for each in registered):
            return True
        made = [name for name, bound in ref.assigned.items() if any(_has_parts_of(each, asked) for each in bound)]
        waiting += [name for name in made if name.isidentifier() and name not in seen]
        seen.update(made)
    return False


def _has_parts_of(value: t.Expr, path: str) -> bool:
    """Whether an expression is made of what is in a collection, and not only of how much that is."""
    nodes = list(t.walk(value))
    counts = [node for node in nodes if isinstance(node, t.Call) and node.name == "len"]
    return _uses(nodes, path) > sum(_uses(t.walk(count), path) for count in counts)


def _uses(nodes: Iterable[t.Node], path: str) -> int:
    return sum(isinstance(node, t.Name | t.Attribute) and t.path_of(node) == path for node in nodes)


def _goes_through(node: t.Node, path: str) -> bool:
    """Whether a loop, or a comprehension, is over the collection."""
    over = [node.iterable] if isinstance(node, t.Repeat) else []
    over += [clause.iterable for clause in node.clauses] if isinstance(node, t.Comprehension) else []
    return any(_is_at(part, path) for part in t.walk(over))


def _is_of(node: t.Expr, path: str) -> bool:
    """Whether an expression is the collection, an element, or a list of elements: ``self.heads.values()``."""
    if isinstance(node, t.Display):
        return any(_is_of(item, path) for item in node.items)
    if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name in ("values", "items"):
        node = node.func.value
    while isinstance(node, t.Subscript):
        node = node.value
    return _is_at(node, path)


def _is_at(node: t.Node, path: str) -> bool:
    return isinstance(node, t.Attribute) and t.path_of(node) == path


def is_known_outside(flow: Flow, owner: Class, name: str, unless: str = "") -> bool:
    """Whether code besides the class uses what the attribute holds, or has a method that may.

    Args:
        unless: a regular expression for what may stand behind the name.
    """
    outside = re.compile(rf"(?<!\bself)\.{name}\b{unless}|['\"]{name}['\"]")
    texts = flow.project.survey.texts_used(name, flow.module, outside)
    lines = (line.text for text in texts for line in lines_with(name, text))
    if any(outside.search(line) is not None for line in lines if _IMPORTS.match(line) is None):
        return True
    return flow.project.survey.is_base(owner.name, flow.module)

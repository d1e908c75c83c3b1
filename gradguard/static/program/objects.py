"""What an object of a class holds: itself, by its own functions, and lists of Python objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.source import Site
from gradguard.static.values import Kind, Value

if TYPE_CHECKING:
    from gradguard.static.program.classes import Class
    from gradguard.static.program.functions import FunctionRef


def object_lists(cls: Class) -> tuple[Site, ...]:
    """The statements of a constructor that make lists or dicts of Python objects, as long as their input."""
    found = []
    for ref in (r for name in ("__init__", "__post_init__") if (r := cls.methods.get(name))):
        grown = _grown(ref.define)
        for stmt in ref.define.statements:
            for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
                path = t.path_of(target) or ""
                grows = (path in grown and _is_empty(value)) or t.path_of(value) in grown
                if path.startswith("self.") and (grows or _gives_objects(cls, value)):
                    found.append(Site(cls.chunk, stmt))
    return tuple(found)


def _gives_objects(cls: Class, value: t.Expr) -> bool:
    """Whether an expression makes a list or a dict of Python objects; a method that returns one, too."""
    name = (t.path_of(value.func) or "") if isinstance(value, t.Call) else ""
    if name.startswith("self.") and (ref := cls.methods.get(name[5:])) is not None:
        returned = (s.value for s in ref.define.statements if isinstance(s, t.Return))
        return any(isinstance(v, t.Comprehension) and _makes_objects(v) for v in returned)
    return _makes_objects(value)


def _makes_objects(value: t.Expr) -> bool:
    if isinstance(value, t.Comprehension):
        return value.kind in ("list", "dict")
    if isinstance(value, t.Call):
        name = t.path_of(value.func) or (value.func.name if isinstance(value.func, t.Attribute) else "")
        return name in _READERS or name.rsplit(".", 1)[-1] in _READERS
    return False


_READERS = ("json.load", "json.loads", "pickle.load", "readlines", "to_dict", "splitlines")


def _grown(define: t.Define) -> set[str]:
    """The paths that a function appends to in a loop."""
    calls = (n for r in t.walk(define) if isinstance(r, t.Repeat) for n in t.walk(r.body) if isinstance(n, t.Call))
    named = (c.func for c in calls if isinstance(c.func, t.Attribute) and c.func.name in ("append", "extend"))
    return {path for func in named if (path := t.path_of(func.value)) is not None}


def _is_empty(value: t.Expr) -> bool:
    return isinstance(value, t.Display | t.DictDisplay) and not (
        value.items if isinstance(value, t.Display) else value.entries
    )


def items_stored(cls: Class) -> dict[str, list[tuple[FunctionRef, t.Expr]]]:
    """What the methods of a class put into ``self.name``, by key or at the end; what they put into itself as ``""``."""
    found: dict[str, list[tuple[FunctionRef, t.Expr]]] = {}
    for ref in cls.methods.values():
        for stmt in ref.define.statements:
            for path, value in _puts(stmt):
                if path == "self" or (path.startswith("self.") and "." not in path[5:]):
                    found.setdefault(path[5:], []).append((ref, value))
    return found


def _puts(stmt: t.Stmt) -> Iterator[tuple[str, t.Expr]]:
    """The collections that a statement puts something into, each with that."""
    if isinstance(stmt, t.Assign):
        targets = (target for target in stmt.targets if isinstance(target, t.Subscript))
        holders = (target.value for target in targets if not _is_cut_of_entry(target, stmt.value))
        yield from ((t.path_of(holder) or "", stmt.value) for holder in holders)
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) and len(call.args) == 1 else None
    if isinstance(call, t.Call) and isinstance(func, t.Attribute) and func.name in ("append", "appendleft", "add"):
        yield t.path_of(func.value) or "", call.args[0].value


def _is_cut_of_entry(target: t.Subscript, value: t.Expr) -> bool:
    """Whether one entry is cut to a length, which says nothing of the others: ``rows["x"] = rows["x"][-20:]``."""
    is_cut = isinstance(value, t.Subscript) and isinstance(value.index, t.Slice)
    return is_cut and isinstance(target.index, t.Constant) and t.path_of(value.value) == t.path_of(target)  # type: ignore[attr-defined]


def is_given(cls: Class, name: str) -> bool:
    """Whether all that is ever assigned to an attribute is what whoever made the object gave it."""
    assigned = cls.assigned(name)
    return bool(assigned) and all(
        isinstance(value, t.Name) and any(p.name == value.id for p in define.params) for define, value in assigned
    )


def is_dict(cls: Class) -> bool:
    """Whether a class is derived from one of the dicts."""
    return _is_derived(cls, ("dict", "OrderedDict", "defaultdict", "UserDict"))


def is_list(cls: Class) -> bool:
    """Whether a class is derived from one of the lists."""
    return _is_derived(cls, ("list", "deque", "UserList"))


def _is_derived(cls: Class, names: tuple[str, ...]) -> bool:
    bases = (t.path_of(base) or "" for each in cls.lineage() for base in each.define.bases)
    return any(base.rsplit(".", 1)[-1] in names for base in bases)


def made_by_factory(cls: Class) -> Value | None:
    """What an item of a ``defaultdict`` subclass is that names its factory: ``super().__init__(Meter)``."""
    constructor = cls.methods.get("__init__")
    if constructor is None or not any(n.rsplit(".", 1)[-1] == "defaultdict" for n in cls.external_bases):
        return None
    for call in constructor.calls:
        if isinstance(call.func, t.Attribute) and call.func.name == "__init__" and call.args:
            made = cls.module.value_of(call.args[0].value)
            return Value(kind=Kind.INSTANCE, ref=made.ref) if made.kind is Kind.CLASS else None
    return None


def gives_members(cls: Class) -> bool:
    """Whether ``dataset[i]`` gives the very object that it keeps, not a new one."""
    getter = cls.method("__getitem__")
    returned = [s.value for s in getter.define.statements if isinstance(s, t.Return)] if getter else []
    return any(value is not None and _is_item_of_self(value) for value in returned)


def _is_item_of_self(value: t.Expr) -> bool:
    base, indexed = value, False
    while isinstance(base, t.Subscript | t.Attribute):
        indexed = indexed or isinstance(base, t.Subscript)
        base = base.value
    return indexed and isinstance(base, t.Name) and base.id == "self"


def self_cycles(cls: Class) -> tuple[Site, ...]:
    """The statements by which an object holds itself: ``self.act = lambda x: self.scale * x``."""
    found = []
    for ref in cls.methods.values():
        inner = {d.name: d for d in ref.define.body if isinstance(d, t.Define)}
        for stmt in ref.define.statements:
            if isinstance(stmt, t.Assign) and _holds_self(cls, stmt, inner):
                found.append(Site(cls.chunk, stmt))
    return tuple(found)


def _holds_self(cls: Class, stmt: t.Assign, inner: dict[str, t.Define]) -> bool:
    return any(
        isinstance(target, t.Attribute) and t.path_of(target.value) == "self" and _refers(cls, value, inner)
        for target, value in t.pairs(stmt.targets, stmt.value)
    )


def _refers(cls: Class, value: t.Expr, inner: dict[str, t.Define]) -> bool:
    """Whether an expression gives something that refers to ``self``: a function over it, a bound method."""
    if isinstance(value, t.Conditional):
        return _refers(cls, value.body, inner) or _refers(cls, value.orelse, inner)
    if isinstance(value, t.DictDisplay):
        return any(_refers(cls, item, inner) for _, item in value.entries)
    if isinstance(value, t.Display):
        return any(_refers(cls, item, inner) for item in value.items)
    if isinstance(value, t.Call):  # partial(self.f, 2), net.register_forward_hook(lambda ...: self...)
        name = value.func.name if isinstance(value.func, t.Attribute) else t.path_of(value.func) or ""
        keeps = name == "partial" or name in k.HOOK_METHODS
        return keeps and bool(value.args) and _refers(cls, value.args[0].value, inner)
    if isinstance(value, t.Attribute):
        return t.path_of(value.value) == "self" and value.name in cls.methods and not _is_free(cls, value.name)
    if isinstance(value, t.Lambda):
        return "self" not in [p.name for p in value.params] and _names_self(value.body)
    return isinstance(value, t.Name) and value.id in inner and _names_self(inner[value.id].body)


def _is_free(cls: Class, method: str) -> bool:
    """Whether a method is bound to nothing (a static method), or is a property."""
    names = [t.path_of(d.func if isinstance(d, t.Call) else d) or "" for d in cls.methods[method].define.decorators]
    return any(n in ("staticmethod", "property") or n.endswith("cached_property") for n in names)


def _names_self(body: object) -> bool:
    return any(isinstance(n, t.Name) and n.id == "self" for n in t.walk(body))

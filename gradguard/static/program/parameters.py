"""What a class of modules trains: whether it may have parameters at all, and whether it freezes them itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.paths import is_within
from gradguard.static.reading.conditions import tested_flag
from gradguard.static.tree import walk_statements
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.program.classes import Class

_BARE = re.compile(r"torch\.nn\.(?:Module|(?:modules\.loss\.)?(?!\w*With)\w*Loss)$")
"""What a class may inherit from elsewhere and still have nothing to train: the losses of ``torch.nn`` are such."""

_PLAIN = k.CONTAINER_BUILTINS | {"int", "float", "str", "bool", "len", "tuple", "range", "max", "min"}
_COUNTING = tuple("range min max int float round one_hot F.one_hot torch.nn.functional.one_hot".split())
_SETTINGS = frozenset(
    "device dtype layout reduction reduce size_average pos_weight ignore_index label_smoothing margin".split()
)
_NO_FLAGS: Mapping[str, bool] = {}
_PLAIN_MODULES = ("np.", "numpy.", "math.")
_THAWING = re.compile(
    r"requires_grad\s*=(?!\s*False\b)|requires_grad_\((?!\s*(?:requires_grad\s*=\s*)?False\b)|unfreeze"
)
_GIVING_ALL = ("parameters", "named_parameters")
_GIVING = ("register_parameter", "add_module", "register_module", "setattr", "Parameter")


def may_learn(cls: Class) -> bool:
    """Whether a module may have parameters: its own, those of layers that it makes, those of modules it is given.

    Of a class that only says what its heirs have to do, one of these is run.
    """
    forward = cls.method("forward")
    return forward is None or forward.is_abstract or may_have_parameters(cls)


def may_have_parameters(cls: Class) -> bool:
    """Whether an object of just this class may have some: a loss with ``__call__`` needs no ``forward``."""
    family = list(cls.lineage())
    return not _is_of_bare(family) or any(_may_make_parameters(each) for each in family)


def makes_its_own(cls: Class) -> bool:
    """Whether a module may have parameters whatever it is given: its own, or those of layers that it makes."""
    family = list(cls.lineage())
    return not _is_of_bare(family) or any(_may_make_parameters(each, of_given=False) for each in family)


def _is_of_bare(family: list[Class]) -> bool:
    """Whether what a class and its bases inherit from other packages has nothing to train."""
    strangers = (base.ref for each in family for base in each.bases if base.kind is not Kind.CLASS)
    return all(_BARE.match(str(base)) for base in strangers)


def _may_make_parameters(cls: Class, *, of_given: bool = True) -> bool:
    given: set[str] = set()
    for ref in cls.methods.values():
        plain = {p.name for p in ref.define.params if _is_plain(p)}
        for node in ref.define.nodes:
            if isinstance(node, t.Call) and (t.path_of(node.func) or "").rsplit(".", 1)[-1] in _GIVING:
                return True
        for path, value in _attributes_named(ref.define):
            if _may_bring_parameters(value, plain, cls):
                if not isinstance(value, t.Name):
                    return True
                given.add(path)
    return of_given and bool(given) and not given <= _used_as_numbers(cls) | _used_as_data(cls, given)


def _used_as_data(cls: Class, paths: set[str]) -> set[str]:
    """Those of some attributes with which it does nothing that one does with modules: they are tested, or numbers.

    A ``flag`` of ``if self.flag:``, a ``table`` of ``x / self.table.view(1, -1)``.
    """
    nodes = [node for ref in cls.methods.values() for node in ref.define.nodes]
    seen = {id(part) for node in nodes for part in _parts_of_data(node)}
    return paths - {path for node in nodes if id(node) not in seen and (path := _attribute(node)) in paths}


def _parts_of_data(node: t.Node) -> Iterator[t.Node]:
    """The parts of an expression or a statement that are numbers, truths or tensors, if they are not bound there."""
    if isinstance(node, t.Assign):
        yield from node.targets
    elif isinstance(node, t.If | t.Conditional | t.Repeat) and node.test is not None:
        yield from _tested(node.test)
    elif isinstance(node, t.Operation) and node.operator not in _CHOOSING:
        yield from node.operands
    elif isinstance(node, t.Attribute) and node.name in _OF_TENSORS:
        yield node.value


def _tested(test: t.Expr) -> Iterator[t.Expr]:
    yield test
    if isinstance(test, t.Operation) and test.operator in _CHOOSING:
        for operand in test.operands:
            yield from _tested(operand)


def _attribute(node: t.Node) -> str | None:
    """The path of an attribute of the object, ``self.table``."""
    return t.path_of(node) if isinstance(node, t.Attribute) and t.path_of(node.value) == "self" else None


_CHOOSING = ("and", "or")
_OF_TENSORS = k.DIFFERENTIABLE_METHODS | k.BREAKING_ATTRIBUTES | {"size", "dim"}


def _used_as_numbers(cls: Class) -> set[str]:
    """The attributes that it uses as only whole numbers are used: ``range(self.count)``, ``min(height, self.size)``."""
    nodes = (node for ref in cls.methods.values() for node in ref.define.nodes)
    given = (_plain_arguments(node) for node in nodes if isinstance(node, t.Call) and t.path_of(node.func) in _COUNTING)
    paths = (t.path_of(value) for values in given for value in values)
    return {path for path in paths if path is not None and path.startswith("self.")}


def _plain_arguments(call: t.Call) -> list[t.Expr]:
    """What a call is given one by one; not the one collection of which it takes the least or the largest."""
    values = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    return [] if len(values) < 2 and t.path_of(call.func) in ("min", "max") else values


def _is_plain(param: t.Param) -> bool:
    """Whether an argument is a setting: no module, and no list of modules.

    That is told by its default or its annotation, or it has the name that a setting has everywhere in torch.
    """
    return is_plain(param) or isinstance(param.default, t.DictDisplay | t.Display) or param.name in _SETTINGS


def is_plain(param: t.Param) -> bool:
    """Whether a parameter is no object of a class of the project: a number, a word, tensors, collections of these."""
    if isinstance(param.default, t.Constant) and param.default.value is not None:
        return True
    hint = param.annotation
    if hint is None or isinstance(hint, t.Constant):
        return False
    parts = (node for node in t.walk(hint) if isinstance(node, t.Name | t.Attribute))
    return all((node.id if isinstance(node, t.Name) else node.name) in k.PLAIN_TYPES for node in parts)


def _may_bring_parameters(value: t.Expr, plain: set[str], cls: Class | None = None) -> bool:
    """Whether what an attribute is bound to may be a module or a parameter, or hold one.

    Args:
        plain: the parameters of the function that are settings.
        cls: the class whose methods may be called for it.
    """
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and _is_of_tensors(value.func):
        value = value.func.value  # weight.to(device)
    if isinstance(value, t.Constant) or (t.path_of(value) or "").startswith(("self.", *_PLAIN_MODULES)):
        return False  # what another attribute is bound to is asked where that is done
    if isinstance(value, t.Name):
        return value.id not in plain
    if isinstance(value, t.Conditional):
        return any(_may_bring_parameters(way, plain, cls) for way in (value.body, value.orelse))
    if isinstance(value, t.Operation):
        parts = (part for part in value.operands if value.operator not in _OF_NUMBERS or not isinstance(part, t.Name))
        return any(_may_bring_parameters(part, plain, cls) for part in parts)
    if not isinstance(value, t.Call):
        nodes = (node for node in t.walk(value) if isinstance(node, t.Call | t.Name))
        return any(_may_bring_parameters(node, plain, cls) for node in nodes)
    name = t.path_of(value.func) or ""
    last = name.rsplit(".", 1)[-1]
    if last in k.WITHOUT_PARAMETERS or last.endswith("Loss"):
        return False
    of_torch = name.startswith("torch.") and name.count(".") == 1 and last not in ("load", "compile")
    is_plain = of_torch or name in _PLAIN or name.startswith(_PLAIN_MODULES)
    return not is_plain and not (cls is not None and name == f"self.{last}" and _makes_data(cls, last))


def _is_of_tensors(func: t.Attribute) -> bool:
    """Whether a function is a method by which tensors, or modules, become others: no ``torch.split``."""
    return func.name in k.DIFFERENTIABLE_METHODS and t.path_of(func.value) not in ("torch", "np", "numpy", "math")


# What is computed by these is no list of modules; a list may be added to another one, and be repeated.
_OF_NUMBERS = ("-", "*", "/", "//", "%", "**")


def _makes_data(cls: Class, name: str) -> bool:
    """Whether a method of a class returns what torch makes of data, without parameters: ``self.filters(size)``."""
    method = cls.method(name)
    returns = [stmt for stmt in method.define.statements if isinstance(stmt, t.Return)] if method is not None else []
    return bool(returns) and not any(s.value is not None and _may_bring_parameters(s.value, set()) for s in returns)


def is_frozen(cls: Class, made: t.Call | None = None) -> bool:
    """Whether none of its parameters learns: its constructor freezes them, or all modules that it wraps are frozen.

    Args:
        made: the call that makes the object, which may ask for it or not; the defaults decide where it is not known.
    """
    constructor = cls.methods.get("__init__")
    flags = flags_given(constructor.define.params[1:], made) if constructor is not None else {}
    body = constructor.define.body if constructor is not None else []
    return any(_freezes_all(stmt, flags) for stmt in chosen(body, flags)) or cls.wraps_frozen


def frozen_parts(cls: Class) -> frozenset[str]:
    """The paths of what its constructors freeze, and nothing in it asks for gradients of again: ``self.teacher``."""
    constructors = [each.methods["__init__"] for each in cls.lineage() if "__init__" in each.methods]
    if not any("requires_grad" in ref.chunk.text for ref in constructors):
        return frozenset()
    found = {path for ref in constructors for stmt in ref.define.body for path in frozen_by(stmt)}
    others = (ref for each in cls.lineage() for ref in each.methods.values() if ref not in constructors)
    made_anew = {path for ref in others for path, _ in _attributes_named(ref.define)}
    own = (path for path in found - made_anew if path.startswith("self."))
    return frozenset(path for path in own if not may_learn_again(cls, path.removeprefix("self.")))


def may_learn_again(cls: Class, name: str) -> bool:
    """Whether something in a class asks for gradients again of what is frozen, or gives it a new part."""
    family = list(cls.lineage())
    methods = (ref for each in family for ref in each.methods.values())
    inner = (path for ref in methods for path, _ in _attributes_named(ref.define))
    return thaws(cls) or any(is_within(p, f"self.{name}") for p in inner)


def thaws(cls: Class) -> bool:
    """Whether something in a class asks for gradients of what it has frozen."""
    return any(each.chunk.shows(_THAWING) for each in cls.lineage())


def frozen_by(stmt: t.Stmt, flags: Mapping[str, bool] = _NO_FLAGS) -> Iterator[str]:
    """The modules that a statement freezes as a whole.

    Args:
        flags: names whose truth is known there.
    """
    if isinstance(stmt, t.Repeat):
        yield from _frozen_in(stmt, flags)
    elif isinstance(stmt, t.Assign) and is_frozen_copy(stmt.value):
        yield from (path for target in stmt.targets if (path := t.path_of(target)) is not None)
    elif isinstance(stmt, t.Evaluate) and is_frozen_copy(stmt.value, flags):
        path = _owner_of(stmt.value)
        if path is not None:
            yield path


def is_frozen_copy(source: t.Expr | None, flags: Mapping[str, bool] = _NO_FLAGS) -> bool:
    """``net = build().eval().requires_grad_(False).to(device)``."""
    while isinstance(source, t.Call) and isinstance(source.func, t.Attribute):
        if source.func.name == "requires_grad_":
            asked = source.argument("requires_grad", 0)
            return asked is not None and _switches_off(asked, flags)
        source = source.func.value if source.func.name in k.FLUENT_METHODS else None
    return False


def _owner_of(source: t.Expr) -> str | None:
    """What a row of methods is called on: ``self.net`` of ``self.net.eval().requires_grad_(False)``."""
    while isinstance(source, t.Call) and isinstance(source.func, t.Attribute):
        source = source.func.value
    return t.path_of(source)


def flags_given(params: list[t.Param], made: t.Call | None) -> dict[str, bool]:
    """What the flags of a function are, where that is known."""
    given = {p.name: p.default for p in params}
    for position, param in enumerate(params):
        asked = made.argument(param.name, position) if made is not None else None
        given[param.name] = asked if asked is not None else param.default
    return {n: v.value for n, v in given.items() if isinstance(v, t.Constant) and isinstance(v.value, bool)}


def chosen(body: list[t.Stmt], flags: dict[str, bool]) -> Iterator[t.Stmt]:
    """The statements that surely run: also those under ``if not requires_grad``, where it is not to."""
    for stmt in body:
        name, holds = tested_flag(stmt.test) if isinstance(stmt, t.If) else (None, True)
        if isinstance(stmt, t.If) and name in flags:
            yield from chosen(stmt.body if flags[name] == holds else stmt.orelse, flags)
        else:
            yield stmt


def wraps_frozen(cls: Class) -> bool:
    """Whether it has no parameters but those of modules that freeze themselves: a distance between features.

    Where an attribute is one of several modules, one that does so says how they are meant.
    """
    family = list(cls.lineage())
    if not _is_of_bare(family):
        return False
    found: dict[str, set[bool | None]] = {}
    for each in family:
        for ref in each.methods.values():
            plain = {p.name for p in ref.define.params if _is_plain(p)}
            for name, value in _attributes_named(ref.define):
                found.setdefault(name, set()).add(_is_frozen_value(each, value, plain))
    registered = any(f"{word}(" in each.chunk.program for each in family for word in _GIVING)
    return (
        not registered
        and any(True in each for each in found.values())
        and all(True in each or False not in each for each in found.values())
    )


def _is_frozen_value(cls: Class, value: t.Expr, plain: set[str]) -> bool | None:
    """Whether what an attribute gets is a module that freezes itself; None for what has no parameters."""
    if (t.path_of(value) or "").startswith("self."):
        return None
    made = making(value)
    if made is None:
        return None if not _may_bring_parameters(value, plain) else False
    name = t.path_of(made.func) or ""
    of = cls.module.value_of(made.func)
    if isinstance(of.ref, type(cls)) and of.kind is Kind.CLASS and of.ref.is_module:
        return True if of.ref.is_frozen_as(made) else False if of.ref.may_learn else None
    return None if name.startswith("self.") or not _may_bring_parameters(made, plain) else False


def making(value: t.Expr | None) -> t.Call | None:
    """The call that makes what methods are then called on: ``Features()`` of ``Features().eval().to(device)``."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and isinstance(value.func.value, t.Call):
        value = value.func.value
    return value if isinstance(value, t.Call) else None


def _attributes_named(method: t.Define) -> Iterator[tuple[str, t.Expr]]:
    for stmt in walk_statements(method.body):
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            if (path := t.path_of(target) or "").startswith("self."):
                yield path, value


def _freezes_all(stmt: t.Stmt, flags: Mapping[str, bool]) -> bool:
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if isinstance(call, t.Call) and t.path_of(call.func) == "self.requires_grad_":
        return bool(call.args) and _switches_off(call.args[0].value, flags)
    return isinstance(stmt, t.Repeat) and "self" in _frozen_in(stmt, flags)


def parameters_taken(target: t.Expr | None, iterable: t.Expr | None) -> Iterator[tuple[str, str]]:
    """What a loop takes from all parameters of modules: the name of each, and its module.

    ``for p in net.parameters()``, ``for old, new in zip(net.parameters(), teacher.parameters())``.
    """
    if not isinstance(iterable, t.Call):
        return
    items = target.items if isinstance(target, t.Display) else []
    name, given = t.path_of(iterable.func), [arg.value for arg in iterable.args]
    if name == "zip" and len(items) == len(given):
        for item, each in zip(items, given):
            yield from parameters_taken(item, each)
    elif name == "enumerate" and len(items) == 2 and given:
        yield from parameters_taken(items[1], given[0])
    elif isinstance(iterable.func, t.Attribute) and not given and iterable.func.name in _GIVING_ALL:
        named = iterable.func.name != "parameters"
        parameter = t.path_of(items[1] if named and len(items) == 2 else target) if target is not None else None
        module = t.path_of(iterable.func.value)
        if parameter is not None and module is not None:
            yield parameter, module


def leaves_out(loop: t.Repeat) -> bool:
    """Whether a loop may skip some of what it goes over."""
    return any(isinstance(stmt, t.Leave) for stmt in walk_statements(loop.body))


def _frozen_in(loop: t.Repeat, flags: Mapping[str, bool]) -> set[str]:
    """The modules all of whose parameters a loop freezes."""
    taken = () if leaves_out(loop) else parameters_taken(loop.target, loop.iterable)
    return {module for name, module in taken if any(_freezes(stmt, name, flags) for stmt in loop.body)}


def _freezes(stmt: t.Stmt, parameter: str, flags: Mapping[str, bool]) -> bool:
    """``parameter.requires_grad = False``, ``parameter.requires_grad_(False)``."""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if isinstance(call, t.Call) and t.path_of(call.func) == f"{parameter}.requires_grad_":
        asked = call.argument("requires_grad", 0)
        return asked is not None and _switches_off(asked, flags)
    if not isinstance(stmt, t.Assign):
        return False
    wanted = f"{parameter}.requires_grad"
    return any(t.path_of(target) == wanted for target in stmt.targets) and _switches_off(stmt.value, flags)


def _switches_off(value: t.Expr, flags: Mapping[str, bool]) -> bool:
    return _is_false(value) or (isinstance(value, t.Name) and flags.get(value.id) is False)


def _is_false(value: t.Expr | None) -> bool:
    return isinstance(value, t.Constant) and value.value is False

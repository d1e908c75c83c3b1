"""Places that bring no graph: numbers, settings, leaves, buffers, and attributes that nothing puts a graph into."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.reading import places
from gradguard.static.values import Part, Root, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.classes import Class
    from gradguard.static.program.functions import FunctionRef
    from gradguard.static.project import Module


def without_settings(flow: Flow, value: Value) -> Value:
    """A value without the places that hold a number only: ``net.scale`` of ``net.scale * logits`` brings no graph.

    Where it may merely come of a place, by a call that could not be followed, it does not come of one that nothing
    puts a graph into.
    """
    settings = frozenset(root for root in value.reach if _is_setting(flow, root))
    empty = frozenset(root for root in value.maybe if _gets_no_graph(flow, root))
    if not settings and not empty:
        return value
    return value._replace(roots=value.roots - settings, maybe=value.maybe - settings - empty)


def _is_setting(flow: Flow, root: Root) -> bool:
    if root.source is Source.PARAM:
        is_entry = isinstance(root.key, Part) and all(isinstance(key, str) for key in root.key.keys)
        return is_entry and _is_of_settings(root.base)
    base, name = _split(root)
    if not name.isidentifier():
        return False
    return _is_of_settings(base) or (_is_of_object(flow, base, name) if base else _is_of_file(flow, name))


def _split(root: Root) -> tuple[str, str]:
    """The path of the object that a place is an attribute of, and the attribute's name; of others nothing."""
    is_path = root.source is Source.PLACE and isinstance(root.key, str)
    base, _, name = str(root.key).rpartition(".") if is_path else ("", "", "")
    return base, name


def _is_of_settings(base: str) -> bool:
    """Whether an object has what a command line or a configuration says: ``args``, ``self.cfg.train``."""
    return any(k.SETTINGS_NAME.match(part) for part in base.split("."))


def _is_of_file(flow: Flow, name: str) -> bool:
    """Whether a file binds a name at its left edge to a number, and nowhere else: ``EPS = 1.e-5``."""
    text = flow.module.source.text
    bound = re.findall(rf"^([^\n#]*(?<![\w.])){name}\b([^\n=(]*)=(?!=)[ \t]*([^\n#]*)", text, re.M)
    if len(bound) != 1:
        return False
    before, behind, value = bound[0]
    return not before and not behind.strip() and _NUMBER.fullmatch(value.strip()) is not None


_NUMBER = re.compile(r"-?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def _is_of_object(flow: Flow, base: str, name: str) -> bool:
    owner = places.owner_of(flow, base, flow.final)
    if owner is None:
        return False
    if _is_set_by_itself(flow, owner, name):
        values = [(define, value) for cls in owner.lineage() for define, value in cls.assigned(name)]
        if all(_is_number(define, value) for define, value in values):
            return True
        return not _is_written_into(flow, owner, name) and _is_bare(flow, owner, name, _MADE_HERE)
    return not _is_written_into(flow, owner, name) and _is_buffer(flow, owner, name)


def _is_set_by_itself(flow: Flow, owner: Class, name: str) -> bool:
    """Whether the methods of a class set an attribute, one by one, and nobody else does, as far as its files tell."""
    assigned = sum(len(cls.assigned(name)) for cls in owner.lineage())
    of_several = rf"^[ \t]*\(?[^\n=(]*\.{name}\b[^\n=(]*,[^\n=(]*=(?!=)"  # no call: f(self.n, reduction="sum")
    changes = re.compile(rf"(?<!\bctx)\.{name}\b\s*(?:[-+*/@%|&]|//|\*\*)?=(?!=)|{of_several}", re.M)
    modules = {module.source.path: module for module in (flow.module, *(cls.module for cls in owner.lineage()))}
    written = sum(len(changes.findall(module.source.text)) for module in modules.values())
    if written > assigned > 0:
        assigned += sum(len(cls.assigned(name)) for cls in _strangers(owner, modules.values()))
    return 0 < written == assigned


def _strangers(owner: Class, modules: Iterable[Module]) -> Iterator[Class]:
    """The classes of some files that have nothing to do with one: what they put into ``self.scale`` is their own."""
    names = ((module, name) for module in modules for name in module.outline.classes)
    classes = [cls for module, name in names if (cls := module.klass(name)) is not None]
    kin = {each for cls in (owner, *classes) if owner in (lineage := list(cls.lineage())) for each in lineage}
    return (cls for cls in classes if cls not in kin)


def _is_written_into(flow: Flow, owner: Class, name: str) -> bool:
    """Whether something may be put into the tensor that an attribute is: ``self.h[:] = out``, ``net.h.copy_(out)``."""
    item = r"(?:\[[^\]\n]*\])"
    put = rf"{item}+\s*(?:[-+*/@%|&]|//|\*\*)?=(?!=)"
    in_place = rf"{item}*(?!\.data\b)(?:\.\w+(?:\([^()\n]*\))?)*\.(?!requires_grad_)\w+_\("
    writes = rf"\.{name}\b(?:{put}|{in_place})"
    return any(re.search(writes, text) for text in _texts(flow, owner))


def _texts(flow: Flow, owner: Class) -> set[str]:
    return {module.source.text for module in (flow.module, *(cls.module for cls in owner.lineage()))}


def _is_buffer(flow: Flow, owner: Class, name: str) -> bool:
    """Whether an attribute is a buffer that is registered with data, and that nothing sets."""
    defining = [cls for cls in owner.lineage() if name in cls.buffers]
    sets = re.compile(rf"\.{name}\b(?:[^\n=(]*,[^\n=(]*|\s*(?:[-+*/@%|&]|//|\*\*)?)=(?!=)")
    if not defining or any(sets.search(text) for text in _texts(flow, owner)):
        return False
    given = [found for cls in defining for ref in cls.methods.values() for found in _registered(ref, name)]
    return bool(given) and all(_is_data(flow, ref, value) for ref, value in given)


def _registered(method: FunctionRef, name: str) -> Iterator[tuple[FunctionRef, t.Expr]]:
    """What a method registers as a buffer of some name."""
    for call in method.calls:
        named = call.argument("name", 0)
        value = call.argument("tensor", 1)
        is_it = isinstance(named, t.Constant) and named.value == name
        if call.name == "register_buffer" and is_it and value is not None:
            yield method, value


def _is_data(flow: Flow, method: FunctionRef, value: t.Expr) -> bool:
    """Whether an expression of a method has no graph."""
    of_method = flow.project.flow(method)
    if of_method is None:
        return False
    before, of_method.dry = of_method.dry, True  # it was read, and what it does is noted
    found = of_method.value(value, of_method.final)
    of_method.dry = before
    return not found.reach


def _is_number(define: t.Define, value: t.Expr) -> bool:
    """Whether an expression of a method is a number: written out, computed from such, or the default of a parameter.

    Or a setting, or a quotient without rest, through which torch takes no gradient.
    """
    if isinstance(value, t.Name):
        param = next((each for each in define.params if each.name == value.id), None)
        if param is not None and _is_hyperparameter(param):
            return True
        value = param.default if param is not None and param.default is not None else value
    if isinstance(value, t.Conditional):
        return _is_number(define, value.body) and _is_number(define, value.orelse)
    if isinstance(value, t.Operation):
        return value.operator == "//" or all(_is_number(define, operand) for operand in value.operands)
    if isinstance(value, t.Attribute):
        return _is_of_settings(t.path_of(value.value) or "")
    return isinstance(value, t.Constant) and isinstance(value.value, int | float)


_HYPERPARAMETER = re.compile(
    r"(?:temp|temperature|tau|alpha|beta|gamma|lam|lambda|lmbda|margin|eps|epsilon|smoothing|sigma|momentum|rate|lr|"
    r"(?:\w+_)?(?:coef|coeff|coefficient|lambda|factor|ratio|margin|temperature))_?\d?",
    re.I,
)


def _is_hyperparameter(param: t.Param) -> bool:
    """Whether a constructor is given a number for a parameter, as its annotation or its name says."""
    is_said = isinstance(param.annotation, t.Name) and param.annotation.id in ("float", "int")
    return is_said or (param.annotation is None and _HYPERPARAMETER.fullmatch(param.name) is not None)


def _gets_no_graph(flow: Flow, root: Root) -> bool:
    """Whether an attribute of an object whose class is known never has a graph, as far as that class tells."""
    base, name = _split(root)
    owner = places.owner_of(flow, base, flow.final) if base and name.isidentifier() else None
    return owner is not None and _is_bare(flow, owner, name, _GIVEN)


# What may be in an attribute without a graph, by where that is put: a parameter; in the constructor, what it is given.
_MADE_HERE = frozenset((Source.LEAF,))
_GIVEN = frozenset((Source.LEAF, Source.PARAM))


def _is_bare(flow: Flow, owner: Class, name: str, bare: frozenset[Source], seen: frozenset[str] = frozenset()) -> bool:
    if name in seen or not _is_set_by_itself(flow, owner, name):
        return name in seen
    setting = {define for cls in owner.lineage() for define, _ in cls.assigned(name)}
    methods = [ref for cls in owner.lineage() for ref in cls.methods.values() if ref.define in setting]
    is_read = len(methods) == len(setting)  # what the setter of a property leaves is not
    return is_read and all(_leaves_bare(flow, owner, ref, name, bare, seen | {name}) for ref in methods)


def _leaves_bare(
    flow: Flow, owner: Class, method: FunctionRef, name: str, bare: frozenset[Source], seen: frozenset[str]
) -> bool:
    """Whether what a method leaves in an attribute has no graph: data, or what the object is made with."""
    of_method = flow.project.flow(method)
    left = of_method.final.env.get(f"self.{name}") if of_method is not None else None
    if left is None:
        return False
    without = bare if method.define.name == "__init__" else frozenset()
    roots = [root for root in left.reach if root.source not in without]
    others = [_split(root) for root in roots if root.source is Source.PLACE]
    return len(others) == len(roots) and all(
        base == "self" and _is_bare(flow, owner, other, bare, seen) for base, other in others
    )

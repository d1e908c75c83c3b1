"""Places that bring no graph: numbers that stay so, settings, and attributes that nothing puts a graph into."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import places
from gradguard.static import tree as t
from gradguard.static.values import Root, Source, Value

if TYPE_CHECKING:
    from gradguard.static.classes import Class
    from gradguard.static.flow import Flow
    from gradguard.static.functions import FunctionRef


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
    if owner is None or not _is_set_by_itself(flow, owner, name):
        return False
    return all(_is_number(define, value) for cls in owner.lineage() for define, value in cls.assigned(name))


def _is_set_by_itself(flow: Flow, owner: Class, name: str) -> bool:
    """Whether the methods of a class set an attribute, one by one, and nobody else does, as far as its files tell."""
    assigned = sum(len(cls.assigned(name)) for cls in owner.lineage())
    texts = {module.source.text for module in (flow.module, *(cls.module for cls in owner.lineage()))}
    of_several = rf"^[ \t]*\(?[^\n=(]*\.{name}\b[^\n=(]*,[^\n=(]*=(?!=)"  # no call: f(self.n, reduction="sum")
    changes = re.compile(rf"(?<!\bctx)\.{name}\b\s*(?:[-+*/@%|&]|//|\*\*)?=(?!=)|{of_several}", re.M)
    return 0 < sum(len(changes.findall(text)) for text in texts) == assigned


def _is_number(define: t.Define, value: t.Expr) -> bool:
    """Whether an expression of a method is a number: written out, computed from such, or the default of a parameter.

    Or a setting, or a quotient without rest, through which torch takes no gradient.
    """
    if isinstance(value, t.Name):
        value = next((param.default for param in define.params if param.name == value.id), None) or value
    if isinstance(value, t.Conditional):
        return _is_number(define, value.body) and _is_number(define, value.orelse)
    if isinstance(value, t.Operation):
        return value.operator == "//" or all(_is_number(define, operand) for operand in value.operands)
    if isinstance(value, t.Attribute):
        return _is_of_settings(t.path_of(value.value) or "")
    return isinstance(value, t.Constant) and isinstance(value.value, int | float)


def _gets_no_graph(flow: Flow, root: Root) -> bool:
    """Whether an attribute of an object whose class is known never has a graph, as far as that class tells."""
    base, name = _split(root)
    owner = places.owner_of(flow, base, flow.final) if base and name.isidentifier() else None
    return owner is not None and _is_bare(flow, owner, name, frozenset())


def _is_bare(flow: Flow, owner: Class, name: str, seen: frozenset[str]) -> bool:
    if name in seen or not _is_set_by_itself(flow, owner, name):
        return name in seen
    setting = {define for cls in owner.lineage() for define, _ in cls.assigned(name)}
    methods = [ref for cls in owner.lineage() for ref in cls.methods.values() if ref.define in setting]
    is_read = len(methods) == len(setting)  # what the setter of a property leaves is not
    return is_read and all(_leaves_bare(flow, owner, ref, name, seen | {name}) for ref in methods)


def _leaves_bare(flow: Flow, owner: Class, method: FunctionRef, name: str, seen: frozenset[str]) -> bool:
    """Whether what a method leaves in an attribute has no graph: data, or what the object is made with."""
    of_method = flow.project.flow(method)
    left = of_method.final.env.get(f"self.{name}") if of_method is not None else None
    if left is None:
        return False
    made = method.define.name == "__init__"
    roots = [root for root in left.reach if root.source is not Source.PARAM or not made]
    others = [_split(root) for root in roots if root.source is Source.PLACE]
    return len(others) == len(roots) and all(
        base == "self" and _is_bare(flow, owner, other, seen) for base, other in others
    )

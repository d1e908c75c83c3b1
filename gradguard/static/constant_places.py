"""Places that are numbers and stay so: what an object's constructor sets, or a file at its top, and nothing changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import places
from gradguard.static import tree as t
from gradguard.static.values import Root, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def without_settings(flow: Flow, value: Value) -> Value:
    """A value without the places that hold a number only: ``net.scale`` of ``net.scale * logits`` brings no graph."""
    settings = frozenset(root for root in value.reach if _is_setting(flow, root))
    return value._replace(roots=value.roots - settings, maybe=value.maybe - settings) if settings else value


def _is_setting(flow: Flow, root: Root) -> bool:
    base, _, name = root.key.rpartition(".") if isinstance(root.key, str) else ("", "", "")
    if root.source is not Source.PLACE or not name.isidentifier():
        return False
    return _is_of_object(flow, base, name) if base else _is_of_file(flow.module.source.text, name)


def _is_of_file(text: str, name: str) -> bool:
    """Whether a file binds a name at its left edge to a number, and nowhere else: ``EPS = 1.e-5``."""
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
    assigned = [pair for cls in owner.lineage() for pair in cls.assigned(name)]
    texts = {module.source.text for module in (flow.module, *(cls.module for cls in owner.lineage()))}
    of_several = rf"^[ \t]*\(?[^\n=(]*\.{name}\b[^\n=(]*,[^\n=(]*=(?!=)"  # no call: f(self.n, reduction="sum")
    changes = re.compile(rf"\.{name}\b\s*(?:[-+*/@%|&]|//|\*\*)?=(?!=)|{of_several}", re.M)
    written = sum(len(changes.findall(text)) for text in texts)
    return 0 < written == len(assigned) and all(_is_number(define, value) for define, value in assigned)


def _is_number(define: t.Define, value: t.Expr) -> bool:
    """Whether an expression of a method is a number: written out, computed from such, or the default of a parameter."""
    if isinstance(value, t.Name):
        value = next((param.default for param in define.params if param.name == value.id), None) or value
    if isinstance(value, t.Conditional):
        return _is_number(define, value.body) and _is_number(define, value.orelse)
    if isinstance(value, t.Operation):
        return all(_is_number(define, operand) for operand in value.operands)
    return isinstance(value, t.Constant) and isinstance(value.value, int | float)

"""Parameters of a module of which only plain numbers are used: ``x * self.scale.item()``, ``math.exp(self.rate)``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.losses.only_detached import is_in_a_penalty, made_to_learn
from gradguard.static.mistakes.losses import OnlyDetached
from gradguard.static.model import Mode
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of
from gradguard.static.program.own_methods import methods_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_SETS_UP = re.compile(r"^_*(?:init|reset)|^extra_repr$|^__repr__$|^__str__$")
_NUMBERS = frozenset("item tolist".split())
_SHOWS = re.compile(r"print|log|format|write|add_scalar|report|debug|info|warn|append|update|assert", re.I)
_ARITHMETIC = frozenset(("+", "-", "*", "/", "**"))
_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">=", "in", "not in", "is", "is not", "not"))
# What is set or saved like a parameter, and is none to be trained, by its name.
_FIXED = re.compile(
    r"fixed|frozen|thresh|running|moving|ema(?:$|_)|count|steps|(?:^|_)step$|stat|anchor|prior|init|buffer|margin|eps|target|"
    r"(?:^|_)(?:min|max|lower|upper|clip|bound|num|iter|epoch|size|dummy|device)",
    re.I,
)
_SETTINGS = re.compile(r"arg|opt|cfg|conf|param|setting|group|sched|FLAGS")
_LOOKS = r"(?!(?:\.\w+\(\))*\.(?:detach\(\)(?!\.\w+_\()|(?:item|tolist|shape|numel|size)\b))"
_SIZES = frozenset("shape size numel dim ndim".split())


def taken_as_numbers(flow: Flow) -> Iterator[OnlyDetached]:
    """Where a method takes numbers of a parameter and computes with them, and nothing uses it with its graph."""
    owner, define = flow.ref.owner, flow.ref.define
    if owner is None or not owner.is_module or flow.facts.is_test or flow.facts.entry_mode is Mode.OFF:
        return
    for conversion in _conversions(define):
        name = _name_in(conversion)
        if name is None or _FIXED.search(name) is not None or not _is_of_numbers_alone(owner, name):
            continue
        made = made_to_learn(owner, name)
        if made is None or conversion in set(cut(define)) or not _is_computed_with(flow, conversion):
            continue
        if not _is_used_elsewhere(flow, owner, name) and not flow.facts.called_without_grad():
            yield OnlyDetached(flow.site(conversion), name, made)
            return


def _conversions(define: t.Define) -> Iterator[t.Call]:
    """``self.scale.exp().item()``, ``float(self.scale)``; not those that are only shown."""
    shown = {node for each in define.nodes if _shows(each) for node in t.walk(each)}
    for node in define.nodes:
        if isinstance(node, t.Call) and _is_conversion(node) and node not in shown:
            yield node


def _shows(node: t.Node) -> bool:
    is_shown = isinstance(node, t.Call) and _SHOWS.search(node.name) is not None
    return is_shown or isinstance(node, t.Text | t.Raise)


def _is_conversion(call: t.Call) -> bool:
    if isinstance(call.func, t.Name):
        return call.func.id == "float" and len(call.args) == 1
    if isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "math":
        return True  # of Python: it takes numbers
    return isinstance(call.func, t.Attribute) and call.func.name in _NUMBERS


def _name_in(conversion: t.Call) -> str | None:
    """The one attribute of the object that numbers are taken of."""
    nodes = [node for node in t.walk(conversion) if isinstance(node, t.Attribute)]
    if any(node.name in _SIZES for node in nodes):
        return None
    paths = {t.path_of(node) or "" for node in nodes}
    names = {path.removeprefix("self.") for path in paths if path.startswith("self.") and path.count(".") == 1}
    return names.pop() if len(names) == 1 else None


def _is_of_numbers_alone(cls: Class, name: str) -> bool:
    """Whether all that the methods of a class do with a parameter is to take numbers of it, or to look at it."""
    for method in methods_of(cls):
        if _SETS_UP.search(method.define.name) is not None:
            continue
        uses = [n for n in method.define.all(t.Attribute) if t.path_of(n) == f"self.{name}"]
        if uses and (not set(uses) <= _looked_at(method.define) or is_set(method.define, f"self.{name}")):
            return False
    return True


def _looked_at(define: t.Define) -> set[t.Node]:
    """What is in the expressions of which only numbers, or a copy without a graph, are taken."""
    found = set(cut(define))
    for node in define.nodes:
        if isinstance(node, t.Call) and _is_conversion(node):
            found.update(t.walk(node))
        elif isinstance(node, t.Attribute) and node.name in ("shape", "device", "dtype"):
            found.update(t.walk(node.value))
    return found


def is_set(define: t.Define, path: str) -> bool:
    """Whether a method changes a parameter by hand: ``self.scale.data.mul_(0.9)``, ``self.scale.data = ...``."""
    for node in define.nodes:
        func = node.func if isinstance(node, t.Call) else None
        if isinstance(func, t.Attribute) and func.name.endswith("_") and _has(func.value, path):
            return True
        targets = node.targets if isinstance(node, t.Assign) else [node.target] if isinstance(node, t.Augment) else []
        if any(_has(target, path) for target in targets):
            return True
    return False


def _has(expr: t.Expr, path: str) -> bool:
    return any(isinstance(node, t.Attribute) and t.path_of(node) == path for node in t.walk(expr))


# --- what becomes of the numbers ----------------------------------------------------------------------------------


def _is_computed_with(flow: Flow, conversion: t.Call) -> bool:
    """Whether numbers are multiplied or added with something, in the method, or by those that get them of it."""
    names = _names_of(flow.ref, [conversion])
    if _is_in_arithmetic(flow.ref.define, {conversion}, names):
        return True
    returned = [stmt.value for stmt in flow.ref.define.statements if isinstance(stmt, t.Return)]
    if not any(value is not None and _has_any(value, {conversion}, names) for value in returned):
        return False
    if flow.ref.is_property:
        readers = (*methods_of(flow.ref.owner), *flow.project.written_calling(flow.ref)) if flow.ref.owner else ()
        return any(_is_read_in_arithmetic(ref, flow.ref) for ref in readers)
    for caller, call in calls_of(flow):  # reads other files
        if _is_in_arithmetic(caller.ref.define, {call}, _names_of(caller.ref, [call])):
            return True
    return False


def _is_read_in_arithmetic(ref: FunctionRef, getter: FunctionRef) -> bool:
    """Whether a function computes with a property, ``hyper.rate * grad``, of what is none of its settings."""
    named = [node for node in ref.define.all(t.Attribute) if node.name == getter.define.name]
    owners = ((node, t.path_of(node.value) or "") for node in named)
    read = [
        node
        for node, owner in owners
        if (ref.owner is getter.owner if owner == "self" else owner and not _SETTINGS.search(owner))
    ]
    return bool(read) and _is_in_arithmetic(ref.define, set(read), _names_of(ref, read))


def _names_of(ref: FunctionRef, nodes: Sequence[t.Node]) -> set[str]:
    """The variables that have some numbers, or collections of them."""
    names, wanted, before = set[str](), set[t.Node](nodes), -1
    while len(names) != before:
        before = len(names)
        for stmt in ref.define.statements:
            if isinstance(stmt, t.Assign) and _has_any(stmt.value, wanted, names) and not _is_arithmetic(stmt.value):
                names |= {each.id for target in stmt.targets for each in t.names_in(target) if isinstance(each, t.Name)}
    return names


def _is_in_arithmetic(define: t.Define, nodes: set[t.Node], names: set[str]) -> bool:
    """Whether an operation has such a number, and something else that is no constant."""
    shown = {node for each in define.nodes if _shows(each) for node in t.walk(each)}
    hidden = set(cut(define))
    for node in define.nodes:
        if isinstance(node, t.Operation) and _is_arithmetic(node) and node not in shown and node not in hidden:
            having = [_has_any(operand, nodes, names) for operand in node.operands]
            others = [operand for operand, has in zip(node.operands, having) if not has]
            if any(having) and any(not isinstance(other, t.Constant) for other in others):
                return True
    return False


def _is_arithmetic(node: t.Node) -> bool:
    return isinstance(node, t.Operation) and node.operator in _ARITHMETIC and len(node.operands) > 1


def _has_any(expr: t.Expr, nodes: set[t.Node], names: set[str]) -> bool:
    """Whether such a number is in an expression, and not only compared there, or which one of some is taken."""
    asked = {part for node in t.walk(expr) for each in _only_asked(node) for part in t.walk(each)}
    found = (node for node in t.walk(expr) if node not in asked)
    return any(node in nodes or (isinstance(node, t.Name) and node.id in names) for node in found)


def _only_asked(node: t.Node) -> list[t.Expr]:
    if isinstance(node, t.Conditional):
        return [node.test]
    if isinstance(node, t.Subscript):
        return [node.index]
    return [node] if isinstance(node, t.Operation) and node.operator in _COMPARISONS else []


def _is_used_elsewhere(flow: Flow, cls: Class, name: str) -> bool:
    """Whether something else may train a parameter, or set it (reads other files)."""
    survey = flow.project.survey
    known = re.compile(rf"(?<!\bself)\.{re.escape(name)}\b{_LOOKS}|['\"]{re.escape(name)}['\"]")
    if survey.is_base(cls.name, cls.module) or survey.mentions(known, cls.module, name):
        return True
    return is_in_a_penalty(cls)

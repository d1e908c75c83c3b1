"""Entries of a dict of losses that are overwritten before anything reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.mistakes.losses import OverwrittenTerm
from gradguard.static.model import Mode
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.order import blocks_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LOSSES = re.compile(r"loss|objective|criteri", re.I)
_COMPUTES_LOSS = re.compile(
    r"loss|criteri|entropy|(?:^|_)(?:mse|nll|bce|ce|kl|kld|l1|dice|focal|penalty)(?:$|_)|kl_div", re.I
)
_EVALUATES = re.compile(r"(?<![a-z])(?:eval|val(?![a-z])|valid|test|metric|log(?![a-z])|report|infer)", re.I)
_DICTS = frozenset("dict OrderedDict defaultdict".split())
_CUTS = frozenset("item detach data numpy tolist cpu float int zeros zeros_like new_zeros".split())


class _Entry(NamedTuple):
    """A statement, or a display, that puts a value into a dict under a word."""

    base: str
    key: str
    node: t.Node
    value: t.Expr


def overwritten_terms(flow: Flow) -> Iterator[OverwrittenTerm]:
    """The terms of a loss that another one takes the place of, in the same straight run of statements."""
    define = flow.ref.define
    if flow.facts.is_test or flow.facts.entry_mode is Mode.OFF or not flow.module.names_torch:
        return
    if _EVALUATES.search(define.name) is not None:
        return
    found = [*_in_displays(flow), *(pair for block in blocks_of(define.body) for pair in _in_block(flow, block))]
    if not found:
        return
    hidden = set(cut(define))
    for first, second in found:
        if first.value in hidden or second.value in hidden or flow.facts.called_without_grad():
            continue
        yield OverwrittenTerm(flow.site(second.node), first.base, first.key, flow.site(first.value))


def _in_displays(flow: Flow) -> Iterator[tuple[_Entry, _Entry]]:
    """``{"box": l1(offset), "box": l1(size)}``: the first one is in no dict."""
    for node in flow.ref.define.nodes:
        entries = list(_entries_of("", node)) if isinstance(node, t.DictDisplay) else []
        for place, first in enumerate(entries):
            again = [each for each in entries[place + 1 :] if each.key == first.key]
            named = any(_LOSSES.search(each.key) for each in entries)
            if named and again and _is_lost(first.value, again[0].value):
                yield first, again[0]


def _in_block(flow: Flow, block: Sequence[t.Stmt]) -> Iterator[tuple[_Entry, _Entry]]:
    for place, stmt in enumerate(block):
        for first in _entries(stmt):
            if not _is_dict_of_losses(flow, first):
                continue
            second = _next(block[place + 1 :], first)
            if second is not None and _is_lost(first.value, second.value):
                yield first, second


def _entries(stmt: t.Stmt) -> Iterator[_Entry]:
    """What a statement puts into a dict: ``d["a"] = x``, ``d = {"a": x}``, ``d.update({"a": x})``."""
    if isinstance(stmt, t.Assign) and len(stmt.targets) == 1:
        target, value = stmt.targets[0], stmt.value
        if isinstance(target, t.Subscript) and isinstance(target.value, t.Name):
            if isinstance(target.index, t.Constant) and isinstance(target.index.value, str):
                yield _Entry(target.value.id, target.index.value, stmt, value)
        elif isinstance(target, t.Name) and isinstance(value, t.DictDisplay):
            yield from _entries_of(target.id, value)
        elif isinstance(target, t.Name) and isinstance(value, t.Call) and value.name in _DICTS:
            yield from (_Entry(target.id, arg.keyword, arg.value, arg.value) for arg in value.args if arg.keyword)
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) and call.name == "update" else None
    if isinstance(call, t.Call) and isinstance(func, t.Attribute) and isinstance(func.value, t.Name):
        for arg in call.args:
            if arg.keyword:
                yield _Entry(func.value.id, arg.keyword, arg.value, arg.value)
            elif isinstance(arg.value, t.DictDisplay):
                yield from _entries_of(func.value.id, arg.value)


def _entries_of(base: str, display: t.DictDisplay) -> Iterator[_Entry]:
    for key, value in display.entries:
        if isinstance(key, t.Constant) and isinstance(key.value, str):
            yield _Entry(base, key.value, value, value)


def _is_dict_of_losses(flow: Flow, entry: _Entry) -> bool:
    """Whether a variable surely is a dict, which nothing else has, and is named, or its entry, as one of losses."""
    if _LOSSES.search(f"{entry.base} {entry.key}") is None or _EVALUATES.search(entry.base) is not None:
        return False
    bound = flow.ref.assigned.get(entry.base, [])
    is_made = all(isinstance(b, t.DictDisplay) or (isinstance(b, t.Call) and b.name in _DICTS) for b in bound)
    inner = (node for node in flow.ref.define.nodes if isinstance(node, t.Define | t.Lambda))
    in_closure = any(_mentions(node, entry.base) for node in inner)
    return is_made and (bool(bound) or entry.base in flow.params) and not in_closure


def _next(after: Sequence[t.Stmt], first: _Entry) -> _Entry | None:
    """What overwrites an entry, if nothing reads the dict before that."""
    for stmt in after:
        again = [each for each in _entries(stmt) if each.base == first.base and each.key == first.key]
        if again:
            return again[0] if not _reads(stmt, first) else None
        if _reads(stmt, first) or isinstance(stmt, t.Return | t.Raise | t.Leave):
            return None
    return None


def _reads(stmt: t.Stmt, first: _Entry) -> bool:
    """Whether a statement may read an entry of the dict, or has the dict for anything else but another entry."""
    if _is_own_display(stmt, first.base):
        return True  # the dict is made anew
    others = {id(node.value) for node in t.walk(stmt) if isinstance(node, t.Subscript) and _is_another(node, first)}
    if any(each.base == first.base for each in _entries(stmt)) and isinstance(stmt, t.Evaluate):
        call = stmt.value
        others |= {id(call.func.value)} if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) else set()
    if isinstance(stmt, t.Assign) and isinstance(stmt.targets[0], t.Subscript):
        others.add(id(stmt.targets[0].value))
    names = (node for node in t.walk(stmt) if isinstance(node, t.Name) and node.id == first.base)
    return any(id(name) not in others for name in names)


def _is_own_display(stmt: t.Stmt, base: str) -> bool:
    return isinstance(stmt, t.Assign) and any(isinstance(n, t.Name) and n.id == base for n in stmt.targets)


def _is_another(entry: t.Subscript, first: _Entry) -> bool:
    """Whether it is an entry of the dict under another word."""
    key = entry.index
    return isinstance(key, t.Constant) and isinstance(key.value, str) and key.value != first.key


def _mentions(node: t.Node, name: str) -> bool:
    return any(isinstance(each, t.Name) and each.id == name for each in t.walk(node))


def _is_lost(first: t.Expr, second: t.Expr) -> bool:
    """Whether the first value is a loss of something that the second one has not."""
    return _is_loss(first) and _is_loss(second) and not _trained(first) <= _trained(second)


def _trained(value: t.Expr) -> set[str]:
    """What a loss is a loss of, not what it is to be: the names in the first argument."""
    calls = [node for node in t.walk(value) if isinstance(node, t.Call) and _COMPUTES_LOSS.search(node.name)]
    return {name for call in calls for arg in call.args[:1] for name in _names(arg.value)}


def _is_loss(value: t.Expr) -> bool:
    """Whether an expression computes a loss, with its graph: ``F.l1_loss(x, y)``, ``0.5 * self.criterion(x, y)``."""
    while isinstance(value, t.Operation) and value.operator in ("*", "/"):
        value = next((each for each in value.operands if isinstance(each, t.Call | t.Operation)), value.operands[0])
    if isinstance(value, t.Operation) and value.operator in ("+", "-"):
        return all(_is_loss(each) for each in value.operands)
    calls = [node for node in t.walk(value) if isinstance(node, t.Call)] if isinstance(value, t.Call) else []
    if any(call.name in _CUTS for call in calls) or any(t.is_zero(node) for node in _factors(value)):
        return False
    return any(_COMPUTES_LOSS.search(call.name) is not None for call in calls)


def _factors(value: t.Expr) -> Iterator[t.Expr]:
    for node in t.walk(value):
        if isinstance(node, t.Operation) and node.operator == "*":
            yield from node.operands


def _names(value: t.Expr) -> set[str]:
    """The paths that an expression computes with, and the parts of its object that it calls."""
    functions = {id(node.func): node.func for node in t.walk(value) if isinstance(node, t.Call)}
    own = {path for func in functions.values() if (path := t.path_of(func) or "").startswith("self.")}
    libraries = {id(part) for func in functions.values() for part in _of_library(func)}
    paths = (node for node in t.walk(value) if isinstance(node, t.Name | t.Attribute | t.Subscript))
    used = {t.path_of(node) or "" for node in paths if id(node) not in functions and id(node) not in libraries}
    return (own | used) - {"", "self"}


def _of_library(func: t.Expr) -> list[t.Expr]:
    """What is before the name of a function of a library: ``F`` of ``F.l1_loss``."""
    found = [func]
    while isinstance(found[-1], t.Attribute):
        found.append(found[-1].value)
    head = found[-1]
    return found if isinstance(head, t.Name) and head.id in ("self", "torch", "F", "nn", "functional") else []

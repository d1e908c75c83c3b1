"""Layers whose scores only choose: of ``self.router(x).softmax(-1)`` the indices are used, and no value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.losses.only_detached import follow, is_known, is_of_forward_alone
from gradguard.static.mistakes.losses import OnlyChosen
from gradguard.static.model import Mode
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.functions import FunctionRef
from gradguard.static.source import Site
from gradguard.static.values import Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 4
# What is not to be trained, as its name says, or otherwise than by gradients.
_FIXED = re.compile(r"fixed|frozen|random|rnd|hash|target|teacher|quant|token|code|ema(?:$|_)|momentum|pretrain", re.I)
_OTHERWISE = re.compile(r"requires_grad|\.data\b|\bautograd\b|Function\b|copy_\(|load_state_dict|from_pretrained")
_FREEZES = re.compile(r"requires_grad(?:_\(|\s*=)\s*(?:requires_grad\s*=\s*)?False")
_INDICES = frozenset("argmax argmin argsort multinomial nonzero bincount".split())
_PAIRS = frozenset("max min topk sort kthvalue".split())
_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">="))


def only_chosen(flow: Flow) -> Iterator[OnlyChosen]:
    """The layers of a module of which its ``forward`` uses indices alone, while others learn (reads other files)."""
    owner, define = flow.ref.owner, flow.ref.define
    if define.name != "forward" or owner is None or not owner.is_module or flow.facts.is_test:
        return
    if flow.facts.entry_mode is Mode.OFF or any(cls.chunk.shows(_OTHERWISE) for cls in owner.lineage()):
        return
    if not any(root.source is Source.GRAPH for root in flow.facts.returns.reach):
        return
    for call in _choosing(define):
        path = t.path_of(call.func) or ""
        name = path.removeprefix("self.")
        if not is_of_forward_alone(owner, name, define):
            continue
        constructor = owner.method("__init__")
        made = _made(constructor, path) if constructor is not None else None
        if made is None:
            continue
        if flow.project.survey.mentions(_FREEZES, flow.module, "requires_grad"):
            return
        if not is_known(flow, owner, name) and not flow.facts.called_without_grad():
            yield OnlyChosen(flow.site(call), name, made)


def uses_indices_alone(define: t.Define) -> bool:
    """Whether a method calls something of its object of which it uses indices alone."""
    return next(_choosing(define), None) is not None


def _choosing(define: t.Define) -> Iterator[t.Call]:
    """The first call of each attribute of the object of which a method uses indices alone."""
    calls: dict[str, t.Call] = {}
    for call in define.all(t.Call):
        path = t.path_of(call.func) or ""
        name = path.removeprefix("self.")
        if name != path and name.isidentifier() and _FIXED.search(name) is None:
            calls.setdefault(path, call)
    chosen = set(_chosen(define)) if calls else set[t.Node]()
    hidden = chosen | set(_compared(define)) | set(cut(define)) if chosen else set[t.Node]()
    for path, call in sorted(calls.items()) if chosen else ():
        names: set[str] = set()
        if follow(define, path, hidden, names, _DEPTH) and _chooses(define, path, names, chosen):
            yield call


def _made(constructor: FunctionRef, path: str) -> Site | None:
    values = constructor.assigned.get(path, [])
    return Site(constructor.chunk, values[0]) if len(values) == 1 and is_made(constructor, values[0]) else None


def _chooses(define: t.Define, path: str, names: set[str], chosen: set[t.Node]) -> bool:
    """Whether something is chosen by the scores at all."""
    return any(
        isinstance(node, t.Name | t.Attribute) and t.path_of(node) in names | {path} and node in chosen
        for node in define.nodes
    )


def _chosen(define: t.Define) -> Iterator[t.Node]:
    """What only indices come out of: ``s`` of ``s.argmax(1)``, ``s.topk(2).indices``."""
    for node in define.nodes:
        if isinstance(node, t.Call) and node.name in _INDICES:
            yield from t.walk(node)
        elif isinstance(node, t.Attribute | t.Subscript | t.Assign) and _leaves_values(define, node):
            yield from t.walk(node.value)


def _compared(define: t.Define) -> Iterator[t.Node]:
    """What only truth values come out of: ``scores > 0``."""
    for node in define.nodes:
        if isinstance(node, t.Operation) and node.operator in _COMPARISONS:
            yield from t.walk(node)


def _is_pair(value: t.Expr) -> bool:
    return isinstance(value, t.Call) and value.name in _PAIRS and bool(value.args or value.name == "sort")


def _leaves_values(define: t.Define, node: t.Attribute | t.Subscript | t.Assign) -> bool:
    """``topk(2).indices``, ``max(-1)[1]``, and ``gate, choice = scores.max(-1)`` where nothing reads the first."""
    if not _is_pair(node.value):
        return False
    if isinstance(node, t.Attribute):
        return node.name == "indices"
    if isinstance(node, t.Subscript):
        return isinstance(node.index, t.Constant) and node.index.value == 1
    target = node.targets[0]
    first = target.items[0] if isinstance(target, t.Display) and len(target.items) == 2 else None
    if not isinstance(first, t.Name) or len(node.targets) != 1:
        return False
    return sum(isinstance(each, t.Name) and each.id == first.id for each in define.nodes) == 1

"""Tensors that an operation has kept for its backward, and that are changed in place before it: torch raises there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.graphs_behind import GraphsBehind
from gradguard.static.backward.in_place import Change, calls_in, changes, changes_by_call, is_in_place, without_views
from gradguard.static.backward.kept_for_backward import (
    LAYERS_KEEP_INPUT,
    LAYERS_KEEP_RESULT,
    MAY_KEEP_OPERANDS,
    Kept,
    keeps_operands,
    keeps_result,
    layer_keeps_input,
    may_keep_result,
)
from gradguard.static.backward.run_by_layer import run_layer_by_layer
from gradguard.static.backward.way_to_loss import WayToLoss
from gradguard.static.backward.written_behind import NOT_TRAINING, asks_for_evaluation
from gradguard.static.losses.normalised import layers_of
from gradguard.static.mistakes.backward import ChangedInPlace
from gradguard.static.model import Mode
from gradguard.static.program.bound_paths import binds
from gradguard.static.program.made_objects import Place, makers, named_in
from gradguard.static.program.order import has
from gradguard.static.program.reaching import bound_at, levels_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_OTHER_USE = re.compile(
    r"(?<![a-z])(?:decod|nms|visual|draw|plot|metric|attack|detect|search|beam|onnx|trt|demo|explain|cam(?![a-z])|"
    r"saliency|inver|reset|init|post_?process|forward_?(?:test|eval))",
    re.I,
)
_OTHER_CLASS = re.compile(r"Post_?[Pp]rocess|Infer|Export|Predictor|ONNX|Onnx|Visuali|Decode(?![a-z])|Metric|Attack")
_FREEZES = re.compile(r"requires_grad(?:_\(\s*False|\s*=\s*False)|set_grad_enabled|\bfreeze")
_MADE_IN_PLACE = re.compile(
    r"\b(?:ReLU6?|SELU|SiLU|Mish|Hard\w+|LeakyReLU|C?ELU|Dropout[123]?d?|Threshold)\(\s*(?:[^()]*inplace\s*=\s*True|"
    r"True\s*\)|[^()=]*,\s*True\s*\))"
)
# Where numbers of half the precision are computed with, an operation keeps a copy of what it is given.
_MIXED = re.compile(
    r"autocast|GradScaler|\bamp\b|fp16|bf16|mixed_precision|[\"']16-mixed|precision\s*=\s*16|Accelerator\("
)
_MAKES = frozenset("zeros ones empty full zeros_like ones_like empty_like full_like rand randn".split())


def changed_in_place(flow: Flow) -> Iterator[ChangedInPlace]:
    """The changes of a function that the backward of an operation meets (reads other files)."""
    facts, ref = flow.facts, flow.ref
    if facts.is_test or facts.entry_mode is Mode.OFF:
        return
    yield from _in_sequences(flow)
    if not (facts.is_module_method or facts.backwards):
        return
    if any(each.search(ref.define.name) for each in (NOT_TRAINING, _OTHER_USE)):
        return
    changing = _changing(flow)
    if not changing or _is_for_other_use(flow):
        return
    search = _Search(flow)
    for stmt, found in sorted(changing, key=lambda each: flow.site(each[0]).line):
        for change in found:
            kept = search.kept(stmt, change)
            if kept is not None and not _is_in_evaluation(flow, stmt) and not facts.called_without_grad():
                name = change.tensor.id if isinstance(change.tensor, t.Name) else None
                is_result = kept.tensor is None
                is_alone = name is not None and _is_alone(flow, name)
                yield ChangedInPlace(flow.site(change.node), name, flow.site(kept.node), kept.name, is_result, is_alone)
                break


def _in_sequences(flow: Flow) -> Iterator[ChangedInPlace]:
    """Layers in place right behind one that keeps its result: ``nn.ReLU(), nn.Dropout(0.5, inplace=True)``."""
    place = Place(flow.module, flow.ref)
    for call in flow.ref.calls:
        if call.name != "Sequential" or named_in(place, call.func) != "torch.nn.Sequential":
            continue
        if run_layer_by_layer(flow.ref, call):
            continue
        layers = [layer for layer in layers_of(call) if isinstance(layer, t.Call)]
        names = [str(named_in(place, layer.func)).rpartition(".") for layer in layers]
        for at in range(2, len(layers)):
            (package, _, before), (other, _, name) = names[at - 1 : at + 1]
            is_known = package == other == "torch.nn" and before in LAYERS_KEEP_RESULT
            learns = any(each in LAYERS_KEEP_INPUT for _, _, each in names[: at - 1])
            if is_known and learns and is_in_place(name, layers[at]) and not _drops_nothing(name, layers[at]):
                kept = LAYERS_KEEP_RESULT[before]
                yield ChangedInPlace(flow.site(layers[at]), None, flow.site(layers[at - 1]), kept, True, False)


def _drops_nothing(name: str, made: t.Call) -> bool:
    share = made.argument("p", 0) if "Dropout" in name else None
    return share is not None and t.is_zero(share)


def _is_for_other_use(flow: Flow) -> bool:
    """Whether the class is not there to be trained, or what is frozen in it cannot be told."""
    owner = flow.ref.owner
    if owner is None or not flow.facts.is_module_method:
        return False
    return any(_OTHER_CLASS.search(each.name) or each.chunk.shows(_FREEZES) for each in owner.lineage())


def _is_in_evaluation(flow: Flow, stmt: t.Stmt) -> bool:
    """Whether a statement runs in an evaluation only, or may: after a ``return`` of those who train."""
    for each in flow.ref.define.statements:
        is_around = isinstance(each, t.If | t.With) and has([each], stmt)
        if isinstance(each, t.With) and is_around:
            found = any("grad" in name for item, _ in each.items for name in _names(item))
        elif isinstance(each, t.If):
            found = asks_for_evaluation(each, stmt) if is_around else _leaves_on_mode(each)
        else:
            found = False
        if found:
            return True
    return False


def _leaves_on_mode(choice: t.If) -> bool:
    """Whether a training, or an evaluation, ends there."""
    is_mode = any("train" in name or "grad" in name or NOT_TRAINING.search(name) for name in _names(choice.test))
    return is_mode and any(isinstance(each, t.Return) for each in t.walk_statements([*choice.body, *choice.orelse]))


def _names(expr: t.Expr) -> list[str]:
    nodes = [node for node in t.walk(expr) if isinstance(node, t.Attribute | t.Name)]
    return [node.name if isinstance(node, t.Attribute) else node.id for node in nodes]


def _is_alone(flow: Flow, name: str) -> bool:
    """Whether nothing else has the tensor of a variable under another name, or in a collection."""
    made = flow.ref.assigned.get(name, [])
    if not made or any(isinstance(without_views(value), t.Name) for value in made):
        return False
    for node in flow.ref.define.nodes:
        values = [node.value] if isinstance(node, t.Assign) else []
        if isinstance(node, t.Display):
            values += node.items
        elif isinstance(node, t.DictDisplay):
            values += [value for _, value in node.entries]
        elif isinstance(node, t.Call) and node.name in ("append", "extend", "update", "add", "insert"):
            values += [arg.value for arg in node.args]
        for value in values:
            whole = without_views(value)
            if isinstance(whole, t.Name) and whole.id == name:
                return False
    return True


def _changing(flow: Flow) -> list[tuple[t.Stmt, list[Change]]]:
    """The statements of a function that change a tensor in place, where something may have kept that."""
    layers = _layers_in_place(flow)
    may_call = bool(layers) or any(map(changes_by_call, flow.ref.calls))
    found: list[tuple[t.Stmt, list[Change]]] = []
    for stmt in flow.ref.define.statements:
        if not may_call and not isinstance(stmt, t.Augment | t.Assign):
            continue
        made = list(changes(stmt, may_call))
        if layers:
            made += [Change(call, without_views(call.args[0].value)) for call in calls_in(stmt) if call in layers]
        made = [each for each in made if _may_be_kept(flow, each.tensor)]
        if made:
            found.append((stmt, made))
    return found


def _layers_in_place(flow: Flow) -> frozenset[t.Call]:
    """The calls of a layer of the object that is made to change what it is given."""
    owner = flow.ref.owner
    calls = [call for call in flow.ref.calls if len(call.args) == 1 and _is_own(call.func)] if owner is not None else []
    if owner is None or not calls or not any(each.chunk.shows(_MADE_IN_PLACE) for each in owner.lineage()):
        return frozenset()
    place = Place(flow.module, flow.ref)
    found: list[t.Call] = []
    for call in calls:
        values = [value for cls in owner.lineage() for _, value in cls.assigned(call.name)]
        if any(isinstance(value, t.Call) and value.args for value in values):
            made = makers(place, call.func)
            if made and all(isinstance(m.of, str) and is_in_place(m.of.rpartition(".")[2], m.call) for m in made):
                found.append(call)
    return frozenset(found)


def _is_own(func: t.Expr) -> bool:
    return isinstance(func, t.Attribute) and isinstance(func.value, t.Name) and func.value.id == "self"


def _may_be_kept(flow: Flow, tensor: t.Expr) -> bool:
    """Whether a tensor has a name of the function, and is no number; or is what a call gives, as it stands."""
    if isinstance(tensor, t.Call):
        return may_keep_result(tensor)
    if not isinstance(tensor, t.Name) or tensor.id in flow.declared:
        return False
    made = flow.ref.assigned.get(tensor.id)
    return (tensor.id in flow.params) if made is None else not all(isinstance(value, t.Constant) for value in made)


class _Search:
    """What one function changes in place, and what has kept it."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.define = flow, flow.ref.define
        self.place = Place(flow.module, flow.ref)
        self.graphs = GraphsBehind(flow, self.place)
        self.hidden = self.graphs.hidden
        self.way = WayToLoss(flow, self.hidden)
        self._given: frozenset[str] | None = None

    def kept(self, stmt: t.Stmt, change: Change) -> Kept | None:
        """The operation whose backward needs what a change has changed."""
        tensor = change.tensor
        if isinstance(tensor, t.Call):
            return self._kept_result(stmt, change, None, None)
        if not isinstance(tensor, t.Name):
            return None
        at = self._begun_at(stmt, tensor.id)
        found = None
        if any(map(may_keep_result, self.flow.ref.assigned.get(tensor.id, ()))):
            found = self._kept_result(stmt, change, tensor.id, at)
        if found is None and tensor.id in self._names_given():
            found = self._kept_operand(stmt, change, tensor, at)
        return found or self._kept_in_turn(stmt, tensor, at)

    def _names_given(self) -> frozenset[str]:
        """The variables that operations are given which may keep them, and layers of the object."""
        if self._given is None:
            self._given = frozenset(_names_given(self.define))
        return self._given

    def _begun_at(self, stmt: t.Stmt, name: str) -> t.Node:
        """The statement, or the outermost loop around it that changes the variable only in place."""
        found: t.Node = stmt
        for block, place in reversed(levels_of(self.define.body, stmt)):
            around = block[place]
            if isinstance(around, t.Repeat):
                if any(binds(each, name) for each in t.walk_statements([around])):
                    break
                found = around
        return found

    def _kept_result(self, stmt: t.Stmt, change: Change, name: str | None, at: t.Node | None) -> Kept | None:
        found = keeps_result(self.place, change.tensor, at)
        if not found or any(kept.node in self.hidden for kept in found):
            return None
        if not all(any(self.graphs.has_graph(each) for each in kept.graphs) for kept in found):
            return None
        leads = self.way.leads(stmt, change.node, name, found[-1].graphs)
        return found[-1] if leads else None

    def _kept_operand(self, stmt: t.Stmt, change: Change, tensor: t.Name, at: t.Node) -> Kept | None:
        """What has kept the tensor as an operand, before it is changed, on the same straight way."""
        values = [each.value for each in bound_at(self.define, at, tensor.id)]
        if None in values or (not values and tensor.id not in self.flow.params):
            return None
        for before in [*self._before(stmt), stmt]:
            for kept in self._operands(before if before is not stmt else change.node):
                operand = without_views(kept.tensor) if kept.tensor is not None else None
                if not isinstance(operand, t.Name) or operand.id != tensor.id:
                    continue
                if [each.value for each in bound_at(self.define, operand, operand.id)] != values:
                    continue
                if self._is_needed(before, kept):
                    return kept
        return None

    def _kept_in_turn(self, stmt: t.Stmt, tensor: t.Name, loop: t.Node) -> Kept | None:
        """What keeps an entry in one iteration, before the next one sets another: ``h[t] = self.cell(x, h[t - 1])``."""
        if not isinstance(loop, t.Repeat) or not isinstance(stmt, t.Assign) or not _goes_on(loop, stmt):
            return None
        made = self.flow.ref.assigned.get(tensor.id, [])
        if not _has_entry(stmt.value, tensor.id) or not made or not all(map(self._is_new_tensor, made)):
            return None
        counts = {name for each in t.walk_statements([loop]) for name in _counts(each)}
        for kept in self._operands(stmt):
            is_entry = isinstance(kept.tensor, t.Subscript) and _is_entry(kept.tensor, tensor.id, counts)
            if is_entry and self._is_needed(stmt, kept):
                return kept
        return None

    def _is_needed(self, stmt: t.Stmt, kept: Kept) -> bool:
        """Whether a backward comes to an operation, and what it was given is no copy (reads other files)."""
        if kept.node in self.hidden or (kept.graphs and not any(map(self.graphs.has_graph, kept.graphs))):
            return False
        is_on_way = self.way.leads(stmt, kept.node, None, ())
        return is_on_way and not self.flow.project.survey.mentions(_MIXED, self.flow.module)

    def _is_new_tensor(self, value: t.Expr) -> bool:
        """``torch.zeros(t, n)``, ``x.new_zeros(t, n)``; a list has its entries, and no version."""
        if not isinstance(value, t.Call):
            return False
        named = named_in(self.place, value.func)
        is_made = isinstance(named, str) and named.startswith("torch.") and value.name in _MAKES
        return is_made or (named is None and value.name.startswith("new_"))

    def _before(self, stmt: t.Stmt) -> list[t.Stmt]:
        """The statements that surely run before another one: in its block, and in those around it."""
        return [each for block, place in levels_of(self.define.body, stmt) for each in block[:place]]

    def _operands(self, within: t.Node) -> Iterator[Kept]:
        """What the operations of a statement, or those that a call is given, keep of their operands."""
        value: object = within.value if isinstance(within, t.Assign | t.Augment | t.Evaluate | t.Return) else None
        if isinstance(within, t.Call):
            value = [arg.value for arg in within.args]
        for node in t.walk(value):
            yield from keeps_operands(self.place, node)
            if isinstance(node, t.Call) and self.graphs.is_learning(node):
                yield from layer_keeps_input(self.place, node)


def _names_given(define: t.Define) -> Iterator[str]:
    for node in define.nodes:
        if isinstance(node, t.Operation):
            operands = list(node.operands) if node.operator in ("*", "/", "**") else []
        elif isinstance(node, t.Call) and node.args and (_is_own(node.func) or node.name in MAY_KEEP_OPERANDS):
            operands = [item for arg in node.args[:2] for item in _items(arg.value)]
            operands += [node.func.value] if isinstance(node.func, t.Attribute) else []
        elif isinstance(node, t.Call) and node.name in MAY_KEEP_OPERANDS and isinstance(node.func, t.Attribute):
            operands = [node.func.value]
        else:
            operands = []
        for operand in operands:
            whole = without_views(operand)
            if isinstance(whole, t.Name):
                yield whole.id


def _items(expr: t.Expr) -> list[t.Expr]:
    return expr.items if isinstance(expr, t.Display) else [expr]


def _has_entry(expr: t.Expr, name: str) -> bool:
    parts = (each.value for each in t.walk(expr) if isinstance(each, t.Subscript))
    return any(isinstance(part, t.Name) and part.id == name for part in parts)


def _goes_on(loop: t.Repeat, stmt: t.Stmt) -> bool:
    """Whether a loop may come to a statement again: nothing leaves it behind that."""
    blocks = (block for each in t.walk_statements([loop]) for block in t.blocks(each))
    return not any(has(block, stmt) and t.leaves(block) for block in blocks)


def _counts(loop: t.Stmt) -> Iterator[str]:
    """The names of the whole numbers that a loop counts: ``for t in range(n)``, ``for i, x in enumerate(xs)``."""
    iterable = loop.iterable if isinstance(loop, t.Repeat) else None
    target = loop.target if isinstance(loop, t.Repeat) else None
    if isinstance(iterable, t.Call) and iterable.name in ("enumerate", "range"):
        if isinstance(target, t.Display) and iterable.name == "enumerate":
            target = target.items[0]
        if isinstance(target, t.Name):
            yield target.id


def _is_entry(expr: t.Subscript, name: str, counts: set[str]) -> bool:
    """Whether it is ``h[t - 1]`` or ``h[:, t - 1]``, of a variable: a view."""
    if not isinstance(expr.value, t.Name) or expr.value.id != name:
        return False
    if isinstance(expr.index, t.Slice):
        return all(not isinstance(bound, str) or _is_number(bound, counts) for bound in expr.index.bounds)
    parts = expr.index.operands if isinstance(expr.index, t.Operation) else [expr.index]
    return all(isinstance(part, t.Constant) or (isinstance(part, t.Name) and part.id in counts) for part in parts)


def _is_number(bound: str, counts: set[str]) -> bool:
    """``t``, ``t - 1`` or ``-1``."""
    return re.fullmatch(r"-?\d+", bound) is not None or re.sub(r" [-+] \d+$", "", bound) in counts

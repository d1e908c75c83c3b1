"""Tensors that an operation has kept for its backward, and that are changed in place before it: torch raises there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.bound_paths import binds
from gradguard.static.in_place import Change, calls_in, changes, is_in_place, without_views
from gradguard.static.kept_for_backward import Kept, keeps_operands, keeps_result, layer_keeps_input
from gradguard.static.made_objects import Place, makers, named_in
from gradguard.static.mistakes import ChangedInPlace
from gradguard.static.model import Mode
from gradguard.static.order import has, onwards
from gradguard.static.reaching import bound_at, levels_of
from gradguard.static.trained_apart import cut
from gradguard.static.written_behind import NOT_TRAINING, asks_for_evaluation, is_own_layer

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 12
_OTHER_USE = re.compile(
    r"(?<![a-z])(?:decod|nms|visual|draw|plot|metric|attack|detect|search|beam|onnx|trt|demo|explain|cam(?![a-z])|"
    r"saliency|inver|reset|init|post_?process|forward_?(?:test|eval))",
    re.I,
)
_OTHER_CLASS = re.compile(r"Post_?[Pp]rocess|Infer|Export|Predictor|ONNX|Onnx|Visuali|Decode(?![a-z])|Metric|Attack")
_FREEZES = re.compile(r"requires_grad(?:_\(\s*False|\s*=\s*False)|set_grad_enabled|\bfreeze")
_MADE_IN_PLACE = re.compile(r"inplace\s*=\s*True|\(\s*True\s*\)|,\s*True\s*\)")
# Where numbers of half the precision are computed with, an operation keeps a copy of what it is given.
_MIXED = re.compile(
    r"autocast|GradScaler|\bamp\b|fp16|bf16|mixed_precision|[\"']16-mixed|precision\s*=\s*16|Accelerator\("
)
# What has a graph where what it is given has one.
_CARRIES = frozenset(
    "softmax log_softmax softmin sigmoid logsigmoid tanh relu relu6 leaky_relu gelu silu elu selu celu mish softplus "
    "hardtanh hardswish hardsigmoid exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos square pow abs "
    "erf matmul bmm mm einsum baddbmm addmm mul add sub div cat concat stack view view_as reshape transpose permute "
    "flatten squeeze unsqueeze contiguous mean sum norm std var amax amin logsumexp cumsum cumprod prod clamp clip "
    "normalize dropout dropout1d dropout2d dropout3d interpolate pad linear conv1d conv2d conv3d max_pool1d "
    "max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d masked_fill where "
    "expand expand_as repeat chunk split unbind select narrow gather index_select float double half to cuda cpu clone "
    "t neg layer_norm batch_norm group_norm instance_norm tile roll flip swapaxes movedim unfold fold pixel_shuffle "
    "grid_sample repeat_interleave scaled_dot_product_attention type_as".split()
)
_MAKES = frozenset("zeros ones empty full zeros_like ones_like empty_like full_like rand randn".split())
_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">=", "in", "not in", "is", "is not", "not"))


def changed_in_place(flow: Flow) -> Iterator[ChangedInPlace]:
    """The changes of a function that the backward of an operation meets (reads other files)."""
    facts, ref = flow.facts, flow.ref
    if facts.is_test or facts.entry_mode is Mode.OFF or not (facts.is_module_method or facts.backwards):
        return
    if any(each.search(ref.define.name) for each in (NOT_TRAINING, _OTHER_USE)) or _is_for_other_use(flow):
        return
    search = _Search(flow)
    for stmt in sorted(ref.define.statements, key=lambda each: flow.site(each).line):
        for change in search.changes(stmt):
            kept = search.kept(stmt, change)
            if kept is not None and not _is_in_evaluation(flow, stmt) and not facts.called_without_grad():
                name = change.tensor.id if isinstance(change.tensor, t.Name) else None
                is_result = kept.tensor is None
                is_alone = is_result and name is not None and _is_alone(flow, name)
                yield ChangedInPlace(flow.site(change.node), name, flow.site(kept.node), kept.name, is_result, is_alone)
                break


def _is_for_other_use(flow: Flow) -> bool:
    """Whether the class is not there to be trained, or what is frozen in it cannot be told."""
    owner = flow.ref.owner
    if owner is None or not flow.facts.is_module_method:
        return False
    return any(_OTHER_CLASS.search(each.name) or _FREEZES.search(each.chunk.program) for each in owner.lineage())


def _is_in_evaluation(flow: Flow, stmt: t.Stmt) -> bool:
    """Whether a statement runs in an evaluation only, or may: after a ``return`` of those who train."""
    for each in flow.ref.define.statements:
        if not isinstance(each, t.If | t.With):
            continue
        if has([each], stmt):
            if isinstance(each, t.With):
                if any(
                    "grad" in (t.path_of(node) or "")
                    for item, _ in each.items
                    for node in t.walk(item)
                    if isinstance(node, t.Attribute | t.Name)
                ):
                    return True
            elif asks_for_evaluation(each, stmt):
                return True
        elif isinstance(each, t.If) and _leaves_on_mode(each):
            return True
    return False


def _leaves_on_mode(choice: t.If) -> bool:
    """Whether a training, or an evaluation, ends there."""
    names = [
        node.name if isinstance(node, t.Attribute) else node.id
        for node in t.walk(choice.test)
        if isinstance(node, t.Attribute | t.Name)
    ]
    is_mode = any("train" in name or "grad" in name or NOT_TRAINING.search(name) for name in names)
    return is_mode and any(isinstance(each, t.Return) for each in t.walk_statements([*choice.body, *choice.orelse]))


def _is_alone(flow: Flow, name: str) -> bool:
    """Whether nothing else has the tensor of a variable under another name, or in a collection."""
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


class _Search:
    """What one function changes in place, and what has kept it."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.define = flow, flow.ref.define
        self.place = Place(flow.module, flow.ref)
        self.hidden = set(cut(self.define))
        modes = (Mode.OFF, Mode.UNKNOWN)
        runs = flow.facts.forwards if flow.facts.backwards else []
        self.runs = {f.site.node for f in runs if f.mode not in modes and not f.is_frozen and not f.evaluates}
        self.backwards = {each.site.node for each in flow.facts.backwards}
        owner = flow.ref.owner
        self.has_layers = owner is not None and any(
            _MADE_IN_PLACE.search(each.chunk.program) for each in owner.lineage()
        )

    def changes(self, stmt: t.Stmt) -> list[Change]:
        """What a statement changes in place: also by a layer that is made to."""
        found = list(changes(stmt))
        for call in calls_in(stmt) if self.has_layers else ():
            if len(call.args) == 1 and isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "self":
                made = makers(self.place, call.func) if self._is_made_in_place(call.name) else []
                if made and all(isinstance(m.of, str) and is_in_place(m.of.rpartition(".")[2], m.call) for m in made):
                    found.append(Change(call, without_views(call.args[0].value)))
        return found

    def _is_made_in_place(self, name: str) -> bool:
        """Whether some layer of a name may be one that changes what it is given."""
        owner = self.flow.ref.owner
        values = [value for cls in owner.lineage() for _, value in cls.assigned(name)] if owner is not None else []
        return any(isinstance(value, t.Call) and value.args for value in values)

    def kept(self, stmt: t.Stmt, change: Change) -> Kept | None:
        """The operation whose backward needs what a change has changed."""
        tensor = change.tensor
        if isinstance(tensor, t.Call):
            return self._kept_result(stmt, change, None, None)
        if not isinstance(tensor, t.Name) or tensor.id in self.flow.declared:
            return None
        at = self._begun_at(stmt, tensor.id)
        found = self._kept_result(stmt, change, tensor.id, at) or self._kept_operand(stmt, change, tensor, at)
        return found or self._kept_in_turn(stmt, tensor, at)

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
        if not all(any(self.has_graph(each) for each in kept.graphs) for kept in found):
            return None
        leads = self.leads_to_loss(stmt, change.node, name, found[-1].graphs)
        return found[-1] if leads else None

    def _kept_operand(self, stmt: t.Stmt, change: Change, tensor: t.Name, at: t.Node) -> Kept | None:
        """What has kept the tensor as an operand, before it is changed, on the same straight way."""
        if self._is_mixed():
            return None
        values = [each.value for each in bound_at(self.define, at, tensor.id)]
        if None in values or (not values and tensor.id not in self.flow.params):
            return None
        for before in [*self._before(stmt), stmt]:
            if before is stmt and not isinstance(change.node, t.Augment) and not self._is_given(change.node):
                continue
            for kept in self._operands(before):
                operand = without_views(kept.tensor) if kept.tensor is not None else None
                if not isinstance(operand, t.Name) or operand.id != tensor.id or kept.node in self.hidden:
                    continue
                if [each.value for each in bound_at(self.define, operand, operand.id)] != values:
                    continue
                if kept.graphs and not any(self.has_graph(each) for each in kept.graphs):
                    continue
                if self.leads_to_loss(before, kept.node, None, ()):
                    return kept
        return None

    def _is_mixed(self) -> bool:
        """Whether the program may compute with numbers of half the precision (reads other files)."""
        return self.flow.project.survey.mentions(_MIXED, self.flow.module)

    def _kept_in_turn(self, stmt: t.Stmt, tensor: t.Name, loop: t.Node) -> Kept | None:
        """What keeps an entry in one iteration, before the next one sets another: ``h[t] = self.cell(x, h[t - 1])``."""
        if not isinstance(loop, t.Repeat) or not isinstance(stmt, t.Assign) or not _goes_on(loop, stmt):
            return None
        made = self.flow.ref.assigned.get(tensor.id, [])
        if not made or not all(self._is_new_tensor(value) for value in made):
            return None
        counts = {name for each in t.walk_statements([loop]) for name in _counts(each)}
        for each in t.walk_statements(loop.body):
            for kept in self._operands(each):
                entry = kept.tensor
                if not isinstance(entry, t.Subscript) or not _is_entry(entry, tensor.id, counts):
                    continue
                if kept.node in self.hidden or (kept.graphs and not any(map(self.has_graph, kept.graphs))):
                    continue
                if not self._is_mixed() and self.leads_to_loss(each, kept.node, None, ()):
                    return kept
        return None

    def _is_new_tensor(self, value: t.Expr) -> bool:
        """``torch.zeros(t, n)``, ``x.new_zeros(t, n)``; a list has its entries, and no version."""
        if not isinstance(value, t.Call):
            return False
        named = named_in(self.place, value.func)
        is_made = isinstance(named, str) and named.startswith("torch.") and value.name in _MAKES
        return is_made or (named is None and value.name.startswith("new_"))

    def _is_given(self, node: t.Node) -> bool:
        """Whether what changes a tensor is given something that is computed first: ``x.add_(self.fc(x))``."""
        return isinstance(node, t.Call) and isinstance(node.func, t.Attribute)

    def _before(self, stmt: t.Stmt) -> list[t.Stmt]:
        """The statements that surely run before another one: in its block, and in those around it."""
        return [each for block, place in levels_of(self.define.body, stmt) for each in block[:place]]

    def _operands(self, stmt: t.Stmt) -> Iterator[Kept]:
        value = stmt.value if isinstance(stmt, t.Assign | t.Augment | t.Evaluate | t.Return) else None
        for node in t.walk(value):
            yield from keeps_operands(self.place, node)
            if isinstance(node, t.Call) and self._is_learning(node):
                yield from layer_keeps_input(self.place, node)

    # --- graphs ---

    def _is_learning(self, call: t.Call) -> bool:
        """Whether a call surely begins a graph: it is that of a layer with parameters."""
        return call not in self.hidden and (call in self.runs or is_own_layer(self.flow, call))

    def has_graph(self, expr: t.Expr, depth: int = 0) -> bool:
        """Whether parameters of the object, or a network that the function trains, are surely behind a tensor."""
        if depth > _DEPTH or expr in self.hidden:
            return False
        parts: list[t.Expr] = []
        if isinstance(expr, t.Name):
            bound = bound_at(self.define, expr, expr.id)
            parts += [each.value for each in bound if each.value is not None]
        elif isinstance(expr, t.Call):
            if self._is_learning(expr):
                return True
            parts += self._given(expr)
        elif isinstance(expr, t.Operation) and expr.operator in k.ARITHMETIC:
            parts += expr.operands
        elif isinstance(expr, t.Display):
            parts += expr.items
        elif isinstance(expr, t.Subscript):
            parts.append(expr.value)
        elif isinstance(expr, t.Attribute):
            if self._is_parameter(expr):
                return True
            parts += [expr.value] if expr.name in ("T", "mT") else []
        elif isinstance(expr, t.Conditional):
            return self.has_graph(expr.body, depth + 1) and self.has_graph(expr.orelse, depth + 1)
        return any(self.has_graph(part, depth + 1) for part in parts)

    def _given(self, call: t.Call) -> list[t.Expr]:
        """What a call computes with, where what it gives has a graph if that has one."""
        func, named = call.func, named_in(self.place, call.func)
        given = [arg.value for arg in call.args if arg.keyword in (None, "input")]
        if isinstance(named, str):
            return given if call.name in _CARRIES else []
        if isinstance(func, t.Attribute) and t.path_of(func.value) != "self":
            return [func.value, *given] if call.name in _CARRIES else []
        made = makers(self.place, func) if isinstance(func, t.Attribute) else []
        return given if made and all(isinstance(m.of, str) and m.of.startswith("torch.nn.") for m in made) else []

    def _is_parameter(self, expr: t.Attribute) -> bool:
        """``self.scale``, ``self.fc.weight``."""
        owner = expr.value if expr.name == "weight" else expr
        if not isinstance(owner, t.Attribute) or t.path_of(owner.value) != "self" or expr in self.hidden:
            return False
        return is_own_layer(self.flow, t.Call(None, owner, []))

    # --- the way to the loss ---

    def leads_to_loss(self, stmt: t.Stmt, node: t.Node, name: str | None, made_of: tuple[t.Expr, ...]) -> bool:
        """Whether a tensor goes into what is backpropagated, or returned by a module.

        Args:
            stmt: from this statement on.
            node: what it is there.
            name: the variable that is changed.
            made_of: what it was computed of: where that is returned beside it, the loss may be one of that.
        """
        names = {name} if name is not None else set[str]()
        for each in [stmt, *onwards(self.define.body, stmt)]:
            if isinstance(each, t.Return):
                if each.value is not None and self._is_for_loss(each.value, node, names, made_of):
                    return True
            elif isinstance(each, t.Evaluate):
                if self._is_backward(each.value, node, names):
                    return True
                names.update(self._filled(each.value, node, names))
            elif isinstance(each, t.Augment):
                if each is node or self.carries(each.value, node, names):
                    names.update(_base(each.target))
            elif isinstance(each, t.Assign):
                carries = each is node or self.carries(each.value, node, names)
                for target in (one for whole in each.targets for one in t.names_in(whole)):
                    if carries:
                        names.update(_base(target))
                    elif isinstance(target, t.Name):
                        names.discard(target.id)
            elif isinstance(each, t.Repeat) and each.target is not None and each.iterable is not None:
                carries = self.carries(each.iterable, node, names)
                names.update(found for one in t.names_in(each.target) for found in _base(one) if carries)
        return False

    def _is_for_loss(self, value: t.Expr, node: t.Node, names: set[str], made_of: tuple[t.Expr, ...]) -> bool:
        if not self.flow.facts.is_module_method or isinstance(value, t.DictDisplay):
            return False
        if not isinstance(value, t.Display):
            return self.carries(value, node, names)
        if not value.items or not self.carries(value.items[0], node, names):
            return False
        known = {each.id for expr in made_of for each in t.walk(expr) if isinstance(each, t.Name)}
        return not any(isinstance(each, t.Name) and each.id in known for each in value.items[1:])

    def _is_backward(self, value: t.Expr, node: t.Node, names: set[str]) -> bool:
        if not isinstance(value, t.Call) or value not in self.backwards:
            return False
        parts = [arg.value for arg in value.args]
        parts += [value.func.value] if isinstance(value.func, t.Attribute) else []
        return any(self.carries(part, node, names) for part in parts)

    def _filled(self, value: t.Expr, node: t.Node, names: set[str]) -> Iterator[str]:
        """The collection, or the tensor, that a call puts it into: ``outs.append(y)``, ``z.add_(y)``."""
        func = value.func if isinstance(value, t.Call) else None
        if not isinstance(value, t.Call) or not isinstance(func, t.Attribute):
            return
        fills = func.name in ("append", "extend", "insert") or func.name.endswith("_")
        if fills and any(self.carries(arg.value, node, names) for arg in value.args):
            yield from _base(func.value)

    def carries(self, expr: t.Expr, node: t.Node, names: set[str]) -> bool:
        """Whether the graph of a tensor is in what an expression gives."""
        if expr is node:
            return True
        if expr in self.hidden:
            return False
        parts: list[t.Expr] = []
        if isinstance(expr, t.Name):
            return expr.id in names
        if isinstance(expr, t.Attribute):
            parts += [expr.value] if expr.name not in k.BREAKING_ATTRIBUTES else []
        elif isinstance(expr, t.Call):
            is_method = isinstance(expr.func, t.Attribute)
            if expr.name not in (k.BREAKING_METHODS if is_method else k.BREAKING_FUNCTIONS):
                parts += [arg.value for arg in expr.args]
                parts += [expr.func.value] if isinstance(expr.func, t.Attribute) else []
        elif isinstance(expr, t.Operation):
            parts += expr.operands if expr.operator not in _COMPARISONS else []
        elif isinstance(expr, t.Subscript | t.Starred):
            parts.append(expr.value)
        elif isinstance(expr, t.Conditional):
            parts += [expr.body, expr.orelse]
        elif isinstance(expr, t.Display):
            parts += expr.items
        elif isinstance(expr, t.DictDisplay):
            parts += [value for _, value in expr.entries]
        elif isinstance(expr, t.Comprehension):
            parts += [expr.element, *(clause.iterable for clause in expr.clauses)]
        return any(self.carries(part, node, names) for part in parts)


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


def _base(target: t.Expr) -> list[str]:
    """The variable that a target is, or is a part of."""
    while isinstance(target, t.Subscript | t.Attribute):
        target = target.value
    return [target.id] if isinstance(target, t.Name) and target.id != "self" else []

"""Values with a graph that are changed in place through ``.data`` or ``.detach()``, which autograd does not see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.data_writes import Written, written
from gradguard.static.mistakes.backward import WrittenBehind
from gradguard.static.model import Mode
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.bound_paths import binds
from gradguard.static.program.order import has, onwards
from gradguard.static.values import Kind, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# The backward of these computes with what they gave.
_SAVES_RESULT = frozenset("softmax sigmoid tanh relu exp sqrt rsqrt elu selu softplus log_softmax leaky_relu".split())
# A forward that is rounded, and a backward as if it were not, are meant.
_ESTIMATES = re.compile(
    r"sign(?!al)|round|quant|binar|ternar|clamp|clip|floor|ceil|heaviside|straight|(?<![a-z])ste(?![a-z])", re.I
)
NOT_TRAINING = re.compile(
    r"(?<![a-z])(?:eval|infer|test|valid|val(?![a-z])|sampl|generat|deploy|export|debug|predict|frozen)", re.I
)
_OF_SHAPE = frozenset("shape dtype device size dim ndim numel new_zeros new_ones new_full new_tensor new_empty".split())


def written_behind(flow: Flow) -> Iterator[WrittenBehind]:
    """The statements that change a value which goes on to the loss as if nothing had happened."""
    if flow.facts.is_test or flow.facts.entry_mode is Mode.OFF or NOT_TRAINING.search(flow.ref.define.name):
        return
    for stmt, (value, mode) in flow.written.items():
        change = written(stmt)
        if change is None or mode in (Mode.OFF, Mode.UNKNOWN) or not _is_result(flow, value):
            continue
        makers = _makers(flow, change.name, stmt)
        if not makers or not _is_wrong(flow, change, makers) or _is_meant(flow, stmt, change):
            continue
        used = _use(flow, stmt, change.name)
        if used is not None:
            yield WrittenBehind(flow.site(stmt), change.name, change.is_watched, flow.site(makers[-1]), flow.site(used))


def _is_result(flow: Flow, value: Value) -> bool:
    """Whether a value surely has a graph that began here: by what the flow knows, or by a layer of the object."""
    if value.is_operation_result:
        return True
    calls = [root.key for root in value.roots if root.source is Source.CALL]
    is_tensor = value.kind in (Kind.TENSOR, Kind.OUTPUT, Kind.UNKNOWN)
    return is_tensor and any(isinstance(call, t.Call) and is_own_layer(flow, call) for call in calls)


def is_own_layer(flow: Flow, call: t.Call) -> bool:
    """Whether a call is that of a module with parameters that the object has made: ``self.query(h)``."""
    path, owner = t.path_of(call.func) or "", flow.ref.owner
    name = path.removeprefix("self.").removesuffix("[*]")
    if owner is None or path == name or not name.isidentifier():
        return False
    for cls in owner.lineage():
        ref = cls.methods.get("__init__")
        for value in ref.assigned.get(f"self.{name}", ()) if ref is not None else ():
            made = [node for node in t.walk(value) if isinstance(node, t.Call)]
            if ref is not None and any(is_made(ref, node) for node in made):
                return True
    return False


def _makers(flow: Flow, name: str, stmt: t.Stmt) -> list[t.Expr]:
    """What computes the variable, before the statement: none where it may be another tensor by another name."""
    line = flow.site(stmt).line
    made = [value for value in flow.ref.assigned.get(name, []) if flow.site(value).line < line]
    return made if all(_computes(value) for value in made) else []


def _computes(value: t.Expr) -> bool:
    """Whether an expression is an operation: a mere name, or ``x.clone().detach()``, is none."""
    return isinstance(value, t.Call | t.Operation) and t.detached(value) is None


def _is_wrong(flow: Flow, change: Written, makers: list[t.Expr]) -> bool:
    """Whether the gradient is another one than that of what was computed."""
    last = makers[-1]
    is_saved = isinstance(last, t.Call) and last.name in _SAVES_RESULT
    if change.is_watched and is_saved:
        return False  # that raises
    if not change.is_sum:
        return True
    return is_saved or any(_has_graph(flow, operand) for operand in change.operands)


def _has_graph(flow: Flow, operand: t.Expr) -> bool:
    """Whether something with a graph, or a parameter, is added: it gets no gradient of that."""
    if not isinstance(operand, t.Name | t.Attribute):
        return False
    path = t.path_of(operand)
    value = flow.read(flow.canonical(path), flow.final) if path is not None else Value()
    return _is_result(flow, value) or any(root.source is Source.LEAF for root in value.roots)


def _is_meant(flow: Flow, stmt: t.Stmt, change: Written) -> bool:
    """Whether it is an estimator with another gradient on purpose, or not done in training."""
    names = [flow.ref.define.name, *(_name(node) for operand in change.operands for node in t.walk(operand))]
    if any(_ESTIMATES.search(name) for name in names):
        return True
    around = [each for each in flow.ref.define.statements if isinstance(each, t.If) and has([each], stmt)]
    return any(asks_for_evaluation(each, stmt) for each in around)


def _name(node: t.Node) -> str:
    return node.name if isinstance(node, t.Attribute) else node.id if isinstance(node, t.Name) else ""


def asks_for_evaluation(choice: t.If, stmt: t.Stmt) -> bool:
    names = [_name(node) for node in t.walk(choice.test)]
    if any(NOT_TRAINING.search(name) or "grad" in name for name in names):
        return True
    is_not = any(isinstance(node, t.Operation) and node.operator == "not" for node in t.walk(choice.test))
    return any("train" in name for name in names) and is_not == has(choice.body, stmt)


def _use(flow: Flow, stmt: t.Stmt, name: str) -> t.Node | None:
    """What computes with the changed value afterwards, on its way to the loss."""
    define = flow.ref.define
    hidden, after = set(cut(define)), list(_until_bound(onwards(define.body, stmt), name))
    if not flow.facts.is_module_method and not any(each.is_in(after) for each in flow.facts.backwards):
        return None
    uses = (_reading(each, name, hidden) for each in after)
    use = next((node for node in uses if node is not None), None)
    return use if use is not None and name in _leading_to_loss(flow) else None


def _until_bound(after: list[t.Stmt], name: str) -> Iterator[t.Stmt]:
    """The statements up to one that binds a variable, which is the last to compute with what it was."""
    for stmt in after:
        yield stmt
        if binds(stmt, name):
            return


def _reading(stmt: t.Stmt, name: str, hidden: set[t.Node]) -> t.Node | None:
    """The use of a variable in what a statement computes with a graph."""
    if written(stmt) is not None or isinstance(stmt, t.If | t.Repeat | t.With | t.Try | t.Match):
        return None
    value = stmt.value if isinstance(stmt, t.Assign | t.Augment | t.Return | t.Evaluate) else None
    shapes = {id(node.value) for node in t.walk(value) if isinstance(node, t.Attribute) and node.name in _OF_SHAPE}
    for node in t.walk(value):
        if isinstance(node, t.Name) and node.id == name and node not in hidden and id(node) not in shapes:
            return node
    return None


def _leading_to_loss(flow: Flow) -> set[str]:
    """The variables of which what the function returns, or backpropagates, is made."""
    waiting: list[object] = [each.site.node for each in flow.facts.backwards]
    waiting += [each for each in flow.ref.define.statements if isinstance(each, t.Return)]
    hidden = set(cut(flow.ref.define))
    seen: set[str] = set()
    while waiting:
        for node in t.walk(waiting.pop()):
            path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) and node not in hidden else None
            if path is not None and path not in seen:
                seen.add(path)
                waiting += flow.ref.assigned.get(path, ())
                waiting += [s.value for s in _additions(flow) if t.path_of(s.target) == path]
                waiting += [a.value for call in _appends(flow, path) for a in call.args]
    return seen


def _additions(flow: Flow) -> list[t.Augment]:
    return [stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Augment)]


def _appends(flow: Flow, path: str) -> list[t.Call]:
    """What adds to a list of that name."""
    calls = [call for call in flow.ref.calls if call.name in ("append", "extend", "update")]
    return [c for c in calls if isinstance(c.func, t.Attribute) and t.path_of(c.func.value) == path]

"""Loops over parameters that bind their variable anew: ``p = p - lr * p.grad`` changes no parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.order import has
from gradguard.static.program.parameter_names import parameters_in
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_ARITHMETIC = frozenset("+ - * / ** @ // %".split())
_NEW_TENSOR = frozenset(
    "clamp clamp_min clamp_max clip add sub mul div addcmul addcdiv lerp clone detach sign sqrt pow abs neg norm mean "
    "sum float half double bfloat16 to cuda cpu type zeros_like ones_like exp max min round item nan_to_num".split()
)
"""Methods of tensors that change none; those that end with an underscore do."""
_GIVING = re.compile(r"(?:torch|math|torch\.nn\.functional)\.[a-z]\w*(?<!_)|torch\.nn\.(?:parameter\.)?Parameter")
_OF_NUMBERS = frozenset("float int abs min max pow round".split())
_SAME_TENSOR = frozenset("data grad T".split())
_OF_LEAF = frozenset("grad requires_grad".split())
"""Attributes that may be set of what is dropped: what was to be reset, or to want gradients, then."""


def rebound_updates(flow: Flow) -> Iterator[Site]:
    """The statements that give a loop's name for a parameter a new tensor, which nothing takes."""
    if flow.facts.is_test or not flow.module.names_torch:
        return
    for loop in flow.ref.define.statements:
        if not isinstance(loop, t.Repeat) or loop.target is None or loop.iterable is None:
            continue
        names = {each.id for each in t.names_in(loop.target) if isinstance(each, t.Name)}
        stmts = [stmt for stmt, name in _rebound(loop.body) if name in names and _is_dropped(flow, loop, stmt, name)]
        if not stmts:
            continue
        parameters = _parameters(flow, loop, names)
        yield from (flow.site(stmt) for stmt in stmts if _is_update(flow, stmt, parameters))


def _rebound(body: list[t.Stmt]) -> Iterator[tuple[t.Assign, str]]:
    """What binds a single name; what an inner loop binds may be for its next iteration."""
    for stmt in body:
        if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], t.Name):
            yield stmt, stmt.targets[0].id
        if not isinstance(stmt, t.Repeat):
            for block in t.blocks(stmt):
                yield from _rebound(block)


# --- what surely is a parameter, or its gradient ----------------------------------------------------------------


def _parameters(flow: Flow, loop: t.Repeat, names: set[str]) -> set[str]:
    """Those of a loop's names that stand for parameters."""
    assert loop.target is not None
    assert loop.iterable is not None
    found = {t.path_of(name) for name, _ in parameters_in(flow.ref, loop.target, loop.iterable)}
    gradients = [node for node in t.walk(loop.body) if isinstance(node, t.Attribute) and node.name == "grad"]
    if not any(isinstance(node, t.Call) and node.name in ("backward", "grad") for node in t.walk(loop.body)):
        found |= {t.path_of(node.value) for node in gradients}  # it is no input
    found |= _differentiated(flow, loop)
    return {name for name in names if name in found}


def _differentiated(flow: Flow, loop: t.Repeat) -> set[str | None]:
    """``p`` of ``for p, g in zip(params, grads)``, and of gradients that a call gave: ``grad(loss, params)``."""
    over, items = loop.iterable, loop.target.items if isinstance(loop.target, t.Display) else []
    if not isinstance(over, t.Call) or over.name != "zip" or len(over.args) != len(items):
        return set()
    calls = [each for each in flow.ref.define.all(t.Call) if each.name == "grad"]
    inputs = {t.path_of(given) for call in calls if (given := call.argument("inputs", 1)) is not None}
    inputs.discard(None)
    return {t.path_of(item) for item, arg in zip(items, over.args) if t.path_of(arg.value) in inputs}


def _is_update(flow: Flow, stmt: t.Assign, parameters: set[str]) -> bool:
    """Whether a parameter is given another value, or what is kept beside it, as its average, is blended with it."""
    name = t.path_of(stmt.targets[0])
    if name in parameters:
        return _is_new_tensor(flow, stmt.value)
    blended = set(_blended(stmt.value))
    return name in blended and not parameters.isdisjoint(blended) and _is_new_tensor(flow, stmt.value)


def _blended(value: t.Expr) -> Iterator[str]:
    """The names of the tensors that an operation is made of: ``avg`` and ``p`` of ``0.9 * avg + 0.1 * p.data``."""
    if isinstance(value, t.Operation) and value.operator in _ARITHMETIC:
        for operand in value.operands:
            yield from _blended(operand)
    elif isinstance(value, t.Name):
        yield value.id
    elif isinstance(value, t.Attribute) and value.name in _SAME_TENSOR:
        yield from _blended(value.value)
    elif (whole := t.detached(value)) is not None:
        yield from _blended(whole)


def _is_new_tensor(flow: Flow, value: t.Expr) -> bool:
    """Whether an expression makes something, and does nothing else: it changes no tensor in place."""
    if not isinstance(value, t.Operation | t.Call):
        return False
    return all(_changes_nothing(flow, node) for node in t.walk(value))


def _changes_nothing(flow: Flow, node: t.Node) -> bool:
    if isinstance(node, t.Operation):
        return True
    if isinstance(node, t.Call):
        return not any(arg.star or arg.keyword in ("out", "inplace") for arg in node.args) and _only_gives(flow, node)
    return isinstance(node, t.Name | t.Attribute | t.Constant | t.Subscript | t.Slice | t.Display)


def _only_gives(flow: Flow, call: t.Call) -> bool:
    found = flow.module.value_of(call.func)
    if found.kind is Kind.EXTERNAL:
        return _GIVING.fullmatch(str(found.ref)) is not None
    if isinstance(call.func, t.Attribute):
        return call.func.name in _NEW_TENSOR and found.kind not in (Kind.FUNCTION, Kind.CLASS)
    return call.name in _OF_NUMBERS and found.kind is Kind.UNKNOWN


# --- what takes it ----------------------------------------------------------------------------------------------


def _is_dropped(flow: Flow, loop: t.Repeat, stmt: t.Assign, name: str) -> bool:
    """Whether nothing reads a name once the statement has bound it: neither later in the loop, nor anywhere else."""
    nodes = flow.ref.define.nodes
    if any(isinstance(node, t.Declare) and name in node.names for node in nodes):
        return False
    if any(isinstance(node, t.Lambda | t.Define) for node in t.walk(loop.body)):
        return False  # it may read the name when it is called
    others = [part for node in nodes for part in _of_others(node, loop, name)]
    harmless = {id(node) for node in t.walk([*_before(loop.body, stmt), stmt, *others])}
    return all(id(node) in harmless for node in nodes if isinstance(node, t.Name) and node.id == name)


def _of_others(node: t.Node, loop: t.Repeat, name: str) -> list[t.Node]:
    """What only binds a name, and where the name is what something else has bound."""
    if isinstance(node, t.Assign):
        return [target for target in node.targets if _only_binds(target, name)]
    if isinstance(node, t.Repeat) and node.target is not None and _binds(node.target, name):
        is_around = any(each is loop for each in t.walk_statements([node]))
        return [node.target] if is_around else [node.target, *node.body]
    if isinstance(node, t.Comprehension) and any(_binds(clause.target, name) for clause in node.clauses):
        return [node]
    is_own = isinstance(node, t.Define | t.Lambda) and any(param.name == name for param in node.params)
    return [node] if is_own else []


def _before(body: list[t.Stmt], stmt: t.Stmt) -> list[t.Node]:
    """What is done before a statement of a block, and on ways that do not come to it."""
    done: list[t.Node] = []
    for each in body:
        if each is stmt:
            return done
        if has([each], stmt):
            return [*done, *_around(each, stmt)]
        done.append(each)
    return done


def _around(each: t.Stmt, stmt: t.Stmt) -> list[t.Node]:
    """Of a statement that has another one in it: what it asks or opens, its other branch, and what comes first."""
    done: list[t.Node] = [each.test] if isinstance(each, t.If) else []
    if isinstance(each, t.With):
        done += [item for item, _ in each.items]
    for block in t.blocks(each):
        if has(block, stmt):
            done += _before(block, stmt)
        elif isinstance(each, t.If):
            done += block
    return done


def _binds(target: t.Expr, name: str) -> bool:
    return any(isinstance(each, t.Name) and each.id == name for each in t.names_in(target))


def _only_binds(target: t.Expr, name: str) -> bool:
    """``p = ...``, and ``p.grad = None`` of what is dropped."""
    owner = target.value if isinstance(target, t.Attribute) and target.name in _OF_LEAF else target
    return isinstance(owner, t.Name) and owner.id == name

"""Weights that are kept without a copy, to be compared with later: ``p - anchor[name]`` is always 0."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import LiveState
from gradguard.static.program.order import has
from gradguard.static.program.own_methods import methods_of
from gradguard.static.program.parameter_names import is_live, last_of, loops_of, named, parameters_in, same_memory
from gradguard.static.program.paths import is_part
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef
    from gradguard.static.project import Module

_SHAPING = frozenset("detach view flatten reshape ravel squeeze unsqueeze".split())
_DISTANCES = frozenset("mse_loss l1_loss smooth_l1_loss dist sub".split())
_MOVED = re.compile(r"\.data\s*=[^=]|vector_to_parameters|\bswap_tensors|\.set_\(")


def live_anchors(flow: Flow) -> Iterator[LiveState]:
    """Where a function keeps the weights of a model as they are, and takes them away from themselves later."""
    if flow.facts.is_test or not any(isinstance(node, t.Repeat | t.Comprehension) for node in flow.ref.define.nodes):
        return
    kept_by = [(stmt, each) for stmt in flow.ref.define.statements for each in kept_live(flow.ref, stmt)]
    if kept_by and may_move(flow.module):
        return
    for stmt, (kept, value, model) in kept_by:
        scope = methods_of(flow.ref.owner) if flow.ref.owner is not None and kept.startswith("self.") else []
        scope = scope or [flow.ref]
        if not is_one_model(flow.ref, kept, model) or not _is_only_live(scope, kept):
            continue
        used = next((site for ref in scope for site in _compared(ref, kept, model)), None)
        if used is not None:
            yield LiveState(flow.site(stmt), kept, model, "", used, value=flow.site(value))


def may_move(module: Module) -> bool:
    """Whether a parameter may get another memory."""
    return module.source.shows(_MOVED)


def kept_live(ref: FunctionRef, stmt: t.Stmt) -> Iterator[tuple[str, t.Expr, str]]:
    """The collections into which a statement puts weights as they are: its path, what is put there, the model."""
    for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
        if isinstance(target, t.Subscript):
            yield from _put(ref, target.value, value)
        elif (path := t.path_of(target)) is not None and isinstance(value, t.Comprehension):
            for name, model in parameters_in(ref, value.clauses[0].target, value.clauses[0].iterable):
                if is_live(value.element, name):
                    yield path, value.element, model
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) and call.func.name == "append":
        yield from _put(ref, call.func.value, call.args[0].value) if len(call.args) == 1 else ()


def _put(ref: FunctionRef, collection: t.Expr, value: t.Expr) -> Iterator[tuple[str, t.Expr, str]]:
    path = t.path_of(collection)
    if path is None or "[" in path or same_memory(value) is value:
        return
    for name, model in named(ref):
        if is_live(value, name):
            yield path, value, model


def is_one_model(ref: FunctionRef, kept: str, model: str) -> bool:
    """Whether the model is the same one wherever the collection is known."""
    if model.startswith("self.") and ref.owner is not None:
        methods = (method for method in methods_of(ref.owner) if method.define.name != "__init__")
        return not any(is_part(model, path) for method in methods for path in method.assigned)
    if kept.startswith("self."):
        return False  # whatever the methods are given
    head = model.split(".")[0]
    loops = [stmt for stmt in ref.define.statements if isinstance(stmt, t.Repeat)]
    if any(loop.target is not None and head in _names(loop.target) for loop in loops):
        return False
    assigns = [s for s in ref.define.statements if isinstance(s, t.Assign) and _binds(s, head)]
    is_given = any(param.name == head for param in ref.define.params)
    return len(assigns) <= (0 if is_given else 1) and not any(has(loop.body, s) for loop in loops for s in assigns)


def _binds(stmt: t.Assign, name: str) -> bool:
    return any(name in _names(target) for target in stmt.targets)


def _names(target: t.Expr) -> list[str | None]:
    return [t.path_of(each) for each in t.names_in(target)]


def _is_only_live(scope: Sequence[FunctionRef], kept: str) -> bool:
    """Whether nothing else is put into a collection than what is empty, and weights as they are."""
    for ref in scope:
        for stmt in ref.define.statements:
            live = [value for path, value, _ in kept_live(ref, stmt) if path == kept]
            if not live and puts(stmt, kept):
                return False
    return True


def puts(stmt: t.Stmt, kept: str) -> bool:
    """Whether a statement binds a collection to something, puts something into it, or changes what is in it."""
    if isinstance(stmt, t.Assign):
        pairs = ((t.path_of(target), value) for target, value in t.pairs(stmt.targets, stmt.value))
        return any(is_part(path or "", kept) and not _is_empty(value) for path, value in pairs)
    if isinstance(stmt, t.Augment):
        return is_part(t.path_of(stmt.target) or "", kept)
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) else None
    return isinstance(func, t.Attribute) and is_part(t.path_of(func.value) or "", kept) and func.name != "clear"


def _is_empty(value: t.Expr) -> bool:
    if isinstance(value, t.DictDisplay):
        return not value.entries
    if isinstance(value, t.Call):
        return value.name in ("dict", "list", "OrderedDict", "defaultdict") and not value.args
    return not value.items if isinstance(value, t.Display) else isinstance(value, t.Constant)


def _compared(ref: FunctionRef, kept: str, model: str) -> Iterator[Site]:
    """Where a function takes what is kept away from the parameters that it is, or gives both to one that does."""
    yield from _differences(ref, kept, model)
    for call in ref.calls:
        helper = ref.callee(call) if len(call.args) > 1 else None
        given = {t.path_of(value): name for name, value in helper.given_by(call).items()} if helper is not None else {}
        if helper is not None and kept in given and model in given:
            yield from _differences(helper, given[kept], given[model])


def _differences(ref: FunctionRef, kept: str, model: str) -> Iterator[Site]:
    """Where a function takes what is kept away from the parameters that it is."""
    own = {t.path_of(name) for name, of in named(ref) if of == model}
    others = {t.path_of(name) for target, over in loops_of(ref) for name in elements_of(target, over, kept)}
    for node in ref.define.nodes if own else ():
        sides: Sequence[t.Expr] = ()
        if isinstance(node, t.Operation) and node.operator == "-":
            sides = node.operands
        elif isinstance(node, t.Call) and node.name in _DISTANCES:
            sides = [arg.value for arg in node.args[:2]]
        paths = [t.path_of(_plain(side)) for side in sides]
        for one, other in (paths, paths[::-1]) if len(paths) == 2 else ():
            is_kept = other is not None and (other in others or other.startswith(f"{kept}["))
            if one is not None and one in own and is_kept and one not in others:
                yield Site(ref.chunk, node)
                break


def elements_of(target: t.Expr, over: t.Expr, kept: str) -> Iterator[t.Expr]:
    """The names in the target of a loop that stand for what is kept: ``for p, old in zip(net.parameters(), kept)``."""
    if isinstance(over, t.Call) and over.name == "zip" and isinstance(target, t.Display):
        for item, arg in zip(target.items, over.args):
            yield from elements_of(item, arg.value, kept)
        return
    owner = over.func.value if isinstance(over, t.Call) and isinstance(over.func, t.Attribute) else over
    if t.path_of(owner) == kept and isinstance(target, t.Name):
        yield target
    elif t.path_of(owner) == kept and (last := last_of(target)) is not None:
        yield last


def _plain(expr: t.Expr) -> t.Expr:
    """``p`` of ``p.view(-1)``, ``p.data``."""
    while True:
        if isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name in _SHAPING:
            expr = expr.func.value
        elif isinstance(expr, t.Attribute) and expr.name == "data":
            expr = expr.value
        else:
            return expr

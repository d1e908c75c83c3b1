"""What is put around itself in each iteration: a function, an object that keeps the one before it, a parametrization.

``op.forward = timed(op.forward)``, ``pupil = pupil.successor()``, ``register_parametrization(layer, "weight", p)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.chain_kept import are_all_listed, is_gone_through
from gradguard.static.kept.chained import Link, link_of
from gradguard.static.kept.put_back_same import PutBack, put_back_same, puts_back
from gradguard.static.kept.same_again import holds_again, is_rebound, loop_of_same
from gradguard.static.mistakes.kept import WrappedAgain
from gradguard.static.model import Loop
from gradguard.static.program.bound_paths import binds
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_BACKWARD = re.compile(r"\bbackward\(")
_UTILS = "torch.nn.utils."
_COMPOSED = {
    f"{_UTILS}parametrize.register_parametrization": "parametrization",
    f"{_UTILS}parametrizations.weight_norm": "parametrization",
    f"{_UTILS}parametrizations.spectral_norm": "parametrization",
    f"{_UTILS}prune.custom_from_mask": "mask",
    f"{_UTILS}prune.global_unstructured": "mask",
}
"""What torch puts on top of the one before; other ways to prune keep no tensor, and the older norms raise."""
_COMPOSING = frozenset(name.rpartition(".")[2] for name in _COMPOSED)
_TAKEN_OFF = {
    "parametrization": re.compile(r"\bremove_parametrizations\b|\.parametrizations\b"),
    "mask": re.compile(r"\bprune\.remove\b|\bimport\b[^\n]*\bremove\b|_forward_pre_hooks\b"),
}
_MARKED = re.compile(r"__wrapped__|\bunwrap\w*\(")


def wrapped_again(flow: Flow) -> Iterator[WrappedAgain]:
    """Where a function does so, whenever a loop that trains comes to it."""
    for node, link, of in _links(flow):
        if not flow.project.survey.mentions(_BACKWARD, flow.module):
            continue
        same: list[PutBack] = []
        if _is_taken_off(flow, node, link, same):
            same = put_back_same(flow, node, link.path) if link.kind == "wrapper" else []
            if not same or _is_taken_off(flow, node, link, same):
                continue
        loop = _loop_of(flow, node, link, of)  # that reads the most
        if loop is not None and not _is_meant(flow, node, link, loop):
            yield WrappedAgain(flow.site(node), link.path, link.kind, link.kept, same[0].site if same else None)


def _links(flow: Flow) -> Iterator[tuple[t.Node, Link, t.Expr]]:
    """The statements that put something around what is at a path, and the calls of torch that do so; and of what."""
    trained = [loop for loop in flow.facts.loops if loop.trains and loop.is_long]
    for stmt in flow.ref.define.statements:
        is_in_loop = any(stmt in loop.nodes for loop in trained)
        for target, value in _bound(stmt):
            path = t.path_of(target)
            may_last = path is not None and "[" not in path and (is_in_loop or "." in path)  # a variable ends with it
            link = link_of(flow, path, value) if path is not None and may_last else None
            if link is not None:
                yield stmt, link, target.value if isinstance(target, t.Attribute) else target
    for call in (call for call in flow.ref.calls if call.name in _COMPOSING):
        called = flow.module.value_of(call.func)
        kind = _COMPOSED.get(str(called.ref)) if called.kind is Kind.EXTERNAL else None
        if kind is not None and call.args and not call.args[0].star:
            of = call.args[0].value
            yield call, Link(flow.site(of).code, kind), of


def _bound(stmt: t.Stmt) -> Iterator[tuple[t.Expr, t.Expr]]:
    """What a statement binds, also by ``setattr(layer, "forward", f)``."""
    if isinstance(stmt, t.Assign):
        yield from t.pairs(stmt.targets, stmt.value)
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if isinstance(call, t.Call) and call.name == "setattr" and len(call.args) == 3:
        owner, name, value = (arg.value for arg in call.args)
        if isinstance(name, t.Constant) and isinstance(name.value, str):
            yield t.Attribute(None, owner, name.value), value


def _loop_of(flow: Flow, node: t.Node, link: Link, of: t.Expr) -> Loop | None:
    """The loop whose iterations put one more around it; of a variable, one that binds it nowhere else."""
    if isinstance(of, t.Name) and link.kind not in _TAKEN_OFF and of.id == link.path:
        around = [loop for loop in flow.facts.loops if node in loop.nodes and loop.trains and loop.is_long]
        inner = max(around, key=lambda loop: len(loop.nodes), default=None)
        is_only = inner is not None and [n for n in inner.nodes if isinstance(n, t.Stmt) and binds(n, of.id)] == [node]
        return inner if is_only and holds_again(flow, node) else None
    names = {each.id for each in t.walk(of) if isinstance(each, t.Name)}
    loop = loop_of_same(flow, node, names) if not is_rebound(flow, of) else None
    return loop if loop is None or link.kind != "mask" or loop.is_step else None  # one for each round of pruning


def _is_meant(flow: Flow, node: t.Node, link: Link, loop: Loop) -> bool:
    """Whether the chain is the model, which gets one more for each stage, or the program keeps all of them anyway."""
    if link.kind != "object" or link.attribute is None:
        return False
    if link.is_model and ("." not in link.path or not loop.is_step):
        return True
    return is_gone_through(flow, link.attribute) or are_all_listed(flow, node, link.path)


def _is_taken_off(flow: Flow, node: t.Node, link: Link, same: list[PutBack]) -> bool:
    """Whether anything in the program puts back what was there, or asks whether it is wrapped already.

    Args:
        same: what only puts back the wrapper.
    """
    survey, name = flow.project.survey, link.path.rpartition(".")[2]
    if link.kind in _TAKEN_OFF:
        return survey.mentions(_TAKEN_OFF[link.kind], flow.module)
    if link.attribute is not None and survey.empties(link.attribute, flow.module, ()):
        return True
    if name == link.path:
        return False
    in_vain = [each.function for each in same]
    again = re.compile(
        rf"\.{name}\s*=(?!=)|\bdel\s[^\n]*\.{name}\b|(?:attr\(|\b__dict__\b|\bvars\()[^\n]*['\"]{name}['\"]"
    )
    if flow.ref.define.name not in in_vain and puts_back(flow.ref, node, link.path):
        return True
    own = [
        flow.ref.define.name,
        "__init__",
        *(node.name for node in flow.ref.define.all(t.Define)),
    ]
    besides = [*own, *in_vain]
    return survey.mentions(_MARKED, flow.module) or survey.acts(name, again, flow.module, besides=besides)

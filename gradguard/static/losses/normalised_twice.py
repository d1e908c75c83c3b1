"""Losses that are trained, and given what is normalised already, or what is not and should be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.losses.normalised import Result, results
from gradguard.static.mistakes.losses import NormalisedTwice
from gradguard.static.model import Mode
from gradguard.static.program.computed import path_of, with_graph
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.made_objects import Place, callers, makers, named_in
from gradguard.static.program.reaching import bound_at, levels_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.classes import Class

_LOSSES = {
    "cross_entropy": "cross_entropy", "CrossEntropyLoss": "cross_entropy",
    "binary_cross_entropy_with_logits": "bce", "BCEWithLogitsLoss": "bce",
    "nll_loss": "nll", "NLLLoss": "nll", "kl_div": "kl", "KLDivLoss": "kl", "ctc_loss": "ctc", "CTCLoss": "ctc",
}  # fmt: skip
_WRONG = {
    "cross_entropy": ("softmax", "sigmoid"),
    "bce": ("softmax", "sigmoid"),
    "nll": ("softmax", "sigmoid", "raw"),
    "ctc": ("softmax", "sigmoid", "raw"),
    "kl": ("softmax",),
}
_PACKAGES = ("torch", "torch.nn", "torch.nn.functional", "torch.nn.modules.loss")
_MAY_BE_LOSS = re.compile(r"loss|crit|entropy|objective|(?:^|_|\.)(?:ce|bce|nll|kl|kld|ctc)(?:$|_|\d)", re.I)
_LOSS_CLASS = re.compile("Loss|Criterion")
_MAX_CALLS = 2


def normalised_twice(flow: Flow) -> Iterator[NormalisedTwice]:
    """The calls of losses that take something else than they are given, on every way."""
    if flow.facts.is_test or flow.facts.entry_mode is Mode.OFF:
        return
    place = Place(flow.module, flow.ref)
    for call in flow.ref.calls:
        given = call.argument("input", 0) if call.args and not call.args[0].star else None
        if given is None or not _may_be_loss(place, call):
            continue
        if not _is_backpropagated(flow.ref, call, 0):
            continue
        every = _ways(flow.ref, call, results(place, given))
        ways = [way for way in every if all(each.kind for each in way)]
        losses = _losses(place, call) if ways else []
        if len(every) == 1 and not _is_asked(flow.ref, call):  # whichever loss an option takes, it gets the same
            losses = [loss for loss in losses if all(each.kind in _WRONG.get(loss, ()) for each in ways[0])]
        wrong = [way for way in ways if all(each.kind in _WRONG.get(loss, ()) for loss in losses for each in way)]
        if losses and wrong:
            kind = wrong[0][0].kind
            made = [way[0] for way in wrong if way[0].kind == kind]
            yield NormalisedTwice(flow.site(call), losses[0], kind, tuple(filter(None, map(_site, made))))


def _ways(ref: FunctionRef, call: t.Call, found: list[Result]) -> list[list[Result]]:
    """What a loss may be given: each model for itself, unless it may be asked before which one it is."""
    models = {each.given_by.define: each.given_by for each in found if each.given_by is not None}
    if not models or _is_asked(ref, call):
        return [found] if found else []
    return [[each for each in found if each.given_by in (None, model)] for model in models.values()]


def _is_asked(ref: FunctionRef, call: t.Call) -> bool:
    """Whether a condition around a call may ask which model, or which loss, it is."""
    around = (block[place] for block, place in levels_of(ref.define.body, call))
    asked = any(isinstance(stmt, t.If) and not _is_of_script(stmt.test) for stmt in around)
    return asked or any(isinstance(stmt, t.Match) for stmt in ref.define.statements)


def _is_of_script(test: t.Expr) -> bool:
    """``if __name__ == "__main__"``."""
    return any(isinstance(node, t.Name) and node.id == "__name__" for node in t.walk(test))


def _site(result: Result) -> Site | None:
    ref = result.place.ref
    return Site(ref.chunk, result.node) if ref is not None else None


def _may_be_loss(place: Place, call: t.Call) -> bool:
    """Whether a call may be of a loss, without a look at other files."""
    if isinstance(call.func, t.Call):
        return call.func.name in _LOSSES
    path = t.path_of(call.func)
    if path is None:
        return False
    if call.name in _LOSSES:
        return True
    ref = place.ref
    bound = ref.assigned.get(path, []) if ref is not None else []
    owner = ref.owner if ref is not None and path.startswith("self.") else None
    bound = [*bound, *(value for cls in owner.lineage() for _, value in cls.assigned(path[5:]))] if owner else bound
    made = (node.name in _LOSSES for value in bound for node in t.walk(value) if isinstance(node, t.Call))
    return any(made) or (len(call.args) > 1 and _MAY_BE_LOSS.search(path) is not None)


def _losses(place: Place, call: t.Call) -> list[str]:
    """Which loss is called, on each way; empty for another one (reads other files)."""
    named = named_in(place, call.func)
    if isinstance(named, str):
        return [_loss_named(named, call)]
    return [_loss_named(each.of, each.call) if isinstance(each.of, str) else "" for each in makers(place, call.func)]


def _loss_named(path: str, made: t.Call) -> str:
    package, _, name = path.rpartition(".")
    loss = _LOSSES.get(name, "") if package in _PACKAGES else ""
    return "" if loss == "kl" and _is_of_each_entry(made) else loss


def _is_of_each_entry(made: t.Call) -> bool:
    """Whether a divergence is asked for entry by entry: what is summed then is a scalar product, and meant as that.

    So it is with the neighbours of a sample: ``F.kl_div(probabilities, bank[near], reduction="none").sum(-1)``, whose
    gradient is that of ``-(bank[near] * probabilities).sum(-1)``.
    """
    reduction, reduce = made.argument("reduction"), made.argument("reduce")
    is_none = isinstance(reduction, t.Constant) and reduction.value == "none"
    return is_none or (isinstance(reduce, t.Constant) and reduce.value is False)


def _is_backpropagated(ref: FunctionRef, call: t.Call, depth: int) -> bool:
    """Whether a backward is run of what a call gives: here, by a caller (reads other files), or by a framework."""
    names = _made_of(ref, call)
    backwards = (each for each in ref.calls if each.name.endswith("backward") and each is not call)
    if any(_gets(ref, each, call, names) for each in backwards):
        return not _is_attack(ref)
    returned = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return)]
    if depth >= _MAX_CALLS or not any(value is not None and _gets(ref, value, call, names) for value in returned):
        return False
    if ref.define.name == "training_step" and ref.owner is not None and ref.owner.framework_methods:
        return True
    if ref.define.name == "forward" and ref.owner is not None and _is_loss(ref.owner):
        return True  # others train with it, wherever they are
    found = ((place, each) for place, each in callers(ref) if place.ref is not None)
    return any(place.ref is not None and _is_backpropagated(place.ref, each, depth + 1) for place, each in found)


def _is_loss(owner: Class) -> bool:
    return owner.is_module and _LOSS_CLASS.search(owner.name) is not None


def _is_attack(ref: FunctionRef) -> bool:
    """Whether gradients are read, and no step is taken: an adversarial example, a map of what matters."""
    reads = any(isinstance(node, t.Attribute) and node.name == "grad" for node in ref.define.nodes)
    return reads and all(call.name != "step" for call in ref.calls)


def _gets(ref: FunctionRef, expr: t.Expr, call: t.Call, names: set[str]) -> bool:
    """Whether an expression has it where it stands, also by names that are bound to something else elsewhere."""
    for node in with_graph(expr):
        if node is call:
            return True
        path = path_of(node)
        if path is not None and path in names:
            bound = bound_at(ref.define, node, path)
            if not bound or any(each.value is None or _has(each.value, call, names) for each in bound):
                return True
    return False


def _made_of(ref: FunctionRef, call: t.Call) -> set[str]:
    """The paths of what is computed of the result of a call."""
    names = {path for step in ref.computed if call in step.calls for path in step.bound}
    while True:
        more = {path for step in ref.computed if not names.isdisjoint(step.paths) for path in step.bound}
        if more <= names:
            return names
        names |= more


def _has(expr: t.Expr, call: t.Call, names: set[str]) -> bool:
    """Whether an expression has in it what a call gives, with its graph."""
    return any(node is call or path_of(node) in names for node in with_graph(expr))

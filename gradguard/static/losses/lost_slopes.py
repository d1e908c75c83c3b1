"""Second derivatives without their graph, as terms of a residual: of a network that is trained, by nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.filled import began_at
from gradguard.static.model import Backward, Forward
from gradguard.static.program.paths import is_part
from gradguard.static.reading.unrecorded import Copied, Term, is_setting
from gradguard.static.values import Held, Holding, Kind, Roots, Source, Value, node_within

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 3
_BENDING = frozenset("exp abs square clamp sigmoid pow softplus".split())
_GIVES = r"(?:SGD|Ada[mgdfb]|RMSprop|LBFGS|Rprop|L[Aa][Mm][Bb]|Lion|[oO]ptim|add_param_group)\w*\("
_OVER_LINES = r"(?:[^\n]*[(\[{,][ \t]*\n)*[^\n]*"
# How a program shows that a name is a parameter: what gives it to an optimizer, alone or in a list, or makes it one.
_TRAINS = (
    _GIVES + _OVER_LINES + r"\b{0}\b",
    r"parameters\(\)[^\n]*[\[(,+ ](?:\w+\.)*{0}\b",
    r"\b{0}\b[^\n]*[.]parameters\(\)",
    r"\b\w*(?:param|weights|trainable|learn|leaves)\w*(?:[ \t]*\+?=|\.append\(|\.extend\()[^\n]*\b{0}\b",
    r"\b{0}\b[^\n=]*=[^\n]*(?:Parameter\(|\btensor\([^\n]*requires_grad)",
)
_TRAINS_ALL_OF = r"\b{0}\.(?:named_)?parameters\("


def slopes(flow: Flow, terms: Sequence[tuple[t.Expr, Value]]) -> Iterator[Holding]:
    """The second derivatives without a graph that a sum has beside others of the same network, with theirs.

    Such a residual is squared, and nothing in it is a target then: ``u_t - 0.1 * u_xx``.
    """
    for expr, value in terms:
        lost = [h.key for h in value.holding(Held.UNRECORDED) if isinstance(h.key, Copied) and h.key.is_second]
        others = [other for each, other in terms if each is not expr]
        for copied in lost if is_setting(value) else ():
            if any(_is_of_same(flow, copied, other) for other in others) and not has_trained_factor(flow, expr):
                yield Holding(Held.SLOPE, Term(flow.site(expr), copied))


def is_trained(flow: Flow, term: Term, backward: Backward) -> bool:
    """Whether an optimizer may have the network that is differentiated; a source term has none."""
    return not term.copied.is_second or is_trained_with(flow, term, backward)


def is_trained_with(flow: Flow, term: Term, backward: Backward) -> bool:
    """The same of any derivative."""
    runs = _runs(flow, term.copied.roots) or _runs(flow, backward.value.reach)
    steps = [step.modules for step in flow.facts.steps]
    if not runs or not steps:
        return True
    return any(each is None or any(_has(each, run) for run in runs) for each in steps)


def _has(modules: frozenset[str], run: Forward) -> bool:
    path = _path(run)
    return path is None or any(is_part(path, module) or is_part(module, path) for module in modules)


def _is_of_same(flow: Flow, copied: Copied, other: Value) -> bool:
    """Whether another term has a graph of the network, which a helper that differentiates several does not tell."""
    here, there = set(_networks(flow, copied.roots)), set(_networks(flow, other.roots))
    if here and there and not here & there:
        return False
    return bool(_begun_at(other.roots) & _begun_at(copied.roots))


def _networks(flow: Flow, roots: Roots) -> Iterator[str]:
    """What gave the graphs in this function: modules, and what only the run knows; no helper of the program."""
    yield from (path for run in _runs(flow, roots) if (path := _path(run)) is not None)
    keys = {id(root.key) for root in roots if root.source in (Source.GRAPH, Source.CALL)}
    calls = [node for node in flow.ref.define.all(t.Call) if id(node) in keys]
    for call in calls:
        path = t.path_of(call.func)
        if path is not None and flow.module.value_of(call.func).kind not in (Kind.EXTERNAL, Kind.FUNCTION):
            yield path


def _runs(flow: Flow, roots: Roots) -> list[Forward]:
    return [run for run in flow.facts.forwards if any(began_at(root.key, run) for root in roots)]


def _path(run: Forward) -> str | None:
    return run.given_as or run.module


def _begun_at(roots: Roots) -> set[object]:
    return {node_within(root.key) for root in roots if root.source is Source.GRAPH} - {None}


def has_trained_factor(flow: Flow, expr: t.Expr) -> bool:
    """Whether a factor is a parameter of an optimizer: ``nu * u_xx`` trains it, as in an inverse problem."""
    return any(_is_given(flow, path) for path in set(_paths(flow, expr, _DEPTH)))


def _is_given(flow: Flow, path: str) -> bool:
    *owners, last = [part for part in path.split(".") if part != "self"] or [""]
    patterns = [each.replace("{0}", re.escape(last)) for each in _TRAINS] if last else []
    patterns += [_TRAINS_ALL_OF.replace("{0}", re.escape(owner)) for owner in owners[-1:]]
    return any(flow.project.survey.mentions(re.compile(each), flow.module) for each in patterns)


def _paths(flow: Flow, expr: t.Expr, depth: int) -> Iterator[str]:
    """What an expression is computed of, by its names: also what variables of the function are made of."""
    for node in t.walk(expr):
        path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) else None
        if not isinstance(node, t.Name | t.Attribute) or path is None or _is_external(flow, node):
            continue
        yield path
        for made in flow.ref.assigned.get(path, []) if depth else ():
            if _is_plain(flow, made):
                yield from _paths(flow, made, depth - 1)


def _is_plain(flow: Flow, made: t.Expr) -> bool:
    """Whether it only computes: it runs nothing of the program, and asks for no gradients."""
    calls = [node for node in t.walk(made) if isinstance(node, t.Call)]
    return all(call.name != "grad" and _is_of_torch(flow, call) for call in calls)


def _is_of_torch(flow: Flow, call: t.Call) -> bool:
    return (isinstance(call.func, t.Attribute) and call.name in _BENDING) or _is_external(flow, call.func)


def _is_external(flow: Flow, expr: t.Expr) -> bool:
    return flow.module.value_of(expr).kind is Kind.EXTERNAL

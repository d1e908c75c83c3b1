"""What is drawn of a distribution that is computed, by ``sample()``: what it was computed by gets no gradient of it.

``rsample()`` draws noise, and computes the sample of that with a graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.filled import began_at, goes_through
from gradguard.static.losses.draws import Draw, computed_by, draws, is_of, names_of, path_in
from gradguard.static.mistakes.losses import Drawn
from gradguard.static.model import Backward, Forward, Mode
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.functions_called import calls_of
from gradguard.static.reading.roots import node_of
from gradguard.static.reading.route import handing_on
from gradguard.static.source import Site
from gradguard.static.values import Roots, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LOG_PROBABILITY = re.compile(r"(?:^|_)log_?(?:p|pi|prob|probs|probas)s?(?:$|_)", re.I)
_WEIGHT = re.compile(
    r"(?:^|_)(?:alpha|temp|temperature|coef|coeff|coefficient|beta|gamma|discount|weight|lambda|lam|eta|scale|ent)(?:$|_)",
    re.I,
)
_PRODUCTS = ("*", "/", "@", "**")
_DECODES = re.compile(r"^_*(?:decod|reconstruct)")


def drawn(flow: Flow) -> Iterator[Drawn]:
    """The draws that a network is given, where what it gives is trained together with their distribution."""
    if flow.facts.is_test or not flow.facts.forwards:
        return
    for draw in draws(flow):
        names = names_of(flow, draw)
        runs = (run for run in flow.facts.forwards if run.mode is not Mode.OFF and _is_given(flow, run, draw, names))
        given = next((run.site for run in runs if _is_trained(flow, run, draw, names)), None) or _decoded(
            flow, draw, names
        )
        if given is not None and not _is_scored(flow, draw, names):
            yield Drawn(draw.site, given, draw.is_zero, draw.is_one_hot)


def _is_given(flow: Flow, run: Forward, draw: Draw, names: frozenset[str]) -> bool:
    """Whether a module is run with a draw, after it; a sequence that is fed with its own samples comes round to it."""
    call = run.site.node
    is_given = isinstance(call, t.Call) and any(is_of(arg.value, draw, names) for arg in call.args)
    return is_given and flow.site(draw.node).line <= flow.site(call).line


def _is_trained(flow: Flow, run: Forward, draw: Draw, names: frozenset[str]) -> bool:
    """Whether the graph of a run, and that of the distribution, are in one loss; or both leave the function."""
    having = [backward for backward in flow.facts.backwards if _has(flow, backward.value.reach, draw)]
    if any(goes_through(backward, run) for backward in having):
        return True
    if run.is_frozen and any(_is_term_of(flow, backward, draw, names) for backward in having):
        return True
    given = _given_away(flow)
    is_given = any(began_at(root.key, run) for root in given) and _has(flow, given, draw)
    return is_given and not flow.facts.called_without_grad()


def _is_term_of(flow: Flow, backward: Backward, draw: Draw, names: frozenset[str]) -> bool:
    """Whether what frozen networks make of a draw is added to a loss: a number, as neither of them has a graph.

    It is the weight of nothing: not multiplied with what has a graph, nor given to a function beside a probability.
    """
    hidden = set(cut(flow.ref.define))
    runs = {run.site.node for run in flow.facts.forwards if run.is_frozen and _is_given(flow, run, draw, names)}
    made = _made_of(flow, runs) - hidden
    shown = [node for node in flow.ref.define.nodes if node not in hidden and node not in runs]
    if any(_is_factor(node, made) for node in shown if isinstance(node, t.Operation)):
        return False
    sums = (node for node in shown if isinstance(node, t.Operation) and node.operator in ("+", "-"))
    lost = _behind(flow, backward.site.node)
    return any(node in lost and any(_terms_beside(node, made)) for node in sums)


def _is_factor(node: t.Operation, made: set[t.Node]) -> bool:
    """Whether what is made of something is multiplied with what is no mere coefficient."""
    having, others = _parted(node.operands, made)
    return node.operator in _PRODUCTS and bool(having) and not all(map(_is_weight, others))


def _weighs_by(flow: Flow, node: t.Node, made: set[t.Node]) -> bool:
    """Whether what is made of a draw is multiplied with a probability, or given to a function beside one."""
    if isinstance(node, t.Call):
        parts = [arg.value for arg in node.args] + ([node.func.value] if isinstance(node.func, t.Attribute) else [])
    else:
        parts = node.operands if isinstance(node, t.Operation) and node.operator in _PRODUCTS else []
    having, others = _parted(parts, made)
    return bool(having) and any(_is_log_probability(inner) for part in others for inner in _behind(flow, part))


def _parted(parts: list[t.Expr], made: set[t.Node]) -> tuple[list[t.Expr], list[t.Expr]]:
    """Those that have something of what is made in them, and the others."""
    having = [part for part in parts if not made.isdisjoint(t.walk(part))]
    return having, [part for part in parts if part not in having]


def _behind(flow: Flow, node: t.Node) -> set[t.Node]:
    """The expressions that something is computed of, through the variables of the function."""
    found: set[t.Node] = set()
    waiting = [node]
    while waiting:
        new = [part for part in t.walk(waiting.pop()) if part not in found]
        found.update(new)
        waiting += [value for part in new if isinstance(part, t.Name) for value in flow.ref.bound_to(part)]
    return found


def _given_away(flow: Flow) -> Roots:
    """The graphs of what a function returns, and of what its object keeps."""
    kept = (path for path in flow.ref.assigned if path.startswith("self."))
    return flow.facts.returns.reach.union(*(flow.read(path, flow.final).reach for path in kept))


def _decoded(flow: Flow, draw: Draw, names: frozenset[str]) -> Site | None:
    """A decoder without parameters that is returned beside the distribution: ``self.decode(z), q`` of ``z @ z.T``."""
    returned = [stmt.value for stmt in flow.ref.define.statements if isinstance(stmt, t.Return)]
    items = (item for value in returned if isinstance(value, t.Display) for item in value.items)
    values = [value for item in items for value in flow.ref.bound_to(item) if isinstance(value, t.Call)]
    decoded = (call for call in values if _DECODES.search(call.name) is not None)
    found = next((call for call in decoded if any(is_of(arg.value, draw, names) for arg in call.args)), None)
    if found is None or not _has(flow, _given_away(flow), draw) or flow.facts.called_without_grad():
        return None
    return flow.site(found)


def _has(flow: Flow, reach: Roots, draw: Draw) -> bool:
    """Whether a graph is that of what the distribution is computed of."""
    given = {part for expr in draw.of for part in handing_on(flow, expr)}
    roots = computed_by(flow, draw)
    graphs = (root for root in reach if root.source is Source.GRAPH)
    return any(root in roots or node_of(root.key) in given for root in graphs)


def _is_scored(flow: Flow, draw: Draw, names: frozenset[str]) -> bool:
    """Whether how probable something is carries the gradient, or may for the caller: no other is needed.

    As a factor; or it is what was observed, and a network that goes on from its own samples.
    """
    logs = [node for node in flow.ref.define.nodes if _is_log_probability(node)]
    if any(_is_of_observed(node, draw, names) for node in logs):
        return True
    hidden = set(cut(flow.ref.define))
    if not flow.facts.backwards:
        of_draw = {node for node in logs if _is_of_draw(node, draw, names)}
        if of_draw and not (_are_terms(flow, of_draw - hidden, draw, names, hidden) and _is_backpropagated(flow)):
            return True
    nodes = [node for node in flow.ref.define.nodes if isinstance(node, t.Operation | t.Call) and node not in hidden]
    runs = {run.site.node for run in flow.facts.forwards if _is_given(flow, run, draw, names)}
    made = _made_of(flow, runs) - hidden
    return any(_weighs(node) or (node not in runs and _weighs_by(flow, node, made)) for node in nodes)


def _is_backpropagated(flow: Flow) -> bool:
    """Whether a caller does a backward of what a function returns, and of no other graph: it is no target."""
    for caller, call in calls_of(flow):
        for backward in caller.facts.backwards:
            begun = [node_of(root.key) for root in backward.value.reach if root.source is Source.GRAPH]
            if begun and all(node is call for node in begun):
                return True
    return False


def _are_terms(flow: Flow, logs: set[t.Node], draw: Draw, names: frozenset[str], hidden: set[t.Node]) -> bool:
    """Whether how probable a draw is leaves the function as a term only, beside what networks make of the draw.

    ``return (alpha * log_prob - critic(state, action)).mean()``: no caller can weigh it with a return. A network that
    is given something else, too, is what such a loss may be meant for: ``(q - alpha * log_prob - value(state)) ** 2``.
    """
    roots = computed_by(flow, draw)
    runs = [run for run in flow.facts.forwards if run.mode is not Mode.OFF]
    given = [run for run in runs if _is_given(flow, run, draw, names)]
    drawing = {node_of(root.key) for root in roots}
    if any(run not in given and run.site.node not in drawing for run in runs):
        return False
    made = _made_of(flow, {run.site.node for run in given})
    sums = (node for node in flow.ref.define.all(t.Operation) if node.operator in ("+", "-"))
    terms = {part for node in sums if node not in hidden for part in _terms_beside(node, made - hidden)}
    bound = [value for value in flow.ref.define.statements if isinstance(value, t.Assign)]
    told = {node for stmt in bound if all(map(_is_log_probability, stmt.targets)) for node in t.walk(stmt)}
    return bool(logs) and all(node in terms or node in told for node in logs)


def _made_of(flow: Flow, runs: set[t.Node]) -> set[t.Node]:
    """The expressions that have in them what some calls give, by whatever names."""
    bound = [stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign)]
    names: set[str] = set()
    while True:
        made = {node for node in flow.ref.define.nodes if node in runs or path_in(node) in names}
        having = [stmt for stmt in bound if not made.isdisjoint(t.walk(stmt.value))]
        paths = [t.path_of(name) for stmt in having for target in stmt.targets for name in t.names_in(target)]
        more = {path for path in paths if path is not None}
        if more <= names:
            return made
        names |= more


def _terms_beside(node: t.Operation, made: set[t.Node]) -> Iterator[t.Node]:
    """The operands of a sum, if another one has something of what is made in it."""
    for place, operand in enumerate(node.operands):
        others = (other for at, other in enumerate(node.operands) if at != place)
        if any(not made.isdisjoint(t.walk(other)) for other in others):
            yield from t.walk(operand)


def _is_of_draw(node: t.Node, draw: Draw, names: frozenset[str]) -> bool:
    """``dist.log_prob(z)``; of a variable that only its name tells about, it may be."""
    return not isinstance(node, t.Call) or any(is_of(arg.value, draw, names) for arg in node.args)


def _is_of_observed(node: t.Node, draw: Draw, names: frozenset[str]) -> bool:
    """``dist.log_prob(target)``, of the distribution itself."""
    func = node.func if isinstance(node, t.Call) else None
    if not isinstance(func, t.Attribute) or not isinstance(node, t.Call):
        return False
    path = t.path_of(func.value)
    is_same = path is not None and any(t.path_of(expr) == path for expr in draw.of)
    return is_same and not _is_of_draw(node, draw, names)


def _is_log_probability(node: t.Node) -> bool:
    if isinstance(node, t.Call) and node.name == "log_prob":
        return True
    path = path_in(node)
    return path is not None and _LOG_PROBABILITY.search(path.rpartition(".")[2]) is not None


def _weighs(node: t.Operation | t.Call) -> bool:
    """``log_prob * advantage``, ``torch.exp(log_prob - old)``; not ``alpha * log_prob``."""
    if isinstance(node, t.Call):
        given = [arg.value for arg in node.args]
        owner = [node.func.value] if isinstance(node.func, t.Attribute) else []
        return node.name == "exp" and any(map(_is_log_probability, t.walk([*given, *owner])))
    if node.operator not in ("*", "/"):
        return False
    logs = [any(map(_is_log_probability, t.walk(operand))) for operand in node.operands]
    others = [operand for operand, is_log in zip(node.operands, logs) if not is_log]
    return any(logs) and not all(map(_is_weight, others))


def _is_weight(expr: t.Expr) -> bool:
    if isinstance(expr, t.Constant):
        return True
    names = (name for node in t.walk(expr) if (path := path_in(node)) is not None for name in path.split("."))
    return any(_WEIGHT.search(name) is not None for name in names)

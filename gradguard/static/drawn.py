"""What is drawn of a distribution that is computed, by ``sample()``: what it was computed by gets no gradient of it.

``rsample()`` draws noise, and computes the sample of that with a graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.filled import began_at, goes_through
from gradguard.static.functions_called import functions_called, functions_run
from gradguard.static.mistakes import Drawn
from gradguard.static.model import Forward, Mode
from gradguard.static.roots import node_of
from gradguard.static.route import handing_on
from gradguard.static.source import Site
from gradguard.static.trained_apart import cut
from gradguard.static.values import NONE, Roots, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# Those of torch.distributions that have `rsample`.
_REPARAMETRIZED = frozenset(
    "Normal MultivariateNormal LowRankMultivariateNormal LogNormal HalfNormal Independent TransformedDistribution "
    "Laplace Beta Dirichlet Gamma Uniform StudentT Gumbel Cauchy HalfCauchy Exponential Kumaraswamy Weibull Pareto "
    "Chi2 FisherSnedecor LogisticNormal RelaxedBernoulli RelaxedOneHotCategorical".split()
)
_LOG_PROBABILITY = re.compile(r"(?:^|_)log_?(?:p|pi|prob|probs|probas)s?(?:$|_)", re.I)
_WEIGHT = re.compile(
    r"(?:^|_)(?:alpha|temp|temperature|coef|coeff|coefficient|beta|gamma|discount|weight|lambda|lam|eta|scale|ent)(?:$|_)",
    re.I,
)
_DRAWS = (".sample(", ".sample_n(", "torch.normal(")


class _Draw(NamedTuple):
    """Something is drawn in an expression.

    Args:
        node: the call that draws it, or the one of a function that does.
        site: where it is drawn.
        of: what the distribution is computed of, as the function of the call has it.
        place: which element of the result it is; None where it is the whole.
    """

    node: t.Call
    site: Site
    of: tuple[t.Expr, ...]
    place: int | None = None

    @property
    def is_zero(self) -> bool:
        """Whether it has a graph, and its gradient is zero: ``torch.normal``."""
        call = self.site.node
        return isinstance(call, t.Call) and call.name == "normal"


def drawn(flow: Flow) -> Iterator[Drawn]:
    """The draws that a network is given, where what it gives is trained together with their distribution."""
    if flow.facts.is_test or not flow.facts.forwards:
        return
    for draw in _draws(flow):
        names = _names_of(flow, draw)
        runs = (
            each for each in flow.facts.forwards if each.mode is not Mode.OFF and _is_given(flow, each, draw, names)
        )
        run = next((each for each in runs if _is_trained(flow, each, draw)), None)
        if run is not None and not _is_scored(flow, draw, names):
            yield Drawn(draw.site, run.site, draw.is_zero)


def _draws(flow: Flow) -> Iterator[_Draw]:
    """What is drawn in a function, or by one that it calls, where a graph is recorded."""
    hidden: set[t.Node] | None = None
    for node in flow.ref.calls:
        found = [*_drawn_here(flow, node), *_drawn_by_callees(flow, node)]
        if found and hidden is None:
            hidden = set(cut(flow.ref.define))
        if hidden is None or node not in hidden:
            yield from found


def _drawn_here(flow: Flow, call: t.Call) -> Iterator[_Draw]:
    """``Normal(mean, std).sample()``, ``torch.normal(mean, std)``, whose gradient is zero."""
    func = call.func
    if not isinstance(func, t.Attribute) or _is_for_evaluation(flow, call):
        return
    if func.name == "normal" and t.path_of(func) == "torch.normal":
        yield _Draw(call, flow.site(call), tuple(arg.value for arg in call.args[:2]))
    elif func.name in ("sample", "sample_n"):
        made = [made for value in _bound(flow, func.value) for made in _made(flow, value)]
        if made and all(isinstance(each, t.Call) and each.name in _REPARAMETRIZED for each in made):
            yield _Draw(call, flow.site(call), (func.value, *_bound(flow, func.value)))


def _is_for_evaluation(flow: Flow, call: t.Call) -> bool:
    """Whether a function knows another way to draw, or does not do so in training."""
    ways = (node for node in flow.ref.define.nodes if isinstance(node, t.Attribute))
    return any(node.name in ("rsample", "randn_like", "training") for node in ways)


def _bound(flow: Flow, expr: t.Expr) -> list[t.Expr]:
    """What a name is bound to; another expression is itself."""
    return flow.ref.assigned.get(t.path_of(expr) or "", [expr])


def _made(flow: Flow, value: t.Expr) -> Iterator[t.Expr]:
    """What a call makes: of a function of the program, what that returns."""
    ways = list(functions_run(flow, value)) if isinstance(value, t.Call) else []
    for ref in ways:
        returned = (stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return))
        values = (value for value in returned if value is not None)
        yield from (made for each in values for made in ref.assigned.get(t.path_of(each) or "", [each]))
    if not ways:
        yield value


def _drawn_by_callees(flow: Flow, call: t.Call) -> Iterator[_Draw]:
    """What a function of the program draws, and returns."""
    for ref in functions_called(flow, call):
        code = Site(ref.chunk, ref.define).code
        callee = flow.project.flow(ref) if any(word in code for word in _DRAWS) else None
        if callee is not None:
            given = (*(arg.value for arg in call.args), call)
            yield from (draw._replace(node=call, of=given) for draw in _returned(callee))


def _returned(flow: Flow) -> Iterator[_Draw]:
    """What a function draws itself and returns."""
    hidden = set(cut(flow.ref.define))
    for draw in (draw for node in flow.ref.calls if node not in hidden for draw in _drawn_here(flow, node)):
        if not _computed_by(flow, draw):
            continue
        names = _names_of(flow, draw)
        yield from (draw._replace(place=place) for place in _places(flow.ref.define, draw, names))


def _places(define: t.Define, draw: _Draw, names: frozenset[str]) -> Iterator[int | None]:
    """Which elements of what a function returns are drawn; None for the whole."""
    for stmt in define.statements:
        value = stmt.value if isinstance(stmt, t.Return) else None
        if isinstance(value, t.Display):
            yield from (place for place, item in enumerate(value.items) if _is_of(item, draw, names))
        elif value is not None and _is_of(value, draw, names):
            yield None


def _names_of(flow: Flow, draw: _Draw) -> frozenset[str]:
    """The variables that have what is drawn, or what is computed of it; no probability, and nothing a module gives."""
    names: set[str] = set()
    runs = {forward.site.node for forward in flow.facts.forwards}
    bound = [(stmt.targets, stmt.value) for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign)]
    more = True
    while more:
        found = {path for targets, value in bound for path in _named(targets, value, draw, frozenset(names), runs)}
        more = not found <= names
        names |= found
    return frozenset(names)


def _named(
    targets: list[t.Expr], value: t.Expr, draw: _Draw, names: frozenset[str], runs: set[t.Node]
) -> Iterator[str]:
    """What an assignment binds to something that is drawn."""
    for target, each in t.pairs(targets, value):
        if each is draw.node and draw.place is not None:
            items = target.items if isinstance(target, t.Display) else []
            single = items[draw.place : draw.place + 1]
        else:
            single = [target] if each not in runs and _is_of(each, draw, names) else []
        yield from (path for item in single if (path := t.path_of(item)) is not None)


def _is_of(expr: t.Expr, draw: _Draw, names: frozenset[str]) -> bool:
    """Whether an expression has what is drawn in it, and not only how probable that is."""
    scored = {part for node in t.walk(expr) if _is_probability(node) for part in t.walk(node)}
    parts = [node for node in t.walk(expr) if node not in scored]
    return any(node is draw.node or _path(node) in names for node in parts)


def _is_probability(node: t.Node) -> bool:
    return isinstance(node, t.Call) and node.name in ("log_prob", "kl_divergence", "entropy", "cdf")


def _path(node: t.Node) -> str | None:
    return t.path_of(node) if isinstance(node, t.Name | t.Attribute) else None


def _is_given(flow: Flow, run: Forward, draw: _Draw, names: frozenset[str]) -> bool:
    """Whether a module is run with a draw, after it; a sequence that is fed with its own samples comes round to it."""
    call = run.site.node
    if not isinstance(call, t.Call) or not any(_is_of(arg.value, draw, names) for arg in call.args):
        return False
    return any(node is draw.node for node in t.walk(call)) or _begin(flow, draw.node) < _begin(flow, call)


def _begin(flow: Flow, node: t.Node) -> tuple[int, int]:
    span = flow.site(node).span
    return span.line, span.column


def _is_trained(flow: Flow, run: Forward, draw: _Draw) -> bool:
    """Whether the graph of a run, and that of the distribution, are in one loss; or both leave the function."""
    if any(goes_through(backward, run) and _has(flow, backward.value.reach, draw) for backward in flow.facts.backwards):
        return True
    kept = (path for path in flow.ref.assigned if path.startswith("self."))
    given = flow.facts.returns.reach.union(*(flow.read(path, flow.final).reach for path in kept))
    is_given = any(began_at(root.key, run) for root in given) and _has(flow, given, draw)
    return is_given and not flow.facts.called_without_grad()


def _has(flow: Flow, reach: Roots, draw: _Draw) -> bool:
    """Whether a graph is that of what the distribution is computed of."""
    given = {part for expr in draw.of for part in handing_on(flow, expr)}
    roots = _computed_by(flow, draw)
    graphs = (root for root in reach if root.source is Source.GRAPH)
    return any(root in roots or node_of(root.key) in given for root in graphs)


def _computed_by(flow: Flow, draw: _Draw) -> Roots:
    """The graphs of what the distribution is computed of; none of a constant."""
    parts = (part for expr in draw.of for part in handing_on(flow, expr))
    paths = {path for part in parts if (path := _path(part)) is not None}
    return NONE.union(*(flow.read(flow.canonical(path), flow.final).roots for path in paths))


def _is_scored(flow: Flow, draw: _Draw, names: frozenset[str]) -> bool:
    """Whether how probable something is carries the gradient, or may for the caller: no other is needed.

    As a factor; or it is what was observed, and a network that goes on from its own samples.
    """
    logs = [node for node in flow.ref.define.nodes if _is_log_probability(node)]
    if any(_is_of_observed(node, draw, names) for node in logs):
        return True
    if not flow.facts.backwards:
        return any(_is_of_draw(node, draw, names) for node in logs)
    hidden = set(cut(flow.ref.define))
    nodes = (node for node in flow.ref.define.nodes if isinstance(node, t.Operation | t.Call))
    return any(_weighs(node) for node in nodes if node not in hidden)


def _is_of_draw(node: t.Node, draw: _Draw, names: frozenset[str]) -> bool:
    """``dist.log_prob(z)``; of a variable that only its name tells about, it may be."""
    return not isinstance(node, t.Call) or any(_is_of(arg.value, draw, names) for arg in node.args)


def _is_of_observed(node: t.Node, draw: _Draw, names: frozenset[str]) -> bool:
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
    path = _path(node)
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
    names = (name for node in t.walk(expr) if (path := _path(node)) is not None for name in path.split("."))
    return any(_WEIGHT.search(name) is not None for name in names)

"""What a function draws of a distribution that is computed, itself or by a callee, and the variables that have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.functions_called import functions_run
from gradguard.static.program.origins import origins
from gradguard.static.reading.route import handing_on
from gradguard.static.source import Site
from gradguard.static.values import NONE, Roots

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# Those of torch.distributions that have `rsample`.
_REPARAMETRIZED = frozenset(
    "Normal MultivariateNormal LowRankMultivariateNormal LogNormal HalfNormal Independent TransformedDistribution "
    "Laplace Beta Dirichlet Gamma Uniform StudentT Gumbel Cauchy HalfCauchy Exponential Kumaraswamy Weibull Pareto "
    "Chi2 FisherSnedecor LogisticNormal RelaxedBernoulli RelaxedOneHotCategorical".split()
)
_ONE_HOT = "OneHotCategorical"
_NAMES = frozenset(("sample", "sample_n", "normal"))
_DRAWS = (".sample(", ".sample_n(", "torch.normal(")


class Draw(NamedTuple):
    """Something is drawn in an expression.

    Args:
        node: the call that draws it, or the one of a function that does.
        site: where it is drawn.
        of: what the distribution is computed of, as the function of the call has it.
        place: which element of the result it is; None where it is the whole.
        is_one_hot: it is the one of some classes, which only an estimator has a gradient for.
    """

    node: t.Call
    site: Site
    of: tuple[t.Expr, ...]
    place: int | None = None
    is_one_hot: bool = False

    @property
    def is_zero(self) -> bool:
        """Whether it has a graph, and its gradient is zero: ``torch.normal``."""
        call = self.site.node
        return isinstance(call, t.Call) and call.name == "normal"


def draws(flow: Flow) -> Iterator[Draw]:
    """What is drawn in a function, or by one that it calls, where a graph is recorded."""
    hidden: set[t.Node] | None = None
    for node in flow.ref.calls if _may_draw(flow) else ():
        found = [*_drawn_here(flow, node), *_drawn_by_callees(flow, node)]
        if _estimates(flow):
            found = [draw for draw in found if not draw.is_one_hot]
        if found and hidden is None:
            hidden = set(cut(flow.ref.define))
        if hidden is None or node not in hidden:
            yield from found


def _may_draw(flow: Flow) -> bool:
    """Whether its file draws, or the function asks how probable something is, that a method of another file draws."""
    text = flow.module.source.text
    if any(word in text for word in _DRAWS):
        return True
    return any("log_p" in name or "logp" in name for name in flow.ref.mentioned)


def _drawn_here(flow: Flow, call: t.Call) -> Iterator[Draw]:
    """``Normal(mean, std).sample()``, ``torch.normal(mean, std)``, whose gradient is zero."""
    func = call.func
    if not isinstance(func, t.Attribute) or func.name not in _NAMES or _is_for_evaluation(flow):
        return
    if func.name == "normal" and t.path_of(func) == "torch.normal":
        yield Draw(call, flow.site(call), tuple(arg.value for arg in call.args[:2]))
    elif func.name != "normal":
        made = [each.expr for each in origins(flow, func.value)]
        if _is_reparametrized(made):
            yield Draw(call, flow.site(call), (func.value, *flow.ref.bound_to(func.value)))
        elif made and all(isinstance(each, t.Call) and each.name == _ONE_HOT for each in made) and not _estimates(flow):
            yield Draw(call, flow.site(call), (func.value, *flow.ref.bound_to(func.value)), is_one_hot=True)


def _estimates(flow: Flow) -> bool:
    """Whether a function may make a straight-through estimator of a draw: ``sample + probs - probs.detach()``."""
    define = flow.ref.define
    cut = any(t.detached(call) is not None for call in define.all(t.Call))
    return cut or any(node.name == "data" or "stop" in node.name for node in define.all(t.Attribute))


def _is_for_evaluation(flow: Flow) -> bool:
    """Whether a function knows another way to draw, or does not do so in training."""
    ways = flow.ref.define.all(t.Attribute)
    return any(node.name in ("rsample", "randn_like", "training") for node in ways)


def _drawn_by_callees(flow: Flow, call: t.Call) -> Iterator[Draw]:
    """What a function of the program draws, and returns."""
    for ref in functions_run(flow, call):
        callee = flow.project.flow(ref) if any(node.name in _NAMES for node in ref.calls) else None
        if callee is not None:
            given = (*(arg.value for arg in call.args), call)
            yield from (draw._replace(node=call, of=given) for draw in _returned(callee))
            yield from _drawn_of_given(flow, call, callee)


def _drawn_of_given(flow: Flow, call: t.Call, callee: Flow) -> Iterator[Draw]:
    """What a function draws of a distribution that it is given, and returns: ``self.draw(posterior)``."""
    hidden = set(cut(callee.ref.define))
    for node in callee.ref.calls if not _is_for_evaluation(callee) and not _is_for_evaluation(flow) else ():
        func = node.func if node not in hidden else None
        name = t.path_of(func.value) if isinstance(func, t.Attribute) and func.name in ("sample", "sample_n") else None
        given = callee.ref.given_by(call).get(name) if name is not None and name not in callee.ref.assigned else None
        made = [each.expr for each in origins(flow, given)] if given is not None else []
        if given is None or not _is_reparametrized(made) or not _is_used_besides(flow, call, made):
            continue
        draw = Draw(node, callee.site(node), ())
        for place in _places(callee.ref.define, draw, names_of(callee, draw)):
            yield Draw(call, draw.site, (given, *flow.ref.bound_to(given)), place)


def _is_used_besides(flow: Flow, draw: t.Call, made: list[t.Expr]) -> bool:
    """Whether a distribution, or what it is computed of, is used for anything but to draw: as by ``kl_divergence``."""
    bound = [stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign)]
    making = [stmt for stmt in bound if any(stmt.value is each for each in made)]
    known = set(t.walk([draw, *making, *(target for stmt in bound for target in stmt.targets)]))
    names = {node.id for node in t.walk([*(arg.value for arg in draw.args), *making]) if isinstance(node, t.Name)} - {
        "self"
    }
    nodes = (node for node in flow.ref.define.all(t.Name) if node.id in names)
    return any(node not in known for node in nodes)


def _is_reparametrized(made: list[t.Expr]) -> bool:
    return bool(made) and all(isinstance(each, t.Call) and each.name in _REPARAMETRIZED for each in made)


def _returned(flow: Flow) -> Iterator[Draw]:
    """What a function draws itself and returns."""
    hidden = set(cut(flow.ref.define))
    for draw in (draw for node in flow.ref.calls if node not in hidden for draw in _drawn_here(flow, node)):
        if not computed_by(flow, draw):
            continue
        names = names_of(flow, draw)
        yield from (draw._replace(place=place) for place in _places(flow.ref.define, draw, names))


def _places(define: t.Define, draw: Draw, names: frozenset[str]) -> Iterator[int | None]:
    """Which elements of what a function returns are drawn; None for the whole."""
    for stmt in define.statements:
        value = stmt.value if isinstance(stmt, t.Return) else None
        if isinstance(value, t.Display):
            yield from (place for place, item in enumerate(value.items) if is_of(item, draw, names))
        elif value is not None and is_of(value, draw, names):
            yield None


def names_of(flow: Flow, draw: Draw) -> frozenset[str]:
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


def _named(targets: list[t.Expr], value: t.Expr, draw: Draw, names: frozenset[str], runs: set[t.Node]) -> Iterator[str]:
    """What an assignment binds to something that is drawn."""
    for target, each in t.pairs(targets, value):
        if each is draw.node and draw.place is not None:
            items = target.items if isinstance(target, t.Display) else []
            single = items[draw.place : draw.place + 1]
        else:
            single = [target] if each not in runs and is_of(each, draw, names) else []
        yield from (path for item in single if (path := t.path_of(item)) is not None)


def is_of(expr: t.Expr, draw: Draw, names: frozenset[str]) -> bool:
    """Whether an expression has what is drawn in it, and not only how probable that is."""
    scored = {part for node in t.walk(expr) if _is_probability(node) for part in t.walk(node)}
    parts = [node for node in t.walk(expr) if node not in scored]
    return any(node is draw.node or path_in(node) in names for node in parts)


def _is_probability(node: t.Node) -> bool:
    return isinstance(node, t.Call) and node.name in ("log_prob", "kl_divergence", "entropy", "cdf")


def path_in(node: t.Node) -> str | None:
    return t.path_of(node) if isinstance(node, t.Name | t.Attribute) else None


def computed_by(flow: Flow, draw: Draw) -> Roots:
    """The graphs of what the distribution is computed of; none of a constant."""
    parts = (part for expr in draw.of for part in handing_on(flow, expr))
    paths = {path for part in parts if (path := path_in(part)) is not None}
    return NONE.union(*(flow.read(flow.canonical(path), flow.final).roots for path in paths))

"""Objects with parameters that are run on the way to a loss, and whose parameters no optimizer is ever given.

An optimizer can only have what somebody gives it. So nothing need be known of the optimizers: it is enough that all
that the program does with the object is to run it, to move it, and to save it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import WithoutOptimizer
from gradguard.static.model import Backward, Step
from gradguard.static.optimizers.chosen_classes import classes_chosen
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.optimizers.schedulers import makes_optimizer
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.known_by import Place, is_wrapped, places
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What trains its parameters itself, freezes them, or computes them.
_OTHERWISE = re.compile(
    r"no_grad|inference_mode|requires_grad(?!\s*=\s*True)|\.grad\b|\boptim|\.copy_\(|\.lerp_\(|\.data\b\s*[-+*/]?=(?!=)|\bparameters\(|"
    r"\.data\.(?:add|sub|mul|div)_\(|\bload|pretrain",
)
# What is random, or given, on purpose; and filters, which are written as parameters to be moved with the module.
_FIXED = re.compile(
    r"fixed|frozen|random|rnd|reservoir|target|teacher|ema(?![a-z])|momentum|oracle|vgg|lpips|percept|pretrain|"
    r"kernel|filter|sobel|gauss|laplac|gabor|blur|window|wavelet|dct|stft|grid|mean|std|norm|basis|constant|mask|weight_[xy]",
    re.I,
)
_INITIAL = frozenset(
    "zeros ones full rand randn empty zeros_like ones_like full_like randn_like rand_like eye linspace "
    "xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ orthogonal_ normal_ uniform_".split()
)
_OF_NUMBERS = ("tensor", "Tensor", "FloatTensor", "as_tensor", "scalar_tensor")
_SHOWING = (
    "__init__",
    "reset_parameters",
    "init_weights",
    "__repr__",
    "extra_repr",
    "_init_weights",
    "_reset_parameters",
)
_MOVES = frozenset("to cuda cpu float half double bfloat16 train type".split())
_METRIC_LEARNING = frozenset(
    "ArcFaceLoss CosFaceLoss NormalizedSoftmaxLoss ProxyAnchorLoss ProxyNCALoss SoftTripleLoss SubCenterArcFaceLoss "
    "SphereFaceLoss LargeMarginSoftmaxLoss".split()
)


class Made(NamedTuple):
    """An object with parameters, where it is made.

    Args:
        methods: those of its class that give no parameters.
        declared: where its class declares the first of its own parameters.
        is_sure: it is there for these alone: a loss, the weights of one.
    """

    path: str
    call: t.Call
    parameters: tuple[str, ...] = ()
    methods: frozenset[str] = frozenset()
    declared: Site | None = None
    is_sure: bool = False


def made_with_parameters(flow: Flow) -> list[Made]:
    """The objects with parameters that a function makes, each under a name that it has from then on."""
    return [] if flow.facts.is_test else list(_made(flow.ref))


def without_optimizer(flow: Flow, made: list[Made]) -> list[WithoutOptimizer]:
    """Those of them that are never trained (reads other files)."""
    return [found for each in made if (found := _untrained(flow, each)) is not None]


def _made(ref: FunctionRef) -> Iterator[Made]:
    for stmt in ref.define.statements:
        path = t.path_of(stmt.targets[0]) if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
        call = _maker(stmt.value) if isinstance(stmt, t.Assign) and path is not None else None
        if path is None or call is None or "[" in path or _FIXED.search(f"{path} {call.name}"):
            continue
        is_attribute = path.startswith("self.") and path.count(".") == 1
        if not is_attribute and ("." in path or path in ref.names[1]):
            continue
        if is_attribute and (ref.owner is None or ref.owner.is_module):
            continue
        found = _with_parameters(ref, path, call)
        if found is not None and _is_only(ref, path, stmt):
            yield found


def _maker(value: t.Expr) -> t.Call | None:
    """The call that makes an object which is then moved at most: ``Loss(3).to(device)``."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in _MOVES:
        if t.path_of(value.func.value) is not None:
            return None
        value = value.func.value
    return value if isinstance(value, t.Call) else None


def _is_only(ref: FunctionRef, path: str, stmt: t.Stmt) -> bool:
    """Whether nothing else is bound to a path but the object, moved."""
    bound = ref.assigned[path]
    if path.startswith("self.") and ref.owner is not None:
        name = path.removeprefix("self.")
        bound = [value for cls in ref.owner.lineage() for _, value in cls.assigned(name)]
    own = stmt.value if isinstance(stmt, t.Assign) else None
    return all(value is own or _is_moved(value, path) or is_wrapped(value, path) for value in bound)


def _is_moved(value: t.Expr, path: str) -> bool:
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in _MOVES:
        value = value.func.value
    return t.path_of(value) == path


def _with_parameters(ref: FunctionRef, path: str, call: t.Call) -> Made | None:
    if not call.name[:1].isupper() or call.name in ref.assigned:
        return _chosen_with_parameters(ref, path, call)
    maker = ref.module.value_of(call.func)
    if isinstance(maker.ref, Class):
        made = _of_class(maker.ref, path, call)
        if made is not None:
            return made
    elif _is_loss_with_parameters(str(maker.ref)):
        return Made(path, call, is_sure=True)
    return Made(path, call) if is_made(ref, call) and _is_plain_network(maker.ref, call) else None


def _of_class(cls: Class, path: str, call: t.Call) -> Made | None:
    own = dict(_own_parameters(cls))
    is_sure = not any(_makes_layers(each) for each in cls.lineage())
    return Made(path, call, tuple(own), _computing(cls), next(iter(own.values())), is_sure) if own else None


def _chosen_with_parameters(ref: FunctionRef, path: str, call: t.Call) -> Made | None:
    """What a name picks, where that may be an object which is there for its parameters alone: ``LOSSES[name](512)``."""
    classes = classes_chosen(ref, call)
    made = (found for cls in classes if not _FIXED.search(cls.name) and (found := _of_class(cls, path, call)))
    sure = next((each for each in made if each.is_sure), None)
    return sure._replace(methods=frozenset.intersection(*map(_computing, classes))) if sure is not None else None


def _computing(cls: Class) -> frozenset[str]:
    """The methods of a class that give nothing that it has, as it is."""
    methods = (method for method in methods_of(cls) if not any(map(_gives_some, method.define.nodes)))
    return frozenset(method.define.name for method in methods if not method.is_property)


def _gives_some(node: t.Node) -> bool:
    given = node.value if isinstance(node, t.Return | t.Suspend) else None
    items = given.items if isinstance(given, t.Display) else [] if given is None else [given]
    return any((t.path_of(item) or "").startswith("self") for item in items)


def _is_loss_with_parameters(name: str) -> bool:
    """Whether a loss of a library has weights of its own."""
    head, _, last = name.rpartition(".")
    known = head in ("pytorch_metric_learning.losses", "losses") and last in _METRIC_LEARNING
    return name == "torch.nn.AdaptiveLogSoftmaxWithLoss" or (known and head != "losses")


def _is_plain_network(maker: object, call: t.Call) -> bool:
    """Whether a module has layers of its own, which are to be trained as far as it says itself."""
    if not isinstance(maker, Class):
        return not any(t.path_of(arg.value) is not None for arg in call.args[:1])  # nn.DataParallel(net)
    family = list(maker.lineage())
    is_free = not maker.is_frozen_as(call) and not any(each.chunk.shows(_OTHERWISE) for each in family)
    return is_free and any(map(_makes_layers, family))


def _own_parameters(cls: Class) -> Iterator[tuple[str, Site]]:
    """The parameters that a module declares on every way, and uses in what it computes, each with where."""
    family = list(cls.lineage())
    if not cls.is_module or any(each.chunk.shows(_OTHERWISE) or _FIXED.search(each.name) for each in family):
        return
    used = _used(cls)
    for each in family:
        constructor = each.methods.get("__init__")
        declared = _declared(constructor, constructor.define.body) if constructor is not None else ()
        for path, stmt in declared:
            if path in used and not _FIXED.search(path):
                yield path.removeprefix("self."), Site(each.chunk, stmt)


def _declared(constructor: FunctionRef, body: list[t.Stmt]) -> Iterator[tuple[str, t.Stmt]]:
    """The attributes that are parameters on every way through a block: also where each way has its own device."""
    for stmt in body:
        if isinstance(stmt, t.Assign) and _is_parameter(stmt.value, constructor):
            yield from ((path, stmt) for target in stmt.targets if (path := t.path_of(target)) is not None)
        elif isinstance(stmt, t.If):
            otherwise = {path for path, _ in _declared(constructor, stmt.orelse)}
            yield from ((path, each) for path, each in _declared(constructor, stmt.body) if path in otherwise)


def _is_parameter(value: t.Expr, constructor: FunctionRef) -> bool:
    """``nn.Parameter(torch.zeros(3))``; not one of numbers that are written there as a table, or were computed."""
    if not isinstance(value, t.Call) or value.name != "Parameter" or len(value.args) != 1:
        return False
    start = value.args[0].value
    bound = constructor.assigned.get(start.id, []) if isinstance(start, t.Name) else []
    start = bound[0] if len(bound) == 1 else start
    return _is_start(start, {param.name: param.default for param in constructor.define.params})


def _is_start(value: t.Expr, defaults: Mapping[str, t.Expr | None]) -> bool:
    """Whether a value is one to begin with: drawn, all the same, or a few numbers."""
    if isinstance(value, t.Operation):
        return any(_is_start(operand, defaults) for operand in value.operands)
    if not isinstance(value, t.Call):
        return False
    if value.name in _OF_NUMBERS and value.args:
        given = [arg.value for arg in value.args if arg.keyword is None]
        return len(given) > 1 or all(_is_number(each, defaults) for each in given)  # a size, or numbers
    if value.name in _INITIAL:
        return not any(isinstance(arg.value, t.Call) and arg.value.name == "from_numpy" for arg in value.args)
    return isinstance(value.func, t.Attribute) and _is_start(value.func.value, defaults)


def _is_number(value: t.Expr, defaults: Mapping[str, t.Expr | None]) -> bool:
    """Whether an expression is a number, or a row of them."""
    if isinstance(value, t.Display):
        return all(not isinstance(item, t.Display) and _is_number(item, defaults) for item in value.items)
    if isinstance(value, t.Operation):
        return all(_is_number(operand, defaults) for operand in value.operands)
    if isinstance(value, t.Name):
        default = defaults.get(value.id)
        return isinstance(default, t.Constant) and type(default.value) in (int, float)
    is_of_math = isinstance(value, t.Call) and (t.path_of(value.func) or "").startswith(("math.", "np.log", "float"))
    return is_of_math or isinstance(value, t.Constant)


def _used(cls: Class) -> set[str]:
    """The attributes that its methods compute with, where a graph is recorded."""
    found: set[str] = set()
    for method in methods_of(cls):
        if method.define.name not in _SHOWING:
            hidden = {id(node) for node in cut(method.define)}
            nodes = (n for n in method.define.all(t.Attribute) if id(n) not in hidden)
            found |= {path for node in nodes if (path := t.path_of(node)) is not None}
    return found


def _makes_layers(cls: Class) -> bool:
    """Whether a module has layers, or is given some, besides its own parameters."""
    constructor = cls.methods.get("__init__")
    bound = constructor.assigned.items() if constructor is not None else ()
    values = [value for path, values in bound if path.startswith("self.") for value in values]
    return any(
        constructor is not None and isinstance(v, t.Call) and v.name != "Parameter" and is_made(constructor, v)
        for v in values
    )


def _untrained(flow: Flow, made: Made) -> WithoutOptimizer | None:
    known = places(flow.project, flow.ref, made.path, made.methods, is_done=True)
    if known is None or (not made.is_sure and any(_is_evaluated(place) for place in known)):
        return None
    runs = {id(call) for place in known for call in place.ref.calls if _runs(call, place.path, made.methods)}
    flows = [other for place in known if (other := flow.project.flow(place.ref)) is not None]
    losses = [b for other in flows for b in other.facts.backwards if any(_holds(r.key, runs) for r in b.value.reach)]
    if not losses or not any(other.facts.steps for other in flows):
        return None
    optimizers = dict(_optimizers(flow.ref))
    after = [path for other in flows for path in _stepping_after(other, losses) if path in optimizers]
    next_one = [*after, *optimizers][0] if after or len(optimizers) == 1 else None
    site = flow.site(optimizers[next_one] if next_one is not None else made.call)
    run = next(Site(p.ref.chunk, call) for p in known for call in p.ref.calls if id(call) in runs)
    is_sure = made.is_sure or (len(optimizers) == 1 and _names_others(flow.ref, made.path, *optimizers.values()))
    return WithoutOptimizer(site, made.path, made.parameters, flow.site(made.call), made.declared, run, is_sure)


def _names_others(ref: FunctionRef, path: str, optimizer: t.Call) -> bool:
    """Whether an optimizer is given several networks one by one that the same function makes, and this one is not.

    ``Adam([*encoder.parameters(), *decoder.parameters()])``, ``Adam(nn.ModuleList([encoder, decoder]).parameters())``.
    """
    given = [node for arg in optimizer.args[:1] for value in ref.bound_to(arg.value) for node in t.walk(value)]
    asked = [node for node in given if isinstance(node, t.Call) and node.name == "parameters"]
    owners = [call.func.value for call in asked if isinstance(call.func, t.Attribute)]
    items = [item for owner in owners for made in t.walk(owner) if isinstance(made, t.Display) for item in made.items]
    named = {each for expr in (*owners, *items) if (each := t.path_of(expr)) is not None}
    is_attribute = path.startswith("self.")
    siblings = [each for each in named if each in ref.assigned and each.startswith("self.") == is_attribute]
    return len(siblings) > 1 and len(siblings) == len(named)


def _runs(call: t.Call, path: str, methods: frozenset[str]) -> bool:
    func = call.func
    if isinstance(func, t.Attribute) and t.path_of(func.value) == path:
        return func.name == "forward" or func.name in methods
    return t.path_of(func) == path


def _is_evaluated(place: Place) -> bool:
    return any(t.path_of(call.func) == f"{place.path}.eval" for call in place.ref.calls)


def _holds(key: object, nodes: set[int]) -> bool:
    """Whether a graph began at one of some nodes, in whatever call."""
    if isinstance(key, tuple):
        return any(_holds(part, nodes) for part in key)
    return id(key) in nodes


def _optimizers(ref: FunctionRef) -> Iterator[tuple[str, t.Call]]:
    """The optimizers that a function makes, or has made, by their paths."""
    for path, values in ref.assigned.items():
        yield from ((path, call) for call in values if isinstance(call, t.Call) and makes_optimizer(ref, call))


def _stepping_after(flow: Flow, losses: list[Backward]) -> Iterator[str]:
    """The optimizers that step after some losses were backpropagated, the next one first."""
    events = flow.facts.events
    first = next((place for place, event in enumerate(events) if any(event is loss for loss in losses)), len(events))
    yield from (e.target for e in events[first:] if isinstance(e, Step) and e.target is not None)

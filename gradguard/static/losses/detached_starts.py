"""Fast weights that begin without the graph of the parameters that their loss is to train, as in MAML.

The inner steps are recorded (``create_graph=True``), and the outer backward ends at the copies that these began with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.mistakes.losses import DetachedStart
from gradguard.static.model import Backward, GradCall, Step
from gradguard.static.optimizers.unreached import moves_gradients
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_run
from gradguard.static.program.local_objects import as_given
from gradguard.static.program.paths import is_part
from gradguard.static.source import Site
from gradguard.static.values import Root, Source, node_within

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_PARAMETERS = ("parameters", "named_parameters", "state_dict")
_COLLECTING = ("dict", "OrderedDict", "list", "tuple")
_OF_FAST_WEIGHTS = frozenset("functional_call requires_grad_ Parameter grad operation".split())
_GIVEN = (Source.PARAM, Source.PLACE, Source.LOSS, Source.CARRIED)


class _Start(NamedTuple):
    """What fast weights begin with: where, and the path of the module that they are copied from."""

    site: Site
    module: str


def detached_starts(flow: Flow) -> Iterator[DetachedStart]:
    """The copies that fast weights begin with, where the optimizer of what is copied steps after their loss alone."""
    facts = flow.facts
    if facts.is_test or not facts.backwards or not all(map(_is_of_fast_weights, facts.backwards)):
        return
    for inner in facts.grad_calls:
        start = _start_of(flow, inner)
        step = _step_of(flow, start) if start is not None else None
        if start is not None and step is not None and not moves_gradients(flow):
            optimizer = step.target or "the optimizer"
            backward = facts.backwards[-1].source.site
            yield DetachedStart(start.site, start.module, inner.source.site, backward, step.source.site, optimizer)
            return


def _step_of(flow: Flow, start: _Start) -> Step | None:
    steps = (step for step in flow.facts.steps if not step.runs_closure)
    return next((s for s in steps if any(is_part(start.module, each) for each in s.modules or ())), None)


def _is_of_fast_weights(backward: Backward) -> bool:
    """Whether all that a backward goes through is a module that was run with other weights than its own, and these."""
    names = [_begun_by(root) for root in backward.value.reach if root.source not in _GIVEN]
    return "functional_call" in names and all(name in _OF_FAST_WEIGHTS for name in names)


def _begun_by(root: Root) -> str:
    """What began a graph: the name of a call; an operation begins one with leaves, which are told besides."""
    node = node_within(root.key)
    if isinstance(node, t.Operation) and root.source is Source.GRAPH:
        return "operation"
    return node.name if isinstance(node, t.Call) else ""


def _start_of(flow: Flow, inner: GradCall) -> _Start | None:
    """What the weights of a recorded inner step begin with, in the words of the function that has the outer loss."""
    calls = [call for call in inner.callers if isinstance(call, t.Call)]
    known = flow
    path: list[tuple[Flow, t.Call, FunctionRef]] = []
    for call in calls:
        ref = next(functions_run(known, call), None)
        within = flow.project.flow(ref) if ref is not None else None
        if ref is None or within is None:
            return None
        path.append((known, call, ref))
        known = within
    asked = inner.source.site.node
    is_made = isinstance(asked, t.Call) and _makes_graph(asked, [(ref, call) for _, call, ref in path])
    start = _begun_in(known.ref, asked) if isinstance(asked, t.Call) and is_made else None
    for caller, call, ref in reversed(path):
        start = _in_caller(caller, call, ref, start) if start is not None else None
    return start


def _makes_graph(asked: t.Call, path: list[tuple[FunctionRef, t.Call]]) -> bool:
    """``create_graph=True``, also where that is a parameter which the call gives, or leaves, as True."""
    value = asked.argument("create_graph")
    for ref, call in reversed(path):
        if not isinstance(value, t.Name):
            break
        defaults = {param.name: param.default for param in ref.define.params}
        if value.id not in defaults or value.id in ref.assigned or any(arg.star for arg in call.args):
            return False
        value = ref.given_by(call).get(value.id, defaults[value.id])
    return isinstance(value, t.Constant) and value.value is True


def _begun_in(ref: FunctionRef, asked: t.Call) -> _Start | None:
    """The copies that a variable has before it gets what an inner step makes of it and of gradients."""
    inputs = asked.argument("inputs", 1)
    names = {node.id for node in t.walk(inputs) if isinstance(node, t.Name)} if inputs is not None else set()
    for name in sorted(names & set(ref.assigned)):
        bound = ref.assigned[name]
        stepped = any(isinstance(value, t.Comprehension) and _mentions(value, name) for value in bound)
        starts = [start for value in bound if (start := _copies(ref, value)) is not None]
        if stepped and len(starts) == 1 == len([value for value in bound if not _mentions(value, name)]):
            return starts[0]
    return None


def _mentions(value: t.Expr, name: str) -> bool:
    return any(isinstance(node, t.Name) and node.id == name for node in t.walk(value))


def _copies(ref: FunctionRef, value: t.Expr) -> _Start | None:
    """``{n: p.detach().clone().requires_grad_() for n, p in net.named_parameters()}``, or a method that gives it."""
    if isinstance(value, t.Call):
        if value.name in _COLLECTING and len(value.args) == 1 and isinstance(value.args[0].value, t.Comprehension):
            return _copies(ref, value.args[0].value)  # OrderedDict((n, p.detach().requires_grad_()) for n, p in ...)
        own = ref.owner is not None and (t.path_of(value.func) or "").rpartition(".")[0] == "self"
        method = ref.owner.method(value.name) if ref.owner is not None and own else None
        returned = [s.value for s in method.define.statements if isinstance(s, t.Return)] if method is not None else []
        given = returned[0] if len(returned) == 1 else None
        return _copies(method, given) if method is not None and isinstance(given, t.Comprehension) else None
    clause = value.clauses[0] if isinstance(value, t.Comprehension) and len(value.clauses) == 1 else None
    if clause is None or clause.conditions or not isinstance(value, t.Comprehension):
        return None
    read = _read(clause.iterable)
    func = read.func if read is not None else None
    module = t.path_of(func.value) if isinstance(func, t.Attribute) and func.name in _PARAMETERS else None
    names = {t.path_of(each) for each in t.names_in(clause.target)}
    if module is None or not _is_new_leaf(_value_of(value), names, is_cut=_gives_cut(clause.iterable)):
        return None
    return _Start(Site(ref.chunk, value), module)


def _read(iterable: t.Expr | None) -> t.Call | None:
    """What gives the tensors: ``net.named_parameters()``, also of ``net.state_dict().items()``."""
    func = iterable.func if isinstance(iterable, t.Call) else None
    if isinstance(func, t.Attribute) and func.name in ("items", "values") and isinstance(func.value, t.Call):
        return _read(func.value)
    return iterable if isinstance(iterable, t.Call) else None


def _gives_cut(iterable: t.Expr | None) -> bool:
    """Whether a call gives the tensors without their graph, as ``state_dict()`` does."""
    read = _read(iterable)
    return read is not None and read.name == "state_dict" and read.argument("keep_vars") is None


def _value_of(made: t.Comprehension) -> t.Expr:
    """What a comprehension makes of each: of pairs, the second."""
    pair = made.element
    is_pair = made.key is None and isinstance(pair, t.Display) and len(pair.items) == 2
    return pair.items[1] if is_pair and isinstance(pair, t.Display) else pair


def _is_new_leaf(value: t.Expr, names: set[str | None], *, is_cut: bool) -> bool:
    """``p.detach().clone().requires_grad_()``, ``nn.Parameter(p.data.clone())``."""
    is_leaf = False
    while not isinstance(value, t.Name):
        if isinstance(value, t.Call) and value.name == "Parameter" and value.args:
            is_leaf = is_cut = True  # it has no graph, whatever it is made of
            value = value.args[0].value
        elif isinstance(value, t.Call) and isinstance(value.func, t.Attribute):
            is_leaf |= value.func.name == "requires_grad_"
            is_cut |= value.func.name == "detach"
            value = value.func.value
        elif isinstance(value, t.Attribute):
            is_cut |= value.name == "data"
            value = value.value
        else:
            return False
    return is_leaf and is_cut and value.id in names


def _in_caller(caller: Flow, call: t.Call, ref: FunctionRef, start: _Start) -> _Start | None:
    """The same, with the path by which the caller has the module."""
    head, dot, rest = start.module.partition(".")
    given = ref.given_by(call).get(head)
    if head == "self":
        func = call.func
        given = func.value if isinstance(func, t.Attribute) and func.name == ref.define.name else func
    of = t.path_of(given) if given is not None else None
    if of is None:
        return None
    return start._replace(module=as_given(caller, caller.canonical(of) + dot + rest, caller.final, call))

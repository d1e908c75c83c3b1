"""Calls that train: backward, ``autograd.grad``, ``zero_grad``, ``step``, and the hooks on them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.files.gate import SourceError
from gradguard.static.model import (
    Backward,
    GradCall,
    HookRegistration,
    Mode,
    Site,
    Step,
    ZeroGrad,
)
from gradguard.static.optimizers.separate_modules import is_separate
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import named_kind
from gradguard.static.program.paths import last
from gradguard.static.reading import unrecorded
from gradguard.static.reading.called import Called
from gradguard.static.reading.conditions import outcome
from gradguard.static.reading.proof import prove, prove_terms
from gradguard.static.reading.receivers import looks_up, object_in, registered_on
from gradguard.static.reading.roots import node_of
from gradguard.static.reading.scaled import is_scaled
from gradguard.static.reading.summary import apply_facts
from gradguard.static.reading.unrecorded import Severed
from gradguard.static.values import (
    DETACHED,
    NOTHING,
    UNKNOWN,
    Held,
    Kind,
    Registrar,
    Root,
    Source,
    Value,
    each_of,
    holding,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.reading.state import State


def backward_call(c: Called) -> Value | None:
    value = _backward_value(c)
    if value is None:
        return None
    handed_over(c, value)
    return NOTHING


def _is_own_method(c: Called) -> bool:
    """Whether a model of the program has a ``backward`` of its own: the way back through a normalizing flow."""
    return bool(c.arguments) and c.flow.project.survey.mentions(_OWN_BACKWARD, c.flow.module, "def backward")


def _gives_a_result(c: Called) -> bool:
    """Whether it is no backward of torch, which gives nothing: ``sample = flow.backward(z).clamp(-1, 1)``.

    Under ``no_grad``, where there is no graph, it is enough that a method which is given something stands for a value.
    """
    ref = c.flow.ref
    if not c.arguments or c.node in ref.calls_for_effect:
        return False
    parts = (node for node in ref.define.nodes if isinstance(node, t.Attribute | t.Subscript))
    return c.state.mode is Mode.OFF or any(part.value is c.node for part in parts)


def _with_own(c: Called, value: Value) -> Value:
    """What an object's own ``backward()`` goes over: what the object keeps, too."""
    func = c.node.func
    if value is not c.receiver or not isinstance(func, t.Attribute):
        return value
    with_fields = c.flow.with_fields(value, func.value, c.state)
    return with_fields if c.flow.project.survey.mentions(_BACKWARD_OF_OBJECT, c.flow.module, "def backward") else value


_BACKWARD_OF_OBJECT = re.compile(r"def backward\(self\b")
_OWN_BACKWARD = re.compile(r"def backward\(self,")


def _backward_value(c: Called) -> Value | None:
    """The tensor that backward is called on, if this is such a call."""
    if c.external in ("torch.autograd.backward", "torch.distributed.autograd.backward"):
        return (c.arguments[-1] if "distributed" in c.external else c.value_of("tensors", 0)) or UNKNOWN
    if c.method == "manual_backward":
        return c.first or c.value_of("loss") or UNKNOWN
    if c.method != "backward" or c.external or isinstance(c.func.ref, FunctionRef):
        return None
    if _gives_a_result(c):
        return None
    path = c.receiver_path or ""
    is_model = c.receiver is not None and c.receiver.kind is Kind.MODULE and not k.ENGINE_NAME.search(path)
    if is_model and path not in ("self", "cls") and _is_own_method(c):
        return None
    takes_loss = bool(c.first) and (
        bool(k.ENGINE_NAME.search(path)) or (c.receiver is not None and c.receiver.kind in _ENGINE_KINDS)
    )
    if takes_loss:
        return c.first
    if path in ("self", "cls") and c.receiver is not None and c.receiver.kind in (Kind.MODULE, Kind.INSTANCE):
        return c.first or UNKNOWN
    if path == "ctx" or (isinstance(c.node.func, t.Attribute) and t.path_of(c.node.func.value) == "super()"):
        return None
    return c.receiver or UNKNOWN


_ENGINE_KINDS = (Kind.MODULE, Kind.OPTIMIZER, Kind.SCALER)


def handed_over(c: Called, value: Value) -> None:
    """Record a backward of ``value``; it proves that ``value`` carries a graph."""
    flow, node = c.flow, c.node

    def literal(keyword: str) -> Site | None:
        found = node.argument(keyword)
        return flow.site(found) if found is not None and node.is_true(keyword) else None

    first = 2 if c.external else 1  # backward(gradient, retain_graph, create_graph)
    on_tensor = bool(c.external) or value is c.receiver
    retain = node.argument("retain_graph", first if on_tensor else None)
    create = node.argument("create_graph", first + 1 if on_tensor else None)
    keeps = any(
        x is not None and not (isinstance(x, t.Constant) and x.value in (False, None)) for x in (retain, create)
    )
    prove(flow, value)
    given = node.func.value if on_tensor and isinstance(node.func, t.Attribute) and not c.external else None
    given = node.args[0].value if given is None and node.args else given
    if given is not None:
        prove_terms(flow, given, c.state)
        _note_recorded(value, given, c.state)
    variables = node.argument("retain_variables")
    event = Backward(
        flow.site(node), flow.loop, flow.branches > 0, value=_with_own(c, value), keeps=keeps,
        retain_graph=literal("retain_graph"), create_graph=literal("create_graph"),
        retain_variables=flow.site(variables) if variables is not None else None,
        is_scaled=is_scaled(c, given),
    )  # fmt: skip
    flow.record(event)
    c.state.lost = ()
    c.state.computed = True


def _note_recorded(value: Value, given: t.Expr, state: State) -> None:
    """A backward shows that the graph of a variable was recorded, though some input may have been ``volatile``."""
    path = t.path_of(given)
    if state.mode is Mode.UNKNOWN and path in state.env and not value.roots:
        begun = frozenset(root for root in value.maybe if root.source in (Source.GRAPH, Source.LOSS))
        state.env[path] = value._replace(roots=begun)


def grad_call(c: Called) -> Value | None:
    if c.external not in (
        "torch.autograd.grad",
        "torch.autograd.functional.jacobian",
        "torch.autograd.functional.hessian",
    ):
        return None
    value = c.value_of("outputs", 0) or UNKNOWN
    creates = _creates_graph(c)
    keeps = creates is not False or c.node.argument("retain_graph") is not None
    prove(c.flow, value)
    event = GradCall(c.flow.site(c.node), c.flow.loop, c.flow.branches > 0, value=value, keeps=keeps)
    event.inputs = c.value_of("inputs", 1) or UNKNOWN
    c.flow.record(event)
    if creates is False:  # a tuple of tensors without a graph
        given = holding(DETACHED, Held.CUT, c.node)
        each = unrecorded.cut_off([value], given, lambda: c.flow.site(c.node), Severed.NO_CREATE_GRAPH)
        each = unrecorded.of_slope(each) if _is_slope(c, value) else each
        return each_of(each, Kind.OUTPUT)
    result = c.result(Root(Source.GRAPH, c.node))
    return result if creates else Value(maybe=result.reach, kind=Kind.OUTPUT)


def _is_slope(c: Called, value: Value) -> bool:
    """Whether what is differentiated is a derivative itself, as ``torch.autograd.grad`` gave it, with its graph."""
    given = c.node.argument("outputs", 0)
    while isinstance(given, t.Subscript) or (isinstance(given, t.Call) and given.name == "sum"):
        inner = given.value if isinstance(given, t.Subscript) else given.func
        given = inner.value if isinstance(inner, t.Attribute) and isinstance(given, t.Call) else inner
    calls = c.flow.ref.assigned.get(given.id, []) if isinstance(given, t.Name) else []
    made = [each.value if isinstance(each, t.Subscript) else each for each in calls]
    graphs = {id(root.key) for root in value.roots if root.source is Source.GRAPH}
    return any(isinstance(each, t.Call) and each.name == "grad" and id(each) in graphs for each in made)


def _creates_graph(c: Called) -> bool | None:
    """Whether the gradient has a graph itself; None where that is not known."""
    create = c.node.argument("create_graph")
    if create is None or isinstance(create, t.Constant):
        return create is not None and bool(create.value)
    if isinstance(create, t.Attribute) and create.name == "training":
        return not c.state.evaluating or None
    return outcome(create, lambda name: known.ref if (known := c.state.env.get(name)) is not None else None)


def zero_grad(c: Called) -> Value | None:
    flow = c.flow
    name = c.method or last(c.path)  # of what a call gives, too: net.get_optimizer().zero_grad()
    by_hand = (name == "zero_" or (name in ("fill_", "mul_") and _is_zero(c.node))) and _grad_path(c.node)
    if (
        name != "zero_grad"
        and not by_hand
        and not _zeroes_several(c.node, name)
        and not (k.ZEROING_NAME.search(name) and not isinstance(c.func.ref, FunctionRef))
    ):
        return None
    if name == "zero_grad" and _says_whose(c):
        return None
    target = c.receiver_path if name == "zero_grad" else _own_leaf(c) if by_hand else None
    if target is not None and any(target in f.loop.targets for f in flow.frames):
        target = None  # one of several: for o in optimizers: o.zero_grad()
    setting = c.node.argument("set_to_none", 0)
    to_none = not by_hand and not (isinstance(setting, t.Constant) and setting.value is False)
    of_module = c.receiver is not None and c.receiver.kind is Kind.MODULE
    alone = frozenset((target,)) if of_module and target is not None and is_separate(flow, target) else None
    flow.zero(
        ZeroGrad(
            flow.site(c.node), flow.loop, flow.branches > 0, target=target, of=_modules(c.receiver) or alone,
            of_module=of_module, to_none=to_none,
        ),
        c.state,
    )  # fmt: skip
    return NOTHING


def _says_whose(c: Called) -> bool:
    """Whether it is an object's own method that names the optimizers whose gradients it resets: perhaps not all."""
    ref, receiver = c.func.ref, c.receiver
    if not isinstance(ref, FunctionRef) or receiver is None or receiver.kind is not Kind.INSTANCE:
        return False
    try:
        method = c.flow.project.flow(ref)
    except SourceError:
        return False
    resets = method.facts.zero_grads if method is not None else []
    return bool(resets) and all(reset.target is not None for reset in resets)


def _is_zero(node: t.Call) -> bool:
    """Whether the last thing that a call is given is 0."""
    return bool(node.args) and t.is_zero(node.args[-1].value)


def _zeroes_several(node: t.Call, name: str) -> bool:
    """``torch._foreach_zero_(gradients)``, ``torch._foreach_mul_(gradients, 0)``."""
    is_zeroing = name == "_foreach_zero_" or (name == "_foreach_mul_" and _is_zero(node))
    nodes = (inner for arg in node.args[:1] for inner in t.walk(arg.value))
    return is_zeroing and any(isinstance(inner, t.Attribute) and inner.name == "grad" for inner in nodes)


def _own_leaf(c: Called) -> str | None:
    """The path of an input whose gradient is zeroed by hand, where it surely is no parameter."""
    node: t.Expr = c.node.func
    while isinstance(node, t.Attribute):
        node = node.value
        path = t.path_of(node)
        known = (
            c.flow.read(c.flow.canonical(path), c.state) if path is not None and not path.endswith(".grad") else None
        )
        if known is not None and any(r.source is Source.LEAF for r in known.roots) and not known.holding(Held.STATE):
            return path
    return None


def _modules(optimizer: Value | None) -> frozenset[str] | None:
    """The modules whose parameters an optimizer was given, where that was seen."""
    return optimizer.ref if optimizer is not None and isinstance(optimizer.ref, frozenset) else None


def _grad_path(node: t.Call) -> bool:
    """Whether the receiver is a ``.grad`` (or ``.grad.data``)."""
    value = node.func.value if isinstance(node.func, t.Attribute) else None
    if isinstance(value, t.Attribute) and value.name == "data":
        value = value.value
    return isinstance(value, t.Attribute) and value.name == "grad"


def step_call(c: Called) -> Value | None:
    path = c.receiver_path or ""
    if c.method == "step" and not isinstance(c.func.ref, FunctionRef):
        receiver = c.receiver or UNKNOWN
        if receiver.kind is Kind.SCALER or k.SCALER_NAME.search(path):
            target = t.path_of(c.node.args[0].value) if c.node.args else None
            return _stepped(c, target, c.first, by_scaler=True)
        if k.SELF_ZEROING_NAME.search(path):
            return _stepped(c, path, None, zeroes=True)
        is_optimizer = receiver.kind is Kind.OPTIMIZER or named_kind(path) is Kind.OPTIMIZER
        if is_optimizer and not k.NOT_OPTIMIZER_NAME.search(last(path)):
            closure = c.value_of("closure", 0)
            returned = NOTHING
            if closure is not None and isinstance(closure.ref, FunctionRef):
                returned = apply_facts(c, closure.ref, [], _object_of_closure(c, closure.ref))
            _stepped(c, path, receiver, runs_closure=closure is not None)
            return returned
        return None
    if c.method == "unscale_" and not isinstance(c.func.ref, FunctionRef):
        return NOTHING  # it divides the gradients, and neither resets nor steps
    if k.STEPPING_NAME.search(last(c.path)) and not isinstance(c.func.ref, FunctionRef):
        return _stepped(c, t.path_of(c.node.args[0].value) if c.node.args else None, c.first)
    takes_both = len(c.values) >= 2 and c.values[1][1].kind is Kind.OPTIMIZER
    if k.SCALER_NAME.search(c.path) and takes_both and c.first is not None:
        handed_over(c, c.first)  # loss_scaler(loss, optimizer, ...): backward and step in one
        return _stepped(c, t.path_of(c.node.args[1].value), c.values[1][1])
    return None


def _object_of_closure(c: Called, ref: FunctionRef) -> str | None:
    """The path of the object whose method an optimizer is given to run: ``optimizer.step(self.closure)``."""
    given = c.node.argument("closure", 0)
    path = t.path_of(given) if given is not None else None
    if ref.owner is None:
        return None
    return c.flow.canonical(path).rpartition(".")[0] if path is not None else ""


def _stepped(
    c: Called,
    target: str | None,
    optimizer: Value | None,
    *,
    zeroes: bool = False,
    by_scaler: bool = False,
    runs_closure: bool = False,
) -> Value:
    flow = c.flow
    target = flow.canonical(target) if target else None
    if target is not None and any(target in f.loop.targets for f in flow.frames):
        target = None
    step = Step(
        flow.site(c.node), flow.loop, flow.branches > 0, target=target, of=_modules(optimizer), zeroes=zeroes,
        by_scaler=by_scaler, runs_closure=runs_closure, lost=c.state.reset_of(target),
    )  # fmt: skip
    flow.record(step)
    c.state.note_step(target)
    return NOTHING


def hook_call(c: Called) -> Value | None:
    flow, ref = c.flow, c.func.ref
    path: str | None
    if isinstance(ref, Registrar):
        method, receiver, path = ref.method, ref.of, ref.receiver
    elif last(c.path) in k.HOOK_METHODS or c.method in k.HOOK_METHODS:
        method, receiver, path = c.method or last(c.path), c.receiver or UNKNOWN, c.receiver_path
    else:
        return None
    is_tensor = method == "register_hook" and bool(receiver.roots) and receiver.kind in (Kind.TENSOR, Kind.OUTPUT)
    fresh = is_tensor and not _stays(flow, receiver, path or "")
    event = HookRegistration(
        flow.site(c.node), flow.loop, flow.branches > 0, method=method, receiver=path, fresh=fresh, of=receiver
    )
    looked_up = c.node.func.value if isinstance(c.node.func, t.Attribute) and path is None else None
    if looked_up is not None and looks_up(looked_up):
        path = object_in(flow, looked_up)  # net.get_submodule(name).register_forward_hook(...)
    event.receiver = registered_on(flow, path)
    callback = c.first or c.value_of("hook")
    event.callback = _function_of(callback)
    event.bound = _bound_by_partial(c)
    if isinstance(c.node.func, t.Attribute):
        event.receiver_site = flow.site(c.node.func.value)
    flow.record(event)
    return Value(kind=Kind.HANDLE, ref=event)


def _stays(flow: Flow, tensor: Value, path: str) -> bool:
    """Whether a tensor outlives the iterations around it: a parameter, or a leaf that was made before the loops."""
    if any(path in frame.loop.targets and _goes_over_parameters(frame.loop.site.node) for frame in flow.frames):
        return True
    made = [node_of(root.key) for root in tensor.roots if root.source is Source.LEAF]
    if not made or any(root.source not in (Source.LEAF, Source.PLACE) for root in tensor.roots):
        return False
    if path.isidentifier():
        loops = [frame.loop for frame in flow.frames]
        return all(path not in loop.targets and path not in loop.assigned for loop in loops)
    is_declared = all(isinstance(call, t.Call) and call.name.endswith("Parameter") for call in made)
    return is_declared or bool(tensor.holding(Held.PARAMETER)) or last(path) in ("weight", "bias")


def _goes_over_parameters(loop: t.Node | None) -> bool:
    """``for name, p in net.named_parameters()``, also of a list of them, or of some."""
    nodes = t.walk(loop.iterable) if isinstance(loop, t.Repeat) and loop.iterable is not None else ()
    return any(isinstance(node, t.Call) and node.name in ("parameters", "named_parameters") for node in nodes)


def _function_of(callback: Value | None) -> object:
    """The function that runs when a hook does: of an object, its ``__call__``."""
    if callback is None:
        return None
    if callback.kind is Kind.INSTANCE and isinstance(callback.ref, Class):
        return callback.ref.method("__call__")
    return callback.ref if callback.kind is Kind.FUNCTION else None


def _bound_by_partial(c: Called) -> tuple[str | None, ...]:
    """The paths that ``partial(hook, a, b)`` gives to the hook's first parameters."""
    made = c.node.args[0].value if c.node.args else None
    if not isinstance(made, t.Call) or last(t.path_of(made.func) or "") != "partial":
        return ()
    return tuple(t.path_of(arg.value) for arg in made.args[1:] if arg.keyword is None)

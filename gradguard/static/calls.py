"""What a call does: to graphs, gradients and containers, and what it returns.

``call`` asks a list of readers in order; the first that knows the call answers. What a function of the project does
is applied from its own facts (``apply``); everything else is looked up in ``knowledge``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.expressions import evaluate, recorded
from gradguard.static.model import (
    Backward,
    Form,
    Forward,
    GradCall,
    HookRegistration,
    Mode,
    OpaqueCall,
    Site,
    Step,
    ZeroGrad,
)  # fmt: skip
from gradguard.static.project import Class, FunctionRef
from gradguard.static.values import (
    DETACHED,
    NOTHING,
    NUMBER,
    UNKNOWN,
    Kind,
    Root,
    Source,
    Value,
    each_of,
    join,
    structure,
    union,
)  # fmt: skip

if TYPE_CHECKING:
    from gradguard.static.flow import Flow, State


@dataclass(eq=False)
class Called:
    """One call, with what is known of its parts."""

    flow: Flow
    state: State
    node: t.Call
    func: Value
    receiver: Value | None
    values: list[tuple[t.Arg, Value]]

    @cached_property
    def path(self) -> str:
        """The dotted name that is called, as written; empty for calls of calls."""
        return t.path_of(self.node.func) or ""

    @cached_property
    def external(self) -> str:
        """The full dotted name, for a function of another package."""
        return str(self.func.ref) if self.func.kind is Kind.EXTERNAL else ""

    @property
    def method(self) -> str:
        return self.node.func.name if isinstance(self.node.func, t.Attribute) else ""

    @cached_property
    def receiver_path(self) -> str | None:
        """The path of the object whose method is called."""
        if not isinstance(self.node.func, t.Attribute):
            return None
        path = t.path_of(self.node.func.value)
        return self.flow.canonical(path) if path is not None else None

    @property
    def arguments(self) -> list[Value]:
        return [value for _, value in self.values]

    @property
    def first(self) -> Value | None:
        """The first positional argument."""
        return self.values[0][1] if self.values and self.values[0][0].keyword is None else None

    def value_of(self, keyword: str, position: int | None = None) -> Value | None:
        wanted = self.node.argument(keyword, position)
        return next((v for a, v in self.values if a.value is wanted), None) if wanted is not None else None

    def result(self, *extra: Root, kind: Kind = Kind.TENSOR, receiver: bool = True) -> Value:
        """The result of a differentiable call: the graphs of all that went in."""
        given = [self.as_target(arg, value, i) for i, (arg, value) in enumerate(self.values)]
        parts = [*([self.receiver] if receiver and self.receiver is not None else []), *given]
        return recorded(union(parts, kind).with_roots(*extra), self.state, self.node)

    def as_target(self, arg: t.Arg, value: Value, position: int) -> Value:
        """An argument as it enters the result: what a loss is compared with hardly ever carries a graph."""
        is_target = arg.keyword in k.TARGET_ARGUMENTS or (arg.keyword is None and position == 1)
        if not is_target or (not k.LOSS_CALLABLE.search(self.path) and "loss" not in self.path):
            return value
        data = frozenset(r for r in value.roots if r.source in (Source.PARAM, Source.PLACE))
        return replace(value, roots=value.roots - data, maybe=value.maybe | data)


def call(flow: Flow, node: t.Call, state: State) -> Value:
    """The value of a call; its effects are recorded."""
    receiver = evaluate(flow, node.func.value, state) if isinstance(node.func, t.Attribute) else None
    func = (
        evaluate(flow, node.func, state)
        if not isinstance(node.func, t.Attribute)
        else _bound(flow, node, receiver, state)
    )
    values = [(arg, evaluate(flow, arg.value, state)) for arg in node.args]
    called = Called(flow, state, node, func, receiver, values)
    for reader in _READERS:
        value = reader(called)
        if value is not None:
            return value
    return _unknown(called)


def _bound(flow: Flow, node: t.Call, receiver: Value | None, state: State) -> Value:
    """What ``receiver.name`` is, without asking the receiver twice."""
    from gradguard.static.project import member

    func = node.func
    assert isinstance(func, t.Attribute)
    if receiver is not None and receiver.kind in (Kind.EXTERNAL, Kind.CLASS):
        return member(receiver, func.name) or UNKNOWN
    if isinstance(func.value, t.Call) and t.path_of(func.value.func) == "super" and flow.ref.owner is not None:
        for cls in list(flow.ref.owner.lineage())[1:]:
            if func.name in cls.methods:
                return Value(kind=Kind.FUNCTION, ref=cls.methods[func.name])
        return UNKNOWN
    if receiver is not None and isinstance(receiver.ref, Class):
        method = receiver.ref.method(func.name)
        if method is not None:
            return Value(kind=Kind.FUNCTION, ref=method)
        attribute = receiver.ref.attribute(func.name)
        if attribute is not None:
            return attribute
    path = t.path_of(func)
    if path is not None and receiver is not None and receiver.kind in (Kind.UNKNOWN, Kind.INSTANCE, Kind.MODULE):
        known = state.env.get(flow.canonical(path))
        if known is not None:
            return known
        from gradguard.static.flow import named_kind

        kind = named_kind(path)
        if kind is Kind.MODULE and func.name not in k.MODULE_METHODS:
            return Value(kind=kind)
    return UNKNOWN


# --- backward, zero_grad, step ----------------------------------------------------------------------------------


def _backward(c: Called) -> Value | None:
    value = _backward_value(c)
    if value is None:
        return None
    handed_over(c, value)
    return NOTHING


def _backward_value(c: Called) -> Value | None:
    """The tensor that backward is called on, if this is such a call."""
    if c.external in ("torch.autograd.backward", "torch.distributed.autograd.backward"):
        return (c.arguments[-1] if "distributed" in c.external else c.value_of("tensors", 0)) or UNKNOWN
    if c.method == "manual_backward":
        return c.first or c.value_of("loss") or UNKNOWN
    if c.method != "backward" or c.external or isinstance(c.func.ref, FunctionRef):
        return None
    path = c.receiver_path or ""
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

    retain = node.argument("retain_graph")
    create = node.argument("create_graph")
    keeps = any(
        x is not None and not (isinstance(x, t.Constant) and x.value in (False, None)) for x in (retain, create)
    )
    prove(flow, value)
    variables = node.argument("retain_variables")
    event = Backward(
        flow.site(node), flow.loop, flow.branches > 0, value=value, keeps=keeps,
        retain_graph=literal("retain_graph"), create_graph=literal("create_graph"),
        retain_variables=flow.site(variables) if variables is not None else None,
    )  # fmt: skip
    flow.record(event)
    c.state.lost = None
    c.state.computed = True


def prove(flow: Flow, value: Value) -> None:
    """Backward is called on ``value``, so its graph exists: which of its roots start one."""
    if value.roots:
        flow.proven_values.add(frozenset(r for r in value.roots if r.source is not Source.CARRIED))
    open_roots = [r for r in value.roots if r.source not in (Source.GRAPH, Source.LEAF, Source.CARRIED)]
    if len(open_roots) == 1:
        flow.proven.update(open_roots)
        flow.proven.update(_wholes(open_roots[0]))
        return
    for root in open_roots:
        if root.source is Source.LOSS or k.LOSS_NAME.search(_last(flow.hints.get(root, ""))):
            flow.proven.add(root)


def _wholes(root: Root) -> Iterator[Root]:
    """What the root is a part of: of a dict whose ``"loss"`` carries a graph, the dict does."""
    key: object = root.key
    while isinstance(key, tuple) and not isinstance(key[1], t.Node | tuple):
        key = key[0]
        yield Root(root.source, key)


def _last(path: str) -> str:
    return path.rsplit(".", 1)[-1]


def _grad(c: Called) -> Value | None:
    if c.external not in (
        "torch.autograd.grad",
        "torch.autograd.functional.jacobian",
        "torch.autograd.functional.hessian",
    ):
        return None
    value = c.value_of("outputs", 0) or UNKNOWN
    create = c.node.argument("create_graph")
    creates = create is not None and not (isinstance(create, t.Constant) and create.value in (False, None))
    keeps = creates or c.node.argument("retain_graph") is not None
    prove(c.flow, value)
    c.flow.record(GradCall(c.flow.site(c.node), c.flow.loop, c.flow.branches > 0, value=value, keeps=keeps))
    return c.result(Root(Source.GRAPH, c.node)) if creates else Value(kind=Kind.OUTPUT)


def _zero_grad(c: Called) -> Value | None:
    flow = c.flow
    last = _last(c.path)
    by_hand = last == "zero_" and _grad_path(c.node)
    if (
        last != "zero_grad"
        and not by_hand
        and not (k.ZEROING_NAME.search(last) and not isinstance(c.func.ref, FunctionRef))
    ):
        return None
    target = c.receiver_path if last == "zero_grad" else None
    if target is not None and any(target in f.loop.targets for f in flow.frames):
        target = None  # one of several: for o in optimizers: o.zero_grad()
    setting = c.node.argument("set_to_none", 0)
    to_none = not by_hand and not (isinstance(setting, t.Constant) and setting.value is False)
    of_module = c.receiver is not None and c.receiver.kind is Kind.MODULE
    flow.zero(
        ZeroGrad(flow.site(c.node), flow.loop, flow.branches > 0, target=target, of_module=of_module, to_none=to_none),
        c.state,
    )
    return NOTHING


def _grad_path(node: t.Call) -> bool:
    """Whether the receiver is a ``.grad`` (or ``.grad.data``)."""
    value = node.func.value if isinstance(node.func, t.Attribute) else None
    if isinstance(value, t.Attribute) and value.name == "data":
        value = value.value
    return isinstance(value, t.Attribute) and value.name == "grad"


def _step(c: Called) -> Value | None:
    path = c.receiver_path or ""
    if c.method == "step" and not isinstance(c.func.ref, FunctionRef):
        receiver = c.receiver or UNKNOWN
        if receiver.kind is Kind.SCALER or k.SCALER_NAME.search(path):
            return _stepped(c, t.path_of(c.node.args[0].value) if c.node.args else None)
        if k.SELF_ZEROING_NAME.search(path):
            return _stepped(c, path, zeroes=True)
        if receiver.kind is Kind.OPTIMIZER and not k.NOT_OPTIMIZER_NAME.search(_last(path)):
            closure = c.first
            returned = NOTHING
            if closure is not None and isinstance(closure.ref, FunctionRef):
                returned = apply(c, closure.ref, [])
            _stepped(c, path)
            return returned
        return None
    if k.STEPPING_NAME.search(_last(c.path)) and not isinstance(c.func.ref, FunctionRef):
        return _stepped(c, t.path_of(c.node.args[0].value) if c.node.args else None)
    takes_both = len(c.values) >= 2 and c.values[1][1].kind is Kind.OPTIMIZER
    if k.SCALER_NAME.search(c.path) and takes_both and c.first is not None:
        handed_over(c, c.first)  # loss_scaler(loss, optimizer, ...): backward and step in one
        return _stepped(c, t.path_of(c.node.args[1].value))
    return None


def _stepped(c: Called, target: str | None, *, zeroes: bool = False) -> Value:
    flow = c.flow
    target = flow.canonical(target) if target else None
    if target is not None and any(target in f.loop.targets for f in flow.frames):
        target = None
    lost = c.state.lost
    if lost is not None and not lost.of_module and lost.target and target and lost.target != target:
        lost = None
    flow.record(Step(flow.site(c.node), flow.loop, flow.branches > 0, target=target, zeroes=zeroes, lost=lost))
    c.state.lost, c.state.computed = None, False
    return NOTHING


# --- gradient mode and evaluation mode --------------------------------------------------------------------------


def gradient_context(flow: Flow, expr: t.Expr, state: State | None = None) -> Mode | None:
    """The gradient mode that a decorator or a context manager sets, None if it does not."""
    called = isinstance(expr, t.Call)
    func = expr.func if isinstance(expr, t.Call) else expr
    path = t.path_of(func) or ""
    head = path.split(".", 1)[0]
    value = flow.module.resolve(head) if head else None
    full = path
    if value is not None and value.kind is Kind.EXTERNAL and isinstance(value.ref, str):
        full = value.ref + path[len(head) :]
    elif state is not None and (local := state.env.get(head)) is not None and local.kind is Kind.EXTERNAL:
        full = str(local.ref) + path[len(head) :]
    if full in k.NO_GRAD:
        off = (
            called
            and isinstance(expr, t.Call)
            and isinstance(m := expr.argument("mode", 0), t.Constant)
            and m.value is False
        )
        return None if off and full.endswith("inference_mode") else Mode.OFF
    if full in k.ENABLE_GRAD:
        flow.facts.gradients_wanted = True
        return Mode.ON
    if full in k.SET_GRAD:
        setting = expr.argument("mode", 0) if isinstance(expr, t.Call) else None
        if isinstance(setting, t.Constant):
            return Mode.ON if setting.value else Mode.OFF
        return Mode.UNKNOWN
    if isinstance(value, Value) and isinstance(value.ref, FunctionRef) and "." not in path:
        text = value.ref.chunk.text
        return Mode.UNKNOWN if any(w in text for w in ("no_grad", "inference_mode", "set_grad_enabled")) else None
    if k.NO_GRAD_NAME.search(path.rsplit(".", 1)[-1]):
        return Mode.OFF if path.rsplit(".", 1)[-1] in ("no_grad", "inference_mode") else Mode.UNKNOWN
    return None


def _modes(c: Called) -> Value | None:
    """``set_grad_enabled`` as a statement, ``ExitStack.enter_context(no_grad())``, ``.eval()`` and ``.train()``."""
    state = c.state
    if c.external in k.SET_GRAD:
        mode = gradient_context(c.flow, c.node, state)
        state.mode = mode or state.mode
        return NOTHING
    if c.method == "enter_context" and c.node.args:
        mode = gradient_context(c.flow, c.node.args[0].value, state)
        state.mode = mode or state.mode
        return UNKNOWN
    if c.receiver is None or c.receiver_path is None or isinstance(c.func.ref, FunctionRef):
        return None
    setting = c.node.argument("mode", 0)
    if c.method == "eval" and not c.node.args and not c.external:
        state.evaluating |= {c.receiver_path}
        return c.receiver
    if c.method == "train" and len(c.node.args) <= 1 and not c.external:
        if isinstance(setting, t.Constant) and setting.value is False:
            state.evaluating |= {c.receiver_path}
        else:
            state.evaluating -= {p for p in state.evaluating if p == c.receiver_path or c.receiver_path == "self"}
        return c.receiver
    return None


# --- hooks ------------------------------------------------------------------------------------------------------


def _hook(c: Called) -> Value | None:
    if _last(c.path) not in k.HOOK_METHODS and c.method not in k.HOOK_METHODS:
        return None
    flow = c.flow
    receiver = c.receiver or UNKNOWN
    fresh = c.method == "register_hook" and bool(receiver.roots) and receiver.kind in (Kind.TENSOR, Kind.OUTPUT)
    event = HookRegistration(
        flow.site(c.node), flow.loop, flow.branches > 0, method=c.method or _last(c.path),
        receiver=c.receiver_path, fresh=fresh,
    )  # fmt: skip
    event.receiver = _registered_on(flow, c.receiver_path)
    flow.record(event)
    return Value(kind=Kind.HANDLE, ref=event)


def _registered_on(flow: Flow, path: str | None) -> str | None:
    """The path of the receiver; of one that loops over ``net.modules()``, that of ``net``."""
    for frame in reversed(flow.frames):
        head = (path or "").split(".", 1)[0].split("[", 1)[0]
        loop = frame.loop.site.node
        if head in frame.loop.targets and isinstance(loop, t.Repeat) and loop.iterable is not None:
            calls = (n for n in t.walk(loop.iterable) if isinstance(n, t.Call) and isinstance(n.func, t.Attribute))
            objects = [p for n in calls if (p := t.path_of(n.func.value)) is not None]  # type: ignore[attr-defined]
            path = flow.canonical(objects[0]) if objects else None
    return path


# --- containers -------------------------------------------------------------------------------------------------


def _container(c: Called) -> Value | None:
    """Methods that add to or take from a container."""
    if c.receiver is None or c.receiver_path is None or isinstance(c.func.ref, FunctionRef) or c.external:
        return None
    flow, state, path = c.flow, c.state, c.receiver_path
    if c.method in k.CLEARING_METHODS and c.receiver.kind in (Kind.CONTAINER, Kind.UNKNOWN):
        if c.method == "clear":
            flow.empty(path, c.receiver, state)
            return NOTHING
        _bound_it(c, path)
        return replace(c.receiver, kind=Kind.UNKNOWN, parts=(), bounded=False)
    always = ("append", "extend", "appendleft", "extendleft")
    if c.method not in k.ADDING_METHODS or not (c.method in always or c.receiver.kind is Kind.CONTAINER):
        return None
    if c.receiver.kind in (Kind.MODULE, Kind.OPTIMIZER, Kind.TENSOR, Kind.NUMBER, Kind.EXTERNAL):
        return None
    base = path
    while base.endswith("[*]"):
        base = base[:-3]
    holder = flow.read(base, state)
    stored = union(c.arguments, Kind.CONTAINER)
    if stored.reach:
        source = c.node.args[-1].value
        store = flow.store(base, stored, state, c.node, source, Form.APPEND)
        if isinstance(source, t.Display) and len(source.items) == 1:
            store.value_site = flow.site(source.items[0])
    state.env[base] = replace(
        holder, roots=holder.roots | stored.roots, maybe=holder.maybe | stored.maybe, parts=_with_element(c, holder),
        kind=Kind.CONTAINER if c.method in always else holder.kind,
    )  # fmt: skip
    return NOTHING


def _with_element(c: Called, holder: Value) -> tuple[tuple[object, Value], ...]:
    """The parts of a list after ``append``: what an element looks like, as long as that is known."""
    if c.method not in ("append", "appendleft") or c.first is None:
        return ()
    known = holder.part("each")
    empty = not holder.parts and all(r.source in (Source.CARRIED, Source.PLACE) for r in holder.roots)
    if known is None and not empty:
        return ()
    return (("each", c.first if known is None else join(known, c.first)),)


def _bound_it(c: Called, path: str) -> None:
    """An element is taken out: the container is drained as it is filled."""
    base = path
    while base.endswith("[*]"):
        base = base[:-3]
    c.state.env[base] = replace(c.flow.read(base, c.state), bounded=True, parts=())


def _in_place(c: Called) -> Value | None:
    """In-place tensor methods: the receiver takes on graphs, or loses its own."""
    if c.receiver is None or isinstance(c.func.ref, FunctionRef) or c.external or not c.method.endswith("_"):
        return None
    flow, state, path = c.flow, c.state, c.receiver_path
    if c.method == "requires_grad_":
        off = isinstance(m := c.node.argument("requires_grad", 0), t.Constant) and m.value is False
        if off or c.receiver.kind is Kind.MODULE:
            return c.receiver
        flow.facts.gradients_wanted = True
        leaf = c.receiver.with_roots(Root(Source.LEAF, c.node))
        if path is not None:
            state.env[path] = leaf
        return leaf
    if c.method in k.RESETTING_METHODS:
        if path is not None and not _through_data(c.node):
            state.assign(path, DETACHED)
        return DETACHED
    if c.method not in k.INPLACE_GRAPH_METHODS or path is None or _through_data(c.node):
        return None
    added = union(c.arguments)
    if state.mode is Mode.OFF:
        return c.receiver
    before = flow.read(path, state)
    if added.reach:
        flow.store(path, added, state, c.node, c.node.args[0].value, Form.IN_PLACE)
    state.env[path] = replace(before, roots=before.roots | added.roots, maybe=before.maybe | added.maybe)
    return state.env[path]


def _through_data(node: t.Call) -> bool:
    value: t.Expr = node.func
    while isinstance(value, t.Attribute | t.Subscript):
        if isinstance(value, t.Attribute) and value.name in ("data", "grad"):
            return True
        value = value.value
    return False


# --- functions of the project -----------------------------------------------------------------------------------


def _project(c: Called) -> Value | None:
    ref = c.func.ref
    if c.func.kind is Kind.FUNCTION and isinstance(ref, FunctionRef):
        return apply(c, ref, c.values)
    if c.func.kind is Kind.CLASS and isinstance(ref, Class):
        if ref.is_module:
            return Value(kind=Kind.MODULE, ref=ref)
        if _optimizer_class(ref):
            return Value(kind=Kind.OPTIMIZER, ref=ref)
        if ref.is_record and c.values:
            return union(c.arguments, Kind.OUTPUT)  # a record: a dataclass, a named tuple
        return Value(kind=Kind.INSTANCE, ref=ref)
    if c.func.kind in (Kind.MODULE, Kind.INSTANCE) and isinstance(ref, Class):
        forward = ref.method("forward" if c.func.kind is Kind.MODULE else "__call__")
        if forward is not None:
            if c.func.kind is Kind.MODULE:
                _forward(c)
            returned = apply(c, forward, c.values, receiver=c.flow.canonical(c.path) if c.path else None)
            if c.func.kind is Kind.MODULE and returned.roots - union(c.arguments).roots:
                return replace(returned, kind=Kind.OUTPUT)
            return _module_call(c) if c.func.kind is Kind.MODULE and not _detaches(forward) else returned
    return None


def _optimizer_class(cls: Class) -> bool:
    bases = (n for n in cls.external_bases if "lr_scheduler" not in n)
    return any(n.startswith("torch.optim") or n.endswith("Optimizer") for n in bases)


def _detaches(forward: FunctionRef) -> bool:
    text = forward.chunk.text
    return "no_grad" in text or "detach" in text


def apply(c: Called, ref: FunctionRef, values: list[tuple[t.Arg, Value]], receiver: str | None = None) -> Value:
    """Do at this call what a function of the project does."""
    from gradguard.static.summary import apply_facts

    return apply_facts(c, ref, values, receiver)


def never_returns(expr: t.Expr) -> bool:
    """``sys.exit()`` and the like."""
    return isinstance(expr, t.Call) and (t.path_of(expr.func) or "") in ("sys.exit", "exit", "quit", "os._exit")


# --- torch and other packages -----------------------------------------------------------------------------------


def _external(c: Called) -> Value | None:
    name = c.external
    if not name:
        return None
    if name.startswith("builtins."):
        return _builtin(c, name[9:])
    tail = name.rsplit(".", 1)[-1]
    if name in ("random.sample", "random.choice", "random.choices", "random.shuffle"):
        return c.first or UNKNOWN
    if name.startswith(k.NUMBER_PREFIXES):
        return NUMBER
    made = _constructed(c, name, tail)
    if made is not None:
        return made
    if name in ("collections.namedtuple", "typing.NamedTuple"):
        return Value(kind=Kind.EXTERNAL, ref="builtins.tuple")
    if name in ("copy.deepcopy", "copy.copy"):
        return c.first or UNKNOWN
    if tail in ("deque", "defaultdict", "OrderedDict", "Counter"):
        content = union(c.arguments[:1], Kind.CONTAINER)
        if tail == "defaultdict" and c.first is not None and isinstance(c.first.ref, Class):
            made = Value(kind=Kind.MODULE if c.first.ref.is_module else Kind.INSTANCE, ref=c.first.ref)
            return each_of(made)
        bounded = tail == "deque" and _is_short(c, c.node.argument("maxlen", 1))
        return replace(content, bounded=bounded, must=frozenset())
    if name in ("functools.partial",) and c.first is not None:
        return c.first
    if name.startswith(k.TENSOR_PREFIXES):
        return _torch(c, name, tail)
    if tail in k.MODULE_FUNCTIONS:
        return c.first if c.first is not None and c.first.kind is Kind.MODULE else Value(kind=Kind.MODULE)
    if k.LOGGING_RECEIVERS.search(c.path.rsplit(".", 1)[0]) and c.method:
        return NOTHING
    if tail in ("tqdm", "trange", "track", "progress_bar", "prefetch", "chain", "islice", "as_completed", "Variable"):
        return c.first or UNKNOWN
    return None


def _is_short(c: Called, length: t.Expr | None) -> bool:
    """Whether a ``maxlen`` bounds what is kept: a replay buffer of 100,000 graphs is full long after the memory is."""
    if isinstance(length, t.Name):
        param = next((p for p in c.flow.ref.define.params if p.name == length.id), None)
        length = param.default if param is not None and param.default is not None else length
    if isinstance(length, t.Constant):
        return isinstance(length.value, int) and length.value < k.LONG_BUFFER
    return length is not None


def _constructed(c: Called, name: str, tail: str) -> Value | None:
    """Modules, optimizers, loaders, parameters."""
    if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        return Value(frozenset((Root(Source.LEAF, c.node),)), kind=Kind.TENSOR)
    if name.startswith("torch.optim.") or tail in ("AdamW", "Lamb", "LARS", "create_optimizer"):
        return None if "lr_scheduler" in name or "swa_utils" in name else Value(kind=Kind.OPTIMIZER)
    if tail == "DataLoader" or name.endswith("prefetch_loader"):
        return Value(kind=Kind.LOADER)
    if tail == "GradScaler":
        return Value(kind=Kind.SCALER)
    if name in ("torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.ParameterList"):
        return Value(kind=Kind.MODULE)
    if name.startswith(k.MODULE_PREFIXES) and not name.startswith(k.NOT_MODULES):
        wraps = (
            c.first is not None
            and isinstance(c.first.ref, Class)
            and tail in ("DataParallel", "DistributedDataParallel")
        )
        return c.first if wraps else Value(kind=Kind.MODULE)
    if tail in k.MODULE_FUNCTIONS and c.method != "from_config":
        return c.first if c.first is not None and c.first.kind is Kind.MODULE else Value(kind=Kind.MODULE)
    return None


def _torch(c: Called, name: str, tail: str) -> Value | None:
    requires_grad = c.node.is_true("requires_grad")
    if tail in k.CREATING_FUNCTIONS and name.count(".") == 1 and tail != "as_tensor":
        return Value(frozenset((Root(Source.LEAF, c.node),)), kind=Kind.TENSOR) if requires_grad else DETACHED
    if name == "torch.autograd.Variable":
        made = replace(c.first or UNKNOWN, kind=Kind.TENSOR)
        return made.with_roots(Root(Source.LEAF, c.node)) if requires_grad else made
    if name.startswith("torch.utils.checkpoint."):
        return c.result(Root(Source.GRAPH, c.node), kind=Kind.OUTPUT, receiver=False)
    if name.startswith(
        ("torch.distributed.", "torch.cuda.", "torch.utils.", "torch.backends.", "torch.multiprocessing")
    ):
        return NOTHING if not name.endswith("stream") else UNKNOWN
    if tail in k.BREAKING_FUNCTIONS or name.startswith(("torch.nn.init.", "torch.nn.utils.clip")):
        return DETACHED
    if name.startswith(("torch.func.", "torch.jit.", "torch.hub.", "torch.fx.", "torch.compiler", "torch.export")):
        return Value(kind=Kind.MODULE) if name.startswith(("torch.jit.", "torch.hub.")) else None
    return _indexed(c, tail, c.result(receiver=False))


def _indexed(c: Called, name: str, result: Value) -> Value:
    """The second part of ``max(dim)``, ``sort``, ``topk`` holds indices."""
    several = len(c.values) + (0 if c.external else 1) > 1
    if name in k.INDEXED_RESULTS and several:
        return replace(result, parts=((0, replace(result, parts=())), (1, DETACHED)))
    return result


def _builtin(c: Called, name: str) -> Value | None:
    from gradguard.static.flow import element, iterated

    if name in k.HARMLESS_BUILTINS:
        return NUMBER
    if name in ("range", "len"):
        return NUMBER
    values = c.arguments
    if name == "enumerate" and values:
        return each_of(structure(((0, NUMBER), (1, iterated(values[0])))))
    if name == "zip" and len(values) == 1 and c.values[0][0].star:
        rows = iterated(values[0])  # zip(*rows): one column for each part of a row
        if rows.parts:
            return structure((i, each_of(part)) for i, part in rows.parts)
        return structure((("columns", rows),))
    if name == "zip":
        return each_of(structure((i, iterated(v)) for i, v in enumerate(values)))
    if name in ("next",) and values:
        return iterated(values[0])
    if name in ("iter", "reversed", "sorted") and values:
        return values[0]
    if name in k.CONTAINER_BUILTINS:
        parts = tuple((a.keyword, v) for a, v in c.values if a.keyword) if name == "dict" else ()
        return replace(union(values, Kind.CONTAINER), parts=parts)
    if name == "getattr" and len(c.node.args) >= 2 and isinstance(key := c.node.args[1].value, t.Constant):
        base = t.path_of(c.node.args[0].value)
        return c.flow.read(c.flow.canonical(f"{base}.{key.value}"), c.state) if base else UNKNOWN
    if name in ("sum", "max", "min", "abs") and values:
        return recorded(union([element(v, "each") for v in values]), c.state, c.node)
    if name == "super":
        return UNKNOWN
    if name in k.PASSING_BUILTINS:
        return union(values, Kind.CONTAINER)
    if name in ("setattr", "delattr"):
        return NOTHING
    return None


# --- modules, losses and tensors --------------------------------------------------------------------------------


def _module(c: Called) -> Value | None:
    is_module = c.func.kind is Kind.MODULE and c.method != "forward"
    if not is_module and c.method == "forward" and c.receiver is not None and c.receiver.kind is Kind.MODULE:
        is_module = True
    if not is_module:
        return None
    if k.LOSS_CALLABLE.search(c.path):
        return c.result(Root(Source.LOSS, c.node), receiver=False)
    _forward(c)
    return _module_call(c)


def _forward(c: Called) -> None:
    flow = c.flow
    path = c.receiver_path if c.method == "forward" else c.path
    flow.record(Forward(
        flow.site(c.node), flow.loop, flow.branches > 0, module=path or None, mode=c.state.mode,
        evaluates=bool(c.state.evaluating),
    ))  # fmt: skip


def _module_call(c: Called) -> Value:
    return c.result(Root(Source.GRAPH, c.node), kind=Kind.OUTPUT, receiver=False)


def _loss(c: Called) -> Value | None:
    """A callable that is named as a loss: differentiable in its arguments."""
    if not k.LOSS_CALLABLE.search(c.path) or c.func.kind is Kind.FUNCTION or c.method in k.ADDING_METHODS:
        return None
    if c.method in (
        "item",
        "detach",
        "update",
        "reset",
        "backward",
        "step",
        "values",
        "items",
        "get",
        "keys",
        "numpy",
        "cpu",
    ):
        return None
    return c.result(Root(Source.LOSS, c.node), kind=Kind.UNKNOWN, receiver=False)


def _tensor_method(c: Called) -> Value | None:
    if not c.method or c.receiver is None or c.external:
        return None
    receiver = c.receiver
    if receiver.kind in (Kind.MODULE, Kind.OPTIMIZER, Kind.SCALER, Kind.LOADER):
        if receiver.kind is Kind.SCALER and c.method == "scale":
            return c.first or UNKNOWN
        if c.method in (
            "to",
            "cuda",
            "cpu",
            "half",
            "float",
            "double",
            "requires_grad_",
            "share_memory",
            "bfloat16",
            "apply",
        ):
            return receiver
        if receiver.kind is Kind.MODULE and c.method in ("parameters", "named_parameters"):
            leaf = Value(frozenset((Root(Source.LEAF, c.node),)), kind=Kind.TENSOR)
            return each_of(leaf if c.method == "parameters" else structure(((0, NUMBER), (1, leaf))))
        if receiver.kind is Kind.MODULE and c.method in ("modules", "children", "named_modules", "named_children"):
            each = Value(kind=Kind.MODULE)
            return each_of(each if "named" not in c.method else structure(((0, NUMBER), (1, each))))
        if c.method in ("state_dict", "load_state_dict", "named_buffers", "buffers"):
            return DETACHED
        return None
    if c.method in ("items", "values", "keys") and not c.values:
        return _view(receiver, c.method)
    if c.method in k.BREAKING_METHODS:
        return NUMBER if c.method in ("item", "tolist", "numpy", "size", "dim", "numel") else DETACHED
    if c.method == "scale" and k.SCALER_NAME.search(c.receiver_path or ""):
        return c.first or UNKNOWN
    if c.method == "sample" and receiver.kind is Kind.OUTPUT:
        return DETACHED  # torch.distributions draws under no_grad
    if c.method in k.SHAPING_METHODS:
        return recorded(replace(receiver, parts=()), c.state, c.node)
    if c.method in k.DIFFERENTIABLE_METHODS:
        return _indexed(c, c.method, c.result(kind=receiver.kind if receiver.kind is Kind.OUTPUT else Kind.TENSOR))
    return None


def _view(receiver: Value, method: str) -> Value:
    from gradguard.static.flow import element

    if method == "keys":
        return NUMBER
    if receiver.parts and receiver.part("each") is None:
        each = union((v for _, v in receiver.parts), Kind.UNKNOWN)
    else:
        each = element(replace(receiver, parts=()), "each")
    return each_of(each if method == "values" else structure(((0, NUMBER), (1, each))))


def _scale_loss(c: Called) -> Value | None:
    """``with amp.scale_loss(loss, optimizer) as scaled``."""
    return c.first if c.method == "scale_loss" and c.first is not None else None


def _logging(c: Called) -> Value | None:
    """Calls that look at a value, and keep none of it."""
    path = c.receiver_path or ""
    if c.method and (k.LOGGING_RECEIVERS.search(path) or c.method in k.LOGGING_METHODS):
        return NOTHING
    if c.method in ("log", "log_dict") and path == "self" and c.flow.facts.is_module_method:
        return NOTHING  # Lightning detaches what it logs
    if _last(c.path) in ("print", "pprint", "log_metrics", "print_log"):
        return NOTHING
    return None


def _unknown(c: Called) -> Value:
    """A call that cannot be followed: it may return, keep or use any graph that went in."""
    flow, state = c.flow, c.state
    given = union([*c.arguments, *([c.receiver] if c.receiver is not None else [])])
    kinds = (Kind.OPTIMIZER, Kind.MODULE)
    if any(v.kind in kinds for v in c.arguments) or any(t.path_of(a.value) == "self" for a, _ in c.values):
        flow.record(OpaqueCall(flow.site(c.node), flow.loop, flow.branches > 0))
    if state.mode is Mode.OFF:
        return UNKNOWN
    if k.RECORD_NAME.match(_last(c.path)) and c.values:
        return union(c.arguments, Kind.OUTPUT).with_roots(Root(Source.CALL, c.node))
    if not k.MEASURING_CALLABLE.search(_last(c.path)):
        flow.escaped |= union(c.arguments).reach
    return recorded(Value(frozenset((Root(Source.CALL, c.node),)), given.reach), state)


_READERS: tuple[Callable[[Called], Value | None], ...] = (
    _modes,
    _grad,
    _backward,
    _zero_grad,
    _step,
    _hook,
    _scale_loss,
    _container,
    _in_place,
    _project,
    _external,
    _logging,
    _module,
    _tensor_method,
    _loss,
)

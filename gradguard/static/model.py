"""The training-loop model: the words in which rules ask about a function.

The flow fills these in; rules only read them. Nothing here imports libcst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from gradguard.findings import Confidence, Fix, Related
from gradguard.static.edits import detached, one_line
from gradguard.static.source import Site
from gradguard.static.values import Held, Kind, Source, Value

__all__ = [
    "Backward",
    "Call",
    "Construction",
    "Form",
    "Forward",
    "Function",
    "GradCall",
    "GradRead",
    "HookRegistration",
    "Loop",
    "Mode",
    "Scope",
    "Site",
    "Step",
    "Store",
    "ZeroGrad",
]


LONG_LOOP = 50
"""A loop that runs at least as often is long."""


class Form(Enum):
    """How a statement stores a value."""

    SUM = "sum"  # total += x
    AVERAGE = "average"  # mean = 0.9 * mean + 0.1 * x
    APPEND = "append"  # history.append(x), history += [x]
    ITEM = "item"  # history[key] = x
    CONCATENATE = "concatenate"  # bank = torch.cat([bank, x])
    REBIND = "rebind"  # state = f(x, state)
    IN_PLACE = "in place"  # total.add_(x), weights[i] = x on a tensor


class Scope(Enum):
    """Where the thing stored into lives."""

    LOCAL = "local"
    PARAMETER = "parameter"
    ATTRIBUTE = "attribute"
    CLOSURE = "closure"
    GLOBAL = "global"


class Mode(Enum):
    """Whether operations record a graph."""

    INHERITED = "inherited"  # as the caller has it
    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(eq=False, repr=False)
class Loop:
    """A ``for`` or ``while`` loop.

    Args:
        site: the whole loop.
        parent: the loop around it in the same function.
        over_loader: it iterates over batches of data, as far as names and types tell.
        evaluates: before it ``model.eval()`` was called on every path, or its loader or function is named so.
        targets: what the loop binds in each iteration.
        assigned: the paths that its body assigns or changes.
        calls: the calls in it that rules ask about, also those in functions that it calls.
        leaves_early: it may be left by ``break`` or ``return``.
        count: how many times it runs, where that is written as a number.
    """

    site: Site
    parent: Loop | None
    over_loader: bool = False
    evaluates: bool = False
    targets: frozenset[str] = frozenset()
    assigned: frozenset[str] = frozenset()
    backwards: list[Backward] = field(default_factory=list)
    grad_calls: list[GradCall] = field(default_factory=list)
    zero_grads: list[ZeroGrad] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    forwards: list[Forward] = field(default_factory=list)
    opaque_calls: list[OpaqueCall] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    leaves_early: bool = False
    count: int | None = None

    @property
    def trains(self) -> bool:
        """A graph is handed to backward in each iteration."""
        return bool(self.backwards)

    @property
    def runs_models(self) -> bool:
        """Each iteration computes something with a model: it trains, evaluates or asks for gradients."""
        return bool(self.backwards or self.grad_calls or self.forwards)

    @property
    def is_step(self) -> bool:
        """One iteration is one step of training: backward is called in it, and not in a loop inside of it."""
        return any(b.loop is self and not b.is_in_loop_of_callee for b in self.backwards)

    @property
    def is_outermost(self) -> bool:
        """No loop that trains is around it: what grows in it is never begun anew."""
        return self.parent is None or not self.parent.trains

    @cached_property
    def nodes(self) -> frozenset[object]:
        """Every node of its source."""
        from gradguard.static import tree as t

        return frozenset(t.walk(self.site.node))

    @property
    def is_long(self) -> bool:
        """It runs many times, as far as can be seen: it is not left early, nor counts up to a small number."""
        return not self.leaves_early and (self.count is None or self.count >= LONG_LOOP)

    @property
    def needs_gradients(self) -> bool:
        return bool(self.backwards or self.grad_calls)

    def backward_before(self, step: Step) -> Backward | None:
        """The last backward before a step, in the order of the source; the first one of all if none is before."""
        earlier = [b for b in self.backwards if b.site.line <= step.site.line]
        return earlier[-1] if earlier else next(iter(self.backwards), None)

    @property
    def resets_by_hand(self) -> bool:
        """Whether some gradient is set to None in it: ``x.grad = None``."""
        return any(z.target is None for z in self.zero_grads)

    def around(self) -> Iterator[Loop]:
        """The loop itself, and those around it, innermost first."""
        loop: Loop | None = self
        while loop is not None:
            yield loop
            loop = loop.parent

    def within(self, other: Loop) -> bool:
        """Whether this is ``other`` or lies in it."""
        return any(loop is other for loop in self.around())


@dataclass(eq=False, repr=False)
class Event:
    """Something a function does, where it does it.

    Args:
        site: the expression or statement in this function (a call, where a callee does it).
        loop: the innermost loop around it.
        conditional: it does not happen on every way through its loop or function.
        inner: the event in the callee, if a callee does it.
        guarded: an error that it raises is caught, or expected (``with pytest.raises``).
        periodic: it happens every so many iterations.
        at_start: it happens once, at the start.
    """

    site: Site
    loop: Loop | None
    conditional: bool = False
    inner: Event | None = None
    guarded: bool = field(default=False, kw_only=True)
    periodic: bool = field(default=False, kw_only=True)
    at_start: bool = field(default=False, kw_only=True)

    @property
    def is_in_loop_of_callee(self) -> bool:
        """Whether the function that is called here does it in a loop of its own."""
        inner = self.inner
        while inner is not None:
            if inner.loop is not None:
                return True
            inner = inner.inner
        return False

    @property
    def source(self) -> Event:
        """The event where it is written."""
        event: Event = self
        while event.inner is not None:
            event = event.inner
        return event


@dataclass(eq=False, repr=False)
class Backward(Event):
    """A graph is handed to backward.

    Args:
        value: the tensor that backward is called on.
        call: the call as written.
        keeps: ``retain_graph`` is true (or may be).
        retain_graph / create_graph / retain_variables: the literal argument's site, where it is ``True``.
        needed_again: a later backward in the same iteration may use this graph.
        carries: the variable that carries the graphs of all earlier iterations into this one.
        resets: the calls that reset the gradients in the same iteration.
        freed_by: the earlier backward that surely freed this graph; itself, if it did so in the iteration before.
        cut_at: where the graph was cut, if the value surely has none.
    """

    value: Value = field(default_factory=Value)
    keeps: bool = False
    retain_graph: Site | None = None
    create_graph: Site | None = None
    retain_variables: Site | None = None
    needed_again: bool = False
    carries: str | None = None
    freed_by: Backward | GradCall | None = None
    cut_at: Site | None = None
    resets: list[ZeroGrad] = field(default_factory=list)

    @property
    def retain_graph_argument(self) -> Site:
        """Where `retain_graph=True` is written."""
        return self.retain_graph or self.site


@dataclass(eq=False, repr=False)
class GradCall(Event):
    """``torch.autograd.grad``."""

    value: Value = field(default_factory=Value)
    keeps: bool = False
    cut_at: Site | None = None


@dataclass(eq=False, repr=False)
class ZeroGrad(Event):
    """Gradients are reset.

    Args:
        target: the path of the optimizer or module, None for any.
        of: the modules whose parameters the optimizer has, None when not known.
    """

    target: str | None = None
    of: frozenset[str] | None = None
    of_module: bool = False
    to_none: bool = True


@dataclass(eq=False, repr=False)
class Step(Event):
    """An optimizer steps.

    Args:
        target: the path of the optimizer, None for any.
        of: the modules whose parameters it has, None when not known.
        zeroes: it resets the gradients itself.
        lost: the ``zero_grad`` that wiped the gradients between the backward and this step, on every path.
    """

    target: str | None = None
    of: frozenset[str] | None = None
    zeroes: bool = False
    lost: ZeroGrad | None = None


@dataclass(eq=False, repr=False)
class Forward(Event):
    """A module is called. ``module`` is its path, ``mode`` the gradient mode it runs in."""

    module: str | None = None
    mode: Mode = Mode.INHERITED
    evaluates: bool = False


@dataclass(eq=False, repr=False)
class Call(Event):
    """A call of torch, of another package or of a tensor's method that some rule asks about.

    Args:
        name: the dotted name of a function, the bare name of a method.
        receiver: the path of the object whose method it is.
        of: that object's value.
        given: the arguments, with what is known of their values.
        loops: the loops inside of the ``with`` block that it opens.
        carries_graph: the receiver surely carries a graph.
        too_late: (of ``retain_grad``) every backward over the tensor's graph was before.
        mode: the gradient mode it runs in.
        bound_to: the path that the result is assigned to.
        handed_on: the result is returned, stored, or given to somebody else.
        object_lists: (of ``DataLoader``) where the data set makes lists of Python objects.
        is_undone: it does no harm: nothing trains; or, of ``gc.disable``, something collects or switches it on again.
    """

    name: str = ""
    receiver: str | None = None
    of: Value = field(default_factory=Value)
    given: tuple[tuple[str | None, Value], ...] = ()
    loops: list[Loop] = field(default_factory=list)
    carries_graph: bool = False
    too_late: bool = False
    mode: Mode = Mode.INHERITED
    bound_to: str | None = None
    handed_on: bool = False
    object_lists: tuple[Site, ...] = ()
    is_undone: bool = False

    @property
    def origin(self) -> Call:
        """The call where it is written."""
        source = self.source
        return source if isinstance(source, Call) else self

    @property
    def is_replaced(self) -> bool:
        """Whether the loop makes the object anew whose method is called, or takes parts out of it."""
        path, assigned = self.receiver, self.loop.assigned if self.loop else ()
        return path is None or any(p == path or p.startswith(f"{path}.") for p in assigned)

    @property
    def first(self) -> Value:
        """The value of the first positional argument."""
        return next((value for keyword, value in self.given if keyword is None), Value())

    def has(self, keyword: str) -> bool:
        """Whether an argument is given by this name, or may be (``**options``)."""
        return any(name in (keyword, "**") for name, _ in self.given)

    def literal(self, keyword: str, position: int | None = None) -> object:
        """The constant passed as ``keyword``; None when it is no constant."""
        from gradguard.static import tree as t

        node = self.source.site.node
        found = node.argument(keyword, position) if isinstance(node, t.Call) else None
        return found.value if isinstance(found, t.Constant) else None


@dataclass(eq=False, repr=False)
class Construction(Event):
    """A module of a class of the project is made.

    Args:
        name: the class.
        cycles: the statements by which it holds itself.
        repeats: it is made again and again.
        is_kept: it is put into a collection.
    """

    name: str = ""
    cycles: tuple[Site, ...] = ()
    repeats: bool = False
    is_kept: bool = False


@dataclass(eq=False, repr=False)
class GradRead(Event):
    """``tensor.grad`` is read of a tensor that surely is the result of an operation."""

    path: str = ""


@dataclass(eq=False, repr=False)
class OpaqueCall(Event):
    """A call that could not be followed and that was handed an optimizer, a model, or the object itself."""


@dataclass(eq=False, repr=False)
class HookRegistration(Event):
    """A ``register_*hook`` call.

    Args:
        method: its name.
        receiver: the path it is registered on.
        receiver_site: the receiver as written.
        removed: something removes it again, or may.
        discarded: nothing keeps the handle.
        fresh: the receiver is a tensor of this very iteration, and the hook dies with it.
        repeats: the loop in which the same receiver gets one more hook each time, if any.
        of: the receiver's value.
        callback: the function of the project that is registered.
        bound: the paths of what ``functools.partial`` gives to its first parameters.
        kept: the stores by which the hook keeps what it is given.
        closes_over: the tensor that the hook is registered on, and that it refers to itself.
    """

    method: str = ""
    receiver: str | None = None
    receiver_site: Site | None = None
    removed: bool = False
    discarded: bool = False
    fresh: bool = False
    repeats: Loop | None = None
    callback: object = None
    bound: tuple[str | None, ...] = ()
    of: Value = field(default_factory=Value)
    kept: list[Store] = field(default_factory=list)
    closes_over: str | None = None

    @property
    def receiver_code(self) -> str:
        return one_line(self.receiver_site.code) if self.receiver_site else str(self.receiver)


@dataclass(eq=False, repr=False)
class Store(Event):
    """A value is put where it may outlive the iteration that made it.

    Args:
        path: what is stored into: ``running``, ``self.history``, ``stats["loss"]``.
        value: what is stored.
        value_site: the stored expression.
        form: how.
        scope: where the target lives.
        parameter: the value came into the callee as an argument, so the call is what the caller can change.

    Filled in when the function has been read:
        carries_graph: the value carries a graph.
        made_at: the expression that started the graph.
        route: the expressions by which the graph came into the value, the value first.
        outlives: the loop whose iterations the value outlives, None if it does not or if it outlives the call.
        outlives_call: it outlives the call itself (an attribute, a global, a closure), and nothing clears it.
        freed: backward frees the stored graph's saved tensors; only its nodes stay.
        used: something may still need the graph (a later backward, or a caller that gets the value).
        waits: whether it is used is for the caller to say: it leaks if the caller evaluates.
        grows: the loop in which each iteration adds to what is there, whatever is stored.
        grows_by_call: each call adds to what is there, and nothing clears it.
        capped: it is stored only while the collection is short.
        is_item: it is stored under a key or an index.
        in_step: its function is one step of training: it calls backward, outside of a loop.
        is_buffer: it updates a registered buffer of a module.
    """

    path: str = ""
    value: Value = field(default_factory=Value)
    value_site: Site | None = None
    form: Form = Form.REBIND
    scope: Scope = Scope.LOCAL
    parameter: bool = False
    key: str | None = None
    mode: Mode = Mode.INHERITED
    carries_graph: bool = False
    made_at: Site | None = None
    route: tuple[str, ...] = ()
    outlives: Loop | None = None
    outlives_call: bool = False
    freed: bool = False
    retained: bool = False
    used: bool = False
    waits: bool = False
    evaluating: bool = False
    bounded_key: bool = False
    capped: bool = False
    is_item: bool = False
    grows: Loop | None = None
    grows_by_call: bool = False
    in_step: bool = False
    is_buffer: bool = False

    @property
    def is_average(self) -> bool:
        """Whether it blends a value into a moving average, or into the statistics that a buffer keeps."""
        return self.form is Form.AVERAGE or self.is_buffer

    def piles_up(self, *kinds: Held) -> bool:
        """Whether it adds memory of these kinds, beside graphs, to a collection that nothing empties."""
        return bool(self.value.holding(*kinds)) and (self.grows is not None or self.grows_by_call)

    def piles_up_each_step(self, *kinds: Held) -> bool:
        """Whether it does so once in each step of training, for longer than an outer loop that begins anew."""
        if not self.piles_up(*kinds) or (self.inner is not None and self.grows is None):
            return False
        if self.grows is None:
            return self.in_step
        around = self.loop.around() if self.loop is not None else ()
        return self.grows.is_outermost and any(loop.is_step and loop.is_long for loop in around)

    @property
    def leaks(self) -> bool:
        """The sentence that nearly every rule asks for: a graph outlives the iteration that made it, for nothing."""
        return self.carries_graph and (self.outlives is not None or self.outlives_call) and not self.used

    @property
    def needs_mode(self) -> bool:
        """Whether it leaks only if the caller lets graphs be recorded: nothing here shows that it does."""
        loop = self.outlives
        shown = self.freed or self.retained or (loop is not None and loop.needs_gradients)
        return self.mode is Mode.INHERITED and not shown

    @property
    def holder(self) -> str:
        """The last identifier stored into: ``history`` of ``self.history``."""
        return self.path.split("[")[0].rsplit(".", 1)[-1]

    @property
    def value_code(self) -> str:
        return one_line(self.value_site.code) if self.value_site else "value"

    @property
    def is_tensor(self) -> bool | None:
        """Whether what is stored is one tensor: certainly, certainly not (a tuple, a dict), or None when not known."""
        from gradguard.static import tree as t

        node = self.value_site.node if self.value_site else None
        if self.value.parts or isinstance(node, t.Display | t.DictDisplay | t.Comprehension | t.Starred):
            return False
        if self.value.kind is Kind.TENSOR or any(r.source is Source.LOSS for r in self.value.roots):
            return True
        return None

    @property
    def advice(self) -> str:
        """How to store the value without its graph, in words."""
        if self.is_tensor is False:
            return f"the values in `{self.value_code}` without their graphs (`.detach()` each of them)"
        return f"`{self._called('detach')}`"

    @property
    def number_advice(self) -> str:
        """As a number, where one is meant."""
        return "" if self.is_tensor is False else f", or `{self._called('item')}` where a number is meant"

    def _called(self, method: str) -> str:
        from gradguard.static import tree as t

        node = self.value_site.node if self.value_site else None
        primary = node is None or isinstance(node, t.Name | t.Attribute | t.Subscript | t.Call)
        return f"{self.value_code}.{method}()" if primary else f"({self.value_code}).{method}()"

    @property
    def confidence(self) -> Confidence:
        """High, but for a graph that merely seems to be of no use to anybody."""
        loop = self.outlives
        if loop is None or self.freed or self.retained or self.evaluating:
            return Confidence.HIGH
        if self.is_average and any(around.trains for around in loop.around()):
            return Confidence.HIGH
        return Confidence.HIGH if loop.needs_gradients or loop.evaluates or loop.over_loader else Confidence.LOW

    @property
    def keeps(self) -> str:
        """What stays in memory, in words."""
        if self.freed:
            return "only the graph's nodes: backward already freed the activations"
        return "every activation of every iteration"

    def detach_fix(self) -> Fix | None:
        """Store the value without its graph."""
        site = self.value_site
        if site is None or (self.inner is not None and not self.parameter) or self.is_tensor is False:
            return None
        edit = detached(site)
        return Fix(f"detach `{one_line(site.code)}`", (edit,), safe=self.is_tensor is True) if edit else None

    def origin(self) -> tuple[Related, ...]:
        """Where the graph starts, as a related place."""
        if self.made_at is None:
            return ()
        site = self.made_at
        way = ": " + " <- ".join(f"`{code}`" for code in self.route) if len(self.route) > 2 else ""
        return (Related(site.path, site.cell, site.line, f"the graph comes from `{one_line(site.code)}`{way}"),)


@dataclass(eq=False, repr=False)
class Function:
    """A function as the rules see it: what it does to graphs, gradients and memory.

    Args:
        name: its own name; ``<module>`` for a module's statements.
        qualified: with its class: ``Trainer.train_epoch``.
        site: the definition, None for a module.
        loops: every loop in it.
        entry_mode: the gradient mode its decorators and its framework give it.
        gradients_wanted: it asks for gradients of an input.
        torch: the name that the module gives to torch, if it imports it.
        called_without_grad: whether every call of it that can be seen happens under no_grad (reads other files).
        kept_outputs: of the ``forward`` of an ``autograd.Function``: the statements that put an output on ``ctx``.
        assigns_gradients: its program sets ``x.grad`` to something.
        cached: the decorator that keeps its results for ever (``functools.lru_cache``).
        tensor_params: the parameters that are tensors by their annotations.
        is_test: it is a unit test, or a helper of one.
        takes_self: it is bound to an object.
        uses_device: its file puts something on a GPU.
    """

    name: str
    qualified: str
    site: Site | None
    entry_mode: Mode = Mode.INHERITED
    is_module_method: bool = False
    loops: list[Loop] = field(default_factory=list)
    backwards: list[Backward] = field(default_factory=list)
    grad_calls: list[GradCall] = field(default_factory=list)
    zero_grads: list[ZeroGrad] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    forwards: list[Forward] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    hooks: list[HookRegistration] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    constructions: list[Construction] = field(default_factory=list)
    grad_reads: list[GradRead] = field(default_factory=list)
    kept_outputs: list[Site] = field(default_factory=list)
    opaque_calls: list[OpaqueCall] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    returns: Value = field(default_factory=Value)
    gradients_wanted: bool = False
    torch: str | None = None
    is_async: bool = False
    assigns_gradients: bool = False
    is_test: bool = False
    takes_self: bool = False
    uses_device: bool = False
    cached: Site | None = None
    tensor_params: tuple[str, ...] = ()
    called_without_grad: Callable[[], bool] = field(default=lambda: False, repr=False)

    @property
    def needs_gradients(self) -> bool:
        """It computes gradients itself, or something in it does."""
        return bool(self.backwards or self.grad_calls or self.gradients_wanted)

    def needs_gradients_around(self, loop: Loop) -> bool:
        """Whether gradients are computed in the loop, in one around it, or wanted of an input anywhere."""
        outermost = loop
        while outermost.parent is not None:
            outermost = outermost.parent
        return self.gradients_wanted or (bool(outermost.backwards or outermost.grad_calls) and not loop.evaluates)

    @property
    def frees_gradients(self) -> bool:
        """Whether the gradients of a step are tensors of their own: nothing zeroes them in place."""
        return not self.zero_grads or any(z.to_none for z in self.zero_grads)

    def without_grad(self) -> Fix | None:
        """Decorate the function with ``no_grad``, if nothing in it needs gradients and torch has a name here."""
        if self.site is None or self.torch is None or self.is_async or self.needs_gradients or self.steps:
            return None
        decorator = f"{self.torch}.no_grad()"
        indent = self.site.indent
        edit = self.site.insert_before(f"@{decorator}\n{indent}")
        return Fix(f"decorate with `@{decorator}`", (edit,), safe=False)

    def calls_of(self, *names: str) -> Iterator[Call]:
        """The calls of these functions (by dotted name) or methods (by bare name)."""
        return (call for call in self.calls if call.name in names)

    def leaking_stores(self) -> Iterator[Store]:
        """The stores that leak; without those of an evaluation that only runs where no graph is recorded."""
        for store in self.stores:
            if store.leaks and not (store.needs_mode and self.called_without_grad()):
                yield store

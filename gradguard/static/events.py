"""What a function does, where it does it: the loops, the backwards, steps, hooks and calls that rules ask about.

Part of the model (see ``model``). Nothing here imports libcst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.fixes.edits import one_line
from gradguard.static.memo import Remembers, cached_property
from gradguard.static.reading.unrecorded import Severed
from gradguard.static.source import Site
from gradguard.static.values import NOTHING_HELD, Held, Holdings, Source, Value

if TYPE_CHECKING:
    from gradguard.static.stored import Store

LONG_LOOP = 50
"""A loop that runs at least as often is long."""


class Mode(Enum):
    """Whether operations record a graph."""

    INHERITED = "inherited"  # as the caller has it
    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(eq=False, repr=False)
class Loop(Remembers):
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
        is_once_by_default: its number of times is a setting, which is 1 unless somebody changes it.
        over_parts: it goes over the parameters or the parts of a module, each once.
        over_pairs: it goes over a collection that has a name, and takes each element apart: ``for x, y in data``.
        over_samples: it goes over the samples of a batch, of which there may be one.
        evaluates_by_name: its function is named as an evaluation, and it goes over slices or items, or plays a game.
        turns_grad_off: a part of its body is under ``no_grad``.
        parameters: those that there are before it.
        may_be_volatile: whether what it goes over may record no graph by itself, as in torch 0.3 (reads other files).
        times: how many times it runs, where that is written as a number, or is that of a variable.
        over_files: whether each iteration reads a file of its own.
        recorded_in_vain: a module call, where a loop around has it train for some words, and only evaluate for others.
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
    is_once_by_default: bool = False
    over_parts: bool = False
    over_pairs: bool = False
    over_samples: bool = False
    evaluates_by_name: bool = False
    turns_grad_off: bool = False
    parameters: Holdings = NOTHING_HELD
    may_be_volatile: Callable[[], bool] = field(default=lambda: False)
    times: Callable[[], int | None] = field(default=lambda: None)
    over_files: Callable[[], bool] = field(default=lambda: False)
    recorded_in_vain: Forward | None = None

    @property
    def trains(self) -> bool:
        """A graph is handed to backward in each iteration."""
        return bool(self.backwards)

    @property
    def trains_otherwise(self) -> bool:
        """It does no backward as this call makes it run, and one is written in it: ``if train: loss.backward()``."""
        calls = (node.func for node in self.nodes if isinstance(node, t.Call))
        return not self.trains and any(isinstance(f, t.Attribute) and f.name == "backward" for f in calls)

    @property
    def is_step(self) -> bool:
        """One iteration is one step of training: backward is called in it, and not in a loop inside of it."""
        return any(b.loop is self and not b.is_in_loop_of_callee for b in self.backwards)

    @property
    def is_of_stages(self) -> bool:
        """A whole training is in each iteration, of a task or a stage: a loop over a loader, here or in a callee."""
        trained = (backward.source.loop for backward in self.backwards)
        return any(loop is not None and loop is not self and loop.over_loader for loop in trained)

    @property
    def is_outermost(self) -> bool:
        """No loop that trains is around it: what grows in it is never begun anew."""
        return self.parent is None or not self.parent.trains

    @cached_property
    def nodes(self) -> frozenset[object]:
        """Every node of its source."""
        return frozenset(t.walk(self.site.node))

    def has(self, node: t.Node | None) -> bool:
        """Whether a node stands in it; the call of a property stands where that is read, ``model.opacity``."""
        if isinstance(node, t.Call) and node.origin is not None and node.origin is node.func.origin:
            return node.func in self.nodes
        return node in self.nodes

    @property
    def is_long(self) -> bool:
        """It runs many times, as far as can be seen: it is not left early, nor counts up to a small number."""
        return not self.leaves_early and (self.count is None or self.count >= LONG_LOOP)

    @cached_property
    def over_losses(self) -> bool:
        """It goes over the losses of one batch, which are there already: ``for task, loss in losses.items()``."""
        if not isinstance(self.site.node, t.Repeat) or not _is_of_dict(self.site.node.iterable):
            return False
        calls = (backward.site.node for backward in self.backwards if backward.loop is self)
        funcs = [call.func for call in calls if isinstance(call, t.Call)]
        return bool(funcs) and all(isinstance(f, t.Attribute) and t.path_of(f.value) in self.targets for f in funcs)

    @property
    def over_networks(self) -> bool:
        """It runs each of some networks, and trains none: ``for net in nets: net(x).sum().backward()``."""
        funcs = (node.func for node in self.nodes if isinstance(node, t.Call))
        return not self.steps and any(isinstance(func, t.Name) and func.id in self.targets for func in funcs)

    @property
    def turns_mode_on(self) -> bool:
        """Whether whatever runs in it does so where gradients are switched on: it says nothing of the mode around."""
        return bool(self.forwards) and all(forward.mode is Mode.ON for forward in self.forwards)

    @property
    def needs_gradients(self) -> bool:
        return bool(self.backwards or self.grad_calls)

    def backward_before(self, step: Step) -> Backward | None:
        """The last backward before a step, in the order of the source; the first one of all if none is before.

        Rather one of the function that the step is in, where the loop calls several.
        """
        earlier = [b for b in self.backwards if b.site.line <= step.site.line and not _is_later_inside(b, step)]
        beside = [b for b in earlier if b.source.site.chunk is step.source.site.chunk]
        return next(reversed(beside or earlier), None) or next(iter(self.backwards), None)

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


def _is_later_inside(event: Event, other: Event) -> bool:
    """Whether one call does both, the other one first."""
    here, there = event.source.site, other.source.site
    return event.site.node is other.site.node and here.chunk is there.chunk and here.line > there.line


def _is_of_dict(iterable: t.Expr | None) -> bool:
    """Whether a loop goes over what is in a dict: ``enumerate(losses.items())``."""
    while isinstance(iterable, t.Call) and isinstance(iterable.func, t.Name) and iterable.args:
        iterable = iterable.args[0].value
    func = iterable.func if isinstance(iterable, t.Call) else None
    return isinstance(func, t.Attribute) and func.name in ("items", "values")


@dataclass(eq=False, repr=False, slots=True)
class Event:
    """Something a function does, where it does it.

    Args:
        site: the expression or statement in this function (a call, where a callee does it).
        loop: the innermost loop around it.
        conditional: it does not happen on every way through its loop or function.
        inner: the event in the callee, if a callee does it.
        guarded: an error that it raises is caught, or expected (``with pytest.raises``).
        period: it happens every so many iterations; 0 where that number is not written there.
        at_start: it happens once, at the start.
        once: it happens in one iteration of its loop: ``if epoch == epochs - 1``.
    """

    site: Site
    loop: Loop | None
    conditional: bool = False
    inner: Event | None = None
    guarded: bool = field(default=False, kw_only=True)
    period: int | None = field(default=None, kw_only=True)
    at_start: bool = field(default=False, kw_only=True)
    once: bool = field(default=False, kw_only=True)

    @property
    def is_periodic(self) -> bool:
        """Whether it happens every so many iterations."""
        return self.period is not None

    def is_in(self, block: Sequence[t.Stmt]) -> bool:
        """Whether it happens in a block of statements."""
        return t.is_in(self.site.node, block)

    @property
    def times(self) -> int | None:
        """How many times it happens in all loops of its function, where numbers are written for all of that."""
        if self.loop is None or self.is_in_loop_of_callee:
            return None
        total = 1
        for loop in self.loop.around():
            count = loop.times()
            if count is None:
                return None
            total *= count
        return total // self.period if self.period else total

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
    def callee_decides(self) -> bool:
        """Whether the function that is called does it only under a condition of its own."""
        return self.inner is not None and self.source.conditional

    @property
    def source(self) -> Event:
        """The event where it is written."""
        event: Event = self
        while event.inner is not None:
            event = event.inner
        return event

    @property
    def callers(self) -> list[t.Node]:
        """The calls that lead to where it is written, from this function on."""
        found: list[t.Node] = []
        event: Event = self
        while event.inner is not None:
            found.append(event.site.node)
            event = event.inner
        return found


class Constant(NamedTuple):
    """A term of a sum that is a number only.

    Args:
        term: the term, as written.
        copied: where it lost its graph.
        how: how that happened.
        is_weighed: it is a factor of parameters, which are all that is trained by it.
        is_given: a function was given the graph, and gives numbers back.
        function: the function that is under ``no_grad`` as a whole, and has computed it of what it was given.
    """

    term: Site
    copied: Site
    how: Severed
    is_weighed: bool = False
    is_given: bool = False
    function: str = ""


@dataclass(eq=False, repr=False, slots=True)
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
        reset_around: who calls the function that it is in resets them: it is a closure of an optimizer's step.
        asks_callers: it is outside of a loop, of a model that lives on: a caller may reset them.
        left_on: the parameter, a model, whose gradients have their graphs when the function ends (``create_graph``).
        of_copy: that is a copy of a model, made for this call, and nothing resets its gradients.
        is_scaled: a ``GradScaler`` has multiplied the value.
        freed_by: the earlier backward that surely freed this graph; itself, if it did so in the iteration before.
        carried_by: what brings the graph of the iteration before, which this backward has freed.
        cut_at: where the graph was cut, if the value surely has none.
        leaf_at: where the leaf was made that the value is, or is the sum or the mean of: no parameter is behind it.
        numbers: the terms of the value, a sum, that are numbers only.
    """

    value: Value = field(default_factory=Value)
    keeps: bool = False
    retain_graph: Site | None = None
    create_graph: Site | None = None
    retain_variables: Site | None = None
    needed_again: bool = False
    carries: str | None = None
    freed_by: Backward | GradCall | None = None
    carried_by: Store | None = None
    cut_at: Site | None = None
    leaf_at: Site | None = None
    numbers: list[Constant] = field(default_factory=list)
    resets: list[ZeroGrad] = field(default_factory=list)
    reset_around: bool = False
    asks_callers: bool = False
    left_on: str | None = None
    of_copy: bool = False
    is_scaled: bool = False

    @property
    def retain_graph_argument(self) -> Site:
        """Where `retain_graph=True` is written."""
        return self.retain_graph or self.site


@dataclass(eq=False, repr=False, slots=True)
class GradCall(Event):
    """``torch.autograd.grad``, which goes through the graph of ``value`` as far as that of ``inputs``."""

    value: Value = field(default_factory=Value)
    inputs: Value = field(default_factory=Value)
    keeps: bool = False
    cut_at: Site | None = None


@dataclass(eq=False, repr=False, slots=True)
class ZeroGrad(Event):
    """Gradients are reset.

    Args:
        target: the path of the optimizer or module, None for any.
        of: the modules whose parameters the optimizer has, or the module, where it surely shares none; None when not
            known.
        named: the same by the names of this function, where a callee does it.
    """

    target: str | None = None
    of: frozenset[str] | None = None
    named: frozenset[str] | None = None
    of_module: bool = False
    to_none: bool = True

    @property
    def modules(self) -> frozenset[str] | None:
        """The modules whose gradients it resets, by the names of this function."""
        return self.of if self.inner is None else self.named


@dataclass(eq=False, repr=False, slots=True)
class Step(Event):
    """An optimizer steps.

    Args:
        target: the path of the optimizer, None for any.
        of: the modules whose parameters it has, None when not known.
        named: the same by the names of this function, where a callee does it.
        zeroes: it resets the gradients itself.
        by_scaler: a ``GradScaler`` takes it: ``scaler.step(optimizer)``.
        runs_closure: it is given the function that computes the gradients.
        lost: the ``zero_grad`` that wiped the gradients between the backward and this step, on every path.
    """

    target: str | None = None
    of: frozenset[str] | None = None
    named: frozenset[str] | None = None
    zeroes: bool = False
    by_scaler: bool = False
    runs_closure: bool = False
    lost: ZeroGrad | None = None

    @property
    def modules(self) -> frozenset[str] | None:
        """The modules whose parameters the optimizer has, by the names of this function."""
        return self.of if self.inner is None else self.named

    @property
    def is_local_of_callee(self) -> bool:
        """Whether the optimizer is a variable of the function that is called here alone: made anew in each call."""
        return (
            self.inner is not None
            and self.target is None
            and isinstance(self.source, Step)
            and bool(self.source.target)
        )


@dataclass(eq=False, repr=False, slots=True)
class Forward(Event):
    """A module is called.

    Args:
        module: its path.
        given_as: the path by which the function had it that gave it to an object of its own, where that runs it.
        mode: the gradient mode it runs in.
        evaluates: something was put into evaluation mode before.
        is_evaluated: it itself was, by this function or by the caller whose event this is.
        is_shown: the function uses what is called as only a module is used: ``net.eval()``, ``net.parameters()``.
        is_frozen: none of its parameters wants a gradient.
        of_method: a method of a module runs it, that is called here: ``vae.encode(x)``.
        leaves: (in a loop that evaluates by its name, or in its turn) its graph is kept, returned, or handed to what
            keeps it.
        is_picked: (in a loop that evaluates) a flag that the function is given picks it over one under ``no_grad``.
        is_foreign: it is a model of another library: what it gives is handed to that as it is.
        is_as_told: the call that runs it hands on what the function that calls is told: ``self.run(loader, train)``.
        run_by_thread: the function in which another thread does it, as it is handed over: ``self.encode``.
        may_learn_itself: what it is cannot be seen, and a ``forward`` of the program computes gradients.
        may_record_nothing: whether it may be no module, but what runs one without gradients (reads other files).
        given: the graphs that its arguments have.
    """

    module: str | None = None
    given_as: str | None = None
    mode: Mode = Mode.INHERITED
    evaluates: bool = False
    is_evaluated: bool = False
    is_shown: bool = False
    is_frozen: bool = False
    of_method: bool = False
    leaves: bool = False
    is_picked: bool = False
    is_foreign: bool = False
    is_as_told: bool = False
    run_by_thread: str | None = None
    may_learn_itself: bool = False
    may_record_nothing: Callable[[], bool] = field(default=lambda: False, repr=False)
    given: Value = field(default_factory=Value)

    @property
    def of_graph(self) -> bool:
        """Whether what it is given surely has a graph, or is a leaf that asks for gradients."""
        return any(root.source in (Source.GRAPH, Source.LEAF) for root in self.given.roots)


@dataclass(eq=False, repr=False, slots=True)
class TrainingMode(Event):
    """A module is put into evaluation mode, or taken out of it: ``net.eval()``, ``net.train()``.

    Args:
        target: its path; None where it has none, as in ``getattr(self, name).train()``.
        on: whether it trains from then on; None where that is not known: ``net.train(was_training)``.
        asked: where that was asked, when it was in evaluation mode already.
    """

    target: str | None = None
    on: bool | None = None
    asked: Site | None = None


@dataclass(eq=False, repr=False, slots=True)
class Call(Event):
    """A call of torch, of another package or of a tensor's method that some rule asks about.

    Args:
        name: the dotted name of a function, the bare name of a method.
        receiver: the path of the object whose method it is.
        of: that object's value.
        given: the arguments, with what is known of their values.
        loops: the loops inside of the ``with`` block that it opens.
        entered: it is entered by ``stack.enter_context(...)``.
        carries_graph: the receiver surely carries a graph.
        too_late: (of ``retain_grad``) every backward over the tensor's graph was before.
        mode: the gradient mode it runs in.
        is_used: something becomes of its result.
        bound_to: the path that the result is assigned to.
        handed_on: the result is returned, stored, or given to somebody else.
        object_lists: (of ``DataLoader``) where the data set makes lists of Python objects.
        packs_as_given: (of ``saved_tensors_hooks``) where the pack hook returns the very tensor that it is given.
        packs_otherwise: (of ``saved_tensors_hooks``) for some tensors the pack hook returns something else.
        is_harmless: nothing trains; or, of ``gc.disable``, something collects or switches it on again; of
            ``add_param_group``, something takes groups out again; of an optimizer, its loop sets weights.
        lags: (of ``itertools.tee``) the end that is not read in each iteration of the training that reads another one.
        lags_in_object: the same of two ends that an object keeps, and that is gone through.
        is_endless: (of ``itertools.cycle``) what it is given never ends, and is made anew all the time.
    """

    name: str = ""
    receiver: str | None = None
    of: Value = field(default_factory=Value)
    given: tuple[tuple[str | None, Value], ...] = ()
    loops: list[Loop] = field(default_factory=list)
    entered: bool = False
    carries_graph: bool = False
    too_late: bool = False
    mode: Mode = Mode.INHERITED
    is_used: bool = False
    bound_to: str | None = None
    handed_on: bool = False
    object_lists: tuple[Site, ...] = ()
    is_harmless: bool = False
    lags: str | None = None
    lags_in_object: str | None = None
    is_endless: bool = False
    packs_as_given: tuple[Site, ...] = ()
    packs_otherwise: bool = False

    @property
    def is_of_member(self) -> bool:
        """Whether the object is an element of a collection that lives longer than an iteration of its loop."""
        nodes = self.loop.nodes if self.loop is not None else frozenset()
        keys = (h.key[0] if isinstance(h.key, tuple) else h.key for h in self.of.holding(Held.MEMBER))
        return any(key not in nodes for key in keys)

    @property
    def written(self) -> Call:
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
        node = self.source.site.node
        found = node.argument(keyword, position) if isinstance(node, t.Call) else None
        return found.value if isinstance(found, t.Constant) else None


@dataclass(eq=False, repr=False, slots=True)
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


@dataclass(eq=False, repr=False, slots=True)
class CallOfGiven(Event):
    """A function calls what it is given, of which it knows nothing: ``on_error(err)``; its caller may know it.

    Args:
        name: the parameter.
        arguments: what it gives it.
    """

    name: str = ""
    arguments: tuple[tuple[t.Arg, Value], ...] = ()


@dataclass(eq=False, repr=False, slots=True)
class GradRead(Event):
    """``tensor.grad`` is read of a tensor that surely is the result of an operation."""

    path: str = ""


@dataclass(eq=False, repr=False, slots=True)
class GradientSum(Event):
    """A function of each parameter's gradient is added to something, and no sum of the gradient: its square.

    Args:
        into: what it is added to.
        begun_before: the loops around whose iterations go on with what is there.
    """

    into: str = ""
    begun_before: frozenset[Loop] = frozenset()


@dataclass(eq=False, repr=False, slots=True)
class OpaqueCall(Event):
    """A call that could not be followed and that was handed an optimizer, a model, or the object itself.

    Args:
        given: the paths of the models, and of the object; None for one that has none.
    """

    given: frozenset[str | None] = frozenset()


@dataclass(eq=False, repr=False, slots=True)
class HookRegistration(Event):
    """A ``register_*hook`` call.

    Args:
        method: its name.
        receiver: the path it is registered on.
        receiver_site: the receiver as written.
        given_as: where the function that is called is given one of several modules of it, the variable of that.
        removed: something removes it again, or may.
        removed_late: only methods do so that are called after a loop.
        removed_at_exit: only where its object is used as a context.
        is_left_open: that object is made here, and is not.
        stack: the variable with the ``ExitStack`` that removes it at its end.
        discarded: nothing keeps the handle, or nothing but a stack that is never closed.
        overwritten: the next one takes its place.
        knowing: the methods that may remove it, where the next one takes its place when its method runs again.
        fresh: the receiver is a tensor of this very iteration, and the hook dies with it.
        repeats: the loop in which the same receiver gets one more hook each time, if any.
        by_call: a method registers it that a trainer calls for each epoch or batch, and none of its class removes it.
        of: the receiver's value.
        callback: the function of the project that is registered.
        bound: the paths of what ``functools.partial`` gives to its first parameters.
        kept: the stores by which the hook keeps what it is given, with its graph.
        kept_plain: the same of what has no graph: gradients, detached outputs.
        kept_by_probe: both, where somebody else trains what the hook is registered on (reads other functions).
        closes_over: the tensor that the hook is registered on, and that it refers to itself.
        closes_over_given: the parameter that it is registered on, and refers to: a tensor, if callers give one.
        gives_back: its function gives that parameter back, as what stands between two layers does.
        first_time: a condition on the way to it holds once: it asks for what is then set.
        chooses: the conditions of its function only choose among the modules that a loop goes over.
        changes: the paths that the function called here changes.
    """

    method: str = ""
    receiver: str | None = None
    receiver_site: Site | None = None
    given_as: str | None = None
    removed: bool = False
    removed_late: bool = False
    removed_at_exit: bool = False
    is_left_open: bool = False
    stack: str | None = None
    discarded: bool = False
    overwritten: bool = False
    knowing: tuple[object, ...] | None = None
    fresh: bool = False
    repeats: Loop | None = None
    by_call: bool = False
    callback: object | None = None
    bound: tuple[str | None, ...] = ()
    of: Value = field(default_factory=Value)
    kept: list[Store] = field(default_factory=list)
    kept_plain: list[Store] = field(default_factory=list)
    kept_by_probe: Callable[[], tuple[list[Store], list[Store]]] = field(default=lambda: ([], []))
    closes_over: str | None = None
    closes_over_given: str | None = None
    gives_back: bool = False
    first_time: bool = False
    chooses: bool = False
    changes: frozenset[str] = frozenset()

    @property
    def receiver_code(self) -> str:
        return one_line(self.receiver_site.code) if self.receiver_site else str(self.receiver)

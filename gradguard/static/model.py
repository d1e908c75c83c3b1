"""The training-loop model: the words in which rules ask about a function.

The flow fills these in; rules only read them. Nothing here imports libcst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from gradguard.findings import Fix
from gradguard.static import tree as t
from gradguard.static.events import (
    Backward,
    Call,
    CallOfGiven,
    Constant,
    Construction,
    Event,
    Forward,
    GradCall,
    GradientSum,
    GradRead,
    HookRegistration,
    Loop,
    Mode,
    OpaqueCall,
    Step,
    TrainingMode,
    ZeroGrad,
)
from gradguard.static.fixes.line_edits import under
from gradguard.static.knowledge import EVALUATION_FUNCTION
from gradguard.static.mistakes.backward import (
    ChangedBetween,
    ChangedInPlace,
    CountedTwice,
    EvaluatedAgain,
    FrozenInput,
    IdleGradients,
    NoGradient,
    PartlyReset,
    PassedOver,
    PerturbedBetween,
    ReplayedDraw,
    SteppedBetween,
    Unguarded,
    Unscaled,
    UnusedGraph,
    WastedBackward,
    WrittenBehind,
)
from gradguard.static.mistakes.evaluation import AwaitedWord, FrozenInTraining, NeverInEvaluation
from gradguard.static.mistakes.kept import (
    CachedCall,
    ClassList,
    CutWhenRead,
    DefaultList,
    ForgottenHandles,
    KeptByFinalizer,
    KeptContext,
    KeptKey,
    LeftByError,
    LeftOnStack,
    LeftRunning,
    MadeByProperty,
    NeverReset,
    OverLimit,
    PutAway,
    RandomKey,
    RecordedRun,
    RenewedKey,
    ReplacedState,
    TensorKey,
    TrimmedNever,
    WrappedAgain,
)
from gradguard.static.mistakes.losses import (
    Cancelled,
    CancelledRatio,
    CutEachStep,
    CutTerm,
    DetachedStart,
    Drawn,
    EstimatedEarly,
    Exchanged,
    LiveAdvantage,
    LiveMultiplied,
    MovingTarget,
    NeverRecorded,
    NormalisedTwice,
    OnlyDetached,
    OverwrittenTerm,
    RenewedAnchor,
    UnevenCut,
)
from gradguard.static.mistakes.optimizers import (
    AveragedGradient,
    BrokenTie,
    IdleOptimizer,
    IdleScheduler,
    LeftOut,
    LiveState,
    MovedFrozen,
    NeverUnfrozen,
    PlateauDirection,
    RenewedScaler,
    Replacement,
    ScheduleLength,
    SchedulerFirst,
    SetOnOptimizer,
    SpentIterator,
    StaleScheduler,
    SteppedTwice,
    TiedByData,
    TrainedAverage,
    TrainedTeacher,
    UnappliedRate,
    Unreached,
    Unregistered,
    WithoutOptimizer,
    ZeroFactors,
)
from gradguard.static.source import Site
from gradguard.static.stored import Form, Scope, Store
from gradguard.static.values import Roots, Source, Value

__all__ = [
    "Backward",
    "Call",
    "CallOfGiven",
    "Constant",
    "Construction",
    "Event",
    "Form",
    "Forward",
    "Function",
    "GradCall",
    "GradRead",
    "GradientSum",
    "HookRegistration",
    "Loop",
    "Mode",
    "NoGradient",
    "OpaqueCall",
    "Replacement",
    "Scope",
    "Site",
    "SpentIterator",
    "Step",
    "Store",
    "TensorKey",
    "TrainingMode",
    "ZeroGrad",
]


@dataclass(eq=False, repr=False, slots=True)
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
        may_be_called_without_grad: whether some call of it may happen under no_grad (reads other files).
        is_left_to_others: whether nobody calls it but, perhaps, the base class of a package that cannot be read, in
            whatever mode (reads other files).
        callers_backpropagate: whether a caller of a function runs a backward over what it returns (reads other files).
        is_handed_over: whether its program names it without calling it: some of its callers are not known (reads other
            files).
        may_reverse: whether something in its program may turn gradients round on their way (reads other files).
        calling: the functions of the program that may call it (reads other files).
        needs_training_mode: whether the module at a path is to train in training mode: it computes something else then,
            and its object has not put it into evaluation mode from the start (reads other files).
        put_off: the module calls of a generator that it returns out of a `no_grad` of its own.
        awaited_words: the modes that are to be off for an evaluation, by a word that none has (reads other files).
        not_entered: the statements that only make a gradient mode: ``torch.no_grad()``.
        thrown_away: the module calls that only ask a model for numbers, with a graph (reads other files).
        evaluated_once: a module call of a function that evaluates, and that a loop of another one calls.
        kept_outputs: of the ``forward`` of an ``autograd.Function``: the statements that put an output on ``ctx``.
        passed_over: what passes a batch over after its backward, so that its gradients stay.
        renewed_anchors: the old values of a ratio that each pass over the same data computes anew.
        replayed_draws: the checkpoints that draw other random numbers in the backward (reads other files).
        left_out: the loops that sort parameters into groups, and leave some out (reads other files).
        changed_between: what changes weights in place between a forward and its backward, and autograd does not see.
        stepped_between: the backwards that need weights which an optimizer has changed since the forward (reads other
            files).
        unused_graphs: the networks that run with a graph which nothing asks for (reads other files).
        detached_starts: the copies that fast weights begin with, which end the graph of an outer loss (reads other
            files).
        partly_reset: the resets of some of the optimizers that a loop steps, where nothing resets the others.
        unguarded: the backwards that also run where the optimizer of the step is None.
        unscaled: the losses that no scaler has multiplied, while one takes the step.
        unscales: something in its program divides scaled gradients (reads other files).
        switches_gradients: something in its program freezes parameters, or not, as it is told (reads other files).
        steps_by_scaler: something in its program takes a step that is given the optimizer (reads other files).
        replacements: modules that are replaced after an optimizer was made that has their parameters (reads other
            files).
        stale_schedulers: the schedulers of optimizers that are replaced, while both go on (reads other files).
        idle_schedulers: the schedulers that nothing steps (reads other files).
        schedulers_first: the schedulers that step before the optimizer does (reads other files).
        stepped_twice: optimizers that have some parameters in common, and step in turn (reads other files).
        set_on_optimizers: options that are set on an optimizer as attributes (reads other files).
        idle_optimizers: the optimizers that something resets, and nothing steps (reads other files).
        plateau_directions: the schedulers that wait for the highest loss, or for the lowest accuracy (reads other
            files).
        renewed_scalers: the gradient scalers that are made anew in each epoch (reads other files).
        schedule_lengths: the steps of schedulers that are counted otherwise than they are taken (reads other files).
        broken_ties: what replaces one of two modules that it has given one weight (reads other files).
        live_states: the states of models that it keeps without a copy until they are loaded.
        kept_keys: the entries under weak keys whose values have their keys (reads other files).
        kept_contexts: of an ``autograd.Function``: where the context of every call is kept (reads other files).
        left_by_errors: what a context manager leaves in a collection where its block raises (reads other files).
        live_advantages: the factors of a policy's loss that have the graph of a value.
        live_multipliers: the factors in the loss of a multiplier that the same backward trains against it.
        moving_targets: the targets that the network which is trained computes itself, with their graph.
        trained_averages: the networks that follow another one, and are trained as well (reads other files).
        trained_teachers: the teachers that it trains with their students (reads other files).
        idle_gradients: the networks that a backward goes through, and that nothing trains (reads other files).
        wasted_backwards: where a module is run with the graph of another one, whose gradients are thrown away (reads
            other files).
        cut_terms: where a term of a loss is cut from all that is trained by it (reads other files).
        unreached: the backwards after which an optimizer steps whose parameters they do not reach.
        uncalled: where methods that train are named, and not called: ``optimizer.step``.
        dropped_gradients: the calls of ``autograd.grad`` whose result nothing takes, and the step that would need it.
        discarded: the statements that call what only gives a new tensor: ``hidden.detach()``.
        tied_leaves: the inputs whose gradient holds the graph that it was computed in, and the backward that does it.
        tied_by_data: the statements that give a parameter the storage of another one.
        overwritten_terms: the entries of a dict of losses that take the place of one which nothing has read.
        only_detached: of a ``forward``: the parameters of which it uses detached numbers alone (reads other files).
        changed_in_place: what changes a tensor in place that a backward needs (reads other files).
        written_behind: the statements that change a value through ``.data`` on its way to the loss.
        rebound_updates: the statements that bind a loop's name for a parameter anew, which nothing reads then.
        set_on_modules: the statements that give a module a ``requires_grad`` (reads other files).
        missing_gradients: of the ``backward`` of an ``autograd.Function``: the parameters that get None of it (reads
            other files).
        spent_iterators: the uses of iterators of parameters that have nothing left.
        counted_twice: the losses that are backpropagated by themselves and again within a sum, for one step (reads
            other files).
        exchanged: the straight-through estimators whose value is not rounded: ``q + (z - q).detach()``.
        frozen_inputs: the checkpoints that cut the graph, as they are given what wants no gradient.
        unapplied_rates: the changes of a learning rate that no optimizer is told.
        cancelled_ratios: the ratios of a probability to itself.
        cancelled: the sums in which a tensor cancels out that is to have their gradient: ``x + (x.round() - x)``.
        cut_each_step: the states that each step of a sequence detaches, before a loss over all of it (reads other
            files).
        uneven_cuts: the arguments of a term whose twins are detached in the other term of a symmetric loss.
        drawn: what is drawn without a graph, and given to a network with which its distribution is trained (reads other
            files).
        estimated_early: the straight-through estimators that come before the loss of their codebook.
        unregistered: the plain lists and dicts in which a module puts what has parameters (reads other files).
        unregistered_leaves: the tensors of a module that want a gradient and are no parameters, each with where it is
            made (reads other files).
        unregistered_results: those that are computed of a parameter which nothing else holds (reads other files).
        evaluated_again: the closures without a reset that it gives to an optimizer which runs them several times.
        perturbed_between: the second backwards of steps of two passes, that add to the gradients of the first (reads
            other files).
        moved_frozen: the parts that it freezes in the midst of a training, and that keep gradients of zero (reads other
            files).
        never_unfrozen: the networks that it freezes in each step, which nothing makes trainable again (reads other
            files).
        frozen_in_training: what takes a part out of evaluation mode that was frozen in it (reads other files).
        never_in_evaluation: the evaluations of models that nothing puts into evaluation mode (reads other files).
        never_recorded: the calls of methods under ``no_grad`` that alone run what is to be trained (reads other files).
        normalised_twice: the losses that are given what is normalised already, or is not and should be (reads other
            files).
        zero_factors: the pairs of parameters that begin at zero, and are only multiplied with each other (reads other
            files).
        without_optimizer: the objects with parameters that it makes, and no optimizer is given (reads other files).
        tensor_keys: the dicts and sets of which it uses elements of tensors as keys.
        never_reset: the lists of a metric that it fills, and that nothing empties (reads other files).
        forgotten_handles: the handles of hooks that it drops, and nothing removes (reads other files).
        made_by_properties: what a property makes at each access, which registers hooks.
        kept_by_finalizers: the finalizers that it gives their own object (reads other files).
        renewed_keys: the keys that it makes of tensors for the moment, `p.data` (reads other files).
        random_keys: the dicts in which it keeps things under what is drawn (reads other files).
        averaged_gradients: the states of its optimizer that it blends with gradients which have a graph (reads other
            files).
        cut_when_read: the histories that it makes longer, and of which only the end is read (reads other files).
        over_limit: the lists that it adds to where they are full (reads other files).
        replaced_states: the parameters that it replaces in the groups of an optimizer, which keeps the states of those
            that were there (reads other files).
        counted_keys: those under a count of its object that only goes up (reads other files).
        scheduled_keys: those under a number that a training computes of its step (reads other files).
        is_given_kept: whether each call gives its cache tensors that a list keeps (reads other files).
        varied_keys: where keys of its cache are made that are new with nearly each batch (reads other files).
        trimmed_never: the histories that it trims, and drops nothing of (reads other files).
        left_running: the objects with a thread that it makes in each iteration, and does not end (reads other files).
        left_on_stacks: the tensors that it leaves with an ``ExitStack`` in each iteration (reads other files).
        default_lists: the lists that are defaults of its parameters, and that it makes longer (reads other files).
        class_lists: the lists that its class has for all objects, and that it makes longer (reads other files).
        put_away: where the pack hooks that it installs keep every tensor (reads other files).
        recorded_runs: the schedules of profilers that it makes whose window is a whole training (reads other files).
        wrapped_again: what it puts around itself in each iteration of a loop that trains (reads other files).
        assigns_gradients: its program sets ``x.grad`` to something.
        cached: the decorator that keeps its arguments and results (``functools.lru_cache``).
        cached_by: the statement that does so, where the decorator is one of the program.
        cache_is_bounded: that cache drops old entries.
        cache_is_emptied: something in its program empties caches: ``encode.cache_clear()``.
        caches: where it gives a function a cache without a limit, which nothing empties: the call, and the function.
        tensor_params: the parameters that are tensors by their annotations.
        cached_calls: where it gives a tensor to a function with such a cache.
        is_test: it is a unit test, or a helper of one.
        is_among_tests: its file holds unit tests.
        takes_self: it is bound to an object.
        takes_arguments: it has parameters besides.
        uses_device: its file puts something on a GPU.
    """

    name: str
    qualified: str
    site: Site | None
    entry_mode: Mode = Mode.INHERITED
    is_module_method: bool = False
    is_optimizer_method: bool = False
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
    calls_of_given: list[CallOfGiven] = field(default_factory=list)
    grad_reads: list[GradRead] = field(default_factory=list)
    gradient_sums: list[GradientSum] = field(default_factory=list)
    replacements: Callable[[], list[Replacement]] = field(default=list, repr=False)
    stale_schedulers: Callable[[], list[StaleScheduler]] = field(default=list, repr=False)
    idle_schedulers: Callable[[], list[IdleScheduler]] = field(default=list, repr=False)
    schedulers_first: Callable[[], list[SchedulerFirst]] = field(default=list, repr=False)
    stepped_twice: Callable[[], list[SteppedTwice]] = field(default=list, repr=False)
    set_on_optimizers: Callable[[], list[SetOnOptimizer]] = field(default=list, repr=False)
    idle_optimizers: Callable[[], list[IdleOptimizer]] = field(default=list, repr=False)
    plateau_directions: Callable[[], list[PlateauDirection]] = field(default=list, repr=False)
    renewed_scalers: Callable[[], list[RenewedScaler]] = field(default=list, repr=False)
    schedule_lengths: Callable[[], list[ScheduleLength]] = field(default=list, repr=False)
    broken_ties: Callable[[], list[BrokenTie]] = field(default=list, repr=False)
    live_states: Callable[[], list[LiveState]] = field(default=list, repr=False)
    kept_keys: Callable[[], list[KeptKey]] = field(default=list, repr=False)
    kept_contexts: Callable[[], list[KeptContext]] = field(default=list, repr=False)
    left_by_errors: Callable[[], list[LeftByError]] = field(default=list, repr=False)
    live_advantages: Callable[[], list[LiveAdvantage]] = field(default=list, repr=False)
    live_multipliers: Callable[[], list[LiveMultiplied]] = field(default=list, repr=False)
    moving_targets: Callable[[], list[MovingTarget]] = field(default=list, repr=False)
    trained_averages: Callable[[], list[TrainedAverage]] = field(default=list, repr=False)
    trained_teachers: Callable[[], list[TrainedTeacher]] = field(default=list, repr=False)
    idle_gradients: Callable[[], list[IdleGradients]] = field(default=list, repr=False)
    wasted_backwards: Callable[[], list[WastedBackward]] = field(default=list, repr=False)
    cut_terms: Callable[[], list[CutTerm]] = field(default=list, repr=False)
    unreached: Callable[[], list[Unreached]] = field(default=list, repr=False)
    uncalled: Callable[[], list[Site]] = field(default=list, repr=False)
    dropped_gradients: Callable[[], list[tuple[GradCall, Step]]] = field(default=list, repr=False)
    discarded: Callable[[], list[Site]] = field(default=list, repr=False)
    tied_leaves: Callable[[], list[tuple[str, Backward]]] = field(default=list, repr=False)
    tied_by_data: Callable[[], list[TiedByData]] = field(default=list, repr=False)
    overwritten_terms: Callable[[], list[OverwrittenTerm]] = field(default=list, repr=False)
    only_detached: Callable[[], list[OnlyDetached]] = field(default=list, repr=False)
    changed_in_place: Callable[[], list[ChangedInPlace]] = field(default=list, repr=False)
    written_behind: Callable[[], list[WrittenBehind]] = field(default=list, repr=False)
    rebound_updates: Callable[[], list[Site]] = field(default=list, repr=False)
    set_on_modules: Callable[[], list[Site]] = field(default=list, repr=False)
    spent_iterators: Callable[[], list[SpentIterator]] = field(default=list, repr=False)
    counted_twice: Callable[[], list[CountedTwice]] = field(default=list, repr=False)
    frozen_inputs: Callable[[], list[FrozenInput]] = field(default=list, repr=False)
    unapplied_rates: Callable[[], list[UnappliedRate]] = field(default=list, repr=False)
    cancelled_ratios: Callable[[], list[CancelledRatio]] = field(default=list, repr=False)
    cancelled: Callable[[], list[Cancelled]] = field(default=list, repr=False)
    exchanged: Callable[[], list[Exchanged]] = field(default=list, repr=False)
    cut_each_step: Callable[[], list[CutEachStep]] = field(default=list, repr=False)
    uneven_cuts: Callable[[], list[UnevenCut]] = field(default=list, repr=False)
    drawn: Callable[[], list[Drawn]] = field(default=list, repr=False)
    estimated_early: Callable[[], list[EstimatedEarly]] = field(default=list, repr=False)
    tensor_keys: Callable[[], list[TensorKey]] = field(default=list, repr=False)
    never_reset: Callable[[], list[NeverReset]] = field(default=list, repr=False)
    forgotten_handles: Callable[[], list[ForgottenHandles]] = field(default=list, repr=False)
    made_by_properties: Callable[[], list[MadeByProperty]] = field(default=list, repr=False)
    kept_by_finalizers: Callable[[], list[KeptByFinalizer]] = field(default=list, repr=False)
    renewed_keys: Callable[[], list[RenewedKey]] = field(default=list, repr=False)
    random_keys: Callable[[], list[RandomKey]] = field(default=list, repr=False)
    averaged_gradients: Callable[[], list[AveragedGradient]] = field(default=list, repr=False)
    cut_when_read: Callable[[], list[CutWhenRead]] = field(default=list, repr=False)
    over_limit: Callable[[], list[OverLimit]] = field(default=list, repr=False)
    replaced_states: Callable[[], list[ReplacedState]] = field(default=list, repr=False)
    counted_keys: Callable[[], list[RandomKey]] = field(default=list, repr=False)
    scheduled_keys: Callable[[], list[RandomKey]] = field(default=list, repr=False)
    varied_keys: Callable[[], list[Site]] = field(default=list, repr=False)
    is_given_kept: Callable[[], bool] = field(default=lambda: False, repr=False)
    trimmed_never: Callable[[], list[TrimmedNever]] = field(default=list, repr=False)
    left_running: Callable[[], list[LeftRunning]] = field(default=list, repr=False)
    left_on_stacks: Callable[[], list[LeftOnStack]] = field(default=list, repr=False)
    default_lists: Callable[[], list[DefaultList]] = field(default=list, repr=False)
    class_lists: Callable[[], list[ClassList]] = field(default=list, repr=False)
    put_away: Callable[[], list[PutAway]] = field(default=list, repr=False)
    recorded_runs: Callable[[], list[RecordedRun]] = field(default=list, repr=False)
    wrapped_again: Callable[[], list[WrappedAgain]] = field(default=list, repr=False)
    passed_over: Callable[[], list[PassedOver]] = field(default=list, repr=False)
    renewed_anchors: Callable[[], list[RenewedAnchor]] = field(default=list, repr=False)
    replayed_draws: Callable[[], list[ReplayedDraw]] = field(default=list, repr=False)
    left_out: Callable[[], list[LeftOut]] = field(default=list, repr=False)
    changed_between: Callable[[], list[ChangedBetween]] = field(default=list, repr=False)
    unused_graphs: Callable[[], list[UnusedGraph]] = field(default=list, repr=False)
    stepped_between: Callable[[], list[SteppedBetween]] = field(default=list, repr=False)
    detached_starts: Callable[[], list[DetachedStart]] = field(default=list, repr=False)
    partly_reset: Callable[[], list[PartlyReset]] = field(default=list, repr=False)
    unguarded: Callable[[], list[Unguarded]] = field(default=list, repr=False)
    unscaled: Callable[[], list[Unscaled]] = field(default=list, repr=False)
    missing_gradients: Callable[[], list[NoGradient]] = field(default=list, repr=False)
    unregistered: Callable[[], list[Unregistered]] = field(default=list, repr=False)
    unregistered_leaves: Callable[[], list[tuple[str, Site]]] = field(default=list, repr=False)
    unregistered_results: Callable[[], list[tuple[str, Site]]] = field(default=list, repr=False)
    evaluated_again: Callable[[], list[EvaluatedAgain]] = field(default=list, repr=False)
    moved_frozen: Callable[[], list[MovedFrozen]] = field(default=list, repr=False)
    perturbed_between: Callable[[], list[PerturbedBetween]] = field(default=list, repr=False)
    never_unfrozen: Callable[[], list[NeverUnfrozen]] = field(default=list, repr=False)
    frozen_in_training: Callable[[], list[FrozenInTraining]] = field(default=list, repr=False)
    never_in_evaluation: Callable[[], list[NeverInEvaluation]] = field(default=list, repr=False)
    put_off: Callable[[], list[Forward]] = field(default=list, repr=False)
    awaited_words: Callable[[], list[AwaitedWord]] = field(default=list, repr=False)
    not_entered: Callable[[], list[Site]] = field(default=list, repr=False)
    thrown_away: Callable[[], list[Forward]] = field(default=list, repr=False)
    evaluated_once: Callable[[], Forward | None] = field(default=lambda: None, repr=False)
    never_recorded: Callable[[], list[NeverRecorded]] = field(default=list, repr=False)
    normalised_twice: Callable[[], list[NormalisedTwice]] = field(default=list, repr=False)
    zero_factors: Callable[[], list[ZeroFactors]] = field(default=list, repr=False)
    without_optimizer: Callable[[], list[WithoutOptimizer]] = field(default=list, repr=False)
    kept_outputs: Callable[[], list[Site]] = field(default=list, repr=False)
    opaque_calls: list[OpaqueCall] = field(default_factory=list)
    training_modes: list[TrainingMode] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    returns: Value = field(default_factory=Value)
    gradients_wanted: bool = False
    torch: str | None = None
    is_async: bool = False
    assigns_gradients: bool = False
    is_test: bool = False
    is_among_tests: bool = False
    takes_self: bool = False
    takes_arguments: bool = False
    uses_device: bool = False
    cached: Site | None = None
    cached_by: Site | None = None
    cache_is_bounded: bool = False
    cache_is_emptied: bool = False
    caches: list[tuple[Site, Function]] = field(default_factory=list)
    tensor_params: tuple[str, ...] = ()
    cached_calls: list[CachedCall] = field(default_factory=list)
    called_without_grad: Callable[[], bool] = field(default=lambda: False, repr=False)
    may_be_called_without_grad: Callable[[], bool] = field(default=lambda: False, repr=False)
    is_left_to_others: Callable[[], bool] = field(default=lambda: False, repr=False)
    callers_backpropagate: Callable[[Function], bool] = field(default=lambda _: False, repr=False)
    is_handed_over: Callable[[], bool] = field(default=lambda: False, repr=False)
    unscales: Callable[[], bool] = field(default=lambda: False, repr=False)
    steps_by_scaler: Callable[[], bool] = field(default=lambda: False, repr=False)
    switches_gradients: Callable[[], bool] = field(default=lambda: False, repr=False)
    may_reverse: Callable[[], bool] = field(default=lambda: False, repr=False)
    calling: Callable[[], Iterable[Function]] = field(default=lambda: (), repr=False)
    needs_training_mode: Callable[[str], bool] = field(default=lambda _: False, repr=False)

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

    def backpropagates(self, forward: Forward) -> bool:
        """Whether a backward anywhere in the function goes through a module call."""
        return any(_begins_at(forward, backward.value.reach) for backward in self.backwards)

    def returns_graph_of(self, forward: Forward) -> bool:
        """Whether what a module call records is handed to the caller."""
        return _begins_at(forward, self.returns.reach)

    def returns_graphs_besides(self, loop: Loop) -> bool:
        """Whether it hands to its caller what a module call outside of a loop records: it trains on another way."""
        return any(self.returns_graph_of(forward) for forward in self.forwards if forward not in loop.forwards)

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

    def run_without_grad(self, site: Site) -> Fix | None:
        """Put the statement that a node of it is in under ``no_grad``, if torch has a name here."""
        if self.torch is None or self.is_async or self.is_generator:
            return None
        return under(site, f"{self.torch}.no_grad()")

    @property
    def is_generator(self) -> bool:
        """Whether it yields: what it is switched to in between reaches who goes on with it."""
        return self.site is not None and isinstance(self.site.node, t.Define) and self.site.node.is_generator

    def calls_of(self, *names: str) -> Iterator[Call]:
        """The calls of these functions (by dotted name) or methods (by bare name)."""
        return (call for call in self.calls if call.name in names)

    def leaking_stores(self) -> Iterator[Store]:
        """The stores that leak.

        Without those of an evaluation that only runs where no graph is recorded, and what it returns to one who
        backpropagates it, or may: words that a generator in evaluation mode draws, for its critic. Nor those of a
        module that only ever gets data, and what is only kept where a call without a graph asks for it.
        """
        for store in self.stores:
            if not store.leaks or not store.gets_graphs() or (store.needs_mode and self.called_without_grad()):
                continue
            if store.is_asked_for():
                continue
            if not (store.is_returned and (self.callers_backpropagate(self) or self._is_loss_for_others())):
                yield store

    def _is_loss_for_others(self) -> bool:
        """Whether who gets what it returns is not known, and it is not named as an evaluation."""
        return EVALUATION_FUNCTION.search(self.name) is None and self.is_handed_over()


def _begins_at(forward: Forward, roots: Roots) -> bool:
    """Whether one of the roots is what a module call records, here or in the function that is called here."""
    node = forward.site.node
    return any(
        root.source is Source.GRAPH and (root.key[0] if isinstance(root.key, tuple) else root.key) is node
        for root in roots
    )

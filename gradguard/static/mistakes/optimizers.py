"""Mistakes about parameters, optimizers and schedulers."""

from __future__ import annotations

from dataclasses import dataclass

from gradguard.static.source import Site


@dataclass(frozen=True, slots=True)
class Replacement:
    """A module is replaced after an optimizer was made that has its parameters, and that steps afterwards.

    Args:
        optimizer: the path of the optimizer.
        made: where it is made.
        site: the statement that replaces the module, or calls what does.
        replaced: the statement that does.
        is_unfrozen: it was there before, and froze: the optimizer was given only what wanted gradients then.
        is_late: it was not there before: the ``forward`` of the model makes it when it first runs.
        is_left_out: the site is where the optimizer is given the others; an object elsewhere unfreezes it.
        chosen: where that was chosen, if not in the call that makes the optimizer.
    """

    optimizer: str
    made: Site
    site: Site
    replaced: Site
    is_unfrozen: bool = False
    chosen: Site | None = None
    is_late: bool = False
    is_left_out: bool = False


@dataclass(frozen=True, slots=True)
class StaleScheduler:
    """A scheduler goes on with the optimizer that it was made of, when another one has taken its place.

    Args:
        site: where that is to be mended: the statement that replaces the optimizer; the one that makes the scheduler,
            where a condition lets that happen once only.
        scheduler: its path.
        optimizer: the path of the optimizer.
        made: where the scheduler is made.
        replaced: where the optimizer is replaced.
        once: the condition by which it is made once only.
    """

    site: Site
    scheduler: str
    optimizer: str
    made: Site
    replaced: Site
    once: Site | None = None


@dataclass(frozen=True, slots=True)
class RenewedScaler:
    """A gradient scaler is made anew in each epoch.

    Args:
        site: the statement that makes it.
        scaler: its path.
        loop: what tells of the loop that it is over epochs.
        call: where that calls the function which makes it; None where it does so itself.
    """

    site: Site
    scaler: str
    loop: Site
    call: Site | None


@dataclass(frozen=True, slots=True)
class PlateauDirection:
    """A scheduler waits for a plateau of what goes the other way.

    Args:
        site: the step, or what says by which value it is taken.
        metric: that value.
        mode: what the scheduler waits for: ``min``, the lowest value, or ``max``.
        way: which of them would be an improvement.
        made: where the scheduler is made.
    """

    site: Site
    metric: Site
    mode: str
    way: str
    made: Site


@dataclass(frozen=True, slots=True)
class IdleScheduler:
    """A scheduler is made that nothing steps.

    Args:
        site: the statement that makes it.
        scheduler: its path.
    """

    site: Site
    scheduler: str


@dataclass(frozen=True, slots=True)
class MovedFrozen:
    """A part of a model is frozen in the midst of its training, and keeps gradients of zero: it is moved on.

    Args:
        site: the reset that leaves zeros.
        module: the path of the part.
        optimizer: what has its parameters.
        frozen: what freezes it.
        step: the step that moves it.
    """

    site: Site
    module: str
    optimizer: str
    frozen: Site
    step: Site


@dataclass(frozen=True, slots=True)
class SteppedTwice:
    """Two optimizers step in turn that have some parameters in common.

    Args:
        site: where the one is made that is given all of a module.
        whole: its path.
        part: the path of the other one.
        module: the module.
        made: where the other one is made.
        step: the step of the second one.
    """

    site: Site
    whole: str
    part: str
    module: str
    made: Site
    step: Site


@dataclass(frozen=True, slots=True)
class SetOnOptimizer:
    """An option is set on an optimizer, or in its defaults, which its groups do not read.

    Args:
        site: the statement.
        optimizer: its path.
        option: what its groups call it.
        in_defaults: it is set in the dict from which groups take what they are not given when they are made.
    """

    site: Site
    optimizer: str
    option: str
    in_defaults: bool = False


@dataclass(frozen=True, slots=True)
class SchedulerFirst:
    """A scheduler steps before the optimizer has.

    Args:
        site: its step.
        scheduler: its path.
    """

    site: Site
    scheduler: str


@dataclass(frozen=True, slots=True)
class UnappliedRate:
    """A rate is changed in a variable, and no optimizer is told.

    Args:
        site: the statement that changes it.
        rate: the variable.
        optimizer: the path of the optimizer, which goes on with the rate that it was made with.
        made: where it is made.
    """

    site: Site
    rate: str
    optimizer: str
    made: Site


@dataclass(frozen=True, slots=True)
class IdleOptimizer:
    """An optimizer is made that something resets in each step, and nothing steps.

    Args:
        site: the statement that makes it.
        optimizer: its path.
        modules: what it has, as a message names it.
        reset: where its gradients are reset.
    """

    site: Site
    optimizer: str
    modules: str
    reset: Site


@dataclass(frozen=True, slots=True)
class ScheduleLength:
    """A scheduler counts its steps otherwise than they are taken.

    Args:
        site: the step.
        made: where it is made.
        length: what it is told of how long it goes on.
        scheduler: its path.
        is_in_epochs: it is told of epochs, and the step is taken in each batch; otherwise the other way round.
        in_updates: it is told of the updates of an optimizer, of which each has several batches.
    """

    site: Site
    made: Site
    length: Site
    scheduler: str
    is_in_epochs: bool
    in_updates: bool = False


@dataclass(frozen=True, slots=True)
class BrokenTie:
    """One of two modules that share a weight is replaced: from then on there are two weights.

    Args:
        site: the statement that does.
        replaced: the path of what is replaced.
        kept: the module that keeps the weight.
        tied: where the two were tied.
        is_sure: it is an embedding, or a weight, or its constructor does it.
    """

    site: Site
    replaced: str
    kept: str
    tied: Site
    is_sure: bool


@dataclass(frozen=True, slots=True)
class LiveState:
    """A model, or its state, is kept without a copy, until it is used: it is that of the last step by then.

    Args:
        site: the statement that keeps it.
        kept: the path where.
        model: the path of the model.
        taken: what is kept, as it would be copied.
        used: the statement that loads it, saves it, or hands it to the caller; None where others take it.
        is_shallow: it is a shallow copy of a model, which has its parameters, and is used as if it had others.
        is_one_of_several: it is put into a collection with others, all of the same tensors.
        value: the weight that is kept, where it is compared, or mixed, with itself later.
        is_averaged: it is mixed.
    """

    site: Site
    kept: str
    model: str
    taken: str
    used: Site | None
    is_one_of_several: bool = False
    is_shallow: bool = False
    value: Site | None = None
    is_averaged: bool = False


@dataclass(frozen=True, slots=True)
class Unreached:
    """An optimizer steps after the backward of a loss in which none of its parameters is.

    Args:
        backward: what computes no gradient of them.
        step: what the optimizer does nothing in.
        optimizer: its path.
        module: the module whose parameters it has.
        run: the call of the module, of which the loss was to be computed.
        cut: what takes the graph of that away, where it is written beside.
        is_copied: that is what copies the module: the loss is that of the copy.
    """

    backward: Site
    step: Site
    optimizer: str
    module: str
    run: Site
    cut: Site | None
    is_copied: bool = False


@dataclass(frozen=True, slots=True)
class TrainedTeacher:
    """The optimizer of a student has its teacher as well, and the loss has the graph of both.

    Args:
        site: where the teacher is run.
        teacher: its name.
        optimizer: the path of the optimizer.
        backward: what computes its gradients.
        step: the step of the optimizer.
        is_sure: it is kept in evaluation mode.
    """

    site: Site
    teacher: str
    optimizer: str
    backward: Site
    step: Site
    is_sure: bool


@dataclass(frozen=True, slots=True)
class TrainedAverage:
    """A network follows another one, by an average of the weights, and gradients of the same loss move both.

    Args:
        site: the call of the network, with its graph.
        module: its path.
        average: the loop that makes it follow the other one.
        backward: what has gradients for both.
    """

    site: Site
    module: str
    average: Site
    backward: Site


@dataclass(frozen=True, slots=True)
class Unregistered:
    """A plain list or dict of a module has something with parameters in it.

    Args:
        path: of the collection.
        site: the first statement that puts such a thing into it.
        holds: ``Module`` or ``Parameter``, as torch calls its own collections of them.
    """

    path: str
    site: Site
    holds: str


@dataclass(frozen=True, slots=True)
class AveragedGradient:
    """The state of an optimizer is computed from what it was and from gradients that have a graph.

    Args:
        site: the statement.
        place: the state: ``self.state[*]['mean']``.
        value: what has the graph.
    """

    site: Site
    place: str
    value: Site


@dataclass(frozen=True, slots=True)
class NeverUnfrozen:
    """Each step freezes a network, nothing makes it trainable again, and an optimizer is to train it.

    Args:
        site: the statement that freezes it.
        module: its path.
        optimizer: the path of that optimizer.
        step: its step.
        is_whole: all that the optimizer has is frozen.
        left_out_by: what makes those trainable again that are frozen beside it, and not it.
    """

    site: Site
    module: str
    optimizer: str
    step: Site
    is_whole: bool
    left_out_by: Site | None = None


@dataclass(frozen=True, slots=True)
class ZeroFactors:
    """Two parameters begin at zero, and are only multiplied with each other.

    Args:
        site: what sets the first one to zero.
        other: what sets the second one.
        first: the path of the first one.
        second: that of the second one.
        product: where they are multiplied.
        is_sure: they are set to zero on purpose, or nothing in the program loads weights.
    """

    site: Site
    other: Site
    first: str
    second: str
    product: Site
    is_sure: bool


@dataclass(frozen=True, slots=True)
class WithoutOptimizer:
    """An object with parameters takes part in a loss, and no optimizer is given them.

    Args:
        site: where the optimizer is made, if one is beside it; else where the object is.
        path: of the object.
        parameters: the names of its own parameters, if it has some.
        made: where it is made.
        declared: where its class declares the first of these.
        run: where it is run.
        is_sure: it is there for its own parameters alone.
    """

    site: Site
    path: str
    parameters: tuple[str, ...]
    made: Site
    declared: Site | None
    run: Site
    is_sure: bool


@dataclass(frozen=True, slots=True)
class SpentIterator:
    """An iterator of parameters is used again, when nothing is left in it.

    Args:
        site: where its name is written.
        made: the expression that makes it.
        spent: what has used it up; the use itself, where a loop comes back to it.
        use: what gets nothing: ``optimizer``, ``group``, ``clip``, or another thing.
    """

    site: Site
    made: Site
    spent: Site
    use: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A loop sorts the parameters of a model into groups, and some of them go past all its conditions.

    Args:
        site: the last of them.
        model: what has the parameters.
        names: those that are left out.
    """

    site: Site
    model: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TiedByData:
    """A parameter is given the storage of another one, and both stay parameters.

    Args:
        site: the statement that does it.
        one: the path of the parameter.
        other: that of the other one.
        is_turned: it is given the transposed one.
    """

    site: Site
    one: str
    other: str
    is_turned: bool

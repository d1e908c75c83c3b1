"""Mistakes that are told of a function when it was read, and are no events in it: rules only say them."""

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
        chosen: where that was chosen, if not in the call that makes the optimizer.
    """

    optimizer: str
    made: Site
    site: Site
    replaced: Site
    is_unfrozen: bool = False
    chosen: Site | None = None


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
class SetOnOptimizer:
    """An option is set on an optimizer as an attribute, which it does not read.

    Args:
        site: the statement.
        optimizer: its path.
        option: what its groups call it.
    """

    site: Site
    optimizer: str
    option: str


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
class FrozenInput:
    """A reentrant checkpoint is given what wants no gradient: it cuts the graph of all that it runs.

    Args:
        site: the call.
        layers: the parts of the module that have made what it is given; all of them are frozen.
    """

    site: Site
    layers: tuple[str, ...]


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
    """

    site: Site
    made: Site
    length: Site
    scheduler: str
    is_in_epochs: bool


@dataclass(frozen=True, slots=True)
class EvaluatedAgain:
    """A closure that an optimizer evaluates several times in one step does not reset the gradients.

    Args:
        backward: what adds to them.
        optimizer: its path.
        step: the call that is given the closure.
    """

    backward: Site
    optimizer: str
    step: Site


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
class Drawn:
    """A network is given what was drawn without a graph, where the distribution is trained with what it gives.

    Args:
        site: the call that draws.
        run: the call of the network.
        is_zero: it has a graph, whose gradient is zero: ``torch.normal``.
        is_one_hot: it is the one of some classes.
    """

    site: Site
    run: Site
    is_zero: bool
    is_one_hot: bool = False


@dataclass(frozen=True, slots=True)
class CutEachStep:
    """Each step of a sequence detaches the state of the last one, and the loss is of all of them.

    Args:
        site: what detaches it.
        run: the call of the cell.
        loop: the loop over the steps.
        state: its path.
    """

    site: Site
    run: Site
    loop: Site
    state: str


@dataclass(frozen=True, slots=True)
class UnevenCut:
    """Of two terms that are the same with two views in each other's place, one detaches its second side.

    Args:
        site: the argument that keeps its graph.
        cut: its twin, which is detached.
    """

    site: Site
    cut: Site


@dataclass(frozen=True, slots=True)
class LiveAdvantage:
    """The loss of a policy is weighted with an advantage that has the graph of the value in it.

    Args:
        site: the advantage, where it is a factor.
        value: what has the graph.
        product: the product with the log probability.
    """

    site: Site
    value: Site
    product: Site


@dataclass(frozen=True, slots=True)
class LiveMultiplied:
    """The loss of a multiplier, as of a temperature, trains what it is multiplied with.

    Args:
        site: what is multiplied, in that loss.
        fixed: the same in the loss that is to train it, which has the multiplier without its graph.
        multiplier: the path of the variable that is trained by it.
        is_multiplier: it is the other way round: ``site`` is the multiplier in the loss of what it multiplies, which
            trains it too, and ``fixed`` the multiplier in its own loss.
    """

    site: Site
    fixed: Site
    multiplier: str
    is_multiplier: bool = False


@dataclass(frozen=True, slots=True)
class WastedBackward:
    """A backward goes on through a module whose gradients are thrown away before its optimizer steps.

    Args:
        site: where what the module makes is given, with its graph, to what the backward is for.
        module: the path of the module whose gradients nobody uses.
        trained: that of what the backward is for.
        made: where the module is run.
        backward: what computes the gradients.
        reset: what throws them away.
        given: the argument that has the graph, where that is one.
    """

    site: Site
    module: str
    trained: str
    made: Site
    backward: Site
    reset: Site
    given: Site | None = None


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
    """

    backward: Site
    step: Site
    optimizer: str
    module: str
    run: Site
    cut: Site | None


@dataclass(frozen=True, slots=True)
class CutTerm:
    """A term of a loss leads to no network that is trained by it.

    Args:
        site: what is detached there, and given to a network that the loss is not for.
        judge: that network.
        module: the one that has made it, for which the loss is.
        made: where it has.
        backward: what computes no gradient of it by this term.
    """

    site: Site
    judge: str
    module: str
    made: Site
    backward: Site


@dataclass(frozen=True, slots=True)
class IdleGradients:
    """A backward computes the gradients of a network that is not to be trained, and that no optimizer has.

    Args:
        site: where the network is run, with its graph.
        network: its path.
        kind: why it is not to be trained: ``copy``, ``pretrained`` or ``loaded``.
        made: what makes it.
        backward: what computes the gradients.
    """

    site: Site
    network: str
    kind: str
    made: Site
    backward: Site


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
class MovingTarget:
    """What a network gives is compared with what it gives for something else, and the gradients go through both.

    Args:
        site: what the target is bound to.
        loss: what compares.
        target: the path of the target, if it has one.
        module: the path of the network.
        run: where it is called for the target.
    """

    site: Site
    loss: Site
    target: str | None
    module: str
    run: Site


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
class Cancelled:
    """A tensor is added and taken away in one sum, of which something else is left: ``x + (q - x)``.

    Args:
        site: the sum.
        kept: what is left.
        gone: the tensor.
        difference: the part of the sum that is the difference of the two, or its name.
        is_reversed: it is taken away with its graph, and its number is added: its gradient has the wrong sign.
    """

    site: Site
    kept: Site
    gone: Site
    difference: Site | None
    is_reversed: bool = False


@dataclass(frozen=True, slots=True)
class CancelledRatio:
    """A ratio of a probability to itself: it is one, and its gradient is zero.

    Args:
        site: what the old one is bound to: the new one, with its graph.
        ratio: what divides the two.
        new: the path of the new one.
        old: that of the old one.
    """

    site: Site
    ratio: Site
    new: str
    old: str


@dataclass(frozen=True, slots=True)
class CountedTwice:
    """A loss is backpropagated by itself and again within a sum, and one step has both gradients.

    Args:
        term: the backward of the loss by itself.
        whole: the backward of the sum.
        of_term: the loss, as written.
        of_sum: the sum, as written.
        is_same: both are of the same value.
    """

    term: Site
    whole: Site
    of_term: str
    of_sum: str
    is_same: bool


@dataclass(frozen=True, slots=True)
class TensorKey:
    """A dict, or a set, is given an element of a tensor as a key, or asked for one.

    Args:
        site: where.
        collection: its path.
        key: the element.
        of: the tensor, where a loop goes over it.
        adds: the collection gets longer by it.
        given: the call that gives it as an argument; any tensor is a new key then, as it is computed for the call.
        over: the loop that goes over it.
    """

    site: Site
    collection: str
    key: Site
    of: str | None
    adds: bool
    given: Site | None = None
    over: Site | None = None


@dataclass(frozen=True, slots=True)
class RandomKey:
    """What is made is kept in a dict under a random number.

    Args:
        site: the statement that keeps it.
        collection: the path of the dict.
        key: the key.
        draw: what draws the number, or the call that gives it.
    """

    site: Site
    collection: str
    key: Site
    draw: Site


@dataclass(frozen=True, slots=True)
class ReplacedState:
    """A parameter of an optimizer is replaced, and the state of the old one stays.

    Args:
        site: where that state is read, to be copied; else what replaces the parameter.
        optimizer: its path.
        replaced: the statement that replaces the parameter.
    """

    site: Site
    optimizer: str
    replaced: Site


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
class CutWhenRead:
    """A history gets longer in each step, and no more than its end is ever read.

    Args:
        site: the statement that makes it longer.
        path: the history.
    """

    site: Site
    path: str


@dataclass(frozen=True, slots=True)
class OverLimit:
    """A list that has a limit is added to where it is full, and nothing is taken out of it.

    Args:
        site: the statement that adds to it.
        collection: its path.
        test: what says that it has a limit.
    """

    site: Site
    collection: str
    test: Site


@dataclass(frozen=True, slots=True)
class NeverInEvaluation:
    """A model is evaluated in training mode.

    Args:
        site: what runs it in each iteration of the evaluation.
        module: the path of the model.
        trained: what trains it before, in the function that evaluates it, or has it evaluated; None where that is
            another one, and nothing in the whole program puts anything into evaluation mode.
    """

    site: Site
    module: str
    trained: Site | None = None


@dataclass(frozen=True, slots=True)
class FrozenInTraining:
    """A module is put into training mode, with a part that its constructor froze in evaluation mode.

    Args:
        site: the call of ``train``.
        module: its path.
        part: the path of the part.
        put: what put the part into evaluation mode.
    """

    site: Site
    module: str
    part: str
    put: Site


@dataclass(frozen=True, slots=True)
class NeverReset:
    """A metric keeps the tensors of all epochs, as nothing calls the method that is to empty its list.

    Args:
        site: the statement that keeps them.
        collection: the path of the list.
        reset: the method.
        read: what has all of the list gone over in each epoch.
    """

    site: Site
    collection: str
    reset: str
    read: Site


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
class NeverRecorded:
    """A loss calls a method under ``no_grad`` that is the only one to run a part with parameters.

    Args:
        site: the call.
        method: the name of the method.
        part: the attribute of its object that it runs.
        decorated: the method.
        made: where the part is made.
        is_sure: nothing in the program loads weights, which may be those of this part.
    """

    site: Site
    method: str
    part: str
    decorated: Site
    made: Site
    is_sure: bool


@dataclass(frozen=True, slots=True)
class NormalisedTwice:
    """A loss that is trained is given what is normalised already, or is not and should be.

    Args:
        site: the call of the loss.
        loss: which one: ``cross_entropy``, ``bce`` (with logits), ``nll``, ``ctc`` or ``kl``.
        kind: what it is given: of ``softmax``, of ``sigmoid``, or ``raw``.
        made: what makes that, of each model that may be it.
    """

    site: Site
    loss: str
    kind: str
    made: tuple[Site, ...]


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
class NoGradient:
    """The ``backward`` of an ``autograd.Function`` gives None for an input for which a parameter is given.

    Args:
        site: the ``return``.
        function: the class.
        name: the input, as ``forward`` calls it.
        applied: the call that gives the parameter.
        parameter: its path.
        made: what makes it.
    """

    site: Site
    function: str
    name: str
    applied: Site
    parameter: str
    made: Site


@dataclass(frozen=True, slots=True)
class Unscaled:
    """A loss is backpropagated as it is, and a ``GradScaler`` that did not multiply it takes the step.

    Args:
        site: the backward.
        loss: what is backpropagated.
        step: the step, which divides its gradients.
        scaler: the path of the scaler.
    """

    site: Site
    loss: Site
    step: Site
    scaler: str


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A straight-through estimator has the value of what was to be rounded, and the gradient of what came of it.

    Args:
        site: the sum.
        chosen: what was rounded, or chosen.
        encoded: what it is made of.
    """

    site: Site
    chosen: str
    encoded: str


@dataclass(frozen=True, slots=True)
class EstimatedEarly:
    """A codebook is trained by what a straight-through estimator gives, which has no graph that leads to it.

    Args:
        site: the estimator.
        loss: what is to train the codebook.
        chosen: the variable that has the codes before it, and its result from then on.
        encoded: what the gradients go to.
    """

    site: Site
    loss: Site
    chosen: str
    encoded: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A batch is passed over after its backward, and its gradients stay for the next one.

    Args:
        site: what passes it over.
        backward: what left the gradients.
        reset: the reset that is not reached then.
    """

    site: Site
    backward: Site
    reset: Site


@dataclass(frozen=True, slots=True)
class RenewedAnchor:
    """The old value that a ratio is taken with is computed anew in each pass over the same data.

    Args:
        site: what computes it.
        loop: the passes.
        new: the value that is divided by it.
        step: what changes the policy in between.
    """

    site: Site
    loop: Site
    new: Site
    step: Site


@dataclass(frozen=True, slots=True)
class ReplayedDraw:
    """A checkpoint runs something again that draws random numbers, and does not restore their state.

    Args:
        site: what tells it not to.
        call: the checkpoint.
        drawing: what draws, or makes what draws.
    """

    site: Site
    call: Site
    drawing: Site


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
class Unguarded:
    """A backward runs whether there is an optimizer or not, and only where there is one are the gradients reset.

    Args:
        site: the backward.
        step: the step, which asks for the optimizer.
        optimizer: the path that may be None.
    """

    site: Site
    step: Site
    optimizer: str


@dataclass(frozen=True, slots=True)
class ChangedBetween:
    """Weights are changed in place through ``.data`` between a forward and its backward.

    Args:
        site: the statement of the function that trains.
        module: the path of the module.
        changed: the expression or statement that changes them, perhaps in a helper.
        run: the forward.
        backward: its backward.
    """

    site: Site
    module: str
    changed: Site
    run: Site
    backward: Site


@dataclass(frozen=True, slots=True)
class SteppedBetween:
    """An optimizer steps between a forward and its backward, which needs the weights as they were.

    Args:
        site: the backward.
        module: the path of the module.
        optimizer: that of the optimizer.
        step: its step.
        run: the forward.
        again: the backward comes again in the next iteration, after the step; the forward is before the loop.
        for_other: the backward is for another optimizer, which steps after it.
    """

    site: Site
    module: str
    optimizer: str
    step: Site
    run: Site
    again: bool = False
    for_other: str | None = None


@dataclass(frozen=True, slots=True)
class UnusedGraph:
    """A network runs with a graph that nothing asks for.

    Args:
        site: the call.
        module: the path of the network.
        use: what becomes of what it gives: it is ``cut`` off the graph at once, or ``later``, or ``unread``.
        in_training: a backward is beside it, whose graphs live at the same time.
        is_alone: nothing else in its statement needs a graph.
        is_given_graph: what it is given has a graph that a backward goes through otherwise.
    """

    site: Site
    module: str
    use: str
    in_training: bool
    is_alone: bool
    is_given_graph: bool


@dataclass(frozen=True, slots=True)
class WrittenBehind:
    """A value with a graph is changed in place through ``.data`` or ``.detach()``, and goes on to the loss.

    Args:
        site: the statement that changes it.
        name: the variable.
        is_watched: it is changed through ``.detach()``.
        made: what computes it.
        used: what computes with it afterwards.
    """

    site: Site
    name: str
    is_watched: bool
    made: Site
    used: Site


@dataclass(frozen=True, slots=True)
class ChangedInPlace:
    """A tensor that the backward of an operation needs as it was is changed in place.

    Args:
        site: what changes it.
        name: the variable, where it has one.
        kept: the operation.
        operation: what it is called.
        is_result: it needs what it gave; otherwise what it was given.
        is_alone: the variable is the only one that has the tensor.
    """

    site: Site
    name: str | None
    kept: Site
    operation: str
    is_result: bool
    is_alone: bool


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


@dataclass(frozen=True, slots=True)
class OverwrittenTerm:
    """A term of a loss takes the place of another one in their dict, before anything has read that.

    Args:
        site: what puts it there.
        base: the dict; empty for one that is written out.
        key: the word.
        lost: the value that was there.
    """

    site: Site
    base: str
    key: str
    lost: Site


@dataclass(frozen=True, slots=True)
class OnlyDetached:
    """A parameter never gets a gradient, as all that is computed of it is detached.

    Args:
        site: what detaches it, the last in the text.
        name: the attribute.
        made: where it is made.
    """

    site: Site
    name: str
    made: Site


@dataclass(frozen=True, slots=True)
class DetachedStart:
    """Fast weights begin without the graph of the parameters that are to be trained through them.

    Args:
        site: the copies that they begin with.
        module: the path of what is copied, in the function that has the outer loss.
        inner: the gradients of an inner step.
        backward: that of the outer loss.
        step: the step after it.
        optimizer: its path.
    """

    site: Site
    module: str
    inner: Site
    backward: Site
    step: Site
    optimizer: str


@dataclass(frozen=True, slots=True)
class PartlyReset:
    """Several optimizers are stepped in a loop, and only some of them are reset.

    Args:
        site: the reset of these.
        stepped: the loop that steps all of them.
        left: the paths of the others.
    """

    site: Site
    stepped: Site
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeftByError:
    """A context manager leaves something in a collection where its block raises.

    Args:
        site: the statement that puts it there.
        path: the collection.
        raising: an error that the block lets out.
    """

    site: Site
    path: str
    raising: Site


@dataclass(frozen=True, slots=True)
class KeptContext:
    """The context of every call of an ``autograd.Function`` is put into a collection that nothing empties.

    Args:
        site: the statement that does.
        path: the collection.
        context: the variable.
    """

    site: Site
    path: str
    context: str


@dataclass(frozen=True, slots=True)
class KeptKey:
    """An entry of a ``WeakKeyDictionary`` whose value has its key.

    Args:
        site: the statement that makes it.
        path: the dict.
        key: the variable.
    """

    site: Site
    path: str
    key: str


@dataclass(frozen=True, slots=True)
class CachedCall:
    """A tensor is given to a function with a cache, which makes it a key.

    Args:
        site: the call.
        function: the function's name.
        given: the argument, as it is written.
        kept_by: the statement that keeps it, where the cache is one of the program.
    """

    site: Site
    function: str
    given: str
    kept_by: Site | None


@dataclass(frozen=True, slots=True)
class WrappedAgain:
    """In each iteration something is put around what was put there in the one before.

    Args:
        site: the statement, or the call of torch.
        path: the place, or the layer.
        kind: ``wrapper``, ``object``, ``parametrization`` or ``mask``.
        kept: the statement of a constructor that keeps the one before.
    """

    site: Site
    path: str
    kind: str
    kept: Site | None


@dataclass(frozen=True, slots=True)
class LeftOnStack:
    """In each iteration an ``ExitStack`` is left a tensor, which it has until its block ends.

    Args:
        site: the call.
        stack: its variable.
        tensor: what it is given.
    """

    site: Site
    stack: str
    tensor: Site


@dataclass(frozen=True, slots=True)
class PutAway:
    """A pack hook puts each tensor away under a new key, and nothing takes it out again.

    Args:
        site: the statement that does.
        path: the collection.
        installed: where the hooks are installed.
        read: where the unpack hook reads it, and leaves it there.
    """

    site: Site
    path: str
    installed: Site
    read: Site | None


@dataclass(frozen=True, slots=True)
class DefaultList:
    """A list that is the default of a parameter gets longer by a tensor in each call that does not give one.

    Args:
        site: the statement that does so.
        name: the parameter.
        made: the default, which makes the list once.
        call: a call without it, in a loop that trains.
    """

    site: Site
    name: str
    made: Site
    call: Site


@dataclass(frozen=True, slots=True)
class ClassList:
    """A list that the body of a class makes gets longer by the tensors of all objects, of which a loop makes more.

    Args:
        site: the statement of a method that puts one into it.
        name: the attribute.
        made: the statement that makes the list, once.
        call: where a loop that trains makes one object after the other.
    """

    site: Site
    name: str
    made: Site
    call: Site

"""Mistakes about backwards and what they leave."""

from __future__ import annotations

from dataclasses import dataclass

from gradguard.static.source import Site


@dataclass(frozen=True, slots=True)
class AliasedGradient:
    """A gradient is collected as it is, and reset in place before the next backward fills it again.

    Args:
        site: what collects it.
        path: the collection.
        reset: what zeroes it.
    """

    site: Site
    path: str
    reset: Site


@dataclass(frozen=True, slots=True)
class ChangedGradient:
    """The ``backward`` of an ``autograd.Function`` changes a gradient in place that it is given.

    Args:
        site: what changes it.
        name: its parameter.
        function: the class.
    """

    site: Site
    name: str
    function: str


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
class PerturbedBetween:
    """The second of two backwards, between which an optimizer moves the weights along the gradients of the first.

    Args:
        site: the backward, or the call of the closure that has it.
        moved: what moves the weights.
        backward: that of the closure.
    """

    site: Site
    moved: Site
    backward: Site | None


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
class ChosenAttack:
    """A reset comes before an attack of a table, whose backward leaves gradients in the model.

    Args:
        site: the reset.
        attack: the call of the attack.
        backward: that of the attack.
        added_to: that of the loss which is trained.
        used_by: the step that uses the sum.
    """

    site: Site
    attack: Site
    backward: Site
    added_to: Site
    used_by: Site


@dataclass(frozen=True, slots=True)
class ClippedByHook:
    """A hook clips gradients that a ``GradScaler`` has not divided yet.

    Args:
        site: the clipping.
        backward: what computes the gradients of the scaled loss.
        called: where the hooks are called.
    """

    site: Site
    backward: Site
    called: Site


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

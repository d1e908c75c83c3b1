"""Mistakes about what a loss is made of."""

from __future__ import annotations

from dataclasses import dataclass

from gradguard.static.reading.unrecorded import Severed
from gradguard.static.source import Site


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
class HardLoss:
    """A loss that a program picks gives a number without a gradient.

    Args:
        site: what takes the gradient away.
        name: its class.
        how: by a comparison, or by whole numbers.
    """

    site: Site
    name: str
    how: Severed


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
        is_made_again: it is computed again, in the same way.
    """

    site: Site
    ratio: Site
    new: str
    old: str
    is_made_again: bool


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
class OnlyChosen:
    """The scores of a layer only choose: their values are used nowhere, so that it gets no gradient.

    Args:
        site: where it runs.
        name: the attribute.
        made: where it is made.
    """

    site: Site
    name: str
    made: Site


@dataclass(frozen=True, slots=True)
class EstimatedEarly:
    """A codebook is trained by what a straight-through estimator gives, which has no graph that leads to it.

    Args:
        site: the estimator.
        loss: what is to train the codebook.
        result: the variable that has its result.
        chosen: the one that has the codes, which may be the same.
        encoded: what the gradients go to.
    """

    site: Site
    loss: Site
    result: str
    chosen: str
    encoded: str


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
class LostDerivative:
    """A derivative without its graph stands in an equation beside what it is the derivative of.

    Args:
        site: what computes it.
        term: where it stands.
        backward: that of the loss which the equation is in.
    """

    site: Site
    term: Site
    backward: Site

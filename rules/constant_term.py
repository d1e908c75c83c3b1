"""A term of the loss is a number: nothing is trained by it.

**What happens.** `aux.item()`, `float(aux)` and `torch.tensor([aux])` copy the number of a tensor, without its graph,
and a loss that is computed of an output under `no_grad`, of `argmax`, or of the tensors of `state_dict()`, which are
detached, never had one. Added to a loss, it moves the value that is printed, and no gradient: the derivative of a
number is zero. backward runs, since the other terms have a graph, nothing raises, and the model never learns what that
term asks for.

```python
losses = []
for real, fake in zip(vgg(target), vgg(output)):
    losses.append(F.mse_loss(fake, real))
loss = l1 + torch.tensor(losses).sum()      # the l1 alone is trained
loss.backward()
```

**Instead**, add the tensors; `torch.stack` joins a list of them with their graphs:

```python
loss = l1 + torch.stack(losses).sum()
loss.backward()
print(f"{l1.item():.3f} {torch.stack(losses).sum().item():.3f}")      # for what is printed, a number is right
```

A function that is given outputs, and gives such numbers back, is where the finding is, whoever calls it; a tensor of
them is no better for `requires_grad=True`, which makes a leaf without a history:

```python
def hardest(output, target):
    losses = [F.mse_loss(a, b) for a, b in zip(output, target)]
    return torch.tensor(losses, requires_grad=True).mean()      # here
```

So it is with a term that NumPy computes of `output.detach().cpu().numpy()`: `torch.fft`, `torch.log` and the like do
the same with the graph.

So it is with the second derivative of a network, `grad(u_x, x)` without `create_graph=True`, that stands beside others
with their graph in the residual of an equation, `(u_t - 0.1 * u_xx).pow(2)`: nothing in it is a target.

So it is with losses that are weighed with parameters, `(torch.exp(-self.log_var) * torch.tensor(losses)).sum()`: the
weights are all that is trained.

A Dice loss takes the probabilities, not the classes that are chosen by them, `F.one_hot(logits.argmax(1))`, nor
`(probs > 0.5).float()`: also where it is picked out of a table of losses, and who adds it up sees no names. A penalty
of the weights takes `model.named_parameters()`, not `model.state_dict()`.

A network that only compares, as of a perceptual loss, must not run under `no_grad` either: the gradient goes through it
to the output. Freeze it with `vgg.requires_grad_(False)`.

So it is with what a function computes that is under `no_grad` as a whole, as it was written for an evaluation, wherever
its result goes into a loss: `1 - iou(decode(deltas, anchors), boxes)` trains no `deltas` where `decode` has the
decorator.

So it is with a term that another network computes, where that is given `fake.detach()`, as it is in its own turn: in
the loss of a generator, `l1 + bce(discriminator(fake.detach()), ones)` has the gradient of the `l1` alone. What it
leaves in the discriminator is reset before that steps.

**Not flagged.** `detach()`, which says that it is meant, but for what one network makes and another one is given in a
term of its own, whose gradients of this loss are thrown away; a number that multiplies (a weight), or that is a target:
in a square, an absolute value, a loss function, a `clamp`, a `max`, a divisor; one that trains a multiplier of its
own, `lam * (kl.item() - limit)`, `log_alpha.exp() * entropy.item()`; what is shown in the place of a value,
`loss - loss.item() + measure`; a number of what another backward has gone through; whole numbers that say
which rows of a table are taken (`one_hot @ self.codebook`); the state of another model than the one that is trained;
sums that are not backpropagated.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.tensor.html>,
<https://docs.pytorch.org/docs/stable/generated/torch.Tensor.item.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Related, Severity
from gradguard.signs import ACTS, BACKWARD, sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.fixes.rewrites import without_item
from gradguard.static.model import Constant, Function
from gradguard.static.reading.unrecorded import Severed

# A loss of two arguments, that gets less as a measure gets better, and what it makes whole numbers by.
_COMPARES = sign("def forward", pattern=r"\bdef forward\(\s*self\s*,\s*\w[^,)\n]*,", own=True)
_FALLS = sign("-", pattern=r"\b1(?:\.0*)?\s*-|(?:\breturn|=)\s*\(?-", own=True)
_HARD = sign(
    ">", "<", "max(", "round(", ".eq(", ".gt(", ".ge(", ".lt(", ".le(", "==", ".int(", ".long(", "one_hot(", "topk(",
    pattern=r"\w\)?\s*(?:[<>]=?|==)\s*[\w.(]|\b(?:argmax|round|eq|[gl][te]|int|long|one_hot|topk|max)\(",
)  # fmt: skip

rule = Rule("GG215", "constant-term", Severity.WARNING, ((BACKWARD, ACTS), (_COMPARES, _FALLS, _HARD)))


@rule.in_source
def adds_a_number(function: Function) -> Iterator[Finding]:
    for backward in function.backwards:
        for each in backward.numbers:
            what = "what it is weighed with" if each.is_weighed else "what it is added to"
            yield _told(each, backward.source.site.related(f"{what} is backpropagated here"))
    for hard in function.mistakes.losses.hard_losses():
        how, _, instead = _HOW[hard.how]
        yield rule.finding(
            hard.site,
            f"nothing is trained by the loss `{hard.name}`: what it gives is a number, {how}, and has no gradient",
            help=instead,
        )
    for term in function.mistakes.losses.cut_terms():
        yield rule.finding(
            term.site,
            f"`{term.judge}` is given this without its graph: no gradient leads to `{term.module}`, and nothing is "
            "trained by this term of its loss",
            help="give it as it is here, and detach it in the other one's loss",
            related=(
                term.made.related(f"`{term.module}` makes it here"),
                term.backward.related("what it is added to is backpropagated here"),
            ),
        )


def _told(constant: Constant, spread: Related) -> Finding:
    term, copied = constant.term, constant.copied
    how, there, instead = _HOW[constant.how]
    if constant.function:
        return rule.finding(
            copied,
            f"`{constant.function}` runs under `no_grad`, and a term of a loss is computed of what it gives: nothing "
            "is trained by that",
            help="leave out the decorator, and turn gradients off where it is called to evaluate",
            related=(term.related("this is the term"), spread),
        )
    is_given = constant.is_given and not constant.is_weighed
    fix = None if is_given else without_item(term)
    if is_given:  # the function that makes it is wrong, whoever calls it
        term, copied, there = copied, term, "this term of a loss is such a number"
    return rule.finding(
        term,
        f"nothing is trained by `{one_line(term.code)}`: it is a number, {how}, and has no gradient",
        help=instead,
        fix=fix,
        related=(*(() if copied.line == term.line else (copied.related(there),)), spread),
    )


_HOW = {
    Severed.COPIED: (
        "copied out of its graph",
        "it is copied here",
        "add the tensor itself (`torch.stack` joins a list of them with their graphs)",
    ),
    Severed.ARRAY: (
        "handed to NumPy, which records no graph",
        "its graph ends here",
        "compute the term with torch, of the tensors themselves",
    ),
    Severed.NO_GRAD: (
        "computed without a graph, under `no_grad`",
        "no graph is recorded here",
        "compute it outside `no_grad`; a network that is to stay as it is gets `requires_grad_(False)` instead",
    ),
    Severed.COMPARED: (
        "computed of a comparison",
        "this has no gradient",
        "compute it of the probabilities, not of what they are rounded to",
    ),
    Severed.CHOSEN: (
        "computed of whole numbers that are chosen",
        "these have no gradient",
        "compute it of the probabilities, not of what is chosen by them",
    ),
    Severed.STATE: (
        "computed of `state_dict()`, whose tensors are detached",
        "they are detached here",
        "take the parameters themselves: `named_parameters()`",
    ),
    Severed.DATA: ("computed of `.data`, without a graph", "the graph ends here", "leave out `.data`"),
    Severed.NO_CREATE_GRAPH: (
        "computed of gradients without their graph",
        "these gradients have no graph",
        "let `torch.autograd.grad` make it: `create_graph=True`",
    ),
}

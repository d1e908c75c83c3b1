"""A network is given what `sample()` draws: what the distribution is computed by gets no gradient through it.

**What happens.** `torch.distributions` draws in `sample()` under `no_grad`: the result has no graph. That of
`torch.normal(mean, std)` has one, whose gradient is zero. A decoder, or a critic, that is given such a sample is
trained, and nothing raises, as the loss has a graph; the encoder, or the policy, is trained by the other terms alone.
So a variational autoencoder learns a latent space that the reconstruction has no say in, and a soft actor-critic
maximizes the entropy of its policy, whatever the critic says; where the critic is frozen meanwhile, what it says of
the sample is a mere number.

```python
mu, logvar = self.encode(x)
z = Normal(mu, (0.5 * logvar).exp()).sample()       # or torch.normal(mu, std)
return self.decode(z), mu, logvar                   # trains the encoder by the KL term only
```

A base class may draw, of what its heirs compute, `self.encode(x)`; so may a helper, `self.draw(posterior)`.

**Instead**, draw with the reparametrization: `rsample()` draws noise, and computes the sample of it.

```python
z = Normal(mu, (0.5 * logvar).exp()).rsample()      # or mu + std * torch.randn_like(std)
```

What is drawn of a `OneHotCategorical` needs an estimator for that, as a discrete latent space has: the straight-through
one, `sample + probs - probs.detach()`, which `OneHotCategoricalStraightThrough` has in its `rsample()`.

**Not flagged.** The score function: a sample whose `log_prob` is multiplied by a return or an advantage (REINFORCE,
PPO), as that is its gradient, and a critic whose answer may be such a weight; other distributions without `rsample`
(`Categorical`, `Bernoulli`); a one-hot sample where something is detached beside it, by which an estimator is made;
what is drawn under `no_grad`, or of constants; a draw beside `rsample()`, for an evaluation; a critic that is trained
with samples of a policy that is not, as by conservative Q-learning; an environment that is given the sample. Where a
caller does the backward, a log-probability must be a term of its loss: alone, the caller may multiply it.

**References.** <https://docs.pytorch.org/docs/stable/distributions.html#pathwise-derivative>; Kingma and Welling,
"Auto-Encoding Variational Bayes" (2013); Haarnoja et al., "Soft Actor-Critic" (2018).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import ACTS, TRAINING, sign
from gradguard.static.model import Function

# A draw, or a loss of what a method of another file draws, beside its probability.
_DRAWS = sign(
    "sample", "normal", pattern=r"\.sample(?:_n)?\(|\btorch\.normal\(", own=True, reaches=True, inherited=True
)
_DISTRIBUTION = sign("istribution", "torch.normal")
_LOGS = sign("log", pattern=r"\blog_?p(?:i|rob\w*)?\b|\blog_?p\w*\s*[,=]", own=True)

rule = Rule("GG230", "drawn-without-gradient", Severity.ERROR, ((_DISTRIBUTION, _DRAWS), (TRAINING, _LOGS, ACTS)))


_INSTEAD = {
    (True, False): "compute it of the mean and of noise: `mean + std * torch.randn_like(std)`",
    (False, True): "add an estimator, `sample + probs - probs.detach()`, as `OneHotCategoricalStraightThrough` does in "
    "`rsample()`",
    (False, False): "draw with `rsample()`",
}


@rule.in_source
def trains_nothing_through(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.losses.drawn():
        how = "has a gradient of zero" if each.is_zero else "has no graph"
        yield rule.finding(
            each.site,
            f"what is drawn here {how}: no gradient of the loss goes through it to the distribution",
            help=_INSTEAD[each.is_zero, each.is_one_hot],
            related=(each.run.related("this is given it, and gives nothing back"),),
        )

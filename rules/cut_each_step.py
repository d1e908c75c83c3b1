"""A recurrent state is detached in each step of a sequence: nothing is learned from more than one step.

**What happens.** `state.detach()` ends the graph of the state. Once a chunk of the sequence, after its backward, that
is truncated backpropagation. In each step of the chunk, before the loss that is of all steps, it leaves the network
nothing of its past: what a cell does with what it remembers gets no gradient from any later step, and nothing raises.

```python
for t in range(x.size(1)):
    state = self.cell(x[:, t], state.detach())
    outputs.append(self.head(state))
return torch.stack(outputs, 1)                  # each output trains the step that it was made in
```

**Instead**, detach before the loop, where the state comes from the chunk before:

```python
state = state.detach()
for t in range(x.size(1)):
    state = self.cell(x[:, t], state)
    outputs.append(self.head(state))
```

**Not flagged.** A loop with a backward or a step of the optimizer in each iteration; a detach under a condition
(`if t % 35 == 0`); a loop over batches, under `no_grad`, or of an evaluation; modules that are no recurrent layers of
torch, as iterations that refine a result may be meant to be cut.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html>; Williams and Peng, "An
efficient gradient-based algorithm for on-line training of recurrent network trajectories" (1990).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.model import Function

_CUTS = sign(
    ".detach()", "repackage", "detach", "runcat",
    pattern=r"\.detach\(\)|\b\w*(?:repackage|detach|[tT]runcat)\w*\(",
    own=True,
)  # fmt: skip
_CELLS = sign("LSTM", "GRU", "RNN", pattern=r"\bnn\.(?:LSTM|GRU|RNN)(?:Cell)?\(|\b(?:LSTM|GRU|RNN)(?:Cell)?\(")

rule = Rule("GG232", "cut-each-step", Severity.WARNING, ((_CELLS, _CUTS),))


@rule.in_source
def remembers_nothing(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.losses.cut_each_step():
        yield rule.finding(
            each.site,
            f"`{each.state}` is detached in each step: no loss reaches the steps before its own",
            help="detach it once, before the loop, if it comes from an earlier chunk; else not at all",
            related=(each.run.related("this cell gives it to the next step"),),
        )

"""A module is replaced after its optimizer was made: the new one is never trained.

**What happens.** An optimizer is given parameters, not a model: `optim.SGD(model.parameters())` goes through them once
and keeps the tensors. A layer that is replaced afterwards, or a model that is made or loaded anew, has others. backward
computes their gradients, `step()` moves the old ones, which nobody calls any more and the optimizer keeps alive with
their state, and nothing raises. The new ones stay as they were made, and their gradients add up, since
`optimizer.zero_grad()` does not know them either.

```python
model = models.resnet18(weights="DEFAULT")
optimizer = optim.SGD(model.parameters(), lr=0.01)
model.fc = nn.Linear(512, 2)        # the head is never trained
```

Who gives it the parameters does not matter: `optim.SGD(layer_groups(model, lr))`, with a helper that makes a group of
each of `[model.fc, model.layer4, ...]`, has those of the old layer, too.

So it is with an object that makes its network anew in one method, `self.net = Net()`, and its optimizer once: in its
constructor, or as a `cached_property`; or that puts a copy in its place, as a client which is sent the server's model
in each round, `self.net = copy.deepcopy(server.net)`: `self.net.load_state_dict(server.net.state_dict())` keeps the
parameters. And with a derived class that replaces a part, `super().__init__(); self.net.head = nn.Linear(512, 2)`,
where the constructor of its base has made the optimizer, or in a method that this constructor calls then, or somebody
before the training.

So it is with a training loop that goes back to its best checkpoint by another object, `net = Net.load(best)`: from
there on the old one is moved, and the new one evaluated; with a method that adds a head for each task; and with a
setup that puts adapters into the model and returns it beside the optimizer that it made before.

Nor does it learn of what a `forward` makes when it first knows a size, or meets a new kind of its input:

```python
def forward(self, x, kind):
    if kind not in self.relations:                  # an nn.ModuleDict, empty when the optimizer is made
        self.relations[kind] = nn.Linear(x.shape[1], self.out)
    return self.relations[kind](x)
```

Or when its first batch says how a parameter is to begin: `self.bias = nn.Parameter(-x.mean(0))` puts a new one in the
place of that which the optimizer has; `self.bias.copy_(-x.mean(0))`, under `no_grad`, sets its values.

Nor does it learn of parameters that want gradients later, where it was given only those that did before:

```python
model.encoder.requires_grad_(False)
optimizer = optim.Adam(p for p in model.parameters() if p.requires_grad)
...
model.encoder.requires_grad_(True)  # computes gradients from here on, and is never trained
```

Whoever unfreezes it: a callback may have been given the encoder, `Trainer(model, [FreezeUntil(model.encoder, 10)])`.

**Instead**, make the optimizer when the model is as it is to be trained, or add what is new with
`optimizer.add_param_group({"params": model.fc.parameters()})`.

```python
model = models.resnet18(weights="DEFAULT")
model.fc = nn.Linear(512, 2)
optimizer = optim.SGD(model.parameters(), lr=0.01)
```

An optimizer may be given frozen parameters, too: it leaves alone what has no gradient.

**Not flagged.** What wraps the model and keeps its parameters (`nn.DataParallel(model)`, `torch.compile(model)`,
`model.to(device)`, `load_state_dict`), modules without parameters (`nn.Identity()`, a loss), an optimizer that is made
anew or gets more parameters afterwards (somewhere in the program, if a callback unfreezes), or that does not step any
more: a model that is loaded for the test. A part that has an optimizer of its own, is frozen, or copies another one (a
target network). A `forward` that has run before the optimizer is made, as with a sample, and `nn.LazyLinear`, whose
parameters are there from the start.

**References.** <https://docs.pytorch.org/docs/stable/optim.html#constructing-it>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function, Replacement

_MAKES = sign("parameters", "ptim", "opt", pattern=r"parameters\(|\b\w*[oO]pt\w*\s*=", own=True)
_TRAINED = sign("ptim", pattern=r"\boptim\b|ptimi[sz]er\s*=")
# A method of a derived class that replaces a part of what its base has made.
_INHERITS = sign("class ", pattern=r"^\s*class \w+\((?!(?:torch\.)?(?:nn\.)?Module\)|object\)|ABC\)|\))")
_REPLACES = sign(
    "self.",
    pattern=r"\bself\.\w+[.\[][^\n=(]*=[ \t]*(?:\w+\.)*"
    r"(?:[A-Z]\w*|_?(?:make|build|create|new|get|init|head)\w*|\w+_head)\(",
    own=True,
)
_TORCH = sign("torch", pattern=r"\btorch\b")

rule = Rule("GG210", "stale-optimizer", Severity.ERROR, ((_MAKES, _TRAINED), (_INHERITS, _REPLACES, _TORCH)))


@rule.in_source
def trains_the_old_one(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.replacements():
        notes = (
            [] if each.is_left_out else [each.made.related(f"the optimizer is made at `{one_line(each.made.code)}`")]
        )
        if each.replaced != each.site:
            doing = "unfrozen" if each.is_unfrozen else "made anew"
            notes.append(each.replaced.related(f"this is where it is {doing}: `{one_line(each.replaced.code)}`"))
        if each.chosen is not None:
            notes.append(each.chosen.related("these are the parameters that it was given"))
        what = (
            f"what is unfrozen here is never trained: `{each.optimizer}` was given only what wanted gradients before"
            if each.is_unfrozen
            else f"what is made here is never trained: `{each.optimizer}` has the parameters of what was there before"
        )
        if each.is_late:
            what = f"what is made here, when the model runs, is never trained: `{each.optimizer}` is made before that"
        if each.is_left_out:
            what = f"`{each.optimizer}` is given only what wants gradients now: what is unfrozen later is never trained"
        yield rule.finding(
            each.site,
            what,
            help=_help(each),
            related=tuple(notes),
        )


def _help(each: Replacement) -> str:
    if each.is_late:
        return "make it in the constructor, or run the model once before the optimizer is made"
    if each.is_left_out:
        return "give it all parameters: it leaves alone what has no gradient"
    return f"make `{each.optimizer}` after this, or give it the new parameters with `add_param_group`"

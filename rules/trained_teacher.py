"""The teacher of a distillation is trained: the optimizer of the student has its parameters, and the loss its graph.

**What happens.** `teacher.eval()` changes what dropout and batch norm do; gradients go through it as before. Where one
module has the student and the teacher, `module.parameters()` has the parameters of both, and a loss that compares the
two moves both: the teacher comes to meet its student, and forgets what it knew. The loss falls faster than it should,
and nothing raises.

```python
class Distiller(nn.Module):
    def __init__(self, student, teacher):
        super().__init__()
        self.student, self.teacher = student, teacher.eval()

    def forward(self, x, y):
        s, t = self.student(x), self.teacher(x)         # with its graph
        return F.cross_entropy(s, y) + kd_loss(s, t)

optimizer = optim.Adam(distiller.parameters())          # has both
```

**Instead**, freeze the teacher before the optimizer is made, and run it without a graph:

```python
self.teacher.requires_grad_(False)
...
with torch.no_grad():
    t = self.teacher(x)
```

**Not flagged.** A teacher that is frozen, or run under `no_grad`, or whose output is detached; an optimizer of the
student alone, or one that is given the teacher's parameters by name; a program that freezes anything, or makes averages
of weights. Where the program does not keep the teacher in evaluation mode, the two may be meant to learn from each
other: that is reported with low confidence.

**References.** <https://docs.pytorch.org/tutorials/beginner/knowledge_distillation_tutorial.html>;
<https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Severity
from gradguard.signs import TRAINS
from gradguard.static.model import Function

rule = Rule("GG238", "trained-teacher", Severity.ERROR, TRAINS)


@rule.in_source
def trains_it(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.optimizers.trained_teachers():
        yield rule.finding(
            each.site,
            f"`{each.teacher}` runs here with a graph, and `{each.optimizer}` has its parameters: the loss trains it",
            help=f"call `{each.teacher}.requires_grad_(False)` where it is set up, and run it under `torch.no_grad()`",
            confidence=Confidence.HIGH if each.is_sure else Confidence.LOW,
            related=(
                each.backward.related("this backward computes its gradients"),
                each.step.related("this step moves it"),
            ),
        )

"""Figures are made in a loop and never closed.

**What happens.** pyplot keeps every figure in a registry until it is closed, with its canvas and all data drawn into
it: megabytes of host memory each. Matplotlib warns at the 21st. Losing the variable does not help.

```python
for epoch in range(epochs):
    fig, ax = plt.subplots()
    ax.imshow(sample)
    fig.savefig(f"{epoch}.png")
```

**Instead**: `plt.close(fig)` after saving; `plt.close()` where the figure has no name.

**Not flagged.** `plt.close`, also where each caller of a function closes what that makes now and then
(`plt.close("all")`); `plt.show` (the figure is the user's to close), a figure with a number that is used again, one
that is returned or handed on, `SummaryWriter.add_figure` (it closes), `matplotlib.figure.Figure`, which is not
registered; no more than twenty figures, as numbers in the source say (`range(500)`, `if epoch % 50 == 0`).

**References.** Tomiinek/Multilingual_Text_to_Speech#19,
<https://matplotlib.org/stable/api/_as_gen/matplotlib.pyplot.close.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Fix, Severity
from gradguard.signs import FIGURE, LOOP
from gradguard.static import tree as t
from gradguard.static.fixes.line_edits import last_in_loop
from gradguard.static.knowledge import PYPLOT
from gradguard.static.model import Call, Function

rule = Rule("GG505", "figure-not-closed", Severity.WARNING, ((FIGURE, LOOP),))

_MAKERS = tuple(PYPLOT + name for name in ("figure", "subplots", "subplot_mosaic"))
_CLOSERS = (PYPLOT + "close", PYPLOT + "clf", PYPLOT + "show", "add_figure", "clf", "show")

_MANY = 20
"""Of more open figures than these matplotlib warns."""


@rule.in_source
def stays_registered(function: Function) -> Iterator[Finding]:
    makers, closers = list(function.calls_of(*_MAKERS)), list(function.calls_of(*_CLOSERS))
    for call in makers:
        if any(not _closes_another(closer, call, makers) for closer in closers):
            continue
        if (times := call.times) is not None and times <= _MANY:
            continue
        if call.loop is not None and not call.once and not _is_reused(call) and not call.written.handed_on:
            if call.conditional and function.mistakes.kept.close_all_figures(call):
                continue
            in_training = call.loop.trains and call.site.cell is None  # a notebook closes them when the cell ends
            certain = in_training and call.loop.is_long and not call.callee_decides
            yield rule.finding(
                call.source.site,
                "a new figure in every iteration, and none is closed: pyplot keeps each with all that is drawn into it",
                help=f"call `{_closing(call.written)}` when it is saved",
                fix=_fix(call),
                confidence=Confidence.HIGH if certain else Confidence.LOW,
            )


def _closes_another(closer: Call, maker: Call, makers: list[Call]) -> bool:
    """Whether a figure is closed by a helper that makes one itself, and not the one that this is about."""
    around = closer.callers
    is_near = maker.callers[: len(around)] == around
    is_all = closer.literal("fig", 0) == "all"
    return not is_near and not is_all and any(other.callers == around for other in makers)


def _is_reused(call: Call) -> bool:
    """Whether it has a number or a name: the second time it is the same figure."""
    return call.has("num") or (call.name.endswith(".figure") and call.literal("num", 0) is not None)


def _fix(call: Call) -> Fix | None:
    """Close it as each iteration ends, where each makes it, by the name that pyplot has here."""
    node = call.site.node
    pyplot = t.path_of(node.func.value) if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) else None
    if pyplot is None or call.inner is not None or call.conditional or call.loop is None:
        return None
    return last_in_loop(call.loop, _closing(call, pyplot))


def _closing(call: Call, pyplot: str = "plt") -> str:
    """What closes it: that of its name, or the one that was made last."""
    name = call.bound_to or ""
    is_name = all(map(str.isidentifier, name.split("."))) and name.strip("_")
    return f"{pyplot}.close({name if is_name else ''})"

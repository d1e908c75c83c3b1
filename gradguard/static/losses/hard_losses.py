"""Losses of a program that compare their predictions with a limit first: what they give has no gradient.

Where somebody calls one by its name, the sum that it is a term of is looked at. Here are those that are picked out of
others, by a word of the configuration or one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.losses import HardLoss
from gradguard.static.model import Mode
from gradguard.static.program.classes import Class
from gradguard.static.reading.unrecorded import Copied, Severed, innermost
from gradguard.static.source import Site
from gradguard.static.values import Held, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LOSS = re.compile(r"loss|criteri|objective", re.I)
_MEASURE = re.compile(r"acc|metric|eval|monitor|meter|rate|hit|err", re.I)
_PREDICTION = re.compile(r"pred|logit|out|prob|score|hat|input", re.I)
_TARGET = re.compile(r"targ|tgt|label|truth|true|mask|^(?:gt|y|t)$", re.I)
_PROBABILITY = frozenset("sigmoid softmax logsigmoid log_softmax".split())
_DECORATOR = re.compile(r"@([\w.]+)")
_TABLE = r"(?:\w+\.)*\w*(?i:loss|criteri)\w*"
_TRAINS = re.compile(r"\.backward\(")


def hard_losses(flow: Flow) -> Iterator[HardLoss]:
    """Where the ``forward`` of a loss loses the graph of its prediction, which is all that has one (reads files)."""
    owner, define = flow.ref.owner, flow.ref.define
    if define.name != "forward" or owner is None or not owner.is_module or flow.facts.is_test:
        return
    lost = _lost(flow) if flow.facts.entry_mode is not Mode.OFF and _MEASURE.search(owner.name) is None else None
    if lost is None or not all(map(_falls, flow.ref.given_back())) or not _is_picked_loss(owner):
        return
    if flow.project.survey.mentions(_TRAINS, flow.module) and not flow.facts.called_without_grad():
        yield HardLoss(lost.site, owner.name, lost.how)


def _lost(flow: Flow) -> Copied | None:
    """The numbers that are all that is left of the first argument, where that is what a network predicts."""
    params = [param.name for param in flow.ref.define.params if not param.star][1:]
    returned = flow.facts.returns
    keys = (innermost(held.key) for held in returned.holding(Held.COPIED, Held.UNRECORDED))
    if len(params) < 2 or any(root.source is Source.GRAPH or root.base == params[0] for root in returned.reach):
        return None
    for key in keys:
        is_hard = isinstance(key, Copied) and key.how in (Severed.COMPARED, Severed.CHOSEN)
        if is_hard and isinstance(key, Copied) and any(root.base == params[0] for root in key.roots):
            is_predicted = _PREDICTION.search(params[0]) is not None or _TARGET.search(params[1]) is not None
            return key if is_predicted or _is_of_probability(key.site) else None
    return None


def _is_of_probability(site: Site) -> bool:
    return any(isinstance(node, t.Call) and node.name in _PROBABILITY for node in t.walk(site.node))


def _falls(expr: t.Expr) -> bool:
    """Whether something gets less as a measure gets better: ``1 - dice``, ``-score``, ``(1 - dice).mean()``."""
    while isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and not expr.args:
        expr = expr.func.value
    while isinstance(expr, t.Operation) and expr.operator in ("*", "/", "**"):
        expr = next((each for each in expr.operands if isinstance(each, t.Operation)), expr.operands[0])
    return isinstance(expr, t.Operation) and expr.operator == "-"


# --- whether it is a loss -----------------------------------------------------------------------------------------


def _is_picked_loss(cls: Class) -> bool:
    """Whether a class is among the losses that a program picks from, and nothing else makes one by its name."""
    name, survey = re.escape(cls.name), cls.module.project.survey
    if survey.mentions(re.compile(rf"[\w\])]\s*=\s*(?:\w+\.)*{name}\("), cls.module, cls.name):
        return False
    if _is_registered(cls):
        return True
    among = re.compile(rf"(?i:loss|criteri)\w*\s*(?::[^=\n]*)?=[^\n]*[\[{{(,:]\s*(?:\w+\.)*{name}\b(?!\.)")
    return survey.mentions(among, cls.module, cls.name)


def _is_registered(cls: Class) -> bool:
    """``@LOSSES.register("dice")``, ``@register_loss``, or a function that puts it into a table of that name."""
    around = re.search(rf"(?m)^((?:@[^\n]*\n)+)class {re.escape(cls.name)}\b", cls.module.source.text)
    for line in around[1].splitlines() if around is not None else ():
        path = _DECORATOR.match(line)
        if path is not None and _LOSS.search(path[1]) is not None:
            return True
        puts = (
            rf"(?m)^def {re.escape(path[1])}\([^\n]*\n(?:[ \t]+[^\n]*\n|\n)*?[ \t]+{_TABLE}\["
            if path is not None
            else ""
        )
        if puts and cls.module.project.survey.mentions(re.compile(puts), cls.module):
            return True
    return False

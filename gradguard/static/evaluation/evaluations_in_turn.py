"""A model that is run for each phase in turn, of which only the training's goes on to a backward.

``for phase in ("train", "valid")`` is around the loop over batches, and each backward under ``if phase == "train"``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Forward, Mode
from gradguard.static.reading.phases import Told, told_at
from gradguard.static.reading.roots import node_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Loop

_OF_TRAINING = re.compile(r"(?:train(?:ing)?|trn|tr|fit)(?:_\w+)?", re.I)
_OF_EVALUATION = re.compile(
    r"(?:val(?:id(?:ation)?)?|test(?:ing)?|eval(?:uation)?|dev|infer\w*|predict\w*)(?:_\w+)?", re.I
)
_HARMLESS_CONTEXT = re.compile(r"autocast|tqdm|profil|record_function|suppress|time|open|progress|bar\b", re.I)
# What is told the word of a phase, and switches nothing.
_TOLD_THE_WORD = re.compile(
    r"print|format|log\w*|info|debug|warning|add_scalars?|write|update|append|len|str|upper|lower|capitalize|join|train|"
    r"eval|tqdm|range|enumerate|zip|save\w*|get|items|keys|set_description|set_postfix|float|int|dict|isinstance|"
    r"ceil|floor|round|max|min|sum|mean|\w*[Ll]oaders?|\w*[Dd]ataset\w*",
)
_SWITCHES = frozenset("requires_grad requires_grad_ __enter__ set_grad_enabled enter_context".split())
_BY_MODE = re.compile(r"set_grad_enabled\(\s*(?:mode\s*=\s*)?self\.training")


def recorded_in_vain(flow: Flow, loop: Loop) -> Forward | None:
    """The first module call of a loop over batches that records a graph for words whose iterations only evaluate.

    Where it is seen that nothing switches gradients off for them, and no other backward goes through that graph.
    """
    told = [next((part for part in told_at(flow, each.site.node) if _trains(part)), None) for each in loop.backwards]
    names = {part.name if part is not None else "" for part in told}
    name = names.pop() if len(names) == 1 else ""
    around = next((outer for outer in loop.around() if outer is not loop and name in outer.targets), None)
    stmt = around.site.node if around is not None else None
    if (
        not isinstance(stmt, t.Repeat)
        or loop.grad_calls
        or not (_goes_over_evaluations(stmt) or _evaluates(flow, name))
    ):
        return None
    if _may_switch(flow, stmt, name):
        return None
    recorded = (f for f in loop.forwards if f.inner is None and f.is_shown and f.mode in (Mode.INHERITED, Mode.ON))
    told_in = ((f, [part for part in told_at(flow, f.site.node) if part.name == name]) for f in recorded)
    evaluating = (f for f, parts in told_in if all(map(_runs_in_evaluation, parts)))
    found = next((f for f in evaluating if not f.is_frozen and not f.may_learn_itself), None)
    return None if found is None or _is_used_elsewhere(flow, loop, found) else found


def _trains(part: Told) -> bool:
    """Whether a part of a function runs for the word of a training."""
    of_training = _OF_TRAINING.fullmatch(part.text) is not None
    return of_training if part.equal else _OF_EVALUATION.fullmatch(part.text) is not None


def _runs_in_evaluation(part: Told) -> bool:
    """Whether a part of a function surely runs for the words of evaluations: behind the ``else`` of a training's."""
    return (_OF_TRAINING if not part.equal else _OF_EVALUATION).fullmatch(part.text) is not None


def _goes_over_evaluations(stmt: t.Repeat) -> bool:
    """Whether a loop goes over words that are written there, and one of them is that of an evaluation."""
    words = (node.value for node in t.walk(stmt.iterable) if isinstance(node, t.Constant))
    return any(isinstance(word, str) and _OF_EVALUATION.fullmatch(word) for word in words)


def _evaluates(flow: Flow, name: str) -> bool:
    """Whether some module is put into evaluation mode, where a word is not that of a training."""
    parts = [part for part in flow.told if part.name == name and not _trains(part)]
    calls = (node for part in parts for node in part.nodes if isinstance(node, t.Call))
    return any(isinstance(call.func, t.Attribute) and call.func.name == "eval" for call in calls)


def _may_switch(flow: Flow, stmt: t.Repeat, name: str) -> bool:
    """Whether anything in a loop over phases may switch gradients off: a context, a call that is told the word."""
    nodes = list(t.walk(stmt))
    contexts = (context for node in nodes if isinstance(node, t.With) for context, _ in node.items)
    if any(_HARMLESS_CONTEXT.search(_name_of(context)) is None for context in contexts):
        return True
    if any(isinstance(node, t.Attribute) and node.name in _SWITCHES for node in nodes):
        return True
    told = (node for node in nodes if isinstance(node, t.Call) and any(_names(arg.value, name) for arg in node.args))
    if any(_TOLD_THE_WORD.fullmatch(call.name) is None for call in told):
        return True
    return flow.project.survey.mentions(_BY_MODE, flow.module, "set_grad_enabled")


def _name_of(context: t.Expr) -> str:
    return context.name if isinstance(context, t.Call) else t.path_of(context) or ""


def _names(expr: t.Expr, name: str) -> bool:
    return any(isinstance(node, t.Name) and node.id == name for node in t.walk(expr))


def _is_used_elsewhere(flow: Flow, loop: Loop, forward: Forward) -> bool:
    """Whether a backward that is not in the loop goes through the graph of a module call."""
    others = [each.value for each in flow.facts.backwards if each not in loop.backwards]
    others += [each.value for each in flow.facts.grad_calls]
    return any(node_of(root.key) is forward.site.node for value in others for root in value.reach)

"""Evaluations of a model that is in training mode, as nothing puts it into evaluation mode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.backward.filled import goes_through
from gradguard.static.evaluation.evaluation_loops import is_evaluation
from gradguard.static.evaluation.mode_layers import texts_of
from gradguard.static.evaluation.sure_layers import calls_in, class_has_mode_layers, surely_has_mode_layers
from gradguard.static.mistakes.evaluation import NeverInEvaluation
from gradguard.static.model import Backward, Event, Forward, Loop, Mode, OpaqueCall, TrainingMode
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.made_objects import Place, makers
from gradguard.static.program.paths import is_part, is_within, last
from gradguard.static.reading.forwards import leaves_function

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Module

# Whatever may put a model into evaluation mode, by torch's own method or by somebody's; a comment tells of it as well.
_SETS = re.compile(
    r"\.eval\b|\.train\(\s{0,20}(?:mode\b|False|not\b|\w{0,40}(?:train|mode|eval|phase|flag)\w{0,40}\s{0,8}(?:\)|==|!=))"
    r"|\.training\s*=(?!=)|\bmethodcaller\("
    r"|\bgetattr\([^\n]{0,80}?(?:[\"'](?:eval|train)[\"']|\bmode\b|\bphase\b)"
)
# Modes that are set under other names.
_NAMED = re.compile(
    r"\b(?:[a-z]+_)?(?:set|switch|toggle|change|put|to)_(?:[a-z]+_)?(?:mode|train|training|eval|dropout)(?:_mode)?\("
    r"|\bdef \w{0,40}(?:train|eval|evaluation|test|inference)_mode\(|super\([^)\n]{0,60}\)\.(?:train|eval)\("
    r"|\bfor (\w{1,40}) in [^\n]{1,120}\n?\s{0,40}\1(?:\.\w{1,40}){0,4}\.eval\("
    r"|\b(\w{1,40})(?:\.\w{1,40}){0,4}\.eval\(\) for \2 in\b|\.apply\([^\n]{0,80}?\.eval\b"
)
# What answers otherwise in training, and may be asked for that: the losses of a detector.
_ANSWERS = re.compile(r"\b(?:if|and|or|elif|while|assert|return)\s+(?:not\s+)?self\.training\b")
# They put what they evaluate into evaluation mode themselves.
_FRAMEWORKS = re.compile(
    r"^\s*(?:from|import)\s+(?:pytorch_lightning|lightning|lightning_fabric|fastai|ignite|catalyst|skorch|mmcv|mmengine|"
    r"poutyne|torchbearer|composer|flair|fairseq|allennlp|sentence_transformers|avalanche|super_gradients|keras|"
    r"detectron2|torchtnt|texar|parlai|espnet\w*|speechbrain|stable_baselines3)\b"
    r"|^\s*from\s+transformers\s+import\b[^\n]*\bTrainer\b",
    re.M,
)
# Who draws with dropout on purpose, estimates the statistics anew, or has commented it out.
_ON_PURPOSE = (
    re.compile(
        r"\bmc_?|monte|uncertain|bayes\w{0,8}[ _](?:nn|net|drop|infer|predict|approx)"
        r"|ensembl|epistemic|\btent\b|adabn|update_bn|recalibrat|bn_stat",
        re.I,
    ),
    re.compile(r"#[^\n]{0,120}?(?:\.eval\(|train(?:ing)? mode)"),
)
_GENERATOR = re.compile(
    r"(?:^|[._])(?:g|net_?g\w*|g_?net|g_\w{1,3}|g[ab]{2}|g\d|\w*gen(?:erator)?s?)$|generator|sampler", re.I
)


class _Value(NamedTuple):
    """What a model is made by, and the function in which that stands."""

    module: Module
    function: FunctionRef | None
    expr: t.Expr


def never_in_evaluation(flow: Flow) -> Iterator[NeverInEvaluation]:
    """The evaluations of models that surely compute something else in training (reads other files)."""
    if flow.facts.is_test or flow.module.holds_tests:
        return
    told: set[object] = set()
    for forward in flow.facts.forwards:
        run = _evaluation(forward) or _as_told(flow, forward)
        around = None if run is None else (run.loop.site if run.loop is not None else run.site).node
        if run is None or around in told or _is_told(forward):
            continue
        trained = _trained(flow, forward)
        if trained is None and run is not forward:
            continue  # the function that evaluates tells of it
        if forward.mode is not Mode.OFF and leaves_function(flow, forward):
            continue
        if _is_said_somewhere(flow, trained) or any(each.search(run.site.chunk.text) for each in _ON_PURPOSE):
            continue
        module = _concerned(flow, forward)
        if module is not None and _is_left_in_training(flow, forward, module, trained):
            told.add(around)
            yield NeverInEvaluation(run.site, module, None if trained is None else trained.source.site)


def _evaluation(forward: Forward) -> Event | None:
    """What runs a module in each iteration of a loop that is there to evaluate, of whichever function on the way."""
    event: Event | None = forward
    while event is not None:
        if event.loop is not None and _evaluates(event.loop):
            return event
        event = event.inner
    return None


def _as_told(flow: Flow, forward: Forward) -> Event | None:
    """The call by which a function that evaluates runs one that trains as well: ``self.run(x, train=False)``."""
    loop = forward.inner.loop if forward.inner is not None else None
    if loop is None or not loop.over_loader or not is_evaluation(flow):
        return None
    return forward if loop.trains_otherwise and not (loop.backwards or loop.grad_calls or loop.steps) else None


def _is_told(forward: Forward) -> bool:
    """Whether something was put into evaluation mode before, on any way, or may be where the module is run."""
    event: Event | None = forward
    while event is not None:
        if isinstance(event, Forward) and (event.is_evaluated or event.evaluates):
            return True
        event = event.inner
        if event is not None and event.site.chunk.shows(_SETS):
            return True
    return False


def _evaluates(loop: Loop) -> bool:
    around: Loop | None = loop
    while around is not None:
        if around.evaluates or around.evaluates_by_name:
            return not _learns(around)
        around = around.parent
    return False


def _learns(loop: Loop) -> bool:
    return bool(loop.backwards or loop.grad_calls or loop.steps or loop.needs_gradients or loop.trains_otherwise)


def _trained(flow: Flow, forward: Forward) -> Backward | None:
    """What trains the same module in the same function, before it is evaluated there."""
    runs = [each for each in flow.facts.forwards if each.module == forward.module and each is not forward]
    pairs = ((back, run) for back in flow.facts.backwards for run in runs)
    return next((back for back, run in pairs if not run.is_evaluated and goes_through(back, run)), None)


def _concerned(flow: Flow, forward: Forward) -> str | None:
    """The path of the model that is run, or that what is run is a part of, if it has layers for which it matters."""
    parts = forward.module.split(".") if forward.module is not None else []
    for number in range(1, len(parts) + 1):
        path = ".".join(parts[:number])
        if path and _GENERATOR.search(path) is None and _has_layers(flow, path):
            return path
    return None


def _has_layers(flow: Flow, path: str) -> bool:
    """Whether a model has such layers, or one of those that it may be, and none answers otherwise in training."""
    owner = flow.ref.owner
    if path == "self":
        return owner is not None and owner.is_module and class_has_mode_layers(owner) and not _answers(owner)
    made = makers(Place(flow.module, flow.ref), _written(path))
    values = [_Value(each.place.module, each.place.ref, each.call) for each in made]
    bound = _values(flow, path) if not values else []
    values += [each for value in bound if not _goes_on(value.expr, path) for each in _unpacked(value)]
    if not any(surely_has_mode_layers(value.module, value.function, value.expr) for value in values):
        return False
    calls = (each for value in values for each in calls_in(value.module, value.function, value.expr))
    classes = (call.module.value_of(call.call.func).ref for call in calls)
    return not any(isinstance(cls, Class) and _answers(cls) for cls in classes)


def _answers(cls: Class) -> bool:
    return any(_ANSWERS.search(text) is not None for text in texts_of(cls))


def _written(path: str) -> t.Expr:
    """A path as an expression."""
    head, *names = path.split(".")
    expr: t.Expr = t.Name(None, head)
    for name in names:
        expr = t.Attribute(None, expr, name)
    return expr


def _values(flow: Flow, path: str) -> list[_Value]:
    """What a variable, a global or an attribute of the object is bound to."""
    if path in flow.ref.assigned:
        return [_Value(flow.module, flow.ref, expr) for expr in flow.ref.assigned[path]]
    holder, _, name = path.rpartition(".")
    if holder == "self" and flow.ref.owner is not None:
        lineage = list(flow.ref.owner.lineage())
        made = [(each, define, expr) for each in lineage for define, expr in each.assigned(name)]
        return [_Value(each.module, each.methods.get(define.name), expr) for each, define, expr in made]
    script = flow.module.script() if not holder and path not in flow.locals else None
    return [_Value(flow.module, script, expr) for expr in script.assigned.get(path, ())] if script is not None else []


def _unpacked(value: _Value) -> list[_Value]:
    """What a function of the program puts under the word that a model is taken by: ``build()["net"]``."""
    expr = value.expr
    while isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name in k.FLUENT_METHODS:
        expr = expr.func.value
    word = expr.index.value if isinstance(expr, t.Subscript) and isinstance(expr.index, t.Constant) else None
    if not isinstance(expr, t.Subscript) or not isinstance(word, str) or value.function is None:
        return [value]
    made = [expr.value, *value.function.bound_to(expr.value)]
    builders = [value.module.value_of(each.func).ref for each in made if isinstance(each, t.Call)]
    return [each for ref in builders if isinstance(ref, FunctionRef) for each in _under(ref, word)] or [value]


def _under(builder: FunctionRef, word: str) -> Iterator[_Value]:
    for given in builder.given_back():
        for key, value in given.entries if isinstance(given, t.DictDisplay) else ():
            if isinstance(key, t.Constant) and key.value == word:
                yield _Value(builder.module, builder, value)


def _goes_on(expr: t.Expr, path: str) -> bool:
    """Whether a model is bound to what it was: ``net = nn.DataParallel(net)``, ``self.net = self.net.cuda()``."""
    return any(isinstance(node, t.Name | t.Attribute) and t.path_of(node) == path for node in t.walk(expr))


def _is_said_somewhere(flow: Flow, trained: Backward | None) -> bool:
    """Whether something in the program may put the model into evaluation mode that is not seen where it is trained."""
    patterns = (_NAMED, _FRAMEWORKS) if trained is not None else (_SETS, _NAMED, _FRAMEWORKS)
    return any(flow.project.survey.mentions(each, flow.module) for each in patterns)


def _is_left_in_training(flow: Flow, forward: Forward, module: str, trained: Backward | None) -> bool:
    """Whether no event of a function may change the mode, or the last one before is a call of ``train``."""
    events = flow.facts.events
    if trained is None and any(_trains(event, module) for event in events):
        return False  # as that wants it
    before = events[: events.index(forward)]
    last = next((event for event in reversed(before) if _may_set(event, module) or _trains(event, module)), None)
    if last is not None and _trains(last, module) and trained is not None:
        is_each_time = last.loop is not None and forward.loop is not None and forward.loop.within(last.loop)
        if is_each_time and not last.conditional:
            return True
    around = list(forward.loop.around()) if forward.loop is not None else []
    later = (event for event in events if event.loop is not None and any(map(event.loop.within, around)))
    return not any(_may_set(event, module) for event in (*before, *later))


def _trains(event: Event, module: str) -> bool:
    is_on = isinstance(event, TrainingMode) and event.on is True
    return is_on and event.target is not None and is_part(module, event.target)  # type: ignore[attr-defined]


def _may_set(event: Event, module: str) -> bool:
    if isinstance(event, OpaqueCall):
        return any(path is None or is_part(module, path) or is_within(path, module) for path in event.given)
    if not isinstance(event, TrainingMode) or event.on is True:
        return False
    target = event.target
    return target is None or is_part(module, target) or is_part(target, module) or last(target) == last(module)

"""Which schedulers wait for the highest value of what is to be low, or for the lowest of what is to be high."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import PlateauDirection
from gradguard.static.optimizers.steps_of_schedulers import steps_of
from gradguard.static.program.functions import FunctionRef
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_PLATEAU = "torch.optim.lr_scheduler.ReduceLROnPlateau"
_DEPTH = 2
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LOSSES = frozenset(("loss", "losses"))
_TO_BE_LOW = frozenset("error errors err mse rmse mae mape nll perplexity ppl wer cer".split())
_TO_BE_HIGH = frozenset(
    "acc accs accuracy accuracies dice iou miou f1 auc auroc psnr ssim bleu precision recall reward rewards".split()
)
# What turns the direction of a value round, or is about something else.
_OTHERWISE = frozenset(
    "neg negative minus inv inverse delta diff gap drop gain improvement target threshold weight".split()
)
_TURNING = frozenset("neg negative __neg__ sub rsub subtract".split())
_NUMBERS = frozenset("float round mean sum average nanmean item detach cpu numpy tensor compute".split())
_FIELDS = ("avg", "average", "mean", "val", "value", "data")


def plateau_directions(flow: Flow) -> Iterator[PlateauDirection]:
    """The steps of a function's schedulers that are told what goes the other way than they wait for."""
    if flow.facts.is_test:
        return
    ref = flow.ref
    yield from _monitored(flow)
    for path, values in ref.assigned.items():
        made = [each for value in values for each in _plateaus(ref, value)]
        modes = {_mode(call) for _, call in made}
        mode = modes.pop() if len(modes) == 1 else None
        if mode is None or "[" in path:
            continue
        maker, call = made[0]
        told = {id(step): (user, step) for user, step in steps_of(ref, path)}
        known = [(user, step, way) for user, step in told.values() if (way := _way(user, step)) is not None]
        if any(way == mode for _, _, way in known):
            continue  # one of several steps, each for what is chosen
        for user, step, way in known[:1]:
            metric = step.argument("metrics", 0)
            if metric is not None:
                yield PlateauDirection(
                    Site(user.chunk, step), Site(user.chunk, metric), mode, way, Site(maker.chunk, call)
                )


def _plateaus(ref: FunctionRef, value: t.Expr, depth: int = _DEPTH) -> Iterator[tuple[FunctionRef, t.Call]]:
    """The calls that make what an expression gives, also those of a function of the program, each with who does."""
    if isinstance(value, t.Conditional):
        yield from _plateaus(ref, value.body, depth)
        yield from _plateaus(ref, value.orelse, depth)
    if not isinstance(value, t.Call):
        return
    if str(ref.module.value_of(value.func).ref) == _PLATEAU:
        yield ref, value
        return
    callee = ref.callee(value) if depth else None
    for each in callee.given_back() if callee is not None else ():
        yield from _plateaus(callee, each, depth - 1) if callee is not None else ()


def _mode(call: t.Call) -> str | None:
    """Whether a scheduler waits for the lowest value, ``min``, or the highest; None where that is not written."""
    if any(arg.star for arg in call.args):
        return None
    mode = call.argument("mode", 1)
    if mode is None:
        return "min"
    value = mode.value if isinstance(mode, t.Constant) else None
    return value if isinstance(value, str) and value in ("min", "max") else None


def _way(ref: FunctionRef, step: t.Call) -> str | None:
    metric = step.argument("metrics", 0)
    return _direction(ref, metric) if metric is not None else None


def _direction(ref: FunctionRef, value: t.Expr, depth: int = _DEPTH) -> str | None:
    """Whether a value is to be low, ``min``, or high, by the names in it; None where that is not certain."""
    if isinstance(value, t.Call):
        return _of_call(ref, value, depth)
    if isinstance(value, t.Operation):  # ``total_loss / len(loader)``
        return _direction(ref, value.operands[0], depth) if value.operator == "/" else None
    if isinstance(value, t.Subscript):
        word = _word(value.index)
        return direction_of(word) if word is not None else _direction(ref, value.value, depth)
    if isinstance(value, t.Attribute) and value.name in _FIELDS:
        return _direction(ref, value.value, depth)
    path = t.path_of(value)
    if path is None:
        return None
    way = direction_of(path.rpartition(".")[2])
    if way is not None and _is_changed(ref, path):
        return None
    bound = ref.assigned.get(path, []) if depth and way is not None else []
    return way if all(_agrees(ref, each, way, depth - 1) for each in bound) else None


def _is_changed(ref: FunctionRef, path: str) -> bool:
    """Whether a name is turned round in place, or an ``acc`` is what things are added up in: ``acc *= -1``."""
    changes = (s for s in ref.define.statements if isinstance(s, t.Augment) and t.path_of(s.target) == path)
    is_sum = path.rpartition(".")[2] in ("acc", "accs")
    return any(is_sum or change.operator.rstrip("=") in ("-", "*") for change in changes)


def _agrees(ref: FunctionRef, value: t.Expr, way: str | None, depth: int) -> bool:
    """Whether what a name is bound to does not tell that it goes another way: ``acc = -loss``, ``loss = 1 - dice``."""
    if isinstance(value, t.Operation):
        is_minus = value.operator == "-"
        return not is_minus and all(_agrees(ref, each, way, depth) for each in value.operands)
    if isinstance(value, t.Call) and value.name in _TURNING:
        return False
    known = _direction(ref, value, depth) if isinstance(value, t.Call | t.Name | t.Attribute) else None
    return known is None or known == way


def _word(value: t.Expr) -> str | None:
    word = value.value if isinstance(value, t.Constant) else None
    return word if isinstance(word, str) else None


def _of_call(ref: FunctionRef, call: t.Call, depth: int) -> str | None:
    """``loss.item()``, ``np.mean(losses)``, ``logs.get("acc")``; of another call its own name tells."""
    func, given = call.func, call.args[0].value if call.args else None
    word = _word(given) if given is not None and call.name == "get" else None
    if word is not None:
        return direction_of(word)
    if call.name not in _NUMBERS:
        return direction_of(call.name)
    inner = func.value if given is None and isinstance(func, t.Attribute) else given
    return _direction(ref, inner, depth) if inner is not None else None


def direction_of(name: str) -> str | None:
    """Whether what has a name is to be low, ``min``, or high: ``val_loss``, ``valAcc``, ``mean_dice``, ``f1``."""
    words = {word.lower() for word in _WORD.findall(name)} | set(name.lower().split("_"))
    if not _OTHERWISE.isdisjoint(words):
        return None
    if not _LOSSES.isdisjoint(words):
        return "min"
    is_low, is_high = not _TO_BE_LOW.isdisjoint(words), not _TO_BE_HIGH.isdisjoint(words)
    return None if is_low == is_high else "min" if is_low else "max"


def _monitored(flow: Flow) -> Iterator[PlateauDirection]:
    """``{"scheduler": ReduceLROnPlateau(optimizer, mode="max"), "monitor": "val_loss"}``, as Lightning is told."""
    ref = flow.ref
    for node in ref.define.nodes:
        entries = _entries(node) if isinstance(node, t.DictDisplay) else {}
        monitor = entries.get("monitor")
        scheduler = entries.get("scheduler") or entries.get("lr_scheduler")
        word = _word(monitor) if monitor is not None else None
        if word is None or monitor is None or scheduler is None:
            continue
        made = [each for value in ref.bound_to(scheduler) for each in _plateaus(ref, value)]
        modes, way = {_mode(call) for _, call in made}, direction_of(word)
        mode = modes.pop() if len(modes) == 1 else None
        if mode is not None and way is not None and mode != way:
            maker, call = made[0]
            yield PlateauDirection(flow.site(monitor), flow.site(monitor), mode, way, Site(maker.chunk, call))


def _entries(made: t.DictDisplay) -> dict[str, t.Expr]:
    pairs = ((key.value if isinstance(key, t.Constant) else None, value) for key, value in made.entries)
    return {key: value for key, value in pairs if isinstance(key, str)}

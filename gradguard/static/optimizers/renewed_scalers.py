"""Which gradient scalers are made anew in each epoch, so that they forget the scale that they had come to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import RenewedScaler
from gradguard.static.optimizers.epochs import calls_in_epochs, counted, is_over_epochs, loops_around
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.reaching import levels_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_SCALERS = frozenset(("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"))
_TUNED = ("init_scale", "growth_interval", "growth_factor", "backoff_factor")
_OF_PRECISION = re.compile(r"amp|fp16|float16|half|mixed|autocast|precision|cuda", re.I)
_RESTORES = re.compile(r"load|resume|restor|save|checkpoint", re.I)
_OF_TIME = re.compile(r"epoch|step|iter|first|scaler", re.I)
# A bfloat16 has the range of a float32: its gradients need no scale, and nothing is skipped.
_NEEDS_NONE = re.compile(r"bfloat16|bf16")


def renewed_scalers(flow: Flow) -> Iterator[RenewedScaler]:
    """The scalers that a function makes in a loop over epochs, or that makes them and is called there."""
    ref = flow.ref
    if flow.facts.is_test or ref.chunk.shows(_NEEDS_NONE):
        return
    for stmt in ref.define.statements:
        if not isinstance(stmt, t.Assign) or not _makes_scaler(ref, stmt.value):
            continue
        path = t.path_of(stmt.targets[0]) if len(stmt.targets) == 1 else None
        if path is None or _is_remembered(ref, path) or not _is_always_made(ref, stmt):
            continue
        around = loops_around(ref.define, stmt)
        if around:
            if is_over_epochs(around[-1]) and _is_used(around[-1].body, path):
                yield RenewedScaler(flow.site(stmt), path, counted(flow, around[-1]), None)
        elif _lasts_one_epoch(ref, path):
            for caller, call, loop in calls_in_epochs(flow):
                yield RenewedScaler(flow.site(stmt), path, counted(caller, loop), caller.site(call))
                break


def _makes_scaler(ref: FunctionRef, value: t.Expr) -> bool:
    """``GradScaler()``, ``GradScaler("cuda") if amp else None``; not one whose scale somebody has chosen."""
    if isinstance(value, t.Conditional):
        made = [each for each in (value.body, value.orelse) if not isinstance(each, t.Constant)]
        return len(made) == 1 and _makes_scaler(ref, made[0])
    if not isinstance(value, t.Call) or str(ref.module.value_of(value.func).ref) not in _SCALERS:
        return False
    enabled = value.argument("enabled")
    asked = t.path_of(enabled) if enabled is not None else None
    given = next((param.default for param in ref.define.params if param.name == asked), enabled)
    is_off = isinstance(given, t.Constant) and not given.value
    return not is_off and not any(arg.star or arg.keyword in _TUNED for arg in value.args)


def _is_remembered(ref: FunctionRef, path: str) -> bool:
    """Whether the state of a scaler goes on, or it is bound to what was there: ``scaler.load_state_dict(state)``."""
    asked = (node for node in ref.define.all(t.Attribute) if t.path_of(node.value) == path)
    is_kept = any(node.name in ("load_state_dict", "state_dict") for node in asked) or _is_restored(ref, path)
    given = (stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return) and stmt.value is not None)
    is_returned = any(t.path_of(node) == path for value in given for node in t.walk(value) if isinstance(node, t.Name))
    bound = [value for value in ref.assigned.get(path, []) if not isinstance(value, t.Constant)]
    return is_kept or is_returned or len(bound) > 1


def _is_restored(ref: FunctionRef, path: str) -> bool:
    """Whether a helper is given it that is named as one which brings a state back: ``load(net, scaler)``."""
    helpers = (call for call in ref.calls if _RESTORES.search(call.name) is not None)
    return any(t.path_of(arg.value) == path for call in helpers for arg in call.args)


def _is_always_made(ref: FunctionRef, stmt: t.Stmt) -> bool:
    """Whether nothing asks first, but for the precision: ``if amp: scaler = GradScaler()``."""
    around = [block[at] for block, at in levels_of(ref.define.body, stmt)[:-1]]
    asking = [each for each in around if not isinstance(each, t.Repeat | t.With)]
    return all(isinstance(each, t.If) and _is_of_precision(each.test) for each in asking)


def _is_of_precision(test: t.Expr) -> bool:
    """``args.amp``, ``use_amp and device.type == "cuda"``; not ``scaler is None``, ``epoch == 0 and amp``."""
    operators = [node.operator for node in t.walk(test) if isinstance(node, t.Operation)]
    paths = [t.path_of(node) or "" for node in t.walk(test) if isinstance(node, t.Name | t.Attribute)]
    is_plain = all(operator in ("and", "==", "!=") for operator in operators)
    return is_plain and any(map(_OF_PRECISION.search, paths)) and not any(map(_OF_TIME.search, paths))


def _lasts_one_epoch(ref: FunctionRef, path: str) -> bool:
    """Whether a function takes the steps of a scaler in one loop over batches, and has no loop around that."""
    loops = [loops_around(ref.define, node) for node in ref.define.nodes if _uses(node, path)]
    return bool(loops) and all(len(around) == 1 and not is_over_epochs(around[0]) for around in loops)


def _is_used(body: list[t.Stmt], path: str) -> bool:
    """Whether some statements take steps with a scaler, or hand it to what does."""
    calls = (node for node in t.walk(body) if isinstance(node, t.Call))
    return any(_uses(call, path) or any(t.path_of(arg.value) == path for arg in call.args) for call in calls)


def _uses(node: t.Node, path: str) -> bool:
    func = node.func if isinstance(node, t.Call) else None
    return isinstance(func, t.Attribute) and func.name in ("scale", "step", "update") and t.path_of(func.value) == path

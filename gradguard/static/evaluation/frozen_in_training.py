"""Parts that a constructor freezes and puts into evaluation mode, and that `model.train()` takes out of it again."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.evaluation.sure_layers import surely_has_mode_layers
from gradguard.static.mistakes.evaluation import FrozenInTraining
from gradguard.static.model import TrainingMode
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.made_objects import Place, makers
from gradguard.static.program.names import put_into_evaluation
from gradguard.static.program.own_methods import methods_of
from gradguard.static.program.parameters import chosen, flags_given, frozen_by, making
from gradguard.static.program.paths import is_part, is_within
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# Layers whose modes somebody sets one by one, by whatever way; layers that have no averages to move.
_ONE_BY_ONE = re.compile(
    r"isinstance\([^\n]*(?:Norm|Dropout)|Frozen_?BatchNorm|track_running_stats\s*=\s*False|\.momentum\s*=(?!=)|"
    r"(?:bn|norm)_?eval|freeze_?(?:bn|norm|batch)|def train\(self,\s*mode|"
    r"\.train\s*=(?!=)|get_submodule\(|forward_pre_hook",
    re.I,
)


_SETTING_UP = k.FLUENT_METHODS | {"parameters", "named_parameters", "load_state_dict", "state_dict", "modules", "apply"}
_GOING_OVER = ("modules", "named_modules", "children", "apply")


class _Part(NamedTuple):
    """A part of a module that its constructor freezes and puts into evaluation mode.

    Args:
        path: by the object's own name.
        put: what does so.
        by: the methods that the constructor runs, itself among them.
    """

    path: str
    put: Site
    by: frozenset[str]


def frozen_in_training(flow: Flow) -> Iterator[FrozenInTraining]:
    """The calls of ``train`` in a function that trains which such parts follow (reads other files)."""
    if flow.facts.is_test or not flow.facts.backwards:
        return
    yield from _of_function(flow)
    for mode in flow.facts.training_modes:
        cls = _class_at(flow, mode.target) if _is_put(mode) and mode.inner is None else None
        if cls is None or mode.target is None or not cls.is_module or cls.method("train") is not None:
            continue
        part = next((each for each in _parts(cls) if _follows(flow, cls, each)), None)
        if part is not None:
            name = part.path.removeprefix("self.")
            yield FrozenInTraining(mode.site, mode.target, f"{mode.target}.{name}", part.put)


def _of_function(flow: Flow) -> Iterator[FrozenInTraining]:
    """The same where a function freezes the part itself: ``body.eval()``, then ``model.train()`` in each epoch."""
    modes = flow.facts.training_modes
    frozen = {path for stmt in t.walk_statements(flow.ref.define.body) for path in frozen_by(stmt)}
    for place, put in enumerate(modes if frozen else ()):
        part = put.target
        if part is None or part not in frozen or put.on is not False or put.inner is not None or put.loop is not None:
            continue
        later = modes[place + 1 :]
        taken = next((mode for mode in later if _is_put(mode) and _has_part(flow, mode.target, part)), None)
        is_set = any(is_part(mode.target or "", part) for mode in later)
        if taken is not None and not is_set and _is_for_training(flow, part):
            yield FrozenInTraining(taken.source.site, taken.target or "", part, put.site)


def _is_put(mode: TrainingMode) -> bool:
    """Whether a module itself is put into training mode; not one that may have it."""
    source, call = mode.source, mode.source.site.node
    func = call.func if isinstance(call, t.Call) else None
    if mode.on is not True or not isinstance(func, t.Attribute) or not isinstance(source, TrainingMode):
        return False
    return t.path_of(func.value) == source.target


def _has_part(flow: Flow, whole: str | None, part: str) -> bool:
    """Whether a module has another one: ``model.body``, or ``body`` of ``model = nn.Sequential(body, head)``."""
    if whole is None or is_within(part, whole):
        return whole is not None
    made = [making(value) for value in flow.ref.assigned.get(whole, ())]
    given = [[t.path_of(arg.value) for arg in call.args] for call in made if call is not None]
    return len(given) == len(made) == 1 and part in given[0]


def _is_for_training(flow: Flow, part: str) -> bool:
    """Whether a part that a function has computes something else in training, and nothing sets its mode besides."""
    name, survey = part.rpartition(".")[2], flow.project.survey
    values = flow.ref.assigned.get(part) or flow.ref.assigned.get(part.partition(".")[0], [])
    have_layers = [surely_has_mode_layers(flow.module, flow.ref, value) for value in values]
    if not have_layers or not all(have_layers) or survey.mentions(_ONE_BY_ONE, flow.module):
        return False
    methods = (call.func for call in flow.ref.calls if isinstance(call.func, t.Attribute))
    over = [t.path_of(func.value) for func in methods if func.name in _GOING_OVER]
    return part not in over and not survey.acts(name, _setting(name), flow.module, (flow.facts.name,))


def _setting(name: str) -> re.Pattern[str]:
    """What sets the mode of what has a name, or goes over its layers."""
    return re.compile(rf"\b{re.escape(name)}\b(?:\.\w+)*\.(?:eval|train|modules|named_modules|children|apply)\(")


def _setting_part(name: str) -> re.Pattern[str]:
    """The same of a part of an object; ``teacher.train()`` of a variable may be how it was trained before that."""
    of_any = r"(?:\.\w+)*\.(?:eval|modules|named_modules|children|apply|train(?!\(\s*(?:True\s*)?\)))\("
    return re.compile(rf"\b{re.escape(name)}\b{of_any}|\.{re.escape(name)}\b(?:\.\w+)*\.train\(")


def _class_at(flow: Flow, path: str | None) -> Class | None:
    if path is None:
        return None
    ref = flow.ref.owner if path == "self" else flow.read(flow.canonical(path), flow.final).ref
    if ref is None and path in flow.params:
        ref = flow.project.passed.argument_class(flow.ref, path)
    return ref if isinstance(ref, Class) else None


def _parts(cls: Class) -> Iterator[_Part]:
    """The parts of a module that are as its constructor leaves them."""
    starting = list(_starting(cls))
    by = frozenset(method.define.name for method, _ in starting)
    frozen = {path for method, body in starting for path in _frozen(method, body)}
    frozen |= {
        path for method, body in starting for path, _ in _put_into_evaluation(method, body) if _gives_none(cls, path)
    }
    for method, body in starting:
        for path, node in _put_into_evaluation(method, body):
            if path in frozen:
                yield _Part(path, Site(method.chunk, node), by)


def _gives_none(cls: Class, path: str) -> bool:
    """Whether a module runs a part of it where no graph is recorded, and nowhere else: ``no_grad``, ``detach()``."""
    runs, unrecorded = 0, 0
    for method in methods_of(cls):
        calls = [node for node in method.define.all(t.Call) if _is_run(node, path)]
        hidden = set(cut(method.define)) if calls else set()
        runs += len(calls)
        unrecorded += sum(call in hidden for call in calls)
    return 0 < runs == unrecorded


def _is_run(call: t.Call, path: str) -> bool:
    """``self.teacher(x)``, ``self.teacher.encode(x)``; not what only sets it up: ``self.teacher.eval()``."""
    name = t.path_of(call.func) or ""
    return name == path or (is_within(name, path) and call.name not in _SETTING_UP)


def _starting(cls: Class) -> Iterator[tuple[FunctionRef, list[t.Stmt]]]:
    """The constructors, and the methods that they run, each with the statements that run where nobody asks for more."""
    waiting, seen = ["__init__"], {"__init__"}
    for name in waiting:
        for method in (each for each in methods_of(cls) if each.define.name == name):
            body = list(chosen(method.define.body, flags_given(method.define.params[1:], None)))
            yield method, body
            called = (t.path_of(node.func) or "" for node in t.walk(body) if isinstance(node, t.Call))
            own = {path.removeprefix("self.") for path in called if path.startswith("self.") and path.count(".") == 1}
            waiting.extend(sorted(own - seen))
            seen |= own


def _frozen(method: FunctionRef, body: list[t.Stmt]) -> Iterator[str]:
    paths = (path for stmt in t.walk_statements(body) for path in frozen_by(stmt))
    yield from filter(None, (_kept(method, path) for path in paths))


def _put_into_evaluation(method: FunctionRef, body: list[t.Stmt]) -> Iterator[tuple[str, t.Node]]:
    """``self.body.eval()``, ``self.body = load().eval()``."""
    for stmt in t.walk_statements(body):
        value = stmt.value if isinstance(stmt, t.Assign | t.Evaluate) else None
        if value is None or not put_into_evaluation(value):
            continue
        targets = stmt.targets if isinstance(stmt, t.Assign) else [_called_on(value)]
        for path in filter(None, map(t.path_of, targets)):
            if (kept := _kept(method, path)) is not None:
                yield kept, value


def _called_on(value: t.Expr) -> t.Expr:
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute):
        value = value.func.value
    return value


def _kept(method: FunctionRef, path: str) -> str | None:
    """The path of an attribute, also where a variable becomes it."""
    return path if path.startswith("self.") else method.kept_as(path)


def _follows(flow: Flow, cls: Class, part: _Part) -> bool:
    """Whether a part computes something else then, and nothing in the program sets its mode again."""
    name = part.path.rpartition(".")[2]
    survey, near = flow.project.survey, flow.module
    if survey.mentions(_ONE_BY_ONE, near) or survey.acts(name, _setting_part(name), near, part.by):
        return False
    return not _is_called_again(flow, part.by) and _has_layers(cls, part.path)


def _is_called_again(flow: Flow, methods: Collection[str]) -> bool:
    """Whether something but the constructor calls a method that it runs: ``model.freeze()`` after ``model.train()``."""
    others = (name for name in sorted(methods) if name != "__init__")
    return any(
        flow.project.survey.acts(name, re.compile(rf"\.{re.escape(name)}\("), flow.module, methods) for name in others
    )


def _has_layers(cls: Class, path: str) -> bool:
    """Whether whatever a part is bound to has layers for which the mode matters."""
    name, found = path.removeprefix("self."), []
    for each in cls.lineage():
        for define, value in each.assigned(name):
            method = each.methods.get(define.name)
            values = method.bound_to(value) if method is not None else [value]
            others = [one for one in values if t.path_of(_called_on(one)) != path]  # self.body = self.body.eval()
            found += [_makes_layers(each, method, one) for one in others]
    return bool(found) and all(found)


def _makes_layers(cls: Class, method: FunctionRef | None, value: t.Expr) -> bool:
    """Whether what an expression makes has such layers, or each of what the callers give for a parameter."""
    if surely_has_mode_layers(cls.module, method, value):
        return True
    made = makers(Place(cls.module, method), value) if isinstance(value, t.Name) and method is not None else []
    return bool(made) and all(surely_has_mode_layers(each.place.module, each.place.ref, each.call) for each in made)

"""The gradient mode and the evaluation mode: contexts, decorators, statements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.evaluation.asked_too_late import asked_too_late
from gradguard.static.model import (
    Mode,
    TrainingMode,
)
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.paths import is_or_is_in
from gradguard.static.reading.called import Called
from gradguard.static.reading.conditions import outcome
from gradguard.static.reading.places import assigned_anywhere
from gradguard.static.reading.state import State
from gradguard.static.source import Site
from gradguard.static.values import (
    NOTHING,
    UNKNOWN,
    Kind,
    Value,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_TURNING = ("no_grad", "inference_mode", "set_grad_enabled")


def gradient_context(flow: Flow, expr: t.Expr, state: State | None = None) -> Mode | None:
    """The gradient mode that a decorator or a context manager sets, None if it does not."""
    if isinstance(expr, t.Conditional):  # with torch.no_grad() if frozen else nullcontext():
        either = {gradient_context(flow, expr.body, state), gradient_context(flow, expr.orelse, state)}
        return None if either == {None} else either.pop() if len(either) == 1 else Mode.UNKNOWN
    if isinstance(expr, t.Operation) and expr.operator in ("and", "or"):
        return _chosen_context(flow, expr, state)
    called = isinstance(expr, t.Call)
    func = expr.func if isinstance(expr, t.Call) else expr
    path = t.path_of(func) or ""
    head = path.split(".", 1)[0]
    value = flow.module.resolve(head) if head else None
    full = path
    if value is not None and value.kind is Kind.EXTERNAL and isinstance(value.ref, str):
        full = value.ref + path[len(head) :]
    elif state is not None and (local := state.env.get(head)) is not None and local.kind is Kind.EXTERNAL:
        full = str(local.ref) + path[len(head) :]
    if full in k.NO_GRAD:
        off = (
            called
            and isinstance(expr, t.Call)
            and isinstance(m := expr.argument("mode", 0), t.Constant)
            and m.value is False
        )
        return None if off and full.endswith("inference_mode") else Mode.OFF
    if full in k.ENABLE_GRAD:
        flow.facts.gradients_wanted = True
        return Mode.ON
    if full in k.SET_GRAD:
        setting = expr.argument("mode", 0) if isinstance(expr, t.Call) else None
        if isinstance(setting, t.Constant):
            return Mode.ON if setting.value else Mode.OFF
        told = None if setting is None or state is None else outcome(setting, lambda name: flow.given(name, state))
        if told is not None:
            return Mode.ON if told else Mode.OFF
        return _as_in_training(flow, setting, state)
    if isinstance(value, Value) and isinstance(value.ref, FunctionRef) and "." not in path:
        text = value.ref.chunk.program
        return Mode.UNKNOWN if any(word in text for word in _TURNING) else None
    is_code = value is not None and value.kind in (Kind.FUNCTION, Kind.CLASS, Kind.EXTERNAL)
    if path in flow.locals - set(flow.params) and not is_code:
        return _of_name(flow, path, state)
    if _may_turn_off(flow, func):
        return Mode.UNKNOWN
    if k.NO_GRAD_NAME.search(path.rsplit(".", 1)[-1]):
        return Mode.OFF if path.rsplit(".", 1)[-1] in ("no_grad", "inference_mode") else Mode.UNKNOWN
    return Mode.UNKNOWN if not is_code and _speaks_of_gradients(expr) else None


def _chosen_context(flow: Flow, expr: t.Operation, state: State | None) -> Mode | None:
    """The mode of the one context that is entered: of ``ema.average() and torch.no_grad()`` the last one.

    What is made is true; ``context or torch.no_grad()`` is the first one, where that is not None.
    """
    if expr.operator == "and":
        return gradient_context(flow, expr.operands[-1], state)
    first, *others = expr.operands
    if isinstance(first, t.Call):
        return gradient_context(flow, first, state)
    either = {gradient_context(flow, each, state) for each in (first, *others)}
    return either.pop() if len(either) == 1 else Mode.UNKNOWN


def _may_turn_off(flow: Flow, func: t.Expr) -> bool:
    """Whether a context comes out of a table, or from a method of the object, that has ``no_grad`` among others.

    A generator is followed: ``@contextmanager``.
    """
    nodes: Iterable[t.Node] = ()
    if isinstance(func, t.Subscript):
        table = t.path_of(func.value)
        nodes = t.walk(assigned_anywhere(flow, table)) if table is not None else ()
    elif isinstance(func, t.Attribute) and t.path_of(func.value) == "self" and flow.ref.owner is not None:
        method = flow.ref.owner.method(func.name)
        nodes = method.define.nodes if method is not None and not method.define.is_generator else ()
    return any(
        isinstance(n, t.Name | t.Attribute) and (t.path_of(n) or "").rpartition(".")[2] in _TURNING for n in nodes
    )


def _speaks_of_gradients(context: t.Expr) -> bool:
    """Whether a context that cannot be read is named after gradients: ``phase.grad_mode()``, ``self.grad_ctx``."""
    name = context.name if isinstance(context, t.Call | t.Attribute) else t.path_of(context) or ""
    return re.search(r"(?:^|_)grads?(?:_|$)|[Gg]rad(?:Mode|Context|Ctx)", name) is not None


def _of_name(flow: Flow, name: str, state: State | None) -> Mode | None:
    """The mode that a context sets which has a name: ``context = torch.no_grad() if frozen else nullcontext()``."""
    bound = [s for s in flow.ref.define.statements if isinstance(s, t.Assign)]
    values = [s.value for s in bound if any(t.path_of(n) == name for e in s.targets for n in t.names_in(e))]
    names = (n.id for value in values for n in t.walk(value) if isinstance(n, t.Name))
    if not flow.locals.isdisjoint(names):  # made of what else is there
        return Mode.UNKNOWN if any(map(_speaks_of_gradients, values)) else None
    modes = {gradient_context(flow, value, state) for value in values}
    return modes.pop() if len(modes) == 1 else Mode.UNKNOWN if modes else None


def _as_in_training(flow: Flow, setting: t.Expr | None, state: State | None) -> Mode | None:
    """``set_grad_enabled(net.training)``: off after ``net.eval()``; before it, as it was."""
    path = t.path_of(setting.value) if isinstance(setting, t.Attribute) and setting.name == "training" else None
    if path is None or state is None:
        return Mode.UNKNOWN
    if flow.canonical(path) in state.evaluating:
        return Mode.OFF
    evals = (n for n in flow.ref.define.all(t.Call) if not n.args)
    return None if any(t.path_of(call.func) == f"{path}.eval" for call in evals) else Mode.UNKNOWN


def leave(flow: Flow, state: State, mode: Mode) -> None:
    """Set the gradient mode for all that comes, also in callers, unless a context around puts it back."""
    state.mode = mode
    state.left = state.left if flow.restoring else mode


def told(c: Called) -> Mode:
    """The mode in which a module runs of which nothing is known, that may be told so: ``net(x, no_grad=True)``."""
    flag = c.node.argument("no_grad")
    if flag is None or c.state.mode is Mode.OFF:
        return c.state.mode
    off = flag.value if isinstance(flag, t.Constant) else outcome(flag, lambda name: c.flow.given(name, c.state))
    return Mode.UNKNOWN if off is None else Mode.OFF if off else c.state.mode


def _is_restored(c: Called) -> bool:
    """``set_grad_enabled(before)``, where ``before = torch.is_grad_enabled()`` was asked first."""
    setting = c.node.argument("mode", 0)
    path = t.path_of(setting) if setting is not None else None
    asked = (
        target
        for s in c.flow.ref.define.statements
        if isinstance(s, t.Assign) and isinstance(s.value, t.Call)
        and (t.path_of(s.value.func) or "").endswith("is_grad_enabled")
        for target in s.targets
    )  # fmt: skip
    return path is not None and any(t.path_of(target) == path for target in asked)


def mode_call(c: Called) -> Value | None:
    """``set_grad_enabled`` as a statement, ``ExitStack.enter_context(no_grad())``, ``.eval()`` and ``.train()``."""
    state = c.state
    if c.external in k.SET_GRAD:
        if _is_restored(c):
            state.mode, state.left = c.flow.facts.entry_mode, Mode.INHERITED
        elif (mode := gradient_context(c.flow, c.node, state)) is not None:
            leave(c.flow, state, mode)
        return NOTHING
    if c.method == "enter_context" and c.node.args:
        mode = gradient_context(c.flow, c.node.args[0].value, state)
        state.mode = mode or state.mode
        return UNKNOWN
    if c.method in ("__enter__", "__exit__") and isinstance(c.node.func, t.Attribute):
        mode = gradient_context(c.flow, c.node.func.value, state)
        if mode is not None:
            state.mode = mode if c.method == "__enter__" else c.flow.facts.entry_mode
            return NOTHING
    if _picks_a_method(c.called) and not c.node.args:  # getattr(net, mode)()
        _note_training(c, None, on=None)
    if c.method == "eval" and not c.node.args and not c.external:
        return _set_training(c, on=False)
    if c.method == "train" and len(c.node.args) <= 1 and not c.external:
        setting = c.node.argument("mode", 0)
        on = setting is None or _is_true(c, setting)
        asked = None if setting is None or on is not None else _asked_too_late(c, setting)
        return _set_training(c, on=on if asked is None else False, asked=asked)
    return None


def _asked_too_late(c: Called, setting: t.Expr) -> Site | None:
    func = c.node.func
    return asked_too_late(c.flow, func.value, setting) if isinstance(func, t.Attribute) else None


def _set_training(c: Called, *, on: bool | None, asked: Site | None = None) -> Value | None:
    """A module is put into evaluation mode, or taken out of it, by torch or by a method of its own class."""
    path = c.receiver_path or c.module_path
    ref = c.func.ref
    if isinstance(ref, FunctionRef):
        is_own = ref.owner is not None and ref.owner.is_module and len(ref.define.params) <= 2
        _note_training(c, path, on=on) if is_own and on is not False else None
        return None
    _note_training(c, path, on=on, asked=asked)
    if c.receiver is None or path is None:
        return None
    if on is False:
        c.state.evaluating |= {path}
    else:
        c.state.evaluating -= {
            p for p in c.state.evaluating if path in (p, "self") or (p[-1] == "]" and is_or_is_in(path, p))
        }
    return c.receiver


def _note_training(c: Called, path: str | None, *, on: bool | None, asked: Site | None = None) -> None:
    if path is not None and on is not False and _is_one_of_many(c.flow, path):
        path = None
    if path is None and on is False:
        return
    for target in (path, *(_wrapped_around(c.flow, path) if path is not None and on is not False else ())):
        c.flow.record(TrainingMode(
            c.flow.site(c.node), c.flow.loop, c.flow.branches > 0, target=target, on=on, asked=asked
        ))  # fmt: skip


def _picks_a_method(called: t.Expr) -> bool:
    """``getattr(net, mode)``, of a name that only the run knows."""
    if not isinstance(called, t.Call) or called.name != "getattr" or len(called.args) < 2:
        return False
    return not isinstance(called.args[1].value, t.Constant)


def _wrapped_around(flow: Flow, path: str) -> Iterator[str]:
    """The variables that something is bound to which was made of it: ``net = nn.DataParallel(model)``."""
    for name, values in flow.ref.assigned.items():
        calls = (value for value in values if isinstance(value, t.Call))
        if name != path and any(t.path_of(arg.value) == path for call in calls for arg in call.args):
            yield name


def _is_one_of_many(flow: Flow, path: str) -> bool:
    """Whether a loop goes over what is set: ``for net in (generator, critic): net.train()``."""
    head = path.split(".", 1)[0].split("[", 1)[0]
    nodes = flow.ref.define.nodes
    targets = [s.target for s in flow.ref.define.statements if isinstance(s, t.Repeat) and s.target is not None]
    targets += [clause.target for node in nodes if isinstance(node, t.Comprehension) for clause in node.clauses]
    return "[" in path or any(t.path_of(name) == head for target in targets for name in t.names_in(target))


def _is_true(c: Called, setting: t.Expr) -> bool | None:
    """Whether a module is told to train: ``train(False)``, ``train(mode == "train")`` where that is "val"."""
    if isinstance(setting, t.Constant):
        return bool(setting.value)
    return outcome(setting, lambda name: c.flow.given(name, c.state))

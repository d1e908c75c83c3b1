"""Checkpoints that cut the graph, as what they are given comes of frozen layers alone: ``checkpoint(block, x)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.backward.fed_by_data import is_fed_data
from gradguard.static.backward.frozen_as_whole import are_frozen_with_all
from gradguard.static.mistakes.backward import FrozenInput
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import comes_before
from gradguard.static.program.parameters import making, thaws

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Module

_CHECKPOINT = re.compile(r"torch\.utils\.checkpoint\.checkpoint(?:_sequential)?$")
_WANTS_ANYWAY = re.compile(r"requires_grad")
_THAWS_ALL = re.compile(
    r"\w\.requires_grad_\((?!\s*(?:requires_grad\s*=\s*)?False\b)|(?<!\.weight)(?<!\.bias)\.requires_grad\s*=\s*(?!False\b|=)|unfreeze"
)
_ELSEWHERE = re.compile(r"enable_input_require_grads|make_inputs_require_grad|output\.requires_grad_\(")


def frozen_inputs(flow: Flow) -> Iterator[FrozenInput]:
    """The reentrant checkpoints of a module that no gradient comes through (reads other files).

    What wants no gradient is run under ``no_grad``, and gives what wants none: the parameters in it get none either.
    """
    owner, ref = flow.ref.owner, flow.ref
    if owner is None or not owner.is_module or flow.facts.is_test:
        return
    for written in ref.calls:
        call = _as_checkpoint(flow, written)
        if call is None or not _is_reentrant(call):
            continue
        given = [arg.value for arg in call.args if arg.keyword is None][-1 if "_sequential" in call.name else 1 :]
        before = _layers_before(flow, written, given)
        if before is None:
            continue
        runs = _run_by(flow, call)
        learning = {each.name for each in before if not each.is_cut and not _is_frozen(flow, owner, each.name)}
        if learning and not are_frozen_with_all(flow, owner, learning, runs):
            continue
        if any(_is_frozen(flow, owner, each) for each in runs) or _may_want(flow):
            continue
        if before or (ref.define.name == "forward" and _is_of_data(flow, owner, runs)):
            yield FrozenInput(flow.site(written), tuple(dict.fromkeys(each.name for each in before)))
            return


def _is_of_data(flow: Flow, owner: Class, runs: set[str]) -> bool:
    """Whether a checkpoint of layers that are to learn is given what the model is given, which is data.

    A program that says what wants gradients may ask one of the batch, or freeze these layers.
    """
    constructor = owner.method("__init__")
    if constructor is None:
        return False
    made = (value for name in sorted(runs) for value in constructor.assigned.get(f"self.{name}", ()))
    if not any(is_made(constructor, each) for each in made):
        return False
    return not flow.project.survey.mentions(_WANTS_ANYWAY, flow.module, "requires_grad") and is_fed_data(flow, owner)


# --- what is a checkpoint -----------------------------------------------------------------------------------------


def _as_checkpoint(flow: Flow, call: t.Call) -> t.Call | None:
    """The checkpoint that a call is, or stands for: ``run(block, x)`` of ``run = partial(checkpoint, ...)``."""
    if _names_checkpoint(flow.module, call.func):
        return call
    given = _partial(flow, call.func)
    if given is not None:
        return t.Call(call.origin, given.func, [*given.args, *call.args])
    called = flow.module.value_of(call.func).ref
    path = t.path_of(call.func) or ""
    if called is None and flow.ref.owner is not None and path.startswith("self."):
        called = flow.ref.owner.method(path.removeprefix("self."))
    inner = _handed_on(called) if isinstance(called, FunctionRef) else None
    return t.Call(call.origin, inner.func, [*call.args, *inner.args]) if inner is not None else None


def _names_checkpoint(module: Module, func: t.Expr) -> bool:
    name = (t.path_of(func) or "").rpartition(".")[2]
    return name.startswith("checkpoint") and _CHECKPOINT.match(str(module.value_of(func).ref)) is not None


def _is_reentrant(call: t.Call) -> bool:
    """Whether it is told to be, or not told: of two answers the last one counts."""
    flags = [arg.value for arg in call.args if arg.keyword == "use_reentrant"]
    return all(isinstance(flag, t.Constant) and flag.value is True for flag in flags[-1:]) and not any(
        arg.star == "**" for arg in call.args
    )


def _partial(flow: Flow, func: t.Expr) -> t.Call | None:
    """The checkpoint with what ``partial`` gives it, of a variable, a global of the file, or an attribute."""
    path = t.path_of(func) or ""
    if path.startswith("self.") and flow.ref.owner is not None:
        bound = [value for cls in flow.ref.owner.lineage() for _, value in cls.assigned(path.removeprefix("self."))]
    else:
        script = flow.module.script() if path in flow.module.outline.variables else None
        bound = flow.ref.assigned.get(path) or (script.assigned.get(path, []) if script is not None else [])
    made = bound[0] if len(bound) == 1 else None
    if not isinstance(made, t.Call) or flow.module.value_of(made.func).ref != "functools.partial" or not made.args:
        return None
    run = made.args[0].value
    return t.Call(made.origin, run, made.args[1:]) if _names_checkpoint(flow.module, run) else None


def _handed_on(ref: FunctionRef) -> t.Call | None:
    """The checkpoint that a function returns of what it is given, its options: ``return checkpoint(f, *args)``."""
    params = [(param.name, param.star) for param in ref.define.params if param.name != "self" and param.star != "**"]
    for value in ref.given_back():
        if isinstance(value, t.Call) and _names_checkpoint(ref.module, value.func):
            given = [(t.path_of(arg.value), arg.star) for arg in value.args if arg.keyword is None and arg.star != "**"]
            if given == params and len(given) > 1:
                return t.Call(value.origin, value.func, [arg for arg in value.args if arg.keyword is not None])
    return None


# --- what it is given ---------------------------------------------------------------------------------------------


class _Layer(NamedTuple):
    """A part of the module by its name, and whether what it gives is cut off: ``no_grad``, ``detach()``."""

    name: str
    is_cut: bool


def _layers_before(flow: Flow, call: t.Call, given: list[t.Expr]) -> list[_Layer] | None:
    """The parts of the module that what is given is computed of; None where it may be of anything else.

    An empty list says that it is computed of the parameters of the function alone.
    """
    ref = flow.ref
    found: set[_Layer] = set()
    waiting = [t.path_of(each) or "" for each in given if not isinstance(each, t.Constant)]
    seen: set[str] = set()
    stmt = next((s for s in ref.define.statements if not t.blocks(s) and t.is_in(call, [s])), None)
    if stmt is None or not waiting:
        return None
    hidden = set(cut(ref.define))
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        made = [
            each for each in ref.define.statements if _binds(each, name) and comes_before(ref.define.body, each, stmt)
        ]
        if not name.isidentifier() or (not made and name not in flow.params):
            return None
        for each in made:
            value = each.value if isinstance(each, t.Assign) else None
            parts = list(_parts(value)) if value is not None else None
            if value is None or parts is None or not all(path.startswith("self.") for path, _ in parts if "." in path):
                return None
            is_cut = value in hidden or t.detached(value) is not None
            found |= {_Layer(path[5:].partition(".")[0], is_cut) for path, is_layer in parts if is_layer}
            waiting += [path for path, _ in parts if "." not in path and not is_cut]
    return sorted(found)


def _parts(value: t.Expr) -> Iterator[tuple[str, bool]]:
    """The names in an expression, each with whether it is a part of the module; functions of torch are none."""
    if isinstance(value, t.Call):
        path = t.path_of(value.func) or ""
        if path.startswith("self."):
            yield path, True
        elif isinstance(value.func, t.Attribute) and path.partition(".")[0] not in ("torch", "F", "nn"):
            yield from _parts(value.func.value)
        for arg in value.args:
            yield from _parts(arg.value)
    elif isinstance(value, t.Name | t.Attribute):
        path = t.path_of(value) or "?.?"
        yield path, path.startswith("self.")
    else:
        for node in _children(value):
            yield from _parts(node)


def _children(value: t.Expr) -> list[t.Expr]:
    if isinstance(value, t.Operation):
        return value.operands
    if isinstance(value, t.Subscript):
        return [value.value]
    if isinstance(value, t.Display):
        return value.items
    return []


def _run_by(flow: Flow, call: t.Call) -> set[str]:
    """The parts of the module that a checkpoint runs: ``blocks`` of ``for block in self.blocks``."""
    nodes = list(t.walk(call.args[0].value)) if call.args else []
    names = {node.id for node in nodes if isinstance(node, t.Name)}
    loops = [each for each in flow.ref.define.statements if isinstance(each, t.Repeat) and each.target is not None]
    for loop in loops:
        if any(isinstance(node, t.Name) and node.id in names for node in t.walk(loop.target)):
            nodes += t.walk(loop.iterable) if loop.iterable is not None else ()
    paths = (t.path_of(node) or "" for node in nodes if isinstance(node, t.Attribute))
    return {path.split(".")[1] for path in paths if path.startswith("self.")}


def _binds(stmt: t.Stmt, name: str) -> bool:
    if isinstance(stmt, t.Augment):
        return t.path_of(stmt.target) == name
    return isinstance(stmt, t.Assign) and any(t.path_of(n) == name for each in stmt.targets for n in t.names_in(each))


def _is_frozen(flow: Flow, owner: Class, name: str) -> bool:
    """Whether the class freezes a part of it, or the program that of an object, and nothing unfreezes that."""
    part = rf"\.{re.escape(name)}"
    of_each = r"\.parameters\(\)\s*:\s*\w+\.requires_grad"
    off = rf"{part}(?:\.requires_grad_\(\s*False\s*\)|{of_each}(?:_\(\s*False|\s*=\s*False))"
    on = re.compile(rf"{part}(?:\.requires_grad_\(\s*(?:True)?\s*\)|{of_each}\s*=\s*True)")
    survey = flow.project.survey
    if survey.mentions(on, flow.module, name):
        return False
    if _freezes_itself(flow, owner, name):
        return True
    own = re.compile(rf"\bself{off}")
    if any(own.search(cls.chunk.source.text) is not None for cls in owner.lineage()):
        return True
    made = re.compile(rf"\b(\w+)\s*=\s*(?:\w+\.)*{re.escape(owner.name)}\((?s:.{{0,4000}}?)\b\1{off}")
    return survey.mentions(made, flow.module, owner.name)


def _freezes_itself(flow: Flow, owner: Class, name: str) -> bool:
    """Whether a part is of a class that freezes all of it when it is made, and no whole model is made trainable."""
    made = [making(value) for cls in owner.lineage() for _, value in cls.assigned(name)]
    classes = [owner.module.value_of(call.func).ref if call is not None else None for call in made]
    if not made or not all(isinstance(cls, Class) and cls.is_module for cls in classes):
        return False
    for cls, call in zip(classes, made):
        if not isinstance(cls, Class) or call is None or not cls.is_frozen_as(call) or thaws(cls):
            return False
    return not flow.project.survey.mentions(_THAWS_ALL, flow.module, "requires_grad")


def _may_want(flow: Flow) -> bool:
    """Whether something is asked for a gradient so that the checkpoint has one."""
    code = flow.site(flow.ref.define).code
    return _WANTS_ANYWAY.search(code) is not None or flow.project.survey.mentions(_ELSEWHERE, flow.module)

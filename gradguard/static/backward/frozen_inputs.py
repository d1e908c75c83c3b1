"""Checkpoints that cut the graph, as what they are given comes of frozen layers alone: ``checkpoint(block, x)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.backward import FrozenInput
from gradguard.static.program.classes import Class
from gradguard.static.program.order import comes_before

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_CHECKPOINT = re.compile(r"torch\.utils\.checkpoint\.checkpoint(?:_sequential)?$")
_WANTS_ANYWAY = re.compile(r"requires_grad")
_ELSEWHERE = re.compile(r"enable_input_require_grads|make_inputs_require_grad|output\.requires_grad_\(")


def frozen_inputs(flow: Flow) -> Iterator[FrozenInput]:
    """The reentrant checkpoints of a module that no gradient comes through (reads other files).

    What wants no gradient is run under ``no_grad``, and gives what wants none: the parameters in it get none either.
    """
    owner, ref = flow.ref.owner, flow.ref
    if owner is None or not owner.is_module or flow.facts.is_test:
        return
    for call in ref.calls:
        flag = call.argument("use_reentrant")
        if flag is not None and not (isinstance(flag, t.Constant) and flag.value is True):
            continue
        named = str(flow.module.value_of(call.func).ref)
        if not call.name.startswith("checkpoint") or _CHECKPOINT.match(named) is None:
            continue
        given = [arg.value for arg in call.args if arg.keyword is None][-1 if "_sequential" in named else 1 :]
        layers = _layers_before(flow, call, given)
        if not layers or not all(_is_frozen(flow, owner, each) for each in layers):
            continue
        if not any(_is_frozen(flow, owner, each) for each in _run_by(flow, call)) and not _may_want(flow):
            yield FrozenInput(flow.site(call), tuple(layers))
            return


def _layers_before(flow: Flow, call: t.Call, given: list[t.Expr]) -> list[str]:
    """The parts of the module that what is given is computed of; none where it may be of anything else."""
    ref = flow.ref
    found: list[str] = []
    waiting = [t.path_of(each) or "" for each in given if not isinstance(each, t.Constant)]
    seen: set[str] = set()
    stmt = next((s for s in ref.define.statements if not t.blocks(s) and t.is_in(call, [s])), None)
    if stmt is None or not waiting:
        return []
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        made = [
            each for each in ref.define.statements if _binds(each, name) and comes_before(ref.define.body, each, stmt)
        ]
        if not name.isidentifier() or (not made and name not in flow.params):
            return []
        for each in made:
            value = each.value if isinstance(each, t.Assign) else None
            parts = list(_parts(value)) if value is not None else None
            if parts is None or not all(path.startswith("self.") for path, _ in parts if "." in path):
                return []
            found += [path[5:] for path, is_layer in parts if is_layer]
            waiting += [path for path, _ in parts if "." not in path]
    return sorted({name.partition(".")[0] for name in found})


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
    own = re.compile(rf"\bself{off}")
    if any(own.search(cls.chunk.source.text) is not None for cls in owner.lineage()):
        return True
    made = re.compile(rf"\b(\w+)\s*=\s*(?:\w+\.)*{re.escape(owner.name)}\((?s:.{{0,4000}}?)\b\1{off}")
    return survey.mentions(made, flow.module, owner.name)


def _may_want(flow: Flow) -> bool:
    """Whether something is asked for a gradient so that the checkpoint has one."""
    code = flow.site(flow.ref.define).code
    return _WANTS_ANYWAY.search(code) is not None or flow.project.survey.mentions(_ELSEWHERE, flow.module)

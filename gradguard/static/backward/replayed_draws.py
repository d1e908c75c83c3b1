"""Checkpoints that draw other random numbers in the backward than in the forward: ``preserve_rng_state=False``.

Only where what is run again surely draws some: a dropout that drops something, ``torch.rand`` in its ``forward``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.evaluation.sure_layers import Made, always_run, calls_in, constructors
from gradguard.static.mistakes.backward import ReplayedDraw
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Module

_CHECKPOINTS = re.compile(r"torch\.utils\.checkpoint\.(?:checkpoint|checkpoint_sequential)$")
_DROPOUT = re.compile(r"torch\.nn\.(?:modules\.\w+\.)?(?:Feature)?(?:Alpha)?Dropout\w*$")
_FUNCTION = re.compile(r"torch\.(?:nn\.functional\.(?:\w*dropout\w*|gumbel_softmax)|dropout)$")
_TRANSFORMER = re.compile(r"torch\.nn\.(?:modules\.\w+\.)?Transformer(?:Encoder|Decoder)Layer$")
_ATTENTION = re.compile(r"torch\.nn\.(?:modules\.\w+\.)?MultiheadAttention$")
_RANDOM = re.compile(r"torch\.(?:rand|randn|rand_like|randn_like|randint|randperm|bernoulli|multinomial|normal)$")
_KEEPS_STATE = re.compile(r"set_rng_state|fork_rng|manual_seed\([^\n]*\)\s*#?[^\n]*(?:recomput|replay)|\bgenerator\s*=")
_MANY = 40
_FAR = 3


def replayed_draws(flow: Flow) -> Iterator[ReplayedDraw]:
    """The calls of a checkpoint that restore no state, with what draws in what they run (reads other files)."""
    if flow.facts.is_test:
        return
    for call in flow.ref.calls:
        flag = call.argument("preserve_rng_state")
        if not isinstance(flag, t.Constant) or flag.value is not False or not call.args:
            continue
        named = flow.module.value_of(call.func).ref
        if not isinstance(named, str) or not _CHECKPOINTS.match(named) or call.argument("context_fn") is not None:
            continue
        drawing = _drawing(list(_run_by(flow, call.args[0].value, _FAR)))
        function = drawing.function if drawing is not None else None
        if drawing is not None and function is not None and not _keeps_state(flow, drawing):
            yield ReplayedDraw(flow.site(flag), flow.site(call), Site(function.chunk, drawing.call))


def _keeps_state(flow: Flow, drawing: Made) -> bool:
    """Whether the program sees to the random numbers itself."""
    return any(module.source.shows(_KEEPS_STATE) for module in (flow.module, drawing.module))


# --- what a checkpoint runs ---------------------------------------------------------------------------------------


def _run_by(flow: Flow, expr: t.Expr, far: int) -> Iterator[Made | Class | FunctionRef]:
    """The class of what is run, its method, or the calls that make it, as far as that is seen."""
    if isinstance(expr, t.Lambda):
        calls = [node for node in t.walk(expr.body) if isinstance(node, t.Call)]
        yield from (found for call in calls for found in _run_by(flow, call.func, far))
        return
    if isinstance(expr, t.Call):  # partial(block, mask=mask), create_custom_forward(block)
        yield from (found for arg in expr.args for found in _run_by(flow, arg.value, far - 1) if far)
        return
    while isinstance(expr, t.Subscript):
        expr = expr.value
    path = (t.path_of(expr) or "").removesuffix(".forward")
    if not path or not far:
        return
    ref = flow.read(flow.canonical(path), flow.final).ref
    if any(isinstance(stmt, t.Define) and stmt.name == path for stmt in flow.ref.define.statements):
        ref = None  # of the call that it is in: what it runs is known there
    holder, _, name = path.rpartition(".")
    method = flow.ref.owner.method(name) if flow.ref.owner is not None and holder == "self" else None
    if isinstance(ref, Class | FunctionRef):
        yield ref
    elif method is not None:
        yield method
    elif holder == "self" and flow.ref.owner is not None:
        yield from _of_attribute(flow.ref.owner, name)
    elif not holder:
        yield from _of_variable(flow, name, far)


def _of_attribute(owner: Class, name: str) -> Iterator[Made]:
    """What makes an attribute of an object, and what its constructor adds to it: ``self.blocks.append(Block())``."""
    for function in constructors(owner):
        for stmt in function.define.statements:
            value = stmt.value if isinstance(stmt, t.Assign | t.Evaluate) else None
            paths = [t.path_of(target) for target in stmt.targets] if isinstance(stmt, t.Assign) else []
            if isinstance(stmt, t.Evaluate) and isinstance(value, t.Call) and value.name == "append":
                paths = [(t.path_of(value.func) or "").removesuffix(".append")]
            if value is not None and f"self.{name}" in paths:
                yield from calls_in(function.module, function, value)


def _of_variable(flow: Flow, name: str, far: int) -> Iterator[Made | Class | FunctionRef]:
    """What a variable is: bound once, one of what a loop goes over, a function that is defined there, or given."""
    for stmt in flow.ref.define.statements:
        if isinstance(stmt, t.Define) and stmt.name == name:
            calls = [node for node in stmt.nodes if isinstance(node, t.Call)]
            yield from (found for call in calls for found in _run_by(flow, call.func, far - 1))
        elif isinstance(stmt, t.Repeat) and _gives(stmt, name):
            yield from (found for each in _gone_through(stmt.iterable) for found in _run_by(flow, each, far - 1))
    bound = flow.ref.assigned.get(name, [])
    if len(bound) == 1:
        yield from calls_in(flow.module, flow.ref, bound[0])
    if name in flow.params:
        for caller, call in calls_of(flow):
            given = flow.ref.given_by(call).get(name)
            yield from _run_by(caller, given, far - 1) if given is not None else ()


def _gives(loop: t.Repeat, name: str) -> bool:
    return loop.target is not None and any(t.path_of(each) == name for each in t.names_in(loop.target))


def _gone_through(iterable: t.Expr | None) -> Iterator[t.Expr]:
    """``self.blocks`` of ``enumerate(self.blocks)``."""
    if isinstance(iterable, t.Call) and isinstance(iterable.func, t.Name):
        yield from (found for arg in iterable.args for found in _gone_through(arg.value))
    elif isinstance(iterable, t.Name | t.Attribute | t.Subscript):
        yield iterable


# --- what surely draws --------------------------------------------------------------------------------------------


def _drawing(run: list[Made | Class | FunctionRef]) -> Made | None:
    """The first call found that surely draws random numbers in training, or makes what does."""
    waiting: list[_Part] = [_Part(part, not isinstance(part, Made)) for part in run]
    seen = set[object]()
    while waiting and len(seen) < _MANY:
        part, is_run = waiting.pop(0)
        ref = part.module.value_of(part.call.func).ref if isinstance(part, Made) else part
        if isinstance(part, Made) and isinstance(ref, str) and _draws(part, ref, is_run=is_run):
            return part
        if isinstance(ref, Class | FunctionRef) and ref.define not in seen:
            seen.add(ref.define)
            waiting += _of_class(ref) if isinstance(ref, Class) else _of_function(ref, is_run=is_run)
    return None


class _Part(NamedTuple):
    """A part of what a checkpoint runs.

    Args:
        is_run: it is called there; else it makes a module, once.
    """

    part: Made | Class | FunctionRef
    is_run: bool


def _of_class(cls: Class) -> Iterator[_Part]:
    """What its constructor makes, and what its ``forward`` surely calls in training."""
    for each in constructors(cls):
        for stmt in always_run(each.define.body):
            yield from (_Part(made, is_run=False) for made in calls_in(each.module, each, stmt))
    forward = cls.method("forward")
    if forward is not None:
        yield from _of_function(forward, is_run=True)


def _of_function(ref: FunctionRef, *, is_run: bool) -> Iterator[_Part]:
    """What a function surely calls; of a method that is run by itself, also the parts of the object that it calls."""
    for stmt in _in_training(ref.define.body):
        for made in calls_in(ref.module, ref, stmt):
            path = t.path_of(made.call.func) or ""
            yield _Part(made, is_run)
            if is_run and path.startswith("self.") and ref.owner is not None and ref.define.name != "forward":
                parts = _of_attribute(ref.owner, path.removeprefix("self."))
                yield from (_Part(part, is_run=False) for part in parts)


def _in_training(body: Sequence[t.Stmt]) -> Iterator[t.Stmt]:
    """The statements that run whenever something trains, as far as one that may leave before."""
    for stmt in body:
        if isinstance(stmt, t.If):
            if t.path_of(stmt.test) == "self.training":
                yield from _in_training(stmt.body)
            elif any(isinstance(each, t.Return) for each in t.walk_statements([stmt])):
                return
        elif isinstance(stmt, t.Repeat | t.With):
            yield from _in_training(stmt.body)
        elif isinstance(stmt, t.Assign | t.Augment | t.Evaluate | t.Return):
            yield stmt


def _draws(made: Made, name: str, *, is_run: bool) -> bool:
    call = made.call
    if _RANDOM.match(name):
        return is_run and call.argument("generator") is None
    if _FUNCTION.match(name) and is_run:
        is_on = call.argument("training", 2)
        is_off = isinstance(is_on, t.Constant) and is_on.value is False
        return not is_off and (name.endswith("gumbel_softmax") or _is_positive(made, call.argument("p", 1), True))
    if _DROPOUT.match(name):
        return _is_positive(made, call.argument("p", 0), True)
    if _TRANSFORMER.match(name):
        return _is_positive(made, call.argument("dropout", 3), True)
    return _ATTENTION.match(name) is not None and _is_positive(made, call.argument("dropout", 2), False)


def _is_positive(made: Made, share: t.Expr | None, by_default: bool) -> bool:
    """Whether a share is above 0: where it is a setting, the program gives it a number, and nowhere 0."""
    if share is None:
        return by_default and not any(arg.star for arg in made.call.args)
    if isinstance(share, t.Constant):
        return isinstance(share.value, int | float) and share.value > 0
    name = _name_of(share)
    return name is not None and "drop" in name.lower() and _is_set(made.module, name)


def _name_of(share: t.Expr) -> str | None:
    """``dropout`` of ``config.dropout``, ``config["dropout"]``."""
    if isinstance(share, t.Subscript):
        return share.index.value if isinstance(share.index, t.Constant) and isinstance(share.index.value, str) else None
    return share.name if isinstance(share, t.Attribute) else share.id if isinstance(share, t.Name) else None


def _is_set(module: Module, name: str) -> bool:
    word = re.escape(name.lstrip("_"))
    number = rf"\b{word}[\"']?\s*(?::\s*\w+\s*)?(?:=|:|,[^\n]*\bdefault\s*=)\s*"
    survey = module.project.survey
    some = re.compile(number + r"(?:0?\.\d*[1-9])", re.I)
    none = re.compile(number + r"(?:0?\.0*|0|None)(?![.\d])", re.I)
    return survey.mentions(some, module) and not survey.mentions(none, module)

"""Modules that compute something else while they train: dropout, batch norm, what asks ``self.training``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Project

# ``F.dropout(x)`` is no such thing: it drops whatever the mode, unless it is told ``training=self.training``.
_LAYERS = re.compile(
    r"(?<!F\.)(?<!functional\.)(?:[dD]rop_?out|DROPOUT)(?!\s*=\s*(?:0\b(?!\.)|0?\.0*\b(?![1-9])|None))"
    r"|[Bb]atch_?[Nn]orm|BATCH_?NORM|track_running_stats\s*=\s*True|[Dd]rop_?[Pp]ath|\.training\b|\bRReLU\b"
    r"|Transformer(?:Encoder|Decoder)?(?:Layer)?\(|\btorchvision\b|\btimm\b|\bfrom_pretrained\(|segmentation_models"
)
_MANY = 40
"""Of more parts than these a network is not asked; it has one that matters."""


def needs_training_mode(project: Project, ref: FunctionRef, path: str) -> bool:
    """Whether a module is to train in training mode, in which it computes something else.

    By its class, which may be that of what all callers give, or if some module of the program does. Not if its object
    puts it into evaluation mode when it is made.

    Args:
        ref: the function that has it.
        path: its path there.
    """
    flow = project.flow(ref)
    if flow is None or _is_evaluating_from_the_start(flow, path):
        return False
    made = flow.read(flow.canonical(path), flow.final).ref
    if not isinstance(made, Class) and path in flow.params:
        made = project.passed.argument_class(ref, path)
    if isinstance(made, Class):
        return any(_LAYERS.search(text) is not None for text in texts_of(made))
    return project.survey.mentions(_LAYERS, ref.module)


def _is_evaluating_from_the_start(flow: Flow, path: str) -> bool:
    """Whether the constructor of the object that has a module puts it into evaluation mode: it is only probed."""
    holder, _, name = path.rpartition(".")
    of = flow.read(flow.canonical(holder), flow.final).ref if holder else None
    owner = flow.ref.owner if holder == "self" else of
    constructor = owner.method("__init__") if isinstance(owner, Class) else None
    nodes = constructor.define.nodes if constructor is not None else ()
    calls = (node.func for node in nodes if isinstance(node, t.Call) and not node.args)
    return any(isinstance(f, t.Attribute) and f.name == "eval" and t.path_of(f.value) == f"self.{name}" for f in calls)


def texts_of(cls: Class | FunctionRef) -> Iterator[str]:
    """The sources of a class, of what it inherits, and of the functions and classes of the program that it calls."""
    waiting: list[Class | FunctionRef] = [cls]
    seen: set[object] = set()
    while waiting and len(seen) < _MANY:
        part = waiting.pop()
        if part.define in seen:
            continue
        seen.add(part.define)
        yield Site(part.chunk, part.define).code
        for named in _named(part.define):
            value = part.module.value_of(named)
            if isinstance(value.ref, Class | FunctionRef):
                waiting.append(value.ref)
            elif value.kind is Kind.EXTERNAL and isinstance(value.ref, str):
                yield f"{value.ref}("


def _named(define: t.Define | t.DefineClass) -> Iterator[t.Expr]:
    """What a definition may call: its bases, and whatever is named in it."""
    if isinstance(define, t.DefineClass):
        yield from define.bases
    yield from (node for node in t.walk(define) if isinstance(node, t.Name | t.Attribute))

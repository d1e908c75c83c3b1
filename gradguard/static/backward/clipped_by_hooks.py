"""Gradients that a hook clips while they are scaled: a trainer with a ``GradScaler`` calls it, and never unscales."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.mistakes.backward import ClippedByHook
from gradguard.static.model import Backward, Step
from gradguard.static.program.fired import fired
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import blocks_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What may know of the scale, or asks whether there is one.
_KNOWS = re.compile(r"scale|amp\b|fp16|half|mixed|precision", re.I)


def clipped_by_hooks(flow: Flow) -> Iterator[ClippedByHook]:
    """The clippings of the hooks that a function calls between a scaled backward and its step (reads other files)."""
    backwards = [each for each in flow.facts.backwards if each.is_scaled and each.inner is None]
    steps = [each for each in flow.facts.steps if each.by_scaler and each.inner is None]
    if not backwards or not steps or flow.facts.is_test:
        return
    for block in blocks_of(flow.ref.define.body):
        for backward, stmt, name in _fired_between(flow.ref, block, backwards, steps):
            clips = list(_clips(flow, name)) if _is_called_here_only(flow, name) else []
            if clips and not flow.facts.unscales():
                yield from (ClippedByHook(clip, backward.site, flow.site(stmt)) for clip in clips)


def _fired_between(
    ref: FunctionRef, block: Sequence[t.Stmt], backwards: Sequence[Backward], steps: Sequence[Step]
) -> Iterator[tuple[Backward, t.Stmt, str]]:
    """The statements of a block that call hooks, with their names: behind a backward, and before the next step."""
    backward: Backward | None = None
    calling: list[tuple[Backward, t.Stmt, str]] = []
    for stmt in block:
        nodes = {id(node) for node in t.walk(stmt)}
        if any(id(each.site.node) in nodes for each in steps):
            yield from calling
            backward, calling = None, []
        begun = next((each for each in backwards if id(each.site.node) in nodes), None)
        if begun is not None:
            backward, calling = begun, []
        elif backward is not None:
            calling += [(backward, stmt, name) for name in fired(ref, stmt)]


def _is_called_here_only(flow: Flow, name: str) -> bool:
    """Whether nobody else calls hooks so: a trainer without a scaler has other gradients."""
    calls = re.compile(rf"['\"]{re.escape(name)}['\"]|\.{re.escape(name)}\(")
    here = calls.findall(flow.module.source.text)
    return len(here) == 1 and not flow.project.survey.mentions_elsewhere(calls, flow.module)


def _clips(flow: Flow, name: str) -> Iterator[Site]:
    """The calls by which the methods of a name clip the gradients of parameters, and know of no scale."""
    for method in flow.project.survey.methods_named(name, flow.module):
        owner = method.owner
        if owner is None or any(_KNOWS.search(cls.name) or cls.chunk.shows(_KNOWS) for cls in owner.lineage()):
            continue
        for call in method.calls:
            meant = str(method.module.value_of(call.func).ref) if call.name in k.CLIPS else ""
            if meant.startswith("torch.nn.utils.") and _is_given_parameters(call) and not only_measures(call):
                yield Site(method.chunk, call)


def _is_given_parameters(call: t.Call) -> bool:
    given = call.argument("parameters", 0)
    return isinstance(given, t.Call) and given.name == "parameters"


def only_measures(call: t.Call) -> bool:
    """Whether a clipping only measures the norm: ``clip_grad_norm_(parameters, float("inf"))``."""
    limit = call.argument("max_norm", 1)
    text = limit.args[0].value if isinstance(limit, t.Call) and limit.args else None
    is_text = isinstance(text, t.Constant) and text.value in ("inf", "Inf", "infinity")
    return is_text or (limit is not None and (t.path_of(limit) or "").rpartition(".")[2] == "inf")

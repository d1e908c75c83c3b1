"""Module calls whose graph is thrown away where they stand: ``net(x).detach()``, ``out = net(x)``, ``out.data``.

Only where each use of the result, by whatever local names, is one of its numbers without their graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.evaluation.numbers_taken import calls_without_graph
from gradguard.static.files.outline import SCRIPT
from gradguard.static.model import Forward, Mode
from gradguard.static.program.paths import last
from gradguard.static.reading.forwards import leaves_function
from gradguard.static.reading.roots import node_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# Whatever may keep a model from recording anything, in any file of the program.
_SILENT = re.compile(
    r"requires?_grad(?:_?\(|\s*=(?!=))\s*(?!True)|\bfreez|\bfrozen|set_grad_enabled\(\s*(?:mode\s*=\s*)?False|"
    r"\b(?:hub|jit)\.load\(|\bonnx|tensorrt|quantization\b|torch\.ao\b|"
    r"ultralytics|\byolo|facenet_pytorch|sentence_transformers",
    re.I,
)
# What measures, changes or makes data has no parameters as a rule, or is a fixed network.
_FIXED = re.compile(
    r"loss|crit(?!ic)|metric|psnr|ssim|lpips|fid|dice|iou|acc|score|transform|aug|norm|pool|resiz|token|vgg|incept|"
    r"percept|clip|bert|pretrain|fixed|mel|stft|mfcc|spec|sched|env\b|wrapper|position",
    re.I,
)


# Functions that ask a model for something, and arguments that are there to look at.
_ASKS = re.compile(
    r"eval|valid|test|infer|predict|sampl|generat|translat|reconstruct|interpol|visuali|plot|show|demo|draw|"
    r"(?:^|_)act(?:ion)?s?(?:_|$)|select_|choose|greedy",
    re.I,
)
_HELD_OUT = re.compile(r"^(?:x_|y_)?(?:test|val|valid|eval|dev|fixed|view)(?:_|$)|_(?:test|val|valid)$", re.I)


def thrown_away(flow: Flow) -> Iterator[Forward]:
    """The module calls that only ask a model for something, with a graph of which nothing is used.

    A ``detach()`` beside a training is none: it may stand there to be seen.
    """
    facts, survey = flow.facts, flow.project.survey
    if facts.is_test or facts.gradients_wanted or facts.name == "forward":
        return
    recording = [
        each for each in facts.forwards if _records(each) and not _is_told(flow, each) and _is_asked(flow, each)
    ]
    without = calls_without_graph(flow.ref.define) if recording else set()
    found = [each for each in recording if each.site.node in without and not _is_needed(flow, each)]
    if found and not survey.mentions(_SILENT, flow.module) and not survey.has_learning_forward(flow.module, None):
        yield from (each for each in found if not each.may_record_nothing())


def _is_asked(flow: Flow, forward: Forward) -> bool:
    """Whether a model is only asked for something there, by the mode that it is in, or by names."""
    if flow.facts.name == SCRIPT and forward.loop is None:
        return True  # with weights that it loads
    if forward.is_evaluated or _ASKS.search(flow.facts.name) is not None:
        return True
    call = forward.site.node
    given = [t.path_of(arg.value) or "" for arg in call.args] if isinstance(call, t.Call) else []
    return any(_HELD_OUT.search(last(path)) is not None for path in given)


def _records(forward: Forward) -> bool:
    """Whether a module that learns begins a graph, which nobody has put into evaluation mode for a loop of its own."""
    needs_none = forward.is_frozen or forward.is_foreign or forward.may_learn_itself or forward.of_graph
    if forward.inner is not None or needs_none or forward.mode not in (Mode.INHERITED, Mode.ON):
        return False
    return forward.module is not None and _FIXED.search(last(forward.module)) is None


def _is_told(flow: Flow, forward: Forward) -> bool:
    """Whether it is part of an evaluation, which is told as a whole, or happens once: a script tries its model out."""
    around = list(forward.loop.around()) if forward.loop is not None else []
    evaluates = any(loop.evaluates or loop.evaluates_by_name or loop.recorded_in_vain is forward for loop in around)
    is_tried = not around and flow.facts.name == SCRIPT and "load_state_dict(" not in flow.module.source.text
    return evaluates or is_tried


def _is_needed(flow: Flow, forward: Forward) -> bool:
    """Whether a backward goes through it, or what leaves the function may have its graph."""
    backwards = (each.value.reach for each in flow.facts.backwards)
    reached = frozenset().union(*backwards, *(each.value.reach for each in flow.facts.grad_calls))
    return leaves_function(flow, forward) or any(node_of(root.key) is forward.site.node for root in reached)

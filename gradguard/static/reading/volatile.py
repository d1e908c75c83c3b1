"""Torch before 0.4: a graph is recorded unless an input is ``volatile``, which whoever makes the batch decides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.files.lines import lines_with
from gradguard.static.knowledge import EVALUATION_FUNCTION
from gradguard.static.model import Mode

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.reading.state import State

# What only torch since 0.4 has, where `volatile` means nothing.
_SINCE_NO_GRAD = re.compile(
    r"no_grad|set_grad_enabled|inference_mode|torch\.device\(|\.to\((?:\w+\.)*device|\.item\(\)"
)
# Of these, what nothing else has: NumPy's numbers have an `item()` as well.
_SURELY_SINCE = re.compile(
    r"\btorch\.(?:no_grad|inference_mode|device)\(|set_grad_enabled\(|\.to\((?:\w+\.)*device\)|\bloss\w*\.item\(\)"
)
# What only torch before has, or a program that is written for both.
_BEFORE = re.compile(r"\.data\[0\]|async=True|\b__version__\b|\bhasattr\(torch\b|\btorch\s*[<=]=\s*0\.[1-3]\b")
_GIVEN = re.compile(r"\bvolatile\s*=(?!=)\s*([^,)\n]+)")
_NAME = re.compile(r"[A-Za-z_]\w*")
# What makes batches without being called by name.
_ITERATING = frozenset("__iter__ __next__ next __getitem__ __call__ collate collate_fn".split())
# A number out of a tensor, as before 0.4.
_OLD_NUMBER = re.compile(r"(?:loss\w*|(?:sum|mean)\(\)|cpu\(\))\.data\[0\]")
_TORCHTEXT_ITERATOR = re.compile(r"\b(?:Bucket|BPTT)?Iterator\b")


def given(flow: Flow, value: t.Expr, state: State) -> None:
    """An input is made volatile, or told to be: ``Variable(x, volatile=not train)``, ``x.volatile = True``.

    Since torch 0.4 that does nothing.
    """
    if _means_nothing(flow):
        return
    if isinstance(value, t.Constant):
        state.mode = Mode.UNKNOWN if value.value is True else state.mode
    elif state.evaluating or EVALUATION_FUNCTION.search(flow.facts.name):
        state.mode = Mode.UNKNOWN


def _means_nothing(flow: Flow) -> bool:
    """Whether the program only runs with a torch that knows no volatile inputs."""
    survey, module = flow.project.survey, flow.module
    if module.source.shows(_BEFORE):
        return False
    return survey.mentions(_SURELY_SINCE, module) and not survey.mentions(_BEFORE, module)


def may_be(flow: Flow) -> bool:
    """Whether what a function runs models on is made elsewhere, by what makes it volatile if it is asked to."""
    if flow.module.source.shows(_SINCE_NO_GRAD):
        return False
    return any(_concerns(flow, function, value) for function, value in _given(flow)) or _has_old_batches(flow)


def _given(flow: Flow) -> Iterator[tuple[str, str]]:
    """What ``volatile`` is given elsewhere in the program, each with the function where that is."""
    own = flow.module.source.text
    for text in flow.project.survey.texts_used("volatile", flow.module):
        for line in lines_with("volatile", text) if not _SINCE_NO_GRAD.search(text) else ():
            found = _GIVEN.search(line.text)
            if found is not None and (line.function != flow.facts.name or text is not own):
                value = found[1].strip()
                yield from ((function, value) for function in {line.function, *_taking(value, text)})


def _taking(flag: str, text: str) -> Iterator[str]:
    """The functions that have a flag as a parameter: which one stands around another is not told by lines."""
    return (match[1] for match in re.finditer(rf"\bdef\s+(\w+)\([^)]*\b{re.escape(flag)}\b", text))


def _concerns(flow: Flow, function: str, value: str) -> bool:
    """Whether inputs of ``flow`` may be volatile because a function makes some with ``volatile=value``."""
    if value == "False":
        return False
    calls = [call for call in flow.ref.calls if call.name == function]
    flags = frozenset(_NAME.findall(value))
    if calls:  # it says itself what it wants
        decided = value == "True" or "." in value
        return decided or any(_asks(argument, flags) for call in calls for argument in call.args)
    if _is_called_in_forward(flow, function):
        return True  # the model makes its inputs itself: `to_variable(x, is_training=self.training)`
    if any(call.name == "Variable" for call in flow.ref.calls):
        return False  # it makes its inputs itself, and others
    if function in _ITERATING or (value != "True" and "." in value):
        return True
    asking = re.compile(rf"\b{function}\(.*(?:\b(?:{'|'.join(flags)})\s*=\s*(?!False)|,\s*True\b)")
    return value != "True" and flow.project.survey.acts(function, asking, flow.module)


def _is_called_in_forward(flow: Flow, function: str) -> bool:
    called = f"{function}("
    texts = flow.project.survey.texts_used(function, flow.module)
    lines = (line for text in texts if called in text for line in lines_with(function, text))
    return any(line.function == "forward" and called in line.text for line in lines)


def _asks(argument: t.Arg, flags: frozenset[str]) -> bool:
    """Whether an argument may switch something on: by the name of a flag, or as a plain ``True``."""
    constant = argument.value.value if isinstance(argument.value, t.Constant) else None
    return constant is True if argument.keyword is None else argument.keyword in flags and constant is not False


def _has_old_batches(flow: Flow) -> bool:
    """Whether an iterator of torchtext before 0.3 makes the batches: volatile ones, unless they are to train on."""
    if not flow.module.source.shows(_OLD_NUMBER):
        return False
    return any(map(_TORCHTEXT_ITERATOR.search, flow.project.survey.texts_used("torchtext", flow.module)))

"""Loops that bring what they train back to where it was, or begin with something else in each iteration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.events import Loop
from gradguard.static.optimizers.optimized import overlap
from gradguard.static.program.functions_called import functions_called
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

BACK = r"reset|restore|re_?init|rewind|load_state|load_weights|deepcopy|clone|copy_"
"""What calls are named that do so."""
_BY_NAME = re.compile(
    rf"{BACK}|^apply$|^init(?!ial|_?(?:hidden|state|h)\b)|^set_$|^(?:set|assign|put)_(?:\w+_)?(?:param|weight|model|vector)|to_parameters|"
    r"(?:normal|uniform|orthogonal|constant|zeros|ones)_$"
)
_NO_WEIGHTS = re.compile(
    r"(?:^|[._])(?:\w*env\w*|game|simulator|\w*meters?|\w*metrics?|timer|pbar|noise|\w*buffer|memory)$", re.I
)
_BY_CODE = re.compile(rf"(?:{BACK})\w*\(|\.set_\(|\.data\s*=[^=]|\binit\.\w+_\(|\[\.\.\.\]\s*=[^=]")


def puts_back(flow: Flow, loop: Loop, optimizer: str | None) -> bool:
    """Whether an iteration sets weights, or hands the state of one optimizer to the next.

    Args:
        optimizer: the path of the one that it makes.
    """
    modules = next((step.modules for step in flow.facts.steps if step.target == optimizer), None)
    for node in loop.nodes:
        if isinstance(node, t.Call) and not _is_of_another(node, modules) and _sets(flow, node):
            return True
        if isinstance(node, t.Assign) and any(isinstance(e, t.Attribute) and e.name == "data" for e in node.targets):
            return True
        if isinstance(node, t.Attribute) and node.name == "state" and t.path_of(node.value) == optimizer is not None:
            return True
    return False


def _sets(flow: Flow, call: t.Call) -> bool:
    return _BY_NAME.search(call.name) is not None or _BY_CODE.search(_code(flow, call)) is not None


def _is_of_another(call: t.Call, modules: frozenset[str] | None) -> bool:
    """Whether it begins an episode, ``env.reset()``, or loads another network: ``target.load_state_dict(...)``."""
    owner = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
    if owner is None:
        return False
    if call.name == "load_state_dict":
        return modules is not None and not overlap(frozenset((owner,)), modules)
    return call.name == "reset" and _NO_WEIGHTS.search(owner) is not None


def _code(flow: Flow, call: t.Call) -> str:
    """The source of a function of the program, or of a method of an object of it, that is called."""
    return next((Site(ref.chunk, ref.define).code for ref in functions_called(flow, call)), "")

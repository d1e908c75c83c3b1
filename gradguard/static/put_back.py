"""Loops that bring what they train back to where it was, or begin with something else in each iteration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.events import Loop
from gradguard.static.functions_called import functions_called
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

BACK = r"reset|restore|re_?init|rewind|load_state|load_weights|deepcopy|clone|copy_"
"""What calls are named that do so."""
_BY_NAME = re.compile(
    rf"{BACK}|^apply$|^init(?!ial|_?(?:hidden|state|h)\b)|^set_$|^(?:set|assign|put)_(?:\w+_)?(?:param|weight|model|vector)|to_parameters|"
    r"(?:normal|uniform|orthogonal|constant|zeros|ones)_$"
)
_BY_CODE = re.compile(rf"(?:{BACK})\w*\(|\.set_\(|\.data\s*=[^=]|\binit\.\w+_\(|\[\.\.\.\]\s*=[^=]")


def puts_back(flow: Flow, loop: Loop, optimizer: str | None) -> bool:
    """Whether an iteration sets weights, or hands the state of one optimizer to the next.

    Args:
        optimizer: the path of the one that it makes.
    """
    for node in loop.nodes:
        if isinstance(node, t.Call) and (_BY_NAME.search(node.name) or _BY_CODE.search(_code(flow, node))):
            return True
        if isinstance(node, t.Assign) and any(isinstance(e, t.Attribute) and e.name == "data" for e in node.targets):
            return True
        if isinstance(node, t.Attribute) and node.name == "state" and t.path_of(node.value) == optimizer is not None:
            return True
    return False


def _code(flow: Flow, call: t.Call) -> str:
    """The source of a function of the program, or of a method of an object of it, that is called."""
    return next((Site(ref.chunk, ref.define).code for ref in functions_called(flow, call)), "")

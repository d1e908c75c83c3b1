"""Where a user's variables are: the frames that run, the modules' globals, the generators and coroutines that wait.

Reading ``f_locals`` of a running function leaves a dict of the values on its frame (before Python 3.13). It would keep
a graph alive, so it is emptied after reading. A function that calls ``locals()`` owns that very dict: it is left alone.
"""

from __future__ import annotations

import dis
import gc
import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from inspect import CO_NEWLOCALS, CO_OPTIMIZED
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType, ModuleType
from typing import Any

from gradguard.runtime.usercode import is_user_code, is_user_type, user_frames, user_modules

_LOCALS_IS_A_SNAPSHOT = sys.version_info < (3, 13)
_PREFIXES: dict[type, str] = {GeneratorType: "gi", CoroutineType: "cr", AsyncGeneratorType: "ag"}
SUSPENDED = tuple(_PREFIXES)
_COLLECTIONS = (list, tuple, dict, set, deque, BaseException)
_OWNERS = frozenset({"locals", "exec"})
"""What gives a function that dict, or puts names of its own into it."""


@dataclass(frozen=True, slots=True)
class Root:
    """A namespace of the user.

    Args:
        name: the function's name, or the module's.
        scope: ``local`` or ``global``.
        variables: name to value; the dict itself for a module's globals, a copy for a function's locals.
        origin: the frame or module it belongs to.
    """

    name: str
    scope: str
    variables: dict[str, Any]
    origin: FrameType | ModuleType | None


def roots(frame: FrameType | None) -> Iterator[Root]:
    """Every namespace of the user, those that live longest first.

    Args:
        frame: the innermost frame of this thread's program.
    """
    for module in user_modules():
        yield Root(module.__name__, "global", vars(module), module)
    stacks = [user_frames(frame) or user_frames(sys._getframe())]
    for other in other_threads():
        stacks.append([f for f in user_frames(other) if not any(f is known for known in stacks[0])])
    for stack in stacks:
        for each in stack:
            yield from _of_frame(each)
    for waiting, delegate in _waiting_frames():
        for root in _of_frame(waiting):
            if delegate is not None:
                root.variables.setdefault(type(delegate).__name__, delegate)
            yield root
    yield Root("statement", "local", _of_statements(), None)


def other_threads() -> list[FrameType]:
    """The innermost frame of each thread but this one."""
    found = sys._current_frames()
    # This thread's would be in a variable of its own, or of its caller's: a cycle, with all that these hold.
    found.pop(threading.get_ident(), None)
    return list(found.values())


def is_function_frame(frame: FrameType) -> bool:
    """Whether the frame has fast locals (a function's), not a namespace of its own (a module's, a class body's)."""
    return frame.f_code.co_flags & (CO_OPTIMIZED | CO_NEWLOCALS) == CO_OPTIMIZED | CO_NEWLOCALS


def may_read(frame: FrameType) -> bool:
    """Whether looking at the frame's locals changes nothing that the program can see."""
    return not _LOCALS_IS_A_SNAPSHOT or not is_function_frame(frame) or not _asks_for_its_locals(frame.f_code)


@lru_cache(maxsize=1024)
def _asks_for_its_locals(code: CodeType) -> bool:
    if not (_OWNERS | {"vars"}).intersection(code.co_names):
        return False
    steps = [each for each in dis.get_instructions(code) if each.opname not in ("PUSH_NULL", "PRECALL", "CACHE")]
    for step, following in zip(steps, [*steps[1:], None]):
        name = step.argval if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") else None  # `model.eval()` is another thing
        is_bare = following is not None and following.opname.startswith("CALL") and following.arg == 0
        if name in _OWNERS or (name == "vars" and is_bare):  # `vars(args)` is of an object
            return True
    return False


def read_locals(frame: FrameType) -> dict[str, Any]:
    """A copy of a function's locals; nothing stays behind on the frame."""
    variables = frame.f_locals
    found = dict(variables)
    if _LOCALS_IS_A_SNAPSHOT:
        variables.clear()
    return found


def _of_frame(frame: FrameType) -> Iterator[Root]:
    if is_function_frame(frame) and may_read(frame):
        yield Root(frame.f_code.co_name, "local", read_locals(frame), frame)


def suspended_frame(thing: Any) -> FrameType | None:
    """The frame of a generator or coroutine that waits; None for one that runs, or is over."""
    prefix = _PREFIXES[type(thing)]
    frame = getattr(thing, f"{prefix}_frame")
    return frame if isinstance(frame, FrameType) and not getattr(thing, f"{prefix}_running") else None


def waiting_function(thing: Any) -> str | None:
    """The name of the function whose frame a generator or coroutine keeps; None for anything else."""
    prefix = _PREFIXES.get(type(thing))
    return getattr(thing, f"{prefix}_code").co_name if prefix is not None else None


def _waiting_frames() -> Iterator[tuple[FrameType, Any]]:
    """Frames that wait: a generator that a loop goes through, a task of asyncio are on no stack, in no variable.

    Each with what it has handed over to, which no variable need have: ``yield from itertools.cycle(batches)``.
    """
    for each in gc.get_objects():
        if type(each) in _PREFIXES:
            frame = suspended_frame(each)
            if frame is not None and is_user_code(frame.f_code):
                delegate = getattr(each, "gi_yieldfrom", None)
                yield frame, None if type(delegate) in _PREFIXES else delegate


def _of_statements() -> dict[str, Any]:
    """What a ``for`` may be going through, and a ``with`` may have entered: the interpreter holds it, no variable need.

    Those that a variable holds as well are found there first. What such an object has is named by its class; a
    collection by itself would have no name.
    """
    kinds: dict[type, bool] = {}
    found = {}
    for each in gc.get_objects():
        cls = type(each)
        if cls not in kinds:
            names = {name for base in cls.__mro__ for name in ("__next__", "__enter__") if name in vars(base)}
            kinds[cls] = bool(names) and is_user_type(cls) and not issubclass(cls, _COLLECTIONS)
        if kinds[cls]:
            found[f"<{cls.__name__} {id(each):x}>"] = each  # by identity: the order of the collector's lists changes
    return found

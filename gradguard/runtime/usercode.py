"""Whose code is it: the user's, a library's, or ours?"""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType

START = os.path.realpath(os.getcwd())
"""The directory in which the run began; the program may leave it."""

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_DEMO = os.path.join(_PACKAGE, "demo") + os.sep
_STDLIB = tuple(
    os.path.realpath(path) + os.sep for name, path in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib")
)
_SITE = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


def is_user_code(code: CodeType) -> bool:
    """Whether ``code`` comes from a file that is neither a library's nor Python's nor GradGuard's."""
    return is_user_file(code.co_filename)


@lru_cache(maxsize=4096)
def is_user_file(filename: str) -> bool:
    """Whether a file is the user's; cells of a notebook (which are no files) are."""
    if filename.startswith("<"):
        return filename.startswith(("<ipython", "<stdin"))
    if any(site in filename for site in _SITE) and not _is_running_package(filename):
        return False  # the common case; to resolve a path takes a look at each folder of it
    path = os.path.realpath(filename)
    if path.startswith(_DEMO):
        return True
    if path.startswith(_PACKAGE):
        return False
    if any(site in path for site in _SITE):
        return _is_running_package(path)
    return not path.startswith(_STDLIB)


def _is_running_package(path: str) -> bool:
    """Whether an installed file belongs to the package that is run with ``-m`` (then it is what the user looks at)."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    package = spec.name.split(".")[0] if spec is not None else ""
    return bool(package) and any(f"{site}{package}{os.sep}" in path for site in _SITE)


def is_user_type(cls: type) -> bool:
    """Whether a class is defined in the user's code."""
    module = sys.modules.get(cls.__module__)
    return module is not None and is_user_module(module)


def is_user_module(module: ModuleType) -> bool:
    """Whether a module's source is the user's; ``__main__`` always is."""
    if module.__name__ in ("__main__", "__mp_main__"):
        return True
    filename = getattr(module, "__file__", None)
    return isinstance(filename, str) and is_user_file(filename) and _exists(filename)


@lru_cache(maxsize=4096)
def _exists(filename: str) -> bool:
    return os.path.exists(filename)  # torch.ops and its like name a file that is nowhere


def user_modules() -> list[ModuleType]:
    """The user's modules that are loaded, ``__main__`` first."""
    found = [m for m in list(sys.modules.values()) if isinstance(m, ModuleType) and is_user_module(m)]
    return sorted({id(m): m for m in found}.values(), key=lambda m: m.__name__ != "__main__")


def user_frames(frame: FrameType | None) -> list[FrameType]:
    """The user's frames of a stack, the outermost first."""
    found = []
    while frame is not None:
        if is_user_code(frame.f_code):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


def user_caller(frame: FrameType) -> FrameType | None:
    """The nearest frame of the user's that called ``frame``."""
    back = frame.f_back
    while back is not None and not is_user_code(back.f_code):
        back = back.f_back
    return back


def shown(filename: str) -> str:
    """A path as it is reported: relative to the starting directory when inside it, with ``/``."""
    if filename.startswith("<"):
        return filename
    path = os.path.realpath(os.path.join(START, filename))
    here = START.rstrip(os.sep) + os.sep
    return (path[len(here) :] if path.startswith(here) else path).replace(os.sep, "/")

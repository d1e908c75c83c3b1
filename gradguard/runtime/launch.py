"""Run a program as ``python script.py`` or ``python -m module`` would: its arguments, ``__main__``, ``sys.path``."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import os
import sys
import types
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, TracebackType

from gradguard.runtime.texts import keep, lines_of


class LaunchError(Exception):
    """The program cannot be started; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class Program:
    """Something to run.

    Args:
        code: its code.
        filename: where it is.
        spec: of a module (``-m``); None for a script.
        path: what becomes ``sys.path[0]``.
    """

    code: CodeType
    filename: str
    spec: importlib.machinery.ModuleSpec | None
    path: str


def script(filename: str) -> Program:
    """The script ``filename``; of a folder or a zip file, its ``__main__``.

    Raises:
        LaunchError: it cannot be read.
        SyntaxError: it is no Python.
    """
    if os.path.isdir(filename) or zipfile.is_zipfile(filename):
        return _main_in(filename)
    return Program(_compiled(filename), os.path.abspath(filename), None, os.path.dirname(os.path.realpath(filename)))


def _main_in(container: str) -> Program:
    path = os.path.abspath(container)
    spec = importlib.machinery.PathFinder.find_spec("__main__", [path])
    get_code = getattr(spec.loader, "get_code", None) if spec is not None else None
    code = get_code("__main__") if get_code is not None else None
    if spec is None or code is None or spec.origin is None:
        raise LaunchError(f"{container}: has no __main__.py")
    lines_of(spec.origin)
    return Program(code, spec.origin, spec, path)


def module(name: str) -> Program:
    """The module ``name``; of a package, its ``__main__``.

    Raises:
        LaunchError: there is no such module, or it is not in Python.
    """
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise LaunchError(f"-m {name}: {error}") from error
    finally:
        sys.path.remove(here)
    get_code = getattr(spec.loader, "get_code", None) if spec is not None else None
    if spec is None or get_code is None:
        raise LaunchError(f"-m {name}: there is no module of that name")
    code = get_code(spec.name)
    if code is None or spec.origin is None:
        raise LaunchError(f"-m {name}: is not written in Python")
    lines_of(spec.origin)
    return Program(code, spec.origin, spec, here)


def run(program: Program, name: str | None, arguments: Sequence[str]) -> None:
    """Run it in a new ``__main__``. Whatever it raises, SystemExit too, is the caller's.

    Args:
        program: what to run.
        name: the script as it was named on the command line; None for a module.
        arguments: what follows it there.
    """
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __file__=program.filename,
        __builtins__=builtins,
        __cached__=None,
        __spec__=program.spec,
        __package__=program.spec.parent if program.spec is not None else None,
    )
    if program.spec is not None:
        main.__loader__ = program.spec.loader
    else:
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", program.filename)
    sys.modules["__main__"] = main
    if "__mp_main__" in sys.modules:  # multiprocessing noted who was __main__ when it was imported: us
        sys.modules["__mp_main__"] = main
    sys.argv[:] = [name or program.filename, *arguments]
    sys.path[0] = program.path
    exec(program.code, main.__dict__)


def own_part(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames before the program's own."""
    here = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(here)
    while traceback is not None and _is_ours(traceback.tb_frame.f_code.co_filename, package):
        traceback = traceback.tb_next
    return traceback


def _is_ours(filename: str, package: str) -> bool:
    path = os.path.abspath(filename)
    demo = os.path.join(package, "demo") + os.sep
    return path.startswith((package + os.sep, os.path.dirname(_click_file()))) and not path.startswith(demo)


def _click_file() -> str:
    return str(getattr(sys.modules.get("click"), "__file__", "") or os.path.join(os.sep, "no", "click"))


def _compiled(filename: str) -> CodeType:
    try:
        with io.open_code(os.path.abspath(filename)) as file:
            data = file.read()
    except OSError as error:
        raise LaunchError(f"{filename}: cannot be read: {error.strerror}") from error
    keep(os.path.abspath(filename), data)
    try:
        return compile(data, os.path.abspath(filename), "exec", dont_inherit=True)
    except ValueError as error:  # null bytes
        raise LaunchError(f"{filename}: is not Python source: {error}") from error

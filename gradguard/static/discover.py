"""Paths -> source files: what ``gradguard check`` looks at.

A folder is walked as git and ruff would: .gitignore files, ``exclude``, and what is never a user's own code are left
out. A file that is named is checked whatever it is called, because somebody asked for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradguard.config import Settings
from gradguard.findings import FileError
from gradguard.static.files.patterns import Patterns

SUFFIXES = (".py", ".ipynb")

# As ruff has it. "build" and "dist" are left out only when they are no packages, see `_by_default`.
_NEVER = frozenset(
    ".bzr .direnv .eggs .git .gradguard .hg .ipynb_checkpoints .mypy_cache .nox .pants.d .pyenv .pytest_cache .pytype "
    ".ruff_cache .svn .tox .venv .vscode __pycache__ __pypackages__ _build buck-out node_modules site-packages".split()
)
_UNLESS_PACKAGE = frozenset({"build", "dist"})
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")


@dataclass(frozen=True, slots=True)
class Discovery:
    """The files to check, sorted, each once; and the paths that cannot be looked at."""

    files: tuple[Path, ...]
    errors: tuple[FileError, ...]


def shown(path: Path) -> str:
    """``path`` as every output writes it: ``/``-separated, relative to the working directory when inside it."""
    absolute = Path(os.path.abspath(path))
    try:
        cwd = Path.cwd()
    except FileNotFoundError:  # it was deleted under us
        return absolute.as_posix()
    return (absolute.relative_to(cwd) if absolute.is_relative_to(cwd) else absolute).as_posix()


def discover(paths: Sequence[Path], settings: Settings, *, force_exclude: bool = False) -> Discovery:
    """The source files at and below ``paths``.

    Args:
        paths: files and folders as the user named them.
        settings: ``exclude`` and what it is relative to.
        force_exclude: leave out also what is named, when ``exclude`` or the defaults say so (for pre-commit, which
            names every file).
    """
    exclude = _exclude(settings)
    files: list[Path] = []
    errors: list[FileError] = []
    for named in paths:
        path = Path(os.path.abspath(named))
        if force_exclude and _excluded(path, exclude):
            continue
        for item in _look_at(path, exclude):
            if isinstance(item, Path):
                files.append(item)
            else:
                errors.append(item)
    return Discovery(_once(files), tuple(sorted(set(errors))))


def _look_at(path: Path, exclude: Patterns) -> Iterator[Path | FileError]:
    """The files at one named path."""
    try:
        is_folder = os.path.isdir(path)
        path.stat()
    except OSError as error:
        reason = "no such file or folder" if isinstance(error, FileNotFoundError) else _reason(error)
        yield FileError(shown(path), None, reason)
        return
    if is_folder:
        yield from _walk(path, exclude)
    elif path.suffix in SUFFIXES:
        yield path
    else:
        yield FileError(shown(path), None, "neither a Python file (.py) nor a notebook (.ipynb)")


def _walk(start: Path, exclude: Patterns) -> Iterator[Path | FileError]:
    """The files below a folder that the user named (which is why it is entered, whatever it is called)."""
    todo = [(start, tuple(_gitignores_above(start)))]
    while todo:
        folder, above = todo.pop()
        ignores = (*above, *_gitignore(folder))
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda e: e.name)
        except OSError as error:
            yield FileError(shown(folder), None, _reason(error))
            continue
        for entry in entries:
            path = Path(entry.path)
            # A linked folder is not followed, as in git: what it holds is elsewhere, and may be a loop.
            if entry.is_dir(follow_symlinks=False):
                if not _left_out(path, True, exclude, ignores):
                    is_repository = os.path.exists(path / ".git")
                    todo.append((path, () if is_repository else ignores))
            elif path.suffix in SUFFIXES and os.path.isfile(path) and not _left_out(path, False, exclude, ignores):
                yield path


def _left_out(path: Path, is_folder: bool, exclude: Patterns, ignores: Sequence[Patterns]) -> bool:
    """Whether to leave out one entry of a folder; ``exclude`` decides first, so that ``!dist`` can bring it back."""
    verdict = exclude.verdict(path, is_folder)
    if verdict is not None:
        return verdict
    if is_folder and _by_default(path):
        return True
    verdicts = (patterns.verdict(path, is_folder) for patterns in reversed(ignores))
    return next((v for v in verdicts if v is not None), False)


def is_excluded(path: Path, settings: Settings) -> bool:
    """Whether a path, or a folder above it within the project, is excluded by the settings or the defaults.

    What git ignores plays no part here: the files that pre-commit names are tracked.
    """
    return _excluded(Path(os.path.abspath(path)), _exclude(settings))


def _exclude(settings: Settings) -> Patterns:
    return Patterns(Path(os.path.abspath(settings.root)), settings.exclude)


def _excluded(path: Path, exclude: Patterns) -> bool:
    if not path.is_relative_to(exclude.base):
        return False
    below = path.relative_to(exclude.base).parts
    steps = [exclude.base.joinpath(*below[: n + 1]) for n in range(len(below))]
    return any(_left_out(step, step != path or os.path.isdir(step), exclude, ()) for step in steps)


def _by_default(folder: Path) -> bool:
    """Folders that never hold the user's own code."""
    if folder.name in _NEVER:
        return True
    if folder.name in _UNLESS_PACKAGE and not os.path.exists(folder / "__init__.py"):
        return True
    return any(os.path.exists(folder / mark) for mark in _ENVIRONMENT_MARKS)


def _once(files: Iterable[Path]) -> tuple[Path, ...]:
    """Sorted, each file under one name; its own name rather than a link's."""
    names: dict[Path, Path] = {}
    for path in sorted(files, key=lambda p: (p.is_symlink(), p.as_posix())):
        names.setdefault(path.resolve(), path)
    return tuple(sorted(names.values(), key=lambda p: p.as_posix()))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


# --- .gitignore ---------------------------------------------------------------------------------------------------


def _gitignores_above(folder: Path) -> list[Patterns]:
    """What the repository around ``folder`` ignores, the outermost first; nothing outside a repository."""
    if os.path.exists(folder / ".git"):
        return _info_exclude(folder)
    found: list[Patterns] = []
    for above in folder.parents:
        found = [*_gitignore(above), *found]
        if os.path.exists(above / ".git"):
            return _info_exclude(above) + found
    return []


def _info_exclude(repository: Path) -> list[Patterns]:
    return _read(repository / ".git" / "info" / "exclude", repository)


def _gitignore(folder: Path) -> list[Patterns]:
    return _read(folder / ".gitignore", folder)


def _read(file: Path, base: Path) -> list[Patterns]:
    try:
        text = file.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError:
        return []
    return [Patterns(base, tuple(line.removesuffix("\r") for line in text.split("\n")))]

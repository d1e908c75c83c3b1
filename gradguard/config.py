"""``[tool.gradguard]`` in pyproject.toml -> :class:`Settings`.

Whatever is wrong there is a :class:`ConfigError` that names the file, the key, and the nearest right one: a
misspelled key that is silently ignored would switch a rule on or off behind the user's back.
"""

from __future__ import annotations

import difflib
import operator
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradguard.findings import Confidence

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ALL = "ALL"
"""The selector that matches every code."""


class ConfigError(Exception):
    """The configuration (or an option that overrides it) is wrong; the message says where, what and what instead."""


@dataclass(frozen=True)
class Settings:
    """What to check and what to report.

    Args:
        root: the folder that ``exclude`` and ``per_file_ignores`` are relative to.
        select: code prefixes that are on.
        ignore: code prefixes that are off; the longer prefix wins, and ``ignore`` wins a tie.
        per_file_ignores: for files that match the glob, further prefixes that are off.
        exclude: what to leave out, in the syntax of .gitignore.
        min_confidence: the least confidence that is reported.
    """

    root: Path
    select: tuple[str, ...] = (ALL,)
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    min_confidence: Confidence = Confidence.HIGH


def find_settings(start: Path, known: Mapping[str, str]) -> Settings:
    """The settings of the nearest pyproject.toml with ``[tool.gradguard]``, from ``start`` upward.

    Args:
        start: usually the working directory.
        known: every code, with the name of its rule.

    Raises:
        ConfigError: a pyproject.toml on the way cannot be read, or the table is wrong.
    """
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if os.path.isfile(file):
            table = _read_table(file)
            if table is not None:
                return _settings(table, folder, known, str(file))
    return Settings(start)


def read_settings(file: Path, root: Path, known: Mapping[str, str]) -> Settings:
    """The settings of a file that the user named.

    Raises:
        ConfigError: the file cannot be read, has no ``[tool.gradguard]``, or the table is wrong.
    """
    table = _read_table(file)
    if table is None:
        raise ConfigError(f"{file}: there is no [tool.gradguard] table in this file")
    return _settings(table, root, known, str(file))


def parse_selector(text: str, known: Mapping[str, str], where: str) -> str:
    """``text`` as a code prefix; a rule's name becomes its code.

    Raises:
        ConfigError: no code begins with ``text`` and no rule has that name.
    """
    wanted = text.strip()
    if wanted.upper() == ALL:
        return ALL
    if wanted and any(code.startswith(wanted.upper()) for code in known):
        return wanted.upper()
    for code, name in known.items():
        if wanted.lower() == name:
            return code
    hint = did_you_mean(wanted, known) or did_you_mean(wanted, known.values())
    raise ConfigError(f"{where}: unknown code `{wanted}`{hint or '; `gradguard rules` lists them'}")


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """``; did you mean `...`?`` with the nearest candidate, or nothing when none is near."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    lowered = word.lower()
    near = difflib.get_close_matches(lowered, by_lower, n=len(by_lower) or 1)

    def likeness(each: str) -> tuple[float, int]:
        """Of two that share as much with the word, the one that has it in its place: GG1O3 is GG103, and not GG213."""
        return difflib.SequenceMatcher(None, each, lowered).ratio(), sum(map(operator.eq, each, lowered))

    best = max(near, key=likeness, default=None)
    return f"; did you mean `{by_lower[best]}`?" if best else ""


def _read_table(file: Path) -> dict[str, Any] | None:
    """The ``[tool.gradguard]`` table of ``file``, if it has one."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not valid UTF-8 (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from error
    tool = document.get("tool")
    table = tool.get("gradguard") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{file}: [tool.gradguard] must be a table, not {_kind(table)}")
    return table


def _settings(table: dict[str, Any], root: Path, known: Mapping[str, str], file: str) -> Settings:
    fields: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{file}: [tool.gradguard] {key}"
        reader = _READERS.get(key)
        if reader is None:
            hint = did_you_mean(key, _READERS) or f"; the keys are {', '.join(_READERS)}"
            raise ConfigError(f"{file}: [tool.gradguard] has no key `{key}`{hint}")
        fields[key.replace("-", "_")] = reader(value, known, where)
    return Settings(root, **fields)


def _strings(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where}: must be a list of strings, not {_kind(value)}")
    for item in value:
        if not isinstance(item, str):
            raise ConfigError(f"{where}: must be a list of strings, but holds {_kind(item)}")
    return tuple(value)


def _selectors(value: object, known: Mapping[str, str], where: str) -> tuple[str, ...]:
    return tuple(parse_selector(item, known, where) for item in _strings(value, where))


def _globs(value: object, known: Mapping[str, str], where: str) -> tuple[str, ...]:
    return _strings(value, where)


def _selectors_by_glob(value: object, known: Mapping[str, str], where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: must be a table of lists, such as {{ 'tests/*' = ['GG301'] }}, not {_kind(value)}")
    return tuple((glob, _selectors(codes, known, f"{where} '{glob}'")) for glob, codes in value.items())


def _confidence(value: object, known: Mapping[str, str], where: str) -> Confidence:
    choices = [level.value for level in Confidence]
    if value not in choices:
        shown = f"`{value}`" if isinstance(value, str) else _kind(value)
        raise ConfigError(f"{where}: must be {' or '.join(f'`{c}`' for c in choices)}, not {shown}")
    return Confidence(value)


def _kind(value: object) -> str:
    names = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", list: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")


_READERS: dict[str, Callable[[object, Mapping[str, str], str], Any]] = {
    "select": _selectors,
    "ignore": _selectors,
    "per-file-ignores": _selectors_by_glob,
    "exclude": _globs,
    "min-confidence": _confidence,
}

"""The last run on disk: one JSON file for each way in which ``gradguard check`` is called.

It is written whole or not at all, with a digest of itself: whatever is wrong with it makes the run a first one.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from gradguard.catalogue import Catalogue
from gradguard.config import Settings
from gradguard.findings import CheckResult, Confidence, Edit, FileError, Finding, Fix, Related, Severity, Span
from gradguard.static.asked import Asked
from gradguard.static.files.traits import Traits
from gradguard.static.last_run import LastRun, Part, Reading

_PREFIX = "gradguard-check-"
_DAYS_KEPT = 30
_SECONDS_A_DAY = 86_400


class Cache:
    """Where one last run is kept.

    Args:
        file: its file; its folder is made when needed.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.problem: str | None = None

    def load(self) -> LastRun | None:
        """The last run; none when there was none, or what is there is not what was written."""
        try:
            digest, _, text = self.file.read_bytes().partition(b"\n")
            if digest != _digest(text):
                return None
            os.utime(self.file)  # it is of use
            return _Decoder(json.loads(text)).run()
        except OSError:
            return None

    def save(self, run: LastRun) -> None:
        """Keep a run. Where that is not possible ``problem`` says why, and the next one is a first one again."""
        text = json.dumps(_Encoder().run(run), separators=(",", ":")).encode()
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.file.parent, prefix=_PREFIX, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(_digest(text) + b"\n" + text)
                os.replace(name, self.file)
            except BaseException:
                os.unlink(name)
                raise
            _forget_old(self.file.parent)
        except OSError as error:
            self.problem = f"{self.file.parent}: {(error.strerror or str(error)).lower()}"


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).hexdigest().encode()


def cache_for(folder: Path, paths: Iterable[Path], settings: Settings, catalogue: Catalogue) -> Cache:
    """The cache of a run that is called like this one, by this version, here.

    Args:
        folder: where caches are kept.
        paths: what is to be checked, as it was named.
        settings: how.
        catalogue: with which rules.
    """
    named = sorted(os.path.abspath(path) for path in paths)
    key = repr((sys.version, sorted(_version(catalogue)), os.getcwd(), settings, named))
    return Cache(folder / f"{_PREFIX}{_digest(key.encode()).decode()}.json")


def _version(catalogue: Catalogue) -> Iterator[tuple[str, int, int]]:
    """Every file of GradGuard and of its rule packs, when it was written and its size."""
    import gradguard

    modules = (sys.modules[rule.module] for rule in catalogue)
    files = {os.path.dirname(module.__file__) for module in (gradguard, *modules) if module.__file__}
    for folder in files:
        for above, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                if name.endswith(".py"):
                    stat = os.stat(os.path.join(above, name))
                    yield os.path.join(above, name), stat.st_mtime_ns, stat.st_size


def _forget_old(folder: Path) -> None:
    """Delete what no run has used for a month, and what runs that were killed have left."""
    for file in folder.glob(f"{_PREFIX}*"):
        if file.stat().st_mtime < time.time() - _DAYS_KEPT * _SECONDS_A_DAY:
            file.unlink(missing_ok=True)


# --- the file -----------------------------------------------------------------------------------------------------


class _Encoder:
    """A run as JSON: paths are numbers, since each stands in many places."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def _path(self, path: Path) -> int:
        return self._numbers.setdefault(str(path), len(self._numbers))

    def _paths(self, paths: Iterable[Path]) -> list[int]:
        return sorted(map(self._path, paths))

    def _by_path(self, items: Mapping[Path, Any]) -> list[tuple[int, Any]]:
        return [(self._path(path), item) for path, item in items.items()]

    def run(self, run: LastRun) -> dict[str, Any]:
        reading = run.reading
        encoded = {
            "time": run.time,
            "traits": self._by_path({path: astuple(traits) for path, traits in run.traits.items()}),
            "others": self._by_path({path: astuple(traits) for path, traits in run.others.items()}),
            "relevant": self._paths(run.relevant),
            "parts": self._by_path({path: asdict(part) for path, part in reading.parts.items()}),
            "asked": self._by_path({path: self._asked(asked) for path, asked in reading.asked.items()}),
            "folders": self._by_path({path: sorted(names) for path, names in reading.folders.items()}),
            "marked": self._by_path(reading.marked),
            "imports": self._by_path({path: sorted(names) for path, names in reading.imports.items()}),
            "result": asdict(run.result),
        }
        return {"paths": list(self._numbers), **encoded}

    def _asked(self, asked: Asked) -> list[Any]:
        named = (asked.names, asked.calls, asked.methods, asked.words)
        words = (*map(sorted, named), sorted(asked.patterns))
        return [self._paths(asked.files), self._paths(asked.texts), *words, asked.program]


class _Decoder:
    """The reverse."""

    def __init__(self, encoded: dict[str, Any]) -> None:
        self._encoded = encoded
        self._paths = [Path(path) for path in encoded["paths"]]

    def _by_path(self, name: str) -> Iterator[tuple[Path, Any]]:
        return ((self._paths[number], item) for number, item in self._encoded[name])

    def run(self) -> LastRun:
        encoded = self._encoded
        others = {path: Traits(*traits) for path, traits in self._by_path("others")}
        reading = Reading(
            {path: Part(_findings(part), _errors(part)) for path, part in self._by_path("parts")},
            {path: self._asked(asked) for path, asked in self._by_path("asked")},
            {path: frozenset(names) for path, names in self._by_path("folders")},
            dict(self._by_path("marked")),
            set(others),
            {path: frozenset(names) for path, names in self._by_path("imports")},
        )
        return LastRun(
            encoded["time"],
            {path: Traits(*traits) for path, traits in self._by_path("traits")},
            others,
            frozenset(self._paths[number] for number in encoded["relevant"]),
            reading,
            CheckResult(encoded["result"]["files"], _findings(encoded["result"]), _errors(encoded["result"])),
        )

    def _asked(self, asked: list[Any]) -> Asked:
        files, texts, names, calls, methods, words, patterns, program = asked
        used, found = ({self._paths[number] for number in numbers} for numbers in (files, texts))
        matched = {(pattern, flags) for pattern, flags in patterns}
        return Asked(used, found, set(names), set(calls), set(methods), set(words), matched, program)


def _findings(encoded: dict[str, Any]) -> tuple[Finding, ...]:
    return tuple(map(_finding, encoded["findings"]))


def _errors(encoded: dict[str, Any]) -> tuple[FileError, ...]:
    return tuple(FileError(**error) for error in encoded["errors"])


def _finding(encoded: dict[str, Any]) -> Finding:
    return Finding(
        **{
            **encoded,
            "severity": Severity(encoded["severity"]),
            "confidence": Confidence(encoded["confidence"]),
            "span": Span(**encoded["span"]),
            "fix": _fix(encoded["fix"]) if encoded["fix"] else None,
            "related": tuple(Related(**related) for related in encoded["related"]),
            "evidence": None,
        }
    )


def _fix(encoded: dict[str, Any]) -> Fix:
    edits = tuple(Edit(Span(**edit["span"]), edit["text"]) for edit in encoded["edits"])
    return Fix(encoded["description"], edits, encoded["safe"])

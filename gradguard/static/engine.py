"""The run over many files: screen, read, ask the rules, apply suppressions."""

from __future__ import annotations

import gc
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gradguard.catalogue import Catalogue, Rule, is_selected
from gradguard.config import Settings
from gradguard.findings import CheckResult, Confidence, FileError, Finding, Span
from gradguard.static import source as sources
from gradguard.static import suppress
from gradguard.static.discover import shown
from gradguard.static.gate import SourceError
from gradguard.static.outline import SCRIPT, Extent, Outline
from gradguard.static.patterns import ignored_codes
from gradguard.static.screen import Screen, Selection, everything
from gradguard.static.source import Source
from gradguard.static.survey import imported_names, module_name

if TYPE_CHECKING:
    from gradguard.static.project import Module, Project

_ABOUT_TORCH = re.compile(rb"torch|lightning|accelerat|deepspeed|import\s*\*")
_RECURSION_LIMIT = 10_000


def check(files: Sequence[Path], settings: Settings, catalogue: Catalogue, *, screened: bool = True) -> CheckResult:
    """Check files.

    Args:
        files: absolute paths, as discovered.
        settings: which rules are on, and where.
        catalogue: every rule there is.
        screened: leave out files and functions in whose text nothing speaks for a finding; to see that nothing is
            lost by it, leave out none.

    Returns:
        Sorted findings of the wanted confidence, suppressions applied, and the files that could not be analysed.
    """
    from gradguard.static.project import Project

    rules = _rules(settings, catalogue)
    screen = Screen(rules) if rules and screened else None
    texts, about_torch, errors = _read(files, screen, bool(rules))
    run = _Run(Project(files, shown, about_torch), rules, errors)
    with _interpreter():
        run.files(texts, screen)
    return run.result(settings, len(files))


def check_text(text: str, path: str, settings: Settings, catalogue: Catalogue) -> CheckResult:
    """Check a text that is not (yet) in a file, as if it were the file at ``path``."""
    from gradguard.static.project import Project

    rules = _rules(settings, catalogue)
    run = _Run(Project((), shown), rules, [])
    with _interpreter():
        run.files({Path(path).absolute(): _Text(text.encode(), True)}, Screen(rules))
    return run.result(settings, 1)


def _rules(settings: Settings, catalogue: Catalogue) -> tuple[Rule, ...]:
    chosen = catalogue.selected(settings.select, settings.ignore)
    return tuple(rule for rule in chosen if rule.source_check is not None)


class _Text(NamedTuple):
    """What a file holds, and whether any rule may apply to it; else only its suppression comments are read."""

    data: bytes
    is_relevant: bool


def _read(
    files: Iterable[Path], screen: Screen | None, any_rule: bool
) -> tuple[dict[Path, _Text], list[Path], list[FileError]]:
    """The files worth opening; all that are about torch; and those that cannot be read."""
    kept: dict[Path, _Text] = {}
    errors: list[FileError] = []
    about_torch: list[Path] = []
    others: list[Path] = []
    for path in files:
        try:
            data = path.read_bytes()
        except OSError as error:
            errors.append(FileError(shown(path), None, (error.strerror or str(error)).lower()))
            continue
        is_about = _ABOUT_TORCH.search(data) is not None
        applies = any_rule and (screen is None or screen.passes(data))
        if is_about:
            about_torch.append(path)
        elif applies:
            others.append(path)
        if (applies and is_about) or _mentioned(data):
            kept[path] = _Text(data, applies and is_about)
    imported = _imported(others, about_torch)
    for path in imported:
        kept[path] = _Text(path.read_bytes(), True)
    return kept, sorted([*about_torch, *imported]), errors


def _imported(others: list[Path], about_torch: list[Path]) -> list[Path]:
    """Those of the other files that one about torch imports: callbacks, meters and buffers need no torch themselves."""
    wanted = {module_name(path) for path in others}
    found: set[str] = set()
    for path in about_torch if wanted else ():
        found |= wanted & imported_names(path.read_bytes().decode(errors="replace"))
    return [path for path in others if module_name(path) in found]


@contextmanager
def _interpreter() -> Iterator[None]:
    """The interpreter's settings for a run.

    Room for recursive readings of expressions that are nested up to ``source.MAX_DEPTH``; and no cyclic collections:
    the trees live as long as the run and hold hardly any cycles, and walking them again and again took half the time.
    """
    limit, collects = sys.getrecursionlimit(), gc.isenabled()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    gc.disable()
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if collects:
            gc.enable()


class _Run:
    """What one run has found so far."""

    def __init__(self, project: Project, rules: tuple[Rule, ...], errors: list[FileError]) -> None:
        self.project = project
        self.rules = rules
        self.findings: dict[tuple[str, int | None, Span, str], Finding] = {}
        self.errors = errors
        self.sources: dict[str, tuple[Path, Source]] = {}

    def files(self, texts: Mapping[Path, _Text], screen: Screen | None) -> None:
        """Check some files; of one that is not relevant only the suppression comments are read."""
        modules: list[Module] = []
        for path, text in texts.items():
            try:
                source = sources.from_bytes(text.data, shown(path), notebook=path.suffix == ".ipynb")
                self.sources[source.path] = (path, source)
                if text.is_relevant:
                    self.errors += source.problems
                    modules.append(self.project.add(source, path))
            except SourceError as error:
                self.errors.append(FileError(shown(path), error.line, str(error)))
        for module in modules:
            selection = screen.select(module.source) if screen else everything(module.source)
            if selection and module.uses_torch:
                self._module(module, selection)

    def _module(self, module: Module, selection: Selection) -> None:
        for extent in _parsed_for(selection, module.outline):
            problem = sources.problem_error(module.source, extent)
            if problem is not None:
                self.errors.append(problem)
        for flow in self.project.flows(module, selection, self.errors):
            for rule in self.rules:
                assert rule.source_check is not None
                for finding in rule.source_check(flow.facts):
                    place = (finding.path, finding.cell, finding.span, finding.code)
                    known = self.findings.get(place)
                    if known is None or _says_more(finding, known):
                        self.findings[place] = finding

    def result(self, settings: Settings, count: int) -> CheckResult:
        """Suppressions, per-file ignores and confidence applied."""
        by_path: dict[str, list[Finding]] = defaultdict(list)
        for finding in self.findings.values():
            by_path[finding.path].append(finding)
        for path in self.project.files:  # a finding may lie in a file that did not pass the screen: a base class
            if shown(path) in by_path and shown(path) not in self.sources:
                module = self.project.module(path)
                if module is not None:
                    self.sources[shown(path)] = (path, module.source)
        kept: list[Finding] = []
        for name, (path, source) in self.sources.items():
            if not by_path[name] and not _mentioned(source.text.encode(errors="replace")):
                continue
            broken = any(error.path == name for error in self.errors)
            kept += _suppressed(by_path[name], path, source, settings, broken)
        wanted = [f for f in kept if settings.min_confidence is Confidence.LOW or f.confidence is Confidence.HIGH]
        errors = sorted(set(self.errors), key=lambda e: (e.path, e.line or 0, e.message))
        return CheckResult(count, tuple(sorted(wanted, key=lambda f: f.sort_key)), tuple(errors))


def _parsed_for(selection: Selection, outline: Outline) -> Iterator[Extent]:
    """The statements that hold the chosen functions."""
    yield from (extent for name, extent in outline.functions.items() if selection.has_function("", name))
    yield from (extent for name, extent in outline.classes.items() if selection.has_class(name))
    yield from outline.script if selection.has_function("", SCRIPT) else ()


def _says_more(finding: Finding, known: Finding) -> bool:
    """Whether a finding at the same place is the better one: surer, or with a fix."""
    if finding.confidence is not known.confidence:
        return finding.confidence is Confidence.HIGH
    return known.fix is None and finding.fix is not None


def _mentioned(data: bytes) -> bool:
    """Whether a file may hold a comment of ours, which is reported when it is of no use."""
    return b"gradguard" in data.lower()


def _suppressed(findings: list[Finding], path: Path, source: Source, settings: Settings, broken: bool) -> list[Finding]:
    """The findings that comments leave; in a broken file no comment is called unused, since not all of it was read."""
    ignored = (*ignored_codes(path, settings), *((suppress.rule.code,) if broken else ()))

    @cache
    def selected(code: str) -> bool:
        return is_selected(code, settings.select, (*settings.ignore, *ignored))

    here = [f for f in findings if selected(f.code)]
    return suppress.apply_parts(here, source.parts, path=source.path, selected=selected)

"""Reads files with some rules, one after another, and notes what each asked about the others."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gradguard.catalogue import Rule
from gradguard.findings import FileError, Finding
from gradguard.static import source as sources
from gradguard.static.discover import shown
from gradguard.static.faults import fault
from gradguard.static.files.gate import SourceError
from gradguard.static.files.outline import SCRIPT, Extent, Outline
from gradguard.static.last_run import Part, Reading
from gradguard.static.project import Module, Project
from gradguard.static.screen import Screen, Selection, everything
from gradguard.static.source import Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_RECURSION_LIMIT = 10_000


class Reader:
    """Reads files of one project.

    Args:
        project: all files that are checked.
        rules: what to look for.
        screen: which functions are worth it; none when all are.
    """

    def __init__(self, project: Project, rules: tuple[Rule, ...], screen: Screen | None) -> None:
        self.project = project
        self.rules = rules
        self._screen = screen

    def read(self, paths: Iterable[Path]) -> Reading:
        """What is found in some files."""
        batches = iter((tuple(paths), ()))
        return self.read_all(lambda: next(batches))

    def read_all(self, next_batch: Callable[[], Sequence[Path]]) -> Reading:
        """What is found in all files that are asked for, until none is.

        Args:
            next_batch: the next files to read; none when there are no more.
        """
        parts: dict[Path, Part] = {}
        with _interpreter():
            while batch := next_batch():
                parts.update((path, self._part(path)) for path in batch)
        return Reading(
            parts,
            self.project.questions.all(),
            self.project.imports.folders,
            self.project.imports.marked,
            self.project.others,
            self.project.texts.imports,
        )

    def source(self, path: Path) -> Source:
        """The text of a file.

        Raises:
            SourceError: it cannot be opened, decoded, or is not a notebook.
        """
        return self.project.source(path)

    def _part(self, path: Path) -> Part:
        try:
            module = self.project.add(self.source(path), path)
        except SourceError as error:
            return Part((), (FileError(shown(path), error.line, str(error)),))
        source = module.source
        errors = list(source.problems)
        findings: list[Finding] = []
        try:
            findings.extend(self._findings(module, errors))  # what comes before a fault stays
        except Exception as wrong:
            errors.append(fault(source.path, wrong))
        source.forget()
        return Part(tuple(findings), tuple(errors))

    def _findings(self, module: Module, errors: list[FileError]) -> Iterator[Finding]:
        if not module.uses_torch:
            return
        calls_training = partial(self.project.survey.imports_training, module)
        selection = self._screen.select(module.source, calls_training) if self._screen else everything(module.source)
        if not selection:
            return
        for extent in _parsed_for(selection, module.outline):
            problem = sources.problem_error(module.source, extent)
            if problem is not None:
                errors.append(problem)
        for flow in self.project.flows(module, selection, errors):
            for rule in self.rules:
                yield from _found_by(rule, flow, errors)


def _found_by(rule: Rule, flow: Flow, errors: list[FileError]) -> Iterator[Finding]:
    """What a rule finds in a function."""
    path = flow.module.source.path
    assert rule.source_check is not None
    try:
        yield from rule.source_check(flow.facts)
    except SourceError as error:
        errors.append(FileError(path, error.line, str(error)))
    except Exception as wrong:
        errors.append(fault(path, wrong, f" of {rule.code} in `{flow.ref.qualified}`"))


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


def _parsed_for(selection: Selection, outline: Outline) -> Iterator[Extent]:
    """The statements that hold the chosen functions."""
    yield from (extent for name, extent in outline.functions.items() if selection.has_function("", name))
    yield from (extent for name, extent in outline.classes.items() if selection.has_class(name))
    yield from outline.script if selection.has_function("", SCRIPT) else ()

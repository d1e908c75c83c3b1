"""The edits that findings bring, made and proven: one is kept when its finding is gone after it. Nothing is written."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradguard.editing import clash, edited_text, line_after
from gradguard.findings import CheckResult, Edit, Finding, Severity
from gradguard.static.discover import shown
from gradguard.static.files.gate import SourceError
from gradguard.static.files.notebooks import code_cells, unreadable_cells
from gradguard.static.source import encoding_of, from_bytes

MOST_ROUNDS = 50

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

Checks = Callable[[Mapping[Path, bytes]], CheckResult]
"""Checks the files of a run, with other contents for some of them."""


@dataclass(frozen=True)
class Outcome:
    """What was made of some files.

    Args:
        contents: of the files that are to change: what they are to hold.
        made: the findings whose edits were made, each as it was found.
        undone: those whose edits were tried, and did not end them or brought another one.
        result: what is left, as if the contents were written.
    """

    contents: dict[Path, bytes]
    made: tuple[Finding, ...]
    undone: tuple[Finding, ...]
    result: CheckResult


def fix(files: Iterable[Path], checks: Checks, read: Callable[[Path], bytes], *, unsafe: bool = False) -> Outcome:
    """Make edits until no finding brings one that can be made.

    Args:
        files: what is checked, absolute.
        checks: how.
        read: gives the content of a file.
        unsafe: make those edits too that can change what the program computes.

    Returns:
        What the files are to hold; an edit after which its finding is still there, or another has come, or the file
        is no Python, is not in it.
    """
    paths = {shown(path): path for path in files}
    work = _Work(read)
    result = checks({})
    for _ in range(MOST_ROUNDS):
        trials = work.trials(result, paths, unsafe)
        if not trials:
            break
        after = checks({**work.contents, **{trial.path: trial.content for trial in trials}})
        result = after if work.keep(trials, result, after) else checks(work.contents)
    return Outcome(work.contents, tuple(work.made), tuple(work.undone), result)


@dataclass(frozen=True)
class _Trial:
    """What some edits make of one file."""

    path: Path
    findings: tuple[Finding, ...]
    content: bytes
    is_python: bool

    def is_right(self, before: CheckResult, after: CheckResult) -> bool:
        """Whether every finding of it is gone, and nothing else has come in its place, nor any other error.

        What one finding has hidden may come to light elsewhere: an evaluation that records graphs, once it keeps none.
        """
        name = shown(self.path)
        was = [finding for finding in before.findings if finding.path == name]
        new = [finding for finding in after.findings if finding.path == name]
        edited = {self._moved(finding) for finding in self.findings}
        others = Counter(self._moved(finding) for finding in was if finding not in self.findings)
        left = Counter((finding.code, finding.cell, finding.span.line) for finding in new)
        if any(left[place] > others[place] for place in edited):
            return False
        places = {(cell, line) for _, cell, line in edited}
        came = [finding for finding in new if finding.code not in {known.code for known in was}]
        wrong = (f for f in came if f.severity is Severity.ERROR or (f.cell, f.span.line) in places)
        return self.is_python and not any(wrong) and not _errors(after, name) - _errors(before, name)

    def _moved(self, finding: Finding) -> tuple[str, int | None, int]:
        """The code of a finding, and the cell and the line that it is in after the edits."""
        edits = [edit for other in self.findings if other.cell == finding.cell for edit in _edits(other)]
        return finding.code, finding.cell, line_after(finding.span.line, finding.span.column, edits)


@dataclass
class _Work:
    """How far it has come.

    Args:
        read: gives the content of a file that was not edited.
        contents: of those that were.
        one_at_a_time: files of which not all edits that were made together were right.
        refused: edits that were wrong by themselves.
    """

    read: Callable[[Path], bytes]
    contents: dict[Path, bytes] = field(default_factory=dict)
    made: list[Finding] = field(default_factory=list)
    undone: list[Finding] = field(default_factory=list)
    one_at_a_time: set[Path] = field(default_factory=set)
    refused: set[tuple[str, int | None, str, str, str]] = field(default_factory=set)

    def trials(self, result: CheckResult, paths: Mapping[str, Path], unsafe: bool) -> list[_Trial]:
        """The next edits of each file that can be made at once."""
        waiting: defaultdict[Path, list[Finding]] = defaultdict(list)
        for finding in result.findings:
            is_offered = finding.fix is not None and (unsafe or finding.fix.safe)
            if is_offered and finding.path in paths and _identity(finding) not in self.refused:
                waiting[paths[finding.path]].append(finding)
        return [self._trial(path, _together(findings)) for path, findings in waiting.items()]

    def _trial(self, path: Path, findings: Sequence[Finding]) -> _Trial:
        chosen = tuple(findings[:1] if path in self.one_at_a_time else findings)
        data = self.contents[path] if path in self.contents else self.read(path)
        edits: dict[int | None, set[Edit]] = {}
        for finding in chosen:
            edits.setdefault(finding.cell, set()).update(_edits(finding))
        content = edited_file(data, path.suffix == ".ipynb", edits)
        return _Trial(path, chosen, content, _problems(content, path) <= _problems(data, path))

    def keep(self, trials: Iterable[_Trial], before: CheckResult, after: CheckResult) -> bool:
        """Keep the trials that were right.

        Returns:
            Whether all were.
        """
        wrong = [trial for trial in trials if not trial.is_right(before, after)]
        for trial in trials:
            if trial not in wrong:
                self.contents[trial.path] = trial.content
                self.made += trial.findings
            elif len(trial.findings) > 1:
                self.one_at_a_time.add(trial.path)
            else:
                self.refused.add(_identity(trial.findings[0]))
                self.undone += trial.findings
        return not wrong


def _together(findings: Iterable[Finding]) -> list[Finding]:
    """Those whose edits can be made at once: the same edit ends several."""
    chosen: list[Finding] = []
    taken: set[tuple[int | None, Edit]] = set()
    for finding in findings:
        edits = {(finding.cell, edit) for edit in _edits(finding)}
        new = edits - taken
        if not any(cell == other and clash(edit, made) for cell, edit in new for other, made in taken):
            chosen.append(finding)
            taken |= new
    return chosen


def _edits(finding: Finding) -> tuple[Edit, ...]:
    return finding.fix.edits if finding.fix is not None else ()


def _identity(finding: Finding) -> tuple[str, int | None, str, str, str]:
    """An edit, wherever the lines before it have moved it."""
    columns = " ".join(f"{edit.span.column} {edit.text}" for edit in _edits(finding))
    return finding.path, finding.cell, finding.code, finding.message, columns


def _errors(result: CheckResult, name: str) -> set[str]:
    return {error.message for error in result.errors if error.path == name}


# --- the content of a file ----------------------------------------------------------------------------------------


def _problems(content: bytes, path: Path) -> float:
    """How many cells of a notebook are no Python; more than any number where a file is none."""
    try:
        if path.suffix == ".ipynb":
            return unreadable_cells(content)
        from_bytes(content, shown(path)).outline  # noqa: B018 - reading it parses the text
        return 0
    except SourceError:
        return float("inf")


def edited_file(data: bytes, is_notebook: bool, edits: Mapping[int | None, Iterable[Edit]]) -> bytes:
    """The content of a file after edits; its encoding and its ends of lines stay.

    Args:
        edits: by the cell of a notebook, or under None.
    """
    if is_notebook:
        return _edited_notebook(data, edits)
    encoding = encoding_of(data)
    return edited_text(data.decode(encoding), edits.get(None, ())).encode(encoding)


def _edited_notebook(data: bytes, edits: Mapping[int | None, Iterable[Edit]]) -> bytes:
    """A notebook after edits; of a cell that has none nothing changes, and the layout of the file stays."""
    encoding = json.detect_encoding(data)
    text = data.decode(encoding)
    notebook = json.loads(text)
    sheets = notebook.get("worksheets")
    cells = [c for sheet in sheets for c in sheet["cells"]] if sheets else notebook["cells"]
    code = (cell for cell in cells if cell["cell_type"] == "code")
    for number, (cell, written) in enumerate(zip(code, code_cells(data)), start=1):
        if number in edits:
            key = "source" if "source" in cell else "input"
            new = edited_text(written, edits[number])
            cell[key] = _LINE.findall(new) if isinstance(cell[key], list) else new
    indent = re.search(r"\n([ \t]+)\S", text)
    layout = indent[1] if indent else None
    separators = None if layout or '": ' in text else (",", ":")
    is_plain = text.isascii() or "\\ud" in text.lower()  # half of a character can only be written as an escape
    dumped = json.dumps(notebook, indent=layout, ensure_ascii=is_plain, separators=separators)
    dumped = dumped.replace("\n", "\r\n") if "\r\n" in text else dumped  # in a string both are escaped
    return (dumped + text[len(text.rstrip()) :]).encode(encoding)

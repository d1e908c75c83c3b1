"""A suppression comment that suppresses nothing.

**What happens.** A comment silences findings at one place:

```python
total += loss  # gradguard: ignore[GG103] two steps only, on purpose
```

The code changes and the comment stays: then it hides the next real leak at that line. So a `gradguard: ignore` that
silences nothing is reported, and so are a code that does not exist and a misspelled directive, which would silence
nothing without anybody noticing.

**Where it counts.** On the finding's own lines, and on the first and the last line of the statement that the finding
is in. `ignore[GG103, GG104]` names several codes, `# gradguard: ignore` silences every one.
`# gradguard: ignore-file[GG103]` or `# gradguard: ignore-file` on any line holds for the whole file, in a notebook for
all cells. `# noqa` and `# noqa: GG103` are honoured as well.

**Not flagged.** A `noqa`: it may be there for another tool. A code that was not selected in this run.

**With ruff.** Its RUF100 removes codes that it does not know from `noqa` comments. Tell it that these belong to
somebody else:

```toml
[tool.ruff.lint]
external = ["GG"]
```
"""

from __future__ import annotations

import re
import tokenize
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from gradguard import catalogue
from gradguard.catalogue import Rule
from gradguard.config import did_you_mean
from gradguard.findings import Confidence, Edit, Finding, Fix, Severity, Span

rule = Rule("GG001", "unused-suppression", Severity.WARNING)
"""Not in a rule pack, because it looks at comments and at what the other rules found."""

_ANY = re.compile(r"gradguard\s*:|noqa", re.IGNORECASE)
_OURS = re.compile(rb"gradguard\s*:", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*gradguard\s*:\s*(?P<word>[\w-]*)(?P<rest>[^#]*)", re.IGNORECASE)
_CODES = re.compile(r"\s*\[(?P<codes>[^\]]*)\]")
_BARE_CODES = re.compile(r"\s*[:=(]?\s*[A-Za-z]+\d+\b|\s*\[")
_NOQA = re.compile(r"#\s*noqa(?![\w-])(?:\s*(?P<colon>:)(?P<codes>(?:[\s,]*[A-Z]+\d+\b)*))?", re.IGNORECASE)
_OTHER_TOOLS_WORDS = {"noqa", "disable", "skip", "off", "suppress", "nolint", "allow"}

Part = tuple[int | None, str]
"""A notebook's cell number and its text, or ``(None, text)`` for a file."""


def mentions(data: bytes) -> bool:
    """Whether a file may hold a comment of ours, so that it must be looked at even if nothing is found in it."""
    return _OURS.search(data) is not None


def apply_parts(
    findings: Sequence[Finding],
    parts: Sequence[Part],
    *,
    path: str,
    selected: Callable[[str], bool],
    known: Collection[str] | None = None,
) -> list[Finding]:
    """The findings of one file that its comments leave, with a GG001 for each comment that is of no use.

    Args:
        findings: all findings of the file, also those of low confidence: whether a comment is used must not depend
            on what is shown.
        parts: the file's text, or the text of each cell of a notebook.
        path: as in the findings.
        selected: whether a code is looked for in this file; a code that is not cannot be unused.
        known: every code there is; those of the catalogue when not given.
    """
    pages = {cell: _Page(text) for cell, text in parts if _ANY.search(text)}
    whole_file = [d for page in pages.values() for d in page.directives if d.whole_file]
    used: defaultdict[_Directive, set[str]] = defaultdict(set)
    kept: list[Finding] = []
    for finding in findings:
        page = pages.get(finding.cell)
        hits = [d for d in (*whole_file, *(page.covering(finding.span) if page else ())) if d.covers(finding.code)]
        for directive in hits:
            used[directive].add(finding.code)
        if not hits and not (page and page.noqa(finding.span, finding.code)):
            kept.append(finding)
    if selected(rule.code) and any(page.directives for page in pages.values()):
        codes = frozenset(known if known is not None else (r.code for r in catalogue.load())) | {rule.code}
        for cell, page in pages.items():
            for directive in page.directives:
                problem = _problem(directive, used[directive], codes, selected)
                report = problem and _report(directive, problem, page.lines, path, cell)
                if report and not _silences_report(directive, report, page, whole_file):
                    kept.append(report)
    return sorted(kept, key=lambda f: f.sort_key)


# --- reading comments ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Directive:
    """One ``# gradguard: ...`` comment.

    Args:
        span: from its ``#`` to its end.
        word: ``ignore``, ``ignore-file``, or what stands there instead.
        codes: None when the comment names none.
        codes_span: what stands between the brackets.
        mistake: why it has no effect.
    """

    span: Span
    word: str
    codes: tuple[str, ...] | None = None
    codes_span: Span | None = None
    mistake: str | None = None

    @property
    def whole_file(self) -> bool:
        return self.word == "ignore-file"

    def covers(self, code: str) -> bool:
        return self.mistake is None and (self.codes is None or code in self.codes)


@dataclass
class _Statement:
    """The lines of a statement, and for a decorator the line of its ``def`` or ``class``."""

    first: int
    last: int
    decorated: int | None = None


class _Page:
    """The comments of a text, and which lines belong to one statement."""

    def __init__(self, text: str) -> None:
        self.lines = _lines(text)
        self.directives: list[_Directive] = []
        self._noqa: dict[int, tuple[str, ...] | None] = {}
        self._statements: list[_Statement] = []
        for line, comment in _comments(self.lines, self._statements):
            self._read(line, len(self.lines[line - 1]) - len(comment) + 1, comment)
        self._local: dict[int, list[_Directive]] = {}
        for directive in self.directives:
            if not directive.whole_file:
                self._local.setdefault(directive.span.line, []).append(directive)

    def covering(self, span: Span) -> list[_Directive]:
        """The directives on the lines that count for a finding at ``span``."""
        return [d for line in self._lines_for(span) for d in self._local.get(line, ())]

    def noqa(self, span: Span, code: str) -> bool:
        """Whether a ``noqa`` silences ``code`` at ``span``."""
        hits = (self._noqa[line] for line in self._lines_for(span) if line in self._noqa)
        return any(codes is None or code in codes for codes in hits)

    def _lines_for(self, span: Span) -> set[int]:
        """The span's lines, but not beyond the statement it begins in (a loop's body is not part of its header),
        with that statement's first and last line, and the ``def`` line for a decorator."""
        index = bisect_right(self._statements, span.line, key=lambda s: s.first) - 1
        if index < 0 or self._statements[index].last < span.line:
            return {span.line}
        own = self._statements[index]
        return {own.first, own.last, own.decorated or own.first, *range(span.line, min(span.end_line, own.last) + 1)}

    def _read(self, line: int, column: int, comment: str) -> None:
        for match in _DIRECTIVE.finditer(comment):
            directive = _directive(match, line, column)
            if directive:
                self.directives.append(directive)
        noqa = _NOQA.search(comment)
        if noqa:
            codes = tuple(re.findall(r"[A-Z]+\d+", (noqa["codes"] or "").upper()))
            # A colon and no code after it: ruff calls it invalid, and it silences nothing here either.
            self._noqa[line] = codes if noqa["colon"] else None


def _directive(match: re.Match[str], line: int, column: int) -> _Directive | None:
    """The directive at ``match`` in a comment that begins at ``column``; None when it is only prose."""
    word, rest = match["word"].lower(), match["rest"]
    end = match.start() + len(match[0].rstrip())
    span = Span(line, column + match.start(), line, column + end)
    if word not in ("ignore", "ignore-file"):
        near = did_you_mean(word, ("ignore", "ignore-file"))
        if near or word in _OTHER_TOOLS_WORDS or rest.lstrip().startswith("["):
            return _Directive(span, word, mistake=f"`gradguard: {word}` is not a directive{near or _SPELLING}")
        return None
    listed = _CODES.match(rest)
    if not listed:
        mistake = f"the codes belong in brackets: `gradguard: {word}[GG103]`" if _BARE_CODES.match(rest) else None
        return _Directive(span, word, mistake=mistake)
    codes = tuple(dict.fromkeys(_code(c) for c in re.split(r"[\s,]+", listed["codes"]) if c))
    begin = column + match.start("rest")
    inner = Span(line, begin + listed.start("codes"), line, begin + listed.end("codes"))
    return _Directive(span, word, codes, inner, None if codes else "it names no code")


def _code(word: str) -> str:
    """A code as written, or the code of the rule with that name."""
    named = catalogue.load().get(word)
    return named.code if named is not None else word.upper()


_SPELLING = "; write `gradguard: ignore[GG103]`"


def _lines(text: str) -> list[str]:
    """The lines without their ends, split where Python's parser splits them (not at form feeds)."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _comments(lines: list[str], statements: list[_Statement]) -> Iterator[tuple[int, str]]:
    """Each comment with its line; notes the statements on the way.

    What cannot be tokenized (IPython's ``!ls "``, a syntax error) costs the line it is on, not the rest of the text.
    """
    start = done = 0
    while start < len(lines):
        logical = _Logical(statements)
        try:
            for token in tokenize.generate_tokens((f"{line}\n" for line in lines[start:]).__next__):
                line = token.start[0] + start
                if token.type == tokenize.COMMENT and line > done:
                    done = line
                    yield line, token.string
                logical.feed(token, line)
            return
        except IndentationError as error:  # the dedent after a restart within a block: the line itself is sound
            start += max((error.lineno or 1) - 1, 1)
        except SyntaxError as error:  # Python 3.12 and later
            start += max(error.lineno or 1, 1)
        except tokenize.TokenError as error:
            start += max(error.args[1][0], 1)


class _Logical:
    """Joins tokens to statements (a compound statement's header counts as one)."""

    def __init__(self, statements: list[_Statement]) -> None:
        self.statements = statements
        self.first: int | None = None
        self.is_decorator = False
        self.decorators: list[_Statement] = []

    def feed(self, token: tokenize.TokenInfo, line: int) -> None:
        if self.first is None:
            if token.type not in _BETWEEN:
                self.first, self.is_decorator = line, token.string == "@"
        elif token.type == tokenize.NEWLINE:
            self._end(_Statement(self.first, line))
            self.first = None

    def _end(self, statement: _Statement) -> None:
        if self.is_decorator:
            self.decorators.append(statement)
        else:
            for decorator in self.decorators:
                decorator.decorated = statement.first
            self.decorators.clear()
        if not self.statements or self.statements[-1].last < statement.first:  # a restart reads some lines again
            self.statements.append(statement)


_BETWEEN = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


# --- reporting comments -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Problem:
    """What is wrong with a directive, and the codes that may stay (None: the comment goes; ``()``: no edit)."""

    message: str
    help: str
    keep: tuple[str, ...] | None


def _problem(
    directive: _Directive, used: set[str], known: Collection[str], selected: Callable[[str], bool]
) -> _Problem | None:
    if directive.mistake:
        return _Problem(f"this comment has no effect: {directive.mistake}", "correct it, or remove it", ())
    if directive.codes is None:
        # It may be there for any code: only a run that looks for all of them can say.
        if used or not all(selected(code) for code in known):
            return None
        return _Problem("this comment suppresses nothing", "remove it", None)
    wrong: list[str] = []
    unknown = [code for code in directive.codes if code not in known]
    unused = [c for c in directive.codes if c in known and c not in used and c != rule.code and selected(c)]
    if unused:
        wrong.append(f"{_listed(unused)} {'is' if len(unused) == 1 else 'are'} not found here")
    wrong += [f"`{code}` is not a code{_hint(code, known)}" for code in unknown]
    if not wrong:
        return None
    keep = tuple(code for code in directive.codes if code not in unused and code not in unknown)
    message = f"this comment suppresses {'more than it needs to' if keep else 'nothing'}: {', and '.join(wrong)}"
    return _Problem(message, f"leave {_listed(keep)}" if keep else "remove it", keep or None)


def _hint(code: str, known: Collection[str]) -> str:
    longer = sorted(k for k in known if k.startswith(code))
    return f"; write whole codes here, such as {longer[0]}" if longer else did_you_mean(code, known)


def _listed(codes: Sequence[str]) -> str:
    return ", ".join(f"`{code}`" for code in codes)


def _report(directive: _Directive, problem: _Problem, lines: list[str], path: str, cell: int | None) -> Finding:
    fix = None
    if problem.keep is None:
        fix = Fix("remove the comment", (_removal(directive, lines),), safe=True)
    elif problem.keep and directive.codes_span:
        fix = Fix("remove the code", (Edit(directive.codes_span, ", ".join(problem.keep)),), safe=True)
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=rule.severity,
        confidence=Confidence.HIGH,
        path=path,
        cell=cell,
        span=directive.span,
        message=problem.message,
        help=problem.help,
        fix=fix,
    )


def _removal(directive: _Directive, lines: list[str]) -> Edit:
    """The edit that takes the directive out: the whole line when nothing else is on it."""
    span = directive.span
    line = lines[span.line - 1]
    before, after = line[: span.column - 1], line[span.end_column - 1 :]
    if not before.strip() and not after.strip() and span.line < len(lines):
        return Edit(Span(span.line, 1, span.line + 1, 1), "")
    if after.strip():  # another comment follows: it takes this one's place
        end = span.end_column + len(after) - len(after.lstrip())
        return Edit(Span(span.line, span.column, span.line, end), "")
    return Edit(Span(span.line, len(before.rstrip()) + 1, span.line, len(line) + 1), "")


def _silences_report(directive: _Directive, report: Finding, page: _Page, whole_file: list[_Directive]) -> bool:
    """Whether the report on a directive is itself suppressed; a bare ``ignore`` does not silence its own report."""
    others = [d for d in (*whole_file, *page.covering(report.span)) if d is not directive]
    names_it = bool(directive.codes) and directive.covers(rule.code)
    return names_it or any(d.covers(rule.code) for d in others) or page.noqa(report.span, rule.code)

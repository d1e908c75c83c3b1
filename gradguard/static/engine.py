"""The run over many files: look at each, read those worth it, apply suppressions."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gradguard.catalogue import Catalogue, Rule, is_selected
from gradguard.config import Settings
from gradguard.findings import CheckResult, Confidence, FileError, Finding, Span
from gradguard.static import suppress, workers
from gradguard.static.discover import shown
from gradguard.static.files.gate import SourceError
from gradguard.static.files.patterns import ignored_codes
from gradguard.static.files.texts import Texts, module_name
from gradguard.static.files.traits import Look, look
from gradguard.static.files.traits import of as traits_of
from gradguard.static.last_run import LastRun, Part, Reading, Store, difference, others, outdated
from gradguard.static.screen import Screen

if TYPE_CHECKING:
    from gradguard.static.reader import Reader


def check(
    files: Sequence[Path],
    settings: Settings,
    catalogue: Catalogue,
    *,
    screened: bool = True,
    store: Store | None = None,
    jobs: int | None = 1,
    instead: Mapping[Path, bytes] | None = None,
) -> CheckResult:
    """Check files.

    Args:
        files: absolute paths, as discovered.
        settings: which rules are on, and where.
        catalogue: every rule there is.
        screened: leave out files and functions in whose text nothing speaks for a finding; to see that nothing is
            lost by it, leave out none.
        store: what the last run with the same arguments found, and where this one leaves what it finds.
        jobs: how many processes read files; None for as many as are worth it.
        instead: what is taken for the content of some of the files.

    Returns:
        Sorted findings of the wanted confidence, suppressions applied, and the files that could not be analysed.
    """
    rules = _rules(settings, catalogue)
    screen = _screen(rules, catalogue) if rules and screened else None
    last = store.load() if store is not None else None
    now = time.time_ns()
    seen = look(files, screen, last.traits if last else {}, last.time if last else 0, jobs, instead)
    texts = Texts(seen.data)
    if last is not None:
        unchanged = seen.traits.keys() - seen.data.keys()
        texts.imports.update((path, names) for path, names in last.reading.imports.items() if path in unchanged)
    kept = _kept(seen, texts, screen) if rules else _Kept((), frozenset())
    different = difference(last, seen.traits, kept.about_torch) if last else None
    if last is not None and not different and not seen.errors:
        if seen.data and store is not None:  # written again, and the same
            store.save(dataclasses.replace(last, time=now, traits=seen.traits))
        return last.result
    from gradguard.static.project import Project
    from gradguard.static.reader import Reader

    project = Project(files, shown, sorted(kept.about_torch), texts, noted=store is not None)
    reader = Reader(project, rules, screen)
    before = Reading()
    if last is not None and different is not None:
        before = last.reading.without(outdated(last, different, texts)).only(kept.files)
    reading = _read(reader, kept.files, before, seen, jobs)
    result = _result(reader, reading, seen, settings)
    if store is not None and not seen.errors:
        besides = others(reading.others, {}, 0)
        store.save(LastRun(now, seen.traits, besides, kept.about_torch, reading, result))
    return result


def check_text(text: str, path: str, settings: Settings, catalogue: Catalogue) -> CheckResult:
    """Check a text that is not (yet) in a file, as if it were the file at ``path``."""
    from gradguard.static.project import Project
    from gradguard.static.reader import Reader

    rules = _rules(settings, catalogue)
    place, data = Path(path).absolute(), text.encode()
    seen = Look({place: traits_of(data, None)}, {place: data}, [])
    reader = Reader(Project((), shown, texts=Texts(seen.data)), rules, _screen(rules, catalogue))
    return _result(reader, reader.read((place,)), seen, settings)


def _rules(settings: Settings, catalogue: Catalogue) -> tuple[Rule, ...]:
    chosen = catalogue.selected(settings.select, settings.ignore)
    return tuple(rule for rule in chosen if rule.source_check is not None and _may_be_reported(rule, settings))


def _screen(rules: Sequence[Rule], catalogue: Catalogue) -> Screen:
    """What is worth reading for some rules, as if all were on that are by default.

    What one rule finds may lie in a file that only another one asks for, and should not depend on whether that is on.
    """
    usual = (rule for rule in catalogue if rule.source_check is not None and rule.confidence is Confidence.HIGH)
    return _screen_of(tuple(dict.fromkeys((*rules, *usual))))


@lru_cache(maxsize=8)  # an editor, and a test, ask for the same one again and again
def _screen_of(rules: tuple[Rule, ...]) -> Screen:
    return Screen(rules)


def _may_be_reported(rule: Rule, settings: Settings) -> bool:
    return settings.min_confidence is Confidence.LOW or rule.confidence is Confidence.HIGH


# --- what to read -------------------------------------------------------------------------------------------------


class _Kept(NamedTuple):
    """The files worth reading, and all that are about torch."""

    files: tuple[Path, ...]
    about_torch: frozenset[Path]


def _kept(seen: Look, texts: Texts, screen: Screen | None) -> _Kept:
    about_torch = {path for path, traits in seen.traits.items() if traits.about_torch}
    applying = {path for path, traits in seen.traits.items() if traits.applies}
    applying |= _calling_what_trains(seen, texts, screen)
    rest = [path for path in seen.traits if path not in about_torch]
    unsure = [path for path in rest if path in applying]
    about_torch |= _imported(unsure, rest, about_torch, texts) | _importing(unsure, about_torch, texts)
    files = (path for path in seen.traits if path in applying & about_torch)
    return _Kept(tuple(files), frozenset(about_torch))


def _calling_what_trains(seen: Look, texts: Texts, screen: Screen | None) -> set[Path]:
    """The files that import one that calls backward, and have the signs of some rule if they train by it."""
    training = {module_name(path) for path, traits in seen.traits.items() if traits.trains}
    packages = [path for path in seen.traits if path.stem == "__init__"] if training else []
    training |= {module_name(path) for path in packages if not training.isdisjoint(texts.imported(path))}
    others = [path for path, traits in seen.traits.items() if not traits.applies] if training else []
    callers = [path for path in others if not training.isdisjoint(texts.imported(path))]
    for path in callers:
        if screen is not None and seen.traits[path].applies_where_trained is None:
            applies = screen.passes(texts.bytes_of(path), calls_training=True)
            seen.traits[path] = dataclasses.replace(seen.traits[path], applies_where_trained=applies)
    return {path for path in callers if seen.traits[path].applies_where_trained}


def _importing(paths: list[Path], about_torch: set[Path], texts: Texts) -> set[Path]:
    """Those files that import one about torch: a script needs none itself to play with an agent."""
    names = {module_name(path) for path in about_torch} if paths else set()
    return {path for path in paths if not names.isdisjoint(texts.imported(path))}


def _imported(paths: list[Path], rest: list[Path], about_torch: set[Path], texts: Texts) -> set[Path]:
    """Those files that one about torch imports: callbacks, meters and buffers need no torch themselves.

    Also by way of a package that gives what is in them, or of another such file.

    Args:
        paths: the files that are asked about.
        rest: all that are not about torch.
    """
    wanted = {module_name(path) for path in paths}
    if not wanted:
        return set()
    between = {path for path in rest if path.stem == "__init__"} | set(paths)
    waiting = set(about_torch)
    found: set[str] = set()
    names = wanted | {module_name(path) for path in between}
    while waiting:
        new = set().union(*(names & texts.imported(path) for path in waiting)) - found
        found |= new
        waiting = {path for path in between if module_name(path) in new}
    return {path for path in paths if module_name(path) in found}


def _read(reader: Reader, files: tuple[Path, ...], before: Reading, seen: Look, jobs: int | None) -> Reading:
    """What is found in the files worth reading: ``before``, and what is not in it."""
    waiting = [path for path in files if path not in before.parts]
    size = sum(seen.traits[path].size for path in waiting)
    before.add(workers.read(reader, waiting, jobs or workers.jobs_for(size)))
    return before


# --- what to report -----------------------------------------------------------------------------------------------


def _result(reader: Reader, reading: Reading, seen: Look, settings: Settings) -> CheckResult:
    """Suppressions, per-file ignores and confidence applied."""
    errors = {*seen.errors, *(error for part in reading.parts.values() for error in part.errors)}
    found = _by_path(reading.parts.values())
    kept: list[Finding] = []
    looked_for = frozenset((*(rule.code for rule in reader.rules), suppress.rule.code))
    for path, traits in seen.traits.items():
        findings = found.get(shown(path), []) if found or traits.mentions_us else []
        if not findings and not traits.mentions_us:
            continue
        try:
            source = reader.source(path)
        except SourceError as error:
            errors.add(FileError(shown(path), error.line, str(error)))
            continue
        # In a broken file no comment is called unused, since not all of it was read.
        broken = any(error.path == source.path for error in errors)
        ignored = (*ignored_codes(path, settings), *((suppress.rule.code,) if broken else ()))
        selected = partial(_is_wanted, looked_for, settings.select, (*settings.ignore, *ignored))
        here = [finding for finding in findings if selected(finding.code)]
        kept += suppress.apply_parts(here, source.parts, path=source.path, selected=selected)
    wanted = (f for f in kept if settings.min_confidence is Confidence.LOW or f.confidence is Confidence.HIGH)
    return CheckResult(
        len(seen.traits) + len(seen.errors),
        tuple(sorted(wanted, key=lambda f: f.sort_key)),
        tuple(sorted(errors, key=lambda e: (e.path, e.line or 0, e.message))),
    )


def _by_path(parts: Iterable[Part]) -> dict[str, list[Finding]]:
    """The findings by the files that they lie in, each once."""
    best: dict[tuple[str, int | None, Span, str], Finding] = {}
    for finding in (finding for part in parts for finding in part.findings):
        place = (finding.path, finding.cell, finding.span, finding.code)
        known = best.get(place)
        if known is None or _says_more(finding, known):
            best[place] = finding
    found: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in best.values():
        found[finding.path].append(finding)
    return found


def _says_more(finding: Finding, known: Finding) -> bool:
    """Whether a finding at the same place is the better one: surer, or with a fix."""
    if finding.confidence is not known.confidence:
        return finding.confidence is Confidence.HIGH
    return known.fix is None and finding.fix is not None


@cache
def _is_wanted(looked_for: frozenset[str], select: tuple[str, ...], ignore: tuple[str, ...], code: str) -> bool:
    """Whether a code is looked for in a file: where it is not, its findings are none, and no comment is unused."""
    return code in looked_for and is_selected(code, select, ignore)

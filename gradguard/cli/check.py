"""``gradguard check``: find leaks in source code."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from gradguard import catalogue
from gradguard.cli._common import all_rules, console, known_codes, source_reader, split_cells
from gradguard.config import Settings, find_settings, parse_selector, read_settings
from gradguard.findings import CheckResult, Confidence, FileError

if TYPE_CHECKING:
    from gradguard.report.console import SourceLines

FORMATS = ("console", "concise", "json")

_Codes = tuple[str, ...]


@click.command("check")
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@click.option("--select", multiple=True, metavar="CODES", help="Check these codes only (prefixes, comma-separated).")
@click.option("--extend-select", multiple=True, metavar="CODES", help="Check these codes too.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Do not check these codes.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out what matches, in .gitignore's syntax.")
@click.option("--force-exclude", is_flag=True, help="Apply exclusions also to files that are named (for pre-commit).")
@click.option("--min-confidence", type=click.Choice(["high", "low"]), help="The least confidence to report.")
@click.option("--format", "style", type=click.Choice(FORMATS), default="console", help="How to report.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
@click.option("--config", type=click.Path(path_type=Path), help="Read settings from this TOML file.")
@click.option("--isolated", is_flag=True, help="Read no settings from any file.")
@click.option("--stdin-filename", metavar="PATH", help="Check standard input under this name.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour.")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="How many processes read files, on Linux; by default as it pays."
)
@click.option("--no-cache", is_flag=True, help="Read everything anew, and leave nothing for the next run.")
@click.option(
    "--cache-dir",
    type=click.Path(path_type=Path),
    envvar="GRADGUARD_CACHE_DIR",
    help="Where to keep what was found, for the next run.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 also when something is found.")
def command(
    paths: tuple[str, ...],
    select: _Codes,
    extend_select: _Codes,
    ignore: _Codes,
    exclude: tuple[str, ...],
    force_exclude: bool,
    min_confidence: str | None,
    style: str,
    output: Path | None,
    config: Path | None,
    isolated: bool,
    stdin_filename: str | None,
    color: str,
    jobs: int | None,
    no_cache: bool,
    cache_dir: Path | None,
    exit_zero: bool,
) -> int:
    """Find leaks in source code.

    PATHS are Python files, notebooks and folders; the working directory when none is given. A path of - reads
    standard input. The exit status is 0 when nothing is found, 1 when something is, and 2 when something could not
    be checked.
    """
    if config and isolated:
        raise click.UsageError("--config and --isolated exclude each other.")
    settings = _overridden(_settings(config, isolated), select, extend_select, ignore, exclude, min_confidence)
    _warn_of_silent_rules((*select, *extend_select), settings)
    if "-" in paths or stdin_filename is not None:
        if set(paths) - {"-"}:
            raise click.UsageError("Standard input cannot be checked together with other paths.")
        result, sources = _check_stdin(stdin_filename or "-", settings, force_exclude)
    else:
        cache = None if no_cache else cache_dir or _cache_folder()
        result, sources = _check_paths(paths or (".",), settings, force_exclude, cache, jobs), source_reader()
    _report(result, sources, style, output, color)
    return 0 if exit_zero and result.exit_status == 1 else result.exit_status


# --- settings -----------------------------------------------------------------------------------------------------


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise click.UsageError("The working directory is gone.") from None


def _settings(config: Path | None, isolated: bool) -> Settings:
    here = _here()
    if isolated:
        return Settings(here)
    return read_settings(config, here, known_codes()) if config else find_settings(here, known_codes())


def _overridden(
    settings: Settings,
    select: _Codes,
    extend_select: _Codes,
    ignore: _Codes,
    exclude: tuple[str, ...],
    min_confidence: str | None,
) -> Settings:
    """``settings`` with what the command line says instead."""
    return dataclasses.replace(
        settings,
        select=(_selectors(select, "--select") or settings.select) + _selectors(extend_select, "--extend-select"),
        ignore=_selectors(ignore, "--ignore") or settings.ignore,
        exclude=settings.exclude
        + tuple(_from_here(glob, settings.root) for given in exclude for glob in given.split(",") if glob),
        min_confidence=Confidence(min_confidence) if min_confidence else settings.min_confidence,
    )


def _warn_of_silent_rules(asked: _Codes, settings: Settings) -> None:
    """Say which rules are asked for by their codes and have nothing to say at this confidence."""
    words = {word.strip().upper() for value in asked for word in value.split(",")}
    low = [rule.code for rule in all_rules() if rule.code in words and rule.confidence is Confidence.LOW]
    if low and settings.min_confidence is Confidence.HIGH:
        click.echo(f"warning: {', '.join(low)}: reported with --min-confidence low only", err=True)


def _selectors(values: _Codes, option: str) -> _Codes:
    words = [word for value in values for word in value.split(",") if word.strip()]
    if values and not words:
        raise click.UsageError(f"{option} names no code; `gradguard rules` lists them.")
    return tuple(parse_selector(word, known_codes(), option) for word in words)


def _from_here(glob: str, root: Path) -> str:
    """A glob as written in the working directory, as one that is relative to ``root``."""
    here = Path.cwd()
    if here == root or "/" not in glob.rstrip("/"):
        return glob
    negation = "!" if glob.startswith("!") else ""
    return f"{negation}/{here.relative_to(root).as_posix()}/{glob.removeprefix('!').lstrip('/')}"


# --- checking -----------------------------------------------------------------------------------------------------


def _cache_folder() -> Path | None:
    """Where the system keeps what programs can do without."""
    from platformdirs import user_cache_path

    try:
        return user_cache_path("gradguard", appauthor=False)
    except RuntimeError:  # a user without a home
        return None


def _check_paths(
    paths: tuple[str, ...], settings: Settings, force_exclude: bool, cache: Path | None, jobs: int | None
) -> CheckResult:
    from gradguard.static.cache import cache_for
    from gradguard.static.discover import discover
    from gradguard.static.engine import check

    if "" in paths:
        raise click.UsageError("A path is empty (an unset variable?).")
    found = discover([Path(p) for p in paths], settings, force_exclude=force_exclude)
    if not found.files and not found.errors:
        what = "everything is left out by `exclude`" if force_exclude else "no Python files or notebooks"
        click.echo(f"warning: {what} in {', '.join(paths)}", err=True)
    rules = catalogue.load()
    store = cache_for(cache, map(Path, paths), settings, rules) if cache is not None else None
    result = check(found.files, settings, rules, store=store, jobs=jobs)
    if store is not None and store.problem is not None:
        click.echo(f"warning: nothing is kept for the next run: {store.problem}", err=True)
    return dataclasses.replace(result, errors=tuple(sorted({*result.errors, *found.errors}, key=_error_key)))


def _error_key(error: FileError) -> tuple[str, int, str]:
    return (error.path, error.line or 0, error.message)


def _check_stdin(name: str, settings: Settings, force_exclude: bool) -> tuple[CheckResult, SourceLines]:
    from gradguard.static.discover import is_excluded, shown
    from gradguard.static.engine import check_text
    from gradguard.static.gate import SourceError
    from gradguard.static.source import from_bytes

    data = sys.stdin.buffer.read() if sys.stdin else b""
    lines = split_cells(data, name)
    path = name if name == "-" else shown(Path(name))
    if force_exclude and is_excluded(Path(name), settings):
        return CheckResult(0, (), ()), lambda _, __: []
    try:
        text = data.decode() if name.endswith(".ipynb") else from_bytes(data, path).text
    except (SourceError, UnicodeDecodeError) as error:
        line = error.line if isinstance(error, SourceError) else None
        return CheckResult(1, (), (FileError(path, line, str(error)),)), lambda _, __: []
    return check_text(text, path, settings, catalogue.load()), lambda _, cell: lines.get(cell, [])


# --- reporting ----------------------------------------------------------------------------------------------------


def _report(result: CheckResult, sources: SourceLines, style: str, output: Path | None, color: str) -> None:
    if output is None:
        _write(result, sources, style, sys.stdout, color)
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            _write(result, sources, style, file, "never")
    except OSError as error:
        raise click.UsageError(f"--output: cannot write {output}: {error.strerror}") from error


def _write(result: CheckResult, sources: SourceLines, style: str, file: TextIO, color: str) -> None:
    if style == "json":
        from gradguard.report import json

        file.write(json.render(result))
    elif style == "concise":
        from gradguard.report import concise
        from gradguard.report.words import summary

        file.write(concise.render(result))
        click.echo(summary(result), err=True)
    elif not result.findings and not result.errors:
        from gradguard.report.words import summary

        click.echo(summary(result), file=file)  # rich takes a quarter of the time that a small file does
    else:
        from gradguard.report.console import report

        report(result, sources, console(color, file))

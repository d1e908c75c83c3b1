"""What ``check`` and ``fix`` have in common: which files, which rules, and what was found."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from gradguard import catalogue
from gradguard.cli._common import all_rules, known_codes
from gradguard.config import Settings, find_settings, parse_selector, read_settings
from gradguard.findings import CheckResult, Confidence, FileError

_Codes = tuple[str, ...]
_Command = TypeVar("_Command", bound=Callable[..., object])

_OPTIONS = (
    click.argument("paths", nargs=-1, metavar="[PATHS]..."),
    click.option(
        "--select", multiple=True, metavar="CODES", help="Check these codes only (prefixes, comma-separated)."
    ),
    click.option("--extend-select", multiple=True, metavar="CODES", help="Check these codes too."),
    click.option("--ignore", multiple=True, metavar="CODES", help="Do not check these codes."),
    click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out what matches, in .gitignore's syntax."),
    click.option(
        "--force-exclude", is_flag=True, help="Apply exclusions also to files that are named (for pre-commit)."
    ),
    click.option("--min-confidence", type=click.Choice(["high", "low"]), help="The least confidence to report."),
    click.option("--config", type=click.Path(path_type=Path), help="Read settings from this TOML file."),
    click.option("--isolated", is_flag=True, help="Read no settings from any file."),
    click.option("--stdin-filename", metavar="PATH", help="Check standard input under this name."),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour."),
    click.option(
        "--jobs", type=click.IntRange(min=1), help="How many processes read files, on Linux; by default as it pays."
    ),
    click.option("--no-cache", is_flag=True, help="Read everything anew, and leave nothing for the next run."),
    click.option(
        "--cache-dir",
        type=click.Path(path_type=Path),
        envvar="GRADGUARD_CACHE_DIR",
        help="Where to keep what was found, for the next run.",
    ),
)


def options(command: _Command) -> _Command:
    """Give a command the arguments of :class:`Asked`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class Asked:
    """What the command line says: each field is an option of that name."""

    paths: tuple[str, ...]
    select: _Codes
    extend_select: _Codes
    ignore: _Codes
    exclude: tuple[str, ...]
    force_exclude: bool
    min_confidence: str | None
    config: Path | None
    isolated: bool
    stdin_filename: str | None
    color: str
    jobs: int | None
    no_cache: bool
    cache_dir: Path | None

    @property
    def reads_stdin(self) -> bool:
        """Whether standard input is what is to be checked.

        Raises:
            click.UsageError: and other paths too.
        """
        if "-" not in self.paths and self.stdin_filename is None:
            return False
        if set(self.paths) - {"-"}:
            raise click.UsageError("Standard input cannot be checked together with other paths.")
        return True

    def settings(self) -> Settings:
        """The settings of the nearest file, with what the command line says instead.

        Raises:
            click.UsageError: what it says is wrong, or cannot be.
            gradguard.config.ConfigError: what the file says is.
        """
        if self.config and self.isolated:
            raise click.UsageError("--config and --isolated exclude each other.")
        settings = _overridden(_settings(self.config, self.isolated), self)
        _warn_of_silent_rules((*self.select, *self.extend_select), settings)
        return settings

    def cache(self) -> Path | None:
        """The folder of the caches, if one is to be used."""
        return None if self.no_cache else self.cache_dir or _cache_folder()


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


def _overridden(settings: Settings, asked: Asked) -> Settings:
    globs = (glob for given in asked.exclude for glob in given.split(",") if glob)
    return dataclasses.replace(
        settings,
        select=(_selectors(asked.select, "--select") or settings.select)
        + _selectors(asked.extend_select, "--extend-select"),
        ignore=_selectors(asked.ignore, "--ignore") or settings.ignore,
        exclude=settings.exclude + tuple(_from_here(glob, settings.root) for glob in globs),
        min_confidence=Confidence(asked.min_confidence) if asked.min_confidence else settings.min_confidence,
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


@dataclass(frozen=True)
class Task:
    """What is to be checked.

    Args:
        files: absolute paths.
        check: what is found, with other contents for some of the files.
        read: the content of a file.
    """

    files: tuple[Path, ...]
    check: Callable[[Mapping[Path, bytes]], CheckResult]
    read: Callable[[Path], bytes]


def task(asked: Asked, *, repeated: bool = False) -> Task:
    """What the command line asks to be checked.

    Args:
        repeated: it is checked several times, and what is found on the way is nothing for the next run.

    Raises:
        click.UsageError: that cannot be.
        gradguard.config.ConfigError: nor with these settings.
    """
    settings = asked.settings()
    return _stdin(asked, settings) if asked.reads_stdin else _files(asked, settings, repeated)


def _files(asked: Asked, settings: Settings, repeated: bool) -> Task:
    from gradguard.static.cache import cache_for
    from gradguard.static.discover import discover
    from gradguard.static.engine import check
    from gradguard.static.last_run import InMemory

    paths = asked.paths or (".",)
    if "" in paths:
        raise click.UsageError("A path is empty (an unset variable?).")
    found = discover([Path(p) for p in paths], settings, force_exclude=asked.force_exclude)
    if not found.files and not found.errors:
        what = "everything is left out by `exclude`" if asked.force_exclude else "no Python files or notebooks"
        click.echo(f"warning: {what} in {', '.join(paths)}", err=True)
    rules = catalogue.load()
    cache = asked.cache()
    kept = cache_for(cache, map(Path, paths), settings, rules) if cache is not None else None
    store = InMemory(kept.load() if kept is not None else None) if repeated else kept

    def checked(instead: Mapping[Path, bytes]) -> CheckResult:
        result = check(found.files, settings, rules, store=store, jobs=asked.jobs, instead=instead)
        if kept is not None and kept.problem is not None:
            click.echo(f"warning: nothing is kept for the next run: {kept.problem}", err=True)
        return dataclasses.replace(result, errors=tuple(sorted({*result.errors, *found.errors}, key=error_key)))

    return Task(found.files, checked, Path.read_bytes)


def error_key(error: FileError) -> tuple[str, int, str]:
    """Path, line, message: the order of every output."""
    return (error.path, error.line or 0, error.message)


def _stdin(asked: Asked, settings: Settings) -> Task:
    from gradguard.static.discover import is_excluded, shown
    from gradguard.static.engine import check_text
    from gradguard.static.files.gate import SourceError
    from gradguard.static.source import from_bytes

    data = sys.stdin.buffer.read() if sys.stdin else b""
    name = asked.stdin_filename or "-"
    path = name if name == "-" else shown(Path(name))
    place = Path(path).absolute()
    rules = catalogue.load()

    def checked(instead: Mapping[Path, bytes]) -> CheckResult:
        content = instead.get(place, data)
        try:
            text = content.decode() if name.endswith(".ipynb") else from_bytes(content, path).text
        except (SourceError, UnicodeDecodeError) as error:
            line = error.line if isinstance(error, SourceError) else None
            return CheckResult(1, (), (FileError(path, line, str(error)),))
        return check_text(text, path, settings, rules)

    if asked.force_exclude and is_excluded(Path(name), settings):
        return Task((), lambda _: CheckResult(0, (), ()), lambda _: data)
    return Task((place,), checked, lambda _: data)


def _cache_folder() -> Path | None:
    """Where the system keeps what programs can do without."""
    from platformdirs import user_cache_path

    try:
        return user_cache_path("gradguard", appauthor=False)
    except RuntimeError:  # a user without a home
        return None

"""The catalogue of leak patterns, and the registry that loads rule packs.

A rule pack is a package whose modules each hold one :class:`Rule` named ``rule``. The built-in pack is
``gradguard.rules``; others announce themselves through the entry point group ``gradguard.rules``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from gradguard.findings import Confidence, Finding, Fix, Leak, Related, Severity
from gradguard.signs import Signs

if TYPE_CHECKING:
    from gradguard.static.model import Function, Site

InSource = Callable[["Function"], Iterable[Finding]]
InRun = Callable[[Leak], bool]

ENTRY_POINT_GROUP = "gradguard.rules"


class RulePackError(Exception):
    """A rule pack could not be loaded; the message names the pack and the reason."""


@dataclass(eq=False)
class Rule:
    """One leak pattern.

    Args:
        code: for example ``GG103``.
        name: kebab-case, for example ``loss-accumulation``.
        severity: of a finding that does not say otherwise.
        signs: what a function that it could flag shows, or its file (see :mod:`gradguard.signs`): the signs of one of
            these groups, all of them. Without any it is asked about every function of a file about torch.
        confidence: the most that its findings have; a rule of low confidence is not on by default.
        shape: what the tree of such a function has besides, by its name in :mod:`gradguard.static.shapes`: asked where
            no other rule would have the function read.
    """

    code: str
    name: str
    severity: Severity = Severity.ERROR
    signs: tuple[Signs, ...] = ()
    confidence: Confidence = Confidence.HIGH
    shape: str = ""
    source_check: InSource | None = field(default=None, init=False)
    run_check: InRun | None = field(default=None, init=False)
    module: str = field(default="", init=False)

    def __post_init__(self) -> None:
        frame = inspect.currentframe()
        caller = frame.f_back.f_back if frame and frame.f_back else None
        self.module = str(caller.f_globals.get("__name__", "")) if caller else ""

    def in_source(self, check: InSource) -> InSource:
        """Register how the pattern looks in source (a decorator)."""
        self.source_check = check
        return check

    def in_run(self, check: InRun) -> InRun:
        """Register how the pattern looks in a run (a decorator)."""
        self.run_check = check
        return check

    @property
    def page(self) -> str:
        """The rule's page: its module's docstring, in Markdown."""
        module = importlib.import_module(self.module)
        return inspect.cleandoc(module.__doc__ or "")

    @property
    def summary(self) -> str:
        """The first line of the page."""
        return self.page.split("\n", 1)[0]

    def finding(
        self,
        site: Site,
        message: str,
        *,
        help: str | None = None,
        fix: Fix | None = None,
        severity: Severity | None = None,
        confidence: Confidence = Confidence.HIGH,
        related: Iterable[Related] = (),
    ) -> Finding:
        """A finding of this rule at ``site``."""
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity or self.severity,
            confidence=confidence if self.confidence is Confidence.HIGH else Confidence.LOW,
            path=site.path,
            cell=site.cell,
            span=site.span,
            message=message,
            help=help,
            fix=fix,
            related=tuple(related),
        )


@dataclass(frozen=True)
class Catalogue:
    """All known rules, by code."""

    rules: tuple[Rule, ...]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def get(self, code: str) -> Rule | None:
        """The rule with exactly this code or name, in any case."""
        wanted = code.lower()
        return next((r for r in self.rules if wanted in (r.code.lower(), r.name)), None)

    def selected(self, select: Iterable[str], ignore: Iterable[str]) -> tuple[Rule, ...]:
        """The rules whose longest matching selector is in ``select`` (selectors are code prefixes).

        ``ALL`` matches every code with the least specificity.
        """
        chosen, dropped = tuple(select), tuple(ignore)
        return tuple(r for r in self.rules if is_selected(r.code, chosen, dropped))


def is_selected(code: str, select: Iterable[str], ignore: Iterable[str]) -> bool:
    """Whether the longest selector that matches ``code`` is in ``select``; ``ignore`` wins a tie."""

    def strength(selectors: Iterable[str]) -> int:
        return max((0 if s == "ALL" else len(s) for s in selectors if s == "ALL" or code.startswith(s)), default=-1)

    wanted = strength(select)
    return wanted >= 0 and wanted > strength(ignore)


@cache
def load() -> Catalogue:
    """The built-in pack and every installed third-party pack.

    Raises:
        RulePackError: a pack cannot be imported, or two rules share a code.
    """
    # Imported here because it loads the whole of `email`, which `gradguard --version` can do without.
    from importlib.metadata import entry_points

    found = list(_rules_of(importlib.import_module("gradguard.rules")))
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            found += _rules_of(point.load())
        except Exception as error:  # a broken third-party pack must not look like our bug
            raise RulePackError(f"rule pack {point.name!r} ({point.value}) cannot be loaded: {error}") from error
    rules: dict[str, Rule] = {}
    for rule in found:
        if rule.code in rules:
            raise RulePackError(f"{rule.module} defines {rule.code}, which {rules[rule.code].module} has defined")
        rules[rule.code] = rule
    return Catalogue(tuple(sorted(rules.values(), key=lambda r: r.code)))


def _rules_of(pack: ModuleType) -> Iterator[Rule]:
    for info in pkgutil.iter_modules(pack.__path__):
        if not info.name.startswith("_"):
            rule = getattr(importlib.import_module(f"{pack.__name__}.{info.name}"), "rule", None)
            if isinstance(rule, Rule):
                yield rule

"""How many findings have an edit, and how many edits end theirs: of the code that the tests of the rules flag.

    python benchmarks/edits.py

Each piece of code is fixed by itself, with ``--unsafe-fixes``. Prints a Markdown table with one row for each rule, and
each edit that was taken back.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from _environment import CHECKOUT

sys.path.insert(0, str(CHECKOUT))

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import CheckResult
from gradguard.static.engine import check_text
from gradguard.static.fix import fix
from tests.rules.snippets import source

PLACE = Path("train.py").absolute()


def flagged() -> Iterator[tuple[str, str]]:
    """The pieces of code that must be flagged, each once, with the test module and the name that they have there."""
    seen: set[str] = set()
    for file in sorted((CHECKOUT / "tests" / "rules").glob("test_*.py")):
        module = importlib.import_module(f"tests.rules.{file.stem}")
        tables = (value for name, value in vars(module).items() if name.startswith("FLAGGED"))
        for table in tables:
            for name, snippet in table.items() if isinstance(table, dict) else ():
                text = source(snippet) if isinstance(snippet, str) else ""
                if text and text not in seen:
                    seen.add(text)
                    yield f"{file.stem}, {name}", text


def checked(text: str, instead: Mapping[Path, bytes]) -> CheckResult:
    """What is found in a text, or in what it has become."""
    return check_text(instead.get(PLACE, text.encode()).decode(), PLACE.name, Settings(Path.cwd()), catalogue.load())


def _content(text: str, _: Path) -> bytes:
    return text.encode()


def main() -> None:
    """Fix all, and print."""
    counts: Counter[tuple[str, str]] = Counter()
    for name, text in flagged():
        for finding in checked(text, {}).findings:
            counts[finding.code, "found"] += 1
            counts[finding.code, "edit"] += finding.fix is not None
        outcome = fix([PLACE], partial(checked, text), partial(_content, text), unsafe=True)
        counts.update((finding.code, "kept") for finding in outcome.made)
        for finding in outcome.undone:
            counts[finding.code, "taken back"] += 1
            print(f"{finding.code} {name}: {finding.fix.description if finding.fix else ''}")
    columns = ("found", "edit", "kept", "taken back")
    print("\n| rule | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns))
    codes = sorted({code for code, _ in counts})
    for code in codes:
        print(f"| {code} | " + " | ".join(str(counts[code, column]) for column in columns) + " |")
    sums = (sum(counts[code, column] for code in codes) for column in columns)
    print("| all | " + " | ".join(map(str, sums)) + " |")


if __name__ == "__main__":
    main()

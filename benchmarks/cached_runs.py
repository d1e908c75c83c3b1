"""Whether a run with a cache finds what one without it finds, after random edits.

    python benchmarks/cached_runs.py [--seconds N] [--seed N] DIR [DIR ...]

Each folder is a project. It is copied, checked with a cache, edited at random a few times (lines are cut, statements
that matter are dropped, files are copied over each other, deleted, added), and checked after each edit with the cache
and without, at every confidence. Prints every difference, and how many files were read again.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import CheckResult, Confidence
from gradguard.static.cache import Cache
from gradguard.static.discover import discover
from gradguard.static.engine import check
from gradguard.static.last_run import Part
from gradguard.static.reader import Reader

EDITS = 5
MOST_FILES = 150
MATTERS = ("no_grad", "detach", ".clear(", "zero_grad", "= []")
LEAK = """
def run(model, loader, self):
    kept = []
    for x in loader:
        loss = model(x).mean()
        loss.backward()
        kept.append(loss)
        self.buffer = []
"""

read: list[Path] = []


def edit(folder: Path, chance: random.Random) -> str:
    """Change one file at random; what was done."""
    files = sorted(folder.rglob("*.py"))
    file, other = chance.choice(files), chance.choice(files)
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    kind = chance.choice(("cut", "drop", "imports", "append", "over", "delete", "add"))
    start = chance.randrange(len(lines) + 1)
    if kind == "delete" and len(files) > 1:
        file.unlink()
        return f"delete {file.name}"
    if kind in ("over", "add"):
        name = file.name if kind == "over" else chance.choice(("torch.py", "utils.py", "model.py", "train2.py"))
        (file.parent / name).write_bytes(other.read_bytes())
        return f"{kind} {name}"
    kept = {
        "cut": [*lines[:start], *lines[start + chance.randrange(1, 20) :]],
        "drop": [line for line in lines if not any(word in line for word in MATTERS)],
        "imports": [line for line in lines if not line.startswith(("import", "from")) or chance.random() < 0.5],
    }.get(kind, [*lines, LEAK])
    file.write_text("".join(kept), encoding="utf-8")
    return f"{kind} {file.name}"


def checked(folder: Path, store: Cache | None) -> tuple[CheckResult, int]:
    """What is found, and how many files were read for it."""
    settings = Settings(folder, min_confidence=Confidence.LOW)
    read.clear()
    return check(discover([folder], settings).files, settings, catalogue.load(), store=store), len(read)


def count_what_is_read() -> None:
    """Note each file that a reader reads."""
    part = Reader._part

    def noted(reader: Reader, path: Path) -> Part:
        read.append(path)
        return part(reader, path)

    Reader._part = noted  # type: ignore[method-assign, assignment]


def compare(project: Path, scratch: Path, chance: random.Random) -> tuple[int, int, int, int]:
    """Runs, those that differ, files read with the cache and without, over some edits of one project."""
    folder, store = scratch / "project", Cache(scratch / "cache" / "run.json")
    shutil.copytree(project, folder, symlinks=True)
    os.chdir(folder)
    checked(folder, store)
    runs = differ = again = anew = 0
    for _ in range(EDITS):
        done = edit(folder, chance)
        (kept, few), (fresh, all_of_them) = checked(folder, store), checked(folder, None)
        runs, again, anew = runs + 1, again + few, anew + all_of_them
        if kept != fresh:
            differ += 1
            print(f"{project.name}, {done}: {set(kept.findings) ^ set(fresh.findings)}")
    return runs, differ, again, anew


def main() -> None:
    """Edit and compare until the time is over."""
    parser = argparse.ArgumentParser(description="Compare runs with a cache and without, after random edits.")
    parser.add_argument("--seconds", type=float, default=120, help="how long (default: 120)")
    parser.add_argument("--seed", type=int, default=0, help="of the edits")
    parser.add_argument("projects", type=Path, nargs="+", metavar="DIR")
    options = parser.parse_args()
    chance, end, here = random.Random(options.seed), time.monotonic() + options.seconds, Path.cwd()
    projects = [p.resolve() for p in options.projects if 0 < len(list(p.rglob("*.py"))) <= MOST_FILES]
    chance.shuffle(projects)
    count_what_is_read()
    totals = (0, 0, 0, 0)
    for project in projects:
        if time.monotonic() > end:
            break
        with tempfile.TemporaryDirectory(prefix="edits-") as scratch:
            counts = compare(project, Path(scratch).resolve(), chance)
            os.chdir(here)
        totals = tuple(a + b for a, b in zip(totals, counts))  # type: ignore[assignment]
    runs, differ, again, anew = totals
    print(f"{runs} runs after an edit, {differ} with another result; {again} files read with the cache, {anew} without")


if __name__ == "__main__":
    main()

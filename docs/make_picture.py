"""Draw docs/check.svg: what ``gradguard check`` says about the leaky script of the demo, from a real run."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from gradguard.cli.demo import show_check

PICTURE = Path(__file__).parent / "check.svg"
WIDTH = 100


def draw() -> str:
    """The picture, as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    show_check(console, "leaky.py")
    return console.export_svg(title="gradguard check", unique_id="gradguard")


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")

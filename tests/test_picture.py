"""The README's picture shows what the tool says today."""

from __future__ import annotations

import html
import re
import runpy
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def text_of(svg: str) -> list[str]:
    """The lines of text in a picture, without their layout (which may differ between versions of Rich)."""
    return [html.unescape(t).replace("\xa0", " ").strip() for t in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


def test_the_picture_is_up_to_date() -> None:
    draw = runpy.run_path(str(DOCS / "make_picture.py"))["draw"]
    drawn = (DOCS / "check.svg").read_text(encoding="utf-8")
    assert text_of(drawn) == text_of(draw()), "run docs/make_picture.py"
    assert "GG103" in drawn

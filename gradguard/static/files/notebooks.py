"""The code of notebooks: their cells, and what of IPython's own syntax is in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from gradguard.static.files.gate import SourceError, parsed

_MAGIC = re.compile(r"^(\s*)(?:[%!?]|[\w.]+\?+\s*$)")
_PYTHON_CELL_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")


def only_code(data: bytes) -> bytes:
    """A notebook without its outputs, each line of its code on a line of its own: a picture is a line of megabytes.

    What is no notebook stays as it is.
    """
    try:
        cells = [{"cell_type": "code", "source": text.splitlines(keepends=True)} for text in code_cells(data)]
    except SourceError:
        return data
    return json.dumps({"cells": cells}, indent=0, ensure_ascii=False).encode(errors="surrogatepass")


def code_cells(data: bytes) -> Iterator[str]:
    """The code cells of a notebook (``nbformat`` 3 and 4), as they are.

    Raises:
        SourceError: the bytes are not a notebook.
    """
    try:
        notebook = json.loads(data)
        sheets = notebook.get("worksheets")
        cells = [c for sheet in sheets for c in sheet["cells"]] if sheets else notebook["cells"]
        sources = [c.get("source", c.get("input", "")) for c in cells if c["cell_type"] == "code"]
    except ValueError as error:
        raise SourceError(f"not a notebook: {error}") from None
    except (KeyError, TypeError, AttributeError):
        raise SourceError("not a notebook: it has no list of cells") from None
    for source in sources:
        yield ("".join(source) if isinstance(source, list) else str(source)).replace("\r\n", "\n").replace("\r", "\n")


def unreadable_cells(data: bytes) -> int:
    """How many code cells of a notebook are no Python, whatever of IPython's own is in them.

    Raises:
        SourceError: the bytes are not a notebook.
    """
    return sum(not _is_python(as_python(text)) for text in code_cells(data))


def _is_python(text: str) -> bool:
    try:
        parsed(text)
    except SourceError:
        return False
    return True


def as_python(text: str) -> str:
    """The cell without IPython's own syntax; as it stands where that is Python: a line may begin with an operator."""
    return text if _is_python(text) else _without_magics(text)


def _without_magics(text: str) -> str:
    """The cell with IPython's own syntax turned into statements of the same lines."""
    stripped = text.lstrip()
    lines = text.split("\n")
    if stripped.startswith("%%") and not stripped.startswith(_PYTHON_CELL_MAGICS):
        return "\n" * (len(lines) - 1)
    return "\n".join(_MAGIC.sub(r"\1pass  # \g<0>", line) if _MAGIC.match(line) else line for line in lines)


def has_magic(text: str) -> bool:
    """Whether a cell may hold more of IPython's own syntax than was replaced: ``files = !ls``."""
    return re.search(r"=\s*[%!]|^\s*[%!?]|\?\s*$", text, re.M) is not None

"""The code of notebooks, without what they show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradguard.static.files import notebooks, traits
from gradguard.static.files.notebooks import code_cells, only_code

CODE = "import torch\nfor x in loader:\n    loss = net(x)\n    losses.append(loss)\n"
PICTURE = {"output_type": "display_data", "data": {"image/png": "losses.append(loss) .backward(" * 10_000}}


def cell(text: str | list[str], outputs: list[object] | None = None) -> dict[str, object]:
    return {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": outputs or [], "source": text}


def notebook(*cells: dict[str, object]) -> bytes:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def test_what_is_kept_is_the_code_of_each_cell() -> None:
    words = {"cell_type": "markdown", "metadata": {}, "source": ["# About losses.append(loss)"]}
    data = notebook(cell(CODE, [PICTURE]), words, cell(CODE.splitlines(keepends=True)), cell("x = 'é\\n' # 😀"))
    kept = only_code(data)
    assert list(code_cells(kept)) == list(code_cells(data))
    assert len(kept) < 1_000
    assert b"About" not in kept


def test_each_line_of_code_is_a_line() -> None:
    lines = only_code(notebook(cell(CODE))).decode().splitlines()
    assert sum("append" in line for line in lines) == 1
    assert not any("append" in line and "import" in line for line in lines)


def test_an_old_notebook_is_one_too() -> None:
    code = {"cell_type": "code", "input": ["import torch\n", "x = 1"], "outputs": [PICTURE]}
    old = {"worksheets": [{"cells": [code]}]}
    data = json.dumps(old).encode()
    assert list(code_cells(only_code(data))) == ["import torch\nx = 1"]


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'{"cells": 3}', b"import torch\n", b"\xff\xfe"])
def test_what_is_no_notebook_stays_as_it_is(data: bytes) -> None:
    assert only_code(data) == data


def test_half_of_a_character_is_kept() -> None:
    data = b'{"cells": [{"cell_type": "code", "source": "x = \'\\ud83d\'"}]}'
    assert list(code_cells(only_code(data))) == list(code_cells(data))


def test_outputs_are_no_part_of_what_a_file_is(tmp_path: Path) -> None:
    ran, fresh = tmp_path / "ran.ipynb", tmp_path / "fresh.ipynb"
    ran.write_bytes(notebook(cell(CODE, [PICTURE])))
    fresh.write_bytes(notebook(cell(CODE)))
    seen = traits.look((ran, fresh), None, {}, 0)
    assert seen.traits[ran].digest == seen.traits[fresh].digest
    assert seen.traits[ran].size == len(ran.read_bytes())
    assert not seen.traits[ran].trains, "what a picture spells is no call"
    assert seen.data[ran] == notebooks.only_code(fresh.read_bytes())

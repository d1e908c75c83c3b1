"""[tool.gradguard]: what is read, and what each mistake says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.config import ConfigError, Settings, did_you_mean, find_settings, parse_selector, read_settings
from gradguard.findings import Confidence

KNOWN = {
    "GG001": "unused-suppression",
    "GG103": "loss-accumulation",
    "GG104": "stored-graph",
    "GG301": "eval-without-no-grad",
}


def configure(folder: Path, text: str) -> Path:
    file = folder / "pyproject.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_everything_can_be_set(tmp_path: Path) -> None:
    configure(
        tmp_path,
        """
        [tool.gradguard]
        select = ["GG1", "eval-without-no-grad"]
        ignore = ["gg104"]
        exclude = ["vendor/"]
        min-confidence = "low"
        [tool.gradguard.per-file-ignores]
        "tests/*" = ["GG103"]
        """,
    )
    assert find_settings(tmp_path, KNOWN) == Settings(
        root=tmp_path,
        select=("GG1", "GG301"),
        ignore=("GG104",),
        per_file_ignores=(("tests/*", ("GG103",)),),
        exclude=("vendor/",),
        min_confidence=Confidence.LOW,
    )


def test_the_nearest_file_with_the_table_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    configure(tmp_path, "[tool.gradguard]\nselect = ['GG103']")
    configure(tmp_path / "a", "[tool.other]\nkey = 1")
    found = find_settings(inner, KNOWN)
    assert (found.root, found.select) == (tmp_path, ("GG103",))


def test_without_a_table_the_defaults_hold_where_one_is(tmp_path: Path) -> None:
    assert find_settings(tmp_path, KNOWN) == Settings(tmp_path)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"\xef\xbb\xbf[tool.gradguard]\nselect = ['GG103']")
    assert find_settings(tmp_path, KNOWN).select == ("GG103",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool.gradguard]\nselekt = []", "has no key `selekt`; did you mean `select`?"),
        ("[tool.gradguard]\nxyzzy = []", "has no key `xyzzy`; the keys are select, ignore, per-file-ignores, exclude"),
        ("[tool.gradguard]\nper_file_ignores = {}", "did you mean `per-file-ignores`?"),
        ("[tool.gradguard]\nselect = ['GG113']", "select: unknown code `GG113`; did you mean `GG103`?"),
        ("[tool.gradguard]\nignore = ['loss-acumulation']", "did you mean `loss-accumulation`?"),
        ("[tool.gradguard]\nselect = ['']", "select: unknown code ``; `gradguard rules` lists them"),
        ("[tool.gradguard]\nselect = 'GG103'", "select: must be a list of strings, not a string"),
        ("[tool.gradguard]\nexclude = [1]", "exclude: must be a list of strings, but holds an integer"),
        ("[tool.gradguard]\nmin-confidence = 'medium'", "must be `high` or `low`, not `medium`"),
        ("[tool.gradguard]\nmin-confidence = ['low']", "must be `high` or `low`, not a list"),
        ("[tool.gradguard]\nper-file-ignores = ['GG103']", "per-file-ignores: must be a table of lists"),
        ("[tool.gradguard.per-file-ignores]\n'a.py' = ['GG9']", "per-file-ignores 'a.py': unknown code `GG9`"),
        ("[tool]\ngradguard = 1", "must be a table, not an integer"),
        ("[tool.gradguard\n", "not valid TOML:"),
    ],
)
def test_a_mistake_names_the_file_and_what_is_right(tmp_path: Path, text: str, says: str) -> None:
    file = configure(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        find_settings(tmp_path, KNOWN)
    assert str(caught.value).startswith(f"{file}: ")
    assert says in str(caught.value)


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(ConfigError, match="not valid UTF-8"):
        find_settings(tmp_path, KNOWN)


def test_a_named_file_must_exist_and_have_the_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_settings(tmp_path / "missing.toml", tmp_path, KNOWN)
    with pytest.raises(ConfigError, match=r"no \[tool\.gradguard\] table"):
        read_settings(configure(tmp_path, "[tool.other]"), tmp_path, KNOWN)


def test_a_named_file_is_relative_to_where_one_is(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    file = configure(tmp_path / "conf", "[tool.gradguard]\nexclude = ['a']")
    assert read_settings(file, tmp_path, KNOWN) == Settings(tmp_path, exclude=("a",))


@pytest.mark.parametrize(
    ("text", "code"),
    [("GG103", "GG103"), (" gg10 ", "GG10"), ("GG", "GG"), ("all", "ALL"), ("Stored-Graph", "GG104")],
)
def test_selectors_are_prefixes_or_names_in_any_case(text: str, code: str) -> None:
    assert parse_selector(text, KNOWN, "--select") == code


def test_a_hint_is_given_only_when_something_is_near() -> None:
    assert did_you_mean("chek", ["check", "rules"]) == "; did you mean `check`?"
    assert did_you_mean("zzz", ["check", "rules"]) == ""

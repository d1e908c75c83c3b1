"""Rules, selection, and rule packs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.catalogue import Catalogue, Rule, RulePackError, is_selected
from gradguard.static import suppress


@pytest.mark.parametrize(
    ("select", "ignore", "expected"),
    [
        (["ALL"], [], True),
        (["GG1"], [], True),
        (["GG2"], [], False),
        ([], [], False),
        (["ALL"], ["GG103"], False),
        (["GG103"], ["GG1"], True),
        (["GG1"], ["GG103"], False),
        (["GG103"], ["GG103"], False),
        (["ALL"], ["ALL"], False),
        (["GG1", "GG103"], ["GG10"], True),
    ],
)
def test_the_longest_selector_decides_and_ignore_wins_a_tie(
    select: list[str], ignore: list[str], expected: bool
) -> None:
    assert is_selected("GG103", select, ignore) is expected


def test_a_rule_is_found_by_code_or_name_in_any_case() -> None:
    rule = Rule("XX101", "some-name")
    rules = Catalogue((rule,))
    assert rules.get("xx101") is rule
    assert rules.get("Some-Name") is rule
    assert rules.get("XX1") is None


def test_selected_keeps_the_rules_that_are_on() -> None:
    first, second = Rule("XX101", "one"), Rule("XX201", "two")
    assert Catalogue((first, second)).selected(["XX"], ["XX2"]) == (first,)


def test_every_rule_has_a_page_that_says_what_happens_and_what_is_not_meant() -> None:
    for rule in (suppress.rule, *catalogue.load()):
        assert rule.summary.endswith("."), rule.code
        assert "**What happens.**" in rule.page, rule.code
        assert "**Not flagged.**" in rule.page, rule.code


def test_codes_and_names_are_unique_and_well_formed() -> None:
    rules = list(catalogue.load())
    assert len({r.name for r in rules}) == len(rules) > 0
    for rule in rules:
        assert rule.code[:2].isupper(), rule.code
        assert rule.code[2:].isdigit(), rule.code
        assert rule.name == rule.name.lower().replace(" ", "-")


def install_pack(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    pack = folder / "extra_pack"
    pack.mkdir()
    (pack / "__init__.py").write_text("")
    (pack / "one.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    for name in ("extra_pack", "extra_pack.one"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    point = EntryPoint("extra", "extra_pack", catalogue.ENTRY_POINT_GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    catalogue.load.cache_clear()


@pytest.fixture(autouse=True)
def forget_packs() -> Iterator[None]:
    yield
    catalogue.load.cache_clear()


def test_a_third_party_pack_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_pack(
        tmp_path, monkeypatch, '"""A page."""\nfrom gradguard.catalogue import Rule\nrule = Rule("XX101", "x")'
    )
    rule = catalogue.load().get("XX101")
    assert rule is not None
    assert rule.page == "A page."


def test_a_broken_pack_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_pack(tmp_path, monkeypatch, "")
    (tmp_path / "extra_pack" / "__init__.py").write_text("import not_installed_anywhere")
    with pytest.raises(RulePackError, match=r"'extra' \(extra_pack\).*not_installed_anywhere"):
        catalogue.load()


def test_a_broken_module_of_a_pack_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_pack(tmp_path, monkeypatch, "import not_installed_anywhere")
    with pytest.raises(RulePackError, match=r"'extra' \(extra_pack\).*not_installed_anywhere"):
        catalogue.load()


def test_two_rules_cannot_share_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_pack(tmp_path, monkeypatch, 'from gradguard.catalogue import Rule\nrule = Rule("XX101", "x")')
    (tmp_path / "extra_pack" / "two.py").write_text((tmp_path / "extra_pack" / "one.py").read_text())
    with pytest.raises(RulePackError, match=r"extra_pack\.two defines XX101, which extra_pack\.one has"):
        catalogue.load()

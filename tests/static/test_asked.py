"""What one file asks about the others."""

from __future__ import annotations

from pathlib import Path

from gradguard.static.asked import Questions, called_in, methods_in


def test_a_definition_is_no_call() -> None:
    assert called_in("def f(x):\n    return g(x) + self.net.h(x)\nf(1)[0](2)") == {"f", "g", "h"}
    assert called_in("def f(x): pass\n") == frozenset()


def test_names_may_have_letters_of_any_language() -> None:
    assert called_in("größe(x); _y2(x); (2)(x)") == {"größe", "_y2"}


def test_methods_do_not_stand_at_the_left_edge() -> None:
    text = "def a(): ...\nclass C:\n    def b(self): ...\n\tasync  def c(self): ...\n    x = 1; def_(d(1))\n"
    assert methods_in(text) == {"b", "c"}


def test_where_no_run_will_want_to_know_nothing_is_noted(tmp_path: Path) -> None:
    questions = Questions(noted=False)
    asked = questions.of(tmp_path / "a.py")
    asked.files.add(tmp_path / "b.py")
    asked.words.update(["word"], ["another"])
    asked.program = True
    assert not asked.files
    assert not asked.words
    assert questions.all() == {}

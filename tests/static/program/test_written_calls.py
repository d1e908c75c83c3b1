from __future__ import annotations

import re

import pytest

from gradguard.static.program.written_calls import Given, call_of, mention_of, written_in


@pytest.mark.parametrize(
    "call",
    [
        "fit(net)",
        "self.trainer.fit(net)",
        "fit (net)",
        "(fit)(net)",
        "((trainer . fit ) )\\\n  (net)",
        "x = [(fit  # the first (\n)\n(net)]",
        'f"{fit(net)}"',
        "@fit(net)\ndef f(): pass",
        "grö.fit(net)",
    ],
)
def test_each_call_of_a_name_is_seen_in_the_text(call: str) -> None:
    assert written_in(call.encode()).calls["fit"]
    assert call_of("fit").search(call.encode())


@pytest.mark.parametrize("text", ["def fit_all(self): self.fit = net", "fit\n", "print(fit, net)"])
def test_what_calls_no_such_name(text: str) -> None:
    assert not written_in(text.encode()).calls["fit"]
    assert not call_of("fit").search(text.strip().encode() + b";")


def test_a_statement_that_is_cut_off_may_go_on_with_a_call() -> None:
    assert call_of("fit").search(b"x = (fit\n")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("net", "net = Net()"),
        ("net", "a,net = A(), Net()"),
        ("net", "with Net() as net:\n  pass"),
        ("grö", "grö = Net()"),
        ("self.net", "self.net=Net()"),
        ("self.net", "(self\n . net) = Net()"),
        ("self.net", "self.\\\n  net = Net()"),
        ("self.a.net", "if x: self.a.net = Net()"),
        (".net", "f(x).net = Net()"),
        (".net", "nets[0] .net = Net()"),
    ],
)
def test_each_variable_that_is_made_is_seen_in_the_text(path: str, text: str) -> None:
    assert written_in(text.encode()).made[path] == ["Net"]
    assert mention_of(path).search(text.encode())


@pytest.mark.parametrize("text", ["self.net = Net()", "nets = Net()", "subnet = Net()"])
def test_what_makes_no_such_variable(text: str) -> None:
    assert not mention_of("net").search(text.encode())


@pytest.mark.parametrize("pattern", [call_of("fit"), mention_of("net.fit")])
def test_comments_behind_a_name_are_soon_passed(pattern: re.Pattern[bytes]) -> None:
    """A search that tries each blank at the end of each comment would not come to an end."""
    comments = b"# a note (  \n" * 500
    assert pattern.search(b"x = (net # \n.fit\n" + comments + b"(y))") is not None
    assert pattern.search(b"x = net # \n" + comments + b";y") is None


@pytest.mark.parametrize("written", ["[trace, Count()]", "(trace, Count())"])
def test_what_is_in_a_list_that_is_passed(written: str) -> None:
    (call,) = written_in(f"fit({written})".encode()).calls["fit"]
    assert call.positional[0].items == (Given("trace", False), Given("Count", True))

"""Which functions' variables may be read without the program seeing it."""

from __future__ import annotations

import sys
from argparse import Namespace
from types import FrameType
from typing import Any

import pytest

from gradguard.runtime import roots
from gradguard.runtime.naming import describe
from gradguard.runtime.spots import Spot

ARGS = Namespace(width=3)


def of_an_object() -> FrameType:
    print(vars(ARGS), dir(ARGS))
    return sys._getframe()


def a_value() -> FrameType:
    assert eval("1 + 1") == 2
    return sys._getframe()


def a_method() -> FrameType:
    class Model:
        def eval(self) -> None: ...

        def locals(self) -> None: ...

    Model().eval()
    Model().locals()
    return sys._getframe()


def its_own() -> FrameType:
    assert locals() == {}
    return sys._getframe()


def its_own_by_vars() -> FrameType:
    assert vars() == {}
    return sys._getframe()


def new_names() -> FrameType:
    exec("x = 1")
    return sys._getframe()


@pytest.mark.parametrize("function", [of_an_object, a_value, a_method])
def test_may_be_read(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "_LOCALS_IS_A_SNAPSHOT", True)
    assert roots.may_read(function())


@pytest.mark.parametrize("function", [its_own, its_own_by_vars, new_names])
def test_is_left_alone(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "_LOCALS_IS_A_SNAPSHOT", True)
    assert not roots.may_read(function())


def test_a_module_is_its_globals() -> None:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    assert roots.may_read(frame)  # of whichever program runs the tests


class Entered:
    """What a ``with`` statement may hold alone."""

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


class EnteredDict(dict[str, int], Entered):
    """A collection has no name by its class."""


class Other(Entered):
    """One that is no longer there."""


def test_what_statements_may_hold() -> None:
    kept = [Entered(), EnteredDict(), roots.Root("plain", "local", {}, None)]
    Other()
    (found,) = (root for root in roots.roots(None) if root.name == "statement")
    mine = [each for each in found.variables.values() if isinstance(each, Entered)]
    assert mine == kept[:1]


def test_what_a_statement_holds_is_named_by_its_class() -> None:
    open_one = Entered()
    root = roots.Root("statement", "local", {f"<Entered {id(open_one):x}>": open_one}, None)
    top = Spot(None, next(iter(root.variables)))
    top.thing = open_one
    assert describe([top], root, "tensor").path == "Entered"
    assert describe([top], root, "tensor").name == "Entered"
    below = Spot(top, ".seen")
    below.thing, below.owner = [], type(open_one)
    assert describe([top, below], root, "tensor").path == "Entered.seen"

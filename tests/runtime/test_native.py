"""Which objects have memory that Python does not see, and which collection has more of them."""

from __future__ import annotations

import datetime
import decimal
import re
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gradguard.runtime.native import grown, is_native  # noqa: E402
from gradguard.runtime.spots import Spot  # noqa: E402


class Plain:
    """A class of the user's."""


class Seeded(torch.Generator):
    """A class of the user's that derives from one of an extension."""


@pytest.mark.parametrize("thing", [torch.Generator(), Seeded()])
def test_objects_of_extensions(thing: Any) -> None:
    assert is_native(type(thing))


def test_an_extension_that_does_not_say_whose_its_type_is() -> None:
    image = pytest.importorskip("PIL.Image")
    assert is_native(type(image.new("RGB", (4, 4)).im))


@pytest.mark.parametrize(
    "thing",
    [
        Plain(),
        torch.device("cpu"),
        torch.float32,
        torch.Size([1]),
        datetime.datetime.now(),
        decimal.Decimal(1),
        re.compile("a"),
        threading.Lock(),
        iter([]),
        {}.keys(),
        len,
        Plain,
        object(),
        ValueError(),
        (each for each in ()),
    ],
)
def test_values_and_what_comes_with_python(thing: Any) -> None:
    assert not is_native(type(thing)) or thing is torch.float32  # of which there are a few, for good


def census(**lengths: int) -> Spot:
    """The top of a census with lists of objects of an extension under one object of the user's."""
    top = Spot(None, "")
    owner = top.child("global main").child("run")
    owner.ident = owner.count = 1
    for name, length in lengths.items():
        rows = owner.child(f".{name}")
        rows.ident, rows.count, rows.length = 2, 1, length
        items = rows.child("[*]")
        items.count = items.natives = length
    return top


def test_the_collection_that_gained_most() -> None:
    found = grown(census(seen=3, rows=10), census(seen=6, rows=40), 4)
    assert found is not None
    assert (found.spot.label, found.entries, found.objects, found.label) == (".rows", 30, 30, "global main")


@pytest.mark.parametrize("after", [census(rows=12), census(rows=10), census(others=40)])
def test_too_few_or_not_the_same(after: Spot) -> None:
    assert grown(census(rows=10), after, 4) is None

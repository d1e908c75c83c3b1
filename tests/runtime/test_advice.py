"""The edit that ends a leak, in words that are true of what the variable holds."""

from __future__ import annotations

import pytest

from gradguard.runtime.advice import for_leak


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        ("torch.Tensor", "`self.h = self.h.detach()`"),
        ("list", "`.detach()` each tensor in `self.h`"),
        ("tuple", "`.detach()` each tensor in `self.h`"),
        ("collections.OrderedDict", "`.detach()` each tensor in `self.h`"),
        ("search.Node", "let `self.h` lead to nothing of them"),
    ],
)
def test_of_a_value_that_is_carried_on(holds: str, said: str) -> None:
    advice = for_leak("graph", "carried", "self.h", None, trains=True, holds=holds)
    assert said in advice
    assert ("self.h.detach()" in advice) is (holds == "torch.Tensor")

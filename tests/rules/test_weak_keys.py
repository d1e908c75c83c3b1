"""Entries of a ``WeakKeyDictionary`` whose values hold their keys."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG404"

PROGRAM = """
        import functools
        import weakref
        from dataclasses import dataclass
        from weakref import WeakKeyDictionary

        @dataclass
        class Encoded:
            batch: object
            hidden: torch.Tensor

        class Held:
            def __init__(self, hidden, batch):
                self.hidden = hidden
                self.owner = batch

        class Measured:
            def __init__(self, batch, hidden):
                self.size, self.hidden = len(batch), hidden

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(4, 4)
                self.memo = MADE

            def encode(self, batch):
                found = self.memo.get(batch)
                if found is None:
                    h = self.net(batch.x)
                    made = VALUE
                    found = self.memo[batch] = STORED  # MARK
                return found

        def train(model, batches, optimizer):
            for batch in batches:
                optimizer.zero_grad()
                model.encode(batch).hidden.mean().backward()
                optimizer.step()
"""


def _program(value: str, stored: str = "made", made: str = "weakref.WeakKeyDictionary()") -> str:
    return PROGRAM.replace("MADE", made).replace("VALUE", value).replace("STORED", stored)


@pytest.mark.parametrize(
    "code",
    [
        _program("Encoded(batch, h)"),
        _program("None", "Encoded(batch, h)"),
        _program("Encoded(hidden=h, batch=batch)"),
        _program("Encoded(batch, h)", made="WeakKeyDictionary()"),
        _program("(batch, h)"),
        _program("{'batch': batch, 'hidden': h}"),
        _program("Held(h, batch)"),
        _program("functools.partial(decode, batch, h)"),
    ],
)
def test_a_value_that_holds_its_weak_key(code: str) -> None:
    assert_flagged(code.replace("MARK", "!"), CODE)


@pytest.mark.parametrize(
    "code",
    [
        _program("h"),
        _program("(batch.size, h)"),
        _program("Encoded(weakref.ref(batch), h)"),
        _program("Encoded(weakref.proxy(batch), h)"),
        _program("Encoded(batch.target, h)"),
        _program("Encoded(None, h)"),
        _program("Measured(batch, h)"),
        _program("pool(batch, h)"),
        _program("Encoded(batch, h)", made="weakref.WeakValueDictionary()"),
        _program("Encoded(batch, h)", made="make_memo()"),
        _program("Encoded(batch, h)").replace(".backward()", ".item()"),
        _program("Encoded(batch, h)", "h"),
    ],
)
def test_a_value_without_its_weak_key(code: str) -> None:
    assert_clean(code, CODE)

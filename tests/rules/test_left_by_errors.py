"""What a context manager takes out behind its ``yield`` stays where the block raises."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG104"

PROGRAM = """
        from contextlib import contextmanager

        class SkipBatch(Exception):
            pass

        SCOPES = []

        @contextmanager
        def taps():
            BODY

        def tap(name, value):
            if SCOPES:
                FILL
            return value

        def step(model, x, floor):
            with taps() as seen:
                out = tap("out", model(x))
                RAISE
            return out.mean() + sum(v.mean() for v in seen.values())

        def train(model, loader, optimizer):
            for x in loader:
                try:
                    loss = step(model, x, 0.5)
                except CAUGHT:
                    HANDLE
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""
LEFT = "scope = {}\n            SCOPES.append(scope)  # MARK\n            yield scope\n            SCOPES.pop()"
FILL = "SCOPES[-1][name] = value"
RAISE = 'if x.std() < floor: raise SkipBatch("too weak")'


def _program(
    body: str = LEFT,
    fill: str = FILL,
    raises: str = RAISE,
    caught: str = "SkipBatch",
    handle: str = "continue",
) -> str:
    parts = {"BODY": body, "FILL": fill, "RAISE": raises, "CAUGHT": caught, "HANDLE": handle}
    code = PROGRAM
    for word, part in parts.items():
        code = code.replace(word, part)
    return code


@pytest.mark.parametrize(
    "code",
    [
        _program(),
        _program(caught="(ValueError, SkipBatch) as e", handle="print(e); continue"),
        _program(raises="for part in out:\n                    if part.isnan().any(): raise SkipBatch"),
        _program(fill="SCOPES[-1].setdefault(name, []).append(value)"),
        _program(body=LEFT.replace("scope = {}", "scope = dict()").replace("SCOPES.pop()", "SCOPES.remove(scope)")),
        _program(body="SCOPES.append({})  # MARK\n            yield SCOPES[-1]\n            SCOPES.pop()"),
    ],
)
def test_left_where_the_block_raises(code: str) -> None:
    assert_flagged(code.replace("MARK", "!"), CODE)


FINALLY = (
    "scope = {}\n            SCOPES.append(scope)\n            try:\n                yield scope\n"
    "            finally:\n                SCOPES.pop()"
)


@pytest.mark.parametrize(
    "code",
    [
        _program(body=FINALLY),
        _program(body=FINALLY.replace("finally:", "except SkipBatch:")),
        _program(raises="pass"),
        _program(raises='if floor < 0: raise ValueError("floor")'),
        _program(
            raises=f"try:\n                    {RAISE}\n                except SkipBatch:\n                    pass"
        ),
        _program(handle="raise"),
        _program(handle="return"),
        _program(caught="ValueError"),
        _program(fill="print(len(SCOPES))"),
        _program(body=LEFT.replace("scope = {}", 'scope = "name"')),
        _program(body=LEFT.replace("scope = {}", "scope, SCOPES = {}, []")),
        _program().replace("loss.backward()", "print(loss)"),
        _program().replace("for x in loader:", "if x := next(loader):"),
    ],
)
def test_taken_out_or_never_left(code: str) -> None:
    assert_clean(code, CODE)

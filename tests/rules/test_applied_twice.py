"""Gradients that two steps of one optimizer use (GG214)."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

CODE = "GG214"


def loop(*lines: str) -> str:
    body = "\n            ".join(lines)
    return f"""
    def train(model, encoder, loader, second):
        optimizer = torch.optim.Adam(model.parameters())
        other = torch.optim.Adam(encoder.parameters())
        for x, y in loader:
            {body}
    """


FIRST = ("F.mse_loss(model(x), y).backward()", "optimizer.step()")
SECOND = ("F.l1_loss(model(x), y).backward()", "optimizer.step()")

FLAGGED = {
    "a reset at the top": (
        "optimizer.zero_grad()",
        *FIRST,
        "F.l1_loss(model(x), y).backward()  # !",
        "optimizer.step()",
    ),
    "a reset at the end": (
        *FIRST,
        "F.l1_loss(model(x), y).backward()  # !",
        "optimizer.step()",
        "optimizer.zero_grad()",
    ),
    "a loop for another network in between": (
        "model.zero_grad()",
        *FIRST,
        "for _ in range(5):",
        "    other.zero_grad()",
        "    encoder(x).mean().backward()",
        "    other.step()",
        "encoder(model(x)).mean().backward()  # !",
        "optimizer.step()",
    ),
}

CLEAN = {
    "a reset for each": ("optimizer.zero_grad()", *FIRST, "optimizer.zero_grad()", *SECOND),
    "a reset behind each": (*FIRST, "optimizer.zero_grad()", *SECOND, "optimizer.zero_grad()"),
    "a reset of the model": ("model.zero_grad()", *FIRST, "model.zero_grad()", *SECOND),
    "gradients that are dropped": (
        "optimizer.zero_grad()",
        *FIRST,
        "for p in model.parameters():",
        "    p.grad = None",
        *SECOND,
    ),
    "one step for two losses": ("optimizer.zero_grad()", *FIRST[:1], *SECOND),
    "the steps of two optimizers": (
        "optimizer.zero_grad()",
        *FIRST,
        "F.l1_loss(encoder(x), y).backward()",
        "other.step()",
        "other.zero_grad()",
    ),
    "one way or the other": (
        "optimizer.zero_grad()",
        "if x.mean() > 0:",
        *("    " + line for line in FIRST),
        "else:",
        *("    " + line for line in SECOND),
    ),
    "what resets is not seen": ("optimizer.zero_grad()", *FIRST, "second.prepare(optimizer)", *SECOND),
}


@pytest.mark.parametrize("lines", FLAGGED.values(), ids=FLAGGED.keys())
def test_the_second_step_takes_them_again(lines: tuple[str, ...]) -> None:
    assert_flagged(loop(*lines), CODE)


@pytest.mark.parametrize("lines", CLEAN.values(), ids=CLEAN.keys())
def test_what_looks_like_it_is_not(lines: tuple[str, ...]) -> None:
    assert_clean(loop(*lines), CODE)


def test_the_edit_resets_before_the_second_backward() -> None:
    (finding,) = findings(loop("optimizer.zero_grad()", *FIRST, *SECOND), CODE)
    assert finding.fix is not None
    assert [edit.text.strip() for edit in finding.fix.edits] == ["optimizer.zero_grad()"]

"""A model of another library, in a file that imports torch too: torch records nothing of it."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG301"

EVALUATION = """
import OTHER as other
import numpy as np

def examples(model, loader):
    for x in loader:
        out, _ = model.forward(x, None)
        print(np.argmax(out.value()))

def run(model, train_loader, valid_loader, optimizer):
    for x, y in train_loader:
        other.renew_cg()
        loss = other.sum([other.loss(out, y) for out in model.forward(x, y)])
        loss.backward()
        optimizer.update()
    model.eval()
    examples(model, valid_loader)CALL
    for x, y in valid_loader:
        other.renew_cg()
        outs, weights = model.forward(x, y)OWN
        losses = []
        for out, each in zip(outs, y):
            losses.append(HANDED)
        total = sum(losses)
        print(TOTAL)
"""


def evaluation(other: str, handed: str, total: str, *, flagged: bool) -> str:
    snippet = EVALUATION.replace("OTHER", other).replace("HANDED", handed).replace("TOTAL", total)
    mark = "  # !" if flagged else ""
    return snippet.replace("CALL", mark).replace("OWN", mark)


@pytest.mark.parametrize("other", ["dynet", "tensorflow", "paddle.nn.functional"])
def test_its_outputs_are_handed_to_the_other_library(other: str) -> None:
    assert_clean(evaluation(other, "other.loss(out, each)", "other.sum(losses).value()", flagged=False), CODE)


@pytest.mark.parametrize(
    "handed", ["F.mse_loss(out, each).item()", "other.loss(out.detach().cpu().numpy(), each)", "other.mean(out.item())"]
)
def test_the_other_library_only_measures(handed: str) -> None:
    snippet = evaluation("tensorflow", handed, "total", flagged=True)
    trains = "loss = other.sum([other.loss(out, y) for out in model.forward(x, y)])"
    assert trains in snippet
    assert_flagged(snippet.replace(trains, "loss = F.mse_loss(model(x), y)"), CODE)

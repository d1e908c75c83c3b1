"""GG301: a model that the statements of the file put into evaluation mode is so in each function that runs it."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG301"

CAPTIONS = """
state = torch.load("best.pt")
encoder = state["encoder"]
encoder = encoder.cuda()
encoder.eval()
print(state["word_map"])

def caption(batches):
    found = []
    for image, words in batches:
        code = encoder(image.cuda())  # !
        found.append(code.argmax(1).tolist())
    return found

if __name__ == "__main__":
    print(caption(load_batches()))
"""


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("encoder = encoder.cuda()\nencoder.eval()", "encoder = encoder.cuda().eval()")],
        [("encoder = encoder.cuda()\nencoder.eval()", "encoder.cuda().eval()")],
        [("encoder.eval()", "encoder.eval()\nencoder.train(False)")],
        [("    found = []\n", "    found = []\n    encoder.head.eval()\n")],
        [("for image, words in batches", "for image, words in zip(batches, range(9))")],
    ],
)
def test_evaluated_by_the_script(edits: list[tuple[str, str]]) -> None:
    text = CAPTIONS
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    assert_flagged(text, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("encoder.eval()", "encoder.float()")],
        [("encoder.eval()", "other.encoder.eval()")],
        [
            ("print(caption(load_batches()))", "fit()"),
            ("if __name__", "def fit():\n    encoder.train()\n\nif __name__"),
        ],
        [("def caption(batches)", "def caption(batches, encoder)"), ("caption(load", "caption(other, load")],
        [("    found = []\n", "    found = []\n    encoder = build()\n")],
        [("def caption", "@torch.no_grad()\ndef caption")],
        [("def caption", "@torch.inference_mode()\ndef caption")],
        [("    print(caption(", "    with torch.no_grad(): print(caption(")],
        [("    print(caption(", "    torch.set_grad_enabled(False)\n    print(caption(")],
        [("        code = encoder", "        with torch.no_grad(): code = encoder")],
        [("encoder.eval()", "encoder.eval()\nencoder.requires_grad_(False)")],
        [("encoder.eval()", "encoder.eval()\nfor p in encoder.parameters():\n    p.requires_grad = False")],
        [("found.append(code.argmax(1).tolist())", "head(code).mean().backward()")],
        [("found.append(code.argmax(1).tolist())", "found.append(torch.autograd.grad(code.sum(), image)[0])")],
        [("found.append(code.argmax(1).tolist())", "optimizer.zero_grad(); head(code).mean().backward()")],
        [("    for image, words in batches:\n        code", "    if batches:\n        image = batches\n        code")],
        [("        code = encoder(image.cuda())", "        code = image.cuda()")],
    ],
)
def test_lookalikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(CAPTIONS, *edits), CODE)


def test_a_loss_that_its_caller_trains() -> None:
    text = twin(CAPTIONS, ("found.append(code.argmax(1).tolist())", "found.append(head(code).mean())"))
    assert_clean(
        text.replace("    print(caption(load_batches()))", "    sum(caption(load_batches())).backward()"), CODE
    )


def test_one_that_is_evaluated_in_a_function_alone() -> None:
    text = twin(CAPTIONS, ("encoder.eval()", "def freeze():\n    encoder.eval()"))
    assert_clean(text, CODE)

"""GG104: what callers pass is of the class that it was made of, also where it is moved first: ``run(net.cuda())``."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG104"

LISTED = """
class Decoder(nn.Module):
    def __init__(self, elmo):
        super().__init__()
        self.elmo = elmo
        self.out = nn.Linear(3, 3)

    def forward(self, x, hidden, words):
        return self.out(x) + self.elmo(words), hidden

def main(args, batches):
    made = Decoder(args.elmo)
    for _ in range(args.epochs):
        one_epoch(made.cuda(), batches)

def one_epoch(dec, batches):
    print(valid(dec, batches))

def valid(dec, valid_data):
    losses = []
    for x, y, words in valid_data:
        out, hidden = dec(x, None, words)
        loss = F.cross_entropy(out, y)
        losses.append(loss)  # !
    return torch.mean(torch.FloatTensor(losses)).item()
"""


@pytest.mark.parametrize(
    "passed", ["made.cuda()", "made.to(args.device)", "made.eval().to(args.device)", "made", "dec=made.double()"]
)
def test_an_argument_that_is_moved(passed: str) -> None:
    call = f"one_epoch({passed}, batches)" if "=" not in passed else f"one_epoch({passed}, batches=batches)"
    assert_flagged(LISTED.replace("one_epoch(made.cuda(), batches)", call), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("losses.append(loss)", "losses.append(loss.item())")],
        [("losses.append(loss)", "losses.append(loss.detach())")],
        [("made.cuda()", "made.encoded().cuda()")],
        [("made.cuda()", "made.words.cuda()")],
        [("def valid", "@torch.no_grad()\ndef valid")],
        [("    print(valid(dec, batches))", "    with torch.no_grad():\n        print(valid(dec, batches))")],
        [("def forward", "@torch.no_grad()\n    def forward")],
        [("made = Decoder(args.elmo)", "made = Decoder(args.elmo).words")],
    ],
)
def test_lookalikes_of_an_argument_that_is_moved(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(LISTED, *edits), CODE)

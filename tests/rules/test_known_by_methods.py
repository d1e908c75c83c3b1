"""Which of several models a function is given, as far as the methods tell that it calls."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG104"

TAGGERS = """
    from torchcrf import CRF

    class Plain(nn.Module):
        def __init__(self, tags):
            super().__init__()
            self.lstm, self.head = nn.LSTM(8, 8), nn.Linear(8, tags)

        def forward(self, x):
            return self.head(self.lstm(x)[0])

    class Tagger(nn.Module):
        def __init__(self, tags):
            super().__init__()
            self.lstm, self.head = nn.LSTM(8, 8), nn.Linear(8, tags)
            self.crf = CRF(tags, batch_first=True)

        def forward(self, x):
            scores = self.head(self.lstm(x)[0])
            scores = self.crf.decode(scores)
            return scores

        def log_likelihood(self, x, tags):
            return -self.crf(self.head(self.lstm(x)[0]), tags)

    def cut(lengths, predicted):
        found = []
        for i, row in enumerate(predicted):
            found += row[:lengths[i]]
        return found

    def train(model, loader, optimizer):
        for epoch in range(10):
            all_found = []
            for x, y, lengths in loader:
                optimizer.zero_grad()
                predicted = model(x)
                loss = model.log_likelihood(x, y)
                loss.backward()
                optimizer.step()
                found = cut(lengths, predicted)
                all_found += found  # !
            print(accuracy(all_found))

    models = {"plain": Plain, "crf": Tagger}
    model = models[config.name](5)
    train(model, loader, torch.optim.Adam(model.parameters()))
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("scores = self.crf.decode(scores)\n            return scores", "return self.crf.decode(scores)"),
        ("self.crf.decode(scores)", "self.crf.decode(scores, mask=x.ne(0).any(-1))"),
        ("from torchcrf import CRF", "import torchcrf\n    from torchcrf import CRF as CRF"),
        ('{"plain": Plain, "crf": Tagger}', '{"crf": Tagger}'),
        ("found = cut(lengths, predicted)", "found = [row[:2] for row in predicted]"),
    ],
)
def test_a_model_that_gives_tags(before: str, after: str) -> None:
    assert_clean(twin(TAGGERS, (before, after)) if before else twin(TAGGERS), CODE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("scores = self.crf.decode(scores)\n", "scores = scores.log_softmax(-1)\n"),
        ("from torchcrf import CRF", "from layers import CRF"),
        ("loss = model.log_likelihood(x, y)", "loss = F.cross_entropy(predicted, y)"),
        ("loss = model.log_likelihood(x, y)", "loss = model(x).sum()"),
    ],
)
def test_a_model_that_gives_scores(before: str, after: str) -> None:
    assert_flagged(TAGGERS.replace(before, after), CODE)

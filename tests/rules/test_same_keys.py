"""A dict whose keys are all elements of one collection: a loop over that replaces each of its elements."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

CODE = "GG105"

SPREAD = """
        def spread(names, links, labels, attention, n, rounds=1000):
            found = {made}
            for _ in range(rounds):
                for k in names:
                    found[k] = torch.spmm(links[k], labels[k]) * attention[k]
                {more}
                {loop}:
                    {last}
            return found

        def train(net, optimizer, links, x, labels, names, n):
            for epoch in range(100):
                optimizer.zero_grad()
                logits, attention = net(x)
                labels = spread(names, links, labels, attention, n)
                loss = F.nll_loss(logits, torch.argmax(labels["a"], 1))
                loss.backward()
                optimizer.step()
"""

CUT = [
    "found[k] = F.one_hot(torch.argmax(found[k], dim=1), n).type(dtype=torch.float32)",
    "found[k] = found[k].detach()",
    "best = found[k].argmax(1); found[k] = F.one_hot(best, n)",
]
OVER = ["for k in names", "for k in tqdm(names)", "for i, k in enumerate(names)", "for k in list(names)"]


@pytest.mark.parametrize("made", ["dict(labels)", "{}", "copy.deepcopy(labels)"])
@pytest.mark.parametrize("last", CUT)
@pytest.mark.parametrize("loop", OVER)
def test_every_element_is_replaced(made: str, loop: str, last: str) -> None:
    assert_clean(SPREAD.format(made=made, loop=loop, last=last, more="pass"), CODE)


@pytest.mark.parametrize(
    ("loop", "last", "more"),
    [
        ("for k in names[1:]", CUT[1], "pass"),
        ("for k in others", CUT[1], "pass"),
        ("for k in names", "found[k] = found[k] * 2", "pass"),
        ("for k in names", CUT[1], "found['a'] = torch.spmm(links['a'], labels['a']) * attention['a']"),
        ("for k in names", CUT[1], "found.update(spread(names, links, labels, attention, n))"),
        ("for k in names", CUT[1] + "; break", "pass"),
        ("for k in names", CUT[1], "names = names[1:]"),
    ],
)
def test_some_elements_stay(loop: str, last: str, more: str) -> None:
    snippet = SPREAD.format(made="dict(labels)", loop=loop, last=last, more=more)
    assert findings(snippet, CODE)


def test_a_loop_that_makes_what_it_keeps_replaces_nothing() -> None:
    assert_flagged(
        """
        def train(net, optimizer, loader, names):
            total = {}
            for k in names:
                total[k] = 0.0
            for x, y in loader:
                losses = net(x, y)
                optimizer.zero_grad()
                sum(losses.values()).backward()
                optimizer.step()
                for k in names:
                    total[k] = total[k] + losses[k]  # !
        """,
        "GG103",
    )

"""A loop over what its caller made: the caller's graph is gone through in each iteration, so it is retained."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

CODE = "GG101"

PROBE = """
        class Trainer:
            def evaluate(self, embeds, rows, labels):
                for _ in range(10):
                    head = nn.Linear(4, 2)
                    optimizer = torch.optim.Adam(head.parameters())
                    given = {part}
                    for i in range(50):
                        optimizer.zero_grad()
                        loss = F.cross_entropy(head({used}), labels)
                        loss.backward(retain_graph=True){mark}
                        optimizer.step()

            def probe(self, found):
                self.evaluate(found["item"], self.rows, self.labels)

            def run(self, net, x):
                logits, embeds = net(x)
                {call}
"""

ATTACHED = [
    "self.evaluate(embeds, self.rows, self.labels)",
    "self.evaluate(net(x), self.rows, self.labels)",
    "self.evaluate(embeds=F.normalize(embeds), rows=self.rows, labels=self.labels)",
    "self.probe(net(x))",
    "self.probe({'item': embeds})",
]
PLAIN = [
    "self.evaluate(embeds.detach(), self.rows, self.labels)",
    "self.evaluate(x, self.rows, self.labels)",
    "self.evaluate(embeds.data, self.rows, self.labels)",
    "self.probe({'item': embeds.detach()})",
]


@pytest.mark.parametrize("call", ATTACHED)
@pytest.mark.parametrize(("part", "used"), [("embeds[rows]", "given"), ("embeds", "given[i]"), ("None", "embeds")])
def test_a_graph_that_a_caller_made(call: str, part: str, used: str) -> None:
    assert_clean(PROBE.format(call=call, part=part, used=used, mark=""), CODE)


@pytest.mark.parametrize("call", PLAIN)
@pytest.mark.parametrize(("part", "used"), [("embeds[rows]", "given"), ("None", "embeds")])
def test_what_a_caller_gives_without_a_graph(call: str, part: str, used: str) -> None:
    assert_flagged(PROBE.format(call=call, part=part, used=used, mark="  # !"), CODE)


@pytest.mark.parametrize("cut", ["embeds[rows].detach()", "embeds.detach()[rows]", "embeds[rows].data"])
def test_what_the_loop_cuts(cut: str) -> None:
    assert_flagged(PROBE.format(call=ATTACHED[0], part=cut, used="given", mark="  # !"), CODE)


def test_what_a_caller_gives_under_no_grad() -> None:
    snippet = PROBE.replace("                logits, embeds = net(x)\n", "")
    call = "with torch.no_grad():\n                    embeds = net(x)\n                " + ATTACHED[0]
    assert findings(snippet.format(call=call, part="embeds[rows]", used="given", mark=""), CODE)

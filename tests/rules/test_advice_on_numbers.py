"""What a finding advises: ``.item()`` where there is one element for certain, ``.detach()`` of what is a tensor."""

from __future__ import annotations

import pytest

from tests.rules.snippets import findings

CALLEE = """
        class Meter:
            def __init__(self):
                self.total = 0

            def update(self, value):
                self.total = self.total + value

        def train(net, loader, opt, criterion, meter=Meter()):
            for x, y in loader:
                out = net(x).relu()
                {made}
                opt.zero_grad()
                F.cross_entropy(out, y).backward()
                opt.step()
                meter.update({given})
"""
SUM = """
        def train(net, loader, opt, criterion):
            total = 0
            for x, y in loader:
                out = net(x).relu()
                {made}
                opt.zero_grad()
                F.cross_entropy(out, y).backward()
                opt.step()
                total += {given}
            return total
"""
NUMBERS = {
    "a loss": ("loss = F.mse_loss(out, y)", "loss"),
    "a part of it": ("loss = F.mse_loss(out, y)", "0.5 * loss"),
    "what a criterion gives": ("result = criterion(out, y)", "result"),
    "a mean": ("score = out.mean()", "score"),
    "a mean as it is": ("pass", "out.pow(2).mean()"),
    "a mean of torch": ("score = torch.mean(out)", "score"),
    "a norm": ("size = out.norm()", "size"),
    "a number in single precision": ("score = out.mean().float()", "score"),
    "what is backpropagated": ("z = out.logsumexp(0)[0]; z.backward()", "z"),
}
SEVERAL = {
    "an output": ("pass", "out"),
    "its square": ("energies = out.pow(2).sum(1)", "energies"),
    "a mean of each": ("score = out.mean(0)", "score"),
    "of each, by name": ("score = out.mean(dim=0)", "score"),
    "of torch": ("score = torch.sum(out, 1)", "score"),
    "joined": ("pass", "torch.cat([out, out])"),
    "joined and chosen from": ("pass", "torch.cat([out, out])[y]"),
    "a loss of each": ("per_sample = criterion(out, y, reduction='none')", "per_sample"),
    "something": ("probs = out.softmax(1)", "probs"),
    "a mean times each": ("loss = out.mean()", "loss * out.sum(1)"),
}


def _help(snippet: str, case: tuple[str, str], code: str) -> str:
    made, given = case
    [finding] = findings(snippet.format(made=made, given=given), code)
    return finding.help or ""


@pytest.mark.parametrize(("snippet", "code"), [(CALLEE, "GG107"), (SUM, "GG103")])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number(name: str, snippet: str, code: str) -> None:
    assert ".item()" in _help(snippet, NUMBERS[name], code)


@pytest.mark.parametrize(("snippet", "code"), [(CALLEE, "GG107"), (SUM, "GG103")])
@pytest.mark.parametrize("name", SEVERAL)
def test_several_elements(name: str, snippet: str, code: str) -> None:
    told = _help(snippet, SEVERAL[name], code)
    assert ".item()" not in told
    assert ".detach()" in told


KEPT = """
        def train(net, loader, opt):
            kept = []
            for x, y in loader:
                out = net(x).relu()
                {made}
                opt.zero_grad()
                F.cross_entropy(out, y).backward()
                opt.step()
                kept.append(stored)
            return kept
"""


@pytest.mark.parametrize(
    "made",
    [
        "stored = {name: w * 0.9 for name, w in net.named_parameters()}",
        "stored = [w * 0.9 for w in net.parameters()]",
        "stored = tuple(w * 0.9 for w in net.parameters())",
        "stored = {'out': out, 'target': y}",
        "stored = (out, y)",
        "stored = [out, y]",
    ],
)
def test_a_collection_has_no_detach(made: str) -> None:
    [finding] = findings(KEPT.format(made=made), "GG104")
    assert finding.fix is None
    assert "`.detach()` each of them" in (finding.help or "")


@pytest.mark.parametrize("made", ["stored = out", "stored = out * 2", "stored = torch.stack([out, out])"])
def test_a_tensor_has(made: str) -> None:
    [finding] = findings(KEPT.format(made=made), "GG104")
    assert finding.fix is not None
    assert "store `stored.detach()`" in (finding.help or "")


BOARD = """
        class Board:
            def __init__(self):
                self.rows, self.last = [], None

            def add(self, row):
                {adds}

        def train(net, loader, opt):
            board = Board()
            for step, (x, y) in enumerate(loader):
                out = net(x)
                loss = F.cross_entropy(out, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                board.add({given})
"""
GROWS = "`board.rows` grows all the same"


@pytest.mark.parametrize(
    "given",
    [
        "out",
        "net(x)",
        "{name: w * 0.9 for name, w in net.named_parameters()}",
        "[w * 0.9 for w in net.parameters()]",
        "partial(train, out)",
        "out.mean(0)",
        "torch.cat([out, out])",
    ],
)
def test_whole_tensors_pile_up_without_their_graphs_too(given: str) -> None:
    [finding] = findings(
        "        from functools import partial\n" + BOARD.format(adds="self.rows.append(row)", given=given), "GG107"
    )
    assert GROWS in (finding.help or "")


@pytest.mark.parametrize("given", ["loss", "(step, loss)", "{'loss': loss}", "out.mean()", "0.5 * loss", "[loss]"])
def test_numbers_may(given: str) -> None:
    [finding] = findings(BOARD.format(adds="self.rows.append(row)", given=given), "GG107")
    assert "grows" not in (finding.help or "")


def test_the_outputs_of_one_call_may() -> None:
    [finding] = findings(KEPT.format(made="stored = net(x)"), "GG104")
    assert "grows" not in (finding.help or "")


def test_a_sum_does_not_grow() -> None:
    snippet = BOARD.replace("None", "0").format(adds="self.last = self.last + row", given="out.mean(0)")
    [finding] = findings(snippet, "GG107")
    assert "grows" not in (finding.help or "")

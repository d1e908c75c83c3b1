"""``no_grad`` records nothing, and cuts nothing: what has a graph already is stored with it."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

LOOP = """
        def train(net, loader, optimizer):
            kept = []
            for x, y in loader:
                out = net(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                with torch.no_grad():
                    STORE
            return kept
"""
OBSERVER = """
        class Judge:
            def __init__(self):
                self.kept = []

            @torch.no_grad()
            def observe(self, scores):
                STORE

        def train(net, loader, optimizer):
            judge = Judge()
            for x, y in loader:
                out = net(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                judge.observe(GIVEN)MARK
            return judge
"""
EVALUATION = """
        class Judge:
            def __init__(self):
                self.kept = []

            def observe(self, net, x):
                self.kept.append(net(x))

            def note(self, scores):
                self.kept.append(scores)

        @torch.no_grad()
        def evaluate(net, loader):
            net.eval()
            judge = Judge()
            for x, y in loader:
                judge.observe(net, x)
                judge.note(net(x))
                judge.note(F.cross_entropy(net(x), y))
            return judge
"""


@pytest.mark.parametrize(
    "store", ["kept.append(out)", "kept.append((out, y))", "kept += [loss]", "kept.append({'l': loss})"]
)
def test_a_store_of_what_was_computed_before(store: str) -> None:
    assert_flagged(LOOP.replace("STORE", f"{store}  # !"), "GG104")


@pytest.mark.parametrize(
    "store",
    [
        "kept.append(out.detach())",
        "kept.append(out * 2)",
        "kept.append(out.softmax(1))",
        "kept.append(net(x))",
        "kept.append(F.cross_entropy(net(x), y))",
        "kept.append(loss.item())",
        "seen = net(x); kept.append(seen)",
        "kept.append(x)",
    ],
)
def test_a_store_of_what_is_computed_there(store: str) -> None:
    assert_clean(LOOP.replace("STORE", store), "GG104")


def test_a_method_that_records_nothing_is_given_a_graph() -> None:
    code = OBSERVER.replace("STORE", "self.kept.append(scores)").replace("GIVEN", "out")
    assert [f.code for f in findings(code.replace("MARK", ""))] == ["GG107"]
    assert_flagged(code.replace("MARK", "  # !"), "GG107")


@pytest.mark.parametrize(
    ("store", "given"),
    [
        ("self.kept.append(scores.mean())", "out"),
        ("self.kept.append(scores * 2)", "out"),
        ("self.kept.append(scores.detach())", "out"),
        ("self.kept.append(scores)", "out.detach()"),
        ("self.kept.append(scores)", "x"),
        ("self.kept = [scores]", "out"),
    ],
)
def test_a_method_that_computes_or_is_given_none(store: str, given: str) -> None:
    assert_clean(OBSERVER.replace("STORE", store).replace("GIVEN", given).replace("MARK", ""), "GG107")


@pytest.mark.parametrize(
    ("store", "leaks"),
    [
        ("self.kept.append(scores)", True),
        ("self.kept.append((scores, 1))", True),
        ("self.kept.append(scores * 2)", False),
        ("self.kept.append((scores.mean(), 1))", False),
        ("self.kept.append(scores[0])", False),
    ],
)
def test_a_method_that_is_called_where_nothing_is_recorded(store: str, leaks: bool) -> None:
    code = OBSERVER.replace("            @torch.no_grad()\n", "").replace("STORE", store).replace("MARK", "")
    code = code.replace("judge.observe(GIVEN)", "with torch.no_grad():\n                    judge.observe(out)")
    assert [f.code for f in findings(code, "GG107")] == ["GG107"] * leaks


def test_an_evaluation_that_records_nothing() -> None:
    assert_clean(EVALUATION)
    assert {f.code for f in findings(EVALUATION.replace("@torch.no_grad()\n", "\n"))} & {"GG104", "GG107", "GG301"}

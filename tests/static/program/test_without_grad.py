"""A function that is only called under ``no_grad``, however far away and by however many."""

from __future__ import annotations

import pytest

from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.without_grad import Site, WithoutGrad
from tests.rules.snippets import assert_clean, assert_flagged

EVALUATION = """
    def evaluate(net, loader):
        net.eval()
        for x, y in loader:
            print(net(x).argmax(1))  # !
"""


def programs(callers: str) -> str:
    return EVALUATION + callers


UNDER_NO_GRAD = {
    "the caller's callers": """
    def report(net, loader):
        evaluate(net, loader)

    @torch.no_grad()
    def main(net, loader):
        report(net, loader)
    """,
    "callers that call each other": """
    def first(net, loader, n):
        evaluate(net, loader)
        if n:
            second(net, loader, n - 1)

    def second(net, loader, n):
        first(net, loader, n)

    def main(net, loader):
        with torch.no_grad():
            first(net, loader, 3)
    """,
    "two callers that one calls": """
    def first(net, loader):
        evaluate(net, loader)

    def second(net, loader):
        evaluate(net, loader)

    def main(net, loader):
        with torch.no_grad():
            first(net, loader)
            second(net, loader)
    """,
    "and one call that raises": """
    def main(net, loader):
        with torch.no_grad():
            evaluate(net, loader)

    def old(net):
        evaluate(net)
        evaluate(net, loader, 3)
        evaluate(net, loader, epochs=3)
    """,
    "itself": """
    def walk(net, loaders):
        if loaders:
            evaluate(net, loaders[0])
            walk(net, loaders[1:])

    def main(net, loaders):
        with torch.no_grad():
            walk(net, loaders)
    """,
}

WITH_GRAD = {
    "a call that hands on what it is given": """
    def main(net, loader):
        with torch.no_grad():
            evaluate(net, loader)

    def show(*given):
        evaluate(*given)
    """,
    "a call by other words": """
    def main(net, loader):
        with torch.no_grad():
            evaluate(net, loader)

    def show(net, data):
        evaluate(loader=data, net=net)
    """,
    "nobody": "",
    "callers that only call each other": """
    def first(net, loader, n):
        evaluate(net, loader)
        second(net, loader, n - 1)

    def second(net, loader, n):
        first(net, loader, n)
    """,
    "one of two": """
    def main(net, loader):
        with torch.no_grad():
            evaluate(net, loader)

    def other(net, loader):
        evaluate(net, loader)
    """,
    "one of the callers' callers": """
    def report(net, loader):
        evaluate(net, loader)

    def main(net, loader):
        with torch.no_grad():
            report(net, loader)
        later(net, loader)

    def later(net, loader):
        report(net, loader)
    """,
}


@pytest.mark.parametrize("name", UNDER_NO_GRAD)
def test_all_ways_to_it_are_under_no_grad(name: str) -> None:
    assert_clean(programs(UNDER_NO_GRAD[name]).replace("# !", ""), "GG301")


@pytest.mark.parametrize("name", WITH_GRAD)
def test_one_way_to_it_is_not(name: str) -> None:
    assert_flagged(programs(WITH_GRAD[name]), "GG301")


@pytest.mark.usefixtures("as_written")
def test_each_caller_is_asked_once_for_each_distance_on_however_many_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten methods of one name, each of which calls the next ten: there are ten thousand ways to the first."""
    asked = []
    sites = WithoutGrad._sites

    def counted(self: WithoutGrad, ref: FunctionRef) -> list[Site]:
        asked.append(ref)
        return sites(self, ref)

    monkeypatch.setattr(WithoutGrad, "_sites", counted)
    width, height = 10, 4
    callers = "".join(
        f"\n    def call_{level}_{place}(net, loader):\n"
        + "".join(f"        call_{level - 1}_{each}(net, loader)\n" for each in range(width))
        for level in range(1, height)
        for place in range(width)
    )
    first = "".join(
        f"\n    def call_0_{place}(net, loader):\n        evaluate(net, loader)\n" for place in range(width)
    )
    main = "\n    @torch.no_grad()\n    def main(net, loader):\n" + "".join(
        f"        call_{height - 1}_{each}(net, loader)\n" for each in range(width)
    )
    assert_clean(programs(first + callers + main).replace("# !", ""), "GG301")
    assert 0 < len(asked) <= 2 + width * height

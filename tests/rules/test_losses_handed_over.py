"""GG103: a sum that a function returns, whose callers are not known: it is handed to somebody by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG103"

LOSS = """
    from functools import partial

    def NAME(x, net, draws=20):
        net.eval()
        loss = 0.0
        for _ in range(draws):
            loss += F.mse_loss(net(x + torch.randn_like(x)), x)MARK
        return RETURNED

    HANDED

    def fit(net, loader, loss_of, optimizer):
        for x in loader:
            loss = loss_of(x, net)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


def _loss(handed: str, name: str = "mean_of_draws", mark: str = "", returned: str = "loss / draws") -> str:
    snippet = LOSS.replace("HANDED", handed).replace("NAME", name).replace("MARK", mark)
    return snippet.replace("RETURNED", returned)


@pytest.mark.parametrize(
    "handed",
    [
        "SETTINGS = dict(loss=partial(mean_of_draws, draws=50))",
        'LOSSES = {"one": F.mse_loss, "many": mean_of_draws}',
        "LOSSES = [F.mse_loss, mean_of_draws]",
        "def main(net, loader, optimizer):\n        fit(net, loader, mean_of_draws, optimizer)",
        "def main(net, loader, optimizer):\n        fit(net, loader, loss_of=mean_of_draws, optimizer=optimizer)",
        "def main(net, trainer):\n        trainer.loss = mean_of_draws\n        trainer.fit(net)",
        "def fit_any(net, loader, given=None):\n        fit(net, loader, given or mean_of_draws, None)",
    ],
)
def test_somebody_may_backpropagate_it(handed: str) -> None:
    assert_clean(_loss(handed), CODE)


def test_a_decorator_hands_it_over() -> None:
    snippet = _loss("pass").replace("def mean_of_draws", '@losses.register("many")\n    def mean_of_draws')
    assert_clean(snippet, CODE)


@pytest.mark.parametrize(
    ("handed", "name"),
    [
        ("pass", "mean_of_draws"),
        ("def main(net, x):\n        print(mean_of_draws(x, net).item())", "mean_of_draws"),
        ('NAMES = ["mean_of_draws"]', "mean_of_draws"),
        ("SETTINGS = dict(score=partial(evaluate, draws=50))", "evaluate"),
        ("def main(trainer):\n        trainer.run(after=validate_draws)", "validate_draws"),
    ],
)
def test_a_sum_that_nobody_backpropagates(handed: str, name: str) -> None:
    assert_flagged(_loss(handed, name, "  # !"), CODE)


def test_only_a_number_is_returned() -> None:
    assert_flagged(_loss("LOSSES = [mean_of_draws]", mark="  # !", returned="loss.item() / draws"), CODE)


FILES = {
    "losses.py": """
        import torch
        import torch.nn.functional as F

        def mean_of_draws(x, net, draws=20):
            net.eval()
            loss = 0.0
            for _ in range(draws):
                loss += F.mse_loss(net(x + torch.randn_like(x)), x)
            return loss / draws
    """,
    "fit.py": """
        def fit(net, loader, loss_of, optimizer):
            for x in loader:
                loss = loss_of(x, net)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
}


@pytest.mark.parametrize(
    ("handed", "flagged"),
    [("SETTINGS = dict(loss=partial(mean_of_draws, draws=50))", False), ("print('mean_of_draws')", True)],
)
def test_another_file_hands_it_over(tmp_path: Path, handed: str, flagged: bool) -> None:
    settings = f"from functools import partial\n\nfrom losses import mean_of_draws\n\n{handed}\n"
    found = lines_in_files(tmp_path, {**FILES, "settings.py": settings}, CODE)
    assert [name for name, _ in found] == ["losses.py"] * flagged


MODE = """
    def step(net, x, train):
        SET
        return F.mse_loss(net(x), x)

    def mean_of_steps(net, x, train=True):
        loss = step(net, x, train)
        for _ in range(9):
            loss += step(net, x, train)MARK
        return loss / 10
"""


@pytest.mark.parametrize(
    ("mode", "flagged"),
    [
        ("net.train() if train else net.eval()", False),
        ("x = x if train else net.eval()(x)", False),
        ("x = net.eval()(x) if train else net.eval()(-x)", True),
        ("net.eval()", True),
    ],
)
def test_one_way_of_two_evaluates(mode: str, flagged: bool) -> None:
    snippet = MODE.replace("SET", mode).replace("MARK", "  # !" if flagged else "")
    (assert_flagged if flagged else assert_clean)(snippet, CODE)

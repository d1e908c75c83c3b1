"""What a loop keeps for its next iteration, where there is only one, always or unless somebody asks for more."""

from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged

ATTACK = """
    def attack(model, x, y, steps, restarts{default}):
        worst = torch.zeros(len(y))
        delta = torch.zeros_like(x, requires_grad=True)
        for _ in range({count}):
            for _ in range(steps):
                loss = F.cross_entropy(model(x + delta), y)
                loss.backward()
                delta.data += delta.grad.sign()
                delta.grad.zero_()
            losses = F.cross_entropy(model(x + delta), y, reduction="none")
            worst = torch.max(worst, losses){mark}
        return delta
"""
TRAIN = """
    def train(model, loader, optimizer, args):
        for x, y in loader:
            delta = attack(model, x, y, 10, {given}).detach()
            optimizer.zero_grad()
            F.cross_entropy(model(x + delta), y).backward()
            optimizer.step()
"""
OPTION = """
    parser = argparse.ArgumentParser()
    parser.add_argument("--restarts", type=int, default={value})
"""
FIELD = """
    @dataclass
    class Config:
        restarts: int = {value}
"""


def attack(count: str = "restarts", default: str = "", *, mark: str = "") -> str:
    return ATTACK.format(count=count, default=default, mark=mark)


ONCE = {
    "one by default": attack(default="=1"),
    "an option that is one": attack() + TRAIN.format(given="args.restarts") + OPTION.format(value=1),
    "an option by its name": attack() + TRAIN.format(given="restarts=args.restarts") + OPTION.format(value=1),
    "a setting that is one": attack() + TRAIN.format(given="args.restarts") + FIELD.format(value=1),
    "one is written in the call": attack() + TRAIN.format(given="1"),
    "one, or the option": attack()
    + TRAIN.format(given="args.restarts")
    + TRAIN.replace("train", "validate").format(given="restarts=1")
    + OPTION.format(value=1),
    "a schedule, with an option of that name": attack() + TRAIN.format(given="plan[0]") + OPTION.format(value=1),
}
OFTEN = {
    "nobody says": attack(mark="  # !"),
    "two by default": attack(default="=2", mark="  # !"),
    "an option that is ten": attack(mark="  # !") + TRAIN.format(given="args.restarts") + OPTION.format(value=10),
    "a setting that is ten": attack(mark="  # !") + TRAIN.format(given="args.restarts") + FIELD.format(value=10),
    "ten is written in the call": attack(mark="  # !") + TRAIN.format(given="10"),
    "one call gives more": attack(mark="  # !")
    + TRAIN.format(given="args.restarts")
    + TRAIN.replace("train", "validate").format(given="restarts=10")
    + OPTION.format(value=1),
    "a schedule, and no option": attack(mark="  # !") + TRAIN.format(given="plan[0]"),
    "set to another number": attack(mark="  # !")
    + TRAIN.format(given="args.restarts")
    + OPTION.format(value=1)
    + "    args.restarts = 10\n",
    "a default that is no one, which nobody changes": attack(default="=tries", mark="  # !")
    + TRAIN.replace(", {given}", ""),
    "over what a function makes of a number": attack("rounds(restarts)", mark="  # !") + TRAIN.format(given="1"),
    "another option is one": attack(mark="  # !") + TRAIN.format(given="args.tries") + OPTION.format(value=1),
}


@pytest.mark.parametrize("name", ONCE)
def test_once_unless_somebody_asks_for_more(name: str) -> None:
    assert_clean(ONCE[name], "GG105")
    marked = ONCE[name].replace("worst = torch.max(worst, losses)", "worst = torch.max(worst, losses)  # !")
    assert_flagged(marked, "GG105", Confidence.LOW)


@pytest.mark.parametrize("name", OFTEN)
def test_more_than_once(name: str) -> None:
    assert_flagged(OFTEN[name], "GG105")


SCORES = """
    def test(net, loader):
        net.eval()
        for x in loader:
            score = torch.zeros(10)
            for i in {loop}:
                score += net(x[i]){mark}
            print(score.argmax())
"""


@pytest.mark.parametrize("loop", ["range(1)", "tqdm(range(1))", "[first]", "range(0)"])
def test_once_as_written(loop: str) -> None:
    assert_clean(SCORES.format(loop=loop, mark=""), "GG103", Confidence.LOW)


@pytest.mark.parametrize("loop", ["range(2)", "range(n)", "[first, second]", "range(1, n)", "range(0, len(x), 1)"])
def test_not_once_as_written(loop: str) -> None:
    assert_flagged(SCORES.format(loop=loop, mark="  # !"), "GG103")


EPOCHS = """
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    history, total = [], 0.0
    for epoch in range({count}):
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss  # !
        print(total)
"""


@pytest.mark.parametrize("count", ["args.epochs", "1"])
def test_one_epoch_has_many_batches(count: str) -> None:
    assert_flagged(EPOCHS.format(count=count), "GG103")


def test_the_number_of_epochs_is_one_for_a_first_try_only() -> None:
    each = EPOCHS.replace("            total += loss  # !\n", "").replace("print(total)", "history.append(loss)  # !")
    assert_flagged(each.format(count="args.epochs"), "GG104")

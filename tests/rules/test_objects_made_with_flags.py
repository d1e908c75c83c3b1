"""An object's flag that its constructor keeps decides which of two values a method takes: a meter that synchronizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG107"

METER = """
    import torch
    import torch.distributed as dist

    def gathered(tensor):
        rows = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, tensor.contiguous())
        return sum(rows)

    class Meter:
        def __init__(self, whole=True, kind="sum"):
            self.whole = whole
            self.kind = kind
            self.sum = 0
            self.count = 0

        def _synchronized(self, value):
            return CHOSEN

        def add(self, value):
            self.sum += self._synchronized(value)

        def update(self, value, n=1):
            self.count += n
            self.add(value * n)
"""

TRAINING = """
    def train(net, loader, optimizer, config, given=None):
        meter = MADE
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            meter.update(loss, len(x))FLAG
        return meter.sum / meter.count
"""

OF_A_FLAG = ("gathered(value) if self.whole else value", "value if not self.whole else gathered(value)")
OF_A_WORD = ("value.detach() if self.kind == 'sum' else value", "value if self.kind != 'sum' else value.item()")
EITHER = (*OF_A_FLAG, *OF_A_WORD)


def _program(chosen: str, made: str, flag: str = "") -> str:
    return (METER + TRAINING).replace("CHOSEN", chosen).replace("MADE", made).replace("FLAG", flag)


@pytest.mark.parametrize("chosen", EITHER)
@pytest.mark.parametrize("made", ["Meter()", "Meter(True)", "Meter(whole=True, kind='sum')"])
def test_a_way_that_is_settled_where_the_object_is_made(chosen: str, made: str) -> None:
    assert_clean(_program(chosen, made), CODE)


@pytest.mark.parametrize("chosen", EITHER)
@pytest.mark.parametrize(
    "made",
    ["Meter(False, 'mean')", "Meter(config.whole, config.kind)", "Meter(**config)", "given or Meter()", "given",
     "Meter() if config else Meter(False, 'mean')", "Meter(); meter.whole = config.whole; meter.kind = config.kind"],
)  # fmt: skip
def test_a_way_that_is_not(chosen: str, made: str) -> None:
    if made in ("given or Meter()", "given"):
        made += "; assert isinstance(meter, Meter)"
    assert_flagged(_program(chosen, made, "  # !"), CODE)


@pytest.mark.parametrize("chosen", OF_A_FLAG)
def test_a_flag_that_is_bound_again(chosen: str) -> None:
    again = "def reset(self, whole):\n            self.whole = whole\n\n        def update("
    assert_flagged(_program(chosen, "Meter()", "  # !").replace("def update(", again), CODE)


@pytest.mark.parametrize(("made", "leaks"), [("Meter()", False), ("Meter(whole=False)", True)])
def test_an_attribute_in_another_file(tmp_path: Path, made: str, leaks: bool) -> None:
    files = {
        "meters.py": METER.replace("CHOSEN", OF_A_FLAG[0]),
        "train.py": f"""
            import torch.nn.functional as F
            from meters import Meter

            class Trainer:
                def __init__(self, net, optimizer):
                    self.net, self.optimizer = net, optimizer
                    self.meter = {made}

                def train(self, loader):
                    for x, y in loader:
                        self.step(x, y)

                def step(self, x, y):
                    self.optimizer.zero_grad()
                    loss = F.mse_loss(self.net(x), y)
                    loss.backward()
                    self.optimizer.step()
                    self.meter.update(loss, len(x))
        """,
    }
    assert bool(lines_in_files(tmp_path, files)) == leaks

"""A module that has nothing to train records no graph of data: filters, tables and grids that are plain tensors."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG301"

PROGRAM = """
    import numpy as np
    import math

    TABLE = np.ones((8, 8))

    class Transform(nn.Module):
        def __init__(self, size, kind, weight=None, block=8):
            super().__init__()
            self.device = "cuda"
            MADE

        def table_of(self, table):
            return torch.from_numpy(table / 100).view(1, -1).float().to(self.device)

        def layer_of(self, size):
            return nn.Linear(size, size)

        def by_name(self, kind):
            if kind == "table":
                return torch.ones(3)
            return build(kind)

        def set_quality(self, quality):
            self.quality = quality
            self.factor = (5000 / quality).view(-1, 1).type(torch.FloatTensor)
            self.factor = self.factor.to(self.device)

        def forward(self, x):
            if self.device and x.shape[0] > 1:
                x = x.to(self.device)
            return USED

    class Trainer:
        def __init__(self, loader):
            self.transform = OBJECT
            self.loader = loader

        def validate(self):
            self.transform.eval()
            total = 0
            for x in self.loader:
                total += RUN(x).abs().sum().item()FLAG
            return total
"""


def _program(
    made: str, used: str, held: str = "Transform(8, 'plain')", run: str = "self.transform", flag: str = ""
) -> str:
    return (
        PROGRAM.replace("MADE", made).replace("USED", used).replace("OBJECT", held).replace("RUN", run)
        .replace("FLAG", flag)
    )  # fmt: skip


BARE = {
    "self.table = self.table_of(TABLE)": "x * self.table",
    "self.table = torch.cat([self.table_of(TABLE), self.table_of(TABLE).repeat(2, 1)], 0)": "x * self.table",
    "self.grid = (np.pi * torch.arange(size).float() / 2 / size).view(1, -1)": "torch.cos(self.grid * x)",
    "self.factors = 2 * torch.cat([1 / np.sqrt(size) * torch.ones(1), torch.ones(block)]).view(-1)": "x * self.factors",
    "self.scale = math.pi": "x * self.scale",
    "self.kind = kind": "x * 2 if self.kind else x",
    "self.size = size": "x.view(-1, self.size * 2)",
    "self.quality = size": "x / (200 - 2 * self.quality)",
    "self.given = size": "x.to(self.given.device) * (50 if not self.given else 3)",
}

LEARNING = {
    "self.table = self.layer_of(size)": "self.table(x)",
    "self.table = self.by_name(kind)": "self.table(x)",
    "self.table = build(kind).to(self.device)": "self.table(x)",
    "self.net = kind": "self.net(x)",
    "self.net = size": "run(self.net, x)",
    "self.net = kind or nn.Linear(size, size)": "self.net(x)",
    "self.layers = [nn.Linear(size, size)] * 3": "self.layers[0](x)",
    "self.layers = kind + [nn.Linear(size, size)]": "self.layers[0](x)",
    "self.scale = 2 * nn.Parameter(torch.ones(size))": "x * self.scale",
    "self.weight = weight": "F.linear(x, self.weight)",
    "self.weight = size.t()": "F.linear(x, self.weight)",
}


@pytest.mark.parametrize("made", BARE)
@pytest.mark.parametrize(
    ("held", "run"),
    [
        ("Transform(8, 'plain')", "self.transform"),
        ("Transform(8, 'plain').to('cuda')", "self.transform"),
        ("{'in': Transform(8, 'plain').to('cuda'), 'out': Transform(8, 'plain')}", "self.transform['in']"),
    ],
)
def test_what_has_nothing_to_train(made: str, held: str, run: str) -> None:
    assert_clean(_program(made, BARE[made], held, run), CODE)


@pytest.mark.parametrize("made", LEARNING)
def test_what_may_have_something_to_train(made: str) -> None:
    assert_flagged(_program(made, LEARNING[made], flag="  # !"), CODE)

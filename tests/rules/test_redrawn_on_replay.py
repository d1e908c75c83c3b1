from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG245"

STACK = """
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential
    import torch.utils.checkpoint as cp

    class Block(nn.Module):
        def __init__(self, dim, p={default}):
            super().__init__()
            self.up, self.down = nn.Linear(dim, dim), nn.Linear(dim, dim)
            self.norm = nn.BatchNorm1d(dim)
            {layer}

        def forward(self, x):
            {run}

    class Stack(nn.Module):
        def __init__(self, dim, depth):
            super().__init__()
            self.first = Block(dim)
            self.blocks = nn.ModuleList([Block(dim) for _ in range(depth)])

        def feed(self, x):
            return self.first(x)

        def forward(self, x):
            {call}
            return x
"""
LAYER = "self.drop = nn.Dropout(0.1)"
RUN = "return x + self.drop(self.down(self.up(x).relu()))"
PLAIN = "return x + self.down(self.up(x).relu())"
ONE = ("x = checkpoint(self.first, x, use_reentrant=False, preserve_rng_state=False){mark}",)


def stack(*call: str, layer: str = LAYER, run: str = RUN, mark: str = "  # !", default: str = "0.3") -> str:
    lines = "\n            ".join(call or ONE).format(mark=mark)
    return STACK.format(call=lines, layer=layer, run=run, default=default)


def looped(over: str, run: str) -> tuple[str, ...]:
    return (f"for {over}:", f"    x = {run}{{mark}}")


@pytest.mark.parametrize(
    "snippet",
    [
        stack(),
        stack(layer="self.drop = nn.Dropout()"),
        stack(layer="self.drop = nn.Dropout2d(p=0.2)"),
        stack(layer="self.drop = nn.Sequential(nn.ReLU(), nn.AlphaDropout(0.1))"),
        stack(layer="self.inner = nn.TransformerEncoderLayer(8, 2)", run="return self.inner(x)"),
        stack(layer="self.attn = nn.MultiheadAttention(8, 2, dropout=0.1)", run="return self.attn(x, x, x)[0]"),
        stack(layer="pass", run="return F.dropout(self.up(x), 0.2, self.training)"),
        stack(layer="pass", run="return F.dropout(self.up(x), training=self.training)"),
        stack(layer="pass", run="return self.up(x) + 0.01 * torch.randn_like(x)"),
        stack(layer="pass", run="x = x * torch.bernoulli(torch.full_like(x, 0.9))\n            return self.up(x)"),
        stack(*looped("block in self.blocks", "checkpoint(block, x, preserve_rng_state=False)")),
        stack(*looped("i, block in enumerate(self.blocks)", "cp.checkpoint(block, x, preserve_rng_state=False)")),
        stack(*looped("i in range(3)", "checkpoint(self.blocks[i], x, preserve_rng_state=False)")),
        stack(*looped("b in self.blocks", "checkpoint(lambda y: b(y), x, preserve_rng_state=False)")),
        stack(*looped("b in self.blocks", "checkpoint(b.forward, x, preserve_rng_state=False)")),
        stack("x = checkpoint_sequential(self.blocks, 2, x, preserve_rng_state=False){mark}"),
        stack("x = torch.utils.checkpoint.checkpoint(self.feed, x, preserve_rng_state=False){mark}"),
        stack("def run(y):", "    return self.first(y)", "x = checkpoint(run, x, preserve_rng_state=False){mark}"),
    ],
)
def test_what_draws_again(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        stack("x = checkpoint(self.first, x, use_reentrant=False)"),
        stack("x = checkpoint(self.first, x, preserve_rng_state=True)"),
        stack("x = checkpoint(self.first, x, preserve_rng_state=self.keeps)"),
        stack("x = checkpoint(self.first, x, preserve_rng_state=False, context_fn=contexts)"),
        stack("x = replay(self.first, x, preserve_rng_state=False)"),
        stack("x = checkpoint(self.other, x, preserve_rng_state=False)"),
        stack(layer="self.drop = nn.Dropout(0.0)", mark=""),
        stack(layer="self.drop = nn.Dropout(p=0)", mark=""),
        stack(layer="self.drop = nn.Identity()", mark=""),
        stack(layer="self.drop = nn.Dropout(0.1) if p else nn.Identity()", mark=""),
        stack(layer="self.drop = nn.Dropout(p)", mark="", default="0.0"),
        stack(layer="self.drop = nn.Dropout(settings.dropout)", mark=""),
        stack(layer="pass", run=PLAIN, mark=""),
        stack(layer="self.scale = nn.Parameter(torch.randn(8))", run=PLAIN, mark=""),
        stack(layer="nn.init.normal_(self.up.weight)", run=PLAIN, mark=""),
        stack(layer="self.inner = nn.TransformerEncoderLayer(8, 2, dropout=0.0)", run="return self.inner(x)", mark=""),
        stack(layer="self.attn = nn.MultiheadAttention(8, 2)", run="return self.attn(x, x, x)[0]", mark=""),
        stack(layer="pass", run="return F.dropout(self.up(x), 0.0, self.training)", mark=""),
        stack(layer="pass", run="return F.dropout(self.up(x), 0.5, False)", mark=""),
        stack(
            layer="pass", run="if not self.noisy:\n                return x\n            return torch.rand_like(x)",
            mark="",
        ),
        stack(layer="pass", run="return x + torch.randn(8, generator=self.rng)", mark=""),
        stack("torch.random.fork_rng()", *ONE, mark=""),
    ],
)  # fmt: skip
def test_look_alikes(snippet: str) -> None:
    assert_clean(snippet, CODE)


BLOCK = """
    import torch.nn as nn

    class Layer(nn.Module):
        def __init__(self, dim, dropout):
            super().__init__()
            self.ff = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(dropout))

        def forward(self, x):
            return x + self.ff(x)
"""
MODEL = """
    import torch.nn as nn
    from torch.utils.checkpoint import checkpoint
    from block import Layer

    class Model(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.layers = nn.ModuleList(Layer(config["dim"], config["dropout"]) for _ in range(4))

        def through(self, layer, x):
            return checkpoint(layer, x, preserve_rng_state=False)

        def forward(self, x):
            for layer in self.layers:
                x = self.through(layer, x)
            return x
"""


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ('CONFIG = {"dim": 8, "dropout": 0.1}', True),
        ("CONFIG = dict(dim=8, dropout=.25)", True),
        ('parser.add_argument("--dropout", type=float, default=0.1)', True),
        ('CONFIG = {"dim": 8, "dropout": 0.0}', False),
        ("CONFIG = dict(dim=8, dropout=0)", False),
        ('CONFIG = {"dim": 8, "dropout": 0.1}\nSMALL = {"dim": 4, "dropout": 0.0}', False),
        ("CONFIG = load()", False),
    ],
)
def test_a_share_that_is_a_setting(setting: str, found: bool, tmp_path: Path) -> None:
    main = f"import torch\nfrom model import Model\n{setting}\nmodel = Model(CONFIG)\n"
    files = {"block.py": BLOCK, "model.py": MODEL, "main.py": main}
    assert lines_in_files(tmp_path, files, CODE) == ([("model.py", 12)] if found else [])

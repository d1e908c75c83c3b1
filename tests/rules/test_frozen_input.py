from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG260"

VIT = """
    from torch.utils.checkpoint import checkpoint

    class ViT(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.patch_embed = nn.Linear(16, dim)
            self.pos = nn.Parameter(torch.zeros(1, 1, dim))
            self.norm_pre = nn.LayerNorm(dim)
            self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4) for _ in range(3))
            self.head = nn.Linear(dim, 4)

        def forward(self, x):
            x = self.patch_embed(x)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=True)  # !
            return self.head(x.mean(1))

    def main(args, loader):
        model = ViT(32).to(args.device)
        model.patch_embed.requires_grad_(False)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
"""
FREEZES = "model.patch_embed.requires_grad_(False)"

IN_CLASS = """
    import torch.utils.checkpoint as cp

    class Encoder(nn.Module):
        def __init__(self, vocab, dim):
            super().__init__()
            self.embed = nn.Embedding(vocab, dim)
            self.drop = nn.Dropout(0.1)
            for p in self.embed.parameters():
                p.requires_grad = False
            self.first, self.second = nn.Linear(dim, dim), nn.Linear(dim, dim)

        def forward(self, ids, mask=None):
            h = self.embed(ids)
            h = cp.checkpoint(self.first, h)  # !
            return self.second(h)
"""


@pytest.mark.parametrize(
    "snippet",
    [
        VIT,
        VIT.replace(", use_reentrant=True", ""),
        VIT.replace("self.patch_embed(x)", "self.patch_embed(x).flatten(1, 2)"),
        VIT.replace("self.patch_embed(x)", "F.relu(self.patch_embed(x))"),
        VIT.replace(FREEZES, "for p in model.patch_embed.parameters():\n            p.requires_grad = False"),
        VIT.replace(FREEZES, "for p in model.patch_embed.parameters():\n            p.requires_grad_(False)"),
        IN_CLASS,
    ],
)
def test_a_checkpoint_behind_frozen_layers_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(VIT, ("use_reentrant=True", "use_reentrant=False")),
        twin(VIT, ("use_reentrant=True", "use_reentrant=self.reentrant")),
        twin(VIT, (FREEZES, "pass")),
        twin(VIT, (FREEZES, "model.head.requires_grad_(False)")),
        twin(VIT, (FREEZES, "model.patch_embed.requires_grad_(True)")),
        twin(VIT, (FREEZES, FREEZES + "; model.patch_embed.requires_grad_()")),
        twin(VIT, (FREEZES, FREEZES + "; model.enable_input_require_grads()")),
        twin(VIT, (FREEZES, FREEZES + "; model.blocks.requires_grad_(False)")),
        twin(VIT, (FREEZES, "other.patch_embed.requires_grad_(False)")),
        twin(VIT, ("self.patch_embed(x)", "self.patch_embed(x) + self.pos")),
        twin(VIT, ("x = self.patch_embed(x)\n", "x = self.patch_embed(x)\n            x = x + self.pos\n")),
        twin(VIT, ("x = self.patch_embed(x)\n", "x = self.patch_embed(x)\n            x += self.pos\n")),
        twin(VIT, ("x = self.patch_embed(x)\n", "x = self.norm_pre(self.patch_embed(x))\n")),
        twin(VIT, ("x = self.patch_embed(x)\n", "x = self.patch_embed(x)\n            x.requires_grad_()\n")),
        twin(VIT, ("checkpoint(block, x, use", "checkpoint(block, x, self.pos, use")),
        twin(VIT, ("x = self.patch_embed(x)\n", "y = self.patch_embed(x)\n")),
        twin(VIT, ("x = self.patch_embed(x)\n", "x = self.patch_embed(x) + bias(x)\n            x = shift(x, pos)\n")),
        twin(VIT, ("torch.utils.checkpoint", "tools.saving")),
        twin(IN_CLASS, ("p.requires_grad = False", "p.data.normal_()")),
        twin(IN_CLASS, ("cp.checkpoint(self.first, h)", "self.first(h)")),
        twin(IN_CLASS, ("h = self.embed(ids)", "h = self.second(self.embed(ids))")),
        twin(IN_CLASS, ("cp.checkpoint(self.first, h)", "cp.checkpoint(self.first, ids)")),
        twin(IN_CLASS, ("nn.Module", "object")),
    ],
)
def test_a_checkpoint_that_gradients_come_through_is_not(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_another_file_freezes(tmp_path: Path) -> None:
    text = "\n".join(line[4:] for line in VIT.replace("  # !", "").splitlines())
    head, main = text.split("def main", 1)
    files = {
        "nets.py": "import torch\nimport torch.nn as nn\n" + head,
        "main.py": "import torch\nimport torch.nn.functional as F\nfrom nets import ViT\n\ndef main" + main,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("nets.py", 18)]
    files["main.py"] = files["main.py"].replace(FREEZES, "pass")
    assert lines_in_files(tmp_path, files, CODE) == []


SEGMENTER = """
    import functools
    from functools import partial
    from torch.utils.checkpoint import checkpoint

    run_segment = partial(checkpoint, use_reentrant=True)

    def run_block(block, *inputs):
        return checkpoint(block, *inputs, use_reentrant=True)

    class PatchEmbed(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.proj = nn.Conv2d(3, width, 4, stride=4)
            for p in self.parameters():
                p.requires_grad_(False)

        def forward(self, x):
            return self.proj(x)

    class Segmenter(nn.Module):
        def __init__(self, width=24):
            super().__init__()
            self.embed = PatchEmbed(width)
            self.pos = nn.Parameter(torch.zeros(1, width, 1, 1))
            self.low = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(2))
            self.head = nn.Conv2d(width, 3, 1)
            self.saving = functools.partial(checkpoint, use_reentrant=True)

        def around(self, function, value):
            if self.training:
                return checkpoint(function, value, use_reentrant=True)
            return function(value)

        def forward(self, images):
            h = self.embed(images)
            for stage in self.low:
                h = run_segment(stage, h)  # !
            return self.head(h)
"""
CALL = "run_segment(stage, h)"
CUT = ("            for p in self.parameters():\n                p.requires_grad_(False)\n", "")


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(CALL, CALL + " if self.training else stage(h)")],
        [(CALL, "run_block(stage, h)")],
        [(CALL, "self.saving(stage, h)")],
        [(CALL, "self.around(stage, h)")],
        [("            h = self.embed", "            run_segment = partial(checkpoint)\n            h = self.embed")],
        [("for p in self.parameters():\n                p.requires_grad_(False)", "self.requires_grad_(False)")],
        # cut off, whatever wants a gradient in it
        [CUT, ("h = self.embed(images)", "with torch.no_grad():\n                h = self.embed(images)")],
        [CUT, ("h = self.embed(images)", "h = self.embed(images).detach()")],
        [CUT, ("h = self.embed(images)", "e = self.embed(images).detach()\n            h = e.flatten(1)")],
    ],
)
def test_a_checkpoint_by_another_name(edits: list[tuple[str, str]]) -> None:
    snippet = SEGMENTER
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("partial(checkpoint, use_reentrant=True)", "partial(checkpoint, use_reentrant=False)")],
        [("partial(checkpoint, use_reentrant=True)", "partial(checkpoint, use_reentrant=REENTRANT)")],
        [("partial(checkpoint, use_reentrant=True)", "partial(checkpoint, **OPTIONS)")],
        [(CALL, "run_segment(stage, h, use_reentrant=False)")],
        [(CALL, "run_segment(stage, h, **self.options)")],
        [(CALL, "run_block(stage, h)"), ("*inputs, use_reentrant=True", "*inputs, use_reentrant=False")],
        [(CALL, "run_block(stage, h)"), ("checkpoint(block, *inputs", "checkpoint(block, inputs")],
        [(CALL, "run_block(stage, h)"), ("checkpoint(block, *inputs, use_reentrant=True)", "block(*inputs)")],
        [(CALL, "self.around(stage, h)"), ("function, value, use_reentrant=True", "function, value.requires_grad_()")],
        [(CALL, "self.saving(stage, h)"), ("functools.partial(checkpoint", "functools.partial(save")],
        [("run_segment = partial", "run_segment = save\nrun_segment = partial".replace("\n", "; "))],
        # the embedder learns, or something else does
        [CUT],
        [("p.requires_grad_(False)", "p.requires_grad_(train)")],
        [("return self.proj(x)", "return self.proj(x)\n\n        def thaw(self): self.proj.requires_grad_(True)")],
        [("self.embed = PatchEmbed(width)", "self.embed = PatchEmbed(width); self.embed.requires_grad_(True)")],
        [("self.embed = PatchEmbed(width)", "self.embed = PatchEmbed(width) if width else nn.Conv2d(3, 8, 1)")],
        [("self.embed = PatchEmbed(width)", "self.embed = nn.Conv2d(3, width, 4, stride=4)")],
        [("self.embed(images)", "self.embed(images) + self.pos")],
        [("self.embed(images)", "self.embed(images.requires_grad_())")],
        [CUT, ("h = self", "with torch.no_grad(): h = self"), ("    for s", "    h += self.pos\n            for s")],
        [CUT, ("h = self.embed(images)", "with torch.enable_grad():\n                h = self.embed(images)")],
        [CUT, ("h = self.embed(images)", "h = self.embed(images.detach())")],
        [CUT, ("h = self.embed(images)", "h = self.embed(images) + self.embed(images).detach()")],
    ],
)  # fmt: skip
def test_look_alikes_by_another_name(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(SEGMENTER, *edits), CODE)


@pytest.mark.parametrize(
    "more",
    [
        "model.requires_grad_(True)",
        "for p in model.parameters():\n            p.requires_grad = True",
        "unfreeze(model)",
    ],
)
def test_all_of_the_model_is_made_trainable(more: str) -> None:
    assert_clean(twin(SEGMENTER) + f"\n    def main(model):\n        {more}\n", CODE)


UNET = """
    from torch.utils.checkpoint import checkpoint

    def double(cin, cout):
        return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.ReLU(), nn.Conv2d(cout, cout, 3, padding=1))

    class UNet(nn.Module):
        def __init__(self, width=8):
            super().__init__()
            self.stem = double(3, width)
            self.down = nn.ModuleList(double(width, width) for _ in range(2))
            self.head = nn.Conv2d(width, 1, 1)
            self.pos = nn.Parameter(torch.zeros(1))
            self.scale = nn.AvgPool2d(2)

        def run(self, module, x):
            if self.training:
                return checkpoint(module, x, use_reentrant=True)
            return module(x)

        def forward(self, x):
            s0 = self.run(self.stem, x)  # !
            return self.head(F.max_pool2d(s0, 2))

    def train(net, loader, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(net(x.cuda()), y).backward()
            optimizer.step()

    def main(loader):
        net = UNet().cuda()
        optimizer = torch.optim.RAdam(net.parameters(), lr=2e-3)
        train(net, loader, optimizer)
"""
IN_TRAINER = """
    class Trainer:
        def __init__(self, lr):
            self.net = UNet(16).to("cuda")
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr)

        def fit(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                loss = F.mse_loss(self.net(x), y)
                loss.backward()
                self.optimizer.step()
"""
RUNS = "self.run(self.stem, x)"
FIRST = "s0 = self.run(self.stem, x)"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(RUNS, "checkpoint(self.stem, x, use_reentrant=True)")],
        [(FIRST + "  # !", "s0 = x * 2 - 1\n            for block in self.down:\n"
          "                s0 = checkpoint(block, s0)  # !")],
        [("        for x, y in loader:", "        for _ in range(100):\n            x, y = torch.rand(4, 3, 8, 8), 0")],
        [("net(x.cuda())", "net(F.interpolate(x, scale_factor=2.0))")],
    ],
)  # fmt: skip
def test_the_first_layers_are_given_the_batch(edits: list[tuple[str, str]]) -> None:
    snippet = UNET
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("use_reentrant=True", "use_reentrant=False")],
        [(FIRST, "s0 = self.run(self.stem, x.requires_grad_())")],
        [("net(x.cuda())", "net(x.cuda().requires_grad_())")],
        [("for x, y in loader:", "for x, y in loader:\n            x.requires_grad = True")],
        [(FIRST, "s0 = self.run(self.stem, x + self.pos)")],
        [(FIRST, "s0 = self.run(self.stem, self.head(x))")],
        [(FIRST, "s0 = self.run(self.scale, x)")],  # nothing to be trained
        [("net(x.cuda())", "net(embed(x))")],
        [("def train(net, loader, optimizer)", "def train(net, loader, optimizer, embed: nn.Module)"),
         ("net(x.cuda())", "net(embed(x))")],
        [("net = UNet().cuda()", "net = nn.Sequential(nn.Conv2d(3, 3, 1), UNet())")],
        [("    def train", "    class Two(nn.Module):\n        def __init__(self):\n            super().__init__()\n"
          "            self.a, self.b = nn.Conv2d(3, 3, 1), UNet()\n\n    def train")],
        [("    def train", "    class Two(nn.Module):\n        def __init__(self):\n            super().__init__()\n"
          "            self.net = UNet()\n\n    def train")],
        [("    def train", "    class Wide(UNet):\n        pass\n\n    def train")],
        [("train(net, loader, optimizer)\n", "evaluate(net, loader)\n")],
        [("        train(net, loader, optimizer)\n", "        train(net, loader, optimizer)\n"
          "        codes = nn.Linear(3, 3)(torch.rand(4, 3))\n        net(codes).sum().backward()\n")],
        [("    def train", "    def attack(net, x):\n        for layer in net.down: layer.requires_grad_(False)\n\n"
          "    def train")],
    ],
)  # fmt: skip
def test_the_first_layers_are_given_something_else(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(UNET, *edits), CODE)


def test_an_object_trains_it() -> None:
    model = UNET.partition("    def train")[0]
    assert_flagged(model + IN_TRAINER, CODE)
    assert_clean(twin(model + IN_TRAINER, ("self.net(x)", "self.net(self.embed(x))")), CODE)
    unknown = (("fit(self, loader)", "fit(self, x, y)"), ("for x, y in loader", "for _ in range(9)"))
    assert_clean(twin(model + IN_TRAINER, *unknown), CODE)


ADAPTED = """
    from torch.utils.checkpoint import checkpoint

    class LowRank(nn.Module):
        def __init__(self, base, rank):
            super().__init__()
            self.base = base
            self.down = nn.Parameter(torch.randn(rank, base.in_features))
            self.up = nn.Parameter(torch.zeros(base.out_features, rank))

        def forward(self, x):
            return self.base(x) + x @ self.down.t() @ self.up.t()

    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim)

        def forward(self, x):
            return x + self.q(x) * self.k(x)

    class Encoder(nn.Module):
        def __init__(self, vocab, dim):
            super().__init__()
            self.tok = nn.Embedding(vocab, dim)
            self.pos = nn.Embedding(64, dim)
            self.blocks = nn.ModuleList(Block(dim) for _ in range(4))
            self.score = nn.Linear(dim, 3)

        def forward(self, ids):
            x = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=True)  # !
            return self.score(x.mean(1))

    def adapt(model, rank):
        model.requires_grad_(False)
        for block in model.blocks:
            for name in ("q", "k"):
                setattr(block, name, LowRank(getattr(block, name), rank))
        model.score.requires_grad_(True)
        return [p for p in model.parameters() if p.requires_grad]

    def main(loader):
        model = Encoder(100, 32)
        optimizer = torch.optim.AdamW(adapt(model, 4))
        for ids, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(ids), y).backward()
            optimizer.step()
"""
ALL_OFF = "model.requires_grad_(False)"
PUTS = "setattr(block, name, LowRank(getattr(block, name), rank))"
HEAD_ON = "model.score.requires_grad_(True)"
INJECTS = f"""for block in model.blocks:
            for name in ("q", "k"):
                {PUTS}"""


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(", use_reentrant=True", "")],
        [(ALL_OFF, "for p in model.parameters():\n            p.requires_grad = False")],
        [(ALL_OFF, "for p in model.parameters():\n            p.requires_grad_(False)")],
        [(PUTS, "block.q = LowRank(block.q, rank)")],
        [(HEAD_ON, "for p in model.score.parameters():\n            p.requires_grad = True")],
        [(HEAD_ON, "pass")],
        [
            ("nn.Embedding(64, dim)", "nn.Parameter(torch.zeros(64, dim))"),
            ("self.pos(torch.arange(ids.size(1)))", "self.pos[:ids.size(1)]"),
        ],
        [(INJECTS, "model.blocks[-1].requires_grad_(True)")],
        [(INJECTS, "for block in model.blocks[-2:]:\n            block.requires_grad_(True)")],
        [(INJECTS, "for p in model.blocks[-1].parameters():\n            p.requires_grad = True")],
        [
            ("adapt(model, 4)", "params"),
            ("model = Encoder(100, 32)", "model = Encoder(100, 32)\n        params = adapt(model, 4)"),
        ],
    ],
)
def test_a_model_that_is_frozen_as_a_whole(edits: list[tuple[str, str]]) -> None:
    snippet = ADAPTED
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("use_reentrant=True", "use_reentrant=False")],
        [(ALL_OFF, "pass")],
        [(ALL_OFF, "model.score.requires_grad_(False)")],
        [(INJECTS, "pass")],
        [(INJECTS, "for block in model.blocks: block.eval()")],
        [(HEAD_ON, "model.tok.requires_grad_(True)")],
        [(HEAD_ON, "model.requires_grad_(True)")],
        [(HEAD_ON, "for p in model.parameters():\n            p.requires_grad = p.ndim == 1")],
        [(HEAD_ON, "for n, p in model.named_parameters():\n            p.requires_grad = 'down' in n")],
        [(HEAD_ON, "unfreeze(model)")],
        [(HEAD_ON, "model.tok = LowRank(model.tok, rank)")],
        [(HEAD_ON, "setattr(model, 'tok', LowRank(model.tok, rank))")],
        [(HEAD_ON, "model.enable_input_require_grads()")],
        [
            ("x = self.tok(ids) +", "x = self.norm(self.tok(ids)) +"),
            ("self.score = nn", "self.norm = Block(dim)\n            self.score = nn"),
        ],
        [
            (
                "self.pos(torch.arange(ids.size(1)))",
                "self.pos(torch.arange(ids.size(1)))\n            x.requires_grad_()",
            )
        ],
        [("self.tok = nn.Embedding(vocab, dim)", "self.tok = Block(vocab)")],
        [("checkpoint(block, x, use_reentrant=True)", "block(x)")],
        [
            ("model = Encoder(100, 32)", "model, other = Encoder(100, 32), Encoder(100, 32)"),
            ("adapt(model, 4)", "model.parameters()"),
        ],
    ],
)
def test_a_model_of_which_more_is_trained(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(ADAPTED, *edits), CODE)

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

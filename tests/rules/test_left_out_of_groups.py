from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG246"

NET = """
    class Layer(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.norm = nn.LayerNorm(dim)
            self.up, self.down = nn.Linear(dim, dim), nn.Linear(dim, dim)

        def forward(self, x):
            return x + self.down(self.up(self.norm(x)).relu())

    class Net(nn.Module):
        def __init__(self, dim):
            super().__init__()
            {more}
            self.layers = nn.ModuleList(Layer(dim) for _ in range(4))
            self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 2))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    def build(dim, rate, decay):
        model = Net(dim)
        kept, plain = [], []
        for name, p in model.named_parameters():
            {sort}
        {after}
        return model, torch.optim.AdamW({groups}, lr=rate)
"""
GROUPS = """[{"params": kept, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]"""
TOKEN = "self.token = nn.Parameter(torch.zeros(1, 1, dim))"


def net(*sort: str, more: str = "pass", groups: str = GROUPS, after: str = "pass") -> str:
    return NET.format(sort="\n            ".join(sort), more=more, groups=groups, after=after)


def two(first: str, second: str, mark: str = "") -> tuple[str, ...]:
    return (f"if {first}:", "    kept.append(p)", f"elif {second}:{mark}", "    plain.append(p)")


MARK = "  # !"
BY_NAME = ('name.endswith(".weight") and "norm" not in name', 'name.endswith(".bias")')
LEFT = two(*BY_NAME, mark=MARK)


@pytest.mark.parametrize(
    "snippet",
    [
        net(*LEFT),
        net("if not p.requires_grad:", "    continue", *LEFT),
        net("if p.requires_grad:", *(f"    {line}" for line in LEFT)),
        net(*two('name.endswith("weight")', 'name.endswith("bias")', mark=MARK), more=TOKEN),
        net(*two("p.ndim >= 2", 'name.endswith(".bias")', mark=MARK)),
        net(*two("len(p.shape) > 1", '"bias" in name', mark=MARK)),
        net(*two('not any(w in name for w in ("bias", "norm"))', '"bias" in name', mark=MARK)),
        net(
            'if "norm" in name:', "    plain.append(p)", 'elif name.startswith("layers") and "weight" in name:',
            "    kept.append(p)", 'elif name.endswith(("up.bias", "down.bias")):  # !', "    plain.append(p)",
        ),
        net(*LEFT, after="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
    ],
)  # fmt: skip
def test_what_is_in_no_group(snippet: str) -> None:
    assert_flagged(snippet, CODE)


ALL = two('name.endswith(".weight") and "norm" not in name', 'name.endswith(".bias") or "norm" in name')


@pytest.mark.parametrize(
    "snippet",
    [
        net(*ALL),
        net(*two('"bias" in name', '"bias" not in name'), more=TOKEN),
        net(*two("p.ndim >= 2", "p.ndim < 2"), more=TOKEN),
        net(*two("p.dim() > 1", "p.dim() <= 1")),
        net("if p.ndim > 1:", "    kept.append(p)", "else:", "    plain.append(p)", more=TOKEN),
        net(
            'if name.endswith(".weight") and "norm" not in name:', "    kept.append(p)", "else:", "    plain.append(p)"
        ),
        net(*two(*BY_NAME), "else:", "    raise ValueError(name)"),
        net(*two(*BY_NAME), "else:", "    p.requires_grad = False"),
        net(*two(*BY_NAME), "seen.append(name)"),
        net(*two(*BY_NAME), after="assert len(kept) + len(plain) == len(list(model.parameters()))"),
        net(*two(*BY_NAME), after="rest = [p for n, p in model.named_parameters() if n not in seen]"),
        net(*two(*BY_NAME), after="model.layers.requires_grad_(False)"),
        net(*two("is_weight(name)", 'name.endswith(".bias")')),
        net(*two('re.search("weight", name)', '"bias" in name'), more=TOKEN),
        net(*two('name.endswith("weight")', 'name.endswith("bias")')),  # of this network that is all
        net(*two('name.endswith("weight")', 'name.endswith("bias")'), more=f"if dim > 8: {TOKEN}"),
        net(
            *two('name.endswith("weight")', 'name.endswith("bias")'),
            more="self.scale = nn.Parameter(torch.ones(dim), requires_grad=False)",
        ),
        net(*two(*BY_NAME), groups='[{"params": kept, "lr": rate}, {"params": plain, "lr": 10 * rate}]'),
        net(*two('"head" in name', '"layers" in name'), more=TOKEN, groups='[{"params": kept}, {"params": plain}]'),
        net(*two(*BY_NAME), groups="kept + plain"),
        net(*two(*BY_NAME), groups=GROUPS[:-1] + ', {"params": model.layers.parameters()}]'),
        net(*two(*BY_NAME), groups='[{"params": kept, "weight_decay": decay}]'),
        net(*two(*BY_NAME)).replace("model = Net(dim)", "model = load(dim)"),
        net(*two(*BY_NAME)).replace("model.named_parameters()", "adapted(model).named_parameters()"),
        net("if " + BY_NAME[0] + ":", "    kept.append(p)"),
        net(*two(*BY_NAME), after="optimizer.add_param_group(rest)"),
    ],
)  # fmt: skip
def test_look_alikes(snippet: str) -> None:
    assert_clean(snippet, CODE)


SPLIT = """
    def split(model):
        with_decay, without = [], []
        for name, param in model.named_parameters():
            if "weight" in name and "norm" not in name:
                with_decay.append(param)
            elif {second}:
                without.append(param)
        return with_decay, without
"""
MODEL = """
    import torch
    import torch.nn as nn
    from split import split

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 4)
            self.norm = nn.LayerNorm(4)

    def optimizer_of(model, decay):
        one, other = split(model)
        groups = [dict_one, {{"params": other, "weight_decay": 0.0}}]
        return torch.optim.AdamW(groups)

    def main():
        return optimizer_of(Model(), 0.1)
"""


@pytest.mark.parametrize(
    ("second", "one", "found"),
    [
        ('"bias" in name', '{"params": one, "weight_decay": decay}', True),
        ('"bias" in name or "norm" in name', '{"params": one, "weight_decay": decay}', False),
        ('"bias" in name', '{"params": one, "weight_decay": 0.0}', False),
        ('"bias" in name', '{"params": model.body.parameters(), "weight_decay": decay}', False),
    ],
)
def test_lists_that_another_file_makes(second: str, one: str, found: bool, tmp_path: Path) -> None:
    model = MODEL.replace("dict_one", one).replace("{{", "{").replace("}}", "}")
    files = {"split.py": SPLIT.format(second=second), "model.py": model}
    assert lines_in_files(tmp_path, files, CODE) == ([("split.py", 7)] if found else [])

"""Groups of parameters that helpers put together: whose they are, when a part is replaced afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG210"

TUNER = """
    class Net(nn.Module):
        def __init__(self, classes=20):
            super().__init__()
            self.stem = nn.Linear(8, 16)
            self.body = nn.Linear(16, 16)
            self.head = nn.Linear(16, classes)

        def forward(self, x):
            return self.head(self.body(self.stem(x)))

    def layer_groups(net, base_lr, decay=0.5):
        GROUPS

    class Tuner:
        def __init__(self, classes, base_lr):
            self.net = Net()
            self.opt = torch.optim.SGD(layer_groups(self.net, base_lr), lr=base_lr)
            self.adapt(classes)  # !

        def adapt(self, classes):
            width = self.net.head.in_features
            self.net.head = nn.Linear(width, classes)

        def step(self, x, y):
            self.opt.zero_grad()
            F.cross_entropy(self.net(x), y).backward()
            self.opt.step()
"""
BEFORE = "self.opt = torch.optim.SGD(layer_groups(self.net, base_lr), lr=base_lr)\n            self.adapt(classes)"
AFTER = "self.adapt(classes)\n            self.opt = torch.optim.SGD(layer_groups(self.net, base_lr), lr=base_lr)"

FILLED = """
        order = [net.head, net.body, net.stem]
        groups = []
        for depth, block in enumerate(order):
            groups.append({"params": list(block.parameters()), "lr": base_lr * decay ** depth})
        return groups
"""
GROUPS = [
    FILLED,
    """
        parts = (net.head, net.body, net.stem)
        return [{"params": part.parameters(), "lr": rate} for part, rate in zip(parts, base_lr)]
    """,
    """
        for name, child in net.named_children():
            yield {"params": child.parameters(), "lr": base_lr if name == "head" else base_lr / 10}
    """,
    """
        slow, fast = [], []
        for name, p in net.named_parameters():
            (fast if name.startswith("head") else slow).append(p)
        return [dict(params=slow, lr=base_lr * decay), dict(params=fast)]
    """,
    """
        groups = {}
        for name, p in net.named_parameters():
            if not p.requires_grad:
                continue
            key = "plain" if p.ndim == 1 else "decay"
            if key not in groups:
                groups[key] = {"params": [], "weight_decay": decay}
            groups[key]["params"].append(p)
        return list(groups.values())
    """,
    """
        groups = collections.defaultdict(list)
        for name, p in net.named_parameters():
            groups[name.split(".")[0]].append(p)
        return [{"params": group, "lr": rates[name]} for name, group in groups.items()]
    """,
    """
        layers = [net.stem, net.body]
        layers.append(net.head)
        layers.reverse()
        out = []
        for i, layer in enumerate(layers):
            out += [{"params": layer.parameters(), "lr": base_lr * decay ** i}]
        return out
    """,
    """
        rest = itertools.chain(net.stem.parameters(), net.body.parameters())
        groups = [{"params": rest}]
        groups.extend([{"params": net.head.parameters(), "lr": base_lr}])
        return groups
    """,
    """
        groups = []
        for name in ("stem", "body", "head"):
            groups.append({"params": [p for p in getattr(net, name).parameters() if p.requires_grad]})
        return groups
    """,
    """
        for i, (block, scale) in enumerate([(net.head, 1.0), (net.body, decay)]):
            yield {"params": block.parameters(), "lr": base_lr * scale}
    """,
]
OTHERS = [
    # other parts
    FILLED.replace("net.head, ", ""),
    """
        return [{"params": part.parameters()} for part in (net.stem, net.body)]
    """,
    # who knows what
    FILLED.replace("[net.head, net.body, net.stem]", "parts_of(net)"),
    FILLED.replace("return groups", "return choose(groups)"),
    FILLED.replace("groups = []", "groups = net.groups()"),
    """
        groups = make_groups(net)
        for block in (net.head, net.body):
            groups.append({"params": block.parameters()})
        return groups
    """,
]


def tuner(groups: str, *edits: tuple[str, str]) -> str:
    snippet = TUNER.replace("        GROUPS\n", groups.strip("\n") + "\n")
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    return snippet


@pytest.mark.parametrize("groups", GROUPS)
def test_groups_that_have_the_old_head(groups: str) -> None:
    assert_flagged(tuner(groups), CODE)
    assert_clean(twin(tuner(groups), (BEFORE, AFTER)), CODE)


@pytest.mark.parametrize("groups", OTHERS)
def test_groups_of_other_parts_or_of_who_knows_what(groups: str) -> None:
    assert_clean(twin(tuner(groups)), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [(", lr=base_lr)\n            self.adapt", ")\n            self.adapt")],
        [
            ("torch.optim.SGD(", "OPTIMIZERS[base_lr.name]("),
            ("    class Tuner", '    OPTIMIZERS = {"sgd": torch.optim.SGD}\n\n    class Tuner'),
        ],
        [("torch.optim.SGD(", "getattr(torch.optim, base_lr.name)(")],
        [("layer_groups(self.net, base_lr), ", "list(layer_groups(self.net, base_lr)), ")],
        [("layer_groups(self.net, base_lr), ", "layer_groups(net=self.net, base_lr=1e-3), ")],
        [
            ("torch.optim.SGD(layer_groups(self.net, base_lr), ", "make_optimizer(self.net, "),
            (
                "    class Tuner",
                "    def make_optimizer(model, lr):\n        groups = layer_groups(model, lr)\n"
                "        return torch.optim.AdamW(groups, lr=lr)\n\n    class Tuner",
            ),
        ],
        [
            ("torch.optim.SGD(layer_groups(self.net, base_lr), ", "make_optimizer(self.net, "),
            (
                "    class Tuner",
                "    def make_optimizer(model, lr):\n        groups = layer_groups(model, lr)\n"
                "        return getattr(torch.optim, lr.name)(groups, lr=lr)\n\n    class Tuner",
            ),
        ],
        [
            ("torch.optim.SGD(layer_groups(", "torch.optim.SGD(self.groups("),
            (
                "        def adapt",
                "        def groups(self, net, lr):\n            return layer_groups(net, lr)\n\n        def adapt",
            ),
        ],
    ],
)
def test_whoever_makes_the_optimizer(edits: list[tuple[str, str]]) -> None:
    assert_flagged(tuner(FILLED, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("            self.adapt(classes)\n", "")],
        [
            (
                "width, classes)",
                "width, classes)\n            self.opt.add_param_group({'params': self.net.head.parameters()})",
            )
        ],
        [("width, classes)", "width, classes)\n            self.opt = torch.optim.SGD(layer_groups(self.net, 0.1))")],
        [("nn.Linear(width, classes)", "self.net.head.to(width)")],
        [("self.net.head = nn.Linear(width, classes)", "self.net.extra = nn.Linear(width, classes)")],
        [("            self.opt.step()\n", "")],
        [("layer_groups(self.net, base_lr), ", "layer_groups(Net(), base_lr), ")],
    ],
)
def test_a_head_that_the_optimizer_has_or_gets(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(tuner(FILLED), *edits), CODE)


def test_groups_of_another_file(tmp_path: Path) -> None:
    lines = [line[4:] for line in tuner(FILLED).replace("  # !", "").splitlines()]
    start, end = (next(n for n, line in enumerate(lines) if line.startswith(word)) for word in ("def ", "class Tuner"))
    head = ["import torch", "import torch.nn as nn", "import torch.nn.functional as F"]
    files = {
        "groups.py": "\n".join([*head, *lines[start:end]]),
        "main.py": "\n".join([*head, "from groups import layer_groups", *lines[:start], *lines[end:]]),
    }
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["main.py"]

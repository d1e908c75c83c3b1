from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG267"

STEPS = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(8, 8)
            self.head = nn.Linear(8, 2)

    def freeze(module):
        for p in module.parameters():
            p.requires_grad_(False)

    def train(stream, args):
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for step in range(args.steps):
            if step == args.boundary:
                net.body.requires_grad_(False)
            x, y = next(stream)
            optimizer.zero_grad(set_to_none=False)  # !
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
"""
OBJECT = """
    class Trainer:
        def __init__(self, net):
            self.net = net
            self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-3)

        def fit(self, loader, epochs):
            for epoch in range(epochs):
                if epoch >= 5:
                    for p in self.net.encoder.parameters():
                        p.requires_grad = False
                for x, y in loader:
                    self.opt.zero_grad(False)  # !
                    F.cross_entropy(self.net(x), y).backward()
                    self.opt.step()
"""
MADE = "torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)"
FREEZES = "net.body.requires_grad_(False)"


@pytest.mark.parametrize(
    "change",
    [
        (MADE, MADE),
        (MADE, "torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=args.decay)"),
        (MADE, "torch.optim.Adam(net.parameters())"),
        (MADE, "torch.optim.Adam([p for p in net.parameters() if p.requires_grad])"),
        (MADE, "torch.optim.RMSprop(net.parameters(), momentum=0.9)"),
        (FREEZES, "freeze(net.body)"),
        (FREEZES, "for p in net.body.parameters(): p.requires_grad = False"),
        (FREEZES, "net.requires_grad_(False)"),
        ("step == args.boundary", "step > 100"),
        ("step == args.boundary", "step >= args.steps // 4"),
        ("F.cross_entropy(net(x), y).backward()\n            optimizer.step()",
         "F.cross_entropy(net(x), y).backward()\n            nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
         "            optimizer.step()"),
    ],
)  # fmt: skip
def test_what_is_frozen_in_the_midst(change: tuple[str, str]) -> None:
    assert_flagged(STEPS.replace(*change), CODE)


def test_an_object_and_a_loop_over_epochs() -> None:
    assert_flagged(OBJECT, CODE)


@pytest.mark.parametrize(
    "change",
    [
        ("set_to_none=False", "set_to_none=True"),
        ("set_to_none=False", ""),
        ("set_to_none=False", "args.none"),
        (MADE, "torch.optim.SGD(net.parameters(), lr=0.1)"),
        (MADE, "torch.optim.SGD(net.parameters(), lr=0.1, momentum=0, weight_decay=0.0)"),
        (MADE, "torch.optim.SGD(net.head.parameters(), lr=0.1, momentum=0.9)"),
        (MADE, "torch.optim.RMSprop(net.parameters())"),
        (MADE, "torch.optim.Adagrad(net.parameters())"),
        (MADE, 'torch.optim.Adam([p for n, p in net.named_parameters() if "head" in n])'),
        (MADE, "make_optimizer(net)"),
        (MADE, "torch.optim.SGD(net.parameters(), **args.options)"),
        (FREEZES, "net.body.requires_grad_(True)"),
        (FREEZES, "net.body.requires_grad_(args.trains)"),
        (FREEZES, "net.body.requires_grad_(False); net.body.weight.grad = None"),
        (FREEZES, "net.body.requires_grad_(False); optimizer.param_groups[0]['lr'] = 0.0"),
        (FREEZES, "net.body.requires_grad_(False); optimizer = torch.optim.Adam(net.head.parameters())"),
        (FREEZES, "net.body.requires_grad_(False); optimizer.zero_grad(set_to_none=True)"),
        (FREEZES, "x.requires_grad_(False)"),
        (FREEZES, "net.body.eval()"),
        ("step == args.boundary", "step == 0"),
        ("step == args.boundary", "args.freeze"),
        ("step == args.boundary", "step < args.boundary"),
        ("step == args.boundary", "step % 2 == 1"),
        ("            optimizer.step()", "            pass"),
    ],
)
def test_what_is_not_moved(change: tuple[str, str]) -> None:
    assert_clean(twin(STEPS, change), CODE)


@pytest.mark.parametrize(
    "change",
    [
        ("self.opt.zero_grad(False)", "self.opt.zero_grad()"),
        ("self.opt.zero_grad(False)", "self.net.zero_grad()"),
        ("self.net.encoder", "self.teacher"),
        ("                if epoch >= 5:\n", "                if epoch < 5:\n"),
        ("self.net.parameters(), lr", "self.net.head.parameters(), lr"),
        ("            self.opt = torch", "            self.opt = torch.optim.SGD(net.parameters(), lr=1.0)\n"
         "            if net: self.opt = torch"),
    ],
)  # fmt: skip
def test_objects_that_are_right(change: tuple[str, str]) -> None:
    assert_clean(twin(OBJECT, change), CODE)


def test_frozen_before_the_training() -> None:
    snippet = STEPS.replace(
        "            if step == args.boundary:\n                net.body.requires_grad_(False)\n", ""
    )
    before = snippet.replace("        for step in", "        net.body.requires_grad_(False)\n        for step in")
    assert_clean(twin(before), CODE)


def test_another_file_sets_them_to_none(tmp_path: Path) -> None:
    header = "import torch\nimport torch.nn.functional as F\n"
    freezing = "def freeze(module):\n    for p in module.parameters():\n        p.requires_grad = False\n"
    dropping = freezing + "        p.grad = None\n"
    main = (
        header
        + "from freezing import freeze\n"
        + STEPS.split("            p.requires_grad_(False)\n")[1].replace("\n    ", "\n")
    )
    main = main.replace(FREEZES, "freeze(net.body)").replace("Net()", "torch.nn.Sequential()")
    assert [n for n, _ in lines_in_files(tmp_path, {"freezing.py": freezing, "main.py": main}, CODE)] == ["main.py"]
    assert lines_in_files(tmp_path, {"freezing.py": dropping, "main.py": main}, CODE) == []

"""GG417: keys of a cache that follow a schedule, and are other ones in each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG417"

BLUR = """
import math

class Blur(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.kernels = {}

    def kernel(self, sigma):
        key = (self.size, sigma)
        if key not in self.kernels:
            grid = torch.arange(self.size) - self.size // 2
            self.kernels[key] = torch.exp(-0.5 * (grid / sigma) ** 2)  # !
        return self.kernels[key]

    def forward(self, x, sigma):
        return F.conv1d(x, self.kernel(sigma)[None, None])

def annealed(step, start=4.0, end=0.5, decay=0.99):
    return end + (start - end) * decay**step

def train(net, optimizer, loader, steps):
    blur = Blur(9)
    for step in range(steps):
        x, y = next(loader)
        loss = F.mse_loss(net(blur(x, annealed(step))), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
AGAIN = "  # !"


def edited(*edits: tuple[str, str], base: str = BLUR) -> str:
    for old, new in edits:
        assert old in base, old
        base = base.replace(old, new)
    return base


TABLE = """
TABLES = {}

def table(size, tau):
    key = f"{size}/{tau}"
    found = TABLES.get(key)
    if found is None:
        found = torch.softmax(torch.arange(size) / tau, 0)
        TABLES[key] = found  # !
    return found

def train(net, optimizer, loader):
    for epoch, (x, y) in enumerate(loader):
        tau = 2.0 * 0.98 ** epoch
        loss = F.mse_loss(net(x) * table(x.shape[-1], tau), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
CLASSES = """
class Op:
    registry = {}

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        Op.registry[cls.__name__] = cls

def specialise(kind, tau):
    def message(x):
        return x / tau

    name = f"{kind}_{tau}"
    if name in Op.registry:
        return Op.registry[name]
    return type(name, (Op,), {"message": staticmethod(message)})  # !

def train(net, optimizer, loader, steps):
    for step in range(steps):
        x, y = next(loader)
        op = specialise("mean", 1.0 - 0.9 * step / steps)
        loss = F.mse_loss(op.message(net(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
FLAGGED = {
    "a schedule in a function": BLUR,
    "of a count of batches": TABLE,
    "classes that their base keeps": CLASSES,
    "by an attribute of the class": edited(
        ("Op.registry[cls.__name__] = cls", "cls.registry[cls.__name__] = cls"), base=CLASSES
    ),
    "in place": edited(("annealed(step)))", "4.0 / (1 + step)))"), ("blur(x, 4.0", "blur(x, sigma=4.0")),
    "a cosine": edited(("annealed(step)", "1.5 + math.cos(math.pi * step / steps)")),
    "as a text": edited(("key = (self.size, sigma)", 'key = f"{self.size}_{sigma}"')),
    "as a text of itself": edited(("key = (self.size, sigma)", "key = (self.size, str(sigma))")),
    "the number alone": edited(("key = (self.size, sigma)", "key = sigma")),
    "a name for it": edited(("loss = F", "now = annealed(step)\n        loss = F"), ("annealed(step)))", "now))")),
}  # fmt: skip
CLEAN = {
    "rounded": edited(("annealed(step)", "round(annealed(step), 1)")),
    "rounded in the key": edited(("key = (self.size, sigma)", "key = (self.size, round(sigma, 2))")),
    "rounded by the schedule": edited(
        ("    return end + (start - end) * decay**step", "    return round(decay**step, 2)")
    ),
    "with an end": edited(("    return end + (start - end) * decay**step", "    return max(end, start * decay**step)")),
    "with an end, on another way": edited(
        ("    return end +", "    if step > 100:\n        return end\n    return end +")
    ),
    "in stages": edited(("decay**step", "decay ** (step // 100)")),
    "in turn": edited(("annealed(step)", "0.5 + (step % 8) / 8")),
    "a number of the program": edited(("annealed(step)", "0.5")),
    "of few sizes": edited(("annealed(step)", "x.shape[-1] / 8")),
    "an option": edited(("annealed(step)", "args.sigma / 2")),
    "without it": edited(("key = (self.size, sigma)", "key = self.size")),
    "again in each epoch": edited(
        ("    for step in range(steps):\n", "    for epoch in range(9):\n      for step in range(steps):\n"),
        ("        loss.backward()", "        loss.backward(); optimizer.step()"),
    ),
    "no more than some": edited(
        ("if key not in self.kernels:", "if key not in self.kernels and len(self.kernels) < 64:")
    ),
    "emptied": edited(("        return self.kernels[key]", "        return self.kernels.pop(key)")),
    "emptied elsewhere": BLUR + "\ndef forget(blur):\n    blur.kernels.clear()\n",
    "a record of all": BLUR + "\ndef show(blur):\n    for kernel in blur.kernels.values():\n        plot(kernel)\n",
    "asked for its size": BLUR + "\ndef size(blur):\n    return len(blur.kernels)\n",
    "the number of the step, a record": edited(("annealed(step)", "step")),
    "another number": edited(("annealed(step)", "annealed(y)")),
    "made anew": edited(("        loss = F", "        blur.kernels = {}\n        loss = F")),
    "a dict of the call": edited(("        key =", "        self.kernels = {}\n        key =")),
    "a few steps": edited(("for step in range(steps):", "for step in range(10):")),
    "where nothing trains": edited(("loss.backward()", "loss.item()")),
    "a parameter that is made another": edited(("        key =", "        sigma = float(int(sigma))\n        key =")),
    "classes that nobody keeps": edited(("        Op.registry[cls.__name__] = cls\n", ""), base=CLASSES),
    "classes of few": edited(("1.0 - 0.9 * step / steps", "round(1.0 - 0.9 * step / steps, 1)"), base=CLASSES),
    "classes that are taken out": CLASSES + "\ndef forget(name):\n    del Op.registry[name]\n",
    "classes of another name": edited(("type(name,", "type(kind,"), base=CLASSES),
    "the type of something": edited(("type(name, (Op,), {", "make(name, (Op,), {"), base=CLASSES),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name].replace(AGAIN, ""), CODE)


def test_the_schedule_is_in_another_file(tmp_path: Path) -> None:
    cache, _, training = TABLE.partition("def train")
    head = "import torch\nimport torch.nn.functional as F\n"
    files = {"tables.py": head + cache, "main.py": f"{head}from tables import table\n\ndef train{training}"}
    number = next(at for at, line in enumerate(files["tables.py"].split("\n"), 1) if line.endswith(AGAIN))
    assert lines_in_files(tmp_path, files, CODE) == [("tables.py", number)]
    files["main.py"] = twin(files["main.py"], ("0.98 ** epoch", "0.98 ** (epoch // 50)"))
    assert lines_in_files(tmp_path, files, CODE) == []

"""GG104: a function that runs the items of what it is given: ``parts["head"](x)``, ``for layer in layers: ...``."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

LOOP = """
def run(parts, x):
    RUN

def main(loader):
    parts = MADE
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
    curve = []
    for x, y in loader:
        loss = F.mse_loss(run(parts, x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(F.mse_loss(run(parts, x), y))  # !
    print(curve)
"""

LISTED = "nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])"
RUNS = {
    "under a word": ('return parts["head"](x)', 'nn.ModuleDict({"head": nn.Linear(3, 3)}).to("cuda")'),
    "one after the other": ('return parts["head"](parts["body"](x).mean(1))', 'nn.ModuleDict({"head": h, "body": b})'),
    "by number": ("return parts[0](x)", LISTED),
    "in a loop": ("for part in parts:\n        x = part(x)\n    return x", LISTED),
    "the last one": ("return parts[-1](x)", LISTED),
}


@pytest.mark.parametrize("name", RUNS)
def test_items_that_are_run(name: str) -> None:
    run, made = RUNS[name]
    assert_flagged(LOOP.replace("RUN", run).replace("MADE", made), "GG104")


@pytest.mark.parametrize(
    "run",
    [
        'with torch.no_grad():\n        return parts["head"](x)',
        'return parts["head"](x).detach()',
        'return x * len(parts["head"].weight)',
    ],
)
def test_items_that_leave_no_graph(run: str) -> None:
    text = LOOP.replace("RUN", run).replace("MADE", 'nn.ModuleDict({"head": nn.Linear(3, 3)})')
    assert_clean(text.replace("  # !", ""), "GG104")


@pytest.mark.parametrize("run", ["return steps[0](x)", "for step in steps:\n        x = step(x)\n    return x"])
def test_functions_in_a_list(run: str) -> None:
    """A name that no function of the file uses as a module says nothing of its items."""
    text = f"""
def run(steps, x):
    {run}

def main(loader, steps):
    rows = []
    for x in loader:
        rows.append(run(steps, x))
    return rows
"""
    assert_clean(text)


NAMED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"head": nn.Linear(3, 3), "body": nn.Linear(3, 3)})

    def forward(self, x):
        return self.parts["head"](self.parts["body"](x))

    def measure(self, x):
        RUN

def main(loader):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    curve = []
    for x, y in loader:
        loss = F.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(net.measure(x))  # !
    print(curve)
"""


@pytest.mark.parametrize(
    "run",
    [
        "for name, part in self.parts.items():\n            x = part(x)\n        return x",
        "for part in self.parts.values():\n            x = part(x)\n        return x",
        'return {n: part(x) for n, part in self.parts.items()}["head"]',
        "return sum(part(x) for part in self.parts.values())",
        "return torch.stack([part(x) for _, part in self.parts.items()]).mean(0)",
    ],
)
def test_modules_with_names(run: str) -> None:
    assert_flagged(NAMED.replace("RUN", run), "GG104")


@pytest.mark.parametrize(
    "run",
    [
        'return {n: part(x).detach() for n, part in self.parts.items()}["head"]',
        "for name in self.parts.keys():\n            x = x + len(name)\n        return x",
        "for name, part in self.parts.items():\n            x = x * len(name)\n        return x",
        "with torch.no_grad():\n            return sum(part(x) for part in self.parts.values())",
        "for part in self.parts.values():\n            x = x + part.in_features\n        return x",
        "for part in self.parts.values():\n            part.eval()\n        return x",
    ],
)
def test_names_of_modules(run: str) -> None:
    assert_clean(NAMED.replace("RUN", run).replace("  # !", ""), "GG104")

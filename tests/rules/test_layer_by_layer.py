"""One forward pass layer by layer: each iteration runs its own module on what the one before gave."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG105"

NET = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stages = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
                self.norms = nn.ModuleList([nn.LayerNorm(2), nn.LayerNorm(2)])
                self.dropout, self.act = nn.Dropout(0.1), nn.ELU()

            def encode(self, x, edges):
                self.eval()
                for i, stage in enumerate(self.stages):
                    {body}
                return x
"""


def net(*body: str) -> str:
    return NET.format(body="\n                    ".join(body))


PASSES = {
    "an activation between two": net("x = stage(x, edges)", "if i != len(self.stages) - 1:", "    x = F.relu(x)"),
    "an activation that is chosen": net("x = stage(x, edges)", "x = F.relu(x) if i < 1 else x"),
    "a module for all layers": net("x = stage(x, edges)", "x = F.relu(x)", "x = self.dropout(x)"),
    "a module for all layers, before": net("x = self.dropout(x)", "x = stage(x)", "if i < 1:", "    x = self.act(x)"),
    "norms beside the layers": net("x = stage(x)", "if i < 1:", "    x = self.norms[i](x)", "    x = self.act(x)"),
    "with or without a skip connection": net(
        "if self.skips:",
        "    x = x + stage(x)",
        "else:",
        "    x = stage(x)",
        "if self.act is not None:",
        "    x = self.act(x)",
    ),
    "by another name": net("h = stage(x, edges)", "if i < 1:", "    h = F.relu(h)", "x = h"),
    "by another name, with a skip connection": net("h = x", "h = stage(h)", "h = self.act(h)", "x = x + h"),
    "over numbers": """
        def encode(self, x):
            self.eval()
            for i in range(len(self.convs)):
                x = self.convs[i](x)
                if i < len(self.convs) - 1:
                    x = x.relu()
                    x = F.dropout(x, p=0.5, training=self.training)
            return x
    """,
    "over layers": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stages = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])

            def profile(self, x):
                self.eval()
                for layer in self.stages:
                    x = layer(x)
                    print(x.shape)
    """,
    "each put into evaluation mode": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stages = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])

            def profile(self, x):
                self.eval()
                for m in self.stages:
                    m.eval()
                    x = m(x)
                return 3
    """,
    "with what is done to it": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stages = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])

            def profile(self, x):
                self.eval()
                for name, layer in enumerate(self.stages):
                    x = F.relu(layer.forward(x))
                    print(name, x.shape)
    """,
    "with a skip connection": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stages = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])

            def profile(self, x):
                self.eval()
                for layer in self.stages:
                    x = x + layer(x)
                    print(x.shape)
    """,
    "by number": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stages = nn.ModuleList([nn.Linear(2, 2) for _ in range(60)])

            def profile(self, x):
                self.eval()
                for i in range(60):
                    stage = self.stages[i]
                    x = stage(x)
                print(x.shape)
    """,
    "of blocks that are made": """
        from blocks import CSBlock

        def profile(sizes, repeats, x):
            for size in sizes:
                for i in range(repeats[size]):
                    if size > 2:
                        block = CSBlock(size)
                    else:
                        block = CSBlock(size, small=True)
                    block.eval()
                    x = block(x)
                    print(x.shape)
    """,
    "of children, by recursion": """
        def decompose(parent, z, found):
            parent = parent.eval().cpu()
            children = list(parent.children())
            if not children:
                found.append(parent)
                z = parent(z)
                return z, True
            try:
                expected = parent(z)
            except RuntimeError:
                return z, False
            whole = True
            for child in children:
                z, whole = decompose(child, z, found)
                if not whole:
                    break
            if whole and expected.size() == z.size():
                return expected, True
            return expected, True
    """,
}

STATES = {
    "what is run on the data is of each step": """
        class Runner(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.GRUCell(4, 4)
                self.encoders = nn.ModuleList([nn.Linear(4, 4) for _ in range(1000)])

            def evaluate(self, loader):
                self.eval()
                h = torch.zeros(1, 4)
                for i, x in enumerate(loader):
                    x = x.float()
                    z = self.encoders[i](x)
                    h = self.rnn(z, h)  # !
                    print(h.sum().item())
    """,
    "what measures the state is of each step": """
        class Runner(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.GRUCell(4, 4)

            def evaluate(self, loader, probes):
                self.eval()
                h = torch.zeros(1, 4)
                for x, probe in zip(loader, probes):
                    h = self.rnn(x, h)  # !
                    seen = probe(h)
                    print(seen.sum().item())
    """,
    "one cell": """
        def evaluate(cell, loader):
            cell.eval()
            h = torch.zeros(1, 4)
            for x in loader:
                h = cell(x, h)  # !
                print(h.sum().item())
    """,
    "the data is what is called": """
        def evaluate(cell, loader):
            cell.eval()
            h = torch.zeros(1, 4)
            for batch in loader:
                h = cell(batch(), h)  # !
                print(h.sum().item())
    """,
    "one of a few cells in turn": """
        class Runner(nn.Module):
            def __init__(self):
                super().__init__()
                self.cells = nn.ModuleList([nn.GRUCell(4, 4) for _ in range(3)])

            def evaluate(self, loader):
                self.eval()
                h = torch.zeros(1, 4)
                for step, x in enumerate(loader):
                    h = self.cells[step % 3](x, h)  # !
                    print(h.sum().item())
    """,
    "the same layers for each batch": """
        class Runner(nn.Module):
            def __init__(self):
                super().__init__()
                self.cells = nn.ModuleList([nn.GRUCell(4, 4) for _ in range(3)])

            def evaluate(self, loader):
                self.eval()
                h = torch.zeros(1, 4)
                for x in loader:
                    for i in range(3):
                        h = self.cells[i](x, h)  # !
                    print(h.sum().item())
    """,
    "what is made runs on the data": """
        from blocks import Crop

        def evaluate(net, loader):
            net.eval()
            h = torch.zeros(1, 4)
            for x in loader:
                crop = Crop(x.shape[0])
                h = net(crop(x), h)  # !
                print(h.sum().item())
    """,
    "it trains": """
        class Runner(nn.Module):
            def __init__(self):
                super().__init__()
                self.cells = nn.ModuleList([nn.GRUCell(4, 4) for _ in range(1000)])

            def fit(self, loader, opt):
                h = torch.zeros(1, 4)
                for i in range(1000):
                    opt.zero_grad()
                    h = self.cells[i](next(loader), h)  # !
                    h.sum().backward(retain_graph=True)
                    opt.step()
    """,
}


@pytest.mark.parametrize("name", PASSES)
def test_one_forward_pass(name: str) -> None:
    assert_clean(PASSES[name], CODE)


@pytest.mark.parametrize("name", STATES)
def test_a_state(name: str) -> None:
    assert_flagged(STATES[name], CODE)

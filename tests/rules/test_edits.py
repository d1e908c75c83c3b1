"""What the edits of the rules make of code: each ends its finding, and leaves the rest as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import CheckResult
from gradguard.static.engine import check_text
from gradguard.static.fix import fix
from tests.rules.snippets import HEADER

PATH = Path("train.py").absolute()


def fixed(text: str, code: str) -> str:
    """A text after the edits of one rule, in its own lines."""
    whole = HEADER + dedent(text)
    settings = Settings(Path.cwd(), select=(code,))

    def checks(instead: Mapping[Path, bytes]) -> CheckResult:
        return check_text(instead.get(PATH, whole.encode()).decode(), "train.py", settings, catalogue.load())

    assert checks({}).findings, "nothing is found"
    outcome = fix([PATH], checks, lambda _: whole.encode(), unsafe=True)
    return outcome.contents.get(PATH, whole.encode()).decode().removeprefix(HEADER)


LOOP = """
    def train(net, loader, optimizer, scaler, log):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
"""
ACCUMULATES = LOOP.replace("            optimizer.zero_grad()\n", "")
CLIPS = """\
            nn.utils.clip_grad_norm_(
                net.parameters(), 1.0
            )
"""
EVALUATES = """
    net = nn.Linear(4, 2)
    net.eval()
    hits = 0
    for x, y in test_loader:
        out = net(x)

        # the best of them
        hits += (out.argmax(1) == y).sum().item()
"""

EDITS: dict[str, tuple[str, str, dict[str, str]]] = {
    "an evaluation of a script is put under no_grad": (
        "GG301",
        EVALUATES,
        {
            "    for x, y in test_loader:\n": "    with torch.no_grad():\n        for x, y in test_loader:\n",
            "        out = net(x)\n": "            out = net(x)\n",
            "        # the best of them\n": "            # the best of them\n",
            "        hits += (": "            hits += (",
        },
    ),
    "with tabs": (
        "GG301",
        "net = nn.Linear(4, 2)\nnet.eval()\nfor x in test_loader:\n\tprint(net(x).argmax())\n",
        {"for x in test_loader:\n\tprint": "with torch.no_grad():\n\tfor x in test_loader:\n\t\tprint"},
    ),
    "a reset between backward and step goes before backward": (
        "GG202",
        ACCUMULATES.replace("optimizer.step()", "optimizer.zero_grad()  # a new step\n            optimizer.step()"),
        {
            "            loss.backward()\n            optimizer.zero_grad()  # a new step\n": (
                "            optimizer.zero_grad()  # a new step\n            loss.backward()\n"
            )
        },
    ),
    "clipping after the step goes before it": (
        "GG208",
        LOOP + CLIPS,
        {"            optimizer.step()\n" + CLIPS: CLIPS + "            optimizer.step()\n"},
    ),
    "clipping before backward goes behind it": (
        "GG208",
        LOOP.replace("            loss.backward()\n", CLIPS + "            loss.backward()\n"),
        {CLIPS + "            loss.backward()\n": "            loss.backward()\n" + CLIPS},
    ),
    "the first of two backwards keeps the graph": (
        "GG203",
        """
        def train(net, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                features = net.encoder(x)
                F.cross_entropy(net.head(features), y).backward()
                F.mse_loss(net.decoder(features), x).backward()
                optimizer.step()
        """,
        {"y).backward()": "y).backward(retain_graph=True)"},
    ),
    "the same with an argument": (
        "GG203",
        """
        def step(net, x, y, scale, optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward(scale)
            loss.backward()
            optimizer.step()
        """,
        {"backward(scale)": "backward(scale, retain_graph=True)"},
    ),
    "a removed argument goes": (
        "GG207",
        LOOP.replace("loss.backward()", "loss.backward(retain_variables=True)"),
        {"loss.backward(retain_variables=True)": "loss.backward()"},
    ),
    "retain_grad goes before backward": (
        "GG205",
        """
        def look(net, x):
            h = net(x)
            h.sum().backward()
            h.retain_grad()
            return h.grad
        """,
        {
            "    h.sum().backward()\n    h.retain_grad()\n": "    h.retain_grad()\n    h.sum().backward()\n",
        },
    ),
    "a state that is trained is cut as each iteration ends": (
        "GG105",
        """
        def train(cell: nn.GRUCell, loader, optimizer):
            h = torch.zeros(8, 16)
            for x in loader:
                h = torch.tanh(cell(x, h))
                optimizer.zero_grad()
                h.sum().backward(retain_graph=True)
                optimizer.step()
            return h.detach()
        """,
        {"        optimizer.step()\n": "        optimizer.step()\n        h = h.detach()\n"},
    ),
    "the two states of an LSTM": (
        "GG105",
        """
        def train(lstm, loader, optimizer, h, c):
            for x in loader:
                h, c = lstm(x, (h, c))
                optimizer.zero_grad()
                h.sum().backward(retain_graph=True)
                optimizer.step()
        """,
        {"        optimizer.step()\n": "        optimizer.step()\n        h, c = h.detach(), c.detach()\n"},
    ),
    "a state that is only drawn from records nothing": (
        "GG105",
        """
        def sample(rnn, prefix):
            state, words = None, [prefix]
            for _ in range(100):
                x = torch.tensor([words[-1]])
                out, state = rnn(x, state)
                words.append(int(out.argmax(dim=1).item()))
            return words

        def train(rnn, x, optimizer):
            rnn(x, None)[0].sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
        {"def sample(": "@torch.no_grad()\ndef sample("},
    ),
    "a view is copied": (
        "GG403",
        LOOP + "            log.append(x.detach()[0])\n",
        {"x.detach()[0])": "x.detach()[0].clone())"},
    ),
    "the parts with a graph are detached": (
        "GG104",
        "def train(net, loader, optimizer):\n    rows = []\n" + dedent(LOOP).split("\n", 2)[2].replace(
            "    optimizer.step()\n", "    optimizer.step()\n        rows.append((x.shape, loss, {'epoch': 1}))\n"
        ),
        {"(x.shape, loss, {": "(x.shape, loss.detach(), {"},
    ),
    "what a callee puts into a record is detached where it is handed over": (
        "GG107",
        """
        class Log:
            def __init__(self):
                self.rows = []

            def push(self, step, loss):
                self.rows.append((step, loss))

        def train(net, loader, optimizer):
            log = Log()
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                loss = F.mse_loss(net(x), y)
                loss.backward()
                optimizer.step()
                log.push(i, loss)
            return log
        """,
        {"log.push(i, loss)": "log.push(i, loss.detach())"},
    ),
    "what a callee keeps by its keywords": (
        "GG107",
        """
        class Board:
            def __init__(self):
                self.rows = {}

            def note(self, **values):
                for key, value in values.items():
                    self.rows.setdefault(key, []).append(value)

        def train(net, loader, optimizer):
            board = Board()
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                loss = F.mse_loss(net(x), y)
                loss.backward()
                optimizer.step()
                board.note(loss=loss, step=i)
            return board
        """,
        {"board.note(loss=loss, ": "board.note(loss=loss.detach(), "},
    ),
    "the view in a tuple is copied": (
        "GG403",
        LOOP + "            log.append((int(y[0]), x.detach()[0]))\n",
        {"x.detach()[0]))": "x.detach()[0].clone()))"},
    ),
    "a hook goes before the loop": (
        "GG401",
        LOOP.replace("            optimizer.zero_grad()\n", "            net.head.register_forward_hook(\n"
                     "                log.save\n            )\n            optimizer.zero_grad()\n"),
        {
            "        for x, y in loader:\n            net.head.register_forward_hook(\n                log.save\n"
            "            )\n": "        net.head.register_forward_hook(\n            log.save\n        )\n"
            "        for x, y in loader:\n"
        },
    ),
    "a loader is gone over anew": (
        "GG405",
        """
        import itertools
        from torch.utils.data import DataLoader

        def train(net, data, optimizer):
            loader = DataLoader(data, 8)
            batches = itertools.cycle(loader)
            for step in range(1000):
                optimizer.zero_grad()
                net(next(batches)).sum().backward()
                optimizer.step()
        """,
        {"itertools.cycle(loader)": "(batch for _ in iter(int, 1) for batch in loader)"},
    ),
    "a sample gets no gradient": (
        "GG407",
        """
        def attack(net, epochs):
            samples = [torch.randn(1, 3) for _ in range(1000)]
            for epoch in range(epochs):
                for x in samples:
                    net(x.requires_grad_()).sum().backward()
        """,
        {"x.requires_grad_()": "x.detach().requires_grad_()"},
    ),
    "a sample that is marked by itself gets a new tensor": (
        "GG407",
        """
        def attack(net, epochs):
            samples = [torch.randn(1, 3) for _ in range(1000)]
            for epoch in range(epochs):
                for x in samples:
                    x.requires_grad_()
                    net(x).sum().backward()
        """,
        {"x.requires_grad_()": "x = x.detach().requires_grad_()"},
    ),
    "accumulated gradients are reset behind their step": (
        "GG201",
        """
        def train(net, loader, optimizer):
            for i, (x, y) in enumerate(loader):
                F.mse_loss(net(x), y).backward()
                if i % 4 == 3:
                    optimizer.step()
        """,
        {"            optimizer.step()\n": "            optimizer.step()\n            optimizer.zero_grad()\n"},
    ),
    "layers under names": (
        "GG213",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.heads = {name: nn.Linear(8, 8) for name in ("a", "b")}
                self.more = {"c": nn.Linear(8, 8), f"d": nn.Linear(8, 8)}

            def forward(self, x):
                return self.heads["a"](x) + self.more["c"](x)
        """,
        {"self.more = {": "self.more = nn.ModuleDict({", 'f"d": nn.Linear(8, 8)}': 'f"d": nn.Linear(8, 8)})'},
    ),
    "the text of an exception": (
        "GG110",
        """
        def train(net, loader, optimizer):
            failed = []
            for x in loader:
                try:
                    optimizer.zero_grad()
                    net(x).sum().backward()
                    optimizer.step()
                except RuntimeError as error:
                    failed.append((len(failed), error))
            return failed
        """,
        {"(len(failed), error)": "(len(failed), str(error))"},
    ),
    "what slows each step down is taken out": (
        "GG502",
        LOOP + "            torch.cuda.empty_cache()  # does it help?\n",
        {"            torch.cuda.empty_cache()  # does it help?\n": ""},
    ),
    "the only statement of its block": (
        "GG502",
        LOOP + "            with log.timer():\n                torch.cuda.empty_cache()\n",
        {"torch.cuda.empty_cache()": "pass"},
    ),
    "a term keeps its graph": (
        "GG215",
        LOOP.replace("loss.backward()", "loss = loss + 0.1 * net(x).abs().mean().item()\n            loss.backward()"),
        {".mean().item()": ".mean()"},
    ),
    "the difference of a straight-through estimator is detached": (
        "GG223",
        """
        def binarize(x):
            hard = (x > 0).float()
            soft = torch.sigmoid(x)
            return soft + (hard - soft)
        """,
        {"soft + (hard - soft)": "soft + (hard - soft).detach()"},
    ),
    "of one that begins with it": (
        "GG223",
        "def to_levels(x):\n    return torch.round(x) - x + x\n",
        {"torch.round(x) - x + x": "(torch.round(x) - x).detach() + x"},
    ),
    "of one that has a name": (
        "GG223",
        """
        def to_levels(x):
            step = torch.round(x) - x
            return x + step
        """,
        {"return x + step": "return x + step.detach()"},
    ),
    "a target is cut": (
        "GG218",
        """
        def train(net, memory, optimizer, gamma):
            for s, a, r, s2 in memory:
                q = net(s).gather(1, a)
                target = r + gamma * net(s2).max(1).values
                loss = F.mse_loss(q, target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
        {"r + gamma * net(s2).max(1).values": "(r + gamma * net(s2).max(1).values).detach()"},
    ),
    "the best state is copied": (
        "GG217",
        """
        def train(net, loader, optimizer):
            best, state = 1e9, None
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.mse_loss(net(x), y)
                loss.backward()
                optimizer.step()
                if loss.item() < best:
                    best, state = loss.item(), net.state_dict()
            net.load_state_dict(state)
        """,
        {"net.state_dict()": "{key: value.clone() for key, value in net.state_dict().items()}"},
    ),
    "with what the file imports": (
        "GG217",
        """
        import copy

        def train(net, loader, optimizer):
            best = 1e9
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.mse_loss(net(x), y)
                loss.backward()
                optimizer.step()
                if loss.item() < best:
                    best = loss.item()
                    state = net.state_dict()
            net.load_state_dict(state)
        """,
        {"state = net.state_dict()": "state = copy.deepcopy(net.state_dict())"},
    ),
    "layers in a list": (
        "GG213",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(8, 8) for _ in range(3)]

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x
        """,
        {"[nn.Linear(8, 8) for _ in range(3)]": "nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])"},
    ),
    "parameters beside layers": (
        "GG213",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(8))
                self.layers = [nn.Linear(8, 8) for _ in range(3)]
                self.biases = []
                for _ in range(3):
                    bias = nn.Parameter(torch.zeros(8))
                    self.biases.append(bias)

            def forward(self, x):
                for layer, bias in zip(self.layers, self.biases):
                    x = layer(x) + bias
                return x * self.scale
        """,
        {
            "[nn.Linear(8, 8) for _ in range(3)]": "nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])",
            "self.biases = []": "self.biases = nn.ParameterList([])",
        },
    ),
    "layers that are appended": (
        "GG213",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = []
                for _ in range(3):
                    self.layers.append(nn.Linear(8, 8))

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x
        """,
        {"self.layers = []": "self.layers = nn.ModuleList([])"},
    ),
    "a tensor that is to be trained": (
        "GG213",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.ones(8, requires_grad=True)

            def forward(self, x):
                return x * self.scale
        """,
        {"torch.ones(8, requires_grad=True)": "nn.Parameter(torch.ones(8, requires_grad=True))"},
    ),
    "a method that does both resets before its backward": (
        "GG201",
        """
        class Agent:
            def learn(self, loss):
                loss.backward()
                self.opt.step()

        def train(agent: Agent, net, loader):
            for x, y in loader:
                agent.learn(F.mse_loss(net(x), y))
        """,
        {"        loss.backward()\n": "        self.opt.zero_grad()\n        loss.backward()\n"},
    ),
    "parameters that the program moves itself": (
        "GG201",
        """
        def fit(x, y, rate):
            w = torch.zeros(8, requires_grad=True)
            for _ in range(1000):
                loss = ((x @ w - y) ** 2).mean()
                loss.backward()
                with torch.no_grad():
                    w -= rate * w.grad
        """,
        {"            w -= rate * w.grad\n": "            w -= rate * w.grad\n        w.grad.zero_()\n"},
    ),
    "what a generator leaves in the critic": (
        "GG214",
        """
        def train(loader, G, D):
            g_opt = torch.optim.Adam(G.parameters(), lr=1e-3)
            d_opt = torch.optim.Adam(D.parameters(), lr=1e-3)
            for x in loader:
                fake = G(torch.randn(len(x), 8))
                d_loss = F.softplus(-D(x)).mean() + F.softplus(D(fake.detach())).mean()
                d_loss.backward()
                d_opt.step()
                d_opt.zero_grad()
                F.softplus(-D(G(torch.randn(len(x), 8)))).mean().backward()
                g_opt.step()
                g_opt.zero_grad()
        """,
        {"        d_loss.backward()\n": "        d_opt.zero_grad()\n        d_loss.backward()\n"},
    ),
    "a scaler takes the step": (
        "GG211",
        LOOP.replace("loss.backward()", "scaler.scale(loss).backward()"),
        {"optimizer.step()\n": "scaler.step(optimizer)\n        scaler.update()\n"},
    ),
    "a scaler that is updated": (
        "GG211",
        LOOP.replace("loss.backward()", "scaler.scale(loss).backward()") + "            scaler.update()\n",
        {"optimizer.step()\n": "scaler.step(optimizer)\n"},
    ),
    "the collector stays on": (
        "GG504",
        """
        import gc

        def main(net, optimizer, loader):
            gc.disable()
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
        """,
        {"        gc.disable()\n": ""},
    ),
    "figures are closed": (
        "GG505",
        """
        import matplotlib.pyplot as plot

        def train(net, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
                fig, axes = plot.subplots()
                axes.plot(x)
                fig.savefig("x.png")
        """,
        {'fig.savefig("x.png")\n': 'fig.savefig("x.png")\n        plot.close(fig)\n'},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_what_an_edit_makes(name: str) -> None:
    code, text, changes = EDITS[name]
    after = dedent(text)
    for old, new in changes.items():
        old, new = (old, new) if old in after else (_dedented(old), _dedented(new))
        assert after.count(old) == 1, old
        after = after.replace(old, new)
    assert fixed(text, code) == after


@pytest.mark.parametrize(
    ("kept", "detached"),
    [
        ("loss", "loss.detach()"),
        ("2 * loss", "(2 * loss).detach()"),
        ("(loss / 8)", "(loss / 8).detach()"),
        ("( loss / 8 )", "( (loss / 8).detach() )"),
        ("(loss\n                / 8)", "(loss\n                / 8).detach()"),
        ("loss.mean(\n                0\n            )", "loss.mean(\n                0\n            ).detach()"),
    ],
)
def test_parentheses_and_lines_stay(kept: str, detached: str) -> None:
    text = "def f(net, loader, optimizer):\n    total = 0.0\n" + dedent(LOOP).split("\n", 2)[2]
    text += "        total = total + KEPT\n    return total\n"
    assert fixed(text.replace("KEPT", kept), "GG103") == text.replace("KEPT", detached)


def test_what_is_multiplied_has_parentheses_of_its_own() -> None:
    text = "def f(net, loader, optimizer, log):\n    log = []\n" + dedent(LOOP).split("\n", 2)[2]
    after = text + "        log.append(((loss + 1) * (loss + 2)).detach())\n"
    assert fixed(text + "        log.append((loss + 1) * (loss + 2))\n", "GG104") == after


MAYBE = {
    "penalty = loss * w if w else None": False,
    "penalty = 0\n            for p in net.parameters(): penalty += p.norm() * loss": False,
    "penalty = loss * w": True,
    "penalty = loss.exp()": True,
    "penalty = w and loss": False,
    "penalty = None\n            if w: penalty = loss * 2": False,
    "penalty = self.penalty(loss)\n\n    def penalty(self, loss):\n        return loss * 2": False,
}


@pytest.mark.parametrize("bound", MAYBE)
def test_what_may_be_none_or_a_number_is_no_safe_edit(bound: str) -> None:
    text = (
        HEADER
        + f"""
class Trainer:
    def train(self, net, loader, optimizer, w):
        kept = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            {bound.partition(chr(10) * 2)[0]}
            kept.append(penalty)
        return kept
"""
    )
    text += "".join(bound.partition("\n\n")[1:])
    result = check_text(text, "train.py", Settings(Path.cwd(), select=("GG104",)), catalogue.load())
    assert [finding.fix is not None and finding.fix.safe for finding in result.findings] == [MAYBE[bound]]


def _dedented(lines: str) -> str:
    """Whole lines of an indented text as they are without its indentation."""
    return "".join(line.removeprefix("    ") for line in lines.splitlines(keepends=True))


LEFT_AS_IT_IS: dict[str, tuple[str, str]] = {
    "a string of several lines would be indented": (
        "GG301",
        EVALUATES + '        print("""\n    done\n    """)\n',
    ),
    "another statement in the line": (
        "GG301",
        """
        def run(net, loader, optimizer=None):
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                if optimizer is not None:
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()

        def main(net: nn.Linear, train_loader, val_loader, optimizer):
            run(net, train_loader, optimizer)
            net.eval()
            run(net, val_loader); print("done")
        """,
    ),
    "what yields would switch its caller": (
        "GG301",
        """
        def epochs(net, loader, val_loader, optimizer):
            for epoch in range(10):
                net.train()
                for x, y in loader:
                    optimizer.zero_grad()
                    F.mse_loss(net(x), y).backward()
                    optimizer.step()
                net.eval()
                for x, y in val_loader:
                    yield (net(x).argmax(1) == y).sum().item()
        """,
    ),
    "a reset and a backward in different blocks": (
        "GG202",
        ACCUMULATES.replace(
            "            loss.backward()\n",
            "            with torch.autograd.profiler.record_function('b'):\n                loss.backward()\n"
            "            optimizer.zero_grad()\n",
        ),
    ),
    "a hook on what the loop binds": (
        "GG401",
        LOOP.replace("            optimizer.zero_grad()\n", "            hook = log.new()\n"
                     "            net.register_forward_hook(hook)\n            optimizer.zero_grad()\n"),
    ),
    "a state that an iteration may leave out": (
        "GG105",
        """
        def train(cell: nn.GRUCell, loader, optimizer):
            h = torch.zeros(8, 16)
            for x in loader:
                h = torch.tanh(cell(x, h))
                optimizer.zero_grad()
                h.sum().backward(retain_graph=True)
                if x.isnan().any():
                    continue
                optimizer.step()
        """,
    ),
    "a state that may be a tuple": (
        "GG105",
        """
        def train(rnn, loader, optimizer, state):
            for x in loader:
                out, state = rnn(x, state)
                optimizer.zero_grad()
                out.sum().backward(retain_graph=True)
                optimizer.step()
        """,
    ),
    "a perturbation whose gradient is asked for": (
        "GG105",
        """
        def attack(net, x, y, rate):
            delta = torch.zeros_like(x).requires_grad_()
            for _ in range(40):
                loss = F.cross_entropy(net(x + delta), y)
                delta = torch.clamp(delta + rate * torch.autograd.grad(loss, delta)[0], -1, 1)
            return delta
        """,
    ),
    "an exception that is named twice": (
        "GG110",
        """
        def train(net, loader, optimizer):
            failed = []
            for x in loader:
                try:
                    optimizer.zero_grad()
                    net(x).sum().backward()
                    optimizer.step()
                except RuntimeError as error:
                    failed.append((type(error), error))
            return failed
        """,
    ),
    "what the clipping needs comes behind the step": (
        "GG208",
        LOOP + "            weights = [p for p in net.parameters() if p.requires_grad]\n"
        "            nn.utils.clip_grad_norm_(weights, 1.0)\n",
    ),
    "a hook that the loop defines": (
        "GG401",
        LOOP.replace("            optimizer.zero_grad()\n", "            def save(m, i, o): log.last = o\n"
                     "            net.register_forward_hook(save)\n            optimizer.zero_grad()\n"),
    ),
    "a hook that the loop imports": (
        "GG401",
        LOOP.replace("            optimizer.zero_grad()\n", "            import hooks\n"
                     "            net.register_forward_hook(hooks.save)\n            optimizer.zero_grad()\n"),
    ),
    "a hook with a text of several lines": (
        "GG401",
        LOOP.replace("            optimizer.zero_grad()\n", "            net.register_forward_hook(log.saves(\"\"\"\n"
                     "            x\"\"\"))\n            optimizer.zero_grad()\n"),
    ),
    "a loader that is made there": (
        "GG405",
        """
        import itertools
        from torch.utils.data import DataLoader

        def train(net, data, optimizer):
            batches = itertools.cycle(DataLoader(data, 8))
            for step in range(1000):
                optimizer.zero_grad()
                net(next(batches)).sum().backward()
                optimizer.step()
        """,
    ),
    "layers under numbers": (
        "GG213",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = {i: nn.Linear(8, 8) for i in range(3)}

            def forward(self, x):
                return self.layers[0](x)
        """,
    ),
    "a sample in an attribute, marked by itself": (
        "GG407",
        """
        def attack(net, epochs):
            samples = [torch.randn(1, 3) for _ in range(1000)]
            for epoch in range(epochs):
                for i in range(1000):
                    samples[i].requires_grad_()
                    net(samples[i]).sum().backward()
        """,
    ),
    "the argument is not the last": (
        "GG207",
        LOOP.replace("loss.backward()", "loss.backward(retain_variables=True, gradient=None)"),
    ),
    "a figure that is only made now and then": (
        "GG505",
        """
        import matplotlib.pyplot as plt

        def train(net, loader, optimizer):
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
                if i % 10 == 0:
                    fig = plt.figure()
                    fig.savefig("x.png")
        """,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_AS_IT_IS)
def test_no_edit_where_it_may_be_wrong(name: str) -> None:
    code, text = LEFT_AS_IT_IS[name]
    assert fixed(text, code) == dedent(text)

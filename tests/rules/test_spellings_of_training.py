"""Gradients that are reset, graphs that are not recorded, states that are cut: in the words of many authors."""

from __future__ import annotations

from itertools import product

import pytest

from tests.rules.snippets import findings
from tests.rules.spellings import fill

# --- the reset of the gradients (GG201); {O} is the optimizer, {N} the model ---

TRAININGS = {
    "function": (
        """
        <helpers>

        def train(net, loader, epochs):
            opt = torch.optim.Adam(net.parameters(), lr=1e-3)
            for epoch in range(epochs):
                for i, (x, y) in enumerate(loader):
                    <step>
        """,
        ("opt", "net"),
    ),
    "given": (
        """
        <helpers>

        def train(model, optimizer, loader):
            model.train()
            for i, (x, y) in enumerate(loader):
                <step>
        """,
        ("optimizer", "model"),
    ),
    "method": (
        """
        <helpers>

        class Agent:
            def __init__(self, net):
                self.net = net
                self.opt = torch.optim.Adam(self.net.parameters())

            def update(self, x, y):
                <step>
                return float(loss)

        def main(net, loader):
            agent = Agent(net)
            for x, y in loader:
                agent.update(x, y)
        """,
        ("self.opt", "self.net"),
    ),
}

HELPERS = """
def reset(o):
    o.zero_grad()

def clear(m):
    for p in m.parameters():
        p.grad = None
"""

UPDATES = {
    "plain": "loss = F.mse_loss({N}(x), y)\n<reset>\nloss.backward()\n{O}.step()",
    "clipped": (
        "loss = F.mse_loss({N}(x), y)\n<reset>\nloss.backward()\n"
        "nn.utils.clip_grad_norm_({N}.parameters(), 1.0)\n{O}.step()"
    ),
    "by function": "<reset>\nloss = F.mse_loss({N}(x), y)\ntorch.autograd.backward(loss)\n{O}.step()",
    "after": "loss = F.mse_loss({N}(x), y)\nloss.backward()\n{O}.step()\n<reset>",
}

RESETS = (
    "{O}.zero_grad()",
    "{O}.zero_grad(set_to_none=True)",
    "{N}.zero_grad()",
    "reset({O})",
    "clear({N})",
    "for o in [{O}]:\n    o.zero_grad()",
    "[o.zero_grad() for o in ({O},)]",
    "again = {O}.zero_grad\nagain()",
    'getattr({O}, "zero_grad")()',
    "for p in {N}.parameters():\n    p.grad = None",
    "for p in {N}.parameters():\n    del p.grad",
    "for _, p in {N}.named_parameters():\n    p.grad = None",
    "for p in {N}.parameters():\n    p.grad.data.zero_()",
    "for p in {N}.parameters():\n    p.grad.fill_(0)",
    "for p in {N}.parameters():\n    p.grad.mul_(0.0)",
    "for p in {N}.parameters():\n    p.grad *= 0",
    "for p in {N}.parameters():\n    p.grad = torch.zeros_like(p)",
    'for p in {N}.parameters():\n    setattr(p, "grad", None)',
    'for g in {O}.param_groups:\n    for p in g["params"]:\n        p.grad = None',
    "torch._foreach_zero_([p.grad for p in {N}.parameters()])",
    "torch._foreach_mul_([p.grad for p in {N}.parameters()], 0)",
)

NO_RESETS = (
    "pass",
    "for p in {N}.parameters():\n    p.grad.mul_(0.5)",
    "for p in {N}.parameters():\n    p.grad *= 0.5",
    "torch._foreach_mul_([p.grad for p in {N}.parameters()], 0.5)",
    "again = {O}.state_dict\nagain()",
    'getattr({O}, "state_dict")()',
)


def training(place: str, update: str, reset: str) -> str:
    program, (optimizer, net) = TRAININGS[place]
    step = fill(UPDATES[update], reset=reset).format(O=optimizer, N=net)
    return fill(program, helpers=HELPERS, step=step)


@pytest.mark.parametrize(("place", "update"), list(product(TRAININGS, UPDATES)))
def test_reset(place: str, update: str) -> None:
    for reset in RESETS:
        assert not findings(training(place, update, reset)), reset
    for other in NO_RESETS:
        assert {f.code for f in findings(training(place, update, other))} == {"GG201"}, other


# --- an evaluation that records no graphs (GG301) ---

EVALUATIONS = {
    "function": (
        """
        import contextlib

        <decorator>
        def evaluate(net, loader):
            net.eval()
            found = []
            <within>
        """,
        "net",
    ),
    "method": (
        """
        import contextlib

        class Trainer:
            def __init__(self, net, val_loader):
                self.net, self.val_loader = net, val_loader

            <decorator>
            def validate(self):
                loader = self.val_loader
                self.net.eval()
                found = []
                <within>
        """,
        "self.net",
    ),
    "script": (
        """
        import contextlib

        net = nn.Sequential(nn.Linear(4, 4))
        net.load_state_dict(torch.load("net.pt"))
        loader = torch.utils.data.DataLoader(torch.load("data.pt"))
        net.eval()
        found = []
        <within>
        """,
        "net",
    ),
}

FORWARDS = (
    "for x, y in loader:\n    found.append({N}(x).argmax(-1).cpu())",
    "for x, y in loader:\n    found.append(F.cross_entropy({N}(x), y).item())",
    "for x, y in loader:\n    output = {N}(x)\n    found.append(output)",
)

WITHOUT_GRAPHS = (
    "with torch.no_grad():\n    <loop>",
    "with torch.inference_mode():\n    <loop>",
    "with torch.set_grad_enabled(False):\n    <loop>",
    "with torch.autograd.no_grad():\n    <loop>",
    'with torch.no_grad(), torch.autocast("cuda"):\n    <loop>',
    "torch.set_grad_enabled(False)\n<loop>",
    "context = torch.no_grad()\nwith context:\n    <loop>",
    "context = torch.inference_mode\nwith context():\n    <loop>",
    "torch.no_grad().__enter__()\n<loop>",
    "guard = torch.no_grad()\nguard.__enter__()\n<loop>\nguard.__exit__(None, None, None)",
    "stack = contextlib.ExitStack()\nstack.enter_context(torch.no_grad())\n<loop>",
    "for p in {N}.parameters():\n    p.requires_grad = False\n<loop>",
    "{N}.requires_grad_(False)\n<loop>",
)

WITH_GRAPHS = (
    "<loop>",
    "with torch.enable_grad():\n    <loop>",
    'with torch.autocast("cuda"):\n    <loop>',
    "context = contextlib.nullcontext()\nwith context:\n    <loop>",
    "torch.no_grad()\n<loop>",
    "with torch.no_grad():\n    pass\n<loop>",
    "guard = torch.no_grad()\nguard.__enter__()\nguard.__exit__(None, None, None)\n<loop>",
)


def evaluation(place: str, within: str, forward: str, decorator: str = "") -> str:
    program, net = EVALUATIONS[place]
    return fill(program, decorator=decorator, within=fill(within, loop=forward).format(N=net))


@pytest.mark.parametrize("place", EVALUATIONS)
@pytest.mark.parametrize("forward", FORWARDS)
def test_mode(place: str, forward: str) -> None:
    for within in WITHOUT_GRAPHS:
        assert not findings(evaluation(place, within, forward)), within
    for within in WITH_GRAPHS:
        asked = "enable_grad" in within  # who asks for graphs may have a use for them
        assert asked or "GG301" in {f.code for f in findings(evaluation(place, within, forward))}, within


@pytest.mark.parametrize("decorator", ["@torch.no_grad()", "@torch.no_grad", "@torch.inference_mode()"])
@pytest.mark.parametrize("place", ["function", "method"])
def test_decorated(place: str, decorator: str) -> None:
    for forward in FORWARDS:
        assert not findings(evaluation(place, "<loop>", forward, decorator))


# --- a state that each iteration takes over from the one before (GG105, GG203) ---

HEADER = """
from torch.utils._pytree import tree_map

def repackage(state):
    if isinstance(state, torch.Tensor):
        return state.detach()
    return tuple(repackage(part) for part in state)

class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.rnn = nn.LSTM(8, 8)
        self.head = nn.Linear(8, 10)

    def forward(self, x, state=None):
        out, state = self.rnn(self.embedding(x), state)
        return self.head(out), state
"""

CARRYING = {
    "local": (
        """
        <header>

        def train(loader):
            model = Language()
            opt = torch.optim.SGD(model.parameters(), lr=1.0)
            state = None
            for x, y in loader:
                <first>
                out, state = model(x, state)
                <step>
                <last>
        """,
        "state",
    ),
    "attribute": (
        """
        <header>

        class Trainer:
            def __init__(self):
                self.model = Language()
                self.opt = torch.optim.SGD(self.model.parameters(), lr=1.0)
                self.state = None

            def fit(self, loader):
                opt = self.opt
                for x, y in loader:
                    <first>
                    out, self.state = self.model(x, self.state)
                    <step>
                    <last>
        """,
        "self.state",
    ),
    "of torch": (
        """
        <header>

        def train(loader):
            rnn = nn.LSTM(8, 8)
            opt = torch.optim.SGD(rnn.parameters(), lr=1.0)
            state = None
            for x, y in loader:
                <first>
                out, new = rnn(x, state)
                state = new
                <step>
                <last>
        """,
        "state",
    ),
}

CUTS = (
    "{S} = tuple(part.detach() for part in {S})",
    "{S} = [part.detach() for part in {S}]",
    "{S} = tuple([part.data for part in {S}])",
    "{S} = repackage({S})",
    "{S} = tree_map(lambda part: part.detach(), {S})",
    "{S} = tuple(map(torch.Tensor.detach, {S}))",
    "{S} = tuple(map(lambda part: part.detach(), {S}))",
    "{S} = ({S}[0].detach(), {S}[1].detach())",
    "hidden, cell = {S}\n{S} = (hidden.detach(), cell.detach())",
    "for part in {S}:\n    part.detach_()",
    "with torch.no_grad():\n    {S} = tuple(part.clone() for part in {S})",
    "{S} = None",
)


def carrying(place: str, backward: str, *, first: str = "pass", last: str = "pass") -> str:
    program, path = CARRYING[place]
    step = f"loss = F.cross_entropy(out.view(-1, 10), y.view(-1))\nopt.zero_grad()\n{backward}\nopt.step()"
    return fill(program, header=HEADER, step=step, first=first.format(S=path), last=last.format(S=path))


@pytest.mark.parametrize("place", CARRYING)
def test_state(place: str) -> None:
    def codes(source: str) -> set[str]:
        return {f.code for f in findings(source)} & {"GG105", "GG203"}

    assert codes(carrying(place, "loss.backward()")) == {"GG203"}
    assert codes(carrying(place, "loss.backward(retain_graph=True)")) == {"GG105"}
    for cut in CUTS:
        for backward in ("loss.backward()", "loss.backward(retain_graph=True)"):
            assert not codes(carrying(place, backward, last=cut)), cut
            first = "if {S} is not None:\n    <cut>"
            assert not codes(carrying(place, backward, first=fill(first, cut=cut))), cut

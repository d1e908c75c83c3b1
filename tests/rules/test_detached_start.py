from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG234"

# All in one function.
LOOP = """
    from collections import OrderedDict
    from torch.func import functional_call

    def train(model, tasks, lr):
        optimizer = torch.optim.Adam({trained})
        for batch in tasks:
            optimizer.zero_grad()
            total = 0
            for (xs, ys), (xq, yq) in batch:
                fast = {start}{mark}
                for _ in range(5):
                    loss = F.mse_loss(functional_call(model, fast, (xs,)), ys)
                    grads = torch.autograd.grad(loss, list(fast.values()), {made})
                    fast = {{n: w - lr * g for (n, w), g in zip(fast.items(), grads)}}
                total = total + F.mse_loss(functional_call(model, fast, (xq,)), yq){more}
            total.backward()
            {by_hand}
            optimizer.step()
"""
START = "{n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}"


def loop(
    start: str = START,
    made: str = "create_graph=True",
    *,
    trained: str = "model.parameters()",
    more: str = "",
    by_hand: str = "pass",
    mark: str = "",
) -> str:
    return LOOP.format(start=start, made=made, trained=trained, more=more, by_hand=by_hand, mark=mark)


# An object adapts, by its methods.
LEARNER = """
    class Learner(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net
            self.names = [name for name, _ in net.named_parameters()]
            self.optimizer = torch.optim.Adam(self.net.parameters())

        def run(self, weights, x):
            return torch.func.functional_call(self.net, dict(zip(self.names, weights)), x)

        def adapt(self, x, y):
            weights = {start}{mark}
            for _ in range(5):
                grads = torch.autograd.grad(F.mse_loss(self.run(weights, x), y), weights, {made})
                weights = [w - 0.1 * g for w, g in zip(weights, grads)]
            return weights

        def step(self, tasks):
            self.optimizer.zero_grad()
            for (xs, ys), (xq, yq) in tasks:
                F.mse_loss(self.run(self.adapt(xs, ys), xq), yq).backward()
            {behind}
            self.optimizer.step()
"""


def learner(start: str, made: str = "create_graph=True", behind: str = "pass", mark: str = "") -> str:
    return LEARNER.format(start=start, made=made, behind=behind, mark=mark)


@pytest.mark.parametrize(
    "snippet",
    [
        loop(mark="  # !"),
        loop(START.replace("p.detach().clone()", "p.clone().detach()"), mark="  # !"),
        loop(START.replace("p.detach()", "p.data"), mark="  # !"),
        loop("{n: nn.Parameter(p.detach().clone()) for n, p in model.named_parameters()}", mark="  # !"),
        learner("[p.detach().clone().requires_grad_(True) for p in self.net.parameters()]", mark="  # !"),
        learner("[p.data.clone().requires_grad_() for p in self.net.parameters()]", mark="  # !"),
        loop("{n: v.clone().requires_grad_() for n, v in model.state_dict().items()}", mark="  # !"),
        loop("dict((n, v.clone().requires_grad_(True)) for n, v in model.state_dict().items())", mark="  # !"),
        loop("{n: nn.Parameter(v.clone()) for n, v in model.state_dict().items()}", mark="  # !"),
        loop(
            "OrderedDict((n, p.detach().clone().requires_grad_()) for n, p in model.named_parameters())", mark="  # !"
        ),
        learner("[v.clone().requires_grad_() for v in self.net.state_dict().values()]", mark="  # !"),
    ],
)
def test_copies_without_a_graph(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        loop("{n: p.clone() for n, p in model.named_parameters()}"),
        loop("dict(model.named_parameters())"),
        loop("{n: p for n, p in model.named_parameters()}"),
        loop("{n: v.clone() for n, v in model.state_dict(keep_vars=True).items()}"),
        loop("{n: v.clone().requires_grad_() for n, v in model.state_dict(keep_vars=True).items()}"),
        loop("{n: v.clone().requires_grad_() for n, v in model.state_dict().items()}", "create_graph=False"),
        loop("{n: v.clone().requires_grad_() for n, v in model.state_dict().items()}", trained="rates.parameters()"),
        loop("{n: v.clone().requires_grad_() for n, v in expert.state_dict().items()}"),
        loop("{n: v.clone().requires_grad_() for n, v in model.state_dict().items() if n in heads}"),
        loop("dict((n, p.clone()) for n, p in model.named_parameters())"),
        loop("{n: p.clone().requires_grad_() for n, p in model.named_parameters()}"),
        learner("[v.clone().requires_grad_() for v in self.net.state_dict(keep_vars=True).values()]"),
        loop(made="create_graph=False"),  # first order, as far as this tells
        loop(made="retain_graph=True"),
        loop(made="create_graph=second_order"),
        loop(trained="rates.parameters()"),  # it is something else that learns
        loop("{n: p.detach().clone().requires_grad_() for n, p in expert.named_parameters()}"),
        loop("{n: p.detach().clone().requires_grad_() for n, p in model.named_parameters() if n in heads}"),
        loop(more=" + 0.1 * F.mse_loss(model(xq), yq)"),
        loop(more=" + 1e-4 * sum(p.square().sum() for p in model.parameters())"),
        loop(by_hand="for p, w in zip(model.parameters(), fast.values()): p.grad = w.grad"),
        loop(by_hand="for p, w in zip(model.parameters(), fast.values()): p.grad.add_(p.data - w.data)"),
        learner("[p.clone() for p in self.net.parameters()]"),
        learner("list(self.net.parameters())"),
        learner("[p.detach().clone().requires_grad_() for p in self.net.parameters()]", "create_graph=not self.first"),
        learner(
            "[p.detach().clone().requires_grad_() for p in self.net.parameters()]",
            behind="F.mse_loss(self.net(xs), ys).backward()",
        ),
        learner("[p.detach().clone().requires_grad_() for p in self.teacher.parameters()]"),
    ],
)
def test_look_alikes(snippet: str) -> None:
    assert_clean(snippet, CODE)


INNER = """
    import torch
    import torch.nn.functional as F
    from torch.func import functional_call

    class Inner:
        def __init__(self, model, rate):
            self.model, self.rate = model, rate

        def begin(self):
            return {start}

        def adapt(self, x, y):
            fast = self.begin()
            for _ in range(3):
                loss = F.mse_loss(functional_call(self.model, fast, (x,)), y)
                grads = torch.autograd.grad(loss, tuple(fast.values()), create_graph=True)
                fast = {{n: w - self.rate * g for (n, w), g in zip(fast.items(), grads)}}
            return fast

        def loss(self, support, query):
            fast = self.adapt(*support)
            return F.mse_loss(functional_call(self.model, fast, (query[0],)), query[1])
"""
OUTER = """
    import torch
    from inner import Inner

    def train(model, tasks):
        inner = Inner(model, 0.01)
        optimizer = torch.optim.Adam({of}.parameters())
        for batch in tasks:
            optimizer.zero_grad()
            losses = [inner.loss(support, query) for support, query in batch]
            torch.stack(losses).mean().backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("start", "of", "found"),
    [
        ("{n: p.detach().clone().requires_grad_() for n, p in self.model.named_parameters()}", "model", True),
        ("{n: v.clone().requires_grad_() for n, v in self.model.state_dict().items()}", "model", True),
        ("{n: p.clone() for n, p in self.model.named_parameters()}", "model", False),
        ("{n: p.detach().clone().requires_grad_() for n, p in self.model.named_parameters()}", "tasks.encoder", False),
    ],
)
def test_an_object_of_another_file(start: str, of: str, found: bool, tmp_path: Path) -> None:
    files = {"inner.py": INNER.format(start=start), "outer.py": OUTER.format(of=of)}
    assert lines_in_files(tmp_path, files, CODE) == ([("inner.py", 11)] if found else [])


# A module adapts its own part, and whoever calls it says whether the graph is made.
MODULE = """
    from torch.func import functional_call

    class Meta(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def begin(self):
            return {n: p.clone().detach().requires_grad_() for n, p in self.net.named_parameters()}  # !

        def adapt(self, x, y, second_order=True):
            fast = self.begin()
            for _ in range(3):
                loss = F.mse_loss(functional_call(self.net, fast, (x,)), y)
                grads = torch.autograd.grad(loss, list(fast.values()), create_graph=second_order)
                fast = {n: w - 0.1 * g for (n, w), g in zip(fast.items(), grads)}
            return fast

        def forward(self, x, y, xq, yq):
            fast = self.adapt(x, y)
            return F.mse_loss(functional_call(self.net, fast, (xq,)), yq)

    def train(tasks):
        meta = Meta(Net())
        optimizer = torch.optim.Adam(meta.parameters())
        for x, y, xq, yq in tasks:
            loss = meta(x, y, xq, yq)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    "snippet",
    [
        MODULE,
        MODULE.replace("meta(x, y, xq, yq)", "meta.forward(x, y, xq, yq)"),
        MODULE.replace("second_order=True)", "second_order=False)").replace("adapt(x, y)", "adapt(x, y, True)"),
        MODULE.replace("second_order=True)", "second_order)").replace("adapt(x, y)", "adapt(x, y, second_order=True)"),
        MODULE.replace("create_graph=second_order", "create_graph=True"),
        MODULE.replace("meta.parameters()", "meta.net.parameters()"),
        MODULE.replace("def forward(self, x", "def query(self, x").replace("meta(x, y, xq", "meta.query(x, y, xq"),
    ],
)
def test_a_module_that_adapts_its_own_part(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("p.clone().detach().requires_grad_()", "p.clone()")],
        [("self.adapt(x, y)", "self.adapt(x, y, second_order=False)")],
        [("self.adapt(x, y)", "self.adapt(x, y, second_order=self.training)")],
        [("self.adapt(x, y)", "self.adapt(*task)"), ("forward(self, x, y, xq, yq)", "forward(self, task, xq, yq)")],
        [("second_order=True):", "second_order=False):")],
        [("        fast = self.begin()", "        second_order = self.epoch > 10\n            fast = self.begin()")],
        [("F.mse_loss(functional_call(self.net, fast, (xq,)), yq)", "F.mse_loss(functional_call(self.net, fast, (xq,)),"
          " yq) + F.mse_loss(self.net(xq), yq)")],
        [("w - 0.1 * g", "w - self.rate * g"), ("self.net = net", "self.net = net\n            self.rate = "
          "nn.Parameter(torch.tensor(0.1))")],
        [("meta.parameters()", "head.parameters()")],
        [("            optimizer.step()", "            move_towards(meta, 0.1)")],
    ],
)  # fmt: skip
def test_look_alikes_of_a_module(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(MODULE, *edits), CODE)

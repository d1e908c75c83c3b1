from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG216"
STEP = ("optimizer.zero_grad()", "loss = F.mse_loss(model(x), y)", "loss.backward()", "optimizer.step()")


def loop(*lines: str, over: str = "x, y in loader") -> str:
    body = "\n                ".join(lines)
    return f"""
        def train(model, loader, criterion, lr, epochs):
            for {over}:
                {body}
    """


FLAGGED = {
    "adam": loop("optimizer = torch.optim.Adam(model.parameters(), lr=lr)  # !", *STEP),
    "momentum": loop("optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.9)  # !", *STEP),
    "momentum, by its place": loop("optimizer = torch.optim.SGD(model.parameters(), lr, 0.9)  # !", *STEP),
    "of what learns": loop(
        "optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)  # !", *STEP
    ),
    "after the backward": loop(
        "F.mse_loss(model(x), y).backward()",
        "optimizer = torch.optim.RMSprop(model.parameters(), lr=lr)  # !",
        "optimizer.step()",
        "optimizer.zero_grad()",
    ),
    "in an inner loop": loop(
        "for x, y in loader:",
        "    optimizer = torch.optim.Adam(model.parameters(), lr=lr)  # !",
        *(f"    {line}" for line in STEP),
        over="epoch in range(epochs)",
    ),
    "a step that is left out at times": loop(
        "optimizer = torch.optim.Adam(model.parameters(), lr=lr)  # !",
        *STEP[:3],
        "if loss.isfinite():",
        "    optimizer.step()",
    ),
    "an attribute": """
        class Trainer:
            def __init__(self, net):
                self.net = net

            def fit(self, batches):
                for x, y in batches:
                    self.opt = torch.optim.Adam(self.net.parameters())  # !
                    self.opt.zero_grad()
                    F.mse_loss(self.net(x), y).backward()
                    self.opt.step()
    """,
    "in a helper": """
        def train_on(net, x, y):
            opt = torch.optim.Adam(net.parameters(), lr=1e-3)  # !
            opt.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            opt.step()
            return loss.item()

        def fit(net, loader):
            for x, y in loader:
                print(train_on(net, x, y))
    """,
    "by a helper": """
        def make_optimizer(net, lr):
            return torch.optim.Adam(net.parameters(), lr=lr)

        def fit(net, loader):
            for x, y in loader:
                opt = make_optimizer(net, 1e-3)  # !
                opt.zero_grad()
                F.mse_loss(net(x), y).backward()
                opt.step()
    """,
    "by a helper that gives it a name": """
        def build(net, cfg):
            built = torch.optim.AdamW(net.parameters(), lr=cfg.lr)
            return built

        def fit(net, cfg, loader):
            for x, y in loader:
                opt = build(net, cfg)  # !
                loss = F.mse_loss(net(x), y)
                loss.backward()
                opt.step()
                opt.zero_grad()
    """,
    "by a method": """
        class Trainer:
            def make(self):
                return torch.optim.AdamW(self.net.parameters(), lr=self.lr)

            def fit(self, loader):
                for x, y in loader:
                    optimizer = self.make()  # !
                    loss = F.mse_loss(self.net(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
    """,
    "by a method, for an attribute": """
        class Trainer:
            def make(self):
                return torch.optim.AdamW(self.net.parameters(), lr=self.lr)

            def fit(self, loader):
                for x, y in loader:
                    self.opt = self.make()  # !
                    self.opt.zero_grad()
                    F.mse_loss(self.net(x), y).backward()
                    self.opt.step()
    """,
    "a state that begins anew in each step": loop(
        "hidden = model.init_hidden()",
        "optimizer = torch.optim.Adam(model.parameters())  # !",
        "optimizer.zero_grad()",
        "out, hidden = model(x, hidden)",
        "loss = F.mse_loss(out, y)",
        "loss.backward()",
        "optimizer.step()",
    ),
    "an episode that begins anew": loop(
        "state = env.reset()", "optimizer = torch.optim.Adam(model.parameters())  # !", *STEP
    ),
    "another network that is loaded": loop(
        "target.load_state_dict(model.state_dict())", "optimizer = torch.optim.Adam(model.parameters())  # !", *STEP
    ),
}

CLEAN = {
    "before the loop": """
        def train(model, loader, lr):
            optimizer = torch.optim.Adam(model.parameters(), lr=lr)
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
    """,
    "it keeps nothing": loop("optimizer = torch.optim.SGD(model.parameters(), lr=lr)", *STEP),
    "no momentum": loop("optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0)", *STEP),
    "many steps in one": loop(
        "optimizer = torch.optim.LBFGS(model.parameters())",
        "def closure():",
        "    optimizer.zero_grad()",
        "    loss = F.mse_loss(model(x), y)",
        "    loss.backward()",
        "    return loss",
        "optimizer.step(closure)",
    ),
    "one for each epoch": loop(
        "optimizer = torch.optim.Adam(model.parameters(), lr=lr)",
        "for x, y in loader:",
        *(f"    {line}" for line in STEP),
        over="epoch in range(epochs)",
    ),
    "one for each epoch, in a helper": """
        def train_epoch(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()

        def fit(model, loader, epochs):
            for epoch in range(epochs):
                optimizer = torch.optim.Adam(model.parameters(), lr=0.1 / (epoch + 1))
                train_epoch(model, loader, optimizer)
    """,
    "a model for each": loop(
        "model = nn.Linear(4, 1)", "optimizer = torch.optim.Adam(model.parameters(), lr=lr)", *STEP
    ),
    "one of several models": """
        def boost(models, batches):
            for model, (x, y) in zip(models, batches):
                optimizer = torch.optim.Adam(model.parameters())
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
    """,
    "an image that is optimized": loop(
        "image = x.clone().requires_grad_()",
        "optimizer = torch.optim.Adam([image], lr=lr)",
        "optimizer.zero_grad()",
        "model(image).sum().backward()",
        "optimizer.step()",
    ),
    "the model is brought back": loop(
        "model.load_state_dict(start)", "optimizer = torch.optim.Adam(model.parameters(), lr=lr)", *STEP
    ),
    "a helper that brings the model back": """
        def adapt(net, start, x):
            net.load_state_dict(start)
            opt = torch.optim.Adam(net.parameters())
            net(x).mean().backward()
            opt.step()

        def all(net, start, loader):
            for x in loader:
                adapt(net, start, x)
    """,
    "a method that begins anew": """
        class Tent:
            def reset(self):
                self.net.load_state_dict(self.start)

            def adapt(self, x):
                self.reset()
                opt = torch.optim.Adam(self.net.parameters())
                opt.zero_grad()
                self.net(x).mean().backward()
                opt.step()

            def run(self, loader):
                for x in loader:
                    self.adapt(x)
    """,
    "a function that restores the weights": loop(
        "restore_weights(model, start)", "optimizer = torch.optim.Adam(model.parameters(), lr=lr)", *STEP
    ),
    "a copy is adapted": """
        import copy

        def adapt(net, tasks):
            for x, y in tasks:
                fast = copy.deepcopy(net)
                optimizer = torch.optim.Adam(fast.parameters())
                F.mse_loss(fast(x), y).backward()
                optimizer.step()
    """,
    "under a condition": loop(
        "if changed(x):",
        "    optimizer = torch.optim.Adam(model.parameters(), lr=lr)",
        *STEP,
    ),
    "three times": loop(
        "optimizer = torch.optim.Adam(model.parameters(), lr=lr)",
        "x, y = next(iter(loader))",
        *STEP,
        over="lr in (0.1, 0.01, 0.001)",
    ),
    "by a helper, before the loop": """
        def make_optimizer(net, lr):
            return torch.optim.Adam(net.parameters(), lr=lr)

        def fit(net, loader):
            opt = make_optimizer(net, 1e-3)
            for x, y in loader:
                opt.zero_grad()
                F.mse_loss(net(x), y).backward()
                opt.step()
    """,
    "by a helper, for each epoch": """
        def make_optimizer(net, lr):
            return torch.optim.Adam(net.parameters(), lr=lr)

        def fit(net, loader, epochs):
            for epoch in range(epochs):
                opt = make_optimizer(net, 1 / (epoch + 1))
                for x, y in loader:
                    opt.zero_grad()
                    F.mse_loss(net(x), y).backward()
                    opt.step()
    """,
    "by a helper that keeps it": """
        class Trainer:
            def make(self):
                if self.optimizer is None:
                    self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=self.lr)
                return self.optimizer

            def fit(self, loader):
                for x, y in loader:
                    optimizer = self.make()
                    loss = F.mse_loss(self.net(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
    """,
    "by a helper, for a model that is made there": """
        def start(width):
            net = nn.Linear(width, 1)
            return net, torch.optim.Adam(net.parameters())

        def widths(sizes, x, y):
            for width in sizes:
                net, opt = start(width)
                F.mse_loss(net(x), y).backward()
                opt.step()
    """,
    "by a helper, of a copy": """
        import copy

        def make_optimizer(net):
            return torch.optim.Adam(net.parameters())

        def adapt(net, tasks):
            for x, y in tasks:
                fast = copy.deepcopy(net)
                opt = make_optimizer(fast)
                F.mse_loss(fast(x), y).backward()
                opt.step()
    """,
    "a helper that is called once": """
        def train_on(net, x, y):
            opt = torch.optim.Adam(net.parameters(), lr=1e-3)
            opt.zero_grad()
            F.mse_loss(net(x), y).backward()
            opt.step()

        def check(net, x, y):
            train_on(net, x, y)
    """,
    "for each task, many steps": """
        def tasks(net, tasks):
            for task in tasks:
                opt = torch.optim.Adam(net.parameters())
                for _ in range(task.steps):
                    x, y = task.sample()
                    opt.zero_grad()
                    F.mse_loss(net(x), y).backward()
                    opt.step()
    """,
    "weights that a helper puts back": """
        def give(net, arrays):
            for p, a in zip(net.parameters(), arrays):
                p.data = torch.as_tensor(a)

        def rounds(model, arrays, loader):
            for x, y in loader:
                give(model, arrays)
                optimizer = torch.optim.Adam(model.parameters())
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
    """,
    "weights that a method puts back": """
        class Start:
            def __init__(self, model):
                self.model = model
                self.kept = [p.detach().clone() for p in model.parameters()]

            def again(self):
                with torch.no_grad():
                    for p, w in zip(self.model.parameters(), self.kept):
                        p[...] = w

        def adapt(model, loader):
            start = Start(model)
            for x, y in loader:
                start.again()
                optimizer = torch.optim.Adam(model.parameters())
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
    """,
    "weights that are drawn anew": loop(
        "for p in model.parameters(): nn.init.normal_(p)", "optimizer = torch.optim.Adam(model.parameters())", *STEP
    ),
    "weights of a vector": loop(
        "vector_to_parameters(start, model.parameters())", "optimizer = torch.optim.Adam(model.parameters())", *STEP
    ),
    "a state that is handed on": loop(
        "optimizer = torch.optim.Adam(model.parameters())", "optimizer.state = state", *STEP, "state = optimizer.state"
    ),
    "a network of its own by a number": """
        def clients(nets, loaders):
            for i in range(len(nets)):
                x, y = next(loaders[i])
                optimizer = torch.optim.Adam(nets[i].parameters())
                optimizer.zero_grad()
                F.mse_loss(nets[i](x), y).backward()
                optimizer.step()
    """,
    "a field that is made anew": """
        class Attack:
            def run(self, loader):
                for x, y in loader:
                    self.delta = torch.zeros_like(x, requires_grad=True)
                    optimizer = torch.optim.Adam([self.delta])
                    optimizer.zero_grad()
                    F.cross_entropy(self.model(x + self.delta), y).backward()
                    optimizer.step()
    """,
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_what_makes_it_is_in_another_file(tmp_path: Path) -> None:
    files = {
        "factory.py": """
            import torch

            def build_optimizer(net, cfg):
                return torch.optim.Adam(net.parameters(), lr=cfg.lr)
        """,
        "train.py": """
            import torch.nn.functional as F
            from factory import build_optimizer

            def fit(net, cfg, loader):
                for x, y in loader:
                    opt = build_optimizer(net, cfg)
                    opt.zero_grad()
                    F.mse_loss(net(x), y).backward()
                    opt.step()
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("train.py", 7)]
    files["factory.py"] = files["factory.py"].replace("Adam", "SGD")
    assert lines_in_files(tmp_path, files, CODE) == []

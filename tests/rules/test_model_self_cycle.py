from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG408"

FLAGGED = {
    "what holds a model": """
        import copy

        class Client:
            def __init__(self, net, clip):
                self.net = copy.deepcopy(net)
                self.clip = clip
                self.filters = [self.scale]  # !

            def scale(self, update):
                return update * self.clip

            def fit(self, x, y):
                F.mse_loss(self.net(x), y).backward()
                return self.scale(self.net.weight.grad)

        def trials(net, x, y):
            for trial in range(100):
                client = Client(net, 0.1)
                client.fit(x, y)
    """,
    "lambda": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 1)
                self.scale = 2.0
                self.act = lambda x: self.scale * x  # !

        def search(train, rates):
            for lr in rates:
                model = Net()
                train(model, torch.optim.SGD(model.parameters(), lr=lr))
    """,
    "bound method, folds": """
        class Regressor(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.fc = nn.Linear(width, 1)
                self.head = self._linear  # !

            def _linear(self, x):
                return self.fc(x)

        def cross_validate(folds, train):
            scores = []
            for fold in folds:
                scores.append(train(Regressor(32).cuda(), fold))
            return scores
    """,
    "inner function, seeds": """
        class Gate(nn.Module):
            def __init__(self, dim, temperature=1.0):
                super().__init__()
                self.temperature = temperature

                def gate(x):
                    return torch.sigmoid(x / self.temperature)

                self.gate = gate  # !

        for seed in range(20):
            torch.manual_seed(seed)
            net = Gate(64)
            for _ in range(100):
                net.gate(torch.randn(8, 64)).mean().item()
    """,
    "one of two functions": """
        class Block(nn.Module):
            def __init__(self, residual=True):
                super().__init__()
                self.conv = nn.Conv2d(3, 3, 3, padding=1)
                self.forward_fn = self._residual if residual else self._plain  # !

            def _plain(self, x):
                return self.conv(x)

            def _residual(self, x):
                return x + self.conv(x)

        def trials(configs, fit):
            return min(fit(Block(residual)) for residual in configs)
    """,
    "dict of methods": """
        class Multi(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)
                self.ops = {"mean": self.mean, "max": self.max}  # !

            def mean(self, x):
                return self.fc(x).mean()

            def max(self, x):
                return self.fc(x).max()

        def study(n, objective):
            best = 0.0
            while n > 0:
                best = max(best, objective(Multi()))
                n -= 1
            return best
    """,
    "hook over self, kept": """
        class Probe(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)
                self.last = None
                self.handle = self.fc.register_forward_hook(lambda m, i, o: self.save(o))  # !

            def save(self, o):
                self.last = o.detach()

        def sweep(loaders, train):
            for loader in loaders:
                probe = Probe()
                train(probe, loader)
    """,
    "partial of a method": """
        from functools import partial

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)
                self.up = partial(self._resize, 2)  # !

            def _resize(self, factor, x):
                return F.interpolate(self.fc(x), scale_factor=factor)

        def main(widths, evaluate):
            for width in widths:
                evaluate(Net().to("cuda"), width)
    """,
    "the loop calls a function that makes it": """
        class Model(nn.Module):
            def __init__(self, bias):
                super().__init__()
                self.body = nn.Linear(4, 4)
                self.loss_fn = lambda out, y: F.mse_loss(out, y) + bias * self.body.weight.norm()  # !

        def run(bias, loader):
            model = Model(bias)
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                model.loss_fn(model.body(x), y).backward()
                optimizer.step()

        def grid(loader):
            for bias in (0.0, 0.1, 1.0):
                run(bias, loader)
    """,
}

CLEAN = {
    "what holds a model, and names of its methods": twin(FLAGGED["what holds a model"], ("[self.scale]", '["scale"]')),
    "one model": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 2.0
                self.act = lambda x: self.scale * x

        def main(loader, optimizer):
            model = Net()
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model.act(x), y).backward()
                optimizer.step()
    """,
    "no self in the lambda": """
        class Net(nn.Module):
            def __init__(self, scale):
                super().__init__()
                self.scale = scale
                self.act = lambda x: scale * F.relu(x)
                self.norm = lambda x, s=self.scale: x / s

        def search(train, scales):
            for scale in scales:
                train(Net(scale))
    """,
    "static method": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fn = self._gelu

            @staticmethod
            def _gelu(x):
                return x * torch.sigmoid(1.702 * x)

        def search(train, rates):
            for lr in rates:
                train(Net(), lr)
    """,
    "weak reference": """
        import weakref

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 2.0
                me = weakref.ref(self)
                self.act = lambda x: me().scale * x
                self.method = weakref.WeakMethod(self.forward)

            def forward(self, x):
                return self.act(x)

        for seed in range(10):
            net = Net()
    """,
    "partial without self": """
        from functools import partial

        class Net(nn.Module):
            def __init__(self, slope):
                super().__init__()
                self.act = partial(F.leaky_relu, negative_slope=slope)
                self.pool = partial(F.avg_pool2d, kernel_size=2)

        def search(train):
            for slope in (0.01, 0.1):
                train(Net(slope))
    """,
    "functions of torch": """
        class Net(nn.Module):
            def __init__(self, act):
                super().__init__()
                self.act = F.relu
                self.out = torch.sigmoid
                self.mid = {"relu": F.relu, "tanh": torch.tanh}[act]
                self.norm = nn.LayerNorm(8)

        def search(train):
            for act in ("relu", "tanh"):
                train(Net(act))
    """,
    "collected after each trial": """
        import gc

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 2.0
                self.act = lambda x: self.scale * x

        def search(train, rates):
            for lr in rates:
                model = Net()
                train(model, lr)
                del model
                gc.collect()
    """,
    "blocks of one model": """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)
                self.fn = self._inner

            def _inner(self, x):
                return x + self.fc(x)

        class Net(nn.Module):
            def __init__(self, depth):
                super().__init__()
                self.blocks = nn.ModuleList([Block() for _ in range(depth)])
    """,
    "an ensemble that is kept": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 2.0
                self.act = lambda x: self.scale * x

        def ensemble(n, train):
            nets = []
            for _ in range(n):
                net = Net()
                train(net)
                nets.append(net)
            return nets
    """,
    "not a module": """
        class Config:
            def __init__(self, scale):
                self.scale = scale
                self.act = lambda x: self.scale * x

        def search(train, model):
            for scale in (1.0, 2.0):
                config = Config(scale)
                train(model, config)
    """,
    "not kept on self": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)

            def forward(self, xs):
                step = lambda x: self.fc(x)
                apply = self._apply_one
                return [apply(step(x)) for x in xs]

            def _apply_one(self, x):
                return self.fc(x)

        def search(train):
            for seed in range(5):
                train(Net())
    """,
    "the result of a method": """
        class Net(nn.Module):
            def __init__(self, depth):
                super().__init__()
                self.layers = self._make_layers(depth)
                self.size = self.count()

            def _make_layers(self, depth):
                return nn.Sequential(*[nn.Linear(8, 8) for _ in range(depth)])

            def count(self):
                return sum(p.numel() for p in self.parameters())

        def search(train):
            for depth in range(1, 6):
                train(Net(depth))
    """,
    "a hook that does not know self": """
        class Probe(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)
                features = {}
                self.features = features
                self.handle = self.fc.register_forward_hook(lambda m, i, o: features.update(last=o.detach()))

        def sweep(loaders, train):
            for loader in loaders:
                train(Probe(), loader)
    """,
    "another class in the loop": """
        class Teacher(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 2.0
                self.act = lambda x: self.scale * x

        class Student(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)

        def distil(train):
            teacher = Teacher()
            for seed in range(5):
                train(teacher, Student())
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)

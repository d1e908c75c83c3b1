from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG210"
IMPORTS = """
import torchvision
from torch import optim
from torchvision import models
"""

FLAGGED = {
    "groups that a helper parts": """
        def make_optimizer(model, lr):
            trainable = [p for p in model.parameters() if p.requires_grad]
            decay = [p for p in trainable if p.ndim >= 2]
            rest = [p for p in trainable if p.ndim < 2]
            return torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": rest}], lr=lr)

        def finetune(model, loader):
            optimizer = make_optimizer(model, 1e-3)
            model.head = nn.Linear(16, 4)  # !
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a part with layers and no forward": """
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.out = nn.Linear(512, 2)

            def __call__(self, x):
                return self.out(x)

        model = torchvision.models.resnet18(weights="DEFAULT")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model.fc = Head()  # !
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    """,
    "groups that a loop fills": """
        def finetune(model, loader):
            decay, rest = [], []
            for name, p in model.named_parameters():
                (rest if name.endswith("bias") else decay).append(p)
            slow = []
            for p in model.parameters():
                if p.requires_grad:
                    slow.append(p)
            optimizer = torch.optim.AdamW(slow)
            model.head = nn.Linear(16, 4)  # !
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a head that is replaced": """
        model = torchvision.models.resnet18(weights="DEFAULT")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model.fc = nn.Linear(512, 2)  # !
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    """,
    "an item of the classifier, and a function that trains": """
        def main(args):
            net = models.vgg16()
            opt = optim.AdamW(net.parameters(), lr=args.lr)
            net.classifier[6] = nn.Linear(4096, args.classes).to(args.device)  # !
            net = net.to(args.device)
            for epoch in range(args.epochs):
                train_one_epoch(net, opt, epoch)
    """,
    "a model for each fold, one optimizer": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(4, 2)

            def forward(self, x):
                return self.body(x)

        def validate(folds):
            net = Net()
            opt = torch.optim.Adam(net.parameters())
            for fold in folds:
                net = Net()  # !
                for x, y in fold:
                    opt.zero_grad()
                    F.mse_loss(net(x), y).backward()
                    opt.step()
    """,
    "a model that is loaded where one goes on": """
        def main(args):
            model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
            optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-3)
            if args.resume:
                model = torch.load(args.resume)  # !
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a layer that comes after the optimizer in a constructor": """
        class Critic(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.body = nn.Linear(dim, 64)
                self.optimizer = optim.Adam(self.parameters(), lr=1e-3)
                self.value = nn.Sequential(nn.ReLU(), nn.Linear(64, 1))  # !

            def learn(self, x, y):
                self.optimizer.zero_grad()
                F.mse_loss(self.value(self.body(x)), y).backward()
                self.optimizer.step()
    """,
    "a part of what the object has": """
        class Tuner:
            def __init__(self, net, classes):
                self.net = net
                self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
                self.net.head = nn.Linear(64, classes)  # !

            def fit(self, loader):
                for x, y in loader:
                    self.opt.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    self.opt.step()
    """,
    "a head of the old one's size": """
        model = models.resnet50()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model.fc = nn.Linear(model.fc.in_features, 2)  # !
        train(model, optimizer, loader)
    """,
    "a method of the object that replaces": """
        class Tuner:
            def __init__(self, args):
                self.net = load(args.weights)
                self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
                self.replace(args.classes)  # !

            def replace(self, classes):
                self.net.fc = nn.Linear(self.net.fc.in_features, classes)

            def fit(self, x, y):
                self.opt.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.opt.step()
    """,
    "a method of the model that widens it, and a helper that makes the optimizer": """
        class Net(nn.Module):
            def __init__(self, classes):
                super().__init__()
                self.body = nn.Linear(30, 64)
                self.head = nn.Linear(64, classes)

            def forward(self, x):
                return self.head(self.body(x))

            def widen(self, extra):
                old = self.head
                new = nn.Linear(old.in_features, old.out_features + extra)
                new.weight.data[: old.out_features].copy_(old.weight.data)
                self.head = new

        def make(net):
            return torch.optim.SGD(net.parameters(), lr=0.05)

        def main(tasks):
            net = Net(4)
            opt = make(net)
            for task in tasks:
                net.widen(4)  # !
                for x, y in task:
                    opt.zero_grad()
                    F.cross_entropy(net(x), y).backward()
                    opt.step()
    """,
    "adapters that begin anew with each task": """
        class Adapted(nn.Module):
            def __init__(self, base, rank):
                super().__init__()
                self.base, self.rank = base.requires_grad_(False), rank
                self.reset()

            def reset(self):
                out, inner = self.base.weight.shape
                self.a = nn.Parameter(torch.randn(self.rank, inner))
                self.b = nn.Parameter(torch.zeros(out, self.rank))

        def adapted(model):
            return [m for m in model.modules() if isinstance(m, Adapted)]

        def trainable(model, lr):
            return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)

        def main(tasks):
            model = load()
            opt = trainable(model, 1e-3)
            for task in tasks:
                for layer in adapted(model):
                    layer.reset()  # !
                fit(model, opt, task)
    """,
    "rates that are changed": """
        model = torchvision.models.resnet18()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model.fc = nn.Linear(512, 2)  # !
        for epoch in range(9):
            for group in optimizer.param_groups:
                group["lr"] *= 0.9
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a helper that replaces the head": """
        def replace_head(model, classes):
            model.fc = nn.Linear(model.fc.in_features, classes)
            return model

        def main(loader):
            model = models.resnet18()
            optimizer = torch.optim.Adam(model.parameters())
            model = replace_head(model, 10)  # !
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a method that widens the head, in the method that trains": """
        class Learner:
            def __init__(self):
                self.net = models.resnet18()
                self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

            def widen(self, classes):
                fc = nn.Linear(512, classes)
                self.net.fc = fc.to("cuda")  # !

            def learn(self, task, loader):
                if task > 0:
                    self.widen(10 * task)
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    self.optimizer.step()
    """,
}

WEIGHT_NORM = {
    "of each layer": """
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        opt = torch.optim.Adam(net.parameters())
        for layer in net:
            nn.utils.weight_norm(layer)  # !
        train(net, loader, opt)
    """,
    "of those of a kind": """
        from torch.nn.utils.parametrizations import weight_norm

        def main(net, loader):
            opt = torch.optim.Adam(net.parameters())
            for name, layer in net.named_modules():
                if isinstance(layer, nn.Conv1d):
                    weight_norm(layer, dim=1)  # !
            for x, y in loader:
                opt.zero_grad()
                F.mse_loss(net(x), y).backward()
                opt.step()
    """,
    "of a part, bound again": """
        def main(net, loader):
            opt = torch.optim.Adam(net.parameters())
            net.out = torch.nn.utils.weight_norm(net.out)  # !
            train(net, loader, opt)
    """,
    "in a method of the network": """
        class Vocoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.ups = nn.ModuleList([nn.ConvTranspose1d(8, 8, 4), nn.ConvTranspose1d(8, 8, 4)])

            def normed(self):
                return [m for m in self.modules() if isinstance(m, nn.ConvTranspose1d)]

            def apply_weight_norm(self):
                for up in self.normed():
                    nn.utils.parametrizations.weight_norm(up)

            def forward(self, x):
                for up in self.ups:
                    x = up(x)
                return x

        class Trainer:
            def __init__(self, use_norm):
                self.net = Vocoder()
                self.opt = torch.optim.AdamW(self.net.parameters())
                if use_norm:
                    self.net.apply_weight_norm()  # !

            def update(self, x, y):
                self.opt.zero_grad()
                F.l1_loss(self.net(x), y).backward()
                self.opt.step()
    """,
}
MORE_PARTS = {
    "add_module": """
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        opt = torch.optim.Adam(net.parameters())
        net.add_module("head", nn.Linear(4, 2))  # !
        train(net, loader, opt)
    """,
    "append": """
        def main(net, loader):
            opt = torch.optim.Adam(net.parameters())
            net.blocks.append(nn.Linear(4, 2).to("cuda"))  # !
            train(net, loader, opt)
    """,
    "a parameter": """
        def main(net, loader):
            opt = torch.optim.Adam(net.parameters())
            net.register_parameter("scale", nn.Parameter(torch.ones(4)))  # !
            train(net, loader, opt)
    """,
}
KEPT = {
    "weight norm before": """
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        for layer in net:
            nn.utils.weight_norm(layer)
        opt = torch.optim.Adam(net.parameters())
        train(net, loader, opt)
    """,
    "spectral norm keeps the parameter": """
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        opt = torch.optim.Adam(net.parameters())
        for layer in net:
            nn.utils.spectral_norm(layer)
        train(net, loader, opt)
    """,
    "weight norm of another network": """
        def main(net, critic, loader):
            opt = torch.optim.Adam(net.parameters())
            for layer in critic.modules():
                nn.utils.weight_norm(layer)
            train(net, loader, opt)
    """,
    "taken away again, for the export": """
        def main(net, loader):
            opt = torch.optim.Adam(net.parameters())
            train(net, loader, opt)
            for layer in net:
                nn.utils.weight_norm(layer)
            torch.save(net, "net.pt")
    """,
    "a function of the program": """
        def weight_norm(layer): return layer.weight.norm()

        def main(net, loader):
            opt = torch.optim.Adam(net.parameters())
            for layer in net:
                weight_norm(layer)
            train(net, loader, opt)
    """,
    "what has no parameters": """
        net = nn.Sequential(nn.Linear(4, 4))
        opt = torch.optim.Adam(net.parameters())
        net.append(nn.ReLU())
        train(net, loader, opt)
    """,
    "given to the optimizer": """
        def main(net, loader):
            opt = torch.optim.Adam(net.parameters())
            net.add_module("head", nn.Linear(4, 2))
            opt.add_param_group({"params": net.head.parameters()})
            train(net, loader, opt)
    """,
    "a list beside": """
        def main(net, parts, loader):
            opt = torch.optim.Adam(net.parameters())
            parts.append(nn.Linear(4, 2))
            train(net, loader, opt)
    """,
}

STEP = """
for x, y in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

BETWEEN = {
    "nothing that has parameters": "model.fc = nn.Identity()",
    "a loss": "model.criterion = nn.CrossEntropyLoss()",
    "a loss that has no forward": (
        "class Evidence(nn.Module):\n    def __call__(self, out, y):\n        return F.mse_loss(F.relu(out) + 1, y)\n"
        "model.criteria = Evidence()"
    ),
    "a loss with methods of its own": (
        "class Objective(nn.Module):\n    def __init__(self, margin):\n        super().__init__()\n"
        "        self.margin = float(margin)\n    def compute(self, a, b):\n        return F.relu(a - b)\n"
        "model.objective = Objective(0.2)"
    ),
    "a loss of a base without a forward": (
        "class Base(nn.Module):\n    pass\nclass Dice(Base):\n    def __call__(self, out, y):\n"
        "        return 1 - (out * y).mean()\nmodel.dice = Dice().to(device)"
    ),
    "no module": "model.names = list(range(9))",
    "a wrapper": "model = nn.DataParallel(model)",
    "a compiled one": "model = torch.compile(model)",
    "a device": "model = model.to(device)",
    "what has the old part": "model.fc = nn.Sequential(nn.Dropout(0.1), model.fc)",
    "what it is made of is not known": "model.fc = make(512, 2)",
    "a state": "model.load_state_dict(torch.load(path))",
    "another model": "teacher = nn.Linear(512, 2)",
    "a model with a like name": "model_ema = nn.Linear(512, 2)",
    "a part of another one": "teacher.fc = nn.Linear(512, 2)",
    "an optimizer that is made anew": (
        "model.fc = nn.Linear(512, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.01)"
    ),
    "parameters that are added": (
        "model.fc = nn.Linear(512, 2)\noptimizer.add_param_group({'params': model.fc.parameters()})"
    ),
    "parameters that are put into a group": (
        "model.fc = nn.Linear(512, 2)\noptimizer.param_groups[0]['params'] = list(model.parameters())"
    ),
    "a group that is put beside": (
        "model.fc = nn.Linear(512, 2)\noptimizer.param_groups.append({'params': list(model.parameters())})"
    ),
    "where it ends": "if test:\n    model = torch.load(path)\n    raise SystemExit(run(model))",
}

CLEAN = {
    "groups of another model": """
        def finetune(model, teacher, loader):
            kept = [p for p in teacher.parameters() if p.requires_grad]
            optimizer = torch.optim.AdamW([{"params": kept}])
            model.head = nn.Linear(16, 4)
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(teacher(x), model(x).detach()).backward()
                optimizer.step()
    """,
    "groups of who knows what": """
        def finetune(model, others, loader):
            kept = [p for p in others if p.requires_grad]
            optimizer = torch.optim.AdamW([{"params": kept}])
            model.head = nn.Linear(16, 4)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "the head is replaced first": """
        model = torchvision.models.resnet18()
        model.fc = nn.Linear(512, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        train(model, optimizer, loader)
    """,
    "a model that is loaded for the test": """
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        train(model, optimizer, loader)
        model = torch.load("best.pt")
        evaluate(model, test_loader)
        torch.save({"optimizer": optimizer.state_dict()}, path)
    """,
    "the other way": """
        def main(args):
            model = nn.Linear(4, 2)
            if args.adam:
                optimizer = torch.optim.Adam(model.parameters())
            else:
                model = nn.Linear(4, 2)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            train(model, optimizer)
    """,
    "a model and an optimizer for each fold": """
        def validate(folds):
            for fold in folds:
                net = nn.Linear(4, 2)
                opt = torch.optim.Adam(net.parameters())
                fit(net, opt, fold)
    """,
    "a target network": """
        class Agent(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.q = nn.Linear(dim, 4)
                self.optimizer = optim.Adam(self.parameters(), lr=1e-3)
                self.target = nn.Linear(dim, 4)
                self.target.load_state_dict(self.q.state_dict())

            def learn(self, x, y):
                self.optimizer.zero_grad()
                F.mse_loss(self.q(x), y).backward()
                self.optimizer.step()
    """,
    "a part with an optimizer of its own": """
        class Agent(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.q = nn.Linear(dim, 4)
                self.optimizer = optim.Adam(self.parameters(), lr=1e-3)
                self.critic = nn.Linear(dim, 1)
                self.critic_optimizer = optim.Adam(self.critic.parameters(), lr=1e-3)

            def learn(self, x, y):
                self.optimizer.zero_grad()
                F.mse_loss(self.q(x), y).backward()
                self.optimizer.step()
    """,
    "a method that makes the optimizer anew, too": """
        class Tuner:
            def __init__(self, args):
                self.net = load(args.weights)
                self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
                self.replace(args.classes)

            def replace(self, classes):
                self.net.fc = nn.Linear(self.net.fc.in_features, classes)
                self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

            def fit(self, x, y):
                self.opt.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.opt.step()
    """,
    "a method that replaces what is missing": """
        class Net(nn.Module):
            def __init__(self, classes):
                super().__init__()
                self.body = nn.Linear(30, 64)
                self.head = nn.Linear(64, classes)

            def forward(self, x):
                return self.head(self.body(x))

            def complete(self):
                if self.head is None:
                    self.head = nn.Linear(64, 2)

        def main(loader):
            net = Net(4)
            opt = torch.optim.SGD(net.parameters(), lr=0.05)
            net.complete()
            for x, y in loader:
                opt.zero_grad()
                F.cross_entropy(net(x), y).backward()
                opt.step()
    """,
    "adapters that begin anew in place": """
        class Adapted(nn.Module):
            def __init__(self, base, rank):
                super().__init__()
                self.base, self.a = base.requires_grad_(False), nn.Parameter(torch.zeros(rank, 4))

            def reset(self):
                nn.init.zeros_(self.a)
                self.scale = 1.0

        def main(tasks):
            model = load()
            opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
            for task in tasks:
                for layer in model.modules():
                    layer.reset()
                fit(model, opt, task)
    """,
    "meters that begin anew": """
        class Meter:
            def reset(self):
                self.net = nn.Linear(4, 2)

        def main(tasks, meters):
            model = load()
            opt = torch.optim.AdamW(model.parameters())
            for task in tasks:
                for meter in meters.of(model):
                    meter.reset()
                fit(model, opt, task)
    """,
    "an optimizer for each width": """
        class Net(nn.Module):
            def __init__(self, classes):
                super().__init__()
                self.head = nn.Linear(64, classes)

            def forward(self, x):
                return self.head(x)

            def widen(self, extra):
                self.head = nn.Linear(self.head.in_features, self.head.out_features + extra)

        def make(net):
            return torch.optim.SGD(net.parameters(), lr=0.05)

        def main(tasks):
            net = Net(4)
            opt = make(net)
            for task in tasks:
                net.widen(4)
                opt = make(net)
                fit(net, opt, task)
    """,
    "an optimizer that another method makes anew": """
        class Tuner:
            def __init__(self, net, classes):
                self.net = net
                self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
                self.net.head = nn.Linear(64, classes)

            def begin(self):
                self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

            def fit(self, x, y):
                self.opt.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.opt.step()
    """,
    "a method that the constructor of a base calls": """
        class Base:
            def __init__(self, dim):
                self.build(dim)
                self.optimizer = torch.optim.Adam(self.net.parameters())

        class Experiment(Base):
            def build(self, dim):
                self.net = nn.Linear(dim, 2)

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    self.optimizer.step()

        def main(loader):
            Experiment(8).fit(loader)
    """,
    "a method that tests with another network": """
        class Solver:
            def __init__(self, dim):
                self.net = nn.Linear(dim, 2)
                self.optimizer = torch.optim.Adam(self.net.parameters())

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    self.optimizer.step()

            def test(self, dim, path):
                self.net = nn.Linear(dim, 2)
                self.net.load_state_dict(torch.load(path))
                return self.net

        def main(loader):
            solver = Solver(8)
            solver.fit(loader)
            solver.test(8, "best.pt")
    """,
    "a second stage with an optimizer of its own": """
        class Stages:
            def __init__(self, dim):
                self.net = nn.Linear(dim, dim)
                self.optimizer = torch.optim.Adam(self.net.parameters())

            def first(self, loader):
                for x in loader:
                    self.optimizer.zero_grad()
                    F.mse_loss(self.net(x), x).backward()
                    self.optimizer.step()

            def second(self, dim, loader):
                self.net = nn.Linear(dim, 2)
                optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    optimizer.step()

        def main(a, b):
            stages = Stages(8)
            stages.second(8, b)
            stages.first(a)
    """,
    "a network that is built before its lazy optimizer is asked for": """
        class Lazy:
            @functools.cached_property
            def optimizer(self):
                return torch.optim.Adam(self.net.parameters())

            def setup(self, dim):
                self.net = nn.Linear(dim, 2)

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    self.optimizer.step()

        def main(loader):
            lazy = Lazy()
            lazy.setup(8)
            lazy.fit(loader)
    """,
    "a probe with an optimizer of its own": """
        def train(loader, model):
            optimizer = torch.optim.Adam(model.parameters())
            model.probe = nn.Linear(8, 2)
            probing = torch.optim.SGD(model.probe.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
                probing.zero_grad()
                F.cross_entropy(model.probe(x), y).backward()
                probing.step()
    """,
    "a head whose weight is that of the embedding": """
        def train(loader, model):
            optimizer = torch.optim.Adam(model.parameters())
            model.head = nn.Linear(8, 100, bias=False)
            model.head.weight = model.embedding.weight
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a helper that gives the optimizer more": """
        def extend(opt, part):
            opt.add_param_group({"params": part.parameters()})

        def train(loader, model):
            optimizer = torch.optim.Adam(model.parameters())
            model.fc = nn.Linear(8, 100)
            extend(optimizer, model.fc)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a group that is filled anew": """
        def train(loader, model):
            optimizer = torch.optim.Adam(model.parameters())
            model.fc = nn.Linear(8, 100)
            group = optimizer.param_groups[0]
            group["params"] = list(model.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "an optimizer whose rate is read at the end": """
        def learning_rate(optimizer):
            return optimizer.param_groups[0]["lr"]

        def train(loader, path):
            model = nn.Linear(8, 2)
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            model = nn.Linear(8, 2)
            model.load_state_dict(torch.load(path))
            print(learning_rate(optimizer))
    """,
    "a helper that replaces the head before the optimizer is made": """
        def replace_head(model, classes):
            model.fc = nn.Linear(model.fc.in_features, classes)
            return model

        def main(loader):
            model = replace_head(models.resnet18(), 10)
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a helper that makes another model": """
        def fresh(model, classes):
            model = models.resnet18()
            model.fc = nn.Linear(512, classes)
            return model

        def main(loader):
            model = models.resnet18()
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            other = fresh(model, 10)
            return other
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_what_is_replaced_after_its_optimizer_was_made_is_flagged(name: str) -> None:
    assert_flagged(IMPORTS + dedent(FLAGGED[name]), CODE)


@pytest.mark.parametrize("name", BETWEEN)
def test_what_keeps_the_parameters_or_gives_them_to_the_optimizer_is_not(name: str) -> None:
    head = "model = torchvision.models.resnet18()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
    assert_clean(IMPORTS + head + BETWEEN[name] + STEP, CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_what_looks_alike_is_not(name: str) -> None:
    assert_clean(IMPORTS + dedent(CLEAN[name]), CODE)


@pytest.mark.parametrize("name", [*WEIGHT_NORM, *MORE_PARTS])
def test_parameters_that_are_made_after_the_optimizer_are_flagged(name: str) -> None:
    assert_flagged({**WEIGHT_NORM, **MORE_PARTS}[name], CODE)


@pytest.mark.parametrize("name", KEPT)
def test_what_keeps_or_needs_no_parameters_is_not(name: str) -> None:
    assert_clean(KEPT[name], CODE)


ADAPTED = """
    class LoRALinear(nn.Module):
        def __init__(self, base, r=4):
            super().__init__()
            self.base = base
            self.down = nn.Parameter(torch.zeros(r, base.in_features))
            self.up = nn.Parameter(torch.zeros(base.out_features, r))

        def forward(self, x):
            return self.base(x) + x @ self.down.t() @ self.up.t()

    class Timed(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self.seconds = 0.0

        def forward(self, x):
            return self.inner(x)

    class Same(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.weight = nn.Parameter(inner.weight)

        def forward(self, x):
            return x @ self.weight.t()

    def inject(model, targets):
        for name, parent in list(model.named_modules()):
            for key, child in list(parent.named_children()):
                if key in targets:
                    {put}

    def trainable(model):
        wanted = [p for p in model.parameters() if p.requires_grad]
        return wanted

    def main(model, loader):
        {before}
        optimizer = torch.optim.AdamW(trainable(model), lr=1e-3)
        {after}
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
"""
SETS = "setattr(parent, key, LoRALinear(child))"
INJECTS = 'inject(model, ("query", "value"))'


def adapted(put: str = SETS, *, before: str = "pass", after: str = "pass") -> str:
    return ADAPTED.format(put=put, before=before, after=after)


@pytest.mark.parametrize(
    "snippet",
    [
        adapted(after=INJECTS + "  # !"),
        adapted("parent._modules[key] = LoRALinear(child, 8)", after=INJECTS + "  # !"),
        adapted("setattr(parent, key, nn.Linear(child.in_features, child.out_features))", after=INJECTS + "  # !"),
        adapted("setattr(model.get_submodule(name), key, None)", after="model.head = nn.Linear(8, 2)  # !"),
        adapted(after="model = get_peft_model(model, LoraConfig(r=8))  # !"),
        adapted("held = model.get_submodule(name); setattr(held, key, LoRALinear(child))", after=INJECTS + "  # !"),
        adapted("parent.query = LoRALinear(parent.query, 8)", after=INJECTS + "  # !"),
        adapted("parent.attention.query = LoRALinear(parent.attention.query)", after=INJECTS + "  # !"),
        adapted(after="model.head = LoRALinear(model.head)  # !"),
        adapted(after="model.layers[0] = LoRALinear(model.layers[0])  # !"),
    ],
)
def test_adapters_after_the_optimizer_are_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        adapted(before=INJECTS),
        adapted("setattr(parent, key, Timed(child))", after=INJECTS),
        adapted("setattr(parent, key, Same(child))", after=INJECTS),
        adapted("setattr(parent, key, nn.Identity())", after=INJECTS),
        adapted("parent.query = Timed(parent.query)", after=INJECTS),
        adapted("parent.query = LoRALinear(parent.query)", before=INJECTS),
        adapted(after="model.head = Timed(model.head)"),
        adapted(after="teacher.head = LoRALinear(teacher.head)"),
        adapted(after="model.head = nn.Sequential(model.head, nn.Dropout(0.1))"),
        adapted("setattr(parent, key, child.half())", after=INJECTS),
        adapted("setattr(parent, 'name', key)", after=INJECTS),
        adapted(after=INJECTS + "; optimizer.add_param_group({'params': trainable(model)})"),
        adapted(after=INJECTS + "; optimizer = torch.optim.AdamW(trainable(model))"),
        adapted(after="inject(teacher, ('query',))"),
        adapted(before="model = get_peft_model(model, LoraConfig(r=8))"),
        adapted(after="other = get_peft_model(teacher, LoraConfig(r=8))"),
    ],
)
def test_adapters_that_the_optimizer_has_or_that_learn_nothing_are_not(snippet: str) -> None:
    assert_clean(snippet, CODE)


GROWING = """
    class Head(nn.Module):
        def __init__(self, size, number):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(number, size))

        def grow(self, extra):
            {grows}

        def forward(self, x):
            return x @ self.weight.t()

    class Net(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.trunk = nn.Linear(size, size)
            self.head = Head(size, 2)

        def forward(self, x):
            return self.head(self.trunk(x))

    class Learner:
        def __init__(self, net, lr=0.1):
            self.net = net
            self.lr = lr
            self.optimizer = self.make_optimizer()

        def make_optimizer(self):
            return torch.optim.SGD(self.net.parameters(), lr=self.lr)

        def begin(self, task):
            if task > 0:
                {begins}

        def train(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.optimizer.step()

    def main(loaders):
        learner = Learner(Net(8))
        for task, loader in enumerate(loaders):
            learner.begin(task)
            learner.train(loader)
"""
GROWS = "self.weight = nn.Parameter(torch.cat([self.weight.detach(), torch.zeros(extra, 8)]))"


@pytest.mark.parametrize("begins", ["self.net.head.grow(2)", "self.net.head = Head(8, 2 * task)"])
def test_a_head_that_grows_with_the_tasks_is_flagged(begins: str) -> None:
    assert_flagged(GROWING.format(grows=GROWS, begins=begins + "  # !"), CODE)


@pytest.mark.parametrize(
    ("grows", "begins"),
    [
        (GROWS, "self.net.head.grow(2); self.optimizer = self.make_optimizer()"),
        (GROWS, "self.net.head.grow(2); self.optimizer.add_param_group({'params': self.net.head.parameters()})"),
        ("self.weight.data = torch.cat([self.weight.data, torch.zeros(extra, 8)])", "self.net.head.grow(2)"),
        ("self.size = 8 + extra", "self.net.head.grow(2)"),
        (GROWS, "self.net.head.eval()"),
        (GROWS, "self.grown = Head(8, 2); self.grown.grow(2)"),
    ],
)
def test_what_the_optimizer_learns_of_is_not(grows: str, begins: str) -> None:
    assert_clean(GROWING.format(grows=grows, begins=begins), CODE)


UNFROZEN = """
    def release(model):
        for p in model.encoder.parameters():
            p.requires_grad_(True)

    class Thaw:
        def __init__(self, model, at):
            self.model, self.at = model, at

        def on_step(self, step):
            if step == self.at:
                self.model.encoder.requires_grad_(True)

    def groups(model, lr):
        wanted = []
        for p in model.parameters():
            if p.requires_grad:
                wanted.append(p)
        return torch.optim.Adam(wanted, lr=lr)

    def main(net, loader):
        thaw = Thaw(net, 100)
        {freeze}
        optimizer = {optimizer}
        for step, (x, y) in enumerate(loader):
            if step == 100:
                {unfreeze}
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
WANTED = "torch.optim.Adam(filter(lambda p: p.requires_grad, net.parameters()))"


def unfrozen(unfreeze: str, *, optimizer: str = WANTED, freeze: str = "net.encoder.requires_grad_(False)") -> str:
    return UNFROZEN.format(unfreeze=unfreeze, optimizer=optimizer, freeze=freeze)


@pytest.mark.parametrize(
    "snippet",
    [
        unfrozen("net.encoder.requires_grad_(True)  # !"),
        unfrozen("net.encoder.requires_grad_()  # !"),
        unfrozen("net.requires_grad_(True)  # !"),
        unfrozen("release(net)  # !"),
        unfrozen("thaw.on_step(step)  # !"),
        unfrozen("net.encoder.requires_grad_(True)  # !", optimizer="groups(net, 0.1)"),
        unfrozen(
            "net.encoder.requires_grad_(True)  # !",
            optimizer="torch.optim.Adam([p for p in net.parameters() if p.requires_grad])",
        ),
        unfrozen(
            "net.encoder.requires_grad_(True)  # !",
            freeze="net.encoder.requires_grad_(False); ps = [p for p in net.parameters() if p.requires_grad]",
            optimizer="torch.optim.Adam(ps)",
        ),
    ],
)
def test_what_is_unfrozen_after_the_optimizer_was_made_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        unfrozen("net.encoder.requires_grad_(True)", optimizer="torch.optim.Adam(net.parameters())"),
        unfrozen("net.encoder.requires_grad_(True); optimizer.add_param_group({'params': net.encoder.parameters()})"),
        unfrozen("net.encoder.requires_grad_(True); optimizer = " + WANTED),
        unfrozen("net.encoder.requires_grad_(False)"),
        unfrozen("teacher.requires_grad_(True)"),
        unfrozen("x.requires_grad_(True)"),
        unfrozen("net.encoder.requires_grad_(True)", freeze="print(net)"),
        unfrozen("release(teacher)"),
        unfrozen("Thaw(teacher, 1).on_step(step)"),
        unfrozen("print(step)", freeze="net.encoder.requires_grad_(False); net.encoder.requires_grad_(True)"),
    ],
)
def test_what_the_optimizer_has_or_gets_is_not(snippet: str) -> None:
    assert_clean(snippet, CODE)


THAWING = """
    class Tuner:
        def __init__(self, net):
            self.net = net
            for p in net.encoder.parameters():
                p.requires_grad = False
            self.optimizer = torch.optim.Adam({given})

        def thaw(self):
            {thaw}

        def train(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.optimizer.step()

    def main(net, loader):
        tuner = Tuner(net)
        tuner.train(loader)
        tuner.thaw()
        tuner.train(loader)
"""
FILTERED = "filter(lambda p: p.requires_grad, self.net.parameters())"


def test_a_method_that_unfreezes() -> None:
    assert_flagged(THAWING.format(given=FILTERED, thaw="self.net.encoder.requires_grad_(True)  # !"), CODE)


@pytest.mark.parametrize(
    ("given", "thaw"),
    [
        ("self.net.parameters()", "self.net.encoder.requires_grad_(True)"),
        (FILTERED, "self.net.encoder.requires_grad_(True); self.optimizer = torch.optim.Adam(self.net.parameters())"),
        (FILTERED, "self.net.encoder.train()"),
    ],
)
def test_a_method_that_unfreezes_what_the_optimizer_has(given: str, thaw: str) -> None:
    assert_clean(THAWING.format(given=given, thaw=thaw), CODE)


CLIENT = """
    import copy

    class Client:
        def __init__(self, data, build, lr):
            self.data = data
            {model}
            {optimizer}

        def receive(self, server):
            {receive}

        def local_update(self):
            {before}
            for x, y in self.data:
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
            {after}

    def rounds(clients, server):
        for _ in range(10):
            for client in clients:
                {first}
                {second}
"""
OWN = "self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)"


def client(
    receive: str = "pass",
    before: str = "pass",
    after: str = "pass",
    model: str = "self.model = build()",
    optimizer: str = OWN,
    first: str = "client.receive(server)",
    second: str = "client.local_update()",
) -> str:
    parts = {"receive": receive, "before": before, "after": after, "first": first, "second": second}
    return CLIENT.format(model=model, optimizer=optimizer, **parts)


@pytest.mark.parametrize(
    "snippet",
    [
        client("self.model = copy.deepcopy(server.model)  # !"),
        client("self.model = copy.deepcopy(server.model).to('cuda')  # !"),
        client(before="self.model = copy.deepcopy(self.server.model)  # !"),
        client(
            "self.model = copy.deepcopy(server.model)  # !",
            model="model = build(); self.model = model",
            optimizer="self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)",
        ),
        """
        import copy
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            model = copy.deepcopy(server.model)  # !
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
        """,
    ],
)
def test_a_copy_in_the_place_of_the_model_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        client("self.model.load_state_dict(server.model.state_dict())"),
        client("self.model.load_state_dict(copy.deepcopy(server.model.state_dict()))"),
        client(f"self.model = copy.deepcopy(server.model); {OWN.replace('lr=lr', 'lr=0.1')}"),
        client("self.model = copy.deepcopy(server.model)", before=OWN.replace("lr=lr", "lr=0.1")),
        client("self.best = copy.deepcopy(server.model)"),
        client("self.model.config = copy.deepcopy(server.config)"),
        client("self.model.history = copy.deepcopy(server.history)"),
        client(after="self.model = copy.deepcopy(self.best)", first="client.local_update()", second="pass"),
        client("self.model = copy.deepcopy(server.model)", first="pass"),
        client("self.model = copy.deepcopy(server.model)", second="client.test()"),
        client("old = self.model; self.model = copy.deepcopy(server.model); test(self.model); self.model = old"),
        client("self.model = copy.deepcopy(server.model)", after="self.model = self.former"),
        client("self.model = copy.deepcopy(server.model)", optimizer="self.optimizer = self.make(self.model)"),
        """
        import copy
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        model = copy.deepcopy(best)
        """,
        """
        import copy
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            kept, model = model, copy.deepcopy(average)
            test(model)
            model = kept
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        """,
        """
        import copy
        server = Net()
        for _ in range(10):
            model = copy.deepcopy(server)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
        """,
    ],
)
def test_a_copy_that_is_not_trained_or_has_its_optimizer_is_not(snippet: str) -> None:
    assert_clean(snippet, CODE)


HEIR = """
    class Trainer:
        def __init__(self, cfg):
            self.cfg = cfg
            self.model = self.build_model()
            {made}

        def build_optimizer(self):
            return torch.optim.SGD({given}, lr=0.1)

        def param_groups(self):
            return [{{"params": [p for p in self.model.parameters() if p.requires_grad]}}]

        def fit(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                {step}

    class Tuner(Trainer):
        def __init__(self, cfg):
            {before}
            super().__init__(cfg)
            {after}

        def build_model(self):
            return Backbone(self.cfg.dim)

        def make_head(self):
            head = nn.Linear(self.cfg.dim, 2)
            nn.init.zeros_(head.bias)
            return head

        def freeze_head(self):
            {more}
"""
HEAD = "self.model.head = nn.Linear(cfg.dim, 2)"


def heir(
    after: str,
    before: str = "self.extra = 1",
    made: str = "self.optimizer = self.build_optimizer()",
    given: str = "self.model.parameters()",
    step: str = "self.optimizer.step()",
    more: str = "pass",
) -> str:
    return HEIR.format(after=after, before=before, made=made, given=given, step=step, more=more)


@pytest.mark.parametrize(
    "snippet",
    [
        heir(f"{HEAD}  # !"),
        heir("self.model.head = self.make_head()  # !"),
        heir("self.model.layers[-1] = nn.Linear(cfg.dim, 2)  # !"),
        heir(f"{HEAD}  # !", given="self.param_groups()"),
        heir(f"{HEAD}  # !", made="self.optimizer = torch.optim.Adam(self.model.parameters())"),
        heir(f"{HEAD}  # !").replace("super().__init__(cfg)", "Trainer.__init__(self, cfg)"),
    ],
)
def test_what_a_derived_class_replaces_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        heir("self.extra = nn.Linear(cfg.dim, 2)"),
        heir("self.teacher.head = nn.Linear(cfg.dim, 2)"),
        heir("self.model.head = nn.Identity()"),
        heir("self.model.criterion = nn.CrossEntropyLoss()"),
        heir("self.model.head = self.model.make_head()"),
        heir("self.model.hidden = cfg.hidden"),
        heir(f"{HEAD}; self.optimizer = self.build_optimizer()"),
        heir(f"{HEAD}; self.optimizer.add_param_group({{'params': self.model.head.parameters()}})"),
        heir(f"{HEAD}; self.head_optimizer = torch.optim.SGD(self.model.head.parameters(), lr=1.0)"),
        heir(f"{HEAD}; self.model.head.requires_grad_(False)"),
        heir(HEAD, more="self.model.head.requires_grad_(False)"),
        heir(HEAD, more="self.optimizer = self.build_optimizer()"),
        heir(HEAD, made="self.optimizer = None"),
        heir(HEAD, made="pass"),
        heir(HEAD, step="pass"),
        heir(HEAD, given="self.critic.parameters()"),
        heir("pass", before="self.model = Backbone(8); self.model.head = nn.Linear(8, 2)"),
        heir(HEAD) + "\n    tuner = Tuner(8)\n    tuner.optimizer = torch.optim.SGD(tuner.parameters(), lr=0.1)\n",
        heir("self.model.head = self.look_up()", more="pass\n        def look_up(self): return self.cfg.heads[0]"),
        heir(
            "self.model.head = self.one()",
            more="pass\n        def one(self): return self.two()\n        def two(self): return self.one()",
        ),
    ],
)
def test_what_a_derived_class_makes_first_or_gives_to_the_optimizer_is_not(snippet: str) -> None:
    assert_clean(snippet, CODE)


# What replaces it is a method, which the constructor of the base calls, or somebody before the training.
HOOK = """
    class Run(ABC):
        def __init__(self, cfg):
            self.cfg = cfg
            self.net = self.make_net()
            {made}
            self.losses = []

        def make_net(self):
            raise NotImplementedError

        def make_optimizer(self):
            return torch.optim.AdamW(self.net.parameters(), lr=self.cfg.lr)

        def on_ready(self):
            pass

        def set_up(self):
            self.on_ready()

        def fit(self, loader):
            {first}
            for x, y in loader:
                self.opt.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.opt.step()

    class Seeded:
        def seed(self):
            torch.manual_seed(self.cfg.seed)

    class Tuned(Seeded, Run):
        def make_net(self):
            return Backbone(self.cfg.dim, 12)

        def {name}(self):
            {body}

    {script}
"""
NEW_HEAD = "self.net.head = nn.Linear(self.net.head.in_features, 5)"
OPTIMIZED = "self.opt = self.make_optimizer()"


def hook(
    body: str = f"{NEW_HEAD}  # !",
    made: str = f"{OPTIMIZED}; self.on_ready()",
    first: str = "self.net.train()",
    name: str = "on_ready",
    script: str = "Tuned(cfg).fit(loader)",
) -> str:
    return HOOK.format(body=body, made=made, first=first, name=name, script=script)


def configured(
    after: str = "self.on_ready()",
    first: str = "",
    body: str = f"{NEW_HEAD}  # !",
    made: str = "self.configure()",
    script: str = "Tuned(cfg).fit(loader)",
) -> str:
    """The optimizer is made by a method, which the constructor calls."""
    first = first or ("pass" if after else "self.on_ready()")
    made = f"{made}; {after}" if after else made
    method = f"def configure(self):\n            {OPTIMIZED}\n\n        def on_ready(self):"
    return hook(body, made=made, first=first, script=script).replace("def on_ready(self):", method, 1)


@pytest.mark.parametrize(
    "snippet",
    [
        hook(),
        hook(made=f"{OPTIMIZED}; self.set_up()"),
        hook(made="self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1); self.on_ready()"),
        hook("self.seed(); super().on_ready(); self.net.classifier[-1] = nn.Linear(16, 5).to(self.cfg.device)  # !"),
        hook(made=OPTIMIZED, first="self.on_ready()"),
        hook(made=OPTIMIZED, name="change_head", script="run = Tuned(cfg); run.change_head(); run.fit(loader)"),
        hook(made=OPTIMIZED, name="__init__", body=f"super().__init__(cfg); {NEW_HEAD}  # !"),
        hook(
            made=OPTIMIZED,
            name="change_head",
            body=f"{NEW_HEAD}  # !\n\n        def __init__(self, cfg):\n            super().__init__(cfg)\n"
            "            self.change_head()",
        ),
        configured(),
        configured(after="self.seed(); self.on_ready()"),
        configured(after=""),
    ],
)
def test_what_a_method_of_a_derived_class_replaces_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        hook(NEW_HEAD, made=f"self.on_ready(); {OPTIMIZED}"),
        hook(NEW_HEAD, made=f"{OPTIMIZED}; self.on_ready(); {OPTIMIZED}"),
        hook(NEW_HEAD, made=OPTIMIZED),
        hook(NEW_HEAD, made=f"{OPTIMIZED}; self.on_ready(); self.opt.add_param_group(self.net.head.parameters())"),
        hook(NEW_HEAD, made=f"{OPTIMIZED}; self.on_ready(); add_param_groups(self.opt, self.net.head)"),
        hook(NEW_HEAD, made=f"{OPTIMIZED}; self.on_ready(); self.net.head.requires_grad_(False)"),
        hook(NEW_HEAD, made=f"{OPTIMIZED}; self.on_ready()", first=OPTIMIZED),
        hook(NEW_HEAD, made=f"{OPTIMIZED}\n            if cfg.late:\n                self.on_ready()"),
        hook(f"{NEW_HEAD}; {OPTIMIZED}"),
        hook(f"{NEW_HEAD}; self.head_opt = torch.optim.SGD(self.net.head.parameters(), lr=1.0)"),
        hook(f"{NEW_HEAD}; optimizer = torch.optim.SGD(self.net.parameters(), lr=1.0); self.use(optimizer)"),
        hook("self.net.head = nn.Identity()"),
        hook("self.teacher.head = nn.Linear(8, 2)"),
        hook("self.net.width = Width(8)"),
        hook(NEW_HEAD, made="self.opt = torch.optim.SGD(self.body.parameters(), lr=0.1); self.on_ready()"),
        hook(NEW_HEAD, made="self.opt = None; self.on_ready()"),
        hook(NEW_HEAD, made=OPTIMIZED, name="change_head", script="run = Tuned(cfg); run.fit(loader)"),
        hook(
            NEW_HEAD,
            made=OPTIMIZED,
            name="change_head",
            script="run = Tuned(cfg); run.fit(loader)\n    run.change_head()",
        ),
        hook(NEW_HEAD, made=OPTIMIZED, name="change_head", script="run.change_head(); run.opt = run.make_optimizer()"),
        hook("self.net = copy.deepcopy(self.best)"),
        configured(after="self.on_ready(); self.configure()").replace("  # !", ""),
        configured(first="self.configure()").replace("  # !", ""),
        configured(after="", first="self.configure(); self.on_ready()").replace("  # !", ""),
        configured(script="run = Tuned(cfg)\n    run.configure()\n    run.fit(loader)").replace("  # !", ""),
        configured(body=f"{NEW_HEAD}; self.configure()"),
        configured(body=NEW_HEAD, made="self.on_ready(); self.configure()", after=""),
    ],
)
def test_a_method_of_a_derived_class_that_runs_first_or_not_or_sees_to_the_optimizer_is_not(snippet: str) -> None:
    assert_clean(snippet, CODE)


# What unfreezes is one of the callbacks, of which only the run knows the classes.
CALLBACKS = """
    class Callback:
        def on_fit(self, net):
            pass

        def on_epoch(self, net, epoch):
            pass

    class Shown(Callback):
        def on_epoch(self, net, epoch):
            print(epoch)

    class Warm(Callback):
        def __init__(self, epochs):
            self.epochs = epochs

        def {freezes}(self, net):
            for p in net.body.parameters():
                p.requires_grad_(False)

        def on_epoch(self, net, epoch):
            if epoch == self.epochs:
                {unfreezes}

    def fit(net, callbacks, epochs):
        for callback in callbacks:
            callback.on_fit(net)
        weights = {weights}
        optimizer = torch.optim.SGD(weights, lr=0.1)
        {then}
        for epoch in range(epochs):
            for callback in callbacks:
                callback.on_epoch({given}, epoch){mark}
            for x, y in batches(epoch):
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            {end}
"""


def callbacks(
    weights: str = "(p for p in net.parameters() if p.requires_grad)",
    unfreezes: str = "for p in net.body.parameters(): p.requires_grad_(True)",
    *,
    freezes: str = "on_fit",
    then: str = "print(epochs)",
    given: str = "net",
    end: str = "pass",
    mark: str = "",
) -> str:
    return CALLBACKS.format(
        weights=weights, unfreezes=unfreezes, freezes=freezes, then=then, given=given, end=end, mark=mark
    )


@pytest.mark.parametrize(
    "snippet",
    [
        callbacks(mark="  # !"),
        callbacks("filter(lambda p: p.requires_grad, net.parameters())", mark="  # !"),
        callbacks("[p for _, p in net.named_parameters() if p.requires_grad]", mark="  # !"),
        callbacks(unfreezes="net.body.requires_grad_(True)", mark="  # !"),
        callbacks(unfreezes="for p in net.parameters(): p.requires_grad = True", mark="  # !"),
        """
        class Schedule:
            def __init__(self, at):
                self.at = at

            def after_epoch(self, trainer, epoch):
                if epoch >= self.at:
                    trainer.model.encoder.requires_grad_(True)

        class Trainer:
            def __init__(self, model, hooks):
                self.model, self.hooks = model, hooks

            def run(self, loader):
                self.model.encoder.requires_grad_(False)
                optimizer = torch.optim.Adam([p for p in self.model.parameters() if p.requires_grad])
                for epoch in range(9):
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(self.model(x), y).backward()
                        optimizer.step()
                    for hook in self.hooks:
                        hook.after_epoch(self, epoch)  # !
        """,
    ],
)
def test_callbacks_that_unfreeze(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        callbacks("net.parameters()"),
        callbacks("list(net.parameters())"),
        callbacks("(p for p in net.head.parameters() if p.requires_grad)"),
        callbacks(unfreezes="for p in net.body.parameters(): p.requires_grad_(False)"),
        callbacks(unfreezes="for p in self.net.body.parameters(): p.requires_grad_(True)"),
        callbacks(unfreezes="add(self.optimizer, net.body.requires_grad_(True))"),
        callbacks(given="teacher"),
        callbacks(freezes="on_train"),  # when the optimizer has them all
        callbacks(then="for callback in callbacks: callback.on_epoch(net, 0)", freezes="on_epoch_end"),
        callbacks(end="optimizer = torch.optim.SGD((p for p in net.parameters() if p.requires_grad), lr=0.1)"),
        callbacks(end="optimizer.add_param_group({'params': net.body.parameters()})"),
        callbacks(
            unfreezes="net.body.requires_grad_(True); self.trainer.optimizer.add_param_group(group(net.body))",
        ),
    ],
)
def test_look_alikes_of_callbacks_that_unfreeze(snippet: str) -> None:
    assert_clean(snippet, CODE)


# A callback that unfreezes, and gives the optimizer what it has unfrozen: by what it does, not by what that is called.
GIVING = """
    from torch.optim import Adam

    class Callback:
        def {method}(self, epoch, net, {name}):
            pass

    def extend({name}, module):
        {helps}

    class Thaw(Callback):
        def {method}(self, epoch, net, {name}):
            if epoch == 3:
                net.encoder.requires_grad_(True)
                {gives}

        def give(self, {name}, module):
            {helps}

    class Log(Callback):
        def {method}(self, epoch, net, {name}):
            print(epoch)

    def train(net, loader, callbacks, epochs=10):
        net.encoder.requires_grad_(False)
        {name} = Adam([p for p in net.parameters() if p.requires_grad])
        for epoch in range(epochs):
            for cb in callbacks:
                cb.{method}({given}){mark}
            for x, y in loader:
                {name}.zero_grad()
                F.cross_entropy(net(x), y).backward()
                {name}.step()
"""
GROUP = "{'params': net.encoder.parameters()}"


def giving(
    gives: str = "pass",
    name: str = "opt",
    *,
    helps: str = "pass",
    method: str = "on_epoch_start",
    given: str = "epoch, net, {name}",
    mark: str = "",
) -> str:
    words = {"gives": gives.format(name=name), "helps": helps.format(name=name), "given": given.format(name=name)}
    return GIVING.format(name=name, method=method, mark=mark, **words)


@pytest.mark.parametrize("method", ["on_epoch_start", "before"])
def test_a_callback_that_gives_the_optimizer_nothing(method: str) -> None:
    assert_flagged(giving(method=method, mark="  # !"), CODE)
    assert_flagged(giving("print({name}.param_groups[0]['lr'])", method=method, mark="  # !"), CODE)


@pytest.mark.parametrize("name", ["opt", "o", "updater"])
@pytest.mark.parametrize(
    "words",
    [
        {"gives": "{name}.add_param_group(" + GROUP.replace("{", "{{").replace("}", "}}") + ")"},
        {
            "gives": "{name}.add_param_group(dict(params=net.encoder.parameters()))",
            "given": "epoch=epoch, net=net, {name}={name}",
        },
        {"gives": "extend({name}, net.encoder)", "helps": "{name}.add_param_group(dict(params=module.parameters()))"},
        {
            "gives": "self.give({name}, net.encoder)",
            "helps": "{name}.add_param_group(dict(params=module.parameters()))",
        },
        {"gives": "extend({name}, net.encoder)", "helps": "{name}.param_groups[0]['params'] += module.parameters()"},
        {"gives": "{name}.param_groups.append(dict(params=list(net.encoder.parameters())))"},
        {"gives": "net.updater = Adam(net.parameters())"},
        {"gives": "extend(net, net.encoder)", "helps": "module.updater = Adam(module.parameters())"},
    ],
)
def test_a_callback_that_gives_the_optimizer_what_it_unfreezes(words: dict[str, str], name: str) -> None:
    assert_clean(giving(name=name, **words), CODE)


@pytest.mark.parametrize("gives", ["run.opt.add_param_group(group(run.net.encoder))", "run.remake()"])
def test_a_callback_that_has_the_optimizer_by_the_trainer(gives: str) -> None:
    snippet = """
        class Schedule:
            def after(self, run, epoch):
                if epoch == 3:
                    run.net.encoder.requires_grad_(True)
                    {gives}

        class Run:
            def __init__(self, net, hooks):
                self.net, self.hooks = net, hooks

            def remake(self):
                self.opt = torch.optim.Adam(self.net.parameters())

            def fit(self, loader):
                self.net.encoder.requires_grad_(False)
                opt = self.opt = torch.optim.Adam([p for p in self.net.parameters() if p.requires_grad])
                for epoch in range(9):
                    for hook in self.hooks:
                        hook.after(self, epoch){mark}
                    for x, y in loader:
                        opt.zero_grad()
                        F.cross_entropy(self.net(x), y).backward()
                        opt.step()
    """
    assert_clean(snippet.format(gives=gives, mark=""), CODE)
    assert_flagged(snippet.format(gives="print(epoch)", mark="  # !"), CODE)


@pytest.mark.parametrize("gives", ["o.add_param_group(dict(params=net.body.parameters()))", "more(o, net)"])
def test_a_function_that_unfreezes_and_gives(gives: str) -> None:
    snippet = """
        def more(o, net):
            o.add_param_group(dict(params=net.body.parameters()))

        def thaw(net, o):
            for p in net.body.parameters():
                p.requires_grad = True
            {gives}

        def fit(net, loader):
            net.body.requires_grad_(False)
            opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
            for epoch in range(9):
                if epoch == 3:
                    thaw(net, opt){mark}
                for x, y in loader:
                    opt.zero_grad()
                    F.cross_entropy(net(x), y).backward()
                    opt.step()
    """
    assert_clean(snippet.format(gives=gives, mark=""), CODE)
    assert_flagged(snippet.format(gives="print(o)", mark="  # !"), CODE)


BY_A_REGISTRY = """
    OPTIMIZERS = {}

    def build(table, config, *args):
        config = dict(config)
        return table[config.pop("type")](*args, **config)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(8, 8)
            self.fc = nn.Linear(8, 10)

        def reset_classifier(self, classes):
            self.fc = nn.Linear(self.fc.in_features, classes)

    class Experiment:
        def __init__(self, config):
            self.model = build(MODELS, config["model"])
            self.optimizer = build(OPTIMIZERS, config["optimizer"], self.model.parameters())
            self.model.reset_classifier(3)  # !

        def run(self):
            for x, y in self.loader:
                self.model.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
"""
BY_NAME = """
    def finetune(config, net, loader):
        optimizer = {made}
        net.head = nn.Linear(64, 5)  # !
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
"""
IN_A_METHOD = """
    class Learner:
        def __init__(self, net, config):
            self.net = net
            self.optimizer = instantiate(config.optimizer, params=self.net.parameters())

        def next_task(self, classes):
            self.net.head = nn.Linear(64, classes)  # !

        def fit(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.optimizer.step()

    def main(learner, tasks):
        for task in tasks:
            learner.next_task(task.classes)
            learner.fit(task.loader)
"""
BY_A_HELPER = """
    def choose(name, model):
        return OPTIMS[name]((p for p in model.parameters() if p.requires_grad), lr=0.1)
"""
MAKERS = [
    "OPTIMS[config.name](net.parameters(), lr=0.1)",
    "hydra.utils.instantiate(config.optimizer, params=net.parameters())",
    "build_optimizer(config, filter(lambda p: p.requires_grad, net.parameters()))",
    "make([{'params': net.parameters(), 'lr': 0.1}])",
    "choose(config.name, net)",
]


@pytest.mark.parametrize("made", MAKERS)
def test_an_optimizer_by_its_name(made: str) -> None:
    assert_flagged(BY_A_HELPER + BY_NAME.format(made=made), CODE)


@pytest.mark.parametrize("snippet", [BY_A_REGISTRY, IN_A_METHOD])
def test_an_optimizer_that_a_registry_makes(snippet: str) -> None:
    assert_flagged(snippet, CODE)


def test_what_is_right_by_its_name() -> None:
    made = "OPTIMS[config.name](net.parameters(), lr=0.1)"
    named = BY_NAME.format(made=made)
    assert_clean(twin(named, (made, "OPTIMS[config.name](other.parameters())")), CODE)
    assert_clean(twin(named, ("optimizer =", "numbers ="), ("optimizer.", "numbers.")), CODE)
    assert_clean(twin(named, ("net.head = nn.Linear(64, 5)", f"net.head = nn.Linear(64, 5); optimizer = {made}")), CODE)
    assert_clean(twin(named, ("net.head = nn.Linear(64, 5)", "net.head.load_state_dict(config.state)")), CODE)
    assert_clean(twin(named, ("optimizer.step()", "pass")), CODE)
    assert_clean(BY_A_HELPER + twin(named, (made, "choose(config.name, other)")), CODE)
    assert_clean(BY_A_HELPER + twin(named, (made, "choose(config.name, net.body)")), CODE)
    before = [f"        optimizer = {made}\n", "        net.head = nn.Linear(64, 5)\n"]
    assert_clean(twin(named, ("".join(before), "".join(reversed(before)))), CODE)


COUNTS = """class Other(nn.Module):
        def reset_classifier(self, classes):
            self.classes = classes
"""


@pytest.mark.parametrize(
    "edit",
    [
        ("self.model.reset_classifier(3)", "pass"),
        ("self.model.reset_classifier(3)", "self.model.classifier_of(3)"),
        ("self.model.reset_classifier(3)", "self.other.reset_classifier(3)"),
        ("self.fc = nn.Linear(self.fc.in_features, classes)", "nn.init.zeros_(self.fc.weight)"),
        ("self.fc = nn.Linear(self.fc.in_features, classes)", "self.fc = nn.Identity()"),
        ("self.model.parameters())\n", "self.other.parameters())\n"),
        ("self.model.reset_classifier(3)", "self.model.reset_classifier(3); self.optimizer = torch.optim.SGD(self.p)"),
        ("class Experiment", f"{COUNTS}\n    class Experiment"),
    ],
)
def test_a_registry_and_nothing_stale(edit: tuple[str, str]) -> None:
    assert_clean(twin(BY_A_REGISTRY, edit), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("self.net.head = nn.Linear(64, classes)", "self.net.head = nn.Linear(64, classes); self.rebuild()"),
        ("self.net.head =", "self.optimizer = instantiate(self.config, self.net.parameters()); self.net.head ="),
        ("self.net.head =", "optimizer = instantiate(self.config, self.net.parameters()); self.net.head ="),
        ("learner.next_task(task.classes)", "pass"),
        ("params=self.net.parameters()", "params=self.net.body.parameters()"),
    ],
)
def test_a_later_method_and_nothing_stale(edit: tuple[str, str]) -> None:
    rebuild = (
        "\n        def rebuild(self):\n            self.optimizer = instantiate(self.config, self.net.parameters())\n"
    )
    more = rebuild if "rebuild" in edit[1] else ""
    assert_clean(twin(IN_A_METHOD, edit).replace("\n        def fit", more + "\n        def fit"), CODE)


LOADS = """
    class Net(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.body = nn.Linear(size, 2)

        def forward(self, x):
            return self.body(x)

        @staticmethod
        def load(path):
            saved = torch.load(path)
            net = Net(saved["size"])
            net.load_state_dict(saved["state"])
            return net

        @classmethod
        def restore(cls, path):
            saved = torch.load(path)
            net = cls(saved["size"])
            net.load_state_dict(saved["state"])
            return net

    def train(args, loader, dev):
        net = Net(8)
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        patience, best = 0, None
        while True:
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            score = evaluate(net, dev)
            if best is None or score > best:
                best, patience = score, 0
                torch.save(net, args.path)
            else:
                patience += 1
                if patience == args.patience:
                    if args.trials > 5:
                        exit(0)
                    net = Net.load(args.path)  # !
                    patience = 0
"""
LOADED = "net = Net.load(args.path)"


def loads(then: str, **edits: str) -> str:
    snippet = LOADS.replace(LOADED, then)
    for old, new in edits.items():
        snippet = snippet.replace(old, new)
    return snippet


@pytest.mark.parametrize(
    "snippet",
    [
        LOADS,
        loads("net = Net.restore(args.path)"),
        loads("net = torch.load(args.path)"),
        loads("net = Net(8)"),
        loads("net = torch.load(args.path).to(args.device)"),
        LOADS.replace("while True:", "for epoch in range(100):"),
        LOADS.replace("if patience == args.patience:", "if epoch % 10 == 9:"),
        # of a class whose file is not there
        "\n    from nets import Net\n" + LOADS[LOADS.index("\n    def train") :],
        "\n    from nets import Net\n"
        + loads("net = Net.from_pretrained(args.path)")[LOADS.index("\n    def train") :],
    ],
)
def test_a_model_that_is_loaded_in_the_loop_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "then",
    [
        "net.load_state_dict(torch.load(args.path))",
        "best_net = Net.load(args.path)",
        "net = Net.load(args.path); optimizer = torch.optim.Adam(net.parameters())",
        "net = Net.load(args.path); optimizer.param_groups[0]['params'] = list(net.parameters())",
        "net = Net.load(args.path); optimizer.add_param_group({'params': net.parameters()})",
        "net = Net.load(args.path); break",
        "net = Net.load(args.path); return net",
        "net = Net.load(args.path); sys.exit()",
        "net = load_into(net, args.path)",
        "state = torch.load(args.path); net.load_state_dict(state)",
        "kept = net; net = Net.load(args.path); evaluate(net, dev); net = kept",
        "net = unwrap(net)",
    ],
)
def test_a_loop_that_goes_on_with_what_the_optimizer_has_is_not(then: str) -> None:
    assert_clean(loads(then).replace("  # !", ""), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        (("if patience == args.patience:", "if epoch == args.epochs - 1:"),),
        (("if patience == args.patience:", "if is_last:"),),
        (("if patience == args.patience:", "if args.final_test:"),),
        (("patience = 0\n", "done = True\n"), ("while True", "while not done")),
        # each of the models has an optimizer of its own
        (
            ("        while True:\n", "        for seed in range(5):\n            net, optimizer = make(seed)\n"),
            (LOADED, "net = Net(8)"),
        ),
        ((LOADED, "other = Net.load(args.path)"),),
        (("while True:\n", "while True:\n            net = args.net\n"),),
    ],
)
def test_a_model_that_is_loaded_at_the_end_is_not(edits: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(LOADS, *edits), CODE)


SETUP = """
    class LoRALinear(nn.Module):
        def __init__(self, base, r=4):
            super().__init__()
            self.base = base
            self.lora_A = nn.Parameter(torch.randn(r, base.in_features))
            self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))

        def forward(self, x):
            return self.base(x) + x @ self.lora_A.t() @ self.lora_B.t()

    def inject(model, targets):
        for name, module in list(model.named_modules()):
            for key, child in list(module.named_children()):
                if isinstance(child, nn.Linear) and key in targets:
                    setattr(module, key, LoRALinear(child))

    def setup(args):
        model = Encoder()
        optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
        inject(model, args.targets)  # !
        return model, optimizer
"""


@pytest.mark.parametrize(
    "snippet",
    [
        SETUP,
        SETUP.replace("inject(model, args.targets)", "names = inject(model, args.targets)"),
        SETUP.replace("inject(model, args.targets)", "model.head = nn.Linear(8, 2)"),
        SETUP.replace("return model, optimizer", "return optimizer, model, args"),
    ],
)
def test_a_setup_that_gives_the_optimizer_of_the_old_parameters_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        (("return model, optimizer", "return model"),),
        (("return model, optimizer", "optimizer.add_param_group(new(model)); return model, optimizer"),),
        (("return model, optimizer", "optimizer = renew(model); return model, optimizer"),),
        (("inject(model, args.targets)", "if args.eval_only: inject(model, args.targets)"),),
        (("inject(model, args.targets)", "show(model)"),),
        (("inject(model, args.targets)", "model.head = nn.Linear(8, 2); model.head.requires_grad_(False)"),),
        (("inject(model, args.targets)", "model.head = nn.Linear(8, 2); head = list(model.head.parameters())"),),
        (
            (
                "    def setup",
                "    def extend(optimizer, p):\n        optimizer.add_param_group({'params': p})\n\n    def setup",
            ),
        ),
        (("setattr(module, key, LoRALinear(child))", "setattr(module, key, nn.Identity())"),),
    ],
)
def test_a_setup_whose_optimizer_may_get_them_is_not(edits: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(SETUP, *edits), CODE)


HEADS = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 4)
            self.heads = nn.ModuleList([nn.Linear(4, 2)])

        def add_head(self, classes):
            self.heads.append(nn.Linear(4, classes))

        def forward(self, x):
            return self.heads[-1](self.body(x))

    class Learner:
        def __init__(self):
            self.net = Net()
            self.optimizer = torch.optim.Adam(self.net.parameters())

        def new_task(self, classes):
            self.net.add_head(classes)  # !

        def fit(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.optimizer.step()

    def run(tasks):
        learner = Learner()
        for task in tasks:
            learner.new_task(task.classes)
            learner.fit(task.loader)
"""
ADDS = "self.net.add_head(classes)"


@pytest.mark.parametrize(
    "snippet",
    [
        HEADS,
        HEADS.replace(ADDS, "self.net.heads.append(nn.Linear(4, classes))"),
        HEADS.replace(ADDS, "self.net.add_module(f'head_{classes}', nn.Linear(4, classes))"),
        """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(4, 4)
                    self.blocks = nn.ModuleList()

                def grow(self):
                    self.blocks.append(nn.Linear(4, 4))

            def main(loader):
                net = Net()
                optimizer = torch.optim.Adam(net.parameters())
                net.grow()  # !
                for x, y in loader:
                    optimizer.zero_grad()
                    F.mse_loss(net.blocks[-1](net.body(x)), y).backward()
                    optimizer.step()
        """,
    ],
)
def test_a_head_that_is_added_after_the_optimizer_was_made_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edit",
    [
        (ADDS, ADDS + "; self.optimizer = torch.optim.Adam(self.net.parameters())"),
        (ADDS, ADDS + "; self.optimizer.add_param_group({'params': self.net.heads[-1].parameters()})"),
        (ADDS, "self.log(classes)"),
        ("self.heads.append(nn.Linear(4, classes))", "self.sizes.append(classes)"),
        ("self.heads.append(nn.Linear(4, classes))", "self.heads.append(nn.ReLU())"),
        ("self.heads.append(nn.Linear(4, classes))", "self.hooks.append(lambda x: x)"),
        ("            self.optimizer = torch.optim.Adam(self.net.parameters())", "            self.optimizer = None"),
        ("            learner.fit(task.loader)", "            learner.test(task.loader)"),
        (
            "for x, y in loader:",
            "self.optimizer = torch.optim.Adam(self.net.parameters())\n            for x, y in loader:",
        ),
        (
            "        learner = Learner()\n",
            "        learner = Learner()\n        learner.optimizer = optimizer_of(learner)\n",
        ),
    ],
)
def test_a_head_that_the_optimizer_gets_is_not(edit: tuple[str, str]) -> None:
    assert_clean(twin(HEADS, edit), CODE)


LATE = """
    class Relation(nn.Module):
        def __init__(self, width, out, kinds):
            super().__init__()
            self.out, self.kinds = out, kinds
            self.root = nn.Linear(width, out)
            self.relations = nn.ModuleDict()
            self.norm = None

        def relation(self, kind, width):
            if kind not in self.relations:
                self.relations[kind] = nn.Linear(width, self.out, bias=False)  # !
            return self.relations[kind]

        def forward(self, x, edges):
            h = self.root(x)
            for kind in self.kinds:
                h = h + self.relation(kind, x.shape[1])(x)
            return h

    class Model(nn.Module):
        def __init__(self, kinds):
            super().__init__()
            self.layers = nn.ModuleList([Relation(8, 8, kinds) for _ in range(2)])

        def forward(self, x, edges):
            for layer in self.layers:
                x = layer(x, edges)
            return x

    def main(loader, kinds, device):
        model = Model(kinds).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for x, edges, y in loader:
            loss = F.cross_entropy(model(x, edges), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
IN_DICT = "self.relations[kind] = nn.Linear(width, self.out, bias=False)"
MAKES_IT = "optimizer = torch.optim.Adam("
RUNS = "            loss = F.cross"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(IN_DICT, "layer = nn.Linear(width, self.out).to(self.root.weight.device); self.relations[kind] = layer")],
        [(IN_DICT, "self.relations[kind] = nn.Sequential(nn.ReLU(), nn.Linear(width, self.out))")],
        [
            ("nn.ModuleDict()", "nn.ParameterDict()"),
            ("nn.Linear(width, self.out, bias", "nn.Parameter(torch.zeros(width)"),
            ("=False)", ")"),
            (", kind))", ", kind))"),
        ],
        [("Model(kinds).to(device)", "Model(kinds)\n        model = nn.DataParallel(model)\n        print(model)")],
        [("Model(kinds).to(device)", "nn.Sequential(nn.Linear(8, 8), Relation(8, 8, kinds))")],
        [(MAKES_IT, "total = sum(p.numel() for p in model.parameters())\n        " + MAKES_IT)],
        [("        for x, edges, y in loader:", "        evaluate(model)\n        for x, edges, y in loader:")],
    ],
)
def test_a_layer_that_is_made_when_the_model_runs(edits: list[tuple[str, str]]) -> None:
    snippet = LATE
    for old, new in edits:
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


BY_SIZE = """
    class Head(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.body = nn.Conv2d(1, 8, 3)
            self.fc = None
            self.classes = classes
            self.optimizer = torch.optim.Adam(self.parameters())

        def forward(self, x):
            x = self.body(x).flatten(1)
            if self.fc is None:
                self.fc = nn.Linear(x.shape[1], self.classes)  # !
            return self.fc(x)

        def learn(self, x, y):
            self.optimizer.zero_grad()
            F.cross_entropy(self(x), y).backward()
            self.optimizer.step()
"""


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("self.fc = nn.Linear(x.shape[1], self.classes)", 'self.add_module("fc", nn.Linear(x.shape[1], 4))')],
        [
            ("self.fc = nn.Linear(x.shape[1], self.classes)", "self.fc = self.head(x)"),
            (
                "        def learn",
                "        def head(self, x):\n            return nn.Linear(x.shape[1], 4)\n\n        def learn",
            ),
        ],
    ],
)
def test_a_module_that_trains_itself(edits: list[tuple[str, str]]) -> None:
    snippet = BY_SIZE
    for old, new in edits:
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [
            ("self.fc = None", "self.fc = nn.LazyLinear(classes)"),
            ("self.fc = nn.Linear(x.shape[1], self.classes)", "pass"),
        ],
        [
            (
                "            self.optimizer = torch",
                "            self(torch.zeros(1, 1, 8, 8))\n            self.optimizer = torch",
            )
        ],
        [
            ("            self.optimizer = torch", "            self.warm_up()\n            self.optimizer = torch"),
            (
                "        def learn",
                "        def warm_up(self):\n            self.forward(torch.zeros(1, 1, 8, 8))\n\n        def learn",
            ),
        ],
        [
            (
                "self.classes)\n            return",
                "self.classes)\n                self.optimizer.add_param_group(self.new())\n            return",
            )
        ],
        [("self.fc = nn.Linear(x.shape[1], self.classes)", "self.fc = nn.Flatten()")],
        [("self.fc = nn.Linear(x.shape[1], self.classes)", "self.fc = nn.Parameter(x.mean(0), requires_grad=False)")],
        [("self.classes)\n            return", "self.classes).requires_grad_(False)\n            return")],
        [
            (
                "            self.optimizer.step()",
                "            self.optimizer.step()\n\n        def renew(self):\n"
                "            self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)",
            )
        ],
        [
            (
                "        def learn",
                "        def build(self, size):\n            self.fc = nn.Linear(size, 4)\n\n        def learn",
            )
        ],
        [("            self.optimizer.step()", "            pass")],
        [("            if self.fc is None:", "            with torch.no_grad():")],
    ],
)
def test_look_alikes_of_a_module_that_trains_itself(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(BY_SIZE, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        # it has run before the optimizer is made, or may have
        [(MAKES_IT, "model(*next(iter(loader))[:2])\n        " + MAKES_IT)],
        [(MAKES_IT, "with torch.no_grad():\n            model(*sample)\n        " + MAKES_IT)],
        [(MAKES_IT, "warm_up(model, loader)\n        " + MAKES_IT)],
        [(MAKES_IT, "model.layers[0](*sample)\n        " + MAKES_IT)],
        [(MAKES_IT, "model.load_state_dict(torch.load(path))\n        " + MAKES_IT)],
        [("Model(kinds).to(device)", "build(kinds)")],
        [("Model(kinds).to(device)", "initialized(Model(kinds))"), (MAKES_IT, "check(model)\n        " + MAKES_IT)],
        [("for _ in range(2)])", "for _ in range(2)])\n            self.layers[0](torch.zeros(1, 8), None)")],
        [("for _ in range(2)])", "for _ in range(2)])\n            self(torch.zeros(1, 8), None)")],
        [
            (
                "self.norm = None",
                "self.norm = None\n            for kind in kinds:\n                self.relation(kind, width)",
            )
        ],
        # the optimizer is made anew, gets more, or steps no more
        [(RUNS, "            optimizer = torch.optim.Adam(model.parameters())\n" + RUNS)],
        [(RUNS, "            optimizer.add_param_group({'params': list(new(model))})\n" + RUNS)],
        [
            (RUNS, "            add_new(optimizer, model)\n" + RUNS),
            (
                "    def main",
                "    def add_new(optimizer, model):\n"
                "        optimizer.param_groups[0]['params'] = list(model.parameters())\n\n    def main",
            ),
        ],
        [("            optimizer.step()\n", "")],
        [("torch.optim.Adam(model.parameters(), lr=0.01)", "torch.optim.Adam(other.parameters(), lr=0.01)")],
        # what is made has nothing to train, or is no part of the model
        [(IN_DICT, "self.relations[kind] = nn.Dropout(0.1)")],
        [(IN_DICT, "self.relations[kind] = nn.AvgPool1d(2)")],
        [(IN_DICT, "self.relations[kind] = torch.zeros(width)"), ("nn.ModuleDict()", "{}")],
        [("self.out, bias=False)", "self.out, bias=False).requires_grad_(False)")],
        [
            (
                "            return self.relations[kind]",
                "            self.relations[kind].requires_grad_(False)\n            return self.relations[kind]",
            )
        ],
        [("        def relation", "        @torch.no_grad()\n        def relation")],
        [
            ("            h = self.root(x)\n", "            h = self.root(x)\n            return h\n"),
            ("h + self.relation(kind, x.shape[1])(x)", "h"),
        ],
    ],
)
def test_look_alikes_of_a_layer_that_is_made_late(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(LATE, *edits), CODE)


def test_a_layer_that_another_file_makes_late(tmp_path: Path) -> None:
    lines = [line[4:] for line in LATE.replace("  # !", "").splitlines()]
    at = next(n for n, line in enumerate(lines) if line.startswith("def main"))
    head = ["import torch", "import torch.nn as nn", "import torch.nn.functional as F"]
    files = {
        "model.py": "\n".join(head + lines[:at]),
        "main.py": "\n".join([*head, "from model import Model", *lines[at:]]),
    }
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["model.py"]


BESIDE = """
    class Hint(nn.Module):
        def __init__(self):
            super().__init__()
            self.maps = nn.ModuleDict()

        def build(self, parts):
            for name in parts:
                if name not in self.maps:
                    self.maps[name] = nn.Linear(parts[name].shape[1], 4)  # !

        def forward(self, parts):
            self.build(parts)
            return sum(self.maps[name](parts[name]).square().mean() for name in parts)

    def train(net, loader):
        student, hint = nn.Linear(4, 2), Hint()
        student.train()
        {}
        optimizer = torch.optim.SGD([*student.parameters(), *hint.parameters()], lr=0.1)
        for x, y in loader:
            loss = F.mse_loss(student(x), y) + hint({{"x": x}})
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


def test_two_models_that_are_made_in_one_statement_are_two() -> None:
    assert_flagged(BESIDE.format("pass"), CODE)
    for built in ('hint.build({"x": torch.zeros(1, 4)})', 'hint({"x": torch.zeros(1, 4)})'):
        assert_clean(BESIDE.format(built).replace("  # !", ""), CODE)


ACTNORM = """
    class ActNorm(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(dim))
            self.ready = False

        def initialize(self, x):
            with torch.no_grad():
                self.bias = nn.Parameter(-x.mean(0))  # !
            self.ready = True

        def forward(self, x):
            if not self.ready:
                self.initialize(x)
            return x + self.bias

    class Glow(nn.Module):
        def __init__(self, dim, depth):
            super().__init__()
            self.steps = nn.ModuleList()
            for _ in range(depth):
                self.steps.append(ActNorm(dim))
                self.steps.append(nn.Linear(dim, dim))

        def log_prob(self, x):
            for step in self.steps:
                x = step(x)
            return -x.pow(2).sum(-1)

    class Trainer:
        def __init__(self, model, lr):
            self.model = model
            self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

        def fit(self, loader):
            for x in loader:
                self.optimizer.zero_grad()
                (-self.model.log_prob(x).mean()).backward()
                self.optimizer.step()

    def main(loader):
        Trainer(Glow(4, 2), 1e-3).fit(loader)
"""
REBINDS = "self.bias = nn.Parameter(-x.mean(0))"
GIVES = "Trainer(Glow(4, 2), 1e-3).fit(loader)"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("            with torch.no_grad():\n    ", "")],
        [("        def initialize", "        @torch.no_grad()\n        def initialize"),
         ("            with torch.no_grad():\n    ", "")],
        [("                self.initialize(x)\n",
          "                self.bias = nn.Parameter(-x.mean(0).detach())  # !\n"),
         ("            with torch.no_grad():\n                self.bias = nn.Parameter(-x.mean(0))  # !\n", "")],
        [("self.optimizer = torch.optim.AdamW(model.parameters()",
          "self.optimizer = torch.optim.AdamW(self.model.parameters()"),
         (GIVES, "glow = Glow(4, 2).cuda()\n        print(len(list(glow.parameters())))\n"
          "        Trainer(glow, 1e-3).fit(loader)")],
    ],
)  # fmt: skip
def test_a_parameter_that_the_first_batch_replaces(edits: list[tuple[str, str]]) -> None:
    snippet = ACTNORM
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [(REBINDS, "self.bias.copy_(-x.mean(0))")],
        [(REBINDS, "self.bias.data = -x.mean(0)")],
        [(REBINDS, "self.bias = nn.Parameter(-x.mean(0), requires_grad=False)")],
        [("nn.Parameter(torch.zeros(dim))", "nn.Parameter(torch.zeros(dim), requires_grad=False)")],
        [("return x + self.bias", "return x + self.bias.detach()")],
        [("def initialize", "def fuse"), ("self.initialize", "self.fuse")],
        [("if not self.ready:", "if not self.training and not self.ready:")],
        [("self.initialize(x)", "pass")],  # who knows who calls it
        [("        def initialize", "        def reset(self, x):\n            self.bias = nn.Parameter(x)\n\n"
          "        def initialize")],
        [(GIVES, "glow = Glow(4, 2)\n        glow.log_prob(next(iter(loader)))\n"
          "        Trainer(glow, 1e-3).fit(loader)")],
        [(GIVES, "glow = Glow(4, 2)\n        warm_up(glow, loader)\n        Trainer(glow, 1e-3).fit(loader)")],
        [(GIVES, "glow = load(Glow)\n        Trainer(glow, 1e-3).fit(loader)")],
        [("            self.model = model\n", "            self.model = model\n            model.log_prob(SAMPLE)\n")],
        [("                self.optimizer.step()", "                self.optimizer.step()\n\n        def again(self):\n"
          "            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)")],
        [("self.optimizer.zero_grad()\n", "self.optimizer.add_param_group({'params': self.model.new})\n")],
        [("self.optimizer.step()", "pass")],
        [("    def main(loader):", "    def other(model, lr):\n        return Trainer(model, lr)\n\n"
          "    def main(loader):")],
    ],
)  # fmt: skip
def test_look_alikes_of_a_parameter_that_is_replaced(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(ACTNORM, *edits), CODE)


# A network that a method makes deeper during the training, by a block that has a name first.
DEEPER = """
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.fc = nn.Linear(width, width)

        def forward(self, x):
            return self.fc(x).relu()

    class Tower(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.width = width
            self.stem = nn.Linear(width, width)
            self.blocks = nn.ModuleList()

        def deepen(self):
            block = Block(self.width)
            self.blocks.append(block)
            return block

        def forward(self, x):
            x = self.stem(x)
            for block in self.blocks:
                x = block(x)
            return x

    def fit(batches, phase=100):
        net = Tower(8)
        optimizer = torch.optim.Adam(net.parameters())
        for step, (x, y) in enumerate(batches):
            if step and step % phase == 0 and len(net.blocks) < 4:
                net.deepen()  # !
            optimizer.zero_grad()
            F.mse_loss(net(x), y).backward()
            optimizer.step()
"""
PUTS = "self.blocks.append(block)"
OF_CLASS = """    class Fit:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.Adam(self.net.parameters())

        def run(self, batches, phase=100):
            for step, (x, y) in enumerate(batches):
                if step and step % phase == 0:
                    self.net.deepen()  # !
                self.optimizer.zero_grad()
                F.mse_loss(self.net(x), y).backward()
                self.optimizer.step()

    def fit(batches):
        Fit(Tower(8)).run(batches)
"""
DEEPER_BY_CLASS = DEEPER[: DEEPER.index("    def fit")] + OF_CLASS


@pytest.mark.parametrize("snippet", [DEEPER, DEEPER_BY_CLASS])
@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("block = Block(self.width)", "block = Block(self.width).to(self.stem.weight.device)")],
        [(PUTS, "self.blocks.append(block.to(self.stem.weight.device))")],
        [(PUTS, "self.blocks.insert(0, block)"), ("return block", "print(block(torch.zeros(1, 8)).shape)")],
        [(PUTS, "self.add_module(f'deep{self.width}', block)")],
        [("block = Block(self.width)", "block = nn.Linear(self.width, 8)"), ("return block", "pass")],
    ],
)
def test_a_network_that_gets_deeper_is_flagged(snippet: str, edits: list[tuple[str, str]]) -> None:
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", [DEEPER, DEEPER_BY_CLASS])
@pytest.mark.parametrize(
    "edit",
    [
        (PUTS, PUTS + "; block.requires_grad_(False)"),
        (PUTS, PUTS + "; block.fc.weight = self.stem.weight"),
        (PUTS, PUTS + "; self.optimizers.append(torch.optim.Adam(block.parameters()))"),
        (PUTS, PUTS + "; self.added.append(block)"),
        (PUTS, PUTS + "; train_alone(block)"),
        (PUTS, PUTS + "; block = self.stem"),
        ("block = Block(self.width)", "block = nn.ReLU()"),
        ("block = Block(self.width)", "block = self.spare.pop()"),
        ("nn.ModuleList()", "[]"),
        (PUTS, "self.sizes.append(self.width)"),
    ],
)
def test_a_block_that_is_trained_otherwise_or_not_at_all_is_not(snippet: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(snippet, edit), CODE)


@pytest.mark.parametrize(
    ("snippet", "edit"),
    [
        (DEEPER, ("net.deepen()", "optimizer.add_param_group({'params': net.deepen().parameters()})")),
        (DEEPER, ("net.deepen()", "net.deepen(); optimizer = torch.optim.Adam(net.parameters())")),
        (DEEPER, ("optimizer.step()", "print(step)")),
        (DEEPER_BY_CLASS, ("self.net.deepen()", "self.net.deepen(); self.begin()")),
        (DEEPER_BY_CLASS, ("self.net.deepen()", "self.add(self.net.deepen())")),
        (DEEPER_BY_CLASS, ("self.net.deepen()", "new = self.net.deepen(); self.add(new)")),
        (DEEPER_BY_CLASS, ("if step and step % phase == 0:", "if self.optimizer is None:")),
    ],
)
def test_a_deeper_network_that_the_optimizer_learns_of_is_not(snippet: str, edit: tuple[str, str]) -> None:
    more = """
        def begin(self):
            self.optimizer = torch.optim.Adam(self.net.parameters())

        def add(self, block):
            self.optimizer.add_param_group({"params": block.parameters()})
    """
    is_told = "self.begin()" in edit[1] or "self.add(" in edit[1]
    assert_clean(twin(snippet, edit, *([("\n    def fit(", f"{more}\n    def fit(")] if is_told else [])), CODE)


# A callback that holds a part of the model, beside a trainer whose optimizer leaves out what is frozen.
HELD = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(9, 4)
            self.out = nn.Linear(4, 2)

        def load_words(self, weights, frozen=True):
            self.words.weight.data.copy_(weights)
            self.words.weight.requires_grad = not frozen

        def forward(self, x):
            return self.out(self.words(x))

    class Thaw:
        def __init__(self, module, at):
            self.module, self.at = module, at

        def _set(self, flag):
            for p in self.module.parameters():
                p.requires_grad = flag

        def before_step(self, run):
            if run.step == self.at:
                self._set(True)

    class Fit:
        def __init__(self, net, hooks, lr=0.1):
            self.net, self.hooks, self.step = net, hooks, 0
            self.opt = torch.optim.Adam(filter(lambda p: p.requires_grad, net.parameters()), lr=lr)  # !

        def call(self, name):
            for hook in self.hooks:
                getattr(hook, name)(self)

        def run(self, batches):
            for self.step, (x, y) in enumerate(batches):
                self.call("before_step")
                self.opt.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.opt.step()

    def main(batches, vectors):
        net = Net()
        net.load_words(vectors)
        fit = Fit(net, [Thaw(net.words, 80)])
        fit.run(batches)
"""
FILTER = "filter(lambda p: p.requires_grad, net.parameters())"
LOADS_WORDS = "net.load_words(vectors)"
SETS = "self._set(True)"
MAKES_FIT = "fit = Fit(net, [Thaw(net.words, 80)])"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(FILTER, "[p for p in net.parameters() if p.requires_grad]")],
        [(FILTER, "[p for _, p in self.net.named_parameters() if p.requires_grad]")],
        [(LOADS_WORDS, "net.words.requires_grad_(False)")],
        [(LOADS_WORDS, "for p in net.words.parameters(): p.requires_grad = False")],
        [(LOADS_WORDS, "net.words.weight.data.copy_(vectors)"), ("(9, 4)", "(9, 4).requires_grad_(False)")],
        [
            (LOADS_WORDS, "pass"),
            ("self.module, self.at = module, at", "self.module, self.at = module.requires_grad_(False), at"),
            ("self.module, self.at = module.requires_grad_(False), at", "module.requires_grad_(False)"),
            ("module.requires_grad_(False)", "self.module = module; self.at = at; self.module.requires_grad_(False)"),
        ],
        [(LOADS_WORDS, "freeze(net.words)"), ("self._set(True)", "self.module.requires_grad_(True)")],
        [(SETS, "for p in self.module.parameters(): p.requires_grad_()")],
        [("Thaw(net.words, 80)", "Thaw(at=80, module=net.words)")],
        [(MAKES_FIT, "thaw = Thaw(net, 80); fit = Fit(net, [thaw])"), ("self.module.par", "self.module.words.par")],
        [('self.call("before_step")', "for hook in self.hooks: hook.before_step(self)")],
        [("net.parameters()), lr=lr)", "net.parameters()), lr=lr); self.net.train()")],
    ],
)
def test_an_object_that_unfreezes_what_it_holds_is_flagged(edits: list[tuple[str, str]]) -> None:
    snippet = HELD
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


def test_a_function_that_makes_both_is_flagged() -> None:
    head = HELD[: HELD.index("    class Fit:")]
    both = """    def main(batches, vectors):
        net = Net()
        net.load_words(vectors)
        opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)  # !
        hooks = [Thaw(net.words, 80)]
        for step, (x, y) in enumerate(batches):
            for hook in hooks:
                hook.before_step(State(step))
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()
"""
    assert_flagged(head + both, CODE)
    assert_clean(twin(head + both, ("opt.zero_grad()", "opt = renewed(opt, net); opt.zero_grad()")), CODE)
    assert_clean(twin(head + both, ("State(step)", "State(step)); opt.add_param_group(group(net.words)")), CODE)
    assert_clean(twin(head + both, ("[Thaw(net.words, 80)]", "[Thaw(teacher.words, 80)]")), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [(FILTER, "net.parameters()")],
        [(FILTER, "list(net.parameters())")],
        [(FILTER, "filter(lambda p: p.requires_grad, net.out.parameters())")],
        [(LOADS_WORDS, "pass")],  # nothing is frozen
        [(LOADS_WORDS, "other.requires_grad_(False)")],
        [(LOADS_WORDS, "net.out.requires_grad_(False)")],
        [(LOADS_WORDS, "pass"), ("fit.run(batches)", "net.words.requires_grad_(False); fit.run(batches)")],
        [(LOADS_WORDS, "unfreeze(net.words)")],
        [(SETS, "self._set(False)")],
        [(SETS, "self._set(run.step > 0)")],
        [(SETS, "self._set(True); run.opt.add_param_group({'params': self.module.parameters()})")],
        [(SETS, "self._set(True); run.renew()"), ("    def call(", "    def renew(self):\n            self.opt = "
          "torch.optim.Adam(self.net.parameters())\n\n        def call(")],
        [("Thaw(net.words, 80)", "Thaw(teacher.words, 80)")],
        [("Thaw(net.words, 80)", "Thaw(Net().words, 80)")],
        [("def before_step(self, run):", "def begin(self, run):\n            self._set(False)\n\n        "
          "def before_step(self, run):")],
        [(MAKES_FIT, "thaw = Thaw(net.words, 80); thaw.before_step(None); fit = Fit(net, [thaw])")],
        [("self.opt.step()", "print(self.step)")],
        [("self.step, (x, y)", "self.step, (x, y)"), ("fit.run(batches)", "fit.opt = make(net); fit.run(batches)")],
        [("fit.run(batches)", "fit.opt.add_param_group({'params': net.words.parameters()}); fit.run(batches)")],
        [("before_step", "unused"), ('self.call("unused")', "pass")],
        [("def _set(self, flag):", "def _set(self, flag, optimizer=None):")],
        [("net.parameters()), lr=lr)", "net.parameters()), lr=lr); self.opt = torch.optim.SGD(net.parameters(), lr)")],
    ],
)  # fmt: skip
def test_look_alikes_of_an_object_that_unfreezes_what_it_holds(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(HELD, *edits), CODE)


def test_a_callback_of_another_file(tmp_path: Path) -> None:
    source = dedent(HELD)
    thaw = source[source.index("class Thaw") : source.index("class Fit")]
    head = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\nfrom hooks import Thaw\n"
    files = {"hooks.py": thaw, "train.py": head + source.replace(thaw, "")}
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["train.py"]

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG407"

FLAGGED = {
    "a field of a record that is handed to a helper": """
        from dataclasses import dataclass

        @dataclass
        class Pack:
            pos: torch.Tensor
            energy: torch.Tensor

        def build(count):
            return [Pack(torch.randn(9, 3), torch.randn(())) for _ in range(count)]

        def forces(net, pack, training):
            pos = pack.pos.requires_grad_()  # !
            energy = net(pos).sum()
            return energy, -torch.autograd.grad(energy, pos, create_graph=training)[0]

        def fit(net, optimizer):
            packs = build(100)
            for step in range(1000):
                pack = packs[step % 100]
                energy, f = forces(net, pack, True)
                optimizer.zero_grad()
                ((energy - pack.energy).square() + f.square().mean()).backward()
                optimizer.step()
    """,
    "a field of a record that a helper makes": """
        from dataclasses import dataclass

        @dataclass
        class Pack:
            pos: torch.Tensor
            energy: torch.Tensor

        def build(count):
            packs = []
            for _ in range(count):
                packs.append(Pack(torch.randn(9, 3), torch.randn(())))
            return packs

        def fit(net, optimizer):
            packs = build(100)
            for step in range(1000):
                pack = packs[step % 100]
                pos = pack.pos.requires_grad_(True)  # !
                energy = net(pos).sum()
                forces = torch.autograd.grad(energy, pos, create_graph=True)[0]
                optimizer.zero_grad()
                ((energy - pack.energy).square() + forces.square().mean()).backward()
                optimizer.step()
    """,
    "elements of a list": """
        def attack(model, labels, epochs):
            samples = [torch.randn(1, 3, 32, 32) for _ in range(1000)]
            for epoch in range(epochs):
                for x, y in zip(samples, labels):
                    x.requires_grad_()  # !
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    print(x.grad.abs().mean().item())
    """,
    "attribute assigned": """
        def saliency(model, paths):
            images = [torch.load(p) for p in paths]
            scores = []
            for i, img in enumerate(images):
                img.requires_grad = True  # !
                model(img).max().backward()
                scores.append(img.grad.abs().max().item())
            return scores
    """,
    "by index, of a class": """
        class Critic:
            def __init__(self, net, n):
                self.net = net
                self.data = [torch.randn(64) for _ in range(n)]

            def train(self, optimizer):
                for i in range(len(self.data)):
                    self.data[i].requires_grad_()  # !
                    optimizer.zero_grad()
                    self.net(self.data[i]).sum().backward()
                    optimizer.step()
    """,
    "images of a data set": """
        class Images(torch.utils.data.Dataset):
            def __init__(self, paths):
                self.images = [torch.load(p) for p in paths]

        def explain(model, paths, order):
            dataset = Images(paths)
            for idx in order:
                dataset.images[idx].requires_grad_(True)  # !
                model(dataset.images[idx][None]).max().backward()
                print(idx, dataset.images[idx].grad.norm().item())
    """,
    "an element by index, in a while loop": """
        import random

        def train(net, optimizer, steps):
            pool = [torch.rand(16) for _ in range(10_000)]
            step = 0
            while step < steps:
                x = pool[random.randrange(len(pool))]
                x.requires_grad_(True)  # !
                loss = net(x).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
    """,
    "values of a dict": """
        def sensitivities(model, files):
            inputs = {f: torch.load(f) for f in files}
            result = {}
            for name, img in inputs.items():
                img = img.requires_grad_()  # !
                model(img).sum().backward()
                result[name] = img.grad.norm().item()
            return result
    """,
    "batches kept in a list": """
        def train(model, loader, optimizer, epochs):
            batches = list(loader)
            for epoch in range(epochs):
                for x, y in batches:
                    x.requires_grad_()  # !
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
    """,
    "script": """
        net = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
        opt = torch.optim.Adam(net.parameters())
        points = [torch.rand(128, 3) for _ in range(500)]
        for epoch in range(100):
            for p in points:
                p.requires_grad_(True)  # !
                opt.zero_grad()
                net(p).pow(2).mean().backward()
                opt.step()
    """,
    "through a helper": """
        def input_norm(model, x):
            x.requires_grad_()  # !
            model(x).sum().backward()
            return x.grad.norm().item()

        def rank(model, n):
            samples = [torch.randn(8) for _ in range(n)]
            norms = []
            for x in samples:
                norms.append(input_norm(model, x))
            return norms
    """,
    "a loader that does not collate": """
        from torch.utils.data import DataLoader, Dataset

        class Configurations(Dataset):
            def __init__(self, n):
                self.items = [{"pos": torch.rand(20, 3), "energy": torch.rand(())} for _ in range(n)]

            def __len__(self):
                return len(self.items)

            def __getitem__(self, i):
                return self.items[i]

        class Matching:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer

            def loss(self, item):
                pos = item["pos"].requires_grad_()  # !
                energy = self.model(pos)
                (force,) = torch.autograd.grad(energy.sum(), pos, create_graph=True)
                return F.mse_loss(energy, item["energy"]) + force.square().mean()

            def step(self, item):
                loss = self.loss(item)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

        def fit(task, n):
            loader = DataLoader(Configurations(n), batch_size=None, shuffle=True)
            matching = Matching(task.model, task.optimizer)
            for item in loader:
                matching.step(item)
    """,
    "an item of a list of pairs that a function makes": """
        def load(count):
            pairs = []
            for _ in range(count):
                x = torch.randn(8, 20)
                pairs.append((x, x[:, :5].sum(1)))
            return pairs

        def train(model, optimizer):
            dataset = load(100)
            for step in range(1000):
                x, y = dataset[step % len(dataset)]
                x.requires_grad_(True)  # !
                optimizer.zero_grad()
                F.mse_loss(model(x).squeeze(-1), y).backward()
                optimizer.step()
    """,
}

CLEAN = {
    "a field of a record that is handed to a helper, made in each step": twin(
        FLAGGED["a field of a record that is handed to a helper"], ("packs[step % 100]", "build(1)[0]")
    ),
    "a field of a record that is handed to a helper, detached": twin(
        FLAGGED["a field of a record that is handed to a helper"], ("pack.pos.requires", "pack.pos.detach().requires")
    ),
    "a field of a record that a helper makes, a new tensor": twin(
        FLAGGED["a field of a record that a helper makes"], ("pack.pos.requires", "pack.pos.detach().requires")
    ),
    "a field of a record that a helper makes, made in each step": twin(
        FLAGGED["a field of a record that a helper makes"], ("packs[step % 100]", "build(1)[0]")
    ),
    "batches of a loader": """
        def train(model, loader, optimizer):
            for x, y in loader:
                x.requires_grad_()
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(x.grad.norm().item())
    """,
    "a loader made here": """
        from torch.utils.data import DataLoader, TensorDataset

        def explain(model, images):
            loader = DataLoader(TensorDataset(images), batch_size=1)
            for (x,) in loader:
                x.requires_grad = True
                model(x).max().backward()
                print(x.grad.abs().max().item())
    """,
    "cloned first": """
        def attack(model, labels):
            samples = [torch.randn(1, 3, 32, 32) for _ in range(1000)]
            for x, y in zip(samples, labels):
                adv = x.clone().requires_grad_()
                F.cross_entropy(model(adv), y).backward()
                print(adv.grad.sign().sum().item())
    """,
    "detached first": """
        def attack(model, labels):
            samples = [torch.randn(1, 3, 32, 32) for _ in range(1000)]
            for x, y in zip(samples, labels):
                x = x.detach()
                x.requires_grad_(True)
                F.cross_entropy(model(x), y).backward()
                print(x.grad.norm().item())
    """,
    "to the device first": """
        class Explainer:
            def __init__(self, net, paths):
                self.net = net.cuda()
                self.images = [torch.load(p) for p in paths]

            def run(self):
                for i in range(len(self.images)):
                    x = self.images[i].to("cuda")
                    x.requires_grad_()
                    self.net(x).max().backward()
                    print(x.grad.abs().max().item())
    """,
    "parameters": """
        def train(model, loader, optimizer):
            params = list(model.parameters())
            for x, y in loader:
                for p in params:
                    p.requires_grad_(True)
                for p in model.head.parameters():
                    p.requires_grad = True
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "layers": """
        def finetune(model, loader, optimizer, epochs):
            layers = [nn.Linear(8, 8) for _ in range(epochs)]
            for epoch, layer in enumerate(layers):
                layer.requires_grad_(True)
                model.blocks[-epoch].weight.requires_grad_()
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(layer(x)), y).backward()
                    optimizer.step()
    """,
    "autograd.grad": """
        def penalties(critic, n, optimizer):
            samples = [torch.randn(16, 8) for _ in range(n)]
            for x in samples:
                x.requires_grad_()
                (g,) = torch.autograd.grad(critic(x).sum(), x)
                print(g.norm().item())
    """,
    "the gradient is dropped": """
        def saliency(model, paths):
            images = [torch.load(p) for p in paths]
            scores = []
            for img in images:
                img.requires_grad_()
                model(img).max().backward()
                scores.append(img.grad.abs().max().item())
                img.grad = None
            return scores
    """,
    "switched off": """
        def train(model, loader, optimizer, n):
            targets = [torch.randn(8) for _ in range(n)]
            for (x, y), t in zip(loader, targets):
                t.requires_grad_(False)
                t.requires_grad = False
                optimizer.zero_grad()
                F.mse_loss(model(x), t).backward()
                optimizer.step()
    """,
    "rows of one tensor": """
        def explain(model, n):
            images = torch.randn(n, 3, 32, 32)
            for i, x in enumerate(images):
                x.requires_grad_()
                model(x[None]).max().backward()
                row = images[i]
                row.requires_grad_()
                model(row[None]).max().backward()
                print(x.grad.norm().item() + row.grad.norm().item())
    """,
    "a view of the element": """
        def saliency(model, paths):
            images = [torch.load(p) for p in paths]
            for img in images:
                batch = img.unsqueeze(0).requires_grad_()
                model(batch).max().backward()
                print(batch.grad.abs().max().item())
    """,
    "arrays": """
        import numpy as np

        def train(model, files, optimizer):
            arrays = [np.load(f) for f in files]
            for a in arrays:
                x = torch.from_numpy(a).requires_grad_()
                z = torch.tensor(a, requires_grad=True)
                optimizer.zero_grad()
                (model(x) + model(z)).mean().backward()
                optimizer.step()
    """,
    "made in the iteration": """
        def train(net, optimizer, steps):
            for _ in range(steps):
                points = [torch.rand(32, 3) for _ in range(4)]
                for p in points:
                    p.requires_grad_()
                loss = sum(net(p).pow(2).mean() for p in points)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "they are what is optimized": """
        def invert(model, targets, steps):
            codes = [torch.randn(512) for _ in targets]
            for z in codes:
                z.requires_grad_()
            optimizer = torch.optim.Adam(codes)
            for _ in range(steps):
                optimizer.zero_grad()
                sum(F.mse_loss(model(z), t) for z, t in zip(codes, targets)).backward()
                optimizer.step()
            return codes
    """,
    "without a backward": """
        def hessians(f, n):
            points = [torch.randn(3) for _ in range(n)]
            out = []
            for p in points:
                p.requires_grad_()
                out.append(torch.autograd.functional.hessian(f, p).trace().item())
            return out
    """,
    "a loader that does not collate, items made anew": """
        from torch.utils.data import DataLoader, Dataset

        class Configurations(Dataset):
            def __init__(self, n):
                self.rows = [[float(j) for j in range(60)] for _ in range(n)]

            def __len__(self):
                return len(self.rows)

            def __getitem__(self, i):
                return torch.tensor(self.rows[i])

        def fit(model, optimizer, n):
            for pos in DataLoader(Configurations(n), batch_size=None):
                pos.requires_grad_()
                optimizer.zero_grad()
                model(pos).sum().backward()
                optimizer.step()
    """,
    "a loader that collates": """
        from torch.utils.data import DataLoader, Dataset

        class Configurations(Dataset):
            def __init__(self, n):
                self.items = [torch.rand(20, 3) for _ in range(n)]

            def __len__(self):
                return len(self.items)

            def __getitem__(self, i):
                return self.items[i]

        def fit(model, optimizer, n):
            for pos in DataLoader(Configurations(n), batch_size=8):
                pos.requires_grad_()
                optimizer.zero_grad()
                model(pos).sum().backward()
                optimizer.step()
    """,
    "a list of the parts of one batch": """
        def train(model, loader, optimizer):
            for data in loader:
                images, labels = [data[key].cuda() for key in ("images", "labels")]
                parts = [images, labels]
                parts[0].requires_grad_()
                optimizer.zero_grad()
                model(*parts).sum().backward()
                optimizer.step()
    """,
    "a copy of an item of a list of pairs": """
        def load(count):
            pairs = []
            for _ in range(count):
                x = torch.randn(8, 20)
                pairs.append((x, x[:, :5].sum(1)))
            return pairs

        def train(model, optimizer):
            dataset = load(100)
            for step in range(1000):
                x, y = dataset[step % len(dataset)]
                x = x.clone().requires_grad_(True)
                optimizer.zero_grad()
                F.mse_loss(model(x).squeeze(-1), y).backward()
                optimizer.step()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)

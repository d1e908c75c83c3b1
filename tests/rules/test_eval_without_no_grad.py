from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import Confidence
from gradguard.static.engine import check_text
from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG301"

FLAGGED = {
    "volatile inputs, since torch 0.4": """
        from torch.autograd import Variable

        def evaluate(net, loader):
            net.eval()
            total = 0
            for x, y in loader:
                loss = F.cross_entropy(net(Variable(x, volatile=True)), y)  # !
                total += loss.item()
            return total
    """,
    "volatile inputs, on a device": """
        from torch.autograd import Variable

        device = torch.device("cuda")

        def evaluate(net, loader):
            net.eval()
            for x in loader:
                x = Variable(x.to(device))
                x.volatile = True
                print(net(x).max(1)[1])  # !
    """,
    "all items at once, in a list": """
        def evaluate(net, graphs):
            net.eval()
            pairs = [(net(graph), graph.target) for graph in graphs]  # !
            predicted, true = map(torch.stack, zip(*pairs))
            return float((predicted - true).abs().mean())
    """,
    "all rows of all items, in a list": """
        def evaluate(net, graphs):
            net.eval()
            rows = [row for graph in graphs for row in net(graph)]  # !
            return torch.stack(rows).std().item()
    """,
    "all items at once, each scored by a method": """
        class Trainer:
            def __init__(self, net: nn.Module, data):
                self.net, self.data = net, data

            def score(self, x, y):
                return F.cross_entropy(self.net(x[None]), y[None])

            def evaluate(self):
                self.net.eval()
                scores = [self.score(x, y) for x, y in self.data]  # !
                self.net.train()
                return torch.stack(scores).mean().item()
    """,
    "all losses in one sum": """
        def evaluate(net, pairs):
            net.eval()
            return sum(F.mse_loss(net(x), y) for x, y in pairs).item() / len(pairs)  # !
    """,
    "all items at once, by name": """
        class Scorer:
            def __init__(self, net: nn.Module):
                self.net = net

            def rank(self, documents):
                self.net.eval()
                scores = {name: self.net(tokens[None])[0] for name, tokens in documents.items()}  # !
                return sorted(documents, key=lambda name: -float(scores[name]))
    """,
    "all items at once, in a tuple of a generator": """
        def score(model: nn.Module, molecules, target):
            model.eval()
            values = tuple(model(m.unsqueeze(0)).squeeze() for m in molecules)  # !
            return F.mse_loss(torch.stack(values), target).item()
    """,
    "a method of a model that is built by its name": """
        class Bilinear(nn.Module):
            def __init__(self, users, items, width=16):
                super().__init__()
                self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)

            def forward(self, users, items):
                return (self.user(users) * self.item(items)).sum(-1)

            def predict(self, batch):
                return self.forward(batch["user"], batch["item"])

        class Trainer:
            def __init__(self, config, registry):
                self.model = registry.build(config["model"])

            def evaluate(self, loader):
                self.model.eval()
                rows = []
                for batch in loader:
                    scores = self.model.predict(batch)  # !
                    rows.append(float(scores.mean()))
                return sum(rows) / len(rows)
    """,
    "evaluated as in training": """
        class Runner:
            def __init__(self, net):
                self.net = net
                self.curve = []

            def evaluate(self, loader):
                total = 0.0
                with torch.set_grad_enabled(self.net.training):
                    self.net.eval()
                    for x, y in loader:
                        total = total + F.mse_loss(self.net(x), y).item()  # !
                self.net.train()
                self.curve.append(total / 10)
    """,
    "after eval": """
        def evaluate(model, loader):
            model.eval()
            correct = 0
            for x, y in loader:
                out = model(x)  # !
                correct += (out.argmax(1) == y).sum().item()
            return correct
    """,
    "a network that somebody else builds": """
        from zoo import build

        def report(config, batches):
            scorer = build(config)
            scorer.eval()
            for x, y in batches:
                print((scorer(x).argmax(1) == y).sum())  # !
    """,
    "in a script, built from a registry": """
        from zoo import registry

        net = registry[args.arch](args)
        net.load_state_dict(torch.load(args.checkpoint))
        net.eval()
        for x, y in test_loader:
            hits += (net(x).argmax(1) == y).sum().item()  # !
    """,
    "made, moved, and another class of the program adapts": """
        class Adapting(nn.Module):
            def forward(self, support, labels, query):
                loss = F.cross_entropy(self.net(support), labels)
                grads = torch.autograd.grad(loss, self.weights)
                return self.net(query, [w - 0.1 * g for w, g in zip(self.weights, grads)])

        class Plain(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(4, 2)

            def forward(self, x):
                return self.net(x)

        class Tester:
            def __init__(self, args):
                self.learner = Plain()
                if args.cuda:
                    self.learner = self.learner.cuda()

            def evaluate(self, loader):
                self.learner.eval()
                for x, y in loader:
                    print((self.learner(x).argmax(1) == y).sum().item())  # !
    """,
    "another class adapts, which takes something else": """
        from zoo import build

        class Attack(nn.Module):
            def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
                images.requires_grad_()
                loss = F.cross_entropy(self.model(images), labels)
                return images + torch.autograd.grad(loss, images)[0].sign()

        def evaluate(loader):
            model = build()
            model.eval()
            for x, y in loader:
                print((model(x).argmax(1) == y).sum().item())  # !
    """,
    "samples by their number": """
        def evaluate_net(net, dataset, top=5):
            boxes = []
            for i in range(len(dataset)):
                image, label, height, width = dataset.pull_item(i)
                found = net(image.unsqueeze(0)).data  # !
                for j in range(1, found.size(1)):
                    boxes.append(found[0, j].cpu().numpy() * height)
            return boxes
    """,
    "a model that was loaded for the whole program": """
        network = torch.load("best.pt") if resumes else torch.jit.load("first.pt")

        def validate(loader):
            network.eval()
            for x, y in loader:
                scores, _ = network(x)  # !
                print((scores.argmax(1) == y).sum())
    """,
    "a player who attacks": """
        class Fighter:
            def step(self, action):
                moves = [self.guard]
                if action > 9:
                    moves += index_to_attack_action(action - 9)
                return self.game.play(moves)

        def play(path):
            model, game = nn.Linear(4, 12), Fighter()
            model.load_state_dict(torch.load(path))
            model.eval()
            state, done = game.step(0)
            while not done:
                action = model(torch.from_numpy(state)).argmax().item()  # !
                state, done = game.step(action)
    """,
    "gradients are asked for beside a forward, not by it": """
        from zoo import build

        class Trainer:
            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    self.forward(x, y).backward()
                    self.optimizer.step()

            def forward(self, x, y):
                return self.loss(self.net(x), y)

        def report(config, batches):
            scorer = build(config)
            scorer.eval()
            for x, y in batches:
                print((scorer(x).argmax(1) == y).sum())  # !
    """,
    "in a helper of the class": """
        class Runner:
            def _loss(self, batch):
                x, y = batch
                return F.cross_entropy(self.net(x), y)

            def fit(self, loader):
                self.net.train()
                for batch in loader:
                    self.optimizer.zero_grad()
                    self._loss(batch).backward()
                    self.optimizer.step()

            def held_out(self, batches):
                self.net.eval()
                losses = []
                for batch in batches:
                    losses.append(self._loss(batch).item())  # !
                return sum(losses) / len(losses)
    """,
    "behind a bar": """
        class Tester:
            def test(self):
                bar = tqdm(enumerate(self.loader), total=len(self.loader))
                for step, (image, mask) in bar:
                    bar.set_description(str(iou(self.net(image), mask)))  # !
    """,
    "batch by batch from an iterator": """
        def validate(net, loader):
            batches = iter(loader)
            for _ in range(len(loader)):
                x, y = next(batches)
                print((net(x).argmax(1) == y).sum())  # !
    """,
    "over what the caller gives": """
        def evaluate(tagger, sentences):
            for sentence in sentences:
                print(tagger(sentence.words).argmax(1))  # !
            tagger.train()
    """,
    "one function for both, told by a flag": """
        def run_epoch(model, loader, optimizer, train):
            total = 0.0
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                if train:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                total += loss.item()
            return total

        def fit(model, loader, val_loader, optimizer):
            for epoch in range(10):
                model.train()
                run_epoch(model, loader, optimizer, train=True)
                model.eval()
                run_epoch(model, val_loader, optimizer, train=False)  # !
    """,
    "one function for both, which sets the mode": """
        class Runner:
            def _epoch(self, batches, is_train=False):
                if is_train:
                    self.net.train()
                else:
                    self.net.eval()
                for x, y in batches:
                    loss = F.cross_entropy(self.net(x), y)
                    if not is_train:
                        continue
                    self.optim.zero_grad()
                    loss.backward()
                    self.optim.step()

            def fit(self):
                for epoch in range(10):
                    self._epoch(self.batches, is_train=True)
                    self._epoch(self.held_out)  # !
    """,
    "one function for both, told by the optimizer": """
        def sweep(net, rows, opt=None):
            for x, y in rows:
                loss = F.cross_entropy(net(x), y)
                if opt is not None:
                    opt.zero_grad()
                    loss.backward()
                    opt.step()

        def main(net, rows, others):
            opt = torch.optim.Adam(net.parameters())
            for epoch in range(10):
                net.train()
                sweep(net, rows, opt)
                net.eval()
                sweep(net, others)  # !
    """,
    "in the training script": """
        for epoch in range(3):
            model.train()
            for x, y in train_loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            model.eval()
            hits = 0
            for x, y in val_loader:
                hits += (model(x).argmax(1) == y).sum().item()  # !
    """,
    "by the name of the loader": """
        def report(net, test_loader):
            for x, y in test_loader:
                pred = net(x)  # !
                print(pred.argmax(1))
    """,
    "in a class": """
        class Trainer:
            def __init__(self, model, val_loader):
                self.model = model
                self.val_loader = val_loader

            def validate(self):
                self.model.eval()
                for batch in self.val_loader:
                    scores = self.model(batch)  # !
                    self.log(scores.max().item())
    """,
    "eval once, then a loop over images": """
        import glob

        model.eval()
        for path in glob.glob("*.png"):
            image = load(path)
            mask = model(image).sigmoid() > 0.5  # !
            save(mask)
    """,
    "frozen in part": """
        def evaluate(net, loader):
            net.eval()
            for p in net.backbone.parameters():
                p.requires_grad = False
            for x in loader:
                print(net(x).argmax(1))  # !
    """,
    "a network that may freeze itself, and was not asked to": """
        class Encoder(nn.Module):
            def __init__(self, frozen=False):
                super().__init__()
                self.layer = nn.Linear(4, 4)
                for param in self.parameters():
                    param.requires_grad = not frozen

            def forward(self, x):
                return self.layer(x)

        def evaluate(loader):
            net = Encoder()
            net.eval()
            for x in loader:
                print(net(x).argmax(1))  # !
    """,
    "a distance that is given a network": """
        class Distance(nn.Module):
            def __init__(self, features):
                super().__init__()
                self.features = features

            def forward(self, a, b):
                return torch.cdist(self.features(a), self.features(b)).min(1)[0].mean()

        def evaluate(loader, features):
            net = Distance(features)
            net.eval()
            for a, b in loader:
                print(net(a, b))  # !
    """,
    "a head with two layers": """
        def evaluate(backbone, head, loader):
            head.eval()
            for x in loader:
                with torch.no_grad():
                    features = backbone(x)
                print(head(features).argmax(1))  # !
    """,
    "a network in an attribute of another name": """
        class Field(nn.Module):
            def __init__(self, g):
                super().__init__()
                self.func = g

            def forward(self, x):
                return x + self.func(x)

        def evaluate(loader, g):
            net = Field(g)
            net.eval()
            for x in loader:
                print(net(x).mean())  # !
    """,
    "a base class that is not known here": """
        from somewhere import Base

        class Field(Base, nn.Module):
            def forward(self, x):
                return self.body(x)

        def evaluate(loader):
            net = Field()
            net.eval()
            for x in loader:
                print(net(x).mean())  # !
    """,
    "only a part of it is without gradients": """
        class Statistics(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = torchvision.models.inception_v3()
                self.head = nn.Linear(1000, 10)

            def forward(self, x):
                with torch.no_grad():
                    features = self.net(x)
                return self.head(features)

        def evaluate(test_loader):
            statistics = Statistics()
            statistics.eval()
            for x in test_loader:
                print(statistics(x.cuda()).argmax(1))  # !
    """,
}

CLEAN = {
    "members of an ensemble, and heads of a model": """
        def evaluate(models, net, heads, x):
            net.eval()
            with torch.no_grad():
                features = net(x)
            votes = [model(x).argmax(1) for model in models]
            return votes, [head(features) for head in heads]
    """,
    "parts of a result, in a list": """
        def evaluate(net, x, names):
            net.eval()
            with torch.no_grad():
                rows = net(x)
            return {name: rows[i].item() for i, name in enumerate(names)}, [len(name) for name in names]
    """,
    "a method of each item, and numbers of each": """
        class Trainer:
            def __init__(self, net: nn.Module, data):
                self.net, self.data = net, data

            @torch.no_grad()
            def score(self, x, y):
                return F.cross_entropy(self.net(x[None]), y[None])

            def evaluate(self):
                self.net.eval()
                return [self.score(x, y) for x, y in self.data], [x.mean().item() for x, y in self.data]
    """,
    "views of each batch": """
        @torch.no_grad()
        def evaluate(net, loader, views):
            net.eval()
            for x in loader:
                votes = [net(view(x)) for view in views]
                yield torch.stack(votes).mean(0)

        def attack(net, images, labels, radii):
            net.eval()
            images.requires_grad_()
            losses = [F.cross_entropy(net(images + radius), labels) for radius in radii]
            torch.stack(losses).sum().backward()
            return images.grad
    """,
    "a list of items, without gradients": """
        @torch.inference_mode()
        def evaluate(net, graphs):
            net.eval()
            return [net(graph) for graph in graphs]

        def measure(net, graphs):
            net.eval()
            with torch.no_grad():
                return [net(graph).item() for graph in graphs]
    """,
    "a list of items whose gradients are asked for": """
        def saliency(net, images):
            net.eval()
            images = [image.requires_grad_() for image in images]
            scores = [net(image[None]).max() for image in images]
            return torch.autograd.grad(torch.stack(scores).sum(), images)
    """,
    "the style of some pictures, which a picture is made to have": """
        def transfer(vgg, styles, picture, opt):
            vgg.eval()
            for p in vgg.parameters():
                p.requires_grad_(False)
            wanted = [gram(vgg(style)) for style in styles]
            for step in range(300):
                opt.zero_grad()
                found = gram(vgg(picture))
                loss = sum(F.mse_loss(found, w) for w in wanted)
                loss.backward()
                opt.step()
    """,
    "items of a layer of a network": """
        class Pyramid(nn.Module):
            def __init__(self, body, head):
                super().__init__()
                self.body, self.head = body, head

            def test(self, levels):
                self.head.eval()
                return [self.head(level) for level in levels]
    """,
    "a method of a model that is built by its name, which trains": """
        class Meta(nn.Module):
            def __init__(self, width=16):
                super().__init__()
                self.time, self.head = nn.Linear(1, width), nn.Linear(width, 1)

            def forward(self, x):
                return self.head(self.time(x))

            def adapt(self, x, y, epochs):
                with torch.set_grad_enabled(True):
                    new = nn.Parameter(torch.zeros(1, 16))
                    optimizer = torch.optim.Adam([new])
                    for epoch in range(epochs):
                        optimizer.zero_grad()
                        loss = F.l1_loss(self.head(self.time(x) + new), y)
                        loss.backward()
                        optimizer.step()
                return loss.item()

        def online_evaluate(config, registry, stream):
            model = registry.build(config["model"])
            scores = []
            for x, y in stream:
                with torch.no_grad():
                    model.eval()
                    scores.append(F.l1_loss(model(x), y).item())
                model.adapt(x, y, 10)
            return scores
    """,
    "a method of a model that is built by its name, which records nothing": """
        class Bilinear(nn.Module):
            def __init__(self, users, items, width=16):
                super().__init__()
                self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)

            def forward(self, users, items):
                return (self.user(users) * self.item(items)).sum(-1)

            @torch.no_grad()
            def predict(self, batch):
                return self.forward(batch["user"], batch["item"])

        class Trainer:
            def __init__(self, config, registry):
                self.model = registry.build(config["model"])

            def evaluate(self, loader):
                self.model.eval()
                rows = []
                for batch in loader:
                    scores = self.model.predict(batch)
                    rows.append(float(scores.mean()))
                return sum(rows) / len(rows)
    """,
    "a method of a model that is built by its name, which the files do not have": """
        class Bilinear(nn.Module):
            def __init__(self, users, items, width=16):
                super().__init__()
                self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)

            def forward(self, users, items):
                return (self.user(users) * self.item(items)).sum(-1)

        class Trainer:
            def __init__(self, config, registry):
                self.model = registry.build(config["model"])

            def evaluate(self, loader):
                self.model.eval()
                rows = []
                for batch in loader:
                    scores = self.model.predict(batch)
                    rows.append(float(scores.mean()))
                return sum(rows) / len(rows)
    """,
    "a method from a registry, of which one adapts to what it is given": """
        from methods import registry

        class Finetune(nn.Module):
            def forward(self, model, support, query):
                loss = model(support).mean()
                loss.backward()
                return model(query)

        method = registry[args.method](args)
        method.eval()
        for support, query in tqdm(val_loader):
            pred = method(model, support, query)
            print(pred.mean().item())
    """,
    "one that adapts in a method of its own, as its mode says": """
        from methods import registry

        class Adapting(nn.Module):
            def forward(self, batch):
                return self.adapt(*batch) if self.mode == "meta" else self.net(batch)

            def adapt(self, support, labels, query):
                loss = F.cross_entropy(self.net(support), labels)
                grads = torch.autograd.grad(loss, self.weights)
                return self.net(query, [w - 0.1 * g for w, g in zip(self.weights, grads)])

        method = registry[args.method](args)
        method.eval()
        for batch in tqdm(val_loader):
            print(method(batch).mean().item())
    """,
    "one that the object made, and moved": """
        class Adapting(nn.Module):
            def forward(self, support, labels, query):
                loss = F.cross_entropy(self.net(support), labels)
                grads = torch.autograd.grad(loss, self.weights)
                return self.net(query, [w - 0.1 * g for w, g in zip(self.weights, grads)])

        class Tester:
            def __init__(self, args):
                self.learner = Adapting(args)
                if args.cuda:
                    self.learner = self.learner.cuda()

            def evaluate(self, loader):
                self.learner.eval()
                for batch in loader:
                    print(self.learner(*batch).mean().item())
    """,
    "evaluated after eval()": """
        class Runner:
            def __init__(self, net):
                self.net = net
                self.curve = []

            def evaluate(self, loader):
                total = 0.0
                self.net.eval()
                with torch.set_grad_enabled(self.net.training):
                    for x, y in loader:
                        total = total + F.mse_loss(self.net(x), y).item()
                self.net.train()
                self.curve.append(total / 10)
    """,
    "context": """
        def evaluate(model, loader):
            model.eval()
            with torch.no_grad():
                for x, y in loader:
                    print(model(x).argmax(1))
    """,
    "inside of the loop": """
        def evaluate(model, loader):
            model.eval()
            for x, y in loader:
                with torch.inference_mode():
                    out = model(x)
                print(out.argmax(1))
    """,
    "decorators": """
        @torch.no_grad()
        def one(model, loader):
            model.eval()
            for x in loader:
                print(model(x).sum())

        @torch.inference_mode
        def two(model, loader):
            model.eval()
            for x in loader:
                print(model(x).sum())
    """,
    "somebody else builds it, and no graph is recorded": """
        from zoo import build

        @torch.no_grad()
        def report(config, batches):
            scorer = build(config)
            scorer.eval()
            for x, y in batches:
                print((scorer(x).argmax(1) == y).sum())
    """,
    "what is built is no network": """
        from zoo import build

        def report(config, batches):
            scorer = build(config)
            for x, y in batches:
                print(scorer(x))
    """,
    "without gradients unless it is told otherwise": """
        class Restorer:
            def test(self, records=False, keeps_mode=True):
                self.net.eval()
                if not records:
                    with torch.no_grad():
                        self.out = self.net(self.given)
                else:
                    self.out = self.net(self.given)

            def validate(self, loader):
                for self.given, target in loader:
                    self.test()
                    print(F.mse_loss(self.out, target).item())
    """,
    "what a network does with several views, its caller runs as it wants": """
        class Detector(nn.Module):
            def __init__(self):
                super().__init__()
                self.neck = nn.Conv2d(3, 8, 3)
                self.head = nn.Conv2d(8, 4, 1)

            def aug_test(self, views):
                return [self.simple_test(view) for view in views]

            def merged_test(self, views):
                boxes = []
                for view in views:
                    boxes.append(self.head(self.neck(view)).argmax(1))
                return boxes

        def fit(detector, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                detector.head(detector.neck(x)).sub(y).sum().backward()
                optimizer.step()
    """,
    "a measure of what is predicted, that is a loss by another name": """
        def evaluate_heads(net, found, wanted, heads):
            net.eval()
            mae = nn.L1Loss()
            for head in range(heads):
                print(head, mae(found[head], wanted[head]))
    """,
    "a loop over layers": """
        class Stack(nn.Module):
            def __init__(self, sizes):
                super().__init__()
                self.linears = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])])

            def forward(self, x):
                for i in range(len(self.linears)):
                    x = torch.tanh(self.linears[i](x))
                return x

        def show(points):
            stack = Stack([2, 8, 1])
            stack.eval()
            plot(points, stack(points).detach())
    """,
    "in a helper that records nothing": """
        class Runner:
            @torch.no_grad()
            def _logits(self, x):
                return self.net(x)

            def held_out(self, batches):
                self.net.eval()
                return [self._logits(x).argmax(1) == y for x, y in batches]

            def hits(self, batches):
                self.net.eval()
                for x, y in batches:
                    print((self._logits(x).argmax(1) == y).sum())
    """,
    "in a helper, which another model trains with": """
        class Distiller:
            def _guess(self, x):
                return self.student(x)

            def fit(self, batches):
                self.teacher.eval()
                for x, y in batches:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self._guess(x), y).backward()
                    self.optimizer.step()
    """,
    "one function for both, and the mode follows the flag": """
        def run_epoch(model, loader, optimizer, train):
            for x, y in loader:
                with torch.set_grad_enabled(train):
                    loss = F.cross_entropy(model(x), y)
                if train:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()

        def fit(model, loader, val_loader, optimizer):
            model.train()
            run_epoch(model, loader, optimizer, train=True)
            model.eval()
            run_epoch(model, val_loader, optimizer, train=False)
    """,
    "one function for both, called without gradients": """
        def sweep(net, rows, opt=None):
            for x, y in rows:
                loss = F.cross_entropy(net(x), y)
                if opt is not None:
                    opt.zero_grad()
                    loss.backward()
                    opt.step()

        def main(net, rows, others):
            opt = torch.optim.Adam(net.parameters())
            net.train()
            sweep(net, rows, opt)
            net.eval()
            with torch.no_grad():
                sweep(net, others)
    """,
    "it trains with another one in evaluation mode": """
        def sweep(net, guide, rows, opt=None):
            losses = []
            for x, y in rows:
                losses.append(F.mse_loss(net(x), y))
            return sum(losses)

        def main(net, guide, rows):
            opt = torch.optim.Adam(net.parameters())
            guide.eval()
            for epoch in range(10):
                opt.zero_grad()
                sweep(net, guide, rows).backward()
                opt.step()
    """,
    "what it returns is backpropagated": """
        def objective(net, rows, train=False):
            total = 0.0
            for x, y in rows:
                loss = F.mse_loss(net(x), y)
                if train:
                    loss.backward()
                total = total + loss
            return total

        def adapt(net, rows, opt):
            net.eval()
            for epoch in range(10):
                opt.zero_grad()
                objective(net, rows).backward()
                opt.step()
    """,
    "what an evaluation goes through is no data": """
        def test(net, settings):
            for setting in settings:
                print(setting)
    """,
    "switched off for good": """
        torch.set_grad_enabled(False)
        model.eval()
        for x in test_loader:
            print(model(x).sum())
    """,
    "exit stack": """
        from contextlib import ExitStack

        def evaluate(model, loader):
            model.eval()
            with ExitStack() as stack:
                stack.enter_context(torch.no_grad())
                for x in loader:
                    print(model(x).sum())
    """,
    "depends on the phase": """
        def run(model, loaders, optimizer):
            for phase in ("train", "val"):
                model.train() if phase == "train" else model.eval()
                for x, y in loaders[phase]:
                    optimizer.zero_grad()
                    with torch.set_grad_enabled(phase == "train"):
                        loss = F.cross_entropy(model(x), y)
                        if phase == "train":
                            loss.backward()
                            optimizer.step()
    """,
    "trains under eval": """
        def finetune(model, loader, optimizer):
            model.eval()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "attack": """
        def robustness(model, test_loader, eps):
            model.eval()
            for x, y in test_loader:
                x.requires_grad = True
                loss = F.nll_loss(model(x), y)
                grad = torch.autograd.grad(loss, x)[0]
                adv = x + eps * grad.sign()
                print(model(adv).argmax(1))
    """,
    "only called without gradients": """
        def predict_all(model, loader):
            model.eval()
            for x in loader:
                print(model(x).sum())

        def main(model, loader):
            with torch.no_grad():
                predict_all(model, loader)
    """,
    "framework": """
        import lightning.pytorch as pl

        class Lit(pl.LightningModule):
            def validation_step(self, batch, batch_idx):
                self.net.eval()
                for x in batch:
                    self.log("score", self.net(x).mean())
    """,
    "custom decorator": """
        import functools

        def without_gradients(f):
            @functools.wraps(f)
            def inner(*args):
                with torch.no_grad():
                    return f(*args)
            return inner

        @without_gradients
        def evaluate(model, loader):
            model.eval()
            for x in loader:
                print(model(x).sum())
    """,
    "once": """
        def show(model, x):
            model.eval()
            print(model(x).argmax())
    """,
    "generate is decorated already": """
        def sample(model, prompts):
            model.eval()
            for prompt in prompts:
                print(model.generate(prompt))
    """,
    "a wrapper without gradients": """
        class Predictor:
            def __init__(self, net):
                self.net = net
                self.net.eval()

            @torch.no_grad()
            def __call__(self, x):
                return self.net(x)

        def run(test_loader, net):
            predictor = Predictor(net)
            for x in test_loader:
                print(predictor(x))
    """,
    "every parameter is frozen": """
        def evaluate(net, loader):
            net.eval()
            for name, p in net.named_parameters():
                p.requires_grad = False
            net = net.to("cpu")
            for x in loader:
                print(net(x).argmax(1))
    """,
    "every parameter is frozen, by the module": """
        def evaluate(net, loader):
            net.eval().requires_grad_(False)
            for x in loader:
                print(net(x).argmax(1))
    """,
    "volatile inputs, and numbers as before torch 0.4": """
        from torch.autograd import Variable

        def evaluate(net, loader, device):
            net.to(device)
            net.eval()
            total = 0
            for x, y in loader:
                total += F.cross_entropy(net(Variable(x, volatile=True)), y).data[0]
            return total
    """,
    "volatile inputs, for torch before 0.4 and since": """
        from torch.autograd import Variable

        def evaluate(net, loader):
            net.eval()
            with torch.no_grad() if torch.__version__ >= "0.4" else nullcontext():
                print(0)
            for x in loader:
                print(net(Variable(x, volatile=True)).max(1)[1])
    """,
    "volatile inputs, and numbers of arrays": """
        from torch.autograd import Variable

        def evaluate(net, loader):
            net.eval()
            for x in loader:
                print(net(Variable(x, volatile=True)).max(1)[1], x.numpy().mean().item())
    """,
    "volatile inputs of torch 0.3": """
        from torch.autograd import Variable

        def evaluate(net, loader):
            net.eval()
            for x in loader:
                print(net(Variable(x, volatile=True)).max(1)[1])
    """,
    "a compiled function of arrays": """
        import numpy as np

        def inertia(points, centers):
            return ((points[:, None] - centers[None]) ** 2).sum(-1).min(1)

        fast = torch.compile(inertia)

        def evaluate(loader):
            for points in loader:
                print(fast(points, np.zeros((4, 3))))
    """,
    "padding has no parameters": """
        def evaluate(net, loader):
            net.eval()
            pad = nn.ReplicationPad2d((0, 3, 0, 5))
            for x in loader:
                x = pad(x)
                with torch.no_grad():
                    print(net(x).argmax(1))
    """,
    "volatile inputs by a helper": """
        def evaluate(net, loader):
            net.eval()
            for x in loader:
                print(net(make_variable(x, volatile=True)).max(1)[1])
    """,
    "a critic in evaluation mode, trained through": """
        def train(model, critic, loader, optimizer, frames):
            model.train()
            critic.eval()
            for x, y in loader:
                optimizer.zero_grad()
                loss = 0
                for j in range(frames):
                    prediction = model(x[:, j])
                    loss += F.mse_loss(prediction, y[:, j]) - critic(prediction).mean()
                loss.backward()
                optimizer.step()
    """,
    "a network that freezes itself unless it is asked not to": """
        class Inception(nn.Module):
            def __init__(self, blocks, requires_grad=False):
                super().__init__()
                self.blocks = nn.ModuleList(blocks)
                for param in self.parameters():
                    param.requires_grad = requires_grad

            def forward(self, x):
                for block in self.blocks:
                    x = block(x)
                return x

        def activations(loader, blocks):
            model = Inception(blocks)
            model.eval()
            for x in loader:
                print(model(x).mean())
    """,
    "a distance without parameters": """
        class Distance(nn.Module):
            def __init__(self, args={}):
                super().__init__()
                self.args = args
                self.scale = 2.0

            def forward(self, a, b):
                return torch.cdist(a, b).min(1)[0].mean() * self.scale

        def evaluate(loader):
            net = Distance()
            net.eval()
            for a, b in loader:
                print(net(a, b))
    """,
    "samples by their number, whose outputs somebody wants with their graphs": """
        def evaluate_net(net, dataset):
            outputs = []
            for i in range(len(dataset)):
                image, label = dataset.pull_item(i)
                outputs.append(net(image.unsqueeze(0)))
            return torch.cat(outputs)
    """,
    "samples by their number, for a loss that a caller goes back through": """
        def evaluate(net, dataset):
            total = 0.0
            for i in range(len(dataset)):
                image, label = dataset[i]
                total = total + F.cross_entropy(net(image), label)
            return total / len(dataset)

        def train(net, dataset, optimizer):
            for step in range(100):
                optimizer.zero_grad()
                evaluate(net, dataset).backward()
                optimizer.step()
    """,
    "a function for each number": """
        def test(model, cases):
            for i in range(len(cases)):
                case = cases[i]
                run_case(model, case)
    """,
    "an attack that is made anew for each batch": """
        class Attack:
            def __init__(self, model):
                self.model = model

            def __call__(self, x, y):
                x.requires_grad_()
                F.cross_entropy(self.model(x), y).backward()
                return x + x.grad.sign()

        class LinfPGD(Attack):
            pass

        def accuracy(model, loader):
            model.eval()
            for x, y in loader:
                right = model(x).argmax(1) == y
                attack = LinfPGD(model)
                print(right.sum(), attack(x[right], y[right]).shape)
    """,
    "an attack needs gradients": """
        def accuracy(model, attack_class, loader):
            model.eval()
            test_attack = attack_class(model)
            hits = 0
            for x, y in loader:
                x, y = test_attack(x, y)
                with torch.no_grad():
                    hits += (model(x).argmax(1) == y).sum().item()
            return hits
    """,
    "the head of a table": """
        def recommend(model, table, loader):
            model.eval()
            for users, items in loader:
                with torch.no_grad():
                    scores = model(users, items)
                found = table.sort_values(scores.tolist())
                print(found.head(5))
    """,
    "what is without parameters after the network": """
        class Decode(nn.Module):
            def __init__(self, size, threshold):
                super().__init__()
                self.size, self.threshold = size, threshold
                self.top = make_top(size)

            def forward(self, maps):
                return self.top(maps)

        def main(data_module, path):
            model_module = Detector.load_from_checkpoint(path)
            model_module.eval()
            pred_decoder = Decode(8, 0.5)
            for image, target in data_module.val_dataloader():
                with torch.no_grad():
                    maps = model_module(image)
                joints = pred_decoder(maps)
                print(joints.shape)
    """,
    "an objective with dropout switched off": """
        from copy import deepcopy

        class Posterior:
            def compute_elbo(self, x, y, samples):
                model = deepcopy(self.mean)
                model.eval()
                elbo = 0
                for sample in self.draw(samples):
                    self.replace(model, sample)
                    elbo += model.log_likelihood(model(x), y)
                return elbo / samples
    """,
    "features for a metric": """
        class Statistics(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = torchvision.models.inception_v3()
                self.count = 0

            def forward(self, x):
                with torch.inference_mode():
                    features = self.net(x).cpu().numpy()
                self.count += features.shape[0]

        def evaluate(test_loader):
            statistics = Statistics()
            for x in test_loader:
                statistics(x.cuda())
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


def test_no_edit_that_cannot_work() -> None:
    """A decorator on a coroutine function ends before its body runs; without a name for torch there is no decorator."""
    body = "    model.eval()\n    for x in loader:\n        model(x)\n"
    source = "from torch import nn\n\n\n{}def evaluate(model, loader):\n" + body
    settings = Settings(Path.cwd())
    for kind in ("", "async "):
        (finding,) = check_text(source.format(kind), "x.py", settings, catalogue.load()).findings
        assert finding.fix is None
    decorated = "import torch\n\n\n@torch.no_grad()\n" + source.format("async ").split("\n\n\n")[1]
    assert check_text(decorated, "x.py", settings, catalogue.load()).findings


TRAINS_AND_DRAWS = """
    class Sketcher(nn.Module):
        def __init__(self, encoder, decoder):
            super().__init__()
            self.encoder = Encoder(encoder)
            self.decoder = nn.LSTM(8, 8)

        def learn(self, x):
            return self.decoder(self.encoder(x))[0]

        def forward(self, x, count=None):
            BEFORE
            self.decoder.eval()
            z, h, drawn = self.encoder(x), None, []
            for i in range(count):
                z, h = self.decoder(z, h)
                drawn.append(z.argmax(-1).item())
            return drawn
"""


@pytest.mark.parametrize(
    ("before", "trains"),
    [
        ("if self.training: return self.decoder(self.encoder(x))", True),
        ("if count is None: return self.learn(x)", True),
        ("if self.training: return {'out': self.decoder(self.encoder(x))[0]}", True),
        ("if count is None: return []", False),
        ("print(self.encoder(x).argmax(-1).tolist())", False),
    ],
)
def test_what_trains_on_another_way_is_not_decorated(before: str, trains: bool) -> None:
    (finding,) = findings(TRAINS_AND_DRAWS.replace("BEFORE", before))
    assert finding.code == CODE
    assert finding.fix is not None
    assert finding.fix.description.startswith("put it under" if trains else "decorate")
    assert ("decorate" in (finding.help or "")) != trains


def test_fix_decorates_a_function_that_only_evaluates() -> None:
    (finding,) = findings(FLAGGED["in a class"], CODE)
    assert finding.fix is not None
    assert finding.fix.edits[0].text == "@torch.no_grad()\n    "
    (aliased,) = findings(
        "import torch as th\n\n\ndef validate(net, val_loader):\n    for x in val_loader:\n        net(x)\n"
    )
    assert aliased.fix is not None
    assert aliased.fix.edits[0].text == "@torch.no_grad()\n"  # the header imports it under its own name first
    (script,) = findings(FLAGGED["in the training script"], CODE)
    assert script.fix is not None
    assert script.fix.description == "put it under `with torch.no_grad():`"


@pytest.mark.parametrize(
    ("path", "head", "flagged"),
    [
        ("tests/test_kernel.py", "import unittest", False),
        ("tests/cases.py", "from unittest import TestCase", False),
        ("test_net.py", "import argparse", True),
        ("test_net.py", "import argparse\n\n        def test_transform():\n            return 1", True),
        ("test_net.py", "import torch\n\n        def test_transform():\n            return 1", False),
        ("kernel.py", "import unittest", True),
        ("tests/test_loss.py", "import torch\n\n        def test_loss(config, loader):\n            return 1", False),
        ("tests/test_loss.py", "import argparse\n\n        def test_loss(net, loader):\n            return 1", True),
        ("tests/loss.py", "import torch\n\n        def test_loss(net, loader):\n            return 1", True),
        ("test_loss.py", "import torch\n\n        def test_loss(net, loader):\n            return 1", True),
    ],
)
def test_unit_tests_run_a_model_a_few_times(path: str, head: str, flagged: bool) -> None:
    """A file is one of unit tests by its name and by what it imports: `test_net.py` evaluates."""
    snippet = f"""
        {head}

        def check_batches(kernel, batches):
            kernel.eval()
            actual = torch.zeros(len(batches), 3)
            for i, batch in enumerate(batches):
                actual[i] = kernel(batch)
            return float(actual.sum())
    """
    assert bool(findings(snippet, CODE, path=path)) is flagged


FROZEN = """
    class Features(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net(x)

    def evaluate(net, loader):
        kept = []
        {}
        for x in loader:
            kept.append(features(x)){}
        return kept
"""


@pytest.mark.parametrize(
    "made",
    [
        "features = Features(net); features.requires_grad_(False)",
        "features = Features(net); features.eval().requires_grad_(False).to('cpu')",
        "features = Features(net).eval().requires_grad_(False).to('cpu')",
        "features = Features(net).requires_grad_(requires_grad=False).eval()",
    ],
)
def test_a_model_of_the_program_that_was_frozen(made: str) -> None:
    assert_clean(FROZEN.format(made, ""))


@pytest.mark.parametrize(
    "made",
    [
        "features = Features(net).eval()",
        "features = Features(net).eval().requires_grad_(True)",
        "features = Features(net); features.requires_grad_(False); features.net.requires_grad_(True)",
    ],
)
def test_a_model_of_the_program_that_learns(made: str) -> None:
    assert_flagged(FROZEN.format(made, "  # !"), CODE)


MADE = """
    import project.models
    from project.models import Settler, build, load

    def evaluate(paths, loader):
        {}
        total = 0.0
        for x, y in loader:
            total += F.mse_loss(net(x), y).item(){}
        return total
"""


@pytest.mark.parametrize(
    "made",
    [
        "net = build(paths)",
        "net, settings = build(paths)",
        "net, *others = build(paths)",
        "net = torch.load(paths[0])",
        "net, settings = torch.load(paths[0])",
        "net, settings = load(paths), 3",
    ],
)
def test_a_model_by_what_it_is_used_as(made: str) -> None:
    """What makes it cannot be read, alone or among other things: `net.eval()` says what it is."""
    assert_flagged(MADE.format(f"{made}; net.eval()", "  # !"), CODE)


@pytest.mark.parametrize(
    "made",
    [
        "net, settings = build(paths); settings.eval()",
        "net = torch.load(paths[0]); print(net.shape)",
        "net, settings = build(paths); net.eval(); net.requires_grad_(False)",
        "net, settings = build(paths); net.eval(); torch.set_grad_enabled(False)",
        "net = Settler(paths[0])",
        "net = Settler(paths[0]); net.eval(); net.requires_grad_(False)",
    ],
)
def test_what_is_not_used_as_a_model_or_is_frozen(made: str) -> None:
    assert_clean(MADE.format(made, ""))


def test_models_taken_from_one_call_that_train() -> None:
    assert_clean("""
        from project.models import build

        def train(config, loader):
            net, head, optimizer = build(config)
            net.eval()
            head.train()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(head(net(x)), y).backward()
                optimizer.step()
    """)


LOADED = """
        def accuracy(args, loader):
            checkpoint = torch.load(args.path)
            net = {loaded}
            {then}
            correct = 0
            for x, y in loader:
                scores = net(x)[:, :10]{mark}
                correct += (scores.argmax(1) == y).sum().item()
            return correct / len(loader.dataset)
"""


@pytest.mark.parametrize(
    "loaded",
    [
        "torch.load(args.path)",
        'torch.load("{}/last".format(args.folder), map_location=lambda storage, loc: storage)',
        "torch.load(args.path, map_location='cpu').to('cuda')",
        "torch.load(args.path)['model']",
        "checkpoint['model'].cuda()",
    ],
)
def test_a_module_that_is_loaded_as_a_whole(loaded: str) -> None:
    assert_flagged(LOADED.format(loaded=loaded, then="net.eval()", mark="  # !"), CODE)


@pytest.mark.parametrize(
    ("loaded", "then"),
    [
        ("torch.load(args.path)", "net.eval().requires_grad_(False)"),
        ("torch.load(args.path)", "net.eval(), torch.set_grad_enabled(False)"),
        ("torch.load(args.path)", "other = Net().eval()"),
        ("checkpoint['scale']", "args.net.eval()"),
    ],
)
def test_what_else_is_loaded(loaded: str, then: str) -> None:
    assert_clean(LOADED.format(loaded=loaded, then=then, mark=""), confidence=Confidence.LOW)


TOLD = """
        def run(model, loader, optimizer, {told}):
            model.train({setting})
            total = 0.0
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                if {trains}:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                total += loss.item()
            return total

        def main(model, optimizer, loaders):
            for epoch in range(10):
                run(model, loaders[0], optimizer, {first})
                print(run(model, loaders[1], optimizer, {second})){mark}
"""


@pytest.mark.parametrize(
    ("told", "setting", "trains", "first", "second"),
    [
        ("learn", "learn", "learn", "True", "False"),
        ("learn=True", "mode=learn", "learn", "learn=True", "learn=False"),
        ("held_out=False", "not held_out", "not held_out", "", "held_out=True"),
        ("mode", "mode == 'train'", "mode == 'train'", "'train'", "'val'"),
        ("mode='train'", "mode == 'train'", "mode == 'train'", "mode='train'", "mode='test'"),
    ],
)
def test_a_module_that_is_told_whether_it_trains(told: str, setting: str, trains: str, first: str, second: str) -> None:
    def text(second: str, setting: str = setting, mark: str = "") -> str:
        return TOLD.format(told=told, setting=setting, trains=trains, first=first, second=second, mark=mark)

    assert_flagged(text(second, mark="  # !"), CODE)
    assert_clean(text(first), CODE)
    assert_clean(text(second, setting="True"), CODE)
    assert_clean(
        text(second).replace("for x, y in loader:", f"torch.set_grad_enabled({trains})\n{' ' * 12}for x, y in loader:"),
        CODE,
    )


SCORED = """
        class Scorer(nn.Module):
            def __init__(self):
                super().__init__()
                self.out = nn.Linear(4, 4)

            def forward(self, x):
                return self.out(x)

        def score(batches, device):
            scorer = {made}
            total = 0.0
            for x, y in batches:
                out = scorer(x){cut}
                total += F.mse_loss(out, y){mark}
            return total
"""
PUT_INTO_EVALUATION = [
    "Scorer().eval()",
    "Scorer().to(device).eval()",
    "Scorer().eval().to(device)",
    "Scorer().train(False)",
    "Scorer().train(mode=False).half()",
]
IN_TRAINING = ["Scorer()", "Scorer().to(device)", "Scorer().eval().train()", "Scorer().train(True)", "Scorer().train()"]


@pytest.mark.parametrize("made", PUT_INTO_EVALUATION)
def test_a_module_that_is_put_into_evaluation_where_it_is_made(made: str) -> None:
    assert_flagged(SCORED.format(made=made, cut="", mark="  # !"), "GG103")


@pytest.mark.parametrize("made", PUT_INTO_EVALUATION)
@pytest.mark.parametrize(("cut", "mark"), [(".detach()", ""), ("", ".item()"), (".data", "")])
def test_such_a_module_whose_graphs_end_with_the_iteration(made: str, cut: str, mark: str) -> None:
    assert_clean(SCORED.format(made=made, cut=cut, mark=mark), "GG103")


@pytest.mark.parametrize("made", IN_TRAINING)
def test_a_module_that_was_not_put_into_evaluation(made: str) -> None:
    snippet = SCORED.format(made=made, cut="", mark="").replace("in batches", "in pairs")
    assert_clean(snippet)


PENALIZED = """
        class Critic(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(8, 1)

            def forward(self, x):
                return self.net(x)

            def slope(self, x):
                x = x.detach().requires_grad_(True)
                grad = torch.autograd.grad(self.net(x).sum(), x, create_graph=True)[0]
                return ((grad.norm(2, 1) - 1) ** 2).mean()

        class Trainer:
            def epoch(self, model, loader, optimizer=None):
                if optimizer is None:
                    model.eval()
                else:
                    model.train()
                losses = []
                for x in loader:
                    loss = model(x).mean() + model.slope(x)
                    losses.append(loss.item())
                    if optimizer is not None:
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                return losses

            def fit(self, model, loader, test_loader, epochs):
                optimizer = torch.optim.Adam(model.parameters())
                for epoch in range(epochs):
                    self.epoch(model, loader, optimizer)
                    print(self.epoch(model, test_loader))  # !
"""


def test_an_evaluation_that_asks_for_gradients_of_its_input() -> None:
    assert_clean(twin(PENALIZED), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("x = x.detach().requires_grad_(True)", "return x.mean()"),
        ("+ model.slope(x)", "+ model.net(x).mean()"),
    ],
)
def test_an_evaluation_that_asks_for_no_gradients(edit: tuple[str, str]) -> None:
    assert_flagged(PENALIZED.replace(*edit), CODE)


@pytest.mark.parametrize(
    ("params", "keeps", "is_plain"),
    [
        ("pos_weight=None", "pos_weight.to('cuda') if pos_weight is not None else None", True),
        ("margin", "margin", True),
        ("scale=0.5", "scale", True),
        ("device", "torch.ones(3).to(device)", True),
        ("encoder", "encoder.to('cuda')", False),
        ("pos_weight=None", "nn.Parameter(torch.ones(3))", False),
        ("pos_weight=None", "Scorer(pos_weight)", False),
    ],
)
def test_a_loss_of_what_was_predicted_before(params: str, keeps: str, is_plain: bool) -> None:
    snippet = f"""
        class Scorer(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.layer = nn.Linear(3, 3)
            def forward(self, x):
                return self.layer(x)
        class FocalLoss(nn.Module):
            def __init__(self, {params}):
                super().__init__()
                self.kept = {keeps}
            def forward(self, inputs, targets):
                return F.binary_cross_entropy_with_logits(inputs, targets, reduction="none").mean()
        class Evaluation:
            def __init__(self, given):
                self.net = nn.Linear(3, 3)
                self.criterion = FocalLoss(given)
            @torch.no_grad()
            def predict(self, loader):
                return torch.cat([self.net(x) for x, _ in loader])
            def evaluate(self, loader):
                self.net.eval()
                parts, total = torch.split(self.predict(loader), 8), 0.0
                for (_, labels), part in zip(loader, parts):
                    total += self.criterion(part, labels).item()MARK
                return total
    """
    check = assert_clean if is_plain else assert_flagged
    check(snippet.replace("MARK", "" if is_plain else "  # !"), CODE)


PICKED = """
        def predict(model, batches, silent=False):
            model.eval()
            rows = torch.zeros(len(batches), 2)
            TEST:
                with torch.no_grad():
                    for i, batch in enumerate(batches):
                        rows[i] = model(batch)
            else:
                for i, batch in enumerate(batches):
                    rows[i] = MODEL(batch)  # !
            return rows
"""


def test_a_flag_that_picks_between_the_two() -> None:
    by_flag = PICKED.replace("TEST", "if silent")
    assert_clean(by_flag.replace("MODEL", "model"), CODE, Confidence.HIGH)
    assert_flagged(by_flag.replace("MODEL", "model"), CODE, Confidence.LOW)
    for test, model in (("if silent", "teacher"), ("if len(batches) > 8", "model")):
        snippet = PICKED.replace("TEST", test).replace("MODEL", model)
        assert_flagged(snippet.replace("model.eval()", "model.eval(); teacher.eval()"), CODE, Confidence.HIGH)


IN_TURN = """
        import contextlib

        def fit(model, optimizer, loaders, epochs):
            for epoch in range(epochs):
                for phase WORDS:
                    model.train() if phase == "train" else model.eval()
                    for x, y in loaders[phase]:
                        STEP
"""
RECORDS = """out = model(x)  # !
                        loss = F.cross_entropy(out, y)
                        if phase == "train":
                            optimizer.zero_grad()
                            loss.backward()
                            optimizer.step()"""


OTHERWISE = """if phase == "train":
                            out = model(x, y)
                        else:
                            out = model(x)  # !
                        loss = F.cross_entropy(out, y)
                        if phase == "train":
                            optimizer.zero_grad()
                            loss.backward()
                            optimizer.step()
                        print(np.ceil(sizes[phase] / 4))"""


@pytest.mark.parametrize(
    "words", ['in ("train", "val")', 'in ["train", "test"]', "in splits", ", _ in loaders.items()"]
)
@pytest.mark.parametrize(
    "step",
    [
        RECORDS,
        RECORDS.replace('if phase == "train":', 'if phase in ("train",):'),
        RECORDS.replace('if phase == "train":', 'if phase != "val":'),
        RECORDS.replace('if phase == "train":', 'if phase == "train" and epoch:').replace("and epoch", ""),
        OTHERWISE,
    ],
)
def test_an_evaluation_that_has_its_turn(words: str, step: str) -> None:
    assert_flagged(IN_TURN.replace("WORDS", words).replace("STEP", step), CODE)


def under(context: str) -> str:
    """The step with its forward pass under a context."""
    lines = RECORDS.replace("  # !", "").splitlines()
    return f"with {context}:\n" + "\n".join(" " * 28 + line.strip() for line in lines[:2]) + "\n" + "\n".join(lines[2:])


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ('in ("train", "val")', under('torch.set_grad_enabled(phase == "train")')),
        ('in ("train", "val")', under('torch.autograd.set_grad_enabled(phase == "train")')),
        ('in ("train", "val")', under('contextlib.nullcontext() if phase == "train" else torch.no_grad()')),
        ('in ("train", "val")', 'torch.set_grad_enabled(phase == "train")\n' + " " * 24 + RECORDS),
        ('in ("train", "val")', RECORDS.replace('if phase == "train":', "if True:")),
        ('in ("train", "val")', RECORDS.replace('if phase == "train":', "if epoch > 0:")),
        ('in ("train", "finetune")', RECORDS.replace('"train"', '"finetune"')),
        ('in ("policy", "value")', RECORDS.replace('if phase == "train":', 'if phase != "value":')),
        ('in ("train", "val")', RECORDS + "\n" + " " * 24 + "torch.autograd.grad(model(x).sum(), model.weight)"),
        (
            'in ("train", "val")',
            RECORDS.replace("model(x)", "model(x.detach())")
            + '\n                        if phase == "val": loss.backward()',
        ),
        (
            'in ("train", "val")',
            'if phase != "train":\n                            continue\n                        ' + RECORDS,
        ),
        (
            'in ("train", "val")',
            'if phase == "val":\n                            with torch.no_grad(): model(x)\n'
            "                        else:\n                            F.cross_entropy(model(x), y).backward()",
        ),
        ('in ("train", "val")', OTHERWISE.replace("else:", 'elif phase == "finetune":')),
        ('in ("train", "val")', OTHERWISE.replace("else:", 'elif phase == "val":').replace("model(x) ", "y")),
        ('in ("train", "val")', OTHERWISE.replace("out = model(x) ", "with torch.no_grad(): out = model(x)")),
    ],
)
def test_an_evaluation_that_has_its_turn_and_records_nothing(words: str, step: str) -> None:
    assert_clean(IN_TURN.replace("WORDS", words).replace("STEP", step.replace("  # !", "")), CODE)


CHOSEN_CONTEXT = """
    def evaluate(net, ema, loader):
        net.eval()
        hits = 0
        with CONTEXT:
            for x, y in loader:
                hits += (net(x).argmax(1) == y).sum().item()  # !
        return hits
"""


@pytest.mark.parametrize(
    "context",
    [
        "torch.no_grad() and ema.average_parameters()",
        "torch.no_grad() and torch.inference_mode() and ema.swapped(net)",
        "ema.average_parameters() or torch.no_grad()",
    ],
)
def test_the_context_that_is_entered_is_another_one(context: str) -> None:
    assert_flagged(CHOSEN_CONTEXT.replace("CONTEXT", context), CODE)


@pytest.mark.parametrize(
    "context",
    [
        "ema.average_parameters() and torch.no_grad()",
        "ema.average_parameters() and ema.swapped(net) and torch.inference_mode()",
        "(ema.average_parameters() and torch.no_grad())",
        "torch.no_grad() or ema.average_parameters()",
        "ema.average_parameters() and torch.set_grad_enabled(False)",
        "ema.context or torch.no_grad()",
    ],
)
def test_the_context_that_is_entered_may_switch_gradients_off(context: str) -> None:
    assert_clean(twin(CHOSEN_CONTEXT, ("CONTEXT", context)), CODE)


NAMED_AS_MODEL = """
    def merge(groups, loader):
        for group in groups:
            group.eval()
            fresh = model(CALL)
            for x, y in loader:
                print(group.score(x, y))
            group.take(fresh.state_dict())

    if __name__ == "__main__":
        config, model = read_options()
        for x, y in make_loader(config):
            merge(make_groups(config), x)
"""


@pytest.mark.parametrize("called", ["model()", "net()", "options.model()", "network()"])
def test_a_call_without_arguments_makes_a_model(called: str) -> None:
    assert_clean(twin(NAMED_AS_MODEL, ("model(CALL)", called)), CODE)


def test_a_call_runs_what_is_given_something_or_shown_to_be_a_model() -> None:
    runs = """
        def score(groups, model, loader):
            model.eval()
            for x in loader:
                print(model().item())  # !
    """
    assert_flagged(runs, CODE)
    assert_flagged(runs.replace("model()", "model(x)"), CODE)


ENVIRONMENTS = """
    class Car:
        def rollout(self, policy, steps, state=None):
            path = []
            for _ in range(steps):
                state, _ = self.move(policy(torch.tensor(state)).argmax().item())
                path.append(state)
            return path, len(path)

    class Pursuit:
        def rollout(self, policy, steps, state=None):
            path, chase = [], []
            for _ in range(steps):
                with torch.no_grad():
                    values = policy(torch.tensor(state))
                state, _ = self.move(values.argmax().item())
                path.append(state)
                chase.append(state)
            return path, chase, len(path)

    class Boat:
        def rollout(self, policy, steps, state=None):
            path = [self.move(policy(torch.tensor(state)).argmax().item()) for _ in range(steps)]
            return path, None

    def show(name, agent, starts):
        env = gym.make(name)
        agent.q_network.eval()
        for start in starts:
            TAKEN = env.rollout(agent.q_network, 100, start)  # !
            print(len(path))
"""


def test_methods_of_one_name_of_which_one_returns_as_much() -> None:
    assert_flagged(ENVIRONMENTS.replace("TAKEN", "path, length"), CODE)
    assert_clean(twin(ENVIRONMENTS, ("TAKEN", "path, chase, length")), CODE)
    assert_clean(twin(ENVIRONMENTS, ("TAKEN", "(path, chase, _)")), CODE)
    assert_clean(twin(ENVIRONMENTS, ("TAKEN", "[path, chase, length]")), CODE)
    assert_flagged(ENVIRONMENTS.replace("TAKEN", "path, *rest"), CODE)


TO_NUMPY = """
    def cluster(model, heads, loader):
        model.eval()
        found = []
        for x, _ in loader:
            features = model(x)  # !
            features = F.normalize(features, dim=-1)
            found.append(TAKEN)
        return heads.predict(np.concatenate(found))
"""


@pytest.mark.parametrize(
    "taken",
    ["features.cpu().numpy()", "features.numpy()", "features[:, 0].cpu().numpy().tolist()", "(features * 2).numpy()"],
)
def test_numpy_takes_no_graph_so_there_is_none(taken: str) -> None:
    assert_clean(twin(TO_NUMPY, ("TAKEN", taken)), CODE)


@pytest.mark.parametrize(
    "taken",
    [
        "features.detach().cpu().numpy()",
        "features.data.numpy()",
        "features.argmax(1).cpu().numpy()",
        "features.max(1)[1].numpy()",
        "features.topk(5)[1].numpy()",
        "(features > 0).numpy()",
        "features.numpy(force=True)",
    ],
)
def test_numpy_takes_what_has_no_graph(taken: str) -> None:
    assert_flagged(TO_NUMPY.replace("TAKEN", taken), CODE)


WEIGHED = """
    class Weighed(nn.Module):
        def __init__(self):
            super().__init__()
            self.critic = nn.Linear(4, 1)

        def weight(self, near, far, last):
            first = torch.autograd.grad(near, last, retain_graph=True)[0]
            return first.norm() / torch.autograd.grad(far, last, retain_graph=True)[0].norm()

        def forward(self, out, x, last):
            near, far = (out - x).abs().mean(), -self.critic(out).mean()
            loss = near + self.weight(near, far, last) * far
            return loss, {"loss": loss.detach()}

    def validate(model, loss_fn, loader):
        model.eval()
        for x, _ in loader:
            out = model(x)  # !
            _, log = loss_fn(out, x, model.out[0])
            print(log["loss"].item())

    def main():
        model, loss_fn = nn.Sequential(nn.Linear(4, 4)), Weighed().to("cuda")
        train(model, loss_fn)
        validate(model, loss_fn, make_loader())
"""


@pytest.mark.parametrize(
    "edit",
    [
        ("train(model, loss_fn)", "pass"),
        ("torch.autograd.grad", "grad"),
        ("Weighed().to", "build_loss().to"),  # its `forward` takes as much as this call gives
        ("loss_fn(out, x, model.out[0])", "loss_fn(out, x, model.out[0].weight)"),
        ("loss_fn(out, x, model.out[0])", "loss_fn(out, x, last=model.get_last_layer())"),
    ],
)
def test_a_loss_that_weighs_its_terms_by_their_gradients(edit: tuple[str, str]) -> None:
    assert_clean("from torch.autograd import grad\n" + dedent(twin(WEIGHED, edit)), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("torch.autograd.grad(near, last, retain_graph=True)[0]", "near * last.weight"),
         ("torch.autograd.grad(far, last, retain_graph=True)[0].norm()", "far")],
        [("Weighed().to", "nn.TripletMarginLoss().to")],
        [("Weighed().to", "build_loss().to"), ("loss_fn(out, x, model.out[0])", "loss_fn(out, x)")],
    ],
)  # fmt: skip
def test_a_loss_that_asks_for_no_gradients(edits: list[tuple[str, str]]) -> None:
    snippet = WEIGHED
    for edit in edits:
        snippet = snippet.replace(*edit)
    assert_flagged(snippet, CODE)

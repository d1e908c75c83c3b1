from __future__ import annotations

import re

import pytest

from gradguard.findings import Confidence, Severity
from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG104"

FLAGGED = {
    "records whose class cannot be read": """
        from project import records
        from project.records import Step

        def train(model, loader, optimizer):
            kept = []
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                kept.append(Step(loss))  # !
                kept.append(records.Step(loss))  # !
    """,
    "longer and longer, under the same few keys": """
        def evaluate(net, loader, classes):
            net.eval()
            scores = {c: torch.zeros(0) for c in range(classes)}
            for x, y in loader:
                out = net(x)
                for c in range(classes):
                    scores[c] = torch.cat([scores[c], out[y == c, c]])  # !
            return {c: kept.mean().item() for c, kept in scores.items()}
    """,
    "one of two losses that a model gives": """
        def train(model, loader, optimizer):
            history = []
            for images, targets in loader:
                losses, aux_loss = model(images, targets)
                total = sum(losses.values()) + aux_loss
                optimizer.zero_grad()
                total.backward()
                optimizer.step()
                history.append(aux_loss)  # !
    """,
    "the outputs beside a loss": """
        def train(model, loader, optimizer):
            history = []
            for images, targets in loader:
                loss, logits = model(images, targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                history.append(logits)  # !
    """,
    "records that a handler of the standard library holds back": """
        import logging
        import logging.handlers
        import sys

        log = logging.getLogger("train")
        log.addHandler(logging.handlers.MemoryHandler(4096, target=logging.StreamHandler(sys.stdout)))

        def train(model, loader, optimizer):
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                log.info("step %d loss %.4f", step, loss)  # !
    """,
    "records of a small handler that has none to hand them to": """
        import logging
        from logging.handlers import MemoryHandler

        def make_log(size=16):
            log = logging.getLogger("train")
            held = MemoryHandler(size, logging.ERROR)
            log.addHandler(held)
            return log

        def train(model, loader, optimizer):
            log = make_log()
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                log.info("step %d loss %.4f", step, loss)  # !
    """,
    "records of a handler that is flushed, to which there is no target": """
        import logging
        import logging.handlers

        log = logging.getLogger("train")
        held = logging.handlers.MemoryHandler(8, flushLevel=logging.INFO, target=None)
        log.addHandler(held)

        def train(model, loader, optimizer):
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                log.debug("step %d loss %.4f", step, loss)  # !
                if step % 100 == 0:
                    held.flush()
    """,
    "a term of the loss, of which nothing else is known": """
        def train(vae, opt, loader):
            terms = []
            for x in loader:
                mean, logvar = vae.encode(x)
                decoded = vae.decode(mean)
                reconstruction = F.mse_loss(decoded, x)
                divergence = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).mean()
                opt.zero_grad()
                (reconstruction + 0.1 * divergence).backward()
                opt.step()
                terms.append(divergence)  # !
    """,
    "a term of a sum that has a name": """
        def train(parts, opt, loader):
            terms = []
            for x in loader:
                first, second = parts.first(x), parts.second(x)
                total = first.mean()
                total += second.mean()
                opt.zero_grad()
                total.backward()
                opt.step()
                terms.append(second)  # !
    """,
    "one of two terms that a weight from a file goes with": """
        import yaml

        def train(parts, opt, loader, path):
            weights = yaml.safe_load(open(path))["weights"]
            terms = []
            for x in loader:
                first, second = F.l1_loss(parts.first(x), x), F.mse_loss(parts.second(x), x)
                total = first + weights["second"] * second
                opt.zero_grad()
                total.backward()
                opt.step()
                terms.append(second)  # !
    """,
    "both of two terms that are weighted together": """
        def train(parts, opt, loader):
            terms = []
            for x in loader:
                first, second, third = parts.first(x), parts.second(x), parts.third(x)
                total = third + 0.5 * (first + second)
                opt.zero_grad()
                total.backward()
                opt.step()
                terms.append((first, second))  # !
    """,
    "what a sum is made of in a generator": """
        def step(net, opt, x, y):
            loss = F.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        def train(net, opt, loader):
            return sum(step(net, opt, x, y) for x, y in loader) / len(loader)  # !
    """,
    "only another key is emptied": """
        class Task:
            def __init__(self, net):
                self.net = net
                self.seen = {"train": [], "dev": []}

            def train_step(self, batch):
                return self.share(batch, "train")

            def dev_step(self, batch):
                return self.share(batch, "dev")

            def share(self, batch, split):
                x, y = batch
                loss = F.mse_loss(self.net(x), y)
                self.seen[split].append(loss)  # !
                return loss

        class Fit:
            def __init__(self, task, optimizer):
                self.task, self.optimizer = task, optimizer

            def train_epoch(self, batches):
                for batch in batches:
                    loss = self.task.train_step(batch)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                return len(self.task.seen["train"])

            @torch.no_grad()
            def dev_epoch(self, batches):
                for batch in batches:
                    self.task.dev_step(batch)
                self.task.seen["dev"].clear()

        def main(net, optimizer, batches):
            fit = Fit(Task(net), optimizer)
            for epoch in range(10):
                fit.train_epoch(batches)
                fit.dev_epoch(batches)
    """,
    "what a block of a ModuleList gives beside": """
        class Gated(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.gate = nn.Linear(n, n)

            def forward(self, x):
                g = torch.sigmoid(self.gate(x))
                return x * g, g

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList([Gated(4) for _ in range(2)])
                self.out = nn.Linear(4, 2)

            def forward(self, x):
                seen = []
                for block in self.blocks:
                    x, g = block(x)
                    seen.append(g.mean())
                return self.out(x), torch.stack(seen).mean()

        def train(loader):
            net = Net()
            optimizer = torch.optim.Adam(net.parameters())
            kept = []
            for x, y in loader:
                scores, openness = net(x)
                loss = F.cross_entropy(scores, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                kept.append(openness)  # !
    """,
    "a record's field, and the record": """
        class Row:
            def __init__(self, step):
                self.step = step
                self.loss = None

        def train(model, optimizer, loader):
            rows = []
            for step, (x, y) in enumerate(loader):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                row = Row(step)
                row.loss = loss
                rows.append(row)  # !
    """,
    "a dict's key": """
        def train(model, optimizer, loader):
            steps = {}
            for step, (x, y) in enumerate(loader):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                steps[loss] = step  # !
    """,
    "append": """
        def train(model, loader, optimizer):
            losses = []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss)  # !
            return losses
    """,
    "list plus list": """
        def train(model, loader, optimizer):
            losses = []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses += [loss]  # !
            return losses
    """,
    "dict of lists, made with a default": """
        def train(model, loader, optimizer):
            history = defaultdict(list)
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                history["loss"].append(loss)  # !
                history.setdefault("again", []).append(loss)  # !
    """,
    "dict of the outputs": """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
                self.outputs = []

            def run(self, loader):
                for batch_idx, (x, y) in enumerate(loader):
                    self.optimizer.zero_grad()
                    logits = self.net(x)
                    loss = F.cross_entropy(logits, y)
                    loss.backward()
                    self.optimizer.step()
                    self.outputs.append({"loss": loss.item(), "logits": logits})  # !
    """,
    "keyed by the step": """
        def train(model, loader, optimizer):
            by_step = {}
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                by_step[step] = loss  # !
    """,
    "global list": """
        HISTORY = []

        def train_step(model, x, y, optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            HISTORY.append(loss)  # !
    """,
    "class attribute": """
        class Trainer:
            history = []

            def train_step(self, model, x, y, optimizer):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                self.history.append(loss)  # !
    """,
    "evaluation": """
        def evaluate(model, loader):
            model.eval()
            outs, labels = [], []
            for x, y in loader:
                outs.append(model(x))  # !
                labels.append(y)
            return torch.cat(outs), torch.cat(labels)
    """,
    "cpu keeps the graph": """
        def predict(model, test_loader):
            model.eval()
            preds = []
            for x in test_loader:
                preds.append(model(x).cpu())  # !
            return preds
    """,
    "bank": """
        def train(encoder, loader, optimizer):
            bank = torch.zeros(0, 128)
            for x, _ in loader:
                feats = encoder(x)
                loss = -(feats @ bank.t()).logsumexp(1).mean()
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
                bank = torch.cat([bank, feats])  # !
    """,
    "weights of samples": """
        def train(model, loader, optimizer, n):
            weights = torch.ones(n)
            for idx, x, y in loader:
                optimizer.zero_grad()
                per_sample = F.cross_entropy(model(x), y, reduction="none")
                per_sample.mean().backward()
                optimizer.step()
                weights[idx] = per_sample  # !
    """,
    "closure of LBFGS": """
        def fit(model, x, y):
            optimizer = torch.optim.LBFGS(model.parameters())
            losses = []

            def closure():
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                losses.append(loss)  # !
                return loss

            for _ in range(100):
                optimizer.step(closure)
            return losses
    """,
    "auxiliary losses": """
        class Gate(nn.Module):
            def __init__(self):
                super().__init__()
                self.router = nn.Linear(8, 4)
                self.aux = []

            def forward(self, x):
                gates = self.router(x).softmax(-1)
                self.aux.append(gates.mean(0).pow(2).sum())  # !
                return gates
    """,
    "alias": """
        class Trainer:
            def __init__(self):
                self.records = []

            def fit(self, model, loader, optimizer):
                records = self.records
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                    records.append(loss)  # !
    """,
    "tuple": """
        def train(model, loader, optimizer):
            log = []
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                log.append((step, loss))  # !
    """,
    "async and walrus": """
        async def train(model, source, optimizer):
            log = []
            while (batch := await source.get()) is not None:
                optimizer.zero_grad()
                (loss := model(batch).sum()).backward()
                optimizer.step()
                log.append(loss)  # !
    """,
    "a decorator that records what is returned": """
        import functools

        HISTORY = {}

        def tracked(name):
            def wrap(fn):
                @functools.wraps(fn)
                def inner(*args, **kwargs):
                    value = fn(*args, **kwargs)
                    HISTORY.setdefault(name, []).append(value)  # !
                    return value
                return inner
            return wrap

        @tracked("ce")
        def loss_of(model, x, y):
            return F.cross_entropy(model(x), y)

        def train(model, loader, optimizer):
            for x, y in loader:
                loss = loss_of(model, x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "in the one phase of several that trains": """
        TRAIN = "train"

        def fit(model, loaders, optimizer, history):
            for epoch in range(10):
                for phase in ("train", "val"):
                    if phase == TRAIN:
                        for x, y in loaders[phase]:
                            optimizer.zero_grad()
                            loss = F.cross_entropy(model(x), y)
                            loss.backward()
                            optimizer.step()
                            history.append(loss)  # !
    """,
    "what is computed from features that were there before": """
        def sweep(model, x, train_loader):
            model.eval()
            features = model(x)
            kept = []
            for weight in train_loader:
                kept.append((features * weight).mean())  # !
            print(len(kept))
    """,
}

CLEAN = {
    "parts of one batch, put together by key": """
        def train(net, loader, optimizer):
            for batch in loader:
                found = {name: torch.zeros(0) for name in ("near", "far")}
                for x in batch:
                    for name in found:
                        found[name] = torch.cat([found[name], net(x)])
                optimizer.zero_grad()
                (found["near"].mean() - found["far"].mean()).backward()
                optimizer.step()
    """,
    "longer and longer under a key, without a graph": """
        @torch.no_grad()
        def evaluate(net, loader, classes):
            net.eval()
            scores = {c: torch.zeros(0) for c in range(classes)}
            for x, y in loader:
                out = net(x)
                for c in range(classes):
                    scores[c] = torch.cat([scores[c], out[y == c, c]])
            return {c: kept.mean().item() for c, kept in scores.items()}
    """,
    "what a model gives beside its losses, by a name that says what of a loss it is": """
        def train(model, loader, optimizer, bounds):
            scales, weights, seen, names = torch.zeros(4), [], {}, []
            for step, (images, targets) in enumerate(loader):
                loss_dict, loss_scale = model(images, targets)
                loss, loss_weights, loss_stats, loss_names = model.head(loss_dict, loss_scale)
                scales = update(scales, loss_scale)
                optimizer.zero_grad()
                (loss + sum(loss_dict.values())).backward()
                optimizer.step()
                weights.append(loss_weights)
                seen[step] = loss_stats
                names.append(loss_names)

        def update(scales, loss_scale):
            values, areas = loss_scale
            for i in range(3):
                scales[i] += values[areas > i].sum()
            return scales
    """,
    "a mask of the loss": """
        def train(model, loader, optimizer):
            masks = []
            for images, targets in loader:
                loss, loss_mask = model(images, targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                masks.append(loss_mask)
    """,
    "the scale of the loss": """
        def train(model, loader, optimizer):
            scales = []
            for images, targets in loader:
                cost, loss_scale = model(images, targets)
                optimizer.zero_grad()
                cost.backward()
                optimizer.step()
                scales.append(loss_scale)
    """,
    "a number times a weight from a file, which is a factor of the loss too": """
        import yaml

        def train(net, judge, opt, loader, path):
            with open(path) as file:
                try:
                    config = yaml.safe_load(file)
                except yaml.YAMLError as error:
                    print(error)
            weights = config["weights"]
            parts = []
            for x in loader:
                out = net(x)
                loss = F.mse_loss(out, x)
                perceptual = torch.mean(judge(out, x))
                parts.append(weights["perceptual"] * perceptual.item())
                loss += weights["perceptual"] * perceptual
                opt.zero_grad()
                loss.backward()
                opt.step()
    """,
    "a number times a weight that somebody reads, which is a factor of the loss too": """
        def train(net, judge, opt, loader, read):
            weights, parts = read("weights"), []
            for x in loader:
                out = net(x)
                loss = F.mse_loss(out, x)
                perceptual = torch.mean(judge(out, x))
                parts.append(weights["perceptual"] * perceptual.item())
                loss += weights["perceptual"] * perceptual
                opt.zero_grad()
                loss.backward()
                opt.step()
    """,
    "a number times a weight, which is a factor of a term that has no name": """
        def train(net, criterion, opt, loader, read):
            weight, sizes = read("weight"), []
            for x, y in loader:
                out = net(x)
                loss = F.mse_loss(out, y) + weight * criterion(out, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                sizes.append(weight * len(x))
    """,
    "a number times a weight behind the term": """
        def train(net, opt, loader, read):
            weight, sizes = read("weight"), []
            for x, y in loader:
                out = net(x)
                first, second = F.mse_loss(out, y), F.l1_loss(out, y)
                loss = weight * first - second * weight
                opt.zero_grad()
                loss.backward()
                opt.step()
                sizes.append(weight * second.item())
    """,
    **{
        f"records that a handler of the standard library holds back, {name}": twin(
            FLAGGED["records that a handler of the standard library holds back"], edit
        )
        for name, edit in {
            "flushed": ("optimizer.step()", "optimizer.step()\n                log.handlers[0].flush()"),
            "few of them": ("4096", "10"),
            "numbers": ("step, loss)", "step, loss.item())"),
            "written out": ('"step %d loss %.4f", step, loss', 'f"step {step} loss {loss:.4f}"'),
            "none, they are written at once": (
                "logging.handlers.MemoryHandler(4096, target=logging.StreamHandler(sys.stdout))",
                "logging.StreamHandler(sys.stdout)",
            ),
        }.items()
    },
    **{
        f"records of a small handler that hands them on, {name}": twin(
            FLAGGED["records of a small handler that has none to hand them to"], edit
        )
        for name, edit in {
            "set later": (
                "log.addHandler(held)",
                "held.setTarget(logging.StreamHandler())\n            log.addHandler(held)",
            ),
            "set as an attribute": (
                "log.addHandler(held)",
                "held.target = logging.StreamHandler()\n            log.addHandler(held)",
            ),
            "given by its name": (
                "(size, logging.ERROR)",
                "(size, target=logging.FileHandler('train.log', delay=True))",
            ),
            "given by its place": ("logging.ERROR)", "logging.ERROR, logging.StreamHandler())"),
            "given with others": ("(size, logging.ERROR)", "(size, **options)"),
            "taken off": ("optimizer.step()", "optimizer.step()\n                log.removeHandler(log.handlers[0])"),
            "emptied by hand": ("optimizer.step()", "optimizer.step()\n                log.handlers[0].buffer.clear()"),
            "of a class of its own": (
                "def make_log",
                "class Held(MemoryHandler):\n            def flush(self):\n                ...\n\n        def make_log",
            ),
            "and given numbers": ("step, loss)", "step, loss.item())"),
        }.items()
    },
    "records of a handler that hands on what is of a level": twin(
        FLAGGED["records that a handler of the standard library holds back"],
        ("4096, target", "4096, flushLevel=logging.INFO, target"),
    ),
    "of the tasks of one step, in an attribute that each step empties": """
        class Learner(nn.Module):
            def __init__(self, net):
                super().__init__()
                self.net = net
                self.adapted = {}

            def adapt(self, task, x, y):
                loss = F.mse_loss(self.net(x), y)
                grads = torch.autograd.grad(loss, list(self.net.parameters()), create_graph=True)
                fast = [w - 0.1 * g for w, g in zip(self.net.parameters(), grads)]
                self.adapted[task] = fast
                return fast

        def outer_step(learner, optimizer, tasks):
            optimizer.zero_grad()
            learner.adapted.clear()
            for task in tasks:
                fast = learner.adapt(task, *task.draw())
                loss = F.mse_loss(predict(fast, task), task.y)
                loss.backward()
            optimizer.step()

        def main(family, net, optimizer):
            learner = Learner(net)
            for step in range(1000):
                outer_step(learner, optimizer, family.take(4))
    """,
    "parts of one batch, whose graph is retained for the next part": """
        def infer(net, heads, batches):
            for batch in batches:
                pos = batch.pos.requires_grad_(True)
                features = net(pos)
                energies, forces = [], []
                for number in range(4):
                    energy = features[:, number].sum()
                    energies.append(energy)
                    forces.append(torch.autograd.grad(energy, pos, retain_graph=number < 3)[0])
                print(torch.stack(energies).detach().mean())
    """,
    "predictions beside losses that the order decides whether to use again": """
        def episode(model, opt, tasks, order, train):
            losses, predictions = [], []
            for x, y in tasks:
                logits = model.functional_forward(x)
                loss = F.cross_entropy(logits, y)
                loss.backward(retain_graph=True)
                predictions.append(logits.softmax(dim=1))
                losses.append(loss)
            total = torch.stack(losses).mean()
            if order == 2 and train:
                opt.zero_grad()
                total.backward()
                opt.step()
            return total, torch.cat(predictions)
    """,
    "what is given to a term, and a product with what has no graph": """
        def train(vae, opt, loader, schedule):
            weights, targets = [], []
            for x in loader:
                target = vae.make_target(x)
                weight = schedule(x)
                mean = vae.encode(x)
                opt.zero_grad()
                (F.mse_loss(mean, target) + weight * mean.abs().mean()).backward()
                opt.step()
                weights.append(weight)
                targets.append(target)
    """,
    "numbers in a generator": """
        def step(net, opt, x, y):
            loss = F.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        def train(net, opt, loader):
            return sum(step(net, opt, x, y).item() for x, y in loader) / len(loader)
    """,
    "one loss for each task, of which one may be asked for its gradients": """
        def losses_of(tasks, model, criterion, batch, with_gradients=False):
            values = {}
            for task in tasks:
                if task == "plain":
                    values[task] = criterion(model(batch[0]), batch[1])
                elif task == "evasion":
                    values[task] = evasion(model, batch, with_gradients)
            return values

        def evasion(model, batch, with_gradients):
            loss = model(batch[0]).pow(2).mean()
            if with_gradients:
                loss.backward(retain_graph=True)
            return loss

        def train(helper, model, loader, optimizer):
            for batch in loader:
                optimizer.zero_grad()
                helper.attack.loss(model, batch).backward()
                optimizer.step()
    """,
    "leaves that a helper makes": """
        def fresh(n):
            x = torch.zeros(n)
            x.requires_grad_(True)
            return x

        def train(net, optimizer, loader):
            kept = []
            for x, y in loader:
                noise = fresh(3)
                loss = F.mse_loss(net(x) + noise, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                kept.append(noise)
            return kept
    """,
    "this key is emptied": twin(
        FLAGGED["only another key is emptied"],
        ('return len(self.task.seen["train"])', 'self.task.seen["train"].clear()'),
    ),
    "numbers of what a block of a ModuleList gives": twin(
        FLAGGED["what a block of a ModuleList gives beside"], ("kept.append(openness)", "kept.append(openness.item())")
    ),
    "every list of a dict is emptied": """
        STATS = defaultdict(list)

        def track(name, value):
            STATS[name].append(value)

        def report(window):
            for name, values in sorted(STATS.items()):
                print(name, float(values[-1]))
                values.clear()

        def train(model, loader, optimizer):
            for step, (x, y) in enumerate(loader):
                loss = F.mse_loss(model(x), y)
                track("loss", loss)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 20 == 0:
                    report(20)
    """,
    "a record's field that holds a number": twin(
        FLAGGED["a record's field, and the record"],
        ("rows.append(row)", "row.loss = row.loss.item()\n                rows.append(row)"),
    ),
    "a record that nobody keeps": """
        class Row:
            def __init__(self):
                self.loss = None

        def train(model, optimizer, loader):
            rows = []
            for step, (x, y) in enumerate(loader):
                row = Row()
                row.loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                row.loss.backward()
                optimizer.step()
                rows.append(float(row.loss))
    """,
    "a tensor as an index": """
        def train(model, optimizer, loader, counts):
            seen = torch.zeros(100)
            for step, (x, y) in enumerate(loader):
                out = model(x)
                loss = F.mse_loss(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen[out.argmax(1)] = 1
                counts[out.argmax(1).item()] = step
    """,
    "a list that the maker of the layers gave them, and empties": """
        class Router(nn.Module):
            def __init__(self, dim, notes):
                super().__init__()
                self.score = nn.Linear(dim, 4)
                self.notes = notes

            def forward(self, x):
                p = self.score(x).softmax(-1)
                self.notes.append(p.mean(0).square().sum())
                return x * p.sum()

        class Mixture(nn.Module):
            def __init__(self):
                super().__init__()
                self.balance = []
                self.blocks = nn.ModuleList(Router(8, self.balance) for _ in range(2))

            def forward(self, x):
                for block in self.blocks:
                    x = block(x)
                return x

            def collect(self):
                total = torch.stack(self.balance).sum()
                self.balance.clear()
                return total

        def train(model: Mixture, loader, optimizer):
            for x, y in loader:
                loss = F.mse_loss(model(x), y) + model.collect()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "detached": """
        def train(model, loader, optimizer):
            losses = []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
                losses.append(loss.item())
    """,
    "backpropagated at the end of the episode, cleared elsewhere": """
        class Policy(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 2)
                self.saved_log_probs = []
                self.rewards = []

            def forward(self, x):
                return F.softmax(self.fc(x), dim=1)

        policy = Policy()
        optimizer = torch.optim.Adam(policy.parameters())

        def select_action(state):
            probs = policy(state)
            m = torch.distributions.Categorical(probs)
            action = m.sample()
            policy.saved_log_probs.append(m.log_prob(action))
            return action.item()

        def finish_episode():
            loss = torch.cat([-p * r for p, r in zip(policy.saved_log_probs, policy.rewards)]).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            del policy.rewards[:]
            del policy.saved_log_probs[:]

        def main(env):
            for episode in range(1000):
                state = env.reset()
                for t in range(1, 10000):
                    action = select_action(state)
                    state, reward, done, _ = env.step(action)
                    policy.rewards.append(reward)
                    if done:
                        break
                finish_episode()
    """,
    "layer outputs": """
        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

            def forward(self, x):
                outputs = []
                for layer in self.layers:
                    x = layer(x)
                    outputs.append(x)
                return torch.stack(outputs)
    """,
    "unrolled": """
        def train(cell, loader, optimizer):
            for seq, y in loader:
                h, outs = None, []
                for x in seq:
                    h = cell(x, h)
                    outs.append(h)
                loss = F.mse_loss(torch.stack(outs), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "deque": """
        def train(model, loader, optimizer):
            recent = deque(maxlen=20)
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                recent.append(loss)
    """,
    "trimmed": """
        def train(model, loader, optimizer):
            recent = []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                recent.append(loss)
                if len(recent) > 10:
                    recent.pop(0)
    """,
    "cleared when printed": """
        def train(model, loader, optimizer):
            window = []
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                window.append(loss)
                if i % 100 == 0:
                    print(sum(window) / len(window))
                    window = []
    """,
    "Lightning clears at the end of the epoch": """
        import pytorch_lightning as pl

        class Lit(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(8, 2)
                self.step_outputs = []

            def training_step(self, batch, batch_idx):
                x, y = batch
                loss = F.cross_entropy(self.net(x), y)
                self.step_outputs.append(loss)
                self.log("loss", loss)
                return loss

            def on_train_epoch_end(self):
                self.log("epoch", torch.stack(self.step_outputs).mean())
                self.step_outputs.clear()

            def validation_step(self, batch, batch_idx):
                x, y = batch
                self.outs.append(self.net(x))
    """,
    "under no_grad": """
        def embed(model, loader):
            model.eval()
            feats = []
            with torch.no_grad():
                for x, _ in loader:
                    feats.append(model(x))
            return torch.cat(feats)
    """,
    "ring buffer": """
        def train(encoder, loader, optimizer, queue, size):
            ptr = 0
            for x, _ in loader:
                q = encoder(x)
                loss = (q @ queue.t()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                queue[ptr:ptr + len(q)] = q.detach()
                ptr = (ptr + len(q)) % size
    """,
    "losses of one step by name": """
        def train(model, loader, optimizer):
            for x, y in loader:
                losses = {}
                losses["cls"] = F.cross_entropy(model(x), y)
                for name, head in model.heads.items():
                    losses[name] = head(x).mean()
                total = sum(losses.values())
                optimizer.zero_grad()
                total.backward()
                optimizer.step()
    """,
    "paths and labels": """
        def evaluate(model, loader):
            model.eval()
            names, scores = [], []
            for x, path in loader:
                out = model(x)
                scores.append(out.argmax(1).tolist())
                scores.append(accuracy(out))
                names.append(path)
            return names, scores
    """,
    "the graph goes to numpy": """
        def features(model, loader):
            with torch.no_grad():
                out = [model(x) for x, _ in loader]
            rows = []
            for o in out:
                rows.append(o)
            return rows
    """,
    "list inside the step": """
        def train(model, loader, optimizer, n):
            for x, y in loader:
                terms = []
                for k in range(n):
                    terms.append(F.cross_entropy(model(x + k), y))
                loss = torch.stack(terms).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "hyperparameters": """
        def sweep(loaders, make_model):
            results = []
            for lr in (0.1, 0.01):
                model = make_model()
                optimizer = torch.optim.SGD(model.parameters(), lr=lr)
                for x, y in loaders:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                results.append((lr, loss.item()))
            return results
    """,
    "a decorator that records numbers": twin(
        FLAGGED["a decorator that records what is returned"], ("append(value)", "append(value.item())")
    ),
    "a decorator that counts": """
        def counted(fn):
            calls = []

            def inner(*args):
                calls.append(1)
                return fn(*args)

            return inner

        @counted
        def loss_of(model, x, y):
            return F.cross_entropy(model(x), y)

        def train(model, loader, optimizer):
            for x, y in loader:
                loss = loss_of(model, x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "a function with some arguments given that stores numbers": """
        from functools import partial

        def log(history, weight, value):
            history.append(weight * value.item())

        def train(model, loader, optimizer):
            losses = []
            note = partial(log, losses, 0.5)
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                note(loss)
            return losses
    """,
    "the parts of one batch": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                outputs, losses = [], []
                for chunk, target in zip(x.chunk(4), y.chunk(4)):
                    output = model(chunk)
                    outputs.append(output)
                    loss = F.cross_entropy(output, target)
                    losses.append(loss)
                    loss.backward()
                optimizer.step()
                print(torch.cat(outputs).argmax(1).eq(y).sum(), sum(losses).item())
    """,
    "gradients that a penalty needs": """
        class Invariance(nn.Module):
            def update(self, minibatches):
                total, grads = 0, []
                for x, y in minibatches:
                    loss = F.cross_entropy(self.network(x), y)
                    total += loss
                    grads.append(torch.autograd.grad(loss, self.network.parameters(), create_graph=True))
                mean = total / len(minibatches)
                center = torch.autograd.grad(mean, self.network.parameters(), retain_graph=True)
                penalty = 0
                for grad in grads:
                    for g, c in zip(grad, center):
                        penalty += (g - c).pow(2).sum()
                objective = mean + penalty
                self.optimizer.zero_grad()
                objective.backward()
                self.optimizer.step()
    """,
    "a state that is made anew unless a caller says otherwise": """
        class Decoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.LSTM(3, 4, 2)
                self.start = nn.Linear(3, 4)

            def decode(self, x, z, init_hidden=True):
                if init_hidden:
                    self.h0 = torch.zeros(2, x.size(0), 4)
                else:
                    self.h0.data.zero_()
                self.h0[-1] = self.start(z)
                return self.rnn(x, (self.h0, self.h0))[0]

        def evaluate(model, feed):
            total = 0.0
            while True:
                batch = feed.next_batch()
                if batch is None:
                    break
                total += F.mse_loss(model.decode(batch.x, batch.z), batch.y).item()
            return total

        def main(loader, feed, optimizer):
            model = Decoder()
            for x, z, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model.decode(x, z), y).backward()
                optimizer.step()
                print(evaluate(model, feed))
    """,
    "a dict that is brought up to date with another one": """
        def train(model, loader, optimizer):
            stats = {}
            for x, y in loader:
                optimizer.zero_grad()
                loss, metrics = model(x, y)
                loss.backward()
                optimizer.step()
                stats.update(metrics)
    """,
    "an attack that is run without gradients, and asks for its own": """
        class Attack:
            def __init__(self, model):
                self.model = model

            def single(self, x, y):
                x = x.detach().clone().requires_grad_()
                with torch.enable_grad():
                    loss = F.cross_entropy(self.model(x), y)
                return x + torch.autograd.grad(loss, [x])[0].sign()

            def perturb(self, x, y):
                adv = x.clone()
                for restart in range(5):
                    adv[restart] = self.single(x, y)[restart].clone()
                return adv

        def evaluate(model, batches):
            attack = Attack(model)
            with torch.no_grad():
                for x, y in batches:
                    print(attack.perturb(x, y))
    """,
    "the parameters as one vector": """
        def compare(model, optimizer, loader, wanted):
            model.eval()
            for x, y in loader:
                flat = []
                for param in model.parameters():
                    m = nn.Flatten(0, -1)
                    flat.append(m(param))
                print((torch.cat(flat).detach() - wanted).norm())
    """,
    "object of one forward pass, filled over a tree": """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, tree, features, seen):
                for child in tree.children:
                    self.forward(child, features, seen)
                h = self.linear(features[tree.index])
                seen.hidden = h if seen.hidden is None else torch.cat((seen.hidden, h), 0)

        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = Cell()

            def forward(self, tree, features):
                seen = Seen(None)
                self.cell(tree, features, seen)
                return seen.hidden
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", [n for n in CLEAN if n != "paths and labels"])
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name])


def test_no_edit_that_cannot_run() -> None:
    """A dict has no `detach`; what a module returns may be one, so that edit is not called safe."""
    step = """
        def step(model, x, y, optimizer):
            optimizer.zero_grad()
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            return {"loss": loss, "logits": logits}

        def train(model, loader, optimizer):
            logs, rows = [], []
            for i, (x, y) in enumerate(loader):
                out = step(model, x, y, optimizer)
                logs.append(out)
                rows.append((i, out["loss"]))
    """
    found = findings(step, CODE)
    assert len(found) == 2
    assert found[0].fix is None
    assert found[1].fix is not None
    assert [edit.text for edit in found[1].fix.edits] == ['out["loss"].detach()']
    assert all(f.help is not None and "each of them" in f.help for f in found)
    (output,) = findings(FLAGGED["evaluation"], CODE)
    assert output.fix is not None
    assert not output.fix.safe


def test_labels_are_not_outputs() -> None:
    """The evaluation lacks no_grad, but what it keeps has no graph."""
    assert {f.code for f in findings(CLEAN["paths and labels"])} == {"GG301"}


def test_fix_detaches_what_is_stored() -> None:
    (finding,) = findings(FLAGGED["list plus list"], CODE)
    assert finding.fix is not None
    assert [e.text for e in finding.fix.edits] == ["loss.detach()"]


@pytest.mark.parametrize("statement", ["rows = rows + new", "rows += new"])
def test_a_list_is_not_detached(statement: str) -> None:
    """What makes a list longer is a list: its items are what to detach."""
    (finding,) = findings(
        f"""
        def collect(model, loader, optimizer):
            rows = []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                new = []
                for weight in (1, 2):
                    new.append(weight * loss)
                {statement}
            return len(rows)
        """
    )
    assert (finding.code, finding.fix) == (CODE, None)
    assert finding.help is not None
    assert "each of them" in finding.help


ENTRIES = """
    def train(net, loader, optimizer):
        history = []
        for x in loader:
            out = net(x)
            logs = {{"loss": out.mean(), "penalty": out.pow(2).mean()}}
            optimizer.zero_grad()
            logs["loss"].backward()
            optimizer.step()
            {}
            history.append(logs){}
        return history
"""


@pytest.mark.parametrize(
    "statement",
    [
        'logs["loss"] = logs["loss"].item(); logs["penalty"] = logs["penalty"].item()',
        'logs["loss"], logs["penalty"] = logs["loss"].item(), logs["penalty"].item()',
        'logs.update(loss=logs["loss"].item(), penalty=logs["penalty"].item())',
        'logs.update({"loss": logs["loss"].item(), "penalty": 0})',
        'logs = dict(logs, loss=logs["loss"].item(), penalty=1)',
        'logs = {**logs, "loss": logs["loss"].item(), "penalty": 0}',
        'logs["loss"] = float(logs["loss"]); logs.update(penalty=0)',
    ],
)
def test_a_dict_whose_entries_are_all_replaced(statement: str) -> None:
    assert_clean(ENTRIES.format(statement, ""), "GG104")


@pytest.mark.parametrize(
    "statement",
    [
        'logs["loss"] = logs["loss"].item()',
        'logs.update(loss=logs["loss"].item())',
        'logs = dict(logs, loss=logs["loss"].item(), other=1)',
        'logs = {"loss": 0, "penalty": 0, **logs}',
        "logs.update(loss=0); logs.update(penalty=out.sum())",
    ],
)
def test_a_dict_of_which_one_entry_is_left(statement: str) -> None:
    assert_flagged(ENTRIES.format(statement, "  # !"), "GG104")


def test_a_list_that_is_cut_where_it_stands() -> None:
    assert_clean(
        """
        def train(net, loader, optimizer):
            last = []
            for x in loader:
                loss = net(x).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                last.append(loss)
                last[:] = last[-10:]
            return last
    """,
        "GG104",
    )


LAST = """
    class Trainer:
        def __init__(self, net, keep):
            self.net = net
            self.optimizer = torch.optim.SGD(net.parameters(), 0.1)
            {made}

        def step(self, x):
            loss = self.net(x).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            {kept}
"""
BEFORE = """
        def train(net, loader, optimizer, stream):
            rows, state, last = [], torch.zeros(1, 4), 0.0
            for x, y in loader:
                before = state
                out, state = net(next(stream), before)
                loss = F.cross_entropy(net.head(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                rows.append(before)  # !
                last = loss
"""
KEEPING = "rows.append(before)"


@pytest.mark.parametrize(
    "kept",
    [
        KEEPING,
        "rows.append((x, before))",
        "rows += [before]",
        "rows.append(last)",
        "rows.append({'x': x, 'last': last})",
        "rows.append(before.squeeze(0))",
    ],
)
def test_what_an_iteration_left_to_the_next_one(kept: str) -> None:
    assert_flagged(BEFORE.replace(KEEPING, kept), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        (
            "out, state = net(next(stream), before)",
            "out, state = net(next(stream), before)\n                state = state.detach()",
        ),
        ("before = state", "before = state.detach()"),
        (KEEPING, "rows.append(before.detach())"),
        (KEEPING, "rows.append(before.numpy())"),
        (KEEPING, "rows.append(x)"),
        (KEEPING, "rows = [before]"),
        ("out, state = net(next(stream), before)", "out, state = next(stream), x"),
        ("out, state = net(next(stream), before)", "out, _ = net(next(stream), before)"),
        ("                out, state", "                with torch.no_grad():\n                    out, state"),
        (KEEPING, "rows.append(last)\n                loss = loss.item()"),
    ],
)
def test_what_an_iteration_leaves_without_a_graph(edit: tuple[str, str]) -> None:
    assert_clean(twin(BEFORE, edit), CODE)


REMEMBERED = """
        class Agent:
            def __init__(self):
                self.cell, self.head = nn.GRUCell(4, 4), nn.Linear(4, 2)
                self.optimizer = torch.optim.Adam([*self.cell.parameters(), *self.head.parameters()])
                self.memory = []
                self.begin()

            def begin(self):
                self.hidden = torch.zeros(1, 4)

            def act(self, obs):
                before = self.hidden
                self.hidden = self.cell(obs, before)
                return int(self.head(self.hidden).argmax()), before

            def remember(self, obs, hidden, done):
                self.memory.append((obs, hidden))
                if done:
                    self.begin()

            def learn(self, obs, goal):
                self.optimizer.zero_grad()
                F.mse_loss(self.head(obs), goal).backward()
                self.optimizer.step()

        def main(env, goal):
            agent = Agent()
            obs = env.reset()
            for step in range(10_000):
                action, hidden = agent.act(obs)
                agent.remember(obs, hidden, step % 10 == 9)  # !
                obs = env.step(action)
                agent.learn(obs, goal)
"""


def test_the_argument_is_named_that_the_iteration_before_left() -> None:
    [finding] = findings(REMEMBERED, "GG107")
    assert_flagged(REMEMBERED, "GG107")
    assert finding.message.startswith("`hidden` is kept in `agent.memory`")


@pytest.mark.parametrize(
    "edit",
    [
        (
            "return int(self.head(self.hidden).argmax()), before",
            "return int(self.head(self.hidden).argmax()), before.detach()",
        ),
        ("self.hidden = self.cell(obs, before)", "self.hidden = self.cell(obs, before).detach()"),
        ("def act", "@torch.no_grad()\n            def act"),
        ("self.memory.append((obs, hidden))", "self.memory = [(obs, hidden)]"),
        ("self.memory.append((obs, hidden))", "self.memory.append(obs)"),
    ],
)
def test_what_the_iteration_before_left_without_a_graph(edit: tuple[str, str]) -> None:
    assert_clean(twin(REMEMBERED, edit), "GG107")


LAST_IN_A_LOOP = """
    def train(net, loader, optimizer, keep):
        {made}
        for x in loader:
            loss = net(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {kept}
"""


@pytest.mark.parametrize("form", [LAST, LAST_IN_A_LOOP])
@pytest.mark.parametrize(
    ("made", "kept"),
    [
        ('last = {name: deque([], keep) for name in ("loss", "hit")}', 'last["loss"].append(loss)'),
        ('last = {"loss": deque(maxlen=keep), "hit": []}', 'last["loss"].append(loss)'),
        ("last = defaultdict(lambda: deque(maxlen=keep))", 'last["loss"].append(loss)'),
        ("last = [deque(maxlen=3) for _ in range(2)]", "last[0].append(loss)"),
        ("last = [deque((), 4), []]", "last[0].append(loss)"),
        ("last = dict(loss=deque(maxlen=keep))", 'last["loss"].append(loss)'),
        ("last = {}\nfor name in ('loss', 'hit'): last[name] = deque(maxlen=3)", 'last["loss"].append(loss)'),
        ("last = {}", 'last.setdefault("loss", deque(maxlen=4)).append(loss)'),
    ],
)
def test_collections_of_what_drops_old_elements(form: str, made: str, kept: str) -> None:
    def written(made: str) -> str:
        own = [re.sub(r"\blast\b", "self.last", s) if form is LAST else s for s in (made, kept)]
        return form.format(made=own[0].replace("\n", "\n" + " " * (12 if form is LAST else 8)), kept=own[1])

    assert_clean(written(made), "GG104")
    longer = re.sub(r"deque\(\[\], keep\)|deque\(maxlen=\w+\)|deque\(\(\), 4\)", "deque()", made)
    if longer != made:
        assert len(findings(written(longer), "GG104")) == 1


AFTER_THE_STEP = """
    def go_over(losses):
        torch.stack(losses).sum().backward()

    def train(net, model, optimizer, loader):
        kept = []
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept.append({}){}
        return kept
"""


@pytest.mark.parametrize(
    "value", ["net(x).mean()", "F.cross_entropy(net(x), y)", "sum(p.norm() for p in net.parameters())"]
)
def test_a_graph_through_what_each_step_changes(value: str) -> None:
    """Whoever is given the list cannot go over it any more: torch counts the versions of what a graph saved."""
    assert_flagged(AFTER_THE_STEP.format(value, "  # !"), CODE)


@pytest.mark.parametrize("value", ["model(x).mean()", "net(x).mean().item()", "[p for p in net.parameters()]"])
def test_what_the_caller_may_go_over(value: str) -> None:
    assert_clean(AFTER_THE_STEP.format(value, ""), CODE)


def test_norms_of_parameters_that_an_object_keeps() -> None:
    snippet = """
        class Trainer:
            def __init__(self, net):
                self.net, self.norms = net, []
                self.optimizer = torch.optim.SGD(net.parameters(), 0.1)

            def step(self, x, y):
                loss = F.cross_entropy(self.net(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.norms.append({})
    """
    assert_flagged(
        snippet.format("sum(p.norm() for p in self.net.parameters())").replace("ers()))", "ers()))  # !"), CODE
    )
    assert_clean(snippet.format("sum(p.norm().item() for p in self.net.parameters())"), CODE)
    assert_clean(snippet.format("sum(p.grad.norm() for p in self.net.parameters())"), CODE)


IN_A_LOOP = """
    def train(net, loader, optimizer):
        hits, misses = [0.0], [0.0]
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {}
        return hits, misses
"""


@pytest.mark.parametrize(
    "store",
    [
        "(hits if loss < 1 else misses).append(loss)",
        "list(map(hits.append, [loss, 2 * loss]))",
        "hits.append(loss.maximum(misses[0]))",
    ],
)
def test_which_list_and_how_often(store: str) -> None:
    assert_flagged(IN_A_LOOP.format(f"{store}  # !"), CODE)


@pytest.mark.parametrize(
    "store",
    [
        "(hits if loss < 1 else misses).append(loss.item())",
        "list(map(hits.append, [loss.item(), 2 * loss.item()]))",
        "hits[-1] = loss",
        "hits.append(loss); hits[-1] = hits[-1].item()",
        "hits.append(loss); hits[-1] = float(loss)",
    ],
)
def test_numbers_and_the_last_one(store: str) -> None:
    assert_clean(IN_A_LOOP.format(store), CODE)


STEPS = """
    def step(net, optimizer, x, y):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {result}

    def steps(net, optimizer):
        for _ in range(100):
            yield step(net, optimizer, torch.randn(4, 8), torch.randint(0, 2, (4,)))

    def named(net, optimizer):
        for i in range(100):
            yield str(i), step(net, optimizer, torch.randn(4, 8), torch.randint(0, 2, (4,)))

    def pairs(count):
        for _ in range(count):
            yield torch.randn(4, 8), torch.randint(0, 2, (4,))

    def train(net, optimizer):
        {store}
        return history
"""


@pytest.mark.parametrize(
    "store",
    [
        "history = [step(net, optimizer, x, y) for x, y in pairs(100)]",
        "history = {i: step(net, optimizer, *pair) for i, pair in enumerate(pairs(100))}",
        "history = list(step(net, optimizer, x, y) for x, y in pairs(100))",
        "history = sum(step(net, optimizer, x, y) for x, y in pairs(100))",
        "history = list(steps(net, optimizer))",
        "history = sorted(steps(net, optimizer))",
        "history = []; history.extend(steps(net, optimizer))",
        "history = list(zip(*named(net, optimizer)))",
        "names, history = zip(*named(net, optimizer))",
        "history = [loss for loss in steps(net, optimizer)]",
    ],
)
def test_a_training_that_is_a_comprehension(store: str) -> None:
    assert_flagged(STEPS.format(result="loss", store=f"{store}  # !"), CODE)
    assert_clean(STEPS.format(result="loss.item()", store=store), CODE)


@pytest.mark.parametrize(
    "store",
    [
        "history = [step(net, optimizer, x, y).item() for x, y in pairs(100)]",
        "history = sum(loss.item() for loss in steps(net, optimizer))",
        "history = max(step(net, optimizer, x, y) for x, y in pairs(100))",
    ],
)
def test_a_comprehension_of_numbers(store: str) -> None:
    assert_clean(STEPS.format(result="loss", store=store), CODE)


@pytest.mark.parametrize(
    "taken",
    [
        "scores, rewards = zip(*play(net, env))",
        "scores = []\n            scores.extend(score for score, _ in play(net, env))",
        "pairs = []\n            pairs.extend(play(net, env))\n            scores = [score for score, _ in pairs]",
    ],
)
def test_what_a_generator_gave_that_is_backpropagated_together(taken: str) -> None:
    assert_clean(
        f"""
        def play(net, env):
            state = env.reset()
            for _ in range(200):
                score = net(state).log_softmax(-1)[0]
                state, reward = env.step(score.argmax())
                yield score, reward

        def train(net, env, optimizer):
            for episode in range(1000):
                {taken.replace("            ", "                ")}
                optimizer.zero_grad()
                torch.stack(scores).sum().backward()
                optimizer.step()
        """,
        CODE,
    )


def test_a_loop_over_what_learns() -> None:
    assert_clean(
        """
        class Agent:
            def __init__(self):
                self.net = nn.Linear(8, 2)
                self.optimizer = torch.optim.Adam(self.net.parameters())

            def update(self, x, y):
                loss = F.cross_entropy(self.net(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                return loss

        class Team:
            def __init__(self, size):
                self.agents = [Agent() for _ in range(size)]

            def update(self, x, y):
                return torch.stack([agent.update(x, y) for agent in self.agents]).mean().item()

            def update_in_a_loop(self, x, y):
                losses = []
                for agent in self.agents:
                    losses.append(agent.update(x, y))
                return torch.stack(losses).mean().item()
        """,
        CODE,
    )


@pytest.mark.parametrize(
    ("scored", "freed"),
    [("F.cross_entropy(net(x + delta), y)", False), ("loss", True), ("loss + F.l1_loss(net(x), y)", True)],
)
def test_backward_frees_only_the_graph_that_it_goes_through(scored: str, freed: bool) -> None:
    (found,) = findings(
        f"""
        def attack(net, x, y, delta, loader):
            scores = []
            for _ in loader:
                loss = F.cross_entropy(net(x + delta), y)
                loss.backward()
                delta.data += delta.grad.sign()
                delta.grad.zero_()
                scores.append({scored})
            return delta
    """,
        CODE,
    )
    assert ("backward freed" in found.message) is freed
    assert found.severity is (Severity.WARNING if freed else Severity.ERROR)


TRAINS_OR_NOT = """
        def run(model, loader, optimizer, train):
            seen = []
            for x, y in loader:
                out = model(x)
                loss = F.cross_entropy(out, y)
                WAYS
            return seen
"""
OTHER_WAYS = [
    "if train: loss.backward(); optimizer.step(); optimizer.zero_grad() | else: seen.append(out)",
    "if not train: seen.append(out) | else: loss.backward(); optimizer.step(); optimizer.zero_grad()",
    "if not train: seen.append(out); continue | loss.backward(); optimizer.step(); optimizer.zero_grad()",
]
SAME_WAY = [
    "if train: loss.backward(); seen.append(out); optimizer.step(); optimizer.zero_grad()",
    "if train: seen.append(out) | loss.backward(); optimizer.step(); optimizer.zero_grad()",
    "if train: seen.append(out) | else: print(x) | loss.backward(); optimizer.step(); optimizer.zero_grad()",
]


def _kept(ways: str) -> list[tuple[str, bool]]:
    found = findings(TRAINS_OR_NOT.replace("WAYS", ways.replace(" | ", "\n                ")), CODE)
    return [(f.severity.value, "backward freed" in f.message) for f in found]


@pytest.mark.parametrize("ways", OTHER_WAYS)
def test_a_backward_on_another_way_frees_nothing(ways: str) -> None:
    assert _kept(ways) == [("error", False)]


@pytest.mark.parametrize("ways", SAME_WAY)
def test_a_backward_on_the_same_way_frees_what_was_saved(ways: str) -> None:
    assert _kept(ways) == [("warning", True)]


SPREAD = """
        def pick(loss, rate, best=None):
            return PICKED

        def train(model, loader, optimizer, scheduler):
            seen = []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                pair = {pair}
                seen.append(pick({given})){mark}
"""


@pytest.mark.parametrize("pair", ["[loss, scheduler.lr]", "(loss, scheduler.lr)"])
@pytest.mark.parametrize("picked", ["rate", "loss.item() * rate", "best or rate"])
def test_a_list_that_is_spread_gives_each_parameter_its_own(pair: str, picked: str) -> None:
    text = SPREAD.replace("PICKED", picked)
    assert_clean(text.format(pair=pair, given="*pair", mark=""), confidence=Confidence.LOW)
    assert_clean(text.format(pair=pair, given="*pair, best=x.mean().item()", mark=""), confidence=Confidence.LOW)


@pytest.mark.parametrize(
    ("pair", "given"),
    [
        ("[loss, 0.1]", "*pair"),
        ("(0.1, loss)", "*pair[::-1]"),
        ("[0.1]", "loss, *pair"),
        ("[loss]", "*pair, 0.1"),
        ("[loss, 0.1, loss, loss]", "*pair[:2]"),
    ],
)
def test_the_loss_that_is_spread_is_kept(pair: str, given: str) -> None:
    text = SPREAD.replace("PICKED", "loss * rate")
    assert_flagged(text.format(pair=pair, given=given, mark="  # !"), CODE)


EVALUATED = """
        def evaluate(net, {given}):
            net.eval()
            report = {{}}
            for {loop}:
                logits = net(x)
                report[name] = {kept}
            return max(float(r["loss"]) for r in report.values())
"""


@pytest.mark.parametrize("loop", ["x, y, name in data", "name, (x, y) in enumerate(data)", "x, y, name in tqdm(data)"])
def test_an_evaluation_over_pairs_of_data(loop: str) -> None:
    kept = "{'loss': F.cross_entropy(logits, y)}"
    assert_flagged(EVALUATED.format(given="data", loop=loop, kept=f"{kept}  # !"), CODE)
    for copied in ("{'loss': F.cross_entropy(logits, y).item()}", "{'loss': F.cross_entropy(logits, y).detach()}"):
        assert_clean(EVALUATED.format(given="data", loop=loop, kept=copied), CODE)


@pytest.mark.parametrize(
    ("given", "loop"),
    [("x, y, n", "name in range(n)"), ("xs, ys", "x, name in zip(xs, ys)"), ("xs", "name, x in enumerate(xs)")],
)
def test_an_evaluation_that_decodes_or_goes_over_scales(given: str, loop: str) -> None:
    assert_clean(EVALUATED.format(given=given, loop=loop, kept="{'loss': logits.max()}"), CODE)


FILES = """
        import numpy as np
        import cv2
        from PIL import Image

        def describe(net, paths, to_tensor, other):
            net.eval()
            found = []
            for {loop}:
                x = {read}
                found.append({kept})
            return torch.cat(found).detach().numpy()
"""
READ = {"loop": "path in paths", "read": "torch.Tensor(np.load(path))", "kept": "net(x[None])"}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"read": "to_tensor(Image.open(path)).unsqueeze(0)"},
        {"read": "to_tensor(Image.open(path + '.png').convert('RGB'))"},
        {"read": "torch.from_numpy(cv2.imread(str(path)))"},
        {"loop": "i, path in enumerate(paths)"},
        {"loop": "i in range(len(paths))", "read": "to_tensor(Image.open(paths[i]))"},
        {"kept": "(path, net(x))"},
    ],
)
def test_an_evaluation_that_reads_a_file_each_time(changed: dict[str, str]) -> None:
    given = {**READ, **changed}
    assert_flagged(FILES.format(**{**given, "kept": f"{given['kept']})  # !"}).replace("!)", "!"), CODE)
    assert_clean(FILES.format(**{**given, "kept": "net(x).detach()"}), CODE)
    assert_clean(FILES.format(**{**given, "kept": "net(x).argmax(-1)"}), CODE)


@pytest.mark.parametrize(
    "changed",
    [
        {"read": "to_tensor(path)"},
        {"read": "torch.ones(path)"},
        {"read": "other.load(path)"},
        {"read": "torch.load(path)"},  # checkpoints, of which there are few
        {"read": "torch.Tensor(np.load('mean.npy')) * path"},
    ],
)
def test_an_evaluation_that_reads_no_file_of_its_own(changed: dict[str, str]) -> None:
    assert_clean(FILES.format(**{**READ, **changed}), CODE)


def test_files_where_nothing_evaluates() -> None:
    training = FILES.replace("net.eval()", "net.train()").format(**READ)
    assert_clean(training, CODE)
    wanted = FILES.replace("return torch.cat(found).detach().numpy()", "torch.cat(found).sum().backward()")
    assert_clean(wanted.format(**READ), CODE)


PUT_BACK = """
        class Probe:
            def __init__(self, net):
                self.net, self.seen = net, []

            def louder(self, row, y):
                gain = torch.ones(3)
                for _ in range(3):
                    gain.requires_grad_()
                    kept = row["audio"]
                    row["audio"] = gain * row["audio"]
                    loss = F.nll_loss(self.net(row["audio"]), y)
                    loss.backward()
                    BACK
                    gain = (gain + 0.1 * gain.grad.sign()).detach()
                row["audio"] = gain * row["audio"]
                return row

            def run(self, loader):
                for batch in loader:
                    row = {k: v.clone() for k, v in batch.items()}
                    row = self.louder(row, batch["label"])
                    self.seen.append({k: row[k].cpu() for k in row})  # !
"""
COUNTED = """
        def train(model, loader, optimizer):
            history = []
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                row = {}
                row["loss"] = loss
                row["count"] = len(x)
                history.append(row)  # !
"""


def test_an_entry_that_is_put_back() -> None:
    assert_clean(PUT_BACK.replace("BACK", 'row["audio"] = kept').replace("  # !", ""), CODE)


@pytest.mark.parametrize("back", ["pass", 'row["audio"] = 0.5 * row["audio"]', 'row["video"] = kept'])
def test_an_entry_that_is_not_put_back(back: str) -> None:
    assert_flagged(PUT_BACK.replace("BACK", back), CODE)


def test_an_entry_beside_the_one_that_is_put_back() -> None:
    assert_flagged(PUT_BACK.replace("BACK", 'row["loss"], row["audio"] = loss, kept'), CODE)


def test_a_number_takes_no_graph_out_of_what_it_is_put_beside() -> None:
    assert_flagged(COUNTED, CODE)
    assert_clean(twin(COUNTED, ('["count"]', '["loss"]')), CODE)
    assert_clean(twin(COUNTED, ("= loss\n", "= loss.item()\n")), CODE)


OF_RECORDS = """
    from dataclasses import dataclass
    from typing import NamedTuple

    @dataclass
    class Trial:
        step: int
        score: object
        net: nn.Module

    class Row(NamedTuple):
        step: int
        score: object
        net: nn.Module

    class Board:
        def __init__(self):
            self.scores, self.best = {{}}, []

        def submit(self, trial):
            {kept}

    def train(net, loader, optimizer):
        board = Board()
        for step, (x, y) in enumerate(loader):
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            board.submit({record})
"""
FIELDS = [
    "self.best.append(trial.score)",
    "self.scores.update({trial.step: trial.score})",
    "self.best = [*self.best, trial.score]",
    "self.best.append((trial.step, trial.score))",
]


@pytest.mark.parametrize(
    "record", ["Trial(step, loss, net)", "Trial(step, score=loss, net=net)", "Row(step, loss, net)"]
)
@pytest.mark.parametrize("kept", FIELDS)
def test_the_field_of_a_record_that_is_handed_over(kept: str, record: str) -> None:
    assert_flagged(OF_RECORDS.format(kept=f"{kept}  # !", record=record), CODE)


@pytest.mark.parametrize(
    ("kept", "record"),
    [
        *((kept, "Trial(step, loss.item(), net)") for kept in FIELDS),
        *((kept, "Row(step, loss.detach(), net)") for kept in FIELDS),
        ("self.best.append(trial.step)", "Trial(step, loss, net)"),
        ("self.best.append(trial.step)", "Row(step, loss, net)"),
        ("self.best.append(float(trial.score))", "Trial(step, loss, net)"),
        ("self.best.append(trial.score.shape)", "Trial(step, loss, net)"),
        ("self.best = [trial.score]", "Trial(step, loss, net)"),
        ("self.best = [*self.best, trial.score][-3:]", "Trial(step, loss, net)"),
        ("self.scores['last'] = trial.score", "Trial(step, loss, net)"),
        ("print(trial.step, trial.score)", "Row(step, loss, net)"),
    ],
)
def test_the_field_of_a_record_that_keeps_no_graph(kept: str, record: str) -> None:
    assert_clean(OF_RECORDS.format(kept=kept, record=record), CODE)


FILLED_LATER = """
    class Row:
        def __init__(self, step):
            self.step, self.loss, self.losses = step, None, []

        def finish(self):
            self.loss = None

    @dataclasses.dataclass
    class Record:
        step: int
        loss: object = None
        losses: list = dataclasses.field(default_factory=list)

    def train(net, loader, optimizer):
        rows = []
        for step, (x, y) in enumerate(loader):
            row = {made}
            rows.append(row)
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {filled}
        return rows
"""
FILLED = [
    ("{'step': step}", "row['loss'] = {}"),
    ("dict(step=step)", "row['loss'] = {}"),
    ("Row(step)", "row.loss = {}"),
    ("Record(step)", "row.loss = {}"),
    ("Record(step, loss=None)", "row.loss = {}"),
]
ADDED = [
    ("{}", "row[step] = {}"),
    ("[]", "row.append({})"),
    ("[step]", "row += [{}]"),
    ("{'step': step}", "row.update(loss={})"),
]


def _filled(made: str, filled: str, value: str = "loss") -> str:
    return FILLED_LATER.replace("{made}", made).replace("{filled}", filled.replace("{}", value))


@pytest.mark.parametrize(("made", "filled"), FILLED)
def test_an_object_that_is_filled_after_it_was_put_into_a_list(made: str, filled: str) -> None:
    assert_flagged(_filled(made, f"{filled}  # !"), CODE)


@pytest.mark.parametrize(("made", "filled"), ADDED)
def test_a_list_that_gets_more_after_it_was_put_into_one(made: str, filled: str) -> None:
    assert_flagged(_filled(made, filled).replace("rows.append(row)", "rows.append(row)  # !"), CODE)


@pytest.mark.parametrize(("made", "filled"), [*FILLED, *ADDED])
@pytest.mark.parametrize("value", ["loss.item()", "loss.detach()", "float(loss)", "step"])
def test_an_object_that_is_filled_with_numbers(made: str, filled: str, value: str) -> None:
    assert_clean(_filled(made, filled, value), CODE)


@pytest.mark.parametrize(("made", "filled"), [*FILLED, *ADDED])
@pytest.mark.parametrize(
    "edit",
    [
        ("rows = []", "rows = deque(maxlen=9)"),
        ("rows.append(row)", "rows.append(row); del rows[:-9]"),
        ("rows.append(row)", "if len(rows) < 9: rows.append(row)"),
        ("rows.append(row)", "rows = [row]"),
        ("rows.append(row)", "print(row)"),
        ("optimizer.step()\n", "optimizer.step()\n            rows.clear()\n"),
        ("loss = F.cross_entropy(net(x), y)", "rows = []; rows.append(row); loss = F.cross_entropy(net(x), y)"),
    ],
)
def test_an_object_that_is_filled_and_not_kept(made: str, filled: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(_filled(made, filled), edit), CODE)


@pytest.mark.parametrize(
    ("made", "filled"),
    [
        ("{'step': step}", "row['loss'] = loss; row['loss'] = row['loss'].item()"),
        ("{'step': step}", "row['loss'] = loss; del row['loss']"),
        ("{'step': step}", "row['loss'] = loss; print(row.pop('loss'))"),
        ("{'step': step}", "row['loss'] = loss; row.clear()"),
        ("{'step': step}", "row = {'loss': loss}"),
        ("{'step': step}", "row = dict(row, loss=loss)"),
        ("Row(step)", "row.loss = loss; row.loss = None"),
        ("Row(step)", "row.loss = loss; row.finish()"),
        ("Record(step)", "row.loss = loss; row.loss = float(row.loss)"),
        ("Record(step)", "other = Record(step); other.loss = loss"),
        ("[]", "row.append(loss); row.clear()"),
        ("rows[-1] if rows else {}", "row['loss'] = loss"),
        ("NEWEST", "row['loss'] = loss"),
    ],
)
def test_an_object_that_keeps_no_graph_at_the_end(made: str, filled: str) -> None:
    assert_clean(_filled(made, filled), CODE)


@pytest.mark.parametrize(("made", "filled"), FILLED[:1])
def test_one_object_that_is_filled_again_and_again(made: str, filled: str) -> None:
    made_before = ("rows = []", "rows, row = [], {'step': 0}")
    assert_clean(twin(_filled(made, filled), made_before, (f"row = {made}", "row['step'] = step")), CODE)


@pytest.mark.parametrize("made", ["{'step': step}", "Record(step)"])
def test_what_objects_hold_is_backpropagated_later(made: str) -> None:
    field = "row['loss']" if "{" in made else "row.loss"
    after = f"        sum({field} for row in rows).backward()\n        return rows\n"
    edits = (("            loss.backward()\n", ""), ("        return rows\n", after))
    assert_clean(twin(_filled(made, f"{field} = loss"), *edits), CODE)


ASKED_FOR = """
    class Trial:
        def __init__(self, number):
            self.number, self.score, self.notes = number, None, []

    class Study:
        def __init__(self):
            self.trials = []

        def ask(self):
            trial = Trial(len(self.trials))
            self.trials.append(trial){mark}
            return trial

        def tell(self, trial, score):
            {told}

        def search(self, net, loader, optimizer):
            for x, y in loader:
                trial = self.ask()
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                self.tell(trial, loss)
"""
TOLD = ["trial.score = {}", "vars(trial).update(score={})", "trial.__dict__.update(score={}, number=3)"]


@pytest.mark.parametrize("told", TOLD)
def test_an_object_that_is_asked_for_and_told(told: str) -> None:
    assert_flagged(ASKED_FOR.format(told=told.format("score"), mark="  # !"), CODE)


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("value", ["score.item()", "score.detach()", "float(score)", "None", "len(self.trials)"])
def test_an_object_that_is_told_numbers(told: str, value: str) -> None:
    assert_clean(ASKED_FOR.format(told=told.format(value), mark=""))


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize(
    "edit",
    [
        ("self.trials.append(trial)", "self.trials = [trial]"),
        ("self.trials.append(trial)", "print(trial)"),
        ("self.trials = []", "self.trials = deque(maxlen=5)"),
        ("return trial", "return Trial(7)"),
        ("self.tell(trial, loss)", "self.tell(Trial(7), loss)"),
        ("self.tell(trial, loss)", "self.tell(trial, loss); self.trials.clear()"),
        ("self.tell(trial, loss)", "self.tell(trial, loss); trial.score = None"),
        ("self.tell(trial, loss)", "self.tell(trial, loss); self.tell(trial, 0.0)"),
    ],
)
def test_an_object_that_is_told_and_not_kept(told: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(ASKED_FOR.format(told=told.format("score"), mark=""), edit), CODE)


ONE_OBJECT = """
    def train(net, loader, optimizer):
        rows, row = [], {{}}
        for x, y in loader:
            {begins}
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                row["loss"] = loss
                rows.append(row)
        return rows
"""


def test_the_same_object_added_in_each_iteration_is_one() -> None:
    assert_clean(ONE_OBJECT.format(begins="if True:"), CODE)


@pytest.mark.parametrize(
    "begins", ["row = {}\n            if True:", "if (row := {}) is not None:", "with records.new() as row:"]
)
def test_another_object_in_each_iteration(begins: str) -> None:
    assert findings(ONE_OBJECT.format(begins=begins), CODE)


BESIDE_A_LOSS = """
    class Trainer:
        def __init__(self, config):
            self.model = build(config)
            self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
            self.kept = []

        def epoch(self, loader):
            mean = None
            for i, batch in enumerate(loader):
                BOTH = self.model(batch)
                mean = (mean * i + SECOND) / (i + 1) if mean is not None else SECOND
                self.kept.append(SECOND)FLAG
                self.optimizer.zero_grad()
                FIRST.backward()
                self.optimizer.step()
            return mean
"""


def _beside_a_loss(first: str, second: str, flag: str = "") -> str:
    snippet = BESIDE_A_LOSS.replace("BOTH", f"{first}, {second}").replace("FLAG", flag)
    return snippet.replace("FIRST", first).replace("SECOND", second)


@pytest.mark.parametrize("first", ["loss", "self.loss", "self.last.total_loss"])
@pytest.mark.parametrize("second", ["loss_items", "items", "parts", "self.loss_items", "self.items", "self.last.parts"])
def test_what_a_model_reports_beside_its_loss(first: str, second: str) -> None:
    """Whether it has a graph is not known: the losses of many detectors detach it."""
    assert_clean(_beside_a_loss(first, second), CODE)
    assert_clean(_beside_a_loss(first, second), "GG106")


@pytest.mark.parametrize("first", ["loss", "self.loss"])
@pytest.mark.parametrize("second", ["logits", "box_loss", "self.logits", "self.box_loss"])
def test_what_a_model_computes_beside_its_loss(first: str, second: str) -> None:
    assert_flagged(_beside_a_loss(first, second, "  # !"), CODE)


MAPS = """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.maps = nn.Linear(8, 8), []

            def forward(self, x):
                a = self.inner(x).softmax(-1)
                self.maps.append(a)  # !
                return a

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.attention = Attention()

            def forward(self, x):
                return self.attention(x)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList(Block() for _ in range(3))

            def forward(self, x):
                pass
                for block in self.blocks:
                    x = block(x)
                return x

        def train(loader):
            net = Net()
            optimizer = torch.optim.Adam(net.parameters())
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""


def test_a_forward_that_empties_what_other_modules_keep() -> None:
    assert_flagged(MAPS, CODE)
    emptied = "for block in self.blocks:\n                    block.attention.maps.clear()"
    assert_clean(twin(MAPS, ("pass", emptied)), CODE)
    assert_clean(twin(MAPS, ("pass", emptied.replace(".clear()", " = []"))), CODE)


NEWEST = """
        class Policy(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(4, 2)
                self.kept: list = []
                self.rewards = []

            def act(self, x):
                m = torch.distributions.Categorical(logits=self.body(x))
                action = m.sample()
                self.kept.append(m.entropy()){mark}
                return action

        def finish(policy, optimizer):
            steps = len(policy.rewards)
            loss = -torch.stack({read}).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {after}

        def main(env):
            policy = Policy()
            optimizer = torch.optim.Adam(policy.parameters())
            for episode in range(1000):
                state = env.reset()
                for _ in range(100):
                    policy.rewards.append(env.step(policy.act(state)))
                finish(policy, optimizer)
"""


@pytest.mark.parametrize("read", ["policy.kept[-steps:]", "policy.kept[-100:]"])
def test_a_list_of_which_only_the_newest_are_backpropagated(read: str) -> None:
    text = NEWEST.format(mark="  # !", read=read, after="del policy.rewards[:]")
    assert_flagged(text, CODE)
    [finding] = findings(NEWEST.format(mark="", read=read, after="del policy.rewards[:]"), CODE)
    assert finding.help is not None
    assert finding.help.startswith("empty `policy.kept` when it was used")
    assert finding.fix is None


def test_a_list_that_a_variable_of_the_same_name_is_made_of() -> None:
    text = NEWEST.format(mark="  # !", read="policy.kept[-steps:]", after="del policy.rewards[:]")
    named = "kept = torch.stack(policy.kept[-steps:])\n            print(kept.shape)\n            loss = -kept.mean()"
    assert_flagged(text.replace("loss = -torch.stack(policy.kept[-steps:]).mean()", named), CODE)
    read = named.replace("print(kept.shape)", "print(len(policy.kept), policy.kept[0])")
    assert_clean(twin(text, ("loss = -torch.stack(policy.kept[-steps:]).mean()", read)), CODE)


@pytest.mark.parametrize(
    ("read", "after"),
    [
        ("policy.kept[-steps:]", "del policy.kept[:]"),
        ("policy.kept[-steps:]", "policy.kept.clear()"),
        ("policy.kept[-steps:]", "del policy.kept[-steps:]"),
        ("policy.kept[-steps:]", "del policy.kept[:-100]"),
        ("policy.kept[-steps:]", "policy.kept[-steps:] = []"),
        ("policy.kept[-steps:]", "policy.kept = []"),
        ("policy.kept[-steps:]", "policy.kept = policy.kept[-10:]"),
        ("policy.kept", "del policy.rewards[:]"),  # torch raises that in the second episode
        ("policy.kept[3:]", "del policy.rewards[:]"),
    ],
)
def test_a_list_that_is_emptied_or_read_further_back(read: str, after: str) -> None:
    assert_clean(NEWEST.format(mark="", read=read, after=after), CODE)


MAPPED = """
        class Trainer:
            def __init__(self, net, optimizer):
                self.net, self.optimizer, self.losses = net, optimizer, []

            def step(self, batch):
                self.optimizer.zero_grad()
                loss = self.net(batch).square().mean()
                loss.backward()
                self.optimizer.step()
                return {returned}

            def epoch(self, loader):
                {kept}
"""


@pytest.mark.parametrize(
    "kept", ["self.losses = list(map(self.step, loader))", "self.losses.extend(map(self.step, loader))"]
)
def test_what_map_gives_for_each(kept: str) -> None:
    assert_flagged(MAPPED.format(returned="loss", kept=kept + "  # !"), CODE)
    [finding] = findings(MAPPED.format(returned="loss", kept=kept), CODE)
    assert finding.fix is None
    assert finding.help is not None
    assert "each of them" in finding.help


@pytest.mark.parametrize(
    ("returned", "kept"),
    [
        ("loss.item()", "self.losses = list(map(self.step, loader))"),
        ("loss.detach()", "self.losses.extend(map(self.step, loader))"),
        ("loss", "self.losses = list(map(float, map(self.step, loader)))"),
        ("loss", "self.losses = [each.item() for each in map(self.step, loader)]"),
    ],
)
def test_what_map_gives_without_a_graph(returned: str, kept: str) -> None:
    assert_clean(MAPPED.format(returned=returned, kept=kept), CODE)


LISTED = """
    class Trainer:
        def __init__(self, nets, encoder, loader):
            self.nets, self.loader = nets, loader
            self.encoder, self.head = encoder, nn.Linear(4, 1)
            self.chosen, self.all_of_them = [], True

        def choose(self):
            if self.all_of_them:
                self.chosen = []
                # listed
                self.optimizer = torch.optim.Adam(self.chosen)
                self.all_of_them = False

        def run(self, epochs):
            for epoch in range(epochs):
                for x in self.loader:
                    loss = self.head(self.nets["body"](self.encoder(x))).mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    if epoch == 3:
                        self.choose()
"""


@pytest.mark.parametrize(
    "listed",
    [
        'self.chosen += list(self.nets["body"].parameters())',
        "self.chosen += list(self.head.parameters())",
        "self.chosen += self.encoder.parameters()",
        "self.chosen += [*self.head.parameters()]",
        "self.chosen += [p for p in self.head.parameters() if p.requires_grad]",
        "self.chosen = self.chosen + list(self.head.parameters())",
        'self.chosen.extend(self.nets["body"].parameters())',
        "self.chosen += list(self.encoder.parameters()) + list(self.head.parameters())",
    ],
)
def test_parameters_in_a_list_have_no_graph(listed: str) -> None:
    assert_clean(LISTED.replace("# listed", listed), CODE)


@pytest.mark.parametrize("kept", ["list(net(x))", "[net(x)]", "[p * 2 for p in net(x)]"])
def test_outputs_in_a_list_have_one(kept: str) -> None:
    assert_flagged(
        f"""
        def train(net: nn.Module, loader, optimizer):
            kept = []
            for x in loader:
                loss = net(x).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                kept += {kept}  # !
        """,
        CODE,
    )


def test_a_sum_of_parameters_has_one() -> None:
    assert_flagged(
        """
        def train(net: nn.Module, loader, optimizer):
            weight = 0
            for x in loader:
                loss = net(x).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for p in net.parameters():
                    weight += p.abs().sum()  # !
        """,
        "GG103",
    )


UNREAD = """
    IMPORT

    model = MADE
    optimizer = torch.optim.Adam(model.parameters())
    model.optimizer = optimizer  # it does optimizer.zero_grad() and the rest
    for epoch in range(10):
        model.train()
        kept = []
        for x, y in loader:
            out = model(x, y)
            kept.append(out)MARK
"""


def _unread(imported: str, made: str, mark: str = "") -> str:
    return UNREAD.replace("IMPORT", imported).replace("MADE", made).replace("MARK", mark)


@pytest.mark.parametrize(
    ("imported", "made"),
    [
        ("from settling import Settler", "Settler(sizes=[3, 32, 2])"),
        ("from settling import Settler as SN", "SN(sizes=[3, 32, 2])"),
        ("from settling.nets import SettlingNet as SN", "SN(3, optimizer=None)"),
        ("import settling as S", "S.SettlingNet(3)"),
    ],
)
def test_a_class_that_cannot_be_read_is_known_by_its_own_name(imported: str, made: str) -> None:
    assert_clean(_unread(imported, made), CODE, Confidence.LOW)


@pytest.mark.parametrize(
    ("imported", "made"),
    [
        ("from zoo import GCN", "GCN(3, 32)"),
        ("from zoo import GCN as Graphs", "Graphs(3, 32)"),
        ("from zoo import build as make", "make(3, 32)"),
        ("from torch import nn as layers", "layers.Linear(3, 32)"),
        ("from torch.nn import Linear as L", "L(3, 32)"),
    ],
)
def test_a_network_that_is_made_under_another_name(imported: str, made: str) -> None:
    assert_flagged(_unread(imported, made, "  # !"), CODE)


OBJECTS = """
    import numpy as np

    def train(net, loader, optimizer, n):
        curve = np.empty(n, dtype=object)
        for step, (x, y) in enumerate(loader):
            loss = F.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            curve[step] = loss  # !
        return curve
"""
EMPTY = "np.empty(n, dtype=object)"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(EMPTY, "np.zeros(n, object)")],
        [(EMPTY, 'np.empty((n, 2), dtype="O")'), ("curve[step]", "curve[step, 0]")],
        [(EMPTY, "np.full((n, 2), None)"), ("curve[step]", "curve[step, 0]")],
        [(EMPTY, "np.full(n, 0.0, dtype=np.object_)")],
    ],
)
def test_arrays_of_objects_keep_them(edits: list[tuple[str, str]]) -> None:
    snippet = OBJECTS
    for old, new in edits:
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [(EMPTY, "np.empty(n)")],
        [(EMPTY, "np.zeros(n, dtype=float)")],
        [(EMPTY, "np.full(n, np.nan)")],
        [(EMPTY, "np.zeros(n, dtype=kind)")],
        [("= loss\n        return", "= loss.item()\n        return")],
        [("= loss\n        return", "= loss.detach()\n        return")],
        [("curve[step] = loss", "curve[0] = loss")],
        [("        for step", "        for step, (x, y) in enumerate(loader):\n            pass\n        for step"),
         ("curve[step] = loss", "curve[:] = 0")],
    ],
)  # fmt: skip
def test_arrays_that_hold_numbers(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(OBJECTS, *edits), CODE)

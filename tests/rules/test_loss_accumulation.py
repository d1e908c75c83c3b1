from __future__ import annotations

import pytest

from gradguard.findings import Confidence, Severity
from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG103"

FLAGGED = {
    "the sum of what a generator gives": """
        def parts(probs, y, criterion):
            for p in probs:
                yield criterion(p, y)

        def evaluate(net, loader, criterion):
            total = 0
            net.eval()
            for x, y in loader:
                total += sum(parts(net(x), y, criterion))  # !
            return total
    """,
    "a number or the loss, and the loss is never a number": """
        def train(net, loader, optimizer, args):
            total = 0.0
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() if args.plain else loss  # !
    """,
    "a number of one loss or another loss": """
        def train(net, loader, optimizer, task):
            total = 0.0
            for x, y in loader:
                out = net(x)
                loss, extra = F.cross_entropy(out, y), 0.0
                if task > 0:
                    extra = out.pow(2).mean()
                optimizer.zero_grad()
                (loss + extra).backward()
                optimizer.step()
                total += extra.item() if task > 0 else loss  # !
    """,
    "augmented": """
        def train(model, loader, optimizer, criterion):
            total = 0
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss  # !
            return total / len(loader)
    """,
    "before backward": """
        def train(net, batches, opt):
            running = 0.0
            for batch in batches:
                opt.zero_grad()
                loss = F.mse_loss(net(batch["x"]), batch["y"])
                running += loss  # !
                loss.backward()
                opt.step()
            print(running / len(batches))
    """,
    "spelled out": """
        def train(model, loader, optimizer, criterion):
            total = torch.zeros(1)
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                out = model(x)
                l = criterion(out, y)
                l.backward()
                optimizer.step()
                total = total + l * x.size(0)  # !
    """,
    "mean on the other side": """
        for epoch in range(10):
            avg = 0.0
            for x, y in train_loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                avg = loss / len(train_loader) + avg  # !
    """,
    "in a class, from another method": """
        class Trainer:
            def __init__(self, model, loader):
                self.model = model
                self.loader = loader
                self.opt = torch.optim.Adam(model.parameters())
                self.crit = nn.MSELoss()
                self.epoch_loss = 0.0

            def step(self, x, y):
                self.opt.zero_grad()
                loss = self.crit(self.model(x), y)
                loss.backward()
                self.opt.step()
                return loss

            def fit(self):
                for x, y in self.loader:
                    loss = self.step(x, y)
                    self.epoch_loss += loss  # !
    """,
    "entry of a dict": """
        def train(model, loader, optimizer):
            stats = {"loss": 0.0, "n": 0}
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                stats["loss"] += loss  # !
                stats["n"] += 1
            return stats
    """,
    "one of several losses": """
        def train(G, D, loader, opt_g, opt_d, bce):
            g_total = d_total = 0
            for real in loader:
                fake = G(torch.randn(8, 100))
                opt_d.zero_grad()
                d_loss = bce(D(real), torch.ones(8)) + bce(D(fake.detach()), torch.zeros(8))
                d_loss.backward()
                opt_d.step()
                opt_g.zero_grad()
                g_loss = bce(D(fake), torch.ones(8))
                g_loss.backward()
                opt_g.step()
                d_total += d_loss.item()
                g_total += g_loss  # !
    """,
    "validation without no_grad": """
        def validate(model, val_loader, loss_fn):
            model.eval()
            val_loss = 0
            for x, y in val_loader:
                val_loss += loss_fn(model(x), y)  # !
            return val_loss / len(val_loader)
    """,
    "accelerate": """
        def main(accelerator, model, optimizer, dataloader):
            total_loss = 0
            for step, batch in enumerate(dataloader):
                outputs = model(**batch)
                loss = outputs.loss
                total_loss += loss  # !
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
    """,
    "cpu does not detach": """
        def train(model, loader, optimizer):
            total = 0
            while True:
                batch = next(loader)
                optimizer.zero_grad()
                loss = model(batch).mean()
                loss.backward()
                optimizer.step()
                total += loss.cpu()  # !
    """,
    "global": """
        total = 0.0

        def train_step(model, x, y, optimizer):
            global total
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss  # !
    """,
    "autograd.backward and the graph kept": """
        def train(model, loader, optimizer):
            total = 0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                torch.autograd.backward(loss)
                optimizer.step()
                total += 0.5 * loss  # !
    """,
    "scaler": """
        def train(model, loader, optimizer, scaler):
            losses = 0.
            for x, y in loader:
                optimizer.zero_grad(set_to_none=True)
                with torch.autocast("cuda"):
                    loss = F.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                losses += loss  # !
    """,
    "in place": """
        def train(model, loader, optimizer):
            total = torch.zeros(())
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                total -= -loss  # !
    """,
    "sums in a dict, beside a class that adds in its own way": """
        class Vector:
            def __iadd__(self, other):
                self.x += other
                return self

        def train(model, loader, optimizer):
            totals = {"loss": 0.0}
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                totals["loss"] += loss  # !
            return totals
    """,
    "the terms of each batch, over all batches": """
        def validate(model, val_loader):
            model.eval()
            total = 0
            for x, y in val_loader:
                out = model(x)
                losses = {"l1": F.l1_loss(out, y), "l2": F.mse_loss(out, y)}
                for name in losses.keys():
                    total = total + losses[name]  # !
            print(total.item())
    """,
    "a step that is told to train": """
        class Trainer:
            def __init__(self, net, optimizer):
                self.net, self.optimizer = net, optimizer

            def step(self, x, y, val):
                if not val:
                    loss = F.cross_entropy(self.net(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    return loss
                with torch.no_grad():
                    return F.cross_entropy(self.net(x), y)

            def train(self, loader):
                total = 0
                for x, y in loader:
                    total += self.step(x, y, val=False)  # !
                return total / len(loader)
    """,
    "a flag that is bound anew": """
        def batch(net, x, y, trains, optimizer):
            trains = trains and optimizer is not None
            if not trains:
                with torch.no_grad():
                    return F.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        def train(net, loader, optimizer):
            total = 0
            for x, y in loader:
                total += batch(net, x, y, True, optimizer)  # !
            return total / len(loader)
    """,
    "distances between words of an embedding that learns": """
        class Distance(nn.Module):
            def __init__(self, weights):
                super().__init__()
                self.words = nn.Embedding.from_pretrained(weights, freeze=False).to("cpu")

            def evaluate(self, loader):
                self.eval()
                total = 0.0
                for x, y in loader:
                    total += F.cosine_similarity(self.words(x), self.words(y)).mean()  # !
                return total.item()
    """,
}

CLEAN = {
    "methods of an object that cannot be read, named as classes are": """
        from project.measures import Metric

        def train(model, loader, optimizer, scale):
            metric = Metric(4)
            overlap = recall = hits = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                out = model(x)
                F.cross_entropy(out, y).backward()
                optimizer.step()
                overlap += metric.Dice(out, y)
                found = metric.Sensitivity(out, y)
                recall += found
                hits += scale.Within(out, y)
            return overlap, recall, hits
    """,
    "functions of a module of measures that cannot be read": """
        from project import metrics

        def train(model, loader, optimizer):
            overlap = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                out = model(x)
                F.cross_entropy(out, y).backward()
                optimizer.step()
                overlap += metrics.Dice(out, y)
            return overlap
    """,
    "a generator, which cannot be added to a number": """
        class Model:
            def parts(self, probs, y, criterion):
                for p in probs:
                    yield criterion(p, y)

        def train(net, loader, optimizer, criterion):
            model, total = Model(), 0
            for x, y in loader:
                out = net(x)
                optimizer.zero_grad()
                criterion(out, y).backward()
                optimizer.step()
                total += model.parts(out, y, criterion)
            return total
    """,
    "a number where there is no such loss": """
        class Learner:
            def train(self, loader, optimizer):
                kept, total = 0.0, 0.0
                for x, y in loader:
                    out = self.net(x)
                    loss = F.cross_entropy(out, y)
                    distilled = 0.0
                    if self.old is not None:
                        with torch.no_grad():
                            before = self.old(x)
                        distilled = F.mse_loss(out, before) * self.factor
                    loss = loss + distilled
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    kept += (distilled.item() if self.task != 0 else distilled)
    """,
    "the other way around, and from the device": """
        def train(net, loader, optimizer, regularizes, warm):
            total = 0.0
            for x, y in loader:
                out = net(x)
                loss = F.cross_entropy(out, y)
                if regularizes:
                    penalty = out.pow(2).mean()
                else:
                    penalty = 0
                optimizer.zero_grad()
                (loss + penalty).backward()
                optimizer.step()
                total += penalty if not warm else penalty.detach().cpu().item()
    """,
    "an attribute that is a number at first": """
        class Learner:
            def train(self, loader, optimizer):
                total = 0.0
                for x, y in loader:
                    self.extra = 0.0
                    out = self.net(x)
                    if self.uses_extra:
                        self.extra = out.abs().mean()
                    loss = F.cross_entropy(out, y) + self.extra
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    total += self.extra.item() if self.uses_extra else self.extra
    """,
    "item": """
        def train(model, loader, optimizer):
            total = 0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
    """,
    "detach and the chain of methods": """
        def train(model, loader, optimizer):
            total = 0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.detach().cpu().float() * x.size(0)
    """,
    "float": """
        def train(model, loader, optimizer):
            total = 0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                total += float(loss)
    """,
    "data": """
        def train(model, loader, optimizer):
            total = 0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.data
    """,
    "sum of the losses of one step": """
        def train(model, loader, optimizer):
            for x, ys in loader:
                optimizer.zero_grad()
                outs = model(x)
                loss = 0
                for out, y in zip(outs, ys):
                    loss += F.cross_entropy(out, y)
                loss.backward()
                optimizer.step()
    """,
    "accumulated, backpropagated and reset": """
        def train(model, loader, optimizer):
            acc = 0
            optimizer.zero_grad()
            for i, (x, y) in enumerate(loader):
                acc = acc + F.cross_entropy(model(x), y)
                if (i + 1) % 4 == 0:
                    acc.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    acc = 0
    """,
    "one backward after the loop": """
        def closure(model, loader, optimizer):
            optimizer.zero_grad()
            total = 0
            for x, y in loader:
                total += F.mse_loss(model(x), y)
            total.backward()
            optimizer.step()
    """,
    "returned to a caller that calls backward": """
        def total_loss(model, tasks):
            total = 0
            for x, y in tasks:
                total += F.mse_loss(model(x), y)
            return total

        def train(model, tasks, optimizer):
            for _ in range(100):
                optimizer.zero_grad()
                loss = total_loss(model, tasks)
                loss.backward()
                optimizer.step()
    """,
    "no_grad around the evaluation": """
        def validate(model, loader):
            model.eval()
            total = 0
            with torch.no_grad():
                for x, y in loader:
                    total += F.cross_entropy(model(x), y)
            return total
    """,
    "no_grad as a decorator without parentheses": """
        @torch.no_grad
        def validate(model, loader):
            model.eval()
            total = 0
            for x, y in loader:
                total += F.cross_entropy(model(x), y)
            return total
    """,
    "added outside of no_grad, made inside": """
        def validate(model, loader):
            model.eval()
            total = 0
            for x, y in loader:
                with torch.inference_mode():
                    loss = F.cross_entropy(model(x), y)
                total += loss
            return total
    """,
    "the caller holds no_grad": """
        def run_epoch(model, loader):
            total = 0
            for x, y in loader:
                total += F.cross_entropy(model(x), y)
            return total

        def main(model, val_loader):
            model.eval()
            with torch.no_grad():
                print(run_epoch(model, val_loader))
    """,
    "a helper that returns a number": """
        def step(model, x, y, optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.item(), (model(x).argmax(1) == y).sum()

        def train(model, loader, optimizer):
            total, correct = 0, 0
            for x, y in loader:
                loss, hits = step(model, x, y, optimizer)
                total += loss
                correct += hits
    """,
    "correct predictions": """
        def train(model, loader, optimizer):
            correct = 0
            for x, y in loader:
                optimizer.zero_grad()
                out = model(x)
                loss = F.cross_entropy(out, y)
                loss.backward()
                optimizer.step()
                _, predicted = torch.max(out, 1)
                correct += (predicted == y).sum()
                correct += out.max(1)[1].eq(y).sum()
                correct += (out > 0.5).float().sum()
    """,
    "a count beside the loss": """
        def train(model, loader, optimizer):
            seen, right = 0, 0
            for batch in loader:
                optimizer.zero_grad()
                loss, datapoint_count = model(batch)
                loss.backward()
                optimizer.step()
                seen += datapoint_count
                criterion_loss, accuracy = criterion(loss, batch)
                right += accuracy
    """,
    "something else entirely": """
        def train(model, loader, optimizer, env):
            reward_sum, steps = 0, 0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                state, reward, done, _ = env.step(0)
                reward_sum += reward
                steps += x.size(0)
    """,
    "truncated: reset every k steps": """
        def train(model, loader, optimizer):
            loss = 0
            for i, (x, y) in enumerate(loader):
                loss += F.cross_entropy(model(x), y)
                if i % 10 == 9:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    loss = torch.zeros(1)
    """,
    "unrolled over time": """
        def train(cell, loader, optimizer, hidden_size):
            for seq, targets in loader:
                optimizer.zero_grad()
                h = torch.zeros(seq.size(1), hidden_size)
                loss = 0
                for t in range(seq.size(0)):
                    h = cell(seq[t], h)
                    loss = loss + F.mse_loss(h, targets[t])
                loss.backward()
                optimizer.step()
    """,
    "tensorflow": """
        import tensorflow as tf

        def fit(ds):
            total = 0
            for x in ds:
                total += x
    """,
    "meta learning": """
        def outer(net, tasks, meta_opt):
            meta_opt.zero_grad()
            meta_loss = 0.0
            for task in tasks:
                loss = F.mse_loss(net(task.x), task.y)
                grads = torch.autograd.grad(loss, net.parameters(), create_graph=True)
                fast = [p - 0.1 * g for p, g in zip(net.parameters(), grads)]
                meta_loss += F.mse_loss(net(task.qx, fast), task.qy)
            meta_loss.backward()
            meta_opt.step()
    """,
    "the rounds of one batch": """
        def train(generator, critic, loader, optimizer, rounds):
            for real in loader:
                total = 0.0
                for _ in range(rounds):
                    optimizer.zero_grad()
                    loss = critic(generator(real).detach()).mean() - critic(real).mean()
                    loss.backward()
                    optimizer.step()
                    total += loss
                print(total.item() / rounds)
    """,
    "several losses of one forward, beside a teacher in evaluation mode": """
        class Distilled(nn.Module):
            def __init__(self, teacher, student, losses):
                super().__init__()
                self.teacher, self.student, self.losses = teacher, student, nn.ModuleList(losses)

            def forward(self, x):
                self.teacher.eval()
                taught, said = self.teacher(x), self.student(x)
                loss = 0
                for each in self.losses:
                    loss += each(taught, said)
                return loss, said.argmax(1)
    """,
    "a penalty of second order, in a loss that Lightning takes": """
        import pytorch_lightning as pl

        class Flow(pl.LightningModule):
            def penalty(self, points):
                total = 0.0
                for point in points:
                    jacobian = torch.autograd.functional.jacobian(self.net, point, create_graph=True)
                    total += torch.exp(torch.diagonal(jacobian, 0))
                return total / len(points)

            def training_step(self, batch, batch_idx):
                return self.penalty(batch).mean()
    """,
    "the terms of one batch": """
        def report(model, loader, optimizer):
            for x, y in loader:
                out = model(x)
                losses = {"l1": F.l1_loss(out, y), "l2": F.mse_loss(out, y)}
                optimizer.zero_grad()
                losses["l1"].backward(retain_graph=True)
                losses["l2"].backward()
                optimizer.step()
                loss = 0
                for name in losses.keys():
                    loss = loss + losses[name]
                print(loss.item())
    """,
    "a number, scaled by what the command line says": """
        import argparse

        def multilabel(logits, labels, normalization):
            losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
            return losses.sum() / len(labels) if normalization == "batch" else losses.mean()

        def main(loader, build):
            parser = argparse.ArgumentParser()
            parser.add_argument("--accumulate", type=int, default=1)
            args = parser.parse_args()
            network = build(args)
            optimizer = torch.optim.Adam(network.parameters())
            running = 0.0
            for step, batch in enumerate(loader):
                images, labels = batch["images"].to(args.device), batch["labels"].to(args.device)
                loss = multilabel(network(images), labels, args.normalization) / args.accumulate
                loss.backward()
                running += float(loss.detach()) * args.accumulate * images.shape[0]
                optimizer.step()
                optimizer.zero_grad()
            print(running)
    """,
    "a step that is told not to train": """
        class Trainer:
            def __init__(self, net, optimizer):
                self.net, self.optimizer = net, optimizer

            def step(self, x, y, val):
                if not val:
                    loss = F.cross_entropy(self.net(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    return loss
                with torch.no_grad():
                    return F.cross_entropy(self.net(x), y)

            def validate(self, loader):
                total = 0
                self.net.eval()
                for x, y in loader:
                    total += self.step(x, y, val=True)
                return total / len(loader)
    """,
    "a phase by its name": """
        def batch(net, x, y, phase):
            if phase == "train":
                return F.mse_loss(net(x), y)
            with torch.no_grad():
                return F.mse_loss(net(x), y)

        def validate(net, loader):
            total = 0
            for x, y in loader:
                total += batch(net, x, y, "val")
            return total / len(loader)
    """,
    "a sum that a caller may want, by what it says about the graphs": """
        class Learner:
            def __init__(self, net, steps, keeps):
                self.net, self.steps, self.keeps = net, steps, keeps

            def unroll(self, x, update):
                total = 0
                for i in range(self.steps):
                    loss = self.net(x).mean()
                    total += loss
                    loss.backward(retain_graph=self.keeps)
                    update(self.net)
                return total

        def learn(learner, optimizer, x, update):
            for epoch in range(100):
                optimizer.zero_grad()
                learner.unroll(x, update).backward()
                optimizer.step()
    """,
    "distances between words of a frozen embedding": """
        class Distance(nn.Module):
            def __init__(self, weights):
                super().__init__()
                self.words = nn.Embedding.from_pretrained(weights, freeze=True).to("cpu")

            def evaluate(self, loader):
                self.eval()
                total = 0.0
                for x, y in loader:
                    total += F.cosine_similarity(self.words(x), self.words(y)).mean()
                return total.item()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name])


def test_bytes_decide_the_severity() -> None:
    """After backward only nodes stay (FACTS: 0.8 KB each); in an evaluation everything does."""
    (after_backward,) = findings(FLAGGED["augmented"], CODE)
    (evaluation,) = findings(FLAGGED["validation without no_grad"], CODE)
    assert after_backward.severity is Severity.WARNING
    assert "the graph's nodes" in after_backward.message
    assert evaluation.severity is Severity.ERROR
    assert "saved for backward" in evaluation.message


def test_fix_detaches_the_added_value() -> None:
    (finding,) = findings(FLAGGED["augmented"], CODE)
    assert finding.fix is not None
    assert finding.fix.safe
    assert [e.text for e in finding.fix.edits] == ["loss.detach()"]
    assert finding.related


TRIED = """
                    logs[k] = logs[k].view(-1)
                    logs[k] = logs[k].data.cpu().numpy()
                """.removeprefix("\n")
LOGS_REPLACED = """
    def train(net, losses_of, loader, optimizer):
        total = 0.0
        for x in loader:
            logs = {{"loss": net(x).mean(), "penalty": net(x).pow(2).mean()}}
            optimizer.zero_grad()
            logs["loss"].backward()
            optimizer.step()
            {}
            total += logs["penalty"]{}
        return total
"""


@pytest.mark.parametrize(
    "loop",
    [
        "for k, v in logs.items(): logs[k] = v.item()",
        "for k in logs: logs[k] = logs[k].item()",
        "for k in list(logs.keys()): logs[k] = float(logs[k])",
        "for k, v in sorted(logs.items()): logs[k] = v.detach()",
        "for i, (k, v) in enumerate(logs.items()):\n                logs[k] = v.item()\n"
        "                if k == 'loss':\n                    continue\n                print(k, v)",
        "for k, v in logs.items():\n                if torch.is_tensor(v):\n                    logs[k] = v.item()",
        "for k, v in logs.items():\n                if hasattr(v, 'item'):\n                    logs[k] = v.item()",
        "for k, v in logs.items():\n                v = v.detach()\n                logs[k] = v / 4",
        "for k in logs:\n                logs[k] = logs[k].view(-1)\n                logs[k] = logs[k].mean().item()",
        f"for k in logs:\n                try:\n{TRIED}except AttributeError:\n                    continue",
        f"for k in logs:\n                try:\n{TRIED}except (AttributeError, TypeError):\n                    pass",
        f"for k in logs:\n                try:\n{TRIED}except TypeError as error:\n                    pass",
    ],
)
def test_what_a_loop_puts_in_the_place_of_each_entry(loop: str) -> None:
    assert_clean(LOGS_REPLACED.format(loop, ""), "GG103")


@pytest.mark.parametrize(
    "loop",
    [
        "for k, v in logs.items(): logs[k] = v * 2",
        "for k, v in logs.items(): other[k] = v.item()",
        "for k, v in logs.items(): logs[0] = v.item()",
        "for k, v in other.items(): logs[k] = v.item()",
        "for k, v in logs.items():\n                if k == 'penalty':\n                    continue\n"
        "                logs[k] = v.item()",
        "for k, v in logs.items():\n                logs[k] = v.item()\n                if k == 'loss':\n"
        "                    break",
        "for k, v in logs.items():\n                if k == 'loss':\n                    logs[k] = v.item()",
        "for k, v in logs.items():\n                logs[k] = v.item()\n                logs[k] = v / 4",
        f"for k in logs:\n                try:\n{TRIED}except ValueError:\n                    continue",
        f"for k in logs:\n                try:\n{TRIED}except Exception:\n                    pass",
        f"for k in logs:\n                try:\n{TRIED}except:\n                    pass",
        "for k in logs:\n                try: print(k)\n                except AttributeError: logs[k] = 0.0",
    ],
)
def test_what_a_loop_replaces_of_some_entries_only(loop: str) -> None:
    assert_flagged(LOGS_REPLACED.format(loop, "  # !"), "GG103")


def test_what_a_loop_puts_in_the_place_of_each_element_of_a_list() -> None:
    assert_clean(
        """
        def train(net, loader, optimizer):
            total = 0.0
            for x in loader:
                parts = [net(x).mean(), net(x).sum()]
                optimizer.zero_grad()
                parts[0].backward()
                optimizer.step()
                for i in range(len(parts)):
                    parts[i] = parts[i].item()
                total += parts[1]
            return total
    """,
        "GG103",
    )


@pytest.mark.parametrize(
    "call", ["total.add(loss)", "total.addcmul(loss, weight)", "torch.addcdiv(total, loss, weight)"]
)
def test_sums_that_a_method_makes(call: str) -> None:
    snippet = """
        def train(net, loader, optimizer, weight):
            total = torch.zeros(())
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total = {}
            return total.item()
    """
    assert_flagged(snippet.format(f"{call}  # !"), CODE)
    assert_clean(snippet.format(call.replace("loss", "loss.detach()")), CODE)


BUNDLE = """
        class Bundle:
            def __init__(self, **losses):
                self.total = sum(losses.values())
                self.numbers = {{name: loss.item() for name, loss in losses.items()}}

            def __truediv__(self, n):
                self.total = self.total / n
                return self

        def train(component: nn.Module, optimizer, loader):
            seen, total = defaultdict(float), 0.0
            for batch in loader:
                optimizer.zero_grad()
                losses = component.compute_loss(batch){divided}
                losses.total.backward()
                optimizer.step()
                {kept}
"""


@pytest.mark.parametrize("divided", ["", " / 4", " * 0.25"])
def test_what_else_an_object_with_a_loss_has_is_not_known(divided: str) -> None:
    named = "for name, value in losses.numbers.items(): seen[name] += value / 100"
    assert_clean(BUNDLE.format(divided=divided, kept=named))
    assert_clean(BUNDLE.format(divided=divided, kept="total += losses.count"))


@pytest.mark.parametrize("divided", ["", " / 4"])
def test_the_loss_of_an_object_is_one(divided: str) -> None:
    assert_flagged(BUNDLE.format(divided=divided, kept="total += losses.total  # !"), CODE)
    assert_flagged(BUNDLE.format(divided=divided, kept="seen['total'] += 2 * losses.total  # !"), CODE)


@pytest.mark.parametrize("part", ["losses.mean()", "losses.T.sum()", "losses.real", "losses[0]"])
def test_a_tensor_that_was_divided_stays_one(part: str) -> None:
    text = BUNDLE.replace("losses.total.backward()", "losses.sum().backward()")
    assert_flagged(text.format(divided=" / 4", kept=f"total += {part}  # !"), CODE)


PENALIZED = """
        from agents import AGENTS, build

        class Plain:
            def __init__(self):
                self.loss = 0.0

            def log(self, n):
                print(n, self.loss)

        def train(args, loader, kept):
            agent = {made}
            for i, batch in enumerate(loader):
                {before}
                for name, p in agent.net.named_parameters():
                    agent.loss += 0.5 * (p - kept[name]).pow(2).sum(){mark}
                {after}
"""


@pytest.mark.parametrize("made", ["AGENTS[args.name](args)", "globals()[args.name](args)", "build(args)"])
@pytest.mark.parametrize(
    ("before", "after"),
    [("agent.train(), agent.collect(batch)", "agent.learn(clip=1.0)"), ("agent.train()", "agent.optimize()")],
)
def test_an_object_that_only_the_run_knows_may_use_what_it_is_given(made: str, before: str, after: str) -> None:
    text = PENALIZED.format(made=made, before=before, after=after, mark="")
    assert_clean(text, confidence=Confidence.LOW)


@pytest.mark.parametrize(
    ("made", "before", "after"),
    [
        ("build(args)", "pass", "agent.eval()"),
        ("build(args)", "agent.train()", "print(args.name, len(batch))"),
        ("build(args)", "agent.train(), args.logger.step(i)", "pass"),
        ("Plain()", "pass", "agent.log(i)"),
    ],
)
def test_an_object_that_uses_nothing_keeps_what_it_is_given(made: str, before: str, after: str) -> None:
    text = PENALIZED.format(made=made, before=before, after=after, mark="  # !")
    assert_flagged(text, CODE, Confidence.LOW)


def test_a_graph_that_backward_freed_is_of_no_use_to_an_object() -> None:
    assert_flagged(
        """
        from agents import build

        def train(args, net, loader, optimizer):
            watch = build(args)
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                watch.total += loss  # !
                watch.report(x)
        """,
        CODE,
    )


REWARDS = """
        import gym

        class World:
            def __init__(self):
                self.inner = gym.make("Pole-v1")
                self.earned = 0

            def act(self, action):
                state, reward, done, _ = self.inner.step(action)
                self.earned += reward
                return state, reward

        class Worker:
            def __init__(self, model, optimizer):
                self.model, self.optimizer, self.world = model, optimizer, World()
                self.earned = 0

            def work(self):
                while True:
                    loss = self.rollout()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.earned += {added}  # !

            def rollout(self):
                state, gains, values = self.world.inner.reset(), [], []
                for _ in range(20):
                    value = self.model(torch.as_tensor(state))
                    state, reward = self.world.act(value.argmax().item())
                    gains.append(reward)
                    values.append(value)
                returns, loss = torch.zeros(1), 0.0
                for gain, value in zip(reversed(gains), reversed(values)):
                    returns = 0.9 * returns + gain
                    loss = loss + (returns - value).pow(2)
                return loss
"""


@pytest.mark.parametrize("added", ["self.world.earned", "loss.item()", "1"])
def test_what_a_loss_is_compared_with_is_not_shown_to_have_a_graph(added: str) -> None:
    assert_clean(twin(REWARDS.format(added=added)))


@pytest.mark.parametrize("added", ["loss", "loss * self.world.earned", "-loss"])
def test_a_loss_that_is_compared_with_rewards_has_one(added: str) -> None:
    assert_flagged(REWARDS.format(added=added), CODE)


DESCENT = """
    class Adapted(nn.Module):
        def __init__(self, settings):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(4, 8)
            self.settings, self.rate = settings, 0.1

        def adapt(self, x, y, rate):
            code = self.encoder(x)
            first = code
            for _ in range(5):
                code.retain_grad()
                loss = F.mse_loss(self.decoder(code), y)
                loss.backward(retain_graph=True)
                {step}{mark}
            {end}
"""
STEPS = (
    "code = code - 0.1 * code.grad",
    "code = code - self.rate * code.grad",
    "code = code - rate * code.grad.sign()",
    'code = code - self.settings["rate"] * code.grad',
    "code = code.sub(rate * code.grad)",
    "code = torch.sub(code, rate * code.grad)",
    "code = code + -rate * code.grad.data",
    "code -= rate * code.grad",
)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("end", ["return code", "return code, F.mse_loss(first, code)", "return self.decoder(code)"])
def test_a_descent_that_the_caller_backpropagates_through(step: str, end: str) -> None:
    assert_clean(DESCENT.format(step=step, end=end, mark=""))


@pytest.mark.parametrize(
    ("step", "end"),
    [
        ("code = code - rate * code.grad", "return loss.item()"),
        ("code = code - rate * loss", "return code"),
        ("code = code - rate * code.grad * self.decoder(code).mean()", "return code"),
        ("code = code - rate * code.grad", "print(code)"),
    ],
)
def test_a_descent_that_keeps_more(step: str, end: str) -> None:
    assert_flagged(DESCENT.format(step=step, end=end, mark="  # !"), CODE)


OF_LAYERS = """
        def validate(net, loader):
            net.eval()
            total = 0.0
            seen = []
            for x, y in loader:
                out, states = net(x)
                gap = 0.0
                for u in range(len(states)):
                    gap += ADDED  # !
                seen.append(gap.item())
            return seen
"""
GAP = "F.kl_div(states[u], states[u].detach()).mean()"


@pytest.mark.parametrize("edit", [("gap = 0.0", "gap = 0.0"), ("total = 0.0", "gap = 0.0"), ("gap +=", "gap = gap +")])
def test_a_sum_over_parts_of_what_was_made_of_one_batch(edit: tuple[str, str]) -> None:
    assert_clean(twin(OF_LAYERS, ("ADDED", GAP), edit), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("                gap = 0.0\n", ""),
        (GAP, "F.mse_loss(net(x[u]), y[u])"),
        ("in range(len(states))", "in loader"),
        ("for x, y in loader:", "x, y = next(iter(loader))\n            for _ in range(3):"),
    ],
)
def test_a_sum_of_more_than_what_was_made_of_one_batch(edit: tuple[str, str]) -> None:
    snippet = OF_LAYERS.replace("total = 0.0", "gap = 0.0").replace("ADDED", GAP)
    assert_flagged(snippet.replace(*edit), CODE)


@pytest.mark.parametrize(
    "shown",
    [
        "print((total := total + loss).item())",
        "if (total := total + loss) > 9: print(step)",
        "log((total := loss + total))",
    ],
)
def test_a_sum_that_is_bound_within_an_expression(shown: str) -> None:
    assert_flagged(WALRUS.format(shown=shown + "  # !"), CODE)


@pytest.mark.parametrize(
    "shown",
    [
        "print((total := total + loss.item()))",
        "print((shown := total + loss).item())",
        "if (value := loss.item()) > total: total = value",
        "total = 0.0; print((total := total + loss).item())",
    ],
)
def test_a_number_or_another_value_that_is(shown: str) -> None:
    assert_clean(WALRUS.format(shown=shown), CODE)


WALRUS = """
        def train(model, optimizer, loader):
            total = 0.0
            for step, x in enumerate(loader):
                optimizer.zero_grad()
                (loss := model(x).square().mean()).backward()
                optimizer.step()
                {shown}
"""


@pytest.mark.parametrize("name", ["crit", "self.crit", "criterion", "loss_fn"])
def test_a_criterion_under_a_short_name(name: str) -> None:
    assert_flagged(
        f"""
    def measure(self, net, loader, crit, criterion, loss_fn):
        total = 0
        for x, y in loader:
            total += {name}(net(x), y)  # !
        return total.item() / len(loader)
    """,
        CODE,
    )


def test_a_critic_is_no_criterion() -> None:
    assert_clean(
        """
    def measure(critic, loader):
        with torch.no_grad():
            total = 0
            for x, y in loader:
                total += critic(x, y)
        return total.item()
    """,
        CODE,
    )


ADAPTS = """
    def evaluate(learner, tasks, args, count):
        for xs, ys, query in tasks:
            for i in range(len(xs)):
                tuned = dict()
                for name, weight in learner.named_parameters():
                    tuned[name] = weight.clone()
                for step in range(count):
                    loss = F.cross_entropy(learner(xs[i], tuned), ys[i])
                    grads = torch.autograd.grad(loss, tuned.values())
                    for name, grad in zip(tuned.keys(), grads):
                        tuned[name] = tuned[name] - {added}
                print(learner(query[i], tuned).argmax(1))
"""


@pytest.mark.parametrize("added", ["args.lr * grad", "0.01 * grad", "count * grad", "grad * args.lr / count"])
def test_weights_that_begin_anew_for_each_task_and_get_a_node_a_step(added: str) -> None:
    assert_clean(ADAPTS.format(added=added), CODE)


def test_weights_of_a_task_that_keep_the_graphs_of_all_steps() -> None:
    assert_flagged(ADAPTS.format(added="args.lr * grad * loss  # !"), CODE)


DECLARED = """
    class Objective(nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = weight

        def forward(self, out, target):
            raise NotImplementedError

    class Squared(Objective):
        def forward(self, out, target):
            loss = self.weight * ((out - target) ** 2).mean()
            return loss, {{"squared": {shown}}}

    def train(net, criterion: Objective, loader, optimizer):
        sums = defaultdict(float)
        for x, y in loader:
            loss, terms = criterion(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for name in terms:
                sums[name] += terms[name]{mark}
        return sums
"""


@pytest.mark.parametrize("shown", ["loss.item()", "loss.detach().cpu().numpy()", "float(loss)"])
def test_what_heirs_of_a_class_that_only_declares_it_give_as_numbers(shown: str) -> None:
    assert_clean(DECLARED.format(shown=shown, mark=""), CODE)


def test_what_heirs_of_a_class_that_only_declares_it_give_with_a_graph() -> None:
    assert_flagged(DECLARED.format(shown="loss", mark="  # !"), CODE)

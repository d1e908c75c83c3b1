from __future__ import annotations

import pytest

from gradguard.findings import Confidence, Leak
from gradguard.join import with_rule
from tests.rules.snippets import assert_clean, assert_flagged, findings

CODE = "GG409"

JUDGE = """
        class Judge:
            def __init__(self):
                self.kept = []

            @torch.no_grad()
            def observe(self, scores):
                self.kept.append(scores.detach())  # MARK

            def report(self):
                return torch.cat(self.kept).mean()
"""
RUN = (
    JUDGE
    + """
        def run(model, frames, lr):
            model.cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=lr)
            judge = Judge()
            for x, y in frames:
                out = model(x.cuda())
                judge.observe(out)
                optimizer.zero_grad()
                F.cross_entropy(out, y.cuda()).backward()
                optimizer.step()
            print(judge.report())
"""
)
TRAINER = """
        class Trainer:
            def __init__(self, model):
                self.model = model.cuda()
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.seen = []

            def fit(self, loader, epochs):
                for epoch in range(epochs):
                    START
                    for x, y in loader:
                        out = self.model(x.cuda())
                        self.optimizer.zero_grad()
                        F.cross_entropy(out, y.cuda()).backward()
                        self.optimizer.step()
                        self.seen.append(KEPT)  # MARK
"""
EPOCH = """
        def epoch(model, loader, optimizer):
            model.cuda()
            seen = []
            for x, y in loader:
                out = model(x.cuda())
                optimizer.zero_grad()
                F.cross_entropy(out, y.cuda()).backward()
                optimizer.step()
                seen.append(out.detach())
            return torch.cat(seen)
"""

# What shows without being asked for.
OF_TRAINING = {
    "told to an object": RUN.replace("MARK", "!"),
    "kept in the trainer": TRAINER.replace("START", "print(epoch)")
    .replace("KEPT", "out.detach()")
    .replace("MARK", "!"),
    "kept over all epochs": EPOCH.replace("for x, y in loader", "for _ in range(9):\n              for x, y in loader")
    .replace("                ", "                    ")
    .replace("seen.append(out.detach())", "seen.append(out.detach())  # !"),
}

BATCHES = """
        def fit(net, loader, lr):
            dev = torch.device("cuda")
            net.to(dev)
            optimizer = torch.optim.SGD(net.parameters(), lr=lr)
            hardest = []
            for epoch in range(20):
                for feats, labels in loader:
                    feats, labels = feats.to(dev, non_blocking=True), labels.to(dev)
                    scores = net(feats)
                    loss = F.cross_entropy(scores, labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    hardest.append(KEPT)MARK
                    END
            return hardest
"""
STATS = """
        class Stats:
            def __init__(self):
                self.rows = []

            def add(self, rows):
                kept = rows.clone()
                self.rows.append(kept)MARK

            def drop(self):
                DROP

        class Trainer:
            def __init__(self, net, optimizer):
                self.net, self.optimizer, self.stats = net.cuda(), optimizer, Stats()

            def step(self, x, y):
                out = self.net(x.cuda())
                self.optimizer.zero_grad()
                F.mse_loss(out, y.cuda()).backward()
                self.optimizer.step()
                self.stats.add(GIVEN)

            def fit(self, loader):
                for x, y in loader:
                    self.step(x, y)
                    END
"""
POOL = """
        class Pool:
            def __init__(self, size):
                self.size, self.images = size, []

            def query(self, batch):
                for image in batch.detach().unsqueeze(1).unbind(0):
                    self.images.append(image.clone())MARK
                TRIM
                return torch.stack(random.sample(self.images, self.size))

        def train(net, loader):
            net.cuda()
            pool = Pool(50)
            optimizer = torch.optim.Adam(net.parameters())
            for x, y in loader:
                fake = net(x.cuda())
                optimizer.zero_grad()
                F.mse_loss(fake, y.cuda()).backward()
                optimizer.step()
                print(pool.query(fake).mean())
"""
VALIDATED = """
        class Runner:
            def __init__(self, net, loader, held_out):
                self.net, self.loader, self.held_out = net.cuda(), loader, held_out
                self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
                self.scores = []

            @torch.no_grad()
            def validate(self):
                BEGIN
                for x, y in self.held_out:
                    self.scores.append(KEPT)MARK
                return torch.cat(self.scores).mean()

            def fit(self, epochs):
                for epoch in range(epochs):
                    for x, y in self.loader:
                        loss = F.cross_entropy(self.net(x.cuda()), y.cuda())
                        self.optimizer.zero_grad()
                        loss.backward()
                        self.optimizer.step()
                    print(self.validate())
                    END
"""


def told(code: str, **words: str) -> str:
    """A program with some words replaced; those that are not named by nothing that matters."""
    for word, instead in ({"MARK": "", "END": "pass", "BEGIN": "pass", "DROP": "pass", "TRIM": "pass"} | words).items():
        code = code.replace(word, instead)
    return code


@pytest.mark.parametrize(
    "code",
    [
        told(BATCHES, KEPT="(loss.item(), feats, labels)", MARK="  # !"),
        told(BATCHES, KEPT="feats", MARK="  # !"),
        told(BATCHES, KEPT="{'x': feats, 'at': epoch}", MARK="  # !"),
        told(BATCHES, KEPT="(scores.detach() - F.one_hot(labels)).abs()", MARK="  # !"),
        told(BATCHES, KEPT="scores.detach().float().clone()", MARK="  # !"),
        told(BATCHES, KEPT="feats[feats.sum(1) > 0]", MARK="  # !"),
        told(STATS, GIVEN="out.detach()", MARK="  # !"),
        told(STATS, GIVEN="x.to('cuda:0')", MARK="  # !"),
        told(POOL, MARK="  # !"),
        told(VALIDATED, KEPT="self.net(x.cuda())", MARK="  # !"),
        told(VALIDATED, KEPT="(self.net(x.cuda()).softmax(1), y)", MARK="  # !"),
    ],
)
def test_whole_batches_of_a_training(code: str) -> None:
    assert_flagged(code, CODE)


@pytest.mark.parametrize(
    "code",
    [
        told(BATCHES, KEPT="loss.item()"),
        told(BATCHES, KEPT="loss.detach()"),
        told(BATCHES, KEPT="(loss.item(), feats.cpu(), labels.cpu())"),
        told(BATCHES, KEPT="feats.to('cpu')"),
        told(BATCHES, KEPT="feats.mean()"),
        told(BATCHES, KEPT="scores.detach().argmax(1)"),
        told(BATCHES, KEPT="(scores.detach() - labels).abs().mean()"),
        told(BATCHES, KEPT="scores.detach().norm(dim=1).max()"),
        told(BATCHES, KEPT="len(feats)"),
        told(BATCHES, KEPT="feats.device"),
        told(BATCHES, KEPT="feats", END="hardest = hardest[-8:]"),
        told(BATCHES, KEPT="feats", END="if len(hardest) > 8: del hardest[0]"),
        told(BATCHES, KEPT="feats", END="import random; hardest = random.sample(hardest, 8)"),
        told(BATCHES, KEPT="feats", END="import random; hardest = random.choices(hardest, k=min(8, len(hardest)))"),
        told(BATCHES, KEPT="feats").replace(
            "hardest.append(", "if len(hardest) >= 8: continue\n                    hardest.append("
        ),
        told(BATCHES, KEPT="feats").replace("hardest = []", "hardest = deque(maxlen=8)"),
        told(BATCHES, KEPT="feats").replace(
            "                for feats, labels", "                hardest = []\n                for feats, labels"
        ),
        told(BATCHES, KEPT="feats").replace("hardest.append(", "if epoch == 0 and len(hardest) < 4: hardest.append("),
        told(BATCHES, KEPT="scores").replace(
            "F.cross_entropy(scores, labels)", "scores"
        ),  # a loss that the model gives
        told(BATCHES, KEPT="scores.detach()").replace("F.cross_entropy(scores, labels)", "scores"),
        told(STATS, GIVEN="out.detach().mean()"),
        told(STATS, GIVEN="out.detach().cpu()"),
        told(STATS, GIVEN="out.detach()", END="self.stats.rows.clear()"),
        told(STATS, GIVEN="out.detach()", END="self.stats.drop()", DROP="self.rows = []"),
        told(STATS, GIVEN="out.detach()").replace("self.rows.append(kept)", "self.rows = [kept]"),
        told(STATS, GIVEN="out.detach()").replace(".cuda()", ""),
        told(POOL, TRIM="del self.images[:-self.size]"),
        told(POOL, TRIM="self.images = self.images[-self.size:]"),
        told(VALIDATED, KEPT="self.net(x.cuda())", BEGIN="self.scores = []"),
        told(VALIDATED, KEPT="self.net(x.cuda())", BEGIN="self.scores.clear()"),
        told(VALIDATED, KEPT="self.net(x.cuda())", END="self.scores = []"),
        told(VALIDATED, KEPT="self.net(x.cuda()).argmax(1).cpu()"),
        told(VALIDATED, KEPT="F.cross_entropy(self.net(x.cuda()), y.cuda())"),
    ],
)
def test_whole_batches_that_are_not_kept(code: str) -> None:
    assert_clean(code, CODE)


@pytest.mark.parametrize("count", ["len(hardest)", "100_000"])
def test_whole_batches_that_are_all_drawn(count: str) -> None:
    drawn = f"import random; hardest = random.sample(hardest, {count})"
    assert_flagged(told(BATCHES, KEPT="feats", MARK="  # !", END=drawn), CODE)


OF_TRAINING_CLEAN = {
    "an object of each epoch": RUN.replace("frames, lr)", "frames, optimizer)").replace(
        "optimizer = torch.optim.SGD(model.parameters(), lr=lr)", "print(optimizer)"
    ),
    "on the host": TRAINER.replace("START", "print(epoch)").replace("KEPT", "out.detach().cpu()"),
    "told on the host": RUN.replace("scores.detach()", "scores.detach().cpu()"),
    "classes": TRAINER.replace("START", "print(epoch)").replace("KEPT", "out.argmax(1)"),
    "losses": TRAINER.replace("START", "print(epoch)").replace("KEPT", "F.cross_entropy(out, y.cuda()).detach()"),
    "begun anew": TRAINER.replace("START", "self.seen = []").replace("KEPT", "out.detach()"),
    "emptied": TRAINER.replace("START", "self.seen.clear()").replace("KEPT", "out.detach()"),
    "the last hundred": TRAINER.replace("START", "print(epoch)")
    .replace("self.seen = []", "self.seen = deque(maxlen=100)")
    .replace("KEPT", "out.detach()"),
    "of one epoch": EPOCH,
    "of one epoch, item by item": EPOCH.replace(
        "seen.append(out.detach())", "for row in out.detach().split(2): seen.append(row)"
    ),
    "of one epoch, by name": EPOCH.replace("seen = []", "seen = {'out': []}")
    .replace("seen.append(out.detach())", "for name, value in {'out': out.detach()}.items(): seen[name].append(value)")
    .replace("torch.cat(seen)", "torch.cat(seen['out'])"),
    "a ring of them": RUN.replace(
        "self.kept.append(scores.detach())",
        "if len(self.kept) < 99: self.kept.append(None)\n                self.kept[self.at] = scores.detach()",
    ),
    "two pools of which one's length is asked": RUN.replace(
        "self.kept.append(scores.detach())",
        "if len(self.kept) < 50:\n                    self.kept.append(scores.detach())\n"
        "                    self.more.append(scores.detach())",
    ).replace("self.kept = []", "self.kept, self.more = [], []"),
    "a pool that gets no larger": RUN.replace(
        "self.kept.append(scores.detach())",
        "if len(self.kept) < 50:\n                    self.kept.append(scores.detach())\n"
        "                else:\n                    self.kept[random.randrange(50)] = scores.detach()",
    ),
    "nothing on a device": TRAINER.replace("START", "print(epoch)")
    .replace("KEPT", "out.detach()")
    .replace(".cuda()", ""),
}

FLAGGED = {
    "outputs": """
        def predict(model, loader, device):
            model.to(device).eval()
            preds = []
            with torch.no_grad():
                for x, _ in loader:
                    preds.append(model(x.to(device)))  # !
            return torch.cat(preds)
    """,
    "decorator, probabilities": """
        @torch.no_grad()
        def evaluate(model, loader):
            model.cuda()
            model.eval()
            probs, labels = [], []
            for x, y in loader:
                logits = model(x.cuda(non_blocking=True))
                probs.append(F.softmax(logits, dim=1))  # !
                labels.append(y)
            return torch.cat(probs).cpu(), torch.cat(labels)
    """,
    "inference mode, detached anyway": """
        def infer(net, test_loader):
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            net = net.to(device)
            outputs = []
            with torch.inference_mode():
                for batch in test_loader:
                    batch = batch.to(device)
                    out = net(batch)
                    outputs += [out.detach()]  # !
            return torch.cat(outputs)
    """,
    "attribute of the evaluator": """
        class Evaluator:
            def __init__(self, model, device):
                self.model, self.device = model.to(device), device
                self.outputs = []

            @torch.no_grad()
            def run(self, loader):
                self.model.eval()
                for x, y in loader:
                    x = x.to(self.device)
                    self.outputs.append(self.model(x))  # !
    """,
    "dict of lists": """
        def evaluate(model, val_loader, device):
            model.eval()
            model.to(device)
            results = {"features": [], "logits": []}
            with torch.no_grad():
                for images, _ in val_loader:
                    feats = model.backbone(images.to(device))
                    results["features"].append(feats)  # !
                    results["logits"].append(model.head(feats))  # !
            return {k: torch.cat(v) for k, v in results.items()}
    """,
    "comprehension": """
        @torch.inference_mode()
        def features(model, loader):
            model = model.eval().cuda()
            return torch.cat([model(x.cuda()) for x, _ in loader])  # !
    """,
    "a helper predicts": """
        def forward(model, batch, device):
            return model(batch.to(device)).sigmoid()

        @torch.no_grad()
        def predict(model, loader):
            device = "cuda:0"
            model.to(device).eval()
            results = []
            for batch in loader:
                results.append(forward(model, batch, device))  # !
            return results
    """,
    "script, in a tuple": """
        model = nn.Linear(8, 2).cuda().eval()
        loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=10)
        kept = []
        with torch.no_grad():
            for i, x in enumerate(loader):
                out = model(x.cuda())
                kept.append((i, out))  # !
        torch.save(kept, "out.pt")
    """,
}

CLEAN = {
    "to the CPU": """
        def predict(model, loader, device):
            model.to(device).eval()
            preds, more = [], []
            with torch.no_grad():
                for x, _ in loader:
                    out = model(x.to(device))
                    preds.append(out.cpu())
                    more.append(out.detach().to("cpu"))
            return torch.cat(preds), more
    """,
    "to the CPU before": """
        @torch.no_grad()
        def predict(model, loader):
            model.cuda().eval()
            preds = []
            for x in loader:
                out = model(x.cuda())
                out = out.sigmoid().cpu()
                preds.append(out)
            return preds
    """,
    "numbers": """
        @torch.no_grad()
        def evaluate(model, loader, device):
            model.to(device).eval()
            losses, preds = [], []
            for x, y in loader:
                out = model(x.to(device))
                losses.append(F.cross_entropy(out, y.to(device)).item())
                preds.extend(out.argmax(1).tolist())
                preds += out.max(1)[1].tolist()
            return losses, preds
    """,
    "arrays": """
        import numpy as np

        @torch.no_grad()
        def embed(model, loader):
            model.cuda().eval()
            rows = []
            for x, _ in loader:
                feats = model(x.cuda())
                rows.append(feats.cpu().numpy())
                rows.append(feats.detach().cpu().float().numpy())
            return np.concatenate(rows)
    """,
    "counts": """
        def accuracy(model, loader, device):
            model.to(device).eval()
            correct = total = 0
            with torch.no_grad():
                for x, y in loader:
                    out = model(x.to(device))
                    correct += (out.argmax(1) == y.to(device)).sum()
                    total += len(y)
            return correct.item() / total
    """,
    "a scalar for each batch": """
        @torch.no_grad()
        def evaluate(model, loader):
            model.cuda().eval()
            scores = []
            for x, y in loader:
                out = model(x.cuda())
                scores.append((out.argmax(1) == y.cuda()).float().mean())
            return torch.stack(scores).mean().item()
    """,
    "metrics": """
        @torch.no_grad()
        def evaluate(model, loader, metric, device):
            model.to(device).eval()
            sums = defaultdict(float)
            for x, y in loader:
                out = model(x.to(device))
                metric.update(out, y.to(device))
                sums["mse"] += F.mse_loss(out, y.to(device)).item()
            return metric.compute(), sums
    """,
    "written for each batch": """
        class Extractor:
            def __init__(self, model):
                self.model = model.cuda().eval()
                self.pending = []

            @torch.no_grad()
            def run(self, loader):
                for i, x in enumerate(loader):
                    self.pending.append(self.model(x.cuda()))
                    torch.save(self.pending, f"{i}.pt")
                    self.pending.clear()
    """,
    "a list of the iteration": """
        @torch.no_grad()
        def predict(model, loader, device):
            model.to(device).eval()
            final = []
            for x in loader:
                views = []
                for flip in (False, True):
                    views.append(model((x.flip(-1) if flip else x).to(device)))
                final.append(torch.stack(views).mean(0).cpu())
            return final
    """,
    "nothing is moved": """
        @torch.no_grad()
        def embed(model, loader):
            model.eval()
            feats = []
            for x, _ in loader:
                feats.append(model(x))
            return torch.cat(feats)
    """,
    "moved to the CPU": """
        def embed(model, loader):
            device = torch.device("cpu")
            model.to(device).eval()
            feats = []
            with torch.no_grad():
                for x, _ in loader:
                    feats.append(model(x.to(device)))
            return torch.cat(feats)
    """,
    "labels that stay where they are": """
        @torch.no_grad()
        def evaluate(model, loader, device):
            model.to(device).eval()
            labels, names, preds = [], [], []
            for x, y, name in loader:
                out = model(x.to(device))
                preds.append(out.argmax(1).cpu())
                labels.append(y)
                names.extend(name)
            return preds, labels, names
    """,
    "bounded": """
        @torch.no_grad()
        def evaluate(model, loader):
            model.cuda().eval()
            recent = deque(maxlen=8)
            shown = []
            for i, (x, _) in enumerate(loader):
                out = model(x.cuda())
                recent.append(out)
                if i == 0:
                    shown.append(out)
            return recent, shown
    """,
    "layers of one batch": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

            @torch.no_grad()
            def trace(self, x):
                self.cuda()
                x, outs = x.cuda(), []
                for layer in self.layers:
                    x = layer(x)
                    outs.append(x)
                return outs
    """,
    "crops of one image": """
        @torch.no_grad()
        def sliding(model, image, device, size=256):
            model.to(device).eval()
            image, rows = image.to(device), []
            for top in range(0, image.shape[-2], size):
                rows.append(model(image[..., top : top + size, :]))
            return torch.cat(rows, dim=-2)
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE, Confidence.LOW)


@pytest.mark.parametrize("name", FLAGGED)
def test_not_said_unless_asked_for(name: str) -> None:
    assert_clean(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE, Confidence.LOW)


@pytest.mark.parametrize("name", OF_TRAINING)
def test_of_training(name: str) -> None:
    assert_flagged(OF_TRAINING[name], CODE)


@pytest.mark.parametrize("name", OF_TRAINING_CLEAN)
def test_of_training_clean(name: str) -> None:
    assert_clean(OF_TRAINING_CLEAN[name], CODE)


BANK = """
    class Pool(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.size, self.count = size, 0
            self.register_buffer("keys", torch.zeros(0, 8))

        {decorator}
        def push(self, fresh):
            {push}

        def flush(self):
            {flush}

    def train(net, slow_net, loader, optimizer, epochs):
        pool = Pool(256)
        bank = torch.zeros(0, 8)
        criterion = nn.CrossEntropyLoss()
        for epoch in range(epochs):
            {start}
            for x, y in loader:
                q = net(x)
                with torch.no_grad():
                    k = slow_net(x)
                loss = criterion(q @ pool.keys.t(), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                {step}
"""


def bank(
    *,
    push: str = "pass",
    step: str = "pool.push(k)",
    start: str = "pass",
    decorator: str = "@torch.no_grad()",
    flush: str = "pass",
) -> str:
    return BANK.format(push=push, step=step, start=start, decorator=decorator, flush=flush)


@pytest.mark.parametrize(
    "parts",
    [
        {"push": "self.keys = torch.cat([self.keys, fresh])  # !"},
        {"push": "self.keys = torch.cat((fresh, self.keys), dim=0)  # !", "step": "pool.push(q.detach())"},
        {"push": "self.keys = torch.cat([self.keys, fresh.detach()])  # !", "step": "pool.push(q)", "decorator": ""},
        {"push": "self.keys = torch.vstack([self.keys, fresh]); self.count += len(fresh)  # !"},
        {"push": "new = torch.cat([fresh, -fresh], 1)\n            self.keys = torch.cat([self.keys, new])  # !"},
        {"push": "self.keys = torch.cat([self.keys, torch.cat([fresh, fresh], dim=1)])  # !"},
        {"push": "self.keys = torch.cat([self.keys, fresh.T], dim=1)[-self.size:]  # !"},
        {"push": "self.keys = torch.cat([self.keys, fresh.T], 1)[:self.size]  # !"},
        {"push": "self.keys = torch.cat([self.keys, fresh])[:, -self.size:]  # !"},
        {"push": "self.keys = torch.cat([self.keys, fresh.T], dim=1)[-self.size:].detach()  # !"},
        {"step": "bank = torch.cat([bank, k])  # !"},
        {"step": "bank = torch.concat([bank, q.detach()], 0)  # !"},
        {"step": "with torch.no_grad(): bank = torch.cat((q, bank))  # !"},
    ],
)
def test_a_tensor_that_gets_longer_in_each_step(parts: dict[str, str]) -> None:
    assert_flagged(bank(**parts), CODE)


@pytest.mark.parametrize(
    "parts",
    [
        {"push": "self.keys = torch.cat([self.keys, fresh])[-self.size:]"},
        {"push": "self.keys = torch.cat([self.keys, fresh.T], dim=1)[:, -self.size:]"},
        {"push": "self.keys = torch.cat([self.keys, fresh.T], dim=1)[..., -self.size:]"},
        {"push": "self.keys = torch.cat([self.keys, fresh.T], dim=-1)[:, -self.size:]"},
        {"push": "self.keys = torch.cat([self.keys, fresh.T], axis=1)[:, -self.size:]"},
        {"push": "self.keys = torch.hstack([self.keys, fresh.T])[:, -self.size:]"},
        {"push": "self.keys = torch.cat([self.keys, fresh])[-self.size:].detach()"},
        {"push": "self.keys = torch.cat([self.keys, fresh])[-self.size:, :]"},
        {"push": "self.keys = torch.cat([self.keys, fresh], dim=1)[0, -self.size:]"},
        {"push": "self.keys = torch.cat([self.keys[len(fresh):], fresh])"},
        {"push": "self.keys = torch.cat([self.keys, fresh]); self.keys = self.keys[-self.size:]"},
        {
            "push": "self.keys = torch.cat([self.keys, fresh])\n"
            "            if len(self.keys) > self.size: self.keys = self.keys[-self.size:]"
        },
        {"push": "if len(self.keys) < self.size: self.keys = torch.cat([self.keys, fresh])"},
        {"push": "if self.count > self.size: return\n            self.keys = torch.cat([self.keys, fresh])"},
        {"push": "self.keys = torch.cat([self.keys, fresh])", "start": "pool.flush()", "flush": "self.keys = None"},
        {"push": "rows = torch.cat([self.keys, fresh]); self.keys = rows[-self.size:]"},
        {"push": "new = torch.cat([fresh, fresh], 1); self.keys = torch.cat([self.keys, new])[-self.size:]"},
        {"push": "new = torch.cat([fresh, fresh], 1); self.keys = torch.cat([new, fresh])"},
        {"step": "bank = torch.cat([bank, k])", "start": "bank = torch.zeros(0, 8)"},
        {"step": "bank = torch.cat([bank, k]); bank = bank[-64:]"},
        {"step": "bank = torch.cat([bank, loss.detach().view(1)])"},
        {"step": "bank = torch.cat([bank, loss.detach()[None]])"},
        {"step": "bank = torch.cat([bank, q.detach().mean().view(1)])"},
        {"step": "bank = torch.cat([bank, y])"},
        {"step": "bank = torch.cat([q, k])"},
        {"step": "if epoch == 0: bank = torch.cat([bank, k])"},
    ],
)
def test_a_tensor_that_keeps_its_length_or_is_small(parts: dict[str, str]) -> None:
    assert_clean(bank(**parts), CODE, Confidence.LOW)


KEYED = """
        class Worker:
            def __init__(self, net):
                self.net, self.global_step = net.cuda(), 0
                self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
                self.seen = SEEN

            def step(self, x, y):
                out = self.net(x.cuda())
                self.optimizer.zero_grad()
                F.mse_loss(out, y.cuda()).backward()
                self.optimizer.step()
                self.seen[KEY] = out.detach()MARK
                self.global_step += 1
                END

            def fit(self, loader, epochs):
                for epoch in range(epochs):
                    for batch, (x, y) in enumerate(loader):
                        self.step(x, y)
"""


def test_a_dict_with_a_key_of_each_step() -> None:
    assert_flagged(told(KEYED, SEEN="{}", KEY="self.global_step", MARK="  # !"), CODE)
    assert_flagged(told(KEYED, SEEN="OrderedDict()", KEY="self.global_step", MARK="  # !"), CODE)
    code = told(KEYED, SEEN="{}", KEY="step", MARK="  # !")
    code = code.replace("step(self, x, y)", "step(self, step, x, y)").replace(
        "self.step(x", "self.step(self.global_step, x"
    )
    assert_flagged(code, CODE)


def of_an_epoch(key: str, mark: str = "") -> str:
    """The same, where a step is told the epoch and the number of its batch."""
    code = told(KEYED, SEEN="{}", KEY=key, MARK=mark).replace("step(self, x, y)", "step(self, epoch, batch, x, y)")
    return code.replace("self.step(x", "self.step(epoch, batch, x")


def test_a_dict_whose_keys_have_the_epoch_in_them() -> None:
    assert_flagged(of_an_epoch("epoch, batch", "  # !"), CODE)
    assert_flagged(of_an_epoch("(batch, epoch)", "  # !"), CODE)
    named = of_an_epoch("key", "  # !").replace(
        "out = self.net", "key = (epoch, batch)\n                out = self.net"
    )
    assert_flagged(named, CODE)
    assert_clean(of_an_epoch("batch"), CODE)
    assert_clean(of_an_epoch("epoch"), CODE)
    assert_clean(of_an_epoch("batch, len(y)"), CODE)
    assert_clean(of_an_epoch("epoch % 2, batch"), CODE)


@pytest.mark.parametrize(
    "code",
    [
        told(KEYED, SEEN="{}", KEY="self.global_step % 8"),
        told(KEYED, SEEN="{}", KEY="'last'"),
        told(KEYED, SEEN="{}", KEY="y"),
        told(KEYED, SEEN="[None] * 1000", KEY="self.global_step"),
        told(KEYED, SEEN="torch.zeros(1000, 8)", KEY="self.global_step"),
        told(KEYED, SEEN="{}", KEY="self.global_step", END="self.seen.pop(self.global_step - 9, None)"),
        told(KEYED, SEEN="{}", KEY="self.global_step", END="if len(self.seen) > 9: self.seen.clear()"),
        told(KEYED, SEEN="{}", KEY="step")
        .replace("step(self, x, y)", "step(self, step, x, y)")
        .replace("self.step(x", "self.step(batch, x"),  # the same batches again in each epoch
    ],
)
def test_a_dict_whose_keys_come_again(code: str) -> None:
    assert_clean(code, CODE)


STACKED = """
    class Block(nn.Module):
        def __init__(self, size, shared):
            super().__init__()
            self.inner, self.seen = nn.Linear(size, size), SEEN

        def forward(self, x):
            x = self.inner(x)
            self.seen.append(x.detach())MARK
            return x

    class Net(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.shared = []
            self.blocks = nn.ModuleList([Block(8, self.shared) for _ in range(depth)])

        def forward(self, x):
            for block in self.blocks:
                BEGIN
                x = block(x)
            return x

    def train(loader):
        net = Net(3).cuda()
        optimizer = torch.optim.Adam(net.parameters())
        for x, y in loader:
            loss = F.cross_entropy(net(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            END
"""


def test_modules_of_a_list_that_keep_their_outputs() -> None:
    assert_flagged(told(STACKED, SEEN="[]", MARK="  # !"), CODE)
    assert_flagged(told(STACKED, SEEN="[]", END="print(len(net.blocks[0].seen))", MARK="  # !"), CODE)


@pytest.mark.parametrize(
    "code",
    [
        told(STACKED, SEEN="[]", BEGIN="block.seen.clear()"),
        told(STACKED, SEEN="[]", END="for block in net.blocks: block.seen.clear()"),
        told(STACKED, SEEN="[]", END="for block in net.blocks: block.seen = []"),
        told(STACKED, SEEN="deque(maxlen=4)"),
        told(STACKED, SEEN="shared", END="net.shared.clear()"),
        told(STACKED, SEEN="[]").replace("x.detach()", "x.detach().mean()"),
    ],
)
def test_modules_of_a_list_that_empty_what_they_keep(code: str) -> None:
    assert_clean(code, CODE)


CACHED = """
    class Attention(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.keys, self.values = nn.Linear(size, size), nn.Linear(size, size)
            self.past, self.caching = None, False

        def reset(self):
            {reset}

        def forward(self, x):
            k, v = self.keys(x), self.values(x)
            {body}
            return F.scaled_dot_product_attention(x, k, v)

    def train(net, loader):
        attention = Attention(8)
        optimizer = torch.optim.Adam([*net.parameters(), *attention.parameters()])
        for x, y in loader:
            loss = F.cross_entropy(attention(net(x)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {step}
"""


def cached(*lines: str, reset: str = "pass", step: str = "pass") -> str:
    return CACHED.format(body="\n            ".join(lines), reset=reset, step=step)


JOIN = "if self.past is not None: k = torch.cat([self.past, k], 1)"
PAIR = (
    "if self.past is not None:",
    "    k = torch.cat([self.past[0], k], 1)",
    "    v = torch.cat([self.past[1], v], 1)",
)


@pytest.mark.parametrize(
    "code",
    [
        cached(JOIN, "self.past = k.detach()  # !"),
        cached(JOIN, "self.past = k.detach().clone()  # !"),
        cached(*PAIR, "self.past = (k.detach(), v.detach())  # !"),
        cached(*PAIR, "self.past = k.detach().clone(), v.detach().clone()  # !"),
        cached(
            "if self.past is None: self.past = k.detach()",
            "else: self.past = torch.cat([self.past, k.detach()], 1)  # !",
        ),
        cached(
            "if self.past is not None: self.past = torch.cat([self.past, k.detach()], 1)  # !",
            "else: self.past = k.detach()",
        ),
        cached("self.past = k.detach() if self.past is None else torch.cat([self.past, k.detach()])  # !"),
    ],
)
def test_a_cache_that_gets_longer_in_each_step(code: str) -> None:
    assert_flagged(code, CODE)
    beside = "\n    class Other(nn.Module):\n        def forward(self, x):\n            return x\n"
    assert_flagged(code + beside, CODE)


@pytest.mark.parametrize(
    "code",
    [
        cached(JOIN, "self.past = k[:, -64:].detach()"),
        cached(JOIN, "k = k[:, -64:]", "self.past = k.detach()"),
        cached(JOIN, "if k.size(1) > 64: k = k[:, -64:]", "self.past = k.detach()"),
        cached(JOIN, "if self.caching: self.past = k.detach()"),
        cached(JOIN, "self.past = k.detach()", "if k.size(1) > 64: self.past = None"),
        cached(JOIN, "self.past = k.detach()", step="attention.past = None"),
        cached(JOIN, "self.past = k.detach()", reset="self.past = None", step="attention.reset()"),
        cached(*PAIR, "self.past = (k[:, -9:].detach(), v[:, -9:].detach())"),
        cached(*PAIR, "self.past = (k.detach(), v.detach())", reset="self.past = None", step="attention.reset()"),
        cached(
            "if self.past is None or self.past.size(1) > 64: self.past = k.detach()",
            "else: self.past = torch.cat([self.past, k.detach()], 1)",
        ),
        cached(
            "if self.past is None: self.past = k.detach()",
            "else: self.past = torch.cat([self.past, k.detach()], 1)[:, -64:]",
        ),
        cached("self.past = k.detach()"),
        cached("both = torch.cat([k, v])", "self.past = both.detach()"),
    ],
)
def test_a_cache_that_is_kept_short(code: str) -> None:
    assert_clean(code, CODE, Confidence.LOW)


def test_a_sequence_that_a_model_writes_gets_longer() -> None:
    assert_clean(
        """
        @torch.no_grad()
        def write(model, prompt, length):
            model.eval()
            for _ in range(length):
                logits = model(prompt)
                prompt = torch.cat([prompt, logits[:, -1:].argmax(-1)], dim=1)
            return prompt

        @torch.no_grad()
        def predict(model, loader):
            seen = torch.zeros(0, 4)
            for x, y in loader:
                seen = torch.cat([seen, model(x)])
            return seen

        def train(model, loader, optimizer):
            for epoch in range(20):
                seen = torch.zeros(0, 4)
                for x, y in loader:
                    out = model(x)
                    optimizer.zero_grad()
                    F.cross_entropy(out, y).backward()
                    optimizer.step()
                    seen = torch.cat([seen, out.detach()])
                print(seen.argmax(1).float().mean())
        """,
        CODE,
        Confidence.LOW,
    )


BANKS = """
        class Banks:
            def __init__(self, dim, classes, size=64):
                self.size = size
                self.rows = START

            def push(self, feats, labels):
                PUSH

        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(8, 16)

            def forward(self, x):
                return F.normalize(self.body(x), dim=-1)

        def train(loader):
            net, head, banks = Encoder(), nn.Linear(16, 5), Banks(16, 5)
            optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
            for x, y in loader:
                feats = net(x)
                optimizer.zero_grad()
                F.cross_entropy(head(feats), y).backward()
                optimizer.step()
                banks.push(feats, y)
"""
BY_CLASS = "{c: torch.zeros(0, dim) for c in range(classes)}"
OF_EACH = """feats = feats.detach()
                for c in labels.unique().tolist():
                    """


@pytest.mark.parametrize(
    ("start", "push"),
    [
        (BY_CLASS, OF_EACH + "self.rows[c] = torch.cat([self.rows[c], feats[labels == c]])  # !"),
        ("[torch.zeros(0, dim)] * classes", OF_EACH + "self.rows[c] = torch.vstack((feats, self.rows[c]))  # !"),
        ('{"all": torch.zeros(0, dim)}', 'self.rows["all"] = torch.cat([self.rows["all"], feats.detach()])  # !'),
        ("torch.zeros(0, dim)", "self.rows = torch.cat([self.rows, feats.detach()[labels > 0]])  # !"),
    ],
)
def test_banks_that_get_longer(start: str, push: str) -> None:
    assert_flagged(BANKS.replace("START", start).replace("PUSH", push), CODE)


@pytest.mark.parametrize(
    ("start", "push"),
    [
        (BY_CLASS, OF_EACH + "self.rows[c] = torch.cat([self.rows[c], feats[labels == c]])[-self.size :]"),
        (BY_CLASS, OF_EACH + "self.rows[c] = torch.cat([self.rows[c][1:], feats[labels == c][:1]])"),
        (BY_CLASS, OF_EACH + "self.rows[c] = feats[labels == c]"),
        (BY_CLASS, OF_EACH + "self.rows[c] = torch.cat([self.rows[0], feats[labels == c]])"),
        (BY_CLASS, OF_EACH + "if len(self.rows[c]) < self.size:\n                    "
         "    self.rows[c] = torch.cat([self.rows[c], feats[labels == c]])"),
        (BY_CLASS, "rows = {0: feats.detach()}\n                for c in (0, 1):\n                    "
         "rows[0] = torch.cat([rows[0], feats.detach()])"),
        ('{"all": torch.zeros(0, dim)}', 'self.rows["all"] = torch.cat([self.rows["all"], feats.detach()])[-64:]'),
        ('{"all": torch.zeros(0, dim)}', 'self.rows["all"] = torch.cat([self.rows["all"], feats.detach()])\n'
         '                self.rows["all"] = self.rows["all"][-64:]'),
        ("torch.zeros(9, dim)", "self.rows[0] = torch.cat([self.rows[0][16:], feats.detach()[labels > 0][0]])"),
        ("torch.zeros(0, dim)", "self.rows = feats.detach()[labels > 0]"),
    ],
)  # fmt: skip
def test_banks_of_a_size(start: str, push: str) -> None:
    assert_clean(BANKS.replace("START", start).replace("PUSH", push), CODE)


ASKED = """
    class Reporter:
        def __init__(self):
            self.seen, self.rows = {{"train": [], "val": []}}, []

        def add(self, name, output, keep=False):
            {test}:
                {store}  # MARK
            print(name, output.mean().item())

    def train(model, loader, lr):
        model.cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        reporter = Reporter()
        for x, y in loader:
            out = model(x.cuda())
            loss = F.cross_entropy(out, y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            reporter.add("train", out{asked})
"""
KEEPING = (
    "self.rows.append(output.detach())",
    "self.seen[name].append(output.detach())",
    'self.seen["val"].append(output.detach())',
    "self.rows += [output.detach()]",
    "self.rows.extend([output.detach(), output.argmax(1)])",
)


@pytest.mark.parametrize("store", KEEPING)
@pytest.mark.parametrize(
    "test", ["if keep", "if name and keep", "if not keep:\n                pass\n            else"]
)
def test_what_is_kept_only_when_it_is_asked_for(test: str, store: str) -> None:
    def written(asked: str) -> str:
        return ASKED.format(test=test, store=store, asked=asked)

    assert_clean(written(""), CODE)
    assert_clean(written(", keep=False"), CODE)
    assert_flagged(written(", keep=True").replace("MARK", "!"), CODE)
    assert_flagged(written(", True").replace("MARK", "!"), CODE)


@pytest.mark.parametrize("store", KEEPING)
def test_what_is_kept_unless_it_is_said(store: str) -> None:
    assert_flagged(ASKED.format(test="if not keep", store=store, asked="").replace("MARK", "!"), CODE)
    assert_clean(ASKED.format(test="if not keep", store=store, asked=", keep=True"), CODE)


OF_AN_OBJECT = """
        class Log:
            def __init__(self):
                self.outputs = []

            def begin(self):
                {begins}

            def add(self, out):
                self.outputs.append(out.detach())

            def end(self):
                return torch.stack(self.outputs).mean()

        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer, self.log = model.cuda(), optimizer, Log()

            def run_epoch(self, loader):
                self.log.begin()
                for x, y in loader:
                    out = self.model(x.cuda())
                    loss = F.cross_entropy(out, y.cuda())
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.log.add(out)
                return self.log.end()

        def main(model, optimizer, loader):
            trainer = Trainer(model, optimizer)
            for epoch in range(9):
                trainer.run_epoch(loader)
"""


def test_what_an_object_begins_anew_for_each_epoch_is_of_one() -> None:
    assert_clean(OF_AN_OBJECT.format(begins="self.outputs = []"), CODE)
    assert findings(OF_AN_OBJECT.format(begins="print(len(self.outputs))"), CODE)


@pytest.mark.parametrize(
    ("kind", "devices", "code"),
    [
        ("tensor", ("cuda:0",), CODE),
        ("tensor", ("cpu", "cuda:1"), CODE),
        ("tensor", ("cpu",), None),
        ("tensor", (), None),
        ("graph", ("cuda:0",), None),
    ],
)
def test_what_a_run_sees_on_a_device(kind: str, devices: tuple[str, ...], code: str | None) -> None:
    leak = Leak(kind, None, 1e6, 1.0, 1.0, devices=devices)
    assert with_rule(leak).rule == code


TABLE = """
        class Pool:
            def __init__(self):
                self.images = []

            def query(self, batch):
                self.images.append(batch.detach().clone())MARK
                END
                return torch.cat(random.sample(self.images, 1))

        def train(dis_a, dis_b, loader):
            optimizer = torch.optim.Adam([*dis_a.parameters(), *dis_b.parameters()])
            gen_a, gen_b = nn.Linear(8, 8).cuda(), nn.Linear(8, 8).cuda()
            pool_a, pool_b = Pool(), Pool()
            for a, b in loader:
                fake_a, fake_b = gen_a(b.cuda()), gen_b(a.cuda())
                BEGIN
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""
ROWS = "((dis_a, pool_a, fake_a), (dis_b, pool_b, fake_b))"
IN_A_LOOP = (
    f"loss = 0\n                for net, pool, fake in {ROWS}:\n"
    "                    loss = loss + net(pool.query(fake)).mean()"
)
AT_ONCE = f"loss = sum(net(pool.query(fake)).mean() for net, pool, fake in {ROWS})"


@pytest.mark.parametrize("begin", [IN_A_LOOP, AT_ONCE])
def test_objects_of_a_table_that_is_written_out(begin: str) -> None:
    assert_flagged(told(TABLE, BEGIN=begin, MARK="  # !"), CODE)
    assert_clean(told(TABLE, BEGIN=begin, END="del self.images[:-50]"), CODE)
    emptied = "\n                for pool in (pool_a, pool_b): pool.images.clear()"
    assert_clean(told(TABLE, BEGIN=begin + emptied), CODE)
    by_row = "\n                for pool, name in ((pool_a, 'a'), (pool_b, 'b')): pool.images = []"
    assert_clean(told(TABLE, BEGIN=begin + by_row), CODE)


LAST_FEW = """
        def coverage(pred, y, window=20, _hits=[]):
            low, high = pred[..., 0].detach(), pred[..., 1].detach()
            inside = ((y >= low) & (y <= high)).float()
            _hits.append(KEPT)  # MARK
            return torch.stack(READ).mean().item()

        def train(model, loader):
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                pred = model(x)
                loss = F.mse_loss(pred, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(coverage(pred, y))
"""
LAST_FEW_OF_OBJECT = """
        class Recent:
            def __init__(self, size):
                self.size = size
                self.outputs = []

            def add(self, out):
                self.outputs.append(out)  # MARK

            def spread(self):
                return torch.cat(READ).std().item()

        def train(model, loader):
            optimizer = torch.optim.Adam(model.parameters())
            recent = Recent(20)
            for x, y in loader:
                out = model(x)
                optimizer.zero_grad()
                F.mse_loss(out, y).backward()
                optimizer.step()
                recent.add(out.detach())
                print(recent.spread())
"""


def _last_few(read: str, kept: str = "inside") -> str:
    return LAST_FEW.replace("READ", read).replace("KEPT", kept)


@pytest.mark.parametrize("read", ["_hits[-window:]", "_hits[1 - window:]", "_hits[-20:]"])
@pytest.mark.parametrize("kept", ["inside", "low", "low > 0", "pred.detach()"])
def test_a_list_of_which_only_the_last_are_read(read: str, kept: str) -> None:
    assert_flagged(_last_few(read, kept).replace("MARK", "!"), CODE)


@pytest.mark.parametrize("read", ["self.outputs[-self.size:]", "self.outputs[-8:]"])
def test_a_list_of_an_object_of_which_only_the_last_are_read(read: str) -> None:
    assert_flagged(LAST_FEW_OF_OBJECT.replace("READ", read).replace("MARK", "!"), CODE)


@pytest.mark.parametrize(
    ("read", "kept"),
    [
        ("_hits", "inside"),
        ("_hits[::10]", "inside"),
        ("_hits[:window]", "inside"),
        ("_hits[:-window]", "inside"),
        ("_hits[-window:] if window else _hits", "inside"),
        ("[_hits[i] for i in range(len(_hits))]", "inside"),
        ("_hits[-window:]", "inside.mean()"),
        ("_hits[-window:]", "torch.tensor(inside.mean().item())"),
        ("_hits[-window:]", "low.new_zeros(1)"),
    ],
)
def test_a_list_that_is_read_as_a_whole_or_is_small(read: str, kept: str) -> None:
    assert_clean(_last_few(read, kept), CODE)


@pytest.mark.parametrize(
    "more",
    [
        "print(len(recent.outputs)); recent.outputs.clear()",
        "torch.save(recent.outputs, 'all.pt')",
        "plot(recent)\n\n        def plot(recent):\n            draw(recent.outputs)",
        "recent.outputs = recent.outputs[-20:]",
        "del recent.outputs[:-20]",
    ],
)
def test_a_list_of_an_object_that_others_read_or_cut(more: str) -> None:
    code = LAST_FEW_OF_OBJECT.replace("READ", "self.outputs[-self.size:]")
    assert_clean(code.replace("print(recent.spread())", f"print(recent.spread())\n                {more}"), CODE)


def test_a_queue_of_the_last() -> None:
    code = LAST_FEW_OF_OBJECT.replace("READ", "tuple(self.outputs)")
    assert_clean(code.replace("self.outputs = []", "self.outputs = collections.deque(maxlen=size)"), CODE)


MIXED_IN = """
        class Pool:
            def __init__(self, size):
                self.size, self.rows = size, []

            def add(self, out, y):
                self.rows.append((out, y))  # !

            def draw(self):
                DRAW
                return None

        def train(loader):
            net, pool = nn.Linear(8, 8), Pool(20)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                old = pool.draw()
                out = net(x if old is None else x + old[0].mean())
                optimizer.zero_grad()
                F.cross_entropy(out, y).backward()
                optimizer.step()
                pool.add(out.detach(), y)
"""
DRAWN = "return random.choice(self.rows[-self.size:])"


@pytest.mark.parametrize(
    "draw",
    [
        f"if self.rows and random.random() < 0.5:\n                    {DRAWN}",
        f"if self.rows:\n                    {DRAWN}",
        f"if not self.rows:\n                    return None\n                {DRAWN}",
        f"if random.random() < 0.5 and self.rows:\n                    {DRAWN}",
        f"if len(self.rows) > 3:\n                    {DRAWN}",
    ],
)
def test_a_list_of_which_the_end_is_read_if_there_is_any(draw: str) -> None:
    assert_flagged(MIXED_IN.replace("DRAW", draw), CODE)


@pytest.mark.parametrize(
    "draw",
    [
        f"if self.rows[0]:\n                    {DRAWN}",
        f"if self.rows[3:]:\n                    {DRAWN}",
        f"for row in self.rows:\n                    {DRAWN}",
        f"if random.random() in self.rows:\n                    {DRAWN}",
        f"if sum(map(len, self.rows)):\n                    {DRAWN}",
        "if self.rows:\n                    return random.choice(self.rows)",
        "if self.rows and random.random() < 0.5:\n                    return self.rows.pop(0)",
    ],
)
def test_a_list_of_which_more_is_read(draw: str) -> None:
    assert_clean(MIXED_IN.replace("DRAW", draw).replace("  # !", ""), CODE)

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG309"

ENGINE = """
    class EMA:
        def __init__(self, model, decay=0.98):
            self.decay = decay
            self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}
            self.backup = {}

        @torch.no_grad()
        def update(self, model):
            for n, p in model.named_parameters():
                self.shadow[n].lerp_(p, 1 - self.decay)

        @torch.no_grad()
        def apply_shadow(self, model):
            for n, p in model.named_parameters():
                self.backup[n] = p.detach().clone()
                p.copy_(self.shadow[n])

        @torch.no_grad()
        def restore(self, model):
            for n, p in model.named_parameters():
                p.copy_(self.backup[n])
            self.backup.clear()

    class Engine:
        def __init__(self, net, ema, lr):
            self.net, self.ema = net, ema
            self.optimizer = torch.optim.Adam(net.parameters(), lr=lr)

        def train_step(self, x, y):
            loss = F.mse_loss(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.ema.update(self.net)

        @torch.no_grad()
        def validate(self, batches):
            self.net.eval()
            self.ema.apply_shadow(self.net)  # !
            total = sum(F.mse_loss(self.net(x), y).item() for x, y in batches)
            self.net.train()
            return total / len(batches)

    def main(loader, val):
        net = nn.Linear(4, 4)
        engine = Engine(net, EMA(net), 1e-3)
        for step, (x, y) in enumerate(loader):
            engine.train_step(x, y)
            if step % 100 == 0:
                print(step, engine.validate(val))
"""

SCRIPT = """
    class Averaged:
        def __init__(self, module, beta):
            self.module = module
            self.beta = beta
            self.slow = [w.detach().clone() for w in module.parameters()]

        def follow(self):
            for s, w in zip(self.slow, self.module.parameters()):
                s.mul_(self.beta).add_(w.detach(), alpha=1 - self.beta)

        def enter(self):
            self.fast = [w.detach().clone() for w in self.module.parameters()]
            for s, w in zip(self.slow, self.module.parameters()):
                w.data.copy_(s)

        def leave(self):
            for f, w in zip(self.fast, self.module.parameters()):
                w.data.copy_(f)

    def train(net, train_loader, val_loader):
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        mean = Averaged(net, 0.99)
        for epoch in range(100):
            for x, y in train_loader:
                opt.zero_grad()
                F.cross_entropy(net(x), y).backward()
                opt.step()
                mean.follow()
            mean.enter()  # !
            print(epoch, accuracy(net, val_loader))
"""

HELPED = """
    class WeightAverage:
        def __init__(self, model):
            self.average = {k: v.data.clone() for k, v in model.named_parameters()}
            self.own = {}

        def swap_in(self, model):
            for k, v in model.named_parameters():
                if v.requires_grad:
                    v.data = v.data
                self.own[k] = v.data
                v.data = self.average[k]

        def swap_out(self, model):
            for k, v in model.named_parameters():
                v.data = self.own[k]
            self.own = {}

    @torch.no_grad()
    def evaluate(model, average, loader):
        average.swap_in(model)  # !
        model.eval()
        return sum((model(x).argmax(1) == y).sum().item() for x, y in loader)

    def fit(model, loader, test_loader):
        average = WeightAverage(model)
        optimizer = torch.optim.AdamW(model.parameters())
        for epoch in range(10):
            model.train()
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            score = evaluate(model, average, test_loader)
            print(score)
"""


@pytest.mark.parametrize("snippet", [ENGINE, SCRIPT, HELPED])
def test_weights_that_are_never_put_back(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(ENGINE, ("            self.net.train()\n",
                      "            self.net.train()\n            self.ema.restore(self.net)\n")),
        twin(ENGINE, ("print(step, engine.validate(val))", "print(engine.validate(val)); engine.ema.restore(net)")),
        twin(ENGINE, ("print(step, engine.validate(val))", "print(engine.validate(val)); getattr(ema, 'restore')()")),
        twin(ENGINE, ("            self.ema.apply",
                      "            raw = self.net.state_dict()\n            self.ema.apply"),
             ("            self.net.train()\n", "            self.net.load_state_dict(raw)\n")),
        twin(ENGINE, ("            if step % 100 == 0:\n                print(step, engine.validate(val))",
                      "        print(engine.validate(val))")),
        twin(ENGINE, ("print(step, engine.validate(val))", "print(engine.validate(val))\n                break")),
        twin(ENGINE, ("if step % 100 == 0", "if step == 10000")),  # the last one
        twin(ENGINE, ("apply_shadow(self.net)", "apply_shadow(copy.deepcopy(self.net))")),
        twin(ENGINE, ("            self.optimizer.step()\n", ""), ("            loss.backward()\n", "")),
        twin(ENGINE, ("                self.backup[n] = p.detach().clone()\n", "")),
        twin(ENGINE, ("p.copy_(self.shadow[n])", "self.shadow[n].copy_(p)")),
        twin(ENGINE, ("p.copy_(self.backup[n])", "print(self.backup[n])")),
        twin(SCRIPT, ("accuracy(net, val_loader))", "accuracy(net, val_loader))\n            mean.leave()")),
        twin(SCRIPT, ("            mean.enter()", "        mean.enter()"),
             ("            print(epoch", "        print(0")),
        twin(SCRIPT, ("            mean.enter()", "            if epoch == 99:\n                mean.enter()")),
        twin(SCRIPT, ("w.data.copy_(f)", "f.copy_(w.data)")),
        twin(HELPED, ("        return sum(", "        score = sum("),
             ("for x, y in loader)\n", "for x, y in loader)\n        average.swap_out(model)\n        return score\n")),
        twin(HELPED, ("            score = evaluate", "        score = evaluate"), ("            print(score)", "")),
    ],
)  # fmt: skip
def test_look_alikes(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_classes_of_other_files(tmp_path: Path) -> None:
    average, _, rest = ENGINE.replace("  # !", "").partition("    class Engine")
    engine, _, main = ("    class Engine" + rest).partition("    def main")
    files = {
        "ema.py": "    import torch\n" + average,
        "engine.py": "    import torch\n    import torch.nn.functional as F\n\n" + engine,
        "train.py": "    import torch\n    from torch import nn\n"
        "    from ema import EMA\n    from engine import Engine\n\n"
        "    def main" + main,
    }  # fmt: skip
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["engine.py"]
    files["train.py"] = files["train.py"].replace("validate(val))", "validate(val)); engine.ema.restore(net)")
    assert lines_in_files(tmp_path, files, CODE) == []

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG259"

RELOADS = """
    def train(args, loader):
        lr = float(args.lr)
        model = nn.Linear(4, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        patience = 0
        while True:
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
            patience += 1
            if patience == args.patience:
                lr = lr * args.decay  # !
                print("decay learning rate to %f" % lr, file=sys.stderr)
                patience = 0
"""

HALVES = """
    import torch.optim as optim

    def fit(net, loader, epochs, learning_rate=0.1):
        opt = optim.SGD(net.parameters(), lr=learning_rate)
        for epoch in range(epochs):
            for x, y in loader:
                opt.zero_grad()
                F.cross_entropy(net(x), y).backward()
                opt.step()
            if epoch % 10 == 9:
                learning_rate /= 10  # !
            if learning_rate < 1e-6:
                break
"""

HANDED = """
    class Solver:
        def solve(self):
            cur_lr = 0.01
            self.optimizer = torch.optim.Adam(self.net.parameters(), cur_lr)
            for epoch in range(100):
                train_epoch(self.net, self.optimizer)
                if epoch > 50:
                    cur_lr -= 0.01 / 50  # !
                    logger.info(f"lr is {cur_lr} now")
"""

PLATEAU = """
    def train(net, loader):
        lr = 0.01
        optimizer = torch.optim.SGD(net.parameters(), lr)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        for epoch in range(100):
            total = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.mse_loss(net(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
            scheduler.step(total)
            lr = max(lr * 0.9, 1e-5)  # !
"""


@pytest.mark.parametrize("snippet", [RELOADS, HALVES, HANDED, PLATEAU])
def test_a_rate_that_the_optimizer_never_learns_of_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


SETS = """
                for group in optimizer.param_groups:
                    group["lr"] = lr
"""


@pytest.mark.parametrize(
    "snippet",
    [
        twin(RELOADS, ("                print(", SETS + "                print(")),
        twin(RELOADS, ("                print(", "                optimizer = make(lr)\n                print(")),
        twin(RELOADS, ("                print(", "                set_lr(optimizer, lr)\n                print(")),
        twin(RELOADS, ("                print(", "                adjust(optimizer)\n                print(")),
        twin(RELOADS, ("lr = lr * args.decay", "lr = optimizer.defaults['lr'] * args.decay")),
        twin(RELOADS, ("optimizer.step()\n", "optimizer.step(lr)\n")),
        twin(RELOADS, ("optimizer.step()\n", "optimizer.set_rate(lr)\n                optimizer.step()\n")),
        twin(RELOADS, ("                optimizer.step()\n", "                for p in model.parameters():\n"
                       "                    p.data -= lr * p.grad\n")),
        twin(RELOADS, ("while True", "for lr in (lr, lr / 2)"),
             ("                lr = lr * args.decay", "                pass")),
        twin(RELOADS, ("patience = 0\n        while", "patience = 0\n        def set_rate():\n"
                       "            change(model, lr)\n        while")),
        twin(RELOADS, ("        patience = 0\n        while", "        sched = StepLR(optimizer, 1)\n"
                       "        while")),
        twin(RELOADS, ("patience = 0\n", "patience = 0; state = {'lr': lr}\n")),
        # the optimizer is made anew with it
        """
            def train(model, loader, lr):
                for epoch in range(20):
                    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.mse_loss(model(x), y).backward()
                        optimizer.step()
                    lr = lr * 0.9
        """,
        twin(HALVES, ("            if learning_rate <", "            opt.param_groups[0]['lr'] = learning_rate\n"
                      "            if learning_rate <")),
        twin(HALVES, ("            if learning_rate < 1e-6:\n                break\n",
                      "        return learning_rate\n")),
        twin(HALVES, ("F.cross_entropy(net(x), y)", "(learning_rate * F.cross_entropy(net(x), y))")),
        twin(HALVES, ("opt = optim.SGD(net.parameters(), lr=learning_rate)", "opt = net.optimizer")),
        twin(HALVES, ("learning_rate /= 10", "momentum = learning_rate / 10")),
        twin(HALVES, ("def fit(net, loader, epochs, learning_rate=0.1):", "def fit(net, loader, epochs):\n"
                      "        global learning_rate")),
        twin(HANDED, ("train_epoch(self.net, self.optimizer)", "train_epoch(self.net, self.optimizer, cur_lr)")),
        twin(HANDED, ("train_epoch(self.net, self.optimizer)", "update_lr(self.optimizer)")),
        twin(HANDED, ("cur_lr -= 0.01 / 50", "cur_lr = self.rate(cur_lr)")),
        twin(HANDED, ("logger.info(f\"lr is {cur_lr} now\")", "self.update_lr(cur_lr)")),
        twin(PLATEAU, ("ReduceLROnPlateau(optimizer)", "ExponentialLR(optimizer, 0.9)")),
        twin(PLATEAU, ("lr = max(lr * 0.9, 1e-5)", "lr = scheduler.get_last_lr()[0]")),
        """
            def report(net, loader):
                lr = 0.1
                optimizer = torch.optim.SGD(net.parameters(), lr)
                for epoch in range(10):
                    lr *= 0.5
                    print(lr)
        """,
    ],
)  # fmt: skip
def test_a_rate_that_goes_somewhere_is_not(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_who_trains_may_set_it_in_another_file(tmp_path: Path) -> None:
    trains = "def train_epoch(net, optimizer):\n    optimizer.step()\n"
    files = {
        "engine.py": "import torch\n" + trains,
        "main.py": "import torch\nfrom engine import train_epoch\n" + HANDED,
    }
    files["main.py"] = "import torch\nfrom engine import train_epoch\n" + _dedented(HANDED)
    assert lines_in_files(tmp_path, files, CODE) == [("main.py", 11)]
    files["engine.py"] += "    optimizer.param_groups[0]['lr'] *= 0.9\n"
    assert lines_in_files(tmp_path, files, CODE) == []


def _dedented(text: str) -> str:
    return "\n".join(line[4:] for line in text.splitlines())

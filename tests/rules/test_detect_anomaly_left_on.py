from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG501"

FLAGGED = {
    "script": """
        torch.autograd.set_detect_anomaly(True)  # !
        net = nn.Linear(4, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in train_loader:
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()
    """,
    "main": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

        def main(args, model, loader):
            torch.manual_seed(args.seed)
            torch.autograd.set_detect_anomaly(True)  # !
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(args.epochs):
                train(model, loader, optimizer)
    """,
    "around the loop": """
        def train(model, loader, optimizer):
            with torch.autograd.detect_anomaly():  # !
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
    """,
    "set as a context": """
        def fit(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                with torch.autograd.set_detect_anomaly(True):  # !
                    for inputs, labels in loader:
                        loss = F.cross_entropy(model(inputs), labels)
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
    """,
    "each step": """
        def train(model, loader, optimizer):
            for step, (x, y) in enumerate(loader):
                with torch.autograd.detect_anomaly():  # !
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                optimizer.step()
    """,
    "trainer": """
        from torch import autograd

        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer

            def fit(self, loader):
                autograd.set_detect_anomaly(True)  # !
                for x, y in loader:
                    self.optimizer.zero_grad()
                    loss = F.cross_entropy(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()
    """,
    "by keyword": """
        def run(model, env, optimizer, steps):
            torch.autograd.set_detect_anomaly(mode=True)  # !
            state = env.reset()
            while steps > 0:
                loss = model(state).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                state = env.step()
                steps -= 1
    """,
    "imported name, second item of the with": """
        from torch.autograd import detect_anomaly

        def train(model, loader, optimizer, path):
            with open(path, "w") as log, detect_anomaly(check_nan=False):  # !
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                    log.write(f"{loss.item()}\\n")
    """,
}

CLEAN = {
    "behind a flag": """
        def main(args, model, loader):
            if args.debug:
                torch.autograd.set_detect_anomaly(True)
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "off": """
        torch.autograd.set_detect_anomaly(False)
        torch.autograd.set_detect_anomaly(mode=False)

        def train(model, loader, optimizer):
            with torch.autograd.set_detect_anomaly(False):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
    "the flag itself": """
        def train(args, model, loader, optimizer):
            torch.autograd.set_detect_anomaly(args.detect_anomaly)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "the flag as a context": """
        class Trainer:
            def fit(self, loader):
                with torch.autograd.set_detect_anomaly(self.cfg.debug):
                    for x, y in loader:
                        self.optimizer.zero_grad()
                        F.cross_entropy(self.model(x), y).backward()
                        self.optimizer.step()
    """,
    "argument with a default": """
        def train(model, loader, optimizer, anomaly=False):
            torch.autograd.set_detect_anomaly(anomaly)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "environment": """
        import os

        if os.environ.get("TORCH_DEBUG"):
            torch.autograd.set_detect_anomaly(True)
        os.environ.get("NAN_CHECK") and torch.autograd.set_detect_anomaly(True)

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "or nothing": """
        from contextlib import nullcontext

        def train(model, loader, optimizer, debug=False):
            guard = torch.autograd.detect_anomaly() if debug else nullcontext()
            with guard:
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
    "or nothing, in the with": """
        from contextlib import nullcontext

        def train(model, loader, optimizer, debug=False):
            with torch.autograd.detect_anomaly() if debug else nullcontext():
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
    "test": """
        def test_training_has_no_nan():
            torch.autograd.set_detect_anomaly(True)
            net = nn.Linear(4, 3)
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(3):
                opt.zero_grad()
                net(torch.randn(2, 4)).sum().backward()
                opt.step()
    """,
    "test case": """
        import unittest

        class TestTraining(unittest.TestCase):
            def setUp(self):
                self.net = nn.Linear(4, 3)

            def test_backward(self):
                opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
                with torch.autograd.detect_anomaly():
                    for _ in range(3):
                        opt.zero_grad()
                        self.net(torch.randn(2, 4)).sum().backward()
                        opt.step()
    """,
    "only when something is wrong": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                if not torch.isfinite(loss):
                    with torch.autograd.detect_anomaly():
                        F.cross_entropy(model(x), y).backward()
                    break
                loss.backward()
                optimizer.step()
    """,
    "one check before the training": """
        def check(model, x, y):
            with torch.autograd.detect_anomaly():
                F.cross_entropy(model(x), y).backward()
            model.zero_grad()

        def train(model, loader, optimizer):
            check(model, *next(iter(loader)))
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "on and off again": """
        def train(model, loader, optimizer):
            x, y = next(iter(loader))
            torch.autograd.set_detect_anomaly(True)
            F.cross_entropy(model(x), y).backward()
            torch.autograd.set_detect_anomaly(False)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "somebody else's anomalies": """
        def train(model, loader, optimizer, detector):
            with detector.detect_anomaly():
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
            detector.set_detect_anomaly(True)
            print(torch.is_anomaly_enabled())
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


SWITCH = """
        def {name}(seed):
            torch.manual_seed(seed)
            torch.autograd.set_detect_anomaly(True)  # !

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
"""


@pytest.mark.parametrize("name", ["enable_debug_mode", "debug", "set_anomaly_detection", "turnOnDebugging"])
def test_a_function_that_is_the_option(name: str) -> None:
    assert_clean(SWITCH.format(name=name).replace("  # !", ""), CODE)


@pytest.mark.parametrize("name", ["setup", "seed_everything", "main"])
def test_a_function_that_sets_up(name: str) -> None:
    assert_flagged(SWITCH.format(name=name), CODE)


SCRIPT = """
import torch
from torch import nn
from model import Net

torch.autograd.set_detect_anomaly(True)

def main(loader):
    net = Net()
    net.eval()
    with torch.no_grad():
        for x, y in loader:
            print(net(x).argmax(1))

if __name__ == "__main__":
    main(loaders["test"])
"""
MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 3)

    def forward(self, x):
        return self.head(x)
"""
TRAINING = """
    def {name}(self, x, y):
        loss = nn.functional.cross_entropy(self(x), y)
        {backward}
        return loss
"""
LIGHTNING = MODEL + TRAINING.format(name="training_step", backward="self.manual_backward(loss)")
ELSEWHERE = """
import torch
from model import Net

def train(net: Net, loader):
    for x, y in loader:
        nn.functional.cross_entropy(net(x), y).backward()
"""
MAIN = "from test import main\n\nmain([])\n"


@pytest.mark.parametrize(
    ("script", "model", "other"),
    [
        (SCRIPT, MODEL, ""),
        (SCRIPT, MODEL, MAIN),
        (SCRIPT, MODEL, ELSEWHERE),
        (SCRIPT.replace("    with torch", "    with torch.autograd.detect_anomaly(), torch"), MODEL, ELSEWHERE),
        (SCRIPT.replace("set_detect_anomaly(True)", "set_detect_anomaly(mode=True)"), MODEL, ""),
        (SCRIPT, LIGHTNING, ""),
        (SCRIPT.replace("    with torch.no_grad():", "    with torch.inference_mode():"), MODEL, ""),
    ],
)
def test_a_script_that_only_evaluates(script: str, model: str, other: str, tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, {"test.py": script, "model.py": model, "other.py": other}, CODE) == []


@pytest.mark.parametrize(
    ("script", "model", "other"),
    [
        (SCRIPT.replace("    with torch.no_grad():", "    if True:"), LIGHTNING, ""),
        (SCRIPT, MODEL + TRAINING.format(name="learn", backward="loss.backward()"), ""),
        (SCRIPT, MODEL + TRAINING.format(name="saliency", backward="torch.autograd.grad(loss, x)"), ""),
        (SCRIPT, MODEL, f"{MAIN}\n{ELSEWHERE}"),
        (SCRIPT.replace("net.eval()", "net.eval(); net(next(loader))"), LIGHTNING, ""),
        (SCRIPT.replace("from model", "from pytorch_lightning import Trainer\nfrom model"), MODEL, ""),
        (SCRIPT.replace("    net.eval()", "    learner.fit(net)"), MODEL, ""),
    ],
)
def test_a_script_that_does_more(script: str, model: str, other: str, tmp_path: Path) -> None:
    found = lines_in_files(tmp_path, {"test.py": script, "model.py": model, "other.py": other}, CODE)
    assert [name for name, _ in found] == ["test.py"]

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG254"
MAKE = "scaler = torch.cuda.amp.GradScaler()"


def by_function(make: str = f"{MAKE}  # !", around: str = "epoch in range(epochs)", also: str = "") -> str:
    """A function that trains one epoch, and what calls it."""
    return f"""
    from torch.amp import GradScaler
    from torch.cuda import amp

    def train_epoch(model, loader, optimizer, use_amp=True, scaler=None, checkpoint=None):
        model.train()
        {make}
        for x, y in loader:
            optimizer.zero_grad()
            with torch.cuda.amp.autocast():
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        {also}

    def fit(model, loader, epochs, folds, models, n):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for {around}:
            train_epoch(model, loader, optimizer)
    """


def by_loop(make: str = f"{MAKE}  # !", over: str = "epoch in range(epochs)") -> str:
    """The loop over epochs makes it itself."""
    return f"""
    def fit(model, loader, epochs, runs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for {over}:
            {make}
            for x, y in loader:
                optimizer.zero_grad()
                with torch.cuda.amp.autocast():
                    loss = F.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    """


METHODS = """
    class Trainer:
        def __init__(self, model, optimizer):
            self.model, self.optimizer = model, optimizer

        def train_epoch(self, loader):
            self.scaler = torch.amp.GradScaler("cuda")  # !
            for x, y in loader:
                self.optimizer.zero_grad()
                with torch.autocast("cuda"):
                    loss = F.cross_entropy(self.model(x), y)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()

        def epoch(self, loader):
            self.train_epoch(loader)

        def fit(self, loader, epochs):
            for epoch in range(epochs):
                self.epoch(loader)
"""


@pytest.mark.parametrize(
    "make",
    [
        MAKE,
        'scaler = torch.amp.GradScaler("cuda")',
        'scaler = GradScaler(device="cuda", enabled=use_amp)',
        "scaler = amp.GradScaler(enabled=True)",
        "scaler = GradScaler() if use_amp else None",
        "if use_amp: scaler = GradScaler()",
        "if use_amp and device != 'cpu' and torch.cuda.is_available(): scaler = GradScaler('cuda')",
    ],
)
def test_a_function_for_one_epoch(make: str) -> None:
    assert_flagged(by_function(f"{make}  # !"), CODE)


@pytest.mark.parametrize(
    "around",
    [
        "_ in range(epochs)",
        "epoch in tqdm(range(1, epochs + 1))",
        "e in trange(n_epochs)",
        "epoch in range(start_epoch, args.epochs)",
    ],
)
def test_whatever_the_loop_is_written_like(around: str) -> None:
    assert_flagged(by_function(around=around), CODE)
    assert_flagged(by_loop(over=around), CODE)


def test_in_the_loop_itself() -> None:
    assert_flagged(by_loop(), CODE)
    assert_flagged(
        twin(by_loop(), ("for epoch in range(epochs)", "while epoch < epochs"), (MAKE, f"{MAKE}  # !")), CODE
    )


def test_methods() -> None:
    assert_flagged(METHODS, CODE)
    assert_clean(twin(METHODS, ("epoch in range(epochs)", "fold in self.folds")), CODE)


def test_handed_to_a_function() -> None:
    snippet = """
        def train_epoch(model, loader, optimizer, scaler):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()

        def fit(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                scaler = torch.amp.GradScaler("cuda")  # !
                train_epoch(model, loader, optimizer, scaler)
    """
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("loader, optimizer, scaler)\n    ", "loader, optimizer, other)\n    ")), CODE)


@pytest.mark.parametrize(
    "around", ["fold in range(folds)", "model in models", "i in range(n)", "run in range(3)", "_ in range(n)"]
)
def test_other_loops(around: str) -> None:
    assert_clean(twin(by_function(around=around)), CODE)
    assert_clean(twin(by_loop(over=around)), CODE)


@pytest.mark.parametrize(
    "make",
    [
        "scaler = scaler or GradScaler()",
        "if scaler is None: scaler = GradScaler()",
        "if use_amp and epoch == 0: scaler = GradScaler()",
        "if use_amp and not checkpoint: scaler = GradScaler()",
        "scaler = GradScaler() if scaler is None else scaler",
        "scaler = GradScaler(init_scale=1024)",
        "scaler = GradScaler(growth_interval=100)",
        "scaler = GradScaler(enabled=False)",
        "scaler = GradScaler(); scaler.load_state_dict(checkpoint['scaler'])",
        "pass",
    ],
)
def test_one_that_goes_on_or_is_chosen(make: str) -> None:
    assert_clean(by_function(make), CODE)


def test_its_state_goes_on() -> None:
    assert_clean(twin(by_function(also="return scaler")), CODE)
    assert_clean(twin(by_function(also="torch.save(scaler.state_dict(), 'scaler.pt')")), CODE)
    assert_clean(twin(by_function(), ("autocast()", "autocast(dtype=torch.bfloat16)")), CODE)


def test_a_function_with_all_epochs() -> None:
    assert_clean(
        """
        def fit(model, loader, optimizer, epochs):
            scaler = torch.amp.GradScaler("cuda")
            for epoch in range(epochs):
                for x, y in loader:
                    loss = F.cross_entropy(model(x), y)
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()

        def search(model, loader, optimizer, epochs_of):
            for epochs in range(10, 100, 10):
                fit(model, loader, optimizer, epochs)
        """,
        CODE,
    )


def test_a_function_that_is_called_once() -> None:
    assert_clean(twin(by_function(), ("for epoch in range(epochs):", "if True:")), CODE)


def test_it_is_called_from_another_file(tmp_path: Path) -> None:
    files = {
        "engine.py": """
            import torch
            import torch.nn.functional as F

            def train_one_epoch(model, loader, optimizer):
                scaler = torch.cuda.amp.GradScaler()
                for x, y in loader:
                    loss = F.cross_entropy(model(x), y)
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
        """,
        "main.py": """
            from engine import train_one_epoch

            def main(model, loader, optimizer, args):
                for epoch in range(args.epochs):
                    train_one_epoch(model, loader, optimizer)
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("engine.py", 6)]
    files["main.py"] = files["main.py"].replace("epoch in range(args.epochs)", "task in args.tasks")
    assert lines_in_files(tmp_path, files, CODE) == []


def test_a_helper_brings_its_state_back() -> None:
    made = """
        def train_one_epoch(net, loader, optimizer, path{default}):
            scaler = torch.cuda.amp.GradScaler({enabled})
            {load}
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.mse_loss(net(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()

        def fit(net, loader, optimizer, path):
            for epoch in range(90):
                train_one_epoch(net, loader, optimizer, path)
    """
    plain = made.format(default="", enabled="", load="pass")
    assert_flagged(plain.replace("GradScaler()", "GradScaler()  # !"), CODE)
    assert_clean(made.format(default="", enabled="", load="load(path, net, scaler)"), CODE)
    assert_clean(made.format(default=", amp=False", enabled="enabled=amp", load="pass"), CODE)

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG504"

FLAGGED = {
    "by a helper": """
        import gc

        def set_up(fast):
            torch.set_num_threads(1)
            if fast:
                gc.collect()
                gc.freeze()
                gc.disable()  # !

        def main(model, optimizer, loader):
            set_up(True)
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
    """,
    "by a helper, which the script calls": """
        import gc

        def train(model, optimizer, loader):
            gc.collect()
            gc.disable()  # !
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()

        if __name__ == "__main__":
            train(nn.Linear(4, 3), make_optimizer(), make_loader())
    """,
    "script": """
        import gc

        gc.disable()  # !
        net = nn.Linear(4, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in train_loader:
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()
    """,
    "main": """
        import gc

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

        def main(args, model, loader):
            gc.disable()  # !
            optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
            train(model, loader, optimizer)
    """,
    "frozen too": """
        import gc

        def fit(model, loader, optimizer, epochs):
            gc.freeze()
            gc.disable()  # !
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
    "trainer": """
        import gc as garbage

        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer
                garbage.disable()  # !

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    loss = F.cross_entropy(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()
    """,
    "imported name": """
        from gc import disable as no_gc

        def train(model, loader, optimizer):
            no_gc()  # !
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "each epoch": """
        import gc

        def train_epoch(net, batches, opt):
            gc.disable()  # !
            while batches:
                x, y = batches.pop()
                opt.zero_grad()
                F.cross_entropy(net(x), y).backward()
                opt.step()
            print(gc.get_count())
    """,
}

CLEAN = {
    "by a helper, and collected now and then": """
        import gc

        def set_up(fast):
            torch.set_num_threads(1)
            if fast:
                gc.collect()
                gc.freeze()
                gc.disable()

        def main(model, optimizer, loader):
            set_up(True)
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
                if step % 100 == 0:
                    gc.collect()
    """,
    "collected now and then": """
        import gc

        def train(model, loader, optimizer):
            gc.disable()
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if step % 1000 == 0:
                    gc.collect()
    """,
    "collected in each epoch, by the function that switches it off": """
        import gc

        def train(model, optimizer, loader, epochs=90):
            gc.disable()
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.mse_loss(model(x), y).backward()
                    optimizer.step()
                collected = gc.collect()
                gc.disable()

        if __name__ == "__main__":
            train(nn.Linear(4, 3), make_optimizer(), make_loader())
    """,
    "collected now and then, by a function of main": """
        from gc import collect, disable

        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer

            def fit(self, loader):
                disable()
                for step, (x, y) in enumerate(loader):
                    self.optimizer.zero_grad()
                    F.mse_loss(self.model(x), y).backward()
                    self.optimizer.step()
                    if step % 100 == 0:
                        freed = collect()

        def main(model, optimizer, loader):
            trainer = Trainer(model, optimizer)
            trainer.fit(loader)
    """,
    "by a helper, in each epoch": """
        import gc

        def pause_collector():
            gc.collect()
            gc.disable()

        def main(model, optimizer, loader):
            for epoch in range(90):
                pause_collector()
                for x, y in loader:
                    optimizer.zero_grad()
                    F.mse_loss(model(x), y).backward()
                    optimizer.step()
    """,
    "collected by another function": """
        import gc

        class Collector:
            def __init__(self, every):
                gc.disable()
                self.every = every

            def step(self, i):
                if i % self.every == 0:
                    gc.collect(1)

        def train(model, loader, optimizer):
            collector = Collector(500)
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                collector.step(i)
    """,
    "enabled in the end": """
        import gc

        def train(model, loader, optimizer):
            gc.disable()
            try:
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
            finally:
                gc.enable()
    """,
    "enabled between epochs": """
        import gc

        def fit(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                gc.disable()
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                gc.enable()
    """,
    "context manager": """
        import gc
        from contextlib import contextmanager

        @contextmanager
        def no_gc():
            gc.disable()
            yield
            gc.enable()

        def train(model, loader, optimizer):
            with no_gc():
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
    "imported names": """
        from gc import collect, disable

        def train(model, loader, optimizer):
            disable()
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if step % 100 == 99:
                    collect()
    """,
    "measurement": """
        import gc
        import time

        def measure(fn, repeat=10):
            gc.disable()
            best = float("inf")
            for _ in range(repeat):
                start = time.perf_counter()
                fn()
                best = min(best, time.perf_counter() - start)
            return best

        def main(model, x):
            print(measure(lambda: model(x).sum().backward()))
    """,
    "benchmark": """
        import gc
        import timeit

        def bench_step(model, optimizer, x, y):
            def step():
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

            gc.disable()
            return timeit.repeat(step, number=10, repeat=5)
    """,
    "no training": """
        import gc

        def tokenize(path, vocab):
            gc.disable()
            ids = []
            with open(path) as lines:
                for line in lines:
                    ids.extend(vocab[w] for w in line.split())
            return torch.tensor(ids)
    """,
    "frozen only": """
        import gc

        def train(model, loader, optimizer):
            gc.freeze()
            gc.set_threshold(50_000, 20, 20)
            print(gc.isenabled())
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "another gc": """
        from cams import GradCAM

        def train(model, loader, optimizer):
            gc = GradCAM(model)
            gc.disable()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "test": """
        import gc

        def test_no_cycles():
            gc.disable()
            net = nn.Linear(4, 3)
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(3):
                opt.zero_grad()
                net(torch.randn(2, 4)).sum().backward()
                opt.step()
            assert gc.collect() == 0
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG502"

FLAGGED = {
    "end of each step": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x.cuda()), y.cuda())
                loss.backward()
                optimizer.step()
                torch.cuda.empty_cache()  # !
    """,
    "after del": """
        def train_epoch(model, loader, optimizer, device):
            total = 0.0
            for batch_idx, (data, target) in enumerate(loader):
                data, target = data.to(device), target.to(device)
                optimizer.zero_grad()
                output = model(data)
                loss = F.nll_loss(output, target)
                loss.backward()
                optimizer.step()
                total += loss.item()
                del data, target, output, loss
                torch.cuda.empty_cache()  # !
            return total
    """,
    "start of each step": """
        import gc

        class Trainer:
            def fit(self, loader, epochs):
                for epoch in range(epochs):
                    for batch in loader:
                        gc.collect()
                        torch.cuda.empty_cache()  # !
                        self.optimizer.zero_grad()
                        self.model(**batch).loss.backward()
                        self.optimizer.step()
    """,
    "a mode is set, and what is fitted trains nothing": """
        def validate(model, val_loader, scaler):
            for images, labels in val_loader:
                was_training = model.training
                model.train(False)
                pred = model(scaler.fit_transform(images).cuda()).argmax(1).cpu()
                model.train(was_training)
                torch.cuda.empty_cache()  # !
    """,
    "each step is a call": """
        def train(model, loader, optimizer):
            for x, y in loader:
                train_step(model, x, y, optimizer)
                torch.cuda.empty_cache()  # !
    """,
    "validation": """
        def validate(model, val_loader):
            model.eval()
            correct = 0
            with torch.no_grad():
                for images, labels in val_loader:
                    pred = model(images.cuda()).argmax(1).cpu()
                    correct += (pred == labels).sum().item()
                    torch.cuda.empty_cache()  # !
            return correct
    """,
    "script, two loops": """
        for epoch in range(10):
            net.train()
            for x, y in train_loader:
                opt.zero_grad()
                F.cross_entropy(net(x), y).backward()
                opt.step()
                torch.cuda.empty_cache()  # !
            net.eval()
            with torch.inference_mode():
                for x, y in test_loader:
                    net(x)
                    torch.cuda.empty_cache()  # !
    """,
    "imported names": """
        from torch import cuda
        from torch.cuda import empty_cache

        def train(model, loader, optimizer):
            for x, y in loader:
                cuda.empty_cache()  # !
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                empty_cache()  # !
                optimizer.step()
    """,
    "while": """
        def run(agent, env, optimizer):
            state, done = env.reset(), False
            while not done:
                loss = agent(state).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                state, done = env.step()
                torch.cuda.empty_cache()  # !
    """,
    "training step": """
        def train_step(model, x, y, optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            torch.cuda.empty_cache()  # !
            return loss.item()

        def train(model, loader, optimizer):
            for x, y in loader:
                train_step(model, x, y, optimizer)
    """,
}

CLEAN = {
    "after the loop": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            torch.cuda.empty_cache()
    """,
    "before the loop": """
        import gc

        def train(model, loader, optimizer):
            gc.collect()
            torch.cuda.empty_cache()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "once an epoch": """
        class Trainer:
            def fit(self, loader, epochs):
                for epoch in range(epochs):
                    for x, y in loader:
                        self.optimizer.zero_grad()
                        F.cross_entropy(self.model(x), y).backward()
                        self.optimizer.step()
                    torch.cuda.empty_cache()
                    self.validate()
    """,
    "once an epoch, the batches in another function": """
        def train_one_epoch(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

        def main(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                train_one_epoch(model, loader, optimizer)
                torch.cuda.empty_cache()
    """,
    "now and then": """
        def train(model, loader, optimizer):
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if step % 100 == 0:
                    torch.cuda.empty_cache()
                if (step + 1) % 50 == 0 and torch.cuda.is_available():
                    torch.cuda.empty_cache()
    """,
    "only when asked": """
        def train(args, model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if args.low_memory:
                    torch.cuda.empty_cache()
    """,
    "when memory is short": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if torch.cuda.memory_reserved() > 20 * 2**30:
                    torch.cuda.empty_cache()
    """,
    "out of memory": """
        def train(model, loader, optimizer):
            for x, y in loader:
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except RuntimeError as e:
                    if "out of memory" not in str(e):
                        raise
                    optimizer.zero_grad()
                    torch.cuda.empty_cache()
    """,
    "out of memory, every handler": """
        def train(model, loader, optimizer):
            for x, y in loader:
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except torch.cuda.OutOfMemoryError:
                    torch.cuda.empty_cache()
                    continue
    """,
    "between models": """
        def compare(builders, loader):
            for build in builders:
                model = build().cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                del model, optimizer
                torch.cuda.empty_cache()
    """,
    "between trials": """
        import gc

        def sweep(lrs, build, train, loader):
            scores = {}
            for lr in lrs:
                model = build()
                optimizer = torch.optim.Adam(model.parameters(), lr=lr)
                scores[lr] = train(model, loader, optimizer)
                del model, optimizer
                gc.collect()
                torch.cuda.empty_cache()
            return scores
    """,
    "folds": """
        def cross_validate(splits, build, fit, evaluate):
            results = []
            for fold, (train_loader, val_loader) in enumerate(splits):
                net = build()
                fit(net, train_loader)
                with torch.no_grad():
                    results.append(evaluate(net, val_loader))
                net.cpu()
                torch.cuda.empty_cache()
            return results
    """,
    "a training for each task": """
        class Experiment:
            def run(self):
                for i, (train_dataloader, val_dataloader) in enumerate(zip(self.train_dataloader, self.val_dataloader)):
                    self.trainer.fit(self.model, train_dataloader, val_dataloader)
                    with torch.no_grad():
                        self.evaluate()

            def evaluate(self):
                torch.cuda.empty_cache()
                self.trainer.test(self.model, self.test_dataloader)
                torch.cuda.empty_cache()
    """,
    "a training for each task, of one loader": """
        def main(learner, loaders, train_loader):
            for task, loader in enumerate(train_loader):
                learner.train(loader)
                torch.cuda.empty_cache()
    """,
    "a training for each client": """
        from federated import train

        def main(nets, train_loader):
            for client, loader in enumerate(train_loader):
                train(nets[client], loader, epochs=3)
                torch.cuda.empty_cache()
    """,
    "batch sizes": """
        def benchmark(model, sizes):
            for n in sizes:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
                x = torch.randn(n, 3, 224, 224, device="cuda")
                for _ in range(10):
                    model(x).sum().backward()
                print(n, torch.cuda.max_memory_allocated())
    """,
    "Lightning, at the end of the epoch": """
        import pytorch_lightning as pl

        class Lit(pl.LightningModule):
            def training_step(self, batch, batch_idx):
                x, y = batch
                return F.cross_entropy(self.net(x), y)

            def on_train_epoch_end(self):
                torch.cuda.empty_cache()
    """,
    "another cache": """
        def train(model, loader, optimizer, feature_store):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                feature_store.empty_cache()
                model.empty_cache()
    """,
    "loading shards": """
        def merge(paths, model):
            for path in paths:
                state = torch.load(path, map_location="cuda")
                model.load_state_dict(state, strict=False)
                del state
                torch.cuda.empty_cache()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)

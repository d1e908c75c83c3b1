from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG406"

FLAGGED = {
    "every so many steps, and only the last one is run": """
        import copy

        def train(net, loader, optimizer):
            states = []
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
                if step % 10 == 0:
                    states.append(copy.deepcopy(net.state_dict()))  # !
            print([len(state) for state in states])
            net.load_state_dict(states[-1])
    """,
    "after each step, though each is run": """
        import copy

        def train(net, loader, optimizer, x_test):
            members = []
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
                members.append(copy.deepcopy(net))  # !
            with torch.no_grad():
                return torch.stack([member(x_test) for member in members])
    """,
    "one of several callbacks, at each validation": """
        class KeepBest:
            def __init__(self, keep):
                self.keep, self.ranking, self.weights = keep, [], {}

            def on_validation(self, loop, score):
                self.weights[loop.step] = {k: v.clone() for k, v in loop.net.state_dict().items()}  # !
                self.ranking = sorted([*self.ranking, (score, loop.step)])[: self.keep]

        class Stopper:
            def __init__(self):
                self.best = 1e9

            def on_validation(self, loop, score):
                self.best = min(self.best, score)

        class Loop:
            def __init__(self, net, callbacks, every):
                self.net, self.callbacks, self.every = net, callbacks, every
                self.optimizer = torch.optim.Adam(net.parameters())
                self.step = 0

            def fit(self, loader):
                for x, y in loader:
                    loss = F.mse_loss(self.net(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.step += 1
                    if self.step % self.every == 0:
                        for callback in self.callbacks:
                            callback.on_validation(self, loss.item())
    """,
    "all but the ranking is kept": """
        import copy

        class Best:
            def __init__(self, keep):
                self.keep, self.ranking, self.weights = keep, [], {}

            def offer(self, score, step, model):
                self.ranking.append((score, step))
                self.weights[step] = copy.deepcopy(model.state_dict())  # !
                if len(self.ranking) > self.keep:
                    self.ranking.pop(0)

        def train(model, optimizer, loader, every):
            best = Best(3)
            for step, (x, y) in enumerate(loader):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % every == 0:
                    best.offer(-loss.item(), step, model)
    """,
    "state dict, each batch": """
        import copy

        def train(model, loader, optimizer):
            snapshots = []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                snapshots.append(copy.deepcopy(model.state_dict()))  # !
            return snapshots
    """,
    "the model itself": """
        from copy import deepcopy

        def train(net, loader, optimizer, epochs):
            trajectory = []
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.mse_loss(net(x), y).backward()
                    optimizer.step()
                    trajectory.append(deepcopy(net))  # !
            return trajectory
    """,
    "clones by name": """
        def train(model, loader, optimizer):
            weights = []
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                weights.append({k: v.clone() for k, v in model.state_dict().items()})  # !
    """,
    "dict keyed by the step": """
        import copy

        class Trainer:
            def __init__(self, model):
                self.model = model
                self.optimizer = torch.optim.Adam(model.parameters())
                self.checkpoints = {}

            def fit(self, loader):
                for step, (x, y) in enumerate(loader):
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.optimizer.step()
                    self.checkpoints[step] = copy.deepcopy(self.model.state_dict())  # !
    """,
    "an entry for each step, by an update": """
        from copy import deepcopy

        def train(model, loader, optimizer):
            kept = {}
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                kept.update({step: deepcopy(model.state_dict())})  # !
            return kept
    """,
    "in the step of a trainer": """
        import copy

        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer
                self.history = []

            def train_step(self, x, y):
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
                self.history.append(copy.deepcopy(self.model))  # !

            def fit(self, loader):
                for x, y in loader:
                    self.train_step(x, y)
    """,
    "first into a variable, in a tuple": """
        import copy as cp

        def train(model, loader, optimizer):
            log = []
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                state = cp.deepcopy(model.state_dict())
                log.append((i, loss.item(), state))  # !
    """,
    "a helper copies": """
        def snapshot(model):
            return {name: p.detach().clone() for name, p in model.state_dict().items()}

        def train(model, loader, optimizer):
            states = []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                states += [snapshot(model)]  # !
            return states
    """,
    "script, a while loop, copied to the CPU": """
        net = nn.Linear(2, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        path = []
        i = 0
        while i < 5000:
            opt.zero_grad()
            net(torch.randn(16, 2)).pow(2).mean().backward()
            opt.step()
            path.append({k: v.detach().cpu().clone() for k, v in net.state_dict().items()})  # !
            i += 1
    """,
    "lists by name": """
        from copy import deepcopy

        def train(gen, disc, loader, g_opt, d_opt):
            history = defaultdict(list)
            for real in loader:
                d_opt.zero_grad()
                disc(real).mean().backward()
                d_opt.step()
                g_opt.zero_grad()
                disc(gen(torch.randn(len(real), 64))).mean().backward()
                g_opt.step()
                history["gen"].append(deepcopy(gen.state_dict()))  # !
    """,
    "a callback of each validation, which nothing here calls": """
        import copy

        class Stopping(Callback):
            def __init__(self, patience):
                self.patience = patience
                self.best_step = None
                self.checkpoints = {}

            def on_validation(self, trainer, metrics):
                self.checkpoints[trainer.step] = copy.deepcopy(trainer.model.state_dict())  # !
                if metrics["loss"] < self.best:
                    self.best, self.best_step = metrics["loss"], trainer.step

            def on_train_end(self, trainer):
                trainer.model.load_state_dict(self.checkpoints[self.best_step])
    """,
    "a callback after each evaluation": """
        import copy

        class Keeper:
            def __init__(self):
                self.states = []

            def on_evaluate(self, args, state, control, model=None, **kwargs):
                self.states.append(copy.deepcopy(model.state_dict()))  # !
    """,
    "a callback": """
        import copy

        class RestoreBest:
            def __init__(self, monitor):
                self.monitor = monitor
                self.epochs = []

            def on_epoch_end(self, trainer, epoch, metrics):
                self.epochs.append((metrics[self.monitor], copy.deepcopy(trainer.model.state_dict())))  # !

            def on_fit_end(self, trainer):
                trainer.model.load_state_dict(max(self.epochs, key=lambda e: e[0])[1])
    """,
}

CLEAN = {
    "a ring": """
        import copy

        def train(net, opt, loader):
            ring = {}
            for step, (x, y) in enumerate(loader):
                loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                ring[step % 5] = copy.deepcopy(net.state_dict())
    """,
    "samples of a posterior, each run afterwards": """
        import copy

        def sample(net, x, y, optimizer, steps=6000, burn_in=1000):
            members = []
            for i in range(steps):
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
                if i % 100 == 0 and i > burn_in:
                    members.append(copy.deepcopy(net))
            with torch.no_grad():
                return torch.stack([member(x) for member in members])
    """,
    "states of a cyclic schedule, each loaded afterwards": """
        import copy

        def train(net, loader, optimizer, cycle=400):
            states = []
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
                if (step + 1) % cycle == 0:
                    states.append(copy.deepcopy(net.state_dict()))
            return states

        @torch.no_grad()
        def predict(net, x, states):
            outputs = []
            for state in states:
                net.load_state_dict(state)
                outputs.append(net(x))
            return torch.stack(outputs).mean(0)
    """,
    "of each task, with what mattered for it": """
        class Consolidation:
            def __init__(self):
                self.fishers, self.anchors = [], []

            def after_task(self, model, x, y):
                for p in model.parameters():
                    p.grad = None
                F.cross_entropy(model(x), y).backward()
                self.fishers.append([p.grad.pow(2).detach() for p in model.parameters()])
                self.anchors.append([p.clone().detach() for p in model.parameters()])
    """,
    "one of several callbacks, which keeps the last": twin(
        FLAGGED["one of several callbacks, at each validation"], ("self.weights[loop.step] =", "self.weights =")
    ),
    "the ranking and the weights are cut": twin(
        FLAGGED["all but the ranking is kept"], ("self.ranking.pop(0)", "del self.weights[self.ranking.pop(0)[1]]")
    ),
    "the best only": """
        import copy

        def train(model, loader, optimizer, evaluate, epochs):
            best, best_state = 0.0, None
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                acc = evaluate(model)
                if acc > best:
                    best, best_state = acc, copy.deepcopy(model.state_dict())
            model.load_state_dict(best_state)
    """,
    "the best only, an attribute": """
        from copy import deepcopy

        class EarlyStopping:
            def __init__(self):
                self.best, self.state = float("inf"), None

            def fit(self, model, loader, optimizer):
                for x, y in loader:
                    loss = F.cross_entropy(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    if loss.item() < self.best:
                        self.best = loss.item()
                        self.state = deepcopy(model.state_dict())
    """,
    "one for each epoch": """
        from copy import deepcopy

        def train(model, loader, optimizer, epochs):
            kept = {}
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                kept.update({epoch: deepcopy(model.state_dict())})
            return kept
    """,
    "the last": """
        import copy

        def train(model, loader, optimizer):
            for x, y in loader:
                before = copy.deepcopy(model.state_dict())
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                if torch.isnan(loss):
                    model.load_state_dict(before)
    """,
    "by a fixed name": """
        import copy

        def train(model, loader, optimizer):
            states = {"first": copy.deepcopy(model.state_dict())}
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                states["last"] = copy.deepcopy(model.state_dict())
            return states
    """,
    "deque": """
        import copy

        def train(model, loader, optimizer):
            recent = deque(maxlen=5)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                recent.append(copy.deepcopy(model.state_dict()))
            return recent
    """,
    "trimmed": """
        import copy

        def train(model, loader, optimizer, keep=3):
            recent, older = [], []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                recent.append(copy.deepcopy(model.state_dict()))
                if len(recent) > keep:
                    recent.pop(0)
                older.append(copy.deepcopy(model))
                older = older[-keep:]
    """,
    "a pool of opponents, trimmed": """
        from copy import deepcopy

        class SelfPlay:
            def __init__(self, policy, optimizer):
                self.policy, self.optimizer = policy, optimizer
                self.pool = []

            def train(self, loader):
                for obs, ret in loader:
                    self.optimizer.zero_grad()
                    F.mse_loss(self.policy(obs), ret).backward()
                    self.optimizer.step()
                    self.pool.append(deepcopy(self.policy.state_dict()))
                    if len(self.pool) > 10:
                        del self.pool[0]
    """,
    "clients of a round": """
        import copy

        def federated(model, clients, rounds, local_train):
            for r in range(rounds):
                local = []
                for client in clients:
                    net = copy.deepcopy(model)
                    for x, y in client:
                        local_train(net, x, y).backward()
                    local.append(copy.deepcopy(net.state_dict()))
                mean = {k: torch.stack([s[k].float() for s in local]).mean(0) for k in local[0]}
                model.load_state_dict(mean)
    """,
    "clients of a round, a list that is cleared": """
        import copy

        class Server:
            def __init__(self, model):
                self.model, self.updates = model, []

            def run(self, clients, rounds):
                for _ in range(rounds):
                    for client in clients:
                        client.fit(self.model).backward()
                        self.updates.append(copy.deepcopy(client.model.state_dict()))
                    self.aggregate()
                    self.updates.clear()

            def aggregate(self):
                self.model.load_state_dict(self.updates[0])
    """,
    "an ensemble": """
        import copy

        def ensemble(net, n):
            nets = []
            for _ in range(n):
                nets.append(copy.deepcopy(net))
            return nn.ModuleList(nets)
    """,
    "clones of a layer": """
        import copy

        def clones(module, n):
            return nn.ModuleList([copy.deepcopy(module) for _ in range(n)])

        def train(loader, optimizer):
            layers = clones(nn.Linear(8, 8), 6)
            for x, y in loader:
                for layer in layers:
                    x = layer(x)
                optimizer.zero_grad()
                F.mse_loss(x, y).backward()
                optimizer.step()
    """,
    "aliases": """
        def train(model, loader, optimizer):
            states = []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                states.append(model.state_dict())
            return states
    """,
    "something else is copied": """
        import copy

        def train(model, loader, optimizer, config):
            metrics, log = {"loss": 0.0}, []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                metrics["loss"] = loss.item()
                log.append(copy.deepcopy(metrics))
                log.append({k: v for k, v in config.items()})
    """,
    "to a file": """
        import copy

        def train(model, loader, optimizer):
            saved = []
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                torch.save(copy.deepcopy(model.state_dict()), f"step{step}.pt")
                saved.append(f"step{step}.pt")
            return saved
    """,
    "only once": """
        import copy

        def train(model, loader, optimizer):
            kept = []
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if step == 100:
                    kept.append(copy.deepcopy(model.state_dict()))
            return kept
    """,
    "a few numbers of it": """
        def train(model, loader, optimizer):
            norms = []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                norms.append({k: v.float().norm().item() for k, v in model.state_dict().items()})
            return norms
    """,
    "a callback of each validation that keeps one": """
        import copy

        class Stopping(Callback):
            def __init__(self):
                self.checkpoints = {}
                self.best = None

            def on_validation(self, trainer, metrics):
                self.checkpoints["last"] = copy.deepcopy(trainer.model.state_dict())
                self.best = copy.deepcopy(trainer.model.state_dict())

            def on_eval_end(self, trainer, metrics):
                self.checkpoints = {trainer.step: copy.deepcopy(trainer.model.state_dict())}
    """,
    "a callback of each validation that takes out the one before": """
        import copy

        class Stopping(Callback):
            def __init__(self):
                self.checkpoints = {}

            def on_validation(self, trainer, metrics):
                self.checkpoints[trainer.step] = copy.deepcopy(trainer.model.state_dict())
                if len(self.checkpoints) > 3:
                    self.checkpoints.pop(min(self.checkpoints))
    """,
    "a callback of each validation that keeps what is better": """
        import copy

        class Stopping(Callback):
            def __init__(self):
                self.checkpoints = {}
                self.best = float("inf")

            def on_validation(self, trainer, metrics):
                if metrics["loss"] < self.best:
                    self.best = metrics["loss"]
                    self.checkpoints[trainer.step] = copy.deepcopy(trainer.model.state_dict())
    """,
    "numbers of each validation": """
        class Meter(Callback):
            def __init__(self):
                self.losses = {}
                self.states = {}

            def on_validation(self, trainer, metrics):
                self.losses[trainer.step] = metrics["loss"]
                self.states[trainer.step] = trainer.model.state_dict()
    """,
    "before all validations": """
        import copy

        class First:
            def __init__(self):
                self.states = []

            def on_validation_setup(self, trainer):
                self.states.append(copy.deepcopy(trainer.model.state_dict()))
    """,
    "a callback that keeps three": """
        import copy

        class KeepThree:
            def __init__(self, monitor):
                self.monitor = monitor
                self.epochs = []

            def on_epoch_end(self, trainer, epoch, metrics):
                self.epochs.append((metrics[self.monitor], copy.deepcopy(trainer.model.state_dict())))
                self.epochs.sort(key=lambda e: -e[0])
                del self.epochs[3:]
    """,
    "a callback of the end": """
        import copy

        class Keeper:
            def __init__(self):
                self.final = []

            def on_fit_end(self, trainer):
                self.final.append(copy.deepcopy(trainer.model.state_dict()))
    """,
    "the last value of each parameter": """
        class Walk:
            def __init__(self, net):
                self.net = net
                self.old = {}

            def observe(self, x, y, optimizer):
                optimizer.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                optimizer.step()
                for name, param in self.net.named_parameters():
                    self.old[name] = param.detach().clone()

        def train(net, loader, optimizer):
            walk = Walk(net)
            for x, y in loader:
                walk.observe(x, y, optimizer)
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


EPOCHS = """
    import copy

    def fit(model, optimizer, loader, epochs):
        history, losses = [], []
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
            losses.append(validate(model))
            history.append(copy.deepcopy(model.state_dict()))  # !
        model.load_state_dict(history[losses.index(min(losses))])
"""


def test_those_of_all_epochs_of_which_one_is_read() -> None:
    assert_flagged(EPOCHS, CODE)
    by_name = EPOCHS.replace("history[losses.index(min(losses))]", "history[best_epoch]")
    assert_flagged(by_name, CODE)


@pytest.mark.parametrize(
    "change",
    [
        ("model.load_state_dict(history[losses.index(min(losses))])", "return history"),
        (
            "model.load_state_dict(history[losses.index(min(losses))])",
            "for i in range(epochs): test(model, history[i])",
        ),
        ("model.load_state_dict(history[losses.index(min(losses))])", "torch.save(history, 'all.pt')"),
        ("history.append(", "if losses[-1] == min(losses): history[:] = [0] * epoch; history.append("),
        ("F.mse_loss(model(x), y).backward()", "print(F.mse_loss(model(x), y).item())"),
    ],
)
def test_those_of_all_epochs_that_something_else_is_done_with(change: tuple[str, str]) -> None:
    assert_clean(twin(EPOCHS, change), CODE)


ENSEMBLE = """
    import copy

    def fit(net, x, y, period=10):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        snapshots = []
        for step in range(100):
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if (step + 1) % period == 0:
                snapshots.append(copy.deepcopy(net).eval())  # !
        return snapshots

    def {use}
"""


def test_an_ensemble_that_is_returned() -> None:
    vote = "vote(members, x):\n        return torch.stack([m(x) for m in members]).mean(0)"
    assert_clean(ENSEMBLE.format(use=vote).replace("  # !", ""), CODE)
    assert_flagged(ENSEMBLE.format(use="save(members, path):\n        torch.save(members, path)"), CODE)

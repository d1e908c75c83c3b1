from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG217"


def fit(*lines: str, after: str = "model.load_state_dict(best_state)", before: str = "best_state = None") -> str:
    body = "\n                ".join(lines)
    return f"""
        import copy

        def fit(model, loader, validate, optimizer, epochs, other):
            best = 0.0
            {before}
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.mse_loss(model(x), y).backward()
                    optimizer.step()
                score = validate(model)
                {body}
            {after}
            return model
    """


def stopper(kept: str, restored: str = "model.load_state_dict(self.best_state)", test: str = "loss < self.best") -> str:
    return f"""
        import copy

        class EarlyStopping:
            def __init__(self):
                self.best, self.best_state, self.count = float("inf"), None, 0

            def __call__(self, loss, model):
                if {test}:
                    self.best = loss
                    {kept}
                    self.count = 0
                else:
                    self.count += 1

            def restore(self, model):
                {restored}
    """


TRIALS = """
        def search(trials, loader, validate, other):
            best, {before} = 0.0, None
            for lr in trials:
                model = nn.Linear(4, 1)
                optimizer = torch.optim.Adam(model.parameters(), lr)
                for x, y in loader:
                    optimizer.zero_grad()
                    F.mse_loss(model(x), y).backward()
                    optimizer.step()
                score = validate(model)
                if score > best:
                    best, {kept}
            {after}
"""

FLAGGED = {
    "the best": fit("if score > best:", "    best = score", "    best_state = model.state_dict()  # !"),
    "in one statement": fit("if score > best:", "    best, best_state = score, model.state_dict()  # !"),
    "where it is no worse": fit("if score <= best:", "    pass", "else:", "    best_state = model.state_dict()  # !"),
    "another dict on some ways behind the loop": fit(
        "if score > best:",
        "    best = score",
        "    state = {}",
        "    state['net'] = model.state_dict()  # !",
        before="state = {}",
        after="if other:\n                state = {'net': None}\n            torch.save(state, 'best.pt')",
    ),
    "beside the state of a schedule": fit(
        "if score > best:",
        "    state = {'net': model.state_dict(), 'sched': policy.state_dict()}  # !",
        before="policy = torch.optim.lr_scheduler.StepLR(optimizer, 10); state = None",
        after="torch.save(state, 'best.pt')",
    ),
    "by a flag": fit("if is_best:", "    best_state = model.state_dict()  # !"),
    "another dict": fit("if score > best:", "    best_state = model.state_dict().copy()  # !"),
    "yet another dict": fit("if score > best:", "    best_state = dict(model.state_dict())  # !"),
    "a dict of the same values": fit(
        "if score > best:", "    best_state = {k: v for k, v in model.state_dict().items()}  # !"
    ),
    "a dict of the same memory": fit(
        "if score > best:", "    best_state = {k: v.detach() for k, v in model.state_dict().items()}  # !"
    ),
    "a shallow copy": fit("if score > best:", "    best_state = copy.copy(model.state_dict())  # !"),
    "saved after the loop": fit(
        "if score > best:", "    best_state = model.state_dict()  # !", after="torch.save(best_state, 'best.pt')"
    ),
    "saved with other things": fit(
        "if score > best:",
        "    best_state = model.state_dict()  # !",
        after="torch.save({'model': best_state, 'score': best}, 'best.pt')",
    ),
    "returned": fit("if score > best:", "    best_state = model.state_dict()  # !", after="return best_state, best"),
    "under a condition after the loop": fit(
        "if score > best:",
        "    best_state = model.state_dict()  # !",
        after="if best_state is not None: model.load_state_dict(best_state)",
    ),
    "the start of each fold": """
        def folds(model, folds, lr):
            start = model.state_dict()  # !
            for fold in folds:
                model.load_state_dict(start)
                optimizer = torch.optim.SGD(model.parameters(), lr)
                for x, y in fold:
                    optimizer.zero_grad()
                    F.mse_loss(model(x), y).backward()
                    optimizer.step()
    """,
    "the start, once it was trained": """
        def search(self, batches):
            before = self.model.state_dict()  # !
            for x, y in batches:
                self.optimizer.zero_grad()
                F.mse_loss(self.model(x), y).backward()
                self.optimizer.step()
            self.model.load_state_dict(before)
    """,
    "the model itself": fit("if score > best:", "    best, best_model = score, model  # !", after="return best_model"),
    "the model itself, saved": fit(
        "if score > best:",
        "    best_model = model  # !",
        before="best_model = None",
        after="torch.save(best_model.state_dict(), 'best.pt')",
    ),
    "the best epoch of each of several trials": """
        def search(trials, loader, validate, epochs):
            for lr in trials:
                model, best = nn.Linear(4, 1), 0.0
                optimizer = torch.optim.Adam(model.parameters(), lr)
                for epoch in range(epochs):
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.mse_loss(model(x), y).backward()
                        optimizer.step()
                    score = validate(model)
                    if score > best:
                        best, best_state = score, model.state_dict()  # !
                model.load_state_dict(best_state)
                print(lr, validate(model))
    """,
    "a checkpoint": fit(
        "if score > best:",
        "    best = score",
        '    kept = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}  # !',
        after='model.load_state_dict(kept["model"])',
        before="kept = None",
    ),
    "a checkpoint that is saved": fit(
        "if score > best:",
        "    best = score",
        '    kept = {"model": model.state_dict(), "score": score}  # !',
        after='torch.save(kept, "best.pt")',
        before="kept = {}",
    ),
    "the state in a checkpoint that is saved": fit(
        "if score > best:",
        '    best, kept = score, {"model": model.state_dict(), "score": score}  # !',
        after='torch.save(kept["model"], "best.pt")',
        before="kept = {}",
    ),
    "an entry of a checkpoint": fit(
        "if score > best:",
        "    best = score",
        '    kept["model"] = model.state_dict()  # !',
        after='model.load_state_dict(kept["model"])',
        before="kept = {}",
    ),
    "an entry of a checkpoint that is returned": fit(
        "if score > best:",
        "    best = score",
        '    kept["epoch"] = epoch',
        '    kept["model"] = model.state_dict()  # !',
        after="return model, kept",
        before="kept = {}",
    ),
    "a list of states": fit(
        "states.append(model.state_dict())  # !",
        "scores.append(score)",
        after="torch.save(states[scores.index(max(scores))], path)",
        before="states, scores = [], []",
    ),
    "a list of checkpoints": fit(
        'history.append({"epoch": epoch, "model": model.state_dict()})  # !',
        after="return history",
        before="history = []",
    ),
    "a state for each epoch": fit(
        "if score > best:",
        "    states[epoch] = model.state_dict()  # !",
        after="other.load_state_dict(states[0])",
        before="states = {}",
    ),
    "states of one model that clients train in turn": """
        def round_of(net, start, clients, lr):
            collected = []
            for client in clients:
                net.load_state_dict(start)
                optimizer = torch.optim.SGD(net.parameters(), lr)
                for x, y in client:
                    optimizer.zero_grad()
                    F.mse_loss(net(x), y).backward()
                    optimizer.step()
                collected.append(net.state_dict())  # !
            return average(collected)
    """,
    "early stopping with a checkpoint": stopper(
        'self.best_state = {"loss": loss, "model": model.state_dict()}  # !',
        restored='model.load_state_dict(self.best_state["model"])',
    ),
    "early stopping": stopper("self.best_state = model.state_dict()  # !"),
    "early stopping, another dict": stopper("self.best_state = dict(model.state_dict())  # !"),
    "early stopping that saves": stopper(
        "self.best_state = model.state_dict()  # !", restored="torch.save(self.best_state, 'best.pt')"
    ),
    "an entry of a record that is begun with nothing": """
        def fit(net, loader, score):
            optimizer = torch.optim.Adam(net.parameters())
            best = {"epoch": -1, "loss": float("inf"), "state": None}
            for epoch in range(9):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(net(x), y).backward()
                    optimizer.step()
                loss = score(net)
                if loss < best["loss"]:
                    best = {"epoch": epoch, "loss": loss, "state": net.state_dict()}  # !
            torch.save(best, "best.pt")
    """,
    "the weights before, mixed with those after": """
        def reptile(net, tasks, step=0.1):
            for task in tasks:
                before = net.state_dict()  # !
                optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
                for x, y in task:
                    optimizer.zero_grad()
                    F.mse_loss(net(x), y).backward()
                    optimizer.step()
                after = net.state_dict()
                net.load_state_dict({k: before[k] + (after[k] - before[k]) * step for k in before})
    """,
}

BEST = "if score > best:", "    best = score", "    state = {}", "    state['net'] = model.state_dict()"
LAST = "state = {}\n                state['net'] = model.state_dict()\n                torch.save(state, 'last.pt')"
SCHEDULED = "policy = torch.optim.lr_scheduler.StepLR(optimizer, 10); state = {}"

CLEAN = {
    "saved at once, and another dict behind the loop": fit(
        *BEST,
        "    torch.save(state, 'best.pt')",
        before="state = {}",
        after=f"if other:\n                {LAST}",
    ),
    "another dict as it is made": fit(
        "if score > best:",
        "    best, state = score, {'net': model.state_dict(), 'epoch': epoch}",
        "    torch.save(state, 'best.pt')",
        before="state = None",
        after="state = {'net': model.state_dict(), 'epoch': epochs}\n            torch.save(state, 'last.pt')",
    ),
    "another state under the same key": fit(
        *BEST,
        "    torch.save(state, 'best.pt')",
        before="state = {}",
        after="state['net'] = model.state_dict()\n            torch.save(state, 'last.pt')",
    ),
    "another state, and then it is given back": fit(
        "if score > best:",
        "    best_state = model.state_dict()",
        "    torch.save(best_state, 'best.pt')",
        after="with torch.no_grad():\n                best_state = model.state_dict()\n            return best_state",
    ),
    "an object that saves the last one": stopper(
        "self.best_state = model.state_dict(); torch.save(self.best_state, 'best.pt')",
        restored="self.best_state = model.state_dict(); torch.save(self.best_state, 'last.pt')",
    ),
    "the state of a schedule": fit(
        "if score > best:",
        "    best = score",
        "    state['rates'] = policy.state_dict()",
        "policy.step()",
        before=SCHEDULED,
        after="torch.save(state, 'best.pt')",
    ),
    "the state of a schedule, beside others": fit(
        "if score > best:",
        "    state = {'lr_scheduler': other.state_dict(), 'epoch': epoch}",
        "other.step()",
        before="state = None",
        after="torch.save(state, 'best.pt')",
    ),
    "the states of a schedule": fit(
        "history.append(policy.state_dict())",
        "policy.step()",
        before="policy = torch.optim.lr_scheduler.StepLR(optimizer, 10); history = []",
        after="print(history[-1])",
    ),
    "a deep copy": fit("if score > best:", "    best_state = copy.deepcopy(model.state_dict())"),
    "copies of its tensors": fit(
        "if score > best:", "    best_state = {k: v.clone() for k, v in model.state_dict().items()}"
    ),
    "a checkpoint of a copy": fit(
        "if score > best:",
        '    kept = {"epoch": epoch, "model": copy.deepcopy(model.state_dict())}',
        after='model.load_state_dict(kept["model"])',
    ),
    "a checkpoint that is saved right away": fit(
        "if score > best:",
        '    kept = {"epoch": epoch, "model": model.state_dict()}',
        '    torch.save(kept, "best.pt")',
        after='model.load_state_dict(torch.load("best.pt")["model"])',
    ),
    "a checkpoint of the optimizer": fit(
        "if score > best:",
        '    kept = {"epoch": epoch, "optimizer": optimizer.state_dict()}',
        after="return kept",
    ),
    "a checkpoint that is copied later": fit(
        "if score > best:",
        '    kept = {"epoch": epoch, "model": model.state_dict()}',
        '    kept["model"] = copy.deepcopy(kept["model"])',
        after='model.load_state_dict(kept["model"])',
    ),
    "a checkpoint of the last epoch": fit(
        'kept = {"epoch": epoch, "model": model.state_dict()}',
        after="return kept",
    ),
    "another entry": fit(
        "if score > best:",
        '    kept["epoch"] = epoch',
        '    kept["model"] = model.state_dict()',
        '    torch.save(kept["model"], "best.pt")',
        after='return kept["epoch"]',
        before="kept = {}",
    ),
    "a list of copies": fit(
        "states.append(copy.deepcopy(model.state_dict()))",
        after="return states",
        before="states = []",
    ),
    "a list that is saved in the loop": fit(
        "states = [model.state_dict()]",
        "torch.save(states, path)",
        after="torch.save(model.state_dict(), path)",
    ),
    "a list of the loop's own": fit(
        "states = []",
        "states.append(model.state_dict())",
        "torch.save(states, path)",
        after="print(states)",
    ),
    "a list of other things": fit(
        "states.append(model.state_dict()['head.bias'].mean().item())",
        after="return states",
        before="states = []",
    ),
    "a list of the states of an optimizer": fit(
        "states.append(optimizer.state_dict())", after="return states", before="states = []"
    ),
    "a state for each of several models": """
        def folds(make, folds, lr):
            weights = []
            for fold in folds:
                model = make()
                optimizer = torch.optim.Adam(model.parameters(), lr)
                for x, y in fold:
                    optimizer.zero_grad()
                    F.mse_loss(model(x), y).backward()
                    optimizer.step()
                weights.append(model.state_dict())
            return average(weights)
    """,
    "the states of clients": """
        def gather(clients, loaders):
            states = {}
            for client, loader in zip(clients, loaders):
                for x, y in loader:
                    client.optimizer.zero_grad()
                    F.mse_loss(client.model(x), y).backward()
                    client.optimizer.step()
                states[client.name] = client.model.state_dict()
            return states
    """,
    "the states of models by their place": """
        def gather(models, optimizers, loader):
            states = []
            for i in range(len(models)):
                for x, y in loader:
                    optimizers[i].zero_grad()
                    F.mse_loss(models[i](x), y).backward()
                    optimizers[i].step()
                states.append(models[i].state_dict())
            return states
    """,
    "a list of states that a model is given": """
        def average(model, paths):
            states = []
            for path in paths:
                model.load_state_dict(torch.load(path))
                states.append(model.state_dict())
            return states
    """,
    "a dict of copies": fit(
        "if score > best:", "    best_state = {k: v.clone() for k, v in model.state_dict().items()}"
    ),
    "a dict of detached copies": fit(
        "if score > best:", "    best_state = {k: v.detach().clone() for k, v in model.state_dict().items()}"
    ),
    "a dict of what is computed": fit(
        "if score > best:", "    best_state = {k: v * 1 for k, v in model.state_dict().items()}"
    ),
    "on the host": fit("if score > best:", "    best_state = {k: v.cpu() for k, v in model.state_dict().items()}"),
    "saved right away": fit(
        "if score > best:",
        "    best_state = model.state_dict()",
        "    torch.save(best_state, 'best.pt')",
        after="model.load_state_dict(torch.load('best.pt'))",
    ),
    "of the last epoch": fit("best_state = model.state_dict()"),
    "of the main process": fit("if rank == 0:", "    best_state = model.state_dict()"),
    "late in the training": fit("if epoch > 10:", "    best_state = model.state_dict()"),
    "into another model": fit(
        "if score > best:", "    other.load_state_dict(model.state_dict())", after="other.eval()"
    ),
    "of another model, after the loop": fit(
        "if score > best:", "    best_state = model.state_dict()", after="other.load_state_dict(best_state)"
    ),
    "copied later": fit(
        "if score > best:",
        "    best_state = model.state_dict()",
        "    best_state = copy.deepcopy(best_state)",
    ),
    "of an optimizer": fit(
        "if score > best:", "    best_state = optimizer.state_dict()", after="optimizer.load_state_dict(best_state)"
    ),
    "filled from other weights": """
        def load(model, path, loader, optimizer):
            state = model.state_dict()
            state.update(torch.load(path))
            model.load_state_dict(state)
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
    """,
    "entry by entry": """
        def transfer(model, source, loader, optimizer):
            state = model.state_dict()
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            for name, value in source.items():
                state[name] = value
            model.load_state_dict(state)
    """,
    "a model for each fold": """
        def folds(make, folds):
            model = make()
            start = model.state_dict()
            for fold in folds:
                model = make()
                model.load_state_dict(start)
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                for x, y in fold:
                    optimizer.zero_grad()
                    F.mse_loss(model(x), y).backward()
                    optimizer.step()
    """,
    "the state of the best of several models": TRIALS.format(
        before="best_state", kept="best_state = score, model.state_dict()", after="other.load_state_dict(best_state)"
    ),
    "that is loaded into the last of them": TRIALS.format(
        before="best_state", kept="best_state = score, model.state_dict()", after="model.load_state_dict(best_state)"
    ),
    "the best of several models": TRIALS.format(
        before="best_model", kept="best_model = score, model", after="return best_model"
    ),
    "the best of a list of models": """
        def pick(models, loader, validate, optimizer):
            best, best_model = 0.0, None
            for model in models:
                for x, y in loader:
                    optimizer.zero_grad()
                    F.mse_loss(model(x), y).backward()
                    optimizer.step()
                if validate(model) > best:
                    best, best_model = validate(model), model
            return best_model
    """,
    "a copy of the model": fit("if score > best:", "    best_model = copy.deepcopy(model)", after="return best_model"),
    "the model, used in the loop only": fit(
        "if score > best:",
        "    best_model = model",
        "    torch.save(best_model.state_dict(), 'best.pt')",
        after="model.load_state_dict(torch.load('best.pt'))",
    ),
    "the loop ends there": fit(
        "if score > best:",
        "    best_state = model.state_dict()",
        "    break",
        after="torch.save(best_state, 'last.pt')",
    ),
    "the model is saved at once, and read again": fit(
        "if score > best:",
        "    best_model = model",
        "    torch.save(best_model.state_dict(), 'best.pt')",
        after="best_model.load_state_dict(torch.load('best.pt'))",
    ),
    "of a model that is not trained": """
        def head_only(backbone, head, loader):
            optimizer = torch.optim.Adam(head.parameters())
            start = backbone.state_dict()
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(head(backbone(x)), y).backward()
                optimizer.step()
            backbone.load_state_dict(start)
    """,
    "of a teacher": """
        def distill(teacher, student, optimizer, loader):
            state = teacher.state_dict()
            for x in loader:
                optimizer.zero_grad()
                F.mse_loss(student(x), teacher(x).detach()).backward()
                optimizer.step()
            teacher.load_state_dict(state)
    """,
    "nothing is trained in between": """
        def check(model, batches):
            state = model.state_dict()
            for x in batches:
                print(model(x).mean().item())
            model.load_state_dict(state)
    """,
    "a state for a checkpoint": """
        def checkpoint(model, optimizer, epoch, best, score):
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            if score > best:
                torch.save(state, "best.pt")
    """,
    "early stopping that copies": stopper("self.best_state = copy.deepcopy(model.state_dict())"),
    "early stopping that saves at once": stopper(
        "torch.save(model.state_dict(), 'best.pt')", restored="model.load_state_dict(torch.load('best.pt'))"
    ),
    "early stopping of another model": stopper(
        "self.best_state = model.state_dict()", restored="self.teacher.load_state_dict(self.best_state)"
    ),
    "the last state, for others": stopper("self.best_state = model.state_dict()", test="self.count == 0"),
    "what another method writes at once": """
        class Stopper:
            def __call__(self, loss, model):
                if self.best is None or loss < self.best:
                    self.best = loss
                    self.best_state = model.state_dict()
                    self.write()

            def write(self):
                torch.save(self.best_state, self.path)
    """,
    "a copy that the method makes": """
        class Stopper:
            def __call__(self, loss, model):
                if loss < self.best:
                    self.best = loss
                    model = copy.deepcopy(model).cpu()
                    self.best_state = model.state_dict()

            def restore(self, model):
                model.load_state_dict(self.best_state)
    """,
    "a model that a method makes anew": """
        class Search:
            def build(self, width):
                self.net = nn.Linear(8, width)
                self.opt = torch.optim.Adam(self.net.parameters())

            def run(self, widths, loader, score):
                best, best_state = 0, None
                for width in widths:
                    self.build(width)
                    for x, y in loader:
                        self.opt.zero_grad()
                        F.cross_entropy(self.net(x), y).backward()
                        self.opt.step()
                    if score(self.net) > best:
                        best, best_state = score(self.net), self.net.state_dict()
                torch.save(best_state, "best.pt")
    """,
    "states of models that a method makes anew": """
        class Server:
            def begin(self):
                self.local = copy.deepcopy(self.model)
                self.opt = torch.optim.SGD(self.local.parameters(), lr=0.1)

            def round(self, clients):
                states = []
                for x, y in clients:
                    self.begin()
                    self.opt.zero_grad()
                    F.cross_entropy(self.local(x), y).backward()
                    self.opt.step()
                    states.append(self.local.state_dict())
                return states
    """,
    "a file that is loaded into the model before it is used": """
        def fit(model, loader, score):
            optimizer = torch.optim.Adam(model.parameters())
            best, best_model = 0, None
            for epoch in range(9):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                if score(model) > best:
                    best, best_model = score(model), model
                    torch.save(model.state_dict(), "best.pt")
            model.load_state_dict(torch.load("best.pt"))
            return score(best_model)
    """,
    "a state that is gathered": fit(
        "if loss < best:", "    with FSDP.state_dict_type(model, FULL):", "        best_state = model.state_dict()"
    ),
    "a state that a helper fills": fit("average(best_state, model)", before="best_state = model.state_dict()"),
    "states that are counted": """
        def fit(model, loader):
            optimizer = torch.optim.Adam(model.parameters())
            states = []
            for epoch in range(9):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                states.append(model.state_dict())
                torch.save(states[-1], f"{epoch}.pt")
            print(len(states))
    """,
    "the number of an epoch beside a state": """
        def fit(model, loader, score):
            optimizer = torch.optim.Adam(model.parameters())
            best, best_point = 0, None
            for epoch in range(9):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                if score(model) > best:
                    best, best_point = score(model), {"epoch": epoch, "model": model.state_dict()}
                    torch.save(best_point, "best.pt")
            return best_point["epoch"]
    """,
    "a class with a state_dict of its own": """
        class Adapter(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(8, 2)

            def forward(self, x):
                return self.head(x)

            def state_dict(self):
                return {name: value.clone() for name, value in super().state_dict().items()}

        def fit(loader, score):
            model = Adapter()
            optimizer = torch.optim.Adam(model.parameters())
            best, best_state = 0, None
            for epoch in range(9):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                if score(model) > best:
                    best, best_state = score(model), model.state_dict()
            model.load_state_dict(best_state)
    """,
    "a copy of the weights before, mixed with those after": """
        def reptile(net, tasks, step=0.1):
            for task in tasks:
                before = copy.deepcopy(net.state_dict())
                optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
                for x, y in task:
                    optimizer.zero_grad()
                    F.mse_loss(net(x), y).backward()
                    optimizer.step()
                after = net.state_dict()
                net.load_state_dict({k: before[k] + (after[k] - before[k]) * step for k in before})
    """,
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


@pytest.mark.parametrize(
    ("taken", "loaded"),
    [
        ("model.state_dict()", "stopper.best_state"),
        ('{"loss": loss, "model": model.state_dict()}', 'stopper.best_state["model"]'),
    ],
)
def test_others_load_what_an_object_keeps(taken: str, loaded: str, tmp_path: Path) -> None:
    files = {
        "stopping.py": f"""
            class EarlyStopping:
                def __init__(self, patience):
                    self.patience, self.best, self.best_state = patience, float("inf"), None

                def __call__(self, loss, model):
                    if loss < self.best:
                        self.best, self.best_state = loss, {taken}
                    return loss > self.best
        """,
        "train.py": f"""
            import torch
            from stopping import EarlyStopping

            def fit(net, epochs, train, validate):
                stopper = EarlyStopping(3)
                for _ in range(epochs):
                    train(net)
                    if stopper(validate(net), net):
                        break
                net.load_state_dict({loaded})
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("stopping.py", 8)]
    files["stopping.py"] = files["stopping.py"].replace("model.state_dict()", "dict(copied(model.state_dict()))")
    assert lines_in_files(tmp_path, files, CODE) == []
    files["stopping.py"] = files["stopping.py"].replace("dict(copied(model.state_dict()))", "model.state_dict()")
    files["train.py"] = files["train.py"].replace(f"net.load_state_dict({loaded})", "print(stopper.best)")
    assert lines_in_files(tmp_path, files, CODE) == []


SHALLOW = """
        import copy

        class Agent:
            def __init__(self, net, config):
                self.net, self.config = net, config
                self.online = nn.Linear(4, 2)
                {made}
                self.opt = torch.optim.Adam(self.online.parameters())

            def learn(self, x, y):
                loss = F.mse_loss(self.online(x), self.target(y).detach())
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                {synchronized}
"""
AVERAGED = "for p, q in zip(self.target.parameters(), self.online.parameters()): p.data.lerp_(q.data, 0.01)"
LOADED = "self.target.load_state_dict(self.online.state_dict())"


@pytest.mark.parametrize(
    ("made", "synchronized"),
    [
        ("self.target = copy.copy(self.online)  # !", LOADED),
        ("self.target = copy.copy(self.online)  # !", AVERAGED),
        ("self.target = copy.copy(net)  # !", "self.target.load_state_dict(self.net.state_dict())"),
        ("self.target = copy.copy(self.net)  # !", "self.target.load_state_dict(self.net.state_dict(), strict=True)"),
        ("self.target = copy.copy(self.online)  # !\n                self.target.eval()", LOADED),
    ],
)
def test_a_shallow_copy(made: str, synchronized: str) -> None:
    assert_flagged(SHALLOW.format(made=made, synchronized=synchronized), CODE)


@pytest.mark.parametrize(
    ("made", "synchronized"),
    [
        ("self.target = copy.deepcopy(self.online)", LOADED),
        ("self.target = copy.copy(self.online)", "pass"),
        ("self.target = copy.copy(self.online); self.target.head = nn.Linear(2, 2)", LOADED),
        ("self.target = copy.copy(self.online); self.target.weight = nn.Parameter(torch.zeros(2, 4))", LOADED),
        ("self.target = copy.copy(self.online); setattr(self.target, 'weight', nn.Parameter(torch.ones(2)))", LOADED),
        ("self.target = copy.copy(self.online); self.target = copy.deepcopy(self.target)", LOADED),
        ("self.target = copy.copy(self.online); self.online = nn.Linear(4, 2)", LOADED),
        ("self.target = copy.copy(self.config)", LOADED),
        ("self.target, self.settings = nn.Linear(4, 2), copy.copy(self.config)", LOADED),
        ("self.target, self.nets = nn.Linear(4, 2), copy.copy([self.online])", LOADED),
        ("self.target, self.old = nn.Linear(4, 2), self.config.copy()", LOADED),
        ("self.target = nn.Linear(4, 2); self.mean = copy.copy(self.target)", LOADED),
    ],
)
def test_look_alikes_of_a_shallow_copy(made: str, synchronized: str) -> None:
    assert_clean(SHALLOW.format(made=made, synchronized=synchronized), CODE)


def test_a_shallow_copy_by_a_name_of_its_own() -> None:
    code = SHALLOW.format(made="self.target = copy(self.online)  # !", synchronized=LOADED)
    assert_flagged(code.replace("import copy", "from copy import copy"), CODE)
    assert_clean(code.replace("import copy", "from copy import deepcopy as copy").replace("  # !", ""), CODE)


def test_a_shallow_copy_of_an_optimizer() -> None:
    made = "self.twin = torch.optim.Adam(self.online.parameters()); self.second = copy.copy(self.twin)"
    assert_clean(SHALLOW.format(made=made, synchronized="self.second.load_state_dict(self.twin.state_dict())"), CODE)


def test_a_shallow_copy_of_a_network_that_says_how_it_is_copied() -> None:
    net = """
        class Net(nn.Linear):
            def __copy__(self):
                return copy.deepcopy(self)
    """
    code = SHALLOW.format(made="self.online = Net(4, 2); self.target = copy.copy(self.online)", synchronized=LOADED)
    assert_clean(net + code.replace("self.online = nn.Linear(4, 2)", "pass"), CODE)


def test_a_shallow_copy_in_a_function_and_a_helper_that_averages() -> None:
    snippet = """
        import copy

        def follow(slow, fast):
            with torch.no_grad():
                for p, q in zip(slow.parameters(), fast.parameters()):
                    p.mul_(0.99).add_(q, alpha=0.01)

        def train(net, loader, optimizer):
            teacher = copy.copy(net)  # !
            for x, y in loader:
                with torch.no_grad():
                    wanted = teacher(x)
                loss = F.mse_loss(net(x), wanted) + F.mse_loss(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                follow(teacher, net)
    """
    assert_flagged(snippet, CODE)
    assert_clean(snippet.replace("copy.copy(net)  # !", "copy.deepcopy(net)"), CODE)
    assert_clean(snippet.replace("follow(teacher, net)", "follow(net, teacher)").replace("  # !", ""), CODE)


IN_PAIRS = """
        import copy

        class Agent:
            def __init__(self):
                self.actor, self.critic = nn.Linear(4, 2), nn.Linear(6, 1)
                self.slow_actor = copy.copy(self.actor)  # !
                self.slow_critic = copy.copy(self.critic)  # !

            def follow(self, slow, fast, tau=0.01):
                for q, p in zip(slow.parameters(), fast.parameters()):
                    q.data.mul_(1 - tau).add_(p.data, alpha=tau)

            @torch.no_grad()
            def synchronize(self, tau):
                {}
"""
FOLLOWING = [
    """pairs = [(self.slow_actor, self.actor), (self.slow_critic, self.critic)]
                for slow, fast in pairs:
                    for q, p in zip(slow.parameters(), fast.parameters()):
                        q.lerp_(p, tau)""",
    """for slow, fast in ((self.slow_actor, self.actor), (self.slow_critic, self.critic)):
                    for q, p in zip(slow.parameters(), fast.parameters()):
                        q.copy_(tau * p + (1 - tau) * q)""",
    "self.follow(self.slow_actor, self.actor); self.follow(self.slow_critic, self.critic, tau)",
]


@pytest.mark.parametrize("following", FOLLOWING)
def test_shallow_copies_that_follow_in_pairs(following: str) -> None:
    code = IN_PAIRS.format(following)
    assert_flagged(code, CODE)
    assert_clean(code.replace("copy.copy(", "copy.deepcopy(").replace("  # !", ""), CODE)
    others = code.replace("(self.slow_actor, self.actor)", "(self.actor, self.slow_actor)").replace("  # !", "", 1)
    others = others.replace("self.follow(self.slow_actor, self.actor)", "self.follow(self.actor, self.slow_actor)")
    assert_flagged(others, CODE)
    none = code.replace("in pairs:", "in self.pairs:").replace("in ((self", "in zip((self")
    assert_clean(none.replace("self.follow(", "self.watch(").replace("  # !", ""), CODE)


def test_the_best_model_as_a_shallow_copy() -> None:
    better = ("if score > best:", "    best, best_model = score, copy.copy(model)  # !")
    kept = fit(*better, before="best_model = None", after="torch.save(best_model, 'net')")
    assert_flagged(kept, CODE)
    assert_clean(kept.replace("copy.copy(model)  # !", "copy.deepcopy(model)"), CODE)


ELASTIC = """
    class Elastic:
        def __init__(self, model):
            self.model = model
            self.anchor = {{}}

        def named(self):
            return [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]

        def consolidate(self):
            {keep}

        def penalty(self):
            {use}
            return total
"""
IN_TURN = (
    "total = 0",
    "for n, p in self.model.named_parameters():",
    "    total = total + (p - self.anchor[n]).pow(2).sum()",
)


def elastic(*keep: str, use: tuple[str, ...] = IN_TURN) -> str:
    join = "\n            ".join
    return ELASTIC.format(keep=join(keep), use=join(use))


@pytest.mark.parametrize(
    "snippet",
    [
        elastic("for n, p in self.named():", "    self.anchor[n] = p.detach()  # !"),
        elastic("for n, p in self.model.named_parameters():", "    self.anchor[n] = p.data  # !"),
        elastic("for n, p in self.named():", "    self.anchor[n] = p.data.detach()  # !"),
        elastic("self.anchor = {n: p.detach() for n, p in self.model.named_parameters()}  # !"),
        elastic("self.anchor = {n: p for n, p in self.model.named_parameters()}  # !"),
        elastic(
            "self.anchor = []", "for p in self.model.parameters():", "    self.anchor.append(p.data)  # !",
            use=("total = sum((p - old).norm() for p, old in zip(self.model.parameters(), self.anchor))",),
        ),
        elastic(
            "self.anchor = [p.detach() for p in self.model.parameters()]  # !",
            use=(
                "total = 0", "for i, p in enumerate(self.model.parameters()):",
                "    total += F.mse_loss(p, self.anchor[i])",
            ),
        ),
        elastic(
            "self.anchor = {n: p.detach() for n, p in self.named()}  # !",
            use=("total = sum((self.anchor.get(n) - p).abs().sum() for n, p in self.named())",),
        ),
        """
        def local(net, loader, optimizer, mu):
            start = [p.detach() for p in net.parameters()]  # !
            for x, y in loader:
                near = sum((p - old).pow(2).sum() for p, old in zip(net.parameters(), start))
                optimizer.zero_grad()
                (F.cross_entropy(net(x), y) + mu / 2 * near).backward()
                optimizer.step()
        """,
    ],
)  # fmt: skip
def test_weights_that_are_compared_with_themselves(snippet: str) -> None:
    assert_flagged(snippet, CODE)


NEAR = """
        def far(model, start, mu=0.5):
            return mu * sum((p - old).pow(2).sum() for p, old in zip(model.parameters(), start))

        class Client:
            def __init__(self, net):
                self.net = net

            def near(self, start, model):
                return sum(F.mse_loss(old, p) for old, p in zip(start, model.parameters()))

            def fit(self, net, loader, optimizer):
                start = [p.detach() for p in net.parameters()]  # !
                for x, y in loader:
                    loss = F.cross_entropy(net(x), y) + {}
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
"""


@pytest.mark.parametrize("near", ["far(net, start)", "far(start=start, model=net)", "self.near(start, net)"])
def test_a_helper_compares_weights_with_themselves(near: str) -> None:
    code = NEAR.format(near)
    assert_flagged(code, CODE)
    assert_clean(code.replace("p.detach() for", "p.detach().clone() for").replace("  # !", ""), CODE)
    for other in (
        near.replace("net", "self.net"),
        near.replace("start)", "list(start))").replace("start,", "1 * start,"),
    ):
        if other != near:
            assert_clean(NEAR.format(other).replace("  # !", ""), CODE)


LIVE = ("for n, p in self.named():", "    self.anchor[n] = p.detach()")


@pytest.mark.parametrize(
    "snippet",
    [
        elastic("for n, p in self.named():", "    self.anchor[n] = p.detach().clone()"),
        elastic("for n, p in self.named():", "    self.anchor[n] = p.clone().detach()"),
        elastic("for n, p in self.named():", "    self.anchor[n] = copy.deepcopy(p.data)"),
        elastic("for n, p in self.named():", "    self.anchor[n] = p.detach().cpu().numpy()"),
        elastic("for n, p in copy.deepcopy(self.model).named_parameters():", "    self.anchor[n] = p.detach()"),
        elastic(*LIVE, "self.anchor = copy.deepcopy(self.anchor)"),
        elastic(*LIVE, "    self.anchor[n] = self.anchor[n].clone()"),
        elastic(*LIVE, "self.model = copy.deepcopy(self.model)"),
        elastic(*LIVE, "for p in self.model.parameters(): p.data = p.data + 1"),
        elastic(*LIVE, use=("total = sum(p.sum() for p in self.anchor.values())",)),
        elastic(*LIVE, use=("total = sum((p - 1).sum() + self.anchor[n].sum() for n, p in self.named())",)),
        elastic(*LIVE, use=("total = sum((p - self.anchor[n]).sum() for n, p in self.other.named_parameters())",)),
        elastic("for n, p in self.teacher.named_parameters():", "    self.anchor[n] = p.detach()"),
        elastic("self.anchor = {n: p.detach() ** 2 for n, p in self.model.named_parameters()}"),
        """
        class Prox:
            def receive(self, model):
                self.anchor = {n: p.detach() for n, p in model.named_parameters()}

            def penalty(self, model):
                return sum((p - self.anchor[n]).pow(2).sum() for n, p in model.named_parameters())
        """,
        """
        def tasks(make, stream, optimizer):
            old = {}
            for x, y in stream:
                model = make()
                near = sum((p - old[n]).pow(2).sum() for n, p in model.named_parameters() if n in old)
                (F.cross_entropy(model(x), y) + near).backward()
                optimizer.step()
                old = {n: p.detach() for n, p in model.named_parameters()}
        """,
        """
        def moved(model, finetune):
            old = {n: p.detach() for n, p in model.named_parameters()}
            model = finetune(model)
            return sum((p - old[n]).norm() for n, p in model.named_parameters())
        """,
        """
        def apart(student, teacher):
            other = {n: p.detach() for n, p in teacher.named_parameters()}
            return sum((p - other[n]).pow(2).sum() for n, p in student.named_parameters())
        """,
    ],
)
def test_look_alikes_of_weights_that_are_compared(snippet: str) -> None:
    assert_clean(snippet, CODE)


# One model is begun anew for each client, and somebody else trains it.
WORKER = """
    class Server:
        def __init__(self, model):
            self.model, self.worker = model, copy.deepcopy(model)

        def turn(self, clients):
            {begun}
            for k, client in enumerate(clients):
                {start}
                client.fit(self.worker)
                {put}
            {end}
"""


def worker(
    put: str,
    start: str = "self.worker.load_state_dict(self.model.state_dict())",
    begun: str = "updates = []",
    end: str = "self.average(updates)",
) -> str:
    return WORKER.format(put=put, start=start, begun=begun, end=end)


@pytest.mark.parametrize(
    "snippet",
    [
        worker("updates.append(self.worker.state_dict())  # !"),
        worker("updates.append((len(client), self.worker.state_dict()))  # !"),
        worker("updates.append([self.worker.state_dict(), len(client)])  # !", end="return updates"),
        worker('updates.append({"n": len(client), "state": self.worker.state_dict()})  # !'),
        worker("updates[k] = len(client), self.worker.state_dict()  # !", begun="updates = {}"),
        worker("updates.append((k, dict(self.worker.state_dict())))  # !"),
        worker(
            "updates.append((k, self.worker.state_dict()))  # !",
            start="self.worker.load_state_dict(start, strict=True)",
            begun="updates, start = [], self.model.state_dict()",
        ),
        """
        def federate(net, start, loaders, train):
            states = []
            for loader in loaders:
                net.load_state_dict(start)
                train(net, loader)
                states.append((net.state_dict(), len(loader)))  # !
            return combine(states)
        """,
        fit(
            "states.append((epoch, score, model.state_dict()))  # !",
            after="return max(states, key=by_score)",
            before="states = []",
        ),
        fit(
            "if score > best:",
            "    best, kept = score, (epoch, model.state_dict())  # !",
            after="model.load_state_dict(kept[1])",
            before="kept = None",
        ),
    ],
)
def test_states_beside_something_else(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        worker("updates.append((len(client), copy.deepcopy(self.worker.state_dict())))"),
        worker("updates.append((k, {n: v.clone() for n, v in self.worker.state_dict().items()}))"),
        worker("updates.append((k, {n: v.cpu() for n, v in self.worker.state_dict().items()}))"),
        worker("updates.append((k, self.worker.state_dict()))", start="self.worker = copy.deepcopy(self.model)"),
        worker(
            "updates.append((k, self.worker.state_dict()))",
            start="self.worker.load_state_dict(self.model.state_dict(), assign=True)",
        ),
        worker("torch.save(self.worker.state_dict(), client.path)"),
        worker("updates = [(k, self.worker.state_dict())]; self.average(updates)", end="pass"),
        worker("updates.append((k, self.worker.state_dict()))", end="print(len(updates))"),
        worker("updates.append((k, client.model.state_dict()))"),
        worker("updates.append((k, self.worker.state_dict())); break"),
        """
        def federate(nets, start, loaders, train):
            states = []
            for net, loader in zip(nets, loaders):
                net.load_state_dict(start)
                train(net, loader)
                states.append((net.state_dict(), len(loader)))
            return combine(states)
        """,
        """
        def names(net, paths):  # nobody trains it, nor wants its values
            found = []
            for path in paths:
                net.load_state_dict(torch.load(path))
                found.append((path, net.state_dict()))
            return found
        """,
        fit("states.append((epoch, optimizer.state_dict()))", after="return states", before="states = []"),
        fit("kept = (epoch, model.state_dict())", after="return kept"),
    ],
)
def test_look_alikes_beside_something_else(snippet: str) -> None:
    assert_clean(snippet, CODE)


HELPED = """
    def train_epoch(net, optimizer, loader):
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss({trained}(x), y).backward()
            optimizer.step()

    def evaluate(net, loader):
        with torch.no_grad():
            return sum(F.mse_loss(net(x), y).item() for x, y in loader)

    def write(state, path):
        {write}

    def fit(model, teacher, optimizer, loader, val_loader):
        best, best_state = None, None
        for epoch in range(9):
            train_epoch({given}, optimizer, loader)
            with torch.no_grad():
                loss = sum(F.mse_loss(model(x), y).item() for x, y in val_loader)
            if best is None or loss < best:
                best = loss
                best_state = model.state_dict(){mark}
        write(best_state, "best.pt")
"""
WRITTEN = {"trained": "net", "given": "model", "write": "torch.save(state, path)", "mark": "  # !"}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"write": "print(path); torch.save(state, path)"},
        {"write": "torch.save({'state': state, 'when': 3}, path)"},
        {"write": "torch.save(obj=state, f=path)"},
    ],
)
def test_a_helper_trains_and_another_one_writes(changed: dict[str, str]) -> None:
    assert_flagged(HELPED.format(**{**WRITTEN, **changed}), CODE)
    by_keyword = HELPED.replace('write(best_state, "best.pt")', 'write(path="best.pt", state=best_state)')
    assert_flagged(by_keyword.format(**{**WRITTEN, **changed}), CODE)


def test_a_method_that_is_helped() -> None:
    assert_flagged(
        """
        def store(weights, name):
            torch.save(weights, name)

        class Learner:
            def __init__(self, net):
                self.net, self.optimizer = net, torch.optim.SGD(net.parameters(), 0.1)

            def run_epoch(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.mse_loss(self.net(x), y).backward()
                    self.optimizer.step()

            def fit(self, loader, validate):
                best, best_weights = 0.0, None
                for epoch in range(9):
                    self.run_epoch(loader)
                    score = validate(self.net)
                    if score > best:
                        best, best_weights = score, self.net.state_dict()  # !
                store(best_weights, "best.pt")
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"given": "teacher"},
        {"write": "state['fc.weight'] = state['fc.weight'].clone(); torch.save(state, path)"},
        {"write": "average(state); torch.save(state, path)"},
        {"write": "print(path, len(state))"},
        {"write": "[value.zero_() for value in state.values()]; torch.save(state, path)"},
        {"write": "state = {k: v.half() for k, v in state.items()}; torch.save(state, path)"},
    ],
)
def test_look_alikes_of_states_that_a_helper_writes(changed: dict[str, str]) -> None:
    assert_clean(HELPED.format(**{**WRITTEN, "mark": "", **changed}), CODE)
    copied = HELPED.replace("best_state = model.state_dict()", "best_state = copy.deepcopy(model.state_dict())")
    assert_clean(copied.format(**{**WRITTEN, "mark": "", **changed}), CODE)


def test_a_state_that_is_written_at_once() -> None:
    at_once = HELPED.replace("\n        write(best_state", "\n                write(best_state").replace("{mark}", "")
    assert_clean(at_once.format(**WRITTEN), CODE)


AVERAGE = """
class Average:
    def __init__(self, net, decay):
        self.decay = decay
        self.shadow = {name: p.detach() for name, p in net.named_parameters()}  # !

    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name].lerp_(p.detach(), 1 - self.decay)

class Trainer:
    def __init__(self, net):
        self.net = net
        self.average = Average(self.net, 0.99)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            F.mse_loss(self.net(x), y).backward()
            self.optimizer.step()
            self.average.update(self.net)
"""
EMA = """
class EMA:
    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.shadow = {}
        self.register()

    def register(self):
        for name, p in self.model.named_parameters():
            if p.requires_grad:
                self.shadow[name] = p.data  # !

    def update(self):
        for name, p in self.model.named_parameters():
            if p.requires_grad:
                self.shadow[name].mul_(self.decay).add_(p.data, alpha=1 - self.decay)

    def load_state_dict(self, state):
        self.shadow = state["shadow"]
"""
SLOW = """
def train(net, loader, optimizer):
    slow = [p.detach() for p in net.parameters()]  # !
    for x, y in loader:
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            for s, p in zip(slow, net.parameters()):
                s.lerp_(p, 0.01)
"""


@pytest.mark.parametrize(
    "snippet",
    [
        AVERAGE,
        AVERAGE.replace(".lerp_(p.detach(), 1 - self.decay)", ".mul_(self.decay).add_((1 - self.decay) * p.data)"),
        AVERAGE.replace("{name: p.detach() for", "{name: p.data for"),
        EMA,
        EMA.replace(
            "self.shadow[name].mul_(self.decay).add_(p.data, alpha=1 - self.decay)",
            "self.shadow[name] -= (1 - self.decay) * (self.shadow[name] - p.data)",
        ),
        EMA.replace("self.shadow[name].mul_(self.decay).add_(p.data", "self.shadow[name].data.mul_(0.9).add_(p.data"),
        SLOW,
        SLOW.replace("s.lerp_(p, 0.01)", "s += 0.01 * (p - s)"),
        SLOW.replace("s.lerp_(p, 0.01)", "s.sub_(0.01 * (s - p.detach()))"),
        SLOW.replace("[p.detach() for p in", "[p.data for p in"),
    ],
)
def test_an_average_in_the_memory_of_the_weights(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(AVERAGE, ("{name: p.detach() for", "{name: p.detach().clone() for")),
        twin(AVERAGE, ("self.average.update(self.net)", "self.average.update(self.other)")),
        twin(AVERAGE, ("Average(self.net, 0.99)", "Average(copy.deepcopy(self.net), 0.99)")),
        twin(AVERAGE, ("Average(self.net, 0.99)", "Average(self.target, 0.99)")),  # it is to follow the other one
        twin(AVERAGE, ("        self.average = Average(self.net, 0.99)\n", "")),
        twin(AVERAGE, ("            self.average.update(self.net)\n", "")),
        twin(AVERAGE, ("self.net = net", "self.net = net\n        self.net = torch.compile(copy.deepcopy(net))")),
        twin(AVERAGE, ("self.shadow[name].lerp_(p.detach(), 1 - self.decay)",
                       "self.shadow[name] = torch.lerp(self.shadow[name], p.detach(), 0.1)")),
        twin(AVERAGE, ("self.decay = decay", "self.decay = decay\n        self.shadow = torch.load('shadow.pt')")),
        twin(EMA, ("= p.data", "= p.data.clone()")),
        twin(EMA, ("self.shadow[name].mul_(self.decay).add_(p.data, alpha=1 - self.decay)",
                   "self.shadow[name] = (1 - self.decay) * p.data + self.decay * self.shadow[name]")),
        twin(EMA, ("self.shadow[name].mul_(self.decay).add_(p.data, alpha=1 - self.decay)",
                   "self.shadow[name].add_(p.grad, alpha=-self.decay)")),
        twin(EMA, ("self.register()", "self.register()\n        self.shadow = copy.deepcopy(self.shadow)")),
        twin(EMA, ("        self.register()\n", ""), ("    def update(self):",
             "    def start(self, average):\n        self.model = average\n\n    def update(self):")),
        twin(EMA, ("for name, p in self.model.named_parameters():\n            if p.requires_grad:\n"
             "                self.shadow[name].mul_", "for name, p in self.online.named_parameters():\n"
             "            if p.requires_grad:\n                self.shadow[name].mul_")),
        twin(SLOW, ("[p.detach() for p in", "[p.detach().clone() for p in")),
        twin(SLOW, ("zip(slow, net.parameters())", "zip(slow, other.parameters())")),
        twin(SLOW, ("s.lerp_(p, 0.01)", "s.add_(p.grad, alpha=-0.01)")),
        twin(SLOW, ("for s, p in zip(slow, net.parameters())", "for s in slow"),
             ("s.lerp_(p, 0.01)", "s.add_(s, alpha=-1e-4)")),
        twin(SLOW, ("    for x, y", "    slow = [s.clone() for s in slow]\n    for x, y")),
        twin(SLOW, ("s.lerp_(p, 0.01)", "p.lerp_(s, 0.01)")),
    ],
)  # fmt: skip
def test_look_alikes_of_an_average(snippet: str) -> None:
    assert_clean(snippet, CODE)

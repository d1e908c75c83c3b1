from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, source

CODE = "GG402"

FLAGGED = {
    "in a record, until enough steps are done": """
        @dataclasses.dataclass
        class Report:
            step: int
            grad: torch.Tensor

            @property
            def norm(self):
                return float(self.grad.norm())

        def train(model, batches, optimizer, max_steps):
            reports = []
            for step, (x, y) in enumerate(batches, start=1):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                reports.append(Report(step, model.fc.weight.grad))  # !
                if step == max_steps:
                    break
            return reports
    """,
    "append": """
        def train(model, loader, optimizer):
            grads = []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                grads.append(model.fc.weight.grad)  # !
                optimizer.step()
            return grads
    """,
    "of networks that are trained in turn": """
    def fit(nets, optimizers, loader):
        history = []
        for x, y in loader:
            for net, optimizer in zip(nets, optimizers):
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
                history.append(net.fc.weight.grad)  # !
        return history
    """,
    "detached, in a trainer": """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
                self.gradients = []

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    for p in self.net.parameters():
                        self.gradients.append(p.grad.detach())  # !
                    self.optimizer.step()
    """,
    "list comprehension of all": """
        def train(model, loader, optimizer):
            history = []
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                history.append([p.grad for p in model.parameters() if p.grad is not None])  # !
                optimizer.step()
    """,
    "dict keyed by the step": """
        def train(model, loader, optimizer):
            by_step = {}
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad(set_to_none=True)
                F.cross_entropy(model(x), y).backward()
                by_step[step] = {n: p.grad for n, p in model.named_parameters()}  # !
                optimizer.step()
            return by_step
    """,
    "dict of lists by name": """
        def train(model, loader, optimizer, epochs):
            grads = defaultdict(list)
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    for name, param in model.named_parameters():
                        if param.requires_grad:
                            grads[name].append(param.grad.data)  # !
                    optimizer.step()
            torch.save(dict(grads), "grads.pt")
    """,
    "first into a variable": """
        def train(model, loader, optimizer):
            log = []
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                g = model.conv1.weight.grad.detach()
                log.append((i, g))  # !
                optimizer.step()
    """,
    "a helper collects them": """
        def get_grads(model):
            return [p.grad for p in model.parameters()]

        def train(model, loader, optimizer):
            all_grads = []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                all_grads.append(get_grads(model))  # !
                optimizer.step()
    """,
    "script, a while loop that resets by hand": """
        model = nn.Linear(10, 1)
        trajectory = []
        step = 0
        while step < 1000:
            loss = model(torch.randn(32, 10)).pow(2).mean()
            loss.backward()
            trajectory.append(model.weight.grad)  # !
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
            step += 1
    """,
    "list plus list, global": """
        GRADS = []

        def train_step(model, x, y, optimizer):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            global GRADS
            GRADS += [p.grad for p in model.parameters()]  # !
    """,
}

CLEAN = {
    "a record that takes its norm": """
        @dataclasses.dataclass
        class Report:
            step: int
            grad: dataclasses.InitVar[torch.Tensor]
            norm: float = 0.0

            def __post_init__(self, grad):
                self.norm = float(grad.norm())

        def train(model, batches, optimizer, max_steps):
            reports = []
            for step, (x, y) in enumerate(batches, start=1):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                reports.append(Report(step, model.fc.weight.grad))
                if step == max_steps:
                    break
            return reports
    """,
    "of the first few steps": """
        def probe(model, batches, optimizer):
            grads = []
            for step, (x, y) in enumerate(batches):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                grads.append(model.fc.weight.grad)
                if step == 3:
                    break
            return grads
    """,
    "of each network of an ensemble": """
    def sensitivity(nets, batch, grid):
        found = []
        for net in nets:
            batch["sigma"] = batch["sigma"].clone().detach().requires_grad_(True)
            net(torch.cat([batch["sigma"], grid], 1)).backward(torch.ones_like(grid))
            found.append(batch["sigma"].grad)
        return torch.cat(found, dim=1)
    """,
    "copied": """
        def train(model, loader, optimizer):
            grads = []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                grads.append(model.fc.weight.grad.clone())
                grads.append(model.fc.bias.grad.detach().clone())
                optimizer.step()
    """,
    "norms": """
        def train(model, loader, optimizer):
            norms, means = [], defaultdict(list)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                norms.append(sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5)
                for name, p in model.named_parameters():
                    means[name].append(p.grad.abs().mean())
                    means[name + ".max"].append(p.grad.detach().max().item())
                optimizer.step()
    """,
    "the norm that clipping returns": """
        def train(model, loader, optimizer):
            norms = []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
                optimizer.step()
    """,
    "the last one": """
        class Trainer:
            def fit(self, model, loader, optimizer):
                previous = None
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    previous = model.fc.weight.grad
                    self.last_grad = model.fc.weight.grad.detach()
                    optimizer.step()
                return previous
    """,
    "a list of the iteration": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                grads = []
                for p in model.parameters():
                    grads.append(p.grad)
                total = torch.stack([g.norm() for g in grads]).norm()
                if total < 1e3:
                    optimizer.step()
    """,
    "one list for each task of the iteration": """
        def pcgrad(model, loader, optimizer, tasks):
            for x, ys in loader:
                per_task = []
                out = model(x)
                for task in tasks:
                    optimizer.zero_grad()
                    F.mse_loss(out[task], ys[task]).backward(retain_graph=True)
                    per_task.append([p.grad for p in model.parameters()])
                optimizer.zero_grad()
                for p, *gs in zip(model.parameters(), *per_task):
                    p.grad = torch.stack(gs).mean(0)
                optimizer.step()
    """,
    "cleared in each iteration": """
        class Trainer:
            def __init__(self):
                self.grads = []

            def fit(self, model, loader, optimizer):
                for x, y in loader:
                    self.grads.clear()
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    for p in model.parameters():
                        self.grads.append(p.grad)
                    optimizer.step()
    """,
    "by the name of the parameter": """
        def train(model, loader, optimizer):
            latest = {}
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                for name, param in model.named_parameters():
                    latest[name] = param.grad
                optimizer.step()
            return latest
    """,
    "bounded": """
        def train(model, loader, optimizer):
            recent = deque(maxlen=10)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                recent.append([p.grad for p in model.parameters()])
                optimizer.step()
    """,
    "zeroed in place: one tensor, many times": """
        def train(model, loader, optimizer):
            grads = []
            for x, y in loader:
                optimizer.zero_grad(set_to_none=False)
                F.cross_entropy(model(x), y).backward()
                grads.append(model.fc.weight.grad)
                optimizer.step()
    """,
    "two models compared": """
        def same_gradient(a, b, x):
            grads = []
            for m in (a, b):
                m(x).sum().backward()
                grads.append(m.weight.grad)
            return torch.allclose(grads[0], grads[1])
    """,
    "once, after a backward": """
        def flat_grad(model, x, y):
            F.cross_entropy(model(x), y).backward()
            grads = []
            for p in model.parameters():
                grads.append(p.grad.view(-1))
            return torch.cat(grads)
    """,
    "running sum by name": """
        def fisher(model, loader):
            total = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
            for x, y in loader:
                model.zero_grad()
                F.cross_entropy(model(x), y).backward()
                for n, p in model.named_parameters():
                    total[n] += p.grad.detach() ** 2 / len(loader)
            return total
    """,
    "parameters without a gradient, by name": """
        def train(model, loader, optimizer):
            unused = []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                unused.append([n for n, p in model.named_parameters() if p.grad is None])
                optimizer.step()
    """,
    "the gradient of an image, of numpy": """
        import numpy as np

        def train(model, loader, optimizer):
            edges, shading = [], []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                edges.append(np.gradient(x[0].numpy()))
                shading.append(optimizer.grad_scale)
    """,
    "a saliency map": """
        def saliency(model, loader):
            maps = []
            for x, y in loader:
                x = x.clone().requires_grad_()
                model(x).gather(1, y[:, None]).sum().backward()
                maps.append(x.grad.abs().amax(1))
            return torch.cat(maps)
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


KEPT_BY_ANOTHER = """
    class Shot:
        def __init__(self, where, grads):
            self.where, self.grads = where, grads

    class Recorder:
        def __init__(self):
            self.shots = []

        def snap(self, where, params):
            self.shots.append(Shot(where, [p.grad for p in params]))  # stored

    class Learner:
        def __init__(self, model):
            self.model, self.params = model, [p for p in model.parameters()]
            self.optimizer = torch.optim.SGD(self.params, lr=0.1)
            self.recorder = Recorder()

        def observe(self, x, y):
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.recorder.snap(x, self.params)  # !
            self.optimizer.step()

    def main(model, loader):
        learner = Learner(model)
        for x, y in loader:
            learner.observe(x, y)
"""


def test_the_line_that_stores_is_named_where_a_callee_does() -> None:
    lines = source(KEPT_BY_ANOTHER).splitlines()
    stored, called = (next(i for i, line in enumerate(lines, 1) if line.endswith(end)) for end in ("# stored", "# !"))
    (found,) = findings(KEPT_BY_ANOTHER, CODE)
    assert (found.span.line, [related.line for related in found.related]) == (called, [stored])


def test_no_line_is_named_twice() -> None:
    (found,) = findings(FLAGGED["append"], CODE)
    assert not found.related


SURGERY = """
    class Surgery:
        def __init__(self, optimizer):
            self.optimizer, self.history = optimizer, []

        def pack(self, losses):
            packed = {}
            for i, (task, loss) in enumerate(losses.items()):
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward(retain_graph=True)
                packed[task] = [p.grad for p in self.optimizer.param_groups[0]["params"]]
                print(task)
            return packed
"""


@pytest.mark.parametrize("losses", ["losses.items()", "list(losses.items())"])
def test_the_gradients_of_the_losses_of_one_batch(losses: str) -> None:
    assert_clean(SURGERY.replace("losses.items()", losses), CODE)
    values = SURGERY.replace("(task, loss) in enumerate(losses.items())", "loss in enumerate(losses.values())")
    assert_clean(values.replace("packed[task] =", "packed[i] =").replace("print(task)", "print(i)"), CODE)
    kept = SURGERY.replace("print(task)", "self.history.append(packed[task])  # !")
    assert_flagged(kept.replace("losses.items()", losses), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("enumerate(losses.items())", "enumerate(losses)"),
        ("loss.backward(", "self.net(loss).backward("),
    ],
)
def test_the_gradients_of_batches(edit: tuple[str, str]) -> None:
    assert_flagged(SURGERY.replace(*edit).replace('["params"]]', '["params"]]  # !'), CODE)


OPTIMIZER = """
        class Agreeable(torch.optim.Optimizer):
            def __init__(self, params, lr=0.05, window=4):
                super().__init__(params, dict(lr=lr, window=window))

            @torch.no_grad()
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is None:
                            continue
                        {gets}
                        {adds}  # !
                        span = torch.stack(list(recent)[-group["window"]:])
                        p.sub_(span.mean(0), alpha=group["lr"])
                        {drops}
"""
GETS = 'recent = self.state[p].setdefault("recent", [])'
ADDS = "recent.append(p.grad.clone())"


@pytest.mark.parametrize(
    ("gets", "adds"),
    [
        (GETS, ADDS),
        (GETS, "recent.append(p.grad.detach().clone())"),
        (GETS, "recent.append(p.grad.clone().cpu())"),
        (GETS, "g = p.grad.clone(); recent.append(g)"),
        ('recent = self.state[p]["recent"]', ADDS),
    ],
)
def test_copies_in_the_state_of_an_optimizer(gets: str, adds: str) -> None:
    assert_flagged(OPTIMIZER.format(gets=gets, adds=adds, drops="pass"), CODE)


@pytest.mark.parametrize(
    ("gets", "adds", "drops"),
    [
        (GETS, ADDS, 'del recent[:-group["window"]]'),
        (GETS, ADDS, "del recent[0]"),
        (GETS, ADDS, "if len(recent) > 4: recent.pop(0)"),
        (GETS, ADDS, "while len(recent) > 4: recent.pop(0)"),
        (GETS, ADDS, "recent[:] = recent[-4:]"),
        (GETS, ADDS, 'self.state[p]["recent"] = recent[-4:]'),
        (GETS, ADDS, "if len(recent) == 4: recent.clear()"),
        ('recent = self.state[p].setdefault("recent", deque(maxlen=4))', ADDS, "pass"),
        ("recent = self.state[p].setdefault('recent', deque(maxlen=4)) if closure else []", ADDS, "pass"),
        ('recent = self.state[p]["recent"] = []', ADDS, "pass"),
        ('self.state[p].setdefault("recent", deque(maxlen=4)); recent = self.state[p]["recent"]', ADDS, "pass"),
        ("recent = []", ADDS, "pass"),
        (GETS, "recent.append(p.grad.norm())", "pass"),
        (GETS, "recent.append(p.grad.norm().item())", "pass"),
        (GETS, "recent.append(p.grad.mean(0))", "pass"),
        (GETS, "if len(recent) < 4: recent.append(p.grad.clone())", "pass"),
        ('recent = [p.grad]; self.state[p]["last"] = p.grad.clone()', "pass", "pass"),
    ],
)
def test_what_the_state_of_an_optimizer_may_have(gets: str, adds: str, drops: str) -> None:
    snippet = OPTIMIZER.format(gets=gets, adds=adds, drops=drops).replace("  # !", "")
    assert_clean(snippet, CODE)


def test_a_log_that_is_no_optimizer_keeps_its_copies_on_purpose() -> None:
    snippet = OPTIMIZER.format(gets=GETS, adds=ADDS, drops="pass").replace("  # !", "")
    assert_clean(snippet.replace("torch.optim.Optimizer", "Recorder"), CODE)

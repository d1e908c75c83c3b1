from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG411"

FLAGGED = {
    "group for each batch": """
        def train(model, loader, optimizer):
            for x, y in loader:
                delta = nn.Parameter(torch.zeros_like(x))
                optimizer.add_param_group({"params": [delta]})  # !
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x + delta), y)
                loss.backward()
                optimizer.step()
    """,
    "optimizer for each epoch": """
        def train(model, loader, epochs):
            optimizers = []
            for epoch in range(epochs):
                optimizers.append(torch.optim.Adam(model.parameters(), lr=1e-3))  # !
                for x, y in loader:
                    optimizers[-1].zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizers[-1].step()
    """,
    "optimizer for each step, of a trainer": """
        from torch import optim

        class Trainer:
            def __init__(self, net):
                self.net = net
                self.optimizers = []

            def train_step(self, x, y, lr):
                opt = optim.SGD(self.net.parameters(), lr=lr)
                self.optimizers.append(opt)  # !
                opt.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                opt.step()

            def fit(self, loader):
                for x, y in loader:
                    self.train_step(x, y, 0.1)
    """,
    "parameter list": """
        def train(model, loader, optimizer):
            offsets = nn.ParameterList()
            for x, y in loader:
                offsets.append(nn.Parameter(torch.zeros(1)))  # !
                optimizer.zero_grad()
                loss = F.mse_loss(model(x) + offsets[-1], y)
                loss.backward()
                optimizer.step()
    """,
    "param_groups of the optimizer": """
        def train(model, loader, optimizer):
            for x, y in loader:
                scale = nn.Parameter(torch.ones(1))
                optimizer.param_groups.append({**optimizer.defaults, "params": [scale]})  # !
                optimizer.zero_grad()
                F.mse_loss(model(x) * scale, y).backward()
                optimizer.step()
    """,
    "parameters of the first group, in a while loop": """
        net = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        step = 0
        while step < 10_000:
            noise = nn.Parameter(torch.randn(4))
            optimizer.param_groups[0]["params"].append(noise)  # !
            optimizer.zero_grad()
            net(torch.randn(32, 4) + noise).pow(2).mean().backward()
            optimizer.step()
            step += 1
    """,
    "a helper adds it": """
        class Adapter:
            def __init__(self, model):
                self.model = model
                self.optimizer = torch.optim.Adam(model.parameters())

            def new_prompt(self):
                prompt = nn.Parameter(torch.randn(8, 64))
                self.optimizer.add_param_group({"params": prompt, "lr": 1e-2})  # !
                return prompt

            def fit(self, loader):
                for x, y in loader:
                    prompt = self.new_prompt()
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.model(x, prompt), y).backward()
                    self.optimizer.step()
    """,
    "dict of optimizers keyed by the step": """
        def train(model, loader):
            used = {}
            for step, (x, y) in enumerate(loader):
                opt = torch.optim.Adam(model.parameters())
                used[step] = opt  # !
                opt.zero_grad()
                F.cross_entropy(model(x), y).backward()
                opt.step()
    """,
    "one more for the same model in each epoch": """
        def main(model, loader, epochs):
            optimizers = []
            for epoch in range(epochs):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / (epoch + 1))
                optimizers.append(optimizer)  # !
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
}

CLEAN = {
    "a group that is taken out again": """
        class Codes:
            def __init__(self, optimizer):
                self.optimizer = optimizer

            def acquire(self):
                code = nn.Parameter(torch.zeros(8))
                self.optimizer.add_param_group({"params": [code]})
                return code

            def release(self):
                for code in self.optimizer.param_groups.pop()["params"]:
                    self.optimizer.state.pop(code, None)

        def train(model, loader, optimizer):
            codes = Codes(optimizer)
            for x, y in loader:
                code = codes.acquire()
                optimizer.zero_grad()
                F.mse_loss(model(x + code), y).backward()
                optimizer.step()
                codes.release()
    """,
    "set up before the training": """
        def main(model, loader, heads):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for head in heads:
                optimizer.add_param_group({"params": head.parameters(), "lr": 0.01})
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "unfrozen at an epoch": """
        def train(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                if epoch == 5:
                    model.backbone.requires_grad_(True)
                    optimizer.add_param_group({"params": model.backbone.parameters(), "lr": 1e-5})
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
    "guarded by a flag": """
        class Trainer:
            def __init__(self, model):
                self.model = model
                self.optimizer = torch.optim.Adam(model.head.parameters())
                self.unfrozen = False

            def fit(self, loader):
                for x, y in loader:
                    loss = F.cross_entropy(self.model(x), y)
                    if loss.item() < 0.5 and not self.unfrozen:
                        self.optimizer.add_param_group({"params": self.model.body.parameters()})
                        self.unfrozen = True
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
    """,
    "rebound": """
        def train(model, loader, epochs):
            for epoch in range(epochs):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / (epoch + 1))
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
    "rebound, with a group": """
        def adapt(model, loader):
            for x, y in loader:
                delta = torch.zeros_like(x, requires_grad=True)
                optimizer = torch.optim.SGD([delta], lr=0.1)
                optimizer.add_param_group({"params": model.parameters(), "lr": 0.01})
                for _ in range(10):
                    optimizer.zero_grad()
                    F.cross_entropy(model(x + delta), y).backward()
                    optimizer.step()
    """,
    "schedulers, and one optimizer for each model": """
        def main(models, loader):
            optimizers, schedulers = [], []
            for m in models:
                optimizers.append(torch.optim.Adam(m.parameters()))
                schedulers.append(torch.optim.lr_scheduler.StepLR(optimizers[-1], 10))
            for x, y in loader:
                for m, optimizer, scheduler in zip(models, optimizers, schedulers):
                    optimizer.zero_grad()
                    F.cross_entropy(m(x), y).backward()
                    optimizer.step()
                    scheduler.step()
    """,
    "optimizers of the round": """
        def federated(model, clients, rounds, make_copy):
            for r in range(rounds):
                optimizers = []
                for client in clients:
                    local = make_copy(model)
                    opt = torch.optim.SGD(local.parameters(), lr=0.1)
                    optimizers.append(opt)
                    for x, y in client:
                        opt.zero_grad()
                        F.cross_entropy(local(x), y).backward()
                        opt.step()
    """,
    "parameters of a module": """
        class Mixture(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.weights = nn.ParameterList()
                for _ in range(n):
                    self.weights.append(nn.Parameter(torch.randn(8, 8)))

        def train(loader):
            model = Mixture(4)
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(sum(x @ w for w in model.weights), y).backward()
                optimizer.step()
    """,
    "learning rates": """
        def train(model, loader, optimizer, scheduler):
            rates, sizes = [], []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                scheduler.step()
                rates.append(optimizer.param_groups[0]["lr"])
                sizes.append(len(optimizer.param_groups))
    """,
    "groups by layer": """
        def build(model, lr, decay):
            groups = []
            for name, p in model.named_parameters():
                groups.append({"params": [p], "lr": lr, "weight_decay": 0.0 if "bias" in name else decay})
                lr *= 0.95
            return torch.optim.AdamW(groups)

        def train(model, loader):
            optimizer = build(model, 1e-3, 0.01)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "the optimizers of the iteration": """
        def train(gen, disc, loader, g_opt, d_opt):
            for step, x in enumerate(loader):
                active = [d_opt]
                if step % 5 == 0:
                    active.append(g_opt)
                for opt in active:
                    opt.zero_grad()
                disc(gen(x)).mean().backward()
                for opt in active:
                    opt.step()
    """,
    "at milestones": """
        class GradualUnfreezing:
            def __init__(self, layers, milestones):
                self.layers, self.milestones = layers, milestones

            def fit(self, model, loader, optimizer, epochs):
                for epoch in range(epochs):
                    if epoch in self.milestones:
                        layer = self.layers.pop()
                        optimizer.add_param_group({"params": layer.parameters()})
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
    """,
    "added and taken away": """
        def train(model, loader, optimizer):
            for x, y in loader:
                delta = nn.Parameter(torch.zeros_like(x))
                optimizer.add_param_group({"params": [delta]})
                optimizer.zero_grad()
                F.cross_entropy(model(x + delta), y).backward()
                optimizer.step()
                optimizer.state.pop(delta, None)
                optimizer.param_groups.pop()
    """,
    "by a fixed name": """
        def train(model, loader, epochs):
            optimizers = {}
            for epoch in range(epochs):
                optimizers["main"] = torch.optim.Adam(model.parameters())
                for x, y in loader:
                    optimizers["main"].zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizers["main"].step()
    """,
    "the head of a task": """
        def learn(model, tasks, epochs):
            optimizer = torch.optim.SGD(model.body.parameters(), lr=0.1)
            for loader, classes in tasks:
                head = model.add_head(classes)
                optimizer.add_param_group({"params": head.parameters(), "lr": 0.01})
                for epoch in range(epochs):
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(head(model(x)), y).backward()
                        optimizer.step()
    """,
    "the layers of a stage, that a function trains": """
        def epoch(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()

        def grow(model, loaders):
            optimizer = torch.optim.Adam(model.parameters())
            for loader in loaders:
                optimizer.add_param_group({"params": model.deeper().parameters()})
                epoch(model, loader, optimizer)
    """,
    "an ensemble that a factory makes": """
        def fit(make, loader, count):
            models, optimizers = [], []
            for i in range(count):
                model = make()
                optimizer = torch.optim.Adam(model.parameters())
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                models.append(model)
                optimizers.append(optimizer)
            return models, optimizers
    """,
    "the optimizer of the newest model": """
        class Boosting:
            def __init__(self, make):
                self.make, self.models, self.optimizers = make, [], []

            def add(self):
                self.models.append(self.make())
                self.optimizers.append(torch.optim.Adam(self.models[-1].parameters()))

            def fit(self, loader, count):
                for i in range(count):
                    self.add()
                    for x, y in loader:
                        self.optimizers[-1].zero_grad()
                        F.cross_entropy(self.models[-1](x), y).backward()
                        self.optimizers[-1].step()
    """,
    "one of each for a user": """
        class Classifier(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 2)

            def forward(self, x):
                return self.linear(x)

        def main(loaders, args):
            users = []
            for user in range(args.num_users):
                model = Classifier()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                users.append([loaders[user], model, optimizer])
                for epoch in range(10):
                    for x, y in loaders[user]:
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
            return users
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


PROMPT_OF_EPOCH = """
    def train(model, loader, optimizer, epochs):
        for epoch in range(epochs):
            prompt = nn.Parameter(torch.zeros(8))
            optimizer.add_param_group({"params": [prompt]})  # !
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x + prompt), y).backward()
                optimizer.step()
"""


def test_a_new_parameter_in_each_epoch_or_for_each_task() -> None:
    assert_flagged(PROMPT_OF_EPOCH, CODE, Confidence.LOW)
    assert_clean(PROMPT_OF_EPOCH, CODE)


SESSION = """
    class Session:
        def __init__(self, optimizer):
            self.optimizer = optimizer
            self.code = nn.Parameter(torch.zeros(8))

        def __enter__(self):
            self.optimizer.add_param_group({{"params": [self.code]}})
            return self.code

        def __exit__(self, *error):
            {leave}

    def fit(net, shapes):
        optimizer = torch.optim.Adam(net.parameters())
        for x in shapes:
            {make}
            with Session(optimizer) as code:
                for _ in range(3):
                    loss = net(code + x).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
"""


def test_a_group_that_entering_an_object_adds() -> None:
    assert [f.code for f in findings(SESSION.format(leave="self.code.grad = None", make="pass"), CODE)] == [CODE]
    assert_clean(SESSION.format(leave="self.optimizer.param_groups.pop()", make="pass"), CODE)
    assert_clean(SESSION.format(leave="pass", make="optimizer = torch.optim.Adam(net.parameters())"), CODE)


GROWS_UP = """
        def grow(net, optimizer):
            net.grow()
            {before}
            optimizer.add_param_group({{"params": list(net.parameters())}})  # !

        def fit(net, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
                grow(net, optimizer)
"""


@pytest.mark.parametrize(
    "before",
    [
        "optimizer.param_groups = []",
        "optimizer.param_groups[:] = []",
        "optimizer.param_groups[1:] = []",
        "optimizer.param_groups.clear()",
        "del optimizer.param_groups[0]",
        "del optimizer.param_groups[:]",
    ],
)
def test_groups_that_take_the_place_of_those_before(before: str) -> None:
    assert_clean(GROWS_UP.format(before=before).replace("  # !", ""), CODE)


@pytest.mark.parametrize(
    "before", ["pass", "optimizer.param_groups[0]['lr'] = 0.1", "assert optimizer.param_groups == []"]
)
def test_groups_that_are_added_to_those_before(before: str) -> None:
    assert_flagged(GROWS_UP.format(before=before), CODE)


ADAPTED = """
        def make(hidden):
            return [nn.Parameter(torch.randn(hidden, 1)), nn.Parameter(torch.zeros(hidden))]

        def train(loader):
            params = make(8)
            optimizer = torch.optim.SGD(params, lr=0.1)
            kept = []
            for x, y in loader:
                fast = {fast}
                loss = F.mse_loss(F.linear(x, *fast), y)
                kept.append(fast)  # !
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""


@pytest.mark.parametrize("fast", ["make(8)", "[nn.Parameter(p.detach() + 0.1) for p in params]"])
def test_parameters_that_are_made_in_each_iteration(fast: str) -> None:
    assert_flagged(ADAPTED.format(fast=fast), CODE)


@pytest.mark.parametrize("fast", ["list(params)", "[p for p in params]", "params[:1]", "tuple(params)", "params"])
def test_parameters_that_were_there_before_the_loop(fast: str) -> None:
    assert_clean(twin(ADAPTED.format(fast=fast)), CODE)


PROMPTS = """
        class Learner:
            def __init__(self, backbone):
                self.backbone, self.head = backbone, nn.Linear(8, 2)
                self.optimizer = torch.optim.AdamW(self.head.parameters())

            def begin(self):
                self.prompt = nn.Parameter(torch.zeros(4, 8))
                self.optimizer.add_param_group({"params": [self.prompt], "lr": 1e-2})  # !

            def update(self, x, y):
                loss = F.cross_entropy(self.head(self.backbone(x + self.prompt)), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

        def train(backbone, loader):
            learner = Learner(backbone)
            for step, (x, y) in enumerate(loader):
                if step % 100 == 0:
                    learner.begin()
                learner.update(x, y)
"""


MADE_BEFORE = """
        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, (x, y) in enumerate(loader):
                if step % 50 == 0:
                    delta = nn.Parameter(torch.zeros(8))
                    optimizer.add_param_group({"params": [delta]})  # !
                optimizer.zero_grad()
                F.cross_entropy(model(x + delta), y).backward()
                optimizer.step()
"""


@pytest.mark.parametrize("code", [PROMPTS, MADE_BEFORE])
def test_a_new_parameter_every_so_many_steps(code: str) -> None:
    assert_flagged(code, CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("if step % 100 == 0:", "if step == 0:"),
        ('{"params": [self.prompt], "lr": 1e-2}', '{"params": self.backbone.layers[0].parameters()}'),
        ("def begin(self):", "def begin(self):\n                self.optimizer.param_groups.pop()"),
        (
            "def begin(self):",
            "def begin(self):\n                self.optimizer = torch.optim.AdamW(self.head.parameters())",
        ),
    ],
)
def test_a_group_that_is_added_once_or_taken_out(edit: tuple[str, str]) -> None:
    assert_clean(twin(PROMPTS, edit), CODE)


INNER = """
    import copy

    class Meta:
        def __init__(self, net, lr):
            self.net, self.lr = net, lr
            self.inner = {start}

        def optimizer_for(self, learner):
            weights = list(learner.parameters())
            {make}
            return self.inner

        def adapt(self, task, steps):
            learner = copy.deepcopy(self.net)
            inner = self.optimizer_for(learner)
            for _ in range(steps):
                x, y = task.sample()
                loss = F.mse_loss(learner(x), y)
                inner.zero_grad()
                loss.backward()
                inner.step()
            return learner

    def main(net, family):
        meta = Meta(net, 0.1)
        for step in range(100_000):
            meta.adapt(family.draw(), 4)
"""
MADE = "self.inner = torch.optim.SGD(weights, lr=self.lr)"
ADDED = 'self.inner.add_param_group({"params": weights})'


@pytest.mark.parametrize(
    "make",
    [
        (f"if self.inner is None: {MADE}", f"else: {ADDED}  # !"),
        (f"if self.inner is not None: {ADDED}  # !", f"else: {MADE}"),
        (f"if not hasattr(self, 'inner'): {MADE}", f"else: {ADDED}  # !"),
    ],
)
def test_an_optimizer_that_is_made_the_first_time_and_added_to_from_then_on(make: tuple[str, str]) -> None:
    assert_flagged(INNER.format(start="None", make="\n            ".join(make)), CODE)


@pytest.mark.parametrize(
    "make",
    [
        (MADE,),
        (MADE, ADDED),
        (f"if self.lr > 0: {MADE}", f"else: {ADDED}"),
        (f"if self.inner is None: {MADE}", "elif self.net.frozen:", f"    {ADDED}"),
        (f"if self.inner is None: {MADE}", "else:", "    self.inner.param_groups.clear()", f"    {ADDED}"),
    ],
)
def test_an_optimizer_that_is_made_anew_or_added_to_now_and_then(make: tuple[str, ...]) -> None:
    assert_clean(INNER.format(start="None", make="\n            ".join(make)), CODE)

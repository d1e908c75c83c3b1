from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, source, twin

CODE = "GG201"

FLAGGED = {
    "in the stage that steps": """
        class Learner:
            def __init__(self, net):
                self.net = net
                self.inner = torch.optim.SGD(net.parameters(), lr=0.01)

            def observe(self, x, y, stage=0):
                loss = F.cross_entropy(self.net(x), y)
                loss.backward()  # !
                if stage == 1 or stage == 3:
                    self.inner.step()
                else:
                    return loss

            def after_task(self, loader):
                for x, y in loader:
                    self.inner.zero_grad()
                    self.observe(x, y, stage=1)
                for x, y in loader:
                    self.observe(x, y, stage=3)
    """,
    "none": """
        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward()  # !
                optimizer.step()
    """,
    "only before the loop": """
        def train(model, loader, optimizer):
            optimizer.zero_grad()
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward()  # !
                optimizer.step()
    """,
    "only once per epoch": """
        for epoch in range(10):
            optimizer.zero_grad()
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward()  # !
                optimizer.step()
            scheduler.step()
    """,
    "scaler": """
        def train(model, loader, optimizer, scaler):
            for x, y in loader:
                with torch.autocast("cuda"):
                    loss = F.cross_entropy(model(x), y)
                scaler.scale(loss).backward()  # !
                scaler.step(optimizer)
                scaler.update()
    """,
    "in a class": """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.opt = torch.optim.Adam(net.parameters())

            def fit(self, loader):
                for x, y in loader:
                    loss = F.cross_entropy(self.net(x), y)
                    loss.backward()  # !
                    torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                    self.opt.step()
    """,
    "a step function that a loop calls": """
        def step(model, x, y, optimizer):
            loss = F.cross_entropy(model(x), y)
            loss.backward()  # !
            optimizer.step()
            return loss.item()

        def train(model, loader, optimizer):
            for x, y in loader:
                print(step(model, x, y, optimizer))
    """,
    "one of two": """
        def train(G, D, loader):
            g_opt = torch.optim.Adam(G.parameters())
            d_opt = torch.optim.Adam(D.parameters())
            d_opt.zero_grad()
            for x, z in loader:
                D(x).mean().backward()  # !
                d_opt.step()
                g_opt.zero_grad()
                D(G(z)).mean().backward()
                g_opt.step()
    """,
    "closure without it": """
        def fit(model, x, y):
            optimizer = torch.optim.LBFGS(model.parameters())

            def closure():
                loss = F.mse_loss(model(x), y)
                loss.backward()  # !
                return loss

            for _ in range(100):
                optimizer.step(closure)
    """,
    "several parts": """
        def train(model, loader, optimizer, parts=4):
            for x, y in loader:
                optimizer.zero_grad()
                for part in range(parts):
                    F.cross_entropy(model(x[part]), y[part]).backward()  # !
                    optimizer.step()
    """,
    "one epoch by default": """
        def train(model, loader, optimizer, epochs=1):
            for epoch in range(epochs):
                for x, y in loader:
                    F.cross_entropy(model(x), y).backward()  # !
                    optimizer.step()
    """,
}

CLEAN = {
    "a stack that resets as it is left": """
        def train_step(net, optimizer, x):
            with contextlib.ExitStack() as stack:
                loss = net(x).mean()
                loss.backward()
                stack.callback(optimizer.zero_grad)
                optimizer.step()

        def main(net, loader):
            optimizer = torch.optim.Adam(net.parameters())
            for x in loader:
                train_step(net, optimizer, x)
    """,
    "another stage": """
        class Learner:
            def __init__(self, net):
                self.net = net
                self.inner = torch.optim.SGD(net.parameters(), lr=0.01)

            def observe(self, x, y, stage=0):
                loss = F.cross_entropy(self.net(x), y)
                loss.backward()
                if stage == 1 or stage == 3:
                    self.inner.step()
                else:
                    return loss

            def after_task(self, loader):
                for x, y in loader:
                    self.inner.zero_grad()
                    self.observe(x, y, stage=1)
                for x, y in loader:
                    self.observe(x, y, stage=2)
    """,
    "first": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "after the step": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
    """,
    "of the model": """
        def train(model, loader, optimizer):
            for x, y in loader:
                model.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "set to None": """
        def train(model, loader, optimizer):
            for x, y in loader:
                for p in model.parameters():
                    p.grad = None
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "zeroed by hand": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                for p in model.parameters():
                    if p.grad is not None:
                        p.grad.data.zero_()
    """,
    "accumulation": """
        def train(model, loader, optimizer):
            for i, (x, y) in enumerate(loader):
                (F.cross_entropy(model(x), y) / 4).backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    """,
    "micro-batches inside": """
        def train(model, loader, optimizer):
            for batch in loader:
                optimizer.zero_grad()
                for x, y in batch.split(8):
                    (F.cross_entropy(model(x), y) / 4).backward()
                optimizer.step()
    """,
    "in a helper": """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.g_optimizer = torch.optim.Adam(net.parameters())

            def reset_grad(self):
                self.g_optimizer.zero_grad()

            def fit(self, loader):
                for x in loader:
                    self.reset_grad()
                    self.net(x).mean().backward()
                    self.g_optimizer.step()
    """,
    "in a helper that cannot be read": """
        from somewhere import optimize

        def train(model, loader, optimizer):
            for x, y in loader:
                prepare(optimizer)
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "in the caller": """
        def step(model, x, y, optimizer):
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                step(model, x, y, optimizer)
    """,
    "closure": """
        def fit(model, x, y):
            optimizer = torch.optim.LBFGS(model.parameters())

            def closure():
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                return loss

            for _ in range(100):
                optimizer.step(closure)
    """,
    "several optimizers": """
        def train(model, loader, optimizers):
            for x, y in loader:
                for o in optimizers:
                    o.zero_grad()
                F.cross_entropy(model(x), y).backward()
                for o in optimizers:
                    o.step()
    """,
    "an engine": """
        import deepspeed

        def train(model_engine, loader):
            for x, y in loader:
                loss = F.cross_entropy(model_engine(x), y)
                model_engine.backward(loss)
                model_engine.step()
    """,
    "no optimizer": """
        def importance(model, loader):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
            return [p.grad.norm().item() for p in model.parameters()]
    """,
    "a new optimizer each time": """
        def adapt(tasks, build):
            for x, y in tasks:
                net = build()
                optimizer = torch.optim.SGD(net.parameters(), 0.1)
                F.mse_loss(net(x), y).backward()
                optimizer.step()
    """,
    "an optimizer over what the others reset": """
        import itertools

        def train(G, D, loader):
            g_opt = torch.optim.Adam(G.parameters())
            d_opt = torch.optim.Adam(D.parameters())
            info_opt = torch.optim.Adam(itertools.chain(G.parameters(), D.parameters()))
            for x, z in loader:
                d_opt.zero_grad()
                D(x).mean().backward()
                d_opt.step()
                g_opt.zero_grad()
                D(G(z)).mean().backward()
                g_opt.step()
                D(G(z)).pow(2).mean().backward()
                info_opt.step()
    """,
    "environment and scheduler": """
        def rollout(env, scheduler, model):
            for t in range(100):
                loss = model(env.step(0)).mean()
                loss.backward()
                scheduler.step()
                model.zero_grad()
    """,
    "one part by the configuration": """
        class Executor:
            def __init__(self, config, model):
                self.model = model
                self.optimizer = torch.optim.Adam(model.parameters())
                self.parts = config.get("parts", 1)

            def train(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    for part in range(self.parts):
                        loss = F.cross_entropy(self.model(x[part]), y[part])
                        loss.backward()
                        self.optimizer.step()
    """,
    "one part by default": """
        def train(model, loader, optimizer, parts=1):
            for x, y in loader:
                optimizer.zero_grad()
                for part in range(parts):
                    F.cross_entropy(model(x[part]), y[part]).backward()
                    optimizer.step()
    """,
    "one part by an option": """
        parser = argparse.ArgumentParser()
        parser.add_argument("--num-parts", type=int, default=1)
        args = parser.parse_args()
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            for part in range(args.num_parts):
                F.cross_entropy(model(x[part]), y[part]).backward()
                optimizer.step()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name])


def test_reset_outside_of_the_loop_is_named() -> None:
    (finding,) = findings(FLAGGED["only before the loop"], CODE)
    assert "runs once, before the loop" in finding.message
    assert finding.fix is not None
    assert finding.fix.edits[0].text.startswith("optimizer.zero_grad()\n")


SEVERAL_STEPS = """
    def train(critic: nn.Module, painter: nn.Module, loader):
        of_critic = torch.optim.Adam(critic.parameters())
        of_painter = torch.optim.Adam(painter.parameters())
        for x in loader:
            BEFORE
            for _ in range(5):
                loss = critic(painter(torch.randn_like(x)).detach()).mean() - critic(x).mean()
                loss.backward()  # !
                of_critic.step()
            AFTER
            (-critic(painter(torch.randn_like(x)))).mean().backward()
            of_painter.step()
"""


def _where(before: str, after: str) -> str:
    snippet = SEVERAL_STEPS.replace("BEFORE", before).replace("AFTER", after)
    assert_flagged(snippet, CODE)
    (finding,) = findings(snippet, CODE)
    return finding.message.partition("; ")[2]


@pytest.mark.parametrize("reset", ["painter.zero_grad()", "of_painter.zero_grad()"])
def test_a_reset_of_another_network_is_not_named(reset: str) -> None:
    assert _where("pass", reset) == ""
    assert _where(reset, "pass") == ""


@pytest.mark.parametrize("reset", ["critic.zero_grad()", "of_critic.zero_grad()"])
def test_a_reset_is_named_by_where_it_is(reset: str) -> None:
    assert _where(reset, "of_painter.zero_grad()").endswith("runs once, before the loop")
    assert _where("of_painter.zero_grad()", reset).endswith("comes after the loop")


TWO_OPTIMIZERS = """
    from itertools import chain

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.ab = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
            self.scale = nn.Parameter(torch.zeros(1))

        def first(self):
            {first}

        def second(self):
            {second}

        def forward(self, x):
            return self.scale * self.ab(self.b(self.a(x)))

    def train(loader):
        net = Net()
        one = torch.optim.Adagrad({one}, lr=0.1)
        two = torch.optim.AdamW({two}, lr=0.1)
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            two.zero_grad()
            loss.backward(){mark}
            one.step()
            two.step()
"""
FIRST, SECOND = "return self.a.parameters()", "return self.b.parameters()"
APART = [
    (FIRST, SECOND, "net.a.parameters()", "net.b.parameters()"),
    (FIRST, SECOND, "net.a.parameters()", "net.ab.parameters()"),
    (FIRST, SECOND, "net.first()", "net.second()"),
    (FIRST, "yield from self.b.parameters(); yield self.scale", "net.first()", "net.second()"),
    (FIRST, "return chain(self.b.parameters(), [self.scale])", "net.first()", "net.second()"),
    ("return list(self.a.parameters()) + list(self.ab.parameters())", SECOND, "net.first()", "net.second()"),
    ("return [*self.a.parameters(), self.scale]", SECOND, "net.first()", "net.second()"),
]
TOGETHER = [
    (FIRST, SECOND, "net.a.parameters()", "net.parameters()"),
    (FIRST, SECOND, "net.parameters()", "net.b.parameters()"),
    (FIRST, SECOND, "net.first()", "net.parameters()"),
    (FIRST, "return self.parameters()", "net.first()", "net.second()"),
    (FIRST, "return chain(self.a.parameters(), self.b.parameters())", "net.first()", "net.second()"),
    (FIRST, "return chain(self.first(), self.b.parameters())", "net.first()", "net.second()"),
    (FIRST, "return (p for m in self.children() for p in m.parameters())", "net.first()", "net.second()"),
    (
        "return [p for n, p in self.named_parameters() if 'bias' in n]",
        "return [p for n, p in self.named_parameters() if 'bias' not in n]",
        "net.first()",
        "net.second()",
    ),
]


@pytest.mark.parametrize(("first", "second", "one", "two"), APART)
def test_one_of_two_optimizers(first: str, second: str, one: str, two: str) -> None:
    snippet = TWO_OPTIMIZERS.format(first=first, second=second, one=one, two=two, mark="{mark}")
    assert_flagged(snippet.replace("{mark}", "  # !"), CODE)
    assert_clean(snippet.replace("{mark}", "").replace("two.zero_grad()", "two.zero_grad(); one.zero_grad()"), CODE)


@pytest.mark.parametrize(("first", "second", "one", "two"), TOGETHER)
def test_two_optimizers_that_may_share_parameters(first: str, second: str, one: str, two: str) -> None:
    assert_clean(TWO_OPTIMIZERS.format(first=first, second=second, one=one, two=two, mark=""), CODE)


ASKED_FOR = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
                self.made = None

            def forward(self, x):
                return self.layer(x)

            def optimizer(self):
                if self.made is None:
                    self.made = torch.optim.SGD(self.parameters(), 0.1)
                return self.made

        def train(loader, optimizers):
            net = Net()
            for x in loader:
                {reset}
                net(x).sum().backward()  # !
                net.optimizer().step()
"""


@pytest.mark.parametrize(
    "reset",
    [
        "net.optimizer().zero_grad()",
        "net.optimizer().zero_grad(set_to_none=True)",
        "optimizers()[0].zero_grad()",
        "net.train().zero_grad()",
        "net.layer.requires_grad_().weight.grad.zero_()",
    ],
)
def test_a_reset_of_what_a_call_gives(reset: str) -> None:
    assert_clean(twin(ASKED_FOR.format(reset=reset)), CODE)


@pytest.mark.parametrize("reset", ["pass", "net.optimizer().state_dict()", "x.clone().zero_()"])
def test_what_a_call_gives_is_not_reset(reset: str) -> None:
    assert_flagged(ASKED_FOR.format(reset=reset), CODE)


OF_AN_OBJECT = """
        class Trainer:
            def __init__(self, net, head):
                self.net, self.head = net, head
                self.first = torch.optim.AdamW(net.parameters())
                self.second = torch.optim.SGD(head.parameters(), lr=0.1)

            def zero_grad(self):
                {reset}

            def step(self):
                self.first.step()
                self.second.step()

            def fit(self, loader):
                for x, y in loader:
                    loss = F.cross_entropy(self.head(self.net(x)), y)
                    self.zero_grad()
                    loss.backward()  # !
                    self.step()
"""


@pytest.mark.parametrize(
    "reset",
    ["self.first.zero_grad()", "self.second.zero_grad(set_to_none=True)", "if self.first:\n    self.first.zero_grad()"],
)
def test_an_object_that_resets_one_of_its_optimizers(reset: str) -> None:
    assert_flagged(OF_AN_OBJECT.format(reset=reset.replace("\n", "\n                ")), CODE)


@pytest.mark.parametrize(
    "reset",
    [
        "self.first.zero_grad(); self.second.zero_grad()",
        "self.first.zero_grad(); self.head.zero_grad()",
        "self.net.zero_grad(); self.head.zero_grad()",
        "for optimizer in (self.first, self.second): optimizer.zero_grad()",
        "[optimizer.zero_grad() for optimizer in (self.first, self.second)]",
        "for p in [*self.net.parameters(), *self.head.parameters()]: p.grad = None",
        "self.first.zero_grad(); self.second.zero_grad() if self.net.training else None",
        "self.first.zero_grad(); self.reset(self.second)",
        "self.reset()",
    ],
)
def test_an_object_that_resets_them_all(reset: str) -> None:
    assert_clean(twin(OF_AN_OBJECT.format(reset=reset)), CODE)


def test_an_object_whose_optimizers_may_share_parameters() -> None:
    snippet = OF_AN_OBJECT.format(reset="self.first.zero_grad()")
    assert_clean(twin(snippet, ("AdamW(net.parameters())", "AdamW([*net.parameters(), *head.parameters()])")), CODE)
    assert_clean(twin(snippet, ("SGD(head.parameters(), lr=0.1)", "SGD(made(head), lr=0.1)")), CODE)
    assert_clean(twin(snippet, ("                self.second.step()\n", "")), CODE)


FISHER = """
        def diagonal(model, batches):
            fisher = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
            model.zero_grad()
            for x, y in batches:
                loss = F.nll_loss(F.log_softmax(model(x), dim=1), y)
                loss.backward()
                for n, p in model.named_parameters():
                    fisher[n] += p.grad.detach().pow(2) / len(batches)  # !
            model.zero_grad()
            return fisher
"""
SQUARES = ["p.grad ** 2", "p.grad.data.square()", "(p.grad / 2).abs()", "len(x) * p.grad.detach() ** 2"]


@pytest.mark.parametrize("square", SQUARES)
def test_squares_of_gradients_that_add_up(square: str) -> None:
    assert_flagged(FISHER.replace("p.grad.detach().pow(2)", square), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("loss.backward()", "model.zero_grad()\n                loss.backward()"),
        ("/ len(batches)", "/ len(batches)\n                    p.grad = None"),
        ("/ len(batches)", "/ len(batches)\n                    p.grad.zero_()"),
        ("p.grad.detach().pow(2)", "p.grad.detach()"),
        ("p.grad.detach().pow(2)", "p.detach().pow(2)"),
        ("for x, y in batches:", "for x, y in batches:\n                fisher = {n: 0 for n in fisher}"),
        (
            "loss.backward()\n                for n, p in model.named_parameters():",
            "model.zero_grad(); loss.backward()\n                for n, p in model.named_parameters():",
        ),
        ("loss.backward()", "grads = torch.autograd.grad(loss, list(model.parameters()))"),
    ],
)
def test_squares_of_the_gradients_of_each_batch(edit: tuple[str, str]) -> None:
    assert_clean(twin(FISHER, edit), CODE)


def test_a_sum_of_all_parameters() -> None:
    norm = twin(FISHER, ("fisher[n] +=", "self.norm +="), ("fisher = {", "self.norm, fisher = 0.0, {"))
    assert findings(norm.replace("def diagonal(", "def diagonal(self, "), CODE)


def test_squares_of_what_all_batches_add_up_to() -> None:
    late = twin(
        FISHER,
        ("                for n, p in model", "            for n, p in model"),
        ("                    fisher[n] +=", "                fisher[n] +="),
    )
    assert_clean(late, CODE)


HEIR = """
        class Base:
            def __init__(self, model):
                self.model = model
                self.make()

            def make(self):
                self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)

            def step(self):
                self.opt.step()

            def train(self, loader):
                for x, y in loader:
                    self.opt.zero_grad()
                    self.loss(x, y).backward()  # !
                    self.step()

        class Adversarial(Base):
            def make(self):
                super().make()
                self.critic = nn.Linear(4, 1)
                self.opt_d = torch.optim.Adam(self.critic.parameters())

            def step(self):
                super().step()
                self.opt_d.step()

            def loss(self, x, y):
                found = self.model(x)
                return F.mse_loss(found, y) - self.critic(found).mean()
"""


def test_the_step_of_an_heir_is_related() -> None:
    (finding,) = findings(HEIR, CODE)
    (related,) = finding.related
    lines = source(HEIR).splitlines()
    assert "backward()" in lines[finding.span.line - 1]
    assert "self.opt_d.step()" in lines[related.line - 1]
    assert_clean(twin(HEIR, ("self.opt_d.step()", "self.opt_d.step(); self.opt_d.zero_grad()")), CODE)


OF_SAMPLES = """
    def train(model, criterion, optimizer, loader):
        for batch in loader:
            videos, targets = batch
            videos = videos.cuda()
            HERE
            for WHICH:
                loss = criterion(model(video), targets)
                loss.backward()  # !
                optimizer.step()
"""


@pytest.mark.parametrize(
    ("here", "which", "confidence"),
    [
        ("optimizer.zero_grad()", "video in videos", Confidence.LOW),
        ("optimizer.zero_grad()", "i in range(4)", Confidence.HIGH),
        ("optimizer.zero_grad()", "video in videos.split(8)", Confidence.HIGH),
        ("pass", "video in videos", Confidence.HIGH),
    ],
)
def test_a_step_for_each_sample_of_a_batch(here: str, which: str, confidence: Confidence) -> None:
    snippet = OF_SAMPLES.replace("HERE", here).replace("WHICH", which)
    assert_flagged(snippet, CODE, confidence)
    if confidence is Confidence.LOW:
        assert_clean(snippet, CODE, Confidence.HIGH)


CRITICS = """
        import copy

        class Agent:
            def __init__(self, dim):
                self.actor = Net(dim)
                {made}
                self.acting = torch.optim.Adam(self.actor.parameters())
                self.learning = torch.optim.Adam(self.critic.parameters())

            def update(self, batch):
                state, action, goal = batch
                loss = F.mse_loss(self.critic(state, action), goal)
                {reset}
                loss.backward(){mark}
                self.learning.step()
                self.actor.zero_grad()
                (-self.critic(state, self.actor(state)).mean()).backward()
                self.acting.step()

        class Net(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.body = nn.Linear(dim, 1)

            def forward(self, *given):
                return self.body(torch.cat(given, 1))

        def train(replay, steps):
            agent = Agent(8)
            for _ in range(steps):
                agent.update(replay.sample(64))
"""
COPIED = "self.critic = Net(dim)\n                self.target = copy.deepcopy(self.critic)"
MADE = "self.target = Net(dim)\n                "
BESIDE = "self.critic, self.target = Net(dim).to('cpu'), Net(dim).to('cpu')"


LAYERS = "self.critic, self.target = nn.Bilinear(k, m, 1), nn.Sequential(nn.Linear(m, 1), nn.ReLU())"


@pytest.mark.parametrize("made", [COPIED, BESIDE, LAYERS])
@pytest.mark.parametrize("reset", ["self.target.zero_grad()", "self.actor.zero_grad()", "pass"])
def test_the_reset_of_another_module(made: str, reset: str) -> None:
    assert_flagged(CRITICS.format(made=made, reset=reset, mark="  # !"), CODE)


@pytest.mark.parametrize(
    ("made", "reset"),
    [
        (COPIED, "self.critic.zero_grad()"),
        (COPIED, "self.learning.zero_grad()"),
        ("self.target = Net(dim)\n                self.critic = self.target", "self.target.zero_grad()"),
        (
            "self.target = Net(dim)\n                self.critic = nn.DataParallel(self.target)",
            "self.target.zero_grad()",
        ),
        (
            "self.target = Net(dim)\n                self.critic = Both([self.actor, self.target])",
            "self.target.zero_grad()",
        ),
        ("self.critic = Net(dim)\n                self.target = Wrapped(self.critic)", "self.target.zero_grad()"),
        ("self.critic = Net(dim)\n                self.target = self.critic.body", "self.target.zero_grad()"),
        (f"{MADE}self.critic = self.target.body", "self.target.zero_grad()"),
        (f"{MADE}self.critic = self.target.cuda()", "self.target.zero_grad()"),
        (f"{MADE}self.critic = self.target.get_submodule('body')", "self.target.zero_grad()"),
        (f"{MADE}self.critic = self.target if dim else Net(dim)", "self.target.zero_grad()"),
        (f"{MADE}self.critic = Net(dim); self.critic.body = self.target.body", "self.target.zero_grad()"),
        (
            f"{MADE}self.both = nn.ModuleDict({{'a': self.target}}); self.critic = self.both['a']",
            "self.target.zero_grad()",
        ),
        (f"{MADE}self.keep('critic', self.target)", "self.target.zero_grad()"),
        ("trunk = Net(dim); self.target, self.critic = Net(trunk), Net(trunk)", "self.target.zero_grad()"),
        ("self.target = self.critic = Net(dim)", "self.target.zero_grad()"),
        ("self.critic = Net(dim); self.target = nn.Sequential(self.critic, nn.ReLU())", "self.target.zero_grad()"),
        (
            "layers = [Net(dim)]; self.target, self.critic = nn.Sequential(*layers), layers[0]",
            "self.target.zero_grad()",
        ),
        ("self.critic, self.target = build(dim)", "self.target.zero_grad()"),
    ],
)
def test_the_reset_of_a_module_that_may_share_parameters(made: str, reset: str) -> None:
    assert_clean(CRITICS.format(made=made, reset=reset, mark=""), CODE)


LBFGS = """
    def fit(model, x, y):
        optimizer = {optimizer}

        def closure():
            {first}
            loss = F.mse_loss(model(x), y)
            loss.backward()  {mark}
            {last}
            return loss

        for _ in range(100):
            {before}
            optimizer.step({given})
"""


def lbfgs(
    optimizer: str = "torch.optim.LBFGS(model.parameters(), max_iter=20)",
    first: str = "pass",
    last: str = "pass",
    before: str = "optimizer.zero_grad()",
    given: str = "closure",
    mark: str = "",
) -> str:
    return LBFGS.format(optimizer=optimizer, first=first, last=last, before=before, given=given, mark=mark)


MADE_ELSEWHERE = """
    class Problem:
        def __init__(self, model, data):
            self.model, self.data = model, data

        def loss(self):
            return F.mse_loss(self.model(), self.data)

        def closure_for(self, optimizer):
            def closure():
                {reset}
                loss = self.loss()
                loss.backward()  {mark}
                return loss
            return closure

    def main(model, data):
        problem = Problem(model, data)
        optimizer = torch.optim.LBFGS(model.parameters())
        closure = problem.closure_for(optimizer)
        for _ in range(6):
            optimizer.zero_grad()
            optimizer.step(closure)
"""
OF_OBJECT = """
    class Fit:
        def __init__(self, model, x, y):
            self.model, self.x, self.y = model, x, y
            self.optimizer = torch.optim.{kind}(self.model.parameters())

        def closure(self):
            {reset}
            loss = F.mse_loss(self.model(self.x), self.y)
            loss.backward()  {mark}
            return loss

        def start(self):
            {start}

        def run(self):
            self.optimizer.zero_grad()
            self.optimizer.step(self.closure)
"""


@pytest.mark.parametrize(
    "snippet",
    [
        lbfgs(mark="# !"),
        lbfgs("torch.optim.LBFGS(model.parameters())", mark="# !"),
        lbfgs("torch.optim.LBFGS(model.parameters(), 1.0, 50, line_search_fn='strong_wolfe')", mark="# !"),
        lbfgs(before="pass", mark="# !"),
        lbfgs(before="model.zero_grad()", mark="# !"),
        lbfgs(given="closure=closure", mark="# !"),
        MADE_ELSEWHERE.format(reset="pass", mark="# !"),
        OF_OBJECT.format(kind="LBFGS", reset="pass", start="pass", mark="# !"),
        OF_OBJECT.format(kind="LBFGS", reset="self.start()", start="self.model.train()", mark="# !"),
    ],
)
def test_a_closure_that_is_run_several_times_for_one_reset(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        lbfgs(first="optimizer.zero_grad()"),
        lbfgs(first="model.zero_grad(set_to_none=True)"),
        lbfgs(first="for p in model.parameters(): p.grad = None"),
        lbfgs(first="if torch.is_grad_enabled(): optimizer.zero_grad()"),
        lbfgs(first="reset_gradients(model)"),
        lbfgs(last="keep(model); optimizer.zero_grad()"),
        lbfgs("torch.optim.SGD(model.parameters(), lr=0.1)"),
        lbfgs("torch.optim.LBFGS(model.parameters(), max_iter=1)"),
        lbfgs("torch.optim.LBFGS(model.parameters(), 1.0, 1)"),
        lbfgs("make_optimizer(model)"),
        lbfgs("torch.optim.LBFGS(model.parameters(), **options)"),
        lbfgs("torch.optim.Adam(model.parameters()); optimizer = torch.optim.LBFGS(model.parameters())"),
        lbfgs(given="", before="optimizer.zero_grad(); closure()"),
        lbfgs(given="wrapped(closure)"),
        MADE_ELSEWHERE.format(reset="optimizer.zero_grad()", mark=""),
        MADE_ELSEWHERE.format(reset="self.model.zero_grad()", mark=""),
        OF_OBJECT.format(kind="LBFGS", reset="self.optimizer.zero_grad()", start="pass", mark=""),
        OF_OBJECT.format(kind="LBFGS", reset="self.start()", start="self.model.zero_grad()", mark=""),
        OF_OBJECT.format(kind="Adam", reset="pass", start="pass", mark=""),
    ],
)
def test_closures_that_reset_or_are_run_once(snippet: str) -> None:
    assert_clean(snippet, CODE)


# A loop steps all optimizers, and only one of them is reset.
TWO = """
    class Clicks:
        def __init__(self, model):
            self.model = model
            self.optims = {{
                "tables": torch.optim.SparseAdam(list(model.tables.parameters())),
                "dense": torch.optim.Adam(model.tower.parameters()),
            }}

        def loss(self, ids, x, y):
            return F.mse_loss(self.model(ids, x), y)

        def reset(self):
            for optim in self.optims.values():
                optim.zero_grad()

        def step(self, ids, x, y):
            {reset}{mark}
            self.loss(ids, x, y).backward()
            {step}

    def main(model, loader):
        clicks = Clicks(model)
        for ids, x, y in loader:
            {before}
            clicks.step(ids, x, y)
"""
STEP_EACH = "for optim in self.optims.values(): optim.step()"


def two(reset: str, step: str = STEP_EACH, *, before: str = "pass", mark: str = "") -> str:
    return TWO.format(reset=reset, step=step, before=before, mark=mark)


def pair(optims: str, reset: str, over: str = "optims", mark: str = "", inputs: str = "A(x)") -> str:
    return f"""
        def train(A, B, loader):
            a, b = torch.optim.Adam(A.parameters()), torch.optim.SGD(B.parameters(), 0.1)
            optims = {optims}
            for x, y in loader:
                {reset}{mark}
                F.mse_loss(B({inputs}), y).backward()
                for opt in {over}:
                    opt.step()
    """


@pytest.mark.parametrize(
    "snippet",
    [
        two('self.optims["dense"].zero_grad()', mark="  # !"),
        two('self.optims["tables"].zero_grad(set_to_none=True)', mark="  # !"),
        two(
            'self.optims["dense"].zero_grad()',
            "for name, optim in self.optims.items():\n    optim.step()".replace("\n", "\n            "),
            mark="  # !",
        ),
        pair("[a, b]", "a.zero_grad()", mark="  # !"),
        pair("(a, b)", "b.zero_grad()", mark="  # !"),
        pair("[]", "a.zero_grad()", "(a, b)", mark="  # !"),
        pair('{"a": torch.optim.Adam(A.parameters()), "b": b}', 'optims["a"].zero_grad()', "optims.values()", "  # !"),
    ],
)
def test_one_of_several_is_reset(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        two("self.reset()"),
        two("for optim in self.optims.values(): optim.zero_grad()"),
        two("self.model.zero_grad()"),
        two('self.optims["dense"].zero_grad(); self.optims["tables"].zero_grad()'),
        two('self.optims["dense"].zero_grad(); self.model.tables.zero_grad()'),
        two('self.optims["dense"].zero_grad()', before="clicks.reset()"),
        two('self.optims["dense"].zero_grad()', before="model.zero_grad()"),
        two('self.optims["dense"].zero_grad()', 'self.optims["dense"].step()'),
        two('self.optims["dense"].zero_grad()', "for optim in self.optims.values(): optim.step(); optim.zero_grad()"),
        two('self.optims["dense"].zero_grad()', "for optim in chosen(self.optims): optim.step()"),
        two('self.optims["dense"].zero_grad(); clear(self)'),
        pair("[a, b]", "a.zero_grad(); b.zero_grad()"),
        pair("[a, b]", "for opt in optims: opt.zero_grad()"),
        pair("[a, b]", "for p in B.parameters(): p.grad = None\n                a.zero_grad()"),
        pair("[a, torch.optim.SGD(given, 0.1)]", "a.zero_grad()"),  # nobody knows whose parameters
        pair("[a, b, torch.optim.SGD(A.parameters(), 0.1)]", "a.zero_grad(); b.zero_grad()"),  # of the same parameters
        pair("[a, b]", "b.zero_grad()", inputs="A(x).detach()"),  # nothing gives the other one a gradient
    ],
)
def test_several_that_are_reset(snippet: str) -> None:
    assert_clean(snippet, CODE)


WEIGHED = """
    def train(model, loader, weighs):
        if weighs:
            a, b = torch.tensor([1.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)
            weight_opt = torch.optim.Adam(iter([a, b]), lr=1e-4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            ((model(x) - y).pow(2).mean() / a + b).backward()  # !
            optimizer.step()
            if weighs:
                weight_opt.step()
"""


def test_leaves_that_an_optimizer_goes_over() -> None:
    snippet = WEIGHED.replace(
        "a, b = torch.tensor([1.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)",
        ("a = torch.tensor([1.0], requires_grad=True); b = torch.tensor([1.0], requires_grad=True)"),
    )
    assert_flagged(snippet, CODE)
    (found,) = findings(snippet, CODE)
    assert [each.message for each in found.related] == ["this is its step"]
    assert found.fix is None  # where it does not step, it may not be there


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("optimizer.zero_grad()", "optimizer.zero_grad(); weight_opt.zero_grad()"),
        ("weight_opt.step()", "weight_opt.step(); weight_opt.zero_grad()"),
        ("weight_opt.step()", "weight_opt.step(); a.grad = None; b.grad = None"),
        ("iter([a, b])", "iter(model.weights)"),
        ("iter([a, b])", "iter(model.parameters())"),
        ("iter([a, b])", "iter(chosen(model))"),
    ],
)
def test_leaves_that_are_reset_or_not_known(old: str, new: str) -> None:
    assert_clean(twin(WEIGHED, (old, new)), CODE)


LOSS_COMPUTE = """
    class LossCompute:
        def __init__(self, criterion, opt=None):
            self.criterion, self.opt = criterion, opt

        def __call__(self, logits, y):
            loss = self.criterion(logits, y)
            if self.opt is not None:
                loss.backward()  # !
                self.opt.step()
            return loss.item()

    def run(model, train, dev, optimizer):
        compute, measure = LossCompute(nn.CrossEntropyLoss(), optimizer), LossCompute(nn.CrossEntropyLoss())
        for epoch in range(9):
            for x, y in train:
                optimizer.zero_grad()
                compute(model(x), y)
            with torch.no_grad():
                for x, y in dev:
                    measure(model(x), y)
"""
MEASURES = LOSS_COMPUTE[LOSS_COMPUTE.index("            with torch.no_grad()") :].rstrip()


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(MEASURES, "            self.test(model, dev, measure)")],
        [("for x, y in dev:", "print(sum(measure(model(a), b) for a, b in dev))"),
         ("\n                    measure(model(x), y)", "")],
        [("torch.no_grad()", "torch.inference_mode()")],
    ],
)  # fmt: skip
def test_no_backward_is_reached_where_no_graph_is_recorded(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(LOSS_COMPUTE, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("with torch.no_grad():", "if epoch > 2:"), ("measure(model(x), y)", "compute(model(x), y)")],
        [("measure(model(x), y)", "compute(model(x), y)"), ("with torch.no_grad():", "if True:")],
        [("measure(model(x), y)", "with torch.enable_grad():\n                        compute(model(x), y)")],
    ],
)  # fmt: skip
def test_a_backward_that_is_reached_is_told(edits: list[tuple[str, str]]) -> None:
    snippet = LOSS_COMPUTE
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)

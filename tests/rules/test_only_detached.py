from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG243"
POOL = """
    import numpy as np

    class TopKPool(nn.Module):
        def __init__(self, dim, k):
            super().__init__()
            self.k = k
            self.proj = nn.Parameter(torch.randn(dim))
            self.lin = nn.Linear(dim, dim)

        def forward(self, x, adj):
"""

FLAGGED = {
    "a gate by way of numpy": """
        score = x @ self.proj / self.proj.norm()
        order = np.argsort(-score.detach().numpy(), axis=1)[:, : self.k]
        idx = torch.from_numpy(order.copy())
        gate = torch.tanh(torch.from_numpy(np.take_along_axis(score.detach().numpy(), order, axis=1)))  # !
        return x.gather(1, idx.unsqueeze(-1)) * gate.unsqueeze(-1)
    """,
    "a weight that is detached": """
        score = torch.matmul(x, self.proj)
        gate = torch.sigmoid(score.detach())  # !
        return self.lin(x) * gate.unsqueeze(-1)
    """,
    "its data": """
        score = (x * self.proj).sum(-1)
        return self.lin(x) * score.data.unsqueeze(-1)  # !
    """,
    "of which something else is made": """
        raw = x @ self.proj
        score = raw / self.k
        seen = raw.detach().mean()
        return self.lin(x) * score.detach().tanh().unsqueeze(-1) + seen  # !
    """,
}

SILENT = {
    "the gate with its graph": """
        score = x @ self.proj / self.proj.norm()
        order = np.argsort(-score.detach().numpy(), axis=1)[:, : self.k]
        gate = torch.tanh(score.gather(1, torch.from_numpy(order.copy())))
        return x * gate.unsqueeze(-1)
    """,
    "indices alone": """
        score = x @ self.proj
        idx = score.detach().argsort(-1)[:, : self.k]
        best = np.argmax(score.detach().numpy())
        return x.gather(1, idx.unsqueeze(-1)) + best
    """,
    "a mask": """
        score = x @ self.proj
        kept = score.detach() > 0
        return self.lin(x) * kept.unsqueeze(-1)
    """,
    "what is detached itself": """
        score = x @ self.proj.detach()
        gate = score.detach().tanh()
        return self.lin(x) * gate.unsqueeze(-1)
    """,
    "also used otherwise": """
        score = x @ self.proj
        self.seen = score.detach().mean()
        return self.lin(x) * score.tanh().unsqueeze(-1)
    """,
    "returned as well": """
        score = x @ self.proj
        gate = torch.sigmoid(score.detach())
        return self.lin(x) * gate.unsqueeze(-1), score
    """,
    "kept for a loss": """
        score = x @ self.proj
        self.score = score
        gate = torch.sigmoid(score.detach())
        return self.lin(x) * gate.unsqueeze(-1)
    """,
    "given to a function": """
        score = x @ self.proj
        self.penalty = torch.norm(self.proj)
        gate = torch.sigmoid(score.detach())
        return self.lin(x) * gate.unsqueeze(-1)
    """,
    "in a list": """
        scores = []
        scores.append(x @ self.proj)
        score = x @ self.proj
        gate = torch.sigmoid(score.detach())
        return self.lin(x) * gate.unsqueeze(-1), scores
    """,
    "under no_grad": """
        with torch.no_grad():
            score = x @ self.proj
        gate = torch.sigmoid(score.detach())
        return self.lin(x) * gate.unsqueeze(-1)
    """,
    "an estimator": """
        score = x @ self.proj
        hard = (score > 0).float()
        gate = score + (hard - score).detach()
        return self.lin(x) * gate.unsqueeze(-1)
    """,
}

MADE = "self.proj = nn.Parameter(torch.randn(dim))"
CLASSES = {
    "a buffer": ((MADE, 'self.register_buffer("proj", torch.randn(dim))'),),
    "a parameter that wants none": ((MADE, "self.proj = nn.Parameter(torch.randn(dim), requires_grad=False)"),),
    "one that is frozen": ((MADE, MADE + "; self.proj.requires_grad_(False)"),),
    "a random projection": (("self.proj", "self.random_proj"),),
    "one that is made anew": ((MADE, MADE + "; self.proj = nn.Parameter(torch.ones(dim))"),),
    "one of a name": ((MADE, 'self.register_parameter("proj", nn.Parameter(torch.randn(dim)))'),),
}

METHODS = {
    "a method that moves it": """
            def update(self, x):
                self.proj.data.lerp_(x.mean(0), 0.1)
    """,
    "a penalty": """
            def penalty(self):
                return self.proj.pow(2).sum()
    """,
    "a penalty on all": """
            def penalty(self):
                return sum(p.pow(2).sum() for p in self.parameters())
    """,
    "a penalty in a loop": """
            def penalty(self):
                total = 0
                for name, p in self.named_parameters():
                    total = total + p.norm()
                return total
    """,
    "a derived class": """
        class Other(TopKPool):
            def penalty(self):
                return 1
    """,
    "somebody else": """
        def penalty(pool):
            return pool.proj.norm()
    """,
    "where gradients are off": """
        def score(x, adj):
            pool = TopKPool(8, 2)
            for p in pool.parameters():
                p.requires_grad = False
            getattr(pool, "proj").requires_grad = True
            return pool
    """,
}


def _in_forward(snippet: str) -> str:
    return POOL + "".join(f"        {line}\n" for line in snippet.splitlines())


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_a_parameter_of_which_only_numbers_are_used(snippet: str) -> None:
    assert_flagged(_in_forward(snippet), CODE)


@pytest.mark.parametrize("snippet", SILENT.values(), ids=SILENT)
def test_what_gets_a_gradient_or_gives_indices_is_not_flagged(snippet: str) -> None:
    assert_clean(_in_forward(snippet), CODE)


@pytest.mark.parametrize("edits", CLASSES.values(), ids=CLASSES)
def test_what_is_not_to_be_trained_is_not_flagged(edits: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(_in_forward(FLAGGED["a weight that is detached"]), *edits), CODE)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_what_something_else_uses_is_not_flagged(method: str) -> None:
    source = twin(_in_forward(FLAGGED["a weight that is detached"]))
    assert_clean(source + "\n" + "\n".join(line[4:] for line in method.splitlines()) + "\n", CODE)


def test_what_another_file_uses_is_not_flagged(tmp_path: Path) -> None:
    lines = _in_forward(FLAGGED["a weight that is detached"]).splitlines()
    pool = "import torch\nfrom torch import nn\n" + "\n".join(line[4:] for line in lines) + "\n"
    files = {"pool.py": pool, "train.py": "from pool import TopKPool\npool = TopKPool(8, 2)\nloss = pool.proj.norm()\n"}
    assert lines_in_files(tmp_path, files, CODE) == []
    files["train.py"] = "from pool import TopKPool\npool = TopKPool(8, 2)\n"
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["pool.py"]


QUANTIZER = """
    class Quantizer(nn.Module):
        def __init__(self, size, dim):
            super().__init__()
            self.codebook = nn.Embedding(size, dim)
            self.codebook.weight.data.uniform_(-1 / size, 1 / size)

        def forward(self, z):
            flat = z.view(-1, z.shape[-1])
            d = (flat ** 2).sum(1, keepdim=True) + (self.codebook.weight ** 2).sum(1)
            d = d - 2 * flat @ self.codebook.weight.t()
            index = d.argmin(1)
            q = self.codebook(index).view(z.shape)
            loss = F.mse_loss(q.detach(), z)  # !
            q = z + (q - z).detach()
            return q, loss, index
"""
BACK = "            return q"
UNIFORM = "self.codebook.weight.data.uniform_(-1 / size, 1 / size)"
OF_PARAMETER = """
    class Quantizer(nn.Module):
        def __init__(self, size, dim):
            super().__init__()
            self.codebook = nn.Parameter(torch.randn(size, dim))

        def forward(self, z):
            distance = torch.cdist(z, self.codebook)
            _, index = torch.min(distance, 1)
            hot = F.one_hot(index, self.codebook.shape[0]).float()
            code = hot @ self.codebook
            commit = self.measure(z, code.detach())  # !
            out = z + (code - z).detach()
            return out, commit
"""


@pytest.mark.parametrize(
    "snippet",
    [
        QUANTIZER,
        OF_PARAMETER,
        QUANTIZER.replace("F.mse_loss(q.detach(), z)", "(z - q.detach()).pow(2).mean()"),
        QUANTIZER.replace("index = d.argmin(1)", "index = torch.argmin(d, dim=1)"),
        QUANTIZER.replace("index = d.argmin(1)", "_, index = d.min(1)"),
        QUANTIZER.replace("F.mse_loss(q.detach(), z)", "F.mse_loss(z, q.detach()) + F.mse_loss(q.detach(), z)"),
    ],
)
def test_a_codebook_that_no_term_moves_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(QUANTIZER, ("F.mse_loss(q.detach(), z)", "F.mse_loss(q.detach(), z) + F.mse_loss(q, z.detach())")),
        twin(QUANTIZER, ("F.mse_loss(q.detach(), z)", "F.mse_loss(q, z)")),
        # moved by hand
        twin(QUANTIZER, (BACK, "            self.codebook.weight.data.copy_(self.mean)\n" + BACK)),
        twin(QUANTIZER, (BACK, "            self.codebook.weight = nn.Parameter(self.mean)\n" + BACK)),
        twin(QUANTIZER, ("        def forward", "        def update(self, x):\n"
                         "            self.codebook.weight.lerp_(x, 0.1)\n\n        def forward")),
        twin(QUANTIZER, ("q = z + (q - z).detach()", "q = q")),
        twin(QUANTIZER, ("q = z + (q - z).detach()", "q = z + (q - z)")),
        twin(QUANTIZER, ("self.codebook", "self.ema_codebook")),
        twin(QUANTIZER, ("self.codebook", "self.codes_ema")),
        twin(QUANTIZER, ("return q, loss, index", "return q, loss + 0.1 * d.min(1)[0].mean(), index")),
        twin(QUANTIZER, ("return q, loss, index", "return q, loss, d")),
        twin(QUANTIZER, (UNIFORM, "self.codebook.weight.requires_grad = False")),
        twin(QUANTIZER, (UNIFORM, "self.codebook.requires_grad_(False)")),
        twin(QUANTIZER, ("        def forward", "        @torch.no_grad()\n        def forward")),
        twin(OF_PARAMETER, ("torch.randn(size, dim)", "torch.randn(size, dim), requires_grad=False")),
        twin(OF_PARAMETER, ("code.detach())", "code)")),
        twin(OF_PARAMETER, ("out = z + (code - z).detach()", "out = code")),
        twin(OF_PARAMETER, ("hot @ self.codebook", "hot @ self.codebook.detach()")),
        twin(OF_PARAMETER, ("hot @ self.codebook", "hot @ self.codebook.data")),
        # a table that is frozen on purpose: nothing is looked for in it
        """
            class Tagger(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.embedding = nn.Embedding(100, 8)
                    self.head = nn.Linear(8, 4)

                def forward(self, x):
                    e = self.embedding(x)
                    logits = self.head(e.detach())
                    return logits, logits.argmax(1)
        """,
        QUANTIZER.replace("  # !", "") + """
    class EMAQuantizer(Quantizer):
        def step(self, x):
            self.update_codes(x)
""",
        QUANTIZER.replace("  # !", "") + """
    def train(quantizer, x):
        quantizer.codebook.weight.data += x
""",
    ],
)  # fmt: skip
def test_a_codebook_that_is_moved_or_frozen_is_not(snippet: str) -> None:
    assert_clean(snippet, CODE)


SEARCH = "            distance = torch.cdist(z, self.codebook)\n            _, index = torch.min(distance, 1)\n"
WITHOUT_GRAD = (
    SEARCH,
    "            with torch.no_grad():\n"
    "                distance = torch.cdist(z, self.codebook)\n"
    "                index = distance.argmin(1)\n",
)


@pytest.mark.parametrize(
    "snippet",
    [
        OF_PARAMETER.replace(*WITHOUT_GRAD),
        OF_PARAMETER.replace(SEARCH, "            index = torch.cdist(z, self.codebook.detach()).argmin(1)\n"),
        OF_PARAMETER.replace(
            SEARCH,
            "            codes = self.codebook.detach()\n"
            "            near = z @ codes.t() - (codes ** 2).sum(1) / 2\n"
            "            index = near.argmax(1)\n",
        ),
        QUANTIZER.replace("self.codebook.weight.t()", "self.codebook.weight.data.t()"),
        QUANTIZER.replace(
            "            index = d.argmin(1)\n", "            with torch.no_grad(): index = torch.argmin(d, dim=1)\n"
        ),
    ],
)
def test_a_codebook_that_is_looked_through_without_a_graph_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [WITHOUT_GRAD, ("self.measure(z, code.detach())", "self.measure(z.detach(), code)")],
        [WITHOUT_GRAD, ("out = z + (code - z).detach()", "out = code")],
        [WITHOUT_GRAD, ("    out = z", "    with torch.no_grad(): self.codebook.lerp_(z, 0.1)\n            out = z")],
        [WITHOUT_GRAD, ("            out = z", "            self.codebook.data[index] = z\n            out = z")],
        [WITHOUT_GRAD, ("out, commit", "out, commit + distance.mean()")],
        [WITHOUT_GRAD, ("out, commit", "out, commit, self.codebook")],
        [WITHOUT_GRAD, ("index = distance.argmin(1)", "index = distance.argmin(1); self.seen = self.codebook.clone()")],
        [WITHOUT_GRAD, ("torch.cdist(z, self.codebook)", "z @ self.codebook.t(); self.show(distance)")],
        [WITHOUT_GRAD, ("self.codebook", "self.codes_ema")],
    ],
)  # fmt: skip
def test_look_alikes_of_such_a_codebook(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(OF_PARAMETER, *edits), CODE)


def test_what_is_hashed_without_a_graph_is_a_choice() -> None:
    assert_clean(
        """
    class Router(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Parameter(torch.randn(8, 4))

        def forward(self, x):
            with torch.no_grad():
                score = x @ self.proj
                bucket = score.argmax(1)
            y = x @ self.proj
            return y.detach(), bucket
    """,
        CODE,
    )


SCALED = """
    class Scaled(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.body = nn.Linear(dim, dim)
            self.gate = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            gate = self.gate.sigmoid().item()  # !
            return x + gate * self.body(x)
"""
TAKEN = "gate = self.gate.sigmoid().item()"
RATES = """
    class StepSizes(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.names = [name for name, _ in base.named_parameters()]
            self.log_rates = nn.Parameter(torch.full((len(self.names),), -3.0))

        def table(self):
            return dict(zip(self.names, self.log_rates.exp().tolist()))  # !

    class Learner(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.rates = StepSizes(base)

        def forward(self, x, y):
            rates = self.rates.table()
            fast = dict(self.base.named_parameters())
            loss = F.mse_loss(torch.func.functional_call(self.base, fast, (x,)), y)
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = {n: w - rates[n] * g for (n, w), g in zip(fast.items(), grads)}
            return F.mse_loss(torch.func.functional_call(self.base, fast, (x,)), y)

    def train(learner, tasks):
        optimizer = torch.optim.Adam(learner.parameters())
        for x, y in tasks:
            optimizer.zero_grad()
            learner(x, y).backward()
            optimizer.step()
            print(learner.rates.log_rates.detach().exp().tolist())
"""


@pytest.mark.parametrize(
    "snippet",
    [
        SCALED,
        SCALED.replace(TAKEN, "gate = float(self.gate)"),
        SCALED.replace(TAKEN, "gate = float(torch.sigmoid(self.gate))"),
        SCALED.replace(TAKEN, "gate = math.exp(self.gate)"),
        SCALED.replace(TAKEN, "gate = math.tanh(self.gate)"),
        SCALED.replace(TAKEN, "gate, = self.gate.sigmoid().tolist()"),
        SCALED.replace(TAKEN, "gate = self.gate.detach().sigmoid().item()"),
        SCALED.replace("            return x +", "            print(self.gate.item())\n            return x +"),
        RATES,
        RATES.replace("dict(zip(self.names, self.log_rates.exp().tolist()))", "[r for r in self.log_rates.tolist()]"),
    ],
)
def test_numbers_of_a_parameter_are_computed_with(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [(TAKEN, "gate = self.gate.sigmoid()")],
        [(TAKEN, "gate = self.gate.sigmoid(); self.seen = gate.item()")],
        [("return x + gate * self.body(x)", "return x + gate * self.body(x) + self.gate")],
        [("nn.Parameter(torch.zeros(1))", "nn.Parameter(torch.zeros(1), requires_grad=False)")],
        [("self.gate = nn.Parameter(torch.zeros(1))", "self.register_buffer('gate', torch.zeros(1))")],
        [("self.gate = nn.Parameter(torch.zeros(1))", "self.gate = torch.zeros(1)")],
        # they are shown, compared, or the number of times that something is done
        [("gate * self.body(x)", "self.body(x)"), (TAKEN, "print(self.gate.item())")],
        [("gate * self.body(x)", "self.body(x)"), (TAKEN, "log(gate=float(self.gate), x=x)")],
        [("gate * self.body(x)", "(self.body(x) if gate > 0.5 else x)")],
        [("gate * self.body(x)", "self.body(x)[int(gate)]")],
        [("gate * self.body(x)", "self.body(x)"), (TAKEN, "gate = 1 - self.gate.item()")],
        [(TAKEN, "gate = float(self.gate.shape[0])")],
        [(TAKEN, "gate = math.sqrt(self.gate.shape[0])")],
        [(TAKEN, "gate = torch.exp(self.gate)")],
        [("gate * self.body(x)", "self.body(x)"), (TAKEN, "log(gate=math.exp(self.gate), x=x)")],
        # somebody moves it by hand, or may train it
        [(TAKEN, TAKEN + "; self.gate.data.mul_(0.9)")],
        [(TAKEN, TAKEN + "; self.gate.data = self.gate.data * 0.9")],
        [("        def forward", "        def cool(self):\n            self.gate.fill_(0.0)\n\n        def forward")],
        [
            (
                "        def forward",
                "        def penalty(self):\n            return self.gate ** 2\n\n        def forward",
            )
        ],
        [("        def forward", "        @torch.no_grad()\n        def forward")],
        [("self.gate", "self.gate_threshold")],
    ],
)
def test_look_alikes_of_such_numbers(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(SCALED, *edits), CODE)


HYPER = """
    import math

    class Hyper(nn.Module):
        def __init__(self, rate):
            super().__init__()
            self.log_rate = nn.Parameter(torch.tensor(math.log(rate)))

        @property
        def rate(self):
            return math.exp(self.log_rate)  # !

    def unroll(net, weights, hyper, batches):
        for x, y in batches:
            loss = F.mse_loss(torch.func.functional_call(net, weights, (x,)), y)
            grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            weights = {n: w - hyper.rate * g for (n, w), g in zip(weights.items(), grads)}
        return weights

    def train(net, data, args):
        hyper = Hyper(args.rate)
        outer = torch.optim.Adam(hyper.parameters(), lr=2 * args.rate)
        for batches, x, y in data:
            weights = unroll(net, dict(net.named_parameters()), hyper, batches)
            outer.zero_grad()
            F.mse_loss(torch.func.functional_call(net, weights, (x,)), y).backward()
            outer.step()
            print(hyper.rate)
"""


def test_a_property_gives_numbers_of_a_parameter() -> None:
    assert_flagged(HYPER, CODE)
    own = (
        "        @property",
        "        def moved(self, w, g):\n            return w - self.rate * g\n\n        @property",
    )
    assert_flagged(HYPER.replace(*own).replace("w - hyper.rate * g", "hyper.moved(w, g)"), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("math.exp(self.log_rate)", "self.log_rate.exp()"),
        ("w - hyper.rate * g", "w - hyper.log_rate.exp() * g"),
        ("w - hyper.rate * g", "w - 0.1 * g"),  # it is only shown, and `args.rate` is another one
        ("nn.Parameter(torch.tensor(math.log(rate)))", "torch.tensor(math.log(rate))"),
        ("@property", "@property\n        @torch.no_grad()"),
    ],
)
def test_look_alikes_of_such_a_property(edit: tuple[str, str]) -> None:
    assert_clean(twin(HYPER, edit), CODE)


@pytest.mark.parametrize(
    "more",
    [
        "def cool(model): model.gate.data *= 0.9",
        "def cool(model): model.gate.detach().mul_(0.9)",
        "def loss(model, y): return y + model.gate.sum()",
        "def loss(model, y): return y + getattr(model, 'gate')",
        "def loss(model): return sum(p.norm() for p in model.parameters())",
        "class Better(Scaled):\n        def forward(self, x): return self.gate * self.body(x)",
    ],
)
def test_something_else_has_the_parameter(more: str) -> None:
    assert_clean(twin(SCALED) + f"\n    {more}\n", CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("self.log_rates.exp().tolist()", "self.log_rates.exp().unbind()")],
        [("w - rates[n] * g", "w - 0.1 * g")],
        [("rates = self.rates.table()", "rates = self.rates.table(); print(rates)"), ("rates[n] * g", "0.1 * g")],
        [("print(learner.rates.log_rates.detach()", "penalize(learner.rates.log_rates, learner.rates.log_rates")],
        [("nn.Parameter(torch.full((len(self.names),), -3.0))", "torch.full((len(self.names),), -3.0)")],
    ],
)  # fmt: skip
def test_look_alikes_of_rates(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(RATES, *edits), CODE)


TEMPERATURE = """
    class Agent:
        def __init__(self, actor, critic, dim):
            self.actor, self.critic = actor, critic
            self.log_alpha = torch.zeros(1, requires_grad=True)
            self.target_entropy = -float(dim)
            self.optimizer = torch.optim.Adam([
                {"params": actor.parameters()}, {"params": [self.log_alpha], "lr": 1e-3},
            ])

        @property
        def alpha(self):
            return self.log_alpha.exp().detach()  # !

        def update(self, states):
            actions, log_prob = self.actor(states)
            actor_loss = (self.alpha * log_prob - self.critic(states, actions)).mean()
            alpha_loss = -(self.alpha * (log_prob + self.target_entropy)).mean()
            self.optimizer.zero_grad()
            (actor_loss + alpha_loss).backward()
            self.optimizer.step()
            return self.log_alpha.item()
"""
GETTER = "return self.log_alpha.exp().detach()  # !"
IN_LINE = """
    class Learner(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net
            self.margin = nn.Parameter(torch.tensor(0.5))
            self.opt_net = torch.optim.SGD(net.parameters(), lr=0.1)
            self.opt_margin = torch.optim.SGD([self.margin], lr=0.1)

        def step(self, x, y):
            margin = self.margin.clamp(min=0).detach()  # !
            loss = F.relu(self.net(x) - y + margin).mean() - 0.1 * margin
            self.opt_net.zero_grad()
            self.opt_margin.zero_grad()
            loss.backward()
            self.opt_net.step()
            self.opt_margin.step()
"""


@pytest.mark.parametrize(
    "snippet",
    [
        TEMPERATURE,
        TEMPERATURE.replace("torch.zeros(1, requires_grad=True)", "nn.Parameter(torch.zeros(()))"),
        TEMPERATURE.replace("torch.zeros(1, requires_grad=True)", "torch.zeros(1).requires_grad_()"),
        TEMPERATURE.replace("exp().detach()", "detach().exp()"),
        TEMPERATURE.replace("@property\n        def alpha(self)", "def alpha(self)").replace(
            "self.alpha ", "self.alpha() "
        ),
        TEMPERATURE.replace("self.log_alpha.exp().detach()", "F.softplus(self.log_alpha).detach()"),
        TEMPERATURE + "\n        def load(self, state):\n            self.log_alpha.data.copy_(state)\n",
        TEMPERATURE + "\n    def show(agent):\n        print(agent.log_alpha.item(), agent.alpha)\n",
        IN_LINE,
    ],
)
def test_what_an_optimizer_is_given_by_its_name(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(TEMPERATURE, ("-(self.alpha *", "-(self.log_alpha.exp() *")),
        twin(TEMPERATURE, ("-(self.alpha *", "-(self.log_alpha *")),
        twin(TEMPERATURE, ("exp().detach()", "exp()")),
        twin(TEMPERATURE, ('{"params": [self.log_alpha], "lr": 1e-3},', "")),
        twin(TEMPERATURE, ("requires_grad=True", "requires_grad=False")),
        twin(TEMPERATURE, ("torch.zeros(1, requires_grad=True)", "torch.zeros(1)")),
        twin(TEMPERATURE, ("return self.log_alpha.item()", "self.log_alpha.grad = log_prob.mean()")),
        twin(TEMPERATURE, ("return self.log_alpha.item()", "self.log_alpha.data.add_(0.1)")),
        twin(TEMPERATURE, ("return self.log_alpha.item()", "self.log_alpha = self.log_alpha * 2")),
        twin(TEMPERATURE, ("return self.log_alpha.item()", "return penalty(self.log_alpha)")),
        twin(TEMPERATURE, ("return self.log_alpha.item()", "return getattr(self, 'log_alpha').exp()")),
        twin(TEMPERATURE) + "\n    def tune(agent, kl):\n        (agent.log_alpha * kl).sum().backward()\n",
        twin(TEMPERATURE)
        + "\n    class Other(Agent):\n        def loss(self, kl):\n            return self.log_alpha * kl\n",
        twin(TEMPERATURE) + "\n        def loss(self, kl):\n            return self.log_alpha * kl\n",
        twin(IN_LINE, (".clamp(min=0).detach()", ".clamp(min=0)")),
        twin(IN_LINE, ("[self.margin]", "self.net.parameters()")),
        twin(IN_LINE, ("- 0.1 * margin", "- 0.1 * self.margin")),
        twin(IN_LINE, ("- 0.1 * margin", "+ sum(p.norm() for p in self.parameters())")),
        twin(IN_LINE) + "\n    def all_of(m):\n        return dict(m.named_parameters())['margin']\n",
    ],
)
def test_what_an_optimizer_trains(snippet: str) -> None:
    assert_clean(snippet, CODE)

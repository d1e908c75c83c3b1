from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG266"

GROWTH = """
    def derivative(u, t):
        (du,) = torch.autograd.grad(u, t, grad_outputs=torch.ones_like(u), retain_graph=True)  # !
        return du

    class Growth(nn.Module):
        def __init__(self):
            super().__init__()
            self.field = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
            self.log_r = nn.Parameter(torch.tensor(0.0))

        def residual(self, t):
            t = t.requires_grad_(True)
            u = self.field(t)
            return derivative(u, t) - self.log_r.exp() * u * (1 - u)

    def main(times, seen):
        model = Growth()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(1000):
            loss = (model.field(times) - seen).pow(2).mean() + model.residual(torch.rand(64, 1)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""

SCRIPT = """
    from torch import autograd

    net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    x = torch.linspace(0, 2, 50).view(-1, 1).requires_grad_(True)
    for epoch in range(5000):
        opt.zero_grad()
        y = net(x)
        dydx = autograd.grad(y, x, grad_outputs=torch.ones_like(y))[0]  # !
        loss = nn.functional.mse_loss(dydx + 2 * y, torch.zeros_like(y))
        loss.backward()
        opt.step()
"""

ADVECTION = """
    class Solver(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(2, 1)

        def forward(self, x, t):
            return self.net(torch.cat([x, t], 1))

        @staticmethod
        def diff(f, v):
            return torch.autograd.grad(f, v, torch.ones_like(f), create_graph=False, retain_graph=True)[0]  # !

        def pde(self, x, t):
            u = self(x, t)
            u_t = self.diff(u, t)
            u_x = self.diff(u, x)
            return u_t + u * u_x

    def train(model, loader):
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        for x, t, seen in loader:
            x.requires_grad_(True)
            t.requires_grad_(True)
            loss = (model(x, t) - seen).square().mean() + 0.1 * model.pde(x, t).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    train(Solver(), loader())
"""

SYSTEM = """
    from torch.autograd import grad

    class LotkaVolterra:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.Adam(self.net.parameters())

        def loss(self, t):
            out = self.net(t)
            prey, hunter = out[:, 0:1], out[:, 1:2]
            rate = grad(prey.sum(), t, retain_graph=True)[0]  # !
            rise = prey - 0.1 * prey * hunter
            return (rate - rise).abs().mean()

        def fit(self, t, start):
            for _ in range(1000):
                self.optimizer.zero_grad()
                loss = self.loss(t.requires_grad_()) + (self.net(t[:1]) - start).pow(2).sum()
                loss.backward()
                self.optimizer.step()
"""


@pytest.mark.parametrize("snippet", [GROWTH, SCRIPT, ADVECTION, SYSTEM])
def test_a_derivative_beside_what_it_is_of(snippet: str) -> None:
    assert_flagged(snippet, CODE)


SHAPED = """
    def fit(net, exact, nu, optimizer, sample):
        opt = torch.optim.Adam({given})
        for x, y in sample:
            x = x.requires_grad_()
            u = net(x)
            u_x = torch.autograd.grad(u.sum(), x, retain_graph=True)[0]{mark}
            {before}
            loss = F.mse_loss(u, y) + {loss}
            opt.zero_grad()
            loss.backward()
            opt.step()
"""


def shaped(loss: str, before: str = "pass", *, given: str = "net.parameters()", mark: str = "") -> str:
    return SHAPED.format(loss=loss, before=before, given=given, mark=mark)


@pytest.mark.parametrize(
    "snippet",
    [
        shaped("(u_x + u).pow(2).mean()", mark="  # !"),
        shaped("((0.1 * u_x - u.sin()) ** 2).mean()", mark="  # !"),
        shaped("F.mse_loss(left, 0 * left)", "left = u_x - torch.exp(-x) + u", mark="  # !"),
        shaped("rest.square().mean()", "rest = u_x + nu * u", given="[*net.parameters(), nu]", mark="  # !"),
    ],
)
def test_equations(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(GROWTH, ("retain_graph=True", "create_graph=True")),
        twin(SCRIPT, ("torch.ones_like(y))[0]", "torch.ones_like(y), create_graph=True)[0]")),
        twin(ADVECTION, ("create_graph=False", "create_graph=f.requires_grad")),
        twin(GROWTH, ("derivative(u, t) - ", "derivative(u, t) * ")),  # a weight
        twin(GROWTH, ("return derivative(u, t) -", "return derivative(u.detach() + t, t) -")),
        twin(SYSTEM, ("(rate - rise)", "(rate.sign() * rise)")),
        twin(SYSTEM, ("(rate - rise)", "(rise + (rate - rise).detach())")),
        twin(SYSTEM, ("(rate - rise)", "(rate - hunter)")),  # one output follows the derivative of another one
        twin(SYSTEM, ("prey - 0.1 * prey * hunter", "self.known(t)")),
        shaped("(u_x * u).pow(2).mean()"),
        shaped("(u_x.abs() / u).mean()"),
        shaped("0", "print((u_x + u).pow(2).mean().item())"),
        shaped("(more + y).pow(2).mean()", "more = u_x + x; more = more + y"),
        shaped("(exact(x) - (u_x + u).detach()).pow(2).mean()"),
        shaped("F.mse_loss(u, u_x)"),  # it is a target
        shaped("(u - target).pow(2).mean()", "target = y + 0.9 * u_x"),
        shaped("(nu * u_x + u).pow(2).mean()", given="[*net.parameters(), nu]"),  # this trains `nu`
        shaped("(u_x + u).pow(2).mean()", given="exact.parameters()"),
        shaped("(exact(x) - u_x).pow(2).mean()", given="exact.parameters()"),
        shaped("(net(x + 0.1 * u_x.sign()) - y).pow(2).mean()"),  # an attack
        shaped("(net(x + 0.1 * u_x) - y).pow(2).mean()"),
        """
        def train(encoder, head, optimizer, loader, eps=0.1):  # an attack on features
            for x, y in loader:
                h = encoder(x)
                loss = F.cross_entropy(head(h), y)
                g = torch.autograd.grad(loss, h, retain_graph=True)[0]
                worse = F.cross_entropy(head(h + eps * g / g.norm()), y)
                optimizer.zero_grad()
                (loss + worse).backward()
                optimizer.step()
        """,
        """
        def slope(loss, h):
            return torch.autograd.grad(loss, h, retain_graph=True)[0]

        def train(encoder, head, optimizer, loader, eps=0.1):
            for x, y in loader:
                h = encoder(x)
                loss = F.cross_entropy(head(h), y)
                worse = F.cross_entropy(head(h + eps * slope(loss, h)), y)
                optimizer.zero_grad()
                (loss + worse).backward()
                optimizer.step()
        """,
        """
        def train(net, energy, optimizer, loader):  # what it gives is made better, and followed
            for x, y in loader:
                out = net(x)
                e = energy(out).sum()
                better = out - 0.1 * torch.autograd.grad(e, out, retain_graph=True)[0]
                loss = (better - y).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
        """
        def train(net, optimizer, loader):  # one head follows the slope of the other one
            for x, force in loader:
                energy, guess = net(x.requires_grad_())
                slope = torch.autograd.grad(energy.sum(), x, retain_graph=True)[0]
                loss = (energy - 1).pow(2).mean() + (guess + slope).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
        """
        def residual(net, x):  # it is measured
            u = net(x)
            return torch.autograd.grad(u.sum(), x)[0] + u

        def evaluate(net, x):
            return residual(net, x.requires_grad_()).abs().mean().item()
        """,
        """
        def adapt(net, loader, meta, rate=0.1):  # a step of gradients
            for (x, y), (later, z) in loader:
                weights = list(net.parameters())
                loss = F.mse_loss(net(x), y)
                grads = torch.autograd.grad(loss, weights)
                fast = [w - rate * g for w, g in zip(weights, grads)]
                outer = F.mse_loss(net.run(later, fast), z)
                meta.zero_grad()
                outer.backward()
                meta.step()
        """,
    ],
)
def test_look_alikes(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_a_helper_of_another_file(tmp_path: Path) -> None:
    files = {
        "operators.py": """\
            from torch.autograd import grad

            def gradient(outputs, inputs):
                return grad(outputs.sum(), inputs, retain_graph=True)[0]
        """,
        "solve.py": """\
            import torch
            from operators import gradient

            class Solver:
                def __init__(self, model):
                    self.model = model
                    self.optim = torch.optim.LBFGS(model.parameters())
                    self.points = torch.rand(100, 1)

                def equation(self, x):
                    y = self.model(x)
                    y_x = gradient(y, x)
                    return y_x + y ** 2

                def closure(self):
                    self.optim.zero_grad()
                    f = self.equation(self.points.clone().requires_grad_())
                    start = (self.model(torch.zeros(1, 1)) - 1).pow(2).mean()
                    loss = (f ** 2).mean() + start
                    loss.backward()
                    return loss

                def fit(self):
                    for _ in range(100):
                        self.optim.step(self.closure)
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("operators.py", 4)]
    files["operators.py"] = files["operators.py"].replace("retain_graph", "create_graph")
    assert lines_in_files(tmp_path, files, CODE) == []


# Inner gradients whose graph a flag asks for.
INNER = """
    class Inner:
        def __init__(self, net, first_order=False, lr=0.1):
            self.net, self.first_order, self.lr = net, first_order, lr

        def adapt(self, x, y):
            weights = dict(self.net.named_parameters())
            loss = F.mse_loss(functional_call(self.net, weights, (x,)), y)
            grads = torch.autograd.grad(loss, list(weights.values()), create_graph=self.first_order)  # !
            return {n: w - self.lr * g for (n, w), g in zip(weights.items(), grads)}
"""
ASKED = "create_graph=self.first_order"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(ASKED, "create_graph=not self.second_order")],
        [(ASKED, "retain_graph=True, create_graph=self.cfg.first_order")],
        [(ASKED, "create_graph=self.args.first_order_approx")],
        [(ASKED, "create_graph=self.use_first_order")],
        [(ASKED, "create_graph=fomaml"), ("adapt(self, x, y)", "adapt(self, x, y, fomaml=False)")],
        [(ASKED, "create_graph=not second_order"), ("adapt(self, x, y)", "adapt(self, x, y, second_order=True)")],
        [("torch.autograd.grad(loss", "autograd.grad(loss"),
         ("    class Inner", "    from torch import autograd\n\n    class Inner")],
    ],
)  # fmt: skip
def test_a_flag_that_is_asked_the_wrong_way_round(edits: list[tuple[str, str]]) -> None:
    snippet = INNER
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, "GG266")


@pytest.mark.parametrize(
    "edits",
    [
        [(ASKED, "create_graph=not self.first_order")],
        [(ASKED, "create_graph=self.second_order")],
        [(ASKED, "create_graph=True")],
        [(ASKED, "create_graph=False")],
        [(ASKED, "create_graph=self.order > 1")],
        [(ASKED, "create_graph=self.order == 2")],
        [(ASKED, "create_graph=not self.training")],
        [(ASKED, "create_graph=self.higher_order")],
        [(ASKED, "create_graph=self.first_order_done")],
        [(ASKED, "create_graph=first_order"), ("loss = F", "first_order = not self.first_order; loss = F")],
        [(ASKED, "create_graph=not self.first_order or self.second_order")],
        [("torch.autograd.grad(", "self.grad_of(")],
        [("Inner", "Field"), ("adapt", "derivatives")],  # which derivatives of a field are asked for
    ],
)
def test_flags_that_are_asked_the_right_way_round(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(INNER, *edits), "GG266")


RESIDUAL = """
    def diff(y, x):
        (slope,) = torch.autograd.grad(y.sum(), x, retain_graph=True)  # !
        return slope

    def residual(u, t, x):
        u_t = diff(u, t)
        return u_t + u * diff(u, x)

    def losses(model, points):
        t, x = points.interior()
        u = model(t, x)
        return residual(u, t, x).pow(2).mean(), F.mse_loss(model(x, t), t)

    def main(model, points):
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(100):
            inside, rim = losses(model, points)
            loss = inside + rim
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
LANGEVIN = """
    def walk(model, x):
        energy = model(x)
        (slope,) = torch.autograd.grad(energy.sum(), x)
        return x - 0.1 * slope

    def main(model, loader):
        optimizer = torch.optim.Adam(model.parameters())
        for x in loader:
            start = model.start(x)
            loss = model(x).mean() - model(walk(model, start)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    "snippet",
    [
        RESIDUAL,
        RESIDUAL.replace("retain_graph=True", "create_graph=False, retain_graph=True"),
        RESIDUAL.replace("return u_t + u * diff(u, x)", "return u_t - 0.5 * u * (1 - u)"),
        RESIDUAL.replace("u_t = diff(u, t)\n        return u_t + u * diff(u, x)", "return diff(u, t) + u"),
    ],
)
def test_a_residual_of_what_a_function_is_given(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(RESIDUAL, ("retain_graph=True", "create_graph=True")),
        twin(RESIDUAL, ("return u_t + u * diff(u, x)", "return u * u_t")),
        twin(RESIDUAL, ("return u_t + u * diff(u, x)", "return u_t + x * t")),
        twin(RESIDUAL, ("return u_t + u * diff(u, x)", "return u_t + t")),
        twin(RESIDUAL, ("loss = inside + rim", "loss = rim; print(inside.item())")),
        twin(RESIDUAL, ("u = model(t, x)", "u = teacher(t, x)"), ("inside + rim", "rim")),
        LANGEVIN,
        twin(LANGEVIN, ("return x - 0.1 * slope", "return x + 0.1 * slope + torch.randn_like(x)")),
        twin(LANGEVIN, ("return x - 0.1 * slope", "x = x - 0.1 * slope\n        return x")),
    ],
)
def test_what_is_no_residual(snippet: str) -> None:
    assert_clean(snippet, CODE)

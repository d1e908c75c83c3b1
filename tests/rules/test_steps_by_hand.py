"""Programs without an optimizer: what moves its parameters itself has to reset their gradients itself."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG201"

TWO = """
    def fit(xs, ys):
        slope = torch.randn(3, 1, requires_grad=True)
        offset = torch.zeros(1, requires_grad=True)
        for epoch in range(100):
            loss = ((xs @ slope + offset - ys) ** 2).mean()
            loss.backward()
            with torch.no_grad():
                slope -= 0.1 * slope.grad  # !
                offset -= 0.1 * offset.grad
"""
FLAGGED = {
    "two tensors": TWO,
    "by data": """
        slope = torch.tensor([1.0], requires_grad=True)
        for epoch in range(100):
            for x, y in zip([1.0, 2.0], [2.0, 4.0]):
                loss = (x * slope - y) ** 2
                loss.backward()
                slope.data = slope.data - 0.01 * slope.grad.data  # !
    """,
    "attributes": """
        class Regression:
            def __init__(self, d):
                self.slope = torch.zeros(d, requires_grad=True)

            def fit(self, x, y, rate):
                while True:
                    loss = (x @ self.slope - y).pow(2).mean()
                    loss.backward()
                    with torch.no_grad():
                        self.slope.sub_(rate * self.slope.grad)  # !
                    if loss.item() < 1e-3:
                        break
    """,
    "each parameter": """
        def train(net, batches):
            for x in batches:
                net(x).mean().backward()
                for p in net.parameters():
                    p.data.add_(p.grad.data, alpha=-0.01)  # !
    """,
    "each that has a gradient": """
        class Trainer:
            def train(self, batches):
                for x in batches:
                    self.net(x).mean().backward()
                    with torch.no_grad():
                        for name, weight in self.net.named_parameters():
                            if weight.grad is not None:
                                weight -= 0.1 * weight.grad  # !
    """,
    "a list of them": """
        def train(x, y, weights):
            for i in range(1000):
                (x @ weights[0] @ weights[1] - y).pow(2).sum().backward()
                torch.nn.utils.clip_grad_norm_(weights, 1.0)
                for w, v in zip(weights, [0.1, 0.2]):
                    w.data -= v * w.grad  # !
    """,
    "an attack": """
        def attack(model, x, y, eps):
            delta = torch.zeros_like(x, requires_grad=True)
            for i in range(10):
                F.cross_entropy(model(x + delta), y).backward()
                delta.data = (delta + eps * delta.grad.sign()).clamp(-1, 1)  # !
            return delta.detach()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


LAST, LOSS, BACKWARD, PAD = "0.1 * offset.grad", "            loss =", "            loss.backward()", "\n" + 16 * " "


@pytest.mark.parametrize(
    "edit",
    [
        ("            with torch", "            slope.grad, offset.grad = None, None\n            with torch"),
        (BACKWARD, f"            zero(slope, offset)\n{BACKWARD}"),
        (BACKWARD, f"            reset([slope, offset])\n{BACKWARD}"),
        (LOSS, f"            slope = slope.detach().requires_grad_()\n            offset.grad = None\n{LOSS}"),
        (LAST, f"{LAST}{PAD}for w in (slope, offset):{PAD}    w.grad.zero_()"),
        (LAST, f"{LAST}{PAD}slope.grad *= 0{PAD}offset.grad.data.fill_(0)"),
        (LAST, f"{LAST}{PAD}slope.grad[:] = 0{PAD}offset.grad[:] = 0"),
        (LAST, f"{LAST}{PAD}del slope.grad, offset.grad"),
        (BACKWARD, "            gs = torch.autograd.grad(loss, [slope, offset])"),
        (f"slope -= 0.1 * slope.grad{PAD}offset -= 0.1 * offset.grad", "print(slope.grad)"),
    ],
)
def test_reset(edit: tuple[str, str]) -> None:
    assert_clean(twin(TWO, edit), CODE)


CLEAN = {
    "of each batch": """
        def attack(model, batches, eps):
            for x, y in batches:
                x.requires_grad_(True)
                F.cross_entropy(model(x), y).backward()
                x.data += eps * x.grad.sign()
    """,
    "made anew": """
        def attack(model, x, y, eps):
            found = x.clone().requires_grad_(True)
            for i in range(10):
                F.cross_entropy(model(found), y).backward()
                found = (found + eps * found.grad.sign()).detach().requires_grad_(True)
            return found
    """,
    "of a model of each iteration": """
        def folds(make, data):
            for fold in data:
                net = make()
                net(fold).mean().backward()
                for p in net.parameters():
                    p.data -= 0.1 * p.grad
    """,
    "by the module": """
        def train(net, batches):
            for x in batches:
                net.zero_grad()
                net(x).mean().backward()
                for p in net.parameters():
                    p.data.add_(p.grad, alpha=-0.01)
    """,
    "an optimizer": """
        def train(net, batches, opt):
            for x in batches:
                opt.zero_grad()
                net(x).mean().backward()
                for p in net.parameters():
                    p.data.add_(p.grad, alpha=-0.01)
                opt.step()
    """,
    "in another method": """
        class Regression:
            def __init__(self, d):
                self.slope = torch.zeros(d, requires_grad=True)

            def reset(self):
                self.slope.grad = None

            def fit(self, x, y):
                for i in range(100):
                    (x @ self.slope - y).pow(2).mean().backward()
                    with torch.no_grad():
                        self.slope -= 0.1 * self.slope.grad
                    self.reset()
    """,
    "before the forward": """
        def fit(x):
            slope = torch.randn(3, 1, requires_grad=True)
            for i in range(100):
                if slope.grad is not None:
                    slope.grad.zero_()
                (x @ slope).mean().backward()
                slope.data -= 0.1 * slope.grad.data
    """,
    "one step": """
        def step(net, x):
            net(x).mean().backward()
            for p in net.parameters():
                p.data -= 0.1 * p.grad
    """,
    "a tensor that has a graph": """
        def adapt(self, x, y, rate):
            code = self.encoder(x)
            for _ in range(5):
                code.retain_grad()
                loss = F.mse_loss(self.decoder(code), y)
                loss.backward(retain_graph=True)
                code -= rate * code.grad
            return code
    """,
    "to the gradient": """
        def train(net, batches, opt):
            for x in batches:
                net(x).mean().backward()
                for p in net.parameters():
                    p.grad += 1e-4 * p
                run(net)
    """,
}


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


def test_the_one_that_is_forgotten() -> None:
    code = twin(TWO, ("offset.grad\n", "offset.grad  # !\n                slope.grad.zero_()\n"))
    assert_flagged(code, CODE)
    (finding,) = findings(code, CODE)
    assert "`offset`" in finding.message
    assert "slope" not in finding.message


def test_what_to_call() -> None:
    (two,) = findings(TWO, CODE)
    assert "resets those of `slope` and `offset`: " in two.message
    assert two.help == "call `slope.grad.zero_()` and `offset.grad.zero_()` in every iteration, after the step"
    (each,) = findings(FLAGGED["each parameter"], CODE)
    assert each.help == "call `net.zero_grad()` in every iteration, after the step"

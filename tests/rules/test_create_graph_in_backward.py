from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG102"

FLAGGED = {
    "of a copy, reset before": """
        import copy

        def curvature(net, criterion, x, y):
            probe = copy.deepcopy(net).eval()
            weights = list(probe.parameters())
            for w in weights:
                w.grad = None
            criterion(probe(x), y).backward(create_graph=True)  # !
            slopes = [w.grad for w in weights]
            seconds = torch.autograd.grad(slopes, weights, grad_outputs=slopes)
            return sum(float(s.norm()) for s in seconds)

        def train(net, criterion, opt, loader):
            for x, y in loader:
                opt.zero_grad()
                criterion(net(x), y).backward()
                opt.step()
                print(curvature(net, criterion, x, y))
    """,
    "the optimizer has a part of the model": """
        class Classifier(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = nn.Linear(4, 8)
                self.head = nn.Linear(8, 2)

            def forward(self, x):
                return self.head(self.encoder(x))

        def train(loader):
            clf = Classifier()
            tuned = list(clf.head.parameters())
            optimizer = torch.optim.Adam(tuned)
            for x, y in loader:
                nll = F.cross_entropy(clf(x), y)
                optimizer.zero_grad()
                nll.backward(create_graph=True)  # !
                flat = sum(p.grad.pow(2).sum() for p in tuned)
                flat.backward()
                optimizer.step()
    """,
    "no reset": """
        def trace(model, loader):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward(create_graph=True)  # !
                print(sum((p.grad ** 2).sum().item() for p in model.parameters()))
    """,
    "of a sum": """
        def penalty(net, batches):
            for b in batches:
                (net(b).mean() + 1).backward(retain_graph=True, create_graph=True)  # !
    """,
    "closure that nobody resets": """
        def train(model, loader, optimizer):
            for x, y in loader:
                def closure():
                    loss = F.mse_loss(model(x), y)
                    loss.backward(create_graph=True)  # !
                    return loss

                optimizer.step(closure)
    """,
}

FLAGGED["zeroed in place, which keeps the graph"] = """
        def train(net, batches, lr):
            for b in batches:
                net(b).mean().backward(create_graph=True)  # !
                with torch.no_grad():
                    for p in net.parameters():
                        p.sub_(lr * p.grad)
                        p.grad.zero_()
    """

CLEAN = {
    "of a copy, reset after": """
        import copy

        def curvature(net, criterion, x, y):
            probe = copy.deepcopy(net).eval()
            weights = list(probe.parameters())
            for w in weights:
                w.grad = None
            criterion(probe(x), y).backward(create_graph=True)
            slopes = [w.grad for w in weights]
            seconds = torch.autograd.grad(slopes, weights, grad_outputs=slopes)
            probe.zero_grad()
            return sum(float(s.norm()) for s in seconds)

        def train(net, criterion, opt, loader):
            for x, y in loader:
                opt.zero_grad()
                criterion(net(x), y).backward()
                opt.step()
                print(curvature(net, criterion, x, y))
    """,
    "the optimizer has a part, and the model is reset": twin(
        FLAGGED["the optimizer has a part of the model"], ("optimizer.zero_grad()", "clf.zero_grad()")
    ),
    "the optimizer has a part, and the rest is frozen": twin(
        FLAGGED["the optimizer has a part of the model"],
        ("clf = Classifier()", "clf = Classifier()\n            clf.encoder.requires_grad_(False)"),
    ),
    "the optimizer has all of it": twin(
        FLAGGED["the optimizer has a part of the model"], ("clf.head.parameters()", "clf.parameters()")
    ),
    "the optimizer has its parts": twin(
        FLAGGED["the optimizer has a part of the model"],
        ("list(clf.head.parameters())", "[*clf.head.parameters(), *clf.encoder.parameters()]"),
    ),
    "autograd.grad": """
        def penalty(model, x, y):
            loss = F.cross_entropy(model(x), y)
            grads = torch.autograd.grad(loss, model.parameters(), create_graph=True)
            return sum(g.pow(2).sum() for g in grads)
    """,
    "reset each step": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward(create_graph=True)
                optimizer.step()
    """,
    "set to None": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward(create_graph=True)
                optimizer.step()
                for p in model.parameters():
                    p.grad = None
    """,
    "false": """
        def grads(model, x):
            for _ in range(3):
                model(x).sum().backward(create_graph=False)
    """,
    "closure of a step after a reset": """
        def train(model, loader, optimizer):
            for x, y in loader:
                def closure():
                    loss = F.mse_loss(model(x), y)
                    loss.backward(create_graph=True)
                    return loss, model(x)

                optimizer.zero_grad()
                loss = optimizer.step(closure, M_inv=None)
    """,
    "closure beside the loop": """
        def closure():
            loss = F.mse_loss(net(x), y)
            loss.backward(create_graph=True)
            return loss

        optimizer = HessianFree(net.parameters())
        for i in range(100):
            optimizer.zero_grad()
            optimizer.step(closure)
    """,
}

OWN_OPTIMIZER = """
        class Newton(torch.optim.Optimizer):
            def __init__(self, params):
                super().__init__(params, {})

            def step(self, closure=None):
                loss = closure() if closure is not None else None
                for group in self.param_groups:
                    for p in group["params"]:
                        p.data.sub_(p.grad)
                self.release()
                return loss

            def release(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.grad.zero_()

        class Trainer:
            def __init__(self, net, optimizer, loader):
                self.net, self.optimizer, self.loader = net, optimizer, iter(loader)

            def objective(self):
                x, y = next(self.loader)
                loss = F.mse_loss(self.net(x), y)
                loss.backward(create_graph=True)  # !
                return loss.item()

            def fit(self, steps):
                for step in range(steps):
                    self.optimizer.step(self.objective)

        def main(net, loader):
            Trainer(net, Newton(net.parameters()), loader).fit(100)
"""

HELPER = """
        def backprop(loss):
            loss.backward(create_graph=True)  # !

        def step(net, x, y):
            backprop(F.mse_loss(net(x), y))

        def train(net, loader, opt):
            for x, y in loader:
                step(net, x, y)
                opt.step()
"""

FLAGGED["an optimizer of the program, which zeroes in place"] = OWN_OPTIMIZER
FLAGGED["a helper, and nobody resets"] = HELPER
FLAGGED["a helper, and its caller zeroes in place"] = (
    HELPER
    + """
                for p in net.parameters():
                    p.grad.zero_()
"""
)

for _how in ("p.grad = None", "del p.grad"):
    CLEAN[f"an optimizer of the program, which drops the gradients: {_how}"] = twin(
        OWN_OPTIMIZER, ("p.grad.zero_()", _how)
    )
    CLEAN[f"its step drops them: {_how}"] = twin(OWN_OPTIMIZER, ("p.data.sub_(p.grad)", f"{_how}"))
CLEAN["an optimizer of the program, which calls its zero_grad"] = twin(
    OWN_OPTIMIZER, ("self.release()\n", "self.zero_grad()\n")
)
CLEAN["a helper, and its caller resets"] = twin(HELPER, ("backprop(F", "net.zero_grad(); backprop(F"))
CLEAN["a helper, and the caller of its caller resets"] = twin(HELPER, ("opt.step()", "opt.step(); opt.zero_grad()"))
CLEAN["closure of a step before a reset"] = twin(
    FLAGGED["closure that nobody resets"],
    ("optimizer.step(closure)", "optimizer.step(closure)\n                optimizer.zero_grad()"),
)


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name])

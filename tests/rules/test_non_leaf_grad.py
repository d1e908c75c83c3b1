from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG206"

FLAGGED = {
    "scaled after it was made": """
        x = torch.randn(3, requires_grad=True) * 0.1
        y = (x ** 2).sum()
        y.backward()
        print(x.grad)  # !
    """,
    "hidden layer": """
        def inspect(model, x, y):
            h = model.encoder(x)
            loss = F.cross_entropy(model.head(h), y)
            loss.backward()
            print(h.grad)  # !
    """,
    "gradient of the loss": """
        def step(net, x, y, opt):
            opt.zero_grad()
            loss = F.mse_loss(net(x)[:, 0], y.float())
            loss.backward()
            g = loss.grad  # !
            opt.step()
            return g
    """,
    "perturbed input": """
        def attack(model, x, y, eps=0.1):
            delta = torch.zeros_like(x, requires_grad=True)
            adv = x + delta
            loss = F.cross_entropy(model(adv), y)
            loss.backward()
            return x, eps, adv.grad  # !
    """,
    "view of a leaf": """
        def gradient_norm(w0):
            w = torch.tensor(w0, requires_grad=True)
            flat = w.view(-1)
            (flat * flat).sum().backward()
            return flat.grad  # !

        gradient_norm([[1.0, 2.0], [3.0, 4.0]])
    """,
    "scaled parameter": """
        class Prompt:
            def tune(self, model, x, y):
                self.w = nn.Parameter(torch.randn(4)) * 0.02
                loss = F.cross_entropy(model(x + self.w), y)
                loss.backward()
                return self.w.grad  # !
    """,
    "optimizer over a result": """
        def fit(model, x, y):
            noise = torch.randn(5, 4, requires_grad=True)
            opt = torch.optim.SGD([noise * 2], lr=0.1)  # !
            F.cross_entropy(model(x + noise), y).backward()
            opt.step()
    """,
    "optimizer over a scaled leaf": """
        def fit(steps):
            w = torch.randn(3, requires_grad=True) * 0.1
            b = torch.zeros(1, requires_grad=True)
            optimizer = torch.optim.Adam([w, b], lr=1e-2)  # !
            for _ in range(steps):
                loss = ((w * 2 + b) ** 2).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "optimizer over groups": """
        def make(model, lr):
            scale = 0.01 * torch.ones(3, requires_grad=True)
            return torch.optim.AdamW([{"params": model.parameters()}, {"params": [scale], "lr": lr}])  # !
    """,
}

CLEAN = {
    "leaf": """
        x = torch.randn(3, requires_grad=True)
        t = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        p = nn.Parameter(torch.randn(3) * 0.1)
        y = (x * t * p).sum()
        y.backward()
        print(x.grad, t.grad, p.grad)
    """,
    "asked for after the scaling": """
        x = torch.randn(3) * 0.1
        x.requires_grad_(True)
        w = (torch.randn(3) * 0.1).requires_grad_()
        b = torch.randn(3).mul(0.1)
        b.requires_grad = True
        (x * w * b).sum().backward()
        print(x.grad, w.grad, b.grad)
    """,
    "retained": """
        def inspect(model, x, y):
            h = model.encoder(x)
            h.retain_grad()
            loss = F.cross_entropy(model.head(h), y)
            loss.retain_grad()
            loss.backward()
            return h.grad, loss.grad
    """,
    "retained in a loop over them": """
        def inspect(model, x, y):
            h = model.encoder(x)
            out = model.head(h)
            for t in (h, out):
                t.retain_grad()
            F.cross_entropy(out, y).backward()
            return h.grad, out.grad
    """,
    "retained by a helper": """
        def keep(*tensors):
            for t in tensors:
                t.retain_grad()

        def inspect(model, x, y):
            h = model.encoder(x)
            keep(h)
            F.cross_entropy(model.head(h), y).backward()
            return h.grad
    """,
    "retained when it can be": """
        def inspect(model, x, y):
            h = model.encoder(x)
            if h.requires_grad:
                h.retain_grad()
            F.cross_entropy(model.head(h), y).backward()
            return h.grad
    """,
    "hook": """
        def inspect(model, x, y):
            grads = {}
            h = model.encoder(x)
            h.register_hook(lambda g: grads.setdefault("h", g))
            F.cross_entropy(model.head(h), y).backward()
            return grads["h"]
    """,
    "parameters": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                total = 0.0
                for name, p in model.named_parameters():
                    if p.grad is not None:
                        total += p.grad.norm().item() ** 2
                print(model.fc.weight.grad.abs().max(), total)
                optimizer.step()
    """,
    "a new leaf": """
        def attack(model, x, y, eps=0.1, steps=3):
            adv = x + 0.001 * torch.randn_like(x)
            for _ in range(steps):
                adv = adv.detach().requires_grad_()
                F.cross_entropy(model(adv), y).backward()
                adv = adv + eps * adv.grad.sign()
            return adv.detach()
    """,
    "cloned from data": """
        def saliency(model, x, y):
            x = x.clone().detach().requires_grad_(True)
            F.cross_entropy(model(x), y).backward()
            return x.grad.abs().amax(-1)

        def saliency_again(model, x, y):
            x = x.float() / 2
            x.requires_grad_()
            F.cross_entropy(model(x), y).backward()
            return x.grad
    """,
    "moved": """
        def fit(model, y, device):
            x = torch.randn(5, 4, requires_grad=True).to(device)
            z = torch.zeros(5, 4, requires_grad=True)
            z = z.cpu().float().contiguous()
            F.cross_entropy(model(x + z), y).backward()
            return x.grad, z.grad

        def fit_on_gpu(model, y):
            x = torch.randn(5, 4, requires_grad=True).cuda()
            F.cross_entropy(model(x), y).backward()
            return x.grad
    """,
    "made without gradients": """
        def restart(w0, steps):
            with torch.no_grad():
                w = w0 * 0.5
            w.requires_grad_()
            for _ in range(steps):
                (w * w).sum().backward()
                with torch.no_grad():
                    w -= 0.1 * w.grad
                    w.grad.zero_()
            return w

        restart(torch.ones(3, requires_grad=True), 3)
    """,
    "checked first": """
        def report(tensors, model, x):
            out = model(x)
            out.sum().backward()
            for t in [*tensors, out]:
                if t.is_leaf and t.grad is not None:
                    print(t.grad.norm())
            if out.is_leaf:
                print(out.grad)

        report([torch.ones(3)], net, inputs)
    """,
    "set, not read": """
        def step(model, x, y, optimizer):
            for p in model.parameters():
                p.grad = None
            h = model.encoder(x)
            h.grad = None
            loss = F.cross_entropy(model.head(h), y)
            loss.backward()
            optimizer.step()
            print(h.grad_fn, h.requires_grad)
    """,
    "gradient asked for explicitly": """
        def penalty(model, real, fake):
            alpha = torch.rand(len(real), 1)
            mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
            scores = model(mixed)
            (grad,) = torch.autograd.grad(scores.sum(), mixed, create_graph=True)
            return (grad.norm(2, dim=1) - 1).pow(2).mean()

        penalty(net, inputs, inputs.flip(0)).backward()
    """,
    "ordinary optimizers": """
        def make(model, lr=0.1):
            z = torch.zeros(3, requires_grad=True)
            w = nn.Parameter(torch.randn(3) / 3)
            torch.optim.SGD([z, w], lr=lr)
            torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
            torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=lr)
            torch.optim.SGD([{"params": list(model.parameters()) + [w]}], lr=lr)
            return torch.optim.LBFGS([(torch.randn(3) * 2).requires_grad_()])

        make(net)
    """,
    "an attribute of that name": """
        class Step:
            def __init__(self, model, x):
                self.out = model(x)
                self.grad = self.out.detach() * 2

        def run(model, x):
            step = Step(model, x)
            return step.grad
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE, Confidence.LOW)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE, Confidence.LOW)

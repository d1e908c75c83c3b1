"""GG249: updates by hand that change no parameter."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

CODE = "GG249"

FLAGGED = {
    "a step of one's own": """
        def sgd(params, lr):
            with torch.no_grad():
                for p in params:
                    p = p - lr * p.grad  # !
    """,
    "of the data": """
        def step(model, rate):
            for param in model.parameters():
                if param.grad is None:
                    continue
                param = param.data - rate * param.grad.data  # !
    """,
    "by name, whose gradient is reset": """
        for name, weight in net.named_parameters():
            if "bias" not in name:
                weight = weight - 0.1 * weight.grad  # !
                weight.grad = None
    """,
    "with the place": """
        class Trainer:
            def decay(self):
                for i, w in enumerate(self.net.parameters()):
                    w = w * self.decay_rate  # !
    """,
    "the clipping of a critic": """
        for batch in loader:
            for p in critic.parameters():
                p = torch.clamp(p, -0.01, 0.01)  # !
            for p in critic.parameters():
                p = p.clamp(-0.01, 0.01)  # !
    """,
    "a target network": """
        def soft_update(target, net, tau):
            for tp, p in zip(target.parameters(), net.parameters()):
                tp = tau * p.data + (1 - tau) * tp  # !
    """,
    "averages in a list": """
        def update(averages, model, decay):
            for avg, p in zip(averages, model.parameters()):
                avg = decay * avg + (1 - decay) * p.detach()  # !
    """,
    "gradients that a call gave": """
        def adapt(params, loss, lr):
            grads = torch.autograd.grad(loss, params)
            for p, g in zip(params, grads):
                p = p - lr * g  # !
    """,
    "an optimizer": """
        class Plain(torch.optim.Optimizer):
            @torch.no_grad()
            def step(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is not None:
                            d_p = p.grad
                            p = p - group["lr"] * d_p  # !
    """,
    "new values": """
        for p in head.parameters():
            if p.dim() > 1:
                p = torch.randn_like(p)  # !
            else:
                p = nn.Parameter(torch.zeros_like(p))  # !
    """,
    "another device": """
        for param in model.parameters():
            param = param.to("cuda")  # !
    """,
    "where another loop has the name": """
        for p in net.parameters():
            p = p - 0.1 * p.grad  # !
        total = 0
        for p in net.parameters():
            total += p.norm()
        print(total, [p.shape for p in net.parameters()])

        def show(p):
            print(p.shape)
    """,
}

CLEAN = {
    "in place": """
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
                p.mul_(0.9)
                p.data = p.data * 0.9
                p[:] = p.clamp(-1, 1)
    """,
    "in place, and the same": """
        for p in model.parameters():
            p = p.mul_(0.9)
        for p in model.parameters():
            p = p.data.clamp_(-1, 1)
        for p in model.parameters():
            p = nn.init.normal_(p)
        for p in model.parameters():
            p = torch.clamp(p.data, -1, 1, out=p.data)
        for p in model.parameters():
            p = p.requires_grad_(False)
    """,
    "it is collected": """
        fast = []
        for p in model.parameters():
            p = p - 0.1 * p.grad
            fast.append(p)
    """,
    "it is given": """
        def adapted(params, lr):
            for p in params:
                p = p - lr * p.grad
                yield p
    """,
    "it is put there": """
        for i, p in enumerate(params):
            p = p - 0.1 * p.grad
            params[i] = p
        for name, p in model.named_parameters():
            p = p - 0.1 * p.grad
            fast[name] = p
    """,
    "it is changed": """
        for p in model.parameters():
            p = p.data
            p -= 0.1
        for p in model.parameters():
            p = p.clone()
            total += p.norm()
    """,
    "it is copied back": """
        for p in model.parameters():
            old = p
            p = p - 0.1 * p.grad
            old.data.copy_(p)
    """,
    "it is the last one that counts": """
        for p in model.parameters():
            p = p * 2
        print(p.mean())
    """,
    "it is returned": """
        def first(model):
            for p in model.parameters():
                p = p.clamp(0, 1)
                return p
    """,
    "it is read in a condition after it": """
        for p in model.parameters():
            if p.dim() > 1:
                p = p.abs()
            norm = torch.linalg.vector_norm(p)
    """,
    "it is what goes round": """
        for p in model.parameters():
            for _ in range(3):
                g = torch.autograd.grad(f(p), p)[0]
                p = p - 0.1 * g
    """,
    "a function reads it": """
        for p in model.parameters():
            show = lambda: print(p)
            p = p * 2
            shown.append(show)
    """,
    "a global name": """
        def last(model):
            global p
            for p in model.parameters():
                p = p * 2
    """,
    "what calls something of one's own": """
        for p in model.parameters():
            p = project(p)
    """,
    "batches": """
        for x, y in loader:
            x = x.to(device)
            y = y * 2
            total = model(inputs)
    """,
    "the inputs of an attack": """
        for x in images:
            x.requires_grad_()
            model(x).sum().backward()
            x = x + 0.1 * x.grad.sign()
    """,
    "other names of the loop": """
        for i, p in enumerate(model.parameters()):
            p.data.mul_(0.9)
            i = i + 1
        for name, p in model.named_parameters():
            p.data.mul_(0.9)
            name = name + ".weight"
        for count, p in zip(counts, model.parameters()):
            count = count + p.numel()
    """,
    "what may be no parameters": """
        def scaled(values):
            for p in values:
                p = p * 2
        for param in params:
            param = param.strip()
    """,
    "parts that are taken": """
        for p in model.parameters():
            p = p[0]
        for p in model.parameters():
            p = None
    """,
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_a_new_tensor_that_nothing_takes_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_what_changes_them_or_is_taken_or_may_be_something_else_is_not_flagged(snippet: str) -> None:
    assert_clean(snippet, CODE)


@pytest.mark.parametrize(
    ("value", "said"),
    [("p - 0.1 * p.grad", "`p -= ...`"), ("0.9 * p", "p.copy_(0.9 * p)"), ("p.cuda()", "call `cuda` of the module")],
)
def test_it_says_what_does(value: str, said: str) -> None:
    (finding,) = findings(f"for p in net.parameters():\n    p = {value}\n", CODE)
    assert finding.help is not None
    assert said in finding.help

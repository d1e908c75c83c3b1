from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG211"


def loop(*lines: str) -> str:
    body = "\n                ".join(lines)
    return f"""
        def train(model, loader, optimizer, scaler, accumulate):
            for i, (x, y) in enumerate(loader):
                with torch.autocast("cuda"):
                    loss = F.cross_entropy(model(x), y)
                {body}
    """


FLAGGED = {
    "the optimizer steps itself": loop(
        "optimizer.zero_grad()", "scaler.scale(loss).backward()", "optimizer.step()  # !", "scaler.update()"
    ),
    "by a name": loop(
        "optimizer.zero_grad()", "scaled = scaler.scale(loss)", "scaled.backward()", "optimizer.step()  # !"
    ),
    "of several batches": loop(
        "scaler.scale(loss / accumulate).backward()",
        "if (i + 1) % accumulate == 0:",
        "    optimizer.step()  # !",
        "    optimizer.zero_grad()",
    ),
    "an attribute of a trainer": """
        class Trainer:
            def __init__(self, net, opt):
                self.net, self.opt = net, opt
                self.grad_scaler = torch.cuda.amp.GradScaler()

            def step(self, x, y):
                self.opt.zero_grad(set_to_none=True)
                loss = F.mse_loss(self.net(x), y)
                self.grad_scaler.scale(loss).backward()
                self.opt.step()  # !
                self.grad_scaler.update()
                return loss.item()
    """,
    "the step is somewhere else": """
        def update(optimizer):
            optimizer.step()
            optimizer.zero_grad()

        def fit(net, data, optimizer):
            scaler = torch.amp.GradScaler("cuda")
            for x, y in data:
                loss = F.mse_loss(net(x), y)
                scaler.scale(loss).backward()
                update(optimizer)  # !
    """,
    "a scaler that may be switched off": """
        def train(model, loader, optimizer, amp):
            scaler = torch.amp.GradScaler("cuda", enabled=amp)
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                optimizer.step()  # !
    """,
    "a scaler of the program's own, of torch's": """
        class Scaler(torch.amp.GradScaler):
            pass

        def train(model, loader, optimizer):
            scaler = Scaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                optimizer.step()  # !
    """,
    "clipped before": loop(
        "optimizer.zero_grad()",
        "scaler.scale(loss).backward()",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "optimizer.step()  # !",
        "scaler.update()",
    ),
}

CLEAN = {
    "the scaler takes the step": loop(
        "optimizer.zero_grad()", "scaler.scale(loss).backward()", "scaler.step(optimizer)", "scaler.update()"
    ),
    "unscaled before": loop(
        "optimizer.zero_grad()", "scaler.scale(loss).backward()", "scaler.unscale_(optimizer)", "optimizer.step()"
    ),
    "divided by hand": loop(
        "optimizer.zero_grad()",
        "scaler.scale(loss).backward()",
        "for p in model.parameters(): p.grad /= scaler.get_scale()",
        "optimizer.step()",
    ),
    "not scaled": loop("optimizer.zero_grad()", "loss.backward()", "optimizer.step()"),
    "with a scaler or without": loop(
        "optimizer.zero_grad()",
        "if scaler is not None:",
        "    scaler.scale(loss).backward()",
        "    scaler.step(optimizer)",
        "    scaler.update()",
        "else:",
        "    loss.backward()",
        "    optimizer.step()",
    ),
    "two conditions": loop(
        "optimizer.zero_grad()",
        "if scaler is not None: scaler.scale(loss).backward()",
        "else: loss.backward()",
        "if scaler is not None: scaler.step(optimizer)",
        "else: optimizer.step()",
    ),
    "a helper that takes the scaler's step": loop(
        "scaler.scale(loss).backward()", "take_step(scaler, optimizer)", "optimizer.step()"
    ),
    "apex": loop(
        "optimizer.zero_grad()",
        "with amp.scale_loss(loss, optimizer) as scaled_loss: scaled_loss.backward()",
        "optimizer.step()",
    ),
    "a transform of features": """
        def train(model, loader, optimizer, scaler):
            for x, y in loader:
                loss = F.mse_loss(model(scaler.transform(x)), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "a scaler that is switched off": """
        def train(model, loader, optimizer):
            scaler = torch.amp.GradScaler("cuda", enabled=False)
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                optimizer.step()
    """,
    "an attribute that is switched off": """
        class Trainer:
            def __init__(self, net, opt):
                self.net, self.opt = net, opt
                self.scaler = torch.cuda.amp.GradScaler(enabled=False)

            def step(self, x, y):
                self.opt.zero_grad()
                self.scaler.scale(F.mse_loss(self.net(x), y)).backward()
                self.opt.step()
    """,
    "a scaler of the program's own": """
        class LossScaler:
            def scale(self, loss):
                return loss * 128

            def finish(self, model):
                for p in model.parameters():
                    p.grad.div_(128)

        def train(model, loader, optimizer):
            scaler = LossScaler()
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                scaler.finish(model)
                optimizer.step()
    """,
    "an optimizer that knows the scaler": """
        from elsewhere import Scaled

        def train(model, loader):
            scaler = torch.amp.GradScaler("cuda")
            optimizer = Scaled(torch.optim.SGD(model.parameters(), lr=0.1), scaler)
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                optimizer.step()
    """,
    "hooks that divide": """
        def train(model, loader, optimizer, rate):
            scaler = torch.amp.GradScaler("cuda", init_scale=rate)
            for p in model.parameters():
                p.register_hook(lambda grad: grad / rate)
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                optimizer.step()
    """,
    "a loss that scales itself": loop("optimizer.zero_grad()", "criterion.scale(loss).backward()", "optimizer.step()"),
    "the step of a schedule": loop(
        "scaler.scale(loss).backward()", "scaler.step(optimizer)", "scaler.update()", "scheduler.step()"
    ),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_a_step_in_another_file(tmp_path: Path) -> None:
    train = """
        import torch
        from steps import take_step

        def train(model, loader, optimizer, scaler):
            for x in loader:
                scaler.scale(model(x).mean()).backward()
                take_step(optimizer, scaler)
                optimizer.zero_grad()
    """
    right = "def take_step(optimizer, scaler):\n    scaler.step(optimizer)\n    scaler.update()\n"
    wrong = "def take_step(optimizer, scaler):\n    optimizer.step()\n    scaler.update()\n"
    assert lines_in_files(tmp_path, {"train.py": train, "steps.py": right}, CODE) == []
    assert lines_in_files(tmp_path, {"train.py": train, "steps.py": wrong}, CODE) == [("train.py", 8)]


HALVES = """
    def train(G, D, loader, g_optimizer, d_optimizer, scaler, use_amp):
        for real, noise in loader:
            d_optimizer.zero_grad()
            d_loss = F.softplus(-D(real)).mean() + F.softplus(D(G(noise).detach())).mean()
            scaler.scale(d_loss).backward()
            scaler.step(d_optimizer)
            g_optimizer.zero_grad()
            g_loss = F.softplus(-D(G(noise))).mean()
            {half}
            scaler.update()
"""


def half(*lines: str) -> str:
    return HALVES.format(half="\n            ".join(lines))


PHASES = """
    class Engine:
        def __init__(self, model, optimizer):
            self.model, self.optimizer = model, optimizer
            self.scaler = {scaler}

        def pretrain(self, x):
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.model(x), x)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()

        def finetune(self, x, y):
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            {backward}
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""


def phases(backward: str, scaler: str = "torch.amp.GradScaler('cuda')") -> str:
    return PHASES.format(backward=backward, scaler=scaler)


@pytest.mark.parametrize(
    "snippet",
    [
        half("g_loss.backward()  # !", "scaler.step(g_optimizer)"),
        half("g_loss.backward(retain_graph=True)  # !", "clip(G.parameters(), 1)", "scaler.step(g_optimizer)"),
        half("total = g_loss + noise.square().mean()", "total.backward()  # !", "scaler.step(g_optimizer)"),
        half(
            "extra = F.mse_loss(G(noise), real)", "scaler.scale(g_loss).backward()", "extra.backward()  # !",
            "scaler.step(g_optimizer)",
        ),
        half("g_loss.backward()  # !", "norms.append(G.head.weight.grad.norm())", "scaler.step(g_optimizer)"),
        phases("loss.backward()  # !"),
        phases("loss.backward()  # !", "torch.cuda.amp.GradScaler(enabled=optimizer is not None)"),
        phases("F.cross_entropy(self.model(x), y).backward()  # !"),
    ],
)  # fmt: skip
def test_a_loss_that_was_not_scaled(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        half("scaler.scale(g_loss).backward()", "scaler.step(g_optimizer)"),
        half("g_loss = scaler.scale(g_loss)", "g_loss.backward()", "scaler.step(g_optimizer)"),
        half("g_loss.backward()", "g_optimizer.step()"),
        half(
            "if use_amp:", "    scaler.scale(g_loss).backward()", "else:", "    g_loss.backward()",
            "scaler.step(g_optimizer)",
        ),
        half(
            "if use_amp:", "    scaler.scale(g_loss).backward()", "    scaler.step(g_optimizer)", "else:",
            "    g_loss.backward()", "    g_optimizer.step()",
        ),
        half("with amp.scale_loss(g_loss, g_optimizer) as scaled:", "    scaled.backward()", "g_optimizer.step()"),
        half("loss = scale_up(g_loss)", "loss.backward()", "scaler.step(g_optimizer)"),
        half("weighted = g_loss * scaler.get_scale()", "weighted.backward()", "scaler.step(g_optimizer)"),
        half("accelerator.backward(g_loss)", "scaler.step(g_optimizer)"),
        half(
            "g_loss.backward()", "grads = [p.grad.clone() for p in G.parameters()]", "g_optimizer.zero_grad()",
            "scaler.scale(virtual(G, grads, noise)).backward()", "scaler.step(g_optimizer)",
        ),
        half(
            "g_loss.backward()", "norms.append(G.head.weight.grad.norm())", "G.zero_grad(set_to_none=True)",
            "g_loss = F.softplus(-D(G(noise))).mean()", "scaler.scale(g_loss).backward()", "scaler.step(g_optimizer)",
        ),
        half(
            "g_loss.backward()", "seen = {n: p.grad.data for n, p in G.named_parameters()}",
            "for p in G.parameters():", "    p.grad = None",
            "if use_amp:", "    scaler.scale(weigh(G, seen)).backward()", "    scaler.step(g_optimizer)",
            "else:", "    weigh(G, seen).backward()", "    g_optimizer.step()",
        ),
        phases("self.scaler.scale(loss).backward()"),
        phases(
            "loss.backward()\n            seen = [p.grad for p in self.model.parameters()]\n"
            "            self.optimizer.zero_grad()\n            self.scaler.scale(self.again(seen, x)).backward()"
        ),
        phases("loss.backward()", "torch.cuda.amp.GradScaler(enabled=False)"),
        phases("self.amp.scale(loss).backward()"),
        phases("loss.backward()", "StaticScaler()")
        + "\n    class StaticScaler:\n        def scale(self, loss):\n            return loss\n"
        "        def step(self, optimizer):\n            optimizer.step()\n",
        """
    class Engine:
        def update(self, loss):
            loss.backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()

        def train(self, x):
            self.update(self.scaler.scale(F.mse_loss(self.model(x), x)))
        """,
        """
    class Engine:
        def loss(self, x):
            return self.scaler.scale(F.mse_loss(self.model(x), x))

        def train(self, x):
            loss = self.loss(x)
            loss.backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        """,
    ],
)  # fmt: skip
def test_what_is_scaled_or_may_be(snippet: str) -> None:
    assert_clean(snippet, CODE)

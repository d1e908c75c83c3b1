from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG202"

FLAGGED = {
    "between": """
        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.zero_grad()  # !
                optimizer.step()
    """,
    "of the model": """
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            model.zero_grad()  # !
            optimizer.step()
    """,
    "with a scaler": """
        def train(model, loader, optimizer, scaler):
            for x, y in loader:
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                optimizer.zero_grad()  # !
                scaler.step(optimizer)
    """,
    "in a method": """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.optim = torch.optim.Adam(net.parameters())

            def update(self, x, y):
                loss = F.mse_loss(self.net(x), y)
                loss.backward()
                self.optim.zero_grad()  # !
                self.optim.step()
    """,
}

CLEAN = {
    "before backward": """
        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "guard against NaN": """
        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                if torch.isnan(loss):
                    optimizer.zero_grad()
                    continue
                optimizer.step()
                optimizer.zero_grad()
    """,
    "the other optimizer": """
        def train(G, D, loader, opt_g, opt_d):
            for real in loader:
                opt_d.zero_grad()
                D(real).mean().backward()
                opt_g.zero_grad()
                opt_d.step()
                G(D(real)).mean().backward()
                opt_g.step()
    """,
    "one branch only": """
        def train(model, loader, optimizer, skip):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                if skip(x):
                    optimizer.zero_grad()
                optimizer.step()
                optimizer.zero_grad()
    """,
    "another backward follows": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                sensitivity = [p.grad.norm().item() for p in model.parameters()]
                optimizer.zero_grad()
                F.cross_entropy(model(x + 1), y).backward()
                optimizer.step()
    """,
    "sharpness-aware": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                optimizer.first_step(zero_grad=True)
                F.cross_entropy(model(x), y).backward()
                optimizer.second_step(zero_grad=True)
    """,
    "before the loop": """
        def train(model, loader, optimizer):
            optimizer.zero_grad()
            for i, (x, y) in enumerate(loader):
                F.cross_entropy(model(x), y).backward()
                if i % 2:
                    optimizer.step()
                    optimizer.zero_grad()
    """,
    "all of it, every few episodes": """
        def explore(agent, module, optimizer, buffer, episodes):
            for i in range(episodes):
                agent.play(buffer)
                if (i + 1) % 100 == 0:
                    for _ in range(10):
                        optimizer.zero_grad()
                        loss = module.get_loss(buffer.sample(32))
                        loss.backward()
                        optimizer.step()
    """,
    "a generator that steps less often": """
        def train(generator, critic, loader, g_optimizer, d_optimizer):
            for i, real in enumerate(loader):
                d_optimizer.zero_grad()
                g_optimizer.zero_grad()
                with torch.no_grad():
                    fake = generator(real)
                (critic(fake) - critic(real)).mean().backward()
                d_optimizer.step()
                if i % 5 == 0:
                    (-critic(generator(real)).mean()).backward()
                    g_optimizer.step()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)

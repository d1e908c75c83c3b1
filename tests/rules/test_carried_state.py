from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import HEADER, assert_clean, assert_flagged, findings, lines_in_files, source, twin

CODE = "GG105"

MARKING = """
        def force(potential, pos):
            if not pos.requires_grad:
                pos.requires_grad_(True)
            (slope,) = torch.autograd.grad(potential(pos).sum(), pos)
            return -slope

        def step(potential, pos, vel):
            pos = MOVED
            vel = vel + 0.1 * force(potential, pos)
            return pos, vel

        def simulate(net, optimizer, potential, steps):
            pos, vel = torch.randn(8, 3), torch.zeros(8, 3)
            for i in range(steps):
                pos, vel = step(potential, pos, vel)  # MARK
                optimizer.zero_grad()
                net(pos.detach()).mean().backward()
                optimizer.step()
"""

FLAGGED = {
    "a stream that nothing trains": """
        class Mask(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn, self.out = nn.GRU(8, 8), nn.Linear(8, 8)

            def forward(self, x, state=None):
                h, state = self.rnn(x, state)
                return self.out(h).sigmoid(), state

        class Stream:
            def __init__(self, model):
                self.model = model.eval()
                self.state = None

            def process(self, chunk):
                mask, self.state = self.model(chunk, self.state)  # !
                return chunk * mask.detach()

        def main(chunks):
            stream = Stream(Mask())
            for chunk in chunks:
                print(stream.process(chunk).abs().max().item())
    """,
    "a state that is a field of what a model gives": """
        from typing import NamedTuple

        class Output(NamedTuple):
            logits: torch.Tensor
            state: torch.Tensor

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(4, 4)

            def forward(self, x, state=None):
                state = self.cell(x, state)
                return Output(state.sum(-1), state)

        def train(loader, stream):
            net, state = Net(), None
            optimizer = torch.optim.Adam(net.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(net(x).logits, y).backward()
                optimizer.step()
                out = net(next(stream), state)
                state = out.state  # !
                print(out.logits.mean().item())
    """,
    "a state that is made on first use, and carried on in one mode": """
        class Memory(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.cell = nn.GRUCell(width, width)
                self.state = None
                self.carries = False

            def forward(self, x):
                if self.carries or not self.training:
                    if self.state is None:
                        self.state = torch.zeros_like(x)
                    self.state = self.cell(x, self.state)  # !
                    return self.state
                return self.cell(x)

        def main(rows):
            net = Memory(4)
            net.carries = True
            optimizer = torch.optim.Adam(net.parameters())
            for x in rows:
                optimizer.zero_grad()
                net(x).sum().backward(retain_graph=True)
                optimizer.step()
    """,
    "positions that a helper marks": MARKING.replace("MOVED", "pos + 0.1 * vel").replace("MARK", "!"),
    "positions that the loop marks": """
        def simulate(net, optimizer, potential, steps):
            pos, vel = torch.randn(8, 3), torch.zeros(8, 3)
            for i in range(steps):
                pos = pos + 0.1 * vel  # !
                pos.requires_grad_(True)
                (slope,) = torch.autograd.grad(potential(pos).sum(), pos)
                vel = vel - 0.1 * slope
                optimizer.zero_grad()
                net(pos.detach()).mean().backward()
                optimizer.step()
    """,
    "a state that a callee makes a leaf": """
        class Potential(nn.Module):
            def __init__(self):
                super().__init__()
                self.mlp = nn.Linear(3, 1)

            def forces(self, q):
                q = q.requires_grad_(True)
                (g,) = torch.autograd.grad(self.mlp(q).sum(), q)
                return -g

        class Langevin:
            def __init__(self, potential, q):
                self.potential, self.q = potential, q
                self.v = torch.randn_like(q)

            def step(self):
                self.v = 0.9 * self.v + self.potential.forces(self.q)
                self.q = torch.remainder(self.q + 0.1 * self.v, 2.0)  # !

        def run(steps):
            sim = Langevin(Potential(), torch.rand(8, 3))
            for _ in range(steps):
                sim.step()
    """,
    "a perturbation of random numbers, kept by an attacker": """
        class Universal:
            def __init__(self, model, shape, eps):
                self.model = model
                self.eps = eps
                self.delta = torch.empty(1, *shape).uniform_(-eps, eps).requires_grad_()

            def ascend(self, x, y):
                loss = F.cross_entropy(self.model((x + self.delta).clamp(0, 1)), y)
                (gradient,) = torch.autograd.grad(loss, self.delta)
                moved = self.delta + 0.1 * gradient.sign()
                self.delta = moved.clamp(-self.eps, self.eps)  # !
                return loss.item()

        def train(model, loader, optimizer):
            attack = Universal(model, (3, 32, 32), 0.03)
            for x, y in loader:
                attack.ascend(x, y)
                optimizer.zero_grad()
                F.cross_entropy(model(x + attack.delta.detach()), y).backward()
                optimizer.step()
    """,
    "forces with a graph, by a flag that the caller gives": """
        def forces(energy, position, train=False):
            position = position.requires_grad_()
            (gradient,) = torch.autograd.grad(energy(position).sum(), position, create_graph=train)
            return -gradient

        def simulate(net: nn.Module, steps, optimizer):
            position = torch.randn(8, 3)
            for step in range(steps):
                position = torch.tanh(position + 0.01 * forces(net, position, train=True))  # !
                loss = net(torch.randn(8, 3)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "hidden state and retain_graph": """
        def train(rnn, loader, optimizer):
            hidden = None
            for x, y in loader:
                out, hidden = rnn(x, hidden)  # !
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
    """,
    "two states": """
        def train(lstm, head, loader, optimizer):
            h = torch.zeros(1, 8, 16)
            c = torch.zeros(1, 8, 16)
            for x, y in loader:
                out, (h, c) = lstm(x, (h, c))  # !
                loss = F.mse_loss(head(out), y)
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
    """,
    "in an attribute": """
        class Runner:
            def __init__(self, cell, optimizer):
                self.cell = cell
                self.optimizer = optimizer
                self.state = None

            def run(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    out, self.state = self.cell(x, self.state)  # !
                    F.mse_loss(out, y).backward(retain_graph=True)
                    self.optimizer.step()

            def __call__(self, loader):
                return self.run(loader)
    """,
    "rollout in evaluation": """
        def rollout(model, env, steps):
            model.eval()
            h = torch.zeros(1, 64)
            obs = env.reset()
            for _ in range(steps):
                logits, h = model(obs, h)  # !
                obs = env.step(logits.argmax(-1).item())
    """,
    "perturbation": """
        def attack(model, x, y, alpha):
            delta = torch.zeros_like(x, requires_grad=True)
            for _ in range(40):
                loss = F.cross_entropy(model(x + delta), y)
                (grad,) = torch.autograd.grad(loss, delta)
                delta = delta + alpha * torch.sign(grad) * delta.abs().max()
            return delta.detach()
    """,
    "simulation": """
        def simulate(potential, positions, steps, dt):
            velocities = torch.zeros_like(positions)
            positions.requires_grad_()
            for _ in range(steps):
                energy = potential(positions).sum()
                forces = -torch.autograd.grad(energy, positions)[0]
                velocities = velocities + dt * forces
                positions = positions + dt * velocities
    """,
    "through another name": """
        def train(rnn, loader, optimizer):
            prev = torch.zeros(1, 8)
            for x, y in loader:
                cur = rnn(x, prev)
                loss = F.mse_loss(cur, y)
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
                prev = cur  # !
    """,
    "detach that does nothing": """
        def train(rnn, loader, optimizer):
            state = rnn.begin_state()
            for x, y in loader:
                for s in state:
                    s.detach()
                out, state = rnn(x, state)  # !
                optimizer.zero_grad()
                F.cross_entropy(out, y).backward(retain_graph=True)
                optimizer.step()
    """,
    "a record, replaced": """
        from dataclasses import dataclass, replace

        @dataclass(frozen=True)
        class State:
            pos: torch.Tensor
            vel: torch.Tensor
            time: float = 0.0

        class Verlet:
            def __init__(self, potential, dt):
                self.potential, self.dt = potential, dt

            def force(self, pos):
                if not pos.requires_grad:
                    pos.requires_grad_(True)
                return -torch.autograd.grad(self.potential(pos), pos)[0]

            def step(self, state):
                half = state.vel + 0.5 * self.dt * self.force(state.pos)
                pos = state.pos + self.dt * half
                vel = half + 0.5 * self.dt * self.force(pos)
                return replace(state, pos=pos, vel=vel, time=state.time + self.dt)

        def simulate(potential, start, steps):
            integrator = Verlet(potential, 0.01)
            state = State(start, torch.zeros_like(start))
            for i in range(steps):
                state = integrator.step(state)  # !
                if i % 100 == 0:
                    print(state.time, state.vel.pow(2).sum().item())
    """,
    "under a test of another tensor's shape": """
        def rollout(cell, model, xs, h):
            model.eval()
            for x in xs:
                if x.dim() == 1:
                    x = x.unsqueeze(0)
                h = cell(x, h)  # !
                print(model(h).argmax())
    """,
}

FLAGGED["a parameter is a module if it is used as one"] = """
        def train(lm, batches):
            opt = torch.optim.SGD(lm.parameters(), 0.1)
            state = None
            for x, y in batches:
                opt.zero_grad()
                logits, state = lm(x, state)  # !
                F.cross_entropy(logits, y).backward(retain_graph=True)
                opt.step()
    """

HANDED = """
    class Trainer:
        def fit(self, loader, epochs):
            for epoch in range(epochs):
                self.train_epoch(loader)

        def train_epoch(self, loader):
            return self._each(loader, self.train_batch)

        def test_epoch(self, loader):
            return self._each(loader, self.test_batch)

        def train_batch(self, batch):
            raise NotImplementedError

        def test_batch(self, batch):
            raise NotImplementedError

        @staticmethod
        def _each(loader, run):
            results = []
            for batch in loader:
                results.append(run(batch))
            return results


    class SequenceTrainer(Trainer):
        def train_epoch(self, loader):
            self.state = None
            return super().train_epoch(loader)

        def train_batch(self, batch):
            x, y = batch
            self.optimizer.zero_grad()
            out, state = self.model(x, self.state)
            self.state = state  # !
            loss = self.loss_fn(out, y)
            loss.backward(retain_graph=True)
            self.optimizer.step()
            return loss.item()

        def test_batch(self, batch):
            x, y = batch
            with torch.no_grad():
                out, self.state = self.model(x, self.state)
            return self.loss_fn(out, y).item()
"""

SPELLINGS = ("perturbation", "simulation")  # the same store under whatever rule fits its form best

CLEAN = {
    "a stream that nothing trains, under inference_mode": twin(
        FLAGGED["a stream that nothing trains"],
        ("            def process", "            @torch.inference_mode()\n            def process"),
    ),
    "a stream that nothing trains, of numbers": """
        class Stream:
            def __init__(self, step):
                self.step, self.state = step, 0

            def process(self, chunk):
                self.state = self.step(chunk, self.state)
                return self.state

        def main(chunks):
            stream = Stream(lambda x, s: s + len(x))
            for chunk in chunks:
                print(torch.tensor(stream.process(chunk)))
    """,
    "a field that is cut": twin(
        FLAGGED["a state that is a field of what a model gives"], ("state = out.state", "state = out.state.detach()")
    ),
    "a field of what a model gives that was not given it": twin(
        FLAGGED["a state that is a field of what a model gives"], ("net(next(stream), state)", "net(next(stream))")
    ),
    "a field that is a number": twin(
        FLAGGED["a state that is a field of what a model gives"],
        ("state = out.state", "state = out.state.argmax(-1)"),
    ),
    "what a module makes on first use, in one of its modes": """
        class Mixing(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(width, width))
                self.inverse = None
                self.keeps_inverse = False

            def forward(self, x, reverse=False):
                if not reverse:
                    return F.linear(x, self.weight)
                if not self.training or self.keeps_inverse:
                    if self.inverse is None:
                        self.inverse = torch.inverse(self.weight)
                    inverse = self.inverse
                else:
                    inverse = torch.inverse(self.weight)
                return F.linear(x, inverse)

        def main(rows):
            net = Mixing(4)
            optimizer = torch.optim.Adam(net.parameters())
            for x in rows:
                optimizer.zero_grad()
                y = net(x)
                back = net(y, reverse=True)
                torch.norm(x - y).backward()
                optimizer.step()
                print(torch.norm(back - x).item())
    """,
    "what a helper makes on first use": """
        class Mixing(nn.Module):
            def _inverse(self):
                if self.inverse is None:
                    self.inverse = torch.inverse(self.weight)
                return self.inverse

            def forward(self, x, keeps):
                inverse = self._inverse() if keeps else torch.inverse(self.weight)
                return F.linear(x, inverse)

        def main(rows):
            net = Mixing(4)
            optimizer = torch.optim.Adam(net.parameters())
            for x in rows:
                optimizer.zero_grad()
                torch.norm(x - net(x, False)).backward()
                optimizer.step()
                print(net(x, True).sum().item())
    """,
    "positions that are begun anew": MARKING.replace("MOVED", "pos.detach() + 0.1 * vel"),
    "positions that are no leaf any more": """
        def attack(net, x, y, steps):
            adv = x.clone()
            for _ in range(steps):
                adv.requires_grad_(True)
                (slope,) = torch.autograd.grad(F.cross_entropy(net(adv), y), adv)
                with torch.no_grad():
                    adv = (adv + 0.01 * slope.sign()).clamp(0, 1)
            return adv
    """,
    "positions that are moved in place": """
        def minimise(net, optimizer, pos, steps):
            pos = pos.clone()
            for _ in range(steps):
                pos.requires_grad_(True)
                (slope,) = torch.autograd.grad(net(pos).sum(), pos)
                pos = pos.detach() - 0.1 * slope
                optimizer.zero_grad()
                net(pos).mean().backward()
                optimizer.step()
    """,
    "a helper's own name for what it is given": """
        def shifted(x, by):
            x = x + by
            return x.mean().item()

        def train(model, loader, optimizer):
            total = torch.zeros(1)
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(shifted(total, loss))
    """,
    "a state of which a callee makes a copy": twin(
        FLAGGED["a state that a callee makes a leaf"],
        ("q = q.requires_grad_(True)", "q = q.detach().requires_grad_(True)"),
    ),
    "a state of which a callee makes a clone": twin(
        FLAGGED["a state that a callee makes a leaf"],
        ("q = q.requires_grad_(True)", "q = q.clone()\n                q.requires_grad_(True)"),
    ),
    "forces without a graph, by a flag that the caller gives": """
        def forces(energy, position, train=False):
            position = position.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(energy(position).sum(), position, create_graph=train)
            return -gradient

        def simulate(net: nn.Module, steps, optimizer):
            position = torch.randn(8, 3)
            for step in range(steps):
                position = torch.tanh(position + 0.01 * forces(net, position, train=False))
                loss = net(torch.randn(8, 3)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "the least of two": """
        def search(model, x, y, optimizer):
            best = torch.tensor(float("inf"))
            for step in range(1000):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                best = min(best, loss)
            return best.item()
    """,
    "detached in the loop": """
        def train(rnn, loader, optimizer):
            hidden = None
            for x, y in loader:
                if hidden is not None:
                    hidden = hidden.detach()
                out, hidden = rnn(x, hidden)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "repackaged by a helper": """
        def repackage_hidden(h):
            if isinstance(h, torch.Tensor):
                return h.detach()
            return tuple(repackage_hidden(v) for v in h)

        def train(model, batches, optimizer):
            hidden = model.init_hidden(20)
            for x, y in batches:
                optimizer.zero_grad()
                hidden = repackage_hidden(hidden)
                out, hidden = model(x, hidden)
                loss = F.cross_entropy(out, y)
                loss.backward()
                optimizer.step()
    """,
    "detached by a comprehension at the end": """
        def train(lstm, loader, optimizer):
            state = None
            for x, y in loader:
                out, state = lstm(x, state)
                loss = F.mse_loss(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                state = tuple(s.detach() for s in state)
    """,
    "detached in place every k steps": """
        def train(rnn, loader, optimizer):
            hidden = torch.zeros(1, 8)
            total = 0
            for i, (x, y) in enumerate(loader):
                out, hidden = rnn(x, hidden)
                total = total + F.mse_loss(out, y)
                if (i + 1) % 20 == 0:
                    optimizer.zero_grad()
                    total.backward()
                    optimizer.step()
                    hidden.detach_()
                    total = 0
    """,
    "data": """
        def train(rnn, loader, optimizer):
            h = None
            for x, y in loader:
                out, h = rnn(x, h)
                h = h.data
                optimizer.zero_grad()
                F.mse_loss(out, y).backward()
                optimizer.step()
    """,
    "new for each batch": """
        def train(rnn, loader, optimizer):
            for x, y in loader:
                hidden = rnn.init_hidden()
                optimizer.zero_grad()
                for t in range(x.size(0)):
                    out, hidden = rnn(x[t], hidden)
                loss = F.cross_entropy(out, y)
                loss.backward()
                optimizer.step()
    """,
    "rollout under no_grad": """
        @torch.no_grad()
        def rollout(model, env, steps):
            model.eval()
            h = None
            for _ in range(steps):
                logits, h = model(env.observe(), h)
                env.step(logits.argmax(-1))
    """,
    "decoder": """
        class Decoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(8, 8)
                self.out = nn.Linear(8, 10)

            def forward(self, x, h, steps):
                ys = []
                for _ in range(steps):
                    h = self.cell(x, h)
                    x = self.out(h)
                    ys.append(x)
                return torch.stack(ys), h
    """,
    "layers": """
        def forward(layers, x):
            for layer in layers:
                x = layer(x)
            return x
    """,
    "adversarial example, detached": """
        def pgd(model, x, y, alpha):
            model.eval()
            adv = x.clone()
            for _ in range(10):
                adv = adv.detach().requires_grad_()
                loss = F.cross_entropy(model(adv), y)
                grad = torch.autograd.grad(loss, adv)[0]
                adv = adv + alpha * grad.sign()
            return adv.detach()
    """,
    "exponential moving average of weights": """
        def train(model, ema, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                with torch.no_grad():
                    for p, q in zip(model.parameters(), ema.parameters()):
                        q.mul_(0.99).add_(p, alpha=0.01)
                for p, q in zip(model.parameters(), ema.parameters()):
                    q.data = 0.99 * q.data + 0.01 * p.data
    """,
    "running statistics, detached": """
        class Norm(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.register_buffer("running_mean", torch.zeros(dim))

            def forward(self, x):
                mean = x.mean(0)
                self.running_mean = 0.9 * self.running_mean + 0.1 * mean.detach()
                self.running_mean = self.running_mean.to(x)
                with torch.no_grad():
                    self.running_mean = 0.9 * self.running_mean + 0.1 * mean
                return x - mean
    """,
    "learning rate and counters": """
        def train(model, loader, optimizer):
            lr, best = 0.1, float("inf")
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                lr = lr * 0.99
                best = min(best, loss.item())
    """,
    "differentiable simulation with a horizon": """
        def train(policy, sim, optimizer, episodes, horizon):
            for _ in range(episodes):
                state = sim.reset()
                cost = 0
                for t in range(horizon):
                    state = sim(state, policy(state))
                    cost = cost + state.pow(2).sum()
                optimizer.zero_grad()
                cost.backward()
                optimizer.step()
    """,
    "the first loss": """
        def train(model, loader, optimizer):
            first = None
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                if first is None:
                    first = loss
    """,
    "reinforcement learning environment": """
        def train(agent, env, optimizer):
            obs = env.reset()
            for _ in range(1000):
                dist, value = agent(obs)
                action = dist.sample()
                obs, reward, done, info = env.step(action)
                loss = (reward - value).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "a record, replaced by what is detached": """
        from dataclasses import dataclass, replace

        @dataclass(frozen=True)
        class State:
            pos: torch.Tensor
            vel: torch.Tensor
            time: float = 0.0

        class Verlet:
            def __init__(self, potential, dt):
                self.potential, self.dt = potential, dt

            def force(self, pos):
                pos = pos.detach().requires_grad_(True)
                return -torch.autograd.grad(self.potential(pos), pos)[0]

            def step(self, state):
                half = state.vel + 0.5 * self.dt * self.force(state.pos)
                pos = state.pos + self.dt * half
                vel = half + 0.5 * self.dt * self.force(pos)
                return replace(state, pos=pos, vel=vel, time=state.time + self.dt)

        def simulate(potential, start, steps):
            integrator = Verlet(potential, 0.01)
            state = State(start, torch.zeros_like(start))
            for i in range(steps):
                state = integrator.step(state)
                if i % 100 == 0:
                    print(state.time, state.vel.pow(2).sum().item())
    """,
    "steps of a sampler, called where gradients are off": """
        @torch.no_grad()
        def generate(model, count):
            model.eval()
            images = []
            for _ in range(count):
                z = torch.randn(4, 3)
                z = denoise(model, z, 50)
                images.append(z)
            return images

        def denoise(model, z, steps):
            for step in range(steps):
                noise = model.unet(z, step)
                z = z - 0.1 * noise
            return z
    """,
    "a dimension that is added once": """
        class Explainer:
            def __init__(self, model):
                self.model = model

            def explain(self, images, wanted, optimizer):
                for image in images:
                    feature = self.model(image)
                    for t in range(50):
                        if feature.dim() == 1:
                            feature = torch.relu(feature).unsqueeze(0)
                        optimizer.zero_grad()
                        F.mse_loss(feature, wanted).backward(retain_graph=True)
                        optimizer.step()
    """,
    "the module itself, put somewhere else": """
        def train(args, loader, opt, epochs, device):
            model_D = D_Net(args)
            model_D = model_D.to(device)
            for epoch in range(epochs):
                model_D.train()
                for x, y in loader:
                    opt.zero_grad()
                    F.mse_loss(model_D(x), y).backward()
                    opt.step()
                torch.save(model_D.to("cpu").state_dict(), "last.pt")
                model_D = model_D.to(device)
    """,
}


@pytest.mark.parametrize("name", [n for n in FLAGGED if n not in SPELLINGS])
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize(("name", "statement"), [("perturbation", "delta = delta"), ("simulation", "positions = pos")])
def test_chain_of_updates(name: str, statement: str) -> None:
    from tests.rules.snippets import source

    lines = source(FLAGGED[name]).splitlines()
    flagged = [f for f in findings(FLAGGED[name]) if statement in lines[f.span.line - 1]]
    assert flagged, "the update that chains the graphs is not flagged"


# Nothing is carried there, and what is shown of the call is its numbers: another rule tells of that.
RUN_FOR_NOTHING = {
    "a field that is cut": "out = net(next(stream), state)",
    "a field of what a model gives that was not given it": "out = net(next(stream))",
    "a field that is a number": "out = net(next(stream), state)",
    "what a module makes on first use, in one of its modes": "back = net(y, reverse=True)",
}


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    lines = source(CLEAN[name]).splitlines()
    wasted = [("GG305", number) for number, line in enumerate(lines, 1) if line.strip() == RUN_FOR_NOTHING.get(name)]
    assert [(f.code, f.span.line) for f in findings(CLEAN[name])] == wasted


def test_an_error_that_torch_raises_itself_is_left_to_torch() -> None:
    """Without retain_graph the second backward raises, so running code cannot be of this kind."""
    snippet = FLAGGED["hidden state and retain_graph"].replace("retain_graph=True", "")
    assert findings(snippet.replace("  # !", ""), CODE) == []


def test_what_is_put_in_another_order_waits() -> None:
    snippet = """
        def caption(model, loader, steps):
            model.eval()
            for image in loader:
                features = model(image)
                for step in range(steps):
                    features = features[features.mean(1).argsort()]
                    print(features.shape)
    """
    assert findings(snippet, "GG105") == []
    assert [f.code for f in findings(snippet, "GG105", Confidence.LOW)] == ["GG105"]


def test_the_step_that_a_loop_is_handed_is_judged_in_that_loop() -> None:
    assert_flagged(HANDED, CODE)


@pytest.mark.parametrize("cut", ["state.detach()", "None", "[part.detach() for part in state]"])
def test_a_handed_step_that_cuts_its_state_is_clean(cut: str) -> None:
    assert_clean(HANDED.replace("self.state = state  # !", f"self.state = {cut}"), CODE)


RECORDS = """
    from dataclasses import dataclass, replace
    from typing import NamedTuple
    import collections

    {state}

    def advance(net, state{declared}, x):
        {advance}

    def roll(net, loader, optimizer):
        state = State(torch.zeros(4, 8), None)
        net.eval()
        for x in loader:
            {step}
            print({shown})
"""
STATES = [
    "class State(NamedTuple):\n        h: torch.Tensor\n        score: object",
    "@dataclass\n    class State:\n        h: torch.Tensor\n        score: object",
    "State = collections.namedtuple('State', 'h score')",
]
CARRYING = [
    "return State(net(x, state.h), None)",
    "return State(h=net(x, state.h), score=None)",
    "h = net(x, state.h); return State(h, h.mean().item())",
    "return State(state.h + 0.1 * net(x), 1.0)",
    "h, old = net(x, state.h), state.score; return State(h, old)",
]
CUT = [
    "h = net(x, state.h); return State(h.detach(), h.mean())",
    "with torch.no_grad(): return State(net(x, state.h), None)",
    "h = net(x, state.h.detach()); return State(h, state.score)",
    "return State(torch.zeros(4, 8), net(x).mean())",
    "h = net(x, state.h); return State(state.h, h.mean())",
    "return State(x, net(x, state.h).sum())",
    "score = net(x, state.h).sum(); return State(state.h, score if state.score is None else score)",
]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("advance", CARRYING)
@pytest.mark.parametrize("declared", ["", ": State"])
def test_a_record_that_carries_a_graph_in_a_field(state: str, advance: str, declared: str) -> None:
    snippet = RECORDS.format(
        state=state,
        advance=advance,
        declared=declared,
        step="state = advance(net, state, x)  # !",
        shown="state.score",
    )
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("advance", CUT)
@pytest.mark.parametrize("declared", ["", ": State"])
def test_a_record_whose_fields_are_cut_or_made_anew(state: str, advance: str, declared: str) -> None:
    snippet = RECORDS.format(
        state=state, advance=advance, declared=declared, step="state = advance(net, state, x)", shown="state.score"
    )
    assert_clean(snippet, CODE, Confidence.LOW)


@pytest.mark.parametrize(
    ("step", "leaks"),
    [
        ("state = State(net(x, state.h), None)", True),
        ("state = State(net(x, state.h).detach(), None)", False),
        ("h = net(x, state.h); state = State(h.detach(), h.mean())", False),
        ("state = State(state.h.detach(), net(x, state.h))", False),
    ],
)
def test_a_record_that_the_loop_makes_anew(step: str, leaks: bool) -> None:
    snippet = RECORDS.format(
        state=STATES[0],
        advance="return state",
        declared="",
        step=step + ("  # !" if leaks else ""),
        shown="state.h.norm().item()",
    )
    if leaks:
        assert_flagged(snippet, CODE)
    else:
        assert_clean(snippet, CODE, Confidence.LOW)


SIMULATION = """
    from typing import NamedTuple

    class Phase(NamedTuple):
        pos: torch.Tensor
        vel: torch.Tensor

    def energy(pos):
        return pos.pow(2).sum()

    class Integrator:
        def __init__(self, dt):
            self.dt = dt

        def advance(self, phase):
            force = -torch.autograd.grad(energy(phase.pos), phase.pos)[0]
            vel = phase.vel + self.dt * force
            pos = phase.pos + self.dt * vel
            return Phase({pos}, vel)

    class Fit:
        def __init__(self, model):
            self.phase = Phase(torch.randn(5, 3).requires_grad_(True), torch.zeros(5, 3))
            self.md, self.model = Integrator(0.01), model
            self.optimizer = torch.optim.Adam(model.parameters())

        def run(self, steps):
            for k in range(steps):
                self.phase = self.md.advance(self.phase){mark}
                loss = (self.model(self.phase.pos.detach()) - energy(self.phase.pos).detach()) ** 2
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
"""


def test_the_state_of_a_simulation_in_a_record() -> None:
    assert_flagged(SIMULATION.format(pos="pos", mark="  # !"), CODE)
    assert_clean(SIMULATION.format(pos="pos.detach().requires_grad_(True)", mark=""), CODE, Confidence.LOW)


@pytest.mark.parametrize("declared", ["", ": State"])
def test_a_record_beside_other_results(declared: str) -> None:
    snippet = RECORDS.format(
        state=STATES[0],
        advance="h = net(x, state.h); return State({h}, None), h.mean()",
        declared=declared,
        step="state, score = advance(net, state, x){mark}",
        shown="score.item()",
    )
    assert_flagged(snippet.replace("{h}", "h").replace("{mark}", "  # !"), CODE)
    assert_clean(snippet.replace("{h}", "h.detach()").replace("{mark}", ""), CODE, Confidence.LOW)


STREAM = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.head = nn.LSTMCell(4, 4), nn.Linear(4, 4)

            def step(self, x, state):
                state = self.cell(x, state)
                return self.head(state[0]), state

        def advance(net, x, state):
            _, state = net.step(x, state)
            return state

        class Reader:
            def __init__(self, start):
                self.h, self.c, self.start = start, start, start
                self.memory = {"h": start}

            def read(self, net, x):
                READ

        def train(loader, stream, start):
            net, reader = Net(), Reader(start)
            optimizer = torch.optim.Adam(net.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net.head(x), y).backward()
                optimizer.step()
                reader.read(net, next(stream))
"""


@pytest.mark.parametrize(
    ("read", "stored"),
    [
        ("h = self.h; y, h = net.step(x, h); self.h = STORED", "h"),
        ("y, new = net.step(x, self.h); self.h = STORED", "new"),
        ("h = self.h if self.h is not None else self.start; h = net.step(x, h)[1]; self.h = STORED", "h"),
        ("h = self.h or self.start; new = advance(net, x, state=h); self.h = STORED", "new"),
        ("h, c = self.h, self.c; new, c = net.cell(x, (h, c)); self.h = STORED", "new"),
        ('y, h = net.step(x, self.memory["h"]); self.memory["h"] = STORED', "h"),
        ("out = net.step(x, self.h); self.h = STORED", "out[1]"),
        ("out = net.step(x, self.h); new = out[1]; self.h = STORED", "new"),
        ("h = self.h; out = net.step(x, h); new = out[1]; self.h = STORED", "new"),
        (
            """h = self.h
                for _ in range(3):
                    y, h = net.step(x, h)
                self.h = STORED""",
            "h",
        ),
    ],
)
def test_a_state_that_goes_round_by_other_names(read: str, stored: str) -> None:
    lines = read.replace("; ", "\n                ")
    snippet = STREAM.replace("READ", lines)
    assert_flagged(snippet.replace("STORED", f"{stored}  # !"), CODE)
    assert_clean(snippet.replace("STORED", f"{stored}.detach()"), CODE)
    assert_clean(snippet.replace("STORED", f"tuple(part.detach() for part in {stored})"), CODE)
    without = snippet.replace("STORED", stored).replace("def read(", "@torch.no_grad()\n            def read(")
    assert_clean(without, CODE)


@pytest.mark.parametrize(
    "read",
    [
        "h = self.h; y, new = net.step(x, h); self.h = h",
        "h = self.h; y, new = net.step(x, h); self.h = self.start",
        "y, h = net.step(x, self.start); self.h = h",
        "h = self.start; y, h = net.step(x, h); self.h = h",
        "h = self.h; y, new = net.step(x, self.start); self.h = new",
        "out = net.step(x, self.start); self.h = out[1]",
        "out = net.step(x, self.h); self.h = self.start",
        "out = net.step(x, self.h); out = net.step(x, self.start); self.h = out[1]",
        "h = self.h; out = net.step(x, h); self.h = h",
        "h = self.h; y, self.h = net.step(x, self.start)",
        "h = self.h; y, self.h = net.step(x, h); self.h = h",
        "out = net.step(x, self.h); self.h = tuple(part.detach() for part in out[1])",
    ],
)
def test_a_state_that_does_not_go_round(read: str) -> None:
    lines = read.replace("; ", "\n                ")
    assert_clean(STREAM.replace("READ", lines), CODE)


@pytest.mark.parametrize("before", ["before = self.h", "before = self.h or self.start", "before, c = self.h, self.c"])
def test_a_state_that_is_bound_where_it_comes_out(before: str) -> None:
    snippet = STREAM.replace("READ", f"{before}\n                y, self.h = net.step(x, before)  # !")
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("net.step(x, before)", "net.step(x, self.start)")), CODE)
    assert_clean(twin(snippet, ("y, self.h =", "y, after =")), CODE)
    assert_clean(twin(snippet, ("def read(", "@torch.no_grad()\n            def read(")), CODE)


def test_a_sum_of_steps_waits() -> None:
    snippet = STREAM.replace(
        "READ", "h = self.h\n                y = net.head(h)\n                self.h = h[:2] + y[2:]"
    )
    assert_clean(snippet, CODE)


SUMS = """
        def merged(sums, new):
            return MADE

        def train(model, loader, optimizer):
            sums = {}
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                sums = merged(sums, dict(loss=loss))  # !
"""


@pytest.mark.parametrize(
    "made",
    [
        "{name: sums.get(name, 0.0) + value for name, value in new.items()}",
        "{name: value + sums.get(name, 0) for name, value in new.items()}",
        "dict((name, sums.get(name, 0) + value) for name, value in new.items())",
        "{name: sums.get(name, 0) + new.get(name, 0) for name in {*sums, *new}}",
        "{name: 0.9 * sums.get(name, 0.0) + 0.1 * value for name, value in new.items()}",
    ],
)
def test_sums_so_far_that_a_helper_asks_for(made: str) -> None:
    snippet = SUMS.replace("MADE", made)
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("dict(loss=loss)", "dict(loss=loss.item())")))
    assert_clean(twin(snippet, ("dict(loss=loss)", "dict(loss=loss.detach())")))
    assert_clean(twin(snippet, ("sums = merged", "_ = merged")))
    if "+ value" in made:
        assert_clean(twin(snippet, ("+ value", "+ float(value)")))


@pytest.mark.parametrize(
    "made", ["{name: new.get(name, 0) * 2 for name in new}", "{k: sums.get(k, 0) + 1 for k in new}"]
)
def test_what_a_helper_makes_without_the_sums_so_far(made: str) -> None:
    assert_clean(twin(SUMS.replace("MADE", made)), CODE)


CACHING = """
        class Scorer(nn.Module):
            def __init__(self):
                super().__init__()
                self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)
                self.cache = None

            def forward(self, x, y, {cached}):
                right = self.right(y)
                if cached:
                    if self.cache is not None:
                        left = self.cache
                    else:
                        left = self.left(x)
                        self.cache = left
                else:
                    left = self.left(x)
                return (left * right).sum(-1)

        def train(loader, args):
            scorer = Scorer()
            optimizer = torch.optim.Adam(scorer.parameters())
            for x, y, target in loader:
                optimizer.zero_grad()
                loss = F.mse_loss(scorer.forward({given}), target)
                loss.backward()
                optimizer.step()
"""


@pytest.mark.parametrize(
    ("cached", "given"),
    [
        ("cached=False", "x, y"),
        ("cached=False, scale=1.0", "x, y, scale=2.0"),
        ("cached=True", "x, y, False"),
        ("cached=True", "x, y, cached=False"),
    ],
)
def test_what_is_kept_only_when_asked_for_is_not_kept_otherwise(cached: str, given: str) -> None:
    assert_clean(CACHING.format(cached=cached, given=given), confidence=Confidence.LOW)


@pytest.mark.parametrize(
    ("cached", "given"),
    [
        ("cached=True", "x, y"),
        ("cached=False", "x, y, True"),
        ("cached=False", "x, y, cached=True"),
        ("cached=False", "x, y, args.cached"),
        ("cached=False", "*args.inputs(x, y)"),
        ("cached", "x, y, args.cached"),
    ],
)
def test_what_is_kept_where_it_is_asked_for_is_kept(cached: str, given: str) -> None:
    assert findings(CACHING.format(cached=cached, given=given), confidence=Confidence.LOW)


METROPOLIS = """
        def energy_of(net, x):
            return net(x).sum(1)

        def step(net, energy, x, terms):
            first, second = terms
            proposed = x + torch.randn_like(x)
            new = energy_of(net, proposed)
            force = torch.autograd.grad(new.sum(), proposed)[0]
            {take}
            return {given}

        def sample(net, steps):
            x = torch.randn(8, 3, requires_grad=True)
            energy = energy_of(net, x)
            terms = [energy_of(net, x), energy_of(net, -x)]
            for _ in range(steps):
                {bound} = step(net, energy, x, terms)  # !
"""
KEEPING_BOOKS = """with torch.no_grad():
                accept = torch.rand(8) < torch.exp(energy - new)
                energy[accept] = new[accept]
                first[accept] = new[accept]
                x[accept] = proposed[accept]"""


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ("energy", "energy"),
        ("energy, x", "energy, x"),
        ("(x, energy)", "x, energy"),
        ("energy, [first, second]", "energy, terms"),
        ("energy, (first, second)", "energy, terms"),
        ("energy, terms", "energy, terms"),
    ],
)
@pytest.mark.parametrize("take", [KEEPING_BOOKS, "print(energy)", "x.data.copy_(proposed)"])
def test_what_a_call_gives_back_as_it_was_is_not_carried_on(take: str, given: str, bound: str) -> None:
    assert_clean(twin(METROPOLIS.format(take=take, given=given, bound=bound)), CODE)


@pytest.mark.parametrize(
    ("take", "given", "bound"),
    [
        ("energy = torch.minimum(energy, new)", "energy", "energy"),
        ("energy = torch.minimum(energy, new)", "energy, x", "energy, x"),
        (KEEPING_BOOKS, "energy * 0.5, x", "energy, x"),
        (KEEPING_BOOKS, "-energy", "energy"),
        ("second = second + first", "energy, [first, second]", "energy, terms"),
    ],
)
def test_what_a_call_computes_from_what_it_is_given_is_carried_on(take: str, given: str, bound: str) -> None:
    assert_flagged(METROPOLIS.format(take=take, given=given, bound=bound), CODE)


DESCENT = """
        def descend(net, start, energy, steps, noise):
            points = net(start)
            for _ in range(steps):
                force = torch.autograd.grad(energy(points).sum(), points)[0]
                {step}
"""


@pytest.mark.parametrize(
    "step",
    [
        "points = points - 0.1 * force",
        "points = points + force * -0.1",
        "points = points - force",
        "points = -0.1 * force + points",
    ],
)
def test_a_step_without_a_graph_chains_only_what_it_is_added_to(step: str) -> None:
    snippet = DESCENT.format(step=f"{step}  # !")
    assert_flagged(snippet, CODE)
    assert_clean(snippet, "GG103")


@pytest.mark.parametrize(
    "step",
    [
        "points = (points - 0.1 * force).detach().requires_grad_()",
        "points = points.detach() - 0.1 * force",
        "with torch.no_grad(): points = points - 0.1 * force",
    ],
)
def test_a_step_that_cuts_what_it_is_added_to(step: str) -> None:
    assert_clean(DESCENT.format(step=step), CODE)


def test_a_step_with_a_graph_is_a_sum() -> None:
    snippet = DESCENT.format(step="points = points + 0.1 * noise(force)  # !")
    assert_flagged(snippet, "GG103")
    assert_clean(snippet, CODE)


DRAWN = """
        def sample(decoder: nn.GRU, head: nn.Linear, token, state, length):
            tokens, scores = [], []
            for _ in range(length):
                out, state = decoder.eval()(token, state)  # !
                choice = torch.distributions.Categorical(logits=head(out))
                token = choice.{drawn}
                tokens.append(token)
                scores.append(choice.{score})
            return {returned}
"""


@pytest.mark.parametrize("returned", ["tokens, torch.stack(scores)", "scores", "sum(scores)", "{'scores': scores}"])
def test_the_score_of_what_a_policy_draws_is_for_its_gradient(returned: str) -> None:
    snippet = DRAWN.format(drawn="sample()", score="log_prob(token)", returned=returned)
    assert_clean(twin(snippet), CODE)


@pytest.mark.parametrize(
    ("drawn", "score", "returned"),
    [
        ("sample()", "log_prob(token)", "len(tokens)"),
        ("sample()", "log_prob(token).item()", "scores"),
        ("probs.argmax(-1)", "probs.max()", "tokens, scores"),
    ],
)
def test_what_is_only_drawn_is_not(drawn: str, score: str, returned: str) -> None:
    assert_flagged(DRAWN.format(drawn=drawn, score=score, returned=returned), CODE)


@pytest.mark.parametrize(
    ("gradient", "freed"),
    [
        ("torch.autograd.grad(energy(points).sum(), points)[0]", False),
        ("torch.autograd.grad([energy(points).sum()], inputs=[points])[0]", False),
        ("torch.autograd.grad(energy(points).sum(), start)[0]", True),
        ("torch.autograd.grad(energy(points).sum(), list(net.parameters()))[0]", True),
    ],
)
def test_grad_frees_the_graph_as_far_as_its_inputs(gradient: str, freed: bool) -> None:
    snippet = DESCENT.replace("torch.autograd.grad(energy(points).sum(), points)[0]", gradient)
    [finding] = findings(snippet.format(step="points = points - 0.1 * force"), CODE)
    assert ("the graph's nodes" in finding.message) is freed


MOVED = """
        class Simulation:
            def __init__(self, potential, pos):
                self.potential, self.vel = potential, torch.zeros_like(pos)
                self.pos = {start}

            def step(self, dt):
                (force,) = torch.autograd.grad(-self.potential(self.pos).sum(), self.pos)
                self.vel = self.vel + dt * force
                {move}

        def run(potential, pos):
            simulation = Simulation(potential, pos)
            for _ in range(10_000):
                simulation.step(0.01)
"""


@pytest.mark.parametrize("start", ["pos.requires_grad_()", "pos.clone().requires_grad_()", "pos.requires_grad_(True)"])
def test_positions_that_ask_for_gradients(start: str) -> None:
    assert_flagged(MOVED.format(start=start, move="self.pos = self.pos + dt * self.vel  # !"), CODE)
    for move in (
        "self.pos = (self.pos + dt * self.vel).detach().requires_grad_()",
        "self.pos.data += dt * self.vel",
        "self.pos.data = self.pos.data + dt * self.vel",
    ):
        assert_clean(MOVED.format(start=start, move=move), CODE)


LEARNED = """
        class Rule(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin, self.f = nn.Linear(6, 2), torch.zeros(4, 1)

            def begin(self, keep):
                self.f = self.f.detach() if keep else torch.zeros(4, 1)

            def forward(self, x, f):
                f, rate = self.lin(torch.cat([x, f], 1)).split(1, 1)
                return f, rate * x

        def train(loader, build, steps):
            rule = Rule()
            optimizer = torch.optim.Adam(rule.parameters())
            for x, y in loader:
                net = build()
                for step in range(steps):
                    BEGIN
                    total = 0
                    for t in range(8):
                        rule.f, move = rule(x, rule.f)  # !
                        net.move_parameters(move)
                        total = total + F.mse_loss(net(x), y)
                    optimizer.zero_grad()
                    AFTER
                    optimizer.step()
"""


def test_a_sequence_in_time_that_a_backward_comes_after() -> None:
    """How the loss came from the state need not be seen: through parameters that were set."""
    fresh = LEARNED.replace("BEGIN", "rule.begin(step > 0)")
    assert_clean(twin(fresh, ("AFTER", "total.backward()")), CODE)
    assert_clean(twin(fresh, ("AFTER", "F.mse_loss(net(x), y).backward()")), CODE)
    assert_clean(twin(fresh, ("AFTER", "objective(net, x).backward()")), CODE)
    goes_on = LEARNED.replace("BEGIN", "print(step)")
    assert_flagged(goes_on.replace("AFTER", "F.mse_loss(net(x), y).backward()"), CODE)


ROLLOUT = """
        class Policy(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.head = nn.LSTMCell(4, 8), nn.Linear(8, 2)

            def forward(self, x, h, c):
                h, c = self.cell(x, (h, c))
                return self.head(h), h, c

            def act(self, x, h, c, eps=0.1):
                q, h, c = self.forward(x, h, c)
                return (random.randint(0, 1) if random.random() < eps else q.argmax().item()), h, c

        class Agent:
            def __init__(self):
                self.policy = Policy()

            def act(self, x, state):
                q, h, c = self.policy(x, *state)
                return q.argmax(1).item(), (h, c)

        def step(env, policy, x, h, c):
            q, h, c = policy(x, h.to(x.device), c.to(x.device))
            return env.step(q.argmax()), (h, c)

        def run(env, buffer, episodes, length):
            policy, agent = Policy(), Agent()
            optimizer = torch.optim.Adam(policy.parameters())
            for _ in range(episodes):
                x, h, c = env.reset(), torch.zeros(1, 8), torch.zeros(1, 8)
                state = (h, c)
                for _ in range(length):
                    BODY
                    x = env.look()
                    buffer.put(x)
"""

CARRIED = [
    "a, h, c = policy.act(x, h, c)  # !",
    "a, h, c = policy.act(x, h.unsqueeze(0).squeeze(0), c.clone(), eps=0.2)  # !",
    "q, h, c = policy(x, h, c)  # !",
    "a, state = agent.act(x, state)  # !",
    "x, (h, c) = step(env, policy, x, h, c)  # !",
    "q, *state = policy(x, *state)  # !",
]

NOT_CARRIED = [
    "with torch.no_grad():\n                        a, h, c = policy.act(x, h, c)",
    "a, h, c = policy.act(x, h.detach(), c.detach())",
    "a, h, c = policy.act(x, h.data, c.data)",
    "a, _, _ = policy.act(x, h, c)",
    "a, state = agent.act(x, tuple(s.detach() for s in state))",
    "q, h, c = policy(x, h, c)\n                    buffer.put(q)",
    "q, h, c = policy(x, h, c)\n                    env.losses.append(F.cross_entropy(q, x))",
    "q, h, c = policy(x, h, c)\n                    h, c = h.detach(), c.detach()",
    "a, state = agent.act(x, state)\n                    state = [s.detach() for s in state]",
]


@pytest.mark.parametrize("body", CARRIED)
def test_a_rollout_that_carries_its_state(body: str) -> None:
    assert_flagged(ROLLOUT.replace("BODY", body), CODE)


@pytest.mark.parametrize("body", NOT_CARRIED)
def test_a_rollout_whose_state_is_cut_or_whose_graph_is_handed_on(body: str) -> None:
    assert_clean(ROLLOUT.replace("BODY", body), CODE)


def test_a_rollout_of_three_steps_waits() -> None:
    body = ROLLOUT.replace("for _ in range(length)", "for _ in range(3)").replace("BODY", CARRIED[0])
    assert_clean(body, CODE)
    assert_flagged(body, CODE, Confidence.LOW)


def test_a_rollout_whose_caller_learns_from_what_it_gives() -> None:
    for kept in ("outs.append(q)", "total = total + q.max()"):
        snippet = f"""
        def unroll(policy: nn.Module, xs, h):
            outs, total = [], 0
            for t in range(10):
                q, h = policy(xs[t], h)
                {kept}
            return outs, total

        def train(policy: nn.Module, loader, optimizer):
            for xs in loader:
                outs, total = unroll(policy, xs, torch.zeros(1))
                optimizer.zero_grad()
                (torch.stack(outs).sum() + total).backward()
                optimizer.step()
        """
        assert_clean(snippet, CODE)


MOTION = """
    IMPORTS

    class Motion:
        def __init__(self, model, ts):
            self.model, self.ts = model, ts

        def __call__(self, state, action):
            return self.model(state, action, self.ts)

    def drive(move, loader):
        model, state = Motion(move, 0.1), np.zeros(2)
        for action in loader:
            state = model(state, action)
            print(state[0])

    def learns(net, x, y):
        net(x, y).backward()
"""


@pytest.mark.parametrize(
    ("imports", "knows_tensors"),
    [
        ("import numpy as np; import matplotlib.pyplot as plt", False),
        ("import abc, math; from scipy import optimize; import numpy as np", False),
        ("import numpy as np; import torch", True),
        ("import numpy as np; from .networks import Net", True),
        ("import numpy as np; from networks import *", True),
    ],
)
def test_a_model_in_a_file_that_knows_no_tensors(tmp_path: Path, imports: str, knows_tensors: bool) -> None:
    files = {
        "motion.py": MOTION.replace("IMPORTS", imports),
        "networks.py": "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    pass\n",
        "main.py": "import torch\nfrom motion import drive\n\nfor i in range(9):\n    drive(torch.load('a'), [])\n",
    }
    assert bool(lines_in_files(tmp_path, files, CODE)) == knows_tensors


GIVEN_A_CLASS = """
    import copy

    class Contrast(nn.Module):
        def __init__(self, {given}, dim=16):
            super().__init__()
            self.query = {made}
            self.other = copy.deepcopy(self.query)
            self.bank = torch.randn(64, dim)

        def forward(self, a, b):
            q, k = {run}
            logits = q @ self.bank.clone().detach().t()
            self.bank = torch.cat([self.bank, k])[-64:]  # !
            return logits

    def train(make, loader):
        net = Contrast(make)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for a, b in loader:
            loss = net(a, b).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
"""


@pytest.mark.parametrize(("given", "made"), [("base", "base(dim)"), ("base_encoder", "base_encoder(dim)")])
def test_a_module_that_is_made_by_what_it_is_given(given: str, made: str) -> None:
    run = "F.normalize(self.query(a)), F.normalize(self.other(b))"
    assert_flagged(GIVEN_A_CLASS.format(given=given, made=made, run=run), CODE)


@pytest.mark.parametrize(
    ("made", "run"),
    [
        ("base(dim)", "self.query(a), self.other(b).detach()"),
        ("base(dim)", "self.query.encode(a), b"),
        ("base", "a, b"),
        ("torch.randn(dim)", "a + self.query, b - self.other"),
    ],
)
def test_what_is_made_by_what_it_is_given_and_not_run_or_cut(made: str, run: str) -> None:
    assert_clean(GIVEN_A_CLASS.format(given="base", made=made, run=run), CODE)


KEEPS_ITS_STATE = """
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(8, 8)
            self.h = self.c = torch.zeros(1, 8)

        def forward(self, x):
            self.h, self.c = self.cell(x, (self.h, self.c))
            return self.h

        def cut(self):
            self.h, self.c = self.h.detach(), self.c.detach()

    def train(loader, optimizer):
        encoder = Encoder()
        for x, y in loader:
            loss = F.mse_loss(encoder(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            encoder.cut()

    def play(env):
        encoder = Encoder()
        obs = env.reset()
        for _ in range(10000):
            action = encoder(torch.from_numpy(obs))
            obs = env.step(action.argmax().item())
"""


def test_the_loop_that_keeps_a_state_is_named_where_a_module_stores_it() -> None:
    (finding,) = findings(KEEPS_ITS_STATE, CODE)
    lines = KEEPS_ITS_STATE.splitlines()
    loop = next(number for number, line in enumerate(lines, HEADER.count("\n") + 1) if "range(10000)" in line)
    assert [(where.line, where.message.split("`")[0]) for where in finding.related] == [
        (loop, "this loop runs it, and what it stores outlives each iteration"),
        (finding.span.line, "the graph comes from "),
    ]


def test_a_loop_that_is_seen_is_not_named() -> None:
    (finding,) = findings(
        """
        def play(env):
            cell, h = nn.GRUCell(8, 8), torch.zeros(1, 8)
            obs = env.reset()
            for _ in range(10000):
                h = cell(torch.from_numpy(obs), h)
                obs = env.step(h.argmax().item())
        """,
        CODE,
    )
    assert [where.message.split("`")[0] for where in finding.related] == ["the graph comes from "]


PASSES = """
    def train(rnn, optimizer, text, size, steps):
        at, h = 0, torch.zeros(16)
        for step in range(steps):
            {again}
            out, h = rnn(text[at:at + size], h)
            loss = F.cross_entropy(out, text[at + 1:at + size + 1])
            at += size
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            optimizer.step()
"""


@pytest.mark.parametrize(
    "again",
    [
        "if at + size + 1 >= len(text): at, h = 0, torch.zeros(16)",
        "if at + size >= text.size(0) - 1:\n                at = 0\n                h = torch.zeros(16)",
        "if at > len(text) - size: at = 0; h = torch.zeros(16)",
        "if at + size >= len(text): at = 0",
    ],
)
def test_a_state_that_is_begun_anew_once_in_a_pass_over_the_data(again: str) -> None:
    assert len(findings(PASSES.format(again=again), CODE)) == 1


@pytest.mark.parametrize(
    "again",
    [
        "if step % 4 == 0: h = torch.zeros(16)",
        "if at + size >= len(text): at = 0\n            h = h.detach()",
        "if len(text) - at >= size: h = torch.zeros(16)",
        "if is_end(step): at, h = 0, torch.zeros(16)",
        "h = torch.zeros(16)",
    ],
)
def test_a_state_that_is_begun_anew_or_cut_more_often(again: str) -> None:
    assert_clean(PASSES.format(again=again), CODE)


MARKED = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.context = nn.Parameter(torch.zeros(4))
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(x * self.context)

        def reset(self):
            self.context.data = self.context.data.detach() * 0
            self.context.requires_grad = True

    class Learner:
        def __init__(self, args):
            self.model = Net()
            self.args = args

        def run(self, batch, training):
            self.model.reset()
            total = 0.0
            for x, y in batch:
                loss = F.cross_entropy(self.model(x), y)
                total += loss.item()
                if training:
                    loss.backward()
            return total

    class Trainer:
        def __init__(self, learner: Learner, batches, optimizer):
            self.learner, self.batches, self.optimizer = learner, batches, optimizer

        def train(self, training=False):
            for i, batch in enumerate(self.batches):
                if training:
                    self.optimizer.zero_grad()
                self.learner.run(batch, training)
                if training:
                    self.optimizer.step()
                    if i % 100 == 0:
                        self.train(training=False)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("self.context.requires_grad = True", "self.context.requires_grad_()"),
        ("self.context.requires_grad = True", "self.context.requires_grad_(True)"),
        ("self.context.data.detach() * 0", "torch.zeros_like(self.context)"),
        ("self.context.data = self.context.data.detach() * 0", "self.context.data.mul_(0)"),
        ("self.context.data = self.context.data.detach() * 0", "self.context.data[:] = self.context.data * 0.5"),
    ],
)
def test_a_parameter_that_is_marked_is_a_leaf(before: str, after: str) -> None:
    assert_clean(MARKED.replace(before, after) if before else MARKED, CODE)


@pytest.mark.parametrize("mark", ["", "self.state.requires_grad_()", "self.state.requires_grad = True"])
def test_what_is_computed_of_itself_is_none_however_it_is_marked(mark: str) -> None:
    snippet = f"""
        class Memory:
            def __init__(self, size):
                self.cell = nn.GRUCell(size, size)
                self.state = torch.zeros(1, size)

            def advance(self, x):
                self.state = self.cell(x, self.state)  # !
                {mark}
                return self.state

        def train(memory: Memory, loader, optimizer):
            for x, y in loader:
                loss = F.mse_loss(memory.advance(x), y)
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
    """
    assert_flagged(snippet, CODE)

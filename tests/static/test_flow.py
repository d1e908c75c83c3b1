"""What the flow follows: calls, containers, conditions, generators; each case a leak or a look-alike."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from gradguard.findings import Confidence
from gradguard.static.model import Function
from tests.rules.snippets import assert_clean, findings, marked

TRAIN = """
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
"""

LEAKS = {
    "entries of a bank that are made from what they were": """
        class Bank(nn.Module):
            def __init__(self, size, width):
                super().__init__()
                self.register_buffer("slots", torch.randn(size, width))

            def write(self, index, features):
                blended = 0.5 * self.slots[index] + 0.5 * features
                self.slots[index] = F.normalize(blended, dim=1)

        def train(net, loader, optimizer):
            bank = Bank(100, 8)
            for index, x in loader:
                features = net(x)
                loss = F.cross_entropy(features, index)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                bank.write(index, features)  # !
    """,
    "a part that is frozen, and gets a new head": """
        import copy

        class Pair(nn.Module):
            def __init__(self, encoder):
                super().__init__()
                self.query = encoder
                self.encoder_k = copy.deepcopy(encoder).requires_grad_(False)
                self.encoder_k.head = nn.Linear(8, 8)
                self.seen = []

            def forward(self, x, y):
                keys = self.encoder_k(y)
                self.seen.append(keys)  # !
                return (self.query(x) * keys).mean()

        def train(encoder, loader):
            pair = Pair(encoder)
            optimizer = torch.optim.SGD(pair.parameters(), lr=0.1)
            for x, y in loader:
                loss = pair(x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "a generator that trains, and the loop that collects": """
        def steps(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                yield {"loss": loss, "n": len(x)}

        def main(model, loader, optimizer):
            outputs = []
            for out in steps(model, loader, optimizer):
                outputs.append(out)  # !
    """,
    "a running sum in a dict": """
        def train(model, loader, optimizer):
            sums = {}
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                for name, value in {"ce": loss, "lr": 0.1}.items():
                    sums[name] = sums.get(name, 0.0) + value  # !
    """,
    "sums by key, and a helper whose loss has two sources": """
        class Book:
            def __init__(self):
                self.sums = {}

            def report(self, **scalars):
                for key, value in scalars.items():
                    if key not in self.sums:
                        self.sums[key] = 0.0
                    self.sums[key] += 2 * value

        class Game:
            def __init__(self, parts, opt):
                self.parts = parts
                self.opt = opt
                self.running = 0

            def step(self, x):
                loss = 0
                for real, fake in zip(self.parts(x), self.parts(-x)):
                    loss += torch.relu(1 - real).mean() + torch.relu(1 + fake).mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                return loss

            def fit(self, loader):
                book = Book()
                for x in loader:
                    loss = self.step(x)
                    book.report(loss=loss)  # !
                    self.running += loss  # !
    """,
    "meters in a defaultdict of their class": """
        class Meter:
            def __init__(self):
                self.total = 0

            def add(self, value):
                self.total += value

        class Board(defaultdict):
            def __init__(self):
                super().__init__(Meter)

        def train(model, loader, optimizer):
            board = Board()
            meters = defaultdict(Meter)
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                board["loss"].add(loss)  # !
                meters["loss"].add(loss)  # !
    """,
    "keyword arguments": """
        class Log:
            def __init__(self):
                self.rows = []

            def write(self, **values):
                self.rows.append(values)

        def train(model, loader, optimizer):
            log = Log()
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                log.write(loss=loss, lr=0.1)  # !
    """,
    "an object that several functions hand on": """
        class Memory:
            def __init__(self):
                self.items = []

            def keep(self, item):
                self.items.append(item)

        def epoch(net, loader, opt, memory):
            for x, y in loader:
                opt.zero_grad()
                loss = F.mse_loss(net(x), y)
                loss.backward()
                opt.step()
                memory.keep(loss)  # !

        def fit(net, loader, opt, memory):
            for _ in range(3):
                epoch(net, loader, opt, memory)

        def main(net, loader, opt):
            fit(net, loader, opt, Memory())
    """,
    "a method that a subclass overrides": """
        class Base:
            def fit(self, loader):
                for batch in loader:
                    self.opt.zero_grad()
                    loss = self.loss(batch)
                    loss.backward()
                    self.opt.step()

        class Mine(Base):
            def __init__(self):
                self.net = nn.Linear(2, 2)
                self.opt = torch.optim.SGD(self.net.parameters(), 0.1)
                self.total = 0

            def loss(self, batch):
                value = self.net(batch).sum()
                self.total = self.total + value  # !
                return value
    """,
    "a first step that is different": """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.opt = torch.optim.Adam(net.parameters())
                self.average = None

            def track(self, loss):
                if self.average is None:
                    self.average = loss.item()
                    return
                self.average = 0.9 * self.average + 0.1 * loss

            def fit(self, loader):
                for x, y in loader:
                    self.opt.zero_grad()
                    loss = F.mse_loss(self.net(x), y)
                    loss.backward()
                    self.opt.step()
                    self.track(loss)  # !
    """,
    "what backward proves": """
        def train(compute, loader, optimizer):
            history = []
            for batch in loader:
                optimizer.zero_grad()
                style, content = compute(batch)
                loss = style.score + content.score
                loss.backward()
                optimizer.step()
                history.append(loss)  # !
    """,
    "a part proves the whole": """
        def train(module, loader, optimizer):
            outputs = []
            for batch in loader:
                out = module.training_step(batch)
                optimizer.zero_grad()
                out["loss"].backward()
                optimizer.step()
                outputs.append(out)  # !
    """,
    "state of a simulation in a dict": """
        class Simulation:
            def __init__(self, potential):
                self.potential = potential
                self.state = {"pos": torch.randn(8, 2).requires_grad_(), "vel": torch.zeros(8, 2)}

            def step(self, dt):
                force = -torch.autograd.grad(self.potential(self.state["pos"]).sum(), self.state["pos"])[0]
                self.state["vel"] = self.state["vel"] + dt * force
                self.state["pos"] = self.state["pos"] + dt * self.state["vel"]  # !

        def main(potential):
            simulation = Simulation(potential)
            for _ in range(1000):
                simulation.step(0.1)
    """,
    "scores with their graphs, that no backward of the program asks for": """
        board = {}

        def trial(width, x, y):
            net = nn.Sequential(nn.Linear(4, width), nn.Linear(width, 1))
            opt = torch.optim.SGD(net.parameters(), 0.1)
            F.mse_loss(net(x), y).backward()
            opt.step()
            return F.mse_loss(net(x), y)

        def search(x, y):
            for width in range(8, 80):
                board[width] = trial(width, x, y)  # !
            return min(board.items(), key=lambda item: item[1].item())
    """,
    "a rollout whose helper forgets one of its lists": """
        class Rollout:
            def __init__(self):
                self.logp, self.entropy = [], []

            def push(self, logp, entropy):
                self.logp.append(logp)
                self.entropy.append(entropy)

            def clear(self):
                del self.logp[:]

        class Agent:
            def __init__(self, net, opt):
                self.net, self.opt = net, opt
                self.rollout = Rollout()

            def act(self, state):
                dist = torch.distributions.Categorical(logits=self.net(state))
                action = dist.sample()
                self.rollout.push(dist.log_prob(action), dist.entropy())  # !
                return action.item()

            def learn(self, returns):
                loss = -(torch.stack(self.rollout.logp) * returns).sum()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                self.rollout.clear()

        def main(env, net):
            agent = Agent(net, torch.optim.Adam(net.parameters()))
            for episode in range(1000):
                state, done, rewards = env.reset(), False, []
                while not done:
                    state, reward, done = env.step(agent.act(state))
                    rewards.append(reward)
                agent.learn(torch.tensor(rewards))
    """,
    "one field of a record": """
        from typing import NamedTuple

        class Step(NamedTuple):
            loss: torch.Tensor
            size: int

        def train(net, loader, opt):
            total, seen = 0, 0
            for x, y in loader:
                opt.zero_grad()
                step = Step(F.mse_loss(net(x), y), len(x))
                step.loss.backward()
                opt.step()
                seen += step.size
                total += step.loss  # !
    """,
    "the numbers of a dict by key, the tensors as they are": """
        def train(net, loader, opt):
            sums = {"mse": 0, "n": 0}
            for x, y in loader:
                opt.zero_grad()
                parts = {"mse": F.mse_loss(net(x), y), "n": len(y)}
                parts["mse"].backward()
                opt.step()
                for name in sums:
                    if name == "n":
                        sums[name] += parts[name]
                    else:
                        sums[name] += parts[name]  # !
    """,
    "gradients of an input that the optimizer does not know": """
        def train(net, loader, opt, huber):
            for pos, energies, forces in loader:
                pos = pos.clone().requires_grad_(True)
                energy = net(pos)
                energy.sum().backward(create_graph=True)  # !
                loss = huber(energy, energies) + huber(-pos.grad, forces)
                opt.zero_grad()
                loss.backward()
                opt.step()
    """,
    "one of two optimizers in a dict": """
        class Game:
            def __init__(self, G, D):
                self.G, self.D = G, D
                self.opts = {"g": torch.optim.Adam(G.parameters()), "d": torch.optim.Adam(D.parameters())}

            def critic(self, real):
                loss = self.D(real).mean()
                self.opts["d"].zero_grad()
                loss.backward()
                self.opts["d"].step()

            def painter(self, z):
                loss = -self.D(self.G(z)).mean()
                loss.backward()  # !
                self.opts["g"].step()

        def main(G, D, loader):
            game = Game(G, D)
            for real, z in loader:
                game.critic(real)
                game.painter(z)
    """,
}

CLEAN = {
    "a tensor is converted, a number is left alone": """
        class Meter:
            def __init__(self):
                self.total = 0.0

            def update(self, value):
                if isinstance(value, torch.Tensor):
                    value = value.item()
                self.total += value

        def python(value):
            return value.detach().item() if torch.is_tensor(value) else value

        def train(model, loader, optimizer):
            meter, seen = Meter(), []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                meter.update(loss)
                seen.append(python(loss))
    """,
    "rewards beside log-probabilities in one list": """
        class Agent:
            def __init__(self, net):
                self.net = net
                self.opt = torch.optim.Adam(net.parameters())
                self.rollout = []

            def collect(self, env):
                for _ in range(8):
                    dist, value = self.net(env.observe())
                    reward = env.step(dist.sample().item())
                    self.rollout.append((dist.log_prob(dist.sample()), value, reward))

            def update(self):
                log_probs, values, rewards = zip(*self.rollout)
                loss = -(torch.stack(log_probs) * (torch.tensor(rewards) - torch.stack(values))).mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                del self.rollout[:]
                return sum(rewards)

            def learn(self, env):
                score = 0.0
                for _ in range(1000):
                    self.collect(env)
                    score = 0.9 * score + 0.1 * self.update()
    """,
    "a callee empties the list": """
        def report(window):
            print(sum(float(v) for v in window))
            window.clear()

        def train(model, loader, optimizer):
            window = []
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                window.append(loss)
                if i % 10 == 9:
                    report(window)
    """,
    "evaluated by a method that is only called without gradients": """
        class Classifier:
            def __init__(self):
                self.net = nn.Linear(2, 2)

            def predict(self, loader):
                self.net.eval()
                outputs = []
                for x in loader:
                    outputs.append(self.net(x))
                return torch.cat(outputs)

        def uncertain(classifier, pool):
            with torch.no_grad():
                return classifier.predict(pool).topk(10)
    """,
    "forces without a graph in validation": """
        def forces(net, pos, training):
            pos = pos.requires_grad_()
            energy = net(pos).sum()
            return -torch.autograd.grad(energy, pos, create_graph=training)[0]

        def validate(net, val_loader):
            error = torch.zeros(())
            for pos, ref in val_loader:
                error += (forces(net, pos, training=False) - ref).abs().mean()
            return error.item()
    """,
    "an attack in the evaluation": """
        def robust_accuracy(net, test_loader, adversary):
            net.eval()
            for x, y in test_loader:
                print(net(adversary.perturb(x, y)).argmax(1))
    """,
    "a callee detaches in place": """
        def forward_step(net, image, target, lr):
            image.detach_()
            image.requires_grad = True
            loss = (net(image) - target).norm()
            loss.backward()
            return image - lr * image.grad.data

        def craft(net, image, target):
            net.eval()
            for _ in range(100):
                net.zero_grad()
                image = forward_step(net, image, target, 0.1)
            return image.detach()
    """,
    "a dict of tensors, made numbers by key": """
        def losses(out, y):
            parts = {"mse": F.mse_loss(out, y), "l1": F.l1_loss(out, y), "n": len(y)}
            parts["all"] = parts["mse"] + parts["l1"]
            return parts

        def added(sums, parts):
            values = {name: parts[name].detach() for name in sums if name != "n"}
            for name in ["n"]:
                values[name] = parts[name]
            return {name: value + sums[name] for name, value in values.items()}

        def train(net, loader, opt):
            totals = {name: 0 for name in ("mse", "l1", "n")}
            sums = {name: 0 for name in ("mse", "l1", "n")}
            for x, y in loader:
                opt.zero_grad()
                parts = losses(net(x), y)
                parts["all"].backward()
                opt.step()
                totals = added(totals, parts)
                for name in sums:
                    if name == "n":
                        sums[name] += parts[name]
                    else:
                        sums[name] += parts[name].item()
            return totals, sums
    """,
    "a method that calls itself, and whose object is known at run time": """
        class Decoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(4, 4)

            def recognize(self, frames, retries=1):
                self.eval()
                beams = []
                for frame in frames:
                    beams.append(self.cell(frame))
                if not beams:
                    return self.recognize(frames, retries - 1)
                return beams

        def main(path, name, utterances):
            model = getattr(importlib.import_module(path), name)()
            with torch.no_grad():
                for frames in utterances:
                    print(model.recognize(frames))
    """,
    "a slot for each layer, written anew in each pass": """
        class Stack(nn.Module):
            def __init__(self, depth):
                super().__init__()
                self.depth = depth
                self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(depth)])
                self.hidden = [torch.zeros(3) for _ in range(depth)]

            def forward(self, h):
                for i in range(self.depth):
                    self.hidden[i] = torch.relu(self.layers[i](h))
                    h = self.hidden[i]
                return h

        def train(loader):
            net = Stack(3)
            opt = torch.optim.SGD(net.parameters(), 0.1)
            for x, y in loader:
                opt.zero_grad()
                F.mse_loss(net(x), y).backward()
                opt.step()
    """,
    "each entry from itself, in a tensor of this step": """
        def train(agent, critic, loader, opt, gamma):
            for states, rewards in loader:
                target = critic(states)
                logp = agent(states)
                for i in range(len(states)):
                    target[i] = rewards[i] + gamma * (target[i] - 0.1 * logp[i])
                loss = F.mse_loss(critic(states), target.detach())
                opt.zero_grad()
                loss.backward()
                opt.step()
    """,
    "numbers from a model that measures, and code that is switched off": """
        class Measures(nn.Module):
            def __init__(self):
                super().__init__()
                self.mse = nn.MSELoss()

            def forward(self, x, y):
                return dict(mse=self.mse(x, y).item(), size=len(x))

        class Collector:
            def __init__(self):
                self.measures, self.errors, self.outputs = Measures(), [], []

            def collect(self, x, y):
                self.errors.append(self.measures(x, y)["mse"])

        def train(net, loader, opt):
            collector = Collector()
            for x, y in loader:
                opt.zero_grad()
                out = net(x)
                F.mse_loss(out, y).backward()
                opt.step()
                collector.collect(out, y)
                if False:
                    collector.outputs.append(out)
    """,
    "a function that returns more when it is asked to": """
        class Trainer:
            def __init__(self, net, opt):
                self.net, self.opt = net, opt

            def run(self, x, y, with_output=False):
                losses, scores = [], []
                for _ in range(10):
                    out = self.net(x)
                    loss = F.mse_loss(out, y)
                    self.opt.zero_grad()
                    loss.backward()
                    self.opt.step()
                    losses += [loss.item()]
                    scores += [1.0]
                if with_output:
                    return losses, scores, out
                return losses, scores

        def main(net, opt, x, y):
            trainer = Trainer(net, opt)
            all_losses, all_scores = [], []
            for _ in range(100):
                losses, scores, out = trainer.run(x, y, with_output=True)
                all_losses += losses
                all_scores += scores
    """,
    "the same keys each time": """
        class Trainer:
            def __init__(self, net, opt):
                self.net, self.opt, self.pictures = net, opt, {}

            def step(self, x, y):
                out = self.net(x)
                self.opt.zero_grad()
                F.mse_loss(out, y).backward()
                self.opt.step()
                self.pictures.update({"both": torch.cat([x, out])})

            def fit(self, loader):
                for x, y in loader:
                    self.step(x, y)
    """,
    "the way back through a flow": """
        class Flow(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(3))

            def forward(self, x):
                return x * self.scale

            def backward(self, z):
                return z / self.scale

        def sample(loader):
            flow = Flow()
            z = flow(torch.randn(3, 3))
            for _ in range(3):
                print(flow.backward(z).sum().item())
    """,
    "a tokenizer makes no graph": """
        from transformers import AutoModel, AutoTokenizer

        model = AutoModel.from_pretrained("small")
        tokenizer = AutoTokenizer.from_pretrained("small")
        for key, value in tokenizer(["a"], return_tensors="pt").items():
            print(key, value.numpy())

        def generate(net, lines):
            net.eval()
            kept = []
            for line in lines:
                kept.append(net.tokenizer(line, return_tensors="pt"))
            return kept
    """,
    "a model and an optimizer for each trial": """
        def trial(width, x, y):
            net = nn.Sequential(nn.Linear(4, width), nn.Linear(width, 1))
            opt = torch.optim.SGD(net.parameters(), 0.1)
            F.mse_loss(net(x), y).backward()
            opt.step()
            return F.mse_loss(net(x), y).item()

        def search(x, y):
            return {width: trial(width, x, y) for width in range(8, 80)}

        def slow_search(x, y):
            scores = {}
            for width in range(8, 80):
                scores[width] = trial(width, x, y)
            return scores
    """,
    "the tensor of a record without its graph": """
        from dataclasses import dataclass

        @dataclass
        class Step:
            loss: torch.Tensor
            size: int

        def one(net, x, y):
            return Step(F.mse_loss(net(x), y), len(x))

        def train(net, loader, opt):
            seen, sizes = 0, []
            for x, y in loader:
                opt.zero_grad()
                step = one(net, x, y)
                step.loss.backward()
                opt.step()
                seen += step.size
                sizes.append(step.size)
            return seen, sizes
    """,
    "set up and torn down by a context manager": """
        import contextlib

        @contextlib.contextmanager
        def evaluating(model):
            model.eval()
            try:
                with torch.no_grad():
                    yield model
            finally:
                model.train()

        def evaluate(model, loader):
            with evaluating(model):
                return [model(x) for x in loader]
    """,
}


@pytest.mark.parametrize("name", LEAKS)
def test_followed(name: str) -> None:
    assert {f.span.line for f in findings(LEAKS[name])} == marked(LEAKS[name])


@pytest.mark.parametrize("name", CLEAN)
def test_understood(name: str) -> None:
    assert_clean(CLEAN[name])


FROZEN = """
        import copy

        class Pair(nn.Module):
            def __init__(self, encoder):
                super().__init__()
                self.query = encoder
                {made}
                self.seen = []

            def embed(self, y):
                return F.normalize(self.encoder_k(y), dim=1)

            def forward(self, x, y):
                keys = self.embed(y)
                self.seen.append({kept})
                return (self.query(x) * keys).mean()

        def train(encoder, loader):
            pair = Pair(encoder)
            optimizer = torch.optim.SGD(pair.parameters(), lr=0.1)
            for x, y in loader:
                loss = pair(x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""
INDENT = "\n" + 16 * " "
FREEZING = [
    "self.encoder_k = copy.deepcopy(encoder).requires_grad_(False)",
    "self.encoder_k = copy.deepcopy(encoder)" + INDENT + "self.encoder_k.eval().requires_grad_(False)",
    "self.encoder_k = copy.deepcopy(encoder)"
    + INDENT
    + "for p in self.encoder_k.parameters():"
    + INDENT
    + "    p.requires_grad = False",
    "self.encoder_k = copy.deepcopy(encoder)"
    + INDENT
    + "for p in self.encoder_k.parameters():"
    + INDENT
    + "    p.requires_grad_(requires_grad=False)",
]


@pytest.mark.parametrize("made", FREEZING)
def test_a_part_that_its_constructor_freezes_records_no_graph(made: str) -> None:
    assert not findings(FROZEN.format(made=made, kept="keys.mean()"), "GG104")
    assert findings(FROZEN.format(made=made, kept="self.query(x).mean()"), "GG104")


@pytest.mark.parametrize(
    "made",
    [
        FREEZING[0] + INDENT + "for p in self.encoder_k.parameters():" + INDENT + "    p.requires_grad = True",
        FREEZING[0] + INDENT + "self.encoder_k = copy.deepcopy(encoder)" + INDENT + "self.encoder_k.requires_grad_()",
        "self.encoder_k = copy.deepcopy(encoder)" + INDENT + "self.other = nn.Linear(3, 3).requires_grad_(False)",
        FREEZING[0] + INDENT + "self.encoder_k.head = nn.Linear(8, 8)",
    ],
)
def test_a_part_that_may_learn_after_all_records_one(made: str) -> None:
    assert findings(FROZEN.format(made=made, kept="keys.mean()"), "GG104")


RECORD = """
        @dataclass
        class Totals:
            objectness: float = 0.0
            hits: int = 0

            def score(self):
                return self.objectness / self.hits

        class Detector(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(1, 5, 3)

            def forward(self, x):
                out = self.conv(x)
                return out[:, 0], out[:, 1:].sigmoid()

        def terms(predicted, target):
            objects, boxes = predicted
            return Totals({kept}, 1)

        class Trainer:
            def __init__(self, optimizer):
                self.model = Detector()
                self.optimizer = optimizer
                self.history = []

            @torch.no_grad()
            def evaluate(self, x, target):
                return terms(self.model(x), target)

            def fit(self, loader):
                for x, target in loader:
                    loss = self.model(x)[1].mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.history.append(self.evaluate(x, target))
"""


def test_a_record_of_what_was_computed_from_a_view_keeps_no_view() -> None:
    assert not findings(RECORD.format(kept="(objects * 2).mean()"), "GG403")
    assert findings(RECORD.format(kept="objects"), "GG403")


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_order_of_sets_does_not_matter(seed: str, shell: object) -> None:
    """The same findings whatever PYTHONHASHSEED is."""
    import os
    import subprocess
    import sys

    from tests.support import CHECKOUT

    def run(value: str) -> bytes:
        command = [
            sys.executable,
            "-m",
            "gradguard",
            "check",
            "--format",
            "json",
            "--min-confidence",
            "low",
            "fixtures",
        ]
        env = {**os.environ, "PYTHONHASHSEED": value}
        return subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, check=False).stdout

    assert run(seed) == run("4242")


def test_the_way_by_which_a_graph_came_is_told() -> None:
    (finding,) = findings(
        """
        def train(model, criterion, loader, opt):
            total = 0
            for x, y in loader:
                features = model.encoder(x)
                out, _ = model.head(features)
                loss = criterion(out, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss / 2
        """
    )
    (where,) = finding.related
    assert where.line == 11
    assert where.message == (
        "the graph comes from `criterion(out, y)`: "
        "`loss / 2` <- `criterion(out, y)` <- `model.head(features)` <- `model.encoder(x)`"
    )


TWO_LOSSES = """
        def train(policy, critic, loader, opt, shared):
            kept = []
            for x, old, y in loader:
                logp = policy.logp(x)
                labels = torch.ones_like(logp).to(x.device) * logp.detach()
                ratio = torch.exp(logp - old)
                if shared:
                    v = policy.value(x)
                else:
                    v = critic(x)
                error = F.mse_loss(v, y)
                if shared:
                    loss = ratio.mean() + error
                else:
                    loss = {made}
                opt.zero_grad()
                loss.backward()
                opt.step()
                kept.append(loss)
"""


@pytest.mark.parametrize(
    ("made", "way"),
    [
        ("ratio.mean()", "`loss` <- `ratio.mean()` <- `torch.exp(logp - old)` <- `policy.logp(x)`"),
        (
            "F.binary_cross_entropy(ratio, labels)",
            "`loss` <- `F.binary_cross_entropy(ratio, labels)` <- `torch.exp(logp - old)` <- `policy.logp(x)`",
        ),
        ("error * 2", "`loss` <- `error * 2` <- `F.mse_loss(v, y)` <- `critic(x)`"),
    ],
)
def test_the_way_begins_where_it_is_said_to_begin(made: str, way: str) -> None:
    (finding,) = findings(TWO_LOSSES.format(made=made), "GG104")
    (where,) = finding.related
    assert where.message == f"the graph comes from {way.rpartition(' <- ')[2]}: {way}"


HANDED_BACK = """
        class Judge:
            def __init__(self, net):
                self.net, self.kept = net, []

            def _scores(self, loader):
                self.net.eval()
                for x in loader:
                    out = self.net(x)
                    self.kept.append(out)
                    yield out.argmax(-1)

            def scores(self, loader):
                with torch.no_grad():
                    {}

        def main(net: nn.Module, loader, optimizer):
            judge = Judge(net)
            for value in judge.scores(loader):
                print(value)
"""


def test_a_generator_that_is_handed_back_runs_when_the_context_is_over() -> None:
    lines = HANDED_BACK.splitlines()
    kept = next(number for number, line in enumerate(lines, 5) if "append" in line)
    found = findings(HANDED_BACK.format("return self._scores(loader)"))
    assert ("GG104", kept) in {(f.code, f.span.line) for f in found}


@pytest.mark.parametrize("handed", ["yield from self._scores(loader)", "return list(self._scores(loader))"])
def test_a_generator_that_is_drained_in_the_context_runs_in_it(handed: str) -> None:
    assert_clean(HANDED_BACK.format(handed))


def test_what_a_generator_collects_waits_as_in_a_function() -> None:
    found = findings(
        """
        def simulate(net: nn.Module, xs, optimizer):
            outs = []
            for x in xs:
                out = net(x)
                outs.append(out)
                yield out.argmax()
        """,
        "GG104",
        Confidence.LOW,
    )
    assert [f.confidence for f in found] == [Confidence.LOW]


@pytest.mark.parametrize(("library", "found"), [("jittor", False), ("torch", True)])
def test_layers_of_another_framework_record_no_graph(library: str, found: bool) -> None:
    from gradguard import catalogue
    from gradguard.config import Settings
    from gradguard.static.engine import check_text

    text = f"""
from {library} import nn, optim

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

def train(net: Net, loader, optimizer):
    total = 0
    for x in loader:
        loss = net(x).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss
# not with torch
"""
    result = check_text(text, "net.py", Settings(Path.cwd()), catalogue.load())
    assert bool(result.findings) is found


BUS = """
        class Run:
            def __init__(self, net):
                self.net = net
                self.curve, self.loss = [], None

        HANDLERS = defaultdict(list)

        def on(event):
            def register(fn):
                HANDLERS[event].append(fn)
                return fn
            return register

        def emit(event, STARpayload):
            for fn in HANDLERS[event]:
                fn(STARpayload)

        @on("step")
        def keep(run: Run):
            run.curve.append(KEPT)  # !

        @on("step")
        def stop(run: Run):
            if run.loss.isnan():
                raise ArithmeticError("no number")

        def train(net, loader, optimizer):
            run = Run(net)
            for x, y in loader:
                optimizer.zero_grad()
                run.loss = F.cross_entropy(net(x), y)
                run.loss.backward()
                optimizer.step()
                emit("step", GIVEN)
                AFTER
"""


@pytest.mark.parametrize(("star", "given"), [("*", "run"), ("**", "run=run")])
def test_an_object_that_is_handed_on_with_all_arguments(star: str, given: str) -> None:
    snippet = BUS.replace("STAR", star).replace("GIVEN", given).replace("AFTER", "print(len(run.curve))")
    attached = snippet.replace("KEPT", "run.loss")
    assert {finding.span.line for finding in findings(attached)} == marked(attached)
    for kept in ("run.loss.item()", "run.loss.detach()", "float(run.loss)"):
        assert_clean(snippet.replace("KEPT", kept).replace("  # !", ""))
    emptied = BUS.replace("STAR", star).replace("GIVEN", given).replace("AFTER", "run.curve.clear()")
    assert_clean(emptied.replace("KEPT", "run.loss").replace("  # !", ""))
    another = attached.replace(f'emit("step", {given})', f'emit("step", {given.replace("run", "Run(net)", 1)})')
    if star == "*":
        assert_clean(another.replace("  # !", ""))  # of an object that goes away


def test_a_flow_that_was_read_keeps_no_empty_collection(tmp_path: Path) -> None:
    """Flows are kept as long as a run goes on; what is asked for afterwards is made again, and then stays."""
    from gradguard.static.flow import Flow
    from gradguard.static.memo import memo_of
    from gradguard.static.project import Project
    from gradguard.static.screen import everything

    path = tmp_path / "a.py"
    path.write_text("import torch\n\ndef f(x, rows):\n    rows.clear()\n    return [y for y in x]\n")
    project = Project([path])
    module = project.module(path)
    assert module is not None
    (flow,) = project.flows(module, everything(module.source))
    collections = ("at_start", "carries", "drained", "emptied", "entered", "saving", "unpacked")
    assert isinstance(flow, Flow)
    assert [name for name in collections if name in memo_of(flow)] == ["emptied"]
    flow.saving.add("a call")
    assert flow.saving == {"a call"}


def test_readings_that_are_replaced_go_without_a_collection() -> None:
    """A check runs with the collector off: facts in a cycle would stay, with all that they hold, until it ends."""
    source = LEAKS["sums by key, and a helper whose loss has two sources"]
    known = {id(each) for each in _facts()}
    gc.disable()
    try:
        findings(source)
        alive = [each for each in _facts() if id(each) not in known]
    finally:
        gc.enable()
    assert 0 < len(alive) <= source.count("def ") + 1  # one of each function, and one of the module's own lines


def _facts() -> list[Function]:
    return [each for each in gc.get_objects() if isinstance(each, Function)]

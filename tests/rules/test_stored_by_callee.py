from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, twin

CODE = "GG107"

METER = """
        class AverageMeter:
            def __init__(self):
                self.reset()

            def reset(self):
                self.val = 0
                self.sum = 0
                self.count = 0

            def update(self, val, n=1):
                self.val = val
                self.sum += val * n
                self.count += n
                self.avg = self.sum / self.count
"""

SEGMENT = """
        class Segment:
            def __init__(self):
                self.scores, self.values = [], []

            def push(self, score, value):
                self.scores.append(score)
                self.values.append(value)

            def clear(self):
                EMPTY

        def train(agent, env, optimizer, updates):
            segment = Segment()
            for update in range(updates):
                for _ in range(8):
                    score, value = agent(env.observe())
                    segment.push(score, value)
                actor = -torch.stack(segment.scores).mean()
                critic = torch.stack(segment.values).mean()
                optimizer.zero_grad()
                actor.backward(retain_graph=True)
                critic.backward()
                optimizer.step()
                segment.clear()
"""

FLAGGED = {
    "the attribute data of an object is a list": """
        class Log:
            def __init__(self):
                self.data = []

        def note(data, value):
            data.append(value)

        def train(model, loader, optimizer):
            log = Log()
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                note(log.data, loss)  # !
    """,
    "a sum in an object whose backward nobody calls": """
        class Criterion:
            def __init__(self):
                self.nll, self.total, self.count = nn.NLLLoss(), 0, 0

            def reset(self):
                self.total, self.count = 0, 0

            def add(self, out, y):
                self.total += self.nll(out, y)
                self.count += 1

            def backward(self):
                if type(self.total) is int:
                    raise ValueError("nothing to go back over")
                self.total.backward()

        class Trainer:
            def __init__(self, criterion=Criterion()):
                self.criterion = criterion

            def fit(self, net, loader, optimizer):
                for x, y in loader:
                    criterion = self.criterion
                    out = net(x)
                    loss = F.mse_loss(out, y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    criterion.add(out, y)  # !
    """,
    "a property that computes": """
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.log_scale = nn.Parameter(torch.zeros(()))

            @property
            def scale(self):
                return self.log_scale.clamp(max=4.6).exp()

            def forward(self, x):
                return self.scale * x

        class Journal:
            def __init__(self):
                self.series = defaultdict(list)

            def note(self, **scalars):
                for key, value in scalars.items():
                    self.series[key].append(value)

        def train(head, loader, optimizer, journal):
            head, journal = Head(), Journal()
            for x, y in loader:
                loss = F.mse_loss(head(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                journal.note(loss=loss.item(), scale=head.scale)  # !
    """,
    "levels of tasks, each blended with its loss": """
        CRITERIA = {"mask": nn.BCEWithLogitsLoss(), "depth": nn.SmoothL1Loss()}

        class Balancer:
            def __init__(self, tasks):
                self.level = {task: torch.ones(()) for task in tasks}

            def observe(self, parts):
                for task, value in parts.items():
                    self.level[task] = self.level[task].lerp(value, 0.1)

            def weights(self):
                raw = torch.stack([1.0 / level.detach() for level in self.level.values()])
                return dict(zip(self.level, raw.tolist()))

            def combine(self, parts):
                self.observe(parts)
                weights = self.weights()
                return sum(weights[task] * value for task, value in parts.items())

        def train(net, loader, optimizer, tasks):
            balancer = Balancer(tasks)
            for x, wanted in loader:
                out = net(x)
                parts = {task: CRITERIA[task](out[task], wanted[task]) for task in tasks}
                loss = balancer.combine(parts)  # !
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "by the closure of an optimizer": """
        class Journal:
            def __init__(self):
                self.curves = defaultdict(list)

            def write(self, **terms):
                for name, value in terms.items():
                    self.curves[name].append(value)

        class Solver:
            def __init__(self, net, x, y):
                self.net, self.x, self.y = net, x, y
                self.journal = Journal()
                self.engine = torch.optim.LBFGS(net.parameters())

            def closure(self):
                self.engine.zero_grad()
                misfit = F.mse_loss(self.net(self.x), self.y)
                misfit.backward()
                self.journal.write(misfit=misfit)  # !
                return misfit

            def solve(self, rounds):
                for _ in range(rounds):
                    self.engine.step(self.closure)
    """,
    "an object that setdefault makes": """
        class Stat:
            def __init__(self):
                self.total = 0.0

            def add(self, value, n):
                self.total = self.total + value * n

        class Board:
            def __init__(self):
                self.stats = {}

            def __call__(self, n=1, **values):
                for name, value in values.items():
                    self.stats.setdefault(name, Stat()).add(value, n)

        def train(model, loader, optimizer):
            board = Board()
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                board(len(x), loss=loss)  # !
    """,
    "buffers that are set by their names": """
        class Norm(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.gain = nn.Parameter(torch.ones(width))
                self.register_buffer("mean", torch.zeros(width))
                self.register_buffer("spread", torch.ones(width))

            def refresh(self, **moments):
                for name, moment in moments.items():
                    setattr(self, name, getattr(self, name).lerp(moment, 0.1))

            def forward(self, x):
                mean, spread = x.mean(0), x.std(0)
                self.refresh(mean=mean, spread=spread)  # !
                return (x - mean) / spread * self.gain
    """,
    "buffers by their names": """
        class Norm(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.gain = nn.Parameter(torch.ones(width))
                self.register_buffer("mean", torch.zeros(width))
                self.register_buffer("spread", torch.ones(width))

            def refresh(self, **moments):
                for name, moment in moments.items():
                    self.get_buffer(name).lerp_(moment, 0.1)

            def forward(self, x):
                mean, spread = x.mean(0), x.std(0)
                self.refresh(mean=mean, spread=spread)  # !
                return (x - mean) / spread * self.gain
    """,
    "a field of an object that the callee keeps": """
        class Trial:
            def __init__(self, number):
                self.number = number
                self.score = None

        class Study:
            def __init__(self):
                self.trials = []

            def tell(self, trial, score):
                trial.score = score
                self.trials.append(trial)

        def search(loader, model, optimizer):
            study = Study()
            for number in range(100):
                for x, y in loader:
                    loss = F.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                study.tell(Trial(number), loss)  # !
                trial = Trial(number)
                study.tell(trial, loss)  # !
    """,
    "an object of a class that a dict gives": METER
    + """
        class Last:
            def update(self, val, n=1):
                self.val = float(val)

        METERS = {"mean": AverageMeter, "last": Last}

        class Trainer:
            def __init__(self, model, optimizer, config):
                self.model, self.optimizer = model, optimizer
                self.meter = METERS[config.meter]()

            def run(self, loader, criterion):
                for x, y in loader:
                    loss = criterion(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.meter.update(loss)  # !
    """,
    "a bank's queue, by way of another name": """
        class Bank(nn.Module):
            def __init__(self, dim, size):
                super().__init__()
                self.size = size
                self.register_buffer("queue", F.normalize(torch.randn(size, dim), dim=1))

            def negatives(self):
                return self.queue.detach()

            def enqueue(self, keys):
                merged = torch.cat([keys, self.queue])
                self.queue = merged[: self.size]

        class Learner(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = nn.Linear(16, 4)
                self.bank = Bank(4, 64)

            def forward(self, first, second):
                query = self.encoder(first)
                key = self.encoder(second)
                loss = F.cross_entropy(query @ self.bank.negatives().t(), torch.zeros(8).long())
                self.bank.enqueue(key)  # !
                return loss

        def train(loader):
            learner = Learner()
            optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
            for first, second in loader:
                loss = learner(first, second)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "a template of a base, filled in by a subclass": """
        class Averager:
            def __init__(self, student):
                self.student = student

            def after_step(self):
                for name, parameter in self.student.named_parameters():
                    self.update(name, parameter)  # !

            def update(self, name, parameter):
                self.blend(name, parameter)

            def blend(self, name, parameter):
                raise NotImplementedError

        class Teacher(Averager):
            def __init__(self, student):
                super().__init__(student)
                self.shadow = {n: p.detach().clone() for n, p in student.named_parameters()}

            def blend(self, name, parameter):
                self.shadow[name] = 0.9 * self.shadow[name] + 0.1 * parameter

        def train(net: nn.Module, loader, optimizer):
            teacher = Teacher(net)
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                teacher.after_step()
    """,
    "meter": METER
    + """
        def train(model, loader, optimizer):
            losses = AverageMeter()
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.update(loss, x.size(0))  # !
            return losses.avg
    """,
    "meter in an attribute": METER
    + """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.opt = torch.optim.Adam(net.parameters())
                self.meter = AverageMeter()

            def fit(self, loader):
                for x, y in loader:
                    self.opt.zero_grad()
                    loss = F.cross_entropy(self.net(x), y)
                    loss.backward()
                    self.opt.step()
                    self.meter.update(loss)  # !
    """,
    "function that appends": """
        def record(history, name, value):
            history[name].append(value)

        def train(model, loader, optimizer):
            history = defaultdict(list)
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                record(history, "loss", loss)  # !
    """,
    "mutable default": """
        def log(value, seen=[]):
            seen.append(value)

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                log(loss)  # !
    """,
    "memory": """
        class Memory:
            def __init__(self):
                self.items = []

            def push(self, *transition):
                self.items.append(transition)

        def train(policy, env, optimizer):
            memory = Memory()
            obs = env.reset()
            for _ in range(10000):
                dist, value = policy(obs)
                action = dist.sample()
                obs, reward, done, _ = env.step(action)
                memory.push(obs, action, dist.log_prob(action), reward)  # !
                loss = (reward - value).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "a function with some arguments given": """
        from functools import partial

        def log(history, weight, value):
            history.append(weight * value)

        def train(model, loader, optimizer):
            losses = []
            note = partial(log, losses, 0.5)
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                note(loss)  # !
            return losses
    """,
    "the network comes by an attribute of another object": """
        class Agent(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)

            def forward(self, x):
                return self.layer(x)

        class Diary:
            def __init__(self):
                self.entries = []

            def write(self, value):
                self.entries.append(value)

        def play(thing, view):
            return thing(view)

        class Teacher:
            def __init__(self):
                self.agent = Agent()
                self.diary = Diary()

            def update(self, view):
                result = play(self.agent, view)
                result.mean().backward()
                self.diary.write(result)  # !

        def main(views):
            teacher = Teacher()
            for view in views:
                teacher.update(view)
    """,
    "mapped, and still with its graph": """
        class Trainer:
            def __init__(self, model):
                self.model, self.seen = model, []

            def bounce(self, batches):
                losses, others = zip(*[(F.mse_loss(self.model(x), y), F.l1_loss(self.model(x), y)) for x, y in batches])
                torch.stack(losses).sum().backward()
                losses, others = map(lambda many: [one.mean() for one in many], (losses, others))
                return losses

            def track(self, losses):
                self.seen.extend(losses)

            def run(self, loader, optimizer):
                for batches in loader:
                    optimizer.zero_grad()
                    self.track(self.bounce(batches))  # !
                    optimizer.step()
    """,
}

CLEAN = {
    "the data of a tensor is written in place": """
        def clip(image, low, high):
            for c in range(3):
                image[:, c] = torch.clamp(image[:, c], low[c], high[c])
            return image

        def scale(image):
            image[:, 0] = image[:, 0] * 0.5

        def synthesize(net, targets, low, high):
            image = torch.randn(8, 3, 32, 32, requires_grad=True)
            optimizer = torch.optim.Adam([image])
            for _ in range(2000):
                optimizer.zero_grad()
                loss = F.cross_entropy(net(image), targets)
                loss.backward()
                optimizer.step()
                image.data = clip(image.data, low, high)
                scale(image.data)
    """,
    "what a step gives in some iterations, all of it detached": """
        class Agent:
            def __init__(self):
                self.net, self.alpha = nn.Linear(3, 2), nn.Parameter(torch.zeros(()))
                self.optimizer = torch.optim.Adam([*self.net.parameters(), self.alpha])

            def update_actor(self, x):
                out = self.net(x)
                loss, alpha_loss = out.mean(), (self.alpha * out.detach()).mean()
                self.optimizer.zero_grad()
                (loss + alpha_loss).backward()
                self.optimizer.step()
                return loss.detach(), out.detach().std(), alpha_loss.detach()

            def update(self, x, step):
                info = None
                if step % 2 == 0:
                    info = self.update_actor(x)
                return info

            def note(self, losses, spreads, alpha_losses, info):
                if info is None:
                    return
                loss, spread, alpha_loss = info
                losses.append(loss)
                spreads.append(spread)
                alpha_losses.append(alpha_loss)

            def train(self, loader):
                losses, spreads, alpha_losses = [], [], []
                for step, x in enumerate(loader):
                    info = self.update(x, step)
                    self.note(losses, spreads, alpha_losses, info)
                return losses, spreads, alpha_losses
    """,
    "a sum in an object, which its own backward goes over": """
        class Criterion:
            def __init__(self):
                self.nll, self.total, self.count = nn.NLLLoss(), 0, 0

            def reset(self):
                self.total, self.count = 0, 0

            def add(self, out, y):
                self.total += self.nll(out, y)
                self.count += 1

            def backward(self):
                if type(self.total) is int:
                    raise ValueError("nothing to go back over")
                self.total.backward()

        class Trainer:
            def __init__(self, criterion=Criterion()):
                self.criterion, self.optimizer = criterion, None

            def step(self, net, x, y):
                criterion = self.criterion
                outs, hidden = net(x)
                criterion.reset()
                for t, out in enumerate(outs):
                    criterion.add(out.view(len(y), -1), y[:, t + 1])
                net.zero_grad()
                criterion.backward()
                self.optimizer.step()
                return float(criterion.total)

        net = nn.GRU(3, 3)
        trainer = Trainer()
        trainer.optimizer = torch.optim.Adam(net.parameters())
        for epoch in range(20):
            for x, y in load_batches(epoch):
                print(trainer.step(net, x, y))
    """,
    "an object that is made for each step, with a backward of its own": """
        class Criterion:
            def __init__(self):
                self.nll, self.total, self.count = nn.NLLLoss(), 0, 0

            def reset(self):
                self.total, self.count = 0, 0

            def add(self, out, y):
                self.total += self.nll(out, y)
                self.count += 1

            def backward(self):
                if type(self.total) is int:
                    raise ValueError("nothing to go back over")
                self.total.backward()

        def train(net, loader, optimizer):
            for x, y in loader:
                criterion = Criterion()
                for part in x.split(8):
                    criterion.add(net(part), y)
                optimizer.zero_grad()
                criterion.backward()
                optimizer.step()
    """,
    "a sum over heads in an object, reset in each step": """
        class Criterion:
            def __init__(self):
                self.nll, self.total, self.count = nn.NLLLoss(), 0, 0

            def reset(self):
                self.total, self.count = 0, 0

            def add(self, out, y):
                self.total += self.nll(out, y)
                self.count += 1

            def backward(self):
                if type(self.total) is int:
                    raise ValueError("nothing to go back over")
                self.total.backward()

        def train(net, loader, optimizer):
            criterion = Criterion()
            for x, y in loader:
                criterion.reset()
                for out in net(x):
                    criterion.add(out, y)
                optimizer.zero_grad()
                criterion.backward()
                optimizer.step()
    """,
    "a property's value without its graph": twin(FLAGGED["a property that computes"], ("exp()", "exp().detach()")),
    "a property's value as a number": twin(FLAGGED["a property that computes"], ("=head.scale", "=head.scale.item()")),
    "a method, not what it returns": twin(FLAGGED["a property that computes"], ("@property", "@profile")),
    "levels of tasks, blended with numbers": twin(
        FLAGGED["levels of tasks, each blended with its loss"], ("lerp(value, ", "lerp(value.detach(), ")
    ),
    "levels of tasks, under no_grad": twin(
        FLAGGED["levels of tasks, each blended with its loss"],
        ("self.observe(parts)", "with torch.no_grad():\n                    self.observe(parts)"),
    ),
    "numbers, by the closure of an optimizer": """
        class Journal:
            def __init__(self):
                self.curves = defaultdict(list)

            def write(self, **terms):
                for name, value in terms.items():
                    self.curves[name].append(float(value))

        class Solver:
            def __init__(self, net, x, y):
                self.net, self.x, self.y = net, x, y
                self.journal = Journal()
                self.engine = torch.optim.LBFGS(net.parameters())

            def closure(self):
                self.engine.zero_grad()
                misfit = F.mse_loss(self.net(self.x), self.y)
                misfit.backward()
                self.journal.write(misfit=misfit)
                return misfit

            def solve(self, rounds):
                for _ in range(rounds):
                    self.engine.step(self.closure)
    """,
    "numbers for an object that setdefault makes": twin(
        FLAGGED["an object that setdefault makes"], ("loss=loss)", "loss=loss.item())")
    ),
    "every attribute is emptied": SEGMENT.replace(
        "EMPTY",
        """for column in vars(self).values():
                    column.clear()""",
    ),
    "every attribute is emptied by its name": SEGMENT.replace(
        "EMPTY",
        """for name in vars(self):
                    getattr(self, name).clear()""",
    ),
    "lists of an object's object, emptied in place by another method": """
        class Segment:
            def __init__(self):
                self.scores, self.values = [], []

            def push(self, **given):
                for name, value in given.items():
                    getattr(self, name + "s").append(value)

            def reset(self):
                for column in vars(self).values():
                    del column[:]

        class Learner:
            def __init__(self, agent):
                self.agent = agent
                self.segment = Segment()
                self.optimizer = torch.optim.Adam(agent.parameters())

            def collect(self, env):
                for _ in range(8):
                    policy, value = self.agent(env.observe())
                    self.segment.push(score=policy.log_prob(value), value=value)

            def improve(self):
                segment = self.segment
                self.optimizer.zero_grad()
                torch.stack(segment.scores).mean().backward()
                self.optimizer.step()
                segment.reset()

        def train(agent, env, updates):
            learner = Learner(agent)
            for _ in range(updates):
                learner.collect(env)
                learner.improve()
    """,
    "every attribute is set anew": SEGMENT.replace(
        "EMPTY",
        """for name in self.__dict__:
                    setattr(self, name, [])""",
    ),
    "buffers by their names, without a graph": twin(
        FLAGGED["buffers by their names"], ("lerp_(moment,", "lerp_(moment.detach(),")
    ),
    "an object of a class that keeps numbers, by a dict": METER
    + """
        class Last:
            def update(self, val, n=1):
                self.val = float(val)

        METERS = {"mean": AverageMeter, "last": Last}

        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer
                self.meter = METERS["last"]()

            def run(self, loader, criterion):
                for x, y in loader:
                    loss = criterion(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.meter.update(loss)
    """,
    "a bank's queue of keys without a graph": twin(
        FLAGGED["a bank's queue, by way of another name"], ("self.encoder(second)", "self.encoder(second).detach()")
    ),
    "a template that averages what is detached": twin(
        FLAGGED["a template of a base, filled in by a subclass"], ("0.1 * parameter", "0.1 * parameter.detach()")
    ),
    "number": METER
    + """
        def train(model, loader, optimizer):
            losses = AverageMeter()
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.update(loss.item(), x.size(0))
                losses.update(loss.detach(), x.size(0))
    """,
    "meter that converts": """
        class Meter:
            def __init__(self):
                self.total = 0.0

            def update(self, value):
                self.total += value.item()

        def train(model, loader, optimizer):
            meter = Meter()
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                meter.update(loss)
    """,
    "meter of the iteration": METER
    + """
        def train(model, loader, optimizer):
            for x, y in loader:
                meter = AverageMeter()
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                meter.update(loss)
    """,
    "last value only": """
        class Last:
            def __init__(self):
                self.value = None

            def update(self, value):
                self.value = value

        def train(model, loader, optimizer):
            last = Last()
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                last.update(loss)
    """,
    "logging": """
        from torch.utils.tensorboard import SummaryWriter
        from tqdm import tqdm

        def train(model, loader, optimizer, logger):
            writer = SummaryWriter()
            bar = tqdm(loader)
            for step, (x, y) in enumerate(bar):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                writer.add_scalar("loss", loss, step)
                bar.set_postfix(loss=loss)
                logger.info("loss %s", loss)
                print(loss)
    """,
    "under no_grad": METER
    + """
        @torch.no_grad()
        def validate(model, loader):
            model.eval()
            meter = AverageMeter()
            for x, y in loader:
                meter.update(F.cross_entropy(model(x), y), x.size(0))
            return meter.avg
    """,
    "rollout that is used and cleared": """
        class Rollout:
            def __init__(self):
                self.log_probs = []

            def add(self, log_prob):
                self.log_probs.append(log_prob)

            def clear(self):
                self.log_probs = []

        def train(policy, env, optimizer):
            rollout = Rollout()
            for _ in range(1000):
                for _ in range(20):
                    dist = policy(env.observe())
                    rollout.add(dist.log_prob(dist.sample()))
                loss = -torch.stack(rollout.log_probs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                rollout.clear()
    """,
    "an entry that adds in its own way": """
        class Running:
            def __init__(self):
                self.values = []

            def __iadd__(self, value):
                self.values.append(value.detach().cpu())
                return self

        class Tracker:
            def __init__(self):
                self.tracks = {}

            def update(self, values):
                for name, value in values.items():
                    if name not in self.tracks:
                        self.tracks[name] = Running()
                    self.tracks[name] += value

        def train(model, loader, optimizer):
            tracker = Tracker()
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                tracker.update(dict(loss=loss))
    """,
    "what an environment says": """
        import gymnasium as gym

        class Memory:
            def __init__(self, capacity):
                self.storage = []
                self.capacity = capacity

            def push(self, state, action):
                if len(self.storage) < self.capacity:
                    self.storage.append((state, action))

        def collect(policy, optimizer, memory: Memory, env, steps):
            state = env.reset()
            for _ in range(steps):
                action = policy.sample(state, format="numpy")
                memory.push(state, action)
                state, reward, done, _ = env.step(action)
                optimizer.zero_grad()
                policy.loss(state).backward()
                optimizer.step()
    """,
    "a buffer that begins with zeros again": """
        class Buffer:
            def __init__(self, size):
                self.data = {"value": torch.zeros(size), "reward": torch.zeros(size)}
                self.ptr = 0

            def reset(self):
                for key, val in self.data.items():
                    self.data[key] = torch.zeros_like(val)
                self.ptr = 0

            def store(self, value, reward):
                self.data["value"][self.ptr] = value
                self.data["reward"][self.ptr] = reward
                self.ptr += 1

        class Agent:
            def __init__(self, critic, env, size):
                self.critic, self.env = critic, env
                self.buffer = Buffer(size)

            def collect(self, steps):
                self.buffer.reset()
                obs = self.env.reset()
                for _ in range(steps):
                    value = self.critic(obs)
                    obs, reward = self.env.step(value.item())
                    self.buffer.store(value, reward)
                return self.buffer.data

        def main(agent: Agent, optimizer):
            for _ in range(1000):
                data = agent.collect(100)
                loss = F.mse_loss(data["value"], data["reward"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "made numbers by map": """
        class Trainer:
            def __init__(self, model):
                self.model, self.seen = model, []

            def bounce(self, batches):
                losses, sizes = zip(*[(F.mse_loss(self.model(x), y), len(x)) for x, y in batches])
                torch.stack(losses).sum().backward()
                losses, sizes = map(lambda many: [float(one) for one in many], (losses, sizes))
                return losses

            def track(self, losses):
                self.seen.extend(losses)

            def run(self, loader, optimizer):
                for batches in loader:
                    optimizer.zero_grad()
                    self.track(self.bounce(batches))
                    optimizer.step()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name])


def test_the_storing_line_is_related() -> None:
    (finding,) = findings(FLAGGED["meter"], CODE)
    assert any("self.sum += val * n" in line for line in _related_lines(finding, FLAGGED["meter"]))
    assert finding.fix is not None
    assert finding.fix.edits[0].text == "loss.detach()"


WHITENED = """
        class Whitening(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.register_buffer("center", torch.zeros(width))

            def forward(self, x):
                self.center = 0.9 * self.center + 0.1 * x.mean(0)
                return {given_back}

        def train(loader):
            encoder, whitening = nn.Linear(8, 4), Whitening(4)
            optimizer = torch.optim.SGD(encoder.parameters(), 0.1)
            for x, y in loader:
                z = encoder(x)
                {call}  # !
                loss = F.mse_loss({used}, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""


@pytest.mark.parametrize(
    ("given_back", "call", "used", "fix"),
    [
        ("x - self.center.detach()", "out = whitening(z)", "out", None),
        ("x.relu(), self.center.detach()", "out, _ = whitening(z)", "out", None),
        ("x - self.center.detach()", "whitening(z)", "z", "z.detach()"),
        ("self.center.detach()", "center = whitening(z)", "z - center", "z.detach()"),
    ],
)
def test_the_caller_cuts_no_graph_that_it_goes_on_with(given_back: str, call: str, used: str, fix: str | None) -> None:
    snippet = WHITENED.format(given_back=given_back, call=call, used=used)
    assert_flagged(snippet, CODE)
    (finding,) = findings(snippet, CODE)
    assert (finding.fix.edits[0].text if finding.fix is not None else None) == fix
    assert finding.help is not None
    assert ("where it is stored" in finding.help) == (fix is None)


@pytest.mark.parametrize("backward", ["loss.backward()", "torch.autograd.grad(loss, [self.weight])"])
def test_the_caller_cuts_no_graph_that_is_backpropagated_there(backward: str) -> None:
    """Its argument is needed as it is: the finding, and the edit, are where the callee keeps it."""
    snippet = f"""
        class Learner:
            def __init__(self, optimizer, weight):
                self.optimizer, self.weight, self.losses = optimizer, weight, []

            def learn(self, loss):
                self.optimizer.zero_grad()
                {backward}
                self.optimizer.step()
                self.losses.append(loss)  # !

        def train(net, learner: Learner, loader):
            for x, y in loader:
                learner.learn(F.mse_loss(net(x), y))
    """
    assert_flagged(snippet, "GG104")
    assert_clean(snippet, CODE)
    (finding,) = findings(snippet, "GG104")
    assert "`loss.detach()`" in (finding.help or "")


def _related_lines(finding: object, snippet: str) -> list[str]:
    from tests.rules.snippets import source

    lines = source(snippet).splitlines()
    return [lines[r.line - 1] for r in finding.related]  # type: ignore[attr-defined]


def test_an_entry_that_adds_in_its_own_way_in_another_file(tmp_path: Path) -> None:
    running = """
        class Running:
            def __init__(self):
                self.values = []

            def __iadd__(self, value):
                self.values.append(value.detach().cpu())
                return self
    """
    train = """
        import torch
        from running import Running

        class Tracker:
            def __init__(self):
                self.tracks = {}

            def update(self, values):
                for name, value in values.items():
                    if name not in self.tracks:
                        self.tracks[name] = Running()
                    self.tracks[name] += value

        def train(model, loader, optimizer):
            tracker = Tracker()
            for x, y in loader:
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                tracker.update(dict(loss=loss))
    """
    assert lines_in_files(tmp_path, {"running.py": running, "train.py": train}, CODE) == []
    own = running.replace("def __iadd__", "def __add__")
    assert lines_in_files(tmp_path, {"running.py": own, "train.py": train}, CODE) == [("train.py", 22)]


QUEUE = """
    class Queue(nn.Module):
        def __init__(self, dim, size):
            super().__init__()
            self.register_buffer("bank", torch.randn(dim, size))
            self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))
        {decorator}
        def enqueue(self, keys):
            n, start = keys.shape[0], int(self.ptr)
            self.bank[:, start:start + n] = keys.{attribute}
            self.ptr[0] = (start + n) % 64

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(4, 8)
            self.queue = Queue(8, 64)

        def forward(self, a, b):
            query, keys = self.encoder(a), self.encoder(b)
            return query @ self.queue.bank.clone().detach(), keys

    class Trainer:
        def __init__(self):
            self.model = Model()
            self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

        def run(self, loader):
            for a, b in loader:
                logits, keys = self.model(a, b)
                self.optimizer.zero_grad()
                F.cross_entropy(logits, torch.zeros(len(a), dtype=torch.long)).backward()
                self.optimizer.step()
                self.model.queue.enqueue(keys){mark}
"""


@pytest.mark.parametrize("attribute", ["T", "mT", "t()", "T.contiguous()"])
def test_what_a_method_copies_into_a_buffer(attribute: str) -> None:
    assert_flagged(QUEUE.format(decorator="", attribute=attribute, mark="  # !"), "GG107")
    assert_clean(QUEUE.format(decorator="@torch.no_grad()", attribute=attribute, mark=""))
    assert_clean(QUEUE.format(decorator="", attribute=f"detach().{attribute}", mark=""))


REPORTED = {
    "logs.py": """
        import logging
        import logging.handlers

        log = logging.getLogger("train")
        log.addHandler(logging.handlers.{handler})

        class Reporter:
            def report(self, step, loss):
                log.info("step %d loss %.4f", step, loss)
    """,
    "train.py": """
        import torch
        import torch.nn.functional as F
        from logs import Reporter

        def train(model, loader, optimizer):
            reporter = Reporter()
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                reporter.report(step, {value})
    """,
}


@pytest.mark.parametrize(
    ("handler", "value", "found"),
    [
        ("MemoryHandler(4096)", "loss", [("train.py", 13)]),
        ("MemoryHandler(4096)", "loss.item()", []),
        ("StreamHandler()", "loss", []),
    ],
)
def test_records_that_a_handler_in_another_file_holds_back(
    tmp_path: Path, handler: str, value: str, found: list[tuple[str, int]]
) -> None:
    files = {name: text.format(handler=handler, value=value) for name, text in REPORTED.items()}
    assert lines_in_files(tmp_path, files) == found


OFFERED = """
        class Offering:
            def offer(self, term):
                self.terms.append(term)

            def collect(self):
                terms, self.terms = self.terms, []
                return terms

        class Gate(nn.Module, Offering):
            def __init__(self):
                super().__init__()
                self.router = nn.Linear(8, 4)
                self.terms = []

            def forward(self, x):
                gates = self.router(x).softmax(-1)
                self.offer(gates.mean(0).pow(2).sum())  # !
                return gates

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.gates = nn.ModuleList(Gate() for _ in range(2))

            def forward(self, x):
                for gate in self.gates:
                    x = gate(x).repeat(1, 2)
                return x

        {unused}

        def main(loader):
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        if __name__ == "__main__":
            main([])
"""
BALANCE = """def balance(model):
            return sum(t for m in model.modules() if isinstance(m, Offering) for t in m.collect())
"""


@pytest.mark.parametrize("unused", ["", BALANCE])
def test_what_a_layer_offers_and_nothing_collects(unused: str) -> None:
    assert_flagged(OFFERED.format(unused=unused), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("F.mse_loss(net(x), y)\n", "F.mse_loss(net(x), y) + balance(net)\n"),
        ("main([])", "main([])\n            penalties = [balance]"),
        ("def balance(", "@torch.no_grad()\n        def balance("),  # somebody may have it by what decorates it
        ("main([])", "import fire\n            fire.Fire()"),
        ("main([])", "globals()[input()]([])"),
        ('if __name__ == "__main__":\n            main([])', "EXPORTED = 3"),
        ("self.offer(gates.mean(0).pow(2).sum())", "self.offer(gates.mean(0).pow(2).sum().item())"),
        (
            "optimizer.step()\n",
            "optimizer.step()\n                for gate in net.gates:\n                    gate.collect()\n",
        ),
    ],
)
def test_what_a_layer_offers_and_somebody_collects(edit: tuple[str, str]) -> None:
    assert_clean(twin(OFFERED.format(unused=BALANCE), edit), CODE)


LOGS = """
    from dataclasses import dataclass, field
    from typing import NamedTuple

    @dataclass
    class Log:
        losses: list = field(default_factory=list)
        total: float = 0.0

    def note(log{declared}, loss):
        {note}

    def train(net, loader, optimizer):
        log = {made}
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            note(log, loss){mark}
"""


@pytest.mark.parametrize("declared", ["", ": Log"])
@pytest.mark.parametrize("made", ["Log()", "Log(losses=[])", "Log([], 0.0)", "Log(total=0.0)"])
@pytest.mark.parametrize("note", ["log.losses.append({})", "log.total += {}", "log.total = log.total + {}"])
def test_the_field_of_a_record_that_a_callee_fills(declared: str, made: str, note: str) -> None:
    def written(loss: str, mark: str = "") -> str:
        return LOGS.format(declared=declared, made=made, note=note.format(loss), mark=mark)

    assert_flagged(written("loss", "  # !"), CODE)
    assert_clean(written("loss.item()"))
    assert_clean(written("loss.detach()"))


def test_the_holder_of_the_part_that_has_a_graph_is_named() -> None:
    (found,) = findings(
        """
        class Agent:
            def __init__(self):
                self.net, self.alpha = nn.Linear(3, 2), nn.Parameter(torch.zeros(()))
                self.optimizer = torch.optim.Adam([*self.net.parameters(), self.alpha])

            def update_actor(self, x):
                out = self.net(x)
                loss, alpha_loss = out.mean(), (self.alpha * out.detach()).mean()
                self.optimizer.zero_grad()
                (loss + alpha_loss).backward()
                self.optimizer.step()
                return loss.detach(), out.detach().std(), alpha_loss

            def update(self, x, step):
                info = None
                if step % 2 == 0:
                    info = self.update_actor(x)
                return info

            def note(self, losses, spreads, alpha_losses, info):
                if info is None:
                    return
                loss, spread, alpha_loss = info
                losses.append(loss)
                spreads.append(spread)
                alpha_losses.append(alpha_loss)

            def train(self, loader):
                losses, spreads, alpha_losses = [], [], []
                for step, x in enumerate(loader):
                    info = self.update(x, step)
                    self.note(losses, spreads, alpha_losses, info)
                return losses, spreads, alpha_losses
    """,
        CODE,
    )
    assert "is kept in `alpha_losses`" in found.message


COLUMNS = """
        class Chart:
            def __init__(self):
                self.points = []

            def restart(self):
                RESTART

        class Segment:
            def __init__(self):
                self.scores, self.values, self.ends = [], [], []

            def push(self, score, value, end):
                self.scores.append(score)
                self.values.append(value)
                self.ends.append(end)

            def drop(self):
                EMPTY

        class Actor(nn.Module):
            def __init__(self):
                super().__init__()
                self.policy, self.value = nn.Linear(4, 2), nn.Linear(4, 1)
                self.segment = Segment()

            def act(self, x):
                policy = torch.distributions.Categorical(logits=self.policy(x))
                action = policy.sample()
                return action.item(), policy.log_prob(action), self.value(x).squeeze()

        def improve(actor, optimizer):
            segment = actor.segment
            values = torch.stack(segment.values)
            scores = [score * value for score, value in zip(segment.scores, values.detach())]
            optimizer.zero_grad()
            (torch.stack(scores).sum() + values.pow(2).sum()).backward()
            optimizer.step()
            segment.drop()

        def train(env, updates):
            actor, chart = Actor(), Chart()
            optimizer = torch.optim.Adam(actor.parameters())
            for _ in range(updates):
                x, end = env.reset(), False
                while not end:
                    action, score, value = actor.act(x)
                    x, end = env.step(action)
                    actor.segment.push(score, value, end)
                improve(actor, optimizer)
                chart.restart()
"""


@pytest.mark.parametrize(
    "empty",
    [
        "self.scores, self.values, self.ends = [], [], []",
        "self.ends, self.values, self.scores = ([] for _ in range(3))",
        "self.__init__()",
        "Segment.__init__(self)",
        "for name in ('scores', 'values'): getattr(self, name).clear()",
        "for name in 'scores values'.split(): del getattr(self, name)[:]",
        "for name in ['scores', 'values']: self.__dict__[name] = []",
        "for name in ['scores', 'values']: vars(self)[name][:] = []",
        """scores, values = self.scores, self.values
                del scores[:], values[:]""",
        """scores = self.scores
                values = self.values
                scores.clear()
                values[:] = []""",
    ],
)
def test_all_columns_are_emptied_at_once(empty: str) -> None:
    assert_clean(COLUMNS.replace("EMPTY", empty).replace("RESTART", "pass"), CODE)


@pytest.mark.parametrize(
    ("keep", "restart"),
    [
        ("self.ends, self.rewards, self.steps = [], [], []", "pass"),
        (
            """scores, values = self.scores, self.values
                scores, values = [], []""",
            "pass",
        ),
        (
            """ends = self.ends
                del ends[:]""",
            "pass",
        ),
        ("for name in ('rewards', 'ends'): getattr(self, name).clear()", "pass"),
        ("for name in ('scores', 'values'): print(getattr(self, name), vars(self)[name])", "pass"),
        ("super().__init__()", "pass"),
        ("pass", "self.__init__()"),
    ],
)
def test_columns_that_are_not_emptied(keep: str, restart: str) -> None:
    snippet = COLUMNS.replace("EMPTY", keep).replace("RESTART", restart)
    assert_flagged(
        snippet.replace("actor.segment.push(score, value, end)", "actor.segment.push(score, value, end)  # !"), CODE
    )


REPLAY = """
        class Replay:
            def __init__(self, size=SIZE):
                self.size = size
                self.rows, self.at = [], 0

            def push(self, *row):
                PUSH

            def sample(self, n):
                return zip(*random.sample(self.rows, n))

        class Agent(nn.Module):
            def __init__(self):
                super().__init__()
                self.policy, self.value = nn.Linear(4, 2), nn.Linear(4, 1)

            def act(self, x):
                policy = torch.distributions.Categorical(logits=self.policy(x))
                action = policy.sample()
                return action, policy.log_prob(action), self.value(x)

        def train(env, steps):
            agent, replay = Agent(), Replay()
            optimizer = torch.optim.Adam(agent.parameters())
            x = env.reset()
            for _ in range(steps):
                action, score, value = agent.act(x)
                after, reward = env.step(action.item())
                replay.push(x, action, reward, GIVEN)  # !
                x = after
                seen, taken, rewards, before = replay.sample(32)
                weights = (torch.tensor(rewards) - torch.stack(before).detach()).squeeze()
                optimizer.zero_grad()
                losses = F.cross_entropy(agent.policy(torch.stack(seen)), torch.stack(taken), reduction="none")
                (losses * weights).mean().backward()
                optimizer.step()
"""
RING = """if len(self.rows) < self.size:
                    self.rows.append(row)
                else:
                    self.rows[self.at] = row
                self.at = (self.at + 1) % self.size"""
SLOTS = """if len(self.rows) < self.size:
                    self.rows.append(None)
                self.rows[self.at] = row
                self.at = (self.at + 1) % self.size"""
DRAINED = """if len(self.rows) >= self.size:
                    self.rows.pop(0)
                self.rows.append(row)"""
GROWING = """if len(self.rows) < self.size:
                    self.rows.append(row)"""


@pytest.mark.parametrize("push", [RING, SLOTS, DRAINED, GROWING])
@pytest.mark.parametrize("size", ["100_000", "int(1e5)"])
def test_a_replay_buffer_of_many_graphs(push: str, size: str) -> None:
    snippet = REPLAY.replace("PUSH", push).replace("SIZE", size)
    if size.startswith("int"):  # only the name tells
        snippet = snippet.replace("size=int(1e5)", "capacity").replace("self.size = size", "self.size = capacity")
        snippet = snippet.replace("self.size", "self.capacity").replace("Replay()", "Replay(int(1e5))")
    for given in ("value", "score"):
        assert_flagged(snippet.replace("GIVEN", given), CODE)
    for given in ("value.detach()", "score.item()", "action", "x"):
        assert_clean(snippet.replace("GIVEN", given).replace("  # !", ""), CODE)


@pytest.mark.parametrize("push", [RING, SLOTS, DRAINED, GROWING])
@pytest.mark.parametrize("size", ["64", "None"])
def test_a_short_buffer_of_graphs(push: str, size: str) -> None:
    snippet = REPLAY.replace("PUSH", push).replace("SIZE", size).replace("GIVEN", "value").replace("  # !", "")
    assert_clean(snippet.replace("=None", ""), CODE)


BY_WORD = """
        import random
        from torch.distributions import Normal

        class Memory:
            def __init__(self, capacity):
                self.capacity = capacity
                self.rows = []

            def write(self, **row):
                self.rows.append(row)

            def sample(self, n):
                rows = random.sample(self.rows, n)
                batch = {k: torch.stack([r[k] for r in rows]) for k in ("obs", "action")}
                batch["logp"] = torch.tensor([float(r["logp"]) for r in rows])
                batch["reward"] = torch.tensor([r["reward"] for r in rows])
                return batch

        class Actor(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(4, 2)

            def policy(self, obs):
                return Normal(self.net(obs), 1.0)

            def act(self, obs):
                dist = self.policy(obs)
                action = dist.sample()
                return action, dist.log_prob(action)

        def main(env):
            actor, memory = Actor(), Memory(50_000)
            opt = torch.optim.Adam(actor.parameters())
            obs = env.reset()
            for n in range(1000):
                action, logp = actor.act(obs)
                nxt, reward = env.step(action)
                memory.write(obs=obs, action=action, logp=GIVEN, reward=reward)  # !
                obs = nxt
                batch = memory.sample(32)
                ratio = (actor.policy(batch["obs"]).log_prob(batch["action"]) - batch["logp"]).exp()
                loss = -(ratio * batch["reward"]).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
"""


def test_a_replay_buffer_whose_rows_are_read_by_written_words() -> None:
    assert_flagged(BY_WORD.replace("GIVEN", "logp"), CODE)
    for given in ("logp.detach()", "logp.item()"):
        assert_clean(BY_WORD.replace("GIVEN", given).replace("  # !", ""), CODE)


UPDATE = """
        losses, spreads = [], []

        def update(optimizer, scores, returns{taken}):
            actor = -(torch.stack(scores) * returns).mean()
            losses.append({kept})  # !
            optimizer.zero_grad()
            {backward}
            optimizer.step()

        def train(policy, optimizer, env, steps):
            for _ in range(steps):
                scores = [policy(env.observe()) for _ in range(8)]
                update(optimizer, scores, env.returns(){given})
"""
BOTH_SEEN = {"taken": "", "given": "", "backward": "actor.backward()"}


@pytest.mark.parametrize("kept", ["actor", "-actor", "[actor]", "{'actor': actor}"])
def test_what_the_callee_backpropagates_is_cut_where_it_is_stored(kept: str) -> None:
    snippet = UPDATE.format(kept=kept, **BOTH_SEEN)
    assert_flagged(snippet, "GG104")
    assert_clean(snippet, CODE)


@pytest.mark.parametrize("kept", ["actor.item()", "actor.detach()", "float(actor)", "len(scores)"])
def test_what_the_callee_backpropagates_and_cuts(kept: str) -> None:
    assert_clean(twin(UPDATE.format(kept=kept, **BOTH_SEEN)))


def test_what_the_callee_only_keeps_is_cut_by_its_caller() -> None:
    given = {"taken": ", spread", "given": ", scores[0].var()", "backward": "actor.backward()"}
    snippet = twin(UPDATE.format(kept="spread", **given), ("scores[0].var())", "scores[0].var())  # !"))
    assert_flagged(snippet, CODE)


BY_COMPUTED_KEY = """
        class Table:
            def __init__(self):
                self.rows = {}

            def offer(self, step, score):
                KEY
                STORE

        def train(net, opt, loader, table: Table):
            for step, (x, y) in enumerate(loader):
                loss = F.mse_loss(net(x), y)
                loss.backward()
                opt.step()
                opt.zero_grad()
                table.offer(step, GIVEN)  # !
"""
KEYS = ["key = step % 4", 'key = "q%d" % step', "key = step // 100", "key = str(step)", 'key = f"{step}"']


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "store",
    [
        "self.rows[key] = self.rows[key] + score",
        "self.rows[key] = self.rows.get(key, 0.0) + score",
        "self.rows[key] = self.rows[key] + ((step, score),)",
        "self.rows[key] = self.rows.get(key, []) + [score]",
    ],
)
def test_what_an_entry_goes_on_from_is_told_by_the_value_not_by_its_key(key: str, store: str) -> None:
    snippet = BY_COMPUTED_KEY.replace("KEY", key).replace("STORE", store)
    assert_flagged(snippet.replace("GIVEN", "loss"), CODE)
    assert_clean(twin(snippet.replace("GIVEN", "loss.item()")))


@pytest.mark.parametrize("key", ["key = step % 4", 'key = "q%d" % (step % 4)'])
def test_an_entry_that_is_replaced_goes_on_from_nothing(key: str) -> None:
    snippet = BY_COMPUTED_KEY.replace("KEY", key).replace("STORE", "self.rows[key] = score")
    assert_clean(twin(snippet.replace("GIVEN", "loss")))


GRADED = f"""
        from torch.nn.modules.loss import _WeightedLoss
{METER}
        class EdgeLoss(_WeightedLoss):
            def __init__(self, reduction="mean", device=None):
                super().__init__(reduction=reduction)
                self.device = device if device else torch.device("cuda" if torch.cuda.is_available() else "cpu")

            def forward(self, pred, gray):
                pred = pred.argmax(1).float()
                return F.conv2d(pred, gray.to(self.device)).mean()

        class Trainer:
            def epoch(self, loader, optimizer, edge_loss):
                edges = AverageMeter()
                for x, gray, y in loader:
                    pred = self.net(x)
                    graded = edge_loss(pred, gray)
                    loss = F.cross_entropy(pred, y) + graded
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    edges.update(0.5 * graded)

            def fit(self, loader, optimizer):
                edge_loss = EdgeLoss().to(self.device)
                self.epoch(loader, optimizer, edge_loss)
"""
MADE_EDGE = "edge_loss = EdgeLoss().to(self.device)"


@pytest.mark.parametrize(
    "edit",
    [
        ("_WeightedLoss", "_WeightedLoss"),
        ("class EdgeLoss(_WeightedLoss)", "class EdgeLoss(nn.CrossEntropyLoss)"),
        (MADE_EDGE, "edge_loss = EdgeLoss(device=self.device)"),
        (MADE_EDGE, "edge_loss = EdgeLoss().eval().cuda()"),
        ("optimizer, edge_loss)\n", "optimizer, EdgeLoss().cuda())\n"),
    ],
)
def test_a_loss_that_is_given_and_has_no_graph(edit: tuple[str, str]) -> None:
    assert [f.code for f in findings(twin(GRADED, edit))] == ["GG215"]  # it keeps nothing, and trains nothing


@pytest.mark.parametrize(
    "edit",
    [
        ("argmax", "softmax"),
        ("class EdgeLoss(_WeightedLoss)", "class EdgeLoss(nn.AdaptiveLogSoftmaxWithLoss)"),
        (MADE_EDGE, "edge_loss = nn.L1Loss().to(self.device)"),
        (MADE_EDGE, f"{MADE_EDGE}\n                self.epoch(loader, optimizer, nn.L1Loss().to(self.device))"),
        ("self.device = device", "self.head = nn.Conv2d(1, 1, 3)\n                self.device = device"),
    ],
)
def test_a_loss_that_is_given_and_may_have_a_graph(edit: tuple[str, str]) -> None:
    assert [f.code for f in findings(twin(GRADED, edit))] == [CODE]


NORMS = """
        class Norm(nn.Module):
            def __init__(self, size, kind="plain", trains=True):
                super().__init__()
                self.kind, self.trains = kind, trains
                self.scale = nn.Parameter(torch.ones(1, size, 1, 1))
                self.register_buffer("spread", torch.ones(1, size, 1, 1))

            def forward(self, x):
                if self.kind == "plain":
                    return x * self.scale
                if self.kind == "running":
                    var = x.var((0, 2, 3), keepdim=True)
                    self.spread.mul_(0.9)
                    self.spread.add_(0.1 * var)
                return x / self.spread * self.scale

        class Net(nn.Module):
            def __init__(self, kind="running"):
                super().__init__()
                self.conv = nn.Conv2d(3, 16, 3)
                self.norm = Norm(16)

            def forward(self, x):
                x = self.conv(x)
                x = self.norm(x)  # !
                self.seen = [x.shape]
                return x
"""


@pytest.mark.parametrize(
    "edit",
    [
        ("Norm(16)", 'Norm(16, kind="plain")'),
        ("Norm(16)", "Norm(16).cuda()"),
        ('self.kind == "running"', 'not self.kind != "running"'),
        ('if self.kind == "running"', 'if self.kind != "running":\n                    pass\n                else'),
        ("Norm(16)", "Norm(16, trains=False)"),
    ],
)
def test_what_a_module_made_so_never_stores(edit: tuple[str, str]) -> None:
    assert_clean(twin(NORMS, edit), CODE)


def test_a_truth_that_a_module_is_made_with() -> None:
    by_truth = NORMS.replace('self.kind == "running"', "self.trains")
    assert_flagged(by_truth, CODE)
    assert_clean(twin(by_truth, ("Norm(16)", "Norm(16, trains=False)")), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("Norm(16)", 'Norm(16, "running")'),
        ("Norm(16)", 'Norm(16, kind="running")'),
        ("Norm(16)", "Norm(16, kind)"),
        ("Norm(16)", "Norm(16, *kind)"),
        ("Norm(16)", 'Norm(16) if kind else Norm(16, kind="running")'),
        ('kind="plain"', 'kind="running"'),
        ("self.kind, self.trains = kind, trains", "self.kind, self.trains = kind or 'running', trains"),
        (
            "            def forward",
            "            def switch(self, kind):\n                self.kind = kind\n\n            def forward",
        ),
    ],
)
def test_what_a_module_made_so_may_store(edit: tuple[str, str]) -> None:
    assert_flagged(NORMS.replace(*edit), CODE)


ATTENDED = """
        class Memory:
            def __init__(self, size):
                self.slots, self.weights = torch.zeros(size, 8), torch.zeros(size)
                self.attend = nn.Linear(8, size)

            def read(self, x):
                self.weights = self.attend(x)
                return self.weights

            def write(self, row, rate):
                self.slots = rate * self.weights.unsqueeze(1) * row + (1 - rate) * self.slots

        class Trainer:
            def __init__(self, rate):
                self.net, self.memory, self.rate = nn.Linear(8, 8), Memory(4), rate

            def train(self, loader, optimizer, learner):
                for x, y in loader:
                    loss = F.cross_entropy(self.memory.read(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    row = learner.fit(x)
                    self.memory.write(row, self.rate)  # !
"""


def _named(snippet: str) -> list[str]:
    return [finding.message.split(" is kept")[0] for finding in findings(snippet, CODE)]


def test_what_the_object_had_is_named_where_what_is_given_has_no_graph() -> None:
    assert_flagged(ATTENDED, CODE)
    (finding,) = findings(ATTENDED, CODE)
    assert finding.message.startswith("`rate * self.weights.unsqueeze(1) * row` is kept")
    assert finding.help == "detach it where it is stored: the object has the graph from an earlier call"
    assert finding.fix is None
    assert_clean(twin(ATTENDED, ("= self.attend(x)", "= self.attend(x).detach()")), CODE)


def test_what_is_given_is_named_where_it_has_the_graph() -> None:
    assert _named(ATTENDED.replace("learner.fit(x)", "self.net(x)")) == ["`row`"]
    assert _named(ATTENDED.replace("(row, self.rate)", "(self.net(x), self.rate)")) == ["`self.net(x)`"]


NAMELESS = """
        class Fitting:
            def __init__(self, f, opt, env, w):
                self.f, self.opt, self.env, self.w = f, opt, env, w
                self.history = []

            def keep(self, v):
                self.history.append(v)

            def fit(self, steps):
                for _ in range(steps):
                    s = self.env.step()
                    z = {made}
                    self.opt.zero_grad()
                    z.backward()
                    self.opt.step()
                    self.keep({kept})  # !
"""


@pytest.mark.parametrize("made", ["F.mse_loss(self.f(s), s)", "self.f(s).mean()", "self.f(s)"])
def test_what_backward_is_called_on_is_a_loss_whatever_its_name(made: str) -> None:
    assert_flagged(NAMELESS.format(made=made, kept="z"), CODE)
    for kept in ("s", "z.item()", "z.detach()"):
        assert_clean(twin(NAMELESS.format(made=made, kept=kept)), CODE)


@pytest.mark.parametrize("made", ["(self.w * s).sum()", "F.mse_loss(F.linear(s, self.w), s)", "self.f(s) + s.mean()"])
def test_what_a_loss_is_made_of_may_be_a_state_without_a_graph(made: str) -> None:
    assert_clean(twin(NAMELESS.format(made=made, kept="s")), CODE)


MIXED = (
    METER
    + """
        def train(model: nn.Module, loader, optimizer):
            meters = [AverageMeter(), AverageMeter()]
            for x, y in loader:
                {taken}
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""
)


@pytest.mark.parametrize(
    "taken",
    [
        "loss = 0\n                for i, part in enumerate(model(x, y)):\n"
        "                    loss = loss + part[0]\n                    meters[i].update(part[1])",
        "loss, stats = model(x, y)\n                meters[0].update(stats[1])",
    ],
)
def test_a_part_of_a_part_of_an_output_may_be_a_number(taken: str) -> None:
    assert_clean(MIXED.format(taken=taken), CODE)


def test_a_part_of_a_part_waits() -> None:
    taken = "loss = 0\n                for part in model(x, y):\n                    loss = loss + part[0]\n"
    snippet = MIXED.format(taken=taken + "                    meters[0].update(part[1])  # !")
    assert_clean(snippet, CODE)
    assert_flagged(snippet, CODE, Confidence.LOW)


@pytest.mark.parametrize(
    "taken",
    [
        "loss = F.mse_loss(model(x), y)\n                meters[0].update(loss)  # !",
        "loss = F.mse_loss(model(x), y)\n                for meter in meters:\n"
        "                    meter.update(loss)  # !",
    ],
)
def test_a_loss_that_an_entry_keeps(taken: str) -> None:
    assert_flagged(MIXED.format(taken=taken), CODE)


PAGES = """
        class Journal:
            def __init__(self):
                self.pages = defaultdict(list)

            def page(self, name):
                {given}

            def write(self, name, record):
                {writes}

        def train(net, loader, optimizer):
            journal = Journal()
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                journal.write("train", {record}){mark}
"""
WRITES = ["self.page(name).append(record)", "rows = self.page(name); rows.append(record)"]


@pytest.mark.parametrize("writes", WRITES)
@pytest.mark.parametrize("record", ["loss", '{"loss": loss}', "(0, loss)"])
@pytest.mark.parametrize(
    "given",
    ["return self.pages[name]", "return self.pages.setdefault(name, [])", "rows = self.pages[name]; return rows"],
)
def test_what_a_method_gives_is_what_it_has(given: str, record: str, writes: str) -> None:
    assert_flagged(PAGES.format(given=given, writes=writes, record=record, mark="  # !"), CODE)
    assert_clean(PAGES.format(given=given, writes=writes, record="loss.item()", mark=""), CODE)


@pytest.mark.parametrize("writes", WRITES)
@pytest.mark.parametrize(
    "given",
    [
        "return list(self.pages[name])",
        "return self.pages[name][-10:]",
        "return self.pages[name].copy()",
        "return [row for row in self.pages[name]]",
        "return sorted(self.pages[name])",
        "return self.pages.pop(name)",
        "return self.pages.get(name, [])",
    ],
)
def test_what_a_method_makes_anew_is_nobodys(given: str, writes: str) -> None:
    assert_clean(PAGES.format(given=given, writes=writes, record="loss", mark=""), CODE)


CONTRAST = """
        class Queue:
            def __init__(self, capacity):
                self.capacity = capacity
                self.rows = torch.randn(capacity, 4)

            def __iadd__(self, keys):
                self.rows = torch.cat([keys, self.rows])[: self.capacity]
                return self

        class Contrast:
            def __init__(self, net, queue):
                self.net, self.queue = net, queue
                self.optimizer = torch.optim.SGD(net.parameters(), 0.1)

            def step(self, x):
                keys = self.net(x)
                loss = (keys @ self.queue.rows.detach().T).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.queue += keys  # !
                return loss.item()

        def train(batches):
            contrast = Contrast(nn.Linear(3, 4), Queue(64))
            for x in batches:
                print(contrast.step(x))
"""


def test_what_a_class_adds_in_its_own_way() -> None:
    assert_flagged(CONTRAST, CODE)
    assert_flagged(CONTRAST.replace("torch.cat([keys, self.rows])[: self.capacity]", "keys + self.rows"), CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.queue += keys", "self.queue += keys.detach()"),
        ("torch.cat([keys, self", "torch.cat([keys.detach(), self"),
        ("self.rows = torch.cat([keys, self.rows])[: self.capacity]", "self.rows = keys"),
        ("self.rows = torch.cat([keys, self.rows])[: self.capacity]", "self.capacity += len(keys)"),
        ("keys = self.net(x)", "keys = self.net(x).data"),
    ],
)
def test_what_a_class_adds_without_a_graph(old: str, new: str) -> None:
    assert_clean(twin(CONTRAST, (old, new)), CODE)


BOARD = """
        class Board:
            def __init__(self):
                self.curves = {"train": {"loss": [], "acc": []}, "val": {"loss": [], "acc": []}}

            def begin(self, split):
                self.curves[split] = {"loss": [], "acc": []}

            def put(self, split, value):
                ROW

        def fit(net, loader, optimizer):
            board = Board()
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                board.put("train", loss)  # !
"""


def board(*lines: str) -> str:
    return BOARD.replace("ROW", "\n                ".join(lines))


@pytest.mark.parametrize(
    "row",
    [
        "row = self.curves[split]",
        'row = self.curves["train"]',
        "row = self.curves.get(split)",
        'row = self.curves.setdefault(split, {"loss": []})',
    ],
)
@pytest.mark.parametrize("put", ['row["loss"].append(value)', 'row["loss"].extend([value])'])
def test_a_list_in_an_entry_that_has_a_name(row: str, put: str) -> None:
    assert_flagged(board(row, put), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        ("row = self.curves[split]", 'row["loss"].append(value.item())'),
        ("row = self.curves[split]", 'row["loss"].append(value)', 'row["loss"].clear()'),
        ("row = self.curves[split]", 'row["loss"].append(value)', 'row["loss"].pop(0)'),
        ("row = self.curves[split]", 'row["loss"] = []', 'row["loss"].append(value)'),
        ("row = self.curves[split]", 'row = {"loss": []}', 'row["loss"].append(value)'),
        ("row = dict(self.curves[split])", 'row["loss"] = []', 'row["loss"].append(value)'),
        ('row = {"loss": []}', "self.curves[split] = row", 'row["loss"].append(value)'),
        ('self.curves["train"] = {"loss": []}', 'row = self.curves["train"]', 'row["loss"].append(value)'),
        ("row = self.curves[split]", 'row["loss"].append(value)', "self.begin(split)"),
    ],
)
def test_a_list_in_an_entry_that_does_not_grow(lines: tuple[str, ...]) -> None:
    assert_clean(board(*lines), CODE)


def test_an_entry_that_is_begun_anew_before_each_step() -> None:
    begun = twin(
        board("row = self.curves[split]", 'row["loss"].append(value)'),
        ("for x, y in loader:\n", 'for x, y in loader:\n                board.begin("train")\n'),
    )
    assert_clean(begun, CODE)


KEPT_FOR_LATER = """
    class Aux:
        pending = []

        @classmethod
        def add(cls, loss):
            cls.pending.append(loss)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(4, 4)

        def forward(self, x):
            p = self.router(x).softmax(-1)
            Aux.add(p.pow(2).mean())  # !
            return x * p

    model = Layer()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for t in range(100):
        loss = model(torch.randn(8, 4)).mean()
        {use}
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize(
    "use",
    [
        "loss = loss + 0.01 * Aux.pending[-1]",
        "loss = loss + torch.stack(Aux.pending[-2:]).sum()",
        "loss = loss + sum(Aux.pending[-2:])",
        "for each in Aux.pending[-2:]: loss = loss + each",
    ],
)
def test_of_what_may_be_backpropagated_later_no_edit_cuts_the_graph(use: str) -> None:
    snippet = KEPT_FOR_LATER.format(use=use)
    assert_flagged(snippet, CODE)
    (finding,) = findings(snippet, CODE)
    assert finding.fix is None
    assert (finding.help or "").startswith("empty `Aux.pending` when it was used; if nothing backpropagates it, pass")


@pytest.mark.parametrize("use", ["pass", "print(len(Aux.pending))", "Aux.pending.append(None)", "Aux.pending[0] = 0"])
def test_what_nobody_computes_with_is_detached(use: str) -> None:
    (finding,) = findings(KEPT_FOR_LATER.format(use=use), CODE)
    assert finding.fix is not None
    assert (finding.help or "").startswith("pass `p.pow(2).mean().detach()`")


POOL = """
        class Pool:
            def __init__(self, size):
                self.size, self.points = size, torch.empty(0, 2)

            def some(self):
                return self.points.detach() + 0.1

            def update(self, x, r):
                worst = r.detach().abs().topk(4).indices
                {kept}

        def main(steps):
            field = nn.Linear(2, 1)
            opt = torch.optim.Adam(field.parameters())
            pool = Pool(192)
            for step in range(steps):
                x = torch.cat([torch.rand(30, 2), pool.some()]).requires_grad_()
                r = field(x)
                loss = r.square().mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
                pool.update(x, r){mark}
"""


@pytest.mark.parametrize(
    "kept",
    [
        "self.points = torch.cat([self.points, x[worst]])[-self.size:]",
        "self.points = torch.cat([self.points[4:], x[worst]])",
        "self.points = 0.9 * self.points + 0.1 * x[worst].mean(0)",
    ],
)
def test_what_a_callee_computes_of_a_leaf_has_a_graph(kept: str) -> None:
    assert_flagged(POOL.format(kept=kept, mark="  # !"), "GG107")


@pytest.mark.parametrize(
    "kept",
    [
        "self.points = torch.cat([self.points, x.detach()[worst]])[-self.size:]",
        "self.points = torch.cat([self.points, x[worst]])[-self.size:].detach()",
        "self.points = x[worst]",
        "self.points = x",
        "self.points = self.points if worst.any() else x",
    ],
)
def test_what_a_callee_cuts_or_replaces_is_not_chained(kept: str) -> None:
    assert_clean(POOL.format(kept=kept, mark=""), "GG107")


BY_KEYWORD = """
    class Meter:
        def __init__(self):
            self.sum, self.count = 0, 0

        def update(self, val, num=1):
            self.sum += val * num
            self.count += num

    class Manager:
        def __init__(self):
            self.meters = defaultdict(Meter)

    def noted(out, y, manager):
        losses = {"total": F.mse_loss(out, y)}
        for name, value in losses.items():
            manager.meters[name].update(CALL)
        return losses

    def train(model, manager, loader, optimizer):
        for x, y in loader:
            losses = noted(model(x), y, manager)  # !
            optimizer.zero_grad()
            losses["total"].backward()
            optimizer.step()

    def main(model, loader, optimizer):
        train(model, Manager(), loader, optimizer)
"""


@pytest.mark.parametrize("call", ["val=value, num=4", "value, 4", "num=4, val=value"])
def test_a_meter_that_is_given_all_by_keyword(call: str) -> None:
    assert_flagged(BY_KEYWORD.replace("CALL", call), CODE)


@pytest.mark.parametrize("call", ["val=value.item(), num=4", "val=float(value)", "loss=value, count=4", "total=value"])
def test_a_number_by_keyword_or_a_dict(call: str) -> None:
    assert_clean(BY_KEYWORD.replace("CALL", call), CODE)


EVENTS = """
    import functools
    from functools import partial

    class Bus:
        def __init__(self):
            self.handlers = defaultdict(list)

        def on(self, event, handler):
            self.handlers[event].append(handler)

        def emit(self, event, **payload):
            for handler in self.handlers[event]:
                handler(**payload)

    class History:
        def __init__(self):
            self.curves = {}

        def collect(self, prefix, step, loss):
            self.curves.setdefault(f"{prefix}/loss", []).append((step, loss))

        def attach(self, bus):
            bus.on("step", HANDLER)

    def train(model, loader, optimizer):
        bus, history = Bus(), History()
        history.attach(bus)
        for step, (x, y) in enumerate(loader):
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            bus.emit("step", step=step, loss=GIVEN)
"""


@pytest.mark.parametrize("handler", ['partial(self.collect, "train")', 'functools.partial(self.collect, prefix="t")'])
def test_a_handler_that_is_given_its_first_argument_before(handler: str) -> None:
    events = EVENTS.replace("HANDLER", handler)
    assert_flagged(events.replace("GIVEN)", "loss)  # !"), CODE)
    assert_clean(events.replace("GIVEN", "loss.item()"), CODE)


COUNTED = """
    import collections
    from collections import Counter, OrderedDict

    class Ledger:
        def __init__(self):
            self.calls, self.totals = 0, MADE

        def record(self, **losses):
            self.calls += 1
            self.totals.update(losses)

    def train(model, loader, optimizer):
        ledger = Ledger()
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ledger.record(loss=GIVEN)
"""


@pytest.mark.parametrize("made", ["Counter()", "collections.Counter()"])
def test_a_counter_adds_up_what_it_is_given(made: str) -> None:
    leaking = COUNTED.replace("MADE", made)
    assert_flagged(leaking.replace("GIVEN)", "loss)  # !"), CODE)
    assert_clean(leaking.replace("GIVEN", "loss.item()"), CODE)


@pytest.mark.parametrize("made", ["{}", "dict()", "OrderedDict()"])
def test_a_dict_is_brought_up_to_date(made: str) -> None:
    assert_clean(COUNTED.replace("MADE", made).replace("GIVEN", "loss"), CODE)


METERS = """
    class Meters:
        def __init__(self):
            self.totals = {}

        def update(self, **values):
            for name, value in values.items():
                self.totals[name] = self.totals.get(name, 0.0) + value

    def train(model, loader, optimizer):
        meters = Meters()
        for x in loader:
            terms = model(x)
            loss = sum(terms.values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meters.update(loss=loss.detach(), **terms)  # !
"""


@pytest.mark.parametrize(
    ("call", "named", "edit"),
    [
        ("loss=loss.detach(), **terms", "terms", None),
        ("**terms, loss=loss.detach()", "terms", None),
        ("loss=loss.detach(), total=loss", "loss", "loss.detach()"),
        ("loss=loss, **{}", "loss", "loss.detach()"),
    ],
)
def test_the_argument_that_has_the_graph_is_named(call: str, named: str, edit: str | None) -> None:
    assert_flagged(METERS.replace("loss=loss.detach(), **terms", call), CODE)
    (finding,) = findings(METERS.replace("loss=loss.detach(), **terms", call), CODE)
    assert finding.message.startswith(f"`{named}` is kept")
    assert (finding.fix.edits[0].text if finding.fix is not None else None) == edit


@pytest.mark.parametrize(
    "each", ["for name, value in (logs or {}).items():", "for name, value in logs.items():", "for name in logs:"]
)
def test_a_dict_has_no_detach(each: str) -> None:
    snippet = f"""
        class History:
            def __init__(self):
                self.rows = {{}}

            def keep(self, logs):
                {each}
                    self.rows.setdefault(name, []).append({"logs[name]" if "value" not in each else "value"})

        class Trainer:
            def step(self, x):
                loss = self.net(x).mean()
                logs = {{"loss": loss}}
                logs.update({{name: measure(loss) for name, measure in self.measures.items()}})
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                return logs

            def fit(self, loader):
                history = History()
                for x in loader:
                    logs = self.step(x)
                    history.keep(logs)  # !
    """
    assert_flagged(snippet, CODE)
    (finding,) = findings(snippet, CODE)
    assert finding.fix is None
    assert "the values in `logs` without their graphs" in (finding.help or "")


def test_neither_has_one_that_a_model_gives() -> None:
    snippet = """
        class Log:
            def __init__(self):
                self.rows = []

            def keep(self, row):
                self.rows.append(row)

        def train(model, optimizer, loader):
            log = Log()
            for x in loader:
                optimizer.zero_grad()
                row = model(x)
                loss = row["kl"] + row["nll"]
                loss.backward()
                optimizer.step()
                log.keep(row)  # !
    """
    assert_flagged(snippet, CODE)
    (finding,) = findings(snippet, CODE)
    assert finding.fix is None
    assert ".detach()` each" in (finding.help or "")

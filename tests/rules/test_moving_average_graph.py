from __future__ import annotations

import re

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG106"

FLAGGED = {
    "an entry that goes on from itself by another name": """
        def train(net, loader, optimizer, log):
            for x, y in loader:
                before = log["means"][0]
                loss = F.mse_loss(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                log["means"][0] = 0.9 * before + 0.1 * loss  # !
    """,
    "the entries of a list, by the loop that goes over it": """
        def train(nets, loader, optimizer):
            means = [torch.zeros(()) for _ in nets]
            for x, y in loader:
                losses = [F.mse_loss(net(x), y) for net in nets]
                optimizer.zero_grad()
                sum(losses).backward()
                optimizer.step()
                for i, (mean, loss) in enumerate(zip(means, losses)):
                    means[i] = 0.9 * mean + 0.1 * loss  # !
    """,
    "a frozen copy's parameters, scaled and added to": """
        from copy import deepcopy

        def train(net, loader, optimizer):
            slow = deepcopy(net).requires_grad_(False)
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for s, p in zip(slow.parameters(), net.parameters()):
                    s.mul_(0.99).add_(p, alpha=0.01)  # !
    """,
    "a frozen copy's parameters, interpolated": """
        from copy import deepcopy

        def train(net, loader, optimizer):
            slow = deepcopy(net).requires_grad_(False)
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for s, p in zip(slow.parameters(), net.parameters()):
                    s.lerp_(p, 0.01)  # !
    """,
    "by a mixin's method, of an object that the class has": """
        class Slow:
            def __init__(self, net):
                self.net = net
                self.weights = {name: p.detach().clone() for name, p in net.named_parameters()}

            def follow(self):
                for name, now in self.net.named_parameters():
                    self.weights[name] = torch.lerp(self.weights[name], now, 0.01)  # !

        class SlowMixin:
            def after_update(self):
                self.ema.follow()

        class Runner(SlowMixin):
            def __init__(self, net, slow, batches, solver):
                self.net = net
                self.ema = slow
                self.batches = batches
                self.solver = solver

            def one(self, x):
                self.solver.zero_grad()
                self.net(x).mean().backward()
                self.solver.step()
                self.after_update()

            def run(self):
                for x in self.batches:
                    self.one(x)

        net = nn.Linear(3, 1)
        Runner(net, Slow(net), [], torch.optim.SGD(net.parameters(), 0.1)).run()
    """,
    "interpolated by key": """
        class Teacher:
            def __init__(self, student):
                self.student = student
                self.weights = {name: p.detach().clone() for name, p in student.named_parameters()}

            def follow(self):
                for name, now in self.student.named_parameters():
                    self.weights[name] = torch.lerp(self.weights[name], now, 0.01)  # !

        def train(net, opt, loader):
            teacher = Teacher(net)
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                teacher.follow()
    """,
    "a target network's parameters, in a helper": """
        from copy import deepcopy

        def blend(target, source, tau):
            for slow, fast in zip(target.parameters(), source.parameters()):
                slow.mul_(1.0 - tau).add_(fast, alpha=tau)  # !

        class Agent:
            def __init__(self, width):
                self.online = nn.Linear(width, 2)
                self.slow = deepcopy(self.online).requires_grad_(False)
                self.adam = torch.optim.Adam(self.online.parameters())

            def learn(self, seen, goal):
                error = F.smooth_l1_loss(self.online(seen), goal)
                self.adam.zero_grad()
                error.backward()
                self.adam.step()
                blend(self.slow, self.online, 0.02)
                return error.item()

        def main(data):
            agent = Agent(4)
            for seen, goal in data:
                agent.learn(seen, goal)
    """,
    "a teacher's parameters, copied": """
        def train(student, teacher, loader, optimizer):
            teacher.requires_grad_(False)
            for x, y in loader:
                loss = F.mse_loss(student(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for i, (t, s) in enumerate(zip(teacher.parameters(), student.parameters())):
                    t.copy_(0.99 * t + 0.01 * s)  # !
    """,
    "a teacher's parameters, by augmented assignments": """
        def train(student, teacher, loader, optimizer):
            teacher.requires_grad_(False)
            for x, y in loader:
                loss = F.mse_loss(student(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for t, s in zip(teacher.parameters(), student.parameters()):
                    t *= 0.99
                    t += 0.01 * s  # !
    """,
    "loss": """
        def train(model, loader, optimizer):
            avg = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                avg = 0.9 * avg + 0.1 * loss  # !
            print(f"loss {avg:.4f}")
    """,
    "loss, first value apart": """
        def train(model, loader, optimizer, beta=0.98):
            smooth = None
            for step, (x, y) in enumerate(loader):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                smooth = loss if smooth is None else smooth * beta + loss * (1 - beta)  # !
                if step % 10 == 0:
                    print(step, smooth.item())
    """,
    "script": """
        net = nn.Linear(4, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.01)
        running = None
        for epoch in range(2):
            for inputs, targets in train_loader:
                opt.zero_grad()
                loss = F.cross_entropy(net(inputs), targets)
                loss.backward()
                opt.step()
                if running is None:
                    running = loss
                else:
                    running = 0.99 * running + 0.01 * loss  # !
    """,
    "dict of meters": """
        def train_epoch(model, loader, optimizer):
            meters = {"loss": 0.0, "acc": 0.0}
            for x, y in loader:
                logits = model(x)
                loss = F.cross_entropy(logits, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                acc = (logits.argmax(1) == y).float().mean()
                meters["loss"] = 0.95 * meters["loss"] + 0.05 * loss  # !
                meters["acc"] = 0.95 * meters["acc"] + 0.05 * acc
            return meters
    """,
    "attribute of the trainer": """
        class Trainer:
            def __init__(self, model, optimizer):
                self.model = model
                self.optimizer = optimizer
                self.ema_loss = 0.0

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    loss = F.cross_entropy(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()
                    self.ema_loss = 0.99 * self.ema_loss + (1 - 0.99) * loss  # !
    """,
    "baseline of REINFORCE": """
        class Reinforce:
            def __init__(self, policy, optimizer, m=0.9):
                self.policy, self.optimizer, self.m = policy, optimizer, m
                self.baseline = 0.0

            def update(self, states, actions, rewards):
                log_p = F.log_softmax(self.policy(states), dim=-1)
                reward_loss = F.nll_loss(log_p, actions, reduction="none") * rewards
                reward_loss = reward_loss.mean()
                self.optimizer.zero_grad()
                reward_loss.backward()
                self.optimizer.step()
                self.baseline = self.m * self.baseline + (1 - self.m) * reward_loss  # !
    """,
    "running mean of features": """
        class Centered(nn.Module):
            def __init__(self, dim, momentum=0.9):
                super().__init__()
                self.proj = nn.Linear(dim, dim)
                self.momentum = momentum
                self.register_buffer("center", torch.zeros(dim))

            def forward(self, x):
                h = self.proj(x)
                if not self.training:
                    return h - self.center
                mean = h.mean(dim=0)
                self.center = self.center * self.momentum + mean * (1 - self.momentum)  # !
                return h - mean
    """,
    "running statistics of a batch norm": """
        class BatchNorm(nn.Module):
            def __init__(self, dim, m=0.9, eps=1e-5):
                super().__init__()
                self.m, self.eps = m, eps
                self.gamma = nn.Parameter(torch.ones(dim))
                self.beta = nn.Parameter(torch.zeros(dim))
                self.register_buffer("running_mean", torch.zeros(dim))
                self.register_buffer("running_var", torch.ones(dim))

            def forward(self, x):
                mean, var = self.running_mean, self.running_var
                if self.training:
                    mean, var = x.mean(0), x.var(0, unbiased=False)
                    self.running_mean = self.m * self.running_mean + (1 - self.m) * x.mean(0)  # !
                    self.running_var = self.m * self.running_var + (1 - self.m) * var  # !
                return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta
    """,
    "in place": """
        class Whiten(nn.Module):
            def __init__(self, dim, m=0.99):
                super().__init__()
                self.fc = nn.Linear(dim, dim)
                self.m = m
                self.register_buffer("running_mean", torch.zeros(dim))
                self.register_buffer("running_var", torch.ones(dim))

            def forward(self, x):
                z = self.fc(x)
                self.running_mean.mul_(self.m).add_((1 - self.m) * z.mean(0))  # !
                self.running_var.mul_(self.m).add_(z.var(0), alpha=1 - self.m)  # !
                return z
    """,
    "lerp": """
        class Prototypes(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.encoder = nn.Sequential(nn.Linear(dim, dim), nn.ReLU())
                self.register_buffer("prototype", torch.zeros(dim))

            def forward(self, x):
                feats = self.encoder(x)
                self.prototype.lerp_(feats.mean(0), 0.1)  # !
                return feats
    """,
    "parameters in a dict": """
        def update_ema(model, shadow, d=0.999):
            for name, p in model.named_parameters():
                shadow[name] = d * shadow[name] + (1 - d) * p  # !

        def train(model, loader, optimizer):
            shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                update_ema(model, shadow)
            return shadow
    """,
    "parameters in an EMA class": """
        class EMA:
            def __init__(self, model, decay):
                self.model, self.decay = model, decay
                self.shadow = {n: p.data.clone() for n, p in model.named_parameters() if p.requires_grad}

            def update(self):
                for name, param in self.model.named_parameters():
                    if param.requires_grad:
                        self.shadow[name] = (1.0 - self.decay) * param + self.decay * self.shadow[name]  # !

        def train(model, loader, optimizer):
            ema = EMA(model, 0.999)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                ema.update()
    """,
    "parameters in the loop itself": """
        def train(model, loader, optimizer, decay=0.99):
            averaged = [p.detach().clone() for p in model.parameters()]
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
                for i, p in enumerate(model.parameters()):
                    averaged[i] = averaged[i] * decay + p * (1 - decay)  # !
            return averaged
    """,
    "output of a teacher in a while loop": """
        def distill(student, optimizer, batches, max_steps):
            center = torch.zeros(1, 3)
            step = 0
            while step < max_steps:
                x = next(batches)
                out = student(x)
                loss = F.mse_loss(out, out.detach() - center.detach())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                center = center * 0.9 + out.mean(dim=0, keepdim=True) * 0.1  # !
                step += 1
    """,
    "global": """
        LOSS_EMA = 0.0

        def train_step(model, batch, optimizer):
            global LOSS_EMA
            x, y = batch
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            LOSS_EMA = 0.9 * LOSS_EMA + 0.1 * loss  # !
            return LOSS_EMA
    """,
}

CLEAN = {
    "an item that is replaced by what it was before the loop, and a step": """
        def attack(net, batch, y, steps):
            start = batch["image"][0]
            delta = torch.zeros_like(start)
            for _ in range(steps):
                delta.requires_grad_(True)
                batch["image"][0] = start + delta
                loss = F.cross_entropy(net(batch), y)
                loss.backward()
                delta = (delta + 0.01 * delta.grad.sign()).detach()
            return delta
    """,
    "an item of a list of weights that is tried out": """
        def tune(net, weights, x, y):
            first = weights[0]
            step = torch.zeros_like(first, requires_grad=True)
            optimizer = torch.optim.SGD([step], 0.1)
            for _ in range(100):
                weights[0] = first + step
                loss = F.mse_loss(net(x, weights), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "each attribute set to what it was at first, and a step": """
        class Attack:
            def run(self, names, x, steps):
                for name in names:
                    start = getattr(self, name)
                    for _ in range(steps):
                        step = self.net(x)
                        step.sum().backward()
                        setattr(self, name, start + step)
    """,
    "each tensor of a dict, from what it was at first": """
        def attack(net, batch, y, steps):
            start = {k: v.clone() for k, v in batch.items()}
            delta = {k: torch.zeros_like(v, requires_grad=True) for k, v in batch.items()}
            for _ in range(steps):
                for k in start:
                    batch[k] = start[k] + delta[k]
                loss = F.cross_entropy(net(batch), y)
                loss.backward()
    """,
    **{
        f"a frozen copy's parameters, {name}, {how}": twin(FLAGGED[f"a frozen copy's parameters, {name}"], edit)
        for name in ("scaled and added to", "interpolated")
        for how, edit in {
            "under no_grad": ("for s, p in", "with torch.no_grad():\n                  for s, p in"),
            "detached": ("_(p, ", "_(p.detach(), "),
            "their data": ("                    s.", "                    s.data."),
        }.items()
    },
    "by a mixin's method, under no_grad": twin(
        FLAGGED["by a mixin's method, of an object that the class has"],
        ("    self.ema.follow()", "    with torch.no_grad():\n                    self.ema.follow()"),
    ),
    "by a mixin's method, copied": twin(
        FLAGGED["by a mixin's method, of an object that the class has"], ("now, 0.01", "now.detach(), 0.01")
    ),
    "interpolated by key, without graphs": """
        class Teacher:
            def __init__(self, student):
                self.student = student
                self.weights = {name: p.detach().clone() for name, p in student.named_parameters()}

            @torch.no_grad()
            def follow(self):
                for name, now in self.student.named_parameters():
                    self.weights[name] = torch.lerp(self.weights[name], now, 0.01)

        def train(net, opt, loader):
            teacher = Teacher(net)
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                teacher.follow()
    """,
    "a target network's parameters, under a decorator": twin(
        FLAGGED["a target network's parameters, in a helper"], ("def blend(", "@torch.no_grad()\n        def blend(")
    ),
    "a target network's parameters, detached": twin(
        FLAGGED["a target network's parameters, in a helper"], ("add_(fast,", "add_(fast.detach(),")
    ),
    "a target network's parameters, through data": twin(
        FLAGGED["a target network's parameters, in a helper"], ("slow.mul_", "slow.data.mul_")
    ),
    "a target network's buffers": twin(
        FLAGGED["a target network's parameters, in a helper"],
        ("parameters(), source.parameters()", "buffers(), source.buffers()"),
    ),
    "a teacher's parameters, copied as they are stored": twin(
        FLAGGED["a teacher's parameters, copied"], ("0.01 * s)", "0.01 * s.data)")
    ),
    "weights that are scaled": """
        @torch.no_grad()
        def shrink(model):
            for p in model.parameters():
                p.mul_(0.9)

        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                for p in model.parameters():
                    p.grad.mul_(0.5).add_(p.detach(), alpha=1e-4)
                optimizer.step()
                shrink(model)
    """,
    "item": """
        def train(model, loader, optimizer):
            avg = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                avg = 0.9 * avg + 0.1 * loss.item()
            return avg
    """,
    "detached": """
        def train(model, loader, optimizer):
            avg = torch.zeros(())
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                avg = 0.9 * avg + 0.1 * loss.detach()
                avg = 0.9 * avg + 0.1 * loss.data
                avg = 0.9 * avg + 0.1 * float(loss)
            return avg
    """,
    "the number has its own name": """
        def train(model, loader, optimizer, beta=0.98):
            avg_loss, batch_num, losses = 0.0, 0, []
            for x, y in loader:
                batch_num += 1
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                loss = loss.item()
                avg_loss = beta * avg_loss + (1 - beta) * loss
                losses.append(avg_loss / (1 - beta**batch_num))
            return losses
    """,
    "average under no_grad": """
        def train(model, loader, optimizer):
            avg = torch.zeros(())
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                with torch.no_grad():
                    avg = 0.9 * avg + 0.1 * loss
    """,
    "trainer with numbers": """
        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer
                self.baseline = 0.0

            def step(self, states, actions, rewards):
                log_p = F.log_softmax(self.model(states), dim=-1)
                adv = rewards - self.baseline
                loss = (F.nll_loss(log_p, actions, reduction="none") * adv).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.baseline = 0.9 * self.baseline + 0.1 * rewards.mean()
                self.smooth = 0.9 * getattr(self, "smooth", 0.0) + 0.1 * loss.cpu().item()
    """,
    "accuracy": """
        def train(model, loader, optimizer):
            acc = torch.zeros(())
            for x, y in loader:
                logits = model(x)
                loss = F.cross_entropy(logits, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                correct = (logits.argmax(1) == y).float().mean()
                acc = 0.95 * acc + 0.05 * correct
            return acc
    """,
    "shadow of parameters under no_grad": """
        class EMA:
            def __init__(self, model, decay=0.999):
                self.model, self.decay = model, decay
                self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

            @torch.no_grad()
            def update(self):
                for name, p in self.model.named_parameters():
                    self.shadow[name] = self.decay * self.shadow[name] + (1 - self.decay) * p

        def train(model, loader, optimizer):
            ema = EMA(model)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                ema.update()
    """,
    "shadow of parameters' data": """
        class EMA:
            def __init__(self, model, decay):
                self.model, self.decay = model, decay
                self.shadow = {n: p.data.clone() for n, p in model.named_parameters() if p.requires_grad}

            def update(self):
                for name, param in self.model.named_parameters():
                    if param.requires_grad:
                        new_average = (1.0 - self.decay) * param.data + self.decay * self.shadow[name]
                        self.shadow[name] = new_average.clone()

        def train(model, loader, optimizer):
            ema = EMA(model, 0.999)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                ema.update()
    """,
    "from the state dict": """
        def train(model, loader, optimizer, d=0.9998):
            ema = {k: v.clone() for k, v in model.state_dict().items()}
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                for k, v in model.state_dict().items():
                    if v.dtype.is_floating_point:
                        ema[k] = d * ema[k] + (1 - d) * v
    """,
    "state dict in place": """
        class ModelEMA:
            def __init__(self, model, decay=0.9999):
                from copy import deepcopy
                self.ema = deepcopy(model).eval()
                self.decay = decay

            def update(self, model):
                msd = model.state_dict()
                for k, v in self.ema.state_dict().items():
                    if v.dtype.is_floating_point:
                        v *= self.decay
                        v += (1 - self.decay) * msd[k].detach()

        def train(model, loader, optimizer):
            ema = ModelEMA(model)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                ema.update(model)
    """,
    "target network": """
        def soft_update(target, source, tau=0.005):
            for tp, sp in zip(target.parameters(), source.parameters()):
                tp.data.copy_(tau * sp.data + (1.0 - tau) * tp.data)

        def momentum_update(q, k, m=0.999):
            for param_q, param_k in zip(q.parameters(), k.parameters()):
                param_k.data = param_k.data * m + param_q.data * (1.0 - m)

        def train(q, k, loader, optimizer):
            for x, y in loader:
                loss = F.mse_loss(q(x), k(x).detach())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                soft_update(k, q)
                momentum_update(q, k)
    """,
    "copied under no_grad": """
        def train(model, target, loader, optimizer, tau=0.01):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                with torch.no_grad():
                    for tp, p in zip(target.parameters(), model.parameters()):
                        tp.copy_((1 - tau) * tp + tau * p)
                        tp.mul_(1 - tau).add_(p, alpha=tau)
    """,
    "buffer from detached features": """
        class Centered(nn.Module):
            def __init__(self, dim, m=0.9):
                super().__init__()
                self.proj = nn.Linear(dim, dim)
                self.m = m
                self.register_buffer("center", torch.zeros(dim))

            def forward(self, x):
                h = self.proj(x)
                if self.training:
                    feats = h.detach()
                    self.center = self.m * self.center + (1 - self.m) * feats.mean(0)
                    self.center.mul_(self.m).add_((1 - self.m) * h.data.mean(0))
                return h - self.center
    """,
    "buffer under no_grad": """
        class BatchNorm(nn.Module):
            def __init__(self, dim, m=0.9):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(dim))
                self.m = m
                self.register_buffer("running_mean", torch.zeros(dim))

            def forward(self, x):
                mean = x.mean(0)
                if self.training:
                    with torch.no_grad():
                        self.running_mean = self.m * self.running_mean + (1 - self.m) * mean
                        self.running_mean.lerp_(mean, 0.1)
                return (x - mean) * self.weight
    """,
    "buffer in a method without gradients": """
        class DINOLoss(nn.Module):
            def __init__(self, dim, momentum=0.9):
                super().__init__()
                self.register_buffer("center", torch.zeros(1, dim))
                self.center_momentum = momentum

            def forward(self, student, teacher):
                target = F.softmax(teacher - self.center, dim=-1).detach()
                loss = torch.sum(-target * F.log_softmax(student, dim=-1), dim=-1).mean()
                self.update_center(teacher)
                return loss

            @torch.no_grad()
            def update_center(self, teacher):
                batch_center = teacher.sum(dim=0, keepdim=True) / len(teacher)
                self.center = self.center * self.center_momentum + batch_center * (1 - self.center_momentum)
    """,
    "code book wrapped as a parameter again": """
        class Quantizer(nn.Module):
            def __init__(self, k, dim, decay=0.99):
                super().__init__()
                self.embedding = nn.Embedding(k, dim)
                self.register_buffer("cluster_size", torch.zeros(k))
                self.ema_w = nn.Parameter(torch.randn(k, dim))
                self.decay, self.k = decay, k

            def forward(self, flat):
                idx = torch.cdist(flat, self.embedding.weight).argmin(1)
                onehot = F.one_hot(idx, self.k).float()
                if self.training:
                    self.cluster_size = self.cluster_size * self.decay + (1 - self.decay) * onehot.sum(0)
                    dw = onehot.t() @ flat
                    self.ema_w = nn.Parameter(self.ema_w * self.decay + (1 - self.decay) * dw)
                return self.embedding(idx)
    """,
    "within one step": """
        def train(model, loader, optimizer):
            for x, y in loader:
                avg = 0.0
                for k in range(3):
                    loss = F.cross_entropy(model(x + k), y)
                    avg = 0.5 * avg + 0.5 * loss
                optimizer.zero_grad()
                avg.backward()
                optimizer.step()
    """,
    "backpropagated and made anew": """
        def train(model, loader, optimizer):
            avg = torch.zeros(())
            for x, y in loader:
                optimizer.zero_grad()
                avg = 0.9 * avg + 0.1 * F.cross_entropy(model(x), y)
                avg.backward()
                optimizer.step()
                avg = avg.detach()
    """,
    "mixing two images": """
        def train(model, loader, optimizer):
            for x, y in loader:
                lam = torch.rand(()).item()
                x = lam * x + (1 - lam) * x.flip(0)
                out = model(x)
                loss = lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y.flip(0))
                loss = 0.9 * loss + 0.1 * out.pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "leaky cell": """
        class Leaky(nn.Module):
            def __init__(self, n, hidden, alpha=0.2):
                super().__init__()
                self.inp, self.rec = nn.Linear(n, hidden), nn.Linear(hidden, hidden)
                self.hidden, self.alpha = hidden, alpha

            def forward(self, seq):
                h = torch.zeros(seq.shape[1], self.hidden)
                for x in seq:
                    h = (1 - self.alpha) * h + self.alpha * torch.tanh(self.inp(x) + self.rec(h))
                return h
    """,
    "returns of an episode": """
        def update(policy, optimizer, rewards, log_probs, values, gamma=0.99, lam=0.95):
            R, gae, loss = torch.zeros(1), torch.zeros(1), 0
            for i in reversed(range(len(rewards) - 1)):
                R = gamma * R + rewards[i]
                delta = rewards[i] + gamma * values[i + 1] - values[i]
                gae = gae * gamma * lam + delta
                loss = loss - log_probs[i] * gae
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "gradients": """
        def train(model, loader, beta=0.9, lr=0.1):
            velocity = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
            for x, y in loader:
                model.zero_grad()
                F.cross_entropy(model(x), y).backward()
                for n, p in model.named_parameters():
                    velocity[n] = beta * velocity[n] + (1 - beta) * p.grad
                    p.data -= lr * velocity[n]
    """,
    "validation": """
        def validate(model, loader):
            model.eval()
            avg = 0.0
            with torch.no_grad():
                for x, y in loader:
                    avg = 0.9 * avg + 0.1 * F.cross_entropy(model(x), y)
            return avg
    """,
    "time and rate": """
        import time

        def train(model, loader, optimizer):
            batch_time, lr, end = 0.0, 0.1, time.time()
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                batch_time = 0.9 * batch_time + 0.1 * (time.time() - end)
                lr = 0.99 * lr + 0.01 * 1e-4
                end = time.time()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


IN_A_LOOP = """
    def train(net, loader, optimizer):
        means = {{k: p.detach().clone() for k, p in net.named_parameters()}}
        rows = [p.detach().clone() for p in net.parameters()]
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
            live = dict(net.named_parameters())
            with {mode}:
                {update}
        return means, rows
"""
OF_AN_OBJECT = """
    class Mean:
        def __init__(self, net):
            self.net = net
            self.means = {{k: p.detach().clone() for k, p in net.named_parameters()}}
            self.rows = [p.detach().clone() for p in net.parameters()]

        def update(self, net):
            live = dict(net.named_parameters())
            with {mode}:
                {update}

    class Trainer:
        def __init__(self, net):
            self.net, self.mean = net, Mean(net)
            self.optimizer = torch.optim.SGD(net.parameters(), 0.1)

        def step(self, x):
            self.optimizer.zero_grad()
            self.net(x).mean().backward()
            self.optimizer.step()
            self.mean.update(self.net)
"""
OF_PARAMETERS = [
    "means = {k: w.lerp(live[k], 0.1) for k, w in means.items()}",
    "means = {k: p.lerp(means[k], 0.9) for k, p in net.named_parameters()}",
    "means = {k: torch.lerp(p, means[k], 0.9) for k, p in net.named_parameters()}",
    "means = {k: (0.1 * p).add(means[k].mul(0.9)) for k, p in net.named_parameters()}",
    "means = {k: 0.9 * means[k] + 0.1 * p for k, p in net.named_parameters()}",
    "means = dict((k, 0.9 * w + 0.1 * live[k]) for k, w in means.items())",
    "means.update({k: means[k] * 0.9 + p * 0.1 for k, p in net.named_parameters()})",
    "for k, w in means.items(): means[k] = w.lerp(live[k], 0.1)",
    "rows = [0.9 * w + 0.1 * p for w, p in zip(rows, net.parameters())]",
    "rows = list(torch.lerp(w, p, 0.1) for w, p in zip(rows, net.parameters()))",
    "for i, p in enumerate(net.parameters()): rows[i] = rows[i].lerp(p, 0.1)",
    "new = []\nfor w, p in zip(rows, net.parameters()): new.append(0.9 * w + 0.1 * p)\nrows = new",
    "new = {}\nfor k, p in net.named_parameters(): new[k] = torch.lerp(means[k], p, 0.1)\nmeans = new",
    "means = {k: means[k] + 0.1 * (p - means[k]) for k, p in net.named_parameters()}",
    "means = {k: means[k] + (p - means[k]) / 10 for k, p in net.named_parameters()}",
    "means = {k: w - 0.1 * (w - live[k]) for k, w in means.items()}",
    "rows = [w + (p - w) * 0.1 for w, p in zip(rows, net.parameters())]",
    "rows = [(p - w) * 0.1 + w for w, p in zip(rows, net.parameters())]",
    "for i, p in enumerate(net.parameters()): rows[i] = rows[i] + 0.1 * (p - rows[i])",
    "fresh = {k: torch.lerp(means[k], p, 0.1) for k, p in net.named_parameters()}\nmeans.update(fresh)",
    "fresh = {k: 0.9 * means[k] + 0.1 * p for k, p in net.named_parameters()}\nmeans = fresh",
    "for k, p in net.named_parameters():\n    new = 0.9 * means[k] + 0.1 * p\n    means[k] = new",
    "for k, p in net.named_parameters():\n    old = means[k]\n    old = old + 0.1 * (p - old)\n    means[k] = old",
    "for k, p in net.named_parameters():\n    new = p\n    if i: new = 0.9 * means[k] + 0.1 * p\n    means[k] = new",
]


def _written(form: str, update: str, mode: str) -> str:
    own = re.sub(r"\b(means|rows)\b", r"self.\1", update) if "class" in form else update
    return form.format(update=own.replace("\n", "\n" + " " * 16), mode=mode)


@pytest.mark.parametrize("form", [IN_A_LOOP, OF_AN_OBJECT])
@pytest.mark.parametrize("update", OF_PARAMETERS)
def test_means_of_parameters_in_a_collection(form: str, update: str) -> None:
    assert [found.code for found in findings(_written(form, update, "torch.enable_grad()"), CODE)] == [CODE]
    assert_clean(_written(form, update, "torch.no_grad()"))


@pytest.mark.parametrize("update", OF_PARAMETERS)
@pytest.mark.parametrize("form", [IN_A_LOOP, OF_AN_OBJECT])
def test_means_of_what_parameters_hold(form: str, update: str) -> None:
    update = update.replace("net.parameters()", "[p.detach() for p in net.parameters()]")
    update = update.replace("net.named_parameters()", "net.state_dict().items()").replace("live[k]", "live[k].data")
    assert_clean(_written(form, update, "torch.enable_grad()"))


@pytest.mark.parametrize("start", ["fresh = rows", "fresh = [w.detach() for w in rows]"])
def test_a_collection_that_is_made_of_one_that_is_made_anew(start: str) -> None:
    assert_clean(f"""
        def train(net, loader, optimizer):
            for x, y in loader:
                rows = [p * 2 for p in net.parameters()]
                {start}
                fresh = [0.9 * w + 0.1 * p for w, p in zip(fresh, net.parameters())]
                optimizer.zero_grad()
                sum(w.sum() for w in fresh).backward()
                optimizer.step()
    """)


@pytest.mark.parametrize(
    ("kept", "said"),
    [("batch", "the graph's nodes, and the activations that no backward goes through"), ("batch.detach()", None)],
)
def test_what_backward_leaves_of_statistics_in_a_forward(kept: str, said: str | None) -> None:
    found = findings(
        f"""
        class Norm(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(n))
                self.register_buffer("mean", torch.zeros(n))

            def forward(self, x):
                batch = x.mean(0)
                self.mean = 0.9 * self.mean + 0.1 * {kept}
                return (x - batch) * self.weight
    """,
        CODE,
    )
    assert [said is not None and said in f.message for f in found] == ([True] if said else [])


INNER_LOOP = """
    class Learner(nn.Module):
        def forward(self, support, query, labels):
            fast = dict(self.net.named_parameters())
            for _ in range(self.inner_steps):
                loss = F.cross_entropy(functional_call(self.net, fast, support), labels)
                grads = torch.autograd.grad(loss, tuple(fast.values()), create_graph=True)
                for (name, value), grad in zip(fast.items(), grads):
                    fast[name] = {update}
            return {returned}

    def train(learner, tasks, optimizer):
        for support, query, labels, targets in tasks:
            loss = F.cross_entropy(learner(support, query, labels), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    "update",
    ["value - self.rate * grad", "value - grad * self.rates[name]", "value - self.rate * grad.clamp(-1, 1)"],
)
def test_an_inner_loop_that_the_caller_backpropagates_through(update: str) -> None:
    assert_clean(INNER_LOOP.format(update=update, returned="functional_call(self.net, fast, query)"), CODE)


MEAN_OF_PENALTIES = """
    def penalties(net, loader, optimizer):
        means = {{}}
        for x, y in loader:
            x.requires_grad_()
            loss = F.mse_loss(net(x), y)
            slope = torch.autograd.grad(loss, x, create_graph=True)[0].norm()
            for name in ("slope",):
                means[name] = 0.9 * means.get(name, 0.0) + 0.1 * slope{end}
        return means
"""


def test_a_mean_of_penalties_is_no_inner_loop() -> None:
    assert findings(MEAN_OF_PENALTIES.format(end=""), CODE)
    assert not findings(MEAN_OF_PENALTIES.format(end=".detach()"), CODE)


SEARCH = """
        def search(logits, labels, low=0.2, high=5.0):
            guess = torch.tensor([0.5 * (low + high)]).requires_grad_()
            while high - low > 1e-4:
                if torch.autograd.grad(F.cross_entropy(logits / guess, labels), guess)[0] > 0:
                    high = 0.5 * (low + high)
                else:
                    low = 0.5 * (low + high)
                guess = guess * 0 + 0.5 * (low + high)  # !
            return float(guess)
"""
SCALED = """
        def train(net, loader, optimizer, epochs):
            total = 0
            for epoch in range(epochs):
                for x, y in loader:
                    loss = F.mse_loss(net(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    total += loss
                total = total / len(loader)  # !
            return total
"""


def test_a_number_that_is_added_to_a_leaf_is_not_what_chains() -> None:
    assert_flagged(SEARCH, CODE)
    (finding,) = findings(SEARCH, CODE)
    assert finding.message.startswith("`guess` is computed from what it was")
    assert finding.help.endswith("`(guess * 0 + 0.5 * (low + high)).detach().requires_grad_()`")
    assert finding.fix is None


def test_a_sum_that_is_divided_is_no_moving_average() -> None:
    assert_flagged(SCALED, CODE)
    (finding,) = findings(SCALED, CODE)
    assert finding.message.startswith("`total` is computed from what it was")
    assert finding.help.startswith("go on with `(total / len(loader)).detach()`")


@pytest.mark.parametrize("added", ["0.1 * loss", "0.1 * loss / len(loader)"])
def test_what_goes_into_an_average_is_named(added: str) -> None:
    snippet = SCALED.replace("total = total / len(loader)", f"total = 0.9 * total + {added}")
    (finding,) = findings(snippet, CODE)
    assert f"`{added}`" in finding.message


OF_TERMS = """
    def train(net, loader, optimizer):
        means = {{}}
        for x, y in loader:
            out = net(x)
            terms = {{"fit": F.mse_loss(out, y), "size": out.square().mean()}}
            for name, term in terms.items():
                old = {found}
                means[name] = {kept}
            optimizer.zero_grad()
            sum(terms.values()).backward()
            optimizer.step()
"""
FOUND = ["means.setdefault(name, 1.0)", "means.setdefault(name, torch.zeros(()))", "means.get(name, 1.0)"]


@pytest.mark.parametrize("found", FOUND)
@pytest.mark.parametrize("kept", ["0.9 * old + 0.1 * term", "(1 - 0.1) * old + term * 0.1"])
def test_an_entry_that_is_made_where_it_is_asked_for(found: str, kept: str) -> None:
    assert_flagged(OF_TERMS.format(found=found, kept=f"{kept}  # !"), CODE)


@pytest.mark.parametrize("found", FOUND)
@pytest.mark.parametrize(
    "kept",
    [
        "0.9 * old + 0.1 * term.item()",
        "0.9 * old + 0.1 * term.detach()",
        "0.9 * old + 0.1",
        "float(0.9 * old + 0.1 * term)",
        "(0.9 * torch.as_tensor(old) + 0.1 * term).detach()",
    ],
)
def test_an_entry_that_is_made_of_numbers(found: str, kept: str) -> None:
    assert_clean(OF_TERMS.format(found=found, kept=kept))


def test_an_entry_that_starts_anew_in_each_iteration() -> None:
    start, update = "means = {{}}\n        for x, y in loader:", "for x, y in loader:\n            means = {{}}"
    snippet = OF_TERMS.replace(start, update)
    assert_clean(snippet.format(found=FOUND[0], kept="0.9 * old + 0.1 * term"))


STATISTICS = """
        class Norm(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.register_buffer("running_mean", torch.zeros(width))

            def forward(self, x):
                if self.training:
                    mean = x.mean(0)
                    self.running_mean.lerp_(mean, 0.1)  # !
                else:
                    mean = self.running_mean
                return x - mean

        class Bands(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("bank", torch.rand(4, 4))

            def forward(self, x):
                return x @ self.bank

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.head = Norm(4), nn.Linear(4, 4)
                self.front = nn.Sequential(ROW)

            def forward(self, x):
                BODY

        def train(loader):
            net = Net()
            optimizer = torch.optim.Adam(net.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
"""
AFTER_LAYERS = [
    ("nn.Linear(4, 4), Norm(4)", "return self.head(self.front(x))"),
    ("nn.Flatten(), nn.Linear(4, 4), nn.ReLU(), Norm(4)", "return self.head(self.front(x))"),
    ("Net(), Bands(), Norm(4)", "return self.head(self.front(x))"),
    ("nn.ReLU()", "h = self.head(x)\n                return self.norm(h)"),
    ("nn.ReLU()", "return self.norm(self.head(x))"),
    ("nn.ReLU()", "h = F.relu(self.head(x)) + x\n                return self.head(self.norm(x=h))"),
]


@pytest.mark.parametrize(("row", "body"), AFTER_LAYERS)
def test_statistics_of_what_layers_compute(row: str, body: str) -> None:
    """The module has nothing to learn; what it is given was computed by what has."""
    snippet = STATISTICS.replace("ROW", row).replace("BODY", body)
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("lerp_(mean, 0.1)", "lerp_(mean.detach(), 0.1)")), CODE)
    assert_clean(twin(snippet, ("mean = x.mean(0)", "mean = x.detach().mean(0)")), CODE)
    assert_clean(twin(snippet, ("self.running_mean.lerp_", "self.running_mean.data.lerp_")), CODE)
    without = twin(
        snippet, ("self.running_mean.lerp_", "with torch.no_grad():\n                        self.running_mean.lerp_")
    )
    assert_clean(without, CODE)


@pytest.mark.parametrize(
    ("row", "body"),
    [
        ("Norm(4), nn.Linear(4, 4)", "return self.head(self.front(x))"),
        ("nn.Flatten(), nn.ReLU(), Norm(4), nn.Linear(4, 4)", "return self.head(self.front(x))"),
        ("Bands(), Norm(4), Net()", "return self.head(self.front(x))"),
        ("nn.ReLU()", "return self.head(self.norm(x))"),
        ("nn.ReLU()", "h = self.norm(F.relu(x))\n                return self.head(h)"),
        ("nn.ReLU()", "return self.norm(self.head(x).detach())"),
        (
            "nn.ReLU()",
            "with torch.no_grad():\n                    x = self.head(x)\n                return self.norm(x)",
        ),
        ("nn.Linear(4, 4)", "return self.front(self.norm(x))"),
    ],
)
def test_statistics_of_data(row: str, body: str) -> None:
    assert_clean(twin(STATISTICS.replace("ROW", row).replace("BODY", body)), CODE)


SLOW_WEIGHTS = """
        class Slow:
            def __init__(self, optimizer, alpha=0.5):
                self.optimizer, self.alpha = optimizer, alpha
                self.state = collections.defaultdict(dict)

            def step(self):
                self.optimizer.step()
                for group in self.optimizer.param_groups:
                    for p in group["params"]:
                        STATE
                        if "slow" not in state:
                            state["slow"] = p.detach().clone()
                        slow = state["slow"]
                        slow = UPDATE
                        p.data.copy_(slow)
                        state["slow"] = slow

        def train(net, loader):
            optimizer = Slow(torch.optim.SGD(net.parameters(), lr=0.1))
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                net.zero_grad()
                loss.backward()
                optimizer.step()
"""
STATE = "state = self.state[p]"
CHAINING = ["slow + self.alpha * (p - slow)", "0.5 * slow + 0.5 * p", "slow.lerp(p, self.alpha)"]


@pytest.mark.parametrize("update", CHAINING)
def test_the_parameters_of_an_optimizer_are_leaves(update: str) -> None:
    found = findings(SLOW_WEIGHTS.replace("STATE", STATE).replace("UPDATE", update), CODE)
    assert [finding.code for finding in found] == [CODE]


@pytest.mark.parametrize(
    ("state", "update"),
    [
        (STATE, "slow + self.alpha * (p.data - slow)"),
        (STATE, "slow.lerp(p.detach(), self.alpha)"),
        (STATE, "p.detach()"),
        (STATE, "slow * group['lr']"),
        (STATE, "slow + group['lr'] * p.grad"),
        ("state = {}", CHAINING[0]),
        ("state = dict(self.state[p])", CHAINING[0]),
    ],
)
def test_slow_weights_that_are_cut_or_begun_anew(state: str, update: str) -> None:
    assert_clean(SLOW_WEIGHTS.replace("STATE", state).replace("UPDATE", update))


OWN_OPTIMIZER = """
        class Heavy(torch.optim.Optimizer):
            def __init__(self, params, lr=0.1, momentum=0.9, weight_decay=0.0):
                super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

            @DECORATOR
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is None:
                            continue
                        g = p.grad
                        DECAY
                        state = STATE
                        if not state:
                            state["velocity"] = torch.zeros_like(p)
                        state["velocity"] = UPDATE
                        p.data.add_(state["velocity"].data, alpha=-group["lr"])

        def train(net, loader):
            optimizer = Heavy(net.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
"""
BLENDED = 'group["momentum"] * state["velocity"] + g'
DECAYED = 'g = g + group["weight_decay"] * p'


def _own_optimizer(decay: str, update: str, state: str = "self.state[p]", decorator: str | None = None) -> str:
    code = OWN_OPTIMIZER.replace("DECAY", decay).replace("UPDATE", update).replace("STATE", state)
    line = "            @DECORATOR\n"
    return code.replace("DECORATOR", decorator) if decorator is not None else code.replace(line, "")


@pytest.mark.parametrize(
    ("decay", "update"),
    [
        (DECAYED, BLENDED),
        (f'if group["weight_decay"]: {DECAYED}', BLENDED),
        ('g = g.add(p, alpha=group["weight_decay"])', BLENDED),
        ("pass", '0.9 * state["velocity"] + (g + 0.01 * p)'),
        (DECAYED, '0.9 * state["velocity"] + 0.1 * g'),
        (DECAYED, 'state["velocity"].lerp(g, 0.1)'),
    ],
)
def test_an_optimizer_of_ones_own(decay: str, update: str) -> None:
    found = findings(_own_optimizer(decay, update), CODE)
    assert [finding.code for finding in found] == [CODE]
    assert "velocity" in found[0].message


@pytest.mark.parametrize(
    ("decay", "update"),
    [
        ("pass", BLENDED),
        ("g = g + 0.01 * p.data", BLENDED),
        ("g = g + 0.01 * p.detach()", BLENDED),
        (DECAYED, 'group["momentum"] * state["velocity"] + g.detach()'),
        (DECAYED, 'group["momentum"] * state["velocity"].data + g.data'),
        (DECAYED, 'group["momentum"] * state["velocity"].detach() + g'),
        (DECAYED, "g"),
        ("g = g * p.norm().item()", BLENDED),
    ],
)
def test_an_optimizer_of_ones_own_that_keeps_no_graph(decay: str, update: str) -> None:
    assert_clean(_own_optimizer(decay, update))


@pytest.mark.parametrize("decorator", ["torch.no_grad()", "torch.inference_mode()"])
def test_an_optimizer_of_ones_own_without_gradients(decorator: str) -> None:
    assert_clean(_own_optimizer(DECAYED, BLENDED, decorator=decorator))


@pytest.mark.parametrize("state", ["{}", "dict(self.state[p])"])
def test_an_optimizer_of_ones_own_whose_state_is_anew(state: str) -> None:
    assert_clean(_own_optimizer(DECAYED, BLENDED, state=state))


TABLE = """
        class Table:
            def __init__(self):
                self.seen = {}

            def observe(self, ids, losses):
                for i, loss in zip(ids.tolist(), losses):
                    SMOOTH
                    self.seen[i] = KEPT

        def train(net, loader, optimizer):
            table = Table()
            for ids, x, y in loader:
                losses = F.cross_entropy(net(x), y, reduction="none")
                optimizer.zero_grad()
                losses.mean().backward()
                optimizer.step()
                table.observe(ids, losses)  # !
"""


@pytest.mark.parametrize(
    "smooth",
    [
        "if i in self.seen: loss = 0.7 * self.seen[i] + 0.3 * loss",
        "loss = 0.7 * self.seen[i] + 0.3 * loss",
        "loss = torch.lerp(self.seen[i], loss, 0.3) if i in self.seen else loss",
    ],
)
def test_an_entry_that_goes_on_from_itself_under_a_name(smooth: str) -> None:
    assert_flagged(TABLE.replace("SMOOTH", smooth).replace("KEPT", "loss"), "GG107")
    assert_clean(TABLE.replace("SMOOTH", smooth).replace("KEPT", "loss.detach()").replace("  # !", ""))


@pytest.mark.parametrize(
    "smooth",
    ["if i in self.seen: loss = 0.7 * float(self.seen[i]) + 0.3 * loss", "loss = 2 * loss", "last = self.seen.get(i)"],
)
def test_an_entry_that_is_replaced(smooth: str) -> None:
    assert_clean(TABLE.replace("SMOOTH", smooth).replace("KEPT", "loss").replace("  # !", ""))


WHOLE = """
        class Policy(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.register_buffer("mean", torch.zeros(dim))
                self.body = nn.Linear(dim, dim)

            def forward(self, x):
                self.mean = 0.99 * self.mean + 0.01 * x.mean(0)  # !
                return self.body(x - self.mean.detach())

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.rest = nn.Linear(4, 4), INNER

            def forward(self, x):
                return self.rest(self.first(x))

        def train(loader):
            MADE
            optimizer = torch.optim.Adam(net.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
"""


@pytest.mark.parametrize("made", ["net = Policy(4)", "net = Policy(4).to(device)", "net: nn.Module = Policy(dim=4)"])
def test_the_statistics_of_what_a_whole_model_is_given(made: str) -> None:
    assert_clean(twin(WHOLE.replace("INNER", "nn.Linear(4, 4)").replace("MADE", made)), CODE)


@pytest.mark.parametrize(
    ("inner", "made"),
    [
        ("Policy(4)", "net = Outer()"),
        ("nn.Linear(4, 4)", "net = nn.Sequential(nn.Linear(4, 4), Policy(4))"),
        ("nn.Linear(4, 4)", "net = nn.Sequential(*[Policy(4) for _ in range(3)])"),
        ("nn.Linear(4, 4)", "layers = [nn.Linear(4, 4), Policy(4)]; net = nn.Sequential(*layers)"),
        ("nn.Linear(4, 4)", "net = build()"),
    ],
)
def test_the_statistics_of_what_a_part_of_a_model_is_given(inner: str, made: str) -> None:
    assert_flagged(WHOLE.replace("INNER", inner).replace("MADE", made), CODE)


@pytest.mark.parametrize(
    ("holder", "flagged"),
    [
        ("class Agent:\n            def __init__(self):\n                self.policy = Policy(4)", False),
        ("class Agent(object):\n            def __init__(self):\n                self.policy = Policy(4)", False),
        ("class Head(nn.Module):\n            def __init__(self):\n                self.policy = Policy(4)", True),
        ("class Head(Base):\n            def __init__(self):\n                self.policy = Policy(4)", True),
    ],
)
def test_whose_attribute_a_whole_model_is(holder: str, flagged: bool) -> None:
    snippet = WHOLE.replace("INNER", "nn.Linear(4, 4)").replace("MADE", "net = Agent().policy")
    snippet += f"\n        {holder}\n"
    if flagged:
        assert_flagged(snippet, CODE)
    else:
        assert_clean(twin(snippet), CODE)


@pytest.mark.parametrize(
    ("update", "kept"),
    [
        ("means[k] = 0.9 * means[k] + 0.1 * p", "a sum saves nothing"),
        ("means[k] = means[k].lerp(p, 0.1)", "saved for backward"),
        ("means[k] = 0.9 * means[k] + 0.1 * p.square()", "saved for backward"),
    ],
)
def test_what_an_entry_that_goes_on_keeps(update: str, kept: str) -> None:
    [finding] = findings(
        _written(IN_A_LOOP, f"for k, p in net.named_parameters(): {update}", "torch.enable_grad()"), CODE
    )
    assert kept in finding.message


def test_a_parameter_is_no_number() -> None:
    for finding in findings(FLAGGED["parameters in an EMA class"], CODE):
        assert ".item()" not in (finding.help or "")


def test_an_output_is_no_number() -> None:
    snippet = """
        def evaluate(net, loader):
            kept = []
            for x, y in loader:
                out = net(x)
                F.cross_entropy(out, y).backward()
                kept.append({what})
            return kept
    """
    (output,) = findings(snippet.format(what="out"), "GG104")
    (loss,) = findings(snippet.format(what="F.cross_entropy(out, y)"), "GG104")
    assert ".item()" not in (output.help or "")
    assert "detach()" in (output.help or "")
    assert "detach()" in (loss.help or "")


REWARDED = """
    class Reinforce(nn.Module):
        def __init__(self, decay=0.99):
            DOC
            super().__init__()
            self.decay = decay
            MADE
            self.criterion = nn.CrossEntropyLoss()

        def forward(self, reward, logits, target):
            self.baseline -= (1 - self.decay) * (self.baseline - reward)FLAG
            return self.criterion(logits, target) * (reward - self.baseline)
"""

BUFFER = "self.register_buffer('baseline', torch.zeros(()))"


def _rewarded(doc: str, made: str, flag: str = "") -> str:
    return REWARDED.replace("DOC", doc).replace("MADE", made).replace("FLAG", flag)


@pytest.mark.parametrize("doc", ["pass", f"# {BUFFER}", f'"""{BUFFER}"""'])
def test_a_buffer_whose_loss_is_given_a_reward(doc: str) -> None:
    assert_flagged(_rewarded(doc, BUFFER, "  # !"), CODE)


@pytest.mark.parametrize("made", ["self.baseline = 0.", "self.baseline = 0.0  # a number"])
@pytest.mark.parametrize("doc", ["pass", f"# {BUFFER}", f"    # {BUFFER}", f'"""{BUFFER}"""', f'"""Once: {BUFFER}"""'])
def test_what_only_a_comment_calls_a_buffer(doc: str, made: str) -> None:
    assert_clean(_rewarded(doc, made), CODE)
    assert_clean(_rewarded(doc, made), "GG103")

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, twin

CODE = "GG253"

SOFT = """
class Critic(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.one, self.two = nn.Linear(n, 64), nn.Linear(64, 1)

    def forward(self, x):
        return self.two(F.relu(self.one(x)))

def soft_update(target, source, tau):
    for old, new in zip(target.parameters(), source.parameters()):
        old.data.copy_(old.data * (1.0 - tau) + new.data * tau)

class Agent:
    def __init__(self, n):
        self.critic = Critic(n)
        self.critic_target = Critic(n)
        self.optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        soft_update(self.critic_target, self.critic, 1.0)

    def update(self, state, reward, following):
        later = self.critic_target(following)  # !
        expected = reward + 0.99 * later
        loss = F.mse_loss(self.critic(state), expected)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        soft_update(self.critic_target, self.critic, 0.01)
"""
COPIED = """
import copy

class Agent:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
        self.frozen_net = copy.deepcopy(self.net)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def sync(self):
        self.frozen_net.load_state_dict(self.net.state_dict())

    def learn(self, states, actions, rewards, following):
        q = self.net(states).gather(1, actions)
        best = self.frozen_net(following).max(1)[0]  # !
        loss = F.smooth_l1_loss(q, (rewards + 0.99 * best).unsqueeze(1))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
LOADED_STATE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 4)

    def forward(self, x):
        return self.body(x)

class Agent:
    def __init__(self):
        self.online, self.lr = Net().cuda(), 1e-3
        self.target_net = Net().cuda()
        self.target_net.load_state_dict(self.online.state_dict())
        self.target_net.eval()
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=self.lr)

    def learn(self, batch):
        states, rewards, following = batch
        expected = rewards + 0.9 * self.target_net(following)  # !
        loss = nn.MSELoss()(self.online(states), expected)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
PERCEPTUAL = """
from torchvision import models

class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.vgg = models.vgg19(pretrained=True).features

    def forward(self, x):
        return self.vgg(x).flatten(1)

class PerceptualLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = Features()

    def forward(self, fake, real):
        return F.l1_loss(self.features(fake), self.features(real))  # !

class Trainer:
    def __init__(self, net):
        self.net = net
        self.criterion = PerceptualLoss().cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-4)

    def train(self, loader):
        for low, high in loader:
            loss = self.criterion(self.net(low), high)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
IMAGE = """
from torchvision import models

def paint(content, steps):
    vgg = models.vgg16(weights=models.VGG16_Weights.DEFAULT).features[:16].cuda().eval()
    image = content.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([image], lr=0.1)
    with torch.no_grad():
        wanted = vgg(content)
    for step in range(steps):
        loss = F.mse_loss(vgg(image), wanted)  # !
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return image.detach()
"""
DISTILLED = """
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.Linear(8, width), nn.Linear(width, 4)

    def forward(self, x):
        return self.two(F.relu(self.one(x)))

def train(student, teacher, loader, optimizer, t):
    for x, y in loader:
        optimizer.zero_grad()
        logits = student(x)
        soft = F.softmax(teacher(x) / t, dim=1)  # !
        loss = F.kl_div(F.log_softmax(logits / t, dim=1), soft, reduction="batchmean") + F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()

def main(loader):
    teacher = Net(256)
    teacher.load_state_dict(torch.load("teacher.pt"))
    teacher.eval()
    student = Net(16)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for epoch in range(10):
        train(student, teacher, loader, optimizer, 4.0)
    torch.save(student.state_dict(), "student.pt")
"""
IN_OBJECT = """
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.Linear(8, width), nn.Linear(width, 4)

    def forward(self, x):
        return self.two(F.relu(self.one(x)))

class Distillation:
    def __init__(self, student, teacher):
        self.student, self.rate = student, 0.1
        self.teacher = teacher
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=self.rate)

    def step(self, x):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.student(x), self.teacher(x))  # !
        loss.backward()
        self.optimizer.step()

def main(loader):
    teacher = Net(256)
    teacher.load_state_dict(torch.load("teacher.pt"))
    teacher.eval()
    student = Net(16)
    distillation = Distillation(student, teacher)
    for x, _ in loader:
        distillation.step(x)
"""
FIRST_LAYERS = """
import torchvision.models as models

class Extractor(nn.Module):
    def __init__(self):
        super().__init__()
        vgg = models.vgg19(pretrained=True)
        self.layers = nn.Sequential(*list(vgg.features.children())[:18])

    def forward(self, x):
        return self.layers(x)

extractor = Extractor()
generator = nn.Conv2d(3, 3, 3, padding=1)
optimizer = torch.optim.Adam(generator.parameters())
extractor.eval()
for low, high in loader:
    made = extractor(generator(low))  # !
    loss = F.l1_loss(made, extractor(high).detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OWN_OPTIMIZER = """
class Value(nn.Module):
    def __init__(self, rate, name):
        super().__init__()
        self.name, self.layer = name, nn.Linear(8, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=rate)

    def forward(self, x):
        return self.layer(x)

    def save(self):
        torch.save(self.state_dict(), self.name)

class Agent:
    def __init__(self):
        self.value = Value(1e-3, name="value")
        self.target_value = Value(1e-3, name="target_value")
        self.follow(1.0)

    def save(self):
        self.target_value.save()

    def learn(self, state, reward, following):
        later = self.target_value.forward(following).view(-1)  # !
        later[reward < 0] = 0.0
        self.value.optimizer.zero_grad()
        loss = F.mse_loss(self.value(state).view(-1), reward + 0.99 * later)
        loss.backward()
        self.value.optimizer.step()
        self.follow(0.01)

    def follow(self, tau):
        target_params = self.target_value.named_parameters()
        state = dict(self.value.named_parameters())
        target_state = dict(target_params)
        for name in state:
            state[name] = tau * state[name].clone() + (1 - tau) * target_state[name].clone()
        self.target_value.load_state_dict(state)
"""
TAKEN_LAYERS = """
import copy
import torch.optim as optim
import torchvision.models as models

class StyleLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()

    def forward(self, x):
        self.loss = F.mse_loss(x, self.target)
        return x

cnn = models.vgg19(pretrained=True).features.eval()

def with_losses(cnn, style):
    cnn = copy.deepcopy(cnn)
    losses = []
    model = nn.Sequential()
    for i, name in enumerate("abc"):
        pass
    for layer in cnn.children():
        i += 1
        model.add_module(f"layer_{i}", layer)
        if isinstance(layer, nn.Conv2d):
            loss = StyleLoss(model(style).detach())
            model.add_module(f"loss_{i}", loss)
            losses.append(loss)
    return model, losses

def transfer(cnn, style, image, steps):
    model, losses = with_losses(cnn, style)
    optimizer = optim.LBFGS([image.requires_grad_()])
    for step in range(steps):

        def closure():
            optimizer.zero_grad()
            model(image)  # !
            score = 0
            for each in losses:
                score += each.loss
            score.backward()
            return score

        optimizer.step(closure)
    return image
"""
MODULE = """
import copy

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.rate = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4)), 0.1
        self.follower, self.tau = copy.deepcopy(self.online), 0.01
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=self.rate)
        for net in (self.online, self.follower):
            net.train()

    def learn(self, states, rewards, following):
        later = self.follower(following)  # !
        loss = F.mse_loss(self.online(states), rewards + 0.99 * later)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

def main(replay):
    agent = Agent().cuda()
    agent.train()
    for states, rewards, following in replay:
        agent.learn(states, rewards, following)
    torch.save(agent.state_dict(), "agent.pt")
"""
ALL = [
    MODULE,
    TAKEN_LAYERS,
    OWN_OPTIMIZER,
    SOFT,
    COPIED,
    LOADED_STATE,
    PERCEPTUAL,
    IMAGE,
    DISTILLED,
    IN_OBJECT,
    FIRST_LAYERS,
]


@pytest.mark.parametrize("snippet", ALL)
def test_a_network_that_nothing_trains(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", ALL)
def test_it_is_told_by_this_rule_alone(snippet: str) -> None:
    assert {found.code for found in findings(snippet)} <= {CODE, "GG301", "GG304"}


def test_what_is_said() -> None:
    (found,) = findings(SOFT, CODE)
    assert found.message.startswith("`self.critic_target` runs with a graph, and nothing trains it")
    assert "`self.critic_target.requires_grad_(False)`" in (found.help or "")
    assert [note.message.partition(" ")[0] for note in found.related] == ["this", "it"]


def frozen(path: str) -> str:
    return f"        for p in {path}.parameters():\n            p.requires_grad = False\n"


STEPS = "        self.value.optimizer.step()\n"
STATE = "target_state = dict(target_params)"
ASKS = "        soft = F.softmax(teacher(x)"
LATER = "        later = self.critic_target(following)"
MAKES = "        self.critic_target = Critic(n)\n"


@pytest.mark.parametrize(
    "edits",
    [
        # no graph
        ((LATER, "        with torch.no_grad():\n            later = self.critic_target(following)"),),
        ((LATER, "        later = self.critic_target(following).detach()"),),
        (("0.99 * later", "0.99 * later.data"),),
        (("0.99 * later", "0.99 * later.argmax(1)"),),
        (("0.99 * later", "0.99 * later.max(1)[1]"),),
        (("0.99 * later", "0.99 * (later > 0).float()"),),
        (("0.99 * later", "0.99 * later.long()"),),
        (("0.99 * later", "0.99 * torch.from_numpy(later.cpu().detach().numpy())"),),
        (("self.critic(state), expected)", "self.critic(state), expected.detach())"),),
        (("    def update(self, state", "    @torch.no_grad()\n    def update(self, state"),),
        (("    def forward(self, x):\n", "    @torch.no_grad()\n    def forward(self, x):\n"),),
        # frozen
        ((MAKES, "        self.critic_target = Critic(n).requires_grad_(False)\n"),),
        ((MAKES, MAKES + "        self.critic_target.requires_grad_(False)\n"),),
        ((MAKES, MAKES + frozen("self.critic_target")),),
        ((MAKES, MAKES + "        freeze(self.critic_target)\n"),),
        ((MAKES, MAKES + "        self.critic_target.apply(freeze)\n"),),
        ((MAKES, MAKES + "        set_requires_grad([self.critic_target], False)\n"),),
        (("        old.data.copy_", "        old.requires_grad = False\n        old.data.copy_"),),
        (("nn.Linear(64, 1)\n", "nn.Linear(64, 1)\n" + frozen("self")),),
        # somebody may train it
        (("Adam(self.critic.parameters()", "Adam([*self.critic.parameters(), *self.critic_target.parameters()]"),),
        ((MAKES, MAKES + "        self.other = torch.optim.SGD(self.critic_target.parameters(), lr=0.1)\n"),),
        ((MAKES, MAKES + "        self.nets = [self.critic, self.critic_target]\n"),),
        ((MAKES, MAKES + "        register(self.critic_target)\n"),),
        ((MAKES, MAKES + "        register(self)\n"),),
        (("nn.Linear(64, 1)\n", "nn.Linear(64, 1)\n        register(self.parameters())\n"),),
        (("        old.data.copy_", "        new.grad = old.grad\n        old.data.copy_"),),
        (("class Agent:", "class Agent(nn.Module):"),),
        (("class Agent:", "import library\n\nclass Agent(library.Learner):"),),
        ((MAKES, "        self.critic_target = self.critic\n"),),
        ((MAKES, "        self.critic_target = make_critic(n)\n"),),
        (("class Critic(nn.Module)", "class Critic(library.Net)"),),
        # nothing says that it is not to be trained
        (
            ("        soft_update(self.critic_target, self.critic, 1.0)\n", ""),
            ("        soft_update(self.critic_target, self.critic, 0.01)\n", ""),
        ),
        # nothing is trained
        (("        self.optimizer.step()\n", ""),),
        (("loss.backward()", "loss.backward(inputs=list(self.critic.parameters()))"),),
    ],
)  # fmt: skip
def test_targets_that_cost_nothing_or_may_be_trained(edits: tuple[tuple[str, str], ...]) -> None:
    freeze = "\ndef freeze(net):\n    for p in net.parameters():\n        p.requires_grad = False\n"
    assert_clean(freeze + twin(SOFT, *edits) if "freeze" in str(edits) else twin(SOFT, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        ((STEPS, STEPS + "        self.target_value.optimizer.step()\n"),),
        (("    def save(self):\n        torch", "    def save(self):\n        self.optimizer.step()\n        torch"),),
        ((STATE, STATE + "\n        keep(target_state)"),),
        ((STATE, STATE + "\n        target_state['a'].requires_grad = False"),),
        ((STATE, "target_state = torch.optim.SGD(target_params)"),),
        ((STATE, STATE + "\n        torch.optim.SGD(target_params)"),),
        (("self.follow(1.0)", "self.target_value.layer = self.value.layer"),),
    ],
)  # fmt: skip
def test_a_network_with_an_optimizer_of_its_own_that_is_used(edits: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(OWN_OPTIMIZER, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        (("    optimizer = optim", "    model.requires_grad_(False)\n    optimizer = optim"),),
        (("features.eval()\n", "features.eval()\nfor p in cnn.parameters():\n    p.requires_grad = False\n"),),
        (("optim.LBFGS([image.requires_grad_()])", "optim.LBFGS(model.parameters())"),),
        (("pretrained=True", "pretrained=False"),),
        (("                score += each.loss\n", "                score += each.target.sum()\n"),),
        (("            model(image)\n", "            with torch.no_grad():\n                model(image)\n"),),
        (('model.add_module(f"layer_{i}", layer)', 'model.add_module(f"layer_{i}", nn.ReLU())'),),
        (("return model, losses", "return freeze(model), losses"),),
    ],
)
def test_layers_that_are_taken_and_frozen_or_trained(edits: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(TAKEN_LAYERS, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        (("    agent.train()\n", "    optimizer = torch.optim.SGD(agent.parameters(), lr=0.1)\n"),),
        (("    agent = Agent().cuda()\n", "    agent = prepare(Agent())\n"),),
        (("    agent = Agent().cuda()\n", "    agent = nn.ModuleList([Agent().cuda()])[0]\n"),),
        (("    agent = Agent().cuda()\n", "    return\n"),),
        (("            net.train()\n", "            net.requires_grad_(net is self.online)\n"),),
        (("            net.train()\n", "            register(net)\n"),),
        (("            net.train()\n", "            self.groups = net.parameters()\n"),),
        (("self.online.parameters()", "self.parameters()"),),
        (("copy.deepcopy(self.online), 0.01", "make(self.online)"),),
    ],
)
def test_a_module_that_has_it_and_may_be_trained(edits: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(MODULE, *edits), CODE)


def test_a_part_that_is_shared_with_what_is_trained() -> None:
    assert_clean(
        twin(
            SOFT,
            ("def __init__(self, n):\n        super", "def __init__(self, n, encoder):\n        super"),
            ("nn.Linear(64, 1)\n", "nn.Linear(64, 1)\n        self.encoder = encoder\n"),
            ("self.one(x)", "self.one(self.encoder(x))"),
            ("self.critic = Critic(n)", "encoder = nn.Linear(n, n)\n        self.critic = Critic(n, encoder)"),
            ("self.critic_target = Critic(n)", "self.critic_target = Critic(n, encoder)"),
        ),
        CODE,
    )  # fmt: skip


@pytest.mark.parametrize(
    "edits",
    [
        (("models.vgg19(pretrained=True)", "models.vgg19(pretrained=False)"),),
        (("models.vgg19(pretrained=True)", "models.vgg19()"),),
        (("models.vgg19(pretrained=True)", "models.vgg19(weights=None)"),),
        (("models.vgg19(pretrained=True)", "models.vgg19(weights=settings.weights)"),),
        (("models.vgg19(pretrained=True)", "library.vgg19(pretrained=True)"),),
        (("self.features = Features()", "self.features = Features().requires_grad_(False)"),),
        (("self.features = Features()", "self.features = Features()\n        self.requires_grad_(False)"),),
        (("self.features = Features()\n", "self.features = Features()\n" + frozen("self")),),
        (("True).features\n", "True).features\n" + frozen("self.vgg")),),
        (("PerceptualLoss().cuda()", "PerceptualLoss().cuda().requires_grad_(False)"),),
        (("Adam(self.net.parameters()", "Adam([*self.net.parameters(), *self.criterion.parameters()]"),),
        (("self.criterion = PerceptualLoss().cuda()", "self.criterion = wrap(PerceptualLoss().cuda())"),),
        (("F.l1_loss(self.features(fake), self.features(real))", "F.l1_loss(fake, real)"),),
        (("self.criterion(self.net(low), high)", "F.l1_loss(self.net(low), high) + self.criterion(low, high).item()"),),
    ],
)  # fmt: skip
def test_features_that_are_frozen_or_may_be_trained(edits: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(PERCEPTUAL, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        (("    teacher.eval()\n", ""),),
        (('    teacher.load_state_dict(torch.load("teacher.pt"))\n', ""),),
        (("    teacher.eval()\n", "    if True:\n" + frozen("teacher")),),
        (("SGD(student.parameters()", "SGD(accelerator.prepare(student, teacher)[0].parameters()"),),
        (("SGD(student.parameters()", "SGD(nn.ModuleList([student, teacher]).parameters()"),),
        (("SGD(student.parameters()", "SGD([{'params': student.parameters()}, {'params': teacher.parameters()}]"),),
        ((ASKS, "        with torch.no_grad():\n    " + ASKS),),
        (("logits / t, dim=1), soft,", "logits / t, dim=1), soft.detach(),"),),
    ],
)  # fmt: skip
def test_teachers_that_are_frozen_or_may_be_trained(edits: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(DISTILLED, *edits), CODE)


def test_what_explains_a_network_trains_nothing() -> None:
    assert_clean(
        """
        from torchvision import models

        def saliency(image):
            net = models.resnet18(pretrained=True).eval()
            image.requires_grad_()
            net(image).max().backward()
            return image.grad.abs()
        """,
        CODE,
    )


TARGETS = {
    "nets.py": """
        import torch.nn as nn

        class Critic(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.one = nn.Linear(n, 1)

            def forward(self, x):
                return self.one(x)
        """,
    "agent.py": """
        import torch
        import torch.nn.functional as F
        from nets import Critic

        class Agent:
            def __init__(self, n):
                self.critic = Critic(n)
                self.target = Critic(n)
                self.target.load_state_dict(self.critic.state_dict())
                self.optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

            def update(self, state, reward, following):
                loss = F.mse_loss(self.critic(state), reward + 0.99 * self.target(following))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        """,
    "main.py": """
        import torch
        from agent import Agent

        agent = Agent(4)
        for step in range(100):
            agent.update(torch.randn(8, 4), torch.randn(8, 1), torch.randn(8, 4))
        """,
}


def test_other_files(tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, TARGETS, CODE) == [("agent.py", 14)]


@pytest.mark.parametrize(
    "line",
    [
        "agent.target.requires_grad_(False)",
        "optimizer = torch.optim.SGD(agent.target.parameters(), lr=0.1)",
        "for name in ('critic', 'target'):\n            getattr(agent, name).requires_grad_(False)",
    ],
)
def test_other_files_that_see_to_it(tmp_path: Path, line: str) -> None:
    main = TARGETS["main.py"].replace("agent = Agent(4)\n", f"agent = Agent(4)\n        {line}\n")
    assert lines_in_files(tmp_path, {**TARGETS, "main.py": main}, CODE) == []

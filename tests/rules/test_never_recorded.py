from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, twin

CODE = "GG237"

TOWERS = """
class Tower(nn.Module):
    def __init__(self, count, size):
        super().__init__()
        self.table = nn.Embedding(count, size)
        self.out = nn.Linear(size, size)

    def forward(self, ids):
        return F.normalize(self.out(self.table(ids)), dim=-1)

class TwoTower(nn.Module):
    def __init__(self, users=60, items=40, size=16):
        super().__init__()
        self.users = Tower(users, size)
        self.goods = Tower(items, size)

    @torch.no_grad()
    def index(self, ids):
        return self.goods(ids)

    @torch.no_grad()
    def recommend(self, ids, index):
        return (self.users(ids) @ index.T).topk(5).indices

    def loss(self, user_ids, item_ids):
        logits = self.users(user_ids) @ self.index(item_ids).T  # !
        return F.cross_entropy(logits, torch.arange(len(user_ids)))
"""
FIT = """
def fit(data, steps):
    model = TwoTower()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for users, items in data:
        optimizer.zero_grad()
        model.loss(users, items).backward()
        optimizer.step()
    return model.recommend(torch.arange(60), model.index(torch.arange(40)))
"""
PAIRS = """
class Matcher(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.image = nn.Sequential(nn.Linear(512, size), nn.ReLU(), nn.Linear(size, size))
        self.text = nn.Sequential(nn.Linear(300, size), nn.ReLU(), nn.Linear(size, size))
        self.scale = nn.Parameter(torch.ones(()))

    def embed_image(self, x):
        return F.normalize(self.image(x), dim=-1)

    @torch.inference_mode()
    def embed_text(self, x):
        self.eval()
        return F.normalize(self.text(x), dim=-1)

class Trainer:
    def __init__(self, model: Matcher, lr):
        self.model = model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)

    def step(self, images, texts):
        a = self.model.embed_image(images)
        b = self.model.embed_text(texts)  # !
        loss = F.cross_entropy(a @ b.T * self.model.scale, torch.arange(len(a)))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
"""


@pytest.mark.parametrize("snippet", [TOWERS + FIT, PAIRS])
def test_a_loss_calls_a_method_for_evaluations(snippet: str) -> None:
    assert_flagged(snippet, CODE)


INHERITED = """
class Retriever(Base):
    def training_step(self, batch, _):
        q = self.query(batch["q"])
        d = self.encode(batch["d"])  # !
        return F.cross_entropy(q @ d.T, torch.arange(len(q)))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-4)
"""
BASE = """
class Base(nn.Module):
    def __init__(self, words, size):
        super().__init__()
        self.query = nn.Embedding(words, size)
        self.document = nn.Embedding(words, size)

    @torch.no_grad()
    def encode(self, ids):
        return self.document(ids)
"""


def test_the_other_parts_alone_are_trained_by_name() -> None:
    assert_clean(twin(TOWERS + FIT, ("Adam(model.parameters()", "Adam(model.users.parameters()")), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("@ self.index(item_ids)", "@ self.goods(item_ids)")],
        [("    @torch.no_grad()\n    def index", "    def index")],
        [("    def loss", "    def warm_up(self, ids):\n        return self.goods(ids).pow(2).mean()\n\n    def loss")],
        [("        return F.cross", "        logits = logits + self.goods.out.bias.mean()\n        return F.cross")],
        [("    return model.rec", "    print(model.goods)\n    return model.rec")],  # somebody else knows it
        [("    model = TwoTower()", "    model = TwoTower(); other = Tower(40, 16); model.goods = other")],
        [("self.goods", "self.target_goods")],
        [("        self.goods = Tower(items, size)",
          "        self.goods = Tower(items, size)\n        self.goods.requires_grad_(False)")],
        [("    def loss", "    def average(self):\n        for a, b in zip(self.goods.parameters(), "
          "self.users.parameters()):\n            a.data.mul_(0.9).add_(b.data * 0.1)\n\n    def loss")],
        [("    def loss", "    @torch.no_grad()\n    def loss")],
        [("self.users(user_ids) @", "self.users(user_ids).detach() @")],  # nothing is trained at all
        [("@ self.index(item_ids)", "@ self.users(item_ids)")],
        [("self.users(user_ids) @ self.index(item_ids).T", "self.users(user_ids) @ self.users(item_ids).T\n"
          "        self.last = self.index(item_ids)")],
        [("def index", "def extract_features"), ("self.index(", "self.extract_features("),
         ("model.index(", "model.extract_features(")],
    ],
)  # fmt: skip
def test_look_alikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(TOWERS + FIT, *edits), CODE)


def test_what_is_loaded_may_be_this_part() -> None:
    loads = ("    model = TwoTower()", "    model = TwoTower(); model.load_state_dict(torch.load('last.pt'))")
    snippet = twin(TOWERS + FIT, loads)
    assert_clean(snippet, CODE)
    assert len(findings(snippet, CODE, Confidence.LOW)) == 1


ROLLOUTS = """
class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(4, 32), nn.Linear(32, 2), nn.Linear(32, 1)

    @torch.no_grad()
    def value(self, obs):
        return self.critic(self.body(obs))

    def evaluate(self, obs):
        h = self.body(obs)
        return self.actor(h), self.critic(h)

def update(net, optimizer, obs, nxt, reward):
    logits, value = net.evaluate(obs)
    target = reward + 0.99 * net.value(nxt)
    loss = F.mse_loss(value, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

def main(batches):
    net = ActorCritic()
    optimizer = torch.optim.Adam(net.parameters())
    for batch in batches:
        update(net, optimizer, *batch)
"""
PERCEPTUAL = """
class Painter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Conv2d(3, 3, 3)
        self.vgg = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())

    @torch.no_grad()
    def style(self, x):
        return self.vgg(x)

    def loss(self, x, y):
        return (self.net(x) - y).abs().mean() + self.style(y).mean()

def fit(model: Painter, loader):
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        model.loss(x, y).backward()
        optimizer.step()
"""
INLINE = """
class Tuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        with torch.no_grad():
            h = self.backbone(x)
        return self.head(h)

def fit(model: Tuned, loader):
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize("snippet", [ROLLOUTS, PERCEPTUAL, INLINE])
def test_run_without_gradients_on_purpose(snippet: str) -> None:
    assert_clean(snippet, CODE)


HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def test_the_method_of_a_base_class_in_another_file(tmp_path: Path) -> None:
    files = {"base.py": HEAD + BASE, "retriever.py": HEAD + "from base import Base\n" + INHERITED}
    line = next(n for n, text in enumerate(files["retriever.py"].splitlines(), 1) if "# !" in text)
    assert lines_in_files(tmp_path, files, CODE) == [("retriever.py", line)]


CONDITIONED = """
class Encoder(nn.Module):
    def __init__(self, count, size):
        super().__init__()
        self.table = nn.Embedding(count, size)
        self.mix = nn.Linear(size, size)

    def forward(self, ids):
        return self.mix(self.table(ids).mean(1))

class Conditioner:
    def __init__(self, encoder, drop=0.1):
        self.encoder, self.drop = encoder, drop

    @torch.no_grad()
    def encode(self, ids):
        keep = torch.rand(len(ids), 1) > self.drop
        return self.encoder(ids * keep)

def train(data, steps):
    encoder, net = Encoder(100, 16), nn.Linear(18, 2)
    conditioner = Conditioner(encoder)
    optimizer = torch.optim.AdamW([
        {"params": net.parameters(), "lr": 1e-3}, {"params": encoder.parameters(), "lr": 1e-4},
    ])
    for ids, x, y in data:
        condition = conditioner.encode(ids)  # !
        loss = F.mse_loss(net(torch.cat([x, condition], 1)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
IN_OBJECT = """
class Sampler:
    def __init__(self, net):
        self.net = net

    @torch.no_grad()
    def features(self, x):
        return self.net(x)

class Trainer:
    def __init__(self, size):
        self.body = nn.Sequential(nn.Linear(8, size), nn.ReLU())
        self.head = nn.Linear(size, 2)
        self.sampler = Sampler(self.body)
        params = list(self.body.parameters()) + list(self.head.parameters())
        self.optimizer = torch.optim.Adam(params, lr=1e-3)

    def step(self, x, y):
        loss = F.cross_entropy(self.head(self.sampler.features(x)), y)  # !
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    "snippet",
    [
        CONDITIONED,
        CONDITIONED.replace("@torch.no_grad()", "@torch.inference_mode()"),
        CONDITIONED.replace("conditioner.encode(ids)  # !", "conditioner.encode(ids).float()  # !"),
        CONDITIONED.replace("for ids, x, y", "encoder.train()\n    for ids, x, y"),
        CONDITIONED.replace("loss = F.mse", "print(conditioner.encode(ids).mean())\n        loss = F.mse"),
        IN_OBJECT,
        IN_OBJECT.replace("params = list", "params = [*self.body.parameters(), *self.head.parameters()] or list"),
    ],
)
def test_a_network_that_an_optimizer_is_given(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(CONDITIONED, ("    @torch.no_grad()\n", "")),
        twin(CONDITIONED, ('{"params": encoder.parameters(), "lr": 1e-4},', "")),
        twin(CONDITIONED, ("for ids, x, y", "encoder.requires_grad_(False)\n    for ids, x, y")),
        twin(CONDITIONED, ("F.mse_loss(net(", "encoder(ids).sum() + F.mse_loss(net(")),
        twin(CONDITIONED, ("condition], 1)), y)", "condition], 1)), y) + penalty(encoder)")),
        twin(CONDITIONED, ("condition], 1)), y)", "x[:, :16]], 1)), y)")),
        twin(CONDITIONED, ("= conditioner.encode(ids)", "= encoder(ids) + conditioner.encode(ids)")),
        twin(CONDITIONED, ("conditioner = Conditioner(encoder)", "conditioner = Conditioner(copy.deepcopy(encoder))")),
        twin(CONDITIONED, ("optimizer.step()", "optimizer.step()\n        average(encoder, net)")),
        twin(CONDITIONED, ("optimizer.step()", "optimizer.step()\n    return encoder.table.weight")),
        twin(
            CONDITIONED,
            (
                "self.encoder(ids * keep)",
                "self.encoder(ids * keep)\n\n    def loss(self, ids): return self.encoder(ids).sum()",
            ),
        ),
        twin(IN_OBJECT, ("    @torch.no_grad()\n", "")),
        twin(IN_OBJECT, ("list(self.body.parameters()) + ", "")),
        twin(IN_OBJECT, ("self.head(self.sampler.features(x))", "self.head(self.body(x))")),
        twin(IN_OBJECT, ("self.head(self.sampler.features(x))", "self.head(self.body(self.sampler.features(x)))")),
        twin(IN_OBJECT) + "\n    def other(self, x):\n        self.body(x).sum().backward()\n",
        twin(IN_OBJECT) + "\ndef fit(trainer, x):\n    trainer.body(x).sum().backward()\n",
    ],
)
def test_a_network_that_is_trained_otherwise(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_an_object_of_another_file(tmp_path: Path) -> None:
    at = CONDITIONED.index("def train")
    head = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
    files = {
        "conditions.py": head + CONDITIONED[:at],
        "train.py": head + "from conditions import Conditioner, Encoder\n" + CONDITIONED[at:].replace("  # !", ""),
    }
    assert lines_in_files(tmp_path, files, CODE) == [("train.py", 12)]
    files["conditions.py"] = files["conditions.py"].replace("    @torch.no_grad()\n", "")
    assert lines_in_files(tmp_path, files, CODE) == []

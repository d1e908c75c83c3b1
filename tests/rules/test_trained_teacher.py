from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, twin

CODE = "GG238"

DISTILLER = """
class Distiller(nn.Module):
    def __init__(self, student, teacher, temperature=4.0):
        super().__init__()
        self.student = student
        self.teacher = teacher
        self.temperature = temperature

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def kd(self, s, t):
        s, t = F.log_softmax(s / self.temperature, 1), F.softmax(t / self.temperature, 1)
        return F.kl_div(s, t, reduction="batchmean")

    def forward(self, x, y):
        s = self.student(x)
        t = self.teacher(x)  # !
        return {"ce": F.cross_entropy(s, y), "kd": self.kd(s, t)}
"""
TRAINER = """
class Trainer:
    def __init__(self, distiller: Distiller, lr):
        self.distiller = distiller
        learnable = [p for p in self.distiller.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(learnable, lr=lr)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = sum(self.distiller(x, y).values())
        loss.backward()
        self.optimizer.step()
"""
IN_ONE = """
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 4)
        self.teacher_net = nn.Linear(8, 4)
        self.teacher_net.load_state_dict(torch.load("teacher.pt"))

def fit(loader, epochs):
    pair = Pair()
    pair.teacher_net.eval()
    optimizer = torch.optim.SGD(pair.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x, y in loader:
            out, soft = pair.net(x), pair.teacher_net(x)  # !
            loss = F.cross_entropy(out, y) + F.mse_loss(out, soft)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
OF_OBJECT = """
class Student(nn.Module):
    def __init__(self, teacher):
        super().__init__()
        self.teacher = teacher.eval()
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))

    def hints(self, x):
        return F.mse_loss(self(x), self.teacher(x))  # !

def main(loader, teacher):
    model = Student(teacher)
    optimizer = torch.optim.Adam(params=model.parameters())
    for x, y in loader:
        loss = model.hints(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


BY_FRAMEWORK = """
import lightning.pytorch as pl

class Lit(pl.LightningModule):
    def __init__(self, teacher):
        super().__init__()
        self.teacher = teacher
        self.teacher.eval()
        self.net = nn.Linear(8, 4)

    def training_step(self, batch, _):
        x, y = batch
        out, soft = self.net(x), self.teacher(x)  # !
        return F.cross_entropy(out, y) + F.mse_loss(out, soft)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)
"""


@pytest.mark.parametrize(
    "edit",
    [
        ("self.teacher(x)", "self.teacher(x).detach()"),
        ("        x, y = batch", "        x, y = batch\n        self.teacher.requires_grad_(False)"),
        ("self.parameters()", "self.net.parameters()"),
        ("+ F.mse_loss(out, soft)", "+ 0 * F.mse_loss(out, out).item()"),
    ],
)
def test_look_alikes_of_a_framework(edit: tuple[str, str]) -> None:
    assert_clean(twin(BY_FRAMEWORK, edit), CODE)


@pytest.mark.parametrize("snippet", [DISTILLER + TRAINER, IN_ONE, OF_OBJECT, BY_FRAMEWORK])
def test_one_optimizer_has_both(snippet: str) -> None:
    assert_flagged(snippet, CODE)


HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def test_the_module_of_both_is_in_another_file(tmp_path: Path) -> None:
    files = {"kd.py": HEAD + DISTILLER, "train.py": HEAD + "from kd import Distiller\n" + TRAINER}
    line = next(n for n, text in enumerate(files["kd.py"].splitlines(), 1) if "# !" in text)
    assert lines_in_files(tmp_path, files, CODE) == [("kd.py", line)]


@pytest.mark.parametrize(
    "edits",
    [
        [("        self.temperature = temp", "        teacher.requires_grad_(False)\n        self.temperature = temp")],
        [("        self.temperature = temp", "        for p in self.teacher.parameters():\n"
          "            p.requires_grad = False\n        self.temperature = temp")],
        [("        self.temperature = temp", "        freeze(teacher)\n        self.temperature = temp")],
        [("        t = self.teacher(x)", "        with torch.no_grad():\n            t = self.teacher(x)")],
        [("self.teacher(x)", "self.teacher(x).detach()")],
        [("self.kd(s, t)", "self.kd(s, t.detach())")],
        [("F.softmax(t / self.temperature, 1)", "F.softmax(t.detach() / self.temperature, 1)")],
        [("self.distiller.parameters()", "self.distiller.student.parameters()")],
        [("learnable = [p for p in self.distiller.parameters() if p.requires_grad]",
          "learnable = [*self.distiller.student.parameters(), *self.distiller.teacher.parameters()]")],  # by name
        [("self.teacher", "self.partner")],
    ],
)  # fmt: skip
def test_look_alikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(DISTILLER + TRAINER, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("        self.teacher.eval()\n", "")],  # they may learn from each other
        [("self.teacher.eval()", "self.teacher.train(mode)")],
        [("        self.teacher.eval()\n", ""),
         ("class Trainer:", "def validate(net, x):\n    net.student.eval()\n    net.teacher.eval()\n\nclass Trainer:")],
    ],
)  # fmt: skip
def test_a_teacher_that_may_be_meant_to_learn(edits: list[tuple[str, str]]) -> None:
    snippet = twin(DISTILLER + TRAINER, *edits)
    assert_clean(snippet, CODE)
    assert findings(snippet, CODE, Confidence.LOW)


MEAN_TEACHER = """
class MeanTeacher(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.student, self.teacher = net, copy.deepcopy(net)
        self.teacher.eval()

    def loss(self, x):
        return F.mse_loss(self.student(x), self.teacher(x))

    @torch.no_grad()
    def follow(self):
        for a, b in zip(self.teacher.parameters(), self.student.parameters()):
            a.lerp_(b, 0.01)

def main(loader, net):
    both = MeanTeacher(net)
    optimizer = torch.optim.Adam(both.parameters())
    for x, _ in loader:
        optimizer.zero_grad()
        both.loss(x).backward()
        optimizer.step()
        both.follow()
"""
FORCING = """
class Translator(nn.Module):
    def __init__(self, teacher_forcing=0.5):
        super().__init__()
        self.encoder, self.decoder = nn.GRU(8, 8), nn.GRU(8, 8)
        self.teacher_forcing = teacher_forcing

    def forward(self, x, y):
        _, h = self.encoder(x)
        return self.decoder(y if torch.rand(()) < self.teacher_forcing else x, h)[0]

def main(loader):
    model = Translator().eval()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.mse_loss(model(x, y), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize("snippet", [MEAN_TEACHER, FORCING])
def test_no_such_teacher(snippet: str) -> None:
    assert_clean(snippet, CODE, Confidence.LOW)

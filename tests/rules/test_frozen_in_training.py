from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG304"

TUNED = """
def conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, bias=False), nn.BatchNorm2d(cout), nn.ReLU())

class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.Sequential(conv(1, 8), conv(8, 16))

    def forward(self, x):
        return self.stages(x).mean((2, 3))

class Tuned(nn.Module):
    def __init__(self, classes=3, freeze=True):
        super().__init__()
        self.backbone = Body()
        self.head = nn.Linear(16, classes)
        if freeze:
            self.lock()

    def lock(self):
        for p in self.backbone.parameters():
            p.requires_grad_(False)
        self.backbone.eval()

    def forward(self, x):
        return self.head(self.backbone(x))
"""
LOOP = """
def train_epoch(model, loader, optimizer):
    model.train()  # !
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def main(loader):
    model = Tuned()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    for epoch in range(10):
        train_epoch(model, loader, optimizer)
        model.eval()
"""
OBJECT = """
from torchvision.models import resnet18

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        encoder = resnet18(weights="DEFAULT")
        encoder.requires_grad_(False)
        encoder.eval()
        self.encoder = encoder
        self.head = nn.Linear(1000, 5)

    def forward(self, x):
        return self.head(self.encoder(x))

class Trainer:
    def __init__(self, lr):
        self.net = Net()
        self.optimizer = torch.optim.SGD(self.net.head.parameters(), lr=lr)

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            self.net.train(True)  # !
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.optimizer.step()
"""
IN_ROW = """
class Flow(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(size, 32), nn.BatchNorm1d(32)).eval().requires_grad_(False)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        return self.out(self.features(x))

    def fit(self, batches):
        self.train()  # !
        optimizer = torch.optim.Adam(self.out.parameters())
        for x, y in batches:
            loss = F.mse_loss(self(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


GIVEN = TUNED.replace("classes=3, freeze=True", "backbone, classes=3, freeze=True").replace("Body()", "backbone")
GIVEN_LOOP = LOOP.replace("Tuned()", "Tuned(Body())")


@pytest.mark.parametrize("snippet", [TUNED + LOOP, OBJECT, IN_ROW, GIVEN + GIVEN_LOOP])
def test_the_whole_is_put_into_training_mode(snippet: str) -> None:
    assert_flagged(snippet, CODE)


SCRIPT = """
from torchvision.models import resnet50

def run(loader, epochs, head):
    body = resnet50(weights="DEFAULT")
    for p in body.parameters():
        p.requires_grad = False
    body.eval()
    model = nn.Sequential(body, head)
    optimizer = torch.optim.Adam(head.parameters())
    for epoch in range(epochs):
        model.train()  # !
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
"""
PART = """
def epoch(model, loader, optimizer):
    model.train()  # !
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def run(loader, model_name):
    model = torchvision.models.get_model(model_name)
    model.layer1.requires_grad_(False)
    model.layer1.eval()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(5):
        epoch(model, loader, optimizer)

import torchvision
"""


@pytest.mark.parametrize("snippet", [SCRIPT, PART])
def test_a_function_freezes_it(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("        model.train()\n", "        model.train()\n        body.eval()\n")],
        [("        model.train()\n", "        model.train()\n        model[0].eval()\n        body.apply(still)\n")],
        [("        model.train()\n", "        head.train()\n")],
        [("    body.eval()\n", "")],
        [("        p.requires_grad = False\n", "        p.requires_grad = True\n")],
        [('resnet50(weights="DEFAULT")', "nn.Linear(8, 8)")],
        [("nn.Sequential(body, head)", "nn.Sequential(nn.Flatten(), head)")],
    ],
)
def test_look_alikes_in_a_function(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(SCRIPT, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("    model.train()\n", "    model.train()\n    model.layer1.eval()\n")],
        [("    model.train()\n", "    model.fc.train()\n")],
        [("    model.layer1.eval()\n", "")],
        [("    model.layer1.requires_grad_(False)\n", "")],
    ],
)
def test_look_alikes_of_a_part(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(PART, *edits), CODE)


HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def test_the_model_is_in_another_file(tmp_path: Path) -> None:
    files = {"model.py": HEAD + TUNED, "main.py": HEAD + "from model import Tuned\n" + LOOP}
    line = next(n for n, text in enumerate(files["main.py"].splitlines(), 1) if "# !" in text)
    assert lines_in_files(tmp_path, files, CODE) == [("main.py", line)]


@pytest.mark.parametrize(
    "edits",
    [
        [("    model.train()\n", "    model.train()\n    model.backbone.eval()\n")],
        [("    model.train()\n", "    model.train()\n    model.lock()\n")],
        [("    model.train()\n", "    model.train()\n    for m in model.backbone.modules():\n        m.eval()\n")],
        [("    model.train()\n", "    model.head.train()\n")],
        [("    model.train()\n", "")],
        [("    model.train()\n", "    model.train(False)\n")],
        [("    def lock", "    def train(self, mode=True):\n        return self.head.train(mode)\n\n    def lock")],
        [("        self.backbone.eval()\n", "")],  # only frozen
        [("        for p in self.backbone.parameters():\n            p.requires_grad_(False)\n", "")],  # it is trained
        [("nn.BatchNorm2d(cout)", "nn.GroupNorm(4, cout)")],
        [("freeze=True", "freeze=False")],
        [("    model.train()\n", "    model.train()\n    for m in model.modules():\n"
          "        if isinstance(m, nn.BatchNorm2d):\n            m.eval()\n")],
        [("nn.BatchNorm2d(cout)", "nn.BatchNorm2d(cout, track_running_stats=False)")],
        [("        loss.backward()\n        optimizer.step()\n", "        print(loss.item())\n")],  # nothing trains
    ],
)  # fmt: skip
def test_look_alikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(TUNED + LOOP, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("self.net.train(True)", "self.net.train(epoch < 5); self.net.encoder.eval()")],
        [("self.net.train(True)", "self.net.head.train(True)")],
        [("        encoder.eval()\n", "")],
        [("        self.encoder = encoder\n", "        self.encoder = nn.Linear(8, 1000)\n")],
        [('resnet18(weights="DEFAULT")', "nn.Linear(8, 1000)")],
    ],
)
def test_look_alikes_of_an_object(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(OBJECT, *edits), CODE)


PLAIN = """
import torchvision

class Encoder(nn.Module):
    \"\"\"No dropout.\"\"\"
    def __init__(self, d=16, p=0.0, norm=False):
        super().__init__()
        self.no_dropout = True  # and no batch norm
        LAYERS

    def forward(self, x):
        return self.layers(x)

class Net(nn.Module):
    def __init__(self, vectors):
        super().__init__()
        self.encoder = MADE
        self.encoder.requires_grad_(False)
        self.encoder.eval()
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.encoder(x))

def train(loader, vectors):
    net = Net(vectors)
    optimizer = torch.optim.Adam(net.head.parameters())
    for epoch in range(9):
        net.train()
        AFTER
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
"""
LAYER = "self.layers = nn.Sequential(nn.Linear(d, d), {})"


def plain(layers: str = LAYER.format("nn.BatchNorm1d(d)"), made: str = "Encoder()", after: str = "pass") -> str:
    return PLAIN.replace("LAYERS", layers).replace("MADE", made).replace("AFTER", after)


@pytest.mark.parametrize(
    "snippet",
    [
        plain(),
        plain(LAYER.format("nn.Dropout()")),
        plain(LAYER.format("nn.Dropout2d(p=0.1)")),
        plain(LAYER.format("*[nn.SyncBatchNorm(d) for _ in range(3)]")),
        plain("norm = nn.BatchNorm1d(d)\n        self.layers = nn.Sequential(norm)"),
        plain(made='torchvision.models.densenet121(weights="DEFAULT").features'),
        plain(made='nn.Sequential(*list(torchvision.models.resnet18(weights="DEFAULT").children())[:-1])'),
        plain().replace("self.encoder.eval()", "self.encoder = self.encoder.eval()"),
    ],
)
def test_what_surely_has_such_layers(snippet: str) -> None:
    assert_flagged(snippet.replace("net.train()\n", "net.train()  # !\n"), CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        plain(LAYER.format("nn.LayerNorm(d)")),
        plain(LAYER.format("nn.Dropout(p)")),
        plain(LAYER.format("nn.Dropout(0.0)")),
        plain(LAYER.format("nn.Dropout(p=0)")),
        plain(LAYER.format("nn.BatchNorm1d(d) if norm else nn.Identity()")),
        plain(LAYER.format("nn.BatchNorm1d(d, track_running_stats=False)")),
        plain("layers = []\n        if norm:\n            layers.append(nn.BatchNorm1d(d))\n"
              "        self.layers = nn.Sequential(*layers)"),
        plain("self.layers = nn.TransformerEncoderLayer(d, 2, 32, dropout=0.0)"),
        plain(made='torchvision.models.vgg11(weights="DEFAULT").features'),
        plain(made="nn.Embedding.from_pretrained(vectors)"),
        plain(after='net.get_submodule("encoder").eval()'),
        plain().replace("self.encoder.eval()", "self.encoder.eval()\n        self.encoder.train = lambda *_: None"),
        plain().replace("self.encoder.eval()", "self.encoder.eval()\n        "
                        "self.encoder.register_forward_pre_hook(lambda m, args: m.eval() and None)"),
    ],
)  # fmt: skip
def test_what_may_have_none(snippet: str) -> None:
    assert_clean(snippet, CODE)


DISTILLER = """
def convnet(width, classes):
    return nn.Sequential(nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Flatten(), nn.LazyLinear(classes))

def pretrain(teacher, data):
    opt = torch.optim.Adam(teacher.parameters())
    teacher.train()
    for x, y in data:
        opt.zero_grad()
        F.cross_entropy(teacher(x), y).backward()
        opt.step()
    return teacher

class Distiller(nn.Module):
    def __init__(self, teacher, student):
        super().__init__()
        self.teacher = teacher
        self.student = student
        self.teacher.requires_grad_(False)
        self.teacher.eval()

    def forward(self, x, y):
        with torch.no_grad():
            soft = F.softmax(self.teacher(x), 1)
        logits = self.student(x)
        return F.kl_div(F.log_softmax(logits, 1), soft) + F.cross_entropy(logits, y)

def run(data, steps):
    teacher = pretrain(convnet(16, 4), data)
    distiller = Distiller(teacher, convnet(4, 4))
    optimizer = torch.optim.SGD(distiller.student.parameters(), lr=0.1)
    for step in range(steps):
        if step % 40 == 0:
            distiller.eval()
            distiller.train()  # !
        x, y = data.batch(16)
        loss = distiller(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
NOT_FROZEN = ("        self.teacher.requires_grad_(False)\n", "")


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [NOT_FROZEN],  # it is only run without a graph
        [NOT_FROZEN, ("with torch.no_grad():\n            soft = F.softmax(self.teacher(x), 1)",
                      "soft = F.softmax(self.teacher(x).detach(), 1)")],
        [("pretrain(convnet(16, 4), data)", "convnet(16, 4)")],
        [("Distiller(teacher, convnet(4, 4))", "Distiller(student=convnet(4, 4), teacher=convnet(16, 4))")],
        [("teacher.train()", "teacher.train(True)")],
    ],
)  # fmt: skip
def test_what_a_wrapper_is_given(edits: list[tuple[str, str]]) -> None:
    snippet = DISTILLER
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("            distiller.train()", "            distiller.student.train()")],
        [("            distiller.train()", "            distiller.train(); distiller.teacher.eval()")],
        [("            distiller.train()", "            distiller.train(); teacher.eval()")],
        [("            distiller.train()", "            distiller.train(); teacher.train(False)")],
        [("            distiller.train()", "            distiller.train(); distiller.teacher.train()")],
        [("            distiller.train()", "            distiller.train(step < 10)")],
        [("    def forward", "    def train(self, on=True):\n        self.student.train(on)\n\n    def forward")],
        [("with torch.no_grad():", "with torch.no_grad():\n            self.teacher.eval()")],
        [("        self.teacher.eval()\n", "")],
        [NOT_FROZEN, ("with torch.no_grad():", "with torch.enable_grad():")],
        [NOT_FROZEN, ("logits = self.student(x)", "logits = self.student(x) + self.teacher(x)")],
        # a teacher that computes the same in both modes, or that may
        [("nn.BatchNorm2d(width)", "nn.GroupNorm(2, width)")],
        [("pretrain(convnet(16, 4), data)", "load(data)")],
        [("pretrain(convnet(16, 4), data)", "convnet(16, 4) if data else nn.Linear(4, 4)")],
        [("return teacher\n", "return fold(teacher)\n")],
    ],
)
def test_look_alikes_of_a_wrapper(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(DISTILLER, *edits), CODE)

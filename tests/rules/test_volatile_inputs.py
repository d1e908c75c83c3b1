"""GG301 and what evaluations keep, in programs for torch 0.3: there a `volatile` input was what `no_grad` is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import Confidence
from gradguard.static.engine import check
from tests.rules.snippets import HEADER, assert_clean, assert_flagged, lines_in_files

CODE = "GG301"

BATCHES = """
from torch.autograd import Variable

class Batches:
    def __init__(self, rows, evaluation=False):
        self.rows, self.evaluation = rows, evaluation

    def __iter__(self):
        for row in self.rows:
            yield Variable(row, volatile=self.evaluation)
"""
GET_BATCH = """
from torch.autograd import Variable

def get_batch(rows, i, held_out=False):
    def padded(part):
        return Variable(part, volatile=held_out)

    return padded(rows[i : i + 35]), padded(rows[i + 1 : i + 36])
"""
ALWAYS = """
from torch.autograd import Variable

class HeldOut:
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        for row in self.rows:
            yield Variable(row, volatile=True), None
"""
ROLLOUT = """
import torch.nn as nn
from torch.autograd import Variable

class Writer(nn.Module):
    def rollout(self, x):
        return self.cell(Variable(x.data, volatile=True))

    def shown(self, x):
        return Variable(x.data, volatile=True)
"""
TEXTS = """
from torchtext import data

def splits(parts, size):
    return data.BucketIterator.splits(parts, batch_size=size)
"""
MODEL = """
import torch.nn as nn
from torch.autograd import Variable

class Rnn(nn.Module):
    def state(self, n):
        return Variable(torch.zeros(n), volatile=not self.training)

    def forward(self, x, hidden):
        return self.cell(x, hidden)
"""
COUNT = "total += (y == out.max(1)[1]).data.sum()"
LOSS = "total += F.cross_entropy(out, y).data[0]"
ITEM = "total += F.cross_entropy(out, y).item()"
OVER = "for x, y in batches:\n        out = net(x)"


def evaluation(imports: str, loop: str, add: str = COUNT) -> str:
    """A file that evaluates; the model is called on its line 8, of a loop of two lines."""
    head = f"import torch.nn.functional as F\n{imports}\n\ndef evaluate(net, batches):\n    net.eval()\n    total = 0\n"
    return f"{head}    {loop}\n        {add}\n    return total\n"


WAITING = {
    "a loader that was told so": ({"data.py": BATCHES}, "from data import Batches", OVER, COUNT),
    "batches by a function, each told so": (
        {"data.py": GET_BATCH},
        "from data import get_batch",
        "for i in range(0, len(batches), 35):\n        x, y = get_batch(batches, i, held_out=True); out = net(x)",
        COUNT,
    ),
    "told so by place": (
        {"data.py": GET_BATCH},
        "from data import get_batch",
        "for i in range(0, len(batches), 35):\n        x, y = get_batch(batches, i, True); out = net(x)",
        COUNT,
    ),
    "a loader that always makes such": ({"data.py": ALWAYS}, "from data import HeldOut", OVER, COUNT),
    "what another network made of it": (
        {"writer.py": ROLLOUT},
        "from writer import Writer\nwriter = Writer()",
        "for x, y in batches:\n        x = writer.rollout(x); out = net(x)",
        COUNT,
    ),
    "a state that the model makes": (
        {"model.py": MODEL},
        "from model import Rnn",
        "for x, y in batches:\n        out = net(x, net.state(len(x)))",
        COUNT,
    ),
    "torchtext, whose second iterator is one for evaluation": (
        {"texts.py": TEXTS},
        "from texts import splits",
        OVER,
        "total += loss_of(out, y).sum().data[0]",
    ),
    "handed over by the script that imports both": (
        {"data.py": BATCHES, "main.py": "from data import Batches\nfrom test import evaluate\n"},
        "",
        OVER,
        COUNT,
    ),
}

FLAGGED = {
    "torch 0.4: the number is an item": ({"data.py": BATCHES}, "from data import Batches", OVER, ITEM),
    "another part of the file uses no_grad": (
        {"data.py": BATCHES},
        "import torch\nfrom data import Batches\nquiet = torch.no_grad",
        OVER,
        COUNT,
    ),
    "it makes its inputs itself": (
        {"data.py": BATCHES},
        "from data import Batches\nfrom torch.autograd import Variable",
        "for x, y in batches:\n        out = net(Variable(x))",
        COUNT,
    ),
    "this call of the function does not ask for it": (
        {"data.py": GET_BATCH},
        "from data import get_batch",
        "for i in range(0, len(batches), 35):\n        x, y = get_batch(batches, i); out = net(x)",
        COUNT,
    ),
    "this call asks for the opposite": (
        {"data.py": GET_BATCH},
        "from data import get_batch",
        "for i in range(0, len(batches), 35):\n        x, y = get_batch(batches, i, held_out=False); out = net(x)",
        COUNT,
    ),
    "only what is not called here makes such": (
        {"writer.py": ROLLOUT},
        "from writer import Writer\nwriter = Writer()",
        "for x, y in batches:\n        out = net(x)",
        COUNT,
    ),
    "never volatile": (
        {"data.py": ALWAYS.replace("True", "False")}, "from data import HeldOut", OVER, COUNT
    ),
    "a file of another program": ({"data.py": BATCHES}, "from other import Batches", OVER, COUNT),
    "only the comment says so": (
        {"data.py": BATCHES.replace(", volatile=", ")  # volatile=")}, "from data import Batches", OVER, COUNT
    ),
    "torchtext of torch 0.4": ({"texts.py": TEXTS}, "from texts import splits", OVER, COUNT),
    "a vocabulary of torchtext": (
        {"texts.py": TEXTS.replace("data.BucketIterator", "data.Field")}, "from texts import splits", OVER, LOSS
    ),
}  # fmt: skip


def found(folder: Path, files: dict[str, str], text: str, confidence: Confidence) -> set[str]:
    for name, content in {**files, "test.py": text}.items():
        (folder / name).write_text(HEADER + content)
    settings = Settings(folder, select=(CODE,), min_confidence=confidence)
    return {Path(f.path).name for f in check(sorted(folder.glob("*.py")), settings, catalogue.load()).findings}


@pytest.mark.parametrize("name", WAITING)
def test_waits_at_low_confidence(name: str, tmp_path: Path) -> None:
    files, imports, loop, add = WAITING[name]
    assert found(tmp_path, files, evaluation(imports, loop, add), Confidence.HIGH) == set()
    assert found(tmp_path, files, evaluation(imports, loop, add), Confidence.LOW) == {"test.py"}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str, tmp_path: Path) -> None:
    files, imports, loop, add = FLAGGED[name]
    assert found(tmp_path, files, evaluation(imports, loop, add), Confidence.HIGH) == {"test.py"}


def test_what_an_evaluation_keeps(tmp_path: Path) -> None:
    kept = "total += F.cross_entropy(out, y)"
    plain = BATCHES.replace(", volatile=self.evaluation", "")
    files = {"test.py": evaluation("from data import Batches", OVER, kept)}
    assert lines_in_files(tmp_path, {**files, "data.py": plain}, "GG103") == [("test.py", 9)]
    assert lines_in_files(tmp_path, {**files, "data.py": BATCHES}, "GG103") == []


def test_of_programs_beside_each_other_only_its_own_counts(tmp_path: Path) -> None:
    for name, data in (("old", BATCHES), ("plain", BATCHES.replace("volatile=self.evaluation", "requires_grad=False"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.py").write_text(data)
        (tmp_path / name / "test.py").write_text(evaluation("from data import Batches", OVER))
    result = check(sorted(tmp_path.glob("*/*.py")), Settings(tmp_path, select=(CODE,)), catalogue.load())
    assert [Path(finding.path).parent.name for finding in result.findings] == ["plain"]


CLEAN = {
    "an input is made volatile afterwards": """
        def evaluate(net, batches):
            net.eval()
            for batch in batches:
                batch.source.volatile = True
                print(net(batch.source).max(1)[1])
    """,
    "volatile where nothing is trained": """
        def run(net, batches, train):
            net.eval()
            for x in batches:
                print(net(Variable(x, volatile=not train)).max(1)[1])
    """,
}
LOOK_ALIKES = {
    "it is made not to be": """
        def evaluate(net, batches):
            net.eval()
            for batch in batches:
                batch.source.volatile = False
                print(net(batch.source).max(1)[1])  # !
    """,
    "another word": """
        def evaluate(net, batches):
            net.eval()
            for batch in batches:
                batch.source.prices = True
                print(net(batch.source).max(1)[1])  # !
    """,
    "what is volatile may be a market": """
        def evaluate(net, batches):
            net.eval()
            volatile = True
            for batch in batches:
                print(net(batch.source).max(1)[1], volatile)  # !
    """,
}


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alikes(name: str) -> None:
    assert_flagged(LOOK_ALIKES[name], CODE)


def test_training_with_volatile_inputs_where_it_is_told() -> None:
    assert_flagged(
        """
        def run(net, batches, optimizer, train=True):
            total = 0
            for x, y in batches:
                loss = F.cross_entropy(net(Variable(x, volatile=not train)), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss  # !
            return total.data[0]
        """,
        "GG103",
    )


INSIDE = """
    import numpy as np
    from torch.autograd import Variable

    def to_variable(x, is_training=False):
        if is_training:
            v = Variable(torch.from_numpy(x))
        else:
            v = Variable(torch.from_numpy(x), {option})
        return v.cuda()

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Conv2d(1, 1, 3)

        def {method}(self, image):
            return self.net(to_variable(image, is_training=self.training))

    def evaluate(loader):
        net = Counter()
        net.cuda()
        net.eval()
        error = 0.0
        for blob in loader:
            density = net{call}(blob["data"]){mark}
            error += abs(np.sum(density.data.cpu().numpy()))
        return error
"""


@pytest.mark.parametrize("option", ["volatile=True", "requires_grad=False, volatile=True", "volatile=not is_training"])
def test_a_model_that_makes_its_inputs(option: str) -> None:
    assert_clean(INSIDE.format(option=option, method="forward", call="", mark=""), CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        INSIDE.format(option="requires_grad=False", method="forward", call="", mark="  # !"),
        INSIDE.format(option="volatile=False", method="forward", call="", mark="  # !"),
        INSIDE.format(option="volatile=True", method="forward", call="", mark="  # !").replace(
            "self.net(to_variable(image, is_training=self.training))", "self.net(image)"
        ),
    ],
)
def test_a_model_that_takes_them_as_they_are(snippet: str) -> None:
    assert_flagged(snippet, CODE)

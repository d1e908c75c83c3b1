"""What is a module is told elsewhere: by another function of the file, or by the class of an object."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.static.engine import check_text
from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG301"

PARAMETER = """
def train(enc_career, dec_career, batches, criterion, optimizer):
    for x, y in batches:
        optimizer.zero_grad()
        criterion(dec_career(enc_career(x)), y).backward()
        nn.utils.clip_grad_norm_(enc_career.parameters(), 1)
        optimizer.step()

def valid(enc_career, dec_career, val_batches, criterion):
    losses = []
    for x, y in val_batches:
        z = enc_career(x)  # !
        losses.append(criterion(z, y).item())
    return losses
"""

GLOBAL = """
checkpoint = torch.load("best.pt")
coder = checkpoint["coder"]
coder = coder.to("cuda")
coder.eval()

def evaluate(size):
    found = []
    for image, caps in make_loader(size):
        code = coder(image)  # !
        found.append(code.argmax(1).tolist())
    return found
"""


@pytest.mark.parametrize(
    "snippet",
    [
        PARAMETER,
        PARAMETER.replace("enc_career.parameters()", "enc_career.named_parameters()"),
        PARAMETER.replace("nn.utils.clip_grad_norm_(enc_career.parameters(), 1)", "pass")
        + "\ndef main(enc_career):\n    enc_career.eval()\n",
        GLOBAL.replace("make_loader(size)", "test_loader"),
        GLOBAL.replace("make_loader(size)", "test_loader").replace("coder.eval()", "print(list(coder.parameters()))"),
    ],
)
def test_used_as_a_module_by_another_function(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("nn.utils.clip_grad_norm_(enc_career.parameters(), 1)", "nn.utils.clip_grad_norm_(parameters, 1)")],
        [("enc_career.parameters()", "enc_career.state()")],
        [("enc_career.parameters()", "other.enc_career.parameters()")],
        [("enc_career.parameters()", "my_enc_career.parameters()")],
        [("def valid", "@torch.no_grad()\ndef valid")],
        [("def valid", "@torch.inference_mode()\ndef valid")],
        [("    for x, y in val_batches", "    torch.set_grad_enabled(False)\n    for x, y in val_batches")],
        [("losses.append(criterion(z, y).item())", "criterion(z, y).backward()")],
        [("losses.append(criterion(z, y).item())", "losses.append(torch.autograd.grad(z.sum(), x))")],
        [("z = enc_career(x)", "z = enc_career.encode_text(x)")],
        [("z = enc_career(x)", "z = enc_career")],
    ],
)
def test_lookalikes_of_a_parameter(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(PARAMETER, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("coder.eval()", "coder.reset()")],
        [("coder.eval()", "coder.eval(3)")],
        [("def evaluate", "@torch.no_grad()\ndef evaluate")],
        [("code = coder(image)", "with torch.no_grad(): code = coder(image)")],
        [("coder(image)", "image")],
        [("coder.eval()", "coder.eval()\nfor p in coder.parameters():\n    p.requires_grad_(False)")],
    ],
)
def test_lookalikes_of_a_global(edits: list[tuple[str, str]]) -> None:
    text = GLOBAL.replace("make_loader(size)", "test_loader")
    assert_clean(twin(text, *edits), CODE)


def test_a_function_of_the_file_is_no_module_by_its_name() -> None:
    snippet = """
    def enc(x):
        return x.mean()

    def train(enc, optimizer):
        print(enc.parameters())

    def valid(val_batches):
        for x in val_batches:
            print(enc(x))
    """
    assert_clean(snippet, CODE)


def test_a_file_that_knows_no_tensors() -> None:
    snippet = """
    import numpy as np

    def show(fit):
        print(fit.parameters())

    def valid(fit, val_batches):
        for x in val_batches:
            print(np.mean(fit(x)))
    """
    result = check_text(snippet, "numeric.py", Settings(Path.cwd(), select=("ALL",)), catalogue.load())
    assert not result.findings


# --- attributes of an object ---

OF_OBJECT = """
from recipes import Trainer

def main(config):
    trainer = Trainer(config)
    trainer.build_model()
    trainer._make_model(config)
    trainer.model.eval()
    entropies = []
    for x, y in trainer.batch_generator:
        heat = trainer.teacher_network(x)  # !
        entropies.append(heat.detach().cpu().numpy().std())
"""

OF_CLASS = """
class Holder:
    def __init__(self, config, batches):
        self.heat, self.batches = build(config), batches

    def prepare(self):
        self.heat.eval()

def validate(config, batches):
    held = Holder(config, batches)
    held.prepare()
    for x in held.batches:
        print(held.heat(x).argmax(1))  # !
"""


@pytest.mark.parametrize(
    "snippet",
    [
        OF_OBJECT,
        OF_OBJECT.replace("trainer.model.eval()", "trainer.teacher_network.eval()"),
        OF_OBJECT.replace("teacher_network", "model"),
        OF_CLASS,
        OF_CLASS.replace("self.heat.eval()", "print(list(self.heat.parameters()))"),
    ],
)
def test_an_attribute_of_an_object(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("teacher_network", "make_heat_model")],
        [("teacher_network", "_run_model")],
        [("teacher_network", "measure")],
        [("trainer.model.eval()", "trainer.model.train()")],
        [("for x, y in", "torch.set_grad_enabled(False)\n    for x, y in")],
        [("def main", "@torch.no_grad()\ndef main")],
        [("entropies.append", "heat.mean().backward(); entropies.append")],
        [("trainer.model.eval()", "trainer.model.eval()\n    trainer.teacher_network.requires_grad_(False)")],
    ],
)
def test_lookalikes_of_an_attribute(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(OF_OBJECT, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("self.heat.eval()", "self.heat.reset()")],
        [("self.heat.eval()", "self.heat.eval(3)")],
        [("self.heat.eval()", "self.cold.heat.eval()")],
        [("held.heat(x)", "held.batches(x)")],
        [("def validate", "@torch.no_grad()\ndef validate")],
        [("self.heat.eval()", "self.heat.eval().requires_grad_(False)")],
    ],
)
def test_lookalikes_of_an_attribute_of_a_known_class(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(OF_CLASS, *edits), CODE)


UNIT_TESTS = """
import unittest

def run_layer(layer, size):
    x = torch.randn(size)
    assert (layer.inverse(layer(x)) - x).norm() < 1e-3

class TestLayers(unittest.TestCase):
    def test_norm(self):
        layer = make(3)
        layer.eval()
        for i in range(2):
            with self.subTest(i=i):
                run_layer(layer, 3)
"""


@pytest.mark.parametrize("bases", ["unittest.TestCase", "TestCase", "Mixin, unittest.TestCase"])
def test_unit_tests_in_a_file_of_another_name(bases: str) -> None:
    assert_clean(UNIT_TESTS.replace("unittest.TestCase", bases), CODE)


def test_the_same_where_nothing_is_tested() -> None:
    text = UNIT_TESTS.replace("(unittest.TestCase)", "").replace("with self.subTest(i=i)", "if self.shows")
    assert_flagged(text.replace("run_layer(layer, 3)", "run_layer(layer, 3)  # !"), CODE)

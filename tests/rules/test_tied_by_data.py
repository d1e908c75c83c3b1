from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files

CODE = "GG241"
LANGUAGE_MODEL = """
    class LanguageModel(nn.Module):
        def __init__(self, words, size, tie=True):
            super().__init__()
            self.encoder = nn.Embedding(words, size)
            self.rnn = nn.GRU(size, size)
            self.decoder = nn.Linear(size, words)
            {tie}

        def forward(self, x):
            return self.decoder(self.rnn(self.encoder(x))[0])
"""

TIES = {
    "both by their data": "self.decoder.weight.data = self.encoder.weight.data  # !",
    "where that is asked for": "if tie: self.decoder.weight.data = self.encoder.weight.data  # !",
    "the other way round": "self.encoder.weight.data = self.decoder.weight.data  # !",
    "the parameter itself": "self.decoder.weight.data = self.encoder.weight  # !",
    "a new parameter of it": "self.decoder.weight = nn.Parameter(self.encoder.weight)  # !",
    "a new parameter of its data": "self.decoder.weight = torch.nn.Parameter(self.encoder.weight.data)  # !",
    "transposed": "self.decoder.weight.data = self.encoder.weight.data.t()  # !",
    "transposed, otherwise": "self.decoder.weight.data = self.encoder.weight.data.transpose(0, 1)  # !",
}

SILENT = {
    "one parameter": "self.decoder.weight = self.encoder.weight",
    "a clone": "self.decoder.weight.data = self.encoder.weight.data.clone()",
    "a copy": "self.decoder.weight.data.copy_(self.encoder.weight.data)",
    "a new parameter of a clone": "self.decoder.weight = nn.Parameter(self.encoder.weight.detach().clone())",
    "computed of it": "self.decoder.weight.data = self.encoder.weight.data / 2",
    "numbers": "self.decoder.weight.data = torch.zeros(words, size)",
    "what is tied besides": "self.decoder.weight = self.encoder.weight; "
    "self.decoder.weight.data = self.encoder.weight.data",
    "a frozen table": "self.encoder.weight.requires_grad = False; self.decoder.weight.data = self.encoder.weight.data",
    "a frozen layer": "self.decoder.weight.data = self.encoder.weight.data; self.encoder.requires_grad_(False)",
    "what is taken away": "self.decoder.weight.data = self.encoder.weight.data; del self.encoder",
    "what was given": "self.decoder.weight.data = words.weight.data",
    "itself": "self.decoder.weight.data = self.decoder.weight.data",
}

OTHERS_FLAGGED = {
    "a helper of the constructor": """
        class Net(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.embed = nn.Embedding(n, 8)
                self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
                self.out = nn.Linear(8, n, bias=False)
                self.set_up()

            def set_up(self):
                nn.init.normal_(self.embed.weight)
                self.out.weight.data = self.embed.weight.data  # !
    """,
    "a method that ties": """
        class Net(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.embed, self.out = nn.Embedding(n, 8), nn.Linear(8, n)

            def tie_weights(self):
                self.out.weight.data = self.embed.weight.data  # !
    """,
    "parts of the program's own classes": """
        class Coder(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.lin = nn.Linear(n, n)

        class Auto(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.down = Coder(n)
                self.up = Coder(n)
                self.up.lin.weight.data = self.down.lin.weight.data.T  # !
    """,
    "local layers": """
        def build(n):
            embed = nn.Embedding(n, 8)
            out = nn.Linear(8, n)
            out.weight.data = embed.weight.data  # !
            return nn.Sequential(embed, out)
    """,
    "parameters": """
        class Net(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.one = nn.Parameter(torch.randn(n))
                self.two = nn.Parameter(torch.randn(n))
                self.two.data = self.one.data  # !
    """,
}

OTHERS_SILENT = {
    "a target network": """
        class Agent(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.online = nn.Linear(n, 2)
                self.target = nn.Linear(n, 2)
                self.target.weight.data = self.online.weight.data
    """,
    "weights that are put in for an evaluation": """
        class Net(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.fast = nn.Linear(n, 2)
                self.average = nn.Linear(n, 2)

            def swap(self):
                self.fast.weight.data, self.average.weight.data = self.average.weight.data, self.fast.weight.data

            def use_average(self):
                self.fast.weight.data = self.average.weight.data
    """,
    "a pretrained table that is frozen by default": """
        class Net(nn.Module):
            def __init__(self, vectors):
                super().__init__()
                self.table = nn.Embedding.from_pretrained(vectors)
                self.out = nn.Linear(8, 100)
                self.out.weight.data = self.table.weight.data
    """,
    "another object": """
        def load(net, other):
            net.fc.weight.data = other.fc.weight.data
            net.fc.weight = nn.Parameter(other.fc.weight)

        def sync(learner, actors):
            for actor in actors:
                for p, q in zip(actor.parameters(), learner.parameters()):
                    p.data = q.data
    """,
    "layers that are given": """
        class Net(nn.Module):
            def __init__(self, encoder, decoder):
                super().__init__()
                self.encoder, self.decoder = encoder, decoder
                self.decoder.weight.data = self.encoder.weight.data
    """,
    "a helper that freezes": """
        class Net(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.embed = nn.Embedding(n, 8)
                self.out = nn.Linear(8, n)
                self.out.weight.data = self.embed.weight.data

            def freeze_some(self):
                for p in self.embed.parameters():
                    p.requires_grad = False
    """,
    "no module": """
        class Holder:
            def __init__(self, n):
                self.a = torch.randn(n)
                self.b = torch.randn(n)
                self.a.data = self.b.data
    """,
}


@pytest.mark.parametrize("tie", TIES.values(), ids=TIES)
def test_two_parameters_of_one_storage(tie: str) -> None:
    assert_flagged(LANGUAGE_MODEL.format(tie=tie), CODE)


@pytest.mark.parametrize("tie", SILENT.values(), ids=SILENT)
def test_what_is_one_parameter_or_a_copy_is_not_flagged(tie: str) -> None:
    assert_clean(LANGUAGE_MODEL.format(tie=tie), CODE)


@pytest.mark.parametrize("snippet", OTHERS_FLAGGED.values(), ids=OTHERS_FLAGGED)
def test_other_modules(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", OTHERS_SILENT.values(), ids=OTHERS_SILENT)
def test_what_is_apart_or_not_trained_is_not_flagged(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_what_another_file_freezes_is_not_flagged(tmp_path: Path) -> None:
    tie = "self.decoder.weight.data = self.encoder.weight.data"
    files = {
        "net.py": "import torch\nfrom torch import nn\n" + LANGUAGE_MODEL.format(tie=tie).replace("\n    ", "\n"),
        "train.py": "from net import LanguageModel\nmodel = LanguageModel(9, 3)\nmodel.encoder.requires_grad_(False)\n",
    }
    assert lines_in_files(tmp_path, files, CODE) == []
    files["train.py"] = "from net import LanguageModel\n\nmodel = LanguageModel(9, 3)\n"
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["net.py"]


def test_the_edit_ties_the_parameters() -> None:
    (finding,) = findings(LANGUAGE_MODEL.format(tie="self.decoder.weight.data = self.encoder.weight.data"), CODE)
    assert finding.fix is not None
    assert [edit.text for edit in finding.fix.edits] == ["self.decoder.weight = self.encoder.weight"]
    (turned,) = findings(LANGUAGE_MODEL.format(tie="self.decoder.weight.data = self.encoder.weight.data.t()"), CODE)
    assert turned.fix is None

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, twin

CODE = "GG247"

FIT = """
def fit(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)  # !
        loss.backward()
        optimizer.step()

def main(loader):
    model = Net().cuda()
    model = nn.DataParallel(model)
    fit(model, loader, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1))
"""
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.fc = nn.Linear(16, 3)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x):
        x = self.body(x)
        x = self.fc(x)
        return self.softmax(x)
"""
SEQUENCE = """
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, x):
        out = self.main(x)
        return out.view(-1, 1).squeeze(1)

critic = Critic()
bce = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(critic.parameters())

for real, fake in loader:
    optimizer.zero_grad()
    ones, zeros = torch.ones(len(real)), torch.zeros(len(fake))
    good = bce(critic(real), ones)  # !
    scores = critic(fake)
    total = good + bce(scores, zeros)  # !
    total.backward()
    optimizer.step()
"""
HERE = """
def step(net, x, y, optimizer, scaler):
    logits = net(x)
    probs = F.softmax(logits, dim=-1)
    loss = F.cross_entropy(probs, y)  # !
    scaler.scale(loss).backward()
    scaler.step(optimizer)
"""
OWN_LOSS = """
class Learner:
    def __init__(self, net, lr):
        self.net = net
        self.nll = nn.NLLLoss(reduction="none")
        self.optimizer = torch.optim.Adam(net.parameters(), lr=lr)

    def loss(self, x, y):
        return self.nll(self.net(x).softmax(1), y).mean()  # !

    def step(self, x, y):
        loss = self.loss(x, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
RAW = """
class Tagger(nn.Module):
    def __init__(self, words, tags):
        super().__init__()
        self.embed = nn.Embedding(words, 32)
        self.lstm = nn.LSTM(32, 64, batch_first=True)
        self.out = nn.Linear(64, tags)

    def forward(self, ids):
        hidden, _ = self.lstm(self.embed(ids))
        scores = self.out(hidden)
        return scores.view(-1, scores.size(-1))

def fit(loader, words, tags):
    tagger, measure = Tagger(words, tags), nn.NLLLoss()
    optimizer = torch.optim.Adam(tagger.parameters())
    for ids, labels in loader:
        optimizer.zero_grad()
        measure(tagger(ids), labels.view(-1)).backward()  # !
        optimizer.step()
"""
DISTILLED = """
def distil(student, teacher, loader, optimizer, T=4.0):
    distance = nn.KLDivLoss(reduction="batchmean")
    for x, _ in loader:
        with torch.no_grad():
            soft = F.softmax(teacher(x) / T, dim=1)
        losses = []
        losses.append(distance(F.softmax(student(x) / T, dim=1), soft))  # !
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()
"""
CTC = """
def step(net, x, y, lengths, sizes, optimizer):
    probs = net(x).softmax(dim=2).permute(1, 0, 2)
    loss = F.ctc_loss(probs, y, lengths, sizes)  # !
    loss.backward()
    optimizer.step()
"""
SEVERAL = """
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 3), nn.Linear(8, 5)
        self.act = nn.Softmax(1)

    def forward(self, x):
        return self.act(self.a(x)), self.b(x)

def fit(loader):
    net = Both()
    optimizer = torch.optim.Adam(net.parameters())
    for x, y, z in loader:
        first, second = net(x)
        loss = F.cross_entropy(first, y)  # !
        loss = loss + F.cross_entropy(second, z)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
WAYS = """
def step(net, x, y, optimizer, binary):
    out = net(x)
    if binary:
        out = torch.sigmoid(out)
    else:
        out = torch.softmax(out, 1)
    loss = F.cross_entropy(out, y)  # !
    loss.backward()
    optimizer.step()
"""
ORDERED = """
from collections import OrderedDict

def make(size):
    return nn.Sequential(OrderedDict([("fc", nn.Linear(8, size)), ("out", nn.Softmax(dim=1)), ("drop", nn.Identity())]))

def fit(loader):
    net = make(3)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in loader:
        def closure():
            optimizer.zero_grad()
            loss = criterion(net(x), y)  # !
            loss.backward()
            return loss
        optimizer.step(closure)
"""


@pytest.mark.parametrize(
    "snippet", [NET + FIT, SEQUENCE, HERE, OWN_LOSS, RAW, DISTILLED, CTC, SEVERAL, WAYS, ORDERED]
)  # fmt: skip
def test_a_loss_is_given_something_else(snippet: str) -> None:
    assert_flagged(snippet, CODE)


def test_what_it_takes_is_said() -> None:
    (found,) = findings(HERE, CODE)
    assert "takes logits, and is given what a softmax gives" in found.message
    (found,) = findings(RAW, CODE)
    assert "is given the scores of a layer" in found.message


@pytest.mark.parametrize(
    "edits",
    [
        [("self.softmax = nn.Softmax(dim=1)", "self.softmax = nn.LogSoftmax(dim=1)")],  # twice is once
        [("return self.softmax(x)", "return x")],
        [("return self.softmax(x)", "return x if self.training else self.softmax(x)")],
        [("return self.softmax(x)", "if not self.training:\n            x = self.softmax(x)\n        return x")],
        [("return self.softmax(x)", "if self.training:\n            return x\n        return self.softmax(x)")],
        [("return self.softmax(x)", "return x, self.softmax(x)"), ("criterion(out,", "criterion(out[0],")],
        [("return self.softmax(x)", "return 10 * self.softmax(x)")],
        [("return self.softmax(x)", "return self.softmax(x) @ x.T")],
        [("return self.softmax(x)", "return torch.log(self.softmax(x))")],
        [("return self.softmax(x)", "return self.head(self.softmax(x))")],
        [("loss.backward()", "print(loss.item())")],
        [("loss.backward()", "total = loss.item()"), ("optimizer.step()", "(out.mean()).backward()")],
        [("nn.CrossEntropyLoss()", "nn.MSELoss()")],
        [("nn.CrossEntropyLoss()", "nn.BCELoss()")],
        [("nn.CrossEntropyLoss()", "Weighted()")],
        [("nn.CrossEntropyLoss()", "make_loss(config)")],
        [("model = nn.Data", "model.softmax = nn.Identity()\n    model = nn.Data")],
        [("model = Net().cuda()", "model = Net().cuda() if loader else Other()")],
        [("model = nn.Data", "model = Wrapped(model)\n    model = nn.Data")],
        [("criterion(out, y)", "criterion(y, out)")],
        [("self.softmax = nn.Softmax(dim=1)", "self.softmax = nn.Softmax(dim=1) if loud else nn.Identity()")],
    ],
)
def test_look_alikes_of_a_model(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(NET + FIT, *edits), CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(SEQUENCE, ("nn.Linear(16, 1), nn.Sigmoid()", "nn.Linear(16, 1)")),
        twin(SEQUENCE, ("BCEWithLogitsLoss", "BCELoss")),
        twin(HERE, ("F.cross_entropy(probs, y)", "F.cross_entropy(logits, y)")),
        twin(HERE, ("F.cross_entropy(probs, y)", "F.cross_entropy(logits, probs.detach())")),
        twin(HERE, ("F.cross_entropy(probs, y)", "F.nll_loss(probs.log(), y)")),
        twin(HERE, ("F.cross_entropy(probs, y)", "F.nll_loss(torch.log(probs + 1e-8), y)")),
        twin(HERE, ("    loss =", "    probs = probs / 0.1\n    loss =")),
        twin(HERE, ("    loss =", "    probs += 1\n    loss =")),
        twin(HERE, ("    loss =", "    probs.log_()\n    loss =")),
        twin(HERE, ("    loss =", "    for probs in net.heads(x):\n        pass\n    loss =")),
        twin(HERE, ("    loss = F.cross_entropy(probs, y)\n", "    loss = F.cross_entropy(logits, y)\n"
             "    logits = probs\n")),
        twin(HERE, ("F.softmax(logits, dim=-1)", "F.log_softmax(logits, dim=-1)")),
        twin(HERE, ("F.cross_entropy", "weighted_cross_entropy")),
        twin(HERE, ("F.cross_entropy(probs", "F.cross_entropy(logits"), ("    scaler.step(optimizer)",
             "    scaler.step(optimizer)\n    loss = F.cross_entropy(probs, y)\n    print(loss)")),
        twin(OWN_LOSS, ("softmax(1)", "log_softmax(1)")),
        twin(OWN_LOSS, ("        loss.backward()\n", "")),
        twin(RAW, ("return scores.view(-1, scores.size(-1))", "return F.log_softmax(scores.view(-1, 9), 1)")),
        twin(RAW, ("nn.NLLLoss", "nn.CrossEntropyLoss")),
        twin(RAW, ("nn.NLLLoss", "nn.GaussianNLLLoss")),
        twin(RAW, ("nn.Linear(64, tags)", "nn.Sequential(nn.Linear(64, tags), nn.LogSoftmax(-1))")),
        twin(RAW, ("nn.Linear(64, tags)", "nn.Sequential(nn.Linear(64, tags))\n"
             "        self.out.add_module('log', nn.LogSoftmax(-1))")),
        twin(RAW, ("measure(tagger(ids)", "measure(tagger(ids).log_softmax(1)")),
        twin(DISTILLED, ("distance(F.softmax", "distance(F.log_softmax")),
        twin(CTC, ("softmax(dim=2)", "log_softmax(dim=2)")),
        twin(SEVERAL, ("first, second = net(x)", "second, first = net(x)"), ("loss + F.cross_entropy(second, z)",
             "loss + F.nll_loss(torch.log(second), z)")),
        twin(WAYS, ("torch.softmax(out, 1)", "out.view(-1, 3)")),
        twin(WAYS, ("    loss =", "    out = net.head(out)\n    loss =")),
        twin(ORDERED, ('("out", nn.Softmax(dim=1)), ', "")),
    ],
)  # fmt: skip
def test_look_alikes(snippet: str) -> None:
    assert_clean(snippet, CODE)


@pytest.mark.parametrize(
    "forward",
    [
        "h = self.proj(x)\n        w = torch.softmax(self.score(h), dim=1)\n        return self.fc((w * h).sum(1))",
        "w = F.softmax(self.score(x), -1)\n        return torch.bmm(w, x)",
        "g = torch.sigmoid(self.gate(x))\n        return g * self.fc(x)",
        "p = sum(F.softmax(head(x), 1) for head in self.heads) / 3\n        return torch.log(p)",
        "x = F.softmax(self.fc(x), 1)\n        x = self.out(x)\n        return x",
        "self.probs = F.softmax(self.fc(x), 1)\n        return self.fc(x)",
    ],
)
def test_a_softmax_within_the_model(forward: str) -> None:
    model = f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj, self.score, self.gate = nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 3)
        self.fc, self.out = nn.Linear(8, 3), nn.Linear(3, 3)

    def forward(self, x):
        {forward}
"""
    assert_clean(model + FIT.replace("  # !", ""), CODE)


def test_an_evaluation_is_silent() -> None:
    snippet = """
@torch.no_grad()
def evaluate(loader):
    net, criterion = Net(), nn.CrossEntropyLoss()
    return sum(criterion(net(x), y) for x, y in loader)
"""
    assert_clean(NET + snippet, CODE)


FILES = {
    "nets.py": "import torch.nn as nn\nimport torch.nn.functional as F\n" + NET,
    "loop.py": """
        import torch
        from torch import nn
        from nets import Net

        class Trainer:
            def __init__(self, model, criterion):
                self.model, self.criterion = model, criterion
                self.optimizer = torch.optim.Adam(model.parameters())

            def train(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    loss = self.criterion(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()
        """,
    "main.py": """
        import torch.nn as nn
        from loop import Trainer
        from nets import Net

        def main(loader):
            net = Net()
            Trainer(net, nn.CrossEntropyLoss()).train(loader)
        """,
}


def test_model_loop_and_loss_are_in_files_of_their_own(tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, FILES, CODE) == [("loop.py", 14)]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("main.py", "nn.CrossEntropyLoss()", "nn.NLLLoss(torch.ones(3))"),
        ("main.py", "nn.CrossEntropyLoss()", "nn.BCELoss()"),
        ("nets.py", "return self.softmax(x)", "return x"),
        ("main.py", "Trainer(net,", "net.inner.softmax = nn.Identity()\n            Trainer(net,"),
        ("main.py", "net = Net()", "net = Net()\n            net.softmax = nn.Identity()"),
    ],
)
def test_look_alikes_in_other_files(tmp_path: Path, file: str, old: str, new: str) -> None:
    files = {**FILES, file: FILES[file].replace(old, new)}
    expected = [("loop.py", 14)] if "NLLLoss(" in new else []
    assert lines_in_files(tmp_path, files, CODE) == expected


CHOSEN = """
class Simple(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 3)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x):
        return self.softmax(self.b(F.relu(self.a(x))))

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 64), nn.Linear(64, 3)

    def forward(self, x):
        return F.log_softmax(self.b(F.relu(self.a(x))), dim=1)

class Client:
    def __init__(self, args):
        self.args = args
        self.criterion = nn.NLLLoss().to(args.device)

    def update(self, model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            model.zero_grad()
            out = model(x)
            loss = self.criterion(out, y)  # !
            loss.backward()
            optimizer.step()
        return model.state_dict()

def main(args, loader):
    if args.model == "simple":
        net = Simple()
    else:
        net = Deep()
    net.to(args.device)
    client = Client(args)
    client.update(copy.deepcopy(net), loader)
"""


def test_one_of_two_models_gives_probabilities() -> None:
    assert_flagged(CHOSEN, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("self.softmax(self.b(F.relu(self.a(x))))", "self.softmax(self.b(F.relu(self.a(x)))).log()")],
        [("            loss = self", "            if self.args.model == 'simple':\n                out = out.log()\n"
          "            loss = self")],
        [("            loss = self.criterion(out, y)", "            if self.args.model == 'simple':\n"
          "                loss = ((out - y) ** 2).sum()\n            else:\n"
          "                loss = self.criterion(out, y)")],
        [("self.criterion = nn.NLLLoss().to(args.device)", "self.criterion = nn.MSELoss() if args.model == 'simple' "
          "else nn.NLLLoss()")],
        [("net = Simple()", "net = load(args)")],
    ],
)  # fmt: skip
def test_look_alikes_of_one_of_two_models(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(CHOSEN, *edits), CODE)


def test_an_attack_is_silent() -> None:
    attack = """
def attack(model, image, label, steps):
    for _ in range(steps):
        model.zero_grad()
        image.requires_grad_()
        loss = F.nll_loss(F.softmax(model(image), dim=-1), label)
        loss.backward()
        image = (image + image.grad.sign() * 8 / 255).clamp(0, 1).detach()
    return image
"""
    assert_clean(attack, CODE)


def test_functions_that_hand_their_parameters_round_end() -> None:
    snippet = """
def first(model, criterion, x, y, depth):
    model = wrap(model)
    loss = criterion(model(x), y)
    loss.backward()
    second(model, criterion, x, y, depth - 1)

def second(model, criterion, x, y, depth):
    loss = criterion(model(x), y)
    loss.backward()
    model.train_with(criterion)
    first(model, criterion, x, y, depth)
"""
    assert_clean(snippet, CODE)


LOSS_CLASS = """
class DistillationLoss(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature
        self.kl = nn.KLDivLoss(reduction="batchmean")

    def forward(self, student, teacher, labels):
        t = self.temperature
        ours = F.softmax(student / t, dim=-1)
        theirs = F.softmax(teacher / t, dim=-1)
        soft = self.kl(ours, theirs) * t * t  # !
        return soft + F.cross_entropy(student, labels), soft.item()
"""


@pytest.mark.parametrize(
    "edit",
    [
        ("", ""),
        ("self.kl(ours, theirs)", "F.kl_div(ours, theirs, reduction='batchmean')"),
        ("self.kl(ours, theirs)", "F.nll_loss(ours, labels)"),
        ("DistillationLoss", "KDCriterion"),
        ("self.kl(ours, theirs)", "F.cross_entropy(ours, labels)"),
    ],
)
def test_a_loss_of_ones_own_is_for_training(edit: tuple[str, str]) -> None:
    assert_flagged(LOSS_CLASS.replace(*edit), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("ours = F.softmax", "ours = F.log_softmax"),
        ("self.kl(ours, theirs)", "self.kl(ours.log(), theirs)"),
        ("self.kl(ours, theirs)", "self.kl(torch.log(ours + 1e-8), theirs)"),
        ("self.kl(ours, theirs)", "F.cross_entropy(student, theirs)"),
        ("self.kl(ours, theirs)", "F.mse_loss(ours, theirs)"),
        ("DistillationLoss(nn.Module)", "Agreement(nn.Module)"),  # it may be a metric
        ("DistillationLoss(nn.Module)", "DistillationLoss"),
        ("return soft + F.cross_entropy(student, labels), soft.item()", "return soft.item()"),
        ("return soft + F", "return F"),
        ("def forward", "def distance"),
    ],
)  # fmt: skip
def test_look_alikes_of_a_loss_of_ones_own(edit: tuple[str, str]) -> None:
    assert edit[0] in LOSS_CLASS
    assert_clean(LOSS_CLASS.replace(*edit), CODE)


OPTION = """
def main(args, loader):
    model = Net()
    if args.loss == "dice":
        criterion = DiceLoss()
    elif args.loss == "ce":
        criterion = nn.CrossEntropyLoss()
    else:
        criterion = nn.BCELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)  # !
        loss.backward()
        optimizer.step()
"""
DICE = """
class DiceLoss(nn.Module):
    def forward(self, out, y):
        return 1 - (out * y).sum() / (out + y).sum()
"""
SCRIPT = """
if __name__ == "__main__":
    model = Net() if args.small else Linear()
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)  # !
        loss.backward()
        optimizer.step()
"""
LINEAR = """
class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(x)
"""


@pytest.mark.parametrize(
    "snippet",
    [
        NET + DICE + OPTION,
        (NET + DICE + OPTION).replace("criterion = DiceLoss()", "criterion = nn.MSELoss()"),
        (NET + DICE + OPTION).replace("softmax = nn.Softmax(dim=1)", "softmax = nn.Sigmoid()"),
        NET + LINEAR + SCRIPT,
        (NET + LINEAR + SCRIPT).replace("nn.CrossEntropyLoss()", "nn.NLLLoss()"),
    ],
)
def test_an_option_chooses(snippet: str) -> None:
    assert_flagged(snippet, CODE)


def test_each_model_that_is_wrong_is_named() -> None:
    both = twin(NET + LINEAR + SCRIPT, ("nn.CrossEntropyLoss()", "nn.NLLLoss()"), ("self.fc(x)", "F.softmax(x, 1)"))
    (found,) = findings(both, CODE)
    assert len(found.related) == 2


@pytest.mark.parametrize(
    "edits",
    [
        [("nn.CrossEntropyLoss()", "nn.NLLLoss()"), ("self.softmax(x)", "self.softmax(x).log()")],
        [("nn.CrossEntropyLoss()", "nn.L1Loss()")],
        [("return self.softmax(x)", "return x if self.kind == 'ce' else self.softmax(x)")],
        [("self.softmax = nn.Softmax(dim=1)", "self.softmax = nn.Identity() if kind == 'ce' else nn.Softmax(dim=1)")],
        [("    optimizer =", "    if args.loss == 'ce':\n        model.softmax = nn.Identity()\n    optimizer =")],
        [("        loss = criterion(model(x), y)", "        out = model(x)\n        if args.loss == 'ce':\n"
          "            out = out.log()\n        loss = criterion(out, y)")],
        [("        loss = criterion(model(x), y)", "        loss = F.mse_loss(model(x), y)\n"
          "        if args.loss != 'ce':\n            loss = criterion(model(x), y)")],
        [("    model = Net()", "    model = Linear() if args.loss == 'ce' else Net()")],
        [("    model = Net()", "    model = build(args)")],
    ],
)  # fmt: skip
def test_look_alikes_of_an_option(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(NET + LINEAR + DICE + OPTION, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("self.softmax(x)", "F.log_softmax(x, 1)")],
        [("        loss = criterion(model(x), y)", "        if args.small:\n"
          "            loss = F.mse_loss(model(x), y)\n        else:\n            loss = criterion(model(x), y)")],
    ],
)  # fmt: skip
def test_look_alikes_of_a_script(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(NET + LINEAR + SCRIPT, *edits), CODE)


NEIGHBOURS = """
def adapt(net, loader, optimizer, features, scores):
    for x, index in loader:
        out = F.softmax(net(x), dim=1)
        near = (features[index] @ features.T).topk(5, dim=-1)[1]
        pseudo = scores[near].mean(1)
        loss = LOSS  # !
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "loss",
    [
        "F.kl_div(out, pseudo, reduction='batchmean')",
        "F.kl_div(out, pseudo)",
        "F.kl_div(out, pseudo, reduction='sum') * 0.1",
        "nn.KLDivLoss(reduction='batchmean')(out, pseudo)",
        "F.nll_loss(out, pseudo.argmax(1), reduction='none').mean()",
    ],
)
def test_a_divergence_as_a_whole(loss: str) -> None:
    assert_flagged(NEIGHBOURS.replace("LOSS", loss), CODE)


@pytest.mark.parametrize(
    "loss",
    [
        "F.kl_div(out, pseudo, reduction='none').sum(1).mean()",
        'torch.mean(torch.sum(F.kl_div(out, pseudo, reduction="none"), dim=1) * 5)',
        "torch.nn.functional.kl_div(out, pseudo, reduce=False).sum(-1).mean()",
        "(nn.KLDivLoss(reduction='none')(out, pseudo)).sum(1).mean()",
        "F.kl_div(out.unsqueeze(1).expand(-1, 5, -1), scores[near], reduction='none').sum(-1).sum(1).mean()",
    ],
)
def test_a_divergence_entry_by_entry_is_meant_as_a_scalar_product(loss: str) -> None:
    assert_clean(twin(NEIGHBOURS, ("LOSS", loss)), CODE)

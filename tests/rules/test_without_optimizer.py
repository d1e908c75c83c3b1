from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, source, twin

CODE = "GG225"

LOSS = """
    class Uncertainty(nn.Module):
        def __init__(self, tasks, start=0.0):
            super().__init__()
            self.tasks = tasks
            self.log_vars = nn.Parameter({start})

        def forward(self, out, y):
            losses = torch.stack([F.mse_loss(a, b) for a, b in zip(out, y)])
            return (torch.exp(-self.log_vars) * losses + self.log_vars).sum()
"""


def training(
    *lines: str, start: str = "torch.zeros(tasks)", made: str = "Uncertainty(2)", optimizer: str = "model.parameters()"
) -> str:
    after = "\n        ".join(lines or ("pass",))
    return f"""
    {LOSS.format(start=start)}

    def fit(loader, device, log, kind):
        model = nn.Linear(8, 2).to(device)
        criterion = {made}
        optimizer = torch.optim.Adam({optimizer}, lr=1e-3)  # !
        {after}
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            log(loss.item())
    """


@pytest.mark.parametrize(
    "start",
    [
        "torch.zeros(tasks)",
        "torch.zeros(len(tasks), requires_grad=True)",
        "torch.ones((tasks,))",
        "torch.randn(tasks, 3)",
        "torch.FloatTensor([0.0, 0.0])",
        "torch.tensor([1.0, 1.0])",
        "torch.tensor(start)",
        "torch.tensor(0.5)",
        "torch.ones([]) * math.log(1 / 0.07)",
        "nn.init.xavier_uniform_(torch.empty(tasks, 3))",
        "torch.ones(tasks).log()",
        "-0.5 * torch.ones(tasks)",
        "torch.Tensor([start])",
        "torch.FloatTensor(tasks, 8)",
    ],
)
def test_parameters_of_a_loss(start: str) -> None:
    assert_flagged(training(start=start), CODE)


def test_parameters_that_have_a_name_first() -> None:
    snippet = training()
    own = "self.log_vars = nn.Parameter(torch.zeros(tasks))"
    named = "start = torch.zeros(tasks, requires_grad=True)\n            self.log_vars = nn.Parameter(start)"
    ways = ("if tasks:", "    self.log_vars = nn.Parameter(torch.zeros(tasks).cuda())", "else:", "    " + own)
    assert_flagged(snippet.replace(own, named), CODE)
    assert_flagged(snippet.replace(own, "\n            ".join(ways)), CODE)


@pytest.mark.parametrize("made", ["Uncertainty(2).to(device)", "Uncertainty(tasks=2).cuda()", "Uncertainty(2).train()"])
def test_ways_to_make_it(made: str) -> None:
    assert_flagged(training(made=made), CODE)


@pytest.mark.parametrize(
    "optimizer",
    [
        "list(model.parameters())",
        "params=model.parameters()",
        "[{'params': model.parameters()}]",
        "[p for p in model.parameters() if p.requires_grad]",
        "filter(lambda p: p.requires_grad, model.parameters())",
    ],
)
def test_optimizers_without_it(optimizer: str) -> None:
    assert_flagged(training(optimizer=optimizer), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        ("criterion = criterion.to(device)",),
        ("criterion.cuda()",),
        ("criterion.train()",),
        ("criterion = nn.DataParallel(criterion)",),
        ("criterion = torch.compile(criterion)",),
        ("print(criterion)",),
        ("print(f'{criterion.log_vars}')",),
        ("log(criterion.log_vars.tolist())",),
        ("torch.save({'model': model.state_dict(), 'loss': criterion.state_dict()}, 'a.pt')",),
    ],
)
def test_what_is_done_to_it_besides(lines: tuple[str, ...]) -> None:
    assert_flagged(training(*lines), CODE)


@pytest.mark.parametrize(
    "optimizer",
    [
        "[*model.parameters(), *criterion.parameters()]",
        "list(model.parameters()) + list(criterion.parameters())",
        "itertools.chain(model.parameters(), criterion.parameters())",
        "[{'params': model.parameters()}, {'params': criterion.parameters(), 'lr': 1e-2}]",
        "[*model.parameters(), criterion.log_vars]",
        "nn.ModuleList([model, criterion]).parameters()",
        "(p for m in (model, criterion) for p in m.parameters())",
        "all_parameters(model, criterion)",
    ],
)
def test_optimizers_that_have_it(optimizer: str) -> None:
    assert_clean(twin(training(optimizer=optimizer)), CODE, Confidence.LOW)


@pytest.mark.parametrize(
    "lines",
    [
        ("optimizer.add_param_group({'params': criterion.parameters()})",),
        ("other = torch.optim.SGD(criterion.parameters(), lr=0.1)",),
        ("parts = [model, criterion]",),
        ("parts = {'model': model, 'loss': criterion}",),
        ("model.criterion = criterion",),
        ("model.add_module('criterion', criterion)",),
        ("model = nn.Sequential(model, criterion)",),
        ("model, criterion, optimizer = accelerator.prepare(model, criterion, optimizer)",),
        ("wrapped = nn.DataParallel(criterion)",),
        ("criterion = wrapped = criterion.cuda()", "other = another = criterion"),
        ("self.model, self.criterion = model, criterion",),
        ("criterion = nn.DataParallel(criterion)", "tune(criterion.module)"),
        ("criterion.requires_grad_(False)",),
        ("for p in criterion.parameters():", "    p.requires_grad = False"),
        ("criterion.log_vars.requires_grad = False",),
        ("criterion.load_state_dict(torch.load('loss.pt'))",),
        ("if kind == 'mse':", "    criterion = nn.MSELoss()"),
        ("wrapped = criterion",),
        ("register(criterion)",),
        ("optimizer = make_optimizer(**locals())",),
        ("for name, part in (('loss', criterion),):", "    optimizer.add_param_group({'params': part.parameters()})"),
    ],
)
def test_somebody_may_have_it(lines: tuple[str, ...]) -> None:
    assert_clean(twin(training(*lines)), CODE, Confidence.LOW)


@pytest.mark.parametrize(
    "edit",
    [
        ("nn.Parameter(torch.zeros(tasks))", "nn.Parameter(torch.zeros(tasks), requires_grad=False)"),
        ("nn.Parameter(torch.zeros(tasks))", "torch.zeros(tasks)"),
        ("nn.Parameter(torch.zeros(tasks))", "nn.Parameter(torch.zeros(tasks)) if start else 0.0"),
        ("nn.Parameter(torch.zeros(tasks))", "nn.Parameter(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))"),
        ("nn.Parameter(torch.zeros(tasks))", "nn.Parameter(torch.from_numpy(table))"),
        ("nn.Parameter(torch.zeros(tasks))", "nn.Parameter(table)"),
        ("self.log_vars = nn.Parameter(", "if start:\n                self.log_vars = nn.Parameter("),
        ("log_vars", "kernel"),
        ("log_vars", "running_mean"),
        ("Uncertainty", "FixedWeights"),
        ("return (torch.exp(-self.log_vars) * losses + self.log_vars).sum()", "return losses.sum()"),
        ("return (torch", "self.log_vars.data.mul_(0.9)\n            return (torch"),
        ("return (torch", "with torch.no_grad(): self.log_vars.copy_(losses)\n            return (torch"),
        ("loss.backward()", "pass"),
        ("optimizer.step()", "pass"),
        ("loss = criterion(model(x), y)", "loss = F.mse_loss(model(x), y) + criterion(model(x), y).item()"),
        ("loss = criterion(model(x), y)", "loss = F.mse_loss(model(x), y); log(criterion(model(x), y))"),
        ("def fit(", "def test_fit("),
    ],
)  # fmt: skip
def test_losses_that_are_right(edit: tuple[str, str]) -> None:
    assert_clean(twin(training(), edit), CODE)


def test_losses_of_libraries() -> None:
    snippet = """
    from pytorch_metric_learning import losses

    def fit(model, loader):
        metric_loss = losses.{loss}
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3){mark}
        for x, y in loader:
            optimizer.zero_grad()
            metric_loss(model(x), y).backward()
            optimizer.step()
    """
    made = "ArcFaceLoss(num_classes=10, embedding_size=8)"
    assert_flagged(snippet.format(loss=made, mark="  # !"), CODE)
    assert_clean(snippet.format(loss="TripletMarginLoss(margin=0.3)", mark=""), CODE, Confidence.LOW)
    assert_clean(twin(snippet.format(loss=made, mark=""), ("model.parameters()", "metric_loss.parameters()")), CODE)


def test_adaptive_softmax() -> None:
    snippet = """
    def fit(model, loader):
        adaptive = nn.AdaptiveLogSoftmaxWithLoss(64, 1000, cutoffs=[10, 100])
        optimizer = torch.optim.Adam(model.parameters())  # !
        for x, y in loader:
            optimizer.zero_grad()
            out = adaptive(model(x), y)
            out.loss.backward()
            optimizer.step()
    """
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("model.parameters()", "[*model.parameters(), *adaptive.parameters()]")), CODE)


SOLVER = f"""
    {LOSS.format(start="torch.zeros(len(tasks))")}

    class Solver:
        def __init__(self, tasks):
            self.model = nn.Linear(8, 2)
            self.loss_fn = Uncertainty(tasks)
            self.optimizer = torch.optim.Adam(self.model.parameters())  # !

        def step(self, x, y):
            self.optimizer.zero_grad()
            self.compute(x, y).backward()
            self.optimizer.step()

        def compute(self, x, y):
            return self.loss_fn(self.model(x), y)

        @torch.no_grad()
        def validate(self, x, y):
            self.loss_fn.eval()
            return self.loss_fn(self.model(x), y).item()
"""


def test_an_object() -> None:
    assert_flagged(SOLVER, CODE)
    setup = """
        def configure(self):
            self.optimizer = torch.optim.Adam(self.model.parameters())
    """
    moved = SOLVER.replace("            self.optimizer = torch.optim.Adam(self.model.parameters())  # !\n", "")
    assert_flagged(moved.replace("Uncertainty(tasks)", "Uncertainty(tasks)  # !") + setup, CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("self.model.parameters()", "[*self.model.parameters(), *self.loss_fn.parameters()]"),
        ("torch.optim.Adam(self.model.parameters())", "make_optimizer(self)"),
        ("class Solver:", "class Solver(nn.Module):"),
        ("class Solver:", "class Solver(BaseSolver):"),
        ("def compute", "def parts(self):\n            return self.model, self.loss_fn\n\n        def compute"),
        ("def compute", "def parts(self):\n            return vars(self)\n\n        def compute"),
        ("def compute", "def parts(self):\n            return self.__dict__\n\n        def compute"),
        ("def compute", "def swap(self, other):\n            self.loss_fn = other\n\n        def compute"),
    ],
)
def test_objects_that_are_right(edit: tuple[str, str]) -> None:
    snippet = twin(SOLVER, edit).replace(
        "class Solver(BaseSolver)", "from lab import BaseSolver\n    class Solver(BaseSolver)"
    )
    assert_clean(snippet, CODE)


@pytest.mark.parametrize(
    "after",
    [
        "class Other(Solver):\n        pass",
        "solver = Solver(3)\n    second = torch.optim.Adam(solver.loss_fn.parameters())",
        "second = torch.optim.Adam(getattr(Solver(3), 'loss_fn').parameters())",
    ],
)
def test_what_others_know_of_an_object(after: str) -> None:
    assert_clean(twin(SOLVER) + f"\n    {after}\n", CODE)


TRAINER = f"""
    {LOSS.format(start="torch.zeros(tasks)")}

    class Trainer:
        def __init__(self, model, criterion, optimizer):
            self.model, self.criterion = model, criterion
            self.optimizer = optimizer

        def fit(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                loss = self.criterion(self.model(x), y)
                loss.backward()
                self.optimizer.step()

    def main(loader):
        model, objective = nn.Linear(8, 2), None
        objective = objective
        weighting = Uncertainty(3)
        optimizer = torch.optim.Adam(model.parameters())  # !
        Trainer(model, weighting, optimizer).fit(loader)
"""


def test_a_trainer_that_is_given_it() -> None:
    assert_flagged(TRAINER, CODE)
    taken = ("for x, y in loader:", "self.optimizer.add_param_group({'params': self.criterion.parameters()})\n"
             "            for x, y in loader:")  # fmt: skip
    assert_clean(twin(TRAINER, taken), CODE)
    assert_clean(twin(TRAINER, ("class Trainer:", "class Trainer(nn.Module):")), CODE)


HELPER = f"""
    {LOSS.format(start="torch.zeros(tasks)")}

    def run_epoch(model, criterion, loader, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

    def main(loader):
        model, epochs = nn.Linear(8, 2), 3
        loss_fn = Uncertainty(3)
        optimizer = torch.optim.Adam(model.parameters())  # !
        for epoch in range(epochs):
            run_epoch(model, loss_fn, loader, optimizer=optimizer)
"""


def test_a_helper_that_is_given_it() -> None:
    assert_flagged(HELPER, CODE)
    assert_clean(
        twin(HELPER, ("for x, y in loader:", "optimizer = make(model, criterion)\n        for x, y in loader:")), CODE
    )
    assert_clean(twin(HELPER, ("run_epoch(model, loss_fn", "run_epoch(model, *[loss_fn]")), CODE)


def test_a_script() -> None:
    snippet = f"""
    {LOSS.format(start="torch.zeros(tasks)")}

    model = nn.Linear(8, 2)
    criterion = Uncertainty(3)
    optimizer = torch.optim.Adam(model.parameters())  # !

    def train(loader):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()

    train(DATA)
    """
    assert_flagged(snippet, CODE)
    taken = "\n    def more():\n        optimizer.add_param_group(dict(params=criterion.parameters()))\n"
    assert_clean(twin(snippet) + taken, CODE)


def test_several_optimizers() -> None:
    snippet = training("other = torch.optim.SGD(tuned.parameters(), lr=0.1)", "other.step()")
    assert_flagged(snippet, CODE)


def test_another_file(tmp_path: Path) -> None:
    main = source(TRAINER.replace(LOSS.format(start="torch.zeros(tasks)"), "\n    from losses import Uncertainty\n"))
    losses = source(LOSS.format(start="torch.zeros(tasks)"))
    line = next(n for n, text in enumerate(main.splitlines(), 1) if "# !" in text)
    assert lines_in_files(tmp_path, {"main.py": main, "losses.py": losses}, CODE) == [("main.py", line)]


NETWORK = """
    class Projector(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            return self.layer(x)

    def fit(model, loader):
        projector = Projector()
        optimizer = torch.optim.Adam(model.parameters())  # !
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(projector(model(x)), y).backward()
            optimizer.step()
"""


def test_a_network() -> None:
    assert_clean(twin(NETWORK), CODE)
    assert_flagged(NETWORK, CODE, Confidence.LOW)


@pytest.mark.parametrize(
    "edit",
    [
        ("model.parameters()", "[*model.parameters(), *projector.parameters()]"),
        ("projector = Projector()", "projector = Projector().eval()"),
        ("projector = Projector()", "projector = Projector()\n        projector.eval()"),
        ("projector = Projector()", "projector = Projector()\n        projector.load_state_dict(torch.load('p.pt'))"),
        ("projector = Projector()", "projector = Projector().requires_grad_(False)"),
        ("self.layer = nn.Linear(8, 8)", "self.layer = nn.ReLU()"),
        ("self.layer = nn.Linear(8, 8)", "self.layer = nn.Linear(8, 8)\n            self.requires_grad_(False)"),
        ("self.layer = nn.Linear(8, 8)", "self.layer = models.vgg16(pretrained=True)"),
        ("projector = Projector()", "projector = nn.DataParallel(model)"),
        ("projector = Projector()", "projector = copy.deepcopy(model)"),
        ("projector(", "target_net(", ),
        ("F.mse_loss(projector(model(x)), y)", "F.mse_loss(model(x), projector(y).detach())"),
    ],
)  # fmt: skip
def test_networks_that_are_right(edit: tuple[str, str]) -> None:
    assert_clean(twin(NETWORK, edit).replace("projector = Projector()\n        target", "target"), CODE, Confidence.LOW)


def test_what_it_says() -> None:
    (finding,) = findings(training(), CODE)
    assert finding.message == "`criterion` is never trained: no optimizer has its parameters, `log_vars`"
    assert [related.message for related in finding.related] == [
        "`criterion` is made here",
        "its class declares a parameter here",
        "it is run here: `criterion(model(x), y)`",
    ]


FORGOTTEN = """
    class Coder:
        def __init__(self, size):
            self.encoder = nn.Sequential(nn.Linear(size, 128), nn.ReLU())
            self.decoder = nn.Linear(8, size)
            self.latent = nn.Linear(128, 8)
            self.optimizer = torch.optim.Adam([*self.encoder.parameters(), *self.decoder.parameters()])  # !

        def step(self, x):
            loss = F.mse_loss(self.decoder(self.latent(self.encoder(x))), x)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def train(loader, size):
        coder = Coder(size)
        for x in loader:
            coder.step(x)
"""
GIVEN = "[*self.encoder.parameters(), *self.decoder.parameters()]"


@pytest.mark.parametrize(
    "given",
    [
        GIVEN,
        "list(self.encoder.parameters()) + list(self.decoder.parameters())",
        "nn.ModuleList([self.encoder, self.decoder]).parameters()",
        "[{'params': self.encoder.parameters()}, {'params': self.decoder.parameters(), 'lr': 0.1}]",
    ],
)
def test_one_network_of_several_is_forgotten(given: str) -> None:
    assert_flagged(FORGOTTEN.replace(GIVEN, given), CODE)


@pytest.mark.parametrize(
    "change",
    [
        (GIVEN, "[*self.encoder.parameters(), *self.decoder.parameters(), *self.latent.parameters()]"),
        (GIVEN, "self.encoder.parameters()"),  # the others may be meant to stay
        (GIVEN, "[p for net in (self.encoder, self.decoder, self.latent) for p in net.parameters()]"),
        (GIVEN, "self.parameters()"),
        ("self.latent = nn.Linear(128, 8)", "self.latent = nn.Linear(128, 8).requires_grad_(False)"),
        ("self.latent", "self.random_latent"),
        ("self.latent(self.encoder(x))", "self.encoder(x)[:, :8]"),
        (
            "        def step",
            "            self.second = torch.optim.Adam(self.latent.parameters())\n\n        def step",
        ),
        ("        def step", "            self.latent.load_state_dict(torch.load('latent.pt'))\n\n        def step"),
    ],
)
def test_a_network_that_is_not_forgotten(change: tuple[str, str]) -> None:
    assert_clean(twin(FORGOTTEN, change), CODE)


def chosen(by: str, *, extra: str = "") -> str:
    declared, training_loop = dedent(training(made=by)).split("def fit(")
    return f"{declared}{CHOICES}{extra}\n\ndef fit({training_loop}"


CHOICES = """
class Plain(nn.Module):
    def forward(self, out, y):
        return F.mse_loss(out, y)

class Layered(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.fc = nn.Linear(tasks, tasks)

    def forward(self, out, y):
        return F.cross_entropy(self.fc(out), y)

LOSSES = {"plain": Plain, "layered": Layered, "weighted": Uncertainty, "other": nn.MSELoss}
PLAIN = {"plain": Plain, "layered": Layered, "other": nn.MSELoss}

def make_loss(kind, tasks):
    if kind == "plain":
        return Plain()
    loss = Uncertainty(tasks)
    return loss

def make_plain_loss(kind, tasks):
    if kind == "plain":
        return Plain()
    return Layered(tasks)

def load_loss(kind, tasks):
    return Uncertainty(tasks)
"""
REGISTERED = """
REGISTRY = {}

def register(name):
    def wrap(cls):
        REGISTRY[name] = cls
        return cls
    return wrap

@register("margin")
class Margin(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(classes, 8))

    def forward(self, out, y):
        return F.cross_entropy(out @ self.centres.t(), y)
"""


@pytest.mark.parametrize(
    "by", ["LOSSES[kind](2)", "LOSSES[kind](2).to(device)", 'LOSSES["weighted"](2)', "make_loss(kind, 2)"]
)
def test_a_loss_that_a_name_picks(by: str) -> None:
    assert_flagged(chosen(by), CODE)


def test_a_loss_that_registers_itself() -> None:
    assert_flagged(chosen("REGISTRY[kind](2)", extra=REGISTERED), CODE)


@pytest.mark.parametrize(
    "by",
    [
        "PLAIN[kind](2)",
        "make_plain_loss(kind, 2)",
        "load_loss(kind, 2)",
        "kind[0](2)",
        "kind.losses[0](2)",
        "device.make_loss(kind)",
        "UNKNOWN[kind](2)",
    ],
)
def test_a_name_that_picks_none_with_parameters(by: str) -> None:
    assert_clean(twin(chosen(by)), CODE)


@pytest.mark.parametrize("by", ["LOSSES[kind](2)", "make_loss(kind, 2)"])
@pytest.mark.parametrize(
    "edit",
    [
        ("Adam(model.parameters()", "Adam([*model.parameters(), *criterion.parameters()]"),
        ("Adam(model.parameters()", "Adam(nn.ModuleList([model, criterion]).parameters()"),
        ("Adam(model.parameters()", "Adam(trainable(model, criterion)"),
        (
            "    pass\n    for x",
            "    if hasattr(criterion, 'log_vars'): optimizer.add_param_group(device(criterion))\n    for x",
        ),
        ("    pass\n    for x", "    criterion.requires_grad_(False)\n    for x"),
        ("nn.Parameter(torch.zeros(tasks))", "nn.Parameter(torch.zeros(tasks), requires_grad=False)"),
        ("nn.Parameter(torch.zeros(tasks))", "torch.zeros(tasks)"),
    ],
)
def test_a_loss_that_a_name_picks_and_somebody_trains(by: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(chosen(by), edit), CODE)


def test_a_registry_of_another_file(tmp_path: Path) -> None:
    header = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    losses, training_loop = chosen("LOSSES[kind](2)").split("def fit(")
    files = {"losses.py": header + losses, "main.py": f"{header}from losses import LOSSES\n\ndef fit({training_loop}"}
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["main.py"]


PICKING = """
def build_criterion(kind, tasks):
    kinds = {"plain": Plain, "weighted": Uncertainty}
    return kinds[kind["name"]](tasks)

def make_criterion(kind, tasks):
    maker = LOSSES.get(kind, Plain)
    criterion = maker(tasks)
    return criterion

def create_loss(kind, tasks):
    makers = {"plain": lambda: Plain(), "weighted": lambda: Uncertainty(tasks)}
    return makers[kind]()

def class_of(kind):
    return Uncertainty if kind == "weighted" else Plain

def get_loss(kind, tasks):
    return class_of(kind)(tasks)

def make_weighted(tasks):
    return Uncertainty(tasks)

MAKERS = {"plain": Plain, "weighted": make_weighted}

def init_loss(kind, tasks):
    loss_class = MAKERS[kind]
    return loss_class(tasks)

def select_objective(kind, tasks):
    return build_criterion(kind, tasks)

def build_plain_loss(kind, tasks):
    kinds = {"plain": Plain, "layered": Layered}
    return kinds[kind](tasks)

def choose_loss(kind, tasks):
    return kind.losses[kind.name](tasks)
"""


@pytest.mark.parametrize(
    "by",
    [
        "build_criterion(kind, 2)",
        "make_criterion(kind, 2).to(device)",
        "create_loss(kind, 2)",
        "get_loss(kind, 2)",
        "init_loss(kind, 2)",
        "select_objective(kind, tasks=2)",
        'LOSSES[kind["name"]](2)',
        "LOSSES.get(kind, Plain)(2)",
        "MAKERS[kind](2)",
    ],
)
def test_ways_to_pick_a_loss(by: str) -> None:
    assert_flagged(chosen(by, extra=PICKING), CODE)


def test_a_class_that_is_picked_first() -> None:
    picked = "    loss_cls = {'plain': Plain, 'weighted': Uncertainty}[kind]\n    criterion ="
    assert_flagged(chosen("loss_cls(2)").replace("    criterion =", picked), CODE)


@pytest.mark.parametrize(
    "by", ["build_plain_loss(kind, 2)", "choose_loss(kind, 2)", "PLAIN.get(kind)(2)", "kind.get('loss')(2)"]
)
def test_ways_to_pick_what_has_no_parameters(by: str) -> None:
    assert_clean(twin(chosen(by, extra=PICKING)), CODE)


OF_A_HELPER = """
def make_optimizer(kind, *modules):
    groups = [{"params": p} for module in modules for p in module.parameters()]
    return getattr(torch.optim, kind)(groups, lr=1e-3)
"""
ADAM = "torch.optim.Adam(model.parameters(), lr=1e-3)"


def returning(given: str, after: str = "", *, optimizer: str = "make_optimizer(kind, model)") -> str:
    snippet = chosen("build_criterion(kind, 2)", extra=PICKING + OF_A_HELPER).replace(ADAM, optimizer)
    return f"{snippet.rstrip()}\n    return {given}\n{dedent(after)}"


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ("criterion", ""),
        ("model, criterion", ""),
        ("criterion", "criterion = fit(loader, 'cpu', print, 'weighted')"),
        ("model, criterion", "fit(loader, 'cpu', print, 'weighted')"),
        (
            "model, criterion",
            """
            def main(loader):
                net, loss = fit(loader, "cpu", print, "weighted")
                torch.save(loss.state_dict(), "loss.pt")
            """,
        ),
    ],
)
def test_a_loss_that_is_returned_when_it_was_to_be_trained(given: str, after: str) -> None:
    assert_flagged(returning(given, after), CODE)


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ("[criterion]", "torch.optim.Adam(fit(loader, 'cpu', print, 'weighted')[0].parameters())"),
        ("criterion.log_vars", ""),
        (
            "model, criterion",
            """
            def main(loader):
                net, loss = fit(loader, "cpu", print, "weighted")
                refine(loss, torch.optim.SGD(loss.parameters(), lr=0.1))
            """,
        ),
        (
            "model, criterion",
            """
            def main(loader):
                refine(*fit(loader, "cpu", print, "weighted"))
            """,
        ),
        (
            "criterion",
            """
            class Task:
                def __init__(self, loader):
                    self.criterion = fit(loader, "cpu", print, "weighted")
            """,
        ),
    ],
)
def test_a_loss_that_is_returned_to_who_may_train_it(given: str, after: str) -> None:
    assert_clean(twin(returning(given, after)), CODE)


def test_an_optimizer_of_a_helper_that_is_given_the_loss() -> None:
    assert_clean(twin(returning("criterion", optimizer="make_optimizer(kind, model, criterion)")), CODE)
    assert_clean(twin(returning("criterion", optimizer="make_optimizer(kind, *parts(model, criterion))")), CODE)


def test_a_loss_a_model_and_an_optimizer_of_three_files(tmp_path: Path) -> None:
    header = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    losses, training_loop = returning("criterion", "criterion = fit([], 'cpu', print, 'weighted')").split("def fit(")
    losses, helper = losses.split("def make_optimizer")
    files = {
        "losses.py": header + losses,
        "optimizers.py": f"{header}\ndef make_optimizer{helper}",
        "main.py": f"{header}from losses import build_criterion\nfrom optimizers import make_optimizer\n\n"
        f"def fit({training_loop}",
    }
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["main.py"]

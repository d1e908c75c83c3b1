"""GG301 and GG103 where the model is one that has nothing to train: its constructor froze it, or what it wraps is."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

FEATURES = """
    from torchvision import models

    class Features(nn.Module):
        def __init__(self, {parameters}):
            super().__init__()
            layers = models.vgg16(pretrained=True).features
            self.low, self.high = nn.Sequential(*layers[:9]), nn.Sequential(*layers[9:23])
            {freezing}

        def forward(self, x):
            low = self.low(x)
            return low, self.high(low)

    class Distance(nn.Module):
        def __init__(self, kind="vgg", scale=1.0):
            super().__init__()
            self.scale = scale
            self.shift = torch.Tensor([0.48, 0.45, 0.40]).view(1, 3, 1, 1)
            {wrapping}

        def forward(self, a, b):
            pairs = zip(self.net(a + self.shift), self.net(b + self.shift))
            return sum(((x - y) ** 2).mean() for x, y in pairs) * self.scale
"""
DIRECT = """
    def score(loader):
        net = {made}
        net.eval()
        for x in loader:
            print(net(x)[0].mean().item()){mark}
"""
WRAPPED = """
    def distance(a, b, net):
        return net(a * 2 - 1, b * 2 - 1)

    def score(loader):
        metric = Distance().to("cuda")
        metric.eval()
        for a, b in loader:
            print(metric(a, b).item()){mark}

    def score_by(loader):
        metric = Distance().to("cuda")
        metric.eval()
        for a, b in loader:
            print(distance(a, b, metric).item()){mark}
"""
IF_NOT = """if not requires_grad:
                for param in self.parameters():
                    param.requires_grad = False"""
IF = IF_NOT.replace("if not requires_grad", "if freeze")
ONE = "self.net = Features(requires_grad=False)"
SEVERAL = """if kind == 'vgg':
                self.net = Features(requires_grad=False)
            else:
                self.net = Other()"""

FROZEN = [
    ("requires_grad=False, pretrained=True", IF_NOT, "Features()"),
    ("requires_grad=True", IF_NOT, "Features(requires_grad=False)"),
    ("requires_grad=True", IF_NOT, "Features(False)"),
    ("freeze=True", IF, "Features()"),
    ("freeze=False", IF, "Features(freeze=True).cuda()"),
    ("freeze=True", "if freeze:\n                self.requires_grad_(False)", "Features().to('cpu').eval()"),
    ("requires_grad=False", "self.requires_grad_(requires_grad)", "Features()"),
]
LEARNING = [
    ("requires_grad=True", IF_NOT, "Features()"),
    ("requires_grad=False", IF_NOT, "Features(requires_grad=True)"),
    ("requires_grad=False", IF_NOT, "Features(True).eval()"),
    ("requires_grad", IF_NOT, "Features(options.learn)"),
    ("requires_grad=False", IF_NOT, "Features(requires_grad=options.learn)"),
    ("freeze=False", IF, "Features()"),
    ("freeze=True", IF.replace("if freeze", "if not freeze"), "Features()"),
    ("freeze=True", IF.replace("self.parameters", "self.low.parameters"), "Features()"),
    ("requires_grad=False", "self.pretrained = requires_grad", "Features()"),
]
WRAPPING = [
    ONE,
    "self.net = Features()",
    "self.net = Features(requires_grad=False).cuda()",
    "self.net, self.pool = Features(), nn.MaxPool2d(2)",
    SEVERAL,
]
LEARNING_WRAPPERS = [
    "self.net = Features(requires_grad=True)",
    "self.net, self.heads = Features(), nn.Linear(8, 1)",
    "self.net, self.weight = Features(), nn.Parameter(torch.ones(3))",
    "self.net = Features(); self.register_parameter('weight', nn.Parameter(torch.ones(3)))",
    "self.net = nn.Sequential(Features(), nn.Linear(8, 1))",
    "self.net, self.other = Features(), kind",
]


def code(parameters: str, freezing: str, wrapping: str = ONE) -> str:
    return FEATURES.format(parameters=parameters, freezing=freezing, wrapping=wrapping)


@pytest.mark.parametrize(("parameters", "freezing", "made"), FROZEN)
def test_frozen_by_its_constructor(parameters: str, freezing: str, made: str) -> None:
    assert_clean(code(parameters, freezing) + DIRECT.format(made=made, mark=""))


@pytest.mark.parametrize(("parameters", "freezing", "made"), LEARNING)
def test_that_does_not_freeze_itself(parameters: str, freezing: str, made: str) -> None:
    assert_flagged(code(parameters, freezing) + DIRECT.format(made=made, mark="  # !"), "GG301")


@pytest.mark.parametrize("wrapping", WRAPPING)
def test_wrapped_in_another(wrapping: str) -> None:
    assert_clean(code("requires_grad=False", IF_NOT, wrapping) + WRAPPED.format(mark=""))


@pytest.mark.parametrize("wrapping", LEARNING_WRAPPERS)
def test_wrapped_in_one_that_learns(wrapping: str) -> None:
    assert_flagged(
        code("requires_grad=False", IF_NOT, wrapping.replace("kind", "build(kind)")) + WRAPPED.format(mark="  # !"),
        "GG301",
    )


def test_what_goes_into_a_frozen_module_may_still_have_a_graph() -> None:
    training = """
    def train(net, loader, optimizer):
        criterion, total = Distance(), 0
        for x, y in loader:
            loss = criterion(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss  # !
        return total.item()
    """
    assert_flagged(code("requires_grad=False", IF_NOT) + training, "GG103")


TEACHERS = """
    from copy import deepcopy

    def learnable(model, learns):
        model = deepcopy(model)
        for _, weight in model.named_parameters():
            weight.requires_grad = learns
        return model

    class Solver:
        def prepare(self, model, teaches):
            if teaches:
                model = learnable(model, learns=False)
                model.eval()
            else:
                model = learnable(model, learns=True)
                model.train()
            return model

    class Distil:
        def __init__(self, student, teachers, teach=True):
            self.solver = Solver()
            self.student = self.solver.prepare(student, teaches=False)
            self.teachers = [self.solver.prepare(teacher, teaches=True) for teacher in teachers]

        def pick(self, loader):
            doubts = []
            for x, _ in loader:
                outs = [teacher(x).softmax(1) for teacher in self.teachers]
                doubts.append(sum(outs) / len(outs))  # !
            return torch.cat(doubts).topk(3)[1]
"""
ASKED = "weight.requires_grad = learns"


@pytest.mark.parametrize(
    "edit",
    [
        (ASKED, ASKED),
        (ASKED, "weight.requires_grad_(learns)"),
        (
            "for _, weight in model.named_parameters():\n            weight.requires_grad = learns",
            "model.requires_grad_(learns)",
        ),
        ("learns=False", "False"),
        ("teacher, teaches=True", "teacher, True"),
        ("return model\n\n    class Distil", "return model.cuda()\n\n    class Distil"),
        ("teacher(x).softmax", "teacher.features(x).softmax"),
        (
            "[self.solver.prepare(teacher, teaches=True) for teacher in teachers]",
            "list(self.solver.prepare(teacher, teaches=True) for teacher in teachers)",
        ),
    ],
)
def test_modules_that_a_function_freezes(edit: tuple[str, str]) -> None:
    assert_clean(twin(TEACHERS, edit), "GG104")


@pytest.mark.parametrize(
    "edit",
    [
        ("learns=False", "learns=True"),
        ("teacher, teaches=True", "teacher, teaches=False"),
        ("teacher, teaches=True", "teacher, teaches=teach"),
        ("learns=False", "learns=len(teachers) > 3"),
        ("            weight.requires", "            if weight.dim() == 1:\n                weight.requires"),
        ("model.eval()", "model.requires_grad_(True)"),
        (
            "return model\n\n    class Distil",
            "model.head = nn.Linear(3, 3)\n            return model\n\n    class Distil",
        ),
        (
            "            return model\n\n    class Distil",
            "            return nn.Sequential(model, nn.Linear(3, 3))\n\n    class Distil",
        ),
        (
            "self.solver.prepare(teacher, teaches=True)",
            "self.solver.prepare(teacher, True) if teach else nn.Linear(3, 3)",
        ),
        (
            "return model\n\n    class Distil",
            "model.fc[0] = build_head()\n            return model\n\n    class Distil",
        ),
        (
            ASKED,
            "weight.requires_grad = learns\n        model.head.requires_grad_(True)",
        ),
    ],
)
def test_modules_that_a_function_does_not_surely_freeze(edit: tuple[str, str]) -> None:
    assert edit[0] in TEACHERS
    assert_flagged(TEACHERS.replace(*edit), "GG104")


BUILT = """
    def build(classes):
        net = models.resnet18(pretrained=True)
        net.requires_grad_(False)
        AFTER
        return net

    class Run:
        def __init__(self):
            self.net = build(10)

        def test(self, loader):
            self.net.eval()
            for x, y in loader:
                print(self.net(x).argmax(1))  # !

        def begin(self):
            BEGIN
"""


def built(after: str = "pass", begin: str = "pass") -> str:
    return "\n    from torchvision import models" + BUILT.replace("AFTER", after).replace("BEGIN", begin)


@pytest.mark.parametrize("after", ["pass", "net.name = str(classes)", "net = net.eval().cuda()"])
def test_a_module_that_the_function_which_builds_it_freezes(after: str) -> None:
    assert_clean(twin(built(after)), "GG301")


@pytest.mark.parametrize(
    "after",
    [
        "net.fc = nn.Linear(512, classes)",
        "net.fc[0] = nn.Linear(512, classes)",
        "net.fc = build_head(classes)",
        "net.fc.requires_grad_(True)",
        "for p in net.fc.parameters(): p.requires_grad = True",
        "for name, p in net.named_parameters(): p.requires_grad = 'fc' in name",
        "net = nn.Sequential(net, nn.Linear(10, 10))",
    ],
)
def test_a_module_of_which_a_part_learns_that_is_built_so(after: str) -> None:
    assert_flagged(built(after), "GG301")


@pytest.mark.parametrize(
    "begin",
    [
        "self.net.requires_grad_(True)",
        "for p in self.net.parameters(): p.requires_grad = True",
        "self.net.fc = nn.Linear(512, 3)",
    ],
)
def test_a_module_that_was_built_frozen_and_learns_later(begin: str) -> None:
    assert_flagged(built(begin=begin), "GG301")


KEYS = """
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.head = nn.Sequential(nn.Linear(3, 3)), nn.Linear(3, 3)

        def forward(self, x):
            features = self.layers(x)
            return features, self.head(features)

    class Contrast(nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.keys = Encoder(), Encoder()
            for p, q in zip(self.model.parameters(), self.keys.parameters()):
                q.data.copy_(p.data)
                q.requires_grad = False

        def forward(self, x):
            return self.model(x)

        def encode_keys(self, x):
            return self.keys(x)

    def train(net, loader, optimizer):
        bank = []
        for x, y in loader:
            net.train()
            keys, _ = net.encode_keys(x)
            loss = F.cross_entropy(net(x)[1] @ keys.T, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            bank.append(keys)  # !
        return torch.cat(bank).mean().item()
"""
OVER = "for p, q in zip(self.model.parameters(), self.keys.parameters()):"
BOTH = f"{OVER}\n                q.data.copy_(p.data)\n                q.requires_grad = False"
OWN = "return self.keys(x)"
OTHER = "class Other(Contrast):\n        def encode_keys(self, x):\n            return self(x)\n\n    def train("


@pytest.mark.parametrize(
    "edit",
    [
        (OVER, OVER),
        (OVER, "for q in self.keys.parameters():"),
        (OVER, "for _, q in self.keys.named_parameters():"),
        (OVER, "for (_, p), (_, q) in zip(self.model.named_parameters(), self.keys.named_parameters()):"),
        (OVER, "for i, (p, q) in enumerate(zip(self.model.parameters(), self.keys.parameters())):"),
        ("q.requires_grad = False", "q.requires_grad_(False)"),
        (OWN, "keys, scores = self.keys(x)\n            return keys, scores"),
        (OWN, "x = x[torch.randperm(len(x))]\n            return self.keys(x)"),
        ("net.encode_keys", "net.module.encode_keys"),
        (OWN, f"with torch.no_grad():\n                {OWN}"),
    ],
)
def test_a_method_of_a_model_that_runs_a_frozen_part(edit: tuple[str, str]) -> None:
    assert_clean(twin(KEYS, edit), "GG104")


@pytest.mark.parametrize(
    "edit",
    [
        ("q.requires_grad = False", "p.requires_grad = False"),
        ("q.requires_grad = False", "q.requires_grad = True"),
        ("self.keys.parameters", "self.keys.head.parameters"),
        ("q.data.copy_(p.data)", "if q.dim() == 1: continue"),
        (OVER, "for p, q in pairs(self.model.parameters(), self.keys.parameters()):"),
        (BOTH, f"{BOTH}\n            self.keys.head = nn.Linear(3, 3)"),
        (BOTH, f"{BOTH}\n            self.keys.head.requires_grad_(True)"),
        (OWN, "return self.model(x)"),
        (OWN, "keys, _ = self.keys(x)\n            return self.model(keys)"),
        (OWN, "return self.keys(self.model(x)[0])"),
        (
            "def train(",
            "class Other(Contrast):\n        def encode_keys(self, x):\n            return self(x)\n\n    def train(",
        ),
    ],
)
def test_a_method_of_a_model_that_runs_what_learns(edit: tuple[str, str]) -> None:
    assert edit[0] in KEYS
    assert_flagged(KEYS.replace(*edit), "GG104")


def test_what_a_method_runs_frozen_keeps_the_graph_of_what_goes_in() -> None:
    snippet = twin(KEYS, ("net.encode_keys(x)", "net.encode_keys(net(x)[0])"))
    assert_flagged(snippet.replace("bank.append(keys)", "bank.append(keys)  # !"), "GG104")


CUTTING = """
    class Cuts(nn.Module):
        def __init__(self, size, count, power=1.0):
            super().__init__()
            self.size, self.count = size, count
            self.power = power

        def forward(self, x):
            height = min(x.shape[-1], self.size)
            cuts = []
            for _ in range(self.count):
                offset = int(torch.rand([]) ** self.power * (x.shape[-1] - height))
                cuts.append(x[..., offset:offset + height])
            return torch.cat(cuts)

    def main(count, loader):
        cut = Cuts(7, count)
        net = build().eval()
        for x, y in loader:
            print(cut(x).mean().item())  # !
"""
SIZED = "height = min(x.shape[-1], self.size)"
COUNTED = "for _ in range(self.count):"


@pytest.mark.parametrize(
    "edit",
    [
        (SIZED, SIZED),
        (SIZED, "height = max(self.size, 1)"),
        (SIZED, "height = int(self.size)"),
        (SIZED, "height = round(self.size)"),
        (SIZED, "height = min(self.size, 4) + max(2, self.count)"),
        ("self.size, self.count = size, count", "self.size = size; self.count = count"),
    ],
)
def test_a_module_that_is_given_only_numbers(edit: tuple[str, str]) -> None:
    assert_clean(twin(CUTTING, edit), "GG301")


@pytest.mark.parametrize(
    "edit",
    [
        (SIZED, "height = self.size(x)"),
        (SIZED, "height = min(self.size)"),
        (SIZED, "height = min(self.size(x), 3)"),
        (SIZED, "height = min(*self.size)"),
        (COUNTED, "for _ in self.count:"),
        (COUNTED, "for _ in range(len(self.count)):"),
        ("self.power = power", "self.power = nn.Parameter(torch.ones(1))"),
        ("self.power = power", "self.power = nn.Linear(size, size)"),
    ],
)
def test_a_module_that_may_be_given_another(edit: tuple[str, str]) -> None:
    assert edit[0] in CUTTING
    assert_flagged(CUTTING.replace(*edit), "GG301")

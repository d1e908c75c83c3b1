from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG213"


def net(*constructor: str, forward: str = "for layer in self.layers: x = layer(x)", more: str = "") -> str:
    body = "\n                ".join(constructor)
    return f"""
        class Net(nn.Module):
            def __init__(self, dim, depth):
                super().__init__()
                {body}

            def forward(self, x):
                {forward}
                return x

            {more}

        def train(loader):
            model = Net(8, 3)
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
    """


FLAGGED = {
    "a list": net("self.layers = [nn.Linear(dim, dim) for _ in range(depth)]  # !"),
    "written out": net("self.layers = [nn.Conv1d(dim, dim, 3), nn.ReLU(), nn.Conv1d(dim, dim, 3)]  # !"),
    "a tuple": net("self.layers = (nn.Linear(dim, dim), nn.Linear(dim, dim))  # !"),
    "moved to a device": net("self.layers = [nn.Conv2d(1, dim, (k, dim)).to(device) for k in (2, 3)]  # !"),
    "appended to": net(
        "self.layers = []",
        "for i in range(depth):",
        "    self.layers.append(nn.Linear(dim, dim))  # !",
    ),
    "appended to, by a name": net(
        "self.layers: list[nn.Module] = list()",
        "for i in range(depth):",
        "    cell = nn.GRUCell(dim, dim)",
        "    self.layers.append(cell)  # !",
    ),
    "pairs": net(
        "self.layers = []",
        "for i in range(depth):",
        "    self.layers.append([nn.Linear(dim, dim), nn.Tanh()])  # !",
        forward="for linear, act in self.layers: x = act(linear(x))",
    ),
    "a dict": net(
        "self.heads = {'a': nn.Linear(dim, 1), 'b': nn.Linear(dim, 2)}  # !",
        forward="x = {name: head(x) for name, head in self.heads.items()}",
    ),
    "entries of a dict": net(
        "self.heads = {}",
        "for name in ('a', 'b'):",
        "    self.heads[name] = nn.Linear(dim, dim)  # !",
        forward="x = self.heads['a'](x)",
    ),
    "parameters": net(
        "self.scales = [nn.Parameter(torch.ones(dim)) for _ in range(depth)]  # !",
        forward="x = x * self.scales[0]",
    ),
    "blocks of the program": """
        class Block(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.fc = nn.Linear(dim, dim)

            def forward(self, x):
                return x + self.fc(x)

        class Tower(nn.Module):
            def __init__(self, dim):
                super(Tower, self).__init__()
                self.blocks = [Block(dim) for _ in range(4)]  # !
                self.out = nn.Linear(dim, 1)

            def forward(self, x):
                for i in range(len(self.blocks)):
                    x = self.blocks[i](x)
                return self.out(x)
    """,
    "run with a graph, too": net(
        "self.layers = [nn.Linear(dim, dim)]  # !",
        forward="x = self.layers[0](x)",
        more="@torch.no_grad()\n            def features(self, x): return self.layers[0](x)",
    ),
    "each is only initialized": net(
        "self.layers = []",
        "for _ in range(depth):",
        "    layer = nn.Linear(dim, dim)",
        "    init_weights(layer)",
        "    self.layers.append(layer)  # !",
    ),
    "an optimizer of other layers": net(
        "self.layers = [nn.Linear(dim, dim)]  # !",
        "self.heads = nn.ModuleList(nn.Linear(dim, 1) for _ in range(depth))",
        more="def configure_optimizers(self): return Adam(w for head in self.heads for w in head.parameters())",
    ),
    "a module of Lightning": """
        import lightning.pytorch as pl

        class Lit(pl.LightningModule):
            def __init__(self, dim):
                super().__init__()
                self.experts = [nn.Linear(dim, dim) for _ in range(4)]  # !

            def training_step(self, batch, index):
                x, y = batch
                return F.mse_loss(sum(expert(x) for expert in self.experts), y)
    """,
    "initialized one by one": net(
        "self.tables = {name: nn.Embedding(10, dim) for name in depth}  # !",
        "for table in self.tables.values():",
        "    nn.init.normal_(table.weight, std=0.1)",
        forward="x = torch.cat([self.tables[name](x[name]) for name in self.tables], 1)",
    ),
    "initialized in place, and reset": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]  # !",
        "for i, layer in enumerate(self.layers):",
        "    layer.reset_parameters()",
        "    layer.weight.data.mul_(0.5)",
        "    layer.apply(scale_down)",
    ),
    "as many of something else": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]  # !",
        "self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(len(self.layers))])",
    ),
    "a module of what comes out": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]  # !",
        "self.out = nn.Sequential(nn.ReLU(), nn.Linear(dim, 1))",
        forward="parts = [layer(x) for layer in self.layers]; x = self.out(sum(parts))",
    ),
    "asked for their sizes": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]  # !",
        "self.out = nn.Linear(sum(layer.out_features for layer in self.layers), 1)",
    ),
}

REGISTERED = {
    "a list of the values": "self.all = nn.ModuleList(list(self.layers.values()))",
    "the values, unpacked": "self.all = nn.Sequential(*self.layers.values())",
    "a list of the values, unpacked": "self.all = nn.Sequential(*list(self.layers.values()))",
    "each by its name": "self.all = nn.ModuleList([self.layers[name] for name in depth])",
    "those of some names": "self.all = nn.ModuleList(self.layers[name] for name in sorted(depth))",
    "sorted": "self.all = nn.ModuleList(sorted(self.layers.values(), key=id))",
    "sorted before": "found = sorted(self.layers.values(), key=id); self.all = nn.ModuleList(found)",
    "by two variables": "found = self.layers; parts = list(found.values()); self.all = nn.Sequential(*parts)",
    "a comprehension before": "found = [m for m in self.layers.values()]; self.all = nn.ModuleList(found)",
    "a copy": "self.all = torch.nn.ModuleDict(dict(self.layers))",
    "its entries": "self.all = nn.ModuleDict({f'to_{key}': self.layers[key] for key in self.layers})",
    "its items": "self.all = nn.ModuleDict(list(self.layers.items()))",
    "by map": "self.all = nn.ModuleList(map(self.layers.get, depth))",
    "in two": "self.all = nn.Sequential(nn.Sequential(*tuple(self.layers.values())), nn.ReLU())",
}
OF_A_LIST = {
    "a list of the list": "self.all = nn.ModuleList(list(self.layers))",
    "reversed": "self.all = nn.ModuleList(reversed(self.layers))",
    "a part": "self.all = nn.ModuleList(tuple(self.layers[:2]))",
    "by position": "self.all = nn.ModuleList([self.layers[i] for i in range(depth)])",
    "unpacked, the other way round": "self.all = nn.Sequential(*reversed(self.layers))",
    "in a list that is written out": "self.all = nn.ModuleList([nn.ReLU(), *self.layers])",
    "added": "self.all = nn.ModuleList([nn.ReLU()] + self.layers)",
}


@pytest.mark.parametrize("registering", REGISTERED.values(), ids=REGISTERED)
def test_a_dict_of_which_a_module_is_made(registering: str) -> None:
    made = "self.layers = {name: nn.Linear(dim, dim) for name in depth}"
    use = "x = sum(layer(x) for layer in self.layers.values())"
    assert_clean(net(made, registering, forward=use), CODE)


@pytest.mark.parametrize("registering", OF_A_LIST.values(), ids=OF_A_LIST)
def test_a_list_of_which_a_module_is_made(registering: str) -> None:
    assert_clean(net("self.layers = [nn.Linear(dim, dim) for _ in range(depth)]", registering), CODE)
    local = ["layers = [nn.Linear(dim, dim) for _ in range(depth)]", "self.layers = layers"]
    assert_clean(net(*local, registering.replace("self.layers", "layers")), CODE)


CLEAN = {
    "an attribute each, in a loop": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]",
        "for layer in self.layers:",
        "    nn.init.zeros_(layer.bias)",
        "    self.keep(layer)",
    ),
    "the weights are attributes": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]",
        "for embed in self.layers:",
        "    nn.init.zeros_(embed.bias)",
        "    self.weight = embed.weight",
    ),
    "in another list that is registered": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]",
        "self.all = nn.ModuleList([layer for layer in self.layers])",
    ),
    "wrapped each": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]",
        "self.all = nn.Sequential(*(nn.Sequential(layer, nn.ReLU()) for layer in self.layers))",
    ),
    "initialized, and listed": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]",
        "self.weights = nn.ParameterList()",
        "for layer in self.layers:",
        "    nn.init.normal_(layer.weight)",
        "    self.weights.append(layer.weight)",
    ),
    "a ModuleList": net("self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(depth)])"),
    "made one afterwards": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]", "self.layers = nn.ModuleList(self.layers)"
    ),
    "in a Sequential": net(
        "self.layers = [nn.Linear(dim, dim), nn.Linear(dim, dim)]", "self.body = nn.Sequential(*self.layers)"
    ),
    "registered by hand": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]",
        "for i, layer in enumerate(self.layers): self.add_module(f'layer{i}', layer)",
    ),
    "registered by setattr": net(
        "self.layers = []",
        "for i in range(depth):",
        "    layer = nn.Linear(dim, dim)",
        "    setattr(self, f'layer{i}', layer)",
        "    self.layers.append(layer)",
    ),
    "given to a method": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]", "self.register_all(self.layers)"
    ),
    "parameters of its own": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]",
        more="def parameters(self): return [p for layer in self.layers for p in layer.weights()]",
    ),
    "frozen": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]",
        "for layer in self.layers:",
        "    for p in layer.parameters(): p.requires_grad = False",
    ),
    "parts that it has anyway": net(
        "self.first, self.second = nn.Linear(dim, dim), nn.Linear(dim, dim)", "self.layers = [self.first, self.second]"
    ),
    "a teacher that is hidden": net("self.layers = [teacher]"),
    "without parameters": net("self.layers = [nn.ReLU(), nn.Dropout(0.1)]"),
    "criteria": net("self.criteria = [nn.CrossEntropyLoss(), nn.L1Loss()]", forward="x = self.criteria[0](x, x)"),
    "sizes": net("self.sizes = [dim * 2 for _ in range(depth)]", forward="x = x * self.sizes[0]"),
    "it is never used": net("self.layers = [nn.Linear(dim, dim)]", forward="x = x + 1"),
    "trained by somebody else": net("self.layers = [nn.Linear(dim, dim)]").replace(
        "model.parameters()", "[p for layer in model.layers for p in layer.parameters()]"
    ),
    "no module": net("self.layers = [nn.Linear(dim, dim)]").replace("(nn.Module)", ""),
    "a module of another library": net("self.layers = [nn.Linear(dim, dim) for _ in range(depth)]").replace(
        "class Net", "import mlx.nn as nn\n\n        class Net"
    ),
    "a base of others": net("self.layers = [nn.Linear(dim, dim)]")
    + """
        class Wide(Net):
            def __init__(self):
                super().__init__(64, 2)
                self.all = nn.ModuleList(self.layers)
    """,
    "returned by a method": net("self.layers = [nn.Linear(dim, dim)]", more="def parts(self): return self.layers"),
    "its elements are parts of another": net(
        "self.layers = [nn.Linear(dim, dim), nn.Linear(dim, dim)]",
        "self.body = nn.Sequential(self.layers[0], nn.ReLU(), self.layers[1])",
    ),
    "its elements are attributes, too": net(
        "self.layers = [nn.Linear(dim, dim), nn.Linear(dim, dim)]",
        "self.first, self.second = self.layers[0], self.layers[1]",
    ),
    "a loop that may register them": net(
        "self.layers = [nn.Linear(dim, dim), nn.Linear(dim, dim)]",
        "for i, layer in enumerate(self.layers): vars(self)['_modules'][str(i)] = layer",
    ),
    "a comprehension that registers them": net(
        "self.layers = [nn.Linear(dim, dim), nn.Linear(dim, dim)]",
        "self.body = nn.ModuleList(layer for layer in self.layers)",
    ),
    "a module of Haiku": """
        import haiku as hk

        class Block(hk.Module):
            def __init__(self, dim):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(dim))

        class Net(hk.Module):
            def __init__(self, dim):
                super().__init__()
                self.blocks = [Block(dim) for _ in range(3)]

            def __call__(self, x):
                for block in self.blocks: x = block(x)
                return x
    """,
    "an optimizer of what is in it": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]",
        more="def configure_optimizers(self): return Adam(w for layer in self.layers for w in layer.parameters())",
    ),
    "an optimizer for each, made later": net(
        "self.layers = [nn.Linear(dim, dim) for _ in range(depth)]",
        more="def start(self): self.optimizers = [Adam(self.layers[i].parameters()) for i in range(3)]",
    ),
    "an optimizer for each, made with it": net(
        "self.layers, self.optimizers = [], []",
        "for _ in range(depth):",
        "    layer = nn.Linear(dim, dim)",
        "    self.layers.append(layer)",
        "    self.optimizers.append(torch.optim.Adam(layer.parameters()))",
    ),
    "only run without a graph": net(
        "self.layers = [nn.Linear(dim, dim)]",
        "self.layers[0].load_state_dict(torch.load('teacher.pt'))",
        forward="""
                with torch.no_grad():
                    for layer in self.layers: x = layer(x)""",
    ),
    "only run in a method without gradients": net(
        "self.layers = [nn.Linear(dim, dim)]",
        forward="x = x + self.features(x)",
        more="@torch.no_grad()\n            def features(self, x): return self.layers[0](x)",
    ),
    "what they give is detached": net("self.layers = [nn.Linear(dim, dim)]", forward="x -= self.layers[0](x).detach()"),
    "the same layers in a ModuleList": net(
        "self.registered, self.layers = nn.ModuleList(), []",
        "for i in range(depth):",
        "    layer = nn.Linear(dim, dim)",
        "    self.registered.append(layer)",
        "    self.layers.append((layer, i))",
        forward="for layer, _ in self.layers: x = layer(x)",
    ),
    "they train themselves": """
        class Local(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.fc = nn.Linear(dim, dim)
                self.optimizer = torch.optim.SGD(self.fc.parameters(), lr=0.1)

            def forward(self, x):
                return self.fc(x.detach()).relu()

            def learn(self, x):
                self.optimizer.zero_grad()
                self(x).mean().backward()
                self.optimizer.step()

        class Stack(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.layers = [Local(dim) for _ in range(3)]

            def forward(self, x):
                for layer in self.layers: x = layer(x)
                return x

            def learn(self, x):
                for layer in self.layers: layer.learn(x)
    """,
    "a local list": net("layers = [nn.Linear(dim, dim)]", "self.layers = nn.Sequential(*layers)"),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


MODEL = """
    import torch.nn as nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.branches = [nn.Linear(4, 4) for _ in range(3)]

        def forward(self, x):
            return sum(branch(x) for branch in self.branches)
"""
TRAINING = """
    import torch
    from model import Net

    net = Net()
    {optimizer}
    for x in loader:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
"""


def test_what_another_file_knows_of_it(tmp_path: Path) -> None:
    plain = TRAINING.format(optimizer="optimizer = torch.optim.SGD(net.parameters(), lr=0.1)")
    assert lines_in_files(tmp_path, {"model.py": MODEL, "train.py": plain}, CODE) == [("model.py", 7)]
    knowing = TRAINING.format(optimizer="optimizer = torch.optim.SGD(make(net, net.branches), lr=0.1)")
    assert lines_in_files(tmp_path, {"model.py": MODEL, "train.py": knowing}, CODE) == []


FIELD = """
    class Field(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.net = nn.Linear(n, n)
            {made}

        def forward(self, x):
            return self.net(x) * self.scale

    def fit(data):
        field = Field(4)
        {optimizer}
        for x, y in data:
            optimizer.zero_grad()
            F.mse_loss(field(x), y).backward()
            optimizer.step()
            {after}
"""
OF_ALL = "optimizer = torch.optim.Adam(field.parameters())"


def field(made: str, optimizer: str = OF_ALL, after: str = "pass") -> str:
    return FIELD.format(made=made, optimizer=optimizer, after=after)


@pytest.mark.parametrize(
    "made",
    [
        "self.scale = torch.ones(n, requires_grad=True)",
        "self.scale = torch.tensor(0.5, requires_grad=True)",
        "self.scale = torch.randn(n).requires_grad_()",
        "self.scale = torch.zeros(1, n).requires_grad_()",
    ],
)
def test_a_tensor_that_is_no_parameter(made: str) -> None:
    assert_flagged(field(f"{made}  # !"), CODE)


@pytest.mark.parametrize(
    "made",
    [
        "self.scale = (0.02 * torch.randn(n)).requires_grad_()  # !",
        "self.scale = torch.empty(n).uniform_(-1, 1).requires_grad_()  # !",
        "self.scale = (torch.rand(n) * 2 - 1).requires_grad_()  # !",
        """self.scale = torch.zeros(n)  # !
            self.scale.requires_grad = True""",
        """self.scale = torch.randn(n) / n  # !
            self.scale.requires_grad_()""",
        """scale = torch.randn(n) * 0.02
            scale.requires_grad_()
            self.scale = scale  # !""",
        """scale = torch.randn(n, requires_grad=True)
            self.scale = scale  # !""",
    ],
)
def test_a_tensor_that_is_made_of_numbers_and_asked_for_a_gradient(made: str) -> None:
    assert_flagged(field(made), CODE)
    assert_flagged(field(made, after="print(field.scale.norm())"), CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        field("self.scale = nn.Parameter((0.02 * torch.randn(n)).requires_grad_())"),
        field("self.scale = (0.02 * torch.randn(n)).requires_grad_(False)"),
        field("self.scale = torch.zeros(n); self.scale.requires_grad = False"),
        field("self.scale = nn.Parameter(torch.zeros(n)); self.scale.requires_grad = True"),
        field("self.scale = nn.Linear(n, n).weight; self.scale.requires_grad_()"),
        field("self.scale = (0.02 * torch.randn(n)).requires_grad_()", "optimizer = torch.optim.Adam([field.scale])"),
        field("self.scale = (0.02 * torch.randn(n)).requires_grad_()", after="field.scale.grad.zero_()"),
        field("self.scale = (0.02 * torch.randn(n)).requires_grad_()", after="step(field.scale)"),
        field("scale = torch.randn(n).requires_grad_(); self.scale = scale; self.p = nn.Parameter(scale)"),
        field("scale = torch.randn(n).requires_grad_(); self.scale = scale; self.learnt = [scale]; keep(scale)"),
        field("scale = torch.randn(n); self.scale = scale"),
        field("scale = torch.randn(n).requires_grad_(); scale = scale * 2; self.scale = scale"),
        field("self.scale = torch.randn(n).requires_grad_(); self.slope = lambda y: torch.autograd.grad(y, self.x)"),
        field("self.scale = (0.02 * torch.randn(n)).requires_grad_()").replace("nn.Module", "object"),
    ],
)
def test_numbers_that_are_trained_or_want_no_gradient(snippet: str) -> None:
    assert_clean(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        field("self.scale = nn.Parameter(torch.ones(n))"),
        field("self.scale = nn.Parameter(torch.ones(n, requires_grad=True))"),
        field("self.scale = torch.ones(n)"),
        field("self.scale = torch.ones(n, requires_grad=False)"),
        field("self.register_buffer('scale', torch.ones(n))"),
        field("self.scale = torch.ones(n, requires_grad=True)", "optimizer = torch.optim.Adam([field.scale])"),
        field(
            "self.scale = torch.ones(n, requires_grad=True)",
            "optimizer = torch.optim.Adam([*field.parameters(), field.scale])",
        ),
        field("self.scale = torch.ones(n, requires_grad=True)", after="field.scale.grad = None"),
        field("self.scale = torch.ones(n, requires_grad=True); self.opt = torch.optim.SGD([self.scale], lr=0.1)"),
        field("self.scale = torch.ones(n, requires_grad=True); self.scale = nn.Parameter(self.scale)"),
        field("self.scale = torch.ones(n, requires_grad=True); self.register_parameter('s', nn.Parameter(self.scale))"),
        field("self.other = torch.ones(n, requires_grad=True); self.scale = 1.0"),
        field("self.scale = torch.ones(n, requires_grad=True)").replace("nn.Module", "object"),
    ],
)
def test_tensors_that_are_trained_or_no_leaves(snippet: str) -> None:
    assert_clean(snippet, CODE)


LOCAL = """
    class Net(nn.Module):
        def __init__(self, n):
            super().__init__()
            layers = []
            for _ in range(3):
                layer = nn.Linear(n, n)
                layers.append({put}){mark}
            {kept}

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
"""


@pytest.mark.parametrize("put", ["layer", "nn.Linear(n, n)"])
def test_a_list_that_becomes_an_attribute(put: str) -> None:
    assert_flagged(LOCAL.format(put=put, kept="self.layers = layers", mark="  # !"), CODE)


@pytest.mark.parametrize(
    "kept",
    [
        "self.layers = nn.ModuleList(layers)",
        "self.layers = layers; self.all = nn.ModuleList(layers)",
        "self.layers = nn.Sequential(*layers)",
        "self.layers = layers; self.net = nn.Sequential(*layers)",
        "self.layers = [nn.ReLU()]",
    ],
)
@pytest.mark.parametrize("put", ["layer", "nn.Linear(n, n)"])
def test_a_list_that_something_registers(put: str, kept: str) -> None:
    assert_clean(LOCAL.format(put=put, kept=kept, mark=""), CODE)


@pytest.mark.parametrize(
    "made",
    [
        "self.scale = nn.Parameter(torch.ones(n)).view(1, -1)",
        "self.scale = nn.Parameter(torch.randn(n) * 0.1).unsqueeze(0)",
        "self.scale = nn.Parameter(torch.ones(n))[None]",
        "self.scale = nn.Parameter(torch.ones(n, 1)).T",
        "self.scale = nn.Parameter(torch.ones(n)) * 0.1",
        "self.scale = -nn.Parameter(torch.ones(n))",
        "self.scale = nn.Parameter(torch.ones(n)).to('cuda')",
        "self.scale = nn.Parameter(torch.ones(n)).to(torch.device('cuda:0'))",
        "self.scale = nn.Parameter(torch.ones(n)).cuda()",
        "self.scale = torch.softmax(nn.Parameter(torch.ones(n)), dim=0)",
        "self.scale = F.softplus(nn.Parameter(torch.ones(n)))",
        "self.scale = torch.nn.parameter.Parameter(torch.ones(n)).reshape(1, n).expand(4, n)",
        "weight = nn.Parameter(torch.ones(n)); self.scale = weight.view(1, -1)",
    ],
)
def test_what_is_computed_of_a_parameter(made: str) -> None:
    assert_flagged(field(f"{made}  # !"), CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        field("self.scale = nn.Parameter(torch.ones(n).view(1, -1))"),
        field("self.scale = nn.Parameter(torch.ones(n) * 0.1)"),
        field("self.scale = nn.Parameter(torch.ones(n, device='cuda'))"),
        field("self.scale = nn.init.normal_(nn.Parameter(torch.ones(n)))"),
        field("self.scale = nn.Parameter(torch.ones(n)).float()"),
        field("self.scale = nn.Parameter(torch.ones(n)).to(torch.float32)"),
        field("self.scale = nn.Parameter(torch.ones(n)).contiguous()"),
        field("self.scale = nn.Parameter(torch.ones(n)).requires_grad_()"),
        field("self.scale = nn.Parameter(torch.ones(n), requires_grad=False).view(1, -1)"),
        field("self.scale = nn.Parameter(torch.ones(n)).view(1, -1).detach()"),
        field("self.scale = nn.Parameter(torch.ones(n)).data.view(1, -1)"),
        field("self.scale = nn.Parameter(torch.ones(n)).view(1, -1).numpy()"),
        field("self.scale = nn.Parameter(torch.ones(n)).size(0)"),
        field("self.weight = nn.Parameter(torch.ones(n)); self.scale = self.weight.view(1, -1)"),
        field("weight = nn.Parameter(torch.ones(n)); self.weight = weight; self.scale = weight.view(1, -1)"),
        field("weight = nn.Parameter(torch.ones(n)); self.scale = weight"),
        field("self.scale = nn.Parameter(torch.ones(n)).view(1, -1); self.scale = nn.Parameter(self.scale)"),
        field("self.scale = nn.Parameter(torch.ones(n)).cuda(); self.opt = torch.optim.SGD([self.scale], lr=0.1)"),
        field("self.scale = nn.Parameter(torch.ones(n)).cuda(); self.scale.requires_grad = False"),
        field("self.scale = nn.Parameter(torch.ones(n)).cuda()", after="field.scale.data -= 0.1"),
        field("self.other = nn.Parameter(torch.ones(n)).cuda(); self.scale = 1.0"),
        field("self.scale = nn.Linear(n, n).weight.view(-1)"),
        field("self.scale = nn.Parameter(torch.ones(n)).view(1, -1)").replace("nn.Module", "object"),
    ],
)
def test_parameters_and_what_is_not_to_be_trained(snippet: str) -> None:
    assert_clean(snippet, CODE)


KEEPING = """
        class Keeping(nn.Module):
            def __init__(self, given, scale=1.0):
                super().__init__()
                self.given = given
                self.scale = scale

            def forward(self, x):
                return {computed}
"""


def of_given(value: str, computed: str) -> str:
    """A list of modules of a class that has nothing besides what it is given."""
    return KEEPING.format(computed=computed) + net(f"self.layers = [{value} for k in range(depth)]")


def test_a_class_that_keeps_a_layer_which_it_is_given() -> None:
    snippet = of_given("Keeping(nn.Linear(dim, dim))", "x + self.given(x)")
    assert_flagged(snippet.replace("(depth)]", "(depth)]  # !"), CODE)


@pytest.mark.parametrize("value", ["Keeping([1.0, 2.0])", "Keeping(given=[k] * k, scale=dim)", "Keeping(range(k))"])
def test_a_class_that_keeps_numbers_which_it_is_given(value: str) -> None:
    assert_clean(of_given(value, "sum(c * x**i for i, c in enumerate(self.given))"), CODE)


REGISTRY = """
    {registry}

    def register(name):
        def wrap(maker):
            HEADS[name] = maker
            return maker
        return wrap

    def add(name, maker):
        HEADS[name] = maker

    {makers}

    class Net(nn.Module):
        def __init__(self, tasks, dim):
            super().__init__()
            {made}

        def forward(self, x):
            return {{task: head(x) for task, head in self.heads.items()}}
"""
HEADS = """
    @register("tone")
    def tone(dim):
        return nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, 3))

    @register("word")
    class Word(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.fc = nn.Linear(dim, 10)

        def forward(self, x):
            return self.fc(x)
"""
PLAIN = HEADS.replace('@register("tone")', "").replace('@register("word")', "")
UNDER_KEYS = "self.heads = {task: HEADS[task](dim) for task in tasks}"


def registry(made: str = UNDER_KEYS, makers: str = HEADS, registry: str = "HEADS = {}") -> str:
    return REGISTRY.format(registry=registry, makers=makers, made=made)


@pytest.mark.parametrize(
    "snippet",
    [
        registry(UNDER_KEYS + "  # !"),
        registry("self.heads = {}\n            for task in tasks: self.heads[task] = HEADS[task](dim)  # !"),
        registry("self.heads = dict(); head = HEADS[tasks[0]](dim); self.heads['a'] = head  # !"),
        registry(UNDER_KEYS + "  # !", "", 'HEADS = {"a": nn.Linear, "b": nn.LazyLinear}'),
        registry(UNDER_KEYS + "  # !", PLAIN, 'HEADS = {"tone": tone, "word": Word}'),
        registry(UNDER_KEYS + "  # !", "", 'HEADS = {"a": lambda dim: nn.Sequential(nn.Linear(dim, 1), nn.Tanh())}'),
        registry(UNDER_KEYS + "  # !", PLAIN + '\n    add("tone", tone)\n    add("word", Word)\n'),
    ],
)
def test_layers_of_a_registry(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        registry("self.heads = nn.ModuleDict({task: HEADS[task](dim) for task in tasks})"),
        registry(UNDER_KEYS + "; self.kept = nn.ModuleList(self.heads.values())"),
        registry(UNDER_KEYS + "; self.add_module('a', self.heads['a'])"),
        registry(makers=""),  # nobody knows what is in it
        registry(UNDER_KEYS, "", 'HEADS = {"a": nn.Tanh, "b": nn.ReLU}'),
        registry(UNDER_KEYS, "", 'HEADS = {"a": nn.Linear, "b": nn.Dropout}'),  # perhaps only of those
        registry(UNDER_KEYS, "", 'HEADS = {"a": F.cross_entropy, "b": lambda dim: torch.zeros(dim)}'),
        registry(UNDER_KEYS, "", 'HEADS = {"a": torch.nn.CrossEntropyLoss, "b": torch.nn.MSELoss}'),
        registry(UNDER_KEYS, HEADS.replace("nn.Linear(dim, 10)", "torch.zeros(dim)")),
        registry(UNDER_KEYS, HEADS + '\n    @register("pair")\n    def pair(dim):\n        return shared(dim)\n'),
        registry("HEADS = given(tasks); " + UNDER_KEYS),  # another one
        registry(UNDER_KEYS).replace("(nn.Module)", "(object)"),
    ],
)
def test_look_alikes_of_a_registry(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_a_registry_in_another_file(tmp_path: Path) -> None:
    heads = """
        import torch.nn as nn

        HEADS = {}

        def register(name):
            def wrap(maker):
                HEADS[name] = maker
                return maker
            return wrap

        @register("tone")
        def tone(dim):
            return nn.Linear(dim, 3)

        def build(name, dim):
            return HEADS[name](dim)
    """
    net = """
        import torch.nn as nn
        from heads import HEADS

        class Net(nn.Module):
            def __init__(self, tasks, dim):
                super().__init__()
                self.heads = {task: HEADS[task](dim) for task in tasks}

            def forward(self, x):
                return [head(x) for head in self.heads.values()]
    """
    assert lines_in_files(tmp_path, {"heads.py": heads, "net.py": net}, CODE) == [("net.py", 8)]

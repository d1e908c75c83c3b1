from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files

CODE = "GG239"
NETS = """
    import torchvision
    from torchvision import models
    from transformers import AutoModel

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layer = nn.Linear(width, width)

        def forward(self, x):
            return self.layer(x).relu()

    class Scaled(nn.Module):
        def __init__(self, width, body):
            super().__init__()
            self.body = body
            self.stages = nn.ModuleList([Block(width) for _ in range(4)])
            self.heads = nn.ModuleDict({"a": nn.Linear(width, 2), "b": nn.Linear(width, 3)})
            self.stem: nn.Module = nn.Sequential(nn.Linear(8, width), nn.ReLU()).to("cpu")
            self.last = None
            self.last = Block(width)
            self.token = nn.Parameter(torch.zeros(width))
            self.scales = nn.ParameterList([nn.Parameter(torch.ones(1))])
            self.register_buffer("mean", torch.zeros(width))

        def set_up(self):
            self.body.eval()

"""

FLAGGED = {
    "a part that its owner was given, and runs": """
        class Probe(nn.Module):
            def __init__(self, encoder, classes):
                super().__init__()
                self.enc = encoder
                self.head = nn.Linear(8, classes)

            def forward(self, x):
                return self.head(self.enc(x))

        def main(pretrained):
            probe = Probe(pretrained.encoder, 10)
            probe = probe.cuda()
            probe.enc.requires_grad = False  # !
            return torch.optim.SGD(probe.parameters(), 0.1)
    """,
    "a whole network": """
        net = Block(8)
        net.requires_grad = False  # !
    """,
    "a network of torchvision, and its head": """
        model = models.resnet18(weights="DEFAULT")
        model.requires_grad = False  # !
        model.fc = nn.Linear(512, 2)
        model.fc.requires_grad = True  # !
    """,
    "its layers, one after the other": """
        def freeze(count):
            vgg = torchvision.models.vgg16().cuda()
            for layer in vgg.features[:count]:
                layer.requires_grad = False  # !
            return vgg
    """,
    "its children": """
        def freeze(model, count):
            for i, child in enumerate(model.children()):
                if i < count:
                    child.requires_grad = False  # !
    """,
    "its children with their names": """
        def freeze(model, kept):
            for name, part in model.named_children():
                part.requires_grad = name in kept  # !
    """,
    "a list of children": """
        def freeze(model):
            parts = list(model.children())
            for part in parts[:-1]:
                part.requires_grad = False  # !
    """,
    "what is loaded": """
        bert = AutoModel.from_pretrained("bert-base-uncased")
        bert.requires_grad = False  # !
    """,
    "what a function is given": """
        def set_trainable(module: nn.Module, flag: bool) -> None:
            module.requires_grad = flag  # !
    """,
    "what the optimizer is given": """
        def train(encoder, decoder, loader):
            encoder.requires_grad = False  # !
            optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
    """,
    "some of the stages, from the end, of a network that only the run knows": """
        class Thaw(Callback):
            def on_epoch_start(self, trainer):
                stages = list(trainer.net.stages)
                for stage in stages[-trainer.epoch:]:
                    stage.requires_grad = True  # !
                trainer.net.stem.requires_grad = True  # !
    """,
    "one stage": """
        class Thaw:
            def __call__(self, net, depth):
                net.stages[depth].requires_grad = True  # !
                net.heads["a"].requires_grad = True  # !
    """,
    "the parts of the object itself": """
        class Tuned(Scaled):
            def __init__(self, width, body):
                super().__init__(width, body)
                self.stem.requires_grad = False  # !
                self.body.requires_grad = False  # !
                self.last.requires_grad = False  # !
                for name, head in self.heads.items():
                    head.requires_grad = False  # !
                for head in self.heads.values():
                    head.requires_grad = False  # !
                for part in (self.stem, self.last):
                    part.requires_grad = False  # !
    """,
    "a dict of modules": """
        class Encoder(nn.Module):
            def __init__(self, learns):
                super().__init__()
                self.net = models.resnet18()
                self.parts = {pair[0]: pair[1] for pair in self.net.named_modules() if "layer" in pair[0]}
                if not learns:
                    for _, part in self.parts.items():
                        part.requires_grad = False  # !
                    for part in self.parts.values():
                        part.requires_grad = False  # !
    """,
    "what is called": """
        def train(critic, generator, loader, optimizer):
            judge = critic.wrapped
            for x in loader:
                critic.requires_grad = False  # !
                judge.inner.requires_grad = False  # !
                loss = -critic(generator(x)).mean() + judge.inner(x).mean()
                loss.backward()
                optimizer.step()
    """,
    "a part of one of torchvision, which the object has": """
        class Tuned(nn.Module):
            def __init__(self):
                super().__init__()
                self.trunk = models.resnet50(weights="DEFAULT")
                self.trunk.fc = nn.Identity()

            def thaw(self):
                self.trunk.layer4.requires_grad = True  # !
    """,
    "some of the children": """
        def freeze(net, kinds):
            chosen = [child for child in net.modules() if isinstance(child, kinds)]
            for child in chosen:
                child.requires_grad = False  # !
            named = {name: child for name, child in net.named_children()}
            for child in named.values():
                child.requires_grad = False  # !
    """,
    "only the other way round for the parameters": """
        net = Scaled(8, Block(8))
        for p in net.parameters():
            p.requires_grad = False
        net.last.requires_grad = True  # !
    """,
}

CLEAN = {
    "what its owner was given, and does not run": """
        class Probe(nn.Module):
            def __init__(self, prompt, classes):
                super().__init__()
                self.prompt = prompt
                self.head = nn.Linear(8, classes)

            def forward(self, x):
                return self.head(x + self.prompt)

        def main(prompt):
            probe = Probe(prompt, 10)
            probe.prompt.requires_grad = False
    """,
    "what its owner was given or makes, and may be a tensor": """
        class Probe(nn.Module):
            def __init__(self, scale, classes):
                super().__init__()
                self.scale = scale if scale is not None else make_scale()
                self.head = nn.Linear(8, classes)

            def forward(self, x):
                return self.head(self.scale(x))

        def main(scale):
            probe = Probe(scale, 10)
            probe.scale.requires_grad = False
    """,
    "tensors": """
        x = torch.randn(4)
        x.requires_grad = True
        x.grad = None
        weights = [torch.zeros(4) for _ in range(3)]
        for w in weights:
            w.requires_grad = True
    """,
    "parameters": """
        net = Scaled(8, Block(8))
        net.token.requires_grad = False
        net.last.layer.weight.requires_grad = False
        net.scales[0].requires_grad = False
        net.mean.requires_grad = False
        for scale in net.scales:
            scale.requires_grad = False
        for name, value in net.named_parameters():
            value.requires_grad = "layer" in name
        for value in list(net.last.parameters())[:2]:
            value.requires_grad = False
    """,
    "the method": """
        net = Block(8)
        net.requires_grad_(False)
        net.layer.requires_grad_(True)
    """,
    "what nobody knows": """
        def set_up(encoder, parts, options):
            encoder.requires_grad = False
            encoder.embed.requires_grad = False
            for part in parts:
                part.requires_grad = False
            options.requires_grad = True
            getattr(encoder, options.name).requires_grad = False
    """,
    "a parameter of some class, of which another one has a module": """
        class Prompted(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.last = nn.Parameter(torch.zeros(width))

        def freeze(net):
            net.last.requires_grad = False
    """,
    "an object that is no module": """
        class Spec:
            def __init__(self):
                self.body = Block(8)

            def parameters(self):
                return self.body.parameters()

        spec = Spec()
        spec.requires_grad = False
        optimizer = torch.optim.SGD(spec.parameters(), lr=0.1)
    """,
    "an attribute of its own": """
        class Gate(nn.Module):
            def __init__(self):
                super().__init__()
                self.requires_grad = False

            def forward(self, x):
                return x if self.requires_grad else x.detach()

        gate = Gate()
        gate.requires_grad = True
    """,
    "a property": """
        class Gate(nn.Module):
            @property
            def requires_grad(self):
                return self.on

            @requires_grad.setter
            def requires_grad(self, value):
                for p in self.parameters():
                    p.requires_grad = value

        gate = Gate()
        gate.requires_grad = True
    """,
    "what the program asks for": """
        net = Scaled(8, Block(8))
        net.stem.requires_grad = False
        used = [] if not net.stem.requires_grad else list(net.stem.parameters())
    """,
    "the parameters as well": """
        net = Block(8)
        net.requires_grad = False
        for p in net.parameters():
            p.requires_grad = False
    """,
    "the parameters of each": """
        def freeze(model):
            for part in model.children():
                part.requires_grad = False
                for value in part.parameters():
                    value.requires_grad = False
            for part in model.modules():
                part.requires_grad = True
            model.requires_grad_(True)
    """,
    "what another library has made": """
        from optics import Lens

        def render(scene):
            lens = Lens(scene.size)
            lens.requires_grad = True
            return lens(scene)
    """,
    "what is bound to what it gives": """
        def attack(x, steps, build):
            x = build(x)
            x.requires_grad = True
            x = x(steps)
            return x

        class Attack:
            def run(self, x):
                self.delta = self.start(x)
                self.delta.requires_grad = True
                self.start.requires_grad_(True)
    """,
    "a dict of parameters": """
        def freeze(net, kinds):
            named = {name: value for name, value in net.named_parameters()}
            for value in named.values():
                value.requires_grad = False
            pairs = {pair[0]: pair[1] for pair in net.named_parameters()}
            for name, value in pairs.items():
                value.requires_grad = False
            for name, value in net.state_dict(keep_vars=True).items():
                value.requires_grad = False
            for name in {child: 0 for child in net.children()}.values():
                name.requires_grad = False
            weights = [child.weight for child in net.children()]
            for weight in weights:
                weight.requires_grad = False
    """,
    "a name that is a tensor on the other way": """
        def make(flag):
            x = Block(8) if flag else torch.zeros(4)
            x.requires_grad = True
            y = Block(8)
            y = y(torch.zeros(2, 8))
            y.requires_grad = True
    """,
    "what comes out of it": """
        net = Block(8)
        out = net(torch.zeros(2, 8))
        out.requires_grad = True
        for row in out:
            row.requires_grad = True
    """,
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_a_module_is_no_tensor(snippet: str) -> None:
    assert_flagged(_with_nets(snippet), CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_what_is_a_tensor_or_may_be_one_or_has_a_meaning_is_not_flagged(snippet: str) -> None:
    assert_clean(_with_nets(snippet), CODE)


def _with_nets(snippet: str) -> str:
    lines = (line.removeprefix("    ") for line in snippet.splitlines())
    return NETS + "\n".join(lines)


FILES = {
    "nets.py": """
        import torch
        from torch import nn

        class Tower(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.trunk = nn.Sequential(nn.Linear(8, width), nn.ReLU())
                self.anchor = nn.Parameter(torch.zeros(width))
    """,
    "train.py": """
        import torch
        from nets import Tower

        def main():
            tower = Tower(16)
            tower.trunk.requires_grad = False
            tower.anchor.requires_grad = False
    """,
    "schedule.py": """
        import torch
        from nets import Tower

        class Thaw:
            def on_epoch(self, run):
                run.tower.trunk[0].requires_grad = True
                run.tower.anchor.requires_grad = True
    """,
}


def test_the_class_may_stand_in_another_file(tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, FILES, CODE) == [("schedule.py", 7), ("train.py", 7)]


def test_the_edit_calls_the_method() -> None:
    (finding,) = findings("def freeze(model: nn.Module, flag):\n    model.requires_grad = not flag\n", CODE)
    assert finding.fix is not None
    assert [edit.text for edit in finding.fix.edits] == ["model.requires_grad_(not flag)"]
    assert not finding.fix.safe


@pytest.mark.parametrize(
    ("value", "said"), [("False", " freezes none"), ("True", "unfreezes none"), ("on", "freezes or unfreezes none")]
)
def test_it_says_what_does_not_happen(value: str, said: str) -> None:
    (finding,) = findings(f"net = nn.Linear(8, 2)\nnet.requires_grad = {value}\n", CODE)
    assert said in finding.message

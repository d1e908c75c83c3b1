from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.findings import Severity
from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, marked, twin

CODE = "GG109"

FLAGGED = {
    "removed once, after the training": """
        class Monitor:
            def __init__(self, net, layers):
                self.activity = {name: [] for name in layers}
                self.handles = [net.get_submodule(n).register_forward_hook(self.tap(n)) for n in layers]

            def tap(self, name):
                def hook(module, inputs, output):
                    self.activity[name].append(output.abs().mean())  # !
                return hook

            def penalty(self):
                return sum(levels[-1] for levels in self.activity.values())

            def report(self):
                for name, levels in self.activity.items():
                    print(name, torch.stack(levels[-9:]).detach().mean())

            def close(self):
                for handle in self.handles:
                    handle.remove()

        def main(net, loader, optimizer):
            monitor = Monitor(net, ["conv1", "conv2"])
            for x, y in loader:
                loss = F.cross_entropy(net(x), y) + monitor.penalty()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            monitor.report()
            monitor.close()
    """,
    "an object that is called": """
        class Keep:
            def __init__(self):
                self.seen = []

            def __call__(self, module, args, output):
                self.seen.append(output)  # !

        def train(net, opt, loader):
            keep = Keep()
            net.layer.register_forward_hook(keep)
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
    """,
    "decorated": """
        seen = []

        def train(net, opt, loader):
            @net.layer.register_forward_hook
            def hook(module, args, output):
                seen.append((module, output))  # !

            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
    """,
    "a hook that a method makes for the tensor": """
        class Limiter:
            def __init__(self, share):
                self.share = share

            def __call__(self, nodes):
                if nodes.requires_grad:
                    nodes.register_hook(self.limit_for(nodes))  # !
                return nodes

            def limit_for(self, reference):
                def limit(grad):
                    return grad.clamp(max=self.share * float(reference.norm()))

                return limit

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)
                self.limiter = Limiter(0.1)

            def forward(self, x):
                h = self.layer(x)
                return self.limiter(h)
    """,
    "tensor hook with its own tensor, which a caller gives": """
        def watch(name, activation):
            def note(gradient):
                SCORES[name] = (gradient * activation).abs().mean().item()

            activation.register_hook(note)  # !
            return activation

        SCORES = {}

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                x = x + self.layer(x)
                return watch("block", x)
    """,
    "a factory sets it up and gives a reader of the last": """
        def tap(layer):
            seen = []

            def hook(module, inputs, output):
                seen.append(output)  # !

            layer.register_forward_hook(hook)
            return lambda: seen[-1]

        class Experiment:
            def __init__(self, net):
                self.net = net
                self.codes = tap(net.encoder)
                self.opt = torch.optim.Adam(net.parameters())

            def step(self, x):
                loss = F.mse_loss(self.net(x), x) + self.codes().abs().mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
    """,
    "outputs in a list": """
        def train(model, loader, optimizer):
            feats = []

            def hook(module, inputs, output):
                feats.append(output)  # !

            model.layer4.register_forward_hook(hook)
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
    """,
    "lambda": """
        def train(model, loader, optimizer):
            acts = []
            model.layer4.register_forward_hook(lambda m, i, o: acts.append(o))  # !
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
    """,
    "method": """
        class Extractor:
            def __init__(self, model, layer):
                self.model = model
                self.activations = []
                layer.register_forward_hook(self.save)

            def save(self, module, args, output):
                self.activations.append(output)  # !

        def train(model, loader, optimizer):
            extractor = Extractor(model, model.layer4)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(extractor.model(x), y).backward()
                optimizer.step()
    """,
    "input of a layer, global list": """
        EMBEDDINGS = []

        def keep_input(module, inp, out):
            EMBEDDINGS.append(inp[0])  # !

        def fit(model, loader, optimizer, epochs=2):
            model.fc.register_forward_hook(keep_input)
            for epoch in range(epochs):
                for x, y in loader:
                    loss = F.cross_entropy(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
    """,
    "lists by name": """
        def watch(model, loader, optimizer):
            outputs = defaultdict(list)

            def make_hook(name):
                def hook(module, inputs, output):
                    outputs[name].append(output)  # !
                return hook

            for name, module in model.named_children():
                module.register_forward_hook(make_hook(name))
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            return outputs
    """,
    "partial": """
        from functools import partial

        def save(store, module, args, output):
            store.append(output)  # !

        def train(model, loader, optimizer):
            store = []
            handle = model.layer4.register_forward_hook(partial(save, store))
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            handle.remove()
    """,
    "evaluation with gradients": """
        def collect(model, loader):
            model.eval()
            pairs = []

            def hook(module, inputs, output):
                pairs.append((inputs[0], output))  # !

            handle = model.layer4.register_forward_hook(hook)
            for x, _ in loader:
                model(x)
            handle.remove()
            return pairs
    """,
    "script": """
        features = []

        def hook_fn(module, input, output):
            features.append(output.flatten(1))  # !

        net.layer4.register_forward_hook(hook_fn)
        for step, (x, y) in enumerate(train_loader):
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
    """,
    "penalty over a list that only grows": """
        class Trainer:
            def __init__(self, net, optimizer):
                self.net, self.optimizer = net, optimizer
                self.acts = []
                self.net.layer4.register_forward_hook(lambda m, i, out: self.acts.append(out))  # !

            def fit(self, loader):
                for x, y in loader:
                    out = self.net(x)
                    loss = F.cross_entropy(out, y) + 1e-4 * self.acts[-1].abs().mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
    """,
    "tensor hook with its own tensor": """
        class Masked(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.fc = nn.Linear(dim, dim)

            def forward(self, x):
                out = self.fc(x)
                out.register_hook(lambda g: g * (out > 0))  # !
                return out
    """,
    "named tensor hook": """
        def forward_pass(model, x, clip):
            h = model.encoder(x)

            def scale(grad):
                norm = h.norm()
                return grad * clip / (norm + 1e-6)

            h.register_hook(scale)  # !
            return model.decoder(h)

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(forward_pass(model, x, 1.0), y).backward()
                optimizer.step()
    """,
    "tensor hook with a default": """
        def train(model, loader, optimizer):
            for x, y in loader:
                out = model(x)
                out.register_hook(lambda g, out=out: g / (out.abs() + 1))  # !
                optimizer.zero_grad()
                F.cross_entropy(out, y).backward()
                optimizer.step()
    """,
    "tensor hook in a training step": """
        class Trainer:
            def training_step(self, batch):
                x, y = batch
                logits = self.model(x)
                if logits.requires_grad:
                    logits.register_hook(lambda grad: print(grad.norm(), logits.shape))  # !
                loss = F.cross_entropy(logits, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                return loss.item()

            def fit(self, loader):
                for batch in loader:
                    self.training_step(batch)
    """,
    "detached too late": """
        def step(model, optimizer, x, y):
            feats = model.encoder(x)
            feats.register_hook(lambda g: g * feats.detach().sigmoid())  # !
            loss = F.cross_entropy(model.decoder(feats), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
}

ENDED = """
        from functools import partial

        class Tap:
            def __init__(self, model, layers):
                self.outputs = defaultdict(list)
                modules = dict(model.named_modules())
                self.handles = [modules[n].register_forward_hook(partial(self._grab, n)) for n in layers]

            def _grab(self, name, module, inputs, output):
                self.outputs[name].append(output)  # !

            def clear(self):
                self.outputs.clear()

            def close(self):
                for handle in self.handles:
                    handle.remove()
                self.clear()

        class Distiller:
            def __init__(self, student):
                self.student = student
                self.tap = Tap(student, ["encoder"])
                self.optimizer = torch.optim.SGD(student.parameters(), lr=0.1)

            def step(self, x, y):
                loss = F.cross_entropy(self.student(x), y) + self.tap.outputs["encoder"][-1].mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

            def finish(self):
                self.tap.close()

        def main(student, loader):
            distiller = Distiller(student)
            for x, y in loader:
                distiller.step(x, y)
            distiller.finish()
"""


def test_what_is_emptied_after_the_training_only_is_kept_in_it() -> None:
    assert_flagged(ENDED, CODE)


def test_what_is_emptied_with_the_removal_after_the_training_is_kept_in_it() -> None:
    late = ("handle.remove()", "handle.remove()\n                self.activity.clear()")
    assert_flagged(FLAGGED["removed once, after the training"].replace(*late), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("self.optimizer.step()\n", "self.optimizer.step()\n                self.tap.clear()\n"),
        ("distiller.step(x, y)\n", "distiller.step(x, y)\n                distiller.finish()\n"),
        ("distiller.step(x, y)\n", "distiller.step(x, y)\n                distiller.tap.close()\n"),
        ("self.outputs[name].append(output)", "self.outputs[name] = output"),
        ("defaultdict(list)", "defaultdict(lambda: deque(maxlen=1))"),
    ],
)
def test_what_is_emptied_in_the_training_is_not(edit: tuple[str, str]) -> None:
    assert_clean(twin(ENDED, edit), CODE)


CLEAN = {
    **{
        f"removed after the training, {name}": twin(FLAGGED["removed once, after the training"], *edits)
        for name, edits in {
            "and emptied before": [
                ("handle.remove()", "handle.remove()\n                self.activity.clear()"),
                ("optimizer.step()", "optimizer.step()\n                monitor.close()"),
            ],
            "each part emptied": [
                (
                    ".mean())\n\n            def close",
                    ".mean())\n                    del levels[:]\n\n            def close",
                ),
                ("            monitor.report()\n", "                monitor.report()\n"),
            ],
            "no: in each step": [("optimizer.step()", "optimizer.step()\n                monitor.close()")],
            "no: by a context": [("def close(self)", "def __exit__(self, *error)"), ("monitor.close()", "pass")],
        }.items()
    },
    "the module, and a number of its output": """
        norms = []

        def hook(module, args, output):
            norms.append((module, output.detach().norm().item()))

        def train(net, opt, loader):
            net.layer.register_forward_hook(hook)
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
    """,
    "a hook that a method makes for a copy": twin(
        FLAGGED["a hook that a method makes for the tensor"],
        ("self.limit_for(nodes)", "self.limit_for(nodes.detach())"),
    ),
    "tensor hook with a copy of its tensor, which a caller gives": """
        def watch(name, activation):
            kept = activation.detach()

            def note(gradient):
                SCORES[name] = (gradient * kept).abs().mean().item()

            activation.register_hook(note)
            return activation

        SCORES = {}

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                x = x + self.layer(x)
                return watch("block", x)
    """,
    "tensor hook with a parameter that a caller gives": """
        def watch(parameter):
            parameter.register_hook(lambda gradient: gradient * parameter.abs())

        def build():
            layer = nn.Linear(4, 4)
            watch(layer.weight)
            return layer
    """,
    "a factory whose caller gets the list": """
        def tap(layer):
            seen = []
            layer.register_forward_hook(lambda module, inputs, output: seen.append(output))
            return seen

        def train(net, loader, opt):
            seen = tap(net.encoder)
            for x in loader:
                opt.zero_grad()
                loss = F.mse_loss(net(x), x) + seen[-1].abs().mean()
                loss.backward()
                opt.step()
                seen.clear()
    """,
    "a factory whose reader empties it": """
        def tap(layer):
            seen = []

            def hook(module, inputs, output):
                seen.append(output)

            layer.register_forward_hook(hook)

            def take():
                last = seen[-1]
                seen.clear()
                return last

            return take
    """,
    "overwritten": """
        def train(model, loader, optimizer):
            features = {}

            def hook(module, inputs, output):
                features["layer4"] = output

            model.layer4.register_forward_hook(hook)
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y) + features["layer4"].pow(2).mean()
                loss.backward()
                optimizer.step()
    """,
    "overwritten, by name": """
        class Features:
            def __init__(self, model, names):
                self.out = {}
                for name, module in model.named_children():
                    if name in names:
                        module.register_forward_hook(self.save(name))

            def save(self, name):
                def hook(module, args, output):
                    self.out[name] = output
                return hook

        def train(model, loader, optimizer):
            feats = Features(model, ["layer4"])
            for x, y in loader:
                loss = F.cross_entropy(model(x), y) + feats.out["layer4"].mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "detached copies": """
        def collect(model, loader):
            feats = []

            def hook(module, inputs, output):
                feats.append(output.detach().cpu())

            model.layer4.register_forward_hook(hook)
            model.fc.register_forward_hook(lambda m, i, o: feats.append(o.data.numpy()))
            for x, _ in loader:
                model(x)
            return feats
    """,
    "under no_grad": """
        def embed(model, loader):
            model.eval()
            feats = []
            handle = model.layer4.register_forward_hook(lambda m, i, o: feats.append(o))
            with torch.no_grad():
                for x, _ in loader:
                    model(x)
            handle.remove()
            return torch.cat(feats)
    """,
    "statistics": """
        def watch(model, loader, optimizer):
            stats = []

            def hook(module, inputs, output):
                stats.append((output.mean().item(), output.std().item(), tuple(output.shape)))

            model.layer4.register_forward_hook(hook)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            return stats
    """,
    "cleared each iteration": """
        def train(model, loader, optimizer):
            acts = []
            model.layer4.register_forward_hook(lambda m, i, o: acts.append(o))
            for x, y in loader:
                acts.clear()
                loss = F.cross_entropy(model(x), y) + 1e-4 * sum(a.abs().mean() for a in acts)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "emptied by a slice": """
        ACTS = []

        def hook(module, inputs, output):
            ACTS.append(output)

        def train(model, loader, optimizer):
            model.layer4.register_forward_hook(hook)
            for x, y in loader:
                loss = F.cross_entropy(model(x), y) + ACTS[0].mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                del ACTS[:]
    """,
    "made anew in each call": """
        class ActivationsAndGradients:
            def __init__(self, model, layer):
                self.model = model
                self.activations = []
                layer.register_forward_hook(self.save)

            def save(self, module, args, output):
                self.activations.append(output)

            def __call__(self, x):
                self.activations = []
                return self.model(x)

        def run(model, loader):
            cam = ActivationsAndGradients(model, model.layer4)
            for x, y in loader:
                out = cam(x)
                out[:, 0].sum().backward()
                print(cam.activations[0].mean().item())
    """,
    "popped after use": """
        class Trainer:
            def __init__(self, net, optimizer):
                self.net, self.optimizer, self.feats = net, optimizer, []
                net.layer4.register_forward_hook(self.hook)

            def hook(self, module, args, output):
                self.feats.append(output)

            def fit(self, loader):
                for x, y in loader:
                    out = self.net(x)
                    loss = F.cross_entropy(out, y) + self.feats.pop().pow(2).mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
    """,
    "a list for each batch": """
        def run(model, loader):
            for x, _ in loader:
                acts = []
                handle = model.layer4.register_forward_hook(lambda m, i, o, acts=acts: acts.append(o))
                model(x)
                handle.remove()
                print(sum(a.norm().item() for a in acts))
    """,
    "the hook's list is bounded": """
        def train(model, loader, optimizer):
            recent = deque(maxlen=4)
            model.layer4.register_forward_hook(lambda m, i, o: recent.append(o))
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a single forward": """
        def summary(model, x):
            outputs = []
            handles = [m.register_forward_hook(lambda m, i, o: outputs.append(o)) for m in model.children()]
            model(x)
            for handle in handles:
                handle.remove()
            for i, out in enumerate(outputs):
                print(i, tuple(out.shape))
    """,
    "removed after the first batch": """
        def train(model, loader, optimizer):
            shapes = []

            def hook(module, inputs, output):
                shapes.append(output)

            handle = model.layer4.register_forward_hook(hook)
            model(torch.zeros(1, 4))
            handle.remove()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "the same name, never a hook": """
        def hook(module, inputs, output):
            FEATS.append(output)

        FEATS = []

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "gradient only": """
        class Scaled(nn.Module):
            def __init__(self, dim, scale=0.1):
                super().__init__()
                self.fc = nn.Linear(dim, dim)
                self.scale = scale

            def forward(self, x):
                out = self.fc(x)
                if out.requires_grad:
                    out.register_hook(lambda g: g * self.scale)
                    out.register_hook(lambda grad: grad.clamp(-1, 1))
                return out
    """,
    "a detached copy": """
        def forward_pass(model, x):
            out = model(x)
            kept = out.detach()
            mask = out > 0
            out.register_hook(lambda g: g * kept * mask)
            return out

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(forward_pass(model, x), y).backward()
                optimizer.step()
    """,
    "the input": """
        def forward_pass(model, x):
            h = model.encoder(x)
            out = model.decoder(h)
            out.register_hook(lambda g: g / (x.norm() + h.norm()))
            return out

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(forward_pass(model, x), y).backward()
                optimizer.step()
    """,
    "weak reference": """
        import weakref

        def forward_pass(model, x):
            out = model(x)
            ref = weakref.ref(out)
            out.register_hook(lambda g: g * (ref() > 0))
            return out
    """,
    "tensor hook removed": """
        def step(model, optimizer, x, y):
            out = model(x)
            handle = out.register_hook(lambda g: g * (out > 0))
            optimizer.zero_grad()
            F.cross_entropy(out, y).backward()
            handle.remove()
            optimizer.step()
    """,
    "the name is given up": """
        def step(model, optimizer, x, y):
            out = model(x)
            out.register_hook(lambda g: g * (out > 0))
            optimizer.zero_grad()
            loss = F.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            del out
            return loss.item()
    """,
    "Grad-CAM": """
        class CAM(nn.Module):
            def __init__(self, features, classifier):
                super().__init__()
                self.features, self.classifier = features, classifier
                self.gradients = None

            def save_gradient(self, grad):
                self.gradients = grad

            def forward(self, x):
                h = self.features(x)
                h.register_hook(self.save_gradient)
                return self.classifier(h.flatten(1))
    """,
    "parameter": """
        def prune(model):
            weight = model.fc.weight
            weight.register_hook(lambda g: g * (weight != 0))
            for p in model.parameters():
                p.register_hook(lambda g, p=p: g + 1e-4 * p.detach())

        def attack(model, x, y):
            delta = torch.zeros_like(x, requires_grad=True)
            delta.register_hook(lambda g: g * (delta < 1))
            F.cross_entropy(model(x + delta), y).backward()
            return delta.grad
    """,
    "the parameter's name is the output's name": """
        def train(model, loader, optimizer):
            for x, y in loader:
                out = model(x)
                out.register_hook(lambda out: out * 0.5)
                optimizer.zero_grad()
                F.cross_entropy(out, y).backward()
                optimizer.step()
    """,
    "the loop's own name: the next iteration lets go of it": """
        def train(model, loader, optimizer):
            for x, y in loader:
                out = model(x)
                out.register_hook(lambda g: g * (out > 0))
                optimizer.zero_grad()
                F.cross_entropy(out, y).backward()
                optimizer.step()
    """,
    "a script's own name": """
        net = nn.Linear(4, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.01)
        for x, y in train_loader:
            out = net(x)
            out.register_hook(lambda g: g * (out > 0))
            opt.zero_grad()
            F.cross_entropy(out, y).backward()
            opt.step()
    """,
}

TAP = """
        def make_recorder(decay=0.9):
            scores = {}

            def listener(name, act):
                def on_grad(grad):
                    scores[name] = decay * scores.get(name, 0.0) + (grad * act).abs().mean().item()

                return on_grad

            def watch(name, act):
                if act.requires_grad:
                    act.register_hook(listener(name, act))  # !
                return act

            return watch, scores

        class Net(nn.Module):
            def __init__(self, tap):
                super().__init__()
                self.tap = tap
                self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)

            def forward(self, x):
                return self.last(self.tap("hidden", self.first(x)))

        def build(tap=None):
            return Net(tap or (lambda name, t: t))

        def main():
            watch, scores = make_recorder()
            return build(tap=watch)
"""
FLAGGED["a tap that a model is given"] = TAP
FLAGGED["a tap with its tensor as a default"] = twin(
    TAP,
    ("listener(name, act))", "lambda grad, act=act: scores.update({name: (grad * act).sum().item()}))  # !"),
)
FLAGGED["a tap of which no use is seen"] = TAP[: TAP.index("        class Net")]
FLAGGED["on what the caller has no name for"] = """
        def watch(scores, act):
            act.register_hook(lambda grad: scores.append((grad * act).sum().item()))  # !

        def train(net, head, loader, opt):
            scores = deque(maxlen=9)
            for x, y in loader:
                watch(scores, net(x).relu())
                loss = F.mse_loss(head(net(x)), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
"""
for _what, _edit in {
    "a copy": ("listener(name, act))", "listener(name, act.detach()))"),
    "its shape": ("listener(name, act))", "lambda grad, shape=act.shape: print(name, shape, grad.shape))"),
    "nothing of it": ("(grad * act)", "grad"),
    "its name": ("listener(name, act))", "listener(name, name))"),
}.items():
    CLEAN[f"a tap that refers to {_what}"] = twin(TAP, _edit)
CLEAN["a tap whose hook is removed"] = twin(
    TAP,
    ("act.register_hook(listener(name, act))", "handles.append(act.register_hook(listener(name, act)))"),
    ("scores = {}", "scores, handles = {}, []"),
    ("return watch, scores", "return watch, lambda: [handle.remove() for handle in handles]"),
)
CLEAN["on a parameter that the caller has no name for"] = """
        def watch(scores, weight):
            weight.register_hook(lambda grad: scores.append((grad * weight).sum().item()))
            return weight

        def prepare(net):
            scores = deque(maxlen=9)
            for parameter in net.parameters():
                watch(scores, parameter)
            watch(scores, nn.Parameter(torch.ones(3)))
"""


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


PROBE = """
    import torch

    class Relevance:
        def __init__(self):
            self.mean = 0.0

        def watch(self, h):
            def on_grad(grad):
                self.mean = 0.9 * self.mean + 0.1 * (grad * h).sum().item()

            h.register_hook(on_grad)
"""
NET = """
    import torch.nn as nn

    class Net(nn.Module):
        def __init__(self, tap):
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.tap = tap

        def forward(self, x):
            h = self.inner(x)
            self.tap.watch(h)
            return h.mean()
"""
TRAIN = """
    import torch
    from net import Net
    from probe import Relevance

    net = Net(Relevance())
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(100):
        opt.zero_grad()
        net(torch.randn(2, 4)).backward()
        opt.step()
"""


def test_what_a_forward_in_another_file_gives_it(tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, {"probe.py": PROBE, "net.py": NET, "train.py": TRAIN}, CODE) == [("probe.py", 12)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(grad * h)", "grad"),
        ("def on_grad(grad):", "kept = h.detach()\n            def on_grad(grad, h=kept):"),
        ("self.tap.watch(h)", "self.tap.watch(self.inner.weight)"),
        ("self.tap.watch(h)", "self.tap.watch(h.detach().requires_grad_())"),
    ],
)
def test_what_makes_no_cycle_there(tmp_path: Path, old: str, new: str) -> None:
    files = {"probe.py": PROBE.replace(old, new), "net.py": NET.replace(old, new), "train.py": TRAIN}
    assert files["probe.py"] != PROBE or files["net.py"] != NET
    assert lines_in_files(tmp_path, files, CODE) == []


def test_the_hook_of_a_parameter_that_nobody_gives_a_graph(tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, {"probe.py": PROBE}, CODE) == []


TRAINED_WITH_A_HOOK = """
    def train(net, loader, optimizer):
        kept = []
        net.fc.register_{}
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {}
"""


@pytest.mark.parametrize(
    "hook",
    [
        "forward_hook(lambda m, i, o: kept.append(o.detach()))",
        "full_backward_hook(lambda m, gi, go: kept.append(go[0]))",
    ],
)
def test_what_has_no_graph_piles_up_in_a_training(hook: str) -> None:
    assert_flagged(TRAINED_WITH_A_HOOK.format(f"{hook}  # !", "pass"), CODE)


@pytest.mark.parametrize(
    ("hook", "end"),
    [
        ("forward_hook(lambda m, i, o: kept.append(o.detach()))", "kept.clear()"),
        ("forward_hook(lambda m, i, o: kept.append(o.detach().norm()))", "pass"),
        ("forward_hook(lambda m, i, o: kept.append(o.detach().cpu()))", "pass"),
        ("full_backward_hook(lambda m, gi, go: kept.append(go[0]))", "kept = []"),
        ("full_backward_hook(lambda m, gi, go: kept.append(go[0].norm()))", "pass"),
        ("full_backward_hook(lambda m, gi, go: kept.append(m.name))", "pass"),
    ],
)
def test_what_has_no_graph_and_is_small_or_emptied(hook: str, end: str) -> None:
    assert_clean(TRAINED_WITH_A_HOOK.format(hook, end), CODE)


def test_gradients_of_parameters_by_name() -> None:
    assert_flagged(
        """
        def train(net, loader, optimizer):
            grads = {name: [] for name, _ in net.named_parameters()}
            for name, p in net.named_parameters():
                p.register_hook(lambda g, name=name: grads[name].append(g))  # !
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
        """,
        CODE,
    )


def test_what_is_collected_over_a_data_set_once() -> None:
    assert_clean(
        """
        def features(net, loader):
            kept = []
            handle = net.fc.register_forward_hook(lambda m, i, o: kept.append(o.detach()))
            for x, y in loader:
                net(x)
            handle.remove()
            return torch.cat(kept)

        def cam(net, x, target):
            gradients = []
            net.layer4.register_full_backward_hook(lambda m, gi, go: gradients.append(go[0]))
            net(x)[:, target].sum().backward()
            return gradients[0]
        """,
        CODE,
    )


RECORDER = """
        class Recordable:
            def record(self, kind):
                {begun}
                for name, layer in self.named_modules():
                    if isinstance(layer, kind):
                        layer.register_forward_hook(self.probe(name))

            def probe(self, name):
                {made}

                def hook(module, inputs, output):
                    rows.append(output)  # !

                return hook

        class Net(Recordable, nn.Module):
            def __init__(self):
                super().__init__()
                self.seen = {{}}
                self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

            def forward(self, x):
                return self.body(x)

        def train(loader):
            net = Net()
            net.record(nn.ReLU)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""
RECORDERS = {
    "of a dict": RECORDER.format(begun="self.seen = {}", made="rows = self.seen.setdefault(name, [])"),
    "put into a dict": RECORDER.format(begun="count = 0", made="rows = self.seen[name] = []"),
    "put into a dict afterwards": RECORDER.format(
        begun="self.seen = {}", made="rows = []\n                self.seen[name] = rows"
    ),
    "an attribute": RECORDER.format(begun="self.seen = []", made="rows = self.seen"),
    "an item of a dict": RECORDER.format(begun="self.seen = defaultdict(list)", made="rows = self.seen[name]"),
}


@pytest.mark.parametrize("name", RECORDERS)
def test_a_collection_that_the_maker_has_by_another_name(name: str) -> None:
    assert_flagged(RECORDERS[name], CODE)


@pytest.mark.parametrize("name", RECORDERS)
def test_such_a_collection_of_what_has_no_graph(name: str) -> None:
    found = findings(RECORDERS[name].replace("rows.append(output)", "rows.append(output.detach())"), CODE)
    assert [(f.severity, f.span.line) for f in found] == [(Severity.WARNING, *marked(RECORDERS[name]))]


COUNTED = """
        class Probe:
            def __init__(self, layer, size):
                self.kept, self.size, self.left = [], size, size
                layer.register_full_backward_hook(self.look)

            def look(self, module, grad_inputs, grad_outputs):
                {guard}
                self.kept.append(grad_outputs[0])  # !

        def train(net, loader, optimizer):
            probe = Probe(net.body, 8)
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return probe.kept
"""


@pytest.mark.parametrize(
    "guard",
    [
        ("if len(self.kept) >= self.size:", "    return"),
        ("if not module.training or len(self.kept) == 8: return",),
        ("if self.left == 0: return", "self.left -= 1"),
        ("self.left += 1", "if self.left > 16:", "    return"),
    ],
)
def test_a_hook_that_leaves_once_it_has_enough(guard: tuple[str, ...]) -> None:
    assert_clean(twin(COUNTED.format(guard="\n                ".join(guard))), CODE)


@pytest.mark.parametrize(
    "guard",
    [
        "pass",
        "if len(grad_outputs) == 0: return",
        "if not module.training: return",
        "if len(self.kept) < 1: print('first')",
        "if len(self.others) >= 8: return",
        "if self.left % 2: return",
    ],
)
def test_a_hook_that_leaves_for_another_reason(guard: str) -> None:
    assert_flagged(COUNTED.format(guard=guard), CODE)


LOOP = "            for x, y in loader:\n"


@pytest.mark.parametrize("name", RECORDERS)
@pytest.mark.parametrize(
    "edit",
    [
        ("rows.append(output)", "rows.append(output.detach().mean())"),
        ("rows.append(output)", "rows[:] = [output]"),
        ("rows.append(output)", "rows.append(output)\n                    del rows[:-3]"),
        ("def forward(self, x):", "def forward(self, x):\n                self.seen.clear()"),
        ("def forward(self, x):", "def forward(self, x):\n                self.seen = dict()"),
        (LOOP, LOOP + "                net.seen.clear()\n"),
        (LOOP, LOOP + "                for layer in net.body:\n                    layer._forward_hooks.clear()\n"),
    ],
)
def test_such_a_collection_that_is_kept_short(name: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(RECORDERS[name], edit), CODE)


INSPECTED = """
        class Inspector:
            def __init__(self, net):
                self.net, self.seen = net, []
                net.layer4.register_forward_hook(self.keep)

            def keep(self, module, inputs, output):
                self.seen.append(output)  # !

        def inspect(net, loader):
            inspector = Inspector(net)
            {mode}
                for x, y in loader:
                    {run}
            return torch.cat(inspector.seen)
"""


def test_a_program_that_records_graphs() -> None:
    assert_flagged(INSPECTED.format(mode="if net.training:", run="net(x)"), CODE)
    assert_flagged(INSPECTED.format(mode="with torch.no_grad():", run="F.mse_loss(net(x), y).backward()"), CODE)


@pytest.mark.parametrize("mode", ["torch.no_grad()", "torch.inference_mode()", "torch.set_grad_enabled(False)"])
def test_a_program_that_only_runs_without_graphs(mode: str) -> None:
    assert_clean(twin(INSPECTED.format(mode=f"with {mode}:", run="net(x)")), CODE)


def test_a_model_of_each_call() -> None:
    of_a_call = """
        class Extractor:
            def keep(self, module, inputs, output):
                self.seen.append(output)

            def extract(self, build, x):
                self.seen = []
                net = build()
                net.layer4.register_forward_hook(self.keep)
                net(x).sum().backward()
                return self.seen
    """
    assert_clean(of_a_call, CODE)


HINTS = """
        class Tap:
            def __init__(self, net, names):
                self.seen = defaultdict(list)
                for name in names:
                    net.get_submodule(name).register_forward_hook(self.reader(name))

            def reader(self, name):
                rows = self.seen[name]

                def read(module, inputs, output):
                    rows.append(output)  # !

                return read

            def forget(self):
                for rows in self.seen.values():
                    rows.clear()

        class HintLoss(nn.Module):
            def __init__(self, student, names):
                super().__init__()
                self.names, self.tap = names, Tap(student, names)

            def forward(self, wanted):
                total = 0.0
                for name, target in zip(self.names, wanted):
                    total = total + F.mse_loss(self.tap.seen[name][-1], target)
                {end}
                return total

        def train(student, teacher, names, loader):
            optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
            hints = HintLoss(student, names)
            for x in loader:
                with torch.no_grad():
                    wanted = teacher(x)
                student(x)
                loss = hints(wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""


def test_what_a_loss_empties_after_it_has_gone_over_it() -> None:
    assert_flagged(HINTS.format(end="self.tap.forget()").replace("rows.clear()", "print(len(rows))"), CODE)
    assert_clean(twin(HINTS.format(end="self.tap.forget()")), CODE)
    assert_clean(twin(HINTS.format(end="self.tap.seen.clear()")), CODE)


CAPTURE = """
        class Capture:
            def __init__(self):
                self.acts = []

            def __enter__(self):
                self.stack = ExitStack()
                return self

            def watch(self, module):
                {registers}

            def keep(self, module, inputs, output):
                self.acts.append(output)  # !

            def __exit__(self, *error):
                return self.stack.__exit__(*error)

        def train(net, loader):
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                with Capture() as capture:
                    capture.watch(net[0])
                    loss = F.mse_loss(net(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                optimizer.step()
                print(sum(a.detach().norm() for a in capture.acts))
"""


def test_what_a_context_collects() -> None:
    registers = "self.stack.enter_context(module.register_forward_hook(self.keep))"
    assert_clean(twin(CAPTURE.format(registers=registers)), CODE)
    assert_flagged(CAPTURE.format(registers="module.register_forward_hook(self.keep)"), CODE)


EMPHASISED = """
    def emphasise(image, strength):
        pixels = {pixels}

        def weight(grad):
            return grad * (1 + strength * (pixels > 0))

        image.register_hook(weight){mark}
        {after}
        return image

    def train(G, D, opt, steps):
        for step in range(steps):
            fake = emphasise(G(torch.randn(2, 3)), 0.5)
            opt.zero_grad()
            D(fake).mean().backward()
            opt.step()
"""


def test_the_tensor_under_another_name() -> None:
    assert_flagged(EMPHASISED.format(pixels="image", mark="  # !", after="pass"), CODE)


@pytest.mark.parametrize(
    ("pixels", "after"),
    [
        ("image.detach()", "pass"),
        ("image > 0", "pass"),
        ("torch.ones(2, 3)", "pass"),
        ("strength", "pass"),
        ("image", "pixels = None"),
    ],
)
def test_another_tensor_under_that_name(pixels: str, after: str) -> None:
    assert_clean(EMPHASISED.format(pixels=pixels, mark="", after=after), CODE)

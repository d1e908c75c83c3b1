from __future__ import annotations

import re

import pytest

from gradguard.findings import Severity
from tests.rules.snippets import assert_clean, assert_flagged, findings, twin
from tests.rules.test_carried_state import HANDED

CODE = "GG101"

FLAGGED = {
    "needless": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward(retain_graph=True)  # !
                optimizer.step()
    """,
    "on the last of two": """
        def train(encoder, head_a, head_b, loader, optimizer):
            for x, a, b in loader:
                optimizer.zero_grad()
                z = encoder(x)
                F.mse_loss(head_a(z), a).backward(retain_graph=True)
                F.mse_loss(head_b(z), b).backward(retain_graph=True)  # !
                optimizer.step()
    """,
    "generator and discriminator share nothing": """
        def train(G, D, loader, opt_g, opt_d, bce, ones, zeros):
            for real in loader:
                z = torch.randn(8, 16)
                opt_g.zero_grad()
                g_loss = bce(D(G(z)), ones)
                g_loss.backward(retain_graph=True)  # !
                opt_g.step()
                opt_d.zero_grad()
                d_loss = bce(D(real), ones) + bce(D(G(z).detach()), zeros)
                d_loss.backward()
                opt_d.step()
    """,
    "in a step that a loop calls": """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.opt = torch.optim.SGD(net.parameters(), 0.1)

            def step(self, x, y):
                self.opt.zero_grad()
                self.loss = F.cross_entropy(self.net(x), y)
                self.loss.backward(retain_graph=True)  # !
                self.opt.step()

            def fit(self, loader):
                for x, y in loader:
                    self.step(x, y)
    """,
    "in a step that gives the loss to the loop": """
        def step(net, opt, x, y):
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward(retain_graph=True)  # !
            opt.step()
            return loss

        def fit(net, opt, loader):
            for x, y in loader:
                loss = step(net, opt, x, y)
                print(loss.item())
    """,
    "scaled": """
        def train(model, loader, optimizer, scaler):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                scaler.scale(loss).backward(retain_graph=True)  # !
                scaler.step(optimizer)
                scaler.update()
    """,
}

CLEAN = {
    "needless, but the graph is gone when the function returns": """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.opt = torch.optim.SGD(net.parameters(), 0.1)

            def step(self, x, y):
                self.opt.zero_grad()
                loss = F.cross_entropy(self.net(x), y)
                loss.backward(retain_graph=True)
                self.opt.step()
                return loss.item()

            def fit(self, loader):
                for x, y in loader:
                    print(self.step(x, y))
    """,
    "several losses of one network, one after the other, in a closure": """
        net = nn.Linear(3, 2)
        opt = torch.optim.LBFGS(net.parameters())

        def closure():
            out = net(x)
            parts = [F.mse_loss(out, y), out.abs().mean()]
            rows = []
            for i in range(2):
                opt.zero_grad()
                parts[i].backward(retain_graph=True)
                rows.append([p.grad.clone() for p in net.parameters()])
            project(net, rows)
            return sum(parts)

        for _ in range(100):
            opt.step(closure)
            closure()
    """,
    "two heads over one encoder": """
        def train(encoder, head_a, head_b, loader, optimizer):
            for x, a, b in loader:
                optimizer.zero_grad()
                z = encoder(x)
                loss_a = F.mse_loss(head_a(z), a)
                loss_b = F.mse_loss(head_b(z), b)
                loss_a.backward(retain_graph=True)
                loss_b.backward()
                optimizer.step()
    """,
    "shared fake batch": """
        def train(G, D, loader, opt_g, opt_d, bce, ones, zeros):
            for real in loader:
                fake = G(torch.randn(8, 16))
                opt_d.zero_grad()
                d_loss = bce(D(real), ones) + bce(D(fake), zeros)
                d_loss.backward(retain_graph=True)
                opt_d.step()
                opt_g.zero_grad()
                g_loss = bce(D(fake), ones)
                g_loss.backward()
                opt_g.step()
    """,
    "two methods": """
        class GAN:
            def __init__(self, G, D):
                self.netG, self.netD = G, D
                self.opt_G = torch.optim.Adam(G.parameters())
                self.opt_D = torch.optim.Adam(D.parameters())

            def forward(self, z):
                self.fake = self.netG(z)

            def backward_D(self, real):
                self.loss_D = self.netD(self.fake).mean() - self.netD(real).mean()
                self.loss_D.backward(retain_graph=True)

            def backward_G(self):
                self.loss_G = -self.netD(self.fake).mean()
                self.loss_G.backward()

            def optimize(self, z, real):
                self.forward(z)
                self.opt_D.zero_grad()
                self.backward_D(real)
                self.opt_D.step()
                self.opt_G.zero_grad()
                self.backward_G()
                self.opt_G.step()

        def train(gan, loader):
            gan = GAN(None, None)
            for real in loader:
                gan.optimize(torch.randn(4), real)
    """,
    "autograd.grad afterwards": """
        def train(model, loader, optimizer):
            for x, y in loader:
                x.requires_grad_()
                optimizer.zero_grad()
                out = model(x)
                out.sum().backward(retain_graph=True)
                penalty = torch.autograd.grad(out.sum(), x)[0].norm()
                print(penalty.item())
                optimizer.step()
    """,
    "a graph from before the loop": """
        def jacobian(model, x):
            out = model(x)
            rows = []
            for i in range(out.size(1)):
                x.grad = None
                out[:, i].sum().backward(retain_graph=True)
                rows.append(x.grad.clone())
            return torch.stack(rows)
    """,
    "a parameter's graph": """
        def saliency(scores, x, classes):
            maps = []
            for c in classes:
                scores[0, c].backward(retain_graph=True)
                maps.append(x.grad.clone())
                x.grad.zero_()
            return maps
    """,
    "what is carried cannot be seen": """
        def train(compute, batches, optimizer):
            state = None
            for x, y in batches:
                optimizer.zero_grad()
                out, state = compute(x, state)
                F.mse_loss(out, y).backward(retain_graph=True)
                optimizer.step()
    """,
    "false": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward(retain_graph=False)
                optimizer.step()
    """,
    "decided at run time": """
        def train(model, loader, optimizer, second_order):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward(retain_graph=second_order)
                optimizer.step()
    """,
    "not in a loop": """
        out = torch.nn.Linear(2, 2)(torch.ones(1, 2))
        out[0, 0].backward(retain_graph=True)
        out[0, 1].backward()
    """,
    "losses one after another in an inner loop": """
        def train(model, heads, loader, optimizer):
            for x, ys in loader:
                optimizer.zero_grad()
                z = model(x)
                for head, y in zip(heads, ys):
                    F.mse_loss(head(z), y).backward(retain_graph=True)
                optimizer.step()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name])


def test_help_is_what_the_forum_says() -> None:
    (finding,) = findings(FLAGGED["needless"], CODE)
    assert finding.severity is Severity.WARNING
    assert finding.help is not None
    assert "add them and call backward once" in finding.help
    assert finding.fix is not None
    assert [e.text for e in finding.fix.edits] == [""]


def test_carried_state_is_named() -> None:
    (finding,) = findings(
        """
        def train(rnn, loader, optimizer):
            h = None
            for x, y in loader:
                optimizer.zero_grad()
                out, h = rnn(x, h)
                F.mse_loss(out, y).backward(retain_graph=True)
                optimizer.step()
        """,
        CODE,
    )
    assert finding.severity is Severity.ERROR
    assert "`h`" in finding.message


def test_what_was_made_before_the_loop_is_needed_in_each_iteration() -> None:
    """torch raises without `retain_graph=True`: each backward goes through the model's graph again."""
    source = """
        def reject(criterion, model, loader, steps):
            for images, labels in loader:
                output = model(images)
                for _ in range(500):
                    loss = criterion(output, labels)
                    loss.backward(retain_graph=True)
                    output = (output * 0.9 - 0.1 * steps).clamp(0, 1)
    """
    assert findings(source, CODE) == []


def test_a_state_that_a_handed_step_carries_is_named_as_the_step_writes_it() -> None:
    found = findings(HANDED, CODE)
    assert [f.message.split("`")[3] for f in found] == ["self.state"]


@pytest.mark.parametrize(
    "penalty",
    [
        "model.penalty()",
        "model.block.kl * 0.1 + model.head.kl * 0.1",
        "sum(drain(model))",
        "penalties(model)[0]",
        "torch.stack([m.last for m in model.modules() if hasattr(m, 'last')]).sum()",
        "sum(m.last for m in model.modules() if hasattr(m, 'last'))",
    ],
)
def test_a_second_loss_that_the_forward_left_in_the_model(penalty: str) -> None:
    snippet = """
        from parts import drain, penalties

        def train(model, optimizer, loader):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                {}
                optimizer.zero_grad()
                loss.backward(retain_graph=True){}
                (0.1 * penalty).backward()
                optimizer.step()
    """
    assert_clean(snippet.format(f"penalty = {penalty}", ""), "GG101")
    for other in ("F.cross_entropy(model(x), y)", "other.loss(x)", "sum(p.pow(2).sum() for p in model.parameters())"):
        assert_flagged(snippet.format(f"penalty = {other}", "  # !"), "GG101")


CHUNKS = """
        def backpropagate(criterion, net, scores, labels, step):
            for i in range(0, scores.size(0), step):
                loss = {loss}
                loss.backward(retain_graph=True)  # !
"""


@pytest.mark.parametrize(
    "loss",
    [
        "criterion(scores[i:i + step], labels[i:i + step])",
        "criterion(scores[i], labels[i]) / scores.size(0)",
        "criterion(scores.view(-1, 9)[i:i + step], labels[i:i + step]) + criterion(scores[i].T, labels[i])",
    ],
)
def test_parts_of_what_was_handed_over_share_its_graph(loss: str) -> None:
    assert_clean(CHUNKS.format(loss=loss).replace("  # !", ""), CODE)


@pytest.mark.parametrize(
    "loss",
    [
        "criterion(net.forward(scores[i:i + step]), labels[i:i + step])",
        "F.cross_entropy(net.head(scores[i]), labels[i])",
    ],
)
def test_what_a_model_makes_of_each_part_shares_nothing(loss: str) -> None:
    assert_flagged(CHUNKS.format(loss=loss), CODE)


SCALED = """
    class Cosine(nn.Module):
        def __init__(self, width, classes{default}):
            super().__init__()
            self.fc = nn.Linear(width, classes, bias=False)
            {setting}

        def forward(self, x):
            x = x / x.norm(dim=1, keepdim=True)
            return self.scale * self.fc(x)

    class Baseline(nn.Module):
        def adapt(self, support, target, query):
            classifier = Cosine(self.width, self.ways)
            optimizer = torch.optim.SGD(classifier.parameters(), lr=0.01)
            for epoch in range(self.epochs):
                for chosen in torch.randperm(support.size(0)).split(4):
                    optimizer.zero_grad()
                    loss = F.cross_entropy(classifier(support[chosen]), target[chosen])
                    loss.backward(retain_graph=True){mark}
                    optimizer.step()
            return classifier(query)

    def change(classifier, x):
        {more}
"""
SETTINGS = (
    ("", "self.scale = 2"),
    ("", "self.scale = 2 if classes < 200 else 10"),
    ("", "self.scale = 0.5 * 4"),
    (", scale=2.0", "self.scale = scale"),
    (", scale=2.0", "self.width, self.scale = width, scale"),
)


@pytest.mark.parametrize(("default", "setting"), SETTINGS)
def test_a_number_that_a_module_keeps_brings_no_graph(default: str, setting: str) -> None:
    assert_flagged(SCALED.format(default=default, setting=setting, more="pass", mark="  # !"), CODE)


@pytest.mark.parametrize("more", ["print(classifier.scale, end='')", "plot(classifier.scale, size=3, to=x)"])
def test_to_hand_a_number_on_is_not_to_set_it(more: str) -> None:
    assert_flagged(SCALED.format(default="", setting="self.scale = 2", more=more, mark="  # !"), CODE)


def with_constant(constant: str, more: str = "pass") -> str:
    """The scale is a constant of the file."""
    cosine = SCALED.replace("self.scale *", "(SCALE + 1e-8) *").format(
        default="", setting="pass", more=more, mark="  # !"
    )
    return f"\n    {constant}\n{cosine}"


@pytest.mark.parametrize("constant", ["SCALE = 2", "SCALE = 1.e-5  # small", "SCALE = -0.5", "SCALE = .5"])
def test_a_number_of_the_file_brings_no_graph(constant: str) -> None:
    assert_flagged(with_constant(constant, "print(x == SCALE)"), CODE)


@pytest.mark.parametrize(
    ("constant", "more"),
    [
        ("SCALE = nn.Parameter(torch.ones(1))", "pass"),
        ("SCALE = 2", "global SCALE; SCALE = classifier(x)"),
        ("SCALE = 2", "global SCALE; SCALE += classifier(x)"),
        ("SCALE = 2", "global SCALE, N; SCALE, N = classifier(x), 1"),
        ("SCALE = 2 * nn.Parameter(torch.ones(1))", "pass"),
    ],
)
def test_what_a_file_keeps_may_bring_a_graph(constant: str, more: str) -> None:
    assert_clean(with_constant(constant, more).replace("  # !", ""), CODE)


@pytest.mark.parametrize(
    ("default", "setting", "more"),
    [
        ("", "self.scale = 2", "classifier.scale = classifier.fc(x)"),
        ("", "self.scale = 2", "classifier.scale += classifier.fc(x)"),
        ("", "self.scale = 2", "classifier.scale, _ = classifier(x), 1"),
        ("", "self.scale = nn.Parameter(torch.ones(1)) * width", "pass"),
        (", scale=None", "self.scale = scale", "pass"),
        (", scale", "self.scale = scale", "pass"),
    ],
)
def test_what_a_module_keeps_may_bring_a_graph(default: str, setting: str, more: str) -> None:
    assert_clean(SCALED.format(default=default, setting=setting, more=more, mark=""), CODE)


LEAVES = (
    "self.scale = nn.Parameter(torch.ones(1))",
    "self.scale = nn.Parameter(torch.ones(1)) if classes > 2 else None",
    "self.scale = torch.ones(1, classes)",
    "self.register_buffer('scale', torch.tensor(2.0))",
    "self.register_buffer('scale', torch.ones(classes), persistent=False)",
)


@pytest.mark.parametrize("setting", LEAVES)
@pytest.mark.parametrize("more", ["pass", "classifier.scale.data.fill_(2)", "print(classifier.scale[0])"])
def test_a_leaf_or_a_buffer_brings_no_graph(setting: str, more: str) -> None:
    assert_flagged(SCALED.format(default="", setting=setting, more=more, mark="  # !"), CODE)


OTHER = """
    class Other({base}):
        def __init__(self, net, x):
            super().__init__()
            self.scale = net(x)
"""


@pytest.mark.parametrize("setting", ["self.scale = 2", LEAVES[0], LEAVES[2]])
def test_what_a_class_without_kinship_keeps_by_the_same_name(setting: str) -> None:
    snippet = SCALED.format(default="", setting=setting, more="pass", mark="  # !")
    assert_flagged(snippet + OTHER.format(base="nn.Module"), CODE)
    heir = snippet.replace("  # !", "") + OTHER.format(base="Cosine")
    assert_clean(heir, CODE)
    mixed = snippet.replace("  # !", "") + OTHER.format(base="nn.Module")
    assert_clean(mixed + "\n    class Both(Other, Cosine):\n        pass\n", CODE)


@pytest.mark.parametrize(
    ("setting", "more"),
    [
        ("self.register_buffer('scale', width(torch.ones(1)))", "pass"),
        ("self.register_buffer('scale', width)", "pass"),
        (LEAVES[3], "classifier.scale = classifier.fc(x)"),
        (LEAVES[3], "classifier.scale += classifier.fc(x).sum()"),
        (LEAVES[3], "classifier.scale, _ = classifier(x), 1"),
        (LEAVES[3], "classifier.scale.copy_(classifier.fc(x).sum())"),
        (LEAVES[4], "classifier.scale[0] = classifier.fc(x).sum()"),
        (LEAVES[4], "classifier.scale[:1].mul_(classifier.fc(x).sum())"),
        (LEAVES[0], "classifier.scale = classifier.fc(x)"),
        (LEAVES[2], "classifier.scale[:] = classifier.fc(x)"),
        (LEAVES[2], "classifier.scale[0, :2] += classifier.fc(x)[0, :2]"),
        (LEAVES[2], "classifier.scale.copy_(classifier.fc(x))"),
        (LEAVES[2], "classifier.scale[0].add_(classifier.fc(x)[0])"),
        (LEAVES[2], "classifier.scale.view(-1).mul_(classifier.fc(x).sum())"),
        ("self.scale = width(torch.ones(1))", "pass"),
        ("self.scale = nn.Parameter(torch.ones(1)).exp()", "pass"),
        ("self.scale = nn.Parameter(torch.ones(1)) if classes > 2 else width", "pass"),
    ],
)
def test_a_buffer_that_takes_on_a_graph(setting: str, more: str) -> None:
    assert_clean(SCALED.format(default="", setting=setting, more=more, mark=""), CODE)


CONFIGURED = """
    def losses(net, cfg):
        x = torch.rand(8, 1, requires_grad=True)
        slope = torch.autograd.grad(net(x).sum(), x, create_graph=True)[0]
        inside = ((slope + cfg{beta} * net(x)) ** 2).mean()
        edge = (net(torch.zeros(1, 1)) ** 2).mean()
        return inside + edge, inside, edge

    def balance(net, cfg, opt):
        for epoch in range(100):
            if epoch % 10 == 0:
                net.zero_grad()
                _, inside, edge = losses(net, cfg)
                inside.backward(retain_graph=True){mark}
                a = sum(p.grad.norm().item() for p in net.parameters())
                net.zero_grad()
                edge.backward()
                b = sum(p.grad.norm().item() for p in net.parameters())
            opt.zero_grad()
            total, _, _ = losses(net, cfg)
            total.backward()
            opt.step()
"""


@pytest.mark.parametrize("name", ["cfg", "config", "hparams"])
@pytest.mark.parametrize("beta", ["['beta']", "['pde']['beta']"])
def test_what_a_configuration_says_brings_no_graph(name: str, beta: str) -> None:
    assert_flagged(CONFIGURED.format(beta=beta, mark="  # !").replace("cfg", name), CODE)


@pytest.mark.parametrize("name", ["shared", "args", "features"])
def test_what_a_parameter_brings_may_have_a_graph(name: str) -> None:
    beta = "[0]" if name == "args" else "['beta']"
    assert_clean(CONFIGURED.format(beta=beta, mark="").replace("cfg", name), CODE)


GAN = """
    class Gan:
        def fit(self, loader):
            for x, y in loader:
                code = {code}
                self.d_optimizer.zero_grad()
                fake = self.G(torch.randn(8, 62), code)
                scores, _ = self.D(fake)
                d_loss = F.softplus(self.D(x)[0]).mean() - scores.mean()
                d_loss.backward(retain_graph=True){mark}
                self.d_optimizer.step()
                self.g_optimizer.zero_grad()
                fake = self.G(torch.randn(8, 62), code)
                scores, guess = self.D(fake)
                g_loss = F.softplus(scores).mean()
                g_loss.backward(retain_graph=True)
                self.g_optimizer.step()
                F.mse_loss(guess, code).backward()
                self.info_optimizer.step()
"""


@pytest.mark.parametrize(
    "code",
    [
        "torch.zeros((8, 10)).scatter_(1, y.unsqueeze(1), 1)",
        "torch.zeros(8, 10).scatter_(1, y.type(torch.LongTensor).unsqueeze(1), 1)",
        "torch.randn(8, 10).mul_(0.5)",
        "torch.empty(8, 10).copy_(y)",
        "torch.zeros(8, 10).masked_fill_(y > 0, 1.0)",
    ],
)
def test_what_is_filled_in_place_has_no_graph(code: str) -> None:
    assert_flagged(GAN.format(code=code, mark="  # !"), CODE)


@pytest.mark.parametrize("code", ["torch.zeros(8, 10).copy_(self.encoder(x))", "torch.zeros(8, 10).add_(self.Q(x))"])
def test_what_is_filled_in_place_takes_on_a_graph(code: str) -> None:
    assert_clean(GAN.format(code=code, mark=""), CODE)


RECURRENCE = """
        def legendre(x, n):
            terms = [torch.ones_like(x), x]
            for k in range(1, n):
                terms.append(((2 * k + 1) * x * terms[k] - k * terms[k - 1]) / (k + 1))
            return terms

        def slopes():
            found = []
            x = torch.tensor([0.5, -0.3], requires_grad=True)
            terms = legendre(x, 4)
            for i in range(4):
                x.grad = None
                terms[i].sum().backward(retain_graph=True)
                found.append(x.grad)
            return found
"""


@pytest.mark.parametrize(
    "edit",
    [
        ("terms[i].sum()", "terms[i].sum()"),
        ("terms = [torch.ones_like(x), x]", "terms = [1, x]"),
        ("return terms", "return tuple(terms)"),
        ("terms[i].sum()", "sum(terms[: i + 1]).sum()"),
    ],
)
def test_tensors_of_one_list_share_the_graph_that_a_function_made(edit: tuple[str, str]) -> None:
    assert_clean(twin(RECURRENCE, edit), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("for i in range(4):", "for i in range(4):\n                terms = legendre(x, 4)"),
        ("terms[i].sum()", "legendre(x, 4)[i].sum()"),
        ("terms[i].sum()", "(x**i).sum()"),
    ],
)
def test_a_list_that_each_iteration_makes_anew(edit: tuple[str, str]) -> None:
    snippet = RECURRENCE.replace(*edit).replace("retain_graph=True)", "retain_graph=True)  # !")
    assert_flagged(snippet, CODE)


PENALTIES = """
    class Penalty:
        def __init__(self, scale, optimizer):
            self.scale, self.optimizer = scale, optimizer

        def {name}(self, scores):
            penalty = self.scale * (scores.view(len(scores), -1) ** 2).mean()
            {does}
            return penalty.item()

        def finish(self, penalty):
            penalty.backward()

        def learn(self, loader):
            for x in loader:
                self.net(x).mean().backward()

    class Critic:
        def train(self, loader, penalties, penalty, options):
            for x, y in loader:
                self.optimizer.zero_grad()
                scores = self.D(x)
                scores.mean().backward(retain_graph=True){mark}
                {call}
                self.optimizer.step()
"""
DOING = ["penalty.backward()", "penalty.backward(retain_graph=True)", "self.finish(penalty)"]
HANDING = [
    ("__call__", "terms = {str(penalty): penalty(scores=scores) for penalty in penalties}"),
    ("__call__", "terms = [each(scores) for each in penalties]"),
    ("__call__", "term = penalty(scores)"),
    ("__call__", "term = self.penalty(scores)"),
    ("__call__", "term = penalties[options.name](scores)"),
    ("of", "term = penalty.of(scores)"),
    ("of", "terms = [each.of(scores) for each in penalties]"),
]


@pytest.mark.parametrize("does", DOING)
@pytest.mark.parametrize(("name", "call"), HANDING)
def test_a_graph_that_is_handed_to_what_goes_through_it(name: str, call: str, does: str) -> None:
    assert_clean(PENALTIES.format(name=name, call=call, does=does, mark=""), CODE)


@pytest.mark.parametrize(
    ("name", "call", "does"),
    [
        *((name, call, "pass") for name, call in HANDING),
        *((name, call.replace("scores)", "scores.detach())"), DOING[0]) for name, call in HANDING if name != "of"),
        *((name, call.replace("scores)", "x)"), DOING[0]) for name, call in HANDING),
        ("of", "term = penalty.to(scores)", DOING[0]),
        ("__call__", "term = options.log.write(scores)", DOING[0]),
        ("of", "pass", DOING[0]),
    ],
)
def test_a_graph_that_is_handed_to_what_does_not(name: str, call: str, does: str) -> None:
    assert_flagged(PENALTIES.format(name=name, call=call, does=does, mark="  # !"), CODE)


def test_a_graph_that_was_handed_on_before() -> None:
    snippet = PENALTIES.format(name="of", call="pass", does=DOING[0], mark="  # !")
    assert_flagged(snippet.replace("scores = self.D(x)", "scores = self.D(x); term = penalty.of(scores)"), CODE)


KEPT = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk, self.policy, self.critic = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 1)

        def forward(self, x):
            h = torch.relu(self.trunk(x))
            return torch.log_softmax(self.policy(h), -1), self.critic(h)

    class Player:
        def __init__(self):
            self.net = Net()
            self.optimizer = torch.optim.Adam(self.net.parameters())
            self.values, self.rewards, self.last = [], [], None

        def play(self, loader):
            for x, reward in loader:
                log_probs, value = self.net(x)
                BEFORE
                loss = -(log_probs[:, 0] * reward).mean()
                self.optimizer.zero_grad()
                loss.backward(retain_graph=True)MARK
                self.optimizer.step()
                KEEP

        def finish(self, rewards):
            LATER
"""

LOSS = "loss = F.mse_loss(torch.stack(self.values), rewards); loss.backward(); del self.values[:]"


def _kept(later: str = LOSS, keep: str = "pass", before: str = "pass", mark: str = "") -> str:
    return KEPT.replace("LATER", later).replace("KEEP", keep).replace("BEFORE", before).replace("MARK", mark)


@pytest.mark.parametrize(
    "edits",
    [
        {"keep": "self.values.append(value[0])"},
        {"before": "self.values.append(value)"},
        {"keep": "self.values += [value]"},
        {"keep": "self.last = value", "later": "F.mse_loss(self.last, rewards).backward()"},
        {"keep": "self.values.append(value)", "later": "sum(v.pow(2).sum() for v in self.values).backward()"},
    ],
)
def test_what_another_method_goes_through_later(edits: dict[str, str]) -> None:
    assert_clean(_kept(**edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        {},
        {"keep": "self.values.append(value.detach())"},
        {"keep": "self.values.append(value.item())"},
        {"keep": "self.rewards.append(value)"},
        {"keep": "self.values.append(value)", "later": "print(torch.stack(self.values).mean())"},
        {"keep": "self.values.append(self.net(x)[1])"},
        {"keep": "self.values.append(reward)"},
        {"keep": "self.last = value", "later": "self.last = None"},
    ],
)
def test_what_nothing_goes_through_later(edits: dict[str, str]) -> None:
    assert_flagged(_kept(**edits, mark="  # !"), CODE)


DRIVERS = """
    class Critic:
        def update(self, obs, targets):
            for _ in range(self.rounds):
                values = self.run_all(obs)
                losses = []
                for i in range(self.drivers):
                    losses.append(((targets[i] - values[i]) ** 2).mean())
                    self.optimizers[i].zero_grad()
                    losses[i].backward(retain_graph=True)
                    self.optimizers[i].step()
            return losses[i].item()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("losses[i].backward", "losses[-1].backward"),
        ("values = self.run_all(obs)", "values = run_all(self.nets, obs)"),
        ("losses = []", "losses = list()"),
    ],
)
def test_losses_of_what_was_made_before_the_loop_carry_no_other_graphs(before: str, after: str) -> None:
    assert_clean(DRIVERS.replace(before, after) if before else DRIVERS, CODE)


def test_losses_of_what_each_iteration_makes() -> None:
    made = DRIVERS.replace("values[i])", "self.run_one(obs[i]))").replace("values = self.run_all(obs)", "pass")
    assert_flagged(made.replace("(retain_graph=True)", "(retain_graph=True)  # !"), CODE)


DISTILLED = """
    class Soft(nn.Module):
        def __init__(self, {param}):
            super().__init__()
            self.kept = {name}

        def forward(self, output, target):
            return F.kl_div(output / self.kept, target / self.kept) * self.kept

    class Learner:
        def __init__(self, model, teacher, configs):
            self.model, self.teacher = model, teacher
            self.opt = torch.optim.SGD(model.parameters(), 0.1)
            self.soft = Soft(configs["given"])

        def train(self, loader):
            for x, y in loader:
                self.opt.zero_grad()
                out = self.model(x)
                with torch.no_grad():
                    target = self.teacher(x)
                loss = F.cross_entropy(out, y) + self.soft(out, target)
                loss.backward(retain_graph=True)  # !
                self.opt.step()
"""


@pytest.mark.parametrize("param", ["temperature", "kd_lambda", "x: float", "count: int", "margin=None"])
def test_a_constructor_that_is_given_a_number(param: str) -> None:
    assert_flagged(DISTILLED.format(param=param, name=re.split(r"\W", param)[0]), CODE)


@pytest.mark.parametrize("param", ["prototypes", "x", "temperature: torch.Tensor", "scales", "alphas"])
def test_a_constructor_that_may_be_given_a_graph(param: str) -> None:
    snippet = DISTILLED.format(param=param, name=re.split(r"\W", param)[0])
    assert_clean(snippet.replace("  # !", ""), CODE)

from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, source, twin

CODE = "GG224"

NETS = """
    class Generator(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, z):
            return self.layer(z)

    class Critic(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def forward(self, x):
            return self.layer(x)
"""


def gan(*lines: str, helpers: str = "", before: str = "pass", own_turn: str = "pass", at_end: str = "pass") -> str:
    """A loop that trains a critic, and then a generator."""
    freeze = "\n            ".join(lines)
    return f"""
    {NETS}
    {helpers}

    def fit(loader, epochs, freeze_epoch, flag):
        generator, critic = Generator(), Critic()
        g_optimizer = torch.optim.Adam(generator.parameters())
        c_optimizer = torch.optim.Adam(critic.parameters())
        {before}
        for step, real in enumerate(loader):
            {freeze}
            c_optimizer.zero_grad()
            c_loss = critic(generator(torch.randn(4, 8))).mean() - critic(real).mean()
            c_loss.backward()
            c_optimizer.step()
            {own_turn}
            g_optimizer.zero_grad()
            g_loss = -critic(generator(torch.randn(4, 8))).mean()
            g_loss.backward()
            g_optimizer.step()
            {at_end}
    """


SWITCH = """
    def set_requires_grad(net, requires_grad):
        for p in net.parameters():
            p.requires_grad = requires_grad
"""
SWITCH_ALL = """
    def set_requires_grad(nets, requires_grad=False):
        if not isinstance(nets, list):
            nets = [nets]
        for net in nets:
            if net is not None:
                for param in net.parameters():
                    param.requires_grad = requires_grad
"""
FREEZE = """
    def freeze(net):
        for p in net.parameters():
            p.requires_grad_(False)
"""
UTILITIES = """
    from utilities import set_requires_grad
"""


@pytest.mark.parametrize(
    ("helpers", "lines"),
    [
        ("", ("for p in generator.parameters():  # !", "    p.requires_grad = False")),
        ("", ("for p in generator.parameters(): p.requires_grad_(False)  # !",)),
        ("", ("for name, p in generator.named_parameters():  # !", "    p.requires_grad = False")),
        ("", ("generator.requires_grad_(False)  # !",)),
        ("", ("generator.requires_grad_(requires_grad=False)  # !",)),
        ("", ("generator.eval().requires_grad_(False)  # !",)),
        ("", ("if step % 5 == 0:", "    generator.requires_grad_(False)  # !")),
        (SWITCH, ("set_requires_grad(generator, False)  # !",)),
        (SWITCH, ("set_requires_grad(net=generator, requires_grad=False)  # !",)),
        (SWITCH_ALL, ("set_requires_grad(generator, False)  # !",)),
        (SWITCH_ALL, ("set_requires_grad([generator], False)  # !",)),
        (FREEZE, ("freeze(generator)  # !",)),
        (UTILITIES, ("set_requires_grad(generator, False)  # !",)),
        ("", ("for net in (generator, other):  # !", "    net.requires_grad_(False)")),
    ],
)  # fmt: skip
def test_a_step_that_leaves_it_frozen(helpers: str, lines: tuple[str, ...]) -> None:
    assert_flagged(gan(*lines, helpers=helpers), CODE)


def test_the_critic_is_left_frozen() -> None:
    assert_flagged(gan("pass", own_turn="critic.requires_grad_(False)  # !"), CODE)
    assert_flagged(gan("pass", at_end="critic.requires_grad_(False)  # !"), CODE)


PENALTY = "mixed = torch.rand(4, 8).requires_grad_(True)"


@pytest.mark.parametrize(
    "line", [PENALTY, "real.requires_grad_()", "x_hat = real.clone()", "real.requires_grad = True"]
)
def test_tensors_that_want_gradients_are_no_networks(line: str) -> None:
    assert_flagged(gan("generator.requires_grad_(False)  # !", own_turn=line), CODE)


TRAINER = f"""
    {NETS}

    class Trainer:
        def __init__(self):
            self.generator, self.critic = Generator(), Critic()
            self.g_optimizer = torch.optim.Adam(self.generator.parameters())
            self.c_optimizer = torch.optim.Adam(self.critic.parameters())

        def switch(self, net, flag):
            for p in net.parameters():
                p.requires_grad = flag

        def critic_step(self, real):
            self.switch(self.generator, False)  # !
            loss = self.critic(self.generator(torch.randn(4, 8))).mean() - self.critic(real).mean()
            self.c_optimizer.zero_grad()
            loss.backward()
            self.c_optimizer.step()

        def generator_step(self):
            loss = -self.critic(self.generator(torch.randn(4, 8))).mean()
            self.g_optimizer.zero_grad()
            loss.backward()
            self.g_optimizer.step()

        def fit(self, loader):
            for real in loader:
                self.critic_step(real)
                self.generator_step()
"""


def test_steps_of_one_object() -> None:
    assert_flagged(TRAINER, CODE)
    both = "self.critic.requires_grad_(False)"
    assert_flagged(
        TRAINER.replace("self.switch(self.generator, False)", both.replace("critic", "generator")).replace(
            "    p.requires_grad = flag", "    pass"
        ),
        CODE,
    )


@pytest.mark.parametrize(
    "edit",
    [
        ("loss = -self.critic", "self.switch(self.generator, True)\n            loss = -self.critic"),
        ("loss = -self.critic", "self.switch(self.generator, self.flag)\n            loss = -self.critic"),
        ("loss = -self.critic", "self.generator = Generator()\n            loss = -self.critic"),
        ("self.switch(self.generator, False)", "self.switch(self.teacher, False)"),
        ("self.switch(self.generator, False)", "self.switch(self.generator.layer[:1], False)"),
        ("self.g_optimizer.step()", "pass"),
        ("torch.optim.Adam(self.generator.parameters())", "make_optimizer(self.generator)"),
    ],
)
def test_objects_that_are_right(edit: tuple[str, str]) -> None:
    assert_clean(twin(TRAINER, edit), CODE)


def test_an_evaluation_that_leaves_it_frozen() -> None:
    snippet = """
    def evaluate(net, batches):
        net.eval()
        for p in net.parameters():
            p.requires_grad = False
        return sum(net(x).mean().item() for x in batches)

    def fit(train_loader, val_loader, encoder):
        net = nn.Linear(8, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for epoch in range(9):
            for x, y in train_loader:
                optimizer.zero_grad()
                F.cross_entropy(net(encoder(x)), y).backward()
                optimizer.step()
            evaluate(net, val_loader)  # !
    """
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("p.requires_grad = False", "pass")), CODE)
    assert_clean(twin(snippet, ("        net.eval()", "        net = copy.deepcopy(net)")), CODE)
    assert_clean(twin(snippet, ("            evaluate(net", "        evaluate(net")), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        ("if step == freeze_epoch:", "    generator.requires_grad_(False)"),
        ("if flag:", "    generator.requires_grad_(False)"),
        ("generator.requires_grad_(flag)",),
        ("generator.requires_grad_(step % 2 == 0)",),
        ("for p in generator.parameters():", "    p.requires_grad = step > 9"),
        ("for p in generator.parameters():", "    if p.ndim == 1:", "        p.requires_grad = False"),
        ("for m in generator.modules():", "    if isinstance(m, nn.BatchNorm2d):", "        m.requires_grad_(False)"),
        ("teacher = Generator()", "teacher.requires_grad_(False)"),
        ("generator = Generator()", "generator.requires_grad_(False)"),
        ("real.requires_grad_(False)",),
        ("real.requires_grad = False",),
        ("generator.layer.bias.requires_grad = False",),
        ("for p in generator.parameters():", "    p.grad = None"),
        ("with torch.no_grad():", "    generator.eval()"),
        ("if step == 9:", "    generator.requires_grad_(False)", "    break"),
        ("freeze(generator, upto=3)",),
        ("generator.freeze()",),
    ],
)
def test_look_alikes_in_the_loop(lines: tuple[str, ...]) -> None:
    assert_clean(gan(*lines), CODE)


@pytest.mark.parametrize(
    "own_turn",
    [
        "generator.requires_grad_(True)",
        "generator.requires_grad_()",
        "generator.requires_grad_(requires_grad=True)",
        "generator.requires_grad_(mode == 'g')",
        "for p in generator.parameters(): p.requires_grad = True",
        "for p in generator.parameters(): p.requires_grad_()",
        "for name, p in generator.named_parameters(): p.requires_grad = name in trained",
        "for p, flag in zip(generator.parameters(), flags): p.requires_grad = flag",
        "for p in generator.parameters(): setattr(p, 'requires_grad', True)",
        "generator.unfreeze()",
        "unfreeze(generator)",
        "toggle_grad(generator, True)",
        "set_requires_grad([generator], requires_grad=True)",
        "g_optimizer = torch.optim.Adam(generator.parameters())",
        "generator = Generator()",
        "g_optimizer.add_param_group({'params': generator.new()})",
    ],
)
def test_something_makes_it_trainable_again(own_turn: str) -> None:
    assert_clean(gan("generator.requires_grad_(False)", own_turn=own_turn), CODE)


def test_a_loop_that_ends_with_it() -> None:
    freeze = "generator.requires_grad_(False)"
    assert_clean(gan("pass", at_end=f"{freeze}\n            break"), CODE)
    assert_clean(gan("pass", at_end=f"{freeze}\n            return generator"), CODE)
    assert_flagged(gan("pass", at_end=f"{freeze}  # !\n            continue"), CODE)


def test_before_the_loop() -> None:
    assert_clean(gan("pass", before="generator.requires_grad_(False)"), CODE)
    assert_clean(gan("pass", before="for p in generator.parameters(): p.requires_grad = False"), CODE)


def test_a_switch_that_is_turned_by_somebody() -> None:
    for turned in ("set_requires_grad(generator, True)", "set_requires_grad(generator, step % 2 == 0)"):
        for helper in (SWITCH, SWITCH_ALL):
            assert_clean(gan("set_requires_grad(generator, False)", helpers=helper, own_turn=turned), CODE)


def test_a_loop_over_a_flag() -> None:
    assert_clean(gan("for flag in (False, True):", "    set_requires_grad(generator, flag)", helpers=SWITCH), CODE)


def test_a_part_of_what_the_optimizer_has() -> None:
    snippet = gan("generator.requires_grad_(False)  # !").replace(
        "Adam(generator.parameters())", "Adam([*generator.parameters(), *critic.parameters()])"
    )
    assert_clean(twin(snippet), CODE)
    assert_flagged(snippet, CODE, Confidence.LOW)
    part = gan("generator.layer.requires_grad_(False)")
    assert_clean(part, CODE, Confidence.LOW)


STAGES = """
    def fit(stages, loader, net):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for stage in stages:
            {made}
            for x in loader:
                optimizer.zero_grad()
                net(x).mean().backward()
                optimizer.step()
            net.requires_grad_(False)  # !
"""


def test_stages() -> None:
    assert_flagged(STAGES.format(made="pass"), CODE)
    for made in (
        "optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)",
        "net = nn.Sequential(net, nn.Linear(8, 8))",
        "optimizer.add_param_group({'params': net.grow()})",
    ):
        assert_clean(twin(STAGES.format(made=made)), CODE)


def test_a_script() -> None:
    assert_clean(
        """
    net = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.randn(4, 8)).mean().backward()
    optimizer.step()
    net.requires_grad_(False)
    """,
        CODE,
    )


def test_another_file(tmp_path: Path) -> None:
    main = source(gan("set_requires_grad(generator, False)", helpers="from switches import set_requires_grad"))
    switches = "def set_requires_grad(net, flag):\n    for p in net.parameters():\n        p.requires_grad = flag\n"
    line = next(n for n, text in enumerate(main.splitlines(), 1) if "grad(generator" in text)
    assert lines_in_files(tmp_path, {"main.py": main, "switches.py": switches}, CODE) == [("main.py", line)]
    other = "from switches import set_requires_grad\nimport main\n\ndef again(net):\n    set_requires_grad(net, True)\n"
    assert lines_in_files(tmp_path, {"other.py": other, "main.py": main, "switches.py": switches}, CODE) == []


def test_what_it_says() -> None:
    (finding,) = findings(gan("generator.requires_grad_(False)"), CODE)
    assert "`generator`" in finding.message
    assert "`g_optimizer`" in finding.message
    assert [related.message for related in finding.related] == ["the optimizer of `generator` steps here"]


TWO_CRITICS = f"""
    {NETS}
    {SWITCH_ALL}

    class Translator:
        def __init__(self):
            self.gen = Generator()
            self.critic_a, self.critic_b = Critic(), Critic()
            self.opt_g = torch.optim.Adam(self.gen.parameters())
            critics = list(self.critic_a.parameters()) + list(self.critic_b.parameters())
            self.opt_d = torch.optim.Adam(critics)

        def backward_d(self):
            loss = self.critic_a(self.fake.detach()).mean() - self.critic_b(self.real).mean()
            loss.backward()

        def optimize(self, real):
            self.real, self.fake = real, self.gen(torch.randn(4, 8))
            set_requires_grad([self.critic_a, self.critic_b], False)  # !
            self.opt_g.zero_grad()
            (self.critic_a(self.fake) + self.critic_b(self.fake)).mean().backward()
            self.opt_g.step()
            set_requires_grad(self.critic_a, True)
            self.opt_d.zero_grad()
            self.backward_d()
            self.opt_d.step()
"""
THAW = "set_requires_grad(self.critic_a, True)"
FREEZE_BOTH = "set_requires_grad([self.critic_a, self.critic_b], False)  # !"
METHOD = """
        def switch(self, nets, flag):
            for net in nets:
                for p in net.parameters():
                    p.requires_grad = flag

        def backward_d"""


@pytest.mark.parametrize(
    "edits",
    [
        (),
        ((THAW, "self.critic_a.requires_grad_(True)"),),
        ((THAW, "for p in self.critic_a.parameters():\n                p.requires_grad = True"),),
        (("self.backward_d()", f"{THAW}; self.backward_d()"), (THAW + "\n", "pass\n")),
        (("\n        def backward_d", METHOD), (FREEZE_BOTH, FREEZE_BOTH.replace("set_requires_grad", "self.switch"))),
        ((THAW, "self.switch([self.critic_a], True)"), ("\n        def backward_d", METHOD)),
        (
            (FREEZE_BOTH, "self.critic_a.requires_grad_(False); self.critic_b.requires_grad_(False)  # !"),
            (THAW, "self.critic_a.requires_grad_()"),
            (SWITCH_ALL, ""),
        ),
        ((SWITCH_ALL, "from helpers import set_requires_grad\n"),),
    ],
)
def test_one_of_two_is_left_frozen(edits: tuple[tuple[str, str], ...]) -> None:
    snippet = TWO_CRITICS
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


def test_the_generator_is_left_frozen_while_the_critic_is_not() -> None:
    snippet = gan("set_requires_grad(generator, False)  # !", "set_requires_grad(critic, True)", helpers=SWITCH)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edit",
    [
        (THAW, "set_requires_grad([self.critic_a, self.critic_b], True)"),
        (THAW, f"{THAW}; set_requires_grad(self.critic_b, True)"),
        (THAW, f"{THAW}; set_requires_grad(self.critics, True)"),
        (THAW, f"{THAW}; self.critic_b.requires_grad_(True)"),
        (THAW, f"{THAW}; self.critic_b.layer.requires_grad_(True)"),
        (THAW, f"{THAW}; self.critic_b.requires_grad_(self.flag)"),
        (THAW, "for critic in (self.critic_a, self.critic_b): set_requires_grad(critic, True)"),
        (THAW, f"other = self.critic_b; set_requires_grad(other, True); {THAW}"),
        (THAW, f"self.thaw(); {THAW}"),
        (THAW, f"{THAW}; unfreeze(self.critic_b)"),
        ("self.backward_d()", "set_requires_grad(self.critic_b, True); self.backward_d()"),
        ("loss.backward()", "set_requires_grad(self.critic_b, True); loss.backward()"),
        ("set_requires_grad([self.critic_a, self.critic_b], False)", "set_requires_grad(self.critic_a, False)"),
        ("self.opt_d = torch.optim.Adam(critics)", "self.opt_d = torch.optim.Adam(self.critic_a.parameters())"),
    ],
)
def test_both_are_trainable_again(edit: tuple[str, str]) -> None:
    thaw = "def thaw(self):\n            self.critic_b.requires_grad_(True)\n\n        def backward_d"
    snippet = twin(TWO_CRITICS, edit)
    assert_clean(snippet.replace("def backward_d", thaw) if "self.thaw()" in edit[1] else snippet, CODE)


def test_another_file_makes_the_second_one_trainable(tmp_path: Path) -> None:
    main = source(TWO_CRITICS)
    other = "import main\n\ndef again(t):\n    for p in t.critic_b.parameters():\n        p.requires_grad = True\n"
    assert len(lines_in_files(tmp_path, {"main.py": main}, CODE)) == 1
    assert lines_in_files(tmp_path, {"main.py": main, "other.py": other}, CODE) == []


def test_a_backbone_that_is_frozen_beside_its_head() -> None:
    snippet = """
    def tune(net, loader, epochs):
        optimizer = torch.optim.SGD([{"params": net.backbone.parameters()}, {"params": net.head.parameters()}], lr=0.1)
        for epoch in range(epochs):
            net.backbone.requires_grad_(False)
            net.head.requires_grad_(True)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
    """
    assert_clean(snippet, CODE)


def test_it_shows_what_leaves_one_of_two_out() -> None:
    (found,) = findings(TWO_CRITICS, CODE)
    assert [each.message for each in found.related] == [
        "this leaves it out",
        "the optimizer of `self.critic_b` steps here",
    ]

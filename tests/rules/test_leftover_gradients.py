from __future__ import annotations

from textwrap import dedent

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG214"

D_STEP = (
    "fake = G(torch.randn(len(x), 8))",
    "d_loss = F.softplus(-D(x)).mean() + F.softplus(D(fake.detach())).mean()",
    "d_loss.backward()",
    "d_opt.step()",
)
G_STEP = ("g_loss = F.softplus(-D(G(torch.randn(len(x), 8)))).mean()", "g_loss.backward(){mark}", "g_opt.step()")
MARK = "  # !"


def gan(*lines: str, mark: str = "") -> str:
    body = "\n                ".join(lines).format(mark=mark)
    return f"""
        def train(loader, epochs):
            G, D = nn.Linear(8, 4), nn.Linear(4, 1)
            g_opt = torch.optim.Adam(G.parameters(), lr=1e-3)
            d_opt = torch.optim.Adam(D.parameters(), lr=1e-3)
            for epoch in range(epochs):
              for x in loader:
                {body}
    """


PLAYERS = """
    class Player:
        def __init__(self, net, lr):
            self.net = net
            self.opt = torch.optim.RMSprop(net.parameters(), lr=lr)

        def learn(self, loss):
            {learn}

    def main(data, steps):
        painter = Player(nn.Linear(8, 2), 1e-3)
        judge = Player(nn.Linear(2, 1), 1e-3)
        for step in range(steps):
            for _ in range(4):
                with torch.no_grad():
                    fake = painter.net(torch.randn(16, 8))
                judge.learn(judge.net(fake).mean() - judge.net(next(data)).mean())
            painter.learn(-judge.net(painter.net(torch.randn(16, 8))).mean()){mark}
"""
RESETS_LATE = "loss.backward(); self.opt.step(); self.opt.zero_grad()"
RESETS_FIRST = "self.opt.zero_grad(); loss.backward(); self.opt.step()"

AGENT = """
    class Agent:
        def __init__(self, actor, critic):
            self.actor, self.critic = actor, critic
            self.actor_optim = torch.optim.Adam(actor.parameters())
            self.critic_optim = torch.optim.Adam(critic.parameters())

        def run(self, replay, steps):
            for step in range(steps):
                s, a, y = replay.sample()
                {before}
                critic_loss = F.mse_loss(self.critic(s, a), y)
                critic_loss.backward()
                self.critic_optim.step()
                {between}
                actor_loss = -self.critic(s, self.actor(s)).mean()
                actor_loss.backward(){mark}
                self.actor_optim.step()
                {after}
"""

DUEL = """
    class Duel:
        def __init__(self):
            self.maker, self.critic = nn.Linear(8, 4), nn.Linear(4, 1)
            self.opt_m = torch.optim.Adam(self.maker.parameters())
            self.opt_c = torch.optim.Adam(self.critic.parameters())

        def invent(self):
            return self.maker(torch.randn(64, 8))

        def critic_turn(self, real):
            fake = self.invent().detach()
            hinge = F.relu(1 - self.critic(real)).mean() + F.relu(1 + self.critic(fake)).mean()
            {first}
            hinge.backward()
            self.opt_c.step()
            {last}
            return hinge.item()

        def maker_turn(self):
            sway = -self.critic(self.invent()).mean()
            sway.backward(){mark}
            self.opt_m.step()
            self.opt_m.zero_grad()
            return sway.item()

        def bout(self, real):
            for _ in range(2):
                hinge = self.critic_turn(real)
            return hinge, self.maker_turn()

    def main(loader):
        duel = Duel()
        for real in loader:
            print(duel.bout(real))
"""

FLAGGED = {
    "each is reset behind its step": gan(*D_STEP, "d_opt.zero_grad()", *G_STEP, "g_opt.zero_grad()", mark=MARK),
    "both are reset first, and the generator comes first": gan(
        "g_opt.zero_grad(); d_opt.zero_grad()", *G_STEP, *D_STEP, mark=MARK
    ),
    "only the generator is reset between": gan(
        "d_opt.zero_grad()", "g_opt.zero_grad()", *G_STEP, "g_opt.zero_grad()", *D_STEP, mark=MARK
    ),
    "by its module": gan(*D_STEP, "D.zero_grad()", *G_STEP, "G.zero_grad()", mark=MARK),
    "every few steps": gan(
        *D_STEP,
        "d_opt.zero_grad()",
        "if epoch % 5 == 0:",
        "    g_loss = -D(G(torch.randn(len(x), 8))).mean()",
        "    g_loss.backward(){mark}",
        "    g_opt.step(); g_opt.zero_grad()",
        mark=MARK,
    ),
    "each in a method of its own": DUEL.format(first="pass", last="self.opt_c.zero_grad()", mark=MARK),
    "two objects of one class": PLAYERS.format(learn=RESETS_LATE, mark=MARK),
    "in turns, each reset behind its step": gan(
        "if epoch % 2 == 0:",
        *(f"    {line}" for line in (*G_STEP, "g_opt.zero_grad()")),
        "else:",
        *(f"    {line}" for line in (*D_STEP, "d_opt.zero_grad()")),
        mark=MARK,
    ),
    "in turns that leave, each reset behind its step": gan(
        "if epoch % 2 == 0:",
        *(f"    {line}" for line in (*G_STEP, "g_opt.zero_grad()", "continue")),
        *D_STEP,
        "d_opt.zero_grad()",
        mark=MARK,
    ),
    "an actor and a critic": AGENT.format(
        before="pass",
        between="self.critic_optim.zero_grad()",
        after="self.actor_optim.zero_grad()",
        mark=MARK,
    ),
}

CLEAN = {
    "each in a method of its own": DUEL.format(first="self.opt_c.zero_grad()", last="pass", mark=""),
    "each in a method of its own, reset on both sides": DUEL.format(
        first="self.opt_c.zero_grad()", last="self.opt_c.zero_grad()", mark=""
    ),
    "each is reset before its backward": gan("d_opt.zero_grad()", *D_STEP, "g_opt.zero_grad()", *G_STEP),
    "both are reset behind both": gan(*D_STEP, *G_STEP, "g_opt.zero_grad(); d_opt.zero_grad()"),
    "in turns, and all are reset first": gan(
        "g_opt.zero_grad(); d_opt.zero_grad()",
        "if epoch % 2 == 0:",
        *(f"    {line}" for line in G_STEP),
        "else:",
        *(f"    {line}" for line in D_STEP),
    ),
    "in turns, by the networks": gan(
        "G.zero_grad()",
        "D.zero_grad()",
        "if epoch < 3:",
        "    G(x).square().mean().backward()",
        "    g_opt.step()",
        "elif epoch % 2:",
        *(f"    {line}" for line in G_STEP),
        "else:",
        *(f"    {line}" for line in D_STEP),
    ),
    "in turns that leave": gan(
        "for opt in (g_opt, d_opt): opt.zero_grad()",
        "if epoch % 2 == 0:",
        *(f"    {line}" for line in (*G_STEP, "continue")),
        *D_STEP,
    ),
    "in turns, in a function for each batch": """
        def turn(i, x, G, D, g_opt, d_opt):
            G.zero_grad()
            D.zero_grad()
            if i % 2 == 0:
                loss = -D(G(x)).mean()
                loss.backward()
                g_opt.step()
            else:
                loss = D(G(x).detach()).mean() - D(x).mean()
                loss.backward()
                d_opt.step()

        def main(loader):
            G, D = nn.Linear(4, 4), nn.Linear(4, 1)
            g_opt, d_opt = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
            for i, x in enumerate(loader):
                turn(i, x, G, D, g_opt, d_opt)
    """,
    "reset again before its step": gan(*D_STEP, "d_opt.zero_grad()", *G_STEP, "for net in (G, D): net.zero_grad()"),
    "by hand": gan(*D_STEP, "d_opt.zero_grad()", *G_STEP, "for p in D.parameters(): p.grad = None"),
    "frozen for the generator": gan(
        *D_STEP, "d_opt.zero_grad()", "D.requires_grad_(False)", *G_STEP, "g_opt.zero_grad()", "D.requires_grad_(True)"
    ),
    "frozen by its parameters": gan(
        *D_STEP,
        "d_opt.zero_grad()",
        "for p in D.parameters(): p.requires_grad = False",
        *G_STEP,
        "g_opt.zero_grad()",
        "for p in D.parameters(): p.requires_grad = True",
    ),
    "a loss of the generator alone": gan(
        *D_STEP,
        "d_opt.zero_grad()",
        "g_loss = G(x).square().mean()",
        "g_loss.backward()",
        "g_opt.step()",
        "g_opt.zero_grad()",
    ),
    "two losses for one step": gan(
        "d_opt.zero_grad()",
        "D(x).mean().backward()",
        "D(G(x).detach()).mean().backward()",
        "d_opt.step()",
        "g_opt.zero_grad()",
        *G_STEP,
    ),
    "one backward for two optimizers": gan(
        "g_opt.zero_grad(); d_opt.zero_grad()",
        "loss = D(G(x)).mean()",
        "loss.backward()",
        "g_opt.step()",
        "d_opt.step()",
    ),
    "two objects that reset first": PLAYERS.format(learn=RESETS_FIRST, mark=""),
    "an actor and a critic that is reset first": AGENT.format(
        before="self.critic_optim.zero_grad()", between="self.actor_optim.zero_grad()", after="pass", mark=""
    ),
    "an actor and a critic that are reset together": AGENT.format(
        before="pass", between="pass", after="self.actor_optim.zero_grad(); self.critic_optim.zero_grad()", mark=""
    ),
    "a body that both losses are for": """
        def train(body, head_a, head_b, loader):
            body_opt = torch.optim.SGD(body.parameters(), lr=0.1)
            a_opt = torch.optim.SGD(head_a.parameters(), lr=0.1)
            b_opt = torch.optim.SGD(head_b.parameters(), lr=0.1)
            for x in loader:
                body_opt.zero_grad(); a_opt.zero_grad(); b_opt.zero_grad()
                head_a(body(x)).mean().backward()
                a_opt.step()
                head_b(body(x)).mean().backward()
                body_opt.step()
                b_opt.step()
    """,
    "a helper that resets whatever it is given": gan(
        *D_STEP, "d_opt.zero_grad()", *G_STEP, "reset_all(D, G, d_opt, g_opt)"
    ),
    "two helpers that freeze and thaw": """
        def freeze(net):
            for p in net.parameters():
                p.requires_grad = False

        def thaw(net):
            for p in net.parameters():
                p.requires_grad = True

        def train(G, D, loader):
            g_opt = torch.optim.Adam(G.parameters())
            d_opt = torch.optim.Adam(D.parameters())
            for x in loader:
                thaw(D)
                (D(x) - D(G(x).detach())).mean().backward()
                d_opt.step()
                d_opt.zero_grad()
                freeze(D)
                (-D(G(x))).mean().backward()
                g_opt.step()
                g_opt.zero_grad()
    """,
    "a helper that freezes": """
        def toggle(net, on):
            for p in net.parameters():
                p.requires_grad = on

        def train(G, D, loader):
            g_opt = torch.optim.Adam(G.parameters())
            d_opt = torch.optim.Adam(D.parameters())
            for x in loader:
                toggle(D, True)
                (D(x) - D(G(x).detach())).mean().backward()
                d_opt.step()
                d_opt.zero_grad()
                toggle(D, False)
                (-D(G(x))).mean().backward()
                g_opt.step()
                g_opt.zero_grad()
    """,
    "gradients of the one network only": gan(
        "fake = G(torch.randn(len(x), 8))",
        "d_loss = F.softplus(-D(x)).mean() + F.softplus(D(fake.detach())).mean()",
        "d_loss.backward()",
        "d_opt.step()",
        "d_opt.zero_grad()",
        "g_loss = F.softplus(-D(fake)).mean()",
        "g_loss.backward(inputs=list(G.parameters()))",
        "g_opt.step()",
        "g_opt.zero_grad()",
    ),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


ATTACK = """
    def perturb(net, x, y, steps=3):
        delta = torch.zeros_like(x).requires_grad_(True)
        for _ in range(steps):
            loss = F.cross_entropy(net(x + delta), y)
            {backward}
        return (x + delta).detach()

    def train(net, optimizer, loader):
        for x, y in loader:
            {before}
            adversarial = perturb(net, x, y)
            {between}
            loss = F.cross_entropy(net(adversarial), y)
            loss.backward()
            optimizer.step()
            {after}
"""
FILLS = "loss.backward(); delta.data += 0.1 * delta.grad.sign(); delta.grad = None"
ASKS = "(grad,) = torch.autograd.grad(loss, [delta]); delta.data += 0.1 * grad.sign()"


def attack(backward: str = FILLS, *, before: str = "pass", between: str = "pass", after: str = "pass") -> str:
    return ATTACK.format(backward=backward, before=before, between=between, after=after)


@pytest.mark.parametrize(
    "snippet",
    [
        attack(FILLS + "  # !", before="optimizer.zero_grad()"),
        attack(FILLS + "  # !", after="optimizer.zero_grad()"),
        attack(FILLS + "  # !", before="net.zero_grad()"),
        attack(FILLS.replace("delta.grad = None", "delta.grad.zero_()") + "  # !", before="optimizer.zero_grad()"),
    ],
)
def test_an_attack_leaves_gradients(snippet: str) -> None:
    assert_flagged(snippet, CODE)


def test_an_attack_in_the_loop_itself() -> None:
    snippet = """
    def train(net, optimizer, loader):
        for x, y in loader:
            {first}
            x.requires_grad_(True)
            F.cross_entropy(net(x), y).backward(){mark}
            hard = (x + 0.1 * x.grad.sign()).detach()
            {second}
            F.cross_entropy(net(hard), y).backward()
            optimizer.step()
    """
    assert_flagged(snippet.format(first="optimizer.zero_grad()", second="pass", mark="  # !"), CODE)
    assert_clean(snippet.format(first="pass", second="optimizer.zero_grad()", mark=""), CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        attack(between="optimizer.zero_grad()"),
        attack(between="net.zero_grad()"),
        attack(FILLS + "; net.zero_grad()", before="optimizer.zero_grad()"),
        attack(ASKS, before="optimizer.zero_grad()"),
        attack(FILLS.replace("backward()", "backward(inputs=[delta])"), before="optimizer.zero_grad()"),
        attack(before="optimizer.zero_grad()").replace("perturb(net, x, y)\n", "perturb(other, x, y)\n"),
        attack(before="optimizer.zero_grad()").replace("delta = ", "net = copy.deepcopy(net); delta = "),
        attack(before="optimizer.zero_grad(); net.requires_grad_(False)", between="net.requires_grad_(True)"),
    ],
)
def test_attacks_that_leave_nothing(snippet: str) -> None:
    assert_clean(snippet, CODE)


OBJECT = """
    class PGD:
        def __init__(self, model, steps=3):
            self.model = {held}
            self.steps = steps

        def perturb(self, x, y):
            delta = torch.zeros_like(x)
            delta.requires_grad_(True)
            for _ in range(self.steps):
                F.cross_entropy(self.model(x + delta), y).backward(){mark}
                with torch.no_grad():
                    delta += 0.1 * delta.grad.sign()
                delta.grad.zero_()
            return (x + delta).detach()

    def train(net, loader, surrogate):
        attack = PGD({given})
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            {before}
            adversarial = attack.perturb(x, y)
            {between}
            F.cross_entropy(net(adversarial), y).backward()
            optimizer.step()
"""


def of_object(*, held: str = "model", given: str = "net", before: str = "pass", between: str = "pass") -> str:
    mark = "  # !" if before != "pass" and held == "model" and given == "net" else ""
    return OBJECT.format(held=held, given=given, before=before, between=between, mark=mark)


def test_an_attack_that_is_an_object_leaves_gradients() -> None:
    assert_flagged(of_object(before="optimizer.zero_grad()"), CODE)
    (found,) = findings(of_object(before="optimizer.zero_grad()"), CODE)
    assert next(note.message for note in found.related) == "this reset comes before it"


@pytest.mark.parametrize(
    "snippet",
    [
        of_object(between="optimizer.zero_grad()"),
        of_object(between="net.zero_grad()"),
        of_object(between="attack.model.zero_grad()"),
        of_object(given="surrogate", before="optimizer.zero_grad()"),
        of_object(held="copy.deepcopy(model)", before="optimizer.zero_grad()"),
    ],
)
def test_an_attack_that_is_an_object_and_leaves_nothing(snippet: str) -> None:
    assert_clean(snippet, CODE)


PENALTY = """
    from torch import autograd

    def update(critic, optimizer, real, fake):
        optimizer.zero_grad()
        loss = critic(fake).mean() - critic(real).mean()
        loss.backward(retain_graph=True)
        mixed = (0.5 * real + 0.5 * fake).requires_grad_()
        (slope,) = autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = 10 * (slope.norm(2, dim=1) - 1).pow(2).mean()
        penalty.backward()
        bonus = -0.1 * critic(fake).pow(2).mean()
        bonus.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "edit",
    [
        ("autograd.grad(", "autograd.grad("),
        ("autograd.grad(", "torch.autograd.grad("),
        ("(slope,) = autograd.grad(critic(mixed).sum(), mixed, create_graph=True)", "slope = tape.grad(critic, mixed)"),
        ("mixed = (0.5 * real + 0.5 * fake).requires_grad_()", "mixed = real.clone(); mixed.requires_grad = True"),
    ],
)
def test_a_penalty_of_the_model_itself(edit: tuple[str, str]) -> None:
    """``autograd.grad`` is a function: no gradient of a tensor of that name is asked for."""
    assert_clean(twin(PENALTY, edit), CODE)


def test_one_backward_for_the_input_and_the_model() -> None:
    assert_clean(
        """
    def train(net, optimizer, loader, delta):
        for x, y in loader:
            delta.requires_grad_(True)
            optimizer.zero_grad()
            F.cross_entropy(net(x + delta), y).backward()
            delta.data += 0.1 * delta.grad.sign()
            optimizer.step()
    """,
        CODE,
    )


def test_two_losses_whose_gradients_are_to_be_added() -> None:
    assert_clean(
        """
    def train(net, optimizer, loader):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            print(net.head.weight.grad.norm())
            F.mse_loss(net(x), x).backward()
            optimizer.step()
    """,
        CODE,
    )


COMPUTE = """
    class LossCompute:
        def __init__(self, generator, criterion, opt{default}):
            self.generator, self.criterion, self.opt = generator, criterion, opt

        def __call__(self, hidden, y, norm):
            loss = self.criterion(self.generator(hidden), y) / norm
            {lines}
            return loss.item() * norm
"""


def compute(*lines: str, default: str = "=None") -> str:
    return COMPUTE.format(lines="\n            ".join(lines), default=default)


STEPS = ("    self.opt.step()", "    self.opt.zero_grad()")
EPOCH = """
    def run_epoch(model, loader, optimizer=None):
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            {lines}
            total += loss.item()
        return total
"""


def epoch(*lines: str) -> str:
    return EPOCH.format(lines="\n            ".join(lines))


@pytest.mark.parametrize(
    "snippet",
    [
        compute("loss.backward()  # !", "if self.opt is not None:", *STEPS),
        compute("loss.backward()  # !", "if self.opt:", *STEPS),
        compute(
            "loss.backward()  # !",
            "if self.opt is not None:",
            "    self.opt.step()",
            "    self.opt.optimizer.zero_grad()",
        ),
        epoch("loss.backward()  # !", "if optimizer is not None:", "    optimizer.step()", "    optimizer.zero_grad()"),
        epoch("loss.backward()  # !", "if optimizer:", "    optimizer.step()", "    model.zero_grad()"),
    ],
)
def test_a_backward_without_an_optimizer(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        compute("if self.opt is not None:", "    loss.backward()", *STEPS),
        compute("self.generator.zero_grad()", "loss.backward()", "if self.opt is not None:", "    self.opt.step()"),
        compute("loss.backward()", "if self.opt is not None:", *STEPS, default=""),
        compute("loss.backward()", "if self.opt is not None:", "    self.opt.step()", "self.generator.zero_grad()"),
        compute("loss.backward()", "if self.generator is not None:", *STEPS),
        compute("if self.generator.training:", "    loss.backward()", "if self.opt is not None:", *STEPS),
        compute(
            "loss.backward()", "if self.opt is not None:", *STEPS, "else:", "    self.generator.zero_grad()",
        ),
        epoch("if optimizer is not None:", "    optimizer.zero_grad()", "    loss.backward()", "    optimizer.step()"),
        epoch("loss.backward()", "if (int(total) + 1) % 4 == 0:", "    optimizer.step()", "    optimizer.zero_grad()"),
        epoch(
            "if optimizer is not None:", "    optimizer.zero_grad()", "loss.backward()", "if optimizer is not None:",
            "    optimizer.step()", "    optimizer.zero_grad()",
        ),
        epoch("loss.backward()", "if optimizer is None:", "    continue", "optimizer.step()", "optimizer.zero_grad()"),
    ],
)  # fmt: skip
def test_a_backward_that_has_an_optimizer_or_leaves_nothing(snippet: str) -> None:
    assert_clean(snippet, CODE)


NORM = "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
SPIKE = """
    def run_epoch(model, loader, optimizer):
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y)
            {lines}
"""


def spiked(*lines: str) -> str:
    return SPIKE.format(lines="\n            ".join(lines))


@pytest.mark.parametrize(
    "snippet",
    [
        spiked(
            "loss.backward()", NORM, "if not torch.isfinite(norm):", "    continue  # !",
            "optimizer.step()", "optimizer.zero_grad()",
        ),
        spiked(
            "loss.backward()", NORM, "if norm.item() > 10:", "    print(i)", "    continue  # !",
            "optimizer.step()", "model.zero_grad(set_to_none=True)",
        ),
        spiked(
            "loss.backward()", NORM, "if math.isfinite(norm):  # !", "    optimizer.step()", "    optimizer.zero_grad()"
        ),
        spiked(
            "loss.backward()", "if torch.isnan(loss):", "    continue  # !", "optimizer.step()", "optimizer.zero_grad()"
        ),
    ],
)  # fmt: skip
def test_a_batch_that_is_passed_over(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        spiked(
            "optimizer.zero_grad()", "loss.backward()", NORM, "if not torch.isfinite(norm):", "    continue",
            "optimizer.step()",
        ),
        spiked(
            "if not torch.isfinite(loss):", "    continue", "loss.backward()", "optimizer.step()",
            "optimizer.zero_grad()",
        ),
        spiked(
            "loss.backward()", NORM, "if not torch.isfinite(norm):", "    optimizer.zero_grad()", "    continue",
            "optimizer.step()", "optimizer.zero_grad()",
        ),
        spiked(
            "loss.backward()", NORM, "if not torch.isfinite(norm):", "    for p in model.parameters():",
            "        p.grad = None", "    continue", "optimizer.step()", "optimizer.zero_grad()",
        ),
        spiked(
            "loss.backward()", NORM, "if torch.isfinite(norm):", "    optimizer.step()", "optimizer.zero_grad()",
        ),
        spiked(
            "loss.backward()", "if (i + 1) % 4:", "    continue", NORM, "optimizer.step()", "optimizer.zero_grad()",
        ),
        spiked(
            "loss.backward()", NORM, "if not torch.isfinite(norm):", "    break", "optimizer.step()",
            "optimizer.zero_grad()",
        ),
        spiked(
            "loss.backward()", NORM, "if not torch.isfinite(norm):", "    raise ValueError(i)", "optimizer.step()",
            "optimizer.zero_grad()",
        ),
        spiked(
            "loss.backward()", NORM, "optimizer.step()", "optimizer.zero_grad()", "if norm > 10:", "    continue",
            "print(i)",
        ),
    ],
)  # fmt: skip
def test_a_batch_that_is_passed_over_and_leaves_nothing(snippet: str) -> None:
    assert_clean(snippet, CODE)


CLICKS = """
    class Trainer:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.Adam(model.parameters())
            self.skipped = 0

        def step(self, x, y):
            {lines}
            return loss.item()

    def main(loader):
        trainer = Trainer(nn.Linear(4, 2))
        for x, y in loader:
            {call}
"""
LOSS = "loss = F.cross_entropy(self.model(x), y)"
GRAD_NORM = "norm = nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)"


def clicks(*lines: str, call: str = "trainer.step(x, y)") -> str:
    return CLICKS.format(lines="\n            ".join(lines), call=call)


@pytest.mark.parametrize(
    "snippet",
    [
        clicks(
            LOSS, "loss.backward()", GRAD_NORM, "if torch.isfinite(norm):  # !", "    self.optimizer.step()",
            "    self.optimizer.zero_grad(set_to_none=True)", "else:", "    self.skipped += 1",
        ),
        clicks(
            LOSS, "loss.backward()", GRAD_NORM, "if norm.isnan() or norm.isinf():  # !", "    self.skipped += 1",
            "else:", "    self.optimizer.step()", "    self.optimizer.zero_grad()",
        ),
        clicks(
            LOSS, "loss.backward()", GRAD_NORM, "if not math.isfinite(norm):", "    return None  # !",
            "self.optimizer.step()", "self.optimizer.zero_grad()",
        ),
        clicks(
            LOSS, "loss.backward()", "ok = all(p.grad.isfinite().all() for p in self.model.parameters())",
            "if ok:  # !", "    self.optimizer.step()", "    self.model.zero_grad()",
        ),
        spiked(
            "loss.backward()", "if (i + 1) % 4 == 0:", f"    {NORM}", "    if torch.isfinite(norm):  # !",
            "        optimizer.step()", "        optimizer.zero_grad()",
        ),
        spiked(
            "with torch.autocast('cpu'):", "    loss.backward()", NORM, "if torch.isnan(norm):", "    print(i)",
            "    continue  # !", "optimizer.step()", "optimizer.zero_grad()",
        ),
        spiked(
            "for part in loss.chunk(2):", "    part.sum().backward()", NORM, "if torch.isfinite(norm):  # !",
            "    optimizer.step()", "    optimizer.zero_grad()", "else:", "    print('skipped', i)",
        ),
    ],
)  # fmt: skip
def test_a_step_and_its_reset_that_are_passed_over(snippet: str) -> None:
    assert_flagged(snippet, CODE)


GUARDED = (LOSS, "loss.backward()", GRAD_NORM, "if torch.isfinite(norm):", "    self.optimizer.step()")


@pytest.mark.parametrize(
    "snippet",
    [
        clicks(*GUARDED, "else:", "    self.skipped += 1", "self.optimizer.zero_grad()"),
        clicks("self.optimizer.zero_grad()", *GUARDED, "    self.optimizer.zero_grad()"),
        clicks(*GUARDED, "    self.optimizer.zero_grad()", "else:", "    self.optimizer.zero_grad()"),
        clicks(*GUARDED, "    self.optimizer.zero_grad()", "else:", "    raise FloatingPointError(norm)"),
        clicks(*GUARDED, "    self.optimizer.zero_grad()", "else:", "    self.diverged = True"),
        clicks(*GUARDED, "    self.optimizer.zero_grad()", "else:", "    return False"),
        clicks(*GUARDED, "    self.optimizer.zero_grad()", "else:", "    self.model.zero_grad(set_to_none=True)"),
        clicks(
            *GUARDED, "    self.optimizer.zero_grad()", "else:", "    for p in self.model.parameters():",
            "        p.grad = None",
        ),
        clicks(*GUARDED, "    self.optimizer.zero_grad()", call="trainer.optimizer.zero_grad(); trainer.step(x, y)"),
        clicks(*GUARDED, "    self.optimizer.zero_grad()", call="trainer.step(x, y); trainer.model.zero_grad()"),
        clicks(*GUARDED, "    self.optimizer.zero_grad()", call="break"),
        clicks(*GUARDED, "    self.optimizer.zero_grad()", call="trainer.step(x, y); clean_all(trainer.model)"),
        clicks(
            LOSS, "if torch.isfinite(loss):", "    loss.backward()", "    self.optimizer.step()",
            "    self.optimizer.zero_grad()",
        ),
        clicks(
            LOSS, "if not torch.isfinite(loss):", "    return 0.0", "loss.backward()", "self.optimizer.step()",
            "self.optimizer.zero_grad()",
        ),
        clicks(
            LOSS, "loss.backward()", GRAD_NORM, "if not torch.isfinite(norm):", "    self.optimizer.zero_grad()",
            "    return 0.0", "self.optimizer.step()", "self.optimizer.zero_grad()",
        ),
        clicks(
            LOSS, "loss.backward()", GRAD_NORM, "if norm > 5:", "    self.skipped += 1", "    self.optimizer.step()",
            "else:", "    self.optimizer.step()", "    self.optimizer.zero_grad()",
        ),
        clicks(
            LOSS, "loss.backward()", GRAD_NORM, "if self.skipped == 0:", "    self.optimizer.step()",
            "    self.optimizer.zero_grad()",
        ),
        spiked(
            "loss.backward()", "if (i + 1) % 4 == 0:", f"    {NORM}", "    if torch.isfinite(norm):",
            "        optimizer.step()", "    optimizer.zero_grad()",
        ),
        spiked(
            "loss.backward()", NORM, "if torch.isfinite(norm):", "    optimizer.step()", "    optimizer.zero_grad()",
            "else:", "    break",
        ),
        spiked(
            "loss.backward()", NORM, "if torch.isfinite(norm):", "    optimizer.step()", "    optimizer.zero_grad()",
            "else:", "    for p in model.parameters():", "        p.grad.nan_to_num_()",
        ),
        spiked(
            "optimizer.zero_grad()", "for part in loss.chunk(2):", "    part.sum().backward()", NORM,
            "if torch.isfinite(norm):", "    optimizer.step()",
        ),
    ],
)  # fmt: skip
def test_a_step_that_is_passed_over_and_leaves_nothing(snippet: str) -> None:
    assert_clean(snippet, CODE)


ROUNDS = """
    from contextlib import contextmanager

    @contextmanager
    def updating(opt):
        {manager}

    def train(batches):
        G, D = nn.Linear(4, 2), nn.Linear(2, 1)
        g_opt = torch.optim.Adam(G.parameters())
        d_opt = torch.optim.Adam(D.parameters())
        for x in batches:
            with updating(d_opt):
                (D(x).mean() - D(G(torch.randn(8, 4)).detach()).mean()).backward()
            with updating(g_opt):
                (-D({made}).mean()).backward(){mark}
"""
MADE = "G(torch.randn(8, 4))"


def rounds(*manager: str, made: str = MADE, mark: str = "") -> str:
    return ROUNDS.format(manager="\n        ".join(manager), made=made, mark=mark)


@pytest.mark.parametrize("end", ["yield", "yield opt", "with torch.enable_grad():\n            yield"])
def test_a_context_that_resets_too_early(end: str) -> None:
    assert_flagged(rounds(end, "opt.step()", "opt.zero_grad()", mark="  # !"), CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        rounds("opt.zero_grad()", "yield", "opt.step()"),
        rounds("opt.zero_grad()", "try:", "    yield", "finally:", "    opt.step()"),
        rounds("opt.zero_grad()", "yield", "opt.step()", "opt.zero_grad()"),
        rounds("yield", "opt.step()", "opt.zero_grad()", made=f"{MADE}.detach()"),
        rounds("yield", "opt.step()", "clean_all(opt)"),
    ],
)
def test_a_context_that_resets_before_its_block(snippet: str) -> None:
    assert_clean(snippet, CODE)


# The discriminator is given what the generator makes with its graph; both are reset at the top of the iteration only.
JUDGED = """
    class Forge:
        def __init__(self):
            self.{g}, self.{d} = nn.Sequential(nn.Linear(8, 4)), nn.Sequential(nn.Linear(4, 1))
            self.opt_g = torch.optim.Adam(self.{g}.parameters())
            self.opt_d = torch.optim.Adam(self.{d}.parameters())

        def draw(self, n):
            return self.{g}(torch.randn(n, 8))

        def d_loss(self, x):
            return F.softplus(-self.{d}(x)).mean() + F.softplus(self.{d}({fake})).mean()

        def g_loss(self, n):
            return {g_loss}

        def update(self, x):
            {top}
            d_loss = self.d_loss(x)
            d_loss.backward(){mark}
            self.opt_d.step()
            {between}
            self.g_loss(len(x)).backward()
            self.opt_g.step()
            {end}
"""


def judged(**words: str) -> str:
    words = {"g": "maker", "d": "disc", "between": "pass", "end": "pass", "mark": ""} | words
    words = {"top": "self.opt_d.zero_grad(); self.opt_g.zero_grad()", "fake": "self.draw(len(x))"} | words
    words = {"g_loss": f"F.softplus(-self.{words['d']}(self.draw(n))).mean()"} | words
    return JUDGED.format(**words)


@pytest.mark.parametrize(
    "snippet",
    [
        judged(mark=MARK),
        judged(mark=MARK, g="G", d="D"),
        judged(mark=MARK, g="netG", d="netD", top="pass", end="self.netG.zero_grad(); self.netD.zero_grad()"),
        judged(mark=MARK, between="self.opt_d.zero_grad()"),
        judged(mark=MARK, top="self.opt_d.zero_grad()", end="self.opt_g.zero_grad()"),
        gan(
            "g_opt.zero_grad(); d_opt.zero_grad()",
            "fake = G(torch.randn(len(x), 8))",
            "d_loss = F.softplus(-D(x)).mean() + F.softplus(D(fake)).mean()",
            "d_loss.backward(){mark}",
            "d_opt.step()",
            *G_STEP[:1],
            "g_loss.backward()",
            "g_opt.step()",
            mark=MARK,
        ),
        """
        def critic_loss(critic, gen, x):
            return critic(gen(torch.randn(len(x), 8))).mean() - critic(x).mean()

        def train(gen, critic, loader):
            gen_opt, critic_opt = torch.optim.Adam(gen.parameters()), torch.optim.Adam(critic.parameters())
            for x in loader:
                for opt in (gen_opt, critic_opt):
                    opt.zero_grad()
                critic_loss(critic, gen, x).backward()  # !
                critic_opt.step()
                (-critic(gen(torch.randn(len(x), 8)))).mean().backward()
                gen_opt.step()
        """,
    ],
)
def test_a_judge_that_is_given_the_graph(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        judged(fake="self.draw(len(x)).detach()"),
        judged(between="self.opt_g.zero_grad()"),
        judged(between="self.maker.zero_grad(set_to_none=True)"),
        judged(between="for p in self.maker.parameters(): p.grad = None"),
        judged(between="reset(self)"),
        judged(g_loss="self.draw(n).pow(2).mean()", fake="self.draw(len(x)).detach()"),
        judged(g="body", d="head"),  # the body is to have what both losses say
        judged(g="encoder", d="decoder"),
        judged(
            top="self.opt_d.zero_grad(); self.opt_g.zero_grad()", between="self.opt_g.step(); self.opt_g.zero_grad()"
        ),
        """
        def train(encoder, actor, critic, replay):  # the critic trains the encoder as well
            actor_opt = torch.optim.Adam([*encoder.parameters(), *actor.parameters()])
            critic_opt = torch.optim.Adam(critic.parameters())
            for s, y in replay:
                actor_opt.zero_grad(); critic_opt.zero_grad()
                F.mse_loss(critic(encoder(s)), y).backward()
                critic_opt.step()
                (-critic(actor(encoder(s)))).mean().backward()
                actor_opt.step()
        """,
        """
        def train(E, D, loader):  # both learn to reconstruct
            e_opt, d_opt = torch.optim.Adam(E.parameters()), torch.optim.Adam(D.parameters())
            for x in loader:
                e_opt.zero_grad(); d_opt.zero_grad()
                F.mse_loss(D(E(x)), x).backward()
                d_opt.step()
                F.l1_loss(D(E(x)), x).backward()
                e_opt.step()
        """,
        """
        def train(G, D, C, loader):  # a third network learns from the generator's loss
            g_opt, d_opt = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
            c_opt = torch.optim.Adam(C.parameters())
            for x in loader:
                g_opt.zero_grad(); d_opt.zero_grad(); c_opt.zero_grad()
                (D(G(x)) - D(x)).mean().backward()
                d_opt.step()
                (C(G(x)) - D(G(x))).mean().backward()
                g_opt.step(); c_opt.step()
        """,
    ],
)
def test_look_alikes_of_a_judge(snippet: str) -> None:
    assert_clean(snippet, CODE)


# Two losses that the features are both to be trained by: the second one does not ask what the first one is computed by.
TOGETHER = """
    {defines}

    def train(feat, {head}, clf, loader):
        of = torch.optim.Adam([*feat.parameters(), *clf.parameters()])
        oh = torch.optim.Adam({head}.parameters())
        for x, y, r in loader:
            of.zero_grad(); oh.zero_grad()
            h = feat(x)
            {first}.backward(retain_graph=True)
            oh.step()
            {second}.backward()
            of.step()
"""
NO_CLASS = "print('two losses')"
REVERSAL = """class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return -g

    class Turned(nn.Module):
        def forward(self, x):
            return Round.apply(x)

    turned = Turned()"""


def together(
    first: str, *, second: str = "F.cross_entropy(clf(h), y)", head: str = "D", defines: str = NO_CLASS
) -> str:
    return TOGETHER.format(first=first, second=second, head=head, defines=defines)


@pytest.mark.parametrize(
    "snippet",
    [
        together("F.cross_entropy(D(h), r)"),  # a head of its own
        together("F.cross_entropy(disc(h), r)", head="disc"),
        together("F.cross_entropy(rot(h), r)", head="rot"),
        together("F.mse_loss(ar(feat(x)), x)", head="ar", second="F.cross_entropy(clf(feat(x)), y)"),
        together("(-critic(h).mean() + critic(h.roll(1, 0)).exp().mean().log())", head="critic"),  # both maximize
        together("F.cross_entropy(clf(prompt(h)), y)", head="prompt"),
        together("F.softplus(D(Round.apply(h))).mean()", defines=REVERSAL),
        together("F.softplus(D(turned(h))).mean()", defines=REVERSAL),
        together(
            "F.softplus(D(Round.apply(torch.cat([h, feat(r)])))).mean()",
            second="(F.cross_entropy(clf(h), y) + F.softplus(D(turned(h))).mean())",
            defines=REVERSAL,
        ),
        together("F.softplus(D(GradientReversal()(h))).mean()", defines="from turning import GradientReversal"),
    ],
)
def test_losses_that_train_what_they_share(snippet: str) -> None:
    assert_clean(snippet, CODE)


@pytest.mark.parametrize("mine", ["enc(x).pow(2).mean() * 0.01", "F.mse_loss(enc(x), y)"])
def test_a_bound_that_both_are_to_raise(mine: str) -> None:
    assert_clean(
        f"""
        def train(enc, critic, loader):
            oe, oc = torch.optim.Adam(enc.parameters()), torch.optim.Adam(critic.parameters())
            for x, y in loader:
                oe.zero_grad(); oc.zero_grad()
                h = enc(x)
                bound = critic(h).mean() - critic(h.roll(1, 0)).exp().mean().log()
                (-bound).backward()
                oc.step()
                ({mine}).backward()
                oe.step()
    """,
        CODE,
    )


@pytest.mark.parametrize("between", ["D.requires_grad_(True)", "D.requires_grad_(False)"])
def test_a_judge_that_both_losses_ask(between: str) -> None:
    assert_flagged(
        gan(
            "D.requires_grad_(True)",
            "g_opt.zero_grad(); d_opt.zero_grad()",
            "d_loss = F.softplus(D(G(torch.randn(len(x), 8)))).mean() + F.softplus(-D(x)).mean()",
            "d_loss.backward(){mark}",
            "d_opt.step()",
            between,
            *G_STEP[:1],
            "g_loss.backward()",
            "g_opt.step()",
            mark=MARK,
        ),
        CODE,
    )


NETS = """
    def dense(*sizes):
        return nn.Sequential(*(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])))

    def judge_loss(nets, real, z):
        fake = nets["g"](z)
        return F.softplus(-nets["d"](real)).mean() + F.softplus(nets["d"](fake)).mean()

    def maker_loss(nets, z):
        return F.softplus(-nets["d"](nets["g"](z))).mean()

    def make():
        nets = {"g": dense(8, 32, 2), "d": dense(2, 32, 1)}
        return nets, {k: torch.optim.Adam(m.parameters(), lr=1e-3) for k, m in nets.items()}
"""
IN_DICTS = {
    "in one function": """
    def main(data):
        nets = {"g": dense(8, 32, 2), "d": dense(2, 32, 1)}
        opts = {k: torch.optim.Adam(m.parameters(), lr=1e-3) for k, m in nets.items()}
        for real in data:
            for o in opts.values():
                o.zero_grad()
            fake = nets["g"](torch.randn(64, 8))
            d_loss = F.softplus(-nets["d"](real)).mean() + F.softplus(nets["d"](fake)).mean()
            d_loss.backward()  # !
            opts["d"].step()
            maker_loss(nets, torch.randn(64, 8)).backward()
            opts["g"].step()
    """,
    "in a helper that is given both": """
    def step(nets, opts, real):
        for o in opts.values():
            o.zero_grad()
        judge_loss(nets, real, torch.randn(64, 8)).backward()  # !
        opts["d"].step()
        maker_loss(nets, torch.randn(64, 8)).backward()
        opts["g"].step()

    def main(data):
        nets = {"g": dense(8, 32, 2), "d": dense(2, 32, 1)}
        opts = {"g": torch.optim.Adam(nets["g"].parameters()), "d": torch.optim.Adam(nets["d"].parameters())}
        for real in data:
            step(nets, opts, real)
        nets["g"].eval()
    """,
    "of an object": """
    class Trainer:
        def __init__(self):
            self.nets = {"g": dense(8, 32, 2), "disc": dense(2, 32, 1)}
            self.opts = {name: torch.optim.Adam(net.parameters()) for name, net in self.nets.items()}

        def step(self, real):
            for o in self.opts.values():
                o.zero_grad()
            fake = self.nets["g"](torch.randn(64, 8))
            loss = F.softplus(-self.nets["disc"](real)).mean() + F.softplus(self.nets["disc"](fake)).mean()
            loss.backward()  # !
            self.opts["disc"].step()
            F.softplus(-self.nets["disc"](self.nets["g"](torch.randn(64, 8)))).mean().backward()
            self.opts["g"].step()
    """,
}


@pytest.mark.parametrize("name", IN_DICTS)
def test_networks_and_optimizers_in_dicts(name: str) -> None:
    assert_flagged(dedent(NETS) + dedent(IN_DICTS[name]), CODE)


@pytest.mark.parametrize("name", IN_DICTS)
@pytest.mark.parametrize(
    "edits",
    [
        [("(fake)", "(fake.detach())")],
        [("fake = ", "with torch.no_grad(): fake = ")],
        [('opts["d"].step()', 'opts["d"].step(); opts["g"].zero_grad()'),
         ('opts["disc"].step()', 'opts["disc"].step(); self.opts["g"].zero_grad()')],
        [('opts["d"].step()', 'opts["d"].step(); [o.zero_grad() for o in opts.values()]'),
         ('opts["disc"].step()', 'opts["disc"].step(); [o.zero_grad() for o in self.opts.values()]')],
        [('["d"]', '["b"]'), ('["disc"]', '["b"]'), ('"d":', '"b":'), ('"disc":', '"b":')],  # nobody is a judge
    ],
)  # fmt: skip
def test_look_alikes_in_dicts(name: str, edits: list[tuple[str, str]]) -> None:
    snippet = dedent(NETS) + dedent(IN_DICTS[name])
    assert_clean(twin(snippet, *[(old, new) for old, new in edits if old in snippet]), CODE)


HELD = """
        class Judge(nn.Module):
            def __init__(self, rate):
                super().__init__()
                self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
                self.optimizer = torch.optim.Adam(self.parameters(), lr=rate)

            def forward(self, x):
                return self.layers(x)

        class Painter(nn.Module):
            def __init__(self, rate):
                super().__init__()
                self.layers = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
                self.optimizer = torch.optim.Adam(self.layers.parameters(), lr=rate)

            def forward(self, z):
                return self.layers(z)

        class Game:
            def __init__(self, rate):
                self.painter, self.judge = Painter(rate), Judge(rate)
                self.criterion = nn.BCEWithLogitsLoss()

            def fit(self, loader, ones, zeros):
                for real in loader:
                    self.step(real, ones, zeros)

            def step(self, real, ones, zeros):
                fake = self.painter(torch.randn(len(real), 2))
                loss = self.criterion(self.judge(real), ones) + self.criterion(self.judge(fake.detach()), zeros)
                loss.backward()
                self.judge.optimizer.step()
                self.painter.optimizer.zero_grad()
                loss = self.criterion(self.judge(fake), ones)
                loss.backward()  # !
                self.painter.optimizer.step()
"""


def test_networks_that_hold_their_optimizers() -> None:
    assert_flagged(HELD, CODE)
    assert_flagged(HELD.replace("self.painter.optimizer.zero_grad()", "self.painter.zero_grad()"), CODE)


@pytest.mark.parametrize(
    "changes",
    [
        (("loss.backward()", "self.judge.optimizer.zero_grad(); loss.backward()"),),
        (("loss.backward()", "self.judge.zero_grad(); loss.backward()"),),
        (("self.judge.optimizer.step()", "self.judge.optimizer.step(); self.judge.requires_grad_(False)"),
         ("loss = self.criterion(self.judge(real)", "self.judge.requires_grad_(True)\n"
          "                loss = self.criterion(self.judge(real)")),
        (("self.painter.optimizer.step()", "self.painter.optimizer.step(); self.judge.optimizer.zero_grad()"),),
        (("self.step(real, ones, zeros)", "self.judge.optimizer.zero_grad(); self.step(real, ones, zeros)"),),
    ],
)  # fmt: skip
def test_look_alikes_of_networks_that_hold_their_optimizers(changes: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(HELD, *changes), CODE)


def test_a_reset_that_comes_too_early_is_shown() -> None:
    snippet = """
    def train(D, G, loader, opt_d, opt_g):
        opt_d = torch.optim.Adam(D.parameters())
        opt_g = torch.optim.Adam(G.parameters())
        for x, z in loader:
            d_loss = D(G(z).detach()).mean() - D(x).mean()
            d_loss.backward()
            opt_d.step()
            opt_d.zero_grad()
            g_loss = -D(G(z)).mean()
            g_loss.backward()
            opt_g.step()
            opt_g.zero_grad()
    """
    (found,) = findings(snippet, CODE)
    (reset,) = (note for note in found.related if note.message == "this reset comes before that")
    assert reset.line == found.span.line - 2


# An attack that a table has, beside one that does nothing.
OF_TABLE = """
    class Ascent:
        def __init__(self, eps=0.1, iters=3):
            self.eps, self.iters = eps, iters

        def __call__(self, net, x, y):
            delta = torch.zeros_like(x).requires_grad_()
            for _ in range(self.iters):
                F.cross_entropy(net(x + delta), y).backward()
                with torch.no_grad():
                    delta += 0.01 * delta.grad.sign()
                    delta.clamp_(-self.eps, self.eps)
                delta.grad = None
            return (x + delta).detach()

    class Nothing:
        def __call__(self, net, x, y):
            return x

    TABLE = {"ascent": Ascent, "nothing": Nothing}

    class Robust:
        def __init__(self, net, perturb, lr=0.1):
            self.net, self.perturb = net, perturb
            self.opt = torch.optim.SGD(net.parameters(), lr=lr)

        def batch(self, x, y):
            self.opt.zero_grad()  # !
            adversarial = self.perturb(self.net, x, y)
            loss = F.cross_entropy(self.net(adversarial), y)
            loss.backward()
            self.opt.step()

    def main(args, loader):
        robust = Robust(nn.Linear(4, 2), TABLE[args.attack]())
        for x, y in loader:
            robust.batch(x, y)
"""
CHOSEN = "TABLE[args.attack]()"
PERTURBS = "adversarial = self.perturb(self.net, x, y)"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(CHOSEN, "TABLE[args.attack](eps=args.eps)")],
        [("robust = Robust(nn.Linear(4, 2), TABLE[args.attack]())",
          "kind = TABLE[args.attack]; found = kind(0.2); robust = Robust(nn.Linear(4, 2), found)")],
        [("self.net, self.perturb = net, perturb", "self.net = net; self.perturb = TABLE[perturb]()"),
         (CHOSEN, "args.attack")],
        [("self.opt.zero_grad()", "self.net.zero_grad()")],
        [("delta.grad = None", "delta.grad.zero_()")],
        [(CHOSEN, "perturb=TABLE[args.attack]()")],
    ],
)  # fmt: skip
def test_a_reset_before_an_attack_of_a_table(edits: list[tuple[str, str]]) -> None:
    snippet = OF_TABLE
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("            self.opt.zero_grad()\n", ""), (PERTURBS, PERTURBS + "; self.opt.zero_grad()")],
        [(PERTURBS, PERTURBS + "; self.opt.zero_grad()")],
        [("return (x + delta).detach()", "net.zero_grad(); return (x + delta).detach()")],
        [("F.cross_entropy(net(x + delta), y).backward()",
          "delta.grad, = torch.autograd.grad(F.cross_entropy(net(x + delta), y), delta)")],
        [(".backward()\n                with", ".backward(inputs=[delta])\n                with")],
        [(PERTURBS, "self.net.requires_grad_(False); " + PERTURBS + "; self.net.requires_grad_(True)")],
        [("delta = torch", "net = copy.deepcopy(net); delta = torch")],
        [(PERTURBS, "adversarial = self.perturb(self.surrogate, x, y)")],
        [('"ascent": Ascent, ', "")],
        [(CHOSEN, "load(args.attack)")],
        [("loss.backward()", "grads = torch.autograd.grad(loss, self.net.parameters()); self.set(grads)")],
        [("self.opt.step()", "self.log(loss)")],
    ],
)  # fmt: skip
def test_attacks_of_a_table_that_leave_nothing(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(OF_TABLE, *edits), CODE)

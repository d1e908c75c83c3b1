from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradguard.editing import edited_text
from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, source, twin

CODE = "GG252"

GAN = """
def train(loader, epochs):
    G = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    D = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    opt_g = torch.optim.Adam(G.parameters())
    opt_d = torch.optim.Adam(D.parameters())
    for epoch in range(epochs):
        for real in loader:
            z = torch.randn(len(real), 8)
            fake = G(z)
            d_loss = D(fake).mean() - D(real).mean()  # !
            opt_d.zero_grad()
            d_loss.backward()
            opt_d.step()

            g_loss = -D(G(z)).mean()
            opt_g.zero_grad()
            g_loss.backward()
            opt_g.step()
"""
OF_OBJECT = """
class Trainer:
    def __init__(self, generator, discriminator, make_optimizer):
        self.generator, self.discriminator = generator, discriminator
        d_params = list(self.discriminator.parameters())
        self.d_opt = torch.optim.Adam([p for p in d_params if p.requires_grad])
        self.g_opt = make_optimizer("adam")(self.generator.parameters(), lr=2e-4)

    def run(self, loader):
        for real in loader:
            self.critic_turn(real)
            self.generator_turn(len(real))

    def critic_turn(self, real):
        fake = self.generator(torch.randn(len(real), 8))
        loss = F.softplus(self.discriminator(fake)).mean() + F.softplus(-self.discriminator(real)).mean()  # !
        self.d_opt.zero_grad()
        loss.backward()
        self.d_opt.step()

    def generator_turn(self, n):
        self.g_opt.zero_grad()
        loss = F.softplus(-self.discriminator(self.generator(torch.randn(n, 8)))).mean()
        loss.backward()
        self.g_opt.step()
"""
CRITIC_FIRST = """
def train(loader, net_g, net_d, n_critic):
    opt_g = torch.optim.RMSprop(net_g.parameters(), lr=5e-5)
    opt_d = torch.optim.RMSprop(net_d.parameters(), lr=5e-5)
    for real in loader:
        for _ in range(n_critic):
            net_d.zero_grad()
            fake = net_g(torch.randn(64, 8))
            loss = net_d(fake).mean() - net_d(real).mean()  # !
            loss.backward()
            opt_d.step()
            for p in net_d.parameters():
                p.data.clamp_(-0.01, 0.01)
        net_g.zero_grad()
        (-net_d(net_g(torch.randn(64, 8))).mean()).backward()
        opt_g.step()
"""
HELPERS = """
def d_step(D, opt_d, real, fake):
    opt_d.zero_grad()
    loss = D(fake).mean() - D(real).mean()
    loss.backward()
    opt_d.step()

def g_step(G, D, opt_g, z):
    opt_g.zero_grad()
    loss = -D(G(z)).mean()
    loss.backward()
    opt_g.step()

def main(loader):
    G, D = nn.Linear(8, 4), nn.Linear(4, 1)
    opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
    for real in loader:
        z = torch.randn(len(real), 8)
        d_step(D, opt_d, real, G(z))  # !
        g_step(G, D, opt_g, z)
"""
PROBE = """
def train(loader, encoder, decoder, probe):
    opt = torch.optim.Adam(list(encoder.parameters()) + list(decoder.parameters()))
    opt_probe = torch.optim.SGD(probe.parameters(), lr=0.1)
    for x, y in loader:
        opt.zero_grad()
        code = encoder(x)
        F.mse_loss(decoder(code), x).backward()
        opt.step()

        opt_probe.zero_grad()
        logits = probe(encoder(x))  # !
        F.cross_entropy(logits, y).backward()
        opt_probe.step()
"""
TWO_CRITICS = """
def train(loader, G_ab, G_ba, D_a, D_b, lr):
    opt_g = torch.optim.Adam([*G_ab.parameters(), *G_ba.parameters()], lr)
    opt_d = torch.optim.Adam([*D_a.parameters(), *D_b.parameters()], lr)
    for a, b in loader:
        fake_b, fake_a = G_ab(a), G_ba(b)
        opt_g.zero_grad()
        g_loss = F.l1_loss(G_ba(fake_b), a) - D_a(fake_a).mean() - D_b(fake_b).mean()
        g_loss.backward()
        opt_g.step()

        opt_d.zero_grad()
        d_loss = D_a(G_ba(b)).mean() - D_a(a).mean()  # !
        d_loss = d_loss + D_b(G_ab(a)).mean() - D_b(b).mean()  # !
        d_loss.backward()
        torch.nn.utils.clip_grad_norm_(D_a.parameters(), 1.0)
        opt_d.step()
"""
SCALED = """
def train(loader, G, D):
    scaler = torch.amp.GradScaler()
    opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
    for i, real in enumerate(loader):
        with torch.autocast("cuda"):
            fake = G(torch.randn(len(real), 8))
            d_loss = D(torch.cat([real, fake])).mean()  # !
        opt_d.zero_grad()
        scaler.scale(d_loss).backward()
        scaler.step(opt_d)
        if i % 5 == 0:
            opt_g.zero_grad()
            with torch.autocast("cuda"):
                g_loss = -D(G(torch.randn(len(real), 8))).mean()
            scaler.scale(g_loss).backward()
            scaler.step(opt_g)
        scaler.update()
"""
PENALTY = """
def penalty(D, real, fake):
    eps = torch.rand(len(real), 1)
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    grads = torch.autograd.grad(D(mixed).sum(), mixed, create_graph=True)[0]
    return ((grads.norm(2, 1) - 1) ** 2).mean()

def train(loader, G, D):
    opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
    for real in loader:
        fake = G(torch.randn(len(real), 8))
        loss = D(fake).mean() - D(real).mean() + 10 * penalty(D, real, fake)  # !
        opt_d.zero_grad()
        loss.backward()
        opt_d.step()
        opt_g.zero_grad()
        (-D(G(torch.randn(len(real), 8))).mean()).backward()
        opt_g.step()
"""
SWITCHED = """
def set_requires_grad(net, on):
    for p in net.parameters():
        p.requires_grad = on

def train(loader, G, D):
    opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
    for real in loader:
        set_requires_grad(D, True)
        fake = G(torch.randn(len(real), 8))
        opt_d.zero_grad()
        (D(fake) - D(real)).mean().backward()  # !
        opt_d.step()
        set_requires_grad(D, False)
        opt_g.zero_grad()
        (-D(G(torch.randn(len(real), 8))).mean()).backward()
        opt_g.step()
"""
IN_TURN = """
def train(loader, G, D, every):
    opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
    for i, real in enumerate(loader):
        fake = G(torch.randn(len(real), 8))
        if i % every == 0:
            opt_g.zero_grad()
            (-D(fake).mean()).backward()
            opt_g.step()
        else:
            opt_d.zero_grad()
            (D(fake) - D(real)).mean().backward()  # !
            opt_d.step()
"""
RESET_BEHIND = """
def train(loader, E, G, D):
    opt_e = torch.optim.Adam(E.parameters())
    opt_g = torch.optim.Adam(G.parameters())
    opt_d = torch.optim.Adam(D.parameters())
    for x in loader:
        made = G(E(x))  # !
        (F.mse_loss(made, x) - D(made).mean()).backward()
        opt_g.step()
        opt_e.zero_grad()
        D.zero_grad()
        made = G(E(x))
        (F.mse_loss(made, x) - D(made).mean()).backward()
        opt_e.step()
        opt_g.zero_grad()
        D.zero_grad()
        (D(G(x).detach()) - D(x)).mean().backward()
        opt_d.step()
"""
OF_SETTINGS = """
class Maker(nn.Module):
    def __init__(self, model_size):
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        return self.head(x)

class Judge(Maker):
    pass

def train(args, loader):
    G, D = Maker(args.model_size), Judge(args.model_size)
    opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
    for x in loader:
        opt_d.zero_grad()
        (D(G(x)) - D(x)).mean().backward()  # !
        opt_d.step()
        opt_g.zero_grad()
        (-D(G(x)).mean()).backward()
        opt_g.step()
"""
GIVEN = """
def train_fn(disc, gen, loader, opt_disc, opt_gen, mse):
    for x, y in loader:
        fake = gen(x)
        loss = mse(disc(fake), torch.zeros(1)) + mse(disc(y), torch.ones(1))  # !
        opt_disc.zero_grad()
        loss.backward()
        opt_disc.step()
        opt_gen.zero_grad()
        mse(disc(gen(x)), torch.ones(1)).backward()
        opt_gen.step()

def main(loader):
    disc, gen = nn.Linear(3, 1), nn.Linear(3, 3)
    opt_disc = torch.optim.Adam(disc.parameters(), lr=1e-3)
    opt_gen = torch.optim.Adam(gen.parameters(), lr=1e-3)
    for epoch in range(10):
        train_fn(disc, gen, loader, opt_disc, opt_gen, nn.MSELoss())
"""
INFORMED = """
def train(loader, G, D):
    opt_d, opt_g = torch.optim.Adam(D.parameters()), torch.optim.Adam(G.parameters())
    opt_info = torch.optim.Adam([*G.parameters(), *D.parameters()])
    for x, code in loader:
        opt_d.zero_grad()
        (D(G(code)) - D(x)).mean().backward()  # !
        opt_d.step()
        opt_g.zero_grad()
        judged = D(G(code))
        (-judged.mean()).backward(retain_graph=True)
        opt_g.step()
        F.mse_loss(judged, code).backward()
        opt_info.step()
"""
LAYERED = """
class Maker(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(12):
            setattr(self, f"up{i}", nn.Linear(4, 4))
        LAYERS

    def forward(self, x):
        RUNS
        return x

class Judge(Maker):
    pass

def train(loader):
    G, D = Maker(), Judge()
    opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
    for x in loader:
        D.zero_grad()
        (D(G(x)) - D(x)).mean().backward()  # !
        opt_d.step()
        G.zero_grad()
        (-D(G(x)).mean()).backward()
        opt_g.step()
""".replace("LAYERS", "; ".join(f"self.l{i} = nn.Linear(4, 4)" for i in range(20))).replace(
    "RUNS", "; ".join(f"x = self.l{i}(x)" for i in range(20))
)
AVERAGED = GAN.replace(
    "def train",
    """def adjust(opt, rate):
    for group in opt.param_groups:
        group["lr"] = rate

def follow(average, net):
    for a, p in zip(average.parameters(), net.parameters()):
        a.data.mul_(0.99).add_(p.data, alpha=0.01)

def train""",
).replace(
    "            g_loss = -D",
    """            adjust(opt_g, 1e-4)
            follow(average, G)
            save_checkpoint(epoch, G, opt_g)
            g_loss = -D""",
)
FLAGGED = {
    "optimizers that the caller makes": GIVEN,
    "a third optimizer that has both": INFORMED,
    "networks of many layers": LAYERED,
    "rates, averages and checkpoints between": AVERAGED,
    "a function": GAN,
    "methods": OF_OBJECT,
    "several steps of the critic": CRITIC_FIRST,
    "helpers": HELPERS,
    "a probe": PROBE,
    "two of each": TWO_CRITICS,
    "scaled": SCALED,
    "a penalty besides": PENALTY,
    "the other one is switched off": SWITCHED,
    "one sample for either": IN_TURN,
    "both made of one setting": OF_SETTINGS,
    "an encoder": RESET_BEHIND,
    "both are reset before each": GAN.replace("opt_d.zero_grad()", "opt_d.zero_grad(); opt_g.zero_grad()"),
    "only that of D is clipped": GAN.replace(
        "            opt_d.step()",
        "            nn.utils.clip_grad_norm_(D.parameters(), 1.0)\n            opt_d.step()",
    ),
    "G makes what is logged": GAN.replace(
        "            g_loss = -D", "            log(G(z).mean().item())\n            g_loss = -D"
    ),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


CLEAN = {
    "a variable of its own": twin(GAN, ("fake = G(z)\n", "fake = torch.autograd.Variable(G(z))\n")),
    "a variable that is a leaf": twin(
        GAN, ("fake = G(z)\n", "fake = torch.autograd.variable.Variable(G(z), requires_grad=True)\n")
    ),
    "the caller gives one optimizer of both": twin(
        GIVEN, ("Adam(disc.parameters(), lr", "Adam([*disc.parameters(), *gen.parameters()], lr")
    ),
    "the caller gives one of both, of two elements": GIVEN[: GIVEN.index("def main")].replace("  # !", "")
    + """
def main(loader):
    both = nn.ModuleList([nn.Linear(3, 1), nn.Linear(3, 3)])
    opt = torch.optim.Adam(both.parameters())
    train_fn(both[0], both[1], loader, opt, opt, nn.MSELoss())
""",
    "nobody gives it": GIVEN[: GIVEN.index("def main")].replace("  # !", ""),
    "the caller keeps the networks": twin(
        GIVEN, ("opt_gen = torch.optim.Adam(gen.parameters()", "opt_gen = torch.optim.Adam(net.gen.parameters()")
    ),
    "given, detached": twin(GIVEN, ("disc(fake)", "disc(fake.detach())")),
    "a third optimizer that uses it": twin(INFORMED, ("        opt_g.zero_grad()\n", "")),
    "a third optimizer that steps before": twin(
        INFORMED, ("        opt_g.zero_grad()\n", "        opt_info.step()\n        opt_g.zero_grad()\n")
    ),
    "many layers, detached": twin(LAYERED, ("(D(G(x)) - ", "(D(G(x).detach()) - ")),
    "many layers, one optimizer": twin(LAYERED, ("Adam(D.parameters())", "Adam([*D.parameters(), *G.parameters()])")),
    "a helper between that looks at its gradients": AVERAGED.replace(
        "a.data.mul_(0.99)", "print(p.grad); a.data.mul_(0.99)"
    ).replace("  # !", ""),
    "a helper of a helper that does": AVERAGED.replace("a.data.mul_(0.99)", "show(p); a.data.mul_(0.99)")
    .replace("def follow", "def show(p):\n    print(p.grad)\n\ndef follow")
    .replace("  # !", ""),
    "it is saved with its gradients": AVERAGED.replace("save_checkpoint", "save_grads").replace("  # !", ""),
    "detached": twin(GAN, ("D(fake).mean() - ", "D(fake.detach()).mean() - ")),
    "detached where it is made": twin(GAN, ("fake = G(z)\n", "fake = G(z).detach()\n")),
    "data": twin(GAN, ("D(fake).mean() - ", "D(fake.data).mean() - ")),
    "a variable of data": twin(GAN, ("D(fake).mean() - ", "D(torch.autograd.Variable(fake.data)).mean() - ")),
    "no_grad": twin(
        GAN, ("            fake = G(z)\n", "            with torch.no_grad():\n                fake = G(z)\n")
    ),
    "frozen": twin(
        GAN,
        ("            fake = G(z)\n", "            G.requires_grad_(False)\n            fake = G(z)\n"),
        ("            g_loss = -D", "            G.requires_grad_(True)\n            g_loss = -D"),
    ),
    "frozen in a loop": twin(
        GAN,
        ("fake = G(z)\n", "for p in G.parameters(): p.requires_grad = False\n            fake = G(z)\n"),
        ("g_loss = -D", "for p in G.parameters(): p.requires_grad = True\n            g_loss = -D"),
    ),
    "frozen by its parameters": twin(
        GAN,
        ("    for epoch", "    params = list(G.parameters())\n    for epoch"),
        ("fake = G(z)\n", "for p in params: p.requires_grad_(False)\n            fake = G(z)\n"),
        ("g_loss = -D", "for p in params: p.requires_grad_(True)\n            g_loss = -D"),
    ),
    "frozen by what is not seen": twin(GAN, ("fake = G(z)\n", "toggle_optimizer(opt_d); fake = G(z)\n")),
    "a part of one in the other": twin(GAN, ("    opt_g =", "    D.body = G.body\n    opt_g =")),
    "one made of the other": """
    class Judge(nn.Module):
        def __init__(self, body):
            super().__init__()
            self.body, self.head = body, nn.Linear(4, 1)

        def forward(self, x):
            return self.head(self.body(x))

    class Maker(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 4)

        def forward(self, x):
            return self.body(x)

    def train(loader):
        G = Maker()
        D = Judge(G.body)
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        for x in loader:
            opt_d.zero_grad()
            (D(G(x)) - D(x)).mean().backward()
            opt_d.step()
            opt_g.zero_grad()
            (-D(G(x)).mean()).backward()
            opt_g.step()
    """,
    "both made of one": """
    def train(loader, Judge, Maker):
        words = nn.Linear(4, 4)
        D, G = Judge(words), Maker(words)
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        for x in loader:
            opt_d.zero_grad()
            (D(G(x)) - D(x)).mean().backward()
            opt_d.step()
            opt_g.zero_grad()
            (-D(G(x)).mean()).backward()
            opt_g.step()
    """,
    "used: both reset at the top": twin(
        GAN,
        ("            z = torch", "            opt_g.zero_grad()\n            z = torch"),
        ("            opt_g.zero_grad()\n            g_loss.backward", "            g_loss.backward"),
    ),
    "one optimizer steps both": twin(GAN, ("Adam(D.parameters())", "Adam([*D.parameters(), *G.parameters()])")),
    "both step": twin(GAN, ("            opt_d.step()\n", "            opt_d.step()\n            opt_g.step()\n")),
    "its gradients are clipped": twin(
        GAN,
        (
            "            opt_d.step()\n",
            "            opt_d.step()\n            nn.utils.clip_grad_norm_(G.parameters(), 1.0)\n",
        ),
    ),
    "some gradients are clipped": twin(
        GAN,
        ("    for epoch", "    every = [*G.parameters(), *D.parameters()]\n    for epoch"),
        ("            opt_d.step()\n", "            nn.utils.clip_grad_norm_(every, 1.0)\n            opt_d.step()\n"),
    ),
    "its gradients are logged": twin(
        GAN, ("            opt_d.step()\n", "            opt_d.step()\n            print(G[0].weight.grad.norm())\n")
    ),
    "it is given to something": twin(
        GAN, ("            opt_d.step()\n", "            opt_d.step()\n            writer.add_gradients(G)\n")
    ),
    "an optimizer that is not known": twin(GAN, ("torch.optim.Adam(G.parameters())", "make(G)")),
    "two optimizers of one call": twin(
        GAN,
        ("    opt_g = torch.optim.Adam(G.parameters())\n", "    opt_g, opt_d = make(G.parameters(), D.parameters())\n"),
        ("    opt_d = torch.optim.Adam(D.parameters())\n", ""),
    ),
    "parameters that are not told apart": twin(
        GAN,
        ("    opt_g = torch.optim.Adam(G.parameters())\n", "    some, more = parted(G.parameters(), D.parameters())\n"),
        ("    opt_d = torch.optim.Adam(D.parameters())\n", "    opt_g, opt_d = make(some), make(more)\n"),
    ),
    "no reset of the one": twin(GAN, ("            opt_g.zero_grad()\n", "")),
    "a reset now and then": twin(
        GAN,
        ("            opt_g.zero_grad()\n", "            if len(real) > 3:\n                opt_g.zero_grad()\n"),
    ),
    "a step that resets": twin(GAN, ("            opt_g.zero_grad()\n", ""), ("opt_g.step()", "opt_g.step(closure)")),
    "one output for both": twin(
        GAN,
        ("            d_loss = D(fake).mean()", "            judged = D(fake).mean()\n            d_loss = judged"),
        ("d_loss.backward()", "d_loss.backward(retain_graph=True)"),
        ("-D(G(z)).mean()", "-judged"),
    ),
    "one sample for both": twin(
        GAN, ("d_loss.backward()", "d_loss.backward(retain_graph=True)"), ("-D(G(z))", "-D(fake)")
    ),
    "one sample for both, whose graph is gone": twin(GAN, ("-D(G(z))", "-D(fake)")),
    "a hook": twin(GAN, ("fake = G(z)\n", "fake = G(z); fake.register_hook(print)\n")),
    "an input that is trained": twin(
        GAN,
        ("            fake = G(z)\n", "            z.requires_grad_(True)\n            fake = G(z)\n"),
    ),
    "what is trained comes before": """
    def train(loader, encoder, decoder, critic):
        opt = torch.optim.Adam(decoder.parameters())
        opt_d = torch.optim.Adam([*encoder.parameters(), *critic.parameters()])
        for x in loader:
            opt_d.zero_grad()
            loss = critic(decoder(encoder(x))).mean()
            loss.backward()
            opt_d.step()
            opt.zero_grad()
            F.mse_loss(decoder(encoder(x).detach()), x).backward()
            opt.step()
    """,
    "a policy through its critic": """
    def update(batches, actor, critic):
        actor_opt, critic_opt = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
        for state, action, target in batches:
            critic_opt.zero_grad()
            F.mse_loss(critic(torch.cat([state, action], 1)), target).backward()
            critic_opt.step()
            actor_opt.zero_grad()
            (-critic(torch.cat([state, actor(state)], 1)).mean()).backward()
            actor_opt.step()
    """,
    "a pool that detaches": """
    class Pool:
        def __init__(self):
            self.kept = []

        def query(self, images):
            self.kept.append(images.detach())
            return self.kept[-1]

    def train(loader, G, D):
        pool = Pool()
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        for x in loader:
            fake = G(x)
            opt_g.zero_grad()
            (-D(fake).mean()).backward()
            opt_g.step()
            opt_d.zero_grad()
            (D(pool.query(fake)) - D(x)).mean().backward()
            opt_d.step()
    """,
    "a penalty of the sample alone": """
    def train(loader, G, D):
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        for x in loader:
            mixed = 0.5 * x + 0.5 * G(x)
            opt_d.zero_grad()
            grads = torch.autograd.grad(D(mixed).sum(), mixed, create_graph=True)[0]
            ((grads.norm(2, 1) - 1) ** 2).mean().backward()
            opt_d.step()
            opt_g.zero_grad()
            (-D(G(x)).mean()).backward()
            opt_g.step()
    """,
    "gradients of several batches": """
    def train(loader, G, D, every):
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        for i, x in enumerate(loader):
            opt_d.zero_grad()
            (D(G(x)) - D(x)).mean().backward()
            opt_d.step()
            (-D(G(x)).mean()).backward()
            if i % every == 0:
                opt_g.step()
                opt_g.zero_grad()
    """,
    "a helper freezes it": twin(
        SWITCHED,
        ("        fake = G", "        set_requires_grad(G, False)\n        fake = G"),
        ("        opt_g.zero_grad()", "        set_requires_grad(G, True)\n        opt_g.zero_grad()"),
    ),
    "a helper freezes some": twin(
        SWITCHED, ("        fake = G", "        [set_requires_grad(net, False) for net in others]\n        fake = G")
    ),
    "a method freezes it": """
    class Trainer:
        def __init__(self, G, D):
            self.G, self.D = G, D
            self.opt_g, self.opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())

        def begin(self):
            for p in self.G.parameters():
                p.requires_grad = False

        def go_on(self):
            for p in self.G.parameters():
                p.requires_grad = True

        def step(self, x):
            self.begin()
            self.opt_d.zero_grad()
            (self.D(self.G(x)) - self.D(x)).mean().backward()
            self.opt_d.step()
            self.go_on()
            self.opt_g.zero_grad()
            (-self.D(self.G(x)).mean()).backward()
            self.opt_g.step()
    """,
    "one forward for both": """
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.G, self.D = nn.Linear(8, 4), nn.Linear(4, 1)

        def forward(self, z):
            return self.D(self.G(z))

    def train(loader):
        net = Both()
        opt_g, opt_d = torch.optim.Adam(net.G.parameters()), torch.optim.Adam(net.D.parameters())
        for z in loader:
            opt_d.zero_grad()
            net(z).mean().backward()
            opt_d.step()
            opt_g.zero_grad()
            (-net(z).mean()).backward()
            opt_g.step()
    """,
    "a loss through the one that judges": """
    def reset(E, G, D):
        E.zero_grad()
        G.zero_grad()
        D.zero_grad()

    def train_all(loader, E, G, D):
        opt_e = torch.optim.Adam(E.parameters())
        opt_g = torch.optim.Adam(G.parameters())
        opt_d = torch.optim.Adam(D.parameters())
        for x in loader:
            (D(G(x).detach()) - D(x)).mean().backward()
            opt_d.step()
            reset(E, G, D)
            (-D(G(x)).mean()).backward()
            opt_g.step()
            reset(E, G, D)
            made = G(E(x))
            (F.mse_loss(made, x) - D(made).mean()).backward()
            opt_e.step()
            reset(E, G, D)
    """,
    "one judgement for either": """
    def train(loader, G, D, every):
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        for i, real in enumerate(loader):
            judged = D(G(torch.randn(len(real), 8))).mean()
            if i % every == 0:
                opt_g.zero_grad()
                (-judged).backward()
                opt_g.step()
            else:
                opt_d.zero_grad()
                (judged - D(real).mean()).backward()
                opt_d.step()
    """,
    "the step of the last turn comes first": """
    def train(loader, G, D):
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        for x in loader:
            opt_g.zero_grad()
            (-D(G(x)).mean()).backward()
            opt_d.zero_grad()
            (D(G(x)) - D(x)).mean().backward()
            opt_d.step()
            opt_g.step()
    """,
}


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE, Confidence.LOW)


def test_the_edit_is_safe_where_it_is_a_tensor_for_sure() -> None:
    (found,) = findings(GAN, CODE)
    assert found.fix is not None
    assert found.fix.safe
    assert [edit.text for edit in found.fix.edits] == ["fake.detach()"]
    assert [each.message for each in found.related] == [
        "this has its graph, and keeps its activations",
        "this computes the gradients",
        "this throws them away before the next step",
    ]


def test_the_edit_changes_no_weight() -> None:
    torch = pytest.importorskip("torch")
    snippet = GAN + "    return [*G.parameters(), *D.parameters()]\n"
    (found,) = findings(snippet, CODE)
    assert found.fix is not None
    trained = []
    for text in (source(snippet), edited_text(source(snippet), found.fix.edits)):
        torch.manual_seed(0)
        program: dict[str, Any] = {}
        exec(text, program)
        trained.append(program["train"]([torch.randn(16, 4) for _ in range(4)], 3))
    assert all(torch.equal(before, after) for before, after in zip(*trained))


@pytest.mark.parametrize("snippet", [HELPERS, SWITCHED])
def test_the_finding_says_what_is_given_and_what_is_thrown_away(snippet: str) -> None:
    (found,) = findings(snippet, CODE)
    assert found.message.startswith("`D` is given what `G` makes with its graph")


def test_a_helper_may_use_what_it_is_given_otherwise() -> None:
    (found,) = findings(HELPERS, CODE)
    assert found.fix is None


def test_no_edit_where_what_is_trained_gives_a_part_of_it() -> None:
    snippet = """
    def train(loader, G, E, D):
        opt_g = torch.optim.Adam(G.parameters())
        opt_d = torch.optim.Adam([*D.parameters(), *E.parameters()])
        for x, z in loader:
            opt_d.zero_grad()
            D(torch.cat([E(x), G(z)], 1)).mean().backward()  # !
            opt_d.step()
            opt_g.zero_grad()
            (-D(torch.cat([E(x).detach(), G(z)], 1)).mean()).backward()
            opt_g.step()
    """
    assert_flagged(snippet, CODE)
    (found,) = findings(snippet, CODE)
    assert found.fix is None


def test_a_helper_of_another_file_may_freeze_it(tmp_path: Path) -> None:
    train = "import torch\nfrom tools import begin\n" + twin(
        GAN, ("            fake = G(z)\n", "            begin(G)\n            fake = G(z)\n")
    )
    tools = "def begin(net):\n    for p in net.parameters():\n        p.requires_grad_(False)\n"
    assert lines_in_files(tmp_path, {"train.py": "import torch.nn as nn\n" + train, "tools.py": tools}, CODE) == []

from __future__ import annotations

from textwrap import indent

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG202"

FLAGGED = {
    "two optimizers, both reset before they step": """
        def train(enc, dec, loader, enc_opt, dec_opt):
            for x, y in loader:
                loss = F.mse_loss(dec(enc(x)), y)
                loss.backward()
                enc_opt.zero_grad()  # !
                dec_opt.zero_grad()  # !
                enc_opt.step()
                dec_opt.step()
    """,
    "two optimizers in a helper": """
        def update(enc_opt, dec_opt):
            enc_opt.zero_grad()  # !
            dec_opt.zero_grad()  # !
            enc_opt.step()
            dec_opt.step()

        def train(enc, dec, loader, enc_opt, dec_opt):
            for x, y in loader:
                F.mse_loss(dec(enc(x)), y).backward()
                update(enc_opt, dec_opt)
    """,
    "the first of them": """
        def train(enc, dec, loader, enc_opt, dec_opt):
            for x, y in loader:
                dec_opt.zero_grad()
                F.mse_loss(dec(enc(x)), y).backward()
                enc_opt.zero_grad()  # !
                dec_opt.step()
                enc_opt.step()
    """,
    "a step before the backward": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()  # !
                optimizer.step()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
    """,
    "a step before the backward, of a class": """
        class Learner:
            def run(self, epochs):
                for epoch in range(epochs):
                    for batch in self.loader:
                        error = self.criterion(self.net(batch.x), batch.y)
                        self.opt.zero_grad()  # !
                        self.opt.step()
                        error.backward()
                        self.log(error.item())
    """,
    "a step behind the loop": """
        def train(model, loader, optimizer):
            for epoch in range(10):
                for x, y in loader:
                    optimizer.zero_grad()  # !
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                optimizer.step()
    """,
    "a step behind a loop whose helper resets": """
        class Accumulates:
            def micro_step(self):
                x, y = next(self.batches)
                self.optimizer.zero_grad()  # !
                loss = self.criterion(self.model(x), y) / self.parts
                loss.backward()
                return loss.item()

            def update(self):
                total = sum(self.micro_step() for _ in range(self.parts))
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                return total
    """,
    "a step behind a loop whose function resets": """
        def part(model, batch, optimizer):
            optimizer.zero_grad()  # !
            model(batch).mean().backward()

        def train(model, loader, optimizer):
            for batches in loader:
                for batch in batches:
                    part(model, batch, optimizer)
                optimizer.step()
    """,
    "a step behind the loop, and a reset at its end": """
        class Agent:
            def learn(self, tasks):
                for task in tasks:
                    self.net(task).square().mean().backward()
                    self.optim.zero_grad()  # !
                self.optim.step()
    """,
    "the whole model, beside the optimizer's own": """
        class Client:
            def fit(self, loader):
                for x, y in loader:
                    loss = F.cross_entropy(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.model.zero_grad()  # !
                    self.optimizer.step()
    """,
    "between": """
        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.zero_grad()  # !
                optimizer.step()
    """,
    "where what was accumulated is used": """
        def train(model, loader, optimizer, every):
            for i, (x, y) in enumerate(loader):
                (F.cross_entropy(model(x), y) / every).backward()
                if (i + 1) % every == 0:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.zero_grad()  # !
                    optimizer.step()
    """,
    "in a method of its own": """
        class Trainer:
            def update(self):
                norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.zero_grad()  # !
                self.optimizer.step()
                self.schedule.step()
                return float(norm)

            def fit(self, loader):
                for i, (x, y) in enumerate(loader):
                    F.cross_entropy(self.model(x), y).backward()
                    if (i + 1) % 4 == 0:
                        self.update()
    """,
    "in two methods": """
        class Trainer:
            def reset(self):
                self.optimizer.zero_grad()

            def update(self):
                self.optimizer.step()

            def fit(self, loader):
                for x, y in loader:
                    F.cross_entropy(self.model(x), y).backward()
                    self.reset()  # !
                    self.update()
    """,
    "of the model": """
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            model.zero_grad()  # !
            optimizer.step()
    """,
    "with a scaler": """
        def train(model, loader, optimizer, scaler):
            for x, y in loader:
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                optimizer.zero_grad()  # !
                scaler.step(optimizer)
    """,
    "zeros divided": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                optimizer.zero_grad(set_to_none=False)  # !
                for p in model.parameters():
                    p.grad /= len(x)
                optimizer.step()
    """,
    "set by hand before it is wiped": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                for p in model.parameters():
                    p.grad.copy_(p.grad.clamp(-1, 1))
                optimizer.zero_grad()  # !
                optimizer.step()
    """,
    "in a method": """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.optim = torch.optim.Adam(net.parameters())

            def update(self, x, y):
                loss = F.mse_loss(self.net(x), y)
                loss.backward()
                self.optim.zero_grad()  # !
                self.optim.step()
    """,
}

CLEAN = {
    "two optimizers, each reset after it has stepped": """
        def train(enc, dec, loader, enc_opt, dec_opt):
            for x, y in loader:
                F.mse_loss(dec(enc(x)), y).backward()
                enc_opt.step()
                enc_opt.zero_grad()
                dec_opt.step()
                dec_opt.zero_grad()
    """,
    "two optimizers, with a backward for each": """
        def train(gen, critic, loader, gen_opt, critic_opt):
            for x in loader:
                gen_opt.zero_grad()
                critic_opt.zero_grad()
                (critic(gen(x).detach()).mean() - critic(x).mean()).backward()
                gen_opt.zero_grad()
                critic_opt.step()
                critic_opt.zero_grad()
                (-critic(gen(x)).mean()).backward()
                gen_opt.step()
    """,
    "one of them reset in a branch": """
        def train(enc, dec, loader, enc_opt, dec_opt, freeze):
            for x, y in loader:
                F.mse_loss(dec(enc(x)), y).backward()
                if freeze:
                    enc_opt.zero_grad()
                dec_opt.step()
                enc_opt.step()
                enc_opt.zero_grad(), dec_opt.zero_grad()
    """,
    "a step before the backward, and no reset in between": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.step()
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
    """,
    "a step behind a loop whose helper does not reset": """
        class Accumulates:
            def micro_step(self):
                loss = self.criterion(self.model(next(self.batches)))
                loss.backward()
                return loss.item()

            def update(self):
                self.optimizer.zero_grad()
                total = sum(self.micro_step() for _ in range(self.parts))
                self.optimizer.step()
                return total
    """,
    "a helper that resets at the first part only": """
        class Accumulates:
            def micro_step(self, i):
                if i == 0:
                    self.optimizer.zero_grad()
                loss = self.criterion(self.model(next(self.batches)))
                loss.backward()

            def update(self):
                for i in range(self.parts):
                    self.micro_step(i)
                self.optimizer.step()
    """,
    "a helper that resets and steps": """
        class Trains:
            def one(self, x):
                self.optimizer.zero_grad()
                self.criterion(self.model(x)).backward()
                self.optimizer.step()

            def all(self, batches):
                for x in batches:
                    self.one(x)
                self.scheduler.step()
    """,
    "a helper that resets another model": """
        class Two:
            def critic_step(self, x):
                self.opt_d.zero_grad()
                self.d(x).mean().backward()
                self.opt_d.step()

            def both(self, x):
                self.opt_g.zero_grad()
                for _ in range(5):
                    self.critic_step(x)
                self.d(self.g(x)).mean().backward()
                self.opt_g.step()
    """,
    "a step behind a loop that accumulates": """
        def train(model, chunks, optimizer):
            for epoch in range(10):
                optimizer.zero_grad()
                for x, y in chunks:
                    F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a last step of what is left": """
        def train(model, loader, optimizer):
            for i, (x, y) in enumerate(loader):
                F.cross_entropy(model(x), y).backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            optimizer.step()
    """,
    "a loop that looks for a batch": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                if loss.isfinite():
                    break
            optimizer.step()
    """,
    "an attack in a loop, and a step on what it found": """
        def train(model, x, y, optimizer):
            for _ in range(10):
                model.zero_grad()
                F.cross_entropy(model(x), y).backward()
                x = (x + 0.01 * x.grad.sign()).detach().requires_grad_()
            optimizer.step()
    """,
    "a generator behind its critic": """
        def train(gen, critic, loader, opt_g, opt_c):
            for x in loader:
                for _ in range(5):
                    opt_c.zero_grad()
                    critic(gen(x)).mean().backward()
                    opt_c.step()
                opt_g.zero_grad()
                critic(gen(x)).neg().mean().backward()
                opt_g.step()
    """,
    "a schedule that steps first": """
        def train(model, loader, optimizer, schedule):
            for x, y in loader:
                optimizer.zero_grad()
                schedule.step()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a first step in vain, by a condition": """
        def train(model, loader, optimizer):
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                if i > 0:
                    optimizer.step()
                F.cross_entropy(model(x), y).backward()
    """,
    "gradients set by hand between the reset and the step": """
        def train(model, loader, optimizer, kept):
            for x, y in loader:
                optimizer.zero_grad()
                for p, g in zip(model.parameters(), kept):
                    p.grad = g
                optimizer.step()
                F.cross_entropy(model(x), y).backward()
    """,
    "a loop that a function of one batch runs once": """
        def train(model, batch, optimizer):
            for x, y in [batch]:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
            optimizer.step()
    """,
    "in one branch, and the step in another": """
        def train(model, loader, optimizer, every):
            for i, (x, y) in enumerate(loader):
                if i % every == 0:
                    optimizer.zero_grad()
                (F.cross_entropy(model(x), y) / every).backward()
                if (i + 1) % every == 0:
                    optimizer.step()
    """,
    "in a branch that leaves no step": """
        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                if not torch.isfinite(loss):
                    optimizer.zero_grad()
                else:
                    optimizer.step()
                    optimizer.zero_grad()
    """,
    "after the step, in a method of its own": """
        class Trainer:
            def update(self):
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad()

            def fit(self, loader):
                for i, (x, y) in enumerate(loader):
                    F.cross_entropy(self.model(x), y).backward()
                    if (i + 1) % 4 == 0:
                        self.update()
    """,
    "a method that steps without a backward before it": """
        class Trainer:
            def begin(self):
                self.optimizer.zero_grad()
                self.optimizer.step()

            def fit(self, loader):
                self.begin()
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.optimizer.step()
    """,
    "where the method resets in some cases": """
        class Trainer:
            def reset(self, anew):
                if anew:
                    self.optimizer.zero_grad()

            def fit(self, loader):
                for i, (x, y) in enumerate(loader):
                    F.cross_entropy(self.model(x), y).backward()
                    self.reset(i == 0)
                    self.optimizer.step()
    """,
    "of the other one, in a method": """
        class Trainer:
            def turn(self):
                self.critic_optimizer.zero_grad()
                self.optimizer.step()

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.turn()
    """,
    "one part is spared": """
        class Client:
            def fit(self, loader):
                for x, y in loader:
                    features = self.model.features_of(x)
                    loss = F.cross_entropy(self.model.classifier(features), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.model.classifier.zero_grad()
                    self.optimizer.step()
    """,
    "before backward": """
        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "guard against NaN": """
        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                if torch.isnan(loss):
                    optimizer.zero_grad()
                    continue
                optimizer.step()
                optimizer.zero_grad()
    """,
    "the other optimizer": """
        def train(G, D, loader, opt_g, opt_d):
            for real in loader:
                opt_d.zero_grad()
                D(real).mean().backward()
                opt_g.zero_grad()
                opt_d.step()
                G(D(real)).mean().backward()
                opt_g.step()
    """,
    "one branch only": """
        def train(model, loader, optimizer, skip):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                if skip(x):
                    optimizer.zero_grad()
                optimizer.step()
                optimizer.zero_grad()
    """,
    "set by what cannot be read": """
        from gem import overwrite_grad

        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                kept = [p.grad.clone() for p in model.parameters()]
                optimizer.zero_grad()
                overwrite_grad(model, kept)
                optimizer.step()
    """,
    "all at once": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                kept = [p.grad.clone() for p in model.parameters()]
                optimizer.zero_grad(set_to_none=False)
                torch._foreach_copy_([p.grad for p in model.parameters()], kept)
                optimizer.step()
    """,
    "another backward follows": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                sensitivity = [p.grad.norm().item() for p in model.parameters()]
                optimizer.zero_grad()
                F.cross_entropy(model(x + 1), y).backward()
                optimizer.step()
    """,
    "sharpness-aware": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                optimizer.first_step(zero_grad=True)
                F.cross_entropy(model(x), y).backward()
                optimizer.second_step(zero_grad=True)
    """,
    "before the loop": """
        def train(model, loader, optimizer):
            optimizer.zero_grad()
            for i, (x, y) in enumerate(loader):
                F.cross_entropy(model(x), y).backward()
                if i % 2:
                    optimizer.step()
                    optimizer.zero_grad()
    """,
    "all of it, every few episodes": """
        def explore(agent, module, optimizer, buffer, episodes):
            for i in range(episodes):
                agent.play(buffer)
                if (i + 1) % 100 == 0:
                    for _ in range(10):
                        optimizer.zero_grad()
                        loss = module.get_loss(buffer.sample(32))
                        loss.backward()
                        optimizer.step()
    """,
    "a generator that steps less often": """
        def train(generator, critic, loader, g_optimizer, d_optimizer):
            for i, real in enumerate(loader):
                d_optimizer.zero_grad()
                g_optimizer.zero_grad()
                with torch.no_grad():
                    fake = generator(real)
                (critic(fake) - critic(real)).mean().backward()
                d_optimizer.step()
                if i % 5 == 0:
                    (-critic(generator(real)).mean()).backward()
                    g_optimizer.step()
    """,
}


# What may stand between the reset and the step, in a loop over the parameters `p` and the gradients `g` kept of them.
SET_BY_HAND = {
    "assigned": "p.grad = g",
    "its data": "p.grad.data = g",
    "copied": "p.grad.copy_(g)",
    "its data copied": "p.grad.data.copy_(g)",
    "added": "p.grad += g",
    "added in place": "p.grad.add_(g)",
    "a slice": "p.grad[:] = g",
    "through setattr": 'setattr(p, "grad", g)',
    "some of them": "p.grad = g if p.requires_grad else None",
}


@pytest.mark.parametrize("name", SET_BY_HAND)
@pytest.mark.parametrize("where", ["here", "in a function", "in one that steps"])
def test_gradients_set_by_hand(name: str, where: str) -> None:
    """A-GEM, PCGrad: the gradients are read, changed, and put back after the reset."""
    put = f"for p, g in zip(model.parameters(), kept):\n    {SET_BY_HAND[name]}\n"
    body = {"here": put, "in a function": "put(model, kept)\n", "in one that steps": "finish(model, kept, optimizer)\n"}
    step = "" if where == "in one that steps" else "optimizer.step()\n"
    reset = "" if where == "in one that steps" else "optimizer.zero_grad()\n"
    code = (
        f"def put(model, kept):\n{indent(put, '    ')}\n"
        f"def finish(model, kept, optimizer):\n    optimizer.zero_grad()\n{indent(put, '    ')}    optimizer.step()\n\n"
        "def train(model, loader, optimizer):\n"
        "    for x, y in loader:\n"
        "        F.cross_entropy(model(x), y).backward()\n"
        "        kept = [project(p.grad.clone()) for p in model.parameters()]\n"
        + indent(reset + body[where] + step, " " * 8)
    )
    assert_clean(code, CODE)


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


BY_A_SETTING = """
    import argparse

    EVERY = 4

    class Trainer:
        def __init__(self, every=4):
            self.every = every

        def train(self, model, loader, opt, every=4):
            args = argparse.ArgumentParser()
            args.add_argument("--accumulate", type=int, default=4)
            args = args.parse_args()
            count = {count}
            for i, (x, y) in enumerate(loader):
                opt.zero_grad()  # !
                loss = F.cross_entropy(model(x), y) / count
                loss.backward()
                if (i + 1) % count == 0 or i + 1 == len(loader):
                    opt.step()
"""
SETTINGS = ["4", "every", "self.every", "args.accumulate", "EVERY"]


@pytest.mark.parametrize("count", SETTINGS)
def test_a_setting_that_is_more_than_one_by_default(count: str) -> None:
    assert_flagged(BY_A_SETTING.format(count=count), CODE)


@pytest.mark.parametrize("count", SETTINGS)
def test_a_setting_that_is_one_by_default_waits(count: str) -> None:
    snippet = BY_A_SETTING.format(count=count).replace("=4", "=1").replace("= 4", "= 1")
    assert_clean(snippet.replace("  # !", ""), CODE)


@pytest.mark.parametrize("count", ["len(loader)", "x.every", "every or 1", "self.of(every)", "args.unknown"])
def test_a_setting_that_is_not_known_waits(count: str) -> None:
    assert_clean(BY_A_SETTING.format(count=count).replace("  # !", ""), CODE)
    assert_flagged(BY_A_SETTING.format(count=count), CODE, Confidence.LOW)


IN_WORDS = """
    EVERY = 4

    def train(model, loader, opt):
        for i, (x, y) in enumerate(loader):
            {told}
            opt.zero_grad()  # !
            loss = F.cross_entropy(model(x), y) / EVERY
            loss.backward()
            if {ends}:
                opt.step()
"""
ENDS = {
    "a name": ("ends = (i + 1) % EVERY == 0", "ends"),
    "a name, or the last one": ("ends = ((i + 1) % EVERY == 0) or i + 1 == len(loader)", "ends"),
    "where a group of batches ends": ("start = i - i % EVERY", "i + 1 == start + EVERY"),
}


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_a_condition_by_its_name(ends: tuple[str, str]) -> None:
    snippet = IN_WORDS.format(told=ends[0], ends=ends[1])
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("EVERY = 4", "EVERY = 1")), CODE)


@pytest.mark.parametrize(
    "ends",
    [
        ("ok = torch.isfinite(x).all()", "ok"),
        ("row = i % EVERY", "row"),  # every batch but the first of a few: none is to be skipped
        ("ends = i == len(loader) - 1", "ends"),
        ("start = i - i % EVERY", "x.mean() > start"),
    ],
)
def test_a_name_of_something_else(ends: tuple[str, str]) -> None:
    assert_clean(IN_WORDS.format(told=ends[0], ends=ends[1]).replace("  # !", ""), CODE)


TWO = """
    def train(loader, a_model, b_model, optimizer, g, g_optimizer):
        for a, b in loader:
            {before}
            loss_a = F.mse_loss(a_model(b), torch.ones(4, 1))
            loss_a.backward()
            {between}
            loss_b = F.mse_loss({second}, torch.ones(4, 1))
            loss_b.backward()
            optimizer.step()
            {after}
"""
AS_USUAL = {
    "before": "optimizer.zero_grad()",
    "between": "optimizer.zero_grad(set_to_none=True)",
    "second": "b_model(a)",
    "after": "pass",
}


def test_a_second_reset_throws_away_what_the_other_module_has() -> None:
    assert_flagged(TWO.format(**(AS_USUAL | {"between": AS_USUAL["between"] + "  # !"})), CODE)


def test_one_optimizer_that_is_made_there() -> None:
    made = "optimizer = torch.optim.Adam(itertools.chain(a_model.parameters(), b_model.parameters()))"
    text = TWO.format(**(AS_USUAL | {"before": "pass", "between": "optimizer.zero_grad()  # !"}))
    text = text.replace("for a, b in", f"{made}\n        for a, b in", 1)
    assert_flagged("    import itertools\n" + text, CODE)


@pytest.mark.parametrize(
    "lines",
    [
        {"between": "pass"},
        {"between": "g_optimizer.zero_grad()"},
        {"between": "optimizer.step(); optimizer.zero_grad()"},
        {"between": "kept = [p.grad.clone() for p in a_model.parameters()]; optimizer.zero_grad()"},
        {"second": "b_model(a_model(a))"},
        {"second": "a_model(a)"},
        {"before": "pass"},
        {"before": "g_optimizer.zero_grad()"},
        {"between": "if a is None: optimizer.zero_grad()"},
    ],
)
def test_two_backwards_for_one_step(lines: dict[str, str]) -> None:
    assert_clean(TWO.format(**(AS_USUAL | lines)), CODE)


def test_what_a_generator_leaves_is_thrown_away_on_purpose() -> None:
    assert_clean(
        """
    def train(loader, G, D, noise):
        opt_g = torch.optim.Adam(G.parameters())
        opt_d = torch.optim.Adam(D.parameters())
        for x in loader:
            opt_g.zero_grad()
            F.softplus(-D(G(noise))).mean().backward()
            opt_g.step()
            opt_d.zero_grad()
            (F.softplus(-D(x)).mean() + F.softplus(D(G(noise).detach())).mean()).backward()
            opt_d.step()
    """,
        CODE,
    )


@pytest.mark.parametrize("reset", ["model.zero_grad()", "model.zero_grad(set_to_none=True)"])
def test_a_model_that_is_reset_while_accumulating(reset: str) -> None:
    assert_flagged(
        f"""
    def train(model, optimizer, loader):
        for i, (x, y) in enumerate(loader):
            {reset}  # !
            (F.cross_entropy(model(x), y) / 4).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
    """,
        CODE,
    )


@pytest.mark.parametrize("reset", ["model.head.zero_grad()", "other.zero_grad()", "if i % 4 == 0: model.zero_grad()"])
def test_another_module_that_is_reset_while_accumulating(reset: str) -> None:
    assert_clean(
        f"""
    def train(model, other, optimizer, loader):
        for i, (x, y) in enumerate(loader):
            {reset}
            (F.cross_entropy(model(x), y) / 4).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
    """,
        CODE,
    )


SUMMED = """
    def train(model, optimizer, loader):
        total = 0
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad(){mark}
            {each}
            if (i + 1) % 4 == 0:
                {last}
                optimizer.step()
                total = 0
"""


def test_a_sum_of_losses_has_its_backward_with_the_step() -> None:
    each = "total = total + F.cross_entropy(model(x), y)"
    assert_clean(SUMMED.format(each=each, last="total.backward()", mark=""), CODE)
    each = "F.cross_entropy(model(x), y).backward()"
    assert_flagged(SUMMED.format(each=each, last="pass", mark="  # !"), CODE)


def test_a_count_of_a_class_of_settings() -> None:
    snippet = """
    class CFG:
        every = {every}

    def train(model, optimizer, loader):
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad(){mark}
            (F.cross_entropy(model(x), y) / CFG.every).backward()
            if (i + 1) % CFG.every == 0:
                optimizer.step()
    """
    assert_flagged(snippet.format(every=4, mark="  # !"), CODE)
    assert_clean(snippet.format(every=1, mark=""), CODE)


UPDATING = """
    from contextlib import contextmanager

    class Trainer:
        def __init__(self, model):
            self.model = model
            self.opt = torch.optim.Adam(model.parameters())

        @contextmanager
        def updating(self, optimizer):
            {manager}

        def train(self, loader):
            for x, y in loader:
                {before}
                with self.updating(self.opt):
                    {block}
"""
COMPUTES = "F.cross_entropy(self.model(x), y).backward()"


def updating(*manager: str, before: str = "pass", block: str = COMPUTES) -> str:
    return UPDATING.format(manager="\n            ".join(manager), before=before, block=block)


@pytest.mark.parametrize(
    "snippet",
    [
        updating("yield", "optimizer.zero_grad()  # !", "optimizer.step()"),
        updating("try:", "    yield", "finally:", "    optimizer.zero_grad()  # !", "    optimizer.step()"),
        updating("optimizer.zero_grad()  # !", "yield", "optimizer.step()", before=COMPUTES, block="pass"),
    ],
)
def test_a_context_that_throws_the_gradients_away(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        updating("optimizer.zero_grad()", "yield", "optimizer.step()"),
        updating("yield", "optimizer.step()", "optimizer.zero_grad()"),
        updating("optimizer.zero_grad()", "yield", "optimizer.step()", block=f"{COMPUTES}; return self.model"),
        updating("optimizer.zero_grad()", "try:", "    yield", "finally:", "    optimizer.step()"),
        updating("optimizer.zero_grad()", "if self.model.training:", "    yield", "optimizer.step()"),
        updating("optimizer.zero_grad()", "with torch.enable_grad():", "    yield optimizer", "optimizer.step()"),
        updating("optimizer.zero_grad()", "losses = []", "yield losses", "sum(losses).backward()", "optimizer.step()"),
        updating("optimizer.zero_grad()", "yield", before="pass", block=f"{COMPUTES}; self.opt.step()"),
    ],
)
def test_a_context_that_resets_first_and_steps_in_the_end(snippet: str) -> None:
    assert_clean(snippet, CODE)


IN_A_CLOSURE = """
    def make_trainer(model, optimizer, criterion, every=1):
        def update(engine, batch):
            x, y = batch
            optimizer.zero_grad()  # !
            loss = criterion(model(x), y) / every
            loss.backward()
            if engine.iteration % every == 0:
                optimizer.step()
            return loss.item()

        return Engine(update)

    def main(model, data):
        parts = 4
        optimizer = torch.optim.Adam(model.parameters())
        make_trainer(model, optimizer, nn.MSELoss(), parts).run(data)
"""
IN_A_METHOD = """
    class Module:
        def __init__(self, net, accumulate):
            self.net = net
            self.accumulate = accumulate
            self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

        def training_step(self, batch, index):
            self.opt.zero_grad()  # !
            loss = self.net(batch).mean() / self.accumulate
            loss.backward()
            if (index + 1) % self.accumulate == 0:
                self.opt.step()

    def main(net, loader):
        module = Module(net, accumulate=8)
        for index, batch in enumerate(loader):
            module.training_step(batch, index)
"""
BY_A_DICT = """
    CFG = dict(lr=0.1, accumulate=4)

    class Runner:
        def one(self, batch):
            self.seen += 1
            self.model.zero_grad(set_to_none=True)  # !
            (self.model(batch).mean() / CFG["accumulate"]).backward()
            if self.seen % CFG["accumulate"] == 0:
                self.optimizer.step()
"""
COUNTED = """
    class Worker:
        def feed(self, x, y):
            self.optimizer.zero_grad()  # !
            loss = F.mse_loss(self.net(x), y)
            loss.backward()
            self.pending += 1
            if self.pending == 4:
                self.optimizer.step()
                self.pending = 0
"""


@pytest.mark.parametrize("snippet", [IN_A_CLOSURE, IN_A_METHOD, BY_A_DICT, COUNTED])
def test_a_function_that_is_called_for_each_batch(snippet: str) -> None:
    assert_flagged(snippet, CODE)


SEEN = "            self.optimizer.zero_grad()\n"


@pytest.mark.parametrize(
    "snippet",
    [
        twin(IN_A_CLOSURE, ("parts = 4", "parts = 1")),
        twin(IN_A_CLOSURE, ("nn.MSELoss(), parts", "nn.MSELoss()")),
        twin(
            IN_A_CLOSURE,
            ("            optimizer.zero_grad()\n", ""),
            ("optimizer.step()", "optimizer.step(); optimizer.zero_grad()"),
        ),
        twin(IN_A_CLOSURE, ("loss.backward()\n", "pass\n"), ("optimizer.step()", "loss.backward(); optimizer.step()")),
        twin(
            IN_A_CLOSURE,
            (
                "            optimizer.zero_grad()",
                "            if engine.iteration % every == 1: optimizer.zero_grad()",
            ),
        ),
        twin(IN_A_METHOD, ("accumulate=8", "accumulate=1")),
        twin(IN_A_METHOD, ("self.opt.zero_grad()", "self.other.zero_grad()")),
        twin(BY_A_DICT, ("accumulate=4", "accumulate=1")),
        twin(BY_A_DICT, ("self.model.zero_grad(set_to_none=True)", "self.encoder.zero_grad()")),
        twin(COUNTED, (SEEN, "")),
        twin(COUNTED, ("self.pending == 4", "self.pending == 1")),
        twin(COUNTED, ("loss.backward()", "loss.backward(); self.g_optimizer.step()")),
        """
    class PerStep:
        def feed(self, x, y):
            self.optimizer.zero_grad()
            F.mse_loss(self.net(x), y).backward()
            for kept, p in zip(self.sums, self.net.parameters()):
                kept.add_(p.grad)
            self.pending += 1
            if self.pending == 4:
                for kept, p in zip(self.sums, self.net.parameters()):
                    p.grad = kept.clone()
                self.optimizer.step()
                self.pending = 0
    """,
        """
    class Gan:
        def step(self, real, noise):
            self.iteration += 1
            self.opt_d.zero_grad()
            self.opt_g.zero_grad()
            fake = self.g(noise)
            (self.d(fake.detach()).mean() - self.d(real).mean()).backward()
            self.opt_d.step()
            if self.iteration % 5 == 0:
                (-self.d(fake).mean()).backward()
                self.opt_g.step()
    """,
        """
    def epoch(model, batches, optimizer, number):
        optimizer.zero_grad()
        for x, y in batches:
            F.mse_loss(model(x), y).backward()
        if number % 2 == 0:
            optimizer.step()
    """,
        """
    class Agent:
        def act(self, state):
            self.t += 1
            if self.t % 4 == 0:
                self.optimizer.zero_grad()
                self.net(state).mean().backward()
                self.optimizer.step()
    """,
    ],
)
def test_a_function_that_resets_in_its_turn(snippet: str) -> None:
    assert_clean(snippet, CODE)

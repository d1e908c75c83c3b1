"""Graphs of which a few are kept, by the keys or by the number of times: they wait at low confidence."""

from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, twin

VAULT = """
    from dataclasses import dataclass, field
    from functools import partial

    @dataclass
    class Update:
        client: int
        round: int
        loss: torch.Tensor

    @dataclass
    class Vault:
        latest: dict = field(default_factory=dict)

        def put(self, update):
            STORE

    class Server:
        def __init__(self, net, clients):
            self.net, self.clients = net, clients
            self.vault = Vault()

        def local(self, client, round):
            opt = torch.optim.SGD(self.net.parameters(), 0.1)
            loss = F.cross_entropy(self.net(client.x), client.y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return Update(client.cid, round, loss)

        def train(self, rounds):
            for round in range(rounds):
                for client in self.clients:
                    update = self.local(client, round)
                    self.vault.put(update)MARK
"""


def vault(store: str, mark: str = "") -> str:
    return VAULT.replace("STORE", store).replace("MARK", mark)


WHOSE = [
    "self.latest[update.client] = update",
    "client = update.client\n            self.latest[client] = update",
    "self.latest[update['client']] = update",
]


@pytest.mark.parametrize("store", WHOSE)
def test_one_for_each_of_those_that_there_are_waits(store: str) -> None:
    assert_clean(vault(store))
    assert_flagged(vault(store, "  # !"), "GG107", Confidence.LOW)


@pytest.mark.parametrize("field", ["round", "step", "uid", "path", "image_id", "file_name", "key", "timestamp"])
def test_a_key_that_tells_one_from_all_others(field: str) -> None:
    assert_flagged(vault(f"self.latest[update.{field}] = update", "  # !"), "GG107")


def test_a_list_for_each_of_them_grows() -> None:
    assert_flagged(vault("self.latest.setdefault(update.client, []).append(update)", "  # !"), "GG107")
    assert_flagged(vault("self.latest[update.client].append(update)", "  # !"), "GG107")


@pytest.mark.parametrize(
    "factory",
    [
        "lambda: deque(maxlen=16)",
        "partial(deque, maxlen=16)",
        "partial(deque, [], 16)",
        "lambda: defaultdict(partial(deque, maxlen=4))",
    ],
)
def test_a_field_that_a_factory_makes_short(factory: str) -> None:
    append = "self.latest[0].append(update)" if "defaultdict" in factory else "self.latest.append(update)"
    short = vault(append).replace("dict = field(default_factory=dict)", f"deque = field(default_factory={factory})")
    assert_clean(short, confidence=Confidence.LOW)


@pytest.mark.parametrize("factory", ["deque", "lambda: deque()", "partial(deque, maxlen=100_000)", "list"])
def test_a_field_that_a_factory_does_not_make_short(factory: str) -> None:
    long = vault("self.latest.append(update)", "  # !")
    assert_flagged(long.replace("default_factory=dict", f"default_factory={factory}"), "GG107")


POOL = """
    class Trainer:
        def __init__(self, net, graphs, opt):
            self.net, self.graphs, self.opt = net, graphs, opt
            self.losses = {}

        def step(self, GIVEN):
            total = 0
            for LOOP:
                x, y = READ
                loss = F.cross_entropy(self.net(x), y)
                total = total + loss
                self.losses[i] = loss  # !
            self.opt.zero_grad()
            total.backward()
            self.opt.step()
"""


def pool(given: str, loop: str, read: str) -> str:
    return POOL.replace("GIVEN", given).replace("LOOP", loop).replace("READ", read)


@pytest.mark.parametrize("read", ["self.graphs[i]", "self.data.graphs[i]", "self.cache[self.graphs[i].name]"])
def test_ids_of_what_the_object_has_wait(read: str) -> None:
    chosen = pool("ids", "i in ids", read)
    assert_clean(chosen)
    assert_flagged(chosen, "GG104", Confidence.LOW)


def test_a_number_of_its_own_is_another_one_each_time() -> None:
    assert_flagged(pool("ids", "i in ids", "self.draw()"), "GG104")
    assert_flagged(pool("batches, start", "i, batch in enumerate(batches, start)", "batch"), "GG104")
    assert_flagged(pool("batches, start", "i in range(start, start + 4)", "batches[i]"), "GG104")


DIFFICULTY = """
    class Curriculum:
        def __init__(self, size):
            self.difficulty, self.visits = MADE, torch.zeros(size, dtype=torch.long)

        def observe(self, idx, losses):
            self.difficulty[idx] = torch.where(self.visits[idx] > 0, self.difficulty[idx], losses)
            self.visits[idx] += 1

    def train(net, opt, loader, size):
        curriculum = Curriculum(size)
        for rows, x, y in loader:
            losses = F.cross_entropy(net(x), y, reduction="none")
            opt.zero_grad()
            losses.mean().backward()
            opt.step()
            curriculum.observe(rows, losses)MARK
"""


def test_each_write_into_a_tensor_has_its_node() -> None:
    """A dict lets go of what was under a key; a tensor that requires gradients does not."""
    written = DIFFICULTY.replace("MADE", "torch.zeros(size)")
    assert_flagged(written.replace("MARK", "  # !"), "GG107")
    assert_clean(written.replace("MARK", "").replace("observe(rows, losses)", "observe(rows, losses.detach())"))
    assert_clean(written.replace("MARK", "").replace("def observe", "@torch.no_grad()\n        def observe"))
    latest = twin(
        written.replace("MARK", ""), ("torch.where(self.visits[idx] > 0, self.difficulty[idx], losses)", "losses")
    )
    assert_clean(twin(latest, ("difficulty, self.visits = torch.zeros(size)", "difficulty, self.visits = {}")), "GG107")
    assert_flagged(twin(latest, ("observe(rows, losses)", "observe(rows, losses)  # !")), "GG107")


CRITIC = """
    class GAN:
        def __init__(self, critic, generator, opt, n_critic=4):
            self.critic, self.generator, self.opt = critic, generator, opt
            COUNT

        def critic_round(self, real, noise, MOREn=64):
            total = 0
            for _ in range(NUMBER):
                gap = self.critic(self.generator(noise).detach()).mean() - self.critic(real).mean()
                self.opt.zero_grad()
                gap.backward()
                self.opt.step()
                ADD  # !
            return total.item()
"""


def critic(count: str = "pass", number: str = "self.n_critic", add: str = "total += gap", more: str = "") -> str:
    written = CRITIC.replace("COUNT", count).replace("NUMBER", number).replace("ADD", add)
    return written.replace("MORE", f"{more}, " if more else "")


SETTINGS = """
    parser = argparse.ArgumentParser()
    parser.add_argument("--n-critic", type=int, default={0})
"""
FEW = {
    "by default": critic("self.n_critic = n_critic"),
    "with others": critic("self.z, self.n_critic = 8, n_critic"),
    "a number": critic("self.n_critic = 5"),
    "of a config": critic("self.n_critic = config.get('n_critic', 3)"),
    "a parameter": critic(number="n_critic", more="n_critic=5"),
    "an option": critic(number="self.args.n_critic") + SETTINGS.format(5),
    "collected": critic("self.n_critic = 5", add="total = total + gap"),
}
MANY = {
    "nobody says": critic("self.n_critic = count_of()"),
    "a hundred": critic("self.n_critic = 100"),
    "an option that is large": critic(number="self.args.n_critic") + SETTINGS.format(50),
    "epochs": critic(number="epochs", more="epochs=5"),
    "iterations": critic(number="self.n_iters").replace("pass", "self.n_iters = 8"),
    "steps": critic(number="steps", more="steps=8"),
    "kept in the object": critic("self.n_critic = 5", add="self.total += gap").replace("total = 0", "pass"),
    "goes on in the next round": """
    def train(critic, loader, opt, n_critic=5):
        total = 0
        for real in loader:
            for _ in range(n_critic):
                gap = critic(real).mean()
                opt.zero_grad()
                gap.backward()
                opt.step()
                total += gap  # !
        return total.item()
    """,
}


@pytest.mark.parametrize("name", FEW)
def test_a_sum_of_a_few_waits(name: str) -> None:
    assert_clean(FEW[name])
    assert_flagged(FEW[name], "GG103", Confidence.LOW)


@pytest.mark.parametrize("name", MANY)
def test_a_sum_of_many(name: str) -> None:
    assert_flagged(MANY[name], "GG103")


SAMPLER = """
    class Sampler:
        def __init__(self, net, STEPS, size=0.1):
            self.net, self.steps, self.size = net, steps, size

        def run(self, x):
            x = x.requires_grad_()
            for _ in range(self.steps):
                (slope,) = torch.autograd.grad(self.net(x).sum(), x)
                x = x - self.size * slope + torch.randn_like(x)  # !
            return x.detach()

    def train(net, optimizer, loader):
        sampler = MADE
        for x, y in loader:
            drawn = sampler.run(torch.randn_like(x))
            optimizer.zero_grad()
            (net(x).mean() - net(drawn).mean()).backward()
            optimizer.step()
"""
FEW_STEPS = [
    ("steps=5", "Sampler(net)"),
    ("steps", "Sampler(net, steps=4)"),
    ("steps", "Sampler(net, size=abs(0.3), steps=4)"),
]


@pytest.mark.parametrize(("steps", "made"), FEW_STEPS)
def test_a_sampler_of_few_steps_waits(steps: str, made: str) -> None:
    snippet = SAMPLER.replace("STEPS", steps).replace("MADE", made)
    assert_clean(twin(snippet), "GG105")
    assert_flagged(snippet, "GG105", Confidence.LOW)


@pytest.mark.parametrize(
    ("steps", "made"),
    [("steps=500", "Sampler(net)"), ("steps", "Sampler(net, steps=40)"), ("steps", "Sampler(net, n)")],
)
def test_a_sampler_of_many_steps(steps: str, made: str) -> None:
    assert_flagged(SAMPLER.replace("STEPS", steps).replace("MADE", made), "GG105")


def test_a_sampler_whose_steps_save_what_they_are_made_of() -> None:
    clamped = SAMPLER.replace("x = x - self.size * slope + torch.randn_like(x)", "x = (x - slope).clamp(-1, 1)")
    assert_flagged(clamped.replace("STEPS", "steps=5").replace("MADE", "Sampler(net)"), "GG105")

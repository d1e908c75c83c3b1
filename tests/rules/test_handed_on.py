"""Averages of parameters in a method that nobody is seen to call, but that somebody is given to call."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

PROGRAM = """
    import copy

    class Slow:
        def __init__(self, net, rate=0.01):
            self.net, self.rate = net, rate
            self.values = {name: p.detach().clone() for name, p in net.named_parameters()}

        ABOVE
        def follow(self, net=None):
            net = net or self.net
            for name, p in net.named_parameters():
                AVERAGE

    class Loop:
        def __init__(self, net, opt, after=()):
            self.net, self.opt, self.after = net, opt, list(after)

        def __call__(self, x, y):
            loss = F.cross_entropy(self.net(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            for function in self.after:
                function()

    def main(net, opt, loader):
        slow = Slow(net)
        loop = Loop(net, opt, GIVEN)
        for x, y in loader:
            loop(x, y)
        return slow.values
"""
LERP = "self.values[name] = torch.lerp(self.values[name], p, self.rate)"
BLEND = "self.values[name] = (1 - self.rate) * self.values[name] + self.rate * p"
ADDED = "self.values[name] = self.values[name] + self.rate * (p - self.values[name])"
IN_PLACE = "self.values[name].mul_(1 - self.rate).add_(p, alpha=self.rate)"
HANDED = [
    "after=[lambda: slow.follow(net)]",
    "[slow.follow]",
    "after=(slow.follow, opt.zero_grad)",
    "after=[lambda *given: slow.follow()]",
]


def program(average: str, given: str, above: str = "", mark: str = "") -> str:
    written = PROGRAM.replace("AVERAGE", average + mark).replace("GIVEN", given)
    return written.replace("ABOVE\n        ", f"{above}\n        " if above else "")


@pytest.mark.parametrize("given", HANDED)
@pytest.mark.parametrize(("average", "code"), [(LERP, "GG106"), (BLEND, "GG106"), (ADDED, "GG106")])
def test_an_average_that_somebody_else_runs(average: str, code: str, given: str) -> None:
    assert_flagged(program(average, given, mark="  # !"), code)


@pytest.mark.parametrize("given", HANDED)
@pytest.mark.parametrize("average", [LERP, BLEND, ADDED, IN_PLACE])
def test_an_average_without_graphs(average: str, given: str) -> None:
    assert_clean(program(average, given, above="@torch.no_grad()"))
    assert_clean(program(average, given, above="@torch.inference_mode()"))
    assert_clean(program(f"with torch.no_grad(): {average}", given))
    assert_clean(program(average.replace("p,", "p.data,").replace(" p", " p.data").replace("(p ", "(p.data "), given))
    of_state = program(average, given).replace(
        "net.named_parameters():\n                self", "net.state_dict().items():\n                self"
    )
    assert_clean(of_state)
    assert_clean(program(average.replace(" p", " p.detach()").replace("(p", "(p.detach()"), given))


@pytest.mark.parametrize("average", [LERP, BLEND, ADDED])
def test_what_is_not_handed_on_is_not_known_to_run(average: str) -> None:
    assert_clean(program(average, "()"))
    assert_clean(program(average, "[opt.zero_grad]"))


@pytest.mark.parametrize("given", HANDED)
def test_what_does_not_go_on_from_what_was_there(given: str) -> None:
    assert_clean(program("self.values[name] = self.rate * p", given))
    assert_clean(program("self.values[name] = p", given))
    assert_clean(program("self.values[name] = p.detach() + 0", given))
    assert_clean(program("p.data.copy_(self.values[name])", given))


@pytest.mark.parametrize("given", HANDED)
def test_a_program_without_a_training(given: str) -> None:
    assert_clean(program(LERP, given).replace("loss.backward()", "pass"))


LOSSES = """
    from functools import partial

    def critic_loss(D, G, real, noise, scale=1.0, report=True):
        D.zero_grad()
        G.zero_grad()
        cost = (D(G(noise).detach()) - D(real)).mean() * scale
        return (cost, scale) if report else (cost, 0)

    def plain_loss(D, G, real, noise, scale=1.0, report=True):
        return (D(G(noise).detach()) - D(real)).mean() * scale, scale

    class Loss:
        def __call__(self, D, G, real, noise, scale=1.0):
            D.zero_grad()
            return (D(G(noise).detach()) - D(real)).mean() * scale, scale

    class Trainer:
        def __init__(self, D, G, {name}, optimizer, loader, repeats=1):
            self.D, self.G, self.optimizer, self.loader = D, G, optimizer, loader
            self.{name} = {name}
            self.repeats = repeats

        def run(self, steps):
            for step in range(steps):
                self.train()

        def train(self):
            for i in range(self.repeats):
                real, noise = next(self.loader)
                losses = self.{name}(self.D, self.G, real, noise)
                cost = losses[0]
                cost.backward(){mark}
                self.optimizer.step()

    def main(D, G, optimizer, loader, improved, options):
        {made}
        Trainer(D, G, {given}, optimizer, iter(loader)).run(100)
"""
RESETTING = [
    ("pass", "critic_loss"),
    ("loss = critic_loss", "loss"),
    ("loss = partial(critic_loss, scale=2.0, report=False)", "loss"),
    ("pass", "partial(critic_loss, scale=2.0)"),
    ("loss = partial(critic_loss, D)", "loss"),
    ("loss = critic_loss if improved else None", "critic_loss"),
    ("pass", "Loss()"),
]
NOT_RESETTING = [
    ("pass", "plain_loss"),
    ("loss = plain_loss", "loss"),
    ("loss = partial(plain_loss, scale=2.0, report=False)", "loss"),
    ("pass", "partial(plain_loss, scale=2.0)"),
    ("loss = partial(plain_loss, D)", "loss"),
    ("loss = plain_loss\n        other = critic_loss", "loss"),
    ("loss = critic_loss\n        if improved:\n            loss = plain_loss", "loss"),
]


@pytest.mark.parametrize("name", ["D_loss", "criterion", "loss"])
@pytest.mark.parametrize(("made", "given"), RESETTING)
def test_a_loss_that_resets_gradients(name: str, made: str, given: str) -> None:
    assert_clean(LOSSES.format(name=name, made=made, given=given, mark=""), "GG201")


@pytest.mark.parametrize("name", ["D_loss", "criterion", "loss"])
@pytest.mark.parametrize(("made", "given"), NOT_RESETTING)
def test_a_loss_that_does_not(name: str, made: str, given: str) -> None:
    assert_flagged(LOSSES.format(name=name, made=made, given=given, mark="  # !"), "GG201")

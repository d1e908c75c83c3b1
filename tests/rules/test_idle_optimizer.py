from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG257"

TWO = """
def train(model, weights, loader):
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    weights_opt = torch.optim.Adam(weights.parameters(), lr=1e-2)  # !
    for x, y in loader:
        opt.zero_grad()
        weights_opt.zero_grad()
        weights(model(x), y).backward()
        opt.step()
"""
OF_OBJECT = """
class Trainer:
    def __init__(self, actor, critic):
        self.actor, self.critic = actor, critic
        self.actor_opt = torch.optim.Adam(actor.parameters())
        self.critic_opt = torch.optim.RMSprop(critic.parameters())  # !

    def update(self, x, reward):
        loss = -self.actor(x).log_prob(reward) + (self.critic(x) - reward).pow(2).mean()
        self.actor_opt.zero_grad()
        self.critic_opt.zero_grad()
        loss.backward()
        self.actor_opt.step()

    def save(self, path):
        torch.save({"actor": self.actor_opt.state_dict(), "critic": self.critic_opt.state_dict()}, path)
"""
HANDED = """
def step(model, opt, loss, basis_opt=None):
    opt.zero_grad()
    if basis_opt is not None:
        basis_opt.zero_grad()
    loss.backward()
    opt.step()

def main(net, loader, kind):
    basis_opt = None
    if kind == "basis":
        opt = torch.optim.Adam(net.body.parameters())
        basis_opt = torch.optim.Adam(net.basis.parameters())  # !
    else:
        opt = torch.optim.Adam(net.parameters())
    for x, y in loader:
        step(net, opt, F.mse_loss(net(x), y), basis_opt=basis_opt)
"""
FLAGGED = {"a function": TWO, "an object": OF_OBJECT, "handed to a helper": HANDED}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


BOTH = ("        opt.step()", "        opt.step(); weights_opt.step()")
CLEAN = {
    "both step": twin(TWO, BOTH),
    "every so often": twin(
        TWO, ("        opt.step()", "        opt.step()\n        if len(x) > 3:\n            weights_opt.step()")
    ),
    "in turn": twin(TWO, ("        opt.step()", "        for each in (opt, weights_opt): each.step()")),
    "a scaler steps it": twin(TWO, ("        opt.step()", "        opt.step(); scaler.step(weights_opt)")),
    "a scheduler has it": twin(
        TWO, ("    for x", "    plan = torch.optim.lr_scheduler.StepLR(weights_opt, 3)\n    for x")
    ),
    "it is prepared": twin(TWO, ("    for x", "    weights_opt = accelerator.prepare(weights_opt)\n    for x")),
    "it is returned": twin(TWO, ("        opt.step()", "        opt.step()\n    return weights_opt")),
    "it is in a list": twin(TWO, ("    for x", "    every = [opt, weights_opt]\n    for x")),
    "it is in a dict": twin(TWO, ("    for x", "    every = dict(a=opt, b=weights_opt)\n    for x")),
    "a helper steps it": twin(TWO, ("        opt.step()", "        opt.step(); advance(weights_opt)")),
    "its step is another name": twin(TWO, ("    for x", "    step = weights_opt.step\n    for x"), BOTH),
    "it has what the other one has": twin(TWO, ("weights.parameters()", "model.head.parameters()")),
    "it has all, to reset it": twin(TWO, ("weights.parameters()", "[*model.parameters(), *weights.parameters()]")),
    "what it has is not known": twin(TWO, ("weights.parameters()", "params")),
    "nothing resets it": twin(TWO, ("        weights_opt.zero_grad()\n", "")),
    "weights that are moved by hand": twin(
        TWO, ("        opt.step()", "        opt.step()\n        for p in weights.parameters(): p.data -= 0.1 * p.grad")
    ),
    "no step of anything": twin(TWO, ("        opt.step()\n", "")),
    "an object whose other method steps": twin(
        OF_OBJECT, ("    def save", "    def finish(self):\n        self.critic_opt.step()\n\n    def save")
    ),
    "an object that is given away": twin(OF_OBJECT, ("        loss.backward()", "        loss.backward(); run(self)")),
    "an heir": OF_OBJECT.replace("  # !", "")
    + """
class Both(Trainer):
    def update(self, x, reward):
        super().update(x, reward)
        self.critic_opt.step()
""",
    "somebody else": OF_OBJECT.replace("  # !", "")
    + """
def run(trainer, loader):
    for x, reward in loader:
        trainer.update(x, reward)
        trainer.critic_opt.step()
""",
    "a helper that steps what it is given": twin(
        HANDED, ("    opt.step()", "    opt.step()\n    if basis_opt is not None:\n        basis_opt.step()")
    ),
    "an optimizer of one's own": twin(TWO, ("torch.optim.Adam(weights", "Adam(weights")),
}


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE, Confidence.LOW)


def test_what_it_says() -> None:
    (found,) = findings(TWO, CODE)
    assert found.message == "nothing steps `weights_opt`: `weights` is not trained by it"
    assert [each.message for each in found.related] == ["this resets its gradients, which no step has used"]

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

CODE = "GG219"


def loop(*lines: str) -> str:
    body = "\n            ".join(lines)
    return f"""
    def train(net, rnn, loader, optimizer, hidden, log):
        for x, y in loader:
            {body}
    """


@pytest.mark.parametrize(
    "lines",
    [
        ("out, hidden = rnn(x, hidden)", "hidden.detach()  # !"),
        ("out, states = rnn(x, hidden)", "for state in states:", "    state.detach()  # !"),
        ("out, states = rnn(x, hidden)", "for state in states: state.detach()  # !"),
        ("loss = net(x).mean()", "loss.detach()  # !", "log.append(loss)"),
        ("net(x).mean().backward()", "for p in net.parameters():", "    p.grad.clamp(-1, 1)  # !"),
        ("for p in net.parameters():", "    p.grad.data.clamp(min=-1, max=1)  # !"),
        ("for p in net.parameters():", "    p.data.clamp(-0.01, 0.01)  # !"),
        ("for name, p in net.named_parameters():", "    if p.grad is not None:", "        p.grad.mul(0.5)  # !"),
        ("net.head.weight.data.clip(-1, 1)  # !",),
        ("net.last['loss'].detach()  # !",),
        ("for p, q in zip(net.parameters(), rnn.parameters()):", "    p.data.mul(0.9).add_(q.data, alpha=0.1)  # !"),
    ],
)
def test_nothing_takes_it(lines: tuple[str, ...]) -> None:
    assert_flagged(loop(*lines), CODE)


def test_a_field() -> None:
    assert_flagged(
        """
    class Meter:
        def update(self, loss):
            self.average = 0.9 * self.average + 0.1 * loss
            self.average.detach()  # !
    """,
        CODE,
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("out, hidden = rnn(x, hidden)", "hidden = hidden.detach()"),
        ("out, hidden = rnn(x, hidden)", "hidden.detach_()"),
        ("out, states = rnn(x, hidden)", "hidden = tuple(state.detach() for state in states)"),
        ("for p in net.parameters():", "    p.grad.clamp_(-1, 1)"),
        ("for p in net.parameters():", "    p.data = p.data.clamp(-1, 1)"),
        ("for p in net.parameters():", "    p.data.clamp(-1, 1, out=p.data)"),
        ("for p in net.parameters():", "    log.append(p.grad.clamp(-1, 1))"),
        ("for p in net.parameters():", "    p.detach().zero_()"),
        ("for p, q in zip(net.parameters(), rnn.parameters()):", "    p.data.mul_(0.9).add_(q.data, alpha=0.1)"),
        ("for p in net.parameters():", "    p.data.add_(0.1)"),
        ("hook = net.watch(x)", "hook.detach()"),
        ("stream = log.open(x)", "stream.detach()"),
        ("x.clamp(0, 1)",),
        ("x.mul(2)",),
        ("loss = net(x).mean()", "log.append(", "    loss.detach()", ")"),
        ("return net(x).detach()",),
        ("yield net(x).detach()",),
        ("import sys", "sys.stdout.detach()"),
        ("net.detach('head')",),
        ("# hidden.detach()", "print('hidden.detach()')"),
    ],
)
def test_look_alikes(lines: tuple[str, ...]) -> None:
    assert_clean(loop(*lines), CODE)


def test_a_test_of_torch() -> None:
    assert_clean("    def test_detach():\n        x = torch.ones(3).exp()\n        x.detach()\n", CODE)


def test_the_edit_works_in_place() -> None:
    (finding,) = findings(loop("for p in net.parameters():", "    p.grad.clamp(-1, 1)"), CODE)
    assert finding.fix is not None
    assert [edit.text for edit in finding.fix.edits] == ["p.grad.clamp_"]
    assert not finding.fix.safe


AGENT = """
    class Agent:
        def learn(self):
            states, rewards, dones, following = self.memory.sample()
            rewards, dones = torch.FloatTensor(rewards), torch.FloatTensor(dones)
            with torch.no_grad():
                values = self.target(following).max(1)[0]
            expected = rewards + self.gamma ** self.n_step * (1 - dones) * values
            expected.detach()
            loss = F.mse_loss(self.net(states).max(1)[0], expected)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        (" ** self.n_step", ""),
        ("self.gamma ** self.n_step * (1 - dones) * values", "values"),
        ("expected = ", "expected = expected_values = "),
        ("self.target(following).max(1)[0]", "self.value(following)"),
    ],
)
def test_what_has_no_graph_keeps_none(before: str, after: str) -> None:
    assert_clean(AGENT.replace(before, after), CODE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with torch.no_grad():", "if True:"),
        ("expected = rewards", "expected = self.net(states).min(1)[0] + rewards"),
        ("expected.detach()", "expected = self.net(states)\n            expected.detach()"),
    ],
)
def test_what_has_one_keeps_it(before: str, after: str) -> None:
    assert_flagged(AGENT.replace(before, after).replace("expected.detach()", "expected.detach()  # !"), CODE)


def test_a_state_of_the_object() -> None:
    assert_flagged(
        """
    class Player(nn.Module):
        def forget(self):
            self.hidden.detach()  # !

        def forward(self, x):
            out, self.hidden = self.rnn(x, self.hidden)
            return out
    """,
        CODE,
    )


@pytest.mark.parametrize(
    "lines",
    [
        (
            "loss = net(x).mean()",
            "torch.autograd.grad(loss, net.parameters())  # !",
            "optimizer.step()",
            "optimizer.zero_grad()",
        ),
        (
            "optimizer.zero_grad()",
            "loss = F.mse_loss(net(x), y)",
            "torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)  # !",
            "nn.utils.clip_grad_norm_(net.parameters(), 1.0)",
            "optimizer.step()",
        ),
    ],
)
def test_nothing_takes_the_gradients(lines: tuple[str, ...]) -> None:
    assert_flagged(loop(*lines), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        ("grads = torch.autograd.grad(net(x).mean(), net.parameters())", "optimizer.step()"),
        ("torch.autograd.grad(net(x).mean(), net.parameters())  # timed",),
        (
            "loss = net(x).mean()",
            "torch.autograd.grad(loss, x, retain_graph=True)",
            "loss.backward()",
            "optimizer.step()",
        ),
        (
            "for p, g in zip(net.parameters(), torch.autograd.grad(net(x).mean(), net.parameters())):",
            "    p.grad = g",
            "optimizer.step()",
        ),
        ("log.append(torch.autograd.grad(net(x).mean(), rnn.weight)[0].norm().item())", "optimizer.step()"),
    ],
)
def test_gradients_that_something_takes(lines: tuple[str, ...]) -> None:
    assert_clean(loop(*lines), CODE)

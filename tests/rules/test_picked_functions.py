"""What is traced, or picked by its name, may be a function; and a method that cannot take a keyword is not called."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG301"

TRACED = """
    def test_answers(answers, name, inputs):
        answer = getattr(answers, name)
        traced = None
        for x in inputs:
            right = answer(x)
            if traced is None:
                traced = torch.jit.trace(answer, x, check_trace=False)
            found = traced(x)
            if abs(found - right).sum() > 1e-3:
                raise ValueError(found)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("check_trace=False", "strict=True"),
        ("torch.jit.trace(answer, x, check_trace=False)", "torch.jit.script(answer)"),
        ("torch.jit.trace(answer, x, check_trace=False)", "torch.compile(answer)"),
        ("torch.jit.trace(answer, x", "torch.jit.trace(getattr(answers, name), x"),
        ("torch.jit.trace(answer, x", "torch.jit.trace(lambda x: x * 2 + 1, x"),
        ("getattr(answers, name)", "lambda x: x.abs().sum()"),
        ("(answers, name, inputs):\n        answer = getattr(answers, name)", "(answer, inputs):"),
    ],
)
def test_a_function_that_is_traced(before: str, after: str) -> None:
    assert_clean(TRACED.replace(before, after), CODE)


EVALUATED = """
    def evaluate(model, loader, example):
        model.eval()
        traced = torch.jit.trace(model, example)
        right = 0
        for x, y in loader:
            right += (traced(x).argmax(1) == y).sum().item()  # !
        return right
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("torch.jit.trace(model, example)", "torch.jit.script(model)"),
        ("torch.jit.trace(model, example)", "torch.compile(model)"),
        ("torch.jit.trace(model, example)", "torch.jit.trace(model.eval(), example)"),
    ],
)
def test_a_network_that_is_traced(before: str, after: str) -> None:
    assert_flagged(EVALUATED.replace(before, after), CODE)


PLAYED = """
    class Actor:
        def __init__(self, size):
            self.net = nn.Linear(size, 2)
            self.net.eval()

        def action(self, state, mode="train"):
            return self.net(torch.as_tensor(state)).argmax().item()

    class Trainer:
        def __init__(self, size, env):
            self.agent, self.env = Actor(size), env

        def evaluate(self):
            state, done, total = self.env.reset(), False, 0.0
            while not done:
                action = self.agent.action(state, mode="test")
                state, reward, done, _ = self.env.step(action)
                total += reward
            return total
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('mode="test")', 'mode="test", rand=done)'),
        ("self.agent.action(state", "self.agent.action(obs=state"),
        ('(state, mode="test")', "(state, explore=False)"),
    ],
)
def test_a_method_that_cannot_take_a_keyword_is_not_called(before: str, after: str) -> None:
    assert_clean(PLAYED.replace(before, after), CODE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ('(state, mode="test")', "(state=state, mode='test')"),
        ('self, state, mode="train"', "self, state, **options"),
        ('self, state, mode="train"', "self, state, *, mode='train', rand=False"),
        ("        def action", "        @timed\n        def action"),
    ],
)
def test_a_method_that_can(before: str, after: str) -> None:
    snippet = PLAYED.replace(before, after) if before else PLAYED
    assert_flagged(
        snippet.replace('mode="test")', 'mode="test")  # !').replace("mode='test')", "mode='test')  # !"), CODE
    )

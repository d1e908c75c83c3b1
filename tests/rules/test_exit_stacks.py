"""GG401: what a loop enters on an `ExitStack` from outside of it is left when the stack is, and not before."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG401"

STACKED = """
    import contextlib
    from contextlib import AsyncExitStack, ExitStack, contextmanager

    @contextmanager
    def capture(module):
        seen = []
        handle = module.register_forward_hook(lambda m, i, o: seen.append(o))  # !
        try:
            yield seen
        finally:
            handle.remove()
            seen.clear()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.head = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x):
            return self.head(self.block(x))

    def train(loader):
        net = Net()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        with ExitStack() as stack:
            for x, y in loader:
                seen = stack.enter_context(capture(net.block))
                loss = F.cross_entropy(net(x), y) + seen[-1].abs().mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
"""
DIRECT = twin(
    STACKED,
    (
        "seen = stack.enter_context(capture(net.block))",
        "stack.enter_context(net.block.register_forward_hook(look))  # !",
    ),
    (" + seen[-1].abs().mean()", ""),
)
CALLBACK = twin(
    STACKED,
    (
        "seen = stack.enter_context(capture(net.block))",
        "handle = net.block.register_forward_hook(look)  # !\n                stack.callback(handle.remove)",
    ),
    (" + seen[-1].abs().mean()", ""),
)
FLAGGED = {
    "a context manager": STACKED,
    "a handle": DIRECT,
    "a callback": CALLBACK,
    "a stack that is bound": STACKED.replace(
        "with ExitStack() as stack:", "stack = contextlib.ExitStack()\n        if True:"
    ),
    "closed behind the loop": STACKED.replace("opt.step()\n", "opt.step()\n            stack.close()\n"),
    "of the module": STACKED.replace("with ExitStack()", "with contextlib.ExitStack()"),
    "in every second iteration": STACKED.replace(
        "for x, y in loader:\n",
        "for step, (x, y) in enumerate(loader):\n                if step % 2:\n                    continue\n",
    ),
}
CLEAN = {
    "a handle as a context, beside a callback": (
        CALLBACK,
        ("            for x", "            other = net.head.register_forward_hook(look)\n            for x"),
        ("handle = net.block.register_forward_hook(look)\n", "stack.callback(other.remove)\n"),
        ("                stack.callback(handle.remove)\n", ""),
        (
            "                loss = ",
            "                with net.block.register_forward_hook(look):\n                    loss = ",
        ),
    ),
    "closed in the loop": (STACKED, ("opt.step()", "opt.step()\n                stack.close()")),
    "a handle, closed in the loop": (DIRECT, ("opt.step()", "opt.step()\n                stack.close()")),
    "a callback, closed in the loop": (CALLBACK, ("opt.step()", "opt.step()\n                stack.close()")),
    "what was entered is taken over and left": (
        STACKED,
        ("opt.step()", "opt.step()\n                stack.pop_all().close()"),
    ),
    "handed over in the loop": (STACKED, ("opt.step()", "opt.step()\n                finish(stack)")),
    "a stack for each iteration": (
        STACKED,
        (
            "        with ExitStack() as stack:\n            for x, y in loader:\n",
            "        for x, y in loader:\n            with ExitStack() as stack:\n",
        ),
    ),
    "a stack for each iteration, bound": (STACKED, ("loader:\n", "loader:\n                stack = ExitStack()\n")),
    "entered once, before the loop": (
        STACKED,
        (
            "for x, y in loader:\n                seen = stack.enter_context(capture(net.block))",
            "seen = stack.enter_context(capture(net.block))\n            for x, y in loader:",
        ),
    ),
    "one for each layer": (
        STACKED,
        (
            "for x, y in loader:\n                seen = stack.enter_context(capture(net.block))",
            "for layer in net.children():\n                seen = stack.enter_context(capture(layer))\n"
            "            for x, y in loader:",
        ),
    ),
    "one for each layer, in a function that a loop calls": (
        """
    from contextlib import ExitStack, contextmanager

    @contextmanager
    def capture(module, seen):
        handle = module.register_forward_hook(lambda m, i, o: seen.append(o))
        yield
        handle.remove()

    def features(net, x):
        seen = []
        with ExitStack() as stack:
            for layer in (net.low, net.high):
                stack.enter_context(capture(layer, seen))
            net(x)
        return seen

    def train(net, loader, opt):
        for x, y in loader:
            loss = F.cross_entropy(net(x), y) + sum(each.mean() for each in features(net, x))
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
    ),
    "a stack from elsewhere": (
        STACKED,
        ("def train(loader):", "def train(loader, stack):"),
        ("with ExitStack() as stack:", "if loader:"),
    ),
    "a with": (
        STACKED,
        (
            "seen = stack.enter_context(capture(net.block))\n                loss",
            "with capture(net.block) as seen:\n                    loss",
        ),
    ),
    "the first time only": (
        STACKED,
        ("for x, y in loader:\n", "seen = None\n            for x, y in loader:\n"),
        ("seen = stack.enter", "if seen is None:\n                    seen = stack.enter"),
    ),
    "a new model each time": (STACKED, ("seen = stack", "net = Net()\n                seen = stack")),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_hooks_wait_for_the_end_of_the_stack(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("case", CLEAN.values(), ids=CLEAN)
def test_hooks_are_removed_in_time(case: tuple[str, ...]) -> None:
    snippet, *edits = case
    assert_clean(twin(snippet, *edits), CODE)

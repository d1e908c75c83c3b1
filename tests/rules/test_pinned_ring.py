"""GG403: a view in each slot of a ring pins as many whole batches as the ring has slots."""

from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG403"

RING = """
    class Data:
        def __init__(self, classes):
            self.textures = torch.randn(classes, 3, 24, 24)

        def batch(self, size):
            y = torch.randint(len(self.textures), (size,))
            x = self.textures[y]
            return x + 0.7 * torch.randn_like(x), y

    class Memory:
        def __init__(self, cap, shape):
            self.images = [torch.zeros(shape) for _ in range(cap)]
            self.labels = [-1] * cap
            self.cap, self.head = cap, 0

        def put(self, image, label):
            self.images[self.head] = image
            self.labels[self.head] = label
            self.head = (self.head + 1) % self.cap

    def herd(net, x):
        with torch.no_grad():
            features = net(x)
        return int((features - features.mean(0)).norm(dim=1).argmin())

    def train(net, opt, iters):
        data = Data(4)
        memory = Memory(320, (3, 24, 24))
        for step in range(iters):
            x, y = data.batch(32)
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            best = herd(net, x)
            memory.put(x[best], int(y[best]))  # !
"""
OVER_LOADER = RING.replace(
    "for step in range(iters):\n            x, y = data.batch(32)", "for x, y in loader:"
).replace("iters", "loader")
FLAGGED = {
    "a ring of unknown size, from a batch of the data": RING,
    "from a loader": OVER_LOADER,
    "the first of each batch": OVER_LOADER.replace("x[best], int", "x[0], int"),
    "slots of None": RING.replace("[torch.zeros(shape) for _ in range(cap)]", "[None] * cap"),
    "a remainder as the index": OVER_LOADER.replace("self.images[self.head]", "self.images[self.head % self.cap]"),
    "a number of slots": RING.replace("% self.cap", "% 320"),
    "the input is joined with others": RING.replace("net(x), y)", "net(torch.cat([x, x.flip(3)])), torch.cat([y, y]))"),
}
CLEAN = {
    "a copy": (RING, ("= image\n", "= image.clone()\n")),
    "a copy, handed over": (RING, ("x[best], int", "x[best].clone(), int")),
    "a tensor of slots": (RING, ("[torch.zeros(shape) for _ in range(cap)]", "torch.zeros(cap, *shape)")),
    "what the slots are is not known": (RING, ("[torch.zeros(shape) for _ in range(cap)]", "make(cap)")),
    "a few slots": (OVER_LOADER, ("% self.cap", "% 4")),
    "a few slots, by default": (OVER_LOADER, ("cap, shape):", "shape, cap=4):")),
    "a window": (OVER_LOADER, ("self.cap", "self.window")),
    "one slot": (OVER_LOADER, ("self.images[self.head]", "self.images[0]")),
    "into the numbers of a slot": (RING, ("self.images[self.head] = image", "self.images[self.head].copy_(image)")),
    "the whole batch": (RING, ("x[best], int", "x, int")),
    "chosen by a tensor, which copies": (RING, ("return int(", "return ("), ("int(y[best])", "y")),
    "a value of an action": (
        RING,
        ("best = herd(net, x)", "q = net(x)[0]\n            best = int(q.argmax())"),
        ("x[best], int", "q.detach()[best], int"),
    ),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_each_slot_pins_a_batch(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("case", CLEAN.values(), ids=CLEAN)
def test_nothing_more_is_pinned(case: tuple[str, ...]) -> None:
    snippet, *edits = case
    assert_clean(twin(snippet, *edits), CODE)


def test_one_item_of_what_may_have_no_other_waits() -> None:
    first = RING.replace("x[best], int", "x[0], int")
    assert_clean(twin(first), CODE)
    assert_flagged(first, CODE, Confidence.LOW)
    assert_clean(
        twin(RING, ("F.cross_entropy(net(x), y)", "net.loss(y)"), ("= herd(net, x)", "= int(y.argmax())")),
        CODE,
    )


def test_other_memory_in_a_ring_is_bounded() -> None:
    assert_clean(twin(OVER_LOADER, ("x[best], int", "net(x).detach(), int")))
    assert_clean(twin(OVER_LOADER, ("x[best], int", "net.state_dict(), int")), "GG406")

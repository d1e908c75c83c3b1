"""Keys and values of attention that are kept from one call to the next, and what else a module is given back."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

MODEL = """
class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, past=None):
        q, k, v = self.q(x), self.k(x), self.v(x)
        {joined}
        return x + F.scaled_dot_product_attention(q, k, v), (k, v)

class Model(nn.Module):
    def __init__(self, d=32, depth=2):
        super().__init__()
        self.emb = nn.Embedding(48, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(depth))
        self.head = nn.Linear(d, 48)

    def forward(self, idx, past=None):
        x = self.emb(idx)
        {layers}
        return self.head(x), kept
"""
TELLER = """
class Teller:
    def __init__(self, model, window=32):
        self.model, self.window = model, window
        self.kept, self.token = None, torch.zeros(1, 1, dtype=torch.long)

    {decorator}
    def tell(self):
        {told}
        self.token = scores[:, -1:].argmax(-1)
        return self.token.item()

def train(steps):
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    teller = Teller(model)
    for step in range(steps):
        x = torch.randint(0, 48, (4, 24))
        scores, _ = model(x)
        optimizer.zero_grad()
        F.cross_entropy(scores.flatten(0, 1), x.flatten()).backward()
        optimizer.step()
        {around}
        print(teller.tell())
"""

JOINED = {
    "joined where there are some": """if past is not None:
            k = torch.cat([past[0], k], 1)
            v = torch.cat([past[1], v], 1)""",
    "taken apart first": """if past is not None:
            before, then = past
            k, v = torch.cat([before, k], 1), torch.cat([then, v], 1)""",
    "asked for by its truth": """if past:
            k = torch.cat([past[0], k], 1)
            v = torch.cat([past[1], v], 1)""",
    "in an expression": """k = k if past is None else torch.cat([past[0], k], 1)
        v = v if past is None else torch.cat([past[1], v], 1)""",
}
LAYERS = {
    "zip, or as many of None": """kept = []
        for block, before in zip(self.blocks, past or [None] * len(self.blocks)):
            x, present = block(x, before)
            kept.append(present)""",
    "by number": """kept = []
        for i, block in enumerate(self.blocks):
            x, present = block(x, past[i] if past is not None else None)
            kept.append(present)""",
    "None for each at first": """if past is None:
            past = [None] * len(self.blocks)
        kept = []
        for block, before in zip(self.blocks, past):
            x, present = block(x, past=before)
            kept += [present]""",
    "a tuple": """kept = tuple()
        past = [None] * len(self.blocks) if past is None else past
        for block, before in zip(self.blocks, past):
            x, present = block(x, before)
            kept = kept + (present,)""",
    "one of them": """x, kept = self.blocks[0](x, past)""",
}
TOLD = {
    "at once": "scores, self.kept = self.model(self.token, self.kept)",
    "by way of a name": "scores, kept = self.model(self.token, past=self.kept)\n        self.kept = kept",
}


def program(
    joined: str = JOINED["joined where there are some"],
    layers: str = LAYERS["by number"],
    told: str = TOLD["at once"],
    mark: str = "  # !",
    decorator: str = "",
    around: str = "pass",
) -> str:
    return MODEL.format(joined=joined, layers=layers) + TELLER.format(
        told=told, decorator=decorator, around=around
    ).replace("print(teller.tell())", "print(teller.tell())" + mark)


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("joined", JOINED)
def test_what_is_kept_is_given_back_with_its_graph(joined: str, layers: str, told: str) -> None:
    text = program(JOINED[joined], LAYERS[layers], TOLD[told], "")
    stored = "self.kept = self.model" if told == "at once" else "self.kept = kept"
    marked = "\n".join(line + ("  # !" if stored in line else "") for line in text.splitlines())
    assert_flagged(marked, "GG105")


CLEAN = {
    "without gradients": program(mark="", decorator="@torch.no_grad()"),
    "in inference mode": program(mark="", decorator="@torch.inference_mode()"),
    "cut where it is kept": program(
        told="scores, kept = self.model(self.token, self.kept)\n"
        "        self.kept = [(k.detach(), v.detach()) for k, v in kept]",
        mark="",
    ),
    "begun anew each time": program(
        told="self.kept = None\n        for _ in range(9):\n"
        "            scores, self.kept = self.model(self.token, self.kept)",
        mark="",
    ),
    "begun anew by the training": program(mark="", around="teller.kept = None"),
    "never given back": program(told="scores, self.kept = self.model(self.token)", mark=""),
    "made of the new ones alone": program(joined="k, v = k * 2, v * 2", mark=""),
    "of the old ones without their graphs": program(
        joined="if past is not None:\n            k = torch.cat([past[0].detach(), k], 1)\n"
        "            v = torch.cat([past[1].detach(), v], 1)",
        mark="",
    ),
}


@pytest.mark.parametrize("name", CLEAN)
def test_what_is_cut_or_begun_anew_is_not(name: str) -> None:
    assert_clean(CLEAN[name], "GG105")


GIVEN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.back = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, given=None):
        h = self.body(x)
        {inside}
        return h.sum(), {returned}

def train(loader, start):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    state = None
    for x in loader:
        optimizer.zero_grad()
        loss, {bound} = net(x, {passed})
        loss.backward()
        optimizer.step()
"""
ASIDE = [
    ("if given is not None:\n            h = h + given", "h", "state", "start"),
    ("if given is not None:\n            h = h + given", "h.detach()", "state", "state"),
    ("if given is not None:\n            h = h + given", "self.body(x)", "other", "state"),
    ("if given is not None:\n            print(given.shape)\n            h = h * 2", "h.detach()", "state", "state"),
    ("rows = []\n        for _ in range(3):\n            rows.append(h)", "rows", "state", "start"),
    ("rows = [given]\n        for _ in range(3):\n            rows.append(h.detach())", "rows[-1]", "state", "state"),
]


@pytest.mark.parametrize(("inside", "returned", "bound", "passed"), ASIDE)
def test_what_a_module_may_be_given_besides_carries_nothing(
    inside: str, returned: str, bound: str, passed: str
) -> None:
    assert_clean(GIVEN.format(inside=inside, returned=returned, bound=bound, passed=passed))

"""A state that is put together again from its parts, and goes on from one iteration to the next with its graph."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG105"

LOOP = """
        def tell(net, loader):
            lstm = nn.LSTM(3, 3)
            state = None
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                out, new = lstm(x, state)
                state = {state}  # !
                print(out.sum().item())
                loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
"""
OBJECT = """
        class Teller:
            def __init__(self):
                self.lstm, self.state = nn.LSTM(3, 3), None

            def tell(self, x):
                out, new = self.lstm(x, self.state)
                self.state = {state}  # !
                return out.sum().item()

        def train(net, loader):
            teller = Teller()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                print(teller.tell(x))
"""
CARRIED = [
    "new",
    "tuple(h * 1.0 for h in new)",
    "[h[:, -9:] for h in new]",
    "(new[0] * 1.0, new[1] * 1.0)",
    "tuple([h.clone() for h in new])",
]
CUT = [
    "tuple(h.detach() for h in new)",
    "[h.detach()[:, -9:] for h in new]",
    "(new[0].detach(), new[1].detach())",
    "tuple(torch.zeros_like(h) for h in new)",
    "[h.data for h in new]",
    "None",
]


@pytest.mark.parametrize("snippet", [LOOP, OBJECT])
@pytest.mark.parametrize("state", CARRIED)
def test_carried(snippet: str, state: str) -> None:
    assert_flagged(snippet.format(state=state), CODE)


@pytest.mark.parametrize("snippet", [LOOP, OBJECT])
@pytest.mark.parametrize("state", CUT)
def test_cut(snippet: str, state: str) -> None:
    assert_clean(twin(snippet.format(state=state)), CODE)


@pytest.mark.parametrize(("old", "new"), [("lstm(x, state)", "lstm(x)"), ("lstm(x, self.state)", "lstm(x)")])
def test_a_state_that_is_not_given(old: str, new: str) -> None:
    snippet = (LOOP + OBJECT).format(state="tuple(h * 1.0 for h in new)")
    assert old in snippet
    one = LOOP if old in LOOP else OBJECT.replace("self.lstm(x", "lstm(x")
    assert_clean(twin(one.format(state="tuple(h * 1.0 for h in new)").replace(old, new)), CODE)


def test_under_no_grad() -> None:
    snippet = OBJECT.format(state="[h * 1.0 for h in new]")
    assert_clean(twin(snippet, ("            def tell", "            @torch.no_grad()\n            def tell")), CODE)


@pytest.mark.parametrize("kept", ["[*self.kept, out][-9:]", "sorted([*self.kept, out], key=torch.sum)[:9]"])
def test_the_last_few_outputs_are_no_state(kept: str) -> None:
    snippet = f"""
        class Recent:
            def __init__(self):
                self.kept = []

            def add(self, out):
                self.kept = {kept}

        def train(net, loader):
            recent = Recent()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                out = net(x)
                loss = F.mse_loss(out, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                recent.add(out)
    """
    assert_clean(snippet, CODE)

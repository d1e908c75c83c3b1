"""What a recurrent model keeps from one step to the next, and the methods that detach it between two steps."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

MODEL = """
class Net(nn.Module):
    carried = ("state", "level")

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, 8)
        self.mix = nn.Parameter(torch.tensor(0.0))
        self.state = None
        self.level = None

    def forward(self, x):
        y, self.state = self.gru(x, self.state)
        mean = x.mean(dim=1)
        self.level = mean if self.level is None else self.mix * self.level + (1 - self.mix) * mean  # !
        return y + self.level

    def cut(self):
        CUT

class Fit:
    def __init__(self, net, stream):
        self.model, self.stream = net, stream
        self.optimizer = torch.optim.Adam(net.parameters())

    def run(self):
        total = 0
        for i, (x, y) in enumerate(self.stream):
            total = total + F.mse_loss(self.model(x), y)
            if i % 2 == 0:
                continue
            self.optimizer.zero_grad()
            total.backward()
            self.optimizer.step()
            self.model.cut()
            total = 0
"""

CUTS = {
    "each by itself": "self.state = self.state.detach()\n        self.level = self.level.detach()",
    "in place": "self.state.detach_()\n        self.level.detach_()",
    "in one statement": "self.state, self.level = self.state.detach(), self.level.detach()",
    "by a generator": "self.state, self.level = (each.detach() for each in (self.state, self.level))",
    "by map": "self.state, self.level = map(torch.detach, (self.state, self.level))",
    "in a loop": "for each in (self.state, self.level):\n            each.detach_()",
    "by name": "for name in self.carried:\n            setattr(self, name, getattr(self, name).detach())",
    "in place, by name": "for name in self.carried:\n            getattr(self, name).detach_()",
    "by the dict": "self.__dict__.update({name: getattr(self, name).detach() for name in self.carried})",
    "whatever is a tensor": "for name, value in vars(self).items():\n"
    "            if torch.is_tensor(value):\n                setattr(self, name, value.detach())",
}

NOT_CUT = {
    "nothing": "pass",
    "only what is shown": "print(self.level.detach())",
    "only the other one": "self.state = self.state.detach()",
    "only a copy": "level = self.level.detach()\n        print(level)",
    "what it was multiplied with": "self.level = self.level * 0.5",
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_state_that_a_method_cuts_is_clean(cut: str) -> None:
    assert_clean(MODEL.replace("CUT", cut).replace("  # !", ""))


@pytest.mark.parametrize("cut", NOT_CUT.values(), ids=NOT_CUT)
def test_a_method_that_does_not_cut_is_no_excuse(cut: str) -> None:
    assert_flagged(MODEL.replace("CUT", cut), "GG106")


def test_a_cut_that_nothing_calls_is_no_excuse() -> None:
    program = MODEL.replace("CUT", CUTS["each by itself"]).replace("            self.model.cut()\n", "")
    main = "\nif __name__ == '__main__':\n    Fit(Net(), []).run()\n"
    assert_flagged(program.replace("def cut", "def _cut") + main, "GG106")


STEPPED = """
class Carrying(nn.Module):
    carried = ()

    def truncate(self):
        for name in self.carried:
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, value.detach())

class Net(Carrying):
    carried = ("state",)

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, 8)
        self.state = None

    def forward(self, x):
        y, self.state = self.gru(x, self.state)
        return y

class Fit:
    def __init__(self, net, stream):
        self.model, self.stream = Net(), stream
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def run(self):
        for x, y in self.stream:
            loss = F.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()  # !
            self.optimizer.step()
            self.model.truncate()
"""


def test_a_state_that_is_cut_by_name_is_not_gone_through_twice() -> None:
    assert_clean(STEPPED.replace("  # !", ""))


def test_a_state_that_is_not_among_those_names_is() -> None:
    assert_flagged(STEPPED.replace('carried = ("state",)', "carried = ()"), "GG203")

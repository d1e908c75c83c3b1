"""What setting a property does, and what reading one gives, is what its class says."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

STATE = """
        from dataclasses import dataclass

        <state>

        class Smooth:
            def __init__(self):
                self.value = 0.0

            def on_step_end(self, state):
                <keep>

        class Fitter:
            def __init__(self, net, data):
                self.net, self.data = net, data
                self.opt = torch.optim.SGD(net.parameters(), 0.1)
                self.state = <made>
                self.callbacks = [Smooth()]

            def run(self):
                for x, y in self.data:
                    loss = F.mse_loss(self.net(x), y)
                    self.opt.zero_grad()
                    loss.backward()
                    self.opt.step()
                    self.state.step += 1
                    self.state.loss = loss
                    for callback in self.callbacks:
                        callback.on_step_end(self.state)
"""

RECORD = """@dataclass
        class State:
            optimizer: torch.optim.Optimizer
            step: int = 0
            _loss: torch.Tensor = None

            @property
            def loss(self):
                return self._loss

            @loss.setter
            def loss(self, value):
                self._loss = value"""

CLASS = """class Base:
            @property
            def loss(self):
                return self._loss

            @loss.setter
            def loss(self, value):
                self._loss = value

        class State(Base):
            def __init__(self, optimizer):
                self.optimizer, self.step, self._loss = optimizer, 0, None"""

AVERAGE = "self.value = 0.9 * self.value + 0.1 * state.loss  # !"
KEPT = "self.latest = getattr(state, 'loss').item()"


def _filled(state: str, keep: str = AVERAGE, made: str = "State(self.opt)") -> str:
    return STATE.replace("<state>", state).replace("<keep>", keep).replace("<made>", made)


FLAGGED = {
    "the setter of a record keeps the graph": _filled(RECORD),
    "the setter of a base class keeps the graph": _filled(CLASS),
    "a record that is given nothing": _filled(RECORD.replace("Optimizer\n", "Optimizer = None\n"), made="State()"),
    "the getter reads another field": _filled(RECORD.replace("_loss", "_last")),
    "no property": _filled("""@dataclass
        class State:
            optimizer: torch.optim.Optimizer
            step: int = 0
            loss: torch.Tensor = None"""),
}

CLEAN = {
    **{
        f"{name}, detached by {word}": twin(FLAGGED[name], ("= value", f"= {word}"))
        for name in list(FLAGGED)[:4]
        for word in ("value.detach()", "value.item()", "float(value)", "value.data")
    },
    "a number is kept": _filled(RECORD, KEPT),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], "GG106")


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name])


SETTER = """
    class Meter:
        def __init__(self):
            self.losses = []

        @property
        def last(self):
            return self.losses[-1]

        @last.setter
        def last(self, value):
            self.losses.append(value)

    def train(net, loader, opt):
        meter = Meter()
        for x, y in loader:
            loss = F.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            meter.last = loss  # !
"""


def test_a_setter_that_collects() -> None:
    assert_flagged(SETTER, "GG107")
    assert_clean(twin(SETTER, ("meter.last = loss", "meter.last = loss.item()")))
    assert_clean(twin(SETTER, ("append(value)", "append(value.detach())")))
    assert_clean(twin(SETTER, ("self.losses = []", "self.losses = deque(maxlen=9)")))


def test_a_getter_that_detaches() -> None:
    assert_clean(_filled(RECORD.replace("return self._loss", "return self._loss.detach()"), AVERAGE[:-5]))


PRICE = """
        class Constraint:
            def __init__(self, limit, rate):
                self.limit, self.rate = limit, rate
                self.price = torch.tensor(0.1)

            @property
            def price(self):
                return self._price

            @price.setter
            def price(self, value):
                self._price = <set>

            def update(self, cost):
                <update>

        def train(policy, loader, opt):
            speed = Constraint(1.0, 0.1)
            for x in loader:
                cost = policy(x).mean()
                loss = -cost + float(speed.price) * cost
                opt.zero_grad()
                loss.backward()
                opt.step()
                speed.update(policy(x).mean())<mark>
"""
ADDS = "self.price += self.rate * (cost - self.limit)"


def priced(update: str, bound: str = "value.clamp(min=0.0)", mark: str = "") -> str:
    return PRICE.replace("<set>", bound).replace("<update>", update).replace("<mark>", mark)


@pytest.mark.parametrize("update", [ADDS, ADDS.replace("+= ", "= self.price + "), ADDS.replace("+=", "-=")])
def test_a_setter_that_goes_on_with_the_graph(update: str) -> None:
    assert_flagged(priced(update, mark="  # !"), "GG105")


@pytest.mark.parametrize(
    "snippet",
    [
        priced(ADDS, "value.detach().clamp(min=0.0)"),
        priced(ADDS, "float(value)"),
        priced(ADDS.replace("cost -", "cost.item() -")),
        priced("self.limit += 0.1"),
        priced("with torch.no_grad():\n                    " + ADDS),
    ],
)
def test_a_setter_that_cuts_it(snippet: str) -> None:
    assert_clean(snippet)


SPLATS = """
        class Splats:
            def __init__(self, n):
                self._opacity = nn.Parameter(torch.rand(n, 1))

            @property
            def opacity(self):
                return torch.sigmoid(self._opacity)

        def fit(target, steps):
            splats = Splats(512)
            optimizer = torch.optim.Adam([splats._opacity])
            for _ in range(steps):
                loss = (splats.opacity - target).abs().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""


@pytest.mark.parametrize(
    "snippet",
    [
        SPLATS,
        twin(SPLATS, ("loss = (splats.opacity -", "now = splats.opacity\n                loss = (now -")),
        twin(SPLATS, ("abs().mean()", "abs().mean() + splats.opacity.mean()")),
    ],
)
def test_what_a_property_gives_is_made_where_it_is_read(snippet: str) -> None:
    assert_clean(snippet, "GG203")


def test_what_a_property_gave_before_the_loop_is_gone() -> None:
    made = twin(SPLATS, ("for _ in", "now = splats.opacity\n            for _ in"), ("(splats.opacity -", "(now -"))
    assert_flagged(made.replace("loss.backward()", "loss.backward()  # !"), "GG203")

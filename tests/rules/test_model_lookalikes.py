"""An object that is named as a model, and is one of the program that runs a model without gradients."""

from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from gradguard.static.reading.model_lookalikes import _INTERFACE
from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG301"

POLICY = """
        class Policy:
            def __init__(self, net):
                self.net = net

            def {method}(self, x):
                self.net.eval()
                {mode}:
                    return self.net(x)

            def reset(self):
                pass

            @property
            def eval_mode(self):
                return Interface(self.{method}, self.reset)

        {interface}
"""
METHOD = """
        class Evaluator:
            def __init__(self, loader, policy):
                self.policy, self.loader = policy, loader

            def eval(self):
                self.policy.reset()
                results = []
                for i, batch in enumerate(self.loader):
                    x, y = move(batch)
                    out = self.policy{call}(x){mark}
                    results.append(self.metric.eval(out, y))
                return results
"""
FUNCTION = """
        def evaluate(policy, loader):
            for x, y in loader:
                out = policy{call}(x){mark}
                print((out.argmax(1) == y).sum().item())
"""
INTERFACES = [
    'Interface = namedtuple("Interface", ["forward", "reset"])',
    'Interface = collections.namedtuple("Interface", "forward reset")',
    "class Interface(NamedTuple):\n            forward: Callable\n            reset: Callable",
]
OFF = "with torch.no_grad()"


@pytest.mark.parametrize("user", [METHOD, FUNCTION])
@pytest.mark.parametrize("interface", INTERFACES)
def test_a_tuple_of_functions_with_a_forward(user: str, interface: str) -> None:
    policy = POLICY.format(method="_forward_eval", mode=OFF, interface=interface)
    assert_clean(policy + user.format(call=".forward", mark=""), CODE)
    assert_flagged(policy + user.format(call=".forward", mark="  # !"), CODE, Confidence.LOW)


@pytest.mark.parametrize("user", [METHOD, FUNCTION])
@pytest.mark.parametrize(("method", "call"), [("forward", ".forward"), ("__call__", "")])
@pytest.mark.parametrize("mode", [OFF, "with torch.inference_mode()"])
def test_a_class_that_is_no_module(user: str, method: str, call: str, mode: str) -> None:
    policy = POLICY.format(method=method, mode=mode, interface="Interface = list")
    assert_clean(policy + user.format(call=call, mark=""), CODE)
    assert_flagged(policy + user.format(call=call, mark="  # !"), CODE, Confidence.LOW)


@pytest.mark.parametrize("user", [METHOD, FUNCTION])
@pytest.mark.parametrize(("method", "call"), [("forward", ".forward"), ("forward", ""), ("__call__", "")])
def test_a_class_that_records_graphs(user: str, method: str, call: str) -> None:
    policy = POLICY.format(method=method, mode="with timer()", interface="Interface = list")
    assert_flagged(policy + user.format(call=call, mark="  # !"), CODE)


@pytest.mark.parametrize("user", [METHOD, FUNCTION])
def test_a_call_of_a_module(user: str) -> None:
    policy = POLICY.format(method="forward", mode=OFF, interface=INTERFACES[0])
    assert_flagged(policy + user.format(call="", mark="  # !"), CODE)


def test_a_model_that_is_put_into_evaluation_is_a_module() -> None:
    policy = POLICY.format(method="forward", mode=OFF, interface=INTERFACES[0])
    user = FUNCTION.replace("            for x, y", "            policy.eval()\n            for x, y")
    assert_flagged(policy + user.format(call=".forward", mark="  # !"), CODE)


def test_a_record_of_many_fields_is_soon_read() -> None:
    """A search that tries each blank at the end of each line would not come to an end."""
    fields = "".join(f"    field_{number}: int  \n\n" for number in range(500))
    assert _INTERFACE.search(f"class Batch(NamedTuple):\n{fields}\nx = 1\n    forward: int\n") is None
    assert _INTERFACE.search(f"class Policy(NamedTuple):  # of one agent\n{fields}    forward: Callable\n") is not None


BASELINE = """
        class Baseline:
            def __init__(self, vectors, tags):
                self.vectors, self.tags = vectors, tags

            def {method}(self, batch):
                rows = []
                for text in batch:
                    rows.append([self.tags[word] for word in text.tolist() if self.vectors.similarity(word, 0) > 0.5])
                return rows

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 3)

            def forward(self, x):
                return self.fc(x)

        class Wrapper:
            def __init__(self, net):
                self.net = net

            def __call__(self, batch):
                return self.net(batch)

        class Remote(client.Model):
            def __call__(self, batch):
                return self.answers[batch]
"""
EVALUATION = """
        def evaluate(loader, model, names):
            lines = []
            for x, y in loader:
                out = model(x){mark}
                lines += [f"{{names[tag]}}" for row in out for tag in row]
            return lines

        if __name__ == "__main__":
            evaluate(loader, {made}, names)
"""
FITTED = """
        def fit(loader, vectors):
            model = {made}
            evaluate(loader, model, vectors.names)
"""


@pytest.mark.parametrize("made", ["Baseline(vectors, tags)", "Baseline(vectors=load(path), tags=tags)", "Remote(path)"])
def test_an_object_that_computes_without_a_model(made: str) -> None:
    baseline = BASELINE.format(method="__call__")
    assert_clean(baseline + EVALUATION.format(made=made, mark=""), CODE)
    assert_clean(baseline + EVALUATION.format(made=made, mark="") + FITTED.format(made=made), CODE)
    assert_flagged(baseline + EVALUATION.format(made=made, mark="  # !"), CODE, Confidence.LOW)


@pytest.mark.parametrize("made", ["Net()", "Wrapper(Net())", "build(config)"])
def test_what_is_made_of_another_class(made: str) -> None:
    baseline = BASELINE.format(method="__call__")
    assert_flagged(baseline + EVALUATION.format(made=made, mark="  # !"), CODE)


@pytest.mark.parametrize(("first", "second"), [("Baseline(vectors, tags)", "Net()"), ("Net()", "Baseline(v, t)")])
def test_a_model_beside_one_that_is_none(first: str, second: str) -> None:
    evaluation = EVALUATION.format(made=first, mark="  # !") + FITTED.format(made=second)
    assert_flagged(BASELINE.format(method="__call__") + evaluation, CODE)


def test_a_class_that_cannot_be_called() -> None:
    baseline = BASELINE.format(method="tag")
    assert_flagged(baseline + EVALUATION.format(made="Baseline(vectors, tags)", mark="  # !"), CODE)


def test_what_is_given_is_put_into_a_model() -> None:
    evaluation = EVALUATION.format(made="Baseline(vectors, tags)", mark="  # !").replace(
        "            lines = []\n", "            lines = []\n            model = nn.Sequential(Embed(model), Head())\n"
    )
    assert_flagged(BASELINE.format(method="__call__") + evaluation, CODE)

"""Weights by hand: a list of tensors whose gradients a loop asks for, in the function or in one that makes them."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG105"

HERE = """
        def train(batches):
            weights = [torch.randn(8, 8) * 0.1, torch.randn(8, 8), torch.zeros(8)]
            {marking}
            w_x, w_h, bias = weights
            state = torch.zeros(4, 8)
            for x in batches:
                state = {new}{mark}
                state.pow(2).mean().backward(retain_graph=True)
"""

IN_A_CLASS = """
        def make_weights(width):
            def normal(*shape):
                return torch.randn(*shape) * 0.05

            weights = [normal(width, width), normal(width, width), torch.zeros(width)]
            {marking}
            return weights

        class Recurrent:
            def __init__(self, width):
                self.width = width
                self.weights = make_weights(width)

            def start(self, n):
                return (torch.zeros(n, self.width),)

            def __call__(self, inputs, state):
                w_x, w_h, bias = self.weights
                h, = state
                outputs = []
                for x in inputs:
                    h = torch.tanh(x @ w_x + h @ w_h + bias)
                    outputs.append(h @ w_x)
                return torch.cat(outputs, 0), ({new},)

        def epoch(model, data):
            state = None
            for x, y in data:
                if state is None:
                    state = model.start(4)
                out, state = model(x, state){mark}
                loss = F.cross_entropy(out, y)
                loss.backward(retain_graph=True)

        epoch(Recurrent(8), [])
"""
NEW = "torch.tanh(x @ w_x + state @ w_h + bias)"

MARKING = [
    "for w in weights: w.requires_grad_(True)",
    "for w in weights: w.requires_grad_()",
    "for w in weights: w.requires_grad = True",
    "for w in weights: print(w.shape); w.requires_grad_(requires_grad=True)",
]
MARKING_NONE = [
    "pass",
    "for w in weights: w.requires_grad_(False)",
    "for w in weights: w.requires_grad = False",
    "for w in weights: w = w.clone(); w.requires_grad_()",
    "for w in [w.clone() for w in weights]: w.requires_grad_()",
    "for w in weights: print(w.requires_grad)",
]


@pytest.mark.parametrize("marking", MARKING)
def test_each_tensor_of_a_list_asks_for_a_gradient(marking: str) -> None:
    assert_flagged(HERE.format(marking=marking, new=NEW, mark="  # !"), CODE)


@pytest.mark.parametrize("marking", MARKING)
def test_weights_that_a_function_makes(marking: str) -> None:
    assert_flagged(IN_A_CLASS.format(marking=marking, new="h", mark="  # !"), CODE)


@pytest.mark.parametrize("marking", MARKING_NONE)
def test_a_list_whose_tensors_ask_for_none(marking: str) -> None:
    assert_clean(HERE.format(marking=marking, new=NEW, mark=""), CODE)
    assert_clean(IN_A_CLASS.format(marking=marking, new="h", mark=""), CODE)


@pytest.mark.parametrize("marking", MARKING)
def test_a_state_that_is_cut(marking: str) -> None:
    assert_clean(HERE.format(marking=marking, new=f"{NEW}.detach()", mark=""), CODE)
    assert_clean(HERE.format(marking=marking, new=NEW.replace("state @", "state.detach() @"), mark=""), CODE)
    assert_clean(IN_A_CLASS.format(marking=marking, new="h.detach()", mark=""), CODE)


def test_the_retained_graph_grows_with_the_state() -> None:
    for snippet in (HERE, IN_A_CLASS):
        carried = snippet.format(marking=MARKING[0], new=NEW if snippet is HERE else "h", mark="")
        assert_flagged(carried.replace("retain_graph=True)", "retain_graph=True)  # !"), "GG101")

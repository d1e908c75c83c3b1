"""A meter that converts what it is given where that is a tensor: which ways of asking leave a number behind."""

from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged

METER = """
        from torch.autograd import Variable

        class Meter:
            def __init__(self):
                self.total = 0.0

            def update(self, value, strict=None):
                {convert}
                self.total += value

        def train(model, loader, optimizer):
            meter = Meter()
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                meter.update(loss){mark}
"""


def meter(*convert: str, mark: str = "") -> str:
    return METER.format(convert=("\n" + " " * 16).join(convert), mark=mark)


@pytest.mark.parametrize(
    "test",
    [
        "isinstance(value, torch.autograd.Variable)",
        "isinstance(value, Variable)",
        "isinstance(value, (torch.Tensor, Variable))",
        "isinstance(value, (float, torch.Tensor))",
        "not isinstance(value, (int, float))",
        "type(value) is torch.Tensor",
        "type(value) == torch.Tensor",
        "type(value) in (torch.Tensor, Variable)",
        "type(value) not in (int, float)",
        "type(value) != float",
    ],
)
def test_a_tensor_that_is_asked_for_is_converted(test: str) -> None:
    assert_clean(meter(f"if {test}:", "    value = value.data"), confidence=Confidence.LOW)
    assert_clean(meter(f"value = value.item() if {test} else value"), confidence=Confidence.LOW)


@pytest.mark.parametrize(
    "test",
    [
        "isinstance(value, (int, float))",
        "isinstance(value, list)",
        "isinstance(value, (list, float))",
        "type(value) is not torch.Tensor",
        "type(value) == float",
        "type(strict) is torch.Tensor",
        "isinstance(strict, (torch.Tensor, float))",
    ],
)
def test_another_question_converts_no_tensor(test: str) -> None:
    assert_flagged(meter(f"if {test}:", "    value = value.data", mark="  # !"), "GG107")


@pytest.mark.parametrize("handler", ["except AttributeError", "except (AttributeError, TypeError)", "except Exception"])
def test_what_has_no_method_of_tensors_is_a_number(handler: str) -> None:
    assert_clean(meter("try:", "    value = value.item()", f"{handler}:", "    pass"), confidence=Confidence.LOW)
    assert_clean(meter("try:", "    value = value.detach()", f"{handler}:", "    value = float(value)"))


@pytest.mark.parametrize("handler", ["except RuntimeError", "except (ValueError, RuntimeError)"])
def test_a_tensor_of_more_than_one_element_stays_one(handler: str) -> None:
    assert_flagged(meter("try:", "    value = value.item()", f"{handler}:", "    pass", mark="  # !"), "GG107")


def test_a_later_statement_may_raise_for_another_reason() -> None:
    convert = ("try:", "    self.rate = strict.rate", "    value = value.item()", "except AttributeError:", "    pass")
    assert_flagged(meter(*convert, mark="  # !"), "GG107")


def test_another_value_was_asked() -> None:
    convert = ("try:", "    strict = strict.item()", "except AttributeError:", "    pass")
    assert_flagged(meter(*convert, mark="  # !"), "GG107")

"""What operations of torch keep for their backward, measured: a change in place of what is kept makes that raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradguard.static.backward.in_place import _DROPOUTS, _FUNCTIONS, _LAYERS, _MAY_BE_IN_PLACE, _METHODS
from gradguard.static.backward.kept_for_backward import KEEP_INPUT, KEEP_RESULT, LAYERS_KEEP_INPUT, LAYERS_KEEP_RESULT

torch: Any = pytest.importorskip("torch")

# What each operation keeps: its result, what it is given.
MEASURED = {
    "sigmoid": "result", "tanh": "result", "exp": "result", "exp2": "result", "expm1": "result", "relu": "result",
    "sqrt": "result", "rsqrt": "result", "reciprocal": "result", "softmax": "result", "softmin": "result",
    "log_softmax": "result", "expit": "result", "logsumexp": "both", "norm": "both", "amax": "both", "amin": "both",
    "std": "both", "cumprod": "both", "prod": "both", "sin": "input", "cos": "input", "log": "input", "log1p": "input",
    "log2": "input", "log10": "input", "abs": "input", "square": "input", "erf": "input", "gelu": "input",
    "silu": "input", "mish": "input", "elu": "input", "selu": "input", "celu": "input", "leaky_relu": "input",
    "softplus": "input", "logsigmoid": "input", "hardtanh": "input", "relu6": "input", "hardswish": "input",
    "hardsigmoid": "input", "clamp": "input", "var": "input", "neg": "nothing", "mean": "nothing", "sum": "nothing",
    "dropout": "nothing", "clone": "nothing", "cumsum": "nothing", "tril": "nothing",
}  # fmt: skip
GIVEN: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(["softmax", "softmin", "log_softmax", "logsumexp", "amax", "amin", "cumprod", "cumsum"], (-1,)),
    "clamp": (0.6, 0.9),
}
LAYERS: dict[str, tuple[Any, ...]] = {
    "Linear": (4, 4), "Conv1d": (4, 4, 1), "Conv2d": (4, 4, 1), "Conv3d": (4, 4, 1), "ConvTranspose1d": (4, 4, 1),
    "ConvTranspose2d": (4, 4, 1), "ConvTranspose3d": (4, 4, 1), "BatchNorm1d": (4,), "BatchNorm2d": (4,),
    "BatchNorm3d": (4,), "LayerNorm": (4,), "GroupNorm": (2, 4), "PReLU": (), "RNNCell": (4, 4), "GRUCell": (4, 4),
    "LSTMCell": (4, 4),
}  # fmt: skip


def operation(name: str) -> Callable[[Any], Any]:
    homes = (torch.special, torch.nn.functional, torch)
    found = next(getattr(home, name) for home in homes if hasattr(home, name))
    return lambda x: found(x, *GIVEN.get(name, ()))


def raises(given: Any, run: Callable[[Any], Any], change: Callable[[Any, Any], None]) -> bool:
    """Whether the backward of what is computed raises after a change."""
    result = run(given)
    change(given, result)
    try:
        result.sum().backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return False


def tensor(*shape: int) -> Any:
    """One with a graph, that is no leaf."""
    return torch.rand(*shape).add(0.5).requires_grad_() * 1


@pytest.mark.parametrize("name", MEASURED)
def test_what_an_operation_keeps(name: str) -> None:
    of_result = raises(tensor(4, 4), operation(name), lambda _, y: y.mul_(0.5))
    of_input = raises(tensor(4, 4), operation(name), lambda x, _: x.mul_(0.5))
    kept = {(True, True): "both", (True, False): "result", (False, True): "input", (False, False): "nothing"}
    assert kept[of_result, of_input] == MEASURED[name]
    assert of_result or name not in KEEP_RESULT
    assert of_input or name not in KEEP_INPUT


def test_all_that_is_known_was_measured() -> None:
    assert set(MEASURED) >= KEEP_RESULT | KEEP_INPUT
    assert set(LAYERS) == LAYERS_KEEP_INPUT


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_keeps_what_it_is_given_also_if_that_has_no_graph(name: str) -> None:
    layer = getattr(torch.nn, name)(*LAYERS[name])
    dimensions = {"2d": 4, "3d": 5}.get(name[-2:], 3) if not name.endswith("Cell") and name != "Linear" else 2
    shape = (4,) * dimensions

    def run(x: Any) -> Any:
        if not name.endswith("Cell"):
            return layer(x)
        state = x.new_zeros(4, 4)
        result = layer(x, (state, state) if name == "LSTMCell" else state)
        return result[0] if isinstance(result, tuple) else result

    assert raises(torch.rand(*shape), run, lambda x, _: x.mul_(0.5))


@pytest.mark.parametrize("name", LAYERS_KEEP_RESULT)
def test_a_layer_keeps_its_result(name: str) -> None:
    shape = (2, 4, 4, 4) if name == "Softmax2d" else (4, 4)
    layer = getattr(torch.nn, name)(*([-1] if name in ("Softmax", "Softmin", "LogSoftmax") else []))
    assert raises(tensor(*shape), layer, lambda _, y: y.mul_(0.5))


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, y: x * y, "quotient": lambda x, y: x / y, "mm": torch.mm, "power": lambda x, _: x**2,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_keeps_its_operands(name: str) -> None:
    other = tensor(4, 4)
    assert raises(tensor(4, 4), lambda x: OPERATORS[name](x, other), lambda x, _: x.mul_(0.5))
    if name != "power":
        assert raises(tensor(4, 4), lambda x: OPERATORS[name](x, other * 1), lambda x, _: x.add_(0.5))
        assert not raises(tensor(4, 4), lambda x: OPERATORS[name](x, torch.rand(4, 4)), lambda x, _: x.mul_(0.5))


MASK = torch.rand(4, 4) > 0.5
ROW = torch.tensor([0])
METHODS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(["mul_", "add_", "sub_", "div_", "multiply_", "divide_", "subtract_", "true_divide_"], (2,)),
    **dict.fromkeys(["pow_", "clamp_min_", "clamp_max_", "fill_"], (2,)),
    **dict.fromkeys(["clamp_", "clip_"], (-9, 9)),
    **dict.fromkeys(["addcmul_", "addcdiv_", "addmm_"], (torch.ones(4, 4), torch.ones(4, 4))),
    "masked_fill_": (MASK, 0), "masked_scatter_": (MASK, torch.ones(16)), "copy_": (torch.ones(4, 4),),
    "index_fill_": (0, ROW, 0.0), "index_add_": (0, ROW, torch.ones(1, 4)), "index_copy_": (0, ROW, torch.ones(1, 4)),
    "index_put_": ((ROW,), torch.tensor(1.0)), "scatter_": (0, ROW.expand(1, 4), 0.0),
    "scatter_add_": (0, ROW.expand(1, 4), torch.ones(1, 4)), "lerp_": (torch.ones(4, 4), 0.5),
    "renorm_": (2, 0, 1.0), "unsqueeze_": (0,), "transpose_": (0, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(_METHODS - {"baddbmm_"}))
def test_a_method_counts_as_a_change(name: str) -> None:
    change = METHODS.get(name, ())
    assert raises(tensor(4, 4), torch.sigmoid, lambda _, y: getattr(y, name)(*change))


@pytest.mark.parametrize("name", sorted(_FUNCTIONS))
def test_a_function_counts_as_a_change(name: str) -> None:
    home = torch.nn.functional if hasattr(torch.nn.functional, name) else torch
    given = (0.5, 0.0) if name == "threshold_" else ()
    assert raises(tensor(4, 4), torch.sigmoid, lambda _, y: getattr(home, name)(y, *given))


@pytest.mark.parametrize("name", [*_MAY_BE_IN_PLACE, *sorted(_DROPOUTS)])
def test_a_function_in_place_counts_as_a_change(name: str) -> None:
    change = getattr(torch.nn.functional, name)
    given = (0.5, 0.0) if name == "threshold" else (0.5, True) if name in _DROPOUTS else ()
    shape = {"dropout1d": (2, 4, 4), "dropout2d": (2, 4, 4, 4), "dropout3d": (2, 4, 4, 4, 4)}.get(name, (4, 4))
    assert raises(tensor(*shape), torch.sigmoid, lambda _, y: change(y, *given, inplace=True))


@pytest.mark.parametrize("name", _LAYERS)
def test_a_layer_in_place_counts_as_a_change(name: str) -> None:
    given = (0.5, 0.0) if name == "Threshold" else ()
    layer = getattr(torch.nn, name)(*given, inplace=True)
    shape = {"Dropout1d": (2, 4, 4), "Dropout2d": (2, 4, 4, 4), "Dropout3d": (2, 4, 4, 4, 4)}.get(name, (4, 4))
    assert raises(tensor(*shape), torch.sigmoid, lambda _, y: layer(y))


@pytest.mark.parametrize(
    "view",
    [
        lambda y: y.view(-1), lambda y: y.T, lambda y: y.transpose(0, 1), lambda y: y[:, 0], lambda y: y[1],
        lambda y: y.permute(1, 0), lambda y: y.unsqueeze(0), lambda y: y.squeeze(), lambda y: y.select(0, 1),
        lambda y: y.narrow(0, 0, 1), lambda y: y.view_as(y), lambda y: y.detach(),
    ],
)  # fmt: skip
def test_a_view_changes_the_whole(view: Callable[[Any], Any]) -> None:
    assert raises(tensor(4, 4), torch.sigmoid, lambda _, y: view(y).mul_(2))


def test_what_is_no_change() -> None:
    for copy in (lambda y: y[MASK], lambda y: y.clone(), lambda y: y.data, lambda y: y[[0, 1]]):
        assert not raises(tensor(4, 4), torch.sigmoid, lambda _, y, copy=copy: copy(y).mul_(2))
    dropped = torch.nn.functional.dropout
    assert not raises(tensor(4, 4), torch.sigmoid, lambda _, y: dropped(y, 0.5, False, True))

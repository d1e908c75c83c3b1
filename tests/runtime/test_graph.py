"""The graph of one tensor: what is read of it, and how it is arranged."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gradguard  # noqa: E402
from gradguard.alive import Chain, GraphNode, Link, More, Part, Repeat, TensorGraph  # noqa: E402
from gradguard.runtime import saved_tensors  # noqa: E402
from gradguard.runtime.graph import graph_of  # noqa: E402
from gradguard.runtime.graph_layout import Node, arrange  # noqa: E402


def read(tensor: object) -> TensorGraph:
    return graph_of(tensor, sys._getframe(1))


def every(parts: Chain) -> Iterator[Part]:
    for part in parts:
        yield part
        for branch in part.branches if isinstance(part, GraphNode) else ():
            yield from every(branch)


def operations(parts: Chain) -> list[str]:
    return [part.operation.removesuffix("Backward0") for part in every(parts) if isinstance(part, GraphNode)]


def states(graph: TensorGraph) -> set[str]:
    return set(graph.states)


def mlp() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


# --- what is read -------------------------------------------------------------------------------------------------


def test_a_chain_from_the_result_to_the_leaves() -> None:
    model = mlp()
    x = torch.randn(5, 8)
    graph = read(model(x).pow(2).mean())
    assert operations(graph.parts) == ["Mean", "Pow", "Addmm", "Relu", "Addmm"]
    first, last = graph.parts[2], graph.parts[-1]
    assert isinstance(first, GraphNode)
    assert isinstance(last, GraphNode)
    assert first.leaves == ("model.2.bias", "model.2.weight.T")
    assert last.leaves == ("model.0.bias", "model.0.weight.T")
    assert (graph.nodes, graph.leaves, graph.cut) == (11, 4, False)
    assert states(graph) == {"alive"}


def test_each_storage_counts_once_and_parameters_do_not() -> None:
    model = mlp()
    graph = read(model(torch.randn(5, 8)).pow(2).mean())
    sizes = {part.operation: part.saved for part in graph.parts if isinstance(part, GraphNode)}
    # the output of 5 x 4, the hidden layer of 5 x 16 (saved by the linear layer and by relu), the input of 5 x 8
    assert graph.saved == 4 * (5 * 4 + 5 * 16 + 5 * 8)
    assert sizes["ReluBackward0"] == 0


def test_frozen_parameters_and_buffers_do_not_count() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
    model[2].requires_grad_(False)
    graph = read(model.eval()(torch.zeros(3, 8)))
    assert graph.saved == 4 * 3 * 8 * 2  # the inputs of the linear layer and of the norm


def test_backward_frees_what_was_saved_unless_the_graph_is_retained() -> None:
    loss = mlp()(torch.randn(5, 8)).pow(2).mean()
    loss.backward(retain_graph=True)
    assert states(read(loss)) == {"alive"}
    loss.backward()
    graph = read(loss)
    assert (states(graph), graph.saved, graph.nodes) == ({"freed"}, 0, 11)


def test_several_tensors_in_one_attribute_are_freed_too() -> None:
    x = torch.randn(5, 8, requires_grad=True)
    picked = x[torch.tensor([1, 2])]
    assert (states(read(picked)), read(picked).saved) == ({"alive"}, 16)
    picked.sum().backward()
    assert states(read(picked)) == {"freed"}


def test_a_function_of_the_user() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x + 0)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    class Keeps(Double):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.kept = [x * 3]
            ctx.save_for_backward(x + 0)
            return x * 2

    x = torch.randn(5, 8, requires_grad=True)
    for function, after in ((Double, ("freed", 0)), (Keeps, ("partly freed", 160))):
        y = function.apply(x)
        (before,) = read(y).parts
        assert isinstance(before, GraphNode)
        assert (before.operation, before.state, before.leaves) == (f"{function.__name__}Backward", "alive", ("x",))
        y.sum().backward()
        (freed,) = read(y).parts
        assert isinstance(freed, GraphNode)
        assert (freed.state, freed.saved) == after


class Hooks:
    """Saved-tensor hooks that note their calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pack(self, tensor: Any) -> list[Any]:
        self.calls.append("pack")
        return [tensor.detach().clone()]

    def unpack(self, packed: list[Any]) -> Any:
        self.calls.append("unpack")
        return packed[0]


@pytest.fixture(params=["raw form", "tripwire"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With what torch tells of hooks, and as if it did not (torch 2.4)."""
    if request.param == "tripwire":

        class Mute:
            def __init__(self, raw: Any) -> None:
                pass

        read_one = saved_tensors.SavedTensors._read_one

        def muted(self: Any, node: Any, name: str, index: Any, raw: Any, found: Any) -> None:
            read_one(self, node, name, index, Mute(raw), found)

        monkeypatch.setattr(saved_tensors.SavedTensors, "_read_one", muted)
    return str(request.param)


def test_hooks_of_the_user_are_not_run(reader: str) -> None:
    hooks = Hooks()
    x = torch.randn(5, 8, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(hooks.pack, hooks.unpack):
        y = x.exp().pow(2)
    before = list(hooks.calls)
    assert states(read(y)) == {"packed"}
    gradguard.snapshot()
    assert hooks.calls == before
    y.sum().backward()
    assert "unpack" in hooks.calls
    assert states(read(y)) == {"freed"}


def test_without_hooks_all_is_read(reader: str) -> None:
    y = torch.randn(5, 8, requires_grad=True).exp().sin()
    assert (states(read(y)), read(y).saved) == ({"alive"}, 160)
    y.sum().backward()
    assert states(read(y)) == {"freed"}


def test_a_profiler_stays(reader: str) -> None:
    y = torch.randn(5, 8, requires_grad=True).exp()
    seen: list[str] = []

    def profiler(frame: object, event: str, argument: object) -> None:
        seen.append(event)

    sys.setprofile(profiler)
    try:
        read(y)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert seen


def test_what_a_hook_packed_counts_where_it_is_seen() -> None:
    if not hasattr(torch._C._autograd.SavedTensor, "unpack_hook"):
        pytest.skip("this torch does not tell what a hook made")
    hooks = Hooks()
    with torch.autograd.graph.saved_tensors_hooks(hooks.pack, hooks.unpack):
        y = torch.randn(5, 8, requires_grad=True).exp()
    assert read(y).saved == 160


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_not_recomputed(reader: str, reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    calls = []

    def layer(x: Any) -> Any:
        calls.append(1)
        return x.exp().sin()

    x = torch.randn(5, 8, requires_grad=True)
    y = checkpoint(layer, x, use_reentrant=reentrant)
    graph = read(y)
    gradguard.snapshot()
    assert calls == [1]
    assert operations(graph.parts) == (["CheckpointFunctionBackward"] if reentrant else ["Sin", "Exp"])
    y.sum().backward()
    assert calls == [1, 1]


def test_a_saved_tensor_that_was_changed_in_place_is_alive(reader: str) -> None:
    y = torch.randn(5, 8, requires_grad=True).exp()
    z = y.pow(2)
    y.add_(1)
    assert "alive" in states(read(z))
    assert "freed" not in states(read(z))


def test_the_line_is_known_in_anomaly_mode() -> None:
    x = torch.randn(3, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        y = x.exp()  # this line
        (node,) = read(y).parts
    assert isinstance(node, GraphNode)
    assert node.line is not None
    assert node.line.path.endswith("test_graph.py")
    assert node.line.code == "y = x.exp()  # this line"


def test_a_watch_knows_the_step_of_each_backward() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []
    with gradguard.watch(report=False):
        for _ in range(8):
            loss = model(torch.randn(5, 8)).mean()
            loss.backward()
            optimizer.step()
            kept.append(loss)
        heads = [read(each).parts[0] for each in kept]
    steps = [part.step for part in heads if isinstance(part, GraphNode) and part.step is not None]
    assert steps[2:] == list(range(steps[2], steps[2] + 6))  # the first few end where no optimizer was seen yet


@pytest.mark.parametrize("argument", [3.0, None, [1, 2], "loss"])
def test_what_is_no_tensor_is_refused(argument: object) -> None:
    name = type(argument).__name__
    with pytest.raises(TypeError, match=rf"show_graph\(\) wants a torch.Tensor, and got an? {name}"):
        gradguard.show_graph(argument)


def test_why_there_is_no_graph() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    with torch.no_grad():
        under = parameter * 2
    with torch.inference_mode():
        inferred = parameter * 2
    for tensor, why in (
        (parameter, "it is a leaf"),
        (parameter.detach(), "detached"),
        (under, "no_grad"),
        (inferred, "inference_mode"),
        (torch.arange(3), "floating-point"),
    ):
        graph = read(tensor)
        assert why in str(graph.why)
        assert (graph.parts, graph.nodes) == ((), 0)


def test_a_leaf_without_a_name_has_its_shape() -> None:
    graph = read(torch.ones(3, 2, requires_grad=True).exp())
    (node,) = graph.parts
    assert isinstance(node, GraphNode)
    assert node.leaves == ("leaf (3, 2)",)


def test_nothing_is_kept_alive_and_nothing_is_changed() -> None:
    model = mlp()
    x = torch.randn(5, 8)
    hidden = model[0](x)
    out = model[2](hidden.relu())
    hidden_is = weakref.ref(hidden)
    gc.collect()
    gc.disable()
    try:
        graph = read(out)
        grad_mode = torch.is_grad_enabled()
        del hidden, out, x
        assert hidden_is() is None
    finally:
        gc.enable()
    assert grad_mode
    assert graph.nodes
    out = model(torch.ones(1, 8)).sum()
    read(out)
    out.backward()
    assert model[0].weight.grad is not None


def test_a_large_graph_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradguard.runtime.graph.MAX_NODES", 100)
    y = torch.ones(2, requires_grad=True)
    for _ in range(1000):
        y = y.exp()
    graph = read(y)
    assert (graph.nodes, graph.cut) == (100, True)


# --- how it is arranged -------------------------------------------------------------------------------------------


def test_an_unrolled_network_is_folded() -> None:
    cell = torch.nn.RNNCell(8, 8)
    h, x = torch.zeros(5, 8), torch.randn(5, 8)
    for _ in range(50):
        h = cell(x, h)
    graph = read(h.sum())
    (repeat,) = (part for part in every(graph.parts) if isinstance(part, Repeat))
    assert (repeat.times, repeat.nodes) == (49, 6)
    assert len(list(every(graph.parts))) < 10
    sizes = sum(part.saved for part in every(graph.parts) if isinstance(part, (GraphNode, Repeat)))
    assert sizes == graph.saved


def test_gates_and_what_all_steps_share_do_not_stop_the_folding() -> None:
    cell, embed = torch.nn.GRUCell(8, 8), torch.nn.Linear(3, 8)
    h = torch.zeros(5, 8)
    for x in embed(torch.randn(50, 5, 3)).unbind():
        h = cell(x, h)
    graph = read(h.sum())
    assert max(part.times for part in every(graph.parts) if isinstance(part, Repeat)) >= 45
    assert len(list(every(graph.parts))) < 60


def test_layers_are_folded_though_their_names_differ() -> None:
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()) for _ in range(12)))
    graph = read(model(torch.ones(1, 8)))
    assert [part.times for part in graph.parts if isinstance(part, Repeat)] == [11]


def test_a_shared_encoder_stands_once() -> None:
    encoder, left, right = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1), torch.nn.Linear(8, 3)
    code = encoder(torch.ones(2, 8)).relu()
    graph = read(left(code).sum() + right(code).pow(2).sum())
    assert operations(graph.parts).count("Relu") == 1
    (link,) = (part for part in every(graph.parts) if isinstance(part, Link))
    (relu,) = (part for part in every(graph.parts) if isinstance(part, GraphNode) and part.number is not None)
    assert (link.operation, link.number) == (relu.operation, relu.number) == ("ReluBackward0", 1)


def test_a_shortcut_is_a_link_to_what_comes_later() -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return (x + self.inner(x)).relu()

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), *(Block() for _ in range(20)))
    graph = read(model(torch.ones(1, 8)))
    assert max(_nesting(graph.parts), 0) == 1
    assert sum(part.times for part in graph.parts if isinstance(part, Repeat)) >= 18


def _nesting(parts: Chain) -> int:
    below = [_nesting(branch) for part in parts if isinstance(part, GraphNode) for branch in part.branches]
    return 1 + max(below) if below else 0


def chain_of(*names: str) -> list[Node]:
    return [Node(name, (at + 1,) if at + 1 < len(names) else ()) for at, name in enumerate(names)]


def test_what_comes_twice_is_written_out() -> None:
    assert [part.operation for part in arrange(chain_of(*"abab")) if isinstance(part, GraphNode)] == list("abab")
    parts = arrange(chain_of(*"xababababy"))
    assert parts[3] == Repeat(nodes=2, times=3, saved=0)
    assert [part.operation for part in parts if isinstance(part, GraphNode)] == list("xaby")


@pytest.mark.parametrize("lines", [2, 5, 20])
def test_there_is_an_end_and_all_are_counted(lines: int) -> None:
    names = [f"node{'x' * at}" for at in range(200)]
    parts = arrange(chain_of(*names), lines)
    assert len(parts) == lines
    assert parts[-1] == More(nodes=200 - lines + 1, saved=0)


def test_wide_and_deep_graphs_end_too() -> None:
    """A binary tree of 12 levels, and 3,000 nodes each of which refers to the next two."""
    tree = [Node(f"n{'x' * (at % 7)}", tuple(i for i in (2 * at + 1, 2 * at + 2) if i < 4095)) for at in range(4095)]
    ladder = [Node(f"n{'x' * (at % 211)}", tuple(i for i in (at + 1, at + 2) if i < 3000)) for at in range(3000)]
    for nodes in (tree, ladder):
        parts = arrange(nodes)
        assert len(list(every(parts))) < 250
        shown = sum(isinstance(part, GraphNode) for part in every(parts))
        assert shown + sum(_left_out(part) for part in every(parts)) == len(nodes)


def _left_out(part: Part) -> int:
    if isinstance(part, Repeat):
        return part.nodes * part.times
    return part.nodes if isinstance(part, More) else 0

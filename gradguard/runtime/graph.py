"""The autograd graph of one tensor: read once into plain data."""

from __future__ import annotations

import re
import sys
from collections import Counter
from types import FrameType
from typing import Any

from gradguard.alive import State, TensorGraph
from gradguard.findings import Place
from gradguard.runtime import census
from gradguard.runtime.graph_layout import Node, arrange
from gradguard.runtime.saved_tensors import Saved, SavedTensors
from gradguard.runtime.sensors.graphs import KEY
from gradguard.runtime.steps import active
from gradguard.runtime.torch_internals import TorchInternals
from gradguard.runtime.usercode import is_user_file, shown

MAX_NODES = 50_000

_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+)')


def graph_of(tensor: Any, frame: FrameType | None) -> TensorGraph:
    """Read the graph of ``tensor``; nothing is changed, no hook runs, and nothing is kept.

    Args:
        tensor: any tensor.
        frame: from whose variables the leaves get their names.

    Raises:
        TypeError: if it is no tensor.
    """
    torch = sys.modules.get("torch")
    if torch is None or not issubclass(type(tensor), torch.Tensor):
        raise TypeError(f"show_graph() wants a torch.Tensor, and got {_article(type(tensor).__qualname__)}")
    internals = TorchInternals(torch)
    with internals.without_overrides():
        names, known = _names(frame, internals)
        title = _title(tensor, names.get(id(tensor)))
        if tensor.grad_fn is None:
            return TensorGraph(title, _why_none(tensor))
        nodes, cut = _read(tensor.grad_fn, names, known, internals)
    return TensorGraph(
        tensor=title,
        parts=arrange(nodes),
        nodes=len(nodes),
        leaves=sum(node.leaf is not None for node in nodes),
        states=dict(Counter(node.state for node in nodes if node.state != "nothing")),
        saved=sum(node.saved for node in nodes),
        cut=cut,
    )


def _article(word: str) -> str:
    return f"an {word}" if word[:1].lower() in "aeiou" else f"a {word}"


def _title(tensor: Any, name: str | None) -> str:
    kind = f"{str(tensor.dtype).removeprefix('torch.')} on {tensor.device}"
    return f"{name or 'a tensor'}, {_shape(tensor)} {kind}"


def _shape(tensor: Any) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in tensor.shape)
    except (RuntimeError, TypeError):  # nested, symbolic
        return ()


def _why_none(tensor: Any) -> str:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return "no graph: autograd follows floating-point and complex tensors only"
    if tensor.is_inference():
        return "no graph: it was made under torch.inference_mode()"
    if tensor.requires_grad:
        return "no graph: it is a leaf, where the graphs of what is made from it end"
    return "no graph: detached, made under no_grad, or made from nothing that requires grad (torch does not say which)"


# --- reading ------------------------------------------------------------------------------------------------------


def _names(frame: FrameType | None, internals: TorchInternals) -> tuple[dict[int, str], set[int]]:
    """The name of each tensor that has one of its own; and the storages of parameters and buffers."""
    names: dict[int, str] = {}
    storages: set[int] = set()
    reached = census.tensors(frame, internals)
    for root in reached.roots.values():
        for name, value in list(root.variables.items()):
            if issubclass(type(value), internals.tensor_type):
                names[id(value)] = name
    for spot in reached.top.walk():
        if spot.count == 1 and spot.parent is not None:
            name = "".join(spot.path()[2:])
            names.setdefault(spot.ident, name)
            # An optimizer may have been looked at before; the model has the better name.
            for key, tensor, _ in internals.parts_of_module(spot.thing):
                names[id(tensor)] = f"{name}.{key}"
                storages.add(internals.storage_of(tensor)[0])
    reached.dissolve()
    return names, storages


def _read(head: Any, names: dict[int, str], known: set[int], internals: TorchInternals) -> tuple[list[Node], bool]:
    """All nodes, the head first; and whether there are more."""
    nodes, inputs, cut = _nodes_below(head)
    counted = {0} | known
    for node in nodes:
        if hasattr(node, "variable"):
            counted.add(internals.storage_of(node.variable)[0])
    saved_tensors = SavedTensors(internals.tensor_type)
    with_notes = bool(active) or internals.torch.is_anomaly_enabled()
    found = []
    for node, below in zip(nodes, inputs):
        saved = saved_tensors.of(node)
        size = 0
        for address, count in map(internals.storage_of, saved.tensors):
            size += 0 if address in counted else count
            counted.add(address)
        metadata = node.metadata if with_notes and internals.has_node_metadata else {}
        found.append(
            Node(
                operation=node.name().rpartition("::")[2],
                inputs=below,
                leaf=_leaf(node, names),
                shapes=_shapes(node, saved),
                state=_state(saved),
                saved=size,
                step=getattr(metadata.get(KEY), "step", None),
                line=_line(metadata.get("traceback_")),
            )
        )
    return found, cut


def _nodes_below(head: Any) -> tuple[list[Any], list[tuple[int, ...]], bool]:
    index = {id(head): 0}
    nodes, inputs, cut = [head], [], False
    for node in nodes:  # grows while it is gone through
        below = []
        for following, _ in node.next_functions:
            if following is None:
                continue
            if id(following) not in index:
                if len(nodes) >= MAX_NODES:
                    cut = True
                    continue
                index[id(following)] = len(nodes)
                nodes.append(following)
            below.append(index[id(following)])
        inputs.append(tuple(dict.fromkeys(below)))
    return nodes, inputs, cut


def _state(saved: Saved) -> State:
    if not saved.count:
        return "nothing"
    if saved.freed:
        return "freed" if saved.freed == saved.count else "partly freed"
    return "packed" if saved.packed else "alive"


def _leaf(node: Any, names: dict[int, str]) -> str | None:
    variable = getattr(node, "variable", None)
    if variable is None:
        return None
    return names.get(id(variable)) or f"leaf {_shape(variable)}"


def _shapes(node: Any, saved: Saved) -> tuple[tuple[int, ...], ...]:
    """Of what the node returned; before torch 2.5 known only where that was saved."""
    try:
        return tuple(_shape(each) for each in node._input_metadata)
    except (AttributeError, RuntimeError):
        return () if saved.result is None else (_shape(saved.result),)


def _line(stack: Any) -> Place | None:
    """The innermost line of the user's in the stack that anomaly mode noted."""
    for entry in reversed(stack if isinstance(stack, list) else []):
        matched = _FRAME.match(str(entry))
        if matched and is_user_file(matched["file"]):
            code = str(entry).strip().splitlines()[1:2]
            return Place(shown(matched["file"]), int(matched["line"]), code[0].strip() if code else None)
    return None

"""The graph of a tensor in single lines, without rich: what it is drawn from, and what there is where rich is not."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.alive import GraphNode, Link, Part, Repeat, TensorGraph
from gradguard.report.run_words import size

BRANCH = "and from"
LAST = ("weight", "bias")
"""How the names of most parameters begin: the layer is before it."""

Pieces = list[tuple[str, str]]
"""Text, each piece with its style."""

_STATES = {"freed": "freed", "partly freed": "partly freed", "packed": "packed by a hook"}


def lines(graph: TensorGraph) -> Iterator[str]:
    """The graph, one line for each part, indented where it branches."""
    yield f"gradguard: graph of {graph.tensor}"
    yield from _chain(graph.parts, 1)
    yield from (f"  {line}" for line in totals(graph))


def _chain(parts: tuple[Part, ...], depth: int) -> Iterator[str]:
    for part in parts:
        yield "  " * depth + "".join(text for text, _ in pieces(part))
        for branch in part.branches if isinstance(part, GraphNode) else ():
            if len(branch) > 1:
                yield "  " * (depth + 1) + BRANCH
            yield from _chain(branch, depth + 1 + (len(branch) > 1))


def pieces(part: Part) -> Pieces:
    """One part in words."""
    if isinstance(part, GraphNode):
        return _node(part)
    if isinstance(part, Link):
        where = f"-> {part.number} " if part.number is not None else "-> "
        return [(where, "bold magenta"), (part.operation, "dim")]
    if isinstance(part, Repeat):
        same = f"... the same {_nodes(part.nodes)} {_times(part.times)} more"
        return [(same + _holding(part.saved), "italic cyan")]
    return [(f"and {_count(part.nodes, 'more node', 'more nodes')}{_holding(part.saved)}", "italic cyan")]


def _node(node: GraphNode) -> Pieces:
    found: Pieces = [(f"{node.number} ", "bold magenta")] if node.number is not None else []
    found.append((node.operation, "bold"))
    shapes = " ".join(_shape(shape) for shape in node.shapes)
    if shapes:
        found.append((f" {shapes}", ""))
    if node.saved:
        found.append((f"  {size(node.saved)}", "yellow"))
    if node.state in _STATES:
        found.append((f"  {_STATES[node.state]}", "dim"))
    if node.leaves:
        found += [("  <- ", "dim"), (_together(node.leaves), "green")]
    if node.step is not None:
        found.append((f"  step {node.step}", "cyan"))
    if node.line is not None:
        code = f": {node.line.code}" if node.line.code else ""
        found += [(f"  {node.line.path}:{node.line.line}", "cyan"), (code, "")]
    return found


def _together(leaves: tuple[str, ...]) -> str:
    """The parameters of one layer, by the name of the layer: ``model.0.{bias, weight.T}``."""
    layers: dict[str, list[str]] = {}
    for leaf in leaves:
        parts = leaf.split(".")
        at = next((i for i, part in enumerate(parts) if part.startswith(LAST)), 0)
        layers.setdefault(".".join(parts[:at]), []).append(".".join(parts[at:]))
    return ", ".join(
        f"{layer}.{names[0] if len(names) == 1 else '{' + ', '.join(names) + '}'}" if layer else ", ".join(names)
        for layer, names in layers.items()
    )


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def _nodes(count: int) -> str:
    return "node" if count == 1 else f"{count:,} nodes"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _holding(saved: int) -> str:
    return f" ({size(saved)})" if saved else ""


def totals(graph: TensorGraph) -> list[str]:
    """What is said at the end; all there is to say where there is no graph."""
    if graph.why is not None:
        return [graph.why]
    nodes, leaves = _count(graph.nodes, "node", "nodes"), _count(graph.leaves, "leaf", "leaves")
    return [f"{'more than ' if graph.cut else ''}{nodes}, {leaves} among them", _kept(graph)]


def _kept(graph: TensorGraph) -> str:
    """What became of the saved tensors."""
    savers = sum(graph.states.values())
    freed, partly, packed = (graph.states.get(state, 0) for state in ("freed", "partly freed", "packed"))
    if not savers:
        return "nothing is saved for backward"
    if freed == savers:
        return "backward has freed all that was saved for it; only the nodes are left"
    text = f"{size(graph.saved)} saved for backward, leaves not counted; "
    text += (
        f"freed in {freed + partly} of the {savers} nodes that saved some" if freed + partly else "none of it is freed"
    )
    return text + (f"; packed by a hook in {packed} of {savers}" if packed else "")


def _count(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"

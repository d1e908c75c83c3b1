"""The graph of a tensor as a tree at a terminal."""

from __future__ import annotations

from typing import Literal, TextIO

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from gradguard.alive import GraphNode, Part, TensorGraph
from gradguard.report.console import clean, line, wrapped
from gradguard.report.graph_line import BRANCH, pieces, totals
from gradguard.report.terminal import console as console_for


def show(graph: TensorGraph, file: TextIO) -> None:
    """Print the tree to ``file``, in colour where that is a terminal."""
    tree(graph, console_for("auto", file))


def tree(graph: TensorGraph, console: Console) -> None:
    """Print the tree on ``console``; a node that does not fit is cut off at the edge."""
    title = Text.assemble(("gradguard ", "bold"), f"graph of {clean(graph.tensor, console)}")
    if not graph.parts:
        line(console, title)
    else:
        root = Tree(title, guide_style="dim")
        _grow(root, graph.parts, console)
        console.print(root, no_wrap=True, overflow=_overflow(console), highlight=False)
    for text in totals(graph):
        wrapped(console, Text(text))


def _grow(tree: Tree, parts: tuple[Part, ...], console: Console) -> None:
    for part in parts:
        grown = tree.add(_label(part, console))
        for branch in part.branches if isinstance(part, GraphNode) else ():
            below = grown.add(Text(BRANCH, "dim")) if len(branch) > 1 else grown
            _grow(below, branch, console)


def _label(part: Part, console: Console) -> Text:
    styled = ((clean(text, console), style) for text, style in pieces(part))
    return Text.assemble(*styled, no_wrap=True, overflow=_overflow(console))


def _overflow(console: Console) -> Literal["ellipsis", "crop"]:
    return "ellipsis" if console.encoding.startswith("utf") else "crop"

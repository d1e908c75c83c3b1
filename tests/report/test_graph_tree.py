"""The graph of a tensor, as it is shown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gradguard.alive import GraphNode, Link, More, Repeat, TensorGraph
from gradguard.findings import Place
from gradguard.report.graph_line import lines
from gradguard.report.graph_tree import tree
from tests.support import Shell

GRAPH = TensorGraph(
    tensor="loss, () float32 on cpu",
    parts=(
        GraphNode(
            "AddBackward0", ((),), branches=((Link("ReluBackward0", 1),), (GraphNode("Tanh"), Link("Exp", None)))
        ),
        GraphNode(
            "AddmmBackward0",
            ((5, 16),),
            state="alive",
            saved=320,
            leaves=("model.0.bias", "model.0.weight.T"),
            step=12,
            line=Place("train.py", 7, "out = model(x)"),
        ),
        GraphNode("ReluBackward0", ((5, 16),), state="freed", number=1),
        Repeat(nodes=5, times=1_048, saved=1_200_000),
        More(nodes=1, saved=0),
    ),
    nodes=5_260,
    leaves=2,
    states={"alive": 1, "freed": 3},
    saved=320,
)


def printed(graph: TensorGraph, width: int = 100, **options: object) -> str:
    out = io.StringIO()
    tree(graph, Console(file=out, width=width, markup=False, emoji=False, **options))  # type: ignore[arg-type]
    return out.getvalue()


def test_the_tree_says_what_made_it_from_what_and_what_is_saved() -> None:
    assert printed(GRAPH) == (
        "gradguard graph of loss, () float32 on cpu\n"
        "├── AddBackward0 ()\n"
        "│   ├── -> 1 ReluBackward0\n"
        "│   └── and from\n"
        "│       ├── Tanh\n"
        "│       └── -> Exp\n"
        "├── AddmmBackward0 (5, 16)  320 B  <- model.0.{bias, weight.T}  step 12  train.py:7: out = model(x)\n"
        "├── 1 ReluBackward0 (5, 16)  freed\n"
        "├── ... the same 5 nodes 1,048 times more (1.2 MB)\n"
        "└── and 1 more node\n"
        "  5,260 nodes, 2 leaves among them\n"
        "  320 B saved for backward, leaves not counted; freed in 3 of the 4 nodes that saved some\n"
    )


def test_plain_lines_say_the_same() -> None:
    assert list(lines(GRAPH))[:8] == [
        "gradguard: graph of loss, () float32 on cpu",
        "  AddBackward0 ()",
        "    -> 1 ReluBackward0",
        "    and from",
        "      Tanh",
        "      -> Exp",
        "  AddmmBackward0 (5, 16)  320 B  <- model.0.{bias, weight.T}  step 12  train.py:7: out = model(x)",
        "  1 ReluBackward0 (5, 16)  freed",
    ]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_is_not_overrun(width: int) -> None:
    text = printed(GRAPH, width)
    assert max(map(len, text.splitlines())) <= max(width, len("gradguard graph of loss, () float32 on cpu"))
    assert "AddmmBackward0 (5, 16)" in text


def test_without_a_graph_there_is_one_reason() -> None:
    graph = TensorGraph("x, (3,) int64 on cpu", "no graph: autograd follows floating-point and complex tensors only")
    assert printed(graph).splitlines() == ["gradguard graph of x, (3,) int64 on cpu", f"  {graph.why}"]
    assert len(list(lines(graph))) == 2


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    evil = TensorGraph("x\x1b[31m", parts=(GraphNode("Exp", leaves=("a\x1b]0;b\x07",)),))
    assert "\x1b" not in printed(evil)


def test_a_console_that_knows_ascii_only_gets_that() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    tree(GRAPH, Console(file=out, width=50, markup=False))
    out.flush()
    assert b"AddmmBackward0" in out.buffer.getvalue()  # type: ignore[attr-defined]


def test_freed_and_packed_have_words() -> None:
    freed = TensorGraph("x", parts=(GraphNode("Exp", state="freed"),), nodes=2, leaves=1, states={"freed": 1})
    assert "2 nodes, 1 leaf among them" in printed(freed)
    assert "backward has freed all that was saved for it" in printed(freed)
    packed = TensorGraph("x", parts=(GraphNode("Exp", state="packed"),), nodes=2, leaves=1, states={"packed": 1})
    assert "packed by a hook in 1 of 1" in printed(packed)
    assert "nothing is saved" in printed(TensorGraph("x", parts=(GraphNode("Sum"),), nodes=1))


PROGRAM = "import torch, gradguard; x = torch.ones(2, 2, requires_grad=True); gradguard.show_graph(x.exp().sum())"


def test_a_pipe_and_no_color_get_no_colour(shell: Shell) -> None:
    pytest.importorskip("torch")
    for env in ({}, {"NO_COLOR": "1", "FORCE_COLOR": ""}):
        done = shell("-c", PROGRAM, env={"COLUMNS": "60", **env})
        assert done.stdout == b""
        text = done.stderr.decode()
        assert "ExpBackward0 (2, 2)  16 B  <- x" in text
        assert "\x1b" not in text


def test_without_rich_there_are_plain_lines(shell: Shell) -> None:
    pytest.importorskip("torch")
    block = "import sys; sys.modules.update(dict.fromkeys(['libcst', 'rich', 'click']))\n"
    done = shell("-c", block + PROGRAM + "; gradguard.snapshot().show()")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr.decode().splitlines()[2] == "  ExpBackward0 (2, 2)  16 B  <- x"
    assert "gradguard: " in done.stderr.decode().splitlines()[5]


def test_a_file_may_be_given() -> None:
    torch = pytest.importorskip("torch")
    import gradguard

    out = io.StringIO()
    gradguard.show_graph(torch.ones(2, requires_grad=True) * 2, file=out)
    assert "MulBackward0" in out.getvalue()

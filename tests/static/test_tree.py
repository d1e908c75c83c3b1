"""Where a node stands, and the nodes of a function."""

from __future__ import annotations

import ast
import textwrap

import pytest

from gradguard.static import tree as t
from gradguard.static.build import build

TEXT = """
    first(0)
    @outer(deco())
    def step(model, rate=default()):
        for x in loader():
            with scope():
                try:
                    used(x)
                except handled() as error:
                    caught(error)
                else:
                    went()
                finally:
                    closed()
            if asked():
                return model(x)
            elif also():
                matched()
            else:
                while going():
                    turned()
        return [inner(y) for y in several()]
    class Kept(base()):
        held = made()
        def get(self):
            return self.given(lambda: later())
    match chosen():
        case [one] if guarded():
            taken()
        case _:
            left()
    last(1)
"""


def _statements(text: str = TEXT) -> list[t.Stmt]:
    return build(ast.parse(textwrap.dedent(text))).statements


def _all_blocks(statements: list[t.Stmt]) -> list[list[t.Stmt]]:
    found = [statements]
    for stmt in statements:
        inner = [stmt.body] if isinstance(stmt, t.Define | t.DefineClass) else t.blocks(stmt)
        for block in inner:
            found += _all_blocks(block)
    return found


def test_a_node_is_in_each_block_that_a_walk_finds_it_in_and_in_no_other() -> None:
    statements = _statements()
    blocks = _all_blocks(statements)
    assert len(blocks) > 15
    nodes = list(t.walk(statements))
    for block in blocks:
        within = set(t.walk(block))
        assert {node for node in nodes if t.is_in(node, block)} == within


def test_what_is_made_to_be_read_in_place_of_a_node_stands_nowhere() -> None:
    statements = _statements()
    call = next(node for node in t.walk(statements) if isinstance(node, t.Call) and node.name == "used")
    assert t.is_in(call, statements)
    assert not t.is_in(t.Call(call.origin, call.func, call.args), statements)


def test_a_node_of_a_block_that_was_made_is_found() -> None:
    made = next(node for node in t.walk(_statements()) if isinstance(node, t.Lambda))
    function = t.as_function(made)
    inner = next(node for node in t.walk(made.body) if isinstance(node, t.Call))
    assert t.is_in(inner, function.body)
    assert not t.is_in(made, function.body)


@pytest.mark.parametrize("sort", [t.Call, t.Name, t.Return, t.Lambda, t.Define])
def test_nodes_of_one_sort(sort: type[t.Node]) -> None:
    for define in (node for node in t.walk(_statements()) if isinstance(node, t.Define)):
        assert list(define.all(sort)) == [node for node in define.nodes if type(node) is sort]

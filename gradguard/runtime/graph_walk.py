"""The nodes of an autograd graph, each once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def nodes_of(head: Any, limit: int) -> Iterator[Any]:
    """The node that heads a graph, and all below it.

    A node's address is that of its Python object, which is gone when nobody has it: all are kept while this goes on.

    Args:
        head: a ``grad_fn``.
        limit: after so many nodes the rest is left out.
    """
    seen = {id(head): head}
    waiting = [head]
    while waiting and limit > 0:
        limit -= 1
        node = waiting.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and id(following) not in seen:
                seen[id(following)] = following
                waiting.append(following)

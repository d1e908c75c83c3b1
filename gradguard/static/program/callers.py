"""What the callers of a function do with what it gives them, and what they give it; all of it reads other files."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import tree as t
from gradguard.static.model import Backward, Function, GradCall
from gradguard.static.reading.roots import node_of
from gradguard.static.values import Roots, Source

_LEVELS = 3
"""Calls between a function and one that is asked about it."""


def resets_gradients(function: Function) -> bool:
    """Whether one that calls it, or hands it to an optimizer's ``step``, resets all gradients or has them reset.

    Also an optimizer of the program that drops the gradients it has used. What the function does itself is no news.
    """
    own = [reset.source for reset in function.zero_grads]
    theirs = (reset for caller in _callers(function) for reset in caller.zero_grads if reset.source not in own)
    return any(reset.to_none or reset.target is not None for reset in theirs)


def backpropagate_result(function: Function) -> bool:
    """Whether one that calls it runs a backward over what it returns, or hands that to one that does."""
    returning, known = [function], {function}
    for _ in range(_LEVELS):
        handing_on: list[Function] = []
        for each in returning:
            for caller in each.calling():
                consumed: list[Backward | GradCall] = [*caller.backwards, *caller.grad_calls]
                if caller is not each and any(_comes_of(each.name, event.value.reach) for event in consumed):
                    return True
                if caller not in known and _comes_of(each.name, caller.returns.reach):
                    known.add(caller)
                    handing_on.append(caller)
        returning = handing_on
    return False


def give_graph(function: Function, backward: Backward, levels: int = _LEVELS) -> bool:
    """Whether a caller gives a function what has a graph, which a backward of it goes through.

    Args:
        function: is called.
        backward: an event of the function.
        levels: calls that are followed.
    """
    if not levels or all(root.source is not Source.PARAM for root in backward.value.reach):
        return False
    node = backward.source.site.node
    for caller in function.calling():
        noted = (each for each in caller.backwards if each.inner is not None and each.source.site.node is node)
        for call in noted if caller is not function else ():
            given = (root for root in call.value.reach if root.source in (Source.GRAPH, Source.LOSS))
            if any(node_of(root.key) is not call.site.node for root in given) or give_graph(caller, call, levels - 1):
                return True
    return False


def _callers(function: Function) -> Iterator[Function]:
    """The callers of a function, and theirs: each once, however many ways lead to it."""
    level, known = [function], {function}
    for _ in range(_LEVELS):
        found = dict.fromkeys(caller for each in level for caller in each.calling() if caller not in known)
        yield from found
        known.update(found)
        level = list(found)


def _comes_of(name: str, roots: Roots) -> bool:
    """Whether a graph comes out of a call of a function of this name."""
    return any(_is_call_of(name, root.key) for root in roots if root.source in (Source.GRAPH, Source.CALL, Source.LOSS))


def _is_call_of(name: str, key: object) -> bool:
    call = node_of(key)
    func = call.func if isinstance(call, t.Call) else None
    return func.name == name if isinstance(func, t.Attribute) else isinstance(func, t.Name) and func.id == name

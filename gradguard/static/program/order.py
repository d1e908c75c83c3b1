"""The order of the text: which statements are in which block, and which come first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradguard.static import tree as t


def has(body: Sequence[t.Stmt], stmt: object) -> bool:
    """Whether a statement is somewhere in a block."""
    if isinstance(stmt, t.Node) and not t.is_in(stmt, body):
        return False
    return any(each is stmt for each in t.walk_statements(body))  # not in a function of the block


def blocks_of(body: list[t.Stmt]) -> Iterator[list[t.Stmt]]:
    """A block, and all that are in it, the outer ones first."""
    yield body
    for stmt in body:
        for block in t.blocks(stmt):
            yield from blocks_of(block)


def comes_before(body: Sequence[t.Stmt], first: object, second: object) -> bool:
    """Whether one statement of a block comes before another one, which is not in it."""
    for place, each in enumerate(body):
        if each is first:
            return has(body[place + 1 :], second)
        if each is second:
            return False
        for block in t.blocks(each):
            if has(block, first):
                return comes_before(block, first, second) or has(body[place + 1 :], second)
    return False


def surely_before(body: Sequence[t.Stmt], stmt: t.Stmt) -> Iterator[t.Stmt]:
    """The statements that have run where one of a block does: they stand before it, in a block around it."""
    for each in body:
        if each is stmt:
            return
        around = next((block for block in t.blocks(each) if has(block, stmt)), None)
        if around is not None:
            yield from surely_before(around, stmt)
            return
        yield each
        if isinstance(each, t.With):
            yield from surely_before(each.body, stmt)


def ends_at(loop: t.Repeat, stmt: t.Stmt) -> bool:
    """Whether a loop ends once a statement in it has run: a ``break`` follows, or it is in an ``else`` of a loop."""
    loops = (each for each in t.walk_statements([loop]) if isinstance(each, t.Repeat))
    if any(has(each.orelse, stmt) for each in loops):
        return True
    blocks = (block for each in t.walk_statements([loop]) for block in t.blocks(each))
    return any(has(block, stmt) and t.leaves(block) and not _goes_on(block[-1]) for block in blocks)


def _goes_on(stmt: t.Stmt) -> bool:
    return isinstance(stmt, t.Leave) and stmt.kind == "continue"


def following(body: Sequence[t.Stmt], stmt: t.Stmt, *, on_every_way: bool = False) -> Iterator[t.Stmt]:
    """What comes after a statement, in the order of the text, in its block.

    Args:
        on_every_way: also what leaves its function or its loop, which is on no way to what comes next.
    """
    for place, each in enumerate(body):
        if each is stmt:
            yield from _in_order(body[place + 1 :], on_every_way)
        for block in t.blocks(each):
            yield from following(block, stmt, on_every_way=on_every_way)


def _in_order(body: Sequence[t.Stmt], on_every_way: bool) -> Iterator[t.Stmt]:
    for stmt in body:
        yield stmt
        for block in t.blocks(stmt):
            if on_every_way or not t.leaves(block):
                yield from _in_order(block, on_every_way)


def onwards(body: Sequence[t.Stmt], stmt: t.Stmt) -> list[t.Stmt]:
    """The statements that come after one, in the order of the text, and in whatever block; no loop is gone round."""
    for place, each in enumerate(body):
        rest = list(_in_order(body[place + 1 :], True))
        if each is stmt:
            return rest
        for block in t.blocks(each):
            if has(block, stmt):
                inner = onwards(block, stmt)
                return inner if _returns(block) else inner + rest
    return []


def later(body: Sequence[t.Stmt], stmt: t.Stmt, *, without: object = None) -> list[t.Stmt]:
    """The statements of a block that may run after one in it, also by going round a loop.

    Args:
        without: what is not to come in between: a loop around it is not gone round.
    """
    return _later(body, stmt, without)[0]


def _later(body: Sequence[t.Stmt], stmt: t.Stmt, without: object) -> tuple[list[t.Stmt], bool]:
    """The same, and whether the end of the block is reached from there."""
    for place, each in enumerate(body):
        rest = list(t.walk_statements(body[place + 1 :]))
        goes_on = not _returns(body[place + 1 :])
        if each is stmt:
            return rest, goes_on
        for block in t.blocks(each):
            if not has(block, stmt):
                continue
            found, is_left = _later(block, stmt, without)
            if isinstance(each, t.Repeat) and not ends_at(each, stmt) and not has(each.body, without):
                found += t.walk_statements(each.body)
            if not is_left or _returns(block):
                return found, False
            return (found, True) if t.leaves(block) else (found + rest, goes_on)
    return [], True


def _returns(block: Sequence[t.Stmt]) -> bool:
    return bool(block) and isinstance(block[-1], t.Return | t.Raise)

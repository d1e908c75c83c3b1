"""Which collections are filled under the elements of one other collection: ``for k in names: losses[k] = ...``.

A loop over that other one has each of their keys in turn. Told from a function's statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.names import gone_over


def keyed_by(define: t.Define) -> Mapping[str, str]:
    """For each variable whose keys are all elements of one other collection, that one; both are bound but once.

    It is a dict of the function's own, into which nothing comes but by ``d[k] = ...``, in more than one place.
    """
    body, found = define.body, dict[str, list[str | None]]()
    for base, keys in _stores(body, {}):
        found.setdefault(base, []).append(keys)
    given = [param.name for param in define.params]
    bound = [*given, *(t.path_of(name) for name in _bound(body))]
    taken = {*given, *_filled_by_methods(body)}
    same = {base: keys[0] for base, keys in found.items() if len(keys) > 1 and len(set(keys)) == 1}
    return {
        base: keys
        for base, keys in same.items()
        if keys is not None and bound.count(base) == 1 and bound.count(keys) <= 1 and base not in taken
    }


def _filled_by_methods(body: Sequence[t.Stmt]) -> Iterator[str]:
    """The variables that a method may put something into: ``d.update(x)``, ``d["all"].append(x)``."""
    calls = (node.func for node in t.walk(body) if isinstance(node, t.Call))
    for func in calls:
        path = t.path_of(func.value) if isinstance(func, t.Attribute) else None
        if not isinstance(func, t.Attribute) or path is None:
            continue
        base, bracket, _ = path.partition("[")
        if func.name in k.ADDING_METHODS or (not bracket and func.name not in _READING):
            yield base


_READING = frozenset("items keys values get copy".split())


def _stores(body: Sequence[t.Stmt], keys: Mapping[str, str | None]) -> Iterator[tuple[str, str | None]]:
    """For each store under a key its collection, and the one that the key is taken from."""
    for stmt in body:
        inner = keys
        if isinstance(stmt, t.Repeat) and stmt.target is not None and stmt.iterable is not None:
            taken = gone_over(stmt.iterable)
            inner = {**keys, **{name.id: taken for name in t.names_in(stmt.target) if isinstance(name, t.Name)}}
        targets = stmt.targets if isinstance(stmt, t.Assign) else [stmt.target] if isinstance(stmt, t.Augment) else []
        for target in targets:
            base = t.path_of(target.value) if isinstance(target, t.Subscript) else None
            if isinstance(target, t.Subscript) and base is not None:
                index = target.index
                taken = inner.get(index.id) if isinstance(index, t.Name) else None
                if taken != base:  # else it is a key that is there
                    yield base, taken
        for block in t.blocks(stmt):
            yield from _stores(block, inner)


def _bound(body: Sequence[t.Stmt]) -> Iterator[t.Expr]:
    for stmt in t.walk_statements(body):
        if isinstance(stmt, t.Assign):
            yield from (name for target in stmt.targets for name in t.names_in(target))

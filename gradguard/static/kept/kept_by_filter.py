"""Collections that are filtered by a flag of their items: ``self.subs = [(f, once) for f, once in subs if not once]``.

What was put in with the other flag, ``self.subs.append((f, False))``, is never taken out by that.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import tree as t
from gradguard.static.model import Store


def letting_pass(store: Store) -> set[tuple[str, bytes]]:
    """The functions around a store that bind its collection anew, to items among which surely is what was stored."""
    source = store.source
    item = source.value_site.node if isinstance(source, Store) and source.value_site is not None else None
    path = source.path.split("[", 1)[0] if isinstance(source, Store) else ""
    if not isinstance(item, t.Display) or not path.startswith("self."):
        return set()
    chunk = source.site.chunk
    methods = (node for node in t.walk(chunk.statements) if isinstance(node, t.Define) and node.name != "__init__")
    return {(each.name, chunk.source.data) for each in methods if _lets_pass(each, path, item)}


def _lets_pass(define: t.Define, path: str, item: t.Display) -> bool:
    bound = list(_bound(define, path))
    return bool(bound) and all(_is_among(item, value) for value in bound) and not _takes_out(define, path)


def _bound(define: t.Define, path: str) -> Iterator[t.Expr]:
    for stmt in define.statements:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            if (t.path_of(target) or "").split("[", 1)[0] == path:
                yield value


def _takes_out(define: t.Define, path: str) -> bool:
    """Whether a method of the collection is called, or something is deleted: it may be more than a filter."""
    calls = (node.func for node in define.all(t.Call) if isinstance(node.func, t.Attribute))
    uses = any((t.path_of(func.value) or "").split("[", 1)[0] == path and func.name != "get" for func in calls)
    return uses or any(isinstance(stmt, t.Delete) for stmt in define.statements)


def _is_among(item: t.Display, kept: t.Expr) -> bool:
    """Whether a filter asks only for flags of an item that are written out where it is put in."""
    if not isinstance(kept, t.Comprehension) or len(kept.clauses) != 1:
        return False
    (clause,) = kept.clauses
    names = clause.target.items if isinstance(clause.target, t.Display) else []
    if len(names) != len(item.items) or not clause.conditions:
        return False
    flags = {t.path_of(name): value.value for name, value in zip(names, item.items) if isinstance(value, t.Constant)}
    return all(_holds(condition, flags) for condition in clause.conditions)


def _holds(condition: t.Expr, flags: dict[str | None, object | None]) -> bool:
    """Whether a condition on one flag surely holds: ``if keep``, ``if not once``."""
    if isinstance(condition, t.Operation) and condition.operator == "not":
        path = t.path_of(condition.operands[0])
        return path in flags and not flags[path]
    path = t.path_of(condition)
    return path in flags and bool(flags[path])

"""Caches whose keys have a count in them that only goes up: ``key = self.epoch, index`` is never asked for again later.

What was kept in one epoch is not found in the next one, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.kept_under import KeptUnder, kept_under
from gradguard.static.kept.random_keys import asks_length
from gradguard.static.kept.same_again import loop_of_same
from gradguard.static.mistakes.kept import RandomKey
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of
from gradguard.static.program.own_methods import methods_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_COUNT = re.compile(r"self\.\w*(?:epoch|step|iteration)s?")
_OF_OBJECT = re.compile(r"self\.\w+")
_COUNTED_UP = re.compile(r"\bself\.\w+\s*\+=\s*1\b")
_RUN_BY_OTHERS = frozenset("forward __call__ __iter__ __getitem__ __next__ training_step".split())
_NUMBERS = frozenset("len int float bool str".split())


def counted_keys(flow: Flow) -> Iterator[RandomKey]:
    """Where a method keeps what it makes under a count that only goes up, with something besides (reads other files).

    The count is one of its object, or of who calls it: ``self.ids(word, self.calls)``.
    """
    owner = flow.ref.owner
    if owner is None or flow.facts.is_test or not _may_count(flow):
        return
    for kept in kept_under(flow):
        made = _made(flow.ref, kept.key)
        parts = _parts(made)
        if len(parts) < 2 or not _is_cache(flow.ref, owner, kept, made):
            continue
        counts = ((part, found) for part in parts if (found := next(_counts(flow, owner, part), None)) is not None)
        for part, (where, count) in list(counts)[:1]:
            if any(_differs(each) for each in parts if each is not part):
                yield RandomKey(flow.site(kept.stmt), kept.collection, flow.site(made), where.site(count))


def _may_count(flow: Flow) -> bool:
    is_counted = flow.module.source.shows(_COUNTED_UP)
    return is_counted or any(map(_speaks_of_count, flow.ref.define.nodes))


def _speaks_of_count(node: t.Node) -> bool:
    return isinstance(node, t.Attribute) and _COUNT.fullmatch(t.path_of(node) or "") is not None


def _counts(flow: Flow, owner: Class, part: t.Expr) -> Iterator[tuple[Flow, t.Expr]]:
    """The count that only goes up which a part of a key is, with the function that has it from its object."""
    path = t.path_of(part) or ""
    if _COUNT.fullmatch(path):
        yield from [(flow, part)] if goes_up(flow, owner, path) else ()
    elif _OF_OBJECT.fullmatch(path):
        yield from [(flow, part)] if _is_counted(flow, owner, path) else ()
    elif path in flow.params and path not in flow.ref.assigned:
        for caller, call in calls_of(flow):
            given, theirs = flow.ref.given_by(call).get(path), caller.ref.owner
            count = t.path_of(given) or "" if given is not None else ""
            if given is not None and theirs is not None and _OF_OBJECT.fullmatch(count):
                yield from [(caller, given)] if _is_counted(caller, theirs, count) else ()


def _made(ref: FunctionRef, key: t.Expr) -> t.Expr:
    bound = ref.assigned.get(key.id, []) if isinstance(key, t.Name) else []
    return bound[0] if len(bound) == 1 else key


def _parts(key: t.Expr) -> list[t.Expr]:
    """``self.epoch`` and ``index`` of ``(self.epoch, index)``, and of ``f"{self.epoch}-{index}"``."""
    return key.items if isinstance(key, t.Display) else key.parts if isinstance(key, t.Text) else []


def _differs(part: t.Expr) -> bool:
    """Whether there is another one for each sample: one entry an epoch is few."""
    path = t.path_of(part)
    return not isinstance(part, t.Constant) and (path is None or not path.startswith("self."))


def _is_cache(ref: FunctionRef, owner: Class, kept: KeptUnder, made: t.Expr) -> bool:
    """Whether a dict is only ever asked for the key of now: a history is read as a whole, or by other keys."""
    value = kept.stmt.value if isinstance(kept.stmt, t.Assign) else None
    if isinstance(value, t.Constant) or (isinstance(value, t.Call) and value.name in _NUMBERS):
        return False
    if any(asks_length(node, kept.collection) for method in methods_of(owner) for node in method.define.nodes):
        return False
    keys = {t.path_of(key) for key in (kept.key, made)} - {None}
    for method in methods_of(owner):
        known = [base for node in method.define.nodes for base in _asked(node, kept, keys, made)]
        for node in method.define.nodes:
            is_it = isinstance(node, t.Attribute) and t.path_of(node) == kept.collection
            if is_it and not any(node is each for each in known) and not _is_bound(method, node):
                return False
    return True


def _asked(node: t.Node, kept: KeptUnder, keys: set[str | None], made: t.Expr) -> list[t.Expr]:
    """The dict of ``self.cache[key]``, ``key in self.cache``, ``self.cache.get(key)``, if that is the key of now."""
    if isinstance(node, t.Subscript):
        base, key = node.value, node.index
    elif isinstance(node, t.Operation) and node.operator in ("in", "not in"):
        base, key = node.operands[-1], node.operands[0]
    elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name == "get" and node.args:
        base, key = node.func.value, node.args[0].value
    else:
        return []
    is_now = t.path_of(key) in keys if t.path_of(key) is not None else _is_same(key, made)
    return [base] if is_now else []


def _is_same(key: t.Expr, made: t.Expr) -> bool:
    one, other = [t.path_of(part) for part in _parts(key)], [t.path_of(part) for part in _parts(made)]
    return bool(one) and one == other


def _is_bound(method: FunctionRef, node: t.Node) -> bool:
    stmts = (stmt for stmt in method.define.statements if isinstance(stmt, t.Assign))
    return any(node is target for stmt in stmts for target in stmt.targets)


# --- what only goes up ------------------------------------------------------------------------------------------


def goes_up(flow: Flow, owner: Class, count: str) -> bool:
    """Whether methods of the object count it up, or are told it, and nothing begins again but a constructor."""
    changes = False
    for method in methods_of(owner):
        for stmt in method.define.statements:
            if isinstance(stmt, t.Augment) and t.path_of(stmt.target) == count:
                if stmt.operator != "+" or not isinstance(stmt.value, t.Constant):
                    return False
                changes = changes or _is_run(flow, method)
            elif isinstance(stmt, t.Assign) and any(t.path_of(each) == count for each in stmt.targets):
                if method.define.name == "__init__":
                    continue
                if not _is_told(method, stmt.value):
                    return False
                changes = changes or _is_run(flow, method)
    return changes


def _is_counted(flow: Flow, owner: Class, count: str) -> bool:
    """Whether each iteration of a training counts it up: one of the layers that are made ends with them."""
    for method in methods_of(owner) if goes_up(flow, owner, count) else ():
        stmts = (stmt for stmt in method.define.statements if isinstance(stmt, t.Augment))
        for stmt in (stmt for stmt in stmts if t.path_of(stmt.target) == count):
            counting = flow.project.flow(method)
            if method.define.name in _RUN_BY_OTHERS:
                return True
            if counting is not None and loop_of_same(counting, stmt, ("self",)) is not None:
                return True
    return False


def _is_told(method: FunctionRef, value: t.Expr) -> bool:
    """``self.epoch = epoch`` of a method that is given the epoch."""
    is_given = isinstance(value, t.Name) and any(param.name == value.id for param in method.define.params)
    return is_given and isinstance(value, t.Name) and value.id not in method.assigned


def _is_run(flow: Flow, method: FunctionRef) -> bool:
    """Whether something runs a method: ``dataset.set_epoch(epoch)``, not that of a sampler."""
    name = method.define.name
    if name in _RUN_BY_OTHERS:
        return True
    called = re.compile(rf"(?<!sampler)(?<!Sampler)\.{re.escape(name)}\((?!\s*[0-9]+\s*\))")
    return flow.project.survey.mentions(called, flow.module, name)

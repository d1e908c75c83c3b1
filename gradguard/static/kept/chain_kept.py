"""Chains of objects that are meant: each asks the one before it for what it gives, or a list has all of them.

An ensemble that is boosted, the layers of a normalizing flow, the columns of a progressive network; a league of agents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.bound_paths import binds
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import has
from gradguard.static.program.parameters import makes_its_own

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_RUN = ("forward", "__call__")
_GIVE_ITSELF = frozenset("eval train requires_grad_ to cpu cuda half float".split())
_ADDING = frozenset("append add appendleft insert setdefault register put".split())


def is_part_of_result(cls: Class, attribute: str) -> bool:
    """Whether what a class computes is made of what the object before it gives: ``self.net(x) + self.before(x)``.

    By its ``forward``, or by a method that calls that of the object before: ``self.base.log_prob(z) + offset``.
    """
    path = f"self.{attribute}"
    if any(_gives(cls, name, path, frozenset()) for name in _RUN):
        return True
    methods = (ref for each in cls.lineage() for ref in each.methods.values())
    return any(_asks_the_same(ref, path) and _gives(cls, ref.define.name, path, frozenset()) for ref in methods)


def _gives(cls: Class, name: str, path: str, asked: frozenset[str]) -> bool:
    """Whether a method returns something that is made of what is at a path, also by another method of the object."""
    ref = cls.method(name) if name not in asked else None
    if ref is None:
        return False
    giving = {f"self.{each}" for each in ref.own_calls if _gives(cls, each, path, asked | {name})}
    made = _made_of(ref, {path} | giving)
    returned = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return) and stmt.value is not None]
    return any(_mentions(value, made) for value in returned)


def _asks_the_same(ref: FunctionRef, path: str) -> bool:
    """Whether a method calls the one of its name of what is at a path."""
    made = _made_of(ref, {path})
    called = (call.func for call in ref.calls if call.name == ref.define.name)
    return any(isinstance(func, t.Attribute) and (t.path_of(func.value) or "") in made for func in called)


def _made_of(ref: FunctionRef, paths: set[str]) -> set[str]:
    """The paths, and the variables that anything of them goes into."""
    found, before = set(paths), 0
    flows = [pair for stmt in ref.define.statements for pair in _flows(stmt)]
    while len(found) > before:
        before = len(found)
        for target, value in flows:
            if _mentions(value, found):
                found.update(name for name in map(t.path_of, t.names_in(target)) if name is not None)
    return found


def _flows(stmt: t.Stmt) -> Iterator[tuple[t.Expr, t.Expr]]:
    """What a statement binds or changes, each with that of which: ``out += base``, ``parts.append(base)``."""
    if isinstance(stmt, t.Assign):
        yield from ((target, stmt.value) for target in stmt.targets)
    elif isinstance(stmt, t.Augment):
        yield stmt.target, stmt.value
    elif isinstance(stmt, t.Repeat) and stmt.target is not None and stmt.iterable is not None:
        yield stmt.target, stmt.iterable
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if isinstance(call, t.Call) and isinstance(call.func, t.Attribute):
        yield from ((call.func.value, arg.value) for arg in call.args)


def _mentions(value: t.Expr, paths: set[str]) -> bool:
    nodes = (node for node in t.walk(value) if isinstance(node, t.Name | t.Attribute))
    return any((t.path_of(node) or "") in paths for node in nodes)


def adds_something(cls: Class, call: t.Call, before: t.Expr, path: str) -> bool:
    """Whether a member of the chain is more than a wrapper: it has layers of its own, or those that it is given.

    What is put around a part of a model, ``net.act = Watched(net.act, log)``, has its own.
    """
    if makes_its_own(cls):
        return True
    others = [arg.value for arg in call.args if arg.value is not before and not isinstance(arg.value, t.Constant)]
    return bool(others) and (path.count(".") == 0 or path.startswith("self."))


def is_gone_through(flow: Flow, attribute: str) -> bool:
    """Whether the program goes from each to the one before it: ``stage = stage.before``."""
    back = re.compile(rf"(?<![\w.])(\w+)\s*=\s*\1\.{attribute}\b")
    return flow.project.survey.mentions(back, flow.module)


def are_all_listed(flow: Flow, node: t.Node, path: str) -> bool:
    """Whether each iteration puts the object into a collection, too, which the loop does not begin anew."""
    loops = [stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Repeat) and has(stmt.body, node)]
    body = min((loop.body for loop in loops), key=lambda body: len(list(t.walk(body))), default=flow.ref.define.body)
    steps = list(_always(body))
    inner = list(t.walk_statements(body)) if loops else []
    found = [collection for stmt in steps for collection in _put_into(stmt, path)]
    return any(not _is_taken_from(flow, each, inner) for each in found)


def _always(body: Iterable[t.Stmt]) -> Iterator[t.Stmt]:
    """The statements that each iteration comes to."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, t.With | t.Try):
            yield from _always(stmt.body)


def _put_into(stmt: t.Stmt, path: str) -> Iterator[str]:
    """The collections that get what is at a path: ``pool.append(agent)``, ``pool[i] = agent``, ``pool += [agent]``."""
    if isinstance(stmt, t.Augment) and _is_in(stmt.value, path):
        yield t.path_of(stmt.target) or ""
    for target in stmt.targets if isinstance(stmt, t.Assign) else ():
        if isinstance(target, t.Subscript) and isinstance(stmt, t.Assign) and _is_in(stmt.value, path):
            yield t.path_of(target.value) or ""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) and call.name in _ADDING:
        yield from (t.path_of(call.func.value) or "" for arg in call.args if _is_in(arg.value, path))


def _is_in(value: t.Expr, path: str) -> bool:
    """Whether an expression is an object, or a tuple or dict with it: ``(agent.eval(), score)``."""
    if isinstance(value, t.Display):
        return any(_is_in(item, path) for item in value.items)
    if isinstance(value, t.DictDisplay):
        return any(_is_in(item, path) for _, item in value.entries)
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.name in _GIVE_ITSELF:
        value = value.func.value
    return t.path_of(value) == path


def _is_taken_from(flow: Flow, path: str, within: list[t.Stmt]) -> bool:
    """Whether a collection loses some: it is begun anew in the loop, bounded, or something is taken out of it."""
    made = [node for bound in flow.ref.assigned.get(path, []) for node in t.walk(bound) if isinstance(node, t.Call)]
    bounded = any(arg.keyword == "maxlen" for call in made for arg in call.args)
    taken = (node for node in flow.ref.define.all(t.Attribute) if t.path_of(node.value) == path)
    return (
        bounded
        or any(node.name in k.CLEARING_METHODS for node in taken)
        or any(isinstance(stmt, t.Assign) and binds(stmt, path) for stmt in within)
        or any(_deletes(stmt, path) for stmt in flow.ref.define.statements)
    )


def _deletes(stmt: t.Stmt, path: str) -> bool:
    targets = stmt.targets if isinstance(stmt, t.Delete) else []
    return any(isinstance(each, t.Subscript) and t.path_of(each.value) == path for each in targets)

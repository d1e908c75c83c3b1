"""Collections that a context manager empties after its ``yield``: where the block raises, it never comes to that.

``SCOPES.append(scope)``, ``yield scope``, ``SCOPES.pop()``: each error that the block lets out leaves its scope there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.kept import LeftByError
from gradguard.static.model import Scope
from gradguard.static.program.names import attributes_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef

_BACKWARD = re.compile(r"\bbackward\(")
_ADDS = "(?:append|extend|add|update|setdefault)"
_MANAGERS = ("contextmanager", "asynccontextmanager")


def left_by_errors(flow: Flow) -> Iterator[LeftByError]:
    """What a context manager leaves behind, where an error of the block is what a loop around it expects."""
    ref = flow.ref
    if not any((t.path_of(each) or "").rsplit(".", 1)[-1] in _MANAGERS for each in ref.define.decorators):
        return
    for stmt, path in _unprotected(ref.define.body):
        if flow.scope(path) in (Scope.LOCAL, Scope.PARAMETER) or not _puts_a_collection(ref, stmt):
            continue
        raising = _raised_in_block(flow) if _is_filled(flow, path) else None
        if raising is not None:
            yield LeftByError(flow.site(stmt), path, raising)
            return


def _unprotected(body: Sequence[t.Stmt]) -> Iterator[tuple[t.Stmt, str]]:
    """The statements that put something into a collection before the ``yield``, and it is taken out only behind it."""
    at = next((number for number, stmt in enumerate(body) if _yields(stmt)), None)
    for stmt in body[:at] if at is not None else ():
        path = _of_method(stmt, ("append", "appendleft"))
        taken = (_of_method(after, ("pop", "popleft", "remove")) for after in body[at + 1 :]) if at is not None else ()
        if path is not None and path in list(taken):
            yield stmt, path


def _yields(stmt: t.Stmt) -> bool:
    value = stmt.value if isinstance(stmt, t.Evaluate | t.Assign) else None
    return isinstance(value, t.Suspend) and value.kind == "yield"


def _of_method(stmt: t.Stmt, methods: Sequence[str]) -> str | None:
    """The path of the collection that a statement calls one of some methods of."""
    value = stmt.value if isinstance(stmt, t.Evaluate | t.Assign) else None
    func = value.func if isinstance(value, t.Call) else None
    return t.path_of(func.value) if isinstance(func, t.Attribute) and func.name in methods else None


def _puts_a_collection(ref: FunctionRef, stmt: t.Stmt) -> bool:
    """Whether what is put there is made in the function, and may be filled: a dict, a list, an object of a class."""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    given = call.args[0].value if isinstance(call, t.Call) and len(call.args) == 1 else None
    made = ref.assigned.get(given.id, []) if isinstance(given, t.Name) else [given]
    return len(made) == 1 and isinstance(made[0], t.Display | t.DictDisplay | t.Call)


def _is_filled(flow: Flow, path: str) -> bool:
    """Whether a program that trains puts something into the newest of a collection: ``SCOPES[-1][name] = value``."""
    holder = attributes_of(path)[-1]
    fills = re.compile(rf"\b{re.escape(holder)}\[-1\](?:\[[^\]\n]*\]\s*=(?!=)|(?:\.\w+|\[[^\]\n]*\])*\.{_ADDS}\()")
    survey = flow.project.survey
    return survey.mentions(_BACKWARD, flow.module) and survey.acts(holder, fills, flow.module)


def _raised_in_block(flow: Flow) -> Site | None:
    """A ``raise`` in a block of the context manager, of an error that a loop around it lets pass."""
    name = flow.ref.define.name
    for user in flow.project.written_calling(flow.ref):
        for block in _blocks_of(user, name):
            for stmt in _let_out(block):
                error = _name_of(stmt.value)
                if error is not None and _is_expected(flow, user, error):
                    return Site(user.chunk, stmt)
    return None


def _blocks_of(user: FunctionRef, manager: str) -> Iterator[list[t.Stmt]]:
    for stmt in user.define.statements:
        items = [item for item, _ in stmt.items] if isinstance(stmt, t.With) else []
        if isinstance(stmt, t.With) and any(isinstance(item, t.Call) and item.name == manager for item in items):
            yield stmt.body


def _let_out(block: Sequence[t.Stmt]) -> Iterator[t.Raise]:
    """The errors that are raised in a block, not those of a ``try`` in it, which may be caught there."""
    for stmt in block:
        if isinstance(stmt, t.Raise):
            yield stmt
        elif not isinstance(stmt, t.Try):
            yield from chain.from_iterable(map(_let_out, t.blocks(stmt)))


def _name_of(error: t.Expr | None) -> str | None:
    """The class of an error that is raised or caught, by its last name."""
    path = t.path_of(error.func if isinstance(error, t.Call) else error) if error is not None else None
    return path.rsplit(".", 1)[-1] if path is not None else None


def _is_expected(flow: Flow, user: FunctionRef, error: str) -> bool:
    """Whether a loop goes on after an error of a function that it calls, or of the block in it."""
    around = [(user, None), *((caller, user.define.name) for caller in flow.project.written_calling(user))]
    for caller, called in around:
        for loop in caller.define.statements:
            inside = t.walk_statements(loop.body) if isinstance(loop, t.Repeat) else ()
            if any(isinstance(stmt, t.Try) and _lets_pass(stmt, error, called, flow) for stmt in inside):
                return True
    return False


def _lets_pass(stmt: t.Try, error: str, called: str | None, flow: Flow) -> bool:
    """Whether a ``try`` around a call, or around the block itself, catches an error and does not raise again."""
    name = called if called is not None else flow.ref.define.name
    if not any(isinstance(node, t.Call) and node.name == name for node in t.walk(stmt.body)):
        return False
    for handler in stmt.handlers:
        kinds = handler.type.items if isinstance(handler.type, t.Display) else [handler.type]
        if error in map(_name_of, kinds):
            return not any(isinstance(each, t.Raise | t.Return) for each in t.walk_statements(handler.body))
    return False

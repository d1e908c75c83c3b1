"""Jobs whose results are asked for one after the other, while more of them are put behind: ``self.jobs[i].result()``.

A loader that works ahead needs what comes next; the list has what came before, too, each batch with its job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.copies import is_called_in_loop
from gradguard.static.kept.kept_when_done import drops, submitted, trains
from gradguard.static.kept.never_emptied import is_never_emptied
from gradguard.static.kept.one_handle import is_known_outside
from gradguard.static.mistakes.kept import KeptWhenDone
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LEVELS = 2
_RESULTS = frozenset(("result", "get"))
_COUNTING = frozenset("range trange count enumerate".split())


def jobs_in_turn(flow: Flow) -> Iterator[KeptWhenDone]:
    """Where a method asks a job of its object for its result, and takes none out of their list (reads other files)."""
    owner, told = flow.ref.owner, set[str]()
    if owner is None or flow.facts.is_test:
        return
    for job, path in _asked(flow.ref):
        if path in told or not _is_next(flow.ref, job, path) or not _only_in_turn(owner, flow.ref, path):
            continue
        told.add(path)
        added = submitted(owner, path)
        if added is None or drops(owner, path) or not is_never_emptied(flow, path):
            continue
        if not is_known_outside(flow, owner, path.removeprefix("self.")):
            yield KeptWhenDone(flow.site(job), path, of_jobs=True, added=added, in_turn=True)


def _asked(ref: FunctionRef) -> Iterator[tuple[t.Subscript, str]]:
    """The jobs that a method asks for their results, also by a name: ``job = self.jobs[i]``, ``job.result()``."""
    for call in ref.calls:
        if not isinstance(call.func, t.Attribute) or call.func.name not in _RESULTS:
            continue
        for job in ref.bound_to(call.func.value):
            path = t.path_of(job.value) if isinstance(job, t.Subscript) else None
            if isinstance(job, t.Subscript) and path is not None and path.startswith("self.") and path.count(".") == 1:
                yield job, path


def _is_next(ref: FunctionRef, job: t.Subscript, path: str) -> bool:
    """Whether the place of a job goes up each time, in a loop or from call to call, and more are added there."""
    counts = {t.path_of(term) or "" for term in _terms(job.index)} - {""}
    for loop in (stmt for stmt in ref.define.statements if isinstance(stmt, t.Repeat)):
        inside = list(t.walk(loop.body))
        if any(node is job for node in inside) and not counts.isdisjoint(_counted(loop, inside)):
            return (ref.define.is_generator or trains(loop)) and any(_adds(ref, node, path) for node in inside)
    own = (count for count in counts if count.startswith("self."))
    if not set(own).intersection(_counted(None, ref.define.nodes)):
        return False
    adds = any(_adds(ref, node, path) for node in ref.define.nodes)
    return adds and (ref.define.name == "__next__" or is_called_in_loop(ref, _LEVELS))


def _terms(index: t.Expr) -> Iterator[t.Expr]:
    """``i`` and ``depth`` of ``i - depth``; of ``i % depth`` there are only so many places."""
    if isinstance(index, t.Operation) and index.operator in ("+", "-"):
        for operand in index.operands:
            yield from _terms(operand)
    elif isinstance(index, t.Name | t.Attribute):
        yield index


def _counted(loop: t.Repeat | None, inside: Iterable[t.Node]) -> set[str]:
    """What goes up as code runs: ``self.at += 1``, ``i`` of ``for i in range(n)`` and ``for i, x in enumerate(xs)``."""
    ups = (node.target for node in inside if isinstance(node, t.Augment) and node.operator == "+")
    counted = {t.path_of(target) or "" for target in ups}
    over = loop.iterable if loop is not None else None
    if loop is not None and loop.target is not None and isinstance(over, t.Call):
        first = next(t.names_in(loop.target), None)
        if over.name in _COUNTING and isinstance(first, t.Name):
            counted.add(first.id)
    return counted


def _adds(ref: FunctionRef, node: t.Node, path: str) -> bool:
    """Whether a call puts something into a list of its object, or is one of a method that does."""
    if not isinstance(node, t.Call) or not isinstance(node.func, t.Attribute):
        return False
    if node.func.name == "append":
        return t.path_of(node.func.value) == path
    is_own = ref.owner is not None and t.path_of(node.func.value) == "self"
    method = ref.owner.method(node.func.name) if ref.owner is not None and is_own else None
    return method is not None and any(t.path_of(call.func) == f"{path}.append" for call in method.calls)


def _only_in_turn(owner: Class, ref: FunctionRef, path: str) -> bool:
    """Whether no other method has a job out of a list, nor anything else the list."""
    for method in methods_of(owner):
        known = [base for node in method.define.nodes for base in _known(node, method.define is ref.define)]
        for node in method.define.nodes:
            is_it = isinstance(node, t.Attribute) and t.path_of(node) == path
            if is_it and not any(node is each for each in known):
                return False
    return True


def _known(node: t.Node, is_asking: bool) -> Iterator[t.Expr]:
    """What some code does with a list that lets nobody else know what is in it."""
    if isinstance(node, t.Subscript):
        yield from [node.value] if is_asking and not isinstance(node.index, t.Slice) else []
    elif isinstance(node, t.Assign):
        yield from (name for target in node.targets for name in t.names_in(target))
    elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name == "append":
        yield node.func.value
    elif isinstance(node, t.Call) and node.name == "len":
        yield from (arg.value for arg in node.args)

"""Metrics that keep every output for one reading an epoch, and whose ``reset`` nobody calls.

Told by what the class does: one method puts tensors into a list, another goes over all of it, a third empties it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.backward.backward_below import runs_backward
from gradguard.static.kept.never_emptied import takes_out
from gradguard.static.mistakes.kept import NeverReset
from gradguard.static.model import Form, Store
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.reading.guards import guards
from gradguard.static.reading.periods import moduli
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class _Reading(NamedTuple):
    """Where a method is called that goes over all of a list.

    Args:
        site: the call.
        in_steps: it is made every so many steps, and not once an epoch.
    """

    site: Site
    in_steps: bool


_LEVELS = 3
_JOINS = frozenset(f"torch.{name}" for name in "cat stack concat concatenate vstack hstack".split())
_COMPUTING = frozenset("detach sigmoid softmax argmax cpu clone float squeeze flatten".split())
_WHOLE = frozenset("cat stack concat concatenate vstack hstack mean sum array tensor as_tensor".split())


def never_reset(flow: Flow) -> Iterator[NeverReset]:
    """The first statement of a method that fills such a list (reads other files)."""
    owner = flow.ref.owner
    if owner is None or flow.facts.is_test:
        return
    for store in filter(_is_of_tensors, flow.facts.stores):
        if store.value.kind is Kind.UNKNOWN and not _is_given_tensors(flow.ref, owner, store):
            continue
        reset = store.never_reset() if _is_emptied_by_none(flow, owner, store) else None
        reading = _readings(owner, store.path, flow.ref) if reset is not None else []
        read = next((found for name in reading if (found := _read_in_epochs(flow.ref, name)) is not None), None)
        if reset is not None and read is not None and _lasts(flow.ref, owner.name):
            yield NeverReset(store.site, store.path, reset, read.site, read.in_steps)
            return


def _lasts(ref: FunctionRef, name: str) -> bool:
    """Whether the objects of a class are seen to be made, and not anew for each epoch."""
    return any(True for _ in _calls(ref, {name})) and not _is_run_in_loop(ref, name)


def _is_of_tensors(store: Store) -> bool:
    """Whether tensors without a graph are put into a list of the object, or what it is given."""
    is_own = store.path.startswith("self.") and store.inner is None and store.form is Form.APPEND
    return is_own and store.value.kind in (Kind.TENSOR, Kind.OUTPUT, Kind.UNKNOWN) and not store.carries_graph


def _is_given_tensors(ref: FunctionRef, owner: Class, store: Store) -> bool:
    """Whether a list whose elements are joined as tensors gets what a call of its method gives, one that is computed.

    `metrics.update(logits.detach().sigmoid(), y)`, where `self.scores.append(scores)` and `torch.cat(self.scores)`.
    """
    joining = (call for method in methods_of(owner) for call in method.calls if t.path_of(call.func) in _JOINS)
    given = store.value_site.node if store.value_site is not None else None
    if not isinstance(given, t.Name) or not any(_goes_over(call, store.path) for call in joining):
        return False
    position = next((n for n, param in enumerate(ref.define.params) if param.name == given.id), 0)
    calls = (call for _, call in _calls(ref, {ref.define.name}))
    return any(_computes(arg) for call in calls if (arg := call.argument(given.id, position - 1)) is not None)


def _computes(given: t.Expr) -> bool:
    return isinstance(given, t.Call) and given.name in _COMPUTING


def _is_emptied_by_none(flow: Flow, owner: Class, store: Store) -> bool:
    """Whether nothing takes anything out of a list, or begins it anew, but methods of its object that nothing calls."""
    if any(takes_out(node, store.path) for node in flow.ref.define.nodes):
        return False
    survey, own = flow.project.survey, {method.define.name for method in methods_of(owner)}
    emptying = survey.emptying(store.holder, flow.module, {flow.defined})
    return emptying <= own and not any(survey.is_called(name, flow.module) for name in emptying)


def _readings(owner: Class, path: str, storing: FunctionRef) -> list[str]:
    """The methods of an object that go over all of a list: ``torch.cat(self.scores)``."""
    methods = [method for method in methods_of(owner) if method.define is not storing.define]
    return [method.define.name for method in methods if any(_goes_over(call, path) for call in method.calls)]


def _goes_over(call: t.Call, path: str) -> bool:
    return call.name in _WHOLE and any(t.path_of(arg.value) == path for arg in call.args)


def _read_in_epochs(ref: FunctionRef, reading: str) -> _Reading | None:
    """Where a loop that trains has a method called once an epoch, or every so many steps.

    It is found by its name, also through others that call it.
    """
    names, now_and_then = {reading}, set[str]()
    for _ in range(_LEVELS):
        around: set[str] = set()
        for caller, call in _calls(ref, names):
            loops = _loops_around(caller, call)
            is_periodic = call.name in now_and_then or _is_now_and_then(loops[-1] if loops else caller.define, call)
            if any(_is_of_epochs(caller, loop, call) for loop in loops):
                return _Reading(Site(caller.chunk, call), False)
            if is_periodic and loops and runs_backward(caller, loops[-1].body):
                return _Reading(Site(caller.chunk, call), True)
            if not loops:
                around.add(caller.define.name)
                now_and_then |= {caller.define.name} if is_periodic else set()
        names = around - {"__init__", "<module>"}
    return None


def _is_now_and_then(around: t.Repeat | t.Define, call: t.Call) -> bool:
    """Whether a call is made every so many steps: ``if step % log_every == 0: report(metric.compute())``."""
    return any(moduli(guard.test) for guard in guards(around.body, call))


def _calls(ref: FunctionRef, names: set[str]) -> Iterator[tuple[FunctionRef, t.Call]]:
    """The calls of functions of some names in a program; a collection of metrics hands on by methods of the same.

    The file that calls need not know the one of the metric: another one may hand it over.
    """
    project, related = ref.module.project, set(ref.module.project.survey.links.related(ref.module))
    for name in sorted(names):
        every = project.written_calling(ref, name=name, anywhere=True)
        for caller in (each for each in every if each.module is ref.module or each.module.path in related):
            calls = (call for call in caller.calls if call.name == name)
            yield from ((caller, call) for call in calls if caller.define.name != name)


def _loops_around(ref: FunctionRef, call: t.Call) -> list[t.Repeat]:
    loops = (stmt for stmt in ref.define.statements if isinstance(stmt, t.Repeat))
    return [loop for loop in loops if any(node is call for node in t.walk(loop.body))]


def _is_of_epochs(ref: FunctionRef, loop: t.Repeat, call: t.Call) -> bool:
    """Whether each iteration trains in a loop of its own, and comes to a call outside of that."""
    parts = [node for node in t.walk(loop.body) if node is not call]
    training = [node for node in parts if _trains_in_loop(ref, node)]
    return bool(training) and not any(each is call for node in training for each in t.walk(node))


def _trains_in_loop(ref: FunctionRef, node: t.Node) -> bool:
    """Whether it is a loop that trains, also within a function that is called: ``self.train_epoch(loader)``."""
    if isinstance(node, t.Call):
        callee = ref.callee(node)
        loops = [stmt for stmt in callee.define.statements if isinstance(stmt, t.Repeat)] if callee is not None else []
        return callee is not None and any(runs_backward(callee, loop.body) for loop in loops)
    return isinstance(node, t.Repeat | t.Comprehension) and runs_backward(ref, node)


def _is_run_in_loop(ref: FunctionRef, name: str, levels: int = _LEVELS) -> bool:
    """Whether a loop calls a function, or makes an object of a class, as far as names tell."""
    for caller, call in _calls(ref, {name}) if levels else ():
        makes = caller.owner if caller.define.name == "__init__" else None
        around = makes.name if makes is not None else caller.define.name
        if _loops_around(caller, call) or (around != "<module>" and _is_run_in_loop(ref, around, levels - 1)):
            return True
    return False

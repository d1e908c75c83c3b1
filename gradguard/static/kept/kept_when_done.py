"""Lists whose elements are done with and stay: jobs that have ended, and actions of one step that have been run.

``for job in self.jobs: if job.done() ...`` goes over all that there were; so does ``for run in self.deferred: run()``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.copies import is_called_in_loop
from gradguard.static.kept.never_emptied import is_never_emptied
from gradguard.static.mistakes.kept import KeptWhenDone
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.reading.guards import guards
from gradguard.static.source import Site
from gradguard.static.values import Kind, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LEVELS = 2
_AROUND = frozenset("list tuple reversed enumerate sorted".split())
_TENSORS = (Kind.TENSOR, Kind.OUTPUT)


def kept_when_done(flow: Flow) -> Iterator[KeptWhenDone]:
    """Where a method goes over a list of its object, and takes out nothing that is done (reads other files)."""
    owner = flow.ref.owner
    if owner is None or flow.facts.is_test:
        return
    for loop in (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Repeat)):
        path = _list_of_object(loop)
        target = loop.target.id if isinstance(loop.target, t.Name) else None
        if path is None or target is None or loop.iterable is None:
            continue
        is_asked, is_run = _asks_whether_done(loop, target), _runs(loop, target)
        added = submitted(owner, path) if is_asked else _deferred(flow, owner, path) if is_run else None
        if added is not None and is_never_emptied(flow, path) and not drops(owner, path):
            yield KeptWhenDone(flow.site(loop.iterable), path, is_asked, added)


def _list_of_object(loop: t.Repeat) -> str | None:
    """The attribute that a loop goes over: ``self.jobs``, ``self.deferred[event]``, ``list(self.jobs)``."""
    over = loop.iterable
    while isinstance(over, t.Call | t.Subscript):
        if isinstance(over, t.Subscript):
            over = over.value
        elif isinstance(over.func, t.Attribute) and over.func.name in ("get", "copy"):
            over = over.func.value
        elif over.name in _AROUND and over.args:
            over = over.args[0].value
        else:
            return None
    path = t.path_of(over) if over is not None else None
    return path if path is not None and path.startswith("self.") and path.count(".") == 1 else None


def _asks_whether_done(loop: t.Repeat, target: str) -> bool:
    """``if job.done():``, of a future."""
    return any(
        isinstance(node, t.Call) and t.path_of(node.func) in (f"{target}.done", f"{target}.ready")
        for node in t.walk(loop.body)
    )


def _runs(loop: t.Repeat, target: str) -> bool:
    """Whether all that a loop does with each element is to call it."""
    first = loop.body[0] if len(loop.body) == 1 else None
    call = first.value if isinstance(first, t.Evaluate) else None
    return isinstance(call, t.Call) and t.path_of(call.func) == target


def drops(owner: Class, path: str) -> bool:
    """Whether a list drops the oldest itself, or a method takes something out, or binds a part of it anew."""
    made = [value for _, value in owner.assigned(path.removeprefix("self."))]
    if not made or not all(map(_is_endless, made)):
        return True
    methods = [method for method in methods_of(owner) if method.define.name != "__init__"]
    for node in (node for method in methods for node in method.define.nodes):
        if isinstance(node, t.Assign | t.Delete) and any(_is_part(target, path) for target in node.targets):
            return True
        if isinstance(node, t.Attribute) and node.name in _TAKING and _is_part(node.value, path):
            return True
    return False


def _is_endless(made: t.Expr) -> bool:
    """Whether a list is made here, and has no limit."""
    limits = (node.argument("maxlen", 1) for node in t.walk(made) if isinstance(node, t.Call))
    return isinstance(made, t.Display | t.DictDisplay | t.Call) and all(limit is None for limit in limits)


def _is_part(expr: t.Expr, path: str) -> bool:
    """Whether it is a list of an object, or an element of it."""
    while isinstance(expr, t.Subscript):
        expr = expr.value
    return t.path_of(expr) == path


_TAKING = frozenset("remove pop popleft popitem clear discard".split())


def _added(owner: Class, path: str) -> Iterator[tuple[FunctionRef, t.Call]]:
    """The calls that put something into a list of an object: ``self.jobs.append(job)``, ``self.jobs[k].add(job)``."""
    for method in methods_of(owner):
        for call in method.calls:
            func = call.func
            if not isinstance(func, t.Attribute) or func.name not in ("append", "add") or len(call.args) != 1:
                continue
            into = func.value.value if isinstance(func.value, t.Subscript) else func.value
            if t.path_of(into) == path:
                yield method, call


# --- jobs -------------------------------------------------------------------------------------------------------


def submitted(owner: Class, path: str) -> Site | None:
    """Where a method puts jobs into a list that give tensors, if nobody gathers what they give."""
    if any(_gathers(node, path) for method in methods_of(owner) for node in method.define.nodes):
        return None
    for method, call in _added(owner, path):
        bound = method.bound_to(call.args[0].value)
        jobs = [value for value in bound if isinstance(value, t.Call) and value.name in ("submit", "apply_async")]
        if jobs and any(_gives_tensor(method, job) for job in jobs):
            return Site(method.chunk, call)
    return None


def _gathers(node: t.Node, path: str) -> bool:
    """Whether all jobs are waited for: ``[job.result() for job in self.jobs]``, ``as_completed(self.jobs)``."""
    if isinstance(node, t.Call):
        return node.name in _WAITING and any(t.path_of(arg.value) == path for arg in node.args)
    if isinstance(node, t.Comprehension):
        over = (clause.iterable for clause in node.clauses)
        return any(t.path_of(each) == path for each in over) and _takes_results(node.element)
    is_over = isinstance(node, t.Repeat) and _list_of_object(node) == path
    if not isinstance(node, t.Repeat) or not is_over or not isinstance(node.target, t.Name):
        return False
    return _takes_results(node.body) and not _asks_whether_done(node, node.target.id)


def _takes_results(part: t.Node | list[t.Stmt]) -> bool:
    return any(isinstance(node, t.Call) and node.name in ("result", "get") for node in t.walk(part))


_WAITING = frozenset("as_completed gather".split())


def _gives_tensor(method: FunctionRef, job: t.Call) -> bool:
    """Whether a function of the program that is run elsewhere returns a tensor: ``pool.submit(render, images)``."""
    run = job.args[0].value if job.args else None
    if run is None:
        return False
    own = run.name if isinstance(run, t.Attribute) and t.path_of(run.value) == "self" else None
    ref = method.owner.method(own) if own is not None and method.owner is not None else method.module.value_of(run).ref
    flow = method.module.project.flow(ref) if isinstance(ref, FunctionRef) else None
    return flow is not None and _has_tensor(flow.facts.returns)


def _has_tensor(value: Value) -> bool:
    """Whether it is a tensor, or several values of which one is: ``return images, masks``."""
    return value.kind in _TENSORS or any(part.kind in _TENSORS for _, part in value.parts)


# --- actions ----------------------------------------------------------------------------------------------------


def _deferred(flow: Flow, owner: Class, path: str) -> Site | None:
    """Where a step of a training hands an object a function made for it, which refers to tensors of the step."""
    for method, call in _added(owner, path):
        for caller, each, function in _handed(flow, method, call):
            if function is not None and _is_of_each_step(caller, each) and _refers_to_tensors(caller, each, function):
                return Site(caller.chunk, each)
    return None


def _handed(flow: Flow, method: FunctionRef, call: t.Call) -> Iterator[tuple[FunctionRef, t.Call, t.Expr | None]]:
    """The calls that hand over what is put into a list: this one, or those of the method that is given it."""
    given = call.args[0].value
    if not isinstance(given, t.Name) or all(param.name != given.id for param in method.define.params):
        yield method, call, given
    elif len(flow.project.survey.methods_named(method.define.name, flow.module)) == 1:
        yield from ((caller, each, method.given_by(each).get(given.id)) for caller, each in _calls(method))


def _calls(method: FunctionRef) -> Iterator[tuple[FunctionRef, t.Call]]:
    """The calls of a method in the program, by its name; another file may hand over the object."""
    for caller in method.module.project.written_calling(method, anywhere=True):
        yield from ((caller, call) for call in caller.calls if call.name == method.define.name)


def _is_of_each_step(ref: FunctionRef, call: t.Call) -> bool:
    """Whether a call is made in each step: beside a backward, in a loop or in a function that a loop calls."""
    if not ref.trains or any(True for _ in guards(ref.define.body, call)):
        return False
    loops = [stmt for stmt in ref.define.statements if isinstance(stmt, t.Repeat)]
    if any(any(node is call for node in t.walk(loop.body)) for loop in loops):
        return True
    return not any(trains(loop) for loop in loops) and is_called_in_loop(ref, _LEVELS)


def trains(loop: t.Repeat) -> bool:
    return any(isinstance(node, t.Call) and node.name == "backward" for node in t.walk(loop.body))


def _refers_to_tensors(ref: FunctionRef, call: t.Call, function: t.Expr) -> bool:
    """Whether a function that is made in each step keeps a tensor of it alive.

    In a loop all that are made refer to the same variables, and only what ``partial`` or a default gives is their own.
    """
    loops = (stmt for stmt in ref.define.statements if isinstance(stmt, t.Repeat))
    in_loop = any(node is call for loop in loops for node in t.walk(loop.body))
    defined = (s for s in ref.define.statements if isinstance(s, t.Define) and s.name == t.path_of(function))
    made = function if isinstance(function, t.Lambda) else next(defined, None)
    if isinstance(function, t.Call) and function.name == "partial":
        own: list[t.Expr] = [arg.value for arg in function.args[1:]]
    elif made is not None:
        own = [param.default for param in made.params if param.default is not None]
        own += [] if in_loop else [node for node in t.walk(made.body) if isinstance(node, t.Name)]
    else:
        return False
    flow = ref.module.project.flow(ref)
    names = {node.id for expr in own for node in t.walk(expr) if isinstance(node, t.Name)}
    values = [flow.final.env.get(name) for name in names & flow.locals] if flow is not None else []
    return any(value is not None and value.kind in _TENSORS for value in values)

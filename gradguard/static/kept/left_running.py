"""Threads that each iteration starts, and leaves waiting: ``feed = Prefetcher(stream)``, a loop over it, and no end.

The thread fills a queue from what it goes through. It ends with that, or when it is told; where the loop is left
before, it waits at the full queue for ever, with the batches in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.kept.endless import is_endless
from gradguard.static.kept.same_again import holds_again
from gradguard.static.mistakes.kept import LeftRunning
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

OF_THREADS = r"[Tt]hread|[Pp]refetch|[Bb]ackground|[Aa]sync|[Bb]uffered|[Ff]eeder|[Pp]roducer"
"""A file that makes such an object says so, by the class or by its name."""
_OF_THREADS = re.compile(OF_THREADS)
_THREAD = "threading.Thread"
_GOING_ON = frozenset("next __next__ get start __iter__".split())
_ENDING = frozenset("set stop close join shutdown cancel clear".split())
_CLOSING = ("close", "stop", "shutdown", "join", "end")
_AROUND = frozenset("enumerate zip tqdm iter islice".split())
_TAKING = _AROUND | {"next"}
_COMPARING = frozenset(("==", ">=", ">", "<", "<="))
_LEVELS = 3


class _Pump(NamedTuple):
    """What a thread runs: a loop that puts each thing that it is given into a queue.

    Args:
        start: the statement that starts it, None where whoever makes the object does.
        source: the parameter of the constructor that it goes through.
        is_bounded: the queue has a limit, at which the thread waits.
    """

    start: Site | None
    source: str
    is_bounded: bool


def left_running(flow: Flow) -> Iterator[LeftRunning]:
    """The objects with a thread that a function makes in each step of a training, and leaves to themselves.

    Reads other files.
    """
    if not flow.module.source.shows(_OF_THREADS):
        return
    for made, name in _made(flow.ref):
        cls = flow.module.value_of(made.func).ref
        constructor = cls.method("__init__") if isinstance(cls, Class) else None
        if not isinstance(cls, Class) or constructor is None or not _is_only_gone_through(flow.ref, name, made):
            continue
        pump = _pump(cls, constructor)
        source = constructor.given_by(made).get(pump.source) if pump is not None else None
        if pump is None or source is None or (pump.start is None and not _is_started(flow.ref, name)):
            continue
        is_left = (pump.is_bounded and _is_left_early(flow.ref, name, made)) or is_endless(flow, source)
        if is_left and not _ends_itself(cls) and _is_made_again(flow, made, _LEVELS):
            closing = next((each for each in _CLOSING if cls.method(each) is not None), None)
            yield LeftRunning(flow.site(made), name, closing, pump.start)


def _made(ref: FunctionRef) -> Iterator[tuple[t.Call, str | None]]:
    """The objects that a function makes, each with its variable; those that a loop goes over need none."""
    for stmt in ref.define.statements:
        if isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Call) and len(stmt.targets) == 1:
            target = stmt.targets[0]
            if isinstance(target, t.Name) and len(ref.assigned.get(target.id, [])) == 1:
                yield stmt.value, target.id
        elif isinstance(stmt, t.Repeat):
            yield from ((each, None) for each in _gone_through(stmt) if isinstance(each, t.Call))


def _gone_through(loop: t.Repeat) -> list[t.Expr]:
    """What a loop goes over, without ``enumerate`` and ``zip`` around it."""
    found, waiting = list[t.Expr](), [loop.iterable] if loop.iterable is not None else []
    while waiting:
        each = waiting.pop()
        found.append(each)
        if isinstance(each, t.Call) and each.name in _AROUND:
            waiting += [arg.value for arg in each.args if arg.keyword is None]
    return found


# --- the thread -------------------------------------------------------------------------------------------------


def _pump(cls: Class, constructor: FunctionRef) -> _Pump | None:
    """The thread of an object, if it goes through what the constructor was given."""
    is_thread = _THREAD in cls.external_bases
    run = cls.method("run") if is_thread else None
    given: dict[str, str] = {}
    for call in constructor.calls if not is_thread else ():
        target = call.argument("target", 1)
        if target is None or constructor.module.value_of(call.func).ref != _THREAD:
            continue
        base, _, name = (t.path_of(target) or "").partition(".")
        run = cls.method(name) if base == "self" and name.isidentifier() else None
        given = _args_of(run, call) if run is not None else {}
    starts = [call for call in constructor.calls if call.name == "start" and not call.args]
    if run is None or (not starts and not is_thread):
        return None
    loop = next((stmt for stmt in t.flatten(run.define.body) if isinstance(stmt, t.Repeat) and stmt.iterable), None)
    queue = _filled(loop) if loop is not None else None
    through = t.path_of(loop.iterable) if loop is not None and loop.iterable is not None else None
    if queue is None or through is None:
        return None
    source = given.get(through) or _given_as(constructor, through)
    start = Site(constructor.chunk, starts[0]) if starts else None
    return _Pump(start, source, _is_bounded(cls, queue)) if source is not None else None


def _args_of(run: FunctionRef, call: t.Call) -> dict[str, str]:
    """The parameters of what a thread runs, with the variables that it is given for them: ``args=(source,)``."""
    given = call.argument("args")
    names = [param.name for param in run.define.params][1:]
    paths = [t.path_of(item) or "" for item in given.items] if isinstance(given, t.Display) else []
    return dict(zip(names, paths))


def _given_as(constructor: FunctionRef, path: str) -> str | None:
    """The parameter that an attribute is: ``source`` of ``self.source = source``, also with ``iter`` around it."""
    made = constructor.assigned.get(path, [])
    value = made[0] if len(made) == 1 else None
    if isinstance(value, t.Call) and t.path_of(value.func) == "iter" and len(value.args) == 1:
        value = value.args[0].value
    return value.id if isinstance(value, t.Name) else None


def _filled(loop: t.Repeat) -> str | None:
    """The queue of the object into which each iteration of a loop puts something, and waits where it is full."""
    for stmt in loop.body:
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        func = call.func if isinstance(call, t.Call) and len(call.args) == 1 else None
        path = t.path_of(func.value) if isinstance(func, t.Attribute) and func.name == "put" else None
        if path is not None and path.startswith("self."):
            return path
    return None


def _is_bounded(cls: Class, queue: str) -> bool:
    made = [value for _, value in cls.assigned(queue.removeprefix("self."))]
    sizes = [call.argument("maxsize", 0) if isinstance(call, t.Call) else None for call in made]
    return bool(made) and all(size is not None and not t.is_zero(size) for size in sizes)


def _ends_itself(cls: Class) -> bool:
    """Whether going on with an object may end its thread, or the collector does."""
    methods = [method for name in _GOING_ON - {"start"} if (method := cls.method(name)) is not None]
    ending = any(call.name in _ENDING for method in methods for call in method.calls)
    return ending or cls.method("__del__") is not None or "weakref" in cls.chunk.program


# --- who makes it -----------------------------------------------------------------------------------------------


def _is_only_gone_through(ref: FunctionRef, name: str | None, made: t.Call) -> bool:
    """Whether a function only goes through an object, and takes the next of it: nobody else gets it, or ends it."""
    if name is None:
        return True
    known: set[int] = set()
    for node in ref.define.nodes:
        if isinstance(node, t.Assign) and node.value is made:
            known.update(map(id, node.targets))
        elif isinstance(node, t.Repeat):
            known.update(map(id, _gone_through(node)))
        elif isinstance(node, t.Call) and node.name in _TAKING and isinstance(node.func, t.Name):
            known.update(id(arg.value) for arg in node.args)
        elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.name in _GOING_ON:
            known.add(id(node.func.value))
    return all(id(node) in known for node in ref.define.all(t.Name) if node.id == name)


def _is_started(ref: FunctionRef, name: str | None) -> bool:
    return name is not None and any(t.path_of(call.func) == f"{name}.start" for call in ref.calls)


def _is_left_early(ref: FunctionRef, name: str | None, made: t.Call) -> bool:
    """Whether a loop over an object is left after so many: ``if step == most: break``, ``zip(range(most), feed)``."""
    for loop in (stmt for stmt in ref.define.statements if isinstance(stmt, t.Repeat)):
        over = _gone_through(loop)
        if any(each is made or (name is not None and t.path_of(each) == name) for each in over):
            counted = any(isinstance(each, t.Call) and each.name == "range" for each in over)
            return counted or any(map(_is_count, _breaking(loop.body)))
    return False


def _breaking(body: Sequence[t.Stmt]) -> Iterator[t.Expr]:
    """The conditions under which a loop is left, by the statement that does."""
    for stmt in body:
        if isinstance(stmt, t.If):
            is_left = any(isinstance(last, t.Return) or _is_break(last) for last in stmt.body[-1:])
            yield from [stmt.test] if is_left else _breaking(stmt.body)
            yield from _breaking(stmt.orelse)


def _is_break(stmt: t.Stmt) -> bool:
    return isinstance(stmt, t.Leave) and stmt.kind == "break"


def _is_count(test: t.Expr) -> bool:
    """Whether a condition compares numbers: what only an error leaves is another matter."""
    is_comparison = isinstance(test, t.Operation) and test.operator in _COMPARING
    return is_comparison and not any(isinstance(node, t.Call) and node.name != "len" for node in t.walk(test))


def _is_made_again(flow: Flow, node: t.Node, levels: int) -> bool:
    """Whether each iteration of a training comes to an expression, also by calls."""
    if not holds_again(flow, node):
        return False
    loops = (loop for loop in flow.facts.loops if loop.trains and loop.is_long and loop.site.node is not node)
    if any(node in loop.nodes and not _is_gone_through_by(loop.site.node, node) for loop in loops):
        return True
    return levels > 0 and any(_is_made_again(caller, call, levels - 1) for caller, call in calls_of(flow))


def _is_gone_through_by(loop: t.Node, node: t.Node) -> bool:
    """Whether a loop goes over something, which is made once then."""
    return isinstance(loop, t.Repeat) and any(each is node for each in _gone_through(loop))

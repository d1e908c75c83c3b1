"""Functions that other threads run: ``pool.submit(encode, x)``, ``pool.map(encode, xs)``, ``Thread(target=encode)``.

Whether gradients are recorded is said for each thread by itself, and where nothing was said, they are: a ``no_grad``
around the call does not reach the function.
"""

from __future__ import annotations

from gradguard.static import tree as t
from gradguard.static.model import Mode
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.mapped import each_called
from gradguard.static.program.paths import last
from gradguard.static.reading.called import Called
from gradguard.static.values import Value

_POOLS = ("ThreadPoolExecutor", "ThreadPool")
_FOR_EACH = ("map", "imap", "imap_unordered", "map_async")
_OF_POOLS = ("chunksize", "timeout", "callback", "error_callback")
_MAKING_ROWS = ("range", "len", "enumerate", "zip", "list", "tuple", "sorted", "reversed", "split", "chunk", "items")


def pool(c: Called) -> Value | None:
    """A pool of threads is known by its class, unless its threads run something first: that may switch gradients."""
    is_set_up = any(arg.keyword == "initializer" for arg in c.node.args) or len(c.node.args) > 2
    return c.func if last(c.external) in _POOLS and not is_set_up else None


def run(c: Called) -> Value | None:
    """What a function gives that another thread runs: as if it ran here, but with its graphs."""
    if c.external == "threading.Thread":
        _note_target(c)
        return None
    if c.node not in c.flow.rewritten:
        call = _run_by_pool(c) if "." in c.external else None
        if call is None or not isinstance(c.node.args[0].value, t.Name | t.Attribute):
            return None
        if any(_is_run_here(node) for arg in c.node.args for node in t.walk(arg.value)):
            return None
        c.flow.rewritten[c.node] = call
    mode, left, before = c.state.mode, c.state.left, len(c.flow.facts.forwards)
    c.state.mode = Mode.ON
    value = c.flow.value(c.flow.rewritten[c.node], c.state)
    c.state.mode, c.state.left = mode, left
    for forward in c.flow.facts.forwards[before:]:
        forward.run_by_thread = forward.run_by_thread or t.path_of(c.node.args[0].value)
    return value


def _note_target(c: Called) -> None:
    """``Thread(target=work)``: when that runs, and how often, is not followed, only that it records its graphs."""
    target = c.value_of("target", 1)
    if target is not None and isinstance(target.ref, FunctionRef):
        c.flow.calls.append((target.ref.define, Mode.ON))


def _run_by_pool(c: Called) -> t.Call | None:
    """The same call, without the thread that makes it."""
    base, _, method = c.external.rpartition(".")
    if c.external == "asyncio.to_thread" and c.node.args:
        return t.Call(c.node.origin, c.node.args[0].value, c.node.args[1:])
    if last(base) not in _POOLS or not c.node.args:
        return None
    function, given = c.node.args[0].value, [arg for arg in c.node.args[1:] if arg.keyword not in _OF_POOLS]
    if method == "submit":
        return t.Call(c.node.origin, function, given)
    if method == "apply_async":
        rows = given[0].value if given else None
        return t.Call(c.node.origin, function, [t.Arg(e) for e in rows.items]) if isinstance(rows, t.Display) else None
    if method not in _FOR_EACH or not given:
        return None
    return t.Call(
        c.node.origin, t.Name(c.node.origin, "list"), [t.Arg(each_called(c.node.origin, "list", function, given))]
    )


def _is_run_here(node: t.Node) -> bool:
    """Whether it is a call of which the result is handed over: it runs where it is written."""
    return isinstance(node, t.Call) and node.name not in _MAKING_ROWS

"""The edit that ends a leak, in a few words, when no rule of the catalogue has a better one."""

from __future__ import annotations

TENSOR = "torch.Tensor"
_COLLECTIONS = ("list", "tuple", "dict", "collections.")


def for_leak(kind: str, form: str | None, name: str, value: str | None, *, trains: bool, holds: str = TENSOR) -> str:
    """Advice for a diagnosed leak.

    Args:
        kind: as in :class:`gradguard.findings.Leak`.
        form: how the statement stores.
        name: the holder's last name; of a value that is carried on, as the statement writes it: ``self.state``.
        value: the variable that is stored, if it is one.
        trains: backward is called on what is stored, so that the loop cannot run under ``no_grad``.
        holds: the type of what the holder holds.
    """
    if kind == "graph" and form == "carried":
        return _for_carried(name, holds) + ("" if trains else _OR_NO_GRAD)
    if kind == "graph":
        return _for_graph(form, name, value) + ("" if trains else _OR_NO_GRAD)
    return _BY_KIND.get(kind, f"bound `{name}`: keep the last few, or what is needed of each").format(name=name)


def _for_graph(form: str | None, name: str, value: str | None) -> str:
    stored = value or "the value"
    if form in ("sum", "average"):
        return f"add `{stored}.detach()` or `{stored}.item()`" if value else "add the number or the detached value"
    if form in ("append", "assign", "index"):
        return f"store `{stored}.detach()`" if value else _DETACHED
    return _DETACHED


def _for_carried(name: str, holds: str) -> str:
    if holds == TENSOR:
        return f"cut the graph between the steps: `{name} = {name}.detach()`"
    if holds.startswith(_COLLECTIONS):
        return f"cut the graph between the steps: `.detach()` each tensor in `{name}`"
    return f"cut what comes from earlier steps: let `{name}` lead to nothing of them, or `.detach()` the tensors in it"


_DETACHED = "store detached values (`.detach()`, `.item()`)"
_OR_NO_GRAD = ", or run the loop under `torch.no_grad()` if nothing in it is backpropagated"

_BY_KIND = {
    "context": "use `ctx.save_for_backward({name})` for an output, and compute in backward what is made of it",
    "hook": "register the hook once before the loop, or keep its handle and call `handle.remove()` in every step",
    "cycle": "break the cycle: `torch.autograd.grad(..., create_graph=True)` instead of backward, or `p.grad = None`"
    " after use; in a tensor hook, use a detached copy",
    "profiler": "pass `schedule=torch.profiler.schedule(...)` and call `prof.step()`, or profile a few steps only",
    "saved": "return `tensor.detach()` from the pack hook: a saved output that keeps its own graph is a cycle in C++",
    "threads": "each of these threads goes on, and keeps all that `{name}` has: let it end (a flag that it asks for, a"
    " queue that somebody empties, `join()`), or begin it once",
    "cache": "the cache keeps every tensor it was called with: bound it (`maxsize=`), or key it on plain values",
    "memo": "what is asked for once and never again stays in the cache: bound it (`maxsize=`)",
    "iterator": "it keeps every item of its first pass: use a generator, `while True: yield from ...`",
    "optimizer": "make the parameters and their optimizer once, or make a new optimizer: a group that was added stays",
    "left": "what is taken out of `param_groups` stays in `{name}`: take it out there, too (`{name}.pop(parameter)`),"
    " or make a new optimizer",
    "keyed": "each step looks into `{name}` with a new tensor (`p.data`, `p.detach()`), and finds nothing: use the"
    " parameter itself",
    "gradient": "keep a number (`p.grad.norm().item()`), or bound `{name}`",
    "snapshot": "keep the best or the last few in `{name}`, or save to disk",
    "view": "store `.clone()`, since a view keeps the whole storage that it looks into, and only the last few of them",
    "exception": "store `str(error)`: an exception keeps its traceback, and that the frames with all their variables",
    "collected": "this keeps all results on purpose: move them to the CPU, or reduce them batch by batch",
}


_BY_SORT = {
    "context": _BY_KIND["context"],
    "attribute": "let `{name}` not refer to the object that it belongs to (a method, or a weak reference)",
    "function": "a nested function that calls itself is a cycle: make `{name}` a function of the module or a method",
    "exception": "a variable that keeps an exception is a cycle through its traceback: `del {name}` at the end,"
    " or keep `str({name})`",
}


def for_garbage(sort: str, name: str) -> str:
    """Advice for what only the cyclic collector frees.

    Args:
        sort: what closes the circle, as in :class:`gradguard.runtime.garbage.Circle`.
        name: the attribute, variable or key by which it does.
    """
    return _BY_SORT.get(sort, "break the cycle at `{name}`").format(name=name)

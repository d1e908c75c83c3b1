"""What an ``autograd.Function`` keeps on its context."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.model import Mode, Site
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.reading.dtypes import whole_names
from gradguard.static.reading.summary import apply_facts
from gradguard.static.values import UNKNOWN, Fields, Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.reading.called import Called
    from gradguard.static.values import Value


_HOLDERS = {*k.CONTAINER_BUILTINS, "tuple", "SimpleNamespace"}


def applied(c: Called) -> Value | None:
    """What ``Spike.apply(v)`` gives: a node of the graph of what it is given, whatever its ``forward`` does with it."""
    cls = c.receiver.ref if c.method == "apply" and c.receiver is not None else None
    if not isinstance(cls, Class) or not cls.is_autograd_function:
        return None
    if any(value.kind in (Kind.MODULE, Kind.FUNCTION) for value in c.arguments):
        return None  # it runs something of its own
    forward = cls.method("forward")
    if forward is None or any("mark_non_differentiable" in each.chunk.program for each in cls.lineage()):
        return None
    _run(c, forward)
    returned = [s.value for s in forward.define.statements if isinstance(s, t.Return) and s.value is not None]
    given = [item for value in returned for item in (value.items if isinstance(value, t.Display) else [value])]
    if any(_has_no_gradient(forward, item) for item in given):
        return None  # which of several it is, is not told
    return c.result(kind=Kind.OUTPUT if len(given) > len(returned) else Kind.TENSOR, receiver=False)


def _run(c: Called, forward: FunctionRef) -> None:
    """Do what ``forward`` does: it records nothing, and what it is given keeps its graph, wherever that is put."""
    mode, c.state.mode = c.state.mode, Mode.OFF
    context = t.Arg(t.Name(c.node.origin, "ctx"))
    apply_facts(c, forward, [(context, UNKNOWN), *c.values], None)
    c.state.mode = mode


def _has_no_gradient(forward: FunctionRef, given: t.Expr) -> bool:
    """Whether what is returned may be whole numbers, of which torch has no gradients: ``distances.argmin(1)``."""
    made = [each.value for each in forward.bindings_made if isinstance(given, t.Name) and given.id in each.names]
    return any(_gives_whole(value) for value in (made or [given]))


def _gives_whole(value: t.Expr) -> bool:
    while isinstance(value, t.Subscript):
        value = value.value
    if isinstance(value, t.Call):
        return value.name in _WHOLE or any("shape" in (t.path_of(arg.value) or "") for arg in value.args)
    return isinstance(value, t.Constant | t.Attribute) or (isinstance(value, t.Operation) and value.operator in _TESTS)


_WHOLE = frozenset(
    "argmin argmax argsort sort topk kthvalue unique nonzero searchsorted bucketize multinomial randint randperm "
    "arange int long bool short type item tolist numpy size len histc bincount".split()
)
_TESTS = frozenset("< > <= >= == != in is not and or".split()) | {"not in", "is not"}


def kept_outputs(flow: Flow) -> list[Site]:
    """The statements of an ``autograd.Function`` that put on ``ctx`` what it returns."""
    owner = flow.ref.owner
    if owner is None or flow.facts.name not in ("forward", "setup_context") or not owner.is_autograd_function:
        return []
    define = flow.ref.define
    names, whole = [p.name for p in define.params], whole_names(define)
    if flow.facts.name == "setup_context":
        return list(_kept(flow, names[0], _parts_of(flow, names[-1]) - whole)) if len(names) >= 3 else []
    if not names:
        return []
    rebound = {n.id for s in define.statements if isinstance(s, t.Assign) for x in s.targets for n in _named(x)}
    returned = {n.id for s in _returns(flow) for n in _named(s)}
    outputs = {part for name in returned for part in _parts_of(flow, name)} | _aliases(flow, returned)
    outputs -= (set(names) - rebound) | _without_gradient(flow, names[0]) | whole
    return [*_kept(flow, names[0], outputs), *_returned_from(flow, names[0])]


def _returned_from(flow: Flow, context: str) -> Iterator[Site]:
    """The statements that compute an attribute of ``ctx`` which is returned: ``ctx.y = x.exp()``, ``return ctx.y``."""
    returned = {t.path_of(single) for value in _returns(flow) for single in t.names_in(value)}
    for stmt in flow.ref.define.statements:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            is_returned = _is_of(context, target) and t.path_of(target) in returned
            if is_returned and isinstance(value, t.Call | t.Operation) and not _is_dropped(flow, target):
                yield flow.site(stmt)


def _aliases(flow: Flow, names: set[str]) -> set[str]:
    """The names that are given to these ones as they are: ``last = c`` gives ``c``."""
    assigns = (s for s in flow.ref.define.body if isinstance(s, t.Assign))  # on every way
    pairs = (pair for s in assigns for pair in t.pairs(s.targets, s.value))
    return {value.id for target, value in pairs if isinstance(value, t.Name) and t.path_of(target) in names}


def _without_gradient(flow: Flow, context: str) -> set[str]:
    """The names given to ``ctx.mark_non_differentiable``: these outputs have no graph."""
    calls = flow.ref.define.all(t.Call)
    marks = (c for c in calls if t.path_of(c.func) == f"{context}.mark_non_differentiable")
    return {path for c in marks for a in c.args if (path := t.path_of(a.value)) is not None}


def _returns(flow: Flow) -> Iterator[t.Expr]:
    for stmt in flow.ref.define.statements:
        if isinstance(stmt, t.Return) and stmt.value is not None:
            yield stmt.value


def _named(expr: t.Expr) -> Iterator[t.Name]:
    """The names among the elements of a returned tuple."""
    for single in t.names_in(expr):
        if isinstance(single, t.Name):
            yield single


def _parts_of(flow: Flow, name: str) -> set[str]:
    """A name, and those that it is taken apart into: ``a, b = output``."""
    found = {name}
    for stmt in flow.ref.define.statements:
        if isinstance(stmt, t.Assign) and t.path_of(stmt.value) == name:
            found |= {n.id for target in stmt.targets for n in _named(target)}
    return found


def _kept(flow: Flow, context: str, outputs: set[str]) -> Iterator[Site]:
    outputs = {n for n in outputs if flow.final.env.get(n, UNKNOWN).kind not in (Kind.NUMBER, Kind.NOTHING)}
    assigns = [s for s in flow.ref.define.statements if isinstance(s, t.Assign)]
    for stmt in assigns:
        line = flow.site(stmt).line
        later = {n.id for s in assigns if flow.site(s).line > line for x in s.targets for n in _named(x)}
        also = {n.id for x in stmt.targets for n in _named(x)}  # ctx.y = y = ...
        for target, value in t.pairs(stmt.targets, stmt.value):
            holder = target.value if isinstance(target, t.Subscript) else target  # ctx.cache["y"] = y
            kept = (set(held_by(flow, value)) | also) & outputs - later
            if _is_of(context, holder) and kept and not _is_dropped(flow, holder):
                yield flow.site(stmt)
                break
    for each in flow.ref.define.statements:
        call = each.value if isinstance(each, t.Evaluate) else None
        func = call.func if isinstance(call, t.Call) else None
        if isinstance(call, t.Call) and isinstance(func, t.Attribute) and func.name in k.ADDING_METHODS:
            added = {name for arg in call.args for name in held_by(flow, arg.value)}
            if _is_of(context, func.value) and added & outputs and not _is_dropped(flow, func.value):
                yield flow.site(each)
        elif isinstance(call, t.Call) and (attribute := _set_by(call)) is not None:
            held = set(held_by(flow, call.args[2].value)) & outputs
            if _is_of(context, attribute) and held and not _is_dropped(flow, attribute):
                yield flow.site(each)


def _set_by(call: t.Call) -> t.Attribute | None:
    """The attribute that ``setattr(ctx, "y", y)`` sets."""
    if t.path_of(call.func) != "setattr" or len(call.args) != 3:
        return None
    owner, name = call.args[0].value, call.args[1].value
    known = name.value if isinstance(name, t.Constant) else None
    return t.Attribute(call.origin, owner, known) if isinstance(known, str) else None


def _is_of(context: str, holder: t.Expr) -> bool:
    """Whether it is an attribute of ``ctx``."""
    return isinstance(holder, t.Attribute) and t.path_of(holder.value) == context


def held_by(flow: Flow, value: t.Expr) -> Iterator[str]:
    """The names of what a value is, or has in it: ``(x, y)``, ``{"y": y}``, ``dict(y=y)``, ``Saved(x, y)``."""
    value = _viewed(value)
    if isinstance(value, t.Name):
        yield value.id
        return
    for item in _items_of(flow, value):
        yield from held_by(flow, item)


def _viewed(value: t.Expr) -> t.Expr:
    """What a value is a view of, which holds it: ``y`` of ``y.t()``, ``y[:4]``; ``y.detach()`` holds no graph."""
    if isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in _VIEWING:
        return _viewed(value.func.value)
    if isinstance(value, t.Attribute) and value.name in ("T", "mT"):
        return _viewed(value.value)
    is_view = isinstance(value, t.Subscript) and isinstance(value.index, t.Slice | t.Constant)
    return _viewed(value.value) if is_view else value  # type: ignore[attr-defined]


_VIEWING = k.VIEWING_METHODS - {"detach", "numpy", "requires_grad_"}


def _items_of(flow: Flow, value: t.Expr) -> list[t.Expr]:
    if isinstance(value, t.DictDisplay):
        return [item for _, item in value.entries]
    if isinstance(value, t.Display):
        return list(value.items)
    if isinstance(value, t.Starred):
        return [value.value]
    path = (t.path_of(value.func) if isinstance(value, t.Call) else None) or ""
    if not isinstance(value, t.Call) or not path:
        return []
    if path.rsplit(".", 1)[-1] in _HOLDERS:  # of a tensor that is taken apart, ``list(y)``, other tensors are kept
        return [a.value for a in value.args if a.keyword or not isinstance(a.value, t.Name)]
    made = flow.module.resolve(path) if "." not in path else None
    ref = made.ref if made is not None else None
    is_record = isinstance(ref, Fields) or (isinstance(ref, Class) and ref.is_record)
    return [a.value for a in value.args] if is_record else []


def _is_dropped(flow: Flow, target: t.Expr) -> bool:
    """Whether the class takes it off ``ctx`` again: ``del ctx.y``, ``ctx.y = None``, ``ctx.outputs.pop()``."""
    name = re.escape(target.name) if isinstance(target, t.Attribute) else ""
    drops = rf"del\s+\w+\.{name}\b|\w+\.{name}\s*=\s*None|\w+\.{name}\.(?:pop|clear)\("
    return flow.ref.owner is not None and re.search(drops, flow.ref.owner.chunk.program) is not None

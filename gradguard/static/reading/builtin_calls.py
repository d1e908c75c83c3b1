"""Calls of Python's own functions: ``zip``, ``map``, ``dict``, ``getattr``."""

from __future__ import annotations

import re
from functools import reduce

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.evaluation.evaluation_loops import is_evaluation
from gradguard.static.losses import constant_terms
from gradguard.static.model import Form, ZeroGrad
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.reading.called import Called
from gradguard.static.reading.expressions import recorded
from gradguard.static.reading.item_stores import is_chained
from gradguard.static.values import (
    NOTHING,
    NUMBER,
    UNKNOWN,
    Bound,
    Held,
    Kind,
    Root,
    Source,
    Value,
    Word,
    computed,
    each_of,
    element,
    entries_of,
    holding,
    iterated,
    join,
    structure,
    union,
    with_entries,
)


def builtin(c: Called, name: str) -> Value | None:
    """What one of them gives, by its name; None for any other function."""
    if name == "float" and c.first is not None:
        return constant_terms.number_of(c.first, c.flow.site(c.node))
    if name in k.HARMLESS_BUILTINS:
        return NUMBER
    if name in ("range", "len"):
        return NUMBER
    if name == "divmod":
        return structure(((0, NUMBER), (1, NUMBER)))
    values = c.arguments
    if name == "enumerate" and values:
        kind = Kind.LOADER if values[0].kind is Kind.LOADER else Kind.CONTAINER
        return each_of(structure(((0, NUMBER), (1, iterated(values[0])))), kind)
    if name == "zip" and len(values) == 1 and c.values[0][0].star:
        rows = iterated(values[0])  # zip(*rows): one column for each part of a row
        if rows.parts:
            return structure((i, each_of(part)) for i, part in rows.parts)
        return structure((("columns", rows),))
    if name == "zip":
        return _zipped(values)
    if name == "map" and len(values) == 2 and (values[0].kind in _CALLED or _adds(c.node.args[0].value)):
        return _called_with_each(c, values[1])
    if name == "map" and len(values) == 2 and isinstance(values[0].ref, FunctionRef):
        return _mapped(c, values[0].ref, values[1])
    if name == "next" and values:
        if values[0].kind is Kind.LOADER and c.flow.loop is not None and is_evaluation(c.flow):
            c.flow.loop.evaluates = True  # for _ in range(len(loader)): batch = next(batches)
        return iterated(values[0])
    if values and (name in ("iter", "reversed", "sorted") or (name in ("list", "tuple") and _of_objects(values[0]))):
        return values[0]
    if name in ("list", "tuple") and len(values) == 1 and values[0].kind is Kind.LOADER:
        return each_of(holding(iterated(values[0]), Held.MEMBER, c.node))
    if name == "dict" and len(values) == 1 and (zipped := values[0].part(_ENTRIES)) is not None:
        return zipped
    if name == "dict" and len(values) == 1 and (row := values[0].part("each")) is not None and row.part(1) is not None:
        return union([row.part(1) or UNKNOWN], Kind.CONTAINER)  # of pairs; what the keys were taken from is not in it
    if name in k.CONTAINER_BUILTINS:
        parts = tuple((a.keyword, v) for a, v in c.values if a.keyword) if name == "dict" else ()
        if parts and (entries := entries_of(values[0])):  # dict(logs, loss=loss.item())
            return with_entries(structure(entries, Kind.CONTAINER), parts)
        return union(values, Kind.CONTAINER)._replace(parts=parts)
    if name == "getattr" and (method := _method_by_name(c)) is not None:
        return method
    if name == "getattr" and len(c.node.args) == 2:
        if (methods := _methods_like(c)) is not None:
            return methods
        path = _attribute_path(c)
        return c.flow.read(path, c.state) if path is not None else UNKNOWN
    if name == "setattr" and len(c.node.args) == 3:
        _set_attribute(c)
        return NOTHING
    if name in ("max", "min") and len(values) > 1:
        one = join(*values) if len(values) == 2 else union(values)  # one of them, as it is
        return constant_terms.nonlinear(one)
    if name in ("sum", "max", "min", "abs") and values:
        return recorded(computed(union([element(v, "each") for v in values])), c.state, c.node)
    if name == "super":
        return UNKNOWN
    if name in k.PASSING_BUILTINS:
        return union(values, Kind.CONTAINER)
    if name in ("setattr", "delattr"):
        return NOTHING
    return None


_CALLED = (Kind.EXTERNAL, Kind.MODULE)
"""What is called with each element by itself: ``mine, theirs = map(encoder, (x, y))``."""


def _of_objects(value: Value) -> bool:
    """Whether all elements of a collection are objects of one class of the project."""
    each = value.part("each")
    return each is not None and each.kind is Kind.INSTANCE


def _adds(function: t.Expr) -> bool:
    """Whether it is a collection's method that puts something into it: ``losses.append``."""
    return isinstance(function, t.Attribute) and function.name in k.ADDING_METHODS


def _methods_like(c: Called) -> Value | None:
    """What ``getattr(self, f"step_{name}")`` may be: one of the methods that begin and end like this."""
    owner, name = c.values[0][1].ref, c.node.args[1].value
    if not isinstance(owner, Class) or not isinstance(name, t.Text):
        return None  # how it is written is told by LibCST, which takes a hundred times as long as all else here
    written = _ONE_PART_OPEN.fullmatch(c.flow.site(name).code)
    if written is None or not (written["start"] or written["end"]):
        return None
    names = sorted({each for cls in owner.lineage() for each in cls.methods})
    fitting = [each for each in names if each.startswith(written["start"]) and each.endswith(written["end"])]
    methods = [Value(kind=Kind.FUNCTION, ref=owner.method(each)) for each in fitting]
    return reduce(join, methods) if methods else None


def _method_by_name(c: Called) -> Value | None:
    """``handler = getattr(callback, event, None)``, which is called later: a method of an object of unknown class."""
    if len(c.node.args) not in (2, 3) or not isinstance(c.values[1][1].ref, Word):
        return None
    held, path = c.values[0][1], _attribute_path(c)
    if held.kind is not Kind.UNKNOWN or held.ref is not None or path is None:
        return None
    known = c.flow.read(path, c.state)
    if known.kind is not Kind.UNKNOWN or known.ref is not None or known.roots != {Root(Source.PLACE, path)}:
        return None
    return known._replace(ref=Bound(t.Call(c.node.origin, c.node.func, c.node.args[:2])))


_ONE_PART_OPEN = re.compile(r"""f(['"])(?P<start>\w*)\{[^{}]*\}(?P<end>\w*)\1""")


def _attribute_path(c: Called) -> str | None:
    """The path that ``getattr(x, name)`` reads; ``x.*`` where only the run knows the name."""
    base, key = t.path_of(c.node.args[0].value), c.values[1][1].ref
    if base is None or (not isinstance(key, Word) and base not in ("self", "cls")):
        return None
    return c.flow.canonical(f"{base}.{key.text if isinstance(key, Word) else '*'}")


def _set_attribute(c: Called) -> None:
    """``setattr(x, name, value)``; one whose name only the run knows counts if it goes on from what was there."""
    path, value, source = _attribute_path(c), c.values[2][1], c.node.args[2].value
    if path is None:
        return
    flow, state = c.flow, c.state
    if path.endswith(".grad") and value.kind is Kind.NOTHING:
        flow.zero(ZeroGrad(flow.site(c.node), flow.loop, flow.branches > 0), state)
    elif path.endswith(".grad"):
        flow.set_gradients(c.node, state)
    before = flow.read(path, state)
    goes_on = is_chained(flow, path, value, before)
    flow.touch(path, state)
    if goes_on and value.keeps:
        is_sum = isinstance(source, t.Operation) and source.operator in "+-"
        flow.store(path, value, state, c.node, source, Form.SUM if is_sum else Form.AVERAGE)
    if goes_on or not path.endswith(".*"):
        state.assign(path, value)


_ENTRIES = "entries"


def _zipped(values: list[Value]) -> Value:
    """What ``zip`` gives; of words and as many values, also what a dict makes of it: ``dict(zip(("x", "y"), row))``."""
    rows = each_of(structure((i, iterated(value)) for i, value in enumerate(values)))
    if len(values) != 2:
        return rows
    words = [(index, word.ref) for index, word in values[0].parts]
    held = [(word.text, values[1].part(index)) for index, word in words if isinstance(word, Word)]
    known = [(word, value) for word, value in held if value is not None]
    if not known or len(known) != len(words):
        return rows
    return rows._replace(parts=(*rows.parts, (_ENTRIES, structure(known, Kind.CONTAINER))))


def _called_with_each(c: Called, over: Value) -> Value:
    """What a call with each element by itself gives: one by one, where it is known how many there are."""

    def made(index: int) -> Value:
        each = t.Subscript(c.node.origin, c.node.args[1].value, t.Constant(c.node.origin, index))
        return c.flow.value(t.Call(c.node.origin, c.node.args[0].value, [t.Arg(each)]), c.state)

    places = [index for index, _ in (over.part("columns") or over).parts if isinstance(index, int)]
    return structure((index, made(index)) for index in places) if places else each_of(made(0))


def _mapped(c: Called, function: FunctionRef, over: Value) -> Value:
    """What a function makes of each element: ``losses, outputs = map(to_numpy, (losses, outputs))``."""

    from gradguard.static.reading.summary import apply_facts

    def made(value: Value) -> Value:
        return apply_facts(c, function, [(c.node.args[1], value)], None)

    if over.parts and all(isinstance(index, int) for index, _ in over.parts):
        return structure((index, made(part)) for index, part in over.parts)
    return each_of(made(iterated(over)))

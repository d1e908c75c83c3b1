"""What a call gives for the parameters of a function of the project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.names import named_kind
from gradguard.static.values import (
    NOTHING,
    NUMBER,
    UNKNOWN,
    Flag,
    Kind,
    Source,
    Value,
    Whole,
    Word,
    element,
    entries_of,
    join,
    union,
)

if TYPE_CHECKING:
    from gradguard.static.program.functions import FunctionRef
    from gradguard.static.reading.called import Called

Given = list[tuple[t.Arg, Value]]


@dataclass(frozen=True)
class Arguments:
    """What a call gives for each parameter, by its name.

    Args:
        values: what is given.
        sources: the expressions that are written for it; of several for ``*args`` or ``**kwargs`` the one to name, the
            first that surely has a graph.
        spread: the parameters for which that is a collection, whose elements they get: ``f(**metrics)``.
        paths: the caller's paths of the objects given, where they have one; also that of ``self``, and of what
            ``*args`` and ``**kwargs`` consist of, as if these were its attributes: ``args.0``, ``kwargs.state``.
    """

    values: dict[str, Value] = field(default_factory=dict)
    sources: dict[str, t.Expr] = field(default_factory=dict)
    spread: set[str] = field(default_factory=set)
    paths: dict[str, str] = field(default_factory=dict)


def bound(c: Called, ref: FunctionRef, given: Given, receiver: str | None) -> Arguments:
    """The arguments of a call, each with its parameter.

    Args:
        c: the call, in its caller.
        ref: the function called.
        given: the arguments.
        receiver: the path of the object, where the call itself does not name it; empty for a constructor.
    """
    arguments = Arguments()
    params = _without_self(c, ref, receiver, arguments)
    plain = [p for p in params if not p.star]
    names = {p.name for p in plain}
    extra: dict[str, dict[object, Value]] = {p.name: {} for p in params if p.star}
    handed_on: dict[str, list[Value]] = {name: [] for name in extra}
    stars = {p.star: p.name for p in params if p.star}
    position, spread, named = 0, set[str](), dict[str, int]()
    for arg, value in given:
        items = _items(value) if arg.star == "*" else ()
        if items and position + len(items) <= len(plain):
            arguments.values.update(zip((p.name for p in plain[position:]), items, strict=False))
            position += len(items)
        elif arg.star:
            reached = spread if arg.star == "**" else ()  # f(*args, **kwargs): whether *args goes so far is not known
            open_names = [p.name for p in plain if p.name not in arguments.values or p.name in reached]
            _spread(c, arguments, arg, value, open_names)
            spread.update(open_names)
            if arg.star in stars:
                handed_on[stars[arg.star]].append(value)
                _name(arguments, named, stars[arg.star], arg, value)
        elif arg.keyword is None and position < len(plain):
            _give(c, arguments, plain[position].name, arg, value)
            position += 1
        elif arg.keyword in names:
            _give(c, arguments, str(arg.keyword), arg, value)
        elif (star := stars.get("*" if arg.keyword is None else "**")) is not None:
            _name(arguments, named, star, arg, value)
            key = len(extra[star]) if arg.keyword is None else arg.keyword
            extra[star][key] = value
            if (path := t.path_of(arg.value)) is not None:
                arguments.paths[f"{star}.{key}"] = c.flow.canonical(path)
    for star, others in extra.items():
        arguments.values[star] = _gathered(handed_on[star], others)
    for param in plain:
        if param.name not in arguments.values and isinstance(param.default, t.Constant):
            arguments.values[param.name] = NOTHING if param.default.value is None else NUMBER
    return arguments


def _name(arguments: Arguments, named: dict[str, int], star: str, arg: t.Arg, value: Value) -> None:
    """Notes what is given for ``*args`` or ``**kwargs``, if it has a graph more surely than what was noted before."""
    if sureness(value) <= named.get(star, -1):
        return
    named[star], arguments.sources[star] = sureness(value), arg.value
    if arg.star:
        arguments.spread.add(star)
    else:
        arguments.spread.discard(star)


def takes(ref: FunctionRef, args: list[t.Arg]) -> bool:
    """Whether a function can be called with these arguments at all; a decorated one may take others than it says."""
    if any(t.path_of(each) not in ("staticmethod", "classmethod") for each in ref.define.decorators):
        return True
    params = list(ref.define.params)
    if ref.owner is not None and params and params[0].name in ("self", "cls"):
        del params[0]
    plain, stars = [p for p in params if not p.star], {p.star for p in params}
    positional = sum(arg.keyword is None and not arg.star for arg in args)
    keywords = {arg.keyword for arg in args if arg.keyword is not None}
    too_many = positional > len(plain) and "*" not in stars
    unknown = keywords - {p.name for p in plain} and "**" not in stars
    needed = [p for p in plain[positional:] if p.default is None and p.name not in keywords]
    return not too_many and not unknown and (not needed or any(arg.star for arg in args))


def takes_keywords(ref: FunctionRef, args: list[t.Arg]) -> bool:
    """Whether a function has a parameter for each keyword of a call; a decorated one may take others than it says."""
    params = ref.define.params
    if ref.define.decorators or any(param.star == "**" for param in params):
        return True
    return {arg.keyword for arg in args if arg.keyword is not None} <= {
        param.name for param in params if not param.star
    }


def _items(value: Value) -> tuple[Value, ...]:
    """What is in a tuple or list, in order, where that is known: ``args = [loss, best]``, ``keep(*args)``."""
    numbers = [key for key, _ in value.parts]
    return tuple(part for _, part in value.parts) if numbers == list(range(len(numbers))) else ()


SEEN = 2
"""How sure it is where a graph was seen to begin."""


def sureness(value: Value) -> int:
    """How sure it is that a value has a graph: one was seen to begin, it comes from somewhere, or neither."""
    begins = any(root.source in (Source.GRAPH, Source.LOSS, Source.LEAF) for root in value.roots)
    return SEEN if begins else int(bool(value.roots))


def _without_self(c: Called, ref: FunctionRef, receiver: str | None, arguments: Arguments) -> list[t.Param]:
    """The parameters that the arguments are for; the path of the object is noted for the first of a method."""
    params = list(ref.define.params)
    constructs = receiver == ""
    on_class = not constructs and c.receiver is not None and c.receiver.kind is Kind.CLASS
    explicit = on_class and not any(t.path_of(d) == "classmethod" for d in ref.define.decorators)
    if ref.owner is None or not params or params[0].name not in ("self", "cls") or explicit:
        return params
    path = None if constructs else receiver or c.receiver_path
    func = c.node.func
    if isinstance(func, t.Attribute) and isinstance(func.value, t.Call) and t.path_of(func.value.func) == "super":
        path = "self"
    if path is None and not isinstance(func, t.Attribute) and not constructs and _is_of_same_object(c, ref):
        path = "self"  # step = self.steps[mode]; step(batch)
    if path is not None:
        arguments.paths[params[0].name] = path
    return params[1:]


def _is_of_same_object(c: Called, ref: FunctionRef) -> bool:
    """Whether a method that is called by another name is one of the class that the caller is a method of."""
    own = c.flow.ref.owner
    return own is not None and c.flow.params[:1] == ["self"] and any(cls is ref.owner for cls in own.lineage())


def _give(c: Called, arguments: Arguments, name: str, arg: t.Arg, value: Value) -> None:
    arguments.values[name] = c.flow.with_fields(value, arg.value, c.state)
    arguments.sources[name] = arg.value
    path = t.path_of(arg.value)
    if path is not None:
        arguments.paths[name] = c.flow.canonical(path)


def _gathered(handed_on: list[Value], others: dict[object, Value]) -> Value:
    """What ``*args`` or ``**kwargs`` is: what is written out, and what is in the collections that are handed on."""
    if len(handed_on) == 1 and not others:
        return handed_on[0]
    known = dict(entry for value in handed_on for entry in entries_of(value)) | others
    hidden = [value for value in handed_on if not entries_of(value)]
    whole = union([*known.values(), *hidden], Kind.CONTAINER)
    return whole._replace(parts=() if hidden else tuple(known.items()))


def _spread(c: Called, arguments: Arguments, arg: t.Arg, value: Value, open_names: list[str]) -> None:
    """``f(*args)`` and ``f(**kwargs)``: any of the parameters that are still open may get any of the elements.

    Where the caller hands on what it was given itself, they are the same objects, in the same order.
    """
    values = arguments.values
    own = t.path_of(arg.value)
    keys: Sequence[object] = open_names if arg.star == "**" else ["each"] * len(open_names)
    if any(param.star == arg.star and param.name == own for param in c.flow.ref.define.params):
        keys = open_names if arg.star == "**" else range(len(open_names))
        arguments.paths.update((name, f"{own}.{key}") for name, key in zip(open_names, keys))
    for name, key in zip(open_names, keys):
        part = element(value, key)
        values[name] = join(values[name], part) if name in values else part


def with_flags(ref: FunctionRef, given: Given) -> FunctionRef:
    """The function as this call makes it run, where the truth of an argument decides which way it takes."""
    if not ref.tested or ref.given:
        return ref
    names = [p.name for p in ref.define.params if not p.star]
    positional = iter(names[1:] if ref.owner is not None and names[:1] in (["self"], ["cls"]) else names)
    values: dict[str, Value] = {}
    for arg, value in given:
        if arg.star:
            positional = iter(())  # what comes after it may be for any parameter
        else:
            values[arg.keyword or next(positional, "")] = _told(arg.value, value)
    if not any(arg.star for arg, _ in given):
        values = _by_default(ref) | values
    flags = {
        name: value
        for name, value in values.items()
        if name in ref.tested and isinstance(value.ref, Flag | Whole | Word)
    }
    if not flags:
        return ref
    told = tuple(sorted((name, value.ref) for name, value in flags.items()))
    return ref.bound((*ref.bindings, *flags.items()), (ref.variant, told))


def _told(written: t.Expr, value: Value) -> Value:
    """What an argument says of the way that a function takes: a truth, a word, an optimizer or that there is none."""
    if isinstance(written, t.Constant) and (written.value is None or isinstance(written.value, bool)):
        return NUMBER._replace(ref=Flag(bool(written.value)))
    if isinstance(written, t.Constant) and isinstance(written.value, int):
        return NUMBER._replace(ref=Whole(written.value))
    if value.kind is Kind.OPTIMIZER:
        return Value(kind=Kind.OPTIMIZER, ref=Flag(True))
    return NUMBER._replace(ref=value.ref)


def _by_default(ref: FunctionRef) -> dict[str, Value]:
    """What is chosen unless a call says otherwise: whether gradients are computed, perhaps, or what is kept."""
    of_mode = any(word in ref.chunk.text for word in k.OF_GRADIENT_MODE)
    chosen = ref.tested if of_mode else ref.keeping
    defaults = {p.name: p.default for p in ref.define.params if isinstance(p.default, t.Constant) and p.name in chosen}
    return {
        name: _told(default, UNKNOWN)
        for name, default in defaults.items()
        if isinstance(default.value, bool) or named_kind(name) is Kind.OPTIMIZER
    }

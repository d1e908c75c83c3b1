"""What the flow knows of a value: above all, the places its graph may come from.

A value is the set of *roots* its graph may come from. Breaking the graph (``.item()``, ``.detach()``, ``no_grad``)
gives the empty set, an operation gives the union of its operands. Whether a value carries a graph is then a question
about its roots, and it can be asked after the whole function was read: a ``backward`` further down proves it too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import Enum, auto
from typing import NamedTuple, TypeVar

from gradguard.static.program.kinship import nearest_base

_T = TypeVar("_T")


class Source(Enum):
    """The kinds of roots."""

    __hash__ = object.__hash__  # each is there once; Enum's own hashes its name, in Python, for each look-up

    GRAPH = auto()  # a graph certainly starts here: a module was called on something
    LEAF = auto()  # requires_grad without a history: an operation on it starts a graph
    LOSS = auto()  # the result of something that is named as a loss function is
    CALL = auto()  # the result of a call that could not be followed
    PARAM = auto()  # a parameter of the function
    PLACE = auto()  # an attribute or an outer variable, as it was when the function was entered
    CARRIED = auto()  # a variable as it was when the iteration began


class Held(Enum):
    """The kinds of memory that a value keeps alive beside a graph."""

    __hash__ = object.__hash__  # as of a source

    GRADIENT = auto()  # a parameter's ``.grad``
    VIEW = auto()  # a small part of a tensor, whose storage is the whole one's
    STATE = auto()  # a model's own state, not a copy
    SNAPSHOT = auto()  # a copy of a model or of its state
    OUTPUT = auto()  # what a module returned, on the device where it was computed
    MOVED = auto()  # a batch that was moved to a device
    EXCEPTION = auto()  # an exception, with the frames that it passed through and what they hold
    OPTIMIZER = auto()  # an optimizer, with its state
    PARAMETER = auto()  # a new parameter
    MEMBER = auto()  # no memory of its own: it is an element of a collection, which lives on
    CUT = auto()  # no memory: a graph was cut here
    GROWN = auto()  # what was there before, of which it is a longer copy
    GIVEN = auto()  # what the argument holds that its graph was cut from, as the caller knows
    FROZEN = auto()  # no memory: none of the parameters of a module asks for a gradient
    PART = auto()  # a small part of an argument: a view, where the caller gives a tensor
    COPIED = auto()  # no memory: its numbers were copied out of a graph
    UNRECORDED = auto()  # no memory: it was computed where no graph is recorded, of what has one
    REBUILT = auto()  # no memory: its numbers were copied out of an argument, which has a graph as the caller knows
    TERM = auto()  # no memory: it is a sum, of which a term is such numbers
    SLOPE = auto()  # no memory: it is made of a sum, of which a term is a second derivative without its graph


class Root(NamedTuple):
    source: Source
    key: Hashable

    @property
    def base(self) -> str:
        """The parameter or path that a PARAM or PLACE root stands for, also of a part of it."""
        return self.key.base if isinstance(self.key, Part) else self.key if isinstance(self.key, str) else ""


class Holding(NamedTuple):
    """Memory that a value keeps alive, and the expression where that began."""

    held: Held
    key: Hashable


class Part(NamedTuple):
    """A part of a parameter or place whose value only the caller knows: ``outputs["loss"]``, an element of a list."""

    base: str
    keys: tuple[object, ...]


Roots = frozenset[Root]
Holdings = frozenset[Holding]
NONE: Roots = frozenset()
ON_DEVICE = (Held.OUTPUT, Held.MOVED)
"""Whole batches, on the device, and what is as large."""
NO_MEMORY = (Held.CUT, Held.COPIED, Held.UNRECORDED, Held.REBUILT, Held.TERM, Held.SLOPE)
"""What is only known of a value, and keeps nothing alive."""
NOTHING_HELD: Holdings = frozenset()


class Kind(Enum):
    """What sort of object a value is, as far as it matters."""

    UNKNOWN = auto()
    NUMBER = auto()  # or a string, a bool, an array of numpy: never part of a graph
    NOTHING = auto()  # the constant None
    TENSOR = auto()
    OUTPUT = auto()  # what a module returned: a tensor, or a structure of tensors
    CONTAINER = auto()
    MODULE = auto()
    OPTIMIZER = auto()
    SCALER = auto()
    LOADER = auto()
    INSTANCE = auto()  # of a class of the project
    FUNCTION = auto()  # of the project
    CLASS = auto()  # of the project
    EXTERNAL = auto()  # a name of another package, dotted in ``ref``
    HANDLE = auto()  # what registering a hook returned
    GRADIENT = auto()  # a ``.grad``


class Registrar(NamedTuple):
    """A method that installs a hook, not called yet: ``install = layer.register_forward_hook``."""

    method: str
    receiver: str
    of: Value


class Bound(NamedTuple):
    """A method of a container, not called yet: ``keep = history.append``. ``method`` is the expression."""

    method: Hashable


class Choice(NamedTuple):
    """One of several functions, or classes: ``steps[mode]``, ``train if training else test``."""

    functions: tuple[object, ...]


class Fields(NamedTuple):
    """What makes a record of which only the fields are known: ``Output = namedtuple("Output", "loss logits")``."""

    names: tuple[str, ...]


class Word(NamedTuple):
    """A string that is known: which part of a dict a key means."""

    text: str


class Flag(NamedTuple):
    """A truth value that is known: which of two ways a call takes."""

    holds: bool


class Whole(NamedTuple):
    """A whole number that is known: which stage of a training a call is for."""

    number: int


class Value(NamedTuple):
    """An abstract value. A tuple, as a million of them are made in a large run: that takes a third of the time.

    Args:
        roots: where its graph comes from, if it has one.
        maybe: where its graph may come from besides (through calls that could not be followed).
        must: the roots among CARRIED and PLACE that it contains on every path.
        kind: what it is.
        parts: elements of a tuple by index, values of a dict by constant key.
        ref: what it refers to, by kind: a dotted name, a class, a function.
        bounded: a container that drops old elements by itself, or is trimmed.
        holds: what it keeps alive besides a graph.
    """

    roots: Roots = NONE
    maybe: Roots = NONE
    must: Roots = NONE
    kind: Kind = Kind.UNKNOWN
    parts: tuple[tuple[object, Value], ...] = ()
    ref: object | None = None
    bounded: bool = False
    holds: Holdings = NOTHING_HELD

    @property
    def keeps(self) -> bool:
        """Whether it may keep anything alive: a graph, or other memory."""
        return bool(self.roots or self.maybe or self.holds)

    def holding(self, *kinds: Held) -> Holdings:
        """What it holds of these kinds."""
        return frozenset(h for h in self.holds if h.held in kinds) if self.holds else NOTHING_HELD

    @property
    def is_operation_result(self) -> bool:
        """Whether it surely is a tensor with a history that began in this very function, not a leaf."""
        return self.has_own_graph and self.kind in (Kind.TENSOR, Kind.OUTPUT)

    @property
    def has_own_graph(self) -> bool:
        """Whether a graph surely began in this very function: not only in one that it called, on some of its ways."""
        leaves = [r for r in self.roots if r.source is Source.LEAF]
        own = any(r.source is Source.GRAPH and not isinstance(r.key, tuple) for r in self.roots)
        return own and not any(isinstance(r.key, tuple) for r in leaves)

    @property
    def reach(self) -> Roots:
        """Every root it may have."""
        return self.roots | self.maybe

    def part(self, key: object) -> Value | None:
        for name, value in self.parts:
            if name == key and type(name) is type(key):
                return value
        return None

    def with_roots(self, *roots: Root) -> Value:
        return self._replace(roots=self.roots | frozenset(roots))


DETACHED = Value(kind=Kind.TENSOR)
BATCH = Value(kind=Kind.TENSOR, ref="batch")
"""What a loader gives: a tensor, or a structure of tensors."""
DATA = Value(kind=Kind.TENSOR, ref="data")
"""A tensor that was made here: it has no graph."""
NUMBER = Value(kind=Kind.NUMBER)
ARRAY = Value(kind=Kind.NUMBER, ref="array")
"""An array of NumPy that was made of a tensor."""
NOTHING = Value(kind=Kind.NOTHING)
UNKNOWN = Value()


def node_within(key: Hashable) -> object:
    """The expression that a root or a holding began at, in the function where that was, whoever called it."""
    while isinstance(key, tuple) and key:
        key = key[-1]
    return key


def union(values: Iterable[Value], kind: Kind = Kind.TENSOR) -> Value:
    """A value made of all of ``values``: an operation's result, a container's content."""
    roots, maybe, must, holds = NONE, NONE, NONE, NOTHING_HELD
    for value in values:
        roots = either(roots, value.roots)
        maybe = either(maybe, value.maybe)
        must = either(must, value.must)
        holds = either(holds, value.holds)
    return Value(roots, maybe, must, kind, holds=holds)


def graph_of(value: Value) -> Value:
    """What is known of the graph of a value, and nothing else."""
    return Value(value.roots, value.maybe) if value.reach else UNKNOWN


def either(a: frozenset[_T], b: frozenset[_T]) -> frozenset[_T]:
    """What is in one of two sets; no new one where one of them is that: nearly all are empty, and they are kept."""
    if not b or a is b:
        return a
    return a | b if a else b


def _is_clear(value: Value) -> bool:
    """Whether it is known that a value has a graph, or that it has none."""
    data = value.kind in (Kind.NUMBER, Kind.NOTHING, Kind.LOADER) or value.ref in ("batch", "data")
    return data or bool(value.reach or value.holding(Held.CUT))


def whole(value: Value) -> Holdings:
    """What a tensor that is as large as this one keeps alive on the device; of an argument, what the caller knows."""
    if value.kind not in (Kind.UNKNOWN, Kind.TENSOR, Kind.OUTPUT):
        return NOTHING_HELD
    known = value.holding(*ON_DEVICE, Held.GIVEN)
    if value.kind is not Kind.UNKNOWN:  # it was computed, and may be smaller than what it was computed from
        return known
    return known.union(Holding(Held.GIVEN, root) for root in value.roots if root.source is Source.PARAM)


_OF_A_RESULT = frozenset((Held.CUT, Held.COPIED, Held.UNRECORDED, Held.REBUILT, Held.SLOPE))


def computed(value: Value) -> Value:
    """A value that was computed: it shares no memory with what it was computed from."""
    return value._replace(holds=frozenset(h for h in value.holds if h.held in _OF_A_RESULT)) if value.holds else value


def combined(values: Iterable[Value], kind: Kind = Kind.TENSOR) -> Value:
    """The result of an operation on ``values``; that its graph was cut is certain only if each of them is known."""
    given = tuple(values)
    result = computed(union(given, kind))
    unclear = any(not _is_clear(v) for v in given)
    return result._replace(holds=result.holds - result.holding(Held.CUT)) if unclear else result


def viewed(value: Value) -> Value:
    """Another tensor of the same storage: no element of the collection that the first one is in."""
    return value._replace(holds=value.holds - value.holding(Held.MEMBER)) if value.holds else value


def holding(value: Value, held: Held, key: Hashable) -> Value:
    """The value, which keeps some memory alive besides."""
    return value._replace(holds=value.holds | {Holding(held, key)})


def structure(parts: Iterable[tuple[object, Value]], kind: Kind = Kind.UNKNOWN) -> Value:
    """A value with known parts: a tuple, what a loop gives each time (``each``), a dict."""
    known = tuple(parts)
    return union((value for _, value in known), kind)._replace(parts=known)


def each_of(value: Value, kind: Kind = Kind.CONTAINER) -> Value:
    """A container or an iterable whose elements are all like ``value``."""
    return structure((("each", value),), kind)


_OUTER = (Source.PLACE, Source.PARAM)


def held_in(container: Value, element: Value) -> Value:
    """An element as it is read from a container: it may carry what the container carries."""
    carried = frozenset(r for r in container.roots if r.source is Source.CARRIED or r.source in _OUTER)
    if not carried:
        return element
    parts = tuple((key, held_in(container, part)) for key, part in element.parts)
    return element._replace(maybe=element.maybe | carried, parts=parts)


def carried_element(container: Value, element: Value) -> Value:
    """One of the elements: of a container that was there before the loop, or is elsewhere, what it is now."""
    return held_in(container, element)._replace(must=container.must) if container.must else element


_DEEP = 4
_MANY = 8


def _is_deep(root: Root) -> bool:
    """Whether a root is a part of a part of a part: what is in it is not told apart any more."""
    return isinstance(root.key, Part) and len(root.key.keys) >= _DEEP


def part_of(value: Value, key: object) -> Value:
    """A part of a value that came from outside, by its key: the caller may know it more closely."""
    outer = frozenset(r for r in value.roots if r.source in _OUTER and not _is_deep(r))
    if not outer or len(outer) > _MANY:
        return value
    parts = frozenset(
        Root(r.source, Part(r.base, (*(r.key.keys if isinstance(r.key, Part) else ()), key))) for r in outer
    )
    return value._replace(roots=(value.roots - outer) | parts, maybe=value.maybe | outer)


def join(a: Value, b: Value, *, trusted: str = "both") -> Value:
    """A value that is ``a`` on one path and ``b`` on another.

    Args:
        trusted: whose ``must`` counts. ``both``: what is on every path. ``first`` / ``second``: the other path is
            taken only at the start (``if hidden is None:``) and says nothing about the steady state.
    """
    if a is b:
        return a
    if trusted == "both":
        must, bounded = a.must & b.must or NONE, a.bounded or b.bounded
    else:
        chosen = a if trusted == "first" else b
        must, bounded = chosen.must, chosen.bounded
    kind, ref = _common(a, b)
    parts: tuple[tuple[object, Value], ...] = ()
    if a.parts and [k for k, _ in a.parts] == [k for k, _ in b.parts]:
        parts = tuple((k, join(x, y, trusted=trusted)) for (k, x), (_, y) in zip(a.parts, b.parts))
    elif is_blank(a) or is_blank(b):
        parts = (b if is_blank(a) else a).parts
    elif Kind.NOTHING in (a.kind, b.kind):  # what is None on the other way is not taken apart there
        parts = a.parts or b.parts
    elif _are_tuples(a, b):  # one way returns more than the other
        longer, other = (a, b) if len(a.parts) > len(b.parts) else (b, a)
        parts = tuple((k, join(v, o, trusted=trusted) if (o := other.part(k)) else v) for k, v in longer.parts)
    elif is_record(a) and is_record(b):
        keys = dict.fromkeys(k for k, _ in (*a.parts, *b.parts))
        parts = tuple((k, _joined(a.part(k), b.part(k), trusted)) for k in keys)
    roots, maybe, holds = either(a.roots, b.roots), either(a.maybe, b.maybe), either(a.holds, b.holds)
    if holds and Kind.NOTHING not in (a.kind, b.kind) and not (is_frozen(a) and is_frozen(b)):
        holds = thawed(holds)
    return Value(roots, maybe, must, kind, parts, ref, bounded, holds)


def is_frozen(value: Value) -> bool:
    """Whether a value is a module that surely has no parameter which asks for a gradient."""
    return value.kind is Kind.MODULE and bool(value.holding(Held.FROZEN))


def thawed(holds: Holdings) -> Holdings:
    """What is held by a module that may have such a parameter."""
    return frozenset(h for h in holds if h.held is not Held.FROZEN)


def learning(value: Value) -> Value:
    """A module, or a collection of modules, of which some parameter may ask for a gradient."""
    parts = tuple((key, learning(part)) for key, part in value.parts)
    return value._replace(parts=parts, holds=thawed(value.holds))


def _joined(a: Value | None, b: Value | None, trusted: str) -> Value:
    """What is under a key on either way; where only one has it, its value."""
    if a is None or b is None:
        return a or b or UNKNOWN
    return join(a, b, trusted=trusted)


def _are_tuples(*values: Value) -> bool:
    """Whether values are known by their places: tuples of whatever length."""
    return all(value.parts and all(type(key) is int for key, _ in value.parts) for value in values)


def is_blank(value: Value) -> bool:
    """A container of which nothing is known but where it lives: its elements are like those that are put into it."""
    if value.parts or value.kind is not Kind.CONTAINER:
        return False
    return all(r.source in (Source.CARRIED, Source.PLACE) for r in value.roots)


def is_empty(value: Value) -> bool:
    """A container that was begun here, with nothing in it."""
    return value.kind is Kind.CONTAINER and not value.must and not value.keeps


def _common(a: Value, b: Value) -> tuple[Kind, object]:
    if a.kind is b.kind:
        install = isinstance(a.ref, Registrar) and isinstance(b.ref, Registrar)
        one = a.ref if a.ref == b.ref or install else None
        if one is None and a.kind is Kind.CLASS:  # one of several: what they are all derived from
            one = nearest_base(a.ref, b.ref)
        return a.kind, _choice(a.ref, b.ref) if one is None and a.kind in (Kind.FUNCTION, Kind.CLASS) else one
    for one, other in ((a, b), (b, a)):
        if one.kind in (Kind.NOTHING, Kind.UNKNOWN) or (
            one.kind is Kind.NUMBER and other.kind in (Kind.TENSOR, Kind.OUTPUT)
        ):
            return other.kind, other.ref
    return Kind.UNKNOWN, None


def _choice(*refs: object) -> Choice | None:
    """One of some functions or classes, if nothing else is among them."""
    if any(ref is None or isinstance(ref, Registrar | Bound | Fields) for ref in refs):
        return None
    return Choice(
        tuple(dict.fromkeys(f for ref in refs for f in (ref.functions if isinstance(ref, Choice) else [ref])))
    )


def element(value: Value, index: object) -> Value:
    """One part of a value that is unpacked or indexed."""
    part = value.part(index) if index != "each" else None
    if part is not None:  # a part of an element lives as long as the element does
        members = value.holding(Held.MEMBER)
        return part._replace(holds=part.holds | members) if members else part
    if (each := value.part("each")) is not None:
        return carried_element(value, each) if each.kind is not Kind.MODULE else held_in(value, each)
    if (rows := value.part("columns")) is not None:
        return each_of(element(rows, index))
    if isinstance(index, int) and value.kind is Kind.OUTPUT and is_record(value) and 0 <= index < len(value.parts):
        return value.parts[index][1]  # a named tuple
    if value.parts and not isinstance(index, int):
        parts = [part for _, part in value.parts]
        if isinstance(index, str) and index != "each" and is_record(value):  # a KeyError, or a key that was not seen
            return Value(maybe=union(parts).reach)
        if any(
            all(part.kind is kind for part in parts) for kind in (Kind.MODULE, Kind.FUNCTION, Kind.INSTANCE, Kind.CLASS)
        ):
            return _any_of(parts)
        if value.must:
            return carried_element(value, union(parts, Kind.UNKNOWN))
        alike = all(p.parts or isinstance(p.ref, Registrar | Word) for p in parts)
        return _any_of(parts) if index == "each" and alike else union(parts, Kind.UNKNOWN)
    if value.kind in (Kind.OUTPUT, Kind.TENSOR):
        return value._replace(parts=())
    value = part_of(value, index)
    if value.kind is Kind.CONTAINER:
        return value._replace(parts=(), kind=Kind.UNKNOWN)
    if any(r.source is Source.LOSS for r in value.roots):  # which of the results has the graph, backward shows
        value = value._replace(roots=frozenset(r for r in value.roots if r.source is Source.LOSS), maybe=value.reach)
    roots = frozenset(
        Root(r.source, (r.key, index)) if r.source in (Source.CALL, Source.LOSS) else r for r in value.roots
    )
    kind = value.kind if value.kind is Kind.NUMBER else Kind.UNKNOWN
    return Value(roots, value.maybe, value.must, kind, holds=value.holds)


def _any_of(values: list[Value]) -> Value:
    """One of several rows: ``for name, loss in (("l1", l1), ("l2", l2))``."""
    first, *others = values
    for other in others:
        first = join(first, other)
    return first


def iterated(value: Value) -> Value:
    """What a loop over ``value`` gives in each iteration."""
    if value.parts:
        return element(value, "each")
    if value.kind is Kind.LOADER:
        return BATCH._replace(holds=value.holds)
    if value.kind in (Kind.NUMBER, Kind.EXTERNAL):
        return number_like(value) if value.kind is Kind.NUMBER else Value()
    return element(value, "each")


def number_like(value: Value) -> Value:
    """A number that is computed of another one, or of an array: it was copied out of the same graph."""
    known = value.holding(Held.COPIED, Held.REBUILT) if value.holds else NOTHING_HELD
    return NUMBER._replace(holds=known) if known else NUMBER


def with_item(holder: Value, key: str, value: Value) -> Value:
    """A dict after ``holder[key] = value``: of one whose keys are known, this one is known too."""
    return with_entries(holder, ((key, value),)) if entries_of(holder) else with_content(holder, value)


def entries_of(value: Value) -> tuple[tuple[object, Value], ...]:
    """The entries of a dict whose keys are all known; none where others may put something into it."""
    own = value.must.difference(*(part.must for _, part in value.parts))  # not of what is in it
    here = not any(root.source is Source.PLACE for root in own)
    return value.parts if here and is_record(value) else ()


def with_entries(holder: Value, entries: Iterable[tuple[object, Value]]) -> Value:
    """A dict whose keys are all known, after some entries were put into it: what was under their keys is gone."""
    parts = tuple({**dict(holder.parts), **dict(entries)}.items())
    before, now = (union(value for _, value in known) for known in (holder.parts, parts))
    return holder._replace(
        roots=(holder.roots - before.roots) | holder.must | now.roots,
        maybe=(holder.maybe - before.maybe) | now.maybe,
        holds=(holder.holds - before.holds) | now.holds,
        parts=parts,
    )


def is_record(value: Value) -> bool:
    """Whether all parts of a value are known by their keys: a dict that was written out."""
    return bool(value.parts) and all(isinstance(key, str) and key not in ("each", "columns") for key, _ in value.parts)


def with_content(holder: Value, value: Value) -> Value:
    """A container after ``value`` was put into it."""
    adds = value.reach or value.holds - value.holding(*NO_MEMORY)
    return holder._replace(
        roots=holder.roots | value.roots,
        maybe=holder.maybe | value.maybe,
        parts=() if adds else holder.parts,
        holds=holder.holds | value.holds,
    )

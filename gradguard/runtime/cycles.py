"""Objects that hold themselves, so that only the cyclic collector frees them, and the tensors that wait with them.

If the collector frees some objects in every step, or if memory grows and no variable explains it, a look at what is
alive tells which of the user's classes refer to themselves and are reached by no variable. That they are garbage is
proven when some of them die inside of a collection, or when new ones come that nothing but other garbage refers to.
"""

from __future__ import annotations

import ast
import gc
import weakref
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import partial
from types import FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from gradguard.findings import Holder, Leak, Place
from gradguard.runtime import advice, census, origin
from gradguard.runtime.collector import BETWEEN, Collector
from gradguard.runtime.explain import Diagnosed
from gradguard.runtime.naming import file_of, type_name
from gradguard.runtime.references import ATOMS, references
from gradguard.runtime.source import Sources, place_of
from gradguard.runtime.usercode import is_user_type

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals

MAX_LOOKS = 4
NOW_AND_THEN = 2
"""Collections by a program that has switched the collector off: the cycles are meant to wait for the next."""

WATCHED = 64
"""Instances of one class whose death is waited for."""

DEPTH = 5
NEAR = 400
"""How far from an object a reference back to it is looked for."""

LARGE = 1 << 20
"""Bytes: less garbage than this, of a class that is no module, is not worth a word."""


@dataclass(slots=True)
class _Kind:
    """One class whose instances refer to themselves.

    Args:
        name: the attribute by which they do.
        path: the holder's path.
        type: the class's name.
        home: the file of the class.
        is_model: it has parameters, or it is the context of an autograd function: what waits is never small.
        size: bytes of the tensors of one instance.
        seen: instances that no variable reached, at one look.
        dead: instances that died inside of a collection.
    """

    name: str
    path: str
    type: str
    home: str | None
    is_model: bool
    size: int
    seen: int = 0
    dead: int = 0
    is_proven: bool = False
    waiting: list[Any] = field(default_factory=list)


class Cycles:
    """Looks at what is alive, and waits for the end of what refers to itself.

    Args:
        collector: says when it collects, and what that freed.
    """

    def __init__(self, collector: Collector) -> None:
        self.looks = 0
        self._collector = collector
        self._kinds: dict[type, _Kind] = {}
        self._next = 0

    def is_due(self, step: int) -> bool:
        """Whether a look now may tell more than those before."""
        return self.looks < MAX_LOOKS and step >= self._next

    @property
    def has_suspects(self) -> bool:
        """Whether a class was seen whose objects may be garbage."""
        return bool(self._kinds)

    def look(self, step: int, frame: FrameType | None, internals: TorchInternals) -> None:
        """See which objects of the user's classes no variable reaches, and wait for their end."""
        self.looks += 1
        self._next = step + BETWEEN * self.looks
        reached, complete = census.reach(frame, internals)
        groups: defaultdict[type, list[Any]] = defaultdict(list)
        asked: dict[int, bool] = {}  # hundreds of thousands of objects have a few thousand classes
        for thing in gc.get_objects():
            cls = type(thing)  # not `isinstance`: it asks the object for its `__class__`
            matters = asked.get(id(cls))
            if matters is None:
                matters = asked[id(cls)] = _matters(cls, complete)
            if matters and id(thing) not in reached:
                groups[cls].append(thing)
        for cls, found in groups.items():
            self._consider(cls, found, internals)
        self._collector.measures = bool(self._kinds)

    def _consider(self, cls: type, found: list[Any], internals: TorchInternals) -> None:
        of_function = _function_of(cls) is not None
        told = [(each, _own_output(each, internals) if of_function else _refers_to_itself(each)) for each in found]
        told = [(each, name) for each, name in told if name is not None]
        if not told:
            return
        first, name = told[0]
        kind = self._kinds.get(cls)
        if kind is None:
            assert name is not None
            kind = self._kinds[cls] = _kind_of(cls, first, name, internals)
        fresh = [each for each, _ in told if id(each) not in {id(ref()) for ref in kind.waiting}]
        again = kind.seen > 0 and bool(fresh)  # a model that a library holds is not made anew
        kind.is_proven |= of_function or (again and all(_is_unreached(each, found) for each in fresh[:2]))
        kind.seen = max(kind.seen, len(told))
        for each, name in told[:WATCHED]:
            target = getattr(each, name or "", None) if of_function else each
            try:
                kind.waiting.append(weakref.ref(target, partial(self._died, kind)))
            except TypeError:
                return

    def _died(self, kind: _Kind, _: Any) -> None:
        kind.dead += self._collector.is_collecting

    def found(self, step: int) -> list[Diagnosed]:
        """The leaks, at the end; none where the program runs the collector itself, now and then."""
        if self._collector.by_hand >= NOW_AND_THEN:
            return []
        sources = Sources()
        steps = max(step - self._collector.first_step, 1)
        found = []
        for kind in self._kinds.values():
            kind.waiting.clear()
            peak = max(self._collector.peak, kind.size * kind.seen)
            if (kind.dead or kind.is_proven) and (kind.is_model or peak >= LARGE):
                rate = max(self._collector.freed, kind.size * kind.seen) / steps
                found.append(_diagnosed(kind, sources, step, rate, peak))
        return found


def _diagnosed(kind: _Kind, sources: Sources, step: int, rate: float, peak: int) -> Diagnosed:
    places = _statements(kind, sources)
    leak = Leak(
        kind="cycle",
        holder=Holder(kind.name, kind.path, kind.type, "internal" if kind.path.startswith("ctx") else "attribute"),
        bytes_per_step=None,
        per_step=None,
        explained=None,
        stored_at=places[0] if places else None,
        also_stored_at=tuple(places[1:4]),
        freed_by_gc=True,
        devices=("cpu",),
        advice=advice.for_garbage(kind.name, peak, kind.path.startswith("ctx")),
    )
    return Diagnosed(leak, rate, 0.0, False, None, None, step, rate)


def _statements(kind: _Kind, sources: Sources) -> list[Place]:
    found = origin.storing_statements(sources, kind.name, None, kind.home)
    return [place_of(filename, statement) for filename, statement in found if _sets_attribute(statement, kind.name)]


def _sets_attribute(statement: ast.stmt, name: str) -> bool:
    targets = (n for n in ast.walk(statement) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return any(target.attr == name for target in targets)


# --- what refers to itself ------------------------------------------------------------------------------------------


def _matters(cls: type, complete: bool) -> bool:
    """Whether objects of a class are looked at: the user's, if all that variables reach is known."""
    if issubclass(cls, (type, FrameType, ModuleType, FunctionType)):
        return False
    return _function_of(cls) is not None or (complete and is_user_type(cls))


def _function_of(cls: type) -> type | None:
    """The user's ``autograd.Function`` whose contexts are of this class."""
    forward = getattr(cls, "_forward_cls", None)
    return forward if isinstance(forward, type) and is_user_type(forward) else None


def _own_output(context: Any, internals: TorchInternals) -> str | None:
    """The attribute of a context in which it keeps its own output."""
    for name, value in list(getattr(context, "__dict__", {}).items()):
        parts = value if type(value) in (tuple, list) else (value,)
        if any(issubclass(type(each), internals.tensor_type) and each.grad_fn is context for each in parts):
            return str(name)
    return None


def _refers_to_itself(thing: Any) -> str | None:
    """The attribute through which an object leads back to itself."""
    own = getattr(thing, "__dict__", None)
    for name, value in list(own.items()) if isinstance(own, dict) else ():
        if type(value) not in ATOMS and _leads_to(value, thing):
            return _inner_name(name, value, thing)
    return None


def _inner_name(name: str, value: Any, thing: Any) -> str:
    """The attribute by which a part refers to its whole, where that is what closes the circle."""
    if name != "_modules":
        return str(name)
    return next((str(n) for n, part in value.items() if part is not None and _leads_to(part, thing)), str(name))


def _leads_to(start: Any, target: Any) -> bool:
    waiting, seen = deque([(start, 0)]), {id(start)}
    while waiting and len(seen) < NEAR:
        thing, depth = waiting.popleft()
        if thing is target:
            return True
        if depth == DEPTH:
            continue
        try:
            following = list(references(thing))
        except Exception:  # somebody else's object
            continue
        for _, each in following:
            if type(each) not in ATOMS and not issubclass(type(each), type) and id(each) not in seen:
                seen.add(id(each))
                waiting.append((each, depth + 1))
    return False


def _is_unreached(thing: Any, ours: list[Any]) -> bool:
    """Whether nothing refers to an object but others that nothing refers to."""
    members = {id(thing): thing}
    fresh = [thing]
    mine = {id(members), id(fresh), id(ours)}
    while fresh:
        above = gc.get_referrers(*fresh)
        mine.add(id(above))
        following = []
        for each in above:
            if id(each) in members or id(each) in mine or _is_of_this_look(each):
                continue
            if issubclass(type(each), (FrameType, ModuleType, type)) or len(members) > NEAR:
                return False
            members[id(each)] = each
            following.append(each)
        fresh = following
        mine.add(id(fresh))
    return True


def _is_of_this_look(thing: Any) -> bool:
    """Whether what refers to an object is this module's own frame, list or tuple."""
    if type(thing) is FrameType:
        return bool(thing.f_code.co_filename == __file__)
    return type(thing) in (list, tuple) and any(
        type(each) is FrameType and each.f_code.co_filename == __file__ for each in gc.get_referrers(thing)
    )


def _kind_of(cls: type, thing: Any, name: str, internals: TorchInternals) -> _Kind:
    function = _function_of(cls)
    size = _bytes_of(thing, internals)
    owner = function or cls
    path = f"ctx.{name} of {owner.__name__}" if function is not None else f"{owner.__name__}.{name}"
    module = file_of(owner.__module__)
    is_model = function is not None or issubclass(cls, internals.module_type)
    return _Kind(name, path, type_name(thing) if function is None else owner.__name__, module, is_model, size)


def _bytes_of(thing: Any, internals: TorchInternals) -> int:
    """Bytes of the tensors that an object leads to."""
    waiting, seen, storages = deque([thing]), {id(thing)}, {}
    while waiting and len(seen) < 10 * NEAR:
        each = waiting.popleft()
        if issubclass(type(each), internals.tensor_type):
            address, size = internals.storage_of(each)
            storages[address] = size
            if each.is_leaf and each.grad is not None:
                waiting.append(each.grad)
            continue
        try:
            following = list(references(each))
        except Exception:  # somebody else's object
            continue
        for _, value in following:
            if type(value) not in ATOMS and not issubclass(type(value), type) and id(value) not in seen:
                seen.add(id(value))
                waiting.append(value)
    return sum(storages.values())

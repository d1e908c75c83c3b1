"""What is alive now: every variable of the user, what it reaches, and what nobody reaches.

A census is a tree of spots. A spot is a place in the user's own words (``trainer.history["loss"]``); the items of a
collection share one (``[*]``). Each object belongs to the first spot that reaches it, variables that live longer
first, so that a second name for the same list does not count it again. Two censuses some steps apart show what grew
(:mod:`gradguard.runtime.holders`).
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from time import thread_time
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from gradguard.runtime import caches, graph_size, training_threads
from gradguard.runtime.native import is_native
from gradguard.runtime.references import ANY_ITEM, ATOMS, is_array, items_of, references
from gradguard.runtime.roots import Root, roots
from gradguard.runtime.spots import Spot

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals

MAX_OBJECTS = 400_000
MAX_SECONDS = 1.0
SLOTS_OF_A_SPOT = 4
"""Of a collection, the graphs of the last few tensors are followed."""

LARGE = 5_000
"""A collection of more than this many items is opened only if a tensor is near either end."""

SAMPLE = 40
SAMPLES = 4
NEAR = 600
"""Objects that are looked at to find that tensor."""

TEXTS = frozenset({str, bytes, bytearray})
PLAIN_BYTES = 512
"""Python's own allocator has what is not larger; the rest is on the C heap."""
_OF_THE_WATCH = frozenset(f"gradguard.runtime.{name}" for name in ("watch", "escalation", "diagnosis"))
"""Where the classes are that know of the user's objects what a look has found: a hook of ours leads to them."""

_POINTER = 8
"""Bytes that a collection has for each item, at least."""


@dataclass(slots=True)
class Orphans:
    """Tensors that Python sees and no variable of the user reaches.

    Args:
        tensors: how many.
        second_order: leaves whose gradient has a graph (``create_graph=True``).
        hooked: tensors with hooks on them.
        attached: tensors with a graph.
        samples: weak references to the last few of those.
        devices: where those are that have a graph or hooks.
    """

    tensors: int = 0
    attached: int = 0
    second_order: int = 0
    hooked: int = 0
    samples: tuple[Any, ...] = ()
    devices: set[Any] = field(default_factory=set)


@dataclass(slots=True)
class Census:
    """Everything alive at the end of one step.

    Args:
        step: which.
        top: a spot for each namespace is below it.
        roots: the namespaces, by the label of their spot.
        orphans: what no variable reaches.
        complete: whether nothing was left out for lack of time.
        parameters: the identities of all ``nn.Parameter`` that were reached.
        missed: how often each cache of ``functools`` was asked in vain, by its identity.
    """

    step: int
    top: Spot
    roots: dict[str, Root]
    orphans: Orphans
    complete: bool
    parameters: frozenset[int] = frozenset()
    missed: dict[int, int] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop every reference to the user's objects; the counts stay."""
        self.top.forget()
        self.roots = {}

    def dissolve(self) -> None:
        """Take the tree apart, so that it goes without the cyclic collector."""
        self.top.dissolve()
        self.roots = {}


def take(step: int, frame: FrameType | None, internals: TorchInternals, *, mark: bool) -> Census:
    """Count what is alive.

    Args:
        step: the step that has just ended.
        frame: the innermost frame of the program.
        mark: leave a note in the graphs' metadata, so that the next census knows which graph contains this one.
    """
    with internals.without_overrides():
        walker = _Walker(internals, thread_time() + MAX_SECONDS)
        found = walker.walk(frame)
        orphans = _orphans(walker.visited, internals)
        parameters = frozenset(walker.parameters)
        census = Census(step, walker.top, found, orphans, not walker.cut, parameters, walker.missed)
        graph_size.follow(walker.top, mark, internals)
    return census


@dataclass(slots=True)
class Reached:
    """Every tensor that the user's variables reach, with the spot of each; :meth:`dissolve` it soon.

    Args:
        top: a spot for each namespace is below it.
        roots: the namespaces, by the label of their spot.
        tensors: in the order in which they were found, those of the variables that live longest first.
        complete: whether nothing was left out for lack of time.
    """

    top: Spot
    roots: dict[str, Root]
    tensors: list[tuple[Spot, Any]]
    complete: bool

    def dissolve(self) -> None:
        """Drop every reference to the user's objects."""
        self.tensors = []
        self.top.dissolve()
        self.roots = {}


def tensors(frame: FrameType | None, internals: TorchInternals) -> Reached:
    """Every tensor that the user's variables reach.

    Args:
        frame: the innermost frame of the program.
    """
    with internals.without_overrides():
        walker = _Walker(internals, thread_time() + MAX_SECONDS)
        walker.tensors = []
        found = walker.walk(frame)
    return Reached(walker.top, found, walker.tensors, not walker.cut)


def reach(frame: FrameType | None, internals: TorchInternals) -> tuple[set[int], bool]:
    """The identities of all objects that the user's variables reach, and whether nothing was left out.

    Args:
        frame: the innermost frame of the program.
    """
    with internals.without_overrides():
        walker = _Walker(internals, thread_time() + MAX_SECONDS)
        found = walker.walk(frame)
        Census(0, walker.top, found, Orphans(), True).dissolve()
    return walker.visited, not walker.cut


class _Walker:
    """Breadth first through everything that the user's variables reach."""

    def __init__(self, internals: TorchInternals, deadline: float) -> None:
        self.top = Spot(None, "")
        self.visited: set[int] = set()
        self.cut = False
        self.tensors: list[tuple[Spot, Any]] | None = None
        self.parameters: set[int] = set()
        self.missed: dict[int, int] = {}
        self._natives: dict[type, bool] = {}
        self._storages: set[int] = set()
        self._hooks: list[tuple[Spot, Any]] = []
        self._torch = internals
        self._deadline = deadline

    def walk(self, frame: FrameType | None) -> dict[str, Root]:
        found: dict[str, Root] = {}
        for root in roots(frame):
            label = f"{root.scope} {root.name}"
            while label in found:
                label += "'"  # recursion: the same function again
            found[label] = root
        # A namespace is not a value in another one: `globals()` in a variable would claim them all.
        self.visited.update(id(root.variables) for root in found.values())
        for label, root in found.items():
            self._walk_root(self.top.child(label), root)
        hooks, self._hooks = self._hooks, []
        for spot, thing in hooks:  # last: what a hook uses has a better name elsewhere
            self._walk_variable(spot, thing)
        return found

    def _walk_root(self, spot: Spot, root: Root) -> None:
        spot.thing = root.variables
        # Functions last: what a running function shares with an inner one is its own variable first.
        variables = sorted(root.variables.items(), key=lambda item: type(item[1]) is FunctionType)
        for name, value in variables:
            if type(value) not in ATOMS and not name.startswith("__"):
                # One variable after the other: `self` and the arguments come first, so that an attribute is not
                # taken for the local that is another name for it.
                self._walk_variable(spot.child(name), value)

    def _walk_variable(self, variable: Spot, value: Any) -> None:
        waiting: deque[tuple[Spot, Any]] = deque([(variable, value)])
        while waiting and not self.cut:
            spot, thing = waiting.popleft()
            if id(thing) in self.visited:
                continue
            self.visited.add(id(thing))
            if len(self.visited) % 1024 == 0 and self._is_late():
                return
            for label, each in self._enter(spot, thing):
                if id(each) in self.visited:
                    continue
                if type(each) in ATOMS:
                    self._count_text(spot, each)
                    continue
                below = spot.child(label)
                below.owner = below.owner or type(thing)  # items of several classes share the spot above
                if spot.label.endswith("_hooks") and label == ANY_ITEM:
                    self._hooks.append((below, each))
                else:
                    waiting.append((below, each))

    def _count_text(self, spot: Spot, thing: Any) -> None:
        """Count a long text at the place that holds it: Python keeps short ones elsewhere, and no sensor sees them."""
        if type(thing) in TEXTS and len(thing) > PLAIN_BYTES:
            self.visited.add(id(thing))
            spot.other += len(thing)

    def _is_native(self, cls: type) -> bool:
        if cls not in self._natives:
            self._natives[cls] = is_native(cls)
        return self._natives[cls]

    def _is_late(self) -> bool:
        if len(self.visited) > MAX_OBJECTS or thread_time() > self._deadline:
            self.cut = True
        return self.cut

    def _enter(self, spot: Spot, thing: Any) -> Any:
        """Count ``thing`` at ``spot``; what it refers to."""
        cls = type(thing)
        if cls.__module__ in _OF_THE_WATCH:
            return ()
        spot.thing = thing
        spot.ident = id(thing)
        spot.count += 1
        if issubclass(cls, self._torch.tensor_type):
            return self._enter_tensor(spot, thing)
        if issubclass(cls, BaseException):
            _remember_above(spot, _always)  # it cannot be referred to weakly, and its frames' tensors come and go
        if issubclass(cls, (list, dict, deque, set, frozenset)):
            spot.length += len(thing)
            spot.witness = spot.witness or _one_of_its_ends(thing)
            spot.other += _POINTER * len(thing) if _POINTER * len(thing) > PLAIN_BYTES else 0
            if len(thing) > LARGE and not self._has_tensors(thing):
                return ()
        elif is_array(cls):
            return self._enter_array(spot, thing)
        elif cls is caches.CACHE:
            self.missed[id(thing)] = caches.misses(thing)
        elif self._is_native(cls):
            spot.natives += 1
        try:
            return list(references(thing))
        except Exception:  # somebody else's object: changed under our hands, or of a kind nobody thought of
            return ()

    def _enter_array(self, spot: Spot, array: Any) -> Any:
        """An array keeps what it is a view of: another array, or the storage of a tensor (``x[0].numpy()``)."""
        base = array
        while getattr(base, "base", None) is not None:
            base = base.base
        if issubclass(type(base), self._torch.tensor_type):
            return self._enter_tensor(spot, base)
        if base is array or id(base) not in self.visited:
            self.visited.add(id(base))
            spot.other += int(getattr(base, "nbytes", 0))
        kind = getattr(array, "dtype", None)
        return self._items_of_array(spot, array) if getattr(kind, "kind", "") == "O" else ()

    def _items_of_array(self, spot: Spot, array: Any) -> Any:
        """An array of objects is a table that is filled; nobody else tells what is in it."""
        items = items_of(array)
        spot.length += len(items)
        spot.witness = spot.witness or _one_of_its_ends(items)
        if len(items) > LARGE and not self._has_tensors(items):
            return ()
        return [(ANY_ITEM, item) for item in items]

    def _has_tensors(self, collection: Any) -> bool:
        """Whether the items at the ends of a large collection are tensors or lead to some: else it is data."""
        waiting = deque(_ends(collection))
        for _ in range(NEAR):
            if not waiting:
                return False
            each = waiting.popleft()
            if issubclass(type(each), self._torch.tensor_type):
                return True
            if type(each) not in ATOMS and not isinstance(each, (type, FunctionType)):
                waiting.extend(islice((value for _, value in references(each)), SAMPLE))
        return False

    def _enter_tensor(self, spot: Spot, tensor: Any) -> Any:
        spot.tensors += 1
        spot.devices.add(tensor.device)
        if self.tensors is not None:
            self.tensors.append((spot, tensor))
        if spot.tensors == 1:
            _witness(spot, tensor)
        if issubclass(type(tensor), self._torch.parameter_type):
            self.parameters.add(id(tensor))
        address, size = self._torch.storage_of(tensor)
        if address not in self._storages:
            self._storages.add(address)
            spot.storage += size
            spot.logical += min(tensor.numel() * tensor.element_size(), size)
        if tensor.grad_fn is not None:
            spot.attached += 1
            spot.slots.append(tensor)
            if len(spot.slots) > SLOTS_OF_A_SPOT:
                del spot.slots[0]
        return self._of_tensor(tensor)

    def _of_tensor(self, tensor: Any) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        if tensor.is_leaf and not training_threads.are_others() and tensor.grad is not None:
            found.append((".grad", tensor.grad))
        if tensor._backward_hooks:
            found.append(("._backward_hooks", tensor._backward_hooks))
        own = getattr(tensor, "__dict__", None)
        if own:
            found += [(f".{name}", value) for name, value in own.items()]
        return found


def _one_of_its_ends(collection: Any) -> Any:
    """A weak reference to the first item, or to the last: of a queue that gets longer the first one is taken out.

    None where neither can have one (a number, a tuple, a dict).
    """
    items = dict.values(collection) if isinstance(collection, dict) else collection
    first, last = _reference(iter, items), _reference(reversed, items)
    if first is None or last is None:
        return first or last
    return lambda: last() if (item := first()) is None else item


def _reference(order: Callable[[Any], Iterator[Any]], items: Any) -> Any:
    try:
        return weakref.ref(next(order(items)))
    except (StopIteration, TypeError, RuntimeError):
        return None


def _witness(spot: Spot, tensor: Any) -> None:
    """Let each place above remember the first tensor in it, if its first item could not be remembered.

    As long as that lives, it is the same collection; a list that is made anew may well have the address of the old one.
    """
    _remember_above(spot, weakref.ref(tensor))


def _remember_above(spot: Spot, witness: Any) -> None:
    above: Spot | None = spot
    while above is not None and above.witness is None:
        above.witness = witness
        above = above.parent


def _always() -> bool:
    return True


def _ends(collection: Any) -> list[Any]:
    """The first and the last items; of a set, any."""
    if isinstance(collection, (list, deque)):
        return [collection[i] for i in (*range(-SAMPLE, 0), *range(SAMPLE))]
    if isinstance(collection, dict):
        return list(islice(reversed(collection.values()), SAMPLE)) + list(islice(collection.values(), SAMPLE))
    return list(islice(collection, 2 * SAMPLE))


# --- what nobody reaches ------------------------------------------------------------------------------------------


def _orphans(visited: set[int], internals: TorchInternals) -> Orphans:
    import gc

    found = Orphans()
    samples: deque[Any] = deque(maxlen=SAMPLES)
    may_read = not training_threads.are_others()
    for thing in gc.get_referrers(internals.tensor_type, internals.parameter_type):
        if issubclass(type(thing), internals.tensor_type) and id(thing) not in visited:
            found.tensors += 1
            attached, hooked = thing.grad_fn is not None, bool(thing._backward_hooks)
            grad = thing.grad if may_read and thing.is_leaf else None
            second_order = grad is not None and grad.grad_fn is not None
            if attached:
                samples.append(weakref.ref(thing))
            if attached or hooked or second_order:
                found.devices.add(thing.device)
            found.attached += attached
            found.second_order += second_order
            found.hooked += hooked
    found.samples = tuple(samples)
    return found

"""What holds at one point of one way through a function, and where ways meet."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from gradguard.static import tree as t
from gradguard.static.model import (
    Loop,
    Mode,
    ZeroGrad,
)
from gradguard.static.program.paths import is_or_is_in
from gradguard.static.reading.unrecorded import numbers_on_one_way
from gradguard.static.values import (
    Kind,
    Root,
    Source,
    Value,
    join,
)


class Cap(NamedTuple):
    """What a condition around says of the size of a collection.

    Args:
        path: of the collection; empty for a condition about anything else.
        is_long: the limit is that of a replay buffer.
        is_below: the collection is shorter than that; else it is full.
        is_behind: what asks for it has left where it is full: nothing is said of a collection beside it.
    """

    path: str
    is_long: bool = False
    is_below: bool = True
    is_behind: bool = False


@dataclass(slots=True)
class State:
    """What holds at one point of one way through a function.

    Args:
        env: values by path.
        mode: the gradient mode.
        left: the gradient mode that a caller finds afterwards: what ``set_grad_enabled`` set, outside of any context.
        evaluating: paths on which ``.eval()`` was called.
        lost: the ``zero_grad`` of each optimizer that came after the last backward, on every path.
        computed: gradients were computed since the last reset.
        frozen: paths of modules whose parameters all have ``requires_grad=False``.
    """

    env: dict[str, Value]
    mode: Mode = Mode.INHERITED
    evaluating: frozenset[str] = frozenset()
    lost: tuple[ZeroGrad, ...] = ()
    computed: bool = False
    frozen: frozenset[str] = frozenset()
    left: Mode = Mode.INHERITED

    def copy(self) -> State:
        return State(dict(self.env), self.mode, self.evaluating, self.lost, self.computed, self.frozen, self.left)

    def evaluates(self, module: str | None) -> bool:
        """Whether a module was put into evaluation mode, with what it is a part or an element of."""
        return module is not None and any(is_or_is_in(module, path) for path in self.evaluating)

    def freezes(self, module: str | None) -> bool:
        """Whether no parameter of a module wants a gradient, of itself or with the one that it is a part of."""
        return module is not None and any(f"{module}.".startswith(f"{path}.") for path in self.frozen)

    def reset_of(self, optimizer: str | None, *, is_known: bool = True) -> ZeroGrad | None:
        """The last reset after the last backward that concerns an optimizer; any where nobody knows which one steps.

        Args:
            is_known: one without a path may be any; else it is one that this function has no path for.
        """
        for reset in reversed(self.lost):
            if reset.of_module or reset.target is None or reset.target == optimizer or (optimizer is None and is_known):
                return reset
        return None

    def note_step(self, optimizer: str | None) -> None:
        """An optimizer has stepped: what was reset of the others is still lost to them."""
        others = (reset for reset in self.lost if reset.target is not None and not reset.of_module)
        self.lost = tuple(reset for reset in others if optimizer is not None and reset.target != optimizer)
        self.computed = False

    def become(self, other: State) -> None:
        """Go on as ``other``: this is what one of several ways has led to."""
        self.env, self.mode, self.evaluating = other.env, other.mode, other.evaluating
        self.lost, self.computed, self.frozen, self.left = other.lost, other.computed, other.frozen, other.left

    def assign(self, path: str, value: Value) -> None:
        """Bind a path; its parts are those of the new value now."""
        part = Value(value.roots, value.maybe)
        for known in self.env:
            if known.startswith(path) and known[len(path) : len(path) + 1] in (".", "["):
                own = value.part(known[len(path) + 1 :]) if known[len(path)] == "." else None
                self.env[known] = own or part
        if "[*]." in path and not value.reach:  # for meter in meters.values(): meter.sum = 0
            self.env.update((known, value) for known in self.env if '["' in known and _WORD.sub("[*]", known) == path)
        self.env[path] = value


_WORD = re.compile(r'\["[^"]*"\]')


def _on_entry(path: str, present: Value, env: dict[str, Value]) -> Value:
    """What is at a path where nothing was put there: what was on entry, or nothing if its collection was emptied."""
    whole = env.get(path[: path.rfind("[")]) if path.endswith("]") else None
    if whole is not None and whole.kind is Kind.CONTAINER and not whole.reach:
        return Value()
    root = Root(Source.PLACE, path)
    return Value(frozenset((root,)), must=frozenset((root,)), kind=present.kind, ref=present.ref)


def merge(a: State | None, b: State | None, trusted: str = "both") -> State | None:
    """The state after two ways meet; None is a way that does not get there."""
    if a is None or b is None:
        return b if a is None else a
    env: dict[str, Value] = {}
    for path in {**a.env, **b.env}:
        x, y = a.env.get(path), b.env.get(path)
        if x is None or y is None:
            present = x or y
            assert present is not None
            if "." in path or "[" in path:  # known of one way only: on the other it is as it was on entry
                other = _on_entry(path, present, (b if y is None else a).env)
                x, y = x or other, y or other
                env[path] = join(x, y, trusted=trusted)
            else:
                env[path] = present
        else:
            both = join(x, y, trusted=trusted)
            env[path] = numbers_on_one_way(x, y, both) if both.kind is Kind.NUMBER and x.ref is not y.ref else both
    mode = a.mode if a.mode is b.mode else Mode.UNKNOWN
    left = a.left if a.left is b.left else Mode.UNKNOWN
    lost = a.lost if a.lost is b.lost else tuple(reset for reset in a.lost if any(reset is r for r in b.lost))
    frozen = a.frozen if a.frozen == b.frozen else a.frozen & b.frozen
    evaluating = a.evaluating if a.evaluating == b.evaluating else a.evaluating & b.evaluating
    return State(env, mode, evaluating, lost, a.computed or b.computed, frozen, left)


def hedge(a: State, b: State) -> None:
    """A flag decides: what is detached on one way (``if not self.training: ...``) has a graph only perhaps."""
    for path in a.env.keys() & b.env.keys():
        for state, other in ((a, b), (b, a)):
            here, there = state.env[path], other.env[path]
            if here.roots and there.kind is Kind.TENSOR and not there.reach:
                state.env[path] = here._replace(roots=frozenset(), maybe=here.reach)


@dataclass(slots=True)
class Carry:
    """What one loop does to one path.

    Args:
        grows: its old content survives every iteration.
        end: the value at the end of an iteration.
        fresh: the function itself bound or emptied it before the loop.
    """

    grows: bool
    end: Value
    fresh: bool


@dataclass(slots=True)
class LoopFrame:
    """A loop that is being read.

    Args:
        replaces: the store by which it puts something else in the place of each element of a collection.
        replacement: what that is.
        late: paths that change in it, of which it was not known when it was begun.
    """

    loop: Loop
    phis: dict[str, Value]
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)
    early: list[State] = field(default_factory=list)
    replaces: t.Subscript | None = None
    replacement: Value | None = None
    late: set[str] = field(default_factory=set)

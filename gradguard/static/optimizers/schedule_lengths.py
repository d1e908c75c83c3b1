"""Schedulers that are made for a number of epochs and stepped in each batch, or the other way round."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.backward.backward_below import runs_backward
from gradguard.static.mistakes.optimizers import ScheduleLength
from gradguard.static.optimizers.schedulers import known_as
from gradguard.static.optimizers.stale_schedulers import schedulers_made
from gradguard.static.program.bound_paths import mentions
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 2
_RANGES = ("range", "trange")
_WRAPPERS = ("tqdm", "trange", "enumerate", "progress_bar", "track")
_OF_EPOCHS = re.compile(r"(?:^|_)ep(?:och)?s?(?:$|_)", re.I)
_LENGTHS = {
    "CosineAnnealingLR": ("T_max", 1),
    "LinearLR": ("total_iters", 3),
    "PolynomialLR": ("total_iters", 1),
    "OneCycleLR": ("total_steps", 2),
    "MultiStepLR": ("milestones", 1),
}
_WARM_UP = ("num_training_steps", 2)


class _Place(NamedTuple):
    """Where steps of a scheduler are looked for, within the loop over epochs.

    Args:
        scheduler: its path there.
        epoch: the variable of the loop.
        batches: the loops over batches around it.
        is_asked: a condition is around it, or another loop.
    """

    scheduler: str
    epoch: str
    batches: int = 0
    is_asked: bool = False


class _Taken(NamedTuple):
    """A step of a scheduler, and where it is."""

    site: Site
    place: _Place


def schedule_lengths(flow: Flow) -> Iterator[ScheduleLength]:
    """The steps that are taken otherwise than the scheduler counts, in the loops of a function over epochs."""
    loops = [stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Repeat) and _is_over_epochs(stmt)]
    if flow.facts.is_test or not loops:
        return
    for ref, made, scheduler in _known(flow.ref):
        length = length_of(ref, made.value)
        if length is not None:
            taken = (_miscounted(ref, flow.ref, length, loop, scheduler) for loop in loops)
            found = next(filter(None, taken), None)
            if found is not None:
                sites = (found.site, Site(ref.chunk, made), Site(ref.chunk, length))
                yield ScheduleLength(*sites, scheduler, is_in_epochs=not _counts_batches(ref, length))


def _known(ref: FunctionRef) -> Iterator[tuple[FunctionRef, t.Assign, str]]:
    """The schedulers that a function makes, and those that other methods of its object do."""
    methods = methods_of(ref.owner) if ref.owner is not None else []
    for maker in [ref, *(each for each in methods if each.define is not ref.define)]:
        for made, scheduler, _ in schedulers_made(maker):
            if maker is ref or scheduler.startswith("self."):
                yield maker, made, scheduler


def _is_over_epochs(loop: t.Repeat) -> bool:
    """``for epoch in range(n)``, ``for _ in range(args.epochs)``."""
    names = [t.path_of(loop.target) or ""] if loop.target is not None else []
    count = _count(loop)
    counted = t.path_of(count) if count is not None else None
    return count is not None and any(_OF_EPOCHS.search(name) for name in [*names, (counted or "").rpartition(".")[2]])


def _count(loop: t.Repeat) -> t.Expr | None:
    """``n`` of ``for epoch in tqdm(range(1, n))``."""
    made = loop.iterable
    while isinstance(made, t.Call) and made.name in _WRAPPERS and made.name not in _RANGES and made.args:
        made = made.args[0].value
    if not isinstance(made, t.Call) or made.name not in _RANGES:
        return None
    given = [arg.value for arg in made.args if arg.keyword is None and not arg.star]
    count = given[min(len(given), 2) - 1] if given else None
    is_next = isinstance(count, t.Operation) and count.operator == "+" and isinstance(count.operands[-1], t.Constant)
    return count.operands[0] if is_next and isinstance(count, t.Operation) else count


def length_of(ref: FunctionRef, value: t.Expr) -> t.Expr | None:
    """What a scheduler is told of how long it goes on; a list of milestones is one, too."""
    if not isinstance(value, t.Call):
        return None
    keyword, place = _LENGTHS.get(value.name, _WARM_UP if value.name.startswith("get_") else ("", None))
    if value.name == "OneCycleLR" and value.argument("steps_per_epoch", 4) is not None:
        return value.argument("steps_per_epoch", 4)
    return value.argument(keyword, place) if keyword else None


def _counts_batches(ref: FunctionRef, length: t.Expr) -> bool:
    """Whether the length of a loader is in it: ``len(loader) * epochs``."""
    nodes = [node for value in ref.bound_to(length) for node in t.walk(value)]
    return any(isinstance(node, t.Call) and node.name == "len" and isinstance(node.func, t.Name) for node in nodes)


def _miscounted(maker: FunctionRef, ref: FunctionRef, length: t.Expr, loop: t.Repeat, scheduler: str) -> _Taken | None:
    """The step that is taken in each batch where epochs are counted, or once an epoch where batches are."""
    epoch = t.path_of(loop.target) if loop.target is not None else None
    taken = list(_steps(ref, loop.body, _Place(scheduler, epoch or "")))
    if len(taken) != 1 or taken[0].place.is_asked:
        return None
    batches = taken[0].place.batches
    if _counts_batches(maker, length):
        is_otherwise = batches == 0 and _trains_batches(ref, loop.body)
    else:
        is_otherwise = batches > 0 and _is_in_epochs(length, loop)
    return taken[0] if is_otherwise else None


def _is_in_epochs(length: t.Expr, loop: t.Repeat) -> bool:
    """Whether a length is the number of epochs that the loop has, or each milestone is a part of that."""
    count = _count(loop)
    if count is None:
        return False
    if isinstance(length, t.Display):
        path = t.path_of(count)
        return path is not None and bool(length.items) and all(_is_share(item, path) for item in length.items)
    if isinstance(count, t.Constant) and isinstance(length, t.Constant):
        return count.value == length.value
    return _is_same(t.path_of(length), t.path_of(count))


def _is_share(item: t.Expr, path: str) -> bool:
    """``int(0.5 * epochs)``."""
    return mentions(item, path) and not any(isinstance(node, t.Call) and node.name == "len" for node in t.walk(item))


def _is_same(one: str | None, other: str | None) -> bool:
    """Whether two paths stand for one setting: ``epochs``, ``self.epochs``, ``args.epochs``."""
    if one is None or other is None:
        return False
    return one == other or one.rpartition(".")[2] == other.rpartition(".")[2]


def _steps(ref: FunctionRef, body: Sequence[t.Stmt], place: _Place, depth: int = _DEPTH) -> Iterator[_Taken]:
    """The steps of a scheduler below some statements, and in the functions of the program that these call."""
    for stmt in body:
        blocks = t.blocks(stmt)
        inside = _inside(ref, stmt, place)
        for block in blocks:
            yield from _steps(ref, block, inside, depth)
        for call in (node for node in t.walk(stmt) if isinstance(node, t.Call)) if not blocks else ():
            yield from _steps_of_call(ref, call, place, depth)


def _inside(ref: FunctionRef, stmt: t.Stmt, place: _Place) -> _Place:
    """The place that the blocks of a statement are; it may be asked whether there is a scheduler, or for the epoch."""
    if isinstance(stmt, t.Repeat):
        trains = _trains(ref, stmt)
        return place._replace(batches=place.batches + trains, is_asked=place.is_asked or not trains)
    if not isinstance(stmt, t.If):
        return place
    is_of_epoch = not place.batches and mentions(stmt.test, place.epoch)
    return place._replace(is_asked=place.is_asked or not (is_of_epoch or mentions(stmt.test, place.scheduler)))


def _steps_of_call(ref: FunctionRef, call: t.Call, place: _Place, depth: int) -> Iterator[_Taken]:
    func = call.func
    if isinstance(func, t.Attribute) and func.name == "step" and t.path_of(func.value) == place.scheduler:
        yield _Taken(Site(ref.chunk, call), place._replace(is_asked=place.is_asked or bool(call.args)))
        return
    callee = ref.callee(call) if depth else None
    if callee is not None and callee.define is not ref.define:
        for name in known_as(ref, callee, call, place.scheduler):
            yield from _steps(callee, callee.define.body, place._replace(scheduler=name), depth - 1)


def _trains(ref: FunctionRef, loop: t.Repeat) -> bool:
    """Whether each iteration of a loop trains on a batch; one over a few words is none: ``for phase in ["train"]``."""
    return not _is_of_one(ref, loop) and runs_backward(ref, loop.body)


def _is_of_one(ref: FunctionRef, loop: t.Repeat) -> bool:
    """Whether a loop goes over what is written out, or over one batch: all data in it, or the first one only."""
    if t.leaves(loop.body) and not any(isinstance(stmt, t.Leave) and stmt.kind == "continue" for stmt in loop.body):
        return True
    made = loop.iterable
    while isinstance(made, t.Call) and made.name in _WRAPPERS and made.args:
        made = made.args[0].value
    return made is not None and any(map(_is_one_batch, ref.bound_to(made)))


def _is_one_batch(made: t.Expr) -> bool:
    """``[data]``, ``DataLoader([graph])``, ``DataLoader(data, batch_size=len(data))``."""
    if isinstance(made, t.Display):
        return True
    data = made.argument("dataset", 0) if isinstance(made, t.Call) and made.name.endswith("Loader") else None
    if data is None or not isinstance(made, t.Call):
        return False
    size = made.argument("batch_size", 1)
    is_whole = size is not None and any(map(_is_length, t.walk(size)))
    return is_whole or (isinstance(data, t.Display) and len(data.items) == 1)


def _is_length(node: t.Node) -> bool:
    """``len(data)``, ``x.size(0)``, ``x.shape[0]``."""
    return (isinstance(node, t.Call) and node.name in ("len", "size")) or (
        isinstance(node, t.Attribute) and node.name == "shape"
    )


def _trains_batches(ref: FunctionRef, body: Sequence[t.Stmt], depth: int = _DEPTH) -> bool:
    """Whether there is a loop that trains on batches below some statements, or in a function that they call."""
    if any(isinstance(stmt, t.Repeat) and _trains(ref, stmt) for stmt in t.walk_statements(body)):
        return True
    calls = (node for node in t.walk(body) if isinstance(node, t.Call))
    callees = (ref.callee(call) for call in calls) if depth else ()
    return any(callee is not None and _trains_batches(callee, callee.define.body, depth - 1) for callee in callees)

"""What no variable reaches any more and only the cyclic collector frees, and what in it closes the circle.

``gc.DEBUG_SAVEALL`` makes the collector hand over what it finds instead of freeing it: that is exact, and dear (a whole
collection), so it is done a few times in a run. ``torch.utils.viz._cycles`` finds its cycles in the same way.
"""

from __future__ import annotations

import ast
import gc
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from gradguard.findings import Holder, Place
from gradguard.runtime import origin
from gradguard.runtime.contexts import function_of, holder_of
from gradguard.runtime.naming import file_of, type_name
from gradguard.runtime.references import ATOMS, references
from gradguard.runtime.roots import is_function_frame, may_read, read_locals
from gradguard.runtime.source import Sources, place_of
from gradguard.runtime.stores import sets_by_word
from gradguard.runtime.usercode import is_user_code, is_user_type

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals

DEPTH = 5
NEAR = 400
"""How far from an object a reference back to it is looked for."""

TRIED = 8
"""Objects of one sort that are asked whether they close a circle."""


@dataclass(frozen=True, slots=True)
class Circle:
    """What refers to itself, in the user's words.

    Args:
        holder: the attribute, variable or key by which it does.
        home: the file of its class or function.
        line: of the function that refers to itself, or in whose frame it is.
        sort: context, attribute, function, exception, library or collection.
    """

    holder: Holder
    home: str | None
    line: int | None
    sort: str


@dataclass(slots=True)
class Waiting:
    """Objects of one sort that wait for the collector.

    Args:
        circle: what they have in common.
        count: how many.
        is_model: they are modules, or contexts of an autograd function: what waits with them is never small.
        with_model: a module waits with them, or they are such contexts.
        size: bytes of the tensors that wait with them.
        devices: where those are.
    """

    circle: Circle
    count: int
    is_model: bool
    with_model: bool = False
    size: int = 0
    devices: set[str] = field(default_factory=set)


def unreachable() -> list[Any]:
    """Every object that only the cyclic collector frees, now; it goes on waiting for that."""
    flags, known = gc.get_debug(), len(gc.garbage)
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(flags)
    found = gc.garbage[known:]
    del gc.garbage[known:]
    return found


def sorted_out(garbage: list[Any], internals: TorchInternals) -> dict[Any, Waiting]:
    """What closes circles in the garbage and has tensors waiting with it, by class, code or key.

    Each tensor counts once: for the user's own objects first, for a plain dict or list when nothing else has it.
    """
    ids = {id(thing) for thing in garbage}
    claimed: set[int] = set()
    found = {}
    for tell in _SORTS:
        groups: defaultdict[Any, list[Any]] = defaultdict(list)
        for thing in garbage:
            key = tell.key(thing)
            if key is not None and id(thing) not in claimed:
                groups[key].append(thing)
        for key, things in groups.items():
            circle = next((c for c in (tell.circle(each, internals) for each in things[:TRIED]) if c is not None), None)
            if circle is None:
                continue
            is_model = tell.is_context or issubclass(type(things[0]), internals.module_type)
            waiting = Waiting(circle, len(things), is_model, with_model=is_model)
            _claim(waiting, things, ids, claimed, internals)
            if waiting.size or is_model:
                found[key] = waiting
    return found


def _claim(waiting: Waiting, things: list[Any], ids: set[int], claimed: set[int], internals: TorchInternals) -> None:
    """Give the tensors that are garbage, and that these objects lead to, to them."""
    fresh = [each for each in things if id(each) not in claimed]
    claimed.update(map(id, fresh))
    while fresh:
        thing = fresh.pop()
        waiting.with_model |= issubclass(type(thing), internals.module_type)
        if issubclass(type(thing), internals.tensor_type):
            address, size = internals.storage_of(thing)
            if address not in claimed:
                claimed.add(address)
                waiting.size += size
                waiting.devices.add(str(thing.device))
        for each in _referents(thing, ids):
            if id(each) in ids and id(each) not in claimed:
                claimed.add(id(each))
                fresh.append(each)


def _referents(thing: Any, ids: set[int]) -> list[Any]:
    """What an object refers to, also through a dict of attributes that Python has made only now, since we asked."""
    found = gc.get_referents(thing)
    new = [each for each in found if type(each) is dict and id(each) not in ids]
    return found + [value for each in new if each is getattr(thing, "__dict__", None) for value in each.values()]


# --- what closes a circle -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sort:
    """One sort of objects: what those of a kind have in common, and whether one of them closes a circle."""

    key: Callable[[Any], Any]
    circle: Callable[[Any, TorchInternals], Circle | None]
    is_context: bool = False


def _by_class_of_context(thing: Any) -> type | None:
    return type(thing) if function_of(type(thing)) is not None else None


def _by_users_class(thing: Any) -> type | None:
    cls = type(thing)
    return cls if is_user_type(cls) and not _is_of_the_language(cls) else None


def _by_class(thing: Any) -> type | None:
    cls = type(thing)
    return None if cls.__module__ == "builtins" or _is_of_the_language(cls) else cls


def _is_of_the_language(cls: type) -> bool:
    return issubclass(cls, (type, FrameType, ModuleType, FunctionType))


def _by_code(thing: Any) -> Any:
    return thing.__code__ if type(thing) is FunctionType and is_user_code(thing.__code__) else None


def _by_code_of_frame(thing: Any) -> Any:
    return thing.f_code if type(thing) is FrameType and is_user_code(thing.f_code) else None


def _by_key(thing: Any) -> Any:
    if type(thing) is list:
        return list
    return tuple(k for k in thing if type(k) is str)[:TRIED] if type(thing) is dict else None


def _context(thing: Any, internals: TorchInternals) -> Circle | None:
    """A context that keeps its own output."""
    function = function_of(type(thing))

    def is_output(each: Any) -> bool:
        return issubclass(type(each), internals.tensor_type) and each.grad_fn is thing

    for name, value in list(getattr(thing, "__dict__", {}).items()):
        if type(value) not in ATOMS and _reaches(value, is_output):
            assert function is not None
            holder = holder_of(str(name), function)
            return Circle(holder, file_of(function.__module__), None, "context")
    return None


def _instance(thing: Any, internals: TorchInternals) -> Circle | None:
    """An object with an attribute that leads back to it."""
    name = next(_attributes_to_itself(thing), None)
    if name is None:
        return None
    cls = type(thing)
    is_users = is_user_type(cls)
    holder = Holder(name, f"{cls.__name__}.{name}", type_name(thing), "attribute" if is_users else "internal")
    return Circle(holder, file_of(cls.__module__), None, "attribute" if is_users else "library")


def _attributes_to_itself(thing: Any) -> Iterator[str]:
    own = getattr(thing, "__dict__", None)
    if isinstance(own, dict):
        for name, value in list(own.items()):
            if type(value) not in ATOMS and _leads_to(value, thing):
                yield _inner_name(str(name), value, thing)
        return
    for label, value in references(thing):  # slots
        if label.startswith(".") and type(value) not in ATOMS and _leads_to(value, thing):
            yield label[1:]


def _inner_name(name: str, value: Any, thing: Any) -> str:
    """The attribute by which a part refers to its whole, where that is what closes the circle."""
    if name != "_modules":
        return name
    return next((str(n) for n, part in value.items() if part is not None and _leads_to(part, thing)), name)


def _function(thing: Any, internals: TorchInternals) -> Circle | None:
    """A nested function that calls itself: its closure has the variable that it is bound to."""
    for label, value in references(thing):
        if label.startswith("<closure>") and type(value) not in ATOMS and _leads_to(value, thing):
            around = thing.__qualname__.rpartition(".<locals>.")[0].rpartition(".")[2]
            name = thing.__name__
            holder = Holder(name, f"{around}.{name}" if around else name, "function", "closure")
            return Circle(holder, thing.__code__.co_filename, thing.__code__.co_firstlineno, "function")
    return None


def _frame(thing: Any, internals: TorchInternals) -> Circle | None:
    """A function that has kept an exception in a variable: its traceback has the frame with that variable."""
    if not is_function_frame(thing) or not may_read(thing):
        return None
    for name, value in read_locals(thing).items():
        if isinstance(value, BaseException) and _passes(value, thing):
            code = thing.f_code
            holder = Holder(name, f"{code.co_name}.{name}", type_name(value), "local")
            return Circle(holder, code.co_filename, code.co_firstlineno, "exception")
    return None


def _passes(error: BaseException, frame: FrameType) -> bool:
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame is frame:
            return True
        entry = entry.tb_next
    return False


def _collection(thing: Any, internals: TorchInternals) -> Circle | None:
    """A dict or list that is somewhere in itself."""
    for label, value in references(thing):
        if type(value) not in ATOMS and _leads_to(value, thing):
            kind = type(thing).__name__
            return Circle(
                Holder(label.strip('["]*') or kind, f"{kind}{label}", kind, "internal"), None, None, "collection"
            )
    return None


_SORTS = (
    _Sort(_by_class_of_context, _context, is_context=True),
    _Sort(_by_users_class, _instance),
    _Sort(_by_code, _function),
    _Sort(_by_code_of_frame, _frame),
    _Sort(_by_class, _instance),
    _Sort(_by_key, _collection),
)


def _leads_to(start: Any, target: Any) -> bool:
    return _reaches(start, lambda thing: thing is target)


def _reaches(start: Any, is_goal: Callable[[Any], bool]) -> bool:
    waiting, seen = deque([(start, 0)]), {id(start)}
    while waiting and len(seen) < NEAR:
        thing, depth = waiting.popleft()
        if is_goal(thing):
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


# --- the statement that closes it -----------------------------------------------------------------------------------


def statements_of(circle: Circle, sources: Sources) -> list[Place]:
    """Where the circle is closed; empty where that cannot be told."""
    name = circle.holder.name
    if circle.sort == "function" and circle.home is not None and circle.line is not None:
        return [sources.place(circle.home, circle.line)]
    if circle.sort == "exception":
        function = circle.holder.path.partition(".")[0]
        found = origin.storing_statements(sources, name, function, circle.home)
        return [place_of(filename, statement) for filename, statement in found]
    if circle.sort == "collection":
        every = [(s.filename, node) for s in sources.all() for node in ast.walk(s.tree)]
        return [place_of(f, node) for f, node in every if isinstance(node, ast.Assign) and _sets_key(node, name)]
    found = origin.storing_statements(sources, name, None, circle.home)
    setting = [each for each in found if sets_attribute(each[1], name)]
    return [place_of(filename, statement) for filename, statement in setting or found]


def sets_attribute(statement: ast.stmt, name: str) -> bool:
    """Whether a statement assigns to an attribute of this name, or sets it by the word."""
    nodes = list(ast.walk(statement))
    targets = (n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return any(target.attr == name for target in targets) or any(sets_by_word(n, name) for n in nodes)


def _sets_key(statement: ast.Assign, name: str) -> bool:
    keys = (target.slice for target in statement.targets if isinstance(target, ast.Subscript))
    return any(isinstance(key, ast.Constant) and key.value == name for key in keys)

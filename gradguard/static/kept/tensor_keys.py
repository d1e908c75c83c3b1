"""Elements of tensors that are used as keys: ``for label in y: counts[label] += 1``. Each is a new key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.kept.collated import is_collated
from gradguard.static.model import TensorKey
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of, functions_called
from gradguard.static.reading.places import assigned_anywhere
from gradguard.static.values import Kind, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DICTS = frozenset("dict defaultdict OrderedDict Counter set".split())
_OF_TENSORS = k.TENSOR_METHODS | k.SHAPING_METHODS | k.BREAKING_ATTRIBUTES - {"names", "data"} | {"long", "float"}
_TAKING_LISTS = frozenset(
    "tensor as_tensor asarray Tensor LongTensor FloatTensor IntTensor BoolTensor from_numpy stack cat concat hstack "
    "vstack save is_tensor split split_with_sizes ctc_loss pack_padded_sequence pack_sequence pad_sequence "
    "zeros ones full empty rand randn interpolate all_gather_object gather_object nested_tensor".split()
)
"""Functions of torch that are also given a list, or words, which say nothing of what they are given."""
_MAKING = frozenset(
    "tensor as_tensor arange zeros ones full rand randn randint randperm stack cat argmax argmin where bincount".split()
)
_AGAIN = frozenset("argmax argmin detach cpu cuda to long int flatten reshape view squeeze clone".split())
"""Methods of tensors that give a tensor again."""
_BY_KEY = frozenset("setdefault pop get add discard remove".split())


def tensor_keys(flow: Flow) -> list[TensorKey]:
    """Where a function does so, each dict with the first place for each key, one where it gets longer first."""
    stored = [(stmt, *each) for stmt in flow.ref.define.statements for each in _stored(stmt)]
    looked_up = [(stmt, *each) for stmt in flow.ref.define.statements for each in _looked_up(stmt)]
    read = list(_read(flow))
    asked = [(call, *each) for call in flow.ref.calls for each in _asked(call)]
    found: dict[tuple[str, str], TensorKey] = {}
    for places, is_one in (
        (stored, makes_dict),
        (looked_up, fills_itself),
        (read, fills_itself),
        (asked, makes_dict),
    ):
        for node, path, key in places:
            name = t.path_of(key) or ""
            of = _tensor_of(flow, key) if (path, name) not in found and is_made(flow, path, is_one) else None
            if of is not None:
                tensor, loop = of
                over = flow.site(loop) if loop is not None else None
                found[path, name] = TensorKey(
                    flow.site(node), path, flow.site(key), tensor or None, places is not asked, over=over
                )
    return list(found.values())


def _stored(stmt: t.Stmt) -> Iterator[tuple[str, t.Expr]]:
    """The collections that a statement puts something into, with its key: ``d[k] = x``, ``seen.add(k)``."""
    for target in stmt.targets if isinstance(stmt, t.Assign) else ():
        if isinstance(target, t.Subscript):
            yield t.path_of(target.value) or "", target.index
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) else None
    if isinstance(call, t.Call) and isinstance(func, t.Attribute) and func.name in ("add", "setdefault") and call.args:
        yield t.path_of(func.value) or "", call.args[0].value


def _looked_up(stmt: t.Stmt) -> Iterator[tuple[str, t.Expr]]:
    """The collection in which a statement looks for what it changes, with the key: ``d[k] += 1``, ``d[k].append(x)``.

    What is not there makes a new entry where the collection itself has something for it; else it is a ``KeyError``.
    """
    if isinstance(stmt, t.Augment) and isinstance(stmt.target, t.Subscript):
        yield t.path_of(stmt.target.value) or "", stmt.target.index
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) else None
    fills = isinstance(func, t.Attribute) and func.name in ("append", "extend", "add")
    if fills and isinstance(func, t.Attribute) and isinstance(func.value, t.Subscript):
        yield t.path_of(func.value.value) or "", func.value.index


def _read(flow: Flow) -> Iterator[tuple[t.Node, str, t.Expr]]:
    """What a function reads out of a collection, with its key, unless it asks for that first: ``mine = d[k]``."""
    define = flow.ref.define
    asked = {(t.path_of(n.operands[-1]), t.path_of(n.operands[0])) for n in define.all(t.Operation) if _asks_for(n)}
    bound = {each for stmt in define.all(t.Assign) for each in stmt.targets}
    bound |= {each for stmt in define.all(t.Delete) for each in stmt.targets}
    for node in define.all(t.Subscript):
        if node not in bound and isinstance(node.index, t.Name):
            path = t.path_of(node.value)
            if path is not None and (path, node.index.id) not in asked:
                yield node, path, node.index


def _asks_for(node: t.Operation) -> bool:
    return node.operator in ("in", "not in")


def _asked(call: t.Call) -> Iterator[tuple[str, t.Expr]]:
    """The collection that a call asks for a key: ``d.pop(k, None)``, ``d.get(k)``."""
    if isinstance(call.func, t.Attribute) and call.func.name in _BY_KEY and call.args:
        yield t.path_of(call.func.value) or "", call.args[0].value


def _tensor_of(flow: Flow, key: t.Expr) -> tuple[str, t.Expr | None] | None:
    """The tensor that a key is surely an element of, with what its loop goes over; None where it may be none.

    "" stands for one that no loop goes over.
    """
    if isinstance(key, t.Subscript):
        return ("", None) if _is_element(flow, key) else None
    if not isinstance(key, t.Name):
        return None
    is_tensor = flow.read(key.id, flow.final).kind is Kind.TENSOR
    bound = flow.ref.assigned.get(key.id, [])
    if bound:
        is_element = is_tensor and all(isinstance(value, t.Subscript) and _is_element(flow, value) for value in bound)
        return ("", None) if is_element else None
    loops = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Repeat))
    pairs = (
        pair for loop in loops if loop.target and loop.iterable for pair in bound_pairs(loop.target, loop.iterable)
    )
    over = [iterable for target, iterable in pairs if t.path_of(target) == key.id]
    paths = [path for path in map(t.path_of, over) if path is not None]
    if not paths or len(paths) < len(over):
        return None
    if is_tensor and all(_is_data(flow, path) for path in paths):
        return paths[0], over[0]
    return (paths[0], over[0]) if all(_is_given(flow, path) for path in paths) else None


def _is_given(flow: Flow, name: str) -> bool:
    """Whether it is a parameter for which each call gives what surely is a tensor (reads other files)."""
    params = {param.name: param.annotation for param in flow.ref.define.params if not param.star}
    if name not in params or params[name] is not None or name in flow.ref.assigned:
        return False
    given = [(caller, flow.ref.given_by(call).get(name)) for caller, call in calls_of(flow)]
    return bool(given) and all(_is_tensor(caller, value) for caller, value in given)


def _is_tensor(flow: Flow, value: t.Expr | None) -> bool:
    """Whether what a call gives surely is a tensor, and no list of them."""
    if isinstance(value, t.Call):
        func = value.func
        is_method = isinstance(func, t.Attribute) and func.name in _AGAIN
        of = func.value if isinstance(func, t.Attribute) and is_method else None
        return _is_made_tensor(flow.ref, value) or (of is not None and _is_tensor(flow, of))
    path = t.path_of(value) if value is not None else None
    if path is None or not path.isidentifier():
        return False
    if flow.read(path, flow.final).kind is Kind.TENSOR and _is_data(flow, path):
        return True
    makers = [each for each in flow.ref.define.statements if isinstance(each, t.Assign) and _binds(each, path)]
    return bool(makers) and all(_gives_tensor(flow, each, path) for each in makers)


def _binds(stmt: t.Assign, path: str) -> bool:
    return any(t.path_of(name) == path for target in stmt.targets for name in t.names_in(target))


def _gives_tensor(flow: Flow, stmt: t.Assign, path: str) -> bool:
    """Whether a function of the program gives a tensor, or one at this place: ``users, items = log.next_batch()``."""
    target = stmt.targets[0]
    if not isinstance(stmt.value, t.Call) or len(stmt.targets) > 1:
        return False
    places = (
        [i for i, item in enumerate(target.items) if t.path_of(item) == path] if isinstance(target, t.Display) else []
    )
    called = next(functions_called(flow, stmt.value), None)
    returned = [each.value for each in called.define.statements if isinstance(each, t.Return)] if called else []
    return bool(returned) and all(_is_made_by_torch(called, value, places) for value in returned if called is not None)


def _is_made_by_torch(ref: FunctionRef, value: t.Expr | None, places: list[int]) -> bool:
    if places:
        items = value.items if isinstance(value, t.Display) else []
        value = items[places[0]] if places[0] < len(items) else None
    made = ref.bound_to(value) if value is not None else []
    return bool(made) and all(_is_made_tensor(ref, each) for each in made)


def _is_made_tensor(ref: FunctionRef, value: t.Expr) -> bool:
    """``torch.randint(9, (8,))``, also with methods behind it: ``torch.stack(rows).long()``."""
    if not isinstance(value, t.Call):
        return False
    called = ref.module.value_of(value.func)
    if called.kind is Kind.EXTERNAL and str(called.ref).startswith("torch."):
        return value.name in _MAKING
    func = value.func
    return isinstance(func, t.Attribute) and func.name in _AGAIN and _is_made_tensor(ref, func.value)


def bound_pairs(target: t.Expr, iterable: t.Expr) -> Iterator[tuple[t.Expr, t.Expr]]:
    """What a loop binds, each with what it goes over: ``for i, (x, y) in enumerate(zip(xs, ys))``."""
    name = iterable.func.id if isinstance(iterable, t.Call) and isinstance(iterable.func, t.Name) else None
    args = [arg.value for arg in iterable.args] if isinstance(iterable, t.Call) else []
    items = target.items if isinstance(target, t.Display) else []
    if name == "zip" and len(items) == len(args):
        for item, arg in zip(items, args):
            yield from bound_pairs(item, arg)
    elif name == "enumerate" and len(items) == 2 and args:
        yield from bound_pairs(items[1], args[0])
    else:
        yield target, iterable


def _is_element(flow: Flow, value: t.Subscript) -> bool:
    """``y[i]`` of a tensor; no part of a batch, ``batch["label"]``, which may be anything."""
    path = t.path_of(value.value)
    if isinstance(value.index, t.Slice | t.Display) or path is None or "[" in path:
        return False
    is_word = isinstance(value.index, t.Constant) and not isinstance(value.index.value, int)
    return not is_word and _is_data(flow, path)


def _is_data(flow: Flow, path: str) -> bool:
    """Whether something surely is a tensor, and not what may be a parameter, of which each is one object."""
    found = flow.read(flow.canonical(path), flow.final)
    if is_collated(flow, path):
        return False
    if found.kind is not Kind.TENSOR or any(root.source is Source.LEAF for root in found.reach):
        return False
    if any(_holds_parts(stmt, path) for stmt in flow.ref.define.statements):
        return False
    is_declared = any(param.name == path and param.annotation is not None for param in flow.ref.define.params)
    is_computed = any(_computes(flow, value) for value in flow.ref.assigned.get(path, []))
    return is_declared or is_computed or any(_shows_it(flow, node, path) for node in flow.ref.define.nodes)


def _holds_parts(stmt: t.Stmt, path: str) -> bool:
    """Whether a tuple of tensors gets a name, which gives the same objects each time: ``parts = x.chunk(4)``."""
    parts = stmt.value if isinstance(stmt, t.Assign) else None
    is_split = isinstance(parts, t.Call) and parts.name in k.SPLITTING
    return is_split and isinstance(stmt, t.Assign) and any(t.path_of(target) == path for target in stmt.targets)


def _computes(flow: Flow, value: t.Expr) -> bool:
    """Whether it is what torch, or a method of tensors, gives: ``out.argmax(1)``, ``torch.max(out, 1)[1]``."""
    value = value.value if isinstance(value, t.Subscript) else value
    is_method = isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in _OF_TENSORS
    return is_method or (isinstance(value, t.Call) and _is_of_torch(flow, value))


def _shows_it(flow: Flow, node: t.Node, path: str) -> bool:
    """Whether a part of a batch is used as a tensor is: ``y.to(device)``, ``F.nll_loss(output, y)``; names are not.

    A criterion that some caller gives may be one for captions.
    """
    if isinstance(node, t.Attribute):
        return node.name in _OF_TENSORS and t.path_of(node.value) == path
    if not isinstance(node, t.Call) or all(t.path_of(arg.value) != path for arg in node.args):
        return False
    return node.name not in _TAKING_LISTS and (_is_of_torch(flow, node) or _is_criterion(flow, node))


def _is_criterion(flow: Flow, call: t.Call) -> bool:
    """Whether a call is one of a loss of torch: ``self.criterion(output, y)``, ``nn.CrossEntropyLoss()(output, y)``."""
    path = t.path_of(call.func)
    made = assigned_anywhere(flow, path) if path is not None else [call.func]
    makers = [value for value in made if isinstance(value, t.Call)]
    return any(maker.name != "CTCLoss" and _is_of_torch(flow, maker) for maker in makers)


def _is_of_torch(flow: Flow, call: t.Call) -> bool:
    called = flow.module.value_of(call.func)
    return called.kind is Kind.EXTERNAL and str(called.ref).startswith("torch.")


def is_made(flow: Flow, path: str, is_one: Callable[[t.Expr], bool]) -> bool:
    """Whether all that a variable, or an attribute of the object, is ever bound to are such collections."""
    owner, name = flow.ref.owner, path.removeprefix("self.")
    if path.startswith("self.") and owner is not None and name.isidentifier():
        made = [value for _, value in owner.assigned(name)]
    else:
        made = assigned_anywhere(flow, path) if path.isidentifier() else flow.ref.assigned.get(path, [])
    return bool(made) and all(map(is_one, made))


def makes_dict(value: t.Expr) -> bool:
    """Whether an expression is a dict or a set that keeps its keys."""
    if isinstance(value, t.Call):
        return value.name in _DICTS
    is_written = isinstance(value, t.Comprehension | t.Display) and value.kind in ("dict", "set")
    return is_written or isinstance(value, t.DictDisplay)


def fills_itself(value: t.Expr) -> bool:
    """Whether an expression is a dict that makes an entry for what is looked up in it and is not there."""
    return isinstance(value, t.Call) and (value.name == "Counter" or (value.name == "defaultdict" and bool(value.args)))

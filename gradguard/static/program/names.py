"""What names say about objects, and which paths a piece of code binds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeGuard

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.tree import walk_statements
from gradguard.static.values import (
    Kind,
)

PARAMETERS = ".parameters[*]"
"""What the path of a module's parameters ends in, those that a loop goes over."""

_KEYS = re.compile(r"\[[^\]]*\]")
OF_METHOD = ".__self__"
"""What follows the path of a method that was handed over, in that of its object."""

RECORDS = "logging.handlers[*].buffer"
"""The path of the records that a handler of `logging` holds back."""

_METHODS_OBJECT = re.compile(r"\.\w+\.__self__")
_SUBSCRIPT = re.compile(r"\[[^\]]*\]")


@lru_cache(maxsize=4096)
def named_kind(path: str) -> Kind:
    """What a name says about the object, where nothing else does."""
    last = _SUBSCRIPT.sub("", path)
    if k.OPTIMIZER_NAME.search(last) and not k.NOT_OPTIMIZER_NAME.search(last.rsplit(".", 1)[-1]):
        return Kind.OPTIMIZER
    if k.SCALER_NAME.search(last):
        return Kind.SCALER
    if k.LOADER_NAME.search(last.rsplit(".", 1)[-1]):
        return Kind.LOADER
    if k.MODULE_NAME.search(last) and not k.VERB.match(last.rsplit(".", 1)[-1]):
        return Kind.MODULE
    return Kind.UNKNOWN


def is_field(path: str) -> bool:
    """Whether a path goes through an attribute: ``run.loss``, and ``meters["loss"].sum``, not ``losses["l1"]``."""
    return "." in _SUBSCRIPT.sub("", path)


def object_path(path: str) -> str:
    """A path without the method whose object it goes through: ``self.hidden`` of ``self.step.__self__.hidden``."""
    return _METHODS_OBJECT.sub("", path)


def attributes_of(path: str) -> list[str]:
    """The names on a path, without keys: ``callbacks``, ``hub`` and ``series`` of ``self.callbacks[*].hub.series``."""
    return _KEYS.sub("", path).split(".")


def in_method(path: str) -> str:
    """A path as the method that was handed over writes it: ``self.hidden`` of ``step.__self__.hidden``."""
    before, through, rest = path.rpartition(f"{OF_METHOD}.")
    return f"self.{rest}" if through else before + rest


def used_as_modules(calls: Iterable[t.Call]) -> frozenset[str]:
    """The paths whose ``parameters()``, ``eval()`` or the like is among some calls; not ``eval(batch)``."""
    methods = (call.func for call in calls if isinstance(call.func, t.Attribute) and _is_of_module(call))
    paths = (t.path_of(func.value) for func in methods if func.name in k.MODULE_METHODS)
    return frozenset(path for path in paths if path is not None)


def _is_of_module(call: t.Call) -> bool:
    """Whether it is no ``eval`` of another kind of object, which is given what to evaluate."""
    return call.name != "eval" or not call.args


def put_into_evaluation(expr: t.Expr | None) -> bool:
    """Whether the last word on the mode of what a chain of calls makes is ``eval()``: ``Net().eval().to(device)``."""
    while isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name in k.FLUENT_METHODS:
        if expr.func.name == "eval":
            return not expr.args
        if expr.func.name == "train":
            setting = expr.argument("mode", 0)
            return isinstance(setting, t.Constant) and setting.value is False
        expr = expr.func.value
    return False


def used_as_tensors(body: object) -> frozenset[str]:
    """The names on which a method is called that only tensors have: ``x.unsqueeze(0)``, ``x.float()[0]``."""
    calls = (n.func for n in t.walk(body) if isinstance(n, t.Call) and isinstance(n.func, t.Attribute))
    taken = (n.value for n in t.walk(body) if isinstance(n, t.Subscript) and isinstance(n.value, t.Call))
    moved = (c.func for c in taken if isinstance(c.func, t.Attribute) and c.func.name in k.MOVING_METHODS)
    owners = [f.value for f in calls if f.name in k.ONLY_OF_TENSORS] + [f.value for f in moved]
    return frozenset(owner.id for owner in owners if isinstance(owner, t.Name))


def structures_in(body: object) -> frozenset[str]:
    """The names that are taken apart as no tensor is: ``batch["x"]``, ``for x in xs``, ``x, y = pair``, ``*xs``."""
    found: list[t.Expr | None] = []
    for node in t.walk(body):
        if isinstance(node, t.Subscript) and isinstance(node.index, t.Constant) and isinstance(node.index.value, str):
            found.append(node.value)
        elif isinstance(node, t.Repeat):
            found.append(node.iterable)
        elif isinstance(node, t.Comprehension):
            found += [clause.iterable for clause in node.clauses]
        elif (isinstance(node, t.Assign) and isinstance(node.targets[0], t.Display)) or isinstance(node, t.Starred):
            found.append(node.value)
        elif isinstance(node, t.Call):
            found += [arg.value for arg in node.args if arg.star or t.path_of(node.func) in ("isinstance", "zip")]
        elif isinstance(node, t.Attribute) and node.name not in _OF_TENSORS:
            found.append(node.value)  # graph.edge_index
    return frozenset(expr.id for expr in found if isinstance(expr, t.Name))


_OF_TENSORS = (
    k.OF_PLAIN_DATA | k.DIFFERENTIABLE_METHODS | k.BREAKING_ATTRIBUTES | k.BREAKING_METHODS | k.MOVING_METHODS
) - {"items", "keys"}


def given_words(body: Sequence[t.Stmt]) -> frozenset[str]:
    """The variables that are only ever given words, or texts in which no number counts: names of losses."""
    given: dict[str, bool] = {}
    for stmt in walk_statements(body):
        if isinstance(stmt, t.Assign | t.Augment):
            for target in stmt.targets if isinstance(stmt, t.Assign) else [stmt.target]:
                if isinstance(target, t.Name):
                    given[target.id] = given.get(target.id, True) and _is_word(stmt.value)
    return frozenset(name for name, is_word in given.items() if is_word)


def numbers_set(body: Sequence[t.Stmt]) -> frozenset[str]:
    """The paths that a number is written for in some place: ``loss = 0.0``."""
    assigns = (stmt for stmt in walk_statements(body) if isinstance(stmt, t.Assign))
    pairs = (pair for stmt in assigns for pair in t.pairs(stmt.targets, stmt.value))
    found = (t.path_of(target) for target, value in pairs if _is_number(value))
    return frozenset(path for path in found if path is not None)


def computed_with(nodes: Iterable[t.Node]) -> frozenset[str]:
    """The names of tensors, whatever they say: operands, or what has methods of tensors: ``teacher.mean(0)``."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, t.Operation) and node.operator in k.ARITHMETIC:
            found.update(each.id for each in node.operands if isinstance(each, t.Name))
        elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name in k.TENSOR_METHODS:
            found.update((node.func.value.id,) if isinstance(node.func.value, t.Name) else ())
    return frozenset(found)


def items_called(statements: Iterable[t.Stmt], calls: Iterable[t.Call], called: frozenset[str]) -> frozenset[str]:
    """The names of collections whose items are called: ``heads["a"](x)``, ``for layer in layers: x = layer(x)``."""
    items = (call.func.value for call in calls if isinstance(call.func, t.Subscript))
    loops = (stmt for stmt in statements if isinstance(stmt, t.Repeat) and stmt.iterable is not None)
    through = (loop.iterable for loop in loops if isinstance(loop.target, t.Name) and loop.target.id in called)
    return frozenset(each.id for each in (*items, *through) if isinstance(each, t.Name))


def filled_in(calls: Iterable[t.Call]) -> frozenset[str]:
    """The names that something is put into as only collections take it: ``rows.append(x)``, ``d["loss"].append(x)``."""
    adds = [c.func.value for c in calls if isinstance(c.func, t.Attribute) and c.func.name in ("append", "extend")]
    owners = (each.value for each in adds if isinstance(each, t.Subscript) and _is_word(each.index))
    return frozenset(each.id for each in (*adds, *owners) if isinstance(each, t.Name))


def summed_in(body: Sequence[t.Stmt]) -> frozenset[str]:
    """The names of what something is added up in, under a key that is written there or in a field.

    ``cell[0] += x``, ``cell["n"] += 1``, ``cell[0] = cell[0] + x``, ``meter.sum += x``.
    """
    written = (target for stmt in walk_statements(body) for target in _summed(stmt) if not breaks_graph(target))
    owners = (target.value for target in written if isinstance(target, t.Attribute) or _has_word(target))
    return frozenset(owner.id for owner in owners if isinstance(owner, t.Name))


def put_under_words(statements: Iterable[t.Stmt]) -> Iterator[tuple[t.Expr, str]]:
    """The dicts into which something is put under a word that is written there, each with it: ``state["slow"] = x``.

    A number that is written there, too, does not count, nor a counter: ``state["n"] = n + 1``.
    """
    for stmt in statements:
        targets = stmt.targets if isinstance(stmt, t.Assign) and not _counts(stmt.value) else []
        for target in targets:
            if _has_word(target) and _is_word(target.index):
                yield target.value, str(target.index.value)  # type: ignore[attr-defined]


def _counts(value: t.Expr) -> bool:
    """Whether it is a number, or one more than something."""
    is_more = isinstance(value, t.Operation) and value.operator == "+" and isinstance(value.operands[-1], t.Constant)
    return is_more or isinstance(value, t.Constant)


def _has_word(target: t.Expr) -> TypeGuard[t.Subscript]:
    """Whether it is an entry whose key is written there."""
    return isinstance(target, t.Subscript) and isinstance(target.index, t.Constant)


def _summed(stmt: t.Stmt) -> Iterator[t.Expr]:
    """What a statement adds something to."""
    if isinstance(stmt, t.Augment):
        yield stmt.target
    elif isinstance(stmt, t.Assign):
        first = t.path_of(stmt.value.operands[0]) if isinstance(stmt.value, t.Operation) else None
        yield from (target for target in stmt.targets if first is not None and t.path_of(target) == first)


def _is_number(expr: t.Expr) -> bool:
    return isinstance(expr, t.Constant) and isinstance(expr.value, int | float) and not isinstance(expr.value, bool)


def _is_word(expr: t.Expr) -> bool:
    """Whether a string is written there, and no counter in it."""
    if isinstance(expr, t.Constant):
        return isinstance(expr.value, str)
    parts = (t.path_of(part) or "" for part in expr.parts) if isinstance(expr, t.Text) else ("step",)
    return not any(k.COUNTER_NAME.search(part) for part in parts)


def breaks_graph(target: t.Expr) -> bool:
    """Whether assigning to this target cannot store a graph: ``x.data``, ``x.grad``, ``x.data[i]``."""
    while isinstance(target, t.Attribute | t.Subscript):
        if isinstance(target, t.Attribute) and target.name in ("data", "grad", "requires_grad"):
            return t.path_of(target.value) != "self"
        target = target.value
    return False


def is_of_gradient(expr: t.Expr) -> bool:
    """Whether an expression is a gradient or a part of one: ``p.grad``, ``p.grad.data[:n]``."""
    while isinstance(expr, t.Attribute | t.Subscript):
        if isinstance(expr, t.Attribute) and expr.name == "grad":
            return True
        expr = expr.value
    return False


def iterable_path(expr: t.Expr) -> str | None:
    """The loader inside ``enumerate(tqdm(loader, ...))``."""
    while isinstance(expr, t.Call) and expr.args and t.path_of(expr) is None:
        name = t.path_of(expr.func) or ""
        if name.rsplit(".", 1)[-1] in ("range", "len"):
            return None
        expr = expr.args[0].value
    return t.path_of(expr)


def collections_of(target: t.Expr, iterable: t.Expr) -> Iterator[tuple[str, list[str]]]:
    """The names that a loop binds, each with the paths that its object may have: ``self.callbacks[*]``."""
    if isinstance(iterable, t.Call) and isinstance(iterable.func, t.Name) and iterable.args:
        items = target.items if isinstance(target, t.Display) else []
        if iterable.func.id == "zip" and len(items) == len(iterable.args):
            for item, arg in zip(items, iterable.args):
                yield from collections_of(item, arg.value)
            return
        if iterable.func.id == "enumerate" and len(items) == 2:
            yield from collections_of(items[1], iterable.args[0].value)
            return
    if isinstance(target, t.Display) and (rows := _rows(iterable, len(target.items))):
        for number, item in enumerate(target.items):
            yield from collections_of(item, t.Display(None, "tuple", [row.items[number] for row in rows]))
        return
    paths = paths_of_elements(iterable)
    if paths:
        yield from ((name.id, paths) for name in t.names_in(target) if isinstance(name, t.Name))


def _rows(iterable: t.Expr, width: int) -> list[t.Display]:
    """The rows of a table that is written out: ``((net_a, pool_a), (net_b, pool_b))``; none if it is none."""
    rows = iterable.items if isinstance(iterable, t.Display) else []
    tuples = [row for row in rows if isinstance(row, t.Display) and len(row.items) == width]
    return tuples if len(tuples) == len(rows) else []


_EACH = frozenset("enumerate iter list reversed set sorted tqdm tuple".split())


def replaced_element(loop: t.Repeat, keyed: Callable[[], Mapping[str, str]]) -> t.Subscript | None:
    """The element that each iteration of a loop over a collection stores anew: ``for k, v in d.items(): d[k] = v * 2``.

    Or a loop over the collection whose elements are all its keys: ``for k in names: d[k] = d[k].item()``.
    That of a condition is one too where it asks whether the element is a tensor, or whether it has a tensor's methods:
    what is none, keeps no graph.
    """
    path = gone_over(loop.iterable) if loop.iterable is not None else None
    if path is None or loop.target is None or any(map(_ends_the_loop, t.walk_statements(loop.body))):
        return None
    keys = {name.id for name in t.names_in(loop.target) if isinstance(name, t.Name)}
    stored: t.Subscript | None = None
    for stmt in loop.body:
        for inner in _of_tensors(stmt):
            target = inner.targets[0] if isinstance(inner, t.Assign) else None
            base = t.path_of(target.value) if isinstance(target, t.Subscript) else None
            if not isinstance(target, t.Subscript) or base is None or t.path_of(target.index) not in keys:
                continue
            if base == path or keyed().get(base) == path:
                stored = target  # the last one counts
        if any(isinstance(inner, t.Leave) for inner in t.walk_statements([stmt])):
            break
    return stored


def _ends_the_loop(stmt: t.Stmt) -> bool:
    return isinstance(stmt, t.Return) or (isinstance(stmt, t.Leave) and stmt.kind == "break")


def makes_anew(expr: t.Expr) -> bool:
    """Whether it gives a collection of its own, or one that is in no other any more: ``rows[1:]``, ``queue.pop()``."""
    if isinstance(expr, t.Call):
        name = expr.func.name if isinstance(expr.func, t.Attribute) else t.path_of(expr.func)
        return name in _GIVING_ANEW or (name == "get" and len(expr.args) > 1)
    return isinstance(expr, t.Comprehension) or (isinstance(expr, t.Subscript) and isinstance(expr.index, t.Slice))


_GIVING_ANEW = frozenset(
    "sorted list tuple set frozenset dict reversed deque copy deepcopy pop popleft popitem".split()
)


def gone_over(expr: t.Expr) -> str | None:
    """The collection whose every key, or index, a loop has in turn."""
    while isinstance(expr, t.Call):
        name = expr.func.name if isinstance(expr.func, t.Attribute) else t.path_of(expr.func)
        if isinstance(expr.func, t.Attribute) and name in ("items", "keys") and not expr.args:
            expr = expr.func.value
        elif name in _EACH and expr.args:
            expr = expr.args[0].value
        elif name == "range" and len(expr.args) == 1 and _is_call_of(expr.args[0].value, "len"):
            expr = expr.args[0].value.args[0].value
        else:
            return None
    return t.path_of(expr)


def _is_call_of(expr: t.Expr, *names: str) -> TypeGuard[t.Call]:
    """Whether it calls one of some functions, under whatever module's name, with an argument."""
    if not isinstance(expr, t.Call) or not expr.args:
        return False
    return (t.path_of(expr.func) or "").rsplit(".", 1)[-1] in names


def _of_tensors(stmt: t.Stmt) -> list[t.Stmt]:
    """The statements that run for each tensor, with whatever is none left out: ``try``, ``except AttributeError``."""
    if isinstance(stmt, t.If) and _asks_for_tensor(stmt.test):
        return stmt.body
    if isinstance(stmt, t.Try) and all(_is_of_others(handler) for handler in stmt.handlers):
        return stmt.body
    return [stmt]


def _is_of_others(handler: t.Handler) -> bool:
    """Whether an error is that of an object which has no such methods as tensors have."""
    caught = handler.type.items if isinstance(handler.type, t.Display) else [handler.type]
    return all(each is not None and t.path_of(each) in ("AttributeError", "TypeError") for each in caught)


def _asks_for_tensor(test: t.Expr) -> bool:
    if isinstance(test, t.Attribute):
        return test.name in ("requires_grad", "grad_fn")
    return _is_call_of(test, "isinstance", "is_tensor", "hasattr")


def paths_of_elements(expr: t.Expr) -> list[str]:
    """The paths of what a loop goes over: ``self.meters[*]`` of ``sorted(self.meters.values())``."""
    while isinstance(expr, t.Call):
        func = expr.func
        if isinstance(func, t.Attribute) and func.name == "parameters" and (path := t.path_of(func.value)) is not None:
            return [f"{path}{PARAMETERS}"]
        if isinstance(func, t.Attribute) and func.name == "get" and expr.args:  # for handler in handlers.get(event, ())
            path = t.path_of(func.value)
            return [f"{path}[*][*]"] if path is not None else []
        if isinstance(func, t.Attribute) and func.name in ("values", "items", "keys", "copy") and not expr.args:
            expr = func.value
        elif isinstance(func, t.Name) and func.id in _SAME_ELEMENTS and expr.args:
            expr = expr.args[0].value
        else:
            return []
    if isinstance(expr, t.Display):  # for column in (self.losses, self.rewards)
        paths = [t.path_of(item) for item in expr.items]
        return [path for path in paths if path is not None] if None not in paths else []
    path = t.path_of(expr)
    return [f"{path}[*]"] if path is not None else []


_SAME_ELEMENTS = frozenset("list tuple sorted reversed iter set filter tqdm".split())


def assigned_paths(loop: t.Repeat) -> frozenset[str]:
    """Every path that the body of a loop assigns or changes in place."""
    found: set[str] = set()

    def target(expr: t.Expr) -> None:
        for single in t.names_in(expr):
            path = t.path_of(single)
            if path is None or breaks_graph(single):
                continue
            found.add(path if path.endswith('"]') or not path.endswith("]") else path.rsplit("[", 1)[0])
            while path.endswith("]"):
                path = path.rsplit("[", 1)[0]
                found.add(path)

    for stmt in walk_statements(loop.body):
        if isinstance(stmt, t.Assign):
            for each in stmt.targets:
                target(each)
        elif isinstance(stmt, t.Augment):
            target(stmt.target)
        elif isinstance(stmt, t.Repeat) and stmt.target is not None:
            target(stmt.target)
            found |= stmt.assigned or frozenset()
        elif isinstance(stmt, t.With):
            for _, bound in stmt.items:
                if bound is not None:
                    target(bound)
        elif isinstance(stmt, t.Delete):
            for each in stmt.targets:
                target(each)
        if isinstance(stmt, t.Evaluate | t.Assign | t.Return) and isinstance(stmt.value, t.Call):
            func = stmt.value.func
            if isinstance(func, t.Attribute) and (
                func.name in k.ADDING_METHODS or func.name in k.CLEARING_METHODS or func.name.endswith("_")
            ):
                target(func.value)
    return frozenset(found)


def bound_names(define: t.Define) -> tuple[set[str], set[str]]:
    """Names that the function binds, and those it declares global or nonlocal."""
    declared = (stmt for stmt in define.statements if isinstance(stmt, t.Declare))
    return bound_by(define.body), {n for stmt in declared if stmt.kind in ("global", "nonlocal") for n in stmt.names}


def bound_by(statements: list[t.Stmt]) -> set[str]:
    """The names that some statements bind, and those in them."""
    bound: set[str] = set()
    for stmt in walk_statements(statements):
        if isinstance(stmt, t.Assign):
            bound.update(_names(stmt.targets))
        elif isinstance(stmt, t.Augment | t.Repeat):
            bound.update(_names([stmt.target] if stmt.target is not None else []))
        elif isinstance(stmt, t.With):
            bound.update(_names([b for _, b in stmt.items if b is not None]))
        elif isinstance(stmt, t.Define | t.DefineClass):
            bound.add(stmt.name)
        elif isinstance(stmt, t.Import):
            bound.update(stmt.names)
        elif isinstance(stmt, t.Try):
            bound.update(h.name for h in stmt.handlers if h.name)
    return bound


def _names(targets: Iterable[t.Expr]) -> Iterable[str]:
    for target in targets:
        for single in t.names_in(target):
            if isinstance(single, t.Name):
                yield single.id

"""A ``state_dict()`` that is kept as it is, to be loaded later: it goes on with its model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes import LiveState
from gradguard.static.model import Loop
from gradguard.static.names import named_kind
from gradguard.static.optimized import overlap
from gradguard.static.order import comes_before, ends_at, has
from gradguard.static.paths import is_part
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.functions import FunctionRef

_CHANGES = frozenset("update pop clear popitem setdefault".split())
_SHALLOW = frozenset("dict OrderedDict copy".split())
_ORDER = frozenset("< > <= >=".split())
_BETTER = re.compile(r"best|better|improve", re.I)
_HOW_FAR = re.compile(r"epoch|step|iter|round|batch|rank|^[ijkn]$", re.I)


def live_states(flow: Flow) -> Iterator[LiveState]:
    """Where a function keeps the state of a model that is trained on until that state is used."""
    for stmt in flow.ref.define.statements:
        for kept, model in _kept_whole(flow, stmt):
            if (used := _read_after_training(flow, stmt, kept, model)) is not None:
                yield LiveState(flow.site(stmt), kept, model, model, used)
        for kept, model in _taken(stmt):
            if flow.read(flow.canonical(model), flow.final).kind is not Kind.OPTIMIZER:
                used = _used_after_training(flow, stmt, kept, model) or _used_elsewhere(flow, stmt, kept, model)
                if used is not None or _is_loaded_from(flow, stmt, kept):
                    yield LiveState(flow.site(stmt), kept, model, f"{model}.state_dict()", used)
        for kept, model in _collected(stmt):
            if _learns(flow, model) and (used := _read_of_several(flow, stmt, kept, model)) is not None:
                yield LiveState(flow.site(stmt), kept, model, f"{model}.state_dict()", used, is_one_of_several=True)


def _kept_whole(flow: Flow, stmt: t.Stmt) -> Iterator[tuple[str, str]]:
    """``best_model = model``: the paths of both."""
    for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
        kept, model = t.path_of(target), t.path_of(value) if isinstance(value, t.Name | t.Attribute) else None
        if kept is None or model is None or _BETTER.search(kept) is None or "[" in kept:
            continue
        if any(forward.module == model for forward in flow.facts.forwards):
            yield kept, model


def _read_after_training(flow: Flow, stmt: t.Stmt, kept: str, model: str) -> Site | None:
    """Where a function reads what it kept of a model that it trained on, after that."""
    bound = [value for value in _bound(flow.ref, kept) if not isinstance(value, t.Constant)]
    if any(t.path_of(value) != model for value in bound) or f"{kept}.load_state_dict" in _called(flow.ref):
        return None
    for loop in _trained_in(flow, model):
        if _keeps_the_best(loop, stmt, kept):
            for other in flow.ref.define.statements:
                if comes_before(flow.ref.define.body, loop.site.node, other) and _reads(other, kept):
                    return flow.site(other)
    return None


def _keeps_the_best(loop: Loop, stmt: t.Stmt, kept: str) -> bool:
    """Whether a loop keeps something where that is better than before, and goes on."""
    inside = (node for node in loop.nodes if isinstance(node, t.If))
    return stmt in loop.nodes and _is_of_the_best(inside, stmt) and not _ends(loop, stmt, kept)


def _trained_in(flow: Flow, model: str) -> Iterator[Loop]:
    """The loops that train, and do not make or take another model in each iteration."""
    of = {model, model.split(".", 1)[0]}
    return (loop for loop in flow.facts.loops if loop.trains and of.isdisjoint(loop.targets | loop.assigned))


def _learns(flow: Flow, model: str) -> bool:
    """Whether a model may be trained here: an optimizer may have it, and a backward goes through it where it is run."""
    trained = [step.modules for step in flow.facts.steps]
    if trained and not any(overlap(modules, frozenset((model,))) for modules in trained):
        return False
    runs = [forward for forward in flow.facts.forwards if forward.module == model]
    return not runs or any(map(flow.facts.backpropagates, runs))


def _called(ref: FunctionRef) -> set[str | None]:
    return {t.path_of(node.func) for node in ref.define.nodes if isinstance(node, t.Call)}


def _ends(loop: Loop, stmt: t.Stmt, kept: str) -> bool:
    """Whether a loop ends where something is kept, so that no step follows: ``while best is None:``."""
    around = loop.site.node
    if not isinstance(around, t.Repeat):
        return False
    return ends_at(around, stmt) or (around.test is not None and kept in map(t.path_of, _names(around.test)))


def _names(expr: t.Expr) -> Iterator[t.Expr]:
    return (node for node in t.walk(expr) if isinstance(node, t.Name | t.Attribute))


def _reads(stmt: t.Stmt, path: str) -> bool:
    bound = {target for each in (stmt.targets if isinstance(stmt, t.Assign) else ()) for target in t.names_in(each)}
    nodes = (node for node in t.walk(stmt) if isinstance(node, t.Name | t.Attribute) and node not in bound)
    return any(t.path_of(node) == path for node in nodes)


def _taken(stmt: t.Stmt) -> Iterator[tuple[str, str]]:
    """``kept = model.state_dict()``, ``kept = {"model": model.state_dict()}``: the paths of both."""
    for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
        kept = t.path_of(target)
        if kept is None or "[*]" in kept:
            continue
        for model in _models_in(value):
            yield kept, model


def _collected(stmt: t.Stmt) -> Iterator[tuple[str, str]]:
    """``kept.append(model.state_dict())``, ``kept[epoch] = model.state_dict()``: the paths of both."""
    for collection, value in _put(stmt):
        kept = t.path_of(collection)
        for model in _models_in(value):
            if kept is not None and "[" not in model:
                yield kept, model


def _put(stmt: t.Stmt) -> Iterator[tuple[t.Expr, t.Expr]]:
    """The collections into which a statement puts something beside what is there, each with what it puts there."""
    for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
        if isinstance(target, t.Subscript) and not isinstance(target.index, t.Constant | t.Slice):
            yield target.value, value
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) and len(call.args) == 1 else None
    if isinstance(call, t.Call) and isinstance(func, t.Attribute) and func.name == "append":
        yield func.value, call.args[0].value


def _read_of_several(flow: Flow, stmt: t.Stmt, kept: str, model: str) -> Site | None:
    """Where a function reads the states that it collected in a loop that trains one model: they are all one."""
    of = (model, model.split(".", 1)[0])
    for loop in flow.facts.loops:
        if not loop.trains or stmt not in loop.nodes or _ends(loop, stmt, kept):
            continue
        if any(path in loop.targets or _is_made_in(loop, path) for path in (*of, kept)):
            continue
        for other in flow.ref.define.statements:
            if comes_before(flow.ref.define.body, loop.site.node, other) and _reads(other, kept):
                return flow.site(other)
    return None


def _is_made_in(loop: Loop, path: str) -> bool:
    targets = (target for node in loop.nodes if isinstance(node, t.Assign) for target in node.targets)
    return any(t.path_of(name) == path for target in targets for name in t.names_in(target))


def _models_in(value: t.Expr) -> Iterator[str]:
    """The paths of the models whose states a value is, or has under keys; optimizers and schedulers have such, too."""
    for of in _states_in(value):
        path = t.path_of(of)
        if path is not None and named_kind(path) is not Kind.OPTIMIZER and "sched" not in path:
            yield path


def _states_in(value: t.Expr) -> Iterator[t.Expr]:
    """What it is that a value is the state of, or has the state of under a key."""
    for each in [item for _, item in value.entries] if isinstance(value, t.DictDisplay) else [value]:
        of = _state_of(each)
        if of is not None:
            yield of


def _state_of(value: t.Expr) -> t.Expr | None:
    """What an expression gives the state of, or another dict of the same tensors: ``dict(net.state_dict())``."""
    if isinstance(value, t.Comprehension):
        state = _gone_through(value)
        return None if state is None else _state_of(state)
    func = value.func if isinstance(value, t.Call) else None
    if not isinstance(value, t.Call) or func is None:
        return None
    name = func.name if isinstance(func, t.Attribute) else t.path_of(func)
    if name == "state_dict" and isinstance(func, t.Attribute) and not value.args:
        return func.value
    if name not in _SHALLOW:
        return None
    if len(value.args) == 1:
        return _state_of(value.args[0].value)
    return _state_of(func.value) if isinstance(func, t.Attribute) and not value.args else None


def _gone_through(made: t.Comprehension) -> t.Expr | None:
    """``state`` of ``{name: value for name, value in state.items()}``, whose values are the same tensors."""
    clause, element = made.clauses[0], made.element
    call, target = clause.iterable, clause.target
    func = call.func if isinstance(call, t.Call) else None
    if isinstance(element, t.Call) and isinstance(element.func, t.Attribute) and element.func.name == "detach":
        element = element.func.value  # it has the memory of the tensor
    if not isinstance(func, t.Attribute) or func.name != "items" or made.key is None:
        return None
    is_pair = isinstance(target, t.Display) and len(target.items) == 2
    value = target.items[1] if isinstance(target, t.Display) and is_pair else None
    return func.value if value is not None and t.path_of(element) == t.path_of(value) else None


def _used_after_training(flow: Flow, stmt: t.Stmt, kept: str, model: str) -> Site | None:
    """Where the same function loads it, or saves it, when the model was trained in between."""
    ref = flow.ref
    if not _learns(flow, model):
        return None
    if not _is_kept_as_it_is(ref, kept) or len(ref.assigned.get(model, ())) > _made_before(ref, model, stmt):
        return None
    for loop in _trained_in(flow, model):
        is_best = _keeps_the_best(loop, stmt, kept)
        is_start = comes_before(ref.define.body, stmt, loop.site.node)
        for other in ref.define.statements if is_best or is_start else ():
            is_loaded, is_saved = _uses(other, kept, model)
            later = comes_before(ref.define.body, loop.site.node, other)
            again = is_start and is_loaded and (later or other in loop.nodes)
            if again or (is_best and later and (is_loaded or is_saved)):
                return flow.site(other)
    return None


def _used_elsewhere(flow: Flow, stmt: t.Stmt, kept: str, model: str) -> Site | None:
    """Where another method loads it, or saves it, of an object that keeps the best so far: ``EarlyStopping``."""
    for method in _methods_besides(flow, stmt, kept):
        for other in method.define.statements:
            if any(_uses(other, kept, _last(model), by_last=True)):
                return Site(method.chunk, other)
    return None


def _is_loaded_from(flow: Flow, stmt: t.Stmt, kept: str) -> bool:
    """Whether somebody takes it from such an object, to load it: ``net.load_state_dict(stopper.best_state)``."""
    if not any(True for _ in _methods_besides(flow, stmt, kept)):
        return False
    name = _last(kept.partition("[")[0])
    loads = re.compile(rf"load_state_dict\(\s*(?!self\b)\w[\w.]*\.{name}\b")
    return flow.project.survey.mentions(loads, flow.module, name)


def _methods_besides(flow: Flow, stmt: t.Stmt, kept: str) -> Iterator[FunctionRef]:
    """The other methods of an object that keeps the state of the best as it is, in one of its attributes."""
    owner, ref = flow.ref.owner, flow.ref
    conditions = (each for each in ref.define.statements if isinstance(each, t.If))
    if owner is None or not kept.startswith("self.") or not _is_of_the_best(conditions, stmt):
        return
    others = [method for name, method in owner.methods.items() if name != ref.define.name]
    if all(_is_kept_as_it_is(method, kept) for method in (ref, *others)):
        yield from others


def _is_kept_as_it_is(ref: FunctionRef, kept: str) -> bool:
    """Whether a function binds a name to nothing else but what is empty, and changes no entry of what it is."""
    return all(map(_is_state_or_empty, _bound(ref, kept))) and not any(
        _changes(node, kept) for node in ref.define.nodes
    )


def _is_state_or_empty(value: t.Expr) -> bool:
    if isinstance(value, t.DictDisplay) and not value.entries:
        return True
    return isinstance(value, t.Constant) or any(True for _ in _states_in(value))


def _bound(ref: FunctionRef, path: str) -> Iterator[t.Expr]:
    """What a function binds a path to, or takes apart where it binds it."""
    for stmt in ref.define.statements if path in ref.assigned else ():
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            if path in map(t.path_of, t.names_in(target)):
                yield value


def _changes(node: object, kept: str) -> bool:
    if isinstance(node, t.Call) and isinstance(node.func, t.Attribute):
        return node.func.name in _CHANGES and t.path_of(node.func.value) == kept
    targets: Sequence[t.Expr] = ()
    if isinstance(node, t.Assign | t.Delete):
        targets = node.targets
    elif isinstance(node, t.Augment):
        targets = (node.target,)
    return any(isinstance(e, t.Subscript) and t.path_of(e.value) == kept for e in targets)


def _made_before(ref: FunctionRef, model: str, stmt: t.Stmt) -> int:
    """How often a model is bound before its state is taken: where it is bound anew after that, it is another one."""
    assigned = ((s, target) for s in ref.define.statements if isinstance(s, t.Assign) for target in s.targets)
    bindings = (s for s, target in assigned if model in map(t.path_of, t.names_in(target)))
    return sum(comes_before(ref.define.body, each, stmt) for each in bindings)


def _uses(stmt: t.Stmt, kept: str, model: str, by_last: bool = False) -> tuple[bool, bool]:
    """Whether a statement loads a state into the model that it was taken of, or saves it."""
    if isinstance(stmt, t.Return):
        returned = stmt.value.items if isinstance(stmt.value, t.Display) else [stmt.value]
        return False, any(each is not None and _has(each, kept) for each in returned)
    call = stmt.value if isinstance(stmt, t.Evaluate | t.Assign) else None
    func = call.func if isinstance(call, t.Call) else None
    if not isinstance(call, t.Call) or not call.args or not isinstance(func, t.Attribute):
        return False, False
    given = call.args[0].value
    if func.name == "save":
        named = (given, *(item for _, item in given.entries)) if isinstance(given, t.DictDisplay) else (given,)
        return False, any(_has(each, kept) for each in named)
    into = t.path_of(func.value) or ""
    is_same = (_last(into) if by_last else into) == model
    return func.name == "load_state_dict" and is_same and _has(given, kept), False


def _has(expr: t.Expr, kept: str) -> bool:
    """Whether an expression is what is kept, an entry of it, or the dict that it is an entry of."""
    path = t.path_of(expr)
    return path is not None and (is_part(path, kept) or kept.startswith(f"{path}["))


def _last(path: str) -> str:
    return path.rsplit(".", 1)[-1]


def _is_of_the_best(conditions: Iterable[t.If], stmt: t.Stmt) -> bool:
    """Whether a statement runs where something has become better: ``if val_loss < best:``."""
    return any(_tells_better(each.test) and has([*each.body, *each.orelse], stmt) for each in conditions)


def _tells_better(test: t.Expr) -> bool:
    nodes = list(t.walk(test))
    if any(_BETTER.search(path) for node in nodes if isinstance(node, t.Expr) and (path := t.path_of(node))):
        return True
    orders = (node for node in nodes if isinstance(node, t.Operation) and node.operator in _ORDER)
    return any(all(map(_is_measure, node.operands)) for node in orders)


def _is_measure(expr: t.Expr) -> bool:
    return not isinstance(expr, t.Constant) and _HOW_FAR.search(_last(t.path_of(expr) or "")) is None

"""A ``state_dict()`` that is kept as it is, to be loaded later: it goes on with its model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import LiveState
from gradguard.static.model import Loop
from gradguard.static.optimizers.live_anchors import live_anchors
from gradguard.static.optimizers.live_averages import live_averages
from gradguard.static.optimizers.optimized import overlap
from gradguard.static.optimizers.schedulers import scheduled
from gradguard.static.optimizers.shallow_copies import copied_of, shallow_copies
from gradguard.static.optimizers.state_dicts import collected, is_written_by, states_in, taken
from gradguard.static.program.classes import Class
from gradguard.static.program.order import comes_before, ends_at, has, surely_before
from gradguard.static.program.own_methods import methods_of, reached
from gradguard.static.program.paths import is_part, last
from gradguard.static.reading.places import assigned_anywhere
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef

_CHANGES = frozenset("update pop clear popitem setdefault".split())
_LOADS = re.compile(r"load|restore", re.I)
_KEEPING = frozenset("save deepcopy load_state_dict print len".split())
_ORDER = frozenset("< > <= >=".split())
_BETTER = re.compile(r"best|better|improve", re.I)
_STATE = re.compile(r"state|model|net|weight|param|dict|encoder|decoder|actor|critic", re.I)
_HOW_FAR = re.compile(r"epoch|step|iter|round|batch|rank|^[ijkn]$", re.I)


def live_states(flow: Flow) -> Iterator[LiveState]:
    """Where a function keeps the state of a model that is trained on until that state is used."""
    yield from shallow_copies(flow)
    yield from live_anchors(flow)
    yield from live_averages(flow)
    for stmt in flow.ref.define.statements:
        for kept, model in _kept_whole(flow, stmt):
            if (used := _read_after_training(flow, stmt, kept, model)) is not None:
                yield LiveState(flow.site(stmt), kept, model, model, used)
        for kept, model in taken(stmt):
            if _gives_copies(flow, stmt, model):
                continue
            if not _is_of_rates(flow, model):
                used = _used_after_training(flow, stmt, kept, model) or _used_elsewhere(flow, stmt, kept, model)
                if used is not None or _is_loaded_from(flow, stmt, kept):
                    yield LiveState(flow.site(stmt), kept, model, f"{model}.state_dict()", used)
        for kept, model in collected(stmt):
            if not _learns(flow, model) or _is_of_rates(flow, model):
                continue
            if (used := _read_of_several(flow, stmt, kept, model)) is not None:
                yield LiveState(flow.site(stmt), kept, model, f"{model}.state_dict()", used, is_one_of_several=True)


def _gives_copies(flow: Flow, stmt: t.Stmt, model: str) -> bool:
    """Whether its class has a ``state_dict`` of its own, or a context around says how the state is gathered."""
    of = flow.read(flow.canonical(model), flow.final).ref
    if isinstance(of, Class) and of.method("state_dict") is not None:
        return True
    around = (s for s in flow.ref.define.statements if isinstance(s, t.With) and has(s.body, stmt))
    return any("state_dict" in context.name for s in around for context, _ in s.items if isinstance(context, t.Call))


def _is_of_rates(flow: Flow, model: str) -> bool:
    """Whether it is an optimizer, or a scheduler of one, whose state is a new dict of numbers each time."""
    path = flow.canonical(model)
    if flow.read(path, flow.final).kind is Kind.OPTIMIZER:
        return True
    return any(scheduled(flow.ref, value) is not None for value in assigned_anywhere(flow, path))


def _kept_whole(flow: Flow, stmt: t.Stmt) -> Iterator[tuple[str, str]]:
    """``best_model = model``: the paths of both."""
    for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
        kept, model = t.path_of(target), _model_of(flow, value)
        if kept is None or model is None or _BETTER.search(kept) is None or "[" in kept:
            continue
        if any(forward.module == model for forward in flow.facts.forwards):
            yield kept, model


def _model_of(flow: Flow, value: t.Expr) -> str | None:
    """What has another name, or a shallow copy, which has the same parameters: ``copy.copy(model)``."""
    return t.path_of(value) if isinstance(value, t.Name | t.Attribute) else copied_of(flow, value)


def _read_after_training(flow: Flow, stmt: t.Stmt, kept: str, model: str) -> Site | None:
    """Where a function reads what it kept of a model that it trained on, after that."""
    bound = [value for value in _bound(flow.ref, kept) if not isinstance(value, t.Constant)]
    if any(_model_of(flow, value) != model for value in bound) or f"{kept}.load_state_dict" in _called(flow.ref):
        return None
    for loop in _trained_in(flow, model):
        if _keeps_the_best(loop, stmt, kept):
            after = [s for s in flow.ref.define.statements if comes_before(flow.ref.define.body, loop.site.node, s)]
            used = next((other for other in after if _reads(other, kept)), None)
            if used is not None and not any(_loads(other, (kept, model)) for other in after):
                return flow.site(used)
    return None


def _loads(stmt: t.Stmt, paths: tuple[str, str]) -> bool:
    """Whether the weights of a model are read from somewhere: ``net.load_state_dict(...)``, ``restore(net, path)``."""
    for call in (node for node in t.walk(stmt) if isinstance(node, t.Call)):
        owner = [call.func.value] if isinstance(call.func, t.Attribute) else []
        concerned = [t.path_of(each) for each in (*owner, *(arg.value for arg in call.args))]
        if _LOADS.search(call.name) and any(path in paths for path in concerned):
            return True
    return False


def _keeps_the_best(loop: Loop, stmt: t.Stmt, kept: str) -> bool:
    """Whether a loop keeps something where that is better than before, and goes on."""
    inside = (node for node in loop.nodes if isinstance(node, t.If))
    return stmt in loop.nodes and _is_of_the_best(inside, stmt) and not _ends(loop, stmt, kept)


def _trained_in(flow: Flow, model: str) -> Iterator[Loop]:
    """The loops that train, and do not make or take another model in each iteration."""
    of = {model, model.split(".", 1)[0]}
    loops = (loop for loop in flow.facts.loops if loop.trains and of.isdisjoint(loop.targets | loop.assigned))
    return (loop for loop in loops if not _is_made_by_method(flow, loop, model))


def _is_made_by_method(flow: Flow, loop: Loop, model: str) -> bool:
    """Whether each iteration calls a method that makes the model anew: ``self.build()``, with ``self.net = Net()``."""
    owner, name = flow.ref.owner, model.removeprefix("self.")
    if owner is None or name == model:
        return False
    calls = (node.func for node in loop.nodes if isinstance(node, t.Call) and isinstance(node.func, t.Attribute))
    called = {func.name for func in calls if t.path_of(func.value) == "self"}
    made = [define.name for cls in owner.lineage() for define, value in cls.assigned(name) if isinstance(value, t.Call)]
    return not reached(methods_of(owner), called).isdisjoint(made)


def _learns(flow: Flow, model: str) -> bool:
    """Whether a model may be trained here: an optimizer may have it, and a backward goes through it where it is run.

    Or a helper runs it that does a backward, ``train_epoch(model, loader)``, and it is only evaluated here.
    """
    trained = [step.modules for step in flow.facts.steps]
    if trained and not any(overlap(modules, frozenset((model,))) for modules in trained):
        return False
    runs = [forward for forward in flow.facts.forwards if forward.module == model]
    helped = (backward.site.node for backward in flow.facts.backwards if backward.inner is not None)
    is_given = any(isinstance(call, t.Call) and _takes(call, model) for call in helped)
    return not runs or is_given or any(map(flow.facts.backpropagates, runs))


def _takes(call: t.Call, model: str) -> bool:
    return any(t.path_of(arg.value) == model for arg in call.args)


def _called(ref: FunctionRef) -> set[str | None]:
    return {t.path_of(node.func) for node in ref.define.all(t.Call)}


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
    nodes = list(t.walk(stmt))
    counted = [arg.value for node in nodes if isinstance(node, t.Call) and node.name == "len" for arg in node.args]
    named = (node for node in nodes if isinstance(node, t.Name | t.Attribute) and node not in bound)
    return any(t.path_of(node) == path and node not in counted for node in named)


def _read_of_several(flow: Flow, stmt: t.Stmt, kept: str, model: str) -> Site | None:
    """Where a function reads the states that it collected in a loop that changes one model: they are all one."""
    of = (model, model.split(".", 1)[0])
    for loop in flow.facts.loops:
        if not (loop.trains or _is_worker(loop, model)) or stmt not in loop.nodes or _ends(loop, stmt, kept):
            continue
        if any(path in loop.targets or _is_made_in(loop, path) for path in (*of, kept)):
            continue
        if _is_made_by_method(flow, loop, model):
            continue
        for other in flow.ref.define.statements:
            is_late = comes_before(flow.ref.define.body, loop.site.node, other) and _reads(other, kept)
            if is_late and not _is_bound_again(flow.ref, other, kept, stmt):
                return flow.site(other)
    return None


def _is_worker(loop: Loop, model: str) -> bool:
    """Whether each iteration begins a model anew, in the same tensors, and somebody gets it: ``site.fit(worker)``."""
    calls = [node for node in loop.nodes if isinstance(node, t.Call)]
    loads = [call for call in calls if t.path_of(call.func) == f"{model}.load_state_dict"]
    given = (arg.value for call in calls if call.name not in _KEEPING for arg in call.args)
    is_given = any(t.path_of(value) == model for value in given)
    return is_given and bool(loads) and all(call.argument("assign", 2) is None for call in loads)


def _is_made_in(loop: Loop, path: str) -> bool:
    targets = (target for node in loop.nodes if isinstance(node, t.Assign) for target in node.targets)
    return any(t.path_of(name) == path for target in targets for name in t.names_in(target))


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
            is_loaded, is_saved = _uses(ref, other, kept, model)
            if (is_loaded or is_saved) and _is_bound_again(ref, other, kept, stmt):
                continue
            later = comes_before(ref.define.body, loop.site.node, other)
            again = is_start and is_loaded and (later or other in loop.nodes)
            if again or (is_best and later and (is_loaded or is_saved)):
                return flow.site(other)
    return None


def _used_elsewhere(flow: Flow, stmt: t.Stmt, kept: str, model: str) -> Site | None:
    """Where another method loads it, or saves it, of an object that keeps the best so far: ``EarlyStopping``."""
    if "." not in model and any(isinstance(value, t.Call) for value in flow.ref.assigned.get(model, [])):
        return None  # a copy, that the method makes
    at_once = _called_beside(flow, stmt)
    for method in _methods_besides(flow, stmt, kept):
        for other in method.define.statements:
            is_loaded, is_saved = _uses(method, other, kept, last(model), by_last=True)
            is_late = is_loaded or (is_saved and method.define.name not in at_once)
            if is_late and not _is_bound_again(method, other, kept):
                return Site(method.chunk, other)
    return None


def _called_beside(flow: Flow, stmt: t.Stmt) -> set[str]:
    """The methods of the object that its block calls: what writes the state there does so before the next step."""
    body = flow.ref.define.body
    blocks = [body, *(block for each in flow.ref.define.statements for block in t.blocks(each))]
    beside = next((block for block in blocks if any(each is stmt for each in block)), body)
    calls = (node.func for node in t.walk(beside) if isinstance(node, t.Call) and isinstance(node.func, t.Attribute))
    return {func.name for func in calls if t.path_of(func.value) == "self"}


def _is_loaded_from(flow: Flow, stmt: t.Stmt, kept: str) -> bool:
    """Whether somebody takes it from such an object, to load it: ``net.load_state_dict(stopper.best_state)``."""
    if not any(True for _ in _methods_besides(flow, stmt, kept)):
        return False
    name = last(kept.partition("[")[0])
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
        _changes(node, kept) or _hands_over(ref, node, kept) for node in ref.define.nodes
    )


def _hands_over(ref: FunctionRef, node: object, kept: str) -> bool:
    """Whether a helper gets it that may change what is in it: ``accumulate(average, model)``."""
    if not isinstance(node, t.Call) or not isinstance(node.func, t.Name) or node.name in _KEEPING:
        return False
    is_given = _LOADS.search(node.name) is None and any(t.path_of(arg.value) == kept for arg in node.args)
    return is_given and not is_written_by(ref, node, kept)


def _is_state_or_empty(value: t.Expr) -> bool:
    if isinstance(value, t.DictDisplay) and all(_is_constant(item) for _, item in value.entries):
        return True
    return isinstance(value, t.Constant) or any(True for _ in states_in(value))


def _is_constant(expr: t.Expr) -> bool:
    """``None``, ``-1``, ``float("inf")``, ``math.inf``: what stands in a record that is not filled yet."""
    if isinstance(expr, t.Operation):
        return all(map(_is_constant, expr.operands))
    is_infinite = isinstance(expr, t.Attribute) and expr.name == "inf"
    return isinstance(expr, t.Constant) or is_infinite or (isinstance(expr, t.Call) and expr.name == "float")


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


def _is_bound_again(ref: FunctionRef, used: t.Stmt, kept: str, stmt: t.Stmt | None = None) -> bool:
    """Whether something else is at a path where it is used: ``state = {}; state["net"] = ...; torch.save(state)``.

    Args:
        stmt: what the binding comes after, that has kept the state there.
    """
    body = ref.define.body
    before = (each for each in surely_before(body, used) if stmt is None or comes_before(body, stmt, each))
    return any(_binds_anew(each, kept) for each in before)


def _binds_anew(stmt: t.Stmt, kept: str) -> bool:
    for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
        path = t.path_of(target)
        if path is not None and is_part(kept, path):
            return all(t.path_of(node) != path for node in _names(value))
    return False


def _uses(ref: FunctionRef, stmt: t.Stmt, kept: str, model: str, by_last: bool = False) -> tuple[bool, bool]:
    """Whether a statement of a function loads a state into the model that it was taken of, or saves it."""
    if isinstance(stmt, t.Return):
        returned = stmt.value.items if isinstance(stmt.value, t.Display) else [stmt.value]
        return False, any(each is not None and _has(each, kept) and not _is_note(each) for each in returned)
    call = stmt.value if isinstance(stmt, t.Evaluate | t.Assign) else None
    func = call.func if isinstance(call, t.Call) else None
    if not isinstance(call, t.Call) or not call.args or not isinstance(func, t.Attribute):
        return False, isinstance(call, t.Call) and is_written_by(ref, call, kept)
    given = call.args[0].value
    if func.name == "save":
        named = (given, *(item for _, item in given.entries)) if isinstance(given, t.DictDisplay) else (given,)
        return False, any(_has(each, kept) for each in named)
    into = t.path_of(func.value) or ""
    is_same = (last(into) if by_last else into) == model
    is_read = _has(given, kept) or (isinstance(given, t.Comprehension) and any(_has(n, kept) for n in _names(given)))
    return func.name == "load_state_dict" and is_same and is_read, False


def _has(expr: t.Expr, kept: str) -> bool:
    """Whether an expression is what is kept, an entry of it, or the dict that it is an entry of."""
    path = t.path_of(expr)
    return path is not None and (is_part(path, kept) or kept.startswith(f"{path}["))


def _is_note(expr: t.Expr) -> bool:
    """Whether it is what was noted beside a state: ``best["epoch"]``."""
    index = expr.index if isinstance(expr, t.Subscript) else None
    return isinstance(index, t.Constant) and _STATE.search(str(index.value)) is None


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
    return not isinstance(expr, t.Constant) and _HOW_FAR.search(last(t.path_of(expr) or "")) is None

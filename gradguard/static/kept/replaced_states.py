"""Parameters that are replaced in the groups of an optimizer, whose state keeps the old: ``group["params"] = [new]``.

``optimizer.state`` has the parameters as keys. What nothing takes out of it stays: the old parameter, its gradient and
its averages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.tensor_keys import bound_pairs
from gradguard.static.mistakes.kept import ReplacedState
from gradguard.static.model import Loop
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of, functions_called

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_TAKING_OUT = frozenset(("pop", "popitem", "clear"))
_SETTING_ALL = frozenset(("load_state_dict", "__setstate__"))
_WITH_AVERAGES = frozenset(
    "Adam AdamW Adamax NAdam RAdam RMSprop Adagrad Adadelta Rprop SparseAdam SelectiveAdam Adafactor".split()
)
_AT_START = re.compile(r"init|setup|set_up|load|restore|resume|build|create|configure|from_|prepare")
"""What is done before the first step, or with the states of a checkpoint."""
_DEPTH = 3


def replaced_states(flow: Flow) -> Iterator[ReplacedState]:
    """Where a function replaces a parameter whose state its optimizer has, and nothing takes that out."""
    told = set[str]()
    for stmt in sorted(flow.ref.define.statements, key=_place):
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            group = _group(target)
            optimizer = _optimizer(flow, group) if group is not None else None
            if optimizer is None or optimizer in told or not _is_new(flow, target, value, optimizer):
                continue
            read = next(_states_read(flow, optimizer), None)
            if read is None and not _has_stepped(flow, stmt, value, optimizer):
                continue
            if not _is_put_back(flow) and not _is_taken_out(flow, optimizer) and not _is_renewed(flow, stmt, optimizer):
                told.add(optimizer)
                yield ReplacedState(flow.site(read or stmt), optimizer, flow.site(stmt))


def _group(target: t.Expr) -> t.Expr | None:
    """The group of which a statement sets the parameters, or one of them: ``group["params"][0] = ...``."""
    if isinstance(target, t.Subscript) and not _is_params(target):
        target = target.value
    return target.value if isinstance(target, t.Subscript) and _is_params(target) else None


def _is_params(target: t.Subscript) -> bool:
    return isinstance(target.index, t.Constant) and target.index.value == "params"


def _optimizer(flow: Flow, group: t.Expr, depth: int = _DEPTH) -> str | None:
    """The one optimizer that a group is of: ``for group in optimizer.param_groups``."""
    owners = {_path(flow, n.value) for n in t.walk(group) if isinstance(n, t.Attribute) and n.name == "param_groups"}
    if owners:
        return owners.pop() if len(owners) == 1 else None
    name = next((node.id for node in t.walk(group) if isinstance(node, t.Name)), None)
    if name is None or not depth:
        return None
    bound = list(_bound(flow.ref, name))
    found = {_optimizer(flow, value, depth - 1) for value in bound}
    if not bound and name in flow.params:  # of whichever is given the state of what comes into the group
        found = {_path(flow, state.value) for state, _ in _entries_set(flow)}
    return found.pop() if len(found) == 1 else None


def _bound(ref: FunctionRef, name: str) -> Iterator[t.Expr]:
    """What a variable is bound to, by assignments and by loops over it."""
    yield from ref.assigned.get(name, [])
    for stmt in ref.define.statements:
        if isinstance(stmt, t.Repeat) and stmt.target is not None and stmt.iterable is not None:
            pairs = bound_pairs(stmt.target, stmt.iterable)
            yield from (iterable for target, iterable in pairs if t.path_of(target) == name)


def _path(flow: Flow, expr: t.Expr) -> str:
    path = t.path_of(expr)
    return flow.canonical(path) if path is not None else ""


def _is_new(flow: Flow, target: t.Expr, value: t.Expr, optimizer: str) -> bool:
    """Whether what comes into the group is made anew: it says so, or gets a state of its own."""
    values = list(value.items) if isinstance(value, t.Display) else [value]
    names = {t.path_of(each) for each in values} | {t.path_of(target)} - {None}
    for call in flow.ref.calls:  # new_params.append(new)
        func = call.func
        if isinstance(func, t.Attribute) and func.name == "append" and call.args and t.path_of(func.value) in names:
            values.append(call.args[0].value)
            names.add(t.path_of(call.args[0].value))
    if any(t.path_of(key) in names for key in _states_set(flow, optimizer)):
        return True
    return any(_is_made(flow, value) for value in values)


def _is_made(flow: Flow, value: t.Expr) -> bool:
    """Whether it makes anew what wants a gradient: ``nn.Parameter(x)``; ``y = x.clone(); y.requires_grad_()``."""
    if isinstance(value, t.Comprehension):
        return False
    path, bound = t.path_of(value), flow.ref.bound_to(value)
    if any(_wants_gradient(each) for each in bound if not isinstance(each, t.Comprehension)):
        return True
    is_asked = path is not None and any(_asks_for_gradient(node, path) for node in flow.ref.define.nodes)
    return is_asked and bound[0] is not value and all(isinstance(each, t.Call) for each in bound)


def _wants_gradient(value: t.Expr) -> bool:
    calls = (node for node in t.walk(value) if isinstance(node, t.Call))
    return any(call.name == "Parameter" or call.is_true("requires_grad") for call in calls)


def _asks_for_gradient(node: t.Node, path: str) -> bool:
    """``x.requires_grad_()``, ``x.requires_grad = True``."""
    if isinstance(node, t.Assign):
        is_true = isinstance(node.value, t.Constant) and node.value.value is True
        return is_true and any(t.path_of(target) == f"{path}.requires_grad" for target in node.targets)
    func = node.func if isinstance(node, t.Call) else None
    return isinstance(func, t.Attribute) and func.name == "requires_grad_" and t.path_of(func.value) == path


def _states_set(flow: Flow, optimizer: str) -> Iterator[t.Expr]:
    """The keys under which a function sets the state of a parameter: ``optimizer.state[new] = kept``."""
    return (key for state, key in _entries_set(flow) if _path(flow, state.value) == optimizer)


def _entries_set(flow: Flow) -> Iterator[tuple[t.Attribute, t.Expr]]:
    """The states of optimizers of which a function sets an entry, each with its key."""
    for stmt in flow.ref.define.statements:
        for target in stmt.targets if isinstance(stmt, t.Assign) else ():
            state = _state(flow, target.value) if isinstance(target, t.Subscript) else None
            if isinstance(target, t.Subscript) and state is not None:
                yield state, target.index


def _states_read(flow: Flow, optimizer: str) -> Iterator[t.Node]:
    """Where it reads one: ``optimizer.state[old]``, ``optimizer.state.get(old)``."""
    nodes = flow.ref.define.nodes
    set_here = {target for stmt in nodes if isinstance(stmt, t.Assign) for target in stmt.targets}
    for node in sorted(nodes, key=_place):
        func = node.func if isinstance(node, t.Call) else None
        of = func.value if isinstance(func, t.Attribute) and func.name == "get" else None
        if isinstance(node, t.Subscript) and node not in set_here:
            of = node.value
        if of is not None and _is_state(flow, of, optimizer):
            yield node


def _is_state(flow: Flow, expr: t.Expr, optimizer: str) -> bool:
    state = _state(flow, expr)
    return state is not None and _path(flow, state.value) == optimizer


def _state(flow: Flow, expr: t.Expr) -> t.Attribute | None:
    """``optimizer.state``, also by a name that the function has for it."""
    bound = flow.ref.assigned.get(expr.id, []) if isinstance(expr, t.Name) else []
    state = bound[0] if len(bound) == 1 else expr
    return state if isinstance(state, t.Attribute) and state.name == "state" else None


def _has_stepped(flow: Flow, stmt: t.Stmt, value: t.Expr, optimizer: str) -> bool:
    """Whether it surely has states: it is of those with averages, and steps in a loop that makes the new parameter.

    Or it is one of the object, which something steps, and a method replaces the parameter by one that it makes.
    """
    items = value.items if isinstance(value, t.Display) else [value]
    loops = [loop for loop in flow.facts.loops if stmt in loop.nodes]
    if not optimizer.startswith("self."):
        steps = [loop for loop in loops if any(step.target == optimizer for step in loop.steps)]
        makers = flow.ref.assigned.get(optimizer, [])
        return _have_averages(makers) and any(_is_made_in(flow, loop, item) for loop in steps for item in items)
    owner, name = flow.ref.owner, optimizer.removeprefix("self.")
    if owner is None or not name.isidentifier() or _AT_START.search(flow.ref.define.name):
        return False
    if not _have_averages([maker for _, maker in owner.assigned(name)]):
        return False
    if not any(_is_made(flow, item) for item in items):
        return False
    return flow.project.survey.acts(name, re.compile(rf"\b{name}\.step\("), flow.module)


def _have_averages(makers: Sequence[t.Expr]) -> bool:
    return bool(makers) and all(isinstance(maker, t.Call) and maker.name in _WITH_AVERAGES for maker in makers)


def _is_made_in(flow: Flow, loop: Loop, value: t.Expr) -> bool:
    """Whether a loop makes it anew."""
    path = t.path_of(value)
    if path is None:
        return _is_made(flow, value)
    bound = (node for node in loop.nodes if isinstance(node, t.Assign))
    return _is_made(flow, value) and any(t.path_of(target) == path for node in bound for target in node.targets)


def _is_put_back(flow: Flow) -> bool:
    """Whether a function gives a group what it had before: ``mine = group["params"]``, ``group["params"] = mine``."""
    stmts = [stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign)]
    values = (
        value for stmt in stmts for target, value in t.pairs(stmt.targets, stmt.value) if _group(target) is not None
    )
    names = (value for value in values if isinstance(value, t.Name))
    return any(_group(each) is not None for name in names for each in flow.ref.assigned.get(name.id, []))


def _is_renewed(flow: Flow, stmt: t.Stmt, optimizer: str) -> bool:
    """Whether another optimizer is made behind a statement, or in one loop with it."""
    loops = [loop for loop in flow.facts.loops if stmt in loop.nodes]
    made = (
        each for each in flow.ref.define.statements if isinstance(each, t.Assign) and isinstance(each.value, t.Call)
    )
    bound = (each for each in made if any(t.path_of(target) == optimizer for target in each.targets))
    return any(_place(each) > _place(stmt) or any(each in loop.nodes for loop in loops) for each in bound)


def _place(node: t.Node) -> int:
    return node.origin if isinstance(node.origin, int) else 0


def _is_taken_out(flow: Flow, optimizer: str) -> bool:
    """Whether the function, one that it calls, or one that calls it takes anything out of a state, or makes it anew.

    Or one that calls it makes another optimizer.
    """
    if _takes_out(flow.ref):
        return True
    called = (ref for call in flow.ref.calls for ref in functions_called(flow, call))
    if any(map(_takes_out, called)):
        return True
    name = optimizer.rpartition(".")[2]
    return any(_takes_out(caller.ref) or _makes_optimizer(caller.ref, name) for caller, _ in calls_of(flow))


def _makes_optimizer(ref: FunctionRef, name: str) -> bool:
    bound = (value for path, values in ref.assigned.items() if path.rpartition(".")[2] == name for value in values)
    return any(isinstance(value, t.Call) for value in bound) and ref.define.name not in ("__init__", "<module>")


def _takes_out(ref: FunctionRef) -> bool:
    states = {name for name, values in ref.assigned.items() if any(map(_is_named_state, values))}
    for node in ref.define.nodes:
        func = node.func if isinstance(node, t.Call) else None
        if isinstance(func, t.Attribute):
            if func.name in _SETTING_ALL or (func.name in _TAKING_OUT and _is_of_states(func.value, states)):
                return True
        elif isinstance(node, t.Delete):
            items = (target.value for target in node.targets if isinstance(target, t.Subscript))
            if any(_is_of_states(item, states) for item in items):
                return True
        elif isinstance(node, t.Assign) and any(map(_is_named_state, node.targets)):
            return True
    return False


def _is_named_state(expr: t.Expr) -> bool:
    return isinstance(expr, t.Attribute) and "state" in expr.name


def _is_of_states(expr: t.Expr, names: Iterable[str]) -> bool:
    """Whether it may be the states of an optimizer, by its name."""
    path = t.path_of(expr) or ""
    return path in names or "state" in path.rpartition(".")[2]

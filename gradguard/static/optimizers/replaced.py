"""Modules that are replaced after an optimizer was given their parameters: ``model.fc = nn.Linear(512, 2)``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Replacement
from gradguard.static.optimizers.parameter_groups import modules_behind
from gradguard.static.optimizers.replaced_in_loops import in_next_iteration
from gradguard.static.optimizers.replacing import adapts, adds, is_below, is_of_each, replaces, replacing, splits
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import named_kind
from gradguard.static.program.order import following
from gradguard.static.reading.guards import Guard, guards
from gradguard.static.source import Site
from gradguard.static.values import Kind, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_TRAINING = re.compile(r"train|fit|learn|step|epoch|update|optimi[sz]e|backward")
_NO_TRAINING = re.compile(
    r"^_*(?:get|set|save|load|print|log|show|plot|adjust|restore|resume|report)(?:_|$)|rate|_lr\b|state"
)
_NO_TRAINING_WANTED = re.compile(r"test|eval|infer|mode|train|phase|predict", re.I)
_GIVES_MORE = re.compile(r"add_param_group|[\"']params[\"']")
_ADAPTING = frozenset("get_peft_model inject_adapter_in_model".split())
_OWN = frozenset("parameters named_parameters load_state_dict requires_grad_ eval".split())


def replacements(flow: Flow) -> Iterator[Replacement]:
    """Where a function replaces modules whose parameters an optimizer has that steps afterwards."""
    for stmt in flow.ref.define.statements:
        path = t.path_of(stmt.targets[0]) if isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Call) else None
        if path is None:
            continue
        given = modules_given_to(flow, stmt, path)
        after = list(following(flow.ref.define.body, stmt)) if given else []
        for place, later in enumerate(after):
            if (replaced := _replaced(flow, later, given)) is not None:
                rest, again = after[place + 1 :], in_next_iteration(flow.ref, stmt, later, given)
                is_trained = is_used(flow, path, replaced.node, rest, given) or (
                    again and is_used(flow, path, replaced.node, again, given)
                )
                if is_trained or _is_returned(flow, path, later, rest):
                    yield Replacement(path, flow.site(stmt), flow.site(later), replaced)
                break


def modules_given_to(flow: Flow, stmt: t.Stmt, path: str) -> frozenset[str]:
    """The modules whose parameters an optimizer is given that a statement binds to a path; none for anything else."""
    made = flow.final.env.get(flow.canonical(path))
    if made is None:
        return frozenset()
    return _given(flow, stmt, made) if made.kind is Kind.OPTIMIZER else _given_by_name(flow, stmt, path, made)


def _given(flow: Flow, stmt: t.Stmt, optimizer: Value) -> frozenset[str]:
    """The modules whose parameters an optimizer has, by the paths that they have where it is made."""
    call = stmt.value if isinstance(stmt, t.Assign) else None
    if not isinstance(call, t.Call) or not isinstance(optimizer.ref, frozenset):
        return frozenset()
    helper = flow.module.value_of(call.func).ref
    return frozenset(_as_given(helper, call, optimizer.ref)) if isinstance(helper, FunctionRef) else optimizer.ref


def _given_by_name(flow: Flow, stmt: t.Stmt, path: str, made: Value) -> frozenset[str]:
    """The same of what is an optimizer by its name, and is made of parameters by who knows what.

    ``optimizer = build(OPTIMIZERS, config, net.parameters())``, ``optimizer = instantiate(config, net.parameters())``.
    """
    call = stmt.value if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
    if not isinstance(call, t.Call) or made.kind is not Kind.UNKNOWN or named_kind(path) is not Kind.OPTIMIZER:
        return frozenset()
    direct = frozenset(_asked_for_parameters(call))
    helper = flow.ref.callee(call) if not direct else None
    if helper is None:
        return direct or _behind(flow.ref, call)
    given = list(helper.given_back())
    inside = frozenset(own for value in given for own in _asked_for_parameters(value))
    inside = inside or frozenset(own for value in given for own in _behind(helper, value))
    kept = (own for own in inside if own.startswith("self.") and helper.owner is not None)
    return frozenset((*_as_given(helper, call, inside), *kept))


def _behind(ref: FunctionRef, made: t.Expr) -> frozenset[str]:
    """The modules behind what is computed first for a call: ``OPTIMIZERS[name](layer_groups(net), lr=1e-3)``."""
    given = made.argument("params", 0) if isinstance(made, t.Call) else None
    is_computed = isinstance(given, t.Call) or (isinstance(given, t.Name) and given.id in ref.assigned)
    behind = modules_behind(ref, given) if given is not None and is_computed else []
    return frozenset(path for path in behind if path is not None) if None not in behind else frozenset()


def is_made_by_name(stmt: t.Assign) -> bool:
    """Whether a statement makes what is an optimizer by its name, of the parameters of a module."""
    path = t.path_of(stmt.targets[0]) if len(stmt.targets) == 1 else None
    is_optimizer = path is not None and named_kind(path) is Kind.OPTIMIZER
    return is_optimizer and next(_asked_for_parameters(stmt.value), None) is not None


def _asked_for_parameters(value: t.Expr) -> Iterator[str]:
    """The modules whose parameters a call is given: ``net`` of ``build(config, net.parameters())``."""
    for node in t.walk([arg.value for arg in value.args]) if isinstance(value, t.Call) else ():
        func = node.func if isinstance(node, t.Call) else None
        if isinstance(func, t.Attribute) and func.name in ("parameters", "named_parameters"):
            owner = t.path_of(func.value)
            yield from (owner,) if owner is not None else ()


def _as_given(helper: FunctionRef, call: t.Call, paths: frozenset[str]) -> Iterator[str]:
    """The paths of what a helper has in its parameters, where it is called: ``net`` of ``make_optimizer(net)``."""
    for name, given in helper.given_by(call).items():
        own = t.path_of(given)
        for path in paths if own is not None else ():
            if is_below(path, name):
                yield f"{own}{path[len(name) :]}"


def _replaced(flow: Flow, stmt: t.Stmt, given: frozenset[str]) -> Site | None:
    """The statement by which a module, or a part of it, is made anew: this one, or one of what it calls."""
    if splits(flow.ref, stmt, given) or adds(flow.ref, stmt, given) or adapts(flow.ref, stmt, given):
        return flow.site(stmt)
    if isinstance(stmt, t.Assign) and replaces(flow.ref, stmt, given):
        return flow.site(stmt)
    call = stmt.value if isinstance(stmt, t.Evaluate | t.Assign) else None
    if not isinstance(call, t.Call):
        return None
    helper = flow.module.value_of(call.func).ref
    if call.name in _ADAPTING and any(t.path_of(arg.value) in given for arg in call.args):
        return flow.site(stmt)
    if isinstance(helper, FunctionRef):
        return _replaced_by_helper(call, helper, given)
    is_alone = isinstance(stmt, t.Evaluate) and isinstance(call.func, t.Attribute)
    return _replaced_by_method(flow, stmt, call.func, given) if is_alone else None


def _replaced_by_helper(call: t.Call, helper: FunctionRef, given: frozenset[str]) -> Site | None:
    """By a function that is given the module: ``net = replace_head(net, 10)``, ``widen(net)``."""
    for name, argument in helper.given_by(call).items():
        path = t.path_of(argument)
        seen = {name + each[len(path) :] for each in given if path is not None and is_below(each, path)}
        if seen and name not in helper.assigned and (found := replacing(helper, frozenset(seen))) is not None:
            return found
    return None


def _replaced_by_method(flow: Flow, stmt: t.Stmt, name: t.Expr, given: frozenset[str]) -> Site | None:
    """By a method of the object that has the module, or of the module itself: ``net.widen(4)``."""
    owner = t.path_of(name.value) if isinstance(name, t.Attribute) else None
    if owner is None or not isinstance(name, t.Attribute):
        return None
    cls = flow.ref.owner if owner == "self" else flow.read(flow.canonical(owner), flow.final).ref
    method = cls.method(name.name) if isinstance(cls, Class) else None
    if method is None:
        by_name = _replaced_in_one(flow, owner, name, given) if not isinstance(cls, Class) else None
        return by_name or _replaced_in_each(flow, stmt, name, given)
    seen = frozenset("self" + path[len(owner) :] for path in given if is_below(path, owner))
    return replacing(method, seen) if seen else None


def _replaced_in_one(flow: Flow, owner: str, name: t.Attribute, given: frozenset[str]) -> Site | None:
    """The same of a module whose class is not known, where all modules of the program that have the method do so."""
    if not any(is_below(owner, path) for path in given):
        return None
    return _always_replaced(flow, name.name)


def _replaced_in_each(flow: Flow, stmt: t.Stmt, call: t.Attribute, given: frozenset[str]) -> Site | None:
    """The same for a part that a loop takes: ``for layer in adapters(model): layer.reset()``."""
    if not is_of_each(flow.ref, stmt, t.path_of(call.value), given):
        return None
    return _always_replaced(flow, call.name)


def _always_replaced(flow: Flow, name: str) -> Site | None:
    """Where a part is made anew by each method of this name that modules of the program have (reads other files)."""
    methods = flow.project.survey.methods_of_modules(name, flow.module)
    found = [replacing(ref, frozenset(("self",))) for ref in methods]
    return found[0] if found and all(found) else None


def is_used(flow: Flow, path: str, replaced: t.Node, rest: Sequence[t.Stmt], given: frozenset[str]) -> bool:
    """Whether the optimizer that has ``path`` steps after a statement, and gets no parameters in between."""
    owner = flow.ref.owner if path.startswith("self.") else None
    methods = [ref for cls in owner.lineage() for ref in cls.methods.values()] if owner is not None else []
    nodes = list(t.walk(list(rest)))
    nodes += (node for ref in methods if ref is not flow.ref for node in ref.define.nodes)
    if any(is_given_more(node, path) or is_given_more_by(flow, node, path) for node in nodes):
        return False
    part = (t.path_of(replaced.targets[0]) or "") if isinstance(replaced, t.Assign) else ""
    is_new = any(part.startswith(f"{module}.") for module in given) or (
        part.startswith("self.") and path.rpartition(".")[0] == "self"
    )
    return any(steps(node, path) for node in nodes) and not (is_new and any(has_its_own(n, part) for n in nodes))


def _is_returned(flow: Flow, path: str, stmt: t.Stmt, rest: Sequence[t.Stmt]) -> bool:
    """Whether the caller is given the optimizer, to train with it, and nothing in the program gives that more."""
    returned = [stmt.value for stmt in rest if isinstance(stmt, t.Return) and stmt.value is not None]
    if not any(_gives_out(value, path) for value in returned) or flow.facts.is_test:
        return False
    part = (t.path_of(stmt.targets[0]) or "") if isinstance(stmt, t.Assign) else ""
    nodes = list(t.walk(list(rest)))
    if any(is_given_more(node, path) or (part and has_its_own(node, part)) for node in nodes):
        return False
    if any(map(_is_asked_for_test, guards(flow.ref.define.body, stmt))):
        return False
    return not flow.project.survey.mentions(_GIVES_MORE, flow.module)


def _gives_out(value: t.Expr, path: str) -> bool:
    items = value.items if isinstance(value, t.Display) else [value]
    return path.isidentifier() and len(items) > 1 and any(t.path_of(item) == path for item in items)


def _is_asked_for_test(guard: Guard) -> bool:
    """``if args.evaluate:``, ``if mode != "train"``."""
    names = (
        node.id if isinstance(node, t.Name) else node.name
        for node in t.walk(guard.test)
        if isinstance(node, t.Name | t.Attribute)
    )
    return any(_NO_TRAINING_WANTED.search(name) is not None for name in names)


def steps(node: t.Node, path: str) -> bool:
    """``optimizer.step()``, or a function that trains is given it: ``train(model, loader, optimizer)``."""
    if not isinstance(node, t.Call):
        return False
    if isinstance(node.func, t.Attribute) and node.func.name == "step" and t.path_of(node.func.value) == path:
        return True
    name = node.name.lower()
    is_given = any(t.path_of(arg.value) == path for arg in node.args)
    return is_given and _TRAINING.search(name) is not None and _NO_TRAINING.search(name) is None


def is_given_more(node: t.Node, path: str) -> bool:
    """``optimizer = ...``, ``optimizer.add_param_group(...)``, ``optimizer.param_groups[0]["params"] = ...``."""
    if isinstance(node, t.Assign):
        targets = [name for target in node.targets for name in t.names_in(target)]
        return any(t.path_of(name) == path or _is_of_group(name, path) or _is_params(name) for name in targets)
    func = node.func if isinstance(node, t.Call) else None
    if not isinstance(func, t.Attribute):
        return False
    holder = t.path_of(func.value)
    return holder == f"{path}.param_groups" or (holder == path and func.name in ("add_param_group", "__init__"))


def _is_params(target: t.Expr) -> bool:
    """``group["params"] = ...``, of a group that has a name."""
    return isinstance(target, t.Subscript) and isinstance(target.index, t.Constant) and target.index.value == "params"


def is_given_more_by(flow: Flow, node: t.Node, path: str) -> bool:
    """Whether a helper gives an optimizer more parameters, by its code or its name."""
    if not isinstance(node, t.Call) or all(t.path_of(arg.value) != path for arg in node.args):
        return False
    helper = flow.module.value_of(node.func).ref
    text = Site(helper.chunk, helper.define).code if isinstance(helper, FunctionRef) else ""
    return _GIVES_MORE.search(text) is not None or "add_param_group" in node.name


def _is_of_group(target: t.Expr, path: str) -> bool:
    """Whether it is an item of what an optimizer has in its groups; a rate is no such item, it is one of a group."""
    while isinstance(target, t.Subscript):
        target = target.value
    return t.path_of(target) == f"{path}.param_groups"


def has_its_own(node: t.Node, part: str) -> bool:
    """Whether a part gets an optimizer of its own, is frozen, or is made a copy of another one: a target network.

    Or has a weight that the optimizer knows: ``net.head.weight = net.embedding.weight``.
    """
    if isinstance(node, t.Assign):
        return any((t.path_of(target) or "").startswith(f"{part}.") for target in node.targets)
    func = node.func if isinstance(node, t.Call) else None
    return isinstance(func, t.Attribute) and t.path_of(func.value) == part and func.name in _OWN

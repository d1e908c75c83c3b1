"""Losses of copies of a network, after whose backward the optimizer of the network itself steps, as in MAML.

The gradients are those of the copies: the network has none, and its optimizer nothing to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import Unreached
from gradguard.static.model import Step, ZeroGrad
from gradguard.static.optimizers.optimized import overlap
from gradguard.static.optimizers.unreached import moves_gradients
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called
from gradguard.static.program.paths import is_part
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_CRITERION = re.compile(r"loss|criteri|mse|entropy|objective", re.I)
_PLAIN = frozenset("len sum float range abs backward mean pow squeeze view reshape square item detach to".split())
# What gives the network something of its copies.
_GIVES_BACK = re.compile(r"load_state_dict|copy_|lerp|add_|sub_|_foreach|all_reduce|functional_call|^grad$|interpolate")


class _Copy(NamedTuple):
    """A copy of a network: what makes it, in which function, and of which path there."""

    made: t.Call
    within: Flow
    module: str


def trained_copies(flow: Flow) -> Iterator[Unreached]:
    """The copies whose losses are all that is backpropagated before the optimizer of the network steps."""
    facts = flow.facts
    if facts.is_test or not facts.backwards or facts.opaque_calls or not any(_copies_in(flow)):
        return
    for step in facts.steps:
        modules = step.modules or frozenset()
        if step.inner is not None or step.target is None or step.runs_closure or len(modules) != 1:
            continue
        (module,) = modules
        copies = {name: copy for name, copy in _copies_in(flow) if copy.module == module}
        copy = next(iter(copies.values()), None)
        if copy is None or not _is_reset(flow, step) or not _are_of_copies(flow, module):
            continue
        if not facts.switches_gradients() and not moves_gradients(flow):
            site = copy.within.site(copy.made)
            backward = next(each for each in reversed(facts.backwards) if each.inner is None)
            yield Unreached(backward.source.site, step.source.site, step.target, module, site, site, is_copied=True)
            return


def _is_reset(flow: Flow, step: Step) -> bool:
    """Whether the function resets the gradients of the optimizer before: none are left of something else."""
    events = flow.facts.events
    resets = [each for each in events[: events.index(step)] if isinstance(each, ZeroGrad)]
    return any(each.target == step.target or overlap(each.modules, step.modules) for each in resets if each.modules)


def _copies_in(flow: Flow) -> Iterator[tuple[str, _Copy]]:
    """The variables that are copies: ``copy.deepcopy(self.net)``, or what a function gives back that makes one."""
    for name, bound in flow.ref.assigned.items():
        value = bound[0] if len(bound) == 1 else None
        if isinstance(value, t.Call) and "." not in name:
            given = (_given(flow, value, ref) for ref in functions_called(flow, value))
            copy = _copy(flow, value) or next((each for each in given if each is not None), None)
            if copy is not None:
                yield name, copy


def _copy(flow: Flow, call: t.Call) -> _Copy | None:
    of = t.path_of(call.args[0].value) if call.name == "deepcopy" and len(call.args) == 1 else None
    return _Copy(call, flow, flow.canonical(of)) if of is not None else None


def _given(flow: Flow, call: t.Call, ref: FunctionRef) -> _Copy | None:
    """The copy that a function gives back, of a module that its caller knows."""
    within = flow.project.flow(ref)
    ways = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return)]
    name = t.path_of(ways[0]) if len(ways) == 1 and ways[0] is not None else None
    bound = ref.assigned.get(name, []) if name is not None else []
    made = bound[0] if len(bound) == 1 and isinstance(bound[0], t.Call) else None
    is_other = ref.define is not flow.ref.define
    copy = _copy(within, made) if within is not None and made is not None and is_other else None
    if copy is None:
        return None
    if copy.module.startswith("self."):
        is_own = isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "self"
        return copy if is_own else None
    given = ref.given_by(call).get(copy.module)
    path = t.path_of(given) if given is not None else None
    return copy._replace(module=flow.canonical(path)) if path is not None else None


def _are_of_copies(flow: Flow, module: str) -> bool:
    """Whether all that is backpropagated, here and in what makes the copies, is computed by copies alone."""
    known = [flow, *{id(copy.within): copy.within for _, copy in _copies_in(flow)}.values()]
    if any(_GIVES_BACK.search(call.name) for each in known for call in each.ref.calls):
        return False
    for backward in flow.facts.backwards:
        node = backward.source.site.node
        within = next((each for each in known if any(call is node for call in each.ref.calls)), None)
        if within is None or not isinstance(node, t.Call) or not _is_of_copies(within, node, module):
            return False
    return True


def _is_of_copies(flow: Flow, backward: t.Call, module: str) -> bool:
    copies = {name for name, _ in _copies_in(flow)}
    func = backward.func
    loss = func.value if isinstance(func, t.Attribute) and backward.name == "backward" else None
    nodes = [node for part in _parts(flow, loss, copies) for node in t.walk(part)] if loss is not None else []
    paths = [path for node in nodes if isinstance(node, t.Name | t.Attribute) and (path := t.path_of(node)) is not None]
    if any(is_part(flow.canonical(path), module) for path in paths):
        return False
    calls = [node for node in nodes if isinstance(node, t.Call)]
    runs = [call for call in calls if t.path_of(call.func) in copies]
    return bool(runs) and all(_has_none(flow, call) for call in calls if call not in runs)


def _has_none(flow: Flow, call: t.Call) -> bool:
    """Whether nothing that a call runs can be of the network: it is of torch, a loss, or a method of something else."""
    if any(t.path_of(arg.value) == "self" for arg in call.args):
        return False
    if flow.module.value_of(call.func).kind is Kind.EXTERNAL or call.name in _PLAIN or _CRITERION.search(call.name):
        return True
    owner = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else "self"
    return owner is None or owner.partition(".")[0] != "self"


def _parts(flow: Flow, loss: t.Expr, copies: set[str]) -> list[t.Expr]:
    """A loss, and what its variables are made of; not how a copy is made."""
    found, seen = [loss], set(copies)
    for part in found:
        for node in t.walk(part):
            if isinstance(node, t.Name) and node.id not in seen:
                seen.add(node.id)
                found += flow.ref.assigned.get(node.id, [])
                added = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Augment))
                found += [stmt.value for stmt in added if t.path_of(stmt.target) == node.id]
    return found

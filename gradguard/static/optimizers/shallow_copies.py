"""Networks of which a shallow copy is taken for a second one: ``target = copy.copy(net)`` has the same parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import LiveState
from gradguard.static.optimizers.averages import averages_within
from gradguard.static.optimizers.state_dicts import states_in
from gradguard.static.program.classes import Class
from gradguard.static.program.names import named_kind
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef


def shallow_copies(flow: Flow) -> Iterator[LiveState]:
    """The copies that a function takes which are brought to what the network is, as if they were others."""
    for stmt in flow.ref.define.statements:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            kept, model = t.path_of(target), copied_of(flow, value)
            if kept is None or model is None or "[" in kept or not _may_be_network(flow, model):
                continue
            scope = _scope(flow, kept)
            if _is_only_a_copy(flow, scope, kept) and (used := _brought_to(scope, kept, _names_of(flow, scope, model))):
                yield LiveState(flow.site(stmt), kept, model, model, used, is_shallow=True)


def copied_of(flow: Flow, value: t.Expr) -> str | None:
    """``net`` of ``copy.copy(net)``."""
    if not isinstance(value, t.Call) or len(value.args) != 1 or flow.module.value_of(value.func).ref != "copy.copy":
        return None
    given = value.args[0].value
    return t.path_of(given) if isinstance(given, t.Name | t.Attribute) else None


def _may_be_network(flow: Flow, model: str) -> bool:
    """Whether something may be a module, as its class makes no copies of its own: optimizers have states, too."""
    of = flow.read(flow.canonical(model), flow.final)
    if of.kind not in (Kind.MODULE, Kind.UNKNOWN) or named_kind(model) is Kind.OPTIMIZER or "sched" in model:
        return False
    return not isinstance(of.ref, Class) or of.ref.method("__copy__") is None


def _scope(flow: Flow, kept: str) -> list[FunctionRef]:
    """The functions that know a copy: the methods of the object that has it."""
    owner = flow.ref.owner
    return methods_of(owner) if owner is not None and kept.startswith("self.") else [flow.ref]


def _names_of(flow: Flow, scope: Sequence[FunctionRef], model: str) -> frozenset[str]:
    """The paths of a network: ``net``, and ``self.net`` where it is put there; none that is another one later."""
    assigns = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign))
    pairs = (pair for stmt in assigns for pair in t.pairs(stmt.targets, stmt.value))
    names = [model, *(path for target, value in pairs if t.path_of(value) == model and (path := t.path_of(target)))]
    return frozenset(name for name in names if sum(len(ref.assigned.get(name, ())) for ref in scope) < 2)


def _is_only_a_copy(flow: Flow, scope: Sequence[FunctionRef], kept: str) -> bool:
    """Whether nothing else is bound to it, nor to a part of it: that may be what it was copied for."""
    bound = [value for ref in scope for value in ref.assigned.get(kept, ())]
    parts = any(path.startswith((f"{kept}.", f"{kept}[")) for ref in scope for path in ref.assigned)
    return len(bound) == 1 and not parts and not any(_sets_part(node, kept) for ref in scope for node in ref.calls)


def _sets_part(call: t.Call, kept: str) -> bool:
    """``setattr(target, name, head)``, ``target.add_module(name, head)``, ``target.apply(reset)``."""
    if call.name in _SETTING and any(t.path_of(arg.value) == kept for arg in call.args):
        return True
    return call.name in _SETTING and isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == kept


_SETTING = frozenset(
    "setattr add_module register_parameter register_module apply _apply to_empty reset_parameters".split()
)


def _brought_to(scope: Sequence[FunctionRef], kept: str, models: frozenset[str]) -> Site | None:
    """Where the parameters of a copy are set to those of the network, or nearer to them; they are the same ones."""
    for ref in scope:
        for call in ref.calls:
            if _loads(call, kept, models):
                return Site(ref.chunk, call)
        for average in averages_within(ref):
            if average.slow == kept and average.fast in models:
                return average.site
    return None


def _loads(call: t.Call, kept: str, models: frozenset[str]) -> bool:
    """``target.load_state_dict(net.state_dict())``."""
    if not isinstance(call.func, t.Attribute) or call.func.name != "load_state_dict" or not call.args:
        return False
    of = [t.path_of(each) for each in states_in(call.args[0].value)]
    return t.path_of(call.func.value) == kept and any(path in models for path in of)

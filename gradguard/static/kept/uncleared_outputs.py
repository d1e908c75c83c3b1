"""Outputs of steps that a Lightning module reads when an epoch ends, and never drops: ``self.outputs.append(out)``.

Since Lightning 2.0 a module keeps them itself, and is to clear its list in ``on_validation_epoch_end``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.never_emptied import takes_out
from gradguard.static.mistakes.kept import NeverReset
from gradguard.static.model import Form, Store
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_ENDS = {
    "validation_step": frozenset(("on_validation_epoch_end",)),
    "training_step": frozenset(("on_train_epoch_end",)),
}
_JOINS = frozenset("cat stack concat concatenate vstack hstack".split())


def uncleared_outputs(flow: Flow) -> Iterator[NeverReset]:
    """The first statement of a step that fills such a list (reads other files)."""
    owner, ends = flow.ref.owner, _ENDS.get(flow.ref.define.name)
    if owner is None or ends is None or flow.facts.is_test:
        return
    stores = [store for store in flow.facts.stores if _is_own_list(store)]
    for store in stores if flow.ref.define.name == "validation_step" else _without_graphs(stores):
        reading = next((found for each in methods_of(owner) if (found := _read(each, ends, store.path))), None)
        if reading is None or not _is_kept(flow, owner, store):
            continue
        read, end = reading
        yield NeverReset(store.site, store.path, f"{store.path}.clear", Site(end.chunk, read), False)
        return


def _is_own_list(store: Store) -> bool:
    """Whether a step adds to a list of its object."""
    return store.path.startswith("self.") and store.inner is None and store.form is Form.APPEND


def _without_graphs(stores: list[Store]) -> list[Store]:
    """What has a graph is another rule's; a validation records none, whoever runs it."""
    return [store for store in stores if not store.carries_graph]


def _read(method: FunctionRef, ends: frozenset[str], path: str) -> tuple[t.Call, FunctionRef] | None:
    """Where all of a list is joined as an epoch ends: ``torch.cat([out["scores"] for out in self.outputs])``."""
    if method.define.name not in ends:
        return None
    for call in method.calls:
        given = call.args[0].value if call.name in _JOINS and call.args else None
        if isinstance(given, t.Comprehension) and len(given.clauses) == 1:
            given = given.clauses[0].iterable
        if given is not None and any(t.path_of(each) == path for each in method.bound_to(given)):
            return call, method
    return None


def _is_kept(flow: Flow, owner: Class, store: Store) -> bool:
    """Whether nothing takes anything out of a list, nor begins it anew; a base that is not seen may do so."""
    survey, path = flow.project.survey, store.path
    if owner.has_foreign_base or any(_empties(each, path) for each in methods_of(owner)):
        return False
    if survey.empties(store.holder, flow.module, {flow.defined}):
        return False
    return not survey.sets_by_name(store.holder, flow.module)


def _empties(method: FunctionRef, path: str) -> bool:
    """Whether a method takes something out of a list, also by another name for it, or binds another one.

    In the beginning it may be an empty one; what else is bound there may have an end of its own.
    """
    begins = method.define.name == "__init__"
    if any(not (begins and _is_empty(value)) for value in method.assigned.get(path, [])):
        return True
    named = {name for name, values in method.assigned.items() if any(t.path_of(value) == path for value in values)}
    return any(takes_out(node, each) for each in {path, *named} for node in method.define.nodes)


def _is_empty(value: t.Expr) -> bool:
    if isinstance(value, t.Call):
        return t.path_of(value.func) == "list" and not value.args
    return isinstance(value, t.Display) and value.kind == "list" and not value.items

"""Memory besides graphs: which stores add to a collection that nothing empties."""

from __future__ import annotations

import re
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.kept.kept_by_filter import letting_pass
from gradguard.static.kept.last_few import only_best_is_read, only_last_is_read
from gradguard.static.kept.last_few_of_each import only_last_of_each_is_read
from gradguard.static.model import Form, Loop, Scope, Store
from gradguard.static.program.clearing import AT_START
from gradguard.static.program.functions_called import calls_of
from gradguard.static.program.names import attributes_of
from gradguard.static.program.own_methods import methods_of
from gradguard.static.program.owners import Owner
from gradguard.static.program.paths import collections_around
from gradguard.static.reading import places
from gradguard.static.reading.guards import guards
from gradguard.static.reading.state import Carry
from gradguard.static.stored import Growth
from gradguard.static.values import NO_MEMORY, Held, Holding, Kind, Root, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.classes import Class
    from gradguard.static.program.functions import FunctionRef

_PINNING = (Held.VIEW, Held.PART, Held.MEMBER, Held.GIVEN, *NO_MEMORY)
_DRAWS = re.compile(r"\b(?:random|sample|choice|randint|randperm)\w*\(|\brandom\.")
COLLECTING = (Form.APPEND, Form.ITEM, Form.CONCATENATE)


def judge_memory(flow: Flow, store: Store) -> None:
    """Let the store tell in which loop it adds more and more memory, if it does.

    Nearly no store is asked that: most hold nothing that a rule is about, and what a callee does is asked of the copies
    of its stores that are noted in its callers. To look for what empties a collection means to search all files.
    """
    if store.value.holds and (store.form is Form.REBIND or store.form in COLLECTING):
        before = store.growth
        store.growth = cache(lambda: _growth(flow, store, before()))
    if store.inner is None and store.form is Form.APPEND:
        store.only_last_is_read = cache(
            lambda: only_last_is_read(flow, store) or only_last_of_each_is_read(flow, store)
        )
        store.only_best_is_read = cache(lambda: only_best_is_read(flow, store))
        store.is_of_training = cache(lambda: _is_run_by_training(flow, store))
        store.never_reset = cache(lambda: _never_reset(flow, store))


def _is_run_by_training(flow: Flow, store: Store) -> bool:
    """Whether it is where a training computes gradients, or in what is called there each time."""
    if flow.facts.backwards:
        return True
    for caller, call in calls_of(flow):
        loops = (loop for loop in caller.facts.loops if call in loop.nodes)
        trains = bool(caller.facts.backwards) or any(loop.trains for loop in loops)
        if trains and not list(guards(caller.ref.define.body, call)):
            return True
    return False


def _never_reset(flow: Flow, store: Store) -> str | None:
    """The method of an object that is there to empty a collection of it, and that nothing calls: ``reset``.

    What samples are drawn from, as from a replay memory, is to have all.
    """
    owner, survey = flow.ref.owner, flow.project.survey
    if owner is None or store.path.partition(".")[0] != "self" or _DRAWS.search(owner.chunk.text) is not None:
        return None
    made_again = re.compile(rf"\.\w+\s*=(?!=)[^\n]*\b{owner.name}\(")
    if survey.acts(owner.name, made_again, flow.module, besides=AT_START):
        return None
    emptying = survey.emptying(store.holder, flow.module, {flow.defined})
    methods = (method.define for method in methods_of(owner) if method.define.name in emptying)
    names = [define.name for define in methods if len(define.params) == 1 and not define.name.startswith("__")]
    return next((name for name in names if not survey.is_called(name, flow.module)), None)


def _growth(flow: Flow, store: Store, before: Growth) -> Growth:
    """How a store of memory grows.

    Args:
        before: what was told of it in the function that was called to store it.
    """
    if store.form is Form.REBIND:  # one at a time: of interest only for what pins more than itself
        is_kept = bool(store.value.holding(Held.EXCEPTION)) and store.scope is not Scope.LOCAL
        return before._replace(by_call=is_kept)
    grows = before.loop
    loop: Loop | None = store.loop
    while loop is not None:
        carry = flow.carries.get((store.path, loop))
        capped = store.capped or store.fills or _is_in_slots(store)
        capped |= (
            store.is_item and store.form is Form.CONCATENATE and store.key in loop.targets
        )  # another one each time
        bounded = carry is None or not _grows_in(store, loop, carry) or capped
        if carry is not None and not bounded and (carry.fresh or not cleared(flow, store)):
            grows = loop  # the outermost one counts
        loop = loop.parent
    if grows is not None and (_ends_with_the_step(grows) or _is_ensemble(flow, store)):
        return before._replace(loop=None)
    growth = before._replace(loop=grows, for_all_training=grows is not None and _lasts(flow, store, grows))
    if grows is None and _outlives_call(flow, store):
        in_step = store.loop is None and (any(b.loop is None for b in flow.facts.backwards) or _is_called_back(flow))
        growth = growth._replace(by_call=not cleared(flow, store), in_step=in_step)
    return growth


def _is_in_slots(store: Store) -> bool:
    """Whether it replaces what was there; one view in each slot of a ring still pins as many whole tensors."""
    pins = store.in_ring and all(each.held in _PINNING for each in store.value.holds)
    return store.form is Form.ITEM and store.bounded_key and not pins


def _grows_in(store: Store, loop: Loop, carry: Carry) -> bool:
    """Whether each iteration adds to what is there; of a tensor, whether it ends as a longer copy of itself."""
    own = Holding(Held.GROWN, Root(Source.CARRIED, (store.path, loop)))
    return carry.grows or (store.form is Form.CONCATENATE and own in carry.end.holds)


def _lasts(flow: Flow, store: Store, grows: Loop) -> bool:
    """Whether a collection is that of a whole training: an object's, of several epochs, or beside its optimizer.

    An object's that the function begins anew, before its loop, is one epoch's. A loop over a step's items is no epoch,
    and what a script does itself it does once.
    """
    if flow.facts.name == "<module>":
        return True
    carry = flow.carries.get((store.path, grows))
    begun_here = store.scope is Scope.LOCAL or (carry is not None and carry.fresh)
    within = takewhile(lambda loop: loop is not grows, store.loop.around() if store.loop is not None else ())
    if not begun_here or any(loop.over_loader or loop.is_step or loop.backwards for loop in within):
        return True
    return makes_optimizer(flow) or _object_makes_optimizer(flow, store, grows)


def makes_optimizer(flow: Flow) -> bool:
    """Whether a function makes an optimizer itself: it is a whole training, no epoch."""
    made = (name for name, value in flow.final.env.items() if value.kind is Kind.OPTIMIZER)
    return any("." not in name and name not in flow.params for name in made)


def _object_makes_optimizer(flow: Flow, store: Store, loop: Loop) -> bool:
    """Whether the object that has a collection makes the optimizer itself with which it takes the loop's steps."""
    head, _, _ = store.path.partition(".")
    owner = places.owner_of(flow, head, flow.final)
    stepped = (step.target.partition(".") for step in loop.steps if step.target is not None)
    names = {name for base, _, name in stepped if base == head}
    return owner is not None and any(isinstance(value, t.Call) for name in names for _, value in owner.assigned(name))


def _is_called_back(flow: Flow) -> bool:
    """Whether it is a method that a trainer calls after each step or epoch: ``on_epoch_end``."""
    return flow.facts.takes_self and k.CALLBACK_METHOD.match(flow.facts.name) is not None


def _ends_with_the_step(grows: Loop) -> bool:
    """Whether a collection that grows in an inner loop is begun anew for each batch."""
    return any(loop is not grows and (loop.over_loader or loop.is_step) for loop in grows.around())


def _is_ensemble(flow: Flow, store: Store) -> bool:
    """Whether copies of a model that are taken now and then are each run later on: members of an ensemble, samples."""
    if not store.conditional or not store.value.holding(Held.SNAPSHOT):
        return False
    ends = [stmt.value for stmt in flow.ref.define.statements if isinstance(stmt, t.Return)]
    is_returned = any(value is not None and t.path_of(value) == store.path for value in ends)
    name = r"\w+" if is_returned else re.escape(store.holder)  # whoever gets it may call it anything
    each = rf"in\s+(?:\w+\()*[\w.]*\b{name}\b"
    run = r"(?:\.(?:forward|predict|sample)\w*)?\("
    one_by_one = (
        rf"\bfor\s+(?:\w+\s*,\s*)?(\w+)\s+{each}(?:[^\n]*\n){{1,8}}?[^\n]*(?:(?<![\w.])\1{run}|\bload_state_dict\(\1\b)"
    )
    at_once = rf"(?<![\w.])(\w+){run}[^\n]*\bfor\s+\1\s+{each}"
    return any(flow.project.survey.mentions(re.compile(pattern), flow.module) for pattern in (one_by_one, at_once))


def _outlives_call(flow: Flow, store: Store) -> bool:
    handed = store.parameter and bool(store.value.holding(Held.EXCEPTION))
    if store.scope in (Scope.LOCAL, Scope.PARAMETER) or (store.inner is not None and not handed):
        return False
    if store.form is Form.ITEM and (_is_in_slots(store) or store.key is None):
        return False
    final = flow.final.env.get(store.path)
    return final is not None and not final.bounded and Root(Source.PLACE, store.path) in final.must


def cleared(flow: Flow, store: Store) -> bool:
    """Whether something empties what is stored into."""
    functions = store.through | {flow.defined}
    survey = flow.project.survey
    if _is_global(store):  # those who use the module are to call what empties it
        emptying = survey.emptying(store.holder, flow.module, functions, bare=True)
        return not all(survey.is_left_over(name, flow.module) for name in emptying)
    *objects, holder = attributes_of(store.path)[1:] or [store.holder]
    made_anew = (
        survey.clears(each, flow.module, functions, anew=True) for each in objects
    )  # self.rollout with its values
    at_exit = not _is_entered_before(flow, store)
    owner = _owner(flow, store)
    spared = letting_pass(store)
    return any(made_anew) or survey.clears(
        holder, flow.module, functions, at_exit=at_exit, slot=store.slot, owner=owner, sparing=spared
    )


def _is_global(store: Store) -> bool:
    """Whether it is a global of this module; or, as far as no loop is seen that stores, of the one that is called."""
    written = store.source if isinstance(store.source, Store) and store.outlives is None else store
    return written.scope is Scope.GLOBAL and "." not in written.path


def _owner(flow: Flow, store: Store) -> Owner | None:
    """The object whose attribute is stored into, where its class is known."""
    *_, attribute = collections_around(store.path)
    path = attribute.rpartition(".")[0]
    cls = flow.ref.owner if path == "self" else places.owner_of(flow, path, flow.final) if path else None
    if cls is None:
        return None
    head, _, name = path.partition(".")
    classes = tuple(each.name for each in cls.lineage())
    is_name = head == "self" and name.isidentifier()
    return Owner(
        classes,
        name if is_name else "",
        lambda base: flow.project.survey.is_base(base, flow.module),
        lambda base, method: _replaces(cls, base, method),
    )


def _replaces(cls: Class, base: str, method: str) -> bool:
    """Whether an object of a class has another method than a base's of this name, which does not call that one."""
    nearer = takewhile(lambda each: each.name != base, cls.lineage())
    return any(method in each.methods and not _hands_on(each.methods[method]) for each in nearer)


def _hands_on(ref: FunctionRef) -> bool:
    """Whether a method calls one of its own name: ``super().on_epoch_end()``, ``Base.on_epoch_end(self)``."""
    funcs = (call.func for call in ref.calls)
    return any(isinstance(func, t.Attribute) and func.name == ref.define.name for func in funcs)


def is_cut(flow: Flow, store: Store) -> bool:
    """Whether another function detaches what is stored, one that runs: ``truncate()`` of a recurrent model."""
    return flow.project.survey.cuts(store.holder, flow.module, store.through | {flow.defined})


def _is_entered_before(flow: Flow, store: Store) -> bool:
    """Whether its object is that of a ``with`` around the loop: what ``__exit__`` empties is emptied at the end."""
    head, loop = store.path.split(".", 1)[0], store.outlives
    if loop is None or head not in flow.entered:
        return False
    around = flow.entered[head]
    return around is None or any(around is each for each in loop.around() if each is not loop)

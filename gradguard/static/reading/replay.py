"""What a function of the project does, noted where it is called: backwards, steps, stores, in the caller's terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.backward.copies import is_made_for
from gradguard.static.evaluation.made_inside import is_made_inside
from gradguard.static.kept.exit_stacks import entered_on
from gradguard.static.kept.hook_removal import is_left_open
from gradguard.static.model import (
    Backward,
    Call,
    CallOfGiven,
    Construction,
    Event,
    Form,
    Forward,
    GradCall,
    HookRegistration,
    Mode,
    OpaqueCall,
    Scope,
    Step,
    Store,
    TrainingMode,
    ZeroGrad,
)  # fmt: skip
from gradguard.static.program.arguments import SEEN, sureness
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.local_objects import as_given
from gradguard.static.program.made_with import leaves_out
from gradguard.static.program.objects import is_given
from gradguard.static.program.translation import Translation
from gradguard.static.reading import samples
from gradguard.static.reading.called import Called
from gradguard.static.reading.expressions import recorded
from gradguard.static.reading.forms import key_of
from gradguard.static.reading.module_calls import freezes_itself, is_frozen_part
from gradguard.static.reading.proof import prove
from gradguard.static.reading.receivers import registered_on
from gradguard.static.source import Site
from gradguard.static.stored import no_growth, surely
from gradguard.static.values import (
    NONE,
    NOTHING_HELD,
    Flag,
    Kind,
    Part,
    Root,
    Roots,
    Source,
    Value,
    Whole,
    Word,
    graph_of,
    union,
)

_COPIES = ("deepcopy", "copy", "clone")


def replay(here: Translation, event: Event) -> None:
    """Note an event of a function in its caller, as an event of the line that calls."""
    if (do := _REPLAY.get(type(event))) is not None:
        do(here, event)


def _site(here: Translation) -> Site:
    return here.flow.site(here.c.node)


def _as_given(here: Translation, path: str | None) -> str | None:
    """What an object of the caller has been given, by the path that it was given by."""
    return as_given(here.flow, path, here.state, here.c.node) if path is not None else None


def _is_conditional(here: Translation, event: Event) -> bool:
    return here.flow.branches > 0 or event.conditional


def _is_out_of_reach(here: Translation, event: Backward) -> bool:
    """Whether a backward would raise, called where no graph is recorded: the callee was told not to come to it."""
    if here.state.mode is not Mode.OFF or "enable_grad" in here.callee.ref.chunk.program:
        return False
    return not here.value(_without_own_graphs(event.value)).roots


def _backward(here: Translation, event: Backward) -> None:
    if _is_out_of_reach(here, event):
        return
    flow, state, value = here.flow, here.state, here.value(event.value)
    prove(flow, value)
    conditional = _is_conditional(here, event)
    left = here.given.sources.get(event.left_on) if event.left_on is not None else None
    flow.record(replace(
        event, site=_site(here), loop=flow.loop, conditional=conditional, inner=event, value=value,
        left_on=left.id if isinstance(left, t.Name) and left.id in flow.params else None,
        of_copy=is_made_for(flow, left),
    ))  # fmt: skip
    state.lost, state.computed = (), True


def _grad_call(here: Translation, event: GradCall) -> None:
    flow, value = here.flow, here.value(event.value)
    flow.record(replace(event, site=_site(here), loop=flow.loop, inner=event, value=value))


def _zero_grad(here: Translation, event: ZeroGrad) -> None:
    flow, target = here.flow, here.path(event.target) if event.target else None
    conditional, of = _is_conditional(here, event), event.of or _modules_of(here, target)
    flow.zero(
        replace(
            event, site=_site(here), loop=flow.loop, conditional=conditional, inner=event, target=target, of=of,
            named=_named(here, event, target),
        ),
        here.state,
    )  # fmt: skip


def _step(here: Translation, event: Step) -> None:
    flow, state, target = here.flow, here.state, here.path(event.target) if event.target else None
    lost = event.lost or state.reset_of(target, is_known=target is not None or event.target is None)
    of = event.of or _modules_of(here, target)
    named = _named(here, event, target)
    flow.record(
        replace(event, site=_site(here), loop=flow.loop, inner=event, target=target, of=of, named=named, lost=lost)
    )
    state.note_step(target)


def _named(here: Translation, event: Step | ZeroGrad, optimizer: str | None) -> frozenset[str] | None:
    """The modules that an event of the callee concerns, by the caller's names; None where it has none for one."""
    if event.modules is None:
        return _modules_of(here, optimizer)
    paths = [here.path(module) for module in event.modules]
    return frozenset(filter(None, paths)) if all(paths) else None


def _modules_of(here: Translation, optimizer: str | None) -> frozenset[str] | None:
    """The modules whose parameters an optimizer has that the caller, or its object, made and hands over."""
    is_own = optimizer is not None and optimizer.startswith("self.")
    known = here.state.env.get(optimizer) if optimizer is not None else None
    is_entry = optimizer is not None and optimizer.endswith('"]')  # opts["d"], of a dict that is handed over
    made = here.flow.read(str(optimizer), here.state) if (is_own or is_entry) and known is None else known
    return made.ref if made is not None and made.kind is Kind.OPTIMIZER and isinstance(made.ref, frozenset) else None


def _call(here: Translation, event: Call) -> None:
    flow, receiver = here.flow, here.path(event.receiver) if event.receiver else None
    flow.record(replace(
        event, site=_site(here), loop=flow.loop, conditional=_is_conditional(here, event), inner=event, once=False,
        of=here.value(event.of), receiver=receiver,
    ))  # fmt: skip
    _mark_leaf(here, event, receiver)
    if event.name == k.SETTING_GRADIENTS:
        here.state.lost = ()


def _mark_leaf(here: Translation, event: Call, receiver: str | None) -> None:
    """``requires_grad_()`` on an argument marks the caller's own tensor."""
    param = (event.receiver or "").split(".", 1)[0]
    given = event.name == "requires_grad_" and param in here.given.values and _is_as_given(here, param)
    if event.literal("requires_grad", 0) is False or event.of.kind is Kind.MODULE:
        return
    if given and receiver is not None:
        here.flow.touch(receiver, here.state)
        marked = here.flow.read(receiver, here.state).with_roots(Root(Source.LEAF, here.c.node))
        here.state.env[receiver] = marked._replace(kind=Kind.TENSOR)


def _is_as_given(here: Translation, param: str) -> bool:
    """Whether a parameter is what the caller gave, all along: ``q = q.requires_grad_()`` is the same tensor."""
    if param not in here.callee.locals:
        return True
    bound = here.callee.ref.assigned.get(param, [])
    return bool(bound) and all(
        isinstance(value, t.Call) and t.path_of(value.func) == f"{param}.requires_grad_" for value in bound
    )


def _call_of_given(here: Translation, event: CallOfGiven) -> None:
    """What a lambda, or a function within the caller, does with what the callee calls it with."""
    from gradguard.static.reading.summary import apply_facts

    written, function = here.given.sources.get(event.name), here.given.values.get(event.name)
    if isinstance(written, t.Name) and written.id in here.flow.params:
        here.flow.record(replace(event, site=_site(here), loop=here.flow.loop, inner=event, name=written.id))
    elif function is not None and isinstance(function.ref, FunctionRef) and function.ref.outer is not None:
        unwritten = t.Constant(None, None)  # here; the words of the callee are of another file, perhaps
        values = [(t.Arg(unwritten, arg.keyword, arg.star), here.value(value)) for arg, value in event.arguments]
        called = Called(here.flow, here.state, here.c.node, Value(kind=Kind.FUNCTION, ref=function.ref), None, values)
        apply_facts(called, function.ref, values, None)


def _construction(here: Translation, event: Construction) -> None:
    loop, conditional = here.flow.loop, _is_conditional(here, event)
    repeats = event.repeats or loop is not None
    here.flow.record(replace(event, site=_site(here), loop=loop, conditional=conditional, inner=event, repeats=repeats))


def _forward(here: Translation, event: Forward) -> None:
    mode = here.state.mode if event.mode is Mode.INHERITED else event.mode
    module = here.path(event.module) if event.module and not _is_copied(here, event.module) else None
    evaluates = event.evaluates or bool(here.state.evaluating)
    is_evaluated = event.is_evaluated or here.state.evaluates(module)
    here.flow.record(replace(
        event, site=_site(here), loop=here.flow.loop, inner=event, mode=mode, module=module, evaluates=evaluates,
        is_evaluated=is_evaluated, is_frozen=event.is_frozen or _is_frozen(here, module),
        given_as=_as_given(here, module),
        is_as_told=_hands_flags_on(here), given=graph_of(here.value(event.given)) if event.given.keeps else event.given,
    ))  # fmt: skip


def _hands_flags_on(here: Translation) -> bool:
    """Whether the call gives what its own function was given to tell which way to take."""
    names = (arg.value.id for arg in here.c.node.args if isinstance(arg.value, t.Name))
    return any(isinstance(here.flow.given(name, here.state), Flag | Whole | Word) for name in names)


def _is_frozen(here: Translation, module: str | None) -> bool:
    """Whether a module wants no gradients, of itself or with one that it is a part of."""
    parts = module.split(".") if module is not None else []
    for path in (".".join(parts[:length]) for length in range(1, len(parts) + 1)):
        of = here.flow.read(path, here.state).ref
        if isinstance(of, Class) and of.is_module and freezes_itself(here.flow, path, of):
            return True
    return here.state.freezes(module) or is_frozen_part(here.flow, module)


def _opaque(here: Translation, event: OpaqueCall) -> None:
    given = frozenset(here.path(path) if path else None for path in event.given)
    here.flow.record(replace(event, site=_site(here), loop=here.flow.loop, inner=event, given=given))
    here.state.lost = ()


def _training_mode(here: Translation, event: TrainingMode) -> None:
    target = here.path(event.target) if event.target and _is_still_given(here, event.target) else None
    flow, conditional, given = here.flow, _is_conditional(here, event), _as_given(here, target)
    if target is None and given is None and event.target and is_made_inside(here.callee.ref, event.target):
        return
    for each in dict.fromkeys((target, given)):
        if each is not None or event.on is not False:
            flow.record(
                replace(event, site=_site(here), loop=flow.loop, conditional=conditional, inner=event, target=each)
            )


def _is_copied(here: Translation, path: str) -> bool:
    """Whether a function goes on with a copy of what it is given: ``net = deepcopy(net)``."""
    head = path.split(".", 1)[0]
    bound = here.callee.ref.assigned.get(head, []) if head in here.callee.params else []
    return any(isinstance(node, t.Call) and node.name in _COPIES for value in bound for node in t.walk(value))


def _is_still_given(here: Translation, path: str) -> bool:
    """Whether what a path leads to is the caller's: ``net = net.to(device)`` is, ``net = deepcopy(net)`` is not."""
    head = path.split(".", 1)[0]
    bound = here.callee.ref.assigned.get(head, []) if head in here.callee.locals else []
    return all(isinstance(value, t.Call) and _gives_itself(value.func, head) for value in bound)


def _gives_itself(method: t.Expr, module: str) -> bool:
    return isinstance(method, t.Attribute) and method.name in k.FLUENT_METHODS and t.path_of(method.value) == module


def _hook(here: Translation, event: HookRegistration) -> None:
    flow, receiver = here.flow, _as_given(here, here.path(event.receiver) if event.receiver else None)
    made = here.given.values.get(event.receiver) if event.receiver and event.closes_over_given else None
    of = flow.read(receiver, here.state) if receiver is not None else made  # on what the caller has no name for
    left_open = event.is_left_open or (event.removed_at_exit and is_left_open(flow, here.c.node, here.callee.ref.owner))
    stack = entered_on(flow, here.c.node) if event.removed else None
    is_removed = (event.removed and not left_open and stack is None) or event.stack is not None
    if of is not None and not is_removed and (not event.fresh or event.closes_over_given):
        flow.record(replace(
            event, site=_site(here), loop=flow.loop, inner=event, receiver=registered_on(flow, receiver),
            given_as=receiver, of=of, repeats=None, changes=_changes(here), removed=False, is_left_open=left_open,
            stack=stack,
        ))  # fmt: skip


def _changes(here: Translation) -> frozenset[str]:
    """The attributes and outer variables that the callee leaves something in."""
    outer = (path for path in here.callee.final.env if here.callee.scope(path) not in (Scope.LOCAL, Scope.PARAMETER))
    return frozenset(mapped for path in outer if (mapped := here.path(path)) is not None)


def _without_own_graphs(value: Value) -> Value:
    """What a callee stores, without the graphs that it would begin, or go on with, itself."""
    if value.parts:
        parts = tuple((key, _without_own_graphs(part)) for key, part in value.parts)
        given = union(part for _, part in parts)
        return value._replace(roots=given.roots, maybe=given.maybe, parts=parts)
    if value.kind in (Kind.TENSOR, Kind.OUTPUT):  # it was computed: it is not what was given
        return value._replace(roots=NONE, maybe=NONE)
    return value._replace(roots=_given(value.roots), maybe=_given(value.maybe))


def _given(roots: Roots) -> Roots:
    """Those of arguments and of what an object has, or of an entry of these; ``x[0]`` may be a view, with no graph."""
    whole = (root for root in roots if not isinstance(root.key, Part) or isinstance(root.key.keys[-1], str))
    return frozenset(root for root in whole if root.source in (Source.PARAM, Source.PLACE))


def _is_of_their_maker(here: Translation, store: Store, path: str) -> bool:
    """Whether some elements add to a collection that their maker gave them, and may empty by a name of its own."""
    owner, name = here.callee.ref.owner, store.path.removeprefix("self.")
    return owner is not None and path.endswith(f"[*].{name}") and is_given(owner, name)


def _is_computed(store: Store) -> bool:
    """Whether a callee computes what it binds a place to: ``self.points = torch.cat([self.points, x[worst]])[-n:]``."""
    node = store.value_site.node if store.value_site is not None else None
    is_bound = store.form in (Form.REBIND, Form.CONCATENATE) and store.value.kind is Kind.TENSOR
    return is_bound and isinstance(node, t.Call | t.Subscript | t.Operation)


def _store(here: Translation, store: Store) -> None:
    flow, state = here.flow, here.state
    if store.form is Form.REBIND and Root(Source.PLACE, store.path) not in store.value.must and not store.waits:
        return  # what it replaces is gone
    if store.path in here.callee.params and not store.is_item and isinstance(store.site.node, t.Assign):
        return  # `x = x + y` binds the callee's own name
    if leaves_out(here, store):
        return
    path = here.path(store.path)
    if state.mode is Mode.OFF:  # what the callee computes has no graph then; what it is given may have one
        store = replace(store, value=_without_own_graphs(store.value))
    is_off = Mode.OFF in (state.mode, store.mode) and not store.brings_graph
    if path is None or (is_off and not store.value.holds) or _is_of_their_maker(here, store, path):
        return
    if store.waits and state.evaluating and not is_off:
        flow.record(replace(store, loop=flow.loop, inner=store, evaluating=True, value=here.value(store.value)))
        return
    value = here.value(store.value)
    if store.form in (Form.AVERAGE, Form.SUM) or _is_computed(store):
        value = recorded(value, state, here.c.node)  # the callee did not know that it was given a leaf
    if store.form is Form.ITEM and flow.read(path, state).kind is Kind.TENSOR:
        value = value._replace(holds=NOTHING_HELD)  # the numbers are copied
    origins = _given_for(here, store)
    origin = origins[0] if origins else None
    of_object = origin is not None and _is_of_object(here, store, origin)
    flow.record(replace(
        store, site=store.site if origin is None else _site(here), loop=flow.loop, inner=store,
        conditional=_is_conditional(here, store), path=path, value=value,
        value_site=store.value_site if origin is None or of_object else _written_for(here, origin),
        key=_key(here, store), slot=_slot(here, store), through=store.through | {here.callee.defined},
        scope=flow.scope(path), among=_unsure(here, origins),
        parameter=origin is not None or store.parameter,
        given_as=origin or store.given_as,
        in_structure=(origin is not None and _is_part(here, store, origin)) or store.in_structure,
        goes_on=store.goes_on or of_object or (origin is not None and _goes_on(here, origin)),
        mode=state.mode if store.mode is Mode.INHERITED else store.mode,
        evaluating=store.evaluating or bool(state.evaluating), carries_graph=False, outlives=None,
        outlives_call=False, freed=False, retained=False, used=False, growth=no_growth, gets_graphs=surely,
        start=store.start if origin is None else _unknown, bounded_key=store.bounded_key or _same_keys_again(store),
        keys=samples.anew(flow, _keys(here, store)),
    ))  # fmt: skip


def _is_part(here: Translation, store: Store, parameter: str) -> bool:
    """Whether the callee stores what is in the collection that an argument is."""
    given = here.given.values[parameter]
    if given.parts or parameter in here.given.spread:
        return True
    own = [root for root in store.value.roots if root.source is Source.PARAM and root.base == parameter]
    return given.kind is not Kind.TENSOR and bool(own) and all(isinstance(root.key, Part) for root in own)


def _is_of_object(here: Translation, store: Store, origin: str) -> bool:
    """Whether the graph is seen to be what the object has already, and not to be what is given with it."""
    before = (root for root in store.value.roots if root.source is Source.PLACE and root.base != store.path)
    if sureness(here.given.values[origin]) == SEEN:
        return False
    return any(sureness(here.outer(root)) == SEEN for root in before)


def _given_for(here: Translation, store: Store) -> list[str]:
    """The parameters whose arguments may have brought the graph that the callee stores, the surest first.

    None if it stores a graph of its own.
    """
    values = here.given.values
    given = {r.base for r in store.value.reach if r.source is Source.PARAM and r.base in values}
    order = [name for name in here.callee.params if name in given] + sorted(given - set(here.callee.params))
    attached = [name for name in order if values[name].keeps]
    attached.sort(key=lambda name: -sureness(values[name]))  # what surely carries a graph comes first
    its_own = any(r.source in (Source.GRAPH, Source.LEAF) for r in store.value.roots)
    return [] if not attached or its_own or attached[0] in _backpropagated(here) else attached


def _unsure(here: Translation, origins: list[str]) -> tuple[tuple[Value, Site | None], ...]:
    """Several arguments with what is written for each, if none of them is seen to have a graph."""
    values = here.given.values
    if len(origins) < 2 or sureness(values[origins[0]]) > 1:
        return ()
    return tuple((values[name], _written_for(here, name)) for name in origins)


def _backpropagated(here: Translation) -> set[str]:
    """The parameters through whose graphs the callee runs a backward: its caller cannot cut them."""
    events = (event for event in here.callee.facts.events if isinstance(event, Backward | GradCall))
    return {r.base for event in events for r in event.value.reach if r.source is Source.PARAM}


def _goes_on(here: Translation, parameter: str) -> bool:
    """Whether the callee gives back what it computes of an argument, to somebody who takes it."""
    if here.c.node in here.flow.ref.calls_for_effect:
        return False
    return any(r.source is Source.PARAM and r.base == parameter for r in here.callee.facts.returns.reach)


def _slot(here: Translation, store: Store) -> str | None:
    """The key of the collection that gets it, as the caller has it."""
    if store.slot is None or store.slot not in here.callee.params:
        return store.slot
    written = here.given.sources.get(store.slot)
    return key_of(written) if written is not None else None


def _key(here: Translation, store: Store) -> str | None:
    """The key or index that it is stored under, in the caller's words."""
    written = here.given.sources.get(store.key) if store.key in here.callee.params else None
    return (t.path_of(written) if written is not None else None) or store.key


def _keys(here: Translation, store: Store) -> str | None:
    """Where the keys of the samples are that it is stored under, in the caller's words."""
    written = here.given.sources.get(store.keys) if store.keys is not None else None
    return t.path_of(written) if written is not None else None


def _written_for(here: Translation, parameter: str) -> Site | None:
    source = here.given.sources.get(parameter)
    return here.flow.site(source) if source is not None and source.origin is not None else None


def _same_keys_again(store: Store) -> bool:
    """Whether the callee's own loop stores under the same keys each time that it is called."""
    around = store.loop.around() if store.loop is not None else ()
    return store.key is not None and any(store.key in loop.targets for loop in around if not loop.over_loader)


def _unknown() -> Site | None:
    """Where a graph starts that the caller hands over: the caller knows."""
    return None


_REPLAY: dict[type, Callable[[Translation, Any], None]] = {
    Backward: _backward,
    Call: _call,
    CallOfGiven: _call_of_given,
    Construction: _construction,
    Forward: _forward,
    GradCall: _grad_call,
    HookRegistration: _hook,
    OpaqueCall: _opaque,
    Step: _step,
    Store: _store,
    TrainingMode: _training_mode,
    ZeroGrad: _zero_grad,
}

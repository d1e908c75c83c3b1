"""What a target is bound to: names, attributes, tuples taken apart, and gradients that are set by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.evaluation.given_evaluated import gives_evaluated
from gradguard.static.model import Call, ZeroGrad
from gradguard.static.program.names import breaks_graph, collections_of, is_of_gradient, named_kind, put_into_evaluation
from gradguard.static.program.parameters import is_frozen_copy, leaves_out, parameters_taken
from gradguard.static.program.paths import is_part, is_within
from gradguard.static.reading import filled_later, item_stores, places, stores
from gradguard.static.reading.lengthened import lengthened
from gradguard.static.reading.state import State
from gradguard.static.reading.terms import terms
from gradguard.static.values import (
    DETACHED,
    NOTHING_HELD,
    Bound,
    Flag,
    Held,
    Kind,
    Root,
    Source,
    Value,
    element,
    holding,
    is_frozen,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.classes import Class


def bind(
    flow: Flow, target: t.Expr, value: Value, state: State, stmt: t.Node, source: t.Expr | None, *, plain: bool = False
) -> None:
    """Bind a value to a target, taking tuples apart.

    Args:
        stmt: the statement, for findings.
        source: the expression that the value comes from, if it is written out.
        plain: a loop variable or the like, never a store.
    """
    if isinstance(target, t.Display):
        _take_apart(flow, target, value, state, stmt, source, plain)
        return
    if isinstance(target, t.Starred):
        bind(flow, target.value, value, state, stmt, None, plain=plain)
        return
    path = t.path_of(target)
    if path is None or breaks_graph(target):
        _reset_gradient(flow, target, value, state, stmt)
        return
    rebuilt = source.id if not plain and isinstance(source, t.Name) and stores.goes_on(flow, path, source.id) else None
    if rebuilt is not None:
        value = value._replace(must=value.must | flow.read(flow.canonical(path), state).must)
        state.env[flow.canonical(rebuilt)] = value
    if _alias(flow, path, source, value, state):
        if rebuilt is not None:
            stores.store_rebind(flow, path, value, state, stmt, source)
        return
    if isinstance(source, t.Call) and not plain:
        filled_later.note_named(flow, path, source)
    path = flow.canonical(path)
    if isinstance(source, t.Call) and flow.unchanged.get(source, {}).get(None) == path and not plain:
        return  # state = check(state)
    value = _as_used(flow, path, value, source)
    if not any(root.source is Source.GRAPH for root in value.roots):  # else the name is that of more than this root
        for root in value.roots:
            if root.source in (Source.CALL, Source.LOSS):
                flow.hints.setdefault(root, path)
    is_inner = isinstance(target, t.Attribute | t.Subscript)
    if (is_inner and _may_learn(value, source)) or _is_another(state.env.get(path, value), value):
        flow.freeze(path, state, False)  # net.head = nn.Linear(64, 2)
    if isinstance(target, t.Subscript):
        if _runs_setter(flow, target, value, state, stmt, source):
            return
        item_stores.store_item(flow, target, path, value, state, stmt, source)
        return
    if isinstance(target, t.Attribute) and _runs_setter(flow, target, value, state, stmt, source):
        return
    if not plain:
        value = lengthened(flow, path, value, state, source)
        stores.store_rebind(flow, path, value, state, stmt, source)
        if path.endswith(".__traceback__"):
            forget_frames(flow, path, state)
    _end_aliases(flow, path, state)
    _note_terms(flow, path, source, state)
    state.assign(path, value)
    for other in flow.element_paths(path) if is_inner else ():  # for block in self.blocks: block.seen = []
        if other != path and not value.keeps:
            state.assign(other, value)
    state.env.update((f"{path}.{name}", field) for name, field in stores.fields_kept(path, value))
    if value.kind is Kind.MODULE and is_frozen_copy(source):
        flow.freeze(path, state, True)
    may_be_module = value.kind in (Kind.MODULE, Kind.UNKNOWN)
    if may_be_module and (put_into_evaluation(source) or gives_evaluated(flow, source, None)):
        state.evaluating |= {path}


def _as_used(flow: Flow, path: str, value: Value, source: t.Expr | None) -> Value:
    """What a variable is used as says what it is, where it may be a module: ``model.eval()``."""
    return Value(kind=Kind.MODULE) if path in flow.modules and _may_be_module(value, source) else value


def _may_be_module(value: Value, source: t.Expr | None) -> bool:
    """Whether a value may be a module: ``build(config)``, ``torch.load(path)``, ``torch.load(path)["model"]``."""
    if value.kind is Kind.TENSOR and not value.reach and value.ref is None:
        return isinstance(source, t.Call | t.Subscript)
    return value.kind is Kind.UNKNOWN and isinstance(source, t.Call)


def _may_learn(value: Value, source: t.Expr | None) -> bool:
    """Whether a value may be a module with parameters that ask for gradients."""
    is_made = value.kind is Kind.UNKNOWN and isinstance(source, t.Call)
    return is_made or (value.kind is Kind.MODULE and not is_frozen(value))


def _is_another(before: Value, value: Value) -> bool:
    """Whether a module takes the place of one of another class: ``net = nn.Sequential(net, nn.Linear(64, 2))``."""
    kinds = before.kind is value.kind is Kind.MODULE
    return kinds and value.ref not in (None, before.ref) and not str(value.ref).endswith("DataParallel")


def _runs_setter(
    flow: Flow, target: t.Attribute | t.Subscript, value: Value, state: State, stmt: t.Node, source: t.Expr | None
) -> bool:
    """``x.best = loss``, ``x["loss"] = loss``: where the class of ``x`` says what that does, it is done."""
    path = t.path_of(target.value)
    owner = places.owner_of(flow, flow.canonical(path), state) if path is not None else None
    if owner is None:
        return False
    arg = t.Arg(source if source is not None else target)
    given = [(arg, value)]
    if isinstance(target, t.Attribute):
        setter = next((cls.setters[target.name] for cls in owner.lineage() if target.name in cls.setters), None)
    else:
        setter = owner.method("__setitem__")
        given.insert(0, (t.Arg(target.index), flow.value(target.index, state)))
    if setter is None:
        return False
    from gradguard.static.reading.called import Called
    from gradguard.static.reading.summary import apply_facts

    call = t.Call(stmt.origin, target, [arg for arg, _ in given])
    called = Called(flow, state, call, Value(kind=Kind.FUNCTION), flow.value(target.value, state), given)
    apply_facts(called, setter, given, flow.canonical(str(path)))
    if isinstance(target, t.Attribute):
        _note_property(flow, owner, f"{flow.canonical(str(path))}.{target.name}", state)
    return True


def _note_property(flow: Flow, owner: Class, path: str, state: State) -> None:
    """What a property gives after it was set, where it gives an attribute that its setter binds."""
    base, _, name = path.rpartition(".")
    getter = owner.method(name)
    kept = getter.read_attribute if getter is not None and getter.is_property else None
    state.assign(path, flow.read(f"{base}.{kept}", state) if kept is not None else Value())


def bind_element(flow: Flow, target: t.Expr, value: Value, state: State, stmt: t.Node, iterable: t.Expr) -> None:
    """Bind what a loop takes from a collection; its objects are known by that collection's path."""
    bind(flow, target, value, state, stmt, None, plain=True)
    for name, paths in collections_of(target, iterable):
        flow.elements[name] = tuple(known for path in paths for known in flow.element_paths(path))


def _take_apart(
    flow: Flow, target: t.Display, value: Value, state: State, stmt: t.Node, source: t.Expr | None, plain: bool
) -> None:
    """Bind each part of a tuple to its target."""
    whole = isinstance(source, t.Display) and len(source.items) == len(target.items)
    beside_loss = any(k.LOSS_RESULT.search(_name_of(item)) for item in target.items)
    takes_one = _is_taken_apart(source) and any(map(_is_dropped, target.items))
    flow.unpacked.update(root.key for root in value.roots if not value.parts and root.source is Source.GRAPH)
    same = flow.unchanged.get(source, {}) if isinstance(source, t.Call) and not plain else {}
    for index, item in enumerate(target.items):
        if index in same and t.path_of(item) is not None and flow.canonical(str(t.path_of(item))) == same[index]:
            continue  # energy, x = accept(energy, x)
        part = element(value, index)
        if value.part(index) is None and _is_extra(item, beside_loss):
            part = part._replace(roots=frozenset(), maybe=part.reach)  # loss, count = model(batch)
        if takes_one and value.kind is Kind.TENSOR and value.part(index) is None:
            part = holding(part, Held.VIEW, target)
        if (path := t.path_of(item)) is not None:
            part = _as_used(flow, flow.canonical(path), part, source)  # model, tokenizer = load(name)
        bind(flow, item, part, state, stmt, source.items[index] if whole else None, plain=plain)  # type: ignore[union-attr]
        is_given = path is not None and part.kind in (Kind.MODULE, Kind.UNKNOWN)
        if is_given and not plain and gives_evaluated(flow, source, index):
            state.evaluating |= {flow.canonical(str(path))}


def forget_frames(flow: Flow, path: str, state: State) -> None:
    """``error.__traceback__ = None``: the exception lets go of the frames."""
    base = path.rsplit(".", 1)[0]
    state.env[base] = flow.read(base, state)._replace(holds=NOTHING_HELD)


def _alias(flow: Flow, path: str, source: t.Expr | None, value: Value, state: State) -> bool:
    """Whether a name becomes another one for an attribute or a collection: ``layer = self.layer``, ``sink = log``."""
    if "." in path or "[" in path:
        return False
    if (left := flow.aliases.pop(path, None)) is not None:
        flow.aliases_left[path] = left
    flow.elements.pop(path, None)
    origin = _object_of(flow, source)
    if origin is None and isinstance(source, t.Call) and value.must and path in flow.receivers | flow.filled:
        place = places.returned(flow, source, value, state)  # log = get_log(): of a global, or an object in it
        is_in = place is not None and (value.kind is not Kind.INSTANCE or _is_in(flow, place, source, state))
        flow.elements.update({path: (place,)} if place is not None and is_in and not is_part(place, path) else {})
    if origin is None or isinstance(value.ref, Bound):
        return False
    is_collection = value.kind is Kind.CONTAINER or (value.kind is Kind.UNKNOWN and path in flow.filled)
    is_collection |= isinstance(source, t.Call) and _makes_item(source)
    is_collection |= value.kind is Kind.UNKNOWN and _is_item(source) and path in flow.summed_in
    if isinstance(source, t.Call) or _is_item(source):  # meter = meters[key]
        is_collection |= value.kind is Kind.INSTANCE or (value.kind is Kind.UNKNOWN and path in flow.receivers)
    if origin == path:
        return is_collection  # log = note(log, loss)
    if is_within(origin, path):
        return False  # node = node.next
    is_attribute = isinstance(source, t.Attribute) and origin.startswith("self.")
    if not is_collection and not (is_attribute and named_kind(origin) is Kind.UNKNOWN):
        return False
    flow.aliases[path] = flow.canonical(origin)
    return True


def _is_in(flow: Flow, place: str, call: t.Call, state: State) -> bool:
    """Whether an object that a call gives is in the collection at a place, not one that is made of what is there."""
    is_made = flow.module.value_of(call.func).kind is Kind.CLASS
    return not is_made and flow.read(place, state).kind is Kind.CONTAINER


def rejoin(flow: Flow, stmt: t.Assign) -> None:
    """A name that was an entry's, and is given a new object, is the entry's again where that is put there.

    ``meter = meters.get(key)``, and then, if there is none, ``meter = meters[key] = Meter()``.
    """
    entries = [t.path_of(target) for target in stmt.targets if isinstance(target, t.Subscript)]
    names = [part.id for part in (*stmt.targets, stmt.value) if isinstance(part, t.Name)] if entries else []
    for name, origin in [(name, flow.aliases_left.get(name)) for name in names]:
        if origin is not None and any(path is not None and flow.canonical(path) == origin for path in entries):
            flow.aliases[name] = origin


def _object_of(flow: Flow, source: t.Expr | None) -> str | None:
    """The path of the object that an expression is, where it makes none."""
    if isinstance(source, t.Call):
        is_entry = _is_default(source) or _is_item(source)
        return t.path_of(source) if is_entry else flow.given_back.get(source)
    is_copy = isinstance(source, t.Subscript) and isinstance(source.index, t.Slice)
    return t.path_of(source) if isinstance(source, t.Name | t.Attribute | t.Subscript) and not is_copy else None


def _is_item(source: t.Expr | None) -> bool:
    """Whether an expression takes something out of a collection: ``cells[key]``, ``cells.get(key)``."""
    if not isinstance(source, t.Call):
        return isinstance(source, t.Subscript)
    return isinstance(source.func, t.Attribute) and source.func.name == "get" and len(source.args) == 1


def _is_default(source: t.Expr | None) -> bool:
    """Whether a call gives what is, or from now on is, in a collection: ``d.setdefault(key, Meter())``."""
    func = source.func if isinstance(source, t.Call) and len(source.args) == 2 else None
    return isinstance(func, t.Attribute) and func.name == "setdefault"


def _makes_item(call: t.Call) -> bool:
    """Whether a call gives a collection that is, or from now on is, in another one: ``d.setdefault(key, [])``."""
    if not _is_default(call):
        return False
    made = call.args[1].value
    if isinstance(made, t.Display | t.DictDisplay):
        return True
    return isinstance(made, t.Call) and t.path_of(made.func) in ("list", "dict", "set") and not made.args


def _note_terms(flow: Flow, path: str, source: t.Expr | None, state: State) -> None:
    """``loss = ce + kl``: what it is the sum of, as that is now."""
    if isinstance(source, t.Operation) and len(found := terms(flow, source, state)) > 1:
        flow.sums[path] = found
    else:
        flow.sums.pop(path, None)


def _end_aliases(flow: Flow, path: str, state: State) -> None:
    """What is bound anew leaves its other names the collection that it was: ``full = rows``, ``rows = []``."""
    for name, origin in list(flow.aliases.items()):
        if is_part(origin, path):
            state.env[name] = flow.read(origin, state)
            del flow.aliases[name]


def _reset_gradient(flow: Flow, target: t.Expr, value: Value, state: State, stmt: t.Node) -> None:
    """``p.grad = None`` and ``p.requires_grad = ...``."""
    if isinstance(target, t.Attribute) and target.name == "grad":  # whatever it is, it replaces what was there
        flow.zero(ZeroGrad(flow.site(stmt), flow.loop, flow.branches > 0), state)
    if is_of_gradient(target) and not (isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Constant)):
        flow.set_gradients(stmt, state)
    if isinstance(target, t.Attribute) and target.name == "requires_grad":
        is_no = isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Constant) and not stmt.value.value
        frozen = is_no or (isinstance(value.ref, Flag) and not value.ref.holds)
        _ask_for_gradient(flow, target, state, stmt, frozen=frozen)


def _ask_for_gradient(flow: Flow, target: t.Attribute, state: State, stmt: t.Node, *, frozen: bool) -> None:
    """``x.requires_grad = True``, or ``False``."""
    path = t.path_of(target.value)
    freeze_each(flow, path, state, frozen)
    value = flow.read(flow.canonical(path) if frozen else path, state) if path is not None else None
    if frozen:
        if path is not None and value is not None and value.kind is not Kind.MODULE:
            unmarked(flow, flow.canonical(path), value, state)
        return
    is_parameter = value is not None and bool(value.holding(Held.STATE))
    flow.facts.gradients_wanted |= not is_parameter  # one that learns again is trained, and asks for no input's
    if path is not None and value is not None:
        flow.record(Call(
            flow.site(stmt), flow.loop, flow.branches > 0, name="requires_grad_", receiver=path, of=value,
        ))  # fmt: skip
        flow.marked.add(flow.canonical(path))
        state.env[path] = value.with_roots(Root(Source.LEAF, target))


def unmarked(flow: Flow, path: str, value: Value, state: State) -> Value:
    """A tensor after ``x.requires_grad_(False)``: a leaf that asks for no gradient; of the result of an operation torch
    refuses that. What is called so without having been seen to be a tensor may be a module.
    """
    if value.kind is not Kind.TENSOR and all(root.source is not Source.LEAF for root in value.roots):
        return value
    plain = DETACHED._replace(holds=value.holds)
    state.assign(path, plain)
    if path in flow.params and path not in flow.locals and flow.branches == 0:
        flow.detached.add(path)  # the caller's own tensor
    return plain


def freeze_each(flow: Flow, parameter: str | None, state: State, frozen: bool) -> None:
    """``for p in net.parameters(): p.requires_grad = False``, for all of them."""
    loop = flow.loop.site.node if flow.loop is not None else None
    if not isinstance(loop, t.Repeat):
        return
    for name, module in parameters_taken(loop.target, loop.iterable):
        if name == parameter:
            flow.freeze(flow.canonical(module), state, frozen and flow.branches == 0 and not leaves_out(loop))


def _is_dropped(target: t.Expr) -> bool:
    """``*_``: what is not used."""
    return isinstance(target, t.Starred) and (t.path_of(target.value) or "").startswith("_")


def _is_taken_apart(source: t.Expr | None) -> bool:
    """``x.unbind(0)``, ``torch.split(x, 1)``: views of one tensor."""
    func = source.func if isinstance(source, t.Call) else None
    return isinstance(func, t.Attribute) and func.name in k.SPLITTING


def _is_extra(target: t.Expr, beside_loss: bool) -> bool:
    """Whether one of several results is a count or a measure, by its name; beside a loss, all but outputs."""
    name = _name_of(target)
    if k.NUMBER_NAME.match(name):
        return True
    return beside_loss and not k.LOSS_RESULT.search(name) and not k.OUTPUT_RESULT.search(name)


def _name_of(target: t.Expr) -> str:
    """The name of a variable or an attribute; of others nothing."""
    return target.id if isinstance(target, t.Name) else target.name if isinstance(target, t.Attribute) else ""

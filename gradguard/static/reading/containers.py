"""Calls that put values into containers and tensors, or take them out."""

from __future__ import annotations

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.model import (
    Form,
    Mode,
)
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import PARAMETERS, is_of_gradient
from gradguard.static.reading import filled_later, queues
from gradguard.static.reading.binding import bind, freeze_each, unmarked
from gradguard.static.reading.called import Called
from gradguard.static.reading.entries import forget_entries, put_entries, written_entries
from gradguard.static.reading.forms import key_of, rebind_form
from gradguard.static.reading.keys import text_key
from gradguard.static.reading.places import assigned_at
from gradguard.static.reading.stores import in_each_part, is_begun_here, made_by_comprehension
from gradguard.static.values import (
    DETACHED,
    NOTHING,
    UNKNOWN,
    Flag,
    Held,
    Kind,
    Root,
    Source,
    Value,
    element,
    entries_of,
    holding,
    join,
    union,
    with_content,
    with_entries,
)


def container_call(c: Called) -> Value | None:
    """Methods that add to or take from a container."""
    if c.method == "update" and (owner := _whose_fields(c.node)) is not None and (entries := written_entries(c)):
        for name, source, value in entries:
            bind(c.flow, t.Attribute(c.node.func.origin, owner, name), value, c.state, c.node, source)
        return NOTHING
    if c.receiver is None or c.receiver_path is None or isinstance(c.func.ref, FunctionRef) or c.external:
        return None
    takes_out = c.method in k.CLEARING_METHODS or (c.method == "remove" and len(c.values) == 1)  # not handle.remove()
    takes_out |= c.receiver.kind is Kind.CONTAINER and queues.takes_out(c.node)
    if takes_out and c.receiver.kind in (Kind.CONTAINER, Kind.UNKNOWN):
        return _taken_out(c, c.receiver)
    always = ("append", "extend", "appendleft", "extendleft")
    if c.method == "update" and c.receiver.kind is Kind.OUTPUT and c.values:
        return _grown(c, c.receiver)
    of_list = c.method in always or (c.method == "insert" and _is_index(c.node.args[0].value if c.node.args else None))
    if c.method not in k.ADDING_METHODS or not (of_list or c.receiver.kind is Kind.CONTAINER):
        return None
    if c.receiver.kind in (Kind.TENSOR, Kind.NUMBER, Kind.EXTERNAL):
        return None
    if c.method in _OF_ONE and len(c.values) > 1 and c.receiver.kind is not Kind.CONTAINER:
        return None  # no list's: `storage.append(losses, "train")`
    if c.receiver.kind in (Kind.MODULE, Kind.OPTIMIZER) and not any(v.holding(*_PILING) for v in c.arguments):
        return None
    for path in _paths(c):
        _put_into(c, path, of_list)
    return _found(c) if c.method == "setdefault" else NOTHING


def _grown(c: Called, output: Value) -> Value:
    """What a network has given is a dict, and gets more: ``outputs = net(x); outputs.update(self.poses(x))``."""
    for path in _paths(c):
        c.flow.touch(path, c.state)
        c.state.env[path] = with_content(output, union(c.arguments))
    return NOTHING


def _whose_fields(node: t.Call) -> t.Expr | None:
    """The object whose fields are updated: ``x`` of ``vars(x).update(loss=loss)``, ``x.__dict__.update(loss=loss)``."""
    fields = node.func.value if isinstance(node.func, t.Attribute) else None
    if isinstance(fields, t.Call) and t.path_of(fields.func) == "vars" and len(fields.args) == 1:
        return fields.args[0].value
    return fields.value if isinstance(fields, t.Attribute) and fields.name == "__dict__" else None


def _found(c: Called) -> Value:
    """What ``d.setdefault(key, default)`` gives: what is there, or the default; a collection is told by its path."""
    made = c.value_of("default", 1)
    if made is None or c.receiver is None:
        return NOTHING
    if made.kind is Kind.CONTAINER and not made.bounded:
        return NOTHING._replace(kind=Kind.CONTAINER, must=c.receiver.must)
    is_object = made.kind is Kind.INSTANCE or made.bounded
    return made if is_object else join(entry(c, c.receiver, c.node.args[0].value), made, trusted="first")


def entry(c: Called, receiver: Value, key: t.Expr) -> Value:
    """What ``d.get(key)`` finds: what was put there under a key that is written, else any of them."""
    if not isinstance(key, t.Constant):
        return element(receiver, None)
    path = t.path_of(c.node)
    return c.flow.read(c.flow.canonical(path), c.state) if path is not None else element(receiver, key.value)


def _is_index(expr: t.Expr | None) -> bool:
    return isinstance(expr, t.Constant) and type(expr.value) is int


def push(c: Called) -> Value:
    """``heapq.heappush(heap, item)``: a function that puts something into a list."""
    path = t.path_of(c.node.args[0].value)
    if path is not None:
        item = c.node.args[1]
        func = t.Attribute(c.node.func.origin, c.node.args[0].value, "append")
        node = t.Call(c.node.origin, func, [item])
        put = Called(c.flow, c.state, node, UNKNOWN, c.arguments[0], [c.values[1]])
        _put_into(put, c.flow.canonical(path), True)
    return NOTHING


def pop(c: Called) -> Value:
    """``heapq.heappop(heap)``: what is put into the list is taken out again."""
    path = t.path_of(c.node.args[0].value)
    if path is not None:
        _bound_it(c, c.flow.canonical(path))
    return c.arguments[0]._replace(kind=Kind.UNKNOWN, parts=(), bounded=False)


_OF_ONE = ("append", "appendleft", "add")


def _paths(c: Called) -> tuple[str, ...]:
    """The paths of a container; those that it may have where a loop goes over several."""
    written = t.path_of(c.node.func.value) if isinstance(c.node.func, t.Attribute) else None
    several = c.flow.element_paths(written) if written is not None else ()
    return several if len(several) > 1 else (str(c.receiver_path),)


def _taken_out(c: Called, container: Value) -> Value:
    """What is in a container, or all of it, is taken out."""
    for path in _paths(c):
        if c.method == "clear":
            c.flow.empty(path, container, c.state)
        else:
            _bound_it(c, path)
    return NOTHING if c.method == "clear" else container._replace(kind=Kind.UNKNOWN, parts=(), bounded=False)


def _put_into(c: Called, base: str, is_container: bool) -> None:
    """Something is put into a container."""
    flow, state = c.flow, c.state
    while base.endswith("[*]"):
        base = base[:-3]
    base = queues.where_it_ends(flow, base) if c.method in queues.PUTTING else base
    holder = flow.read(base, state)
    if c.method == "update" and _adds_up(c, base):
        _add_to_counts(c, base, holder)
        return
    if c.method == "update" and holder.kind in (Kind.CONTAINER, Kind.UNKNOWN) and (entries := written_entries(c)):
        put_entries(c, base, entries)
        return
    one = (
        c.first is not None
        and len(c.values) == 1
        and c.method in ("append", "appendleft", "add", "push", "put", "put_nowait")
    )
    stored = c.first if one and c.first is not None else union(c.arguments, Kind.CONTAINER)
    stored = flow.with_fields(stored, c.node.args[0].value, state) if one else stored
    if c.method in ("extend", "extendleft") and c.first is not None and c.first.kind is Kind.NUMBER:
        stored = stored._replace(holds=frozenset())  # the elements of an array are copies
    made = _made_by_comprehension(c)
    if c.method == "update" and not _new_key(c) and (not stored.reach or (made is None and _is_another_dict(c))):
        if not _is_updated(c, base, holder) and stored.reach:
            state.env[base] = with_content(holder, stored)
        return  # grads.update({name: p.grad ...}): the same keys each time
    is_filled_later = one and filled_later.may_be_filled(flow, c.node.args[0].value, stored)
    if (stored.keeps or is_filled_later) and not _is_bounded(c):
        source = c.node.args[-1].value
        in_slots = c.method == "update" and _has_fixed_keys(source)
        form, part = rebind_form(base, made or source) if c.method == "update" else (Form.REBIND, None)
        if form is Form.REBIND:
            form, part = (Form.ITEM if in_slots else Form.APPEND), source
        store = flow.store(base, stored, state, c.node, part or source, form)
        store.bounded_key = in_slots
        store.slot = _slot(c)
        if is_filled_later:
            filled_later.note(flow, source, store)
        if isinstance(source, t.Display) and len(source.items) == 1:
            store.value_site = flow.site(source.items[0])
            store.value = stored.part(0) or stored
    flow.touch(base, state)
    if c.method == "update" and _is_updated(c, base, holder):
        return
    state.env[base] = holder._replace(
        roots=holder.roots | stored.roots, maybe=holder.maybe | stored.maybe, parts=_with_element(c, holder),
        kind=Kind.CONTAINER if is_container else holder.kind, holds=holder.holds | stored.holds,
        must=holder.must | in_each_part(stored) if one and is_begun_here(flow, base, holder) else holder.must,
    )  # fmt: skip


def _adds_up(c: Called, base: str) -> bool:
    """Whether it is a ``Counter``, whose ``update`` adds to what is there."""
    made = [value for value in assigned_at(c.flow, base) if isinstance(value, t.Call)]
    return bool(made) and all(value.name == "Counter" for value in made)


def _add_to_counts(c: Called, base: str, holder: Value) -> None:
    """``totals.update(loss=loss)``: what is under the keys of a dict is added up; other elements are only counted."""
    added = union(value for arg, value in c.values if arg.keyword or value.kind is not Kind.TENSOR)
    if added.keeps:
        c.flow.store(base, added, c.state, c.node, c.node.args[-1].value, Form.APPEND)
    c.flow.touch(base, c.state)
    c.state.env[base] = with_content(holder, added)


def _is_bounded(c: Called) -> bool:
    """Whether it is an element that drops its own: ``last[0].append(x)`` of ``[deque(maxlen=9), deque(maxlen=9)]``."""
    func = c.node.func
    is_element = isinstance(func, t.Attribute) and isinstance(func.value, t.Subscript | t.Call)
    return is_element and c.receiver is not None and c.receiver.bounded


def _is_updated(c: Called, base: str, holder: Value) -> bool:
    """Bring a dict whose keys are all known up to date with entries that are; whether that is so."""
    entries = _given_entries(c) if entries_of(holder) else ()
    for key, value in entries:
        c.state.assign(f'{base}["{key}"]', value)
    if entries:
        c.state.env[base] = with_entries(holder, entries)
    return bool(entries)


def _given_entries(c: Called) -> tuple[tuple[object, Value], ...]:
    """The entries of ``d.update(loss=loss.item())`` or ``d.update({"loss": loss.item()})``, where all are written."""
    named = tuple((arg.keyword, value) for arg, value in c.values if arg.keyword)
    if len(named) == len(c.values):
        return named
    return entries_of(c.arguments[0]) if len(c.values) == 1 else ()


def _slot(c: Called) -> str | None:
    """The key of the collection that gets more, ``split`` of ``seen[split].append(x)``."""
    owner = c.node.func.value if isinstance(c.node.func, t.Attribute) else None
    return text_key(c, owner.index) or key_of(owner.index) if isinstance(owner, t.Subscript) else None


def _new_key(c: Called) -> bool:
    """Whether ``d.update({key: value})`` adds under a key that changes."""
    given = c.node.args[0].value if len(c.node.args) == 1 else None
    keys = [key for key, _ in given.entries] if isinstance(given, t.DictDisplay) else []
    return bool(keys) and all(key is not None and not isinstance(key, t.Constant) for key in keys)


def _made_by_comprehension(c: Called) -> t.Expr | None:
    """The comprehension that ``d.update(fresh)`` is given by name, if it goes on from what the dict has."""
    given = c.node.args[0].value if c.method == "update" and len(c.node.args) == 1 else None
    made = made_by_comprehension(c.flow, given.id) if isinstance(given, t.Name) else None
    if made is None:
        return None
    own = (c.receiver_path, f"{c.receiver_path}[*]")
    return made if any(isinstance(n, t.Expr) and t.path_of(n) in own for n in t.walk(made)) else None


def _is_another_dict(c: Called) -> bool:
    """Whether it is brought up to date with a dict that is made elsewhere, ``stats.update(model.stats)``."""
    given = c.node.args[0].value if len(c.node.args) == 1 else None
    return isinstance(given, t.Name | t.Attribute)


def _has_fixed_keys(given: t.Expr) -> bool:
    """Whether a dict is written out with words for keys: the next one replaces what is there."""
    return isinstance(given, t.DictDisplay) and all(isinstance(key, t.Constant) for key, _ in given.entries)


_PILING = (Held.OPTIMIZER, Held.PARAMETER)  # self.optimizers.append(...), nn.ParameterList().append(...)


def _with_element(c: Called, holder: Value) -> tuple[tuple[object, Value], ...]:
    """The parts of a list after ``append``: what an element looks like, as long as that is known."""
    if c.method not in ("append", "appendleft") or c.first is None:
        return ()
    known = holder.part("each")
    empty = not holder.parts and all(r.source in (Source.CARRIED, Source.PLACE) for r in holder.roots)
    if known is None and not empty:
        return ()
    member = holding(c.first, Held.MEMBER, c.node)
    return (("each", member if known is None else join(known, member)),)


def _bound_it(c: Called, path: str) -> None:
    """An element is taken out: the container is drained as it is filled; a long buffer once it is full."""
    forget_entries(c, path)
    if any(cap.is_long and not cap.is_below and cap.path == path for cap in c.flow.caps):
        return
    base = path
    while base.endswith("[*]"):
        base = base[:-3]
    c.state.env[base] = c.flow.read(base, c.state)._replace(bounded=True, parts=())


def in_place(c: Called) -> Value | None:
    """In-place tensor methods: the receiver takes on graphs, or loses its own."""
    if c.receiver is None or isinstance(c.func.ref, FunctionRef) or c.external or not c.method.endswith("_"):
        return None
    flow, state, path = c.flow, c.state, c.receiver_path
    if c.method in k.GRADIENT_SETTING_METHODS and is_of_gradient(c.node.func):
        flow.set_gradients(c.node, state)
    if c.method == "requires_grad_":
        off = isinstance(m := c.node.argument("requires_grad", 0), t.Constant) and m.value is False
        off |= isinstance(told := (c.value_of("requires_grad", 0) or UNKNOWN).ref, Flag) and not told.holds
        if c.receiver.kind is Kind.MODULE and (module := c.module_path) is not None:
            flow.freeze(module, state, bool(off))
        if isinstance(c.node.func, t.Attribute):
            freeze_each(flow, t.path_of(c.node.func.value), state, bool(off))
        if not off and path is not None:
            flow.freeze(path, state, False)  # of a frozen module, a part that learns
        if off and path is not None and c.receiver.kind is not Kind.MODULE:
            return unmarked(flow, path, c.receiver, state)
        if off or c.receiver.kind is Kind.MODULE:
            return c.receiver
        flow.detached.discard(path or "")
        flow.facts.gradients_wanted |= not c.receiver.holding(Held.STATE)
        leaf = c.receiver.with_roots(Root(Source.LEAF, c.node))
        if path is not None:
            flow.marked.add(path)
            state.env[path] = leaf
        return leaf
    if c.method in k.RESETTING_METHODS:
        if path is not None and not _through_data(c.node):
            state.assign(path, DETACHED)
            flow.detached.add(path)
            _detach_all(c, path)
        return DETACHED
    if c.method in k.FILLING_METHODS:
        return c.receiver
    if c.method not in k.INPLACE_GRAPH_METHODS or _through_data(c.node):
        return None
    if path is None:  # torch.zeros(n, 10).scatter_(1, y, 1)
        return c.result() if c.receiver.kind is Kind.TENSOR else None
    added = union(c.arguments)
    if state.mode is Mode.OFF:
        return c.receiver
    written, path = path, flow.element_path(path)
    if path.endswith(
        PARAMETERS
    ):  # what it blends itself with starts no graph: it asks for no gradient, or torch raises
        added = added._replace(roots=added.roots - c.receiver.roots)
    if any(root.source is Source.LEAF for root in added.roots):
        added = added.with_roots(Root(Source.GRAPH, c.node))
    before = flow.read(path, state)
    if added.reach:
        flow.touch(path, state)
        form = Form.AVERAGE if _blends(c.node) else Form.IN_PLACE
        flow.store(path, added, state, c.node, c.node.args[0].value, form)
    changed = before._replace(roots=before.roots | added.roots, maybe=before.maybe | added.maybe)
    state.env[path] = state.env[written] = changed
    return changed


def _detach_all(c: Called, path: str) -> None:
    """``for part in state: part.detach_()``: what the loop goes over has no graph any more."""
    element = c.flow.element_path(path)
    if element.endswith("[*]"):
        whole = element.removesuffix("[*]")
        c.flow.touch(whole, c.state)
        found = c.flow.read(whole, c.state)
        c.state.env[whole] = Value(kind=found.kind, ref=found.ref, bounded=found.bounded, holds=found.holds)


def _blends(node: t.Call) -> bool:
    """``mean.lerp_(x, 0.1)``, ``mean.mul_(0.9).add_(x)``, ``mean.copy_(0.9 * mean + 0.1 * x)``."""
    func = node.func
    if not isinstance(func, t.Attribute):
        return False
    if func.name == "copy_" and (path := t.path_of(func.value)) is not None:
        return rebind_form(path, node.args[0].value)[0] is Form.AVERAGE
    before = func.value.func if isinstance(func.value, t.Call) else None
    return func.name == "lerp_" or (isinstance(before, t.Attribute) and before.name == "mul_")


def _through_data(node: t.Call) -> bool:
    value: t.Expr = node.func
    while isinstance(value, t.Attribute | t.Subscript | t.Call):
        if isinstance(value, t.Attribute) and value.name in ("data", "grad"):
            return True
        value = value.func if isinstance(value, t.Call) else value.value
    return False

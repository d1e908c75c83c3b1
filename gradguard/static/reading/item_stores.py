"""How a value is stored under a key: ``d[k] = x``, ``buffer[i] = x``, ``rows[-100:] = x``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.model import Form, Loop, Mode
from gradguard.static.program.names import breaks_graph, collections_of
from gradguard.static.reading import counts, few_keys, renewal, samples
from gradguard.static.reading.forms import key_of, mentions, rebind_form
from gradguard.static.reading.lengthened import lengthened, lengthened_item
from gradguard.static.reading.state import State
from gradguard.static.reading.stores import path_of_root, store_rebind, written_values
from gradguard.static.values import (
    NOTHING_HELD,
    Kind,
    Root,
    Source,
    Value,
    is_blank,
    join,
    union,
    with_content,
    with_item,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def store_item(
    flow: Flow, target: t.Subscript, path: str, value: Value, state: State, stmt: t.Node, source: t.Expr | None
) -> None:
    """``container[key] = value``."""
    key = flow.value(target.index, state)
    base = t.path_of(target.value)
    if base is None:
        return
    base = flow.canonical(base)
    holder = flow.read(base, state)
    value = flow.with_fields(value, source, state) if source is not None else value
    if flow.frames and flow.frames[-1].replaces is target:
        flow.frames[-1].replacement = value
    if holder.kind is Kind.CONTAINER and key.kind is Kind.TENSOR and key.keeps:  # a dict keeps its keys
        if not _has_graph(value) and (_has_graph(key) or not value.reach):
            source = target.index
        value = value._replace(
            roots=value.roots | key.roots, maybe=value.maybe | key.maybe, holds=value.holds | key.holds
        )
    if not value.keeps:
        renewal.note(flow, target)
    if isinstance(target.index, t.Slice) and not value.reach and holder.kind is not Kind.TENSOR:
        flow.empty(base, holder, state)  # xs[:] = []
        return
    if isinstance(target.index, t.Slice) and value.bounded and holder.kind is not Kind.TENSOR:
        state.assign(base, value)  # xs[:] = xs[-10:]
        return
    if _is_last(target.index) and not value.keeps and holder.kind is Kind.CONTAINER:
        state.env[base] = holder._replace(bounded=True, parts=())  # losses[-1] = losses[-1].item()
        return
    if isinstance(target.index, t.Constant) and isinstance(target.index.value, str):
        value = lengthened(flow, path, value, state, source)
        if value.keeps:
            store_rebind(flow, path, value, state, stmt, source)
        state.assign(path, value)
        if holder.parts == () and _is_put_back(value, base, path):  # what showed that the whole has a graph is gone
            holder = holder._replace(roots=holder.must | _of_others(base, path, state).roots, maybe=holder.reach)
        state.env[base] = with_item(holder, target.index.value, value)
        return
    whole = base if isinstance(target.index, t.Slice) and source is not None and mentions(source, base) else path
    by_position = isinstance(target.index, t.Display) and holder.kind is Kind.UNKNOWN  # weights[i, j]
    if holder.kind is Kind.TENSOR or by_position or (isinstance(target.index, t.Slice) and target.index.dimensions > 1):
        value = value._replace(holds=NOTHING_HELD)  # the numbers are copied
    copied = holder.kind is Kind.TENSOR or flow.is_buffer(base) or isinstance(target.index, t.Slice) or by_position
    if copied and holder.kind is not Kind.CONTAINER and state.mode is Mode.OFF:
        value = value._replace(roots=frozenset(), maybe=frozenset())
    form, added = rebind_form(whole, source)
    if form is Form.REBIND and (written := t.path_of(target)) is not None and written != path:
        form, added = rebind_form(written, source)  # cell = sums[name]; cell[0] = cell[0] + x
        flow.touch(base, state)
    if form is Form.REBIND and holder.kind is not Kind.TENSOR:
        computed = [made for made in written_values(flow, source) if _computes(value, made)]
        goes_on = bool(computed) and is_chained(flow, base, value, holder)
        form = Form.AVERAGE if goes_on or any(_is_given(path, made) for made in computed) else form
    longer = lengthened_item(flow, target, base, value, state, source) if form is Form.CONCATENATE else None
    if longer is not None and holder.kind is not Kind.TENSOR:
        store = flow.store(base, longer, state, stmt, added or source, form)
        store.is_item, store.key = True, t.path_of(target.index)
        state.env[base] = with_content(holder, longer)
        return
    if form in (Form.SUM, Form.AVERAGE, Form.APPEND) and value.reach:  # d[k] = d.get(k, 0) + x
        store = flow.store(base, value, state, stmt, added or source, form)
        store.is_item, store.key = form is not Form.APPEND, t.path_of(target.index)
        store.slot = key_of(target.index) if form is Form.APPEND else None
        state.env[base] = with_content(holder, value)
        return
    if holder.kind is Kind.NUMBER:
        return  # an array of numpy takes the number only
    if value.keeps:
        form = Form.IN_PLACE if holder.kind is Kind.TENSOR or flow.is_buffer(base) else Form.ITEM
        store = flow.store(base, value, state, stmt, source, form)
        store.key = t.path_of(target.index)
        new = stmt.value if isinstance(stmt, t.Assign) else source
        if any(t.path_of(n) == path for n in t.walk(new) if isinstance(n, t.Subscript)):
            flow.slots.add((base, store.key))  # hidden[i] = detach(hidden[i])
        store.is_key = source is target.index
        store.bounded_key = _bounded_key(flow, target.index) or (base, store.key) in flow.slots
        if form is Form.ITEM:
            store.keys = samples.keys_of(flow, target, source)
        store.in_ring = holder.kind is Kind.CONTAINER and counts.goes_round(flow, target.index)
        store.few_keys = form is Form.ITEM and few_keys.are_few(flow, base, target.index)
        store.counts_up = form is Form.ITEM and few_keys.counts_up(flow, base, target.index)
    state.env[base] = with_content(holder, value)._replace(parts=_with_element(holder, value))


def _has_graph(value: Value) -> bool:
    """Whether it surely has one: what a parameter brings may have none."""
    return any(root.source in (Source.GRAPH, Source.LOSS) for root in value.roots)


def _with_element(holder: Value, value: Value) -> tuple[tuple[object, Value], ...]:
    """The parts of a collection after ``ring[i] = value``: what an element looks like, as long as that is known."""
    is_object = value.kind is Kind.INSTANCE and value.ref is not None  # meters[k] = Meter()
    if is_blank(holder) and (value.keeps or value.bounded or is_object):  # ring[i] = row, last[k] = deque(maxlen=9)
        return (("each", value),)
    known = holder.part("each")
    if not value.keeps:
        return holder.parts
    return (("each", join(known, value)),) if known is not None else ()


def _computes(value: Value, source: t.Expr | None) -> bool:
    """Whether a call or an operation makes a tensor: ``torch.lerp(mean, x, 0.1)``; Python's ``max`` takes one."""
    if isinstance(source, t.Call) and t.path_of(source.func) in ("max", "min"):
        return False
    return isinstance(source, t.Call | t.Operation) and not breaks_graph(source) and value.kind is Kind.TENSOR


def _is_given(path: str, source: t.Expr | None) -> bool:
    """Whether an operation, or a call, is given what is at a path."""
    given = [arg.value for arg in source.args] if isinstance(source, t.Call) else [source]
    return any(expr is not None and mentions(expr, path) for expr in given)


def is_chained(flow: Flow, path: str, value: Value, before: Value) -> bool:
    """Whether a value goes on from what is at a path now, not only from what was there when the loop began.

    A loop over the very collection has another element of it each time.
    """
    common = value.must & before.must
    loops = [frame.loop for frame in flow.frames if path in frame.phis and not _goes_over(frame.loop, path)]
    return Root(Source.CARRIED, (path, loops[-1])) in common if loops else bool(common)


def _goes_over(loop: Loop, path: str) -> bool:
    stmt = loop.site.node
    if not isinstance(stmt, t.Repeat) or stmt.target is None or stmt.iterable is None:
        return False
    return any(f"{path}[*]" in paths for _, paths in collections_of(stmt.target, stmt.iterable))


def _bounded_key(flow: Flow, index: t.Expr) -> bool:
    """Whether the keys come from a small set of names: the items of a dict, the entries of a list."""
    if isinstance(index, t.Constant) or _is_last(index) or (isinstance(index, t.Operation) and index.operator == "%"):
        return True  # ring[step % size]
    path = t.path_of(index)
    if path is None:
        return False
    if isinstance(index, t.Name) and index.id in flow.words:
        return True
    if few_keys.is_of_record(flow, path):
        return True
    if (size := counts.wraps_at(flow, path)) is not None:
        return not counts.is_long_buffer(flow, size)
    for frame in reversed(flow.frames):
        if path in frame.loop.targets:
            if _goes_over_names(frame.loop.site.node):
                return True
            over_layers = flow.facts.is_module_method and flow.facts.name == "forward"
            return not frame.loop.over_loader and (over_layers or frame is not flow.frames[0])
    return False


def _is_put_back(value: Value, base: str, path: str) -> bool:
    """Whether an entry gets what has no graph, or what was there: ``kept = d["x"]``, ..., ``d["x"] = kept``."""
    return all(path_of_root(root) in (base, path) for root in value.reach)


def _of_others(base: str, path: str, state: State) -> Value:
    """What is known of the other entries of a dict, of which some are known by their words."""
    entry = f'{base}["'
    return union(value for name, value in state.env.items() if name.startswith(entry) and name != path)


def _is_last(index: t.Expr) -> bool:
    """Whether a subscript counts from the end: ``[-1]``."""
    if not isinstance(index, t.Operation) or index.operator != "-" or len(index.operands) != 1:
        return False
    return isinstance(index.operands[0], t.Constant)


def _goes_over_names(loop: t.Node) -> bool:
    """Whether a loop goes over the parameters or parts of a module, by name."""
    call = loop.iterable if isinstance(loop, t.Repeat) else None
    if isinstance(call, t.Call) and t.path_of(call.func) == "enumerate" and call.args:
        call = call.args[0].value
    return isinstance(call, t.Call) and isinstance(call.func, t.Attribute) and call.func.name in k.NAMING_METHODS

"""How a statement stores a value: the form, the target, and what the old value has to do with the new one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import counts, few_keys, gradient_sums, renewal
from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.definitions import Class
from gradguard.static.forms import comprehension_of, key_of, mentions, rebind_form
from gradguard.static.lengthened import lengthened, lengthened_item
from gradguard.static.model import (
    Form,
    Loop,
    Mode,
    Scope,
    ZeroGrad,
)
from gradguard.static.names import PARAMETERS, breaks_graph, collections_of, is_of_gradient
from gradguard.static.paths import is_within
from gradguard.static.recurrence import goes_round
from gradguard.static.state import State
from gradguard.static.terms import terms
from gradguard.static.values import (
    NOTHING_HELD,
    Held,
    Kind,
    Root,
    Source,
    Value,
    is_blank,
    is_record,
    join,
    union,
    with_content,
    with_item,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_ADDS_ITS_OWN_WAY = re.compile(r"\bdef __iadd__\b")


def store_rebind(flow: Flow, path: str, value: Value, state: State, stmt: t.Node, source: t.Expr | None) -> None:
    flow.note_start(path, value)
    carries_on = any(r.source in (Source.CARRIED, Source.PLACE) for r in value.reach)
    grows = bool(value.holding(Held.GROWN))
    if not carries_on and not grows and not (value.holding(Held.EXCEPTION) and flow.scope(path) is not Scope.LOCAL):
        return
    if _is_module_itself(flow, path, source):
        return
    if (
        value.kind is Kind.OUTPUT
        and is_record(value)
        and (fields_kept(path, value) or any(_is_told_apart(flow, path, name) for name, _ in value.parts))
    ):
        for name, field in value.parts:  # a record bound anew is each of its fields bound anew
            store_rebind(flow, f"{path}.{name}", field, state, stmt, source)
        return
    form, part = rebind_form(path, source)
    descends = form is Form.SUM and _is_gradient(flow, part, state)
    if form is Form.REBIND and isinstance(source, t.Name):
        form, part = _rebuilt(flow, path, source.id)
        is_told = not path.endswith('"]') or "[*]" not in path or len(flow.words_put) == 1
        if form is Form.REBIND and is_told and any(_is_from(root, path) for root in value.reach):
            form, part = _computed(flow, path, stmt, source.id)
    if form is Form.SUM and (_is_step_of_leaf(value) or _has_no_graph(flow, part, state)):
        form, part = Form.REBIND, None
    if form is Form.AVERAGE and part is not None and _is_of_numbers(flow, part, state):
        part = None  # what chains is the rest: `guess * 0 + 0.5 * (low + high)`
    is_longer = form is Form.SUM and value.kind is Kind.CONTAINER and comprehension_of(source) is None  # rows + new
    node = part or source or stmt
    written = node if isinstance(node, t.Expr) else None
    store = flow.store(path, value, state, stmt, written, Form.APPEND if is_longer else form)
    store.in_structure = store.in_structure or is_longer
    store.descends = descends
    made = stmt.value if source is None and isinstance(stmt, t.Assign) else source
    if form is Form.REBIND and made is not None and value.keeps:
        store.recurs = goes_round(flow.ref.bindings_made, path, made)


def _is_told_apart(flow: Flow, path: str, name: object) -> bool:
    """Whether a loop carries a field of a record by itself."""
    return any(f"{path}.{name}" in frame.phis for frame in flow.frames)


def fields_kept(path: str, value: Value) -> tuple[tuple[object, Value], ...]:
    """The fields of a new record, where one is made of what the old one had: ``Stats(0.9 * self.stats.mean + x)``."""
    if value.kind is not Kind.OUTPUT or not is_record(value):
        return ()
    kept = any(root.source is Source.PLACE and is_within(str(root.key), path) for root in value.must)
    return value.parts if kept else ()


def goes_on(flow: Flow, path: str, name: str) -> bool:
    """Whether each element of a collection that is bound to a path goes on from one that was there."""
    return _rebuilt(flow, path, name)[0] is not Form.REBIND


def _rebuilt(flow: Flow, path: str, name: str) -> tuple[Form, t.Expr | None]:
    """How a collection that was made anew, ``new.append(0.9 * w + 0.1 * p)``, uses the elements of the one it replaces.

    Args:
        path: what it replaces.
        name: of the new one.
    """
    if (written := made_by_comprehension(flow, name)) is not None:
        return rebind_form(path, written)
    for store in flow.facts.stores:
        made = store.value_site.node if store.value_site is not None and store.path == name else None
        if isinstance(made, t.Expr) and store.form in (Form.APPEND, Form.ITEM):
            names = {node.id for node in t.walk(made) if isinstance(node, t.Name)}
            olds = [old for old in sorted(names) if flow.element_path(old) == f"{path}[*]"]
            forms = [rebind_form(old, made) for old in (*olds, f"{path}[*]")]
            found = next((form for form in forms if form[0] is not Form.REBIND), None)
            if found is not None:
                return found
    return Form.REBIND, None


def _computed(flow: Flow, path: str, stmt: t.Node, name: str) -> tuple[Form, t.Expr | None]:
    """How what a name is bound to uses what it replaces: ``old = self.m``, ``new = 0.9 * old + x``, ``self.m = new``.

    Args:
        path: what it replaces.
        stmt: by which.
    """
    bindings = flow.ref.bindings_made
    here = {path, *(t.path_of(target) for target in (stmt.targets if isinstance(stmt, t.Assign) else ()))}
    olds = {old for old in here if old} | {
        old for each in bindings if not here.isdisjoint(each.paths) for old in each.names
    }
    made = (each.value for each in bindings if name in each.names)
    forms = (rebind_form(old, value) for value in made for old in sorted(olds))
    return next((found for found in forms if found[0] is not Form.REBIND), (Form.REBIND, None))


def made_by_comprehension(flow: Flow, name: str) -> t.Expr | None:
    """What a name is bound to, where that is one comprehension: ``fresh = {k: mix(means[k], p) for k, p in ...}``."""
    values = [each.value for each in flow.ref.bindings_made if name in each.names]
    return values[0] if len(values) == 1 and comprehension_of(values[0]) is not None else None


def _is_module_itself(flow: Flow, path: str, source: t.Expr | None) -> bool:
    """Whether a module is bound to its own name again: ``net = net.to(device)``, ``net = net.train()``."""
    if not isinstance(source, t.Call) or not isinstance(source.func, t.Attribute):
        return False
    is_fluent = source.func.name in k.FLUENT_METHODS and t.path_of(source.func.value) == path
    return is_fluent and path in flow.modules


def _is_step_of_leaf(value: Value) -> bool:
    """Whether nothing that is added has a graph, but the leaf itself has: ``delta = delta + rate * gradient``."""
    leaf = any(r.source is Source.LEAF for r in value.roots)
    graphs = (r for r in value.roots if r.source in (Source.GRAPH, Source.LOSS))
    return leaf and all(r.source is Source.GRAPH and isinstance(r.key, t.Operation) for r in graphs)


def _is_of_numbers(flow: Flow, added: t.Expr, state: State) -> bool:
    """Whether what is added is computed of numbers, as far as the defaults of parameters tell."""
    nodes = [node for node in t.walk(added) if isinstance(node, t.Expr)]
    defaults = {p.name: p.default for p in flow.ref.define.params}
    names = [node.id for node in nodes if isinstance(node, t.Name)]
    numbers = (t.Constant, t.Name, t.Operation)
    return all(isinstance(node, numbers) for node in nodes) and all(
        _is_number(defaults.get(name)) or flow.read(name, state).kind is Kind.NUMBER for name in names
    )


def _is_number(expr: t.Expr | None) -> bool:
    return isinstance(expr, t.Constant) and type(expr.value) in (int, float)


def _has_no_graph(flow: Flow, added: t.Expr | None, state: State) -> bool:
    """Whether what is added surely has no graph: ``points = points - rate * gradient`` chains the points alone."""
    if added is None or any(not isinstance(node, _ARITHMETIC) for node in t.walk(added)):
        return False
    value = flow.value(added, state)
    return value.kind in (Kind.TENSOR, Kind.GRADIENT) and not value.reach


def _is_gradient(flow: Flow, added: t.Expr | None, state: State) -> bool:
    """Whether what is added is a gradient without a graph, with a factor: ``settings["rate"] * latent.grad``."""
    if added is None or not any(isinstance(node, t.Attribute) and node.name == "grad" for node in t.walk(added)):
        return False
    before, flow.dry = flow.dry, True  # it was read, and what it does is noted
    given = flow.value(added, state).reach
    flow.dry = before
    creates = any(backward.create_graph is not None for backward in flow.facts.backwards)
    return not creates and all(root.source in (Source.PARAM, Source.PLACE) for root in given)


_ARITHMETIC = (t.Name, t.Attribute, t.Constant, t.Operation)


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
        computed = [made for made in _written(flow, source) if _computes(value, made)]
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
        store.bounded_key = _bounded_key(flow, target.index) or (base, store.key) in flow.slots
        store.few_keys = form is Form.ITEM and few_keys.are_few(flow, base, target.index)
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


def _written(flow: Flow, source: t.Expr | None) -> list[t.Expr]:
    """What is stored, or what may be bound to its name: ``loss = 0.9 * d[k] + 0.1 * loss``, ``d[k] = loss``."""
    if not isinstance(source, t.Name):
        return [source] if source is not None else []
    bound = [made.value for made in flow.ref.bindings_made if source.id in made.names]
    return [way for made in bound for way in ((made.body, made.orelse) if isinstance(made, t.Conditional) else (made,))]


def _computes(value: Value, source: t.Expr | None) -> bool:
    """Whether a call or an operation makes a tensor: ``torch.lerp(mean, new[name], 0.1)``."""
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
    return all(_path_of_root(root) in (base, path) for root in value.reach)


def _is_from(root: Root, path: str) -> bool:
    """Whether a value came from a path, or from what that is a part of."""
    whole = _path_of_root(root)
    return bool(whole) and (path == whole or is_within(path, whole))


def _path_of_root(root: Root) -> str:
    """The path that a value came from; empty for what came from none."""
    return root.key[0] if root.source is Source.CARRIED else root.base  # type: ignore[index]


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


def _adds_by_method(flow: Flow, stmt: t.Augment, state: State) -> t.Call | None:
    """The call that ``meter += loss`` is, where the meter's class says itself what that does."""
    path = t.path_of(stmt.target)
    if path is None or stmt.operator != "+":
        return None
    ref = flow.read(flow.canonical(path), state).ref
    if not isinstance(ref, Class) or ref.method("__iadd__") is None:
        return None
    return t.Call(stmt.origin, t.Attribute(stmt.origin, stmt.target, "__iadd__"), [t.Arg(stmt.value)])


def augment(flow: Flow, stmt: t.Augment, state: State) -> State:
    gradient_sums.note(flow, stmt, state)
    generators = flow.generators
    if (call := _adds_by_method(flow, stmt, state)) is not None:
        flow.value(call, state)
        return state
    added = flow.value(stmt.value, state)
    path = t.path_of(stmt.target)
    if is_of_gradient(stmt.target) and stmt.operator in "+-":
        flow.set_gradients(stmt, state)
    if is_of_gradient(stmt.target) and stmt.operator == "*" and t.is_zero(stmt.value):
        flow.zero(ZeroGrad(flow.site(stmt), flow.loop, flow.branches > 0), state)
    if path is None or breaks_graph(stmt.target):
        return state
    is_alias, path = flow.canonical(path) != path, flow.canonical(path)
    if flow.element_path(path).endswith(PARAMETERS):
        path = flow.element_path(path)  # of a number in a list it would change nothing
        flow.touch(path, state)
    before = flow.read(path, state)
    if isinstance(stmt.target, t.Subscript) and not path.endswith('"]'):
        path = path.rsplit("[", 1)[0]
        before = flow.read(path, state)
    if is_alias:  # the loop does not name what changes: cell = sums[name]
        flow.touch(path, state)
    is_generator = flow.generators > generators and added.kind is Kind.CONTAINER
    if is_generator and before.kind in (Kind.NUMBER, Kind.TENSOR):
        return state  # to a number none can be added
    item = isinstance(stmt.target, t.Subscript) and not isinstance(stmt.value, t.Display | t.Comprehension)
    is_ours = item and before.kind is not Kind.TENSOR and flow.scope(path) is not Scope.LOCAL
    if is_ours and flow.project.survey.mentions(_ADDS_ITS_OWN_WAY, flow.module, "__iadd__"):
        return state  # an entry of an object's dict may be a meter of the program's own
    if item:  # sums[key] += x
        form = Form.SUM if stmt.operator in "+-" else Form.AVERAGE
        kind = before.kind
    elif before.kind is Kind.CONTAINER or isinstance(stmt.value, t.Display | t.Comprehension):
        form, kind = Form.APPEND, Kind.CONTAINER
    else:
        form = Form.SUM if stmt.operator in "+-" else Form.AVERAGE
        kind = Kind.TENSOR if added.reach or before.reach else before.kind
    if item or before.kind in (Kind.TENSOR, Kind.OUTPUT, Kind.NUMBER):
        added = added._replace(holds=NOTHING_HELD)  # a sum is a tensor of its own
    if state.mode is Mode.OFF and form is Form.SUM:
        added = added._replace(roots=frozenset(), maybe=frozenset())
    elif any(r.source is Source.LEAF for r in added.roots):
        added = added.with_roots(Root(Source.GRAPH, stmt.value))
    result = union((before, added))._replace(kind=kind, must=before.must, bounded=before.bounded)
    if added.keeps:
        single = isinstance(stmt.value, t.Display) and len(stmt.value.items) == 1
        source = stmt.value.items[0] if isinstance(stmt.value, t.Display) and single else stmt.value
        store = flow.store(path, (added.part(0) or added) if single else added, state, stmt, source, form)
        store.is_item = item
        store.descends = form is Form.SUM and _is_gradient(flow, stmt.value, state)
        store.in_structure = store.in_structure or (added.kind is Kind.CONTAINER and not single)
        if store.scope is Scope.PARAMETER and not any(r.source is Source.PARAM for r in before.must):
            store.scope = Scope.LOCAL  # the name was given to something else before
    if form is Form.SUM:
        known = flow.sums.get(path) or [before]
        flow.sums[path] = known + [term for term in terms(flow, stmt.value, state) or [added] if term not in known]
    state.env[path] = result
    return state

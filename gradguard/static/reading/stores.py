"""How a statement stores a value: the form, the target, and what the old value has to do with the new one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.losses import constant_terms
from gradguard.static.model import (
    Form,
    Mode,
    Scope,
    ZeroGrad,
)
from gradguard.static.program.classes import Class
from gradguard.static.program.names import PARAMETERS, breaks_graph, is_of_gradient
from gradguard.static.program.paths import is_within
from gradguard.static.reading import gradient_sums
from gradguard.static.reading.forms import comprehension_of, rebind_form
from gradguard.static.reading.lengthened import joining_call
from gradguard.static.reading.places import owner_of
from gradguard.static.reading.recurrence import goes_round
from gradguard.static.reading.state import State
from gradguard.static.reading.terms import terms
from gradguard.static.values import (
    Held,
    Kind,
    Root,
    Roots,
    Source,
    Value,
    is_empty,
    is_record,
    union,
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
    if form is Form.REBIND:
        form, part = _by_alias(flow, path, stmt, source)
    descends = form is Form.SUM and _is_gradient(flow, part, state)
    if form is Form.REBIND and isinstance(source, t.Name):
        form, part = _rebuilt(flow, path, source.id)
        is_told = not path.endswith('"]') or "[*]" not in path or len(flow.words_put) == 1
        if form is Form.REBIND and is_told and any(_is_from(root, path) for root in value.reach):
            form, part = _computed(flow, path, stmt, source)
    joining = joining_call(flow, path, source) if grows else None
    if form is Form.REBIND and not value.reach and joining is not None:
        form, part = Form.CONCATENATE, _added(path, joining)
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
    store.conditional = store.conditional and joining is None  # it is but asked whether there is something yet
    made = stmt.value if source is None and isinstance(stmt, t.Assign) else source
    if form is Form.REBIND and made is not None and value.keeps:
        store.recurs = goes_round(flow.ref.bindings_made, path, made)


def _by_alias(flow: Flow, path: str, stmt: t.Node, source: t.Expr | None) -> tuple[Form, t.Expr | None]:
    """The form by the name that a statement has for the target: ``state = self.state[p]``, ``state["v"] = ...``."""
    targets = stmt.targets if isinstance(stmt, t.Assign) else []
    written = {name for target in targets for name in [t.path_of(target)] if name is not None and name != path}
    aliases = sorted(name for name in written if flow.canonical(name) == path)
    return rebind_form(aliases[0], source) if aliases else (Form.REBIND, None)


def _added(path: str, joining: t.Call) -> t.Expr | None:
    """What a call puts behind what is at a path, or behind an element of it."""
    return rebind_form(path, joining)[1] or rebind_form(f"{path}[*]", joining)[1]


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


def _computed(flow: Flow, path: str, stmt: t.Node, source: t.Name) -> tuple[Form, t.Expr | None]:
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
    forms = (rebind_form(old, value) for value in written_values(flow, source) for old in sorted(olds))
    return next((found for found in forms if found[0] is not Form.REBIND), (Form.REBIND, None))


def written_values(flow: Flow, source: t.Expr | None) -> list[t.Expr]:
    """What is stored, or what may be bound to its name: ``loss = 0.9 * d[k] + 0.1 * loss``, ``d[k] = loss``."""
    if not isinstance(source, t.Name):
        return [source] if source is not None else []
    bound = [made.value for made in flow.ref.bindings_made if source.id in made.names]
    return [way for made in bound for way in ((made.body, made.orelse) if isinstance(made, t.Conditional) else (made,))]


def made_by_comprehension(flow: Flow, name: str) -> t.Expr | None:
    """What a name is bound to, where that is one comprehension: ``fresh = {k: mix(means[k], p) for k, p in ...}``."""
    values = [each.value for each in flow.ref.bindings_made if name in each.names]
    return values[0] if len(values) == 1 and comprehension_of(values[0]) is not None else None


def _is_from(root: Root, path: str) -> bool:
    """Whether a value came from a path, or from what that is a part of."""
    whole = path_of_root(root)
    return bool(whole) and (path == whole or is_within(path, whole))


def path_of_root(root: Root) -> str:
    """The path that a value came from; empty for what came from none."""
    return root.key[0] if root.source is Source.CARRIED else root.base  # type: ignore[index]


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


def _adds_by_method(flow: Flow, stmt: t.Augment, state: State) -> t.Call | None:
    """The call that ``meter += loss`` is, where the meter's class says itself what that does."""
    path = t.path_of(stmt.target)
    if path is None or stmt.operator != "+":
        return None
    ref = flow.read(flow.canonical(path), state).ref
    if not isinstance(ref, Class) or ref.method("__iadd__") is None:
        return None
    return t.Call(stmt.origin, t.Attribute(stmt.origin, stmt.target, "__iadd__"), [t.Arg(stmt.value)])


def _sets_property(flow: Flow, stmt: t.Augment, state: State) -> t.Assign | None:
    """``self.price += step`` as ``self.price = self.price + step``, where a method says what binding it does."""
    owner = t.path_of(stmt.target.value) if isinstance(stmt.target, t.Attribute) else None
    cls = owner_of(flow, flow.canonical(owner), state) if owner is not None else None
    if cls is None or not isinstance(stmt.target, t.Attribute) or not cls.has_setters:
        return None
    if not any(stmt.target.name in each.setters for each in cls.lineage()):
        return None
    if stmt not in flow.as_assigned:
        result = t.Operation(stmt.origin, stmt.operator, [stmt.target, stmt.value])
        flow.as_assigned[stmt] = t.Assign(stmt.origin, [stmt.target], result)
    return flow.as_assigned[stmt]


def _keep_key(flow: Flow, stmt: t.Augment, index: t.Expr, path: str, state: State) -> None:
    """``counts[cell] += 1``: a dict keeps its keys, and each tensor is another one."""
    key = flow.value(index, state)
    if key.kind is Kind.TENSOR and any(root.source is Source.GRAPH for root in key.roots):
        store = flow.store(path, key, state, stmt, index, Form.ITEM)
        store.key, store.is_key = t.path_of(index), True


def is_begun_here(flow: Flow, base: str, holder: Value) -> bool:
    """Whether what is put into a container is all that is in it, from here or from earlier iterations of a loop."""
    frame = flow.frames[-1] if flow.frames else None
    before = frame.phis.get(base) if frame is not None else None
    if frame is None or before is None:
        return is_empty(holder)
    carried = {Root(Source.CARRIED, (base, frame.loop))}
    return is_empty(before) and holder.kind is Kind.CONTAINER and holder.must <= carried and holder.roots <= carried


def in_each_part(value: Value) -> Roots:
    """What a value surely contains, whichever part of it is looked at."""
    parts = [in_each_part(part) for _, part in value.parts]
    return parts[0].intersection(*parts[1:]) if parts else value.must


def augment(flow: Flow, stmt: t.Augment, state: State) -> State:
    gradient_sums.note(flow, stmt, state)
    generators = flow.generators
    if (call := _adds_by_method(flow, stmt, state)) is not None:
        flow.value(call, state)
        return state
    if (assign := _sets_property(flow, stmt, state)) is not None:
        flow.block([assign], state)
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
    if isinstance(stmt.target, t.Subscript) and before.kind is Kind.CONTAINER:
        _keep_key(flow, stmt, stmt.target.index, path, state)
    summed = [(stmt.target, before), (stmt.value, added)]
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
        added = added._replace(holds=added.holding(Held.REBUILT))  # a sum is a tensor of its own
    if state.mode is Mode.OFF and form is Form.SUM:
        added = added._replace(roots=frozenset(), maybe=frozenset())
    elif form is not Form.APPEND and added.kind is not Kind.CONTAINER and _has_leaf(added):
        added = added.with_roots(Root(Source.GRAPH, stmt.value))  # a list only gets them
    begun = form is Form.APPEND and is_begun_here(flow, path, before)
    must = before.must | in_each_part(added) if begun else before.must
    result = union((before, added))._replace(kind=kind, must=must, bounded=before.bounded)
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
    state.env[path] = constant_terms.of_operation(flow, stmt.operator, summed, result)
    return state


def _has_leaf(value: Value) -> bool:
    return any(root.source is Source.LEAF for root in value.roots)

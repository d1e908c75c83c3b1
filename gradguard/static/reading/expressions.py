"""Expression -> value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.losses import constant_terms
from gradguard.static.model import GradRead, Mode
from gradguard.static.program.classes import Class
from gradguard.static.project import member
from gradguard.static.reading import comprehensions, unrecorded
from gradguard.static.reading.binding import bind
from gradguard.static.reading.conditions import outcome, tensor_test
from gradguard.static.reading.periods import period
from gradguard.static.reading.places import is_module_of_unknown
from gradguard.static.reading.steady import steady_value
from gradguard.static.reading.unrecorded import Severed
from gradguard.static.reading.views import indexed, of_given
from gradguard.static.values import (
    ARRAY,
    DETACHED,
    NOTHING,
    NUMBER,
    UNKNOWN,
    Bound,
    Held,
    Kind,
    Part,
    Registrar,
    Root,
    Source,
    Value,
    Word,
    combined,
    computed,
    each_of,
    element,
    entries_of,
    holding,
    iterated,
    join,
    union,
    viewed,
    whole,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
from gradguard.static.reading.state import State

_NOT_ARITHMETIC = frozenset(("==", "!=", "<", ">", "<=", ">=", "in", "not in", "is", "is not", "not"))


_OBJECTS = (Kind.INSTANCE, Kind.MODULE, Kind.OPTIMIZER, Kind.CLASS, Kind.FUNCTION)

_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">="))


def evaluate(flow: Flow, expr: t.Expr, state: State) -> Value:
    """The value of an expression; what it does on the way is recorded in the flow."""
    return _EVALUATE[type(expr)](flow, expr, state)


def recorded(value: Value, state: State, node: t.Node | None = None) -> Value:
    """An operation's result under the gradient mode: no graph when it is off, perhaps one when it is unknown.

    An operation on a leaf starts a graph at ``node``.
    """
    if state.mode is Mode.OFF:
        parts = tuple((key, recorded(v, state)) for key, v in value.parts)
        bare = cut(value, node)
        return bare._replace(kind=value.kind, parts=parts, holds=bare.holds | value.holds)
    if node is not None and any(r.source is Source.LEAF for r in value.roots):
        value = value.with_roots(Root(Source.GRAPH, node))
    if state.mode is Mode.UNKNOWN:
        return value._replace(roots=frozenset(), maybe=value.reach)
    return value


def cut(value: Value, node: t.Node | None) -> Value:
    """The tensor without its graph; it shares the storage."""
    detached = DETACHED._replace(holds=viewed(value).holds - value.holding(Held.SLOPE))
    for root in value.roots:
        detached = holding(detached, Held.GIVEN, root) if root.source is Source.PARAM else detached
    return holding(detached, Held.CUT, node) if value.roots and node is not None else detached


def _name(flow: Flow, expr: t.Name, state: State) -> Value:
    return flow.read(flow.canonical(expr.id), state)


def _constant(flow: Flow, expr: t.Constant, state: State) -> Value:
    if isinstance(expr.value, str):
        return NUMBER._replace(ref=Word(expr.value))
    return NOTHING if expr.value is None else NUMBER


def _attribute(flow: Flow, expr: t.Attribute, state: State) -> Value:
    path = t.path_of(expr)
    if path is not None and (known := state.env.get(flow.canonical(path))) is not None:
        return known
    base = evaluate(flow, expr.value, state)
    if base.kind is Kind.EXTERNAL or base.kind is Kind.CLASS:
        return member(base, expr.name) or UNKNOWN
    if expr.name == "is_leaf" and (tested := t.path_of(expr.value)) is not None:
        flow.asked_whether_leaf.add(tested)
    if expr.name == "indices" and base.kind in (Kind.TENSOR, Kind.OUTPUT):
        return unrecorded.of_choice(base, DETACHED, lambda: flow.site(expr))  # of topk, max, sort
    if expr.name in k.HOOK_METHODS and path is not None:
        return Value(kind=Kind.FUNCTION, ref=Registrar(expr.name, flow.canonical(path.rsplit(".", 1)[0]), base))
    if expr.name in k.ADDING_METHODS and path is not None and base.kind in (Kind.CONTAINER, Kind.UNKNOWN):
        return Value(kind=Kind.FUNCTION, ref=Bound(expr))
    if expr.name == "zero_grad" and path is not None and base.kind in (Kind.OPTIMIZER, Kind.MODULE, Kind.UNKNOWN):
        return Value(kind=Kind.FUNCTION, ref=Bound(expr))
    if expr.name == "param_groups":
        return _groups(expr)
    if expr.name == "grad":
        return _gradient(flow, expr, base, state)
    if expr.name in k.BREAKING_ATTRIBUTES and base.kind not in (Kind.INSTANCE, Kind.MODULE):
        if expr.name == "data":
            return unrecorded.cut_off([base], cut(base, expr), lambda: flow.site(expr), Severed.DATA)
        return DETACHED if expr.name == "grad_fn" else NUMBER
    if path is not None and is_module_of_unknown(flow, path, base):
        return Value(kind=Kind.MODULE)
    if expr.name == "features" and base.kind is Kind.MODULE and str(base.ref).startswith("torchvision.models."):
        return base._replace(ref=None)
    if base.kind in (Kind.TENSOR, Kind.OUTPUT) or (part := base.part(expr.name)) is not None:
        part = base.part(expr.name)
        if part is None and base.kind is Kind.TENSOR and _is_call_result(base) and expr.name not in _OF_TENSORS:
            return _derived(base, expr.name)  # an object, whose class says what dividing it means
        if part is None and isinstance(base.ref, Class) and expr.name in base.ref.numbers:
            return NUMBER
        if part is None:
            return base._replace(parts=(), kind=Kind.OUTPUT)
        members = base.holding(Held.MEMBER)  # a field lives as long as what it is a field of
        return part._replace(holds=part.holds | members) if members else part
    if base.kind is Kind.UNKNOWN and base.ref is None and base.roots and expr.name in ("T", "mT", "mH"):
        return base._replace(parts=())  # a parameter: its caller may give a tensor
    if base.kind is Kind.MODULE and expr.name == "module":
        return base
    if isinstance(base.ref, Class) and (got := _property(flow, expr, base, state)) is not None:
        return got
    if isinstance(base.ref, Class) and path is None:
        return base.ref.attribute(expr.name) or _method(base.ref, expr.name) or UNKNOWN
    if path is not None:
        if base.kind is Kind.MODULE and expr.name in ("weight", "bias"):
            return Value(frozenset((Root(Source.LEAF, expr),)), kind=Kind.TENSOR)
        if _is_call_result(base):
            return _derived(base, expr.name)
        return flow.read(flow.canonical(path), state)
    if base.roots and expr.name not in k.BREAKING_ATTRIBUTES:
        return _derived(base, expr.name)
    return UNKNOWN


def _groups(expr: t.Attribute) -> Value:
    """``optimizer.param_groups``: dicts, with leaves as their ``"params"`` and settings beside them."""
    leaf = holding(Value(frozenset((Root(Source.LEAF, expr),)), kind=Kind.TENSOR), Held.STATE, expr)
    return Value(kind=Kind.CONTAINER, parts=(("each", Value(kind=Kind.CONTAINER, parts=(("params", each_of(leaf)),))),))


def _is_group(value: Value) -> bool:
    """Whether a value is one of the groups of an optimizer."""
    return value.kind is Kind.CONTAINER and [key for key, _ in value.parts] == ["params"] and not value.reach


def _gradient(flow: Flow, expr: t.Attribute, base: Value, state: State) -> Value:
    """``tensor.grad``: None where the tensor is the result of an operation."""
    if base.is_operation_result and state.mode is not Mode.OFF and not flow.comparing:
        tensor = t.path_of(expr.value) or ""
        if tensor not in flow.asked_whether_leaf:
            flow.record(GradRead(flow.site(expr), flow.loop, flow.branches > 0, path=tensor))
    gradient = holding(Value(kind=Kind.GRADIENT), Held.GRADIENT, expr)
    return gradient if "create_graph" in flow.module.source.text else holding(gradient, Held.CUT, expr)


def _property(flow: Flow, expr: t.Attribute, base: Value, state: State) -> Value | None:
    """What a property of a class of the project gives."""
    assert isinstance(base.ref, Class)
    ref = base.ref.method(expr.name)
    if ref is None or not ref.is_property:
        return None
    from gradguard.static.reading.called import Called
    from gradguard.static.reading.summary import apply_facts

    call = flow.properties.setdefault(expr, t.Call(expr.origin, expr, []))
    return apply_facts(Called(flow, state, call, Value(kind=Kind.FUNCTION, ref=ref), base, []), ref, [], None)


def _method(cls: Class, name: str) -> Value | None:
    method = cls.method(name)
    return Value(kind=Kind.FUNCTION, ref=method) if method is not None else None


def _is_call_result(value: Value) -> bool:
    return bool(value.roots) and all(r.source in (Source.CALL, Source.LOSS) for r in value.roots)


_OF_TENSORS = ("T", "mT", "H", "mH", "real", "imag")


def _derived(value: Value, key: object) -> Value:
    """A part of what a call returned: it is not proven by what proves another part."""
    roots = frozenset(
        Root(r.source, (r.key, key)) if r.source in (Source.CALL, Source.LOSS) else r for r in value.roots
    )
    return value._replace(roots=roots, parts=(), kind=Kind.UNKNOWN)


def _is_setting(expr: t.Subscript) -> bool:
    """``optimizer.param_groups[0]["lr"]``."""
    setting = isinstance(expr.index, t.Constant) and isinstance(expr.index.value, str) and expr.index.value != "params"
    groups = expr.value.value if isinstance(expr.value, t.Subscript) else None
    if isinstance(groups, t.Subscript):
        return setting and isinstance(groups.index, t.Constant) and groups.index.value == "param_groups"
    return setting and isinstance(groups, t.Attribute) and groups.name == "param_groups"


def _subscript(flow: Flow, expr: t.Subscript, state: State) -> Value:
    key = evaluate(flow, expr.index, state).ref
    if isinstance(key, Word) and not isinstance(expr.index, t.Constant):
        return element(evaluate(flow, expr.value, state), key.text)
    path = t.path_of(expr)
    if _is_setting(expr):
        return NUMBER
    if path is not None and path.endswith('"]') and (known := state.env.get(flow.canonical(path))) is not None:
        return known
    base = evaluate(flow, expr.value, state)
    if path is not None and path.endswith('"]') and _lives_outside(base):
        known = base.part(expr.index.value if isinstance(expr.index, t.Constant) else None)
        if known is not None and known.kind in _OBJECTS:
            return known
        item = flow.read(flow.canonical(path), state)
        holder = known or (Value() if base.parts else base)
        leaves = (r for r in holder.roots if r.source is Source.LEAF)
        return item._replace(roots=item.roots | frozenset(leaves))
    if isinstance(base.ref, Class) and base.kind is Kind.INSTANCE and base.ref.element is not None:
        return base.ref.element
    if base.kind in (Kind.MODULE, Kind.OPTIMIZER, Kind.SCALER, Kind.LOADER):
        return base._replace(parts=())
    index = expr.index.value if isinstance(expr.index, t.Constant) else None
    if _is_group(base) and index != "params":
        return NUMBER  # group["lr"]
    if base.kind is Kind.OUTPUT and isinstance(index, str) and k.MEASURE_KEY.search(index):
        return base._replace(roots=frozenset(), maybe=base.reach, parts=(), kind=Kind.UNKNOWN)
    if base.kind in (Kind.TENSOR, Kind.OUTPUT) and not base.parts:
        return recorded(indexed(flow, base, expr, state), state, expr)
    if base.kind is Kind.GRADIENT:
        return base
    if isinstance(expr.index, t.Slice):
        trimmed = base.kind in (Kind.CONTAINER, Kind.UNKNOWN)
        parts = base.parts if base.part("each") is not None else ()
        return of_given(flow, base, expr, state)._replace(parts=parts, bounded=base.bounded or trimmed)
    if isinstance(index, str) and not base.parts and k.MEASURE_KEY.search(index):
        base = base._replace(roots=frozenset(), maybe=base.reach)
    if path is not None and not base.parts and base.kind is Kind.UNKNOWN and not base.roots:
        return flow.read(flow.canonical(path), state)
    return element(of_given(flow, base, expr, state), index)


def _lives_outside(value: Value) -> bool:
    """A container from an attribute or an outer name."""
    if value.kind not in (Kind.CONTAINER, Kind.UNKNOWN) or value.part("each") is not None:
        return False
    return any(r.source is Source.PLACE and not isinstance(r.key, Part) for r in value.must)


def _operation(flow: Flow, expr: t.Operation, state: State) -> Value:
    flow.comparing += expr.operator in ("is", "is not")
    values = [evaluate(flow, expr.operands[0], state)]
    flow.comparing -= expr.operator in ("is", "is not")
    flow.branches += expr.operator in ("and", "or")  # what follows is computed on some ways only
    every = period(expr.operands[0]) if expr.operator == "and" else None
    flow.periods += [] if every is None else [every]
    values += [evaluate(flow, operand, state) for operand in expr.operands[1:]]
    if every is not None:
        flow.periods.pop()
    flow.branches -= expr.operator in ("and", "or")
    if expr.operator in _COMPARISONS and any(v.kind in (Kind.TENSOR, Kind.OUTPUT) for v in values):
        compared = cut(computed(union(values)), expr)
        masked = (held for value in values for held in whole(value) if held.held is not Held.MOVED)
        compared = compared._replace(holds=compared.holds.union(masked))  # as large as the output itself
        return unrecorded.cut_off(values, compared, lambda: flow.site(expr), Severed.COMPARED)
    if expr.operator in _NOT_ARITHMETIC:
        return NUMBER
    if expr.operator in ("and", "or"):
        is_number = values[1].kind in (Kind.NUMBER, Kind.NOTHING)  # total or 0.0
        at_start = expr.operator == "or" and (is_number or t.path_of(expr.operands[0]) is not None)
        return join(values[0], values[1], trusted="first" if at_start else "both")
    if any(v.ref == "array" for v in values) and not any(v.kind in (Kind.TENSOR, Kind.OUTPUT) for v in values):
        return constant_terms.with_numbers(ARRAY, values)  # with whatever else, as NumPy computes
    if all(v.kind is Kind.NUMBER and not v.reach for v in values):
        return constant_terms.of_numbers(expr.operator, values)
    if any(v.kind is Kind.CONTAINER for v in values) and expr.operator in "+*|":
        return union(values, Kind.CONTAINER)
    if state.mode is Mode.OFF and expr.operator == "-":
        flow.without_graph.add(expr)
    result = combined(values)
    result = recorded(result._replace(holds=result.holds.union(*map(whole, values))), state, expr)
    site, is_off = lambda: flow.site(expr), state.mode is Mode.OFF
    result = unrecorded.of_operation(values, result, site, is_off=is_off, name=expr.operator)
    return constant_terms.of_operation(flow, expr.operator, list(zip(expr.operands, values)), result)


def _conditional(flow: Flow, expr: t.Conditional, state: State) -> Value:
    evaluate(flow, expr.test, state)
    settled = outcome(expr.test, lambda name: flow.given(name, state))
    if settled is not None:
        return evaluate(flow, expr.body if settled else expr.orelse, state)
    tested, holds = tensor_test(expr.test)
    before, left_before, evaluating_before = state.mode, state.left, state.evaluating
    first, after, left, evaluating = evaluate(flow, expr.body, state), state.mode, state.left, state.evaluating
    state.mode, state.left, state.evaluating = before, left_before, evaluating_before
    second = evaluate(flow, expr.orelse, state)
    state.evaluating &= evaluating
    state.mode = state.mode if state.mode is after else Mode.UNKNOWN
    state.left = state.left if state.left is left else Mode.UNKNOWN
    other = expr.orelse if holds else expr.body
    if tested is not None and t.path_of(other) == tested:
        first, second = (first, NUMBER) if holds else (NUMBER, second)
    if _is_number_unless(flow, expr.orelse, expr.body):
        second = NUMBER
    elif _is_number_unless(flow, expr.body, expr.orelse):
        first = NUMBER
    return join(first, second, trusted=steady_value(expr))


def _is_number_unless(flow: Flow, expr: t.Expr, converted: t.Expr) -> bool:
    """Whether a variable is taken as it is where it is no tensor: ``loss.item() if self.task > 0 else loss``.

    That is so where the function sets it to a number on one of its ways.
    """
    path = t.path_of(expr) if isinstance(expr, t.Name | t.Attribute) else None
    is_number = isinstance(converted, t.Call) and isinstance(f := converted.func, t.Attribute) and f.name == "item"
    while isinstance(converted, t.Call) and isinstance(converted.func, t.Attribute):
        converted = converted.func.value
    return is_number and path is not None and t.path_of(converted) == path and path in flow.numbers


def _display(flow: Flow, expr: t.Display, state: State) -> Value:
    values = [evaluate(flow, item, state) for item in expr.items]
    kind = Kind.UNKNOWN if expr.kind == "tuple" else Kind.CONTAINER
    whole = union(values, kind)
    if any(isinstance(item, t.Starred) for item in expr.items) or len(values) > 20:
        return whole
    return whole._replace(parts=tuple(enumerate(values)))


def _dict(flow: Flow, expr: t.DictDisplay, state: State) -> Value:
    parts: list[tuple[object, Value]] = []
    others: list[Value] = []
    for key, item in expr.entries:
        value = evaluate(flow, item, state)
        if isinstance(key, t.Constant) and isinstance(key.value, str):
            parts.append((key.value, value))
        elif key is None and (entries := entries_of(value)):  # {**logs, "loss": loss.item()}
            parts += entries
        else:
            if key is not None:
                evaluate(flow, key, state)
            others.append(value)
    known = dict(parts)  # what comes later replaces what was under its key
    whole = union([*known.values(), *others], Kind.CONTAINER)
    return whole._replace(parts=() if others else tuple(known.items()))


def _lambda(flow: Flow, expr: t.Lambda, state: State) -> Value:
    from gradguard.static.program.functions import FunctionRef

    body = t.as_function(expr)
    ref = FunctionRef(flow.module, body, flow.ref.chunk, None, flow, variant=flow.ref.variant)
    return closing_over(flow, Value(kind=Kind.FUNCTION, ref=ref), body, state)


def closing_over(flow: Flow, function: Value, define: t.Define, state: State) -> Value:
    """A function that is defined here, with the graphs that it refers to.

    It refers to variables, not to values: in a loop all that are made share them, and hold what the last iteration
    left. Only what its parameters' defaults hold is its own.
    """
    held = [evaluate(flow, p.default, state) for p in define.params if p.default is not None]
    if not flow.frames and flow.facts.name != "<module>":
        own = {p.name for p in define.params}
        names = {n.id for n in define.all(t.Name)} - own
        held += [known for name in sorted(names) if (known := state.env.get(name)) is not None]
        given = (p.name for p in flow.ref.define.params if p.star and p.name in names - flow.ref.names[0])
        held += [known._replace(kind=Kind.OUTPUT) for name in given if (known := state.env.get(name)) is not None]
    graphs = [value for value in held if value.kind in (Kind.TENSOR, Kind.OUTPUT, Kind.UNKNOWN, Kind.FUNCTION)]
    roots = frozenset(r for value in graphs for r in value.roots if r.source is not Source.LEAF)
    return function._replace(roots=roots) if roots else function


def _walrus(flow: Flow, expr: t.Walrus, state: State) -> Value:
    if isinstance(expr.target, t.Name):
        flow.touch(flow.canonical(expr.target.id), state)  # no statement of the loop names it
    value = evaluate(flow, expr.value, state)
    bind(flow, expr.target, value, state, expr, expr.value)
    return value


def _starred(flow: Flow, expr: t.Starred, state: State) -> Value:

    return iterated(evaluate(flow, expr.value, state))


def _suspend(flow: Flow, expr: t.Suspend, state: State) -> Value:

    value = evaluate(flow, expr.value, state) if expr.value is not None else NOTHING
    if expr.kind == "await":
        return value
    flow.yielded.append(value if expr.kind == "yield" else iterated(value))
    flow.evaluating_at_yield |= state.evaluating
    flow.modes_at_yield.append(state.mode)
    state.lost = ()  # whoever goes on with it may compute gradients
    return UNKNOWN


def _text(flow: Flow, expr: t.Text, state: State) -> Value:
    for part in expr.parts:
        evaluate(flow, part, state)
    return NUMBER


def _slice(flow: Flow, expr: t.Slice, state: State) -> Value:
    return NUMBER


def _call(flow: Flow, expr: t.Call, state: State) -> Value:
    from gradguard.static.reading.calls import call

    return call(flow, expr, state)


_EVALUATE: dict[type, Callable[[Flow, Any, State], Value]] = {
    t.Name: _name,
    t.Constant: _constant,
    t.Attribute: _attribute,
    t.Subscript: _subscript,
    t.Operation: _operation,
    t.Conditional: _conditional,
    t.Display: _display,
    t.DictDisplay: _dict,
    t.Comprehension: comprehensions.comprehension,
    t.Lambda: _lambda,
    t.Walrus: _walrus,
    t.Starred: _starred,
    t.Suspend: _suspend,
    t.Text: _text,
    t.Slice: _slice,
    t.Call: _call,
}

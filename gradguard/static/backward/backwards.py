"""What a backward meets: a graph that another one needs again, that one has freed already, or none at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.copies import is_of_a_copy, keeps_copy_here, leaves_a_copy, leaves_a_model, left_on
from gradguard.static.backward.filled import goes_through
from gradguard.static.backward.left_modules import leaves_a_module
from gradguard.static.backward.made_leaves import made_leaf
from gradguard.static.losses.constant_terms import constant_terms
from gradguard.static.model import Backward, Form, GradCall, Loop, Store, ZeroGrad
from gradguard.static.program.classes import Class
from gradguard.static.program.clearing import AT_START
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import in_method
from gradguard.static.program.own_methods import methods_of
from gradguard.static.program.paths import is_part
from gradguard.static.reading.constant_places import without_settings
from gradguard.static.reading.roots import graphs, node_of, shared
from gradguard.static.source import Site
from gradguard.static.values import Held, Kind, Root, Roots, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def judge_backward(flow: Flow, backward: Backward) -> None:
    backward.resets = _resets(flow, backward)
    if backward.create_graph is not None:
        backward.reset_around = _is_reset_around(flow)
        is_own = is_of_a_copy(flow, backward) or keeps_copy_here(flow, backward)
        backward.asks_callers = backward.loop is None and not is_own
        backward.left_on = left_on(flow, backward) if backward.inner is None else backward.left_on
        leaves_one = leaves_a_model(flow, backward) or leaves_a_module(flow, backward)
        backward.of_copy = leaves_a_copy(flow, backward) or leaves_one
        backward.asks_callers &= not leaves_one
    backward.freed_by = _freed_by(flow, backward)
    backward.carried_by = _carried_by(flow, backward)
    backward.cut_at = _cut_at(flow, backward)
    backward.leaf_at = made_leaf(flow, backward)
    backward.numbers = constant_terms(flow, backward)
    if backward.retain_graph is None:
        return
    loop = backward.loop
    if _needed_in_callee(backward):
        backward.needed_again = True
        return
    value = without_settings(flow, backward.value)
    own = graphs(value.reach)
    order = flow.facts.events.index(backward)
    for other in flow.facts.events[order + 1 :]:
        if not isinstance(other, Backward | GradCall):
            continue
        later = without_settings(flow, other.value)
        if not own or not other.value.reach or shared(value, later) or _may_be_left_by(own, later):
            backward.needed_again = True
            return
    if _is_handed_to_another(flow, value, order) or _is_kept_for_another(flow, backward):
        backward.needed_again = True
        return
    if loop is None:
        return
    made = frozenset(r for r in own if r.source in (Source.GRAPH, Source.LOSS))
    if any(not _lies_in(root, loop) for root in made):
        backward.needed_again = True  # what was made before the loop is gone through in every iteration
        return
    if _is_made_before(flow, backward, loop):
        backward.needed_again = True
        return
    backward.carries = next(
        (
            in_method(path) for (path, where), carry in flow.carries.items()
            if where is loop and carry.grows and Root(Source.CARRIED, (path, loop)) in backward.value.reach
            and any(s.path == path and s.carries_graph for s in flow.facts.stores)
        ),
        None,
    )  # fmt: skip
    if backward.carries is None:
        # A graph that only variables of the callee held is gone when that returns, whatever backward retained.
        again = any(_brings_graph(flow, root, loop) for root in backward.value.reach)
        gone = backward.inner is not None and not any(v.reach & made for v in flow.final.env.values())
        returned = backward.conditional and not flow.facts.returns.reach.isdisjoint(made)
        backward.needed_again = again or gone or returned or not _made_in(loop, value)


def _is_made_before(flow: Flow, backward: Backward, loop: Loop) -> bool:
    """Whether a loop goes over losses of one batch that it puts into a list, of what was computed before it.

    ``values = self.run_all(x)``; ``for i in range(agents): losses.append(loss(values[i])); losses[i].backward()``.
    """
    carried = {r.key[0] for r in backward.value.reach if _of_loop(r, loop) and isinstance(r.key, tuple)}
    ends = [flow.carries[path, loop].end for path in carried if (path, loop) in flow.carries]
    made = [r for r in backward.value.reach if r.source in (Source.GRAPH, Source.LOSS, Source.CALL)]
    is_listed = any(end.kind is Kind.CONTAINER for end in ends)
    return is_listed and bool(made) and not loop.forwards and not any(_lies_in(root, loop) for root in made)


def _brings_graph(flow: Flow, root: Root, loop: Loop) -> bool:
    """Whether a value may have a graph of the iteration before: it is not cut as that ends, `h = h.detach()`."""
    if root.source is not Source.CARRIED or not _of_loop(root, loop):
        return False
    carry = flow.carries.get(root.key)  # type: ignore[call-overload]
    return carry is None or carry.grows or bool(carry.end.reach)


def _is_handed_to_another(flow: Flow, value: Value, order: int) -> bool:
    """Whether the graph of a value goes, after an event, into a call that may do a backward over it."""
    later = [call for call, (place, given) in flow.handed.items() if place > order and shared(value, given)]
    return any(_may_backpropagate(flow, call) for call in later)


def _is_kept_for_another(flow: Flow, backward: Backward) -> bool:
    """Whether an attribute keeps what shares the graph, and another method of the object goes through it later.

    ``self.values.append(value)`` beside the backward of the policy, with which it has all but its last layer in common.
    """
    own = frozenset(root for root in backward.value.reach if root.source is Source.GRAPH)
    kept = {path for path, value in flow.final.env.items() if path.startswith("self.") and value.reach & own}
    methods = methods_of(flow.ref.owner) if kept and flow.ref.owner is not None else []
    node = backward.source.site.node
    others = (ref for ref in methods if ref.trains and ref.define is not flow.ref.define)
    return any(not kept.isdisjoint(_attributes(ref)) for ref in others if node not in ref.define.nodes)


def _attributes(ref: FunctionRef) -> Iterator[str]:
    return (path for node in ref.define.all(t.Attribute) if (path := t.path_of(node)) is not None)


def _may_backpropagate(flow: Flow, call: t.Call) -> bool:
    """Whether something of the program that a call may run does a backward: ``for penalty in all: penalty(out)``."""
    func = call.func
    methods = _methods(flow, func.name) if isinstance(func, t.Attribute) else []
    if not methods and (not isinstance(func, t.Attribute) or t.path_of(func.value) == "self"):
        methods = _methods(flow, "__call__")
    return any(ref.trains or any(own.trains for own in _own_methods(ref)) for ref in methods)


def _methods(flow: Flow, name: str) -> list[FunctionRef]:
    survey = flow.project.survey
    return [*survey.methods_of_modules(name, flow.module), *survey.methods_of_no_modules(name, flow.module)]


def _own_methods(ref: FunctionRef) -> Iterator[FunctionRef]:
    """The methods of its own object that a method calls."""
    found = (ref.owner.method(name) if ref.owner is not None else None for name in ref.own_calls)
    return (method for method in found if method is not None)


def _may_be_left_by(graphs_of: Roots, value: Value) -> bool:
    """Whether a value may be what the forward of a graph left somewhere: ``model.kl``, ``model.aux_loss()``.

    Args:
        graphs_of: where the graph began, the calls of modules among it.
    """
    if any(root.source is Source.PLACE for root in value.reach):
        return True
    calls = [call for root in graphs_of if isinstance(call := node_of(root.key), t.Call)]
    funcs = [call.func for call in calls]
    ran = (*funcs, *(func.value for func in funcs if isinstance(func, t.Attribute)))  # model(x), model.loss(x)
    modules = {path for each in ran if (path := t.path_of(each)) is not None}
    asked = (call for root in value.reach if root.source in (Source.CALL, Source.LOSS) for call in [node_of(root.key)])
    return any(isinstance(call, t.Call) and _asks_only(call, modules) for call in asked)


def _asks_only(call: t.Call, modules: set[str]) -> bool:
    """Whether a call is a method of a module, or a function, that is given nothing else: ``penalties(model)``."""
    given = [t.path_of(arg.value) for arg in call.args]
    owner = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
    return (owner in modules and not given) or (bool(given) and all(path in modules for path in given))


def _needed_in_callee(backward: Backward) -> bool:
    """Whether a loop of the function that was called runs it over one graph again, or is where it is reported."""
    inner = backward.inner
    if not isinstance(inner, Backward):
        return False
    judged = inner.needed_again or (inner.loop is not None and inner.carries is not None)
    return judged or _needed_in_callee(inner)


_ADDS_GROUPS = re.compile(r"\.add_param_group\(")
_FREEZES = re.compile(r"requires_grad\s*=\s*False|requires_grad_\(\s*(?:requires_grad\s*=\s*)?False|freeze|frozen")


def judge_grad_call(flow: Flow, call: GradCall) -> None:
    """Fill in whether ``autograd.grad`` is asked of a value without a graph."""
    call.cut_at = _cut_at(flow, call)


def _freed_by(flow: Flow, backward: Backward) -> Backward | GradCall | None:
    """The backward or ``grad`` that surely ran before over a part of this graph, and freed what it saved."""
    own = _made_here(flow, backward.value)
    if not own or _may_not_run(flow, backward):
        return None
    order = flow.facts.events.index(backward)
    for other in flow.facts.events[:order]:
        if not isinstance(other, Backward | GradCall) or other.keeps or other.inner is not None or other.conditional:
            continue
        gone = _made_here(flow, other.value)
        if isinstance(other, GradCall):
            gone -= _made_here(flow, other.inputs)
        again = own & gone if other.loop is backward.loop else frozenset()
        if any(_in_same_iteration(r, backward) for r in again):
            return other
    loop = backward.loop
    if loop is None or not _runs_again(backward, loop):
        return None
    if any(r.source is Source.CARRIED for r in backward.value.reach):
        return None  # made anew in the loop as well
    before = frozenset(r for r in own if not _lies_in(r, loop))
    return backward if before and not _are_of_several(flow, loop, before) else None


def _are_of_several(flow: Flow, loop: Loop, graphs: Roots) -> bool:
    """Whether graphs are those of the losses that a loop goes over, and none is in each: ``for loss in losses``."""
    stmt = loop.site.node
    if not isinstance(stmt, t.Repeat) or stmt.iterable is None:
        return False
    given = stmt.iterable
    while isinstance(given, t.Call):  # losses.values(), enumerate(losses)
        if given.args:
            given = given.args[0].value
        elif isinstance(given.func, t.Attribute):
            given = given.func.value
        else:
            return False
    items = given.items if isinstance(given, t.Display) else [given]
    known = [flow.read(flow.canonical(path), flow.final) for item in items if (path := t.path_of(item)) is not None]
    if not graphs <= frozenset().union(*(value.reach for value in known)):
        return False
    each = known if isinstance(given, t.Display) else [part for value in known for _, part in value.parts]
    return len(each) < 2 or not frozenset.intersection(*(_made_here(flow, value) for value in each))


def _may_not_run(flow: Flow, backward: Backward) -> bool:
    """Whether it is a callee's, or under a condition, or somebody waits for its exception, or it may have no graph."""
    elsewhere = backward.inner is not None or backward.conditional or backward.guarded
    return elsewhere or flow.project.survey.mentions(_FREEZES, flow.module)


def _runs_again(backward: Backward, loop: Loop) -> bool:
    """Whether it frees the graph and runs in a second iteration."""
    return not backward.keeps and not loop.leaves_early and (loop.count is None or loop.count >= 2)


def _carried_by(flow: Flow, backward: Backward) -> Store | None:
    """What brings the graph of the iteration before into this one, where that same backward has freed it."""
    loop = backward.loop
    if loop is None or not _runs_again(backward, loop) or _may_not_run(flow, backward):
        return None
    for store in flow.facts.stores:
        carry = flow.carries.get((store.path, loop)) if store.loop is loop and store.form is Form.REBIND else None
        carried = Root(Source.CARRIED, (store.path, loop))
        if carry is None or not carry.grows or store.conditional or carried not in backward.value.roots:
            continue
        again = carry.end.roots & backward.value.roots
        if any(r.source is Source.GRAPH and r.key in flow.one_graph for r in again):
            return None if _is_set_elsewhere(flow, store) else store
    return None


def _is_set_elsewhere(flow: Flow, store: Store) -> bool:
    """Whether a function that the loop was not seen to call sets the same attribute: a handler that detaches it."""
    if "." not in store.path:
        return False
    name = re.escape(store.holder)
    sets = re.compile(rf"\.{name}(?:\[[^\]]*\])?\s*(?:,[^=(]*)?=(?!=)|\.{name}\b[^=\n]*\.detach_\(")
    seen = {function for function, _ in store.through} | {flow.facts.name, *AT_START}
    survey = flow.project.survey
    return survey.acts(store.holder, sets, flow.module, seen) or survey.sets_by_name(store.holder, flow.module)


def _made_here(flow: Flow, value: Value) -> Roots:
    """The roots at which this function, or one that was read, made a graph that surely saves tensors, and is one.

    What a module returns in a tuple may be of networks that have nothing in common: an actor and a critic.
    """
    return frozenset(r for r in value.roots if r.source is Source.GRAPH and r.key in flow.one_graph)


def _in_same_iteration(root: Root, backward: Backward) -> bool:
    """Whether what the root stands for is computed once for each time that the backward runs."""
    loop = backward.loop
    if loop is None:
        return True
    inner = (n for n in loop.nodes if isinstance(n, t.Repeat) and n is not loop.site.node)
    return _lies_in(root, loop) and not any(root.key in set(t.walk(n)) for n in inner)


def _lies_in(root: Root, loop: Loop) -> bool:
    return loop.has(node_of(root.key))


def _cut_at(flow: Flow, backward: Backward | GradCall) -> Site | None:
    """Where the graph was cut of a value that surely has none."""
    value = backward.value
    if value.reach or value.kind not in (Kind.TENSOR, Kind.OUTPUT) or backward.inner is not None or backward.guarded:
        return None
    cuts = [node for h in value.holding(Held.CUT) if (node := node_of(h.key)) is not None and node.origin is not None]
    return max((flow.site(n) for n in cuts), key=lambda s: s.span, default=None)


def _of_loop(root: Root, loop: Loop) -> bool:
    return isinstance(root.key, tuple) and root.key[1] is loop


def _made_in(loop: Loop, value: Value) -> bool:
    """Whether the whole graph of a value is made inside one iteration, as far as it was seen."""
    runs = {run.site.node for run in loop.forwards}
    fresh = False
    sources = {root.source for root in value.reach}
    if Source.PARAM in sources and sources <= {Source.PARAM, Source.LOSS}:
        return False  # criterion(scores[i:j], y[i:j]): the graph is that of the scores, which somebody handed over
    for root in value.reach:
        if root.source in (Source.GRAPH, Source.CALL, Source.LOSS):
            node = node_of(root.key)
            if not loop.has(node):
                return False
            fresh = fresh or root.source in (Source.GRAPH, Source.LOSS) or node in runs
        elif root.source is Source.PLACE:
            return False
    return fresh


def _resets(flow: Flow, backward: Backward) -> list[ZeroGrad]:
    zero_grads = flow.facts.zero_grads
    if backward.create_graph is not None:
        # Zeroing in place keeps the gradient's graph, and the next backward adds to it.
        zero_grads = [z for z in zero_grads if z.to_none or z.target is not None]
        zero_grads = [z for z in zero_grads if not _is_of_a_part(flow, backward, z)]
    if backward.create_graph is not None and is_of_a_copy(flow, backward):
        order = flow.facts.events.index(backward)
        zero_grads = [z for z in zero_grads if flow.facts.events.index(z) > order]  # the next copy is another
    if backward.create_graph is not None and backward.loop is not None:
        inside = backward.loop.nodes
        if any(r.source is Source.LEAF and _is_input(r.key) and r.key in inside for r in backward.value.roots):
            zero_grads = [z for z in zero_grads if z.target is None]  # an optimizer does not know this leaf
    if backward.loop is None:
        return list(zero_grads)
    return [z for z in zero_grads if z.loop is None or z.loop.within(backward.loop) or backward.loop.within(z.loop)]


def _is_of_a_part(flow: Flow, backward: Backward, reset: ZeroGrad) -> bool:
    """Whether an optimizer has one part of a model that is run, ``net.head`` of ``net``, and nothing is frozen."""
    of = next(iter(reset.of)) if reset.of is not None and len(reset.of) == 1 else None
    of = _had_by_own_optimizer(flow, reset) if reset.of is None else of
    if of is None or reset.of_module:
        return False
    module, _, part = of.rpartition(".")
    model = flow.read(module, flow.final).ref if any(f.module == module for f in flow.facts.forwards) else None
    if not isinstance(model, Class) or part not in model.parts or len(model.parts) < 2:
        return False
    others = (
        f for f in flow.facts.forwards if (f.module or "").startswith(f"{module}.") and not is_part(f.module or "", of)
    )
    if not any(goes_through(backward, each) for each in others if not each.is_frozen):
        return False  # what comes before the part is cut off
    survey = flow.project.survey
    return not survey.mentions(_FREEZES, flow.module) and not survey.mentions(_ADDS_GROUPS, flow.module)


def _had_by_own_optimizer(flow: Flow, reset: ZeroGrad) -> str | None:
    """``net.head``, where an optimizer class of the program is given ``net.head.parameters()``, and hands that on."""
    made = flow.ref.assigned.get(reset.target, []) if reset.target is not None and reset.inner is None else []
    call = made[0] if len(made) == 1 else None
    cls = flow.module.value_of(call.func).ref if isinstance(call, t.Call) else None
    if not isinstance(call, t.Call) or not isinstance(cls, Class) or not cls.is_optimizer or not call.args:
        return None
    if any(method.define.name in ("zero_grad", "add_param_group") for method in methods_of(cls)):
        return None
    if not all(map(_hands_on_first, (each for each in methods_of(cls) if each.define.name == "__init__"))):
        return None
    given = call.args[0].value
    func = given.func if isinstance(given, t.Call) and not given.args else None
    is_all = isinstance(func, t.Attribute) and func.name == "parameters" and call.args[0].keyword is None
    return t.path_of(func.value) if isinstance(func, t.Attribute) and is_all else None


def _hands_on_first(constructor: FunctionRef) -> bool:
    """Whether a constructor gives its first parameter to its base as it is: ``super().__init__(params, ...)``."""
    params = [param.name for param in constructor.define.params if not param.star][1:2]
    calls = (node for node in constructor.define.all(t.Call) if node.name == "__init__")
    firsts = [t.path_of(arg.value) for call in calls for arg in call.args[:1] if arg.keyword is None]
    return bool(params) and firsts == params and params[0] not in constructor.assigned


def _is_reset_around(flow: Flow) -> bool:
    """Whether who hands this function to an optimizer's ``step`` resets the gradients, as far as the text tells."""
    name, text = flow.facts.name, flow.module.source.text
    if not name.isidentifier() or re.search(rf"\.step\([^)\n]*\b{name}\b", text) is None:
        return False
    outer = flow.ref.outer
    return bool(outer.facts.zero_grads) if outer is not None else "zero_grad(" in text


def _is_input(leaf: object) -> bool:
    """Whether a leaf is made by ``requires_grad_()`` or ``requires_grad=True``: an input, not a parameter."""
    if not isinstance(leaf, t.Call):
        return False
    by_method = isinstance(leaf.func, t.Attribute) and leaf.func.name == "requires_grad_"
    return by_method or leaf.is_true("requires_grad")

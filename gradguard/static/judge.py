"""What can only be said when the whole function was read: which stores leak.

Everything here is a question about roots; see ``values``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.backward.backwards import judge_backward, judge_grad_call
from gradguard.static.backward.reset_by_callers import is_reset_by_callers
from gradguard.static.kept.asked_by_callers import is_asked_for_without_grad
from gradguard.static.kept.emptied_at_end import is_emptied_at_end
from gradguard.static.kept.emptied_names import emptied_name
from gradguard.static.kept.hooks import judge_hook
from gradguard.static.kept.memory import COLLECTING, cleared, is_cut, judge_memory
from gradguard.static.kept.read_again import is_read_again, is_read_at_its_end
from gradguard.static.kept.wholes import note_wholes
from gradguard.static.model import Backward, Event, Form, GradCall, Loop, Mode, Scope, Site, Store
from gradguard.static.program.handed_functions import is_run_by_others
from gradguard.static.program.objects import is_given
from gradguard.static.program.paths import is_within
from gradguard.static.program.unknown_modules import may_cut
from gradguard.static.reading import counts, phases
from gradguard.static.reading.adds_nothing import (
    each_in_its_slot,
    is_forward_pass,
    is_one_object,
    is_over_few,
    was_there,
)
from gradguard.static.reading.forwards import judge_forwards
from gradguard.static.reading.goes_on import goes_on, through_iterations
from gradguard.static.reading.module_inputs import may_get_graphs
from gradguard.static.reading.noted import judge_call, judge_construction
from gradguard.static.reading.other_libraries import judge_foreign
from gradguard.static.reading.renewal import is_renewed
from gradguard.static.reading.roots import attaching_roots, graphs, node_of, site_of, wholes
from gradguard.static.reading.route import handing_on, in_words, route
from gradguard.static.values import Kind, Root, Roots, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def judge(flow: Flow) -> None:
    """Fill in what the rules ask of stores, backwards, hooks and calls."""
    for store in flow.facts.stores:
        _judge_store(flow, store)
        judge_memory(flow, store)
    note_wholes(flow)
    judge_foreign(flow)
    for backward in flow.facts.backwards:
        judge_backward(flow, backward)
    if flow.facts.grad_reads:
        flow.facts.assigns_gradients = flow.project.survey.mentions(_ASSIGNS_GRADIENTS, flow.module, ".grad")
    for grad_call in flow.facts.grad_calls:
        judge_grad_call(flow, grad_call)
    for hook in flow.facts.hooks:
        judge_hook(flow, hook)
    for call in flow.facts.calls:
        judge_call(flow, call)
    for made in flow.facts.constructions:
        judge_construction(flow, made)
    for loop in flow.facts.loops:
        if loop.steps and loop.parent is not None and isinstance(loop.site.node, t.Repeat):
            loop.is_once_by_default = counts.is_once_by_default(flow, loop.site.node.iterable)
    for loop in flow.facts.loops:
        judge_forwards(flow, loop)
    if len({step.target for step in flow.facts.steps}) > 1:
        for step in flow.facts.steps:  # whose parameters the module's reset concerns cannot be told
            step.lost = None if step.lost is not None and step.lost.of_module else step.lost


_ASSIGNS_GRADIENTS = re.compile(r"\.grad\s*=(?!=)\s*(?!None)")


def _judge_store(flow: Flow, store: Store) -> None:
    store.renewed = store.renewed or is_renewed(flow, store)
    if store.waits and store.evaluating:
        _judge_evaluated(flow, store)
        return
    store.is_buffer = store.form is not Form.ITEM and flow.is_buffer(store.path)
    roots = attaching_roots(flow, store.value)
    if not roots and (roots := _buffer_statistics(flow, store)):
        store.gets_graphs = lambda: may_get_graphs(flow, store)
    roots = roots or _of_iteration_before(flow, store)
    is_off = store.mode in (Mode.OFF, Mode.UNKNOWN) and not store.brings_graph
    if not roots or is_off or store.value.kind in (Kind.MODULE, Kind.HANDLE):
        return
    if not (roots := phases.possible(flow, store, roots)):
        return
    store.carries_graph = True
    store.is_loss = graphs(store.value.roots) in flow.proven_values
    known = store.start
    store.start = lambda: known() or _nearest(flow, roots)
    _judge_lifetime(flow, store)
    if store.leaks and store.outlives is not None and isinstance(store.outlives.site.node, t.Repeat):
        store.outlives.is_once_by_default = counts.is_once(flow, store.outlives.site.node.iterable)
        store.few_times = _ends_with_few(flow, store, store.outlives)
    if store.leaks:
        store.may_be_cut = lambda: may_cut(flow, store)
        store.emptied_name = lambda: emptied_name(flow, store.path)
        store.is_read_again = lambda: is_read_again(flow, store)
        store.is_asked_for = lambda: is_asked_for_without_grad(flow, store)
        way = _longest_way(flow, store, roots)
        store.route = in_words(flow, way)
        on_way = [root for root in roots if node_of(root.key) in way]
        store.start = lambda: known() or _nearest(flow, on_way or roots)


def _ends_with_few(flow: Flow, store: Store, loop: Loop) -> bool:
    """Whether a local variable keeps the nodes of a few graphs, and goes with the call, or begins anew around them."""
    is_walk = _is_walk(flow, store, loop)
    is_local = store.scope is Scope.LOCAL or (store.form is Form.REBIND and store.path in flow.params)
    if not is_local or not (store.freed or is_walk) or not isinstance(loop.site.node, t.Repeat):
        return False
    outer = [flow.carries.get((store.path, around)) for around in loop.around() if around is not loop]
    if flow.facts.name == "<module>" or any(carry is not None and carry.grows for carry in outer):
        return False
    if is_walk and outer:
        return True  # what begins anew for each task, and has a node a step
    return counts.is_few(flow, loop.site.node.iterable, of_training=not is_walk)


def _is_walk(flow: Flow, store: Store, loop: Loop) -> bool:
    """Whether a loop only adds to a point, along its gradients, and trains nothing: such a sum saves nothing."""
    carried = Root(Source.CARRIED, (store.path, loop))
    node = store.value_site.node if store.value_site is not None else None
    is_sum = isinstance(node, t.Operation) and (node.operator in "+-" or _has_no_graph(flow, node))
    trains = bool(loop.backwards or loop.steps)
    return is_sum and not trains and bool(loop.grad_calls) and all(_stops_at(g, carried) for g in loop.grad_calls)


def _has_no_graph(flow: Flow, addend: t.Expr) -> bool:
    """Whether what is added is a number times what surely has no graph: ``args.lr * g``, of ``autograd.grad``."""
    parts = (part for part in handing_on(flow, addend) if isinstance(part, t.Name | t.Attribute))
    paths = {path for part in parts if (path := t.path_of(part)) is not None}
    roots = (root for path in paths for root in flow.read(flow.canonical(path), flow.final).reach)
    return all(root.source in (Source.PLACE, Source.PARAM) for root in roots)


def _longest_way(flow: Flow, store: Store, roots: list[Root]) -> list[t.Node]:
    """The way of the graph, where it is written in this function."""
    source = store.value_site
    if source is None or source.chunk is not flow.ref.chunk or not isinstance(source.node, t.Expr):
        return []
    starts = [node for root in roots if (node := node_of(root.key)) is not None]
    ways = (route(flow, source.node, start) for start in starts)
    return max(ways, key=lambda way: (len(way), in_words(flow, way)), default=[])


def _judge_lifetime(flow: Flow, store: Store) -> None:
    if store.is_kept_as_key:
        _judge_key(flow, store)
        return
    loop: Loop | None = store.loop
    while loop is not None:
        carry = flow.carries.get((store.path, loop))
        bounded = (
            store.capped
            or store.renewed
            or (store.form is Form.ITEM and store.bounded_key and store.keys is None)
            or each_in_its_slot(store, loop)
            or is_one_object(flow, store, loop)
            or is_forward_pass(store, loop)
        )
        grows = carry is not None and carry.grows and not bounded and goes_on(flow, store, loop)
        if carry is not None and grows and not is_over_few(loop) and not was_there(store, loop):
            _judge_in_loop(flow, store, loop, carry.fresh)
            if not store.used:
                return
        loop = loop.parent
    _judge_call(flow, store)


def _judge_key(flow: Flow, store: Store) -> None:
    """A tensor is the key of a dict: all of them stay, whatever becomes of what is there under them."""
    for loop in store.loop.around() if store.loop is not None else ():
        assigned = loop.site.node.assigned if isinstance(loop.site.node, t.Repeat) else None
        carry = flow.carries.get((store.path, loop))
        is_of_iteration = any(is_within(store.path, path) for path in (*loop.targets, *(assigned or ())))
        if is_of_iteration or (carry is not None and not carry.grows):
            return
        if loop.needs_gradients or loop.over_loader:
            store.outlives, store.used = loop, cleared(flow, store)
            return


def _judge_in_loop(flow: Flow, store: Store, loop: Loop, fresh: bool) -> None:
    """The store grows in ``loop``: does anything need the graphs, and what do they keep?"""
    own = graphs(store.value.roots)
    carried = Root(Source.CARRIED, (store.path, loop))
    inside: list[Backward | GradCall] = [b for b in loop.backwards if (graphs(b.value.reach) | wholes(b.value)) & own]
    inside += [g for g in loop.grad_calls if graphs(g.value.reach) & own or carried in g.value.reach]
    again = [b for b in loop.backwards if carried in b.value.reach]
    store.newest_needed = bool(again) and is_read_at_its_end(flow, store)
    if store.newest_needed:
        again = []
    freeing = [b for b in inside if not b.keeps]
    store.outlives = loop
    store.freed = any(_goes_through(b, own, carried) for b in freeing)
    store.retained = bool(inside) and all(b.keeps or _stops_at(b, carried) for b in inside)
    store.freed &= not store.retained
    if store.form in COLLECTING and not any(carried in b.value.roots for b in again):
        store.freed = any(b not in again and _goes_through(b, own, carried) for b in freeing)
    elif any(not b.keeps for b in again):
        store.used = True  # torch itself raises in the second iteration, or something resets it out of our sight
        return
    store.freed &= not all(_on_another_way(store, b) for b in freeing)
    if inside and _ends_with_the_step(flow, store, loop, fresh):
        store.used = True
        return
    is_descent = store.descends or _is_inner_step(store, inside)
    if is_descent and store.retained and not loop.steps and carried in flow.facts.returns.reach:
        store.used = True  # a descent that its caller backpropagates through
        return
    consumers: list[Backward | GradCall] = [*flow.facts.backwards, *flow.facts.grad_calls]
    outside = [b for b in consumers if _outside(b, loop)]
    for_later = [b for b in outside if not inside or (isinstance(b, Backward) and not freeing)]
    if any(carried in b.value.reach for b in outside) or any(graphs(b.value.reach) & own for b in for_later):
        store.used = True
        return
    if not inside and _is_unrolled(flow, store, loop):
        store.used = True
        return
    if loop.needs_gradients:
        ended = freeing or any(isinstance(b, Backward) and not b.conditional and not _may_retain(b) for b in inside)
        ended = ended or _steps_change(flow, loop, store)
        store.used = not ended and _escapes(flow, store, carried)
    elif (loop.evaluates or store.evaluating) and flow.facts.name != "forward":  # there, eval() is of a part
        store.used = flow.facts.gradients_wanted or _scores_its_choices(flow, own | {carried})
        store.used |= (fresh and _is_state_of_sequence(store, loop)) or _is_of_one_batch(flow, store, loop)
        begun = frozenset(r for r in own if r.source not in (Source.PARAM, Source.PLACE))
        store.is_returned = not (begun | {carried}).isdisjoint(flow.facts.returns.reach)
    else:
        store.used = flow.facts.is_module_method or flow.facts.name == "forward" or _escapes(flow, store, carried)
        store.waits = store.used and flow.facts.name != "forward"  # its loops are over layers
    if not fresh and not store.used and store.form in COLLECTING:
        store.used = cleared(flow, store) and not (store.freed and is_emptied_at_end(flow, store, loop))
    trains = [a for a in loop.around() if a.needs_gradients and (c := flow.carries.get((store.path, a))) and c.grows]
    store.outlives_step = bool(trains) and not store.used and _sees_every_backward(flow)


def _is_state_of_sequence(store: Store, loop: Loop) -> bool:
    """Whether a ``forward`` hands it to the state of its module, which is given one sequence step by step.

    It needs the graph from step to step in training: what is missing here is ``no_grad``, and is told of the loop.
    """
    in_forward = any(name == "forward" for name, _ in store.through)
    return store.parameter and in_forward and store.form not in COLLECTING and not loop.over_loader


def _is_of_one_batch(flow: Flow, store: Store, loop: Loop) -> bool:
    """Whether an evaluation adds up parts of what its model made of one batch, and begins anew with the next one.

    The graph is there anyway: that it is recorded at all is told of the model's call.
    """
    outer = loop.parent
    if outer is None or not outer.over_loader or loop.over_loader or store.form is not Form.SUM:
        return False
    carry = flow.carries.get((store.path, outer))
    begun = [node_of(root.key) for root in store.value.roots if root.source is Source.GRAPH]
    return (carry is None or not carry.grows) and bool(begun) and all(node not in loop.nodes for node in begun)


def _scores_its_choices(flow: Flow, through: Roots) -> bool:
    """Whether a caller gets the log-probability of what was drawn: so a policy is scored without its dropout."""
    asks = (call.func for call in flow.ref.calls if isinstance(call.func, t.Attribute))
    return not through.isdisjoint(flow.facts.returns.reach) and any(func.name == "log_prob" for func in asks)


def _goes_through(backward: Backward | GradCall, own: Roots, carried: Root) -> bool:
    """Whether a backward goes through what a value was computed by here, not only through what both came from."""
    begun = frozenset(r for r in own if r.source not in (Source.PARAM, Source.PLACE))
    reached = backward.value.reach
    return not begun or carried in reached or bool((graphs(reached) | wholes(backward.value)) & begun)


def _stops_at(event: Backward | GradCall, carried: Root) -> bool:
    """Whether ``autograd.grad(energy, x)`` goes through the graph no further than to what is carried on, ``x``."""
    return isinstance(event, GradCall) and carried in event.inputs.roots


def _on_another_way(store: Store, event: Event) -> bool:
    """Whether an iteration that stores never does this: ``if train: loss.backward()``, ``else: seen.append(out)``."""
    loop = store.loop
    if loop is None or event.loop is not loop:
        return False
    ways = [way for way in loop.nodes if isinstance(way, t.If)]
    return any(
        store.is_in(one) and not event.is_in(one) and (event.is_in(other) or t.leaves(one))
        for way in ways
        for one, other in ((way.body, way.orelse), (way.orelse, way.body))
    )


def _steps_change(flow: Flow, loop: Loop, store: Store) -> bool:
    """Whether each iteration changes the parameters that a graph goes through: torch refuses a later backward."""
    through = _modules_in(flow, store.value)
    steps = any(step.loop is loop and not step.conditional for step in loop.steps)
    trained = (b for b in loop.backwards if b.loop is loop and not b.conditional)
    return steps and any(through & _modules_in(flow, backward.value) for backward in trained)


def _modules_in(flow: Flow, value: Value) -> set[str]:
    """The modules where a graph begins: ``net`` of ``net(x)``, and of ``net.parameters()``."""
    called = (node_of(root.key) for root in value.roots if root.source in (Source.GRAPH, Source.LEAF))
    paths = (t.path_of(node.func) for node in called if isinstance(node, t.Call))
    found = {path.removesuffix(".parameters") for path in paths if path is not None}
    return {path for path in found if flow.read(flow.canonical(path), flow.final).kind is Kind.MODULE}


def _may_retain(backward: Backward) -> bool:
    """Whether somebody else says if the graph is retained, who then may have a use for it."""
    return backward.keeps and backward.retain_graph is None and backward.create_graph is None


def _ends_with_the_step(flow: Flow, store: Store, loop: Loop, fresh: bool) -> bool:
    """Whether the loop goes over parts of one batch, and the next step begins anew: one step's graphs are no leak."""
    outer = loop.parent
    if loop.over_loader:
        return False
    if outer is None:  # a function that does one step: the optimizer's comes after the loop
        return fresh and not loop.steps and any(step.loop is None for step in flow.facts.steps)
    carry = flow.carries.get((store.path, outer))
    is_step = outer.over_loader or (not loop.steps and any(s.loop is outer for s in outer.steps))
    return is_step and (carry is None or not carry.grows)


def _judge_evaluated(flow: Flow, store: Store) -> None:
    """A callee's store that leaks if nobody uses the graph, called in evaluation: does this function use it?"""
    own = graphs(store.value.roots)
    consumers: list[Backward | GradCall] = [*flow.facts.backwards, *flow.facts.grad_calls]
    store.used = any(graphs(b.value.reach) & own for b in consumers)
    store.waits = store.used


def _is_unrolled(flow: Flow, store: Store, loop: Loop) -> bool:
    """Whether a state begins anew around the loop, and a backward comes after it: the loop is one sequence in time.

    By which way the backward's value came from the state need not be seen: through parameters that were set.
    """
    outer = loop.parent
    if outer is None or store.form is not Form.REBIND:
        return False
    carry = flow.carries.get((store.path, outer))
    is_fresh = carry is None or not carry.grows
    return is_fresh and any(b.loop is outer and not b.conditional for b in flow.facts.backwards)


def _outside(event: Event, loop: Loop) -> bool:
    return event.loop is None or not event.loop.within(loop)


def _escapes(flow: Flow, store: Store, carried: Root) -> bool:
    """Whether code that was not read may get the graph: a caller, a callee, another object."""
    if store.is_average and any(r.source is Source.LEAF for r in store.value.roots):
        return False  # an average of parameters: nobody asks for its gradient
    wanted = {carried, *(r for r in graphs(store.value.roots) if r.source not in (Source.PARAM, Source.PLACE))}
    if _sees_every_backward(flow):
        consumers: list[Backward | GradCall] = [*flow.facts.backwards, *flow.facts.grad_calls]
        later = [b for b in consumers if store.outlives is not None and _outside(b, store.outlives)]
        return any(graphs(b.value.reach) & wanted for b in later)
    given: Roots = frozenset(flow.escaped | flow.facts.returns.reach)
    if store.outlives is not None:
        given = through_iterations(flow, given, store.outlives)  # the sum of the losses, of what it was computed from
    if wanted & given or _is_asked_to_act(flow, store):
        return True
    for path, value in flow.final.env.items():
        outer = flow.scope(path) not in (Scope.LOCAL, Scope.PARAMETER)
        if path != store.path and outer and wanted & value.reach:
            return True
    return store.scope is not Scope.LOCAL


def _is_asked_to_act(flow: Flow, store: Store) -> bool:
    """Whether a method may use the graph, of an object that it is stored in and whose class only the run knows.

    ``agent = AGENTS[name](config)``, ``agent.loss += penalty``, ``agent.learn()``.
    """
    owner = store.path.rpartition(".")[0]
    if not owner or flow.read(owner, flow.final).ref is not None:
        return False
    funcs = (call.func for call in flow.ref.calls)
    asked = {func.name for func in funcs if isinstance(func, t.Attribute) and t.path_of(func.value) == owner}
    return not asked <= k.OF_EVERY_MODULE


def _sees_every_backward(flow: Flow) -> bool:
    """Whether this function does every backward of the program, or calls it: nobody else asks for a gradient."""
    seen = [event.source.site for event in (*flow.facts.backwards, *flow.facts.grad_calls)]
    lines = {(site.path, line) for site in seen for line in range(site.span.line, site.span.end_line + 1)}
    survey = flow.project.survey
    if not flow.facts.backwards and survey.mentions(_TRAINERS, flow.module):
        return False  # a framework does the backward of what its loop is given
    return bool(seen) and survey.backwards(flow.module) <= lines


def _is_inner_step(store: Store, inside: Sequence[Backward | GradCall]) -> bool:
    """Whether it is a step by hand from gradients that were asked for with their graph.

    ``fast[name] = fast[name] - rate * grad`` after ``autograd.grad(loss, fast.values(), create_graph=True)``: a mean
    would add, and nobody asks for the gradients of gradients that are not wanted.
    """
    node = store.value_site.node if store.value_site is not None else None
    is_difference = isinstance(node, t.Operation) and node.operator == "-"
    return is_difference and all(isinstance(each, GradCall) for each in inside)


_TRAINERS = re.compile(r"LightningModule|\bTrainer\b|\baccelerat|\bignite\b|\bdeepspeed\b")


def _judge_call(flow: Flow, store: Store) -> None:
    """The store is into something that lives longer than the call; the function is itself one step of a loop."""
    leaves = any(r.source is Source.LEAF for r in store.value.roots)
    grows = store.is_average or store.form is Form.SUM or store.form in COLLECTING
    has_graph = grows and leaves and bool(graphs(store.value.roots))
    of_parameters = has_graph and bool(flow.facts.backwards)
    if store.scope in (Scope.LOCAL, Scope.PARAMETER):
        return
    if store.inner is not None and not store.parameter and not of_parameters:
        return
    if store.scope is Scope.CLOSURE and flow.ref.outer is not None and flow.ref.define in flow.ref.outer.applied:
        return  # judged where the closure is called
    final = flow.final.env.get(store.path)
    place = Root(Source.PLACE, store.path)
    if final is None or final.bounded or place not in final.must:
        return
    if store.capped or store.renewed or (store.form is Form.ITEM and not _new_key(store)):
        return
    own = graphs(store.value.roots)
    inside = [b for b in flow.facts.backwards if graphs(b.value.reach) & own]
    stepping = flow.facts.name in k.PER_STEP_METHODS and bool(flow.ref.owner and flow.ref.owner.framework_methods)
    given = store.path.split(".", 1)[0] in flow.params[1:]  # how long that lives, the caller knows
    forward = flow.facts.is_module_method and flow.facts.name == "forward" and not given
    if any(r.source is Source.PLACE and r.base == store.path for b in inside for r in b.value.reach):
        return
    blends = has_graph and store.inner is None and store.form not in COLLECTING and _is_over_parameters(store)
    if not (inside or stepping or forward or of_parameters or (blends and is_run_by_others(flow))):
        return
    if store.form is Form.REBIND and not inside and not _buffer_statistics(flow, store):
        return
    if (store.form in COLLECTING or forward) and (_is_shared(flow, store) or cleared(flow, store)):
        return
    if store.form not in COLLECTING and forward and is_cut(flow, store):
        return
    store.renewed = store.form is Form.SUM and is_reset_by_callers(flow, store.path)
    if store.renewed:
        return
    store.outlives = None
    store.outlives_call = True
    store.used = False
    store.freed = any(not b.keeps for b in inside) or (stepping and not inside)
    store.retained = bool(inside) and not store.freed


def _is_over_parameters(store: Store) -> bool:
    return store.loop is not None and store.loop.over_parts


def _is_shared(flow: Flow, store: Store) -> bool:
    """Whether a collection is one that whoever made the object gave it, and may empty by another name."""
    owner, (base, _, name) = flow.ref.owner, store.path.partition(".")
    return owner is not None and base == "self" and is_given(owner, name)


def _new_key(store: Store) -> bool:
    """Whether each call stores under another key, as far as its name tells."""
    if store.bounded_key or store.key is None:
        return store.keys is not None
    return k.GROWING_KEY.search(store.key) is not None


def _buffer_statistics(flow: Flow, store: Store) -> list[Root]:
    """A registered buffer that ``forward`` updates from its input: the input carries the graph of what came before."""
    owner = flow.ref.owner
    if owner is None or flow.facts.name != "forward" or store.mode is not Mode.INHERITED or flow.facts.is_test:
        return []
    if not store.is_buffer:
        return []
    return [r for r in store.value.roots if r.source in (Source.PARAM, Source.GRAPH)]


def _of_iteration_before(flow: Flow, store: Store) -> list[Root]:
    """The graphs of what is stored as it was when the iteration began: ``before = state``, ``state = f(x, before)``."""
    left = {root: found for root in store.value.roots if (found := _left_to_next(flow, store, root))}
    roots = [root for found in left.values() for root in found]
    if roots:
        store.value = store.value.with_roots(*roots)
        bringing = (site for value, site in store.among if not value.roots.isdisjoint(left))
        store.value_site = next(bringing, store.value_site)
    return roots


def _left_to_next(flow: Flow, store: Store, root: Root) -> list[Root]:
    """The graphs that an iteration leaves in a variable, other than what is stored into, for the next one."""
    is_carried = root.source is Source.CARRIED and isinstance(root.key, tuple) and root.key[0] != store.path
    carry = flow.carries.get(root.key) if is_carried else None  # type: ignore[call-overload]
    return attaching_roots(flow, carry.end) if carry is not None else []


def _nearest(flow: Flow, roots: list[Root]) -> Site | None:
    """The last expression in the source that starts the graph; of several in one line the outermost."""
    sites = [site for root in roots if (site := site_of(flow, root)) is not None]
    line = max((site.line for site in sites), default=0)
    last = [site for site in sites if site.line == line]
    return max(last, key=lambda s: (-s.span.column, s.span.end_column)) if len(last) > 1 else next(iter(last), None)

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
from gradguard.static.backward.changed_between import changed_between
from gradguard.static.backward.changed_in_place import changed_in_place
from gradguard.static.backward.counted_twice import counted_twice
from gradguard.static.backward.discarded import discarded, dropped_gradients
from gradguard.static.backward.evaluated_again import evaluated_again
from gradguard.static.backward.frozen_inputs import frozen_inputs
from gradguard.static.backward.idle_gradients import idle_gradients
from gradguard.static.backward.missing_gradients import missing_gradients, without_gradient
from gradguard.static.backward.partly_reset import partly_reset
from gradguard.static.backward.passed_over import passed_over
from gradguard.static.backward.perturbed_between import perturbed_between
from gradguard.static.backward.replayed_draws import replayed_draws
from gradguard.static.backward.reset_by_callers import is_reset_by_callers
from gradguard.static.backward.stepped_between import stepped_between
from gradguard.static.backward.tied_leaves import tied_leaves
from gradguard.static.backward.uncalled import uncalled
from gradguard.static.backward.unguarded import unguarded
from gradguard.static.backward.unscaled import unscaled
from gradguard.static.backward.unused_graphs import unused_graphs
from gradguard.static.backward.wasted_backwards import wasted_backwards
from gradguard.static.backward.written_behind import written_behind
from gradguard.static.evaluation.awaited_words import awaited_words
from gradguard.static.evaluation.evaluated_once import evaluated_once
from gradguard.static.evaluation.frozen_in_training import frozen_in_training
from gradguard.static.evaluation.never_in_evaluation import never_in_evaluation
from gradguard.static.evaluation.not_entered import not_entered
from gradguard.static.evaluation.put_off import put_off
from gradguard.static.evaluation.thrown_away import thrown_away
from gradguard.static.kept.asked_by_callers import is_asked_for_without_grad
from gradguard.static.kept.class_lists import class_lists
from gradguard.static.kept.counted_keys import counted_keys
from gradguard.static.kept.cut_when_read import cut_when_read
from gradguard.static.kept.default_lists import default_lists
from gradguard.static.kept.emptied_at_end import is_emptied_at_end
from gradguard.static.kept.emptied_names import emptied_name
from gradguard.static.kept.exit_stacks import left_on_stacks
from gradguard.static.kept.finalizers import kept_by_finalizers
from gradguard.static.kept.forgotten_handles import forgotten_handles
from gradguard.static.kept.hooks import judge_hook
from gradguard.static.kept.kept_contexts import kept_contexts
from gradguard.static.kept.keys_given import keys_given
from gradguard.static.kept.keys_kept import is_given_kept
from gradguard.static.kept.left_by_errors import left_by_errors
from gradguard.static.kept.left_running import left_running
from gradguard.static.kept.made_by_properties import made_by_properties
from gradguard.static.kept.memory import COLLECTING, cleared, is_cut, judge_memory
from gradguard.static.kept.never_reset import never_reset
from gradguard.static.kept.over_limit import over_limit
from gradguard.static.kept.packed import put_away
from gradguard.static.kept.random_keys import random_keys
from gradguard.static.kept.read_again import is_read_again, is_read_at_its_end
from gradguard.static.kept.recorded_runs import recorded_runs
from gradguard.static.kept.renewed_keys import renewed_keys
from gradguard.static.kept.replaced_states import replaced_states
from gradguard.static.kept.scheduled_keys import scheduled_keys
from gradguard.static.kept.tensor_keys import tensor_keys
from gradguard.static.kept.trimmed_never import trimmed_never
from gradguard.static.kept.varied_keys import varied_keys
from gradguard.static.kept.weak_keys import kept_keys
from gradguard.static.kept.wholes import note_wholes
from gradguard.static.kept.wrapped_again import wrapped_again
from gradguard.static.losses.cancelled_ratios import cancelled_ratios
from gradguard.static.losses.cut_each_step import cut_each_step
from gradguard.static.losses.cut_terms import cut_terms
from gradguard.static.losses.detached_starts import detached_starts
from gradguard.static.losses.drawn import drawn
from gradguard.static.losses.estimated_early import estimated_early
from gradguard.static.losses.exchanged_estimators import exchanged
from gradguard.static.losses.live_advantages import live_advantages
from gradguard.static.losses.live_multipliers import live_multipliers
from gradguard.static.losses.moving_targets import moving_targets
from gradguard.static.losses.never_recorded import never_recorded
from gradguard.static.losses.normalised_twice import normalised_twice
from gradguard.static.losses.only_detached import only_detached
from gradguard.static.losses.overwritten_terms import overwritten_terms
from gradguard.static.losses.renewed_anchors import renewed_anchors
from gradguard.static.losses.straight_through import cancelled
from gradguard.static.losses.taken_as_numbers import taken_as_numbers
from gradguard.static.losses.uneven_cuts import uneven_cuts
from gradguard.static.model import Backward, Event, Form, GradCall, Loop, Mode, Scope, Site, Store
from gradguard.static.optimizers.averaged_gradients import averaged_gradients
from gradguard.static.optimizers.broken_ties import broken_ties
from gradguard.static.optimizers.computed_parameters import computed_of_parameters, never_registered
from gradguard.static.optimizers.idle_optimizers import idle_optimizers
from gradguard.static.optimizers.idle_schedulers import idle_schedulers
from gradguard.static.optimizers.leaf_attributes import leaves_made, never_trained
from gradguard.static.optimizers.left_out import left_out
from gradguard.static.optimizers.live_states import live_states
from gradguard.static.optimizers.made_when_run import made_when_run
from gradguard.static.optimizers.micro_steps import micro_steps
from gradguard.static.optimizers.moved_frozen import moved_frozen
from gradguard.static.optimizers.never_unfrozen import never_unfrozen
from gradguard.static.optimizers.plateau_directions import plateau_directions
from gradguard.static.optimizers.rebound_updates import rebound_updates
from gradguard.static.optimizers.renewed_scalers import renewed_scalers
from gradguard.static.optimizers.replaced import replacements
from gradguard.static.optimizers.replaced_by_heirs import replaced_by_heirs
from gradguard.static.optimizers.replaced_by_methods import replaced_by_methods
from gradguard.static.optimizers.schedule_lengths import schedule_lengths
from gradguard.static.optimizers.schedulers_first import schedulers_first
from gradguard.static.optimizers.set_on_modules import set_on_modules
from gradguard.static.optimizers.set_on_optimizers import set_on_optimizers
from gradguard.static.optimizers.spent_iterators import spent_iterators
from gradguard.static.optimizers.stale_by_methods import stale_by_methods
from gradguard.static.optimizers.stale_from_outside import stale_from_outside
from gradguard.static.optimizers.stale_schedulers import stale_schedulers
from gradguard.static.optimizers.stepped_twice import stepped_twice
from gradguard.static.optimizers.tied_by_data import tied_by_data
from gradguard.static.optimizers.trained_averages import trained_averages
from gradguard.static.optimizers.trained_teachers import trained_teachers
from gradguard.static.optimizers.unapplied_rates import unapplied_rates
from gradguard.static.optimizers.unfrozen_later import unfrozen_later
from gradguard.static.optimizers.unreached import unreached
from gradguard.static.optimizers.unregistered import kept_in_collections, unregistered
from gradguard.static.optimizers.without_optimizer import made_with_parameters, without_optimizer
from gradguard.static.optimizers.zero_factors import zero_factors
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
from gradguard.static.reading.autograd_functions import kept_outputs
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
    flow.facts.replacements = lambda: [
        *replacements(flow),
        *replaced_by_methods(flow),
        *replaced_by_heirs(flow),
        *unfrozen_later(flow),
        *made_when_run(flow),
    ]
    flow.facts.stale_schedulers = lambda: [
        *stale_schedulers(flow),
        *stale_by_methods(flow),
        *stale_from_outside(flow),
    ]
    flow.facts.stepped_twice = lambda: list(stepped_twice(flow))
    flow.facts.set_on_optimizers = lambda: list(set_on_optimizers(flow))
    flow.facts.schedulers_first = lambda: list(schedulers_first(flow))
    flow.facts.frozen_inputs = lambda: list(frozen_inputs(flow))
    flow.facts.unapplied_rates = lambda: list(unapplied_rates(flow))
    flow.facts.idle_optimizers = lambda: list(idle_optimizers(flow))
    flow.facts.idle_schedulers = lambda: list(idle_schedulers(flow))
    flow.facts.plateau_directions = lambda: list(plateau_directions(flow))
    flow.facts.renewed_scalers = lambda: list(renewed_scalers(flow))
    flow.facts.schedule_lengths = lambda: [*schedule_lengths(flow), *micro_steps(flow)]
    flow.facts.broken_ties = lambda: broken_ties(flow)
    flow.facts.frozen_in_training = lambda: list(frozen_in_training(flow))
    flow.facts.trained_teachers = lambda: list(trained_teachers(flow))
    if flow.facts.forwards:
        flow.facts.never_in_evaluation = lambda: list(never_in_evaluation(flow))
    flow.facts.put_off = lambda: list(put_off(flow))
    flow.facts.awaited_words = lambda: list(awaited_words(flow))
    flow.facts.thrown_away = lambda: list(thrown_away(flow))
    flow.facts.not_entered = lambda: list(not_entered(flow))
    flow.facts.evaluated_once = lambda: evaluated_once(flow)
    flow.facts.never_recorded = lambda: list(never_recorded(flow))
    flow.facts.normalised_twice = lambda: list(normalised_twice(flow))
    flow.facts.zero_factors = lambda: list(zero_factors(flow))
    flow.facts.moving_targets = lambda: list(moving_targets(flow))
    flow.facts.trained_averages = lambda: list(trained_averages(flow))
    if flow.ref.define.is_generator and flow.ref.define.decorators:
        flow.facts.left_by_errors = lambda: list(left_by_errors(flow))
    flow.facts.kept_contexts = lambda: list(kept_contexts(flow))
    flow.facts.kept_keys = lambda: list(kept_keys(flow))
    flow.facts.live_advantages = lambda: list(live_advantages(flow))
    flow.facts.live_states = lambda: list(live_states(flow))
    flow.facts.uncalled = lambda: list(uncalled(flow))
    flow.facts.discarded = lambda: list(discarded(flow))
    flow.facts.dropped_gradients = lambda: list(dropped_gradients(flow))
    flow.facts.rebound_updates = lambda: list(rebound_updates(flow))
    flow.facts.set_on_modules = lambda: list(set_on_modules(flow))
    flow.facts.spent_iterators = lambda: spent_iterators(flow)
    if len(flow.facts.backwards) > 1:
        flow.facts.counted_twice = lambda: list(counted_twice(flow))
    flow.facts.cut_each_step = lambda: list(cut_each_step(flow))
    flow.facts.uneven_cuts = lambda: list(uneven_cuts(flow))
    flow.facts.drawn = lambda: list(drawn(flow))
    flow.facts.estimated_early = lambda: list(estimated_early(flow))
    flow.facts.cancelled_ratios = lambda: list(cancelled_ratios(flow))
    flow.facts.cancelled = lambda: list(cancelled(flow))
    flow.facts.exchanged = lambda: list(exchanged(flow))
    flow.facts.recorded_runs = lambda: list(recorded_runs(flow))
    flow.facts.wrapped_again = lambda: list(wrapped_again(flow))
    if flow.written:
        flow.facts.written_behind = lambda: list(written_behind(flow))
    flow.facts.tied_leaves = lambda: list(tied_leaves(flow))
    flow.facts.perturbed_between = lambda: list(perturbed_between(flow))
    flow.facts.changed_in_place = lambda: list(changed_in_place(flow))
    flow.facts.tied_by_data = lambda: list(tied_by_data(flow))
    flow.facts.overwritten_terms = lambda: list(overwritten_terms(flow))
    flow.facts.only_detached = lambda: [*only_detached(flow), *taken_as_numbers(flow)]
    flow.facts.trimmed_never = lambda: list(trimmed_never(flow))
    flow.facts.left_running = lambda: list(left_running(flow))
    flow.facts.left_on_stacks = lambda: list(left_on_stacks(flow))
    flow.facts.put_away = lambda: list(put_away(flow))
    flow.facts.default_lists = lambda: list(default_lists(flow))
    flow.facts.class_lists = lambda: list(class_lists(flow))
    flow.facts.tensor_keys = lambda: [*tensor_keys(flow), *keys_given(flow)]
    flow.facts.never_reset = lambda: list(never_reset(flow))
    flow.facts.replayed_draws = lambda: list(replayed_draws(flow))
    flow.facts.left_out = lambda: list(left_out(flow))
    flow.facts.counted_keys = lambda: list(counted_keys(flow))
    flow.facts.forgotten_handles = lambda: list(forgotten_handles(flow))
    flow.facts.made_by_properties = lambda: list(made_by_properties(flow))
    flow.facts.kept_by_finalizers = lambda: list(kept_by_finalizers(flow))
    flow.facts.renewed_keys = lambda: list(renewed_keys(flow))
    flow.facts.random_keys = lambda: list(random_keys(flow))
    flow.facts.scheduled_keys = lambda: list(scheduled_keys(flow))
    flow.facts.averaged_gradients = lambda: list(averaged_gradients(flow))
    flow.facts.cut_when_read = lambda: list(cut_when_read(flow))
    flow.facts.over_limit = lambda: list(over_limit(flow))
    flow.facts.replaced_states = lambda: list(replaced_states(flow))
    if flow.facts.cached is not None:
        flow.facts.is_given_kept = lambda: is_given_kept(flow)
        flow.facts.varied_keys = lambda: list(varied_keys(flow))
    if without := without_gradient(flow):
        flow.facts.missing_gradients = lambda: missing_gradients(flow, without)
    if flow.facts.forwards:
        flow.facts.unused_graphs = lambda: list(unused_graphs(flow))
    if kept := kept_in_collections(flow):
        flow.facts.unregistered = lambda: unregistered(flow, kept)
    if leaves := leaves_made(flow):
        flow.facts.unregistered_leaves = lambda: never_trained(flow, leaves)
    if computed := computed_of_parameters(flow):
        flow.facts.unregistered_results = lambda: never_registered(flow, computed)
    if flow.facts.backwards and flow.facts.steps:
        flow.facts.idle_gradients = lambda: list(idle_gradients(flow))
    if flow.facts.backwards:
        flow.facts.live_multipliers = lambda: list(live_multipliers(flow))
        flow.facts.changed_between = lambda: list(changed_between(flow))
        flow.facts.stepped_between = lambda: list(stepped_between(flow))
    if flow.facts.backwards and flow.facts.grad_calls and flow.facts.steps:
        flow.facts.detached_starts = lambda: list(detached_starts(flow))
    if flow.facts.zero_grads:
        flow.facts.moved_frozen = lambda: list(moved_frozen(flow))
        flow.facts.partly_reset = lambda: list(partly_reset(flow))
    if flow.facts.steps:
        flow.facts.evaluated_again = lambda: list(evaluated_again(flow))
        flow.facts.never_unfrozen = lambda: never_unfrozen(flow)
        flow.facts.unguarded = lambda: list(unguarded(flow))
        flow.facts.unscaled = lambda: list(unscaled(flow))
        flow.facts.passed_over = lambda: list(passed_over(flow))
        flow.facts.renewed_anchors = lambda: list(renewed_anchors(flow))
        flow.facts.wasted_backwards = lambda: list(wasted_backwards(flow))
        flow.facts.unreached = lambda: list(unreached(flow))
        flow.facts.cut_terms = lambda: list(cut_terms(flow))
    if candidates := made_with_parameters(flow):
        flow.facts.without_optimizer = lambda: without_optimizer(flow, candidates)
    flow.facts.kept_outputs = lambda: kept_outputs(flow)
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

"""Optimizers that step between a forward and its backward, which needs the weights as they were.

A step changes the parameters in place, and counts that: the backward raises. That takes a module whose weights the
backward computes with (see ``needed_weights``), gradients for the step to go by, and a step on every way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.needed_weights import gives_one, is_of_torch, needs_weights
from gradguard.static.mistakes.backward import SteppedBetween
from gradguard.static.model import Backward, Event, Forward, Mode, OpaqueCall, Step, ZeroGrad
from gradguard.static.optimizers.optimized import overlap
from gradguard.static.program.paths import is_part
from gradguard.static.source import Site
from gradguard.static.values import Kind, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What has the forward compute with copies of the weights, or the backward compute the forward anew; a step that is not
# counted; optimizers of some of the parameters.
_OTHERWISE = re.compile(
    r"autocast|\bamp\b|(?<![Dd]istributed)DataParallel\(|FullyShardedDataParallel|\bFSDP\b|deepspeed|functional_call|"
    r"torch\.utils(?:\.|\s+import\s+)checkpoint|gradient_checkpointing|fused\s*=\s*True|"
    r"parameters\([^()\n]*\)\s*\n?\s*if\s+(?!\w+\.requires_grad\s*[\])])",
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_OF_OPTIMIZERS = frozenset("opt opts optim optimizer optimiser solver adam sgd self".split())
_OF_MODULES = frozenset("net network model self".split())


def stepped_between(flow: Flow) -> Iterator[SteppedBetween]:
    """The backwards of a function before which a step has changed what they need."""
    facts = flow.facts
    if facts.is_test or not facts.steps or (len(facts.backwards) == 1 and not facts.backwards[0].keeps):
        return
    told: set[Site] = set()
    for backward in facts.backwards:
        found = _found(flow, backward) if _may_raise(backward) else None
        if found is not None and found.site not in told:
            told.add(found.site)
            if facts.switches_gradients() or flow.project.survey.mentions(_OTHERWISE, flow.module):
                return
            yield found


def _may_raise(backward: Backward) -> bool:
    """Whether a backward goes through all of its graph, and raises for no other reason."""
    is_other = backward.guarded or backward.freed_by is not None or backward.carried_by is not None
    return not is_other and not _has_inputs(backward)


def _has_inputs(backward: Backward) -> bool:
    call = backward.source.site.node
    return isinstance(call, t.Call) and call.argument("inputs") is not None


def _found(flow: Flow, backward: Backward) -> SteppedBetween | None:
    runs = [run for run in flow.facts.forwards if run.mode is not Mode.OFF and _goes_through(backward, run)]
    places = {id(event): place for place, event in enumerate(flow.facts.events)}
    place = places[id(backward)]
    for step in flow.facts.steps if runs else ():
        at = places[id(step)]
        if step.runs_closure or step.zeroes or _told_by_callee(step, backward):
            continue
        if at < place and _is_on_the_way(flow, step, backward):
            before = (run for run in runs if places[id(run)] < at)
            inside = [run for run in before if _is_on_the_way(flow, run, backward, loops=True)]
        elif at > place and _comes_again(step, backward):
            inside = [run for run in runs if _is_from_before(flow, run, runs, backward)]
        else:
            continue
        run = next((run for run in reversed(inside) if _changes(flow, step, run)), None)
        if run is not None:
            return _told(flow, backward, step, run)
    return None


def _told(flow: Flow, backward: Backward, step: Step, run: Forward) -> SteppedBetween:
    module = _whole(flow, step, run)
    where = next(
        (f for f in reversed(flow.facts.forwards) if (f.given_as or f.module) == module and _is_around(f, run)), None
    )
    site, step_site = backward.source.site, step.source.site
    ran = (where or run).source.site if where is not None or run.inner is None else run.site
    if _is_of_one_function(flow, backward, step):  # what tells them apart is where it is called
        site, step_site = backward.site, step.site
    events = flow.facts.events
    later = (event for event in events[events.index(backward) :] if isinstance(event, Step))
    own = next((each for each in later if each.target is not None), None)
    is_other = own is not None and own.target != step.target and not overlap(own.modules, step.modules)
    return SteppedBetween(
        site, module, step.target or "", step_site, ran,
        again=events.index(step) > events.index(backward),
        for_other=own.target if own is not None and is_other else None,
    )  # fmt: skip


def _is_of_one_function(flow: Flow, backward: Backward, step: Step) -> bool:
    """Whether a call that runs the backward, and another one that takes the step, are of one function."""
    others = [each for each in flow.facts.backwards if each.site.node is step.site.node]
    is_written_once = any(each.source.site == backward.source.site for each in others)
    return is_written_once and backward.site.node is not step.site.node


def _path(flow: Flow, run: Forward) -> str:
    """The path of a module that ran; of the layers that a loop goes over, that of the module whose they are."""
    path = run.given_as or run.module
    if (path is None or "[*]" in path) and run.is_in_loop_of_callee:
        around = (each for each in reversed(flow.facts.forwards) if each is not run and _is_around(each, run))
        paths = (each.given_as or each.module for each in around if gives_one(flow, each.given_as or each.module))
        path = next((each for each in paths if each is not None), None)
    return path if path is not None and "[*]" not in path else ""  # which of several is not known


def _whole(flow: Flow, step: Step, run: Forward) -> str:
    """The module that the optimizer has, of which a part ran."""
    path = _path(flow, run)
    return next((module for module in sorted(_modules(step) or ()) if is_part(path, module)), path)


# --- what a backward goes through -------------------------------------------------------------------------------


def _goes_through(backward: Backward, run: Forward) -> bool:
    """Whether the graph of a backward surely began at a run, and not at one that another one is made of."""
    return any(root.source is Source.GRAPH and _is_at(root.key, run) for root in backward.value.roots)


def _is_at(key: object, event: Event) -> bool:
    if not isinstance(key, tuple) or event.inner is None:
        return key is event.site.node and event.inner is None
    return key[0] is event.site.node and _is_at(key[-1], event.inner)


def _is_around(run: Event, part: Event) -> bool:
    """Whether a run is another one, or is made of it: they have the same calls as far as the outer one goes."""
    if run.site.node is not part.site.node:
        return False
    return run.inner is None or (part.inner is not None and _is_around(run.inner, part.inner))


# --- what comes in between --------------------------------------------------------------------------------------


def _told_by_callee(step: Step, backward: Backward) -> bool:
    """Whether one function that is called does both, and knows itself what the optimizer has."""
    inner = step.inner
    is_one_call = inner is not None and backward.inner is not None and step.site.node is backward.site.node
    return is_one_call and isinstance(inner, Step) and inner.modules is not None


def _is_on_the_way(flow: Flow, event: Event, later: Event, *, loops: bool = False) -> bool:
    """Whether an event comes before a later one in each round, or each call, in which that comes.

    Args:
        loops: it may be in a loop that ends before.
    """
    if event.site.node is later.site.node and event.inner is not None and later.inner is not None:
        return _is_before_inside(event.inner, later.inner, loops=loops)
    return _leads_on(flow.ref.define.body, event, later, loops) and _is_certain(event, loops)


def _leads_on(body: Sequence[t.Stmt], event: Event, later: Event, loops: bool) -> bool:
    for stmt in body:
        if not t.is_in(event.site.node, [stmt]):
            continue
        is_around = later.is_in([stmt])
        inside = [block for block in t.blocks(stmt) if event.is_in(block)]
        if not inside:
            return True
        is_passed = isinstance(stmt, t.With) or (loops and isinstance(stmt, t.Repeat))
        is_same = is_around and later.is_in(inside[0])
        return (is_same or (not is_around and is_passed)) and _leads_on(inside[0], event, later, loops)
    return False


def _is_before_inside(event: Event, later: Event, *, loops: bool) -> bool:
    """The same of what one call does, as far as its events tell."""
    if event.site.node is later.site.node and event.inner is not None and later.inner is not None:
        return _is_before_inside(event.inner, later.inner, loops=loops)
    around = later.loop is not None and event.loop is not None and later.loop.within(event.loop)
    return not event.conditional and (event.loop is None or around or loops) and _is_certain(event, loops)


def _is_certain(event: Event, loops: bool = False) -> bool:
    """Whether what is called does it on every way."""
    inner = event.inner
    while inner is not None:
        if inner.conditional or (inner.loop is not None and not loops):
            return False
        inner = inner.inner
    return True


def _comes_again(step: Step, backward: Backward) -> bool:
    """Whether a backward comes again after a step: both are in one loop, and always."""
    loop = backward.loop
    if loop is None or step.loop is not loop or loop.count == 1 or loop.leaves_early or loop.is_once_by_default:
        return False
    return not step.conditional and _is_certain(step) and _is_certain(backward)


def _is_from_before(flow: Flow, run: Forward, runs: Sequence[Forward], backward: Backward) -> bool:
    """Whether what is backpropagated in each iteration of a loop goes through a run that was before it.

    It may be one of several losses that the loop goes over; where these are of several runs, each may be of one.
    """
    loop = backward.loop
    is_inside = loop is not None and run.loop is not None and run.loop.within(loop)
    if loop is None or is_inside or run.conditional or not _is_certain(run):
        return False
    stmt, is_listed = loop.site.node, False
    waiting, seen = [backward.site.node], set[str]()
    while waiting:
        paths = [path for path in _read(waiting.pop()) if path not in seen]
        seen.update(paths)
        for path in paths:
            if path in loop.targets:
                is_listed = isinstance(stmt, t.Repeat) and stmt.iterable is not None and len(runs) == 1
                waiting += [stmt.iterable] if is_listed and isinstance(stmt, t.Repeat) and stmt.iterable else []
            elif path in loop.assigned:
                waiting += [value for value in flow.ref.assigned.get(path, ()) if value in loop.nodes]
            elif _has_graph_of(flow.read(path, flow.final), run, is_listed):
                return True
    return False


def _has_graph_of(value: Value, run: Forward, is_listed: bool) -> bool:
    """Whether a value has the graph of a run: a list only where the loop goes over it, as it may be taken from."""
    is_whole = is_listed or value.kind is not Kind.CONTAINER
    return is_whole and any(_is_at(root.key, run) for root in value.roots)


def _read(node: t.Node) -> Iterator[str]:
    """The variables, and attributes of the object, that an expression reads: not ``losses`` of ``losses[i]``."""
    parts = {id(part) for each in t.walk(node) if isinstance(each, t.Subscript) for part in t.walk(each)}
    for each in t.walk(node):
        path = t.path_of(each) if isinstance(each, t.Name | t.Attribute) and id(each) not in parts else None
        is_own = isinstance(each, t.Attribute) and t.path_of(each.value) == "self"
        if path is not None and (is_own or isinstance(each, t.Name)):
            yield path


# --- what a step changes ----------------------------------------------------------------------------------------


def _changes(flow: Flow, step: Step, run: Forward) -> bool:
    """Whether a step changes the weights with which the backward of a run computes."""
    path = _path(flow, run)
    if (
        not path
        or not _has(step, path)
        or not _is_one(flow, run, step, path)
        or not _has_gradients(flow, step, run, path)
    ):
        return False
    return needs_weights(flow, run, path)


def _is_one(flow: Flow, run: Forward, step: Step, path: str) -> bool:
    """Whether a path is of the same module where that runs and where the optimizer steps: no other one of a list."""
    head = path.partition(".")[0]
    over = [loop for loop in flow.facts.loops if head in loop.targets]
    clauses = (clause for node in flow.ref.define.nodes if isinstance(node, t.Comprehension) for clause in node.clauses)
    if any(t.path_of(name) == head for clause in clauses for name in t.names_in(clause.target)):
        return False
    loops = (run.loop, step.loop)
    return all(each is not None and each.within(loop) for loop in over for each in loops)


def _has(step: Step, path: str) -> bool:
    """Whether an optimizer has what a module has: it was given that, or is named for it and nothing else is known."""
    modules = _modules(step)
    if modules is not None:
        return any(is_part(path, module) for module in modules)
    words = _words(step.target or "", _OF_OPTIMIZERS)
    return bool(words) and words == _words(path, _OF_MODULES)


def _modules(step: Step) -> frozenset[str] | None:
    """What an optimizer has, by the path of the object that has both: ``agent.critic`` for ``agent.optimizer``."""
    owner = (step.target or "").rpartition(".")[0]
    if step.modules is None or owner in ("", "self"):
        return step.modules
    return frozenset(
        owner + path[4:] if path.startswith("self.") and not is_part(path, owner) else path for path in step.modules
    )


def _words(path: str, besides: frozenset[str]) -> list[str]:
    """The words of a name: ``critic`` of ``self.critic_optimizer``, ``d`` of ``optimizer_D`` and ``netD``."""
    words = (word.lower() for word in _WORDS.findall(path))
    return [word for word in words if word not in besides]


def _has_gradients(flow: Flow, step: Step, run: Forward, path: str) -> bool:
    """Whether a backward since the last reset has surely filled the gradients of a module, before a step."""
    events = flow.facts.events
    for event in reversed(events[: events.index(step)]):
        if isinstance(event, OpaqueCall) or (isinstance(event, ZeroGrad) and _may_reset(event, step, path)):
            return False
        if isinstance(event, Backward) and not _has_inputs(event) and _is_on_the_way(flow, event, step):
            runs = (each for each in flow.facts.forwards if _path(flow, each) == path)
            if any(_fills(flow, event, each, run) for each in runs):
                return True
    return False


def _may_reset(reset: ZeroGrad, step: Step, path: str) -> bool:
    is_target = reset.target is None or reset.target == step.target
    return is_target or (reset.modules is not None and overlap(reset.modules, frozenset((path,))))


def _fills(flow: Flow, backward: Backward, each: Forward, run: Forward) -> bool:
    """Whether a backward goes through a run of the module of another one, and fills what that computes with.

    What gives several things may have a part for each: that the whole is filled is not sure.
    """
    if each.is_frozen or not _goes_through(backward, each) or (each is run and not backward.keeps):
        return False
    is_taken_apart = any(_is_taken_apart(flow, part) for part in (each, run))
    return not is_taken_apart or is_of_torch(flow, _path(flow, run))


def _is_taken_apart(flow: Flow, run: Forward) -> bool:
    """Whether several things are bound to what a module gives: ``value, scores = net(x)``."""
    assigned = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign))
    pairs = (pair for stmt in assigned for pair in t.pairs(stmt.targets, stmt.value))
    return run.inner is None and any(isinstance(to, t.Display) and value is run.site.node for to, value in pairs)

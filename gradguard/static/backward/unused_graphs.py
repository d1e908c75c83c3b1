"""Which module calls record a graph that nothing asks for: all that is made of it is cut off, or never used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.backward.all_cut import AllCut, own_parts, way_to
from gradguard.static.backward.filled import began_at, goes_through
from gradguard.static.backward.idle_gradients import idle_gradients
from gradguard.static.evaluation.evaluated_once import evaluated_once
from gradguard.static.mistakes.backward import UnusedGraph
from gradguard.static.model import Backward, Forward, Mode, Scope
from gradguard.static.optimizers.has_parameters import class_has_parameters, has_parameters
from gradguard.static.optimizers.named_frozen import may_be_frozen
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.paths import is_part
from gradguard.static.program.with_grad import runs_with_grad
from gradguard.static.reading.roots import node_of
from gradguard.static.values import Kind, Root, Roots, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What a hook is given may be used with its graph, by whatever name.
_HOOKS = re.compile(r"register_(?:module_)?(?:full_)?(?:forward|backward)_(?:pre_)?hook\(|\.register_hook\(")
# Gradients may be off, or on, by what the run says.
_SWITCHES = re.compile(r"set_grad_enabled\(|\bvolatile\s*=\s*True|_C\._set_grad|enable_grad\(")
# What looks at the graph itself.
_SHOWS = re.compile(r"\bgrad_fn\b|\bmake_dot\b|\btorchviz\b|saved_tensors_hooks|\bmemory_stats\b|max_memory_allocated")
# What is named so is a function, or makes something, whatever it is given.
_NO_NETWORK = re.compile(
    r"^_|train|updat|step|loss|transform(?!er)|criteri|(?:^|_)(?:fn|func|make|get|build|create)(?:_|$)", re.I
)
_OF_LAYERS = frozenset("forward __call__ __init__ <module> training_step loss compute_loss".split())
_PLAIN_DECORATORS = frozenset("staticmethod classmethod property override abstractmethod timer profile".split())
_NETWORKS = frozenset("Sequential DataParallel DistributedDataParallel Transformer TransformerEncoder".split())
_NO_TENSORS = (Kind.MODULE, Kind.FUNCTION, Kind.CLASS, Kind.EXTERNAL, Kind.INSTANCE)
_OF_TENSORS = frozenset().union(
    k.BREAKING_METHODS, k.SHAPING_METHODS, k.MOVING_METHODS, k.DIFFERENTIABLE_METHODS,
    "log_prob sample rsample entropy items values keys get append extend".split(),
)  # fmt: skip
"""Of tensors, the distributions of torch, and what has several of them."""
# Contexts that have nothing to do with graphs; another one may switch them off.
_PLAIN_CONTEXT = re.compile(
    r"autocast|^amp|no_sync|join|tim(?:e|ing)|record_function|prof|tqdm|bar$|progress|^open|device|stream|anomaly|log(?!it)|"
    r"lock|scope|span|enable_grad|suppress|warn|writer|session|catch",
    re.I,
)
_LEVELS = 3
"""Calls between a loop and what it runs."""
_BEGUN = (Source.GRAPH, Source.LOSS, Source.CALL, Source.LEAF, Source.CARRIED)


def unused_graphs(flow: Flow) -> Iterator[UnusedGraph]:
    """The calls of networks outside of evaluations whose graph no backward, no caller and nothing else can reach."""
    facts = flow.facts
    if not _may_waste(flow):
        return
    runs = [run for run in facts.forwards if _records(flow, run)]
    wanted = _wanted(flow) if runs else frozenset()
    unused = [run for run in runs if not _is_among(run, wanted)]
    if not unused or not all(backward.value.reach for backward in facts.backwards):
        return  # of what it is computed is not known
    uses = AllCut(flow)
    told: set[object] = set()
    for run in unused:
        node = run.site.node
        if node in told or any(each.site.node is node and _is_among(each, wanted) for each in facts.forwards):
            continue
        told.add(node)
        use = _use(flow, run, uses)
        if use is None or not _costs(flow, run, use, wanted):
            continue
        path = (t.path_of(node.func) if isinstance(node, t.Call) else None) or run.module or ""
        stmt = _statement(flow, node)
        if path in told or stmt in told or _is_left_in_peace(flow, run, use):
            continue  # once for each network, and for each statement
        told |= {path, stmt or path}
        in_training, is_alone = bool(facts.backwards), _is_alone(flow, run, wanted)
        is_given_graph = not run.given.reach.isdisjoint(_asked(flow))
        yield UnusedGraph(run.site, path, use, in_training, is_alone, is_given_graph)


def _may_waste(flow: Flow) -> bool:
    """Whether a function may be told of: nobody asks for its graphs behind its back, and it is no evaluation."""
    facts = flow.facts
    if facts.is_test or facts.gradients_wanted or facts.entry_mode in (Mode.OFF, Mode.UNKNOWN) or not facts.forwards:
        return False
    if facts.name in _OF_LAYERS and (facts.is_module_method or facts.name != "<module>"):
        return False
    if facts.name == "<module>" and not facts.steps:
        return False  # a demonstration, which trains nothing
    is_evaluation = k.EVALUATION_FUNCTION.search(facts.name) is not None and not facts.backwards
    return not is_evaluation and all(map(_is_plain, flow.ref.define.decorators))


def _is_plain(decorator: t.Expr) -> bool:
    return (t.path_of(decorator) or "").rpartition(".")[2] in _PLAIN_DECORATORS


def _records(flow: Flow, run: Forward) -> bool:
    """Whether a network with parameters surely runs here, and records its graph."""
    if run.mode not in (Mode.INHERITED, Mode.ON) or run.is_frozen or run.is_foreign or run.may_learn_itself:
        return False
    if run.run_by_thread is not None or run.leaves or (run.loop is not None and _is_evaluated_in(run)):
        return False
    if run.is_in_loop_of_callee:
        return False
    if run.inner is not None:  # of a helper: where its graph ends there, that is told there
        return any(began_at(root.key, run) for root in flow.given_graphs.get(run.site.node, ()))
    return _is_network(flow, run)


def _is_evaluated_in(run: Forward) -> bool:
    loop = run.loop
    while loop is not None:
        if (loop.evaluates or loop.evaluates_by_name) and not loop.backwards:
            return True
        loop = loop.parent
    return False


def _is_network(flow: Flow, run: Forward) -> bool:
    """Whether it is a network: no layer alone, which saves little, and nothing that is only named so."""
    node, name = run.site.node, (run.module or "").rpartition(".")[2]
    if k.LOSS_CALLABLE.search(name) is not None or _NO_NETWORK.search(name) is not None:
        return False
    begun = (node_of(root.key) is node for root in flow.given_graphs.get(node, ()))
    if node not in flow.saving and not any(begun):
        return False
    known = flow.read(flow.canonical(run.module), flow.final).ref if run.module is not None else None
    if isinstance(known, Class):
        return known.may_learn
    if isinstance(known, str) and known.startswith("torch.nn."):
        return known.rpartition(".")[2] in _NETWORKS
    if _is_given_module(flow, run):
        return False
    return run.is_shown or not run.may_record_nothing()


def _surely_learns(flow: Flow, run: Forward) -> bool:
    """Whether what runs surely has parameters (reads other files): else there is no graph, and nothing is saved."""
    func = run.site.node.func if isinstance(run.site.node, t.Call) else None
    receiver = t.path_of(func.value) if isinstance(func, t.Attribute) else None
    known = flow.read(flow.canonical(receiver), flow.final).ref if receiver is not None else None
    if isinstance(known, Class) and known.is_module:
        return class_has_parameters(known)
    source = run.source
    path = run.module or (source.module if receiver == "self" and isinstance(source, Forward) else None)
    return path is not None and has_parameters(flow, path.removesuffix(".forward"))


def _is_given_module(flow: Flow, run: Forward) -> bool:
    """Whether it is given modules, as what makes something of them is."""
    args = run.site.node.args if isinstance(run.site.node, t.Call) else []
    paths = [t.path_of(arg.value) for arg in args]
    return any(flow.read(flow.canonical(path), flow.final).kind is Kind.MODULE for path in paths if path is not None)


def _wanted(flow: Flow) -> Roots:
    """The graphs that somebody may ask for: a backward, a caller, what lives longer than the call, unknown code."""
    facts = flow.facts
    values = [facts.returns, *(each.value for each in facts.backwards)]
    for asked in facts.grad_calls:
        values += [asked.value, asked.inputs]
    values += [store.value for store in facts.stores if store.scope is not Scope.LOCAL]
    values += [value for path, value in flow.final.env.items() if flow.scope(path) is not Scope.LOCAL]
    values += [flow.read(name, flow.final) for name in _names_in_closures(flow)]
    return frozenset(flow.escaped).union(_lost(flow), *(value.reach for value in values))


def _lost(flow: Flow) -> Roots:
    """The graphs that are given to functions of the program which give others back: they may be in those as well."""
    found: set[Root] = set()
    of_modules: set[Root] = set()
    runs = {run.site.node for run in flow.facts.forwards if run.inner is None}
    for call in flow.ref.calls:
        result = flow.given_graphs.get(call)
        paths = [t.path_of(arg.value) for arg in call.args] if result is not None else []
        for path in paths:
            found |= flow.read(flow.canonical(path), flow.final).reach if path is not None else frozenset()
        of_modules |= result or frozenset() if call in runs else frozenset()
    return frozenset(found - of_modules)


def _names_in_closures(flow: Flow) -> frozenset[str]:
    """The names that functions have which are defined in this one."""
    inner = [node for node in flow.ref.define.nodes if isinstance(node, t.Define | t.Lambda)]
    names = frozenset(node.id for each in inner for node in t.walk(each) if isinstance(node, t.Name))
    return names & flow.locals


def _is_among(run: Forward, roots: Roots) -> bool:
    return any(node_of(root.key) is run.site.node for root in roots)


def _use(flow: Flow, run: Forward, uses: AllCut) -> str | None:
    """What becomes of it: ``cut`` at once, cut ``later``, or ``unread``; None where it may be wanted."""
    node, stmt = run.site.node, _statement(flow, run.site.node)
    if stmt is None or not all(map(_is_plain_context, uses.contexts(stmt))):
        return None
    if not uses.holds_for(stmt, node):
        is_dropped = isinstance(stmt, t.Evaluate) and stmt.value is node
        return "unread" if is_dropped and _leaves_nothing(flow, run) else None
    inside = way_to(own_parts(stmt), node)
    methods = (each for each in inside if isinstance(each, t.Attribute) and each is not node)
    called = {id(each.func) for each in inside if isinstance(each, t.Call) and each is not node}
    if any(id(each) in called and each.name not in _OF_TENSORS for each in methods):
        return None
    if any(_cuts(each) for each in inside):
        return "cut"
    if not isinstance(stmt, t.Assign):
        return "later"
    names = [t.path_of(target) for each in stmt.targets for target in t.names_in(each)]
    if any(flow.read(name, flow.final).kind is Kind.INSTANCE for name in names if name is not None):
        return None  # what its methods give need not be known to have its graph
    if any(map(_is_method_of_object, flow.ref.calls, repeat(frozenset(names)))):
        return None
    if _is_cut_next(flow, stmt):
        return "cut"
    if uses.is_used:
        return "later"
    return "unread" if stmt.value is node and _leaves_nothing(flow, run) else None


def _is_plain_context(context: t.Expr) -> bool:
    path = t.path_of(context.func if isinstance(context, t.Call) else context) or ""
    return _PLAIN_CONTEXT.search(path.rpartition(".")[2]) is not None


def _leaves_nothing(flow: Flow, run: Forward) -> bool:
    """Whether a step of a training runs a network whose ``forward`` surely puts nothing away that is used instead."""
    known = flow.read(flow.canonical(run.module), flow.final).ref if run.module is not None else None
    return bool(flow.facts.backwards) and run.inner is None and isinstance(known, Class) and not _puts_away(known)


def _puts_away(cls: Class) -> bool:
    """Whether a ``forward`` of the file that a class is in leaves something in its object."""
    module = cls.module
    owners = sorted({unit.owner for unit in module.source.outline.units if unit.owner})
    others = [each.methods for owner in owners if (each := module.klass(owner)) is not None]
    methods = [*others, *(each.methods for each in cls.lineage())]
    statements = (s for each in methods if "forward" in each for s in each["forward"].define.statements)
    bound = (target for stmt in statements if isinstance(stmt, t.Assign) for target in _targets(stmt))
    return any((t.path_of(target) or "").startswith("self.") for target in bound)


def _is_method_of_object(call: t.Call, names: frozenset[str | None]) -> bool:
    """Whether a method of something is called that no tensor has: what it gives need not be known to have a graph."""
    func = call.func
    return isinstance(func, t.Attribute) and t.path_of(func.value) in names and func.name not in _OF_TENSORS


def _is_cut_next(flow: Flow, stmt: t.Assign) -> bool:
    """Whether the next statement cuts it off, and leaves the name to that: ``fake = fake.detach()``."""
    name = t.path_of(stmt.targets[0])
    blocks = [flow.ref.define.body, *(b for each in flow.ref.define.statements for b in t.blocks(each))]
    block = next((b for b in blocks if any(each is stmt for each in b)), [])
    place = next((i for i, each in enumerate(block) if each is stmt), len(block)) + 1
    following = block[place] if place < len(block) else None
    if name is None or not isinstance(following, t.Assign) or t.path_of(following.targets[0]) != name:
        return False
    cut = t.detached(following.value)
    return cut is not None and t.path_of(cut) == name


def _targets(stmt: t.Assign) -> Iterator[t.Expr]:
    for target in stmt.targets:
        yield from t.names_in(target)


def _statement(flow: Flow, node: t.Node) -> t.Stmt | None:
    """The simple statement that a node stands in; none for the head of a loop, say."""
    simple = (stmt for stmt in flow.ref.define.statements if not t.blocks(stmt))
    return next((stmt for stmt in simple if t.is_in(node, [stmt])), None)


def _cuts(node: t.Node) -> bool:
    """Whether an expression surely has no graph of what is in it: ``net(x).detach()``, ``torch.argmax(net(x), 1)``."""
    if isinstance(node, t.Attribute):
        return node.name == "data"
    if isinstance(node, t.Subscript):  # the places of the largest
        is_second = isinstance(node.index, t.Constant) and node.index.value == 1
        return is_second and isinstance(node.value, t.Call) and node.value.name in ("max", "min", "sort", "topk")
    return isinstance(node, t.Call) and (node.name in k.CUTS or node.name in k.CHOOSING)


def _costs(flow: Flow, run: Forward, use: str, wanted: Roots) -> bool:
    """Whether it takes memory that the step does not need anyway.

    A graph that goes at once takes none where the step then makes another one through the same network, of as much
    data: ``discriminator(generator(z).detach())``, and ``discriminator(generator(z))`` for the generator.
    """
    if use != "cut":
        return True
    again = [each for each in flow.facts.forwards if each.module == run.module and _is_among(each, wanted)]
    order = {id(event): place for place, event in enumerate(flow.facts.events)}
    return not again or any(_is_alive(flow, each, order[id(each)], order[id(run)]) for each in again)


def _is_alive(flow: Flow, run: Forward, begun: int, now: int) -> bool:
    """Whether the graph of a call is there, which a backward of the step has yet to go through."""
    between = flow.facts.events[begun:now]
    if not any(goes_through(each, run) for each in flow.facts.backwards):
        return False
    return begun < now and not any(isinstance(each, Backward) and goes_through(each, run) for each in between)


def _is_left_in_peace(flow: Flow, run: Forward, use: str) -> bool:
    """Whether it may record nothing as it is run, or be run for something else (reads other files)."""
    survey = flow.project.survey
    if not _comes_again(flow, run) or flow.module.source.shows(_SHOWS):
        return True
    if run.mode is Mode.INHERITED and not _is_run_with_grad(flow):
        return True
    if survey.mentions(_HOOKS, flow.module, "hook") or survey.mentions(_SWITCHES, flow.module):
        return True
    if evaluated_once(flow) is not None or (use == "unread" and _is_asked_besides(flow, run)):
        return True
    if may_be_frozen(flow, (run.given_as or run.module or "").rpartition(".")[2]):
        return True
    return not _surely_learns(flow, run) or _is_told_otherwise(flow, run)


def _is_run_with_grad(flow: Flow) -> bool:
    """Whether a function surely runs where a graph is recorded: as it trains itself, or by whom it is called."""
    facts = flow.facts
    if facts.called_without_grad() or facts.is_left_to_others():
        return False
    if facts.backwards or facts.steps or flow.ref.define.name == "<module>":
        return True
    return runs_with_grad(flow)


def _is_told_otherwise(flow: Flow, run: Forward) -> bool:
    """Whether it is told of already that nothing trains the network, which a backward goes through elsewhere here."""
    path = run.given_as or run.module or ""
    return any(is_part(path, each.network) for each in idle_gradients(flow))


def _is_asked_besides(flow: Flow, run: Forward) -> bool:
    """Whether the function asks a module for something that its ``forward`` may have left there: ``net.aux_loss``."""
    reads = flow.ref.define.all(t.Attribute)
    return any(t.path_of(node.value) == run.module and node.name not in k.OF_EVERY_MODULE for node in reads)


def _comes_again(flow: Flow, run: Forward) -> bool:
    """Whether it runs more than once in a program, as far as can be seen."""
    if run.loop is not None:
        return True
    events = [*flow.facts.backwards, *flow.facts.steps] if flow.facts.name != "<module>" else []
    if any(each.loop is None and not each.is_in_loop_of_callee for each in events):
        return True  # one step of a training
    if events and _takes_given(flow, run):
        return True
    return _is_repeated(flow, flow.ref, _LEVELS)


def _takes_given(flow: Flow, run: Forward) -> bool:
    """Whether it runs on what the function is given: on the data of one update."""
    args = run.site.node.args if isinstance(run.site.node, t.Call) else []
    return any(isinstance(arg.value, t.Name) and arg.value.id in flow.params for arg in args)


def _is_repeated(flow: Flow, ref: FunctionRef, levels: int) -> bool:
    """Whether a loop of the program calls a function, or one that calls it."""
    name = ref.define.name
    if not levels or not name.isidentifier() or name == "__init__":
        return False
    callers = [caller for caller in flow.project.written_calling(ref) if caller.define is not ref.define]
    return any(_calls_in_loop(caller, name) for caller in callers) or any(
        _is_repeated(flow, caller, levels - 1) for caller in callers
    )


def _calls_in_loop(caller: FunctionRef, name: str) -> bool:
    loops = (node for node in caller.define.nodes if isinstance(node, t.Repeat | t.Comprehension))
    return any(isinstance(node, t.Call) and node.name == name for loop in loops for node in t.walk(loop))


def _is_alone(flow: Flow, run: Forward, wanted: Roots) -> bool:
    """Whether nothing else of its statement needs a graph, nor what that binds."""
    stmt = _statement(flow, run.site.node)
    if not isinstance(stmt, t.Assign | t.Evaluate | t.Return):
        return False
    paths = [t.path_of(node) for node in t.walk(stmt) if isinstance(node, t.Name | t.Attribute)]
    known = [flow.read(flow.canonical(path), flow.final) for path in paths if path is not None]
    asked = _asked(flow)
    return not any(root in asked or (root.source in _BEGUN and root in wanted) for root in _graphs_in(known))


def _asked(flow: Flow) -> Roots:
    """What the backwards of a function go through."""
    return frozenset().union(*(each.value.reach for each in flow.facts.backwards))


def _graphs_in(values: list[Value]) -> Roots:
    tensors = (value for value in values if value.kind not in _NO_TENSORS)
    return frozenset().union(*(value.reach for value in tensors))

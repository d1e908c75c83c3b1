"""What can only be said of a noted call or construction when the whole function was read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.backward.put_back import puts_back
from gradguard.static.kept.endless import is_endless
from gradguard.static.kept.tee_ends import lagging_attribute, lagging_variable
from gradguard.static.model import Call, Construction, Loop, Mode
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called
from gradguard.static.reading.roots import graphs
from gradguard.static.reading.steady import steady_way
from gradguard.static.source import Site
from gradguard.static.tree import walk_statements
from gradguard.static.values import Kind, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def judge_call(flow: Flow, call: Call) -> None:
    """Fill in what can only be said of a call when the whole function was read."""
    if call.inner is None and call.mode is not Mode.OFF and call.mode is not Mode.UNKNOWN:
        proven = any(r in flow.proven and not isinstance(r.key, tuple) for r in call.of.roots)
        call.carries_graph = call.of.kind is not Kind.NUMBER and (proven or call.of.has_own_graph)
    if call.name == "gc.disable":
        call.is_harmless = not _trains(flow) or _collects(flow, call)
    if call.name == "add_param_group":
        bound = call.loop.assigned if call.loop is not None and call.inner is not None else ()
        kinds = (flow.read(flow.canonical(path), flow.final).kind for path in bound)
        anew = Kind.OPTIMIZER in kinds  # the object is given the optimizer of this iteration
        first_time = _first_times(flow, call)
        call.conditional = call.conditional and not (first_time and first_time == _ifs_around(flow, call))
        made_here = call.loop is None and not first_time and call.receiver in flow.ref.assigned
        anew |= call.inner.is_harmless if isinstance(call.inner, Call) else made_here
        call.is_harmless = anew or flow.project.survey.mentions(_DROPS_GROUPS, flow.module, "param_groups")
    elif call.name == "torch.optim" and call.loop is not None:
        call.is_harmless = puts_back(flow, call.loop, call.bound_to)
    elif call.name == "itertools.tee":
        _judge_ends(flow, call)
        call.lags_in_object = lagging_attribute(flow, call) if call.inner is None else None
        if call.inner is None and call.lags is None:
            call.lags = lagging_variable(flow, call)
    elif call.name in k.PROFILERS and call.inner is not None and not _is_given_back(flow, call):
        call.loops = []
    if call.inner is not None:
        return
    if call.name == "itertools.cycle":
        call.is_endless = _is_given_endless(flow, call)
    if call.name == "retain_grad":
        call.too_late = _too_late(flow, call)
    elif "anomaly" in call.name:
        mentioned = flow.project.survey.mentions(_BACKWARD, flow.module)
        call.is_harmless = not mentioned or (_only_evaluates(flow) and not flow.project.survey.may_train(flow.module))
    elif call.name == "torch.utils.data.DataLoader":
        data = next((v for name, v in call.given if name == "dataset"), call.first)
        call.object_lists = data.ref.object_lists if isinstance(data.ref, Class) and data.ref.is_dataset else ()
    elif call.name == "torch.autograd.graph.saved_tensors_hooks":
        returns = list(_returns(flow, call.first))
        call.packs_as_given = tuple(site for site, as_given in returns if as_given)
        call.packs_otherwise = not all(as_given for _, as_given in returns) and not _asks_for_device(call.first.ref)
    elif call.name in k.PROFILERS and call.entered:
        call.loops = _loops_after(flow, call)
    elif call.name in k.PROFILERS and not call.loops and call.bound_to is not None:
        call.loops = _loops_from(flow, call, f"{call.bound_to}.start")
    elif call.name.startswith(k.PYPLOT):
        call.handed_on = _is_handed_on(flow, call.bound_to)


def _is_given_endless(flow: Flow, call: Call) -> bool:
    """Whether a call gets what never ends, in a program that trains."""
    node = call.site.node
    given = node.args[0].value if isinstance(node, t.Call) and len(node.args) == 1 else None
    mentioned = given is not None and flow.project.survey.mentions(_BACKWARD, flow.module)
    return mentioned and given is not None and is_endless(flow, given)


def _ifs_around(flow: Flow, call: Call) -> list[t.If]:
    """The conditions on the way to a call, in the function that it is in."""
    ifs = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.If))
    return [stmt for stmt in ifs if call.is_in(stmt.body) or call.is_in(stmt.orelse)]


def _first_times(flow: Flow, call: Call) -> list[t.If]:
    """Those of them whose other way is only for the first time: ``if self.opt is None: self.opt = SGD(...)``."""
    steady = {"first": "body", "second": "orelse"}
    ways = ((stmt, steady.get(steady_way(stmt))) for stmt in _ifs_around(flow, call))
    return [stmt for stmt, way in ways if way is not None and call.is_in(getattr(stmt, way))]


def _only_evaluates(flow: Flow) -> bool:
    """Whether it runs models, and each of them without gradients."""
    return {forward.mode for forward in flow.facts.forwards} == {Mode.OFF} and not flow.facts.needs_gradients


def _asks_for_device(function: object) -> bool:
    """Whether a function tells tensors apart by their device: all of a run are on one."""
    body = function.define.body if isinstance(function, FunctionRef) else []
    tests = (stmt.test for stmt in walk_statements(body) if isinstance(stmt, t.If))
    names = {node.name for test in tests for node in t.walk(test) if isinstance(node, t.Attribute)}
    return not names.isdisjoint(("is_cuda", "device"))


def _returns(flow: Flow, function: Value) -> Iterator[tuple[Site, bool]]:
    """The returns of a function, and whether they give its last parameter as it is, alone or in a tuple."""
    pack = function.ref
    read = flow.project.flow(pack) if isinstance(pack, FunctionRef) and pack.define.params else None
    if read is None or not isinstance(pack, FunctionRef):
        return
    given = pack.define.params[-1].name
    if given in pack.names[0]:
        return  # it was made something else
    for stmt in pack.define.statements:
        if isinstance(stmt, t.Return) and stmt.value is not None:
            yield read.site(stmt), _mentions(stmt.value, given)


_DROPS_GROUPS = re.compile(
    r"\bparam_groups\.(?:pop|clear|remove)\(|\bdel\s[^\n]*\bparam_groups\[|\bparam_groups(?:\[[^\]\n]*:[^\]\n]*\])?\s*=(?!=)"
)
_BACKWARD = re.compile(r"backward\(|\.fit\(|Trainer|autograd\.grad\(")
_COLLECTS = re.compile(r"\bgc\.collect\(|^\s*from gc import [^\n]*\bcollect\b")
_ENABLES = re.compile(r"\bgc\.enable\(|^\s*from gc import [^\n]*\benable\b")


def _judge_ends(flow: Flow, call: Call) -> None:
    """``head, rest = tee(batches)``: what one end gave waits for the other, unless that was dropped: ``del head``."""
    statements = flow.ref.define.statements
    made = [s for s in statements if isinstance(s, t.Assign) and s.value is call.source.site.node]
    ends = {path for s in made for e in s.targets for name in t.names_in(e) if (path := t.path_of(name)) is not None}
    dropped = (t.path_of(target) for s in statements if isinstance(s, t.Delete) for target in s.targets)
    call.is_harmless = not ends.isdisjoint(dropped)
    loops = [loop.site.node for loop in flow.facts.loops if loop.trains]
    for loop in (loop for loop in loops if isinstance(loop, t.Repeat) and loop.iterable is not None):
        read = ends.intersection(_names(loop.iterable))
        call.lags = min((end for end in ends - read if read and not _is_read(loop.body, end)), default=call.lags)


def _is_read(body: list[t.Stmt], name: str) -> bool:
    """Whether statements use a name each time that they run: not under a condition."""
    return any(name in _names(stmt.test if isinstance(stmt, t.If) else stmt) for stmt in body)


def _names(node: object) -> set[str]:
    return {n.id for n in t.walk(node) if isinstance(n, t.Name)}


def _collects(flow: Flow, call: Call) -> bool:
    """Whether anything runs the cyclic collector; what a helper that sets up does, it does once."""
    repeats = call.inner is None or call.loop is not None or call.is_in_loop_of_callee
    helpers = set() if repeats else {d.name for d in flow.applied if _collects_once(d, call.source.site.node)}
    acts = flow.project.survey.acts
    return acts("gc", _ENABLES, flow.module) or acts("gc", _COLLECTS, flow.module, besides=helpers)


def _collects_once(helper: t.Define, statement: t.Node) -> bool:
    """Whether a helper that has a statement in it collects in none of its loops."""
    loops = (stmt for stmt in helper.statements if isinstance(stmt, t.Repeat))
    again = (isinstance(node, t.Call) and node.name == "collect" for loop in loops for node in t.walk(loop.body))
    return any(node is statement for node in t.walk(helper.body)) and not any(again)


def _trains(flow: Flow) -> bool:
    """Whether a training loop runs below a function, or in another method of its object."""
    if any(loop.trains for loop in flow.facts.loops) or any(b.is_in_loop_of_callee for b in flow.facts.backwards):
        return True
    owner = flow.ref.owner
    return owner is not None and ".backward(" in owner.chunk.program and flow.facts.name == "__init__"


def _is_given_back(flow: Flow, call: Call) -> bool:
    """Whether the function that is called makes a profiler for its caller: ``with make_profiler() as prof``."""
    node, made = call.site.node, call.source.site.node
    called = functions_called(flow, node) if isinstance(node, t.Call) else ()
    return any(value is made for ref in called for value in ref.given_back())


def _loops_from(flow: Flow, call: Call, start: str) -> list[Loop]:
    """The loops after ``profiler.start()``."""
    if not any(_calls(n, start) for n in flow.ref.define.nodes):
        return []
    stop = f"{call.bound_to}.stop"
    return [loop for loop in _loops_after(flow, call) if not any(_calls(n, stop) for n in loop.nodes)]


def _loops_after(flow: Flow, call: Call) -> list[Loop]:
    return [loop for loop in flow.facts.loops if loop.site.line > call.site.line]


def _calls(node: object, path: str) -> bool:
    return isinstance(node, t.Call) and t.path_of(node.func) == path


def _is_handed_on(flow: Flow, name: str | None) -> bool:
    """Whether an object leaves the function's sight, or is closed by a method of its own."""
    if name is None:
        return False
    for node in flow.ref.define.nodes:
        if isinstance(node, t.Return | t.Suspend) and node.value is not None and _mentions(node.value, name):
            return True
        if isinstance(node, t.Assign) and t.path_of(node.value) == name:
            return True
        if isinstance(node, t.Call) and any(_mentions(a.value, name) for a in node.args):
            head = (t.path_of(node.func) or "").split(".", 1)[0]
            callee = flow.module.resolve(head) if head else None
            looks = callee is not None and str(callee.ref).split(".", 1)[0] in k.LOOKING_PACKAGES
            if not looks and not (callee is not None and _only_reads(callee.ref, node)):
                return True
    return False


def _only_reads(function: object, call: t.Call) -> bool:
    """Whether a function of the program only reads what it is given: ``as_array(fig)``, which closes nothing."""
    if not isinstance(function, FunctionRef) or t.path_of(call.func) != function.define.name:
        return False
    names = {param.name for param in function.define.params}
    given_on = (arg.value for made in function.calls for arg in made.args)
    stored = (stmt.value for stmt in function.define.statements if isinstance(stmt, t.Assign | t.Return) and stmt.value)
    leaves = any(_mentions(expr, name) for expr in (*given_on, *stored) for name in names)
    return not leaves and _ENDS.search(function.chunk.text) is None


_ENDS = re.compile(r"\bclose|\bclf\b|\bcla\b|\bshow\b|\bclear\b")


def _mentions(expr: t.Expr, name: str) -> bool:
    """Whether an object itself is (a part of) what an expression gives."""
    return any(t.path_of(single) == name for single in t.names_in(expr))


def _too_late(flow: Flow, call: Call) -> bool:
    """Whether every backward over a tensor's graph was before the call."""
    own = frozenset(r for r in graphs(call.of.roots) if r.source is Source.GRAPH)
    if not own or call.conditional or call.inner is not None:
        return False
    order = flow.facts.events.index(call)
    over = [b for b in flow.facts.backwards if not b.value.reach or graphs(b.value.reach) & own]
    before = [b for b in over if flow.facts.events.index(b) < order]
    if not before or len(before) < len(over) or any(b.keeps for b in before):
        return False
    return all(b.loop is call.loop and not b.conditional for b in before)


def judge_construction(flow: Flow, made: Construction) -> None:
    """Fill in whether a module is put into a collection, where it is not alone."""
    adding = [
        call for call in flow.ref.calls if isinstance(call.func, t.Attribute) and call.func.name in k.ADDING_METHODS
    ]
    if not adding:
        return
    node = made.site.node
    names = {
        t.path_of(target)
        for stmt in flow.ref.define.statements
        if isinstance(stmt, t.Assign) and any(n is node for n in t.walk(stmt.value))
        for target in stmt.targets
    }
    made.is_kept |= any(t.path_of(a.value) in names or a.value is node for call in adding for a in call.args)

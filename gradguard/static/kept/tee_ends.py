"""Two ends of ``itertools.tee``: one is gone through in training, one was read a first time, and is kept.

By an object that has both, or by the function that runs the training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of, functions_called

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Call

_BACKWARD = re.compile(r"\bbackward\(")
_GOING_ON = ("__iter__", "__next__")
_DEPTH = 3


def lagging_attribute(flow: Flow, call: Call) -> str | None:
    """The end that stays behind: ``self._batches, self._first = tee(stream)``, and ``next(self._first)`` once.

    The other one is what the object gives when it is iterated over.
    """
    owner = flow.ref.owner
    if owner is None or not flow.project.survey.mentions(_BACKWARD, flow.module):
        return None
    ends = _kept_in(flow, call)
    going, behind = ([end for end in ends if test(owner, end)] for test in (_is_gone_through, _is_read_once))
    return behind[0] if len(ends) == 2 and len(going) == len(behind) == 1 and going != behind else None


def lagging_variable(flow: Flow, call: Call) -> str | None:
    """The end that stays behind in a function that trains: ``head, stream = tee(stream)``, and ``next(head)`` once.

    What it has not given is kept until the function is over. Of a list, all is there anyway.
    """
    node = call.site.node
    bound = [s for s in flow.ref.define.statements if isinstance(s, t.Assign) and s.value is node]
    target = bound[0].targets[0] if len(bound) == 1 and len(bound[0].targets) == 1 else None
    ends = [t.path_of(item) for item in target.items] if isinstance(target, t.Display) else []
    if call.loop is not None or len(set(ends)) != 2 or not isinstance(node, t.Call) or not node.args:
        return None
    for behind, going in (ends, ends[::-1]):
        if behind and going and _is_only_started(flow, behind) and _is_trained_on(flow, going):
            return behind if _makes_batches(flow, node.args[0].value, _DEPTH) else None
    return None


def _is_only_started(flow: Flow, name: str) -> bool:
    """Whether ``next`` takes a first one of a variable, outside of any loop, and nothing else uses it."""
    define = flow.ref.define
    within = (node for s in define.statements if isinstance(s, t.Define | t.DefineClass) for node in t.walk(s.body))
    if len(flow.ref.assigned.get(name, [])) != 1 or any(isinstance(n, t.Name) and n.id == name for n in within):
        return False
    again = {id(n) for s in define.statements if isinstance(s, t.Repeat) for n in t.walk(s.body)}
    again |= {id(n) for made in define.nodes if isinstance(made, t.Comprehension) for n in t.walk(made)}
    taking = [n for n in define.all(t.Call) if t.path_of(n.func) == "next" and id(n) not in again]
    taken = [arg.value for call in taking for arg in call.args[:1] if t.path_of(arg.value) == name]
    uses = [n for n in define.all(t.Name) if n.id == name]
    return bool(taken) and len(uses) == len(taken) + 1  # the assignment itself


def _is_trained_on(flow: Flow, name: str) -> bool:
    """Whether a training that runs here goes over what is in a variable, in a loop or in what is called."""
    for backward in flow.facts.backwards:
        loop = backward.loop.site.node if backward.loop is not None else None
        if loop is None and not backward.is_in_loop_of_callee:
            continue
        over = loop.iterable if isinstance(loop, t.Repeat) else loop or backward.site.node
        if any(isinstance(node, t.Name) and node.id == name for node in t.walk(over)):
            return True
    return False


def _makes_batches(flow: Flow, given: t.Expr, depth: int) -> bool:
    """Whether an expression is a generator that makes what it gives."""
    if isinstance(given, t.Call):
        if t.path_of(given.func) == "iter" and given.args:
            return _makes_batches(flow, given.args[0].value, depth)
        return any(_makes_what_it_gives(ref) for ref in functions_called(flow, given))
    if isinstance(given, t.Comprehension):
        return given.kind == "generator" and isinstance(given.element, t.Call | t.Display)
    name = t.path_of(given)
    bound = [value for value in flow.ref.assigned.get(name or "", []) if not _is_tee(value)]
    if bound:
        return len(bound) == 1 and depth > 0 and _makes_batches(flow, bound[0], depth - 1)
    if name not in flow.params or not depth:
        return False
    given_by = [(caller, flow.ref.given_by(call).get(name)) for caller, call in calls_of(flow)]
    return bool(given_by) and all(e is not None and _makes_batches(caller, e, depth - 1) for caller, e in given_by)


def _is_tee(value: t.Expr) -> bool:
    return isinstance(value, t.Call) and value.name == "tee"


def _makes_what_it_gives(ref: FunctionRef) -> bool:
    """Whether a generator yields what it has computed: not the items of what there is already."""
    given = [node.value for node in ref.define.all(t.Suspend) if node.kind == "yield"]
    return ref.define.is_generator and any(
        isinstance(value, t.Call | t.Display) or (value is not None and t.path_of(value) in ref.assigned)
        for value in given
    )


def _kept_in(flow: Flow, call: Call) -> list[str]:
    """The attributes of ``self`` that a call is bound to."""
    statements = (s for s in flow.ref.define.statements if isinstance(s, t.Assign))
    targets = [e for s in statements if s.value is call.source.site.node for e in s.targets]
    paths = [t.path_of(name) or "" for target in targets for name in t.names_in(target)]
    return [path for path in paths if path.startswith("self.")] if len(targets) == 1 else []


def _uses(cls: Class, path: str) -> Iterator[tuple[FunctionRef, t.Node | None]]:
    """The methods that use an attribute, each with what it is given to, or the statement that it is a part of."""
    for ref in cls.methods.values():
        for node in ref.define.nodes:
            if isinstance(node, t.Attribute) and t.path_of(node) == path:
                yield ref, _around(ref, node)


def _around(ref: FunctionRef, node: t.Expr) -> t.Node | None:
    """What directly uses an expression: a call that is given it, a loop over it, ``return`` or ``yield from``."""
    for outer in ref.define.nodes:
        if isinstance(outer, t.Call) and any(arg.value is node for arg in outer.args):
            return outer
        if isinstance(outer, t.Repeat) and outer.iterable is node:
            return outer
        if isinstance(outer, t.Return | t.Suspend) and outer.value is node:
            return outer
    return None


def _is_gone_through(cls: Class, path: str) -> bool:
    """Whether iterating over the object goes through it."""
    return any(ref.define.name in _GOING_ON and use is not None for ref, use in _uses(cls, path))


def _is_read_once(cls: Class, path: str) -> bool:
    """Whether it is only ever read by ``next`` in a method that nothing calls in a loop."""
    uses = [(ref, use) for ref, use in _uses(cls, path) if ref.define.name != "__init__" or use is not None]
    if not uses or path[len("self.") :] in _elsewhere(cls):
        return False
    return all(
        isinstance(use, t.Call) and t.path_of(use.func) == "next" and not _in_loop(ref.define.body, use)
        for ref, use in uses
    ) and all(_runs_once(ref) for ref, _ in uses)


def _elsewhere(cls: Class) -> set[str]:
    """The attributes that the rest of its file uses."""
    return set(re.findall(r"\.(\w+)", cls.module.source.text.replace(cls.chunk.text, "")))


def _runs_once(ref: FunctionRef) -> bool:
    """Whether a method is called, and never in a loop, as far as is seen."""
    name = ref.define.name
    decorators = (t.path_of(each) or "" for each in ref.define.decorators)
    if name == "__init__" or any(path.rpartition(".")[2] == "cached_property" for path in decorators):
        return True
    bodies = [caller.define.body for caller in ref.module.project.written_calling(ref)]
    calls = [
        (body, node)
        for body in bodies
        for node in t.walk(body)
        if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name == name
    ]
    return bool(calls) and not any(_in_loop(body, node) for body, node in calls)


def _in_loop(body: list[t.Stmt], node: t.Node) -> bool:
    loops = (s for s in t.walk_statements(body) if isinstance(s, t.Repeat))
    return any(t.is_in(node, loop.body) for loop in loops)

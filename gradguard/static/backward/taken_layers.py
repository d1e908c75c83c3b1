"""Layers of a pretrained network that a function puts behind each other, with losses between them that its caller sums.

So does style transfer: what is run is the new network, for the losses that its parts keep, and an image is trained.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.backward import IdleGradients
from gradguard.static.model import Forward
from gradguard.static.program.functions import FunctionRef
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_PRETRAINED = re.compile(r"\bmodels\.\w+\((?:pretrained\s*=\s*True|weights\s*=\s*[\w.\"']*(?:DEFAULT|IMAGENET))")
_FREEZES = re.compile(r"\brequires_grad(?:_\(\s*\w+\s*\)|\s*=(?!=)(?!\s*True\b))|[\"']requires_grad[\"']|fre+ze", re.I)
_GIVES_PARAMETERS = re.compile(r"\bparameters\(")
_OF_LEAVES = re.compile(r"\boptim\.\w+\(\s*\[|\b(?:LBFGS|Adam)\(\s*\[")


def idle_layers(flow: Flow, run: Forward) -> IdleGradients | None:
    """The network of such layers that a function runs, where nobody takes parameters, nor freezes any."""
    path = run.given_as or run.module or ""
    bound = [stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign) and _binds(stmt, path)]
    call = bound[0].value if len(bound) == 1 else None
    if not isinstance(call, t.Call) or not flow.facts.backwards or not _is_for_losses(flow, run, bound[0]):
        return None
    helper = flow.ref.callee(call)
    if helper is None or not _puts_layers(helper) or not _trains_leaves(flow, helper):
        return None
    backward = flow.facts.backwards[0].source.site
    return IdleGradients(run.source.site, path, "pretrained", Site(flow.ref.chunk, call), backward)


def _binds(stmt: t.Assign, path: str) -> bool:
    return any(t.path_of(name) == path for target in stmt.targets for name in t.names_in(target))


def _is_for_losses(flow: Flow, run: Forward, bound: t.Assign) -> bool:
    """Whether what it gives is dropped, and the losses are read that came with it: ``for s in losses: s.loss``."""
    nodes = flow.ref.define.nodes
    if not any(isinstance(node, t.Evaluate) and node.value is run.source.site.node for node in nodes):
        return False
    others = {t.path_of(name) for target in bound.targets for name in t.names_in(target)}
    loops = [(node, node.iterable, node.target) for node in nodes if isinstance(node, t.Repeat)]
    over = [(loop, name) for loop, each, name in loops if each is not None and name and t.path_of(each) in others]
    return any(_reads_loss(node, t.path_of(name)) for loop, name in over for node in t.walk(loop.body))


def _reads_loss(node: t.Node, name: str | None) -> bool:
    return isinstance(node, t.Attribute) and node.name == "loss" and name is not None and t.path_of(node.value) == name


def _puts_layers(ref: FunctionRef) -> bool:
    """Whether a function puts the layers that it is given into a new network, which it gives back."""
    params = {param.name for param in ref.define.params}
    for name in _given_back(ref):
        makers = (value for value in ref.assigned.get(name, []) if isinstance(value, t.Call))
        is_new = any(value.name == "Sequential" for value in makers)
        if is_new and any(_goes_over(loop, params) and _adds(loop, name) for loop in _loops(ref)):
            return True
    return False


def _given_back(ref: FunctionRef) -> Iterator[str]:
    for stmt in ref.define.statements:
        given = stmt.value if isinstance(stmt, t.Return) else None
        items = given.items if isinstance(given, t.Display) else [] if given is None else [given]
        yield from (path for item in items if (path := t.path_of(item)) is not None)


def _loops(ref: FunctionRef) -> Iterator[t.Repeat]:
    yield from (stmt for stmt in ref.define.statements if isinstance(stmt, t.Repeat))


def _goes_over(loop: t.Repeat, params: set[str]) -> bool:
    """``for layer in cnn.children()``, ``list(cnn)``."""
    over = loop.iterable
    if isinstance(over, t.Call) and over.name == "list" and len(over.args) == 1:
        over = over.args[0].value
    if isinstance(over, t.Call) and isinstance(over.func, t.Attribute) and over.func.name == "children":
        over = over.func.value
    return over is not None and t.path_of(over) in params


def _adds(loop: t.Repeat, name: str) -> bool:
    """Whether a loop adds what it goes over to a network."""
    layer = t.path_of(loop.target) if loop.target is not None else None
    calls = (node for node in t.walk(loop.body) if isinstance(node, t.Call))
    added = (call.args[-1].value for call in calls if t.path_of(call.func) == f"{name}.add_module" and call.args)
    return layer is not None and any(t.path_of(each) == layer for each in added)


def _trains_leaves(flow: Flow, helper: FunctionRef) -> bool:
    """Whether an image is trained, and nothing takes the parameters of a module, or freezes them."""
    texts = (flow.module.source.text, helper.module.source.text)
    if any(_GIVES_PARAMETERS.search(text) is not None for text in texts):
        return False
    mentions = flow.project.survey.mentions
    return all(mentions(each, flow.module) for each in (_OF_LEAVES, _PRETRAINED)) and not mentions(
        _FREEZES, flow.module
    )

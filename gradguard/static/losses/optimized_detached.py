"""Attributes that an optimizer is given by their names, and of which an object uses detached numbers alone.

``Adam([self.log_alpha])``, and a property that gives ``self.log_alpha.exp().detach()`` to every loss.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.losses.only_detached import is_in_a_penalty, without_graph
from gradguard.static.losses.taken_as_numbers import is_set
from gradguard.static.mistakes.losses import OnlyDetached
from gradguard.static.optimizers.schedulers import makes_optimizer
from gradguard.static.program.classes import Class
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LOADS = re.compile(r"load|restore|resume|set_state")
_KNOWN = (
    r"(?<!\bself)\.NAME\b(?!(?:\.\w+\(\))*\.(?:detach\(\)(?!\.\w+_\()|(?:item|tolist|shape|numel|size)\b))|"
    r"attr\([^)\n]*['\"]NAME['\"]"
)


def optimized_detached(flow: Flow) -> Iterator[OnlyDetached]:
    """What an optimizer that a method makes is given, and never gets a gradient (reads other files)."""
    owner, ref = flow.ref.owner, flow.ref
    if owner is None or flow.facts.is_test:
        return
    given = {node for call in ref.calls if makes_optimizer(ref, call) for node in _given_by_name(call)}
    for name in sorted({node.name for node in given}):
        made = _made_to_learn(owner, name)
        site = _detached_in(owner, name, given) if made is not None else None
        if made is not None and site is not None and not _is_known(flow, owner, name):
            yield OnlyDetached(site, name, made)


def _given_by_name(call: t.Call) -> Iterator[t.Attribute]:
    """``self.log_alpha`` of ``Adam([self.log_alpha])``; not the network of ``self.net.parameters()``."""
    nodes = [node for arg in call.args for node in t.walk(arg.value) if isinstance(node, t.Attribute)]
    owners = {id(node.value) for node in nodes}
    yield from (node for node in nodes if t.path_of(node.value) == "self" and id(node) not in owners)


def _made_to_learn(cls: Class, name: str) -> Site | None:
    """Where a tensor is made that wants a gradient, if nothing else is bound to the attribute."""
    made = [(each, value) for each in cls.lineage() for _, value in each.assigned(name)]
    of, value = made[0] if len(made) == 1 else (cls, None)
    calls = (node for node in t.walk(value) if isinstance(node, t.Call)) if value is not None else ()
    return Site(of.chunk, value) if value is not None and any(map(_wants_gradient, calls)) else None


def _wants_gradient(call: t.Call) -> bool:
    wants = call.argument("requires_grad", 1 if call.name == "Parameter" else 0)
    is_on = isinstance(wants, t.Constant) and wants.value is True
    if call.name in ("Parameter", "requires_grad_"):
        return wants is None or is_on
    return call.is_true("requires_grad")


def _detached_in(cls: Class, name: str, given: set[t.Attribute]) -> Site | None:
    """What detaches the attribute last in the text; None where something uses it with its graph, or sets it."""
    path, found = f"self.{name}", list[Site]()
    for method in methods_of(cls):
        uses = {node for node in method.define.nodes if isinstance(node, t.Attribute) and t.path_of(node) == path}
        targets = {each for s in method.define.statements if isinstance(s, t.Assign) for each in s.targets}
        rest = uses - targets - given
        if not rest <= without_graph(method.define):
            return None
        if _LOADS.search(method.define.name) is None and is_set(method.define, path) and not uses & targets:
            return None
        cuts = [node for node in method.define.nodes if isinstance(node, t.Expr) and _detaches(node, rest)]
        found += [Site(method.chunk, node) for node in cuts]
    return max(found, key=lambda site: site.line, default=None)


def _detaches(node: t.Expr, uses: set[t.Attribute]) -> bool:
    inner = t.detached(node)
    return inner is not None and any(part in uses for part in t.walk(inner))


def _is_known(flow: Flow, cls: Class, name: str) -> bool:
    """Whether something outside of the class may train it, or knows it by its name (reads other files)."""
    survey, known = flow.project.survey, _KNOWN.replace("NAME", re.escape(name))
    known += rf"|['\"](?:\w+\.)*{re.escape(name)}['\"]" if cls.is_module else ""
    if survey.is_base(cls.name, cls.module) or survey.mentions(re.compile(known), cls.module, name):
        return True
    return cls.is_module and is_in_a_penalty(cls)

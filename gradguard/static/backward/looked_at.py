"""Whether anything between a backward and a reset looks at the gradients that the one leaves and the other resets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.model import Event
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What looks at gradients, or changes them, by its name.
_OF_GRADIENTS = re.compile(r"grad|unscale|all_?reduce|sync", re.I)
_NO_LOOK = re.compile(r"^(?:grad|zero_grad\w*|no_grad|enable_grad|set_grad_enabled|\w*penalty\w*|synchronize)$")
_FUNCTIONS = ("torch.autograd.grad", "autograd.grad")
# Of a module, or of an optimizer: they do nothing with gradients.
_HARMLESS = frozenset("train eval zero_grad step state_dict load_state_dict to cuda cpu forward".split())


class Names(NamedTuple):
    """The last words of paths: of the module whose gradients are thrown away, and of what is trained."""

    wasted: frozenset[str]
    trained: frozenset[str]


def is_looked_at(flow: Flow, backward: Event, reset: Event, names: Names) -> bool:
    """Whether anything between a backward and a reset looks at the gradients of a module, or may."""
    return any(_looks(node, names) for node in _between(flow, backward, reset))


def _between(flow: Flow, backward: Event, reset: Event) -> Iterator[t.Node]:
    """The nodes from the line of a backward to that of a reset, round its loop, and in what is called for the two."""
    here, there = backward, reset
    while here.site.node is there.site.node and here.inner is not None and there.inner is not None:
        here, there = here.inner, there.inner
    first, last = here.site.line, there.site.line
    called = [each.site.node for each in (here, there) if each.inner is not None]
    called += [each.site.node for each in flow.facts.zero_grads]
    whole = flow.ref.define.nodes if here is backward else _function_of(here)
    loops = list(here.loop.around()) if here.loop is not None else []
    if first <= last:
        yield from (node for node, line in _with_lines(here.site, whole, called) if first <= line <= last)
    elif loops:
        round_ = t.walk(loops[-1].site.node)
        yield from (node for node, line in _with_lines(here.site, round_, called) if line >= first or line <= last)
    while (inner := here.inner) is not None:
        called = [inner.site.node] if inner.inner is not None else []
        nodes = _with_lines(inner.site, _function_of(inner), called)
        yield from (node for node, line in nodes if line >= inner.site.line)
        here = inner
    while (inner := there.inner) is not None:
        called = [inner.site.node] if inner.inner is not None else []
        nodes = _with_lines(inner.site, _function_of(inner), called)
        yield from (node for node, line in nodes if line <= inner.site.line)
        there = inner


def _with_lines(site: Site, nodes: Iterable[t.Node], besides: Sequence[t.Node] = ()) -> Iterator[tuple[t.Node, int]]:
    """Attributes and calls with their lines, but for some calls that are looked into."""
    for node in nodes:
        if isinstance(node, t.Attribute | t.Call) and node.origin is not None and not _is_one(node, besides):
            yield node, Site(site.chunk, node).line


def _is_one(node: t.Node, of: Sequence[t.Node]) -> bool:
    return any(node is each for each in of)


def _function_of(event: Event) -> Sequence[t.Node]:
    """The nodes of the function that an event is written in."""
    defines = (node for node in t.walk(event.site.chunk.statements) if isinstance(node, t.Define))
    around = [define for define in defines if any(node is event.site.node for node in define.nodes)]
    return around[-1].nodes if around else ()


def _looks(node: t.Node, names: Names) -> bool:
    """``p.grad``, ``clip_grad_norm_(params, 1)``, ``log(generator)``; not ``clip_grad_norm_(d.parameters(), 1)``."""
    if isinstance(node, t.Attribute):
        return node.name == "grad" and t.path_of(node) not in _FUNCTIONS
    if not isinstance(node, t.Call) or node.name in _HARMLESS:
        return False
    words = {word for arg in node.args for word in _words(arg.value, names)}
    if words & names.wasted:
        return True
    of_gradients = _OF_GRADIENTS.search(node.name) is not None and _NO_LOOK.search(node.name) is None
    return of_gradients and not words & names.trained


def _words(expr: t.Expr, names: Names) -> Iterator[str]:
    """The names in an argument, but for what a module is run for, or asked for: ``generator(z)``."""
    nodes = list(t.walk(expr))
    calls = [node.func for node in nodes if isinstance(node, t.Call) and _is_harmless(node, names)]
    run = {id(part) for func in calls for part in t.walk(func)}
    for node in nodes:
        if isinstance(node, t.Name | t.Attribute) and id(node) not in run:
            yield node.id if isinstance(node, t.Name) else node.name


def _is_harmless(call: t.Call, names: Names) -> bool:
    return call.name in names.wasted or call.name in _HARMLESS

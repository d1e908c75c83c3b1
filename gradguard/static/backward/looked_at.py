"""Whether anything between a backward and a reset looks at the gradients that the one leaves and the other resets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.model import Event
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What looks at gradients, or changes them, by its name.
_OF_GRADIENTS = re.compile(r"grad|unscale|all_?reduce|sync", re.I)
_TELLS = re.compile(r"grad|hook|backward|unscale|all_?reduce|sync", re.I)
_NO_WORD = re.compile(r"^(?:zero_grad\w*|no_grad|enable_grad|set_grad_enabled|synchronize)$")
_NO_LOOK = re.compile(r"^(?:grad|zero_grad\w*|no_grad|enable_grad|set_grad_enabled|\w*penalty\w*|synchronize)$")
_FUNCTIONS = ("torch.autograd.grad", "autograd.grad")
# Of a module, or of an optimizer: they do nothing with gradients.
_HARMLESS = frozenset("train eval zero_grad step state_dict load_state_dict to cuda cpu forward".split())
# They are given a module, or an optimizer, for its parameters or for its rate.
_KEEPS = re.compile(r"save(?!\w*grad)|checkpoint|learning_rate|(?:^|_)lr(?:_|$)", re.I)


class Names(NamedTuple):
    """The last words of paths: of the module whose gradients are thrown away, and of what is trained."""

    wasted: frozenset[str]
    trained: frozenset[str]


def is_looked_at(flow: Flow, backward: Event, reset: Event, names: Names) -> bool:
    """Whether anything between a backward and a reset looks at the gradients of a module, or may."""
    return any(_looks(node, names) and not _is_for_else(flow, node) for node in _between(flow, backward, reset))


def _is_for_else(flow: Flow, node: t.Node) -> bool:
    """Whether a call is of a function of the program that has no word of gradients: it averages the weights."""
    if not isinstance(node, t.Call) or _OF_GRADIENTS.search(node.name) is not None:
        return False
    called = list(functions_called(flow, node))
    return bool(called) and all(_has_no_word(ref) for ref in called)


def _has_no_word(ref: FunctionRef, depth: int = 3) -> bool:
    """Whether neither a function nor what it calls of the program names gradients."""
    nodes = [node for node in ref.define.nodes if isinstance(node, t.Name | t.Attribute)]
    words = [node.id if isinstance(node, t.Name) else node.name for node in nodes]
    if any(_TELLS.search(word) and not _NO_WORD.search(word) for word in words):
        return False
    called = [found for call in ref.calls if (found := ref.callee(call)) is not None]
    return not called or (depth > 0 and all(_has_no_word(each, depth - 1) for each in called))


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
    of_gradients = _OF_GRADIENTS.search(node.name) is not None and _NO_LOOK.search(node.name) is None
    if words & names.wasted:
        return of_gradients or _KEEPS.search(node.name) is None
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

"""Gradient modes that ask for a word which never comes: ``phase != "val"``, of "train" and "valid"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.mistakes.evaluation import AwaitedWord
from gradguard.static.program.bound_paths import binds, bound
from gradguard.static.program.functions import FunctionRef
from gradguard.static.reading.phases import told_at

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_EVALUATES = re.compile(r"^(?:val(?:id)?|validat\w*|dev|test\w*|eval\w*|infer\w*|predict\w*)(?:_\w+)?$", re.I)
_AS_IT_IS = ("list", "tuple", "sorted", "reversed", "tqdm")
_DEPTH = 3


class _Test(NamedTuple):
    """A comparison of a variable with some words.

    Args:
        equal: it holds if the variable is one of them.
    """

    name: str
    words: frozenset[str]
    equal: bool


def awaited_words(flow: Flow) -> Iterator[AwaitedWord]:
    """The modes that are to be off for an evaluation, by a word that no evaluation has (reads other files)."""
    backwards = [each.site.node for each in flow.facts.backwards]
    for call in flow.ref.calls if backwards and not flow.facts.is_test else ():
        test = _keeps_graphs(flow.ref, call)
        words = _words(flow, test.name) if test is not None else None
        if test is None or words is None or not words.isdisjoint(test.words):
            continue
        evaluating = {word for word in words if _EVALUATES.match(word) is not None}
        if not evaluating or evaluating == words:
            continue
        if all(_is_beside(flow, node, test.name, word) for node in backwards for word in evaluating):
            trained, awaited = words - evaluating, test.words
            yield AwaitedWord(
                flow.site(call), test.name, tuple(sorted(words)), tuple(sorted(awaited)), tuple(sorted(trained))
            )


def _keeps_graphs(ref: FunctionRef, call: t.Call) -> _Test | None:
    """What a mode asks for that records graphs unless a variable is one of some words."""
    if not call.args or call.name not in ("set_grad_enabled", "inference_mode"):
        return None
    mode, given = ref.module.value_of(call.func).ref, call.argument("mode", 0)
    test = _test(ref, given) if given is not None else None
    is_off = mode in k.NO_GRAD  # ``inference_mode(phase == "val")``
    return test if test is not None and (is_off or mode in k.SET_GRAD) and test.equal == is_off else None


def _test(ref: FunctionRef, expr: t.Expr, depth: int = _DEPTH) -> _Test | None:
    if isinstance(expr, t.Name) and depth:
        values = ref.assigned.get(expr.id, [])
        return _test(ref, values[0], depth - 1) if len(values) == 1 else None
    if not isinstance(expr, t.Operation):
        return None
    if expr.operator == "not" and depth:
        test = _test(ref, expr.operands[0], depth - 1)
        return test._replace(equal=not test.equal) if test is not None else None
    if expr.operator not in ("==", "!=", "in", "not in") or not isinstance(expr.operands[0], t.Name):
        return None
    right = expr.operands[1]
    is_several = expr.operator.endswith("in")
    words = _constants(right.items) if is_several and isinstance(right, t.Display) else None
    words = _constants([right]) if not is_several else words
    return _Test(expr.operands[0].id, words, expr.operator in ("==", "in")) if words is not None else None


def _constants(items: list[t.Expr]) -> frozenset[str] | None:
    """The words that are written out; None where something else is among them."""
    words = [item.value for item in items if isinstance(item, t.Constant) and isinstance(item.value, str)]
    return frozenset(words) if words and len(words) == len(items) else None


def _is_beside(flow: Flow, node: object, name: str, word: str) -> bool:
    """Whether a node does not run where a variable is a word."""
    told = (each for each in told_at(flow, node) if each.name == name)
    return any(each.equal == (each.text != word) for each in told)


def _words(flow: Flow, name: str) -> frozenset[str] | None:
    """The words that a variable is, one by one; None where it may be something else."""
    own = _bound(flow.ref, name)
    params = [param for param in flow.ref.define.params if param.name == name and not param.star]
    if own is not None or not params or flow.facts.is_handed_over():
        return own
    found: set[str] = set()
    for caller in flow.project.written_calling(flow.ref):
        for call in caller.calls:
            if call.name == flow.ref.define.name:
                given = None if any(arg.star for arg in call.args) else flow.ref.given_by(call).get(name)
                words = _given(caller, given if given is not None else params[0].default)
                if words is None:
                    return None
                found |= words
    return frozenset(found) or None


def _given(ref: FunctionRef, value: t.Expr | None) -> frozenset[str] | None:
    if isinstance(value, t.Name):
        return _bound(ref, value.id)
    return _constants([value]) if value is not None else None


def _bound(ref: FunctionRef, name: str) -> frozenset[str] | None:
    """The words that a function binds a variable to, by loops over them."""
    found: set[str] = set()
    for stmt in ref.define.statements:
        if not binds(stmt, name):
            continue
        value = bound(stmt, name)
        words = _of_loop(ref, stmt, name) if isinstance(stmt, t.Repeat) else _constants([value] if value else [])
        if words is None:
            return None
        found |= words
    return frozenset(found) or None


def _of_loop(ref: FunctionRef, loop: t.Repeat, name: str) -> frozenset[str] | None:
    """What a loop goes over: words, or the keys of a dict."""
    target, over = loop.target, loop.iterable
    is_items = isinstance(over, t.Call) and over.name == "items"
    if isinstance(target, t.Display) and is_items:
        target = target.items[0]
    is_of_dict = isinstance(over, t.Call) and isinstance(over.func, t.Attribute) and over.name in ("items", "keys")
    if isinstance(over, t.Call) and is_of_dict and isinstance(over.func, t.Attribute):
        over = over.func.value
    is_whole = isinstance(target, t.Name) and target.id == name
    return _written(ref, over) if is_whole and over is not None else None


def _written(ref: FunctionRef, over: t.Expr) -> frozenset[str] | None:
    """The words of a list or dict, where it is written out, and nothing adds to it."""
    while isinstance(over, t.Call) and over.name in _AS_IT_IS and over.args:
        over = over.args[0].value
    if isinstance(over, t.Name):
        values = ref.assigned.get(over.id, []) or ref.module.bound_to(over.id)
        changed = rf"\b{over.id}\s*(?:\.(?:append|extend|insert|update|setdefault)\b|\[[^\]\n]+\]\s*=(?!=)|\+=)"
        if len(values) != 1 or re.search(changed, ref.module.source.text) is not None:
            return None
        over = values[0]
    if isinstance(over, t.DictDisplay):
        keys = [key for key, _ in over.entries if key is not None]
        return _constants(keys) if len(keys) == len(over.entries) else None
    return _constants(over.items) if isinstance(over, t.Display) else None

"""Who may freeze a module, by the names that statements and helpers have it by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.looked_at import Names
from gradguard.static.files.lines import lines_with

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# Parameters are frozen, or as something tells; a helper that does so, by its name.
_SETS = re.compile(r"\.requires_grad(?:[ \t]*=(?!=)[ \t]*|_\([ \t]*(?:requires_grad[ \t]*=[ \t]*)?)(?!True\b|\))")
_HELPER = re.compile(r"grad|fre+ze|toggle", re.I)
_SWITCHES = re.compile(r"requires_grad$|fre+ze(?!n)|toggle", re.I)


def may_freeze(flow: Flow, names: Names) -> bool:
    """Whether something freezes the module whose gradients are thrown away, or may (reads other files).

    Not if all that freezes anything is told of what is trained. What is frozen where it is made is known.
    """
    return not all(_is_of_trained(words, names) for words in _frozen_here(flow)) or _may_elsewhere(flow, names)


def _is_of_trained(words: Set[str], names: Names) -> bool:
    return names.wasted.isdisjoint(words) and not names.trained.isdisjoint(words)


def _frozen_here(flow: Flow) -> Iterator[Set[str]]:
    """The names that each statement of a function has which freezes something, or has a helper do so."""
    loops: dict[str, set[str]] = {}
    for stmt in flow.ref.define.statements:
        if isinstance(stmt, t.Repeat) and stmt.target is not None and stmt.iterable is not None:
            gone_through = _names_in(stmt.iterable)
            loops.update(dict.fromkeys(_names_in(stmt.target), gone_through))
    for node in flow.ref.define.nodes:
        frozen = _frozen_by(node)
        if frozen is not None:
            words = _names_in(frozen)
            yield words.union(*(loops.get(word, set()) for word in words))


def _frozen_by(node: t.Node) -> t.Expr | None:
    """``p`` of ``p.requires_grad = False``, ``p.requires_grad_(on)``; a call of ``freeze(net)``."""
    if isinstance(node, t.Assign):
        targets = (target for target in node.targets if isinstance(target, t.Attribute))
        found = next((target.value for target in targets if target.name == "requires_grad"), None)
        return found if not _is_true(node.value) else None
    if not isinstance(node, t.Call):
        return None
    if isinstance(node.func, t.Attribute) and node.func.name == "requires_grad_":
        return node.func.value if node.args and not _is_true(node.args[0].value) else None
    return node if _SWITCHES.search(node.name) is not None else None


def _is_true(expr: t.Expr) -> bool:
    return isinstance(expr, t.Constant) and expr.value is True


def _names_in(expr: t.Expr) -> set[str]:
    nodes = list(t.walk(expr))
    return {
        node.id if isinstance(node, t.Name) else node.name for node in nodes if isinstance(node, t.Name | t.Attribute)
    }


def _may_elsewhere(flow: Flow, names: Names) -> bool:
    """Whether another function of the program freezes it, or may: not if that is a helper, given what is trained."""
    survey, known = flow.project.survey, (flow.ref.define.name, "__init__", "<module>")
    texts = list(survey.texts_used("requires_grad", flow.module, _SETS))
    lines = (line for text in texts for line in lines_with("requires_grad", text) if _SETS.search(line.text))
    helpers = {line.function for line in lines} - set(known)
    if not all(map(_HELPER.search, helpers)):
        return True
    calls = (
        line.text
        for helper in sorted(helpers)
        for text in survey.texts_used(f"{helper}(", flow.module)
        for line in lines_with(f"{helper}(", text)
        if re.search(rf"\bdef\s+{re.escape(helper)}\b", line.text) is None
    )
    return not all(_is_of_trained(set(re.findall(r"\w+", call)), names) for call in calls)

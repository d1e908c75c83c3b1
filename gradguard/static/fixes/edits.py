"""Edits of expressions and arguments that a fix is made of, and source text as messages show it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.findings import Edit, Fix, Span
from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.model import Backward, Event


def instead(site: Site, text: str, what: str) -> Fix:
    """Write something else in a place.

    Args:
        what: that is done, in a few words.
    """
    return Fix(what, (site.replace(text),), safe=False)


def detached(site: Site) -> Edit | None:
    """The edit that makes an expression ``expression.detach()``; None where that cannot be right."""
    node = site.node
    is_computed = isinstance(node, t.Operation) and node.operator in k.ARITHMETIC  # not `loss and 1`
    return called(site, "detach()") if is_computed or isinstance(node, _PRIMARY) else None


def with_call(site: Site, call: str) -> Fix:
    """Call a method on what stands in a place: ``view.clone()``."""
    return Fix(f"write `.{call}` behind `{one_line(site.code)}`", (called(site, call),), safe=False)


def called(site: Site, call: str) -> Edit:
    """The edit that puts ``.call`` behind an expression, in parentheses where it needs them."""
    if isinstance(site.node, _PRIMARY):
        return site.replace(f"{site.text}.{call}")
    span, lines, text = site.span, site.lines, f"({site.text}).{call}"
    before, behind = lines[0][: span.column - 1], lines[-1][span.end_column - 1 :]
    if not (_has_parentheses(site) and before.endswith("(") and behind.startswith(")")):
        return site.replace(text)
    return Edit(Span(span.line, span.column - 1, span.end_line, span.end_column + 1), text)


def given_to(site: Site, function: str) -> Edit:
    """What gives an expression to a function, in its own parentheses if it has some: ``list(x for x in y)``."""
    span, before = site.span, site.lines[0][: site.span.column - 1]
    if _has_parentheses(site) and before.endswith("("):
        return Edit(Span(span.line, span.column - 1, span.line, span.column - 1), function)
    return site.replace(f"{function}({site.text})")


def _has_parentheses(site: Site) -> bool:
    return "".join(site.code.split()) != "".join(site.text.split())


def inserted_call(call: Event, code: str) -> Edit | None:
    """The edit that puts ``.code`` before the method that is called: ``x.detach().cpu().numpy()``."""
    node = call.site.node
    if call.inner is not None or not isinstance(node, t.Call) or not isinstance(node.func, t.Attribute):
        return None
    receiver = Site(call.site.chunk, node.func.value)
    text = receiver.text if isinstance(node.func.value, _PRIMARY) else f"({receiver.text})"
    return receiver.replace(f"{text}.{code}")


_PRIMARY = (t.Name, t.Attribute, t.Subscript, t.Call)


def argument_added(backward: Backward, argument: str) -> Edit | None:
    """The edit that gives a backward call one more argument, behind those that it has."""
    site = backward.site
    call = site.node
    if backward.inner is not None or not isinstance(call, t.Call) or not site.code.endswith(")"):
        return None
    if any(given.keyword == argument.partition("=")[0] for given in call.args):
        return None
    span = site.span
    end = Span(span.end_line, span.end_column - 1, span.end_line, span.end_column - 1)
    return Edit(end, f", {argument}" if call.args else argument)


def argument_removed(backward: Backward, keyword: str) -> Edit | None:
    """The edit that takes a keyword argument out of a backward call."""
    call = backward.source.site.node
    if not isinstance(call, t.Call):
        return None
    index = next((i for i, a in enumerate(call.args) if a.keyword == keyword), None)
    if index is None or index != len(call.args) - 1:
        return None
    site = backward.source.site
    value = Site(site.chunk, call.args[index].value).span
    before = Site(site.chunk, call.args[index - 1].value).span if index else Site(site.chunk, call.func).span
    start = before.end_column if index else before.end_column + 1
    line = site.lines[0]
    gone = line[start - 1 : value.end_column - 1]
    is_plain = re.fullmatch(rf"(?:,\s*)?{keyword}\s*=\s*\w+", gone) is not None
    if before.end_line != value.end_line or not is_plain or not re.match(r"\s*\)", line[value.end_column - 1 :]):
        return None
    return Edit(Span(before.end_line, start, value.end_line, value.end_column), "")


def one_line(code: str, width: int = 60) -> str:
    line = " ".join(code.split())
    return line if len(line) <= width else line[: width - 3] + "..."

"""Edits that a fix is made of, and source text as messages show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.findings import Edit, Fix, Span
from gradguard.static import tree as t
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.model import Backward, Event, Loop


def detached(site: Site) -> Edit | None:
    """The edit that makes an expression ``expression.detach()``; None where that cannot be right."""
    if isinstance(site.node, t.Name | t.Attribute | t.Subscript | t.Call):
        return site.replace(f"{site.code}.detach()")
    if isinstance(site.node, t.Operation):
        return site.replace(f"({site.code}).detach()")
    return None


def inserted_call(call: Event, code: str) -> Edit | None:
    """The edit that puts ``.code`` before the method that is called: ``x.detach().cpu().numpy()``."""
    node = call.site.node
    if call.inner is not None or not isinstance(node, t.Call) or not isinstance(node.func, t.Attribute):
        return None
    receiver = Site(call.site.chunk, node.func.value)
    text = receiver.code if isinstance(node.func.value, _PRIMARY) else f"({receiver.code})"
    return receiver.replace(f"{text}.{code}")


_PRIMARY = (t.Name, t.Attribute, t.Subscript, t.Call)


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
    return Edit(Span(before.end_line, start, value.end_line, value.end_column), "")


def statement_before(event: Event, statement: str) -> Fix | None:
    """Put a statement on a line of its own before the event's statement, if that begins its line."""
    site = event.site
    indent = site.indent
    if event.inner is not None or site.span.column != len(indent) + 1:
        return None
    return Fix(f"insert `{statement}`", (site.insert_before(f"{statement}\n{indent}"),), safe=False)


def first_in_loop(loop: Loop, statement: str) -> Fix | None:
    """Put a statement on a line of its own before the first one of a loop's body."""
    stmt = loop.site.node
    first = Site(loop.site.chunk, stmt.body[0]) if isinstance(stmt, t.Repeat) and stmt.body else None
    if first is None or first.span.column != len(first.indent) + 1:
        return None
    return Fix(f"insert `{statement}`", (first.insert_before(f"{statement}\n{first.indent}"),), safe=False)


def one_line(code: str, width: int = 60) -> str:
    line = " ".join(code.split())
    return line if len(line) <= width else line[: width - 3] + "..."

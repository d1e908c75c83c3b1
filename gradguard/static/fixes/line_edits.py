"""Edits of whole lines: statements that are put in, taken out, moved, or put into a block."""

from __future__ import annotations

import io
import textwrap
import tokenize
from typing import TYPE_CHECKING

from gradguard.findings import Edit, Fix, Span
from gradguard.static import tree as t
from gradguard.static.fixes.edits import one_line
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.model import Event, Loop


def statement_before(event: Event, statement: str) -> Fix | None:
    """Put a statement on a line of its own before the event's statement, if that begins its line."""
    site = event.site
    indent = site.indent
    if event.inner is not None or site.span.column != len(indent) + 1:
        return None
    return Fix(f"insert `{statement}`", (site.insert_before(f"{statement}\n{indent}"),), safe=False)


def statement_after(event: Event, statement: str) -> Fix | None:
    """Put a statement on a line of its own behind the event's statement, if that is one call on lines of its own."""
    site = event.site
    if event.inner is not None or not _has_lines_of_its_own(site):
        return None
    return Fix(f"insert `{statement}`", (_behind(site, statement),), safe=False)


def first_in_loop(loop: Loop, statement: str) -> Fix | None:
    """Put a statement on a line of its own before the first one of a loop's body."""
    stmt = loop.site.node
    first = Site(loop.site.chunk, stmt.body[0]) if isinstance(stmt, t.Repeat) and stmt.body else None
    if first is None or first.span.column != len(first.indent) + 1:
        return None
    return Fix(f"insert `{statement}`", (first.insert_before(f"{statement}\n{first.indent}"),), safe=False)


def last_in_loop(loop: Loop, statement: str) -> Fix | None:
    """Put a statement on a line of its own behind the last one of a loop's body, where each iteration comes there."""
    body = loop.site.node.body if isinstance(loop.site.node, t.Repeat) else []
    if not body or any(isinstance(stmt, t.Leave) for stmt in t.walk_statements(body)):
        return None
    last = Site(loop.site.chunk, body[-1])
    if not _has_lines_of_its_own(last) or isinstance(last.node, t.Return | t.Raise):
        return None
    return Fix(f"insert `{statement}`", (_behind(last, statement),), safe=False)


def moved(event: Site, before: Site) -> Fix | None:
    """Move a statement that is one call before another such statement, which is indented as it is."""
    if event.path != before.path or event.cell != before.cell or event.indent != before.indent:
        return None
    if not _has_lines_of_its_own(event) or before.span.column != len(before.indent) + 1 or _is_alone(event):
        return None
    if _is_bound_between(event, before.line, event.line):
        return None
    text = "\n".join(event.lines).removeprefix(event.indent)
    edits = (before.insert_before(f"{text}\n{before.indent}"), _without(event))
    where = "up" if before.span < event.span else "down"
    return Fix(f"move `{one_line(event.code)}` {where}", edits, safe=False)


def removed(site: Site) -> Fix | None:
    """Take out a statement that is one call."""
    if not _has_lines_of_its_own(site):
        return None
    gone = site.replace("pass") if _is_alone(site) else _without(site)
    return Fix(f"remove `{one_line(site.code)}`", (gone,), safe=False)


def hoisted(site: Site, loop: Loop) -> Fix | None:
    """Move a statement that is one call before a loop that binds none of its names."""
    whole = loop.site
    if not _has_lines_of_its_own(site) or whole.span.column != len(whole.indent) + 1 or whole.chunk is not site.chunk:
        return None
    if _has_long_tokens(site.lines) or _is_alone(site) or _is_bound_between(site, whole.line, whole.span.end_line + 1):
        return None
    text = "\n".join(whole.indent + line.removeprefix(site.indent) for line in site.lines).removeprefix(whole.indent)
    edits = (whole.insert_before(f"{text}\n{whole.indent}"), _without(site))
    return Fix(f"move `{one_line(site.code)}` before the loop", edits, safe=False)


def under(site: Site, manager: str) -> Fix | None:
    """Run the statement that a node is in, a whole loop say, in a ``with``: its lines are indented.

    None where they hold a string of several lines, which would become another one.
    """
    whole = _statement_of(site)
    if whole is None or not _has_lines_of_its_own(whole):
        return None
    lines, span, indent = whole.lines, whole.span, whole.indent
    if _has_long_tokens(lines):
        return None
    unit = _unit(lines, indent)
    rest = (span.line + place for place, line in enumerate(lines) if place and line.strip())
    shifted = (Edit(Span(line, 1, line, 1), unit) for line in rest)
    opened = whole.insert_before(f"with {manager}:\n{indent}{unit}")
    return Fix(f"put it under `with {manager}:`", (opened, *shifted), safe=False)


def _without(site: Site) -> Edit:
    """Without the lines that a statement has to itself."""
    span = site.span
    return Edit(Span(span.line, 1, span.end_line + 1, 1), "")


def _behind(site: Site, statement: str) -> Edit:
    """A line behind those of a statement, indented as it is."""
    end = site.span.end_line + 1
    return Edit(Span(end, 1, end, 1), f"{site.indent}{statement}\n")


def _is_alone(site: Site) -> bool:
    """Whether a statement is the only one of its block."""
    whole = _statement_of(site)
    nodes = t.walk(site.chunk.statements)
    blocks = (block for stmt in nodes if isinstance(stmt, t.Stmt) for block in _blocks(stmt))
    return whole is not None and any(len(block) == 1 and block[0] is whole.node for block in blocks)


def _blocks(stmt: t.Stmt) -> list[list[t.Stmt]]:
    return [stmt.body] if isinstance(stmt, t.Define | t.DefineClass) else t.blocks(stmt)


def _is_bound_between(site: Site, first: int, end: int) -> bool:
    """Whether some lines bind a name that an expression needs.

    Args:
        first: the first of the lines.
        end: the one behind the last.
    """
    needed = {node.id for node in t.walk(site.node) if isinstance(node, t.Name)}
    binding = (node for node in t.walk(site.chunk.statements) if needed.intersection(_binds(node)))
    return any(first <= Site(site.chunk, node).line < end for node in binding)


def _binds(node: object) -> list[str]:
    """The names that a statement or an expression binds."""
    targets: list[t.Expr | None] = []
    if isinstance(node, t.Assign):
        targets += node.targets
    elif isinstance(node, t.Augment | t.Walrus | t.Repeat):
        targets.append(node.target)
    elif isinstance(node, t.With):
        targets += [target for _, target in node.items]
    elif isinstance(node, t.Define | t.DefineClass):
        return [node.name]
    elif isinstance(node, t.Import):
        return list(node.names)
    return [each.id for target in targets if target for each in t.names_in(target) if isinstance(each, t.Name)]


def _statement_of(site: Site) -> Site | None:
    """The innermost statement that a node is or stands in."""
    around = [
        (sum(1 for _ in t.walk(each)), each)
        for each in t.walk(site.chunk.statements)
        if isinstance(each, t.Stmt) and any(node is site.node for node in t.walk(each))
    ]
    return Site(site.chunk, min(around, key=lambda pair: pair[0])[1]) if around else None


def _has_lines_of_its_own(site: Site) -> bool:
    """Whether nothing but a comment stands beside it in the lines that it is in."""
    span, lines = site.span, site.lines
    behind = lines[-1][span.end_column - 1 :].strip()
    return span.column == len(site.indent) + 1 and (not behind or behind.startswith("#"))


def _unit(lines: list[str], indent: str) -> str:
    """One step of indentation, as the lines of a statement show it."""
    below = next((line for line in lines[1:] if line.strip()), "")
    deeper = below[: len(below) - len(below.lstrip())].removeprefix(indent)
    return deeper if deeper and len(deeper) <= 8 and below.startswith(indent) else "\t" if "\t" in indent else "    "


def _has_long_tokens(lines: list[str]) -> bool:
    """Whether a string goes over several lines, as far as they can be read by themselves."""
    text = textwrap.dedent("\n".join(lines)) + "\n"
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return True
    return any(token.start[0] != token.end[0] for token in tokens)

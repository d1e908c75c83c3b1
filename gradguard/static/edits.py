"""Edits that a fix is made of, and source text as messages show it."""

from __future__ import annotations

import io
import re
import textwrap
import tokenize
from typing import TYPE_CHECKING

from gradguard.findings import Edit, Fix, Span
from gradguard.static import tree as t
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.model import Backward, Event, Loop


def instead(site: Site, text: str, what: str) -> Fix:
    """Write something else in a place.

    Args:
        what: that is done, in a few words.
    """
    return Fix(what, (site.replace(text),), safe=False)


def detached(site: Site) -> Edit | None:
    """The edit that makes an expression ``expression.detach()``; None where that cannot be right."""
    node = site.node
    is_choice = isinstance(node, t.Operation) and not _ARITHMETIC.issuperset((node.operator,))  # `loss and 1`
    return called(site, "detach()") if isinstance(node, (*_PRIMARY, t.Operation)) and not is_choice else None


def with_call(site: Site, call: str) -> Fix:
    """Call a method on what stands in a place: ``view.clone()``."""
    return Fix(f"write `.{call}` behind `{one_line(site.code)}`", (called(site, call),), safe=False)


def called(site: Site, call: str) -> Edit:
    """The edit that puts ``.call`` behind an expression, in parentheses where it needs them."""
    if isinstance(site.node, _PRIMARY):
        return site.replace(f"{site.text}.{call}")
    span, lines, text = site.span, site.lines, f"({site.text}).{call}"
    before, behind = lines[0][: span.column - 1], lines[-1][span.end_column - 1 :]
    has_own = "".join(site.code.split()) != "".join(site.text.split())
    if not (has_own and before.endswith("(") and behind.startswith(")")):
        return site.replace(text)
    return Edit(Span(span.line, span.column - 1, span.end_line, span.end_column + 1), text)


def inserted_call(call: Event, code: str) -> Edit | None:
    """The edit that puts ``.code`` before the method that is called: ``x.detach().cpu().numpy()``."""
    node = call.site.node
    if call.inner is not None or not isinstance(node, t.Call) or not isinstance(node.func, t.Attribute):
        return None
    receiver = Site(call.site.chunk, node.func.value)
    text = receiver.text if isinstance(node.func.value, _PRIMARY) else f"({receiver.text})"
    return receiver.replace(f"{text}.{code}")


_PRIMARY = (t.Name, t.Attribute, t.Subscript, t.Call)
_ARITHMETIC = frozenset("+ - * / ** @ // %".split())


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
    end = site.span.end_line + 1
    return Fix(f"insert `{statement}`", (Edit(Span(end, 1, end, 1), f"{site.indent}{statement}\n"),), safe=False)


def first_in_loop(loop: Loop, statement: str) -> Fix | None:
    """Put a statement on a line of its own before the first one of a loop's body."""
    stmt = loop.site.node
    first = Site(loop.site.chunk, stmt.body[0]) if isinstance(stmt, t.Repeat) and stmt.body else None
    if first is None or first.span.column != len(first.indent) + 1:
        return None
    return Fix(f"insert `{statement}`", (first.insert_before(f"{statement}\n{first.indent}"),), safe=False)


def last_in_loop(loop: Loop, statement: str) -> Fix | None:
    """Put a statement on a line of its own behind the last one of a loop's body, where each iteration comes there."""
    stmt = loop.site.node
    if (
        not isinstance(stmt, t.Repeat)
        or not stmt.body
        or any(isinstance(s, t.Leave) for s in t.walk_statements(stmt.body))
    ):
        return None
    last = Site(loop.site.chunk, stmt.body[-1])
    if not _has_lines_of_its_own(last) or isinstance(last.node, t.Return | t.Raise):
        return None
    end = last.span.end_line + 1
    return Fix(f"insert `{statement}`", (Edit(Span(end, 1, end, 1), f"{last.indent}{statement}\n"),), safe=False)


def moved(event: Site, before: Site) -> Fix | None:
    """Move a statement that is one call before another such statement, which is indented as it is."""
    if event.path != before.path or event.cell != before.cell or event.indent != before.indent:
        return None
    if not _has_lines_of_its_own(event) or before.span.column != len(before.indent) + 1 or _is_alone(event):
        return None
    if _is_bound_between(event, before.line, event.line):
        return None
    span = event.span
    gone = Edit(Span(span.line, 1, span.end_line + 1, 1), "")
    text = "\n".join(event.lines).removeprefix(event.indent)
    return Fix(
        f"move `{one_line(event.code)}` up" if before.span < span else f"move `{one_line(event.code)}` down",
        (gone, before.insert_before(f"{text}\n{before.indent}")),
        safe=False,
    )


def removed(site: Site) -> Fix | None:
    """Take out a statement that is one call."""
    if not _has_lines_of_its_own(site):
        return None
    span = site.span
    gone = site.replace("pass") if _is_alone(site) else Edit(Span(span.line, 1, span.end_line + 1, 1), "")
    return Fix(f"remove `{one_line(site.code)}`", (gone,), safe=False)


def hoisted(site: Site, loop: Loop) -> Fix | None:
    """Move a statement that is one call before a loop that binds none of its names."""
    whole = loop.site
    names = {node.id for node in t.walk(site.node) if isinstance(node, t.Name)}
    if whole.chunk is not site.chunk or names & (loop.targets | loop.assigned) or not names:
        return None
    if not _has_lines_of_its_own(site) or whole.span.column != len(whole.indent) + 1:
        return None
    if _has_long_tokens(site.lines) or _is_alone(site) or _is_bound_between(site, whole.line, whole.span.end_line + 1):
        return None
    text = "\n".join(whole.indent + line.removeprefix(site.indent) for line in site.lines).removeprefix(whole.indent)
    span = site.span
    gone = Edit(Span(span.line, 1, span.end_line + 1, 1), "")
    edits = (whole.insert_before(f"{text}\n{whole.indent}"), gone)
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


def one_line(code: str, width: int = 60) -> str:
    line = " ".join(code.split())
    return line if len(line) <= width else line[: width - 3] + "..."

"""Entries of a dict under words that are written there: ``state.update(h=h, c=c)``, ``state.pop("h")``."""

from __future__ import annotations

from gradguard.static import tree as t
from gradguard.static.reading.called import Called
from gradguard.static.reading.lengthened import lengthened
from gradguard.static.reading.stores import store_rebind
from gradguard.static.values import NOTHING, UNKNOWN, Value, with_item

Entry = tuple[str, t.Expr, Value]


def written_entries(c: Called) -> list[Entry]:
    """What ``d.update(h=h)`` or ``d.update({"h": h})`` binds, where all of it is written there; else nothing."""
    if not all(arg.keyword is None or not arg.star for arg in c.node.args):
        return []
    given = c.node.args[0].value if len(c.node.args) == 1 and c.node.args[0].keyword is None else None
    if isinstance(given, t.DictDisplay):
        whole = c.arguments[0]
        words = [key.value if isinstance(key, t.Constant) else None for key, _ in given.entries]
        found = [(word, value, whole.part(word) or UNKNOWN) for word, (_, value) in zip(words, given.entries)]
    else:
        found = [(arg.keyword, arg.value, value) for arg, value in c.values if not arg.star]
    entries = [(word, source, value) for word, source, value in found if isinstance(word, str)]
    return entries if len(entries) == len(found) else []


def put_entries(c: Called, base: str, entries: list[Entry]) -> None:
    """Bind each entry, as ``d["h"] = h`` does."""
    flow, state = c.flow, c.state
    flow.touch(base, state)
    for word, source, value in entries:
        path = f'{base}["{word}"]'
        flow.touch(path, state)
        new = lengthened(flow, path, value, state, source)
        if new.keeps:
            store_rebind(flow, path, new, state, c.node, source)
        holder = flow.read(base, state)
        state.assign(path, new)
        state.env[base] = with_item(holder, word, new)


def forget_entries(c: Called, path: str) -> None:
    """What is taken out under a word is gone; under another key, it may be any entry."""
    key = c.node.args[0].value if c.node.args and c.method == "pop" else None
    if isinstance(key, t.Constant) and isinstance(key.value, str):
        known = [f'{path}["{key.value}"]']
    else:
        known = [entry for entry in c.state.env if entry.startswith(f'{path}["')]
    for entry in known:
        c.flow.touch(entry, c.state)
        c.state.assign(entry, NOTHING)

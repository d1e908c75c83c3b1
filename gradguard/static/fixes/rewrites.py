"""Fixes that write one part of a statement anew: which part that is, is looked for here."""

from __future__ import annotations

import re

from gradguard.findings import Fix
from gradguard.static import tree as t
from gradguard.static.fixes.edits import inserted_call, instead, one_line
from gradguard.static.mistakes.optimizers import LiveState, Unregistered
from gradguard.static.model import Event
from gradguard.static.source import Site


def without_item(term: Site) -> Fix | None:
    """Leave out the ``.item()`` that makes a number of a term, if that is in it once."""
    nodes = (node for node in t.walk(term.node) if isinstance(node, t.Call) and not node.args)
    copies = [(node, node.func) for node in nodes if isinstance(node.func, t.Attribute) and node.func.name == "item"]
    if len(copies) != 1:
        return None
    copy, func = copies[0]
    return instead(Site(term.chunk, copy), Site(term.chunk, func.value).text, "leave out `.item()`")


def as_text(statement: Site, name: str) -> Fix | None:
    """Store the text of an exception, where its name stands in a statement once."""
    named = [node for node in t.walk(statement.node) if isinstance(node, t.Name) and node.id == name]
    return instead(Site(statement.chunk, named[0]), f"str({name})", f"keep `str({name})`") if len(named) == 1 else None


def copied(state: LiveState) -> Fix | None:
    """Copy what is kept of a model, where that is written in the statement."""
    chunk = state.site.chunk
    nodes = (node for node in t.walk(state.site.node) if isinstance(node, t.Call | t.Name | t.Attribute))
    written = [Site(chunk, node) for node in nodes]
    shallow = [site for site in written if site.code == f"copy.copy({state.taken})"]
    values = shallow or [site for site in written if site.code == state.taken]
    if len(values) != 1:
        return None
    if re.search(r"^import copy\b", chunk.source.text, re.M):
        return instead(values[0], f"copy.deepcopy({state.taken})", f"copy `{state.taken}`")
    if not state.taken.endswith(".state_dict()"):
        return None
    tensors = f"{{key: value.clone() for key, value in {state.taken}.items()}}"
    return instead(values[0], tensors, f"copy the tensors of `{state.taken}`")


def marked_anew(call: Event) -> Fix | None:
    """Call ``requires_grad_`` on a new tensor; where nothing takes what it gives, under the name of the old one."""
    node, edit = call.site.node, inserted_call(call, "detach()")
    owner = node.func.value if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) else None
    if edit is None or owner is None:
        return None
    if any(isinstance(each, t.Evaluate) and each.value is node for each in t.walk(call.site.chunk.statements)):
        bound = f"{owner.id} = {owner.id}.detach().requires_grad_()" if isinstance(owner, t.Name) else ""
        return instead(call.site, bound, f"write `{bound}`") if bound else None
    return Fix("insert `.detach()`", (edit,), safe=False)


def registered(found: Unregistered, torch: str | None) -> Fix | None:
    """Make a list or a dict that is written out, once in its class, one of torch's own.

    Args:
        torch: the name that torch has in the file.
    """
    assigned = (node for node in t.walk(found.site.chunk.statements) if isinstance(node, t.Assign))
    values = [node.value for node in assigned if found.path in map(t.path_of, node.targets)]
    kind = _kind(values[0]) if len(values) == 1 else None
    return _of_nn(Site(found.site.chunk, values[0]), f"{found.holds}{kind}", torch) if kind is not None else None


def _kind(value: t.Expr) -> str | None:
    """What torch has in the place of a collection; no dict under keys that its own would not take."""
    if isinstance(value, t.Display | t.Comprehension) and value.kind == "list":
        return "List"
    keys: list[t.Expr | None] = []
    if isinstance(value, t.DictDisplay):
        keys += [key for key, _ in value.entries]
    elif isinstance(value, t.Comprehension) and value.kind == "dict":
        keys.append(value.key)
    else:
        return None
    return "Dict" if all(map(_may_name_module, keys)) else None


def _may_name_module(key: t.Expr | None) -> bool:
    """Whether ``ModuleDict`` takes a key: a text without a dot."""
    if isinstance(key, t.Constant):
        return isinstance(key.value, str) and "." not in key.value
    return isinstance(key, t.Text) or (isinstance(key, t.Call) and t.path_of(key.func) == "str")


def as_parameter(statement: Site, torch: str | None) -> Fix | None:
    """Make what a statement binds a parameter."""
    value = statement.node.value if isinstance(statement.node, t.Assign) else None
    return _of_nn(Site(statement.chunk, value), "Parameter", torch) if value is not None else None


def _of_nn(value: Site, name: str, torch: str | None) -> Fix | None:
    """Hand it to something of ``torch.nn``, by the name that this has in the file."""
    has_nn = re.search(r"^(?:import torch\.nn as nn|from torch import (?:.*\b)?nn)\b", value.chunk.source.text, re.M)
    if not has_nn and torch is None:
        return None
    made = f"{'nn' if has_nn else f'{torch}.nn'}.{name}"
    return instead(value, f"{made}({value.text})", f"make it an `{made}`")


# What has no such method under a name without the underscore.
_ONLY_IN_PLACE = frozenset("zero_ fill_ copy_".split())


def out_of_place(change: Site) -> Fix | None:
    """Compute a new tensor instead of changing a variable's: ``y = y * m`` for ``y *= m``, and for ``y.mul_(m)``."""
    node = change.node
    if isinstance(node, t.Augment) and isinstance(node.target, t.Name):
        value = Site(change.chunk, node.value)
        operand = value.text if isinstance(node.value, _SIMPLE) else f"({value.text})"
        written = f"{node.target.id} = {node.target.id} {node.operator} {operand}"
        return instead(change, written, f"write `{one_line(written)}`")
    func = node.func if isinstance(node, t.Call) else None
    if not isinstance(func, t.Attribute) or not isinstance(func.value, t.Name) or func.name in _ONLY_IN_PLACE:
        return None
    if not any(isinstance(each, t.Evaluate) and each.value is node for each in t.walk(change.chunk.statements)):
        return None
    given = change.code.removeprefix(Site(change.chunk, func).code)
    written = f"{func.value.id} = {func.value.id}.{func.name.removesuffix('_')}{given}"
    return instead(change, written, f"write `{one_line(written)}`") if given.startswith("(") else None


_SIMPLE = (t.Name, t.Attribute, t.Subscript, t.Call, t.Constant)

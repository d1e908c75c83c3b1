"""Options that are set on an optimizer, or in its defaults, where it does not look for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import SetOnOptimizer
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of
from gradguard.static.program.own_methods import is_object
from gradguard.static.program.paths import last
from gradguard.static.reading.places import assigned_anywhere
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_OPTIONS = {"lr": "lr", "learning_rate": "lr", "momentum": "momentum", "weight_decay": "weight_decay", "betas": "betas"}


def set_on_optimizers(flow: Flow) -> Iterator[SetOnOptimizer]:
    """What sets an option of what surely is an optimizer of torch beside its groups (reads other files).

    ``optimizer.lr = rate``, ``optimizer.defaults["lr"] = rate``.
    """
    if flow.facts.is_test:
        return
    for stmt in flow.ref.define.statements:
        for found, in_defaults in ((_attribute_set(stmt), False), (_default_set(stmt), True)):
            path, name = found if found is not None else (None, "")
            option = _OPTIONS.get(name)
            if path is None or path == "self" or option is None:
                continue
            bound = [value for value in assigned_anywhere(flow, path) if not _is_none(value)]
            is_given = not bound and path in flow.params
            if not is_given and not (bound and all(_makes_one(flow.ref, value) for value in bound)):
                continue
            if _is_in_groups(flow, option) or _is_read(flow, path, name, in_defaults=in_defaults):
                continue
            if not is_given or _is_given_one(flow, path):
                yield SetOnOptimizer(flow.site(stmt), path, option, in_defaults)


def _attribute_set(stmt: t.Stmt) -> tuple[str | None, str] | None:
    """The path of an object of which a statement sets an attribute, and its name."""
    target = stmt.targets[0] if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
    return (t.path_of(target.value), target.name) if isinstance(target, t.Attribute) else None


def _default_set(stmt: t.Stmt) -> tuple[str | None, str] | None:
    """The path of an object in whose ``defaults`` a statement sets something, and its key."""
    target = stmt.target if isinstance(stmt, t.Augment) else None
    if isinstance(stmt, t.Assign) and len(stmt.targets) == 1:
        target = stmt.targets[0]
    key: t.Expr | None
    defaults: t.Expr | None
    if isinstance(target, t.Subscript):
        key, defaults = target.index, target.value
    elif isinstance(stmt, t.Evaluate) and isinstance(stmt.value, t.Call) and len(stmt.value.args) == 1:
        key, defaults = _updated(stmt.value)  # ``optimizer.defaults.update(lr=rate)``
    else:
        return None
    is_named = isinstance(defaults, t.Attribute) and defaults.name == "defaults"
    if not is_named or not isinstance(defaults, t.Attribute) or not isinstance(key, t.Constant):
        return None
    return t.path_of(defaults.value), str(key.value)


def _updated(call: t.Call) -> tuple[t.Expr | None, t.Expr | None]:
    """The key that ``update`` of a dict is given, and the dict."""
    if not isinstance(call.func, t.Attribute) or call.func.name != "update":
        return None, None
    arg = call.args[0]
    if arg.keyword is not None:
        return t.Constant(call.origin, arg.keyword), call.func.value
    keys = [key for key, _ in arg.value.entries] if isinstance(arg.value, t.DictDisplay) else []
    return (keys[0] if len(keys) == 1 else None), call.func.value


def _is_given_one(flow: Flow, path: str) -> bool:
    """Whether all callers of a function show that they give it an optimizer of torch."""
    ref = flow.ref
    given = [(caller, ref.given_by(call).get(path)) for caller, call in _calls_of(flow)]
    names = [(caller, t.path_of(value)) for caller, value in given if value is not None]
    values = [(caller, value) for caller, name in names for value in caller.assigned.get(name or "", [])]
    return bool(values) and len(values) == len(given) and all(_makes_one(caller, value) for caller, value in values)


def _calls_of(flow: Flow) -> Iterator[tuple[FunctionRef, t.Call]]:
    """The calls of a function, or of a method on what its callers make of its class."""
    yield from ((caller.ref, call) for caller, call in calls_of(flow))
    owner = flow.ref.owner
    for caller in flow.project.written_calling(flow.ref) if owner is not None else ():
        for call in caller.calls:
            receiver = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
            is_named = receiver is not None and call.name == flow.ref.define.name
            if is_named and owner is not None and receiver is not None and is_object(owner, caller, receiver):
                yield caller, call


def _is_none(value: t.Expr) -> bool:
    return isinstance(value, t.Constant) and value.value is None


def _makes_one(ref: FunctionRef, value: t.Expr) -> bool:
    made = ref.module.value_of(value.func) if isinstance(value, t.Call) else None
    if made is None or made.kind is not Kind.EXTERNAL:
        return False
    name = str(made.ref)
    return name.startswith("torch.optim.") and name.count(".") == 2 and last(name)[:1].isupper()


def _is_in_groups(flow: Flow, option: str) -> bool:
    """Whether something in the program may set the option of a group."""
    item, update = rf"\[\s*['\"]{option}['\"]\s*\]\s*[-*/+]?=(?!=)", rf"\.update\(\s*\{{?\s*['\"]?{option}\b"
    sets = re.compile(rf"(?<!\.defaults)(?:{item}|{update})")
    return flow.project.survey.mentions(sets, flow.module, option)


def _is_read(flow: Flow, path: str, attribute: str, *, in_defaults: bool) -> bool:
    """Whether something in the program reads what is set, other than to show it: it may give it to the groups."""
    shows, word = r"(?m)^(?![^\n]*(?:print|log|write|format))[^\n]*", attribute
    if in_defaults:
        set_here = rf"(?:\[\s*['\"]{attribute}['\"]\s*\]\s*[-*/+]?=(?!=)|\.update\()"
        added = r"\.add_param_group\("  # groups that are added take the defaults
        reads, word = re.compile(rf"{shows}\.defaults\b(?!{set_here})|{added}"), "."
    else:
        reads = re.compile(rf"{shows}\b{re.escape(last(path))}\.{attribute}\b(?!\s*=(?!=))")
    return flow.project.survey.mentions(reads, flow.module, word)

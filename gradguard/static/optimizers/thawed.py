"""What makes frozen modules trainable again: the statements of a function, or of an object, and whether others may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.files.lines import lines_with
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.program.parameters import parameters_taken
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What is no parameter: the input of a penalty on gradients, or of an attack.
_TENSORS = (
    r"(?:self\.)?(?:[xzw]|x_\w+|z_\w+|inputs?|imgs?|images?|data|batch|real\w*|fake\w*|interp\w*|\w*noise|alpha|eps\w*|"
    r"sample\w*|latents?|delta|perturb\w*|adv\w*|states?|actions?|points?|coords?|pos|tensor)"
)
_MAKES_TENSOR = r"(?:rand\w*|Variable|detach|clone|from_numpy|tensor|zeros\w*|ones\w*)\("
# A parameter is asked for gradients, or for whatever a variable says.
_THAWS = re.compile(
    rf"^(?!.*{_MAKES_TENSOR}).*?(?:^|[^\w.])(?!{_TENSORS}\.requires_grad)[\w.\[\]'\"()*]+\.requires_grad"
    r"(?:\s*=(?!=)(?!\s*False\b)|_\((?!\s*(?:requires_grad\s*=\s*)?False\b))|[\"']requires_grad[\"']"
)
# The same in other words, or by what cannot be read; new parameters.
_OTHERWISE = re.compile(
    r"un_?fre+ze|unfrozen|un_?toggle|toggle_optimizer|\bthaw|add_param_group|make_trainable|\.trainable\b|"
    r"\b\w*(?:grad|freeze|frozen|toggle|trainable|learn)\w*\([^\n]*?(?:,\s*|\b[a-z_]+\s*=\s*)True\s*\)",
    re.I,
)
_SWITCHES = re.compile(r"^_*(?:set_)?(?:requires_grad|toggle_grad)$")


def is_switch(name: str) -> bool:
    """Whether a function of this name freezes parameters, or makes them trainable, as it is told."""
    return _SWITCHES.match(name) is not None


def may_thaw(flow: Flow, told: str | None) -> bool:
    """Whether something in the program may make parameters trainable again, or new ones (reads other files).

    Args:
        told: the function that freezes, as it is told.
    """
    survey = flow.project.survey
    if survey.mentions(_OTHERWISE, flow.module):
        return True
    if survey.acts("requires_grad", _THAWS, flow.module, (told,) if told is not None else ()):
        return True
    return told is not None and survey.acts(told, _told_otherwise(told), flow.module)


def _told_otherwise(told: str) -> re.Pattern[str]:
    return re.compile(rf"\b{told}\((?![^#\n]*\bFalse\b)")


class Thaw(NamedTuple):
    """A statement that makes modules trainable again.

    Args:
        paths: all that it may concern.
        helper: the function that it calls for that.
    """

    site: Site
    paths: frozenset[str]
    helper: FunctionRef | None = None


def thawed(flow: Flow, told: str | None) -> list[Thaw]:
    """Where a function, or the methods of its object, make modules trainable again, where nothing else may.

    Those of other methods are known by the paths that they have there; none where something may that is not followed
    (reads other files).

    Args:
        told: the function that freezes, as it is told.
    """
    refs = {id(ref.define): ref for ref in (flow.ref, *_methods(flow))}
    thaws = [thaw for ref in refs.values() for thaw in _thaws(ref, is_own=ref.define is flow.ref.define)]
    return thaws if thaws and _are_all(flow, thaws, told) else []


def _methods(flow: Flow) -> list[FunctionRef]:
    return methods_of(flow.ref.owner) if flow.ref.owner is not None else []


def _thaws(ref: FunctionRef, *, is_own: bool) -> Iterator[Thaw]:
    """The statements of a function that thaw what is known by a path that stays the same.

    Args:
        is_own: its variables count as well, not only the attributes of the object.
    """
    for stmt in ref.define.statements:
        thaw = _thaw(ref, stmt)
        if thaw is not None and thaw.paths and all(_is_lasting(ref, path, is_own) for path in thaw.paths):
            yield thaw


def _is_lasting(ref: FunctionRef, path: str, is_own: bool) -> bool:
    """Whether a path is an attribute of the object, or a variable that is no other name of something."""
    head = path.partition(".")[0]
    if head == "self":
        return path != "self" and "[" not in path
    bound = [item for value in ref.assigned.get(head, []) for item in _items(value)]
    is_param = any(param.name == head for param in ref.define.params)
    is_made = all(isinstance(value, t.Call) for value in bound) and (bool(bound) or is_param)
    return is_own and is_made and "[" not in path and not _is_gone_over(ref, head)


def _is_gone_over(ref: FunctionRef, name: str) -> bool:
    """Whether a loop binds a name."""
    loops = (stmt.target for stmt in ref.define.statements if isinstance(stmt, t.Repeat) and stmt.target is not None)
    return any(t.path_of(each) == name for target in loops for each in t.names_in(target))


def _thaw(ref: FunctionRef, stmt: t.Stmt) -> Thaw | None:
    site = Site(ref.chunk, stmt)
    if isinstance(stmt, t.Repeat):  # for p in net.parameters(): p.requires_grad = True
        taken = dict(parameters_taken(stmt.target, stmt.iterable))
        set_there = {path for each in stmt.body for path in _set_trainable(each)}
        return Thaw(site, frozenset(taken.values())) if taken and set_there <= set(taken) and set_there else None
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if not isinstance(call, t.Call) or any(_is_false(arg.value) for arg in call.args):
        return None
    if isinstance(call.func, t.Attribute) and call.func.name == "requires_grad_":
        path = t.path_of(call.func.value)
        return Thaw(site, frozenset((path,))) if path is not None else None
    helper = _helper(ref, call)
    paths = _given(call) if helper is not None or is_switch(call.name) else None
    return Thaw(site, frozenset(paths), helper) if paths else None


def _set_trainable(stmt: t.Stmt) -> Iterator[str]:
    """``p`` of ``p.requires_grad = True``, ``p.requires_grad_()``."""
    targets = stmt.targets if isinstance(stmt, t.Assign) and not _is_false(stmt.value) else []
    owners = [each.value for each in targets if isinstance(each, t.Attribute) and each.name == "requires_grad"]
    call = stmt.value if isinstance(stmt, t.Evaluate) and isinstance(stmt.value, t.Call) else None
    func = call.func if call is not None and not any(_is_false(arg.value) for arg in call.args) else None
    owners += [func.value] if isinstance(func, t.Attribute) and func.name == "requires_grad_" else []
    yield from filter(None, map(t.path_of, owners))


def _helper(ref: FunctionRef, call: t.Call) -> FunctionRef | None:
    """The function, or the method that does nothing with its object, that switches what it is given."""
    found: object = ref.module.value_of(call.func).ref
    if isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "self" and ref.owner is not None:
        found = ref.owner.method(call.func.name)
    if not isinstance(found, FunctionRef) or not any(map(_names_switch, found.define.nodes)):
        return None
    uses_object = any(isinstance(node, t.Name) and node.id == "self" for node in found.define.nodes)
    return None if uses_object else found


def _is_false(value: t.Expr) -> bool:
    return isinstance(value, t.Constant) and value.value is False


def _names_switch(node: t.Node) -> bool:
    return isinstance(node, t.Attribute) and node.name in ("requires_grad", "requires_grad_")


def _given(call: t.Call) -> list[str] | None:
    """The paths of all that a call is given but constants, also in lists; None where something has none."""
    values = [item for arg in call.args for item in _items(arg.value)]
    paths = [t.path_of(each) for each in values if not isinstance(each, t.Constant)]
    known = [path for path in paths if path is not None]
    return known if len(known) == len(paths) and not any(arg.star for arg in call.args) else None


def _items(value: t.Expr) -> list[t.Expr]:
    return value.items if isinstance(value, t.Display) else [value]


def _are_all(flow: Flow, thaws: list[Thaw], told: str | None) -> bool:
    """Whether nothing else in the program may thaw anything (reads other files)."""
    survey, near = flow.project.survey, flow.module
    here = [thaw.site for thaw in thaws if thaw.site.path == near.source.path]
    if any(site.cell is not None for site in here):
        return False
    names = {thaw.helper.define.name for thaw in thaws if thaw.helper is not None}
    names |= {told} if told is not None else set()
    defined = re.compile("|".join(rf"\bdef\s+{name}\b.*" for name in sorted(names)) or r"(?!)")
    text = _without(near.source.text, here)
    asked = [("requires_grad", _THAWS), *((name, _told_otherwise(name)) for name in sorted(names))]
    if _OTHERWISE.search(defined.sub("", text)) is not None or survey.mentions_elsewhere(_OTHERWISE, near):
        return False
    lines = (line for word, pattern in asked for line in lines_with(word, text) if pattern.search(line.text))
    if any(line.function not in names for line in lines):
        return False
    return not any(survey.acts_elsewhere(word, pattern, near, names) for word, pattern in asked)


def _without(text: str, sites: list[Site]) -> str:
    """A text without some statements."""
    lines = text.splitlines(keepends=True)
    for site in sites:
        span = site.span
        for number in range(span.line, span.end_line + 1):
            line = lines[number - 1]
            start = span.column - 1 if number == span.line else 0
            end = span.end_column - 1 if number == span.end_line else len(line.rstrip("\r\n"))
            lines[number - 1] = line[:start] + " " * (end - start) + line[end:]
    return "".join(lines)

"""Models that a program freezes as a whole, and of which it then trains some parts, or what it puts into them.

``model.requires_grad_(False)``, before adapters are put into the blocks, or the last of these are made trainable again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.fed_by_data import bound_path
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.parameters import frozen_by
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_ON = r"\.requires_grad(?:_\(\s*(?:requires_grad\s*=\s*)?(?:True\s*)?\)|\s*=\s*True\b)"
_FOR_EACH = r"for\s+\w+\s+in\s[^\n]*{part}[^\n]*:\s*\n?[^\n]*" + _ON
_THAWS = re.compile(_ON + r"|unfreeze|requires_grad(?:_\(|\s*=)\s*(?!False|True|requires_grad\s*=|\))[\w\"'(]")


def are_frozen_with_all(flow: Flow, owner: Class, names: set[str], runs: set[str]) -> bool:
    """Whether parts of a model stay frozen, while something in what a checkpoint runs is to learn (reads other files).

    Args:
        names: the parts, layers of torch into which nothing is put.
        runs: the parts that the checkpoint runs.
    """
    if not names or not runs or not all(_is_plain_layer(owner, name) for name in names):
        return False
    if not any(_trains_within(ref, path, runs) for ref, path in _known(flow, owner)):
        return False
    return not _may_thaw(flow, owner, names)


def _is_plain_layer(owner: Class, name: str) -> bool:
    """Whether a part is a layer of torch: ``nn.Embedding(vocab, dim)``."""
    made = [value for cls in owner.lineage() for _, value in cls.assigned(name)]
    calls = [value for value in made if isinstance(value, t.Call)]
    makers = [owner.module.value_of(call.func) for call in calls]
    return (
        bool(made)
        and len(calls) == len(made)
        and all(each.kind is Kind.EXTERNAL and str(each.ref).startswith("torch.nn.") for each in makers)
    )


def _known(flow: Flow, owner: Class) -> Iterator[tuple[FunctionRef, str]]:
    """The functions that make an object of a class, or are given one by these, each with its name for it."""
    constructor = owner.method("__init__")
    for ref in flow.project.written_calling(constructor, name=owner.name) if constructor is not None else ():
        made = [c for c in ref.calls if c.name == owner.name and ref.module.value_of(c.func).ref is owner]
        for path in {path for call in made if (path := bound_path(ref, call)) is not None}:
            yield ref, path
            for call in ref.calls:
                callee = ref.callee(call)
                given = callee.given_by(call) if callee is not None else {}
                yield from ((callee, name) for name, v in given.items() if callee is not None and t.path_of(v) == path)


def _trains_within(ref: FunctionRef, path: str, runs: set[str]) -> bool:
    """Whether a function freezes all of a model, and then has something in those parts learn."""
    is_frozen = False
    for stmt in ref.define.body:
        for each in t.walk_statements([stmt]):
            is_frozen = is_frozen or path in set(frozen_by(each))
        if is_frozen and _lets_learn(stmt, path, runs):
            return True
    return False


def _lets_learn(stmt: t.Stmt, path: str, runs: set[str]) -> bool:
    """Whether a statement puts new modules into such parts, or makes parameters of them trainable again."""
    whole = {f"{path}.{name}" for name in runs}
    for each in t.walk_statements([stmt]):
        if isinstance(each, t.Repeat) and each.iterable is not None:
            within = each.body if _names_one_of(each.iterable, whole) else []
            if any(_puts_module(node) or _switches_on(node) for node in t.walk(within)):
                return True
        elif isinstance(each, t.Evaluate) and _switches_on(each.value) and _names_one_of(each.value, whole):
            return True
    return False


def _names_one_of(expr: t.Expr, paths: set[str]) -> bool:
    return any(isinstance(node, t.Attribute) and t.path_of(node) in paths for node in t.walk(expr))


def _puts_module(node: t.Node) -> bool:
    """``setattr(block, name, LoRA(...))``, ``block.attn.q = LoRA(block.attn.q)``."""
    if isinstance(node, t.Call):
        made = node.args[2].value if node.name == "setattr" and len(node.args) == 3 else None
        return isinstance(made, t.Call) and made.name[:1].isupper()
    is_put = isinstance(node, t.Assign) and isinstance(node.value, t.Call) and node.value.name[:1].isupper()
    return is_put and any(isinstance(target, t.Attribute) for target in node.targets)  # type: ignore[attr-defined]


def _switches_on(node: t.Node) -> bool:
    """``x.requires_grad_(True)``, ``x.requires_grad = True``."""
    if isinstance(node, t.Call):
        asked = node.argument("requires_grad", 0)
        return node.name == "requires_grad_" and (asked is None or _is_true(asked))
    targets = node.targets if isinstance(node, t.Assign) and _is_true(node.value) else []
    return any(isinstance(target, t.Attribute) and target.name == "requires_grad" for target in targets)


def _is_true(expr: t.Expr) -> bool:
    return isinstance(expr, t.Constant) and expr.value is True


def _may_thaw(flow: Flow, owner: Class, names: set[str]) -> bool:
    """Whether the program may make the parts trainable again: anything but others of the model by their names."""
    others = "|".join(re.escape(each) for each in owner.assigned_names if each not in names)
    part = rf"\.(?:{others})\b"
    told = re.compile(rf"{_FOR_EACH.replace('{part}', part)}|\w{part}[^\n]*{_ON}")
    survey, each = flow.project.survey, "|".join(map(re.escape, sorted(names)))
    replaced = re.compile(rf"(?<!\bself)\.(?:{each})\s*=(?!=)|['\"](?:{each})['\"]")
    if survey.mentions(replaced, owner.module) or survey.is_base(owner.name, owner.module):
        return True
    texts = (told.sub("", text) for text in survey.texts_used("requires_grad", owner.module))
    return any(_THAWS.search(text) is not None for text in texts)

"""Parts of a module that are run under ``no_grad`` alone: by a method that is decorated so, and that a loss calls.

The method is there for an evaluation, or for an index; what it runs has parameters that nothing else trains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.losses import NeverRecorded
from gradguard.static.model import Mode
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site
from gradguard.static.values import Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What is not to be trained, as its name says, or is made to be looked up in.
_FIXED = re.compile(
    r"fixed|frozen|freeze|random|rnd|reservoir|target|teacher|(?:^|_)ema(?:$|_)|momentum|slow|oracle|prior|vgg|lpips|"
    r"percept|pretrain|feature|extract|token|codebook|quantiz|hash|(?:^|_)key|_k$|memory|reference|(?:^|_)ref(?:$|_)",
    re.I,
)
# Weights that somebody moves, or sets, otherwise than an optimizer does; parts that are run under other names.
_OTHERWISE = re.compile(
    r"requires_grad(?!\s*=\s*True)|(?<!utils)\.data\b(?!\.\w*(?:[lL]oader|Dataset|Sampler))|\.(?:copy|lerp|set)_\(|deepcopy|"
    r"\bema\b|\bEMA\b|AveragedModel|\bchildren\(|getattr\(|\bvmap\b|functional_call"
)
_LOADS = re.compile(r"load_state_dict|from_pretrained|torch\.load|pretrain|\bckpt|load_\w*(?:weights|model)", re.I)
_PARAMETERS = re.compile(r"\.parameters\(\)")


def never_recorded(flow: Flow) -> Iterator[NeverRecorded]:
    """The calls of such methods where a graph is recorded besides (reads other files)."""
    if flow.facts.is_test or next(_losses(flow), None) is None:
        return
    for call in flow.ref.calls:
        cls, method = _method(flow, call)
        if cls is None or method is None or not _turns_off(flow, method):
            continue
        for path in _parts_run(method) if is_of_loss(flow, call) else ():
            made = _made(cls, path)
            is_meant = made is None or not _is_never_recorded(cls, path) or _is_meant(flow, cls, path, made)
            if made is not None and not is_meant and not flow.facts.called_without_grad():  # that reads the most
                name = path.removeprefix("self.")
                is_sure = not flow.project.survey.mentions(_LOADS, cls.module)
                yield NeverRecorded(flow.site(call), method.define.name, name, _site(cls, method), made, is_sure)
                break


def is_of_loss(flow: Flow, call: t.Call) -> bool:
    """Whether a loss that has a graph is computed with what a call gives."""
    return call not in set(cut(flow.ref.define)) and any(_leads_to(flow, call, loss) for loss in _losses(flow))


def _losses(flow: Flow) -> Iterator[t.Node]:
    """The expressions that a function hands to a backward, or returns with a graph."""
    yield from (each.site.node for each in flow.facts.backwards if each.inner is None and _has_graph(each.value))
    if _has_graph(flow.facts.returns):
        yield from (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Return))


def _has_graph(value: Value) -> bool:
    return any(root.source is Source.GRAPH for root in value.reach)


def _leads_to(flow: Flow, call: t.Call, loss: t.Node) -> bool:
    """Whether what a call gives is in an expression, or in what its variables are bound to."""
    seen: set[str] = set()
    waiting: list[object] = [loss]
    while waiting:
        for node in t.walk(waiting.pop()):
            path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) else None
            if node is call:
                return True
            if path is not None and path not in seen:
                seen.add(path)
                waiting.extend(flow.ref.assigned.get(path, ()))
                sums = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Augment))
                waiting.extend(stmt.value for stmt in sums if t.path_of(stmt.target) == path)
    return False


def _method(flow: Flow, call: t.Call) -> tuple[Class | None, FunctionRef | None]:
    """The class of the module, and its method, that a call names."""
    owner = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
    if owner is None:
        return None, None
    cls = flow.ref.owner if owner == "self" else flow.read(flow.canonical(owner), flow.final).ref
    return (cls, cls.method(call.name)) if isinstance(cls, Class) and cls.is_module else (None, None)


def _turns_off(flow: Flow, method: FunctionRef) -> bool:
    """Whether a method runs without gradients, and is no part of what is called fixed."""
    if not method.define.decorators or _FIXED.search(method.define.name) is not None:
        return False
    inner = flow.project.flow(method)
    return inner is not None and inner.facts.entry_mode is Mode.OFF


def _parts_run(method: FunctionRef) -> list[str]:
    """The attributes that a method calls: ``self.items(ids)``."""
    paths = (t.path_of(call.func) or "" for call in method.calls)
    return [path for path in dict.fromkeys(paths) if path.startswith("self.") and path.count(".") == 1]


def _made(cls: Class, path: str) -> Site | None:
    """Where the constructor makes a module with parameters that is to learn, and nothing else is bound to the path."""
    bound = [value for each in cls.lineage() for _, value in each.assigned(path.removeprefix("self."))]
    for each in cls.lineage():
        constructor = each.methods.get("__init__")
        values = constructor.assigned.get(path, []) if constructor is not None else []
        if constructor is not None and len(values) == len(bound) == 1 and _is_to_learn(constructor, path, values[0]):
            return Site(each.chunk, values[0])
    return None


def _is_to_learn(constructor: FunctionRef, path: str, value: t.Expr) -> bool:
    names = [path, *(part.name for part in t.walk(value) if isinstance(part, t.Call))]
    if any(_FIXED.search(name) is not None for name in names) or not is_made(constructor, value):
        return False
    made = [constructor.module.value_of(part.func).ref for part in t.walk(value) if isinstance(part, t.Call)]
    return all(isinstance(ref, Class) or str(ref).startswith("torch.nn.") or ref is None for ref in made)


def _is_never_recorded(cls: Class, path: str) -> bool:
    """Whether all that the class does with a part, but make it, it does without gradients."""
    for method in methods_of(cls):
        hidden = set(cut(method.define))
        bound = {
            id(target) for stmt in method.define.statements if isinstance(stmt, t.Assign) for target in stmt.targets
        }
        uses = (node for node in method.define.all(t.Attribute) if t.path_of(node) == path)
        if any(node not in hidden and id(node) not in bound for node in uses):
            return False
    return True


def _is_meant(flow: Flow, cls: Class, path: str, made: Site) -> bool:
    """Whether something else may train a part, or nothing is to: somebody else knows it, or has the other parts alone.

    Args:
        made: where it is made.
    """
    survey, name = flow.project.survey, path.removeprefix("self.")
    if survey.mentions(_OTHERWISE, cls.module) or survey.is_base(cls.name, cls.module):
        return True
    known = re.compile(rf"(?<!\bself)\.{re.escape(name)}\b(?!\(\))|['\"]{re.escape(name)}['\"]")
    if survey.mentions(known, cls.module):
        return True
    parts = "|".join(map(re.escape, cls.parts))
    alone = re.compile(rf"\.(?:{parts})\.(?:named_)?parameters\(")
    return survey.mentions(alone, cls.module) or not survey.mentions(_PARAMETERS, cls.module)


def _site(cls: Class, method: FunctionRef) -> Site:
    return Site(method.chunk, method.define)

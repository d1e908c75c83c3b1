"""Layers that a ``forward`` makes when it first runs, of a model whose optimizer is made before that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.evaluation.sure_layers import calls_in
from gradguard.static.losses.draws import path_in
from gradguard.static.model import Replacement
from gradguard.static.optimizers.replaced import is_given_more, is_given_more_by, modules_given_to, steps
from gradguard.static.optimizers.replaced_by_methods import is_renewed_outside
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of, reached
from gradguard.static.program.parameters import makes_its_own
from gradguard.static.program.paths import is_or_is_in
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# Those that have parameters, whatever they are told.
_LAYER = re.compile(
    r"torch\.nn\.(?:modules\.\w+\.)?(?:(?:Lazy)?(?:Linear|Conv(?:Transpose)?\dd)|Bilinear|Embedding|EmbeddingBag|LayerNorm|"
    r"GroupNorm|(?:Lazy)?BatchNorm\dd|RNN|LSTM|GRU|RNNCell|LSTMCell|GRUCell|MultiheadAttention|PReLU|"
    r"Transformer(?:Encoder|Decoder)Layer)$"
)
_PARAMETER = re.compile(r"torch\.nn\.(?:parameter\.)?Parameter$")
_REGISTERING = frozenset("ModuleList ModuleDict ParameterList ParameterDict Sequential".split())
_ADDING = frozenset("append add_module register_module register_parameter insert".split())
# What runs no module that it is called on, or given.
_SEES = k.FLUENT_METHODS | frozenset(
    "parameters named_parameters modules named_modules children named_children state_dict print len repr str id type "
    "isinstance DataParallel numel".split()
)
_GIVES_MORE = re.compile(r"add_param_group|[\"']params[\"']\s*\]")
_FROZEN = re.compile(r"requires_grad|\bfreeze|no_grad\b[^\n]*\n\s*def ")
# What makes a model ready for use, or another one of it, on purpose.
_NO_START = re.compile(r"fuse|merge|deploy|quant|prune|export|reparam|convert|resize|grow|expand", re.I)
_SWITCHES = re.compile(r"requires_grad|freeze|not self\.training|\.optimizer\b|add_param_group")
_DEEPEST = 5


def made_when_run(flow: Flow) -> Iterator[Replacement]:
    """What a model makes in its ``forward``, after an optimizer was given all that it had (reads other files)."""
    for stmt in flow.ref.define.statements if not flow.facts.is_test else ():
        path = t.path_of(stmt.targets[0]) if isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Call) else None
        if path is None or not isinstance(stmt, t.Assign):
            continue
        for model in sorted(modules_given_to(flow, stmt, path)):
            given = _given_as(flow, model)
            classes = _classes(flow, given)
            made = [site for cls in classes for site in _made_in_forward(cls)]
            is_run = any(map(_runs_parts, classes)) or any(_is_run_before(flow, stmt, each) for each in {model, given})
            if made and not is_run and _is_stepped(flow, stmt, path) and not _is_given_after_run(flow, given):
                yield from (Replacement(path, flow.site(stmt), site, site, is_late=True) for site in made)


def _given_as(flow: Flow, model: str) -> str:
    """The parameter that an attribute is: ``model`` of ``self.model = model``."""
    values = flow.ref.assigned.get(model, []) if model.startswith("self.") else []
    name = t.path_of(values[0]) if len(values) == 1 else None
    return name if name is not None and name in flow.params else model


# --- what the model is made of ------------------------------------------------------------------------------------


def _classes(flow: Flow, model: str) -> list[Class]:
    """The classes of a model that the function makes itself, and of its parts."""
    owner = flow.ref.owner
    found: list[Class] = []
    if model == "self" and owner is not None and flow.ref.define.name == "__init__":
        _add(found, owner, 0)
        return found
    values = [value for value in flow.ref.assigned.get(model, []) if not _goes_on(value, model)]
    if model in flow.params and not values:
        given = flow.project.passed.argument_class(flow.ref, model)
        if given is not None:
            _add(found, given, 0)
        return found
    if len(values) != 1 or model in flow.params:
        return []
    for made in calls_in(flow.module, flow.ref, values[0]):
        cls = made.module.value_of(made.call.func).ref
        if isinstance(cls, Class):
            _add(found, cls, 0)
    return found


def _goes_on(value: t.Expr, model: str) -> bool:
    """``model = model.to(device)``, ``model = nn.DataParallel(model)``."""
    given = [arg.value for arg in value.args] if isinstance(value, t.Call) else []
    func = value.func if isinstance(value, t.Call) else None
    on = [func.value] if isinstance(func, t.Attribute) else []
    return isinstance(value, t.Call) and value.name in _SEES and any(t.path_of(each) == model for each in (*given, *on))


def _add(found: list[Class], cls: Class, depth: int) -> None:
    if not cls.is_module or depth > _DEEPEST or any(each is cls for each in found):
        return
    found.append(cls)
    for base in cls.lineage():
        put = [value for _, value in chain.from_iterable(map(base.assigned, base.assigned_names))]
        put += _appended(base)
        for value in put:
            calls = (node for node in t.walk(value) if isinstance(node, t.Call))
            parts = (base.module.value_of(call.func).ref for call in calls)
            for part in (part for part in parts if isinstance(part, Class)):
                _add(found, part, depth + 1)


def _appended(cls: Class) -> list[t.Expr]:
    """What the constructor puts into a collection of modules: ``self.steps.append(ActNorm(dim))``."""
    constructor = cls.methods.get("__init__")
    calls = constructor.calls if constructor is not None else ()
    adding = (call for call in calls if call.name in _ADDING and isinstance(call.func, t.Attribute))
    return [call.args[-1].value for call in adding if call.args and (t.path_of(call.func) or "").startswith("self.")]


def _made_in_forward(cls: Class) -> list[Site]:
    """The statements by which its ``forward`` makes a layer that nothing else makes, freezes or sets up."""
    methods = methods_of(cls)
    building = reached(methods, {"__init__"})
    running = reached(methods, {"forward"}) - building
    found: list[Site] = []
    rebound: list[Site] = []
    for method in methods:
        if method.define.name not in running or cls.method(method.define.name) is not method:
            continue
        for stmt in method.define.statements:
            name = _made_part(method, stmt)
            if name is not None and _is_only_made_there(cls, name, running) and not _is_cut(method, stmt):
                found.append(Site(method.chunk, stmt))
            elif name and _is_rebound(cls, method, stmt, name, running):
                rebound.append(Site(method.chunk, stmt))
    found = [] if found and any(each.chunk.shows(_FROZEN) for each in cls.lineage()) else found
    return found + rebound


def _is_rebound(cls: Class, method: FunctionRef, stmt: t.Stmt, name: str, running: set[str]) -> bool:
    """Whether a method that runs in ``forward`` puts a new parameter in the place of that of the constructor.

    The new one is used with its graph, whatever it was computed under: ``self.bias = nn.Parameter(-x.mean(0))``.
    """
    if not isinstance(stmt, t.Assign) or not _is_parameter(method, stmt.value):
        return False
    if _NO_START.search(method.define.name) or any(each.chunk.shows(_SWITCHES) for each in cls.lineage()):
        return False
    bound = [(define, value) for each in cls.lineage() for define, value in each.assigned(name)]
    first = [value for define, value in bound if define.name == "__init__"]
    if len(first) != 1 or not _is_parameter(method, first[0]):
        return False
    if any(define.name != "__init__" and define.name not in running for define, _ in bound):
        return False
    return any(_is_used(each, name) for each in methods_of(cls) if each.define.name in running)


def _is_parameter(method: FunctionRef, value: t.Expr) -> bool:
    if not isinstance(value, t.Call) or value.name != "Parameter" or value.argument("requires_grad", 1) is not None:
        return False
    return _PARAMETER.match(str(method.module.value_of(value.func).ref)) is not None


def _is_used(method: FunctionRef, name: str) -> bool:
    """Whether a method computes with a parameter where a graph is recorded."""
    hidden = set(cut(method.define))
    targets = {id(each) for stmt in method.define.statements if isinstance(stmt, t.Assign) for each in stmt.targets}
    uses = (node for node in method.define.all(t.Attribute) if t.path_of(node) == f"self.{name}")
    return any(node not in hidden and id(node) not in targets for node in uses)


def _made_part(method: FunctionRef, stmt: t.Stmt) -> str | None:
    """The attribute that a statement makes, or puts one more layer into: ``self.relations[kind] = nn.Linear(...)``."""
    owner, value = method.owner, stmt.value if isinstance(stmt, t.Assign | t.Evaluate) else None
    if owner is None or value is None:
        return None
    if isinstance(stmt, t.Assign):
        target = stmt.targets[0] if len(stmt.targets) == 1 else None
        is_item = isinstance(target, t.Subscript)
        holder = target.value if isinstance(target, t.Subscript) else target
    else:
        func = value.func if isinstance(value, t.Call) and value.name in _ADDING else None
        holder, is_item = (func.value, True) if isinstance(func, t.Attribute) else (None, False)
        value = value.args[-1].value if isinstance(value, t.Call) and value.args else None
    path = (t.path_of(holder) or "") if holder is not None else ""
    name = path.removeprefix("self.")
    if value is None or not _makes_layer(method, value, 0):
        return None
    if path == "self" and is_item and isinstance(stmt, t.Evaluate):
        return ""  # self.add_module(name, nn.Linear(...))
    if name == path or "." in name or "[" in name or (is_item and not _is_registering(owner, name)):
        return None
    return name


def _is_registering(cls: Class, name: str) -> bool:
    """Whether an attribute is a collection of modules from the start."""
    values = [value for each in cls.lineage() for _, value in each.assigned(name)]
    return bool(values) and all(isinstance(value, t.Call) and value.name in _REGISTERING for value in values)


def _makes_layer(ref: FunctionRef, value: t.Expr, depth: int) -> bool:
    """Whether an expression makes a layer with parameters that want gradients: ``nn.Linear(n, 8).to(x.device)``."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in k.FLUENT_METHODS:
        value = value.func.value
    if isinstance(value, t.Name):
        bound = ref.assigned.get(value.id, [])
        return len(bound) == 1 and depth < _DEEPEST and _makes_layer(ref, bound[0], depth + 1)
    if not isinstance(value, t.Call) or depth > _DEEPEST:
        return False
    maker = ref.module.value_of(value.func).ref
    path = t.path_of(value.func) or ""
    if ref.owner is not None and path.startswith("self."):
        maker = ref.owner.method(path.removeprefix("self."))
    if isinstance(maker, Class):
        return maker.is_module and makes_its_own(maker) and not maker.is_frozen_as(value) and not maker.freezes_some
    if isinstance(maker, FunctionRef):
        given = list(maker.given_back())
        return len(given) == 1 and _makes_layer(maker, given[0], depth + 1)
    if str(maker) == "torch.nn.Sequential":
        return any(_makes_layer(ref, arg.value, depth + 1) for arg in value.args)
    if _PARAMETER.match(str(maker)) is not None:
        return value.argument("requires_grad", 1) is None
    return _LAYER.match(str(maker)) is not None


def _is_only_made_there(cls: Class, name: str, running: set[str]) -> bool:
    """Whether no other method makes a part than those that run when the model does: ``self.head = None`` is no part."""
    for each in cls.lineage() if name else ():
        for define, value in each.assigned(name):
            is_start = isinstance(value, t.Constant) or (isinstance(value, t.Call) and value.name in _REGISTERING)
            if define.name not in running and not (is_start and not (isinstance(value, t.Call) and value.args)):
                return False
    return True


def _is_cut(method: FunctionRef, stmt: t.Stmt) -> bool:
    hidden = set(cut(method.define))
    return any(node in hidden for node in t.walk(stmt))


def _runs_parts(cls: Class) -> bool:
    """Whether making an object runs it, or one of its parts: a sample goes through it, to see the sizes."""
    methods = methods_of(cls)
    building = reached(methods, {"__init__"})
    if "forward" in building or "__call__" in building:
        return True
    attributes = {f"self.{name}" for each in cls.lineage() for name in each.assigned_names}
    for method in (each for each in methods if each.define.name in building):
        for call in method.calls:
            path = t.path_of(call.func) or ""
            owner = path.rpartition(".")[0]
            whole, holder = path.partition("[")[0], owner.partition("[")[0]
            if whole in attributes or (holder in attributes and call.name not in _SEES | _ADDING):
                return True
    return False


# --- when the optimizer is made -----------------------------------------------------------------------------------


def _is_run_before(flow: Flow, stmt: t.Stmt | t.Call, model: str) -> bool:
    """Whether a model may run before a statement, or a call: it is called, or handed to what may call it."""
    for call in flow.ref.calls:
        if not isinstance(call.origin, int) or not isinstance(stmt.origin, int) or call.origin >= stmt.origin:
            continue
        path = t.path_of(call.func) or ""
        if call.name in _SEES and path != model:
            continue
        if any(is_or_is_in(each, model) for each in (*_handed(call), path)):
            return not (model == "self" and call.name in ("add_module", "register_buffer", "register_parameter"))
        is_own = model.startswith("self") and path == f"self.{call.name}" and flow.ref.owner is not None
        if is_own and flow.ref.owner is not None and flow.ref.owner.method(call.name) is not None:
            return True
    return False


def _is_given_after_run(flow: Flow, model: str) -> bool:
    """Whether a caller may have run the model that it gives to the function (reads other files)."""
    owner, name = flow.ref.owner, flow.ref.define.name
    if model not in flow.params:
        return False
    name = owner.name if owner is not None and name == "__init__" else name
    place = flow.params.index(model) - (flow.params[:1] == ["self"])
    for ref in flow.project.written_calling(flow.ref, name=name):
        for call in (call for call in ref.calls if call.name == name):
            given = call.argument(model, place)
            path = path_in(given) if given is not None else None
            caller = flow.project.flow(ref) if path is not None else None
            if given is None or (not isinstance(given, t.Call) and path is None):
                return True
            if path is not None and (caller is None or path not in ref.assigned or _is_run_before(caller, call, path)):
                return True
    return False


def _handed(call: t.Call) -> set[str]:
    """The objects that a call is given, or is given a part of; not those of which only a method is called."""
    nodes = [node for arg in call.args for node in t.walk(arg.value)]
    called = [node.func for node in nodes if isinstance(node, t.Call)]
    owners = {inner for func in called for inner in t.walk(func)}
    paths = (path_in(node) for node in nodes if node not in owners)
    return {path for path in paths if path is not None}


def _is_stepped(flow: Flow, stmt: t.Stmt, path: str) -> bool:
    """Whether an optimizer steps, and neither it is made anew nor gets more parameters in the program."""
    if len(flow.ref.assigned.get(path, [])) != 1:
        return False
    owner = flow.ref.owner if path.startswith("self.") else None
    nodes = list(flow.ref.define.nodes)
    nodes += (node for method in methods_of(owner) for node in method.define.nodes) if owner is not None else ()
    others = [node for node in nodes if node is not stmt]
    if any(is_given_more(node, path) or is_given_more_by(flow, node, path) for node in others):
        return False
    if not any(steps(node, path) for node in others):
        return False
    if owner is not None and is_renewed_outside(flow, path):
        return False
    return not flow.project.survey.mentions(_GIVES_MORE, flow.module)

"""Networks that are made to stay as they are: what makes them, what else has them, and that no optimizer does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.known_by import Place, is_wrapped, places
from gradguard.static.program.local_objects import given_for
from gradguard.static.program.own_methods import methods_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_PARAMETERS = ("parameters", "named_parameters")
_ASKED = frozenset((*_PARAMETERS, "load_state_dict", "share_memory", "apply"))
_TAKING_ALL = frozenset(f"self.{name}" for name in (*_PARAMETERS, "modules", "named_modules", "children"))
# A module that trains itself, or may.
_TRAINS = re.compile(r"\.step\(|\.backward\(|\bparam_group|\bautograd\.grad\(")
# What says which parameters want gradients, or may.
_FREEZES = re.compile(r"\brequires_grad(?:_\(|\s*=(?!=))(?!\s*True)|[\"']requires_grad[\"']|fre+ze", re.I)
_OF_TENSORS = re.compile(r"\b(?:Variable|tensor|zeros\w*|ones\w*|rand\w*|full\w*|empty\w*)\([^\n]*requires_grad\s*=")
_GRADIENTS = ("grad", "_grad", "requires_grad", "requires_grad_")
_COPIES = re.compile(r"load_state_dict\(|\bzip\([^\n]*parameters\(")
_DEPTH = 2


class Network(NamedTuple):
    """A network that nothing trains.

    Args:
        kind: why it is not to be trained: ``copy``, ``pretrained`` or ``loaded``.
        ref: the function that makes it.
        made: the expression that does.
    """

    kind: str
    ref: FunctionRef
    made: t.Expr


class _Bound(NamedTuple):
    """What an object, or a part of one, is bound to.

    Args:
        owner: the class whose attribute it is; None for a variable.
        path: by which the functions know it that bind it.
        made: the expressions that make it, each with the function.
    """

    owner: Class | None
    path: str
    made: list[tuple[FunctionRef, t.Expr]]


def idle_network(flow: Flow, path: str) -> Network | None:
    """The network at a path of a function, where it surely stays as it is made (reads other files)."""
    chain = _chain(flow, path)
    if not chain or not all(bound.made for bound in chain):
        return None
    network, *holders = chain
    if not all(_is_network(ref, value) for ref, value in network.made):
        return None
    kind = _kind_as_made(network)
    if kind is None and not flow.project.survey.mentions(_COPIES, flow.module):
        return None
    if any(map(_trains_itself, _classes(network))):
        return None
    known = _known(flow, network)
    kind = kind or (_kind_as_set(network, known) if known is not None else None)
    if kind is None or known is None or any(_may_be_frozen(ref, value) for ref, value in network.made):
        return None
    if any(_known(flow, holder) is None for holder in holders):
        return None
    return Network(kind, *network.made[0])


def _chain(flow: Flow, path: str) -> list[_Bound]:
    """What is at a path, and the modules that it is in, from within; none where these are not all known."""
    found: list[_Bound] = []
    while "[" not in path:
        head, _, name = path.rpartition(".")
        if not head:
            bound = [] if name in flow.params else list(_bindings(flow.ref, name))
            return [*found, _Bound(None, name, _made_anew(name, bound))]
        cls = flow.ref.owner if head == "self" else flow.read(flow.canonical(head), flow.final).ref
        if not isinstance(cls, Class):
            break
        if (given := _given(flow, cls, head, name)) is not None:
            path = given
            continue
        own = f"self.{name}"
        found.append(_Bound(cls, own, _made_anew(own, [each for m in methods_of(cls) for each in _bindings(m, own)])))
        if not cls.is_module:
            return found
        if head == "self":
            objects = _objects(flow, cls)
            return [*found, *objects] if objects else []
        path = head
    return []


def _bindings(ref: FunctionRef, path: str) -> Iterator[tuple[FunctionRef, t.Expr]]:
    """What a function binds a path to; the whole of what is taken apart for it."""
    for stmt in ref.define.statements:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            if any(t.path_of(name) == path for name in t.names_in(target)):
                yield ref, value


def _objects(flow: Flow, cls: Class) -> list[_Bound]:
    """The objects of a class that its program makes; none where they are not all known, or parts of other modules."""
    constructor = cls.method("__init__")
    found: list[_Bound] = []
    for ref in flow.project.written_calling(constructor, name=cls.name) if constructor is not None else ():
        made = {id(call) for call in ref.calls if ref.module.value_of(call.func).ref is cls}
        for path, values in ref.assigned.items() if made else ():
            cores = [core for value in values if id(core := _core(value)) in made]
            owner = ref.owner if path.startswith("self.") else None
            if cores and ("." in path.removeprefix("self.") or (owner is not None and owner.is_module)):
                return []
            found += [_Bound(owner, path, [(ref, core)]) for core in cores]
            made -= {id(core) for core in cores}
        if made:
            return []
    return found


def _given(flow: Flow, cls: Class, head: str, name: str) -> str | None:
    """The variable of a function that it gives to an object of its own: ``Trainer(student, teacher)``."""
    made = flow.ref.assigned.get(head, [])
    call = made[0] if len(made) == 1 else None
    given = given_for(cls, name, call) if isinstance(call, t.Call) and not cls.is_module else None
    path = t.path_of(given) if given is not None else None
    return path if path is not None and "." not in path and path != head else None


def _made_anew(path: str, bound: list[tuple[FunctionRef, t.Expr]]) -> list[tuple[FunctionRef, t.Expr]]:
    """What makes an object, of all that its path is bound to: no move, no wrapper, no None before it is there."""
    return [
        (ref, value)
        for ref, value in bound
        if not is_wrapped(value, path)
        and t.path_of(_core(value)) != path
        and not (isinstance(value, t.Constant) and value.value is None)
    ]


def _core(value: t.Expr) -> t.Expr:
    """What makes a module that is then moved, or put into evaluation mode: ``Net()`` of ``Net().to(device).eval()``."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in k.FLUENT_METHODS:
        value = value.func.value
    return value


# --- what makes it ---


def _is_network(ref: FunctionRef, value: t.Expr) -> bool:
    """Whether an expression surely makes a network with parameters, all of its own."""
    if isinstance(value, t.Conditional):
        return _is_network(ref, value.body) and _is_network(ref, value.orelse)
    if _is_pretrained(ref, value) or _copied(value) is not None:
        return True
    core = _core(value)
    maker = ref.module.value_of(core.func).ref if isinstance(core, t.Call) else None
    if not isinstance(core, t.Call) or not is_made(ref, core) or maker == "torch.load":
        return False
    return not isinstance(maker, Class) or not _may_share(maker, core)


def _may_share(cls: Class, call: t.Call) -> bool:
    """Whether a module is given what it runs, which others may have as well: ``Critic(self.encoder)``."""
    constructor = cls.method("__init__")
    if constructor is None:
        return False
    run = {path for method in methods_of(cls) for each in method.calls if (path := t.path_of(each.func)) is not None}
    given = constructor.given_by(call)
    return any(constructor.kept_as(name) in run for name in given if not isinstance(given[name], t.Constant))


def _kind_as_made(network: _Bound) -> str | None:
    if all(_copied(value) is not None for _, value in network.made):
        return "copy"
    return "pretrained" if all(_is_pretrained(ref, value) for ref, value in network.made) else None


def _copied(value: t.Expr) -> t.Expr | None:
    """``net`` of ``copy.deepcopy(net)``."""
    core = _core(value)
    is_copy = isinstance(core, t.Call) and core.name == "deepcopy" and len(core.args) == 1
    return core.args[0].value if is_copy and isinstance(core, t.Call) else None


def _is_pretrained(ref: FunctionRef, value: t.Expr, depth: int = _DEPTH) -> bool:
    """Whether an expression makes a network with weights of a library, or takes its first layers."""
    core = _core(value)
    while isinstance(core, t.Attribute | t.Subscript):
        core = _core(core.value)
    if isinstance(core, t.Name) and depth:
        bound = ref.assigned.get(core.id, [])
        return len(bound) == 1 and _is_pretrained(ref, bound[0], depth - 1)
    if not isinstance(core, t.Call):
        return False
    maker = ref.module.value_of(core.func).ref
    if isinstance(maker, Class):
        return _only_has_pretrained(maker)
    return _has_weights(str(maker), core) or (core.name == "Sequential" and _takes_layers(ref, core, depth))


def _takes_layers(ref: FunctionRef, call: t.Call, depth: int) -> bool:
    """``nn.Sequential(*list(vgg.features)[:31])``."""
    given = call.args[0] if len(call.args) == 1 else None
    taken = given.value if given is not None and given.star else None
    while isinstance(taken, t.Subscript) or (isinstance(taken, t.Call) and taken.name in ("list", "children")):
        if isinstance(taken, t.Subscript):
            taken = taken.value
        elif taken.args:
            taken = taken.args[0].value
        else:
            taken = taken.func.value if isinstance(taken.func, t.Attribute) else None
    return taken is not None and _is_pretrained(ref, taken, depth)


def _has_weights(name: str, call: t.Call) -> bool:
    """Whether a function of a library gives a network with its weights; all of them want gradients then."""
    if name.startswith("torchvision.models.") or name == "timm.create_model":
        weights = call.argument("weights")
        return call.is_true("pretrained") or (weights is not None and _is_written(weights))
    return name.startswith("transformers.") and "Model" in name and name.endswith(".from_pretrained")


def _is_written(weights: t.Expr) -> bool:
    """``VGG16_Weights.DEFAULT``, ``"IMAGENET1K_V1"``."""
    if isinstance(weights, t.Constant):
        return isinstance(weights.value, str)
    return "_Weights." in (t.path_of(weights) or "")


def _only_has_pretrained(cls: Class) -> bool:
    """Whether a module is made of the layers of such a network, and has none of its own."""
    constructor = cls.method("__init__")
    if constructor is None or not cls.is_module:
        return False
    names = [(call, str(constructor.module.value_of(call.func).ref)) for call in constructor.calls]
    return any(_has_weights(name, call) for call, name in names) and not any(_is_layer(name) for _, name in names)


def _is_layer(name: str) -> bool:
    own = name.rpartition(".")[2]
    return name.startswith("torch.nn.") and own not in k.WITHOUT_PARAMETERS and own not in ("Sequential", "ModuleList")


def _may_be_frozen(ref: FunctionRef, value: t.Expr, depth: int = _DEPTH) -> bool:
    """Whether the files of what makes it, and of its parts, say which parameters want gradients."""
    if _freezes(ref):
        return True
    calls = [node for node in t.walk(value) if isinstance(node, t.Call)]
    makers = (ref.module.value_of(call.func).ref for call in calls)
    inside = [each for maker in makers for each in _constructors(maker)]
    if any(_freezes(each) for each in inside):
        return True
    return depth > 0 and any(_may_be_frozen(each, call, depth - 1) for each in inside for call in each.calls)


def _freezes(ref: FunctionRef) -> bool:
    lines = ref.module.source.text.splitlines()
    return any(_FREEZES.search(line) is not None and _OF_TENSORS.search(line) is None for line in lines)


def _constructors(maker: object) -> list[FunctionRef]:
    if isinstance(maker, FunctionRef):
        return [maker]
    family = maker.lineage() if isinstance(maker, Class) else ()
    return [cls.methods["__init__"] for cls in family if "__init__" in cls.methods]


# --- what becomes of it ---


def _known(flow: Flow, bound: _Bound) -> list[Place] | None:
    """All the code that knows an object, where that gives its parameters to nobody; None where it may."""
    owner = bound.owner
    if owner is not None and owner.is_module and any(map(_takes_all, methods_of(owner))):
        return None
    classes = _classes(bound)
    if any(map(_is_foreign, classes)):
        return None
    names = [frozenset(m.define.name for m in methods_of(cls) if not _gives_parts(m)) for cls in classes]
    methods = _ASKED.union(*names)
    found = places(flow.project, bound.made[0][0], bound.path, methods, in_modules=True)
    return found if found is not None and all(map(_keeps_parameters, found)) else None


def _classes(bound: _Bound) -> list[Class]:
    """The classes of the program that it is made of."""
    return [maker for ref, value in bound.made if isinstance(maker := _maker(ref, value), Class)]


def _maker(ref: FunctionRef, value: t.Expr) -> object:
    core = _core(value)
    return ref.module.value_of(core.func).ref if isinstance(core, t.Call) else None


def _takes_all(method: FunctionRef) -> bool:
    return any((t.path_of(call.func) or "") in _TAKING_ALL for call in method.calls)


def _trains_itself(cls: Class) -> bool:
    """Whether a module may train itself; an optimizer that it only has does nothing."""
    if any(each.chunk.shows(_TRAINS) for each in cls.lineage()):
        return True
    methods = methods_of(cls)
    kept = {id(arg.value) for method in methods for call in _optimizers(method) for arg in call.args}
    return any(call.name in _PARAMETERS and id(call) not in kept for method in methods for call in method.calls)


def _is_foreign(cls: Class) -> bool:
    """Whether a framework may train it."""
    return any(not base.startswith("torch.nn.") for base in cls.external_bases)


def _optimizers(method: FunctionRef) -> Iterator[t.Call]:
    """The optimizers of torch that a method makes for its object: ``self.optimizer = Adam(self.parameters())``."""
    for path, values in method.assigned.items():
        for call in values if path.startswith("self.") else ():
            if isinstance(call, t.Call) and str(method.module.value_of(call.func).ref).startswith("torch.optim."):
                yield call


def _gives_parts(method: FunctionRef) -> bool:
    """Whether a method gives what its object has."""
    given = [node.value for node in method.define.nodes if isinstance(node, t.Return | t.Suspend) and node.value]
    items = [item for each in given for item in (each.items if isinstance(each, t.Display) else [each])]
    return any((t.path_of(item) or "").startswith("self") for item in items)


def _keeps_parameters(place: Place) -> bool:
    """Whether a function takes its parameters only to copy them, if at all."""
    taken = [call for call in place.ref.calls if _is_asked(call, place.path)]
    copied = {id(call) for call in _copies(place)}
    if not all(id(call) in copied for call in taken):
        return False
    if taken and any(map(_is_of_gradients, place.ref.define.nodes)):
        return False
    return not any(_is_call(call, place.path, "apply") and _may_freeze(place.ref, call) for call in place.ref.calls)


def _may_freeze(ref: FunctionRef, call: t.Call) -> bool:
    """Whether what is applied to each part of a module is no function of the program, or one that freezes them."""
    applied = ref.module.value_of(call.args[0].value).ref if len(call.args) == 1 else None
    return not isinstance(applied, FunctionRef) or any(map(_is_of_gradients, applied.define.nodes))


def _is_of_gradients(node: t.Node) -> bool:
    return isinstance(node, t.Attribute) and node.name in _GRADIENTS


def _is_asked(call: t.Call, path: str) -> bool:
    func = call.func
    return isinstance(func, t.Attribute) and func.name in _PARAMETERS and t.path_of(func.value) == path


def _copies(place: Place) -> Iterator[t.Call]:
    """Where a function takes its parameters beside those of another module, to copy them."""
    for call in place.ref.calls:
        both = [arg.value for arg in call.args] if call.name == "zip" and len(call.args) == 2 else []
        asked = [each for each in both if isinstance(each, t.Call) and each.name in _PARAMETERS]
        own = [each for each in asked if _is_asked(each, place.path)]
        if len(asked) == 2 and len(own) == 1:
            yield own[0]
    for name, values in place.ref.assigned.items():
        own = [value for value in values if isinstance(value, t.Call) and _is_asked(value, place.path)]
        if len(values) == len(own) == 1 and _becomes_state(place.ref, name):
            yield own[0]


def _becomes_state(ref: FunctionRef, name: str) -> bool:
    """Whether named parameters are made a dict, of which a state to be loaded is computed: ``state = dict(named)``."""
    dicts = [path for path, values in ref.assigned.items() if any(_is_dict_of(value, name) for value in values)]
    given = sum(_is_dict_of(call, name) for call in ref.calls)
    if given != len(dicts) or _uses(ref, name) != 2 * given or not dicts:  # where it is bound, and where it is given
        return False
    return all(_is_only_state(ref, each) for each in dicts)


def _is_dict_of(value: t.Node, name: str) -> bool:
    """``dict(named)``."""
    is_dict = isinstance(value, t.Call) and value.name == "dict" and len(value.args) == 1
    return is_dict and isinstance(value, t.Call) and t.path_of(value.args[0].value) == name


def _is_only_state(ref: FunctionRef, name: str) -> bool:
    """Whether a dict is only gone over, read and written by its keys, and loaded."""
    nodes = ref.define.nodes
    by_key = sum(isinstance(n, t.Subscript) and t.path_of(n.value) == name for n in nodes)
    loops = sum(isinstance(n, t.Repeat) and n.iterable is not None and t.path_of(n.iterable) == name for n in nodes)
    loads = (call for call in ref.calls if call.name == "load_state_dict")
    loaded = sum(t.path_of(arg.value) == name for call in loads for arg in call.args)
    return _uses(ref, name) == 1 + by_key + loops + loaded


def _uses(ref: FunctionRef, name: str) -> int:
    return sum(isinstance(node, t.Name) and node.id == name for node in ref.define.nodes)


def _kind_as_set(network: _Bound, known: list[Place]) -> str | None:
    """Why it is not to be trained, by what is done to it: it gets another's weights, or loaded ones to be evaluated."""
    if any(True for place in known for _ in _copies(place)):
        return "copy"
    loads = [call for place in known for call in place.ref.calls if _is_call(call, place.path, "load_state_dict")]
    given = [call.args[0].value for call in loads if call.args]
    if any(isinstance(each, t.Call) and each.name == "state_dict" for each in given):
        return "copy"
    is_evaluated = any(_is_call(call, place.path, "eval") for place in known for call in place.ref.calls)
    return "loaded" if loads and (is_evaluated or any(_evaluates(value) for _, value in network.made)) else None


def _is_call(call: t.Call, path: str, method: str) -> bool:
    return t.path_of(call.func) == f"{path}.{method}"


def _evaluates(value: t.Expr) -> bool:
    return any(isinstance(node, t.Call) and node.name == "eval" for node in t.walk(value))

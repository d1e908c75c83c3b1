"""Calls of torch, of other packages and of tensors: which of them keep a graph, and which break it."""

from __future__ import annotations

from contextlib import suppress

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.files.gate import SourceError
from gradguard.static.losses import constant_terms
from gradguard.static.optimizers.optimized import optimized
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import is_of_gradient
from gradguard.static.program.paths import last
from gradguard.static.reading import containers, queues, unrecorded
from gradguard.static.reading.binding import forget_frames
from gradguard.static.reading.builtin_calls import builtin
from gradguard.static.reading.called import Called
from gradguard.static.reading.counts import is_long_buffer
from gradguard.static.reading.expressions import cut, recorded
from gradguard.static.reading.lengthened import JOINING, note_joined
from gradguard.static.reading.places import is_used_as_module, kind_by_name
from gradguard.static.reading.signature import is_bounded, is_emptied
from gradguard.static.values import (
    ARRAY,
    DATA,
    DETACHED,
    NONE,
    NOTHING,
    NOTHING_HELD,
    NUMBER,
    ON_DEVICE,
    UNKNOWN,
    Fields,
    Held,
    Holding,
    Holdings,
    Kind,
    Root,
    Source,
    Value,
    carried_element,
    computed,
    each_of,
    element,
    holding,
    iterated,
    join,
    structure,
    union,
    viewed,
    whole,
)

_QUEUES = ("queue.", "collections.", "multiprocessing.", "torch.multiprocessing.", "asyncio.")
_DRAWING = frozenset("random.sample random.choice random.choices random.shuffle".split())
_ALLOCATING = {"zeros": 1, "ones": 1, "empty": 1, "full": 2}
"""What makes an array of NumPy of a size, and where it is told what kind of elements that has."""
_PUSHING = frozenset("heapq.heappush bisect.insort bisect.insort_left bisect.insort_right".split())


def _is_of_objects(call: t.Call) -> bool:
    """Whether an array holds objects as they are, as a list does: ``np.empty(n, dtype=object)``."""
    dtype = call.argument("dtype", _ALLOCATING[call.name])
    if dtype is None:
        filled = call.argument("fill_value", 1) if call.name == "full" else None
        return isinstance(filled, t.Constant) and filled.value is None
    if isinstance(dtype, t.Constant):
        return dtype.value in ("object", "O")
    return (t.path_of(dtype) or "").rpartition(".")[2] in ("object", "object_")


def external_call(c: Called) -> Value | None:
    name = c.external
    if not name:
        return None
    if name.startswith("builtins."):
        return builtin(c, name[9:])
    tail = name.rsplit(".", 1)[-1]
    if name.startswith("torch.Tensor.") and c.node.args and not c.node.args[0].star:
        method = t.Attribute(c.node.origin, c.node.args[0].value, tail)
        return c.flow.value(t.Call(c.node.origin, method, c.node.args[1:]), c.state)
    if k.GRADIENT_SETTING_FUNCTION.match(name) and any(
        isinstance(node, t.Expr) and is_of_gradient(node) for arg in c.node.args[:1] for node in t.walk(arg.value)
    ):
        c.flow.set_gradients(c.node, c.state)
    if name in _DRAWING:
        return _drawn(c, c.first or UNKNOWN)
    if name.startswith("numpy.") and tail in _ALLOCATING and _is_of_objects(c.node):
        return Value(kind=Kind.CONTAINER)
    if name.startswith(k.NUMBER_PREFIXES):
        is_of_shape = not name.startswith("numpy.") or tail in k.OF_SHAPE
        return NUMBER if is_of_shape else constant_terms.with_numbers(NUMBER, c.arguments)
    made = _constructed(c, name, tail)
    if made is not None:
        return made
    if name in ("collections.namedtuple", "typing.NamedTuple"):
        return _named_tuple(c)
    if name == "traceback.clear_frames" and c.node.args and (path := t.path_of(c.node.args[0].value)) is not None:
        forget_frames(c.flow, path, c.state)
        return NOTHING
    if name in ("copy.deepcopy", "copy.copy"):
        return _copied(c.first or UNKNOWN, c.node) if tail == "deepcopy" else c.first or UNKNOWN
    if name in ("dataclasses.replace", "copy.replace") and c.first is not None:
        return _replaced(c, c.first)
    if tail in ("deque", "defaultdict", "OrderedDict", "Counter"):
        content = union(c.arguments[:1], Kind.CONTAINER)
        if tail == "defaultdict" and c.first is not None and isinstance(c.first.ref, Class):
            made = Value(kind=Kind.MODULE if c.first.ref.is_module else Kind.INSTANCE, ref=c.first.ref)
            return each_of(made)
        is_queue = tail == "deque"
        bounded = not is_long_buffer(c.flow, c.node.argument("maxlen", 1)) if is_queue else _makes_short(c)
        return content._replace(bounded=bounded, must=frozenset())
    if name.startswith("weakref.Weak"):
        return Value(kind=Kind.CONTAINER, bounded=True)  # it keeps nothing
    if name == "heapq.heappop" and c.node.args:
        return containers.pop(c)
    if name.startswith(_QUEUES) and tail.endswith("Queue"):
        bounded = c.node.argument("maxsize", 0) is not None or queues.is_read(c.flow)
        return Value(kind=Kind.CONTAINER, bounded=bounded)
    if name in _PUSHING and len(c.node.args) > 1:
        return containers.push(c)
    if name == "functools.partial" and c.first is not None:
        return _partial(c, c.first)
    if name in k.CACHES and (cached := _cached(c, name)) is not None:
        return cached
    if name.startswith(k.TENSOR_PREFIXES):
        return _torch(c, name, tail)
    if tail in k.MODULE_FUNCTIONS and k.PREPARING_CLASS.search(name):
        return UNKNOWN
    if tail in k.MODULE_FUNCTIONS:
        return c.first if c.first is not None and c.first.kind is Kind.MODULE else Value(kind=Kind.MODULE)
    if k.LOGGING_RECEIVERS.search(c.path.rsplit(".", 1)[0]) and c.method:
        return NOTHING
    if tail in (
        "tqdm",
        "trange",
        "cycle",
        "track",
        "progress_bar",
        "prefetch",
        "chain",
        "islice",
        "as_completed",
    ):
        return c.first or UNKNOWN
    return _variable(c) if tail == "Variable" else None


def _cached(c: Called, name: str) -> Value | None:
    """The function that gets a cache, ``lru_cache(maxsize=None)(self.encode)``; or what gives it one."""
    given = c.node.args[0] if c.node.args else None
    if name.endswith("lru_cache") and (given is None or given.keyword or isinstance(given.value, t.Constant)):
        return Value(kind=Kind.EXTERNAL, ref=name if is_bounded(c.node, name) else "functools.cache")
    if c.first is None or not isinstance(c.first.ref, FunctionRef):
        return None
    ref = c.flow.project.wrapper(c.first.ref) or c.first.ref
    with suppress(SourceError):
        callee = c.flow.project.flow(ref) if name == "functools.cache" and not c.flow.dry else None
        if callee is not None and not is_emptied(c.flow):
            c.flow.facts.caches.append((c.flow.site(c.node), callee.facts))
    return c.first


def _partial(c: Called, function: Value) -> Value:
    """The function, with the arguments that it is given already."""
    given = union(c.arguments[1:])
    function = function._replace(roots=function.roots | given.roots, maybe=function.maybe | given.maybe)
    if not isinstance(function.ref, FunctionRef):
        return function
    return function._replace(ref=function.ref.given_first(tuple(c.values[1:])))


def _replaced(c: Called, record: Value) -> Value:
    """``replace(state, pos=pos)``: the record with some other fields.

    Of a record that is not known by its fields, what is cut out of its graph takes the place of what had one.
    """
    given = {arg.keyword: value for arg, value in c.values if arg.keyword is not None}
    kept = tuple((key, part) for key, part in record.parts if key not in given)
    parts = (*kept, *((name, value) for name, value in given.items()))
    nodes = [node for arg, _ in c.values if arg.keyword is not None for node in t.walk(arg.value)]
    is_cut = any(isinstance(node, t.Attribute) and node.name in k.CUTS for node in nodes)
    others = UNKNOWN if is_cut else record._replace(parts=(), must=frozenset())
    rest = kept if record.parts else (("rest", others),)
    return union(v for _, v in (*rest, *given.items()))._replace(kind=Kind.OUTPUT, parts=parts)


def _copied(value: Value, node: t.Node) -> Value:
    """A copy: of a model or of its state, a snapshot."""
    snapshot = value.kind is Kind.MODULE or bool(value.holding(Held.STATE))
    copied = computed(value)._replace(holds=computed(value).holds | value.holding(Held.FROZEN))
    return unrecorded.of_copy(holding(copied, Held.SNAPSHOT, node)) if snapshot else copied


def _drawn(c: Called, given: Value) -> Value:
    """Elements of a collection; ``random.sample(memory, 64)`` keeps it short, all of it in another order does not."""
    count = c.node.argument("k", 2 if c.node.name == "choices" else 1)
    is_all = isinstance(count, t.Call) and t.path_of(count.func) == "len"
    if count is None or is_all or given.kind is not Kind.CONTAINER or is_long_buffer(c.flow, count):
        return given
    return given._replace(bounded=True)


def _makes_short(c: Called) -> bool:
    """Whether ``defaultdict(lambda: deque(maxlen=9))`` or ``defaultdict(partial(deque, maxlen=9))`` is made."""
    made = c.node.args[0].value if c.node.args else None
    made = made.body if isinstance(made, t.Lambda) else made
    return isinstance(made, t.Call) and not is_long_buffer(c.flow, made.argument("maxlen"))


def _named_tuple(c: Called) -> Value:
    fields = c.node.argument("field_names", 1)
    named = [fields] if isinstance(fields, t.Constant) else fields.items if isinstance(fields, t.Display) else []
    words = [item.value for item in named if isinstance(item, t.Constant) and isinstance(item.value, str)]
    names = tuple(" ".join(words).replace(",", " ").split())
    return Value(kind=Kind.FUNCTION, ref=Fields(names)) if names else Value(kind=Kind.EXTERNAL, ref="builtins.tuple")


def _constructed(c: Called, name: str, tail: str) -> Value | None:
    """Modules, optimizers, loaders, parameters."""
    if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        made = Value(frozenset((Root(Source.LEAF, c.node),)), kind=Kind.TENSOR)
        return holding(made, Held.PARAMETER, c.node)
    if name.startswith("torch.optim.") or tail in ("AdamW", "Lamb", "LARS", "create_optimizer"):
        if "lr_scheduler" in name or "swa_utils" in name:
            return None
        return holding(Value(kind=Kind.OPTIMIZER, ref=optimized(c)), Held.OPTIMIZER, c.node)
    if tail == "DataLoader" or name.endswith("prefetch_loader"):
        size, data = c.node.argument("batch_size", 1), c.value_of("dataset", 0) or UNKNOWN
        one_by_one = isinstance(size, t.Constant) and size.value is None  # what the data set gives, as it is
        return Value(kind=Kind.LOADER, holds=data.holding(Held.MEMBER) if one_by_one else NOTHING_HELD)
    if tail == "GradScaler":
        return Value(kind=Kind.SCALER)
    if name == "torch.nn.ModuleList":
        return Value(kind=Kind.MODULE, parts=(("each", _listed_module(c)),))
    if name == "torch.nn.ModuleDict":
        return Value(kind=Kind.MODULE, parts=(("each", Value(kind=Kind.MODULE)),))
    if name == "torch.nn.ParameterList":
        return Value(kind=Kind.MODULE)
    if name.startswith(k.MODULE_PREFIXES) and not name.startswith(k.NOT_MODULES):
        wraps = (
            c.first is not None
            and isinstance(c.first.ref, Class)
            and tail in ("DataParallel", "DistributedDataParallel")
        )
        if wraps:
            return c.first
        learns = tail == "from_pretrained" and not _keeps_given_weights(c.node)
        return Value(kind=Kind.MODULE, ref=name.removesuffix(".from_pretrained") if learns else name)
    if tail in k.MODULE_FUNCTIONS and c.method != "from_config":
        known = c.first is not None and c.first.kind in (Kind.MODULE, Kind.FUNCTION)
        return c.first if known or _may_be_function(c, name) else Value(kind=Kind.MODULE)
    return None


def _may_be_function(c: Called, name: str) -> bool:
    """Whether nothing says that it is a module which is compiled: ``torch.jit.trace(getattr(answers, name), x)``.

    A function has no parameters: of plain tensors it makes no graph.
    """
    given = c.node.args[0].value if c.node.args else None
    if c.first is None or c.first.kind is not Kind.UNKNOWN or not name.startswith(("torch.jit.", "torch.compile")):
        return False
    path = t.path_of(given) if given is not None else None
    if path is None or "." in path:
        return isinstance(given, t.Lambda) or _is_picked(given)
    if kind_by_name(c.flow, path) is Kind.MODULE or is_used_as_module(c.flow, path, None):
        return False
    made = c.flow.ref.assigned.get(path, [])
    return path in c.flow.params or (bool(made) and all(map(_is_picked, made)))


def _is_picked(made: t.Expr | None) -> bool:
    """Whether an expression takes something by its name, which tells nothing of it: ``getattr(answers, name)``."""
    return isinstance(made, t.Lambda) or (isinstance(made, t.Call) and t.path_of(made.func) == "getattr")


def _listed_module(c: Called) -> Value:
    """What ``nn.ModuleList([Block(n) for n in sizes])`` is a list of, where it is known to be of one class."""
    made = iterated(c.first).ref if c.first is not None else None
    return Value(kind=Kind.MODULE, ref=made if isinstance(made, Class) else None)


def _keeps_given_weights(call: t.Call) -> bool:
    """Whether ``nn.Embedding.from_pretrained(weights, freeze=True)`` surely makes no parameter that learns."""
    freeze = call.argument("freeze", 1)
    return freeze is None or (isinstance(freeze, t.Constant) and freeze.value is True)


def _variable(c: Called) -> Value:
    """``Variable(x)``: a leaf, or a tensor without a graph, whatever it is given. It has no history."""
    made = (c.first or UNKNOWN)._replace(kind=Kind.TENSOR, maybe=NONE, must=NONE)
    its_own = frozenset((Root(Source.LEAF, c.node),)) if c.node.is_true("requires_grad") else NONE
    return made._replace(roots=its_own)


def _torch(c: Called, name: str, tail: str) -> Value | None:
    requires_grad = c.node.is_true("requires_grad")
    copies = tail in k.COPYING_FUNCTIONS and (tail != "as_tensor" or _is_collection(c))
    if tail in k.CREATING_FUNCTIONS and name.count(".") == 1 and (copies or tail != "as_tensor"):
        leaf = Value(frozenset((Root(Source.LEAF, c.node),)), kind=Kind.TENSOR)
        plain = holding(DATA, Held.CUT, c.node) if tail in ("tensor", "from_numpy") else DATA
        plain = constant_terms.numbers_of(plain, c.arguments[:1], c.flow.site(c.node)) if copies else plain
        return constant_terms.as_leaf(leaf, plain) if requires_grad else plain
    if name.startswith("torch.autograd.") and tail == "Variable":
        return _variable(c)
    if name in ("torch.utils.data.random_split", "torch.utils.data.Subset", "torch.utils.data.ConcatDataset"):
        return each_of(c.first or UNKNOWN) if tail == "random_split" else c.first
    if name.startswith("torch.utils.checkpoint."):
        return c.result(Root(Source.GRAPH, c.node), kind=Kind.OUTPUT, receiver=False)
    if name.startswith(
        ("torch.distributed.", "torch.cuda.", "torch.utils.", "torch.backends.", "torch.multiprocessing")
    ):
        return NOTHING if not name.endswith("stream") else UNKNOWN
    if tail == "where" and len(c.values) == 1:
        return DETACHED._replace(kind=Kind.CONTAINER)  # a tuple of indices
    if tail in k.BREAKING_FUNCTIONS or name.startswith(("torch.nn.init.", "torch.nn.utils.clip")):
        return _broken(c, tail, c.first)
    if name.startswith(("torch.func.", "torch.jit.", "torch.hub.", "torch.fx.", "torch.compiler", "torch.export")):
        return Value(kind=Kind.MODULE) if name.startswith(("torch.jit.", "torch.hub.")) else None
    result = c.result(receiver=False)
    if tail in JOINING:
        note_joined(c)
    if tail in k.SAVING:
        c.flow.saving.add(c.node)
    if tail in ("mean", "sum") and c.first is not None:
        result = constant_terms.kept_by(c.first, result)
    if tail in k.SHAPE_KEEPING and c.first is not None:
        result = result._replace(holds=result.holds | whole(c.first))
    return _indexed(c, tail, result)


def _is_collection(c: Called) -> bool:
    """Whether the first argument is a list of numbers or of tensors: ``torch.as_tensor`` copies these."""
    written = c.node.args[0].value if c.node.args else None
    is_list = c.first is not None and c.first.kind is Kind.CONTAINER
    return is_list or isinstance(written, t.Display | t.Comprehension)


def _indexed(c: Called, name: str, result: Value) -> Value:
    """The second part of ``max(dim)``, ``sort``, ``topk`` holds indices; each part is a tensor of its own."""
    several = len(c.values) + (0 if c.external else 1) > 1
    part = result._replace(parts=())
    if (name in k.INDEXED_RESULTS and (several or name in k.SEVERAL_RESULTS)) or _gives_several(c):
        of = (c.first if c.external else c.receiver) or UNKNOWN
        return result._replace(parts=((0, part), (1, unrecorded.of_choice(of, DETACHED, lambda: c.flow.site(c.node)))))
    return result._replace(parts=((0, part), (1, part), (2, part))) if name in k.SEVERAL_RESULTS else result


def _broken(c: Called, name: str, of: Value | None) -> Value:
    """What has no graph: a tensor, or several of them, ``values, counts = x.unique(return_counts=True)``."""
    if _gives_several(c):
        return DETACHED._replace(kind=Kind.CONTAINER)
    if of is None or name not in k.CHOOSING:
        return DETACHED
    return unrecorded.of_choice(of, DETACHED, lambda: c.flow.site(c.node))


def _gives_several(c: Called) -> bool:
    return any(c.node.is_true(keyword) for keyword in k.SEVERAL_IF_ASKED)


def tensor_method(c: Called) -> Value | None:
    if not c.method or c.receiver is None or c.external:
        return None
    receiver = c.receiver
    if receiver.kind in (Kind.MODULE, Kind.OPTIMIZER, Kind.SCALER, Kind.LOADER):
        if receiver.kind is Kind.SCALER and c.method == "scale":
            return c.first or UNKNOWN
        if c.method in k.FLUENT_METHODS:
            return receiver
        if receiver.kind is Kind.MODULE and c.method in ("parameters", "named_parameters"):
            leaf = Value(frozenset((Root(Source.LEAF, c.node),)), kind=Kind.TENSOR)
            leaf = holding(leaf, Held.STATE, c.node)
            return each_of(leaf if c.method == "parameters" else structure(((0, NUMBER), (1, leaf))))
        if receiver.kind is Kind.MODULE and c.method in ("modules", "children", "named_modules", "named_children"):
            each = Value(kind=Kind.MODULE)
            return each_of(each if "named" not in c.method else structure(((0, NUMBER), (1, each))))
        each_in_dict = receiver.part("each") if c.method in ("items", "values") and not c.values else None
        if receiver.kind is Kind.MODULE and each_in_dict is not None:  # of an nn.ModuleDict
            return each_of(each_in_dict if c.method == "values" else structure(((0, NUMBER), (1, each_in_dict))))
        if c.method in ("state_dict", "load_state_dict", "named_buffers", "buffers"):
            return _state(c) if c.method == "state_dict" else DETACHED
        return None
    if c.method == "state_dict" and "sched" in c.path:
        return NUMBER
    if c.method == "state_dict" and not c.values:
        return _state(c)
    if c.method == "_asdict" and not c.values:  # of a named tuple
        return receiver._replace(kind=Kind.CONTAINER)
    if c.method == "_replace":
        return _replaced(c, receiver)
    if c.method in ("items", "values", "keys") and not c.values:
        return _view(receiver, c.method)
    if (
        c.method == "get"
        and c.node.args
        and (receiver.kind in (Kind.CONTAINER, Kind.OUTPUT) or _is_of_dict(c, receiver))
    ):
        found = containers.entry(c, receiver, c.node.args[0].value)
        return join(found, c.arguments[1], trusted="first") if len(c.arguments) > 1 else found
    if c.method in k.BREAKING_METHODS:
        if c.method == "detach":
            return cut(receiver, c.node)
        if c.method == "numpy":
            array = ARRAY._replace(holds=receiver.holding(Held.VIEW, Held.PART))
            return constant_terms.array_of(c.flow, c.node, array, c.state)
        if c.method == "item":
            return constant_terms.item_of(c.flow, c.node, receiver, c.state)
        numbers = c.method in ("tolist", "size", "dim", "numel")
        return NUMBER if numbers else holding(_broken(c, c.method, receiver), Held.CUT, c.node)
    if c.method == "scale" and k.SCALER_NAME.search(c.receiver_path or ""):
        return c.first or UNKNOWN
    if c.method in ("sample", "sample_n") and receiver.kind in (Kind.OUTPUT, Kind.TENSOR):
        return DETACHED  # torch.distributions draws under no_grad; no tensor has such a method
    if c.method in k.MOVING_METHODS:
        moved = computed(receiver)._replace(parts=())
        moved = moved._replace(holds=moved.holds | receiver.holding(Held.STATE) | _on_device(c, receiver))
        return recorded(moved, c.state)  # to where it is already, it is the same tensor
    if c.method in k.SHAPING_METHODS:
        kind = Kind.TENSOR if _is_tensor(c, receiver) else receiver.kind
        return recorded(_viewed(c, receiver)._replace(parts=(), kind=kind), c.state, c.node)
    if c.method in k.DIFFERENTIABLE_METHODS:
        result = c.result(kind=receiver.kind if receiver.kind is Kind.OUTPUT else Kind.TENSOR)
        if c.method in k.SAVING:
            c.flow.saving.add(c.node)
        if c.method == "clone" and receiver.holding(Held.STATE):
            result = unrecorded.of_copy(holding(result, Held.SNAPSHOT, c.node))
        if _is_tensor(c, receiver):
            result = result._replace(kind=Kind.TENSOR)
        if c.method in k.VIEWING_METHODS:
            result = result._replace(holds=result.holds | _viewed(c, receiver).holds)
        elif c.method in k.SHAPE_KEEPING:
            result = result._replace(holds=result.holds | whole(receiver))
        elif c.method in ("mean", "sum"):
            result = constant_terms.kept_by(receiver, result)
        return _indexed(c, c.method, result)
    return None


def _state(c: Called) -> Value:
    """What ``model.state_dict()`` gives: the tensors of the model, detached."""
    return unrecorded.of_state(c.node, holding(DETACHED, Held.STATE, c.node), lambda: c.flow.site(c.node))


def _on_device(c: Called, receiver: Value) -> Holdings:
    """What a batch keeps on the device that it is moved to, or is on already."""
    to = c.node.args[0].value if c.node.args else c.node.argument("device", 0)
    if c.method in k.KEEPING_DEVICE or (c.method == "to" and _names_a_type(to)):
        return whole(receiver)
    if c.method == "cpu" or (c.method == "to" and not _names_a_device(to)):
        return NOTHING_HELD
    return whole(receiver) | {Holding(Held.MOVED, c.node)}


def _names_a_type(to: t.Expr | None) -> bool:
    path = (t.path_of(to) if to is not None else None) or ""
    return "dtype" in path or path.startswith("torch.")


def _names_a_device(to: t.Expr | None) -> bool:
    """Whether what a tensor is moved to is a device that is not the host, as far as its name says."""
    named = to.value if isinstance(to, t.Constant) else t.path_of(to) if to is not None else None
    return isinstance(named, int) or (isinstance(named, str) and k.DEVICE_NAME.search(named) is not None)


def _is_of_dict(c: Called, receiver: Value) -> bool:
    """Whether ``get`` is given a word, or asks for a sum so far, and what there is instead, which is a dict's."""
    if receiver.kind is not Kind.UNKNOWN or len(c.node.args) != 2:
        return False
    key, default = c.node.args[0].value, c.node.args[1].value
    is_word = isinstance(key, t.Constant) and isinstance(key.value, str)
    return is_word or (isinstance(key, t.Name) and t.is_zero(default))  # sums.get(name, 0.0) + loss


def _is_tensor(c: Called, receiver: Value) -> bool:
    """Whether a method that is called says that its object is a tensor."""
    if receiver.kind is Kind.UNKNOWN:
        by_size = c.method == "split" and bool(c.node.args) and isinstance(c.node.args[0].value, t.Constant)
        return c.method in k.ONLY_OF_TENSORS or (by_size and isinstance(c.node.args[0].value.value, int))  # type: ignore[attr-defined]
    return receiver.kind is Kind.OUTPUT and c.method not in k.NOT_ONLY_OF_TENSORS


def _viewed(c: Called, receiver: Value) -> Value:
    """The receiver as a view of itself; of a part of it, where the method picks one."""
    if c.method == "repeat":  # copies
        return computed(receiver)._replace(holds=computed(receiver).holds | whole(receiver))
    if c.method in ("narrow", "select"):
        return holding(receiver._replace(holds=receiver.holds - receiver.holding(*ON_DEVICE)), Held.VIEW, c.node)
    return receiver if c.method == "requires_grad_" else viewed(receiver)


def _view(receiver: Value, method: str) -> Value:

    if method == "keys":
        return NUMBER
    kinds = {part.kind for _, part in receiver.parts}
    if len(kinds) == 1 and kinds <= {Kind.FUNCTION, Kind.INSTANCE}:
        each = element(receiver, "each")
    elif receiver.parts and receiver.part("each") is None:
        each = carried_element(receiver, union((v for _, v in receiver.parts), Kind.UNKNOWN))
    else:
        each = element(receiver._replace(parts=()), "each")
    return each_of(each if method == "values" else structure(((0, NUMBER), (1, each))))


def scaled_loss(c: Called) -> Value | None:
    """``with amp.scale_loss(loss, optimizer) as scaled``."""
    return c.first if c.method == "scale_loss" and c.first is not None else None


def logging_call(c: Called) -> Value | None:
    """Calls that look at a value, and keep none of it."""
    path = c.receiver_path or ""
    reports = k.LOGGING_RECEIVERS.search(path) and c.method not in k.MAPPING_METHODS
    if c.method and (reports or c.method in k.LOGGING_METHODS):
        return NOTHING
    if c.method in ("log", "log_dict") and path == "self" and c.flow.facts.is_module_method:
        return NOTHING  # Lightning detaches what it logs
    if last(c.path) in ("print", "pprint", "log_metrics", "print_log"):
        return NOTHING
    return None

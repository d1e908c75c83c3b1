"""Calls of modules and of losses: where graphs begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static import values
from gradguard.static.model import Forward, Function, Mode, Scope
from gradguard.static.program.arguments import with_flags
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.known_by_methods import gives_numbers
from gradguard.static.program.names import structures_in
from gradguard.static.program.parameters import making
from gradguard.static.program.paths import is_part, last
from gradguard.static.reading import modes
from gradguard.static.reading.called import Called
from gradguard.static.reading.model_lookalikes import may_record_nothing
from gradguard.static.reading.places import assigned_at
from gradguard.static.values import NUMBER, Held, Kind, Root, Source, Value, graph_of, holding, union

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def module_call(c: Called) -> Value | None:
    is_module = c.func.kind is Kind.MODULE and c.method != "forward"
    if not is_module and c.method == "forward" and c.receiver is not None and c.receiver.kind is Kind.MODULE:
        is_module = True
    if not is_module or _may_be_class(c):
        return None
    is_plain = _is_loss_without_parameters(c.func.ref)
    if is_plain or k.LOSS_CALLABLE.search(c.path):
        given = union(c.arguments)
        if is_plain and not given.reach and given.holding(Held.CUT):
            return c.result(receiver=False)  # of values without a graph
        return c.result(Root(Source.LOSS, c.node), receiver=False)
    if isinstance(c.func.ref, str) and c.func.ref.rsplit(".", 1)[-1] in k.WITHOUT_PARAMETERS:
        return c.result(receiver=False)
    if isinstance(c.func.ref, Class) and not c.func.ref.may_learn:
        return c.result(receiver=False)
    if _only_changes_it(c):
        return None
    if k.GRADIENT_SEEKING_NAME.search(last(c.path)):
        c.flow.facts.gradients_wanted = True
    if all(isinstance(arg.value, t.Constant) for arg in c.node.args) and last(c.path) == "head":
        return None  # table.head(5)
    mode, c.state.mode = c.state.mode, modes.told(c)
    forward(c)
    note_tensors(c)
    result = NUMBER if gives_numbers(c) else module_result(c)
    c.state.mode = mode
    return result


def _may_be_class(c: Called) -> bool:
    """Whether nothing but its name says that it is a module, and it is given nothing: ``config, model = read()``.

    ``model()`` makes one then.
    """
    is_named_only = c.func.ref is None and c.path.isidentifier() and c.path not in c.flow.modules
    return not c.node.args and is_named_only


def _only_changes_it(c: Called) -> bool:
    """Whether a method of a module, whose class only the run knows, runs nothing: ``net.module.add_layers()``.

    That is so where no module of the program that has such a method runs anything in it, and it is given numbers at
    most.
    """
    receiver = c.receiver
    if not c.method or receiver is None or receiver.ref is not None or c.method in k.OF_EVERY_MODULE:
        return False
    plain = (Kind.NUMBER, Kind.NOTHING)
    if any(value.kind not in plain for value in c.arguments):
        return False
    methods = c.flow.project.survey.methods_of_modules(c.method, c.flow.module)
    flows = [c.flow.project.flow(ref) for ref in methods]
    return bool(flows) and all(flow is not None and not flow.facts.forwards for flow in flows)


def note_wanted(c: Called) -> None:
    """Note that a method of a module, whose class only the run knows, asks for gradients of an input by itself.

    That is so where all modules of the program that have such a method do: a penalty on the gradients of a critic.
    """
    receiver = c.receiver
    if not c.method or receiver is None or receiver.kind is not Kind.MODULE or receiver.ref is not None:
        return
    if not c.arguments or c.method in k.OF_EVERY_MODULE or c.flow.facts.gradients_wanted:
        return
    methods = c.flow.project.survey.methods_of_modules(c.method, c.flow.module)
    asking = [ref for ref in methods if "requires_grad" in ref.chunk.text]
    if methods and len(asking) == len(methods):
        flows = map(c.flow.project.flow, methods)
        c.flow.facts.gradients_wanted |= all(flow is not None and flow.facts.gradients_wanted for flow in flows)


def note_tensors(c: Called, ref: FunctionRef | None = None) -> None:
    """What a module takes is a tensor, unless its ``forward`` takes a structure apart.

    Args:
        ref: that ``forward``, where it is known.
    """
    names = [param.name for param in ref.define.params if not param.star][1:] if ref is not None else []
    for index, (arg, value) in enumerate(c.values):
        path = t.path_of(arg.value)
        if value.ref != "batch" or path is None or arg.star:
            continue
        name = arg.keyword or (names[index] if index < len(names) else None)
        if ref is None or (name in names and name not in structures_in(ref.define.body)):
            c.state.env[path] = value._replace(ref=None)


def _is_loss_without_parameters(ref: object) -> bool:
    """Whether a module is a loss of ``torch.nn``, by whatever name it is called: ``mae = nn.L1Loss()``."""
    return (
        isinstance(ref, str) and ref.startswith("torch.nn.") and ref.endswith("Loss") and not ref.endswith("WithLoss")
    )


def of_evaluated(c: Called) -> Value | None:
    """A method of a module in evaluation, or in a loop that evaluates, whose class only the run knows: it runs it.

    That is so where the modules of the program that have such a method all run something in it, with a graph that
    no backward of theirs asks for.
    """
    path, receiver = c.receiver_path, c.receiver
    if not c.method or receiver is None or not c.arguments or c.state.mode is Mode.OFF:
        return None
    if modes.told(c) is not c.state.mode:
        return None
    evaluated = c.state.evaluates(path)
    if not evaluated and not (receiver.kind is Kind.MODULE and c.flow.loop is not None and c.flow.loop.evaluates):
        return None
    if receiver.kind not in (Kind.MODULE, Kind.UNKNOWN) or receiver.ref is not None or c.method in k.OF_EVERY_MODULE:
        return None
    flows = list(map(c.flow.project.flow, c.flow.project.survey.methods_of_modules(c.method, c.flow.module)))
    trained = [
        flow is None or (bool(flow.facts.backwards) if evaluated else flow.facts.needs_gradients) for flow in flows
    ]
    ran = [flow.facts.forwards if flow is not None and not trains else [] for flow, trains in zip(flows, trained)]
    if ran and all(forwards and all(f.mode is not Mode.OFF for f in forwards) for forwards in ran):
        forward(c, path)
    return None


def of_frozen(c: Called) -> Value | None:
    """A method of a module whose class only the run knows, that runs what is frozen: ``net.encode_keys(x)``.

    That is so where all classes of the program that have such a method are modules that run nothing else in it, and
    return what comes of its arguments.
    """
    receiver = c.receiver
    if not c.method or receiver is None or not c.arguments or c.method in k.OF_EVERY_MODULE:
        return None
    if receiver.kind is not Kind.MODULE or receiver.ref is not None or c.func.ref is not None:
        return None
    survey = c.flow.project.survey
    methods = survey.methods_of_modules(c.method, c.flow.module)
    if not methods or not all("requires_grad" in ref.chunk.text for ref in methods):
        return None
    flows = map(c.flow.project.flow, methods)
    if not all(flow is not None and _adds_no_graph(flow.facts) for flow in flows):
        return None
    if survey.methods_of_no_modules(c.method, c.flow.module):
        return None
    return holding(c.result(kind=Kind.OUTPUT, receiver=False), Held.OUTPUT, c.node)


def _adds_no_graph(method: Function) -> bool:
    """Whether what a method returns has no graph but that of its arguments: it runs frozen modules."""
    silent = (run.is_frozen or run.mode is Mode.OFF for run in method.forwards)
    own = (root for root in method.returns.reach if root.source is not Source.PARAM)
    return bool(method.forwards) and all(silent) and not any(own)


def forward(c: Called, path: str | None = None) -> None:
    """Note that a module is run.

    Args:
        path: the module's; that which is called, or whose ``forward`` is, when not given.
    """
    flow = c.flow
    path = path or (c.receiver_path if c.method == "forward" else c.path)
    is_evaluated = c.state.evaluates(path) or c.state.evaluates(_moved_from(flow, path))
    flow.record(Forward(
        flow.site(c.node), flow.loop, flow.branches > 0, module=path or None, mode=c.state.mode,
        evaluates=bool(c.state.evaluating), is_evaluated=is_evaluated,
        is_frozen=is_frozen(c, path) or _records_nothing(c), is_shown=path in flow.modules,
        may_learn_itself=_may_learn_itself(c, path), may_record_nothing=lambda: may_record_nothing(c),
        given=graph_of(union(c.arguments)),
    ))  # fmt: skip


def _moved_from(flow: Flow, path: str | None) -> str | None:
    """The path of the module that a variable is another name of: ``net = self.net.to(device)``."""
    origins = set(map(_moved, flow.ref.assigned.get(path or "", ())))
    return flow.canonical(origins.pop() or "") if len(origins) == 1 else None


def _moved(value: t.Expr) -> str | None:
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in k.FLUENT_METHODS:
        value = value.func.value
    return t.path_of(value)


def _may_learn_itself(c: Called, path: str | None) -> bool:
    """Whether an evaluated object may adapt itself when it is called: nothing is known of it, and some forward does."""
    is_known = c.func.ref is not None or (c.receiver is not None and c.receiver.ref is not None)
    given = len(c.node.args) if not any(arg.star for arg in c.node.args) else None
    return not is_known and c.state.evaluates(path) and c.flow.project.survey.has_learning_forward(c.flow.module, given)


def is_frozen(c: Called, path: str | None) -> bool:
    """Whether no parameter of the module that is called wants a gradient."""
    called = [value for value in (c.func, c.receiver) if value is not None]
    module = next((value.ref for value in called if isinstance(value.ref, Class)), None)
    return (
        any(map(values.is_frozen, called))
        or c.state.freezes(path)
        or c.state.freezes(_moved_from(c.flow, path))
        or (module is not None and freezes_itself(c.flow, path, module))
        or is_frozen_part(c.flow, path)
        or is_frozen_elsewhere(c)
    )


def is_frozen_elsewhere(c: Called) -> bool:
    """Whether the script freezes a global, or the class of an object one of its attributes, when it is made."""
    if c.path in c.flow.module.names_of_frozen and c.flow.scope(c.path) is Scope.GLOBAL:
        return True
    holder = c.receiver.ref if c.receiver is not None else None
    return isinstance(holder, Class) and any(is_part(f"self.{c.method}", part) for part in holder.frozen_parts)


def is_frozen_part(flow: Flow, path: str | None) -> bool:
    """Whether the object, or a part of it, was frozen when this one was made: ``self.teacher``."""
    owner = flow.ref.owner
    return path is not None and owner is not None and any(is_part(path, part) for part in owner.frozen_parts)


def freezes_itself(flow: Flow, path: str | None, module: Class) -> bool:
    """Whether the object of a class at a path was made so that none of its parameters wants a gradient."""
    if (known := flow.freezing.get((path, module))) is None:
        made = [call for call in made_at(flow, path or "") if flow.module.value_of(call.func).ref is module]
        known = any(map(module.is_frozen_as, made)) if made else module.is_frozen
        flow.freezing[path, module] = known
    return known


def made_at(flow: Flow, path: str) -> list[t.Call]:
    """The calls that make what is at a path."""
    return [call for value in assigned_at(flow, path) if (call := making(value)) is not None]


def _records_nothing(c: Called) -> bool:
    """Whether all modules that a module's ``forward`` runs are run without gradients: features for a metric."""
    ref = c.func.ref.method("forward") if isinstance(c.func.ref, Class) else None
    flow = c.flow.project.flow(with_flags(ref, c.values)) if ref is not None else None
    return flow is not None and bool(flow.facts.forwards) and all(f.mode is Mode.OFF for f in flow.facts.forwards)


def _cuts_its_output(c: Called, module: Class) -> bool:
    """Whether all that a module's ``forward`` returns is without a graph: ``return q_values.argmax(1)``."""
    ref = module.method("forward")
    flow = c.flow.project.flow(ref) if ref is not None else None
    return flow is not None and flow.facts.returns.kind in (Kind.TENSOR, Kind.NUMBER) and not flow.facts.returns.reach


def module_result(c: Called) -> Value:
    ref = c.func.ref
    if is_frozen(c, c.path) or (isinstance(ref, Class) and _cuts_its_output(c, ref)):
        return holding(c.result(kind=Kind.OUTPUT, receiver=False), Held.OUTPUT, c.node)
    plain = isinstance(ref, str) and ref.startswith("torch.nn.") and ref.rsplit(".", 1)[-1] not in k.STRUCTURED_MODULES
    result = c.result(Root(Source.GRAPH, c.node), kind=Kind.TENSOR if plain else Kind.OUTPUT, receiver=False)
    c.flow.saving.add(c.node)
    if isinstance(ref, str) and ref.startswith("torch.nn.") and ref.rsplit(".", 1)[-1] in k.RECURRENT_MODULES:
        c.flow.recurrent.add(c.node)
    return holding(result, Held.OUTPUT, c.node)


def loss_call(c: Called) -> Value | None:
    """A callable that is named as a loss: differentiable in its arguments."""
    if not k.LOSS_CALLABLE.search(c.path) or c.func.kind is Kind.FUNCTION or c.method in k.ADDING_METHODS:
        return None
    if c.method in (
        "item",
        "detach",
        "update",
        "reset",
        "backward",
        "step",
        "values",
        "items",
        "get",
        "keys",
        "numpy",
        "cpu",
    ):
        return None
    return c.result(Root(Source.LOSS, c.node), kind=Kind.UNKNOWN, receiver=False)

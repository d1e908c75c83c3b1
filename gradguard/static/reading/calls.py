"""What a call does: to graphs, gradients and containers, and what it returns.

``call`` asks a list of readers in order; the first that knows the call answers. What a function of the project does
is applied from its own facts (``summary``); everything else is looked up in ``knowledge``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.kept.exit_stacks import entered_on
from gradguard.static.model import (
    Call,
    CallOfGiven,
    Construction,
    HookRegistration,
    Mode,
    OpaqueCall,
)
from gradguard.static.program import dispatch, handed, known_by_methods, mapped
from gradguard.static.program.arguments import takes, takes_keywords
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import OF_METHOD, named_kind
from gradguard.static.program.paths import last
from gradguard.static.project import member
from gradguard.static.reading import (
    autograd_functions,
    containers,
    modes,
    module_calls,
    operations,
    threads,
    training,
    volatile,
)
from gradguard.static.reading.called import Called
from gradguard.static.reading.expressions import evaluate, recorded
from gradguard.static.reading.other_libraries import note_foreign
from gradguard.static.reading.places import is_used_as_module, kind_by_name, may_have_modules
from gradguard.static.reading.state import State
from gradguard.static.reading.summary import apply_facts, apply_one_of
from gradguard.static.values import (
    UNKNOWN,
    Bound,
    Choice,
    Fields,
    Held,
    Kind,
    Root,
    Source,
    Value,
    holding,
    union,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def call(flow: Flow, node: t.Call, state: State) -> Value:
    """The value of a call; its effects are recorded."""
    if isinstance(node.func, t.Name) and isinstance(named := state.env.get(node.func.id, UNKNOWN).ref, Bound):
        node = t.Call(node.origin, named.method, node.args)  # type: ignore[arg-type]
    if isinstance(node.func, t.Call) and (looked_up := _by_word(node.func)) is not None:
        node = t.Call(node.origin, looked_up, node.args)
    if node.args and _runs_to_the_end(node):
        node = _draining(flow, node, state)
    if isinstance(node.func, t.Attribute) and isinstance(node.func.value, t.Conditional):
        return evaluate(flow, _of_either(node, node.func, node.func.value), state)
    receiver = evaluate(flow, node.func.value, state) if isinstance(node.func, t.Attribute) else None
    func = (
        evaluate(flow, node.func, state)
        if not isinstance(node.func, t.Attribute)
        else _bound(flow, node, receiver, state)
    )
    if func.kind is Kind.MODULE and isinstance(func.ref, Class) and not _can_be_given(func.ref, node.args):
        func = func._replace(ref=None)  # another module, or a function: whoever made the object chose it
    module = node.argument("module", 0) if func.ref in k.RUNNING_MODULES else None
    if module is not None:
        func, receiver = evaluate(flow, module, state), None
    args = node.args if module is None else _given_to(node, state)
    values = [(arg, evaluate(flow, arg.value, state)) for arg in args]
    called = Called(flow, state, node, func, receiver, values, module)
    if called.method == "enter_context" and called.first is not None:
        if isinstance(called.first.ref, HookRegistration):
            called.first.ref.stack = entered_on(flow, node.args[0].value)  # the handle is a context
            called.first.ref.removed = True
        for event in flow.calls_giving(node.args[0].value):
            event.entered = True
    _note(called)
    _note_reset_handed_on(called)
    note_foreign(called)
    if func.ref is None and called.path:
        flow.unknown_calls.append((called.path, state.mode))
    if (asked := node.argument("volatile")) is not None:
        volatile.given(flow, asked, state)
    for reader in _READERS:
        value = reader(called)
        if value is not None:
            break
    else:
        value = _unknown(called)
    if node.is_true("requires_grad") and value.kind is not Kind.MODULE:
        value = value.with_roots(Root(Source.LEAF, node))
    return value


def _can_be_given(module: Class, args: list[t.Arg]) -> bool:
    """Whether objects of a class of modules can be called with these arguments."""
    forward = module.method("forward")
    return forward is None or takes(forward, args) or module.method("__call__") is not None


def _runs_to_the_end(node: t.Call) -> bool:
    """Whether a call takes all that a generator gives: ``list(run())``, ``zip(*run())``, ``rows.extend(run())``."""
    func, given = node.func, node.args[0]
    if isinstance(func, t.Attribute):
        return func.name == "extend" and isinstance(given.value, t.Call)
    return isinstance(func, t.Name) and (func.id in k.DRAINING or (func.id == "zip" and given.star == "*"))


def _draining(flow: Flow, node: t.Call, state: State) -> t.Call:
    """``sum(f(x) for x in xs)`` runs to the end; ``list(run())`` and ``list(map(f, xs))`` are loops."""
    given = node.args[0].value
    if isinstance(given, t.Comprehension):
        flow.drained.add(given)
    elif (
        isinstance(given, t.Call) and node not in flow.rewritten and (each := _each_of(flow, given, state)) is not None
    ):
        if isinstance(node.func, t.Name):  # of `rows.extend(...)` it is told that `rows` gets them
            flow.drained.add(each)
        flow.rewritten[node] = t.Call(node.origin, node.func, [t.Arg(each, star=node.args[0].star), *node.args[1:]])
    return flow.rewritten.get(node, node)


def _each_of(flow: Flow, given: t.Call, state: State) -> t.Comprehension | None:
    """What a generator of the program gives, or a function of the program for each element, as a comprehension."""
    function = _mapped_function(given)
    if function is not None and isinstance(evaluate(flow, function, state).ref, FunctionRef):
        return mapped.each_called(given.origin, "generator", function, given.args[1:])
    ref = evaluate(flow, given.func, state).ref if t.path_of(given.func) is not None else None
    return mapped.each_given(given) if isinstance(ref, FunctionRef) and ref.define.is_generator else None


def _mapped_function(call: t.Call) -> t.Expr | None:
    """The function that ``map(f, xs)`` calls with each, by its name."""
    is_map = isinstance(call.func, t.Name) and call.func.id == "map" and len(call.args) > 1
    plain = is_map and not any(arg.star or arg.keyword for arg in call.args)
    return call.args[0].value if plain and isinstance(call.args[0].value, t.Name | t.Attribute) else None


def _given_to(node: t.Call, state: State) -> list[t.Arg]:
    """What a module is given by ``nn.parallel.data_parallel(net, (x, z), devices)``, which runs ``net(x, z)``."""
    inputs = node.argument("inputs", 1)
    known = state.env.get(inputs.id) if isinstance(inputs, t.Name) else None
    star = "*" if known is not None and known.kind is Kind.CONTAINER else ""
    items = inputs.items if isinstance(inputs, t.Display) else [] if inputs is None else [inputs]
    return [t.Arg(item, star=star) for item in items]


def _of_either(node: t.Call, func: t.Attribute, owner: t.Conditional) -> t.Conditional:
    """``(hits if ok else misses).append(x)``, which is ``hits.append(x) if ok else misses.append(x)``."""
    body, orelse = (
        t.Call(node.origin, t.Attribute(func.origin, one, func.name), node.args) for one in (owner.body, owner.orelse)
    )
    return t.Conditional(node.origin, owner.test, body, orelse)


def _note(c: Called) -> None:
    """Record a call that some rule asks about."""
    name = c.external if c.external in k.NOTED_FUNCTIONS else _noted_base(c)
    if c.external.startswith("torch.optim.") and "scheduler" not in c.external:
        name = "torch.optim"
    elif not c.external and c.method in k.NOTED_METHODS and not isinstance(c.func.ref, FunctionRef):
        name = c.method
    if not name:
        return
    given = tuple((a.star or a.keyword, _known(a, v)) for a, v in c.values)
    c.flow.record(Call(
        c.flow.site(c.node), c.flow.loop, c.flow.branches > 0, name=name, receiver=c.receiver_path,
        of=c.receiver or UNKNOWN, given=given, mode=c.state.mode, is_used=c.node not in c.flow.ref.calls_for_effect,
    ))  # fmt: skip


def _noted_base(c: Called) -> str:
    """The noted class of another package whose constructor a derived class calls: ``super().__init__(...)``."""
    func, owner = c.node.func, c.flow.ref.owner
    if c.method != "__init__" or owner is None or not isinstance(func, t.Attribute):
        return ""
    is_super = isinstance(func.value, t.Call) and t.path_of(func.value.func) == "super"
    return next(iter(sorted(owner.external_bases & k.NOTED_FUNCTIONS)), "") if is_super else ""


def _known(arg: t.Arg, value: Value) -> Value:
    """An argument's value; a loader, if its name says so and nothing else is known."""
    path = t.path_of(arg.value)
    named = path is not None and value.kind is Kind.UNKNOWN and not path.endswith("s")
    return Value(kind=Kind.LOADER) if named and named_kind(path or "") is Kind.LOADER else value


def _bound(flow: Flow, node: t.Call, receiver: Value | None, state: State) -> Value:
    """What ``receiver.name`` is, without asking the receiver twice."""

    func = node.func
    assert isinstance(func, t.Attribute)
    if receiver is not None and receiver.kind in (Kind.EXTERNAL, Kind.CLASS):
        return member(receiver, func.name) or UNKNOWN
    if isinstance(func.value, t.Call) and t.path_of(func.value.func) == "super" and flow.ref.owner is not None:
        for cls in list(flow.ref.owner.lineage())[1:]:
            if func.name in cls.methods:
                return Value(kind=Kind.FUNCTION, ref=cls.methods[func.name])
        return UNKNOWN
    if receiver is not None and isinstance(receiver.ref, Class):
        method = receiver.ref.method(func.name)
        if method is not None:
            return Value(kind=Kind.FUNCTION, ref=method)
        attribute = receiver.ref.attribute(func.name)
        if attribute is not None:
            return attribute
    if receiver is not None and isinstance(receiver.ref, Choice) and (methods := _methods_of(receiver.ref, func.name)):
        return Value(kind=Kind.FUNCTION, ref=Choice(methods))
    path = t.path_of(func)
    if path is not None and receiver is not None and may_have_modules(receiver):
        known = state.env.get(flow.canonical(path))
        if known is not None:
            return known
        holder = receiver.ref if isinstance(receiver.ref, Class) else None
        is_module = kind_by_name(flow, path) is Kind.MODULE or is_used_as_module(flow, path, holder)
        if is_module and func.name not in k.MODULE_METHODS:
            return Value(kind=Kind.MODULE)
    return UNKNOWN


def _methods_of(chosen: Choice, name: str) -> tuple[FunctionRef, ...]:
    """The methods of this name of the classes that a module may be of, where each has one."""
    methods = [cls.method(name) if isinstance(cls, Class) else None for cls in chosen.functions]
    found = tuple(dict.fromkeys(method for method in methods if method is not None))
    return found if None not in methods else ()


def _by_word(func: t.Call) -> t.Attribute | None:
    """``getattr(optimizer, "zero_grad")``, which is ``optimizer.zero_grad``."""
    if t.path_of(func.func) != "getattr" or len(func.args) != 2:
        return None
    name = func.args[1].value
    if not isinstance(name, t.Constant) or not isinstance(name.value, str):
        return None
    return t.Attribute(func.origin, func.args[0].value, name.value)


def _note_reset_handed_on(c: Called) -> None:
    """``stack.callback(optimizer.zero_grad)``: somebody resets the gradients, at some time."""
    for arg, _ in c.values:
        if isinstance(arg.value, t.Attribute) and arg.value.name == "zero_grad":
            path = t.path_of(arg.value.value)
            given = frozenset((c.flow.canonical(path) if path is not None else None,))
            c.flow.record(OpaqueCall(c.flow.site(c.node), c.flow.loop, c.flow.branches > 0, given=given))


def _project(c: Called) -> Value | None:
    ref = c.func.ref
    if isinstance(ref, Fields):
        return _record(c, ref.names)
    if isinstance(ref, Choice) and c.func.kind is Kind.CLASS:
        return Value(kind=Kind.MODULE, ref=ref) if all(map(_is_module_class, ref.functions)) else None
    if isinstance(ref, Choice) and c.func.kind is Kind.FUNCTION:
        is_method = c.receiver is not None and isinstance(c.receiver.ref, Choice)
        functions = [function for function in ref.functions if isinstance(function, FunctionRef)]
        return apply_one_of(c, functions, c.receiver_path if is_method else None)
    if c.func.kind is Kind.FUNCTION and isinstance(ref, FunctionRef):
        if c.method == "forward" and c.receiver is not None and c.receiver.kind is Kind.MODULE:
            module_calls.forward(c)
        filled_in = dispatch.by_name(c) if ref.is_abstract and ref.owner is not None else None
        if filled_in is None and c.receiver is not None and not takes_keywords(ref, c.node.args):
            return None  # it is of another class, or the call raises
        return filled_in or apply_facts(c, ref, c.values, _bound_to(c, ref))
    if c.path == "cls" and c.flow.params[:1] == ["cls"] and c.flow.ref.owner is not None:
        return Value(kind=c.func.kind, ref=c.flow.ref.owner)
    if c.func.kind is Kind.CLASS and isinstance(ref, Class):
        if c.values and k.GRADIENT_SEEKING_NAME.search(ref.name):  # FGSM(model)
            c.flow.facts.gradients_wanted = True
        if ref.is_module:
            _note_made(c, ref)
            return Value(kind=Kind.MODULE, ref=ref)
        if _optimizer_class(ref):
            return Value(kind=Kind.OPTIMIZER, ref=ref)
        if ref.is_list:
            return union(c.arguments, Kind.INSTANCE)._replace(ref=ref)
        if ref.is_record and c.values and (not ref.methods or union(c.arguments).keeps) and not ref.has_setters:
            return _record(c, ref.fields, ref.replaced_fields)
        if ref.self_cycles and ref.holds_model:
            _note_made(c, ref)
        constructor = ref.method("__init__")
        kept = apply_facts(c, constructor, c.values, "") if constructor is not None else UNKNOWN
        made = Value(kept.roots, kept.maybe, kept.must, kind=Kind.INSTANCE, ref=ref, holds=kept.holds)
        return holding(made, Held.MEMBER, c.node) if ref.gives_members else made
    if c.func.kind in (Kind.MODULE, Kind.INSTANCE) and isinstance(ref, Class):
        forward = ref.method("forward" if c.func.kind is Kind.MODULE else "__call__")
        if forward is not None:
            learns = c.func.kind is Kind.MODULE and ref.may_learn
            if learns:
                module_calls.forward(c)
                module_calls.note_tensors(c, forward)
            several = c.flow.element_paths(c.path) if c.path else ()
            receiver = several[0] if several else c.flow.canonical(c.path) if c.path else None
            filled_in = dispatch.of_heirs(c, ref, forward, receiver) if forward.is_abstract else None
            returned = filled_in or apply_facts(c, forward, c.values, receiver=receiver)
            if returned.parts and not returned.reach:
                return returned  # a dict of numbers
            if learns and module_calls.is_frozen(c, c.path):
                return module_calls.module_result(c)
            if c.func.kind is Kind.MODULE and returned.roots - union(c.arguments).roots:
                return returned if returned.kind is Kind.TENSOR else returned._replace(kind=Kind.OUTPUT)
            if not learns or _detaches(forward):
                return returned
            result = module_calls.module_result(c)
            return result._replace(ref=returned.ref) if returned.kind is Kind.INSTANCE else result  # a record
    return None


def _is_module_class(ref: object) -> bool:
    return isinstance(ref, Class) and ref.is_module


def _bound_to(c: Called, ref: FunctionRef) -> str | None:
    """The object of a method that is called under another name: ``self.after_step = [self.average.update]``."""
    written, owner = t.path_of(c.node.func), c.flow.ref.owner
    if written is None or ref.owner is None or written.rpartition(".")[2] == ref.define.name:
        return None
    if owner is not None and any(base is ref.owner for base in owner.lineage()):
        return None
    path = c.flow.element_paths(written)[0]
    return (handed.bound_object(owner, path, ref.define.name) if owner is not None else None) or f"{path}{OF_METHOD}"


def _note_made(c: Called, cls: Class) -> None:
    """Record that a module, or what holds one, is made."""
    c.flow.record(Construction(
        c.flow.site(c.node), c.flow.loop, c.flow.branches > 0, name=cls.name, cycles=cls.self_cycles,
        repeats=c.flow.loop is not None or c.flow.generating > 0,
    ))  # fmt: skip


def _record(c: Called, fields: tuple[str, ...], replaced: frozenset[str] = frozenset()) -> Value:
    """A dataclass, a named tuple: field by field, where they are given one by one."""
    if any(arg.star for arg, _ in c.values) or len(c.values) > len(fields):
        return union(c.arguments, Kind.OUTPUT)
    names = iter(fields)
    given = ((arg.keyword or next(names), value) for arg, value in c.values)
    parts = tuple((name, value) for name, value in given if name not in replaced)
    return union([value for _, value in parts], Kind.OUTPUT)._replace(parts=parts)


def _prepared(c: Called) -> Value | None:
    """What makes the input of a model has no parameters: a tokenizer."""
    return UNKNOWN if k.PREPARING_NAME.search(last(c.path)) else None


def _optimizer_class(cls: Class) -> bool:
    bases = (n for n in cls.external_bases if "lr_scheduler" not in n)
    return any(n.startswith("torch.optim") or n.endswith("Optimizer") for n in bases)


def _detaches(forward: FunctionRef) -> bool:
    text = forward.chunk.program
    return "no_grad" in text or "detach" in text


def never_returns(expr: t.Expr) -> bool:
    """``sys.exit()`` and the like."""
    return isinstance(expr, t.Call) and (t.path_of(expr.func) or "") in ("sys.exit", "exit", "quit", "os._exit")


def _holds_given(c: Called) -> bool:
    """Whether a class that cannot be read is made of something, by its own name: ``from nets import Settler as SN``.

    A method of such a name measures: ``m.Dice(x, y)``.
    """
    if not c.values or not k.RECORD_NAME.match(last(c.external or c.path)) or k.MEASURING_CALLABLE.search(c.path):
        return False
    return not c.method or (c.receiver is not None and c.receiver.kind is Kind.EXTERNAL)


def _unknown(c: Called) -> Value:
    """A call that cannot be followed: it may return, keep or use any graph that went in."""
    flow, state = c.flow, c.state
    if c.path in flow.params and c.path not in flow.locals and any(value.keeps for value in c.arguments):
        flow.record(CallOfGiven(
            flow.site(c.node), flow.loop, flow.branches > 0, name=c.path, arguments=tuple(c.values)
        ))  # fmt: skip
    arguments = [value for value in c.arguments if value.kind is not Kind.FUNCTION]
    given = union([*arguments, *([c.receiver] if c.receiver is not None else [])])
    models = [a.value for a, v in c.values if v.kind is Kind.MODULE or t.path_of(a.value) == "self"]
    if models or any(v.kind is Kind.OPTIMIZER for v in c.arguments):
        paths = frozenset(flow.canonical(path) if (path := t.path_of(model)) else None for model in models)
        flow.record(OpaqueCall(flow.site(c.node), flow.loop, flow.branches > 0, given=paths))
        state.lost = ()  # it may set them
    if k.GRADIENT_SEEKING_NAME.search(c.path):
        flow.facts.gradients_wanted = True
    module_calls.note_wanted(c)
    if c.method:
        flow.method_calls.append((c.method, state.mode))
    if state.mode is Mode.OFF:
        return UNKNOWN
    if _holds_given(c):
        return union(c.arguments, Kind.OUTPUT).with_roots(Root(Source.CALL, c.node))
    if not k.MEASURING_CALLABLE.search(last(c.path)):
        flow.escaped.update(union(arguments).reach)
        if c.func.kind is Kind.UNKNOWN and flow.ref.retains:
            flow.handed[c.node] = len(flow.facts.events), union(arguments)
    return recorded(Value(frozenset((Root(Source.CALL, c.node),)), given.reach), state)


_READERS: tuple[Callable[[Called], Value | None], ...] = (
    modes.mode_call,
    training.grad_call,
    training.backward_call,
    training.zero_grad,
    training.step_call,
    training.hook_call,
    operations.scaled_loss,
    threads.pool,
    threads.run,
    containers.container_call,
    containers.in_place,
    autograd_functions.applied,
    _project,
    _prepared,
    known_by_methods.decoded,
    module_calls.of_frozen,
    module_calls.of_evaluated,
    dispatch.by_name,
    dispatch.of_module,
    dispatch.logged,
    handed.call_of_handed,
    operations.external_call,
    operations.logging_call,
    module_calls.module_call,
    operations.tensor_method,
    module_calls.loss_call,
)

"""Which values carry a graph, and which of them outlive the iteration.

One abstract walk over a function, each statement once. A state maps the paths that the function names (``loss``,
``self.hidden``, ``stats["loss"]``) to values, and values are sets of roots (see ``values``). On entry to a loop every
path that the loop assigns gets a CARRIED root, "as it was when the iteration began". A path whose value still has its
own CARRIED root at the end of every way through the body is never reset: what was stored into it outlives the
iteration. That one criterion covers ``total += loss``, ``history.append(x)``, ``hidden = cell(x, hidden)``,
``bank = cat([bank, x])`` and ``self.ema = ...`` alike. Across calls of a method, PLACE roots play the same part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.backward.data_writes import written
from gradguard.static.backward.leftovers import REVERSES
from gradguard.static.evaluation.mode_layers import needs_training_mode
from gradguard.static.files.outline import SCRIPT
from gradguard.static.losses import constant_terms
from gradguard.static.memo import cached_property
from gradguard.static.model import (
    Backward,
    Call,
    CallOfGiven,
    Construction,
    Event,
    Form,
    Forward,
    Function,
    GradCall,
    GradientSum,
    GradRead,
    HookRegistration,
    Loop,
    Mode,
    OpaqueCall,
    Scope,
    Step,
    Store,
    TrainingMode,
    ZeroGrad,
)
from gradguard.static.optimizers.frozen_elsewhere import freezes_by_others
from gradguard.static.program.callers import backpropagate_result
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.handed_functions import is_handed_over
from gradguard.static.program.names import (
    computed_with,
    filled_in,
    given_words,
    is_field,
    items_called,
    numbers_set,
    summed_in,
)
from gradguard.static.program.paths import is_part
from gradguard.static.project import Project
from gradguard.static.reading import binding, branches, filled_later, loops, phases, places, signature, stores, volatile
from gradguard.static.reading.flow_notes import FlowNotes
from gradguard.static.reading.scaled import STEPS_BY_SCALER
from gradguard.static.reading.state import Cap, LoopFrame, State, merge
from gradguard.static.source import Site
from gradguard.static.values import (
    NOTHING,
    Held,
    Kind,
    Root,
    Source,
    Value,
    each_of,
    holding,
    join,
    thawed,
    union,
)

_COLLECTED_AS: dict[type[Event], str] = {
    Backward: "backwards", GradCall: "grad_calls", ZeroGrad: "zero_grads", Step: "steps", Forward: "forwards",
    OpaqueCall: "opaque_calls", Store: "stores", HookRegistration: "hooks", Call: "calls",
    Construction: "constructions", GradRead: "grad_reads", GradientSum: "gradient_sums",
    TrainingMode: "training_modes", CallOfGiven: "calls_of_given",
}  # fmt: skip
"""Where the events of each type are, in a function and in a loop."""

_NO_NAMES: frozenset[str] = frozenset()
"""One for all: each empty set is as large as one of four, and most flows have several."""


class Flow(FlowNotes):
    """The walk over one function; its outcome is in ``facts``."""

    def __init__(self, project: Project, ref: FunctionRef) -> None:
        self.project = project
        self.ref = ref
        self.module = ref.module
        define = ref.define
        site = Site(ref.chunk, define) if define.origin is not None else None
        self.facts = Function(define.name, ref.qualified, site)
        self.facts.is_module_method = bool(ref.owner and ref.owner.is_module)
        self.facts.is_optimizer_method = bool(ref.owner and ref.owner.is_optimizer)
        self.params = [p.name for p in define.params]
        self.modules = ref.modules
        self.frames: list[LoopFrame] = []
        self.branches = 0
        self.starting = 0
        self.exits: list[State] = []
        self.early_exits: list[State] = []
        self.returned: list[Value] = []
        self.noughts: list[Value] = []
        self.yielded: list[Value] = []
        self.nested: list[FunctionRef] = []
        self.aliases: dict[str, str] = {}
        self.locals, self.declared = ref.names
        self.final: State = State({})
        self.unended: State | None = None  # after an iteration of a loop that only ends with the program
        self.calls: list[tuple[t.Define, Mode]] = []
        self.evaluating_at_yield = _NO_NAMES
        self.modes_at_yield: list[Mode] = []
        self.generators = 0
        self.handing_back: t.Expr | None = None
        self.gives_member: Store | None = None
        self.method_calls: list[tuple[str, Mode]] = []
        self.unknown_calls: list[tuple[str, Mode]] = []
        self.dry = False
        self.guards = 0
        self.restoring = 0
        self.generating = 0
        self.comparing = 0
        self.periods: list[int] = []
        self.once = 0
        self.at_limit = 0
        self.caps: list[Cap] = []
        self.scoped: list[str] = []
        facts = self.facts
        facts.torch = self.module.torch
        facts.is_async = define.is_async
        # facts outlive this reading, and go without a collection: none of these holds the flow or the facts
        facts.called_without_grad = lambda: project.called_without_grad(ref)
        facts.may_be_called_without_grad = lambda: project.may_be_called_without_grad(ref)
        facts.is_left_to_others = lambda: project.is_left_to_others(ref)
        facts.callers_backpropagate = backpropagate_result
        facts.is_handed_over = lambda: is_handed_over(project, ref)
        facts.unscales = lambda: project.survey.mentions(_UNSCALES, ref.module, "scale")
        facts.steps_by_scaler = lambda: project.survey.mentions(STEPS_BY_SCALER, ref.module, ".step(")
        facts.switches_gradients = lambda: freezes_by_others(project.survey, ref)
        facts.may_reverse = lambda: project.survey.mentions(REVERSES, ref.module)
        facts.calling = lambda: (flow.facts for flow in project.calling(ref))
        facts.needs_training_mode = lambda path: needs_training_mode(project, ref, path)

    # --- running ---

    def run(self) -> None:
        """Read the whole function."""
        state = State({}, self.entry_mode(), self.evaluated_before())
        self.facts.entry_mode = state.mode
        known = dict(self.ref.bindings)
        for param in self.ref.define.params:
            state.env[param.name] = known.get(param.name) or places.parameter(self, param)
        state.env.update((path, value) for path, value in known.items() if path.startswith("self."))
        for name in self.declared:  # bound on one way only, it is on the other as it was on entry
            state.env[name] = self.read(name, state)
        end = self.block(self.ref.define.body, state)
        if end is not None:
            self.exits.append(end)
        final: State | None = None
        for exit_state in self.exits:
            final = merge(final, exit_state)
        for exit_state in self.early_exits:
            final = merge(final, exit_state, "first")
        self.final = final or self.unended or State({})
        filled_later.settle(self, self.final, None)
        self.exits, self.early_exits = [], []  # a state holds a value for every path
        outcomes = self.yielded or constant_terms.without_noughts(self) or [NOTHING]
        returned = outcomes[0]
        for value in outcomes[1:]:
            returned = join(returned, value)
        self.facts.returns = each_of(returned) if self.yielded else returned
        from gradguard.static.found.mistakes import Mistakes
        from gradguard.static.judge import judge

        signature.describe(self)
        judge(self)
        self.facts.found = Mistakes(self)
        self.let_go()

    def entry_mode(self) -> Mode:
        """The gradient mode that decorators and frameworks give the function."""
        from gradguard.static.reading.modes import gradient_context

        for decorator in self.ref.define.decorators if not self.ref.define.is_async else ():  # it ends before the body
            mode = gradient_context(self, decorator)
            if mode is not None:
                return mode
        owner = self.ref.owner
        if owner is not None and owner.framework_methods and k.NO_GRAD_METHOD.match(self.facts.name):
            return Mode.OFF
        return Mode.INHERITED

    def evaluated_before(self) -> frozenset[str]:
        """The globals that the function finds in evaluation mode, as the script left them there."""
        evaluated = self.module.evaluated_by_script if self.ref.define.name != SCRIPT else _NO_NAMES
        return (evaluated & self.ref.mentioned) - self.locals - set(self.params) if evaluated else _NO_NAMES

    @cached_property
    def receivers(self) -> frozenset[str]:
        """The names whose methods the function calls, if they may be those of a class of the project."""
        called = (c.func for c in self.ref.calls if isinstance(c.func, t.Attribute))
        methods = (
            (f.value.id, f.name) for f in called if isinstance(f.value, t.Name) and f.name not in k.OF_PLAIN_DATA
        )
        asks = self.project.survey.has_method
        return frozenset(name for name, method in methods if asks(method, self.module)) or _NO_NAMES

    @cached_property
    def receivers_in(self) -> frozenset[str]:
        """The names of collections whose items' methods the function calls: ``meters["loss"].add(x)``."""
        called = (c.func for c in self.ref.calls if isinstance(c.func, t.Attribute))
        owners = (func.value for func in called if func.name not in k.OF_PLAIN_DATA and func.name not in _OF_LISTS)
        bases = (owner.value for owner in owners if isinstance(owner, t.Subscript))
        return frozenset(base.id for base in bases if isinstance(base, t.Name)) or _NO_NAMES

    @cached_property
    def filled(self) -> frozenset[str]:
        """The names that something is put into as only collections take it: ``rows.append(x)``."""
        return filled_in(self.ref.calls)

    @cached_property
    def summed_in(self) -> frozenset[str]:
        """The names under whose keys something is added up, as in a cell of a table: ``cell[0] += x``.

        Or put under a word, which is the only one: of two entries one would be taken for the other.
        """
        put = self.ref.put_under_words if len(self.words_put) == 1 else ()
        return summed_in(self.ref.define.body) | {place.id for place, _ in put if isinstance(place, t.Name)}

    @property
    def words_put(self) -> frozenset[str]:
        """The words under which the methods of the class, or this function, put something, in whatever dict."""
        return (self.ref.owner or self.ref).words_put

    @cached_property
    def told(self) -> tuple[phases.Told, ...]:
        """The parts of the function that run for one word only."""
        return phases.parts_of(self.ref.define)

    @cached_property
    def words(self) -> frozenset[str]:
        """The variables that are only ever given words: names of losses, no numbers."""
        return given_words(self.ref.define.body)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The paths that are set to a number in some place: ``loss = 0.0``."""
        return numbers_set(self.ref.define.body)

    @cached_property
    def called_names(self) -> frozenset[str]:
        """The names that the function calls themselves."""
        return frozenset(c.func.id for c in self.ref.calls if isinstance(c.func, t.Name)) or _NO_NAMES

    @cached_property
    def run_names(self) -> frozenset[str]:
        """The names that the function calls, or calls an item of."""
        items = items_called(self.ref.define.statements, self.ref.calls, self.called_names)
        return self.called_names | items if items else self.called_names

    @cached_property
    def computed_with(self) -> frozenset[str]:
        """The names that the function computes with, and does not call: no modules, whatever they say."""
        return computed_with(self.ref.define.nodes) - self.called_names

    @property
    def one_graph(self) -> set[object]:
        """The calls each of which makes one graph that saves tensors: a backward over any of its outputs frees it.

        Not those whose output comes back from a function on some of its ways only: it may not be there.
        """
        return ((self.saving - self.unpacked) | self.recurrent | self.saving_inside) - self.on_some_ways

    # --- paths ---

    def canonical(self, path: str) -> str:
        """The path with a local alias of an attribute written out."""
        if not self.aliases:
            return path
        head = path.split(".", 1)[0].split("[", 1)[0]
        alias = self.aliases.get(head)
        return path if alias is None else alias + path[len(head) :]

    def element_paths(self, path: str) -> tuple[str, ...]:
        """The paths of an object, by the collections that a loop takes it from: ``self.callbacks[*].seen``."""
        head = re.split(r"[.\[]", path, maxsplit=1)[0]
        collections = self.elements.get(head)
        return tuple(f"{found}{path[len(head) :]}" for found in collections) if collections else (self.canonical(path),)

    def element_path(self, path: str) -> str:
        """The path of a loop's variable by the one collection that it is taken from; else the path itself."""
        paths = self.element_paths(path) if "." not in path and "[" not in path else ()
        return paths[0] if len(paths) == 1 else path

    @property
    def defined(self) -> tuple[str, bytes]:
        """The function's name, and what its file holds: kept anyway, while a text is up to four times as large."""
        return self.facts.name, self.module.source.data

    def scope(self, path: str) -> Scope:
        head = path.split(".", 1)[0].split("[", 1)[0]
        if head in self.params:
            return Scope.ATTRIBUTE if is_field(path) else Scope.PARAMETER
        if head in self.locals and head not in self.declared:
            return Scope.LOCAL
        outer = self.ref.outer
        while outer is not None:
            if head in outer.locals or head in outer.params:
                return Scope.CLOSURE
            outer = outer.ref.outer
        return Scope.GLOBAL

    def is_buffer(self, path: str) -> bool:
        """Whether a path is a registered buffer of the module that the function belongs to."""
        owner = self.ref.owner
        if owner is None or not owner.is_module or not path.startswith("self."):
            return False
        return path[5:] in owner.buffers or (path == "self.*" and owner.registers_buffers)

    @property
    def current_env(self) -> dict[str, Value]:
        return self._state.env if hasattr(self, "_state") else {}

    @property
    def loop(self) -> Loop | None:
        return self.frames[-1].loop if self.frames else None

    def site(self, node: t.Node) -> Site:
        return Site(self.ref.chunk, node)

    def record(self, event: Event) -> None:
        """Note an event, in the function and in every loop around it."""
        if self.dry:
            return
        name = _COLLECTED_AS[type(event)]
        event.guarded = event.guarded or self.guards > 0
        if self.periods:
            event.period = max(every for every in (event.period, *self.periods) if every is not None)
        event.at_start = event.at_start or self.starting > 0
        event.once = event.once or self.once > 0
        getattr(self.facts, name).append(event)
        self.facts.events.append(event)
        loop = event.loop
        while loop is not None and hasattr(loop, name):
            getattr(loop, name).append(event)
            loop = loop.parent

    def given(self, name: str, state: State) -> object:
        """What the call that this reading is for gives for a parameter, as long as it is not bound anew."""
        value = dict(self.ref.bindings).get(name)
        return value.ref if value is not None and state.env.get(name) is value else None

    def calls_giving(self, expr: t.Expr) -> list[Call]:
        """The noted calls that an expression is, or whose result it names."""
        path = t.path_of(expr)
        return [c for c in self.facts.calls if c.site.node is expr or (path is not None and c.bound_to == path)]

    def with_fields(self, value: Value, expr: t.Expr, state: State) -> Value:
        """An object that is handed over or kept, with what was stored in its fields: ``trial.score = loss``."""
        path = t.path_of(expr)
        if path in (None, "self", "cls") or value.kind not in (Kind.UNKNOWN, Kind.INSTANCE, Kind.OUTPUT):
            return value
        prefix = f"{self.canonical(str(path))}."
        fields = [field for name, field in state.env.items() if name.startswith(prefix) and field.keeps]
        kept = [field for field in fields if field.kind not in (Kind.MODULE, Kind.OPTIMIZER, Kind.FUNCTION)]
        held = union(kept)
        return value._replace(roots=value.roots | held.roots, maybe=value.maybe | held.maybe) if kept else value

    def read(self, path: str, state: State) -> Value:
        """The value at a path, as far as this function and its surroundings tell."""
        return places.read(self, path, state)

    # --- statements ---

    def block(self, body: Iterable[t.Stmt], state: State | None) -> State | None:
        """Read statements in order; None when the end is not reached."""
        caps = len(self.caps)
        for stmt in body:
            if state is None:
                break
            self._state = state
            if (change := written(stmt)) is not None:
                self.written[stmt] = (self.read(self.canonical(change.name), state), state.mode)
            state = _READ[type(stmt)](self, stmt, state)
            if isinstance(stmt, t.If) and (cap := branches.cap_behind(self, stmt)) is not None:
                self.caps.append(cap)
        del self.caps[caps:]
        return state

    def _evaluate(self, stmt: t.Evaluate, state: State) -> State | None:
        from gradguard.static.reading.calls import never_returns

        value = self.value(stmt.value, state)
        if isinstance(value.ref, HookRegistration):
            value.ref.discarded = True
        return None if never_returns(stmt.value) else state

    def value(self, expr: t.Expr, state: State) -> Value:
        from gradguard.static.reading.expressions import evaluate

        return evaluate(self, expr, state)

    def _assign(self, stmt: t.Assign, state: State) -> State:
        value = self.value(stmt.value, state)
        calls = self.facts.calls
        if calls and calls[-1].site.node is stmt.value:
            calls[-1].bound_to = t.path_of(next(t.names_in(stmt.targets[0]), stmt.targets[0]))
        for target in stmt.targets:
            binding.bind(self, target, value, state, stmt, stmt.value)
            if isinstance(target, t.Attribute) and target.name == "volatile":
                volatile.given(self, stmt.value, state)
        binding.rejoin(self, stmt)
        return state

    def freeze(self, module: str, state: State, frozen: bool) -> None:
        """All parameters of a module stop asking for gradients, or ask again."""
        whole = {path for path in state.frozen if f"{module}.".startswith(f"{path}.")}  # some part of it learns again
        state.frozen = state.frozen | {module} if frozen else state.frozen - whole
        for path in () if frozen else (path for path in state.env if is_part(module, path)):
            state.env[path] = state.env[path]._replace(holds=thawed(state.env[path].holds))

    def zero(self, event: ZeroGrad, state: State) -> None:
        self.record(event)
        by_name = event.target is not None or event.of_module  # p.grad = None may concern some parameters only
        # One in a branch of this function is forgotten where the ways meet; that of a callee may not have run at all.
        surely = event.inner is None or not event.inner.conditional
        if state.computed and surely and by_name:
            state.lost = (*state.lost, event)

    def set_gradients(self, node: t.Node, state: State) -> None:
        """Gradients are set by hand: the next step has some, whatever was reset before."""
        self.record(Call(self.site(node), self.loop, self.branches > 0, name=k.SETTING_GRADIENTS))
        state.lost = ()

    def store(self, path: str, value: Value, state: State, stmt: t.Node, source: t.Expr | None, form: Form) -> Store:
        """Note that a value was stored."""
        event = Store(
            self.site(stmt), self.loop, self.branches > 0, path=path, value=value, form=form, scope=self.scope(path),
            value_site=self.site(source) if source is not None else None, mode=state.mode,
            evaluating=bool(state.evaluating),
        )  # fmt: skip
        self.note_start(path, value)
        caps = [cap for cap in self.caps if cap.is_below and _grows_with(path, cap)]
        event.capped, event.fills = any(not cap.is_long for cap in caps), any(cap.is_long for cap in caps)
        event.capped |= any(path.startswith(f"{scope}.") for scope in self.scoped)
        if (state.mode is not Mode.OFF or value.holds or event.brings_graph) and not self.starting:
            self.record(event)
        return event

    def note_start(self, path: str, value: Value) -> None:
        """Note whether a path is bound at the start only, to something that is not made of what is there."""
        made = self.starting > 0 and Root(Source.PLACE, path) not in value.reach
        (self.at_start if made else self.beyond_start).add(path)

    @property
    def made_once(self) -> frozenset[str]:
        """The paths that are bound at the start only: ``if self.inverse is None: self.inverse = f(self.weight)``."""
        return frozenset(self.at_start - self.beyond_start)

    def empty(self, path: str, holder: Value, state: State) -> None:
        """A container gives up its content, and stays the same object."""
        self.emptied.add(path)
        state.assign(path, Value(kind=Kind.CONTAINER if holder.kind is Kind.UNKNOWN else holder.kind, ref=holder.ref))

    def touch(self, path: str, state: State) -> None:
        """A path changes inside of loops that did not expect it (a callee stores into it): read those loops again."""
        for frame in self.frames:
            if path not in frame.phis and loops.is_live(self, path, state):
                frame.late.add(path)

    def _return(self, stmt: t.Return, state: State) -> None:
        if stmt.value is not None:
            self.handing_back = stmt.value
            value = self.value(stmt.value, state)
            if value.kind is Kind.MODULE and state.freezes(t.path_of(stmt.value)):
                value = holding(value, Held.FROZEN, stmt)
            self.returned.append(value)
            self.noughts += [value] if constant_terms.is_nought(stmt.value) else []
        else:
            self.returned.append(NOTHING)
        for frame in self.frames:
            frame.loop.leaves_early |= not self.at_limit
        (self.early_exits if self.starting else self.exits).append(state)

    def _raise(self, stmt: t.Raise, state: State) -> None:
        if stmt.value is not None:
            self.value(stmt.value, state)

    def _leave(self, stmt: t.Leave, state: State) -> None:
        if self.frames:
            frame = self.frames[-1]
            if stmt.kind == "break":
                frame.loop.leaves_early |= not self.at_limit
                frame.breaks.append(state)
            else:
                (frame.early if self.starting else frame.continues).append(state)

    def _delete(self, stmt: t.Delete, state: State) -> State:
        for target in stmt.targets:
            path = t.path_of(target)
            if path is None:
                continue
            path = self.canonical(path)
            if isinstance(target, t.Subscript) and (base := t.path_of(target.value)) is not None:
                base = self.canonical(base)
                self.empty(base, self.read(base, state), state)
            elif path.endswith(".grad"):
                self.zero(ZeroGrad(self.site(stmt), self.loop, self.branches > 0), state)
            else:
                state.assign(path, NOTHING)
        return state

    def _declare(self, stmt: t.Declare, state: State) -> State:
        return state

    def _import(self, stmt: t.Import, state: State) -> State:
        for name, dotted in stmt.names.items():
            if name in self.ref.mentioned:  # an import reads the other file
                state.env[name] = self.module.imported(dotted)
        return state

    def _define(self, stmt: t.Define, state: State) -> State:
        ref = FunctionRef(self.module, stmt, self.ref.chunk, None, self, variant=self.ref.variant)
        self.nested.append(ref)
        if any(isinstance(n, t.Attribute) and n.name == "zero_grad" for n in t.walk(stmt.body)):
            self.record(OpaqueCall(self.site(stmt), self.loop, self.branches > 0))  # it may be handed to anybody
        from gradguard.static.reading.expressions import closing_over

        state.env[stmt.name] = closing_over(self, Value(kind=Kind.FUNCTION, ref=ref), stmt, state)
        for decorator in stmt.decorators:  # @layer.register_forward_hook
            if isinstance(decorator, t.Attribute) and decorator.name in k.HOOK_METHODS:
                self.value(t.Call(decorator.origin, decorator, [t.Arg(t.Name(decorator.origin, stmt.name))]), state)
        return state

    def _defineclass(self, stmt: t.DefineClass, state: State) -> State:
        cls = Class(self.module, stmt, self.ref.chunk, self)
        self.nested += (*cls.methods.values(), *cls.setters.values())
        state.env[stmt.name] = Value(kind=Kind.CLASS, ref=cls)
        return state


# A scale that is only logged, or compared with the one before, divides nothing; hooks of the parameters may divide.
_SCALE, _NAMED = r"\bget_scale\(\)", r"\b\1\b"
_IN_ARITHMETIC = r"[*/]=?[ \t]*(?:\w+\()?[\w.]*{0}|{0}\)?[ \t]*[*/]|(?:div|mul)\w*\([^\n]*{0}"
_HANDED_ON = rf"[(,][ \t]*[\w.]*{_NAMED}[ \t]*[,)]"
_UNSCALES = re.compile(
    rf"unscale|{_IN_ARITHMETIC.format(_SCALE)}|\breturn\b[^\n]*{_SCALE}"
    rf"|\b(\w+)[ \t]*=(?!=)[^\n=]*{_SCALE}(?=[\s\S]*?(?:{_IN_ARITHMETIC.format(_NAMED)}|{_HANDED_ON}))"
    r"|\.register_hook\(\s*lambda[ ]+(\w+):\s*\2[ ]*[*/]"
)
_OF_LISTS = ("append", "extend", "backward", "keys", "items", "values", "size", "item")


def _grows_with(path: str, cap: Cap) -> bool:
    """Whether a collection grows no further than another one: itself, or one beside it in the same object."""
    holder, _, name = path.rpartition(".")
    other, _, limit = cap.path.rpartition(".")
    is_beside = not cap.is_behind and bool(holder and holder == other and name and limit)
    return bool(cap.path) and (path == cap.path or is_beside)


_READ: dict[type, Callable[[Flow, Any, State], State | None]] = {
    t.Assign: Flow._assign,
    t.Augment: stores.augment,
    t.Declare: Flow._declare,
    t.Define: Flow._define,
    t.DefineClass: Flow._defineclass,
    t.Delete: Flow._delete,
    t.Evaluate: Flow._evaluate,
    t.If: branches.if_,
    t.Import: Flow._import,
    t.Leave: Flow._leave,
    t.Match: branches.match,
    t.Raise: Flow._raise,
    t.Repeat: loops.repeat,
    t.Return: Flow._return,
    t.Try: branches.try_,
    t.With: branches.with_,
}

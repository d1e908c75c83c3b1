"""Which values carry a graph, and which of them outlive the iteration.

One abstract walk over a function, each statement once. A state maps the paths that the function names (``loss``,
``self.hidden``, ``stats["loss"]``) to values, and values are sets of roots (see ``values``). On entry to a loop every
path that the loop assigns gets a CARRIED root, "as it was when the iteration began". A path whose value still has its
own CARRIED root at the end of every way through the body is never reset: what was stored into it outlives the
iteration. That one criterion covers ``total += loss``, ``history.append(x)``, ``hidden = cell(x, hidden)``,
``bank = cat([bank, x])`` and ``self.ema = ...`` alike. Across calls of a method, PLACE roots play the same part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.build import walk_statements
from gradguard.static.model import Event, Form, Function, HookRegistration, Loop, Mode, Scope, Store, ZeroGrad
from gradguard.static.project import Class, FunctionRef, Project
from gradguard.static.source import Site
from gradguard.static.values import (
    DETACHED,
    NOTHING,
    NUMBER,
    Kind,
    Root,
    Roots,
    Source,
    Value,
    each_of,
    held_in,
    join,
    part_of,
    union,
)  # fmt: skip


@dataclass(slots=True)
class State:
    """What holds at one point of one way through a function.

    Args:
        env: values by path.
        mode: the gradient mode.
        evaluating: paths on which ``.eval()`` was called.
        lost: the ``zero_grad`` that came after the last backward, on every path.
    """

    env: dict[str, Value]
    mode: Mode = Mode.INHERITED
    evaluating: frozenset[str] = frozenset()
    lost: ZeroGrad | None = None
    computed: bool = False

    def copy(self) -> State:
        return State(dict(self.env), self.mode, self.evaluating, self.lost, self.computed)

    def assign(self, path: str, value: Value) -> None:
        """Bind a path; its parts are those of the new value now."""
        part = Value(value.roots, value.maybe)
        for known in self.env:
            if known.startswith(path) and known[len(path) : len(path) + 1] in (".", "["):
                self.env[known] = part
        self.env[path] = value


def merge(a: State | None, b: State | None, trusted: str = "both") -> State | None:
    """The state after two ways meet; None is a way that does not get there."""
    if a is None or b is None:
        return b if a is None else a
    env: dict[str, Value] = {}
    for path in {**a.env, **b.env}:
        x, y = a.env.get(path), b.env.get(path)
        if x is None or y is None:
            present = x or y
            assert present is not None
            if "." in path or "[" in path:  # known of one way only: on the other it is as it was on entry
                root = Root(Source.PLACE, path)
                other = Value(frozenset((root,)), must=frozenset((root,)), kind=present.kind, ref=present.ref)
                x, y = x or other, y or other
                env[path] = join(x, y, trusted=trusted)
            else:
                env[path] = present
        else:
            env[path] = join(x, y, trusted=trusted)
    mode = a.mode if a.mode is b.mode else Mode.UNKNOWN
    lost = a.lost if a.lost is b.lost else None
    return State(env, mode, a.evaluating & b.evaluating, lost, a.computed or b.computed)


@dataclass(slots=True)
class Carry:
    """What one loop does to one path.

    Args:
        grows: its old content survives every iteration.
        end: the value at the end of an iteration.
        fresh: the function itself bound or emptied it before the loop.
    """

    grows: bool
    end: Value
    fresh: bool


@dataclass(slots=True)
class _LoopFrame:
    loop: Loop
    phis: dict[str, Value]
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)
    early: list[State] = field(default_factory=list)


class Flow:
    """The walk over one function; its outcome is in ``facts``."""

    def __init__(self, project: Project, ref: FunctionRef) -> None:
        self.project = project
        self.ref = ref
        self.module = ref.module
        define = ref.define
        site = Site(ref.chunk, define) if define.origin is not None else None
        self.facts = Function(define.name, ref.qualified, site, ref.owner.name if ref.owner else None)
        self.facts.is_module_method = bool(ref.owner and ref.owner.is_module)
        self.params = [p.name for p in define.params]
        self.frames: list[_LoopFrame] = []
        self.branches = 0
        self.starting = 0
        self.proven: set[Root] = set()
        self.proven_values: set[Roots] = set()
        self.escaped: set[Root] = set()
        self.hints: dict[Root, str] = {}
        self.carries: dict[tuple[str, Loop], Carry] = {}
        self.exits: list[State] = []
        self.early_exits: list[State] = []
        self.returned: list[Value] = []
        self.yielded: list[Value] = []
        self.nested: list[FunctionRef] = []
        self.applied: set[t.Define] = set()
        self.aliases: dict[str, str] = {}
        self.locals, self.declared = _bound_names(define)
        self.final: State = State({})
        self.calls: list[tuple[t.Define, Mode]] = []
        self.emptied: set[str] = set()
        self.dry = False
        self._called_on: frozenset[str] | None = None
        self.facts.called_without_grad = lambda: project.called_without_grad(ref)

    # --- running ---

    def run(self) -> None:
        """Read the whole function."""
        state = State({}, self.entry_mode())
        self.facts.entry_mode = state.mode
        for param in self.ref.define.params:
            state.env[param.name] = self._parameter(param)
        end = self.block(self.ref.define.body, state)
        if end is not None:
            self.exits.append(end)
        final: State | None = None
        for exit_state in self.exits:
            final = merge(final, exit_state)
        for exit_state in self.early_exits:
            final = merge(final, exit_state, "first")
        self.final = final or State({})
        outcomes = self.yielded or self.returned or [NOTHING]
        returned = outcomes[0]
        for value in outcomes[1:]:
            returned = join(returned, value)
        self.facts.returns = each_of(returned) if self.yielded else returned
        from gradguard.static.judge import judge

        judge(self)

    def entry_mode(self) -> Mode:
        """The gradient mode that decorators and frameworks give the function."""
        from gradguard.static.calls import gradient_context

        for decorator in self.ref.define.decorators:
            mode = gradient_context(self, decorator)
            if mode is not None:
                return mode
        owner = self.ref.owner
        if owner is not None and owner.framework_methods and self.facts.name in k.NO_GRAD_METHODS:
            return Mode.OFF
        return Mode.INHERITED

    def _parameter(self, param: t.Param) -> Value:
        root = frozenset((Root(Source.PARAM, param.name),))
        owner = self.ref.owner
        if owner is not None and self.params and param.name == self.params[0] and param.name in ("self", "cls"):
            return Value(kind=Kind.MODULE if owner.is_module else Kind.INSTANCE, ref=owner)
        if param.star:
            return Value(root, must=root, kind=Kind.CONTAINER)
        if param.annotation is not None:
            declared = self.module.value_of(param.annotation)
            if isinstance(declared.ref, Class):
                if declared.ref.is_record:
                    return Value(root, must=root, kind=Kind.OUTPUT)
                return Value(kind=Kind.MODULE if declared.ref.is_module else Kind.INSTANCE, ref=declared.ref)
            name = str(declared.ref) if declared.kind is Kind.EXTERNAL else ""
            if name.startswith(k.MODULE_PREFIXES) and not name.startswith(k.NOT_MODULES):
                return Value(kind=Kind.MODULE)
            if name.endswith("DataLoader"):
                return Value(kind=Kind.LOADER)
            if name.startswith("torch.optim."):
                return Value(kind=Kind.OPTIMIZER)
            if isinstance(param.annotation, t.Name) and param.annotation.id in ("int", "float", "str", "bool"):
                return NUMBER
        if param.name in self._receivers() and (cls := self.project.survey.argument_class(self.ref, param.name)):
            return Value(kind=Kind.MODULE if cls.is_module else Kind.INSTANCE, ref=cls)
        if k.LOADER_NAME.search(param.name):
            return Value(kind=Kind.LOADER)
        if k.MODULE_NAME.search(param.name):
            return Value(kind=Kind.MODULE)
        if k.OPTIMIZER_NAME.search(param.name) and not k.NOT_OPTIMIZER_NAME.search(param.name):
            return Value(kind=Kind.OPTIMIZER)
        return Value(root, must=root)

    def _receivers(self) -> frozenset[str]:
        """The names whose methods the function calls."""
        if self._called_on is None:
            self._called_on = frozenset(
                node.value.id
                for call in t.walk(self.ref.define.body)
                if isinstance(call, t.Call) and isinstance(node := call.func, t.Attribute)
                if isinstance(node.value, t.Name)
            )
        return self._called_on

    # --- paths ---

    def canonical(self, path: str) -> str:
        """The path with a local alias of an attribute written out."""
        head = path.split(".", 1)[0].split("[", 1)[0]
        alias = self.aliases.get(head)
        return path if alias is None else alias + path[len(head) :]

    def scope(self, path: str) -> Scope:
        head = path.split(".", 1)[0].split("[", 1)[0]
        if head in self.params:
            return Scope.ATTRIBUTE if path[len(head) : len(head) + 1] == "." else Scope.PARAMETER
        if head in self.locals and head not in self.declared:
            return Scope.LOCAL
        outer = self.ref.outer
        while outer is not None:
            if head in outer.locals or head in outer.params:
                return Scope.CLOSURE
            outer = outer.ref.outer
        return Scope.GLOBAL

    def read(self, path: str, state: State) -> Value:
        """The value at a path, as far as this function and its surroundings tell."""
        known = state.env.get(path)
        if known is not None:
            return known
        head = path.split(".", 1)[0].split("[", 1)[0]
        if head == path:
            return self._outer_name(path)
        root = Root(Source.PLACE, path)
        must = frozenset((root,))
        base = path[: max(path.rfind("."), path.rfind("["))]
        owner = self._owner(base, state)
        kind = Kind.UNKNOWN
        if owner is not None and path[len(base)] == ".":
            name = path[len(base) + 1 :]
            found = owner.attribute(name)
            if found is not None:
                if found.kind in (Kind.MODULE, Kind.OPTIMIZER, Kind.SCALER, Kind.LOADER, Kind.INSTANCE):
                    return found
                return replace(found, roots=must | found.roots, must=must)
            method = owner.method(name)
            if method is not None:
                return Value(kind=Kind.FUNCTION, ref=method)
        elif path[len(base)] == "[":
            container = state.env.get(base)
            if container is not None:
                key = path[len(base) + 2 : -2] if path.endswith('"]') else None
                part = element(container, key)
                return replace(part, must=container.must, kind=Kind.UNKNOWN) if part.kind is Kind.CONTAINER else part
        if kind is Kind.UNKNOWN:
            kind = named_kind(path)
        if kind is not Kind.UNKNOWN:
            return Value(kind=kind)
        return Value(must, must=must)

    def _owner(self, path: str, state: State) -> Class | None:
        """The project class of the object at a path."""
        value = state.env.get(path)
        if value is None and "." not in path:
            value = self._outer_name(path)
        elif value is None and "[" not in path:
            base, _, name = path.rpartition(".")
            owner = self._owner(base, state)
            value = owner.attribute(name) if owner is not None else None
        return (
            value.ref if value is not None and isinstance(value.ref, Class) and value.kind is not Kind.CLASS else None
        )

    def _outer_name(self, name: str) -> Value:
        outer = self.ref.outer
        while outer is not None:
            known = outer.final.env.get(name) or outer.current_env.get(name)
            if known is not None:
                root = frozenset((Root(Source.PLACE, name),))
                plain = (Kind.TENSOR, Kind.OUTPUT, Kind.UNKNOWN, Kind.CONTAINER, Kind.NUMBER, Kind.NOTHING)
                return (
                    replace(known, roots=root, maybe=frozenset(), must=root, parts=()) if known.kind in plain else known
                )
            outer = outer.ref.outer
        value = self.module.resolve(name)
        if value is None or value.kind in (Kind.UNKNOWN, Kind.CONTAINER, Kind.TENSOR, Kind.NUMBER):
            kind = value.kind if value is not None else Kind.UNKNOWN
            if kind is Kind.UNKNOWN and (named := named_kind(name)) is not Kind.UNKNOWN:
                return Value(kind=named)
            root = frozenset((Root(Source.PLACE, name),))
            bounded = value.bounded if value is not None else False
            if value is None and name not in self.module.outline.variables:
                return Value(kind=Kind.EXTERNAL, ref=f"builtins.{name}")
            return Value(root, must=root, kind=kind, bounded=bounded)
        return value

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
        from gradguard.static import model as m

        if self.dry:
            return
        names = {
            m.Backward: "backwards", m.GradCall: "grad_calls", m.ZeroGrad: "zero_grads", m.Step: "steps",
            m.Forward: "forwards", m.OpaqueCall: "opaque_calls", m.Store: "stores", m.HookRegistration: "hooks",
        }  # fmt: skip
        name = names[type(event)]
        getattr(self.facts, name).append(event)
        self.facts.events.append(event)
        loop = event.loop
        while loop is not None and name not in ("stores", "hooks"):
            getattr(loop, name).append(event)
            loop = loop.parent

    # --- statements ---

    def block(self, body: Iterable[t.Stmt], state: State | None) -> State | None:
        """Read statements in order; None when the end is not reached."""
        for stmt in body:
            if state is None:
                return None
            self._state = state
            state = getattr(self, f"_{type(stmt).__name__.lower()}")(stmt, state)
        return state

    def _evaluate(self, stmt: t.Evaluate, state: State) -> State | None:
        from gradguard.static.calls import never_returns

        value = self.value(stmt.value, state)
        if isinstance(value.ref, HookRegistration):
            value.ref.discarded = True
        return None if never_returns(stmt.value) else state

    def value(self, expr: t.Expr, state: State) -> Value:
        from gradguard.static.expressions import evaluate

        return evaluate(self, expr, state)

    def _assign(self, stmt: t.Assign, state: State) -> State:
        value = self.value(stmt.value, state)
        for target in stmt.targets:
            self.bind(target, value, state, stmt, stmt.value)
        return state

    def bind(
        self, target: t.Expr, value: Value, state: State, stmt: t.Node, source: t.Expr | None, *, plain: bool = False
    ) -> None:
        """Bind a value to a target, taking tuples apart.

        Args:
            stmt: the statement, for findings.
            source: the expression that the value comes from, if it is written out.
            plain: a loop variable or the like, never a store.
        """
        if isinstance(target, t.Display):
            whole = isinstance(source, t.Display) and len(source.items) == len(target.items)
            for index, item in enumerate(target.items):
                part = element(value, index)
                self.bind(item, part, state, stmt, source.items[index] if whole else None, plain=plain)  # type: ignore[union-attr]
            return
        if isinstance(target, t.Starred):
            self.bind(target.value, value, state, stmt, None, plain=plain)
            return
        path = t.path_of(target)
        if path is None or k_breaks(target):
            self._reset_gradient(target, value, state, stmt)
            return
        self._alias(path, source)
        path = self.canonical(path)
        for root in value.roots:
            if root.source in (Source.CALL, Source.LOSS):
                self.hints.setdefault(root, path)
        if isinstance(target, t.Subscript):
            self._store_item(target, path, value, state, stmt, source)
            return
        if not plain:
            self._store_rebind(path, value, state, stmt, source)
        state.assign(path, value)

    def _alias(self, path: str, source: t.Expr | None) -> None:
        if "." in path or "[" in path:
            return
        self.aliases.pop(path, None)
        origin = t.path_of(source) if isinstance(source, t.Attribute) else None
        if origin is not None and origin.startswith("self.") and named_kind(origin) is Kind.UNKNOWN:
            self.aliases[path] = origin

    def _reset_gradient(self, target: t.Expr, value: Value, state: State, stmt: t.Node) -> None:
        """``p.grad = None`` and ``p.requires_grad = ...``."""
        if isinstance(target, t.Attribute) and target.name == "grad" and value.kind is Kind.NOTHING:
            self.zero(ZeroGrad(self.site(stmt), self.loop, self.branches > 0), state)
        frozen = isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Constant) and not stmt.value.value
        if isinstance(target, t.Attribute) and target.name == "requires_grad" and not frozen:
            path = t.path_of(target.value)
            self.facts.gradients_wanted = True
            if path is not None:
                leaf = Root(Source.LEAF, target)
                state.env[path] = self.read(path, state).with_roots(leaf)

    def zero(self, event: ZeroGrad, state: State) -> None:
        self.record(event)
        state.lost = event if state.computed and not event.conditional else state.lost

    def _store_rebind(self, path: str, value: Value, state: State, stmt: t.Node, source: t.Expr | None) -> None:
        if not value.reach or not any(r.source in (Source.CARRIED, Source.PLACE) for r in value.reach):
            return
        form, part = rebind_form(path, source)
        node = part or source or stmt
        self.store(path, value, state, stmt, node if isinstance(node, t.Expr) else None, form)

    def _store_item(
        self, target: t.Subscript, path: str, value: Value, state: State, stmt: t.Node, source: t.Expr | None
    ) -> None:
        """``container[key] = value``."""
        self.value(target.index, state)
        base = t.path_of(target.value)
        if base is None:
            return
        base = self.canonical(base)
        holder = self.read(base, state)
        if isinstance(target.index, t.Slice) and not value.reach and holder.kind is not Kind.TENSOR:
            self.empty(base, holder, state)  # xs[:] = []
            return
        if isinstance(target.index, t.Constant) and isinstance(target.index.value, str):
            if value.reach:
                self._store_rebind(path, value, state, stmt, source)
            state.assign(path, value)
            state.env[base] = _with_content(holder, value)
            return
        if holder.kind is Kind.NUMBER:
            return  # an array of numpy takes the number only
        if value.reach:
            form = Form.IN_PLACE if holder.kind is Kind.TENSOR else Form.ITEM
            store = self.store(base, value, state, stmt, source, form)
            store.key = t.path_of(target.index)
            store.bounded_key = self._bounded_key(target.index)
        state.env[base] = _with_content(holder, value)

    def _bounded_key(self, index: t.Expr) -> bool:
        """Whether the keys come from a small set of names: the items of a dict, the entries of a list."""
        if isinstance(index, t.Constant):
            return True
        path = t.path_of(index)
        if path is None:
            return False
        for frame in reversed(self.frames):
            if path in frame.loop.targets:
                return not frame.loop.over_loader and frame is not self.frames[0]
        return False

    def store(self, path: str, value: Value, state: State, stmt: t.Node, source: t.Expr | None, form: Form) -> Store:
        """Note that a value was stored."""
        event = Store(
            self.site(stmt), self.loop, self.branches > 0, path=path, value=value, form=form, scope=self.scope(path),
            value_site=self.site(source) if source is not None else None, mode=state.mode,
            evaluating=bool(state.evaluating),
        )  # fmt: skip
        if state.mode is not Mode.OFF and not self.starting:
            self.record(event)
        return event

    def empty(self, path: str, holder: Value, state: State) -> None:
        """A container gives up its content, and stays the same object."""
        self.emptied.add(path)
        state.assign(path, Value(kind=Kind.CONTAINER if holder.kind is Kind.UNKNOWN else holder.kind, ref=holder.ref))

    def touch(self, path: str, state: State) -> None:
        """A path changes inside of loops that did not expect it (a callee stores into it): read those loops again."""
        for frame in self.frames:
            if path not in frame.phis and self._live(path, state):
                frame.loop.__dict__.setdefault("late", set()).add(path)

    def _augment(self, stmt: t.Augment, state: State) -> State:
        added = self.value(stmt.value, state)
        path = t.path_of(stmt.target)
        if path is None or k_breaks(stmt.target):
            return state
        path = self.canonical(path)
        before = self.read(path, state)
        if isinstance(stmt.target, t.Subscript) and not path.endswith('"]'):
            path = path.rsplit("[", 1)[0]
            before = self.read(path, state)
        if before.kind is Kind.CONTAINER or isinstance(stmt.value, t.Display | t.Comprehension):
            form, kind = Form.APPEND, Kind.CONTAINER
        else:
            form = Form.SUM if stmt.operator in "+-" else Form.AVERAGE
            kind = Kind.TENSOR if added.reach or before.reach else before.kind
        if state.mode is Mode.OFF and form is Form.SUM:
            added = replace(added, roots=frozenset(), maybe=frozenset())
        elif any(r.source is Source.LEAF for r in added.roots):
            added = added.with_roots(Root(Source.GRAPH, stmt.value))
        result = replace(union((before, added)), kind=kind, must=before.must, bounded=before.bounded)
        if added.reach:
            source = (
                stmt.value.items[0] if isinstance(stmt.value, t.Display) and len(stmt.value.items) == 1 else stmt.value
            )
            self.store(path, added, state, stmt, source, form)
        state.env[path] = result
        return state

    def _return(self, stmt: t.Return, state: State) -> None:
        if stmt.value is not None:
            value = self.value(stmt.value, state)
            self.returned.append(value)
        else:
            self.returned.append(NOTHING)
        (self.early_exits if self.starting else self.exits).append(state)

    def _raise(self, stmt: t.Raise, state: State) -> None:
        if stmt.value is not None:
            self.value(stmt.value, state)

    def _leave(self, stmt: t.Leave, state: State) -> None:
        if self.frames:
            frame = self.frames[-1]
            if stmt.kind == "break":
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
            if name != "*":
                state.env[name] = self.module.imported(dotted)
        return state

    def _define(self, stmt: t.Define, state: State) -> State:
        ref = FunctionRef(self.module, stmt, self.ref.chunk, None, self)
        self.nested.append(ref)
        state.env[stmt.name] = Value(kind=Kind.FUNCTION, ref=ref)
        return state

    def _defineclass(self, stmt: t.DefineClass, state: State) -> State:
        cls = Class(self.module, stmt, self.ref.chunk, self)
        self.nested.extend(cls.methods.values())
        state.env[stmt.name] = Value(kind=Kind.CLASS, ref=cls)
        return state

    def _if(self, stmt: t.If, state: State) -> State | None:
        self.value(stmt.test, state)
        first, second = state.copy(), state
        steady = _steady_branch(stmt.test)
        tested, holds = tensor_test(stmt.test)
        if tested is not None:  # in the other branch it is a number
            (second if holds else first).assign(self.canonical(tested), NUMBER)
        self.branches += 1
        self.starting += steady == "second"
        after_body = self.block(stmt.body, first)
        self.starting += (steady == "first") - (steady == "second")
        after_else = self.block(stmt.orelse, second)
        self.starting -= steady == "first"
        self.branches -= 1
        return merge(after_body, after_else, steady)

    def _try(self, stmt: t.Try, state: State) -> State | None:
        before = state.copy()
        after = self.block(stmt.body, state)
        start = merge(before, after.copy() if after else None)
        after = self.block(stmt.orelse, after)
        self.branches += 1
        for handler in stmt.handlers:
            caught = start.copy() if start else None
            if caught is not None and handler.name:
                caught.env[handler.name] = Value()
            after = merge(after, self.block(handler.body, caught), "first")
        self.branches -= 1
        return self.block(stmt.final, after)

    def _with(self, stmt: t.With, state: State) -> State | None:
        from gradguard.static.calls import gradient_context

        mode = state.mode
        for context, target in stmt.items:
            value = self.value(context, state)
            entered = gradient_context(self, context, state)
            if entered is not None:
                state.mode = entered
            if target is not None:
                self.bind(target, value, state, stmt, None, plain=True)
        after = self.block(stmt.body, state)
        if after is not None:
            after.mode = mode
        return after

    def _match(self, stmt: t.Match, state: State) -> State | None:
        subject = self.value(stmt.subject, state)
        after: State | None = state.copy()
        self.branches += 1
        for case in stmt.cases:
            way = state.copy()
            for name in case.names:
                way.env[name] = subject
            after = merge(after, self.block(case.body, way))
        self.branches -= 1
        return after

    # --- loops ---

    def _repeat(self, stmt: t.Repeat, state: State) -> State | None:
        iterable = self.value(stmt.iterable, state) if stmt.iterable is not None else None
        assigned = set(stmt.assigned if stmt.assigned is not None else assigned_paths(stmt))
        for _ in range(3):
            marks = {name: len(getattr(self.facts, name)) for name in _EVENT_LISTS}
            end, late = self._iterate(stmt, state.copy(), iterable, assigned)
            if not late <= assigned:
                assigned |= late  # a callee stores into what the loop carries: read it again, knowing that
                for name, length in marks.items():
                    self._forget(name, length)
                continue
            break
        stmt.assigned = frozenset(assigned)
        return self.block(stmt.orelse, end) if stmt.orelse else end

    def _forget(self, name: str, length: int) -> None:
        events = getattr(self.facts, name)
        dropped = set(events[length:])
        del events[length:]
        frames = [frame.loop for frame in self.frames]
        for loop in frames:
            if hasattr(loop, name):
                setattr(loop, name, [e for e in getattr(loop, name) if e not in dropped])

    def _iterate(
        self, stmt: t.Repeat, state: State, iterable: Value | None, assigned: set[str]
    ) -> tuple[State | None, set[str]]:
        loop = self._new_loop(stmt, state, iterable)
        frame = _LoopFrame(loop, {})
        entry = state.copy()
        for path in sorted(map(self.canonical, assigned)):
            if self._live(path, state):
                before = self.read(path, state)
                root = Root(Source.CARRIED, (path, loop))
                kept = before.parts if before.kind is Kind.CONTAINER else ()
                state.env[path] = replace(before, roots=before.roots | {root}, must=before.must | {root}, parts=kept)
                frame.phis[path] = before
        self.frames.append(frame)
        self.facts.loops.append(loop)
        branches, self.branches = self.branches, 0
        if stmt.test is not None:
            self.value(stmt.test, state)
        if stmt.target is not None and iterable is not None:
            self.bind(stmt.target, iterated(iterable), state, stmt, None, plain=True)
        end = self.block(stmt.body, state)
        for other in frame.continues:
            end = merge(end, other)
        for other in frame.early:
            end = merge(end, other, "first")
        self.branches = branches
        self.frames.pop()
        late: set[str] = loop.__dict__.pop("late", set())
        if end is not None and not late:
            self._carry(frame, end)
        endless = isinstance(stmt.test, t.Constant) and bool(stmt.test.value)
        after = None if endless else merge(entry, end)
        for other in frame.breaks:
            after = merge(after, other)
        return after, late

    def _new_loop(self, stmt: t.Repeat, state: State, iterable: Value | None) -> Loop:
        path = None
        if stmt.iterable is not None:
            path = _iterable_path(stmt.iterable)
        named = path or ""
        over_loader = bool(iterable and iterable.kind is Kind.LOADER) or bool(k.LOADER_NAME.search(named))
        evaluation = bool(k.EVALUATION_LOADER.search(named)) or (
            over_loader and bool(k.EVALUATION_FUNCTION.search(self.facts.name))
        )
        targets = frozenset(
            p for target in ([stmt.target] if stmt.target is not None else []) for e in t.names_in(target)
            if (p := t.path_of(e)) is not None
        )  # fmt: skip
        return Loop(
            self.site(stmt), self.loop, over_loader, bool(state.evaluating) or evaluation, targets,
            stmt.assigned or assigned_paths(stmt),
        )  # fmt: skip

    def _live(self, path: str, state: State) -> bool:
        """Whether a path means something before the loop begins."""
        head = path.split(".", 1)[0].split("[", 1)[0]
        if head in state.env or path in state.env:
            return True
        return self.scope(path) is not Scope.LOCAL

    def _carry(self, frame: _LoopFrame, end: State) -> None:
        """Which paths keep their old content through every iteration, directly or through one another."""
        loop = frame.loop
        ends = {path: self.read(path, end) for path in frame.phis}

        def reaches(path: str, seen: set[str]) -> Roots:
            found = ends[path].must
            for root in found:
                if root.source is Source.CARRIED and isinstance(root.key, tuple) and root.key[1] is loop:
                    other = root.key[0]
                    if other in ends and other not in seen:
                        seen.add(other)
                        found = found | reaches(other, seen)
            return found

        for path, value in ends.items():
            own = Root(Source.CARRIED, (path, loop))
            grows = not value.bounded and own in reaches(path, {path})
            fresh = not any(r.source is Source.PLACE for r in frame.phis[path].must)
            self.carries[(path, loop)] = Carry(grows, value, fresh)


_EVENT_LISTS = (
    "backwards", "grad_calls", "zero_grads", "steps", "forwards", "stores", "hooks", "opaque_calls", "loops",
    "events",
)  # fmt: skip


# --- helpers ----------------------------------------------------------------------------------------------------


def kind_of(ref: FunctionRef, expr: t.Expr) -> Value:
    """What sort of object an expression makes, read by itself inside a function."""
    flow = Flow(ref.module.project, ref)
    flow.dry = True
    flow._called_on = frozenset((expr.id,)) if isinstance(expr, t.Name) else frozenset()
    state = State({})
    for param in ref.define.params:
        state.env[param.name] = flow._parameter(param)
    value = flow.value(expr, state)
    kept = frozenset(r for r in value.roots if r.source is Source.LEAF)
    each = value.part("each")
    parts = (("each", each),) if each is not None and each.kind is Kind.INSTANCE else ()
    return Value(kept, kind=value.kind, parts=parts, ref=value.ref, bounded=value.bounded)


def named_kind(path: str) -> Kind:
    """What a name says about the object, where nothing else does."""
    last = path.split("[")[0]
    if k.OPTIMIZER_NAME.search(last) and not k.NOT_OPTIMIZER_NAME.search(last.rsplit(".", 1)[-1]):
        return Kind.OPTIMIZER
    if k.SCALER_NAME.search(last):
        return Kind.SCALER
    if k.LOADER_NAME.search(last.rsplit(".", 1)[-1]):
        return Kind.LOADER
    if k.MODULE_NAME.search(last):
        return Kind.MODULE
    return Kind.UNKNOWN


def k_breaks(target: t.Expr) -> bool:
    """Whether assigning to this target cannot store a graph: ``x.data``, ``x.grad``, ``x.data[i]``."""
    while isinstance(target, t.Attribute | t.Subscript):
        if isinstance(target, t.Attribute) and target.name in ("data", "grad", "requires_grad"):
            return t.path_of(target.value) != "self"
        target = target.value
    return False


def element(value: Value, index: object) -> Value:
    """One part of a value that is unpacked or indexed."""
    part = value.part(index)
    if part is not None:
        return part
    if (each := value.part("each")) is not None:
        return held_in(value, each)
    if (rows := value.part("columns")) is not None:
        return each_of(element(rows, index))
    if value.parts and not isinstance(index, int):
        return union((v for _, v in value.parts), Kind.UNKNOWN)
    if value.kind in (Kind.OUTPUT, Kind.TENSOR):
        return replace(value, parts=())
    value = part_of(value, index)
    if value.kind is Kind.CONTAINER:
        return replace(value, parts=(), kind=Kind.UNKNOWN)
    if index != 0 and any(r.source is Source.LOSS for r in value.roots):
        value = replace(value, roots=frozenset(r for r in value.roots if r.source is Source.LOSS), maybe=value.reach)
    roots = frozenset(
        Root(r.source, (r.key, index)) if r.source in (Source.CALL, Source.LOSS) else r for r in value.roots
    )
    kind = value.kind if value.kind is Kind.NUMBER else Kind.UNKNOWN
    return Value(roots, value.maybe, value.must, kind)


def iterated(value: Value) -> Value:
    """What a loop over ``value`` gives in each iteration."""
    if value.kind is Kind.LOADER:
        return DETACHED
    if value.parts:
        return element(value, "each")
    if value.kind in (Kind.NUMBER, Kind.EXTERNAL):
        return NUMBER if value.kind is Kind.NUMBER else Value()
    return element(value, "each")


def _with_content(holder: Value, value: Value) -> Value:
    parts = () if value.reach else holder.parts
    kind = holder.kind if holder.kind is not Kind.UNKNOWN else Kind.UNKNOWN
    return replace(holder, roots=holder.roots | value.roots, maybe=holder.maybe | value.maybe, parts=parts, kind=kind)


def _steady_branch(test: t.Expr) -> str:
    """Which branch of an ``if`` is the steady state, when the other one is only for the start."""
    if (
        isinstance(test, t.Operation)
        and test.operator == "not"
        and isinstance(test.operands[0], t.Name | t.Attribute | t.Call)
    ):
        inner = test.operands[0]
        return "second" if isinstance(inner, t.Call) and t.path_of(inner.func) == "hasattr" else "both"
    if isinstance(test, t.Call) and t.path_of(test.func) == "hasattr":
        return "first"
    if isinstance(test, t.Operation) and len(test.operands) == 2:
        left, right = test.operands
        none = isinstance(right, t.Constant) and right.value is None
        zero = isinstance(right, t.Constant) and right.value in (0, 1) and right.value is not None
        if (none and test.operator in ("is", "==")) or (zero and test.operator == "==" and t.path_of(left) is not None):
            return "second"
        if none and test.operator in ("is not", "!="):
            return "first" if not isinstance(right, t.Constant) else "both"
        if zero and test.operator in (">", "!=") and isinstance(left, t.Name):
            return "first"
    return "both"


def tensor_test(test: t.Expr) -> tuple[str | None, bool]:
    """The path that a condition tests for being a tensor, and whether the condition holds if it is one."""
    if isinstance(test, t.Operation) and test.operator == "not":
        path, holds = tensor_test(test.operands[0])
        return path, not holds
    if isinstance(test, t.Attribute) and test.name == "requires_grad":
        return t.path_of(test.value), True
    if isinstance(test, t.Call) and test.args:
        name = (t.path_of(test.func) or "").rsplit(".", 1)[-1]
        kind = t.path_of(test.args[1].value) if len(test.args) > 1 else None
        if name == "is_tensor" or (name == "isinstance" and (kind or "").rsplit(".", 1)[-1] == "Tensor"):
            return t.path_of(test.args[0].value), True
        if name == "hasattr" and isinstance(a := test.args[-1].value, t.Constant) and a.value in ("item", "detach"):
            return t.path_of(test.args[0].value), True
    return None, True


def _iterable_path(expr: t.Expr) -> str | None:
    """The loader inside ``enumerate(tqdm(loader, ...))``."""
    while isinstance(expr, t.Call) and expr.args and t.path_of(expr) is None:
        name = t.path_of(expr.func) or ""
        if name.rsplit(".", 1)[-1] in ("range", "len"):
            return None
        expr = expr.args[0].value
    return t.path_of(expr)


def rebind_form(path: str, source: t.Expr | None) -> tuple[Form, t.Expr | None]:
    """How ``path = source`` uses its old value, and the part of the expression that is new."""
    if isinstance(source, t.Conditional):
        branch = source.body if mentions(source.body, path) else source.orelse
        return rebind_form(path, branch)
    if isinstance(source, t.Operation) and source.operator in "+-":
        left, right = source.operands[0], source.operands[-1]
        for old, new in ((left, right), (right, left)):
            if t.path_of(old) == path:
                kind = Form.APPEND if isinstance(new, t.Display) else Form.SUM
                return kind, new.items[0] if isinstance(new, t.Display) and len(new.items) == 1 else new
            if mentions(old, path) and isinstance(old, t.Operation) and old.operator in ("*", "/", "+", "-"):
                form, _ = rebind_form(path, old)
                scaled = old.operator in "*/" and any(mentions(o, path) for o in old.operands)
                return (Form.AVERAGE if scaled else form), new
    if isinstance(source, t.Operation) and source.operator in ("*", "/") and mentions(source, path):
        return Form.AVERAGE, None
    if isinstance(source, t.Call) and isinstance(source.func, t.Attribute | t.Name):
        name = (t.path_of(source.func) or "").rsplit(".", 1)[-1]
        if name in ("cat", "concat", "concatenate", "stack", "vstack", "hstack") and source.args:
            items = source.args[0].value
            if isinstance(items, t.Display):
                new_items = [i for i in items.items if not mentions(i, path)]
                if len(new_items) < len(items.items):
                    return Form.CONCATENATE, new_items[0] if len(new_items) == 1 else None
    if isinstance(source, t.Display) and mentions(source, path):
        return Form.APPEND, None
    return Form.REBIND, None


def mentions(expr: t.Expr, path: str) -> bool:
    """Whether an arithmetic expression contains a path, not looking into calls."""
    if t.path_of(expr) == path:
        return True
    if isinstance(expr, t.Operation):
        return any(mentions(o, path) for o in expr.operands)
    if isinstance(expr, t.Display):
        return any(mentions(i, path) for i in expr.items)
    if isinstance(expr, t.Starred | t.Subscript):
        return mentions(expr.value, path)
    if isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute):
        return mentions(expr.func.value, path)
    return False


def assigned_paths(loop: t.Repeat) -> frozenset[str]:
    """Every path that the body of a loop assigns or changes in place."""
    found: set[str] = set()

    def target(expr: t.Expr) -> None:
        for single in t.names_in(expr):
            path = t.path_of(single)
            if path is None or k_breaks(single):
                continue
            found.add(path if path.endswith('"]') or not path.endswith("]") else path.rsplit("[", 1)[0])
            while path.endswith("]"):
                path = path.rsplit("[", 1)[0]
                found.add(path)

    for stmt in walk_statements(loop.body):
        if isinstance(stmt, t.Assign):
            for each in stmt.targets:
                target(each)
        elif isinstance(stmt, t.Augment):
            target(stmt.target)
        elif isinstance(stmt, t.Repeat) and stmt.target is not None:
            target(stmt.target)
            found |= stmt.assigned or frozenset()
        elif isinstance(stmt, t.With):
            for _, bound in stmt.items:
                if bound is not None:
                    target(bound)
        elif isinstance(stmt, t.Delete):
            for each in stmt.targets:
                target(each)
        if isinstance(stmt, t.Evaluate | t.Assign | t.Return) and isinstance(stmt.value, t.Call):
            func = stmt.value.func
            if isinstance(func, t.Attribute) and (
                func.name in k.ADDING_METHODS or func.name in k.CLEARING_METHODS or func.name.endswith("_")
            ):
                target(func.value)
    return frozenset(found)


def _bound_names(define: t.Define) -> tuple[set[str], set[str]]:
    """Names that the function binds, and those it declares global or nonlocal."""
    bound: set[str] = set()
    declared: set[str] = set()
    for stmt in walk_statements(define.body):
        if isinstance(stmt, t.Assign):
            bound.update(_names(stmt.targets))
        elif isinstance(stmt, t.Augment | t.Repeat):
            bound.update(_names([stmt.target] if stmt.target is not None else []))
        elif isinstance(stmt, t.With):
            bound.update(_names([b for _, b in stmt.items if b is not None]))
        elif isinstance(stmt, t.Define | t.DefineClass):
            bound.add(stmt.name)
        elif isinstance(stmt, t.Import):
            bound.update(stmt.names)
        elif isinstance(stmt, t.Try):
            bound.update(h.name for h in stmt.handlers if h.name)
        elif isinstance(stmt, t.Declare) and stmt.kind in ("global", "nonlocal"):
            declared.update(stmt.names)
    return bound, declared


def _names(targets: Iterable[t.Expr]) -> Iterable[str]:
    for target in targets:
        for single in t.names_in(target):
            if isinstance(single, t.Name):
                yield single.id

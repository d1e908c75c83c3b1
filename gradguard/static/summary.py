"""What a function of the project does at a call: its facts, with the caller's values in place of its parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from gradguard.static import tree as t
from gradguard.static.expressions import recorded
from gradguard.static.gate import SourceError
from gradguard.static.model import (
    Backward,
    Call,
    Construction,
    Event,
    Form,
    Forward,
    GradCall,
    HookRegistration,
    Mode,
    OpaqueCall,
    Scope,
    Step,
    Store,
    ZeroGrad,
)  # fmt: skip
from gradguard.static.proof import prove
from gradguard.static.source import Site
from gradguard.static.values import (
    DETACHED,
    NOTHING,
    NOTHING_HELD,
    NUMBER,
    UNKNOWN,
    Flag,
    Held,
    Holding,
    Holdings,
    Kind,
    Part,
    Root,
    Roots,
    Source,
    Value,
    Word,
    element,
    join,
    structure,
    union,
)

if TYPE_CHECKING:
    from gradguard.static.called import Called
    from gradguard.static.definitions import FunctionRef
    from gradguard.static.flow import Flow

_MUTATING = (Form.APPEND, Form.ITEM, Form.IN_PLACE)
_MAX_EVENTS = 200
_MAX_ROOTS = 32
_HOLDING = (Kind.TENSOR, Kind.OUTPUT, Kind.UNKNOWN, Kind.CONTAINER)
_KEPT = (Source.CARRIED, Source.PLACE, Source.PARAM)


def apply_facts(c: Called, ref: FunctionRef, values: list[tuple[t.Arg, Value]], receiver: str | None) -> Value:
    """Do at call ``c`` what ``ref`` does, and return what it returns.

    Args:
        c: the call, in its caller.
        ref: the function called.
        values: its arguments.
        receiver: the path of the object, where the call itself does not name it; empty for a constructor, whose
            object has no path yet.
    """
    flow = c.flow
    flow.applied.add(ref.define)
    flow.calls.append((ref.define, c.state.mode))
    try:
        callee = flow.project.flow(_with_flags(flow.project.wrapper(ref) or ref, values))
    except SourceError:
        callee = None
    if callee is None:
        return UNKNOWN
    if flow.dry:
        return Value(kind=callee.facts.returns.kind, ref=callee.facts.returns.ref)
    return _Application(c, callee, [*ref.given, *values], receiver).run()


def _with_flags(ref: FunctionRef, values: list[tuple[t.Arg, Value]]) -> FunctionRef:
    """The function as this call makes it run, where the truth of an argument decides which way it takes."""
    if not ref.tested or ref.given:
        return ref
    names = [p.name for p in ref.define.params if not p.star]
    positional = iter(names[1:] if ref.owner is not None and names[:1] in (["self"], ["cls"]) else names)
    flags: dict[str, Value] = {}
    for arg, value in values:
        if arg.star:
            break
        name = arg.keyword or next(positional, None)
        known = Flag(bool(arg.value.value)) if _is_truth(arg.value) else value.ref
        if name in ref.tested and isinstance(known, Flag | Word):
            flags[str(name)] = replace(NUMBER, ref=known)
    if not flags:
        return ref
    told = tuple(sorted((name, value.ref) for name, value in flags.items()))
    return replace(ref, bindings=(*ref.bindings, *flags.items()), variant=(ref.variant, told))


def _is_truth(expr: t.Expr) -> TypeGuard[t.Constant]:
    return isinstance(expr, t.Constant) and isinstance(expr.value, bool)


class _Application:
    """One call of one function: the translation of its names, roots and events into the caller's."""

    def __init__(self, c: Called, callee: Flow, values: list[tuple[t.Arg, Value]], receiver: str | None) -> None:
        self.c, self.flow, self.state, self.callee = c, c.flow, c.state, callee
        self.bound: dict[str, Value] = {}
        self.sources: dict[str, t.Expr] = {}
        self.paths: dict[str, str] = {}
        self._bind(values, receiver)

    def _bind(self, values: list[tuple[t.Arg, Value]], receiver: str | None) -> None:
        params = list(self.callee.ref.define.params)
        owner = self.callee.ref.owner
        constructs = self.constructs = receiver == ""
        on_class = not constructs and self.c.receiver is not None and self.c.receiver.kind is Kind.CLASS
        explicit = on_class and not any(t.path_of(d) == "classmethod" for d in self.callee.ref.define.decorators)
        if owner is not None and params and params[0].name in ("self", "cls") and not explicit:
            path = None if constructs else receiver or self.c.receiver_path
            func = self.c.node.func
            if (
                isinstance(func, t.Attribute)
                and isinstance(func.value, t.Call)
                and t.path_of(func.value.func) == "super"
            ):
                path = "self"
            if path is not None:
                self.paths[params[0].name] = path
            params = params[1:]
        plain = [p for p in params if not p.star]
        names = {p.name for p in plain}
        extra: dict[str, dict[object, Value]] = {p.name: {} for p in params if p.star}
        stars = {p.star: p.name for p in params if p.star}
        position = 0
        for arg, value in values:
            if arg.star:
                self._spread(arg, value, [p.name for p in plain if p.name not in self.bound], stars, extra)
            elif arg.keyword is None and position < len(plain):
                self._give(plain[position].name, arg, value)
                position += 1
            elif arg.keyword in names:
                self._give(str(arg.keyword), arg, value)
            elif (star := stars.get("*" if arg.keyword is None else "**")) is not None:
                extra[star][len(extra[star]) if arg.keyword is None else arg.keyword] = value
                self.sources.setdefault(star, arg.value)
        for star, given in extra.items():
            self.bound.setdefault(star, structure(given.items(), Kind.CONTAINER))
        for param in plain:
            if param.name not in self.bound and isinstance(param.default, t.Constant):
                self.bound[param.name] = NOTHING if param.default.value is None else NUMBER

    def _give(self, name: str, arg: t.Arg, value: Value) -> None:
        self.bound[name] = self.flow.with_fields(value, arg.value, self.state)
        self.sources[name] = arg.value
        path = t.path_of(arg.value)
        if path is not None:
            self.paths[name] = self.flow.canonical(path)

    def _spread(
        self,
        arg: t.Arg,
        value: Value,
        open_names: list[str],
        stars: dict[str, str],
        extra: dict[str, dict[object, Value]],
    ) -> None:
        """``f(*args)`` and ``f(**kwargs)``: any of the parameters that are still open may get any of the elements."""

        for name in open_names:
            part = element(value, name if arg.star == "**" else "each")
            self.bound[name] = join(self.bound[name], part) if name in self.bound else part
        if arg.star in stars:
            self.bound[stars[arg.star]] = value
            self.sources.setdefault(stars[arg.star], arg.value)

    def run(self) -> Value:
        facts = self.callee.facts
        self.flow.facts.gradients_wanted |= facts.gradients_wanted
        writes, known = self._writes(), len(self.flow.facts.stores)
        for event in facts.events[:_MAX_EVENTS]:
            self._replay(event)
        result = self._made() if self.constructs else recorded(self.value(facts.returns), self.state)
        for path, value in writes:
            self.flow.touch(path, self.state)
            if all(store.path != path for store in self.flow.facts.stores[known:]):
                self._note_carried(path, value)
            self.state.assign(path, value)
        self._reset()
        for event in facts.stores:
            if event.scope is Scope.PARAMETER and (event.is_item or event.form in _MUTATING):
                self._mutate(event)
        if self.callee.ref.define.is_generator:
            self.flow.generators += 1
        evaluating = (self.path(p) for p in self.callee.final.evaluating | self.callee.evaluating_at_yield)
        self.state.evaluating |= {p for p in evaluating if p is not None}
        return result

    def _made(self) -> Value:
        """What an object holds when it is made: the graphs that its constructor puts into it."""
        env = self.callee.final.env.items()
        fields = [self.value(value) for path, value in env if path.startswith("self.") and value.kind in _HOLDING]
        held = union(fields)
        roots = frozenset(root for root in held.roots if root.source is not Source.LEAF)
        return recorded(Value(roots, held.maybe, kind=Kind.CONTAINER), self.state)

    def _reset(self) -> None:
        """What the callee empties, or detaches in place, among the objects that it is given."""
        for path in sorted(self.callee.emptied | self.callee.detached):
            mapped = self.path(path) if self.callee.scope(path) is Scope.PARAMETER else None
            if mapped is None:
                continue
            self.flow.touch(mapped, self.state)
            holder = self.flow.read(mapped, self.state)
            emptied = path in self.callee.emptied
            self.state.assign(mapped, replace(holder, must=frozenset(), bounded=True) if emptied else DETACHED)

    # --- names and values ---

    def path(self, path: str) -> str | None:
        """A path of the callee in the caller's names, None where it has none."""
        head = path.split(".", 1)[0].split("[", 1)[0]
        if head in self.callee.params:
            mapped = self.paths.get(head) or self._default(head)
            return None if mapped is None else mapped + path[len(head) :]
        if self.callee.scope(path) is Scope.LOCAL:
            return None
        same = self.callee.module is self.flow.module
        if self.callee.scope(path) is Scope.CLOSURE or (same and self.callee.ref.outer is not None):
            return path
        if not same and self.callee.module.path is not None and "." not in path:
            return f"{self.callee.module.path.stem}.{path}"  # a global of another file
        shadowed = self.flow.facts.name != "<module>" and self.flow.scope(path) is not Scope.GLOBAL
        return path if same and not shadowed else None

    def _default(self, name: str) -> str | None:
        """The path of a mutable default: one object for all calls."""
        if name in self.bound:
            return None
        default = next((p.default for p in self.callee.ref.define.params if p.name == name), None)
        mutable = isinstance(default, t.Display | t.DictDisplay | t.Comprehension | t.Call)
        return f"{self.callee.facts.name}.{name}" if mutable else None

    def value(self, value: Value) -> Value:
        """A value of the callee in terms of the caller's."""
        if not value.parts and not value.maybe and len(value.roots) == 1:
            (only,) = value.roots
            if only.source is Source.PARAM and only.key in self.bound and value.kind is Kind.UNKNOWN:
                return self.bound[only.base]
        roots, spill = self._roots(value.roots)
        maybe, spilled = self._roots(value.maybe)
        must: Roots = frozenset()
        for root in value.must:
            if root.source is Source.PLACE and (path := self.path(str(root.key))) is not None:
                must |= self.flow.read(path, self.state).must
            elif root.source is Source.PARAM and str(root.key) in self.bound:
                must |= self.bound[str(root.key)].must
        parts = tuple((key, self.value(part)) for key, part in value.parts)
        holds = frozenset(Holding(h.held, (self.c.node, h.key)) for h in value.holds if h.held is not Held.CUT)
        if (
            value.kind in (Kind.UNKNOWN, Kind.CONTAINER) or value.parts
        ):  # not computed from what came in, but that itself
            holds |= self._passed(value.roots)
        return Value(roots, maybe | spill | spilled, must, value.kind, parts, value.ref, value.bounded, holds)

    def _passed(self, roots: Roots) -> Holdings:
        """What the arguments among the roots hold."""
        found: Holdings = NOTHING_HELD
        for root in roots:
            if root.source is Source.PARAM:
                found |= self._outer(root).holds
        return found

    def _roots(self, roots: Roots) -> tuple[Roots, Roots]:
        found: set[Root] = set()
        maybe: set[Root] = set()
        for root in roots:
            if root.source in (Source.PARAM, Source.PLACE):
                here = self._outer(root)
                found |= here.roots
                maybe |= here.maybe
            elif root.source is not Source.CARRIED:
                mapped = Root(root.source, (self.c.node, root.key))
                found.add(mapped)
                if root in self.callee.proven:
                    self.flow.proven.add(mapped)
        return self._bounded(found), self._bounded(maybe)

    def _bounded(self, roots: set[Root]) -> Roots:
        """Not more roots than can be told apart: deep call graphs would multiply them from level to level."""
        if len(roots) <= _MAX_ROOTS:
            return frozenset(roots)
        own = {r for r in roots if isinstance(r.key, tuple) and not isinstance(r.key, Part) and r.source not in _KEPT}
        return frozenset(roots - own) | frozenset(Root(r.source, (self.c.node, "many")) for r in own)

    def _outer(self, root: Root) -> Value:
        """What a PARAM or PLACE root of the callee is here."""

        if root.source is Source.PARAM:
            value = self.bound.get(root.base, Value())
        else:
            path = self.path(root.base)
            value = self.flow.read(path, self.state) if path is not None else Value()
        for key in root.key.keys if isinstance(root.key, Part) else ():
            value = element(value, key)
        return value

    # --- effects ---

    def _writes(self) -> list[tuple[str, Value]]:
        """What the callee leaves in attributes, outer variables and globals."""
        if self.state.mode is Mode.OFF and not self.callee.final.env:
            return []
        writes = []
        for path, value in sorted(self.callee.final.env.items(), key=lambda item: item[0]):  # wholes before parts
            scope = self.callee.scope(path)
            visible = scope is Scope.ATTRIBUTE or scope in (Scope.CLOSURE, Scope.GLOBAL)
            mapped = self.path(path) if visible else None
            if mapped is not None and value.kind not in (Kind.FUNCTION, Kind.CLASS, Kind.EXTERNAL):
                writes.append((mapped, self._left(mapped, self.value(value))))
        return writes

    def _left(self, path: str, value: Value) -> Value:
        """What the callee leaves at a path; a container that gets more under ``no_grad`` keeps what is in it."""
        if self.state.mode is not Mode.OFF or value.kind is not Kind.CONTAINER:
            return recorded(value, self.state)
        before = self.flow.read(path, self.state)
        return replace(value, roots=value.roots & before.roots, maybe=value.maybe & before.maybe, parts=())

    def _note_carried(self, path: str, value: Value) -> None:
        """``slots.advance(memory)``: the callee does not see that what it is given came from what it replaces."""
        carried = any(r.source is Source.CARRIED and r.key[0] == path for r in value.roots if isinstance(r.key, tuple))
        if carried and value.kind in (Kind.TENSOR, Kind.OUTPUT, Kind.UNKNOWN):
            store = self.flow.store(path, value, self.state, self.c.node, self.c.node, Form.REBIND)
            store.recurs = True

    def _mutate(self, store: Store) -> None:
        path = self.path(store.path)
        if path is None:
            return
        self.flow.touch(path, self.state)
        holder = self.flow.read(path, self.state)
        added = recorded(self.value(store.value), self.state)
        self.state.env[path] = replace(
            holder, roots=holder.roots | added.roots, maybe=holder.maybe | added.maybe, parts=()
        )

    def _replay(self, event: Event) -> None:
        flow, state = self.flow, self.state
        conditional = flow.branches > 0 or event.conditional
        site, loop = flow.site(self.c.node), flow.loop
        if isinstance(event, Backward):
            value = self.value(event.value)
            prove(flow, value)
            flow.record(replace(event, site=site, loop=loop, conditional=conditional, inner=event, value=value))
            state.lost, state.computed = None, True
        elif isinstance(event, GradCall):
            flow.record(replace(event, site=site, loop=loop, inner=event, value=self.value(event.value)))
        elif isinstance(event, ZeroGrad):
            target = self.path(event.target) if event.target else None
            flow.zero(replace(event, site=site, loop=loop, conditional=conditional, inner=event, target=target), state)
        elif isinstance(event, Step):
            target = self.path(event.target) if event.target else None
            lost = state.lost if event.lost is None else event.lost
            if lost is not None and target is not None and not lost.of_module and lost.target not in (None, target):
                lost = None
            flow.record(replace(event, site=site, loop=loop, inner=event, target=target, lost=lost))
            state.lost, state.computed = None, False
        elif isinstance(event, Call):
            of, receiver = self.value(event.of), self.path(event.receiver) if event.receiver else None
            flow.record(replace(
                event, site=site, loop=loop, conditional=conditional, inner=event, of=of, receiver=receiver
            ))  # fmt: skip
            self._mark_leaf(event, receiver)
        elif isinstance(event, Construction):
            repeats = event.repeats or loop is not None
            flow.record(replace(event, site=site, loop=loop, conditional=conditional, inner=event, repeats=repeats))
        elif isinstance(event, Forward):
            mode = state.mode if event.mode is Mode.INHERITED else event.mode
            module = self.path(event.module) if event.module else None
            evaluates = event.evaluates or bool(state.evaluating)
            flow.record(
                replace(event, site=site, loop=loop, inner=event, mode=mode, module=module, evaluates=evaluates)
            )
        elif isinstance(event, OpaqueCall):
            flow.record(replace(event, site=site, loop=loop, inner=event))
        elif isinstance(event, HookRegistration):
            receiver = self.path(event.receiver) if event.receiver else None
            if receiver is not None and not event.removed and (not event.fresh or event.closes_over_given):
                of = flow.read(receiver, self.state)
                flow.record(replace(event, site=site, loop=loop, inner=event, receiver=receiver, of=of, repeats=None))
        elif isinstance(event, Store):
            self._replay_store(event)

    def _mark_leaf(self, event: Call, receiver: str | None) -> None:
        """``requires_grad_()`` on an argument marks the caller's own tensor."""
        param = (event.receiver or "").split(".", 1)[0]
        given = event.name == "requires_grad_" and param in self.bound and param not in self.callee.locals
        if event.literal("requires_grad", 0) is False or event.of.kind is Kind.MODULE:
            return
        if given and receiver is not None:
            self.flow.touch(receiver, self.state)
            marked = self.flow.read(receiver, self.state).with_roots(Root(Source.LEAF, self.c.node))
            self.state.env[receiver] = replace(marked, kind=Kind.TENSOR)

    def _replay_store(self, store: Store) -> None:
        flow, state = self.flow, self.state
        if store.form is Form.REBIND and Root(Source.PLACE, store.path) not in store.value.must and not store.waits:
            return  # what it replaces is gone
        path = self.path(store.path)
        if path is None or ((state.mode is Mode.OFF or store.mode is Mode.OFF) and not store.value.holds):
            return
        given = {r.base for r in store.value.reach if r.source is Source.PARAM and r.base in self.bound}
        order = [name for name in self.callee.params if name in given] + sorted(given - set(self.callee.params))
        attached = [name for name in order if self.bound[name].keeps]
        attached.sort(key=lambda name: not self.bound[name].roots)  # what surely carries a graph comes first
        by_caller = bool(attached) and not any(r.source is Source.GRAPH for r in store.value.roots)
        if store.waits and state.evaluating and Mode.OFF not in (state.mode, store.mode):
            flow.record(replace(store, loop=flow.loop, inner=store, evaluating=True, value=self.value(store.value)))
            return
        value = self.value(store.value)
        if store.form in (Form.AVERAGE, Form.SUM):
            value = recorded(value, state, self.c.node)  # the callee did not know that it was given a leaf
        around = store.loop.around() if store.loop is not None else ()
        again = store.key is not None and any(store.key in loop.targets for loop in around if not loop.over_loader)
        source: Site | None = store.value_site
        if by_caller:
            source = flow.site(self.sources[attached[0]]) if attached[0] in self.sources else None
        flow.record(
            replace(
                store, site=flow.site(self.c.node) if by_caller else store.site, loop=flow.loop, inner=store,
                conditional=flow.branches > 0 or store.conditional, path=path, value=value,
                value_site=source, scope=flow.scope(path), parameter=by_caller or store.parameter,
                in_structure=bool(by_caller and self.bound[attached[0]].parts) or store.in_structure,
                mode=state.mode if store.mode is Mode.INHERITED else store.mode,
                evaluating=store.evaluating or bool(state.evaluating), carries_graph=False, outlives=None,
                outlives_call=False, freed=False, retained=False, used=False,
                start=_unknown if by_caller else store.start, bounded_key=store.bounded_key or again,
            )
        )  # fmt: skip


def _unknown() -> None:
    """Where a graph starts that the caller hands over: the caller knows."""

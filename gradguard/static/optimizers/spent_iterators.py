"""Iterators of parameters that are used again: ``params = filter(...)``, ``Adam(params)``, ``clip_grad_norm_(params)``.

A walk in the order of execution, over names only: which iterator a name means, and what has used it up. What one way
alone has used up counts where every way goes on; in a branch that comes later it may be that this way is another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.files.outline import SCRIPT
from gradguard.static.memo import memo_of
from gradguard.static.mistakes.optimizers import SpentIterator
from gradguard.static.optimizers.parameter_iterators import (
    Stream,
    gives_iterator,
    gives_parts,
    is_average,
    is_eager,
    is_lazy,
    may_give_iterator,
    resolved,
    speaks_of_parameters,
    use_of,
)
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of, reached
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_MAY_MAKE = re.compile(r"\b(?:filter|map|zip|chain|iter|\w*parameters|modules|buffers)\(|\(\s*\w+ for |param\w*\s*=")
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class _Spent:
    """What has used an iterator up; on every way here, or on one of them."""

    site: Site
    use: str
    is_sure: bool


@dataclass(slots=True)
class _State:
    """What names mean, None for no iterator, and which iterators were used up."""

    names: dict[str, Stream | None] = field(default_factory=dict)
    spent: dict[Stream, _Spent] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.names), dict(self.spent))

    def in_branch(self) -> _State:
        """As one of several ways begins, which may be another one than that on which something was used up."""
        return _State(dict(self.names), {stream: spent for stream, spent in self.spent.items() if spent.is_sure})

    def become(self, other: _State) -> None:
        self.names, self.spent = other.names, other.spent


_Part = tuple[Stream | None, _Spent | None]
"""An iterator that a function gives back, if it is one, and what it has used it up with."""


@dataclass(slots=True)
class _Loop:
    """The states in which iterations of a loop end early."""

    breaks: list[_State] = field(default_factory=list)
    continues: list[_State] = field(default_factory=list)


def spent_iterators(flow: Flow) -> list[SpentIterator]:
    """The uses in a function of iterators that have nothing left."""
    ref = flow.ref
    if flow.facts.is_test or not flow.module.source.shows(_MAY_MAKE):
        return []
    start = _before(ref)
    if not start.names and not _binds_one(ref):
        return []
    walk = _Walk(ref, _DEPTH)
    walk.run(start)
    found = list(walk.found.values())
    return found if found and flow.module.uses_torch else []  # what asks about other files comes last


def _binds_one(ref: FunctionRef) -> bool:
    """Whether a function may give a name to an iterator: the walk costs more than to ask."""
    return any(
        may_give_iterator(ref, value) or _may_give_back(ref, value)
        for values in ref.assigned.values()
        for value in values
    )


def _may_give_back(ref: FunctionRef, value: t.Expr) -> bool:
    """Whether a function that is called may return an iterator in a tuple."""
    meant = resolved(ref, value.func) if isinstance(value, t.Call) else None
    return isinstance(meant, FunctionRef) and _returns_one(meant)


def _returns_one(ref: FunctionRef) -> bool:
    """Whether a function returns a tuple, in which there is what it bound to an iterator."""
    values = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return)]
    given = values[0].items if len(values) == 1 and isinstance(values[0], t.Display) else []
    bound = [value for item in given for value in ref.assigned.get(t.path_of(item) or "", ())]
    return any(may_give_iterator(ref, value) for value in bound)


def _before(ref: FunctionRef) -> _State:
    """What a function finds: in the globals of its script, the variables around it, and its object."""
    start = _of_object(ref)
    outer = ref.outer.ref if ref.outer is not None else _script(ref)
    if outer is None or outer.define is ref.define:
        return start
    around = _end_of(outer)
    own = ref.names[0] | {param.name for param in ref.define.params}
    for name, stream in around.names.items():
        if stream is not None and name.isidentifier() and name not in own and _is_bound_once_around(outer, name):
            start.names[name] = stream
    start.spent |= {stream: spent for stream, spent in around.spent.items() if spent.is_sure}
    return start


def _is_bound_once_around(outer: FunctionRef, name: str) -> bool:
    """Whether a variable keeps what it was bound to: no function within rebinds it."""
    rebinds = re.search(rf"\b(?:global|nonlocal)\b[^\n]*\b{name}\b", outer.module.source.text)
    return len(outer.assigned.get(name, ())) == 1 and rebinds is None


def _script(ref: FunctionRef) -> FunctionRef | None:
    """The script around a function, if it may bind an iterator to a global that the function uses."""
    if ref.define.name == SCRIPT or ref.mentioned.isdisjoint(ref.module.outline.variables):
        return None
    memo = memo_of(ref.module)
    if "script_of_iterators" not in memo:
        memo["script_of_iterators"] = ref.module.script()
    found = memo["script_of_iterators"]
    return found if isinstance(found, FunctionRef) else None


def _end_of(ref: FunctionRef) -> _State:
    """What names mean when a function has run."""
    memo = memo_of(ref)
    if "end_of_iterators" not in memo:
        memo["end_of_iterators"] = _State()  # as far as one that is asked for itself knows
        end = _Walk(ref, _DEPTH).run(_State()) if _binds_one(ref) else None
        memo["end_of_iterators"] = end or _State()
    found = memo["end_of_iterators"]
    return found.copy() if isinstance(found, _State) else _State()


def _of_object(ref: FunctionRef) -> _State:
    """What the constructor has left in the attributes of an object that nothing else binds."""
    owner = ref.owner
    constructor = owner.method("__init__") if owner is not None else None
    if owner is None or constructor is None or ref.define.name in reached(methods_of(owner), ("__init__",)):
        return _State()
    state = _end_of(constructor)
    names: dict[str, Stream | None] = {
        path: stream
        for path, stream in state.names.items()
        if stream is not None and path.startswith("self.") and _is_bound_once(owner, path)
    }
    return _State(names, {stream: spent for stream, spent in state.spent.items() if spent.is_sure})


def _is_bound_once(owner: Class, path: str) -> bool:
    return sum(len(each.assigned(path.removeprefix("self."))) for each in owner.lineage()) == 1


def _used_by(ref: FunctionRef, depth: int) -> frozenset[str]:
    """The parameters of a function of which it takes all elements, whatever way it goes."""
    memo = memo_of(ref)
    if "used_iterators" not in memo:
        memo["used_iterators"] = frozenset()
        given = {param.name: Stream(Site(ref.chunk, ref.define)) for param in ref.define.params if not param.star}
        names: dict[str, Stream | None] = dict(given.items())
        end = None if ref.define.is_generator else _Walk(ref, depth).run(_State(names))
        spent = end.spent if end is not None else {}
        sure = {stream for stream, what in spent.items() if what.is_sure}
        memo["used_iterators"] = frozenset(name for name, stream in given.items() if stream in sure)
    found = memo["used_iterators"]
    return found if isinstance(found, frozenset) else frozenset()


def _given_back(ref: FunctionRef, depth: int) -> list[_Part]:
    """What a function returns in a tuple, always the same one: ``return model, params, optimizer``; else nothing."""
    memo = memo_of(ref)
    if "returned_iterators" not in memo:
        memo["returned_iterators"] = []
        if not ref.define.is_generator and not ref.define.decorators and _returns_one(ref):
            walk = _Walk(ref, depth)
            walk.run(_State())
            memo["returned_iterators"] = next(iter(walk.returned.values()), [])
    found = memo["returned_iterators"]
    return found if isinstance(found, list) else []


class _Walk:
    """Over one function."""

    def __init__(self, ref: FunctionRef, depth: int) -> None:
        self.ref, self.depth = ref, depth
        self.found: dict[t.Expr, SpentIterator] = {}
        self.returned: dict[t.Expr, list[_Part]] = {}
        self.loops: list[_Loop] = []
        self.exits: list[_State] = []

    def run(self, state: _State) -> _State | None:
        """Go through it; what is left at its ends."""
        return self._joined([self._block(self.ref.define.body, state), *self.exits])

    # --- statements ---

    def _block(self, body: Sequence[t.Stmt], state: _State | None) -> _State | None:
        for stmt in body:
            if state is None:
                return None
            state = self._statement(stmt, state)
        return state

    def _statement(self, stmt: t.Stmt, state: _State) -> _State | None:
        if isinstance(stmt, t.Assign):
            self._assign(stmt, state)
        elif isinstance(stmt, t.Evaluate):
            self._value(stmt.value, state)
        elif isinstance(stmt, t.Augment):
            self._use(self._value(stmt.value, state), stmt.value, "", state)
            self._bind(stmt.target, None, state)
        elif isinstance(stmt, t.Return | t.Raise):
            self._visit(stmt.value, state)
            if isinstance(stmt, t.Return):
                self.exits.append(state)
                self._give_back(stmt.value, state)
            return None
        elif isinstance(stmt, t.Leave):
            if self.loops:
                (self.loops[-1].breaks if stmt.kind == "break" else self.loops[-1].continues).append(state)
            return None
        elif isinstance(stmt, t.If):
            self._visit(stmt.test, state)
            return self._branches([stmt.body, stmt.orelse], state)
        elif isinstance(stmt, t.Repeat):
            return self._repeat(stmt, state)
        elif isinstance(stmt, t.With):
            for item, target in stmt.items:
                self._visit(item, state)
                self._bind(target, None, state)
            return self._block(stmt.body, state)
        elif isinstance(stmt, t.Try):
            return self._try(stmt, state)
        elif isinstance(stmt, t.Match):
            self._visit(stmt.subject, state)
            return self._branches([*(case.body for case in stmt.cases), []], state)
        elif isinstance(stmt, t.Define | t.DefineClass):
            state.names[stmt.name] = None
        elif isinstance(stmt, t.Import):
            state.names.update(dict.fromkeys(stmt.names))
        elif isinstance(stmt, t.Delete):
            for target in stmt.targets:
                self._bind(target, None, state)
        return state

    def _assign(self, stmt: t.Assign, state: _State) -> None:
        values: dict[t.Expr, Stream | None] = {}
        pairs = list(t.pairs(stmt.targets, stmt.value))
        for _, value in pairs:
            if value not in values:
                values[value] = self._value(value, state)
        for target, value in pairs:
            self._bind(target, values[value], state)
            if isinstance(target, t.Display) and isinstance(value, t.Call):
                self._take_apart(target, value, state)

    def _give_back(self, value: t.Expr | None, state: _State) -> None:
        if isinstance(value, t.Display):
            streams = [state.names.get(t.path_of(item) or "") for item in value.items]
            self.returned[value] = [(each, state.spent.get(each) if each is not None else None) for each in streams]

    def _take_apart(self, target: t.Display, call: t.Call, state: _State) -> None:
        """``model, params, optimizer = setup()``: each call gives iterators of its own, used up or not."""
        meant = resolved(self.ref, call.func)
        parts = _given_back(meant, self.depth - 1) if isinstance(meant, FunctionRef) and self.depth else []
        for item, (stream, spent) in zip(target.items, parts) if len(parts) == len(target.items) else ():
            if stream is None or stream.is_holder:
                continue
            own = Stream(stream.made, [], of_parameters=stream.has_parameters)
            self._bind(item, own, state)
            if spent is not None and spent.is_sure:
                state.spent[own] = spent

    def _bind(self, target: t.Expr | None, stream: Stream | None, state: _State) -> None:
        names = list(t.names_in(target)) if target is not None else []
        for name in names:
            path = t.path_of(name)
            if path is None or "[" in path:
                continue
            for known in [known for known in state.names if known.startswith(f"{path}.")]:
                state.names[known] = None
            state.names[path] = stream if len(names) == 1 and name is target else None

    def _branches(self, bodies: Sequence[Sequence[t.Stmt]], state: _State) -> _State | None:
        return self._after([self._block(body, state.in_branch()) for body in bodies], state)

    def _after(self, ends: Sequence[_State | None], before: _State) -> _State | None:
        """What is known where some ways have come together, which is no less than what was known before them."""
        joined = self._joined(ends)
        for stream, spent in before.spent.items() if joined is not None else ():
            joined.spent.setdefault(stream, spent)  # type: ignore[union-attr]
        return joined

    def _try(self, stmt: t.Try, state: _State) -> _State | None:
        end = self._block(stmt.orelse, self._block(stmt.body, state.copy()))
        handled = [self._block(handler.body, state.in_branch()) for handler in stmt.handlers]
        return self._block(stmt.final, self._after([end, *handled], state))

    def _repeat(self, stmt: t.Repeat, state: _State) -> _State | None:
        self._visit(stmt.test, state)
        if stmt.iterable is not None:
            stream = self._value(stmt.iterable, state)
            self._use(stream, stmt.iterable, "", state, takes_all=not _may_end_early(stmt))
        loop = _Loop()
        self.loops.append(loop)
        end: _State | None = state.copy()
        for _ in range(2):  # the second time as the iteration before has left it
            if end is not None:
                self._bind(stmt.target, None, end)
                loop.continues.clear()
                end = self._joined([self._block(stmt.body, end), *loop.continues])
        self.loops.pop()
        return self._block(stmt.orelse, self._joined([end, *loop.breaks]) or state)

    def _joined(self, states: Sequence[_State | None]) -> _State | None:
        """What is known where several ways come together."""
        live = [state for state in states if state is not None]
        if len(live) < 2:
            return live[0] if live else None
        names = {path: self._one_of(path, live) for state in live for path in state.names}
        spent: dict[Stream, _Spent] = {}
        for stream, what in ((stream, what) for state in live for stream, what in state.spent.items()):
            others = (state for state in live if stream in state.spent or _knows(state, stream))
            is_sure = all((s := state.spent.get(stream)) is not None and s.is_sure for state in others)
            spent.setdefault(stream, _Spent(what.site, what.use, is_sure))
        return _State(names, spent)

    def _one_of(self, path: str, live: Sequence[_State]) -> Stream | None:
        """What a name means there: an iterator, where it is one on each way on which it is bound."""
        found = [state.names[path] for state in live if path in state.names]
        streams = [stream for stream in dict.fromkeys(found) if stream is not None]
        is_unbound = path.isidentifier() and all(param.name != path for param in self.ref.define.params)
        if len(streams) < len(set(found)) or not streams or (len(found) < len(live) and not is_unbound):
            return None
        return streams[0] if len(streams) == 1 else _either(streams)

    # --- expressions ---

    def _visit(self, expr: t.Expr | None, state: _State) -> None:
        if expr is not None:
            self._value(expr, state)

    def _value(self, expr: t.Expr, state: _State) -> Stream | None:
        """The iterator that an expression gives, if it is one; what it uses up on the way is noted."""
        if isinstance(expr, t.Name | t.Attribute):
            known = state.names.get(t.path_of(expr) or "")
            if known is None and isinstance(expr, t.Attribute):
                self._value(expr.value, state)
            return known
        if isinstance(expr, t.Call):
            return self._call(expr, state)
        if isinstance(expr, t.Comprehension):
            return self._comprehension(expr, state)
        if isinstance(expr, t.Display | t.DictDisplay):
            return self._display(expr, state)
        if isinstance(expr, t.Conditional):
            self._value(expr.test, state)
            either = self._each_way([expr.body, expr.orelse], state)
            streams = [stream for stream in either if stream is not None]
            return _either(streams) if len(streams) == len(either) else None
        if isinstance(expr, t.Operation) and expr.operator in ("and", "or"):
            self._value(expr.operands[0], state)
            for operand in expr.operands[1:]:
                self._each_way([operand, None], state)
        elif isinstance(expr, t.Operation):
            for operand in expr.operands:
                self._value(operand, state)
        elif isinstance(expr, t.Walrus):
            stream = self._value(expr.value, state)
            self._bind(expr.target, stream, state)
            return stream
        elif isinstance(expr, t.Starred):
            self._use(self._value(expr.value, state), expr.value, "", state)
        elif isinstance(expr, t.Subscript):
            self._value(expr.value, state)
            self._value(expr.index, state)
        elif isinstance(expr, t.Suspend):
            self._visit(expr.value, state)
        elif isinstance(expr, t.Text):
            for part in expr.parts:
                self._value(part, state)
        return None

    def _each_way(self, exprs: Sequence[t.Expr | None], state: _State) -> list[Stream | None]:
        """The values of expressions of which one is evaluated."""
        ways = [state.in_branch() for _ in exprs]
        streams = [self._value(expr, way) if expr is not None else None for expr, way in zip(exprs, ways)]
        after = self._after(ways, state)
        if after is not None:
            state.become(after)
        return streams

    def _comprehension(self, expr: t.Comprehension, state: _State) -> Stream | None:
        over = [(clause.iterable, self._value(clause.iterable, state)) for clause in expr.clauses]
        if expr.kind == "generator":
            return self._made(expr, [(stream, each) for each, stream in over if stream is not None])
        for each, stream in over:
            self._use(stream, each, "", state)
        bound = {name for clause in expr.clauses for name in map(t.path_of, t.names_in(clause.target))}
        inner = _State({path: s for path, s in state.names.items() if path not in bound}, state.spent)
        for part in (*(test for clause in expr.clauses for test in clause.conditions), expr.key, expr.element):
            self._visit(part, inner)
        return None

    def _display(self, expr: t.Display | t.DictDisplay, state: _State) -> Stream:
        items = expr.items if isinstance(expr, t.Display) else [item for _, item in expr.entries]
        held = [(stream, item) for item in items if (stream := self._value(item, state)) is not None]
        return Stream(self._site(expr), held, is_holder=True)

    def _call(self, call: t.Call, state: _State) -> Stream | None:
        func = call.func
        receiver = self._value(func.value, state) if isinstance(func, t.Attribute) else None
        given = [(arg, self._value(arg.value, state)) for arg in call.args]
        meant = resolved(self.ref, func)
        streams = [(stream, arg.value) for arg, stream in given if stream is not None and not arg.star]
        for arg, stream in given:
            self._use(stream if arg.star else None, arg.value, "", state)
        if meant == "builtins.iter" and len(streams) == 1:
            return streams[0][0]
        if is_lazy(meant, call):
            return self._made(call, [each for each in streams if not each[0].is_holder])
        use = use_of(meant, call)
        if receiver is not None and receiver.is_holder and call.name in ("append", "insert"):
            receiver.over += streams
        elif use or is_eager(meant, call) or is_average(call):
            for stream, expr in streams:
                self._use(stream, expr, use, state, into_groups=use in ("optimizer", "group"))
        elif isinstance(meant, FunctionRef | Class):
            self._use_by_program(meant, call, given, state)
        gives = isinstance(meant, FunctionRef) and gives_iterator(meant)
        return self._made(call, streams) if gives or gives_parts(self.ref, call) else None

    def _use_by_program(
        self, meant: FunctionRef | Class, call: t.Call, given: Sequence[tuple[t.Arg, Stream | None]], state: _State
    ) -> None:
        """What a function of the program, or a constructor, takes of what it is given, and of its own object."""
        method = meant.method("__init__") if isinstance(meant, Class) else meant
        if method is None or not self.depth:
            return
        if any(stream is not None for _, stream in given):
            used = _used_by(method, self.depth - 1)
            names = [param.name for param in method.define.params if not param.star]
            names = names[1:] if names[:1] == ["self"] else names
            taken = {id(call.argument(name, place)): name for place, name in enumerate(names) if name in used}
            for arg, stream in given:
                if id(arg.value) in taken:
                    self._use(stream, arg.value, "", state)
        if meant is method and (t.path_of(call.func) or "").startswith("self."):
            self._run_own(method, state)

    def _run_own(self, method: FunctionRef, state: _State) -> None:
        """Do what another method of the object does to its attributes."""
        own = {path: stream for path, stream in state.names.items() if path.startswith("self.")}
        if any(stream is not None for stream in own.values()) and method.define is not self.ref.define:
            end = _Walk(method, self.depth - 1).run(_State(own, dict(state.spent)))
            if end is not None:
                state.spent = end.spent
                state.names.update((path, s) for path, s in end.names.items() if path.startswith("self."))

    # --- what is found ---

    def _site(self, node: t.Node) -> Site:
        return Site(self.ref.chunk, node)

    def _made(self, expr: t.Expr, over: list[tuple[Stream, t.Expr]]) -> Stream:
        return Stream(self._site(expr), over, of_parameters=speaks_of_parameters(expr))

    def _use(
        self,
        stream: Stream | None,
        expr: t.Expr,
        use: str,
        state: _State,
        *,
        takes_all: bool = True,
        into_groups: bool = False,
    ) -> None:
        """Something takes the elements of an iterator: it is told of, if there are none left.

        Args:
            takes_all: none is left then.
            into_groups: the iterators in a list or dict too, as an optimizer does, which puts lists in their places.
        """
        if stream is None or (stream.is_holder and not into_groups):
            return
        if stream.is_holder:
            for inner, where in stream.over:
                self._use(inner, where, "group", state, into_groups=True)
            stream.over.clear()
            return
        spent = _spent(stream, state)
        if spent is not None and (stream.has_parameters or use or spent.use):
            site, source = _said(stream, expr, state)
            self.found.setdefault(site, SpentIterator(self._site(site), source.made, spent.site, use))
        if takes_all:
            for each in _all(stream):
                state.spent.setdefault(each, _Spent(self._site(expr), use, True))
                if not state.spent[each].is_sure:
                    state.spent[each] = _Spent(self._site(expr), use, True)


def _may_end_early(loop: t.Repeat) -> bool:
    """Whether a loop may leave elements."""
    inner = {
        stmt for each in t.walk_statements(loop.body) if isinstance(each, t.Repeat) for stmt in _leaving(each.body)
    }
    returns = any(isinstance(stmt, t.Return | t.Raise) for stmt in t.walk_statements(loop.body))
    return returns or any(stmt not in inner for stmt in _leaving(loop.body))


def _leaving(body: Sequence[t.Stmt]) -> Iterator[t.Stmt]:
    return (stmt for stmt in t.walk_statements(body) if isinstance(stmt, t.Leave) and stmt.kind == "break")


def _either(streams: Sequence[Stream]) -> Stream | None:
    """One of several; of those that hold others nothing is told."""
    if any(stream.is_holder for stream in streams):
        return None
    made = streams[0].made
    return Stream(made, [(stream, _expression(stream)) for stream in streams], is_either=True)


def _expression(stream: Stream) -> t.Expr:
    node = stream.made.node
    return node if isinstance(node, t.Expr) else t.Constant(None, None)


def _all(stream: Stream) -> Iterator[Stream]:
    """An iterator, and those that it takes its elements from."""
    yield stream
    for each, _ in stream.over:
        yield from _all(each)


def _knows(state: _State, stream: Stream) -> bool:
    known = (each for named in state.names.values() if named is not None for each in _all(named))
    return any(each is stream for each in known)


def _spent(stream: Stream, state: _State) -> _Spent | None:
    """What has used it up, or one of those that it takes its elements from."""
    if (own := state.spent.get(stream)) is not None:
        return own
    found = [_spent(each, state) for each, _ in stream.over]
    spent = [each for each in found if each is not None]
    return spent[0] if spent and (len(spent) == len(found) or not stream.is_either) else None


def _said(stream: Stream, expr: t.Expr, state: _State) -> tuple[t.Expr, Stream]:
    """Where the name of what is used up is written, and that: ``params`` of ``filter(wanted, params)``."""
    if stream in state.spent or stream.is_either or t.path_of(expr) is not None:
        return expr, stream
    for each, where in stream.over:
        if _spent(each, state) is not None:
            return _said(each, where, state)
    return expr, stream

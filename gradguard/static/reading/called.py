"""One call, with what is known of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.memo import Remembers, cached_property
from gradguard.static.model import Mode
from gradguard.static.reading import places, unrecorded
from gradguard.static.reading.expressions import recorded
from gradguard.static.reading.state import State
from gradguard.static.values import (
    Kind,
    Root,
    Source,
    Value,
    combined,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class Called(Remembers):
    """One call, with what is known of its parts.

    Args:
        runs: the module that a function runs which it is given to.
    """

    def __init__(
        self,
        flow: Flow,
        state: State,
        node: t.Call,
        func: Value,
        receiver: Value | None,
        values: list[tuple[t.Arg, Value]],
        runs: t.Expr | None = None,
    ) -> None:
        self.flow, self.state, self.node = flow, state, node
        self.func, self.receiver, self.values, self.runs = func, receiver, values, runs

    @cached_property
    def called(self) -> t.Expr:
        """What is called, as written."""
        return self.node.func if self.runs is None else self.runs

    @cached_property
    def path(self) -> str:
        """The dotted name that is called, as written; empty for calls of calls."""
        return t.path_of(self.called) or ""

    @cached_property
    def external(self) -> str:
        """The full dotted name, for a function of another package."""
        return str(self.func.ref) if self.func.kind is Kind.EXTERNAL else ""

    @cached_property
    def method(self) -> str:
        """The name of the method that is called; empty for what is none."""
        return self.called.name if isinstance(self.called, t.Attribute) else ""

    @cached_property
    def receiver_path(self) -> str | None:
        """The path of the object whose method is called."""
        if not isinstance(self.called, t.Attribute):
            return None
        receiver = _through_in_place(self.called.value)
        path = t.path_of(receiver) or _looked_up(receiver)
        if path is None and isinstance(receiver, t.Call) and self.receiver is not None:
            path = places.returned(self.flow, receiver, self.receiver, self.state)
        if path is None:
            return None
        is_object = self.receiver is not None and self.receiver.kind in (Kind.INSTANCE, Kind.UNKNOWN, Kind.CONTAINER)
        paths = self.flow.element_paths(path) if is_object else ()
        if len(paths) > 1 and self.receiver is not None and self.receiver.kind is Kind.INSTANCE:
            paths = paths[:1]  # of several objects of one class the first stands for all
        return paths[0] if len(paths) == 1 else self.flow.canonical(path)

    @property
    def module_path(self) -> str | None:
        """The path of the module whose method is called, also at the end of a chain: ``net.eval().cuda()``."""
        node: t.Expr = self.node
        while isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name in k.FLUENT_METHODS:
            node = node.func.value
        path = t.path_of(node)
        return self.flow.canonical(path) if path is not None else None

    @property
    def arguments(self) -> list[Value]:
        return [value for _, value in self.values]

    @property
    def first(self) -> Value | None:
        """The first positional argument."""
        return self.values[0][1] if self.values and self.values[0][0].keyword is None else None

    def value_of(self, keyword: str, position: int | None = None) -> Value | None:
        wanted = self.node.argument(keyword, position)
        return next((v for a, v in self.values if a.value is wanted), None) if wanted is not None else None

    def result(self, *extra: Root, kind: Kind = Kind.TENSOR, receiver: bool = True) -> Value:
        """The result of a differentiable call: the graphs of all that went in."""
        given = [self.as_target(arg, value, i) for i, (arg, value) in enumerate(self.values)]
        parts = [*([self.receiver] if receiver and self.receiver is not None else []), *given]
        result = recorded(combined(parts, kind).with_roots(*extra), self.state, self.node)
        site, is_off = lambda: self.flow.site(self.node), self.state.mode is Mode.OFF
        lost = unrecorded.of_operation(parts, result, site, is_off=is_off, name=self.node.name)
        return unrecorded.of_call(self.node, lost)

    def as_target(self, arg: t.Arg, value: Value, position: int) -> Value:
        """An argument as it enters the result: what a loss is compared with hardly ever carries a graph."""
        is_target = arg.keyword in k.TARGET_ARGUMENTS or (arg.keyword is None and position == 1)
        if not is_target or (not k.LOSS_CALLABLE.search(self.path) and "loss" not in self.path):
            return value
        data = frozenset(r for r in value.roots if r.source in (Source.PARAM, Source.PLACE))
        return value._replace(roots=value.roots - data, maybe=value.maybe | data)


def _looked_up(expr: t.Expr) -> str | None:
    """``self.*`` of ``self.get_buffer(name)``: one of the object's tensors, which one only the run knows."""
    func = expr.func if isinstance(expr, t.Call) else None
    looks = isinstance(func, t.Attribute) and func.name in ("get_buffer", "get_parameter")
    base = t.path_of(func.value) if looks and isinstance(func, t.Attribute) else None
    return f"{base}.*" if base is not None else None


def _through_in_place(receiver: t.Expr) -> t.Expr:
    """``x`` of ``x.mul_(0.9)``: an in-place method returns its own tensor."""
    while isinstance(receiver, t.Call) and isinstance(receiver.func, t.Attribute):
        if not receiver.func.name.endswith("_") or receiver.func.name.endswith("__"):
            break
        receiver = receiver.func.value
    return receiver

"""Histories of an object that are cut where they are read, and not where they are kept.

``self.pairs.append((s, y))`` in each step, and ``self.pairs[-m:]`` wherever they are used; in each forward
``torch.cat([self.past, x], 1)``, and ``self.past[:, -left:]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.one_handle import is_known_outside
from gradguard.static.mistakes.kept import CutWhenRead
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import leading_to, methods_of, reached

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_JOINING = frozenset("cat concat concatenate hstack vstack".split())
_SAME = frozenset("detach clone contiguous".split())
_MAKING = frozenset("list zeros empty new_zeros new_empty tensor".split())
_TOLD = frozenset("shape device dtype size numel dim ndim".split())
_ASKING = frozenset(("is", "is not", "not", "and", "or"))
_NUMBERS = frozenset("item float int".split())
_LEVELS = 3


def cut_when_read(flow: Flow) -> Iterator[CutWhenRead]:
    """Where a step of an optimizer, or the forward of a module, does so, and nothing ever begins the history anew."""
    owner, told = flow.ref.owner, set[str]()
    if owner is None or flow.facts.is_test or not _runs_each_step(flow):
        return
    methods = [method for method in methods_of(owner) if method.define.name != "__repr__"]
    for stmt in flow.ref.define.statements:
        name = _History.grown_by(flow.ref, stmt)
        if name is None or name in told or (owner.is_module and isinstance(stmt, t.Evaluate)):
            continue
        told.add(name)
        histories = [_History(method, name) for method in methods]
        if any(each.is_other for each in histories) or not any(each.reads_end for each in histories):
            continue
        emptying = [each.ref for each in histories if each.empties and each.ref.define.name != "__init__"]
        if not is_known_outside(flow, owner, name) and not any(_runs_again(flow, ref) for ref in emptying):
            yield CutWhenRead(flow.site(stmt), f"self.{name}")


def _runs_each_step(flow: Flow) -> bool:
    owner, name = flow.ref.owner, flow.ref.define.name
    if owner is None or owner.is_module:
        return owner is not None and name == "forward"
    return owner.is_optimizer and name in reached(methods_of(owner), ["step"]) and name != "__init__"


def _runs_again(flow: Flow, ref: FunctionRef, levels: int = _LEVELS) -> bool:
    """Whether a method may run more than once: a loop calls it, or something that does, or nobody who is seen."""
    own = leading_to(methods_of(ref.owner), [ref.define.name]) if ref.owner is not None else set[str]()
    if own & {"step", "forward"}:
        return True
    is_called = False
    for function in flow.project.written_calling(ref):
        if function.define is ref.define or function.define.name == "__init__":
            continue
        calls = [call for call in function.calls if call.name == ref.define.name]
        loops = (s for s in function.define.statements if isinstance(s, t.Repeat) and not _is_over_parts(s))
        inside = {id(node) for loop in loops for node in t.walk(loop.body)}
        if any(id(call) in inside for call in calls):
            return True
        if calls and (not levels or _runs_again(flow, function, levels - 1)):
            return True
        is_called |= bool(calls)
    return not is_called and ref.owner is not None


def _is_over_parts(loop: t.Repeat) -> bool:
    """``for layer in self.layers``."""
    return (t.path_of(loop.iterable) or "").startswith("self.") if loop.iterable is not None else False


class _History:
    """What a method does with an attribute of its object.

    Args:
        ref: the method.
        name: the attribute.
    """

    def __init__(self, ref: FunctionRef, name: str) -> None:
        self.ref, self.path = ref, f"self.{name}"
        self.reads_end = self.empties = self.is_other = False
        self.names, self.known = set[str](), set[t.Node]()
        if name not in ref.chunk.text:
            return
        bound = ((key, values) for key, values in ref.assigned.items() if key.isidentifier() and len(values) == 1)
        self.names = {key for key, values in bound if any(self._is_path(each) for each in _branches(values[0]))}
        self.known.update(each for key in self.names for each in _branches(ref.assigned[key][0]))
        for node in ref.define.nodes:
            self._use(node)
        mentions = [node for node in ref.define.nodes if self._is_it(node)]
        self.is_other |= any(node not in self.known for node in mentions)

    @staticmethod
    def grown_by(ref: FunctionRef, stmt: t.Stmt) -> str | None:
        """The attribute that a statement makes longer: ``self.past = torch.cat([self.past, x])``."""
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        func = call.func if isinstance(call, t.Call) and call.name == "append" and call.args else None
        if isinstance(call, t.Call) and isinstance(func, t.Attribute):
            path = t.path_of(func.value) or ""
            is_number = isinstance(call.args[0].value, t.Call) and call.args[0].value.name in _NUMBERS
            return path.removeprefix("self.") if _is_own(path) and not is_number else None
        path = t.path_of(stmt.targets[0]) or "" if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else ""
        if not isinstance(stmt, t.Assign) or not _is_own(path):
            return None
        name = path.removeprefix("self.")
        return name if _History(ref, name).is_longer(stmt.value) else None

    def is_longer(self, value: t.Expr) -> bool:
        """Whether an expression is all that there was, and more."""
        value = _plain(value)
        if not isinstance(value, t.Call) or value.name not in _JOINING or not value.args:
            return False
        parts = value.args[0].value
        return isinstance(parts, t.Display) and any(self._is_it(_plain(part)) for part in parts.items)

    def _is_path(self, node: t.Node) -> bool:
        return isinstance(node, t.Attribute) and t.path_of(node) == self.path

    def _is_it(self, node: t.Node) -> bool:
        return self._is_path(node) or (isinstance(node, t.Name) and node.id in self.names)

    def _use(self, node: t.Node) -> None:
        """Note the mentions in a node that read no more than the end."""
        if isinstance(node, t.Assign):
            for target, value in t.pairs(node.targets, node.value):
                if self._is_it(target):
                    self.known.add(target)
                    self._bind(target, value)
        elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name == "append":
            self.known.add(node.func.value)
        elif isinstance(node, t.Call) and t.path_of(node.func) == "len":
            self.known.update(arg.value for arg in node.args)
        elif isinstance(node, t.Call) and node.name in _JOINING and self.is_longer(node):
            self.known.update(_plain(part) for part in _parts(node))
        elif isinstance(node, t.Attribute) and node.name in _TOLD:
            self.known.add(node.value)
        elif isinstance(node, t.Operation) and node.operator in _ASKING:
            self.known.update(node.operands)
        elif isinstance(node, t.If | t.Conditional):
            self.known.add(node.test)
        elif isinstance(node, t.Subscript) and self._is_it(node.value) and _is_end(node.index):
            self.known.add(node.value)
            self.reads_end = True

    def _bind(self, target: t.Expr, value: t.Expr) -> None:
        if not self._is_path(target):
            return
        if not self.is_longer(value):
            self.empties |= _is_empty(value)
            self.is_other |= not _is_empty(value) and not self._is_first(value)

    def _is_first(self, value: t.Expr) -> bool:
        """Whether it may be the first one, where there was none: ``self.past = x``."""
        asks = any(
            isinstance(n, t.Operation) and n.operator == "is" and self._is_it(n.operands[0]) for n in self._nodes
        )
        return asks and isinstance(_plain(value), t.Name) and not self._is_it(_plain(value))

    @property
    def _nodes(self) -> tuple[t.Node, ...]:
        return self.ref.define.nodes


def _is_own(path: str) -> bool:
    return path.startswith("self.") and path.removeprefix("self.").isidentifier()


def _branches(value: t.Expr) -> list[t.Expr]:
    return [value.body, value.orelse] if isinstance(value, t.Conditional) else [value]


def _parts(call: t.Call) -> list[t.Expr]:
    parts = call.args[0].value
    return parts.items if isinstance(parts, t.Display) else []


def _plain(value: t.Expr) -> t.Expr:
    """``x`` of ``x.detach()``."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in _SAME:
        value = value.func.value
    return value


def _is_empty(value: t.Expr) -> bool:
    if isinstance(value, t.Constant):
        return value.value is None
    if isinstance(value, t.Display):
        return not value.items
    return isinstance(value, t.Call) and value.name in _MAKING


def _is_end(index: t.Expr) -> bool:
    """``[-n:]``, ``[:, -n:]``, ``[..., -n:]``, ``[-1]``."""
    if not isinstance(index, t.Slice):
        return isinstance(index, t.Operation) and index.operator == "-" and len(index.operands) == 1
    ends = [each for each in index.bounds if isinstance(each, tuple) and str(each[0]).startswith("-") and each[1] == ""]
    whole = [each for each in index.bounds if each == ("", "") or each is ...]
    return len(ends) == 1 and len(ends) + len(whole) == len(index.bounds)
